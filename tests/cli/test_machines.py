"""The programs on several machines: what they write, and how they end, is what one machine writes, once."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from machines_case import ENVIRONMENT, MPI, MPIRUN, WHY
from serve_case import MODEL, Server

HERE = str(MPI)
RUN = os.environ.get("RUN") or "build/run"
CAT = ["The cat sat", "-n", "30", "--temp", "0", "-q", "--fingerprint"]
PERSON = '{"type":"object","properties":{"age":{"type":"integer","maximum":99}},"required":["age"]}'


def call(program, *arguments, text="", limit=120):
    """(exit code, standard output, standard error)"""
    done = subprocess.run(
        [*program, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=limit, env=ENVIRONMENT
    )
    return done.returncode, done.stdout, done.stderr


def machines(n, name="run"):
    return [MPIRUN, "-n", str(n), f"{HERE}/{name}"]


@unittest.skipIf(WHY, WHY)
class Programs(unittest.TestCase):
    def same(self, *arguments, n=2, text="", errors=True):
        one = call([RUN], MODEL, *arguments, text=text)
        several = call(machines(n), MODEL, *arguments, text=text)
        self.assertEqual(several[:2], one[:2], several[2])
        if errors:
            self.assertEqual(several[2], one[2])

    def test_texts(self):
        self.same(*CAT)
        self.same(*CAT, "--lookup", n=3)
        self.same(*CAT, "--draft", MODEL)
        self.same("Once", "-n", "40", "--seed", "7", "-q", "--fingerprint", "--context-shift", "-c", "32")
        self.same("Tom:", "-n", "40", "--seed", "7", "-q", "--json-schema", PERSON)

    def test_bench_counts_what_travels(self):
        """As MACHINES.md says: of fable.bin, 8 x 64 and 768 columns of 40 bytes for 32, twice 256 floats; 4 bytes a gather."""
        for n in (2, 4):
            code, out, _ = call(machines(n, "bench"), MODEL, "-p", 0, "-n", 4, "-r", 2, "-t", 1, "-o", "jsonl", "--no-limits")
            result = json.loads(out)
            self.assertEqual((code, result["n_machines"], result["gathers_token_layer"]), (0, n, 4))
            layer = (8 * 64 + 768) * 40 / 32 + 2 * 256 * 4
            self.assertEqual(result["gathered_bytes_token_layer"], layer * (n - 1) / n + 4 * 4 * (n - 1))
            self.assertTrue(0 < result["pct_network"] < 100)

    def test_a_slow_network_is_reported(self):
        """Not where one process has too little memory for the model and the context; two have it for half of each."""
        slow = {**ENVIRONMENT, "TERN_NETWORK": "20000 10", "TERN_MEMORY": "24"}
        for context, quiet, said in ("32", [], True), ("32", ["-q"], False), ("4000", [], False):
            command = [*machines(2), MODEL, "Tom", "-n", "2", "-c", context, "-b", "8", *quiet]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=slow)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("on this network 1 machine would be faster: about" in done.stderr, said, done.stderr)

    def test_processes_of_one_machine_are_reported(self):
        """Where they evaluate: nothing is measured for other jobs."""
        for more, said in (["Tom", "-n", "2"], True), (["Tom", "-n", "2", "-q"], False), (["--tokenize", "Tom"], False):
            code, _, error = call(machines(8), MODEL, *more)
            self.assertEqual(code, 0, error)
            text = "these 8 processes share one machine, on which 1 process would be faster: about "
            self.assertEqual(error.count(text), said, error)

    def test_bench_measures_all_machines(self):
        """What they do together is what the slowest does of its share: a machine of plain C has no peak to measure."""
        for share, measured in ("1,1", False), ("1,0", True):
            rank = [f"{HERE}/bench", MODEL, "-p", "8", "-n", "0", "-r", "1", "-t", "1", "-o", "jsonl", "--share", share]
            code, out, error = call([MPIRUN, "-n", "1", *rank, ":", "-n", "1", *rank, "--cpu", "plain"])
            self.assertEqual(code, 0, error)
            result = json.loads(out)
            self.assertEqual(result["peak_gmacs"] > 0, measured)
            self.assertGreater(result["read_bandwidth_gbs"], 0)

    def test_chat_in_a_pipe(self):
        chat = ["--chat", "--template", "chatml", "-n", "8", "--temp", "0", "-q"]
        self.same(*chat, text="Hello\nAnd you?\n")

    def test_other_jobs(self):
        self.same("--tokenize", "The cat")
        self.same("--check", errors=False)
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "text")
            text.write_text("The cat sat on the mat. It was happy. " * 20)
            self.same("--perplexity", text, "-c", "64", "-q", n=3)

    def test_receipts(self):
        with tempfile.TemporaryDirectory() as folder:
            one, several = Path(folder, "one"), Path(folder, "several")
            self.assertEqual(call([RUN], MODEL, *CAT, "--seed", "1", "--receipt", one)[0], 0)
            self.assertEqual(call(machines(2), MODEL, *CAT, "--seed", "1", "--receipt", several)[0], 0)
            self.assertEqual(several.read_bytes(), one.read_bytes())
            code, _, error = call(machines(3), MODEL, "--verify-receipt", one)
            self.assertEqual(code, 0, error)

    def test_bench(self):
        code, out, error = call(machines(2, "bench"), MODEL, "-p", "8", "-n", "4", "-r", "1", "-t", "1")
        self.assertEqual(code, 0, error)
        self.assertEqual(out.count(" tg4 |"), 1, out)

    def test_what_one_machine_alone_does(self):
        for name in "look", "quantize":
            code, out, error = call(machines(2, name), MODEL, "x")
            self.assertEqual((code, out), (2, ""))
            self.assertEqual(error.count(f"{name} works on one machine only"), 1, error)

    def test_sessions(self):
        """The file has the same bytes, and each can go on with it, another number of machines, too."""
        with tempfile.TemporaryDirectory() as folder:
            one, several = Path(folder, "one"), Path(folder, "several")
            for n in 2, 3, 7:
                one.unlink(missing_ok=True)
                several.unlink(missing_ok=True)
                for step in "The cat sat on the mat", "The cat sat on the mat and":
                    here = call([RUN], MODEL, *CAT[1:], step, "--session", one)
                    there = call(machines(n), MODEL, *CAT[1:], step, "--session", several)
                    self.assertEqual(there[:2], here[:2], there[2])
                    self.assertEqual(several.read_bytes(), one.read_bytes())
                    n = 2 if n == 3 else n
            several.write_bytes(one.read_bytes()[:-9])
            code, _, error = call(machines(2), MODEL, *CAT, "--session", several)
            self.assertNotEqual(code, 0)
            self.assertEqual(sum(line.startswith("run: ") for line in error.splitlines()), 1, error)

    def test_info_says_whose_cache_it_is(self):
        for program, where in ([RUN], ""), (machines(2), " on rank 0"):
            out = call(program, MODEL, "--info")[1]
            self.assertEqual(out.count(f" bytes per token{where}\n"), 1, out)

    def test_mistakes_are_said_once(self):
        for arguments in ["no-such-file", "x"], [MODEL, "--no-such-option"], [MODEL, "x", "--share", "1,2,3"]:
            code, out, error = call(machines(2), *arguments)
            self.assertNotEqual(code, 0)
            self.assertEqual(out, "")
            self.assertEqual(sum(line.startswith("run: ") for line in error.splitlines()), 1, error)

    def test_a_machine_that_dies_ends_all(self):
        job = subprocess.Popen(
            [*machines(3), MODEL, "Once", "-n", "100000", "-c", "64", "-q"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT,
        )  # fmt: skip
        self.assertTrue(job.stdout.read(8))
        ranks = children(job.pid)
        self.assertEqual(len(ranks), 3)
        os.kill(ranks[-1], signal.SIGKILL)
        job.stdout.close()
        self.assertNotEqual(job.wait(20), 0)
        self.assertEqual([pid for pid in ranks if alive(pid)], [])


def children(pid):
    """The processes below `pid` that run tern's programs, the first machine first"""
    out = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True).stdout
    rows = [line.split(None, 2) for line in out.splitlines()]
    below = {pid}
    while more := {int(p) for p, parent, _ in rows if int(parent) in below} - below:
        below |= more
    return sorted(int(p) for p, _, args in rows if int(p) in below and args.startswith(HERE))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except OSError:
        return False


@unittest.skipIf(WHY or not os.access(f"{HERE}/serve", os.X_OK), WHY or "serve is not built")
class Serves(unittest.TestCase):
    def setUp(self):
        import serve_case

        self.own = serve_case.SERVE
        self.folder = tempfile.TemporaryDirectory()
        script = Path(self.folder.name, "serve")
        script.write_text(f'#!/bin/sh\nexec {MPIRUN} -n 3 {HERE}/serve "$@"\n')
        script.chmod(0o755)
        self.script, self.case = str(script), serve_case

    def tearDown(self):
        self.case.SERVE = self.own
        self.folder.cleanup()

    def answers(self, server):
        """Eight clients at a time, one of which leaves, then one that finds what others left"""
        got = {}

        def ask(i):
            body = {"prompt": f"The cat number {i % 5}", "max_tokens": 12, "temperature": 0.8, "seed": i}
            got[i] = server.post("/v1/completions", body)[2]["choices"][0]["text"]

        clients = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
        for c in clients:
            c.start()
        with server.connect() as leaves:
            body = b'{"prompt":"Once","max_tokens":400}'
            leaves.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n%b" % (len(body), body))  # fmt: skip
            time.sleep(0.3)
        for c in clients:
            c.join()
        ask(9)
        return got

    def test_answers_and_end(self):
        one = Server("--parallel", "8")
        try:
            expected = self.answers(one)
        finally:
            one.stop()
        self.case.SERVE = self.script
        several = Server("--parallel", "8", environment=ENVIRONMENT)
        try:
            self.assertEqual(self.answers(several), expected)
            ranks = children(several.process.pid)
            self.assertEqual(len(ranks), 3)
            os.kill(ranks[0], signal.SIGTERM)
            self.assertEqual(several.process.wait(20), 0, several.text())
            self.assertEqual([pid for pid in ranks if alive(pid)], [])
            self.assertEqual(several.text().count("Z ending: "), 1, several.text())
        finally:
            several.stop(signal.SIGKILL)

    def test_kept_beginnings(self):
        """--cache-dir has the same files, and several machines find what one has kept."""

        def found(folder, several):
            self.case.SERVE = self.script if several else self.own
            server = Server("--cache-dir", folder, "--cache-ram", 16, environment=ENVIRONMENT)
            try:
                body = {"prompt": "Once there was a cat that sat on a mat. " * 8, "max_tokens": 4, "temperature": 0}
                usage = server.post("/v1/completions", body)[2]["usage"]
                os.kill(children(server.process.pid)[0] if several else server.process.pid, signal.SIGTERM)
                self.assertEqual(server.process.wait(20), 0, server.text())
                self.assertNotIn("--cache-dir", server.text())
                return usage["prompt_tokens_details"]["cached_tokens"]
            finally:
                server.stop(signal.SIGKILL)

        folders = [Path(self.folder.name, name) for name in ("one", "several")]
        for several, folder in enumerate(folders):
            folder.mkdir()
            self.assertEqual(found(folder, several), 0)
        files = [sorted(f.read_bytes() for f in folder.iterdir()) for folder in folders]
        self.assertEqual(files[1], files[0])
        self.assertGreater(len(files[0][-1]), 1000)
        self.assertGreater(found(folders[0], True), 50)


if __name__ == "__main__":
    unittest.main()
