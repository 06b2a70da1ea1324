"""Golden logits of a Hugging Face directory, by transformers: f32, eager attention, on the CPU.

Only `convert.py --reference-logits` comes here; nothing else of the converter needs PyTorch.
"""

from pathlib import Path

import numpy as np

from ...errors import USAGE, ConvertError
from ...weights import keys
from ..sources.source import Source

PROMPT = "Once upon a time there was a little girl who lived at the edge of the forest."
TOP = 32
# Allowed max |a - b| / max |b|. ./quantize measures its own files and widens the bound itself.
BOUNDS = {"f16": 1e-2, "bf16": 5e-2}
LOSSLESS = 1e-4


def prompt(source: Source) -> list[int]:
    """The golden prompt's ids; without a tokenizer, those of the seal."""
    t = source.tokenizer
    if t is not None and t.reference is not None:
        return [*t.before, *t.reference.encode(PROMPT, False)][: source.config["max_seq"]]
    n = min(16, source.config["max_seq"])
    return [(i * 7919 + 13) % source.config["vocab"] for i in range(n)]


def logits(folder: Path, source: Source, wanted: str | None) -> dict:
    """The keys logits.* of the section `vectors`."""
    try:
        import torch
        import transformers
    except ImportError as e:
        raise ConvertError(f"--reference-logits needs PyTorch and transformers: {e}", USAGE) from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    ids = prompt(source)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", local_files_only=True
    )
    with torch.no_grad():
        row = model(torch.tensor([ids])).logits[0, -1].numpy()
    top = np.argsort(-row, kind="stable")[:TOP]
    return {
        "logits.tokens": keys.U32s(ids),
        "logits.ids": top.astype("<u4"),
        "logits.values": row[top].astype("<f4"),
        "logits.bound": BOUNDS.get(wanted or "", LOSSLESS),
    }
