"""More families with experts, each of which differs from one in sparse.py in a few features; see families.py."""

from .config import Config
from .features import (
    GATE_SOFT_HEADS, GATE_SOFT_VALUES, MAX_HEADS, MAX_LAYERS, MAX_WIDTH, NORM_ATTN, NORM_ATTN_POST, NORM_FFN, NORM_FFN_POST, QK_HEAD, SIGMOID, SIGMOID_CHOSEN, SOFTMAX,
    SOFTMAX_CHOSEN,
)  # fmt: skip
from .graph import Family, biases, graph, layer_norms, put_all, put_experts, put_rope
from .sparse import after_first, put_shared, sparse_kinds
from .windows import FULL, SLIDING, layer_types, put_windows


def _windows_turn(c: Config, f: dict, default: list[str], window: int) -> None:
    """The layers with a window turn, the others do not."""
    kinds = layer_types(c, f["n_layers"], default)
    put_windows(c, f, kinds, window)
    f["rope_set"] = [int(kind == SLIDING) for kind in kinds]


def _flint(c: Config) -> dict:
    """Qwen 3 with experts, sinks, sigmoid scores and a shared expert without a switch."""
    f = graph(c, 262144, kv_heads=4, head_dim=128, hidden=6144)
    n = f["n_layers"]
    biases(f, 15 * c.flag("attention_bias"))
    put_all(f, qk_norm=QK_HEAD, attn_sinks=1)
    _windows_turn(c, f, [FULL if i < 2 or i % 4 == 1 or i == n - 1 else SLIDING for i in range(n)], 513)
    dense = c.whole_numbers("mlp_only_layers") if c.get("mlp_only_layers", None) is not None else [0, 1]
    step = c.integer("decoder_sparse_step", MAX_LAYERS, 1)
    sparse = [int(i not in dense and (i + 1) % step == 0) for i in range(n)]
    put_experts(c, f, sparse, c.integer("moe_intermediate_size", MAX_WIDTH, 512), ("num_experts", 256), 6)
    f["router_score"] = [SIGMOID * s for s in sparse]
    f["router_normalize"] = [int(c.flag("norm_topk_prob", True)) * s for s in sparse]
    f["shared_hidden"] = [c.integer("shared_expert_intermediate_size", MAX_WIDTH, 1024) * s for s in sparse]
    return f


def _kolibri(c: Config) -> dict:
    """Four norms; experts are chosen by their logits with a bias, and weighed by the sigmoid of those without."""
    c.values.setdefault("intermediate_size", 1)  # no layer is dense
    f = graph(c, 262144, kv_heads=4, head_dim=128)
    n = f["n_layers"]
    put_all(f, qk_norm=QK_HEAD, norms=NORM_ATTN | NORM_ATTN_POST | NORM_FFN | NORM_FFN_POST)
    _windows_turn(c, f, [SLIDING if (i + 1) % 5 else FULL for i in range(n)], 513)
    put_experts(c, f, [1] * n, c.integer("moe_intermediate_size", MAX_WIDTH, 512), ("num_experts", c.get("num_local_experts", 384)), 6)
    put_all(f, router_score=SIGMOID_CHOSEN, router_select_bias=1, router_normalize=int(c.flag("norm_topk_prob")))
    put_all(f, shared_hidden=c.integer("shared_expert_intermediate_size", MAX_WIDTH, 512))
    return f


def _laguna(c: Config) -> dict:
    """A gate of softplus on attention; heads by layer; the two kinds of layers turn each in its own part."""
    f = graph(c, 131072, kv_heads=8, head_dim=128, hidden=8192, ropes=False)
    n = f["n_layers"]
    if c.get("num_attention_heads_per_layer", None) is not None:
        f["n_heads"] = c.integers("num_attention_heads_per_layer", MAX_HEADS, n)
    biases(f, 15 * c.flag("attention_bias"))
    gating = c.get("gating", True)
    if gating not in (True, "per-head", "per-element"):
        raise c.refuse("gating", "true, 'per-head' or 'per-element'")
    put_all(f, qk_norm=QK_HEAD, attn_gate=GATE_SOFT_VALUES if gating == "per-element" else GATE_SOFT_HEADS)
    kinds = layer_types(c, n, [FULL] * n)
    put_windows(c, f, kinds, 512)
    stated = c.table("rope_parameters")
    usual = {FULL: {"rope_theta": 500000.0, "partial_rotary_factor": 0.5}, SLIDING: {"rope_theta": 10000.0}}
    for i, kind in enumerate((FULL, SLIDING)):
        values = c.inner("rope_parameters", stated.get(kind, usual[kind]), kind)
        values.setdefault("rope_theta", 10000.0)
        put_rope(c, f, i, values, "rope_parameters", f["head_dim"][0], values.pop("partial_rotary_factor", 1.0))
    f["rope_set"] = [1 if kind == FULL else 2 for kind in kinds]
    sparse = sparse_kinds(c, n, [i > 0 for i in range(n)])
    put_experts(c, f, sparse, c.integer("moe_intermediate_size", MAX_WIDTH, 512), ("num_experts", 256), 8)
    f["router_score"], f["router_select_bias"], f["router_normalize"] = [SIGMOID * s for s in sparse], sparse, sparse
    f["router_factor"] = [c.number("moe_routed_scaling_factor", 1.0) if s else 1.0 for s in sparse]
    f["shared_hidden"] = [c.integer("shared_expert_intermediate_size", MAX_WIDTH, 512) * s for s in sparse]
    c.only("moe_router_logit_softcapping", 0, None)
    c.only("moe_apply_router_weight_on_input", False, None)
    return f


def _hy_v3(c: Config) -> dict:
    f = graph(c, 131072, kv_heads=8, head_dim=128, hidden=13312, eps=("rms_norm_eps", 1e-5), theta=11_158_840.0)
    n = f["n_layers"]
    biases(f, 15 * c.flag("attention_bias"))
    put_all(f, qk_norm=QK_HEAD)
    sparse = sparse_kinds(c, n, after_first(c, n, "first_k_dense_replace", 1))
    width = c.integer("moe_intermediate_size", MAX_WIDTH, 1536)
    put_experts(c, f, sparse, width, ("num_experts", 192), 8)
    f["router_score"], f["router_select_bias"], f["router_normalize"] = [SIGMOID * s for s in sparse], sparse, sparse
    f["router_factor"] = [c.number("router_scaling_factor", 2.826) if s else 1.0 for s in sparse]
    put_shared(c, f, sparse, width, "num_shared_experts", 1)
    for key, value in (("qk_norm", True), ("route_norm", True), ("moe_router_use_sigmoid", True), ("moe_router_enable_expert_bias", True)):
        c.only(key, value, None)
    c.ignore("enable_moe_fp32_combine")
    return f


def _cohere2_moe(c: Config) -> dict:
    """Command A+: parallel; layers with a window turn, and so may dense ones. Either kind of norm."""
    rms = c.get("rms_norm_eps", None) is not None
    f = graph(
        c, 8192, head_dim=128, hidden=22528, eps=("rms_norm_eps", 1e-5) if rms else ("layer_norm_eps", 1e-5), tied=True,
    )  # fmt: skip
    n, first = f["n_layers"], c.get("first_k_dense_replace", 0)
    if type(first) is not int or first < 0:
        raise c.refuse("first_k_dense_replace", "a whole number")
    biases(f, 15 * c.flag("attention_bias"))
    put_all(f, parallel=1, norms=NORM_ATTN)
    if rms:
        c.ignore("layer_norm_eps")
    else:
        layer_norms(f, False, True)
    f["logit_scale"] = c.number("logit_scale", 0.0625)
    every = c.integer("sliding_window_pattern", MAX_LAYERS, 4)
    before = c.integer("prefix_dense_sliding_window_pattern", MAX_LAYERS, 1)
    kinds = [SLIDING if ((i + 1) % before if i < first else (i - first + 1) % every) else FULL for i in range(n)]
    _windows_turn(c, f, kinds, 4096)
    sparse = sparse_kinds(c, n, [i >= first for i in range(n)])
    if before == 1:
        f["rope_set"] = [int(turns or not s) for turns, s in zip(f["rope_set"], sparse)]
    width = f["hidden"][0]
    dense = c.integer("prefix_dense_intermediate_size", MAX_WIDTH, width) if not all(sparse) else width
    c.get("prefix_dense_intermediate_size", None)
    put_experts(c, f, sparse, width, ("num_experts", 8), 2)
    f["hidden"] = [width if s else dense for s in sparse]
    sigmoid = c.choice("expert_selection_fn", "softmax", ("softmax", "sigmoid")) == "sigmoid"
    f["router_score"] = [(SIGMOID if sigmoid else SOFTMAX_CHOSEN) * s for s in sparse]
    f["router_normalize"] = [int(sigmoid and c.flag("norm_topk_prob", True)) * s for s in sparse]
    c.flag("norm_topk_prob", True)
    put_shared(c, f, sparse, width, "num_shared_experts", 0)
    if c.choice("shared_expert_combination_strategy", "average", ("average", "sum")) == "average":
        f["router_factor"] = [0.5 if s else 1 for s in f["shared_hidden"]]  # and half of the shared one's weights: layouts.py
    return f


def _aria_text(c: Config) -> dict:
    f = graph(c, 2048, hidden=4096)
    n, width = f["n_layers"], f["hidden"][0]
    biases(f, 15 * c.flag("attention_bias"))
    put_experts(c, f, [1] * n, width, ("num_experts", 8), 2)
    put_all(f, router_score=SOFTMAX_CHOSEN)
    put_shared(c, f, [1] * n, width, "moe_num_shared_experts", 2)
    c.only("hidden_act", "silu", "swish")  # the shared experts follow it, the others do not
    c.ignore("moe_z_loss_coeff", "moe_aux_loss_coeff")
    return f


def _dbrx(c: Config) -> dict:
    """The reference reads the base of RoPE from rope_parameters alone; published files state it in attn_config."""
    attention = Config(f"{c.where}: attn_config", c.table("attn_config"))
    experts = Config(f"{c.where}: ffn_config", c.table("ffn_config"), {"num_experts_per_tok": "moe_top_k"})
    theta = attention.number("rope_theta", 10000.0)
    kv = attention.integer("kv_n_heads", MAX_HEADS, 1)
    c.only("num_key_value_heads", kv)
    own = {"num_key_value_heads": kv, "layer_norm_eps": 1e-5, "intermediate_size": experts.integer("ffn_hidden_size", MAX_WIDTH, 3584)}
    c.values |= {c.name(key): value for key, value in own.items()}
    f = graph(c, 2048, theta=theta, eps=("layer_norm_eps", 1e-5))
    c.only("rope_scaling", None)
    c.only("hidden_act", "silu")
    n = f["n_layers"]
    layer_norms(f, False)
    if attention.get("clip_qkv", None) is not None:
        put_all(f, qkv_clip=attention.number("clip_qkv"))
    put_experts(experts, f, [1] * n, f["hidden"][0], ("moe_num_experts", 4), 1)
    act = experts.inner("ffn_act_fn", experts.get("ffn_act_fn", None)) or {"name": "silu"}
    if act != {"name": "silu"}:
        raise experts.refuse("ffn_act_fn", "{'name': 'silu'}")
    power = experts.get("moe_normalize_expert_weights", 1.0)
    if power not in (None, 1):
        raise experts.refuse("moe_normalize_expert_weights", "1 or null")
    put_all(f, router_score=SOFTMAX, router_normalize=int(power is not None))
    experts.only("hidden_size", f["dim"])
    for part in (attention, experts):
        part.ignore("architectures", "attn_pdrop", "moe_jitter_eps", "moe_loss_weight", "problem_type", "uniform_expert_assignment")
        part.finish()
    return f



SPARSE_MORE = {
    "flint": Family("FlintForCausalLM", _flint),
    "kolibri1": Family("Kolibri1ForCausalLM", _kolibri),
    "laguna": Family("LagunaForCausalLM", _laguna),
    "hy_v3": Family("HYV3ForCausalLM", _hy_v3),
    "cohere2_moe": Family("Cohere2MoeForCausalLM", _cohere2_moe),
    "aria_text": Family("AriaTextForCausalLM", _aria_text, aliases={"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_topk"}),
    "dbrx": Family(
        "DbrxForCausalLM", _dbrx,
        aliases={"hidden_size": "d_model", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers", "max_position_embeddings": "max_seq_len"},
    ),
}  # fmt: skip
