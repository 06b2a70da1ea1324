"""Finds the rules that a chat template follows, by rendering conversations whose texts are marks.

1. Conversations of every form (with and without a system text, 1 to 6 messages, with and without thoughts, asked for an
   answer or not, with thinking or not; with tools: with calls and results) show what stands between the marks: literals
   and parts, per message a program.
2. Each program is tried with whitespace around its texts: what is trimmed.
3. Where an empty or blank text is treated as none, that becomes a condition.
   So does a thought without an answer, an empty thought, and a mark without its other.
4. A decision tree over the conditions gives the rules.
What does not fit is refused with the reason; nothing is believed before learn.py has proved it on other conversations.
"""

import itertools
from dataclasses import dataclass, replace

from . import rules as cr
from .cutting import Piece, common, cut_up, program, steps, units
from .errors import Beyond, NoRule, Rejected
from .jinja import Template
from .printing import printed
from .rules import Program, Rule, Step, Thoughts
from .shapes import BLANKS, CALLERS, CALLING_SHAPES, EDGES, LATE_SHAPES, MARK, ROLES, TOOLS, Form, Marked, conversation, forms, marked, thoughtful, when
from .tool_parts import NUMBER, Notation

NOTHING = [Marked("", "", begins=False), Marked("", "")]  # beside calls there often is neither
CONTENT = ("whole", "answer", "thinks")

# ---- structure -----------------------------------------------------------------------------------


@dataclass
class Seen:
    """One rendering, cut: before[i] is what stands before message i (the last: behind all), parts[i] what it became.

    Literals are strings, parts are steps.
    """

    form: Form
    messages: list[dict]
    before: list[list]
    parts: list[list]


def laid_out(form: Form, messages: list[dict], cuts: list[str | Piece]) -> Seen:
    """Which piece belongs to which message."""
    before: list[list] = [[] for _ in range(form.turns + 1)]
    parts: list[list] = [[] for _ in range(form.turns)]
    literal, message = cuts[0], 0
    if {*range(form.turns)}.difference(piece.owner for piece in cuts[1::2]):
        raise Beyond("it leaves out a message")
    for piece, follows in zip(cuts[1::2], cuts[2::2]):
        i = piece.owner
        if i >= 0 and (i < message - 1 or i > message):
            raise Beyond("it changes the order of messages")
        into = before[message] if i < 0 or not parts[i] else parts[i]
        into.append(literal)
        if i >= 0:
            parts[i].append(piece.step)
            message = i + 1
        else:
            into.append(piece.step)
        literal = follows
    before[message].append(literal)
    if any(isinstance(b, tuple) for b in before[message]):
        raise Beyond("it puts the system text behind all messages")
    return Seen(form, messages, before, parts)


def complete(seen: Seen) -> Seen:
    """Raises Beyond where a text or the calls of a message are missing; the text beside calls may be left out."""
    for letter, parts in zip(seen.form.shape, seen.parts):
        names = [step[:2] if step[0] in ("list", "value") else step[0] for step in parts if isinstance(step, tuple)]
        if letter in CALLERS and ("list", cr.CALLED) not in names:
            raise Beyond("it leaves out calls")
        if letter not in CALLERS and not {"whole", "answer", ("value", "w")}.intersection(names):
            raise Beyond("it leaves out a message")
    return seen


def suffixes(seen: list[Seen], special: frozenset[str], late: bool) -> dict[str, str]:
    """By the role, what always stands behind a message: the rest belongs to what follows."""
    out: dict[str, list[str]] = {}
    for s in seen:
        for i in range(len(s.form.shape)):
            follows, role = units(s.before[i + 1][0], special), ends_as(s.form.shape, i, late)
            out[role] = common(out[role], follows) if role in out else follows
    return {role: "".join(u) for role, u in out.items()}


def ends_as(shape: str, i: int, late: bool) -> str:
    """Calls may end in a way of their own, and with `late` the last of their results."""
    last = late and shape[i] == "t" and shape[i + 1 : i + 2] != "t"
    return "calls" if shape[i] in CALLERS else "last result" if last else ROLES[shape[i]]


def caller(shape: str, i: int) -> int:
    """The message whose call result i answers"""
    return max(j for j in range(i) if shape[j] != "t")


def programs(s: Seen, ends: dict[str, str], special: frozenset[str], late: bool) -> dict[int, Program]:
    """By the number of the message (the last: what follows them), its program without trimming."""
    out, shape = {}, s.form.shape
    for i in range(len(shape) + 1):
        before = list(s.before[i])
        if i > 0:
            before[0] = before[0][len(ends[ends_as(shape, i - 1, late)]) :]
        after = [] if i == len(shape) else [*s.parts[i], ends[ends_as(shape, i, late)]]
        out[i] = tuple(
            step for piece in before + after for step in (steps(piece, special) if isinstance(piece, str) else (piece,))
        )
    return out


# ---- the tree ------------------------------------------------------------------------------------

BITS = (cr.FIRST, cr.SYSTEM, cr.GENERATE, cr.THINK, cr.LAST, cr.FINAL, cr.THOUGHT)
BITS += (cr.SYSTEM_EMPTY, cr.SYSTEM_BLANK, cr.EMPTY, cr.BLANK, cr.ANSWER_BLANK, cr.THINKS_EMPTY, cr.THINKS_BLANK, cr.MARK)


TOOL_BITS = (cr.CALLS, cr.AFTER_RESULT, cr.CURRENT, cr.MANY, cr.BEFORE_RESULT, cr.ANSWERED, cr.ANSWER_EMPTY, cr.ANSWER_NEWLINES)


def tree(found: dict[int, int], known: list[Program | None], bits: tuple[int, ...], mask: int, value: int) -> list[Rule]:
    """Rules for conditions -> number of a program, splitting at the condition that leaves the fewest on both sides."""
    kinds = set(found.values())
    if len(kinds) == 1:
        program = known[kinds.pop()]
        return [] if program is None else [Rule(mask, value, program)]
    best = None
    for bit in bits:
        sides = [{w: p for w, p in found.items() if bool(w & bit) == on} for on in (True, False)]
        if bit & mask or not all(sides):
            continue
        cost = sum(len(set(side.values())) for side in sides)
        if best is None or cost < best[0]:
            best = cost, bit, sides
    if best is None:
        raise Beyond("it writes the same kind of message in different ways")
    _, bit, (on, off) = best
    return tree(on, known, bits, mask | bit, value | bit) + tree(off, known, bits, mask | bit, value)


def rules_of(found: dict[int, Program | None], bits: tuple[int, ...] = BITS, always: int = 0) -> list[Rule]:
    """`always`: a condition of them all."""
    out = []
    for kind in (cr.USER, cr.ASSISTANT, cr.RESULT, cr.END):
        mine = {w: p for w, p in found.items() if w & cr.KIND == kind}
        known = list(dict.fromkeys(mine.values()))
        numbers = {p: i for i, p in enumerate(known)}
        if mine:
            out += tree({w: numbers[p] for w, p in mine.items()}, known, bits, cr.KIND | always, kind | always)
    return out


def places(form: Form) -> list[tuple]:
    """Of each message, what a template may reject it for: its kind, and that of its neighbours."""
    shape = f" {form.shape} "
    return [(shape[i], shape[i - 1] == "t", shape[i + 1] == "t", form.thoughts) for i in range(1, len(shape) - 1)]


# ---- the search ----------------------------------------------------------------------------------


class Fit:
    """The search for the rules of one template; `special`: texts of the tokenizer's special tokens. With `tools`: for
    conversations in which tools are listed; or not `listed`, and are called all the same."""

    def __init__(
        self, template: Template, special: frozenset[str], thoughts: Thoughts, tools: Notation | None = None, listed: bool = True
    ):
        self.template, self.special, self.thoughts, self.tools = template, special, thoughts, tools
        self.listed = tools is not None and listed
        self.beside = self.behind_results() if tools else None
        self.late = self.beside is not None
        self.bits = BITS + (TOOL_BITS if tools else ()) + ((cr.CALLER_EMPTY,) if self.late else ())
        self.always = cr.LISTED if self.listed else cr.HAS_CALLS if tools else 0
        self.aside = cr.SYSTEM | cr.GENERATE if tools else 0  # conditions under which blank texts are not tried anew
        self.trims: dict[Program, Program] = {}
        self.outs: dict[tuple, str | None] = {}
        self.knows = self.knows_thinking()
        self.forms = forms(self.knows, self.listed, CALLING_SHAPES if tools and not listed else None)
        self.forms += forms(self.knows, self.listed, LATE_SHAPES) if self.late else []
        self.values = [tools.result] if tools and tools.result != ("whole",) else []
        self.values += [self.beside] if self.beside else []
        self.found: dict[int, Program | None] = {}
        self.made: tuple[dict, list[Rule]] | None = None  # the rules of `found` as it was then
        self.example: dict[int, tuple[Form, int]] = {}  # a form and the number of a message with these conditions

    def knows_thinking(self) -> bool:
        """Whether being told to think changes anything."""
        if self.template.thinking is None:
            return False
        return any(self.try_render(f, True) != self.try_render(f, False) for f in forms(False))

    def behind_results(self) -> Step | None:
        """What stands for the text beside a call where that stands behind the results of the call (Gemma 4)."""
        form = Form("uct", False, False, False, True, tools=self.listed)
        out = self.try_render(form, None) or ""
        if MARK.format(2) not in out or out.find(MARK.format(1)) < out.find(MARK.format(2)):
            return None
        return cr.BESIDE[conversation(form, self.thoughts)[1]["content"] not in out]

    def owner(self, form: Form, i: int) -> int:
        """The message in which the text of message i is written"""
        if self.late and form.shape[i] in CALLERS:
            return max(j for j in range(i, form.turns) if form.shape[i + 1 : j + 1] == "t" * (j - i))
        return i

    def try_render(self, form: Form, think: bool | None, texts: dict | None = None) -> str | None:
        try:
            tools = TOOLS if form.tools else None
            return self.template.render(conversation(form, self.thoughts, texts), form.generate, think, tools)
        except Rejected:
            return None

    def out(self, form: Form, texts: dict | None = None) -> str | None:
        key = form, tuple((texts or {}).items())
        if key not in self.outs:
            self.outs[key] = self.try_render(form, form.think if self.knows else None, texts)
        return self.outs[key]

    def predicted(self, form: Form, texts: dict | None = None) -> str | None:
        try:
            return "".join(text for _, text in self.written(form, texts))
        except NoRule:
            return None

    def now(self) -> list[Rule]:
        """The rules of what was found so far."""
        if self.made is None or self.made[0] is not self.found:
            self.made = self.found, rules_of(self.found, self.bits, self.always)
        return self.made[1]

    def when(self, form: Form, messages: list[dict], i: int) -> int:
        """Conditions of a message or of the end, of those that rules may have."""
        return when(form, messages, i, self.thoughts) & (cr.KIND | self.always | sum(self.bits))

    def pieces(self, form: Form, messages: list[dict], out: str) -> list[Piece]:
        """What may stand in a rendering."""
        turns, found = messages[form.system :], []
        if form.system and MARK.format("s") in messages[0]["content"]:
            found.append(Piece(messages[0]["content"], -1, ("system",)))
        talk = cr.Talk(messages, TOOLS if self.listed else [])
        writer = cr.Writer(talk, self.thoughts, self.tools.parts if self.tools else [])
        if self.listed:
            found.append(Piece(cr.text_of(writer.run(self.tools.listed, None)), -1, self.tools.listed[0]))
        for i, m in enumerate(turns):
            if m.get("tool_calls"):
                found.append(Piece(cr.text_of(writer.list_of(cr.CALLED, i, None)), i, ("list", cr.CALLED)))
            at = self.owner(form, i)
            if at > i:
                said = m["content"] if self.beside == cr.BESIDE[0] else self.thoughts.answer(m["content"])
                found += [Piece(said, at, self.beside)] if said.strip() else []
            else:
                found += self.of_result(talk, i) if m["role"] == "tool" else self.of_text(form, m["content"], i, out)
        return found

    def of_text(self, form: Form, text: str, i: int, out: str) -> list[Piece]:
        if not text.strip():
            return []
        if text in out and not (self.thoughts.skip and form.shape[i] in "a" + CALLERS):
            return [Piece(text, i, ("whole",))]
        parts = [(name, cr.part(name, text, self.thoughts)) for name in ("thinks", "answer")]
        return [Piece(part, i, (name,)) for name, part in parts if part.strip() and (name == "answer" or form.thoughts)]

    def of_result(self, talk: cr.Talk, i: int) -> list[Piece]:
        text, step, one = talk.turns[i]["content"], self.tools.result, talk.calls[i][0]
        found = [Piece(one.name, i, ("value", "n", None), True), Piece(one.id, i, ("value", "i", None), True)]
        if self.tools.before_number:
            lead = self.tools.before_number
            found.append(Piece(f"{lead}{one.number}", i, NUMBER, True, lead))
        if not text.strip():
            return found
        return [*found, Piece(text if step == ("whole",) else printed(text, step[2]), i, step)]

    def cut(self, form: Form, messages: list[dict], out: str) -> Seen:
        return complete(laid_out(form, messages, cut_up(out, self.pieces(form, messages, out))))

    def structure(self) -> None:
        """Step 1: `found`, and an example of each of its conditions."""
        seen, rejected = [], []
        for form in self.forms:
            text, messages = self.out(form), conversation(form, self.thoughts)
            try:
                if text is not None:
                    seen.append(self.cut(form, messages, text))
                else:
                    rejected.append(form)
            except Beyond:
                if not {"d", "e"}.intersection(form.shape) or self.tools.calls.between is not None:
                    raise
                rejected.append(form)  # it takes several calls, and writes only the first
        if not seen:
            raise Beyond(f"it rejects every conversation: {self.why()}")
        if not any(("system",) in b for s in seen for b in s.before):  # it takes a system text and drops it
            for s in seen:
                if s.form.system:
                    self.learn(self.when(s.form, s.messages, s.form.turns), None)
            seen = [s for s in seen if not s.form.system]
        self.rejects(rejected, {place for s in seen for place in places(s.form)})
        self.ends = suffixes(seen, self.special, self.late)
        for s in seen:
            for i, steps_of in programs(s, self.ends, self.special, self.late).items():
                self.learn(self.when(s.form, s.messages, i), steps_of)
                self.example.setdefault(self.when(s.form, s.messages, i), (s.form, i))

    def rejects(self, rejected: list[Form], taken: set) -> None:
        """No program for a message that never is taken where it stands, or else for the end of such a conversation."""
        for form in rejected:
            messages = conversation(form, self.thoughts)
            bad = [i for i, place in enumerate(places(form)) if place not in taken]
            for i in bad or [form.turns]:
                self.learn(self.when(form, messages, i), None)

    def why(self) -> str:
        try:
            form = Form("uct" if self.tools and not self.listed else "u", False, True, False, tools=self.listed)
            self.template.render(conversation(form, self.thoughts), True, None, TOOLS if self.listed else None)
        except Rejected as e:
            return str(e)
        return "no reason given"

    def learn(self, when: int, program: Program | None) -> None:
        if self.found.setdefault(when, program) != program:
            raise Beyond("it writes the same kind of message in different ways")

    def trimming(self) -> None:
        """Step 2, program by program; where its conditions are trimmed in different ways, in groups of these."""
        for program in dict.fromkeys(self.found[when] for when in self.example):
            left = [when for when in self.example if self.found[when] == program]
            parts = [step for step in (("system",), ("thinks",), ("answer",), ("whole",), *self.values) if step in program]
            while parts and left:
                form, i = self.example[left[0]]
                fitted = program
                for step in parts:
                    fitted = self.trim_part(left, fitted, step, form, i)
                fitted = self.widen(left, fitted, form, i)
                alike = [when for when in left if self.holds(when, fitted, parts)]
                self.replace(alike or left[:1], fitted)
                left = [when for when in left[1:] if when not in alike]

    def holds(self, when: int, program: Program, parts: list[Step]) -> bool:
        """Whether that program is right there."""
        return self.fits(when, program, parts, *self.example[when])

    def replace(self, whens: list[int], new: Program) -> None:
        self.found = self.found | dict.fromkeys(whens, new)

    def matches(self, whens: list[int], new: Program, form: Form, texts: list[dict]) -> int:
        """How many of the conversations come out right when the program of these conditions is `new`."""
        kept, good = self.found, 0
        self.replace(whens, new)
        for t in texts:
            good += self.predicted(form, t) == self.out(form, t)
        self.found = kept
        return good

    def edged(self, step: Step, form: Form, i: int, message: "Marked | None" = None) -> list[dict]:
        """Conversations in which that part alone has whitespace around it, of such a message where one is given."""
        name, out = step[0], []
        if step in cr.BESIDE:
            i, name = caller(form.shape, i), "answer" if form.thoughts else "whole"
        m, thought = message or thoughtful(form, i, self.thoughts), form.thoughts and i in form.answers()
        for a, b in itertools.product(EDGES, EDGES):
            if name == "system":
                out.append({"system": a + MARK.format("s") + b})
            elif (name in ("whole", "value") or name == "answer" and self.thoughts.skip and not message) and not thought:
                out.append({i: a + MARK.format(i) + b})
            elif name == "thinks":
                out.append({i: replace(m, thought=a + m.thought + b).text(self.thoughts)})
            elif name == "answer" and not self.thoughts.form & cr.SPANS:
                out.append({i: replace(m, answer=a + m.answer + b).text(self.thoughts)})
            else:
                out.append({i: a + m.text(self.thoughts) + b})
        return out

    def trim_part(
        self, whens: list[int], program: Program, step: Step, form: Form, i: int, message: "Marked | None" = None, fixed: dict | None = None
    ) -> Program:
        """The program with that part trimmed as the template does, in conversations with these `fixed` texts."""
        texts = [t | (fixed or {}) for t in self.edged(step, form, i, message)]
        for right, left in itertools.product(range(3), range(3)):
            new = program
            if left or right:
                at = program.index(step)
                new = (*program[:at], ("open",), step, ("close", left, right), *program[at + 1 :])
            if self.matches(whens, new, form, texts[:2]) == 2 and self.matches(whens, new, form, texts) == len(texts):
                return new
        raise Beyond(f"it changes the {'system text' if step == ('system',) else 'texts of messages'}")

    def widen(self, whens: list[int], program: Program, form: Form, i: int) -> Program:
        """A text that is trimmed at its end may be trimmed together with what stands before it (Llama 2 does so)."""
        if i == form.turns or len(program) < 4:
            return program
        blanks = [{i: blank} for blank in BLANKS]
        if ("system",) in program:
            blanks += [{i: b, "system": s} for b, s in itertools.product(BLANKS, BLANKS)]
        close = max((at for at, step in enumerate(program) if step[0] == "close"), default=None)
        best, good = program, self.matches(whens, program, form, blanks)
        if close is None or good == len(blanks):
            return program
        for at in range(close - 3, -1, -1):
            if program[at][0] == "token":
                break
            _, left, right = program[close]
            inner = (("open",), program[close - 1], ("close", left, 0)) if left else (program[close - 1],)
            wide = (*program[:at], ("open",), *program[at : close - 2], *inner, ("close", 0, right), *program[close + 1 :])
            now = self.matches(whens, wide, form, blanks)
            if now > good:
                best, good = wide, now
        return best

    # ---- blank texts -----------------------------------------------------------------------------

    def blanks(self) -> None:
        """Step 3: empty and blank texts that are written in another way, of the system and of messages."""
        plain, other, alike, seen = self.now(), {}, {}, set()
        for form in self.forms:
            if form.thoughts or self.out(form) is None or self.predicted(form) is None:
                continue
            for place, text in itertools.product((["system"] if form.system else []) + list(range(form.turns)), BLANKS):
                if self.tools and self.is_known(form, place, text, seen):
                    continue
                out = self.out(form, {place: text})
                same = out is None or out == self.predicted(form, {place: text})
                if not same:
                    other |= self.blank(form, {place: text}, place, out)
                if place != "system":
                    owner = self.owner(form, place)
                    for when, _ in self.written(form, {place: text})[place : owner + same]:
                        alike[when] = cr.find(plain, when)
        if other:
            self.found = alike | self.found | other

    def is_known(self, form: Form, place, text: str, seen: set) -> bool:
        """Whether such a text was tried in such a place: of the system, before messages with the same conditions."""
        messages = conversation(form, self.thoughts, {place: text})
        whens = range(form.turns + 1) if place == "system" else (place, self.owner(form, place))
        key = text, {self.when(form, messages, i) & ~self.aside for i in whens}
        if any(text == key[0] and key[1] <= known for text, known in seen):
            return True
        seen.add((text, frozenset(key[1])))
        return False

    def written(self, form: Form, texts: dict | None) -> list[tuple[int, str]]:
        """Conditions of each message and of the end, and what they are written as."""
        messages, out = conversation(form, self.thoughts, texts), []
        parts = self.tools.parts if self.tools else []
        writer = cr.Writer(cr.Talk(messages, TOOLS if self.listed else []), self.thoughts, parts)
        for i in range(form.turns + 1):
            when = self.when(form, messages, i)
            found = self.found[when] if when in self.found else cr.find(self.now(), when)
            if found is None:
                raise NoRule
            out.append((when, cr.text_of(writer.run(found, i if i < form.turns else None))))
        return out

    def blank(self, form: Form, texts: dict, place, out: str) -> dict[int, Program]:
        """What that conversation, with an empty or blank text at `place`, shows to be written in another way."""
        messages = conversation(form, self.thoughts, texts)
        if place == "system":
            s = self.cut(form, messages, out)
            found = programs(s, self.ends, self.special, self.late)
            return {self.when(form, messages, i): self.like(p) for i, p in found.items()}
        place = self.owner(form, place)
        when, left = self.alone(form, texts, place, out, "an empty text")
        new = program(cut_up(left, self.pieces(form, messages, left)), self.special)
        if ("system",) in new:
            known = self.found
            new = self.trim_part([when], new, ("system",), form, place, fixed=texts)
            self.found = known
        return {when: new}

    def alone(self, form: Form, texts: dict, i: int, out: str, what: str) -> tuple[int, str]:
        """The conditions of message i, and what is written of it if the others are written as always."""
        written = self.written(form, texts)
        head, tail = ("".join(text for _, text in part) for part in (written[:i], written[i + 1 :]))
        if len(head) + len(tail) > len(out) or not out.startswith(head) or not out.endswith(tail):
            raise Beyond(f"it lets {what} change what stands around it")
        return written[i][0], out[len(head) : len(out) - len(tail)]

    def unlike(self) -> None:
        """Step 3 of the parts of messages: thoughts without an answer, empty thoughts, and marks without their other."""
        plain, other, alike, seen = self.now(), {}, {}, set()
        for form in self.forms:
            if not form.thoughts or self.out(form) is None or self.predicted(form) is None:
                continue
            for i in form.answers():
                for message in marked(MARK.format(f"t{i}"), MARK.format(i)) + (self.tools is not None) * NOTHING:
                    texts = {i: message.text(self.thoughts)}
                    when = self.when(form, conversation(form, self.thoughts, texts), i)
                    kind = when & ~self.aside, message.answer.strip() and message.thought
                    if kind in seen:
                        continue
                    seen.add(kind)
                    out = self.out(form, texts)
                    if self.tools and out is None:
                        continue
                    if out is not None and out != self.predicted(form, texts):
                        other[when] = self.unlike_others(form, i, message, out)
                    else:
                        alike[when] = cr.find(plain, when)
        if other:
            self.found = alike | self.found | other

    def unlike_others(self, form: Form, i: int, message: "Marked", out: str) -> Program:
        """The program of such a message i."""
        text, known = message.text(self.thoughts), self.found
        when, left = self.alone(form, {i: text}, i, out, "an empty thought or answer")
        messages = conversation(form, self.thoughts, {i: text})
        parts = [("thinks", self.thoughts.thinks(text)), ("answer", self.thoughts.answer(text))]
        parts = [("whole", text)] if text in left and text != self.thoughts.end and not self.thoughts.skip else parts
        others = [p for p in self.pieces(form, messages, left) if p.step[0] not in CONTENT]
        new = program(cut_up(left, [*others, *(Piece(part, i, (name,)) for name, part in parts if part.strip())]), self.special)
        names, bare = [(name,) for name, _ in parts if (name,) in new], new
        if bare not in self.trims or not self.fits(when, self.trims[bare], names, form, i, message):
            for step in names:
                new = self.trim_part([when], new, step, form, i, message)
            self.trims[bare] = new
        self.found = known
        return self.trims[bare]

    def fits(self, when: int, program: Program, parts: list[Step], form: Form, i: int, message: "Marked | None" = None) -> bool:
        """Whether that program is right there, at a glance."""
        texts = [t for step in parts for t in self.edged(step, form, i, message)[:: len(EDGES) + 1]]
        return self.matches([when], program, form, texts) == len(texts)

    def like(self, program: Program) -> Program:
        """The fitted program that this one is without its trimming, if there is one."""
        for fitted in self.found.values():
            if fitted is not None and tuple(s for s in fitted if s[0] not in ("open", "close")) == program:
                return fitted
        return program

    def opening(self) -> None:
        """An answer must begin where the template asks for it: special tokens between are the model's to write."""
        places = ((Form("u", False, True, False), 1), (Form("uau", False, False, False), 1))
        asked, given = (self.found.get(self.when(form, conversation(form, self.thoughts), i)) for form, i in places)
        if asked is None or given is None:
            return
        shared = len(common(list(asked), list(given)))
        between = list(itertools.takewhile(lambda step: step[0] in ("text", "token"), given[shared:]))
        names = [step[1] for step in between if step[0] == "token" and "think>" not in step[1]]
        if names and shared == len(asked) and not self.thoughts.skip:
            raise Beyond(f"the model itself is to write {names[0]} before its answer")

    def rules(self) -> list[Rule]:
        self.structure()
        if not self.tools:
            self.opening()
        self.trimming()
        self.blanks()
        self.unlike()
        return self.now()
