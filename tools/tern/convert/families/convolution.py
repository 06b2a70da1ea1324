"""Families with short convolutions; see families.py."""

from .config import Config
from .features import (
    GATE_HEADS, MAX_WIDTH, MIX_ATTENTION, MIX_CONVOLUTION, NORM_ATTN, NORM_ATTN_POST, NORM_FFN,
    NORM_FFN_POST, QK_HEAD, SIGMOID, in_range,
)  # fmt: skip
from .gemma_new import ropes_of_kinds
from .graph import Family, graph, put_all, put_experts
from .hybrid import only_silu
from .sparse import after_first
from .windows import FULL, SLIDING, layer_types, put_windows

CONV = "conv"


def put_convolutions(c: Config, f: dict, kinds: list[str], width: int) -> None:
    """Layers of the kind `conv` have a convolution of this default width, and no heads."""
    only_silu(c, f)
    has = [int(kind == CONV) for kind in kinds]
    f["mixer"] = [MIX_CONVOLUTION if h else MIX_ATTENTION for h in has]
    for key in ("n_heads", "n_kv_heads", "head_dim", "attn_bias"):
        f[key] = [0 if h else n for h, n in zip(has, f[key])]
    width, bias = c.integer("conv_L_cache", 16, width), int(c.flag("conv_bias"))
    f["conv_width"], f["conv_bias"] = [width * h for h in has], [bias * h for h in has]
    f["mix_bias"] = [5 * bias * h for h in has]


def _lfm2(c: Config) -> dict:
    """Published files say `tie_embedding` and `block_ff_dim`, which come before the names of transformers."""
    if c.get("block_ff_dim", None) is not None:
        c.values["intermediate_size"] = c.integer("block_ff_dim", MAX_WIDTH)
    f = graph(c, 128000, kv_heads=8, theta=1e6, eps=("norm_eps", 1e-5), tied=c.flag("tie_embedding", True), hidden=12288)
    n, hidden = f["n_layers"], f["hidden"][0]
    if c.flag("block_auto_adjust_ff_dim", True):
        of = c.integer("block_multiple_of", MAX_WIDTH, 256)
        hidden = int(c.number("block_ffn_dim_multiplier", 1.0) * int(2 * hidden / 3))
        hidden = in_range((hidden + of - 1) // of * of, 1, MAX_WIDTH, f"{c.where}: the width of the feed-forward step")
    else:
        c.get("block_multiple_of", None), c.get("block_ffn_dim_multiplier", None)
    full = c.whole_numbers("full_attn_idxs") if c.get("full_attn_idxs", None) is not None else list(range(n))
    put_convolutions(c, f, layer_types(c, n, [FULL if i in full else CONV for i in range(n)], (FULL, CONV)), 3)
    put_all(f, hidden=hidden, qk_norm=QK_HEAD)
    return f


def _lfm2_moe(c: Config) -> dict:
    """Sigmoid scores, a bias for the choice. The reference adds 1e-6 to the sum of the chosen, far below all sums."""
    f = graph(c, 128000, kv_heads=8, theta=1e6, eps=("norm_eps", 1e-5), tied=c.flag("tie_embedding", True), hidden=7168)
    n = f["n_layers"]
    put_convolutions(c, f, layer_types(c, n, [], (FULL, CONV)), 3)
    sparse = [int(s) for s in after_first(c, n, "num_dense_layers", 2)]
    put_experts(c, f, sparse, c.integer("moe_intermediate_size", MAX_WIDTH, 1792), ("num_experts", 32), 4)
    f["router_score"] = [SIGMOID * s for s in sparse]
    f["router_select_bias"] = [int(c.flag("use_expert_bias", True)) * s for s in sparse]
    f["router_normalize"] = [int(c.flag("norm_topk_prob", True)) * s for s in sparse]
    f["router_factor"] = [c.number("routed_scaling_factor", 1.0) if s else 1.0 for s in sparse]
    put_all(f, qk_norm=QK_HEAD)
    return f


def _lfm3(c: Config) -> dict:
    """Convolutions, windows, and layers that see all and turn half of each head; four norms, a gate for each head."""
    f = graph(c, 128000, kv_heads=4, head_dim=128, eps=("norm_eps", 1e-5), tied=True, hidden=7680, ropes=False)
    n = f["n_layers"]
    default = [FULL if i % 4 == 2 else SLIDING if i % 4 == 0 and i else CONV for i in range(n)]
    kinds = layer_types(c, n, default, (FULL, SLIDING, CONV))
    f["attn_bias"] = [15 * c.flag("attention_bias")] * n
    ropes_of_kinds(c, f, kinds, 0.5)
    put_windows(c, f, kinds, 256)
    put_convolutions(c, f, kinds, 7)
    f["attn_gate"] = [GATE_HEADS * (kind != CONV) * c.flag("use_attention_gate", True) for kind in kinds]
    put_all(f, qk_norm=QK_HEAD)
    if c.flag("use_sandwich_norm", True):
        put_all(f, norms=NORM_ATTN | NORM_ATTN_POST | NORM_FFN | NORM_FFN_POST)
    return f


CONVOLUTION = {
    "lfm2": Family("Lfm2ForCausalLM", _lfm2),
    "lfm2_moe": Family("Lfm2MoeForCausalLM", _lfm2_moe),
    "lfm3": Family("Lfm3ForCausalLM", _lfm3),
}
