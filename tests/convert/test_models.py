"""The table of models in tools/README.md beside the planner, and the planner's list of what ./quantize makes smaller."""

import math
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from tern.convert.families import features, rope  # noqa: E402
from tern.convert.writing.overview import QUANTIZED  # noqa: E402
from tern.errors import ConvertError  # noqa: E402
from tern.testing import models  # noqa: E402
from tern.weights import keys  # noqa: E402

# Keys of published configs beside those that sizes depend on, where they are not those of a common Llama.
KEYS = {
    "Qwen3.8 27B": {
        "attn_output_gate": True, "full_attention_interval": 4, "mamba_ssm_dtype": "float32", "mtp_use_dedicated_embeddings": False,
        "output_gate_type": "swish", "partial_rotary_factor": 0.25, "mlp_only_layers": [],
        "rope_parameters": {"mrope_interleaved": True, "mrope_section": [11, 11, 10], "partial_rotary_factor": 0.25, "rope_theta": 10000000},
    },
    "Gemma 4 E2B": dict.fromkeys(
        ("expert_intermediate_size", "num_experts", "top_k_experts", "num_global_key_value_heads", "use_bidirectional_attention")
    ),
    "Gemma 4 26B-A4B": {"use_bidirectional_attention": "vision", "use_double_wide_mlp": False},
    "gpt-oss 20B": {"experts_per_token": 4, "initial_context_length": 4096, "swiglu_limit": 7.0, "attention_bias": True},
    "SmolLM3 3B": {"no_rope_layers": [1, 1, 1, 0] * 9, "no_rope_layer_interval": 4, "max_window_layers": 28, "use_sliding_window": False},
    "LFM2.5 1.2B": {
        "block_dim": 2048, "block_ff_dim": 12288, "block_mlp_init_scale": 1.0, "block_norm_eps": 1e-5, "block_out_init_scale": 1.0,
        "block_use_swiglu": True, "block_use_xavier_init": True, "conv_dim": 2048, "conv_use_xavier_init": True, "num_heads": 32,
        "tie_embedding": True, "use_pos_enc": True,
    },
    "Granite 4.0 H Tiny": {"init_method": "mup", "normalization_function": "rmsnorm", "mamba_chunk_size": 256, "logits_scaling": 6},
    "GLM-4.7-Flash": {"topk_method": "noaux_tc", "partial_rotary_factor": 1.0, "routed_scaling_factor": 1.8, "head_dim": 64},
    "Nemotron 3 Nano 30B-A3B": {
        "mlp_hidden_act": "relu2", "mamba_ssm_cache_dtype": "float32", "rescale_prenorm_residual": True, "time_step_limit": [0.0, 1e30],
        "time_step_floor": 0.0001, "use_mamba_kernels": True, "partial_rotary_factor": 1.0, "norm_eps": 1e-5, "use_bias": False,
    },
    "Falcon-H1 1.5B": {
        "attn_layer_indices": None, "mamba_use_mlp": True, "mlp_expansion_factor": 8, "mamba_rms_norm": False, "projectors_bias": False,
        "mamba_chunk_size": 256, "num_logits_to_keep": 1, "ssm_multipliers": [0.5] * 5, "mlp_multipliers": [0.5, 0.5],
    },
    "Moonlight 16B-A3B": {"aux_loss_alpha": 0.001, "ep_size": 1, "moe_layer_freq": 1, "scoring_func": "sigmoid", "seq_aux": True},
}  # fmt: skip

# Of families without a row in the table: a config, keys that may have any value, and keys that must have this one.
HUNYUAN = {"class_num": 0, "dense_list": [64, 0], "im_end_id": 5, "org_vocab_size": 100, "pad_id": 99, "pool_type": "last", "text_start_id": 6,
           "video_end_id": 10}  # fmt: skip
HUNYUAN_ONLY = {"add_classification_head": False, "attention_head_dim": 16, "norm_type": "rms", "use_rotary_pos_emb": True}
OTHERS = {
    "bamba": ({"attn_layer_indices": [1], **models.mamba2(2, 16)}, {"use_mamba_kernels": True}, {}),
    "bloom": ({"n_embed": 64, "n_layer": 2, "num_attention_heads": 4, "vocab_size": 100}, {}, {"n_inner": 256}),
    "ctrl": ({"n_embd": 64, "n_layer": 2, "n_head": 4, "dff": 128, "n_positions": 512, "vocab_size": 100}, {"from_tf": False, "output_past": True}, {}),
    "dots1": ({"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
              {}, {"moe_layer_freq": 1, "scoring_func": "noaux_tc", "topk_method": "noaux_tc"}),
    "ernie4_5": ({"architectures": ["Ernie4_5_ForCausalLM"]}, {}, {}),
    "ernie4_5_moe": ({}, {"moe_capacity": [64, 64, 64]},
                     {"is_quantized": False, "moe_gate": "topk", "moe_use_aux_free": True, "use_rmsnorm": True}),
    "exaone_moe": ({"architectures": ["ExaoneMoEForCausalLM"], "num_key_value_heads": 4},
                   {}, {"first_last_k_dense_replace": 1, "is_moe_layer": [False, True], "scoring_func": "sigmoid", "topk_method": "noaux_tc"}),
    "falcon": ({"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_hidden_size": 256, "vocab_size": 100}, {}, {"ff_factor": 4}),
    "gpt_neox": ({}, {"custom_pipelines": {"text-generation": {}}}, {}),
    "hunyuan_v1_dense": ({}, HUNYUAN, HUNYUAN_ONLY),
    "hunyuan_v1_moe": ({"num_experts": 8, "moe_topk": [2, 2]}, HUNYUAN | {"anyres_pooling_size": 2, "kv_lora_rank": None, "vit_patch": 1},
                       HUNYUAN_ONLY | {"n_group": None, "routed_scaling_factor": False, "use_mla": False}),
    "hyperclovax": ({}, {"end_token_id": 7}, {}),
    "mamba2": ({"hidden_size": 64, "num_hidden_layers": 2, "num_heads": 2, "n_groups": 1, "vocab_size": 100},
               {"norm_before_gate": True, "time_step_init_scheme": "random", "time_step_scale": 1.0}, {"rms_norm": True}),
    "minimax_m2": ({"head_dim": 16}, {"mtp_transformer_layers": 1, "num_mtp_modules": 3, "use_mtp": True},
                   {"attn_type_list": [1, 1], "qk_norm_type": "per_layer", "scoring_func": "sigmoid", "shared_intermediate_size": 0,
                    "use_qk_norm": True, "use_routing_bias": True}),
    "mpt": ({"architectures": ["MPTForCausalLM"], "d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": 512, "vocab_size": 100}, {}, {}),
    "nanochat": ({}, {}, {"logits_soft_cap": 15.0, "qkv_bias": False}),
    "nemotron": ({}, {}, {"kv_channels": 16}),
    "opt": ({"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 128, "vocab_size": 100}, {"activation_dropout": 0.0},
            {"learned_embeddings": True, "scale_embeddings": False}),
    "qwen3_moe": ({"head_dim": 16}, {}, {"qkv_bias": False, "shared_expert_intermediate_size": 0, "use_qk_norm": True}),
}  # fmt: skip


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


class Models(unittest.TestCase):
    def test_table(self):
        """Memory may differ a little between builds; all the rest is the planner's to the digit."""
        stands, made = models.parts()[1].splitlines(), list(models.rows())
        self.assertEqual((len(models.MODELS), len(stands)), (40, 42))
        for old, new in zip(map(cells, stands), map(cells, made), strict=True):
            with self.subTest(old[0]):
                there, planned = (list(map(float, re.findall(r"\d+\.\d+", row[models.MEMORY]))) for row in (old, new))
                for a, b in zip(there, planned, strict=True):
                    self.assertAlmostEqual(a, b, delta=0.02 + 0.01 * b)
                self.assertEqual(old[: models.MEMORY] + old[models.MEMORY + 1 :], new[: models.MEMORY] + new[models.MEMORY + 1 :])

    def test_published_keys(self):
        configs = {model.title: model.config for model in models.MODELS}
        for title, more in KEYS.items():
            inner = configs[title].get("text_config")
            with self.subTest(title):
                models.features(configs[title] | ({"text_config": inner | more} if inner else more))

    def test_published_keys_of_others(self):
        for kind, (config, free, fixed) in OTHERS.items():
            whole = config if "vocab_size" in config else models.dense(kind, 64, 128, 2, 4, 2, 100, 512, **config)
            whole = whole | {"model_type": kind} | free | fixed
            with self.subTest(kind):
                models.features(whole)
            for key in fixed:
                with self.subTest(kind, key=key), self.assertRaisesRegex(ConvertError, key):
                    models.features(whole | {key: 7})

    def test_llama4_slows_long_waves_and_blends_none(self):
        p = {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0, "original_max_position_embeddings": 8192}
        plain = rope.plain(500000.0, 128)
        wanted = [f if 2 * math.pi / f < 8192 else f / 16 for f in plain]
        self.assertEqual(list(rope.frequencies(500000.0, 128, rope.Parameters("x", p))), wanted)

    def test_what_gemma3_leaves_out(self):
        whole = next(model.config for model in models.MODELS if model.title == "Gemma 3 4B")
        stated = ("model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "sliding_window")
        text = {key: whole["text_config"][key] for key in stated}
        made = [features.packed_config(models.features(c)) for c in ({"model_type": "gemma3", "text_config": text}, whole)]
        self.assertEqual(*map(keys.pack, made))

    def test_quantized(self):
        source = (ROOT / "src" / "quantize" / "quantize.c").read_text()
        listed = re.search(r"matrices\[\] = \{(.*?)\};", source, re.S)
        self.assertEqual(list(QUANTIZED), re.findall(r'"(\w+)"', listed[1]))


if __name__ == "__main__":
    unittest.main()
