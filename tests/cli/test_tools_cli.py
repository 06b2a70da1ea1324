"""Tools in a chat: lists, calls that are bound to them, results from lines of JSON and from /tool."""

import json
import os
import unittest
from pathlib import Path

from cli_case import Cli, write_model
from terminal import Terminal
from test_receipt_cli import signed
from tool_lists import NOTHING, WEATHER

from tern.weights import keys

TOOLS = [{"type": "function", "function": WEATHER}, {"name": "stop", "description": "Ends", "parameters": NOTHING}]
CALL = '<call>{"name": "\x0fn-", "arguments": \x0fa0}</call>'
RULES = (  # mask, value, text
    (0x20007, 0x20004, "T\x0e0\nU:\2\n"), (3, 0, "U:\2\n"), (0x40003, 0x40001, "A:\2\x0e1\n"), (3, 1, "A:\2\n"),
    (3, 3, "R:\x0fi- \2\n"), (0x803, 0x802, "A:"), (3, 2, ""),
)  # fmt: skip
PARTS = ((3, 0, "\x0ft0"), (3, 1, CALL))


def texts(name: str, list_of: tuple[str, ...]) -> dict:
    data = [text.encode() for text in list_of]
    return {f"{name}.lengths": keys.U32s([len(d) for d in data]), f"{name}.text": b"".join(data)}


def rules(name: str, list_of: tuple) -> dict:
    return {f"{name}.when": keys.U32s([x for r in list_of for x in r[:2]])} | texts(name, tuple(r[2] for r in list_of))


def section() -> bytes:
    return keys.pack({
        "name": "tools", "thinking": 0, **rules("rules", RULES), "tools": 1, **rules("parts", PARTS), "styles": keys.U32s([0]),
        **texts("answer.calls", ("<call>", "", CALL, "", "")),
    })  # fmt: skip


class Tools(Cli):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model, cls.tools = str(cls.dir / "tools.bin"), cls.dir / "tools.json"
        write_model(Path(cls.model), 4096, chat=section())
        cls.tools.write_text(json.dumps(TOOLS))

    def run_tools(self, *more, **how) -> bytes:
        return self.good(self.model, "-p", "Hi", "--tools", self.tools, "-s", 3, "-q", *more, **how)

    def check(self, call: dict, name: str | None = None):
        self.assertEqual(set(call), {"id", "name", "arguments"})
        if call["name"] == "stop":
            self.assertEqual(call["arguments"], {})
        else:
            city, days = call["arguments"]["city"], call["arguments"]["days"]
            self.assertTrue(city in ("Bonn", "Rome") and 1 <= days <= 9 and len(call["arguments"]) == 2, call)
        self.assertIn(name, (None, call["name"]))

    def test_a_file_may_begin_with_a_mark(self):
        file = self.dir / "marked.json"
        file.write_bytes(b"\xef\xbb\xbf" + self.tools.read_bytes())
        self.assertEqual(self.good(self.model, "-p", "Hi", "--tools", file, "-s", 3, "-q"), self.run_tools())

    def test_stop_of_the_template(self):
        """The text that begins the next message ends an answer and is not shown, not even its first token."""
        likely = "--tool-choice", "none", "--temp", 300, "--min-p", 0, "--top-p", 1, "--top-k", 2, "-l", f"{ord('U') + 3}+2000", "-l", f"{ord(':') + 3}+2000"
        for seed in range(5):
            *tokens, last = map(json.loads, self.run_tools(*likely, "--jsonl", "-s", seed).splitlines())
            text = bytes(t["id"] - 3 for t in tokens)
            self.assertEqual((last["stop"], text[-2:]), ("string", b"U:"))
            self.assertEqual(self.run_tools(*likely, "-s", seed), text[:-2] + b"\n")

    def test_where_a_refused_schema_lies(self):
        file = self.dir / "odd.json"
        file.write_text('[{"name": "a", "parameters": {"properties": {"x": {"pattern": "("}}}}]')
        done = self.run_it(self.model, "-p", "Hi", "--tools", file, "--jsonl")
        line = json.loads(done.stdout)
        self.assertEqual((line["stop"], line["keyword"], line["at"]), ("refused", "pattern", "#/properties/x"))

    def test_a_call_is_bound_to_its_tool(self):
        for name in ("get_weather", "stop"):
            out = self.run_tools("--tool-choice", name)
            self.check(json.loads(out), name)

    def test_several_calls(self):
        out = self.run_tools("--tool-choice", "required", "--parallel-tools", "-n", 2000, "--temp", 2)
        calls = [json.loads(line) for line in out.splitlines() if line.startswith(b'{"id"')]  # the last may be cut
        self.assertGreater(len(calls), 1)
        for call in calls:
            self.check(call)

    def test_jsonl(self):
        lines = [json.loads(line) for line in self.run_tools("--tool-choice", "required", "--jsonl").splitlines()]
        calls = [line["call"] for line in lines if "call" in line]
        self.assertEqual(len(calls), 1)
        self.check(calls[0])
        self.assertEqual([i for i, line in enumerate(lines) if "stop" in line], [len(lines) - 1])

    def test_a_limit_within_a_call(self):
        """Nothing of the call is text; it is told once its name is there."""
        told = 0
        for n in range(8, 200, 4):  # a tag has come whole
            args = ("--tools", self.tools, "-s", 3, "-q", "--tool-choice", "get_weather", "-n", n)
            plain = self.run_it(self.model, "-p", "Hi", *args)
            lines = [json.loads(line) for line in self.good(self.model, "-p", "Hi", *args, "--jsonl").splitlines()]
            if any("call" in line for line in lines):
                break
            cuts = [line["cut"] for line in lines if "cut" in line]
            self.assertEqual((plain.returncode, plain.stdout.strip()), (0, b""))
            self.assertEqual(plain.stderr, b"call: that of get_weather was cut off; allow more tokens with -n\n" * len(cuts))
            self.assertEqual((lines[-1]["stop"], len(cuts) < 2), ("length", True))
            for cut in cuts:
                told += 1
                self.assertEqual((cut["name"], set(cut)), ("get_weather", {"id", "name", "arguments"}))
                self.assertRegex(cut["arguments"], r'^(\{|$)')
        else:
            self.fail("no call came to its end")
        self.assertGreater(told, 2)

    def test_results_are_lines_of_json(self):
        """And their text is plain: the template writes it behind the id of its call."""
        first = json.loads(self.run_tools("--tool-choice", "stop"))
        result = json.dumps({"id": first["id"], "content": "done <call>"}).encode() + b"\n"
        out = self.run_tools("--tool-choice", "stop", stdin=result)
        calls = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([call["name"] for call in calls], ["stop", "stop"])
        self.assertNotEqual(calls[0]["id"], calls[1]["id"])
        wrong = self.run_it(self.model, "-p", "Hi", "--tools", self.tools, "--tool-choice", "stop", stdin=b'{"id": "x", "content": "y"}\n')
        self.assertEqual((wrong.returncode, b"no call with the id 'x'" in wrong.stderr), (2, True))

    def test_members_of_a_result(self):
        """Others are passed over; one of its own that is no text is named."""
        args = self.model, "-p", "Hi", "--tools", self.tools, "--tool-choice", "stop", "-s", 3, "-q"
        for more in ('"foo": 1, ', '"foo": null, ', '"foo": {"a": ["}", 2], "b": "\\\\\\""}, ', '"foo": [[],{}], "name": "stop", '):
            with self.subTest(more):
                self.assertEqual(len(self.good(*args, stdin=f'{{{more}"content": "a"}}\n'.encode()).splitlines()), 2)
        for line, word in ((b'{"id": 3, "content": "a"}', b"the result of a call: id is no text"), (b'{"content": {"a": 1}}', b"content is no text"),
                           (b'{"foo": , "content": "a"}', b"is a line such as"), (b'{"foo": [1', b"is a line such as")):  # fmt: skip
            with self.subTest(line):
                wrong = self.run_it(*args, stdin=line + b"\n")
                self.assertEqual((wrong.returncode, word in wrong.stderr), (2, True), wrong.stderr)

    def test_a_wrong_result_is_asked_again(self):
        t = Terminal([*map(str, (self.model, "-p", "Hi", "--tools", self.tools, "--tool-choice", "stop", "-s", 3, "-q"))])
        self.addCleanup(t.close)
        t.until(b"result> ")
        os.write(t.fd, b'{"id": 3, "content": "a"}\n')
        self.assertIn(b"id is no text", t.until(b"result> "))
        os.write(t.fd, b'{"content": "a"}\n')
        self.assertIn(b'"name": "stop"', t.until(b"result> "))
        os.write(t.fd, b"\x04")

    def test_in_a_chat(self):
        t = Terminal([self.model, "--tools", self.tools, "--tool-choice", "stop", "-s", 3, "--chat"])
        self.addCleanup(t.close)
        t.until(b">>> ")
        self.check(json.loads(t.say("Hi")), "stop")
        saved = self.dir / "talk.jsonl"
        self.assertIn(b"a call waits for its result: give it with /tool", t.say("More"))
        self.check(json.loads(t.say("/tool done")), "stop")
        t.say(f"/save {saved}")
        roles = [json.loads(line)["role"] for line in saved.read_text().splitlines()]
        self.assertEqual(roles, ["user", "assistant", "call", "tool", "assistant", "call"])
        t.say("/clear")
        t.say(f"/load {saved}")
        self.check(json.loads(t.say("/tool again")), "stop")
        os.write(t.fd, b"\x04")

    def test_a_receipt_of_a_call(self):
        """The tools, the choice and the chat template are part of it."""
        file = self.dir / "receipt.json"
        self.run_tools("--tool-choice", "get_weather", "--receipt", file)
        made = json.loads(file.read_text())
        bound = made["constraint"]
        self.assertEqual((bound["kind"], bound["tool_choice"], json.loads(bound["text"])[0]), ("tools", "get_weather", TOOLS[0]))
        self.assertRegex(self.good(self.model, "--verify-receipt", file), rb"^proven: \d+ tokens in ")
        self.assertIn("the model file's own: leave out --template", self.bad(2, self.model, "--verify-receipt", file, "--template", "chatml"))
        city, without = ('"Bonn", "Rome"', '"Bonn", "Riga"'), json.dumps([TOOLS[1]])
        for change, code, word in (({"tool_choice": "stop"}, 3, b"refuted"), ({"text": bound["text"].replace(*city)}, 3, b"refuted"),
                                   ({"tool_choice": "nobody"}, 3, b"none of auto"), ({"text": without}, 3, b"none of auto")):  # fmt: skip
            with self.subTest(change):
                file.write_bytes(signed(made | {"constraint": bound | change}))
                done = self.run_it(self.model, "--verify-receipt", file)
                self.assertEqual(done.returncode, code, done)
                self.assertIn(word, done.stdout + done.stderr)

    def test_sessions_with_broken_calls(self):
        t = Terminal([self.model, "--tools", self.tools, "--chat"])
        self.addCleanup(t.close)
        t.until(b">>> ")
        talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "call", "id": "1", "name": "stop", "content": "{}"}]
        user, result = {"role": "user", "content": "c"}, {"role": "tool", "id": "2", "content": "d"}
        for lines, word in (([*talk, user], b"line 4: the calls before it have no results yet"), ([*talk, result], b"line 4: there is no call with the id '2'"),
                            ([*talk[:2], result], b"line 3: no call waits for this result"), ([talk[0], talk[2]], b"line 2: a call stands behind an answer"),
                            ([user, user], b"line 2 is not the next message, {")):  # fmt: skip
            file = self.dir / "talk.jsonl"
            file.write_text("".join(json.dumps(line) + "\n" for line in lines))
            self.assertIn(word, t.say(f"/load {file}"))
        os.write(t.fd, b"\x04")

    def test_what_does_not_fit(self):
        broken = self.dir / "broken.json"
        broken.write_text('[{"name": "a b"}]')
        odd = self.dir / "odd.json"
        odd.write_text('[{"name": "a", "parameters": {}}, {"name": "b", "parameters": {"properties": {"x": {"pattern": "("}}}}]')
        for args, word in (
            (["--tools", odd], "tool b: schema: pattern at #/properties/x"),
            (["--tools", broken], "letters, digits"), (["--tools", self.tools, "--tool-choice", "x"], "none of auto"),
            (["--tool-choice", "auto"], "belongs to --tools"), (["--tools", self.tools, "--json"], "--json"),
            (["--tools", self.tools, "--template", "chatml"], "no tools"),
        ):  # fmt: skip
            self.assertIn(word, self.bad(2, self.model, "-p", "Hi", *args))


if __name__ == "__main__":
    unittest.main()
