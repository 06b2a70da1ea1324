"""Keys of config.json files as models were published, which the reference does not read.

Nothing is computed from them, so those that could mean something must have the value that the reference computes with.
To add a family's: a row in IGNORED or ONLY, or, where the value is that of another key, a line in `accept`.
"""

from typing import Any

from .config import Config

# Of what reads pictures or rates texts, and tokens with a meaning to those.
_HUNYUAN_PARTS = (
    "class_num", "dense_list", "im_end_id", "im_newline_id", "im_start_id", "mask_init_id", "org_vocab_size", "pad_id", "pool_type",
    "text_end_id", "text_start_id", "video_end_id", "video_start_id",
)  # fmt: skip
IGNORED: dict[str, tuple] = {
    "smollm3": ("max_window_layers",),
    "gpt_oss": ("initial_context_length",),
    "gpt2": ("output_past",),
    "gpt_bigcode": (
        "inference_runner", "max_batch_size", "pre_allocate_kv_cache", "runner_max_sequence_length", "validate_runner_input",
    ),
    "falcon_h1": ("expansion_factor", "mlp_expansion_factor"),
    "starcoder2": ("attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"),
    "cohere": ("use_parallel_embedding",),
    "cohere2": ("use_parallel_embedding",),
    "ernie4_5": ("fuse_rms_norm", "weight_share_add_bias"),
    "granitemoehybrid": ("init_method",),
    "lfm2": ("block_mlp_init_scale", "block_out_init_scale", "block_use_xavier_init", "conv_use_xavier_init"),
    "lfm2_moe": ("conv_use_xavier_init",),
    "nemotron_h": ("num_query_groups", "time_step_rank"),
    "minimax_m2": ("mtp_transformer_layers", "num_mtp_modules", "use_mtp"),
    "ernie4_5_moe": ("moe_capacity",),
    "opt": ("activation_dropout",),
    "ctrl": ("from_tf", "output_past"),
    "bamba": ("use_mamba_kernels",),
    "mamba2": ("norm_before_gate", "time_step_init_scheme", "time_step_scale"),
    "hunyuan_v1_dense": _HUNYUAN_PARTS,
    "hunyuan_v1_moe": (
        *_HUNYUAN_PARTS, "image_token_id", "kv_lora_rank", "num_media_embeds", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim",
        "skip_cls_token", "v_head_dim",
    ),
}
_COHERE: dict[str, tuple] = {
    "order_of_interleaved_layers": ("local_attn_first",), "position_embedding_type": ("rope_gptj",),
    "rotary_pct": (1,), "use_embedding_sharing": (True,), "use_gated_activation": (True,),
    "use_parallel_block": (True,),
}  # fmt: skip
_HUNYUAN: dict[str, tuple] = {
    "add_classification_head": (False,), "norm_type": ("rms",), "use_rotary_pos_emb": (True,),
}  # fmt: skip
ONLY: dict[str, dict[str, tuple]] = {
    "gpt2": {"n_special": (0,), "predict_special_tokens": (True, False)},
    "falcon_h1": {"attn_layer_indices": (None,), "mamba_use_mlp": (True,)},
    "gemma4_text": {"expert_intermediate_size": (None,)},
    "qwen3_5_text": {"output_gate_type": ("swish", "silu")},
    "qwen3_5_moe_text": {"output_gate_type": ("swish", "silu")},
    "phi3": {"full_attn_mod": (1,), "interpolate_factor": (1,), "lm_head_bias": (False,)},
    "starcoder2": {"mlp_type": ("default",), "norm_type": ("layer_norm",), "scale_attn_weights": (True,)},
    "cohere": _COHERE,
    "cohere2": _COHERE | {"use_qk_norm": (False, None)},
    "ernie4_5": {"compression_ratio": (1,), "use_rmsnorm": (True,)},
    "granitemoehybrid": {"normalization_function": ("rmsnorm",)},
    "lfm2": {"block_use_swiglu": (True,), "use_pos_enc": (True,)},
    "lfm2_moe": {"use_pos_enc": (True,)},
    "stablelm": {"rotary_scaling_factor": (1, None)},
    "qwen3_moe": {"qkv_bias": (False,), "shared_expert_intermediate_size": (0, None), "use_qk_norm": (True,)},
    "minimax_m2": {
        "qk_norm_type": ("per_layer",), "scoring_func": ("sigmoid",), "shared_intermediate_size": (0,), "use_qk_norm": (True,),
        "use_routing_bias": (True,),
    },
    "ernie4_5_moe": {"is_quantized": (False,), "moe_gate": ("topk",), "moe_use_aux_free": (True,), "use_rmsnorm": (True,)},
    "dots1": {"moe_layer_freq": (1,), "scoring_func": ("noaux_tc", "sigmoid"), "topk_method": ("noaux_tc",)},
    "mamba2": {"rms_norm": (True,)},
    "nanochat": {"qkv_bias": (False,)},
    "opt": {"learned_embeddings": (True,), "scale_embeddings": (False,)},
    "hunyuan_v1_dense": _HUNYUAN,
    "hunyuan_v1_moe": _HUNYUAN | {
        "n_group": (1, None), "position_embedding_xdrope": (False,), "routed_scaling_factor": (1, False, None), "topk_group": (1, None),
        "use_mla": (False,), "xdrope_section": (None,),
    },
}  # fmt: skip


def accept(kind: str, c: Config, f: dict[str, Any]) -> None:
    """The keys of a family, whose features have been read from the config."""
    c.ignore(*IGNORED.get(kind, ()))
    for key, allowed in ONLY.get(kind, {}).items():
        c.only(key, *allowed)
    n = f["n_layers"]
    if kind == "gemma2":
        c.only("sliding_window_size", c.get("sliding_window", 4096))
    elif kind == "gpt_oss":
        c.only("experts_per_token", f["experts_used"][0])
    elif kind == "starcoder2":
        c.only("activation_function", "gelu", c.get("hidden_act", "gelu_pytorch_tanh"))
        c.only("layer_norm_epsilon", f["norm_eps"])
    elif kind == "nemotron_h":
        c.only("rms_norm_eps", f["norm_eps"])
        c.only("norm_eps", f["norm_eps"])
        c.only("attention_head_dim", c.get("head_dim", 128), max(f["head_dim"]))
    elif kind in ("lfm2", "lfm2_moe"):
        for key in ("block_dim", "conv_dim", "conv_dim_out"):
            c.only(key, f["dim"])
        c.only("num_heads", max(f["n_heads"]))
        c.only("block_norm_eps", f["norm_eps"])
    elif kind == "cohere2":
        c.only("layer_switch", c.get("sliding_window_pattern", 4))
    elif kind == "stablelm":
        turning = c.get("partial_rotary_factor", 0.25)
        c.only("norm_eps", f["norm_eps"])
        c.only("num_heads", f["n_heads"][0])
        c.only("rope_pct", (c.table("rope_scaling") or c.table("rope_parameters")).get("partial_rotary_factor", turning))
    elif kind == "minimax_m2":
        c.only("attn_type_list", [1] * n)
    elif kind == "exaone_moe":
        sparse = [experts > 0 for experts in f["n_experts"]]
        c.only("is_moe_layer", sparse)
        c.only("first_last_k_dense_replace", n - sum(sparse))
        c.only("scoring_func", "sigmoid")
        c.only("topk_method", "noaux_tc")
    elif kind == "bloom":
        c.only("n_inner", 4 * f["dim"], None)
    elif kind == "falcon":
        c.only("ff_factor", f["hidden"][0] / f["dim"])
    elif kind == "nemotron":
        c.only("kv_channels", f["head_dim"][0])
    elif kind == "nanochat":
        c.only("logits_soft_cap", f.get("logit_cap"))
    elif kind in ("hunyuan_v1_dense", "hunyuan_v1_moe"):
        c.only("attention_head_dim", f["head_dim"][0])
        c.ignore(*(key for key in c.values if key.startswith(("anyres_", "vit_"))))
