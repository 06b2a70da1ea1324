"""Toy models as weights files: byte for byte what toy_write of tests/support/toy.c makes.

In:  a config with FORMAT.md's keys, as toy.py takes it, a seed and a type. Out: the file.
"""

import math
from typing import BinaryIO, Iterator

import numpy as np

from ..convert.families import rope
from ..weights import keys, tiles, writer
from . import toy


# The table of q4c where no other is asked for (formats.c).
GENERAL = np.array([-127, -102, -82, -65, -49, -35, -22, -11, 0, 11, 22, 35, 49, 65, 84, 107], np.int8)


def encode(kind: int, x: np.ndarray):
    """The rows of a matrix f32 [n, k] as tiles.tile wants them; q8, q4 and q4c by FORMAT.md's encoders."""
    if kind in (tiles.F32, tiles.F16, tiles.BF16):
        return tiles.bits(kind, x)
    n, k = x.shape
    groups = np.zeros((n, -(-k // tiles.GROUP) * tiles.GROUP), np.float32)
    groups[:, :k] = x
    groups = groups.reshape(n, -1, tiles.GROUP)
    if kind == tiles.Q8:
        scales, low, high = np.abs(groups).max(axis=2) / np.float32(127), -127, 127
    else:
        largest = np.abs(groups).argmax(axis=2)
        m = np.take_along_axis(groups, largest[:, :, None], axis=2)[:, :, 0]
        scales, low, high = m / np.float32(-8 if kind == tiles.Q4 else -127), -8, 7
    half = scales.astype("<f2")
    half[half == 0] = 0  # of either sign: +0
    divisor = half.astype(np.float32)[:, :, None]
    quotient = np.divide(groups, divisor, out=np.zeros_like(groups), where=divisor != 0)
    if kind == tiles.Q4C:
        distance = np.abs(quotient[..., None] - GENERAL.astype(np.float32))
        return distance.argmin(axis=3).astype(np.uint8), half.view("<u2"), np.tile(GENERAL, (n, 1))
    return np.rint(quotient).clip(low, high).astype(np.int8), half.view("<u2")


def config_keys(config: dict, rope_theta: float = 10000.0) -> dict:
    """The keys of section `config`, in toy.c's order; lists of windows stay one value a layer."""
    out = {name: config[name] for name in ("n_layers", "dim", "vocab", "max_seq", "norm_eps")}
    out |= {name: config[name] for name in ("head_tied", "n_heads", "n_kv_heads", "head_dim", "hidden")}
    out["window"] = np.array(config["window"], np.uint64)
    out["rope_set"] = int(rope_theta != 0)
    out["attn_scale"] = 1 / math.sqrt(config["head_dim"])
    out |= {name: config[name] for name in ("attn_bias", "ffn_bias")}
    out["activation"] = "silu"
    if rope_theta:
        out["rope.0.inv_freq"] = np.array(rope.plain(rope_theta, config["head_dim"]), np.float32)
        out["rope.0.factor"] = 1.0
    return out


def write(
    out: BinaryIO, config: dict, seed: int, kind: int, rope_theta: float = 10000.0, more: dict[str, bytes] | None = None
) -> None:
    """A whole weights file, without tokenizer unless it is among the sections `more`."""

    def entry(name: str, shape: tuple[int, ...]) -> writer.Tensor:
        rows, k = shape if len(shape) == 2 else (shape[0], 1)
        own = kind if len(shape) == 2 else tiles.F32

        def pieces() -> Iterator[np.ndarray]:
            yield tiles.tile(own, encode(own, toy.values(name, shape, seed).reshape(rows, k)))

        return writer.Tensor(name, own, rows, k, pieces)

    sections = {
        "config": keys.pack(config_keys(config, rope_theta)),
        **(more or {}),
        "provenance": keys.pack({"name": "toy"}),
        "seal": keys.pack({"arith": 0, "fingerprint": 0}),
    }
    writer.write(out, sections, [entry(*item) for item in toy.shapes(config).items()])
