"""Merges LoRA adapters in PEFT folders into the tensors of a Hugging Face model, while they are read.

In:  `FOLDER[:SCALE]`, the tensors of the model. Out: other tensors in the place of those that the adapter changes.

W + scale * (alpha / r) * (B A) is computed in f32, in the same order whatever part is read: the product is summed over
the rank, ascending. The result is the type of W again, or stays f32 where another type is asked for.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import IO, USAGE, ConvertError
from ...weights import tiles
from ...weights.tiles import F32
from ..files import safetensors
from ..files.file import Entry, read_whole
from ..files.safetensors import TYPES, parse_json

STEP = 1 << 16  # values that are computed at a time: they stay in the processor's cache
PREFIX = "base_model.model."
LORA = re.compile(r"(.+)\.lora_(?:embedding_)?([AB])(?:\.default)?(\.weight|\.bias)?")
MAGNITUDE = re.compile(r"(.+)\.lora_magnitude_vector(?:\.default)?(?:\.weight)?")
WRAPPED = re.compile(r"\.(?:modules_to_save(?:\.default)?|base_layer)(?=\.)")
# Keys of adapter_config.json that a merge needs, and those that say nothing about the weights.
USED = {"peft_type", "r", "lora_alpha", "use_rslora", "fan_in_fan_out", "rank_pattern", "alpha_pattern", "use_dora", "init_lora_weights", "ensure_weight_tying"}
IGNORED = {
    "alpha", "auto_mapping", "base_model_name_or_path", "bias", "corda_config", "eva_config", "exclude_modules",
    "inference_mode", "layers_pattern", "layers_to_transform", "loftq_config", "lora_bias", "lora_dropout",
    "lora_ga_config", "megatron_config", "megatron_core", "modules_to_save", "peft_version", "qalora_group_size",
    "revision", "runtime_config", "target_modules", "task_type",
}  # fmt: skip
# How PEFT may begin without changing the base model. Others (PiSSA, OLoRA, LoftQ ...) change it.
BEGINNINGS = {True, False, None, "gaussian", "eva", "orthogonal"}


@dataclass(frozen=True)
class Adapter:
    """What --lora names."""

    folder: Path
    scale: float = 1.0

    @property
    def name(self) -> str:
        return self.folder.resolve().name + (f" times {self.scale:g}" if self.scale != 1 else "")


def named(text: str) -> Adapter:
    """FOLDER[:SCALE]; a folder may have a colon in its name."""
    path, colon, number = text.rpartition(":")
    if Path(text).is_dir() or not colon:
        return _existing(Adapter(Path(text)))
    try:
        scale = float(number)
    except ValueError:
        return _existing(Adapter(Path(text)))
    if not math.isfinite(scale):
        raise ConvertError(f"--lora {text}: the scale must be a number", USAGE)
    return _existing(Adapter(Path(path), scale))


def _existing(adapter: Adapter) -> Adapter:
    if not adapter.folder.is_dir():
        raise ConvertError(f"--lora {adapter.folder} is not a folder; name the folder of adapter_config.json", IO)
    return adapter


# ---- tensors that are merged as they are read ----


@dataclass
class Update:
    """x + scale * (left @ right), left [rows, r], right [r, k]; with a magnitude [rows] (DoRA), rows of that length."""

    left: np.ndarray
    right: np.ndarray
    scale: float
    magnitude: np.ndarray | None = None

    def apply(self, x: np.ndarray, first: int) -> np.ndarray:
        """Rows `first` and following, of f32."""
        left = self.left[first : first + len(x)]
        product = left[:, :1] * self.right[0]
        for j in range(1, len(self.right)):
            product += left[:, j : j + 1] * self.right[j]
        x = x + product * np.float32(self.scale)
        if self.magnitude is None:
            return x
        length = np.sqrt(np.square(x, dtype=np.float64).sum(axis=1)).astype(np.float32)
        return x * (self.magnitude[first : first + len(x)] / length)[:, None]


@dataclass
class Merged:
    """A tensor with its updates, read as a file that holds nothing else."""

    base: Entry
    kind: int
    updates: list[Update] = field(default_factory=list)

    @property
    def path(self) -> str:
        return self.base.file.path

    @property
    def k(self) -> int:
        return math.prod(self.base.shape[1:])

    def read(self, offset: int, n: int) -> bytearray:
        row = self.k * np.dtype(tiles.TYPES[self.kind].bits).itemsize
        first, end = offset // row, -(-(offset + n) // row)
        step = max(STEP // self.k, 1)
        parts = [self._rows(at, min(step, end - at)).tobytes() for at in range(first, end, step)]
        return bytearray(b"".join(parts)[offset - first * row :][:n])

    def _rows(self, first: int, n: int) -> np.ndarray:
        kind, size = TYPES[self.base.dtype]
        data = self.base.file.read(self.base.offset + first * self.k * size, n * self.k * size)
        x = tiles.values(kind, np.frombuffer(data, tiles.TYPES[kind].bits).reshape(n, self.k), self.k)
        for update in self.updates:
            x = update.apply(x, first)
        return tiles.bits(self.kind, x)


# ---- the adapter ----


@dataclass
class Module:
    """What an adapter holds for one module: A [r, in], B [out, r], what B adds to the bias, and DoRA's magnitude."""

    a: Entry | None = None
    b: Entry | None = None
    bias: Entry | None = None
    magnitude: Entry | None = None
    embedding: bool = False


def merge(
    adapters: list[Adapter], entries: dict[str, Entry], rename: Callable[[str], str | None], keep_type: bool,
    notes: list[str],
) -> None:
    """Changes `entries`. rename: from a name in the model that was trained to the one in `entries`, None for tensors of
    pictures and sound."""
    whole: set[str] = set()
    for adapter in adapters:
        config = _config(adapter.folder)
        modules, others = _parts(adapter.folder)
        changed = 0
        for name, entry in others.items():
            target = rename(name)
            if target is not None:
                changed += _replace(adapter, target, entry, entries, whole)
        for name, module in modules.items():
            target = rename(name + ".weight")
            if target is not None:
                _change(adapter, config, name, target, module, entries, keep_type)
                changed += 1
        if not changed:
            raise ConvertError(f"{adapter.folder}: the adapter changes nothing of a text model")
        notes.append(f"{adapter.folder}: LoRA adapter merged into {changed} tensors")


def ties(adapter: Adapter) -> bool:
    """Whether embedding and head stay one tensor."""
    return _config(adapter.folder).get("ensure_weight_tying") is True


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "adapter_config.json"
    if not path.is_file():
        raise ConvertError(f"{folder} has no adapter_config.json, so it is not a PEFT adapter", USAGE)
    config = parse_json(read_whole(path), str(path))
    if not isinstance(config, dict):
        raise ConvertError(f"{path} does not hold a JSON object")
    if config.get("peft_type") != "LORA":
        raise ConvertError(f"{path}: peft_type is {config.get('peft_type')!r}; only LORA is merged")
    for key, value in config.items():
        if key not in USED | IGNORED and value not in (None, False, [], {}):
            raise ConvertError(f"{path}: the key {key!r} ({value!r}) is not understood, so the adapter is not merged")
    begin = config.get("init_lora_weights")
    if not isinstance(begin, (bool, str, type(None))) or begin not in BEGINNINGS:
        raise ConvertError(f"{path}: init_lora_weights is {begin!r}: such an adapter belongs to a base model that was changed")
    for key in ("use_rslora", "fan_in_fan_out", "use_dora"):
        if not isinstance(config.get(key, False), (bool, type(None))):
            raise ConvertError(f"{path}: {key} is {config[key]!r}; it must be true or false")
    return config


def _parts(folder: Path) -> tuple[dict[str, Module], dict[str, Entry]]:
    """The modules that the adapter changes, and whole tensors, by their names in the model that was trained."""
    path = folder / "adapter_model.safetensors"
    if not path.is_file():
        pickled = ": its weights are a PyTorch pickle, which may run code when read; save it as safetensors"
        raise ConvertError(f"{folder} has no adapter_model.safetensors{pickled if (folder / 'adapter_model.bin').exists() else ''}")
    modules: dict[str, Module] = {}
    others: dict[str, Entry] = {}
    for name, entry in safetensors.read(path).items():
        if entry.dtype not in TYPES:
            raise ConvertError(f"{path}: tensor {name!r} is {entry.dtype}; F32, F16 and BF16 are read")
        plain = name.removeprefix(PREFIX)
        lora, magnitude = LORA.fullmatch(plain), MAGNITUDE.fullmatch(plain)
        if plain == name or ("lora_" in plain and not lora and not magnitude):
            raise ConvertError(f"{path} holds the tensor {name!r}, which no LoRA adapter has")
        if lora:
            module = modules.setdefault(lora[1], Module())
            part = "bias" if lora[3] == ".bias" else lora[2].lower()
            module.embedding |= "lora_embedding_" in plain
            if part == "bias" and lora[2] == "A" or getattr(module, part) is not None:
                raise ConvertError(f"{path} holds the tensor {name!r}, which no LoRA adapter has")
            setattr(module, part, entry)
        elif magnitude:
            modules.setdefault(magnitude[1], Module()).magnitude = entry
        else:
            others[WRAPPED.sub("", plain)] = entry
    for name, module in modules.items():
        if module.a is None or module.b is None:
            raise ConvertError(f"{path} lacks lora_{'A' if module.a is None else 'B'} of {name!r}")
    return modules, others


def _array(entry: Entry) -> np.ndarray:
    """The whole of a tensor as f32."""
    kind, size = TYPES[entry.dtype]
    data = entry.file.read(entry.offset, math.prod(entry.shape) * size)
    bits = np.frombuffer(data, tiles.TYPES[kind].bits).reshape(1, -1)
    return tiles.values(kind, bits, bits.shape[1]).reshape(entry.shape)


def _of_pattern(path: Path, config: dict[str, Any], pattern: str, module: str, default: Any) -> Any:
    """The value of the first key of a pattern that fits the module's name, as PEFT looks it up."""
    patterns = config.get(pattern) or {}
    for key, value in patterns.items() if isinstance(patterns, dict) else ():
        try:
            if len(key) < 256 and len(re.findall(r"[*+{]", key)) < 3 and re.match(rf"(.*\.)?({key})$", module):
                return value
        except re.error as e:
            raise ConvertError(f"{path}: the key {key!r} of {pattern} is not a pattern: {e}") from None
    return default


def _scaling(adapter: Adapter, config: dict[str, Any], module: str, rank: int) -> float:
    path = adapter.folder / "adapter_config.json"
    r = _of_pattern(path, config, "rank_pattern", module, config.get("r", 8))
    alpha = _of_pattern(path, config, "alpha_pattern", module, config.get("lora_alpha", 8))
    if type(r) is not int or r < 1 or type(alpha) not in (int, float) or not math.isfinite(alpha):
        raise ConvertError(f"{path}: r is {r!r} and lora_alpha {alpha!r}; they must be numbers")
    if r != rank:
        raise ConvertError(f"{adapter.folder}: the rank of {module!r} is {rank}, but adapter_config.json says {r}")
    return adapter.scale * (alpha / math.sqrt(r) if config.get("use_rslora") else alpha / r)


def _change(
    adapter: Adapter, config: dict[str, Any], name: str, target: str, module: Module, entries: dict[str, Entry],
    keep_type: bool,
) -> None:
    """Puts the merged tensors of a module into `entries`."""
    base = entries.get(target)
    if base is None:
        raise ConvertError(f"{adapter.folder}: the adapter changes {name!r}, but the model has no tensor {target!r}")
    if len(module.a.shape) != 2 or len(module.b.shape) != 2 or module.a.shape[0] != module.b.shape[1]:
        raise ConvertError(f"{adapter.folder}: A of {name!r} is {list(module.a.shape)} and B {list(module.b.shape)}; they do not fit")
    scale = _scaling(adapter, config, name, module.a.shape[0])
    a, b = _array(module.a), _array(module.b)
    shape = (b.shape[0], a.shape[1])
    turned = module.embedding or (base.shape == shape[::-1] and (base.shape != shape or bool(config.get("fan_in_fan_out"))))
    if base.shape != (shape[::-1] if turned else shape):
        raise ConvertError(f"{adapter.folder}: B A of {name!r} is {list(shape)}, but {target!r} of the model is {list(base.shape)}")
    magnitude = _magnitude(adapter, config, name, module, shape[0], turned)
    update = Update(np.ascontiguousarray(a.T), np.ascontiguousarray(b.T), scale) if turned else Update(b, a, scale, magnitude)
    _add(entries, target, update, keep_type)
    if module.bias is not None:
        bias = target.removesuffix("weight") + "bias"
        if bias not in entries or entries[bias].shape != module.bias.shape:
            raise ConvertError(f"{adapter.folder}: the adapter changes the bias of {name!r}, but the model has none of that size")
        _add(entries, bias, Update(_array(module.bias)[:, None], np.ones((1, 1), np.float32), scale), keep_type)


def _magnitude(
    adapter: Adapter, config: dict[str, Any], name: str, module: Module, rows: int, turned: bool
) -> np.ndarray | None:
    if bool(config.get("use_dora")) != (module.magnitude is not None):
        raise ConvertError(f"{adapter.folder}: use_dora does not agree with the tensors of {name!r}")
    if module.magnitude is None:
        return None
    if turned or math.prod(module.magnitude.shape) != rows:
        raise ConvertError(f"{adapter.folder}: DoRA of {name!r} is not supported: of embeddings, transposed, or of another size")
    return _array(module.magnitude).reshape(-1)


def _add(entries: dict[str, Entry], target: str, update: Update, keep_type: bool) -> None:
    """A further update of a tensor."""
    entry = entries[target]
    if not isinstance(entry.file, Merged):
        if entry.dtype not in TYPES:
            raise ConvertError(f"{entry.file.path}: tensor {target!r} is {entry.dtype}; adapters are merged into F32, F16 and BF16")
        kind = TYPES[entry.dtype][0] if keep_type else F32
        dtype = next(name for name, (its, _) in TYPES.items() if its == kind)
        entry = entries[target] = Entry(target, dtype, entry.shape, Merged(entry, kind), 0)
    entry.file.updates.append(update)


def _replace(adapter: Adapter, target: str, entry: Entry, entries: dict[str, Entry], whole: set[str]) -> bool:
    """A tensor that was trained as a whole (modules_to_save, biases); false where it is the model's own, which PEFT saves
    beside an adapter of an embedding."""
    if target not in entries:
        raise ConvertError(f"{adapter.folder}: the adapter holds {target!r}, which is not a tensor of the model")
    if safetensors.equal(entry, entries[target]):
        return False
    if entries[target].shape != entry.shape:
        raise ConvertError(f"{adapter.folder}: {target!r} is {list(entry.shape)}, but that of the model {list(entries[target].shape)}")
    if adapter.scale != 1:
        raise ConvertError(f"{adapter.folder}: the adapter holds the whole of {target!r}, which a scale does not fit", USAGE)
    if target in whole or isinstance(entries[target].file, Merged):
        raise ConvertError(f"{adapter.folder}: {target!r} is replaced, but another adapter changes it, too")
    whole.add(target)
    entries[target] = entry
    return True
