"""Several machines, of which one fails: a sentence that names it, an exit code, and no process that stays."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from cli_case import ROOT, Cli, processor_seconds, until
from machines_case import ENVIRONMENT, MPI, MPICC, MPIRUN, WHY

PROGRAM = str((MPI / "run").resolve())
FABLE = str(ROOT / "models/fable.bin")
QUIET = ["-q", "-t", "1", "--temp", "0"]
SECONDS = 60  # a start on a busy machine
SHARED = 400  # MiB, of which each of two processes of -c 100000 takes more than half


def started_with(word: str) -> list[int]:
    """Processes of the program with this word among their arguments."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if arguments[0] == PROGRAM.encode() and word.encode() in arguments:
            found.append(int(folder.name))
    return sorted(found)


def mib(size: str) -> float:
    """"2.5 MiB": 2.5"""
    number, unit = size.split()
    return float(number) / {"KiB": 1024, "MiB": 1}[unit]


@unittest.skipIf(WHY, WHY)
class Failures(Cli):
    def mpirun(self, *machines: list[str], n: int = 1) -> subprocess.CompletedProcess:
        """n of each of these command lines"""
        line = [MPIRUN]
        for command in machines:
            line += ([":"] if len(line) > 1 else []) + ["-n", str(n), *command]
        return subprocess.run(line, capture_output=True, timeout=SECONDS, env=ENVIRONMENT)

    def sentence(self, done: subprocess.CompletedProcess, code: int, text: str) -> None:
        """The program says one line, and it is this."""
        said = [line for line in done.stderr.decode().splitlines() if line.startswith("run: ")]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertRegex(said[0], text)
        self.assertEqual((done.returncode, done.stdout), (code, b""), said)

    def run_line(self, model: str, *more: str) -> list[str]:
        return [PROGRAM, model, "The cat", "-n", "3", *QUIET, *more]

    def test_all_is_well(self):
        done = self.mpirun(self.run_line(FABLE), n=3)
        self.assertEqual((done.returncode, done.stdout), (0, self.good(FABLE, "The cat", "-n", "3", *QUIET)))

    def test_another_file(self):
        done = self.mpirun(self.run_line(FABLE), self.run_line(self.model))
        self.sentence(done, 3, r": \S+ has another model file \(content id [0-9a-f]{16}\) than \S+ \([0-9a-f]{16}\)$")

    def test_another_build_sends_other_sizes(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        other, sizes = Path(folder) / "run", b"%zu, %zu, %zu, %zu"
        content = Path(PROGRAM).read_bytes()
        self.assertEqual(content.count(sizes), 1)
        other.write_bytes(content.replace(sizes, b"%zu, %zu, %zu, 1" + bytes(2)))
        other.chmod(0o755)
        done = self.mpirun(self.run_line(FABLE), [str(other), *self.run_line(FABLE)[1:]])
        self.sentence(done, 2, r"^run: \S+ has another build of tern \((\d+, ){3}1, \d+\) than \S+ \((\d+, ){4}\d+\): use one build$")

    def test_missing_file(self):
        done = self.mpirun(self.run_line(FABLE), self.run_line("/nowhere.bin"))
        self.sentence(done, 4, r"^run: \S+: /nowhere.bin: cannot open: ")
        done = self.mpirun(self.run_line("/nowhere.bin"), self.run_line(FABLE))
        self.sentence(done, 4, r"^run: /nowhere.bin: cannot open: ")

    def other_build(self, name: str, value: str) -> str:
        """The program whose meeting was compiled with another value of a macro of tern.h."""
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        header, n = re.subn(rf"(?m)^(#define {name}) .*", rf"\1 {value}", (ROOT / "include/tern.h").read_text())
        self.assertEqual(n, 1)
        (folder / "tern.h").write_text(header)
        compiler, *flags = shlex.split((MPI / "flags").read_text())
        compile = [compiler, f"-I{folder}", *flags, "-c", "src/engine/meet.c", "-o", folder / "meet.o"]
        subprocess.run(compile, cwd=ROOT, check=True, capture_output=True)
        parts = [*MPI.resolve().glob("src/app/run/*.o"), folder / "meet.o"]
        libraries = [MPI.resolve() / "src/app/libcli.a", MPI.resolve() / "libtern.a", "-lm"]
        wrapped = {**os.environ, "OMPI_CC": compiler, "MPICH_CC": compiler}
        subprocess.run([MPICC, *flags, *parts, *libraries, "-o", folder / "run"], cwd=ROOT, check=True,
                       capture_output=True, env=wrapped)  # fmt: skip
        return str(folder / "run")

    @unittest.skipUnless(shutil.which(MPICC), f"no {MPICC}")
    def test_another_build(self):
        """Of another version, and with another arithmetic"""
        version, arith = (re.search(rf'#define {name} "?([0-9.]+)', (ROOT / "include/tern.h").read_text())[1]
                          for name in ("TERN_VERSION", "TERN_ARITH"))  # fmt: skip
        line = self.run_line(FABLE)
        for name, value, has in ("TERN_VERSION", '"9.9"', ("9.9", arith)), ("TERN_ARITH", "77", (version, "77")):
            done = self.mpirun(line, [self.other_build(name, value), *line[1:]])
            self.sentence(done, 2, rf"^run: \S+ has tern {re.escape(has[0])} \(arithmetic {has[1]}\), "
                                   rf"\S+ has {re.escape(version)} \({arith}\): use one build$")  # fmt: skip

    def test_damaged_file(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        cut = Path(folder) / "cut.bin"
        cut.write_bytes(Path(FABLE).read_bytes()[:-64])
        done = self.mpirun(self.run_line(FABLE), self.run_line(str(cut)))
        self.sentence(done, 3, rf": \S+: {cut}: it is cut: ")

    def test_no_memory(self):
        """The plan of one machine does not fit: nothing is allocated on any. TERN_MEMORY plays a smaller one."""
        line = self.run_line(FABLE, "-c", "100000")
        done = self.mpirun(line, ["env", "TERN_MEMORY=64", *line])
        self.sentence(done, 5, r"^run: \S+: a context of 100000 positions needs \d+ MiB of cache and \d+ MiB for the batch, 64 MiB are free: ")
        done = self.mpirun(["env", "TERN_MEMORY=64", *line], line)
        self.sentence(done, 5, r"^run: a context of 100000 positions needs ")

    def test_no_memory_for_both(self):
        """Each of two processes of a host fits, but not both. With a network between them they are on two hosts."""
        line = ["env", f"TERN_MEMORY={SHARED}", *self.run_line(FABLE, "-c", "100000")]
        done = self.mpirun(line, n=2)
        self.sentence(done, 5, rf"^run: \S+: a context of 100000 positions needs \d+ MiB in the 2 processes there, {SHARED} MiB are free: start fewer there, ")
        done = self.mpirun(["env", "TERN_NETWORK=1 100000", *line], n=2)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_no_memory_for_weights(self):
        """Mapped weights are read again: that is slow, and said once for all processes of a host, with what they all take."""
        line = [PROGRAM, FABLE, "The cat", "-n", "3", "-c", "32", "-b", "32", "-t", "1", "-v"]
        little = ["env", "TERN_MEMORY=5", *line]
        slow = "are free: weights are read from the disk again and again"
        for machines, n, processes in ([little], 2, ["2 processes"]), ([little, line], 1, ["2 processes"]), ([["env", "TERN_NETWORK=1 100000", *little]], 2, ["1 process"] * 2), ([line], 2, []), ([[*little[:-1], "-q"]], 2, []), ([["env", "TERN_MEMORY=8", *line, "--load", "copy"]], 2, []):
            done = self.mpirun(*machines, n=n)
            said = [text for text in done.stderr.decode().splitlines() if slow in text]
            self.assertEqual((done.returncode, len(said)), (0, len(processes)), done.stderr)
            ranks = re.findall(r"(?m)^memory: \S+ \(rank \d\): .* weights (.*), cache (.*), batch (.*); ", done.stderr.decode())
            for i, (text, who) in enumerate(zip(said, processes)):
                found = re.search(rf"^\S+: the weights of {who} take (.*), cache and batch (.*), and 5\.0 MiB {slow}$", text)
                there = [[mib(size) for size in rank] for rank in (ranks if who == "2 processes" else ranks[i : i + 1])]
                self.assertAlmostEqual(mib(found[1]), sum(weights for weights, _, _ in there), delta=0.15)
                self.assertAlmostEqual(mib(found[2]), sum(cache + batch for _, cache, batch in there), delta=0.15)

    def test_no_memory_for_copies(self):
        """Each process of a host has room for a copy of what it needs, but not all of them."""
        copy = ["env", "TERN_MEMORY=5", *self.run_line(FABLE, "-c", "32", "-b", "32", "--load", "copy")]
        done = self.mpirun(copy, n=2)
        self.sentence(done, 5, r"^run: \S+: copies of the weights take 7 MiB in the 2 processes there, 5 MiB are available; mapped, they need ")
        done = self.mpirun(["env", "TERN_NETWORK=1 100000", *copy], n=2)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_less_memory(self):
        """A context of the model's length is reduced to what half of the memory of the smallest machine holds, and of all
        processes there."""
        def context(*machines, n=1):
            done = self.mpirun(*machines, n=n)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = re.search(rb"context: (\d+) positions instead of the model's 65536", done.stderr)
            self.assertTrue(found, done.stderr)
            return int(found[1])

        line = [PROGRAM, self.long, "The cat", "-n", "3", "-t", "1", "--temp", "0"]
        little = ["env", "TERN_MEMORY=16", *line]
        alone = context(["env", "TERN_NETWORK=1 100000", *little], n=2)
        self.assertEqual(context(["env", "TERN_NETWORK=1 100000", *line], ["env", "TERN_NETWORK=1 100000", *little]), alone)
        self.assertLess(context(little, n=2), alone)

    def test_usage(self):
        self.sentence(self.mpirun(self.run_line(FABLE, "--nonsense"), n=3), 2, "^run: unknown option '--nonsense'")
        done = self.mpirun(self.run_line(FABLE), self.run_line(FABLE, "--nonsense"))
        self.sentence(done, 4, r": it ended before it opened the model$")
        self.sentence(self.mpirun(self.run_line(FABLE, "--share", "1,2,3"), n=2), 2, "the shares '1,2,3' are not 2 ")

    def test_many_shares(self):
        """The longest text of shares is that of the most machines."""
        done = self.mpirun(self.run_line(FABLE, "--share", ",".join(["999999"] * 40)), n=40)
        self.assertEqual((done.returncode, done.stdout), (0, self.good(FABLE, "The cat", "-n", "3", *QUIET)))

    def test_too_many(self):
        self.sentence(self.mpirun(self.run_line(FABLE), n=65), 2, "65 processes were started, want at most 64$")

    def long_text(self, word: str, errors: int = subprocess.DEVNULL, how: list[str] = QUIET, **more: str) -> subprocess.Popen:
        """Three machines that write for long; word: among their arguments, so that they are found."""
        line = [PROGRAM, self.long, word, "-n", "1000000", "-c", "200000", "--ignore-eos", *how]
        job = subprocess.Popen([MPIRUN, "-n", "3", *line], stdout=subprocess.PIPE, stderr=errors,
                               env={**ENVIRONMENT, **more})  # fmt: skip
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.kill)
        self.assertTrue(job.stdout.read(40))  # it writes
        return job

    def ends(self, job: subprocess.Popen, word: str) -> None:
        """Within 10 s, with a code that is not 0, and with every process."""
        begin = time.monotonic()
        job.stdout.read()
        self.assertNotEqual(job.wait(SECONDS), 0)
        self.assertLess(time.monotonic() - begin, 10)
        while started_with(word) and time.monotonic() - begin < 10:
            time.sleep(0.1)
        self.assertEqual(started_with(word), [])

    def test_killed(self):
        for which in 0, 2:
            word = f"killed{which}x{os.getpid()}"
            job = self.long_text(word)
            os.kill(started_with(word)[which], signal.SIGKILL)
            self.ends(job, word)

    def test_cut_while_running(self):
        """The file of rank 0 is cut while a long prompt is evaluated, of which two halves take turns, each in its own thread."""
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        prompt, cut = folder / "prompt", folder / "cut.bin"
        prompt.write_text("abc" * 10000)
        for i in range(4):  # each may be in the other thread
            shutil.copy(self.long, cut)
            line = ["-f", str(prompt), "-n", "1", "-b", "512", *QUIET]
            command = [MPIRUN, "-n", "1", PROGRAM, str(cut), *line, ":", "-n", "1", PROGRAM, self.long, *line]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT) as job:
                until(lambda: [pid for pid in started_with(str(cut)) if processor_seconds(pid) > 0.5])
                time.sleep(i / 20)
                os.truncate(cut, 4096)
                _, error = job.communicate(timeout=SECONDS)
            said = [text for text in error.decode().splitlines() if text.startswith("run: ")]
            self.assertEqual((len(said), job.returncode), (1, 4), error)
            self.assertIn(f"{cut}: model file changed while running", said[0])

    def test_interrupted(self):
        """The text ends as on one machine, with its times, before mpirun ends all."""
        word = f"interrupted{os.getpid()}"
        with tempfile.TemporaryFile() as errors:
            job = self.long_text(word, errors.fileno(), QUIET[1:])
            job.send_signal(signal.SIGINT)
            self.ends(job, word)
            errors.seek(0)
            self.assertEqual(len(re.findall(rb"(?m)^prompt \d+ tokens, .*; text \d+ tokens, ", errors.read())), 1)

    def test_stopped_waits(self):
        """A process that is stopped is not dead: the others wait, and go on with it."""
        word = f"stopped{os.getpid()}"
        job = self.long_text(word, TERN_LOST_AFTER="30")
        stopped = started_with(word)[1]
        os.kill(stopped, signal.SIGSTOP)
        time.sleep(6)
        self.assertIsNone(job.poll())
        os.kill(stopped, signal.SIGCONT)
        self.assertTrue(job.stdout.read(1000))
        job.send_signal(signal.SIGINT)
        self.ends(job, word)

    def test_lost(self):
        """Of one that does not answer any more, such as one whose host was cut off, rank 0 says so, and all ends."""
        for which, rank in (1, 1), (0, 0):
            word = f"lost{which}x{os.getpid()}"
            with tempfile.TemporaryFile() as errors:
                job = self.long_text(word, errors.fileno(), TERN_LOST_AFTER="2")
                os.kill(started_with(word)[which], signal.SIGSTOP)
                self.ends(job, word)
                errors.seek(0)
                said = [line for line in errors.read().decode().splitlines() if line.startswith("run: ")]
            if rank:
                self.assertRegex("\n".join(said), r"^run: \S+ \(rank 1\) has not been heard of for 2 s: the job ends$")
                self.assertEqual(job.returncode, 4)

    def test_waiting_is_not_lost(self):
        """For a prompt that comes late the others wait longer than they would for a machine."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        prompt = Path(folder) / "prompt"
        os.mkfifo(prompt)
        line = [MPIRUN, "-n", "2", PROGRAM, FABLE, "-f", str(prompt), "-n", "3", *QUIET]
        with subprocess.Popen(line, stdout=subprocess.PIPE, env={**ENVIRONMENT, "TERN_LOST_AFTER": "2"}) as job:
            with prompt.open("w") as pipe:
                time.sleep(5)
                pipe.write("The cat")
            self.assertEqual((job.stdout.read(), job.wait(SECONDS)), (self.good(FABLE, "The cat", "-n", "3", *QUIET), 0))

    def test_settings_that_are_no_numbers(self):
        """A guard that a typing error switches off is none; the mistake of one machine alone is said, too."""
        line = self.run_line(FABLE)
        def refused(name, value, *machines):
            self.sentence(self.mpirun(*machines), 2, rf"^run: \S+: TERN_{name} is '{re.escape(value)}', want .* 999999$")

        for name, values in (
            ("MEET_WITHIN", ("1 s",)), ("LOST_AFTER", ("abc", "", "-1", "6.5", "1000000", str(2**64))), ("NETWORK", ("5", "0 1000", "5 1000x"))
        ):  # fmt: skip
            for value in values:
                bad = ["env", f"TERN_{name}={value}", *line]
                refused(name, value, bad, bad)
        refused(name, value, bad, line)
        refused(name, value, line, bad)
        self.sentence(self.mpirun(["env", "TERN_LOST_AFTER=x", *line]), 2, "TERN_LOST_AFTER is 'x'")

    def test_one_that_does_not_begin(self):
        """Stopped before MPI has seen it"""
        line = ["env", "TERN_MEET_WITHIN=1", *self.run_line(FABLE)]
        done = self.mpirun(line, ["sh", "-c", 'kill -STOP $$; exec "$@"', "sh", *line])
        self.sentence(done, 4, r"^run: not all processes have begun within 1 s \(TERN_MEET_WITHIN\): the job ends$")

    def test_never_lost(self):
        word = f"never{os.getpid()}"
        job = self.long_text(word, TERN_LOST_AFTER="0", TERN_MEET_WITHIN="10")
        os.kill(started_with(word)[1], signal.SIGSTOP)
        time.sleep(12)
        self.assertIsNone(job.poll())
        job.send_signal(signal.SIGINT)
        self.ends(job, word)


class Build(unittest.TestCase):
    def test_no_compiler(self):
        alone = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        done = subprocess.run(["make", "-s", "MPI=1", "MPICC=no-such-mpicc", "run"], cwd=ROOT, capture_output=True, env=alone)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr.decode(), r"MPI=1 needs no-such-mpicc: apt-get install libopenmpi-dev")
        self.assertEqual(len(done.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
