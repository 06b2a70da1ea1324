"""A running `serve` for tests: started on a free port, stopped at the end.

class TestX(ServeCase):
    ARGUMENTS = ["--parallel", "2"]

    def test_it(self):
        status, headers, body = self.post("/v1/completions", {"prompt": "The"})
"""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

SLOW = bool(os.environ.get("QUICK"))  # a program with sanitizers, say
SERVE = os.environ.get("SERVE") or "build/serve"
MODEL = "models/fable.bin"
SEED = int(os.environ.get("SERVE_SEED", 1))
WHY = None if os.access(SERVE, os.X_OK) else f"{SERVE} is not built"


class Server:
    """A process of `serve`, ready unless `wait` is false. Requests without a seed get `seed`, so that a test sees the
    same answer each time; None: a new one for each."""

    def __init__(self, *arguments, model=MODEL, wait=True, environment=None, before=None, seed=SEED):
        self.log = tempfile.TemporaryFile("w+")
        arguments = list(map(str, arguments)) + ([] if seed is None else ["--seed", str(seed)])
        self.process = subprocess.Popen(
            [SERVE, model, "--port", "0", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={**os.environ, **(environment or {})},
            preexec_fn=before,
        )
        self.port = None
        self.ready = ""  # the line that says so
        try:
            self.port = int(re.search(r":(\d+)\s*$", self._line("listening"))[1])
            if wait:
                self.wait_ready()
        except BaseException:
            self.stop(signal.SIGKILL)
            raise

    def _line(self, word):
        line = self.process.stdout.readline()
        if word not in line:
            self.process.wait(10)
            raise AssertionError(f"serve said {line!r} instead of {word!r}; {self.text()}")
        return line

    def wait_ready(self):
        self.ready = self._line("ready")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self):
        return self.process.pid

    def text(self):
        """What it wrote to standard error so far."""
        if not self.log.closed:
            self.log.seek(0)
            self._text = self.log.read()
        return self._text

    def connect(self, timeout=30):
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def raw(self, data, timeout=30, shut=False):
        """Everything that comes back for these bytes until the server closes or is silent."""
        with self.connect(timeout) as s:
            s.sendall(data)
            if shut:
                s.shutdown(socket.SHUT_WR)
            parts = []
            try:
                while part := s.recv(65536):
                    parts.append(part)
            except (TimeoutError, ConnectionResetError):
                pass
            return b"".join(parts)

    def ask(self, method, path, body=None, headers=None, timeout=60):
        """(status, headers with lower-case names, body: JSON where it is, else text)"""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
            c.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            r = c.getresponse()
            text = r.read()
            names = {k.lower(): v for k, v in r.getheaders()}
            if text and names.get("content-type", "").startswith("application/json"):
                return r.status, names, json.loads(text)
            return r.status, names, text.decode("utf-8", "replace")
        finally:
            c.close()

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def post(self, path, body, **more):
        return self.ask("POST", path, body, **more)

    def events(self, path, body, headers=None, timeout=60):
        """The data of each event of a stream, as (event name or None, text)."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            c.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
            r = c.getresponse()
            if r.status != 200:
                raise AssertionError(f"{r.status}: {r.read()!r}")
            name = None
            for line in r:
                line = line.decode().rstrip("\n")
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    yield name, line[6:]
                    name = None
        finally:
            c.close()

    def metric(self, name):
        """The value of a line of /metrics."""
        for line in self.get("/metrics")[2].splitlines():
            if line.startswith((name + " ", name + "{")):
                return float(line.split()[-1])
        raise AssertionError(f"no metric {name}")

    def files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def rss(self):
        """Resident bytes."""
        with open(f"/proc/{self.pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def seconds(self):
        """For which the processors have worked for it."""
        with open(f"/proc/{self.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, how=signal.SIGTERM, seconds=60):
        """Ends it; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("serve did not end") from None
        finally:
            self.process.stdout.close()
            self.text()
            self.log.close()


@contextlib.contextmanager
def occupied(server, path, body):
    """While a request is being answered: the socket that asked. Closing it cancels the request."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    with server.connect() as s:
        s.sendall(head.encode() + data)
        until(lambda: any(slot["is_processing"] for slot in server.get("/slots")[2]), what="the request")
        yield s


@unittest.skipIf(WHY, WHY)
class ServeCase(unittest.TestCase):
    """One server for all tests of the class."""

    MODEL = MODEL
    ARGUMENTS = []

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.ARGUMENTS, model=cls.MODEL)
        cls.addClassCleanup(cls._end)
        cls.port, cls.url = cls.server.port, cls.server.url

    @classmethod
    def _end(cls):
        code = cls.server.stop()
        text = cls.server.text()
        assert code == 0, f"serve ended with {code}: {text[-3000:]}"
        assert "Sanitizer" not in text, text[-5000:]

    def get(self, path, **more):
        return self.server.get(path, **more)

    def post(self, path, body, **more):
        return self.server.post(path, body, **more)

    def events(self, path, body, **more):
        return self.server.events(path, body, **more)


def until(true, seconds=30, what="it"):
    """Waits for true() to be true; returns the seconds that took."""
    begin = time.monotonic()
    while not true():
        if time.monotonic() - begin > seconds:
            raise AssertionError(f"{what} did not happen within {seconds} s")
        time.sleep(0.01)
    return time.monotonic() - begin


def together(n, work):
    """Runs work(i) in n threads at once; returns the results, raises the first failure."""
    results, errors = [None] * n, []

    def one(i):
        try:
            results[i] = work(i)
        except BaseException as e:  # noqa: BLE001
            errors.append(e)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    return results
