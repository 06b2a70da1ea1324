"""`serve` with many clients at once: answers that ./run gives alone, turns, full queues, vanished clients."""
# run-tests: long

import json
import os
import random
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from cli_case import RUN, write_model
from serve_case import MODEL, SERVE, SLOW, WHY, ServeCase, Server, occupied, together, until
from serve_models import thinker

STORY = (
    "Once upon a time there was a little girl named Lily. She loved to play outside in the sun. One day "
    "she saw a big cat near the old tree. The cat was sad, because it had lost its red ball. Lily said, "
    '"Do not worry, I will help you." They looked under the tree, behind the house and in the garden. '
)
OPTIONS = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "repeat_penalty": 1.1}


def completion(prompt, max_tokens, seed, **more):
    return {"prompt": prompt, "max_tokens": max_tokens, "seed": seed, **OPTIONS, **more}


def random_request(r: random.Random) -> dict:
    """Some begin alike, some are short; any length of an answer; stop strings, and a constraint."""
    begin = r.choice([STORY * 2, STORY, STORY, "The", "A dog", "One day"])
    ask = completion(begin + r.choice([" Then", " The cat", " But", "Lily"]), r.randint(1, 90), r.randint(0, 2**40))
    if r.random() < 0.2:
        ask["stop"] = [r.choice([".", " the", "ed"])]
    if r.random() < 0.2:  # guesses come true
        ask |= {"prompt": "The cat sat. " * 20, "temperature": 0}
    if r.random() < 0.2:
        ask["response_format"] = {"type": "json_object"}
    ask["stream"] = r.random() < 0.5
    return ask


def random_chat(r: random.Random) -> dict:
    """Of a model with tools"""
    name = {"enum": ["Tom", "Lily", "the cat"]}
    schema = {"type": "object", "properties": {"name": name, "n": {"type": "integer"}}, "required": ["name", "n"], "additionalProperties": False}
    ask = {"messages": [{"role": "system", "content": STORY}, {"role": "user", "content": r.choice(["Who?", "How many?"])}]}
    ask |= {"max_tokens": r.randint(1, 90), "seed": r.randint(0, 2**40), "stream": r.random() < 0.5, **OPTIONS}
    if r.random() < 0.7:
        ask |= {"tools": [{"type": "function", "function": {"name": "find", "parameters": schema}}], "tool_choice": r.choice(["auto", "required"])}
    else:
        ask["response_format"] = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    return ask


def path_of(ask: dict) -> str:
    return "/v1/chat/completions" if "messages" in ask else "/v1/completions"


def run_alone(ask: dict, folder: str) -> dict:
    """The receipt of ./run for what a client asked."""
    file = Path(folder) / f"{ask['seed']}.json"
    args = [RUN, MODEL, ask["prompt"], "-n", ask["max_tokens"], "-s", ask["seed"], "--receipt", file, "-q"]
    args += ["--temp", ask["temperature"], "--top-k", 40, "--top-p", 0.95, "--min-p", 0.05, "--repeat-penalty", 1.1]
    for text in ask.get("stop", []):
        args += ["--stop", text]
    if "response_format" in ask:
        args += ["--json"]
    subprocess.run([str(a) for a in args], check=True, stdout=subprocess.DEVNULL)
    return json.loads(file.read_text())


def compared(receipt: dict) -> dict:
    return {k: receipt[k] for k in ("prompt", "answer", "sampler", "stop_reason", "fingerprint", "n_fingerprinted")}


def cut(server, ask, seconds):
    """Asks, and resets the connection after a while."""
    body = json.dumps(ask).encode()
    with server.connect() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        head = f"POST {path_of(ask)} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        s.sendall(head.encode() + body)
        time.sleep(seconds)


def is_idle(server):
    return server.metric("tern_requests_processing") == 0 == server.metric("tern_requests_deferred")


class Many(ServeCase):
    ARGUMENTS = ["--parallel", "16", "--lookup", "--cache-ram", "64", "--queue", "256"]

    def answer(self, ask):
        """The receipt of the answer."""
        ask = {**ask, "receipt": True}
        if not ask["stream"]:
            status, _, body = self.post(path_of(ask), ask, timeout=600)
            self.assertEqual(status, 200, body)
            return body["choices"][0]["receipt"]
        pieces = [json.loads(d) for _, d in self.events(path_of(ask), ask, timeout=600) if d != "[DONE]"]
        return next(c["receipt"] for p in pieces for c in p["choices"] if "receipt" in c)

    def load(self, seed, n=64):
        """n clients at once, a third of which leave; what the others asked and got."""
        r = random.Random(seed)
        asks = [random_request(r) for _ in range(n)]
        delays = [r.random() * 0.3 for _ in asks]
        got = together(n, lambda i: cut(self.server, asks[i], delays[i]) if i % 3 == 0 else self.answer(asks[i]))
        until(lambda: is_idle(self.server), 5, "an idle server")
        return [(a, g) for a, g in zip(asks, got) if g]

    def proven(self, receipt, folder):
        """What ./run says of the receipt of a chat."""
        file = Path(folder) / "chat.json"
        file.write_text(json.dumps(receipt))
        done = subprocess.run([RUN, self.MODEL, "--verify-receipt", file], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def long_time(self, draw):
        """Clients that go on for a while, a third of which leave, all of them drawing from the same requests. SERVE_SECONDS=600 makes a
        campaign of it. A request always gets the same answer, and that is the one that ./run gives."""
        seconds, n = float(os.environ.get("SERVE_SECONDS", 1)), int(os.environ.get("SERVE_CLIENTS", 64))
        r = random.Random(8)
        asks = [draw(r) for _ in range(min(1000, int(20 + 4 * seconds)))]
        answers, end = [None] * len(asks), time.monotonic() + seconds

        def client(k):
            mine, whole, left = random.Random(k), 0, 0
            while time.monotonic() < end:
                i = mine.randrange(len(asks))
                if mine.random() < 0.3:
                    cut(self.server, asks[i], mine.random() * 0.3)
                    left += 1
                    continue
                got = self.answer(asks[i])
                self.assertEqual(answers[i] or got, got)
                answers[i] = got
                whole += 1
            return whole, left

        whole, left = map(sum, zip(*together(n, client)))
        until(lambda: is_idle(self.server), 5, "an idle server")
        with tempfile.TemporaryDirectory() as folder:
            for ask, receipt in zip(asks, answers):
                if receipt and "messages" in ask:
                    self.assertIn("proven", self.proven(receipt, folder))
                elif receipt:
                    self.assertEqual(compared(receipt), compared(run_alone(ask, folder)), ask)
        print(f"{n} clients: {whole} answers to {sum(a is not None for a in answers)} requests are those of ./run, {left} clients left")


class ManyClients(Many):
    def test_answers_are_those_of_run(self):
        with tempfile.TemporaryDirectory() as folder:
            for ask, receipt in self.load(1):
                self.assertEqual(compared(receipt), compared(run_alone(ask, folder)), ask)
        self.assertGreater(self.server.metric("tern_prompt_tokens_cached_total"), 1000)

    def test_a_long_time(self):
        self.long_time(random_request)

    def test_nothing_stays(self):
        for seed in range(2, 10):  # the cache takes memory as it fills, and a page for each sequence ahead
            self.load(seed)
        time.sleep(0.2)  # the last connections close
        rss, files = self.server.rss(), self.server.files()
        for seed in range(10, 14):
            self.load(seed)
        self.assertLessEqual(self.server.rss(), rss + (4 << 20))
        until(lambda: self.server.files() <= files, 2, "the end of all connections")

    def test_guesses_are_counted(self):
        timings = self.post("/v1/completions", completion("The cat sat. " * 20, 40, 1) | {"temperature": 0})[2]["timings"]
        self.assertGreater(timings["draft_n_accepted"], 0)
        self.assertGreaterEqual(timings["draft_n"], timings["draft_n_accepted"])
        self.assertNotIn("draft_n", self.post("/v1/completions", completion("The", 1, 1))[2]["timings"])

    def test_slots_show_no_text(self):
        text = json.dumps(self.get("/slots")[2]) + self.get("/metrics")[2]
        self.assertNotIn("Lily", text)
        self.assertEqual(len(self.get("/slots")[2]), 16)

    def test_choices_share_their_prompt(self):
        before = self.server.metric("tern_prompt_tokens_total")
        ask = completion("Choices: " + STORY * 2, 4, 1, n=8)
        status, _, body = self.post("/v1/completions", ask)
        self.assertEqual(status, 200, body)
        tokens = body["usage"]["prompt_tokens"]
        self.assertLess(self.server.metric("tern_prompt_tokens_total") - before, tokens + 8 * 40)


class ManyTools(Many):
    """Calls, schemas and thoughts"""

    @classmethod
    def setUpClass(cls):
        cls.MODEL = thinker()
        super().setUpClass()

    def test_a_long_time(self):
        self.long_time(random_chat)


class OneSequence(ServeCase):
    ARGUMENTS = ["--parallel", "1", "--queue", "2", "--api-key", "a", "--api-key", "b"]
    A, B = {"Authorization": "Bearer a"}, {"Authorization": "Bearer b"}

    def ask(self, n, key=A):
        ask = {**completion("The cat", n, 1), "ignore_eos": True}
        return self.post("/v1/completions", ask, headers=key)

    def metric(self, name):
        """Of a server that asks for keys."""
        lines = self.get("/metrics", headers=self.A)[2].splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))

    def test_a_full_queue_says_when_to_come_again(self):
        answers = together(8, lambda i: self.ask(400))
        codes = sorted(status for status, _, _ in answers)
        self.assertEqual(codes[:2], [200, 200])  # one runs, one waits; the other place is kept for another key
        self.assertEqual(codes[-1], 503)
        for status, headers, body in answers:
            if status == 503:
                self.assertGreater(int(headers["retry-after"]), 0)
                self.assertEqual(body["error"]["code"], "queue_full")
                self.assertIn("which has 2 (--queue)", body["error"]["message"])

    def test_clients_take_turns(self):
        done = []

        def ask(key, name, n):
            self.assertEqual(self.ask(n, key)[0], 200)
            done.append(name)

        threads = [threading.Thread(target=ask, args=(self.A, "a1", 400))]
        threads[0].start()
        until(lambda: self.metric("tern_requests_processing") == 1)
        for key, name in ((self.A, "a2"), (self.B, "b1")):
            threads.append(threading.Thread(target=ask, args=(key, name, 50)))
            threads[-1].start()
            until(lambda n=len(threads) - 1: self.metric("tern_requests_deferred") == n)
        for t in threads:
            t.join()
        self.assertEqual(done, ["a1", "b1", "a2"])


class SharedSequences(ServeCase):
    """A client with more long answers than there are sequences."""

    ARGUMENTS = ["--parallel", "3", "--queue", "8", "-c", "2048", "--api-key", "a", "--api-key", "b", "--api-key", "c"]

    def begin(self, key, n, tokens):
        """Asks for n answers; returns when they were answered, in seconds from now."""
        headers, since = {"Authorization": f"Bearer {key}"}, time.monotonic()
        ended, codes = [], []

        def ask(i):
            ask = {**completion("The cat", tokens, i), "ignore_eos": True}
            codes.append(self.post("/v1/completions", ask, headers=headers)[0])
            ended.append(time.monotonic() - since)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(n)]
        for t in threads:
            t.start()
        return threads, ended, codes

    def slots(self):
        return [s["is_processing"] for s in self.get("/slots", headers={"Authorization": "Bearer a"})[2]]

    def test_one_stays_free_for_others(self):
        greedy, greedy_ended, _ = self.begin("a", 4, 100 if SLOW else 1800)
        until(lambda: sum(self.slots()) == 2, what="a client at work")
        time.sleep(0.1)
        self.assertEqual(sum(self.slots()), 2, "it took the last sequence")
        for key in "bc":
            others, _, codes = self.begin(key, 1, 3)
            others[0].join()
            self.assertEqual(codes, [200])
            self.assertEqual(greedy_ended, [], "the other client waited")
        for t in greedy:
            t.join()

    def test_a_part_of_the_queue_is_for_others(self):
        greedy, _, codes = self.begin("a", 16, 20 if SLOW else 300)
        until(lambda: 503 in codes, what="a full queue")
        others, _, other_codes = self.begin("b", 1, 3)
        others[0].join()
        self.assertEqual(other_codes, [200])
        for t in greedy:
            t.join()
        self.assertGreaterEqual(codes.count(200), 8)


class LongPrompts(ServeCase):
    """A toy whose tokens are bytes, with room for prompts that take a while."""

    ARGUMENTS = ["--parallel", "4", "-c", "32768", "--cache-ram", "0", "-t", "1"]

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.MODEL = os.path.join(folder.name, "toy.bin")
        write_model(Path(cls.MODEL), 32768)
        super().setUpClass()

    def test_a_client_that_leaves_ends_its_prompt(self):
        ask = completion("x" * 32000, 1, 1)
        seconds = []
        for _ in range(3):
            cut(self.server, ask, 0.05)
            seconds.append(until(lambda: is_idle(self.server)))
        self.assertLess(min(seconds), 0.5)

    def test_streams_keep_their_pace(self):
        times = []

        def stream():
            ask = completion("y", 4000, 1, stream=True, ignore_eos=True, logprobs=1)
            for _, data in self.events("/v1/completions", ask):
                times.append(time.perf_counter())
                if arrived and len(times) > 100 and ended:
                    return

        arrived, ended = [], []
        thread = threading.Thread(target=stream)
        thread.start()
        until(lambda: len(times) > 200, 20, "a running stream")
        arrived.append(time.perf_counter())
        self.assertEqual(self.post("/v1/completions", completion("z" * 8000, 1, 1))[0], 200)
        ended.append(time.perf_counter())
        thread.join()
        before = sorted(b - a for a, b in zip(times, times[1:]) if b < arrived[0])
        during = sorted(b - a for a, b in zip(times, times[1:]) if arrived[0] < a < ended[0])
        self.assertGreater(len(during), 20)
        self.assertLess(during[len(during) * 3 // 4], 10 * before[len(before) // 2] + 0.01)


@unittest.skipIf(WHY, WHY)
class Kept(unittest.TestCase):
    """Beginnings that outlive the server."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_once(self, text):
        """A server that answers one request; how many tokens of it were found."""
        server = Server("--cache-dir", self.folder, "--cache-ram", 16)
        try:
            body = server.post("/v1/completions", completion(text, 4, 1))[2]
            return body["usage"]["prompt_tokens_details"]["cached_tokens"]
        finally:
            self.assertEqual(server.stop(), 0)
            self.log = server.text()

    def files(self):
        """Oldest first."""
        return sorted(self.folder.iterdir(), key=lambda f: f.stat().st_mtime_ns)

    def test_a_restart_finds_them(self):
        self.assertEqual(self.run_once(STORY), 0)
        self.assertGreater(self.run_once(STORY), 50)
        self.assertEqual([f.stat().st_mode & 0o777 for f in self.files()], [0o600] * 2)

    def test_a_file_that_was_not_finished_leaves_the_older_one(self):
        self.run_once(STORY)
        self.run_once(STORY + "Then")
        old, new = self.files()
        for damage in (lambda b: b[: len(b) // 2], lambda b: b[:-1], lambda b: b[:99] + b"?" + b[100:]):
            whole = new.read_bytes()
            time.sleep(0.02)
            new.write_bytes(damage(whole))
            self.assertGreater(self.run_once(STORY), 50)
            self.assertRegex(self.log, rf"serve: --cache-dir {new}: the file of prefixes: .+: it is not used")
            old, new = self.files()
        for f in self.files():
            f.write_bytes(b"not a store")
        self.assertEqual(self.run_once(STORY), 0)
        self.assertGreater(self.run_once(STORY), 50)

    def test_many_restarts(self):
        """Servers that are asked to end, or killed at any moment, also while they write. SERVE_RESTARTS=50 makes a campaign of it."""
        r, first, found, refused = random.Random(5), {}, 0, 0
        for i in range(int(os.environ.get("SERVE_RESTARTS", 4))):
            server = Server("--cache-dir", self.folder, "--cache-ram", 16)
            try:
                text = server.text()
                lines = [line for line in text.splitlines() if "serve: --cache-dir" in line]  # one that was being written
                self.assertLessEqual(len(lines), 1, text)
                self.assertNotIn("Sanitizer", text)
                refused += len(lines)
                for k in r.sample(range(8), 4):
                    status, _, body = server.post("/v1/completions", completion(f"Story {k}. {STORY}", 20, k, receipt=True))
                    self.assertEqual(status, 200, body)
                    found += body["usage"]["prompt_tokens_details"]["cached_tokens"] > 50
                    got = compared(body["choices"][0]["receipt"])
                    self.assertEqual(first.setdefault(k, got), got)
                for _ in range(r.randrange(20)):
                    server.post("/v1/completions", completion(f"{r.random()} " * 30, 1, 1))
                how = r.choice(("end", "kill", "kill while it ends"))
                if how == "kill while it ends":
                    server.process.terminate()
                    time.sleep(r.random() * 0.02)
                self.assertIn(server.stop(signal.SIGTERM if how == "end" else signal.SIGKILL), (0,) if how == "end" else (0, -9))
            finally:
                server.stop()
        print(f"{i + 1} restarts, {found} beginnings found, {refused} files refused")

    def test_an_end_while_it_loads(self):
        """At any moment: nothing but what is kept is written to the files."""
        for i in range(20 if SLOW else 30):
            if i % 2 == 0:
                for f in self.files():
                    f.unlink()
            server = Server("--cache-dir", self.folder, "--cache-ram", 16, wait=False)
            time.sleep(i // 2 * (0.02 if SLOW else 0.001))
            self.assertEqual(server.stop(), 0, server.text())
            self.assertNotRegex(server.text(), "not used|not saved|Sanitizer")
            for f in self.files():
                self.assertIn(f.read_bytes()[:4], (b"", b"TERN"), i)

    def refused(self, *arguments):
        """What a server says that does not even listen, and its exit code."""
        p = subprocess.run([SERVE, MODEL, "--port", "0", *map(str, arguments)], capture_output=True, text=True, timeout=30)
        self.assertEqual(p.stdout, "")
        return p.returncode, p.stderr

    def test_a_folder_must_exist(self):
        code, text = self.refused("--cache-dir", self.folder / "none")
        self.assertEqual((code, text), (4, f"serve: --cache-dir {self.folder}/none: the folder must exist: No such file or directory\n"))

    def test_no_memory_to_keep_anything(self):
        self.run_once(STORY)
        kept = [(f, f.read_bytes()) for f in self.files()]
        code, text = self.refused("--cache-dir", self.folder, "--cache-ram", 0)
        self.assertEqual((code, text), (2, "serve: --cache-dir saves what --cache-ram holds, and that is 0: leave one of the two out\n"))
        self.assertEqual(kept, [(f, f.read_bytes()) for f in self.files()])

    def test_a_pipe_in_place_of_a_file(self):
        self.run_once(STORY)
        file = self.files()[0]
        file.unlink()
        os.mkfifo(file, 0o600)
        other = Server("--cache-dir", self.folder, wait=False)
        self.assertEqual(other.process.wait(10), 4)
        self.assertIn(f"--cache-dir {self.folder}: {file.name} is not a regular file\n", other.text())
        other.stop()

    def test_a_folder_belongs_to_one_server(self):
        server = Server("--cache-dir", self.folder)
        try:
            other = Server("--cache-dir", self.folder, wait=False)
            self.assertNotEqual(other.process.wait(10), 0)
            self.assertIn("another server uses it", other.text())
            other.stop()
        finally:
            server.stop()


@unittest.skipIf(WHY, WHY)
class Drain(unittest.TestCase):
    def test_what_runs_is_finished(self):
        server = Server("--parallel", "2")
        try:
            results = []
            ask = {**completion("The cat", 400, 1), "ignore_eos": True}
            thread = threading.Thread(target=lambda: results.append(server.post("/v1/completions", ask)))
            thread.start()
            until(lambda: server.metric("tern_requests_processing") == 1)
            self.assertEqual(server.stop(), 0)
            thread.join()
            self.assertEqual(results[0][0], 200)
            self.assertEqual(results[0][2]["usage"]["completion_tokens"], 400)
        finally:
            server.stop()

    def test_what_is_cut_off_is_told_after_a_time_without_processor(self):
        server = Server("--drain-seconds", "0", "-c", "32768")
        try:
            ask = {**completion("The cat", 32000, 1), "ignore_eos": True}
            with occupied(server, "/v1/completions", ask) as client:
                server.process.terminate()
                until(lambda: "ending" in server.text())
                server.process.send_signal(signal.SIGSTOP)
                time.sleep(2.5)  # more than the seconds that it takes to cut all off
                server.process.send_signal(signal.SIGCONT)
                self.assertIn(b" 503 ", client.recv(100))
            self.assertEqual(server.process.wait(60), 0)
        finally:
            server.stop()


if __name__ == "__main__":
    unittest.main()
