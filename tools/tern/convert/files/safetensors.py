"""Reads the header of a safetensors file: names, types, shapes and places of its tensors.

The safetensors package checks as much, but has no bfloat16 for numpy and does not say where a tensor
lies, so that a large one could not be read in pieces.
"""

import json
import math
import os
import struct

from ...errors import ConvertError
from ...weights.tiles import BF16, F16, F32
from .file import Entry, File, same_bytes

MAX_HEADER = 100_000_000
TYPES = {"F32": (F32, 4), "F16": (F16, 2), "BF16": (BF16, 2)}
SPECIAL = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
BYTES = {"F32": 4, "F16": 2, "BF16": 2, "U8": 1}


def parse_json(text: bytes, what: str, special: bool = False):
    """JSON, where a name that comes twice, NaN and damage are one clear error. special: infinities and NaN are read, as
    Python writes them, and as transformers does: {"__float__": "Infinity"}."""

    def pairs(items):
        out = dict(items)
        if len(out) != len(items):
            names = [name for name, _ in items]
            twice = next(name for name in names if names.count(name) > 1)
            raise ConvertError(f"{what} has the key {twice!r} twice")
        stated = out.get("__float__") if special and len(out) == 1 else None
        return SPECIAL[stated] if isinstance(stated, str) and stated in SPECIAL else out

    def constant(name):
        raise ConvertError(f"{what} holds {name}, which is not JSON")

    try:
        constants = None if special else constant
        return json.loads(text.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constants)
    except (ValueError, RecursionError) as e:
        reason = "it is nested too deeply" if isinstance(e, RecursionError) else e
        raise ConvertError(f"{what} is not valid JSON: {reason}") from None


def read(path: str | os.PathLike) -> dict[str, Entry]:
    """All tensors of the file, in the order of their bytes; every claim is checked against its size."""
    file = File(path)
    if file.size < 8:
        raise ConvertError(f"{path} has {file.size} bytes, too few for a safetensors file")
    (n,) = struct.unpack("<Q", file.read(0, 8))
    if n > min(MAX_HEADER, file.size - 8):
        raise ConvertError(
            f"{path} says that its header has {n} bytes, but the file has {file.size}: it is cut or damaged"
        )
    header = parse_json(bytes(file.read(8, n)), f"the header of {path}")
    if not isinstance(header, dict):
        raise ConvertError(f"the header of {path} is not an object")
    header.pop("__metadata__", None)
    entries, at = {}, 0
    for name, begin, end, entry in sorted(_places(path, header, file, 8 + n), key=lambda p: p[1:3]):
        if begin != at:
            raise ConvertError(f"{path}: tensor {name!r} begins at {begin}, but the bytes before it end at {at}")
        entries[name], at = entry, end
    if at != file.size - 8 - n:
        raise ConvertError(f"{path} should have {8 + n + at} bytes, but has {file.size}: it is cut or damaged")
    return entries


def _places(path, header: dict, file: File, base: int):
    """(name, begin, end, entry) of every tensor; shape and bytes must agree for the types that are read."""
    for name, info in header.items():
        try:
            dtype, shape, (begin, end) = info["dtype"], info["shape"], info["data_offsets"]
            good = isinstance(dtype, str) and all(type(x) is int and 0 <= x < 1 << 62 for x in [*shape, begin, end])
        except (TypeError, KeyError, ValueError):
            good = False
        if not good or begin > end or len(shape) > 16:
            raise ConvertError(f"{path}: the entry of tensor {name!r} is damaged")
        elements = 1
        for x in shape:
            elements *= x
        if dtype in BYTES and elements * BYTES[dtype] != end - begin:
            raise ConvertError(f"{path}: tensor {name!r} is {dtype} {shape}, but has {end - begin} bytes")
        yield name, begin, end, Entry(name, dtype, tuple(shape), file, base + begin)


def equal(a: Entry, b: Entry) -> bool:
    """Whether two tensors hold the same bits."""
    if (a.dtype, a.shape) != (b.dtype, b.shape) or a.dtype not in TYPES:
        return False
    return same_bytes(a.file, a.offset, b.file, b.offset, math.prod(a.shape) * TYPES[a.dtype][1])
