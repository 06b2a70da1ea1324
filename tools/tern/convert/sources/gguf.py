"""Reads a GGUF model: the keys of its architecture become the config of a family, its tensors matrices.

In:  the file, whose vocabulary is inside. Out: a Source whose matrices have the values of the file, bit for bit.
families/gguf.py says what the files of each architecture mean, files/gguf_types.py how their numbers are written.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import USAGE, ConvertError, reading
from ...weights import tiles
from ..families import mtp, rope
from ..families.config import Config, token_ids
from ..families.families import FAMILIES
from ..families.features import check_config, feature, slots
from ..families.gguf import Architecture, architecture, known
from ..families.gguf_find import Facts
from ..families.gguf_layout import GgufLayout
from ..families.gguf_names import HARMLESS, KEYS, NAMES, NEUTRAL
from ..families.names import source_name
from ..families.places import matrix
from ..families.settings import Settings
from ..families.windows import FULL
from ..files import gguf_types
from ..files import gguf as gguf_file
from ..files.file import Entry, same_bytes
from ..files.gguf import Gguf
from ..files.matrix import Encoding, Matrix
from ..tokenizers.gguf import from_gguf
from ..tokenizers.tokenizer import Tokenizer
from ..words import size
from . import sampling
from .source import TEMPLATE_TOKENS, Source

IGNORED_TENSORS = (".attn_rot_embd.weight", "rope.freqs")  # tables of old files, computed instead
ROPE_TENSORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
CHUNK = 16 << 20


def load(
    path: Path, tokenizer_file: Path | None, rope_length: int | None = None, settings: Settings | None = None
) -> Source:
    """The model of a file; rope_length: positions that a dynamic RoPE scaling is converted for."""
    if tokenizer_file is not None:
        raise ConvertError(f"{path} carries its own vocabulary; leave --tokenizer out", USAGE)
    settings = settings or Settings()
    g = gguf_file.read_all(path)
    name = g.keys.get("general.architecture")
    arch = architecture(name, g.keys) if isinstance(name, str) else None
    if arch is None:
        raise ConvertError(f"{path}: the architecture {name!r} is not understood; known are {', '.join(known())}")
    model = _Model(path, name, arch, g, rope_length, settings)
    with reading(str(path)):
        config = model.features()
    check_config(config)
    model.settle_guesses(config)
    matrices = model.matrices(config)
    default_type, default_note = model.default_type(matrices)
    return Source(
        name=_text(g.keys, "general.name") or path.stem,
        origin=f"GGUF file {path.name}, {name}",
        family=name,
        config=config,
        matrices=matrices,
        tokenizer=_tokenizer(path, g.keys, config["vocab"]),
        generation=sampling.of_gguf(str(path), g.keys),
        end_tokens=_end_tokens(path, g.keys, config["vocab"], model.c, settings),
        licence=_text(g.keys, "general.license"),
        notes=model.notes,
        template=_text(g.keys, "tokenizer.chat_template"),
        tool_template=_text(g.keys, "tokenizer.chat_template.tool_use"),
        template_tokens=_template_tokens(g.keys),
        default_type=default_type,
        default_note=default_note,
    )


def _text(keys: dict[str, Any], name: str) -> str:
    value = keys.get(name)
    return value if isinstance(value, str) else ""


def _plain(value: Any) -> Any:
    """Values as a config has them: lists, and floats of f32 as the shortest decimal number that rounds to them."""
    if isinstance(value, float):
        return float(str(np.float32(value)))
    if isinstance(value, np.ndarray):
        return [_plain(v) for v in value.tolist()]
    return value


class _Model:
    """One file, on its way to features and matrices."""

    def __init__(
        self, path: Path, name: str, arch: Architecture, g: Gguf, rope_length: int | None, settings: Settings
    ):
        self.path, self.arch, self.settings, self.notes = path, arch, settings, []
        self.entries = {n: dataclasses.replace(e, shape=e.shape[::-1]) for n, e in g.tensors.items()}
        self.prefix = name + "."
        values = {n: _plain(v) for n, v in g.keys.items() if n.startswith(self.prefix)}
        embed = self.entries.get(NAMES["embed"])
        if embed is None or len(embed.shape) != 2:
            alone = not self.entries and "tokenizer.ggml.tokens" in g.keys
            what = "is a vocabulary without weights; name the GGUF file of the model" if alone else (
                f"has no matrix {NAMES['embed']!r}: it is a part, not a model"
            )
            raise ConvertError(f"{path} {what}")
        values[self.prefix + "vocab_size"] = embed.shape[0]
        names = {ours: self.prefix + theirs for ours, theirs in KEYS.items()}
        harmless = frozenset(self.prefix + n for n in HARMLESS)
        neutral = {self.prefix + n: allowed for n, allowed in NEUTRAL.items()}
        self.c = Config(str(path), values, names, harmless, neutral, rope_length)
        self.keys = g.keys

    # ---- features

    def features(self) -> dict[str, Any]:
        """The family's features from the keys, and from the tensors what no key says."""
        self.settings.for_source(self.c)
        self._find()
        self._put_head_dim()
        self._put_scaling()
        self._assume()
        config = FAMILIES[self.arch.family].features(self.c)
        self._check_widths(config)
        if "eos_token_id" in self.settings:
            self.c.get("eos_token_id")
        if "window" in self.settings:
            self.c.get("sliding_window", None)
        self.c.finish()
        self.c.check_length()
        self.notes += self.c.notes
        self._note_window(config)
        config["head_tied"] = int(self._tied())
        self._put_biases(config)
        self._put_divisors(config)
        self.settings.features(config)
        return config

    def _key(self, name: str) -> Any:
        return self.c.values.get(self.c.name(name))

    def _put(self, name: str, value: Any) -> None:
        """A key's value, unless the user has set it."""
        if name not in self.settings:
            self.c.values[self.c.name(name)] = value

    def _find(self) -> None:
        """What the architecture means, and what the file's tensors say."""
        facts = Facts(
            self.entries.__contains__, lambda name: self.c.get(name, None), dict(self.arch.fixed), file=self.keys,
            shape=lambda name: self.entries[name].shape if name in self.entries else (),
        )  # fmt: skip
        if self.arch.find:
            self.arch.find(facts)
        for name, value in facts.values.items():
            self._put(name, value)
        self.facts = facts

    def _put_head_dim(self) -> None:
        """Absent sizes follow from the others, for all architectures in the same way."""
        dim, heads = self._key("hidden_size"), self._key("num_attention_heads")
        if self._key("num_key_value_heads") is None and heads is not None:
            self._put("num_key_value_heads", heads)
        first = heads[0] if isinstance(heads, list) and heads else heads
        if self._key("head_dim") is None and type(dim) is int and type(first) is int and first > 0:
            if dim % first:
                raise ConvertError(f"{self.path}: {self.prefix}embedding_length {dim} is not a multiple of {first} heads")
            self._put("head_dim", dim // first)
        turning = self.c.get("partial_rotary_factor", self.c.values.get(self.prefix + "rope.dimension_count"))
        size = self._key("head_dim")
        self.c.used.add(self.prefix + "rope.dimension_count")
        if self.arch.partial and type(turning) is int and type(size) is int and 0 < turning <= size:
            part = turning / size
            self._put("partial_rotary_factor", part if int(size * part) == turning else np.nextafter(part, 2).item())

    def _put_scaling(self) -> None:
        """The keys and tensors of RoPE scaling as the dictionary that transformers has."""
        def key(name: str) -> Any:
            return self.c.get(self.prefix + "rope." + name, None)

        kind, factor, old = key("scaling.type"), key("scaling.factor"), key("scale_linear")
        original = self.c.values.get(self.prefix + "rope.scaling.original_context_length")
        fast, slow = key("scaling.yarn_beta_fast"), key("scaling.yarn_beta_slow")
        short = self._factors("rope_factors_short.weight")
        if kind not in (None, "none", "linear", "yarn", "longrope"):
            raise ConvertError(
                f"{self.path}: {self.prefix}rope.scaling.type is {kind!r}; none, linear, yarn and longrope are understood"
            )
        values: dict[str, Any] = {}
        if short is not None:
            values = {"rope_type": "longrope", "short_factor": short, "attention_factor": key("scaling.attn_factor")}
            values["long_factor"] = self._factors("rope_factors_long.weight")
            values |= self._phimoe_scales() if self.arch.family == "phimoe" else {}
        elif kind == "yarn":
            values = {"rope_type": "yarn", "factor": factor, "beta_fast": fast, "beta_slow": slow}
            if self.arch.family == "olmo3":  # elsewhere it would be one more factor
                values["attention_factor"] = key("scaling.attn_factor")
            values |= {"truncate": False} if self.arch.family == "gpt_oss" else {}
            values |= self._mscale(key)
            if self.arch.family == "mistral4":
                values["llama_4_scaling_beta"] = self.c.get("llama_4_scaling_beta", 0.1)
        elif kind != "none" and (factor or old) not in (None, 0, 1):
            values = {"rope_type": "linear", "factor": factor or old}
        if kind == "longrope" and not values:
            raise ConvertError(f"{self.path} says longrope, but lacks the tensor 'rope_factors_short.weight'")
        if values and original and values["rope_type"] != "linear":
            values["original_max_position_embeddings"] = original
        values = {name: value for name, value in values.items() if value is not None}
        if values and self.arch.ropes:  # of the layers that see all
            self._key("rope_parameters")[FULL].update(values)
        elif values:
            self._put("rope_scaling", values)

    def _phimoe_scales(self) -> dict[str, Any]:
        """What cos and sin are multiplied by; llama.cpp computes it as for Phi 3, which is less than what was published."""
        scale = self.c.get("short_mscale", None)
        if scale is None:
            scale = 1.243163121016122
            self.notes.append(f"{self.path} does not say short_mscale; assumed: {scale} (--set short_mscale=... changes it)")
        return {"attention_factor": None, "short_mscale": scale, "long_mscale": scale}

    def _mscale(self, key: Callable[[str], Any]) -> dict[str, Any]:
        """What Mistral 3 and latent attention add to YaRN: llama.cpp knows the two scales as one."""
        latent, beta = self._key("kv_lora_rank") is not None, self.c.get("llama_4_scaling_beta", None)
        scale = key("scaling.yarn_log_multiplier") if latent or beta is not None else None
        found = {"llama_4_scaling_beta": beta} if beta is not None else {}
        if type(scale) in (int, float) and scale:
            scale = float(np.float32(scale * 10)) if latent else scale
            found |= {"mscale": _plain(scale), "mscale_all_dim": _plain(scale)}
        return found

    def _factors(self, name: str) -> list[float] | None:
        """A small tensor of numbers, as decimal as they were written."""
        entry = self.entries.get(name)
        if entry is None:
            return None
        if len(entry.shape) != 1 or entry.dtype != "F32" or entry.shape[0] > 1024:
            raise ConvertError(f"{self.path}: {name} is {entry.dtype} {list(entry.shape)}; a short list of F32 is needed")
        x = Matrix(name, tiles.F32, entry.shape[0], 1, entry.file, entry.offset).vector()
        return [_plain(float(v)) for v in x]

    def _assume(self) -> None:
        """What the file does not say, said to the user."""
        for name, value in self.arch.assumed.items():
            if self._key(name) is not None or name in self.settings:
                continue
            value = value(self.facts) if callable(value) else value
            self._put(name, value)
            shown = ",".join(map(str, value)) if isinstance(value, list) else value
            self.notes.append(f"{self.path} does not say {name}; assumed: {shown} (--set {name}=... changes it)")

    def _check_widths(self, config: dict[str, Any]) -> None:
        """Heads whose values are of another size, or turn only in part, are not this graph."""
        if any(config.get("kv_rank", [])):  # of latent attention families/gguf.py knows
            self.c.used.add(self.prefix + "attention.value_length")
            return
        sizes = ("attention.value_length", *(() if self.arch.partial or self.arch.ropes else ("rope.dimension_count",)))
        for name in (*sizes, *(size + "_swa" for size in sizes)):
            value = self.c.get(self.prefix + name, config["head_dim"][0])
            if value not in config["head_dim"]:
                raise ConvertError(
                    f"{self.path}: {self.prefix}{name} is {value!r}, but a head has {config['head_dim'][0]} dimensions"
                )

    def _note_window(self, config: dict[str, Any]) -> None:
        if self.arch.windows and not any(config["window"]) and "window" not in self.settings:
            mistral = " (Mistral 7B v0.1 has 4096)" if self.prefix == "llama." else ""
            self.notes.append(
                f"{self.path} does not say whether attention has a window, so it gets none{mistral}; "
                "--set window=N gives one to all layers, --set window=N,0,... to some"
            )

    def _tied(self) -> bool:
        """Without a head of its own, or with one that is the embedding once more."""
        head = self.entries.get(NAMES["head"])
        return head is None or self._same(self.entries[NAMES["embed"]], head)

    def _same(self, a: Entry, b: Entry) -> bool:
        """Whether two matrices hold the same bits."""
        n = self._format(a).row_bytes(a.shape[0] * a.shape[1])
        return (a.dtype, a.shape) == (b.dtype, b.shape) and same_bytes(a.file, a.offset, b.file, b.offset, n)

    def settle_guesses(self, config: dict[str, Any]) -> None:
        """The layer that guesses further tokens, which stands beyond the others."""
        stated = {"num_nextn_predict_layers": self._key("num_nextn_predict_layers")}
        mtp.settle(self.arch.family, config, stated, self.entries, str(self.path), self.notes, self._same, NAMES)

    def _put_biases(self, config: dict[str, Any]) -> None:
        """A bias is a feature when its tensor is there; GGUF has no key for it."""
        for i in range(config["n_layers"]):
            for key, parts in (("attn_bias", "q k v o"), ("ffn_bias", "gate up down")):
                config[key][i] = sum(1 << bit for bit, part in enumerate(parts.split()) if self._has_bias(i, part))

    def _has_bias(self, layer: int, part: str) -> bool:
        fused = {"q": "qkv", "k": "qkv", "v": "qkv"}.get(part, part + "_exps" if part + "_exps" in NAMES else part)
        names = NAMES | self.arch.names
        return any(source_name(names, f"layer.{layer}.{name}_bias") in self.entries for name in (part, fused))

    def _put_divisors(self, config: dict[str, Any]) -> None:
        """`rope_freqs`: what each frequency is divided by (the scaling of Llama 3.1)."""
        divisors = self._factors("rope_freqs.weight")
        if divisors is None:
            return
        freq = config["rope.0.inv_freq"]
        if len(divisors) != len(freq):
            raise ConvertError(f"{self.path}: rope_freqs.weight has {len(divisors)} numbers; {len(freq)} are needed")
        still = sum(d > 1e29 for d in divisors)  # Gemma 4: the last ones do not turn
        if not all(1e-6 < d < 1e6 for d in divisors[: len(divisors) - still]):
            raise ConvertError(f"{self.path}: rope_freqs.weight holds a divisor that is not a sensible number above 0")
        turning = rope.divided(freq[: len(freq) - still], np.array(divisors[: len(divisors) - still], "<f8"))
        config["rope.0.inv_freq"] = np.concatenate([turning, np.zeros(still)])

    # ---- matrices

    def matrices(self, config: dict[str, Any]) -> dict[str, Matrix]:
        """Every tensor that the model must have, of the right shape; any other one is refused."""
        layout = GgufLayout(self.arch, self.facts, config, self.entries)
        out, wanted = {}, {*ROPE_TENSORS}
        if config["head_tied"]:
            wanted.add(NAMES["head"])
        for slot in slots(config):
            places = layout.places(slot)
            out[slot.name] = matrix(slot, places, self.entries, str(self.path), self._format, "its keys ask")
            wanted |= {place.name for place in places}
        for layer in range(config["n_layers"]):
            if feature(config, "kv_from", layer):  # the layer reads another's, and llama.cpp does not read these
                wanted |= {layout.name(part, layer, False) for part in ("k", "v", "k_norm")}
        for name in self.entries:
            if name not in wanted and not name.endswith(IGNORED_TENSORS):
                raise ConvertError(f"{self.path} holds the tensor {name!r}, which a model of these keys does not have")
        return out

    def _format(self, entry: Entry) -> Encoding:
        """How a tensor's numbers are written; MXFP4 is q4c where f16 holds all its scales."""
        if entry.dtype == "MXFP4" and self._fits_half(entry):
            return gguf_types.MXFP4_Q4C
        return gguf_types.FORMATS[entry.dtype]

    def _fits_half(self, entry: Entry) -> bool:
        known = self.__dict__.setdefault("halves", {})
        if entry.name not in known:
            block = gguf_types.MXFP4_Q4C.block
            size = int(np.prod(entry.shape, dtype=object)) // 32 * block.itemsize
            step = CHUNK // block.itemsize * block.itemsize
            known[entry.name] = all(
                gguf_types.blocks_fit_half(np.frombuffer(entry.file.read(entry.offset + at, min(step, size - at)), block))
                for at in range(0, size, step)
            )
        return known[entry.name]

    def default_type(self, out: dict[str, Matrix]) -> tuple[str | None, str]:
        """q8 where the file has formats that only f32 holds exactly, and what that loses: q8 rounds to 1 / 127 of the
        largest weight of 32."""
        wide = {}
        for m in out.values():
            for part in m.matrices:
                if part.format.block is not None and part.kind == tiles.F32:
                    n, used = wide.get(part.format.name, (0, 0))
                    wide[part.format.name] = n + part.rows * part.k, used + part.rows * part.row_bytes
        if not wide:
            return None, ""
        n, used = (sum(v[i] for v in wide.values()) for i in (0, 1))
        f32, q8, q4, now = map(size, (4 * n, n * 17 // 16, n * 9 // 16, used))
        return "q8", (
            f"{self.path}: weights in {', '.join(sorted(wide))} ({now}) become q8 ({q8}), each off by at most 0.4 % of the "
            f"largest of its 32; --type f32 ({f32}) keeps every value, --type q4c ({q4}) keeps the file small"
        )


def _end_tokens(path: Path, keys: dict[str, Any], vocab: int, config: Config, settings: Settings) -> list[int]:
    """What ends a text, by the file, or by what the user has set alone."""
    ends = set()
    if "eos_token_id" in settings:
        ends = token_ids(str(path), config.get("eos_token_id"))
        if ends and max(ends) >= vocab:
            raise ConvertError(f"--set eos_token_id: {max(ends)} is no token; the vocabulary has {vocab}", USAGE)
        return sorted(ends)
    for key in END_KEYS:
        value = keys.get("tokenizer.ggml." + key)
        if value is not None:
            if type(value) is not int or not 0 <= value < vocab:
                raise ConvertError(f"{path}: tokenizer.ggml.{key} is {value!r}, but the vocabulary has {vocab} tokens")
            ends.add(value)
    return sorted(ends)


def _template_tokens(keys: dict[str, Any]) -> dict[str, str]:
    tokens = keys.get("tokenizer.ggml.tokens")
    names = {"unk_token": "unknown_token_id", "pad_token": "padding_token_id", "sep_token": "seperator_token_id"}
    ids = {name: keys.get("tokenizer.ggml." + names.get(name, name + "_id")) for name in TEMPLATE_TOKENS}
    good = isinstance(tokens, list)
    return {name: tokens[i] for name, i in ids.items() if good and type(i) is int and 0 <= i < len(tokens)}


def _tokenizer(path: Path, keys: dict[str, Any], vocab: int) -> Tokenizer | None:
    with reading(f"the vocabulary in {path}"):
        return from_gguf(keys, vocab)
