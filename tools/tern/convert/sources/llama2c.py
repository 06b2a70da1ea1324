"""Reads llama2.c checkpoints: v0 (7 numbers, then everything), v1 and v2 ("ak42", 256 bytes of header).

In:  the file and its tokenizer.bin. Out: a Source of type f32. Everything is checked against the size.
It alone knows the order of the tensors in these files, and that q and k are stored interleaved.

A matrix of v2 is all its int8 and then an f32 scale for each group of G weights, row after row. It becomes q8 where that
holds its values: rows and G are multiples of 32, no integer is -128 and every scale is an f16 (export.py's scales, max / 127
of f32 weights, hardly ever are); any other becomes f32, integer times scale, as llama2.c computes it.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...errors import USAGE, ConvertError, reading
from ...weights.tiles import F32, GROUP, Q8
from ..families import rope
from ..families.features import check_config, slots
from ..families.settings import Settings
from ..files.file import File, opened
from ..files.matrix import Matrix
from ..tokenizers.llama2c import from_llama2c
from ..tokenizers.tokenizer import Tokenizer
from .source import Source

V1_MAGIC = 0x616B3432
V1_HEADER = 256
MAX_GROUP = 1 << 20
CHUNK = 16 << 20
THETA, EPS = 10000.0, 1e-5
END_TOKENS = [1, 2]  # llama2.c stops at BOS as well as at EOS
FIELDS = ("dim", "hidden", "layers", "heads", "kv heads", "vocabulary", "positions")


@dataclass
class Grouped(Matrix):
    """A matrix of v2: int8 at `offset`, the scales of its groups at `scales`."""

    group: int = 0
    scales: int = 0

    @property
    def row_bytes(self) -> int:
        return self.k

    def _stored(self, first: int, n: int):
        q = np.frombuffer(self.file.read(self.offset + first * self.k, n * self.k), "i1")
        scales = self._scales(first * self.k, n * self.k)
        if self.kind == Q8:
            groups = q.reshape(n, -1, GROUP)
            of_group = (first * self.k + np.arange(0, n * self.k, GROUP)) // self.group - first * self.k // self.group
            return groups, scales[of_group].astype("<f2").view("<u2").reshape(n, -1)
        if self.k % self.group == 0:
            return (q.reshape(-1, self.group).astype("<f4") * scales[:, None]).reshape(n, self.k).view("<u4")
        of_weight = (first * self.k + np.arange(n * self.k)) // self.group - first * self.k // self.group
        return (q.astype("<f4") * scales[of_weight]).reshape(n, self.k).view("<u4")

    def _scales(self, first: int, n: int) -> np.ndarray:
        """Those of the groups in which the weights first .. first + n lie."""
        low, high = first // self.group, (first + n - 1) // self.group + 1
        return np.frombuffer(self.file.read(self.scales + 4 * low, 4 * (high - low)), "<f4")

    def fits_q8(self) -> bool:
        if self.k % GROUP or self.group % GROUP:
            return False
        total = self.rows * self.k
        for at in range(0, total, CHUNK):
            scales = self._scales(at, min(CHUNK, total - at))
            with np.errstate(over="ignore"):
                if not np.array_equal(scales.astype("<f2").astype("<f4"), scales):
                    return False
        return not any(
            b"\x80" in self.file.read(self.offset + at, min(CHUNK, total - at)) for at in range(0, total, CHUNK)
        )


def is_v1(head: bytes) -> bool:
    return len(head) >= 4 and struct.unpack_from("<I", head)[0] == V1_MAGIC


def load(path: Path, tokenizer_file: Path | None, settings: Settings | None = None) -> Source:
    """The model of a checkpoint; its tokenizer is `tokenizer_file`, or tokenizer.bin beside it."""
    file, group = File(path), 0
    if is_v1(bytes(file.read(0, min(4, file.size)))):
        sizes, tied, version, group = _v1_header(file)
        offset = V1_HEADER
    else:
        sizes, tied = _v0_header(file)
        offset, version = 28, 0
    config = _config(path, sizes, tied)
    if settings:
        settings.only_features()
        settings.features(config)
    matrices, end = _matrices(config, file, offset, version, group)
    if end != file.size:
        raise ConvertError(
            f"{path} has {file.size} bytes, but its header ({_spelled(sizes)}) asks for {end}: "
            "the file is damaged, or not a llama2.c checkpoint"
        )
    return Source(
        name=path.stem,
        origin=f"llama2.c v{version} checkpoint {path.name}",
        family="llama",
        config=config,
        matrices=matrices,
        tokenizer=_tokenizer(path, tokenizer_file, config["vocab"]),
        end_tokens=[end for end in END_TOKENS if end < config["vocab"]],
        notes=_settled(path, matrices) if version == 2 else [],
    )


def _settled(path: Path, matrices: dict[str, Matrix]) -> list[str]:
    """Decides the types of v2's matrices."""
    grouped = [m for m in matrices.values() if isinstance(m, Grouped)]
    for m in grouped:
        m.kind = Q8 if m.fits_q8() else F32
    wide = sum(m.kind == F32 for m in grouped)
    if not wide:
        return []
    return [
        f"{path}: {wide} of {len(grouped)} matrices are kept exactly, as f32, because q8 lacks their groups of "
        f"{grouped[0].group} or their f32 scales; --type q8 makes them small again"
    ]


def _spelled(sizes: tuple[int, ...]) -> str:
    return ", ".join(f"{name} {n}" for name, n in zip(FIELDS, sizes))


def _v0_header(file: File) -> tuple[tuple[int, ...], bool]:
    """Sizes, and whether the head is the embedding."""
    if file.size < 28:
        raise ConvertError(f"{file.path} has {file.size} bytes, fewer than the 28 of a llama2.c header")
    sizes = list(struct.unpack("<7i", file.read(0, 28)))
    tied = sizes[5] > 0
    sizes[5] = abs(sizes[5])
    return tuple(sizes), tied


def _v1_header(file: File) -> tuple[tuple[int, ...], bool, int, int]:
    """Sizes, whether the head is the embedding, version, and v2's weights in a group."""
    if file.size < V1_HEADER:
        raise ConvertError(f"{file.path} has {file.size} bytes, fewer than the {V1_HEADER} of a llama2.c v1 header")
    _, version, *sizes, tied, group = struct.unpack_from("<Ii7iBi", file.read(0, V1_HEADER))
    if version not in (1, 2):
        raise ConvertError(f"{file.path} is a llama2.c checkpoint of version {version}; versions 0, 1 and 2 are read")
    if tied > 1:
        raise ConvertError(f"{file.path}: the shared-head flag is {tied}; it must be 0 or 1")
    if version == 2 and not 1 <= group <= MAX_GROUP:
        raise ConvertError(f"{file.path}: the weights in a group are {group}; they must be 1 to {MAX_GROUP}")
    return tuple(sizes), tied == 1, version, group if version == 2 else 0


def _config(path: Path, sizes: tuple[int, ...], tied: bool) -> dict:
    dim, hidden, layers, heads, kv_heads, vocab, positions = sizes
    if min(sizes) < 1 or layers > 1024 or heads > dim or dim % heads or (dim // heads) % 2:
        raise ConvertError(f"{path} is not a llama2.c checkpoint, or a damaged one: its header says {_spelled(sizes)}")
    head_dim = dim // heads
    config = {
        "n_layers": layers, "dim": dim, "vocab": vocab, "max_seq": positions,
        "norm_eps": EPS, "head_tied": int(tied),
        "n_heads": [heads] * layers, "n_kv_heads": [kv_heads] * layers,
        "head_dim": [head_dim] * layers, "hidden": [hidden] * layers,
        "window": [0] * layers, "rope_set": [1] * layers,
        "attn_scale": [1 / math.sqrt(head_dim)] * layers,
        "attn_bias": [0] * layers, "ffn_bias": [0] * layers, "activation": "silu",
    }  # fmt: skip
    check_config(config)
    return config | {"rope.0.inv_freq": rope.checked(rope.plain(THETA, head_dim)), "rope.0.factor": 1.0}


def _order(config: dict, version: int) -> Iterator[str]:
    """Tensor names as they follow one another; "" stands for v0's two tables of sines."""
    layers = range(config["n_layers"])
    norms = [f"layer.{i}.attn_norm" for i in layers], [f"layer.{i}.ffn_norm" for i in layers]
    parts = {p: [f"layer.{i}.{p}" for i in layers] for p in ("q", "k", "v", "o", "gate", "down", "up")}
    if version == 0:
        yield from ["embed", *norms[0], *parts["q"], *parts["k"], *parts["v"], *parts["o"], *norms[1]]
        yield from [*parts["gate"], *parts["down"], *parts["up"], "final_norm", ""]
    else:  # v1 and v2
        yield from [*norms[0], *norms[1], "final_norm", "embed"]
        for names in parts.values():
            yield from names
    if not config["head_tied"]:
        yield "head"


def _matrices(config: dict, file: File, offset: int, version: int, group: int) -> tuple[dict[str, Matrix], int]:
    """Every tensor with its place in the file, and the place after the last."""
    shapes = {s.name: s for s in slots(config)}
    head_dim = config["head_dim"][0]
    out: dict[str, Matrix] = {}
    for name in _order(config, version):
        if not name:
            offset += config["max_seq"] * head_dim * 4  # cosines, then sines, half a head each
            continue
        slot = shapes[name]
        weights, heads = slot.rows * slot.k, head_dim if name.endswith((".q", ".k")) else 0
        if group and not slot.vector:
            if weights % group:
                raise ConvertError(f"{file.path}: the {weights} weights of {name} are not whole groups of {group}")
            where = (file, offset, heads, None, group, offset + weights)
            out[name] = Grouped(name, F32, slot.rows, slot.k, *where)
            offset += weights + weights // group * 4
        else:
            out[name] = Matrix(name, F32, slot.rows, slot.k, file, offset, heads)
            offset += weights * 4
    return out, offset


def _tokenizer(path: Path, given: Path | None, vocab: int) -> Tokenizer:
    where = given or path.with_name("tokenizer.bin")
    if given is None and not where.exists():
        raise ConvertError(
            f"{path} needs its tokenizer, and there is no tokenizer.bin beside it; name it with --tokenizer FILE",
            USAGE,
        )
    with open(opened(where), "rb") as f:
        head = f.read(4)
    if head[:1] == b"{" or head[:1] == b"\n" and head[1:] != bytes(3):  # JSON, or SentencePiece's first piece
        raise ConvertError(
            f"{where} is not a tokenizer.bin, which llama2.c's checkpoints have; of a SentencePiece model, llama2.c's "
            f"`python tokenizer.py --tokenizer-model={where}` makes one",
            USAGE,
        )
    with reading(str(where)):
        return from_llama2c(where, vocab)
