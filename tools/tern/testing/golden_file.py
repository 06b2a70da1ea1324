"""Golden tests: the text files tests/golden/*.txt, and the models that they speak of as Hugging Face directories.

A golden file is lines of `key values`; tests/support/golden.h reads the same lines in C. Floats are the eight hex digits of
their f32 bits. `config` is the config.json that transformers wrote; `u64`, `f32` and `text` lines are the keys of the
same model in the words of src/weights/FORMAT.md, `tensor NAME rows k matrices any|f32` its tensors, whose values are
toy.h's for weights_seed; the prompt is rule(prompt_seed); `row P` are the logits at position P.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..convert.families.features import Slot
from . import toy

MASK = (1 << 64) - 1

def prompt_ids(seed: int, count: int, vocab: int) -> list[int]:
    """The prompt of a golden test: the top bits of a 64-bit congruential generator, modulo vocab."""
    state, ids = seed & MASK, []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) & MASK
        ids.append((state >> 33) % vocab)
    return ids


@dataclass
class Golden:
    """One golden test."""

    name: str
    made: str  # versions of the reference
    config: dict  # config.json as transformers wrote it
    keys: dict  # of the weights file (FORMAT.md)
    slots: list[Slot]
    weights_seed: int
    prompt_seed: int
    prompt: int  # tokens
    greedy: list[int]
    quirks: dict[str, float] = field(default_factory=dict)  # change of the logits without it, in bounds
    rows: dict[int, np.ndarray] = field(default_factory=dict)  # position: logits [vocab]
    ones: set[str] = field(default_factory=set)  # tensors that the source lacks: all values are 1

    def tokens(self) -> list[int]:
        """Prompt and greedy continuation."""
        return prompt_ids(self.prompt_seed, self.prompt, self.keys["vocab"]) + self.greedy

    def write(self, path: Path) -> None:
        """Writes the file."""
        lines = [f"name {self.name}", f"made {self.made}", f"config {json.dumps(self.config, sort_keys=True)}"]
        lines += [f"{_kind(value)} {key} {_words(value)}" for key, value in self.keys.items()]
        for slot in self.slots:
            kind = "ones" if slot.name in self.ones else "f32" if slot.vector or slot.exact else "any"
            lines.append(f"tensor {slot.name} {slot.rows} {slot.k} {slot.matrices} {kind}")
        lines += [f"weights_seed {self.weights_seed}", f"prompt_seed {self.prompt_seed}", f"prompt {self.prompt}"]
        lines += [f"greedy {_words(self.greedy)}"]
        lines += [f"quirk {ratio:.0f} {name}" for name, ratio in self.quirks.items()]
        lines += [f"row {at} {_hex(row)}" for at, row in self.rows.items()]
        path.write_text("\n".join(lines) + "\n")


    def weights(self) -> dict[str, np.ndarray]:
        """The tensors, f32: [rows, k], or [matrices, rows, k], or [rows] of a vector."""
        return {slot.name: weights_of(slot, self.weights_seed, self.ones) for slot in self.slots}


def weights_of(slot: Slot, seed: int, ones: set[str]) -> np.ndarray:
    """The values of a tensor of the golden model with this seed."""
    if slot.name in ones:
        return np.ones(slot.rows, np.float32)
    shape = (slot.rows,) if slot.vector else (slot.rows, slot.k)
    shape = (slot.matrices, *shape) if slot.matrices > 1 else shape
    return toy.values(slot.name, shape, seed)


def read(path: Path) -> Golden:
    """The golden test in a file; of its keys, those that are one whole number."""
    golden = Golden("", "", {}, {}, [], 0, 0, 0, [])
    for line in path.read_text().splitlines():
        key, _, value = line.partition(" ")
        if key in ("name", "made"):
            setattr(golden, key, value)
        elif key in ("weights_seed", "prompt_seed", "prompt"):
            setattr(golden, key, int(value))
        elif key == "config":
            golden.config = json.loads(value)
        elif key == "greedy":
            golden.greedy = [int(word) for word in value.split()]
        elif key == "row":
            at, digits = value.split()
            golden.rows[int(at)] = np.frombuffer(bytes.fromhex(digits), ">u4").astype("<u4").view("<f4")
        elif key == "quirk":
            ratio, name = value.split(" ", 1)
            golden.quirks[name] = float(ratio)
        elif key == "tensor":
            name, rows, k, matrices, kind = value.split()
            exact = kind != "any"
            golden.ones |= {name} if kind == "ones" else set()
            golden.slots.append(Slot(name, int(rows), int(k), exact and k == "1", int(matrices), exact and k != "1"))
        elif key == "u64" and value.count(" ") == 1:
            name, number = value.split()
            golden.keys[name] = int(number)
    return golden


# Families whose published files state layer_types, and RoPE as transformers 5 does.
STATED = {
    "bailing_hybrid", "bamba", "cwm", "falcon_h1", "gemma3n_text", "gemma4_text", "gemma4_unified_text", "granite_swa",
    "granitemoe_swa", "granitemoehybrid", "lfm2_moe", "lfm3", "mellum", "ministral", "ministral3",
    "olmo_hybrid", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next", "flint", "kolibri1", "cohere_compass_text", "laguna",
    "cohere2_moe", "kimi_linear",
}  # fmt: skip


def published_config(config: dict) -> dict:
    """The same config.json in the spelling that models were published with before transformers 5."""
    stated = config["model_type"] in STATED
    if stated and "full_attention" in (config.get("rope_parameters") or {}):
        return dict(config)
    gone = ("rope_parameters", "dtype") if stated else ("rope_parameters", "dtype", "layer_types")
    old = {key: value for key, value in config.items() if key not in gone}
    rope = dict(config.get("rope_parameters") or {})
    if "full_attention" in rope:  # Gemma 3, OLMo 3
        if config["model_type"] != "olmo3":
            old["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = dict(rope["full_attention"])
    if rope:
        neox = config["model_type"] in ("gpt_neox", "gpt_neox_japanese")
        old["rotary_emb_base" if neox else "rope_theta"] = rope.pop("rope_theta", 10000.0)
        if "partial_rotary_factor" in rope:
            old["rotary_pct" if neox else "partial_rotary_factor"] = rope.pop("partial_rotary_factor")
        old["rope_scaling"] = rope if rope.get("rope_type", "default") != "default" else None
    old["torch_dtype"] = config.get("dtype", "float32")
    old["transformers_version"] = "4.46.0"
    return old


def _hex(values: np.ndarray) -> str:
    return np.asarray(values, "<f4").view("<u4").astype(">u4").tobytes().hex()


def _kind(value) -> str:
    if isinstance(value, str):
        return "text"
    first = np.asarray(value).reshape(-1)[0]
    return "f32" if np.asarray(first).dtype.kind == "f" else "u64"


def _words(value) -> str:
    if isinstance(value, str):
        return value
    values = np.asarray(value).reshape(-1)
    if values.dtype.kind == "f":
        return " ".join(_hex(values[i : i + 1]) for i in range(values.size))
    return " ".join(str(int(item)) for item in values)
