"""Rules of a chat template, as FORMAT.md defines them, and what they make of a conversation: the engine's
src/text/chat.c once more, to prove rules before they are stored.

A program is a tuple of steps: ("text", s) literal text, ("token", s) a special token, ("whole",), ("answer",),
("thinks",), ("system",) parts, and ("open",), ("close", left, right) around what is trimmed. BOS and EOS are steps that
only the engine can run: they stand for the tokenizer's own, whatever their names.
"""

from dataclasses import dataclass

from .errors import NoRule

USER, ASSISTANT, END = 0, 1, 2
FIRST, LAST, FINAL, EMPTY, BLANK, THOUGHT = 1 << 2, 1 << 3, 1 << 4, 1 << 5, 1 << 6, 1 << 7
SYSTEM, SYSTEM_EMPTY, SYSTEM_BLANK, GENERATE, THINK = 1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12
ANSWER_BLANK, THINKS_EMPTY, THINKS_BLANK, MARK = 1 << 13, 1 << 14, 1 << 15, 1 << 16
KIND = 3
BOTH, FIRST_END, SPANS = 1, 2, 4  # forms of thoughts

Step = tuple
Program = tuple[Step, ...]
BOS: Step = ("bos",)
EOS: Step = ("token", "")


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
    marks."""

    begin: str = "<think>"
    end: str = "</think>"
    form: int = 0

    def in_text(self, text: str) -> bool:
        if self.form & SPANS:
            return self.begin in text or self.end in text
        return self.end in text and (self.begin in text or not self.form & BOTH)

    def answer(self, text: str) -> str:
        if self.form & SPANS:
            return "".join(piece.split(self.begin)[0] for piece in text.split(self.end))
        if not self.in_text(text):
            return text
        return text.split(self.end, 1)[1] if self.form & FIRST_END else text.split(self.end)[-1]

    def thinks(self, text: str) -> str:
        return text.split(self.end)[0].split(self.begin)[-1] if self.in_text(text) else ""


def when_always(system: str | None, generate: bool, think: bool) -> int:
    """Conditions that hold for all of a conversation."""
    out = (GENERATE if generate else 0) | (THINK if think else 0)
    if system is not None:
        out |= SYSTEM | (0 if system else SYSTEM_EMPTY) | (0 if system.strip() else SYSTEM_BLANK)
    return out


def when_message(text: str, i: int, n: int, thoughts: Thoughts) -> int:
    """Conditions of the i-th of n messages, the system's not counted."""
    out = (ASSISTANT if i % 2 else USER) | (FIRST if i < 2 else 0) | (LAST if i + 1 == n else 0)
    out |= FINAL if i + 2 >= n else 0
    out |= (0 if text else EMPTY) | (0 if text.strip() else BLANK)
    out |= THOUGHT if thoughts.in_text(text) else 0
    out |= 0 if thoughts.answer(text).strip() else ANSWER_BLANK
    out |= MARK if thoughts.begin in text or thoughts.end in text else 0
    thinks = thoughts.thinks(text)
    return out | (0 if thinks.strip("\n") else THINKS_EMPTY) | (0 if thinks.strip() else THINKS_BLANK)


def when_end(n: int) -> int:
    return END | (0 if n % 2 else LAST)


def part(name: str, text: str, thoughts: Thoughts) -> str:
    """A part of a message."""
    return thoughts.answer(text) if name == "answer" else thoughts.thinks(text) if name == "thinks" else text


TRIMS = (None, "\n", "")


def trim(text: str, left: int, right: int) -> str:
    """0 not, 1 newlines, 2 what str.strip takes."""
    if left:
        text = text.lstrip(TRIMS[left] or None)
    return text.rstrip(TRIMS[right] or None) if right else text


def run(program: Program, system: str | None, text: str, thoughts: Thoughts) -> list[Step]:
    """What a program writes: ("text", s) and ("token", s)."""
    out: list[Step] = []
    opened: list[int] = []
    for step in program:
        if step[0] == "open":
            opened.append(len(out))
        elif step[0] == "close":
            at = opened.pop()
            out[at:] = [("text", trim("".join(s for _, s in out[at:]), step[1], step[2]))]
        elif step[0] == "system":
            out.append(("text", system or ""))
        elif step[0] in ("text", "token"):
            out.append(step)
        else:
            out.append(("text", part(step[0], text, thoughts)))
    return out


def find(rules: list[Rule], when: int) -> Program:
    for rule in rules:
        if when & rule.mask == rule.value:
            return rule.program
    raise NoRule


def render(rules: list[Rule], messages: list[dict], generate: bool, think: bool, thoughts: Thoughts) -> list[Step]:
    """The whole conversation."""
    system = messages[0]["content"] if messages[0]["role"] == "system" else None
    turns = messages if system is None else messages[1:]
    always, out = when_always(system, generate, think), []
    for i, m in enumerate(turns):
        when = always | when_message(m["content"], i, len(turns), thoughts)
        out += run(find(rules, when), system, m["content"], thoughts)
    return out + run(find(rules, always | when_end(len(turns))), system, "", thoughts)


def text_of(steps: list[Step]) -> str:
    return "".join(s for _, s in steps)


CODES = {"whole": 2, "answer": 3, "thinks": 4, "system": 5, "open": 6, "bos": 8}


def encode(program: Program) -> bytes:
    """A program as bytes of the section. ValueError: text that cannot be told from operations."""
    out = b""
    for step in program:
        if step[0] in ("text", "token"):
            data = step[1].encode()
            if any(1 <= c <= 8 for c in data):
                raise ValueError("it writes control characters")
            out += data if step[0] == "text" else b"\1" + data + b"\1"
        elif step[0] == "close":
            out += b"\7%d" % (step[1] + 3 * step[2])
        else:
            out += bytes([CODES[step[0]]])
    return out
