"""Holds a weights file that was written to its source: every tensor, some rows at a time.

Types without loss must have the source's values, bit for bit; f16 and bf16 those values rounded. What ./quantize made
may differ by what no correct encoder of groups of 32 exceeds: an error of half a step, of max / 127 or max / 8, in each
weight is at most sqrt(32) / 254 or sqrt(32) / 16 of the group's length. A wrong tensor differs by about sqrt(2).
"""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from . import tiles, weights
from .errors import ConvertError
from .reader import WeightsFile
from .source import Matrix, Slot, Source, slots

# ||file - source|| / ||source||; scales are rounded to f16, and q8's steps reach no further than 127.
BOUNDS = {tiles.Q8: 1.05 * math.sqrt(32) / 254, tiles.Q4: 1.05 * math.sqrt(32) / 16}


def check(source: Source, path: Path, progress: Callable[[int], None] = lambda n: None) -> str:
    """What was found, when all is well."""
    file = WeightsFile(path)
    wanted = [slot.name for slot in slots(source.config)]
    if list(file.tensors) != wanted:
        raise _wrong(path, "its tensors are not those of the source")
    worst: dict[str, tuple[float, str]] = {}
    equal = 0
    for slot in slots(source.config):
        m, kind = source.matrices[slot.name], file.tensors[slot.name]["kind"]
        error = _tensor(m, slot, file, progress)
        if error > (0 if m.kind == kind else BOUNDS.get(kind, 0)):
            what = f"{slot.name}, {tiles.TYPES[kind].name}"
            raise _wrong(path, f"{what}, differs from the source by {error:.3g} of its length")
        if kind in BOUNDS and error > 0:
            name = tiles.TYPES[kind].name
            worst[name] = max(worst.get(name, (0.0, "")), (error, slot.name))
        else:
            equal += 1
    lossy = "".join(f"; {kind} differs by at most {error:.2%} ({name})" for kind, (error, name) in worst.items())
    return f"{equal} of {len(wanted)} tensors have the source's values{lossy}"


def _wrong(path: Path, what: str) -> ConvertError:
    return ConvertError(f"{path} is not what was converted: {what}; the disk or this program is at fault", 1)


def _tensor(m: Matrix, slot: Slot, file: WeightsFile, progress: Callable[[int], None]) -> float:
    """||file - source|| / ||source||; 0 where they are the same bits, or the source's values rounded."""
    t = file.tensors[slot.name]
    if slot.vector:
        same = np.array_equal(file.some(slot.name, 0, 0, slot.rows).reshape(-1), m.vector(), equal_nan=True)
        return 0.0 if same else math.inf
    difference = length = 0.0
    step = max(weights.PIECE_BYTES // (slot.k * 4) // tiles.TILE_ROWS, 1) * tiles.TILE_ROWS
    for i, part in enumerate(getattr(m, "parts", None) or [m]):
        for first in range(0, slot.rows, step):
            n = min(step, slot.rows - first)
            want, got = tiles.values(part.kind, part.read(first, n), slot.k), file.some(slot.name, i, first, n)
            if t["kind"] in (tiles.F16, tiles.BF16):
                want = tiles.values(t["kind"], tiles.bits(t["kind"], want), slot.k)
            if not np.array_equal(got, want, equal_nan=True):
                difference += float(np.square(got - want, dtype="f8").sum())
            length += float(np.square(want, dtype="f8").sum()) if t["kind"] in BOUNDS else 1
            progress(n * slot.k)
    return 0.0 if difference == 0 else math.sqrt(difference / length) if length else math.inf
