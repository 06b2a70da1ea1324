"""A program on a terminal of its own, for tests of chats."""

import os
import pty
import select
import signal
import termios
import time

from cli_case import RUN

WAIT = int(os.environ.get("WAIT", 60))  # seconds for what should come at once
PROMPT = b">>> "


class Terminal:
    """A program on a terminal of its own, which does not echo."""

    def __init__(self, args, env=None):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            mode = termios.tcgetattr(0)
            mode[1] &= ~termios.OPOST
            mode[3] = mode[3] & ~termios.ECHO | termios.NOFLSH  # Ctrl-C would drop what is on its way
            termios.tcsetattr(0, termios.TCSANOW, mode)
            os.execve(RUN, [RUN, *map(str, args)], {**os.environ, "NO_COLOR": "1", "TERM": "dumb", "XDG_STATE_HOME": "/dev/null/no", **(env or {})})
        self.status = None

    def read(self) -> bytes:
        if not select.select([self.fd], [], [], WAIT)[0]:
            raise AssertionError(f"nothing more came after {self.seen!r}")
        try:
            return os.read(self.fd, 65536)
        except OSError:  # the program has closed its side
            return b""

    def until(self, end: bytes) -> bytes:
        """What is shown up to `end`, and that no more."""
        while end not in self.seen:
            more = self.read()
            if not more:
                raise AssertionError(f"{end!r} did not come: {self.seen!r}")
            self.seen += more
        text, _, self.seen = self.seen.partition(end)
        return text

    def say(self, text: str) -> bytes:
        """Types a line; what is shown before the next prompt."""
        os.write(self.fd, text.encode() + b"\n")
        return self.until(PROMPT).removesuffix(b"\n")

    def end(self) -> tuple[int, bytes]:
        """The exit status, and the last that was shown."""
        limit = time.monotonic() + WAIT
        while more := self.read():
            self.seen += more
        while self.status is None and time.monotonic() < limit:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        return self.status, self.seen

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)
