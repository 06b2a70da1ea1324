"""Holds a weights file that was written to its source: every tensor, some rows at a time.

Tensors of the source's type, and f32, must have its values; f16 and bf16 those values rounded, and it is said how many
tensors that changed, by how much of a value, and how many values became zero. What ./quantize made
may differ by what no correct encoder of groups of 32 exceeds: an error of half a step, of max / 127, max / 8 or, between
the first two values of q4c, max * 25 / 127, in each weight is at most sqrt(32) / 254, sqrt(32) / 16 or sqrt(32) * 25 / 254
of the group's length. A wrong tensor differs by about sqrt(2).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...errors import ConvertError
from ...weights import tiles, writer
from ...weights.reader import WeightsFile
from ..families.features import Slot, slots
from ..files.matrix import Matrix
from ..sources.source import Source

# ||file - source|| / ||source||; scales are rounded to f16, and q8's steps reach no further than 127.
BOUNDS = {tiles.Q8: 1.05 * math.sqrt(32) / 254, tiles.Q4: 1.05 * math.sqrt(32) / 16,
          tiles.Q4C: 1.05 * math.sqrt(32) * 25 / 254}  # fmt: skip


@dataclass
class Rounding:
    """What a narrower float type did to the tensors of one type: how many changed, the largest |file - source| / |source|
    of the values that did not become zero, its tensor, and the values that became zero."""

    tensors: int = 0
    error: float = 0.0
    worst: str = ""
    zeros: int = 0

    def see(self, name: str, want: np.ndarray, got: np.ndarray) -> bool:
        """Whether any value of these is not the source's."""
        changed = (got != want) & ~np.isnan(want)
        if not changed.any():
            return False
        want, got = want[changed].astype("f8"), got[changed].astype("f8")
        gone = got == 0
        self.zeros += int(gone.sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            error = float((np.abs(got - want) / np.abs(want))[~gone].max(initial=0.0))
        if error > self.error:
            self.error, self.worst = error, name
        return True

    def said(self, kind: str) -> str:
        by = f", each value by at most {self.error:.2%} ({self.worst})" if self.worst else ""
        zeros = f"; {self.zeros} {'value that was' if self.zeros == 1 else 'values that were'} not zero became zero"
        return f"; {self.tensors} rounded to {kind}{by}{zeros if self.zeros else ''}"


def check(source: Source, path: Path, progress: Callable[[int], None] = lambda n: None) -> str:
    """What was found, when all is well."""
    file = WeightsFile(path)
    wanted = [slot.name for slot in slots(source.config)]
    if list(file.tensors) != wanted:
        raise _wrong(path, "its tensors are not those of the source")
    worst: dict[str, tuple[float, str]] = {}
    rounded: dict[int, Rounding] = {}
    equal = 0
    for slot in slots(source.config):
        m, kind = source.matrices[slot.name], file.tensors[slot.name]["kind"]
        changes = rounded.setdefault(kind, Rounding())
        before = changes.tensors
        error = _tensor(m, slot, file, changes, progress)
        if error > (0 if m.kind == kind else BOUNDS.get(kind, 0)):
            what = f"{slot.name}, {tiles.TYPES[kind].name}"
            raise _wrong(path, f"{what}, differs from the source by {error:.3g} of its length")
        if kind in BOUNDS and error > 0:
            name = tiles.TYPES[kind].name
            worst[name] = max(worst.get(name, (0.0, "")), (error, slot.name))
        elif changes.tensors == before:
            equal += 1
    lossy = "".join(f"; {kind} differs by at most {error:.2%} ({name})" for kind, (error, name) in worst.items())
    lossy += "".join(r.said(tiles.TYPES[kind].name) for kind, r in rounded.items() if r.tensors)
    return f"{equal} of {len(wanted)} tensors have the source's values{lossy}"


def _wrong(path: Path, what: str) -> ConvertError:
    return ConvertError(f"{path} is not what was converted: {what}; the disk or this program is at fault", 1)


def _tensor(m: Matrix, slot: Slot, file: WeightsFile, rounded: Rounding, progress: Callable[[int], None]) -> float:
    """||file - source|| / ||source||; 0 where they are the same values, or the source's rounded, as `rounded` then has."""
    t = file.tensors[slot.name]
    if slot.vector:
        same = np.array_equal(file.some(slot.name, 0, 0, slot.rows).reshape(-1), m.vector(), equal_nan=True)
        return 0.0 if same else math.inf
    difference, length, changed = 0.0, 0.0, False
    step = max(writer.PIECE_BYTES // (slot.k * 4) // tiles.TILE_ROWS, 1) * tiles.TILE_ROWS
    for i, part in enumerate(m.matrices):
        for first in range(0, slot.rows, step):
            n = min(step, slot.rows - first)
            want, got = tiles.values(part.kind, part.read(first, n), slot.k), file.some(slot.name, i, first, n)
            if t["kind"] in (tiles.F16, tiles.BF16):
                changed |= rounded.see(slot.name, want, got)
                want = tiles.values(t["kind"], tiles.bits(t["kind"], want), slot.k)
            if not np.array_equal(got, want, equal_nan=True):
                difference += float(np.square(got - want, dtype="f8").sum())
            length += float(np.square(want, dtype="f8").sum()) if t["kind"] in BOUNDS else 1
            progress(n * slot.k)
    rounded.tensors += changed
    return 0.0 if difference == 0 else math.sqrt(difference / length) if length else math.inf
