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

from .errors import ConvertError

DATE = datetime.datetime(2024, 7, 26)  # the day that Llama's template takes when it is given none
THINKING = ("enable_thinking", "thinking")  # names under which templates are told whether to think


class Rejected(Exception):
    """The template raised an error of its own for a conversation."""


class _Generation(jinja2.ext.Extension):
    """{% generation %} marks answers for training; what is inside is written as it is."""

    tags = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_plain"), [], [], body).set_lineno(line)

    def _plain(self, caller) -> str:
        return caller()


class Template:
    """A compiled template. `tokens`: bos_token and so on, which it may name. `dated` tells whether it asked the date,
    `commands` are texts that it may react to."""

    def __init__(self, source: str, tokens: dict[str, Any], date: datetime.datetime = DATE):
        env = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
        )
        env.filters["tojson"] = self._tojson
        env.globals["raise_exception"] = self._raise
        env.globals["strftime_now"] = self._strftime
        self.tokens, self.date, self.dated = tokens, date, False
        self.compiled = env.from_string(source)
        tree = env.parse(source)
        named = jinja2.meta.find_undeclared_variables(tree)
        self.commands = sorted(self._commands(tree))
        self.thinking = next((name for name in THINKING if name in named), None)

    @staticmethod
    def _commands(tree: jinja2.nodes.Template) -> set[str]:
        """Constants that the template looks for in texts: 'x' in text, text.startswith('x'), text.replace('x', ...)."""
        found = []
        for test in tree.find_all(jinja2.nodes.Compare):
            found += [test.expr for operand in test.ops if operand.op in ("in", "notin")]
        for call in tree.find_all(jinja2.nodes.Call):
            if isinstance(call.node, jinja2.nodes.Getattr) and call.node.attr in ("startswith", "endswith", "replace", "split"):
                found += call.args[:1]
        return {c.value for c in found if isinstance(c, jinja2.nodes.Const) and isinstance(c.value, str) and c.value.strip()}

    @staticmethod
    def _tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    @staticmethod
    def _raise(message) -> None:
        raise Rejected(str(message))

    def _strftime(self, form: str) -> str:
        self.dated = True
        return self.date.strftime(form)

    def render(self, messages: list[dict], generate: bool, think: bool | None = None) -> str:
        """The conversation as text; think None: as the template does unasked."""
        told = {} if think is None or self.thinking is None else {self.thinking: think}
        try:
            return self.compiled.render(
                messages=messages, tools=None, documents=None, add_generation_prompt=generate, **self.tokens, **told
            )
        except (Rejected, ConvertError):  # the second: stopped from outside, for taking too long
            raise
        except Exception as e:  # whatever the template's code runs into
            raise Rejected(f"{type(e).__name__}: {e}") from None
