"""Families with latent attention (MLA): keys and values of all heads from one compressed row; see families.py.

The published names of sizes: kv_lora_rank is our kv_rank, q_lora_rank q_rank, qk_nope_head_dim nope_dim, v_head_dim
value_dim. The cached row is rank + rotary numbers, our head_dim.
"""

import math
from typing import Any

from .config import Config
from .features import (
    GATE_HEADS, HALVES, MAX_HEAD_DIM, MAX_HEADS, MAX_LAYERS, MAX_WIDTH, MIX_RECURRENT, NORM_ATTN, NORM_FFN, NORM_FFN_POST,
    NORM_FIRST, SOFTMAX,
)  # fmt: skip
from .graph import Family, graph, put_all, put_experts, put_rope
from .hybrid import mixers
from .rope import Parameters
from .newer import scales_by_position
from .sparse import after_first, deepseek, groups, put_shared, sparse_kinds
from .windows import FULL, LINEAR


def _latent(
    c: Config, positions: int, hidden: int, ranks: tuple[int, int | None], dims: tuple[int, int, int | None], **rest: Any
) -> dict:
    """The Llama graph with latent attention. ranks, dims: the family's defaults of kv and q; nope, rotary, value. Both
    inner norms have an epsilon of their own. The scale is that of a whole head, and grows with yarn's mscale_all_dim.
    turns: False: no dims turn."""
    theta, turns = rest.pop("theta", 10000.0), rest.pop("turns", True)
    f = graph(c, positions, kv_heads=1, head_dim=64, hidden=hidden, ropes=False, **rest)
    rank = c.integer("kv_lora_rank", MAX_HEAD_DIM, ranks[0])
    q_rank = c.get("q_lora_rank", ranks[1])
    q_rank = 0 if q_rank is None else c.integer("q_lora_rank", MAX_WIDTH, ranks[1])
    nope = c.integer("qk_nope_head_dim", MAX_HEAD_DIM, dims[0])
    rotary = c.integer("qk_rope_head_dim", MAX_HEAD_DIM, dims[1])
    value = c.integer("v_head_dim", MAX_HEAD_DIM, dims[2] or f["dim"] // f["n_heads"][0])
    c.only("qk_head_dim", nope + rotary)
    put_all(f, kv_rank=rank, q_rank=q_rank, nope_dim=nope, value_dim=value, n_kv_heads=1, head_dim=rank + rotary,
            latent_eps=1e-6, rope_set=int(turns), attn_scale=1 / math.sqrt(nope + rotary))  # fmt: skip
    if not turns:
        return f
    values, where = c.table("rope_scaling"), "rope_scaling"
    if not values:
        values, where = c.table("rope_parameters"), "rope_parameters"
    values.setdefault("rope_theta", c.get("rope_theta", theta))
    if values.get("rope_type", values.get("type")) != "proportional":  # the reference reads it there alone
        values.pop("partial_rotary_factor", None)
    put_rope(c, f, 0, values, where, rotary)
    put_all(f, attn_scale=_mscale(c, values, where) ** 2 / math.sqrt(nope + rotary))
    return f


def _mscale(c: Config, values: dict, where: str) -> float:
    parameters = Parameters(f"{c.where}: {where}", values)
    all_dims, factor = parameters.number("mscale_all_dim", 0), parameters.number("factor", 1)
    return 1 if parameters.scaling() == "default" or factor <= 1 else 0.1 * all_dims * math.log(factor) + 1


def _neighbours(c: Config, f: dict) -> dict:
    """RoPE turns neighbours, or halves where the file says so."""
    return f if c.flag("rope_interleave", True) else f | {HALVES: True}


def _sigmoid_experts(
    c: Config, f: dict, sparse: list[int], width: int, n: int, used: int, group: tuple[int, int], factor: float
) -> None:
    """DeepSeek V3's router, and what its published files say of it. group: the defaults of n_group and topk_group."""
    deepseek(c, f, sparse, width, ("n_routed_experts", n), used, ("n_shared_experts", 1), factor=factor, group=group)
    c.only("scoring_func", "sigmoid", None)
    c.only("topk_method", "noaux_tc", None)
    _published(c)


def _published(c: Config) -> None:
    c.only("moe_layer_freq", 1)
    c.ignore("ep_size", "aux_loss_alpha", "seq_aux", "num_experts_per_token", "moe_router_activation_func")


def _deepseek_v2(c: Config) -> dict:
    """Softmax over all; the weights of the chosen are not divided by their sum, whatever norm_topk_prob says."""
    f = _latent(c, 2048, 11008, (512, 1536), (128, 64, 128))
    n = f["n_layers"]
    f["ffn_bias"] = [7 * c.flag("mlp_bias")] * n
    if any(f["ffn_bias"]):
        raise c.refuse("mlp_bias", "false")
    sparse = [int(s) for s in after_first(c, n, "first_k_dense_replace", 0)]
    width = c.integer("moe_intermediate_size", MAX_WIDTH, 1407)
    put_experts(c, f, sparse, width, ("n_routed_experts", 64), None)
    f["router_score"] = [SOFTMAX] * n
    f["router_factor"] = [c.number("routed_scaling_factor", 1.0) if s else 1.0 for s in sparse]
    put_shared(c, f, sparse, width, "n_shared_experts", 2)
    method = c.choice("topk_method", "greedy", ("greedy", "group_limited_greedy"))
    if method == "greedy":
        c.ignore("n_group", "topk_group")
    else:
        groups(c, f, sparse)
        put_all(f, router_group_best=1)
    c.only("norm_topk_prob", False, None)
    c.only("scoring_func", "softmax")
    _published(c)
    return f


def _deepseek_v3(c: Config) -> dict:
    f = _latent(c, 4096, 18432, (512, 1536), (128, 64, 128))
    sparse = [int(s) for s in after_first(c, f["n_layers"], "first_k_dense_replace", 3)]
    _sigmoid_experts(c, f, sparse, 2048, 256, 8, (8, 4), 2.5)
    return _neighbours(c, f)


def _axk1(c: Config) -> dict:
    """DeepSeek V3 with a norm after the experts. Older files state the first dense layers, and which further ones are."""
    f = _latent(c, 32768, 18432, (512, 1536), (128, 64, 128))
    n, every = f["n_layers"], c.integer("moe_layer_freq", MAX_LAYERS, 1)
    sparse = sparse_kinds(c, n, [after and i % every == 0 for i, after in enumerate(after_first(c, n, "first_k_dense_replace", 1))])
    c.values.pop("moe_layer_freq", None)
    _sigmoid_experts(c, f, sparse, 2048, 192, 8, (8, 4), 2.5)
    f["norms"] = [NORM_ATTN | NORM_FFN | NORM_FFN_POST * s for s in sparse]
    c.only("head_dim", c.get("qk_rope_head_dim", 64), None)
    return _neighbours(c, f)


def _glm4_moe_lite(c: Config) -> dict:
    f = _latent(c, 202752, 10240, (512, 768), (192, 64, 256), eps=("rms_norm_eps", 1e-5))
    n = f["n_layers"]
    first = c.get("first_k_dense_replace", 1)
    sparse = sparse_kinds(c, n, [i >= first for i in range(n)] if type(first) is int else [i > 0 for i in range(n)])
    _sigmoid_experts(c, f, sparse, 1536, 64, 4, (1, 1), 1.8)
    return _neighbours(c, f)


def _mistral4(c: Config) -> dict:
    """Softmax over all, of groups the best; queries grow with their position."""
    if c.get("rope_parameters", None) is None and not c.get("rope_scaling", None):
        c.values["rope_parameters"] = {
            "rope_type": "yarn", "rope_theta": 10000.0, "factor": 128.0, "original_max_position_embeddings": 8192,
            "beta_fast": 32.0, "beta_slow": 1.0, "mscale_all_dim": 1.0, "mscale": 1.0, "llama_4_scaling_beta": 0.1,
        }  # fmt: skip
    put_scales = scales_by_position(c)
    whole = c.integer("qk_nope_head_dim", MAX_HEAD_DIM, 64) + c.integer("qk_rope_head_dim", MAX_HEAD_DIM, 64)
    partial = c.get("partial_rotary_factor", None)
    if partial is not None and (type(partial) not in (int, float) or not math.isfinite(partial) or int(whole * partial) != c.get("qk_rope_head_dim", 64)):
        raise c.refuse("partial_rotary_factor", "qk_rope_head_dim / (qk_nope_head_dim + qk_rope_head_dim)")
    f = _latent(c, 1048576, 12288, (256, 1024), (64, 64, 128))
    put_scales(f)
    sparse = [int(s) for s in after_first(c, f["n_layers"], "first_k_dense_replace", 0)]
    width = c.integer("moe_intermediate_size", MAX_WIDTH, 2048)
    put_experts(c, f, sparse, width, ("n_routed_experts", 128), 4)
    f["router_score"] = [SOFTMAX] * f["n_layers"]
    f["router_normalize"] = [int(c.flag("norm_topk_prob", True)) * s for s in sparse]
    f["router_factor"] = [c.number("routed_scaling_factor", 1.0) if s else 1.0 for s in sparse]
    put_shared(c, f, sparse, width, "n_shared_experts", 1)
    groups(c, f, sparse)
    return _neighbours(c, f)


def _youtu(c: Config) -> dict:
    f = _latent(c, 131072, 6144, (512, 1536), (128, 64, 128), tied=True)
    c.ignore("embedding_initializer_range", "mlp_bias")
    return _neighbours(c, f)


def _minicpm3(c: Config) -> dict:
    f = _latent(c, 32768, 6400, (256, 768), (64, 32, None), eps=("rms_norm_eps", 1e-5), tied=True)
    if c.flag("mlp_bias"):
        raise c.refuse("mlp_bias", "false")
    f["embed_scale"] = c.number("scale_emb", 12)
    depth, base = c.get("scale_depth", 1.4), c.get("dim_model_base", 256)
    f["residual_scale"] = 1.0 if depth is None else c.number("scale_depth", 1.4) / math.sqrt(f["n_layers"])
    f["logit_scale"] = 1.0 if base is None else c.number("dim_model_base", 256) / f["dim"]
    return f


def _kimi_kinds(c: Config, n: int) -> list[str]:
    """The kinds of the layers unless layer_types says them. Published files state these, and the sizes of the delta nets,
    in an object of their own."""
    stated = c.table("linear_attn_config")
    for theirs, ours in (("head_dim", "linear_head_dim"), ("num_heads", "linear_num_heads"),
                         ("short_conv_kernel_size", "linear_conv_kernel_dim")):  # fmt: skip
        if theirs in stated:
            c.values[ours] = stated[theirs]
    kinds, default = {}, [FULL if i and i % 4 == 0 else LINEAR for i in range(n)]
    for key, kind in (("full_attn_layers", FULL), ("kda_layers", LINEAR)):
        layers = stated.get(key, [])
        if not isinstance(layers, list) or not all(type(i) is int and 1 <= i <= n for i in layers):
            raise c.refuse("linear_attn_config", f"an object whose {key} are numbers of layers")
        kinds |= {i - 1: kind for i in layers}
    if kinds and sorted(kinds) != list(range(n)):
        raise c.refuse("linear_attn_config", "an object whose full_attn_layers and kda_layers are all layers")
    return [kinds[i] for i in range(n)] if kinds else default


def _kimi_linear(c: Config) -> dict:
    """Delta nets with a decay for each channel, and latent attention, which does not turn."""
    f = _latent(c, 1048576, 9216, (512, None), (128, 64, 128), eps=("rms_norm_eps", 1e-5), turns=False)
    n = f["n_layers"]
    has = mixers(c, f, _kimi_kinds(c, n), LINEAR, MIX_RECURRENT)
    heads, d = c.integer("linear_num_heads", MAX_HEADS, 32), c.integer("linear_head_dim", 512, 128)
    _delta_nets(f, has, heads, d, c.integer("linear_conv_kernel_dim", 16, 4), d)
    sparse = sparse_kinds(c, n, after_first(c, n, "first_k_dense_replace", 1))
    _sigmoid_experts(c, f, sparse, 1024, 256, 8, (1, 1), 2.446)
    c.only("mla_use_nope", True)
    c.ignore("use_grouped_topk", "rope_theta", "rope_scaling", "rope_parameters")
    return f


def _delta_nets(f: dict, has: list[int], heads: int, head_dim: int, width: int, rank: int) -> None:
    """Those layers have delta nets in the place of attention, which decay by channels; the gate is a sigmoid. rank: of the
    row by way of which decay and gate are made, or 0."""
    for key in ("kv_rank", "q_rank", "nope_dim", "value_dim", "latent_eps", "rope_set"):
        f[key] = [value * (1 - h) for value, h in zip(f[key], has)]
    sizes = {"k_heads": heads, "v_heads": heads, "k_dim": head_dim, "v_dim": head_dim, "conv_width": width,
             "state_norm": NORM_FIRST, "state_gate": 1, "state_decay": 1, "decay_rank": rank, "gate_rank": rank}  # fmt: skip
    for key, value in sizes.items():
        f[key] = [value * h for h in has]


def _bailing_hybrid(c: Config) -> dict:
    """Ling 3.0: delta nets with a decay for each channel, which may be bounded; the last layer of a group has latent
    attention with a gate for each head."""
    f = _latent(c, 262144, 6144, (512, None), (128, 64, 128), theta=6_000_000.0)
    n, every = f["n_layers"], c.integer("layer_group_size", MAX_LAYERS, 6)
    heads = f["n_heads"][0]
    has = mixers(c, f, [LINEAR if (i + 1) % every else FULL for i in range(n)], LINEAR, MIX_RECURRENT)
    d = c.integer("linear_head_dim", 512, c.integer("head_dim", 512, 128))  # transformers writes its rotary dims as head_dim
    width = c.integer("linear_conv_kernel_dim", 16, c.integer("short_conv_kernel_size", 16, 4))
    _delta_nets(f, has, c.integer("linear_num_heads", MAX_HEADS, heads), d, width, 0)
    f["attn_gate"] = [GATE_HEADS * (1 - h) for h in has]
    low = c.get("kda_lower_bound", -5.0)
    if type(low) not in (int, float) or not -1e30 < low < 0:
        raise c.refuse("kda_lower_bound", "a number below 0")
    f["decay_floor"] = [float(low) * h if c.flag("kda_safe_gate", True) else 0.0 for h in has]
    sparse = sparse_kinds(c, n, after_first(c, n, "first_k_dense_replace", 2))
    _sigmoid_experts(c, f, sparse, 768, 512, 8, (8, 4), 2.5)
    c.ignore("mtp_loss_scaling_factor")
    c.only("rope_interleave", True, None)
    return f


KIMI_NAMES = {
    "max_position_embeddings": "model_max_length", "norm_topk_prob": "moe_renormalize", "n_group": "num_expert_group",
    "n_routed_experts": "num_experts", "num_experts_per_tok": "num_experts_per_token", "n_shared_experts": "num_shared_experts",
}  # fmt: skip
LATENT = {
    "deepseek_v2": Family("DeepseekV2ForCausalLM", _deepseek_v2),
    "deepseek_v3": Family("DeepseekV3ForCausalLM", _deepseek_v3),
    "glm4_moe_lite": Family("Glm4MoeLiteForCausalLM", _glm4_moe_lite),
    "mistral4": Family("Mistral4ForCausalLM", _mistral4),
    "axk1": Family("AXK1ForCausalLM", _axk1),
    "youtu": Family("YoutuForCausalLM", _youtu),
    "minicpm3": Family("MiniCPM3ForCausalLM", _minicpm3),
    "kimi_linear": Family("KimiLinearForCausalLM", _kimi_linear, aliases=KIMI_NAMES),
    "bailing_hybrid": Family("BailingHybridForCausalLM", _bailing_hybrid, aliases=KIMI_NAMES),
}
