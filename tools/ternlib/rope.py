"""Inverse frequencies of RoPE in binary64; they are rounded to f32 once, when they are stored.

In:  base, rotary dims, and the scaling as a model's config states it. Out: f64 [dims / 2].
To add a scaling: a function in SCALINGS, which takes (frequencies, parameters) and may read its keys.
"""

import math
from collections.abc import Callable

import numpy as np

from .errors import ConvertError


def plain(base: float, dims: int) -> list[float]:
    """base^(-2i / dims), i = 0 .. dims / 2 - 1."""
    return [1.0 / base ** (2 * i / dims) for i in range(dims // 2)]


def _default(freq: list[float], p: "Parameters") -> list[float]:
    return freq


def _linear(freq: list[float], p: "Parameters") -> list[float]:
    """Positions divided by a factor (position interpolation)."""
    factor = p.number("factor")
    return [f / factor for f in freq]


def _llama3(freq: list[float], p: "Parameters") -> list[float]:
    """Llama 3.1: long waves are slowed by the factor, short ones kept, those between blended."""
    factor, low, high = p.number("factor"), p.number("low_freq_factor"), p.number("high_freq_factor")
    original = p.number("original_max_position_embeddings")
    if low >= high:
        raise ConvertError(f"{p.where}: low_freq_factor {low:g} must be less than high_freq_factor {high:g}")
    out = []
    for f in freq:
        wave = 2 * math.pi / f
        blend = (original / wave - low) / (high - low)
        if wave < original / high:
            out.append(f)
        elif wave > original / low:
            out.append(f / factor)
        else:
            out.append((1 - blend) * f / factor + blend * f)
    return out


SCALINGS: dict[str, Callable] = {"default": _default, "linear": _linear, "llama3": _llama3}


class Parameters:
    """A RoPE dictionary of a config; remembers which keys were read, so that the others are refused."""

    def __init__(self, where: str, values: dict):
        self.where, self.values, self.used = where, values, {"rope_type", "type", "rope_theta"}

    def number(self, key: str) -> float:
        """A finite number above zero."""
        self.used.add(key)
        value = self.values.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e30:
            raise ConvertError(f"{self.where}: {key} is {value!r}; it must be a number above 0")
        return float(value)

    def scaling(self) -> str:
        kind = self.values.get("rope_type", self.values.get("type", "default"))
        if not isinstance(kind, str) or kind not in SCALINGS:
            known = ", ".join(SCALINGS)
            raise ConvertError(f"{self.where}: the RoPE scaling {kind!r} is not understood; known are {known}")
        return kind


def frequencies(base: float, dims: int, parameters: Parameters) -> np.ndarray:
    """f64 [dims / 2] with the scaling applied; a key of the scaling that nobody read is refused."""
    try:
        freq = SCALINGS[parameters.scaling()](plain(base, dims), parameters)
    except (OverflowError, ZeroDivisionError):
        raise ConvertError(f"{parameters.where}: the frequencies for the base {base:g} are beyond binary64") from None
    unknown = sorted(set(parameters.values) - parameters.used)
    if unknown:
        raise ConvertError(f"{parameters.where}: the key {unknown[0]!r} is not understood")
    return checked(freq)


def checked(freq) -> np.ndarray:
    """The frequencies, all of which f32 can hold above 0."""
    out = np.asarray(freq, "<f8")
    with np.errstate(over="ignore", under="ignore"):
        single = out.astype("<f4")
    if not np.all(np.isfinite(single) & (single > 0)):
        raise ConvertError("a RoPE frequency is not a number that f32 can hold above 0")
    return out
