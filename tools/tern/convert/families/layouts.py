"""Where each family keeps its tensors in a Hugging Face directory.

Out: for a slot (a tensor that the features ask for) the Places in the source, one for each expert where there are many.
To add a family whose tensors differ: its names in names.py, and where they are not whole, plain tensors, a function in
LAYOUTS.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import ConvertError
from . import states
from .features import FACTORS, HALVES, Slot, feature
from .names import DBRX, FALCON, GPT2, HUGGINGFACE, LAYER, MPT, NAMES, source_name
from .places import Place, heads_of, interleaved, plain, rows_of


class Layout:
    """The Places of a family's tensors, for a model of these features. `has` tells which tensors the source holds."""

    def __init__(self, kind: str, config: dict[str, Any], has: Callable[[str], bool]):
        self.kind, self.config, self.has = kind, config, has
        self.names = HUGGINGFACE | NAMES.get(kind, {})
        self.special = LAYOUTS.get(kind)

    def value(self, key: str, layer: int) -> Any:
        return feature(self.config, key, layer)

    def name(self, ours: str) -> str:
        try:
            return source_name(self.names, ours)
        except KeyError:
            raise ConvertError(
                f"the {ours!r} of a {self.kind} model has no name in tools/tern/convert/families/layouts.py yet"
            ) from None

    def places(self, slot: Slot) -> list[Place]:
        layer, part = slot.layer_and_part
        found = self.special(self, slot, layer, part) if self.special else None
        if found is None and part in ("gate", "up", "down") and self.value("n_experts", layer):
            found = _experts(self, slot, layer, part)
        found = found if found is not None else [plain(self.name(slot.name), slot)]
        factor = self.config.get(FACTORS, {}).get(part)
        return found if factor is None else [replace(place, times=factor) for place in found]


def _fused(at: Layout, slot: Slot, layer: int, part: str, name: str, parts: dict[str, int]) -> list[Place]:
    """`part` begins where those before it in the fused tensor end; `parts` are their rows."""
    first = sum(list(parts.values())[: list(parts).index(part.removesuffix("_bias"))])
    name = name.format(layer)
    name = name.removesuffix("weight") + "bias" if slot.vector else name
    return [rows_of(name, slot, first + np.arange(slot.rows), sum(parts.values()))]


def _qkv_rows(at: Layout, layer: int) -> dict[str, int]:
    d = at.value("head_dim", layer)
    q, kv = at.value("n_heads", layer) * d, at.value("n_kv_heads", layer) * d
    return {"q": q, "k": kv, "v": kv}


QKV = ("q", "k", "v", "q_bias", "k_bias", "v_bias")


def _phi3(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    if part in QKV:
        return _fused(at, slot, layer, part, LAYER + "self_attn.qkv_proj.weight", _qkv_rows(at, layer))
    if part in ("gate", "up"):
        return _fused(
            at, slot, layer, part, LAYER + "mlp.gate_up_proj.weight", {"gate": slot.rows, "up": slot.rows}
        )
    return None


def _neighbours(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """RoPE turns neighbours, so q and k are put in the other order: rows, biases and norms; of the dimensions that turn."""
    if part not in ("q", "k", "q_bias", "k_bias", "q_norm", "k_norm"):
        return None
    heads, d = at.value("n_heads" if part[0] == "q" else "n_kv_heads", layer), at.value("head_dim", layer)
    order = interleaved(heads, d, 2 * len(at.config["rope.0.inv_freq"]))
    if part.endswith("_norm"):
        return [Place(at.name(slot.name), (heads, d), order)]
    return [rows_of(at.name(slot.name), slot, order, slot.rows)]


def _glm4(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    return _phi3(at, slot, layer, part) if part in ("gate", "up") else _neighbours(at, slot, layer, part)


def _gemma(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Norm weights are stored less one."""
    if part.endswith("_norm"):
        return [Place(at.name(slot.name), (slot.rows,), add_one=True)]
    return None


def _gemma4(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
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


def _gemma3n(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """The matrices that make the streams are tensors of their own; those that mix them are vectors here."""
    n = at.config["n_streams"]
    if part in ("altup_in", "altup_out"):
        name = "altup_projections" if part == "altup_in" else "altup_unembed_projections"
        return [Place(f"model.{name}.{i}.weight", (slot.rows, slot.k)) for i in range(n - 1)]
    if part in ("altup_predict", "altup_correct"):
        rows, name = (n * n, "prediction") if part == "altup_predict" else (n, "correction")
        return [Place(f"{LAYER.format(layer)}altup.{name}_coefs.weight", (rows, n))]
    return _gemma4(at, slot, layer, part)


def _olmo(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    return [Place(slot.name, (slot.rows,), ones=True)] if part.endswith("_norm") else None


def _neox(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Rows of q, k and v lie together, head by head."""
    if part == "head" and at.has("lm_head.weight"):
        return [plain("lm_head.weight", slot)]
    if part not in QKV:
        return None
    n, d = at.value("n_heads", layer), at.value("head_dim", layer)
    rows = heads_of("qkv".index(part[0]) * d, n, 3 * d, d)
    name = source_name(at.names, f"layer.{layer}.qkv_bias" if slot.vector else f"layer.{layer}.qkv")
    return [rows_of(name, slot, rows, 3 * n * d)]


def _falcon(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
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


def _stablelm(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Each head's norm is a tensor of its own."""
    if part not in ("q_norm", "k_norm"):
        return None
    heads = at.value("n_heads" if part == "q_norm" else "n_kv_heads", layer)
    name = LAYER.format(layer) + f"self_attn.{part[0]}_layernorm.norms."
    return [Place(f"{name}{h}.weight", (slot.rows // heads,)) for h in range(heads)]


def _gpt2(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
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


def _experts(at: Layout, slot: Slot, layer: int, part: str) -> list[Place]:
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


def _mixtral(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    if part == "router" and not at.has(at.name(slot.name)):
        return [plain(LAYER.format(layer) + "mlp.gate.weight", slot)]
    return None


def _swapped(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """RoPE turns the other way, which is our way of heads whose halves are swapped; norms have no weights."""
    if part.endswith("_norm"):
        return [Place(slot.name, (slot.rows,), ones=True)]
    if part not in ("q", "k", "q_bias", "k_bias"):
        return None
    d = at.value("head_dim", layer)
    order = np.arange(slot.rows).reshape(-1, 2, d // 2)[:, ::-1].ravel()
    return [rows_of(at.name(slot.name), slot, order, slot.rows)]


def _apertus(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    if part != "xielu":
        return None
    name = LAYER.format(layer) + "mlp.act_fn."
    return [Place(name + "alpha_p", (1,)), Place(name + "alpha_n", (1,)), Place(name + "beta", ()), Place(name + "eps", ())]


def _opt(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """The first two learned positions are not used."""
    if part != "positions":
        return None
    dim = at.config["dim"]
    return [Place(at.name(slot.name), (at.config["max_seq"] + 2, dim), 2 * dim + np.arange(slot.rows))]


def _bitnet(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Matrices of -1, 0 and 1 have a scale beside them, and four rows in one."""
    if layer < 0 or slot.vector:
        return None
    scale = (name := at.name(slot.name)) + "_scale"
    if not at.has(scale):
        return None
    return [Place(name, (slot.rows // 4, slot.k), ternary=scale)]


def _neox_japanese(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """The bias of the output lies beside its matrix."""
    if part == "o_bias":
        return [plain(at.name(f"layer.{layer}.o").removesuffix(".weight") + "_bias", slot)]
    return _neox(at, slot, layer, part)


def _mpt(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    return _fused(at, slot, layer, part, MPT + "attn.Wqkv.weight", _qkv_rows(at, layer)) if part in QKV else None


def _codegen(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
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


def _gpt_bigcode(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Keys and values of one head below the queries, or q, k and v head by head."""
    if part == "positions":
        return [Place(at.name(slot.name), (at.config["max_seq"], at.config["dim"]))]
    if part in QKV and at.value("n_kv_heads", layer) == at.value("n_heads", layer):
        return _neox(at, slot, layer, part)
    return _fused(at, slot, layer, part, at.names["qkv"], _qkv_rows(at, layer)) if part in QKV else None


def _learned(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    return [Place(at.name(slot.name), (at.config["max_seq"], at.config["dim"]))] if part == "positions" else None


def _first_of(at: Layout, *names: str) -> str:
    """The first of these names that the source holds, or the last."""
    return next((name for name in names if at.has(name)), names[-1])


def _granitemoe(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """All experts in one tensor, with gate above up; so is the shared one."""
    prefix, n = LAYER.format(layer) + "block_sparse_moe.", slot.matrices
    if part == "router":
        return [plain(_first_of(at, prefix + "router.layer.weight", prefix + "router.weight"), slot)]
    if part in ("shared_gate", "shared_up"):
        rows = np.arange(slot.rows) + (slot.rows if part == "shared_up" else 0)
        return [rows_of(LAYER.format(layer) + "shared_mlp.input_linear.weight", slot, rows, 2 * slot.rows)]
    if part == "down":
        name = _first_of(at, prefix + "output_linear.weight", prefix + "experts.down_proj")
        return [Place(name, (n, slot.rows, slot.k), index=e) for e in range(n)]
    if part in ("gate", "up"):
        name = _first_of(at, prefix + "input_linear.weight", prefix + "experts.gate_up_proj")
        rows = np.arange(slot.rows) + (slot.rows if part == "up" else 0)
        return [Place(name, (n, 2 * slot.rows, slot.k), rows, index=e) for e in range(n)]
    return None


def _ernie_moe(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    if part == "router_select_bias":
        name, at_last = "moe_statics.e_score_correction_bias", LAYER.format(layer) + "mlp."
        return [Place(_first_of(at, at_last + name, at_last + "gate." + name), (1, slot.rows))]
    return _neighbours(at, slot, layer, part)


def _exaone_moe(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    if part == "router_select_bias":
        published = LAYER.format(layer) + "mlp.e_score_correction_bias"
        return [plain(_first_of(at, published, at.name(slot.name)), slot)]
    return None


def _renamed(at: Layout, slot: Slot, published: dict[str, str]) -> list[Place] | None:
    """A tensor whose name in published files is not the reference's."""
    layer, part = slot.layer_and_part
    if part not in published:
        return None
    return [plain(_first_of(at, LAYER.format(layer) + published[part], at.name(slot.name)), slot)]


def _hy_v3(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    shared = {f"shared_{each}": f"mlp.shared_mlp.{each}_proj.weight" for each in ("gate", "up", "down")}
    return _renamed(at, slot, shared | {"router": "mlp.router.gate.weight", "router_select_bias": "mlp.expert_bias"})


def _kolibri(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    names = {"attn_post_norm": "post_attn_norm.weight", "ffn_post_norm": "post_ffn_norm.weight"}
    return _renamed(at, slot, names | {"router_select_bias": "moe.router.expert_bias"})


def _laguna(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    shared = {f"shared_{each}": f"mlp.shared_expert.{each}_proj.weight" for each in ("gate", "up", "down")}
    return _renamed(at, slot, shared | {"router_select_bias": "mlp.experts.e_score_correction_bias"})


def _flint(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    return _renamed(at, slot, {"sinks": "self_attn.softmax_offset"})


def _axk1(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Published files have no bias of the choice."""
    prefix = LAYER.format(layer)
    if part == "router_select_bias" and at.has(prefix + "mlp.gate.weight") and not at.has(at.name(slot.name)):
        return [Place(slot.name, (slot.rows,), ones=True, times=0.0)]
    return _renamed(at, slot, {"ffn_post_norm": "post_mlp_layernorm.weight"}) or _latent(at, slot, layer, part)


def _cohere2_moe(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """The mean of chosen and shared experts: the router's factor, and half of the weights."""
    if part == "shared_down" and at.value("router_factor", layer) == 0.5:
        return [Place(at.name(slot.name), (slot.rows, slot.k), times=0.5)]
    return _neighbours(at, slot, layer, part)


def _aria(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Experts [experts, k, rows], gate before up."""
    if part not in ("gate", "up", "down"):
        return None
    prefix, n = LAYER.format(layer) + "mlp.experts.", slot.matrices
    if part == "down":
        name = _first_of(at, prefix + "fc2.weight", prefix + "down_proj")
        return [Place(name, (n, slot.k, slot.rows), transposed=True, index=e) for e in range(n)]
    name, rows = _first_of(at, prefix + "fc1.weight", prefix + "gate_up_proj"), np.arange(slot.rows) + (slot.rows if part == "up" else 0)
    return [Place(name, (n, slot.k, 2 * slot.rows), rows, transposed=True, index=e) for e in range(n)]


def _dbrx(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """The experts' rows one below the other, those of down as columns."""
    if part in QKV:
        return _fused(at, slot, layer, part, DBRX + "norm_attn_norm.attn.Wqkv.weight", _qkv_rows(at, layer))
    if part not in ("gate", "up", "down"):
        return None
    n, name = slot.matrices, DBRX.format(layer) + "ffn.experts.mlp." + {"gate": "w1", "up": "v1", "down": "w2"}[part]
    if part == "down":
        return [Place(name, (n * slot.k, slot.rows), transposed=True, first=e * slot.k) for e in range(n)]
    return [rows_of(name, slot, e * slot.rows + np.arange(slot.rows), n * slot.rows) for e in range(n)]


def _sinusoids(at: Layout, slot: Slot, rows: int, table: Callable[[], np.ndarray]) -> list[Place]:
    """Positions that the reference computes, the first of them in row `rows`; old files have them."""
    name, total, skip = at.name(slot.name), at.config["max_seq"] + rows, rows * at.config["dim"]
    given = None if at.has(name) else table()[rows:].reshape(-1)
    return [Place(name, (total, at.config["dim"]), skip + np.arange(slot.rows), given=given)]


def _xglm(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """sin and cos of position * 10000^(-i / (half - 1)), with the roundings of f32 that the reference has."""

    def table() -> np.ndarray:
        half, f4 = at.config["dim"] // 2, np.float32
        freq = np.exp(np.arange(half, dtype=f4) * f4(-math.log(10000) / (half - 1)))
        angle = np.arange(at.config["max_seq"] + 2, dtype=f4)[:, None] * freq
        return np.concatenate([np.sin(angle), np.cos(angle)], axis=1)

    return _sinusoids(at, slot, 2, table) if part == "positions" else None


def _ctrl(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """sin and cos of position / 10000^(2 i / dim), with the roundings of f32 that the reference has."""

    def table() -> np.ndarray:
        dim, f4 = at.config["dim"], np.float32
        rates = f4(1) / f4(10000) ** (np.arange(0, dim, 2, dtype=f4) / f4(dim))
        angle = np.arange(at.config["max_seq"], dtype=f4)[:, None] * rates
        return np.concatenate([np.sin(angle), np.cos(angle)], axis=1)

    return _sinusoids(at, slot, 0, table) if part == "positions" else None


def _mllama(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Eight tokens of pictures stand below the others."""
    return [rows_of(at.name(slot.name), slot, np.arange(slot.rows), slot.rows + 8)] if part == "embed" else None


def _phimoe(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    if part != "router":
        return None
    published = LAYER.format(layer) + "block_sparse_moe.gate.weight"
    return [plain(_first_of(at, published, LAYER.format(layer) + "mlp.router.weight"), slot)]


def _minimax_m2(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    name = {"router": "gate.weight", "router_select_bias": "e_score_correction_bias"}.get(part)
    if name is None:
        return None
    names = [LAYER.format(layer) + where + name for where in ("block_sparse_moe.", "mlp.")]
    return [plain(_first_of(at, *names), slot)]


def _latent(at: Layout, slot: Slot, layer: int, part: str, neighbours: bool = True) -> list[Place] | None:
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


def _kimi_linear(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """transformers has the parts of the decay in a module of their own, and calls the feed-forward step mlp."""
    prefix, name = LAYER.format(layer) + "self_attn.", ""
    if part in ("mix_decay_down", "mix_decay", "mix_decay_bias", "mix_a"):
        name = {"mix_decay_bias": "dt_bias", "mix_a": "A_log"}.get(part) or at.name(slot.name).removeprefix(prefix)
        name = _first_of(at, prefix + name, prefix + "forget_gate." + name)
    if part in ("mix_decay_bias", "mix_a"):
        shape = (1, 1, slot.rows, 1) if part == "mix_a" and at.kind == "kimi_linear" else (slot.rows,)
        return [Place(name, shape, exp=part == "mix_a")]
    if part.startswith(("router", "shared_")):
        published = at.name(slot.name).replace(".mlp.", ".block_sparse_moe.")
        name = _first_of(at, published, at.name(slot.name))
    if name:
        return [plain(name, slot)]
    if at.value("kv_rank", layer):
        return _latent(at, slot, layer, part, at.kind != "kimi_linear")
    return _stacked(at, slot, layer, part, "self_attn.") if part.startswith("mix_") else None


def _minicpm3(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    return _latent(at, slot, layer, part, False)


def _gpt_oss(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
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


def _llama4(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Norms of q and k have no weights, RoPE turns neighbours; experts [experts, k, rows], gate before up."""
    if part in ("q_norm", "k_norm"):
        return [Place(slot.name, (slot.rows,), ones=True)]
    if part not in ("gate", "up", "down") or not at.value("n_experts", layer):
        return _neighbours(at, slot, layer, part)
    name, n = LAYER.format(layer) + "feed_forward.experts.", slot.matrices
    if part == "down":
        return [Place(name + "down_proj", (n, slot.k, slot.rows), transposed=True, index=e) for e in range(n)]
    rows = np.arange(slot.rows) + (slot.rows if part == "up" else 0)
    shape = (n, slot.k, 2 * slot.rows)
    return [Place(name + "gate_up_proj", shape, rows, transposed=True, index=e) for e in range(n)]


def _qwen3_next(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
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
    return _qwen3_5(at, slot, layer, part)


def _of_states(slot: Slot, layer: int, part: str, where: str) -> list[Place] | None:
    """Decay and its bias of a delta net."""
    if part not in ("mix_a", "mix_decay_bias"):
        return None
    name = LAYER.format(layer) + where + ("A_log" if part == "mix_a" else "dt_bias")
    return [Place(name, (slot.rows,), exp=part == "mix_a")]


def _qwen3_5(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Query and gate of attention lie together, head by head."""
    if part == "mix_conv":
        return states.convolution(at, slot, layer)
    if part in ("q", "q_bias", "attn_gate"):
        heads, d = at.value("n_heads", layer), at.value("head_dim", layer)
        name = source_name(at.names, f"layer.{layer}." + ("q_bias" if slot.vector else "q"))
        return [rows_of(name, slot, heads_of(d if part == "attn_gate" else 0, heads, 2 * d, d), 2 * heads * d)]
    return _of_states(slot, layer, part, "linear_attn.") or (_gemma(at, slot, layer, part) if part != "mix_norm" else None)


def _stacked(at: Layout, slot: Slot, layer: int, part: str, where: str) -> list[Place] | None:
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
    return states.convolution(at, slot, layer) if part == "mix_conv" else _of_states(slot, layer, part, where)


def _olmo_hybrid(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    published = {"attn_norm": "attention_layer_norm", "ffn_norm": "feedforward_layer_norm"}.get(part)
    if published:
        return [plain(_first_of(at, LAYER.format(layer) + published + ".weight", at.name(slot.name)), slot)]
    return _stacked(at, slot, layer, part, "linear_attn.")


def _granite_hybrid(at: Layout, slot: Slot, layer: int, part: str) -> list[Place] | None:
    """Mamba2, and Granite's experts; without experts the shared one is the whole step."""
    if part in ("gate", "up") and not at.value("n_experts", layer):
        rows = np.arange(slot.rows) + (slot.rows if part == "up" else 0)
        return [rows_of(source_name(at.names, f"layer.{layer}.gate"), slot, rows, 2 * slot.rows)]
    if part == "down" and not at.value("n_experts", layer):
        return None
    return states.mamba2(at, slot, layer, part) or _granitemoe(at, slot, layer, part)


LAYOUTS: dict[str, Callable[[Layout, Slot, int, str], list[Place] | None]] = {
    "gemma": _gemma,
    "gemma2": _gemma,
    "gemma3_text": _gemma,
    "vaultgemma": _gemma,
    "gemma3n_text": _gemma3n,
    "gemma4_text": _gemma4,
    "gemma4_unified_text": _gemma4,
    "nemotron": _gemma,
    "phi3": _phi3,
    "phi4_multimodal": _phi3,
    "mllama_text_model": _mllama,
    "olmo": _olmo,
    "gpt_neox": _neox,
    "falcon": _falcon,
    "stablelm": _stablelm,
    "cohere": _neighbours,
    "cohere2": _neighbours,
    "ernie4_5": _neighbours,
    "lfm2": states.lfm2,
    "lfm2_moe": states.lfm2,
    "lfm3": states.lfm2,
    "nemotron_h": states.nemotron_h,
    "granitemoehybrid": _granite_hybrid,
    "bamba": states.mamba2,
    "mamba2": states.mamba2,
    "falcon_h1": states.mamba2,
    "qwen3_next": _qwen3_next,
    "qwen3_5_text": _qwen3_5,
    "qwen3_5_moe_text": _qwen3_5,
    "olmo_hybrid": _olmo_hybrid,
    "gpt2": _gpt2,
    "gpt-sw3": _gpt2,
    "mixtral": _mixtral,
    "gpt_oss": _gpt_oss,
    "nanochat": _swapped,
    "apertus": _apertus,
    "opt": _opt,
    "biogpt": _opt,
    "xglm": _xglm,
    "ctrl": _ctrl,
    "persimmon": _neox,
    "bitnet": _bitnet,
    "gpt_neox_japanese": _neox_japanese,
    "bloom": _neox,
    "mpt": _mpt,
    "gptj": _neighbours,
    "codegen": _codegen,
    "gpt_neo": _learned,
    "gpt_bigcode": _gpt_bigcode,
    "phimoe": _phimoe,
    "granitemoe": _granitemoe,
    "granitemoeshared": _granitemoe,
    "granitemoe_swa": _granitemoe,
    "ernie4_5_moe": _ernie_moe,
    "exaone_moe": _exaone_moe,
    "minimax_m2": _minimax_m2,
    "glm": _glm4,
    "hy_v3": _hy_v3,
    "kolibri1": _kolibri,
    "flint": _flint,
    "laguna": _laguna,
    "axk1": _axk1,
    "cohere2_moe": _cohere2_moe,
    "aria_text": _aria,
    "dbrx": _dbrx,
    "deepseek_v2": _latent,
    "deepseek_v3": _latent,
    "glm4_moe_lite": _latent,
    "youtu": _latent,
    "mistral4": _latent,
    "llama4_text": _llama4,
    "minicpm3": _minicpm3,
    "kimi_linear": _kimi_linear,
    "bailing_hybrid": _kimi_linear,
    "glm4": _glm4,
    "helium": _neighbours,
}
