"""A matrix inside a file: where it lies, how its numbers are written, and its rows, some at a time.

Out: rows in the form that tiles.py takes: bits of plain numbers, or integers with scales.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...weights import tiles
from ...weights.tiles import BF16, F16, F32
from .file import File


@dataclass(frozen=True)
class Encoding:
    """A source's format of numbers: its name, our type that holds its values, weights in a block, the block, and what
    turns blocks [n, k / weights] into rows in the form that tiles.py takes. Without a block: plain numbers."""

    name: str
    kind: int
    weights: int = 1
    block: np.dtype | None = None
    decode: Callable | None = None

    def row_bytes(self, k: int) -> int:
        item = self.block.itemsize if self.block else np.dtype(tiles.TYPES[self.kind].bits).itemsize
        return k // self.weights * item

    def decoded(self, data: bytearray, n: int):
        """n rows from their bytes."""
        if self.block is None:
            return np.frombuffer(data, tiles.TYPES[self.kind].bits).reshape(n, -1)
        return self.decode(np.frombuffer(data, self.block).reshape(n, -1))


PLAIN = {kind: Encoding(tiles.TYPES[kind].name.upper(), kind) for kind in (F32, F16, BF16)}


@dataclass
class Matrix:
    """[rows, k] of numbers somewhere in a source file, row after row without gaps.

    `heads`: rows of one head that are stored interleaved (0, 1 turn together) and are handed out
    half-split (i turns with i + heads / 2); 0: rows are handed out as stored. `encoding`: None for plain numbers.
    """

    name: str
    kind: int
    rows: int
    k: int
    file: File
    offset: int
    heads: int = 0
    encoding: Encoding | None = None

    @property
    def format(self) -> Encoding:
        return self.encoding or PLAIN[self.kind]

    @property
    def row_bytes(self) -> int:
        return self.format.row_bytes(self.k)

    @property
    def matrices(self) -> list["Matrix"]:
        """The matrices that lie one after another in this tensor: itself, or those of several experts."""
        return [self]

    def read(self, first: int, n: int):
        """Rows first .. first + n, in the form that tiles.py takes."""
        if not self.heads:
            return self._stored(first, n)
        d = self.heads
        start = first // d * d
        end = min(-(-(first + n) // d) * d, self.rows)
        whole = np.arange(start, end)
        in_head = whole % d
        order = whole - in_head + 2 * (in_head % (d // 2)) + in_head // (d // 2) - start
        order = order[first - start : first - start + n]
        rows = self._stored(start, end - start)
        return tuple(part[order] for part in rows) if isinstance(rows, tuple) else rows[order]

    def _stored(self, first: int, n: int):
        data = self.file.read(self.offset + first * self.row_bytes, n * self.row_bytes)
        return self.format.decoded(data, n)

    def vector(self) -> np.ndarray:
        """The whole of a small tensor as f32, in one line."""
        return tiles.values(self.kind, self.read(0, self.rows), self.k).reshape(-1)
