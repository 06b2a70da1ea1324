"""tokenizer.json of the tokenizers package: read into a Tokenizer, and built for sources that have none.

In:  the parsed JSON. Out: a Tokenizer whose ids equal the package's. Every step, pattern or option that the engine
has no equal of is refused by its name. ADDING A STEP: its branch in NORMALIZERS, PRE_TOKENIZERS or DECODERS.
"""

import base64
import json
import re
import unicodedata
from functools import cache

import numpy as np

from . import charsmap
from .errors import ConvertError
from .tokenizer_parts import ABSENT, BYTE, CONTROL, LSTRIP, NORMAL, NORMALIZED, RSTRIP, SINGLE_WORD, SPECIAL, UNKNOWN, Added, Tokenizer

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_CL100K = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = _CL100K % r"\p{N}{1,3}"
QWEN2 = _CL100K % r"\p{N}"
_CAPITALS, _SMALL = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_CAPITALS}*{_SMALL}+%s|[^\r\n\p{{L}}\p{{N}}]?{_CAPITALS}+{_SMALL}*%s|%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = _O200K % (_CONTRACTIONS + "?", _CONTRACTIONS + "?", r"\p{N}{1,3}")
TEKKEN = _O200K % ("", "", r"\p{N}")
_DEEPSEEK3 = (
    r"""[!"#$%%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^%s\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[%s]*|\s*[%s]+|\s+(?!\S)|\s+"
)
_HAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
# Split one after another, each isolated. CR and LF are themselves in these.
DEEPSEEK3 = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", _DEEPSEEK3 % (("\r\n",) * 3)]
DEEPSEEK2 = [
    "[\r\n]",
    r"\s?["
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377"
    "\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556"
    "\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
    "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
    "\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f"
    "\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b"
    "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
    "\U000118a0-\U000118df\U0001e900-\U0001e943]+",
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
    r"\s+$",
    _HAN,
]
DEEPSEEK_CODER = ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _HAN]
THREE_DIGITS = "[0-9][0-9][0-9]"
# What llama.cpp does where a file names no pre-tokenizer.
LLAMA_CPP_DEFAULT = [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", THREE_DIGITS]
# Those of src/text/patterns.c, by their exact text.
PATTERNS = {
    GPT2, LLAMA3, QWEN2, O200K, TEKKEN, r"\p{N}", *DEEPSEEK3, _DEEPSEEK3 % ((r"\r\n",) * 3), *DEEPSEEK2, r"[\r\n]",
    *DEEPSEEK_CODER, *LLAMA_CPP_DEFAULT,
}  # fmt: skip
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


class UnigramReference(TokenizersReference):
    """The package finds every piece of a unigram model in a text, special ones too, when they are written there. In
    plain mode no special token may result (README), so there they bear names that no text has."""

    def __init__(self, text: str):
        super().__init__(text)
        import tokenizers

        data = json.loads(text)
        vocab = data["model"]["vocab"]
        secret = {a["content"]: f"\0{a['id']}\1" for a in data["added_tokens"] if a["special"]}
        if data["model"].get("unk_id") is not None:
            secret.setdefault(vocab[data["model"]["unk_id"]][0], "\0unk\1")
        for entry in [*vocab, *data["added_tokens"]]:
            name = 0 if isinstance(entry, list) else "content"
            entry[name] = secret.get(entry[name], entry[name])
        data["post_processor"] = None
        self.plain = tokenizers.Tokenizer.from_str(json.dumps(data))
        self.plain.encode_special_tokens = True

    def encode(self, text: str, parse: bool) -> list[int]:
        return super().encode(text, parse) if parse else self.plain.encode(text, add_special_tokens=False).ids


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
    if kind == "Replace" and node["pattern"].get("Regex") == " {2,}":
        return [{"step": "replace_runs", "from": " ", "to": node["content"]}]
    if kind == "Replace":
        return [{"step": "replace", "from": _literal(node, where), "to": node["content"]}]
    if kind == "NFC":
        return [{"step": "nfc"}]
    if kind == "Precompiled":
        blob = base64.b64decode(node["precompiled_charsmap"] or "")
        return [charsmap.step(blob, graphemes=True)] if blob else []
    if kind == "Strip":
        sides = node["strip_left"] + 2 * node["strip_right"]
        return [{"step": "strip", "sides": sides}] if sides else []
    raise ConvertError(f"{where} is {kind!r}, which is not supported")


def _behavior(name: str, where: str) -> str:
    if name not in BEHAVIORS:
        raise ConvertError(f"{where} has the behavior {name!r}, which is not supported")
    return BEHAVIORS[name]


def _split(node: dict, where: str) -> list[dict]:
    pattern, behavior = node["pattern"], node["behavior"]
    step = {"step": "split"}
    if "Regex" in pattern:
        if pattern["Regex"] not in PATTERNS:
            raise ConvertError(f"{where} splits with {pattern['Regex']!r}, which is not supported")
        step["pattern"] = pattern["Regex"]
    else:
        step["text"] = pattern["String"]
    return [step | {"behavior": _behavior(behavior, where), "invert": int(node.get("invert", False))}]


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
    if kind == "Punctuation":
        return [{"step": "punctuation", "behavior": _behavior(node.get("behavior", "Isolated"), where)}]
    if kind == "WhitespaceSplit":
        return [{"step": "whitespace"}]
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


def _on_bytes(step: dict, node: dict, where: str) -> dict:
    """A step after ByteLevel, which sees the alphabet of bytes. Digits sees numbers in it, [0-9] is the same there."""
    if step["step"] == "digits":
        return step | {"bytes": 1}
    if step["step"] == "split" and step.get("pattern") == THREE_DIGITS:
        return step
    raise ConvertError(f"{where}: {node['type']!r} after ByteLevel is not supported")


def _steps(data: dict, t: Tokenizer) -> None:
    for i, node in enumerate(_flatten(data.get("normalizer"), "normalizers")):
        t.normalizer += _normalizer(node, f"{t.origin}: normalizer {i}")
    nodes = _flatten(data.get("pre_tokenizer"), "pretokenizers")
    for i, node in enumerate(nodes):
        after = any(before["type"] == "ByteLevel" for before in nodes[:i])
        steps = _pre_tokenizer(node, f"{t.origin}: pre-tokenizer {i}")
        if after:
            steps = [_on_bytes(step, node, f"{t.origin}: pre-tokenizer {i}") for step in steps]
        t.pre += steps
    t.byte_level = any(node["type"] == "ByteLevel" for node in nodes)
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


def _model(data: dict, origin: str) -> tuple[dict, dict[str, int]]:
    """The model, and its vocabulary by text."""
    model = data["model"]
    kind = model.get("type", "BPE")
    if kind not in ("BPE", "Unigram"):
        raise ConvertError(f"{origin}: the model {kind!r} is not supported; BPE and Unigram are")
    for option in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(option):
            raise ConvertError(f"{origin}: the option {option} = {model[option]!r} is not supported")
    return model, {text: i for i, (text, _) in enumerate(model["vocab"])} if kind == "Unigram" else model["vocab"]


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


def _unigram(model: dict, t: Tokenizer) -> None:
    """Scores; of two pieces with one text the later is found. Special pieces are never found in a text (README)."""
    scores = [float(score) for _, score in model["vocab"]]
    t.log_probs = scores + [0.0] * (len(t.tokens) - len(scores)) + [min(scores) - 10]
    t.fuse_unk = True
    t.unk = model.get("unk_id")
    if t.unk is None:
        raise ConvertError(f"{t.origin}: a Unigram model without unk_id is not supported")
    for i, (text, _) in enumerate(model["vocab"]):
        t.tokens[i] = t.tokens[i] or text.encode("utf-8")
    for i in [a.id for a in t.added if a.flags & SPECIAL] + [t.unk]:
        t.types[i] = UNKNOWN if i == t.unk else CONTROL


def _bpe(model: dict, vocab: dict[str, int], t: Tokenizer) -> None:
    _merges(model["merges"], vocab, t)
    if model.get("unk_token") is not None:
        if model["unk_token"] not in vocab:
            raise ConvertError(f"{t.origin}: the unknown token {model['unk_token']!r} is not in the vocabulary")
        t.unk = vocab[model["unk_token"]]


def from_json(data: dict, origin: str, names: dict | None = None, text: str | None = None) -> Tokenizer:
    """The tokenizer of a parsed tokenizer.json. `names`: bos_token and eos_token of tokenizer_config.json."""
    model, vocab = _model(data, origin)
    unigram = isinstance(model["vocab"], list)
    t = Tokenizer("unigram" if unigram else "bpe", [], bytearray(), origin=origin)
    t.byte_fallback = bool(model.get("byte_fallback"))
    t.fuse_unk = bool(model.get("fuse_unk"))
    t.ignore_merges = bool(model.get("ignore_merges"))
    _steps(data, t)
    if unigram and t.byte_level:
        raise ConvertError(f"{origin}: a Unigram model with ByteLevel is not supported")
    _vocabulary(vocab, data.get("added_tokens") or [], t)
    if unigram:
        _unigram(model, t)
    else:
        _bpe(model, vocab, t)
    _post_processor(data, t)
    ids = vocab | {a.content: a.id for a in t.added}
    t.bos = ids.get((names or {}).get("bos_token"), t.before[0] if t.before else None)
    t.eos = ids.get((names or {}).get("eos_token"), t.after[-1] if t.after else None)
    try:
        t.reference = (UnigramReference if unigram else TokenizersReference)(text or json.dumps(data))
    except ImportError:
        pass
    return t


# ---- building one --------------------------------------------------------------------------------


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
