"""Tokenizers of every source, as one object, and the section `tokenizer` made of it (src/text/TOKENIZER.md).

In:  tokenizer.json, a SentencePiece tokenizer.model, Llama 3's tokenizer.model (tiktoken ranks),
     vocab.json + merges.txt, encoder.json + vocab.bpe, llama2.c's tokenizer.bin, the keys of a GGUF file.
Out: Tokenizer; section(tokenizer) for the weights file; vectors(tokenizer) for its self test.
A step or option that the engine has no equal of is refused by its name.
"""

import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from . import keys
from . import sentencepiece_file as spf
from .errors import IO, ConvertError

ABSENT, NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(7)
SPECIAL, LSTRIP, RSTRIP, SINGLE_WORD, NORMALIZED = 1, 2, 4, 8, 16
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

    kind: str  # "spm" or "bpe"
    tokens: list[bytes]
    types: bytearray
    scores: list[float] | None = None
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


# ---- the section ---------------------------------------------------------------------------------


def _steps(name: str, steps: list[dict]) -> dict:
    out = {}
    for i, step in enumerate(steps):
        out[f"{name}.{i}"] = step["step"]
        out.update({f"{name}.{i}.{key}": value for key, value in step.items() if key != "step"})
    return out


def section_keys(t: Tokenizer) -> dict:
    """The keys of the section."""
    out = {
        "kind": t.kind,
        "tokens.bytes": b"".join(t.tokens),
        "tokens.lengths": np.array([len(token) for token in t.tokens], dtype=np.uint32),
        "tokens.types": bytes(t.types),
    }
    if t.scores is not None:
        out["scores"] = np.array(t.scores, dtype=np.float32)
    if t.merges is not None:
        out["merges"] = np.asarray(t.merges, dtype=np.uint32).reshape(-1)
    for name in ("byte_level", "byte_fallback", "fuse_unk", "ignore_merges"):
        if getattr(t, name):
            out[name] = 1
    for name in ("unk", "bos", "eos"):
        if getattr(t, name) is not None:
            out[name] = getattr(t, name)
    for name, ids in (("add.before", t.before), ("add.after", t.after)):
        if ids:
            out[name] = keys.U32s(ids)
    if t.added:
        contents = [a.content.encode("utf-8") for a in t.added]
        out["added.ids"] = keys.U32s([a.id for a in t.added])
        out["added.bytes"] = b"".join(contents)
        out["added.lengths"] = keys.U32s([len(c) for c in contents])
        out["added.flags"] = keys.U32s([a.flags for a in t.added])
    return out | _steps("normalizer", t.normalizer) | _steps("pre", t.pre) | _steps("decoder", t.decoder)


def section(t: Tokenizer | None) -> bytes:
    """The body of the section `tokenizer`; without keys for a model without tokenizer."""
    return keys.pack(section_keys(t) if t else {})


def _fit(t: Tokenizer, vocab: int | None) -> Tokenizer:
    """Checks the tokenizer against the rows of the model's embedding."""
    if vocab is not None and len(t.tokens) > vocab:
        raise ConvertError(f"{t.origin} has {len(t.tokens)} tokens, but the model's vocabulary has {vocab} rows")
    return t


def _read(path: Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as e:
        raise ConvertError(f"{path}: cannot read: {e.strerror}", IO) from None


# ---- SentencePiece -------------------------------------------------------------------------------


class SentencePieceReference:
    """The sentencepiece package. Parse mode, which it lacks, is put together: control pieces are found in the
    text, leftmost and longest first, and what lies between is encoded piece by piece."""

    def __init__(self, model: spf.Model, data: bytes):
        import sentencepiece

        self.processor = sentencepiece.SentencePieceProcessor(model_proto=data)
        self.control = {p.text.decode(): i for i, p in enumerate(model.pieces) if p.kind == spf.CONTROL}
        self.name = f"sentencepiece {sentencepiece.__version__}"

    def encode(self, text: str, parse: bool) -> list[int]:
        ids: list[int] = []
        for piece in split_at(text, self.control) if parse else [text]:
            ids += [self.control[piece]] if parse and piece in self.control else self.processor.encode(piece)
        return ids

    def decode(self, ids: list[int]) -> str:
        return self.processor.decode(ids)


def split_at(text: str, tokens) -> list[str]:
    """The text cut at the tokens in it: leftmost, and of those the longest."""
    import re

    if not tokens:
        return [text]
    longest_first = sorted(tokens, key=len, reverse=True)
    return [part for part in re.split("(" + "|".join(map(re.escape, longest_first)) + ")", text) if part]


def from_sentencepiece(model: spf.Model, origin: str, data: bytes | None = None) -> Tokenizer:
    """The tokenizer of a SentencePiece BPE model."""
    if model.model_type != spf.BPE:
        raise ConvertError(f"{origin}: SentencePiece model type {model.model_type}; only BPE (2) is supported")
    for what, refused in (
        ("a precompiled_charsmap", model.charsmap),
        ("a denormalizer", model.denormalizer),
        ("treat_whitespace_as_suffix", model.whitespace_as_suffix),
        ("escape_whitespaces off", not model.escape_whitespaces),
        ("user-defined pieces with spaces", any(p.kind == spf.USER and b" " in p.text for p in model.pieces)),
    ):
        if refused:
            raise ConvertError(f"{origin} uses {what}, which is not supported")
    t = Tokenizer("spm", [p.text for p in model.pieces], bytearray(p.kind for p in model.pieces), origin=origin)
    t.scores = [p.score for p in model.pieces]
    t.byte_fallback = model.byte_fallback
    t.fuse_unk = True
    ids = {name: i if 0 <= i < len(t.tokens) else None for name, i in model.ids.items()}
    t.unk, t.bos, t.eos = ids["unk"], ids["bos"], ids["eos"]
    t.before = [t.bos] if t.bos is not None else []
    t.added = [Added(i, p.text.decode(), SPECIAL) for i, p in enumerate(model.pieces) if p.kind == spf.CONTROL and p.text]
    if model.remove_extra_whitespaces:
        t.normalizer.append({"step": "trim_spaces"})
    if model.add_dummy_prefix:
        t.normalizer.append({"step": "prepend", "text": BLOCK})
    t.normalizer.append({"step": "replace", "from": " ", "to": BLOCK})
    t.decoder = [{"step": "replace", "from": BLOCK, "to": " "}, {"step": "byte_fallback"}]
    if model.add_dummy_prefix or model.remove_extra_whitespaces:
        t.decoder.append({"step": "strip", "text": " ", "count": 1})
    try:
        t.reference = SentencePieceReference(model, data or spf.serialize(model))
    except ImportError:
        pass
    return t


def from_llama2c(path: Path, vocab: int) -> Tokenizer:
    """llama2.c's tokenizer.bin: a SentencePiece BPE whose pieces were written with plain spaces.

    int32 longest; then per token f32 score, int32 bytes, text. Ids 0, 1, 2 are <unk>, BOS and EOS;
    3 to 258 are the bytes.
    """
    data, at = _read(path), 4
    model = spf.Model(remove_extra_whitespaces=False)
    for i in range(vocab):
        if at + 8 > len(data):
            raise ConvertError(f"{path} ends at token {i}, but the model has {vocab}")
        score, size = struct.unpack_from("<fi", data, at)
        text = data[at + 8 : at + 8 + size]
        if size < 0 or len(text) != size:
            raise ConvertError(f"{path}: token {i} has {size} bytes, which the file does not hold")
        at += 8 + size
        if i < 3:
            piece = spf.Piece((b"<unk>", b"<s>", b"</s>")[i], score, spf.UNKNOWN if i == 0 else spf.CONTROL)
        elif i < 259:
            if text != b"<0x%02X>" % (i - 3):
                raise ConvertError(f"{path}: token {i} is {text!r}, want the byte {i - 3}")
            piece = spf.Piece(text, score, spf.BYTE)
        else:
            piece = spf.Piece(text.replace(b" ", BLOCK.encode()), score)
        model.pieces.append(piece)
    if at != len(data):
        raise ConvertError(f"{path} goes on after its {vocab} tokens: it belongs to another model")
    return from_sentencepiece(model, str(path))


# ---- any source ----------------------------------------------------------------------------------


def from_huggingface(folder: Path, given: Path | None, vocab: int) -> Tokenizer | None:
    """The tokenizer of a model folder, or the file `given` in its place; None where there is none."""
    for path in [given] if given else [folder / "tokenizer.model"]:
        if path.exists():
            data = _read(path)
            return _fit(from_sentencepiece(spf.parse(data), str(path), data), vocab)
    return None


def from_gguf(values: dict, vocab: int) -> Tokenizer | None:
    """The tokenizer of a GGUF file's keys."""
    raise ConvertError("vocabularies of GGUF files are not supported yet")


# ---- vectors of the self test --------------------------------------------------------------------


def vectors(t: Tokenizer | None) -> dict | None:
    """Strings and their ids by the reference package, for the weights file's self test."""
    if t is None or t.reference is None:
        return None
    from .hard_strings import vector_strings

    strings = vector_strings([a.content for a in t.added if a.flags & SPECIAL])
    out = {
        "text.bytes": b"".join(s.encode() for s in strings),
        "text.lengths": keys.U32s([len(s.encode()) for s in strings]),
    }
    for name, parse in (("plain", False), ("parse", True)):
        ids = [t.reference.encode(s, parse) for s in strings]
        out[f"{name}.ids"] = keys.U32s([i for one in ids for i in one])
        out[f"{name}.lengths"] = keys.U32s([len(one) for one in ids])
    return out
