"""Families whose layers differ in their mixer: attention in some, a state or a short convolution in the others; see
families.py."""

from .config import Config
from .features import (
    GATE_VALUES, MAX_HEADS, MAX_LAYERS, MAX_WIDTH, MIX_ATTENTION, MIX_CONVOLUTION, MIX_RECURRENT, NORM_FIRST, QK_HEAD,
    in_range,
)  # fmt: skip
from .graph import Family, biases, graph, put_all, sparse_layers
from .windows import FULL, layer_types


def _mixers(c: Config, f: dict, default: list[str], name: str, mixer: int) -> list[int]:
    """`layer_types`: the layers of this name have the mixer, and no heads; the others attention. Which have it."""
    kinds = layer_types(c, f["n_layers"], default, (FULL, name))
    has = [int(kind == name) for kind in kinds]
    f["mixer"] = [mixer if h else MIX_ATTENTION for h in has]
    for key in ("n_heads", "n_kv_heads", "head_dim"):
        f[key] = [0 if h else n for h, n in zip(has, f[key])]
    return has


def _lfm2(c: Config) -> dict:
    f = graph(c, 128000, kv_heads=8, theta=1e6, eps=("norm_eps", 1e-5), act=("hidden_act", "silu"), tied=True,
              hidden=c.get("block_ff_dim", None) or 12288)  # fmt: skip
    n, hidden = f["n_layers"], f["hidden"][0]
    if c.flag("block_auto_adjust_ff_dim", True):
        of = c.integer("block_multiple_of", MAX_WIDTH, 256)
        hidden = int(c.number("block_ffn_dim_multiplier", 1.0) * int(2 * hidden / 3))
        hidden = in_range((hidden + of - 1) // of * of, 1, MAX_WIDTH, f"{c.where}: the width of the feed-forward step")
    else:
        c.get("block_multiple_of", None), c.get("block_ffn_dim_multiplier", None)
    full = c.get("full_attn_idxs", None)
    full = list(range(n)) if full is None else full
    has = _mixers(c, f, [FULL if i in full else "conv" for i in range(n)], "conv", MIX_CONVOLUTION)
    put_all(f, hidden=hidden, qk_norm=QK_HEAD)
    width, bias = c.integer("conv_L_cache", 16, 3), c.flag("conv_bias")
    f["conv_width"], f["conv_bias"] = [width * h for h in has], [int(bias) * h for h in has]
    f["mix_bias"] = [5 * bias * h for h in has]
    return f


def _delta_net(c: Config, f: dict, has: list[int]) -> None:
    """The sizes of the gated delta nets of the layers that have one."""
    sizes = {
        "k_heads": c.integer("linear_num_key_heads", MAX_HEADS, 16), "k_dim": c.integer("linear_key_head_dim", 512, 128),
        "v_heads": c.integer("linear_num_value_heads", MAX_HEADS, 32),
        "v_dim": c.integer("linear_value_head_dim", 512, 128),
        "conv_width": c.integer("linear_conv_kernel_dim", 16, 4), "state_norm": NORM_FIRST,
    }  # fmt: skip
    for key, value in sizes.items():
        f[key] = [value * h for h in has]


def _qwen3_next(c: Config) -> dict:
    f = graph(c, 32768, kv_heads=2, head_dim=256, hidden=5632, partial=0.25)
    n, every = f["n_layers"], c.integer("full_attention_interval", MAX_LAYERS, 4)
    biases(f, 15 * c.flag("attention_bias"))
    sparse = sparse_layers(c, f, 512, 512, 10)
    shared = c.integer("shared_expert_intermediate_size", MAX_WIDTH, 512)
    f["shared_hidden"], f["shared_switch"] = [shared * s for s in sparse], sparse
    default = ["linear_attention" if (i + 1) % every else FULL for i in range(n)]
    has = _mixers(c, f, default, "linear_attention", MIX_RECURRENT)
    f["attn_gate"], f["qk_norm"] = [GATE_VALUES * (1 - h) for h in has], [QK_HEAD * (1 - h) for h in has]
    f["attn_bias"] = [b * (1 - h) for b, h in zip(f["attn_bias"], has)]
    _delta_net(c, f, has)
    return f


HYBRID = {
    "lfm2": Family("Lfm2ForCausalLM", _lfm2),
    "qwen3_next": Family("Qwen3NextForCausalLM", _qwen3_next),
}
