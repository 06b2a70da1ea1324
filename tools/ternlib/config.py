"""Typed, checked access to the keys of a model's config, which remembers what was read.

HARMLESS keys do not change what the model computes; NEUTRAL ones are understood at one value only;
any other key that nobody reads is refused by its name.
"""

from typing import Any

from .errors import ConvertError
from .source import in_range

REQUIRED = object()

HARMLESS = frozenset(
    {
        "_attn_implementation", "_attn_implementation_autoset", "_commit_hash", "_experts_implementation", "_name_or_path", "_sliding_window_pattern", "architectures",
        "attention_dropout", "attn_pdrop", "bos_token_id", "cache_implementation", "chunk_size_feed_forward",
        "classifier_dropout", "dtype", "embd_pdrop", "embedding_dropout", "eos_token_id", "finetuning_task",
        "gradient_checkpointing", "hidden_dropout", "initializer_range", "is_decoder", "is_llama_config",
        "keys_to_ignore_at_inference", "max_sequence_length", "model_type", "n_ctx", "output_attentions",
        "output_hidden_states", "output_router_logits", "pad_token_id", "prefix", "pretraining_tp", "problem_type",
        "reorder_and_upcast_attn", "resid_pdrop", "residual_dropout", "return_dict", "router_aux_loss_coef",
        "router_jitter_noise", "sep_token_id", "summary_activation", "summary_first_dropout",
        "summary_proj_to_labels", "summary_type", "summary_use_proj", "task_specific_params", "tokenizer_class",
        "torch_dtype", "torchscript", "transformers.js_config", "transformers_version", "unk_token_id",
        "unsloth_fixed", "unsloth_version", "use_cache",
    }
)  # fmt: skip

NEUTRAL: dict[str, tuple] = {
    "add_cross_attention": (False, None),
    "apply_residual_connection_post_layernorm": (False, None),
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
    rope_length: positions that a dynamic RoPE scaling is converted for.
    """

    def __init__(
        self,
        where: str,
        values: dict[str, Any],
        names: dict[str, str] | None = None,
        harmless: frozenset[str] = HARMLESS,
        neutral: dict[str, tuple] | None = None,
        rope_length: int | None = None,
    ):
        self.where, self.values, self.names, self.used = where, values, names or {}, set()
        self.rope_length = rope_length
        self.notes: list[str] = []  # what the user should know of the choices made
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
