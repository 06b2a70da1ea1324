"""Calls in the text of an answer, for templates that list tools and do not write calls: what the model is told to write, or
was trained to.

In:  a rendering that lists tools, and the tokens of the tokenizer. Out: Spoken, or None. A message with calls is what the
template makes of one whose text ends with these calls.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

EXAMPLE = re.compile(r'(<[^<>\s]+>\n?)\{"name": <[^<>]*>, "(arguments|parameters)": <[^<>]*>\}(\n?</[^<>\s]+>)')
LIST, LIST_END = "<|tool_call|>", "<|/tool_call|>"  # Granite 3; Phi-4-mini has both
PYTHON, PYTHON_END = "<|tool_call_start|>", "<|tool_call_end|>"  # LFM2


@dataclass(frozen=True)
class Spoken:
    """What stands before all calls, before, between and behind the name and the arguments of each, between two, and behind
    all. `python`: arguments are those of a call in Python."""

    begin: str
    opens: str
    middle: str
    closes: str
    between: str
    end: str
    python: bool = False

    def arguments(self, given: dict) -> str:
        if self.python:
            return ", ".join(f"{key}={value!r}" for key, value in given.items())
        return json.dumps(given, ensure_ascii=False)

    def message(self, m: dict) -> dict:
        """A message without calls, whose text has them."""
        if not m.get("tool_calls"):
            return m
        calls = [c["function"] for c in m["tool_calls"]]
        texts = [self.opens + c["name"] + self.middle + self.arguments(c["arguments"]) + self.closes for c in calls]
        said = m["content"] + self.begin + self.between.join(texts) + self.end
        return {key: value for key, value in m.items() if key != "tool_calls"} | {"content": said}


def spoken(listed: str, tokens: Iterable[str]) -> Spoken | None:
    """By the example that the template gives; else by the tokens that begin and end calls."""
    found, known = EXAMPLE.search(listed), set(tokens)
    if found:
        return Spoken("", f'{found[1]}{{"name": "', f'", "{found[2]}": ', "}" + found[3], "\n", "")
    if LIST in known:
        return Spoken(LIST + "[", '{"name": "', '", "arguments": ', "}", ", ", "]" + (LIST_END if LIST_END in known else ""))
    if {PYTHON, PYTHON_END} <= known:
        return Spoken(PYTHON + "[", "", "(", ")", ", ", "]" + PYTHON_END, True)
    return None
