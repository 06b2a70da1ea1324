"""What llama.cpp's convert_hf_to_gguf.py writes as keys of families with experts or latent attention: see gguf_keys.py."""

import math

import gguf
import numpy as np
from gguf_keys import exaone4_keys, granite_keys, hunyuan_keys, llama_keys, usual


def _moe_keys(w, c):
    usual(w, c)
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    if "shared_expert_intermediate_size" in c:
        w.add_expert_shared_feed_forward_length(c["shared_expert_intermediate_size"])


def _llama4_keys(w, c):
    llama_keys(w, c | {"intermediate_size": c["intermediate_size_mlp"]})
    w.add_interleave_moe_layer_step(c["interleave_moe_layer_step"])
    w.add_expert_feed_forward_length(c["intermediate_size"])
    w.add_attn_temperature_scale(c["attn_scale"])  # the script does not: in llama.cpp it is 0.1


def _mistral4_keys(w, c):
    rope = c["rope_parameters"] if "rope_parameters" in c else c["rope_scaling"]
    usual(w, {key: value for key, value in c.items() if key != "head_dim"} | {"num_key_value_heads": 1, "rope_scaling": rope})
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


def granite_moe_keys(w, c):
    granite_keys(w, c)
    if c.get("shared_intermediate_size"):
        w.add_expert_shared_feed_forward_length(c["shared_intermediate_size"])


def _deepseek_keys(w, c):
    usual(w, c)
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
    usual(w, c)
    w.add_expert_feed_forward_length(c["intermediate_size"])
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    w.add_rope_dimension_count(int(c["head_dim"] * c["partial_rotary_factor"]))


def _latent_keys(w, c):
    """As one head for keys and values; MiniCPM3's script states whole heads."""
    rank, rotary = c["kv_lora_rank"], c["qk_rope_head_dim"]
    small = c["model_type"] == "minicpm3"
    usual(w, {k: v for k, v in c.items() if k not in ("head_dim", "rope_scaling", "num_experts")} | {"num_key_value_heads": c["num_attention_heads"] if small else 1})
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
    hunyuan_keys(w, c)
    w.add_expert_shared_feed_forward_length(c["intermediate_size"])
    w.add_expert_feed_forward_length(c["intermediate_size"])
    w.add_expert_used_count(c["moe_topk"] if isinstance(c["moe_topk"], int) else c["moe_topk"][0])
    w.add_expert_shared_count(1)


def _ernie_moe_keys(w, c):
    usual(w, c)
    w.add_expert_count(c["moe_num_experts"])
    w.add_expert_used_count(c["moe_k"])
    w.add_interleave_moe_layer_step(c.get("moe_layer_interval", 1))
    w.add_leading_dense_block_count(c.get("moe_layer_start_index", 1))
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    w.add_expert_shared_count(c["moe_num_shared_experts"])
    w.add_expert_shared_feed_forward_length(c["intermediate_size"] // c["num_key_value_heads"])


def _exaone_moe_keys(w, c):
    exaone4_keys(w, c)
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
    llama_keys(w, c)
    w.add_expert_shared_count(c["num_shared_experts"])
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    w.add_leading_dense_block_count(c["num_dense_layers"])
    w.add_expert_weights_norm(True)
    w.add_expert_weights_scale(c["route_scale"])
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    w.add_sliding_window(c["sliding_window"])


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


def _two_ropes(w, c):
    """RoPE and layers by kind, as the script's TextModel and LlamaModel write them."""
    full, local = (c["rope_parameters"].get(kind) for kind in ("full_attention", "sliding_attention"))
    usual(w, c | {"rope_theta": full["rope_theta"], "rope_scaling": full})
    w.add_rope_freq_base_swa(local["rope_theta"])
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])


def _mellum_keys(w, c):
    _two_ropes(w, c)
    w.add_sliding_window(c["sliding_window"])
    w.add_sliding_window_pattern([kind == "sliding_attention" for kind in c["layer_types"]])


def _hy_v3_keys(w, c):
    usual(w, c)
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
    usual(w, {key: value for key, value in c.items() if key != "rms_norm_eps"} | {"intermediate_size": c["prefix_dense_intermediate_size"]})
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
    "hy_v3": _hy_v3_keys, "mellum": _mellum_keys, "laguna": _laguna_keys, "cohere2_moe": _cohere2_moe_keys,
    "granitemoe": granite_moe_keys, "granitemoeshared": granite_moe_keys, "dots1": _deepseek_keys, "glm4_moe": _deepseek_keys,
    "minimax_m2": _minimax_keys, "deepseek_v2": _latent_keys, "deepseek_v3": _latent_keys, "glm4_moe_lite": _latent_keys,
    "minicpm3": _latent_keys, "hunyuan_v1_moe": _hunyuan_moe_keys, "ernie4_5_moe": _ernie_moe_keys, "exaone_moe": _exaone_moe_keys,
    "afmoe": _afmoe_keys, "dbrx": _dbrx_keys, "qwen2_moe": _moe_keys, "qwen3_moe": _moe_keys, "phimoe": _phimoe_keys,
    "llama4_text": _llama4_keys, "mistral4": _mistral4_keys,
}  # fmt: skip
