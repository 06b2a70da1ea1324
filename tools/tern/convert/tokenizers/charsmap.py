"""Tables of texts and what they become, as the step `charsmap` (src/text/TOKENIZER.md): SentencePiece's
precompiled_charsmap, taken apart, and normalizers of the tokenizers package that change each character by itself.

In:  the blob: u32 bytes of a double-array trie (Darts), the trie, then the texts that the values point to, each ended
     by a NUL. Out: the step. Reference: the sentencepiece package, normalizer.cc.
"""

import struct
import sys
from functools import cache

import numpy as np

from ...errors import USAGE, ConvertError
from ...weights import keys

_MAX = 1 << 20  # texts
_LONGEST = 128  # bytes of one: growth.py refuses more than 32 for each of the 4 that a character may have


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 512) >> 6)


def _entries(units: np.ndarray):
    """(text, value) of the trie. A child by byte b of the node at `at` is unit at ^ b, if that is labelled b."""
    every = np.arange(256)
    stack, seen = [(b"", _offset(int(units[0])))], 0
    while stack:
        text, at = stack.pop()
        near = at ^ every
        near = np.where(near < len(units), near, 0)
        for b in np.flatnonzero((units[near] & 0x800000FF) == every):
            unit = int(units[at ^ int(b)])
            child = (at ^ int(b)) ^ _offset(unit)
            seen += 1
            if b == 0 or seen > _MAX or child >= len(units):
                continue
            if unit >> 8 & 1:
                yield text + bytes([b]), int(units[child]) & 0x7FFFFFFF
            stack.append((text + bytes([b]), child))


def entries(blob: bytes) -> dict[bytes, bytes]:
    """What becomes what."""
    size = struct.unpack_from("<I", blob)[0] if len(blob) > 8 else 0
    if size < 1024 or size % 1024 or 4 + size > len(blob):
        raise ConvertError("the precompiled_charsmap is cut or broken")
    texts = blob[4 + size :]
    out = {}
    for text, value in _entries(np.frombuffer(blob, "<u4", size // 4, 4)):
        end = texts.find(b"\0", value, value + _LONGEST + 1)
        if end < 0 and value + _LONGEST < len(texts):
            raise ConvertError(f"the precompiled_charsmap holds a text of more than {_LONGEST} bytes, which is not supported")
        if end < 0:
            raise ConvertError("the precompiled_charsmap is cut or broken")
        out[text] = texts[value:end]
    return dict(sorted(out.items()))


def step(blob: bytes, *, graphemes: bool) -> dict:
    """The normalizer step. `graphemes`: under the rules of the tokenizers package, else of SentencePiece."""
    return _step(entries(blob), graphemes)


def _step(table: dict[bytes, bytes], graphemes: bool) -> dict:
    return {
        "step": "charsmap",
        "graphemes": int(graphemes),
        "from.bytes": b"".join(table),
        "from.lengths": keys.U32s([len(t) for t in table]),
        "to.bytes": b"".join(table.values()),
        "to.lengths": keys.U32s([len(t) for t in table.values()]),
    }


@cache
def _of_characters(name: str) -> dict[str, str]:
    """What the package's normalizer makes of each character that it changes."""
    try:
        from tokenizers import normalizers
    except ImportError as e:
        raise ConvertError(f"the normalizer {name} needs the Python package tokenizers: {e}", USAGE) from None
    change = getattr(normalizers, name)().normalize_str
    every = (chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000)
    return {c: made for c in every if (made := change(c)) != c}


def of_characters(name: str, without: str = "") -> dict:
    """The step of a normalizer that does not look at neighbours; characters that the other one treats the same are left out."""
    table, same = _of_characters(name), _of_characters(without) if without else {}
    return _step({c.encode(): made.encode() for c, made in sorted(table.items()) if same.get(c) != made}, False)


def table(step: dict) -> dict[str, str]:
    """What becomes what, of a step."""
    sides: list[list[str]] = []
    for side in ("from", "to"):
        data, at = step[side + ".bytes"], 0
        sides.append(texts := [])
        for n in step[side + ".lengths"]:
            texts.append(data[at : at + int(n)].decode())
            at += int(n)
    return dict(zip(*sides))


def changed(step: dict, text: str) -> str:
    """What a step whose texts are characters makes of a text."""
    made = table(step)
    return "".join(made.get(c, c) for c in text)
