"""What the functions of all families build with: the Llama graph, and what many change in it.

In:  a Config. Out: features in the words of FORMAT.md, which a family's function changes and returns.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import ConvertError
from . import rope
from .config import REQUIRED, Config
from .features import (
    MAX_HEADS, MAX_HEAD_DIM, MAX_LAYERS, MAX_SEQ, MAX_VOCAB, MAX_WIDTH, NORM_ATTN, NORM_ATTN_POST, NORM_FFN,
    NORM_FFN_POST, SOFTMAX, in_range,
)  # fmt: skip
from .windows import FULL, SLIDING, layer_types, put_windows

ACTIVATIONS = {
    "silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh", "relu2": "relu2", "relu": "relu",
}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """`features` reads a config, in which `aliases` maps the common names of keys to this family's. `published` is what
    files say that are older than the family's place in transformers."""

    architecture: str
    features: Callable[[Config], dict[str, Any]]
    aliases: dict[str, str] = field(default_factory=dict)
    published: str = ""


def graph(
    c: Config,
    positions: int,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    theta: float = 10000.0,
    eps: tuple[str, float] = ("rms_norm_eps", 1e-6),
    act: tuple[str, str] = ("hidden_act", "silu"),
    tied: bool = False,
    partial: float | None = None,
    hidden: int | None = None,
    ropes: bool = True,
    heads: int | None = None,
    vocab: int | None = None,
) -> dict[str, Any]:
    """The Llama graph, with the defaults of the family's config class. What differs is changed by the family."""
    n = c.integer("num_hidden_layers", MAX_LAYERS)
    dim = c.integer("hidden_size", MAX_WIDTH)
    heads = c.integers("num_attention_heads", MAX_HEADS, n, heads or REQUIRED)
    kv = c.integers("num_key_value_heads", MAX_HEADS, n, kv_heads or heads[0])
    size = _head_dims(c, n, dim, heads, head_dim)
    activation = ACTIVATIONS[c.choice(*act, ACTIVATIONS)]
    max_seq = c.integer("max_position_embeddings", MAX_SEQ, positions)
    out = {
        "n_layers": n, "dim": dim, "vocab": c.integer("vocab_size", MAX_VOCAB, vocab or REQUIRED), "max_seq": max_seq,
        "norm_eps": c.number(*eps), "head_tied": int(c.flag("tie_word_embeddings", tied)),
        "n_heads": heads, "n_kv_heads": kv, "head_dim": size,
        "hidden": c.integers("intermediate_size", MAX_WIDTH, n, hidden or REQUIRED),
        "window": [0] * n, "rope_set": [int(ropes)] * n,
        "attn_scale": [1 / math.sqrt(d) for d in size],
        "attn_bias": [0] * n, "ffn_bias": [0] * n, "activation": activation,
    }  # fmt: skip
    if ropes:
        new, old = c.table("rope_parameters"), c.table("rope_scaling")
        values, where = (old, "rope_scaling") if old else (new, "rope_parameters")
        values.setdefault("rope_theta", c.get("rope_theta", theta))
        if partial is not None:
            partial = values.get("partial_rotary_factor", c.get("partial_rotary_factor", partial))
        elif values.pop("partial_rotary_factor", 1) not in (1, None):
            raise ConvertError(f"{c.where}: {where} has a partial_rotary_factor, which this family does not know")
        put_rope(c, out, 0, values, where, size[0], 1.0 if partial is None else partial)
    return out


def _head_dims(c: Config, n: int, dim: int, heads: list[int], default: int | None) -> list[int]:
    if c.get("head_dim", None) is not None:
        size = c.integers("head_dim", MAX_HEAD_DIM, n)
    elif default:
        size = [default] * n
    else:
        if any(dim % h for h in heads):
            raise ConvertError(f"{c.where}: {c.name('hidden_size')} {dim} is not a multiple of {heads[0]} heads")
        size = [in_range(dim // h, 1, MAX_HEAD_DIM, f"{c.where}: the size of a head") for h in heads]
    if len(set(size)) > 1:
        raise ConvertError(f"{c.where}: heads of different sizes, {sorted(set(size))}, are not understood")
    return size


def put_rope(c: Config, f: dict, i: int, values: dict, where: str, head_dim: int, partial: float = 1.0) -> None:
    """RoPE set `i` of the features from a dictionary as transformers has it."""
    if isinstance(partial, bool) or not isinstance(partial, (int, float)) or not 0 < partial <= 1:
        raise ConvertError(f"{c.where}: partial_rotary_factor is {partial!r}; it must be above 0 and at most 1")
    in_range(head_dim, 2, MAX_HEAD_DIM, f"{c.where}: the size of a head")
    dims = int(head_dim * partial)
    if dims < 2 or dims % 2:
        raise ConvertError(f"{c.where}: {dims} of {head_dim} dimensions of a head would turn; RoPE needs an even number")
    parameters = rope.Parameters(f"{c.where}: {where}", values, f["max_seq"], c.rope_length)
    if parameters.scaling() == "dynamic":
        c.length_used = True
    original = c.get("original_max_position_embeddings", None)
    if parameters.scaling() in ("llama3", "yarn", "longrope"):
        values["original_max_position_embeddings"] = (
            original or values.get("original_max_position_embeddings") or f["max_seq"]
        )
    f[f"rope.{i}.inv_freq"] = rope.frequencies(parameters.number("rope_theta"), dims, parameters)
    f[f"rope.{i}.factor"] = parameters.factor
    if parameters.limit:  # the reference changes all positions when a text grows beyond it, and so does the engine
        f[f"rope.{i}.far_freq"] = rope.checked(parameters.long)
        f[f"rope.{i}.limit"] = parameters.limit


def biases(f: dict, attn: int = 0, ffn: int = 0) -> None:
    n = f["n_layers"]
    f["attn_bias"], f["ffn_bias"] = [attn] * n, [ffn] * n


def put_all(f: dict, **values: Any) -> None:
    """The same values in all layers."""
    for key, value in values.items():
        f[key] = [value] * f["n_layers"]


def sparse_layers(c: Config, f: dict, expert_hidden: int, n_experts: int, used: int) -> list[int]:
    """Which layers have experts; their sizes are set."""
    n, step = f["n_layers"], c.integer("decoder_sparse_step", MAX_LAYERS, 1)
    dense = c.whole_numbers("mlp_only_layers")
    experts = c.integer("num_experts", 1024, c.get("num_local_experts", n_experts))
    used = c.integer("num_experts_per_tok", 1024, used)
    sparse = [int(i not in dense and (i + 1) % step == 0) for i in range(n)]
    width = c.integer("moe_intermediate_size", MAX_WIDTH, expert_hidden)
    f["hidden"] = [width if s else h for s, h in zip(sparse, f["hidden"])]
    f["n_experts"], f["experts_used"] = [experts * s for s in sparse], [used * s for s in sparse]
    f["router_normalize"] = [int(c.flag("norm_topk_prob")) * s for s in sparse]
    put_all(f, router_score=SOFTMAX)
    return sparse


def soft_caps(c: Config, f: dict, attention: float, logits: float) -> None:
    """Soft caps; null is none."""
    for key, default, ours in (
        ("attn_logit_softcapping", attention, "attn_cap"),
        ("final_logit_softcapping", logits, "logit_cap"),
    ):
        if c.get(key, default or None) is not None:
            cap = c.number(key, default)
            f[ours] = [cap] * f["n_layers"] if ours == "attn_cap" else cap


def sandwich(c: Config, f: dict) -> None:
    put_all(f, norms=NORM_ATTN | NORM_ATTN_POST | NORM_FFN | NORM_FFN_POST)
    put_all(f, attn_scale=1 / math.sqrt(c.number("query_pre_attn_scalar", 256)))


def two_ropes(c: Config, f: dict, kinds: list[str], theta: float, local_theta: float) -> None:
    """Layers with a window turn by frequencies of their own. Older files state the others' alone, in rope_scaling. The
    reference reads no other key of rope_parameters than the two kinds, but writes what it was given beside them."""
    stated, old = c.table("rope_parameters"), c.table("rope_scaling")
    full, local = (c.inner("rope_parameters", stated.pop(kind, None), kind) or {"rope_type": "default"} for kind in (FULL, SLIDING))
    if stated:
        c.notes.append(
            f"{c.where}: rope_parameters states {', '.join(map(repr, sorted(stated)))} outside {FULL!r} and {SLIDING!r}, "
            "where transformers does not read it; not used"
        )
    c.only("original_max_position_embeddings", None)
    full |= old
    full.setdefault("rope_theta", c.get("rope_theta", theta))
    local.setdefault("rope_theta", local_theta)
    for i, values in enumerate((full, local)):
        if values.get("partial_rotary_factor") not in (1, None):
            raise ConvertError(f"{c.where}: rope_parameters has a partial_rotary_factor, which this family does not know")
        put_rope(c, f, i, values, "rope_parameters", f["head_dim"][0])
    f["rope_set"] = [1 if kind == FULL else 2 for kind in kinds]


def layer_norms(f: dict, bias: bool, parallel: bool = False) -> None:
    f["norm"], f["norm_bias"] = "layer", int(bias)
    if parallel:
        put_all(f, parallel=1, norms=NORM_ATTN)


def _bf16(values: np.ndarray) -> np.ndarray:
    """f32 rounded to the nearest bf16, ties to even."""
    bits = values.astype("<f4").view("<u4")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype("<u4").view("<f4")


def turning(dims: int, head_dim: int) -> float:
    """The part of a head that turns, of which put_rope makes these dims again."""
    return min(1.0, (dims + 0.5) / head_dim)


def alibi_slopes(heads: int, rounded: bool = True) -> np.ndarray:
    """ALiBi's slopes as the reference has them: 2^(-8 i / n), n the power of two up to the heads; of more heads, every
    second of 2n; powers of an f32, in bf16 where they are rounded."""
    n = 1 << heads.bit_length() - 1
    few, many = (float(np.float32(2 ** (-8 / m))) for m in (n, 2 * n))
    slopes = np.concatenate([few ** np.arange(1, n + 1), many ** np.arange(1, 2 * (heads - n) + 1, 2)])
    return _bf16(slopes) if rounded else slopes


def put_experts(
    c: Config, f: dict, sparse: list[int], width: int, key: tuple[str, int | None], used: int | None
) -> None:
    """So many experts of this width, key and default, in the layers that are sparse; softmax over all is their router."""
    n, default = key
    experts = c.integer(n, 1024, REQUIRED if default is None else default)
    used = c.integer("num_experts_per_tok", 1024, REQUIRED if used is None else used)
    f["hidden"] = [width if s else h for s, h in zip(sparse, f["hidden"])]
    f["n_experts"], f["experts_used"] = [experts * s for s in sparse], [used * s for s in sparse]


def granite(c: Config, ropes: bool = True) -> dict[str, Any]:
    f = graph(c, 2048, hidden=11008, ropes=ropes)
    biases(f, 15 * c.flag("attention_bias"), 7 * c.flag("mlp_bias"))
    put_all(f, attn_scale=c.number("attention_multiplier", 1.0))
    f["embed_scale"] = c.number("embedding_multiplier", 1.0)
    f["residual_scale"] = c.number("residual_multiplier", 1.0)
    f["logit_scale"] = 1 / c.number("logits_scaling", 1.0)
    return f


def granite_swa(c: Config, f: dict) -> dict:
    """Every fourth layer, from the first, sees all; each layer has a base of RoPE, and sinks."""
    n, thetas = f["n_layers"], c.get("layer_rope_theta", None)
    put_windows(c, f, layer_types(c, n, [SLIDING if i % 4 else FULL for i in range(n)]), 128)
    put_all(f, attn_sinks=1)
    if thetas is None:
        return f
    if not isinstance(thetas, list) or len(thetas) != n or not all(type(t) in (int, float) and 0 <= t < 1e30 for t in thetas):
        raise c.refuse("layer_rope_theta", f"{n} numbers, or null")
    values = {**(c.table("rope_scaling") or c.table("rope_parameters"))}
    bases = sorted({t for t in thetas if t})
    for i, base in enumerate(bases):
        put_rope(c, f, i, values | {"rope_theta": base}, "rope_parameters", f["head_dim"][0])
    f["rope_set"] = [bases.index(t) + 1 if t else 0 for t in thetas]
    return f
