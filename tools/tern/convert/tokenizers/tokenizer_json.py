"""tokenizer.json of the tokenizers package.

In:  the parsed JSON. Out: a Tokenizer whose ids equal the package's. Every step, pattern or option that the engine
has no equal of is refused by its name. ADDING A STEP: its branch in NORMALIZERS, PRE_TOKENIZERS or DECODERS.
"""

import base64
import json
import re
import unicodedata

import numpy as np

from ...errors import ConvertError
from . import charsmap, growth
from .byte_level import alphabet_bytes
from .patterns import GPT2, PATTERNS, THREE_DIGITS, WORDS
from .tokenizer import ABSENT, BYTE, CONTROL, FLAGS, NORMAL, SPECIAL, UNKNOWN, Added, Tokenizer

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


class WordReference(TokenizersReference):
    """The package also finds special tokens among the words of a text, where a normalizer made one or in plain mode. No
    model may (README), so there they bear names that no text has; their ids, which then are others, are translated."""

    def __init__(self, text: str):
        super().__init__(text)
        import tokenizers

        data = json.loads(text)
        model, added = data["model"], data.get("added_tokens") or []
        special = {a["content"] for a in added if a["special"]} - {model["unk_token"]}
        model["vocab"] = {f"\0{i}\1" if word in special else word: i for word, i in model["vocab"].items()}
        data["post_processor"] = None
        self.words = tokenizers.Tokenizer.from_str(json.dumps(data))
        self.ids = {self.words.token_to_id(a["content"]): a["id"] for a in added}

    def encode(self, text: str, parse: bool) -> list[int]:
        self.words.encode_special_tokens = not parse
        return [self.ids.get(i, i) for i in self.words.encode(text, add_special_tokens=False).ids]


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
    if kind in ("NFC", "NFD"):
        return [{"step": kind.lower()}]
    if kind in ("Lowercase", "StripAccents"):
        return [charsmap.of_characters(kind)]
    if kind in ("NFKC", "NFKD"):  # of each character NFKD without what NFD does: NFC and NFD of the whole do the rest
        return [charsmap.of_characters("NFKD", "NFD"), {"step": kind.replace("K", "").lower()}]
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
    if kind == "BertPreTokenizer":
        return [{"step": "whitespace"}, {"step": "punctuation", "behavior": "isolated"}]
    if kind == "Whitespace":  # \w+|[^\w\s]+
        return [{"step": "whitespace"}, {"step": "split", "pattern": WORDS, "behavior": "isolated", "invert": 0}]
    if kind == "UnicodeScripts":
        return [{"step": "scripts"}]
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
    if t.byte_level != any(node["type"] == "ByteLevel" for node in decoders):
        raise ConvertError(f"{t.origin}: ByteLevel must be pre-tokenizer and decoder, or neither")
    for i, node in enumerate(decoders):
        fused = any(before["type"] == "Fuse" for before in decoders[:i])
        t.decoder += _decoder(node, f"{t.origin}: decoder {i}", fused)
    if not decoders:
        t.decoder = [{"step": "join"}]


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
    if kind not in ("BPE", "Unigram", "WordLevel"):
        raise ConvertError(f"{origin}: the model {kind!r} is not supported; BPE, Unigram and WordLevel are")
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
        if step["step"] == "charsmap" and not step["graphemes"]:
            text = charsmap.changed(step, text)
        if step["step"] == "prepend":
            text = step["text"] + text
        elif step["step"] == "replace":
            text = text.replace(step["from"], step["to"])
        elif step["step"] in ("nfc", "nfd"):
            text = unicodedata.normalize(step["step"].upper(), text)
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
        if content:
            t.added.append(Added(i, content, sum(bit for name, bit in FLAGS.items() if a[name])))


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


def _unknown(model: dict, vocab: dict[str, int], t: Tokenizer) -> int:
    if model.get("unk_token") not in vocab:
        raise ConvertError(f"{t.origin}: the unknown token {model.get('unk_token')!r} is not in the vocabulary")
    return vocab[model["unk_token"]]


def _word_level(model: dict, vocab: dict[str, int], t: Tokenizer) -> None:
    t.unk = _unknown(model, vocab, t)
    for a in t.added:
        if a.flags & SPECIAL and t.types[a.id] == NORMAL:
            t.types[a.id] = CONTROL  # found as an added token alone


def _bpe(model: dict, vocab: dict[str, int], t: Tokenizer) -> None:
    _merges(model["merges"], vocab, t)
    if model.get("unk_token") is not None:
        t.unk = _unknown(model, vocab, t)


def from_json(data: dict, origin: str, names: dict | None = None, text: str | None = None) -> Tokenizer:
    """The tokenizer of a parsed tokenizer.json. `names`: bos_token and eos_token of tokenizer_config.json."""
    model, vocab = _model(data, origin)
    unigram = isinstance(model["vocab"], list)
    words = model.get("type") == "WordLevel"
    t = Tokenizer("unigram" if unigram else "word_level" if words else "bpe", [], bytearray(), origin=origin)
    t.byte_fallback = bool(model.get("byte_fallback"))
    t.fuse_unk = bool(model.get("fuse_unk"))
    t.ignore_merges = bool(model.get("ignore_merges"))
    _steps(data, t)
    growth.check(t)
    if (unigram or words) and t.byte_level:
        raise ConvertError(f"{origin}: a {model['type']} model with ByteLevel is not supported")
    _vocabulary(vocab, data.get("added_tokens") or [], t)
    if unigram:
        _unigram(model, t)
    elif words:
        _word_level(model, vocab, t)
    else:
        _bpe(model, vocab, t)
    _post_processor(data, t)
    ids = vocab | {a.content: a.id for a in t.added}
    t.bos = ids.get((names or {}).get("bos_token"), t.before[0] if t.before else None)
    t.eos = ids.get((names or {}).get("eos_token"), t.after[-1] if t.after else None)
    try:
        t.reference = (UnigramReference if unigram else WordReference if words else TokenizersReference)(text or json.dumps(data))
    except ImportError:
        growth.check_added(t, None)
        return t
    growth.check_added(t, t.reference.tokenizer.normalizer)
    for a in t.added:
        given = t.reference.tokenizer.token_to_id(a.content)
        if given != a.id:
            raise ConvertError(
                f"{origin}: the added token {a.content!r} has the id {a.id}, but the tokenizers package gives it {given}; "
                "correct the id"
            )
    return t
