"""Every limit of `serve` at one below, at, and one above; slow, greedy and vanished clients."""
# run-tests: waits

import contextlib
import json
import os
import re
import resource
import signal
import socket
import struct
import time
import unittest

from serve_case import SLOW, ServeCase, Server, together, until

CHAT = "/v1/chat/completions"


def request(line="GET /health HTTP/1.1", fields=("Host: localhost",), body=b""):
    return ("\r\n".join([line, *fields]) + "\r\n\r\n").encode() + body


def status(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 0


def fault(answer):
    """The error of an answer in OpenAI's form."""
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]


class Sizes(ServeCase):
    """At the defaults."""

    ARGUMENTS = ["--chat-template", "chatml", "--idle-time", "1"]

    def raw(self, *a, **k):
        return self.server.raw(request(*a, **k), timeout=10)

    def three(self, make, limit, code):
        """make(n) -> status; n one below, at, and one above the limit."""
        self.assertEqual([make(limit - 1), make(limit), make(limit + 1)], [200, 200, code])

    def test_request_line(self):
        def make(n):
            line = "GET /health?" + "a" * (n - len("GET /health? HTTP/1.1")) + " HTTP/1.1"
            self.assertEqual(len(line), n)
            return status(self.raw(line))

        self.three(make, 8192, 414)

    def test_header_bytes(self):
        def make(n):
            fields = ["Host: localhost", "Connection: close", "A: "]
            fields[2] += "a" * (n - sum(len(f) + 2 for f in fields))
            return status(self.raw(fields=fields))

        self.three(make, 16384, 431)

    def test_header_fields(self):
        def make(n):
            return status(self.raw(fields=["Host: localhost", "Connection: close", *[f"A{i}: b" for i in range(n - 2)]]))

        self.three(make, 100, 431)

    def test_parts(self):
        """Cookies and parameters count as fields do, in a first request and in a later one."""
        for later in (False, True):

            def make(n, parameters=0, cookies=0, later=later):
                fields = ["Host: localhost", "Cookie: " + "; ".join(f"c{i}=d" for i in range(cookies))][: 1 + (cookies > 0)]
                fields += [f"A{i}: b" for i in range(n - len(fields) - parameters - cookies)]
                asked = request("GET /health" + "?" * (parameters > 0) + "&".join("a" * parameters) + " HTTP/1.1", fields)
                with self.server.connect() as s:
                    for data in (request(), asked) if later else (asked,):
                        s.sendall(data)
                        answer, part = b"", b"-"
                        while part and b"}" not in answer:
                            answer += (part := s.recv(4096))
                    return status(answer)

            for parts in ({}, {"parameters": 50}, {"cookies": 50}, {"parameters": 20, "cookies": 20}):
                with self.subTest(later=later, **parts):
                    self.three(lambda n, parts=parts: make(n, **parts), 100, 431)

    def test_largest(self):
        """All limits are reached at once, by cookies, of which MHD keeps a copy."""
        line = "GET /health?" + "a" * (8192 - len("GET /health? HTTP/1.1")) + " HTTP/1.1"
        fields = ["Host: localhost", "Connection: close", "Cookie: " + ";a=" * 95]
        fields[2] += "a" * (16384 - sum(len(f) + 2 for f in fields))
        self.assertEqual(status(self.raw(line, fields)), 200)

    def test_far_beyond(self):
        for code, line, *fields in (
            (414, "GET /" + "a" * 100_000 + " HTTP/1.1"),
            (414, "GET /" + "a" * 100_000),
            (431, "GET /?" + "&a" * 4000 + " HTTP/1.1"),
            (431, "GET / HTTP/1.1", "A: " + "a" * 100_000),
            (431, "GET / HTTP/1.1", "A: " + " " * 100_000),
            (431, "GET / HTTP/1.1", "Cookie: " + ";a" * 8000),
            (431, "GET / HTTP/1.1", *["A:"] * 5000),
        ):
            with self.subTest(line=line[:10], fields=str(fields)[:20]):
                answer = self.raw(line, ["Host: localhost", *fields])
                self.assertEqual((status(answer), fault(answer)["code"]), (code, "bad_request"))
        self.assertEqual(self.get("/health")[0], 200)

    def body(self, n):
        start, end = '{"messages":[{"role":"user","content":"hi"}],"max_tokens":1,"metadata":{"a":"', '"}}'
        return start + "a" * (n - len(start) - len(end)) + end

    def test_body(self):
        for chunked in (False, True):

            def make(n, chunked=chunked):
                data = self.body(n).encode()
                fields = ["Host: localhost", "Connection: close"]
                if chunked:
                    fields.append("Transfer-Encoding: chunked")
                    data = b"".join(
                        b"%x\r\n%s\r\n" % (len(data[i : i + 50000]), data[i : i + 50000])
                        for i in range(0, len(data), 50000)
                    )
                    data += b"0\r\n\r\n"
                else:
                    fields.append(f"Content-Length: {n}")
                return status(self.raw(f"POST {CHAT} HTTP/1.1", fields, data))

            with self.subTest(chunked=chunked):
                self.three(make, 8 << 20, 413)

    def test_body_refused_early(self):
        """With 100-continue, and with an absurd length, nothing of the body is read."""
        for fields in (["Content-Length: 9000000", "Expect: 100-continue"], ["Content-Length: 99999999999"]):
            answer = self.raw(f"POST {CHAT} HTTP/1.1", ["Host: localhost", *fields])
            self.assertEqual(status(answer), 413)
            self.assertEqual(fault(answer)["type"], "request_too_large")

    def test_body_refused_at_once(self):
        """A client that sends no body sees 413 now; one that sends all of it first sees it, too."""

        def logged():
            return len(re.findall(rf"POST {CHAT} 413 [0-9.]+s done the body has {n} bytes", self.server.text()))

        n = (8 << 20) + 1
        before = logged()
        head = request(f"POST {CHAT} HTTP/1.1", ["Host: localhost", f"Content-Length: {n}"])
        answer = self.server.raw(head, timeout=10)  # less than --body-time
        self.assertEqual((status(answer), answer.count(b"HTTP/1.1")), (413, 1))
        self.assertIn(f"the body has {n} bytes; at most {8 << 20} are allowed", fault(answer)["message"])
        for _ in range(5):
            with self.server.connect() as s:
                s.sendall(head + b" " * n)
                time.sleep(0.05)
                answer = b""
                while part := s.recv(4096):
                    answer += part
                self.assertEqual(status(answer), 413)
        self.assertEqual(self.server.ask("POST", CHAT, " " * n)[0], 413)
        until(lambda: self.server.metric("tern_http_exchanges") == 1)
        self.assertEqual(logged() - before, 7)
        with self.server.connect() as s:
            s.sendall(head)
            until(lambda: self.server.metric("tern_http_exchanges") == 2)
            until(lambda: self.server.metric("tern_http_exchanges") == 1, 10, "the end")

    def test_depth(self):
        def make(n):
            inner = "[" * (n - 1) + "]" * (n - 1)
            text = '{"messages":[{"role":"user","content":"hi"}],"max_tokens":1,"metadata":%s}' % inner
            return self.post(CHAT, text)[0]

        self.three(make, 64, 400)
        s, _, body = self.post(CHAT, '{"a":' * 100_000)
        self.assertEqual((s, body["error"]["code"]), (400, "json_too_deep"))

    def test_brackets_in_strings(self):
        s, _, _ = self.post(CHAT, {"messages": [{"role": "user", "content": "[" * 100 + '\\"' * 30}], "max_tokens": 1})
        self.assertEqual(s, 200)

    def test_half_characters(self):
        for escape in ("\\ud83d", "\\ude00", "\\ud83dx", "\\ud83d\\ud83d", "\\ud83d\\ude00", "\\\\ud83d"):
            text = '{"messages":[{"role":"user","content":"%s"}],"max_tokens":1}' % escape
            self.assertEqual(self.post(CHAT, text)[0], 200, escape)


class Texts(ServeCase):
    """--max-text: what is only tokenized or counted."""

    LIMIT = 1600
    ARGUMENTS = ["--chat-template", "chatml", "--max-text", LIMIT]

    def three(self, path, make, limit):
        """make(n): the body that asks for n bytes."""
        answers = [self.post(path, make(limit + i)) for i in (-1, 0, 1)]
        self.assertEqual([a[0] for a in answers], [200, 200, 400], answers[0])
        self.assertIn(f"at most {limit} are allowed" if path != "/detokenize" else f"more than the {limit} bytes", answers[2][2]["error"]["message"])

    def test_tokenize(self):
        self.three("/tokenize", lambda n: {"content": "a" * n}, self.LIMIT)
        self.three("/tokenize", lambda n: {"content": "a" * n, "with_pieces": True}, self.LIMIT // 16)

    def test_detokenize(self):
        one = self.post("/tokenize", {"content": "!"})[2]["tokens"]
        self.assertEqual(self.post("/detokenize", {"tokens": one * 3})[2]["content"], "!!!")
        self.three("/detokenize", lambda n: {"tokens": one * n}, self.LIMIT)

    def test_conversations(self):
        def make(n):
            return {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "a" * n}]}

        self.three("/apply-template", make, self.LIMIT)
        self.three("/v1/responses/input_tokens", lambda n: {"model": "m", "input": "a" * n}, self.LIMIT)
        for i, code in ((-1, 200), (0, 200), (1, 400)):
            self.assertEqual(self.post("/v1/messages/count_tokens", make(self.LIMIT + i))[0], code)

    @unittest.skipIf(SLOW, "a sanitizer takes memory of its own")
    def test_without_memory(self):
        """An answer that finds no memory is 503, and soon."""
        room = 1_500_000_000
        server = Server("--max-text", 1 << 30, "--cache-ram", 0, before=lambda: resource.setrlimit(resource.RLIMIT_AS, (room, room)))
        self.addCleanup(server.stop)
        code, _, body = server.post("/tokenize", {"content": "a b " * 2_000_000, "with_pieces": True}, timeout=60)
        self.assertEqual((code, body["error"]["code"]), (503, "out_of_memory"))
        self.assertEqual(server.get("/health")[0], 200)


class Prompts(ServeCase):
    """What cannot fit is refused before it is encoded, which would stop all others meanwhile."""

    ARGUMENTS = ["--chat-template", "chatml", "-c", "256"]
    MANY = "The cat sat on the mat. " * 200_000

    def refused(self, path, body, words):
        begin = self.server.seconds()
        code, _, answer = self.post(path, body)
        self.assertEqual(code, 400)
        error = answer["error"]
        if "messages" not in path:
            self.assertEqual(error["code"], "context_length_exceeded")
        self.assertRegex(error["message"], words)
        return self.server.seconds() - begin

    def test_at_least(self):
        words = r"prompt is too long: at least \d+ tokens > 256 maximum. This model's maximum context length is 256 tokens "
        talk = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": self.MANY}]}
        for path, body in (
            (CHAT, talk),
            ("/v1/messages", talk),
            ("/v1/responses", {"model": "m", "input": self.MANY}),
            ("/v1/completions", {"prompt": self.MANY}),
            ("/v1/embeddings", {"input": ["a", self.MANY]}),
        ):
            with self.subTest(path):
                seconds = min(self.refused(path, body, words) for _ in range(1 if SLOW else 3))
                if not SLOW:
                    self.assertLess(seconds, 1)

    def test_what_may_fit(self):
        """Blanks may take no tokens, so that they are encoded."""
        self.refused("/v1/completions", {"prompt": " " * 100_000}, r"the prompt is too long: \d+ tokens > ")
        longest = max(len(p["piece"]) for p in self.post("/tokenize", {"content": "The little cat sat because something", "with_pieces": True})[2]["tokens"])
        self.refused("/v1/completions", {"prompt": "a" * 256 * longest}, r"the prompt is too long: \d+ tokens > ")


class Memory(ServeCase):
    """What all requests together may take."""

    LIMIT = 4_000_000
    ARGUMENTS = ["--chat-template", "chatml", "--max-request-memory", LIMIT, "--body-time", "60", "-c", "16384", "-np", "8"]

    def send(self, n, sent):
        """A connection that has sent so many bytes of a body of n."""
        s = self.server.connect()
        s.sendall(request(f"POST {CHAT} HTTP/1.1", ["Host: localhost", f"Content-Length: {n}"], b" " * sent))
        return s

    def test_sum(self):
        """Three bodies that are still on their way leave no room for a fourth; when they are gone, it has some."""
        hi = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
        held = [self.send(2_000_000, 850_000) for _ in range(3)]  # their buffers have up to half as much again
        for _ in range(100):  # each takes a turn of the thread that reads these bodies
            self.get("/health")
        code, headers, body = self.post(CHAT, {**hi, "metadata": {"a": "a" * 800_000}})
        self.assertEqual((code, headers["retry-after"], body["error"]["code"]), (503, "1", "out_of_memory"))
        self.assertEqual(self.post(CHAT, hi)[0], 200)
        for s in held:
            s.close()
        until(lambda: self.post(CHAT, {**hi, "metadata": {"a": "a" * 800_000}})[0] == 200, what="room")

    def values(self, n):
        """A body that counts n bytes: its text, that again for the JSON, and 112 for each value."""
        start, end = '{"max_tokens":1,"messages":[{"role":"user","content":"hi"}],"metadata":[', "1]}"
        rest = n - 1 - 2 * len(start + end) - 112 * sum(start.count(c) for c in ",:{[")
        return start + " " * (rest % 116 // 2) + "1," * (rest // 116) + end

    def test_one(self):
        codes = [self.post(CHAT, self.values(self.LIMIT + i))[0] for i in (-2, 0, 2)]
        self.assertEqual(codes, [200, 200, 413])

    @unittest.skipIf(SLOW, "a sanitizer takes memory of its own")
    def test_nothing_takes_more_than_it_counts(self):
        """The worst that JSON can be for its length, of all kinds."""
        server = Server("--chat-template", "chatml", "--max-request-memory", 64 << 20)
        try:
            server.post(CHAT, self.values(100_000))
            before = server.rss()
            for value, count in (("1", 112), ('""', 112), ("[]", 224), ("{}", 224), ('"k%07d":1', 224), ('"k%07d":{}', 336)):
                n = (60 << 20) // (count + 2 * len(value % 1 if "%" in value else value) + 2)
                inner = ",".join(value % i if "%" in value else value for i in range(n))
                inner = "{%s}" % inner if "%" in value else "[%s]" % inner
                code = server.post(CHAT, '{"messages":[{"role":"user","content":"hi"}],"max_tokens":1,"metadata":%s}' % inner)[0]
                self.assertEqual(code, 200, value)
                self.assertLess(high_water(server.pid) - before, 72 << 20, value)
        finally:
            self.assertEqual(server.stop(), 0)


class Constraints(unittest.TestCase):
    """--max-constraint-memory: what all compiled constraints and the texts in them may take."""

    ARGUMENTS = ["--chat-template", "chatml", "-c", "16384", "-t", "1"]

    def serve(self, *arguments):
        server = Server(*self.ARGUMENTS, *arguments)
        self.addCleanup(server.stop)
        return server

    def body(self, first=0, n=2000, **more):
        """Most of what its schema takes, it takes while it is compiled."""
        schema = {"enum": [f"word {i}" for i in range(first, first + n)]}
        return {"prompt": "The", "max_tokens": 1, "json_schema": schema, **more}

    def stream(self, server, body):
        """A text that runs until its connection is closed."""
        s = server.connect(60)
        text = json.dumps({**body, "stream": True, "max_tokens": 15000}).encode()
        s.sendall(request("POST /v1/completions HTTP/1.1", ["Host: localhost", f"Content-Length: {len(text)}"], text))
        self.assertIn(b" 200 ", s.recv(1000))
        return s

    def test_limit(self):
        measured = self.serve()
        self.assertEqual(measured.post("/v1/completions", self.body(), timeout=60)[0], 200)
        limit = int(measured.metric("tern_constraint_most_bytes"))
        self.assertGreater(limit, 100_000)
        self.assertEqual(measured.metric("tern_constraint_max_bytes"), 256 << 20)
        for i, want in ((-100_000, 400), (-1, 400), (0, 200), (1, 200)):
            server = self.serve("--max-constraint-memory", limit + i)
            code, headers, body = server.post("/v1/completions", self.body(), timeout=60)
            self.assertEqual(code, want, body)
            if code == 400:  # trying again would not help
                self.assertNotIn("retry-after", headers)
                self.assertEqual((body["error"]["type"], body["error"]["param"]), ("invalid_request_error", "json_schema"))
                wants, may = map(int, re.findall("[0-9]+", body["error"]["message"]))
                self.assertEqual(may, limit + i)
                self.assertLess(may, wants)
                self.assertEqual(server.metric("tern_constraint_bytes"), 0)
            self.assertLessEqual(server.metric("tern_constraint_most_bytes"), limit + i)

    def test_others_leave(self):
        """Constraints that nobody uses leave for a new one; one that a text uses stays, and leaves no room."""
        measured = self.serve()
        self.assertEqual(measured.post("/v1/completions", self.body(1000), timeout=60)[0], 200)
        limit = int(measured.metric("tern_constraint_most_bytes"))
        server = self.serve("--max-constraint-memory", limit)
        for i in range(4):
            self.assertEqual(server.post("/v1/completions", self.body(1000 * (i % 2), timeout=60))[0], 200, i)
        with self.stream(server, {"prompt": "The", "grammar": "root ::= [a-z .,]{19000,19999}"}):
            code, headers, body = server.post("/v1/completions", self.body(1000), timeout=60)
            self.assertEqual((code, headers.get("retry-after"), body["error"]["code"]), (503, "1", "out_of_memory"))
            self.assertEqual(server.post("/v1/completions", {"prompt": "The", "max_tokens": 1}, timeout=60)[0], 200)
        until(lambda: server.post("/v1/completions", self.body(1000), timeout=60)[0] == 200, 20, "room")
        self.assertLessEqual(server.metric("tern_constraint_most_bytes"), limit)

    def test_texts_count(self):
        """A text whose own memory finds no room fails; the server goes on."""
        body = {"prompt": "The", "grammar": "root ::= [a-z .,]{9000,9999}", "max_tokens": 3000}
        server = self.serve()
        self.assertEqual(server.post("/v1/completions", {**body, "max_tokens": 1}, timeout=60)[0], 200)
        limit = int(server.metric("tern_constraint_most_bytes"))
        self.assertEqual(server.post("/v1/completions", body, timeout=60)[0], 200)
        self.assertGreater(server.metric("tern_constraint_most_bytes"), limit + 4000)
        server = self.serve("--max-constraint-memory", limit + 4000)
        code, headers, answer = server.post("/v1/completions", body, timeout=60)
        self.assertEqual((code, headers.get("retry-after")), (503, "1"), answer)
        self.assertEqual(server.post("/v1/completions", {**body, "max_tokens": 1}, timeout=60)[0], 200)

    def test_compiled_once(self):
        """Who asks for what is being compiled waits for it; the first one began it in the short lane, too."""
        server = self.serve()
        schema = {"type": "string", "allOf": [{"pattern": "^(a|b){0,900}$"}, {"pattern": "(ab){3,200}"}, {"pattern": "^.{10,90}$"}]}
        body = {"prompt": "The", "max_tokens": 1, "json_schema": schema}
        codes = []

        def ask(i):
            if i:
                until(lambda: server.metric("tern_constraints_compiled_total") >= 2, what="the long lane")
            codes.append(server.post("/v1/completions", body, timeout=60)[0])

        together(4, ask)
        self.assertEqual(codes, [200] * 4)
        self.assertEqual(server.metric("tern_constraints_compiled_total"), 2)


def high_water(pid):
    """The most resident bytes that a process ever had."""
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmHWM"))


class Times(ServeCase):
    ARGUMENTS = ["--header-time", "1", "--body-time", "4", "--idle-time", "1", "--body-rate", "500", "--chat-template", "chatml"]

    def closes(self, first, drip, every, seconds):
        """Sends bytes one at a time; returns (what came back, seconds until the end)."""
        begin = time.monotonic()
        with self.server.connect() as s:
            s.sendall(first)
            s.settimeout(every)
            answer = b""
            while time.monotonic() - begin < seconds:
                try:
                    part = s.recv(4096)
                    answer += part
                    if not part:
                        break
                except TimeoutError:
                    if drip:
                        s.sendall(drip)
                except (ConnectionResetError, BrokenPipeError):
                    break
            return answer, time.monotonic() - begin

    def closes_between(self, low, high, first, drip):
        """What came back before the end, which came after so many seconds. The upper bound has three tries: a machine that is
        busy is late now and then."""
        for _ in range(3):
            answer, seconds = self.closes(first, drip, 0.1, 30)
            self.assertGreater(seconds, low)
            if seconds < high:
                return answer
        self.fail(f"it took {seconds} s")

    def test_header(self):
        """A header that drips is cut off with 408 in the API's form, however often a byte comes."""
        answer = self.closes_between(0.9, 2, b"GET /health HTTP/1.1\r\nHost: localhost\r\nA: ", b"a")
        self.assertEqual(status(answer), 408)
        self.assertEqual(fault(answer)["type"], "timeout_error")

    def test_slow_header_in_time(self):
        for _ in range(5):
            with self.server.connect() as s:
                begin = time.monotonic()
                s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r")
                time.sleep(0.6)
                s.sendall(b"\n")
                if time.monotonic() - begin < 0.9:  # else this test was late, and not the server
                    self.assertEqual(status(s.recv(4096)), 200)
                    return
        self.skipTest("the machine is too busy")

    def test_idle(self):
        self.assertEqual(self.closes_between(0.9, 2, b"", b""), b"")
        self.assertEqual(status(self.closes_between(0.9, 2, request(), b"")), 200)

    def post(self, n):
        return request(f"POST {CHAT} HTTP/1.1", ["Host: localhost", f"Content-Length: {n}"])

    def test_body_rate(self):
        """500 bytes a second count after 2 s: 100 bytes a second are too few, 1,000 are enough."""
        answer = self.closes_between(1.9, 3.5, self.post(100_000), b"a" * 10)
        self.assertEqual((status(answer), fault(answer)["type"]), (408, "timeout_error"))
        answer, seconds = self.closes(self.post(100_000), b"a" * 200, 0.1, 30)
        self.assertEqual(status(answer), 408)
        self.assertGreater(seconds, 3.9)  # --body-time

    def test_what_waits_is_not_late(self):
        """A server that does nothing for a while finds what clients sent meanwhile, and takes it."""
        body = b'{"messages":[{"role":"user","content":"hi"}],"max_tokens":1}'
        whole = request(f"POST {CHAT} HTTP/1.1", ["Host: localhost", f"Content-Length: {len(body)}"]) + body
        for n, seconds in ((0, 1.3), (30, 1.3), (len(whole) - len(body), 2.4)):
            with self.subTest(n), self.server.connect() as s:
                s.sendall(whole[:n])
                time.sleep(0.2)
                self.server.process.send_signal(signal.SIGSTOP)
                try:
                    s.sendall(whole[n:])
                    time.sleep(seconds)
                finally:
                    self.server.process.send_signal(signal.SIGCONT)
                self.assertEqual(status(s.recv(4096)), 200)

    def test_request_in_two_parts(self):
        """The first part is there before the server accepts the connection."""
        whole = request(fields=["Host: localhost", "Connection: close"])
        for n in (1, 15, 22, len(whole) - 1):
            self.server.process.send_signal(signal.SIGSTOP)
            try:
                s = self.server.connect()
                s.sendall(whole[:n])
            finally:
                self.server.process.send_signal(signal.SIGCONT)
            with self.subTest(n), s:
                time.sleep(0.2)
                s.sendall(whole[n:])
                self.assertEqual(status(s.recv(4096)), 200)

    def test_body_in_time(self):
        body = b'{"messages":[{"role":"user","content":"hi"}],"max_tokens":1}'
        with self.server.connect() as s:
            s.sendall(request(f"POST {CHAT} HTTP/1.1", ["Host: localhost", f"Content-Length: {len(body)}"]) + body[:-1])
            time.sleep(1.2)  # more than --header-time
            s.sendall(body[-1:])
            self.assertEqual(status(s.recv(4096)), 200)


class Readers(ServeCase):
    """Clients that do not read."""

    ARGUMENTS = ["--stall-time", "1", "--max-output", "20000", "--chat-template", "chatml", "-c", "16384"]

    def slow(self, body, room=4096):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        s.connect(("127.0.0.1", self.port))
        text = json.dumps(body).encode()
        s.sendall(request(f"POST {CHAT} HTTP/1.1", ["Host: localhost", f"Content-Length: {len(text)}"], text))
        return s

    BODY = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8000, "ignore_eos": True, "stream": True, "temperature": 1}

    def test_stream(self):
        """Who takes nothing is dropped after --stall-time, and the text is cancelled."""
        before = self.server.files()
        begin = time.monotonic()
        with self.slow(self.BODY, 65536) as s:
            until(lambda: self.server.metric("tern_http_exchanges") == 2)
            until(lambda: self.server.metric("tern_http_exchanges") == 1, 120)
            self.assertGreater(time.monotonic() - begin, 1)
            self.assertIn("lost the client took nothing for 1 s", self.server.text())
            s.settimeout(5)
            with self.assertRaises(ConnectionError):
                while s.recv(65536):
                    pass
                raise ConnectionError
        until(lambda: self.server.files() <= before)
        self.assertEqual(self.get("/health")[0], 200)

    @unittest.skipIf(SLOW, "the server must be faster than the client")
    def test_stream_that_is_read_slowly(self):
        """It loses nothing: the server waits for a client that pauses, and all choices go on."""
        body = {**self.BODY, "max_tokens": 400, "n": 4, "seed": 1, "logprobs": True, "top_logprobs": 20}
        whole = self.post(CHAT, {**body, "stream": False})[2]["choices"]
        with self.slow(body) as s:
            s.settimeout(30)
            data, turn = b"", 0
            while not data.endswith(b"0\r\n\r\n"):
                part = s.recv(65536)
                self.assertTrue(part, f"the stream ended after {len(data)} bytes; {self.server.text()[-300:]}")
                data += part
                if len(data) > turn * 400_000:
                    turn += 1
                    time.sleep(0.7)
        self.assertGreater(len(data), 1_000_000)
        texts, order = [""] * 4, []
        for line in data.split(b"\n"):
            if line.startswith(b"data: {"):
                choice = json.loads(line[6:])["choices"][0]
                texts[choice["index"]] += choice["delta"].get("content") or ""
                order.append(choice["index"])
        self.assertEqual(texts, [c["message"]["content"] for c in whole])
        self.assertEqual(set(order[: len(order) // 2]), {0, 1, 2, 3}, "one choice kept the others waiting")

    def test_stall(self):
        """A whole answer that nobody takes is dropped after --stall-time."""
        body = {**self.BODY, "stream": False, "max_tokens": 300, "logprobs": True, "top_logprobs": 20}
        begin = time.monotonic()
        with self.slow(body):
            until(lambda: self.server.metric("tern_http_exchanges") == 2)
            until(lambda: self.server.metric("tern_http_exchanges") == 1, 60)
        self.assertGreater(time.monotonic() - begin, 1)

    def test_slow_but_steady(self):
        with self.slow({**self.BODY, "max_tokens": 30}) as s:
            s.settimeout(10)
            text = b""
            while not text.endswith(b"0\r\n\r\n"):
                text += s.recv(500)
                time.sleep(0.01)
            self.assertIn(b"[DONE]", text)


class PatientReaders(ServeCase):
    """--reader-time bounds how long a text waits for its client in all, though the client reads now and then."""

    ARGUMENTS = ["--reader-time", "4", "--stall-time", "60", "--max-output", "20000", "--chat-template", "chatml", "-c", "16384"]
    BODY = {**Readers.BODY, "max_tokens": 3000, "logprobs": True, "top_logprobs": 20}
    slow = Readers.slow

    def read(self, s, pauses):
        """Pauses of 1.5 s, and between them so much that the text goes on; then the rest."""
        s.settimeout(30)
        data, turn = b"", 0
        while not data.endswith(b"0\r\n\r\n"):
            if turn < pauses and len(data) >= turn * 400_000:
                turn += 1
                time.sleep(1.5)
            part = s.recv(65536)
            if not part:
                raise ConnectionError
            data += part
        return data

    @unittest.skipIf(SLOW, "the server must be faster than the client")
    def test_in_time(self):
        """Two pauses are 3 s; how long the text takes besides does not count."""
        with self.slow(self.BODY, 65536) as s:
            begin = time.monotonic()
            self.assertIn(b"[DONE]", self.read(s, 2))
            if time.monotonic() - begin < 4.3:
                self.skipTest("the text took too little time to tell")

    @unittest.skipIf(SLOW, "the server must be faster than the client")
    def test_too_long(self):
        """No pause is too long, but all of them are."""
        with self.slow(self.BODY, 65536) as s:
            until(lambda: self.server.metric("tern_http_exchanges") == 2)
            with self.assertRaises(ConnectionError):
                self.read(s, 8)
            until(lambda: self.server.metric("tern_http_exchanges") == 1)
        self.assertIn("the text waited 4 s for the client to read", self.server.text())


class Crowds(unittest.TestCase):
    def fill(self, server, n):
        """n connections that work."""
        held = []
        for _ in range(n):
            s = server.connect()
            s.sendall(request())
            self.assertEqual(status(s.recv(4096)), 200)
            held.append(s)
        return held

    def three(self, option, limit, code):
        server = Server(option, limit)
        try:
            held = self.fill(server, limit)
            for _ in range(2):
                answer = server.raw(request())
                self.assertEqual((status(answer), fault(answer)["code"]), (code, "too_many_connections"))
                self.assertIn(b"Retry-After: 1", answer)
            held.pop().close()
            until(lambda: status(server.raw(request(fields=["Host: localhost", "Connection: close"]), timeout=5)) == 200)
            for s in held:
                s.close()
        finally:
            self.assertEqual(server.stop(), 0)

    def test_connections(self):
        self.three("--max-connections", 20, 503)

    def test_per_address(self):
        self.three("--max-per-address", 20, 429)

    def test_silent(self):
        """Connections that never send count, and have --idle-time."""
        server = Server("--max-connections", 5, "--idle-time", 1)
        self.addCleanup(server.stop)
        held = [server.connect() for _ in range(5)]
        answer = server.raw(request())
        self.assertEqual((status(answer), fault(answer)["code"]), (503, "too_many_connections"))
        self.assertEqual([s.recv(100) for s in held], [b""] * 5)
        self.assertEqual(status(server.raw(request(fields=["Host: localhost", "Connection: close"]))), 200)
        for s in held:
            s.close()

    def test_out_of_descriptors(self):
        """Accepting pauses and does not spin; afterwards all that waited are served."""
        server = Server(before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60)))
        try:
            held = [server.connect(20) for _ in range(100)]
            until(lambda: "accept:" in server.text())
            before = cpu(server.pid)
            time.sleep(1)
            self.assertLess(cpu(server.pid) - before, 0.2)
            for s in held[:50]:
                s.close()
            for s in held[50:]:
                s.sendall(request(fields=["Host: localhost", "Connection: close"]))
            for s in held[50:]:
                self.assertEqual(status(s.recv(4096)), 200)
                s.close()
        finally:
            self.assertEqual(server.stop(), 0)

    @unittest.skipIf(SLOW, "a sanitizer takes memory of its own")
    def test_idle_memory(self):
        """1,000 idle connections take at most 16 MiB, fresh ones and ones that had a request."""
        server = Server("--max-per-address", 2000, "--max-connections", 2000)
        try:
            self.fill(server, 1)[0].close()
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            if hard < 4000:
                self.skipTest("too few descriptors")
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4000), hard))
            for used in (False, True):
                before = server.rss()
                held = [server.connect() for _ in range(1000)]
                if used:
                    together(20, lambda i: [self.ask(s) for s in held[i::20]])
                until(lambda: server.metric("tern_http_accepted_total") >= 1000, 10)
                grown = server.rss() - before
                for s in held:
                    s.close()
                until(lambda: server.metric("tern_http_connections") <= 1, 10)
                self.assertLess(grown, 16 << 20, "used" if used else "fresh")
        finally:
            self.assertEqual(server.stop(), 0)

    def ask(self, s):
        s.sendall(request())
        self.assertEqual(status(s.recv(4096)), 200)


def cpu(pid):
    with open(f"/proc/{pid}/stat") as f:
        part = f.read().rsplit(")", 1)[1].split()
    return (int(part[11]) + int(part[12])) / os.sysconf("SC_CLK_TCK")


class Departures(ServeCase):
    """Clients that leave: the text is cancelled within 250 ms, also while its prompt is read."""

    ARGUMENTS = ["--chat-template", "chatml", "-c", "16384", "-b", "64", "-t", "1"]

    LONG = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 12000, "ignore_eos": True}
    PROMPT = {"messages": [{"role": "user", "content": "The cat sat on the mat. " * (200 if SLOW else 1500)}], "max_tokens": 5}

    def begin(self, body):
        s = self.server.connect()
        text = json.dumps(body).encode()
        s.sendall(request(f"POST {CHAT} HTTP/1.1", ["Host: localhost", f"Content-Length: {len(text)}"], text))
        until(lambda: self.server.metric("tern_http_exchanges") == 2, what="the request")
        return s

    def gone(self, server=None):
        """Waits until no client and no text is left; returns the seconds of what took longer."""
        server = server or self.server
        end = until(lambda: server.metric("tern_http_exchanges") == 1, 30, "the end")
        return max(end, until(lambda: all(not x["is_processing"] for x in server.get("/slots")[2]), 30, "a free sequence"))

    def leave_soon(self, leave, most=0.25):
        """On a machine that is busy, one of five is soon enough."""
        most = 30 if SLOW else most
        for name, body in (("whole", self.LONG), ("stream", {**self.LONG, "stream": True}), ("prompt", self.PROMPT)):
            with self.subTest(name):
                seconds = []
                while not seconds or min(seconds) > most and len(seconds) < 5:
                    s = self.begin(body)
                    if name == "stream":
                        s.recv(200)
                    leave(s)
                    s.close()
                    seconds.append(self.gone())
                self.assertLessEqual(min(seconds), most)
                line = [line for line in self.server.text().splitlines() if CHAT in line][-1]
                self.assertRegex(line, r"s lost\b", name)

    def test_closed(self):
        self.leave_soon(lambda s: None)

    def test_beside_an_idle_connection(self):
        """Streams whose clients left keep no descriptor, also while an older connection waits for its next request."""
        idle = self.server.connect()
        idle.sendall(request())
        idle.recv(4096)
        before = self.server.files()
        for _ in range(4):
            s = self.begin({**self.LONG, "stream": True})
            s.recv(200)
            s.close()
            self.gone()
        until(lambda: self.server.files() == before, what="the descriptors")
        idle.close()

    def test_reset(self):
        self.leave_soon(lambda s: s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)))

    def test_half_closed(self):
        """Who only ends sending still gets the answer, also beside other connections: libmicrohttpd looks first at
        the oldest of them alone."""
        kept = self.server.connect()
        self.addCleanup(kept.close)
        kept.sendall(request())
        self.assertEqual(status(kept.recv(4096)), 200)
        for stream in (False, True):
            with self.subTest(stream=stream):
                body = {**self.LONG, "max_tokens": 100, "stream": stream}
                s = self.begin(body)
                s.shutdown(socket.SHUT_WR)
                answer = b""
                while part := s.recv(65536):
                    answer += part
                s.close()
                while status(answer) == 102:
                    answer = answer.split(b"\r\n\r\n", 1)[1]
                self.assertEqual(status(answer), 200)
                self.assertIn(b"[DONE]" if stream else b'"finish_reason":"length"', answer)

    def test_requests_that_are_cut_off(self):
        """They count no longer than a moment, the first of a connection or a later one."""
        first = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for before in (b"", first):
            for part in (b"GET /health HT", first[:-2], b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"):
                for _ in range(50):
                    with self.server.connect() as s:
                        if before:
                            s.sendall(before)
                            s.recv(4096)
                        s.sendall(part)
                with self.subTest(part, later=bool(before)):
                    until(lambda: self.server.metric("tern_http_connections") == 1, 5)

    def test_half_closed_then_gone(self):
        """A client that ended sending is asked every 250 ms whether it is still there."""

        def leave(s):
            s.shutdown(socket.SHUT_WR)
            time.sleep(0.3)
            with contextlib.suppress(BlockingIOError):
                s.recv(65536, socket.MSG_DONTWAIT)  # the system tells of a client that leaves with something unread

        self.leave_soon(leave, 0.5)

    def test_many(self):
        """Half of the clients leave at any moment; nothing is left of them. SERVE_CLIENTS=500
        SERVE_ROUNDS=40 makes a campaign of it."""
        clients, rounds = int(os.environ.get("SERVE_CLIENTS", 30)), int(os.environ.get("SERVE_ROUNDS", 1 if SLOW else 4))
        server = Server(*self.ARGUMENTS[:4], "--cache-ram", 16, "--queue", 2 * clients, "--max-connections", 2 * clients, "--max-per-address", 2 * clients)
        self.addCleanup(server.stop)
        before = server.files()

        def one(i):
            for k in range(rounds):
                with server.connect(600) as s:
                    text = json.dumps({**self.LONG, "max_tokens": 40, "stream": i % 3 != 0}).encode()
                    s.sendall(request(f"POST {CHAT} HTTP/1.1", ["Host: localhost", "Connection: close", f"Content-Length: {len(text)}"], text))
                    if (i + k) % 2:
                        time.sleep(0.01 * (i % 7))
                        if i % 4 == 1:
                            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        continue
                    answer = b""
                    while part := s.recv(65536):
                        answer += part
                    assert status(answer) == 200, answer[:200]

        together(clients, one)
        between = server.rss()
        together(clients, one)
        self.gone(server)
        until(lambda: server.files() <= before)
        if not SLOW:
            self.assertLess(server.rss() - between, 2 << 20)


if __name__ == "__main__":
    unittest.main()
