"""How a template prints tools, calls, arguments and results, found by rendering conversations of marks.

In:  a template. Out: a Notation: rules of parts, and what stands in a rule of a message for a list or a result. A template
that prints them in a way of its own is refused with the reason (Beyond).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from . import rules as cr
from .cutting import Piece, cut_up, program, steps
from .errors import Beyond, Rejected
from .gemma_tools import dictsort
from .jinja import Template
from .printing import DECLARATION, GEMMA, PLAIN, REPR, SIGNATURE, TAGS, TAGS_APART, TYPESCRIPT, Style, printed, styles
from .rules import Call, Program, Rule, Step
from .shapes import TOOLS, call, tool
from .spoken import spoken

USER = {"role": "user", "content": "qzuzq"}
ODD = 'x"qz{}zq"\n<é>'  # a text that no two notations print alike
TYPES = ((cr.IS_TEXT, None), (cr.IS_NUMBER, 1.5), (cr.IS_BOOL, True), (cr.IS_NULL, None), (cr.IS_ARRAY, [1, "é'\"", None, True]),
         (cr.IS_OBJECT, {"a b": "\"'", "c": [False, 2.0]}))  # fmt: skip
OF_FUNCTIONS = (TYPESCRIPT, TAGS, TAGS_APART, DECLARATION)
GIVEN = (None, PLAIN, Style(REPR), Style(GEMMA))


@dataclass
class Calls:
    """Rules of a call and of arguments, and what stands before the first value of the first call, from the last value of a
    call to the first of the next (None: one call at most), and behind the last of all."""

    rules: list[Rule]
    before: str
    between: str | None
    after: str


@dataclass
class Notation:
    """What stands for the list of tools, rules of parts, what prints a result; `calls`: what stands around calls."""

    listed: Program
    parts: list[Rule]
    result: Step
    calls: Calls
    before_number: str = ""  # the literal before the number of a call


class Prints:
    """The search for them; `special`: texts of the tokenizer's special tokens, `added`: of all that it adds."""

    def __init__(self, template: Template, special: frozenset[str], added: frozenset[str]):
        self.template, self.special, self.added, self.refusal = template, special, added, ""

    def render(self, messages: list[dict], generate: bool = False, tools: list[dict] | None = None) -> str | None:
        try:
            return self.template.render(messages, generate, None, TOOLS if tools is None else tools)
        except Rejected as e:
            self.refusal = str(e)
            return None

    def notation(self) -> Notation:
        """All of it."""
        listed, tools = self.tools()
        calls = self.calls()
        program = calls.rules[0].program
        at = program.index(NUMBER) if NUMBER in program else -1
        before = calls.before if at == 0 else program[at - 1][-1] if at > 0 else ""
        return Notation(listed, [*tools, *calls.rules], self.result(), calls, before[-6:])

    # ---- tools -----------------------------------------------------------------------------------

    def tools(self) -> tuple[Program, list[Rule]]:
        """What stands for the list, and the rules of a tool."""
        tools = [tool(1), shuffled(tool(2)), tool(3)]
        out = self.render([USER], True, tools)
        if out is None:
            raise Beyond(f"it refuses tools: {self.refusal}")
        if any(t["function"]["name"] not in out for t in tools):
            raise Beyond("it does not list tools")
        functions = [t["function"] for t in tools]
        for what, all_of in (("T", tools), ("F", functions)):
            for style in styles():
                if printed(all_of, style) in out:
                    return (("value", what, style),), []
        for what, each in (("t", tools), ("f", functions)):
            for style in [*styles(), *map(Style, OF_FUNCTIONS)] if what == "f" else styles():
                found = [Piece(printed(one, style), i, ("value", what, style)) for i, one in enumerate(each)]
                if all(piece.text in out for piece in found):
                    return (("list", cr.TOOLS),), self.items(out, found, cr.TOOL)
        members = member_rules()
        text = [self.text(t, members) for t in tools]
        if all(t in out for t in text):
            which = self.members_listed(members)
            found = [Piece(t, i, ("list", which)) for i, t in enumerate(text)]
            return (("list", cr.TOOLS),), self.items(out, found, cr.TOOL) + members
        rules = self.items(out, self.fields(out, functions), cr.TOOL)
        return (("list", cr.TOOLS),), [*self.bare(rules), *rules]

    def members_listed(self, members: list[Rule]) -> int:
        """The list of members: all, or without `return` (Mistral)"""
        one = tool(4)
        one["function"] = {"return": {"type": "string"}} | one["function"]
        out = self.render([USER], True, [one]) or ""
        return cr.MEMBERS if self.text(one, members) in out else cr.NO_RETURN

    @staticmethod
    def text(tool: dict, members: list[Rule]) -> str:
        talk = cr.Talk([], [tool])
        return cr.text_of(cr.Writer(talk, cr.Thoughts(), members).list_of(cr.MEMBERS, None, tool))

    def fields(self, out: str, functions: list[dict]) -> list[Piece]:
        """Names, descriptions and parameters apart."""
        found = []
        signed = [printed(f, Style(SIGNATURE)) for f in functions]
        if all(text in out for text in signed):
            found += [Piece(text, i, ("value", "f", Style(SIGNATURE))) for i, text in enumerate(signed)]
        for what, name in (("n", "name"), ("d", "description"), ("p", "parameters"))[:: 2 if found else 1]:
            for style in (None, *styles()):
                texts = [printed(f[name], style) for f in functions]
                if all(text in out for text in texts):
                    found += [Piece(text, i, ("value", what, style), True) for i, text in enumerate(texts)]
                    break
            else:
                if name != "description":
                    raise Beyond(f"it lists tools in a notation of its own ({name})")
        return found

    def bare(self, rules: list[Rule]) -> list[Rule]:
        """Rules of a tool whose parameters have no properties, where these are written in another way."""
        one = tool(4)
        one["function"]["parameters"] = {"type": "object", "properties": {}}
        out, (last, *others) = self.render([USER], True, [one]), rules
        at = next((i for i, step in enumerate(last.program) if step[:2] == ("value", "p")), None)
        if out is None or at is None:
            return []
        writer = cr.Writer(cr.Talk([], [one]), cr.Thoughts())
        begin, whole = (cr.text_of(writer.run(p, None, cr.TOOL, one)) for p in (last.program[:at], last.program))
        found = out.find(begin) + len(begin)
        if whole in out or found < len(begin) or (end := out.find(self.tail, found)) < 0:
            return []
        made = []
        for rule in (last, *others):
            program = (*rule.program[:at], *self.steps(out[found:end]), *rule.program[at + 1 :])
            made.append(Rule(rule.mask | cr.HAS_PROPERTIES, rule.value, program))
        return made

    def items(self, out: str, pieces: list[Piece], kind: int) -> list[Rule]:
        """The rules of items that stand one behind the other, each of these pieces and the same literals."""
        cuts = cut_up(out, pieces)
        places = [i for i, c in enumerate(cuts) if isinstance(c, Piece)]
        self.tail = cuts[places[-1] + 1] if places else ""  # what stands behind the list
        items, between = [], []
        for owner in range(1 + max(p.owner for p in pieces)):
            mine = [i for i in places if cuts[i].owner == owner]
            if not mine or any(cuts[i].owner != owner for i in places if mine[0] < i < mine[-1]):
                raise Beyond("it mixes up the tools")
            items.append(program(cuts[mine[0] : mine[-1] + 1], self.special))
            if mine[-1] != places[-1]:
                between.append(cuts[mine[-1] + 1])
        if len(set(items)) > 1 or len(set(between)) > 1:
            raise Beyond("it writes tools in different ways")
        return with_between(kind, items[0], steps(between[0], self.special))

    # ---- calls -----------------------------------------------------------------------------------

    def calls(self) -> Calls:
        """The rules of a call and of arguments, and what stands around calls."""
        why = ""
        said = spoken(self.render([USER], True) or "", self.added)
        for self.template.spoken, self.template.text_arguments in ((None, False), (None, True), (said, False)):
            for n in (3, 1):
                calls = [odd_call(i) for i in range(n)]
                out = self.render([USER, asked(calls)])
                if out is None or any(c["function"]["name"] not in out for c in calls):
                    continue
                why = "it writes calls in a notation of its own"
                for pieces, rules in self.notations(out, calls):
                    if (found := self.call_rules(out, pieces, calls)) is not None:
                        return Calls([*found.rules, *rules], found.before, found.between, found.after)
        raise Beyond(why or ("it does not write calls" if out else f"it refuses calls: {self.refusal}"))

    def notations(self, out: str, calls: list[dict]) -> Iterator[tuple[list[Piece], list[Rule]]]:
        """Ways in which the arguments may be there: pieces, and the rules of an argument."""
        given = [c["function"]["arguments"] for c in calls]
        for style in styles():
            pieces = [Piece(printed(a, style), i, ("value", "a", style)) for i, a in enumerate(given)]
            if all(p.text in out for p in pieces):
                yield pieces, []
        for which in (cr.ARGUMENTS, cr.SORTED):
            rules = self.tagged(which)
            if rules:
                writer = cr.Writer(cr.Talk([]), cr.Thoughts(), rules)
                texts = [cr.text_of(writer.list_of(which, None, Call("", "", a, 0))) for a in given]
                if all(text in out for text in texts):
                    yield [Piece(text, i, ("list", which)) for i, text in enumerate(texts)], rules

    def call_rules(self, out: str, pieces: list[Piece], calls: list[dict]) -> Calls | None:
        """From the places of names, ids and arguments."""
        for i, c in enumerate(calls):
            pieces = [*pieces, Piece(c["function"]["name"], i, ("value", "n", None), True), Piece(c["id"], i, ("value", "i", None), True)]
        cuts = cut_up(out, pieces)
        owners = [(i, c.owner) for i, c in enumerate(cuts) if isinstance(c, Piece)]
        if [o for _, o in owners] != sorted(o for _, o in owners):
            return None
        regions = [[i for i, o in owners if o == k] for k in range(len(calls))]
        items = [cuts[region[0] : region[-1] + 1] for region in regions]
        before, after = cuts[0], cuts[-1]
        betweens = [cuts[region[0] - 1] for region in regions[1:]]
        if len(set(betweens)) > 1:  # the number of a call stands before all else
            head, tail = numbered(betweens, 1)
            if not before.endswith("0" + tail):
                return None
            items = [[Piece(str(k), k, NUMBER), tail, *item] for k, item in enumerate(items)]
            before, betweens = before.removesuffix("0" + tail), [head]
        items = [list(item) for item in items]
        for at, same in enumerate(zip(*items)):
            if isinstance(same[0], str) and len(set(same)) > 1:
                parted = numbered(list(same), 0)
                for item in items:
                    item[at : at + 1] = [parted[0], Piece("", 0, NUMBER), parted[1]]
                break
        programs = {program([c for c in item if c != ""], self.special) for item in items}
        if len(programs) > 1:
            return None
        between = betweens[0] if betweens else None
        return Calls(with_between(cr.CALL, programs.pop(), self.steps(between or "")), before, between, after)

    def tagged(self, which: int) -> list[Rule]:
        """The rules of an argument where each is written apart, or none."""
        items = [(f"qzk{'dbface'[i]}zq", ODD.format(i) if bit == cr.IS_TEXT else value) for i, (bit, value) in enumerate(TYPES)]
        items.append(("qzkzzq", ODD.format("z")))
        out, none = (self.render([USER, asked([call(0, a)])]) for a in (dict(items), {}))
        items = dictsort(dict(items)) if which == cr.SORTED else items
        literals, given, at = [], {}, 0
        for key, value in items if out and none else []:
            found = out.find(key, at)
            if found < 0:
                return []
            literals.append(out[at:found])
            at = found + len(key)
            texts = [printed(value, style) for style in GIVEN]
            best = min(((out.find(text, at), i) for i, text in enumerate(texts) if out.find(text, at) >= 0), default=None)
            if best is None:
                return []
            given[cr.when_value(value)] = GIVEN[best[1]]
            literals.append(out[at : best[0]])
            at = best[0] + len(texts[best[1]])
        if len({*literals[1::2]}) != 1 or len({*literals[2::2]}) != 1:
            return []
        between = literals[2]
        edges = around(literals[0], out[at:], between, none)
        if edges is None:
            return []
        opens, closes = edges
        if given[cr.IS_TEXT] == Style(GEMMA):
            given = {bit: Style(GEMMA) if printed(x, Style(GEMMA)) == printed(x, given[bit]) else given[bit] for bit, x in TYPES}
        if given[cr.IS_TEXT] is None and not closes.strip():
            raise Beyond("it writes texts in arguments without quotes or an end: they cannot be read back")
        apart, rules = between[len(closes) : len(between) - len(opens)], []
        for bit, style in given.items():
            item = (*self.steps(opens), ("value", "k", None), *self.steps(literals[1]), ("value", "v", style), *self.steps(closes))
            rules += with_between(cr.ARGUMENT, item, self.steps(apart), bit)
        return rules

    def id_length(self) -> int:
        """How many characters the id of a call must have; 0: any."""
        one = call(1, {"a": "b"})
        return 0 if self.render([USER, asked([one | {"id": "call_1"}])]) is not None else len(one["id"])

    def opens_results(self, token: str) -> bool:
        """Whether it stands before each result: a model that has written calls ends with it, and does not go on."""
        calls = [call(1, {"a": "b"}), call(2, {"a": "b"})]
        results = [{"role": "tool", "tool_call_id": c["id"], "name": c["function"]["name"], "content": "qzrzq"} for c in calls]
        return (self.render([USER, asked(calls), *results]) or "").count(token) == len(calls)

    def steps(self, text: str) -> Program:
        return steps(text, self.special)

    # ---- results ---------------------------------------------------------------------------------

    def result(self) -> Step:
        """How the text of a result is printed."""
        one, text = call(1, {"a": "b"}), ODD.format("r")
        for more in ([], [{"role": "assistant", "content": "qzazq"}]):
            result = {"role": "tool", "tool_call_id": one["id"], "name": one["function"]["name"], "content": text}
            out = self.render([USER, asked([one]), result, *more])
            if out is None:
                continue
            if text in out:
                return ("whole",)
            for style in styles():
                if printed(text, style) in out:
                    return ("value", "w", style)
        raise Beyond("it writes results in a notation of its own" if out else f"it refuses results: {self.refusal}")


NUMBER = ("value", "c", None)


def odd_call(i: int) -> dict:
    return call(70 + i, {f"qzk{i}zq": ODD.format(i), "n": i + 0.5, "e": 1e20, "l": [None, True, {"ü": "é'\""}]})


def asked(calls: list[dict], text: str = "") -> dict:
    return {"role": "assistant", "content": text, "tool_calls": calls}


def shuffled(one: dict) -> dict:
    """A tool with its members in another order, and one more, of its parameters as well."""
    f = one["function"]
    parameters = f["parameters"] | {"additionalProperties": False}
    return {"type": "function", "function": {"description": f["description"], "name": f["name"], "strict": True, "parameters": parameters}}


def member_rules() -> list[Rule]:
    """Of the members of a function as JSON whose texts are not escaped."""
    rules = []
    for bit, quote, style in ((cr.IS_TEXT, '"', None), (0, "", PLAIN)):
        item = (("text", '"'), ("value", "k", None), ("text", '": ' + quote), ("value", "v", style), *((("text", quote),) if quote else ()))
        rules += with_between(cr.MEMBER, item, (("text", ", "),), bit)
    return rules


def with_between(kind: int, item: Program, between: Program, more: int = 0) -> list[Rule]:
    """The rules of an item, and of the last, behind which nothing stands."""
    if not between:
        return [Rule(cr.KIND | more, kind | more, item)]
    last = cr.PART_LAST | more
    return [Rule(cr.KIND | last, kind | last, item), Rule(cr.KIND | more, kind | more, (*item, *between))]


def numbered(texts: list[str], first: int) -> tuple[str, str]:
    """What stands before and behind the number in texts that differ in it alone. Raises Beyond for others."""
    for at in range(len(texts[0])):
        if texts[0].startswith(str(first), at):
            parts = texts[0][:at], texts[0][at + len(str(first)) :]
            if all(text == parts[0] + str(first + i) + parts[1] for i, text in enumerate(texts)):
                return parts
    raise Beyond("it writes calls in different ways")


def around(before: str, after: str, between: str, none: str) -> tuple[str, str] | None:
    """What opens and what closes each argument, from what stands before the first, behind the last and between two, and
    from the text without arguments."""
    found = []
    for at in range(len(none) + 1):
        if not before.startswith(none[:at]) or not after.endswith(none[at:]):
            continue
        opens, closes = before[at:], after[: len(after) - (len(none) - at)]
        if between.startswith(closes) and between.endswith(opens) and len(opens) + len(closes) <= len(between):
            found.append((opens[:1].isspace(), opens[:1].isalnum(), opens, closes))
    return min(found)[2:] if found else None
