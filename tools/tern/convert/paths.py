"""Mistakes in the paths of a command that would cost a file or an hour, found before anything is read."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import IO, USAGE, ConvertError
from ..weights.writer import MAGIC
from .files.file import begins_with
from .files.gguf import PART

TOKENIZER_PARTS = (
    "vocab.json", "merges.txt", "encoder.json", "vocab.bpe", "tokenizer_config.json", "added_tokens.json",
    "special_tokens_map.json",
)  # fmt: skip


def check(
    source: Path, out: Path | None, tokenizer: Path | None = None, template: str | None = None, folders: Iterable[Path] = ()
) -> None:
    """The source can be read, OUT can be written, and OUT is nothing that the source reads."""
    if not source.exists():
        raise ConvertError(f"{source} does not exist", IO)
    for path in filter(None, (source, tokenizer)):
        if path.exists() and not path.is_dir() and not path.is_file():
            raise ConvertError(f"{path} is a pipe or a device; name a file or a directory", USAGE)
    if out is None:
        return
    check_out(out)
    if not out.exists():
        return
    if os.path.samefile(source, out):
        raise ConvertError(f"{out} is the source itself; name another file to write", USAGE)
    for path in _read_with(source, out, tokenizer, template, folders):
        if path.exists() and os.path.samefile(path, out):
            raise ConvertError(f"{out} is {path}, which the conversion reads; name another file to write", USAGE)


# owner/model, perhaps @REVISION, perhaps :TYPE or :FILE
NAME = re.compile(r"(?P<name>[\w.-]+/[\w.-]+?)(?:@(?P<revision>[\w./-]+))?(?::(?P<file>[\w./ -]+))?", re.ASCII)


def is_name(text: str) -> bool:
    """Whether a source that does not exist as a path may be the name of a model on the hub."""
    found = NAME.fullmatch(text)
    return bool(found) and not text.startswith(".") and not found["name"].endswith((".gguf", ".bin", ".safetensors"))


def out_file(text: str) -> Path:
    """OUT as it was written: a name that ends in / is a directory's, which a Path does not keep."""
    if os.path.basename(text) in ("", ".", ".."):
        raise ConvertError(f"{text or repr(text)} is the name of a directory; name the file to write", USAGE)
    if text == "-":
        raise ConvertError("a weights file cannot go to standard output (-); name the file to write", USAGE)
    return Path(text)


def check_out(out: Path) -> None:
    """OUT can be written."""
    if out.is_dir():
        raise ConvertError(f"{out} is a directory; name the file to write", USAGE)
    if out.is_symlink() or (out.exists() and not out.is_file()):
        raise ConvertError(f"{out} is no regular file (a link, pipe or device); give another name", USAGE)
    if not out.parent.is_dir():
        raise ConvertError(f"{out.parent}, where {out.name} is to be written, is not a directory", IO)
    if not os.access(out.parent, os.W_OK | os.X_OK):
        raise ConvertError(f"{out.parent}, where {out.name} is to be written, may not be written to by you", IO)


def _read_with(
    source: Path, out: Path, tokenizer: Path | None, template: str | None, folders: Iterable[Path]
) -> Iterator[Path]:
    """Files that may be read besides the source, those that exist and those that do not."""
    if template:
        yield Path(template)
    if tokenizer:
        yield tokenizer
        yield from (tokenizer.with_name(name) for name in TOKENIZER_PARTS)
    for folder in filter(Path.is_dir, filter(None, (source, tokenizer, *folders))):
        yield from _inside(folder, out)
    if source.is_file():
        yield from _beside(source)


def _inside(folder: Path, out: Path) -> Iterator[Path]:
    """What the folder holds, by whatever name, and OUT where it is anywhere below. A weights file of ours is no part of
    a source: it may be made again."""
    if begins_with(out, MAGIC):
        return
    yield from folder.iterdir()
    if out.resolve().is_relative_to(folder.resolve()):
        yield out


def _beside(file: Path) -> Iterator[Path]:
    """The other parts of a GGUF file; the tokenizer of a llama2.c checkpoint."""
    name = PART.fullmatch(file.name)
    if name:
        parts = ((path, PART.fullmatch(path.name)) for path in file.parent.iterdir())
        yield from (path for path, part in parts if part and part.group(1, 3) == name.group(1, 3))
    if not begins_with(file, b"GGUF"):
        yield file.with_name("tokenizer.bin")
