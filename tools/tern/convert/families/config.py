"""Typed, checked access to the keys of a model's config, which remembers what was read.

HARMLESS keys do not change what the model computes; NEUTRAL ones are understood at one value only;
any other key that nobody reads is refused by its name.
"""

from typing import Any

from ...errors import USAGE, ConvertError
from .features import in_range

REQUIRED = object()

HARMLESS = frozenset(
    {
        "_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal", "_commit_hash",
        "_experts_implementation", "_name_or_path", "_sliding_window_pattern", "architectures", "attention_dropout",
        "attention_probs_dropout_prob", "attn_dropout", "attn_implementation", "attn_pdrop", "auto_map",
        "bad_words_ids", "begin_suppress_tokens", "bos_token_id", "cache_implementation", "chunk_size_feed_forward",
        "classifier_dropout", "custom_pipelines", "decoder_start_token_id", "diversity_penalty", "do_sample", "dropout", "dtype",
        "early_stopping", "emb_pdrop", "embd_pdrop", "embed_dropout", "embedding_dropout", "encoder_no_repeat_ngram_size", "end_token_id", "eos_token_id",
        "exponential_decay_length_penalty", "ffn_dropout", "finetuning_task", "forced_bos_token_id",
        "forced_eos_token_id", "gradient_checkpointing", "hidden_dropout", "hidden_dropout_prob", "id2label",
        "initializer_range", "is_decoder", "is_llama_config", "keys_to_ignore_at_inference", "label2id",
        "length_penalty", "max_length", "max_sequence_length", "min_length", "mlp_dropout", "model_max_length",
        "model_type", "mtp_layer_types", "mtp_mlp_layer_types", "n_ctx", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_labels",
        "num_mtp_layers", "num_nextn_predict_layers",
        "num_return_sequences", "output_attentions", "output_hidden_states", "output_router_logits", "output_scores",
        "pad_token_id", "prefix", "pretraining_tp", "problem_type", "remove_invalid_values", "reorder_and_upcast_attn",
        "repetition_penalty", "resid_dropout", "resid_pdrop", "residual_dropout", "return_dict", "return_dict_in_generate",
        "router_aux_loss_coef", "router_jitter_noise", "sep_token_id", "summary_activation", "summary_first_dropout",
        "summary_proj_to_labels", "summary_type", "summary_use_proj", "suppress_tokens", "task_specific_params",
        "temperature", "tf_legacy_loss", "tokenizer_class", "top_k", "top_p", "torch_dtype", "torchscript",
        "transformers.js_config", "transformers_version", "typical_p", "unk_token_id", "unsloth_fixed",
        "unsloth_version", "use_bfloat16", "use_cache", "use_flash_attention", "use_flash_attn",
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
        self.given: set[str] = set()  # keys that the user has set
        self.dropped: set[str] = set()  # keys that the user wants ignored
        self.length_used = False

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

    def choice(self, key: str, default: Any, known: Any) -> str:
        """A text, one of those that are known."""
        value = self.get(key, default)
        if not isinstance(value, str) or value not in known:
            raise self.refuse(key, " or ".join(repr(each) for each in known))
        return value

    def whole_numbers(self, key: str) -> list[int]:
        """A list of whole numbers, of any length; null and absence are an empty one."""
        value = self.get(key, None)
        if value is not None and not (isinstance(value, list) and all(type(v) is int for v in value)):
            raise self.refuse(key, "a list of whole numbers")
        return value or []

    def table(self, key: str) -> dict[str, Any]:
        return self.inner(key, self.get(key, None))

    def inner(self, key: str, value: Any, part: str = "") -> dict[str, Any]:
        """The object that the value of `key`, or its `part`, must be; null is an empty one."""
        if value is not None and not isinstance(value, dict):
            raise self.refuse(key, f"an object with an object {part!r}" if part else "an object")
        return dict(value or {})

    def ignore(self, *keys: str) -> None:
        """Keys that files of this family have and the reference does not read."""
        self.harmless = self.harmless | {self.name(key) for key in keys}

    def only(self, key: str, *allowed: Any) -> None:
        """A key that the reference does not read: absent, or one of these values, which mean what it computes."""
        if self.name(key) in self.values and self.values[self.name(key)] not in allowed:
            raise self.refuse(key, " or ".join(repr(v) for v in allowed))
        self.ignore(key)

    def finish(self) -> None:
        """Refuses, all at once, the keys that nobody read and that are not known to be harmless."""
        self._finish_settings()
        keys = sorted(set(self.values) - self.used - self.harmless - self.dropped)
        if self.values.get("quantization_config") is not None and "quantization_config" in keys:
            raise ConvertError(
                f"{self.where} has quantization_config: the model is quantized in a way that is not read here; "
                "convert the unquantized model, with --type q8 or q4 if it should be small"
            )
        unknown = [key for key in keys if key not in self.neutral or key in self.names]  # the family has another name
        if unknown:
            names, many = ", ".join(map(repr, unknown)), len(unknown) > 1
            raise ConvertError(
                f"{self.where}: the {'keys' if many else 'key'} {names} {'are' if many else 'is'} not understood, "
                f"and the model might need {'them' if many else 'it'}; "
                f"--set {unknown[0]}=ignore leaves {'one' if many else 'it'} out"
            )
        for key in keys:
            if self.values[key] not in self.neutral[key]:
                raise self.refuse(key, " or ".join(repr(v) for v in self.neutral[key]))

    def _finish_settings(self) -> None:
        """What the user gave must have an effect, and what is to be ignored must be of no use here."""
        for key in sorted(self.given - self.used):
            if key in self.harmless or key not in self.neutral:
                raise ConvertError(f"--set {key!r}: the config in {self.where} has no use for this key", USAGE)
        for key in sorted(self.dropped):
            if key in self.used or key == "quantization_config":
                raise ConvertError(f"--set {key}=ignore: the model of {self.where} depends on this key", USAGE)
            self.notes.append(f"{self.where}: the key {key!r} is ignored, as --set says")

    def check_length(self) -> None:
        check_length(self.rope_length, self.length_used, self.where)


def check_length(length: int | None, used: bool, where: str) -> None:
    """--rope-length must be a length, of a model that takes one."""
    if length is None:
        return
    if length < 1:
        raise ConvertError(f"--rope-length takes a number of tokens, 1 or more, not {length}", USAGE)
    if not used:
        raise ConvertError(f"--rope-length is for dynamic scaling of RoPE, which {where} does not have; leave it out", USAGE)


def token_ids(where: str, value: Any) -> set[int]:
    """eos_token_id: null, an id, or a list of ids."""
    ids = [] if value is None else value if isinstance(value, list) else [value]
    if not all(type(i) is int and 0 <= i < 1 << 32 for i in ids):
        raise ConvertError(f"{where}: eos_token_id is {value!r}; it must be a token id or a list of them")
    return set(ids)
