"""The Places of our tensors in a GGUF file, as llama.cpp's own converter stored their rows; gguf.py says what files mean."""

from dataclasses import replace
from typing import Any

import numpy as np

from .features import QK_HEAD, RULE_MAMBA2, Slot, feature
from .gguf import Architecture
from .gguf_find import Facts
from .gguf_names import BLOCK, NAMES
from .names import source_name
from .places import Place, heads_of, interleaved
from .states import mamba2_rows

IN_THREE = ("mix_in", "mix_conv", "mix_a", "mix_decay_bias")
QKV, GATE_UP = ("q", "k", "v"), ("gate", "up")


class GgufLayout:
    """The Places of a model's tensors in a GGUF file. `entries`: its tensors, with shapes slowest dimension first."""

    def __init__(self, arch: Architecture, facts: Facts, config: dict[str, Any], entries: dict[str, Any]):
        self.arch, self.config, self.entries, self.given = arch, config, entries, facts.given
        self.names = NAMES | arch.names | facts.names

    def value(self, key: str, layer: int) -> Any:
        return feature(self.config, key, layer)

    def name(self, part: str, layer: int, vector: bool) -> str:
        """The tensor of our `part`, where `part` is named without _bias."""
        name = self.names[part].format(layer)
        return name.removesuffix("weight") + "bias" if vector and name.endswith("weight") else name

    def places(self, slot: Slot) -> list[Place]:
        layer, part = slot.layer_and_part
        base, biased = part.removesuffix("_bias"), part.endswith("_bias")
        if self.arch.ones and base.endswith("_norm"):
            return [Place(slot.name, (slot.rows,), ones=True)]
        if part in ("altup_in", "altup_out"):
            n = slot.matrices
            return [Place(self.names[part], (n, slot.rows, slot.k), index=i) for i in range(n)]
        if part in ("altup_predict", "altup_correct"):
            n = self.config["n_streams"]
            return [Place(self.names[part].format(layer), (slot.rows // n, n))]
        if part in ("q_norm", "k_norm") and self.arch.family == "llama4_text":
            return [Place(slot.name, (slot.rows,), ones=True)]
        if slot.name in self.given:
            return [Place(slot.name, (slot.rows,), given=self.given[slot.name])]
        if "kv_up" in self.names and layer >= 0 and self.value("kv_rank", layer):
            found = self._latent(part, slot, layer)
            if found:
                return found
        if part == "shared_down" and self.arch.family == "cohere2_moe":  # layouts.py says why
            return [Place(self.name(part, layer, False), (slot.rows, slot.k), times=0.5)]
        if part == "v_norm":
            return [Place(slot.name, (slot.rows,), ones=True)]
        if part == "router_norm":
            return [Place(self.name(part, layer, False), (slot.rows,), times=slot.rows**-0.5)]
        if self.arch.in_three and part in IN_THREE:
            return self._in_three(part, slot, layer)
        if part.startswith("mix_") and (not self.value("v_heads", layer) or self.value("recurrence", layer) == RULE_MAMBA2):
            return [self._state(part, slot, layer)]
        if "ba" in self.names and (part.startswith("mix_") or part in ("q", "attn_gate")):
            return [self._delta(part, slot, layer)]
        order = self._order(base, layer)
        if base in QKV and self.name("qkv", layer, False) in self.entries:
            return [self._fused("qkv", base, order, slot, layer, biased)]
        if base in GATE_UP and self._gate_in_up(layer):
            return [self._fused("up", base, order, slot, layer, biased)]
        if base in (*GATE_UP, "down") and self.value("n_experts", layer):
            return self._experts(base, slot, layer, biased)
        return [self._place(self.name(base, layer, biased), self._shape(slot), order)]

    def _in_three(self, part: str, slot: Slot, layer: int) -> list[Place]:
        """Of a delta net whose q, k and v, and their convolutions, are tensors of their own."""
        name, width = self.names.get(part, "").format(layer), self.value("conv_width", layer)
        keys, values = (self.value(f"{p}_heads", layer) * self.value(f"{p}_dim", layer) for p in "kv")
        rows = {"q": keys, "k": keys, "v": values}
        if part == "mix_in":
            return [Place(BLOCK.format(layer) + f"attn_{p}.weight", (rows[p], slot.k), stacked=True) for p in rows]
        if part == "mix_conv":
            taps = [(t, p) for t in range(width) for p in rows]
            places = [self._place(name.format(p), (rows[p], 1, width), np.arange(rows[p]) * width + t) for t, p in taps]
            return [replace(place, stacked=True) for place in places]
        place = self._place(name, (slot.rows,))
        return [replace(place, times=-1.0) if part == "mix_a" else place]

    def _state(self, part: str, slot: Slot, layer: int) -> Place:
        """Of Mamba2, or of a short convolution."""
        width, found = self.value("conv_width", layer), mamba2_rows(self.value, layer, part) if self.value("v_heads", layer) else None
        if found and part in ("mix_in", "mix_gate", "mix_decay"):
            return Place(self.names["mix_in"].format(layer), (found[1], slot.k), found[0])
        name = source_name(self.names, f"layer.{layer}.{part}")
        if part == "mix_conv" and not found:
            channels = slot.rows // width
            return self._place(name, (channels, width), (np.arange(channels) * width + np.arange(width)[:, None]).ravel())
        if part == "mix_conv":
            return self._place(name, (found[1], width), found[0])
        place = self._place(name, self._shape(slot), found[0] if found else None)
        return replace(place, times=-1.0) if part == "mix_a" else place

    def _delta(self, part: str, slot: Slot, layer: int) -> Place:
        """Of a layer with a state; and query and gate of attention, which lie together, head by head."""
        heads, keys = self.value("v_heads", layer), self.value("k_heads", layer)
        v_dim, width, share = self.value("v_dim", layer), self.value("conv_width", layer), heads // max(keys, 1)
        name, order = self.names[part].format(layer), np.arange(heads)
        if self.arch.tiled:
            order = order % max(share, 1) * keys + order // max(share, 1)
        values = (order[:, None] * v_dim + np.arange(v_dim)).ravel()  # source numbers of values
        channels = np.concatenate([np.arange(2 * keys * self.value("k_dim", layer)), 2 * keys * self.value("k_dim", layer) + values])
        if part in ("q", "attn_gate"):
            d, n = self.value("head_dim", layer), self.value("n_heads", layer)
            return Place(name, (2 * n * d, slot.k), heads_of(0 if part == "q" else d, n, 2 * d, d))
        if part in ("mix_beta", "mix_decay") and (ba := self.names["ba"].format(layer)) in self.entries:
            rows = heads_of(share if part == "mix_decay" else 0, keys, 2 * share, share)
            return Place(ba, (2 * heads, slot.k), rows)
        if part == "mix_conv":
            return self._place(name, (len(channels), width), (channels * width + np.arange(width)[:, None]).ravel())
        if part == "mix_out":
            return Place(name, (slot.rows, slot.k), columns=values if self.arch.tiled else None)
        if part == "mix_norm":
            return Place(name, (slot.rows,))
        rows = {"mix_in": channels, "mix_gate": values}.get(part, order)
        return Place(name, self._shape(slot), rows, times=-1.0 if part == "mix_a" else 1.0)

    def _latent(self, part: str, slot: Slot, layer: int) -> list[Place] | None:
        """Today the matrices of keys and values lie apart, [heads, rank, nope] and [heads, value, rank]; before, head by head
        in one. Dimensions that turn are stored as published: MiniCPM3's halves, the others' neighbours."""
        heads, nope, value, rank = (self.value(key, layer) for key in ("n_heads", "nope_dim", "value_dim", "kv_rank"))
        rotary, name = self.value("head_dim", layer) - rank, self.names.get(part, "").format(layer)
        turned = np.arange(rotary)
        if self.value("rope_set", layer) and self.arch.family != "minicpm3":
            turned = np.concatenate([np.arange(0, rotary, 2), np.arange(1, rotary, 2)])
        if part in ("k_up", "v_up") and name in self.entries:
            return [Place(name, (heads, slot.rows, slot.k), index=h) for h in range(heads)]
        each, joined = nope + value, self.names["kv_up"].format(layer)
        if part == "k_up":
            return [Place(joined, (heads * each, rank), transposed=True, first=h * each) for h in range(heads)]
        if part == "v_up":
            return [Place(joined, (heads * each, rank), h * each + nope + np.arange(value)) for h in range(heads)]
        if part == "q":
            head = np.concatenate([np.arange(nope), nope + turned])
            return [Place(name, self._shape(slot), (np.arange(heads)[:, None] * (nope + rotary) + head).ravel())]
        return [Place(name, self._shape(slot), np.concatenate([np.arange(rank), rank + turned]))] if part == "k" else None

    def _shape(self, slot: Slot) -> tuple[int, ...]:
        return (slot.rows,) if slot.vector else (slot.rows, slot.k)

    def _place(self, name: str, shape: tuple[int, ...], rows: np.ndarray | None = None, index: int | None = None) -> Place:
        """Shapes that differ only in how a vector is written (ones, heads) are the same."""
        entry = self.entries.get(name)
        if entry is not None and self._squeezed(entry.shape) == self._squeezed(shape):
            shape = entry.shape
        elif entry is not None and len(shape) == 1 and np.prod(entry.shape, dtype=object) == shape[0]:
            shape = entry.shape  # norms of heads
        return Place(name, shape, rows, index=index)

    @staticmethod
    def _squeezed(shape: tuple[int, ...]) -> list[int]:
        return [n for n in shape if n != 1]

    def _order(self, base: str, layer: int) -> np.ndarray | None:
        """The file's rows in our order, where its heads turn neighbours."""
        if not self.arch.interleaved or base not in ("q", "k", "q_norm", "k_norm"):
            return None
        heads = self.value("n_heads" if base[0] == "q" else "n_kv_heads", layer)
        if base.endswith("_norm") and self.value("qk_norm", layer) == QK_HEAD:
            heads = 1
        d = self.value("head_dim", layer)
        return interleaved(heads, d, 2 * len(self.config["rope.0.inv_freq"]) if "rope.0.inv_freq" in self.config else d)

    def _gate_in_up(self, layer: int) -> bool:
        """Whether the rows of gate stand above those of up in one tensor."""
        if not self.value("ffn_gated", layer) or self.value("n_experts", layer):
            return False
        return self.name("gate", layer, False) not in self.entries and self.name("up", layer, False) in self.entries

    def _fused(self, name: str, base: str, order: np.ndarray | None, slot: Slot, layer: int, biased: bool) -> Place:
        """The tensor `name` is q, k and v, or gate and up, one below the other."""
        d, hidden = self.value("head_dim", layer), self.value("hidden", layer)
        q, kv = self.value("n_heads", layer) * d, self.value("n_kv_heads", layer) * d
        parts = {"q": q, "k": kv, "v": kv} if name == "qkv" else {"gate": hidden, "up": hidden}
        first = sum(list(parts.values())[: list(parts).index(base)])
        total = sum(parts.values())
        rows = first + (np.arange(slot.rows) if order is None else order)
        return self._place(self.name(name, layer, biased), (total,) if slot.vector else (total, slot.k), rows)

    def _experts(self, base: str, slot: Slot, layer: int, biased: bool) -> list[Place]:
        """All experts in one tensor, or, in old files, one for each."""
        n = self.value("n_experts", layer)
        rows = slot.rows // n if slot.vector else slot.rows
        shape = (rows,) if slot.vector else (rows, slot.k)
        merged = self.name(base + "_exps", layer, biased)
        old, both = self.name(base, layer, biased), BLOCK.format(layer) + "ffn_gate_up_exps.weight"
        if base in GATE_UP and both in self.entries:
            part = np.arange(rows) + (rows if base == "up" else 0)
            return [Place(both, (n, 2 * rows, slot.k), part, index=e) for e in range(n)]
        if merged not in self.entries and old.replace(".weight", ".0.weight") in self.entries:
            return [self._place(old.replace(".weight", f".{e}.weight"), shape) for e in range(n)]
        return [self._place(merged, (n, *shape), index=e) for e in range(n)]
