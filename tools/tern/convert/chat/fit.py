"""Finds the rules that a chat template follows, by rendering conversations whose texts are marks.

1. Conversations of every form (with and without a system text, 1 to 6 messages, with and without thoughts, asked for an
   answer or not, with thinking or not) show what stands between the marks: literals and parts, per message a program.
2. Each program is tried with whitespace around its texts: what is trimmed.
3. Where an empty or blank text is treated as none, that becomes a condition.
   So does a thought without an answer, an empty thought, and a mark without its other.
4. A decision tree over the conditions gives the rules.
What does not fit is refused with the reason; nothing is believed before learn.py has proved it on other conversations.
"""

import itertools
from dataclasses import dataclass, replace

from ..tokenizers.tokenizer import split_at
from . import rules as cr
from .errors import Beyond, NoRule, Rejected
from .jinja import Template
from .rules import Program, Rule, Thoughts

MAX_MESSAGES = 6
MARK = "qz{}zq"
EDGES = ("\n \t\n", " \n\u3000 ", "\n\n", " ", "\x1c\n")
BLANKS = ("", " ", "\n", " \n\t ")


@dataclass(frozen=True)
class Form:
    """What is asked of the template, apart from the texts."""

    turns: int
    system: bool
    generate: bool
    think: bool
    thoughts: bool = False


def forms(knows_thinking: bool) -> list[Form]:
    thinks = (True, False) if knows_thinking else (False,)
    return [
        Form(n, system, generate, think, thoughts)
        for n, system, generate, think, thoughts in itertools.product(
            range(1, MAX_MESSAGES + 1), (False, True), (False, True), thinks, (False, True)
        )
        if n > 1 or not thoughts
    ]


def conversation(form: Form, thoughts: Thoughts, texts: dict | None = None) -> list[dict]:
    """Messages whose texts are marks, or `texts` by the number of the message ("system" for that)."""
    out, texts = [], texts or {}
    if form.system:
        out.append({"role": "system", "content": texts.get("system", MARK.format("s"))})
    for i in range(form.turns):
        text = MARK.format(i)
        if i % 2 and form.thoughts:
            text = Marked(MARK.format(f"t{i}"), text).text(thoughts)
        out.append({"role": "assistant" if i % 2 else "user", "content": texts.get(i, text)})
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


def marked(thought: str, answer: str) -> list[Marked]:
    """What a template may write in another way than a thought and an answer."""
    blank = [m for text in BLANKS for m in (Marked(thought, text), Marked(text, answer))]
    return [*blank, Marked(thought, answer, begins=False), Marked(thought, answer, ends=False)]


# ---- literals ------------------------------------------------------------------------------------


def units(text: str, special: frozenset[str]) -> list[str]:
    """Special tokens whole, all else as characters."""
    return [u for piece in split_at(text, special) for u in ([piece] if piece in special else piece)]


def common(a: list[str], b: list[str]) -> list[str]:
    return [x for x, _ in itertools.takewhile(lambda p: p[0] == p[1], zip(a, b))]


def steps(text: str, special: frozenset[str]) -> Program:
    return tuple(("token" if piece in special else "text", piece) for piece in split_at(text, special))


# ---- structure -----------------------------------------------------------------------------------


@dataclass
class Seen:
    """One rendering, cut: before[i] is what stands before message i (the last: behind all), parts[i] what it became.

    Literals are strings, parts are steps.
    """

    form: Form
    system: str | None
    turns: list[str]
    before: list[list]
    parts: list[list]
    thoughts: Thoughts

    def when(self, i: int) -> int:
        always = cr.when_always(self.system, self.form.generate, self.form.think)
        n = len(self.turns)
        return always | (cr.when_end(n) if i == n else cr.when_message(self.turns[i], i, n, self.thoughts))


def cut(form: Form, messages: list[dict], out: str, thoughts: Thoughts) -> Seen:
    """Finds the marks of a rendering."""
    turns = [m["content"] for m in messages if m["role"] != "system"]
    system = messages[0]["content"] if form.system else None
    wanted: list[tuple[str, int, tuple]] = []
    if system and MARK.format("s") in system:
        wanted.append((system, -1, ("system",)))
    for i, text in enumerate(turns):
        if text in out:
            wanted.append((text, i, ("whole",)))
        else:
            thought = MARK.format(f"t{i}")
            if i % 2 and form.thoughts and thought in out:
                wanted.append((thought, i, ("thinks",)))
            wanted.append((thoughts.answer(text), i, ("answer",)))
    before: list[list] = [[] for _ in range(len(turns) + 1)]
    parts: list[list] = [[] for _ in turns]
    at, message = 0, 0
    for text, i, step in sorted(wanted, key=lambda w: out.find(w[0])):
        found = out.find(text)
        if found < 0:
            if step == ("system",):
                continue  # it may have its place in other forms
            raise Beyond("it leaves out a message")
        if out.count(text) > 1:
            raise Beyond("it writes a text twice")
        if i >= 0 and (i < message - 1 or i > message):
            raise Beyond("it changes the order of messages")
        if i < 0 or not parts[i]:
            before[message].append(out[at:found])
        else:
            parts[i].append(out[at:found])
        if i < 0:
            before[message].append(step)
        else:
            parts[i].append(step)
            message = i + 1
        at = found + len(text)
    if message != len(turns):
        raise Beyond("it leaves out a message")
    before[message].append(out[at:])
    if any(isinstance(b, tuple) for b in before[message]):
        raise Beyond("it puts the system text behind all messages")
    return Seen(form, system, turns, before, parts, thoughts)


def suffixes(seen: list[Seen], special: frozenset[str]) -> dict[int, str]:
    """By role, what always stands behind a message: the rest belongs to what follows."""
    out: dict[int, list[str]] = {}
    for s in seen:
        for i in range(len(s.turns)):
            follows = units(s.before[i + 1][0], special)
            out[i % 2] = common(out[i % 2], follows) if i % 2 in out else follows
    return {role: "".join(u) for role, u in out.items()}


def programs(s: Seen, ends: dict[int, str], special: frozenset[str]) -> dict[int, Program]:
    """By the number of the message (the last: what follows them), its program without trimming."""
    out = {}
    for i in range(len(s.turns) + 1):
        before = list(s.before[i])
        if i > 0:
            before[0] = before[0][len(ends[(i - 1) % 2]) :]
        after = [] if i == len(s.turns) else [*s.parts[i], ends[i % 2]]
        out[i] = tuple(
            step for piece in before + after for step in (steps(piece, special) if isinstance(piece, str) else (piece,))
        )
    return out


# ---- the tree ------------------------------------------------------------------------------------

BITS = (cr.FIRST, cr.SYSTEM, cr.GENERATE, cr.THINK, cr.LAST, cr.FINAL, cr.THOUGHT)
BITS += (cr.SYSTEM_EMPTY, cr.SYSTEM_BLANK, cr.EMPTY, cr.BLANK, cr.ANSWER_BLANK, cr.THINKS_EMPTY, cr.THINKS_BLANK, cr.MARK)


def tree(found: dict[int, Program | None], mask: int = cr.KIND, value: int = 0) -> list[Rule]:
    """Rules for conditions -> program, splitting at the condition that leaves the fewest programs on both sides."""
    kinds = set(found.values())
    if len(kinds) == 1:
        (program,) = kinds
        return [] if program is None else [Rule(mask, value, program)]
    best = None
    for bit in BITS:
        sides = [{w: p for w, p in found.items() if bool(w & bit) == on} for on in (True, False)]
        if bit & mask or not all(sides):
            continue
        cost = sum(len(set(side.values())) for side in sides)
        if best is None or cost < best[0]:
            best = cost, bit, sides
    if best is None:
        raise Beyond("it writes the same kind of message in different ways")
    _, bit, (on, off) = best
    return tree(on, mask | bit, value | bit) + tree(off, mask | bit, value)


def rules_of(found: dict[int, Program | None]) -> list[Rule]:
    out = []
    for kind in (cr.USER, cr.ASSISTANT, cr.END):
        mine = {w: p for w, p in found.items() if w & cr.KIND == kind}
        if mine:
            out += tree(mine, cr.KIND, kind)
    return out


# ---- trimming ------------------------------------------------------------------------------------


class Fit:
    """The search for the rules of one template; `special`: texts of the tokenizer's special tokens."""

    def __init__(self, template: Template, special: frozenset[str], thoughts: Thoughts):
        self.template, self.special, self.thoughts = template, special, thoughts
        self.outs: dict[tuple, str | None] = {}
        self.knows = self.knows_thinking()
        self.found: dict[int, Program | None] = {}
        self.made: tuple[dict, list[Rule]] | None = None  # the rules of `found` as it was then
        self.example: dict[int, tuple[Form, int]] = {}  # a form and the number of a message with these conditions

    def knows_thinking(self) -> bool:
        """Whether being told to think changes anything."""
        if self.template.thinking is None:
            return False
        return any(self.try_render(f, True) != self.try_render(f, False) for f in forms(False))

    def try_render(self, form: Form, think: bool | None, texts: dict | None = None) -> str | None:
        try:
            return self.template.render(conversation(form, self.thoughts, texts), form.generate, think)
        except Rejected:
            return None

    def out(self, form: Form, texts: dict | None = None) -> str | None:
        key = form, tuple((texts or {}).items())
        if key not in self.outs:
            self.outs[key] = self.try_render(form, form.think if self.knows else None, texts)
        return self.outs[key]

    def predicted(self, form: Form, texts: dict | None = None) -> str | None:
        try:
            messages = conversation(form, self.thoughts, texts)
            return cr.text_of(cr.render(self.now(), messages, form.generate, form.think, self.thoughts))
        except NoRule:
            return None

    def now(self) -> list[Rule]:
        """The rules of what was found so far."""
        if self.made is None or self.made[0] is not self.found:
            self.made = self.found, rules_of(self.found)
        return self.made[1]

    def structure(self) -> None:
        """Step 1: `found`, and an example of each of its conditions."""
        seen = []
        for form in forms(self.knows):
            text = self.out(form)
            if text is None:
                when = cr.when_always("x" if form.system else None, form.generate, form.think) | cr.when_end(form.turns)
                self.learn(when, None)
            else:
                seen.append(cut(form, conversation(form, self.thoughts), text, self.thoughts))
        if not seen:
            raise Beyond(f"it rejects every conversation: {self.why()}")
        if not any(("system",) in b for s in seen for b in s.before):  # it takes a system text and drops it
            for s in seen:
                if s.form.system:
                    self.learn(s.when(len(s.turns)), None)
            seen = [s for s in seen if not s.form.system]
        self.ends = suffixes(seen, self.special)
        for s in seen:
            for i, program in programs(s, self.ends, self.special).items():
                self.learn(s.when(i), program)
                self.example.setdefault(s.when(i), (s.form, i))

    def why(self) -> str:
        try:
            self.template.render(conversation(Form(1, False, True, False), self.thoughts), True)
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
            parts = [name for name in ("system", "thinks", "answer", "whole") if (name,) in program]
            while parts and left:
                form, i = self.example[left[0]]
                fitted = program
                for name in parts:
                    fitted = self.trim_part(left, fitted, name, form, i)
                fitted = self.widen(left, fitted, form, i)
                alike = [when for when in left if self.holds(when, fitted, parts)]
                self.replace(alike or left[:1], fitted)
                left = [when for when in left[1:] if when not in alike]

    def holds(self, when: int, program: Program, parts: list[str]) -> bool:
        """Whether that program is right there."""
        form, i = self.example[when]
        texts = [t for name in parts for t in self.edged(name, form, i)[:: len(EDGES) + 1]]
        return self.matches([when], program, form, texts) == len(texts)

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

    def edged(self, name: str, form: Form, i: int, message: "Marked | None" = None) -> list[dict]:
        """Conversations in which that part alone has whitespace around it, of such a message where one is given."""
        m = message or Marked(MARK.format(f"t{i}"), MARK.format(i))
        out = []
        for a, b in itertools.product(EDGES, EDGES):
            if name == "system":
                out.append({"system": a + MARK.format("s") + b})
            elif name == "whole" and not (form.thoughts and i % 2):
                out.append({i: a + MARK.format(i) + b})
            elif name == "thinks":
                out.append({i: replace(m, thought=a + m.thought + b).text(self.thoughts)})
            elif name == "answer" and not self.thoughts.form & cr.SPANS:
                out.append({i: replace(m, answer=a + m.answer + b).text(self.thoughts)})
            else:
                out.append({i: a + m.text(self.thoughts) + b})
        return out

    def trim_part(
        self, whens: list[int], program: Program, name: str, form: Form, i: int, message: "Marked | None" = None, fixed: dict | None = None
    ) -> Program:
        """The program with that part trimmed as the template does, in conversations with these `fixed` texts."""
        texts = [t | (fixed or {}) for t in self.edged(name, form, i, message)]
        for right, left in itertools.product(range(3), range(3)):
            new = program
            if left or right:
                at = program.index((name,))
                new = (*program[:at], ("open",), (name,), ("close", left, right), *program[at + 1 :])
            if self.matches(whens, new, form, texts[:2]) == 2 and self.matches(whens, new, form, texts) == len(texts):
                return new
        raise Beyond(f"it changes the {'system text' if name == 'system' else 'texts of messages'}")

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
        plain, other, alike = self.now(), {}, {}
        for form in forms(self.knows):
            if form.thoughts or self.out(form) is None or self.predicted(form) is None:
                continue
            for place, text in itertools.product((["system"] if form.system else []) + list(range(form.turns)), BLANKS):
                out = self.out(form, {place: text})
                if out is not None and out != self.predicted(form, {place: text}):
                    other |= self.blank(form, {place: text}, place, out)
                elif place != "system":
                    when, _ = self.written(form, {place: text})[place]
                    alike[when] = cr.find(plain, when)
        if other:
            self.found = alike | self.found | other

    def written(self, form: Form, texts: dict) -> list[tuple[int, str]]:
        """Conditions of each message and of the end, and what they are written as."""
        messages = conversation(form, self.thoughts, texts)
        turns = [m["content"] for m in messages if m["role"] != "system"]
        system = messages[0]["content"] if form.system else None
        always, out = cr.when_always(system, form.generate, form.think), []
        for i, text in enumerate([*turns, ""]):
            when = always | (cr.when_end(i) if i == len(turns) else cr.when_message(text, i, len(turns), self.thoughts))
            out.append((when, cr.text_of(cr.run(cr.find(self.now(), when), system, text, self.thoughts))))
        return out

    def blank(self, form: Form, texts: dict, place, out: str) -> dict[int, Program]:
        """What that conversation, with an empty or blank text at `place`, shows to be written in another way."""
        if place == "system":
            s = cut(form, conversation(form, self.thoughts, texts), out, self.thoughts)
            return {s.when(i): self.like(p) for i, p in programs(s, self.ends, self.special).items()}
        written = self.written(form, texts)
        head, tail = ("".join(text for _, text in part) for part in (written[:place], written[place + 1 :]))
        if len(head) + len(tail) > len(out) or not out.startswith(head) or not out.endswith(tail):
            raise Beyond("it lets an empty text change what stands around it")
        left, system, right = out[len(head) : len(out) - len(tail)].partition(MARK.format("s"))
        program, when = steps(left, self.special), written[place][0]
        if system:
            program, known = (*program, ("system",), *steps(right, self.special)), self.found
            program = self.trim_part([when], program, "system", form, place, fixed=texts)
            self.found = known
        return {when: program}

    def unlike(self) -> None:
        """Step 3 of the parts of messages: thoughts without an answer, empty thoughts, and marks without their other."""
        plain, other, alike, seen = self.now(), {}, {}, set()
        for form in forms(self.knows):
            if not form.thoughts or self.out(form) is None or self.predicted(form) is None:
                continue
            for i in range(1, form.turns, 2):
                for message in marked(MARK.format(f"t{i}"), MARK.format(i)):
                    texts = {i: message.text(self.thoughts)}
                    when, _ = self.written(form, texts)[i]
                    kind = when, message.answer.strip() and message.thought
                    if kind in seen:
                        continue
                    seen.add(kind)
                    out = self.out(form, texts)
                    if out is not None and out != self.predicted(form, texts):
                        other[when] = self.unlike_others(form, i, message, out)
                    else:
                        alike[when] = cr.find(plain, when)
        if other:
            self.found = alike | self.found | other

    def unlike_others(self, form: Form, i: int, message: "Marked", out: str) -> Program:
        """The program of such a message i."""
        text, known = message.text(self.thoughts), self.found
        written = self.written(form, {i: text})
        head, tail = ("".join(text for _, text in part) for part in (written[:i], written[i + 1 :]))
        if len(head) + len(tail) > len(out) or not out.startswith(head) or not out.endswith(tail):
            raise Beyond("it lets an empty thought or answer change what stands around it")
        left, program = out[len(head) : len(out) - len(tail)], ()
        parts = [("thinks", self.thoughts.thinks(text)), ("answer", self.thoughts.answer(text))]
        parts = [("whole", text)] if text in left else parts
        for name, part in parts:
            if part.strip() and part in left:
                literal, _, left = left.partition(part)
                program += (*steps(literal, self.special), (name,))
        program += steps(left, self.special)
        for name, _ in parts:
            if (name,) in program:
                program = self.trim_part([written[i][0]], program, name, form, i, message)
        self.found = known
        return program

    def like(self, program: Program) -> Program:
        """The fitted program that this one is without its trimming, if there is one."""
        for fitted in self.found.values():
            if fitted is not None and tuple(s for s in fitted if s[0] not in ("open", "close")) == program:
                return fitted
        return program

    def opening(self) -> None:
        """An answer must begin where the template asks for it: special tokens between are the model's to write."""
        n = cr.when_always(None, True, False)
        asked = next((p for w, p in self.found.items() if w == n | cr.when_end(1)), None)
        given = next((p for w, p in self.found.items() if w == cr.when_message("x", 1, 3, self.thoughts)), None)
        if asked is None or given is None:
            return
        shared = len(common(list(asked), list(given)))
        between = list(itertools.takewhile(lambda step: step[0] in ("text", "token"), given[shared:]))
        names = [step[1] for step in between if step[0] == "token" and "think>" not in step[1]]
        if names and shared == len(asked):
            raise Beyond(f"the model itself is to write {names[0]} before its answer")

    def rules(self) -> list[Rule]:
        self.structure()
        self.opening()
        self.trimming()
        self.blanks()
        self.unlike()
        return self.now()
