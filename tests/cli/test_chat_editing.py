"""The editor of a chat's lines, on a terminal that can move its cursor."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import stat
import struct
import termios
import time
import unicodedata
import unittest

from cli_case import Cli
from terminal import PROMPT, Terminal


class Screen:
    """What a terminal of some width shows of the bytes it gets: what the editor uses, and no more."""

    def __init__(self, width: int):
        self.width, self.rows, self.row, self.column, self.waits = width, [[]], 0, 0, False

    def put(self, c: str) -> None:
        columns = 0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        if columns == 0:
            self.rows[self.row][self.column - 1] += c
            return
        if self.waits or self.column + columns > self.width:
            self.go(self.row + 1, 0)
        line = self.rows[self.row]
        line[self.column : self.column + columns] = [c] + [""] * (columns - 1)
        self.column += columns
        self.waits = self.column == self.width
        self.column -= self.waits

    def go(self, row: int, column: int) -> None:
        self.row, self.column, self.waits = max(row, 0), min(column, self.width - 1), False
        while len(self.rows) <= self.row:
            self.rows.append([])
        self.rows[self.row] += [" "] * (self.column - len(self.rows[self.row]))

    def show(self, shown: bytes) -> "Screen":
        for code, c in re.findall(r"(\x1b\[[?\d;]*[A-Za-z])|(.)", shown.decode(), re.S):
            n = int(re.sub(r"\D", "", code) or 1)
            if code[-1:] == "A":
                self.go(self.row - n, self.column)
            elif code[-1:] == "C":
                self.go(self.row, self.column + n)
            elif code[-1:] == "J":
                del self.rows[self.row + 1 :], self.rows[self.row][self.column :]
            elif code[-1:] == "H":
                self.__init__(self.width)
            elif c == "\r":
                self.go(self.row, 0)
            elif c == "\n":
                self.go(self.row + 1, self.column)
            elif c:
                self.put(c)
        return self

    def text(self) -> list[str]:
        return ["".join(row) for row in self.rows]


class Editing(Cli):
    """The same chat on a terminal that can move its cursor."""

    def setUp(self):
        self.model = "models/fable.bin"
        self.args = ["--template", "chatml", "-s", 5, "--ignore-eos", "-n", 1]
        self.state = self.dir / self.id() / "state"
        self.file = self.dir / "talk.jsonl"

    def open(self, *args, width: int = 80, **more) -> Terminal:
        t = Terminal([self.model, *self.args, *args], {"TERM": "xterm", "XDG_STATE_HOME": str(self.state)})
        self.addCleanup(t.close)
        fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("4H", 24, width, 0, 0))
        t.until(PROMPT)
        return t

    def type(self, t: Terminal, *keys: bytes) -> None:
        for part in keys:
            os.write(t.fd, part)
            time.sleep(0.05 if len(keys) > 1 else 0)

    def sent(self, t: Terminal, *keys: bytes) -> str:
        """The message that the keys make."""
        t.say("/clear")
        self.type(t, *keys, b"\r")
        t.until(PROMPT)
        t.say(f"/save {self.file}")
        return json.loads(self.file.read_text().splitlines()[0])["content"]

    def test_keys(self):
        t = self.open()
        left, right, end, home = b"\x1b[D", b"\x1b[C", b"\x1b[F", b"\x1b[H"
        for keys, want in (
            (b"abc" + left * 2 + b"X", "aXbc"), (b"abc" + left * 9 + right + b"X", "aXbc"), (b"abc" + right + b"X", "abcX"),
            (b"abc" + home + b"X" + end + b"Y", "XabcY"), (b"abc\x1bOHX\x1bOFY", "XabcY"), (b"abc\x1b[1~X\x1b[4~Y", "XabcY"),
            (b"abc\x01X\x05Y", "XabcY"), (b"abc\x02X\x06Y", "abXcY"), (b"abc" + left + b"\x7f", "ac"), (b"abc\x08\x08", "a"),
            (b"abc" + home + b"\x1b[3~", "bc"), (b"abc" + home + b"\x04", "bc"), (b"\x7f\x1b[3~a" + home + b"\x7f", "a"),
            (b"abc" + left + b"\x0b", "ab"), (b"abc" + left + b"\x15", "c"), (b"one two  \x17X", "one X"), (b"one two" + left + b"\x17", "one o"),
            ("жё".encode() + left + b"\x7f", "ё"), ("xe\u0301\u0323y".encode() + left + b"\x7f", "xy"), ("漢字🙂".encode() + left + b"\x7f", "漢🙂"),
            ("e\u0301x".encode() + home + right + b"-", "e\u0301-x"), (b"a\x1b[5;2~\x1b[99X\x1b[Z\x00\x0fb", "ab"), (b"a\x1b\x1bb", "ab"),
            (b"a\tb", "a\tb"), (b"a\x80\x80\x7f", "a\ufffd"), (b"a\xff\x7fb\xff", "ab\ufffd"), (b"/x" + home + b" ", " /x"),
        ):  # fmt: skip
            self.assertEqual(self.sent(t, keys), want, keys)
        self.assertEqual(self.sent(t, b"ab\x1b", b"[", b"DX"), "aXb")
        self.assertEqual(self.sent(t, "aж".encode()[:2], "жb".encode()[1:]), "aжb")

    def test_what_is_shown(self):
        left = b"\x1b[D"
        for width, keys, rows, at in (
            (20, b"hello", [">>> hello"], (0, 9)), (20, b"hello" + left * 2, [">>> hello"], (0, 7)),
            (20, b"x" * 15, [">>> " + "x" * 15], (0, 19)), (20, b"x" * 16, [">>> " + "x" * 16, ""], (1, 0)),
            (20, b"x" * 40 + left * 30, [">>> " + "x" * 16, "x" * 20, "x" * 4], (0, 14)),
            (20, b"x" * 17 + left + b"\x7f", [">>> " + "x" * 16, ""], (0, 19)),
            (20, "漢字".encode() + left, [">>> 漢字"], (0, 6)), (9, "漢字か".encode(), [">>> 漢字", "か"], (1, 2)),
            (20, "e\u0301x🙂".encode() + left, [">>> e\u0301x🙂"], (0, 6)), (20, b"\xff" + left + b"a", [">>> a<FF>"], (0, 5)),
            (20, b"x" * 40 + b"\x15ab", [">>> ab"], (0, 6)), (20, b"abc\x0c" + left, [">>> abc"], (0, 6)),
            (20, b"\x1b[200~one\ntwo\x1b[201~" + left, [">>> one", "two"], (1, 2)), (20, (b"\xd0", b"\xb6"), [">>> ж"], (0, 5)),
        ):  # fmt: skip
            t = self.open(width=width)
            s = Screen(width).show(PROMPT)
            self.type(t, *([keys] if isinstance(keys, bytes) else keys))
            end = time.monotonic() + 10
            while (s.text(), (s.row, s.column)) != (rows, at) and time.monotonic() < end:
                s.show(os.read(t.fd, 65536) if select.select([t.fd], [], [], 0.2)[0] else b"")
            self.assertEqual((s.text(), (s.row, s.column)), (rows, at), keys)

    def test_what_is_pasted_is_one_message(self):
        t = self.open()
        paste = b"\x1b[200~%s\x1b[201~"
        self.assertEqual(self.sent(t, paste % b"one\r\n\ttwo\rthree\n" + b"4"), "one\n\ttwo\nthree\n4")
        self.assertEqual(self.sent(t, paste % b"/bye\nx"), "/bye\nx")
        self.assertEqual(self.sent(t, paste % b"a\x03\x04\x1b[31mb"), "ab")
        self.assertEqual(self.sent(t, b"\x1b[200~one\n", b"two", b"\x1b[20", b"1~"), "one\ntwo")

    def test_history(self):
        up, down = b"\x1b[A", b"\x1b[B"
        t = self.open()
        self.assertEqual(self.sent(t, b"first"), "first")
        t.say("second")
        self.assertEqual(self.sent(t, up * 2), "second")
        t = self.open()
        self.type(t, up + b"\r")  # /save
        t.until(PROMPT)
        path = self.state / "tern/history"
        self.assertEqual(path.read_text().splitlines()[:4], ["/clear", "first", f"/save {self.file}", "second"])
        self.assertEqual([stat.S_IMODE(p.stat().st_mode) for p in (path, path.parent, self.state)], [0o600, 0o700, 0o700])
        n = len(path.read_text().splitlines())
        t.say("again")
        t.say("again")
        self.assertEqual(len(path.read_text().splitlines()), n + 1)
        self.assertEqual(self.sent(t, b"new" + up * 3 + down * 3 + b"er"), "newer")
        self.assertEqual(self.sent(t, up * 1000 + down * 1000 + b"x"), "x")
        self.assertEqual(self.sent(t, b"\x1b[200~one\ntwo\x1b[201~"), "one\ntwo")
        t = self.open()
        self.assertEqual(self.sent(t, b"\x10\x10\x10\x0e\x10"), "one\ntwo")
        path.chmod(0o644)
        path.write_text("x" * 2000000 + "\n" + "".join(f"line {i}\n" for i in range(2000)))
        t = self.open()
        self.assertEqual(self.sent(t, up * 2), "line 1999")
        self.assertLess(path.stat().st_size, 270000)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        path.unlink()
        os.mkfifo(path)
        self.assertEqual(self.sent(self.open(), up * 9 + down * 9 + b"x"), "x")

    def test_the_terminal_is_as_it_was_at_every_end(self):
        fresh = pty.openpty()
        normal = termios.tcgetattr(fresh[1])
        normal[3] = normal[3] & ~termios.ECHO | termios.NOFLSH  # as Terminal sets it
        for fd in fresh:
            os.close(fd)
        for end, status in ((b"/bye\r", 0), (b"\x04", 0), (b"\x03\x03", 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129),
                            (signal.SIGQUIT, -signal.SIGQUIT), (signal.SIGSEGV, -signal.SIGSEGV)):  # fmt: skip
            t = self.open()
            self.assertEqual(termios.tcgetattr(t.fd)[3] & (termios.ICANON | termios.ISIG), 0)
            if isinstance(end, bytes):
                os.write(t.fd, end)
            else:
                os.kill(t.pid, end)
            code, shown = t.end()
            mode = termios.tcgetattr(t.fd)
            self.assertEqual((code, mode[0], mode[3]), (status, normal[0], normal[3]), end)
            self.assertIn(b"\x1b[?2004l", shown)
        t = self.open()
        t.say("Hello")
        self.type(t, b"abc\x03")
        self.assertIn(b"Ctrl-C again", t.until(PROMPT))
        self.assertEqual(self.sent(t, b"x"), "x")
        self.type(t, b"ab\x1a")  # nobody could continue it here, so it goes on
        t.until(PROMPT)
        self.type(t, b"c\r")
        t.until(PROMPT)
        t.say(f"/save {self.file}")
        self.assertIn('"content": "abc"', self.file.read_text())
        t = self.open()
        for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):  # two at once
            os.kill(t.pid, number)
        self.assertIn(t.end()[0], (130, 143))
        self.assertEqual(termios.tcgetattr(t.fd)[3], normal[3])

    def test_words_are_wrapped(self):
        def answer() -> str:
            self.type(t, b"Tell me about the cat\r")
            return re.sub(r"\x1b\[\?2004[lh]", "", t.until(PROMPT).decode()).partition("\r\n")[2]

        t = self.open("-n", 60, width=30)
        text = answer()
        lines = text.rstrip("\n").split("\n")
        want = self.good(self.model, "--chat", "Tell me about the cat", *self.args, "-q", "-n", 60).decode()[:-1]
        self.assertEqual(" ".join(" ".join(lines).split()), " ".join(want.split()))
        self.assertGreater(len(lines), want.count("\n") + 3)
        for line, following in zip(lines, lines[1:]):
            self.assertLessEqual(len(line), 30)
            self.assertEqual(line, line.rstrip(" "))
        t.say("/clear")
        self.assertEqual(answer(), text)  # it begins at the left edge, too
        token = self.good(self.model, "--tokenize", "mat").split()[-1].decode()  # a word longer than a line is not cut
        t = self.open("-n", 60, "--logit-bias", token + "+1000", width=30)
        self.type(t, b"Hello\r")
        self.assertRegex(t.until(PROMPT), rb"2004l(at){60}\n")


if __name__ == "__main__":
    unittest.main()
