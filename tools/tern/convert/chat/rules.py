"""Rules of a chat template, as FORMAT.md defines them, and what they make of a conversation: the engine's
src/text/chat.c once more, to prove rules before they are stored.

A program is a tuple of steps: ("text", s) literal text, ("token", s) a special token, ("whole",), ("answer",),
("thinks",), ("system",) parts, ("open",), ("close", left, right) around what is trimmed, ("list", n) the items of a list,
and ("value", what, style) a printed value. BOS and EOS are steps that only the engine can run: they stand for the
tokenizer's own, whatever their names.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import NoRule
from .gemma_tools import dictsort
from .printing import Style, printed

USER, ASSISTANT, END, RESULT = 0, 1, 2, 3
KINDS = {"user": USER, "assistant": ASSISTANT, "tool": RESULT}
FIRST, LAST, FINAL, EMPTY, BLANK, THOUGHT = 1 << 2, 1 << 3, 1 << 4, 1 << 5, 1 << 6, 1 << 7
SYSTEM, SYSTEM_EMPTY, SYSTEM_BLANK, GENERATE, THINK = 1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12
ANSWER_BLANK, THINKS_EMPTY, THINKS_BLANK, MARK = 1 << 13, 1 << 14, 1 << 15, 1 << 16
LISTED, CALLS, AFTER_RESULT, BEFORE_RESULT, CURRENT, ANSWERED = 1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 22
ANSWER_EMPTY, ANSWER_NEWLINES, MANY, CALLER_EMPTY, HAS_CALLS = 1 << 23, 1 << 24, 1 << 25, 1 << 26, 1 << 27
KIND = 3
BOTH, FIRST_END, SPANS = 1, 2, 4  # forms of thoughts

TOOL, CALL, ARGUMENT, MEMBER = 0, 1, 2, 3  # what a rule of parts writes, and its conditions
PART_FIRST, PART_LAST, IS_TEXT, IS_NUMBER, IS_BOOL, IS_NULL, IS_ARRAY, IS_OBJECT = (1 << i for i in range(2, 10))
DESCRIBED, HAS_PROPERTIES, HAS_ARGUMENTS = 1 << 10, 1 << 11, 1 << 12
TOOLS, CALLED, ARGUMENTS, MEMBERS, SORTED, NO_RETURN = 0, 1, 2, 3, 4, 5  # lists
ITEMS = {TOOLS: TOOL, CALLED: CALL, ARGUMENTS: ARGUMENT, SORTED: ARGUMENT, MEMBERS: MEMBER, NO_RETURN: MEMBER}

Step = tuple
Program = tuple[Step, ...]
BOS: Step = ("bos",)
EOS: Step = ("token", "")
BESIDE: tuple[Step, Step] = ("value", "W", None), ("value", "R", None)  # in a result: text and answer of the message that called


@dataclass(frozen=True)
class Rule:
    mask: int
    value: int
    program: Program


@dataclass(frozen=True)
class Thoughts:
    """How thoughts are marked in an answer. It has one where it holds the end mark; BOTH: where it holds both. What
    follows the last end mark is the answer; FIRST_END: what follows the first. SPANS: it has one where it holds either
    mark, and the answer is the text without what stands from each begin mark to the next end mark, and without end
    marks. `skip`: a text that does not belong to an answer where it stands in one."""

    begin: str = "<think>"
    end: str = "</think>"
    form: int = 0
    skip: str = ""

    def in_text(self, text: str) -> bool:
        if self.form & SPANS:
            return self.begin in text or self.end in text
        return self.end in text and (self.begin in text or not self.form & BOTH)

    def answer(self, text: str) -> str:
        answer = self.answer_with_all(text)
        return answer.replace(self.skip, "") if self.skip else answer

    def answer_with_all(self, text: str) -> str:
        if self.form & SPANS:
            return "".join(piece.split(self.begin)[0] for piece in text.split(self.end))
        if not self.in_text(text):
            return text
        return text.split(self.end, 1)[1] if self.form & FIRST_END else text.split(self.end)[-1]

    def thinks(self, text: str) -> str:
        return text.split(self.end)[0].split(self.begin)[-1] if self.in_text(text) else ""


# ---- conditions ----------------------------------------------------------------------------------


def when_always(system: str | None, generate: bool, think: bool, listed: bool = False, called: bool = False) -> int:
    """Conditions that hold for all of a conversation. `called`: it has calls."""
    out = (GENERATE if generate else 0) | (THINK if think else 0) | (LISTED if listed else 0) | (HAS_CALLS if called else 0)
    if system is not None:
        out |= SYSTEM | (0 if system else SYSTEM_EMPTY) | (0 if system.strip() else SYSTEM_BLANK)
    return out


def when_text(text: str, thoughts: Thoughts) -> int:
    """Conditions on the text of a message."""
    out = (0 if text else EMPTY) | (0 if text.strip() else BLANK)
    out |= THOUGHT if thoughts.in_text(text) else 0
    answer = thoughts.answer(text)
    out |= (0 if answer.strip() else ANSWER_BLANK) | (0 if answer else ANSWER_EMPTY) | (0 if answer.strip("\n") else ANSWER_NEWLINES)
    out |= MARK if thoughts.begin in text or thoughts.end in text else 0
    thinks = thoughts.thinks(text)
    return out | (0 if thinks.strip("\n") else THINKS_EMPTY) | (0 if thinks.strip() else THINKS_BLANK)


def when_places(turns: Sequence[dict]) -> Sequence[int]:
    """Conditions on the place of each message, the system's not counted, among the others."""
    return places(bytes(KINDS[m["role"]] | min(len(m.get("tool_calls", ())), 2) << 2 | (not m["content"]) << 4 for m in turns))


@functools.lru_cache(1024)
def places(turns: bytes) -> tuple[int, ...]:
    """The same of messages of which each is a byte: its kind, 0, 1 or 2 (more) calls, whether it is empty. In one pass, as
    conversations of thousands of messages are tried; and once, as most are tried with many texts."""
    roles, out, first = [m & KIND for m in turns], [], {}
    final = {role: i for i, role in enumerate(roles)}
    answers = [i for i, m in enumerate(turns) if m & 15 == ASSISTANT]  # without calls
    last_answer = answers[-1] if answers else -1
    caller = 0
    for i, role in enumerate(roles):
        caller = caller if role == RESULT else i
        when = role | (FIRST if first.setdefault(role, i) == i else 0) | (FINAL if final[role] == i else 0)
        when |= (LAST if i + 1 == len(roles) else 0) | (0 if final.get(USER, -1) > i else CURRENT)
        when |= (AFTER_RESULT if i and roles[i - 1] == RESULT else 0) | (BEFORE_RESULT if roles[i + 1 : i + 2] == [RESULT] else 0)
        when |= CALLER_EMPTY if role == RESULT and turns[caller] >> 4 else 0
        calls = turns[i] >> 2 & 3
        out.append(when | (CALLS if calls else 0) | (MANY if calls > 1 else 0) | (ANSWERED if last_answer > i else 0))
    return tuple(out)


def when_messages(turns: Sequence[dict], thoughts: Thoughts) -> list[int]:
    """Conditions of each message."""
    return [when | when_text(m["content"], thoughts) for when, m in zip(when_places(turns), turns)]


def when_end(turns: Sequence[dict]) -> int:
    last = turns[-1]
    out = END | (LAST if last["role"] == "assistant" else 0) | (AFTER_RESULT if last["role"] == "tool" else 0)
    return out | (CALLS if last.get("tool_calls") else 0)


def when_value(value: Any) -> int:
    types = ((bool, IS_BOOL), (str, IS_TEXT), ((int, float), IS_NUMBER), (list, IS_ARRAY), (dict, IS_OBJECT))
    return next((bit for kind, bit in types if isinstance(value, kind)), IS_NULL)


def when_part(kind: int, item: Any, i: int, n: int) -> int:
    """Conditions of the i-th of n items of a list."""
    out = kind | (PART_FIRST if i == 0 else 0) | (PART_LAST if i + 1 == n else 0)
    if kind in (ARGUMENT, MEMBER):
        return out | when_value(item[1])
    if kind == CALL:
        return out | (HAS_ARGUMENTS if item.arguments else 0)
    function = item["function"]
    out |= DESCRIBED if function.get("description") else 0
    return out | (HAS_PROPERTIES if (function.get("parameters") or {}).get("properties") else 0)


def has_calls(messages: Sequence[dict]) -> bool:
    return any(m.get("tool_calls") for m in messages)


# ---- a conversation ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    name: str
    id: str
    arguments: dict
    number: int  # in the conversation


@dataclass
class Talk:
    """A conversation, with what its programs ask for: `calls` of each message, or the call of each result."""

    messages: list[dict]
    tools: list[dict] = field(default_factory=list)

    def __post_init__(self):
        self.system = self.messages[0]["content"] if self.messages and self.messages[0]["role"] == "system" else None
        self.turns = self.messages if self.system is None else self.messages[1:]
        self.calls: list[list[Call]] = []
        made: list[Call] = []
        for m in self.turns:
            called = [c["function"] | {"id": c["id"]} for c in m.get("tool_calls", ())]
            calls = [Call(c["name"], c["id"], c["arguments"], len(made) + i) for i, c in enumerate(called)]
            made += calls
            self.calls.append([c for c in made if c.id == m["tool_call_id"]][-1:] if m["role"] == "tool" else calls)


def part(name: str, text: str, thoughts: Thoughts) -> str:
    """A part of a message."""
    return thoughts.answer(text) if name == "answer" else thoughts.thinks(text) if name == "thinks" else text


TRIMS = (None, "\n", "")


def trim(text: str, left: int, right: int) -> str:
    """0 not, 1 newlines, 2 what str.strip takes."""
    if left:
        text = text.lstrip(TRIMS[left] or None)
    return text.rstrip(TRIMS[right] or None) if right else text


@dataclass
class Writer:
    """What carries out programs: ("text", s) and ("token", s)."""

    talk: Talk
    thoughts: Thoughts
    parts: list[Rule] = field(default_factory=list)

    def run(self, program: Program, i: int | None, kind: int | None = None, item: Any = None) -> list[Step]:
        """Of message i, of the end (None), or of an item in it."""
        text = "" if i is None else self.talk.turns[i]["content"]
        out: list[Step] = []
        opened: list[int] = []
        for step in program:
            if step[0] == "open":
                opened.append(len(out))
            elif step[0] == "close":
                at = opened.pop()
                out[at:] = [("text", trim("".join(s for _, s in out[at:]), step[1], step[2]))]
            elif step[0] == "system":
                out.append(("text", self.talk.system or ""))
            elif step[0] in ("text", "token"):
                out.append(step)
            elif step[0] == "list":
                out += self.list_of(step[1], i, item)
            elif step[0] == "value":
                value = self.value(step[1], i, kind, item)
                out.append(("text", "" if value is None and kind == TOOL else printed(value, step[2])))
            else:
                out.append(("text", part(step[0], text, self.thoughts)))
        return out

    def list_of(self, which: int, i: int | None, item: Any) -> list[Step]:
        if which == TOOLS:
            items: Sequence = self.talk.tools
        elif which == CALLED:
            items = [] if i is None else self.talk.calls[i]
        elif which in (MEMBERS, NO_RETURN):
            items = [one for one in item["function"].items() if which == MEMBERS or one[0] != "return"]
        else:
            items = dictsort(item.arguments) if which == SORTED else list(item.arguments.items())
        out, kind = [], ITEMS[which]
        for at, one in enumerate(items):
            out += self.run(find(self.parts, when_part(kind, one, at, len(items))), i, kind, one)
        return out

    def value(self, what: str, i: int | None, kind: int | None, item: Any) -> Any:
        if what in "TF":
            return self.talk.tools if what == "T" else [t["function"] for t in self.talk.tools]
        if kind in (ARGUMENT, MEMBER):
            return item[what == "v"]
        if kind == TOOL:
            names = {"n": "name", "d": "description", "p": "parameters"}
            return item if what == "t" else item["function"] if what == "f" else item["function"].get(names[what])
        if what in "WR":
            i = max(j for j in range(i) if self.talk.turns[j]["role"] != "tool")
        if what in "wrWR":
            text = self.talk.turns[i]["content"]
            return text if what in "wW" else self.thoughts.answer(text)
        call = item if kind == CALL else self.talk.calls[i][0]
        return {"n": call.name, "i": call.id, "a": call.arguments, "c": call.number}[what]


def find(rules: list[Rule], when: int) -> Program:
    for rule in rules:
        if when & rule.mask == rule.value:
            return rule.program
    raise NoRule


def render(
    rules: list[Rule], messages: list[dict], generate: bool, think: bool, thoughts: Thoughts,
    tools: list[dict] | None = None, parts: list[Rule] | None = None,
) -> list[Step]:  # fmt: skip
    """The whole conversation."""
    talk = Talk(messages, tools or [])
    writer = Writer(talk, thoughts, parts or [])
    always, out = when_always(talk.system, generate, think, bool(tools), has_calls(messages)), []
    for i, when in enumerate(when_messages(talk.turns, thoughts)):
        out += writer.run(find(rules, always | when), i)
    return out + writer.run(find(rules, always | when_end(talk.turns)), None)


def text_of(steps: list[Step]) -> str:
    return "".join(s for _, s in steps)


# ---- as bytes ------------------------------------------------------------------------------------

CODES = {"whole": 2, "answer": 3, "thinks": 4, "system": 5, "open": 6, "bos": 8}
OPERATIONS = {*range(1, 9), 14, 15}


def encode(program: Program, styles: Sequence[Style] = ()) -> bytes:
    """A program as bytes of the section. ValueError: text that cannot be told from operations."""
    out = b""
    for step in program:
        if step[0] in ("text", "token"):
            data = step[1].encode()
            if OPERATIONS.intersection(data):
                raise ValueError("it writes control characters")
            out += data if step[0] == "text" else b"\1" + data + b"\1"
        elif step[0] == "close":
            out += b"\7%d" % (step[1] + 3 * step[2])
        elif step[0] == "list":
            out += b"\x0e%d" % step[1]
        elif step[0] == "value":
            style = "-" if step[2] is None else str(list(styles).index(step[2]))
            out += b"\x0f" + step[1].encode() + style.encode()
        else:
            out += bytes([CODES[step[0]]])
    return out
