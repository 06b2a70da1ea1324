"""The frame of `serve`: who may ask, what is refused, how it begins and ends."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from serve_case import MODEL, SERVE, SLOW, WHY, ServeCase, Server, together, until

CHAT = "/v1/chat/completions"
ROOT = pathlib.Path(__file__).resolve().parents[2]
HI = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}


def refused(*arguments, environment=None):
    """Runs serve with arguments that it must refuse at once; returns (exit code, standard error)."""
    p = subprocess.run([SERVE, *map(str, arguments)], capture_output=True, text=True, timeout=20, env={**os.environ, **(environment or {})})
    return p.returncode, p.stderr


@unittest.skipIf(WHY, WHY)
class CommandLine(unittest.TestCase):
    def test_origins(self):
        for wrong in ("a.example", "http://a.example/", "HTTP://a.example", "http://A.example", "http://b.example, http://a.example", "http://"):
            code, why = refused(MODEL, "--cors", wrong)
            self.assertEqual((code, "is no origin" in why), (2, True), wrong)

    def test_defaults(self):
        """The man page names the same defaults as --help."""
        text = subprocess.run([SERVE, "--help"], capture_output=True, text=True, check=True).stdout
        page = (ROOT / "src/app/serve/tern-serve.1").read_text()
        paragraphs = dict(re.findall(r"(?m)^\.It Fl (?:\w , Fl )?-([\w-]+)(.*(?:\n(?!\.It|\.El).*)*)", page))
        options = re.findall(r"(?m)^  (?:-\w,|   ) --([\w-]+)(.*(?:\n {20,}.*)*)", text)
        self.assertGreater(len(options), 40)
        for name, help in options:
            words = " ".join(help.split())
            if number := re.search(r"default (-?\d+)", words):
                self.assertRegex(paragraphs[name], rf"The default is {number[1]}\b", name)

    def test_key_file(self):
        """What is wrong with it is said with file, line and byte, and without the key."""
        for text, words in (("# keys\nsecret\n\nsec ret\n", "line 4: byte 4 of the key is a blank"),
                            ("s\u00e9cret", "line 1: byte 2 of the key is not printable ASCII"),
                            ("# keys\nsec\0ret\n", "line 2: byte 4 of the key is not printable ASCII"),
                            ("secret\0\n", "line 1: byte 7 of the key is not printable ASCII"),
                            ("x" * 8193, "line 1: the key has 8193 bytes"),
                            ("# none\n\n", "holds no key")):  # fmt: skip
            with self.subTest(words), tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
                f.write(text)
                f.flush()
                code, why = refused(MODEL, "--api-key-file", f.name)
                self.assertEqual(code, 2)
                self.assertIn(f"serve: --api-key-file {f.name}", why)
                self.assertIn(words, why)
                self.assertNotIn("ret", why.replace(f.name, ""))

    def test_key_file_of_everybody(self):
        for mode, quiet, warned in ((0o644, [], True), (0o640, [], False), (0o644, ["-q"], False)):
            with self.subTest(mode=mode, quiet=quiet), tempfile.NamedTemporaryFile("w") as f:
                f.write("x" * 8192)
                f.flush()
                os.chmod(f.name, mode)
                server = Server("--api-key-file", f.name, *quiet)
                status, _, _ = server.get("/v1/models", headers={"Authorization": "Bearer " + "x" * 8192})
                self.assertEqual((status, server.stop()), (200, 0))
                self.assertEqual("every user of this machine can read it" in server.text(), warned)

    def test_refusals(self):
        for arguments, words in (
            ([], "no weights file"),
            ([MODEL, "extra"], "one argument too many"),
            ([MODEL, "--host", "0.0.0.0"], "a key is needed"),
            ([MODEL, "--host", "::"], "a key is needed"),
            ([MODEL, "--host", "192.168.1.1"], "a key is needed"),
            ([MODEL, "--host", "example.com"], "is not an address"),
            ([MODEL, "--port", "65536"], "--port"),
            ([MODEL, "--parallel", "65"], "--parallel"),
            ([MODEL, "--api-key", "a b"], "a blank"),
            ([MODEL, "--api-key", ""], "is empty"),
            ([MODEL, "--frobnicate"], "frobnicate"),
        ):
            with self.subTest(arguments=arguments):
                code, text = refused(*arguments)
                self.assertEqual(code, 2, text)
                self.assertIn(words, text)
                self.assertEqual(len(text.splitlines()), 1)

    def test_bad_models(self):
        with socket.create_server(("127.0.0.1", 0)) as s:  # the file is looked for first
            code, text = refused("/nowhere.bin", "--port", s.getsockname()[1])
        self.assertEqual((code, text), (4, "serve: /nowhere.bin: cannot open: No such file or directory\n"))
        with tempfile.NamedTemporaryFile() as f:
            f.write(b"x" * 10000)
            f.flush()
            code, text = refused(f.name, "--port", 0)
        self.assertEqual(code, 3)
        self.assertIn(f.name, text)

    def test_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as s:
            code, text = refused(MODEL, "--port", s.getsockname()[1])
        self.assertEqual(code, 4)
        self.assertIn("Address already in use", text)


class Pages(ServeCase):
    ARGUMENTS = ["--chat-template", "chatml"]

    def test_health(self):
        self.assertEqual(self.get("/health")[::2], (200, {"status": "ok"}))
        self.assertEqual(self.server.ask("HEAD", "/health")[0], 200)
        until(lambda: "HEAD /health 200" in self.server.text())
        self.assertNotRegex(self.server.text(), "HEAD /health 200 .* lost")

    def test_it_says_which_kernels_run(self):
        named = Server("--cpu", "ref", "--threads", 1)
        self.addCleanup(named.stop)
        self.assertIn("; kernels ref, 1 thread", named.ready)
        props = named.get("/props")[2]
        self.assertEqual((props["cpu"], props["n_threads"]), ("ref", 1))
        self.assertIn(f"; kernels {self.get('/props')[2]['cpu']}, ", self.server.ready)

    def test_metrics(self):
        status, headers, text = self.get("/metrics")
        self.assertEqual(status, 200)
        self.assertTrue(headers["content-type"].startswith("text/plain; version=0.0.4"))
        for line in text.splitlines():
            self.assertRegex(line, r'^(# (HELP|TYPE) tern_\w+ .+|tern_\w+(\{\w+="[^"]+"(,\w+="[^"]+")*\})? [-+.\deNaInf]+)$')
        names = re.findall(r"(?m)^# TYPE (\S+)", text)
        self.assertEqual(len(names), len(set(names)))

    def test_slots(self):
        self.assertIsInstance(self.get("/slots")[2], list)

    def test_no_prompt_text(self):
        """Neither numbers nor log show what was asked."""
        self.post(CHAT, {**HI, "messages": [{"role": "user", "content": "marmalade"}]})
        shown = self.get("/metrics")[2] + json.dumps(self.get("/slots")[2]) + self.server.text()
        self.assertNotIn("marmalade", shown)

    def test_faults_below_messages(self):
        """In the form of Anthropic's API, also where no route is"""
        for method, path, expected in (("GET", "/v1/messages", 405), ("GET", "/messages", 405), ("PUT", "/v1/messages/count_tokens", 405), ("POST", "/v1/messages/batches", 404),
                                       ("GET", "/messages/x", 404)):  # fmt: skip
            with self.subTest(method + " " + path):
                status, _, body = self.server.ask(method, path)
                self.assertEqual((status, body["type"]), (expected, "error"))
        for path in ("/v1/messagesx", "/v1/files", "/v1/chat/completions"):
            self.assertNotIn("type", self.get(path)[2])

    def test_unknown(self):
        status, _, body = self.get("/v1/nothing")
        self.assertEqual((status, body["error"]["type"]), (404, "not_found_error"))
        for method, path, allowed in (("GET", CHAT, "POST"), ("POST", "/health", "GET, HEAD"), ("PUT", "/v1/models/x", "GET, HEAD")):
            status, headers, body = self.server.ask(method, path)
            self.assertEqual((status, body["error"]["code"], headers["allow"]), (405, "method_not_allowed", allowed))
            self.assertEqual(body["error"]["type"], "invalid_request_error")
        status, _, body = self.get("/nothing", headers={"anthropic-version": "2023-06-01"})
        self.assertEqual((status, body["type"]), (404, "error"))

    def test_encodings(self):
        for encoding, want in (("gzip", 415), ("identity", 200), ("Identity \t", 200), ("identity gzip", 415), ("", 200)):
            status, _, answer = self.post("/v1/completions", {"prompt": "a", "max_tokens": 1}, headers={"Content-Encoding": encoding})
            self.assertEqual(status, want, answer)
            self.assertEqual(want == 415, f"Encoding {encoding} is not" in answer.get("error", {}).get("message", ""))

    def test_fields_of_two_lines(self):
        """Of a first request and of a later one: nothing behind the header is read as another request."""
        body = b'{"prompt":"a","max_tokens":1}'
        first = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for fields in (b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 29\r\n", b"Content-Length: 29\r\nX: a\r\n\tb\r\n",
                       b"Content-: 29\r\n Length\r\n", b"Transfer-: chunked\r\n Encoding\r\n", b"Content-Length: 2\r\n 9\r\n"):  # fmt: skip
            for before in (b"", first):
                with self.subTest(fields, later=bool(before)):
                    answer = self.server.raw(before + b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + fields + b"\r\n" + body + first)
                    self.assertEqual(answer.count(b"HTTP/1.1 200 "), len(before[:1]), answer)
                    self.assertEqual(answer.count(b"HTTP/1.1 400 "), 1, answer)

    def test_paths_without_v1(self):
        for path in ("/models", "/models/any"):
            self.assertEqual(self.get(path)[::2], self.get("/v1" + path)[::2])
        self.assertEqual(self.post("/chat/completions", HI)[2]["object"], "chat.completion")
        for path in ("/props", "/health"):
            self.assertEqual((self.get(path)[0], self.get("/v1" + path)[0]), (200, 404))
        self.assertEqual(self.get("/v1/v1/models")[0], 404)

    def test_request_ids_differ(self):
        ids = {self.get("/health")[1]["x-request-id"] for _ in range(20)}
        self.assertEqual(len(ids), 20)

    def test_log(self):
        self.post(CHAT, HI)
        line = f"POST {CHAT} 200"  # others have asked for this path before, and a line comes behind its answer
        until(lambda: line in self.server.text(), 5)
        line = [x for x in self.server.text().splitlines() if line in x][-1]
        self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ 127\.0\.0\.1 POST /v1/chat/completions 200 \d+\.\d{3}s done .*\d")

    def test_log_injection(self):
        """Nothing that a client sends makes a second line or a control character."""
        before = len(self.server.text().splitlines())
        for target in ("/a%0a2026-11-23T00:00:00Z", "/\x1b[31mred", "/" + "\u00e9" * 20, "/\x07\x7f", "/a%0d%0ab", "/\\n"):
            self.server.raw(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode(), timeout=5)
        self.post(CHAT, {**HI, "messages": [{"role": "us\ner\x1b", "content": "x"}]})
        self.post(CHAT, {**HI, "un\nknown\x1b[1m": 1})
        until(lambda: len(self.server.text().splitlines()) >= before + 8, 5)
        text = self.server.text()
        self.assertEqual(len(text.splitlines()), before + 8)
        self.assertTrue(all(c == "\n" or " " <= c <= "~" for c in text))


# Each is sent alone; the answer's status must be among the second. `None`: closed without an answer.
HOST = b"Host: localhost\r\n"
BAD = (400, 404, 405, None)
ABUSE = [
    (b"GET /../etc/passwd HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /v1/../../etc/passwd HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /.. HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /%2e%2e/etc/passwd HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /%2E%2E%2Fetc%2fpasswd HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /..%5c..%5cetc HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /%252e%252e/etc/passwd HTTP/1.1\r\n" + HOST, (404,)),
    (b"GET //etc/passwd HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET ///health HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /health%00.txt HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /%00 HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /health\x00 HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /%c0%ae%c0%ae/etc HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /%e0%80%af HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /%ed%a0%80 HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /%ff HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /%f4%90%80%80 HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /% HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /%4 HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /%zz HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /%0d%0aX-A:%20b HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET /a\\b HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET http://localhost/health HTTP/1.1\r\n" + HOST, (200,)),
    (b"GET http://evil.example/ HTTP/1.1\r\n" + HOST, (403,)),
    (b"GET file:///etc/passwd HTTP/1.1\r\n" + HOST, (400,)),
    (b"CONNECT localhost:22 HTTP/1.1\r\n" + HOST, (400,)),
    (b"OPTIONS * HTTP/1.1\r\n" + HOST, (400,)),
    (b"GET health HTTP/1.1\r\n" + HOST, (400,)),
    (b"TRACE / HTTP/1.1\r\n" + HOST, (405,)),
    (b"DELETE / HTTP/1.1\r\n" + HOST, (405,)),
    (b"get /health HTTP/1.1\r\n" + HOST, (405,)),
    (b"GET\t/health\tHTTP/1.1\r\n" + HOST, BAD),
    (b"GET /health\r\n" + HOST, (400, None)),
    (b"GET /health HTTP/2.0\r\n" + HOST, (400, 505, None)),
    (b"GET /health HTTP/0.9\r\n" + HOST, (400, 505, None)),
    (b"GET /health HTTP/1.2\r\n" + HOST, (400, 505, None)),
    (b"GET /health HTTQ/1.1\r\n" + HOST, (400, 505, None)),
    (b"GET /he alth HTTP/1.1\r\n" + HOST, BAD),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", (400, None)),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n", (400, 505, None)),
    (b"GET /health HTTP/1.1\r\n", (400,)),
    (b"GET /health HTTP/1.1\r\nHost:\r\n", (403,)),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", (400,)),
    (b"GET /health HTTP/1.1\r\nHost: a b\r\n", (403,)),
    (b"GET /health HTTP/1.1\r\nHost: localhost:80:80\r\n", (403,)),
    (b"GET /health HTTP/1.1\r\nHost: localhost:8x\r\n", (403,)),
    (b"GET /health HTTP/1.1\r\nHost: [::1\r\n", (403,)),
    (b"GET /health HTTP/1.1\r\nHost: localhost@evil.example\r\n", (403,)),
    (b"GET /health HTTP/1.1\r\nHost : localhost\r\n", (400,)),
    (b"GET /health HTTP/1.1\r\n" + HOST + b"No colon here\r\n", (400,)),
    (b"GET /health HTTP/1.1\r\n" + HOST + b": no name\r\n", (400,)),
    (b"GET /health HTTP/1.1\r\n" + HOST + b"A: b\x00c\r\n", (400,)),
    (b"GET /health HTTP/1.1\r\n" + HOST + b"A: b\x01c\r\n", (400,)),
    (b"GET /health HTTP/1.1\r\n" + HOST + b"A\x7fB: c\r\n", (400,)),
    (b"GET /health HTTP/1.1\r\n" + HOST + b"(A): c\r\n", (400,)),
    (b"GET /health HTTP/1.1\r\n\tHost: localhost\r\n", (400, None)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", (400,)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ", (400,)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 2, 2\r\n\r\n{}", (400, 413)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n{}", (400, 413)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Content-Length: +2\r\n\r\n{}", (400, 413)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 0x2\r\n\r\n{}", (400, 413)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999999999\r\n\r\n{}", (400, 413)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", (400,)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", (400,)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip\r\n\r\n", (400,)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked, gzip\r\n\r\n", (400,)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n{}\r\n0\r\n\r\n", (400, 413)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffe\r\n{}\r\n0\r\n\r\n", (400, 413, None)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n", (400,)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}XX0\r\n\r\n", (400,)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n", (400,)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"\r\n", (400,)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\n\r\n\xff\xfe{}", (400,)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\n[]", (400,)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\n{\"a\":1}{}", (400,)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 11\r\n\r\n{\"a\":1e999}", (400,)),
    (b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Expect: 200-maybe\r\nContent-Length: 0\r\n\r\n", (400, 417)),
    (b"GET /health HTTP/1.1\r\n" + HOST + b"Upgrade: websocket\r\nConnection: Upgrade, close\r\n", (200,)),
    (b"GET /health?" + b"%00=%00&&&=;" * 20 + b" HTTP/1.1\r\n" + HOST + b"Connection: close\r\n", (200,)),
]


class Abuse(ServeCase):
    ARGUMENTS = ["--header-time", "2", "--idle-time", "2", "--body-time", "2"]

    def test_each(self):
        self.assertGreaterEqual(len(ABUSE), 40)

        def one(i):
            data, allowed = ABUSE[i]
            if b"\r\n\r\n" not in data:
                data += b"\r\n"
            return self.server.raw(data, timeout=10)

        for (data, allowed), answer in zip(ABUSE, together(len(ABUSE), one)):
            with self.subTest(data=data[:90]):
                code = int(answer.split(b" ", 2)[1]) if answer else None
                if code != 408 or None not in allowed:
                    self.assertIn(code, allowed, answer[:300])
                self.assertNotIn(b"root:", answer)
                if b"chunked\r\n" not in data:  # chunks are MHD's to refuse, with a page
                    self.assertNotIn(b"<html", answer)
        self.assertEqual(self.get("/health")[0], 200)

    def test_first_line(self):
        """What does not begin as HTTP/1 gets JSON, whenever its bytes come."""
        for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n", b" GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/2.0\r\n\r\n",
                     b"GET /\r\n\r\n", b"GET\t/\tHTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET HTTP/1.1\r\n\r\n"):  # fmt: skip
            for wait in (0, 0.05):
                with self.subTest(data=data, wait=wait):
                    self.assert_refused(data, wait)

    def assert_refused(self, data, wait=0):
        """In our form."""
        with self.server.connect(5) as s:
            time.sleep(wait)
            s.sendall(data)
            head, body = b"".join(iter(lambda: s.recv(4096), b"")).split(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 400 "), head)
        self.assertEqual(json.loads(body)["error"]["code"], "bad_request")

    def test_length(self):
        """A length that MHD answers itself, and malformed."""
        for length in (b"abc", b"-1", b"", b"2 2", b"0x2", b"1" * 19, b"9" * 40):
            for line in (b"Content-Length: " + length, b"content-LENGTH:\t" + length + b" "):
                with self.subTest(line):
                    head = b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + line + b"\r\nAccept: */*\r\n\r\n{}"
                    self.assert_refused(head)
        for field in (b"Content-Length: 2", b"CONTENT-LENGTH:  2", b"X-Content-Length: abc\r\nContent-Length: 2"):
            answer = self.server.raw(b"POST /v1/embeddings HTTP/1.1\r\n" + HOST + field + b"\r\nConnection: close\r\n\r\n{}", timeout=5)
            self.assertIn(b"input is required", answer)

    def test_fields(self):
        """What MHD answers with a page, takes as a whole where it is cut, or joins."""
        for line in (b"abc", b": b", b"A : b", b"A\t: b", b"A B: c", b"A: b\r\n c: d", b"A: b\r\n\tc", b"A: b\x00c", b"A\x00: b", b"Content-Length: 2\r\n 3"):
            with self.subTest(line):
                self.assert_refused(b"GET /health HTTP/1.1\r\n" + HOST + line + b"\r\n\r\n")

    def test_form(self):
        """An error before MHD has the form of the route's API, as behind it."""
        for line, fields, anthropic in ((b"POST /v1/messages?beta=true", b"", True), (b"POST  /messages/count_tokens", b"", True), (b"GET /v1/messages/x", b"", True), (b"GET /nowhere", b"anthropic-version: 2023-06-01\r\n", True),
                                        (b"POST /v1/chat/completions", b"anthropic-version: 2023-06-01\r\n", False), (b"GET /" + b"a" * 200, b"", False)):  # fmt: skip
            for bad in (b"abc\r\n", b"A: \x01\r\n"):
                with self.subTest(line=line, bad=bad):
                    answer = self.server.raw(line + b" HTTP/1.1\r\n" + HOST + fields + bad + b"Connection: close\r\n\r\n")
                    head, body = answer.split(b"\r\n\r\n")
                    self.assertEqual((head[:13], json.loads(body).get("type")), (b"HTTP/1.1 400 ", "error" if anthropic else None))

    def test_bare_line_feeds(self):
        """RFC 9112 lets a server take them for line ends; MHD does."""
        answer = self.server.raw(b"GET /health HTTP/1.1\nHost: localhost\nConnection: close\n\n", timeout=5)
        self.assertTrue(answer.startswith(b"HTTP/1.1 200"))

    def test_pipelined(self):
        """Requests that come together are answered in their order, each once."""
        one = b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n"
        bad = b"GET /nothing HTTP/1.1\r\n" + HOST + b"\r\n"
        last = b"GET /slots HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
        answer = self.server.raw(one * 5 + bad + one + last, timeout=5)
        codes = re.findall(rb"HTTP/1\.1 (\d+)", answer)
        self.assertEqual(codes, [b"200"] * 5 + [b"404", b"200", b"200"])

    def test_smuggled(self):
        """What follows a request whose length is in doubt is not taken for another one."""
        inner = b"GET /metrics HTTP/1.1\r\n" + HOST + b"\r\n"
        for fields in (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"Content-Length: 0\r\nContent-Length: %d\r\n" % len(inner)):
            answer = self.server.raw(b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + fields + b"\r\n0\r\n\r\n" + inner, timeout=5)
            self.assertTrue(answer.startswith(b"HTTP/1.1 400"), answer[:100])
            self.assertEqual(answer.count(b"HTTP/1.1"), 1)

    def test_continue(self):
        with self.server.connect(5) as s:
            body = b'{"messages":[]}'
            s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
            self.assertTrue(s.recv(4096).startswith(b"HTTP/1.1 100"))
            s.sendall(body)
            self.assertTrue(s.recv(4096).startswith(b"HTTP/1.1 400"))

    def test_old_client(self):
        answer = self.server.raw(b"GET /health HTTP/1.0\r\n\r\n", timeout=5)
        self.assertIn(b" 200 OK", answer)


class Pieces(ServeCase):
    """A header that comes in more than one packet."""

    def drip(self, s, data):
        """A byte at a time, each in a packet of its own."""
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(data)):
            s.sendall(data[i : i + 1])
            time.sleep(0.001)

    def test_byte_by_byte(self):
        """A header may come in pieces of any size; what is wrong in it is found all the same."""
        field = b"Content-Length: 2x\r\n"
        for data, words in ((b"GET /health HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n", b'"ok"'), (b"GET / HTTP/2.0\r\n", b"bad_request"),
                            (b"\r\n\nPOST /v1/embeddings HTTP/1.1\r\n" + HOST + field, b"bad_request")):  # fmt: skip
            with self.subTest(data), self.server.connect(5) as s:
                self.drip(s, data)
                head, body = b"".join(iter(lambda: s.recv(4096), b"")).split(b"\r\n\r\n")
                self.assertIn(words, body)
                self.assertEqual(head.count(b"HTTP/1"), 1)

    def test_half_a_header(self):
        """A client that ends sending within a header gets nothing, and at once; behind one, it gets its answer."""
        begin = time.monotonic()
        head = b"GET /health HTTP/1.1\r\n" + HOST
        self.assertEqual(self.server.raw(head, shut=True), b"")
        self.assertEqual(self.server.raw(b"", shut=True), b"")
        self.assertIn(b"HTTP/1.1 200 ", self.server.raw(head + b"\r\n", shut=True))
        self.assertEqual(self.server.raw((head + b"\r\n") * 3, shut=True).count(b"HTTP/1.1 200 "), 3)
        self.assertLess(time.monotonic() - begin, 9)  # --header-time is 10
        until(lambda: self.server.metric("tern_http_connections") <= 1, 5)

    def test_many_at_once(self):
        """Each of many bad requests, whole or cut anywhere, gets one error, and in JSON."""
        bad = (b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"GET / HTTP/2.0\r\n\r\n", b"GET / HTTP/1.1\r\n" + HOST + b"abc\r\n\r\n")

        def ask(i):
            for k in range(10 if SLOW else 60):
                data = bad[(i + k) % len(bad)]
                with self.server.connect() as s:
                    for part in (data[: k % len(data)], data[k % len(data) :]):
                        s.sendall(part)
                    head, body = b"".join(iter(lambda s=s: s.recv(4096), b"")).split(b"\r\n\r\n")
                self.assertEqual((head[:13], json.loads(body)["error"]["code"]), (b"HTTP/1.1 400 ", "bad_request"))

        together(8, ask)


class Keys(ServeCase):
    @classmethod
    def setUpClass(cls):
        keys = cls.enterClassContext(tempfile.NamedTemporaryFile("w", suffix=".keys"))
        keys.write("# two keys\nfirst-key-of-file\n\n  \nsecond-key-of-file\r\n")
        keys.flush()
        cls.ARGUMENTS = ["--api-key", "key-of-option", "--api-key-file", keys.name, "--host", "127.0.0.2"]
        os.environ["TERN_API_KEY"] = "key-of-environment"
        try:
            super().setUpClass()
        finally:
            del os.environ["TERN_API_KEY"]

    def ask(self, key=None, name="Authorization", path="/slots"):
        fields = {name: key} if key is not None else {}
        lines = "".join(f"{k}: {v}\r\n" for k, v in fields.items())
        with socket.create_connection(("127.0.0.2", self.port), 5) as s:
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.2\r\nConnection: close\r\n{lines}\r\n".encode())
            answer = b""
            while part := s.recv(65536):
                answer += part
        return int(answer.split()[1]), answer

    def test_good(self):
        for key in ("key-of-option", "first-key-of-file", "second-key-of-file", "key-of-environment"):
            self.assertEqual(self.ask("Bearer " + key)[0], 200, key)
            self.assertEqual(self.ask("bearer  " + key)[0], 200, key)
            self.assertEqual(self.ask(key, "x-api-key")[0], 200, key)
            self.assertEqual((self.ask(f"Bearer {key} \t")[0], self.ask(key + " ", "x-api-key")[0]), (200, 200), key)

    def test_bad(self):
        for key in ("", "Bearer", "Bearer ", "Bearer key", "Bearer key-of-optio", "Bearer key-of-optionn", "Basic key-of-option", "key-of-option",
                    "Bearer # two keys", "Bearer key-of-option, key-of-option", "Bearer KEY-OF-OPTION"):
            code, answer = self.ask(key)
            self.assertEqual(code, 401, key)
            self.assertIn(b'"type":"authentication_error"', answer)
            self.assertIn(b"WWW-Authenticate: Bearer", answer)
        self.assertEqual(self.ask()[0], 401)
        code, answer = self.ask("http://evil.example", "Origin")  # a fault before that of the key
        self.assertEqual((code, b"WWW-Authenticate" in answer), (403, False))

    def test_open_paths(self):
        """/health and the page ask for no key; everything else does, unknown paths, too."""
        for path, code in (("/health", 200), ("/", 200), ("/metrics", 401), ("/slots", 401), ("/v1/models", 401), ("/nothing", 401), ("/../x", 400)):
            self.assertEqual(self.ask(path=path)[0], code, path)

    def test_not_in_answers(self):
        code, answer = self.ask("Bearer wrong-secret-key")
        self.assertNotIn(b"wrong-secret-key", answer)
        self.assertNotIn("key-of", self.server.text())


class Origins(ServeCase):
    ARGUMENTS = ["--allow-host", "tern.example", "--cors", "https://app.example,http://localhost:3000"]

    def test_targets_and_blanks(self):
        """A target as a proxy gets it (RFC 9112, 3.2.2), whose host must be ours, too; blanks behind a Host"""
        for target, host, status in (("http://localhost/health", "localhost", 200), ("HTTP://tern.example:80/health?a", "localhost", 200), ("http://localhost", "localhost", 200),
                                     ("http://evil.example/health", "localhost", 403), ("http:///health", "localhost", 403), ("http://localhost/health", "evil.example", 403),
                                     ("http://" + "a" * 300 + "/health", "localhost", 403), ("http://localhost//health", "localhost", 400), ("ftp://localhost/health", "localhost", 400),
                                     ("/health", "localhost \t", 200), ("/health", "[::1]:80 ", 200), ("/health", "localhost evil", 403), ("/health", "evil.example ", 403)):  # fmt: skip
            with self.subTest(target=target, host=host):
                answer = self.server.raw(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                self.assertEqual(int(answer[9:12]), status, answer)
        own = "GET /health HTTP/1.1\r\nHost: localhost:1 \r\nOrigin: http://localhost:1\r\nConnection: close\r\n\r\n"
        self.assertIn(b" 200 ", self.server.raw(own.encode())[:20])

    def status(self, host=None, origin=None, method="GET", path="/health", **more):
        fields = {**({"Host": host} if host else {}), **({"Origin": origin} if origin else {}), **more}
        return self.server.ask(method, path, headers=fields)

    def test_hosts(self):
        p = self.port
        for host in (f"localhost:{p}", "localhost", f"127.0.0.1:{p}", f"[::1]:{p}", "LOCALHOST", "tern.example", f"Tern.Example:{p}", "10.1.2.3"):
            self.assertEqual(self.status(host)[0], 200, host)
        for host in ("evil.example", f"evil.example:{p}", "localhost.evil.example", "127.0.0.1.nip.io", "xtern.example", "tern.example.", "evil.example#localhost", "1.2.3.4.5"):
            code, _, body = self.status(host)
            self.assertEqual((code, body["error"]["code"]), (403, "host_not_allowed"), host)

    def test_origins(self):
        here = f"127.0.0.1:{self.port}"
        for origin in (f"http://{here}", f"https://{here}"):
            code, headers, _ = self.status(here, origin)
            self.assertEqual(code, 200, origin)
            self.assertNotIn("access-control-allow-origin", headers)
        for origin in ("https://app.example", "http://localhost:3000"):
            code, headers, _ = self.status(here, origin)
            self.assertEqual((code, headers["access-control-allow-origin"], headers["vary"]), (200, origin, "Origin"))
        for origin in (f"http://127.0.0.1:{self.port + 1}", f"http://{here}.evil.example", f"httpx://{here}", "https://evil.example", "null", "https://app.example.evil.example", "http://app.example", "https://app.example:444", "http://localhost", "*"):
            code, headers, body = self.status(here, origin)
            self.assertEqual((code, body["error"]["code"]), (403, "origin_not_allowed"), origin)
            self.assertNotIn("access-control-allow-origin", headers)
            self.assertNotIn("allow", self.status(here, origin, "PUT")[1])

    def test_preflight(self):
        fields = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
        code, headers, _ = self.status(origin="https://app.example", method="OPTIONS", path=CHAT, **fields)
        self.assertEqual(code, 204)
        self.assertEqual(headers["access-control-allow-origin"], "https://app.example")
        self.assertEqual(headers["access-control-allow-headers"], "authorization,content-type")
        self.assertIn("POST", headers["access-control-allow-methods"])
        self.assertEqual(self.status(origin="https://evil.example", method="OPTIONS", path=CHAT, **fields)[0], 403)

    def test_no_cors_by_default(self):
        server = Server()
        try:
            self.assertEqual(server.get("/health", headers={"Origin": "http://localhost:3000"})[0], 403)
        finally:
            self.assertEqual(server.stop(), 0)


@unittest.skipIf(WHY, WHY)
class Ends(unittest.TestCase):
    LONG = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 40 if SLOW else 3000, "ignore_eos": True}
    ARGUMENTS = ["--chat-template", "chatml", "-c", "4096"]

    def long(self, server, **more):
        text = json.dumps({**self.LONG, **more}).encode()
        s = server.connect(60)
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
        until(lambda: server.metric("tern_requests_processing") == 1, 5)
        return s

    def test_drain(self):
        """Running answers end; new requests on open connections get 503, new connections nothing."""
        server = Server(*self.ARGUMENTS, "--max-body", 2000, "--drain-seconds", 300, "-t", 1)  # a busy machine takes 30 for the text
        s = self.long(server)
        kept = server.connect(10)
        kept.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n")
        idle = server.connect(10)
        time.sleep(0.1)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(idle.recv(10), b"")
        kept.sendall(b"{}")
        answer = kept.recv(4096)
        self.assertIn(b"503", answer[:20], answer)
        with self.assertRaises(ConnectionError):
            server.connect(5)
        text = b""
        while b'"finish_reason"' not in text:
            part = s.recv(65536)
            self.assertTrue(part, "the running answer was cut")
            text += part
        self.assertEqual(server.process.wait(5), 0)
        server.stop()

    def test_part_of_a_header(self):
        """It holds the end up for a second only, in a first request and in a later one."""
        server = Server(*self.ARGUMENTS)
        first, later = server.connect(10), server.connect(10)
        first.sendall(b"GET /hea")
        later.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertIn(b"200", later.recv(4096))
        later.sendall(b"GET /hea")
        time.sleep(0.2)
        begin = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - begin, 4)
        first.close()
        later.close()

    def test_drain_ends(self):
        server = Server(*self.ARGUMENTS, "--drain-seconds", 0, "-t", 1)
        s = self.long(server)
        begin = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - begin, 4)
        s.close()

    def test_log_of_failed_streams(self):
        """A stream that ends with an error is 200; why it ended is in the log."""
        server = Server(*self.ARGUMENTS, "--drain-seconds", 0, "-t", 1)
        talk = {**self.LONG, "model": "m", "stream": True}
        bodies = {"chat/completions": talk, "messages": talk, "responses": {"model": "m", "input": "hi", "max_output_tokens": 40 if SLOW else 3000, "ignore_eos": True, "stream": True}}
        streams = [server.events("/v1/" + name, body) for name, body in bodies.items()]
        for s in streams:
            next(s)
        self.assertEqual(server.stop(), 0)
        self.assertTrue(all("shutting down" in str(list(s)) for s in streams))
        for name in bodies:
            self.assertRegex(server.text(), rf"POST /v1/{name} 200 [0-9.]+s done .*the server is shutting down")

    def test_loading(self):
        """Before the model is there, /health says so with 503; then with 200."""
        seen = set()
        for _ in range(5):
            server = Server(wait=False)
            while 200 not in seen or not server.ready:
                status, headers, body = server.get("/health")
                seen.add(status)
                if status == 503:
                    self.assertEqual((body["error"]["code"], headers["retry-after"]), ("loading", "1"))
                    self.assertEqual(server.get("/slots")[0] in (200, 503), True)
                else:
                    server.wait_ready()
                    self.assertEqual(server.get("/slots")[0], 200)
            self.assertEqual(server.stop(), 0)
        self.assertEqual(seen, {200, 503})

    def test_second_signal(self):
        server = Server(*self.ARGUMENTS, "-t", 1)
        s = self.long(server)
        server.process.send_signal(signal.SIGINT)
        until(lambda: "ending" in server.text(), 2)
        begin = time.monotonic()
        self.assertEqual(server.stop(signal.SIGTERM), 143)
        self.assertLess(time.monotonic() - begin, 1)
        s.close()

    def test_killed_and_restarted(self):
        server = Server(*self.ARGUMENTS)
        self.long(server)
        port = server.port
        server.stop(signal.SIGKILL)
        begin = time.monotonic()
        p = subprocess.Popen([SERVE, MODEL, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.assertIn("listening", p.stdout.readline())
        self.assertIn("ready", p.stdout.readline())
        self.assertLess(time.monotonic() - begin, 2)
        p.terminate()
        self.assertEqual(p.wait(10), 0)
        p.stdout.close()

    STORY = {"prompt": "The cat sat", "max_tokens": 400, "temperature": 0, "ignore_eos": True}

    EMBED = b'{"input": "The cat"}'

    def half_asked(self, server):
        """A connection that has sent the header of a request."""
        s = server.connect(30)
        s.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(self.EMBED))
        until(lambda: server.metric("tern_http_exchanges") > 1)
        return s

    def answer(self, s):
        with s:
            s.sendall(self.EMBED)
            return b"".join(iter(lambda: s.recv(4096), b""))

    LOST = "the model's file changed, and the server is about to end"

    def changed(self, change):
        """What comes of a stream, and of a request beside it, when the model's file changes meanwhile."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.bin"
            path.write_bytes(pathlib.Path(MODEL).read_bytes())
            server = Server("-np", 2, "-c", 512, "--cache-dir", folder, model=path)
            whole = server.post("/v1/completions", self.STORY)[2]["choices"][0]["text"]
            stream = server.events("/v1/completions", {**self.STORY, "stream": True})
            events = [json.loads(next(stream)[1]) for _ in range(5)]
            kept = self.half_asked(server)
            change(path)
            answer = self.answer(kept)
            events += [json.loads(data) for _, data in stream if data != "[DONE]"]
            self.assertEqual(server.process.wait(10), 4)
            self.assertEqual([p.stat().st_size for p in pathlib.Path(folder).glob("prefixes-*")], [0, 0])
            server.stop()
        self.assertIn(f"serve: {path}: model file changed while running", server.text())
        self.assertRegex(server.text(), r"POST /v1/completions 200 [0-9.]+s done .*model.s file changed")
        self.assertIn(b" 503 ", answer.splitlines()[0])
        self.assertEqual(events[-1]["error"]["message"], self.LOST)  # without a path
        text = "".join(e["choices"][0]["text"] for e in events[:-1])
        self.assertTrue(whole.startswith(text), text)
        self.assertLess(len(text), len(whole))

    def test_changed_model(self):
        """A model file that is cut or written again: all get an answer, none of it from the wrong weights; then exit 4."""

        def rewritten(path):
            with open(path, "r+b") as f:
                f.seek(-64, os.SEEK_END)
                f.write(bytes(64))

        for name, change in {
            "cut": lambda path: os.truncate(path, 4096),
            "cut within its last page": lambda path: os.truncate(path, path.stat().st_size - 1),
            "rewritten": rewritten,
        }.items():
            with self.subTest(name):
                self.changed(change)

    def test_changed_while_idle(self):
        with tempfile.NamedTemporaryFile(suffix=".bin") as f:
            f.write(pathlib.Path(MODEL).read_bytes())
            f.flush()
            server = Server("--chat-template", "chatml", model=f.name)
            kept, fresh = self.half_asked(server), server.connect(30)
            os.truncate(f.name, 4096)
            fresh.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertIn(fresh.recv(4096)[:13], (b"HTTP/1.1 200 ", b"HTTP/1.1 503 "))
            late = self.answer(kept)
            self.assertIn(b" 503 ", late.splitlines()[0])
            self.assertIn(self.LOST.encode(), late)
            self.assertEqual(server.process.wait(10), 4)
            self.assertIn(f"serve: {f.name}: model file changed while running", server.text())
            fresh.close()
            server.stop()

    def test_full_disk(self):
        """A log that cannot be written does not stop an answer."""
        server = Server("--log-file", "/dev/full", *self.ARGUMENTS)
        try:
            self.assertEqual(server.post(CHAT, HI)[0], 200)
            self.assertGreater(server.metric("tern_log_lost_total"), 0)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_stopped_reader(self):
        """Nor does a pipe that nobody reads."""
        read, write = os.pipe()
        p = subprocess.Popen([SERVE, MODEL, "--port", "0"], stdout=subprocess.PIPE, stderr=write, text=True)
        os.close(write)
        port = int(p.stdout.readline().rsplit(":", 1)[1])
        p.stdout.readline()
        for _ in range(150):
            with socket.create_connection(("127.0.0.1", port), 5) as s:
                s.sendall(b"GET /" + b"a" * 1000 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 404"))
        os.close(read)
        with socket.create_connection(("127.0.0.1", port), 5) as s:
            s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 200"))
        p.terminate()
        self.assertEqual(p.wait(10), 0)
        p.stdout.close()

    def test_log_prompts(self):
        server = Server("--log-prompts", *self.ARGUMENTS)
        server.post(CHAT, {**HI, "messages": [{"role": "user", "content": "hi"}], "metadata": {"a": "marmalade\n" * 600}})
        server.stop()
        lines = [x for x in server.text().splitlines() if "marmalade" in x]
        self.assertEqual(len(lines), 1)
        self.assertLess(len(lines[0]), 4096)

    def test_log_file(self):
        with tempfile.TemporaryDirectory() as d:
            path = pathlib.Path(d) / "log"
            server = Server("--log-file", path)
            server.get("/health")
            server.stop()
            self.assertIn("GET /health 200", path.read_text())
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)

    @unittest.skipUnless(sys.platform == "linux", "threads have one nice value")
    def test_model_yields(self):
        """The threads of the model are 5 nicer than the one of HTTP, the lane of long requests 10."""
        server = Server("-t", 3)
        try:
            stats = {t.name: (t / "stat").read_text().rsplit(")", 1)[1].split() for t in pathlib.Path(f"/proc/{server.pid}/task").iterdir()}
            nice = {name: int(words[16]) for name, words in stats.items()}
            http = nice.pop(str(server.pid))
            self.assertEqual({n - http for n in nice.values()}, {min(n, 19 - http) for n in (0, 5, 10)})
            self.assertGreaterEqual(list(nice.values()).count(min(http + 5, 19)), 3)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_sandbox(self):
        """On unless --no-sandbox: the kernel says so, of every thread."""
        for arguments, mode in ((["-t", "2"], "2"), (["--no-sandbox"], "0")):
            server = Server(*arguments)
            try:
                if mode == "2" and "no sandbox" in server.text():
                    self.skipTest(server.text())
                threads = list(pathlib.Path(f"/proc/{server.pid}/task").iterdir())
                self.assertGreaterEqual(len(threads), 2)
                for t in threads:
                    text = (t / "status").read_text()
                    self.assertIn(f"Seccomp:\t{mode}\n", text)
                    self.assertIn(f"NoNewPrivs:\t{'1' if mode == '2' else '0'}\n", text)
            finally:
                self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
