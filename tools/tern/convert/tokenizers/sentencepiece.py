"""SentencePiece BPE and unigram models as tokenizers, with what the files beside them state.

In:  the model of a tokenizer.model, or one made of another format's keys. Out: a Tokenizer whose ids equal the package's.
A rule that the engine has no equal of is refused by its name.
"""

import dataclasses

import numpy as np

from ...errors import ConvertError
from . import charsmap, growth, stated
from . import sentencepiece_model as spf
from .stated import Stated
from .tokenizer import ABSENT, BLOCK, FLAGS, LSTRIP, NORMALIZED, RSTRIP, SPECIAL, Added, Tokenizer


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
            flags = {name: bool(a.flags & bit) for name, bit in FLAGS.items()}
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


def _settle(model: spf.Model, stated: Stated, tokens: list[stated.Token]) -> bool:
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


def _put_stated(t: Tokenizer, stated: Stated, tokens: list[stated.Token]) -> None:
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
    growth.check(t)
    growth.check_added(t, None)
    t.decoder = [{"step": "replace", "from": BLOCK, "to": " "}, {"step": "byte_fallback"}]
    if model.add_dummy_prefix or model.remove_extra_whitespaces:
        t.decoder.append({"step": "strip", "text": " ", "count": 65535 if model.remove_extra_whitespaces else 1})
    try:
        later = spf.serialize(dataclasses.replace(model, add_dummy_prefix=False)) if first else None
        t.reference = SentencePieceReference(data or spf.serialize(model), t, later)
    except ImportError:
        pass
    return t
