"""A stream in which nothing happens yet is kept alive, in each API, and errors before that keep their status."""
import json
import signal
import time
import unittest

from serve_case import ServeCase, Server, occupied

TALK = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, "stream": True}
STREAMS = {
    "/v1/chat/completions": TALK,
    "/v1/completions": {"prompt": "hi", "max_tokens": 5, "stream": True},
    "/v1/responses": {"input": "hi", "max_output_tokens": 5, "stream": True},
    "/v1/messages": TALK,
}
LONG = {"prompt": "hi", "max_tokens": 30000, "ignore_eos": True}
BEGUN_AT_ONCE = ("/v1/responses", "/v1/messages")


def begin(server, path, body):
    text = json.dumps(body).encode()
    s = server.connect(60)
    s.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(text)) + text)
    return s


def read(s, what=None):
    """What comes until `what` is in it, or to the end."""
    text = b""
    while (what is None or what not in text) and (part := s.recv(65536)):
        text += part
    return text


class Pings(ServeCase):
    ARGUMENTS = ["--chat-template", "chatml", "--parallel", "1", "--ping", "1", "-c", "4096"]

    def test_each_api(self):
        """Behind a request that takes long: what is sent then is the same as while a prompt is read."""
        with occupied(self.server, "/v1/completions", LONG) as first:
            waiting = {path: begin(self.server, path, body) for path, body in STREAMS.items()}
            start = time.monotonic()
            for path, s in waiting.items():
                with self.subTest(path):
                    ping = b"keepalive" if path.endswith("responses") else b"ping"
                    text = read(s, ping)
                    self.assertTrue(text.startswith(b"HTTP/1.1 200"), text)
                    self.assertIn(b"text/event-stream", text)
                    self.assertIn(ping, text)
            self.assertLess(time.monotonic() - start, 2)
            self.assertEqual(read(waiting["/v1/completions"], b": ping").count(b": ping"), 1)  # and again
            first.close()
            for path, s in waiting.items():
                with self.subTest(path), s:
                    text = read(s)
                    self.assertRegex(text.decode(), r"\[DONE\]|response\.incomplete|message_stop")

    def test_no_stream_has_none(self):
        with occupied(self.server, "/v1/completions", LONG) as first:
            s = begin(self.server, "/v1/chat/completions", {**TALK, "stream": False})
            s.settimeout(2.5)
            with self.assertRaises(TimeoutError):
                s.recv(1)
            first.close()
            s.settimeout(60)
            self.assertTrue(read(s).startswith(b"HTTP/1.1 200"))
            s.close()


class Errors(unittest.TestCase):
    def ends(self, ping, seconds):
        """What streams that still wait get when the server ends, so many seconds after they began."""
        server = Server("--chat-template", "chatml", "--parallel", "1", "--ping", ping, "--drain-seconds", 0, "-c", "4096")
        with occupied(server, "/v1/completions", LONG):
            waiting = {path: begin(server, path, body) for path, body in STREAMS.items()}
            time.sleep(seconds)
            server.process.send_signal(signal.SIGTERM)
            texts = {path: read(s) for path, s in waiting.items()}
        for s in waiting.values():
            s.close()
        self.assertEqual(server.process.wait(30), 0)
        server.stop()
        return texts

    def test_after_the_first_ping(self):
        """It is an event of the stream."""
        for path, text in self.ends(1, 1.8).items():
            with self.subTest(path):
                self.assertTrue(text.startswith(b"HTTP/1.1 200"), text)
                self.assertIn(b'"code":"server_error"' if path.endswith("responses") else b'"error":{', text)
                self.assertIn(b"shutting down", text)
                self.assertNotIn(b"[DONE]", text)

    def test_before_it(self):
        for path, text in self.ends(3600, 1.8).items():
            with self.subTest(path):
                self.assertTrue(text.startswith(b"HTTP/1.1 200" if path in BEGUN_AT_ONCE else b"HTTP/1.1 503"), text)
                self.assertIn(b"shutting down", text)


if __name__ == "__main__":
    unittest.main()
