"""Families whose layers differ in their mixer: attention in some, a state or a short convolution in the others; see
families.py."""

from .config import Config
from .features import (
    MAX_HEADS, MAX_LAYERS, MAX_WIDTH, MIX_ATTENTION, MIX_CONVOLUTION, MIX_RECURRENT, NORM_ATTN, NORM_FFN,
    NORM_FIRST, NORM_LAST, QK_HEAD, RULE_MAMBA2, in_range,
)  # fmt: skip
from .graph import ACTIVATIONS, Family, graph, put_all
from .windows import FULL, layer_types


def mixers(c: Config, f: dict, default: list[str], name: str, mixer: int) -> list[int]:
    """`layer_types`: the layers of this name have the mixer, and no heads; the others attention. Which have it."""
    kinds = layer_types(c, f["n_layers"], default, (FULL, name))
    has = [int(kind == name) for kind in kinds]
    f["mixer"] = [mixer if h else MIX_ATTENTION for h in has]
    for key in ("n_heads", "n_kv_heads", "head_dim"):
        f[key] = [0 if h else n for h, n in zip(has, f[key])]
    return has


def _lfm2(c: Config) -> dict:
    f = graph(c, 128000, kv_heads=8, theta=1e6, eps=("norm_eps", 1e-5), act=("hidden_act", "silu"), tied=True,
              hidden=c.integer("block_ff_dim", MAX_WIDTH, 12288))  # fmt: skip
    n, hidden = f["n_layers"], f["hidden"][0]
    if c.flag("block_auto_adjust_ff_dim", True):
        of = c.integer("block_multiple_of", MAX_WIDTH, 256)
        hidden = int(c.number("block_ffn_dim_multiplier", 1.0) * int(2 * hidden / 3))
        hidden = in_range((hidden + of - 1) // of * of, 1, MAX_WIDTH, f"{c.where}: the width of the feed-forward step")
    else:
        c.get("block_multiple_of", None), c.get("block_ffn_dim_multiplier", None)
    full = c.whole_numbers("full_attn_idxs") if c.get("full_attn_idxs", None) is not None else list(range(n))
    has = mixers(c, f, [FULL if i in full else "conv" for i in range(n)], "conv", MIX_CONVOLUTION)
    put_all(f, hidden=hidden, qk_norm=QK_HEAD)
    width, bias = c.integer("conv_L_cache", 16, 3), c.flag("conv_bias")
    f["conv_width"], f["conv_bias"] = [width * h for h in has], [int(bias) * h for h in has]
    f["mix_bias"] = [5 * bias * h for h in has]
    return f


def _nemotron_h(c: Config) -> dict:
    """A block is a mixer or a feed-forward step, each with its norm."""
    letters = {"M": "linear_attention", "E": "moe", "*": FULL, "-": "mlp"}
    old = {"mamba": "linear_attention", "attention": FULL}
    pattern = [letters.get(at, at) for at in str(c.get("hybrid_override_pattern", None) or "")]
    kinds = c.get("layer_types", None) or c.get("layers_block_type", None) or pattern
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise c.refuse("layer_types", "a list of names")
    kinds = [old.get(kind, kind) for kind in kinds]
    c.values.setdefault("num_hidden_layers", len(kinds))
    f = graph(c, 4096, kv_heads=8, head_dim=128, hidden=21504, ropes=False,
              eps=("layer_norm_epsilon", 1e-5), act=("mlp_hidden_act", "relu2"))  # fmt: skip
    n = f["n_layers"]
    if len(kinds) != n or not set(kinds) <= {"linear_attention", FULL, "mlp"}:
        raise c.refuse("layer_types", "layers of linear_attention, full_attention and mlp")
    for key in ("use_bias", "mamba_proj_bias", "attention_bias", "residual_in_fp32"):
        if c.flag(key):
            raise c.refuse(key, "false")
    has = {kind: [int(k == kind) for k in kinds] for kind in ("linear_attention", FULL, "mlp")}
    states = has["linear_attention"]
    for key in ("n_heads", "n_kv_heads", "head_dim"):
        f[key] = [v * h for v, h in zip(f[key], has[FULL])]
    f["mixer"] = [MIX_ATTENTION * a + MIX_RECURRENT * r for a, r in zip(has[FULL], states)]
    f["hidden"] = [v * h for v, h in zip(f["hidden"], has["mlp"])]
    f["norms"] = [NORM_FFN if h else NORM_ATTN for h in has["mlp"]]
    f["ffn_bias"] = [7 * c.flag("mlp_bias") * h for h in has["mlp"]]
    put_all(f, ffn_gated=0)
    groups = c.integer("n_groups", MAX_HEADS, 8)
    if c.choice("mamba_hidden_act", "silu", ACTIVATIONS) not in ("silu", "swish"):
        raise c.refuse("mamba_hidden_act", "'silu'")
    sizes = {
        "recurrence": RULE_MAMBA2, "k_heads": groups, "k_dim": c.integer("ssm_state_size", 512, 128),
        "v_heads": c.integer("mamba_num_heads", MAX_HEADS, 128), "v_dim": c.integer("mamba_head_dim", 512, 64),
        "conv_width": c.integer("conv_kernel", 16, 4), "conv_bias": int(c.flag("use_conv_bias", True)),
        "state_norm": NORM_LAST, "state_skip": 1,
    }  # fmt: skip
    for key, value in sizes.items():
        f[key] = [value * h for h in states]
    f["state_norm_groups"] = [groups if h else 1 for h in states]
    put_all(f, dt_low=c.number("time_step_min", 0.001) if any(states) else 0)
    for key in ("expand", "time_step_max", "time_step_limit", "time_step_floor", "chunk_size", "mamba_ssm_cache_dtype",
                "n_routed_experts", "n_shared_experts", "moe_intermediate_size", "moe_shared_expert_intermediate_size",
                "moe_latent_size", "moe_shared_expert_overlap", "num_experts_per_tok", "routed_scaling_factor", "n_group",
                "topk_group", "norm_topk_prob", "num_nextn_predict_layers", "mtp_layers_block_type", "hidden_dropout",
                "mtp_hybrid_override_pattern", "rescale_prenorm_residual", "num_logits_to_keep", "use_mamba_kernels",
                "sliding_window", "output_router_logits", "layer_types", "layers_block_type", "rope_parameters", "rope_theta",
                "rope_scaling"):  # fmt: skip
        c.get(key, None)  # of training, of kernels, or of layers with experts, which are refused above
    return f


HYBRID = {
    "lfm2": Family("Lfm2ForCausalLM", _lfm2),
    "nemotron_h": Family("NemotronHForCausalLM", _nemotron_h),
}
