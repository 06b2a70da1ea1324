"""The shape of the model that ships, and of others that the same equations fit."""

from dataclasses import dataclass

import numpy as np

from ..errors import ConvertError

WANTED = {"head_tied": 1, "activation": b"silu", "rope_set": 1, "rope.0.factor": 1, "attn_bias": 0, "ffn_bias": 0, "window": 0}


@dataclass
class Config:
    """Shape of the model. Widths are multiples of 256 and head_dim is 64, as the engine likes them."""

    vocab: int = 4096
    dim: int = 256
    layers: int = 5
    heads: int = 8
    kv_heads: int = 4
    head_dim: int = 64
    hidden: int = 768
    context: int = 512
    rope_theta: float = 10000.0
    eps: float = 1e-5


def shape_of(file):
    """The shape of a weights file, if model.py computes what it says; else ConvertError with the key that differs."""
    sizes = {"vocab": "vocab", "dim": "dim", "n_layers": "layers", "n_heads": "heads", "n_kv_heads": "kv_heads", "head_dim": "head_dim",
             "hidden": "hidden", "max_seq": "context"}  # fmt: skip
    keys, c = file.config, Config()
    for key, value in keys.items():
        if key in sizes and len(set(np.atleast_1d(value))) == 1:
            setattr(c, sizes[key], int(np.atleast_1d(value)[0]))
        elif key == "attn_scale":
            fits(file, key, np.allclose(value, keys["head_dim"] ** -0.5))
        elif key not in ("norm_eps", "rope.0.inv_freq"):
            fits(file, key, key in WANTED and np.all(np.atleast_1d(value) == WANTED[key]))
    c.eps, frequencies = float(keys["norm_eps"]), np.asarray(keys["rope.0.inv_freq"], float)
    if len(frequencies) > 1:
        c.rope_theta = frequencies[1] ** (-c.head_dim / 2)
    wanted = c.rope_theta ** (-2 * np.arange(c.head_dim // 2) / c.head_dim)
    fits(file, "rope.0.inv_freq", len(wanted) == len(frequencies) and np.allclose(wanted, frequencies, 1e-4))
    return c


def fits(file, key, is_so):
    if not is_so:
        raise ConvertError(f"{file.path}: cannot be trained here: {key} is not that of a Llama with tied embeddings")
