"""The tiles of a source's matrices, made in pieces so that memory stays small.

In:  a Matrix, and the type in which it is to be stored. Out: what writer.Tensor.pieces wants. A NaN, an infinite value, or
a value that the type cannot hold is an error.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ...errors import ConvertError
from ...weights import tiles, writer
from ...weights.tiles import Q8
from ..files.matrix import Matrix


def pieces(matrix: Matrix, kind: int) -> Callable[[], Iterator[Callable[[], np.ndarray]]]:
    """The tiles of a matrix, or of the matrices of several experts, as `kind`: functions for some rows at a time."""

    def run() -> Iterator[Callable[[], np.ndarray]]:
        for part in matrix.matrices:
            at_a_time = writer.PIECE_BYTES // (part.k * 4) // tiles.TILE_ROWS * tiles.TILE_ROWS
            at_a_time = max(at_a_time, tiles.TILE_ROWS)
            for first in range(0, part.rows, at_a_time):
                yield partial(_tiles, part, kind, first, min(at_a_time, part.rows - first))

    return run


def _tiles(matrix: Matrix, kind: int, first: int, n: int) -> np.ndarray:
    rows = matrix.read(first, n)
    _check_finite(matrix, matrix.kind, rows, matrix.k)
    return tiles.tile(kind, _as(matrix, rows, kind))


def _check_finite(m: Matrix, kind: int, rows, k: int) -> None:
    """Rows [n, k] of the matrix must hold no NaN and no infinite value: no such model works."""
    if tiles.finite(kind, rows):
        return
    with np.errstate(invalid="ignore"):
        x = tiles.values(kind, rows, k)
    what = "a NaN" if np.isnan(x).any() else "an infinite value"
    raise ConvertError(f"{m.file.path}: {m.name} holds {what}, which no model can have: the file is damaged")


def vector_pieces(matrix: Matrix) -> Callable[[], Iterator[np.ndarray]]:
    """The tiles of a vector: f32, padded to 16."""

    def run() -> Iterator[np.ndarray]:
        bits = tiles.bits(tiles.F32, matrix.vector().reshape(-1, 1))
        _check_finite(matrix, tiles.F32, bits, 1)
        yield tiles.tile(tiles.F32, bits)

    return run


def _as(m: Matrix, rows, kind: int):
    """Rows of the matrix's type as rows of another type; what cannot be represented is an error."""
    if kind == m.kind:
        if kind == Q8 and np.any(rows[0] == -128):
            raise ConvertError(
                f"{m.name} holds -128, which q8 (-127 to 127) cannot represent; use --type f32, which keeps every value"
            )
        return rows
    x = tiles.values(m.kind, rows, m.k)
    if tiles.overflows(kind, x):
        worst = np.abs(x[np.isfinite(x)]).max()
        raise ConvertError(
            f"{m.name} holds the value {worst:g}, which is too large for {tiles.TYPES[kind].name}; use --type f32"
        )
    return tiles.bits(kind, x)
