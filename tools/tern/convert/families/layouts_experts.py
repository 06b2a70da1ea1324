"""Where families with experts keep their tensors: their rows of layouts.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .features import Slot
from .layouts_dense import first_of, fused, neighbours, QKV, qkv_rows
from .names import DBRX, LAYER
from .places import Place, plain, rows_of

if TYPE_CHECKING:
    from .layouts import Layout


def split_experts(at: Layout, slot: Slot, layer: int, part: str) -> list[Place]:
    """One tensor for each expert, or all in one [experts, rows, k] with gate above up."""
    prefix, n, names = LAYER.format(layer) + "mlp.experts.", slot.matrices, ("gate_proj", "up_proj", "down_proj")
    if at.kind in ("kimi_linear", "mixtral", "minimax_m2", "phimoe"):
        published = LAYER.format(layer) + "block_sparse_moe.experts."
        if at.has(published + "0.w1.weight"):
            prefix, names = published, ("w1", "w3", "w2")
    name = dict(zip(("gate", "up", "down"), names))[part]
    if at.has(f"{prefix}0.{name}.weight"):
        return [Place(f"{prefix}{e}.{name}.weight", (slot.rows, slot.k)) for e in range(n)]
    if part == "down":
        return [Place(prefix + "down_proj", (n, slot.rows, slot.k), index=e) for e in range(n)]
    rows = np.arange(slot.rows) + (slot.rows if part == "up" else 0)
    shape = (n, 2 * slot.rows, slot.k)
    return [Place(prefix + "gate_up_proj", shape, rows, index=e) for e in range(n)]


def mixtral(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    if part == "router" and not at.has(at.name(slot.name)):
        return [plain(LAYER.format(layer) + "mlp.gate.weight", slot)]
    return None


def granitemoe(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """All experts in one tensor, with gate above up; so is the shared one."""
    prefix, n = LAYER.format(layer) + "block_sparse_moe.", slot.matrices
    if part == "router":
        return [plain(first_of(at, prefix + "router.layer.weight", prefix + "router.weight"), slot)]
    if part in ("shared_gate", "shared_up"):
        rows = np.arange(slot.rows) + (slot.rows if part == "shared_up" else 0)
        return [rows_of(LAYER.format(layer) + "shared_mlp.input_linear.weight", slot, rows, 2 * slot.rows)]
    if part == "down":
        name = first_of(at, prefix + "output_linear.weight", prefix + "experts.down_proj")
        return [Place(name, (n, slot.rows, slot.k), index=e) for e in range(n)]
    if part in ("gate", "up"):
        name = first_of(at, prefix + "input_linear.weight", prefix + "experts.gate_up_proj")
        rows = np.arange(slot.rows) + (slot.rows if part == "up" else 0)
        return [Place(name, (n, 2 * slot.rows, slot.k), rows, index=e) for e in range(n)]
    return None


def ernie_moe(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    if part == "router_select_bias":
        name, at_last = "moe_statics.e_score_correction_bias", LAYER.format(layer) + "mlp."
        return [Place(first_of(at, at_last + name, at_last + "gate." + name), (1, slot.rows))]
    return neighbours(at, slot, layer, part)


def exaone_moe(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    if part == "router_select_bias":
        published = LAYER.format(layer) + "mlp.e_score_correction_bias"
        return [plain(first_of(at, published, at.name(slot.name)), slot)]
    return None


def renamed(at: Layout, slot: Slot, published: dict[str, str]) -> list[Place] | None:
    """A tensor whose name in published files is not the reference's."""
    layer, part = slot.layer_and_part
    if part not in published:
        return None
    return [plain(first_of(at, LAYER.format(layer) + published[part], at.name(slot.name)), slot)]


def hy_v3(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    shared = {f"shared_{each}": f"mlp.shared_mlp.{each}_proj.weight" for each in ("gate", "up", "down")}
    return renamed(at, slot, shared | {"router": "mlp.router.gate.weight", "router_select_bias": "mlp.expert_bias"})


def kolibri(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    names = {"attn_post_norm": "post_attn_norm.weight", "ffn_post_norm": "post_ffn_norm.weight"}
    return renamed(at, slot, names | {"router_select_bias": "moe.router.expert_bias"})


def laguna(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    shared = {f"shared_{each}": f"mlp.shared_expert.{each}_proj.weight" for each in ("gate", "up", "down")}
    return renamed(at, slot, shared | {"router_select_bias": "mlp.experts.e_score_correction_bias"})


def flint(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    return renamed(at, slot, {"sinks": "self_attn.softmax_offset"})


def cohere2_moe(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """The mean of chosen and shared experts: the router's factor, and half of the weights."""
    if part == "shared_down" and at.value("router_factor", layer) == 0.5:
        return [Place(at.name(slot.name), (slot.rows, slot.k), times=0.5)]
    return neighbours(at, slot, layer, part)


def aria(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Experts [experts, k, rows], gate before up."""
    if part not in ("gate", "up", "down"):
        return None
    prefix, n = LAYER.format(layer) + "mlp.experts.", slot.matrices
    if part == "down":
        name = first_of(at, prefix + "fc2.weight", prefix + "down_proj")
        return [Place(name, (n, slot.k, slot.rows), transposed=True, index=e) for e in range(n)]
    name, rows = first_of(at, prefix + "fc1.weight", prefix + "gate_up_proj"), np.arange(slot.rows) + (slot.rows if part == "up" else 0)
    return [Place(name, (n, slot.k, 2 * slot.rows), rows, transposed=True, index=e) for e in range(n)]


def dbrx(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """The experts' rows one below the other, those of down as columns."""
    if part in QKV:
        return fused(at, slot, layer, part, DBRX + "norm_attn_norm.attn.Wqkv.weight", qkv_rows(at, layer))
    if part not in ("gate", "up", "down"):
        return None
    n, name = slot.matrices, DBRX.format(layer) + "ffn.experts.mlp." + {"gate": "w1", "up": "v1", "down": "w2"}[part]
    if part == "down":
        return [Place(name, (n * slot.k, slot.rows), transposed=True, first=e * slot.k) for e in range(n)]
    return [rows_of(name, slot, e * slot.rows + np.arange(slot.rows), n * slot.rows) for e in range(n)]


def phimoe(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    if part != "router":
        return None
    published = LAYER.format(layer) + "block_sparse_moe.gate.weight"
    return [plain(first_of(at, published, LAYER.format(layer) + "mlp.router.weight"), slot)]


def minimax_m2(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    name = {"router": "gate.weight", "router_select_bias": "e_score_correction_bias"}.get(part)
    if name is None:
        return None
    names = [LAYER.format(layer) + where + name for where in ("block_sparse_moe.", "mlp.")]
    return [plain(first_of(at, *names), slot)]


def gpt_oss(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Experts [experts, k, rows], the rows of gate and up by turns; or, as released, [experts, rows, k] in MXFP4."""
    prefix, n = LAYER.format(layer) + "mlp.experts.", at.value("n_experts", layer)
    hidden, dim = at.value("hidden", layer), at.config["dim"]
    turns = 2 * np.arange(hidden)
    if part in ("gate", "up", "down") and at.has(prefix + "down_proj_blocks"):
        name, total, rows = prefix + "gate_up_proj", 2 * hidden, turns + (part == "up")
        if part == "down":
            name, total, rows = prefix + "down_proj", dim, None
        shape = (n, total, slot.k // 32, 16)
        return [Place(name + "_blocks", shape, rows, index=e, scales=name + "_scales") for e in range(n)]
    if part in ("gate", "up"):
        shape, rows = (n, dim, 2 * hidden), turns + (part == "up")
        return [Place(prefix + "gate_up_proj", shape, rows, transposed=True, index=e) for e in range(n)]
    if part == "down":
        return [Place(prefix + "down_proj", (n, hidden, dim), transposed=True, index=e) for e in range(n)]
    if part in ("gate_bias", "up_bias"):
        rows = turns + part.startswith("up")
        return [Place(prefix + "gate_up_proj_bias", (n, 2 * hidden), rows, index=e) for e in range(n)]
    if part == "down_bias":
        return [Place(prefix + "down_proj_bias", (n, dim), index=e) for e in range(n)]
    return None


def llama4(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Norms of q and k have no weights, RoPE turns neighbours; experts [experts, k, rows], gate before up."""
    if part in ("q_norm", "k_norm"):
        return [Place(slot.name, (slot.rows,), ones=True)]
    if part not in ("gate", "up", "down") or not at.value("n_experts", layer):
        return neighbours(at, slot, layer, part)
    name, n = LAYER.format(layer) + "feed_forward.experts.", slot.matrices
    if part == "down":
        return [Place(name + "down_proj", (n, slot.k, slot.rows), transposed=True, index=e) for e in range(n)]
    rows = np.arange(slot.rows) + (slot.rows if part == "up" else 0)
    shape = (n, slot.k, 2 * slot.rows)
    return [Place(name + "gate_up_proj", shape, rows, transposed=True, index=e) for e in range(n)]
