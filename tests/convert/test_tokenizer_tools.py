"""Tests of the tokenizer readers (tools/tern/convert/tokenizers): every source of one vocabulary gives the same section, and what the
engine has no equal of is refused by its name. The ids themselves are the matter of test_tokenizer.c."""

import base64
import copy
import json
import random
import struct
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import tokenizers

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import check_tokenizer  # noqa: E402
from tern.convert.tokenizers import gguf, growth, llama2c, patterns, read, section, tiktoken, tokenizer, vectors  # noqa: E402
from tern.convert.tokenizers import sentencepiece_model as spf  # noqa: E402
from tern.convert.tokenizers.byte_level import added_entry, alphabet_text, byte_level_json, merges_of_ranks  # noqa: E402
from tern.convert.tokenizers.tokenizer_json import TokenizersReference, from_json  # noqa: E402
from tern.errors import ConvertError  # noqa: E402
from tern.testing import tokenizer_check, vocabularies  # noqa: E402
from tern.weights import keys  # noqa: E402

WORDS = [b"th", b"the", b" t", b" th", b" the", b"12", b"123", b"1234", b"\n\n", b"  ", b"'s", b"\xc3\xa9"]
RANKS = {bytes([b]): b for b in range(256)} | {word: 256 + i for i, word in enumerate(WORDS)}


def level_json(**options) -> dict:
    vocab = {alphabet_text(token): rank for token, rank in RANKS.items()}
    special = [added_entry(len(RANKS), "<|endoftext|>", True)]
    return byte_level_json(vocab, merges_of_ranks(RANKS), added=special, **options)


def spm_model() -> spf.Model:
    model = spf.Model(remove_extra_whitespaces=False)
    model.pieces = [spf.Piece(b"<unk>", 0.0, spf.UNKNOWN), spf.Piece(b"<s>", 0.0, spf.CONTROL), spf.Piece(b"</s>", 0.0, spf.CONTROL)]
    model.pieces += [spf.Piece(b"<0x%02X>" % b, 0.0, spf.BYTE) for b in range(256)]
    for i, text in enumerate(("\u2581", "t", "h", "e", "th", "he", "\u2581t", "\u2581th", "\u2581the", "\u2581\u2581")):
        model.pieces.append(spf.Piece(text.encode(), -float(i)))
    return model


def charsmap_blob(table: dict[bytes, bytes]) -> bytes:
    """A precompiled_charsmap of keys of one and two bytes, the second below the first: a double array laid out by hand.
    The node of a key K stands at 512 (1 + K's number); its children at that place ^ their byte, its value at the place."""
    units, texts = [0] * 4096, b""
    base = {b"": 256} | {key: 512 * (1 + i) for i, key in enumerate(sorted({k[:n] for k in table for n in (1, 2)} & {*table}))}
    units[0] = 256 << 10
    for key, at in base.items():
        if not key:
            continue
        place = base[key[:-1]] ^ key[-1]
        units[place] = (at ^ place) << 10 | 1 << 8 | key[-1]
        units[at] = 1 << 31 | len(texts)
        texts += table[key] + b"\0"
    return struct.pack("<I", 4 * len(units)) + struct.pack(f"<{len(units)}I", *units) + texts


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, name: str, data) -> Path:
        path = self.folder / name
        path.write_bytes(data if isinstance(data, bytes) else (data if isinstance(data, str) else json.dumps(data)).encode())
        return path


class Sources(Folder):
    def test_vocabulary_and_merges_equal_tokenizer_json(self):
        made = level_json(pattern=patterns.QWEN2, nfc=True)
        merges = "#version: 0.2\n" + "\n".join(" ".join(m) for m in made["model"]["merges"]) + "\n"
        self.write("vocab.json", made["model"]["vocab"])
        self.write("merges.txt", merges)
        entry = {k: v for k, v in made["added_tokens"][0].items() if k != "id"}
        config = {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {str(len(RANKS)): entry}, "eos_token": "<|endoftext|>"}
        self.write("tokenizer_config.json", config)
        from_parts = section.section(read.from_huggingface(self.folder, None, 1000))
        self.write("tokenizer.json", made)
        self.assertEqual(section.section(read.from_huggingface(self.folder, None, 1000)), from_parts)

    def test_ranks_equal_tokenizer_json(self):
        lines = b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in RANKS.items())
        path = self.write("tokenizer.model", lines)
        with self.assertRaisesRegex(ConvertError, "only Llama 3's 128000"):
            read.read(path)
        with unittest.mock.patch.object(tiktoken, "LLAMA3_RANKS", len(RANKS)):
            t = read.read(path)
        self.assertEqual((len(t.tokens), t.bos, t.before), (len(RANKS) + 256, len(RANKS), [len(RANKS)]))
        self.assertTrue(t.ignore_merges)
        self.assertEqual(section.section_keys(t)["pre.0.pattern"], patterns.LLAMA3)

    def test_ranks_of_kimi(self):
        n = len(RANKS)
        self.write("tiktoken.model", b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in RANKS.items()))
        entry = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
        decoder = {n: "[BOS]", n + 1: "[EOS]", n + 2: "<|im_end|>"}
        config = {"tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "[EOS]"}
        config["added_tokens_decoder"] = {str(i): entry | {"content": text, "special": i != n + 2} for i, text in decoder.items()}
        self.write("tokenizer_config.json", config)
        t = read.from_huggingface(self.folder, None, n + 256)
        self.assertEqual((len(t.tokens), t.bos, t.eos, t.before, t.ignore_merges), (n + 256, n, n + 1, [], True))
        added = {a.id: (a.content, a.flags) for a in t.added}
        self.assertEqual((added[n + 2], added[n + 3]), (("<|im_end|>", 0), (f"<|reserved_token_{n + 3}|>", 1)))
        self.assertEqual(section.section_keys(t)["pre.0.pattern"], patterns.KIMI)
        engine, report = tokenizer_check.Engine(section.section(t)), tokenizer_check.Report()
        self.addCleanup(engine.close)
        tokenizer_check.compare(t, engine, 300, 1, report)
        self.assertEqual((report.differ, report.compared > 1000), (0, True))
        self.assertEqual(len(read.from_huggingface(self.folder, None, None).tokens), n + 258)
        for line, want in (('["x", r"""\\p{N}"""]', r"splits with 'x\|\\\\p\{N\}', which is not supported"), ("(", "SyntaxError")):
            self.write("tokenization_kimi.py", f'class Tokenizer:\n    pat_str = "|".join({line})\n')
            with self.assertRaisesRegex(ConvertError, want):
                read.read(self.folder)
        self.write("tokenization_kimi.py", f'pat_str = "|".join({patterns.QWEN2.split("|")})\n')
        self.assertEqual(section.section_keys(read.read(self.folder))["pre.0.pattern"], patterns.QWEN2)
        with self.assertRaisesRegex(ConvertError, f"'<\\|im_end\\|>' has the id {n + 2}; {n} to {n + 1} are free"):
            read.from_huggingface(self.folder, None, n + 2)
        self.write("tokenizer_config.json", config | {"tokenizer_class": "QWenTokenizer"})
        with self.assertRaisesRegex(ConvertError, "tokenizer_class is 'QWenTokenizer'"):
            read.read(self.folder)

    def test_sentencepiece_and_llama2c_and_gguf_agree(self):
        model = spm_model()
        t = read.read(self.write("tokenizer.model", spf.serialize(model)))
        longest = struct.pack("<i", 9)
        texts = [p.text.replace("\u2581".encode(), b" ") for p in model.pieces]
        texts[1:3] = b"\n<s>\n", b"\n</s>\n"
        rows = [struct.pack("<fi", p.score, len(text)) + text for p, text in zip(model.pieces, texts)]
        path = self.write("tokenizer.bin", longest + b"".join(rows))
        self.assertEqual(section.section(llama2c.from_llama2c(path, len(rows))), section.section(t))
        values = {"model": "llama", "tokens": [p.text.decode() for p in model.pieces], "scores": [p.score for p in model.pieces]}
        values |= {"token_type": [p.kind for p in model.pieces], "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0}
        g = gguf.from_gguf({f"tokenizer.ggml.{k}": v for k, v in values.items()}, 1000)
        g.added = [a for a in g.added if a.content != "<unk>"]  # llama.cpp parses it, SentencePiece does not
        self.assertEqual(section.section(g), section.section(t))

    def test_gguf_bytes(self):
        made = level_json(pattern=patterns.LLAMA3, ignore_merges=True, before=[("<|endoftext|>", len(RANKS))])
        want = from_json(made, "", {"bos_token": "<|endoftext|>"})
        tokens = [*made["model"]["vocab"], "<|endoftext|>"]
        values = {"model": "gpt2", "pre": "llama-bpe", "tokens": tokens, "bos_token_id": len(RANKS)}
        values |= {"token_type": [1] * len(RANKS) + [3], "merges": [" ".join(m) for m in made["model"]["merges"]]}
        got = gguf.from_gguf({f"tokenizer.ggml.{k}": v for k, v in values.items()}, None)
        self.assertEqual(section.section(got), section.section(want))
        for name, want in gguf.GGUF_PATTERNS.items():
            got = gguf.from_gguf({f"tokenizer.ggml.{k}": v for k, v in (values | {"pre": name}).items()}, None)
            want = from_json(byte_level_json(made["model"]["vocab"], made["model"]["merges"], added=made["added_tokens"], **want), "")
            self.assertEqual((got.pre, got.ignore_merges), (want.pre, want.ignore_merges))
        plain = gguf.from_gguf({f"tokenizer.ggml.{k}": v for k, v in values.items() if k != "pre"}, None)
        self.assertEqual([step["pattern"] for step in plain.pre], patterns.LLAMA_CPP_DEFAULT)
        with self.assertRaisesRegex(ConvertError, "pre-tokenizer 'nonsense'"):
            gguf.from_gguf({f"tokenizer.ggml.{k}": v for k, v in (values | {"pre": "nonsense"}).items()}, None)

    def test_gguf_bytes_whose_special_tokens_come_first(self):
        """Falcon's, StarCoder's and GPT-NeoX's: the reference, whose ids the file tests itself by, has the file's ids."""
        made = level_json(pattern=None)
        special = ["<|endoftext|>", "<fim>", "<pad>"]
        tokens = [*special, *made["model"]["vocab"], "<unused>", "<user>", "</s>"]
        types = [3, 3, 3] + [1] * len(RANKS) + [5, 4, 3]
        values = {"model": "gpt2", "tokens": tokens, "token_type": types, "bos_token_id": 0, "eos_token_id": 0}
        values |= {"merges": [" ".join(m) for m in made["model"]["merges"]]}
        for pre in ("falcon", "starcoder", "mpt", "tekken"):
            t = gguf.from_gguf({f"tokenizer.ggml.{k}": v for k, v in (values | {"pre": pre}).items()}, None)
            for i in (0, 1, 2, len(tokens) - 2, len(tokens) - 1):
                self.assertEqual(t.reference.encode(f"a{tokens[i]}b", True), [3 + ord("a"), i, 3 + ord("b")])
            self.assertEqual(sorted(a.id for a in t.added), [0, 1, 2, len(tokens) - 2, len(tokens) - 1])
            engine, report = tokenizer_check.Engine(section.section(t)), tokenizer_check.Report()
            self.addCleanup(engine.close)
            tokenizer_check.compare(t, engine, 300, 1, report)
            self.assertEqual((report.differ, report.compared > 1000), (0, True))

    def test_gguf_of_gemma4(self):
        """What llama.cpp's rules give is what the package gives for the model's own tokenizer.json, which cuts nothing: no merge
        goes beyond the end of a line."""
        first = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{b:02X}>" for b in range(256))]
        package = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        package.normalizer = tokenizers.normalizers.Replace(" ", "\u2581")
        package.pre_tokenizer = tokenizers.pre_tokenizers.Split("\n", "contiguous")
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=900, special_tokens=first, show_progress=False)
        package.train_from_iterator(vocabularies.corpus(), trainer)
        made = json.loads(package.to_str()) | {"pre_tokenizer": None}
        made["added_tokens"] = [a for a in made["added_tokens"] if a["id"] < 4]
        package = tokenizers.Tokenizer.from_str(json.dumps(made))
        tokens = sorted(made["model"]["vocab"], key=made["model"]["vocab"].get) + ["<|tool_call>"]
        types = [3, 3, 3, 2] + [6] * 256 + [1] * (len(tokens) - 261) + [4]
        values = {"model": "gemma4", "tokens": tokens, "token_type": types, "scores": [0.0] * len(tokens), "bos_token_id": 2,
                  "eos_token_id": 1, "unknown_token_id": 3, "merges": [" ".join(m) for m in made["model"]["merges"]],
                  "add_space_prefix": False, "add_bos_token": True}  # fmt: skip
        t = gguf.from_gguf({f"tokenizer.ggml.{k}": v for k, v in values.items()}, None)
        engine, report = tokenizer_check.Engine(section.section(t)), tokenizer_check.Report()
        self.addCleanup(engine.close)
        tokenizer_check.compare(t, engine, 500, 1, report)
        self.assertEqual((report.differ, report.compared > 2000), (0, True))
        self.assertEqual((t.before, [a.id for a in t.added if not a.flags & 1]), ([2], [len(tokens) - 1]))
        for text in ("The cat\n\n\nsat  on\n it. \n", " 10 caf\u00e9 \U0001f9ff", "a\n\n\n\n\n b"):
            self.assertEqual(engine.encode(text.encode(), False), package.encode(text, add_special_tokens=False).ids)
            self.assertEqual(engine.decode(package.encode(text, add_special_tokens=False).ids), text)

    def test_normalizers_of_home_made_models(self):
        """Ids and texts of the package, on hard strings, with an added token that is normalized too."""
        kinds = [{"type": name} for name in ("Lowercase", "StripAccents", "NFKC", "NFD", "NFKD")]
        for normalizer in (*kinds, {"type": "Sequence", "normalizers": [kinds[2], kinds[0], kinds[1]]}):
            made = level_json(pattern=patterns.GPT2) | {"normalizer": normalizer}
            made["added_tokens"].append(added_entry(len(RANKS) + 1, "\ufb01\u00c9x", False, normalized=True))
            t, report = from_json(made, ""), tokenizer_check.Report()
            engine = tokenizer_check.Engine(section.section(t))
            self.addCleanup(engine.close)
            tokenizer_check.compare(t, engine, 500, 1, report)
            self.assertEqual((report.differ, report.compared > 2000), (0, True), normalizer)
        self.assertLess(len(section.section(from_json(level_json(pattern=None) | {"normalizer": kinds[2]}, ""))), 150000)

    def test_scripts_before_bytes(self):
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        steps = {"type": "Sequence", "pretokenizers": [{"type": "UnicodeScripts"}, level]}
        t, report = from_json(level_json(pattern=None) | {"pre_tokenizer": steps}, ""), tokenizer_check.Report()
        self.assertEqual([step["step"] for step in t.pre], ["scripts", "split"])
        engine = tokenizer_check.Engine(section.section(t))
        self.addCleanup(engine.close)
        self.assertEqual(engine.encode(b" 12 the", False), t.reference.encode("12 the", False))  # the first space is lost
        tokenizer_check.compare(t, engine, 500, 1, report)
        self.assertEqual((report.differ, report.compared > 2000), (0, True))

    def test_an_added_token_with_an_id_that_the_package_does_not_give(self):
        made = level_json(pattern=None)
        made["added_tokens"][0]["id"] = 400
        with self.assertRaisesRegex(ConvertError, "'<|endoftext|>' has the id 400, but the tokenizers package gives it 268"):
            from_json(made, "x")

    def test_gguf_unigram(self):
        model = spm_model()
        model.model_type = spf.UNIGRAM
        model.charsmap = charsmap_blob({b"a": b"the", b"ab": b""})
        t = read.read(self.write("tokenizer.model", spf.serialize(model)))
        self.assertEqual((t.kind, t.f32_sums, t.log_probs[-1], t.normalizer[1]["step"]), ("unigram", True, -19.0, "charsmap"))
        self.assertEqual((t.normalizer[1]["from.bytes"], t.normalizer[1]["to.lengths"]), (b"aab", keys.U32s([3, 0])))
        values = {"model": "t5", "tokens": [p.text.decode() for p in model.pieces], "scores": [p.score for p in model.pieces]}
        values |= {"token_type": [p.kind for p in model.pieces], "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0}
        values |= {"precompiled_charsmap": list(model.charsmap), "add_space_prefix": True, "add_bos_token": True, "add_eos_token": False}
        g = gguf.from_gguf({f"tokenizer.ggml.{k}": v for k, v in values.items()}, 1000)
        g.added = [a for a in g.added if a.content != "<unk>"]
        self.assertEqual(section.section(g), section.section(t))

    def test_no_tokenizer(self):
        self.assertIsNone(read.from_huggingface(self.folder, None, 10))
        self.assertIsNone(gguf.from_gguf({}, 10))
        self.assertEqual(section.section(None), keys.pack({}))
        self.assertIsNone(vectors.vectors(None))

    def test_too_many_tokens(self):
        self.write("tokenizer.json", level_json(pattern=None))
        with self.assertRaisesRegex(ConvertError, f"{len(RANKS) + 1} tokens.*has 10 rows"):
            read.from_huggingface(self.folder, None, 10)

    def test_vectors_hold_both_modes(self):
        t = read.read(self.write("tokenizer.json", level_json(pattern=None)))
        v = vectors.vectors(t)
        self.assertEqual(len(v["text.lengths"]), len(v["plain.lengths"]))
        self.assertGreater(len(v["text.lengths"]), 190)
        self.assertIn(len(RANKS), v["parse.ids"])
        self.assertNotIn(len(RANKS), v["plain.ids"])
        self.assertEqual(len(vectors.FIXED), len(set(vectors.FIXED)))


class StatedTokens(Folder):
    """Added tokens that small files state beside a tokenizer. The ids are those of transformers 5.23's AutoTokenizer."""

    TOKENS = {
        "269": {"content": "<a>", "rstrip": True, "special": True},
        "270": {"content": "<b>", "normalized": True},
        "271": {"content": "<c>", "single_word": True, "lstrip": True, "special": True},
    }
    LLAMA = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}

    def setUp(self):
        super().setUp()
        self.write("tokenizer.model", spf.serialize(spm_model()))

    def read(self, config: dict, rows: int = 1000) -> tokenizer.Tokenizer:
        self.write("tokenizer_config.json", self.LLAMA | config)
        return read.from_huggingface(self.folder, None, rows)

    def same(self, t: tokenizer.Tokenizer, texts: dict[str, list[int]]) -> None:
        """The engine gives these ids, and those of the reference packages for hard strings."""
        engine = check_tokenizer.Engine(section.section(t))
        self.addCleanup(engine.close)
        for text, ids in texts.items():
            self.assertEqual(engine.encode(text.encode(), True), ids, text)
        report = check_tokenizer.Report()
        check_tokenizer.compare(t, engine, 300, 7, report)
        self.assertEqual(report.differ, 0)

    def test_flags_and_prefix(self):
        stated = {"added_tokens_decoder": {i: {"normalized": False} | entry for i, entry in self.TOKENS.items()}}
        glued = {"the<a> the<b>the": [267, 269, 263, 262, 270, 263, 262], "<a>the": [269, 263, 262]}
        for config, texts in (
            ({"legacy": True}, {"the<a> the<b>the": [267, 269, 267, 270, 267], "<a>the": [269, 267]}),
            ({"legacy": False}, glued | {"t <c> t<c>": [265, 271, 265, 63, 102, 65]}),
            ({}, glued),
            ({"add_prefix_space": False}, glued | {"the<a> the<b>the": [263, 262, 269, 263, 262, 270, 263, 262]}),
        ):
            with self.subTest(config):
                self.same(self.read(config | stated), texts)

    def test_plain_mode_finds_those_that_are_not_special(self):
        t = self.read({"legacy": True, "added_tokens_decoder": {"269": {"content": "<a>", "special": True}, "270": {"content": "<b>"}}})
        self.same(t, {"<a><b>the": [269, 270, 267]})
        self.assertEqual(t.reference.encode("<b>the", False), [270, 267])
        self.assertNotIn(269, t.reference.encode("<a>", False))

    def test_bos_and_eos(self):
        for config, before, after in (({}, [1], []), ({"add_bos_token": False, "add_eos_token": True}, [], [2]), ({"bos_token": None}, [], [])):
            t = self.read(config)
            self.assertEqual((t.before, t.after), (before, after), config)
        t = self.read({"eos_token": "<e>", "pad_token": {"content": "<p>"}, "add_eos_token": True, "added_tokens_decoder": self.TOKENS})
        self.assertEqual((t.eos, t.after, t.tokens[272:]), (272, [272], [b"<e>", b"<p>"]))

    def test_older_files(self):
        self.write("added_tokens.json", {"<a>": 270, "<e>": 269})
        self.write("special_tokens_map.json", {"eos_token": {"content": "<e>", "normalized": False}})
        t = self.read({})
        self.assertEqual((t.eos, len(t.tokens)), (269, 271))
        self.assertEqual([a.flags for a in t.added if a.id > 268], [1, 0])
        self.same(t, {"the<a>the<e>the": [267, 270, 263, 262, 269, 263, 262]})
        self.write("added_tokens.json", [])
        with self.assertRaisesRegex(ConvertError, "added_tokens.json is not a JSON object"):
            self.read({})

    def test_special_pieces_of_the_model(self):
        model = spm_model()
        model.pieces += [spf.Piece(b"<turn>", 0.0, spf.USER), spf.Piece(b"<x>", 0.0, spf.CONTROL)]
        self.write("tokenizer.model", spf.serialize(model))
        entries = {"269": {"content": "<turn>", "special": True}, "270": {"content": "<x>", "special": False, "normalized": False}}
        t = self.read({"legacy": True, "added_tokens_decoder": entries})
        self.same(t, {"<turn>t": [269, 265], "<x>t": [270, 265]})
        self.assertNotIn(269, t.reference.encode("<turn>", False))
        self.assertIn(270, t.reference.encode("<x>", False))

    def test_beside_tokenizer_json(self):
        self.write("tokenizer.json", level_json(pattern=patterns.QWEN2))
        n = len(RANKS) + 1
        names = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<x>", "unk_token": "<none>"}
        t = self.read(names | {"added_tokens_decoder": {str(n): {"content": "<x>", "special": True}}})
        self.same(t, {"a<x>": [97, n]})
        self.assertEqual((t.eos, len(t.tokens)), (n, n + 1))

    def test_beyond_the_rows(self):
        t = self.read({"added_tokens_decoder": self.TOKENS}, 270)
        self.assertEqual((len(t.tokens), len(t.notes)), (270, 2))
        self.assertRegex(t.notes[0], r"added token '<b>' \(270\) is left out, as the model has 270 rows")
        self.assertNotIn("<b>", [a.content for a in t.added])

    def test_a_text_stated_twice_is_one_token(self):
        for extra in (["<z>", "<z>", "<y>"], {"image_token": "<z>", "boi_token": "<z>", "eoi_token": "<y>"}):
            t = self.read({"extra_special_tokens": extra})
            self.assertEqual(t.tokens[269:], [b"<z>", b"<y>"])
            self.same(t, {"<z>the<y>": [269, 263, 262, 270]})

    def test_refused_by_name(self):
        a, late = {"content": "<a>"}, {"content": "<a>>", "normalized": False}
        for config, word in (
            ({"added_tokens_decoder": {"271": a}}, "'<a>' has the id 271, but 269 is the next that is free"),
            ({"added_tokens_decoder": {"5": {"content": "<s>"}}}, "'<s>' has the id 5, but 1 is that token's"),
            ({"added_tokens_decoder": {"269": a, "270": late}}, "'<a>' is normalized and overlaps with '<a>>'"),
            ({"added_tokens_decoder": []}, "added_tokens_decoder is not an object"),
            ({"added_tokens_decoder": {"x": a}}, "names the id 'x'"),
            ({"added_tokens_decoder": {"269": "<a>"}}, "added_tokens_decoder.269 is '<a>'; it must be an object"),
            ({"added_tokens_decoder": {"269": {}}}, "it must be a token's text"),
            ({"added_tokens_decoder": {"269": a | {"lstrip": 1}}}, "lstrip of '<a>' is 1; it must be true or false"),
            ({"additional_special_tokens": "<a>"}, "additional_special_tokens is not a list"),
            ({"added_tokens_decoder": {"269": a, "270": a}}, "'<a>' has the id 270, but 269 is that token's already"),
            ({"add_bos_token": "no"}, "tokenizer_config.json: add_bos_token is 'no'"),
            ({"eos_token": 3}, "eos_token is 3"),
        ):
            with self.subTest(config), self.assertRaisesRegex(ConvertError, word):
                self.read(config)


class Refusals(Folder):
    def refuse(self, word: str, **changes) -> None:
        data = copy.deepcopy(level_json(pattern=patterns.LLAMA3))
        for path, value in changes.items():
            *way, last = path.split("__")
            node = data
            for step in way:
                node = node[step]
            node[last] = value
        with self.assertRaises(ConvertError) as caught:
            from_json(data, "it")
        self.assertIn(word, str(caught.exception))

    def test_by_name(self):
        regex = {"type": "Split", "pattern": {"Regex": "\\p{Han}+"}, "behavior": "Isolated", "invert": False}
        level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
        self.refuse("WordPiece", model__type="WordPiece")
        self.refuse("without unk_id", model={"type": "Unigram", "vocab": [["a", -1.0]]}, pre_tokenizer=None, decoder={"type": "Fuse"})
        self.refuse("dropout", model__dropout=0.1)
        self.refuse("end_of_word_suffix", model__end_of_word_suffix="</w>")
        self.refuse("'Nmt'", normalizer={"type": "Nmt"})
        self.refuse("\\\\s+", normalizer={"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "})
        self.refuse("Han", pre_tokenizer={"type": "Sequence", "pretokenizers": [regex, level]})
        self.refuse("'Punctuation' after", pre_tokenizer={"type": "Sequence", "pretokenizers": [level, {"type": "Punctuation"}]})
        self.refuse("'UnicodeScripts' after", pre_tokenizer={"type": "Sequence", "pretokenizers": [level, {"type": "UnicodeScripts"}]})
        self.refuse("'CharDelimiterSplit'", pre_tokenizer={"type": "CharDelimiterSplit", "delimiter": "-"})
        self.refuse("ByteLevel must be", decoder=None)
        words = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
        self.refuse("unknown token '<nope>'", model=words | {"unk_token": "<nope>"}, pre_tokenizer=None, decoder=None)
        self.refuse("WordLevel model with ByteLevel", model=words)
        self.refuse("ByteLevel must be", decoder={"type": "Fuse"})
        self.refuse("'Strip'", decoder={"type": "Sequence", "decoders": [level, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})
        self.refuse("WordPiece", decoder={"type": "Sequence", "decoders": [level, {"type": "WordPiece"}]})
        self.refuse("post-processor", post_processor={"type": "Odd"})
        self.refuse("merge 0", model__merges=["a"])
        self.refuse("unknown token", model__unk_token="<nope>")
        self.refuse("of another token", added_tokens=[added_entry(5, "<x>", True)])

    def test_sentencepiece(self):
        for word, changes in (
            ("model type 3", {"model_type": 3}),
            ("precompiled_charsmap is cut", {"charsmap": b"x"}),
            ("precompiled_charsmap is cut", {"charsmap": struct.pack("<3I", 4, 0, 0)}),
            ("user-defined pieces with a precompiled", {"charsmap": b"x", "pieces": [spf.Piece(b"a", 0.0, spf.USER)]}),
            ("treat_whitespace_as_suffix", {"whitespace_as_suffix": True}),
            ("escape_whitespaces", {"escape_whitespaces": False}),
        ):
            model = spm_model()
            for name, value in changes.items():
                setattr(model, name, value)
            with self.assertRaisesRegex(ConvertError, word):
                read.read(self.write("tokenizer.model", spf.serialize(model)))

    def test_broken_files(self):
        for name, data, word in (
            ("tokenizer.json", b"{", "not JSON"),
            ("tokenizer.json", b"{}", "damaged"),
            ("tokenizer.json", b'{"model": {"type": "BPE", "vocab": 3}, "decoder": {"type": "ByteLevel"}}', "ByteLevel must"),
            ("tokenizer.json", b'{"model": {"type": "BPE", "vocab": 3}, "decoder": {"type": "Fuse"}}', "damaged"),
            ("tokenizer.model", b"\n\5\n\1\xff\x18\3\x12\2\x18\2", "damaged"),
            ("tokenizer.model", b"\n\xff\xff\xff", "cut or broken"),
            ("tokenizer.model", b"\n\2\x10\0", "cut or broken"),
            ("tokenizer.model", b"\n\2\x08\0", "cut or broken"),
            ("tokenizer.model", b"\n\5\n\1a\x18\t", "tokenizer.model is cut or broken"),
            ("tokenizer.model", b"\n\3\n\1a\x12\2\x18\t", "cut or broken"),
            ("tokenizer.model", b"\n\x08\n\1a\x15\0\0\x80\x7f", "cut or broken"),
            ("tokenizer.model", b"\n\3\n\1a\x12\3\xc2\x02\0", "cut or broken"),
            ("tokenizer.model", b"\n\3\n\1a\x12\5\x18", "cut or broken"),
            ("tokenizer.model", b"IQ== 0\nIg== 2\n", "ranks are not 0 to 1"),
            ("tokenizer.model", b"IQ== 0\nnonsense\n", "line 2"),
            ("tokenizer.model", b"what", "no tokenizer that is known"),
        ):
            with self.subTest(data), self.assertRaisesRegex(ConvertError, word):
                read.read(self.write(name, data))
        whole = struct.pack("<i", 5) + struct.pack("<fi", 0.0, 5) + b"<unk>"
        for data, word in ((whole[:-1], "does not hold"), (whole, "ends at token 1"), (struct.pack("<ifi", 5, 0.0, -1), "-1 bytes")):
            with self.subTest(data), self.assertRaisesRegex(ConvertError, word):
                llama2c.from_llama2c(self.write("tokenizer.bin", data), 2)


def replace_by(count: int, character: str = "a") -> dict:
    return {"type": "Replace", "pattern": {"String": character}, "content": "a" * count}


def sequence(*steps: dict) -> dict:
    return {"type": "Sequence", "normalizers": list(steps)}


def metaspace(scheme: str) -> dict:
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": True}


class Growth(Folder):
    """Steps that multiply are refused before the package, which has no limit, is given a text."""

    def made(self, normalizer: dict | None, pre: dict | None = None, **token) -> tokenizer.Tokenizer:
        data = level_json(pattern=None) | {"normalizer": normalizer}
        if pre:
            data |= {"pre_tokenizer": pre, "decoder": {"type": "Fuse"}}
        data["added_tokens"] += [added_entry(len(RANKS) + 1, **token)] if token else []
        return from_json(data, "it")

    def refuse(self, normalizer: dict, pre: dict | None = None) -> None:
        with unittest.mock.patch.object(TokenizersReference, "__init__", side_effect=AssertionError("the package is at work")):
            with self.assertRaisesRegex(ConvertError, "more than 32 times as long"):
                self.made(normalizer, pre)

    def test_every_step_that_makes_texts_longer(self):
        runs = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "a" * 33}
        for steps in (
            [replace_by(256)] * 3,
            [replace_by(200)] * 2,
            [replace_by(33)],
            [replace_by(65, "\u00e9")],
            [replace_by(40, "ab")],
            [{"type": "NFKC"}, replace_by(32, "\u0644")],
            [{"type": "Lowercase"}, replace_by(33)],
            [{"type": "NFC"}, replace_by(99, "\u00e9")],  # of e and its accent
            [runs],
            [{"type": "Prepend", "prepend": "b" * 256}] * 16 + [replace_by(256, "b")],
        ):
            with self.subTest(steps[0]):
                self.refuse(sequence(*steps))
        self.refuse(sequence(replace_by(31)), metaspace("always"))
        self.refuse(sequence(replace_by(12, "a"), replace_by(4, "a")), metaspace("first"))

    def test_what_is_allowed(self):
        self.made(replace_by(32))
        nfkc, block = {"type": "NFKC"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
        for scheme in ("always", "first", "never"):
            self.made(sequence(nfkc, {"type": "Lowercase"}, {"type": "StripAccents"}), metaspace(scheme))
        self.made(sequence(nfkc, {"type": "Prepend", "prepend": "\u2581"}, block), metaspace("always"))

    def test_an_empty_text(self):
        with self.assertRaisesRegex(ConvertError, "replaces an empty text"):
            self.made(replace_by(2, ""))

    def test_added_tokens(self):
        with self.assertRaisesRegex(ConvertError, "has 1056 bytes"):
            self.made(replace_by(32), content="a" * 33, special=False, normalized=True)
        with self.assertRaisesRegex(ConvertError, "has 1025 bytes"):
            self.made(None, content="a" * 1025, special=False, normalized=False)
        self.made(replace_by(32), content="a" * 32, special=False, normalized=True)

    def test_sentencepiece(self):
        for count, word in ((30, "32 times"), (129, "more than 128 bytes")):  # and the prefix
            model = spm_model()
            model.charsmap = charsmap_blob({b"a": b"e" * count})
            with self.assertRaisesRegex(ConvertError, word):
                read.read(self.write("tokenizer.model", spf.serialize(model)))
        model.charsmap = charsmap_blob({b"a": b"e" * 29})
        read.read(self.write("tokenizer.model", spf.serialize(model)))

    def test_no_text_becomes_longer_than_the_bound(self):
        rng, letters = random.Random(1), "ae\u00e9\u0301\u00c5\u212b\ufb01\ufdfa\uac01\u1100\U0001d160 \u2581"
        names, close = ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"), 0
        for _ in range(60):
            steps = []
            for kind in rng.choices((*names, "Replace", "Replace", "Prepend"), k=rng.randint(1, 4)):
                some = ["".join(rng.choices(letters, k=rng.randint(1, 3))) for _ in range(2)]
                more = {"pattern": {"String": some[0]}, "content": some[1]} if kind == "Replace" else {}
                steps.append({"type": kind, "prepend": some[0]} | more)
            with unittest.mock.patch.object(growth, "GROWTH", 1 << 30):
                t = self.made(sequence(*steps))
            bound = growth.bound_of(t.normalizer)
            for text in [*letters, *("".join(rng.choices(letters, k=9)) for _ in range(20))]:
                got = len(t.reference.tokenizer.normalizer.normalize_str(text).encode())
                self.assertLessEqual(got, bound.of(text) + bound.once, (steps, text))
                close += got == bound.of(text) + bound.once
        self.assertGreater(close, 50)  # the bound is reached

    def test_long_test_vectors_are_left_out(self):
        long = ["a" * 1024, "a" * 1025]
        v = vectors.vectors(self.made(None), long)
        self.assertEqual(len(v["text.lengths"]), 1 + len(vectors.vectors(self.made(None))["text.lengths"]))
        self.assertEqual(max(v["plain.lengths"]), 1024)


class Swallowed(Folder):
    """Whitespace that is an added token itself, after one that strips: the ids are those of tokenizers 0.23.3, which
    drops it where it strips on its left, and else gives it too."""

    def test_after_rstrip(self):
        n = len(RANKS)
        for flags, want in (({"lstrip": True}, [97, n, 98]), ({}, [97, n, n + 1, 98]), ({"lstrip": True, "rstrip": True}, [97, n, 98])):
            made = level_json(pattern=patterns.QWEN2)
            made["added_tokens"] = [added_entry(n, "<x>", False, rstrip=True), added_entry(n + 1, "\t", False, **flags)]
            t = read.read(self.write("tokenizer.json", made))
            engine = check_tokenizer.Engine(section.section(t))
            self.addCleanup(engine.close)
            for text in ("a<x>\tb", "a<x> \tb"):
                with self.subTest(flags, text=text):
                    self.assertEqual(t.reference.encode(text, True), want)
                    self.assertEqual(engine.encode(text.encode(), True), want)


class Check(Folder):
    def test_engine_and_package_agree(self):
        path = self.write("tokenizer.json", level_json(pattern=patterns.QWEN2, nfc=True))
        options = check_tokenizer.argparse.Namespace(path=path, source=None, strings=200, seed=3, vectors=None)
        self.assertEqual(check_tokenizer.run(options), 0)

    def test_a_difference_is_seen(self):
        path = self.write("tokenizer.json", level_json(pattern=patterns.QWEN2))
        t = check_tokenizer.load(path)
        t.pre[0]["pattern"] = patterns.LLAMA3
        report = check_tokenizer.Report()
        tokenizer_check.SHOWN = 0
        engine = check_tokenizer.Engine(section.section(t))
        check_tokenizer.compare(t, engine, 50, 1, report)
        engine.close()
        self.assertGreater(report.differ, 0)


if __name__ == "__main__":
    unittest.main()
