"""How a model writes calls in its answer, from what a template writes where it asks for one and where it repeats one.

In:  what stands around the calls of a message (Calls), and around an answer. Out: the five texts of `answer.calls` in
FORMAT.md, and its flags.
"""

import re
from dataclasses import dataclass

from .cutting import common, steps, units
from .printing import PLAIN
from .rules import Program
from .tool_parts import NUMBER, Calls

BEGINS, ONE = 1, 2  # flags
TAG = re.compile(r"<[^<>\s]+>|\[[A-Z_]+\]|\{\"name\":|[^\s{]+|\{")


@dataclass(frozen=True)
class AnswerForm:
    trigger: Program
    begin: Program
    call: Program
    between: Program
    end: Program
    flags: int
    behind: tuple[str, ...] = ()  # special tokens that are no text; calls may begin behind them, too

    def programs(self) -> tuple[Program, ...]:
        return self.trigger, self.begin, self.call, self.between, self.end


def harmony(special: frozenset[str]) -> AnswerForm:
    """How gpt-oss itself writes a call (OpenAI's format harmony); its template repeats it in another order."""
    parts = "<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", "<|call|>"
    begin, middle, end = (steps(text, special) for text in parts)
    call = (*begin, ("value", "n", None), *middle, ("value", "a", PLAIN), *end)
    return AnswerForm(steps("<|channel|>commentary to=", special), (), call, (), (), ONE)


def shared_end(a: str, b: str, special: frozenset[str]) -> str:
    """The longest text that both end with."""
    return "".join(common(units(a, special)[::-1], units(b, special)[::-1])[::-1])


def answer_form(calls: Calls, asked: str, ends: str, thought_end: str, special: frozenset[str]) -> AnswerForm:
    """`asked`: what asks for an answer; `ends`: the special token behind one, or ""."""
    shared = "".join(common(units(calls.before, special), units(asked, special)))
    written = calls.before[len(shared) :].split(thought_end)[-1].lstrip()
    after = calls.after.split(ends)[0] if ends else calls.after
    program, between = calls.rules[0].program, calls.between
    if between is None:
        opens, closes, begin, apart, end = written, after.rstrip(), "", "", ""
    else:
        opens = shared_end(written, between, special).lstrip()
        rest = between[: len(between) - len(opens)]
        closes = "".join(common(units(after, special), units(rest, special))).rstrip()
        begin, apart, end = written[: len(written) - len(opens)], rest[len(closes) :], after[len(closes) :].rstrip()
    program = tuple(("value", "i", None) if step == NUMBER else step for step in program)  # the model counts by itself
    whole = (*steps(opens, special), *program, *steps(closes, special))
    marks, head = units(begin, special), opens + (program[0][1] if program[0][0] == "text" else "")
    behind = tuple(marks) if len(marks) > 1 and special.issuperset(marks) and head.startswith('{"name":') else ()
    begin = "" if behind else begin  # the model, which is asked for bare JSON, may leave them out (Llama 4)
    trigger = first_of(head if behind else begin + opens, special)
    flags = (ONE if between is None else 0) | (0 if trigger[:1] in "<[" and len(trigger) > 1 or trigger in special else BEGINS)
    return AnswerForm(*(steps(text, special) for text in (trigger, begin)), whole, *(steps(text, special) for text in (apart, end)), flags, behind)


def first_of(text: str, special: frozenset[str]) -> str:
    """What shows that calls begin: the first tag, or all up to the first space or value."""
    first = next(iter(units(text, special)), "")
    found = TAG.match(text)
    return first if first in special else found[0] if found else text
