"""Tests of tools/convert.py: makes tiny sources of every format, converts them, and reads the result back.

Nothing from outside the repository is needed, no network, no PyTorch. Expected values come from the
packages that define the formats (safetensors, gguf) and from plain numpy, not from the converter.
"""

import contextlib
import io
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

import gguf
import numpy as np
import safetensors
import safetensors.numpy
import tokenizers
import xxhash

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

import convert  # noqa: E402
import gguf_writer  # noqa: E402
import test_golden_convert as golden_convert  # noqa: E402
from ternlib import compare, golden_file, gguf_families, gguf_types, layouts, rope, settings, source, tiles, weights  # noqa: E402
from ternlib.errors import ConvertError  # noqa: E402
from ternlib.reader import WeightsFile  # noqa: E402

HF, GG = layouts.HUGGINGFACE, gguf_families.NAMES
SMALL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 300, "hidden_size": 48,
    "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
    "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0,
    "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False, "torch_dtype": "float32",
}  # fmt: skip


def shapes(c: dict, biases: str = "") -> dict[str, tuple[int, ...]]:
    """Our tensor names and their shapes in a Hugging Face file, written out for the tests."""
    d, h, hd = (
        c["hidden_size"],
        c["intermediate_size"],
        c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"],
    )
    q, kv = c["num_attention_heads"] * hd, c["num_key_value_heads"] * hd
    rows = {"q": q, "k": kv, "v": kv, "o": d, "gate": h, "up": h, "down": d}
    out = {"embed": (c["vocab_size"], d)}
    for i in range(c["num_hidden_layers"]):
        at = f"layer.{i}."
        out |= {at + "attn_norm": (d,), at + "ffn_norm": (d,)}
        for part, n in rows.items():
            out[at + part] = (n, {"o": q, "down": h}.get(part, d))
            if part in biases.split():
                out[f"{at}{part}_bias"] = (n,)
    out["final_norm"] = (d,)
    if not c["tie_word_embeddings"]:
        out["head"] = (c["vocab_size"], d)
    return out


def tensors(c: dict, biases: str = "", seed: int = 1) -> dict[str, np.ndarray]:
    """Random f32 values that f16 and bf16 hold exactly."""
    rng = np.random.default_rng(seed)
    return {n: (rng.integers(-120, 121, s) / 64).astype("f4") for n, s in shapes(c, biases).items()}


def bf16(x: np.ndarray) -> np.ndarray:
    return (x.view("u4") >> 16).astype("<u2")


def safetensors_file(path: Path, values: dict[str, np.ndarray], dtype: str = "float32") -> None:
    """Written by the safetensors package."""
    stored = {n: bf16(x) if dtype == "bfloat16" else np.ascontiguousarray(x, dtype) for n, x in values.items()}
    spec = {
        n: safetensors.TensorSpec(dtype=dtype, shape=values[n].shape, data_ptr=x.ctypes.data, data_len=x.nbytes)
        for n, x in stored.items()
    }
    path.write_bytes(safetensors.serialize(spec))


def tokenizer_json(path: Path, n: int = 300) -> None:
    """A byte-level BPE of n tokens at most, with <s> and </s> as 1 and 2."""
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for letter in sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()):
        vocab[letter] = len(vocab)
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the")]
    for a, b in merges:
        vocab[a + b] = len(vocab)
    t = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=merges))
    t.add_special_tokens([tokenizers.AddedToken(s, special=True) for s in ("<unk>", "<s>", "</s>")])
    t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = tokenizers.decoders.ByteLevel()
    assert len(vocab) <= n
    t.save(str(path))


def huggingface(folder: Path, c: dict, values: dict[str, np.ndarray], dtype: str = "float32", shards: int = 1) -> Path:
    """A directory as transformers writes it."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(c))
    tokenizer_json(folder / "tokenizer.json")
    named = {layouts.source_name(HF, n): x for n, x in values.items()}
    if shards == 1:
        safetensors_file(folder / "model.safetensors", named, dtype)
        return folder
    places = {}
    for i in range(shards):
        part = dict(list(named.items())[i::shards])
        name = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        safetensors_file(folder / name, part, dtype)
        places |= dict.fromkeys(part, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


def interleaved(x: np.ndarray, head_dim: int) -> np.ndarray:
    """Rows of half-split heads as llama2.c and llama.cpp store them (llama.cpp's `permute`)."""
    heads = len(x) // head_dim
    return x.reshape(heads, 2, head_dim // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def turned(name: str) -> bool:
    return name.split(".")[-1] in ("q", "k", "q_bias", "k_bias")


def tokenizer_bin(path: Path, n: int = 300) -> Path:
    """llama2.c's format: longest piece, then score, length and bytes of each."""
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n"] + [b"<0x%02X>" % i for i in range(256)]
    pieces += [b" ", b"t", b"h", b"e", b"a", b"th", b"the", b" the"]
    pieces += [b"w%d" % i for i in range(n - len(pieces))]
    body = b"".join(struct.pack("<fi", -float(i), len(p)) + p for i, p in enumerate(pieces[:n]))
    path.write_bytes(struct.pack("<i", max(map(len, pieces))) + body)
    return path


def llama2c(path: Path, c: dict, values: dict[str, np.ndarray], version: int) -> Path:
    """A checkpoint as llama2.c's export.py writes it."""
    d, heads, vocab = c["hidden_size"], c["num_attention_heads"], c["vocab_size"]
    tied, layers = c["tie_word_embeddings"], range(c["num_hidden_layers"])
    stored = {n: interleaved(x, d // heads) if turned(n) else x for n, x in values.items()}
    sizes = [
        d,
        c["intermediate_size"],
        len(layers),
        heads,
        c["num_key_value_heads"],
        vocab,
        c["max_position_embeddings"],
    ]
    each = {
        p: [stored[f"layer.{i}.{p}"] for i in layers]
        for p in ["attn_norm", "q", "k", "v", "o", "ffn_norm", "gate", "down", "up"]
    }
    if version == 0:
        sizes[5] = vocab if tied else -vocab
        head = struct.pack("<7i", *sizes)
        tables = np.full((2, sizes[6], d // heads // 2), 0.5, "f4")
        body = [stored["embed"], *each["attn_norm"], *each["q"], *each["k"], *each["v"], *each["o"], *each["ffn_norm"]]
        body += [*each["gate"], *each["down"], *each["up"], stored["final_norm"], tables]
    else:
        head = struct.pack("<Ii7iB", 0x616B3432, 1, *sizes, int(tied)).ljust(256, b"\0")
        body = [*each["attn_norm"], *each["ffn_norm"], stored["final_norm"], stored["embed"]]
        body += [x for p in ["q", "k", "v", "o", "gate", "down", "up"] for x in each[p]]
    body += [] if tied else [stored["head"]]
    path.write_bytes(head + b"".join(np.ascontiguousarray(x, "<f4").tobytes() for x in body))
    return path


def version2(path: Path, c: dict, values: dict, group: int, scale) -> dict[str, np.ndarray]:
    """Writes a file as llama2.c's export.py does in version 2; `scale` gives the scale of a group from its largest
    weight. Returns the values that the file holds."""
    layers, held = range(c["num_hidden_layers"]), dict(values)
    body = [values[f"layer.{i}.attn_norm"] for i in layers] + [values[f"layer.{i}.ffn_norm"] for i in layers]
    body.append(values["final_norm"])
    order = ["embed"] + [f"layer.{i}.{p}" for p in ("q", "k", "v", "o", "gate", "down", "up") for i in layers]
    for name in order + ([] if c["tie_word_embeddings"] else ["head"]):
        x = interleaved(values[name], c["hidden_size"] // c["num_attention_heads"]) if turned(name) else values[name]
        groups = x.reshape(-1, group)
        scales = scale(np.abs(groups).max(axis=1)).astype("<f4")
        q = np.rint(groups / scales[:, None]).clip(-127, 127).astype("i1")
        body += [q, scales]
        back = (q.astype("f4") * scales[:, None]).reshape(x.shape)
        if turned(name):
            d = c["hidden_size"] // c["num_attention_heads"]
            back = back.reshape(len(x) // d, d // 2, 2, -1).swapaxes(1, 2).reshape(x.shape)
        held[name] = back
    sizes = [c[n] for n in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                            "num_key_value_heads", "vocab_size", "max_position_embeddings")]  # fmt: skip
    head = struct.pack("<Ii7iBi", 0x616B3432, 2, *sizes, int(c["tie_word_embeddings"]), group).ljust(256, b"\0")
    path.write_bytes(head + b"".join(x.astype("<f4").tobytes() if x.dtype != np.int8 else x.tobytes() for x in body))
    return held


def gguf_model(
    path: Path, c: dict, values: dict[str, np.ndarray], quant: str = "F32", arch: str = "llama", divisors=None, extra=()
) -> tuple[Path, dict[str, np.ndarray]]:
    """A file written by the gguf package; also the values that it holds, in our layout."""
    kind = gguf.GGMLQuantizationType[quant]
    w = gguf.GGUFWriter(str(path), arch)
    w.add_name("tiny")
    w.add_block_count(c["num_hidden_layers"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_rope_freq_base(c["rope_theta"])
    for add in extra:
        add(w)
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + ["▁", "t", "h", "e", "th", "the"]
    tokens += [f"w{i}" for i in range(c["vocab_size"] - len(tokens))]
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens)
    w.add_token_scores([-float(i) for i in range(len(tokens))])
    w.add_token_types([2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259))
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    held = {}
    head_dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    for name, x in values.items():
        permuted = arch == "llama" and turned(name)
        stored = interleaved(x, head_dim) if permuted else x
        if x.ndim == 1:
            w.add_tensor(layouts.source_name(GG, name), stored)
            held[name] = x
            continue
        data = gguf.quants.quantize(stored, kind)
        w.add_tensor(layouts.source_name(GG, name), data, raw_dtype=kind)
        back = gguf.quants.dequantize(data, kind).reshape(x.shape).astype("f4")
        if permuted:
            heads = len(x) // head_dim
            back = back.reshape(heads, head_dim // 2, 2, -1).swapaxes(1, 2).reshape(x.shape)
        held[name] = back
    if divisors is not None:
        w.add_tensor("rope_freqs.weight", np.asarray(divisors, "f4"))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path, held


def run(*arguments) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of convert.py in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = convert.main([str(a) for a in arguments])
        except SystemExit as e:
            code = e.code
    return code, out.getvalue(), err.getvalue()


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = Path(tempfile.mkdtemp())
        self.out = self.dir / "out.bin"
        self.addCleanup(shutil.rmtree, self.dir)
        # Thousands of files that nobody keeps need not reach the disk.
        self.addCleanup(setattr, os, "fsync", os.fsync)
        os.fsync = self.synced = unittest.mock.Mock()
        # A run program of another build or of a half-finished one must not decide these tests.
        self.addCleanup(setattr, convert, "ROOT", convert.ROOT)
        convert.ROOT = self.dir

    def converted(self, *arguments) -> WeightsFile:
        code, out, err = run(*arguments[:1], self.out, *arguments[1:])
        self.assertEqual((code, err), (0, ""))
        return WeightsFile(self.out)

    def refused(self, *arguments, code: int = 3) -> str:
        """The sentence; nothing is left behind."""
        before = sorted(os.listdir(self.dir))
        got, _, err = run(*arguments[:1], self.out, *arguments[1:])
        self.assertEqual(got, code, err)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertEqual(before, sorted(os.listdir(self.dir)))
        return err

    def same(self, w: WeightsFile, values: dict[str, np.ndarray], kind: int):
        self.assertEqual(list(w.tensors), ordered(values))
        for name, x in values.items():
            np.testing.assert_array_equal(w.values(name), x.reshape(len(x), -1), name)
            self.assertEqual(w.tensors[name]["kind"], tiles.F32 if x.ndim == 1 else kind, name)


def ordered(values: dict) -> list[str]:
    """The directory's order: matrices of a layer before its biases."""
    parts = ["attn_norm", "ffn_norm", "q", "k", "v", "o", "gate", "up", "down"]
    parts += [p + "_bias" for p in ["q", "k", "v", "o", "gate", "up", "down"]]
    layers = 1 + max(int(n.split(".")[1]) for n in values if n.startswith("layer."))
    names = ["embed"] + [f"layer.{i}.{p}" for i in range(layers) for p in parts] + ["final_norm", "head"]
    return [n for n in names if n in values]


class Llama2c(Case):
    def test_both_versions_hold_the_same_model(self):
        for tied in (True, False):
            c = SMALL | {"tie_word_embeddings": tied}
            values = tensors(c)
            tokenizer_bin(self.dir / "tokenizer.bin")
            for version in (0, 1):
                w = self.converted(llama2c(self.dir / "m.bin", c, values, version))
                self.same(w, values, tiles.F32)
                self.assertEqual(w.config["head_tied"], int(tied))
                self.assertEqual(w.config["n_kv_heads"], 2)
                self.assertEqual(w.config["max_seq"], 256)
                self.assertEqual(list(w.keys("generation")["end_tokens"]), [1, 2])

    def test_tokenizer_can_be_named_and_must_be_there(self):
        source = llama2c(self.dir / "m.bin", SMALL, tensors(SMALL), 0)
        self.assertIn("--tokenizer", self.refused(source, code=2))
        self.converted(source, "--tokenizer", tokenizer_bin(self.dir / "other.bin"))

    def test_heads_are_turned_whole_however_small_the_pieces(self):
        c = SMALL | {"num_attention_heads": 2}  # heads of 24 rows do not fit tiles of 16
        values = tensors(c)
        tokenizer_bin(self.dir / "tokenizer.bin")
        with unittest.mock.patch.object(weights, "PIECE_BYTES", 1):
            self.same(self.converted(llama2c(self.dir / "m.bin", c, values, 1)), values, tiles.F32)

    def test_a_cut_or_lengthened_file_is_refused(self):
        source = llama2c(self.dir / "m.bin", SMALL, tensors(SMALL), 1)
        tokenizer_bin(self.dir / "tokenizer.bin")
        whole = source.read_bytes()
        for data in (whole[:-1], whole + b"\0", whole[:200], whole[:3], b"", whole[:256]):
            source.write_bytes(data)
            self.refused(source)

    def test_large_numbers_are_refused_at_once(self):
        source, most = self.dir / "m.bin", (1 << 31) - 1
        for i in range(7):
            for value in (most, -most - 1, 0, 1 << 20):
                sizes = [64, 96, 2, 4, 4, 300, 256]
                sizes[i] = value
                if i != 6 or value != 1 << 20:
                    source.write_bytes(struct.pack("<7i", *sizes) + bytes(64))
                    self.refused(source)

    def test_version_2(self):
        """Scales that f16 has: q8, bit for bit; others, or rows and groups that do not fit: f32, value for value."""
        tokenizer_bin(self.dir / "tokenizer.bin")
        power = lambda m: 2.0 ** np.ceil(np.log2(np.maximum(m, 2.0**-8) / 127))  # noqa: E731
        exact = lambda m: np.maximum(m, 2.0**-8) / 127  # noqa: E731
        c = SMALL | {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
        small = c | {"hidden_size": 48, "intermediate_size": 80}
        for what, shape, group, scale, kind in (
            ("fits", c, 32, power, tiles.Q8), ("larger groups", c, 64, power, tiles.Q8),
            ("own scales", c, 32, exact, tiles.F32), ("small groups", c, 16, power, tiles.F32),
            ("short rows", small, 16, power, tiles.F32), ("groups over rows", small, 96, power, tiles.F32),
            ("tied", c | {"tie_word_embeddings": True}, 32, power, tiles.Q8),
        ):  # fmt: skip
            with self.subTest(what):
                held = version2(self.dir / "m.bin", shape, tensors(shape), group, scale)
                w = self.converted(self.dir / "m.bin")
                self.same(w, held, kind)
                told = run(self.dir / "m.bin", self.out)[1]
                self.assertEqual("kept exactly, as f32" in told, kind == tiles.F32)
                self.same(self.converted(self.dir / "m.bin", "--type", "f32"), held, tiles.F32)

    def test_version_2_with_pieces_of_a_few_rows(self):
        tokenizer_bin(self.dir / "tokenizer.bin")
        c = SMALL | {"hidden_size": 48, "intermediate_size": 96}
        self.addCleanup(setattr, weights, "PIECE_BYTES", weights.PIECE_BYTES)
        weights.PIECE_BYTES = 16 * 48 * 4
        held = version2(self.dir / "m.bin", c, tensors(c), 96, lambda m: np.maximum(m, 2.0**-8) / 127)
        self.same(self.converted(self.dir / "m.bin"), held, tiles.F32)

    def test_version_2_that_lies(self):
        tokenizer_bin(self.dir / "tokenizer.bin")
        version2(self.dir / "m.bin", SMALL, tensors(SMALL), 16, lambda m: np.maximum(m, 1))
        whole = (self.dir / "m.bin").read_bytes()
        for group, said in ((0, "group"), (-5, "group"), (1 << 30, "group"), (7, "whole groups"), (48, "asks for")):
            (self.dir / "m.bin").write_bytes(whole[:37] + struct.pack("<i", group) + whole[41:])
            self.assertIn(said, self.refused(self.dir / "m.bin"))
        (self.dir / "m.bin").write_bytes(whole[:-1])
        self.assertIn("asks for", self.refused(self.dir / "m.bin"))

    def test_other_versions_are_named(self):
        source = self.dir / "m.bin"
        source.write_bytes(struct.pack("<Ii", 0x616B3432, 3).ljust(300, b"\0"))
        self.assertIn("version 3", self.refused(source))


class HuggingFace(Case):
    def test_types_and_shards(self):
        for dtype, kind in (("float32", tiles.F32), ("float16", tiles.F16), ("bfloat16", tiles.BF16)):
            for shards in (1, 3):
                folder = self.dir / f"{dtype}{shards}"
                values = tensors(SMALL)
                w = self.converted(huggingface(folder, SMALL, values, dtype, shards))
                self.same(w, values, kind)

    def test_features_of_llama(self):
        w = self.converted(huggingface(self.dir / "m", SMALL, tensors(SMALL)))
        self.assertEqual(
            {k: v for k, v in w.config.items() if not k.startswith("rope.")},
            {
                "n_layers": 2, "dim": 48, "vocab": 300, "max_seq": 256, "norm_eps": float(np.float32(1e-5)),
                "head_tied": 0, "n_heads": 6, "n_kv_heads": 2, "head_dim": 8, "hidden": 80, "window": 0, "rope_set": 1,
                "attn_scale": float(np.float32(8**-0.5)), "attn_bias": 0, "ffn_bias": 0, "activation": b"silu",
            },
        )  # fmt: skip
        self.assertEqual(w.config["rope.0.factor"], 1.0)
        self.assertEqual(w.config["rope.0.inv_freq"].tolist(), np.array([1, 0.1, 0.01, 0.001], "f4").tolist())

    def test_biases_and_head_dim(self):
        c = SMALL | {"attention_bias": True, "mlp_bias": True, "head_dim": 16}
        values = tensors(c, "q k v o gate up down")
        w = self.converted(huggingface(self.dir / "m", c, values))
        self.same(w, values, tiles.F32)
        self.assertEqual((w.config["attn_bias"], w.config["ffn_bias"], w.config["head_dim"]), (15, 7, 16))

    def test_tied_heads(self):
        c = SMALL | {"tie_word_embeddings": True}
        values = tensors(c)
        self.assertEqual(self.converted(huggingface(self.dir / "a", c, values)).config["head_tied"], 1)
        both = values | {"head": values["embed"]}
        self.assertEqual(self.converted(huggingface(self.dir / "b", c, both)).config["head_tied"], 1)
        differ = values | {"head": values["embed"] + 1}
        w = self.converted(huggingface(self.dir / "c", c, differ))
        self.same(w, differ, tiles.F32)
        only = {n: x for n, x in values.items() if n != "embed"} | {"head": values["embed"]}
        self.same(self.converted(huggingface(self.dir / "d", c, only)), values, tiles.F32)
        self.assertIn("tie_word_embeddings", self.refused(huggingface(self.dir / "e", SMALL, values)))

    def test_windows(self):
        mistral = SMALL | {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 32}
        values = tensors(SMALL)
        self.assertEqual(self.converted(huggingface(self.dir / "a", mistral, values)).config["window"], 32)
        listed = mistral | {"layer_types": ["sliding_attention", "full_attention"]}
        self.assertIn("layer_types", self.refused(huggingface(self.dir / "b", listed, values)))
        none = mistral | {"sliding_window": None}
        self.assertEqual(self.converted(huggingface(self.dir / "b", none, values)).config["window"], 0)
        qwen = SMALL | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "sliding_window": 16}
        qwen |= {"use_sliding_window": True, "max_window_layers": 1}
        biased = tensors(SMALL, "q k v")
        w = self.converted(huggingface(self.dir / "c", qwen, biased))
        self.assertEqual((w.per_layer("window"), w.config["attn_bias"]), ([0, 16], 7))
        self.same(w, biased, tiles.F32)
        listed = qwen | {"layer_types": ["sliding_attention", "full_attention"]}
        self.assertEqual(self.converted(huggingface(self.dir / "d", listed, biased)).per_layer("window"), [16, 0])
        off = qwen | {"use_sliding_window": False}
        self.assertEqual(self.converted(huggingface(self.dir / "e", off, biased)).config["window"], 0)

    def test_old_and_new_spelling_of_rope_agree(self):
        scaling = {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
        old = SMALL | {"rope_theta": 500000.0, "rope_scaling": scaling | {"rope_type": "llama3"}}
        new = {k: v for k, v in SMALL.items() if k not in ("rope_theta", "torch_dtype")} | {"dtype": "float32"}
        new["rope_parameters"] = scaling | {"rope_type": "llama3", "rope_theta": 500000.0}
        values = tensors(SMALL)
        a = self.converted(huggingface(self.dir / "m", old, values)).config["rope.0.inv_freq"]
        b = self.converted(huggingface(self.dir / "m", new, values)).config["rope.0.inv_freq"]
        np.testing.assert_array_equal(a, b)
        # The third and fourth waves are longer than the 64 positions, so they are slowed by 8.
        plain = 500000.0 ** (-np.arange(4) / 4)
        self.assertEqual(a[0], np.float32(1))
        np.testing.assert_allclose(a[2:], plain[2:] / 8, rtol=1e-7)
        old["rope_scaling"] = {"type": "linear", "factor": 4.0}
        c = self.converted(huggingface(self.dir / "m", old, values)).config["rope.0.inv_freq"]
        np.testing.assert_allclose(c, plain / 4, rtol=1e-7)

    def test_generation_defaults_and_licence(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        stated = {
            "do_sample": True,
            "temperature": 0.6,
            "top_p": 0.9,
            "eos_token_id": [2, 7],
            "repetition_penalty": 1.1,
        }
        (folder / "generation_config.json").write_text(json.dumps(stated))
        (folder / "LICENSE").write_text("Be kind.\n")
        w = self.converted(folder)
        g = w.keys("generation")
        self.assertEqual(g["end_tokens"].tolist(), [2, 7])
        self.assertEqual([np.float32(g[k]) for k in ("temperature", "top_p")], [np.float32(0.6), np.float32(0.9)])
        self.assertEqual(np.float32(g["repeat_penalty"]), np.float32(1.1))
        self.assertNotIn("top_k", g)
        (folder / "generation_config.json").write_text('{"eos_token_id": 300, "do_sample": false, "temperature": 0.6}')
        code, out, _ = run(folder, self.out)
        self.assertEqual((code, "300" in out), (0, True))
        g = WeightsFile(self.out).keys("generation")
        self.assertEqual((g["end_tokens"], g["temperature"]), (2, 0.0))
        self.assertEqual(w.keys("provenance")["licence"], b"Be kind.\n")

    def test_unknown_keys_are_refused_by_name(self):
        values = tensors(SMALL)
        for key, value in {
            "logit_scale": 0.5, "rope_interleaved": True, "partial_rotary_factor": 0.5, "hidden_act": "tanh",
            "quantization_config": {"bits": 4}, "layer_types": ["sliding_attention"] * 2, "sliding_window": 7,
        }.items():  # fmt: skip
            self.assertIn(key, self.refused(huggingface(self.dir / "m", SMALL | {key: value}, values)))
        for scaling, word in (
            ({"rope_type": "yarm", "factor": 4.0}, "yarm"),
            ({"type": "dynamic", "factor": 4.0}, "--rope-length"),
            ({"type": "linear", "factor": 4.0, "beta": 1}, "beta"),
            ({"type": "linear"}, "factor"),
        ):
            self.assertIn(word, self.refused(huggingface(self.dir / "m", SMALL | {"rope_scaling": scaling}, values)))
        self.assertIn("gemma9", self.refused(huggingface(self.dir / "m", SMALL | {"model_type": "gemma9"}, values)))

    def test_values_of_keys_are_checked(self):
        values = tensors(SMALL)
        for key, value, word in (
            ("hidden_size", "48", "hidden_size is '48'"),
            ("hidden_size", 50, "hidden_size 50 is not a multiple"),
            ("num_hidden_layers", 0, "num_hidden_layers is 0"),
            ("num_attention_heads", -6, "num_attention_heads is -6"),
            ("num_key_value_heads", 4, "6 heads, which 4 key/value heads do not divide"),
            ("head_dim", 7, "7 of 7 dimensions"),
            ("rms_norm_eps", None, "rms_norm_eps is None"),
            ("vocab_size", 1 << 40, "vocab_size is 1099511627776"),
            ("rope_theta", True, "rope_theta is True"),
            ("rope_parameters", [1], "rope_parameters is [1]"),
            ("eos_token_id", "x", "eos_token_id is 'x'"),
            ("intermediate_size", 80.0, "intermediate_size is 80.0"),
            ("tie_word_embeddings", "no", "tie_word_embeddings is 'no'"),
        ):
            self.assertIn(word, self.refused(huggingface(self.dir / "m", SMALL | {key: value}, values)))

    def test_missing_extra_and_misshapen_tensors(self):
        values = tensors(SMALL)
        less = {n: x for n, x in values.items() if n != "layer.1.up"}
        self.assertIn("layers.1.mlp.up_proj.weight", self.refused(huggingface(self.dir / "m", SMALL, less)))
        wrong = values | {"layer.0.v": np.zeros((48, 16), "f4")}
        self.assertIn("[16, 48]", self.refused(huggingface(self.dir / "m", SMALL, wrong)))
        folder = huggingface(self.dir / "m", SMALL, values)
        named = {layouts.source_name(HF, n): x for n, x in values.items()}
        safetensors_file(
            folder / "model.safetensors", named | {"model.layers.2.mlp.up_proj.weight": np.zeros((2, 2), "f4")}
        )
        self.assertIn("layers.2.mlp", self.refused(folder))
        safetensors_file(
            folder / "model.safetensors", named | {"model.layers.0.self_attn.rotary_emb.inv_freq": np.zeros(4, "f4")}
        )
        self.same(self.converted(folder), values, tiles.F32)

    def test_shards_must_fit_their_index(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL), shards=2)
        index = folder / "model.safetensors.index.json"
        good = json.loads(index.read_text())
        for change in ("../x.safetensors", "model-00003-of-00002.safetensors", 7):
            bad = {"weight_map": good["weight_map"] | {"lm_head.weight": change}}
            index.write_text(json.dumps(bad))
            self.refused(folder)
        bad = dict(good["weight_map"])
        del bad["lm_head.weight"]
        index.write_text(json.dumps({"weight_map": bad}))
        self.assertIn("lm_head.weight", self.refused(folder))
        index.write_text(
            json.dumps({"weight_map": good["weight_map"] | {"ghost": good["weight_map"]["lm_head.weight"]}})
        )
        self.assertIn("ghost", self.refused(folder))

    def test_safetensors_headers_that_lie(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        file = folder / "model.safetensors"
        whole = file.read_bytes()
        (n,) = struct.unpack_from("<Q", whole)
        header, data = json.loads(whole[8 : 8 + n]), whole[8 + n :]
        norm = "model.norm.weight"
        begin, end = header[norm]["data_offsets"]
        good = header[norm]

        def write(entry, body=data, text=None):
            text = text or json.dumps(header | {norm: entry})
            file.write_bytes(struct.pack("<Q", len(text)) + text.encode() + body)

        write(good)
        self.converted(folder)
        for word, entry in {
            "begins at": good | {"data_offsets": [begin - 4, end - 4]},
            "has 196 bytes": good | {"data_offsets": [begin, end + 4]},
            "has 192 bytes": good | {"shape": [49]},
            "damaged": good | {"data_offsets": [end, begin]},
            "entry of": good | {"shape": [-48]},
            "entry": {"dtype": "F32"},
            "F64": {"dtype": "F64", "shape": [24], "data_offsets": [begin, end]},
            "I8": {"dtype": "I8", "shape": [48], "data_offsets": [begin, end]},
        }.items():
            write(entry)
            said = self.refused(folder)
            self.assertTrue(word in said or word == "F64", said)
        last = max(header, key=lambda name: header[name]["data_offsets"])
        moved = header[last] | {"data_offsets": [at + 4 for at in header[last]["data_offsets"]]}
        write(good, data + bytes(4), json.dumps(header | {last: moved}))
        self.assertIn("begins at", self.refused(folder))
        for body in (data[:-1], data + b"\0"):
            write(good, body)
            self.assertIn("cut or damaged", self.refused(folder))
        twice = json.dumps(header)[:-1] + f', "{norm}": {json.dumps(good)}}}'
        write(good, text=twice)
        self.assertIn("twice", self.refused(folder))
        file.write_bytes(struct.pack("<Q", 1 << 60) + whole[8:])
        self.refused(folder)
        write(good, text="[" * 100000)
        self.refused(folder)

    def test_other_files_say_what_to_do(self):
        folder = self.dir / "m"
        huggingface(folder, SMALL, tensors(SMALL))
        self.assertIn(str(folder), self.refused(folder / "model.safetensors", code=2))
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        self.assertIn("pickle", self.refused(folder))
        self.assertIn("config.json", self.refused(self.dir, code=2))
        self.refused(self.dir / "absent", code=4)


class Gguf(Case):
    C = SMALL | {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4}

    def test_types(self):
        for quant, kind in (
            ("F32", tiles.F32), ("F16", tiles.F16), ("BF16", tiles.BF16), ("Q8_0", tiles.Q8), ("Q4_0", tiles.Q4),
        ):  # fmt: skip
            path, held = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), quant)
            w = self.converted(path)
            self.same(w, held, kind)
            self.assertEqual(w.keys("generation")["end_tokens"], 2)
            self.assertEqual(w.keys("provenance")["name"], b"tiny")

    def blocks(self, rng, quant: str, rows: int, k: int) -> np.ndarray:
        """Random bytes of a type, with scales that are sensible numbers."""
        encoding = gguf_types.FORMATS[quant]
        data = np.zeros((rows, k // encoding.weights), encoding.block)
        raw = data.view("u1")
        raw[:] = rng.integers(0, 256, raw.shape, "u1")
        for name in {"d", "m"} & set(encoding.block.names):
            data[name] = rng.uniform(-4, 4, data.shape).astype("<f2").view("<u2")
        if quant == "MXFP4":
            data["e"] = rng.integers(gguf_types.HALF_LOW, gguf_types.HALF_HIGH + 1, data.shape)
        return data.view("u1").reshape(rows, -1)

    def test_every_type_has_the_values_that_the_format_means(self):
        """Held to the gguf package, bit for bit."""
        c = self.C | {"hidden_size": 256, "num_hidden_layers": 1, "tie_word_embeddings": True}
        kinds = {"Q8_0": tiles.Q8, "Q5_0": tiles.Q8, "IQ4_NL": tiles.Q8, "MXFP4": tiles.Q8, "Q4_0": tiles.Q4}
        for quant in [name for name, e in gguf_types.FORMATS.items() if e.block]:
            with self.subTest(quant), np.errstate(over="ignore"):
                kind = gguf.GGMLQuantizationType[quant]
                data = self.blocks(np.random.default_rng(5), quant, c["vocab_size"], 256)
                if quant == "Q8_0":
                    data[data == 0x80] = 0
                extra = [lambda w: w.add_tensor("output.weight", data, raw_dtype=kind)]
                path, _ = gguf_model(self.dir / "m.gguf", c, tensors(c), extra=extra)
                w = self.converted(path)
                self.assertEqual(w.tensors["head"]["kind"], kinds.get(quant, tiles.F32))
                values = w.values("head")
                np.testing.assert_array_equal(values, gguf.quants.dequantize(data, kind))
                told = f"{quant} are kept exactly, as f32" in run(path, self.out)[1]
                self.assertEqual(told, quant not in kinds)
                np.testing.assert_array_equal(self.converted(path, "--type", "f32").values("head"), values)

    def test_mxfp4_beyond_f16_becomes_f32(self):
        c = self.C | {"hidden_size": 256, "num_hidden_layers": 1, "tie_word_embeddings": True}
        data = self.blocks(np.random.default_rng(5), "MXFP4", c["vocab_size"], 256)
        extra = [lambda w: w.add_tensor("output.weight", data, raw_dtype=gguf.GGMLQuantizationType.MXFP4)]
        for exponent, codes, kind in ((0, 0x80, tiles.Q8), (100, 0x10, tiles.F32), (144, 0x01, tiles.F32)):
            data[7, :17] = [exponent] + [codes] * 16
            path, _ = gguf_model(self.dir / "m.gguf", c, tensors(c), extra=extra)
            w = self.converted(path)
            self.assertEqual(w.tensors["head"]["kind"], kind, exponent)
            np.testing.assert_array_equal(
                w.values("head"), gguf.quants.dequantize(data, gguf.GGMLQuantizationType.MXFP4)
            )

    def test_tied_head_biases_and_qwen2(self):
        c = self.C | {"tie_word_embeddings": True}
        path, held = gguf_model(self.dir / "m.gguf", c, tensors(c, "q k v"))
        w = self.converted(path)
        self.same(w, held, tiles.F32)
        self.assertEqual((w.config["head_tied"], w.config["attn_bias"]), (1, 7))
        path, held = gguf_model(self.dir / "m.gguf", c, tensors(c, "q k v"), arch="qwen2")
        self.same(self.converted(path), held, tiles.F32)

    def test_rope_divisors_and_scaling(self):
        divisors = np.linspace(1, 8, 8)
        path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), divisors=divisors)
        plain = 10000.0 ** (-np.arange(8) / 8)
        got = self.converted(path).config["rope.0.inv_freq"]
        np.testing.assert_allclose(got, plain / divisors.astype("f4"), rtol=1e-7)
        linear = [
            lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR),
            lambda w: w.add_rope_scaling_factor(4.0),
        ]
        path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), extra=linear)
        np.testing.assert_allclose(self.converted(path).config["rope.0.inv_freq"], plain / 4, rtol=1e-7)
        other = [lambda w: w.add_string("llama.rope.scaling.type", "spiral")]
        path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), extra=other)
        self.assertIn("spiral", self.refused(path))

    def test_what_gguf_does_not_say_is_said(self):
        path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C))
        code, out, _ = run(path, self.out)
        self.assertEqual((code, "window" in out), (0, True))
        path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), extra=[lambda w: w.add_sliding_window(32)])
        self.assertEqual(self.converted(path).config["window"], 32)

    def test_chat_template_is_as_in_a_directory(self):
        """Both kinds of source hand it out in the same way."""
        template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
        path, _ = gguf_model(
            self.dir / "m.gguf", self.C, tensors(self.C), extra=[lambda w: w.add_chat_template(template)]
        )
        folder = huggingface(self.dir / "hf", self.C, tensors(self.C))
        config = {"chat_template": template, "bos_token": "<s>", "eos_token": {"content": "</s>"}}
        listed = config | {"chat_template": [{"name": "tool", "template": "x"}, {"name": "default", "template": template}]}
        sources = [convert.load(path, None, None, settings.Settings())]
        for each in (config, listed):
            (folder / "tokenizer_config.json").write_text(json.dumps(each))
            sources.append(convert.load(folder, None, None, settings.Settings()))
        (folder / "chat_template.jinja").write_text(template)
        (folder / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": "other"}))
        sources.append(convert.load(folder, None, None, settings.Settings()))
        for source in sources:
            self.assertEqual(source.template, template)
            self.assertEqual(source.template_tokens, {"bos_token": "<s>", "eos_token": "</s>"})

    def test_minus_128_is_refused_and_f32_is_the_way_out(self):
        path, held = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), "Q8_0")
        reader = gguf.GGUFReader(path, "r+")
        next(t for t in reader.tensors if t.name == "blk.1.ffn_up.weight").data[3, 2] = 0x80
        del reader
        self.assertIn("--type f32", self.refused(path))
        w = self.converted(path, "--type", "f32")
        self.assertTrue(np.all(w.values("layer.1.up")[4:] == held["layer.1.up"][4:]))

    def test_files_that_lie(self):
        """Written by hand: a key and tensors [name, dims, type, offset] over 256 bytes of data."""

        def text(t):
            return struct.pack("<Q", len(t)) + t.encode()

        def write(infos, keys=(), n_tensors=None, n_keys=None, version=3):
            out = b"GGUF" + struct.pack("<IQQ", version, n_tensors or len(infos), n_keys or len(keys) + 1)
            out += text("general.architecture") + struct.pack("<I", 8) + text("llama")
            for name, kind, value in keys:
                out += text(name) + struct.pack("<I", kind) + value
            for name, dims, kind, offset in infos:
                out += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
                out += struct.pack("<IQ", kind, offset)
            path.write_bytes(out + bytes(-len(out) % 32) + bytes(256))
            return self.refused(path)

        path, number = self.dir / "m.gguf", struct.pack("<I", 1)
        self.assertIn("token_embd", write([["a", [8], 0, 0]]))  # sound so far
        self.assertIn("inside another", write([["a", [16], 0, 0], ["b", [8], 0, 32]]))
        self.assertIn("not aligned", write([["a", [8], 0, 8]]))
        self.assertIn("cut or damaged", write([["a", [65], 0, 0]]))
        self.assertIn("cut or damaged", write([["a", [1 << 62, 1 << 62], 0, 0]]))
        self.assertIn("tensor 'a' twice", write([["a", [8], 0, 0], ["a", [8], 0, 32]]))
        self.assertIn("key 'x' twice", write([], [("x", 4, number), ("x", 4, number)]))
        self.assertIn("not possible", write([["a", [8], 8, 0]]))
        self.assertIn("not possible", write([["a", [0], 0, 0]]))
        self.assertIn("IQ2_XXS", write([["a", [256], 16, 0]]))
        self.assertIn("cut or damaged", write([["a", [512], 12, 0]]))
        self.assertIn("type 99", write([["a", [8], 99, 0]]))
        self.assertIn("dimensions", write([["a", [1] * 5, 0, 0]]))
        self.assertIn("the type 77", write([], [("x", 77, number)]))
        self.assertIn("claims", write([], [("x", 9, struct.pack("<IQ", 8, 1 << 40))]))
        self.assertIn("would take", write([], [("x", 9, struct.pack("<IQ", 4, 1 << 40))]))
        self.assertIn("array of the type 9", write([], [("x", 9, struct.pack("<IQ", 9, 1))]))
        self.assertIn("alignment", write([["a", [8], 0, 0]], [("general.alignment", 4, struct.pack("<I", 3))]))
        self.assertIn("0 dimensions", write([], n_tensors=1 << 60))
        self.assertIn("twice", write([], n_keys=1 << 60))  # zeros read as keys without names
        self.assertIn("big-endian", write([], version=3 << 24))
        self.assertIn("version 1", write([], version=1))

    def test_models_in_parts(self):
        path, held = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), "Q8_0")
        reader = gguf.GGUFReader(path)
        w = gguf.GGUFWriter(str(self.dir / "p.gguf"), "llama", split_max_tensors=8)
        for field in reader.fields.values():
            kind = field.types[0]
            if not field.name.startswith(("GGUF.", "general.architecture")):
                w.add_key_value(field.name, field.contents(), kind, field.types[-1] if kind == 9 else None)
        for t in reader.tensors:
            w.add_tensor(t.name, np.array(t.data), raw_dtype=t.tensor_type)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        parts = sorted(self.dir.glob("p-*-of-*.gguf"))
        self.assertGreater(len(parts), 2)
        for part in parts:
            self.same(self.converted(part), held, tiles.Q8)
        whole = parts[1].read_bytes()
        parts[1].unlink()
        self.assertIn(parts[1].name, self.refused(parts[0], code=4))
        parts[1].write_bytes(parts[2].read_bytes())
        self.assertIn("says that it is part 2", self.refused(parts[0]))
        parts[1].write_bytes(whole)
        other = self.dir / "other.gguf"
        other.write_bytes(whole)
        self.assertIn("give them their names", self.refused(other))
        for add in (lambda w: w.add_string("split.count", "x"), lambda w: w.add_uint32("split.count", 1 << 31)):
            path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), extra=[add])
            self.assertIn("split.count is", self.refused(path))

    def test_keys_and_tensors_that_are_not_understood(self):
        for key, add in {
            "blk.0.ffn_gate_exps.weight": lambda w: w.add_expert_count(8),
            "llama.logit_scale": lambda w: w.add_logit_scale(2.0),
            "llama.rope.dimension_count": lambda w: w.add_rope_dimension_count(8),
            "attention.value_length": lambda w: w.add_value_length(8),
            "blk.0.attn_q_norm.weight": lambda w: w.add_tensor("blk.0.attn_q_norm.weight", np.zeros(4, "f4")),
        }.items():
            path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), extra=[add])
            self.assertIn(key, self.refused(path))
        path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), arch="mamba")
        self.assertIn("mamba", self.refused(path))
        self.refused(path, "--tokenizer", "x", code=2)


class GptOss(Case):
    """gpt-oss as released: experts in MXFP4, in a directory and in GGUF."""

    C = {
        "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "vocab_size": 300, "hidden_size": 64,
        "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 150000.0,
        "num_local_experts": 3, "num_experts_per_tok": 2, "sliding_window": 8, "swiglu_limit": 7.0,
        "tie_word_embeddings": False, "eos_token_id": 2, "attention_bias": True,
        "layer_types": ["sliding_attention"],
        "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                         "original_max_position_embeddings": 64},
        "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
    }  # fmt: skip

    def model(self, rng) -> dict[str, np.ndarray]:
        """Tensors by their names in a directory, experts as [experts, rows, k] of values that MXFP4 has."""
        d, h, n, vocab = 64, 96, 3, 300
        at = "model.layers.0."
        sizes = {"model.embed_tokens.weight": (vocab, d), "lm_head.weight": (vocab, d), "model.norm.weight": (d,)}
        sizes |= {at + "input_layernorm.weight": (d,), at + "post_attention_layernorm.weight": (d,)}
        sizes |= {at + f"self_attn.{p}_proj.weight": (r, k) for p, r, k in [("q", d, d), ("k", 32, d), ("v", 32, d), ("o", d, d)]}
        sizes |= {at + f"self_attn.{p}_proj.bias": (r,) for p, r in [("q", d), ("k", 32), ("v", 32), ("o", d)]}
        sizes |= {at + "self_attn.sinks": (4,), at + "mlp.router.weight": (n, d), at + "mlp.router.bias": (n,)}
        sizes |= {at + "mlp.experts.gate_up_proj_bias": (n, 2 * h), at + "mlp.experts.down_proj_bias": (n, d)}
        out = {name: (rng.integers(-120, 121, size) / 64).astype("f4") for name, size in sizes.items()}
        for name, size in (("gate_up_proj", (n, 2 * h, d)), ("down_proj", (n, d, h))):
            values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], "f4")[rng.integers(0, 8, size)]
            scale = 2.0 ** rng.integers(-8, 3, (*size[:-1], size[-1] // 32))
            values = values * np.where(rng.random(size) < 0.5, -1, 1) * np.repeat(scale, 32, axis=-1)
            out[f"{at}mlp.experts.{name}"] = values.astype("f4")
        return out

    @staticmethod
    def packed(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Codes, two neighbours in a byte, and exponents, by trial of all exponents."""
        groups = x.reshape(*x.shape[:-1], -1, 32)
        table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], "f4")
        codes = np.full(groups.shape, 255, "u1")
        exponents = np.zeros(groups.shape[:-1], "u1")
        for e in range(110, 135):
            scaled = np.abs(groups) / 2.0 ** (e - 127)
            index = np.searchsorted(table, scaled).clip(0, 7)
            good = np.all(table[index] == scaled, axis=-1)
            codes[good], exponents[good] = (index + 8 * (groups < 0))[good], e
        assert codes.max() < 16
        return codes[..., 0::2] | codes[..., 1::2] << 4, exponents

    def directory(self, tensors: dict[str, np.ndarray], packed: bool) -> Path:
        folder = self.dir / ("packed" if packed else "plain")
        folder.mkdir()
        c, out = dict(self.C), {}
        for name, x in tensors.items():
            if name.endswith("_proj") and packed:
                out[name + "_blocks"], out[name + "_scales"] = self.packed(x)
            elif name.endswith("_proj"):
                out[name] = np.ascontiguousarray(x.swapaxes(1, 2))
            else:
                out[name] = x
        if not packed:
            del c["quantization_config"]
        (folder / "config.json").write_text(json.dumps(c))
        tokenizer_json(folder / "tokenizer.json")
        safetensors.numpy.save_file(out, folder / "model.safetensors")
        return folder

    def gguf(self, tensors: dict[str, np.ndarray]) -> Path:
        plain = {name: x.swapaxes(1, 2) if name.endswith("_proj") else x for name, x in tensors.items()}
        experts = {}

        def more(w):
            add = w.add_tensor

            def quantized(name, x):
                if name.endswith("_exps.weight"):
                    experts[name] = gguf.quants.quantize(x, gguf.GGMLQuantizationType.MXFP4)
                    assert np.array_equal(gguf.quants.dequantize(experts[name], gguf.GGMLQuantizationType.MXFP4), x)
                    add(name, experts[name], raw_dtype=gguf.GGMLQuantizationType.MXFP4)
                else:
                    add(name, x)

            w.add_tensor = quantized

        gguf_writer.write(self.dir / "m.gguf", self.C, plain, [f"w{i}" for i in range(300)], more)
        return self.dir / "m.gguf"

    def test_directory_packed_or_not_and_gguf_agree(self):
        values = self.model(np.random.default_rng(3))
        plain = self.converted(self.directory(values, False))
        wanted = {name: plain.values(name) for name in plain.tensors}
        config = plain.config
        for source in (self.directory(values, True), self.gguf(values)):
            w = self.converted(source)
            self.assertEqual(list(w.tensors), list(wanted))
            for name, x in wanted.items():
                np.testing.assert_array_equal(w.values(name), x, name)
            for part in ("gate", "up", "down"):
                self.assertEqual(w.tensors[f"layer.0.{part}"]["kind"], tiles.Q8)
            for key, value in config.items():
                np.testing.assert_array_equal(w.config[key], value, key)

    def test_scales_that_f16_lacks(self):
        values = self.model(np.random.default_rng(3))
        name = "model.layers.0.mlp.experts.gate_up_proj"
        values[name][1, 5, :32] *= 2.0**-40 / np.abs(values[name][1, 5, :32]).max()  # a row of up
        tiny = values[name][1, 5, :32]
        tiny[:] = np.where(tiny == 0, 0, np.float32(2.0**-40))
        folder = self.directory(values | {name: values[name] * 1}, False)
        wanted = {n: x for w in [self.converted(folder)] for n in w.tensors for x in [w.values(n)]}
        packed = self.packed
        with unittest.mock.patch.object(GptOss, "packed", staticmethod(lambda x: self.with_tiny(packed, x))):
            folder = self.directory(values, True)
        w = self.converted(folder)
        kinds = {part: w.tensors[f"layer.0.{part}"]["kind"] for part in ("gate", "up", "down")}
        self.assertEqual(kinds, {"gate": tiles.Q8, "up": tiles.F32, "down": tiles.Q8})
        for n, x in wanted.items():
            np.testing.assert_array_equal(w.values(n), x, n)

    @staticmethod
    def with_tiny(packed, x: np.ndarray):
        """Packs values of which those below 2^-30 are 0 or 2^-40."""
        small = (np.abs(x) < 2.0**-30) & (x != 0)
        codes, exponents = packed(np.where(small, 0, x).astype("f4"))
        groups = small.reshape(*exponents.shape, 32)
        own = np.where(groups, 2, 0).astype("u1")
        some = groups.any(axis=-1)
        codes[some] = (own[..., 0::2] | own[..., 1::2] << 4)[some]
        exponents[some] = 127 - 40
        return codes, exponents

    def test_what_does_not_fit_is_refused(self):
        values = self.model(np.random.default_rng(3))
        folder = self.directory(values, True)
        stored = safetensors.numpy.load_file(folder / "model.safetensors")
        scales = "model.layers.0.mlp.experts.down_proj_scales"
        for change in ({scales: stored[scales][:, :5]}, {scales: stored[scales].astype("f4")}):
            safetensors.numpy.save_file(
                {n: np.ascontiguousarray(x) for n, x in (stored | change).items()}, folder / "model.safetensors"
            )
            self.assertIn(scales, self.refused(folder))
        safetensors.numpy.save_file({n: x for n, x in stored.items() if n != scales}, folder / "model.safetensors")
        self.assertIn(scales, self.refused(folder))
        safetensors.numpy.save_file(stored, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(self.C | {"quantization_config": {"quant_method": "gptq"}}))
        self.assertIn("quantization_config", self.refused(folder))


class Types(Case):
    def test_conversions_round_to_nearest_even(self):
        x = np.array([[1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 1 + 3 * 2**-11, -0.0, 2.0**-24, 2.0**-25, 3.4e38]], "f4")
        self.assertEqual(tiles.bits(tiles.BF16, x)[0, :2].tolist(), [0x3F80, 0x3F82])
        self.assertEqual(tiles.bits(tiles.F16, x)[0, 2:7].tolist(), [0x3C00, 0x3C02, 0x8000, 1, 0])
        self.assertTrue(tiles.overflows(tiles.F16, x))
        self.assertTrue(tiles.overflows(tiles.BF16, np.array([[3.4e38]], "f4")))
        self.assertFalse(tiles.overflows(tiles.F16, np.array([[np.inf, np.nan, 65504.0]], "f4")))
        self.assertEqual(tiles.bits(tiles.BF16, np.array([[np.nan, np.inf]], "f4"))[0].tolist(), [0x7FC0, 0x7F80])

    def test_types_on_request(self):
        values = tensors(SMALL)
        folder = huggingface(self.dir / "m", SMALL, values, "bfloat16")
        for name in ("f32", "f16", "bf16"):
            self.same(self.converted(folder, "--type", name), values, tiles.BY_NAME[name])
        values["layer.0.gate"][5, 7] = 1e6
        huggingface(folder, SMALL, values)
        self.assertIn("gate_proj", self.refused(folder, "--type", "f16"))

    def test_quantizing_needs_the_program(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        self.assertIn("make", self.refused(folder, "--type", "q8", code=2))

    def test_tiles_by_hand(self):
        """Every byte of small tiles against the picture in FORMAT.md."""
        bits = np.arange(18 * 3, dtype="<u4").reshape(18, 3)
        flat = tiles.tile(tiles.F32, bits).reshape(-1)
        for tile in range(2):
            for k in range(3):
                for r in range(16):
                    row = 16 * tile + r
                    want = bits[row, k] if row < 18 else 0
                    self.assertEqual(flat[(tile * 3 + k) * 16 + r], want)
        rng = np.random.default_rng(3)
        q, scales = rng.integers(-127, 128, (17, 2, 32), "i1"), rng.integers(0, 60000, (17, 2), "<u2")
        data = tiles.tile(tiles.Q8, (q, scales)).tobytes()
        self.assertEqual(len(data), tiles.tensor_bytes(tiles.Q8, 17, 64))
        for row in (0, 5, 16):
            for k in (0, 7, 31, 32, 63):
                at = ((row // 16) * 2 + k // 32) * 544 + (k % 32 // 4) * 64 + 4 * (row % 16) + k % 4
                self.assertEqual(struct.unpack_from("b", data, at)[0], q[row, k // 32, k % 32])
            at = (row // 16 * 2 + 1) * 544 + 512 + 2 * (row % 16)
            self.assertEqual(struct.unpack_from("<H", data, at)[0], scales[row, 1])
        q = rng.integers(-8, 8, (17, 2, 32), "i1")
        data = tiles.tile(tiles.Q4, (q, scales)).tobytes()
        for row in (0, 5, 16):
            for k in range(64):
                j, half = k % 32 // 8, k % 8 // 4
                at = ((row // 16) * 2 + k // 32) * 288 + j * 64 + 4 * (row % 16) + k % 4
                self.assertEqual((data[at] >> 4 * half & 15) - 8, q[row, k // 32, k % 32])
        self.assertEqual(data[2 * 288 + 4 :][:60], b"\x88" * 60)  # padding rows are nibble 8
        for kind, rows in ((tiles.Q4, (q, scales)), (tiles.Q8, (q, scales))):
            back = tiles.untile(kind, tiles.tile(kind, rows).tobytes(), 17, 64)
            np.testing.assert_array_equal(back[0], q)
            np.testing.assert_array_equal(back[1], scales)


class Containers(Case):
    def test_all_hold_the_same_model(self):
        values, ids, configs = tensors(SMALL), set(), set()
        tokenizer_bin(self.dir / "tokenizer.bin")
        for made in (
            huggingface(self.dir / "hf", SMALL, values),
            gguf_model(self.dir / "m.gguf", SMALL, values)[0],
            llama2c(self.dir / "m0.bin", SMALL, values, 0),
            llama2c(self.dir / "m1.bin", SMALL, values, 1),
        ):
            w = self.converted(made)
            ids.add(w.content_id)
            configs.add(w.sections["config"])
        self.assertEqual((len(ids), len(configs)), (1, 1))


PROGRAMS = {name: os.environ.get(name.upper(), "") for name in ("run", "quantize")}


@unittest.skipUnless(all(os.access(p, os.X_OK) for p in PROGRAMS.values()), "RUN and QUANTIZE are not built")
class Engine(Case):
    """What is written here, taken by the programs that `make` built."""

    def setUp(self):
        super().setUp()
        for name, path in PROGRAMS.items():
            (self.dir / name).symlink_to(Path(path).resolve())

    def selftest(self) -> str:
        done = subprocess.run([self.dir / "run", self.out, "--selftest"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_every_container_gives_the_same_logits(self):
        values = {n: x / 8 if x.ndim > 1 else x for n, x in tensors(SMALL).items()}
        tokenizer_bin(self.dir / "tokenizer.bin")
        seals = set()
        for made in (
            huggingface(self.dir / "hf", SMALL, values),
            gguf_model(self.dir / "m.gguf", SMALL, values)[0],
            llama2c(self.dir / "m0.bin", SMALL, values, 0),
        ):
            seals.add(self.converted(made).keys("seal")["fingerprint"])
            self.assertIn("equal bit for bit", self.selftest())
        self.assertEqual(len(seals), 1)

    def test_quantized(self):
        folder = huggingface(self.dir / "hf", SMALL, tensors(SMALL), "bfloat16")
        for name in ("q8", "q4"):
            w = self.converted(folder, "--type", name)
            self.assertEqual(w.tensors["layer.0.q"]["kind"], tiles.BY_NAME[name])
            self.assertIn("equal bit for bit", self.selftest())
        path, held = gguf_model(self.dir / "m.gguf", Gguf.C, tensors(Gguf.C), "Q4_0")
        self.same(self.converted(path, "--type", "q8"), held, tiles.Q4)  # smaller already: nothing to gain
        self.selftest()

    def test_check_of_what_quantize_made(self):
        folder = huggingface(self.dir / "hf", SMALL, tensors(SMALL))
        for name in ("q8", "q4"):
            code, out, err = run(folder, self.out, "--type", name, "--check")
            self.assertEqual((code, err), (0, ""))
            self.assertRegex(out, rf"{name} differs by at most \d+\.\d+%.*--selftest passed")
            stated = int(re.search(r"\((\d+) bytes\)", run(folder, "--dry-run", "--type", name)[1]).group(1))
            self.assertLess(abs(stated - self.out.stat().st_size), 16384)
        other = tensors(SMALL, seed=2) | {n: x for n, x in tensors(SMALL).items() if x.ndim == 1}
        source = convert.load(huggingface(self.dir / "other", SMALL, other), None, None, settings.Settings())
        with self.assertRaisesRegex(ConvertError, "embed, q4, differs"):
            compare.check(source, self.out)

    def test_check_of_the_engine_fails(self):
        folder = huggingface(self.dir / "hf", SMALL, tensors(SMALL))
        (self.dir / "run").unlink()
        (self.dir / "run").write_text('#!/bin/sh\n[ "$2" != --selftest ] || { echo "ids differ" >&2; exit 3; }\necho 0\n')
        (self.dir / "run").chmod(0o755)
        self.assertIn("ids differ", self.refused(folder, "--check"))

    def test_windows_biases_and_scaled_frequencies_are_taken(self):
        qwen = SMALL | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "sliding_window": 16}
        qwen |= {"use_sliding_window": True, "max_window_layers": 1}
        self.converted(huggingface(self.dir / "a", qwen, tensors(SMALL, "q k v")))
        self.selftest()
        c = SMALL | {"attention_bias": True, "mlp_bias": True, "head_dim": 16, "tie_word_embeddings": True}
        c["rope_scaling"] = {"type": "linear", "factor": 4.0}
        self.converted(huggingface(self.dir / "b", c, tensors(c, "q k v o gate up down"), "float16"))
        self.selftest()


class Plan(Case):
    """--dry-run and --check."""

    def sources(self):
        c = SMALL | {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96}
        tokenizer_bin(self.dir / "tokenizer.bin")
        yield huggingface(self.dir / "m", c, tensors(c), "bfloat16")
        yield gguf_model(self.dir / "m.gguf", c, tensors(c), "Q8_0")[0]
        yield llama2c(self.dir / "m.bin", c, tensors(c), 1)

    def test_dry_run_says_the_size_and_writes_nothing(self):
        for source in self.sources():
            for more in ((), ("--type", "f16")):
                before = sorted(os.listdir(self.dir))
                code, out, err = run(source, "--dry-run", *more)
                self.assertEqual((code, err), (0, ""))
                self.assertEqual(before, sorted(os.listdir(self.dir)))
                self.converted(source, *more)
                self.assertIn(f"({self.out.stat().st_size} bytes)", out)
                self.out.unlink()
                for word in ("layers     2", "4 heads of 16 with 2", "300 rows", "no template", "layer.*.gate"):
                    self.assertIn(word, out)
        self.assertEqual(run(source)[0], 2)  # neither OUT nor --dry-run

    def test_check_passes(self):
        for source in self.sources():
            for more in ((), ("--type", "f16"), ("--type", "f32")):
                code, out, err = run(source, self.out, "--check", *more)
                self.assertEqual((code, err), (0, ""))
                self.assertRegex(out, r"(\d+) of \1 tensors have the source's values; ./run is not built")

    def test_check_finds_one_wrong_bit(self):
        """In any tensor, in any type; the file is not published."""
        write = convert.write
        for source in self.sources():
            for name in ("embed", "layer.1.down", "layer.0.attn_norm", "head"):

                def wrong(path, bodies, entries):
                    write(path, bodies, entries)
                    with open(path, "r+b") as f:
                        f.seek(WeightsFile(path).tensors[name]["offset"] + 3)
                        byte = f.read(1)[0]
                        f.seek(-1, 1)
                        f.write(bytes([byte ^ 1]))

                with unittest.mock.patch.object(convert, "write", wrong):
                    self.assertIn(name, self.refused(source, "--check", code=1))

    def test_room_on_the_disk_is_asked_for(self):
        source = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        with unittest.mock.patch("shutil.disk_usage", return_value=shutil._ntuple_diskusage(1 << 30, 1 << 30, 1000)):
            self.assertIn("free on its disk", self.refused(source, code=4))


class Set(Case):
    """--set."""

    def test_features_and_keys_of_the_source(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        w = self.converted(folder, "--set", "window=7", "--set", "norm_eps=1e-3", "--set", "max_seq=99")
        self.assertEqual((w.config["window"], w.config["max_seq"]), (7, 99))
        self.assertEqual(w.config["norm_eps"], np.float32(1e-3))
        w = self.converted(folder, "--set", "window=7,0", "--set", "attn_scale=0.5")
        self.assertEqual(list(w.config["window"]), [7, 0])
        self.assertEqual(w.config["attn_scale"], 0.5)
        w = self.converted(folder, "--set", "rope_theta=500", "--set", "hidden_act=gelu_new")
        self.assertEqual(w.config["activation"], b"gelu_tanh")
        np.testing.assert_allclose(w.config["rope.0.inv_freq"], 500.0 ** (-np.arange(4) / 4), rtol=1e-7)
        new = {k: v for k, v in SMALL.items() if k != "rope_theta"}
        new["rope_parameters"] = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}
        nested = huggingface(self.dir / "n", new, tensors(SMALL))
        w = self.converted(nested, "--set", "rope_theta=500", "--set", "factor=4")
        np.testing.assert_allclose(w.config["rope.0.inv_freq"], 500.0 ** (-np.arange(4) / 4) / 4, rtol=1e-7)
        tokenizer_bin(self.dir / "tokenizer.bin")
        checkpoint = llama2c(self.dir / "m.bin", SMALL, tensors(SMALL), 1)
        self.assertEqual(self.converted(checkpoint, "--set", "window=5").config["window"], 5)
        self.assertIn("no such key", self.refused(checkpoint, "--set", "rope_theta=5", code=2))

    def test_nonsense_is_refused(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        for pair in ("window", "=4", "window=", "window=x", "window=-1", "window=1,2,3", "norm_eps=one", "rope_set=2",
                     "activation=tanh", "window=99999999999"):  # fmt: skip
            self.assertIn("--set", self.refused(folder, "--set", pair, code=2), pair)
        self.assertIn("twice", self.refused(folder, "--set", "window=1", "--set", "window=2", code=2))
        self.assertIn("'spiral'", self.refused(folder, "--set", "spiral=2"))
        self.assertIn("rope_theta", self.refused(folder, "--set", "rope_theta=-1"))


class File(Case):
    def test_layout_and_checksums(self):
        c = SMALL | {"intermediate_size": 81}  # so that tensors end between lines
        w = self.converted(huggingface(self.dir / "m", c, tensors(c), "float16"))
        data = self.out.read_bytes()
        self.assertEqual((len(data), w.file_bytes % 64), (w.file_bytes, 0))
        at, sums = w.header_bytes, b""
        for i, t in enumerate(w.tensors.values()):
            start = t["offset"]
            self.assertEqual(start, weights.align(at, 64 if i else 4096))
            self.assertEqual(data[at:start], bytes(start - at))
            at = start + t["bytes"]
            sums += struct.pack("<Q", xxhash.xxh64_intdigest(data[start:at]))
            self.assertEqual(sums[-8:], struct.pack("<Q", t["xxh64"]))
        self.assertEqual(at, len(data))
        self.assertEqual(w.content_id, xxhash.xxh64_intdigest(sums))
        self.assertEqual(list(w.sections)[:4], ["config", "tensors", "tokenizer", "generation"])

    def test_same_bytes_every_time(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        self.converted(folder)
        first = self.out.read_bytes()
        with unittest.mock.patch.object(weights, "PIECE_BYTES", 1):
            self.converted(folder)
        self.assertEqual(first, self.out.read_bytes())

    def test_old_output_survives_a_failure(self):
        self.out.write_bytes(b"old")
        values = tensors(SMALL)
        values["head"][0, 0] = 1e9
        self.refused(huggingface(self.dir / "m", SMALL, values), "--type", "f16")
        self.assertEqual(self.out.read_bytes(), b"old")

    def test_interrupting_leaves_nothing(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        before = sorted(os.listdir(self.dir))
        for stop, code in ((KeyboardInterrupt, 130), (SystemExit(143), 143), (OSError(28, "No space left"), 4)):
            with unittest.mock.patch.object(weights, "_write_tensors", side_effect=stop):
                self.assertEqual(run(folder, self.out)[0], code)
            self.assertEqual(before, sorted(os.listdir(self.dir)))

    def test_limits_are_those_of_the_engine(self):
        text = (ROOT / "src" / "model" / "config.c").read_text()
        for name, value in (
            ("MAX_LAYERS", "1024"), ("MAX_WIDTH", "1 << 20"), ("MAX_HEADS", "4096"), ("MAX_HEAD_DIM", "1024"),
            ("MAX_VOCAB", "1 << 24"), ("MAX_SEQ", "1 << 24"),
        ):  # fmt: skip
            self.assertIn(f"{name} = {value},", text)
            number, _, shift = value.partition(" << ")
            self.assertEqual(getattr(source, name), int(number) << int(shift or 0))

    def test_a_model_without_tokenizer_is_said_to_be_one(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        (folder / "tokenizer.json").unlink()
        code, out, _ = run(folder, self.out)
        self.assertEqual((code, "no tokenizer" in out), (0, True))
        self.assertNotIn("tokenizer", WeightsFile(self.out).sections)

    def test_too_many_tokens(self):
        c = SMALL | {"vocab_size": 100}
        said = self.refused(huggingface(self.dir / "m", c, tensors(c)))
        self.assertIn("262", said)
        self.assertIn("100", said)

    def test_usage(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        self.assertEqual(run(folder)[0], 2)
        self.assertEqual(run(folder, self.out, "--type", "q3")[0], 2)
        self.assertEqual(run(folder, self.dir)[0], 2)
        self.assertEqual(run(folder, self.dir / "no" / "x.bin")[0], 4)
        self.converted(folder)
        self.assertGreaterEqual(self.synced.call_count, 2)  # the file, and the directory after renaming
        self.assertEqual(run(self.out, self.out)[0], 2)
        self.assertIn("already", run(self.out, self.dir / "b.bin")[2])

    def test_seal_is_asked_for_and_written(self):
        fake = self.dir / "run"
        fake.write_text("#!/bin/sh\necho 00000000deadbeef\n")
        fake.chmod(0o755)
        w = self.converted(huggingface(self.dir / "m", SMALL, tensors(SMALL)))
        self.assertEqual(w.keys("seal"), {"arith": weights.ARITH, "fingerprint": 0xDEADBEEF})
        fake.write_text("#!/bin/sh\necho 'the engine says no' >&2; exit 3\n")
        self.assertIn("the engine says no", self.refused(self.dir / "m"))
        fake.write_text("#!/bin/sh\necho 'too large for this machine' >&2; exit 5\n")
        code, out, _ = run(self.dir / "m", self.out)
        self.assertEqual((code, "too large for this machine" in out), (0, True))
        self.assertNotIn("seal", WeightsFile(self.out).sections)

    def test_versions_are_those_of_the_engine(self):
        header = (ROOT / "include" / "tern.h").read_text()
        self.assertIn(f'#define TERN_VERSION "{convert.VERSION}"', header)
        self.assertIn(f"#define TERN_ARITH {weights.ARITH} ", header)
        pins = (ROOT / "tools" / "requirements.txt").read_text()
        script = (ROOT / "tools" / "convert.py").read_text().split("# ///")[1]
        for line in script.splitlines():
            if "==" in line:
                self.assertIn(line.strip('#", ').replace("'", '"'), pins)


class Damage(Case):
    """Thousands of damaged sources: each is converted, or refused with one sentence."""

    ROUNDS = int(os.environ.get("CONVERT_FUZZ", "150"))

    def mutate(self, rng: random.Random, data: bytes, head: int) -> bytes:
        """A few changes, most of them in the first `head` bytes."""
        out = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(min(head, len(out)) if rng.random() < 0.9 else len(out))
            kind = rng.randrange(6)
            if kind == 0:
                out[at] = rng.randrange(256)
            elif kind == 1:
                out[at] ^= 1 << rng.randrange(8)
            elif kind == 2:
                out[at : at + 8] = struct.pack(
                    "<Q", rng.choice((0, 1, 1 << 31, 1 << 32, 1 << 62, 2**64 - 1, rng.getrandbits(64)))
                )
            elif kind == 3:
                del out[at : at + rng.choice((1, 4, 8, 100))]
            elif kind == 4:
                out[at:at] = out[at : at + rng.choice((1, 8, 60))]
            else:
                del out[at:]
            if not out:
                break
        return bytes(out)

    def attack(self, source: Path, file: Path, head: int, seed: int):
        whole, rng, done = file.read_bytes(), random.Random(seed), 0
        for i in range(self.ROUNDS):
            file.write_bytes(self.mutate(rng, whole, head))
            begin = time.monotonic()
            code, _, err = run(source, self.out)
            self.assertLess(time.monotonic() - begin, 20, (i, err))
            self.assertIn(code, (0, 2, 3, 4), (i, err))
            if code:
                self.assertEqual(err.count("\n"), 1, (i, err))
                self.assertEqual([n for n in os.listdir(self.dir) if n.endswith(".tmp")], [])
            else:
                WeightsFile(self.out)
                done += 1
        return done

    def test_llama2c(self):
        c = SMALL | {"hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 20}
        tokenizer_bin(self.dir / "tokenizer.bin")
        for version in (0, 1):
            source = llama2c(self.dir / "m.bin", c, tensors(c), version)
            self.attack(source, source, 60, version)
        self.attack(llama2c(source, c, tensors(c), 1), self.dir / "tokenizer.bin", 200, 5)

    def test_llama2c_version_2(self):
        c = SMALL | {"hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 20}
        tokenizer_bin(self.dir / "tokenizer.bin")
        version2(self.dir / "m.bin", c, tensors(c), 4, lambda m: np.maximum(m, 1) / 127)
        self.attack(self.dir / "m.bin", self.dir / "m.bin", 60, 2)

    def test_huggingface(self):
        c = SMALL | {"hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 20}
        folder = huggingface(self.dir / "m", c, tensors(c))
        (folder / "generation_config.json").write_text('{"eos_token_id": [2, 3], "temperature": 0.7, "top_k": 40}')
        for i, name in enumerate(("model.safetensors", "config.json", "generation_config.json", "tokenizer.json")):
            whole = (folder / name).read_bytes()
            done = self.attack(folder, folder / name, 3000, i)
            self.assertLess(done, self.ROUNDS, name)
            (folder / name).write_bytes(whole)
        folder = huggingface(self.dir / "s", c, tensors(c), shards=2)
        self.attack(folder, folder / "model.safetensors.index.json", 3000, 9)

    def test_gguf(self):
        c = Gguf.C | {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
        path, _ = gguf_model(self.dir / "m.gguf", c, tensors(c), "Q8_0")
        self.attack(path, path, 600, 1)
        path, _ = gguf_model(self.dir / "m.gguf", c, tensors(c), "Q4_0")
        self.attack(path, path, 1 << 20, 2)

    def test_gguf_of_other_architectures(self):
        """Their keys, fused tensors, experts, factors of RoPE."""
        for i, name in enumerate(("phi3", "gpt-oss", "falcon-40b", "qwen2-moe")):
            golden = golden_file.read(ROOT / "tests" / "golden" / f"{name}.txt")
            folder, path = self.dir / name, self.dir / f"{name}.gguf"
            config = golden_file.published_config(golden.config)
            golden_convert.directory(folder, golden, config, True)
            state = safetensors.numpy.load_file(folder / "model.safetensors")
            gguf_writer.write(path, config, state, [f"w{i}" for i in range(golden.keys["vocab"])])
            self.attack(path, path, 2500, i)

    def test_mxfp4(self):
        case = GptOss("test_directory_packed_or_not_and_gguf_agree")
        case.dir = self.dir
        folder = case.directory(case.model(np.random.default_rng(1)), True)
        self.attack(folder, folder / "model.safetensors", 3000, 1)


class Frequencies(unittest.TestCase):
    def test_rounded_once_from_binary64(self):
        for base, dims in ((10000.0, 128), (500000.0, 64), (1e6, 96)):
            got = rope.frequencies(base, dims, rope.Parameters("x", {"rope_theta": base})).astype("f4")
            for i, f in enumerate(got):
                exact = np.longdouble(base) ** (np.longdouble(-2 * i) / dims)
                self.assertEqual(f, np.float32(exact))

    def test_llama3_blends_between_the_two_waves(self):
        p = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        p["original_max_position_embeddings"] = 8192
        got = rope.frequencies(500000.0, 128, rope.Parameters("x", p))
        plain = np.array(rope.plain(500000.0, 128))
        wave = 2 * np.pi / plain
        np.testing.assert_array_equal(got[wave < 2048], plain[wave < 2048])
        np.testing.assert_array_equal(got[wave > 8192], plain[wave > 8192] / 8)
        middle = (wave >= 2048) & (wave <= 8192)
        self.assertGreater(middle.sum(), 3)
        self.assertTrue(np.all((got[middle] < plain[middle]) & (got[middle] > plain[middle] / 8)))

    def test_beyond_binary64(self):
        with self.assertRaises(ConvertError):
            rope.frequencies(1e300, 64, rope.Parameters("x", {}))


if __name__ == "__main__":
    unittest.main()
