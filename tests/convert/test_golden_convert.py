"""The golden models through the converter: their Hugging Face directories, with config.json as transformers 5 writes
it and as models were published before, converted, run by libtern.so, held to the logits of transformers.

What test_golden.c proves of the engine, this proves of config.json: each key must arrive as the right feature.
"""

import contextlib
import io
import itertools
import json
import os
import re
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import numpy as np
import safetensors.numpy

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import convert  # noqa: E402
from tern import library as engine  # noqa: E402
from tern.convert.families import places  # noqa: E402
from tern.convert.families.config import Config  # noqa: E402
from tern.convert.families.families import FAMILIES  # noqa: E402
from tern.convert.families.features import check_config, slots  # noqa: E402
from tern.convert.families.layouts import Layout  # noqa: E402
from tern.convert.sources import huggingface  # noqa: E402
from tern.errors import ConvertError  # noqa: E402
from tern.testing import golden_file  # noqa: E402
from tern.weights.reader import WeightsFile  # noqa: E402

GOLDEN = sorted(path for path in (ROOT / "tests" / "golden").glob("*.txt") if path.stem not in ("fingerprints", "graphs"))
LIBRARY = Path(os.environ.get("BUILD", "build")) / "libtern.so"
BOUND = 1e-4
# In the names that tensors have in published files alone
EXPERTS = ("block_sparse_moe.e_", "block_sparse_moe.gate.", "block_sparse_moe.shared_", "block_sparse_moe.router.", "block_sparse_moe.input_",
           "block_sparse_moe.output_", "experts.0.", "mlp.moe_statics.", "mlp.e_score_correction_bias", "mlp.shared_mlp.", "mlp.router.gate.",
           "mlp.expert_bias", "moe.router.", "post_attn_norm", "post_ffn_norm", "softmax_offset", "post_mlp_layernorm",
           "experts.fc", "_conv1d.", "self_attn.f_", "self_attn.dt_bias", "self_attn.A_log")  # fmt: skip


def tokenizer_json(vocab: int) -> dict:
    """A tokenizer that has `vocab` letters and nothing else; the golden prompts are ids."""
    letters = {chr(0x21 + i): i for i in range(vocab - 2)} | {"<s>": vocab - 2, "</s>": vocab - 1}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": letters, "merges": []},
    }  # fmt: skip


def directory(folder: Path, golden: golden_file.Golden, config: dict, published: bool) -> None:
    """The golden model as a Hugging Face directory; published models have a tensor for each expert."""
    folder.mkdir()
    kind = config["model_type"]
    features = FAMILIES[kind].features(Config("golden", dict(config), FAMILIES[kind].aliases, rope_length=golden.prompt + len(golden.greedy) - 1))
    layout, state, weights = Layout(kind, features, lambda name: published and any(part in name for part in EXPERTS)), {}, golden.weights()
    for slot in slots(features):
        places.put(state, slot, layout.places(slot), weights[slot.name])
    if published and kind in huggingface.BACKBONES:
        state = {re.sub(r"^model\.", "backbone.", name): x for name, x in state.items()}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(golden.keys["vocab"])))
    safetensors.numpy.save_file(state, folder / "model.safetensors")


class GoldenModels(unittest.TestCase):
    """One test per golden file, made below."""

    def hold(self, golden: golden_file.Golden, config: dict, published: bool) -> None:
        ids = golden.tokens()[:-1]
        with tempfile.TemporaryDirectory() as temp, contextlib.redirect_stdout(io.StringIO()) as said:
            source, out = Path(temp) / "source", Path(temp) / "out.bin"
            directory(source, golden, config, published)
            dynamic = "dynamic" in json.dumps(config) and "alpha" not in json.dumps(config)  # by alpha: for any length
            length = ["--rope-length", str(golden.prompt + len(golden.greedy) - 1)] if dynamic else []
            self.assertEqual(convert.main([str(source), str(out), *length]), 0, said.getvalue())
            with engine.Engine(LIBRARY, out, len(ids)) as e:
                logits = e.logits(ids, golden.prompt)
        self.assertGreaterEqual(len(golden.rows), 6)
        for at, row in golden.rows.items():
            self.assertLessEqual(np.abs(logits[at] - row).max(), BOUND * np.abs(row).max(), f"position {at}")
        self.assertEqual(logits[golden.prompt - 1 :].argmax(-1).tolist(), golden.greedy)


# Keys of published files that transformers does not read: what it computes, and what would be something else.
PUBLISHED = {
    "llama": ({"auto_map": {}, "model_max_length": 9, "attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1}, {}),
    "phi3": (
        {"full_attn_mod": 1, "interpolate_factor": 1, "lm_head_bias": False},
        {"full_attn_mod": 2, "interpolate_factor": 2, "lm_head_bias": True},
    ),
    "gpt_oss": ({"experts_per_token": None, "initial_context_length": 4096}, {"experts_per_token": 99}),
    "gemma2": ({"sliding_window_size": None}, {"sliding_window_size": 99}),
    "smollm3": ({"max_window_layers": 28}, {}),
    "starcoder2": (
        {"activation_function": "gelu_pytorch_tanh", "attention_softmax_in_fp32": True, "layer_norm_epsilon": 1e-5,
         "mlp_type": "default", "norm_type": "layer_norm", "scale_attention_softmax_in_fp32": True,
         "scale_attn_weights": True},
        {"activation_function": "relu", "layer_norm_epsilon": 1e-3, "mlp_type": "gated", "norm_type": "rms_norm",
         "scale_attn_weights": False},
    ),
    "cohere2": (
        {"layer_switch": 4, "order_of_interleaved_layers": "local_attn_first", "position_embedding_type": "rope_gptj",
         "rotary_pct": 1.0, "use_embedding_sharing": True, "use_gated_activation": True, "use_parallel_block": True,
         "use_parallel_embedding": False},
        {"layer_switch": 99, "order_of_interleaved_layers": "x", "position_embedding_type": "alibi", "rotary_pct": 0.5,
         "use_embedding_sharing": False, "use_gated_activation": False, "use_parallel_block": False},
    ),
    "ernie4_5": (
        {"compression_ratio": 1.0, "fuse_rms_norm": True, "use_flash_attention": True, "use_rmsnorm": True,
         "weight_share_add_bias": True},
        {"compression_ratio": 2.0, "use_rmsnorm": False},
    ),
    "stablelm": (
        {"norm_eps": 1e-5, "num_heads": None, "rope_pct": None, "rotary_scaling_factor": 1.0},
        {"norm_eps": 1e-3, "num_heads": 99, "rope_pct": 0.75, "rotary_scaling_factor": 2.0},
    ),
    "gemma3_text": ({}, {"attn_logit_softcapping": 50.0}),
    "olmo": ({"layer_norm_eps": 1e-5}, {"layer_norm_eps": 1e-6}),
    "qwen3_5_text": (
        {"attn_output_gate": True, "mlp_only_layers": [], "mtp_num_hidden_layers": 1, "mamba_ssm_dtype": "float32"},
        {"attn_output_gate": False, "mlp_only_layers": [1]},
    ),
    "qwen3_5_moe_text": ({"norm_topk_prob": True}, {"norm_topk_prob": False}),
    "kimi_linear": (
        {"mla_use_nope": True, "use_grouped_topk": True, "moe_router_activation_func": "sigmoid", "rope_theta": 1e4,
         "rope_scaling": None, "moe_layer_freq": 1},
        {"mla_use_nope": False, "moe_layer_freq": 2},
    ),
    "granitemoehybrid": (
        {"init_method": "mup", "normalization_function": "rmsnorm"},
        {"normalization_function": "layernorm", "time_step_limit": [0.0, 1.0]},
    ),
    "lfm2": (
        {"block_dim": 40, "block_mlp_init_scale": 1.0, "block_norm_eps": 1e-5, "block_out_init_scale": 1.0, "block_use_swiglu": True,
         "block_use_xavier_init": True, "conv_dim": 40, "conv_dim_out": 40, "conv_use_xavier_init": True, "num_heads": 4,
         "tie_embedding": True, "use_pos_enc": True},
        {"block_dim": 99, "block_norm_eps": 1e-3, "block_use_swiglu": False, "conv_dim": 99, "conv_dim_out": 99, "num_heads": 99,
         "use_pos_enc": False},
    ),
    "nemotron_h": (
        {"attention_head_dim": 10, "norm_eps": 1e-5, "num_query_groups": 2, "rms_norm_eps": 1e-5, "time_step_rank": 9},
        {"attention_head_dim": 99, "norm_eps": 1e-3, "rms_norm_eps": 1e-3, "use_bias": True},
    ),
    "mixtral": ({}, {"num_local_experts": 1}),  # of which a token would use 2
    "aria_text": ({}, {"hidden_act": "gelu"}),  # of the shared experts alone
    "bloom": (
        {"pretraining_tp": 4, "slow_but_exact": False},
        {"slow_but_exact": True, "num_key_value_heads": 3, "hidden_act": "relu"},
    ),
    "mpt": ({}, {"hidden_act": "relu"}),
    "gpt2": ({}, {"num_key_value_heads": 2}),
    "gptj": ({}, {"rope_theta": 77.0, "rope_scaling": {"type": "linear", "factor": 4.0}, "partial_rotary_factor": 0.5}),
    "gpt_neox_japanese": ({}, {"num_key_value_heads": 1}),
    "dbrx": ({}, {"hidden_act": "relu", "rope_scaling": {"type": "linear", "factor": 4.0}}),
    "nanochat": ({}, {"attn_logit_softcapping": 50.0}),
    "gemma4_text": ({}, {"attn_logit_softcapping": 50.0}),
    "gemma3n_text": ({}, {"attn_logit_softcapping": 50.0}),
    "phimoe": ({}, {"num_experts_per_tok": 3}),  # SparseMixer takes two
}  # fmt: skip
PUBLISHED["cohere"] = tuple({k: v for k, v in d.items() if k != "layer_switch"} for d in PUBLISHED["cohere2"])
SAME = {
    "experts_per_token": "num_experts_per_tok", "sliding_window_size": "sliding_window",
    "num_heads": "num_attention_heads", "rope_pct": "partial_rotary_factor",
}  # fmt: skip


class PublishedKeys(unittest.TestCase):
    def features(self, config: dict) -> dict:
        with tempfile.TemporaryDirectory() as temp:
            return huggingface.features(self.written(Path(temp), config), 64, [])[1]

    def written(self, folder: Path, config: dict) -> Path:
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    def configs(self) -> dict:
        """The golden config with the shortest name of each family, as published."""
        out = {}
        for path in sorted(GOLDEN, key=lambda path: (len(path.stem), path.stem)):
            config = golden_file.published_config(golden_file.read(path).config)
            out.setdefault(config["model_type"], config)
        return out

    def test_keys_that_the_reference_does_not_read(self):
        configs = self.configs()
        self.assertEqual(set(PUBLISHED) - set(configs), set())
        for kind, (fine, wrong) in PUBLISHED.items():
            fine = {key: configs[kind][SAME[key]] if key in SAME else value for key, value in fine.items()}
            with self.subTest(kind):
                wanted = self.features(configs[kind])
                np.testing.assert_equal(self.features(configs[kind] | fine), wanted)
            for key, value in wrong.items():
                with self.subTest(kind, key=key), self.assertRaises(ConvertError) as refused:
                    self.features(configs[kind] | fine | {key: value})
                self.assertIn("1 experts" if kind == "mixtral" else key, str(refused.exception))

    def test_proportional_turns_of_latent_attention(self):
        config = self.configs()["deepseek_v3"] | {"rope_scaling": {"rope_type": "proportional", "partial_rotary_factor": 0.25}}
        self.assertEqual([f > 0 for f in self.features(config)["rope.0.inv_freq"]], [True] + [False] * 4)

    def test_dense_layer_of_kimi_linear_as_transformers_saves_it(self):
        shape = self.features(self.configs()["kimi_linear"])
        name = "model.layers.0.block_sparse_moe.gate_proj.weight"
        gate = next(slot for slot in slots(shape) if slot.name == "layer.0.gate")
        self.assertEqual([place.name for place in Layout("kimi_linear", shape, lambda other: other == name).places(gate)], [name])

    def test_tied_head_of_the_whole(self):
        config = {"model_type": "qwen3_5", "tie_word_embeddings": True, "text_config": self.configs()["qwen3_5_text"]}
        self.assertEqual(self.features(config)["head_tied"], 1)

    def test_values_of_wrong_kinds(self):
        """Any value of any key, of every family, in both spellings: features, or one sentence that was meant."""
        wrong = ([], {}, "x", None, -1, True, 0.5, 10**30, [[1]], ["llama"], float("nan"))
        extra = {"rope_parameters": None, "rope_scaling": None, "mlp_only_layers": None, "original_max_position_embeddings": None}
        configs = [c for path in GOLDEN for c in (golden_file.read(path).config, golden_file.published_config(golden_file.read(path).config))]
        configs = {(c["model_type"], *sorted(c)): c for c in configs}.values()
        folder = self.written(Path(self.enterContext(tempfile.TemporaryDirectory())), {})
        changed: dict = {}
        self.enterContext(unittest.mock.patch.object(huggingface, "read_object", lambda *_: changed))
        for config in configs:
            tables = [key for key, value in config.items() if isinstance(value, dict)]
            places = [(key,) for key in config | extra] + [(key, inner) for key in tables for inner in config[key]]
            for (key, *inner), value in itertools.product(places, wrong):
                changed = config | {key: config[key] | {inner[0]: value} if inner else value}
                try:
                    huggingface.features(folder, 64, [])
                except ConvertError as e:
                    self.assertNotIn("of a kind that is not known here", str(e), (config["model_type"], key, inner, value))

    def test_numbers_that_are_not_finite(self):
        """As Python's json writes them, and as transformers does; where a number matters it must be finite."""
        config = self.configs()["llama"]
        wanted = self.features(config)
        for value in (float("inf"), {"__float__": "-Infinity"}, {"__float__": "NaN"}):
            np.testing.assert_equal(self.features(config | {"initializer_range": value}), wanted)
            with self.assertRaisesRegex(ConvertError, "rms_norm_eps is -?(inf|nan); it must be a number above 0"):
                self.features(config | {"rms_norm_eps": value})
        with self.assertRaisesRegex(ConvertError, "rms_norm_eps is {'__float__': 'x'}"):
            self.features(config | {"rms_norm_eps": {"__float__": "x"}})

    def rope_of(self, kind: str, **keys) -> tuple[list, list[str]]:
        """The second frequency of each set, which is base^(-2 / dims) / factor, and the notes. None leaves a key out."""
        config, notes = self.configs()[kind] | keys, []
        with tempfile.TemporaryDirectory() as temp:
            folder = self.written(Path(temp), {k: v for k, v in config.items() if v is not None})
            _, f, _ = huggingface.features(folder, None, notes)
        return [f[f"rope.{i}.inv_freq"][1] for i in range(2) if f"rope.{i}.inv_freq" in f], notes

    def test_two_spellings_of_rope(self):
        """Of two that contradict each other, the one that transformers 5 takes, or a refusal by name."""
        none = {"rope_theta": None, "rope_scaling": None, "rope_local_base_freq": None}
        flat = {"rope_type": "linear", "factor": 8.0, "rope_theta": 7.0}
        for kind, base, local in (("gemma3_text", 1e6, 1e4), ("olmo3", 5e5, 5e5)):
            config = self.configs()[kind]
            dims = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
            wave = lambda b, factor=1: b ** (-2 / dims) / factor  # noqa: E731
            nested = {"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 900.0},
                      "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}  # fmt: skip
            for given, want, beside in (
                ({"rope_parameters": nested}, (wave(900, 2), wave(50)), False),
                ({"rope_parameters": nested | flat}, (wave(900, 2), wave(50)), True),
                ({"rope_parameters": flat}, (wave(base), wave(local)), True),
                ({"rope_parameters": nested, "rope_scaling": {"factor": 4.0}}, (wave(900, 4), wave(50)), False),
                ({"rope_parameters": {"full_attention": nested["full_attention"]}}, (wave(900, 2), wave(local)), False),
            ):
                with self.subTest(kind, given=given):
                    got, notes = self.rope_of(kind, **none | given)
                    np.testing.assert_allclose(got, want, rtol=1e-12)
                    self.assertEqual([note.count("'factor', 'rope_theta', 'rope_type' outside") for note in notes], [1] * beside)
            for given, word in (
                ({"rope_parameters": nested, "original_max_position_embeddings": 16}, "original_max_position_embeddings"),
                ({"rope_parameters": {"full_attention": {"partial_rotary_factor": 0.5}}}, "partial_rotary_factor"),
                ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "type is 'linear', but rope_type is 'default'"),
            ):
                with self.subTest(kind, given=given), self.assertRaisesRegex(ConvertError, word):
                    self.rope_of(kind, **none | given)
        none |= {"rotary_emb_base": None, "rotary_pct": None}
        self.assertEqual(self.rope_of("gpt_neox", **none, rope_parameters={"rope_theta": 900.0, "partial_rotary_factor": 1.0}),
                         self.rope_of("gpt_neox", **none | {"rotary_emb_base": 900.0, "rotary_pct": 1.0}))  # fmt: skip
        for kind, key in (("gpt_neox", "rope_theta"), ("gpt_neox", "partial_rotary_factor"), ("olmo3", "rope_local_base_freq")):
            with self.subTest(kind, key=key), self.assertRaisesRegex(ConvertError, key):
                self.rope_of(kind, **none | {"rotary_pct": 1.0 if kind == "gpt_neox" else None, key: 0.5})
        for kind, base in (("mixtral", 1e6), ("cohere", 5e5), ("cohere2", 1e4)):  # the defaults of transformers 5
            self.assertEqual(self.rope_of(kind, **none), self.rope_of(kind, **none | {"rope_theta": base}))

    def test_activation_of_gemma_1(self):
        """As transformers 5 reads it: GemmaConfig makes gelu the tanh form, and the model computes with hidden_act alone."""
        config = self.configs()["gemma"]
        for act, other, want, says in (
            ("gelu", "gelu_pytorch_tanh", "gelu_tanh", False),
            ("gelu", None, "gelu_tanh", False),
            ("gelu_pytorch_tanh", None, "gelu_tanh", False),
            ("gelu", "silu", "gelu_tanh", True),
            ("silu", "gelu_pytorch_tanh", "silu", True),
            ("gelu", [], "gelu_tanh", True),
        ):
            with tempfile.TemporaryDirectory() as temp, self.subTest(act, other=other):
                notes: list[str] = []
                changed = config | {"hidden_act": act, "hidden_activation": other}
                _, features, _ = huggingface.features(self.written(Path(temp), changed), None, notes)
                self.assertEqual(features["activation"], want)
                self.assertEqual(["hidden_activation" in note for note in notes], [True] * says)

    def test_one_expert_is_no_choice(self):
        """A Mixtral of one expert computes what a Mistral does."""
        golden = next(g for path in GOLDEN if (g := golden_file.read(path)).config["model_type"] == "mixtral")
        base = golden_file.published_config(golden.config) | {"num_local_experts": 1, "num_experts_per_tok": 1}
        mistral = {k: v for k, v in base.items() if "experts" not in k and not k.startswith("router")}
        mistral |= {"model_type": "mistral", "architectures": ["MistralForCausalLM"]}
        ids, found = golden.tokens()[:8], []
        for config in (base, mistral):
            with tempfile.TemporaryDirectory() as temp, contextlib.redirect_stdout(io.StringIO()):
                source, out, rng = Path(temp) / "source", Path(temp) / "out.bin", np.random.default_rng(3)
                source.mkdir()
                kind, features, _ = huggingface.features(self.written(source, config), None, [])
                layout, state = Layout(kind, features, lambda name: any(part in name for part in EXPERTS)), {}
                for slot in slots(features):
                    shape = (slot.rows,) if slot.vector else (slot.rows, slot.k)
                    router = slot.name.endswith("router")
                    values = np.ones(shape, "f4") if router else rng.standard_normal(shape, "f4") / 8
                    places.put(state, slot, layout.places(slot), values)
                single = "model.layers.0.block_sparse_moe.experts.0.w1.weight"
                self.assertEqual(single in state, kind == "mixtral")
                (source / "tokenizer.json").write_text(json.dumps(tokenizer_json(golden.keys["vocab"])))
                safetensors.numpy.save_file(state, source / "model.safetensors")
                self.assertEqual(convert.main([str(source), str(out)]), 0)
                with engine.Engine(LIBRARY, out, len(ids)) as e:
                    found.append(np.array(e.logits(ids, 1)))
        np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)

    def test_kinds_of_layers_in_an_object(self):
        """Kimi Linear's published files count layers from 1, and state sizes beside them."""
        config = self.configs()["kimi_linear"]
        kinds, sizes = config["layer_types"], {"head_dim": "head_dim", "num_heads": "num_heads", "conv_kernel_dim": "short_conv_kernel_size"}
        stated = {theirs: config[f"linear_{ours}"] for ours, theirs in sizes.items()}
        for key, kind in (("full_attn_layers", "full_attention"), ("kda_layers", "linear_attention")):
            stated[key] = [i + 1 for i, k in enumerate(kinds) if k == kind]
        old = {key: value for key, value in config.items() if not key.startswith("linear_") and key != "layer_types"}
        np.testing.assert_equal(self.features(old | {"linear_attn_config": stated}), self.features(config))
        for wrong in ({"kda_layers": [1, 9]}, {"kda_layers": [1]}, {"full_attn_layers": "x"}):
            with self.assertRaisesRegex(ConvertError, "linear_attn_config"):
                self.features(old | {"linear_attn_config": stated | wrong})

    def test_longrope_by_its_first_names(self):
        config = next(c for path in GOLDEN if (c := golden_file.published_config(golden_file.read(path).config))["model_type"] == "phi3" and c.get("rope_scaling"))
        wanted = self.features(config)
        for name in ("su", "yarn"):
            scaling = {k: v for k, v in config["rope_scaling"].items() if k != "rope_type"} | {"type": name}
            np.testing.assert_equal(self.features(config | {"rope_scaling": scaling}), wanted)


class BitNet(unittest.TestCase):
    """Published files hold four rows of two bits in one, and a factor."""

    def test_packed_matrices(self):
        golden = golden_file.read(ROOT / "tests" / "golden" / "bitnet.txt")
        with tempfile.TemporaryDirectory() as temp, contextlib.redirect_stdout(io.StringIO()):
            folders = [Path(temp) / name for name in ("plain", "packed")]
            for folder in folders:
                directory(folder, golden, golden.config, True)
                state = safetensors.numpy.load_file(folder / "model.safetensors")
                for name, w in [(n, w) for n, w in state.items() if "_proj.weight" in n]:
                    codes = (w > 0).astype("u1") + (w > -0.05)  # 0, 1 and 2
                    state[name] = (codes.astype("f4") - 1) * np.float32(0.75)
                    if folder.name == "packed":
                        parts = codes.reshape(4, -1, codes.shape[1])
                        state[name] = parts[0] | parts[1] << 2 | parts[2] << 4 | parts[3] << 6
                        state[name + "_scale"] = np.array([0.75], np.float16)
                safetensors.numpy.save_file(state, folder / "model.safetensors")
                self.assertEqual(convert.main([str(folder), str(folder) + ".bin", "--type", "f32"]), 0)
            plain, packed = (WeightsFile(str(folder) + ".bin") for folder in folders)
        self.assertEqual({n: t["xxh64"] for n, t in plain.tensors.items()}, {n: t["xxh64"] for n, t in packed.tensors.items()})


class Mixers(unittest.TestCase):
    """Keys that the reference gives to its mixers too, where the engine has one way alone."""

    def refused(self, name: str, **keys) -> str:
        golden = golden_file.read(ROOT / "tests" / "golden" / f"{name}.txt")
        with tempfile.TemporaryDirectory() as temp:
            (Path(temp) / "config.json").write_text(json.dumps(golden.config | keys))
            with self.assertRaises(ConvertError) as e:
                huggingface.features(Path(temp), None, [])
        return str(e.exception)

    def test_only_silu(self):
        for name in ("qwen3-next", "qwen35", "olmo-hybrid", "kimi-linear", "granite4-h", "bamba", "falcon-h1", "lfm3"):
            with self.subTest(name):
                self.assertIn("hidden_act", self.refused(name, hidden_act="gelu"))

    def test_no_bias_beside_a_gate(self):
        for name in ("qwen3-next", "qwen35", "qwen35-moe"):
            self.assertIn("attention_bias", self.refused(name, attention_bias=True))

    def test_half_a_tensor(self):
        place = places.Place("b", (8,), np.arange(4))
        self.assertEqual(places.unread_rows([place]), {"b": 4})
        self.assertEqual(places.unread_rows([place, places.Place("b", (8,), np.arange(4, 8))]), {})


    def test_blocks_without_a_name(self):
        said = self.refused("nemotron-h", hybrid_override_pattern="M-X*", layers_block_type=None)
        self.assertIn("hybrid_override_pattern is 'M-X*'; it must be a text of M, E, * and -", said)

    def test_latent_attention_that_turns_halves(self):
        """rope_interleave false: the same model with its dimensions in the other order."""
        golden = golden_file.read(ROOT / "tests" / "golden" / "deepseek-v3.txt")
        config, outs = golden_file.published_config(golden.config), []
        heads, nope, rotary = (config[key] for key in ("num_attention_heads", "qk_nope_head_dim", "qk_rope_head_dim"))
        halves = np.concatenate([np.arange(0, rotary, 2), np.arange(1, rotary, 2)])
        for turns in (True, False):
            with tempfile.TemporaryDirectory() as temp, contextlib.redirect_stdout(io.StringIO()):
                folder, out = Path(temp) / "source", Path(temp) / "out.bin"
                directory(folder, golden, config, True)
                state = safetensors.numpy.load_file(folder / "model.safetensors")
                for name, x in state.items():
                    rows = np.arange(len(x))
                    if "q_b_proj" in name:
                        rows = rows.reshape(heads, nope + rotary)[:, np.append(np.arange(nope), nope + halves)].ravel()
                    elif "kv_a_proj" in name:
                        rows = np.append(rows[:-rotary], rows[-rotary:][halves])
                    state[name] = x if turns else np.ascontiguousarray(x[rows])
                safetensors.numpy.save_file(state, folder / "model.safetensors")
                (folder / "config.json").write_text(json.dumps(config | {"rope_interleave": turns}))
                self.assertEqual(convert.main([str(folder), str(out)]), 0)
                outs.append({name: tensor["xxh64"] for name, tensor in WeightsFile(out).tensors.items()})
        self.assertEqual(*outs)


class Positions(unittest.TestCase):
    """Positions that the reference computes; a golden model has random ones in their place. Numbers of transformers 5.23."""

    def test_computed(self):
        for name, row, wanted in (
            ("xglm", 5, {0: 0.6569865942001343, 1: -0.6024713516235352, 15: 0.0006999998586252332, 16: 0.7539022564888, 31: 0.9999997615814209}),
            ("ctrl", 5, {0: -0.9589242935180664, 1: 0.32393527030944824, 15: 0.0008891395991668105, 16: 0.28366219997406006, 31: 0.9999995827674866}),
        ):
            config = golden_file.read(ROOT / "tests" / "golden" / f"{name}.txt").config | {"d_model" if name == "xglm" else "n_embd": 32}
            features = FAMILIES[name].features(Config("golden", config, FAMILIES[name].aliases))
            slot = next(slot for slot in slots(features) if slot.name == "positions")
            (place,) = Layout(name, features, lambda _: False).places(slot)
            table = places.matrix(slot, [place], {}, "golden").vector().reshape(-1, 32)
            self.assertEqual(len(table), 64)
            np.testing.assert_allclose(table[row, list(wanted)], list(wanted.values()), atol=1e-6)


class Renamed(unittest.TestCase):
    """Ling 3.0's published files have other names than transformers."""

    def test_names(self):
        golden = golden_file.read(ROOT / "tests" / "golden" / "ling3.txt")
        with tempfile.TemporaryDirectory() as temp, contextlib.redirect_stdout(io.StringIO()):
            folders = [Path(temp) / name for name in ("ours", "theirs")]
            for folder in folders:
                directory(folder, golden, golden.config, True)
            state = safetensors.numpy.load_file(folders[1] / "model.safetensors")
            old = {name: name for name in state}
            for theirs, ours in reversed(huggingface.RENAMED["bailing_hybrid"].items()):
                if "dense" not in theirs:
                    old = {name: now.replace(ours, theirs) for name, now in old.items()}
            old = {name: now.replace(".attention.o_proj.", ".attention.dense.") for name, now in old.items()}
            self.assertIn("model.layers.1.attention.dense.weight", old.values())
            self.assertIn("model.word_embeddings.weight", old.values())
            safetensors.numpy.save_file({old[name]: w for name, w in state.items()}, folders[1] / "model.safetensors")
            for folder in folders:
                self.assertEqual(convert.main([str(folder), str(folder) + ".bin"]), 0)
            ours, theirs = (WeightsFile(str(folder) + ".bin") for folder in folders)
        self.assertEqual({n: t["xxh64"] for n, t in ours.tensors.items()}, {n: t["xxh64"] for n, t in theirs.tensors.items()})


class Composite(unittest.TestCase):
    """A folder with a model of images and text has the text model's config inside, its tensors under a prefix, and others."""

    GOLDEN = {("gemma3", "gemma3"), ("gemma3n", "gemma3n"), ("gemma4", "gemma4-e2b"), ("gemma4_unified", "gemma4-12b"),
              ("mistral3", "mistral"), ("mistral3", "ministral3"), ("mistral3", "mistral4"), ("llama4", "llama4"), ("qwen3_5", "qwen35"), ("qwen3_5_moe", "qwen35-moe")}  # fmt: skip

    def test_gemma4_31b(self):
        """The published config of a model that is too large to keep: its sizes, and that layers which see all have no V."""
        kinds = ["sliding_attention" if (i + 1) % 6 else "full_attention" for i in range(60)]
        text = {
            "model_type": "gemma4_text", "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 60, "num_attention_heads": 32,
            "num_key_value_heads": 16, "head_dim": 256, "global_head_dim": 512, "num_global_key_value_heads": 4, "attention_k_eq_v": True,
            "vocab_size": 262144, "vocab_size_per_layer_input": 262144, "max_position_embeddings": 262144, "sliding_window": 1024,
            "rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh", "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0,
            "final_logit_softcapping": 30.0, "tie_word_embeddings": True, "use_double_wide_mlp": False, "enable_moe_block": False,
            "num_experts": None, "top_k_experts": None, "moe_intermediate_size": None, "use_bidirectional_attention": "vision",
            "attention_bias": False, "layer_types": kinds,
            "rope_parameters": {"full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1e6, "rope_type": "proportional"},
                                "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"}},
        }  # fmt: skip
        with tempfile.TemporaryDirectory() as temp:
            config = {"model_type": "gemma4", "text_config": text, "vision_config": {}, "tie_word_embeddings": True}
            (Path(temp) / "config.json").write_text(json.dumps(config))
            features = huggingface.features(Path(temp), None, [])[1]
        check_config(features)
        tensors = {slot.name: slot for slot in slots(features)}
        self.assertEqual(round(sum(s.rows * s.k * s.matrices for s in tensors.values()) / 1e9, 1), 30.7)
        self.assertEqual([tensors[f"layer.{i}.k"].rows for i in (0, 5)], [16 * 256, 4 * 512])
        self.assertEqual([i for i in range(60) if f"layer.{i}.v" not in tensors], list(range(5, 60, 6)))

    def test_the_text_model_is_found(self):
        for outer, name in sorted(self.GOLDEN):
            golden = golden_file.read(ROOT / "tests" / "golden" / f"{name}.txt")
            for prefix in ("language_model.model.", "model.language_model."):
                with self.subTest(outer=outer, name=name, prefix=prefix), tempfile.TemporaryDirectory() as temp:
                    self.hold(Path(temp), outer, golden, prefix)

    def hold(self, temp: Path, outer: str, golden: golden_file.Golden, prefix: str) -> None:
        plain, composite = temp / "plain", temp / "composite"
        directory(plain, golden, golden.config, True)
        directory(composite, golden, golden.config, True)
        state = safetensors.numpy.load_file(composite / "model.safetensors")
        head = prefix.removesuffix("model.") + "lm_head." if prefix.endswith("model.model.") else "lm_head."
        state = {name.replace("lm_head.", head) if name.startswith("lm_head") else name.replace("model.", prefix, 1): w for name, w in state.items()}
        vision = {"llama4": "vision_model.layernorm_pre.weight"}.get(outer, "vision_tower.ln_pre.weight")
        state[vision] = np.ones(3, "f4")
        safetensors.numpy.save_file(state, composite / "model.safetensors")
        config = {"model_type": outer, "architectures": ["ForConditionalGeneration"], "text_config": golden.config, "vision_config": {"hidden_size": 3}}
        (composite / "config.json").write_text(json.dumps(config))
        with contextlib.redirect_stdout(io.StringIO()):
            for folder in (plain, composite):
                self.assertEqual(convert.main([str(folder), f"{folder}.bin"]), 0)
        ours, wanted = WeightsFile(f"{composite}.bin"), WeightsFile(f"{plain}.bin")
        self.assertEqual(set(ours.config), set(wanted.config))
        self.assertEqual({n: t["xxh64"] for n, t in ours.tensors.items()}, {n: t["xxh64"] for n, t in wanted.tensors.items()})

    def test_text_part(self):
        golden = golden_file.read(ROOT / "tests" / "golden" / "qwen35.txt")
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as temp, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            text, whole = Path(temp) / "text", Path(temp) / "whole"
            published = {"attn_output_gate": True, "mamba_ssm_dtype": "float32", "mlp_only_layers": [],
                         "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False}  # fmt: skip
            for folder in (text, whole):
                directory(folder, golden, golden.config | published, True)
            state = safetensors.numpy.load_file(whole / "model.safetensors")
            state = {name.replace("model.", "model.language_model.", 1): w for name, w in state.items()}
            for other in ("model.visual.patch_embed.proj.weight", "mtp.layers.1.input_layernorm.weight", "mtp.layers.1.mlp.up_proj.weight"):
                state[other] = np.ones((2, 2), np.float32)
            safetensors.numpy.save_file(state, whole / "model.safetensors")
            config = {"model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"], "vision_config": {},
                      "text_config": golden.config | published, "image_token_id": 5, "tie_word_embeddings": False}  # fmt: skip
            (whole / "config.json").write_text(json.dumps(config))
            for folder in (text, whole):
                self.assertEqual(convert.main([str(folder), str(folder) + ".bin"]), 0, said.getvalue())
            plain, part = (WeightsFile(str(folder) + ".bin") for folder in (text, whole))
        self.assertEqual({n: t["xxh64"] for n, t in plain.tensors.items()}, {n: t["xxh64"] for n, t in part.tensors.items()})
        self.assertIn("1 tensors of pictures or sound are left out", said.getvalue())
        self.assertIn("2 tensors of layers that guess further tokens are left out", said.getvalue())


def test_of(path: Path):
    def test(self):
        golden = golden_file.read(path)
        with self.subTest(spelling="transformers 5"):
            self.hold(golden, golden.config, False)
        with self.subTest(spelling="published"):
            self.hold(golden, golden_file.published_config(golden.config), True)

    return test


for each in GOLDEN:
    setattr(GoldenModels, "test_" + each.stem.replace("-", "_"), test_of(each))

if __name__ == "__main__":
    unittest.main()
