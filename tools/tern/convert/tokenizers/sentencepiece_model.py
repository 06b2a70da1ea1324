"""A tokenizer.model file, through sentencepiece's own protocol buffers (sentencepiece_model.proto).

In:  the bytes of the file. Out: Model, the fields that a tokenizer is made of; and back to bytes, which is how a
reference is built for other formats. A damaged file is one clear error.
"""

import math
from dataclasses import dataclass, field

from ...errors import USAGE, ConvertError

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, BPE = 1, 2
# Our names of a message's fields, and theirs.
TRAINER = {"model_type": "model_type", "byte_fallback": "byte_fallback", "whitespace_as_suffix": "treat_whitespace_as_suffix"}
NORMALIZER = {
    "charsmap": "precompiled_charsmap", "add_dummy_prefix": "add_dummy_prefix",
    "remove_extra_whitespaces": "remove_extra_whitespaces", "escape_whitespaces": "escape_whitespaces",
}  # fmt: skip


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


def _broken(message) -> bool:
    """Whether a field that the message knows came as what it cannot be: a number of no enumeration, another type."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    known = message.DESCRIPTOR.fields_by_number
    return any(unknown.field_number in known for unknown in UnknownFieldSet(message))


def _bytes(text: str | bytes) -> bytes:
    """A text that is not UTF-8 is handed out as bytes."""
    return text if isinstance(text, bytes) else text.encode("utf-8")


def parse(data: bytes, where: str = "the SentencePiece file") -> Model:
    """The model of a tokenizer.model file, which `where` names in errors."""
    try:
        from google.protobuf.message import DecodeError
        from sentencepiece.sentencepiece_model_pb2 import ModelProto
    except ImportError as e:
        raise ConvertError(f"{where} needs the Python packages sentencepiece and protobuf: {e}", USAGE) from None
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
        trainer, normalizer = proto.trainer_spec, proto.normalizer_spec
        whole = not any(map(_broken, (proto, trainer, normalizer, proto.denormalizer_spec, *proto.pieces)))
        pieces = [Piece(_bytes(piece.piece), piece.score, piece.type) for piece in proto.pieces]
    except DecodeError:
        whole = False
    if not whole or not all(math.isfinite(piece.score) for piece in pieces):
        raise ConvertError(f"{where} is cut or broken")
    if not pieces:
        raise ConvertError(f"{where} has no pieces")
    return Model(
        pieces,
        ids={name: getattr(trainer, name + "_id") for name in ("unk", "bos", "eos", "pad")},
        denormalizer=proto.denormalizer_spec.precompiled_charsmap,
        **{ours: getattr(trainer, theirs) for ours, theirs in TRAINER.items()},
        **{ours: getattr(normalizer, theirs) for ours, theirs in NORMALIZER.items()},
    )


def serialize(model: Model) -> bytes:
    """A tokenizer.model file."""
    from google.protobuf.wrappers_pb2 import BytesValue
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    proto = ModelProto()
    for piece in model.pieces:
        made = proto.pieces.add(score=piece.score, type=piece.kind if NORMAL <= piece.kind <= BYTE else NORMAL)
        # As bytes: a text that is not UTF-8 cannot be set. Its field and the wrapper's have the number 1.
        made.MergeFromString(BytesValue(value=piece.text).SerializeToString())
    for ours, theirs in TRAINER.items():
        setattr(proto.trainer_spec, theirs, getattr(model, ours))
    for name, i in model.ids.items():
        setattr(proto.trainer_spec, name + "_id", i)
    proto.normalizer_spec.name = "identity"
    for ours, theirs in NORMALIZER.items():
        setattr(proto.normalizer_spec, theirs, getattr(model, ours))
    return proto.SerializeToString()
