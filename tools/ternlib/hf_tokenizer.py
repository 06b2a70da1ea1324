"""tokenizer.json of the tokenizers package: read into a Tokenizer, and built for sources that have none.

In:  the parsed JSON. Out: a Tokenizer whose ids equal the package's. Every step, pattern or option that the engine
has no equal of is refused by its name. ADDING A STEP: its branch in NORMALIZERS, PRE_TOKENIZERS or DECODERS.
"""

import json
import re
import unicodedata
from functools import cache

import numpy as np

from .errors import ConvertError
from .tokenizer_parts import ABSENT, BYTE, LSTRIP, NORMAL, NORMALIZED, RSTRIP, SINGLE_WORD, SPECIAL, Added, Tokenizer

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = _CL100K % r"\p{N}{1,3}"
QWEN2 = _CL100K % r"\p{N}"
PATTERNS = {GPT2, LLAMA3, QWEN2}  # those of src/text/patterns.c, by their exact text
BEHAVIORS = {
    "Removed": "removed",
    "Isolated": "isolated",
    "MergedWithPrevious": "merged_with_previous",
    "MergedWithNext": "merged_with_next",
    "Contiguous": "contiguous",
}
BYTE_TOKEN = re.compile("<0x[0-9A-F]{2}>")
SCHEMES = {"never": 0, "first": 1, "always": 2}


class TokenizersReference:
    """The tokenizers package on this very tokenizer.json."""

    def __init__(self, text: str):
        import tokenizers

        self.tokenizer = tokenizers.Tokenizer.from_str(text)
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.name = f"tokenizers {tokenizers.__version__}"

    def encode(self, text: str, parse: bool) -> list[int]:
        self.tokenizer.encode_special_tokens = not parse
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True)


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


# ---- steps ---------------------------------------------------------------------------------------


def _flatten(node: dict | None, member: str) -> list[dict]:
    """The steps of a node: those of a Sequence, one, or none."""
    if node is None:
        return []
    if node.get("type") == "Sequence":
        return [step for inner in node[member] for step in _flatten(inner, member)]
    return [node]


def _literal(node: dict, where: str) -> str:
    pattern = node["pattern"]
    if "String" not in pattern:
        raise ConvertError(f"{where} uses the expression {pattern.get('Regex')!r}, which is not supported")
    return pattern["String"]


def _normalizer(node: dict, where: str) -> list[dict]:
    kind = node["type"]
    if kind == "Prepend":
        return [{"step": "prepend", "text": node["prepend"]}] if node["prepend"] else []
    if kind == "Replace":
        return [{"step": "replace", "from": _literal(node, where), "to": node["content"]}]
    if kind == "NFC":
        return [{"step": "nfc"}]
    raise ConvertError(f"{where} is {kind!r}, which is not supported")


def _split(node: dict, where: str) -> list[dict]:
    pattern, behavior = node["pattern"], node["behavior"]
    step = {"step": "split"}
    if "Regex" in pattern:
        if pattern["Regex"] not in PATTERNS:
            raise ConvertError(f"{where} splits with {pattern['Regex']!r}, which is not supported")
        step["pattern"] = pattern["Regex"]
    else:
        step["text"] = pattern["String"]
    if behavior not in BEHAVIORS:
        raise ConvertError(f"{where} has the behavior {behavior!r}, which is not supported")
    return [step | {"behavior": BEHAVIORS[behavior], "invert": int(node.get("invert", False))}]


def _scheme(node: dict, where: str) -> int:
    """Metaspace's prepend_scheme; old files say add_prefix_space in its place."""
    scheme = node.get("prepend_scheme") or ("always" if node.get("add_prefix_space", True) else "never")
    if scheme not in SCHEMES:
        raise ConvertError(f"{where} has the prepend_scheme {scheme!r}, which is not supported")
    return SCHEMES[scheme]


def _pre_tokenizer(node: dict, where: str) -> list[dict]:
    kind = node["type"]
    if kind == "Split":
        return _split(node, where)
    if kind == "Digits":
        return [{"step": "digits", "individual": int(node.get("individual_digits", False))}]
    if kind == "Metaspace":
        step = {"step": "metaspace", "text": node["replacement"], "scheme": _scheme(node, where)}
        return [step | {"split": int(node.get("split", True))}]
    if kind == "ByteLevel":
        out = [{"step": "prefix_space"}] if node.get("add_prefix_space", True) else []
        split = {"step": "split", "pattern": GPT2, "behavior": "isolated", "invert": 0}
        return [*out, split] if node.get("use_regex", True) else out
    raise ConvertError(f"{where} is {kind!r}, which is not supported")


def _decoder(node: dict, where: str, fused: bool) -> list[dict]:
    kind = node["type"]
    if kind == "Replace":
        return [{"step": "replace", "from": _literal(node, where), "to": node["content"]}]
    if kind == "ByteFallback":
        return [{"step": "byte_fallback"}]
    if kind == "Fuse":
        return []
    if kind == "ByteLevel":
        return [{"step": "byte_level"}]
    if kind == "Metaspace":
        return [{"step": "metaspace", "text": node["replacement"], "scheme": _scheme(node, where)}]
    if kind == "Strip" and not node["stop"] and (fused or not node["start"]):
        return [{"step": "strip", "text": node["content"], "count": node["start"]}] if node["start"] else []
    raise ConvertError(f"{where} is {node!r}, which is not supported")


def _steps(data: dict, t: Tokenizer) -> None:
    for i, node in enumerate(_flatten(data.get("normalizer"), "normalizers")):
        t.normalizer += _normalizer(node, f"{t.origin}: normalizer {i}")
    nodes = _flatten(data.get("pre_tokenizer"), "pretokenizers")
    for i, node in enumerate(nodes):
        if node["type"] == "ByteLevel" and i + 1 < len(nodes):
            raise ConvertError(f"{t.origin}: pre-tokenizer {nodes[i + 1]['type']!r} after ByteLevel is not supported")
        t.pre += _pre_tokenizer(node, f"{t.origin}: pre-tokenizer {i}")
    t.byte_level = bool(nodes) and nodes[-1]["type"] == "ByteLevel"
    decoders = _flatten(data.get("decoder"), "decoders")
    if not decoders:
        raise ConvertError(f"{t.origin} has no decoder: tokens joined by spaces are not supported")
    if t.byte_level != any(node["type"] == "ByteLevel" for node in decoders):
        raise ConvertError(f"{t.origin}: ByteLevel must be pre-tokenizer and decoder, or neither")
    for i, node in enumerate(decoders):
        fused = any(before["type"] == "Fuse" for before in decoders[:i])
        t.decoder += _decoder(node, f"{t.origin}: decoder {i}", fused)


def _template(node: dict, where: str) -> tuple[list[int], list[int]]:
    """Ids before and after a single text."""
    before: list[int] = []
    after: list[int] = []
    side = before
    for part in node["single"]:
        if "Sequence" in part:
            if side is after or part["Sequence"]["id"] != "A":
                raise ConvertError(f"{where}: the template for one text is not understood")
            side = after
        else:
            side += node["special_tokens"][part["SpecialToken"]["id"]]["ids"]
    return before, after


def _post_processor(data: dict, t: Tokenizer) -> None:
    for node in _flatten(data.get("post_processor"), "processors"):
        where, before, after = f"{t.origin}: post-processor", [], []
        if node["type"] == "TemplateProcessing":
            before, after = _template(node, where)
        elif node["type"] in ("RobertaProcessing", "BertProcessing"):
            before, after = [node["cls"][1]], [node["sep"][1]]
        elif node["type"] != "ByteLevel":
            raise ConvertError(f"{where} {node['type']!r} is not supported")
        t.before = before + t.before
        t.after += after


# ---- vocabulary ----------------------------------------------------------------------------------


def _model(data: dict, origin: str) -> dict:
    model = data["model"]
    if model.get("type", "BPE") != "BPE":
        raise ConvertError(f"{origin}: the model {model['type']!r} is not supported; only BPE is")
    for option in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(option):
            raise ConvertError(f"{origin}: the option {option} = {model[option]!r} is not supported")
    return model


def _token_bytes(text: str, byte_level: bool) -> bytes:
    data = alphabet_bytes(text) if byte_level else None
    return text.encode("utf-8") if data is None else data


def _normalized(text: str, t: Tokenizer) -> str:
    """The text after the normalizer: what a normalized added token is decoded to."""
    for step in t.normalizer:
        if step["step"] == "prepend":
            text = step["text"] + text
        elif step["step"] == "replace":
            text = text.replace(step["from"], step["to"])
        elif step["step"] == "nfc":
            text = unicodedata.normalize("NFC", text)
    return text


def _vocabulary(vocab: dict[str, int], added: list[dict], t: Tokenizer) -> None:
    size = 1 + max([*vocab.values(), *(a["id"] for a in added)], default=-1)
    if len(set(vocab.values())) != len(vocab) or size > 1 << 28:
        raise ConvertError(f"{t.origin}: two tokens of the vocabulary share an id")
    t.tokens, t.types = [b""] * size, bytearray(size)
    for text, i in vocab.items():
        t.tokens[i] = _token_bytes(text, t.byte_level)
        # What is not written in the alphabet of bytes can never be the text of a word.
        found = text and (not t.byte_level or alphabet_bytes(text) is not None)
        t.types[i] = NORMAL if found else ABSENT
        if t.byte_fallback and BYTE_TOKEN.fullmatch(text):
            t.types[i] = BYTE
    by_id = {i: text for text, i in vocab.items()}
    for a in sorted(added, key=lambda a: not a["special"]):
        i, content = a["id"], a["content"]
        if vocab.get(content, i) != i or by_id.setdefault(i, content) != content:
            raise ConvertError(f"{t.origin}: added token {content!r} has the id {i} of another token")
        if t.types[i] == ABSENT:
            t.tokens[i] = _token_bytes(_normalized(content, t) if a["normalized"] else content, t.byte_level)
        flags = {"special": SPECIAL, "lstrip": LSTRIP, "rstrip": RSTRIP, "single_word": SINGLE_WORD, "normalized": NORMALIZED}
        if content:
            t.added.append(Added(i, content, sum(bit for name, bit in flags.items() if a[name])))


def _merges(merges: list, vocab: dict[str, int], t: Tokenizer) -> None:
    ranked: dict[tuple[int, int], int] = {}
    for i, merge in enumerate(merges):
        parts = merge.split(" ") if isinstance(merge, str) else merge
        try:
            left, right = parts
            triple = vocab[left], vocab[right], vocab[left + right]
        except (KeyError, ValueError):
            raise ConvertError(f"{t.origin}: merge {i}, {merge!r}, does not name two tokens that give a third") from None
        if not t.byte_level or all(t.types[k] == NORMAL for k in triple):
            ranked.pop(triple[:2], None)  # the last of two equal merges counts
            ranked[triple[:2]] = triple[2]
    t.merges = np.array([(*pair, joined) for pair, joined in ranked.items()], dtype=np.uint32).reshape(-1, 3)


def from_json(data: dict, origin: str, names: dict | None = None, text: str | None = None) -> Tokenizer:
    """The tokenizer of a parsed tokenizer.json. `names`: bos_token and eos_token of tokenizer_config.json."""
    model = _model(data, origin)
    t = Tokenizer("bpe", [], bytearray(), origin=origin)
    t.byte_fallback = bool(model.get("byte_fallback"))
    t.fuse_unk = bool(model.get("fuse_unk"))
    t.ignore_merges = bool(model.get("ignore_merges"))
    _steps(data, t)
    _vocabulary(model["vocab"], data.get("added_tokens") or [], t)
    _merges(model["merges"], model["vocab"], t)
    _post_processor(data, t)
    if model.get("unk_token") is not None:
        if model["unk_token"] not in model["vocab"]:
            raise ConvertError(f"{origin}: the unknown token {model['unk_token']!r} is not in the vocabulary")
        t.unk = model["vocab"][model["unk_token"]]
    ids = model["vocab"] | {a.content: a.id for a in t.added}
    t.bos = ids.get((names or {}).get("bos_token"), t.before[0] if t.before else None)
    t.eos = ids.get((names or {}).get("eos_token"), t.after[-1] if t.after else None)
    try:
        t.reference = TokenizersReference(text or json.dumps(data))
    except ImportError:
        pass
    return t


# ---- building one --------------------------------------------------------------------------------


def added_entry(i: int, content: str, special: bool, **flags: bool) -> dict:
    base = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": i, "content": content, "special": special} | base | flags


def byte_level_json(
    vocab: dict[str, int],
    merges: list,
    pattern: str | None,
    added: list[dict],
    *,
    nfc: bool = False,
    digits: bool = False,
    prefix_space: bool = False,
    ignore_merges: bool = False,
    before: list[tuple[str, int]] = (),
    after: list[tuple[str, int]] = (),
) -> dict:
    """A tokenizer.json of byte-level BPE. `pattern` None: ByteLevel's own (GPT-2's)."""
    level = {"type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": True, "use_regex": pattern is None}
    steps = [{"type": "Digits", "individual_digits": True}] if digits else []
    if pattern is not None:
        steps.append({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False})
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
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*steps, level]},
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
