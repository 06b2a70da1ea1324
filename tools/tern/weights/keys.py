"""Key blocks of the weights file: named, typed values (src/weights/FORMAT.md draws the layout)."""

import struct

import numpy as np

U64, F32, TEXT, U32 = 1, 2, 3, 4


class U32s(list):
    """Marks a list of integers that is to be stored as u32."""


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _encode(value) -> tuple[int, int, bytes]:
    """(type, count, bytes) of a value: int(s) u64, float(s) f32, str or bytes text, U32s or uint32 arrays u32."""
    if isinstance(value, str):
        value = value.encode("utf-8")
    if isinstance(value, (bytes, bytearray)):
        return TEXT, len(value), bytes(value)
    if isinstance(value, (bool, int, np.integer)):
        return U64, 1, struct.pack("<Q", int(value))
    if isinstance(value, (float, np.floating)):
        return F32, 1, struct.pack("<f", float(value))
    if isinstance(value, U32s):
        value = np.asarray(value, dtype="<u4")
    array = np.asarray(value)
    if array.dtype == np.uint32:
        return U32, array.size, array.astype("<u4").tobytes()
    if array.dtype.kind == "f" and array.size:
        return F32, array.size, array.astype("<f4").tobytes()
    if array.size == 0 or array.dtype.kind in "iu":  # an empty list has no type: u64
        return U64, array.size, array.astype("<u8").tobytes()
    raise TypeError(f"a key cannot hold {type(value)}")


def pack(values: dict, ignorable: frozenset | set = frozenset()) -> bytes:
    """The key block of `values`, in their order; keys in `ignorable` are not marked critical."""
    out = [struct.pack("<Q", len(values))]
    for name, value in values.items():
        kind, count, data = _encode(value)
        label = name.encode("ascii")
        out.append(struct.pack("<QQQQ", int(name not in ignorable), kind, count, len(label)))
        out.append(_pad(label))
        out.append(_pad(data))
    return b"".join(out)


def unpack(block: bytes) -> dict:
    """The values of a key block: ints and floats for single numbers, bytes for text, arrays else."""
    (n,), at, out = struct.unpack_from("<Q", block), 8, {}
    for _ in range(n):
        _, kind, count, size = struct.unpack_from("<QQQQ", block, at)
        at += 32
        name = block[at : at + size].decode("ascii")
        at += size + -size % 8
        width = {U64: 8, F32: 4, TEXT: 1, U32: 4}[kind]
        data = block[at : at + count * width]
        at += count * width + -(count * width) % 8
        if kind == TEXT:
            out[name] = data
        else:
            array = np.frombuffer(data, {U64: "<u8", F32: "<f4", U32: "<u4"}[kind])
            out[name] = array[0].item() if count == 1 and kind != U32 else array
    return out
