"""Opens and reads files, without trust in what they are or say of themselves: a pipe or a device is never read."""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...errors import IO, USAGE, ConvertError

STEP = 16 << 20  # bytes that are compared at a time
MAX_TEXT = 256 << 20  # bytes of a file that is read whole
LFS = b"version https://git-lfs"
HEAD = 32  # bytes that tell what a file is


def opened(path: str | os.PathLike) -> int:
    """A descriptor of a regular file; opening a pipe does not wait for its writer."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ConvertError(f"{os.fspath(path)} is no regular file (a pipe, a device or a directory)", USAGE)
    return fd


def read_whole(path: str | os.PathLike) -> bytes:
    """All bytes of a file that must fit in memory."""
    with open(opened(path), "rb") as f:
        size = os.fstat(f.fileno()).st_size
        if size > MAX_TEXT:
            raise ConvertError(f"{os.fspath(path)} has {size} bytes, too many for what it should be")
        return f.read(size)


def refuse_other(path: str | os.PathLike, head: bytes) -> None:
    """Files that often stand where a part of a model should be get a sentence that says what they are."""
    what = ""
    if head.startswith(LFS):
        what = "a Git LFS pointer, not the file itself; fetch it with `git lfs pull`"
    elif head.lstrip().lower().startswith((b"<!doctype", b"<html")):
        what = "a web page, not the file itself; download it by the link that serves the file, and log in where it asks"
    elif head.startswith((b"\xff\xd8\xff", b"\x89PNG", b"GIF8")):
        what = "a picture, not a part of a model"
    if what:
        raise ConvertError(f"{os.fspath(path)} is {what}", USAGE)


class File:
    """A file of a known size, read at offsets; a short read is an error, never a crash."""

    fd = -1

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        self.fd = opened(self.path)
        self.size = os.fstat(self.fd).st_size
        refuse_other(self.path, os.pread(self.fd, HEAD, 0))

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
        fd, self.fd = self.fd, -1
        if fd >= 0:
            with suppress(OSError):  # it was only read
                os.close(fd)

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
    with open(opened(path), "rb") as f:
        return f.read(len(magic)) == magic
