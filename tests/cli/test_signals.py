"""The program run with pipes, terminals, full disks and signals."""

import fcntl
import os
import pty
import random
import shutil
import signal
import struct
import subprocess
import termios
import unittest

from cli_case import ROOT, RUN, Cli, catches, processor_seconds, state, until


BENCH = os.environ.get("BENCH", "./bench")
FABLE = ROOT / "models" / "fable.bin"


class Streams(Cli):
    def shell(self, line: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["bash", "-c", line], capture_output=True, timeout=240, stdin=subprocess.DEVNULL,
            env={**os.environ, "RUN": RUN, "M": self.model, "L": self.long},
        )  # fmt: skip

    def test_reader_that_goes_away(self):
        done = self.shell('"$RUN" "$L" $\'one\\ntwo\' --ignore-eos | head -1; echo ${PIPESTATUS[0]}')
        self.assertEqual(done.stdout, b"one\n0\n")
        self.assertEqual(done.stderr, b"")
        done = self.shell('"$RUN" --help | true; echo ${PIPESTATUS[0]}')
        self.assertEqual((done.stdout, done.stderr), (b"0\n", b""))

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_full_disk(self):
        for job in ('"$M" x', "--help", '"$M" --info', '"$M" --tokenize abc'):
            done = self.shell(f'"$RUN" {job} > /dev/full')
            self.assertEqual(done.returncode, 4, job)
            self.assertRegex(done.stderr.splitlines()[-1], rb"run: standard output: cannot write: ")

    def test_closed_descriptors(self):
        want = self.good(self.model, "x", "-n", 9, "-s", 1, "-q")
        done = self.shell('"$RUN" "$M" x -n 9 -s 1 -q <&-')
        self.assertEqual((done.returncode, done.stdout), (0, want))
        done = self.shell('"$RUN" "$M" x -n 9 -s 1 2>&-')
        self.assertEqual((done.returncode, done.stdout), (0, want))
        done = self.shell('"$RUN" "$M" x -n 9 -s 1 >&-')
        self.assertEqual((done.returncode, done.stdout), (0, b""))
        done = self.shell('"$RUN" "$M" x -n 9 -s 1 <&- >&- 2>&-')
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.shell('"$RUN" "$M" - -n 9 -s 1 <&-').returncode, 0)  # an empty prompt

    def test_text_arrives_as_it_is_made(self):
        with open(self.dir / "stream", "w+b") as out:
            p = self.start(self.long, "abc", "--ignore-eos", "-q", stdout=out)
            sizes = set()
            until(lambda: sizes.add(os.fstat(out.fileno()).st_size) or len(sizes) > 5)
            self.assertIsNone(p.poll())
            out.seek(0)
            self.assertEqual(out.read(3), b"abc")

    def test_environment(self):
        want = self.good(self.model, "x", "-n", 20, "-s", 1, "-q", "--temp", "0.7")
        for env in ({}, {"LC_ALL": "de_DE.UTF-8"}, {"LC_ALL": "tr_TR"}, {"TERM": "dumb"}, {"NO_COLOR": "1"}):
            self.assertEqual(
                self.good(self.model, "x", "-n", 20, "-s", 1, "-q", "--temp", "0.7", env=env), want
            )


class Signals(Cli):
    def endless(self, **more) -> subprocess.Popen:
        return self.start(self.long, "abc", "--ignore-eos", **more)

    def check_stop(self, number: int, code: int, size: int) -> None:
        with open(self.dir / "stopped", "w+b") as file:  # which takes what a full pipe would not
            p = self.endless(stdout=file)
            until(lambda: os.fstat(file.fileno()).st_size > size)
            p.send_signal(number)
            _, err = p.communicate(timeout=120)
            file.seek(0)
            out = file.read()
        self.assertEqual(p.returncode, code)
        self.assertEqual(out[:3], b"abc")
        self.assertEqual(out[-1:], b"\n")
        out.decode("utf-8")
        self.assertRegex(err.decode(), r"\Aprompt 4 tokens, .* text \d+ tokens, .*\n\Z")

    def test_first_signal_stops_cleanly(self):
        for i in range(12):
            self.check_stop(signal.SIGINT, 130, 3 + i * 99)
        for i in range(3):
            self.check_stop(signal.SIGTERM, 143, 3 + i * 99)

    def test_signal_while_reading_the_prompt(self):
        p = subprocess.Popen(
            [RUN, self.long, "-", "--no-echo"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(self.reap, p)
        p.stdin.write(b"a" * 60000)
        p.stdin.close()
        p.stdin = None
        until(lambda: catches(p, signal.SIGINT) and processor_seconds(p) > 0.1)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=120)
        self.assertEqual(p.returncode, 130, err)

    def test_reader_that_does_not_read(self):
        p = self.endless()
        fcntl.fcntl(p.stdout.fileno(), fcntl.F_SETPIPE_SZ, 4096)
        seen = []

        def waits() -> bool:
            """For the reader: the pipe has as little room as ten looks ago, and less than a piece of text needs."""
            held = struct.unpack("i", fcntl.ioctl(p.stdout.fileno(), termios.FIONREAD, bytes(4)))[0]
            seen.append((held, state(p)))
            return len(seen) > 10 and set(seen[-10:]) == {(held, "S")} and held > 3000

        until(waits)
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(120), 130)

    def test_before_the_text_the_first_signal_ends_at_once(self):
        p = subprocess.Popen([RUN, self.model, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.reap, p)
        until(lambda: catches(p, signal.SIGINT))
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(120), 130)
        p.stdin.close()
        p.stdout.close()

    def test_ignored_signal_stays_ignored(self):
        p = self.start(
            self.long, "x", "--ignore-eos", "-n", 9000,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )  # fmt: skip
        os.read(p.stdout.fileno(), 10)
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=120)
        self.assertIn(b"text 9000 tokens", err)
        self.assertEqual(p.returncode, 0)

    def test_perplexity_stops(self):
        file = self.dir / "much.txt"
        file.write_bytes(b"many words " * 100000)
        p = self.start(self.long, "--perplexity", file, "-c", 64)
        until(lambda: processor_seconds(p) > 0.5)
        p.send_signal(signal.SIGINT)
        out, _ = p.communicate(timeout=120)
        self.assertEqual(p.returncode, 130)
        self.assertIn(b"perplexity", out)

    def test_a_signal_ends_what_does_not_look_for_it(self):
        """A word of 10 MB is tokenized for seconds, attention over 8192 positions is measured for many."""
        word = self.dir / "word.txt"
        word.write_bytes(random.Random(1).randbytes(10_000_000).translate(b"etaoinsh" * 32))
        for program in ([RUN, FABLE, "--perplexity-lines", word], [BENCH, "attention", "-p", 8192]):
            p = subprocess.Popen([*map(str, program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.addCleanup(self.reap, p)
            until(lambda: processor_seconds(p) > 0.5)
            before = processor_seconds(p)
            p.send_signal(signal.SIGINT)
            _, status, used = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(p.returncode, 130)
            self.assertLess(used.ru_utime + used.ru_stime - before, 1)

    def test_terminal(self):
        pid, fd = pty.fork()
        if pid == 0:
            os.execv(RUN, [RUN, self.long, "abc", "--ignore-eos"])
        data = b""
        while len(data) < 200:
            data += os.read(fd, 100)
        os.write(fd, b"\x03")
        try:
            while piece := os.read(fd, 65536):
                data += piece
        except OSError:
            pass  # the terminal is gone
        _, status = os.waitpid(pid, 0)
        os.close(fd)
        self.assertEqual(os.waitstatus_to_exitcode(status), 130)
        self.assertRegex(data, rb"\nprompt 4 tokens, .* seed \d+\r\n\Z")

    def test_stop_and_continue(self):
        p = self.endless()
        os.read(p.stdout.fileno(), 10)
        p.send_signal(signal.SIGSTOP)
        until(lambda: state(p) == "T")
        p.send_signal(signal.SIGCONT)
        p.send_signal(signal.SIGWINCH)
        os.read(p.stdout.fileno(), 10)
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=120)
        self.assertEqual(p.returncode, 130)

    def test_weights_file_cut_while_running(self):
        for threads in (1, 2, 4):
            path = self.dir / f"cut{threads}.bin"
            shutil.copy(self.long, path)
            p = self.start(path, "abc", "--ignore-eos", "-t", threads)
            os.read(p.stdout.fileno(), 20)
            os.truncate(path, 4096)
            _, err = p.communicate(timeout=120)
            self.assertEqual(p.returncode, 4, err)
            self.assertIn(f"run: {path}: model file changed while running".encode(), err)

    def test_draft_cut_before_it_is_read(self):
        """A full pipe holds the program while it repeats the prompt. The draft is then open and checked, and has read nothing.
        It must read the prompt a few tokens later: the first try of a draft does not depend on the clock."""
        draft = self.dir / "draft.bin"
        shutil.copy(self.long, draft)
        ours, theirs = os.pipe()
        fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, 4096)
        with open(ours, "rb", buffering=0) as out:
            p = self.start(self.long, "abc" * 3000, "--ignore-eos", "--draft", draft, stdout=theirs)
            os.close(theirs)
            out.read(1)
            os.truncate(draft, 4096)
            while out.read(65536):
                pass
        _, err = p.communicate(timeout=120)
        self.assertEqual(p.returncode, 4, err)
        self.assertIn(f"run: {self.long} or {draft}: model file changed while running".encode(), err)


if __name__ == "__main__":
    unittest.main()
