"""The attention of a text as matrices."""

import ctypes
from collections.abc import Iterable, Sequence

import numpy as np

from .library import Engine
from .structs import FLOATS, OBSERVE, STAGES, AttentionParams


class Attention:
    """The attention of `ids`, evaluated as a fresh sequence, in some layers (None: all) as rows of a matrix (tern_attention). It
    keeps their q, k and v until it is closed, at the latest with its engine."""

    def __init__(self, engine: Engine, ids: Sequence[int], layers: Iterable[int] | None = None):
        self.engine, self.n, self.handle = engine, len(ids), ctypes.c_void_p()
        wanted = range(engine.info.n_layers) if layers is None else set(layers)
        kept = (ctypes.c_ubyte * engine.info.n_layers)(*(i in wanted for i in range(engine.info.n_layers)))

        def evaluate(seq: int) -> None:
            params = AttentionParams(seq, self.n, kept)
            engine._try("tern_attention_open", ctypes.byref(self.handle), engine.context, ctypes.byref(params))
            engine.rows.add(self)
            engine._watch(ids, set(), ctypes.cast(engine.lib.tern_attention_feed, OBSERVE), self.handle, seq)

        engine.run_alone(evaluate)

    def rows(self, layer: int, head: int, stage: str) -> np.ndarray:
        """f32 [n, n]: a stage of STAGES, of all tokens of one head."""
        out, n = np.empty((self.n, self.n), np.float32), ctypes.c_size_t(self.n)

        def compute() -> None:
            at = (self.handle, ctypes.c_uint64(layer), ctypes.c_uint64(head), STAGES.index(stage), 0, self.n)
            self.engine._try("tern_attention_rows", *at, out.ctypes.data_as(FLOATS), n)

        self.engine.run(compute)
        return out

    def close(self) -> None:
        handle, self.handle = self.handle, ctypes.c_void_p()
        self.engine.lib.tern_attention_close(handle)

    __del__ = close
