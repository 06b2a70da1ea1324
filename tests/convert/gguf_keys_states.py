"""What llama.cpp's convert_hf_to_gguf.py writes as keys of families that keep a state or a convolution: see gguf_keys.py."""

import gguf
from gguf_keys import usual
from gguf_keys_sparse import granite_moe_keys


def _delta_keys(w, c):
    usual(w, c)
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
    granite_moe_keys(w, c | {"num_key_value_heads": kv})  # the script says 1 << 20 positions
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
    usual(w, c | {"num_key_value_heads": kv, "intermediate_size": [wide.get(kind, 0) for kind in kinds],
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
    usual(w, c | {"num_key_value_heads": kv, "rms_norm_eps": c["norm_eps"], "intermediate_size": width})
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


KEYS = {
    "mamba2": _mamba2_keys, "kimi_linear": _kimi_keys, "granitemoehybrid": _granite_hybrid_keys, "falcon_h1": _falcon_h1_keys,
    "nemotron_h": _nemotron_h_keys, "lfm2": _lfm2_keys, "lfm2_moe": _lfm2_keys, "qwen3_next": _delta_keys,
    "qwen3_5_text": _delta_keys, "qwen3_5_moe_text": _delta_keys,
}  # fmt: skip
