"""Reads a Hugging Face directory: config.json, safetensors, tokenizer, generation_config.json, LICENSE.

In:  the directory. Out: a Source whose matrices have the types of the files, read in pieces.
Families are in families.py; this file alone knows the names and habits of such directories.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import IO, USAGE, ConvertError, reading
from ..families import mtp, published
from ..families.config import Config, token_ids
from ..families.families import FAMILIES
from ..families.features import check_config, feature, slots
from ..families.layouts import Layout
from ..families.places import matrix, unread_rows
from ..families.settings import Settings
from ..files import safetensors
from ..files.file import HEAD, Entry, read_whole, refuse_other
from ..files.matrix import Matrix
from ..files.safetensors import parse_json
from ..tokenizers.read import from_huggingface
from ..tokenizers.tokenizer import Tokenizer
from . import lora, sampling
from .lora import Adapter
from .source import TEMPLATE_TOKENS, Source

TABLES = ("embed", "positions")  # they may have rows that no token or position reads
# Computed from the config instead; masks of old GPT-2 and NeoX files.
IGNORED_TENSORS = re.compile(r"\.rotary_emb\.inv_freq$|\.attn\.(masked_)?bias$|\.attention\.(masked_)?bias$")
# Composite models: the type that holds a text model, and that one's.
COMPOSITE = {
    "gemma3": ("gemma3_text",), "gemma3n": ("gemma3n_text",), "gemma4": ("gemma4_text",),
    "gemma4_unified": ("gemma4_unified_text",),
    "mistral3": ("mistral", "ministral3", "mistral4"),
    "llama4": ("llama4_text",),
    "qwen3_5": ("qwen3_5_text",),
    "qwen3_5_moe": ("qwen3_5_moe_text",),
    "aria": ("aria_text",), "cohere_compass": ("cohere_compass_text",), "emu3": ("emu3_text_model",), "fuyu": ("persimmon",),
    "got_ocr2": ("qwen2",), "mllama": ("mllama_text_model",), "moss_transcribe_diarize": ("qwen3",),
}  # fmt: skip
TIED = ("got_ocr2", "moss_transcribe_diarize")  # their head is the embedding unless they say otherwise
# What tensors of some published files lack.
PREFIXES = {"gpt2": "transformer.", "gpt-sw3": "transformer.", "bloom": "transformer.", "opt": "model."}
# What those of others have in its place.
BACKBONES = ("nemotron_h",)
# Parts of names that published files have in the place of those of transformers.
RENAMED = {
    "bailing_hybrid": {
        "model.word_embeddings.": "model.embed_tokens.", ".attention.": ".self_attn.", ".self_attn.dense.": ".self_attn.o_proj.",
        ".gate.expert_bias": ".gate.e_score_correction_bias",
    },
}  # fmt: skip
VISION = re.compile(
    r"(^|\.)(vision_tower|vision_model|multi_modal_projector|vision_embedder|embed_vision|audio_tower|embed_audio|visual"
    r"|vision_embed_tokens|vqmodel|embed_tokens_extend)\."
)
# Of layers that read the keys and values of an earlier one.
UNREAD = re.compile(r"\.self_attn\.[kv]_(proj|norm)\.weight$")
LAYER = re.compile(r"^model\.layers\.(\d+)\.")
LICENCES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "LICENCE.txt", "LICENCE.md")


def title(folder: Path) -> str:
    """The folder's name; of the hub's cache (models--OWNER--NAME/snapshots/COMMIT), the model's."""
    path = folder.resolve()
    return path.parent.parent.name.split("--")[-1] if path.parent.name == "snapshots" else path.name


def load(
    folder: Path, tokenizer_file: Path | None, rope_length: int | None = None, settings: Settings | None = None,
    adapters: Sequence[Adapter] = (), keep_type: bool = True,
) -> Source:
    """The model of a directory; rope_length: positions that a dynamic RoPE scaling is converted for; keep_type: what an
    adapter changes becomes the type again that it was."""
    notes: list[str] = []
    kind, config, values = features(folder, rope_length, notes, settings)
    entries = _plain_names(folder, kind, _entries(folder), notes)
    if adapters:
        _merge(adapters, kind, config, entries, keep_type, notes)
    _settle_head(folder, Layout(kind, config, entries.__contains__), config, entries, notes)
    mtp.behind(entries, config["n_layers"])
    mtp.settle(kind, config, values, entries, str(folder), notes, safetensors.equal, Layout(kind, config, entries.__contains__).names)
    matrices = _matrices(folder, kind, config, entries)
    generation = folder / "generation_config.json"
    return Source(
        name=title(folder),
        origin=f"Hugging Face directory {title(folder)}, {kind}" + "".join(f", LoRA adapter {a.name}" for a in adapters),
        family=kind,
        config=config,
        matrices=matrices,
        tokenizer=_tokenizer(folder, tokenizer_file, config["vocab"], notes),
        generation=sampling.of_generation_config(str(generation), read_object(generation) if generation.exists() else {}),
        end_tokens=_end_tokens(folder, values, generation, config["vocab"], notes, settings),
        licence=_licence(folder),
        notes=notes,
        template=_templates(folder)[0],
        tool_template=_templates(folder)[1],
        template_tokens=_template_tokens(folder),
    )


def features(
    folder: Path, rope_length: int | None, notes: list[str], settings: Settings | None = None
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The family of a directory, its features in the words of FORMAT.md, and the config that says so."""
    if not (folder / "config.json").exists():
        others = sorted(p for p in folder.iterdir() if p.suffix == ".gguf" or (folder / "tokenizer.bin").exists() and p.suffix == ".bin")
        others = [p for p in others if p.name != "tokenizer.bin"]
        hint = f"; to convert a file in it, name that: {others[0]}" if others else ""
        raise ConvertError(f"{folder} has no config.json, so it is not a model in Hugging Face layout{hint}", USAGE)
    kind, values = _text_model(folder, read_object(folder / "config.json"))
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ConvertError(
            f"{folder / 'config.json'}: the model_type {kind!r} is not understood; known are {', '.join(FAMILIES)}"
        )
    config, values = _features(folder, kind, values, rope_length, notes, settings)
    check_config(config)
    return kind, config, values


def read_object(path: Path) -> dict[str, Any]:
    """A JSON file that must hold an object."""
    data = read_whole(path)
    refuse_other(path, data[:HEAD])
    value = parse_json(data, str(path), path.name == "config.json")
    if not isinstance(value, dict):
        raise ConvertError(f"{path} does not hold a JSON object")
    return value


def _text_model(folder: Path, values: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Type and config of the text model; of a composite one, its part."""
    kind = values.get("model_type")
    if not isinstance(kind, str) or kind not in COMPOSITE:
        return kind, values
    inner = values.get("text_config")
    if not isinstance(inner, dict):
        raise ConvertError(f"{folder / 'config.json'}: text_config of a {kind} model is not an object")
    inner = dict(inner)
    for key in ("eos_token_id", "tie_word_embeddings"):
        if key in values:
            inner.setdefault(key, values[key])
    if values.get("tie_word_embeddings") is True:  # that of the whole holds; a head in the file is read all the same
        inner["tie_word_embeddings"] = True
    if kind in TIED:
        inner["tie_word_embeddings"] = values.get("tie_word_embeddings", True)
    inner.pop("architectures", None)
    return _inner_kind(folder, kind, inner), inner


def _inner_kind(folder: Path, kind: str, inner: dict[str, Any]) -> str:
    """The type of the text model; where only one can be, it need not be stated."""
    kinds = COMPOSITE[kind]
    stated = inner.get("model_type", kinds[0])
    if len(kinds) > 1 and stated not in kinds:
        raise ConvertError(
            f"{folder / 'config.json'}: text_config of a {kind} model has model_type {stated!r}; known are {', '.join(kinds)}"
        )
    return stated if len(kinds) > 1 else kinds[0]


def _plain_names(folder: Path, kind: str, entries: dict[str, Entry], notes: list[str]) -> dict[str, Entry]:
    """Tensors under the names of the text model alone: without the prefixes of composite models, with that of GPT-2."""
    out: dict[str, Entry] = {}
    others = 0
    for name, entry in entries.items():
        plain = _plain_name(kind, name)
        if plain is None:
            others += 1
        else:
            out[plain] = entry
    if others:
        notes.append(f"{folder}: {others} tensors of pictures or sound are left out: tern reads text")
    return out


def _plain_name(kind: str, name: str) -> str | None:
    """The name in the text model; None for what does not belong to it."""
    if kind == "phi4_multimodal" or any(kind in kinds for kinds in COMPOSITE.values()):
        if VISION.search(name):
            return None
        name = re.sub(r"^((language|text)_model\.model|model\.(language|text)_model)\.", "model.", name)
        name = name.removeprefix("language_model.").removeprefix("text_model.")
    if kind in BACKBONES and name.startswith("backbone."):
        name = "model." + name.removeprefix("backbone.")
    for theirs, ours in RENAMED.get(kind, {}).items():
        name = name.replace(theirs, ours)
    if kind in PREFIXES and not name.startswith((PREFIXES[kind], "lm_head.")):
        name = PREFIXES[kind] + name
    return name


def _merge(
    adapters: Sequence[Adapter], kind: str, config: dict[str, Any], entries: dict[str, Entry], keep_type: bool,
    notes: list[str],
) -> None:
    """Merges adapters. Embedding and head that were one tensor are two where an adapter changes one of them, as they
    were while it was trained."""
    layout = Layout(kind, config, entries.__contains__)
    embed, head = layout.name("embed"), layout.name("head")
    if config["head_tied"] and head not in entries and embed in entries and not any(map(lora.ties, adapters)):
        entries[head] = entries[embed]
    lora.merge(list(adapters), entries, lambda name: _plain_name(kind, name), keep_type, notes)
    if entries.get(head) is entries.get(embed):
        del entries[head]


def _features(
    folder: Path, kind: str, values: dict[str, Any], rope_length: int | None, notes: list[str],
    settings: Settings | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Features, and the config with what the user has set."""
    where, family = str(folder / "config.json"), FAMILIES[kind]
    named = values.get("architectures")
    if named is not None and named not in ([family.architecture], [family.published]):
        raise ConvertError(f"{where}: architectures is {named!r}; of {kind}, only [{family.architecture!r}] is read")
    config = Config(where, dict(values), family.aliases, rope_length=rope_length)
    given = settings or Settings()
    given.for_source(config)
    if "eos_token_id" in given:
        config.get("eos_token_id")
    with reading(where):
        features = family.features(config)
        published.accept(kind, config, features)
        config.finish()
    if settings is not None:
        config.check_length()
    given.features(features)
    notes += config.notes
    return features, config.values


def _entries(folder: Path) -> dict[str, Entry]:
    """All tensors of model.safetensors, or of the shards that the index names."""
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.exists():
        return safetensors.read(single)
    if not index.exists():
        hint = ": its weights are PyTorch pickles, which may run code when read; save them as safetensors"
        pickled = any(folder.glob("pytorch_model*.bin"))
        raise ConvertError(f"{folder} has no model.safetensors{hint if pickled else ''}")
    places = read_object(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(p, str) for p in places.values()):
        raise ConvertError(f"{index} has no weight_map from names to files")
    entries: dict[str, Entry] = {}
    for shard in sorted(set(places.values())):
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.safetensors", shard):
            raise ConvertError(f"{index} names the file {shard!r}, which is not a safetensors file beside it")
        if not (folder / shard).exists():
            raise ConvertError(f"{index} names {shard}, which does not exist: the model is not whole", IO)
        for name, entry in safetensors.read(folder / shard).items():
            if name in entries:
                raise ConvertError(f"tensor {name!r} is in {entries[name].file.path} and in {folder / shard}")
            if places.get(name) != shard:
                raise ConvertError(f"{folder / shard} holds tensor {name!r}, which {index} does not place there")
            entries[name] = entry
    for name, shard in places.items():
        if name not in entries:
            raise ConvertError(f"{index} places tensor {name!r} in {shard}, which does not hold it")
    return entries


def _settle_head(
    folder: Path, layout: Layout, config: dict[str, Any], entries: dict[str, Entry], notes: list[str]
) -> None:
    """Tied as transformers does it: when both tensors are there and differ, the head is its own."""
    embed_name, head_name = layout.name("embed"), layout.name("head")
    embed, head = entries.get(embed_name), entries.get(head_name)
    if not config["head_tied"] or head is None:
        return
    if embed is None:
        entries[embed_name] = entries.pop(head_name)
    elif safetensors.equal(embed, head):
        del entries[head_name]
    else:
        config["head_tied"] = 0
        notes.append(f"{folder}: config.json says that the head is the embedding, but the two differ; both are kept")


def _matrices(folder: Path, kind: str, config: dict[str, Any], entries: dict[str, Entry]) -> dict[str, Matrix]:
    """Every tensor that the model must have, of the right shape; any other one is refused."""
    layout, out, wanted, read = Layout(kind, config, entries.__contains__), {}, set(), []
    for slot in slots(config):
        places = layout.places(slot)
        read += places if slot.name not in TABLES else []
        out[slot.name] = matrix(slot, places, entries, str(folder))
        wanted |= {name for place in places for name in (place.name, place.scales, place.ternary)}
    for name, entry in entries.items():
        if name not in wanted and not IGNORED_TENSORS.search(name) and not _is_unread(kind, config, name):
            raise ConvertError(
                f"{entry.file.path} holds the tensor {name!r}, which a model of this config does not have"
            )
    for name, n in unread_rows(read).items():
        raise ConvertError(f"{entries[name].file.path}: {n} of the {entries[name].shape[0]} rows of {name!r} are not understood")
    return out


def _is_unread(kind: str, config: dict[str, Any], name: str) -> bool:
    """Tensors of a layer that published files have, and that the reference drops, or does not use without a picture."""
    found = LAYER.match(name)
    layer = int(found[1]) if found else config["n_layers"]
    if layer >= config["n_layers"]:
        return False
    if kind == "axk1" and name.endswith(".post_mlp_layernorm.weight"):
        return True  # dense layers have none
    if kind == "mllama_text_model" and not feature(config, "mixer", layer):
        return True
    return bool(feature(config, "kv_from", layer) and UNREAD.search(name))


def _end_tokens(
    folder: Path, config: dict[str, Any], path: Path, vocab: int, notes: list[str], settings: Settings | None
) -> list[int]:
    """What ends a text, by both files, or by what the user has set alone."""
    given = settings is not None and "eos_token_id" in settings
    ends = token_ids(str(folder / "config.json"), config.get("eos_token_id"))
    if path.exists() and not given:
        ends |= token_ids(str(path), read_object(path).get("eos_token_id"))
    for end in sorted(ends):
        if end >= vocab:
            notes.append(f"{folder}: the end token {end} is left out, because the vocabulary has {vocab} tokens")
    return [end for end in sorted(ends) if end < vocab]


def _tokenizer(folder: Path, given: Path | None, vocab: int, notes: list[str]) -> Tokenizer | None:
    with reading(f"the tokenizer {given or f'in {folder}'}"):
        found = from_huggingface(folder, given, vocab)
    notes += found.notes if found else []
    if found is None:
        notes.append(f"{folder} has no tokenizer, so the model will take and give token ids only")
    return found


def _tokenizer_config(folder: Path) -> dict[str, Any]:
    path = folder / "tokenizer_config.json"
    return read_object(path) if path.is_file() else {}


def _templates(folder: Path) -> tuple[str, str]:
    """The chat template, and the one for conversations with tools if that is another: files of their own, or a key, or
    those of a list that are named default and tool_use; "" for none."""
    value = _tokenizer_config(folder).get("chat_template")
    listed = value if isinstance(value, list) else [{"name": "default", "template": value}]
    named = {v.get("name"): v.get("template") for v in listed if isinstance(v, dict)}
    for name, path in (("default", "chat_template.jinja"), ("tool_use", "additional_chat_templates/tool_use.jinja")):
        if (folder / path).is_file():
            named[name] = read_whole(folder / path).decode("utf-8", "replace")
    texts = (named.get(name) for name in ("default", "tool_use"))
    return tuple(text if isinstance(text, str) else "" for text in texts)


def _template_tokens(folder: Path) -> dict[str, str]:
    """Texts of the special tokens, which are texts or objects with `content`."""
    found = {name: _tokenizer_config(folder).get(name) for name in TEMPLATE_TOKENS}
    texts = {name: v.get("content") if isinstance(v, dict) else v for name, v in found.items()}
    return {name: v for name, v in texts.items() if isinstance(v, str)}


def _licence(folder: Path) -> str:
    """The text of the licence file, or the name that the model card states."""
    for name in LICENCES:
        if (folder / name).is_file():
            return read_whole(folder / name).decode("utf-8", "replace")
    card = folder / "README.md"
    if card.is_file():
        head = re.match(r"---\s*\n(.*?)\n---", read_whole(card).decode("utf-8", "replace"), re.S)
        name = re.search(r"^license:\s*(\S+)\s*$", head.group(1), re.M) if head else None
        return name.group(1) if name else ""
    return ""
