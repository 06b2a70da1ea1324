"""Reads a weights file back: start, sections, directory, tensors as numpy arrays. For tests and tools.

The engine's reader (src/weights/header.c) is the strict one; this one checks checksums and trusts the rest.
"""

import struct
from pathlib import Path

import numpy as np
import xxhash

from ..errors import ConvertError, reading
from . import keys, tiles
from .writer import ENTRY_BYTES, MAGIC, START_BYTES


class WeightsFile:
    """`config`, `sections` (tag -> bytes), `tensors` (name -> entry), `values(name)`."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        with reading(f"{path}, a weights file,"):
            self._read()

    def _read(self) -> None:
        with open(self.path, "rb") as f:
            head = f.read(START_BYTES)
            if len(head) < START_BYTES or not head.startswith(MAGIC):
                raise ConvertError(f"{self.path} is not a weights file")
            (
                _,
                self.major,
                self.minor,
                self.kind,
                self.header_bytes,
                self.file_bytes,
                self.checksum,
                self.content_id,
                n_sections,
                _,
            ) = struct.unpack("<4sHH7Q", head)
            self.header = head + f.read(self.header_bytes - START_BYTES)
        zeroed = self.header[:32] + bytes(8) + self.header[40:]
        if xxhash.xxh64_intdigest(zeroed) != self.checksum:
            raise ConvertError(f"{self.path}: the header's checksum is wrong")
        self.sections: dict[str, bytes] = {}
        for i in range(n_sections):
            tag, _, offset, size = struct.unpack_from("<16s3Q", self.header, START_BYTES + ENTRY_BYTES * i)
            self.sections[tag.rstrip(b"\0").decode("ascii")] = self.header[offset : offset + size]
        self.config = keys.unpack(self.sections["config"])
        self.tensors = self._directory(self.sections["tensors"])

    @staticmethod
    def _directory(body: bytes) -> dict[str, dict]:
        (n,), at, out = struct.unpack_from("<Q", body), 8, {}
        fields = ("kind", "tile_rows", "rows", "k", "matrices", "offset", "bytes", "xxh64")
        for _ in range(n):
            (size,) = struct.unpack_from("<Q", body, at)
            name = body[at + 8 : at + 8 + size].decode("ascii")
            at += 8 + size + -size % 8
            out[name] = dict(zip(fields, struct.unpack_from("<8Q", body, at)))
            at += 64
        return out

    def keys(self, tag: str) -> dict:
        """A section that is a key block; empty when the file has none."""
        return keys.unpack(self.sections[tag]) if tag in self.sections else {}

    def raw(self, name: str) -> bytes:
        """The bytes of a tensor, checked."""
        t = self.tensors[name]
        with open(self.path, "rb") as f:
            f.seek(t["offset"])
            data = f.read(t["bytes"])
        if xxhash.xxh64_intdigest(data) != t["xxh64"]:
            raise ConvertError(f"{self.path}: the checksum of {name} is wrong")
        return data

    def rows(self, name: str, matrix: int = 0):
        """The rows of a matrix as stored: bits [rows, k], or (q, scales) of a quantized type."""
        t, data = self.tensors[name], self.raw(name)
        size = len(data) // t["matrices"]
        return tiles.untile(t["kind"], data[matrix * size : (matrix + 1) * size], t["rows"], t["k"])

    def values(self, name: str) -> np.ndarray:
        """The tensor as f32 [rows, k]; those of several matrices one after another."""
        t = self.tensors[name]
        parts = [tiles.values(t["kind"], self.rows(name, i), t["k"]) for i in range(t["matrices"])]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def some(self, name: str, matrix: int, first: int, n: int) -> np.ndarray:
        """f32 [n, k]: rows of a matrix from `first`, a multiple of 16; nothing else is read."""
        t = self.tensors[name]
        tile = tiles.tensor_bytes(t["kind"], tiles.TILE_ROWS, t["k"])
        begin = t["offset"] + matrix * (t["bytes"] // t["matrices"]) + first // tiles.TILE_ROWS * tile
        with open(self.path, "rb") as f:
            f.seek(begin)
            data = f.read(-(-n // tiles.TILE_ROWS) * tile)
        return tiles.values(t["kind"], tiles.untile(t["kind"], data, n, t["k"]), t["k"])

    def per_layer(self, key: str) -> list:
        """A config key as one value for each layer."""
        value = self.config[key]
        return [value] * self.config["n_layers"] if np.ndim(value) == 0 else list(value)
