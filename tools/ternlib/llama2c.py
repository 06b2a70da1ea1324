"""Reads llama2.c checkpoints: v0 (7 numbers, then everything) and v1 ("ak42", 256 bytes of header).

In:  the file and its tokenizer.bin. Out: a Source of type f32. Everything is checked against the size.
It alone knows the order of the tensors in these files, and that q and k are stored interleaved.
"""

import math
import struct
from collections.abc import Iterator
from pathlib import Path

from . import rope, tokenizer
from .errors import USAGE, ConvertError, reading
from .settings import Settings
from .source import File, Matrix, Source, check_config, slots
from .tiles import F32

V1_MAGIC = 0x616B3432
V1_HEADER = 256
THETA, EPS = 10000.0, 1e-5
END_TOKENS = [1, 2]  # llama2.c stops at BOS as well as at EOS
FIELDS = ("dim", "hidden", "layers", "heads", "kv heads", "vocabulary", "positions")


def is_v1(head: bytes) -> bool:
    return len(head) >= 4 and struct.unpack_from("<I", head)[0] == V1_MAGIC


def load(path: Path, tokenizer_file: Path | None, settings: Settings | None = None) -> Source:
    """The model of a checkpoint; its tokenizer is `tokenizer_file`, or tokenizer.bin beside it."""
    file = File(path)
    if is_v1(bytes(file.read(0, min(4, file.size)))):
        sizes, tied, offset, version = _v1_header(file)
    else:
        sizes, tied, offset, version = _v0_header(file)
    config = _config(path, sizes, tied)
    if settings:
        settings.only_features()
        settings.features(config)
    matrices, end = _matrices(config, file, offset, version)
    if end != file.size:
        raise ConvertError(
            f"{path} has {file.size} bytes, but its header ({_spelled(sizes)}) asks for {end}: "
            "the file is damaged, or not a llama2.c checkpoint"
        )
    return Source(
        name=path.stem,
        origin=f"llama2.c v{version} checkpoint {path.name}",
        config=config,
        matrices=matrices,
        tokenizer=_tokenizer(path, tokenizer_file, config["vocab"]),
        end_tokens=[end for end in END_TOKENS if end < config["vocab"]],
    )


def _spelled(sizes: tuple[int, ...]) -> str:
    return ", ".join(f"{name} {n}" for name, n in zip(FIELDS, sizes))


def _v0_header(file: File) -> tuple[tuple[int, ...], bool, int, int]:
    if file.size < 28:
        raise ConvertError(f"{file.path} has {file.size} bytes, fewer than the 28 of a llama2.c header")
    sizes = list(struct.unpack("<7i", file.read(0, 28)))
    tied = sizes[5] > 0
    sizes[5] = abs(sizes[5])
    return tuple(sizes), tied, 28, 0


def _v1_header(file: File) -> tuple[tuple[int, ...], bool, int, int]:
    if file.size < V1_HEADER:
        raise ConvertError(f"{file.path} has {file.size} bytes, fewer than the {V1_HEADER} of a llama2.c v1 header")
    _, version, *sizes, tied = struct.unpack_from("<Ii7iB", file.read(0, V1_HEADER))
    if version != 1:
        raise ConvertError(
            f"{file.path} is a llama2.c checkpoint of version {version}; versions 0 and 1 are read "
            "(version 2 is quantized: export it again as version 1, then use --type q8)"
        )
    if tied > 1:
        raise ConvertError(f"{file.path}: the shared-head flag is {tied}; it must be 0 or 1")
    return tuple(sizes), tied == 1, V1_HEADER, 1


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
    else:
        yield from [*norms[0], *norms[1], "final_norm", "embed"]
        for names in parts.values():
            yield from names
    if not config["head_tied"]:
        yield "head"


def _matrices(config: dict, file: File, offset: int, version: int) -> tuple[dict[str, Matrix], int]:
    """Every tensor with its place in the file, and the place after the last."""
    shapes = {s.name: s for s in slots(config)}
    head_dim = config["head_dim"][0]
    out = {}
    for name in _order(config, version):
        if not name:
            offset += config["max_seq"] * head_dim * 4  # cosines, then sines, half a head each
            continue
        slot = shapes[name]
        interleaved = head_dim if name.endswith((".q", ".k")) else 0
        out[name] = Matrix(name, F32, slot.rows, slot.k, file, offset, interleaved)
        offset += slot.rows * slot.k * 4
    return out, offset


def _tokenizer(path: Path, given: Path | None, vocab: int) -> tokenizer.Tokenizer:
    where = given or path.with_name("tokenizer.bin")
    if given is None and not where.exists():
        raise ConvertError(
            f"{path} needs its tokenizer, and there is no tokenizer.bin beside it; name it with --tokenizer FILE",
            USAGE,
        )
    with reading(str(where)):
        return tokenizer.from_llama2c(where, vocab)
