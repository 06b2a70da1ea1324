"""tiktoken's lists of tokens and ranks: Llama 3's tokenizer.model, and tiktoken.model of Kimi and Moonlight.

What a list does not say is known of these models: how text is cut, and the names of the special tokens behind it.
"""

import ast
import base64
import re
from pathlib import Path

from ...errors import ConvertError
from . import patterns
from .byte_level import added_entry, alphabet_text, byte_level_json, merges_of_ranks
from .stated import Stated, read_bytes
from .tokenizer import FLAGS, SPECIAL, Tokenizer
from .tokenizer_json import from_json

LLAMA3_SPECIAL = [
    "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
    "<|reserved_special_token_2|>", "<|reserved_special_token_3|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|reserved_special_token_4|>", "<|eot_id|>", *(f"<|reserved_special_token_{i}|>" for i in range(5, 251)),
]  # fmt: skip
RANK_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} [0-9]+\r?\n")
LLAMA3_RANKS = 128000
KIMI_CLASS, KIMI_SPECIAL = "TikTokenTokenizer", 258  # ids behind the ranks


def ranks_of(data: bytes, origin: str) -> dict[bytes, int]:
    """A line "base64 rank" per token."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except ValueError:
            raise ConvertError(f"{origin}, line {number}: want a token in base64 and its rank") from None
    if sorted(ranks.values()) != list(range(len(ranks))):
        raise ConvertError(f"{origin}: the ranks are not 0 to {len(ranks) - 1}")
    return ranks


def from_ranks(data: bytes, origin: str, added: list[str] | None = None) -> Tokenizer:
    """Llama 3's: the special tokens follow by their fixed names."""
    ranks = ranks_of(data, origin)
    if added is None and len(ranks) != LLAMA3_RANKS:
        raise ConvertError(
            f"{origin} lists {len(ranks)} tiktoken ranks; only Llama 3's {LLAMA3_RANKS} come with a known pattern: "
            "use the model's tokenizer.json"
        )
    names = LLAMA3_SPECIAL if added is None else added
    special = [added_entry(len(ranks) + i, name, True) for i, name in enumerate(names)]
    made = _whole(ranks, patterns.LLAMA3, special, before=[(names[0], len(ranks))])
    return from_json(made, origin, {"eos_token": names[1]})


def _whole(ranks: dict[bytes, int], pattern: str, special: list[dict], **more) -> dict:
    vocab = {alphabet_text(token): rank for token, rank in ranks.items()}
    return byte_level_json(vocab, merges_of_ranks(ranks), pattern, special, ignore_merges=True, **more)


def from_kimi(data: bytes, path: Path, said: Stated, rows: int | None) -> Tokenizer:
    """Kimi's tiktoken.model: tokenizer_config.json names the special tokens, or they are reserved ones."""
    name = said.config.get("tokenizer_class")
    if name != KIMI_CLASS:
        raise ConvertError(f"{path}: tokenizer_class is {name!r}; of tiktoken.model only {KIMI_CLASS} is known: use tokenizer.json")
    ranks = ranks_of(data, str(path))
    end = min(len(ranks) + KIMI_SPECIAL, len(ranks) + KIMI_SPECIAL if rows is None else rows)
    named = {token.id: token for token in said.tokens if token.id is not None}
    beyond = [token for i, token in named.items() if not len(ranks) <= i < end]
    if beyond:
        raise ConvertError(f"{said.where}: the added token {beyond[0].content!r} has the id {beyond[0].id}; {len(ranks)} to {end - 1} are free")
    special = []
    for i in range(len(ranks), end):
        flags = named[i].flags if i in named else SPECIAL
        content = named[i].content if i in named else f"<|reserved_token_{i}|>"
        special.append(added_entry(i, content, bool(flags & SPECIAL), **{n: bool(flags & bit) for n, bit in FLAGS.items() if bit != SPECIAL}))
    return from_json(_whole(ranks, stated_pattern(path.parent) or patterns.KIMI, special), str(path), said.named)


def stated_pattern(folder: Path) -> str | None:
    """The expression that the Python file beside the list joins: pat_str = "|".join([...]). The file is read, never run."""
    for path in sorted(folder.glob("tokenization_*.py")):
        for node in ast.walk(ast.parse(read_bytes(path))):
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "pat_str" and isinstance(node.value, ast.Call):
                return "|".join(ast.literal_eval(node.value.args[0]))
    return None
