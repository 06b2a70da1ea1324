"""Writes a Hugging Face model as a GGUF file, for tests: with the gguf package's writer and its maps of tensor names,
and, family by family, what llama.cpp's convert_hf_to_gguf.py does to keys and tensors. Nothing of tools/tern is used.

In:  config.json in the spelling before transformers 5 (rope_theta, rope_scaling), tensors as f32 by their names there.
"""

import math
import re
from pathlib import Path
from statistics import NormalDist

import gguf
import numpy as np

ARCHES = {
    "llama": "LLAMA", "mistral": "LLAMA", "mixtral": "LLAMA", "qwen2": "QWEN2", "qwen3": "QWEN3",
    "qwen2_moe": "QWEN2MOE", "qwen3_moe": "QWEN3MOE", "gemma": "GEMMA", "gemma2": "GEMMA2", "gemma3_text": "GEMMA3",
    "phi": "PHI2", "phi3": "PHI3", "smollm3": "SMOLLM3", "olmo": "OLMO", "olmo2": "OLMO2", "granite": "GRANITE",
    "stablelm": "STABLELM", "falcon": "FALCON", "gpt_neox": "GPTNEOX", "starcoder2": "STARCODER2",
    "cohere": "COMMAND_R", "gpt_oss": "GPT_OSS", "gpt2": "GPT2", "olmo3": "OLMO2", "glm4": "GLM4",
    "cohere2": "COHERE2", "exaone4": "EXAONE4", "olmoe": "OLMOE", "arcee": "ARCEE", "seed_oss": "SEED_OSS",
    "ernie4_5": "ERNIE4_5", "nemotron": "NEMOTRON", "granitemoe": "GRANITE_MOE", "granitemoeshared": "GRANITE_MOE",
    "hunyuan_v1_dense": "HUNYUAN_DENSE", "dots1": "DOTS1", "glm4_moe": "GLM4_MOE", "minimax_m2": "MINIMAXM2",
    "granitemoehybrid": "GRANITE_HYBRID", "falcon_h1": "FALCON_H1", "nemotron_h": "NEMOTRON_H",
    "nemotron_h+experts": "NEMOTRON_H_MOE", "lfm2": "LFM2", "lfm2_moe": "LFM2MOE",
    "bloom": "BLOOM", "mpt": "MPT", "gpt_bigcode": "STARCODER",
    "gemma3n_text": "GEMMA3N", "llama4_text": "LLAMA4", "mistral4": "MISTRAL4", "gemma4_text": "GEMMA4", "gemma4_unified_text": "GEMMA4",
    "deepseek_v2": "DEEPSEEK2", "deepseek_v3": "DEEPSEEK2", "glm4_moe_lite": "DEEPSEEK2", "minicpm3": "MINICPM3",
    "hunyuan_v1_moe": "HUNYUAN_MOE", "ernie4_5_moe": "ERNIE4_5_MOE", "exaone_moe": "EXAONE_MOE", "afmoe": "AFMOE",
    "apertus": "APERTUS", "jais2": "JAIS2", "ministral3": "MISTRAL3", "dbrx": "DBRX",
    "qwen3_next": "QWEN3NEXT", "qwen3_5_text": "QWEN35", "qwen3_5_moe_text": "QWEN35MOE",
    "kimi_linear": "KIMI_LINEAR", "mamba2": "MAMBA2", "phimoe": "PHIMOE",
}  # fmt: skip
# Architectures that are newer than the package. Their tensors have the names that dots.llm1's have.
NEWER = {"hy_v3": "hy_v3", "mellum": "mellum", "laguna": "laguna", "cohere2_moe": "cohere2moe"}
PERMUTED = ("llama", "mistral", "ministral3", "mixtral", "smollm3", "olmo", "granite", "arcee", "granitemoe", "granitemoeshared",
            "granitemoehybrid", "nemotron_h")
EXPERT = re.compile(r"(?:model|backbone)\.(layers\.\d+\.)(block_sparse_moe|mlp|mixer|feed_forward)\.experts\.(\d+)\.(\w+)\.weight")
MERGED = {"w1": "feed_forward.experts.w1", "w2": "feed_forward.experts.w2", "w3": "feed_forward.experts.w3"}


# ---- keys


def _usual(w: gguf.GGUFWriter, c: dict) -> None:
    """What the script's TextModel writes for most families."""
    for names, add in (
        (("max_position_embeddings", "n_ctx", "n_positions"), w.add_context_length),
        (("hidden_size",), w.add_embedding_length),
        (("intermediate_size",), w.add_feed_forward_length),
        (("num_attention_heads",), w.add_head_count),
        (("num_key_value_heads",), w.add_head_count_kv),
        (("rope_theta",), w.add_rope_freq_base),
        (("rms_norm_eps",), w.add_layer_norm_rms_eps),
        (("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"), w.add_layer_norm_eps),
        (("num_local_experts", "num_experts"), w.add_expert_count),
        (("num_experts_per_tok",), w.add_expert_used_count),
        (("head_dim",), w.add_key_length),
        (("head_dim",), w.add_value_length),
    ):
        value = next((c[name] for name in names if c.get(name) is not None), None)
        if value is not None:
            add(value)
    scaling = c.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind in ("linear", "yarn"):
        w.add_rope_scaling_type(gguf.RopeScalingType(kind))
        w.add_rope_scaling_factor(scaling["factor"])
    if kind == "yarn":
        w.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])


def _llama_keys(w, c):
    _usual(w, c)
    w.add_vocab_size(c["vocab_size"])
    w.add_rope_dimension_count(c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"])


def _moe_keys(w, c):
    _usual(w, c)
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    if "shared_expert_intermediate_size" in c:
        w.add_expert_shared_feed_forward_length(c["shared_expert_intermediate_size"])


def _gemma_keys(w, c):
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_key_length(c["head_dim"])
    w.add_value_length(c["head_dim"])
    if c["model_type"] == "gemma2":
        w.add_attn_logit_softcapping(c["attn_logit_softcapping"])
        w.add_final_logit_softcapping(c["final_logit_softcapping"])
    if c["model_type"] != "gemma":
        w.add_sliding_window(c["sliding_window"])
    if c["model_type"] == "gemma3_text":
        w.add_rope_freq_base(c["rope_theta"])
        if c.get("rope_scaling"):
            w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            w.add_rope_scaling_factor(c["rope_scaling"]["factor"])


def _gemma4_keys(w, c):
    shared, n = c["num_kv_shared_layers"], c["num_hidden_layers"]
    local = [kind == "sliding_attention" for kind in c["layer_types"]]
    full = c["per_layer_config"][str(local.index(False))]
    wide = c.get("use_double_wide_mlp")
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length([c["intermediate_size"] * (2 if wide and i >= n - shared else 1) for i in range(n)] if wide else c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    kv = c["num_key_value_heads"]
    w.add_head_count_kv([kv if windowed else full["num_key_value_heads"] for windowed in local] if "num_key_value_heads" in full else kv)
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    for add, size in ((w.add_key_length, full["head_dim"]), (w.add_value_length, full["head_dim"]),
                      (w.add_key_length_swa, c["head_dim"]), (w.add_value_length_swa, c["head_dim"]),
                      (w.add_rope_dimension_count, full["head_dim"]), (w.add_rope_dimension_count_swa, c["head_dim"])):  # fmt: skip
        add(size)
    if c.get("final_logit_softcapping"):
        w.add_final_logit_softcapping(c["final_logit_softcapping"])
    w.add_sliding_window(c["sliding_window"])
    w.add_sliding_window_pattern(local)
    w.add_shared_kv_layers(shared)
    w.add_embedding_length_per_layer_input(c.get("hidden_size_per_layer_input") or 0)
    w.add_rope_freq_base(c["rope_parameters"]["full_attention"]["rope_theta"])
    w.add_rope_freq_base_swa(c["rope_parameters"]["sliding_attention"]["rope_theta"])
    if c.get("enable_moe_block"):
        w.add_expert_count(c["num_experts"])
        w.add_expert_used_count(c["top_k_experts"])
        w.add_expert_feed_forward_length(c["moe_intermediate_size"])


def _gemma3n_keys(w, c):
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_key_length(c["head_dim"])
    w.add_value_length(c["head_dim"])
    w.add_rope_freq_base(c["rope_parameters"]["full_attention"]["rope_theta"])
    w.add_sliding_window(c["sliding_window"])
    w.add_altup_active_idx(c["altup_active_idx"])
    w.add_altup_num_inputs(c["altup_num_inputs"])
    w.add_embedding_length_per_layer_input(c["hidden_size_per_layer_input"])
    w.add_shared_kv_layers(c["num_kv_shared_layers"])
    shares = [float(np.float32(p)) for p in c["activation_sparsity_pattern"]]
    w.add_activation_sparsity_scale([float(np.float32(NormalDist().inv_cdf(p))) if p else -math.inf for p in shares])
    w.add_sliding_window_pattern([kind == "sliding_attention" for kind in c["layer_types"]])


def _llama4_keys(w, c):
    _llama_keys(w, c | {"intermediate_size": c["intermediate_size_mlp"]})
    w.add_interleave_moe_layer_step(c["interleave_moe_layer_step"])
    w.add_expert_feed_forward_length(c["intermediate_size"])
    w.add_attn_temperature_scale(c["attn_scale"])  # the script does not: in llama.cpp it is 0.1


def _mistral4_keys(w, c):
    rope = c["rope_parameters"] if "rope_parameters" in c else c["rope_scaling"]
    _usual(w, {key: value for key, value in c.items() if key != "head_dim"} | {"num_key_value_heads": 1, "rope_scaling": rope})
    w.add_leading_dense_block_count(c["first_k_dense_replace"])
    w.add_vocab_size(c["vocab_size"])
    w.add_q_lora_rank(c["q_lora_rank"])
    w.add_kv_lora_rank(c["kv_lora_rank"])
    w.add_key_length(c["kv_lora_rank"] + c["qk_rope_head_dim"])
    w.add_value_length(c["kv_lora_rank"])
    w.add_key_length_mla(c["qk_nope_head_dim"] + c["qk_rope_head_dim"])
    w.add_value_length_mla(c["v_head_dim"])
    w.add_expert_count(c["n_routed_experts"])
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    w.add_expert_shared_count(c["n_shared_experts"])
    w.add_expert_weights_scale(c["routed_scaling_factor"])
    w.add_expert_weights_norm(c["norm_topk_prob"])
    w.add_expert_group_count(c["n_group"])
    w.add_expert_group_used_count(c["topk_group"])
    w.add_rope_dimension_count(c["qk_rope_head_dim"])
    w.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])
    w.add_attn_temperature_scale(rope["llama_4_scaling_beta"])


def _partial(c: dict, key: str) -> int:
    return int(c[key] * (c["hidden_size"] // c["num_attention_heads"]))


def _phi2_keys(w, c):
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])  # the script says 4 times the width
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_layer_norm_eps(c["layer_norm_eps"])
    w.add_rope_dimension_count(_partial(c, "partial_rotary_factor"))


def _phi3_keys(w, c):
    original = c["original_max_position_embeddings"]
    w.add_context_length(c["max_position_embeddings"])
    w.add_rope_scaling_orig_ctx_len(original)
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_rope_dimension_count(_partial(c, "partial_rotary_factor"))
    w.add_rope_freq_base(c["rope_theta"])
    w.add_sliding_window(c["sliding_window"] or 0)
    scale = c["max_position_embeddings"] / original
    w.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(original)) if scale > 1 else 1.0)
    w.add_tensor("rope_factors_long.weight", np.array(c["rope_scaling"]["long_factor"], "f4"))
    w.add_tensor("rope_factors_short.weight", np.array(c["rope_scaling"]["short_factor"], "f4"))


def _phimoe_keys(w, c):
    scaling = c.get("rope_scaling") or {}
    original = scaling.get("original_max_position_embeddings", c["max_position_embeddings"])
    for add, key in ((w.add_context_length, "max_position_embeddings"), (w.add_embedding_length, "hidden_size"),
                     (w.add_feed_forward_length, "intermediate_size"), (w.add_head_count, "num_attention_heads"),
                     (w.add_head_count_kv, "num_key_value_heads"), (w.add_layer_norm_rms_eps, "rms_norm_eps"),
                     (w.add_rope_freq_base, "rope_theta"), (w.add_expert_count, "num_local_experts"),
                     (w.add_expert_used_count, "num_experts_per_tok")):  # fmt: skip
        add(c[key])
    w.add_rope_scaling_orig_ctx_len(original)
    w.add_rope_dimension_count(c["hidden_size"] // c["num_attention_heads"])
    w.add_sliding_window(c.get("sliding_window") or 0)
    for size in ("long", "short") if scaling else ():
        w.add_tensor(f"rope_factors_{size}.weight", np.array(scaling[size + "_factor"], "f4"))
    if scaling:
        w.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(c["max_position_embeddings"] / original) / math.log(original)))


def _olmo_keys(w, c):
    _usual(w, c)
    w.add_layer_norm_eps(1e-5)
    w.add_clamp_kqv(c["clip_qkv"])


def _olmo3_keys(w, c):
    _usual(w, c)
    factor = c["rope_scaling"].get("attention_factor") or 0.1 * math.log(c["rope_scaling"]["factor"]) + 1
    w.add_rope_scaling_attn_factors(factor)
    w.add_sliding_window(c["sliding_window"])
    w.add_sliding_window_pattern([(i + 1) % 4 != 0 for i in range(c["num_hidden_layers"])])


def _glm4_keys(w, c):
    _usual(w, c)
    w.add_rope_dimension_count(int(c["head_dim"] * c["partial_rotary_factor"]))


def _granite_keys(w, c):
    _llama_keys(w, {k: v for k, v in c.items() if k != "head_dim"})
    w.add_attention_scale(c["attention_multiplier"])
    w.add_embedding_scale(c["embedding_multiplier"])
    w.add_residual_scale(c["residual_multiplier"])
    w.add_logit_scale(c["logits_scaling"])


def _stablelm_keys(w, c):
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_rope_dimension_count(_partial(c, "partial_rotary_factor"))
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_parallel_residual(c["use_parallel_residual"])
    w.add_layer_norm_eps(c["layer_norm_eps"])


def _falcon_keys(w, c):
    w.add_context_length(c["max_position_embeddings"])  # the script says 2048
    w.add_tensor_data_layout("jploski")
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["ffn_hidden_size"])  # the script says 4 times the width
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_layer_norm_eps(c["layer_norm_epsilon"])


def _neox_keys(w, c):
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_rope_dimension_count(_partial(c, "rotary_pct"))
    w.add_head_count(c["num_attention_heads"])
    w.add_parallel_residual(c["use_parallel_residual"])
    w.add_layer_norm_eps(c["layer_norm_eps"])


def _cohere_keys(w, c):
    _usual(w, c)
    w.add_logit_scale(c["logit_scale"])
    w.add_rope_scaling_type(gguf.RopeScalingType.NONE)


def _cohere2_keys(w, c):
    _cohere_keys(w, c)
    w.add_sliding_window(c["sliding_window"])
    w.add_vocab_size(c["vocab_size"])


def _exaone4_keys(w, c):
    _usual(w, c)
    w.add_vocab_size(c["vocab_size"])
    w.add_sliding_window(c["sliding_window"])
    w.add_sliding_window_pattern([(i + 1) % 4 != 0 for i in range(c["num_hidden_layers"])])


def _gpt_oss_keys(w, c):
    _usual(w, c)
    w.add_sliding_window(c["sliding_window"])
    w.add_expert_feed_forward_length(c["intermediate_size"])


def _gpt2_keys(w, c):
    w.add_context_length(c["n_positions"])
    w.add_embedding_length(c["n_embd"])
    w.add_feed_forward_length(4 * c["n_embd"])
    w.add_head_count(c["n_head"])
    w.add_layer_norm_eps(c["layer_norm_epsilon"])


def _nemotron_keys(w, c):
    _usual(w, c)
    w.add_layer_norm_eps(c["norm_eps"])
    w.add_rope_dimension_count(int(c["partial_rotary_factor"] * c["hidden_size"]) // c["num_attention_heads"])


def _granite_moe_keys(w, c):
    _granite_keys(w, c)
    if c.get("shared_intermediate_size"):
        w.add_expert_shared_feed_forward_length(c["shared_intermediate_size"])


def _hunyuan_keys(w, c):
    """A scaling by alpha is a larger base in the file."""
    scaling, d = c.get("rope_scaling") or {}, c["head_dim"]
    base = c["rope_theta"] * scaling["alpha"] ** (d / (d - 2)) if scaling.get("alpha") else c["rope_theta"]
    _usual(w, c | {"rope_theta": base, "rope_scaling": None})


def _deepseek_keys(w, c):
    _usual(w, c)
    w.add_expert_count(c["n_routed_experts"])
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    w.add_expert_shared_count(c["n_shared_experts"])
    w.add_leading_dense_block_count(c["first_k_dense_replace"])
    w.add_expert_weights_scale(c["routed_scaling_factor"])
    w.add_expert_weights_norm(c["norm_topk_prob"])
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if "partial_rotary_factor" in c:
        w.add_rope_dimension_count(int(c["head_dim"] * c["partial_rotary_factor"]))
    if c["n_group"] > 1:
        w.add_expert_group_count(c["n_group"])
        w.add_expert_group_used_count(c["topk_group"])


def _minimax_keys(w, c):
    _usual(w, c)
    w.add_expert_feed_forward_length(c["intermediate_size"])
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    w.add_rope_dimension_count(int(c["head_dim"] * c["partial_rotary_factor"]))


def _latent_keys(w, c):
    """As one head for keys and values; MiniCPM3's script states whole heads."""
    rank, rotary = c["kv_lora_rank"], c["qk_rope_head_dim"]
    small = c["model_type"] == "minicpm3"
    _usual(w, {k: v for k, v in c.items() if k not in ("head_dim", "rope_scaling", "num_experts")} | {"num_key_value_heads": c["num_attention_heads"] if small else 1})
    if c.get("q_lora_rank"):
        w.add_q_lora_rank(c["q_lora_rank"])
    w.add_kv_lora_rank(rank)
    w.add_key_length(c["qk_nope_head_dim"] + rotary if small or c.get("kv_b_joined") else rank + rotary)
    w.add_rope_dimension_count(rotary)
    scaling = c.get("rope_scaling") or {}
    if scaling.get("rope_type") == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(scaling["factor"])
        w.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
        w.add_rope_scaling_yarn_log_mul(0.1 * scaling["mscale_all_dim"])
    joined = c.get("kv_b_joined")
    if small:
        for size in ("long", "short"):
            w.add_tensor(f"rope_factors_{size}.weight", np.array(scaling[size + "_factor"], "f4"))
        return
    w.add_value_length(c["v_head_dim"] if joined else rank)
    if not joined:
        w.add_key_length_mla(c["qk_nope_head_dim"] + rotary)
        w.add_value_length_mla(c["v_head_dim"])
    w.add_leading_dense_block_count(c.get("first_k_dense_replace", (c.get("mlp_layer_types") or []).count("dense")))
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    w.add_expert_count(c["n_routed_experts"])
    w.add_expert_shared_count(c["n_shared_experts"])
    w.add_expert_weights_scale(c["routed_scaling_factor"])
    w.add_expert_weights_norm(c["model_type"] != "deepseek_v2" and c.get("norm_topk_prob", True))
    w.add_expert_gating_func(getattr(gguf.ExpertGatingFuncType, "SOFTMAX" if c["model_type"] == "deepseek_v2" else "SIGMOID"))
    if (c.get("n_group") or 1) > 1:
        w.add_expert_group_count(c["n_group"])
        w.add_expert_group_used_count(c["topk_group"])


def _hunyuan_moe_keys(w, c):
    _hunyuan_keys(w, c)
    w.add_expert_shared_feed_forward_length(c["intermediate_size"])
    w.add_expert_feed_forward_length(c["intermediate_size"])
    w.add_expert_used_count(c["moe_topk"] if isinstance(c["moe_topk"], int) else c["moe_topk"][0])
    w.add_expert_shared_count(1)


def _ernie_moe_keys(w, c):
    _usual(w, c)
    w.add_expert_count(c["moe_num_experts"])
    w.add_expert_used_count(c["moe_k"])
    w.add_interleave_moe_layer_step(c.get("moe_layer_interval", 1))
    w.add_leading_dense_block_count(c.get("moe_layer_start_index", 1))
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    w.add_expert_shared_count(c["moe_num_shared_experts"])
    w.add_expert_shared_feed_forward_length(c["intermediate_size"] // c["num_key_value_heads"])


def _exaone_moe_keys(w, c):
    _exaone4_keys(w, c)
    width, shared = c["moe_intermediate_size"], c["num_shared_experts"]
    w.add_expert_feed_forward_length(width)
    w.add_expert_shared_count(shared)
    w.add_expert_shared_feed_forward_length(width * shared)
    w.add_expert_weights_scale(c.get("routed_scaling_factor", 2.5))
    w.add_expert_weights_norm(True)
    w.add_leading_dense_block_count(1)
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    w.add_rope_scaling_type(gguf.RopeScalingType.NONE)


def _afmoe_keys(w, c):
    _llama_keys(w, c)
    w.add_expert_shared_count(c["num_shared_experts"])
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    w.add_leading_dense_block_count(c["num_dense_layers"])
    w.add_expert_weights_norm(True)
    w.add_expert_weights_scale(c["route_scale"])
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    w.add_sliding_window(c["sliding_window"])


def _jais2_keys(w, c):
    _usual(w, c)
    w.add_rope_dimension_count(c["head_dim"])


def _ministral3_keys(w, c):
    p = c["rope_scaling"]
    _llama_keys(w, c)
    w.add_rope_scaling_yarn_beta_fast(p["beta_fast"])
    w.add_rope_scaling_yarn_beta_slow(p["beta_slow"])
    w.add_rope_scaling_yarn_log_mul(p["mscale_all_dim"])
    w.add_attn_temperature_scale(p["llama_4_scaling_beta"])


def _dbrx_keys(w, c):
    attention, experts = c["attn_config"], c["ffn_config"]
    w.add_context_length(c["max_seq_len"])
    w.add_embedding_length(c["d_model"])
    w.add_feed_forward_length(experts["ffn_hidden_size"])
    w.add_head_count(c["n_heads"])
    w.add_head_count_kv(attention["kv_n_heads"])
    w.add_rope_freq_base(c["rope_theta"])  # the script takes that of attn_config
    w.add_clamp_kqv(attention["clip_qkv"])
    w.add_expert_count(experts["moe_num_experts"])
    w.add_expert_used_count(experts["moe_top_k"])
    w.add_layer_norm_eps(1e-5)


def _wide_keys(w, c):
    """Of BLOOM, MPT and StarCoder, whose steps are four times as wide."""
    dim, heads = (next(c[k] for k in names if k in c) for names in (("hidden_size", "d_model", "n_embd"), ("n_head", "n_heads")))
    w.add_context_length(next((c[k] for k in ("seq_length", "max_seq_len", "n_positions") if k in c), 2048))
    w.add_embedding_length(dim)
    w.add_feed_forward_length(4 * dim)
    w.add_head_count(heads)
    w.add_head_count_kv(1 if c.get("multi_query") else heads)
    w.add_layer_norm_eps(c["layer_norm_epsilon"])
    if c["model_type"] == "mpt":
        w.add_max_alibi_bias(c["attn_config"].get("alibi_bias_max", 8))
        w.add_clamp_kqv(c["attn_config"]["clip_qkv"])


def _delta_keys(w, c):
    _usual(w, c)
    for key, add in (("moe_intermediate_size", w.add_expert_feed_forward_length),
                     ("shared_expert_intermediate_size", w.add_expert_shared_feed_forward_length)):  # fmt: skip
        if key in c:
            add(c[key])
    w.add_ssm_conv_kernel(c["linear_conv_kernel_dim"])
    w.add_ssm_state_size(c["linear_key_head_dim"])
    w.add_ssm_group_count(c["linear_num_key_heads"])
    w.add_ssm_time_step_rank(c["linear_num_value_heads"])
    w.add_ssm_inner_size(c["linear_value_head_dim"] * c["linear_num_value_heads"])
    w.add_full_attention_interval(c.get("full_attention_interval", 4))
    w.add_rope_dimension_count(int(c["head_dim"] * c["partial_rotary_factor"]))
    if c["model_type"] != "qwen3_next":
        w.add_rope_dimension_sections([11, 11, 10, 0])


def _kimi_keys(w, c):
    rope, rank = c["qk_rope_head_dim"], c["kv_lora_rank"]
    w.add_context_length(c["model_max_length"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv([int(kind == "full_attention") for kind in c["layer_types"]])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_rope_freq_base(10000.0)  # not used
    w.add_vocab_size(c["vocab_size"])
    w.add_ssm_conv_kernel(c["linear_conv_kernel_dim"])
    w.add_kda_head_dim(c["linear_head_dim"])
    w.add_kv_lora_rank(rank)
    w.add_rope_dimension_count(rope)
    w.add_key_length(rank + rope)
    w.add_value_length(rope)  # config.json's head_dim
    w.add_key_length_mla(c["qk_nope_head_dim"] + rope)
    w.add_value_length_mla(c["v_head_dim"])
    w.add_expert_count(c["num_experts"])
    w.add_expert_used_count(c["num_experts_per_token"])
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    w.add_expert_shared_count(c["num_shared_experts"])
    w.add_leading_dense_block_count(c["mlp_layer_types"].count("dense"))
    w.add_expert_weights_scale(c["routed_scaling_factor"])
    w.add_expert_weights_norm(c["moe_renormalize"])
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    w.add_expert_group_count(c["num_expert_group"])
    w.add_expert_group_used_count(c["topk_group"])


def _has_keys(c: dict) -> list[bool]:
    """Which layers have attention."""
    return [kind in ("attention", "full_attention") for kind in c["layer_types"]]


def _state_keys(w, c, kernel, state, groups, heads, inner):
    w.add_ssm_conv_kernel(c[kernel])
    w.add_ssm_state_size(c[state])
    w.add_ssm_group_count(c[groups])
    w.add_ssm_time_step_rank(c[heads])
    w.add_ssm_inner_size(inner)


_MAMBA = ("mamba_d_conv", "mamba_d_state", "mamba_n_groups", "mamba_n_heads")


def _granite_hybrid_keys(w, c):
    kv = [c["num_key_value_heads"] * has for has in _has_keys(c)]
    _granite_moe_keys(w, c | {"num_key_value_heads": kv})  # the script says 1 << 20 positions
    _state_keys(w, c, *_MAMBA, c["mamba_expand"] * c["hidden_size"])
    w.add_rope_scaling_finetuned(False)


def _falcon_h1_keys(w, c):
    for add, key in ((w.add_context_length, "max_position_embeddings"), (w.add_embedding_length, "hidden_size"),
                     (w.add_feed_forward_length, "intermediate_size"), (w.add_head_count, "num_attention_heads"),
                     (w.add_head_count_kv, "num_key_value_heads"), (w.add_key_length, "head_dim"), (w.add_value_length, "head_dim"),
                     (w.add_layer_norm_rms_eps, "rms_norm_eps"), (w.add_vocab_size, "vocab_size"), (w.add_rope_freq_base, "rope_theta")):  # fmt: skip
        add(c[key])
    _state_keys(w, c, *_MAMBA, c["mamba_d_ssm"])


def _nemotron_h_keys(w, c):
    """The widths of steps layer by layer."""
    wide = {"mlp": c["intermediate_size"], "moe": c["moe_intermediate_size"]}
    kinds = [{"linear_attention": "mamba", "full_attention": "attention"}.get(kind, kind) for kind in c["layers_block_type"]]
    kv = [c["num_key_value_heads"] * (kind == "attention") for kind in kinds]
    _usual(w, c | {"num_key_value_heads": kv, "intermediate_size": [wide.get(kind, 0) for kind in kinds],
                   "rms_norm_eps": c["layer_norm_epsilon"], "rope_theta": None, "num_experts_per_tok": None})  # fmt: skip
    w.add_vocab_size(c["vocab_size"])
    w.add_rope_dimension_count(c["hidden_size"] // c["num_attention_heads"])
    w.add_rope_scaling_finetuned(False)
    _state_keys(w, c, "conv_kernel", "ssm_state_size", "n_groups", "mamba_num_heads", c["mamba_head_dim"] * c["mamba_num_heads"])
    if "moe" in kinds:
        w.add_expert_used_count(c["num_experts_per_tok"])
        w.add_expert_feed_forward_length(c["moe_intermediate_size"])
        w.add_expert_shared_feed_forward_length(c["moe_shared_expert_intermediate_size"])
        w.add_expert_count(c["n_routed_experts"])
        w.add_expert_shared_count(c["n_shared_experts"])
        w.add_expert_weights_norm(c["norm_topk_prob"])
        w.add_expert_weights_scale(c["routed_scaling_factor"])
        w.add_expert_group_count(c["n_group"])
        w.add_expert_group_used_count(c["topk_group"])


def _lfm2_keys(w, c):
    kv = [c["num_key_value_heads"] * has for has in _has_keys(c)]
    width = c["intermediate_size"]
    if c["model_type"] == "lfm2":
        of = c["block_multiple_of"]
        width = -(-int(c["block_ffn_dim_multiplier"] * int(2 * width / 3)) // of) * of
    _usual(w, c | {"num_key_value_heads": kv, "rms_norm_eps": c["norm_eps"], "intermediate_size": width})
    w.add_vocab_size(c["vocab_size"])
    w.add_shortconv_l_cache(c["conv_L_cache"])
    if c["model_type"] == "lfm2_moe":
        w.add_expert_feed_forward_length(c["moe_intermediate_size"])
        w.add_leading_dense_block_count(c["num_dense_layers"])
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def _mamba2_keys(w, c):
    w.add_context_length(1 << 20)
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(0)
    w.add_head_count(0)
    w.add_layer_norm_rms_eps(c["layer_norm_epsilon"])
    inner = c["num_heads"] * c["head_dim"]
    _state_keys(w, c | {"heads": c["num_heads"]}, "conv_kernel", "state_size", "n_groups", "heads", inner)


def _two_ropes(w, c):
    """RoPE and layers by kind, as the script's TextModel and LlamaModel write them."""
    full, local = (c["rope_parameters"].get(kind) for kind in ("full_attention", "sliding_attention"))
    _usual(w, c | {"rope_theta": full["rope_theta"], "rope_scaling": full})
    w.add_rope_freq_base_swa(local["rope_theta"])
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])


def _mellum_keys(w, c):
    _two_ropes(w, c)
    w.add_sliding_window(c["sliding_window"])
    w.add_sliding_window_pattern([kind == "sliding_attention" for kind in c["layer_types"]])


def _hy_v3_keys(w, c):
    _usual(w, c)
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    w.add_expert_shared_feed_forward_length(c["moe_intermediate_size"] * c["num_shared_experts"])
    w.add_expert_weights_norm(True)
    w.add_expert_weights_scale(c["router_scaling_factor"])
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def _laguna_keys(w, c):
    _two_ropes(w, c | {"num_attention_heads": c.get("num_attention_heads_per_layer") or [c["num_attention_heads"]] * c["num_hidden_layers"]})
    w.add_vocab_size(c["vocab_size"])
    if "sliding_attention" in c["layer_types"]:
        w.add_sliding_window(c["sliding_window"])
        w.add_sliding_window_pattern(2)  # the script does not: in llama.cpp it is 4
    w.add_expert_shared_feed_forward_length(c["shared_expert_intermediate_size"])
    w.add_expert_weights_norm(True)
    w.add_expert_weights_scale(c["moe_routed_scaling_factor"])
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    w.add_leading_dense_block_count(c["mlp_layer_types"].count("dense"))
    w.add_rope_dimension_count(int(c["head_dim"] * c["rope_parameters"]["full_attention"].get("partial_rotary_factor", 1)))
    w.add_rope_dimension_count_swa(int(c["head_dim"] * c["rope_parameters"]["sliding_attention"].get("partial_rotary_factor", 1)))


def _cohere2_moe_keys(w, c):
    width, shared = c["intermediate_size"], c["num_shared_experts"]
    _usual(w, {key: value for key, value in c.items() if key != "rms_norm_eps"} | {"intermediate_size": c["prefix_dense_intermediate_size"]})
    w.add_logit_scale(c["logit_scale"])
    w.add_sliding_window(c["sliding_window"])
    w.add_sliding_window_pattern([kind == "sliding_attention" for kind in c["layer_types"]])
    w.add_expert_feed_forward_length(width)
    w.add_leading_dense_block_count(c["mlp_layer_types"].count("dense"))
    w.add_expert_weights_norm(c.get("norm_topk_prob", False))
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    w.add_expert_shared_count(shared)
    w.add_expert_shared_feed_forward_length(width * shared)
    w.add_rope_dimension_count(c["head_dim"])
    w.add_rope_scaling_type(gguf.RopeScalingType.NONE)


KEYS = {
    "mamba2": _mamba2_keys, "hy_v3": _hy_v3_keys, "mellum": _mellum_keys, "laguna": _laguna_keys, "cohere2_moe": _cohere2_moe_keys,
    "kimi_linear": _kimi_keys,
    "granitemoehybrid": _granite_hybrid_keys, "falcon_h1": _falcon_h1_keys, "nemotron_h": _nemotron_h_keys, "lfm2": _lfm2_keys,
    "lfm2_moe": _lfm2_keys,
    "qwen3_next": _delta_keys, "qwen3_5_text": _delta_keys, "qwen3_5_moe_text": _delta_keys,
    "nemotron": _nemotron_keys, "granitemoe": _granite_moe_keys, "granitemoeshared": _granite_moe_keys,
    "hunyuan_v1_dense": _hunyuan_keys, "dots1": _deepseek_keys, "glm4_moe": _deepseek_keys, "minimax_m2": _minimax_keys,
    "bloom": _wide_keys, "mpt": _wide_keys, "gpt_bigcode": _wide_keys,
    "deepseek_v2": _latent_keys, "deepseek_v3": _latent_keys, "glm4_moe_lite": _latent_keys, "minicpm3": _latent_keys,
    "hunyuan_v1_moe": _hunyuan_moe_keys, "ernie4_5_moe": _ernie_moe_keys, "exaone_moe": _exaone_moe_keys, "afmoe": _afmoe_keys,
    "apertus": _llama_keys, "jais2": _jais2_keys, "ministral3": _ministral3_keys, "dbrx": _dbrx_keys,
    "llama": _llama_keys, "mistral": _llama_keys, "mixtral": _llama_keys, "smollm3": _llama_keys,
    "qwen2_moe": _moe_keys, "qwen3_moe": _moe_keys, "gemma": _gemma_keys, "gemma2": _gemma_keys,
    "gemma3_text": _gemma_keys, "phi": _phi2_keys, "phi3": _phi3_keys, "phimoe": _phimoe_keys, "olmo": _olmo_keys, "granite": _granite_keys,
    "stablelm": _stablelm_keys, "falcon": _falcon_keys, "gpt_neox": _neox_keys, "cohere": _cohere_keys,
    "gpt_oss": _gpt_oss_keys, "gpt2": _gpt2_keys, "olmo3": _olmo3_keys, "glm4": _glm4_keys,
    "cohere2": _cohere2_keys, "exaone4": _exaone4_keys, "arcee": _llama_keys,
    "gemma3n_text": _gemma3n_keys, "llama4_text": _llama4_keys, "mistral4": _mistral4_keys, "gemma4_text": _gemma4_keys, "gemma4_unified_text": _gemma4_keys,
}  # fmt: skip


# ---- tensors


def permute(x: np.ndarray, heads: int) -> np.ndarray:
    """Half-split heads as interleaved ones."""
    return x.reshape(heads, 2, len(x) // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def _falcon_qkv(x: np.ndarray, c: dict) -> np.ndarray:
    n, kv = c["num_attention_heads"], c["num_key_value_heads"]
    parts = x.reshape(kv, n // kv + 2, c["hidden_size"] // n, *x.shape[1:])
    return np.concatenate([p.reshape(-1, *x.shape[1:]) for p in (parts[:, :-2], parts[:, -2], parts[:, -1])])


def _neox_qkv(x: np.ndarray, c: dict) -> np.ndarray:
    parts = x.reshape(c.get("num_attention_heads") or c["n_head"], 3, -1, *x.shape[1:])
    return np.concatenate([parts[:, i].reshape(-1, *x.shape[1:]) for i in range(3)])


def _gpt_oss(name: str, x: np.ndarray):
    """The experts' matrices as published in bf16 are transposed, gate and up by turns."""
    if name.endswith("sinks"):
        yield name + ".weight", x
    elif "gate_up_proj" in name:
        kind, x = ("bias", x) if name.endswith("_bias") else ("weight", x.swapaxes(1, 2))
        base = name.split("gate_up_proj")[0]
        yield f"{base}gate_proj.{kind}", x[:, ::2]
        yield f"{base}up_proj.{kind}", x[:, 1::2]
    elif "experts.down_proj" in name:
        bias = name.endswith("_bias")
        yield (name.replace("_bias", ".bias"), x) if bias else (name + ".weight", x.swapaxes(1, 2))
    else:
        yield name, x


def _tiled(x: np.ndarray, c: dict, axis: int, d: int) -> np.ndarray:
    """Value heads of a key head side by side become the first ones of all, the second ones of all ..."""
    keys, share = c["linear_num_key_heads"], c["linear_num_value_heads"] // c["linear_num_key_heads"]
    shape = [*x.shape[:axis], keys, share, d, *x.shape[axis + 1 :]]
    return x.reshape(shape).swapaxes(axis, axis + 1).reshape(x.shape)


def _delta(kind: str, c: dict, name: str, x: np.ndarray):
    """A tensor of Qwen3-Next or Qwen3.5."""
    d, key = c["linear_value_head_dim"], 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"]
    x = x.squeeze() if "conv1d" in name else x
    if "linear_attn." in name and kind != "qwen3_next":
        if ".in_proj_qkv." in name or ".conv1d." in name:
            x = np.concatenate([x[:key], _tiled(x[key:], c, 0, d)])
        elif ".in_proj_z." in name or ".out_proj." in name:
            x = _tiled(x, c, int(".out_proj." in name), d)
        elif "norm" not in name:
            x = _tiled(x, c, 0, 1)
    if name.endswith(".A_log"):
        x = -np.exp(x.astype("f8")).astype("f4")
    elif name.endswith(".dt_bias"):
        name = name.replace(".dt_bias", ".dt_proj.bias")
    elif name.endswith("norm.weight") and "linear_attn.norm" not in name:
        x = x + np.float32(1)
    if "in_proj_qkvz" in name:
        n, share = c["linear_num_key_heads"], c["linear_num_value_heads"] // c["linear_num_key_heads"] * d
        heads = x.reshape(n, -1, x.shape[1])
        at = [0, *np.cumsum([c["linear_key_head_dim"]] * 2 + [share] * 2)]
        q, k, v, z = (heads[:, a:b].reshape(-1, x.shape[1]) for a, b in zip(at, at[1:]))
        layer = name.split(".")[2]
        yield f"blk.{layer}.attn_qkv.weight", np.concatenate([q, k, v])
        yield f"blk.{layer}.attn_gate.weight", z
    elif "gate_up_proj" in name:
        rows, base = x.shape[1] // 2, name.removesuffix("gate_up_proj")
        yield base + "gate_proj.weight", x[:, :rows]
        yield base + "up_proj.weight", x[:, rows:]
    else:
        yield name + (".weight" if name.endswith("down_proj") else ""), x


def _keys_and_values(c: dict, name: str, x: np.ndarray):
    """Of latent attention, apart."""
    heads = x.reshape(c["num_attention_heads"], c["qk_nope_head_dim"] + c["v_head_dim"], -1)
    yield name.replace("kv_b_proj", "k_b_proj"), heads[:, : c["qk_nope_head_dim"]].swapaxes(1, 2)
    yield name.replace("kv_b_proj", "v_b_proj"), heads[:, c["qk_nope_head_dim"] :]


def _kimi(c: dict, name: str, x: np.ndarray):
    if name.endswith(".A_log"):
        yield name, -np.exp(x.astype("f8")).astype("f4")
    elif name.endswith(".dt_bias"):
        yield name.replace(".dt_bias", ".dt_proj.bias"), x
    elif name.endswith("kv_b_proj.weight"):
        yield from _keys_and_values(c, name, x)
    else:
        yield name.replace("e_score_correction_bias", "e_score_correction.bias"), x


def _times(c: dict, name: str, x: np.ndarray) -> np.ndarray:
    """Falcon-H1: the multipliers, into the weights."""
    read, key = c["attention_in_multiplier"], c["key_multiplier"]
    factors = {
        "down_proj": c["mlp_multipliers"][1], "gate_proj": c["mlp_multipliers"][0], "k_proj": key * read, "q_proj": read,
        "v_proj": read, "o_proj": c["attention_out_multiplier"], "out_proj": c["ssm_out_multiplier"],
        "lm_head": c["lm_head_multiplier"], "embed_tokens": c["embedding_multiplier"],
    }  # fmt: skip
    if ".in_proj." in name:
        keys, width = c["mamba_n_groups"] * c["mamba_d_state"], c["mamba_d_ssm"]
        rows = np.repeat(np.array(c["ssm_multipliers"], "f4"), [width, width, keys, keys, c["mamba_n_heads"]])
        return x * np.float32(c["ssm_in_multiplier"]) * rows[:, None]
    return x * np.float32(factors.get(name.split(".")[-2], 1))


def _state(c: dict, name: str, x: np.ndarray):
    """A tensor of a Mamba2 or of a short convolution."""
    groups = c.get("mamba_n_groups") or c.get("n_groups")
    if name.endswith(".dt_bias"):
        name = name.removesuffix("dt_bias") + "dt_proj.bias"
    elif name.endswith(".A_log"):
        x = -np.exp(x.astype("f8")).astype("f4")
    elif name.endswith((".mamba.norm.weight", ".mixer.norm.weight")):
        x = x.reshape(groups, -1)
    layer = name.split(".")[2]
    at = {"A_log": "ssm_a", "D": "ssm_d", "dt_proj.bias": "ssm_dt.bias"}
    end = next((to for last, to in at.items() if name.endswith("." + last)), None)
    yield f"blk.{layer}.{end}" if end else name, x if end == "ssm_dt.bias" or not end else x.reshape(-1, 1)


def _changed(kind: str, c: dict, name: str, x: np.ndarray):
    """(name, values) of one tensor as the script stores it."""
    if kind in PERMUTED and name.endswith(("q_proj.weight", "q_proj.bias")):
        x = permute(x, c["num_attention_heads"])
    if kind in PERMUTED and name.endswith(("k_proj.weight", "k_proj.bias")):
        x = permute(x, c["num_key_value_heads"])
    if kind == "kimi_linear":
        yield from _kimi(c, name, x)
        return
    if "linear_key_head_dim" in c:
        yield from _delta(kind, c, name, x)
        return
    if kind == "falcon_h1":
        x = _times(c, name, x)
    if ".mamba." in name or (".mixer." in name and not re.search(r"mixer\.([qkvo]_proj|up|down|gate|experts|shared)", name)):
        yield from _state(c, name, x)
        return
    if name.endswith("feed_forward.expert_bias"):
        name += ".bias"
    if kind.startswith(("gemma3n", "gemma4")):
        part = name.rsplit(".", 1)[-1]
        yield name + ("" if part in ("weight", "scale", "per_expert_scale") else ".weight"), x
        return
    if kind.startswith("gemma"):
        if name == "lm_head.weight":
            return
        x = x + np.float32(1) if name.endswith("norm.weight") else x
    if kind == "falcon" and c["new_decoder_architecture"]:  # as published
        name = name.replace("input_layernorm", "ln_attn").replace("post_attention_layernorm", "ln_mlp")
    if "query_key_value" in name:
        x = _falcon_qkv(x, c) if kind == "falcon" else _neox_qkv(x, c)
    if kind == "gpt2" and name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
        x = x.T
    if kind == "gpt_oss":
        yield from _gpt_oss(name, x)
        return
    if kind in NEWER:
        parts = {"mlp.expert_bias": "exp_probs_b", "mlp.router.gate.weight": "ffn_gate_inp.weight", "self_attn.g_proj.weight": "attn_gate.weight"}
        layer, _, end = name.removeprefix("model.layers.").partition(".")
        if end in parts:
            yield f"blk.{layer}.{parts[end]}", x
            return
        name = re.sub(r"mlp\.shared_\w+\.", "mlp.shared_experts.", name).replace("mlp.experts.e_score", "mlp.gate.e_score")
    name = name.replace("e_score_correction_bias", "e_score_correction.bias").replace("mlp.expert_bias", "mlp.expert_bias.bias")
    if "kv_b_proj" in name and kind != "minicpm3" and "kv_b_joined" not in c:
        yield from _keys_and_values(c, name, x)
        return
    if ".act_fn." in name:  # keys
        return
    if "ffn.experts.mlp." in name:
        x = x.reshape(c["ffn_config"]["moe_num_experts"], -1, c["d_model"])
        name, x = name + ".weight", x.swapaxes(1, 2) if name.endswith("w2") else x
    if kind == "bloom":  # as published
        name = name.removeprefix("transformer.")
    if kind == "nemotron" and name.endswith("norm.weight"):
        x = x + np.float32(1)
    if kind == "llama4_text" and "experts." in name and "shared" not in name:
        base, x = name.rsplit(".", 1)[0], x.swapaxes(1, 2)
        parts = (("gate", x[:, : x.shape[1] // 2]), ("up", x[:, x.shape[1] // 2 :])) if name.endswith("gate_up_proj") else (("down", x),)
        for part, values in parts:
            yield f"{base}.{part}_proj.weight", values
        return
    if name.endswith("input_linear.weight"):  # Granite's experts, and its shared one
        base, rows = name.removesuffix("input_linear.weight"), x.shape[-2] // 2
        for part, half in (("gate", x[..., :rows, :]), ("up", x[..., rows:, :])):
            at = name.split(".")[2]
            merged = "mlp.experts" if "block_sparse_moe" in base else "mlp.shared_experts"
            yield f"model.layers.{at}.{merged}.{part}_proj.weight", half
        return
    yield name, x


def _merged(state: dict) -> dict:
    """Tensors of experts and of heads' norms, stacked."""
    out, stacks = {}, {}
    for name, x in state.items():
        stream = re.fullmatch(r"(model\.altup_\w*projections)\.(\d+)\.weight", name)
        expert, norm = EXPERT.fullmatch(name), re.fullmatch(r"(.*_layernorm)\.norms\.(\d+)\.weight", name)
        if expert:
            at, _, number, part = expert.groups()
            merged = f"{at}{MERGED[part]}" if part in MERGED else f"model.{at}mlp.experts.{part}"
            stacks.setdefault(merged + ".weight", {})[int(number)] = x
        elif stream:
            stacks.setdefault(stream.group(1) + ".weight", {})[int(stream.group(2))] = x
        elif norm:
            stacks.setdefault(norm.group(1) + ".weight", {})[int(norm.group(2))] = x
        else:
            out[name] = x
    return out | {name: np.stack([parts[i] for i in range(len(parts))]) for name, parts in stacks.items()}


def _rope_freqs(c: dict) -> np.ndarray | None:
    """The divisors of llama3 scaling, computed in f32 as the script does."""
    if c["model_type"].startswith("gemma4"):
        layer = c["per_layer_config"][str(c["layer_types"].index("full_attention"))]
        half = layer["head_dim"] // 2
        turning = int(layer["head_dim"] * c["rope_parameters"]["full_attention"]["partial_rotary_factor"] / 2)
        return np.array([1.0] * turning + [1e30] * (half - turning), "f4")
    p = c.get("rope_scaling") or {}
    if p.get("rope_type") != "llama3":
        return None
    dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    freqs = np.float32(1) / np.float32(c["rope_theta"]) ** (np.arange(0, dim, 2, dtype="f4") / np.float32(dim))
    out, old = [], p["original_max_position_embeddings"]
    for f in freqs:
        wave = np.float32(2 * math.pi) / f
        smooth = (np.float32(old) / wave - p["low_freq_factor"]) / (p["high_freq_factor"] - p["low_freq_factor"])
        if wave < old / p["high_freq_factor"]:
            out.append(1)
        elif wave > old / p["low_freq_factor"]:
            out.append(p["factor"])
        else:
            out.append(1 / ((1 - smooth) / p["factor"] + smooth))
    return np.array(out, "f4")


# The layer that guesses further tokens, as Qwen publishes it and as llama.cpp's converter then calls it
APART = {"fc": "eh_proj", "pre_fc_norm_embedding": "enorm", "pre_fc_norm_hidden": "hnorm", "norm": "shared_head.norm"}
NEXTN = ("eh_proj", "embed_tokens", "enorm", "hnorm", "shared_head.norm", "shared_head.head")


def _behind(state: dict, layers: int) -> dict:
    """The state with `mtp.` as a layer beyond the others."""
    out = {}
    for name, x in state.items():
        part = name.removeprefix("mtp.").removeprefix("layers.0.").removesuffix(".weight")
        out[f"model.layers.{layers}.{APART.get(part, part)}.weight" if name.startswith("mtp.") else name] = x
    return out


def _nextn(name: str) -> str:
    """blk.N.nextn.NAME.weight of such a tensor, or nothing."""
    at, _, part = name.removeprefix("model.layers.").removesuffix(".weight").partition(".")
    return f"blk.{at}.nextn.{part.replace('.', '_')}.weight" if name.startswith("model.layers.") and part in NEXTN else ""


def write(path: Path, c: dict, state: dict[str, np.ndarray], tokens: list[str], more=lambda w: None) -> None:
    """The whole file, f32; `more` may add keys."""
    kind = c["model_type"]
    arch = gguf.MODEL_ARCH.DOTS1 if kind in NEWER else getattr(gguf.MODEL_ARCH, ARCHES[kind + "+experts" if "moe" in c.get("layers_block_type", ()) else kind])
    layers = next((c[key] for key in ("num_hidden_layers", "n_layer", "n_layers") if key in c), 0) or len(c["layers_block_type"])
    w = gguf.GGUFWriter(str(path), NEWER.get(kind) or gguf.MODEL_ARCH_NAMES[arch])
    w.add_name("golden")
    state = _behind(state, layers)
    drafts = int(f"model.layers.{layers}.eh_proj.weight" in state)
    if drafts:
        w.add_nextn_predict_layers(drafts)
    w.add_block_count(layers + drafts)
    w.add_file_type(0)
    KEYS.get(kind, _usual)(w, c)
    for part, add in (("alpha_p", w.add_xielu_alpha_p), ("alpha_n", w.add_xielu_alpha_n), ("beta", w.add_xielu_beta), ("eps", w.add_xielu_eps)):
        if kind == "apertus":
            add([float(state[f"model.layers.{i}.mlp.act_fn.{part}"].reshape(-1)[0]) for i in range(layers)])
    more(w)
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens)
    w.add_token_scores([0.0] * len(tokens))
    w.add_token_types([2 if i == 0 else 1 for i in range(len(tokens))])  # an unknown one must be there
    w.add_unk_token_id(0)
    if c.get("eos_token_id") is not None:
        w.add_eos_token_id(c["eos_token_id"])
    divisors = _rope_freqs(c)
    if divisors is not None:
        w.add_tensor("rope_freqs.weight", divisors)
    names = gguf.get_tensor_name_map(arch, layers + drafts)
    dense = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, layers + drafts)  # the script has none for layers without experts
    for name, x in _merged(state).items():
        for changed, values in _changed(kind, c, name, x):
            layer = changed.split(".")[2] if changed.startswith("model.layers.") else ""
            found = {"router.scale": f"blk.{layer}.ffn_gate_inp.scale", "router.per_expert_scale": f"blk.{layer}.ffn_down_exps.scale"}.get(
                ".".join(changed.split(".")[3:])
            )
            found = changed if changed.startswith("blk.") else found
            found = found or _nextn(changed) or names.get_name(changed, (".weight", ".bias")) or dense.get_name(changed, (".weight", ".bias"))
            assert found, changed
            w.add_tensor(found, np.ascontiguousarray(values.squeeze(), "f4"))
            if kind == "gpt2" and found == "token_embd.weight":
                w.add_tensor("output.weight", np.ascontiguousarray(values, "f4"))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
