"""Writes the weights file (src/weights/FORMAT.md): start, sections, tensor directory, tiles, checksums.

In:  section bodies, and matrices that hand out their rows piece by piece, so that memory stays small.
Out: a complete file at a path of the caller, who renames it into place; `patch_seal` finishes it.
"""

import os
import struct
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import xxhash

from ..errors import BAD_FILE, ConvertError
from . import keys, tiles

MAGIC, MAJOR, MINOR, MODEL = b"TERN", 1, 0, 1
START_BYTES, ENTRY_BYTES, PAGE, LINE = 64, 40, 4096, 64
MAX_HEADER = 64 << 20
ARITH = 1  # TERN_ARITH of include/tern.h
CRITICAL = frozenset({"config", "tensors", "tokenizer"})
PIECE_BYTES = 4 << 20  # of a source matrix at a time, as f32, in each thread; more costs page faults, fewer calls
WRITE_BYTES = 4 << 20  # that are written at once
THREADS = min(os.cpu_count() or 1, 4)


@dataclass
class Tensor:
    """One entry of the directory; `pieces` yields its tiles in order, as contiguous arrays, or as functions that return
    them and may be called in several threads at once."""

    name: str
    kind: int
    rows: int
    k: int
    pieces: Callable[[], Iterator[np.ndarray | Callable[[], np.ndarray]]]
    matrices: int = 1

    @property
    def size(self) -> int:
        return tiles.tensor_bytes(self.kind, self.rows, self.k) * self.matrices


def align(n: int, to: int) -> int:
    return n + -n % to


def _directory(tensors: list[Tensor], offsets: list[int], sums: list[int]) -> bytes:
    out = [struct.pack("<Q", len(tensors))]
    for t, offset, checksum in zip(tensors, offsets, sums):
        label = t.name.encode("ascii")
        out.append(struct.pack("<Q", len(label)) + label + bytes(-len(label) % 8))
        entry = (t.kind, tiles.TILE_ROWS, t.rows, t.k, t.matrices, offset, t.size, checksum)
        out.append(struct.pack("<8Q", *entry))
    return b"".join(out)


def _header(sections: dict[str, bytes], file_bytes: int, content_id: int) -> bytes:
    """Start, section table and bodies, with the header's checksum."""
    table, bodies, at = [], [], START_BYTES + ENTRY_BYTES * len(sections)
    for tag, body in sections.items():
        label = tag.encode("ascii").ljust(16, b"\0")
        table.append(label + struct.pack("<3Q", int(tag in CRITICAL), at, len(body)))
        bodies.append(body + bytes(-len(body) % 8))
        at += len(bodies[-1])
    start = struct.pack("<4sHH7Q", MAGIC, MAJOR, MINOR, MODEL, at, file_bytes, 0, content_id, len(sections), 0)
    return _checksummed(b"".join([start, *table, *bodies]))


def _checksummed(header: bytes) -> bytes:
    zeroed = header[:32] + bytes(8) + header[40:]
    return header[:32] + struct.pack("<Q", xxhash.xxh64_intdigest(zeroed)) + header[40:]


def layout(header: int, tensors: list[Tensor]) -> tuple[list[int], int]:
    """Offset of every tensor, and the bytes of the file."""
    offsets, at = [], align(header, PAGE)
    for t in tensors:
        at = align(at, LINE)
        offsets.append(at)
        at += t.size
    return offsets, at


def header_bytes(sections: dict[str, bytes], tensors: list[Tensor]) -> int:
    """Bytes of everything before the first tensor."""
    blank = [0] * len(tensors)
    return len(_header({"tensors": _directory(tensors, blank, blank), **sections}, 0, 0))


def write(
    out: BinaryIO,
    sections: dict[str, bytes],
    tensors: list[Tensor],
    progress: Callable[[int], None] = lambda n: None,
) -> None:
    """Writes a whole file: `sections` in their order, with `tensors` put after `config`."""
    size = header_bytes(sections, tensors)
    if size > MAX_HEADER:
        raise ConvertError(
            f"the header would take {size} bytes, more than the {MAX_HEADER} of the format; "
            "its largest part is the tokenizer",
            BAD_FILE,
        )
    offsets, file_bytes = layout(size, tensors)
    sums = _write_tensors(out, tensors, offsets, progress)
    directory = _directory(tensors, offsets, sums)
    ordered = {"config": sections["config"], "tensors": directory, **sections}
    out.seek(0)
    out.write(_header(ordered, file_bytes, _content_id(sums)))
    out.truncate(file_bytes)


def _content_id(sums: list[int]) -> int:
    return xxhash.xxh64_intdigest(struct.pack(f"<{len(sums)}Q", *sums))


def outline(out: BinaryIO, sections: dict[str, bytes], tensors: list[Tensor]) -> None:
    """A file of the right size whose tensors are holes: the engine can say what it would take, and no more."""
    offsets, file_bytes = layout(header_bytes(sections, tensors), tensors)
    sums = [0] * len(tensors)
    ordered = {"config": sections["config"], "tensors": _directory(tensors, offsets, sums), **sections}
    out.write(_header(ordered, file_bytes, _content_id(sums)))
    out.truncate(file_bytes)


class _Gathered:
    """Bytes of a file in ascending order, gathered: Linux keeps what is written in large and aligned pieces on huge
    pages, which a mapping then has, too."""

    def __init__(self, out: BinaryIO):
        self._out, self._room, self._begin, self._n = out, bytearray(WRITE_BYTES), 0, 0

    def put(self, at: int, data: memoryview) -> None:
        while data:
            if at >= self._begin + WRITE_BYTES:
                self.flush()
            if not self._n:
                self._begin = at // WRITE_BYTES * WRITE_BYTES
            i = at - self._begin
            n = min(len(data), WRITE_BYTES - i)
            self._room[self._n : i] = bytes(i - self._n)
            self._room[i : i + n] = data[:n]
            self._n = i + n
            at, data = at + n, data[n:]

    def flush(self) -> None:
        self._out.seek(self._begin)
        self._out.write(memoryview(self._room)[: self._n])
        self._n = 0


def _write_tensors(
    out: BinaryIO, tensors: list[Tensor], offsets: list[int], progress: Callable[[int], None]
) -> list[int]:
    """Writes the tiles of all tensors at their places; their checksums."""
    hashers, written = [xxhash.xxh64() for _ in tensors], [0] * len(tensors)
    file = _Gathered(out)
    for i, piece in _made(tensors):
        data = memoryview(piece.reshape(-1).view("u1"))
        file.put(offsets[i] + written[i], data)
        hashers[i].update(data)
        written[i] += len(data)
        progress(len(data))
    file.flush()
    for t, n in zip(tensors, written):
        assert n == t.size, (t.name, n, t.size)
    return [h.intdigest() for h in hashers]


def _made(tensors: list[Tensor]) -> Iterator[tuple[int, np.ndarray]]:
    """Tensor and tiles of all pieces in order; the next ones are made in other threads while one is used."""
    pool, coming = ThreadPoolExecutor(THREADS), deque()
    try:
        for i, piece in ((i, piece) for i, t in enumerate(tensors) for piece in t.pieces()):
            coming.append((i, pool.submit(piece) if callable(piece) else piece))
            if len(coming) > THREADS:
                yield _next(coming)
        while coming:
            yield _next(coming)
    finally:
        pool.shutdown(cancel_futures=True)


def _next(coming: deque) -> tuple[int, np.ndarray]:
    i, piece = coming.popleft()
    return i, piece.result() if isinstance(piece, Future) else piece


def blank_seal() -> bytes:
    """The body of a seal whose fingerprint is not known yet."""
    return keys.pack({"arith": 0, "fingerprint": 0})


def patch_seal(out: BinaryIO, fingerprint: int | None) -> None:
    """Puts the fingerprint into the seal section of a file that was written here; without one, the section
    becomes one that readers skip."""
    out.seek(0)
    start = out.read(START_BYTES)
    (header_bytes,) = struct.unpack_from("<Q", start, 16)
    header = bytearray(start + out.read(header_bytes - START_BYTES))
    (n_sections,) = struct.unpack_from("<Q", header, 48)
    for entry in range(START_BYTES, START_BYTES + ENTRY_BYTES * n_sections, ENTRY_BYTES):
        if header[entry : entry + 16].rstrip(b"\0") != b"seal":
            continue
        offset, size = struct.unpack_from("<2Q", header, entry + 24)
        if fingerprint is None:
            header[entry : entry + 16] = b"unsealed".ljust(16, b"\0")
        else:
            header[offset : offset + size] = keys.pack({"arith": ARITH, "fingerprint": fingerprint})
    out.seek(0)
    out.write(_checksummed(bytes(header)))


def sync(out: BinaryIO) -> None:
    """Everything written so far is on the disk."""
    out.flush()
    os.fsync(out.fileno())
