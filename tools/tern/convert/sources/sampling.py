"""Defaults of sampling that a source states, in the words of FORMAT.md (section `generation`)."""

from typing import Any

from ...errors import ConvertError

# Ours: that of generation_config.json, that of general.sampling. in a GGUF file, and the range
KEYS = {
    "temperature": ("temperature", "temp", 0, 1e3),
    "top_k": ("top_k", "top_k", 0, 1 << 31),
    "top_p": ("top_p", "top_p", 0, 1),
    "min_p": ("min_p", "min_p", 0, 1),
    "repeat_penalty": ("repetition_penalty", "penalty_repeat", 1e-3, 1e3),
    "presence_penalty": ("presence_penalty", "penalty_present", -1e3, 1e3),
    "frequency_penalty": ("frequency_penalty", "penalty_freq", -1e3, 1e3),
}


def of_generation_config(where: str, values: dict[str, Any]) -> dict[str, Any]:
    """A model that is not to sample has temperature 0."""
    found = {ours: values.get(theirs) for ours, (theirs, *_) in KEYS.items()}
    greedy = {"temperature": 0.0, "top_k": None, "top_p": None, "min_p": None} if values.get("do_sample") is False else {}
    return _checked(where, 0, found | greedy)


def of_gguf(where: str, values: dict[str, Any]) -> dict[str, Any]:
    return _checked(where, 1, {ours: values.get("general.sampling." + theirs) for ours, (_, theirs, *_) in KEYS.items()})


def _checked(where: str, place: int, found: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for ours, value in found.items():
        if value is None:
            continue
        *names, low, high = KEYS[ours]
        whole = ours == "top_k"
        good = isinstance(value, int) if whole else isinstance(value, (int, float))
        if isinstance(value, bool) or not good or not low <= value <= high:
            raise ConvertError(f"{where}: {names[place]} is {value!r}; it must be a number from {low:g} to {high:g}")
        out[ours] = value if whole else float(value)
    return out
