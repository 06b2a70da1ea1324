"""Reads files at offsets, without trust in what they say of themselves."""

import os
from dataclasses import dataclass
from pathlib import Path

from ...errors import IO, ConvertError

STEP = 16 << 20  # bytes that are compared at a time


class File:
    """A file of a known size, read at offsets; a short read is an error, never a crash."""

    fd = -1

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        self.fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self.fd).st_size

    def read(self, offset: int, n: int) -> bytearray:
        """Exactly n bytes at the offset. The caller has checked n against the size."""
        data = bytearray(n)
        view, done = memoryview(data), 0
        while done < n:
            got = os.preadv(self.fd, [view[done:]], offset + done)
            if got == 0:
                raise ConvertError(
                    f"{self.path} ended at byte {offset + done} while it was read; it was {self.size} "
                    "bytes long when opened, so something else is changing it",
                    IO,
                )
            done += got
        return data

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self):
        self.close()


@dataclass(frozen=True)
class Entry:
    """A tensor of a file: the name of its type, its shape as the file states it, and its place."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: File
    offset: int


def same_bytes(a: File, a_at: int, b: File, b_at: int, n: int) -> bool:
    """Whether n bytes of one file are those of another, or of the same one."""
    parts = ((at, min(STEP, n - at)) for at in range(0, n, STEP))
    return all(a.read(a_at + at, size) == b.read(b_at + at, size) for at, size in parts)


def begins_with(path: Path, magic: bytes) -> bool:
    with open(path, "rb") as f:
        return f.read(len(magic)) == magic
