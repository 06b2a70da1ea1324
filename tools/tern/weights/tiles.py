"""Tensor types: rows of a matrix as bits, and the tiles of 16 rows in which the weights file keeps them.

In:  rows of a source matrix: bits [n, k] (u32 or u16) for f32, f16 and bf16; for q8 and q4 the pair
     (q int8 [n, k / 32, 32], scales u16 [n, k / 32]); for q4c those, of codes u8 below 16, and the tables int8 [n, 16]
     that say what a row's codes stand for, alike in the 16 rows of a tile.
Out: the bytes of whole tiles, as src/weights/FORMAT.md draws them, and back again.
To add a type: a row in TYPES and a case in tile, untile, values and bits.
"""

from dataclasses import dataclass

import numpy as np

F32, F16, BF16, Q8, Q4, Q4C = range(6)
TILE_ROWS = 16
GROUP = 32
CODES = 16


@dataclass(frozen=True)
class Type:
    """Name, bytes of 16 rows x `group` k, numpy type of the bits, bytes before those of a tile."""

    name: str
    group: int
    line_bytes: int
    bits: str
    head: int = 0


TYPES = {
    F32: Type("f32", 1, 64, "<u4"),
    F16: Type("f16", 1, 32, "<u2"),
    BF16: Type("bf16", 1, 32, "<u2"),
    Q8: Type("q8", GROUP, 544, ""),
    Q4: Type("q4", GROUP, 288, ""),
    Q4C: Type("q4c", GROUP, 288, "", 32),
}
BY_NAME = {t.name: number for number, t in TYPES.items()}


def tensor_bytes(kind: int, rows: int, k: int) -> int:
    """Bytes of a matrix [rows, k] in tiles."""
    t = TYPES[kind]
    return -(-rows // TILE_ROWS) * (t.head + -(-k // t.group) * t.line_bytes)


def _pad_rows(rows: np.ndarray, value: int = 0) -> np.ndarray:
    """[n, ...] with rows of zeros, or of another value, added up to a multiple of 16."""
    missing = -len(rows) % TILE_ROWS
    if not missing:
        return rows
    return np.concatenate([rows, np.full((missing, *rows.shape[1:]), value, rows.dtype)])


def _block(kind: int) -> np.dtype:
    """One block of 16 rows x 32 k: its lines, then its scales."""
    lines = 8 if kind == Q8 else 4
    return np.dtype([("lines", "u1", (lines, TILE_ROWS, 4)), ("scales", "<u2", (TILE_ROWS,))])


def _quantized(kind: int, groups: int) -> np.dtype:
    """One tile: the table of q4c, filled up with zeros, then its blocks."""
    blocks = ("blocks", _block(kind), (groups,))
    return np.dtype([("table", "i1", (CODES,)), ("zeros", "u1", (CODES,)), blocks] if kind == Q4C else [blocks])


def tile(kind: int, rows) -> np.ndarray:
    """The tiles of rows that begin at a multiple of 16: a contiguous array of their bytes' order."""
    if kind in (F32, F16, BF16):
        bits = _pad_rows(rows)
        n, k = bits.shape
        return np.ascontiguousarray(bits.reshape(n // TILE_ROWS, TILE_ROWS, k).transpose(0, 2, 1))
    q, scales, *tables = rows
    q, scales = _pad_rows(q, int(np.abs(tables[0][-1]).argmin()) if tables else 0), _pad_rows(scales)
    n, groups = scales.shape
    out = np.zeros(n // TILE_ROWS, _quantized(kind, groups))
    # [tile, row, group, k] -> [tile, group, k quad, row, 4]
    quads = q.reshape(n // TILE_ROWS, TILE_ROWS, groups, 8, 4).transpose(0, 2, 3, 1, 4)
    blocks = out["blocks"]
    if kind == Q8:
        blocks["lines"] = quads.view("u1")
    else:
        nibbles = (quads + 8).view("u1") if kind == Q4 else quads
        blocks["lines"] = nibbles[:, :, 0::2] | nibbles[:, :, 1::2] << 4
    blocks["scales"] = scales.reshape(n // TILE_ROWS, TILE_ROWS, groups).transpose(0, 2, 1)
    if tables:
        out["table"] = tables[0][::TILE_ROWS]
    return out


def untile(kind: int, data, rows: int, k: int):
    """The rows of a whole matrix from its bytes: what `tile` was given."""
    tiles = -(-rows // TILE_ROWS)
    if kind in (F32, F16, BF16):
        bits = np.frombuffer(data, TYPES[kind].bits).reshape(tiles, k, TILE_ROWS)
        return bits.transpose(0, 2, 1).reshape(-1, k)[:rows]
    groups = -(-k // GROUP)
    whole = np.frombuffer(data, _quantized(kind, groups))
    lines, scales = whole["blocks"]["lines"], whole["blocks"]["scales"]
    if kind != Q8:
        halves = np.stack([lines & 15, lines >> 4], axis=3)  # [tile, group, line, half, row, 4]
        lines = halves.reshape(tiles, groups, 8, TILE_ROWS, 4) - np.uint8(8 if kind == Q4 else 0)
    q = lines.transpose(0, 3, 1, 2, 4).reshape(-1, groups, GROUP)[:rows]
    scales = scales.transpose(0, 2, 1).reshape(-1, groups)[:rows]
    if kind == Q4C:
        return q, scales, np.repeat(whole["table"], TILE_ROWS, axis=0)[:rows]
    return q.view("i1"), scales


def values(kind: int, rows, k: int) -> np.ndarray:
    """The rows as f32 [n, k]; exact for every type."""
    if kind == F32:
        return rows.view("<f4")
    if kind == F16:
        return rows.view("<f2").astype("<f4")
    if kind == BF16:
        return (rows.astype("<u4") << 16).view("<f4")
    q, scales, *tables = rows
    if tables:
        q = np.take_along_axis(tables[0], q.reshape(len(q), -1), axis=1).reshape(q.shape)
    wide = q.astype("<f4") * scales.view("<f2").astype("<f4")[:, :, None]
    return wide.reshape(len(q), -1)[:, :k]


def bits(kind: int, x: np.ndarray) -> np.ndarray:
    """f32 [n, k] rounded to nearest even as f32, f16 or bf16; a value too large becomes infinity."""
    x = np.ascontiguousarray(x, "<f4")
    if kind == F32:
        return x.view("<u4")
    if kind == F16:
        with np.errstate(over="ignore"):
            return x.astype("<f2").view("<u2")
    wide = x.view("<u4")
    rounded = ((wide.astype("<u8") + 0x7FFF + (wide >> 16 & 1)) >> 16).astype("<u2")
    return np.where(np.isnan(x), (wide >> 16 | 0x40).astype("<u2"), rounded)


INFINITY = {F32: 0x7F800000, F16: 0x7C00, BF16: 0x7F80}  # bits of the exponent, all of them set


def finite(kind: int, rows) -> bool:
    """True when all values of the rows are finite; by their bits, which is the fastest."""
    bits, kind = (rows[1], F16) if isinstance(rows, tuple) else (rows, kind)
    top = bits.dtype.type(INFINITY[kind])
    return bool((bits & top).max(initial=0) < top)


def overflows(kind: int, x: np.ndarray) -> bool:
    """True when a finite value of x is not finite as `kind`."""
    return bool(np.any(np.isinf(values(kind, bits(kind, x), x.shape[-1])) & np.isfinite(x)))
