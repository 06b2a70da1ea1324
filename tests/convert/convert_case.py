"""What the tests of tools/convert.py share: tiny sources of every format, and ways to convert and to read the result.

Nothing from outside the repository is needed, no network, no PyTorch. Expected values come from the
packages that define the formats (safetensors, gguf) and from plain numpy, not from the converter.
"""

import contextlib
import io
import json
import os
import shutil
import struct
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import gguf
import numpy as np
import safetensors
import tokenizers

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/cli")]

import convert  # noqa: E402
from tern import programs  # noqa: E402
from tern.convert.families import gguf as gguf_families  # noqa: E402
from tern.convert.families import names  # noqa: E402
from tern.weights import tiles  # noqa: E402
from tern.weights.reader import WeightsFile  # noqa: E402

HF, GG = names.HUGGINGFACE, gguf_families.NAMES
SMALL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 300, "hidden_size": 48,
    "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
    "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0,
    "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False, "torch_dtype": "float32",
}  # fmt: skip
BLOCKS = SMALL | {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4}  # rows of whole blocks of 32


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
    named = {names.source_name(HF, n): x for n, x in values.items()}
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
            w.add_tensor(names.source_name(GG, name), stored)
            held[name] = x
            continue
        data = gguf.quants.quantize(stored, kind)
        w.add_tensor(names.source_name(GG, name), data, raw_dtype=kind)
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
        self.addCleanup(setattr, programs, "ROOT", programs.ROOT)
        programs.ROOT = self.dir

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
