"""What each family calls its tensors in a Hugging Face directory: our names (FORMAT.md) to theirs; {} is the layer."""

from . import states

# Our names of tensors (FORMAT.md) there; {} is the layer.
HUGGINGFACE = {
    "embed": "model.embed_tokens.weight",
    "attn_norm": "model.layers.{}.input_layernorm.weight",
    "ffn_norm": "model.layers.{}.post_attention_layernorm.weight",
    "q": "model.layers.{}.self_attn.q_proj.weight",
    "k": "model.layers.{}.self_attn.k_proj.weight",
    "v": "model.layers.{}.self_attn.v_proj.weight",
    "o": "model.layers.{}.self_attn.o_proj.weight",
    "q_norm": "model.layers.{}.self_attn.q_norm.weight",
    "k_norm": "model.layers.{}.self_attn.k_norm.weight",
    "sinks": "model.layers.{}.self_attn.sinks",
    "gate": "model.layers.{}.mlp.gate_proj.weight",
    "up": "model.layers.{}.mlp.up_proj.weight",
    "down": "model.layers.{}.mlp.down_proj.weight",
    "router": "model.layers.{}.mlp.gate.weight",
    "shared_gate": "model.layers.{}.mlp.shared_expert.gate_proj.weight",
    "shared_up": "model.layers.{}.mlp.shared_expert.up_proj.weight",
    "shared_down": "model.layers.{}.mlp.shared_expert.down_proj.weight",
    "shared_switch": "model.layers.{}.mlp.shared_expert_gate.weight",
    "final_norm": "model.norm.weight",
    "head": "lm_head.weight",
    "mtp_in": "model.layers.{}.eh_proj.weight",
    "mtp_embed_norm": "model.layers.{}.enorm.weight",
    "mtp_hidden_norm": "model.layers.{}.hnorm.weight",
    "mtp_norm": "model.layers.{}.shared_head.norm.weight",
    "mtp_embed": "model.layers.{}.embed_tokens.weight",
    "mtp_head": "model.layers.{}.shared_head.head.weight",
}
LAYER = "model.layers.{}."
_SANDWICH = {
    "attn_post_norm": LAYER + "post_attention_layernorm.weight",
    "ffn_norm": LAYER + "pre_feedforward_layernorm.weight",
    "ffn_post_norm": LAYER + "post_feedforward_layernorm.weight",
}
NEOX = "gpt_neox.layers.{}."
FALCON = "transformer.h.{}."
GPT2 = "transformer.h.{}."
_SHARED = {f"shared_{part}": LAYER + f"mlp.shared_experts.{part}_proj.weight" for part in ("gate", "up", "down")}
_DEEPSEEK = _SHARED | {"router_select": LAYER + "mlp.gate.e_score_correction_weight"}
_GEMMA4 = _SANDWICH | {
    "router": LAYER + "router.proj.weight", "router_scale": LAYER + "router.per_expert_scale",
    "expert_norm": LAYER + "pre_feedforward_layernorm_2.weight",
    "shared_post_norm": LAYER + "post_feedforward_layernorm_1.weight",
    "expert_post_norm": LAYER + "post_feedforward_layernorm_2.weight",
    "shared_gate": LAYER + "mlp.gate_proj.weight", "shared_up": LAYER + "mlp.up_proj.weight",
    "shared_down": LAYER + "mlp.down_proj.weight", "x_scale": LAYER + "layer_scalar",
    "ple_embed": "model.embed_tokens_per_layer.weight", "ple_in": "model.per_layer_model_projection.weight",
    "ple_norm": "model.per_layer_projection_norm.weight", "ple_gate": LAYER + "per_layer_input_gate.weight",
    "ple_out": LAYER + "per_layer_projection.weight", "ple_post_norm": LAYER + "post_per_layer_input_norm.weight",
}  # fmt: skip
_DELTA = {
    "mix_out": LAYER + "linear_attn.out_proj.weight", "mix_conv": LAYER + "linear_attn.conv1d.weight",
    "mix_norm": LAYER + "linear_attn.norm.weight", "mix_in": LAYER + "linear_attn.in_proj_qkv.weight",
    "mix_gate": LAYER + "linear_attn.in_proj_z.weight", "mix_beta": LAYER + "linear_attn.in_proj_b.weight",
    "mix_decay": LAYER + "linear_attn.in_proj_a.weight",
}  # fmt: skip
_HUNYUAN = {"q_norm": LAYER + "self_attn.query_layernorm.weight", "k_norm": LAYER + "self_attn.key_layernorm.weight"}
_OPT, MPT, DBRX = "model.decoder.layers.{}.", "transformer.blocks.{}.", "transformer.blocks.{}."
_GPTJ = {
    "embed": "transformer.wte.weight", "final_norm": "transformer.ln_f.weight", "attn_norm": GPT2 + "ln_1.weight",
    "o": GPT2 + "attn.out_proj.weight", "up": GPT2 + "mlp.fc_in.weight", "down": GPT2 + "mlp.fc_out.weight",
}  # fmt: skip
_GEMMA3N = _SANDWICH | {part: name for part, name in _GEMMA4.items() if part.startswith("ple_")} | {
    "altup_router": LAYER + "altup.modality_router.weight", "altup_norm": LAYER + "altup.router_norm.weight",
    "laurel_left": LAYER + "laurel.linear_left.weight", "laurel_right": LAYER + "laurel.linear_right.weight",
    "laurel_norm": LAYER + "laurel.post_laurel_norm.weight", "altup_scale": LAYER + "altup.correct_output_scale",
}  # fmt: skip
NAMES: dict[str, dict[str, str]] = {
    "gemma3n_text": _GEMMA3N,
    "gemma4_text": _GEMMA4,
    "gemma4_unified_text": _GEMMA4,
    "gemma2": _SANDWICH,
    "gemma3_text": _SANDWICH,
    "olmo2": _SANDWICH,
    "olmo3": _SANDWICH,
    "exaone4": _SANDWICH,
    "glm4": {
        "attn_post_norm": LAYER + "post_self_attn_layernorm.weight",
        "ffn_post_norm": LAYER + "post_mlp_layernorm.weight",
    },
    "nanochat": {"up": LAYER + "mlp.fc1.weight", "down": LAYER + "mlp.fc2.weight"},
    "hunyuan_v1_dense": _HUNYUAN,
    "hunyuan_v1_moe": _HUNYUAN | {"router": LAYER + "mlp.gate.wg.weight"}
    | {f"shared_{part}": LAYER + f"mlp.shared_mlp.{part}_proj.weight" for part in ("gate", "up", "down")},
    "opt": {
        "embed": "model.decoder.embed_tokens.weight", "positions": "model.decoder.embed_positions.weight",
        "final_norm": "model.decoder.final_layer_norm.weight", "attn_norm": _OPT + "self_attn_layer_norm.weight",
        "ffn_norm": _OPT + "final_layer_norm.weight", "o": _OPT + "self_attn.out_proj.weight",
        "up": _OPT + "fc1.weight", "down": _OPT + "fc2.weight",
    } | {part: _OPT + f"self_attn.{part}_proj.weight" for part in "qkv"},
    "mpt": {
        "embed": "transformer.wte.weight", "final_norm": "transformer.norm_f.weight", "attn_norm": MPT + "norm_1.weight",
        "ffn_norm": MPT + "norm_2.weight", "o": MPT + "attn.out_proj.weight", "up": MPT + "ffn.up_proj.weight",
        "down": MPT + "ffn.down_proj.weight",
    },
    "gptj": _GPTJ | {part: GPT2 + f"attn.{part}_proj.weight" for part in "qkv"},
    "codegen": _GPTJ,
    "gpt_neo": {
        "embed": "transformer.wte.weight", "positions": "transformer.wpe.weight", "final_norm": "transformer.ln_f.weight",
        "attn_norm": GPT2 + "ln_1.weight", "ffn_norm": GPT2 + "ln_2.weight",
        "o": GPT2 + "attn.attention.out_proj.weight", "up": GPT2 + "mlp.c_fc.weight", "down": GPT2 + "mlp.c_proj.weight",
    } | {part: GPT2 + f"attn.attention.{part}_proj.weight" for part in "qkv"},
    "hyperclovax": {
        "attn_post_norm": LAYER + "post_norm1.weight", "ffn_post_norm": LAYER + "post_norm2.weight",
    },
    "persimmon": {
        "o": LAYER + "self_attn.dense.weight", "qkv": LAYER + "self_attn.query_key_value.weight",
        "up": LAYER + "mlp.dense_h_to_4h.weight", "down": LAYER + "mlp.dense_4h_to_h.weight",
        "q_norm": LAYER + "self_attn.q_layernorm.weight", "k_norm": LAYER + "self_attn.k_layernorm.weight",
        "final_norm": "model.final_layernorm.weight",
    },
    "apertus": {
        "attn_norm": LAYER + "attention_layernorm.weight", "ffn_norm": LAYER + "feedforward_layernorm.weight",
    },
    "vaultgemma": {"ffn_norm": _SANDWICH["ffn_norm"]},
    "glm4_moe": _DEEPSEEK,
    "dots1": _DEEPSEEK,
    "exaone_moe": _DEEPSEEK,
    "bailing_hybrid": _DEEPSEEK | {
        "mix_conv": LAYER + "self_attn.conv1d.weight", "mix_norm": LAYER + "self_attn.o_norm.weight",
        "mix_gate": LAYER + "self_attn.g_proj.weight", "attn_gate": LAYER + "self_attn.g_proj.weight",
        "mix_beta": LAYER + "self_attn.b_proj.weight", "mix_out": LAYER + "self_attn.o_proj.weight",
        "mix_decay": LAYER + "self_attn.f_proj.weight",
    },
    "kimi_linear": _DEEPSEEK | {
        "mix_conv": LAYER + "self_attn.conv1d.weight", "mix_norm": LAYER + "self_attn.o_norm.weight",
        "mix_gate_down": LAYER + "self_attn.g_a_proj.weight", "mix_gate": LAYER + "self_attn.g_b_proj.weight",
        "mix_beta": LAYER + "self_attn.b_proj.weight", "mix_out": LAYER + "self_attn.o_proj.weight",
        "mix_decay_down": LAYER + "self_attn.f_a_proj.weight", "mix_decay": LAYER + "self_attn.f_b_proj.weight",
    },
    "deepseek_v2": _DEEPSEEK, "deepseek_v3": _DEEPSEEK, "glm4_moe_lite": _DEEPSEEK, "mistral4": _SHARED,
    "llama4_text": {
        "router": LAYER + "feed_forward.router.weight",
        **{part: f"{LAYER}feed_forward.{part}_proj.weight" for part in ("gate", "up", "down")},
        **{f"shared_{part}": f"{LAYER}feed_forward.shared_expert.{part}_proj.weight" for part in ("gate", "up", "down")},
    },
    "ernie4_5_moe": _SHARED,
    "solar_open": _DEEPSEEK,
    "flex_olmo": _SANDWICH,
    "afmoe": _SHARED | {
        "attn_post_norm": LAYER + "post_attention_layernorm.weight", "ffn_norm": LAYER + "pre_mlp_layernorm.weight",
        "ffn_post_norm": LAYER + "post_mlp_layernorm.weight", "attn_gate": LAYER + "self_attn.gate_proj.weight",
        "router": LAYER + "mlp.router.gate.weight", "router_select": LAYER + "mlp.expert_weight",
    },
    "granitemoe": {"router": LAYER + "block_sparse_moe.router.weight"},
    "granitemoeshared": {
        "router": LAYER + "block_sparse_moe.router.weight",
        "shared_down": LAYER + "shared_mlp.output_linear.weight",
    },
    "mixtral": {"router": LAYER + "block_sparse_moe.gate.weight"},
    "gpt_oss": {"router": LAYER + "mlp.router.weight"},
    "starcoder2": {"up": LAYER + "mlp.c_fc.weight", "down": LAYER + "mlp.c_proj.weight"},
    "phi": {
        "o": LAYER + "self_attn.dense.weight", "up": LAYER + "mlp.fc1.weight", "down": LAYER + "mlp.fc2.weight",
        "final_norm": "model.final_layernorm.weight",
        "q_norm": LAYER + "self_attn.q_layernorm.weight", "k_norm": LAYER + "self_attn.k_layernorm.weight",
    },
    "gpt_neox": {
        "embed": "gpt_neox.embed_in.weight", "head": "embed_out.weight",
        "attn_norm": NEOX + "input_layernorm.weight", "ffn_norm": NEOX + "post_attention_layernorm.weight",
        "o": NEOX + "attention.dense.weight", "up": NEOX + "mlp.dense_h_to_4h.weight",
        "down": NEOX + "mlp.dense_4h_to_h.weight", "final_norm": "gpt_neox.final_layer_norm.weight",
        "qkv": NEOX + "attention.query_key_value.weight",
    },
    "falcon": {
        "embed": "transformer.word_embeddings.weight", "final_norm": "transformer.ln_f.weight",
        "attn_norm": FALCON + "input_layernorm.weight", "ffn_norm": FALCON + "post_attention_layernorm.weight",
        "o": FALCON + "self_attention.dense.weight", "up": FALCON + "mlp.dense_h_to_4h.weight",
        "down": FALCON + "mlp.dense_4h_to_h.weight", "qkv": FALCON + "self_attention.query_key_value.weight",
    },
    "qwen3_next": _DELTA | {
        "qkvz": LAYER + "linear_attn.in_proj_qkvz.weight", "ba": LAYER + "linear_attn.in_proj_ba.weight",
    },
    "qwen3_5_text": _DELTA, "qwen3_5_moe_text": _DELTA,
    "olmo_hybrid": {
        "attn_post_norm": LAYER + "post_attention_layernorm.weight",
        "ffn_post_norm": LAYER + "post_feedforward_layernorm.weight", "mix_conv": LAYER + "linear_attn.conv1d.weight",
        "mix_norm": LAYER + "linear_attn.o_norm.weight", "mix_gate": LAYER + "linear_attn.g_proj.weight",
        "mix_decay": LAYER + "linear_attn.a_proj.weight", "mix_beta": LAYER + "linear_attn.b_proj.weight",
        "mix_out": LAYER + "linear_attn.o_proj.weight",
    },
    "gpt2": {
        "embed": "transformer.wte.weight", "positions": "transformer.wpe.weight", "head": "lm_head.weight",
        "attn_norm": GPT2 + "ln_1.weight", "ffn_norm": GPT2 + "ln_2.weight", "qkv": GPT2 + "attn.c_attn.weight",
        "o": GPT2 + "attn.c_proj.weight", "up": GPT2 + "mlp.c_fc.weight", "down": GPT2 + "mlp.c_proj.weight",
        "final_norm": "transformer.ln_f.weight",
    },
}  # fmt: skip
NAMES |= states.NAMES
NAMES["axk1"] = _DEEPSEEK | {"ffn_post_norm": LAYER + "mlp.post_mlp_layernorm.weight"}
NAMES["hy_v3"] = _SHARED | {"router_select": LAYER + "mlp.e_score_correction_weight"}
NAMES["cohere2_moe"] = _SHARED
NAMES["aria_text"] = _SHARED | {"router": LAYER + "mlp.router.weight"}
NAMES["laguna"] = _DEEPSEEK | {"attn_gate": LAYER + "self_attn.g_proj.weight"}
NAMES["kolibri1"] = NAMES["glm4"] | _DEEPSEEK
NAMES["dbrx"] = {
    "embed": "transformer.wte.weight", "final_norm": "transformer.norm_f.weight", "attn_norm": DBRX + "norm_attn_norm.norm_1.weight",
    "ffn_norm": DBRX + "norm_attn_norm.norm_2.weight", "o": DBRX + "norm_attn_norm.attn.out_proj.weight",
    "router": DBRX + "ffn.router.layer.weight",
}  # fmt: skip
NAMES["bloom"] = NAMES["falcon"] | {"embed_norm": "transformer.word_embeddings_layernorm.weight"}
NAMES["granitemoe_swa"] = NAMES["granitemoeshared"]
NAMES["gpt_bigcode"] = NAMES["gpt-sw3"] = NAMES["gpt2"]
NAMES["xglm"] = {part: name.replace("model.decoder.", "model.") for part, name in NAMES["opt"].items()} | {
    "positions": "model.embed_positions.weights", "final_norm": "model.layer_norm.weight",
}  # fmt: skip
NAMES["ctrl"] = {
    "embed": "transformer.w.weight", "positions": "transformer.pos_encoding", "final_norm": "transformer.layernorm.weight",
    "attn_norm": GPT2 + "layernorm1.weight", "ffn_norm": GPT2 + "layernorm2.weight", "head": "lm_head.weight",
    "o": GPT2 + "multi_head_attention.dense.weight", "up": GPT2 + "ffn.0.weight", "down": GPT2 + "ffn.2.weight",
    **{part: f"{GPT2}multi_head_attention.W{part}.weight" for part in "qkv"},
}  # fmt: skip
NAMES["bitnet"] = {
    "out_norm": LAYER + "self_attn.attn_sub_norm.weight", "down_norm": LAYER + "mlp.ffn_sub_norm.weight",
}  # fmt: skip
NAMES["biogpt"] = {part: name.replace("model.decoder.", "biogpt.") for part, name in NAMES["opt"].items()} | {
    "final_norm": "biogpt.layer_norm.weight", "head": "output_projection.weight",
}  # fmt: skip
NAMES["gpt_neox_japanese"] = {part: name.replace("gpt_neox.", "gpt_neox_japanese.") for part, name in NAMES["gpt_neox"].items()}


def source_name(names: dict[str, str], ours: str) -> str:
    """The name in a source of one of our tensors: 'layer.3.q_bias' is blk.3.attn_q.bias in GGUF."""
    layer, part = "", ours
    if ours.startswith("layer."):
        _, layer, part = ours.split(".")
    if part.endswith("_bias"):
        return names[part.removesuffix("_bias")].removesuffix("weight").format(layer) + "bias"
    return names[part].format(layer)
