#!/usr/bin/env python3
"""Chat templates with tools: how tools are listed, calls written and results taken, found by the converter and applied by the engine.

tests/convert/chat_templates/tools holds small templates, each in a style of well-known models. The rules of each are
stored in a toy's weights file. What the engine makes of random conversations must equal what jinja2 does.
"""
# run-tests: long

import functools
import json
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import test_chat  # noqa: E402
from test_chat import make_tokenizer, ours, weights_file  # noqa: E402
from tern.convert.chat import channels, chat, errors, gemma_tools, jinja, learn, printing, rules, tool_answer  # noqa: E402
from tern.convert.chat.tool_talks import talks  # noqa: E402

TEMPLATES = sorted((test_chat.ROOT / "tests" / "convert" / "chat_templates" / "tools").glob("*.jinja"))
SPECIAL = re.compile(r"<\|/?(?:begin|end|stop|action)\|>|\[/?[A-Z_]+\]")
CONVERSATIONS = 60
# trigger, begin, a call of f with {"a": "b"} and id 7, between, end, flags
FORMS = {
    "json-tags": ("<call>", "", '<call>{"name": "f", "arguments": {"a": "b"}}</call>', "\n", "", 0),
    "first-user": ('{"name":', "", '{"name": "f", "parameters": {"a": "b"}}', "", "", 3),
    "last-user": ("[TOOL_CALLS]", "[TOOL_CALLS][", '{"name": "f", "arguments": {"a": "b"}, "id": "7"}', ", ", "]", 0),
    "named": ("[TOOL_CALLS]", "", '[TOOL_CALLS]f[CALL_ID]7[ARGS]{"a": "b"}', "", "", 0),
    "tagged": ("<tool_call>", "", "<tool_call>\n<function=f>\n<parameter=a>\nb\n</parameter>\n</function>\n</tool_call>", "\n", "", 0),
    "pythonic": ("[", "[", "f(a='b')", ", ", "]", 1),
    "numbered": ("<|action|>", "<|action|>[\n    ", '{"number": "7", "name": "f", "parameters": {"a": "b"}}', ",\n    ", "\n]<|/action|>", 0),
    "declared": ("<call>", "", '<call>f{a:<|"|>b<|"|>}</call>', "", "", 0),
    "tags": ("<call>", "", "<call>f\n<arg=a>b</arg>\n</call>", "", "", 0),
    "told": ("<call>", "", '<call>\n{"name": "f", "arguments": {"a": "b"}}\n</call>', "\n", "", 0),
    "of-system": ("<|tool_call|>", "<|tool_call|>[", '{"name": "f", "arguments": {"a": "b"}}', ", ", "]<|/tool_call|>", 0),
}
TOKENS = {"of-system": ("<|tool_call|>", "<|/tool_call|>"), "declared": ('<|"|>',)}  # which the template does not name, and its tokenizer has


@functools.cache
def learned(source: str, more: tuple[str, ...] = ()):
    """(oracle tokenizer, our tokenizer, chat) of a template; `more`: special tokens that it does not name."""
    made = make_tokenizer("x", source, [*SPECIAL.findall(source), *more])
    t = ours(made)
    return made, t, learn.learn("x", source, {"bos_token": "<s>", "eos_token": "</s>"}, t)


def of_file(path: Path):
    return learned(path.read_text(), TOKENS.get(path.stem, ()))


def written(program: rules.Program, parts: list[rules.Rule]) -> str:
    """What a program of `answer.calls` stands for."""
    writer = rules.Writer(rules.Talk([]), rules.Thoughts(), parts)
    return rules.text_of(writer.run(program, None, rules.CALL, rules.Call("f", "7", {"a": "b"}, 0)))


class Templates(test_chat.Case):
    def test_engine_equals_the_templates(self):
        self.assertEqual({path.stem for path in TEMPLATES}, {*FORMS})
        for path in TEMPLATES:
            with self.subTest(path.stem):
                self.check(*of_file(path))

    def check(self, made, t, learned) -> None:
        special = [a.content for a in t.added]
        self.assertEqual(learned.notes, [])
        same = n = 0
        with self.open(weights_file(self.dir / "m.bin", t, {"chat": chat.section(learned)}), t) as e:
            for n_of, (messages, tools, generate, think) in enumerate(talks(3 * CONVERSATIONS, learned.thoughts, seed=3)):
                tools = tools if n_of % 4 else []  # calls of functions that are not listed
                try:
                    want = learned.template.render(messages, generate, think, tools)
                except errors.Rejected:
                    continue
                flags = int(generate) | (0 if think is None else 2 if think else 4)
                given = [{"role": "tools", "content": json.dumps(tools, ensure_ascii=False)}, *messages][not tools :]
                self.assertEqual(e.chat_text(given, flags).decode(), want)
                same += 1
                if not any(s in json.dumps(given, ensure_ascii=False) for s in special):
                    self.assertEqual(e.chat_tokens(given, flags), made.encode(want, add_special_tokens=False).ids)
                    n += 1
                if same >= CONVERSATIONS and n >= CONVERSATIONS // 4:
                    break
        self.assertGreaterEqual(min(same // 4, n), CONVERSATIONS // 4, "too few conversations were compared")

    def test_forms_of_calls(self):
        for path in TEMPLATES:
            with self.subTest(path.stem):
                *_, learned_chat = of_file(path)
                (form,), parts = learned_chat.tools.forms, learned_chat.tools.notation.parts
                texts = [written(program, parts) for program in form.programs()]
                self.assertEqual((*texts, form.flags), FORMS[path.stem])
                self.assertEqual(learned_chat.tools.id_length, 9 if path.stem == "last-user" else 0)

    def test_a_member_that_a_template_leaves_out(self):
        """Mistral's do not list what a function returns."""
        path = next(path for path in TEMPLATES if path.stem == "last-user")
        made, t, found = of_file(path)
        function = {"return": {"type": "string"}, "name": "f", "description": "d", "parameters": {}}
        messages = [{"role": "user", "content": "q"}]
        with self.open(weights_file(self.dir / "m.bin", t, {"chat": chat.section(found)}), t) as e:
            for order in (list(function), list(function)[::-1]):
                tools = [{"type": "function", "function": {key: function[key] for key in order}}]
                want = found.template.render(messages, True, None, tools)
                self.assertNotIn("return", want)
                given = [{"role": "tools", "content": json.dumps(tools)}, *messages]
                self.assertEqual(e.chat_text(given, 1).decode(), want)

    def test_what_stands_before_results_ends_an_answer(self):
        ends = {path.stem: of_file(path)[-1].tools.ends for path in TEMPLATES}
        self.assertEqual({stem: found for stem, found in ends.items() if found}, {"declared": ["<|end|>", "<|action|>"]})

    def test_without_tools_nothing_changes(self):
        for path in TEMPLATES[:2]:
            source = path.read_text()
            made = make_tokenizer("x", source, SPECIAL.findall(source))
            *_, learned_chat = learned(source)
            absent = rules.LISTED | rules.CALLS | rules.HAS_CALLS
            plain = [rules.Rule(r.mask & ~absent, r.value, r.program) for r in chat.all_rules(learned_chat) if not r.value & absent]
            self.assertEqual(plain, learned_chat.rules)
            self.assertTrue(all(r.value & rules.LISTED for r in chat.all_rules(learned_chat)[: len(learned_chat.tools.rules)]))
            self.assertIsNotNone(made)


class Refused(unittest.TestCase):
    """A template whose part for tools cannot be learned keeps its rules for messages, and says why."""

    LIST = "{% for t in tools or [] %}{{ t | tojson }};{% endfor %}"
    TURN = "{% for m in messages %}<|begin|>{{ m.role }}|{{ m.content }}CALLS<|end|>{% endfor %}{{ '<|begin|>assistant|' if add_generation_prompt }}"
    CALLS = "{% for c in m.tool_calls %}<call>{{ c.function.name }}{{ c.function.arguments | tojson }}</call>{% endfor %}"

    BARE = "{% for c in m.tool_calls %}{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{{ ', ' if not loop.last }}{% endfor %}){% endfor %}"

    def notes(self, source: str) -> list[str]:
        *_, learned_chat = learned(source)
        self.assertIsNone(learned_chat.tools)
        self.assertTrue(learned_chat.rules)
        chat.section(learned_chat)
        return learned_chat.notes

    def test_reasons(self):
        turn = self.TURN.replace("CALLS", self.CALLS)
        for source, reason in (
            (self.LIST.replace("t | tojson", "t.function.name") + turn, "it lists tools in a notation of its own (parameters)"),
            ("{{ tools | tojson if tools else '' }}" + self.TURN.replace("CALLS", ""), "it does not write calls"),
            (self.LIST + turn.replace("arguments | tojson", "arguments | length"), "it writes calls in a notation of its own"),
            (self.LIST + turn.replace("</call>", "</call>{{ loop.length }}"), "it leaves out calls"),
            (self.LIST + self.TURN.replace("CALLS", self.BARE), "it writes texts in arguments without quotes or an end"),
            (self.LIST + turn.replace("</call>", "{{ '!' if c.function.arguments | length > 4 }}</call>"), "it writes "),
            (self.LIST + turn.replace("<|end|>", "{{ '!' if loop.index > 9 and tools }}<|end|>"), "it writes "),
        ):  # fmt: skip
            with self.subTest(source):
                (note,) = self.notes(source)
                self.assertRegex(note, f"^tools are left out of the chat template's rules: ({reason.replace('(', '.').replace(')', '.')})")

    def test_bare_calls_behind_marks(self):
        """Llama 4's repeats calls behind two special tokens around the text, and asks for bare JSON."""
        call = '{"name": "\' + c.function.name + \'", "parameters": \' + c.function.arguments | tojson + \'}'
        calls = "{% for c in m.tool_calls %}{{ '" + call + "' }}{% endfor %}"
        message = "{% if m.tool_calls %}<|action|>{{ m.content }}<|/action|>" + calls + "{% else %}{{ m.content }}{% endif %}"
        *_, found = learned(self.LIST + self.TURN.replace("{{ m.content }}CALLS", message))
        (form,), parts = found.tools.forms, found.tools.notation.parts
        texts = [written(program, parts) for program in form.programs()]
        self.assertEqual(texts, ['{"name":', "", '{"name": "f", "parameters": {"a": "b"}}', "", ""])
        self.assertEqual((form.behind, form.flags), (("<|action|>", "<|/action|>"), tool_answer.BEGINS))
        self.assertIn(b"<|action|><|/action|>", chat.section(found))

    def test_calls_without_a_list_that_cannot_be_learned(self):
        turn = self.TURN.replace("CALLS", self.CALLS)
        odd = "{{ '!' if loop.index > 9 and not tools and m.tool_calls }}"
        *_, found = learned(self.LIST + turn.replace("<|end|>", odd + "<|end|>"))
        self.assertEqual(found.tools.unlisted, [])
        self.assertRegex(found.notes[0], "^calls in a conversation that lists no tools are left out of the chat template's rules: it writes ")

    def test_template_that_does_not_know_tools_says_nothing(self):
        self.assertEqual(self.notes(self.TURN.replace("CALLS", "")), [])


class Channels(unittest.TestCase):
    """A template that takes thoughts in a field: how they stand in an answer is found out."""

    SOURCE = (
        "{% for m in messages %}{% if m.role == 'assistant' %}{% if 'thinking' in m and (m.tool_calls or loop.last) %}<|begin|>assistant<|action|>"
        "thinks<|stop|>{{ m.thinking }}<|end|>{% endif %}{% if m.tool_calls %}<|begin|>assistant to={{ m.tool_calls[0].function.name }}<|stop|>"
        "{{ m.tool_calls[0].function.arguments | tojson }}<|/action|>{% else %}<|begin|>assistant<|action|>says<|stop|>{{ m.content }}<|end|>"
        "{% endif %}{% else %}<|begin|>{{ m.role }}<|stop|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
        "{{ '<|begin|>assistant' if add_generation_prompt }}"
    )

    def test_marks(self):
        template = jinja.Template(self.SOURCE, {})
        found = channels.of_template(template, frozenset(SPECIAL.findall(self.SOURCE)))
        self.assertEqual(found, rules.Thoughts("<|action|>thinks<|stop|>", "<|end|><|begin|>assistant", 0, "<|action|>says<|stop|>"))
        self.assertEqual(found.answer(f"{found.begin}t{found.end}{found.skip}a"), "a")
        self.assertEqual(found.answer(f"{found.skip}a"), "a")

    def test_without_tools_it_is_refused(self):
        with self.assertRaisesRegex(errors.Beyond, "opens a channel for its answer, and it does not list tools"):
            learned(self.SOURCE)


class Printing(unittest.TestCase):
    def test_numbers_of_styles(self):
        self.assertEqual(printing.Style().number(), 0)
        self.assertEqual(printing.Style(printing.REPR).number(), 2)
        self.assertEqual(printing.Style(ascii=True, html=True, sort=True, tight=True, indent=4).number(), 0x40F00)

    def test_values(self):
        value = {"b": [1.0, 1e10, None], "a": "é<"}
        self.assertEqual(printing.printed(value, printing.Style(ascii=True, html=True, sort=True, tight=True)),
                         '{"a":"\\u00e9\\u003c","b":[1.0,10000000000.0,null]}')  # fmt: skip
        self.assertEqual(printing.printed(value, None), "{'b': [1.0, 10000000000.0, None], 'a': 'é<'}")
        properties = {"a": {"type": "string", "description": " x "}, "b": {"type": "array", "items": {"type": "integer"}, "default": [1.0]}}
        f = {"name": "f", "description": "Does.", "parameters": {"properties": properties, "required": ["a"]}}
        self.assertEqual(printing.printed(f, printing.Style(printing.SIGNATURE)),
                         "f(a: str, b: list[Union[]]) - Does.\n\n    Args:\n        a(str): x        b(list[Union[]]): ")  # fmt: skip
        self.assertEqual(printing.printed(f, printing.Style(printing.TYPESCRIPT)),
                         "// Does.\ntype f = (_: {\n//  x \na: string,\nb?: number[], // default: [1.0],\n}) => any;\n\n")  # fmt: skip
        self.assertEqual([k for k, _ in gemma_tools.dictsort({"b": 1, "A": 2, "B": 3})], ["A", "b", "B"])


if __name__ == "__main__":
    unittest.main()
