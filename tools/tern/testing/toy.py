"""Toy models in numpy: the tensors of tests/support/toy.c, bit for bit (tests/support/toy.h states the generator)."""

import math

import numpy as np

GOLDEN_RATIO = 0x9E3779B97F4A7C15
MATRICES = ("q", "k", "v", "o", "gate", "up", "down")


def _mix(x: np.ndarray) -> np.ndarray:
    """splitmix64's output for the states x, u64."""
    x = x + np.uint64(GOLDEN_RATIO)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def _fnv1a64(text: str) -> int:
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h


def values(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """The tensor `name` of the toy with this seed: f32 [rows, k], or [n] for norms and biases."""
    key = np.uint64(seed ^ _fnv1a64(name))
    index = np.arange(math.prod(shape), dtype=np.uint64)
    bits = _mix(key + index * np.uint64(GOLDEN_RATIO)) >> np.uint64(40)
    u = (bits.astype(np.int64) - (1 << 23)).astype(np.float32) * np.float32(2.0**-23)
    if name.endswith(("_norm", "_scale")):
        u = np.float32(1) + u * np.float32(0.25)
    elif name.endswith("mix_a"):
        u = np.float32(1) + u * np.float32(0.75)
    elif name.endswith("_bias"):
        u = u * np.float32(0.5)
    elif name != "embed":
        u = u * np.float32((4 if name == "head" else 1) * math.sqrt(3.0 / (shape[-1] if len(shape) > 1 else 1)))
    return u.reshape(shape)


def shapes(config: dict) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of a model, in file order; config has FORMAT.md's keys, one value each."""
    dim, hidden = config["dim"], config["hidden"]
    q, kv = config["n_heads"] * config["head_dim"], config["n_kv_heads"] * config["head_dim"]
    sizes = {"q": (q, dim), "k": (kv, dim), "v": (kv, dim), "o": (dim, q)}
    sizes |= {"gate": (hidden, dim), "up": (hidden, dim), "down": (dim, hidden)}
    biased = config["attn_bias"] | config["ffn_bias"] << 4
    out: dict[str, tuple[int, ...]] = {"embed": (config["vocab"], dim)}
    for layer in range(config["n_layers"]):
        at = f"layer.{layer}."
        out |= {at + "attn_norm": (dim,), at + "ffn_norm": (dim,)}
        out |= {at + part: sizes[part] for part in MATRICES}
        out |= {at + part + "_bias": sizes[part][:1] for i, part in enumerate(MATRICES) if biased >> i & 1}
    out["final_norm"] = (dim,)
    if not config["head_tied"]:
        out["head"] = (config["vocab"], dim)
    return out
