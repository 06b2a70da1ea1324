"""Tokenizers of every source, as one object, and the section `tokenizer` made of it (src/text/TOKENIZER.md).

In:  tokenizer.json, a SentencePiece tokenizer.model, Llama 3's tokenizer.model (tiktoken ranks),
     vocab.json + merges.txt, encoder.json + vocab.bpe, llama2.c's tokenizer.bin, the keys of a GGUF file.
Out: Tokenizer; section(tokenizer) for the weights file; vectors(tokenizer) for its self test.
A step or option that the engine has no equal of is refused by its name.
"""

import base64
import dataclasses
import itertools
import json
import re
import struct
from pathlib import Path

import numpy as np

from . import charsmap
from . import hf_tokenizer as hf
from . import keys
from . import sentencepiece_file as spf
from . import stated_tokens
from .errors import ConvertError
from .stated_tokens import Stated, read_bytes, read_json
from .tokenizer_parts import ABSENT, BLOCK, LSTRIP, NORMALIZED, RSTRIP, SPECIAL, Added, Tokenizer

# ---- the section ---------------------------------------------------------------------------------


def _steps(name: str, steps: list[dict]) -> dict:
    out = {}
    for i, step in enumerate(steps):
        out[f"{name}.{i}"] = step["step"]
        out.update({f"{name}.{i}.{key}": value for key, value in step.items() if key != "step"})
    return out


def section_keys(t: Tokenizer) -> dict:
    """The keys of the section."""
    out = {
        "kind": t.kind,
        "tokens.bytes": b"".join(t.tokens),
        "tokens.lengths": np.array([len(token) for token in t.tokens], dtype=np.uint32),
        "tokens.types": bytes(t.types),
    }
    if t.scores is not None:
        out["scores"] = np.array(t.scores, dtype=np.float32)
    if t.log_probs is not None:
        out["log_probs"] = np.array(t.log_probs, dtype="<f8").view("<u8")
    if t.merges is not None:
        out["merges"] = np.asarray(t.merges, dtype=np.uint32).reshape(-1)
    for name in ("byte_level", "byte_fallback", "fuse_unk", "ignore_merges", "f32_sums"):
        if getattr(t, name):
            out[name] = 1
    for name in ("unk", "bos", "eos"):
        if getattr(t, name) is not None:
            out[name] = getattr(t, name)
    for name, ids in (("add.before", t.before), ("add.after", t.after)):
        if ids:
            out[name] = keys.U32s(ids)
    if t.added:
        contents = [a.content.encode("utf-8") for a in t.added]
        out["added.ids"] = keys.U32s([a.id for a in t.added])
        out["added.bytes"] = b"".join(contents)
        out["added.lengths"] = keys.U32s([len(c) for c in contents])
        out["added.flags"] = keys.U32s([a.flags for a in t.added])
    return out | _steps("normalizer", t.normalizer) | _steps("pre", t.pre) | _steps("decoder", t.decoder)


def section(t: Tokenizer | None) -> bytes:
    """The body of the section `tokenizer`; without keys for a model without tokenizer."""
    return keys.pack(section_keys(t) if t else {})


def _fit(t: Tokenizer | None, vocab: int | None) -> Tokenizer | None:
    """Checks the tokenizer against the rows of the model's embedding."""
    if t and vocab is not None and len(t.tokens) > vocab:
        raise ConvertError(f"{t.origin} has {len(t.tokens)} tokens, but the model's vocabulary has {vocab} rows")
    return t


# ---- SentencePiece -------------------------------------------------------------------------------


class SentencePieceReference:
    """The sentencepiece package, for the text between added tokens; these, which it lacks, are found by the tokenizers
    package with all their flags. `later`: the model for a text that does not begin the input, where it is another."""

    def __init__(self, data: bytes, t: Tokenizer, later: bytes | None = None):
        import sentencepiece
        import tokenizers
        from tokenizers import decoders

        self.processor = sentencepiece.SentencePieceProcessor(model_proto=data)
        self.later = sentencepiece.SentencePieceProcessor(model_proto=later) if later else self.processor
        self.added, self.ids = t.added, {a.content: a.id for a in reversed(t.added)}
        self.name = f"sentencepiece {sentencepiece.__version__}"
        # Every text between added tokens is the one unknown word of this vocabulary.
        self.cutter = tokenizers.Tokenizer(tokenizers.models.WordLevel({"": 0}, unk_token=""))
        for a in t.added:
            flags = {name: bool(a.flags & bit) for name, bit in stated_tokens.FLAGS.items()}
            (self.cutter.add_special_tokens if flags["special"] else self.cutter.add_tokens)(
                [tokenizers.AddedToken(a.content, **flags)]
            )
        strip = [decoders.Strip(" ", step["count"], 0) for step in t.decoder if step["step"] == "strip"]
        steps = [decoders.Replace(BLOCK, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
        self.joiner = decoders.Sequence(steps)

    def encode(self, text: str, parse: bool) -> list[int]:
        self.cutter.encode_special_tokens = not parse
        cut = self.cutter.encode(text, add_special_tokens=False)
        ids: list[int] = []
        for found, (start, end) in zip(cut.ids, cut.offsets):
            if found:
                ids.append(self.ids[self.cutter.id_to_token(found)])
            else:
                ids += (self.later if start else self.processor).encode(text[start:end])
        return ids

    def decode(self, ids: list[int]) -> str:
        """Added tokens that the package lacks, or hides, are their texts; special ones are nothing."""
        texts = {a.id: "" if a.flags & SPECIAL else a.content for a in self.added}
        if all(i < len(self.processor) and not texts.get(i) for i in ids):
            return self.processor.decode(ids)
        return self.joiner.decode([texts[i] if i in texts else self.processor.id_to_piece(i) for i in ids])


def split_at(text: str, tokens) -> list[str]:
    """The text cut at the tokens in it: leftmost, and of those the longest."""
    if not tokens:
        return [text]
    longest_first = sorted(tokens, key=len, reverse=True)
    return [part for part in re.split("(" + "|".join(map(re.escape, longest_first)) + ")", text) if part]


def _unigram(t: Tokenizer, model: spf.Model) -> None:
    """Scores of a SentencePiece unigram model, in its own arithmetic: those of user-defined pieces make sure that they
    win, and an unknown character costs 10 more than the worst piece."""
    normal = [np.float32(p.score) for p in model.pieces if p.kind == spf.NORMAL]
    best = max([np.finfo(np.float32).tiny, *normal])
    t.log_probs = [
        float(np.float32(len(p.text)) * best) - 0.1 if p.kind == spf.USER else float(np.float32(p.score)) for p in model.pieces
    ]
    t.log_probs.append(float(min([np.finfo(np.float32).max, *normal]) - np.float32(10)))
    t.f32_sums = True


def _normalizer(model: spf.Model, first: bool) -> list[dict]:
    """SentencePiece's normalizer as steps. The prefix stands before a text, unless only removed spaces were in it;
    `first`: before the one that begins the input, and not after an added token."""
    prefix = [{"step": "prepend", "text": BLOCK} | ({"scheme": 1} if first else {})] if model.add_dummy_prefix else []
    charmap = [charsmap.step(model.charsmap, graphemes=False)] if model.charsmap else []
    trim = [{"step": "trim_spaces"}] if model.remove_extra_whitespaces else []
    return [*(charmap + trim + prefix if trim else prefix + charmap), {"step": "replace", "from": " ", "to": BLOCK}]


def _settle(model: spf.Model, stated: Stated, tokens: list[stated_tokens.Token]) -> bool:
    """Changes the model as the files beside it say; whether there was anything to change."""
    before = model.add_dummy_prefix
    if stated.llama() and stated.flag("add_prefix_space") is not None:
        model.add_dummy_prefix = stated.flag("add_prefix_space")
    pieces = [model.pieces[token.id] for token in tokens if token.id < len(model.pieces) and token.flags & SPECIAL]
    found = [piece for piece in pieces if piece.kind in (spf.NORMAL, spf.USER, spf.UNUSED)]
    for piece in found:
        piece.kind = spf.CONTROL  # so that no text gives it but its name, and that in parse mode only
    return bool(found) or model.add_dummy_prefix != before


def _overlap(a: Added, b: Added) -> bool:
    """Whether the two could begin or end inside one another in some text."""
    x, y = a.content, b.content
    beside = any(p.flags & (LSTRIP | RSTRIP) and q.content != q.content.strip() for p, q in ((a, b), (b, a)))
    return x in y or y in x or beside or any(x[-n:] == y[:n] or y[-n:] == x[:n] for n in range(1, min(len(x), len(y))))


def _flags_of(t: Tokenizer, charsmap: bool) -> None:
    """The reference's normalizer changes nothing here, so that a normalized token is another only in that it is looked
    for after those that are not: the same as at once, where it does not overlap with them."""
    late = [a for a in t.added if a.flags & NORMALIZED]
    early = [a for a in t.added if not a.flags & NORMALIZED]
    for a in late:
        other = next((b for b in early if _overlap(a, b)), None)
        if other or charsmap:
            why = f"overlaps with {other.content!r}, which is not" if other else "has a precompiled_charsmap beside it"
            raise ConvertError(f"{t.origin}: the added token {a.content!r} is normalized and {why}: this is not supported")
        a.flags &= ~NORMALIZED


def _put_stated(t: Tokenizer, stated: Stated, tokens: list[stated_tokens.Token]) -> None:
    """Added tokens, BOS and EOS of the files beside a SentencePiece model."""
    for token in tokens:
        if token.id == len(t.tokens):
            t.tokens.append(token.content.encode())
            t.types.append(ABSENT)
            if t.scores is not None:
                t.scores.append(0.0)
            else:
                t.log_probs.insert(-1, 0.0)
        elif t.types[token.id] == spf.CONTROL and not token.flags & SPECIAL:
            t.types[token.id] = ABSENT
        t.added = [a for a in t.added if a.id != token.id] + [Added(token.id, token.content, token.flags)]
    ids = {a.content: a.id for a in t.added}
    for name in ("bos", "eos"):
        if f"{name}_token" in stated.named:
            content = stated.named[f"{name}_token"]
            setattr(t, name, None if content is None else ids.get(content, getattr(t, name)))
    add_bos = stated.flag("add_bos_token")
    t.before = [t.bos] if t.bos is not None and (add_bos is None or add_bos) else []
    t.after = [t.eos] if t.eos is not None and stated.flag("add_eos_token") else []


def from_sentencepiece(
    model: spf.Model,
    origin: str,
    data: bytes | None = None,
    parsed: tuple = (spf.CONTROL,),
    stated: Stated | None = None,
    rows: int | None = None,
) -> Tokenizer:
    """The tokenizer of a SentencePiece BPE or unigram model. Parse mode looks for the pieces of the types `parsed`, and
    for the added tokens that the files beside it state, of which those are left out that have no row of the `rows`."""
    kinds = {spf.BPE: "spm", spf.UNIGRAM: "unigram"}
    if model.model_type not in kinds:
        raise ConvertError(f"{origin}: SentencePiece model type {model.model_type}; only unigram (1) and BPE (2) are supported")
    for what, refused in (
        ("user-defined pieces with a precompiled_charsmap", model.charsmap and any(p.kind == spf.USER for p in model.pieces)),
        ("a denormalizer", model.denormalizer),
        ("treat_whitespace_as_suffix", model.whitespace_as_suffix),
        ("escape_whitespaces off", not model.escape_whitespaces),
        ("user-defined pieces with spaces", any(p.kind == spf.USER and b" " in p.text for p in model.pieces)),
    ):
        if refused:
            raise ConvertError(f"{origin} uses {what}, which is not supported")
    stated, notes = stated or Stated(), []
    known = {p.text.decode("utf-8", "replace"): i for i, p in reversed([*enumerate(model.pieces)])}
    tokens = stated.place(known, len(model.pieces), rows, notes)
    data = None if _settle(model, stated, tokens) else data
    first = stated.llama() and not stated.flag("legacy") and model.add_dummy_prefix
    t = Tokenizer(kinds[model.model_type], [p.text for p in model.pieces], bytearray(p.kind for p in model.pieces), origin=origin)
    if t.kind == "spm":
        t.scores = [p.score for p in model.pieces]
    else:
        _unigram(t, model)
    t.byte_fallback = model.byte_fallback
    t.fuse_unk = True
    ids = {name: i if 0 <= i < len(t.tokens) else None for name, i in model.ids.items()}
    t.unk, t.bos, t.eos = ids["unk"], ids["bos"], ids["eos"]
    t.before = [t.bos] if t.bos is not None else []
    t.added = [Added(i, p.text.decode(), SPECIAL) for i, p in enumerate(model.pieces) if p.kind in parsed and p.text]
    t.notes = notes
    _put_stated(t, stated, tokens)
    _flags_of(t, bool(model.charsmap))
    t.normalizer = _normalizer(model, first)
    t.decoder = [{"step": "replace", "from": BLOCK, "to": " "}, {"step": "byte_fallback"}]
    if model.add_dummy_prefix or model.remove_extra_whitespaces:
        t.decoder.append({"step": "strip", "text": " ", "count": 65535 if model.remove_extra_whitespaces else 1})
    try:
        later = spf.serialize(dataclasses.replace(model, add_dummy_prefix=False)) if first else None
        t.reference = SentencePieceReference(data or spf.serialize(model), t, later)
    except ImportError:
        pass
    return t


def from_llama2c(path: Path, vocab: int | None) -> Tokenizer:
    """llama2.c's tokenizer.bin: a SentencePiece BPE whose pieces were written with plain spaces.

    int32 longest; then per token f32 score, int32 bytes, text. Ids 0, 1, 2 are <unk>, BOS and EOS;
    3 to 258 are the bytes. The file does not say how many tokens it has: `vocab`, or all to its end.
    """
    data, at = read_bytes(path), 4
    model = spf.Model(remove_extra_whitespaces=False)
    for i in itertools.count():
        if i == vocab or (vocab is None and at >= len(data)):
            break
        if at + 8 > len(data):
            raise ConvertError(f"{path} ends at token {i}, but the model has {vocab}")
        score, size = struct.unpack_from("<fi", data, at)
        text = data[at + 8 : at + 8 + size]
        if size < 0 or len(text) != size:
            raise ConvertError(f"{path}: token {i} has {size} bytes, which the file does not hold")
        at += 8 + size
        if i < 3:
            piece = spf.Piece((b"<unk>", b"<s>", b"</s>")[i], score, spf.UNKNOWN if i == 0 else spf.CONTROL)
        elif i < 259:
            if text != b"<0x%02X>" % (i - 3):
                raise ConvertError(f"{path}: token {i} is {text!r}, want the byte {i - 3}")
            piece = spf.Piece(text, score, spf.BYTE)
        else:
            piece = spf.Piece(text.replace(b" ", BLOCK.encode()), score)
        model.pieces.append(piece)
    if at != len(data):
        raise ConvertError(f"{path} goes on after its {vocab} tokens: it belongs to another model")
    return from_sentencepiece(model, str(path))


# ---- lists of ranks, and vocabulary with merges ---------------------------------------------------

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
    special = [hf.added_entry(len(ranks) + i, name, True) for i, name in enumerate(names)]
    vocab = {hf.alphabet_text(token): rank for token, rank in ranks.items()}
    bos = [(names[0], len(ranks))]
    made = hf.byte_level_json(vocab, hf.merges_of_ranks(ranks), hf.LLAMA3, special, ignore_merges=True, before=bos)
    return hf.from_json(made, origin, {"eos_token": names[1]})


def read_merges(path: Path) -> list[str]:
    """The lines of merges.txt or vocab.bpe, without the version at its head."""
    lines = read_bytes(path).decode("utf-8").split("\n")
    return [line.rstrip("\r") for i, line in enumerate(lines) if line.strip("\r") and not (i == 0 and line.startswith("#version"))]


def from_vocab_and_merges(vocab_path: Path, merges_path: Path) -> Tokenizer:
    """vocab.json with merges.txt, or encoder.json with vocab.bpe. These do not say how text is cut into words;
    tokenizer_config.json's class does, or the size of the vocabulary."""
    vocab, merges = read_json(vocab_path), read_merges(merges_path)
    config_path = vocab_path.with_name("tokenizer_config.json")
    config = read_json(config_path) if config_path.exists() else {}
    kind = config.get("tokenizer_class", "").removesuffix("Fast")
    known = config.get("added_tokens_decoder", {})
    added = [hf.added_entry(int(i), **entry) for i, entry in known.items()]
    options: dict = {}
    if kind == "Qwen2Tokenizer":
        options = {"pattern": hf.QWEN2, "nfc": True}
    elif kind == "GPT2Tokenizer" or (not kind and len(vocab) == 50257):
        options = {"pattern": None, "prefix_space": bool(config.get("add_prefix_space", False))}
        if "<|endoftext|>" in vocab and not added:
            added = [hf.added_entry(vocab["<|endoftext|>"], "<|endoftext|>", True)]
    elif not kind and len(vocab) >= 128000:
        options = {"pattern": hf.LLAMA3, "ignore_merges": True}
    else:
        raise ConvertError(f"{vocab_path} does not say how text is cut into words; tokenizer.json does: name it with --tokenizer")
    made = hf.byte_level_json(vocab, merges, added=added, **options)
    return hf.from_json(made, str(vocab_path), stated_tokens.read(vocab_path.parent).named)


# ---- any source ----------------------------------------------------------------------------------


def _with_stated(data: dict, origin: str, stated: Stated, rows: int | None, text: str) -> Tokenizer:
    """tokenizer.json, and the added tokens that it lacks of those that the files beside it give ids."""
    stated.tokens = [token for token in stated.tokens if token.id is not None]
    if not stated.tokens:
        return hf.from_json(data, origin, stated.named, text)
    vocab, added, notes = data["model"]["vocab"], data.get("added_tokens") or [], []
    known = {entry[0] for entry in vocab} if isinstance(vocab, list) else set(vocab)
    known |= {entry["content"] for entry in added}
    size = max(len(vocab), 1 + max((entry["id"] for entry in added), default=-1))
    stated.tokens = [token for token in stated.tokens if token.content not in known]
    tokens = stated.place({}, size, rows, notes)
    if tokens:
        names = stated_tokens.FLAGS.items()
        added = added + [{"id": s.id, "content": s.content} | {name: bool(s.flags & bit) for name, bit in names} for s in tokens]
        data = data | {"added_tokens": added}
        text = json.dumps(data)
    t = hf.from_json(data, origin, stated.named, text)
    t.notes = notes
    return t


def read(path: Path, rows: int | None = None) -> Tokenizer | None:
    """The tokenizer of a file of any known kind, or of a folder, for a model of so many rows; None for a folder without."""
    try:
        return _read_any(Path(path), rows)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
        raise ConvertError(f"{path} is damaged, or no tokenizer that is known here ({type(e).__name__}: {e})") from None


def _read_any(path: Path, rows: int | None) -> Tokenizer | None:
    if path.is_dir():
        names = ("tokenizer.json", "tokenizer.model", "vocab.json", "encoder.json")
        found = [path / name for name in names if (path / name).exists()]
        return _read_any(found[0], rows) if found else None
    for vocab, merges in (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")):
        if path.name in (vocab, merges):
            return from_vocab_and_merges(path.with_name(vocab), path.with_name(merges))
    data = read_bytes(path)
    if data[:1] == b"{":
        text = data.decode("utf-8", "replace")
        return _with_stated(read_json(path), str(path), stated_tokens.read(path.parent), rows, text)
    if RANK_LINE.match(data):
        return from_ranks(data, str(path))
    if data[:1] != b"\n":
        raise ConvertError(f"{path} is no tokenizer that is known here")
    return from_sentencepiece(spf.parse(data), str(path), data, stated=stated_tokens.read(path.parent), rows=rows)


def from_huggingface(folder: Path, given: Path | None, vocab: int) -> Tokenizer | None:
    """The tokenizer of a model folder, or the file `given` in its place; None where there is none."""
    return _fit(read(given or folder, vocab), vocab)


# ---- GGUF ----------------------------------------------------------------------------------------

_CL100K: dict = {"pattern": hf.LLAMA3}
_GPT2: dict = {"pattern": None}
# tokenizer.ggml.pre: how the text is cut, by the models' own rules where llama.cpp's only come near them.
GGUF_PATTERNS: dict[str, dict] = {
    "default": {"pattern": hf.LLAMA_CPP_DEFAULT},
    "deepseek-llm": {"pattern": hf.DEEPSEEK2, "digits": True},
    "deepseek-coder": {"pattern": hf.DEEPSEEK_CODER, "digits": True},
    "falcon": {"pattern": None, "nodes": hf.falcon_nodes()},
    "tekken": {"pattern": hf.TEKKEN, "ignore_merges": True},
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2"), _CL100K | {"ignore_merges": True}),
    **dict.fromkeys(("dbrx", "smaug-bpe", "chatglm-bpe", "glm4"), _CL100K),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "grok-2", "solar-open"), {"pattern": hf.QWEN2}),
    **dict.fromkeys(("gpt-2", "phi-2", "olmo", "mpt", "jais", "exaone4", "trillion", "gigachat", "granite-docling"), _GPT2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"), _GPT2 | {"digits": True}),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2", "minimax-m2"), {"pattern": hf.O200K}),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "joyai-llm"), {"pattern": hf.DEEPSEEK3}),
}  # fmt: skip


class GgufKeys:
    """Keys under tokenizer.ggml., with their defaults."""

    def __init__(self, values: dict):
        self.values = values

    def get(self, name: str, default=None):
        return self.values.get("tokenizer.ggml." + name, default)

    def list(self, name: str, count: int | None = None) -> list:
        value = self.get(name)
        if value is None or isinstance(value, (str, int, float)) or (count is not None and len(value) != count):
            raise ConvertError(f"tokenizer.ggml.{name} is missing or of the wrong length")
        return list(value)

    def id(self, name: str, count: int) -> int | None:
        value = self.get(name + "_token_id")
        return value if isinstance(value, int) and 0 <= value < count else None


def _gguf_model(g: GgufKeys, tokens: list[str], kind: int) -> spf.Model:
    """The keys as a SentencePiece model."""
    unigram = kind == spf.UNIGRAM
    kinds = [int(k) for k in g.list("token_type", len(tokens))]
    scores = [float(s) for s in g.list("scores", len(tokens))]
    model = spf.Model(model_type=kind, add_dummy_prefix=bool(g.get("add_space_prefix", not unigram)))
    model.remove_extra_whitespaces = bool(g.get("remove_extra_whitespaces", False))
    model.charsmap = bytes(bytearray(c & 255 for c in g.get("precompiled_charsmap", ())))
    if not unigram and (model.charsmap or model.remove_extra_whitespaces):
        raise ConvertError("the GGUF file's tokenizer normalizes its text, which is not supported")
    model.pieces = [spf.Piece(text.encode(), score, kind) for text, score, kind in zip(tokens, scores, kinds)]
    model.ids = {"unk": -1, "bos": -1, "eos": -1, "pad": -1}
    for short, name in (("unk", "unknown"), ("bos", "bos"), ("eos", "eos")):
        found = g.id(name, len(tokens))
        model.ids[short] = -1 if found is None else found
    if unigram and model.ids["unk"] < 0:
        model.ids["unk"] = next((i for i, k in enumerate(kinds) if k == spf.UNKNOWN), -1)
    model.byte_fallback = kinds.count(spf.BYTE) == 256
    return model


def _gguf_spm(g: GgufKeys, tokens: list[str], kind: int) -> Tokenizer:
    """llama.cpp's rules: user-defined tokens are found in the raw text, and each piece of text gets the prefix."""
    model = _gguf_model(g, tokens, kind)
    user = [i for i, piece in enumerate(model.pieces) if piece.kind == spf.USER]
    for i, piece in enumerate(model.pieces):
        if i == model.ids["unk"]:
            piece.kind = spf.UNKNOWN  # files disagree: the id decides
        elif piece.kind == spf.UNKNOWN:
            piece.kind = spf.CONTROL
        elif piece.kind == spf.USER:
            piece.kind = spf.UNUSED if kind == spf.UNIGRAM else spf.NORMAL
    t = from_sentencepiece(model, "the GGUF file", parsed=(spf.CONTROL, spf.UNKNOWN))
    t.added += [Added(i, tokens[i], 0) for i in user if tokens[i]]
    if user:
        t.reference = None
    t.before = [t.bos] if t.bos is not None and g.get("add_bos_token", kind == spf.BPE) else []
    t.after = [t.eos] if t.eos is not None and g.get("add_eos_token", kind == spf.UNIGRAM) else []
    return t


def _gguf_bpe(g: GgufKeys, tokens: list[str]) -> Tokenizer:
    pre = g.get("pre", "default")
    if pre not in GGUF_PATTERNS:
        raise ConvertError(f"the GGUF file's pre-tokenizer {pre!r} is not supported")
    kinds = [int(k) for k in g.list("token_type", len(tokens))]
    names = {name: (tokens[i], i) for name in ("bos", "eos") if (i := g.id(name, len(tokens))) is not None}
    add_bos = g.get("add_bos_token", "ignore_merges" in GGUF_PATTERNS[pre])  # so llama.cpp has it
    made = hf.byte_level_json(
        {text: i for i, text in enumerate(tokens) if kinds[i] == spf.NORMAL},
        g.list("merges"),
        added=[hf.added_entry(i, tokens[i], kinds[i] == spf.CONTROL) for i, k in enumerate(kinds) if k in (spf.CONTROL, spf.USER)],
        before=[names["bos"]] if add_bos and "bos" in names else [],
        after=[names["eos"]] if g.get("add_eos_token", False) and "eos" in names else [],
        **GGUF_PATTERNS[pre],
    )
    return hf.from_json(made, "the GGUF file", {f"{name}_token": text for name, (text, _) in names.items()})


def from_gguf(values: dict, vocab: int | None) -> Tokenizer | None:
    """The tokenizer of a GGUF file's keys, under llama.cpp's rules; None where it has none."""
    g = GgufKeys(values)
    kind = g.get("model")
    if kind is None or kind == "none":
        return None
    pieces = {"llama": spf.BPE, "t5": spf.UNIGRAM}
    if kind != "gpt2" and kind not in pieces:
        raise ConvertError(f"the GGUF file's tokenizer {kind!r} is not supported")
    tokens = [str(token) for token in g.list("tokens")]
    return _fit(_gguf_spm(g, tokens, pieces[kind]) if kind in pieces else _gguf_bpe(g, tokens), vocab)


# ---- vectors of the self test --------------------------------------------------------------------


def vectors(t: Tokenizer | None, more: list[str] | None = None) -> dict | None:
    """Strings and their ids by the reference package, for the weights file's self test."""
    if t is None or t.reference is None:
        return None
    from .hard_strings import vector_strings

    strings = vector_strings([a.content for a in t.added if a.flags & SPECIAL]) + (more or [])
    out = {
        "text.bytes": b"".join(s.encode() for s in strings),
        "text.lengths": keys.U32s([len(s.encode()) for s in strings]),
    }
    for name, parse in (("plain", False), ("parse", True)):
        ids = [t.reference.encode(s, parse) for s in strings]
        out[f"{name}.ids"] = keys.U32s([i for one in ids for i in one])
        out[f"{name}.lengths"] = keys.U32s([len(one) for one in ids])
    return out
