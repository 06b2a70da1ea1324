"""What a reader of a foreign format hands over: features, matrices that can be read in pieces, and texts.

Every reader (llama2c.py, huggingface.py, ggufsource.py) returns a Source; convert.py turns any Source
into a weights file. `slots` is the one place that knows which tensors a model of given features has.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from . import tiles, weights
from .errors import IO, ConvertError
from .tiles import BF16, F16, F32, Q8
from .tokenizer import Tokenizer

# Limits of the engine's reader, so that a file that it would refuse is not written.
MAX_LAYERS = 1024
MAX_WIDTH = 1 << 20
MAX_VOCAB = 1 << 24
MAX_SEQ = 1 << 24
MAX_HEADS = 4096
MAX_HEAD_DIM = 1024
MAX_WINDOW = (1 << 32) - 1
TEMPLATE_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


@dataclass
class Source:
    """`config` has the keys of FORMAT.md with per-layer lists; `matrices` our tensor names. `template`: the chat template
    (Jinja) as the source has it, and what it may name: bos_token, eos_token and so on."""

    name: str
    origin: str
    config: dict[str, Any]
    matrices: dict[str, "Matrix"]
    tokenizer: Tokenizer | None
    generation: dict[str, Any] = field(default_factory=dict)
    end_tokens: list[int] = field(default_factory=list)
    licence: str = ""
    notes: list[str] = field(default_factory=list)
    family: str = ""
    template: str = ""
    template_tokens: dict[str, str] = field(default_factory=dict)
    chat: Any = None  # the rules made of it: a chat.Chat, or None


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
class Encoding:
    """A source's format of numbers: its name, our type that holds its values, weights in a block, the block, and what
    turns blocks [n, k / weights] into rows in the form that tiles.py takes. Without a block: plain numbers."""

    name: str
    kind: int
    weights: int = 1
    block: np.dtype | None = None
    decode: Callable | None = None

    def row_bytes(self, k: int) -> int:
        item = self.block.itemsize if self.block else np.dtype(tiles.TYPES[self.kind].bits).itemsize
        return k // self.weights * item

    def decoded(self, data: bytearray, n: int):
        """n rows from their bytes."""
        if self.block is None:
            return np.frombuffer(data, tiles.TYPES[self.kind].bits).reshape(n, -1)
        return self.decode(np.frombuffer(data, self.block).reshape(n, -1))


PLAIN = {kind: Encoding(tiles.TYPES[kind].name.upper(), kind) for kind in (F32, F16, BF16)}


@dataclass
class Matrix:
    """[rows, k] of numbers somewhere in a source file, row after row without gaps.

    `heads`: rows of one head that are stored interleaved (0, 1 turn together) and are handed out
    half-split (i turns with i + heads / 2); 0: rows are handed out as stored. `encoding`: None for plain numbers.
    """

    name: str
    kind: int
    rows: int
    k: int
    file: File
    offset: int
    heads: int = 0
    encoding: Encoding | None = None

    @property
    def format(self) -> Encoding:
        return self.encoding or PLAIN[self.kind]

    @property
    def row_bytes(self) -> int:
        return self.format.row_bytes(self.k)

    def read(self, first: int, n: int):
        """Rows first .. first + n, in the form that tiles.py takes."""
        if not self.heads:
            return self._stored(first, n)
        d = self.heads
        start = first // d * d
        end = min(-(-(first + n) // d) * d, self.rows)
        whole = np.arange(start, end)
        in_head = whole % d
        order = whole - in_head + 2 * (in_head % (d // 2)) + in_head // (d // 2) - start
        order = order[first - start : first - start + n]
        rows = self._stored(start, end - start)
        return tuple(part[order] for part in rows) if isinstance(rows, tuple) else rows[order]

    def _stored(self, first: int, n: int):
        data = self.file.read(self.offset + first * self.row_bytes, n * self.row_bytes)
        return self.format.decoded(data, n)

    def vector(self) -> np.ndarray:
        """The whole of a small tensor as f32, in one line."""
        return tiles.values(self.kind, self.read(0, self.rows), self.k).reshape(-1)


@dataclass(frozen=True)
class Slot:
    """A tensor that the model must have: `matrices` matrices [rows, k], or a vector [rows]. Those that are `exact`,
    and vectors, are always stored as f32."""

    name: str
    rows: int
    k: int
    vector: bool = False
    matrices: int = 1
    exact: bool = False


# Config keys that a file leaves out at these values (FORMAT.md).
DEFAULTS = {
    "embed_scale": 1, "residual_scale": 1, "logit_scale": 1, "logit_cap": 0, "head_bias": 0, "norm": "rms",
    "norm_bias": 0, "learned_positions": 0, "norms": 5, "qk_norm": 0, "attn_sinks": 0, "parallel": 0, "ffn_gated": 1,
    "attn_cap": 0, "qkv_clip": 0, "ffn_clamp": 0, "n_experts": 0, "experts_used": 0,
    "router_score": 0, "router_normalize": 0, "router_bias": 0, "router_select_bias": 0, "router_factor": 1,
    "shared_hidden": 0, "shared_switch": 0,
}  # fmt: skip
# Those of them, and others, that are f32.
NUMBERS = {"embed_scale", "residual_scale", "logit_scale", "logit_cap", "attn_cap", "qkv_clip", "ffn_clamp",
           "router_factor", "attn_scale", "norm_eps"}  # fmt: skip
NORM_ATTN, NORM_ATTN_POST, NORM_FFN, NORM_FFN_POST = 1, 2, 4, 8
QK_NONE, QK_HEAD, QK_FULL, QK_HEAD_LAYER = range(4)
SOFTMAX, SOFTMAX_CHOSEN, SIGMOID = range(3)


def feature(config: dict[str, Any], key: str, layer: int) -> Any:
    """The value of a key in a layer, or its default."""
    value = config.get(key, DEFAULTS.get(key))
    return value[layer] if isinstance(value, list) else value


def slots(config: dict[str, Any]) -> Iterator[Slot]:
    """All tensors of a model with these features, in the order of the directory."""
    dim, vocab = config["dim"], config["vocab"]
    yield Slot("embed", vocab, dim)
    if config.get("learned_positions"):
        yield Slot("positions", config["max_seq"] * dim, 1, True)
    for i in range(config["n_layers"]):
        yield from _layer_slots(config, i)
    yield from _norm_slots(config, "final_norm", dim)
    if not config["head_tied"]:
        yield Slot("head", vocab, dim)
    if config.get("head_bias"):
        yield Slot("head_bias", vocab, 1, True)


def _norm_slots(config: dict[str, Any], name: str, n: int) -> Iterator[Slot]:
    yield Slot(name, n, 1, True)
    if config.get("norm_bias"):
        yield Slot(name + "_bias", n, 1, True)


def _layer_slots(config: dict[str, Any], i: int) -> Iterator[Slot]:
    def value(key: str) -> Any:
        return feature(config, key, i)

    dim, head_dim, hidden, layer = config["dim"], value("head_dim"), value("hidden"), f"layer.{i}."
    q_rows, k_rows = value("n_heads") * head_dim, value("n_kv_heads") * head_dim
    rows = {"q": q_rows, "k": k_rows, "v": k_rows, "o": dim}
    rows |= {"gate": hidden, "up": hidden, "down": dim}
    ks = {"o": q_rows, "down": hidden}
    experts, shared = value("n_experts"), value("shared_hidden")
    if not value("ffn_gated"):
        del rows["gate"]
    for bit, norm in enumerate(("attn_norm", "attn_post_norm", "ffn_norm", "ffn_post_norm")):
        if value("norms") >> bit & 1:
            yield from _norm_slots(config, layer + norm, dim)
    for part, n in rows.items():
        yield Slot(layer + part, n, ks.get(part, dim), matrices=experts or 1 if part in FFN_PARTS else 1)
    for part, bias in [*zip("qkvo", _bits(value("attn_bias"))), *zip(FFN_PARTS, _bits(value("ffn_bias")))]:
        if bias and part in rows:
            yield Slot(f"{layer}{part}_bias", rows[part] * (experts or 1 if part in FFN_PARTS else 1), 1, True)
    if value("qk_norm"):
        full = value("qk_norm") != QK_HEAD
        yield Slot(layer + "q_norm", q_rows if full else head_dim, 1, True)
        yield Slot(layer + "k_norm", k_rows if full else head_dim, 1, True)
    if value("attn_sinks"):
        yield Slot(layer + "sinks", value("n_heads"), 1, True)
    if experts:
        yield Slot(layer + "router", experts, dim, exact=True)
        if value("router_bias"):
            yield Slot(layer + "router_bias", experts, 1, True)
        if value("router_select_bias"):
            yield Slot(layer + "router_select_bias", experts, 1, True)
    if shared:
        for part in FFN_PARTS if value("ffn_gated") else FFN_PARTS[1:]:
            yield Slot(f"{layer}shared_{part}", *((dim, shared) if part == "down" else (shared, dim)))
    if value("shared_switch"):
        yield Slot(layer + "shared_switch", 1, dim, exact=True)


FFN_PARTS = ("gate", "up", "down")


def _bits(mask: int) -> list[int]:
    return [mask >> bit & 1 for bit in range(4)]


def packed_config(config: dict[str, Any]) -> dict[str, Any]:
    """The config as it is stored: a list of equal values becomes one value, and a default is left out."""
    out = {}
    for key, value in config.items():
        if isinstance(value, list) and all(v == value[0] for v in value):
            value = value[0]
        if key not in DEFAULTS or isinstance(value, list) or value != DEFAULTS[key]:
            out[key] = float(value) if key in NUMBERS and not isinstance(value, list) else value
    return out


def in_range(value: int, low: int, high: int, what: str) -> int:
    """The value, or an error that names it."""
    if not low <= value <= high:
        raise ConvertError(f"{what} is {value}; it must be {low} to {high}")
    return value


def check_config(c: dict[str, Any]) -> None:
    """What the engine will demand of the numbers, said before anything is written."""
    in_range(c["n_layers"], 1, MAX_LAYERS, "the number of layers")
    in_range(c["dim"], 1, MAX_WIDTH, "the width of the model")
    in_range(c["vocab"], 1, MAX_VOCAB, "the size of the vocabulary")
    in_range(c["max_seq"], 1, MAX_SEQ, "the number of positions")
    for i in range(c["n_layers"]):
        heads = in_range(c["n_heads"][i], 1, MAX_HEADS, f"the number of heads in layer {i}")
        kv = in_range(c["n_kv_heads"][i], 1, MAX_HEADS, f"the number of key/value heads in layer {i}")
        if heads % kv:
            raise ConvertError(f"layer {i} has {heads} heads, which {kv} key/value heads do not divide")
        if in_range(c["head_dim"][i], 2, MAX_HEAD_DIM, f"the size of a head in layer {i}") % 2:
            raise ConvertError(f"the size of a head in layer {i} is {c['head_dim'][i]}; RoPE needs an even one")
        in_range(heads * c["head_dim"][i], 1, MAX_WIDTH, f"the width of all heads in layer {i}")
        experts, used = feature(c, "n_experts", i), feature(c, "experts_used", i)
        if used > experts:
            raise ConvertError(f"layer {i} has {experts} experts, of which a token cannot use {used}")
        in_range(c["hidden"][i], 1, MAX_WIDTH, f"the width of the feed-forward step in layer {i}")


def pieces(matrix: Matrix, kind: int) -> Callable[[], Iterator[Callable[[], np.ndarray]]]:
    """The tiles of a matrix, or of the matrices of several experts, as `kind`: functions for some rows at a time."""

    def run() -> Iterator[Callable[[], np.ndarray]]:
        for part in getattr(matrix, "parts", None) or [matrix]:
            at_a_time = weights.PIECE_BYTES // (part.k * 4) // tiles.TILE_ROWS * tiles.TILE_ROWS
            at_a_time = max(at_a_time, tiles.TILE_ROWS)
            for first in range(0, part.rows, at_a_time):
                yield partial(_tiles, part, kind, first, min(at_a_time, part.rows - first))

    return run


def _tiles(matrix: Matrix, kind: int, first: int, n: int) -> np.ndarray:
    rows = matrix.read(first, n)
    _check_finite(matrix, matrix.kind, rows, matrix.k)
    return tiles.tile(kind, _as(matrix, rows, kind))


def _check_finite(m: Matrix, kind: int, rows, k: int) -> None:
    """Rows [n, k] of the matrix must hold no NaN and no infinite value: no such model works."""
    if tiles.finite(kind, rows):
        return
    with np.errstate(invalid="ignore"):
        x = tiles.values(kind, rows, k)
    what = "a NaN" if np.isnan(x).any() else "an infinite value"
    raise ConvertError(f"{m.file.path}: {m.name} holds {what}, which no model can have: the file is damaged")


def vector_pieces(matrix: Matrix) -> Callable[[], Iterator[np.ndarray]]:
    """The tiles of a vector: f32, padded to 16."""

    def run() -> Iterator[np.ndarray]:
        bits = tiles.bits(tiles.F32, matrix.vector().reshape(-1, 1))
        _check_finite(matrix, tiles.F32, bits, 1)
        yield tiles.tile(tiles.F32, bits)

    return run


def _as(m: Matrix, rows, kind: int):
    """Rows of the matrix's type as rows of another type; what cannot be represented is an error."""
    if kind == m.kind:
        if kind == Q8 and np.any(rows[0] == -128):
            raise ConvertError(
                f"{m.name} holds -128, which q8 (-127 to 127) cannot represent; use --type f32, which keeps every value"
            )
        return rows
    x = tiles.values(m.kind, rows, m.k)
    if tiles.overflows(kind, x):
        worst = np.abs(x[np.isfinite(x)]).max()
        raise ConvertError(
            f"{m.name} holds the value {worst:g}, which is too large for {tiles.TYPES[kind].name}; use --type f32"
        )
    return tiles.bits(kind, x)
