"""The program run as a chat: at a terminal, driven by what it shows, and in pipes."""

import json
import os
import re
import signal
import stat
import sys
import time
import unittest
from pathlib import Path

from cli_case import RUN, Cli, write_model  # first: it makes the next two importable
from terminal import PROMPT, Terminal

import test_chat  # isort: skip
from tern.convert.chat import chat


class Chat(Cli):
    def setUp(self):
        self.model = "models/fable.bin"
        self.args = ["--template", "chatml", "-s", 5, "-n", 12, "--ignore-eos"]

    def open(self, *args, model=None, env=None) -> Terminal:
        t = Terminal([model or self.model, *self.args, *args], env)
        self.addCleanup(t.close)
        t.until(b">>> ")
        return t

    def once(self, text: str, *more) -> bytes:
        return self.good(self.model, "--chat", text, *self.args, "-q", *more)[:-1]

    def test_questions_and_answers(self):
        t = Terminal([self.model, *self.args])
        self.addCleanup(t.close)
        self.assertIn(b"template chatml, 512 positions; /? lists commands", t.until(b">>> "))
        first = t.say("Who are you?")
        self.assertEqual(first, self.once("Who are you?"))
        self.assertNotEqual(t.say("Who are you?"), first)
        self.assertEqual(t.say(""), b"")
        os.write(t.fd, b"\x04")
        self.assertEqual(t.end(), (0, b"\n"))

    def test_a_terminal_obeys_no_text(self):
        """Control characters of a prompt, a file and a model are visible there, and nowhere else changed."""
        text = "a\x1b[31m\x9b\udc9b\x00"[:-1] + "\r\x7f\tж\n"
        plain = text.encode("utf-8", "surrogateescape")
        shown = "a^[[31m<U+009B><9B>^M^?\tж\n".encode()
        model = self.dir / "red.bin"
        write_model(model, 512, name="red \x1b[31m")
        for more, want in (([], shown), (["--raw"], plain)):
            t = Terminal([model, text, "-n", 0, "-q", *more])
            self.addCleanup(t.close)
            self.assertEqual(t.end(), (0, want + b"\n"))
            t = Terminal([model, "--info", "-v", *more])
            self.addCleanup(t.close)
            self.assertEqual(b"\x1b" in t.end()[1], bool(more))
            t = Terminal([model, "--chat", *self.args, *more])
            self.addCleanup(t.close)
            self.assertEqual((b"red \x1b[31m, " if more else b"red ^[[31m, ") in t.until(PROMPT), True)
        self.assertEqual(self.good(model, text, "-n", 0, "-q"), plain + b"\n")
        args = [model, "x", "-n", 200, "-s", 5, "--ignore-eos", "-q", "--temp", 100, "--top-k", 0, "--top-p", 1, "--min-p", 0]
        made = self.good(*args)
        self.assertRegex(made, rb"[\x00-\x08\x0b-\x1f]")
        for report in ([], ["--jsonl"], ["--logprobs", 3]):
            t = Terminal([*args, *report])
            self.addCleanup(t.close)
            status, seen = t.end()
            self.assertEqual(status, 0)
            self.assertNotRegex(seen, rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")

    def test_reports_of_tokens_follow_the_text(self):
        """On a terminal, where both are seen."""
        want = self.good(self.model, "One day", "-s", 5, "-n", 12, "-q")
        t = Terminal([self.model, "One day", "-s", 5, "-n", 12, "-q", "--logprobs", 1])
        self.addCleanup(t.close)
        status, shown = t.end()
        self.assertEqual((status, shown[: len(want)]), (0, want))
        self.assertRegex(shown[len(want):], rb"\A(\d+: \d+ \"[^\n]*\n){12}\Z")
        t = self.open("--logprobs", 0)
        self.assertRegex(t.say("Hello"), re.escape(self.once("Hello")) + rb"\n(\d+: [^\n]*\n){11}\d+: [^\n]*\Z")

    def test_the_time_a_person_takes_is_not_counted(self):
        t = self.open("-v")
        units = {"ms": 1e-3, "s": 1}
        for _ in range(2):
            time.sleep(1.5)
            found = re.findall(rb"(total|load|prompt eval|eval) duration: +([\d.]+)(ms|s)", t.say("Hello"))
            total, *parts = (float(n) * units[u.decode()] for _, n, u in found)
            self.assertEqual(len(parts), 3)
            self.assertLess(total, sum(parts) + 1)

    def test_messages_of_several_lines(self):
        t = self.open()
        want = self.once("one\n\n two\n/bye")
        os.write(t.fd, b'"""one\n')
        self.assertEqual(t.until(b"... "), b"")
        os.write(t.fd, b"\n two\n")
        self.assertEqual(t.until(b"... "), b"")
        self.assertEqual(t.until(b"... "), b"")
        self.assertEqual(t.say('/bye"""'), want)
        t.say("/clear")
        self.assertEqual(t.say('"""one two"""'), self.once("one two"))
        t.say("/clear")
        os.write(t.fd, b"one\\\n")
        t.until(b"... ")
        self.assertEqual(t.say("two"), self.once("one\ntwo"))
        t.say("/clear")
        self.assertEqual(t.say('"""/bye"""'), self.once("/bye"))

    def test_commands(self):
        t = self.open()
        file = self.dir / "talk.jsonl"
        listed = t.say("/?")
        self.assertEqual(t.say("/help"), listed)
        for command in ("clear", "regen", "save", "load", "set", "bye", "exit", "quit", "?", "help"):
            self.assertRegex(listed, b"/" + re.escape(command).encode() + b"[ ,]")
        self.assertIn(b"no such command", t.say("/what"))
        self.assertIn(b"no answer yet", t.say("/regen"))
        first = t.say("Hello")
        self.assertEqual(t.say("/regen"), first)
        t.say("/set seed 6")
        other = t.say("/regen")
        self.assertNotEqual(other, first)
        t.say("/set seed 5")
        second = t.say('a "b" \\ \t ж🙂')
        self.assertEqual(t.say(f"/save {file}"), f"messages saved to {file}: 4".encode())
        saved = [json.loads(line) for line in file.read_text().splitlines()]
        self.assertEqual([m["role"] for m in saved], ["user", "assistant"] * 2)
        self.assertEqual([saved[0]["content"], saved[2]["content"]], ["Hello", 'a "b" \\ \t ж🙂'])
        self.assertEqual(saved[1]["content"].encode(), other)
        self.assertEqual(saved[3]["content"].encode(), second)
        self.assertEqual(t.say("/clear"), b"the conversation is forgotten")
        t.say("/set seed 5")
        self.assertEqual(t.say("Hello"), first)
        self.assertEqual(t.say(f"/load {file}"), f"messages loaded from {file}: 4".encode())
        self.assertEqual(t.say("/regen"), second)
        fresh = self.open()
        fresh.say(f"/load {file}")
        self.assertEqual(fresh.say("More?"), t.say("More?"))
        self.assertIn(b"cannot open", t.say("/load /nowhere/x"))
        self.assertIn(b"cannot write", t.say("/save /nowhere/x"))
        for command in ("/save", "/load", "/save -", "/load -"):
            self.assertIn(b"name of a file", t.say(command))
        os.write(t.fd, b"/bye\n")
        self.assertEqual(t.end(), (0, b""))

    def test_an_answer_stays_until_there_is_another(self):
        t = self.open()
        file = self.dir / "stays.jsonl"
        t.say("Hello")
        t.say(f"/save {file}")
        held = file.read_bytes()
        t.say("/set n 0")
        for command in ("/regen", "/regen", "What?"):
            t.say(command)
            t.say(f"/save {file}")
            self.assertEqual(file.read_bytes(), held)

    def test_lines_that_the_terminal_cuts(self):
        t = self.open()
        first = t.say("Hello")
        for n in (4095, 5000):
            self.assertRegex(t.say("x" * n), rb"\Anot sent: a terminal cuts lines at 4095 bytes; [^\n]*\Z")
        self.assertEqual(t.say("/regen"), first)
        self.assertIn(b"the conversation has", t.say("x" * 4094))

    def test_settings(self):
        t = self.open()
        first = t.say("Hello")
        for command, args in (("temp 0", ["--temp", 0]), ("temp 1.5", ["--temp", 1.5]), ("top_k 3", ["--temp", 1.5, "--top-k", 3]),
                              ("n 9", ["--temp", 1.5, "--top-k", 3, "-n", 9])):  # fmt: skip
            self.assertEqual(t.say(f"/set {command}"), command.replace(" ", " is ").encode())
            t.say("/clear")
            self.assertEqual(t.say("Hello"), self.once("Hello", *args))
        self.assertEqual(t.say("/set system Speak  like a cat."), b"system is Speak  like a cat.")
        self.assertEqual(t.say("/clear"), b"the conversation is forgotten, except the system text")
        t.say("Hello")
        self.assertEqual(t.say("/regen"), self.once("Hello", *args, "--system", "Speak  like a cat."))
        file = self.dir / "system.txt"
        file.write_text("Speak  like a cat.")
        self.assertEqual(self.once("Hello", *args, "--system-file", file), self.once("Hello", *args, "--system", "Speak  like a cat."))
        self.assertIn(b"total duration:", (t.say("/set verbose"), t.say("/regen"))[1])
        self.assertNotIn(b"total duration:", (t.say("/set verbose"), t.say("/regen"))[1])
        self.assertIn(b"is not a number from 0 to 1000", t.say("/set temp hot"))
        self.assertEqual([t.say("/set ignore-eos") for _ in range(2)], [b"ignore-eos is off", b"ignore-eos is on"])
        self.assertEqual(t.say("/set seed 5 "), b"seed is 5")
        self.assertIn(b"--think: this chat template has no such choice", t.say("/set think on"))
        self.assertIn(b"--logit-bias=5+1 cannot be changed here", t.say("/set logit-bias 5+1"))
        self.assertIn(b"--ctx-size=5 cannot be changed here", t.say("/set ctx-size 5"))
        self.assertEqual([t.say(f"/set {c}") for c in ("-n 4", "--n-predict 5")], [b"n is 4", b"n-predict is 5"])
        self.assertIn(b"unknown option '--bogus=5'; /help names the common ones", t.say("/set --bogus 5"))
        self.assertIn(b"did you mean --temp?", t.say("/set tmep 5"))
        for command in ("/set temprature 5", "/set temprature"):
            self.assertIn(b"did you mean --temperature?", t.say(command))
        for command in ("/set", "/set -", "/set -- 5"):
            self.assertIn(b"name of an option is missing", t.say(command))
        quiet = self.open("-q")
        self.assertEqual([quiet.say(c) for c in ("/set n 3", "/clear")], [b"", b""])
        self.assertIn("--think: this chat template has no such choice", self.bad(2, self.model, *self.args, "x", "-q", "--think", "on"))
        self.assertNotEqual(first, self.once("Hello", *args))

    def test_files_that_are_no_conversation(self):
        t = self.open()
        file = self.dir / "bad.jsonl"
        first = t.say("Hello")
        for text, line in (
            ('{"role": "assistant", "content": "x"}', 1), ('{"role": "user", "content": "x"', 1), ("x", 1),
            ('{"role": "user", "content": "x"}\n\n{"role": "user", "content": "x"}', 3), ('{"role": "user"}', 1),
            ('{"role": "user", "content": "\\x"}', 1), ('{"role": "user", "content": "\\u12"}', 1),
            ('{"role": "user", "content": 5}', 1), ('{"role": "user", "content": "x"} x', 1),
            ('{"role": "user", "content": "x"}\n{"role": "system", "content": "x"}', 2),
        ):  # fmt: skip
            file.write_text(text)
            self.assertIn(b"line %d is not the next message" % line, t.say(f"/load {file}"), text)
        self.assertEqual(t.say("/regen"), first)
        user = b' {"name":"x\\n", "content" :"\\ud83d\\ude42\\u0436\\ud800\\/\\t","role":"user"} \r\n'
        answer = b'{"role": "assistant", "content": "y"}\n'
        for text, words in ((b"", b"no answered message"), (b'{"role": "system", "content": "x"}', b"no answered message"),
                            (user, b"no answered message"), (user + answer + user, b"last message has no answer")):  # fmt: skip
            file.write_bytes(text)
            self.assertIn(b"bad.jsonl: it", t.say(f"/load {file}"))
            self.assertIn(words, t.say(f"/load {file}"))
        file.write_bytes(b"")
        self.assertIn(b"no answered message", t.say(f"/load {file}"))
        for device in ("/dev/zero", "/dev/null", self.dir):
            self.assertIn(b"is not a regular file", t.say(f"/load {device}"))
        self.assertEqual(t.say("/regen"), first)
        file.write_bytes(user + answer)
        self.assertEqual(t.say(f"/load {file}"), f"messages loaded from {file}: 2".encode())
        t.say(f"/save {file}")
        saved = [json.loads(line) for line in file.read_text().splitlines()]
        self.assertEqual(saved, [{"role": "user", "content": "🙂ж\ufffd/\t"}, {"role": "assistant", "content": "y"}])

    def test_saving_touches_one_file(self):
        t = self.open()
        os.write(t.fd, b"a\xff\xc3 \xed\xa0\x80\n")
        t.until(PROMPT)
        file, link, pipe = self.dir / "one.jsonl", self.dir / "link", self.dir / "pipe"
        beside = self.dir / "one.jsonl.tmp"
        beside.write_text("mine")
        file.write_text("before")
        link.symlink_to(file)
        os.mkfifo(pipe)
        for path in (link, pipe, self.dir):
            self.assertIn(b"is not a regular file", t.say(f"/save {path}"))
        self.assertIn(b"is not a regular file", t.say(f"/load {pipe}"))
        self.assertEqual(file.read_text(), "before")
        new = self.dir / "new.jsonl"
        file.chmod(0o624)  # kept; a new one is its owner's alone
        self.assertEqual(t.say(f"/save {file}").count(b"messages saved") + t.say(f"/save {new}").count(b"messages saved"), 2)
        self.assertEqual([stat.S_IMODE(f.stat().st_mode) for f in (file, new)], [0o624, 0o600])
        self.assertEqual(beside.read_text(), "mine")
        self.assertEqual(json.loads(file.read_text().splitlines()[0])["content"], "a\ufffd\ufffd \ufffd\ufffd\ufffd")
        self.assertEqual(list(self.dir.glob("*.jsonl.*.tmp")), [])

    @unittest.skipUnless(sys.platform == "linux", "LD_PRELOAD is Linux's")
    def test_memory_that_runs_out_is_reported(self):
        if b"__msan_init" in Path(RUN).read_bytes():
            self.skipTest("the memory sanitizer brings a realloc of its own")
        short = {**self.shim("realloc_shim.c"), "REALLOC_FROM": "440", "REALLOC_TO": "520"}
        done = self.run_it(self.model, "--chat", "Hi", *self.args, "-n", 200, "-q", env={**os.environ, **short})
        self.assertEqual((done.returncode, done.stderr), (5, b"run: not enough memory for the conversation\n"))
        self.assertTrue(0 < len(done.stdout) < 440, "it stops where it can keep no more")
        no_ids = {**self.shim("realloc_shim.c"), "MALLOC": str(4 * 149)}  # for an answer, which is kept as text alone
        done = self.run_it(self.model, "--chat", "Hi", *self.args, "-n", 149, "-q", env={**os.environ, **no_ids})
        self.assertEqual((done.returncode, done.stdout[:-1], done.stderr), (0, self.once("Hi", "-n", 149), b""))
        file = self.dir / "long.jsonl"
        turns = [{"role": "user", "content": "x" * 250}, {"role": "assistant", "content": "y" * 250}]
        file.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
        t = self.open("-n", 2, env=short)
        self.assertIn(b"not enough memory", t.say(f"/load {file}"))
        self.assertNotIn(b"not enough memory", t.say("Hello"))
        self.assertIn(b"not enough memory", t.say("z" * 400))
        self.assertNotIn(b"not enough memory", t.say("Hello"))

    @unittest.skipUnless(sys.platform == "linux", "LD_PRELOAD is Linux's")
    def test_a_saved_conversation_is_synced(self):
        synced, fails = self.dir / "synced", self.dir / "fails"
        t = self.open(env={**self.shim("sync_shim.c"), "SYNCED": str(synced), "SYNC_FAILS": str(fails)})
        file = self.dir / "talk.jsonl"
        t.say("Hello")
        t.say(f"/save {file}")
        self.assertEqual(synced.read_text().split()[:1], ["file"])
        held = file.read_bytes()
        self.assertIn(b"Hello", held)
        t.say("More")
        fails.touch()
        self.assertIn(b"cannot write: Input/output error", t.say(f"/save {file}"))
        self.assertEqual(file.read_bytes(), held)
        self.assertEqual(list(self.dir.glob("*.jsonl.*.tmp")), [])

    def test_signals(self):
        t = self.open("-n", 60000, "--context-shift", model=self.long)
        os.write(t.fd, b"Hello\n")
        t.seen += t.read()
        os.write(t.fd, b"\x03")
        t.until(PROMPT)
        t.say("/set n-predict 5")
        t.say("And now?")
        os.write(t.fd, b"\x03")
        self.assertIn(b"Ctrl-C again, Ctrl-D or /bye leaves", t.until(b">>> "))
        t.say("/clear")
        os.write(t.fd, b"\x03")
        t.until(b">>> ")
        os.write(t.fd, b"\x03")
        self.assertEqual(t.end()[0], 130)
        t = self.open()
        os.kill(t.pid, signal.SIGTERM)
        self.assertEqual(t.end()[0], 143)

    def test_only_what_is_new_is_read(self):
        def counts(shown: bytes) -> list[int]:
            return [int(m) for m in re.findall(rb"(?:prompt reused|prompt eval count): +(\d+)", shown)]

        t = self.open("-v")
        (n,) = counts(t.say("Hello"))
        held, new = counts(t.say("Well?"))
        self.assertEqual(held, n + 11)  # all but the last token that was chosen
        self.assertEqual(counts(t.say("/regen")), [held + new - 1, 1])
        shown = t.say("/set system x") + t.say("/regen")
        self.assertLess(counts(shown)[0], 25)

    def test_full_contexts(self):
        t = self.open("-c", 100)
        self.assertNotIn(b"context", t.say("Hello"))
        self.assertRegex(t.say("x" * 24), rb"the conversation has \d+ tokens, but the context holds 100")
        t.say("/clear")
        shown = (t.say("/set n-predict -1"), t.say("Hello"))[1]
        self.assertIn(b"context: all 100 positions are full", shown)
        t.say("/clear")
        t.say("/set context-shift")
        t.say("/set n-predict 200")
        self.assertEqual(len(t.say("Hello")) > 100, True)
        self.assertIn(b"context: the oldest 1 turn was dropped", t.say("Well?"))
        file = self.dir / "kept.jsonl"
        t.say(f"/save {file}")
        held = file.read_bytes()
        self.assertRegex(t.say("x" * 200), rb"\Athe message alone has \d+ tokens, but the context holds 100")
        t.say(f"/save {file}")
        self.assertEqual(file.read_bytes(), held)  # nothing was dropped for what is refused

    def test_pipes(self):
        want = self.once("one\ntwo")
        for args in (["--chat"], []):
            self.assertEqual(self.good(self.model, *self.args, *args, stdin=b"one\ntwo\n"), want + b"\n")
        file = self.dir / "question.txt"
        file.write_text("one\ntwo\n")
        self.assertEqual(self.good(self.model, "--chat", *self.args, "-f", file), want + b"\n")
        self.assertIn("choose one with --template: ", self.bad(2, self.model, "--chat", "x"))
        self.assertIn("--system and --system-file", self.bad(2, self.model, "--system", "x", "--system-file", "y"))
        self.assertEqual(self.run_it(self.model, "--chat", *self.args, "--system-file", "/nowhere").returncode, 4)

    def test_sessions(self):
        file = self.dir / "chat.session"
        want = self.once("Hello")
        for _ in range(2):
            self.assertEqual(self.once("Hello", "--session", file), want)
        silent = self.dir / "silent.session"
        self.good(self.long, "Hello", "-n", 3, "--session", silent)
        held = silent.read_bytes()
        t = self.open("--session", silent, model=self.long)
        os.write(t.fd, b"/bye\n")
        self.assertEqual(t.end()[0], 0)
        self.assertEqual(silent.read_bytes(), held)
        t = self.open("--session", file, "-v")
        self.assertRegex(t.say("Hello"), rb"prompt reused: +\d+")
        os.write(t.fd, b"/bye\n")
        self.assertEqual(t.end()[0], 0)

    def test_every_way_to_leave_saves_the_same_session(self):
        counts = set()
        for leave in (b"/bye\n", b"\x04", b"\x03"):
            file = self.dir / "leave.session"
            file.unlink(missing_ok=True)
            t = self.open("--session", file, "-v")
            t.say("Hello")
            os.write(t.fd, leave)
            if leave == b"\x03":
                t.until(PROMPT)
                os.write(t.fd, leave)
            counts.add(re.search(rb"session: (\d+) tokens saved", t.end()[1])[1])
        self.assertEqual(len(counts), 1)

    def test_colour_is_for_terminals(self):
        t = self.open(env={"NO_COLOR": "", "TERM": "xterm"})
        self.assertIn(b"\x1b[0m", t.say("/clear"))
        os.write(t.fd, b"/bye\n")
        for env, codes in (({"NO_COLOR": "", "TERM": "xterm"}, True), ({"NO_COLOR": "1", "TERM": "xterm"}, False),
                           ({"NO_COLOR": "", "TERM": "dumb"}, False)):  # fmt: skip
            t = Terminal([self.model, *self.args], env)
            self.addCleanup(t.close)
            self.assertEqual(b"\x1b[1m" in t.until(b">>> "), codes)

    def test_a_word_that_may_mean_leaving_is_asked_about(self):
        t = self.open()
        os.write(t.fd, b"exit\n")
        self.assertIn(b'n sends "exit" to the model', t.until(b"y/n "))
        self.assertEqual(t.say("n"), self.once("exit"))
        self.assertNotIn(b"y/n", t.say("exit now"))
        for leave in (b"y\n", b"\x04"):
            t = self.open()
            os.write(t.fd, b"quit\n")
            t.until(b"y/n ")
            os.write(t.fd, leave)
            self.assertEqual(t.end()[0], 0)

    def test_a_template_for_a_model_without_one_is_reported(self):
        def says(*args) -> bool:
            return b"may never have learned to chat" in self.run_it(self.model, "-n", 1, *args).stderr

        self.assertEqual([says("x", "--template", "chatml"), says("x", "--template", "chatml", "-q"), says("x")], [True, False, False])


class OwnTemplate(Cli):
    """A model with the template of Qwen3, of which it knows nothing."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        made, t, learned, _ = test_chat.Case().learn(test_chat.ROOT / "tests/convert/chat_templates/qwen3.jinja")
        cls.end = made.token_to_id("<|im_end|>")
        cls.model = cls.dir / "qwen3.bin"
        test_chat.weights_file(cls.model, t, {"chat": chat.section(learned)})

    def open(self, *args) -> Terminal:
        t = Terminal([self.model, "-s", 5, "-c", 400, "--temp", 2, "-v", *args])
        self.addCleanup(t.close)
        self.assertIn(b", template qwen3, 400 positions", t.until(PROMPT))
        return t

    def test_a_terminal_is_enough(self):
        t = self.open("-n", 5)
        self.assertIn(b"total duration", t.say("Hello"))
        piped = self.run_it(self.model, "-n", 5, "-q")  # but not a pipe
        self.assertEqual((piped.returncode, piped.stderr), (0, b""))
        self.assertNotIn(b"may never have learned", self.run_it(self.model, "x", "-n", 1, "--template", "chatml").stderr)

    def test_a_session_goes_on_with_its_text(self):
        """Of a model that has no token to begin a text, also at a terminal."""
        made, t, learned, _ = test_chat.Case().learn(test_chat.ROOT / "tests/convert/chat_templates/qwen3.jinja")
        t.bos = None
        model, file = self.dir / "nobos.bin", self.dir / "text.session"
        test_chat.weights_file(model, t, {"chat": chat.section(learned)})
        args = [model, "-s", 5, "--ignore-eos", "-q", "--jsonl", "-n"]

        def ids(shown: bytes) -> list[bytes]:
            return re.findall(rb'"id":(\d+)', shown)

        whole = ids(self.good(*args, 9, "One two"))
        begun = ids(self.good(*args, 5, "One two", "--session", file))
        held = file.read_bytes()
        self.assertEqual(begun + ids(self.good(*args, 4, "--session", file)), whole)
        file.write_bytes(held)
        t = Terminal([*args, 4, "--session", file])
        self.addCleanup(t.close)
        status, shown = t.end()
        self.assertEqual((status, ids(shown)), (0, whole[5:]))
        self.assertIn("no token that begins a text", self.bad(2, *args, 4, "--session", self.dir / "none"))

    def test_the_end_of_a_turn_ends_the_answer(self):
        t = self.open("--logit-bias", f"{self.end}+4")
        for _ in range(3):
            self.assertRegex(t.say("Hello"), rb"ended by: +end token")
        t = self.open("--logit-bias", f"{self.end}+4", "--ignore-eos", "-n", 60)
        self.assertRegex(t.say("Hello"), rb"ended by: +number of tokens")

    def test_an_end_that_is_text_ends_the_answer(self):
        source = ("{% for m in messages %}{{ 'Q: ' + m.content + '\nA: ' if m.role == 'user' else m.content + '!\n' }}"
                  "{% endfor %}")  # fmt: skip
        path = self.dir / "plain.jinja"
        path.write_text(source)
        made, t, learned, _ = test_chat.Case().learn(path)
        test_chat.weights_file(self.dir / "plain.bin", t, {"chat": chat.section(learned)})
        done = self.run_it(self.dir / "plain.bin", "--chat", "Hi", "-c", 400, "-s", 5, "--temp", 2, "-v",
                           "--logit-bias", f"{made.token_to_id('!')}+4", "--logit-bias", f"{made.token_to_id('Ċ')}+4")  # fmt: skip
        self.assertIn(b"ended by:             stop string", done.stderr)
        self.assertNotIn(b"!\n", done.stdout[:-1])

    def test_thoughts_are_in_the_answer(self):
        """The template begins a thought, and a special token marks it: the answer has both, and can be parted."""
        for name, opening in (("qwen3.5", "<think>\n"), ("gemma-4", "")):
            made, t, learned, _ = test_chat.Case().learn(test_chat.ROOT / f"tests/convert/chat_templates/{name}.jinja")
            model, file = self.dir / f"{name}.bin", self.dir / f"{name}.jsonl"
            test_chat.weights_file(model, t, {"chat": chat.section(learned)})
            mark = learned.thoughts.begin
            args = ["-n", 2, "--logit-bias", f"{made.token_to_id(mark)}+9999"] if made.token_to_id(mark) is not None else ["-n", 2]
            for think, begins in (("on", opening), ("off", "")):
                t = Terminal([model, "-c", 400, "-s", 5, "--chat", "--think", think, *args])
                self.addCleanup(t.close)
                t.until(PROMPT)
                shown = t.say("Hello")
                t.say(f"/save {file}")
                saved = json.loads(file.read_text().splitlines()[1])["content"]
                self.assertEqual(saved, begins + shown.decode())
                if name == "gemma-4":
                    self.assertEqual(saved, 2 * mark)

    def test_what_the_template_takes_back_is_read_again(self):
        """Before an answer without thoughts it writes an empty thought, which is gone in the turns after."""
        asked = {}
        for think in ("on", "off"):
            t = self.open("-n", 20, "--think", think)
            shown = t.say("Hello"), t.say("Well?"), t.say("/regen")
            counts = [[int(m) for m in re.findall(rb"(?:prompt reused|prompt eval count): +(\d+)", s)] for s in shown]
            asked[think] = counts[0][0]
            answers = [re.split(rb"total duration", s)[0] for s in shown]
            self.assertEqual(answers[1], answers[2])
            if think == "off":
                self.assertEqual(counts[1][0], asked["on"])
                self.assertLess(asked["on"], asked["off"])
            else:
                self.assertEqual(counts[1][0], asked["on"] + 19)
            file = self.dir / "thoughts.jsonl"
            self.assertIn(b"messages saved to", t.say(f"/save {file}"))
        self.assertIn("'maybe' is not one of on|off", self.bad(2, self.model, "x", "--think", "maybe"))


if __name__ == "__main__":
    unittest.main()
