"""Model families: from the keys of a config to the features of FORMAT.md, and the names of tensors.

To add a family that is one of the graphs here: write a function that calls `graph`, and add a row to
FAMILIES. Every key that the function reads is understood; HARMLESS keys do not change what the model
computes; NEUTRAL ones are understood at one value only; any other key is refused by its name.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import rope
from .errors import ConvertError
from .source import MAX_HEAD_DIM, MAX_HEADS, MAX_LAYERS, MAX_SEQ, MAX_VOCAB, MAX_WIDTH, MAX_WINDOW, in_range

REQUIRED = object()

HARMLESS = frozenset(
    {
        "_attn_implementation",
        "_attn_implementation_autoset",
        "_commit_hash",
        "_name_or_path",
        "architectures",
        "attention_dropout",
        "bos_token_id",
        "chunk_size_feed_forward",
        "dtype",
        "eos_token_id",
        "finetuning_task",
        "gradient_checkpointing",
        "hidden_dropout",
        "id2label",
        "initializer_range",
        "is_decoder",
        "is_llama_config",
        "keys_to_ignore_at_inference",
        "label2id",
        "max_sequence_length",
        "model_type",
        "output_attentions",
        "output_hidden_states",
        "pad_token_id",
        "prefix",
        "pretraining_tp",
        "problem_type",
        "return_dict",
        "sep_token_id",
        "task_specific_params",
        "tokenizer_class",
        "torch_dtype",
        "torchscript",
        "transformers.js_config",
        "transformers_version",
        "unk_token_id",
        "unsloth_fixed",
        "unsloth_version",
        "use_bfloat16",
        "use_cache",
    }
)

NEUTRAL: dict[str, tuple] = {
    "add_cross_attention": (False, None),
    "attention_bias": (False, None),
    "cross_attention_hidden_size": (None,),
    "hidden_act": ("silu",),
    "is_encoder_decoder": (False, None),
    "mlp_bias": (False, None),
    "partial_rotary_factor": (1, None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
    "rope_interleaved": (False, None),
    "sliding_window": (None,),
    "tie_encoder_decoder": (False, None),
    "use_mrope": (False, None),
    "use_sliding_window": (False, None),
}


class Config:
    """Typed access to the keys of a config, under the names of transformers; it remembers what was read.

    `names` maps those names to the ones in the file, where they differ, for reading and for messages.
    """

    def __init__(
        self,
        where: str,
        values: dict[str, Any],
        names: dict[str, str] | None = None,
        harmless: frozenset[str] = HARMLESS,
        neutral: dict[str, tuple] | None = None,
    ):
        self.where, self.values, self.names, self.used = where, values, names or {}, set()
        self.harmless, self.neutral = harmless, NEUTRAL if neutral is None else neutral

    def name(self, key: str) -> str:
        return self.names.get(key, key)

    def get(self, key: str, default: Any = REQUIRED) -> Any:
        self.used.add(self.name(key))
        value = self.values.get(self.name(key), default)
        if value is REQUIRED:
            raise ConvertError(f"{self.where} lacks the key {self.name(key)!r}")
        return value

    def refuse(self, key: str, wanted: str) -> ConvertError:
        value = repr(self.values.get(self.name(key)))
        value = value if len(value) <= 80 else value[:77] + "..."
        return ConvertError(f"{self.where}: {self.name(key)} is {value}; it must be {wanted}")

    def integer(self, key: str, high: int, default: Any = REQUIRED) -> int:
        """A whole number, 1 to `high`; null counts as absent."""
        value = self.get(key, default)
        value = default if value is None and default is not REQUIRED else value
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refuse(key, "a whole number")
        return in_range(value, 1, high, f"{self.where}: {self.name(key)}")

    def integers(self, key: str, high: int, n: int, default: Any = REQUIRED) -> list[int]:
        """One whole number for every layer; a list gives each its own."""
        value = self.get(key, default)
        if not isinstance(value, list):
            return [self.integer(key, high, default)] * n
        if len(value) != n or not all(type(v) is int for v in value):
            raise self.refuse(key, f"a whole number, or {n} of them")
        return [in_range(v, 1, high, f"{self.where}: {self.name(key)}") for v in value]

    def number(self, key: str, default: Any = REQUIRED) -> float:
        """A finite number above 0."""
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e30:
            raise self.refuse(key, "a number above 0")
        return float(value)

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.get(key, default)
        if not isinstance(value, (bool, int)) and value is not None:
            raise self.refuse(key, "true or false")
        return bool(value)

    def table(self, key: str) -> dict[str, Any]:
        value = self.get(key, None)
        if value is not None and not isinstance(value, dict):
            raise self.refuse(key, "an object")
        return dict(value or {})

    def finish(self) -> None:
        """Refuses the first key that nobody read and that is not known to be harmless."""
        for key in sorted(set(self.values) - self.used - self.harmless):
            if key == "quantization_config" and self.values[key] is not None:
                raise ConvertError(
                    f"{self.where} has quantization_config: the model is quantized in a way that is not read here; "
                    "convert the unquantized model, with --type q8 or q4 if it should be small"
                )
            if key not in self.neutral:
                raise ConvertError(
                    f"{self.where}: the key {key!r} is not understood, and the model might need it; "
                    "tools/ternlib/families.py says which keys are"
                )
            if self.values[key] not in self.neutral[key]:
                raise self.refuse(key, " or ".join(repr(v) for v in self.neutral[key]))


@dataclass(frozen=True)
class Family:
    """`features` reads a config; `interleaved`: GGUF files of this architecture hold q and k rows permuted
    (None: GGUF has no architecture of this name)."""

    architecture: str
    features: Callable[[Config], dict[str, Any]]
    interleaved: bool | None


def graph(c: Config, positions: int, attn_bias: int = 0, ffn_bias: int = 0, kv_heads: int | None = None) -> dict:
    """The Llama graph: what every family here shares. Windows are added by the family."""
    n = c.integer("num_hidden_layers", MAX_LAYERS)
    dim = c.integer("hidden_size", MAX_WIDTH)
    heads = c.integers("num_attention_heads", MAX_HEADS, n)
    kv = c.integers("num_key_value_heads", MAX_HEADS, n, kv_heads or heads[0])
    if c.get("head_dim", None) is None:
        if any(dim % h for h in heads):
            raise ConvertError(f"{c.where}: {c.name('hidden_size')} {dim} is not a multiple of {heads[0]} heads")
        head_dim = [in_range(dim // h, 1, MAX_HEAD_DIM, f"{c.where}: the size of a head") for h in heads]
    else:
        head_dim = c.integers("head_dim", MAX_HEAD_DIM, n)
    if len(set(head_dim)) > 1:
        raise ConvertError(f"{c.where}: heads of different sizes, {sorted(set(head_dim))}, are not understood")
    if c.get("hidden_act", "silu") != "silu":
        raise c.refuse("hidden_act", "'silu'")
    max_seq = c.integer("max_position_embeddings", MAX_SEQ, positions)
    return {
        "n_layers": n, "dim": dim, "vocab": c.integer("vocab_size", MAX_VOCAB), "max_seq": max_seq,
        "norm_eps": c.number("rms_norm_eps", 1e-6), "head_tied": int(c.flag("tie_word_embeddings")),
        "n_heads": heads, "n_kv_heads": kv, "head_dim": head_dim,
        "hidden": c.integers("intermediate_size", MAX_WIDTH, n), "window": [0] * n, "rope_set": [1] * n,
        "attn_scale": [1 / math.sqrt(d) for d in head_dim],
        "attn_bias": [attn_bias] * n, "ffn_bias": [ffn_bias] * n, "activation": "silu",
        "rope.0.inv_freq": _frequencies(c, head_dim[0], max_seq), "rope.0.factor": 1.0,
    }  # fmt: skip


def _frequencies(c: Config, dims: int, max_seq: int):
    """RoPE as transformers reads it: rope_scaling, else rope_parameters, each above rope_theta."""
    new, old = c.table("rope_parameters"), c.table("rope_scaling")
    values, where = (old, "rope_scaling") if old else (new, "rope_parameters")
    values.setdefault("rope_theta", c.get("rope_theta", 10000.0))
    if values.get("partial_rotary_factor") in (1, None):
        values.pop("partial_rotary_factor", None)
    parameters = rope.Parameters(f"{c.where}: {where}", values)
    original = c.get("original_max_position_embeddings", None)
    if parameters.scaling() == "llama3":
        values["original_max_position_embeddings"] = (
            original or values.get("original_max_position_embeddings") or max_seq
        )
    return rope.frequencies(parameters.number("rope_theta"), dims, parameters)


def _layer_types(c: Config, n: int, default: list[str]) -> list[str]:
    """`layer_types` of transformers 5: the kind of attention of each layer."""
    kinds = c.get("layer_types", None)
    kinds = default if kinds is None else kinds
    known = ("full_attention", "sliding_attention")
    if not isinstance(kinds, list) or len(kinds) != n or not all(k in known for k in kinds):
        raise c.refuse("layer_types", f"{n} of {known[0]!r} or {known[1]!r}")
    return kinds


def _same_types(c: Config, n: int, kind: str) -> None:
    """Families that treat all layers alike do not read layer_types, so it must say just that."""
    if set(_layer_types(c, n, [kind] * n)) != {kind}:
        raise c.refuse("layer_types", f"{kind!r} for all layers")


def _llama(c: Config) -> dict:
    attn, ffn = c.flag("attention_bias"), c.flag("mlp_bias")
    f = graph(c, 2048, attn_bias=15 * attn, ffn_bias=7 * ffn)
    _same_types(c, f["n_layers"], "full_attention")
    return f


def _mistral(c: Config) -> dict:
    f = graph(c, 131072, kv_heads=8)
    n = f["n_layers"]
    window = None if c.get("sliding_window", 4096) is None else c.integer("sliding_window", MAX_WINDOW, 4096)
    _same_types(c, n, "sliding_attention" if window else "full_attention")
    f["window"] = [window or 0] * n
    return f


def _qwen2(c: Config) -> dict:
    """q, k and v have biases; a window, when used, holds for the layers from max_window_layers on."""
    f = graph(c, 32768, attn_bias=7, kv_heads=32)
    n = f["n_layers"]
    used, window, full = c.flag("use_sliding_window"), c.get("sliding_window", 4096), c.get("max_window_layers", 28)
    if type(full) is not int:
        raise c.refuse("max_window_layers", "a whole number")
    windowed = used and window is not None
    default = ["sliding_attention" if windowed and i >= full else "full_attention" for i in range(n)]
    kinds = _layer_types(c, n, default)
    if "sliding_attention" in kinds:
        if not windowed:
            raise c.refuse("layer_types", "'full_attention' for all layers, as use_sliding_window is off")
        window = c.integer("sliding_window", MAX_WINDOW, 4096)
        f["window"] = [window if kind == "sliding_attention" else 0 for kind in kinds]
    return f


FAMILIES = {
    "llama": Family("LlamaForCausalLM", _llama, True),
    "mistral": Family("MistralForCausalLM", _mistral, None),
    "qwen2": Family("Qwen2ForCausalLM", _qwen2, False),
}

# Our names of tensors (FORMAT.md) in the two formats; {} is the layer.
HUGGINGFACE = {
    "embed": "model.embed_tokens.weight",
    "attn_norm": "model.layers.{}.input_layernorm.weight",
    "ffn_norm": "model.layers.{}.post_attention_layernorm.weight",
    "q": "model.layers.{}.self_attn.q_proj.weight",
    "k": "model.layers.{}.self_attn.k_proj.weight",
    "v": "model.layers.{}.self_attn.v_proj.weight",
    "o": "model.layers.{}.self_attn.o_proj.weight",
    "gate": "model.layers.{}.mlp.gate_proj.weight",
    "up": "model.layers.{}.mlp.up_proj.weight",
    "down": "model.layers.{}.mlp.down_proj.weight",
    "final_norm": "model.norm.weight",
    "head": "lm_head.weight",
}
GGUF = {
    "embed": "token_embd.weight",
    "attn_norm": "blk.{}.attn_norm.weight",
    "ffn_norm": "blk.{}.ffn_norm.weight",
    "q": "blk.{}.attn_q.weight",
    "k": "blk.{}.attn_k.weight",
    "v": "blk.{}.attn_v.weight",
    "o": "blk.{}.attn_output.weight",
    "gate": "blk.{}.ffn_gate.weight",
    "up": "blk.{}.ffn_up.weight",
    "down": "blk.{}.ffn_down.weight",
    "final_norm": "output_norm.weight",
    "head": "output.weight",
}


def source_name(names: dict[str, str], ours: str) -> str:
    """The name in the source of one of our tensors: 'layer.3.q_bias' is blk.3.attn_q.bias in GGUF."""
    layer, part = "", ours
    if ours.startswith("layer."):
        _, layer, part = ours.split(".")
    if part.endswith("_bias"):
        return names[part.removesuffix("_bias")].removesuffix("weight").format(layer) + "bias"
    return names[part].format(layer)
