"""Hidden states: the stream after a layer, and what the head reads, as arrays."""

import numpy as np

from .errors import USAGE, ConvertError
from .library import Engine, Observation

POOLINGS = ("mean", "last")


def states(engine: Engine, ids: list[int], layer: int | None) -> np.ndarray:
    """f32 [n, dim] after a layer; None: after the final norm."""
    if layer is None:
        rows = engine.hidden(ids)
        engine.check_numbers()
        return rows
    n = engine.info.n_layers
    if not isinstance(layer, int | np.integer) or not -n <= layer < n:
        raise ConvertError(f"layer: {layer!r} is not one of 0 to {n - 1}", USAGE)
    parts: list[np.ndarray] = []

    def take(o: Observation) -> None:
        if o.operation == "out" and o.layer == layer % n:
            parts.append(o.values.copy())

    engine.observe(ids, set(), take)
    return np.concatenate(parts)


def embed(engine: Engine, ids: list[int], pooling: str, normalize: bool) -> np.ndarray:
    """f32 [dim]"""
    if pooling not in POOLINGS:
        raise ConvertError(f"pooling: {pooling!r} is not one of {', '.join(POOLINGS)}", USAGE)
    rows = engine.hidden(ids, 1 if pooling == "last" else None)
    engine.check_numbers()
    x = rows.mean(axis=0, dtype=np.float64)
    length = np.linalg.norm(x) if normalize else 1
    return (x / (length or 1)).astype(np.float32)
