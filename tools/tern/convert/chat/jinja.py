"""Chat templates as transformers runs them: jinja2 in its sandbox, with the same options, filters and functions.

Only the date differs: a weights file holds one forever, so that it is fixed, and the same source gives the same file.
"""

import datetime
import json
from typing import Any

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.sandbox

from ...errors import ConvertError
from .errors import Rejected
from .rules import Thoughts
from .spoken import Spoken

DATE = datetime.datetime(2024, 7, 26)  # the day that Llama's template takes when it is given none
THINKING = ("enable_thinking", "thinking")  # names under which templates are told whether to think
EFFORT, MUCH, NONE = "reasoning_effort", "high", ("no_think", "none")  # or how much: values of the most, and of not at all
TOOLS = ("tools", "xml_tools")  # names under which templates are given tools; functions alone under the second
OF_SYSTEM = "system message"  # or the system message has them, as text of JSON under the key "tools" (Phi-4-mini)
NO_SYSTEM = "You are a helpful assistant with some tools."  # where there is none: the text of its model card
RESULT = "tool_response"  # the role of a result, where the template does not know "tool" (Granite 3.0)
FIELD = "thinking"  # of an answer with a thought
LARGEST = 4096  # bits of a number that a template computes


class _Generation(jinja2.ext.Extension):
    """{% generation %} marks answers for training; what is inside is written as it is."""

    tags = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_plain"), [], [], body).set_lineno(line)

    def _plain(self, caller) -> str:
        return caller()


class _Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """In which no single operation takes seconds: a time limit stops a program between two of them."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context, operator, left, right):
        bits = [n.bit_length() for n in (left, right) if isinstance(n, int)]
        if len(bits) == 2 and (bits[0] * max(right, 1) if operator == "**" else sum(bits)) > LARGEST:
            raise Rejected(f"a number of more than {LARGEST} bits")
        return super().call_binop(context, operator, left, right)


class Template:
    """A compiled template. `tokens`: bos_token and so on, which it may name. `dated` tells whether it asked the date,
    `tree` is its syntax."""

    def __init__(self, source: str, tokens: dict[str, Any], date: datetime.datetime = DATE):
        env = _Sandbox(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
        )
        env.filters["tojson"] = self._tojson
        env.globals["raise_exception"] = self._raise
        env.globals["strftime_now"] = self._strftime
        self.tokens, self.date, self.dated = tokens, date, False
        self.compiled = env.from_string(source)
        self.tree = env.parse(source)
        named = jinja2.meta.find_undeclared_variables(env.parse(source))  # which changes what it is given
        told = {name: (False, True) for name in THINKING} | {EFFORT: self._efforts()}
        self.thinking, self.told = next(((name, told[name]) for name in told if name in named and told[name]), (None, ()))
        used = {node.name for node in self.tree.find_all(jinja2.nodes.Name)}
        words = {node.value for node in self.tree.find_all(jinja2.nodes.Const) if isinstance(node.value, str)}
        self.tools = next((name for name in TOOLS if name in used), None)  # by what name it is given tools; None: by none
        if self.tools is None and "tools" in words:
            self.tools = OF_SYSTEM
        self.result = RESULT if RESULT in words and "tool" not in words else "tool"
        self.thoughts: Thoughts | None = None  # where it takes thoughts in a field of their own: how they stand in a text
        self.text_arguments = False  # whether it takes the arguments of a call as the text of JSON
        self.spoken: Spoken | None = None  # where it does not write calls: how they stand in the text of a message

    def _efforts(self) -> tuple[str, str] | None:
        """Where the template knows both: thinking not at all, and much."""
        words = {node.value for node in self.tree.find_all(jinja2.nodes.Const) if isinstance(node.value, str)}
        none = next((word for word in NONE if word in words), None)
        return (none, MUCH) if none and MUCH in words else None

    @staticmethod
    def _tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    @staticmethod
    def _raise(message) -> None:
        raise Rejected(str(message))

    def _strftime(self, form: str) -> str:
        self.dated = True
        return self.date.strftime(form)

    def render(self, messages: list[dict], generate: bool, think: bool | None = None, tools: list[dict] | None = None) -> str:
        """The conversation as text; think None: as the template does unasked."""
        told = {} if think is None or self.thinking is None else {self.thinking: self.told[think]}
        listed = {"tools": None}
        if tools:
            functions = [t["function"] for t in tools]
            if self.tools == OF_SYSTEM:
                messages = with_tools(messages, functions)
            else:
                listed |= {"tools": tools} if self.tools == "tools" else {self.tools: functions}
        if self.spoken:
            messages = [self.spoken.message(m) for m in messages]
        if self.result != "tool":
            messages = [m | {"role": self.result} if m["role"] == "tool" else m for m in messages]
        if self.thoughts:
            messages = [with_field(m, self.thoughts) for m in messages]
        if self.text_arguments:
            messages = [with_text_arguments(m) for m in messages]
        try:
            return self.compiled.render(
                messages=messages, documents=None, add_generation_prompt=generate, **listed, **self.tokens, **told
            )
        except (Rejected, ConvertError, MemoryError):  # the latter two: stopped from outside, for taking too much
            raise
        except Exception as e:  # whatever the template's code runs into
            raise Rejected(f"{type(e).__name__}: {e}") from None


def with_field(m: dict, thoughts: Thoughts) -> dict:
    """A message whose thought, if it is an answer with one, is in a field."""
    if m["role"] != "assistant":
        return m
    thought = {FIELD: thoughts.thinks(m["content"])} if thoughts.in_text(m["content"]) else {}
    return m | {"content": thoughts.answer(m["content"])} | thought


def with_tools(messages: list[dict], functions: list[dict]) -> list[dict]:
    """Messages of which the system's has the functions as JSON."""
    system, turns = {"role": "system", "content": NO_SYSTEM}, messages
    if messages and messages[0]["role"] == "system":
        system, turns = messages[0], messages[1:]
    return [system | {"tools": json.dumps(functions, ensure_ascii=False)}, *turns]


def with_text_arguments(m: dict) -> dict:
    """A message whose calls have arguments as the text of JSON."""
    if not m.get("tool_calls"):
        return m
    calls = [c | {"function": c["function"] | {"arguments": json.dumps(c["function"]["arguments"], ensure_ascii=False)}} for c in m["tool_calls"]]
    return m | {"tool_calls": calls}
