"""How long a tokenizer's steps can make a text. Steps work one after another, so that three that write 256 bytes for a
byte write 16 MB for it: this is computed from the steps, before the reference package is given any text.

In:  a Tokenizer with its steps. Out: nothing, or a refusal. ADDING A STEP that makes texts longer: its branch in _before.
"""

import sys
import unicodedata
from dataclasses import dataclass
from functools import cache

from ...errors import ConvertError
from . import charsmap
from .tokenizer import NORMALIZED, Tokenizer

GROWTH = 32  # of src/text/growth.h: bytes that a step may make of each byte of a text
ADDED_MAX = 1024  # of src/text/added.h: bytes of an added token, before and after the normalizer
_MOST = 1 << 20  # far above what is refused; keeps the numbers small


@dataclass
class Bound:
    """At most how many bytes the steps still to come make of a text: the sum of its characters' bounds, and `once`."""

    known: dict[str, int]  # characters that a step changes
    extra: int = 0  # above its own length, for every other character
    once: int = 0  # for what is put before a text, whose parts have a character or more

    def of(self, text: str) -> int:
        return min(sum(self.known[c] if c in self.known else size(c) + self.extra for c in text), _MOST)


def size(c: str) -> int:
    """Bytes of a character in UTF-8."""
    return 1 + (c > "\x7f") + (c > "\u07ff") + (c > "\uffff")


@cache
def _decompositions() -> dict[str, str]:
    every = (chr(c) for c in range(0x80, sys.maxunicode + 1))
    return {c: parts for c in every if (parts := unicodedata.normalize("NFD", c)) != c}


def _replaced(after: Bound, table: dict[str, str]) -> dict[str, int]:
    """Each text's first character has the bound of what the text becomes."""
    made: dict[str, int] = {}
    for text, becomes in table.items():
        made[text[0]] = max(made.get(text[0], size(text[0])), after.of(becomes))
    return after.known | {c: n if c in table else max(n, after.of(c)) for c, n in made.items()}


def _normal_form(after: Bound, composed: bool) -> dict[str, int]:
    """Each character is its parts; the first of them may become any character that begins with it."""
    table, first = _decompositions(), Bound(dict(after.known), after.extra)
    for c, parts in table.items() if composed else ():
        first.known[parts[0]] = max(first.of(parts[0]), after.of(c))
    return first.known | {c: max(size(c), first.of(parts)) for c, parts in table.items()}


def _prefixed(after: Bound, prefix: str) -> Bound:
    """A prefix before every word, which may be any character that does not begin the prefix."""
    more = after.of(prefix)
    known = {c: min(n + more, _MOST) for c, n in after.known.items()} | {prefix[0]: after.of(prefix[0])}
    return Bound(known, min(after.extra + more, _MOST), after.once)


def _before(step: dict, after: Bound) -> Bound:
    """The bound before a step, from that after it."""
    kind = step["step"]
    if kind == "prepend":
        return Bound(after.known, after.extra, min(after.once + after.of(step["text"]), _MOST))
    if kind == "prefix_space":
        return _prefixed(after, " ")
    if kind == "metaspace":
        spaces = _replaced(after, {" ": step["text"]})
        once = after.of(step["text"]) if step["scheme"] == 1 else 0
        after = _prefixed(after, step["text"]) if step["scheme"] == 2 else after
        return Bound(after.known | {" ": spaces[" "]}, after.extra, min(after.once + once, _MOST))
    if kind in ("nfc", "nfd"):
        return Bound(_normal_form(after, kind == "nfc"), after.extra, after.once)
    if kind in ("replace", "replace_runs"):
        table = {step["from"] * (1 + (kind == "replace_runs")): step["to"]}
    elif kind == "charsmap":
        table = charsmap.table(step)
    else:
        return after  # makes no text longer
    return Bound(_replaced(after, table), after.extra, after.once)


def bound_of(steps: list[dict]) -> Bound:
    """The bound before the first of the steps of a normalizer and a pre-tokenizer."""
    bound = Bound({})
    for step in reversed(steps):
        bound = _before(step, bound)
    return bound


def check(t: Tokenizer) -> None:
    """Refuses steps that can make more of a text than the engine allows."""
    if any(step["step"] == "replace" and not step["from"] for step in t.normalizer):
        raise ConvertError(f"{t.origin}: the normalizer replaces an empty text, which is not supported")
    bound = bound_of([*t.normalizer, *t.pre])
    worst = max([1 + bound.extra + bound.once, *((n + bound.once) / size(c) for c, n in bound.known.items())])
    if worst > GROWTH:
        raise ConvertError(
            f"{t.origin}: the normalizer and the pre-tokenizer can make a text more than {GROWTH} times as long, "
            "which is not supported"
        )


def check_added(t: Tokenizer, normalizer) -> None:
    """Refuses added tokens that are too long for the engine; `normalizer` is the reference package's, or None."""
    for a in t.added:
        forms = [a.content, normalizer.normalize_str(a.content)] if normalizer and a.flags & NORMALIZED else [a.content]
        longest = max(len(form.encode()) for form in forms)
        if longest > ADDED_MAX:
            raise ConvertError(
                f"{t.origin}: the added token {a.content[:40]!r} has {longest} bytes, normalized where it says so; "
                f"at most {ADDED_MAX} are supported"
            )
