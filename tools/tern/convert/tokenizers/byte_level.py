"""Byte-level BPE: its alphabet, and a tokenizer.json for sources that have none.

In:  a vocabulary with merges or ranks, and how text is cut. Out: what tokenizer_json.from_json reads.
"""

from functools import cache

from .patterns import THREE_DIGITS


@cache
def byte_alphabet() -> dict[str, int]:
    """The characters that byte-level BPE writes bytes as: printable Latin-1 ones stand for themselves, the other 68
    bytes, in order, for U+0100 and on."""
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255]
    shifted = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(shifted)}


@cache
def _to_alphabet() -> dict[int, str]:
    return {b: c for c, b in byte_alphabet().items()}


def alphabet_text(data: bytes) -> str:
    """Bytes as byte-level BPE writes them."""
    return "".join(_to_alphabet()[b] for b in data)


def alphabet_bytes(text: str) -> bytes | None:
    """The bytes that a token of byte-level BPE stands for; None when it is not written in that alphabet."""
    table = byte_alphabet()
    return bytes(table[c] for c in text) if all(c in table for c in text) else None


def added_entry(i: int, content: str, special: bool, **flags: bool) -> dict:
    base = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": i, "content": content, "special": special} | base | flags


def split_nodes(patterns: list[str]) -> list[dict]:
    """Pre-tokenizers that split with one pattern after another."""
    return [{"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False} for p in patterns]


def level_node(use_regex: bool, prefix_space: bool = False) -> dict:
    return {"type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": True, "use_regex": use_regex}


def falcon_nodes() -> list[dict]:
    """Falcon's pre-tokenizers: the last two see the alphabet of bytes."""
    digits = {"type": "Digits", "individual_digits": False}
    return [{"type": "Punctuation", "behavior": "Contiguous"}, level_node(True), digits, *split_nodes([THREE_DIGITS])]


def byte_level_json(
    vocab: dict[str, int],
    merges: list,
    pattern: str | list[str] | None,
    added: list[dict],
    *,
    nfc: bool = False,
    digits: bool = False,
    prefix_space: bool = False,
    nodes: list[dict] | None = None,
    ignore_merges: bool = False,
    before: list[tuple[str, int]] = (),
    after: list[tuple[str, int]] = (),
) -> dict:
    """A tokenizer.json of byte-level BPE. `pattern` None: ByteLevel's own (GPT-2's). `digits`: each apart, after the
    patterns or before ByteLevel's. `nodes`: all pre-tokenizers, in place of these."""
    level = level_node(pattern is None, prefix_space)
    steps = split_nodes([pattern] if isinstance(pattern, str) else pattern or [])
    steps += [{"type": "Digits", "individual_digits": True}] if digits else []
    tokens = [*before, *after]
    template = [{"SpecialToken": {"id": name, "type_id": 0}} for name, _ in before]
    template += [{"Sequence": {"id": "A", "type_id": 0}}]
    template += [{"SpecialToken": {"id": name, "type_id": 0}} for name, _ in after]
    processor = {
        "type": "TemplateProcessing",
        "single": template,
        "pair": [*template, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {name: {"id": name, "ids": [i], "tokens": [name]} for name, i in tokens},
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(added, key=lambda a: a["id"]),
        "normalizer": {"type": "NFC"} if nfc else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": nodes or [*steps, level]},
        "post_processor": processor if tokens else None,
        "decoder": level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": ignore_merges,
            "vocab": vocab,
            "merges": merges,
        },
    }


def merges_of_ranks(ranks: dict[bytes, int]) -> list[list[str]]:
    """The merges that give every token of a list of ranks: all its cuts into two tokens, in order of its rank, then of
    the ranks of the parts. Merging by them equals merging by the rank of the joined bytes."""
    out = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        cuts = [(ranks.get(token[:i]), ranks.get(token[i:]), i) for i in range(1, len(token))]
        for _, _, i in sorted(cut for cut in cuts if cut[0] is not None and cut[1] is not None):
            out.append([alphabet_text(token[:i]), alphabet_text(token[i:])])
    return out
