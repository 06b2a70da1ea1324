"""Families with Mamba2 layers; see families.py.

The reference has two forms of Mamba2. Its recurrent form, which is ours, has no limits of the time step; only its chunked
form has. llama.cpp, vLLM and the code that trained the models have none either, so time_step_min is not used.
"""

import math

import numpy as np

from .config import Config
from .features import (
    FACTORS, MAX_HEADS, MAX_LAYERS, MAX_WIDTH, MIX_ATTENTION, MIX_RECURRENT, NORM_ATTN, NORM_FFN, NORM_FIRST, NORM_LAST,
    NORM_NONE, RULE_MAMBA2, SOFTMAX_CHOSEN,
)  # fmt: skip
from .graph import ACTIVATIONS, Family, granite, graph, put_all, put_experts
from .hybrid import only_silu
from .sparse import deepseek, put_shared
from .windows import FULL, LINEAR

MLP, MOE = "mlp", "moe"
OLD = {"mamba": LINEAR, "attention": FULL}  # names of kinds before transformers 5


def _kinds(c: Config, default: list[str] | None, known: tuple[str, ...] = (LINEAR, FULL)) -> list[str]:
    """The kind of each layer, in either spelling."""
    kinds = c.get("layer_types", None) or c.get("layers_block_type", None) or default
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise c.refuse("layer_types", "a list of names")
    kinds = [OLD.get(kind, kind) for kind in kinds]
    if not set(kinds) <= set(known) or len(kinds) > MAX_LAYERS:
        raise c.refuse("layer_types", f"layers of {', '.join(known)}")
    return kinds


def _no_limit(c: Config) -> None:
    """Limits of the time step must be 0 and infinity, which transformers writes as an object."""
    limit = c.get("time_step_limit", None)
    limit = [0, math.inf] if limit is None else limit
    ends = [end.get("__float__") if isinstance(end, dict) else end for end in limit] if isinstance(limit, list) else []
    if len(ends) != 2 or ends[0] != 0 or ends[1] not in (math.inf, "Infinity"):
        raise c.refuse("time_step_limit", "0 to infinity: the recurrent form of the reference has no limits")


def _put_mamba2(c: Config, f: dict, attention: list[int], states: list[int], sizes: dict[str, int]) -> None:
    """Which layers have attention, and which a Mamba2 of these sizes, of which groups are normed after the gate."""
    groups = sizes["k_heads"]
    if sizes["v_heads"] % groups:
        raise c.refuse("mamba_n_heads", f"a multiple of its {groups} groups")
    for key in ("n_heads", "n_kv_heads", "head_dim", "attn_bias", "rope_set"):
        f[key] = [value * h for value, h in zip(f[key], attention)]
    f["mixer"] = [MIX_ATTENTION * a + MIX_RECURRENT * s for a, s in zip(attention, states)]
    for key, value in (sizes | {"recurrence": RULE_MAMBA2, "state_norm": NORM_LAST, "state_skip": 1}).items():
        f[key] = [value * s for s in states]
    f["state_norm_groups"] = [groups if s else 1 for s in states]


def _sizes(c: Config, width: int, state: int = 256) -> dict[str, int]:
    """The sizes of a Mamba2 of this width, as most families state them."""
    heads = c.integer("mamba_n_heads", MAX_HEADS, 128)
    each = c.get("mamba_d_head", "auto")
    if each not in ("auto", None) and (type(each) is not int or each * heads != width) or width % heads:
        raise c.refuse("mamba_d_head", f"'auto', or {width} / {heads}")
    if c.flag("mamba_proj_bias"):
        raise c.refuse("mamba_proj_bias", "false")
    _no_limit(c)
    c.ignore("mamba_chunk_size")
    return {
        "k_heads": c.integer("mamba_n_groups", MAX_HEADS, 1), "k_dim": c.integer("mamba_d_state", 512, state),
        "v_heads": heads, "v_dim": width // heads, "conv_width": c.integer("mamba_d_conv", 16, 4),
        "conv_bias": int(c.flag("mamba_conv_bias", True)),
    }  # fmt: skip


def _has(kinds: list[str], kind: str) -> list[int]:
    return [int(each == kind) for each in kinds]


def _granitemoehybrid(c: Config) -> dict:
    """Granite 4: experts may be missing, and then the shared one is the whole step; so may all Mamba2 layers."""
    turns = c.get("position_embedding_type", None) == "rope"
    f = granite(c, turns)
    for key in ("rope_parameters", "rope_scaling", "rope_theta"):
        c.get(key, None)  # stated, and not used where nothing turns
    n, dim = f["n_layers"], f["dim"]
    if any(f["ffn_bias"]):
        raise c.refuse("mlp_bias", "false")
    kinds = _kinds(c, [LINEAR] * n)
    if len(kinds) != n:
        raise c.refuse("layer_types", f"{n} of {LINEAR!r} or {FULL!r}")
    sizes = _sizes(c, c.integer("mamba_expand", MAX_WIDTH // dim, 2) * dim)
    if c.get("num_local_experts", 8):
        put_experts(c, f, [1] * n, f["hidden"][0], ("num_local_experts", 8), 2)
        put_all(f, router_score=SOFTMAX_CHOSEN)
        put_shared(c, f, [1] * n, 1, "shared_intermediate_size", 1024)
    else:
        put_all(f, hidden=c.integer("shared_intermediate_size", MAX_WIDTH, 1024))
        c.get("num_experts_per_tok", None)
    if LINEAR in kinds:
        only_silu(c, f)
    _put_mamba2(c, f, _has(kinds, FULL), _has(kinds, LINEAR), sizes)
    return f


def _bamba(c: Config) -> dict:
    """The reference turns half of each head, whatever the file says."""
    f = graph(c, 262144, kv_heads=8, hidden=14336, eps=("rms_norm_eps", 1e-5), partial=0.5)
    n, dim, head = f["n_layers"], f["dim"], f["head_dim"][0]
    if len(f["rope.0.inv_freq"]) != head // 4:
        raise c.refuse("partial_rotary_factor", "0.5, or absent")
    f["attn_bias"], f["ffn_bias"] = [15 * c.flag("attention_bias")] * n, [7 * c.flag("mlp_bias")] * n
    full = c.whole_numbers("attn_layer_indices")
    sizes = _sizes(c, c.integer("mamba_expand", MAX_WIDTH // dim, 2) * dim)
    kinds = [FULL if i in full else LINEAR for i in range(n)]
    only_silu(c, f)
    _put_mamba2(c, f, _has(kinds, FULL), _has(kinds, LINEAR), sizes)
    if _kinds(c, kinds) != kinds:
        raise c.refuse("layer_types", "as attn_layer_indices has it")
    c.only("attn_rotary_emb", head // 2, None)
    c.ignore("num_logits_to_keep", "z_loss_coefficient")
    return f


def _multipliers(c: Config, key: str, n: int) -> list[float]:
    """Numbers above 0, so many; null is ones."""
    values = c.get(key, None)
    values = [1.0] * n if values is None else values
    if not isinstance(values, list) or len(values) != n or not all(type(v) in (int, float) and 0 < v < 1e30 for v in values):
        raise c.refuse(key, f"{n} numbers above 0")
    return values


def _falcon_h1(c: Config) -> dict:
    """Attention beside Mamba2. The multipliers of activations are put where they cost nothing: into the scale of the scores, the
    convolution and small matrices; what is left, into matrices, which become f32."""
    f = graph(c, 8192, kv_heads=8, hidden=14336, eps=("rms_norm_eps", 1e-5))
    n, dim = f["n_layers"], f["dim"]
    biased = c.flag("attention_bias")
    f["attn_bias"], f["ffn_bias"] = [15 * biased] * n, [7 * c.flag("mlp_bias")] * n
    width = c.get("mamba_d_ssm", 1024)
    expand = c.integer("mamba_expand", MAX_WIDTH // dim, 2)
    sizes = _sizes(c, expand * dim if width is None else c.integer("mamba_d_ssm", MAX_WIDTH, 1024))
    only_silu(c, f)
    _put_mamba2(c, f, [1] * n, [1] * n, sizes)
    first = c.flag("mamba_norm_before_gate", True)
    put_all(f, state_norm=(NORM_FIRST if first else NORM_LAST) if c.flag("mamba_rms_norm") else NORM_NONE)
    put_all(f, mix_bias=4 * c.flag("projectors_bias"))
    f["embed_scale"], f["logit_scale"] = c.number("embedding_multiplier", 1.0), c.number("lm_head_multiplier", 1.0)
    read, key, mix_in = c.number("attention_in_multiplier", 1.0), c.number("key_multiplier", 1.0), c.number("ssm_in_multiplier", 1.0)
    if biased and read != 1:
        raise c.refuse("attention_in_multiplier", "1 where attention has biases")
    f["attn_scale"] = [scale * read * read * key for scale in f["attn_scale"]]
    gate, down = _multipliers(c, "mlp_multipliers", 2)
    z, x, b, c_, dt = (mix_in * m for m in _multipliers(c, "ssm_multipliers", 5))
    keys = sizes["k_heads"] * sizes["k_dim"]
    channels = np.repeat([c_, b, x], [keys, keys, sizes["v_heads"] * sizes["v_dim"]])
    factors = {
        "gate": gate, "gate_bias": gate, "down": down, "down_bias": down, "mix_gate": z, "mix_decay": dt,
        "o": read * c.number("attention_out_multiplier", 1.0), "o_bias": c.number("attention_out_multiplier", 1.0),
        "mix_out": c.number("ssm_out_multiplier", 1.0), "mix_out_bias": c.number("ssm_out_multiplier", 1.0),
        "mix_conv": np.tile(channels, sizes["conv_width"]),
    }  # fmt: skip
    f[FACTORS] = {part: factor for part, factor in factors.items() if np.any(factor != 1)}
    c.ignore("num_logits_to_keep", "layer_types", "layers_block_type")
    return f


def _mamba2(c: Config) -> dict:
    """Mamba2 alone; its heads stand where others have those of attention. Texts may be of any length."""
    f = graph(c, 1 << 20, head_dim=64, hidden=1, ropes=False, eps=("layer_norm_epsilon", 1e-5))
    n, heads, size = f["n_layers"], f["n_heads"][0], f["head_dim"][0]
    width = c.integer("expand", MAX_WIDTH // f["dim"], 2) * f["dim"]
    if heads * size != width:
        raise c.refuse("num_attention_heads", f"{width} / {size}")
    if c.flag("use_bias") or f["activation"] != "silu":
        raise c.refuse("use_bias", "false, and hidden_act 'silu'")
    _no_limit(c)
    put_all(f, hidden=0, norms=NORM_ATTN)
    _put_mamba2(c, f, [0] * n, [1] * n, {
        "k_heads": c.integer("n_groups", MAX_HEADS, 8), "k_dim": c.integer("state_size", 512, 128), "v_heads": heads, "v_dim": size,
        "conv_width": c.integer("conv_kernel", 16, 4), "conv_bias": int(c.flag("use_conv_bias", True)),
    })  # fmt: skip
    c.ignore("time_step_min", "time_step_max", "time_step_floor", "time_step_rank", "chunk_size", "residual_in_fp32", "rescale_prenorm_residual")
    return f


def _nemotron_h(c: Config) -> dict:
    """A block is a mixer or a feed-forward step, each with its norm; some are experts. time_step_limit is not read."""
    letters, stated = {"M": LINEAR, "E": MOE, "*": FULL, "-": MLP}, c.get("hybrid_override_pattern", None) or ""
    if not isinstance(stated, str) or not set(stated) <= set(letters):
        raise c.refuse("hybrid_override_pattern", "a text of M, E, * and -, a letter for each block")
    pattern = [letters[at] for at in stated]
    kinds = _kinds(c, pattern, (LINEAR, FULL, MLP, MOE))
    c.values[c.name("num_hidden_layers")] = len(kinds)  # what the file says of it is not read
    f = graph(c, 4096, kv_heads=8, head_dim=128, hidden=21504, ropes=False,
              eps=("layer_norm_epsilon", 1e-5), act=("mlp_hidden_act", "relu2"))  # fmt: skip
    for key in ("use_bias", "mamba_proj_bias", "attention_bias"):
        if c.flag(key):
            raise c.refuse(key, "false")
    if c.choice("mamba_hidden_act", "silu", ACTIVATIONS) not in ("silu", "swish"):
        raise c.refuse("mamba_hidden_act", "'silu'")
    dense, sparse, states = _has(kinds, MLP), _has(kinds, MOE), _has(kinds, LINEAR)
    f["hidden"] = [h * d for h, d in zip(f["hidden"], dense)]
    if any(sparse):
        if c.get("moe_latent_size", None) is not None or c.flag("mlp_bias"):
            raise c.refuse("moe_latent_size", "null, and mlp_bias false, where there are experts")
        deepseek(c, f, sparse, 7688, ("n_routed_experts", 8), 2, ("n_shared_experts", 1))
        shared = c.integer("moe_shared_expert_intermediate_size", MAX_WIDTH, 7688)
        f["shared_hidden"] = [shared * s for s in sparse]  # one, whatever n_shared_experts says
    f["norms"] = [NORM_FFN if d or s else NORM_ATTN for d, s in zip(dense, sparse)]
    f["ffn_bias"] = [7 * c.flag("mlp_bias") * d for d in dense]
    put_all(f, ffn_gated=0)
    _put_mamba2(c, f, _has(kinds, FULL), states, {
        "k_heads": c.integer("n_groups", MAX_HEADS, 8), "k_dim": c.integer("ssm_state_size", 512, 128),
        "v_heads": c.integer("mamba_num_heads", MAX_HEADS, 128), "v_dim": c.integer("mamba_head_dim", 512, 64),
        "conv_width": c.integer("conv_kernel", 16, 4), "conv_bias": int(c.flag("use_conv_bias", True)),
    })  # fmt: skip
    c.ignore(
        "expand", "time_step_min", "time_step_max", "time_step_limit", "time_step_floor", "chunk_size", "mamba_ssm_cache_dtype",
        "moe_shared_expert_overlap", "mtp_layers_block_type", "mtp_hybrid_override_pattern", "rescale_prenorm_residual",
        "num_logits_to_keep", "use_mamba_kernels", "sliding_window", "residual_in_fp32", "rope_parameters", "rope_theta",
        "rope_scaling", "partial_rotary_factor", "n_routed_experts", "n_shared_experts", "moe_intermediate_size",
        "moe_shared_expert_intermediate_size", "moe_latent_size", "num_experts_per_tok", "routed_scaling_factor", "n_group",
        "topk_group", "norm_topk_prob",
    )  # fmt: skip
    return f


MAMBA: dict[str, Family] = {
    "granitemoehybrid": Family("GraniteMoeHybridForCausalLM", _granitemoehybrid),
    "bamba": Family("BambaForCausalLM", _bamba),
    "falcon_h1": Family("FalconH1ForCausalLM", _falcon_h1),
    "mamba2": Family("Mamba2ForCausalLM", _mamba2, aliases={"num_attention_heads": "num_heads"}),
    "nemotron_h": Family("NemotronHForCausalLM", _nemotron_h),
}
