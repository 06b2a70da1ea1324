"""Inverse frequencies of RoPE in binary64; they are rounded to f32 once, when they are stored.

In:  base, rotary dims, and the scaling as a model's config states it. Out: f64 [dims / 2].
To add a scaling: a function in SCALINGS, which takes (frequencies, parameters) and may read its keys.
"""

import math
from collections.abc import Callable

import numpy as np

from ...errors import ConvertError
from .features import MAX_SEQ


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
    """Llama 3.1: long waves are slowed by the factor, short ones kept, those between blended. In Llama 4 none are between."""
    factor, low, high = p.number("factor"), p.number("low_freq_factor"), p.number("high_freq_factor")
    original = p.positions("original_max_position_embeddings")
    if low > high:
        raise ConvertError(f"{p.where}: low_freq_factor {low:g} must not be more than high_freq_factor {high:g}")
    out = []
    for f in freq:
        wave = 2 * math.pi / f
        blend = (original / wave - low) / ((high - low) or 1)
        if wave < original / high:
            out.append(f)
        elif wave > original / low:
            out.append(f / factor)
        else:
            out.append((1 - blend) * f / factor + blend * f)
    return out


def _yarn(freq: list[float], p: "Parameters") -> list[float]:
    """YaRN (Peng et al., 2023): fast waves are kept, slow ones slowed by the factor, a linear ramp between."""
    original = p.positions("original_max_position_embeddings")
    factor = p.number("factor", 0) or p.max_seq / original
    fast, slow = p.number("beta_fast", 32) or 32, p.number("beta_slow", 1) or 1
    dims = 2 * len(freq)

    def dimension(turns: float) -> float:
        return dims * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(p.base))

    low, high = dimension(fast), dimension(slow)
    if p.flag("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    high = high + 0.001 if low == high else high
    scale, all_dims = p.number("mscale", 0), p.number("mscale_all_dim", 0)
    p.factor = p.number("attention_factor", 0) or (
        _mscale(factor, scale) / _mscale(factor, all_dims) if scale and all_dims else _mscale(factor, 1)
    )
    out = []
    for i, f in enumerate(freq):
        ramp = min(max((i - low) / (high - low), 0.0), 1.0)
        out.append(f / factor * ramp + f * (1 - ramp))
    return out


def _mscale(factor: float, scale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def _longrope(freq: list[float], p: "Parameters") -> list[float]:
    """LongRoPE (Ding et al., 2024): a divisor for each frequency, others beyond the original length."""
    original = p.positions("original_max_position_embeddings")
    factor = p.number("factor", 0) or p.max_seq / original
    p.factor = p.number("attention_factor", 0) or (
        1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    )
    short, long = p.numbers("short_factor", len(freq)), p.numbers("long_factor", len(freq))
    p.long = [f / d for f, d in zip(freq, long)]
    p.limit = int(original)
    return [f / d for f, d in zip(freq, short)]


def _dynamic(freq: list[float], p: "Parameters") -> list[float]:
    """Dynamic NTK for a text of `length` positions: the reference's own result depends on how it was cut."""
    factor, dims = p.number("factor"), 2 * len(freq)
    if p.length is None:
        raise ConvertError(
            f"{p.where}: dynamic scaling depends on the length of the text; say for which with --rope-length N"
        )
    length = max(p.length, p.max_seq)
    base = p.base * ((factor * length / p.max_seq) - (factor - 1)) ** (dims / (dims - 2))
    return plain(base, dims)


def _proportional(freq: list[float], p: "Parameters") -> list[float]:
    """The first frequencies alone turn, `partial_rotary_factor` of them; the others are 0."""
    part, factor = p.number("partial_rotary_factor", 1.0), p.number("factor", 1.0)
    if part > 1:
        raise ConvertError(f"{p.where}: partial_rotary_factor is {part!r}; it must be at most 1")
    turning = int(part * 2 * len(freq) // 2)
    return [f / factor for f in freq[:turning]] + [0.0] * (len(freq) - turning)


SCALINGS: dict[str, Callable] = {
    "default": _default,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
    "dynamic": _dynamic,
    "proportional": _proportional,
}


class Parameters:
    """A RoPE dictionary of a config; remembers which keys were read, so that the others are refused.

    max_seq: positions of the model. length: of the texts that a dynamic scaling is converted for, or None.
    After `frequencies`: factor, of cos and sin; long and limit, a second set and the length from which it holds.
    """

    def __init__(self, where: str, values: dict, max_seq: int = 0, length: int | None = None):
        self.where, self.values, self.max_seq, self.length = where, values, max_seq, length
        self.used = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}
        self.base, self.factor, self.long, self.limit = 0.0, 1.0, None, 0

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number above zero; null and absence are the default, where there is one."""
        self.used.add(key)
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e30:
            raise ConvertError(f"{self.where}: {key} is {value!r}; it must be a number above 0")
        return float(value)

    def positions(self, key: str) -> float:
        """A number of positions, from 2 on."""
        value = self.number(key)
        if not 2 <= value <= MAX_SEQ:
            raise ConvertError(f"{self.where}: {key} is {self.values[key]!r}; it must be 2 to {MAX_SEQ}")
        return value

    def numbers(self, key: str, n: int) -> list[float]:
        self.used.add(key)
        value = self.values.get(key)
        good = isinstance(value, list) and len(value) == n
        if not good or not all(type(v) in (int, float) and 1e-30 < v < 1e30 for v in value):
            raise ConvertError(f"{self.where}: {key} must be {n} numbers above 0")
        return [float(v) for v in value]

    def flag(self, key: str, default: bool) -> bool:
        self.used.add(key)
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise ConvertError(f"{self.where}: {key} is {value!r}; it must be true or false")
        return value

    def scaling(self) -> str:
        kind = self.values.get("rope_type", self.values.get("type", "default"))
        if not isinstance(kind, str) or kind not in SCALINGS:
            known = ", ".join(SCALINGS)
            raise ConvertError(f"{self.where}: the RoPE scaling {kind!r} is not understood; known are {known}")
        if self.values.get("type", kind) != kind:
            raise ConvertError(f"{self.where}: type is {self.values['type']!r}, but rope_type is {kind!r}; leave one of them out")
        return kind


def frequencies(base: float, dims: int, parameters: Parameters) -> np.ndarray:
    """f64 [dims / 2] with the scaling applied; a key of the scaling that nobody read is refused."""
    parameters.base = base
    try:
        freq = SCALINGS[parameters.scaling()](plain(base, dims), parameters)
    except (OverflowError, ZeroDivisionError):
        raise ConvertError(f"{parameters.where}: the frequencies for the base {base:g} are beyond binary64") from None
    unknown = sorted(set(parameters.values) - parameters.used)
    if unknown:
        names, many = ", ".join(map(repr, unknown)), len(unknown) > 1
        raise ConvertError(
            f"{parameters.where}: the {'keys' if many else 'key'} {names} {'are' if many else 'is'} not understood"
        )
    return checked(freq)


def divided(freq: np.ndarray, divisors: np.ndarray) -> np.ndarray:
    """f64 frequencies by f32 divisors. Where these are, up to their rounding, what llama3 scaling with its usual waves
    gives for some factor and original length, that scaling itself, as the model's own config gives it."""
    factor, blends = divisors.max(), divisors[(divisors > 1) & (divisors < divisors.max())]
    if factor > 1 and divisors.min() >= 1 and len(blends):
        d, f = blends[0], freq[np.flatnonzero(divisors == blends[0])[0]]
        turns = 1 + 3 * (factor / d - 1) / (factor - 1)  # waves of this length in the original one
        guess = {"factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        guess["original_max_position_embeddings"] = float(min(max(round(turns * 2 * math.pi / f), 2), MAX_SEQ))
        exact = np.array(_llama3(list(freq), Parameters("rope_freqs.weight", guess)))
        if np.allclose(freq / exact, divisors, rtol=1e-5, atol=0):
            return checked(exact)
    return checked(freq / divisors)


def checked(freq) -> np.ndarray:
    """The frequencies, all of which f32 can hold above 0; those at the end that do not turn are 0."""
    out = np.asarray(freq, "<f8")
    with np.errstate(over="ignore", under="ignore"):
        single = out.astype("<f4")
    if not np.all(np.isfinite(single) & (single > 0) | (out == 0) & (np.arange(len(out)) > 0)):
        raise ConvertError("a RoPE frequency is not a number that f32 can hold above 0")
    return out
