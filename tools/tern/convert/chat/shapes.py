"""The conversations that rules are sought with: every form of them, with marks for texts.

A form names its messages by letters: u a user's, a an answer, c, d and e an assistant's with one call, with two and with
three, t a result. Only forms with `tools` have c, d, e and t.
"""

import itertools
from dataclasses import dataclass

from . import rules as cr
from .rules import Thoughts

MAX_MESSAGES = 6
MARK = "qz{}zq"
EDGES = ("\n \t\n", " \n\u3000 ", "\n\n", " ", "\x1c\n")
BLANKS = ("", " ", "\n", " \n\t ")
ROLES = {"u": "user", "a": "assistant", "c": "assistant", "d": "assistant", "e": "assistant", "t": "tool"}
CALLERS = "cde"
PLAIN_SHAPES = tuple("uauaua"[:n] for n in range(1, MAX_MESSAGES + 1))
TOOL_SHAPES = (
    "u", "ua", "uau", "uaua", "uauau", "uc", "uct", "ucta", "uctu", "uctau", "uctaua", "uctc", "uctct", "uctcta", "uctctau", "uctctcta",
    "uctauc", "uctauct", "uctaucta", "uauct", "uaucta", "uauctau", "uctuct", "uctucta", "ud", "udtt", "udtta", "udttau", "udttct",
    "uctdtt", "uctdttau", "udttaudtta", "uaudtt",
)  # fmt: skip
CALLING_SHAPES = tuple(shape for shape in TOOL_SHAPES if not set(CALLERS).isdisjoint(shape))
CALLING_SHAPES += ("uauauct", "uauaucta", "uctauau", "uctauaua")
LATE_SHAPES = ("uettt", "uettta", "uauettt", "uetttettt")  # where the text of e stands behind its results


@dataclass(frozen=True)
class Form:
    """What is asked of the template, apart from the texts."""

    shape: str
    system: bool
    generate: bool
    think: bool
    thoughts: bool = False
    tools: bool = False

    @property
    def turns(self) -> int:
        return len(self.shape)

    def calls(self) -> bool:
        return not set(CALLERS).isdisjoint(self.shape)

    def answers(self) -> list[int]:
        """Numbers of the assistant's messages."""
        return [i for i, letter in enumerate(self.shape) if ROLES[letter] == "assistant"]


def forms(knows_thinking: bool, tools: bool = False, shapes: tuple[str, ...] | None = None) -> list[Form]:
    """Of these shapes; else of all with tools or without."""
    thinks = (True, False) if knows_thinking else (False,)
    shapes = shapes or (TOOL_SHAPES if tools else PLAIN_SHAPES)
    several = itertools.product(shapes, (False, True), (False, True), thinks, (False, True))
    made = (Form(shape, system, generate, think, thoughts, tools) for shape, system, generate, think, thoughts in several)
    return [form for form in made if form.answers() or not form.thoughts]


def tool(k: int) -> dict:
    """A tool of marks."""
    parameters = {
        "type": "object",
        "properties": {
            f"qzp{k}zq": {"type": "string", "description": f'of "{k}"', "enum": ["é<&>", "b"]},
            "count": {"type": "number", "minimum": 1.0, "maximum": 1e20},
        },
        "required": [f"qzp{k}zq"],
    }
    return {"type": "function", "function": {"name": f"qzn{k}zq", "description": f'Does "{k}" & <é>.', "parameters": parameters}}


TOOLS = [tool(1), tool(2)]


def call_id(number: int) -> str:
    """As the engine makes them."""
    return f"{number:09d}"


def call(number: int, arguments: dict) -> dict:
    return {"type": "function", "id": call_id(number), "function": {"name": f"qzf{number}zq", "arguments": arguments}}


def conversation(form: Form, thoughts: Thoughts, texts: dict | None = None) -> list[dict]:
    """Messages whose texts are marks, or `texts` by the number of the message ("system" for that)."""
    out, texts = [], texts or {}
    if form.system:
        out.append({"role": "system", "content": texts.get("system", MARK.format("s"))})
    waiting: list[dict] = []
    for i, letter in enumerate(form.shape):
        text = MARK.format(i)
        if form.thoughts and ROLES[letter] == "assistant":
            text = thoughtful(form, i, thoughts).text(thoughts)
        m = {"role": ROLES[letter], "content": texts.get(i, text)}
        if letter in CALLERS:
            number = 10 * i + 11  # numbers that stand nowhere else
            waiting = [call(number + k, {f"qzk{i}zq": f"qzv{i}zq"}) for k in range(1 + CALLERS.index(letter))]
            m["tool_calls"] = list(waiting)
        elif letter == "t":
            called = waiting.pop(0)
            m |= {"tool_call_id": called["id"], "name": called["function"]["name"]}
        out.append(m)
    return out


@dataclass(frozen=True)
class Marked:
    """An answer with a thought, or with one of its marks alone."""

    thought: str
    answer: str
    begins: bool = True
    ends: bool = True

    def text(self, thoughts: Thoughts) -> str:
        if not self.ends:
            return MARK.format("j") + thoughts.begin + self.answer
        return (MARK.format("j") + thoughts.begin if self.begins else "") + self.thought + thoughts.end + self.answer


def thoughtful(form: Form, i: int, thoughts: Thoughts) -> Marked:
    """Message i with a thought. Where an answer has a channel of its own, calls stand in its place."""
    alone = thoughts.skip and form.shape[i] in CALLERS
    return Marked(MARK.format(f"t{i}"), "" if alone else MARK.format(i))


def marked(thought: str, answer: str) -> list[Marked]:
    """What a template may write in another way than a thought and an answer."""
    blank = [m for text in BLANKS for m in (Marked(thought, text), Marked(text, answer))]
    return [*blank, Marked(thought, answer, begins=False), Marked(thought, answer, ends=False)]


def when(form: Form, messages: list[dict], i: int, thoughts: Thoughts) -> int:
    """Conditions of message i of a conversation, or of its end."""
    system = messages[0]["content"] if form.system else None
    turns = messages[form.system :]
    always = cr.when_always(system, form.generate, form.think, form.tools, form.calls())
    if i == len(turns):
        return always | cr.when_end(turns)
    return always | cr.when_places(turns)[i] | cr.when_text(turns[i]["content"], thoughts)
