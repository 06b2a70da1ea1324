#!/usr/bin/env python3
"""serve: what takes long of a request is done in threads of its own. Streams and other requests go on meanwhile."""
# run-tests: long

import json
import os
import random
import signal
import socket
import struct
import threading
import time
import unittest

from serve_case import SLOW, ServeCase, Server, until

TEXT = "The cat sat on the mat. "
BIG = json.dumps({"content": TEXT * ((1 << 20 if SLOW else 8 << 20) // len(TEXT))}).encode()
ARGUMENTS = ["-t", 1, "-c", 16384, "--max-text", 8 << 20, "--max-body", 9 << 20, "--chat-template", "chatml"]
STREAM = {"prompt": "The cat", "max_tokens": 16000, "ignore_eos": True, "stream": True}
# More steps than the short lane takes, fewer than a request may have
HARD = {"type": "string", "allOf": [{"pattern": p} for p in ("^(a|b){0,300}$", "(ab){3,70}", "^.{10,90}$")]}


def send(server, body, path="/tokenize"):
    """A socket that has asked."""
    s = server.connect(60)
    s.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body)) + body)
    return s


def read_all(s):
    """The whole answer, without the interim ones before it."""
    with s:
        answer = b""
        while part := s.recv(1 << 16):
            answer += part
    while answer.startswith(b"HTTP/1.1 102 "):
        answer = answer.split(b"\r\n\r\n", 1)[1]
    return answer


def read(s):
    """All that comes, but only its beginning is kept: this process must not be what stops the stream."""
    head, room = s.recv(400), bytearray(1 << 20)
    while s.recv_into(room):
        pass
    s.close()
    return head


def ask_big(server):
    """How long it took, in seconds."""
    begin = time.monotonic()
    head = read(send(server, BIG))
    assert head.startswith(b"HTTP/1.1 200 "), head
    return time.monotonic() - begin


LETTERS = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=1 << 18 if SLOW else 2 << 20))
MUCH = json.dumps({"content": LETTERS}).encode()  # one word: each pair of neighbours is looked at


def seconds_of(server, body, path="/tokenize"):
    """Of the processor, for the whole answer."""
    before = server.seconds()
    read(send(server, body, path))
    return server.seconds() - before


class Lanes(ServeCase):
    ARGUMENTS = ARGUMENTS

    def test_stream_goes_on(self):
        """The longest gap of a stream is a small part of the time that a text of 8 MB takes; the best of five
        tries, because others use this machine, too."""
        with send(self.server, json.dumps(STREAM).encode(), "/v1/completions") as s:
            s.settimeout(30)
            times, over = [], threading.Event()

            def follow():
                while not over.is_set() and s.recv(65536):
                    times.append(time.monotonic())

            reader = threading.Thread(target=follow)
            reader.start()
            until(lambda: len(times) > 10, 30, "the stream")
            shares = []
            for _ in range(5):
                begin = len(times) - 1
                seconds = ask_big(self.server)
                here = [*times[begin:], time.monotonic()]
                shares.append(max(b - a for a, b in zip(here, here[1:])) / seconds)
                if shares[-1] < 0.25:
                    break
            over.set()
            reader.join()
        self.assertLess(min(shares), 0.25, shares)

    def test_health_meanwhile(self):
        with send(self.server, BIG) as s:
            until(lambda: self.server.metric("tern_http_exchanges") == 2, 30)
            begin, n = time.monotonic(), 0
            while self.server.metric("tern_http_exchanges") == 2:
                n += 1
            seconds = time.monotonic() - begin
            read(s)
        self.assertGreater(n, 3, f"{n} answers in {seconds} s")

    def test_hard_constraint(self):
        """It waits behind the text of 8 MB; a simple one does not."""
        easy = {"prompt": "The", "max_tokens": 1, "json_schema": {"type": "integer"}}
        with send(self.server, BIG) as s:
            until(lambda: self.server.metric("tern_http_exchanges") == 2, 30)
            hard = send(self.server, json.dumps({**easy, "json_schema": HARD}).encode(), "/v1/completions")
            self.assertEqual(self.post("/v1/completions", easy)[0], 200)
            self.assertEqual(self.server.metric("tern_http_exchanges"), 3, "the hard one must wait")
            read(s)
            self.assertTrue(read(hard).startswith(b"HTTP/1.1 200 "))

    def test_same_limit(self):
        """A constraint that is compiled soon, and whose masks take many steps: no lane gives them fewer."""
        regex = "|".join(f"(.*{c}){{{i + 2}}}.*" for i, c in enumerate("etaoinshrdlu"))
        body = {"prompt": "The", "seed": 1, "max_tokens": 40, "guided_regex": regex}
        texts = []
        for more in ({}, {"metadata": {"a": "a" * 70000}}):
            server = Server(*ARGUMENTS)  # each compiles it
            self.addCleanup(server.stop)
            code, _, answer = server.post("/v1/completions", {**body, **more}, timeout=60)
            self.assertEqual(code, 200, answer)
            self.assertEqual(server.metric("tern_constraints_compiled_total"), 1)
            texts.append(answer["choices"][0]["text"])
        self.assertEqual(*texts)

    def test_little_goes_first(self):
        """A chat of 70 KB waits for the text of 2 MB that is in work, not for those that wait; whether the first of
        them is over or not."""
        count, chat = (
            json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, **more}).encode()
            for more in ({"system": TEXT * ((2 << 20) // len(TEXT))}, {"metadata": {"a": "a" * 70000}})
        )
        left = []
        for done in (0, 1):
            texts = [send(self.server, count, "/v1/messages/count_tokens") for _ in range(4 + done)]
            until(lambda n=len(texts): self.server.metric("tern_http_exchanges") == 1 + n, 30)
            until(lambda n=len(texts): self.server.metric("tern_http_exchanges") <= 1 + n - done, 60)
            self.assertTrue(read(send(self.server, chat, "/v1/chat/completions")).startswith(b"HTTP/1.1 200 "))
            left.append(self.server.metric("tern_http_exchanges") - 1)
            for s in texts:  # too many tokens, which takes as long to find out
                self.assertTrue(read(s).startswith(b"HTTP/1.1 400 "))
        self.assertGreaterEqual(min(left), 2, left)

    def test_much_has_its_turn(self):
        """A text of 1 MB is answered while texts of 70 KB keep coming, of which one always waits."""
        much, little = (json.dumps({"content": TEXT * (n // len(TEXT))}).encode() for n in (1 << 20, 70000))
        counts, over = [0] * 4, threading.Event()

        def ask(i):
            while not over.is_set() and counts[i] < 200:
                assert read(send(self.server, little)).startswith(b"HTTP/1.1 200 ")
                counts[i] += 1

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(counts))]
        for t in threads:
            t.start()
        until(lambda: min(counts), 30)
        self.assertTrue(read(send(self.server, much)).startswith(b"HTTP/1.1 200 "))
        over.set()
        for t in threads:
            t.join()
        self.assertLess(max(counts), 200, "it must not wait until nothing else does")

    def test_half_closed(self):
        """Clients that have ended sending wait in the long lane and behind the model; each gets its whole answer."""
        texts = {"prompt": "The cat", "max_tokens": 5, "ignore_eos": True, "metadata": {"a": "a" * 70000}}
        bodies = {
            "/tokenize": {"content": TEXT * 4000},
            "/v1/completions": texts,
            "/completions": {**texts, "stream": True},
        }
        ends = {"/tokenize": b"}", "/v1/completions": b"}", "/completions": b"data: [DONE]\n\n\r\n0\r\n\r\n"}
        for _ in range(int(os.environ.get("SERVE_ROUNDS", 3))):
            with send(self.server, BIG[: 1 << 19] + b'"}') as big:
                until(lambda: self.server.metric("tern_http_exchanges") == 2, 30)
                waiting = [(p, send(self.server, json.dumps(b).encode(), p)) for p, b in bodies.items() for _ in range(4)]
                for _, s in waiting:
                    s.shutdown(socket.SHUT_WR)
                for path, s in waiting:
                    answer = read_all(s)
                    self.assertTrue(answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(ends[path]), (path, answer[:300]))
                read(big)

    def test_client_leaves(self):
        before = self.server.files()
        for _ in range(3):
            s = send(self.server, BIG)
            until(lambda: self.server.metric("tern_http_exchanges") == 2, 30)
            s.close()
            until(lambda: self.server.metric("tern_http_exchanges") == 1, 60, "the end")
        self.assertEqual(self.get("/health")[0], 200)
        until(lambda: self.server.files() <= before, 5)
        self.assertRegex(self.server.text(), r"POST /tokenize \d+ [0-9.]+s lost")

    def test_work_of_one_who_left(self):
        """It ends soon: a text that is tokenized, JSON that is read. Measured in seconds of the processor."""
        objects = json.dumps({"content": "a", "x": [{}] * 600_000}).encode()
        for body, share in ((MUCH, 4), (objects, 2)):
            whole = seconds_of(self.server, body)
            before = self.server.seconds()
            s = send(self.server, body)
            until(lambda: self.server.seconds() - before > whole / 10, 60)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            s.close()
            until(lambda: self.server.metric("tern_http_exchanges") == 1, 60, "the end")
            self.assertLess(self.server.seconds() - before, whole / share + 0.1)
        self.assertNotIn("shutting down", self.server.text())

    def test_crowd(self):
        """Long and short ones at once; each gets its own answer."""
        results = []

        def one(i):
            text = TEXT * (1 + 4000 * (i % 2)) + str(i)
            status, _, body = self.post("/tokenize", {"content": text})
            back = self.post("/detokenize", {"tokens": body["tokens"]})[2]["content"]
            results.append((status, back.strip() == text.strip()))

        threads = [threading.Thread(target=one, args=(i,)) for i in range(12)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(results, [(200, True)] * 12)


class Ends(unittest.TestCase):
    def test_drain(self):
        """What is worked on when the server is asked to end gets its answer. What has not come whole by then gets
        503, so a few moments are tried."""
        heads = []
        for seconds in (0.05, 0.1, 0.2, 0.02, 0.4):
            server = Server(*ARGUMENTS)
            with send(server, BIG) as s:
                until(lambda: server.metric("tern_http_exchanges") == 2, 30)
                time.sleep(seconds)
                server.process.send_signal(signal.SIGTERM)
                heads.append(read(s)[:12])
            self.assertEqual(server.process.wait(60), 0)
            server.stop()
            self.assertIn(heads[-1], (b"HTTP/1.1 200", b"HTTP/1.1 503"))
            if heads[-1] == b"HTTP/1.1 200":
                return
        self.fail(heads)

    def test_no_patience(self):
        """What waits behind it is not begun."""
        server = Server(*ARGUMENTS, "--drain-seconds", 0)
        sockets = [send(server, BIG) for _ in range(4)]
        until(lambda: server.metric("tern_http_exchanges") >= 2, 30)
        self.assertEqual(server.stop(), 0)
        for s in sockets:
            s.close()

    def test_work_after_the_time_to_drain(self):
        """It is given up, and its client is told."""
        server = Server(*ARGUMENTS, "--drain-seconds", 0)
        whole, before = seconds_of(server, MUCH), server.seconds()
        with send(server, MUCH) as s:
            until(lambda: server.seconds() - before > whole / 10, 60)
            server.process.send_signal(signal.SIGTERM)
            head, _, body = read_all(s).partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 503 "), head)
        self.assertEqual(json.loads(body)["error"]["code"], "shutting_down")
        self.assertEqual(server.process.wait(60), 0)
        server.stop()


if __name__ == "__main__":
    unittest.main()
