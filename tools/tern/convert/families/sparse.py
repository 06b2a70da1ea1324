"""Families with experts of 2024 and later; see families.py.

Most take DeepSeek's router: sigmoid scores, a bias for the choice alone, experts that every token uses beside the chosen.
"""

from .config import Config
from .features import (
    GATE_VALUES, MAX_LAYERS, MAX_WIDTH, NORM_ATTN_POST, NORM_FFN_POST, QK_FULL, QK_HEAD, SIGMOID, SOFTMAX_CHOSEN, SPARSEMIXER,
)  # fmt: skip
from .graph import Family, biases, granite, granite_swa, graph, layer_norms, put_all, put_experts, turning, two_ropes
from .newer import hunyuan
from .windows import FULL, SLIDING, exaone_windows, layer_types, put_windows

MAX_EXPERTS = 1024


def sparse_kinds(c: Config, n: int, default: list[bool]) -> list[int]:
    """`mlp_layer_types`: which layers have experts."""
    kinds = c.get("mlp_layer_types", None)
    kinds = ["sparse" if sparse else "dense" for sparse in default] if kinds is None else kinds
    if not isinstance(kinds, list) or len(kinds) != n or not all(k in ("dense", "sparse") for k in kinds):
        raise c.refuse("mlp_layer_types", f"{n} of 'dense' or 'sparse'")
    return [int(kind == "sparse") for kind in kinds]


def after_first(c: Config, n: int, key: str, default: int) -> list[bool]:
    """The first layers, so many, are dense."""
    first = c.get(key, default)
    if type(first) is not int or first < 0:
        raise c.refuse(key, "a whole number")
    return [i >= first for i in range(n)]


def put_shared(c: Config, f: dict, sparse: list[int], width: int, key: str, default: int) -> None:
    """Experts that every token uses, so many, are one of their width together."""
    n = c.get(key, default)
    if type(n) is not int or not 0 <= n * width <= MAX_WIDTH:
        raise c.refuse(key, "a whole number")
    f["shared_hidden"] = [n * width * s for s in sparse]


def deepseek(
    c: Config, f: dict, sparse: list[int], width: int, experts: tuple[str, int | None], used: int | None,
    shared: tuple[str, int], factor: float = 1.0, normalize: bool = True, group: tuple[int, int] = (1, 1),
) -> None:
    """Sigmoid scores; a bias for the choice; of groups of experts the best are chosen first; shared experts."""
    width = c.integer("moe_intermediate_size", MAX_WIDTH, width)
    put_experts(c, f, sparse, width, experts, used)
    f["router_score"] = [SIGMOID * s for s in sparse]
    f["router_select_bias"] = sparse
    f["router_normalize"] = [int(c.flag("norm_topk_prob", normalize)) * s for s in sparse]
    f["router_factor"] = [c.number("routed_scaling_factor", factor) if s else 1.0 for s in sparse]
    put_shared(c, f, sparse, width, *shared)
    groups(c, f, sparse, group)


def groups(c: Config, f: dict, sparse: list[int], default: tuple[int, int] = (1, 1)) -> None:
    groups, used = c.integer("n_group", MAX_EXPERTS, default[0]), c.integer("topk_group", MAX_EXPERTS, default[1])
    if groups != 1 and (used > groups or max(f["n_experts"]) % groups):
        raise c.refuse("n_group", f"a divisor of {max(f['n_experts'])}, not less than topk_group")
    if used < groups:
        f["router_groups"], f["router_groups_used"] = [groups * s or 1 for s in sparse], [used * s or 1 for s in sparse]


def _granitemoe(c: Config) -> dict:
    f = granite(c)
    n = f["n_layers"]
    if any(f["ffn_bias"]):
        raise c.refuse("mlp_bias", "false")
    put_experts(c, f, [1] * n, f["hidden"][0], ("num_local_experts", 8), 2)
    put_all(f, router_score=SOFTMAX_CHOSEN)
    return f


def _granitemoeshared(c: Config) -> dict:
    f = _granitemoe(c)
    put_shared(c, f, [1] * f["n_layers"], 1, "shared_intermediate_size", 0)
    return f


def _solar_open(c: Config) -> dict:
    c.values.setdefault("intermediate_size", 1)  # no layer is dense
    f = graph(c, 131072, kv_heads=8, head_dim=128, theta=1_000_000.0, eps=("rms_norm_eps", 1e-5))
    biases(f, 7 * c.flag("attention_bias"))
    deepseek(c, f, [1] * f["n_layers"], 1280, ("n_routed_experts", 128), 8, ("n_shared_experts", 1))
    c.ignore("first_k_dense_replace", "use_qk_norm")
    return f


def _flex_olmo(c: Config) -> dict:
    f = graph(c, 4096, hidden=11008, theta=500_000.0)
    biases(f, 15 * c.flag("attention_bias"))
    put_experts(c, f, [1] * f["n_layers"], f["hidden"][0], ("num_experts", 7), 5)
    put_all(f, norms=NORM_ATTN_POST | NORM_FFN_POST, qk_norm=QK_FULL, router_normalize=int(c.flag("norm_topk_prob")))
    return f


def _mellum(c: Config) -> dict:
    """Qwen 3 with experts, of whose layers some have a window and RoPE of their own."""
    f = graph(c, 131072, kv_heads=4, head_dim=128, hidden=7168, ropes=False)
    n = f["n_layers"]
    biases(f, 15 * c.flag("attention_bias"))
    put_all(f, qk_norm=QK_HEAD)
    kinds = layer_types(c, n, [FULL] * n)
    put_windows(c, f, kinds, 1024)
    two_ropes(c, f, kinds, 500_000.0, 10_000.0)
    sparse = sparse_kinds(c, n, [True] * n)
    put_experts(c, f, sparse, c.integer("moe_intermediate_size", MAX_WIDTH, 896), ("num_experts", 64), 8)
    f["router_normalize"] = [int(c.flag("norm_topk_prob", True)) * s for s in sparse]
    return f


def _ernie_moe(c: Config) -> dict:
    """Softmax over all; a bias for the choice alone. Experts have no biases, so a file with some is refused."""
    f = graph(c, 131072, kv_heads=4, hidden=12288, eps=("rms_norm_eps", 1e-5), theta=500000.0, tied=True)
    n, end = f["n_layers"], c.get("moe_layer_end_index", -1)
    if c.flag("use_bias"):
        raise c.refuse("use_bias", "false")
    step, after = c.integer("moe_layer_interval", MAX_LAYERS, 1), after_first(c, n, "moe_layer_start_index", 1)
    if type(end) is not int:
        raise c.refuse("moe_layer_end_index", "a whole number")
    end = n - 1 if end == -1 else end
    sparse = [int((i + 1) % step == 0 and after[i] and i <= end) for i in range(n)]
    width = c.integer("moe_intermediate_size", MAX_WIDTH, 1536)
    put_experts(c, f, sparse, width, ("num_experts", 64), 6)
    f["router_normalize"], f["router_select_bias"] = sparse, sparse
    put_shared(c, f, sparse, width, "moe_num_shared_experts", 2)
    c.number("moe_norm_min", 1e-12)  # below every sum of weights
    return f


def _glm4_moe(c: Config) -> dict:
    f = graph(c, 131072, kv_heads=8, hidden=10944, eps=("rms_norm_eps", 1e-5), partial=0.5)
    biases(f, 7 * c.flag("attention_bias"))
    if c.flag("use_qk_norm"):
        put_all(f, qk_norm=QK_HEAD)
    sparse = [int(s) for s in after_first(c, f["n_layers"], "first_k_dense_replace", 1)]
    deepseek(c, f, sparse, 1408, ("n_routed_experts", 128), 8, ("n_shared_experts", 1))
    return f


def _dots1(c: Config) -> dict:
    f = graph(c, 2048, kv_heads=c.get("num_key_value_heads", 32), hidden=10944)
    n, full = f["n_layers"], c.get("max_window_layers", 62)
    biases(f, 15 * c.flag("attention_bias"))
    put_all(f, qk_norm=QK_HEAD)
    if type(full) is not int:
        raise c.refuse("max_window_layers", "a whole number")
    windowed = c.get("sliding_window", 4096) is not None
    kinds = layer_types(c, n, [SLIDING if windowed and i >= full else FULL for i in range(n)])
    if SLIDING in kinds and not windowed:
        raise c.refuse("layer_types", f"{FULL!r} for all layers, as there is no sliding_window")
    put_windows(c, f, kinds, 4096)
    sparse = [int(s) for s in after_first(c, n, "first_k_dense_replace", 0)]
    deepseek(c, f, sparse, 1408, ("n_routed_experts", None), None, ("n_shared_experts", 0), normalize=False)
    return f


def _exaone_moe(c: Config) -> dict:
    """Where some layers have a window, the others do not turn."""
    f = graph(c, 2048, kv_heads=32, hidden=16384, eps=("rms_norm_eps", 1e-5))
    n = f["n_layers"]
    put_all(f, qk_norm=QK_HEAD)
    exaone_windows(c, f)
    sparse = sparse_kinds(c, n, after_first(c, n, "first_k_dense_replace", 1))
    deepseek(c, f, sparse, 1024, ("num_experts", 64), 8, ("num_shared_experts", 1), factor=2.5)
    return f


def _phimoe(c: Config) -> dict:
    """LayerNorm, and SparseMixer as its router. Factors of cos and sin are stated for short and for long texts."""
    for name in ("rope_parameters", "rope_scaling"):
        values = c.table(name)
        if values.get("rope_type", values.get("type", "default")) != "default":
            short, long = values.pop("short_mscale", None), values.pop("long_mscale", None)
            if short != long or type(short) not in (int, float):
                raise c.refuse(name, "with the same short_mscale and long_mscale")
            c.values[c.name(name)] = values | {"attention_factor": short}
    f = graph(c, 131072, kv_heads=8, hidden=6400, eps=("rms_norm_eps", 1e-5), theta=1_000_000.0)
    n, biased = f["n_layers"], c.flag("attention_bias")
    biases(f, 15 * biased)
    layer_norms(f, True)
    window = c.get("sliding_window", None)
    if window is not None:
        put_windows(c, f, [SLIDING] * n, window)
    f["head_bias"] = int(c.flag("lm_head_bias"))
    put_experts(c, f, [1] * n, f["hidden"][0], ("num_local_experts", 16), 2)
    c.only("num_experts_per_tok", 2, None)  # the reference takes two, whatever is stated
    put_all(f, router_score=SPARSEMIXER, router_jitter=c.number("router_jitter_noise", 0.01))
    c.ignore("input_jitter_noise")
    return f


def _hunyuan_moe(c: Config) -> dict:
    """A list of a value for each layer is understood where all are the same."""
    f = hunyuan(c)
    n, values = f["n_layers"], {}
    for key, default in (("num_experts", 1), ("moe_topk", 1), ("num_shared_expert", 1), ("moe_intermediate_size", f["hidden"][0])):
        value = c.get(key, default)
        value = default if value is None else value
        value = value[0] if isinstance(value, list) and value and all(v == value[0] for v in value) else value
        if type(value) is not int or not 1 <= value <= MAX_WIDTH:
            raise c.refuse(key, "a whole number, the same for all layers")
        values[key] = value
    width = f["hidden"][0]
    if values["moe_intermediate_size"] != width:
        raise c.refuse("moe_intermediate_size", f"{width}, as intermediate_size")
    if values["num_shared_expert"] != 1:
        raise c.refuse("num_shared_expert", "1")
    if values["num_experts"] < values["moe_topk"]:
        raise c.refuse("moe_topk", f"at most {values['num_experts']}")
    put_all(f, n_experts=values["num_experts"], experts_used=values["moe_topk"], router_normalize=1, shared_hidden=width)
    c.only("use_mixed_mlp_moe", True)
    c.only("moe_layer_num_skipped", 0)
    c.ignore("moe_drop_tokens", "moe_random_routing_dropped_token", "group_limited_greedy", "norm_topk_prob", "capacity_factor")
    return f


def _afmoe(c: Config) -> dict:
    """Trinity: a gate on attention, four norms, RoPE where there is a window."""
    f = graph(c, 16384, head_dim=128, hidden=6144, eps=("rms_norm_eps", 1e-5))
    n, every = f["n_layers"], c.integer("global_attn_every_n_layers", MAX_LAYERS, 4)
    biases(f, 15 * c.flag("attention_bias"))
    put_all(f, qk_norm=QK_HEAD, attn_gate=GATE_VALUES, norms=15)
    kinds = layer_types(c, n, [SLIDING if (i + 1) % every else FULL for i in range(n)])
    put_windows(c, f, kinds, 1024)
    f["rope_set"] = [int(kind == SLIDING) for kind in kinds]
    f["embed_scale"] = f["dim"] ** 0.5 if c.flag("mup_enabled") else 1
    sparse = [int(s) for s in after_first(c, n, "num_dense_layers", 1)]
    width = c.integer("moe_intermediate_size", MAX_WIDTH, 1408)
    put_experts(c, f, sparse, width, ("num_experts", 64), 6)
    f["router_score"], f["router_select_bias"], f["router_normalize"] = [SIGMOID * s for s in sparse], sparse, sparse
    f["router_factor"] = [c.number("route_scale", 1.0) if s else 1.0 for s in sparse]
    put_shared(c, f, sparse, width, "num_shared_experts", 2)
    for key, value in (("score_func", "sigmoid"), ("route_norm", True), ("n_group", 1), ("topk_group", 1),
                       ("num_expert_groups", 1), ("num_limited_groups", 1)):  # fmt: skip
        c.only(key, value, None)
    c.ignore("load_balance_coeff", "use_grouped_mm")
    return f


def _minimax_m2(c: Config) -> dict:
    """Published files say `rotary_dim`, and state switches of what the reference always does."""
    turns, head = c.get("rotary_dim", None), c.integer("head_dim", 1024, 128)
    partial = turning(turns, head) if type(turns) is int and 0 < turns <= head else 1.0
    f = graph(c, 196608, kv_heads=8, head_dim=128, hidden=1536, theta=5_000_000.0, partial=partial)
    n = f["n_layers"]
    put_all(f, qk_norm=QK_FULL)
    put_experts(c, f, [1] * n, f["hidden"][0], ("num_local_experts", 256), 8)
    put_all(f, router_score=SIGMOID, router_select_bias=1, router_normalize=1)
    return f


SPARSE = {
    "granitemoe": Family("GraniteMoeForCausalLM", _granitemoe),
    "granitemoeshared": Family("GraniteMoeSharedForCausalLM", _granitemoeshared),
    "granitemoe_swa": Family("GraniteMoeSWAForCausalLM", lambda c: granite_swa(c, _granitemoeshared(c))),
    "solar_open": Family("SolarOpenForCausalLM", _solar_open),
    "flex_olmo": Family("FlexOlmoForCausalLM", _flex_olmo),
    "mellum": Family("MellumForCausalLM", _mellum, aliases={"num_experts": "num_local_experts"}),
    "ernie4_5_moe": Family(
        "Ernie4_5_MoeForCausalLM", _ernie_moe, aliases={"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_k"}
    ),
    "glm4_moe": Family("Glm4MoeForCausalLM", _glm4_moe),
    "dots1": Family("Dots1ForCausalLM", _dots1),
    "exaone_moe": Family("ExaoneMoeForCausalLM", _exaone_moe, published="ExaoneMoEForCausalLM"),
    "afmoe": Family("AfmoeForCausalLM", _afmoe),
    "phimoe": Family("PhimoeForCausalLM", _phimoe, published="PhiMoEForCausalLM"),
    "hunyuan_v1_moe": Family("HunYuanMoEV1ForCausalLM", _hunyuan_moe),
    "minimax_m2": Family("MiniMaxM2ForCausalLM", _minimax_m2),
}
