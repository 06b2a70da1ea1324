"""A small vocabulary of every kind and pattern, trained on text made from word lists.

In:  the name of one. Out: a Tokenizer with its reference. The tokenizers and sentencepiece packages do the training.
"""

import io
import itertools
import json
import tempfile
import unicodedata

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from ..convert.tokenizers import patterns
from ..convert.tokenizers import sentencepiece_model as spf
from ..convert.tokenizers.byte_level import alphabet_text, byte_alphabet
from ..convert.tokenizers.sentencepiece import from_sentencepiece
from ..convert.tokenizers.tokenizer import Tokenizer as Ours
from ..convert.tokenizers.tokenizer_json import BYTE_TOKEN, from_json
from .hard_strings import Random

WORDS = """the of and a to in is was he for it with as his on be at by had not are but from or have an they which one you
were her all she there would their we him been has when who will more no if out so said what up its about into than them
can only other new some could time these two may then do first any my now such like our over man me even most made after
also did many before must through back years where much your way well down should because each just those people mister
once upon little girl boy named happy friend park play played ball big small house tree dog cat sat mat found home day
night mother father wanted loved saw went looked very good great asked help together tokenizer tokenization merging
return print import void struct static const while for else elif class def self none true false null int char float
don't can't it's we'll they're I've I'd I'm o'clock café naïve façade résumé über straße Ångström señor coöperate
привет мир это не на что как слово дом γειά σου κόσμε λόγος שלום עולם مرحبا بالعالم नमस्ते दुनिया สวัสดี 你好 世界 中文 字符
日本語 テキスト です ます 한국어 텍스트 안녕 세상 e\u0301te\u0301 n\u0303 🙂 🚀 👍 ❤️ 👨‍👩‍👧 0 1 2 10 42 100 1984 2024 3.14 1,000 x² ½ ٣ Ⅷ""".split()
MARKS = [". ", ", ", "! ", "? ", "; ", ": ", "\n", "\n\n", "  ", "\n    ", "\t", " - ", "... ", " (", ") ", '" ', " = ", "{}", "[0]", "'s ", "\r\n"]
FLAGGED = [
    AddedToken("<s>", special=True, normalized=False),
    AddedToken("</s>", special=True, normalized=False),
    AddedToken("<|sp|>", special=True, normalized=True),
    AddedToken("<left>", lstrip=True, normalized=False),
    AddedToken("<right>", rstrip=True, normalized=False),
    AddedToken("<both>", special=True, lstrip=True, rstrip=True, normalized=False),
    AddedToken("word", single_word=True, normalized=False),
    AddedToken("Wörd", single_word=True, normalized=True),
    AddedToken("<<", normalized=False),
    AddedToken("<<<", normalized=False),
    AddedToken("<s><s>", normalized=False),
    AddedToken("  ", normalized=False),
    AddedToken("\n\n\n", normalized=False, rstrip=True),
    AddedToken("e\u0301!", normalized=True),
    AddedToken("two words", normalized=True, lstrip=True),
    AddedToken("日本", normalized=False, single_word=True, lstrip=True),
    AddedToken("é", normalized=False, special=True),
]
def corpus() -> list[str]:
    """Lines of words and numbers, the earlier words of the list more often, between marks."""
    lines = []
    for i in range(4000):
        r, line = Random(7, i), ""
        for _ in range(4 + r.below(12)):
            line += WORDS[r.below(1 + r.below(len(WORDS)))] if r.below(8) else str(r.below(10 ** (1 + r.below(4))))
            line += MARKS[r.below(len(MARKS))] * (1 + r.below(2)) if r.below(3) == 0 else " "
        lines.append(line)
    return lines


def train(t: Tokenizer, size: int, alphabet: list[str], special: list, split) -> Tokenizer:
    """Half the training is on the words that `split` gives, half on short pieces of text that reach over their ends.
    So there are merges that only a cut in the right place keeps from happening."""
    across, words = [], []
    for line in corpus():
        across += [line[i : i + 12] for i in range(0, len(line), 12)]
        words += [word for word, _ in split.pre_tokenize_str(line)]
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet, special_tokens=special, limit_alphabet=400, show_progress=False
    )
    t.train_from_iterator(across + words, trainer)
    return t


def byte_level(size: int, steps: list, special: list = (), nfc: bool = False, **model) -> Tokenizer:
    t = Tokenizer(models.BPE(**model))
    t.normalizer = normalizers.NFC() if nfc else None
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    t.decoder = decoders.ByteLevel()
    words = pre_tokenizers.Split(Regex(patterns.GPT2), "isolated")
    train(t, size, pre_tokenizers.ByteLevel.alphabet(), list(special), words)
    t.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    return t


def split(pattern: str) -> list:
    step = pre_tokenizers.Split(Regex(pattern), "isolated", invert=False)
    return [step, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


def template(t: Tokenizer, single: str) -> None:
    names = [part for part in single.split() if part != "$A"]
    pairs = [(name, t.token_to_id(name)) for name in names]
    t.post_processor = processors.TemplateProcessing(single=single, special_tokens=pairs)


def gpt2() -> Tokenizer:
    t = byte_level(1200, [pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.add_special_tokens(["<|endoftext|>"])
    return t


def gpt2_prefix() -> Tokenizer:
    t = byte_level(600, [pre_tokenizers.ByteLevel(add_prefix_space=True)], ["<s>", "</s>"])
    t.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    return t


def llama3() -> Tokenizer:
    """Without every seventh merge, so that some tokens are found only as whole words."""
    data = json.loads(byte_level(1200, split(patterns.LLAMA3), ignore_merges=True).to_str())
    data["model"]["merges"] = [merge for i, merge in enumerate(data["model"]["merges"]) if i % 7]
    t = Tokenizer.from_str(json.dumps(data))
    t.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    template(t, "<|begin_of_text|> $A")
    return t


def qwen2() -> Tokenizer:
    t = byte_level(1200, split(patterns.QWEN2), nfc=True)
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    t.add_tokens([AddedToken("<think>", normalized=False), AddedToken("e\u0301nd", normalized=True)])
    return t


def smollm2() -> Tokenizer:
    steps = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    return byte_level(1200, steps, ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"])


def added() -> Tokenizer:
    t = byte_level(500, [pre_tokenizers.ByteLevel(add_prefix_space=False)], nfc=True)
    t.add_tokens(FLAGGED)
    template(t, "<s> $A </s>")
    return t


def splits() -> Tokenizer:
    steps = [
        pre_tokenizers.Split("x", "merged_with_previous"),
        pre_tokenizers.Split("a", "merged_with_next"),
        pre_tokenizers.Split("!", "removed"),
        pre_tokenizers.Split("..", "contiguous"),
        pre_tokenizers.Split("e", "merged_with_next", invert=True),
        pre_tokenizers.Digits(individual_digits=False),
        pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False),
    ]
    return byte_level(500, steps)


def characters(size: int, special: list, **model) -> Tokenizer:
    """BPE over characters, the fallback bytes in the vocabulary."""
    t = Tokenizer(models.BPE(unk_token="<unk>", **model))
    t.normalizer = normalizers.Replace(" ", "\u2581")
    bytes_ = [f"<0x{b:02X}>" for b in range(256)] if model.get("byte_fallback") else []
    train(t, size, [], ["<unk>", "<s>", "</s>", *bytes_], pre_tokenizers.Split(" ", "merged_with_next"))
    data = json.loads(t.to_str())
    data["added_tokens"] = [a for a in data["added_tokens"] if not BYTE_TOKEN.fullmatch(a["content"])]
    t = Tokenizer.from_str(json.dumps(data))
    t.add_tokens(special)
    return t


SPM_DECODER = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]


AWKWARD = "Ab'sl \n\r/!1$\u02b0\u0301\u4e2d\u00b2\u017f\u3000\u0436\u043c\u3002\u01c5"


def pairs() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A byte-level vocabulary of all pairs of awkward characters, so that every cut between two of them shows."""
    vocab = {c: b for c, b in byte_alphabet().items()}
    merges: list[tuple[str, str]] = []

    def add(left: str, right: str) -> None:
        merges.append((left, right))
        vocab.setdefault(left + right, len(vocab))

    units = [alphabet_text(c.encode()) for c in AWKWARD]
    for unit in units:
        for i in range(1, len(unit)):
            if (unit[:i], unit[i]) not in merges:
                add(unit[:i], unit[i])
    both = [(left, right) for left in units for right in units]
    order = [Random(9, i).next() for i in range(len(both))]
    for _, pair in sorted(zip(order, both)):
        add(*pair)
    return vocab, merges


def stepped(steps: list, nfc: bool = False, **model):
    """A small byte-level vocabulary behind other pre-tokenizers."""

    def build() -> Tokenizer:
        t = Tokenizer(models.BPE(*pairs(), **model))
        t.normalizer = normalizers.NFC() if nfc else None
        t.pre_tokenizer = pre_tokenizers.Sequence(steps)
        t.decoder = decoders.ByteLevel()
        t.add_special_tokens(["<|endoftext|>"])
        return t

    return build


def splits_by(*texts: str) -> list:
    """The steps of Split with each pattern."""
    return [pre_tokenizers.Split(Regex(p), "isolated") for p in texts]


LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
DIGITS = pre_tokenizers.Digits(individual_digits=True)
FALCON = [
    pre_tokenizers.Punctuation("contiguous"),
    pre_tokenizers.ByteLevel(add_prefix_space=False),
    pre_tokenizers.Digits(individual_digits=False),
    *splits_by(patterns.THREE_DIGITS),
]


def hf_llama() -> Tokenizer:
    t = characters(1200, [], byte_fallback=True, fuse_unk=True)
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = decoders.Sequence([*SPM_DECODER, decoders.Strip(" ", 1, 0)])
    template(t, "<s> $A")
    return t


def hf_gemma() -> Tokenizer:
    t = characters(1000, [AddedToken("\n\n", normalized=False), AddedToken("   ", normalized=False)], byte_fallback=True, fuse_unk=True)
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence(SPM_DECODER)
    return t


def hf_metaspace(scheme: str, split: bool, fuse: bool, flagged: list):
    def build() -> Tokenizer:
        t = characters(700, flagged, fuse_unk=fuse)
        t.normalizer = None
        t.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", scheme, split)
        t.decoder = decoders.Metaspace("\u2581", scheme, split)
        return t

    return build


def hf_partial() -> Tokenizer:
    """Byte fallback that lacks bytes: characters that need them are unknown."""
    t = hf_llama()
    data = json.loads(t.to_str())
    vocab = data["model"]["vocab"]
    for b in (0x0A, 0x80, 0xE4, 0x9F):
        vocab[f"[gone {b}]"] = vocab.pop(f"<0x{b:02X}>")
    data["model"]["fuse_unk"] = False
    return Tokenizer.from_str(json.dumps(data))


def spm(**options):
    def build() -> bytes:
        out = io.BytesIO()
        defaults = {"model_type": "bpe", "vocab_size": 900, "normalization_rule_name": "identity"}
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(line for text in corpus() for line in text.split("\n")),
            model_writer=out,
            allow_whitespace_only_pieces=True,
            num_threads=1,
            minloglevel=2,
            hard_vocab_limit=False,
            **defaults | options,
        )
        return out.getvalue()

    return build


def spm_unused() -> bytes:
    """Every third longer piece unused: merged through, then taken apart again. Every eleventh user-defined: cut out
    first, though longer pieces hold it. Scores of both signs."""
    model = spf.parse(spm(byte_fallback=True, remove_extra_whitespaces=False)())
    for i, piece in enumerate(model.pieces):
        if piece.kind == spf.NORMAL:
            piece.score += 300.0
            longer = len(piece.text.decode()) > 1
            piece.kind = spf.USER if longer and i % 11 == 0 else spf.UNUSED if longer and i % 3 == 0 else spf.NORMAL
    return spf.serialize(model)


def rules() -> list[tuple[str, str]]:
    """What a small normalizer changes: some compatibility characters, sequences, spaces; some vanish."""
    out = {chr(c): unicodedata.normalize("NFKC", chr(c)) for low, high in MAPPED for c in range(low, high + 1)}
    out |= {c + m: unicodedata.normalize("NFC", c + m) for c in "aeinouAE" for m in "\u0300\u0301\u0303\u0308"}
    out |= {c: " " for c in "\t\n\r\u0085\u2028"} | {c: "" for c in "\x01\x02\x7f\u200b\ufeff"}
    return [(a, b) for a, b in out.items() if a != b]


MAPPED = [(0xA0, 0xBE), (0x2000, 0x200A), (0x2070, 0x2079), (0x2100, 0x2126), (0x2160, 0x2169), (0x3000, 0x3000), (0xFB00, 0xFB06), (0xFF01, 0xFF3A)]


def mapped(**options):
    """A unigram model, or another, with a normalizer of its own."""

    def build() -> bytes:
        with tempfile.NamedTemporaryFile("w", suffix=".tsv") as f:
            for sides in rules():
                f.write("\t".join(" ".join(f"{ord(c):X}" for c in side) for side in sides) + "\n")
            f.flush()
            return spm(**{"model_type": "unigram", "vocab_size": 400, "normalization_rule_tsv": f.name} | options)()

    return build


def coarse(build, step: float):
    """Scores in steps, so that many ways to cut a text add up to the same."""

    def rounded() -> bytes:
        model = spf.parse(build())
        for piece in model.pieces:
            piece.score = float(round(piece.score / step) * step)
        return spf.serialize(model)

    return rounded


def hf_unigram(pre, *more, fallback: bool = False):
    """The package's unigram, as transformers makes it of SentencePiece models."""

    def build() -> Tokenizer:
        model = spf.parse(mapped(byte_fallback=fallback, vocab_size=600 if fallback else 400)())
        t = Tokenizer(models.Unigram([(p.text.decode(), p.score) for p in model.pieces], 0, fallback))
        t.normalizer = normalizers.Sequence([normalizers.Precompiled(model.charsmap), *more])
        t.pre_tokenizer = pre
        t.decoder = decoders.Sequence(SPM_DECODER[::2]) if fallback else decoders.Metaspace("\u2581", "always", True)
        t.add_special_tokens(["<unk>", "<s>", "</s>"])
        t.add_tokens([AddedToken("the", normalized=False), *([] if more else [AddedToken("  ", normalized=True)])])
        template(t, "$A </s>")
        return t

    return build


def normalized(t: Tokenizer, *steps) -> Tokenizer:
    t.normalizer = normalizers.Sequence(list(steps))
    return t


def hf_words() -> Tokenizer:
    """Whole words, and special tokens among them that the normalizer or plain mode would make of a text."""
    counts: dict[str, int] = {}
    for line in corpus():
        for word, _ in pre_tokenizers.WhitespaceSplit().pre_tokenize_str(normalizers.NFD().normalize_str(line.lower())):
            for part in (word, *(part for part, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(word))):
                counts[part] = counts.get(part, 0) + 1
    words = ["<unk>", "<s>", "</s>", *sorted(counts, key=lambda word: (-counts[word], word))[:600]]
    t = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    t.add_tokens([AddedToken("the", normalized=False), AddedToken("  ", normalized=True)])
    template(t, "<s> $A")
    return normalized(t, normalizers.NFD(), normalizers.Lowercase())


def hf_cut(pre, *steps):
    """BPE over characters that a pre-tokenizer keeps from reaching over its cuts, without a decoder."""

    def build() -> Tokenizer:
        t = characters(700, [AddedToken("e\u0301nd", normalized=True)])
        t.pre_tokenizer = pre
        return normalized(t, *steps)

    return build


# Of each script that the rule knows by name, of some others, and of none: a space, U+0378 and U+0870.
SCRIPTS = "aé\u02b0я١אก한1。\u3000\u0301\ue000あカ\u30fc\uff70漢\U00020000\u3005\u0378\u0870 \u2581"


def hf_scripts() -> Tokenizer:
    """BPE with a token for every two awkward characters, so that every cut between scripts, or lack of one, shows."""
    vocab: dict[str, int] = {"<unk>": 0}
    merges: list[tuple[str, str]] = []
    for c in SCRIPTS:
        vocab.setdefault(c, len(vocab))
    for a, b in itertools.product(SCRIPTS, SCRIPTS):
        vocab.setdefault(a + b, len(vocab))
        merges.append((a, b))
    t = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>"))
    t.add_tokens([AddedToken("<x>", normalized=False)])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.UnicodeScripts(), pre_tokenizers.Metaspace("\u2581", "first", False)])
    return t


METASPACE = pre_tokenizers.Metaspace("\u2581", "always", True)
VOCABULARIES = {
    "gpt2": gpt2,
    "gpt2-prefix": gpt2_prefix,
    "llama3": llama3,
    "qwen2": qwen2,
    "smollm2": smollm2,
    "added": added,
    "splits": splits,
    "hf-llama": hf_llama,
    "hf-partial": hf_partial,
    "hf-gemma": hf_gemma,
    "hf-metaspace": hf_metaspace("always", True, True, []),
    "hf-first": hf_metaspace("first", False, False, FLAGGED[:9]),
    "hf-never": hf_metaspace("never", True, True, FLAGGED[:4]),
    "spm": spm(byte_fallback=True, remove_extra_whitespaces=False, split_digits=True),
    "spm-trim": spm(character_coverage=0.98, control_symbols=["<pad>"], user_defined_symbols=["<sep>", "ing", "in", "日本", "ä", "\n"]),
    "spm-plain": spm(byte_fallback=True, split_by_whitespace=False, add_dummy_prefix=False, remove_extra_whitespaces=False, user_defined_symbols=["\u2581\u2581", "<u>"]),
    "spm-unused": spm_unused,
}
# Those without whole examples; their strings are made of the fragments of gpt2.
LEAN = {
    "o200k": stepped([pre_tokenizers.Split(Regex(patterns.O200K), "removed", invert=True), LEVEL]),
    "tekken": stepped([*splits_by(patterns.TEKKEN), LEVEL], ignore_merges=True),
    "deepseek2": stepped([*splits_by(*patterns.DEEPSEEK2), DIGITS, LEVEL]),
    "deepseek3": stepped([*splits_by(*patterns.DEEPSEEK3), LEVEL]),
    "deepseek-coder": stepped([*splits_by(*patterns.DEEPSEEK_CODER), DIGITS, LEVEL]),
    "falcon": stepped(FALCON),
    "llamacpp": stepped([*splits_by(*patterns.LLAMA_CPP_DEFAULT), LEVEL]),
    "command-r": stepped([DIGITS, pre_tokenizers.ByteLevel(add_prefix_space=False)], nfc=True),
    "uni": spm(model_type="unigram", vocab_size=500, byte_fallback=True, remove_extra_whitespaces=False),
    "uni-user": spm(model_type="unigram", vocab_size=400, user_defined_symbols=["<sep>", "ing", "in", "日本", "ä"], split_by_whitespace=False),
    "uni-coarse": coarse(spm(model_type="unigram", vocab_size=400), 1),
    "uni-map": mapped(),
    "spm-map": mapped(model_type="bpe", remove_extra_whitespaces=False, byte_fallback=True, vocab_size=600),
    "hf-uni": hf_unigram(pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), METASPACE])),
    "hf-uni-bytes": hf_unigram(METASPACE, normalizers.Strip(False, True), normalizers.Replace(Regex(" {2,}"), "\u2581"), fallback=True),
    "hf-words": hf_words,
    "hf-word-bpe": hf_cut(pre_tokenizers.Whitespace()),
    "hf-bert": hf_cut(pre_tokenizers.BertPreTokenizer(), normalizers.NFD()),
    "hf-scripts": hf_scripts,
    "qwen35": stepped([*splits_by(patterns.QWEN35), LEVEL], nfc=True),
    "kimi": stepped([*splits_by(patterns.KIMI), LEVEL], ignore_merges=True),
    "exaone-moe": stepped([*splits_by(patterns.EXAONE_MOE), LEVEL]),
    "seed": stepped([*splits_by(patterns.SEED), LEVEL]),
    "jais2": stepped([*splits_by(patterns.JAIS2), LEVEL]),
    "youtu": stepped([*splits_by(*patterns.YOUTU), LEVEL], ignore_merges=True),
    "trinity": stepped([*splits_by(*patterns.TRINITY), LEVEL]),
    "bloom": stepped([*splits_by(patterns.BLOOM), LEVEL]),
    "ufakzeka": stepped([*splits_by(patterns.UFAKZEKA), LEVEL]),
    "ling": stepped([*splits_by(patterns.LING), LEVEL]),
    "minicpm5": stepped([*splits_by(*patterns.MINICPM5), LEVEL], ignore_merges=True),
    "laguna": stepped([*splits_by(*patterns.LAGUNA), LEVEL]),
    "cohere-moe": stepped([*splits_by(*patterns.COHERE_MOE), LEVEL]),
}
VOCABULARIES |= LEAN


def ours(name: str) -> Ours:
    made = VOCABULARIES[name]()
    if isinstance(made, bytes):
        return from_sentencepiece(spf.parse(made), name, made)
    text = made.to_str()
    return from_json(json.loads(text), name, {}, text)
