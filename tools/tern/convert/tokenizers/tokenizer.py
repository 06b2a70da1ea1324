"""The object that every reader of a tokenizer gives: what the section `tokenizer` holds (src/text/TOKENIZER.md)."""

import re
from dataclasses import dataclass, field

import numpy as np

from ...errors import ConvertError

ABSENT, NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(7)
SPECIAL, LSTRIP, RSTRIP, SINGLE_WORD, NORMALIZED = 1, 2, 4, 8, 16
FLAGS = {"special": SPECIAL, "lstrip": LSTRIP, "rstrip": RSTRIP, "single_word": SINGLE_WORD, "normalized": NORMALIZED}
BLOCK = "\u2581"


@dataclass
class Added:
    """An added token: found in the text whatever stands around it."""

    id: int
    content: str
    flags: int = 0


@dataclass
class Tokenizer:
    """What the section holds; the fields are named as its keys."""

    kind: str  # "spm", "bpe", "unigram" or "word_level"
    tokens: list[bytes]
    types: bytearray
    scores: list[float] | None = None
    log_probs: list[float] | None = None  # of the tokens of a unigram model, and at the end of an unknown character
    f32_sums: bool = False  # a unigram model's sums are kept in binary32, as SentencePiece's
    merges: np.ndarray | None = None  # [n, 3] left, right, result; in order of rank
    byte_level: bool = False
    byte_fallback: bool = False
    fuse_unk: bool = False
    ignore_merges: bool = False
    unk: int | None = None
    bos: int | None = None
    eos: int | None = None
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    added: list[Added] = field(default_factory=list)
    normalizer: list[dict] = field(default_factory=list)
    pre: list[dict] = field(default_factory=list)
    decoder: list[dict] = field(default_factory=list)
    reference: object | None = None  # .encode(text, parse) and .decode(ids), by the reference package
    origin: str = ""
    notes: list[str] = field(default_factory=list)  # what the user should know of the choices made


def checked_size(t: Tokenizer | None, vocab: int | None) -> Tokenizer | None:
    """Checks the tokenizer against the rows of the model's embedding."""
    if t and vocab is not None and len(t.tokens) > vocab:
        raise ConvertError(f"{t.origin} has {len(t.tokens)} tokens, but the model's vocabulary has {vocab} rows")
    return t


def split_at(text: str, tokens) -> list[str]:
    """The text cut at the tokens in it: leftmost, and of those the longest."""
    if not tokens:
        return [text]
    longest_first = sorted(tokens, key=len, reverse=True)
    return [part for part in re.split("(" + "|".join(map(re.escape, longest_first)) + ")", text) if part]
