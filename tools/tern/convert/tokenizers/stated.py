"""Added tokens, BOS and EOS as a folder's small files state them beside tokenizer.model or tokenizer.json.

In:  tokenizer_config.json; where it has no added_tokens_decoder, special_tokens_map.json and added_tokens.json.
Out: Stated. Precedence, flags and the order of ids are those of transformers 5 (PreTrainedTokenizerBase.from_pretrained,
TokenizersBackend.__init__); what it would give another id than the files state is refused by name.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import IO, ConvertError
from ..files.file import HEAD, read_whole, refuse_other
from .tokenizer import FLAGS, NORMALIZED, SPECIAL

NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


@dataclass
class Token:
    """An added token; without an id it takes the next one that is free."""

    content: str
    flags: int
    id: int | None = None


@dataclass
class Stated:
    """What the files say; `tokens` in the order in which ids are given."""

    where: str = ""  # tokenizer_config.json
    where_ids: str = ""  # the file that states ids of added tokens
    config: dict[str, Any] = field(default_factory=dict)
    tokens: list[Token] = field(default_factory=list)
    named: dict[str, str | None] = field(default_factory=dict)  # of NAMED, those that are stated

    def flag(self, key: str) -> bool | None:
        """true, false, or None where the files do not say."""
        value = self.config.get(key)
        if value is not None and not isinstance(value, bool):
            raise ConvertError(f"{self.where}: {key} is {value!r}; it must be true or false")
        return value

    def llama(self) -> bool:
        """Whether the reference builds its LlamaTokenizer of tokenizer.model."""
        name = self.config.get("tokenizer_class")
        return isinstance(name, str) and name.removesuffix("Fast") == "LlamaTokenizer"

    def place(self, known: dict[str, int], size: int, rows: int | None, notes: list[str]) -> list[Token]:
        """The tokens with their ids, above those `known` by their text, of which the next is `size`. Those that the
        model has no row for are left out, and the notes say so: the reference would give it ids that it cannot look up.
        A text that is stated twice is one token."""
        out, known, placed = [], dict(known), set()
        for token in self.tokens:
            i = known.setdefault(token.content, size)
            where = self.where if token.id is None else self.where_ids
            if token.id not in (None, i):
                what = "is that token's already" if i != size else "is the next that is free"
                raise ConvertError(
                    f"{where}: the added token {token.content!r} has the id {token.id}, but {i} {what}, "
                    "which the reference would give it; correct the id"
                )
            if i == size:
                size += 1
            if i in placed:
                continue
            placed.add(i)
            if rows is not None and i >= rows:
                notes.append(f"{where}: the added token {token.content!r} ({i}) is left out, as the model has {rows} rows")
                continue
            out.append(Token(token.content, token.flags, i))
        return out


def read_bytes(path: Path) -> bytes:
    try:
        data = read_whole(path)
    except OSError as e:
        raise ConvertError(f"{path}: cannot read: {e.strerror}", IO) from None
    refuse_other(path, data[:HEAD])
    return data


def read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(read_bytes(path).decode("utf-8"))
    except ValueError as e:
        raise ConvertError(f"{path} is not JSON: {e}") from None
    if not isinstance(value, dict):
        raise ConvertError(f"{path} is not a JSON object")
    return value


def _read(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}


def _content(value: Any, where: str, key: str) -> str | None:
    """A token's text, which stands alone or in an object; null is none."""
    text = value.get("content") if isinstance(value, dict) else value
    if text is None and not isinstance(value, dict):
        return None
    if not isinstance(text, str):
        raise ConvertError(f"{where}: {key} is {value!r}; it must be a token's text, or an object with its content")
    return text


def _token(entry: Any, where: str, key: str, i: int | None, special: bool = False) -> Token:
    """An entry with its flags; those that are not there are false, but normalized is then what special is not."""
    if not isinstance(entry, dict):
        raise ConvertError(f"{where}: {key} is {entry!r}; it must be an object with content and flags")
    content = _content(entry, where, key)
    values = {"special": special} | {name: entry[name] for name in FLAGS if name in entry}
    values.setdefault("normalized", not values["special"])
    for name, value in values.items():
        if not isinstance(value, bool):
            raise ConvertError(f"{where}: {name} of {content!r} is {value!r}; it must be true or false")
    return Token(content, sum(FLAGS[name] for name, value in values.items() if value), i)


def _decoder(entries: Any, where: str) -> list[Token]:
    """added_tokens_decoder: ids, as texts, and what stands there; by id."""
    if not isinstance(entries, dict):
        raise ConvertError(f"{where}: added_tokens_decoder is not an object")
    bad = next((i for i in entries if not (i.isascii() and i.isdigit() and len(i) < 10)), None)
    if bad is not None:
        raise ConvertError(f"{where}: added_tokens_decoder names the id {bad!r}; it must be a whole number")
    return [_token(entries[i], where, f"added_tokens_decoder.{i}", int(i)) for i in sorted(entries, key=int)]


def _encoder(entries: dict[str, Any], where: str, special: set) -> list[Token]:
    """added_tokens.json: texts and their ids; special are those that have a name."""
    bad = next((i for i in entries.values() if type(i) is not int or i < 0), None)
    if bad is not None:
        raise ConvertError(f"{where} has the id {bad!r}; it must be a whole number")
    return [
        Token(text, SPECIAL if text in special else NORMALIZED, i) for text, i in sorted(entries.items(), key=lambda e: e[1])
    ]


def _extra(config: dict[str, Any], where: str) -> list[Token]:
    """Special tokens without a name of their own."""
    key = "extra_special_tokens" if config.get("extra_special_tokens") else "additional_special_tokens"
    values = config.get(key) or []
    values = list(values.values()) if isinstance(values, dict) else values
    if not isinstance(values, list):
        raise ConvertError(f"{where}: {key} is not a list of tokens")
    return [
        _token(v, where, key, None, True) if isinstance(v, dict) else Token(_content(v, where, key) or "", SPECIAL) for v in values
    ]


def read(folder: Path) -> Stated:
    """What the files of a folder state."""
    path = folder / "tokenizer_config.json"
    config, where = _read(path), str(path)
    where_ids = where
    extra = _extra(config, where)
    if "added_tokens_decoder" in config:
        tokens = _decoder(config["added_tokens_decoder"], where)
    else:
        beside = _read(folder / "special_tokens_map.json")
        config = config | {key: value for key, value in beside.items() if key in NAMED}
        special = {_content(config.get(key), where, key) for key in NAMED} | {token.content for token in extra}
        where_ids = str(folder / "added_tokens.json")
        tokens = _encoder(_read(folder / "added_tokens.json"), where_ids, special)
    named = {key: _content(config[key], where, key) for key in NAMED if key in config}
    known = {token.content for token in tokens}
    for token in tokens:
        token.flags |= SPECIAL if token.content in named.values() else 0
    for key, content in named.items():
        if content and content not in known:
            value = config[key] if isinstance(config[key], dict) else {"content": content, "normalized": False}
            token = _token(value, where, key, None, True)
            tokens.append(Token(content, token.flags | SPECIAL))
            known.add(content)
    tokens += [token for token in extra if token.content not in known]
    return Stated(where, where_ids, config, [token for token in tokens if token.content], named)
