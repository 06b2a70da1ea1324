"""Families of gated delta nets beside attention; see families.py."""

from .config import Config
from .features import (
    GATE_VALUES, MAX_HEADS, MAX_LAYERS, MAX_WIDTH, MIX_RECURRENT, NORM_ATTN, NORM_ATTN_POST, NORM_FFN, NORM_FFN_POST,
    NORM_FIRST, QK_FULL, QK_HEAD,
)  # fmt: skip
from .graph import Family, graph, put_all, put_experts, put_rope, sparse_layers
from .hybrid import mixers
from .windows import FULL, LINEAR


def _delta_net(
    c: Config, f: dict, has: list[int], k_heads: int = 16, v_heads: int = 32, k_dim: int = 128, v_dim: int = 128
) -> None:
    """The sizes of the gated delta nets of the layers that have one, and their defaults."""
    sizes = {
        "k_heads": c.integer("linear_num_key_heads", MAX_HEADS, k_heads),
        "k_dim": c.integer("linear_key_head_dim", 512, k_dim),
        "v_heads": c.integer("linear_num_value_heads", MAX_HEADS, v_heads),
        "v_dim": c.integer("linear_value_head_dim", 512, v_dim),
        "conv_width": c.integer("linear_conv_kernel_dim", 16, 4), "state_norm": NORM_FIRST,
    }  # fmt: skip
    for key, value in sizes.items():
        f[key] = [value * h for h in has]


def _without(f: dict, has: list[int], **values: int) -> None:
    """Of attention, in the layers that have it."""
    for key, value in values.items():
        f[key] = [value * (1 - h) for h in has]


def _qwen3_mixers(c: Config, f: dict) -> dict:
    """Delta nets, and every fourth layer gated attention with norms of q and k, unless layer_types says which."""
    n, every = f["n_layers"], c.integer("full_attention_interval", MAX_LAYERS, 4)
    has = mixers(c, f, [LINEAR if (i + 1) % every else FULL for i in range(n)], LINEAR, MIX_RECURRENT)
    if c.flag("attention_bias"):  # half of q's would be the gate's
        raise c.refuse("attention_bias", "false")
    _without(f, has, attn_gate=GATE_VALUES, qk_norm=QK_HEAD)
    _delta_net(c, f, has)
    return f


def _switched_expert(c: Config, f: dict, sparse: list[int]) -> None:
    """The expert that every token uses, as far as a number of the token says."""
    shared = c.integer("shared_expert_intermediate_size", MAX_WIDTH, 512)
    f["shared_hidden"], f["shared_switch"] = [shared * s for s in sparse], sparse


def _qwen3_next(c: Config) -> dict:
    f = graph(c, 32768, kv_heads=2, head_dim=256, hidden=5632, partial=0.25)
    _switched_expert(c, f, sparse_layers(c, f, 512, 512, 10))
    return _qwen3_mixers(c, f)


def _text_positions(c: Config) -> None:
    """RoPE of three coordinates: in a text all are the position, so it does not matter which dimension turns by which.
    Published files state switches of what the reference always does."""
    for name in ("rope_parameters", "rope_scaling"):
        values = c.table(name)
        if values:
            c.values[c.name(name)] = {k: v for k, v in values.items() if k not in ("mrope_section", "mrope_interleaved")}
    c.only("attn_output_gate", True)
    c.only("mlp_only_layers", [], None)
    c.ignore("mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings")


def _qwen3_5(c: Config) -> dict:
    _text_positions(c)
    return _qwen3_mixers(c, graph(c, 32768, kv_heads=4, head_dim=256, hidden=12288, partial=0.25))


def _qwen3_5_moe(c: Config) -> dict:
    """The weights of the chosen experts are divided by their sum, always."""
    _text_positions(c)
    c.values.setdefault(c.name("intermediate_size"), 1)  # no layer is dense
    f = graph(c, 32768, kv_heads=2, head_dim=256, partial=0.25)
    sparse = [1] * f["n_layers"]
    put_experts(c, f, sparse, c.integer("moe_intermediate_size", MAX_WIDTH, 512), ("num_experts", 256), 8)
    put_all(f, router_normalize=1)
    _switched_expert(c, f, sparse)
    c.only("norm_topk_prob", True)
    return _qwen3_mixers(c, f)


def _olmo_hybrid(c: Config) -> dict:
    """OLMo 3's attention, with its norms after each step, beside delta nets, with norms before; beta is up to 2. Models
    whose rope_theta is null do not turn."""
    new, old = c.table("rope_parameters"), c.table("rope_scaling")
    f = graph(c, 65536, hidden=11008, ropes=False)
    heads, values = f["n_heads"][0], old or new
    values.setdefault("rope_theta", c.get("rope_theta", 10000.0))
    turns = values["rope_theta"] is not None
    if turns:
        put_rope(c, f, 0, values, "rope_parameters", f["head_dim"][0])
    default = [FULL if i % 4 == 3 else LINEAR for i in range(f["n_layers"])]
    default[-1] = default[-1] if FULL in default else FULL
    has = mixers(c, f, default, LINEAR, MIX_RECURRENT)
    k_heads = c.integer("linear_num_key_heads", MAX_HEADS, heads)
    k_dim = c.integer("linear_key_head_dim", 512, int(0.75 * f["dim"] / k_heads))
    _delta_net(c, f, has, k_heads, heads, k_dim, 2 * k_dim)
    _without(f, has, rope_set=int(turns), qk_norm=QK_FULL, attn_bias=15 * c.flag("attention_bias"))
    f["norms"] = [NORM_ATTN | NORM_FFN if h else NORM_ATTN_POST | NORM_FFN_POST for h in has]
    f["beta_scale"] = [2.0 if h and c.flag("linear_allow_neg_eigval", True) else 1.0 for h in has]
    f["state_norm_eps"] = [1e-5 * h for h in has]
    c.ignore("linear_a_log_min", "linear_a_log_max", "linear_dt_min", "linear_dt_max", "linear_dt_init_floor")
    return f


DELTA = {
    "qwen3_next": Family("Qwen3NextForCausalLM", _qwen3_next),
    "qwen3_5_text": Family("Qwen3_5ForCausalLM", _qwen3_5),
    "qwen3_5_moe_text": Family("Qwen3_5MoeForCausalLM", _qwen3_5_moe),
    "olmo_hybrid": Family("OlmoHybridForCausalLM", _olmo_hybrid),
}
