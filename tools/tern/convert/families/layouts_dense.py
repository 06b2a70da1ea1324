"""Where dense families keep their tensors: their rows of layouts.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...errors import ConvertError
from .features import Slot
from .names import FALCON, GPT2, LAYER, MPT, source_name
from .places import heads_of, interleaved, Place, plain, rows_of

if TYPE_CHECKING:
    from .layouts import Layout


def fused(at: Layout, slot: Slot, layer: int, part: str, name: str, parts: dict[str, int]) -> list[Place]:
    """`part` begins where those before it in the fused tensor end; `parts` are their rows."""
    first = sum(list(parts.values())[: list(parts).index(part.removesuffix("_bias"))])
    name = name.format(layer)
    name = name.removesuffix("weight") + "bias" if slot.vector else name
    return [rows_of(name, slot, first + np.arange(slot.rows), sum(parts.values()))]


def qkv_rows(at: Layout, layer: int) -> dict[str, int]:
    d = at.value("head_dim", layer)
    q, kv = at.value("n_heads", layer) * d, at.value("n_kv_heads", layer) * d
    return {"q": q, "k": kv, "v": kv}


QKV = ("q", "k", "v", "q_bias", "k_bias", "v_bias")


def phi3(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    if part in QKV:
        return fused(at, slot, layer, part, LAYER + "self_attn.qkv_proj.weight", qkv_rows(at, layer))
    if part in ("gate", "up"):
        return fused(
            at, slot, layer, part, LAYER + "mlp.gate_up_proj.weight", {"gate": slot.rows, "up": slot.rows}
        )
    return None


def neighbours(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """RoPE turns neighbours, so q and k are put in the other order: rows, biases and norms; of the dimensions that turn."""
    if part not in ("q", "k", "q_bias", "k_bias", "q_norm", "k_norm"):
        return None
    heads, d = at.value("n_heads" if part[0] == "q" else "n_kv_heads", layer), at.value("head_dim", layer)
    order = interleaved(heads, d, 2 * len(at.config["rope.0.inv_freq"]))
    if part.endswith("_norm"):
        return [Place(at.name(slot.name), (heads, d), order)]
    return [rows_of(at.name(slot.name), slot, order, slot.rows)]


def glm4(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    return phi3(at, slot, layer, part) if part in ("gate", "up") else neighbours(at, slot, layer, part)


def gemma(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Norm weights are stored less one."""
    if part.endswith("_norm"):
        return [Place(at.name(slot.name), (slot.rows,), add_one=True)]
    return None


def gemma4(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """The norm of v has no weights; the router's are stored without their factor 1 / sqrt(dim)."""
    if part == "v_norm":
        return [Place(slot.name, (slot.rows,), ones=True)]
    if part == "router_norm":
        return [Place(LAYER.format(layer) + "router.scale", (slot.rows,), times=slot.rows**-0.5)]
    if part in ("gate", "up", "down") and at.value("n_experts", layer):
        prefix, n = LAYER.format(layer) + "experts.", slot.matrices
        if part == "down":
            return [Place(prefix + "down_proj", (n, slot.rows, slot.k), index=e) for e in range(n)]
        rows = np.arange(slot.rows) + (slot.rows if part == "up" else 0)
        return [Place(prefix + "gate_up_proj", (n, 2 * slot.rows, slot.k), rows, index=e) for e in range(n)]
    return None


def gemma3n(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """The matrices that make the streams are tensors of their own; those that mix them are vectors here."""
    n = at.config["n_streams"]
    if part in ("altup_in", "altup_out"):
        name = "altup_projections" if part == "altup_in" else "altup_unembed_projections"
        return [Place(f"model.{name}.{i}.weight", (slot.rows, slot.k)) for i in range(n - 1)]
    if part in ("altup_predict", "altup_correct"):
        rows, name = (n * n, "prediction") if part == "altup_predict" else (n, "correction")
        return [Place(f"{LAYER.format(layer)}altup.{name}_coefs.weight", (rows, n))]
    return gemma4(at, slot, layer, part)


def olmo(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    return [Place(slot.name, (slot.rows,), ones=True)] if part.endswith("_norm") else None


def neox(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Rows of q, k and v lie together, head by head."""
    if part == "head" and at.has("lm_head.weight"):
        return [plain("lm_head.weight", slot)]
    if part not in QKV:
        return None
    n, d = at.value("n_heads", layer), at.value("head_dim", layer)
    rows = heads_of("qkv".index(part[0]) * d, n, 3 * d, d)
    name = source_name(at.names, f"layer.{layer}.qkv_bias" if slot.vector else f"layer.{layer}.qkv")
    return [rows_of(name, slot, rows, 3 * n * d)]


def falcon(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Rows [n_kv, group + 2, head_dim]: the queries of a group, its key, its value. Newer models name norms apart."""
    if part in ("attn_norm", "ffn_norm", "attn_norm_bias", "ffn_norm_bias") and at.has(f"transformer.h.{layer}.ln_attn.weight"):
        name = ("ln_attn." if part.startswith("attn") else "ln_mlp.") + ("bias" if part.endswith("bias") else "weight")
        return [plain(FALCON.format(layer) + name, slot)]
    if part not in QKV:
        return None
    n, kv, d = at.value("n_heads", layer), at.value("n_kv_heads", layer), at.value("head_dim", layer)
    group = n // kv
    if part[0] == "q":
        rows = (np.arange(kv)[:, None] * (group + 2) * d + np.arange(group * d)).ravel()
    else:
        rows = heads_of((group + "qkv".index(part[0]) - 1) * d, kv, (group + 2) * d, d)
    name = source_name(at.names, f"layer.{layer}.qkv_bias" if slot.vector else f"layer.{layer}.qkv")
    return [rows_of(name, slot, rows, (n + 2 * kv) * d)]


def stablelm(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Each head's norm is a tensor of its own."""
    if part not in ("q_norm", "k_norm"):
        return None
    heads = at.value("n_heads" if part == "q_norm" else "n_kv_heads", layer)
    name = LAYER.format(layer) + f"self_attn.{part[0]}_layernorm.norms."
    return [Place(f"{name}{h}.weight", (slot.rows // heads,)) for h in range(heads)]


def gpt2(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Conv1D: matrices are stored [k, rows]; q, k and v in one."""
    dim = at.config["dim"]
    if part == "positions":
        return [Place(at.name(slot.name), (at.config["max_seq"], dim))]
    if part in QKV:
        rows = "qkv".index(part[0]) * dim + np.arange(dim)
        name = source_name(at.names, f"layer.{layer}.qkv_bias" if slot.vector else f"layer.{layer}.qkv")
        shape = (3 * dim,) if slot.vector else (dim, 3 * dim)
        return [Place(name, shape, rows, transposed=not slot.vector)]
    if part in ("o", "up", "down"):
        return [Place(at.name(slot.name), (slot.k, slot.rows), transposed=True)]
    return None


def swapped(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """RoPE turns the other way, which is our way of heads whose halves are swapped; norms have no weights."""
    if part.endswith("_norm"):
        return [Place(slot.name, (slot.rows,), ones=True)]
    if part not in ("q", "k", "q_bias", "k_bias"):
        return None
    d = at.value("head_dim", layer)
    order = np.arange(slot.rows).reshape(-1, 2, d // 2)[:, ::-1].ravel()
    return [rows_of(at.name(slot.name), slot, order, slot.rows)]


def apertus(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    if part != "xielu":
        return None
    name = LAYER.format(layer) + "mlp.act_fn."
    return [Place(name + "alpha_p", (1,)), Place(name + "alpha_n", (1,)), Place(name + "beta", ()), Place(name + "eps", ())]


def opt(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """The first two learned positions are not used."""
    if part != "positions":
        return None
    dim = at.config["dim"]
    return [Place(at.name(slot.name), (at.config["max_seq"] + 2, dim), 2 * dim + np.arange(slot.rows))]


def bitnet(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Matrices of -1, 0 and 1 have a scale beside them, and four rows in one."""
    if layer < 0 or slot.vector:
        return None
    scale = (name := at.name(slot.name)) + "_scale"
    if not at.has(scale):
        return None
    return [Place(name, (slot.rows // 4, slot.k), ternary=scale)]


def neox_japanese(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """The bias of the output lies beside its matrix."""
    if part == "o_bias":
        return [plain(at.name(f"layer.{layer}.o").removesuffix(".weight") + "_bias", slot)]
    return neox(at, slot, layer, part)


def mpt(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    return fused(at, slot, layer, part, MPT + "attn.Wqkv.weight", qkv_rows(at, layer)) if part in QKV else None


def codegen(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Four blocks, each of the queries, values and keys of a quarter of the heads; RoPE turns neighbours."""
    if part not in ("q", "k", "v"):
        return None
    n, d = at.value("n_heads", layer), at.value("head_dim", layer)
    quarter = slot.rows // 4
    if n % 4:
        raise ConvertError(f"a codegen model of {n} heads is not understood; they are stored in four blocks")
    rows = heads_of("qvk".index(part) * quarter, 4, 3 * quarter, quarter)
    if part != "v":
        rows = rows[interleaved(n, d, 2 * len(at.config["rope.0.inv_freq"]))]
    return [rows_of(GPT2.format(layer) + "attn.qkv_proj.weight", slot, rows, 3 * slot.rows)]


def gpt_bigcode(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Keys and values of one head below the queries, or q, k and v head by head."""
    if part == "positions":
        return [Place(at.name(slot.name), (at.config["max_seq"], at.config["dim"]))]
    if part in QKV and at.value("n_kv_heads", layer) == at.value("n_heads", layer):
        return neox(at, slot, layer, part)
    return fused(at, slot, layer, part, at.names["qkv"], qkv_rows(at, layer)) if part in QKV else None


def learned(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    return [Place(at.name(slot.name), (at.config["max_seq"], at.config["dim"]))] if part == "positions" else None


def first_of(at: Layout, *names: str) -> str:
    """The first of these names that the source holds, or the last."""
    return next((name for name in names if at.has(name)), names[-1])


def sinusoids(at: Layout, slot: Slot, rows: int, table: Callable[[], np.ndarray]) -> list[Place]:
    """Positions that the reference computes, the first of them in row `rows`; old files have them."""
    name, total, skip = at.name(slot.name), at.config["max_seq"] + rows, rows * at.config["dim"]
    given = None if at.has(name) else table()[rows:].reshape(-1)
    return [Place(name, (total, at.config["dim"]), skip + np.arange(slot.rows), given=given)]


def xglm(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """sin and cos of position * 10000^(-i / (half - 1)), with the roundings of f32 that the reference has."""

    def table() -> np.ndarray:
        half, f4 = at.config["dim"] // 2, np.float32
        freq = np.exp(np.arange(half, dtype=f4) * f4(-math.log(10000) / (half - 1)))
        angle = np.arange(at.config["max_seq"] + 2, dtype=f4)[:, None] * freq
        return np.concatenate([np.sin(angle), np.cos(angle)], axis=1)

    return sinusoids(at, slot, 2, table) if part == "positions" else None


def ctrl(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """sin and cos of position / 10000^(2 i / dim), with the roundings of f32 that the reference has."""

    def table() -> np.ndarray:
        dim, f4 = at.config["dim"], np.float32
        rates = f4(1) / f4(10000) ** (np.arange(0, dim, 2, dtype=f4) / f4(dim))
        angle = np.arange(at.config["max_seq"], dtype=f4)[:, None] * rates
        return np.concatenate([np.sin(angle), np.cos(angle)], axis=1)

    return sinusoids(at, slot, 0, table) if part == "positions" else None


def mllama(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Eight tokens of pictures stand below the others."""
    return [rows_of(at.name(slot.name), slot, np.arange(slot.rows), slot.rows + 8)] if part == "embed" else None
