"""The files tests/golden/tokenizers/*.bin, and what the fuzzer of tokenizers begins with.

In:  a Tokenizer with its reference. Out: a key block (src/weights/FORMAT.md):
  section                        body of a section `tokenizer`
  fragments                      name of the file whose text.* hold; then there are no examples
  text.*, plain.*, parse.*       vectors, as in a weights file; their strings are the fragments of the hard ones
  seed                           of the generator
  hash.plain, hash.parse [100]   XXH64 of (u32 n, u32 ids [n]) of 100 strings after another
  hash.text [100]                XXH64 of (u32 bytes, text): what the plain ids, then the parse ids of each decode to
  hash.random [20]               the same of 100 random lists of ids
"""

import struct
from pathlib import Path

import numpy as np
import xxhash

from ..convert.tokenizers import patterns
from ..convert.tokenizers.section import section
from ..convert.tokenizers.tokenizer import BYTE, SPECIAL, Added, Tokenizer
from ..convert.tokenizers.vectors import vector_strings, vectors
from ..weights import keys
from .hard_strings import hard_string, random_ids

STRINGS, CHUNK, LISTS = 10_000, 100, 2_000
EXTRA = [
    "<s>", "</s>", "<|sp|>", "a <left> b", "a <right> b", " \n<both>\t x", "word", "sword", "words", "a word.", "wordé", "_word", "Wo\u0308rd",
    "<<<", "<<<<", "<s><s><s>", "   ", "\n\n\n\n  a", "é!", "e\u0301!", "  two words", " 日本 ", "日本語", "é", "<right>  <left>", "<both> <both>",
]  # fmt: skip


def answers(ids: list[int]) -> bytes:
    return struct.pack(f"<I{len(ids)}I", len(ids), *ids)


def texts(t: Tokenizer, ids: list[int]) -> bytes:
    """What the ids decode to, and its length. sentencepiece writes unknown pieces as a symbol: they are left out."""
    text = t.reference.decode([i for i in ids if i != t.unk or not t.scores and not t.f32_sums]).encode()
    return struct.pack("<I", len(text)) + text


def decodable(t: Tokenizer, ids: list[int]) -> list[int]:
    """The ids without special ones, and without a byte token after another: the package turns a run of bytes with one
    broken character into U+FFFD as a whole, which a stream cannot know in time."""
    special = {a.id for a in t.added if a.flags & SPECIAL} | {t.unk}
    out: list[int] = []
    for i in ids:
        if i in special or t.types[i] == BYTE and out and t.types[out[-1]] == BYTE and not t.scores and not t.f32_sums:
            continue
        out.append(i)
    return out


def hashes(parts: list[bytes]) -> np.ndarray:
    sums = [xxhash.xxh64(b"".join(parts[i : i + CHUNK])).intdigest() for i in range(0, len(parts), CHUNK)]
    return np.array(sums, dtype=np.uint64)


def describe(t: Tokenizer, seed: int, lean: bool) -> dict:
    """The keys of a test file."""
    specials = ["<|endoftext|>"] if lean else [a.content for a in t.added if a.flags & SPECIAL]
    fragments = [s.encode() for s in [*vector_strings(specials), *EXTRA]]
    contents = [a.content.encode() for a in t.added]
    strings = [hard_string(seed, i, fragments, t.tokens, contents).decode("utf-8", "replace") for i in range(STRINGS)]
    plain = [t.reference.encode(s, False) for s in strings]
    parse = [t.reference.encode(s, True) for s in strings]
    lists = [decodable(t, random_ids(~seed, i, len(t.tokens))) for i in range(LISTS)]
    out = {"section": section(t)} | ({"fragments": "gpt2"} if lean else vectors(t, EXTRA))
    return out | {
        "seed": seed,
        "hash.plain": hashes([answers(ids) for ids in plain]),
        "hash.parse": hashes([answers(ids) for ids in parse]),
        "hash.text": hashes([texts(t, a) + texts(t, b) for a, b in zip(plain, parse)]),
        "hash.random": hashes([texts(t, ids) for ids in lists]),
    }


def tiny(kind: str) -> Tokenizer:
    """A tokenizer of a dozen tokens that has every sort of key, for the fuzzer to begin with."""
    names = ["<unk>", "<s>", "</s>", "a", "b", "ab", "\u2581", "\u2581a", "\u2581ab", "<0x0A>", "<0xC3>", "  "]
    t = Tokenizer(kind, [n.encode() for n in names], bytearray([2, 3, 3, 1, 1, 1, 1, 1, 5, 6, 6, 4]))
    t.unk, t.bos, t.eos, t.before, t.after = 0, 1, 2, [1], [2]
    t.byte_fallback = t.fuse_unk = True
    t.added = [Added(1, "<s>", 1), Added(2, "</s>", 15), Added(11, "  ", 16)]
    t.normalizer = [{"step": "nfc"}, {"step": "prepend", "text": "\u2581"}, {"step": "replace", "from": " ", "to": "\u2581"}]
    t.decoder = [{"step": "replace", "from": "\u2581", "to": " "}, {"step": "byte_fallback"}, {"step": "strip", "text": " ", "count": 1}]
    if kind == "spm":
        t.normalizer.insert(0, {"step": "trim_spaces"})
        t.scores = [-float(i) for i in range(len(names))]
    elif kind == "unigram":
        table = {"from.bytes": "e\u0301x".encode(), "from.lengths": keys.U32s([3, 1]), "to.bytes": b" a ", "to.lengths": keys.U32s([2, 1])}
        t.normalizer[:1] = [{"step": "charsmap", "graphemes": 1} | table, {"step": "strip", "sides": 3}]
        t.normalizer.append({"step": "replace_runs", "from": "\u2581", "to": " "})
        t.log_probs = [-float(i) for i in range(len(names) + 1)]
        t.pre = [{"step": "whitespace"}, {"step": "punctuation", "behavior": "contiguous"}, {"step": "digits", "individual": 0, "bytes": 1}]
    else:
        t.types = bytearray(1 if kind == 5 else kind for kind in t.types)
        t.merges = np.array([[3, 4, 5], [6, 3, 7], [7, 4, 8]])
        t.pre = [
            {"step": "metaspace", "text": "\u2581", "scheme": 1, "split": 1},
            {"step": "digits", "individual": 1},
            {"step": "split", "text": "b", "behavior": "merged_with_next", "invert": 0},
        ]
    return t


def tiny_bytes() -> Tokenizer:
    t = Tokenizer("bpe", [b"a", b" ", b" a", b"1", b"<s>", b"\n"], bytearray([1, 1, 1, 1, 0, 1]), byte_level=True, ignore_merges=True)
    t.merges = np.array([[1, 0, 2]])
    t.added = [Added(4, "<s>", 3)]
    t.pre = [{"step": "prefix_space"}, {"step": "split", "pattern": patterns.LLAMA3, "behavior": "isolated", "invert": 0}]
    t.decoder = [{"step": "byte_level"}]
    return t


def write_corpus(folder: Path) -> None:
    """What the fuzzer begins with: sections, and texts for the vocabularies (tests/fuzz/fuzz_tokenizer.c)."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, t in (("spm", tiny("spm")), ("bpe", tiny("bpe")), ("unigram", tiny("unigram")), ("bytes", tiny_bytes())):
        (folder / f"section-{name}").write_bytes(b"\0" + section(t))
    fragments = [s.encode() for s in [*vector_strings([]), *EXTRA]]
    for which in range(24):
        text = b"".join(hard_string(5, 3 * which + i, fragments, fragments, fragments) for i in range(3))
        (folder / f"text-{which}").write_bytes(bytes([2 * which + 1]) + text)
