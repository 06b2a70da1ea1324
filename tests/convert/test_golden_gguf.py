"""The golden models as GGUF files: written by tests/convert/gguf_writer.py from their Hugging Face directories, converted, held
to what the converter makes of the directories themselves (config, every tensor) and to the logits of transformers.
"""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import safetensors.numpy

sys.path.insert(0, str(Path(__file__).resolve().parent))
import gguf_writer  # noqa: E402
import test_golden_convert as golden_convert  # noqa: E402
from test_golden_convert import ROOT, convert, engine, golden_file  # noqa: E402

from tern.convert.families import places  # noqa: E402
from tern.convert.families.features import Slot  # noqa: E402
from tern.convert.families.gguf import ARCHITECTURES  # noqa: E402
from tern.convert.files.file import Entry, File  # noqa: E402
from tern.convert.files.gguf_types import FORMATS  # noqa: E402
from tern.weights import tiles  # noqa: E402
from tern.weights.reader import WeightsFile  # noqa: E402

# What these models have and a GGUF file does not say.
LACKING = {
    "mistral": ["window=8"],
    "mistral-long": ["window=300"],
    "mixtral": ["window=9"],
    "qwen2": ["window=0,0,6,6,6,6"],
    "qwen3": ["window=0,6"],
    "starcoder2": ["window=9"],
    "gemma2": ["query_pre_attn_scalar=40"],
    "gemma3": ["query_pre_attn_scalar=40"],
    "smollm3": ["no_rope_layers=1,0,1,0", "window=0,6,0,6"],
    "gpt-oss": ["swiglu_limit=0.7"],
    "gemma3n": ["final_logit_softcapping=3"],
    "llama4": ["attention_chunk_size=10", "floor_scale=9", "no_rope_layers=1,1,0,1,1"],
    "dots1": ["window=0,7,7"],
    "minicpm3": ["scale_emb=7", "scale_depth=1.1", "dim_model_base=20"],
    "lfm2-moe": ["routed_scaling_factor=1.7"],
    "phimoe": ["router_jitter_noise=0.2"],
}
FOLDED = ("falcon-h1",)  # llama.cpp puts its multipliers into other tensors than the converter


class GoldenGguf(unittest.TestCase):
    """One test per golden file, made below."""

    def convert(self, *arguments) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
            self.assertEqual(convert.main([str(a) for a in arguments]), 0, said.getvalue())
        return said.getvalue()

    def same(self, ours: WeightsFile, wanted: WeightsFile) -> None:
        self.assertEqual(set(ours.config), set(wanted.config))
        for key, value in wanted.config.items():
            np.testing.assert_array_equal(ours.config[key], value, key)
        self.assertEqual(list(ours.tensors), list(wanted.tensors))
        for name, tensor in wanted.tensors.items():
            self.assertEqual(ours.tensors[name]["xxh64"], tensor["xxh64"], name)
        self.assertEqual(ours.keys("generation"), wanted.keys("generation"))
        self.assertEqual(ours.keys("tokenizer")["tokens.bytes"], wanted.keys("tokenizer")["tokens.bytes"])

    def hold(self, golden: golden_file.Golden) -> None:
        config, ids = golden_file.published_config(golden.config), golden.tokens()[:-1]
        with tempfile.TemporaryDirectory() as temp:
            folder, file, out = Path(temp) / "source", Path(temp) / "m.gguf", Path(temp) / "out.bin"
            golden_convert.directory(folder, golden, config, True)
            state = safetensors.numpy.load_file(folder / "model.safetensors")
            vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
            gguf_writer.write(file, config, state, list(vocabulary))
            self.convert(folder, Path(temp) / "wanted.bin")
            lacking = LACKING.get(golden.name, [])
            said = self.convert(file, out, *[word for pair in lacking for word in ("--set", pair)])
            if golden.name not in FOLDED:
                self.same(WeightsFile(out), WeightsFile(Path(temp) / "wanted.bin"))
            for pair in lacking:  # what is set is no longer assumed
                self.assertNotIn(pair.split("=")[0], said)
            if lacking:
                said = self.convert(file, Path(temp) / "assumed.bin")
                for pair in lacking:
                    self.assertIn(pair.split("=")[0], said)
            with engine.Engine(golden_convert.LIBRARY, out, len(ids)) as e:
                logits = e.logits(ids, golden.prompt)
        for at, row in golden.rows.items():
            self.assertLessEqual(np.abs(logits[at] - row).max(), golden_convert.BOUND * np.abs(row).max(), at)

    def test_keys_and_values_in_one_tensor(self):
        """Old files of DeepSeek state whole heads, and have the matrices of keys and values in one."""
        golden = golden_file.read(golden_convert.ROOT / "tests" / "golden" / "deepseek-v3.txt")
        config = golden_file.published_config(golden.config)
        with tempfile.TemporaryDirectory() as temp:
            folder, file, out = Path(temp) / "source", Path(temp) / "m.gguf", Path(temp) / "out.bin"
            golden_convert.directory(folder, golden, config, True)
            state = safetensors.numpy.load_file(folder / "model.safetensors")
            vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
            gguf_writer.write(file, config | {"kv_b_joined": True}, state, list(vocabulary))
            for source, to in ((file, out), (folder, Path(temp) / "wanted.bin")):
                self.convert(source, to)
            self.same(WeightsFile(out), WeightsFile(Path(temp) / "wanted.bin"))

    def test_olmo3_turns_by_the_base_of_the_file(self):
        """A window layer's base is that of the file, as there is one only."""
        golden = next(g for path in golden_convert.GOLDEN if (g := golden_file.read(path)).config["model_type"] == "olmo3")
        config = golden_file.published_config(golden.config) | {"rope_theta": 4000.0}
        with tempfile.TemporaryDirectory() as temp:
            folder, file, out = Path(temp) / "source", Path(temp) / "m.gguf", Path(temp) / "out.bin"
            golden_convert.directory(folder, golden, config, True)
            state = safetensors.numpy.load_file(folder / "model.safetensors")
            vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
            gguf_writer.write(file, config, state, list(vocabulary))
            for base, words in ((4000.0, []), (900.0, ["--set", "rope_theta=900"])):
                self.convert(file, out, *words)
                freq = WeightsFile(out).config["rope.1.inv_freq"]
                np.testing.assert_allclose(freq, base ** (-np.arange(len(freq)) / len(freq)), rtol=1e-6)

    def test_columns_of_quantized_matrices(self):
        """Whole groups of columns change places as they are; parts of groups only as f32."""
        x = np.random.default_rng(5).standard_normal((16, 96), "f4")
        for d, kind in ((32, tiles.Q8), (16, tiles.F32)):
            order = np.arange(96).reshape(-1, d)[::-1].ravel()
            with self.subTest(d), tempfile.TemporaryDirectory() as temp:
                path = Path(temp) / "rows"
                path.write_bytes(gguf_writer.gguf.quants.quantize(x, gguf_writer.gguf.GGMLQuantizationType.Q8_0).tobytes())
                entry = Entry("w", "Q8_0", (16, 96), File(path), 0)
                both = [
                    places.matrix(Slot("w", 16, 96), [places.Place("w", (16, 96), columns=columns)], {"w": entry}, "", lambda e: FORMATS[e.dtype])
                    for columns in (None, order)
                ]  # fmt: skip
                plain, changed = (tiles.values(m.kind, m.read(0, 16), 96) for m in both)
            self.assertEqual(both[1].kind, kind)
            np.testing.assert_array_equal(changed, plain[:, order])

    def both_ways(self, stem: str, changes: dict, *words: str) -> str:
        """A golden model with another config: what the GGUF file becomes equals what the folder becomes."""
        golden = golden_file.read(ROOT / "tests" / "golden" / (stem + ".txt"))
        config = golden_file.published_config(golden.config) | changes
        with tempfile.TemporaryDirectory() as temp:
            folder, file = Path(temp) / "source", Path(temp) / "m.gguf"
            golden_convert.directory(folder, golden, config, True)
            state = safetensors.numpy.load_file(folder / "model.safetensors")
            vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
            gguf_writer.write(file, config, state, list(vocabulary))
            self.convert(folder, folder.with_suffix(".bin"))
            said = self.convert(file, file.with_suffix(".bin"), *words)
            self.same(WeightsFile(file.with_suffix(".bin")), WeightsFile(folder.with_suffix(".bin")))
        return said

    def test_scales_of_phimoe(self):
        """GGUF has no key for what cos and sin are multiplied by."""
        scaling = {"type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], "long_factor": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
                   "original_max_position_embeddings": 64}  # fmt: skip
        jitter = ("--set", "router_jitter_noise=0.2")
        for scale, words in ((1.243163121016122, ()), (1.5, ("--set", "short_mscale=1.5"))):
            both = scaling | {"short_mscale": scale, "long_mscale": scale}
            said = self.both_ways("phimoe", {"rope_scaling": both}, *jitter, *words)
            self.assertEqual("does not say short_mscale" in said, not words)

    def test_lfm2_without_biases(self):
        """GGUF has none for convolutions."""
        kinds = golden_file.read(ROOT / "tests" / "golden" / "lfm2.txt").config["layer_types"]
        self.both_ways("lfm2", {"conv_bias": False, "layer_types": kinds})

    def test_scaling_of_laguna(self):
        """It is that of the layers that see all, alone."""
        full = {"rope_theta": 5000.0, "partial_rotary_factor": 0.5, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
        self.both_ways("laguna", {"rope_parameters": {"full_attention": full, "sliding_attention": {"rope_theta": 10000.0}}})

    def test_means_of_experts(self):
        """Cohere's files have sigmoid scores, and the mean of chosen and shared experts."""
        self.both_ways("cohere2-moe", {"expert_selection_fn": "sigmoid"})
        self.both_ways("cohere2-moe", {"expert_selection_fn": "sigmoid", "norm_topk_prob": False})

    def test_every_architecture_is_here(self):
        written = {gguf_writer.gguf.MODEL_ARCH_NAMES[getattr(gguf_writer.gguf.MODEL_ARCH, a)] for a in gguf_writer.ARCHES.values()}
        written.update(gguf_writer.NEWER.values())
        self.assertEqual(written, {name.split("+")[0] for name in ARCHITECTURES})


def test_of(path: Path):
    return lambda self: self.hold(golden_file.read(path))


for each in golden_convert.GOLDEN:
    if each.stem in ("llama-dynamic", "starcoder2-relu", "olmoe-clip", "phi-norms", "falcon-rw", "gpt-bigcode-mha", "deepseek-v2"):
        continue  # GGUF has no word for this scaling, this activation, this clip, these norms, Falcon's alibi and two mscales
    if each.stem.startswith("mtp-"):
        continue  # their rows are of layers that guess further tokens
    if each.stem in ("lfm2", "falcon-h1-norm", "granite4"):
        continue  # nor for biases of convolutions and a norm before the gate; Granite 4 without Mamba2 is a granite file
    if each.stem in ("cohere2-moe", "cohere2-moe-rms"):
        continue  # nor for experts chosen by a softmax, or added to the shared one
    if golden_file.read(each).config["model_type"] not in {**gguf_writer.ARCHES, **gguf_writer.NEWER}:
        continue  # nor for this family
    setattr(GoldenGguf, "test_" + each.stem.replace("-", "_"), test_of(each))
del golden_convert.GoldenModels  # its tests run in their own file

if __name__ == "__main__":
    unittest.main()
