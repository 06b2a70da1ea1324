"""SentencePiece's precompiled_charsmap, taken apart: what it maps, as the step `charsmap` (src/text/TOKENIZER.md).

In:  the blob: u32 bytes of a double-array trie (Darts), the trie, then the texts that the values point to, each ended
     by a NUL. Out: the step. Reference: the sentencepiece package, normalizer.cc.
"""

import struct

import numpy as np

from ...errors import ConvertError
from ...weights import keys

_MAX = 1 << 20  # texts


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
        end = texts.find(b"\0", value)
        if value > len(texts) or end < 0:
            raise ConvertError("the precompiled_charsmap is cut or broken")
        out[text] = texts[value:end]
    return dict(sorted(out.items()))


def step(blob: bytes, *, graphemes: bool) -> dict:
    """The normalizer step. `graphemes`: under the rules of the tokenizers package, else of SentencePiece."""
    table = entries(blob)
    return {
        "step": "charsmap",
        "graphemes": int(graphemes),
        "from.bytes": b"".join(table),
        "from.lengths": keys.U32s([len(t) for t in table]),
        "to.bytes": b"".join(table.values()),
        "to.lengths": keys.U32s([len(t) for t in table.values()]),
    }
