"""What the user sets with --set KEY=VALUE, above what the source says.

FEATURES, in the words of src/weights/FORMAT.md, hold for the model as it is written: one value for all layers, or one for
each with commas between. Any other key is one of the source's config in the spelling of transformers (rope_theta,
query_pre_attn_scalar), and is read as if it had stood there; KEY=ignore leaves out a key that is not understood.
"""

from typing import Any

from ...errors import USAGE, ConvertError

# What each feature takes; those that hold for a layer.
MODEL = {
    "max_seq": int, "norm_eps": float, "embed_scale": float, "residual_scale": float, "logit_scale": float,
    "logit_cap": float, "activation": str, "ple_embed_scale": float, "ple_in_scale": float, "ple_scale": float,
}  # fmt: skip
LAYER = {
    "window": int, "rope_set": int, "attn_scale": float, "attn_cap": float, "qkv_clip": float, "ffn_clamp": float,
    "qkv_clip_last": int, "parallel": int, "experts_used": int, "router_score": int, "router_normalize": int, "router_factor": float,
    "router_groups_used": int, "router_group_best": int, "latent_eps": float, "state_norm_eps": float, "beta_scale": float,
    "dt_low": float, "dt_high": float, "decay_floor": float,
}  # fmt: skip
ACTIVATIONS = ("silu", "gelu", "gelu_tanh", "relu2", "swiglu_oai", "relu", "xielu")
IGNORE = "ignore"
FIXED = ("model_type", "architectures")  # they say what the source is
WORDS = {"true": True, "false": False, "none": None, "null": None}


class Settings:
    """KEY=VALUE pairs of the command line; those that nobody took are an error."""

    def __init__(self, pairs: list[str] | None = None):
        self.values: dict[str, str] = {}
        for pair in pairs or []:
            key, equal, value = pair.partition("=")
            if not equal or not key or not value:
                raise ConvertError(f"--set takes KEY=VALUE, not {pair!r}", USAGE)
            if key in self.values:
                raise ConvertError(f"--set {key} is given twice", USAGE)
            self.values[key] = value

    def __str__(self) -> str:
        return " ".join(f"--set {key}={value}" for key, value in self.values.items())

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def for_source(self, c: Any) -> None:
        """Keys of the source, into its Config; those of a RoPE dictionary, into that."""
        for key, text in self.values.items():
            if key in FIXED:
                raise ConvertError(f"--set {key}: what family a model is of cannot be set; change the file", USAGE)
            if text == IGNORE:
                if c.name(key) not in c.values:
                    raise ConvertError(f"--set {key}={IGNORE}: {c.where} has no such key", USAGE)
                c.dropped.add(c.name(key))
                continue
            if key in MODEL or key in LAYER:
                continue
            tables = [c.name(name) for name in ("rope_parameters", "rope_scaling")]
            found = [name for name in tables if isinstance(c.values.get(name), dict)]
            if any(key in part for name in found for part in c.values[name].values() if isinstance(part, dict)):
                raise ConvertError(f"--set {key}: {c.where} has one for each kind of attention; change the file", USAGE)
            inside = [name for name in found if key in c.values[name]]
            for name in inside:
                c.values[name] = c.values[name] | {key: _guessed(text)}
            if not inside:
                c.values[c.name(key)] = _guessed(text)
                c.given.add(c.name(key))

    def features(self, config: dict[str, Any]) -> None:
        """Features, into those of the model."""
        for key, text in self.values.items():
            if text == IGNORE:
                continue  # a key of the source that has the name of a feature
            if key in MODEL:
                config[key] = _of(MODEL[key], key, text)
            elif key in LAYER:
                config[key] = self._layers(config, key, text)
            if key == "activation" and text not in ACTIVATIONS:
                raise ConvertError(f"--set activation takes one of {', '.join(ACTIVATIONS)}, not {text!r}", USAGE)

    def _layers(self, config: dict[str, Any], key: str, text: str) -> list:
        n, values = config["n_layers"], [_of(LAYER[key], key, part) for part in text.split(",")]
        if len(values) not in (1, n):
            raise ConvertError(f"--set {key} has {len(values)} values; the model has {n} layers: give 1 or {n}", USAGE)
        sets = sum(name.endswith(".inv_freq") for name in config)
        if key == "rope_set" and max(values) > sets:
            raise ConvertError(f"--set rope_set names set {max(values)}, but the model has {sets}", USAGE)
        return values * n if len(values) == 1 else values

    def only_features(self) -> None:
        """For sources without a config of their own."""
        for key in self.values:
            if key not in MODEL and key not in LAYER or self.values[key] == IGNORE:
                raise ConvertError(
                    f"--set {key}: this source has no such key; {', '.join([*MODEL, *LAYER])} can be set", USAGE
                )


def _of(kind: type, key: str, text: str) -> Any:
    try:
        value = kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise ConvertError(f"--set {key} takes {what}, not {text!r}", USAGE) from None
    if kind is int and not 0 <= value < 1 << 32 or kind is float and not -1e30 < value < 1e30:
        raise ConvertError(f"--set {key}={text} is out of range", USAGE)
    if key == "norm_eps" and value <= 0:
        raise ConvertError(f"--set norm_eps={text} must be a number above 0", USAGE)
    return value


def _guessed(text: str) -> Any:
    """A value as JSON would have it: a number, true, false, null, a list by commas, or a text."""
    if "," in text:
        return [_guessed(part) for part in text.split(",")]
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
