"""Where a tensor of ours lies in a Hugging Face model: the differences that are only storage.

In:  a Place (source tensor, which of its rows, in which order, transposed or not, plus one). Out: a Matrix that hands
out rows as FORMAT.md wants them. The same Places, followed backwards by `put`, make a source from our tensors: so the
golden tests build the reference's model.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import ConvertError
from ...weights import tiles
from ...weights.writer import PIECE_BYTES
from ..files import gguf_types
from ..files.file import File
from ..files.matrix import PLAIN, Encoding, Matrix
from .features import Slot


@dataclass(frozen=True)
class Place:
    """`shape` is the source tensor's; ours are its rows `rows` in that order (None: all of them, in order).

    transposed: the source is [k, rows]. index: it has a leading dimension of experts, of which this is one.
    add_one: norms that are stored less one. times: what is stored lacks this factor; by one that is no power of two, matrices become f32.
    given: the source has no such tensor, as its values follow from a formula.
    ones: the source has no such tensor; every value is 1, or the factor `times`.
    scales: the source is MXFP4, `shape` [..., k / 32, 16] of codes, and this tensor [..., k / 32] has the exponents.
    ternary: the source has four rows in one, of two bits each, and this tensor holds the factor of all.
    """

    name: str
    shape: tuple[int, ...]
    rows: np.ndarray | None = None
    transposed: bool = False
    index: int | None = None
    add_one: bool = False
    times: float | np.ndarray = 1.0
    ones: bool = False
    scales: str = ""
    ternary: str = ""
    exp: bool = False  # the source stores the logarithm
    given: np.ndarray | None = None
    first: int = 0  # transposed: the first k in the source
    stacked: bool = False  # some of our rows: the other places have the others
    columns: np.ndarray | None = None  # source columns in our order

    def n_rows(self, slot: Slot, n_places: int) -> int:
        """How many rows of ours are here."""
        if self.stacked:
            return self.shape[0] if self.rows is None else len(self.rows)
        return slot.rows // n_places if slot.vector else slot.rows


def unread_rows(places: list[Place]) -> dict[str, int]:
    """Tensors of which some rows, and only rows, are read: how many are not. Half a tensor is a mistake of ours."""
    rows: dict[str, set[int]] = {}
    whole = {place.name for place in places if place.rows is None or place.transposed or place.index is not None}
    for place in places:
        if place.name not in whole and not place.ternary and not place.scales:
            rows.setdefault(place.name, set(range(place.shape[0]))).difference_update(place.rows.tolist())
    return {name: len(left) for name, left in rows.items() if left}


def plain(name: str, slot: Slot) -> Place:
    """The whole of the source tensor."""
    return Place(name, (slot.rows,) if slot.vector else (slot.rows, slot.k))


def rows_of(name: str, slot: Slot, rows: np.ndarray, total: int, **rest) -> Place:
    """Some rows of a source tensor that has `total` of them."""
    return Place(name, (total,) if slot.vector else (total, slot.k), rows, **rest)


def interleaved(n_heads: int, head_dim: int, rotary: int) -> np.ndarray:
    """Source rows of half-split heads, when the source turns 0 with 1, 2 with 3 ... of the first `rotary` dims."""
    head = np.concatenate([np.arange(0, rotary, 2), np.arange(1, rotary, 2), np.arange(rotary, head_dim)])
    return (np.arange(n_heads)[:, None] * head_dim + head).ravel()


def heads_of(first: int, n_heads: int, step: int, head_dim: int) -> np.ndarray:
    """Source rows of heads that begin at `first` and lie `step` rows apart."""
    return (first + np.arange(n_heads)[:, None] * step + np.arange(head_dim)).ravel()


@dataclass
class Placed(Matrix):
    """A Matrix at a Place."""

    place: Place | None = None
    _whole: np.ndarray | None = field(default=None, repr=False)
    _left: int = 0  # rows that nobody has read yet
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def read(self, first: int, n: int):
        if self.place.ones:
            return tiles.bits(self.kind, np.ones((n, self.k), np.float32))
        if self.place.given is not None:
            return tiles.bits(self.kind, self.place.given.reshape(-1, self.k)[first : first + n])
        if self.k > 1 and self.place.times != 1:
            return tiles.bits(self.kind, tiles.values(self.format.kind, self._placed(first, n), self.k) * np.float32(self.place.times))
        return self._placed(first, n)

    def _placed(self, first: int, n: int):
        if self.place.transposed:
            return self._columns(first, n)
        rows = self._stored(first, n) if self.place.rows is None else self._gather(self.place.rows[first : first + n])
        return rows if self.place.columns is None else self._reordered(rows, self.place.columns)

    def _reordered(self, rows, columns: np.ndarray):
        """Whole groups of quantized columns; if they are not whole, `kind` is f32."""
        if isinstance(rows, tuple) and self.kind == self.format.kind:
            q, scales, *tables = rows
            groups = columns[:: tiles.GROUP] // tiles.GROUP
            return (q[:, groups], scales[:, groups], *tables)
        if isinstance(rows, tuple):
            rows = tiles.bits(self.kind, tiles.values(self.format.kind, rows, self.k))
        return rows[:, columns]

    def _gather(self, rows: np.ndarray):
        """Runs of neighbours are read at once; a scattered span that is not much larger than its rows, whole."""
        low, high = int(rows.min()), int(rows.max()) + 1
        if high - low <= 4 * len(rows):
            found = self._stored(low, high - low)
            return tuple(part[rows - low] for part in found) if isinstance(found, tuple) else found[rows - low]
        starts = np.flatnonzero(np.diff(rows, prepend=rows[0] - 2) != 1)
        ends = np.append(starts[1:], len(rows))
        found = [self._stored(int(rows[a]), b - a) for a, b in zip(starts, ends)]
        return tuple(map(np.concatenate, zip(*found))) if isinstance(found[0], tuple) else np.concatenate(found)

    def _columns(self, first: int, n: int) -> np.ndarray:
        """Rows of a matrix that is stored [k, rows]; the whole of it is in memory until all its rows were read."""
        with self._lock:
            if self._whole is None and self.format.block is not None:
                total = self.place.shape[-1]
                step = self.format.row_bytes(total)
                data = self.file.read(self.offset + self.place.first * step, self.k * step)
                self._whole, self._left = tiles.values(self.format.kind, self.format.decoded(data, self.k), total).view("<u4"), self.rows
            elif self._whole is None:
                total = self.place.shape[-1]
                bits = tiles.TYPES[self.kind].bits
                size = np.dtype(bits).itemsize
                data = self.file.read(self.offset + self.place.first * total * size, self.k * total * size)
                self._whole, self._left = np.frombuffer(data, bits).reshape(self.k, total), self.rows
            whole = self._whole
            self._left -= n
            if self._left <= 0:
                self._whole = None
        rows = np.arange(self.rows) if self.place.rows is None else self.place.rows
        return np.ascontiguousarray(whole[:, rows[first : first + n]].T)

    def vector(self) -> np.ndarray:
        x = super().vector() * np.float32(self.place.times)
        x = np.exp(x.astype(np.float64)).astype(np.float32) if self.place.exp else x
        return x + np.float32(1) if self.place.add_one else x


@dataclass
class Mxfp4(Placed):
    """A Matrix in two tensors: codes of which the lower half of a byte comes first, and exponents."""

    exponents: tuple[File, int] | None = None  # where those of its first row are

    @property
    def row_bytes(self) -> int:
        return self.k // 2

    def _stored(self, first: int, n: int):
        groups = self.k // 32
        codes = np.frombuffer(self.file.read(self.offset + first * self.row_bytes, n * self.row_bytes), "u1")
        file, offset = self.exponents
        e = np.frombuffer(file.read(offset + first * groups, n * groups), "u1").reshape(n, groups)
        codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(n, groups, 32)
        if self.kind == tiles.Q4C:
            return gguf_types.half_scaled(codes, e)
        with np.errstate(over="ignore"):
            return (gguf_types.power(e)[..., None] * gguf_types.E2M1[codes].astype("<f4")).reshape(n, self.k).view("<u4")

    def fits_half(self) -> bool:
        """Whether q4c holds its values."""
        step = max(PIECE_BYTES // self.k, 1)
        kind, self.kind = self.kind, tiles.Q4C
        rows = np.arange(self.rows) if self.place.rows is None else self.place.rows
        file, offset = self.exponents
        fits = True
        for first in range(0, self.rows, step):
            part = rows[first : first + step]
            low, n = int(part.min()), int(np.ptp(part)) + 1
            groups = self.k // 32
            e = np.frombuffer(file.read(offset + low * groups, n * groups), "u1").reshape(n, groups)[part - low]
            if not gguf_types.fits_half(np.ones((*e.shape, 1), "u1"), e):  # only zeros may have such exponents
                fits = fits and gguf_types.fits_half(self.read(first, len(part))[0], e)
        self.kind = kind
        return fits


@dataclass
class Ternary(Placed):
    """(code - 1) * factor; row i of n stored ones has the codes of rows i, n + i, 2 n + i and 3 n + i, lowest bits first."""

    factor: float = 1.0

    def _stored(self, first: int, n: int) -> np.ndarray:
        stored = self.place.shape[0]
        at = np.arange(first, first + n)
        out = np.empty((n, self.k), np.float32)
        for quarter in np.unique(at // stored):
            rows = at[at // stored == quarter] - quarter * stored
            codes = np.frombuffer(self.file.read(self.offset + int(rows[0]) * self.k, len(rows) * self.k), "u1")
            out[at // stored == quarter] = (codes.reshape(len(rows), self.k) >> 2 * quarter & 3).astype(np.float32) - 1
        return tiles.bits(self.kind, out * np.float32(self.factor))


@dataclass
class Parts(Matrix):
    """One tensor of ours from several of the source: matrices of experts, or pieces of a vector, one after another."""

    parts: list[Matrix] = field(default_factory=list)

    @property
    def matrices(self) -> list[Matrix]:
        return self.parts

    def vector(self) -> np.ndarray:
        return np.concatenate([part.vector() for part in self.parts])


@dataclass
class Stack(Parts):
    """One matrix or vector of ours whose rows are those of several tensors of the source, one after another."""

    @property
    def matrices(self) -> list[Matrix]:
        return [self]

    def read(self, first: int, n: int):
        found = []
        for part in self.parts:
            begin, end = max(first, 0), min(first + n, part.rows)
            if begin < end:
                rows = part.read(begin, end - begin)
                found.append(rows if part.kind == self.kind else tiles.bits(self.kind, tiles.values(part.kind, rows, self.k)))
            first -= part.rows
        return tuple(map(np.concatenate, zip(*found))) if isinstance(found[0], tuple) else np.concatenate(found)


NUMBERS = {encoding.name: encoding for encoding in PLAIN.values()}


def plain_numbers(entry) -> Encoding:
    """The format of a tensor of a Hugging Face directory."""
    if entry.dtype not in NUMBERS:
        raise ConvertError(f"{entry.file.path}: tensor {entry.name!r} is {entry.dtype}; F32, F16 and BF16 are read")
    return NUMBERS[entry.dtype]


def matrix(
    slot: Slot,
    places: list[Place],
    entries: dict,
    where: str,
    format_of: Callable[[Any], Encoding] = plain_numbers,
    asks: str = "config.json asks",
) -> Matrix:
    """The tensor of ours that lies at these places, of which the source's tensors must have the shapes. Parts of several
    types become f32, which holds the values of all."""
    parts = [_part(slot, place, entries, where, len(places), format_of, asks) for place in places]
    if isinstance(parts[0], Mxfp4) and all(part.fits_half() for part in parts):
        for part in parts:
            part.kind = tiles.Q4C
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    kind = first.kind if all(part.kind == first.kind for part in parts) else tiles.F32
    made = Stack if places[0].stacked else Parts
    return made(first.name, kind, slot.rows, slot.k, first.file, first.offset, encoding=first.encoding, parts=parts)


def _part(
    slot: Slot, place: Place, entries: dict, where: str, n_parts: int, format_of: Callable[[Any], Encoding], asks: str
) -> Matrix:
    rows = place.n_rows(slot, n_parts)
    if place.ones or place.given is not None:
        return Placed(slot.name, tiles.F32, rows, slot.k, None, 0, place=place)
    entry = entries.get(place.name)
    if entry is None:
        hint = "; if the embedding is meant to be the head, config.json must say tie_word_embeddings: true"
        raise ConvertError(f"{where} lacks the tensor {place.name!r}{hint if slot.name == 'head' else ''}")
    if entry.shape != place.shape:
        raise ConvertError(
            f"{entry.file.path}: tensor {place.name!r} is {list(entry.shape)}, but {asks} for {list(place.shape)}"
        )
    if place.scales:
        return _mxfp4(slot, place, entry, entries.get(place.scales), where)
    if place.ternary:
        return _ternary(slot, place, entry, entries[place.ternary])
    encoding, offset = format_of(entry), entry.offset
    if slot.vector and encoding.block:
        raise ConvertError(
            f"{entry.file.path}: tensor {place.name!r} is {entry.dtype}; norms and biases must be F32, F16 or BF16"
        )
    if place.index is not None:
        offset += place.index * encoding.row_bytes(int(np.prod(place.shape[1:], dtype=object)))
    whole = (place.columns is None or _in_groups(place.columns)) and not place.transposed
    kind = encoding.kind if whole or encoding.kind in PLAIN else tiles.F32
    if not slot.vector and math.frexp(place.times)[0] != 0.5:
        kind = tiles.F32
    return Placed(place.name, kind, rows, slot.k, entry.file, offset, encoding=encoding, place=place)


def _in_groups(columns: np.ndarray) -> bool:
    """Whether groups of columns that are quantized together stay so."""
    n = tiles.GROUP
    if len(columns) % n:
        return False
    groups = columns.reshape(-1, n)
    return bool(np.all(groups == groups[:, :1] // n * n + np.arange(n)))


def _ternary(slot: Slot, place: Place, codes, factor) -> Ternary:
    if codes.dtype != "U8" or slot.rows % 4:
        raise ConvertError(f"{codes.file.path}: tensor {codes.name!r} is {codes.dtype} of {slot.rows} rows; U8 of a multiple of 4 is needed")
    kind = plain_numbers(factor)
    one = Placed(factor.name, kind.kind, 1, 1, factor.file, factor.offset, encoding=kind, place=Place(factor.name, (1,)))
    return Ternary(
        place.name, kind.kind, slot.rows, slot.k, codes.file, codes.offset, encoding=kind, place=place,
        factor=float(one.vector()[0]),
    )  # fmt: skip


def _mxfp4(slot: Slot, place: Place, codes, exponents, where: str) -> Mxfp4:
    if exponents is None:
        raise ConvertError(f"{where} lacks the tensor {place.scales!r}")
    if exponents.shape != place.shape[:-1]:
        raise ConvertError(
            f"{where}: tensor {place.scales!r} is {list(exponents.shape)}, but {list(place.shape[:-1])} is needed"
        )
    for entry in (codes, exponents):
        if entry.dtype != "U8":
            raise ConvertError(f"{entry.file.path}: tensor {entry.name!r} is {entry.dtype}; U8 is needed")
    per, expert = int(np.prod(place.shape[1:-1], dtype=object)), place.index or 0
    return Mxfp4(
        place.name, tiles.F32, slot.rows, slot.k, codes.file, codes.offset + expert * per * 16,
        encoding=gguf_types.FORMATS["MXFP4"], place=place, exponents=(exponents.file, exponents.offset + expert * per),
    )  # fmt: skip


def put(state: dict[str, np.ndarray], slot: Slot, places: list[Place], values: np.ndarray) -> None:
    """Writes our tensor, f32, into the source tensors of `state`, which are made as they come up."""
    rows = [place.n_rows(slot, len(places)) for place in places]
    flat = values.reshape(-1) if slot.vector else values.reshape(-1, slot.k)
    for place, part in zip(places, np.split(flat, np.cumsum(rows)[:-1])):
        if place.ones:
            continue
        whole = state.setdefault(place.name, np.full(place.shape, np.nan, np.float32))
        at = whole if place.index is None else whole[place.index]
        part = part - np.float32(1) if place.add_one else part / np.float32(place.times)
        part = np.log(part.astype(np.float64)).astype(np.float32) if place.exp else part
        part = part if place.columns is None else part[:, np.argsort(place.columns)]
        if place.transposed:
            of = slice(place.first, place.first + slot.k)
            at[of, slice(None) if place.rows is None else place.rows] = part.T
        elif place.rows is None:
            at[...] = part.reshape(at.shape)
        elif slot.vector:
            at.reshape(-1)[place.rows] = part
        else:
            at[place.rows] = part
