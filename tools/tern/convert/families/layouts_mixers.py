"""Where families with latent attention or delta nets keep their tensors: their rows of layouts.py."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from . import states
from .features import HALVES, Slot
from .layouts_dense import first_of, gemma
from .layouts_experts import granitemoe, renamed
from .names import LAYER, source_name
from .places import heads_of, Place, plain, rows_of

if TYPE_CHECKING:
    from .layouts import Layout


def axk1(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Published files have no bias of the choice."""
    prefix = LAYER.format(layer)
    if part == "router_select_bias" and at.has(prefix + "mlp.gate.weight") and not at.has(at.name(slot.name)):
        return [Place(slot.name, (slot.rows,), ones=True, times=0.0)]
    return renamed(at, slot, {"ffn_post_norm": "post_mlp_layernorm.weight"}) or latent(at, slot, layer, part)


def latent(at: Layout, slot: Slot, layer: int, part: str, neighbours: bool = True) -> list[Place] | None:
    """Rows of keys and values lie head by head in one matrix; ours of keys are its columns. RoPE turns neighbours."""
    prefix = LAYER.format(layer) + "self_attn."
    rank, nope, value = (at.value(key, layer) for key in ("kv_rank", "nope_dim", "value_dim"))
    heads, rotary, each = at.value("n_heads", layer), at.value("head_dim", layer) - rank, nope + value
    neighbours = neighbours and HALVES not in at.config
    turned = np.concatenate([np.arange(0, rotary, 2), np.arange(1, rotary, 2)]) if neighbours else np.arange(rotary)
    if part in ("q_down", "q_down_norm", "k_norm"):
        name = {"q_down": "q_a_proj", "q_down_norm": "q_a_layernorm", "k_norm": "kv_a_layernorm"}[part]
        return [plain(f"{prefix}{name}.weight", slot)]
    if part == "q":
        head = np.concatenate([np.arange(nope), nope + turned])
        rows = (np.arange(heads)[:, None] * (nope + rotary) + head).ravel()
        return [rows_of(prefix + ("q_b_proj" if at.value("q_rank", layer) else "q_proj") + ".weight", slot, rows, slot.rows)]
    if part == "k":
        rows = np.concatenate([np.arange(rank), rank + turned])
        return [rows_of(prefix + "kv_a_proj_with_mqa.weight", slot, rows, slot.rows)]
    if part == "k_up":
        shape = (heads * each, rank)
        return [Place(prefix + "kv_b_proj.weight", shape, transposed=True, first=h * each) for h in range(heads)]
    if part == "v_up":
        return [rows_of(prefix + "kv_b_proj.weight", slot, h * each + nope + np.arange(value), heads * each) for h in range(heads)]
    return None


def kimi_linear(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """transformers has the parts of the decay in a module of their own, and calls the feed-forward step mlp. What it saves
    has the published names, and calls dense layers block_sparse_moe, too."""
    prefix, name = LAYER.format(layer) + "self_attn.", ""
    if part in ("mix_decay_down", "mix_decay", "mix_decay_bias", "mix_a"):
        name = {"mix_decay_bias": "dt_bias", "mix_a": "A_log"}.get(part) or at.name(slot.name).removeprefix(prefix)
        name = first_of(at, prefix + name, prefix + "forget_gate." + name)
    if part in ("mix_decay_bias", "mix_a"):
        shape = (1, 1, slot.rows, 1) if part == "mix_a" and at.kind == "kimi_linear" else (slot.rows,)
        return [Place(name, shape, exp=part == "mix_a")]
    if part.startswith(("router", "shared_")) or part in ("gate", "up", "down") and not at.value("n_experts", layer):
        published = at.name(slot.name).replace(".mlp.", ".block_sparse_moe.")
        name = first_of(at, published, at.name(slot.name))
    if name:
        return [plain(name, slot)]
    if at.value("kv_rank", layer):
        return latent(at, slot, layer, part, at.kind != "kimi_linear")
    return stacked(at, slot, layer, part, "self_attn.") if part.startswith("mix_") else None


def minicpm3(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    return latent(at, slot, layer, part, False)


def qwen3_next(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """q, k, v and z lie together, key head by key head; so do beta and decay, and query and gate of attention."""
    keys, values = at.value("k_heads", layer), at.value("v_heads", layer)
    k_dim, each = at.value("k_dim", layer), at.value("v_dim", layer) * values // max(keys, 1)
    step, share = 2 * k_dim + 2 * each, values // max(keys, 1)
    if part in ("mix_in", "mix_gate"):
        first = {"mix_in": ((0, k_dim), (k_dim, k_dim), (2 * k_dim, each)), "mix_gate": ((2 * k_dim + each, each),)}[part]
        rows = np.concatenate([heads_of(begin, keys, step, n) for begin, n in first])
        return [rows_of(source_name(at.names, f"layer.{layer}.qkvz"), slot, rows, keys * step)]
    if part in ("mix_beta", "mix_decay"):
        rows = heads_of(share if part == "mix_decay" else 0, keys, 2 * share, share)
        return [rows_of(source_name(at.names, f"layer.{layer}.ba"), slot, rows, 2 * values)]
    return qwen3_5(at, slot, layer, part)


def of_states(slot: Slot, layer: int, part: str, where: str) -> list[Place] | None:
    """Decay and its bias of a delta net."""
    if part not in ("mix_a", "mix_decay_bias"):
        return None
    name = LAYER.format(layer) + where + ("A_log" if part == "mix_a" else "dt_bias")
    return [Place(name, (slot.rows,), exp=part == "mix_a")]


def qwen3_5(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Query and gate of attention lie together, head by head."""
    if part == "mix_conv":
        return states.convolution(at, slot, layer)
    if part in ("q", "q_bias", "attn_gate"):
        heads, d = at.value("n_heads", layer), at.value("head_dim", layer)
        name = source_name(at.names, f"layer.{layer}." + ("q_bias" if slot.vector else "q"))
        return [rows_of(name, slot, heads_of(d if part == "attn_gate" else 0, heads, 2 * d, d), 2 * heads * d)]
    return of_states(slot, layer, part, "linear_attn.") or (gemma(at, slot, layer, part) if part != "mix_norm" else None)


def stacked(at: Layout, slot: Slot, layer: int, part: str, where: str) -> list[Place] | None:
    """Matrices of q, k and v apart, or their convolutions."""
    keys, width = at.value("k_heads", layer) * at.value("k_dim", layer), at.value("conv_width", layer)
    prefix, rows = LAYER.format(layer) + where, {"q": keys, "k": keys, "v": at.value("v_heads", layer) * at.value("v_dim", layer)}
    if part == "mix_in":
        return [Place(f"{prefix}{p}_proj.weight", (n, slot.k), stacked=True) for p, n in rows.items()]
    if part == "mix_conv" and at.has(prefix + "q_conv1d.weight"):
        return [
            Place(f"{prefix}{p}_conv1d.weight", (n, 1, width), np.arange(n) * width + t, stacked=True)
            for t in range(width) for p, n in rows.items()
        ]  # fmt: skip
    return states.convolution(at, slot, layer) if part == "mix_conv" else of_states(slot, layer, part, where)


def olmo_hybrid(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    published = {"attn_norm": "attention_layer_norm", "ffn_norm": "feedforward_layer_norm"}.get(part)
    if published:
        return [plain(first_of(at, LAYER.format(layer) + published + ".weight", at.name(slot.name)), slot)]
    return stacked(at, slot, layer, part, "linear_attn.")


def granite_hybrid(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Mamba2, and Granite's experts; without experts the shared one is the whole step."""
    if part in ("gate", "up") and not at.value("n_experts", layer):
        rows = np.arange(slot.rows) + (slot.rows if part == "up" else 0)
        return [rows_of(source_name(at.names, f"layer.{layer}.gate"), slot, rows, 2 * slot.rows)]
    if part == "down" and not at.value("n_experts", layer):
        return None
    return states.mamba2(at, slot, layer, part) or granitemoe(at, slot, layer, part)
