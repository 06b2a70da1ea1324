"""The program run: sessions between runs, and contexts that fill up."""

import os
import re
import signal
import unittest

from cli_case import Cli, catches, processor_seconds, until  # first: it makes the next one importable

from terminal import Terminal

FILL = ["--ignore-eos", "--temp", "1.1", "-s", 3]


class Sessions(Cli):
    def mark(self, *args) -> tuple[bytes, bytes, str]:
        done = self.run_it(*args, "--fingerprint", "-v")
        self.assertEqual(done.returncode, 0, done.stderr)
        mark = re.search(rb"fingerprint: .*\n", done.stderr)[0]
        return done.stdout, mark, done.stderr.decode()

    def test_a_session_changes_nothing_but_the_time(self):
        for cache in ("f16", "f32", "q8"):
            file = self.dir / f"session-{cache}"
            args = [self.model, "-n", 20, "--cache-type", cache, *FILL]
            for prompt, held in (("one two", 0), ("one two three", 8), ("one", 3), ("other", 2), ("other", 5)):
                want = self.mark(*args, prompt)
                text, mark, report = self.mark(*args, prompt, "--session", file, "--session-new")
                self.assertEqual((text, mark), want[:2])
                found = re.search(r"prompt reused: +(\d+)", report)
                self.assertEqual(int(found[1]) if found else 0, held, report)
            whole = self.good(*args, "other", "-n", 40)
            self.good(*args, "other", "--session", file, "--session-new")
            more = self.good(*args, "--session", file)  # its text goes on
            self.assertEqual(whole, self.good(*args, "other")[:-1] + more)

    def test_another_prompt_does_not_replace_a_session_silently(self):
        file = self.dir / "mine"
        args = [self.model, "-n", 5, *FILL, "--session", file]
        text = self.good(*args, "one two")
        held = file.read_bytes()
        self.assertIn("holds another text; --session-new replaces it", self.bad(2, *args, "one three"))
        self.assertIn("holds another text", self.bad(2, *args, stdin=b"other"))
        self.assertIn("holds another text", self.bad(2, *args, "--prompt-ids", "1 9 9"))
        self.assertIn("belongs to --session", self.bad(2, self.model, "x", "--session-new"))
        for answer, code in ((b"n\n", 2), (b"\n", 2), (b"\x04", 2), (b"\x03", 130), (b"y\n", 0)):
            self.assertEqual(file.read_bytes(), held)
            t = Terminal([*args, "one three"])
            self.addCleanup(t.close)
            t.until(b"Replace it? [y/N] ")
            os.write(t.fd, answer)
            self.assertEqual(t.end()[0], code)
        self.assertNotEqual(file.read_bytes(), held)
        self.good(*args, "one two", "--session-new")
        self.assertEqual(file.read_bytes(), held)
        self.assertEqual(self.good(*args, "one two"), text)  # the same one: nothing to ask

    def test_a_dash_is_no_session(self):
        self.assertIn("needs the name of a file", self.bad(2, self.model, "x", "-n", 1, "--session", "-"))
        self.assertFalse(os.path.exists("-"))

    def test_a_session_may_end_within_a_character(self):
        """The next run writes it whole."""
        ids = [1, *(b + 3 for b in "aж🙂".encode())]
        for cut in range(2, len(ids)):
            file = self.dir / f"cut{cut}"
            args = [self.model, "--session", file, "--temp", 0, "--ignore-eos", "-q"]
            text, at = b"", 1
            for n in (cut, len(ids)):  # every token is forced by its logit
                for one in ids[at:n]:
                    prompt = [] if file.exists() else ["--prompt-ids", "1"]
                    text += self.good(*args, *prompt, "-n", 1, "-l", f"{one}+1000")[:-1]
                at = n
            self.assertEqual(text, "aж🙂".encode())

    def test_sessions_that_do_not_fit(self):
        file = self.dir / "session"
        self.good(self.model, "some text", "-n", 5, "--session", file)
        held = file.read_bytes()
        for code, words, args in (
            (3, "another type of cache", [self.model, "x", "--cache-type", "q8"]),
            (3, "another model", ["models/fable.bin", "x"]),
            (6, "tokens and the context 5", [self.model, "x", "-c", 5]),
        ):
            self.assertIn(words, self.bad(code, *args, "--session", file))
            self.assertEqual(file.read_bytes(), held)
        file.write_bytes(held[:-1])
        self.assertIn(f"run: --session {file}: it is cut", self.bad(3, self.model, "x", "--session", file))
        self.assertIn("holds a model", self.bad(3, self.model, "x", "--session", self.model))
        self.assertIn("--session and --perplexity", self.bad(2, self.model, "--session", file, "--perplexity", "x"))
        self.assertRegex(self.bad(3, self.model, "x", "--session", self.dir), "it is a folder, not a file")
        self.assertIn("it is not a session of tern", self.bad(3, self.model, "x", "--session", __file__))
        done = self.run_it(self.model, "x", "-n", 2, "-q", "--session", "/nowhere/at/all")
        self.assertEqual(done.returncode, 4)
        self.assertEqual(done.stdout, b"")  # before the text
        self.assertRegex(done.stderr, rb"\Arun: --session /nowhere/at/all: cannot write to its folder: .*\n\Z")
        link = self.dir / "link"
        link.symlink_to(file)
        self.assertIn("is a link; name the file itself", self.bad(2, self.model, "x", "--session", link))
        self.assertIn("token 99999999 is not in the model's vocabulary of 259", self.bad(2, self.model, "x", "-l", "99999999+1"))

    def ids(self, *args) -> list[bytes]:
        return re.findall(rb'"id":(\d+)', self.good("models/fable.bin", *args, *FILL, "--jsonl", "-q"))

    def test_sessions_of_full_contexts(self):
        """No token is lost or written twice."""
        file = self.dir / "full"
        whole = self.ids("Once", "-c", 50)
        begun = self.ids("Once", "-c", 40, "--session", file)
        self.assertEqual(begun, whole[: 40 - 2])  # the last one has its position too
        self.assertEqual(self.ids("-c", 40, "--session", file), [])
        self.assertEqual(self.ids("-c", 50, "--session", file), whole[38:48])
        for n in (37, 38, 39, 40):  # the 40 positions hold 38 tokens more than the prompt's
            file.unlink()
            args = ["models/fable.bin", "Once", "-c", 40, "-n", n, *FILL]
            done = self.run_it(*args, "--jsonl", "-q", "--session", file)
            self.assertEqual(re.findall(rb'"id":(\d+)', done.stdout), whole[: min(n, 38)])
            self.assertIn(b'"context"' if n > 38 else b'"length"', done.stdout)
            self.assertEqual(self.ids("-c", 50, "-n", 3, "--session", file), whole[min(n, 38) :][:3])
        for keep in ([], ["--keep", 0], ["--keep", 30]):
            args = ["-c", 40, "--context-shift", *keep, "-n"]
            for n in (38, 39, 40):
                file.unlink()
                whole = self.ids("Once", *args, n + 9)
                begun = self.ids("Once", *args, n, "--session", file)
                self.assertEqual(begun + self.ids(*args, 9, "--session", file), whole)

    def test_a_prompt_that_was_not_read_leaves_the_session(self):
        file = self.dir / "unread"
        self.good(self.long, "abc", "-n", 5, *FILL, "--session", file)
        held = file.read_bytes()
        text = self.dir / "long.txt"
        text.write_bytes(b"a" * 60000)
        p = self.start(self.long, "-f", text, "--session", file, "--session-new")
        until(lambda: catches(p, signal.SIGINT) and processor_seconds(p) > 0.1)  # it reads
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=120)
        self.assertEqual(p.returncode, 130)
        self.assertEqual(file.read_bytes(), held)

    def test_full_contexts(self):
        args = [self.model, "a b c", *FILL, "-c", 60]
        done = self.run_it(*args)
        self.assertIn(b"context: all 60 positions are full", done.stderr)
        long = self.run_it(*args, "--context-shift", "-n", 300)
        self.assertRegex(long.stderr, rb"; context shifts \d+ \(\d+ tokens evaluated again in [0-9.]+m?s\);")
        self.assertTrue(long.stdout.startswith(done.stdout[:-1]))
        for more in (["--keep", 0], ["--keep", -1], ["--keep", 50]):
            self.assertNotEqual(self.good(*args, "--context-shift", "-n", 300, *more), long.stdout)
        self.assertEqual(self.good(*args, "--context-shift", "-n", 300, "--lookup", "--keep", 4), long.stdout)
        self.assertIn("--keep belongs to", self.bad(2, *args, "--keep", 5))
        self.assertIn("the context holds 60", self.bad(6, self.model, "x" * 99, "-c", 60, "--context-shift"))


if __name__ == "__main__":
    unittest.main()
