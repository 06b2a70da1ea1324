"""The section `tokenizer` of a weights file (src/text/TOKENIZER.md), made of a Tokenizer."""

import numpy as np

from ...weights import keys
from .tokenizer import Tokenizer


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
    if t.log_probs is not None:
        out["log_probs"] = np.array(t.log_probs, dtype="<f8").view("<u8")
    if t.merges is not None:
        out["merges"] = np.asarray(t.merges, dtype=np.uint32).reshape(-1)
    for name in ("byte_level", "byte_fallback", "fuse_unk", "ignore_merges", "f32_sums"):
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
