"""The tokenizer of a GGUF file's keys, under llama.cpp's rules."""

import json

from ...errors import ConvertError
from . import patterns
from . import sentencepiece_model as spf
from .byte_level import added_entry, byte_level_json, falcon_nodes
from .sentencepiece import from_sentencepiece
from .tokenizer import Added, Tokenizer, checked_size
from .tokenizer_json import from_json

_CL100K: dict = {"pattern": patterns.LLAMA3}
_GPT2: dict = {"pattern": None}
# tokenizer.ggml.pre: how the text is cut, by the models' own rules where llama.cpp's only come near them.
GGUF_PATTERNS: dict[str, dict] = {
    "default": {"pattern": patterns.LLAMA_CPP_DEFAULT},
    "deepseek-llm": {"pattern": patterns.DEEPSEEK2, "digits": True},
    "deepseek-coder": {"pattern": patterns.DEEPSEEK_CODER, "digits": True},
    "falcon": {"pattern": None, "nodes": falcon_nodes()},
    "tekken": {"pattern": patterns.TEKKEN, "ignore_merges": True},
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2", "midm-2.0"), _CL100K | {"ignore_merges": True}),
    **dict.fromkeys(("dbrx", "smaug-bpe", "chatglm-bpe", "glm4"), _CL100K),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "grok-2", "solar-open", "kormo"), {"pattern": patterns.QWEN2}),
    **dict.fromkeys(("gpt-2", "phi-2", "olmo", "mpt", "jais", "exaone4", "trillion", "gigachat", "granite-docling", "mellum", "a.x-4.0"), _GPT2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"), _GPT2 | {"digits": True}),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie"), {"pattern": patterns.O200K}),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"), {"pattern": patterns.DEEPSEEK3}),
    "qwen35": {"pattern": patterns.QWEN35},
    "kimi-k2": {"pattern": patterns.KIMI},
    "exaone-moe": {"pattern": patterns.EXAONE_MOE},
    "seed-coder": {"pattern": patterns.SEED},
    "jais-2": {"pattern": patterns.JAIS2},
    "youtu": {"pattern": patterns.YOUTU, "ignore_merges": True},
    "afmoe": {"pattern": patterns.TRINITY},
    **dict.fromkeys(("bailingmoe", "bailingmoe2", "llada-moe"), {"pattern": patterns.LING}),
    **dict.fromkeys(("tiny_aya", "cohere2moe"), {"pattern": patterns.COHERE_MOE}),
    "laguna": {"pattern": patterns.LAGUNA},
    "minicpm5": {"pattern": patterns.MINICPM5, "ignore_merges": True},
    "ufakzeka": {"pattern": patterns.UFAKZEKA},
    **dict.fromkeys(("bloom", "gpt3-finnish", "poro-chat"), {"pattern": patterns.BLOOM}),
    "viking": {"pattern": patterns.BLOOM, "digits": True},
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
    add_bos = g.get("add_bos_token", "ignore_merges" in GGUF_PATTERNS[pre] and pre not in ("minicpm5", "youtu"))  # so llama.cpp has it
    made = byte_level_json(
        {text: i for i, text in enumerate(tokens) if kinds[i] == spf.NORMAL},
        g.list("merges"),
        added=[added_entry(i, tokens[i], kinds[i] == spf.CONTROL) for i, k in enumerate(kinds) if k in (spf.CONTROL, spf.USER)],
        before=[names["bos"]] if add_bos and "bos" in names else [],
        after=[names["eos"]] if g.get("add_eos_token", False) and "eos" in names else [],
        **GGUF_PATTERNS[pre],
    )
    # The package numbers an added token that is in no vocabulary after the last one; here it may stand anywhere.
    vocab = made["model"]["vocab"] | {a["content"]: a["id"] for a in made["added_tokens"]}
    reference = json.dumps(made | {"model": made["model"] | {"vocab": vocab}})
    return from_json(made, "the GGUF file", {f"{name}_token": text for name, (text, _) in names.items()}, reference)


def _gguf_gemma(g: GgufKeys, tokens: list[str]) -> Tokenizer:
    """llama.cpp's rules of Gemma 4: spaces become U+2581, lines and runs of their ends are words, characters without a token
    become bytes, and BOS always stands first."""
    kinds = [int(k) for k in g.list("token_type", len(tokens))]
    names = {name: (tokens[i], i) for name in ("bos", "eos") if (i := g.id(name, len(tokens))) is not None}
    unknown = g.id("unknown", len(tokens))
    unknown = next((i for i, kind in enumerate(kinds) if kind == spf.UNKNOWN), None) if unknown is None else unknown
    added = [added_entry(i, tokens[i], kinds[i] != spf.USER) for i, k in enumerate(kinds) if k in (spf.CONTROL, spf.USER, spf.UNKNOWN)]
    bytewise = kinds.count(spf.BYTE) == 256
    vocab = {text: i for i, text in enumerate(tokens) if kinds[i] in (spf.NORMAL, spf.BYTE) or i == unknown}
    before = [names["bos"]] if "bos" in names else []
    special = {text: {"id": text, "ids": [i], "tokens": [text]} for text, i in before}
    made = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": "\n"}, "behavior": "Contiguous", "invert": False},
        "post_processor": {"type": "TemplateProcessing",
                           "single": [*({"SpecialToken": {"id": text, "type_id": 0}} for text, _ in before), {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": special},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        ]},
        "model": {"type": "BPE", "dropout": None, "unk_token": None if unknown is None else tokens[unknown],
                  "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": bytewise,
                  "ignore_merges": False, "vocab": vocab, "merges": g.list("merges")},
    }  # fmt: skip
    reference = json.dumps(made | {"model": made["model"] | {"vocab": vocab | {a["content"]: a["id"] for a in added}}})
    return from_json(made, "the GGUF file", {f"{name}_token": text for name, (text, _) in names.items()}, reference)


def from_gguf(values: dict, vocab: int | None) -> Tokenizer | None:
    """The tokenizer of a GGUF file's keys, under llama.cpp's rules; None where it has none."""
    g = GgufKeys(values)
    kind = g.get("model")
    if kind is None or kind == "none":
        return None
    pieces = {"llama": spf.BPE, "t5": spf.UNIGRAM}
    if kind not in ("gpt2", "gemma4", *pieces):
        raise ConvertError(f"the GGUF file's tokenizer {kind!r} is not supported")
    tokens = [str(token) for token in g.list("tokens")]
    if kind in pieces:
        return checked_size(_gguf_spm(g, tokens, pieces[kind]), vocab)
    return checked_size((_gguf_gemma if kind == "gemma4" else _gguf_bpe)(g, tokens), vocab)
