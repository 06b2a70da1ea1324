"""The attention zoo: attention as papers define it, on numpy arrays."""

import ctypes
from pathlib import Path

import numpy as np

from . import programs
from .errors import ConvertError
from .handle import load
from .structs import FLOATS, Error, ZooArrays, ZooCost


class Zoo:
    """The attention zoo on numpy arrays: `kinds` is {name: paper}. `library`: programs.library() by default."""

    def __init__(self, library: Path | None = None):
        self.lib, self.error, self.kinds = load((library or programs.library()).resolve()), Error(), {}
        while name := self.lib.tern_zoo_name(ctypes.c_size_t(len(self.kinds))):
            self.kinds[name.decode()] = self.lib.tern_zoo_paper(ctypes.c_size_t(len(self.kinds))).decode()

    def run(self, name: str, q, k, v, *, weights: bool = False, bidirectional: bool = False, mask=None, sinks=None, alibi=None, beta=None,
            up_k=None, up_v=None, **numbers) -> tuple[np.ndarray, np.ndarray | None, ZooCost]:  # fmt: skip
        """(out, weights or None, cost) of arrays in the shapes of tern_lab.h. `numbers` are its fields: scale, cap, window, first,
        block, parts, latent_dim, rope_dim."""
        arrays = {"q": q, "k": k, "v": v, "sinks": sinks, "alibi": alibi, "beta": beta, "up_k": up_k, "up_v": up_v}
        arrays = {n: np.ascontiguousarray(x, np.float32) for n, x in arrays.items() if x is not None}
        (n, rows, heads, d), keys = arrays["q"].shape, arrays["k"].shape[1]
        e = arrays["v"].shape[-1] if v is not None else up_v.shape[1]
        kv_heads = arrays["v"].shape[2] if v is not None else heads
        arrays["out"] = np.empty((n, rows, heads, e), np.float32)
        if weights:
            arrays["weights"] = np.empty((n, heads, rows, keys), np.float32)
        z = ZooArrays(n, rows, keys, heads, kv_heads, d, e, bidirectional=bidirectional, **numbers)
        for field, x in arrays.items():
            setattr(z, field, x.ctypes.data_as(FLOATS))
        if mask is not None:
            hidden = np.ascontiguousarray(mask, np.uint8)
            z.mask = hidden.ctypes.data_as(ctypes.POINTER(ctypes.c_ubyte))
        cost = ZooCost()
        if code := self.lib.tern_zoo(ctypes.byref(z), name.encode(), ctypes.byref(cost), ctypes.byref(self.error)):
            raise ConvertError(self.error.sentence, code)
        return arrays["out"], arrays.get("weights"), cost
