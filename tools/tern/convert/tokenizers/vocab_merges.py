"""vocab.json with merges.txt, and encoder.json with vocab.bpe: byte-level BPE before tokenizer.json."""

from pathlib import Path

from ...errors import ConvertError
from . import patterns, stated
from .byte_level import added_entry, byte_level_json
from .stated import read_bytes, read_json
from .tokenizer import Tokenizer
from .tokenizer_json import from_json


def read_merges(path: Path) -> list[str]:
    """The lines of merges.txt or vocab.bpe, without the version at its head."""
    lines = read_bytes(path).decode("utf-8").split("\n")
    return [line.rstrip("\r") for i, line in enumerate(lines) if line.strip("\r") and not (i == 0 and line.startswith("#version"))]


def from_vocab_and_merges(vocab_path: Path, merges_path: Path) -> Tokenizer:
    """vocab.json with merges.txt, or encoder.json with vocab.bpe. These do not say how text is cut into words;
    tokenizer_config.json's class does, or the size of the vocabulary."""
    vocab, merges = read_json(vocab_path), read_merges(merges_path)
    config_path = vocab_path.with_name("tokenizer_config.json")
    config = read_json(config_path) if config_path.exists() else {}
    kind = config.get("tokenizer_class", "").removesuffix("Fast")
    known = config.get("added_tokens_decoder", {})
    added = [added_entry(int(i), **entry) for i, entry in known.items()]
    options: dict = {}
    if kind == "Qwen2Tokenizer":
        options = {"pattern": patterns.QWEN2, "nfc": True}
    elif kind == "GPT2Tokenizer" or (not kind and len(vocab) == 50257):
        options = {"pattern": None, "prefix_space": bool(config.get("add_prefix_space", False))}
        if "<|endoftext|>" in vocab and not added:
            added = [added_entry(vocab["<|endoftext|>"], "<|endoftext|>", True)]
    elif not kind and len(vocab) >= 128000:
        options = {"pattern": patterns.LLAMA3, "ignore_merges": True}
    else:
        raise ConvertError(f"{vocab_path} does not say how text is cut into words; tokenizer.json does: name it with --tokenizer")
    made = byte_level_json(vocab, merges, added=added, **options)
    return from_json(made, str(vocab_path), stated.read(vocab_path.parent).named)
