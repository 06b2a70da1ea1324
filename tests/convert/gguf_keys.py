"""What llama.cpp's convert_hf_to_gguf.py writes as keys, family by family: what most families share, and dense ones. gguf_writer.py
writes files with them.

In:  the writer, and config.json in the spelling before transformers 5 (rope_theta, rope_scaling).
"""

import math
from statistics import NormalDist

import gguf
import numpy as np


def usual(w: gguf.GGUFWriter, c: dict) -> None:
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


def llama_keys(w, c):
    usual(w, c)
    w.add_vocab_size(c["vocab_size"])
    w.add_rope_dimension_count(c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"])


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


def _olmo_keys(w, c):
    usual(w, c)
    w.add_layer_norm_eps(1e-5)
    w.add_clamp_kqv(c["clip_qkv"])


def _olmo3_keys(w, c):
    usual(w, c)
    factor = c["rope_scaling"].get("attention_factor") or 0.1 * math.log(c["rope_scaling"]["factor"]) + 1
    w.add_rope_scaling_attn_factors(factor)
    w.add_sliding_window(c["sliding_window"])
    w.add_sliding_window_pattern([(i + 1) % 4 != 0 for i in range(c["num_hidden_layers"])])


def _glm4_keys(w, c):
    usual(w, c)
    w.add_rope_dimension_count(int(c["head_dim"] * c["partial_rotary_factor"]))


def granite_keys(w, c):
    llama_keys(w, {k: v for k, v in c.items() if k != "head_dim"})
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
    usual(w, c)
    w.add_logit_scale(c["logit_scale"])
    w.add_rope_scaling_type(gguf.RopeScalingType.NONE)


def _cohere2_keys(w, c):
    _cohere_keys(w, c)
    w.add_sliding_window(c["sliding_window"])
    w.add_vocab_size(c["vocab_size"])


def exaone4_keys(w, c):
    usual(w, c)
    w.add_vocab_size(c["vocab_size"])
    w.add_sliding_window(c["sliding_window"])
    w.add_sliding_window_pattern([(i + 1) % 4 != 0 for i in range(c["num_hidden_layers"])])


def _gpt_oss_keys(w, c):
    usual(w, c)
    w.add_sliding_window(c["sliding_window"])
    w.add_expert_feed_forward_length(c["intermediate_size"])


def _gpt2_keys(w, c):
    w.add_context_length(c["n_positions"])
    w.add_embedding_length(c["n_embd"])
    w.add_feed_forward_length(4 * c["n_embd"])
    w.add_head_count(c["n_head"])
    w.add_layer_norm_eps(c["layer_norm_epsilon"])


def _nemotron_keys(w, c):
    usual(w, c)
    w.add_layer_norm_eps(c["norm_eps"])
    w.add_rope_dimension_count(int(c["partial_rotary_factor"] * c["hidden_size"]) // c["num_attention_heads"])


def hunyuan_keys(w, c):
    """A scaling by alpha is a larger base in the file."""
    scaling, d = c.get("rope_scaling") or {}, c["head_dim"]
    base = c["rope_theta"] * scaling["alpha"] ** (d / (d - 2)) if scaling.get("alpha") else c["rope_theta"]
    usual(w, c | {"rope_theta": base, "rope_scaling": None})


def _jais2_keys(w, c):
    usual(w, c)
    w.add_rope_dimension_count(c["head_dim"])


def _ministral3_keys(w, c):
    p = c["rope_scaling"]
    llama_keys(w, c)
    w.add_rope_scaling_yarn_beta_fast(p["beta_fast"])
    w.add_rope_scaling_yarn_beta_slow(p["beta_slow"])
    w.add_rope_scaling_yarn_log_mul(p["mscale_all_dim"])
    w.add_attn_temperature_scale(p["llama_4_scaling_beta"])


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


KEYS = {
    "nemotron": _nemotron_keys, "hunyuan_v1_dense": hunyuan_keys, "bloom": _wide_keys, "mpt": _wide_keys,
    "gpt_bigcode": _wide_keys, "apertus": llama_keys, "llama": llama_keys, "mistral": llama_keys, "mixtral": llama_keys,
    "smollm3": llama_keys, "arcee": llama_keys, "jais2": _jais2_keys, "ministral3": _ministral3_keys, "gemma": _gemma_keys,
    "gemma2": _gemma_keys, "gemma3_text": _gemma_keys, "phi": _phi2_keys, "phi3": _phi3_keys, "olmo": _olmo_keys,
    "granite": granite_keys, "stablelm": _stablelm_keys, "falcon": _falcon_keys, "gpt_neox": _neox_keys, "cohere": _cohere_keys,
    "gpt_oss": _gpt_oss_keys, "gpt2": _gpt2_keys, "olmo3": _olmo3_keys, "glm4": _glm4_keys, "cohere2": _cohere2_keys,
    "exaone4": exaone4_keys, "gemma3n_text": _gemma3n_keys, "gemma4_text": _gemma4_keys, "gemma4_unified_text": _gemma4_keys,
}  # fmt: skip
