"""The scripts in tools: each helps without PyTorch, and answers whatever a person does with a sentence and an exit code.

Processes that are forked from this one, which has loaded the scripts, take a hundredth of the time of new ones.
"""

import argparse
import contextlib
import errno
import faulthandler
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = [path for path in sorted((ROOT / "tools").glob("*.py")) if path.name != "setup.py"]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/cli")]

import numpy as np  # noqa: E402

from tern import script  # noqa: E402
from tern.errors import ConvertError  # noqa: E402

FABLE = ROOT / "models" / "fable.bin"
# What each script needs to begin its work.
USUAL = {
    "bench_convert": ["folder"], "bench_tokenizer": ["text", "text"], "check_reference": ["text", "--tokenizer", "text", "--text", "text"],
    "check_tokenizer": ["text"], "convert": ["text", "out.bin"], "get": ["a/b"], "plot_bench": ["text"],
    "regroup": [FABLE, "-o", "folder", "--kv-heads", "2"], "split": [FABLE, "-n", "2"], "train": ["credits"], "verify": [FABLE, "text"],
}  # fmt: skip
MISSING, WRONG = "No such file or directory", "folder/nothing"
# Script, arguments, exit code, what the sentence says. The files: setUpClass.
MISTAKES = [
    ("bench_convert", [WRONG], 4, MISSING),
    ("bench_convert", ["junk"], 4, "Not a directory"),
    ("bench_convert", ["folder", "--model", WRONG], 4, MISSING),
    ("bench_convert", ["folder", "--rounds", "0"], 2, "0 is less than 1"),
    ("bench_tokenizer", [WRONG, "text"], 4, MISSING),
    ("bench_tokenizer", ["junk", "text"], 3, "is no tokenizer that is known here"),
    ("bench_tokenizer", ["folder", "text"], 3, "has no tokenizer"),
    ("bench_tokenizer", ["cut.json", "text"], 3, "is not JSON"),
    ("check_reference", [WRONG, "--tokenizer", "text", "--text", "text"], 4, MISSING),
    ("check_reference", ["junk", "--tokenizer", "text", "--text", "text"], 3, "not a llama2.c checkpoint"),
    ("check_reference", ["empty", "--tokenizer", "text", "--text", "text"], 3, "has 0 bytes"),
    ("check_tokenizer", [FABLE], 2, "--source names the tokenizer"),
    ("check_tokenizer", [FABLE, "--source", "junk"], 3, "is no tokenizer"),
    ("check_tokenizer", [WRONG], 4, MISSING),
    ("check_tokenizer", ["text", "--strings", "-1"], 2, "less than 0"),
    ("convert", ["text"], 2, "name the weights file to write"),
    ("convert", ["./nothing", "out.bin"], 4, "nothing"),
    ("convert", ["empty", "out.bin"], 3, "empty"),
    ("golden", ["--tokens", "0"], 2, "0 is less than 1"),
    ("machines_cost", ["--read", "0"], 2, "0 is less than 0.1"),
    ("machines_cost", ["-o", "a.txt"], 2, "ends with .svg or .png"),
    ("make_test_vocabs", ["nope"], 2, "no vocabulary nope; known: gpt2"),
    ("plot_bench", [WRONG], 4, MISSING),
    ("plot_bench", ["folder"], 4, "Is a directory"),
    ("plot_bench", ["junk"], 3, "not text"),
    ("plot_bench", ["empty"], 3, "no results in it"),
    ("plot_bench", ["text", "-o", "a.txt"], 2, "ends with .svg or .png"),
    ("regroup", [WRONG, "-o", "folder", "--kv-heads", "2"], 4, MISSING),
    ("regroup", ["junk", "-o", "folder", "--kv-heads", "2"], 3, "is not a weights file"),
    ("regroup", ["empty", "-o", "folder", "--kv-heads", "2"], 3, "is not a weights file"),
    ("regroup", ["cut.bin", "-o", "folder", "--kv-heads", "2"], 3, "cut.bin"),
    ("regroup", [FABLE, "-o", "junk", "--kv-heads", "2"], 4, "File exists"),
    ("regroup", [FABLE, "-o", "folder", "--kv-heads", "3"], 2, "want a divisor or a multiple"),
    ("regroup", [FABLE, "-o", "folder", "--kv-heads", "2,x"], 2, "'2,x'"),
    ("regroup", [FABLE, "-o", "folder", "--kv-heads", "2", "--text", WRONG], 4, MISSING),
    ("regroup", [FABLE, "-o", "folder", "--kv-heads", "2", "--plot", "a.svg"], 2, "--plot needs --text"),
    ("split", [FABLE, "-n", "0"], 2, "0 is less than 1"),
    ("train", [], 2, "required: command"),
    ("train", ["credits", "--text", "latin"], 3, "credits.tsv is damaged"),
    ("train", ["credits", "--text", "folder"], 4, MISSING),
    ("train", ["prepare", "--text", "folder", "--work", "folder/work"], 4, MISSING),
    ("verify", [FABLE, WRONG], 4, MISSING),
    ("verify", [FABLE, "folder"], 4, "Is a directory"),
    ("verify", [FABLE, "junk"], 3, "is not a file of numpy.savez"),
    ("verify", [FABLE, "cut.npz"], 3, "cut.npz"),
    ("verify", [FABLE, "other.npz"], 3, "lacks tokens or positions"),
    ("verify", [WRONG, "probes.npz"], 4, "no such file"),
    ("verify", ["junk", "probes.npz"], 3, "junk"),
    ("verify", [FABLE, "probes.npz", "--threads", "x"], 2, "invalid number value"),
    ("verify", [FABLE, "probes.npz", "--bound", "x"], 2, "invalid float value"),
]  # fmt: skip


def times() -> dict[Path, int]:
    """When each file that a script may write was changed."""
    folders = ROOT / "src" / "text", ROOT / "tests" / "golden", ROOT / "tests" / "fuzz" / "corpus"
    return {path: path.stat().st_mtime_ns for folder in folders for path in folder.rglob("*") if path.is_file()}


def raiser(error: BaseException):
    def work(_: argparse.Namespace) -> None:
        raise error

    return work


def printing(_: argparse.Namespace) -> None:
    print("a line")


class Scripts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.modules = {path.stem: importlib.import_module(path.stem) for path in SCRIPTS}
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.enterClassContext(contextlib.chdir(cls.folder))
        Path("folder").mkdir()
        Path("latin").mkdir()
        Path("latin", "credits.tsv").write_bytes(b"caf\xe9\n")
        Path("empty").touch()
        Path("junk").write_bytes(bytes(range(128, 256)) * 40)
        Path("text").write_text("some words\n")
        Path("cut.json").write_text('{"model": {')
        Path("cut.bin").write_bytes(FABLE.read_bytes()[:1000])
        np.savez("probes.npz", tokens=np.int32([1, 2]), positions=np.int32([0]), logits=np.ones((1, 4), np.float32))
        np.savez("other.npz", other=np.ones(3))
        Path("cut.npz").write_bytes(Path("probes.npz").read_bytes()[:-30])

    def fork(self, name: str, arguments: list, work=None, out: int | None = None, killed: int = 0) -> tuple[int, str, str]:
        """Exit code, output and errors of a script as a process of its own. `work` takes the place of its run(); standard output is
        closed (out: -1) or goes to a file; the process gets a signal as soon as work begins."""
        module, pipes = self.modules[name], (os.pipe(), os.pipe())
        child = os.fork()
        if not child:
            code = 120
            try:
                os.dup2(pipes[0][1] if out is None else max(out, 0), 1)
                os.dup2(pipes[1][1], 2)
                os.closerange(3, 1024)  # so that a pipe ends with this process
                if out == -1:
                    os.close(1)
                sys.stdin, sys.stdout, sys.stderr = open(0), None if out == -1 else open(1, "w"), open(2, "w")
                faulthandler.dump_traceback_later(60, exit=True, file=2)  # says where it hangs
                sys.argv = [f"{name}.py", *map(str, arguments)]
                script.prepare_output()
                module.run = work or module.run
                script.run(module.main)
            except SystemExit as e:
                code = e.code
                sys.stdout.flush()
            except BaseException as e:
                os.write(2, f"Traceback: {e!r}".encode())
            sys.stderr.flush()
            os._exit(code)
        for _, end in pipes:
            os.close(end)
        said = []
        for begin, _ in pipes:
            with open(begin, errors="replace") as f:
                if killed and not said:
                    f.readline()
                    os.kill(child, killed)
                said.append(f.read())
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), *said

    def sentence(self, name: str, said: str) -> str:
        """The one line of a program."""
        self.assertNotIn("Traceback", said)
        self.assertRegex(said, rf"\A{name}\.py: [^\n]+\n\Z")
        return said

    def test_help(self):
        """By real processes, without PyTorch; and only helps."""
        Path(self.folder, "folder", "torch.py").write_text("raise ModuleNotFoundError('No module named torch')\n")
        before = times()
        self.assertGreater(len(SCRIPTS), 10)
        for path in SCRIPTS:
            with self.subTest(path.name):
                self.assertTrue(os.access(path, os.X_OK))
                done = subprocess.run(
                    [sys.executable, path, "--help"], capture_output=True, text=True, timeout=120,
                    stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(self.folder / "folder")},
                )  # fmt: skip
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertRegex(done.stdout, rf"\Ausage: {path.name} ")
                self.assertRegex(done.stdout, rf"\n    tools/{path.name}\b")
                self.assertRegex(done.stdout, rf"\nExample: .*tools/{path.name}\b")
                self.assertIn("Exit codes: 0 done,", done.stdout)
        self.assertEqual([path for path, time in times().items() if before.get(path) != time], [])

    def test_an_option_that_there_is_not(self):
        for name in self.modules:
            with self.subTest(name):
                code, out, err = self.fork(name, ["--nope"])
                self.assertEqual((code, out), (2, ""))
                self.assertRegex(err, rf"\Ausage: {name}\.py [^^]*\n{name}\.py: error: [^\n]+\n\Z")

    def test_mistakes(self):
        for name, arguments, code, says in MISTAKES:
            with self.subTest(f"{name}.py {arguments}"):
                got, _, err = self.fork(name, arguments)
                self.assertNotIn("Traceback", err)
                last = err.splitlines()[-1]
                self.assertEqual((got, last.startswith(f"{name}.py: ")), (code, True), err)
                self.assertIn(says, last)
        self.assertFalse(list(self.folder.rglob("*.tmp")))

    def test_what_goes_wrong_is_a_sentence(self):
        full = OSError(errno.ENOSPC, "No space left on device", "out.bin")
        for name in self.modules:
            with self.subTest(name):
                usual = USUAL.get(name, [])
                for error, code, says in (
                    (ConvertError("bad", 3), 3, "bad"), (full, 4, "out.bin: No space left on device"), (MemoryError(), 5, "not enough memory"),
                    (ImportError("No module named 'x'"), 2, "No module named 'x'; install the packages of /.*/tools/requirements.*txt"),
                    (subprocess.CalledProcessError(9, ["make", "x"]), 4, "make x failed with exit code 9"),
                    (BrokenPipeError(errno.EPIPE, "Broken pipe"), 4, "has ended too early"),
                ):  # fmt: skip
                    got, out, err = self.fork(name, usual, raiser(error))
                    self.assertEqual((got, out), (code, ""))
                    self.assertRegex(self.sentence(name, err), says)

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            for name in self.modules:
                with self.subTest(name):
                    usual = USUAL.get(name, [])
                    for arguments, work in ((["--help"], None), (usual, printing)):
                        code, _, err = self.fork(name, arguments, work, full.fileno())
                        self.assertEqual(code, 4)
                        self.assertIn("standard output: No space left on device", self.sentence(name, err))

    def test_a_reader_who_has_left(self):
        """Or was never there: standard output is closed."""
        begin, end = os.pipe()
        os.close(begin)
        for name in self.modules:
            with self.subTest(name):
                usual = USUAL.get(name, [])
                for arguments, work in ((["--help"], None), (usual, printing)):
                    for out in (end, -1):
                        self.assertEqual(self.fork(name, arguments, work, out), (0, "", ""))
        os.close(end)

    def test_signals(self):
        def work(_: argparse.Namespace) -> None:
            print("begun", flush=True)
            while True:  # not signal.pause, which does not see a signal of just before
                time.sleep(0.05)

        for name in self.modules:
            with self.subTest(name):
                usual = USUAL.get(name, [])
                for number in script.STOPS:
                    self.assertEqual(self.fork(name, usual, work, killed=number), (128 + number, "", ""))


if __name__ == "__main__":
    unittest.main()
