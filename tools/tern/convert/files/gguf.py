"""Reads the head of a GGUF file, version 2 or 3: its keys, and names, types, shapes (fastest dimension first) and places of its
tensors.

Written here because the gguf package trusts the counts and lengths of a file: a damaged one makes it run
out of memory or fail anywhere. Here every length is checked against what is left of the file.
"""

import os
import re
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import IO, ConvertError
from .file import Entry, File
from .gguf_types import FORMATS

NUMBERS = {0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 10: "<u8", 11: "<i8", 12: "<f8"}
BOOL, STRING, ARRAY = 7, 8, 9
# The names of tensor types by their numbers; those in gguf_types.FORMATS can be read.
TENSOR_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K",
    12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
    29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
MAX_DIMS, MAX_KEY, MAX_NAME, MAX_PARTS, PAGE = 4, 65535, 1024, 1000, 1 << 20
PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.DOTALL)


class _Cursor:
    """Reads forward through a file, never beyond its end."""

    def __init__(self, file: File):
        self.file, self.at, self.window, self.start = file, 0, b"", 0

    def take(self, n: int, what: str) -> bytes:
        """The next n bytes."""
        if n > self.file.size - self.at:
            raise ConvertError(
                f"{self.file.path}: {what} would take {n} bytes at {self.at}, but the file has {self.file.size}: "
                "it is cut or damaged"
            )
        begin = self.at - self.start
        if begin + n > len(self.window):
            self.start, begin = self.at, 0
            self.window = bytes(self.file.read(self.at, min(max(n, PAGE), self.file.size - self.at)))
        self.at += n
        return self.window[begin : begin + n]

    def u32(self, what: str) -> int:
        return struct.unpack("<I", self.take(4, what))[0]

    def u64(self, what: str) -> int:
        return struct.unpack("<Q", self.take(8, what))[0]

    def text(self, what: str) -> str:
        n = self.u64(what)
        try:
            return self.take(n, what).decode("utf-8")
        except UnicodeDecodeError:
            raise ConvertError(f"{self.file.path}: {what} is not UTF-8") from None

    def value(self, kind: int, what: str) -> Any:
        """A value of a type: int, float, bool, str, a numpy array or a list of str."""
        if kind in NUMBERS:
            dtype = np.dtype(NUMBERS[kind])
            return np.frombuffer(self.take(dtype.itemsize, what), dtype)[0].item()
        if kind == BOOL:
            return self.take(1, what) != b"\0"
        if kind == STRING:
            return self.text(what)
        if kind != ARRAY:
            raise ConvertError(f"{self.file.path}: {what} has the type {kind}, which GGUF does not have")
        inner, n = self.u32(what), self.u64(what)
        if inner in NUMBERS or inner == BOOL:
            dtype = np.dtype(NUMBERS.get(inner, "?"))
            return np.frombuffer(self.take(n * dtype.itemsize, what), dtype)
        if inner != STRING:
            raise ConvertError(f"{self.file.path}: {what} is an array of the type {inner}, which is not read")
        if n > (self.file.size - self.at) // 8:
            raise ConvertError(f"{self.file.path}: {what} claims {n} strings, more than the file can hold")
        return [self.text(what) for _ in range(n)]


@dataclass(frozen=True)
class Gguf:
    path: str
    keys: dict[str, Any]
    tensors: dict[str, Entry]


def read_all(path: str | os.PathLike) -> Gguf:
    """The keys and tensors of a model; of one in parts (NAME-00001-of-00003.gguf), of all of them, whichever is named."""
    one = read(path)
    n = _whole(one, "split.count", 1)
    if n in (0, 1):
        return one
    if not 2 <= n <= MAX_PARTS:
        raise ConvertError(f"{path}: split.count is {n}; 1 to {MAX_PARTS} parts are possible")
    name = PART.fullmatch(os.path.basename(path))
    if not name or int(name.group(3)) != n:
        raise ConvertError(
            f"{path} is one of {n} parts, but is not called NAME-00001-of-{n:05}.gguf as they are; "
            "give them their names, or join them with llama-gguf-split --merge"
        )
    tensors: dict[str, Entry] = {}
    first = one
    for i in range(n):
        part = os.path.join(os.path.dirname(path), f"{name.group(1)}-{i + 1:05}-of-{n:05}.gguf")
        if not os.path.exists(part):
            raise ConvertError(f"{path} is one of {n} parts, and {part} is not there: the model is not whole", IO)
        g = read(part)
        number, of = _whole(g, "split.no", -1), _whole(g, "split.count", -1)
        if (number, of) != (i, n):
            raise ConvertError(f"{part} says that it is part {number} of {of}")
        twice = tensors.keys() & g.tensors.keys()
        if twice:
            raise ConvertError(f"{part} holds the tensor {min(twice)!r}, which an earlier part holds too")
        tensors |= g.tensors
        first = g if i == 0 else first
    total = _whole(first, "split.tensors.count", len(tensors))
    if total != len(tensors):
        raise ConvertError(f"{path}: the {n} parts hold {len(tensors)} tensors, but should hold {total}")
    return Gguf(first.path, first.keys, tensors)


def _whole(g: Gguf, name: str, default: int) -> int:
    """A key that must be a whole number where it is there."""
    value = g.keys.get(name, default)
    if type(value) is not int:
        raise ConvertError(f"{g.path}: {name} is {value!r}; it must be a whole number")
    return value


def read(path: str | os.PathLike) -> Gguf:
    """The keys and tensors of a file; every place is checked against its size."""
    file = File(path)
    c = _Cursor(file)
    magic, version = c.take(4, "the magic"), c.u32("the version")
    if magic != b"GGUF":
        raise ConvertError(f"{path} is not a GGUF file")
    if version in (2 << 24, 3 << 24):
        raise ConvertError(f"{path} is a big-endian GGUF file; only little-endian ones are read")
    if version not in (2, 3):
        raise ConvertError(f"{path} is GGUF version {version}; versions 2 and 3 are read")
    n_tensors, n_keys = c.u64("the number of tensors"), c.u64("the number of keys")
    keys: dict[str, Any] = {}
    for i in range(n_keys):
        name = c.text(f"the name of key {i}")
        if len(name) > MAX_KEY or name in keys:
            raise ConvertError(
                f"{path} has the key {name[:80]!r} twice" if name in keys else f"{path}: key {i} is too long"
            )
        keys[name] = c.value(c.u32(f"key {name!r}"), f"key {name!r}")
    infos = _infos(c, n_tensors)
    return Gguf(file.path, keys, _placed(file, infos, c.at, keys.get("general.alignment", 32)))


def _infos(c: _Cursor, n: int) -> dict[str, tuple[tuple[int, ...], int, int]]:
    """name -> (shape, type, offset), as the file states them."""
    out: dict[str, tuple[tuple[int, ...], int, int]] = {}
    for i in range(n):
        name = c.text(f"the name of tensor {i}")
        if len(name) > MAX_NAME:
            raise ConvertError(f"{c.file.path}: the name of tensor {i} is too long")
        if name in out:
            raise ConvertError(f"{c.file.path} has the tensor {name!r} twice")
        what = f"tensor {name!r}"
        dims = c.u32(what)
        if not 1 <= dims <= MAX_DIMS:
            raise ConvertError(f"{c.file.path}: {what} has {dims} dimensions; 1 to {MAX_DIMS} are possible")
        shape = tuple(c.u64(what) for _ in range(dims))
        out[name] = shape, c.u32(what), c.u64(what)
    return out


def _placed(file: File, infos: dict, head: int, alignment: Any) -> dict[str, Entry]:
    """Entries with their place in the file, ordered by it; types, bounds and overlaps are checked."""
    if type(alignment) is not int or alignment < 1 or alignment > 1 << 20 or alignment & (alignment - 1):
        raise ConvertError(f"{file.path}: general.alignment is {alignment!r}; it must be a power of two")
    base, end, out = head + -head % alignment, 0, {}
    for name, (shape, kind, offset) in sorted(infos.items(), key=lambda item: item[1][2]):
        dtype = TENSOR_TYPES.get(kind, f"type {kind}")
        if dtype not in FORMATS:
            raise ConvertError(
                f"{file.path}: tensor {name!r} is {dtype}; {', '.join(FORMATS)} are read: "
                "take the model in one of these, or its original, with --type q8 or q4"
            )
        block = FORMATS[dtype].weights
        elements = 1
        for n in shape:
            elements *= n
        if elements == 0 or shape[0] % block:
            raise ConvertError(f"{file.path}: tensor {name!r} is {dtype} {list(shape)}, which is not possible")
        if offset % alignment or offset < end:
            raise ConvertError(f"{file.path}: tensor {name!r} begins at {offset}, inside another or not aligned")
        end = offset + FORMATS[dtype].row_bytes(elements)
        if base + end > file.size:
            raise ConvertError(
                f"{file.path}: tensor {name!r} ends at byte {base + end}, but the file has {file.size}: "
                "it is cut or damaged"
            )
        out[name] = Entry(name, dtype, shape, file, base + offset)
    return out
