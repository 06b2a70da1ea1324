"""The number formats of GGUF's tensors: what a block is, and which of our types holds each of its values.

In:  the bytes of whole rows. Out: rows in the form that tiles.py takes, every value bit for bit what the format means.
A format whose block of 32 is an int8 times a scale that f16 holds becomes q8, or q4 or q4c where 4 bits say which; any
other becomes f32, because no smaller type of ours holds offsets, or scales of 16 weights.
To add a format: a function and a row in FORMATS, and its number in gguf.py.
"""

import numpy as np

from ...weights.tiles import BF16, F16, F32, Q4, Q4C, Q8
from .matrix import Encoding

LOW_HIGH = np.array([0, 4], "u1")[:, None]
QUARTERS = np.array([0, 2, 4, 6], "u1")[:, None]
IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], "i1")
# E2M1, doubled: a sign, two bits of exponent, one of mantissa
E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], "i1")
# Exponents E of MXFP4 (values are half of 2^(E - 127) times E2M1's doubled ones) for which that scale is an f16.
HALF_LOW, HALF_HIGH = 128 - 24, 128 + 15


def _nibbles(q: np.ndarray) -> np.ndarray:
    """[..., 16] bytes as [..., 32]: the low halves, then the high ones."""
    return (q[..., None, :] >> LOW_HIGH & 15).reshape(*q.shape[:-1], 32)


def _fifth(b: np.ndarray) -> np.ndarray:
    """The bits of `high`, u32, as 16 times 0 or 1 for each of 32 weights."""
    return ((b["high"][..., None] >> np.arange(32, dtype="<u4") & 1) << 4).astype("u1")


def _halves(bits: np.ndarray) -> np.ndarray:
    """f16 as f32."""
    return bits.view("<f2").astype("<f4")


def _flat(x: np.ndarray) -> np.ndarray:
    """f32 of any shape [n, ...] as bits [n, k]."""
    return np.ascontiguousarray(x, "<f4").reshape(len(x), -1).view("<u4")


def _scaled(q: np.ndarray, d: np.ndarray):
    return np.ascontiguousarray(q).view("i1"), np.ascontiguousarray(d)


def _coded(codes: np.ndarray, d: np.ndarray, table: np.ndarray):
    return np.ascontiguousarray(codes), np.ascontiguousarray(d), np.broadcast_to(table, (len(d), len(table)))


def _q8_0(b):
    return _scaled(b["q"], b["d"])


def _q4_0(b):
    return _scaled(_nibbles(b["q"]).view("i1") - np.int8(8), b["d"])


def _q5_0(b):
    return _scaled((_nibbles(b["q"]) | _fifth(b)).view("i1") - np.int8(16), b["d"])


def _iq4_nl(b):
    return _coded(_nibbles(b["q"]), b["d"], IQ4)


def _q4_1(b):
    return _flat(_halves(b["d"])[..., None] * _nibbles(b["q"]) + _halves(b["m"])[..., None])


def _q5_1(b):
    return _flat(_halves(b["d"])[..., None] * (_nibbles(b["q"]) | _fifth(b)) + _halves(b["m"])[..., None])


def power(e: np.ndarray) -> np.ndarray:
    """2^(e - 128) as f32; the two smallest are subnormal."""
    e = e.astype("<u4")
    return np.where(e < 2, np.uint32(0x00200000) << e, (e - np.uint32(1)) << np.uint32(23)).astype("<u4").view("<f4")


def _mxfp4(b):
    with np.errstate(over="ignore"):
        return _flat(power(b["e"])[..., None] * E2M1[_nibbles(b["q"])].astype("<f4"))


def half_scaled(codes: np.ndarray, e: np.ndarray):
    """E2M1's codes [n, groups, 32] and exponents [n, groups] as q4c: possible when `fits_half` says so."""
    with np.errstate(over="ignore"):
        d = power(e).astype("<f2")
    d[_zeros(codes)] = 0
    return _coded(codes, d.view("<u2"), E2M1)


def _zeros(codes: np.ndarray) -> np.ndarray:
    """Which blocks [..., 32] of E2M1's codes, of which 8 is zero too, are zeros alone."""
    return ~(codes & 7).any(axis=-1)


def fits_half(codes: np.ndarray, e: np.ndarray) -> bool:
    """Whether every block [..., 32] that is not all zeros has an exponent whose scale f16 holds."""
    return bool(np.all((e >= HALF_LOW) & (e <= HALF_HIGH) | _zeros(codes)))


def _mxfp4_q4c(b):
    return half_scaled(_nibbles(b["q"]), b["e"])


def _q2_k(b):
    """16 groups of 16: scale and offset in 4 bits each; weights in the order [half, quarter, 32]."""
    low = _halves(b["d"])[..., None] * (b["scales"] & 15).astype("<f4")
    offset = _halves(b["m"])[..., None] * (b["scales"] >> 4).astype("<f4")
    q = (b["q"][:, :, :, None, :] >> QUARTERS & 3).reshape(*b.shape, 16, 16)
    return _flat(low[..., None] * q - offset[..., None])


def _q3_k(b):
    """16 groups of 16 with a scale of 6 bits; weights of 3 bits, the highest (inverted) in `high`."""
    low = (b["low"][:, :, None, :] >> LOW_HIGH & 15).reshape(*b.shape, 16)
    high = (b["mid"][:, :, None, :] >> QUARTERS & 3).reshape(*b.shape, 16)
    scales = _halves(b["d"])[..., None] * ((low | high << 4).view("i1") - np.int8(32)).astype("<f4")
    q = (b["q"][:, :, :, None, :] >> QUARTERS & 3).reshape(*b.shape, 8, 32)
    top = b["high"][:, :, None, :] >> np.arange(8, dtype="u1")[:, None] & 1
    q = (q | top << 2).view("i1") - np.int8(4)
    return _flat(scales[..., None] * q.reshape(*b.shape, 16, 16).astype("<f4"))


def _k_scales(b):
    """Scales and offsets of 6 bits of the 8 groups of Q4_K and Q5_K, times the block's, f32 [n, blocks, 8, 1]."""
    s = b["scales"]  # 4 low scales, 4 low offsets, each with two bits of a later one above; 4 lower halves of both
    first, second, rest = s[..., :4], s[..., 4:8], s[..., 8:]
    scale = np.concatenate([first & 63, rest & 15 | first >> 2 & 48], axis=-1)
    offset = np.concatenate([second & 63, rest >> 4 | second >> 2 & 48], axis=-1)
    d, m = _halves(b["d"])[..., None], _halves(b["m"])[..., None]
    return (d * scale.astype("<f4"))[..., None], (m * offset.astype("<f4"))[..., None]


def _k_nibbles(b) -> np.ndarray:
    """u8 [n, blocks, 8, 32]"""
    return (b["q"][:, :, :, None, :] >> LOW_HIGH & 15).reshape(*b.shape, 8, 32)


def _q4_k(b):
    scale, offset = _k_scales(b)
    return _flat(scale * _k_nibbles(b) - offset)


def _q5_k(b):
    scale, offset = _k_scales(b)
    fifth = (b["high"][:, :, None, :] >> np.arange(8, dtype="u1")[:, None] & 1) << 4
    return _flat(scale * (_k_nibbles(b) | fifth) - offset)


def _q6_k(b):
    """d * scale * (q - 32), of which f32 holds what it means; a block is 2 halves of 4 quarters of 32."""
    low = b["low"]
    low = np.concatenate([low & 15, low >> 4], axis=3)  # [n, block, half, quarter, 32]
    high = b["high"][:, :, :, None, :] >> QUARTERS & 3
    q = (low | high << 4).view("i1") - np.int8(32)
    scales = _halves(b["d"])[:, :, None, None, None] * b["scales"].astype("<f4")
    return _flat(scales[..., None] * q.reshape(*q.shape[:-1], 2, 16).astype("<f4"))


def _iq4_xs(b):
    """8 groups of 32 whose scales of 6 bits are split: 4 in `low`, 2 in `high`."""
    low = (b["low"][:, :, :, None] >> np.array([0, 4], "u1") & 15).reshape(*b.shape, 8)
    high = (b["high"][..., None] >> np.arange(0, 16, 2, dtype="<u2") & 3).astype("u1")
    scales = _halves(b["d"])[..., None] * ((low | high << 4).view("i1") - np.int8(32)).astype("<f4")
    return _flat(scales[..., None] * IQ4[_nibbles(b["q"])].astype("<f4"))


def _block(*fields) -> np.dtype:
    return np.dtype(list(fields))


D, M, N16 = ("d", "<u2"), ("m", "<u2"), ("q", "u1", 16)
K4 = ("scales", "u1", 12)
FORMATS: dict[str, Encoding] = {
    "F32": Encoding("F32", F32),
    "F16": Encoding("F16", F16),
    "BF16": Encoding("BF16", BF16),
    "Q8_0": Encoding("Q8_0", Q8, 32, _block(D, ("q", "i1", 32)), _q8_0),
    "Q4_0": Encoding("Q4_0", Q4, 32, _block(D, N16), _q4_0),
    "Q4_1": Encoding("Q4_1", F32, 32, _block(D, M, N16), _q4_1),
    "Q5_0": Encoding("Q5_0", Q8, 32, _block(D, ("high", "<u4"), N16), _q5_0),
    "Q5_1": Encoding("Q5_1", F32, 32, _block(D, M, ("high", "<u4"), N16), _q5_1),
    "Q2_K": Encoding("Q2_K", F32, 256, _block(("scales", "u1", 16), ("q", "u1", (2, 32)), D, M), _q2_k),
    "Q3_K": Encoding("Q3_K", F32, 256, _block(("high", "u1", 32), ("q", "u1", (2, 32)), ("low", "u1", 8),
                                             ("mid", "u1", 4), D), _q3_k),
    "Q4_K": Encoding("Q4_K", F32, 256, _block(D, M, K4, ("q", "u1", (4, 32))), _q4_k),
    "Q5_K": Encoding("Q5_K", F32, 256, _block(D, M, K4, ("high", "u1", 32), ("q", "u1", (4, 32))), _q5_k),
    "Q6_K": Encoding("Q6_K", F32, 256, _block(("low", "u1", (2, 2, 32)), ("high", "u1", (2, 32)),
                                             ("scales", "i1", (2, 4, 2)), D), _q6_k),
    "IQ4_NL": Encoding("IQ4_NL", Q4C, 32, _block(D, N16), _iq4_nl),
    "IQ4_XS": Encoding("IQ4_XS", F32, 256, _block(D, ("high", "<u2"), ("low", "u1", 4), ("q", "u1", (8, 16))), _iq4_xs),
    "MXFP4": Encoding("MXFP4", F32, 32, _block(("e", "u1"), N16), _mxfp4),
}  # fmt: skip
# MXFP4 where f16 holds every scale of a tensor.
MXFP4_Q4C = Encoding("MXFP4", Q4C, 32, _block(("e", "u1"), N16), _mxfp4_q4c)


def blocks_fit_half(block: np.ndarray) -> bool:
    """`fits_half` of MXFP4 blocks."""
    return fits_half(block["q"] & 7 | block["q"] >> 4, block["e"])
