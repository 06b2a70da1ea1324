"""Where families with Mamba2 layers or short convolutions keep their tensors: their rows of layouts.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .features import Slot
from .places import Place, plain, rows_of

if TYPE_CHECKING:
    from .layouts import Layout

_LAYER = "model.layers.{}."


def _mamba_names(prefix: str) -> dict[str, str]:
    names = {"in": "in_proj.weight", "out": "out_proj.weight", "conv": "conv1d.weight", "norm": "norm.weight",
             "decay": "dt_weight", "a": "A_log", "skip": "D"}  # fmt: skip
    return {f"mix_{part}": prefix + name for part, name in names.items()}


_FEED_FORWARD = {
    "final_norm": "model.final_layernorm.weight", "ffn_norm": _LAYER + "pre_ff_layernorm.weight",
    **{part: f"{_LAYER}feed_forward.{part}_proj.weight" for part in ("gate", "up", "down")},
}  # fmt: skip
_LFM2 = {
    "attn_norm": _LAYER + "operator_norm.weight", "ffn_norm": _LAYER + "ffn_norm.weight",
    "o": _LAYER + "self_attn.out_proj.weight", "q_norm": _LAYER + "self_attn.q_layernorm.weight",
    "k_norm": _LAYER + "self_attn.k_layernorm.weight", "gate": _LAYER + "feed_forward.w1.weight",
    "up": _LAYER + "feed_forward.w3.weight", "down": _LAYER + "feed_forward.w2.weight",
    "final_norm": "model.embedding_norm.weight", "mix_in": _LAYER + "conv.in_proj.weight",
    "mix_out": _LAYER + "conv.out_proj.weight", "mix_conv": _LAYER + "conv.conv.weight",
}  # fmt: skip
NAMES: dict[str, dict[str, str]] = {
    "lfm2": _LFM2,
    "lfm2_moe": _LFM2 | {"router": _LAYER + "feed_forward.gate.weight", "router_select": _LAYER + "feed_forward.expert_weight"},
    "lfm3": _LFM2 | {
        "o": _LAYER + "self_attn.o_proj.weight", "q_norm": _LAYER + "self_attn.q_norm.weight",
        "k_norm": _LAYER + "self_attn.k_norm.weight", "attn_gate": _LAYER + "self_attn.g_proj.weight",
        "attn_post_norm": _LAYER + "post_operator_norm.weight", "ffn_post_norm": _LAYER + "post_ffn_norm.weight",
    },
    "nemotron_h": {
        "embed": "model.embeddings.weight", "final_norm": "model.norm_f.weight",
        "attn_norm": _LAYER + "norm.weight", "ffn_norm": _LAYER + "norm.weight",
        "up": _LAYER + "mixer.up_proj.weight", "down": _LAYER + "mixer.down_proj.weight",
        **{part: f"{_LAYER}mixer.{part}_proj.weight" for part in "qkvo"},
        "router": _LAYER + "mixer.gate.weight", "router_select": _LAYER + "mixer.gate.e_score_correction_weight",
        **{f"shared_{part}": f"{_LAYER}mixer.shared_experts.{part}_proj.weight" for part in ("up", "down")},
    } | _mamba_names(_LAYER + "mixer."),
    "mamba2": {
        "embed": "backbone.embeddings.weight", "final_norm": "backbone.norm_f.weight", "attn_norm": "backbone.layers.{}.norm.weight",
    } | _mamba_names("backbone.layers.{}.mixer."),
    "granitemoehybrid": {
        "gate": _LAYER + "shared_mlp.input_linear.weight", "down": _LAYER + "shared_mlp.output_linear.weight",
        "shared_down": _LAYER + "shared_mlp.output_linear.weight",
    } | _mamba_names(_LAYER + "mamba."),
    "falcon_h1": _FEED_FORWARD | _mamba_names(_LAYER + "mamba."),
    "bamba": _FEED_FORWARD | _mamba_names(_LAYER + "mamba."),
}  # fmt: skip


def convolution(at: Layout, slot: Slot, layer: int) -> list[Place]:
    """Stored [channels, 1, width]; ours is [width, channels]."""
    width = at.value("conv_width", layer)
    channels = slot.rows // width
    rows = (np.arange(channels) * width + np.arange(width)[:, None]).ravel()
    return [Place(at.name(slot.name), (channels, 1, width), rows)]


def lfm2(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Experts all in one tensor, or one for each. Published files of LFM3 have another name for the gate."""
    if part == "mix_conv":
        return convolution(at, slot, layer)
    published = _LAYER.format(layer) + "self_attn.gate_proj.weight"
    if part == "attn_gate" and at.has(published):
        return [plain(published, slot)]
    if part not in ("gate", "up", "down") or not at.value("n_experts", layer):
        return None
    prefix, n = _LAYER.format(layer) + "feed_forward.experts.", slot.matrices
    if at.has(prefix + "0.w1.weight"):
        name = {"gate": "w1", "up": "w3", "down": "w2"}[part]
        return [Place(f"{prefix}{e}.{name}.weight", (slot.rows, slot.k)) for e in range(n)]
    if part == "down":
        return [Place(prefix + "down_proj", (n, slot.rows, slot.k), index=e) for e in range(n)]
    rows = np.arange(slot.rows) + (slot.rows if part == "up" else 0)
    return [Place(prefix + "gate_up_proj", (n, 2 * slot.rows, slot.k), rows, index=e) for e in range(n)]


def nemotron_h(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Experts all in one tensor, or one for each."""
    if part in ("up", "down") and at.value("n_experts", layer):
        prefix, n, name = _LAYER.format(layer) + "mixer.experts.", slot.matrices, part + "_proj"
        if at.has(f"{prefix}0.{name}.weight"):
            return [Place(f"{prefix}{e}.{name}.weight", (slot.rows, slot.k)) for e in range(n)]
        return [Place(prefix + name, (n, slot.rows, slot.k), index=e) for e in range(n)]
    return mamba2(at, slot, layer, part)


def mamba2_rows(value: Callable[[str, int], int], layer: int, part: str) -> tuple[np.ndarray, int] | None:
    """Which rows of in_proj, or numbers of the convolution, a part is, and how many there are. in_proj holds z, x, B, C and the time
    step, the convolution x, B and C; ours is C, B, x."""
    heads, keys, n = value("v_heads", layer), value("k_heads", layer) * value("k_dim", layer), value("conv_width", layer)
    width = heads * value("v_dim", layer)
    channels = np.concatenate([np.arange(width + keys, width + 2 * keys), np.arange(width, width + keys), np.arange(width)])
    total = 2 * width + 2 * keys + heads
    return {
        "mix_in": (width + channels, total), "mix_gate": (np.arange(width), total),
        "mix_decay": (np.arange(total - heads, total), total), "mix_conv_bias": (channels, len(channels)),
        "mix_conv": ((channels * n + np.arange(n)[:, None]).ravel(), len(channels)),
    }.get(part)  # fmt: skip


def mamba2(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    if not part.startswith("mix_"):
        return None
    found, whole = mamba2_rows(at.value, layer, part), at.name(f"layer.{layer}.mix_in")
    if part == "mix_conv":
        return [Place(at.name(slot.name), (found[1], 1, at.value("conv_width", layer)), found[0])]
    if found:
        return [rows_of(at.name(slot.name) if part == "mix_conv_bias" else whole, slot, *found)]
    if part == "mix_decay_bias":
        return [plain(whole.replace("in_proj.weight", "dt_bias"), slot)]
    return [Place(at.name(slot.name), (slot.rows,), exp=True)] if part == "mix_a" else None
