"""SentencePiece model files: the few fields of the protocol buffer that an encoder needs.

In:  the bytes of a tokenizer.model. Out: Model, and back to bytes (to build a reference from other formats).
Field numbers: sentencepiece_model.proto of the sentencepiece package.
"""

import math
import struct
from dataclasses import dataclass, field

from ...errors import ConvertError

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, BPE = 1, 2


@dataclass
class Piece:
    text: bytes
    score: float = 0.0
    kind: int = NORMAL


@dataclass
class Model:
    """Pieces in the order of their ids, and the rules around them."""

    pieces: list[Piece] = field(default_factory=list)
    model_type: int = BPE
    byte_fallback: bool = True
    whitespace_as_suffix: bool = False
    charsmap: bytes = b""
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    escape_whitespaces: bool = True
    denormalizer: bytes = b""
    ids: dict[str, int] = field(default_factory=lambda: {"unk": 0, "bos": 1, "eos": 2, "pad": -1})


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ConvertError("the SentencePiece file is cut or broken")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _fields(data: bytes):
    """(number, value) of every field of a message: int, or bytes for the other wire types."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if kind == 2:
                size, at = _varint(data, at)
            if size is None or at + size > len(data):
                raise ConvertError("the SentencePiece file is cut or broken")
            value = data[at : at + size]
            at += size
        yield tag >> 3, value


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _typed(value, kind: type, size: int | None = None):
    """The value of a field, which must be a number, or bytes (so many)."""
    if not isinstance(value, kind) or (size is not None and len(value) != size):
        raise ConvertError("the SentencePiece file is cut or broken")
    return value


def _piece(data: bytes) -> Piece:
    piece = Piece(b"")
    for number, value in _fields(_typed(data, bytes)):
        if number == 1:
            piece.text = _typed(value, bytes)
        elif number == 2:
            (piece.score,) = struct.unpack("<f", _typed(value, bytes, 4))
        elif number == 3:
            piece.kind = _typed(value, int)
    return piece


def parse(data: bytes) -> Model:
    """The model of a tokenizer.model file."""
    model = Model(model_type=UNIGRAM, byte_fallback=False)
    names = {40: "unk", 41: "bos", 42: "eos", 43: "pad"}
    for number, value in _fields(data):
        if number == 1:
            model.pieces.append(_piece(value))
        elif number == 2:
            for n, v in _fields(_typed(value, bytes)):
                if n == 3:
                    model.model_type = v
                elif n == 24:
                    model.whitespace_as_suffix = bool(v)
                elif n == 35:
                    model.byte_fallback = bool(v)
                elif n in names:
                    model.ids[names[n]] = _signed(_typed(v, int))
        elif number == 3:
            for n, v in _fields(_typed(value, bytes)):
                if n == 2:
                    model.charsmap = _typed(v, bytes)
                elif n == 3:
                    model.add_dummy_prefix = bool(v)
                elif n == 4:
                    model.remove_extra_whitespaces = bool(v)
                elif n == 5:
                    model.escape_whitespaces = bool(v)
        elif number == 5:
            model.denormalizer = b"".join(_typed(v, bytes) for n, v in _fields(_typed(value, bytes)) if n == 2)
    if not model.pieces:
        raise ConvertError("the SentencePiece file has no pieces")
    if any(not NORMAL <= piece.kind <= BYTE or not math.isfinite(piece.score) for piece in model.pieces):
        raise ConvertError("the SentencePiece file is cut or broken")
    return model


def _emit(number: int, value) -> bytes:
    def varint(v: int) -> bytes:
        v &= (1 << 64) - 1
        out = bytearray()
        while v > 127:
            out.append(v & 127 | 128)
            v >>= 7
        return bytes(out) + bytes([v])

    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(int(value))


def serialize(model: Model) -> bytes:
    """A tokenizer.model file."""
    out = [_emit(1, _emit(1, p.text) + _emit(2, p.score) + _emit(3, p.kind)) for p in model.pieces]
    ids = model.ids
    out.append(
        _emit(
            2,
            _emit(3, model.model_type)
            + _emit(24, model.whitespace_as_suffix)
            + _emit(35, model.byte_fallback)
            + b"".join(_emit(n, ids[name]) for n, name in ((40, "unk"), (41, "bos"), (42, "eos"), (43, "pad"))),
        )
    )
    out.append(
        _emit(
            3,
            _emit(1, b"identity")
            + _emit(2, model.charsmap)
            + _emit(3, model.add_dummy_prefix)
            + _emit(4, model.remove_extra_whitespaces)
            + _emit(5, model.escape_whitespaces),
        )
    )
    return b"".join(out)
