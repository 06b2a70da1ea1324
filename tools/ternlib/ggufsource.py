"""Reads a GGUF model: the keys of its architecture become the config of a family, its tensors matrices.

In:  the file, whose vocabulary is inside. Out: a Source; Q8_0 becomes q8, Q4_0 q4 and Q6_K f32, value for value.
This file alone knows what llama.cpp's own converter did: q and k rows of Llama-family files are
permuted to interleaved RoPE, and the scaling of Llama 3.1 is a tensor of divisors.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import gguf_file, rope, tiles, tokenizer
from .config import Config
from .errors import USAGE, ConvertError, reading
from .families import FAMILIES
from .gguf_file import Entry, Gguf
from .layouts import GGUF, source_name
from .source import MAX_WINDOW, Matrix, Source, check_config, slots

TYPES = {"F32": tiles.F32, "F16": tiles.F16, "BF16": tiles.BF16}
# The types of blocks: ours, which holds every value of theirs, and what a block is.
BLOCKS = {
    "Q8_0": (tiles.Q8, 32, np.dtype([("d", "<u2"), ("q", "i1", 32)])),
    "Q4_0": (tiles.Q4, 32, np.dtype([("d", "<u2"), ("q", "u1", 16)])),
    # low [half, part, 32], high [half, 32], scales [half, quarter, 2]: a block is 2 halves of 4 quarters of 32
    "Q6_K": (tiles.F32, 256, np.dtype([("low", "u1", (2, 2, 32)), ("high", "u1", (2, 32)),
                                       ("scales", "i1", (2, 4, 2)), ("d", "<f2")])),
}  # fmt: skip
IGNORED_TENSORS = (".attn_rot_embd.weight", "rope.freqs")  # tables of old files, computed instead
END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")

# Keys of the architecture under the names of transformers.
KEYS = {
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "sliding_window": "attention.sliding_window",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "max_position_embeddings": "context_length",
    "rope_theta": "rope.freq_base",
    "vocab_size": "vocab_size",
}
HARMLESS = ("tensor_data_layout", "rope.scaling.finetuned", "rope.scaling.original_context_length")
NEUTRAL = {
    "attention.causal": (True,),
    "attention.layer_norm_epsilon": (0,),
    "expert_count": (0,),
    "expert_used_count": (0,),
    "rope.scaling.attn_factor": (1,),
    "rope.scaling.yarn_log_multiplier": (0,),
}


@dataclass
class Blocks(Matrix):
    """A matrix of GGUF's quantized types."""

    dtype: str = ""

    @property
    def row_bytes(self) -> int:
        _, weights, block = BLOCKS[self.dtype]
        return self.k // weights * block.itemsize

    def _decoded(self, data: bytearray, n: int):
        blocks = np.frombuffer(data, BLOCKS[self.dtype][2]).reshape(n, -1)
        if self.dtype == "Q6_K":
            return _q6_k(blocks).view("<u4")
        q = blocks["q"]
        if self.dtype == "Q4_0":  # low nibbles are elements 0 to 15, high ones 16 to 31
            q = np.concatenate([q & 15, q >> 4], axis=2).view("i1") - np.int8(8)
        return np.ascontiguousarray(q), np.ascontiguousarray(blocks["d"])


def _q6_k(blocks: np.ndarray) -> np.ndarray:
    """f32 [n, k]: d * scale * (q - 32), of which f32 holds every bit; quarter j has bits 2 j of `high`."""
    n = len(blocks)
    low = blocks["low"]
    low = np.concatenate([low & 15, low >> 4], axis=3)  # [n, block, half, quarter, 32]
    high = blocks["high"][:, :, :, None, :] >> np.arange(0, 8, 2, dtype="u1")[:, None] & 3
    q = (low | high << 4).astype("<f4") - np.float32(32)
    scales = blocks["scales"] * blocks["d"].astype("<f4")[:, :, None, None, None]
    return (q.reshape(*q.shape[:-1], 2, 16) * scales[..., None]).reshape(n, -1)


def load(path: Path, tokenizer_file: Path | None) -> Source:
    """The model of a file."""
    if tokenizer_file is not None:
        raise ConvertError(f"{path} carries its own vocabulary; leave --tokenizer out", USAGE)
    g = gguf_file.read(path)
    arch = g.keys.get("general.architecture")
    known = [name for name, family in FAMILIES.items() if family.interleaved is not None]
    if arch not in known:
        raise ConvertError(f"{path}: the architecture {arch!r} is not understood; known are {', '.join(known)}")
    if g.keys.get("split.count", 1) != 1:
        raise ConvertError(
            f"{path} is one of {g.keys['split.count']} parts; join them with llama-gguf-split --merge", USAGE
        )
    notes: list[str] = []
    config = _features(path, arch, g, notes)
    check_config(config)
    wide = [name for name, entry in g.tensors.items() if entry.dtype == "Q6_K"]
    if wide:
        notes.append(f"{path}: {', '.join(wide)} in Q6_K, kept exactly as f32; --type q8 makes it small again")
    matrices = _matrices(path, config, g.tensors, bool(FAMILIES[arch].interleaved))
    return Source(
        name=_text(g.keys, "general.name") or path.stem,
        origin=f"GGUF file {path.name}, {arch}",
        config=config,
        matrices=matrices,
        tokenizer=_tokenizer(path, g.keys, config["vocab"]),
        end_tokens=_end_tokens(path, g.keys, config["vocab"]),
        licence=_text(g.keys, "general.license"),
        notes=notes,
    )


def _text(keys: dict[str, Any], name: str) -> str:
    value = keys.get(name)
    return value if isinstance(value, str) else ""


def _plain(value: Any) -> Any:
    """Arrays of numbers as lists, as a config has them."""
    return value.tolist() if hasattr(value, "tolist") else value


def _features(path: Path, arch: str, g: Gguf, notes: list[str]) -> dict[str, Any]:
    """The family's features from the keys, and from the tensors what no key says."""
    embed = g.tensors.get(GGUF["embed"])
    if embed is None or len(embed.shape) != 2:
        raise ConvertError(f"{path} has no matrix {GGUF['embed']!r}: it is a vocabulary or a part, not a model")
    prefix = arch + "."
    values = {name: _plain(v) for name, v in g.keys.items() if name.startswith(prefix)}
    values[prefix + "vocab_size"] = embed.shape[1]
    names = {ours: prefix + theirs for ours, theirs in KEYS.items()}
    harmless = frozenset(prefix + name for name in HARMLESS)
    c = Config(str(path), values, names, harmless, {prefix + name: allowed for name, allowed in NEUTRAL.items()})
    _put_scaling(c, prefix)
    config = FAMILIES[arch].features(c)
    _check_widths(c, prefix, config)
    _put_window(c, config, notes)
    c.finish()
    config["head_tied"] = int(GGUF["head"] not in g.tensors)
    _put_biases(config, g.tensors)
    _put_divisors(path, config, g.tensors)
    return config


def _put_scaling(c: Config, prefix: str) -> None:
    """The keys of RoPE scaling as the dictionary that transformers has."""
    names = {"type": "rope.scaling.type", "factor": "rope.scaling.factor", "old": "rope.scale_linear"}
    kind, factor, old = (c.get(prefix + name, None) for name in names.values())
    if kind not in (None, "none", "linear"):
        raise ConvertError(f"{c.where}: {prefix}{names['type']} is {kind!r}; 'none' and 'linear' are understood")
    factor = factor if factor is not None else old
    if kind != "none" and factor not in (None, 0, 1):
        c.values["rope_scaling"] = {"rope_type": "linear", "factor": factor}


def _check_widths(c: Config, prefix: str, config: dict[str, Any]) -> None:
    """Heads whose values are of another size, or turn only in part, are not this graph."""
    for name in ("attention.value_length", "rope.dimension_count"):
        value = c.get(prefix + name, config["head_dim"][0])
        if value != config["head_dim"][0]:
            raise ConvertError(
                f"{c.where}: {prefix}{name} is {value!r}, but a head has {config['head_dim'][0]} dimensions"
            )


def _put_window(c: Config, config: dict[str, Any], notes: list[str]) -> None:
    if c.get("sliding_window", None) is not None:
        config["window"] = [c.integer("sliding_window", MAX_WINDOW)] * config["n_layers"]
    else:
        notes.append(
            f"{c.where} does not say whether attention has a window, so it gets none "
            "(GGUF files of Mistral 7B v0.1 have lost theirs, 4096: convert the original instead)"
        )


def _put_biases(config: dict[str, Any], tensors: dict[str, Entry]) -> None:
    """A bias is a feature when its tensor is there; GGUF has no key for it."""
    for i in range(config["n_layers"]):
        for key, parts in (("attn_bias", "q k v o"), ("ffn_bias", "gate up down")):
            for bit, part in enumerate(parts.split()):
                if source_name(GGUF, f"layer.{i}.{part}_bias") in tensors:
                    config[key][i] |= 1 << bit


def _put_divisors(path: Path, config: dict[str, Any], tensors: dict[str, Entry]) -> None:
    """`rope_freqs`: what each frequency is divided by (the scaling of Llama 3.1)."""
    entry = tensors.get("rope_freqs.weight")
    if entry is None:
        return
    freq = config["rope.0.inv_freq"]
    if entry.shape != (len(freq),) or entry.dtype != "F32":
        raise ConvertError(
            f"{path}: rope_freqs.weight is {entry.dtype} {list(entry.shape)}; F32 [{len(freq)}] is needed"
        )
    divisors = Matrix(entry.name, tiles.F32, len(freq), 1, entry.file, entry.offset).vector().astype("f8")
    if not all(1e-6 < d < 1e6 for d in divisors):
        raise ConvertError(f"{path}: rope_freqs.weight holds a divisor that is not a sensible number above 0")
    config["rope.0.inv_freq"] = rope.checked(freq / divisors)


def _matrices(path: Path, config: dict[str, Any], tensors: dict[str, Entry], interleaved: bool) -> dict[str, Matrix]:
    """Every tensor that the model must have, of the right shape; any other one is refused."""
    out, wanted = {}, {"rope_freqs.weight"}
    for slot in slots(config):
        name = source_name(GGUF, slot.name)
        wanted.add(name)
        entry = tensors.get(name)
        if entry is None:
            raise ConvertError(f"{path} lacks the tensor {name!r}")
        shape = (slot.rows,) if slot.vector else (slot.k, slot.rows)
        if entry.shape != shape:
            raise ConvertError(f"{path}: tensor {name!r} is {list(entry.shape)}, but its keys ask for {list(shape)}")
        if slot.vector and entry.dtype not in TYPES:
            raise ConvertError(f"{path}: tensor {name!r} is {entry.dtype}; norms and biases must be F32, F16 or BF16")
        turns = slot.name.rsplit(".", 1)[-1] in ("q", "k", "q_bias", "k_bias")
        heads = config["head_dim"][0] if interleaved and turns else 0
        where = (slot.rows, slot.k, entry.file, entry.offset, heads)
        if entry.dtype in TYPES:
            out[slot.name] = Matrix(name, TYPES[entry.dtype], *where)
        else:
            out[slot.name] = Blocks(name, BLOCKS[entry.dtype][0], *where, entry.dtype)
    for name in tensors:
        if name not in wanted and not name.endswith(IGNORED_TENSORS):
            raise ConvertError(f"{path} holds the tensor {name!r}, which a model of these keys does not have")
    return out


def _end_tokens(path: Path, keys: dict[str, Any], vocab: int) -> list[int]:
    ends = set()
    for key in END_KEYS:
        value = keys.get("tokenizer.ggml." + key)
        if value is not None:
            if type(value) is not int or not 0 <= value < vocab:
                raise ConvertError(f"{path}: tokenizer.ggml.{key} is {value!r}, but the vocabulary has {vocab} tokens")
            ends.add(value)
    return sorted(ends)


def _tokenizer(path: Path, keys: dict[str, Any], vocab: int) -> tokenizer.Tokenizer | None:
    with reading(f"the vocabulary in {path}"):
        return tokenizer.from_gguf(keys, vocab)
