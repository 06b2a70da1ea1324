"""What a weights file holds of a source: its tensors, and the bodies of its other sections."""

from ...errors import reading
from ...version import VERSION
from ...weights import keys, tiles, writer
from ..chat import chat
from ..families.features import packed_config, slots
from ..sources.source import Source
from ..tokenizers import section, vectors
from .pieces import pieces, vector_pieces

LOSSY = ("q8", "q4", "q4c")


def stored_type(kind: int, wanted: str | None) -> int:
    """The type in which a matrix of `kind` is written; q8, q4 and q4c are left to ./quantize."""
    return kind if wanted is None or wanted in LOSSY else tiles.BY_NAME[wanted]


def tensors(source: Source, wanted: str | None) -> list[writer.Tensor]:
    """The directory: every tensor that the features ask for, of the shape that they ask for."""
    out = []
    for slot in slots(source.config):
        m = source.matrices[slot.name]
        kind = tiles.F32 if slot.vector or slot.exact else stored_type(m.kind, wanted)
        data = vector_pieces(m) if slot.vector else pieces(m, kind)
        out.append(writer.Tensor(slot.name, kind, slot.rows, slot.k, data, slot.matrices))
    return out


def sections(source: Source, golden: dict, sealed: bool) -> dict[str, bytes]:
    """The bodies of all sections except the directory; `golden` are logits of the source, or nothing."""
    provenance = {"name": source.name, "source": source.origin}
    if source.licence:
        provenance["licence"] = source.licence
    provenance["converter"] = f"tern {VERSION} convert.py"
    generation = dict(source.generation)
    if source.end_tokens:
        generation["end_tokens"] = source.end_tokens
    with reading(f"the tokenizer of {source.name}"):
        tokens = {"tokenizer": section.section(source.tokenizer)} if source.tokenizer else {}
        tests = vectors.vectors(source.tokenizer) or {}
    out = {
        "config": keys.pack(packed_config(source.config)),
        **tokens,
        "generation": keys.pack(generation, frozenset(generation)),
        "provenance": keys.pack(provenance, frozenset(provenance)),
    }
    if source.chat:
        out["chat"] = chat.section(source.chat)
        tests |= chat.vectors(source.chat, source.tokenizer)
    tests |= golden
    if tests:
        out["vectors"] = keys.pack(tests, frozenset(tests))
    if sealed:
        out["seal"] = writer.blank_seal()
    return out
