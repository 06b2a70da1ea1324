"""convert.py --lora: adapters as PEFT writes them, merged. Numbers are such that f32 has every sum, so the expected
values do not depend on any order. What PEFT itself makes of such folders was compared once (tools/README.md)."""

import json
import unittest
import unittest.mock
from pathlib import Path

import numpy as np

from convert_case import HF, SMALL, Case, huggingface, llama2c, run, safetensors_file, tensors, tokenizer_bin
from tern.convert.families import names
from tern.weights import tiles
from tern.weights import writer as weights

BEFORE = "base_model.model."
CONFIG = {
    "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "down_proj"],
    "bias": "none", "fan_in_fan_out": False, "use_rslora": False, "use_dora": False, "modules_to_save": None,
    "rank_pattern": {}, "alpha_pattern": {}, "init_lora_weights": True, "lora_dropout": 0.1, "loftq_config": {},
    "layer_replication": None, "trainable_token_indices": None, "peft_version": "0.21.2",
}  # fmt: skip


def module(name: str) -> str:
    """The module of a tensor of ours, as PEFT names it."""
    return BEFORE + names.source_name(HF, name).removesuffix(".weight")


def pair(name: str, shape: tuple[int, int], rank: int = 4, seed: int = 5) -> dict[str, np.ndarray]:
    """A and B of a module whose tensor has this shape."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-8, 9, s).astype("f4") / 64 for s in ((rank, shape[1]), (shape[0], rank)))
    return {f"{module(name)}.lora_A.weight": a, f"{module(name)}.lora_B.weight": b}


def product(adapter: dict[str, np.ndarray], name: str) -> np.ndarray:
    return adapter[f"{module(name)}.lora_B.weight"] @ adapter[f"{module(name)}.lora_A.weight"]


class Lora(Case):
    def setUp(self):
        super().setUp()
        self.values = tensors(SMALL)
        self.source = huggingface(self.dir / "hf", SMALL, self.values)
        self.q, self.down = "layer.1.q", "layer.0.down"
        self.held = pair(self.q, (48, 48)) | pair(self.down, (48, 80))

    def adapter(self, values: dict[str, np.ndarray], name: str = "adapter", dtype: str = "float32", **config) -> Path:
        folder = self.dir / name
        folder.mkdir(exist_ok=True)
        (folder / "adapter_config.json").write_text(json.dumps(CONFIG | config))
        safetensors_file(folder / "adapter_model.safetensors", values, dtype)
        return folder

    def merged(self, scales: dict[str, float], held: dict[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        held = self.held if held is None else held
        return self.values | {n: self.values[n] + np.float32(s) * product(held, n) for n, s in scales.items()}

    def test_scales_of_all_kinds(self):
        want = self.merged({self.q: 2, self.down: 2})
        w = self.converted(self.source, "--lora", self.adapter(self.held), "--check")
        self.same(w, want, tiles.F32)
        self.assertEqual(w.keys("provenance")["source"], b"Hugging Face directory hf, llama, LoRA adapter adapter")
        half = self.converted(self.source, "--lora", f"{self.adapter(self.held)}:0.25")
        self.same(half, self.merged({self.q: 0.5, self.down: 0.5}), tiles.F32)
        self.same(self.converted(self.source, "--lora", f"{self.adapter(self.held, 'a:1', use_rslora=True)}"),
                  self.merged({self.q: 4, self.down: 4}), tiles.F32)  # fmt: skip
        patterns = self.adapter(self.held, rank_pattern={r"layers\.0\.mlp\.down_proj": 4}, alpha_pattern={"down_proj": 16}, r=4)
        self.same(self.converted(self.source, "--lora", patterns), self.merged({self.q: 2, self.down: 4}), tiles.F32)

    def test_several_adapters(self):
        other = pair(self.q, (48, 48), 2, 9)
        want = self.merged({self.q: 2, self.down: 2})
        want[self.q] = want[self.q] - np.float32(0.5) * product(other, self.q)
        second = self.adapter(other, "second", r=2, lora_alpha=2, target_modules="all-linear")
        w = self.converted(self.source, "--lora", self.adapter(self.held), "--lora", f"{second}:-0.5")
        self.same(w, want, tiles.F32)

    def test_types(self):
        """Merged in f32; the type of the base where none is asked for, rounded once; the same in pieces of any size."""
        source = huggingface(self.dir / "half", SMALL, self.values, "bfloat16")
        want = self.merged({self.q: 2, self.down: 2})
        adapter = self.adapter(self.held, dtype="bfloat16")
        rounded = {n: tiles.values(tiles.BF16, tiles.bits(tiles.BF16, x), x.shape[-1]) if x.ndim > 1 else x for n, x in want.items()}
        self.assertFalse(np.array_equal(rounded[self.q], want[self.q]))
        self.same(self.converted(source, "--lora", adapter), rounded, tiles.BF16)
        w = self.converted(source, "--lora", adapter, "--type", "f32")
        self.same(w, want, tiles.F32)
        whole = self.out.read_bytes()
        with unittest.mock.patch.object(weights, "PIECE_BYTES", 1):
            self.converted(source, "--lora", adapter, "--type", "f32")
        self.assertEqual(whole, self.out.read_bytes())

    def test_dora(self):
        magnitude = np.linspace(0.5, 2, 48, dtype="f4")
        held = pair(self.q, (48, 48)) | {module(self.q) + ".lora_magnitude_vector": magnitude}
        w = self.converted(self.source, "--lora", self.adapter(held, use_dora=True))
        x = self.values[self.q] + 2 * product(held, self.q)
        want = x * (magnitude / np.linalg.norm(x, axis=1))[:, None]
        np.testing.assert_allclose(w.values(self.q), want, rtol=1e-6)
        self.assertIn("use_dora does not agree", self.refused(self.source, "--lora", self.adapter(held)))

    def test_whole_tensors(self):
        head = self.values["head"] + 1
        held = self.held | {module("head") + ".weight": head}
        w = self.converted(self.source, "--lora", self.adapter(held, modules_to_save=["lm_head"]))
        self.same(w, self.merged({self.q: 2, self.down: 2}) | {"head": head}, tiles.F32)
        said = self.refused(self.source, "--lora", f"{self.adapter(held)}:0.5", code=2)
        self.assertIn("'lm_head.weight', which a scale does not fit", said)
        other = self.adapter(held | {module("head") + ".weight": head + 1}, "b")
        said = self.refused(self.source, "--lora", self.adapter(held), "--lora", other)
        self.assertIn("another adapter changes it", said)

    def test_embedding_that_was_the_head(self):
        """The adapter changed one of the two, so they are two now."""
        c = SMALL | {"tie_word_embeddings": True}
        self.values = tensors(c)
        source = huggingface(self.dir / "tied", c, self.values)
        rng = np.random.default_rng(3)
        a, b = (rng.integers(-8, 9, s).astype("f4") / 64 for s in ((4, 300), (48, 4)))
        name = BEFORE + "model.embed_tokens"
        held = {name + ".lora_embedding_A": a, name + ".lora_embedding_B": b, name + ".base_layer.weight": self.values["embed"]}
        w = self.converted(source, "--lora", f"{self.adapter(held)}:0.5")
        np.testing.assert_array_equal(w.values("embed"), self.values["embed"] + (b @ a).T)
        np.testing.assert_array_equal(w.values("head"), self.values["embed"])
        self.assertEqual(w.config["head_tied"], 0)
        head = pair("head", (300, 48))
        w = self.converted(source, "--lora", self.adapter(head))
        np.testing.assert_array_equal(w.values("embed"), self.values["embed"])
        np.testing.assert_array_equal(w.values("head"), self.values["embed"] + 2 * product(head, "head"))
        plain = self.converted(source, "--lora", self.adapter(self.held))
        self.assertEqual(plain.config["head_tied"], 1)

    def test_what_does_not_fit_is_named(self):
        a = module(self.q) + ".lora_A.weight"
        unknown = {n.replace("q_proj", "w_proj"): x for n, x in self.held.items()}
        odd = {BEFORE + "model.norm.extra": np.ones(3, "f4")}
        lone = {n: x for n, x in self.held.items() if n != a}
        for said, held, config in (
            ("changes 'model.layers.1.self_attn.w_proj', but the model has no tensor", unknown, {}),
            ("holds 'model.norm.extra', which is not a tensor of the model", self.held | odd, {}),
            ("lacks lora_A of 'model.layers.1.self_attn.q_proj'", lone, {}),
            ("is [48, 40], but 'model.layers.1.self_attn.q_proj.weight' of the model is [48, 48]", pair(self.q, (48, 40)), {}),
            ("A of 'model.layers.1.self_attn.q_proj' is [3, 48] and B [48, 4]", self.held | {a: np.ones((3, 48), "f4")}, {}),
            ("is 4, but adapter_config.json says 8", self.held, {"r": 8}),
            ("the rank of 'model.layers.0.mlp.down_proj' is 4", self.held, {"rank_pattern": {"down_proj": 3}}),
            ("r is '4'", self.held, {"r": "4"}),
            ("lora_alpha nan", self.held, {"lora_alpha": float("nan")}),
            ("is not a pattern", self.held, {"alpha_pattern": {"(": 3}}),
            ("peft_type is 'LOHA'", self.held, {"peft_type": "LOHA"}),
            ("the key 'layer_replication'", self.held, {"layer_replication": [[0, 1]]}),
            ("the key 'next_idea' (7)", self.held, {"next_idea": 7}),
            ("init_lora_weights is 'pissa'", self.held, {"init_lora_weights": "pissa"}),
            ("use_rslora is 1", self.held, {"use_rslora": 1}),
            ("use_dora does not agree", self.held, {"use_dora": True}),
            ("which no LoRA adapter has", self.held | {"model.q.lora_A.weight": np.ones((4, 4), "f4")}, {}),
            ("which no LoRA adapter has", self.held | {BEFORE + "q.lora_C.weight": np.ones((4, 4), "f4")}, {}),
            ("the bias of 'model.layers.1.self_attn.q_proj'", self.held | {module(self.q) + ".lora_B.bias": np.ones(48, "f4")}, {}),
        ):  # fmt: skip
            with self.subTest(said):
                if "nan" in said:
                    said = "holds NaN, which is not JSON"
                self.assertIn(said, self.refused(self.source, "--lora", self.adapter(held, **config)))

    def test_what_is_no_adapter(self):
        folder = self.dir / "empty"
        folder.mkdir()
        self.assertIn("has no adapter_config.json", self.refused(self.source, "--lora", folder, code=2))
        (folder / "adapter_config.json").write_text(json.dumps(CONFIG))
        self.assertIn("has no adapter_model.safetensors", self.refused(self.source, "--lora", folder))
        (folder / "adapter_model.bin").write_bytes(b"PK")
        self.assertIn("PyTorch pickle", self.refused(self.source, "--lora", folder))
        self.assertIn("is not a folder", self.refused(self.source, "--lora", self.dir / "nothing:2", code=4))
        self.assertIn("must be a number", self.refused(self.source, "--lora", f"{folder}:inf", code=2))
        tokenizer_bin(self.dir / "tokenizer.bin")
        checkpoint = llama2c(self.dir / "m.bin", SMALL, self.values, 1)
        self.assertIn("needs a Hugging Face directory", self.refused(checkpoint, "--lora", self.adapter(self.held), code=2))
        said = self.refused(self.source, "--lora", self.adapter(self.held), "--reference-logits", code=2)
        self.assertIn("without --lora", said)
        target = self.adapter(self.held) / "adapter_model.safetensors"
        before = target.read_bytes()
        code, _, err = run(self.source, target, "--lora", target.parent)
        self.assertEqual((code, target.read_bytes()), (2, before), err)

    def test_conv1d_of_gpt2(self):
        """Its matrices are stored [in, out]."""
        from tern.convert.files import safetensors
        from tern.convert.sources import lora

        a, b = np.arange(8, dtype="f4").reshape(2, 4) / 8, np.arange(8, dtype="f4").reshape(4, 2) / 4
        base = np.arange(16, dtype="f4").reshape(4, 4)
        safetensors_file(self.dir / "base", {"transformer.h.0.c.weight": base, "transformer.h.0.c.bias": base[0]})
        name = BEFORE + "transformer.h.0.c"
        held = {name + ".lora_A.weight": a, name + ".lora_B.weight": b, name + ".lora_B.bias": a[0]}
        for turned in (True, False):
            entries = safetensors.read(self.dir / "base")
            adapter = lora.named(str(self.adapter(held, fan_in_fan_out=turned, r=2, lora_alpha=2, lora_bias=True)))
            lora.merge([adapter], entries, lambda n: n, True, [])
            got = np.frombuffer(entries["transformer.h.0.c.weight"].file.read(0, 64), "f4").reshape(4, 4)
            np.testing.assert_array_equal(got, base + ((b @ a).T if turned else b @ a))
            part = entries["transformer.h.0.c.weight"].file.read(7, 22)
            self.assertEqual(bytes(part), got.tobytes()[7:29])
            got = np.frombuffer(entries["transformer.h.0.c.bias"].file.read(0, 16), "f4")
            np.testing.assert_array_equal(got, base[0] + a[0])


if __name__ == "__main__":
    unittest.main()
