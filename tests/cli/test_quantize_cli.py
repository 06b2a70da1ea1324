"""The program quantize, driven as people drive it."""
# run-tests: long

import os
import pty
import random
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest
import unittest.mock
from pathlib import Path

import numpy as np
from cli_case import Cli, processor_seconds, until, write_model

from tern.weights import keys
from tern.weights import writer as weights
from tern.weights.reader import WeightsFile

QUANTIZE = os.environ.get("QUANTIZE", "./quantize")
FABLE = Path(__file__).resolve().parents[2] / "models" / "fable.bin"
OPENINGS = ("The cat", "One day", "Mom", "A boy", "Once upon a time", "The sun", "In the forest",
            "Tom", "Lily", "There was", "The king", "Ben and Sam", "A little bird", "The old man")  # fmt: skip


def perplexity(printed: str) -> float:
    """The number after the word in what run --perplexity prints."""
    return float(re.search(r"perplexity:? +([0-9.]+)", printed)[1])


def with_golden_logits(path: Path, bound: float) -> None:
    """Adds vectors to a toy whose golden logit is far from what the model says."""
    vectors = keys.pack({
        "logits.tokens": keys.U32s([1, 5, 9]), "logits.ids": keys.U32s([4, 7]),
        "logits.values": np.array([3.0, -9.0], np.float32), "logits.bound": bound,
    })  # fmt: skip
    write = weights.write

    def write_more(out, sections, tensors):
        write(out, {**sections, "vectors": vectors}, tensors)

    with unittest.mock.patch.object(weights, "write", write_more):
        write_model(path, 64)


class Quantize(Cli):
    def call(self, *args) -> subprocess.CompletedProcess:
        return subprocess.run([QUANTIZE, *map(str, args)], capture_output=True, timeout=300)

    def refused(self, code: int, *args) -> str:
        done = self.call(*args)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertRegex(done.stderr.decode(), r"\Aquantize: [^\n]+\n\Z")
        return done.stderr.decode()

    def test_the_result_proves_itself(self):
        for kind in ("q8", "q4", "q4c"):
            out = self.dir / f"{kind}.bin"
            done = self.call(self.model, out, kind)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            lines = done.stdout.decode().splitlines()
            self.assertEqual(lines[0].split()[:3], ["tensor", "from", "to"])
            self.assertEqual(lines[1].split()[:4], ["embed", "f32", "->", kind])
            self.assertEqual(len(lines), 1 + 20 + 1)
            self.assertLess(out.stat().st_size, Path(self.model).stat().st_size / 2)
            report = self.good(out, "--selftest").decode()
            self.assertIn("seal       equal bit for bit", report)
            self.good(out, "--check")
            self.assertIn(kind, self.good(out, "--info").decode())

    def test_only_a_regular_file_other_than_the_source_is_replaced(self):
        before = Path(self.model).read_bytes()
        self.assertIn("the file that is read", self.refused(2, self.model, self.model, "q8"))
        self.assertEqual(Path(self.model).read_bytes(), before)
        link, pipe = self.dir / "link.bin", self.dir / "pipe"
        link.symlink_to(self.model)
        os.mkfifo(pipe)
        for path in (link, pipe, self.dir, "/dev/null"):
            self.assertIn("no regular file", self.refused(2, self.model, path, "q8"))
        self.assertTrue(link.is_symlink() and pipe.is_fifo())
        self.assertIn("needs a name", self.refused(2, self.model, "", "q8"))

    def test_options_may_stand_anywhere_in_every_spelling(self):
        want = self.dir / "want.bin"
        self.assertEqual(self.call(self.model, want, "q8", "-q").returncode, 0)
        for i, args in enumerate((["-t4", "--quiet"], ["--threads=4", "-q"], ["-q", "--threads", 1])):
            out = self.dir / f"spelled{i}.bin"
            done = self.call(*args, self.model, out, "--", "q8")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))
            self.assertEqual(out.read_bytes(), want.read_bytes())

    def test_same_bytes_for_any_number_of_threads(self):
        for kind in ("q4", "q4c"):
            files = [self.dir / f"{kind}-t{n}.bin" for n in (1, 2, 5)]
            for n, file in zip((1, 2, 5), files):
                self.assertEqual(self.call(self.model, file, kind, "-t", n, "-q").stdout, b"")
            self.assertEqual(len({file.read_bytes() for file in files}), 1)

    def test_same_bytes_for_any_target(self):
        """Of those that this machine can run; another name is refused before anything is written."""
        text, want = self.dir / "tiny.txt", None
        text.write_bytes(b"One day a cat sat on a mat. The dog saw it and ran away.")
        for name in (None, "plain", "ref", "avx2", "neon"):
            out = self.dir / f"by-{name}.bin"
            done = self.call(FABLE, out, "q4", "--calibrate", text, "-q", *([] if name is None else ["--cpu", name]))
            if done.returncode == 2:  # it has no such instructions
                self.assertRegex(done.stderr, rb"the cpu target '(avx2|neon)'; it can run: |is not one of plain\|ref")
                continue
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            want = want or out.read_bytes()
            self.assertEqual(out.read_bytes(), want)
        for more in (["q8"], ["q4", "--calibrate", text]):
            self.assertIn("--cpu: 'sse' is not one of plain|ref", self.refused(2, FABLE, self.dir / "none.bin", *more, "--cpu", "sse"))
        self.assertEqual(list(self.dir.glob("none*")), [])

    def test_codes_fitted_to_a_text(self):
        text, other = self.dir / "text.txt", self.dir / "other.txt"
        tell = [self.good(FABLE, opening, "-n", "250", "--seed", "1") for opening in OPENINGS]
        text.write_bytes(b"\n\n".join(tell[:-3]))
        other.write_bytes(b"\n\n".join(tell[-3:]))
        nll = {}
        for name, kind, *options in (
            ("plain", "q4"), ("fitted", "q4", "--calibrate", text),
            ("kept", "q4", "--keep-q8", "head,down", "--calibrate", text), ("table", "q4c", "--calibrate", text),
        ):  # fmt: skip
            out = self.dir / f"{name}.bin"
            done = self.call(FABLE, out, kind, *options)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertRegex(done.stdout.decode().splitlines()[-1], r"[45]\.\d{3} bits a weight$")
            self.good(out, "--check")
            self.good(out, "--selftest")
            nll[name] = perplexity(self.good(out, "--perplexity", other).decode())
        best = perplexity(self.good(FABLE, "--perplexity", other).decode())
        self.assertLess(nll["fitted"], nll["plain"])
        self.assertLess(abs(nll["kept"] - best), abs(nll["fitted"] - best))
        self.assertLess(nll["table"], nll["plain"])
        two = self.dir / "two.bin"
        self.assertEqual(self.call(FABLE, two, "q4", "--calibrate", text, "-t", 1, "-q").stdout, b"")
        self.assertEqual(two.read_bytes(), (self.dir / "fitted.bin").read_bytes())

    def test_it_says_at_once_what_it_does(self):
        """On a terminal, before a tensor is done."""
        text, folder = self.dir / "calibration.txt", self.dir / "shown"
        folder.mkdir()
        text.write_bytes(b"One day a cat sat on a mat. " * 2000)
        for more, words in (([], b"reading "), (["--calibrate", str(text)], b"running the model over ")):
            pid, fd = pty.fork()
            if pid == 0:
                os.execv(QUANTIZE, [QUANTIZE, str(FABLE), str(folder / "shown.bin"), "q4", *more])
            self.assertEqual(os.read(fd, len(words)), words)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(fd)

    def test_a_signal_ends_it_at_once_and_leaves_nothing(self):
        """At any time: a calibration works for many seconds between two tensors."""
        folder = self.dir / "stopped"
        folder.mkdir()
        source, text = folder / "source.bin", folder / "text.txt"
        text.write_bytes(b"One day a cat sat on a mat. The dog saw it and ran away. " * 12000)
        for number, pauses in ((signal.SIGINT, (0, 0.3, 1)), (signal.SIGTERM, (0.5,)), (signal.SIGHUP, (0.5,)),
                               (signal.SIGBUS, (0.5,)), (signal.SIGQUIT, (0.3,))):  # fmt: skip
            for pause in pauses:
                shutil.copyfile(FABLE, source)
                p = subprocess.Popen(
                    [QUANTIZE, source, folder / "out.bin", "q4c", "--calibrate", text, "-q"], stderr=subprocess.PIPE,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
                )  # fmt: skip
                self.addCleanup(p.stderr.close)
                until(lambda: len(list(folder.iterdir())) == 3)  # the temporary file is there
                time.sleep(pause)
                before = processor_seconds(p)
                if number == signal.SIGBUS:
                    os.truncate(source, 100000)
                else:
                    p.send_signal(number)
                _, status, used = os.wait4(p.pid, 0)
                p.returncode = os.waitstatus_to_exitcode(status)
                ends = {signal.SIGBUS: 4, signal.SIGQUIT: -signal.SIGQUIT}
                self.assertEqual(p.returncode, ends.get(number, 128 + number))
                if number != signal.SIGBUS:  # which comes when the file is read next
                    self.assertLess(used.ru_utime + used.ru_stime - before, 1)
                self.assertEqual({f.name for f in folder.iterdir()}, {"source.bin", "text.txt"})

    def test_a_signal_ends_what_does_not_look_for_it(self):
        """A word of 20 MB is tokenized for ten seconds and more. A second is given, then the program ends."""
        folder = self.dir / "hurried"
        folder.mkdir()
        text = folder / "text.txt"
        text.write_bytes(random.Random(1).randbytes(20_000_000).translate(b"etaoinsh" * 32))
        p = subprocess.Popen([QUANTIZE, FABLE, folder / "out.bin", "q4c", "--calibrate", text, "-q"])
        until(lambda: processor_seconds(p) > 1)
        before = processor_seconds(p)
        p.send_signal(signal.SIGTERM)
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(p.returncode, 128 + signal.SIGTERM)
        self.assertLess(used.ru_utime + used.ru_stime - before, 2)
        self.assertEqual({f.name for f in folder.iterdir()}, {"text.txt"})

    def test_wrong_calibration(self):
        out, empty = self.dir / "never4.bin", self.dir / "empty.txt"
        empty.write_bytes(b"")
        self.assertIn("is empty", self.refused(2, FABLE, out, "q4", "--calibrate", empty))
        self.assertIn("none.txt", self.refused(4, FABLE, out, "q4", "--calibrate", self.dir / "none.txt"))
        self.assertIn("of no use for q8", self.refused(2, self.model, out, "q8", "--calibrate", self.model))
        self.assertIn("--calibrate needs a value: FILE", self.refused(2, self.model, out, "q4", "--calibrate"))
        self.assertIn("--keep-q8 needs a value: LIST", self.refused(2, self.model, out, "q4", "--keep-q8"))
        self.assertIn("named 'x'", self.refused(2, self.model, out, "q4", "--keep-q8", "down,x"))
        self.assertFalse(out.exists())

    def test_twice(self):
        file, eight, four = (self.dir / f"{name}.bin" for name in ("twice", "twice8", "twice4"))
        write_model(file, 256)
        self.assertEqual(self.call(file, eight, "q8").returncode, 0)
        self.assertIn("no matrix of it has more bits than q8", self.refused(2, eight, four, "q8"))
        self.assertEqual(self.call(eight, four, "q4").returncode, 0)
        self.good(four, "--selftest")

    def test_the_bound_of_golden_logits_is_measured(self):
        source, out = self.dir / "golden.bin", self.dir / "golden8.bin"
        with_golden_logits(source, 1e-4)
        self.assertIn("golden logits", self.run_it(source, "--selftest").stderr.decode())
        self.assertEqual(self.call(source, out, "q8").returncode, 0)
        self.assertIn("logits", self.good(out, "--selftest").decode())
        self.assertGreater(WeightsFile(out).keys("vectors")["logits.bound"], 0.01)
        with_golden_logits(source, 1000.0)
        self.assertEqual(self.call(source, out, "q8").returncode, 0)
        self.assertEqual(WeightsFile(out).keys("vectors")["logits.bound"], 1000.0)

    def test_wrong_arguments(self):
        a, b = self.model, self.dir / "never.bin"
        self.assertIn("three arguments", self.refused(2))
        self.assertIn("three arguments", self.refused(2, a, b))
        self.assertIn("'x' is one argument too many", self.refused(2, a, b, "q8", "x"))
        for name in ("q5", "f32", "f16", "q", "q8|q4", "", "Q8"):
            self.assertIn(f"must be one of q8|q4|q4c, not '{name}'", self.refused(2, a, b, name))
        self.assertIn("unknown option '--type'", self.refused(2, a, b, "--type", "q8"))
        for n in ("0", "-1", "x", "", "1025", "99999999999999999999"):
            self.assertIn("is not an integer from 1 to 1024", self.refused(2, a, b, "q8", "-t", n))
        self.assertIn("-t needs a value: N", self.refused(2, a, b, "q8", "-t"))
        for wrong, right in (("--thread", "--threads"), ("--qiet", "--quiet"), ("-calibrate", "--calibrate")):
            self.assertIn(f"did you mean {right}?", self.refused(2, a, b, "q8", wrong))
        self.assertFalse(b.exists())
        for option in ("--help", "-h", "--version"):
            done = self.call(option)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertGreater(len(done.stdout), 10)
        page = (FABLE.parent.parent / "src/app/quantize/tern-quantize.1").read_text()
        for name in re.findall(r"--([a-z][a-z0-9-]+)", self.call("--help").stdout.decode()):
            self.assertIn(f"Fl -{name}", page)

    def test_files_that_do_not_serve(self):
        out = self.dir / "kept.bin"
        out.write_bytes(b"what was there")
        bad = self.dir / "bad.bin"
        bad.write_bytes(Path(self.model).read_bytes()[:-1])
        self.assertIn("bad.bin: it is cut", self.refused(3, bad, out, "q8"))
        bad.write_bytes(b"GGUF" + bytes(100))
        self.assertIn("tools/convert.py", self.refused(3, bad, out, "q8"))
        self.assertIn("is a folder", self.refused(3, self.dir, out, "q8"))
        self.assertIn("cannot open", self.refused(4, self.dir / "none.bin", out, "q8"))
        self.assertIn("cannot create", self.refused(4, self.model, self.dir / "none/x.bin", "q8"))
        damaged = bytearray(Path(self.model).read_bytes())
        damaged[-1] ^= 1
        bad.write_bytes(damaged)
        self.assertIn("'final_norm' do not have the checksum", self.refused(3, bad, out, "q8"))
        self.assertEqual(out.read_bytes(), b"what was there")
        self.assertEqual(list(self.dir.glob("*.tmp")), [])
        self.assertEqual(list(self.dir.parent.glob(self.dir.name + ".*.tmp")), [])

    def test_standard_output_that_is_full(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [QUANTIZE, self.model, self.dir / "full.bin", "q8"], stdout=full, stderr=subprocess.PIPE
            )
        self.assertEqual(done.returncode, 4, done.stderr)


if __name__ == "__main__":
    unittest.main()
