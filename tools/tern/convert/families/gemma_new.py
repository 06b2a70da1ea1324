"""Gemma 3n, and Gemma 4 with the 12B model that is named gemma4_unified; see families.py.

Some layers see all, with heads of their own sizes and keys that may be values too; the last layers may read the keys
and values of earlier ones. Small models have embeddings per layer; one has experts beside a dense step. Gemma 3n has several streams,
a residual that is learned, and steps most of whose activations are cut.
"""

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from .config import Config
from .features import MAX_HEAD_DIM, MAX_HEADS, MAX_STREAMS, MAX_VOCAB, MAX_WIDTH, NORM_ATTN, NORM_ATTN_POST, NORM_FFN, NORM_FFN_POST, QK_HEAD, SOFTMAX
from .graph import Family, graph, put_all, put_experts, put_rope, soft_caps, two_ropes
from .windows import FULL, SLIDING, layer_types, put_windows

BIAS_QO, BIAS_K, BIAS_V = 9, 2, 4


def kinds_of(c: Config, n: int, pattern: int) -> list[str]:
    """Windows but for every so manieth layer, and the last."""
    kinds = layer_types(c, n, [SLIDING if (i + 1) % pattern else FULL for i in range(n)])
    return [*kinds[:-1], FULL]


def put_shared(c: Config, f: dict, kinds: list[str], default: int) -> list[bool]:
    """The last layers, so many, read the keys and values of the last one of their kind before them."""
    n, shared = f["n_layers"], c.get("num_kv_shared_layers", default)
    if type(shared) is not int or not 0 <= shared < n or (shared and set(kinds[: n - shared]) != set(kinds)):
        raise c.refuse("num_kv_shared_layers", "a number of layers that leaves one of each kind")
    last = {kind: i for i, kind in enumerate(kinds[: n - shared])}
    f["kv_from"] = [0 if i < n - shared else last[kind] + 1 for i, kind in enumerate(kinds)]
    f["v_norm"] = [int(not source) for source in f["kv_from"]]
    return [bool(source) for source in f["kv_from"]]


def put_ple(c: Config, f: dict, default: int, fewer: int | None = None) -> None:
    """Embeddings per layer, of this width; null and 0 are none. `fewer`: default of their tokens, where these may be fewer than
    the model's; all others have that of token 0."""
    width = c.get("hidden_size_per_layer_input", default)
    vocab = c.integer("vocab_size_per_layer_input", MAX_VOCAB, fewer or f["vocab"])
    if not width:
        return
    f["ple_dim"] = c.integer("hidden_size_per_layer_input", MAX_WIDTH // f["n_layers"], default)
    if vocab != f["vocab"]:
        if fewer is None or vocab > f["vocab"]:
            raise c.refuse("vocab_size_per_layer_input", f"{f['vocab']}, as vocab_size is{', or less' if fewer else ''}")
        f["ple_vocab"] = vocab
    f["ple_embed_scale"], f["ple_in_scale"], f["ple_scale"] = math.sqrt(width), 1 / math.sqrt(f["dim"]), math.sqrt(0.5)


def _sizes(c: Config, f: dict, kinds: list[str], same: bool) -> None:
    """Heads of the layers that see all: published files state them once, newer ones layer by layer."""
    n, head_dim = f["n_layers"], c.get("global_head_dim", 512)
    kv = c.get("num_global_key_value_heads", None) if same else None
    c.get("num_global_key_value_heads", None)
    own = {str(i): {"head_dim": head_dim} | ({"num_key_value_heads": kv} if kv else {}) for i in range(n) if kinds[i] == FULL}
    stated = c.get("per_layer_config", None)
    own = own if stated is None else c.inner("per_layer_config", stated)
    for layer, values in own.items():
        if not str(layer).isdecimal() or int(layer) >= n or not isinstance(values, dict):
            raise c.refuse("per_layer_config", f"sizes of layers below {n}")
        for key, value in values.items():
            ours, high = {"head_dim": ("head_dim", MAX_HEAD_DIM), "num_key_value_heads": ("n_kv_heads", MAX_HEADS)}.get(key, ("", 0))
            if type(value) is not int or not 1 <= value <= high:
                raise c.refuse("per_layer_config", "of head_dim and num_key_value_heads only, and whole numbers")
            f[ours][int(layer)] = value
    for kind in (FULL, SLIDING):
        if len({f["head_dim"][i] for i in range(n) if kinds[i] == kind}) > 1:
            raise c.refuse("per_layer_config", f"the same head_dim for all layers of {kind!r}")


def ropes_of_kinds(c: Config, f: dict, kinds: list[str], part: float) -> None:
    """Layers with a window turn wholly, those that see all by this part, with another base; others do not turn."""
    default = {
        SLIDING: {"rope_type": "default", "rope_theta": 10_000.0},
        FULL: {"rope_type": "proportional", "partial_rotary_factor": part, "rope_theta": 1_000_000.0},
    }
    values = c.table("rope_parameters") or default
    if set(values) - {SLIDING, FULL}:
        raise c.refuse("rope_parameters", f"of {FULL!r} and {SLIDING!r} only")
    turning = [kind for kind in (FULL, SLIDING) if kind in kinds]
    for i, kind in enumerate(turning):
        inner = c.inner("rope_parameters", values.get(kind), kind) or dict(default[kind])
        inner.setdefault("rope_theta", default[kind]["rope_theta"])
        if inner.get("rope_type", "default") != "proportional" and inner.pop("partial_rotary_factor", 1) not in (1, None):
            raise c.refuse("rope_parameters", "without partial_rotary_factor where it is not proportional")
        put_rope(c, f, i, inner, "rope_parameters", f["head_dim"][kinds.index(kind)])
    f["rope_set"] = [turning.index(kind) + 1 if kind in turning else 0 for kind in kinds]


def _gemma4(c: Config, ple: int = 256, positions: int = 131072, window: int = 512) -> dict[str, Any]:
    f = graph(
        c, positions, kv_heads=4, head_dim=256, tied=True, ropes=False, hidden=9216,
        act=("hidden_activation", "gelu_pytorch_tanh"),
    )  # fmt: skip
    n, same = f["n_layers"], c.flag("attention_k_eq_v")
    if c.get("use_bidirectional_attention", None) not in (None, False, "vision"):
        raise c.refuse("use_bidirectional_attention", "null or 'vision', which text does not feel")
    f["embed_scale"] = math.sqrt(f["dim"])
    put_all(f, norms=NORM_ATTN | NORM_ATTN_POST | NORM_FFN | NORM_FFN_POST, qk_norm=QK_HEAD, attn_scale=1.0, layer_scale=1)
    c.only("attn_logit_softcapping", None)
    soft_caps(c, f, 0, 0)
    kinds = kinds_of(c, n, 6)
    put_windows(c, f, kinds, window)
    _sizes(c, f, kinds, same)
    ropes_of_kinds(c, f, kinds, 0.25)
    shared = put_shared(c, f, kinds, 0)
    f["v_from_k"] = [int(same and kind == FULL and not reads) for kind, reads in zip(kinds, shared)]
    if c.flag("attention_bias"):
        f["attn_bias"] = [BIAS_QO + (0 if s else BIAS_K if v else BIAS_K + BIAS_V) for s, v in zip(shared, f["v_from_k"])]
    if c.flag("use_double_wide_mlp"):
        f["hidden"] = [h * (2 if s else 1) for h, s in zip(f["hidden"], shared)]
    put_ple(c, f, ple)
    if c.flag("enable_moe_block"):
        f["shared_hidden"] = f["hidden"]
        put_experts(c, f, [1] * n, c.integer("moe_intermediate_size", MAX_WIDTH), ("num_experts", None), None)
        put_all(f, router_score=SOFTMAX, router_normalize=1, expert_norms=1, router_scale=1)
    for key in ("num_experts", "num_experts_per_tok", "moe_intermediate_size"):
        c.get(key, None)
    return f


def _gemma4_unified(c: Config) -> dict[str, Any]:
    return _gemma4(c, 0, 262144, 1024)


def _cutoffs(c: Config, n: int) -> list[float]:
    """The share of a gate that is cut in each layer, as a number of standard deviations; 0 is none. GGUF files hold that number."""
    scales = c.get("activation_sparsity_scale", None)
    if isinstance(scales, list) and len(scales) == n and all(type(s) is float and s < 1e30 for s in scales):
        return [max(s, -(2.0**100)) for s in scales]
    if scales is not None:
        raise c.refuse("activation_sparsity_scale", f"{n} numbers")
    shares = c.get("activation_sparsity_pattern", None)
    shares = [0.95] * (10 if n > 10 else 0) if shares is None else shares
    shares = shares + [0.0] * (n - len(shares)) if isinstance(shares, list) and c.get("activation_sparsity_pattern", None) is None else shares
    if not isinstance(shares, list) or len(shares) != n or not all(type(s) in (int, float) and 0 <= s < 1 for s in shares):
        raise c.refuse("activation_sparsity_pattern", f"{n} numbers from 0 to below 1")
    return [NormalDist().inv_cdf(float(np.float32(s))) if s else -(2.0**100) for s in shares]


def _gemma3n(c: Config) -> dict[str, Any]:
    f = graph(
        c, 32768, kv_heads=2, head_dim=256, tied=True, ropes=False, hidden=16384, act=("hidden_activation", "gelu_pytorch_tanh"),
    )  # fmt: skip
    n = f["n_layers"]
    f["embed_scale"] = math.sqrt(f["dim"])
    put_all(f, norms=NORM_ATTN | NORM_ATTN_POST | NORM_FFN | NORM_FFN_POST, qk_norm=QK_HEAD, attn_scale=1.0)
    c.only("attn_logit_softcapping", None)
    soft_caps(c, f, 0, 30.0)
    kinds = layer_types(c, n, [SLIDING if (i + 1) % 5 else FULL for i in range(n)])
    put_windows(c, f, kinds, 512)
    two_ropes(c, f, kinds, 1_000_000.0, c.get("rope_local_base_freq", 10_000.0))
    shared = put_shared(c, f, kinds, 15)
    if c.flag("attention_bias"):
        f["attn_bias"] = [BIAS_QO + (0 if s else BIAS_K + BIAS_V) for s in shared]
    put_ple(c, f, 256, 262_144)
    f["n_streams"] = c.integer("altup_num_inputs", MAX_STREAMS, 4)
    f["laurel_rank"] = [c.integer("laurel_rank", MAX_WIDTH, 64)] * n
    f["ffn_cutoff"] = _cutoffs(c, n)
    if f["n_streams"] < 2:
        raise c.refuse("altup_num_inputs", "2 or more")
    if c.get("altup_active_idx", 0) != 0:
        raise c.refuse("altup_active_idx", "0")
    if not c.flag("altup_correct_scale", True):
        raise c.refuse("altup_correct_scale", "true")
    c.ignore("altup_coef_clip", "altup_lr_multiplier", "query_pre_attn_scalar")  # of training, or not read
    return f


GEMMA_NEW = {
    "gemma3n_text": Family("Gemma3nForCausalLM", _gemma3n),
    "gemma4_text": Family("Gemma4ForCausalLM", _gemma4, aliases={"num_experts_per_tok": "top_k_experts"}),
    "gemma4_unified_text": Family("Gemma4UnifiedForCausalLM", _gemma4_unified, aliases={"num_experts_per_tok": "top_k_experts"}),
}
