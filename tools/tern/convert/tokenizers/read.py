"""The tokenizer of a file or folder of any known kind, by what it is rather than by its name.

In:  tokenizer.json, a SentencePiece tokenizer.model, Llama 3's tokenizer.model or Kimi's tiktoken.model (tiktoken ranks),
     vocab.json + merges.txt, encoder.json + vocab.bpe, or a folder with one of them. Out: a Tokenizer.
"""

import json
from pathlib import Path

from ...errors import ConvertError
from . import stated
from . import sentencepiece_model as spf
from .sentencepiece import from_sentencepiece
from .stated import Stated, read_bytes, read_json
from .tiktoken import RANK_LINE, from_kimi, from_ranks
from .tokenizer import FLAGS, Tokenizer, checked_size
from .tokenizer_json import from_json
from .vocab_merges import from_vocab_and_merges


def _with_stated(data: dict, origin: str, said: Stated, rows: int | None, text: str) -> Tokenizer:
    """tokenizer.json, and the added tokens that it lacks of those that the files beside it give ids."""
    said.tokens = [token for token in said.tokens if token.id is not None]
    if not said.tokens:
        return from_json(data, origin, said.named, text)
    vocab, added, notes = data["model"]["vocab"], data.get("added_tokens") or [], []
    known = {entry[0] for entry in vocab} if isinstance(vocab, list) else set(vocab)
    known |= {entry["content"] for entry in added}
    size = max(len(vocab), 1 + max((entry["id"] for entry in added), default=-1))
    said.tokens = [token for token in said.tokens if token.content not in known]
    tokens = said.place({}, size, rows, notes)
    if tokens:
        names = FLAGS.items()
        added = added + [{"id": s.id, "content": s.content} | {name: bool(s.flags & bit) for name, bit in names} for s in tokens]
        data = data | {"added_tokens": added}
        text = json.dumps(data)
    t = from_json(data, origin, said.named, text)
    t.notes = notes
    return t


def read(path: Path, rows: int | None = None) -> Tokenizer | None:
    """The tokenizer of a file of any known kind, or of a folder, for a model of so many rows; None for a folder without."""
    try:
        return _read_any(Path(path), rows)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, SyntaxError) as e:
        raise ConvertError(f"{path} is damaged, or no tokenizer that is known here ({type(e).__name__}: {e})") from None


def _read_any(path: Path, rows: int | None) -> Tokenizer | None:
    if path.is_dir():
        names = ("tokenizer.json", "tokenizer.model", "tiktoken.model", "vocab.json", "encoder.json")
        found = [path / name for name in names if (path / name).exists()]
        return _read_any(found[0], rows) if found else None
    for vocab, merges in (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")):
        if path.name in (vocab, merges):
            return from_vocab_and_merges(path.with_name(vocab), path.with_name(merges))
    data = read_bytes(path)
    if data[:1] == b"{":
        text = data.decode("utf-8", "replace")
        return _with_stated(read_json(path), str(path), stated.read(path.parent), rows, text)
    if RANK_LINE.match(data) and path.name == "tiktoken.model":
        return from_kimi(data, path, stated.read(path.parent), rows)
    if RANK_LINE.match(data):
        return from_ranks(data, str(path))
    if path.name == "tokenizer.bin":
        raise ConvertError(f"{path} is llama2.c's, for its checkpoints alone; name the model's tokenizer.json or tokenizer.model")
    if data[:1] != b"\n":
        raise ConvertError(f"{path} is no tokenizer that is known here")
    return from_sentencepiece(spf.parse(data, str(path)), str(path), data, stated=stated.read(path.parent), rows=rows)


def from_huggingface(folder: Path, given: Path | None, vocab: int) -> Tokenizer | None:
    """The tokenizer of a model folder, or the file `given` in its place; None where there is none."""
    return checked_size(read(given or folder, vocab), vocab)
