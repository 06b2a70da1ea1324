"""Conversations made for one template, of what stands in it: a rule may hold for 600 conversations at random and fail at
the ninth message, at the 501st character or at the one word that the template replaces.

Constants: every number and every text in the template's expressions, those that Python computes of them included.
Probes: conversations and texts of every such length and one less and more, texts that are, begin with, end with and hold
every such text; and of every number of messages to 42, and texts to 10,000 characters, whatever the template says.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import jinja2.nodes as ast

from ...errors import ConvertError

LIMIT = 100_000  # messages, or characters of a text, in the longest probe
LARGE = 2_000  # up to here, what two numbers make is probed as well
PAIRS = 12  # numbers, or texts, of which pairs are tried, too: no more, as their number is this one's square
COUNTS = range(1, 43)
LENGTHS = (1, 64, 80, 100, 128, 200, 256, 261, 300, 400, 500, 512, 600, 1000, 1024, 2000, 2048, 3000, 4000, 5000, 8192, 10**4)
WORDS = ("HELLO", "hello", "Title Case", "42", "½", "-1.5", "x_1", "True")  # what str.isupper and its like tell apart
THOUGHTS = "<think>\na\n</think>\n\n"
SEARCHES = ("startswith", "endswith", "find", "rfind", "index", "count")


class Unprobed(ConvertError):
    """The template does what no conversation of a bearable length shows."""


@dataclass(frozen=True)
class Probe:
    """A conversation, and for a refusal what it has: "with 9 messages"."""

    about: str
    messages: list[dict]
    generate: bool
    think: bool | None = None


@dataclass
class Constants:
    """What stands in a template: `words` texts; `tested` those that its conditions look for in others, or compare with,
    which only a user who writes them meets; `numbers` without their signs."""

    words: set[str] = field(default_factory=set)
    tested: set[str] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)


# ---- the template --------------------------------------------------------------------------------


def constants(tree: ast.Template) -> Constants:
    """Raises Unprobed for a number that is too large to try."""
    out = Constants()
    for node in tree.find_all(ast.Expr):
        value = value_of(node)
        if isinstance(value, str) and value:
            out.words.add(value)
            if value.isdecimal() and len(value) < 6:
                out.numbers.add(int(value))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            if abs(value) > LIMIT:
                raise Unprobed(f"it has the number {value!r} in line {node.lineno}: nothing so long can be tried")
            out.numbers |= {int(abs(value)), int(abs(value)) + (value % 1 > 0)}
    out.words |= {str(n) for n in out.numbers}
    out.tested = {word for word in map(value_of, conditions(tree)) if isinstance(word, str) and word.strip()}
    return out


def value_of(node: ast.Expr):
    """The constant that an expression is; None if it is none."""
    if isinstance(node, (ast.Mul, ast.Pow)):  # which the sandbox leaves to run time
        left, right = value_of(node.left), value_of(node.right)
        if not all(isinstance(n, (int, float)) and abs(n) <= LIMIT for n in (left, right)):
            return None
        if isinstance(node, ast.Mul):
            return left * right
        return left**right if left > 0 and 0 <= right <= 9 else None
    try:
        return node.as_const()
    except ast.Impossible:
        return None


def conditions(tree: ast.Template) -> Iterator[ast.Expr]:
    """What is looked for or compared with: 'x' in text, text == 'x', text in ['x', 'y'], text.startswith('x')."""
    found = []
    for test in tree.find_all(ast.Compare):
        found += [test.expr, *(operand.expr for operand in test.ops)]
    for call in tree.find_all(ast.Call):
        if isinstance(call.node, ast.Getattr) and call.node.attr in SEARCHES:
            found += call.args[:1]
    for expr in found:
        yield from expr.items if isinstance(expr, (ast.List, ast.Tuple)) else (expr,)


def near(numbers: Iterable[int], least: int) -> list[int]:
    """The numbers from `least` on, and what is one and two more and one less; while small, what pairs of them make."""
    all_of = set(numbers)
    small = sorted(n for n in all_of if 1 < n <= LARGE)[:PAIRS]
    for a, b in itertools.combinations_with_replacement([2, *small], 2):
        all_of |= {n for n in (a + b, b - a, a * b, b // a) if n <= LARGE}
    return sorted({n + d for n in all_of for d in (-1, 0, 1, 2) if n + d >= least})


# ---- conversations -------------------------------------------------------------------------------


def talk(texts: list[str], system: str | None) -> list[dict]:
    """Messages of these texts, the user's first."""
    out = [] if system is None else [{"role": "system", "content": system}]
    return out + [{"role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(texts)]


def of_counts(known: Constants) -> Iterator[Probe]:
    """Conversations of many messages."""
    for n in sorted({*COUNTS, *near(known.numbers, 1)}):
        for system, thoughts, think in ((None, n % 4 < 2, None), ("s", n % 4 > 1, (True, False)[n % 2])):
            texts = [f"{THOUGHTS if thoughts and i % 2 else ''}m{i % 10}" for i in range(n)]
            messages = talk(texts, system)
            yield Probe(f"with {len(messages)} messages", messages, system is None or n % 3 > 0, think)


def lengthy(n: int) -> Iterator[tuple[str, str]]:
    """Texts of n characters, words and lines, and of words that are n characters together."""
    yield f"of {n} characters", "x" * n
    yield f"of {n} characters", ("two words, " * (n // 11 + 1))[: n - 1] + "x"
    if n <= LARGE * 10:
        yield f"of {n} words", " ".join(["a"] * n)
        yield f"of {n} lines", "\n".join(["a"] * n)


def of_lengths(known: Constants) -> Iterator[Probe]:
    """Texts of many characters, words and lines; of the longest, in a conversation of many messages."""
    lengths = sorted({*LENGTHS, *near(known.numbers, 1)})
    for n, (about, text) in ((n, made) for n in lengths for made in lengthy(n)):
        about = f"with a text {about}"
        yield Probe(about, talk([text] * 3, text), True)
        yield Probe(about, talk(["q", THOUGHTS + text, "r", text], None), False)
        if n <= LARGE:
            for place in range(4):
                yield Probe(about, placed(text, place, 3, "x"), True)
    many = max([len(COUNTS), *(2 * n + 2 for n in known.numbers if n <= LARGE // 2)])
    for n in (max((n for n in lengths if n * many <= 10**7), default=1), 500):
        yield Probe(f"with {many} texts of {n} words", talk([" ".join(["a"] * n)] * many, None), True)


def placed(text: str, place: int, turns: int, answer: str) -> list[dict]:
    """That text in one message: the system's for `turns`; the others are short."""
    texts = [text if i == place else answer if i % 2 else "q" for i in range(turns)]
    return talk(texts, text if place == turns else None)


def shapes(word: str) -> list[str]:
    """Texts that are, begin with, end with and hold a word, once and often, alone in its line and not."""
    often = f" {word}" * len(COUNTS)
    return [word, f"{word}x", f"x{word}", f"x{word}x", f"{word} x {word}", f"{word}\nx\n{word}", f"x{often} x"]


def of_word(word: str, thorough: bool) -> Iterator[Probe]:
    """That word in messages of every role. Thorough: also before later messages, and together with a system text."""
    for text in shapes(word):
        yield from of_text(text, f"with {word!r} in a message", thorough)
    yield Probe(f"with {word!r} in {len(COUNTS)} messages", talk([f"x {word} x"] * len(COUNTS), None), True)


def of_pairs(words: Iterable[str]) -> Iterator[tuple[tuple[str, str], Probe]]:
    """Two words in one message: text.startswith('x') and text.endswith('y')."""
    for one, other in itertools.permutations(sorted(words)[:PAIRS], 2):
        for text in (f"{one}x{other}", f"{one}\nx\n{other}"):
            for probe in of_text(text, f"with {one!r} and {other!r} in a message", True):
                yield (one, other), probe


def of_text(text: str, about: str, thorough: bool) -> Iterator[Probe]:
    """A text as each message alone, and as all at once; the other answers with thoughts and, if thorough, without."""
    for turns in (3, 5) if thorough else (3,):
        yield Probe(about, talk([text] * turns, text), True)
        yield Probe(about, talk([text] * (turns + 1), None), False)
        for place, answer in itertools.product(range(turns + 1), (THOUGHTS + "b", "b") if thorough else (THOUGHTS + "b",)):
            messages = placed(text, place, turns, answer)
            yield Probe(about, messages, True)
            if thorough and place < turns:
                yield Probe(about, [{"role": "system", "content": "s"}, *messages], place % 2 > 0)
