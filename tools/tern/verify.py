"""Holds every step of a converted model to probes: what transformers got from the original, for the same tokens.

In:  a file of numpy.savez (tools/golden.py --probes writes it) and a model open in the library. The file has
       tokens     int32 [n]        the text
       positions  int32 [rows]     ascending: the rows that were kept of each of the others,
       embed, layer.0.attn_norm, layer.0.q, ... logits   float32 [rows, columns], in the order of the forward pass; the
                                   names are those of tern_observe (include/tern_lab.h)
Out: for each array the largest error. An operation holds where max |a - b| <= bound * max |b| in every row.
"""

import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tqdm import tqdm

from .errors import ConvertError, reading
from .library import Engine, Observation

# What a file of this type may differ from its source in f32; measured on the golden models (tools/README.md)
BOUNDS = {"f32": 1e-4, "f16": 0.02, "bf16": 0.1, "q8": 0.5, "q4": 4.0, "q4c": 4.0}
IN_LAYERS = "attn_norm q k v attend o attn_post_norm middle ffn_norm gate up act down router experts ffn_post_norm ple out".split()
OUTSIDE = "embed final_norm logits".split()
NAME = re.compile(rf"layer\.\d+\.({'|'.join(IN_LAYERS)})|{'|'.join(OUTSIDE)}")


@dataclass
class Probe:
    values: np.ndarray  # [rows, columns]
    seen: bool = False
    worst: float = 0.0
    at: int | None = None  # the first position beyond the bound


@dataclass
class Probes:
    tokens: np.ndarray
    positions: np.ndarray
    arrays: dict[str, Probe]  # in the order of the file


@dataclass
class Tally:
    """An operation over all layers."""

    layers: set[int] = field(default_factory=set)
    probed: bool = False
    worst: float = 0.0
    layer: int = 0  # of the worst


def read(path: Path) -> Probes:
    """A file of probes, checked."""
    path.stat()
    if path.is_file() and not zipfile.is_zipfile(path):
        raise ConvertError(f"{path}: is not a file of numpy.savez; tools/golden.py --probes writes such files")
    with reading(f"{path}, a file of numpy.savez,"), np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    tokens, positions = arrays.pop("tokens", None), arrays.pop("positions", None)
    if tokens is None or positions is None or any(a.dtype != np.int32 or a.ndim != 1 for a in (tokens, positions)):
        raise ConvertError(f"{path}: lacks tokens or positions as int32; tools/golden.py --probes writes such files")
    if (np.diff(positions) < 1).any() or (positions < 0).any() or (positions >= len(tokens)).any():
        raise ConvertError(f"{path}: positions must ascend and lie within the tokens")
    if not arrays or not len(positions):
        raise ConvertError(f"{path}: has no probes, only tokens and positions")
    for name, values in arrays.items():
        if not NAME.fullmatch(name):
            raise ConvertError(f"{path}: {name!r:.80} is not an operation; another program made the file, or it is damaged")
        if values.dtype != np.float32 or values.ndim != 2 or 0 in values.shape or len(values) != len(positions):
            raise ConvertError(f"{path}: {name} must be float32 with one row for each of the {len(positions)} positions")
    return Probes(tokens, positions, {name: Probe(values) for name, values in arrays.items()})


def distance(rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """max |a - b| / max |b| of each row; infinite where a value is not a number."""
    a, b = rows.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        far, most = np.abs(a - b).max(1), np.abs(b).max(1)
        result = np.where(far == 0, 0.0, far / most)
    return np.where(np.isnan(result), np.inf, result)


class Comparison:
    """Takes what the engine's observer shows, and keeps the errors."""

    def __init__(self, probes: Probes, n_layers: int, bound: float):
        self.probes, self.n_layers, self.bound = probes, n_layers, bound
        self.tallies: dict[str, Tally] = {}
        self.row = {int(position): i for i, position in enumerate(probes.positions)}

    def take(self, o: Observation) -> None:
        tally = self.tallies.setdefault(o.operation, Tally())
        tally.layers.add(o.layer)
        whole = o.layer == self.n_layers or o.operation == "embed"
        probe = self.probes.arrays.get(o.operation if whole else f"layer.{o.layer}.{o.operation}")
        if probe is None or probe.values.shape[1] != o.values.shape[1]:
            return
        tally.probed = True
        pairs = [(i, self.row[p]) for i, p in enumerate(o.positions) if p in self.row]
        if not pairs:
            return
        mine, theirs = (list(side) for side in zip(*pairs))
        errors = distance(o.values[mine], probe.values[theirs])
        probe.seen = True
        beyond = np.flatnonzero(errors > self.bound)
        if probe.at is None and len(beyond):
            probe.at = int(self.probes.positions[theirs[beyond[0]]])
        probe.worst = max(probe.worst, float(errors.max()))
        if errors.max() > tally.worst:
            tally.worst, tally.layer = float(errors.max()), o.layer

    def table(self) -> str:
        lines = [f"{len(self.probes.tokens)} tokens, {len(self.probes.positions)} rows, {len(self.probes.arrays)} arrays\n"]
        lines.append(f"{'operation':<16} {'worst error':>12}  in layer")
        for name, tally in self.tallies.items():
            said = f"{tally.worst:>12.2g}  {tally.layer}" if tally.probed else f"{'no probe':>12}"
            lines.append(f"{name:<16} {said}")
        return "\n".join(lines)

    def first_wrong(self) -> str | None:
        """The sentence that names the first array that does not hold, in the order of the forward pass."""
        for name, probe in self.probes.arrays.items():
            said = re.sub(r"layer\.(\d+)\.", r"layer \1, ", name)
            if not probe.seen:
                return (
                    f"{said} is the first that differs: the probes have {probe.values.shape[1]} columns of it, the model "
                    "has another number or no such operation"
                )
            if probe.at is not None:
                again = name.split(".")[-1] in ("q", "k", "gate", "up")  # their rows are in the converter's order of then
                return (
                    f"{said} is the first that differs: at position {probe.at} and, over all rows, by up to {probe.worst:.2g} "
                    f"of the largest value of the row; the bound is {self.bound:g}"
                    + ("; if layouts.py has changed since the probes were taken, take them again" if again else "")
                )
        return None

    def verdict(self) -> str:
        n = sum(len(tally.layers) for tally in self.tallies.values())
        return (
            f"ok: {len(self.probes.arrays)} of {n} operations compared, of all layers: each is within {self.bound:g} of the "
            "largest value of its row"
        )


def compare(engine: Engine, probes: Probes, bound: float) -> Comparison:
    """Evaluates the tokens of the probes and compares every step."""
    result, n = Comparison(probes, engine.info.n_layers, bound), engine.info.n_layers
    with tqdm(total=n * len(probes.tokens), desc="layers of tokens", disable=None, leave=False) as bar:

        def take(o: Observation) -> None:
            result.take(o)
            bar.update(len(o.positions) * (o.operation == "out"))

        engine.observe(probes.tokens.tolist(), {int(p) for p in probes.positions}, take)
    return result
