"""Model families: from the keys of a config to the features of FORMAT.md.

To add a family that is one of the graphs here: a function that calls `graph` and changes what differs, a row in FAMILIES,
and, where its tensors are named or stored in another way, in layouts.py. Every key that the function reads is
understood; other keys are refused by their names (config.py).
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
    NORM_FFN_POST, QK_FULL, QK_HEAD, QK_HEAD_LAYER, QK_SHARED_LAYER, SOFTMAX, SOFTMAX_CHOSEN, in_range,
)  # fmt: skip
from .windows import FULL, SLIDING, layer_types, put_windows, same_types, window_of_all

ACTIVATIONS = {
    "silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh", "relu2": "relu2", "relu": "relu",
}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """`features` reads a config, in which `aliases` maps the common names of keys to this family's."""

    architecture: str
    features: Callable[[Config], dict[str, Any]]
    aliases: dict[str, str] = field(default_factory=dict)


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
) -> dict[str, Any]:
    """The Llama graph, with the defaults of the family's config class. What differs is changed by the family."""
    n = c.integer("num_hidden_layers", MAX_LAYERS)
    dim = c.integer("hidden_size", MAX_WIDTH)
    heads = c.integers("num_attention_heads", MAX_HEADS, n)
    kv = c.integers("num_key_value_heads", MAX_HEADS, n, kv_heads or heads[0])
    size = _head_dims(c, n, dim, heads, head_dim)
    activation = ACTIVATIONS[c.choice(*act, ACTIVATIONS)]
    max_seq = c.integer("max_position_embeddings", MAX_SEQ, positions)
    out = {
        "n_layers": n, "dim": dim, "vocab": c.integer("vocab_size", MAX_VOCAB), "max_seq": max_seq,
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


def _biases(f: dict, attn: int = 0, ffn: int = 0) -> None:
    n = f["n_layers"]
    f["attn_bias"], f["ffn_bias"] = [attn] * n, [ffn] * n


def _all(f: dict, **values: Any) -> None:
    """The same values in all layers."""
    for key, value in values.items():
        f[key] = [value] * f["n_layers"]


def _llama(c: Config) -> dict:
    f = graph(c, 2048)
    _biases(f, 15 * c.flag("attention_bias"), 7 * c.flag("mlp_bias"))
    same_types(c, f["n_layers"], FULL)
    return f


def _mistral(c: Config) -> dict:
    f = graph(c, 131072, kv_heads=8)
    window_of_all(c, f, 4096)
    return f


def _qwen_windows(c: Config, f: dict) -> None:
    """A window, when used, holds for the layers from max_window_layers on, unless layer_types says which."""
    n, used, full = f["n_layers"], c.flag("use_sliding_window"), c.get("max_window_layers", 28)
    if type(full) is not int:
        raise c.refuse("max_window_layers", "a whole number")
    windowed = used and c.get("sliding_window", 4096) is not None
    kinds = layer_types(c, n, [SLIDING if windowed and i >= full else FULL for i in range(n)])
    if SLIDING in kinds and not windowed:
        raise c.refuse("layer_types", f"{FULL!r} for all layers, as use_sliding_window is off")
    put_windows(c, f, kinds, 4096)


def _qwen2(c: Config) -> dict:
    f = graph(c, 32768, kv_heads=32)
    _biases(f, 7)
    _qwen_windows(c, f)
    return f


def _qwen3(c: Config) -> dict:
    f = graph(c, 32768, kv_heads=32, head_dim=128)
    _biases(f, 15 * c.flag("attention_bias"))
    _all(f, qk_norm=QK_HEAD)
    _qwen_windows(c, f)
    return f


def _sparse_layers(c: Config, f: dict, expert_hidden: int, n_experts: int, used: int) -> list[int]:
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
    _all(f, router_score=SOFTMAX)
    return sparse


def _qwen2_moe(c: Config) -> dict:
    f = graph(c, 32768, kv_heads=16, hidden=5632)
    n = f["n_layers"]
    _biases(f, 7 * c.flag("qkv_bias", True))
    sparse = _sparse_layers(c, f, 1408, 60, 4)
    shared = c.integer("shared_expert_intermediate_size", MAX_WIDTH, 5632)
    f["shared_hidden"], f["shared_switch"] = [shared * s for s in sparse], sparse
    used, full = c.flag("use_sliding_window"), c.get("max_window_layers", 28)
    put_windows(c, f, layer_types(c, n, [SLIDING if used and i % 2 == 0 and i < full else FULL for i in range(n)]), 4096)
    return f


def _qwen3_moe(c: Config) -> dict:
    f = graph(c, 32768, kv_heads=4, hidden=6144)
    _biases(f, 15 * c.flag("attention_bias"))
    _all(f, qk_norm=QK_HEAD)
    _sparse_layers(c, f, 768, 128, 8)
    c.get("max_window_layers", None)
    if c.flag("use_sliding_window"):
        window_of_all(c, f, 4096)
    else:
        c.get("sliding_window", None)
        same_types(c, f["n_layers"], FULL)
    return f


def _gemma_graph(c: Config, **defaults: Any) -> dict:
    f = graph(c, head_dim=256, tied=True, **defaults)
    if c.flag("use_bidirectional_attention"):
        raise c.refuse("use_bidirectional_attention", "false")
    _biases(f, 15 * c.flag("attention_bias"))
    f["embed_scale"] = math.sqrt(f["dim"])
    return f


def _gemma(c: Config) -> dict:
    """`hidden_act: gelu` of the first files means the tanh form; the reference does not read hidden_activation."""
    f = _gemma_graph(c, positions=8192, kv_heads=16, act=("hidden_act", "gelu_pytorch_tanh"))
    f["activation"] = "gelu_tanh" if c.get("hidden_act", None) == "gelu" else f["activation"]
    other = c.values.get("hidden_activation")
    if other is not None and ACTIVATIONS.get(str(other)) != f["activation"]:
        c.notes.append(
            f"{c.where}: hidden_activation {other!r} is not used: the reference computes Gemma 1 with hidden_act, here {f['activation']}"
        )
    c.ignore("hidden_activation")
    return f


def _caps(c: Config, f: dict, attention: float, logits: float) -> None:
    """Soft caps; null is none."""
    for key, default, ours in (
        ("attn_logit_softcapping", attention, "attn_cap"),
        ("final_logit_softcapping", logits, "logit_cap"),
    ):
        if c.get(key, default or None) is not None:
            cap = c.number(key, default)
            f[ours] = [cap] * f["n_layers"] if ours == "attn_cap" else cap


def _sandwich(c: Config, f: dict) -> None:
    _all(f, norms=NORM_ATTN | NORM_ATTN_POST | NORM_FFN | NORM_FFN_POST)
    _all(f, attn_scale=1 / math.sqrt(c.number("query_pre_attn_scalar", 256)))


def _gemma2(c: Config) -> dict:
    f = _gemma_graph(c, positions=8192, kv_heads=4, act=("hidden_activation", "gelu_pytorch_tanh"))
    c.get("hidden_act", None)
    _sandwich(c, f)
    _caps(c, f, 50.0, 30.0)
    n = f["n_layers"]
    put_windows(c, f, layer_types(c, n, [FULL if i % 2 else SLIDING for i in range(n)]), 4096)
    return f


def _two_ropes(c: Config, f: dict, kinds: list[str], theta: float, local_theta: float) -> None:
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


def _gemma3(c: Config) -> dict:
    """Five layers with a window and a base of their own to one without; q and k norms."""
    f = _gemma_graph(c, positions=131072, kv_heads=4, act=("hidden_activation", "gelu_pytorch_tanh"), ropes=False)
    c.get("hidden_act", None)
    _sandwich(c, f)
    if c.get("attn_logit_softcapping", None) is not None:
        raise c.refuse("attn_logit_softcapping", "null: the reference does not cap the scores of this family")
    _caps(c, f, 0, 0)
    _all(f, qk_norm=QK_HEAD)
    n, pattern = f["n_layers"], c.integer("sliding_window_pattern", MAX_LAYERS, 6)
    kinds = layer_types(c, n, [SLIDING if (i + 1) % pattern else FULL for i in range(n)])
    put_windows(c, f, kinds, 4096)
    _two_ropes(c, f, kinds, 1_000_000.0, c.get("rope_local_base_freq", 10_000.0))
    return f


def _phi3(c: Config) -> dict:
    """The first files say su, or yarn, for longrope."""
    for name in ("rope_parameters", "rope_scaling"):
        values = c.table(name)
        for key in ("type", "rope_type"):
            if values.get(key) in ("su", "yarn"):
                c.values[c.name(name)] = values | {key: "longrope"}
    f = graph(c, 4096, hidden=8192, eps=("rms_norm_eps", 1e-5), partial=1.0)
    window_of_all(c, f, None)
    return f


def _smollm3(c: Config) -> dict:
    """A 1 in no_rope_layers means that the layer has RoPE; windows, where used, fall on the others."""
    f = graph(c, 32768, kv_heads=4, theta=2_000_000.0, tied=True)
    n, interval = f["n_layers"], c.integer("no_rope_layer_interval", MAX_LAYERS, 4)
    _biases(f, 15 * c.flag("attention_bias"), 7 * c.flag("mlp_bias"))
    has = c.get("no_rope_layers", None)
    has = [int((i + 1) % interval != 0) for i in range(n)] if has is None else has
    if not isinstance(has, list) or len(has) < n or not all(v in (0, 1) for v in has):
        raise c.refuse("no_rope_layers", f"{n} of 0 or 1")
    f["rope_set"] = has[:n]
    used = c.flag("use_sliding_window") and c.get("sliding_window", None) is not None
    kinds = layer_types(c, n, [FULL if not used or has[i] else SLIDING for i in range(n)])
    put_windows(c, f, kinds, 0)
    return f


def _mixtral(c: Config) -> dict:
    f = graph(c, 131072, kv_heads=8, hidden=14336, eps=("rms_norm_eps", 1e-5), theta=1_000_000.0)
    window_of_all(c, f, None)
    _all(f, n_experts=c.integer("num_local_experts", 1024, 8))
    _all(f, experts_used=c.integer("num_experts_per_tok", 1024, 2))
    _all(f, router_score=SOFTMAX, router_normalize=1)
    return f


def _olmo(c: Config) -> dict:
    """LayerNorm with neither weight nor bias: the weights are stored as ones. Its eps is no key of the reference."""
    f = graph(c, 2048, eps=("layer_norm_eps", 1e-5), hidden=11008)
    if f["norm_eps"] != 1e-5:
        raise c.refuse("layer_norm_eps", "1e-05, which the reference uses always, or absent")
    _biases(f, 15 * c.flag("attention_bias"))
    f["norm"] = "layer"
    if c.get("clip_qkv", None) is not None:
        _all(f, qkv_clip=c.number("clip_qkv"))
    return f


def _olmo2(c: Config) -> dict:
    f = graph(c, 2048, eps=("rms_norm_eps", 1e-5), hidden=11008)
    _biases(f, 15 * c.flag("attention_bias"))
    _all(f, norms=NORM_ATTN_POST | NORM_FFN_POST, qk_norm=QK_FULL)
    return f


def _olmo3(c: Config) -> dict:
    """OLMo 2, of whose layers three of four have a window, and the others alone a scaling of RoPE."""
    f = graph(c, 2048, eps=("rms_norm_eps", 1e-5), hidden=11008, ropes=False)
    _biases(f, 15 * c.flag("attention_bias"))
    _all(f, norms=NORM_ATTN_POST | NORM_FFN_POST, qk_norm=QK_FULL)
    n = f["n_layers"]
    kinds = layer_types(c, n, [SLIDING if (i + 1) % 4 else FULL for i in range(n)])
    put_windows(c, f, kinds, 4096)
    _two_ropes(c, f, kinds, 500_000.0, 500_000.0)
    return f


def _granite(c: Config) -> dict:
    f = graph(c, 2048, hidden=11008)
    _biases(f, 15 * c.flag("attention_bias"), 7 * c.flag("mlp_bias"))
    _all(f, attn_scale=c.number("attention_multiplier", 1.0))
    f["embed_scale"] = c.number("embedding_multiplier", 1.0)
    f["residual_scale"] = c.number("residual_multiplier", 1.0)
    f["logit_scale"] = 1 / c.number("logits_scaling", 1.0)
    return f


def _layer_norms(f: dict, bias: bool, parallel: bool = False) -> None:
    f["norm"], f["norm_bias"] = "layer", int(bias)
    if parallel:
        _all(f, parallel=1, norms=NORM_ATTN)


def _stablelm(c: Config) -> dict:
    f = graph(c, 4096, kv_heads=32, hidden=6912, eps=("layer_norm_eps", 1e-5), partial=0.25)
    _biases(f, 7 * c.flag("use_qkv_bias"))
    _layer_norms(f, True, c.flag("use_parallel_residual"))
    if c.flag("qk_layernorm"):
        _all(f, qk_norm=QK_HEAD_LAYER)
    return f


def _bf16(values: np.ndarray) -> np.ndarray:
    """f32 rounded to the nearest bf16, ties to even."""
    bits = values.astype("<f4").view("<u4")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype("<u4").view("<f4")


def _slopes(heads: int) -> np.ndarray:
    """ALiBi's slopes as the reference has them: 2^(-8 i / n), n the power of two up to the heads; of more heads, every
    second of 2n; powers of an f32, in bf16."""
    n = 1 << heads.bit_length() - 1
    few, many = (float(np.float32(2 ** (-8 / m))) for m in (n, 2 * n))
    return _bf16(np.concatenate([few ** np.arange(1, n + 1), many ** np.arange(1, 2 * (heads - n) + 1, 2)]))


def _falcon(c: Config) -> dict:
    alibi = c.flag("alibi")
    dim, heads = c.integer("hidden_size", MAX_WIDTH), c.integer("num_attention_heads", MAX_HEADS)
    new, multi = c.flag("new_decoder_architecture"), c.flag("multi_query", True)
    kv = c.integer("num_kv_heads", MAX_HEADS, heads) if new else (1 if multi else heads)
    c.get("num_kv_heads", None)
    f = graph(
        c, 2048, kv_heads=kv, hidden=4 * dim, eps=("layer_norm_epsilon", 1e-5), act=("activation", "gelu"), tied=True,
        ropes=not alibi,
    )  # fmt: skip
    if alibi:
        f["alibi"] = _slopes(heads)
        for key in ("rope_parameters", "rope_scaling", "rope_theta"):
            c.get(key, None)  # stated, and not used by the reference
    two = c.get("num_ln_in_parallel_attn", None)
    two = 2 if two is None and new else two
    parallel = c.flag("parallel_attn", True) or new
    _layer_norms(f, True)
    _all(f, ffn_gated=0, parallel=int(parallel), norms=NORM_ATTN | NORM_FFN)
    if parallel and two != 2:
        _all(f, norms=NORM_ATTN)
    biased = c.flag("bias")
    _biases(f, 15 * biased, 6 * biased)
    return f


def _gpt_neox(c: Config) -> dict:
    f = graph(
        c, 2048, eps=("layer_norm_eps", 1e-5), act=("hidden_act", "gelu"), partial=0.25
    )
    _layer_norms(f, True)
    _biases(f, 15 * c.flag("attention_bias", True), 6)
    _all(f, ffn_gated=0, parallel=int(c.flag("use_parallel_residual", True)))
    return f


def _starcoder2(c: Config) -> dict:
    f = graph(
        c, 4096, kv_heads=2, hidden=12288, eps=("norm_epsilon", 1e-5), act=("hidden_act", "gelu_pytorch_tanh"), tied=True
    )
    biased = c.flag("use_bias", True)
    _biases(f, 15 * biased, 6 * biased)
    _layer_norms(f, True)
    _all(f, ffn_gated=0)
    window_of_all(c, f, None)
    return f


def _cohere(c: Config) -> dict:
    f = graph(c, 8192, hidden=22528, eps=("layer_norm_eps", 1e-5), theta=500_000.0, tied=True)
    _biases(f, 15 * c.flag("attention_bias"))
    _layer_norms(f, False, True)
    f["logit_scale"] = c.number("logit_scale", 0.0625)
    if c.flag("use_qk_norm"):
        _all(f, qk_norm=QK_HEAD_LAYER)
    return f


def _cohere2(c: Config) -> dict:
    """Command R7B and A: layers with a window turn, the others do not."""
    f = graph(c, 8192, hidden=22528, eps=("layer_norm_eps", 1e-5), tied=True)
    n, pattern = f["n_layers"], c.integer("sliding_window_pattern", MAX_LAYERS, 4)
    _biases(f, 15 * c.flag("attention_bias"))
    _layer_norms(f, False, True)
    f["logit_scale"] = c.number("logit_scale", 0.0625)
    kinds = layer_types(c, n, [SLIDING if (i + 1) % pattern else FULL for i in range(n)])
    put_windows(c, f, kinds, 4096)
    f["rope_set"] = [int(kind == SLIDING) for kind in kinds]
    return f


def _exaone4(c: Config) -> dict:
    """Norms after each step alone; where some layers have a window, the others do not turn."""
    f = graph(c, 2048, kv_heads=32, hidden=16384, eps=("rms_norm_eps", 1e-5))
    n, window, pattern = f["n_layers"], c.get("sliding_window", 4096), c.get("sliding_window_pattern", 4)
    _all(f, norms=NORM_ATTN_POST | NORM_FFN_POST, qk_norm=QK_HEAD)
    if isinstance(pattern, str) and pattern:  # L and G by turns
        local = [pattern[i % len(pattern)] == "L" and i < n - 1 for i in range(n)]
    else:
        local = [type(pattern) is int and pattern > 0 and (i + 1) % pattern != 0 for i in range(n)]
    kinds = layer_types(c, n, [SLIDING if window and is_local else FULL for is_local in local])
    put_windows(c, f, kinds, 4096)
    if window:
        f["rope_set"] = [int(kind == SLIDING) for kind in kinds]
    return f


def _olmoe(c: Config) -> dict:
    f = graph(c, 4096, hidden=2048, eps=("rms_norm_eps", 1e-5))
    _biases(f, 15 * c.flag("attention_bias"))
    if c.get("clip_qkv", None) is not None:
        _all(f, qkv_clip=c.number("clip_qkv"), qkv_clip_last=1)
    _all(f, qk_norm=QK_FULL, router_score=SOFTMAX, router_normalize=int(c.flag("norm_topk_prob")))
    _all(f, n_experts=c.integer("num_experts", 1024, c.get("num_local_experts", 64)))
    _all(f, experts_used=c.integer("num_experts_per_tok", 1024, 8))
    return f


def _arcee(c: Config) -> dict:
    f = graph(c, 4096, hidden=18432, eps=("rms_norm_eps", 1e-5), act=("hidden_act", "relu2"))
    _biases(f, 15 * c.flag("attention_bias"), 6 * c.flag("mlp_bias"))
    _all(f, ffn_gated=0)
    return f


def _seed_oss(c: Config) -> dict:
    f = graph(c, 524288, kv_heads=8, head_dim=128, hidden=27648)
    _biases(f, 7 * c.flag("attention_bias", True) + 8 * c.flag("attention_out_bias"), 7 * c.flag("mlp_bias"))
    return f


def _ernie(c: Config) -> dict:
    f = graph(c, 131072, kv_heads=2, head_dim=128, hidden=3072, eps=("rms_norm_eps", 1e-5), theta=500000.0, tied=True)
    _biases(f, 15 * c.flag("use_bias"), 7 * c.flag("use_bias"))
    return f


def _glm4(c: Config) -> dict:
    f = graph(c, 131072, kv_heads=2, head_dim=128, hidden=13696, eps=("rms_norm_eps", 1.5625e-7), partial=0.5)
    _biases(f, 7 * c.flag("attention_bias", True))
    _all(f, norms=NORM_ATTN | NORM_ATTN_POST | NORM_FFN | NORM_FFN_POST)
    return f


def _gpt_oss(c: Config) -> dict:
    """Scores have a sink without a value; experts clamp, with biases; every second layer has a window."""
    if c.table("quantization_config").get("quant_method", "mxfp4") != "mxfp4":
        raise c.refuse("quantization_config", "MXFP4's, or none")
    yarn = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}
    if c.get("rope_parameters", None) is None and not c.get("rope_scaling", None):
        c.values["rope_parameters"] = yarn | {"original_max_position_embeddings": 4096}
    f = graph(c, 131072, kv_heads=8, head_dim=64, hidden=2880, eps=("rms_norm_eps", 1e-5), theta=150000.0)
    n = f["n_layers"]
    if c.get("swiglu_alpha", 1.702) != 1.702:
        raise c.refuse("swiglu_alpha", "1.702")
    _biases(f, 15 * c.flag("attention_bias", True), 7)
    f["activation"] = "swiglu_oai"
    _all(f, ffn_clamp=c.number("swiglu_limit", 7.0), attn_sinks=1)
    _all(f, n_experts=c.integer("num_local_experts", 1024, 128))
    _all(f, experts_used=c.integer("num_experts_per_tok", 1024, 4), router_score=SOFTMAX_CHOSEN, router_bias=1)
    put_windows(c, f, layer_types(c, n, [FULL if i % 2 else SLIDING for i in range(n)]), 128)
    return f


def _gpt2(c: Config) -> dict:
    dim = c.integer("hidden_size", MAX_WIDTH)
    f = graph(
        c, 1024, hidden=4 * dim, eps=("layer_norm_epsilon", 1e-5), act=("activation_function", "gelu_new"), tied=True,
        ropes=False,
    )  # fmt: skip
    f["learned_positions"] = 1
    _biases(f, 15, 6)
    _layer_norms(f, True)
    _all(f, ffn_gated=0)
    if not c.flag("scale_attn_weights", True):
        _all(f, attn_scale=1.0)
    if c.flag("scale_attn_by_inverse_layer_idx"):
        f["attn_scale"] = [s / (i + 1) for i, s in enumerate(f["attn_scale"])]
    return f


def _phi(c: Config) -> dict:
    f = graph(
        c, 2048, hidden=8192, eps=("layer_norm_eps", 1e-5), act=("hidden_act", "gelu_new"), partial=0.5
    )
    if c.flag("qk_layernorm"):
        _all(f, qk_norm=QK_SHARED_LAYER)
    _biases(f, 15, 6)
    _layer_norms(f, True, True)
    _all(f, ffn_gated=0)
    f["head_bias"] = 1
    return f


GPT2_NAMES = {
    "hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions", "intermediate_size": "n_inner",
}  # fmt: skip
NEOX_NAMES = {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"}

FAMILIES = {
    "llama": Family("LlamaForCausalLM", _llama),
    "mistral": Family("MistralForCausalLM", _mistral),
    "qwen2": Family("Qwen2ForCausalLM", _qwen2),
    "qwen3": Family("Qwen3ForCausalLM", _qwen3),
    "qwen2_moe": Family("Qwen2MoeForCausalLM", _qwen2_moe),
    "qwen3_moe": Family("Qwen3MoeForCausalLM", _qwen3_moe),
    "gemma": Family("GemmaForCausalLM", _gemma),
    "gemma2": Family("Gemma2ForCausalLM", _gemma2),
    "gemma3_text": Family("Gemma3ForCausalLM", _gemma3),
    "phi3": Family("Phi3ForCausalLM", _phi3),
    "smollm3": Family("SmolLM3ForCausalLM", _smollm3),
    "mixtral": Family("MixtralForCausalLM", _mixtral),
    "olmo": Family("OlmoForCausalLM", _olmo),
    "olmo2": Family("Olmo2ForCausalLM", _olmo2),
    "olmo3": Family("Olmo3ForCausalLM", _olmo3),
    "granite": Family("GraniteForCausalLM", _granite),
    "stablelm": Family("StableLmForCausalLM", _stablelm),
    "falcon": Family("FalconForCausalLM", _falcon, aliases={"intermediate_size": "ffn_hidden_size"}),
    "gpt_neox": Family("GPTNeoXForCausalLM", _gpt_neox, aliases=NEOX_NAMES),
    "starcoder2": Family("Starcoder2ForCausalLM", _starcoder2),
    "cohere": Family("CohereForCausalLM", _cohere),
    "cohere2": Family("Cohere2ForCausalLM", _cohere2),
    "exaone4": Family("Exaone4ForCausalLM", _exaone4),
    "olmoe": Family("OlmoeForCausalLM", _olmoe),
    "arcee": Family("ArceeForCausalLM", _arcee),
    "seed_oss": Family("SeedOssForCausalLM", _seed_oss),
    "ernie4_5": Family("Ernie4_5ForCausalLM", _ernie),
    "glm4": Family("Glm4ForCausalLM", _glm4),
    "gpt_oss": Family("GptOssForCausalLM", _gpt_oss),
    "gpt2": Family("GPT2LMHeadModel", _gpt2, aliases=GPT2_NAMES),
    "phi": Family("PhiForCausalLM", _phi),
}
