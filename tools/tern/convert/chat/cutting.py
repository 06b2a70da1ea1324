"""A rendering cut into what it was made of: literals, and the texts and values that it was asked to write.

In:  a text, and the pieces that may stand in it. Out: literals as strings, and pieces as (owner, step).
"""

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..tokenizers.tokenizer import split_at
from .errors import Beyond
from .rules import Program, Step

FIRST_STAND_IN = 0xF0000  # private characters, one a piece


@dataclass(frozen=True)
class Piece:
    """A text that may be found. `owner`: the number of its message; `often`: it may be written more than once; `lead`:
    what its text begins with and is a literal."""

    text: str
    owner: int
    step: Step
    often: bool = False
    lead: str = ""


def units(text: str, special: frozenset[str]) -> list[str]:
    """Special tokens whole, all else as characters."""
    return [u for piece in split_at(text, special) for u in ([piece] if piece in special else piece)]


def common(a: list[str], b: list[str]) -> list[str]:
    return [x for x, _ in itertools.takewhile(lambda p: p[0] == p[1], zip(a, b))]


def steps(text: str, special: frozenset[str]) -> Program:
    return tuple(("token" if piece in special else "text", piece) for piece in split_at(text, special))


def cut_up(out: str, pieces: Iterable[Piece]) -> list[str | Piece]:
    """Literals and pieces in turn, beginning and ending with a literal. Longer pieces hide the shorter ones in them."""
    found: list[Piece] = []
    for piece in sorted(pieces, key=lambda p: -len(p.text)):
        n = out.count(piece.text) if piece.text else 0
        if n > 1 and not piece.often:
            raise Beyond("it writes a text twice")
        if n:
            out = out.replace(piece.text, piece.lead + chr(FIRST_STAND_IN + len(found)))
            found.append(piece)
    if not found:
        return [out]
    cuts = re.split(f"([{chr(FIRST_STAND_IN)}-{chr(FIRST_STAND_IN + len(found) - 1)}])", out)
    return [found[ord(cut) - FIRST_STAND_IN] if i % 2 else cut for i, cut in enumerate(cuts)]


def program(cuts: Iterable[str | Piece], special: frozenset[str]) -> Program:
    """The same as steps."""
    return tuple(step for c in cuts for step in ((c.step,) if isinstance(c, Piece) else steps(c, special)))
