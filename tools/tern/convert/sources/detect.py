"""Opens a source by what it is rather than by its name. In: a path. Out: a Source."""

from collections.abc import Sequence
from pathlib import Path

from ...errors import BAD_FILE, USAGE, ConvertError
from ...weights.writer import MAGIC
from ..families.config import check_length
from ..families.settings import Settings
from ..files.file import HEAD, opened, refuse_other
from . import gguf, huggingface, llama2c
from .lora import Adapter
from .source import Source


def load(
    path: Path, tokenizer_file: Path | None, rope_length: int | None, settings: Settings,
    adapters: Sequence[Adapter] = (), keep_type: bool = True,
) -> Source:
    """The source. What is wrong with --set alone is a matter of usage, not of the file."""
    try:
        return read(path, tokenizer_file, rope_length, settings, adapters, keep_type)
    except ConvertError as e:
        if e.code != BAD_FILE or not settings.values:
            raise
        try:
            read(path, tokenizer_file, rope_length, Settings(), adapters, keep_type)
        except ConvertError:
            raise e from None
        raise ConvertError(f"with {settings}: {e}", USAGE) from None


def read(
    path: Path, tokenizer_file: Path | None, rope_length: int | None, settings: Settings, adapters: Sequence[Adapter],
    keep_type: bool,
) -> Source:
    """The source, by the reader that it is for."""
    if path.is_dir():
        return huggingface.load(path, tokenizer_file, rope_length, settings, adapters, keep_type)
    if adapters:
        raise ConvertError("--lora needs a Hugging Face directory: adapters are trained on its tensors", USAGE)
    with open(opened(path), "rb") as f:
        head = f.read(HEAD)
    if head[:4] == b"GGUF":
        return gguf.load(path, tokenizer_file, rope_length, settings)
    refuse_known(path, head)
    check_length(rope_length, False, str(path))
    return llama2c.load(path, tokenizer_file, settings)


def refuse_known(path: Path, head: bytes) -> None:
    """Files that are something else get a sentence that says what."""
    refuse_other(path, head)
    if head[:4] == MAGIC:
        raise ConvertError(f"{path} is a tern weights file already; ./quantize changes its type", USAGE)
    if head[:4] == b"PK\3\4" or head[:2] == b"\x80\x02":
        raise ConvertError(
            f"{path} is a PyTorch pickle, which may run code when read; save the model as safetensors", USAGE
        )
    if path.name == "tokenizer.bin":
        raise ConvertError(f"{path} is the tokenizer of a llama2.c checkpoint; name the checkpoint itself", USAGE)
    if path.suffix == ".safetensors" or path.name == "config.json":
        raise ConvertError(f"{path} is one file of a model; name its directory, {path.parent}", USAGE)
