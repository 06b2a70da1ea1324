"""Golden tests: the text files tests/golden/*.txt, and the models that they speak of as Hugging Face directories.

A golden file is lines of `key values`; tests/golden.h reads the same lines in C. Floats are the eight hex digits of
their f32 bits. `config` is the config.json that transformers wrote; keys from `n_layers` to `weights_seed` describe the
same model in the words of src/model/FORMAT.md; the prompt is rule(prompt_seed); `row P` are the logits at position P.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

MASK = (1 << 64) - 1

# Hugging Face's names of the tensors of this graph, {} the layer; the other side is FORMAT.md's.
NAMES = {
    "attn_norm": "input_layernorm.weight",
    "q": "self_attn.q_proj.weight",
    "k": "self_attn.k_proj.weight",
    "v": "self_attn.v_proj.weight",
    "o": "self_attn.o_proj.weight",
    "ffn_norm": "post_attention_layernorm.weight",
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
    "q_bias": "self_attn.q_proj.bias",
    "k_bias": "self_attn.k_proj.bias",
    "v_bias": "self_attn.v_proj.bias",
    "o_bias": "self_attn.o_proj.bias",
    "gate_bias": "mlp.gate_proj.bias",
    "up_bias": "mlp.up_proj.bias",
    "down_bias": "mlp.down_proj.bias",
}


def hugging_face_name(name: str) -> str:
    """`layer.3.q` is `model.layers.3.self_attn.q_proj.weight`."""
    if name.startswith("layer."):
        _, layer, part = name.split(".")
        return f"model.layers.{layer}.{NAMES[part]}"
    return {"embed": "model.embed_tokens.weight", "final_norm": "model.norm.weight", "head": "lm_head.weight"}[name]


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
    features: dict  # FORMAT.md's keys: ints, lists of ints, or float arrays
    weights_seed: int
    prompt_seed: int
    prompt: int  # tokens
    greedy: list[int]
    quirks: dict[str, float] = field(default_factory=dict)  # change of the logits without it, in bounds
    rows: dict[int, np.ndarray] = field(default_factory=dict)  # position: logits [vocab]

    def tokens(self) -> list[int]:
        """Prompt and greedy continuation."""
        return prompt_ids(self.prompt_seed, self.prompt, self.features["vocab"]) + self.greedy

    def write(self, path: Path) -> None:
        """Writes the file."""
        lines = [f"name {self.name}", f"made {self.made}", f"config {json.dumps(self.config, sort_keys=True)}"]
        lines += [f"{key} {_words(value)}" for key, value in self.features.items()]
        lines += [f"weights_seed {self.weights_seed}", f"prompt_seed {self.prompt_seed}", f"prompt {self.prompt}"]
        lines += [f"greedy {_words(self.greedy)}"]
        lines += [f"quirk {ratio:.0f} {name}" for name, ratio in self.quirks.items()]
        lines += [f"row {at} {_hex(row)}" for at, row in self.rows.items()]
        path.write_text("\n".join(lines) + "\n")


def read(path: Path) -> Golden:
    """The golden test in a file, without its features of f32 (only C needs those)."""
    golden = Golden("", "", {}, {}, 0, 0, 0, [])
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
        elif key == "window":
            golden.features[key] = [int(word) for word in value.split()]
        elif value.isdigit():
            golden.features[key] = int(value)
    return golden


def published_config(config: dict) -> dict:
    """The same config.json in the spelling that models were published with before transformers 5."""
    old = {key: value for key, value in config.items() if key not in ("rope_parameters", "dtype", "layer_types")}
    rope = dict(config.get("rope_parameters") or {})
    old["rope_theta"] = rope.pop("rope_theta", 10000.0)
    old["rope_scaling"] = rope if rope.get("rope_type", "default") != "default" else None
    old["torch_dtype"] = config.get("dtype", "float32")
    old["transformers_version"] = "4.46.0"
    return old


def _hex(values: np.ndarray) -> str:
    return np.asarray(values, "<f4").view("<u4").astype(">u4").tobytes().hex()


def _words(value) -> str:
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return " ".join(_hex(value[i : i + 1]) for i in range(value.size))
    if isinstance(value, (list, tuple)):
        return " ".join(str(int(item)) for item in value)
    return str(int(value))
