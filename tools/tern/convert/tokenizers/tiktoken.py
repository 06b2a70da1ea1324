"""Llama 3's tokenizer.model: tiktoken's list of tokens and ranks."""

import base64
import re

from ...errors import ConvertError
from . import patterns
from .byte_level import added_entry, alphabet_text, byte_level_json, merges_of_ranks
from .tokenizer import Tokenizer
from .tokenizer_json import from_json

LLAMA3_SPECIAL = [
    "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
    "<|reserved_special_token_2|>", "<|reserved_special_token_3|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|reserved_special_token_4|>", "<|eot_id|>", *(f"<|reserved_special_token_{i}|>" for i in range(5, 251)),
]  # fmt: skip
RANK_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} [0-9]+\r?\n")


LLAMA3_RANKS = 128000


def from_ranks(data: bytes, origin: str, added: list[str] | None = None) -> Tokenizer:
    """Llama 3's tokenizer.model: a line "base64 rank" per token; the special tokens follow by their fixed names."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except ValueError:
            raise ConvertError(f"{origin}, line {number}: want a token in base64 and its rank") from None
    if sorted(ranks.values()) != list(range(len(ranks))):
        raise ConvertError(f"{origin}: the ranks are not 0 to {len(ranks) - 1}")
    if added is None and len(ranks) != LLAMA3_RANKS:
        raise ConvertError(
            f"{origin} lists {len(ranks)} tiktoken ranks; only Llama 3's {LLAMA3_RANKS} come with a known pattern: "
            "use the model's tokenizer.json"
        )
    names = LLAMA3_SPECIAL if added is None else added
    special = [added_entry(len(ranks) + i, name, True) for i, name in enumerate(names)]
    vocab = {alphabet_text(token): rank for token, rank in ranks.items()}
    bos = [(names[0], len(ranks))]
    made = byte_level_json(vocab, merges_of_ranks(ranks), patterns.LLAMA3, special, ignore_merges=True, before=bos)
    return from_json(made, origin, {"eos_token": names[1]})
