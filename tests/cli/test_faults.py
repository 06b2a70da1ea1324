"""Every call of the system fails in turn in whole programs: memory, and what opens, reads, writes, syncs, renames, closes
or maps a file. A program ends with success and the same output, or with one sentence and a documented exit code; it leaves
no temporary file, and a file that it replaces is whole, the old one or the new one.

A command of many calls fails some of them; all with FAULTS=all. ADDING A COMMAND: a test."""

import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from cli_case import RUN, Cli

QUANTIZE, BENCH = os.environ.get("QUANTIZE", "./quantize"), os.environ.get("BENCH", "./bench")
SOME = 10_000 if os.environ.get("FAULTS") else 12  # points of each kind
SHAPE = "dim=32,hidden=32,layers=1,heads=2,kv_heads=1,head_dim=16,vocab=64,tied"


@unittest.skipUnless(sys.platform == "linux", "LD_PRELOAD is Linux's")
class Faults(Cli):
    def setUp(self):
        if b"__asan_init" in Path(RUN).read_bytes() or b"__msan_init" in Path(RUN).read_bytes():
            self.skipTest("sanitizers have an allocator of their own")
        self.env = os.environ | self.shim("fault_shim.c")
        self.room = self.dir / "room"  # where a command works
        shutil.rmtree(self.room, ignore_errors=True)
        self.room.mkdir()
        self.env |= {"HOME": str(self.room), "XDG_STATE_HOME": str(self.room), "TMPDIR": str(self.room)}

    def once(self, kind: str, at: int, rest: bool, command: list, stdin: bytes) -> tuple[subprocess.CompletedProcess, str]:
        """The program, and the log of what failed and how many calls there were."""
        log = self.dir / "log"
        log.unlink(missing_ok=True)
        env = self.env | {"FAULT_LOG": str(log), "FAULT_CALLS": kind, "FAULT_AT": str(at)} | ({"FAULT_REST": "1"} if rest else {})
        done = subprocess.run(list(map(str, command)), input=stdin, capture_output=True, timeout=120, env=env)
        return done, log.read_text() if log.exists() else ""

    def contents(self) -> dict[str, bytes]:
        return {str(p.relative_to(self.room)): p.read_bytes() for p in self.room.rglob("*") if p.is_file()}

    def restore(self, files: dict[str, bytes]) -> None:
        for name in self.contents().keys() - files.keys():
            (self.room / name).unlink()
        for name, data in files.items():
            (self.room / name).write_bytes(data)

    def whole(self, name: str, data: bytes) -> bool:
        """Whether it is a session that can be gone on from: a text may end early, because it could not be written."""
        copy = self.dir / "copy"
        copy.write_bytes(data)
        return name in ("old", "new") and self.run_it(self.model, "-n", 1, "-q", "--session", copy).returncode == 0

    def sweep(self, *command, stdin: bytes = b"", same: bool = True, ends: bool = True, some: int = SOME) -> None:
        """`same`: a success has the output of the unharmed run; `ends`: a failure ends the program with its one sentence."""
        program, before = Path(command[0]).name, self.contents()
        for kind in ("memory", "files"):
            self.restore(before)
            whole, log = self.once(kind, 0, False, command, stdin)
            self.assertEqual(whole.returncode, 0, whole.stderr)
            after, all_ = self.contents(), int(log.split()[-1])
            points = range(1, all_ + 1, 1 + all_ // some)
            failed = 0
            for at, rest in [(at, False) for at in points] + [(min(at + points.step // 2, all_), True) for at in points]:
                self.restore(before)
                done, log = self.once(kind, at, rest, command, stdin)
                where = f"{kind} {at}{'+' if rest else ''} of {all_} ({log.split()[0] if log else ''}): {done}"
                self.assertIn(done.returncode, (0, 2, 3, 4, 5, 6), where)
                failed += done.returncode != 0
                text = done.stderr.decode()
                if done.returncode and ends:
                    self.assertRegex(text, rf"\A(.*\n)*{program}: [^\n]+\n\Z", where)
                    self.assertEqual(len(re.findall(rf"^{program}: ", text, re.M)), 1, where)
                    self.assertIn(done.returncode, (5,) if kind == "memory" else (4, 5), where)
                elif same:
                    self.assertEqual(done.stdout, whole.stdout, where)
                left = self.contents()
                self.assertLessEqual(left.keys(), before.keys() | after.keys(), where)
                self.assertLessEqual(before.keys(), left.keys(), where)
                for name, data in left.items():
                    self.assertTrue(data in (before.get(name), after.get(name)) or self.whole(name, data), f"{name} is torn; {where}")
                if done.returncode == 0 and same:
                    self.assertEqual(left, after, where)
            self.assertGreater(failed, 0)
            print(f"{' '.join(Path(str(c)).name for c in command)[:60]}: {all_} calls of {kind}, {failed} failures")

    def run_sweep(self, *arguments, **more) -> None:
        self.sweep(RUN, self.model, *arguments, "-t", 1, **more)

    def test_generate(self):
        self.run_sweep("Hello", "-n", 4, "-s", 1, "-q")
        self.run_sweep("Hello Hello", "-n", 4, "-s", 1, "-q", "--draft", self.model, "--lookup", "--cache-type", "q8")

    def test_session(self):
        self.good(self.model, "Hello", "-n", 4, "-s", 1, "--session", self.room / "old")
        self.run_sweep("Hello", "-n", 4, "-s", 1, "-q", "--session", self.room / "new")
        self.run_sweep("-n", 4, "-s", 1, "-q", "--session", self.room / "old")

    def test_chat(self):
        (self.room / "talk").write_text('{"role": "user", "content": "a"}\n{"role": "assistant", "content": "b"}\n')
        lines = f"Hello\n/save {self.room}/new\n/load {self.room}/talk\n/save {self.room}/talk\nBye\n/bye\n".encode()
        self.run_sweep("--chat", "--template", "chatml", "-n", 4, "-s", 1, "-q", stdin=lines, same=False, ends=False, some=100)

    def test_measure_and_look(self):
        text = self.room / "text"
        text.write_text("Once upon a time there was a cat. " * 4)
        self.run_sweep("--perplexity", text, "-q")
        self.run_sweep("--tokenize", "Hello", "-q")
        self.run_sweep("--check")
        self.run_sweep("--info", same=False)

    def test_quantize(self):
        small = self.room / "small.bin"
        text = self.room / "text"
        text.write_text("Once upon a time there was a cat. ")
        self.sweep(QUANTIZE, self.model, small, "q8", "-q", "-t", 1)
        small.write_text("old")
        self.sweep(QUANTIZE, self.model, small, "q4", "-q", "-t", 1, "--calibrate", text)

    def test_bench(self):
        common = ["-p", 2, "-n", 1, "-r", 1, "-t", 1, "--no-warmup", "--no-limits"]
        self.sweep(BENCH, self.model, *common, same=False)
        self.sweep(BENCH, "--shape", SHAPE, "--type", "q8", *common, "-o", "json", same=False)


if __name__ == "__main__":
    unittest.main()
