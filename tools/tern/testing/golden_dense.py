"""Golden models of dense families; see golden_families.py."""

from .golden_family import Family, config, interleaved, modulo_heads, rope, without

LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=512)
BITNET = {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"}
BIASES = ("q_bias", "k_bias", "v_bias", "o_bias", "gate_bias", "up_bias", "down_bias")
GEMMA4_ROPE = {
    "full_attention": rope(1000000.0, "proportional", partial_rotary_factor=0.5), "sliding_attention": rope(10000.0),
}  # fmt: skip
GEMMA4_KINDS = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
                "sliding_attention", "full_attention"]  # fmt: skip
DENSE = [
    Family(
        "llama-mha", "Llama",
        config(48, 3, 3, 16, 80, rope(10000.0), rms_norm_eps=0.05),
        {"eps": {"rms_norm_eps": 1e-5}, "rope order": interleaved, "theta": {"rope_parameters": rope(500000.0)}},
    ),
    Family(
        "llama-gqa", "Llama",
        config(36, 4, 2, 24, 72, rope(10000.0), tie_word_embeddings=True, num_hidden_layers=6),
        {"rope order": interleaved, "head groups": modulo_heads},
    ),
    Family(
        "llama-mqa", "Llama",
        config(40, 5, 1, 80, 72, rope(777.5), vocab_size=91),
        {"rope order": interleaved, "theta": {"rope_parameters": rope(10000.0)}},
    ),
    Family(
        "llama-bias", "Llama",
        config(48, 6, 2, 8, 64, rope(10000.0), attention_bias=True, mlp_bias=True),
        {part: without(part) for part in BIASES if part != "k_bias"}
        | {"k_bias": without("k_bias"), "rope order": interleaved, "head groups": modulo_heads},
    ),
    Family(
        "llama-linear", "Llama",
        config(48, 2, 1, 24, 64, rope(10000.0, "linear", factor=3.5)),
        {"scaling": {"rope_parameters": rope(10000.0)}},
    ),
    Family(
        "llama3", "Llama",
        config(64, 4, 2, 32, 64, rope(10000.0, "llama3", **LLAMA3), max_position_embeddings=8192),
        {"scaling": {"rope_parameters": rope(10000.0)},
         "linear instead": {"rope_parameters": rope(10000.0, "linear", factor=8.0)}},
        prompt=4096, rows=(0, 255, 256, 1023, 3071, 4095, 4126),
    ),
    Family(
        "mistral", "Mistral",
        config(48, 4, 2, 16, 64, rope(10000.0), sliding_window=8),
        {"no window": {"sliding_window": None}, "window 7": {"sliding_window": 7}, "window 9": {"sliding_window": 9}},
    ),
    Family(
        "mistral-long", "Mistral",
        config(48, 4, 1, 16, 64, rope(10000.0), sliding_window=300),
        {"no window": {"sliding_window": None}},
        prompt=600, rows=(0, 256, 299, 300, 301, 599, 630),
    ),
    Family(
        "qwen2", "Qwen2",
        config(32, 4, 2, 12, 64, rope(1000000.0), tie_word_embeddings=True, num_hidden_layers=6,
               use_sliding_window=True, sliding_window=6, max_window_layers=2),
        {part: without(part) for part in BIASES[:3]}
        | {"no window": {"use_sliding_window": False}, "window everywhere": {"max_window_layers": 0}},
    ),
    Family(
        "qwen3", "Qwen3",
        config(40, 4, 2, 24, 64, rope(1000000.0), use_sliding_window=True, sliding_window=6, max_window_layers=1),
        {part: without(part, 1) for part in ("q_norm", "k_norm")}
        | {"no window": {"use_sliding_window": False}, "rope order": interleaved, "head groups": modulo_heads},
    ),
    Family(
        "gemma", "Gemma",
        config(48, 4, 1, 24, 64, rope(10000.0), tie_word_embeddings=True),
        {"activation": {"hidden_act": "silu"}, "norm weights": without("attn_norm", 1), "rope order": interleaved},
        distinct=1,
    ),
    Family(
        "gemma2", "Gemma2",
        config(48, 4, 2, 24, 64, rope(10000.0), num_hidden_layers=4, tie_word_embeddings=True, sliding_window=7,
               query_pre_attn_scalar=40, attn_logit_softcapping=0.5, final_logit_softcapping=3.0,
               rms_norm_eps=1e-6),
        {"attention cap": {"attn_logit_softcapping": None}, "logit cap": {"final_logit_softcapping": None},
         "scale": {"query_pre_attn_scalar": 24}, "window": {"sliding_window": 8},
         "which layers": {"layer_types": ["full_attention", "sliding_attention"] * 2}}
        | {part: without(part, 1) for part in ("attn_post_norm", "ffn_norm", "ffn_post_norm")},
        distinct=1,
    ),
    Family(
        "gemma3", "Gemma3Text",
        config(48, 4, 2, 24, 64,
               {"full_attention": rope(1000000.0, "linear", factor=8.0), "sliding_attention": rope(10000.0)},
               num_hidden_layers=6, tie_word_embeddings=True, sliding_window=7, query_pre_attn_scalar=40,
               rms_norm_eps=1e-6),
        {"scale": {"query_pre_attn_scalar": 24}, "window": {"sliding_window": 8},
         "linear": {"rope_parameters": {"full_attention": rope(1000000.0), "sliding_attention": rope(10000.0)}},
         "local base": {"rope_parameters": {"full_attention": rope(1000000.0, "linear", factor=8.0),
                                            "sliding_attention": rope(1000000.0)}}}
        | {part: without(part, 1) for part in ("q_norm", "k_norm", "attn_post_norm", "ffn_post_norm")},
        distinct=1,
    ),
    Family(
        "gemma4-e2b", "Gemma4Text",
        config(48, 4, 1, 12, 36, GEMMA4_ROPE, num_hidden_layers=7, tie_word_embeddings=True, sliding_window=7, rms_norm_eps=1e-6,
               global_head_dim=20, num_kv_shared_layers=3, use_double_wide_mlp=True, hidden_size_per_layer_input=20,
               vocab_size_per_layer_input=96, layer_types=GEMMA4_KINDS, final_logit_softcapping=3.0),
        {"embeddings per layer": without("ple_out"), "logit cap": {"final_logit_softcapping": None},
         "theta of the full layers": {"rope_parameters": GEMMA4_ROPE | {
             "full_attention": rope(10000.0, "proportional", partial_rotary_factor=0.5)}},
         "window": {"sliding_window": 8}, "projection": without("ple_in"), "embedding": without("ple_embed")}
        | {part: without(part, 1) for part in ("x_scale", "ple_norm", "ple_post_norm", "q_norm", "k_norm")},
        distinct=1,
    ),
    Family(
        "gemma3n", "Gemma3nText",
        config(48, 4, 2, 12, 40, {"full_attention": rope(1000000.0), "sliding_attention": rope(10000.0)}, num_hidden_layers=6,
               tie_word_embeddings=True, sliding_window=7, rms_norm_eps=1e-6, num_kv_shared_layers=2, laurel_rank=10,
               hidden_size_per_layer_input=20, vocab_size_per_layer_input=60, altup_num_inputs=3, final_logit_softcapping=3.0,
               layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2,
               activation_sparsity_pattern=[0.8, 0.3, 0.5, 0.0, 0.0, 0.9]),
        {"cuts": {"activation_sparsity_pattern": [0.0] * 6}, "one cut": {"activation_sparsity_pattern": [0.8, 0.3, 0.0, 0.0, 0.0, 0.9]},
         "residual": without("laurel_right"), "norm of the residual": without("laurel_norm", 1),
         "keys and values of their own": {"num_kv_shared_layers": 0}, "window": {"sliding_window": 8},
         "embedding": without("ple_embed"), "embeddings per layer": without("ple_out"), "logit cap": {"final_logit_softcapping": 30.0}}
        | {f"streams: {part}": without(part) for part in ("altup_in", "altup_out", "altup_predict", "altup_correct", "altup_router")}
        | {part: without(part, 1) for part in ("altup_scale", "altup_norm", "q_norm", "attn_post_norm", "ple_post_norm")},
        distinct=1,
    ),
    Family(
        "gemma4-e4b", "Gemma4Text",
        config(40, 4, 2, 20, 72, GEMMA4_ROPE, num_hidden_layers=6, tie_word_embeddings=True, sliding_window=7, rms_norm_eps=1e-6,
               global_head_dim=28, num_kv_shared_layers=2, hidden_size_per_layer_input=36, vocab_size_per_layer_input=96,
               layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2),
        {"keys and values of their own": {"num_kv_shared_layers": 0}, "shared earlier": {"num_kv_shared_layers": 3},
         "partial": {"rope_parameters": GEMMA4_ROPE | {
             "full_attention": rope(1000000.0, "proportional", partial_rotary_factor=1.0)}}},
        distinct=1,
    ),
    Family(
        "gemma4-26b", "Gemma4Text",
        config(48, 6, 3, 12, 40, GEMMA4_ROPE, num_hidden_layers=4, tie_word_embeddings=True, sliding_window=7, rms_norm_eps=1e-6,
               attention_k_eq_v=True, hidden_size_per_layer_input=0, enable_moe_block=True, num_experts=6, top_k_experts=3,
               moe_intermediate_size=24, layer_types=["sliding_attention", "full_attention"] * 2,
               per_layer_config={i: {"head_dim": 24, "num_key_value_heads": 2} for i in (1, 3)}),
        {"keys as values": {"attention_k_eq_v": False}, "two experts": {"top_k_experts": 2}}
        | {part: without(part, 1) for part in ("x_scale", "router_scale", "expert_norm", "shared_post_norm", "expert_post_norm")}
        | {"router norm": without("router_norm", 48**-0.5)},
        distinct=1,
    ),
    Family(
        "gemma4-12b", "Gemma4UnifiedText",
        config(48, 4, 2, 12, 72, GEMMA4_ROPE, num_hidden_layers=4, tie_word_embeddings=True, sliding_window=300, rms_norm_eps=1e-6,
               attention_k_eq_v=True, global_head_dim=40, num_global_key_value_heads=1,
               layer_types=["sliding_attention", "full_attention"] * 2),
        {"window": {"sliding_window": 301}, "scale": without("x_scale", 1), "k_norm": without("k_norm", 1)},
        prompt=600, rows=(0, 256, 299, 300, 301, 599, 630), distinct=1,
    ),
    Family(
        "phi3", "Phi3",
        config(64, 4, 2, 16, 64, rope(10000.0, "longrope", short_factor=[1.0, 1.1, 1.3, 1.5, 1.7, 2.0],
                                      long_factor=[1.0, 2.0, 4.0, 8.0, 8.0, 9.0], partial_rotary_factor=0.75),
               max_position_embeddings=256, original_max_position_embeddings=64, sliding_window=20),
        {"window": {"sliding_window": None}, "order of fused rows": interleaved, "head groups": modulo_heads},
    ),
    Family(
        "phi3-long", "Phi3",
        config(32, 4, 2, 8, 64, rope(10000.0, "longrope", short_factor=[1.0, 1.2, 1.4, 1.5],
                                     long_factor=[1.0, 2.0, 4.0, 8.0], partial_rotary_factor=1.0),
               max_position_embeddings=256, original_max_position_embeddings=32),
        {"rope order": interleaved},
        prompt=40,
    ),
    Family(
        "phi3-grows", "Phi3",
        config(32, 4, 2, 8, 64, rope(10000.0, "longrope", short_factor=[1.0, 1.2, 1.4, 1.5],
                                     long_factor=[1.0, 2.0, 4.0, 8.0], partial_rotary_factor=1.0),
               max_position_embeddings=256, original_max_position_embeddings=40, sliding_window=20),
        {"the same factors": {"rope_parameters": rope(
            10000.0, "longrope", short_factor=[1.0, 1.2, 1.4, 1.5], long_factor=[1.0, 1.2, 1.4, 1.5],
            partial_rotary_factor=1.0)}},
        rows=(0, 23, 24, 38, 39, 40, 41, 54), grows=True,
    ),
    Family(
        "llama-dynamic", "Llama",
        config(48, 4, 2, 16, 64, rope(10000.0, "dynamic", factor=3.0), max_position_embeddings=64),
        {"scaling": {"rope_parameters": rope(10000.0)}},
        prompt=100, rows=(0, 7, 63, 64, 99, 130), length=131,
    ),
    Family(
        "smollm3", "SmolLM3",
        config(48, 4, 2, 12, 64, rope(2000000.0), num_hidden_layers=4, tie_word_embeddings=True,
               use_sliding_window=True, sliding_window=6, no_rope_layers=[1, 0, 1, 0]),
        {"no window": {"use_sliding_window": False}, "rope everywhere": {"no_rope_layers": [1, 1, 1, 1]},
         "the other layers": {"no_rope_layers": [0, 1, 0, 1]}},
    ),
    Family(
        "olmo", "Olmo",
        config(48, 4, 2, 12, 64, rope(10000.0), clip_qkv=0.9, rms_norm_eps=None),
        {"clip": {"clip_qkv": None}, "rope order": interleaved},
    ),
    Family(
        "olmo2", "Olmo2",
        config(48, 4, 2, 12, 64, rope(500000.0), rms_norm_eps=1e-6),
        {part: without(part, 1) for part in ("q_norm", "k_norm", "attn_post_norm", "ffn_post_norm")}
        | {"rope order": interleaved},
    ),
    Family(
        "olmo3", "Olmo3",
        config(48, 4, 2, 12, 64,
               {"full_attention": rope(500000.0, "yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0,
                                       original_max_position_embeddings=64),
                "sliding_attention": rope(500000.0)},
               num_hidden_layers=4, sliding_window=7, rms_norm_eps=1e-6),
        {part: without(part, 1) for part in ("q_norm", "k_norm", "attn_post_norm", "ffn_post_norm")}
        | {"window": {"sliding_window": 8}, "which layers": {"layer_types": ["full_attention", "sliding_attention"] * 2},
           "yarn": {"rope_parameters": {"full_attention": rope(500000.0), "sliding_attention": rope(500000.0)}}},
        prompt=100, rows=(0, 7, 63, 64, 99, 130),
    ),
    Family(
        "granite", "Granite",
        config(48, 4, 2, 12, 64, rope(10000.0), embedding_multiplier=6.0, residual_multiplier=0.4,
               attention_multiplier=0.15, logits_scaling=5.0, attention_bias=True, mlp_bias=True),
        {"embedding": {"embedding_multiplier": 1.0}, "residual": {"residual_multiplier": 1.0},
         "attention": {"attention_multiplier": 0.3}, "logits": {"logits_scaling": 1.0}},
    ),
    Family(
        "cohere", "Cohere",
        config(48, 4, 2, 12, 64, rope(10000.0), layer_norm_eps=1e-5, tie_word_embeddings=True, logit_scale=0.25,
               use_qk_norm=True, rms_norm_eps=None),
        {"logit scale": {"logit_scale": 0.5}, "q_norm": without("q_norm", 1), "k_norm": without("k_norm", 1),
         "rope order": interleaved},
        distinct=1,
    ),
    Family(
        "cohere2", "Cohere2",
        config(48, 4, 2, 12, 64, rope(10000.0), num_hidden_layers=4, sliding_window=7, layer_norm_eps=1e-5,
               tie_word_embeddings=True, logit_scale=0.25, rms_norm_eps=None),
        {"logit scale": {"logit_scale": 0.5}, "window": {"sliding_window": 8}, "rope order": interleaved,
         "which layers": {"layer_types": ["full_attention", "sliding_attention"] * 2}},
        distinct=1,
    ),
    Family(
        "exaone4", "Exaone4",
        config(48, 4, 2, 12, 64, rope(1000000.0), num_hidden_layers=4, sliding_window=7, sliding_window_pattern=4),
        {part: without(part, 1) for part in ("q_norm", "k_norm", "attn_post_norm", "ffn_post_norm")}
        | {"window": {"sliding_window": 8}, "which layers": {"layer_types": ["full_attention", "sliding_attention"] * 2}},
    ),
    Family(
        "arcee", "Arcee",
        config(48, 4, 2, 12, 64, rope(10000.0), attention_bias=True, mlp_bias=True),
        {part: without(part) for part in ("q_bias", "v_bias", "o_bias", "up_bias", "down_bias")}
        | {"activation": {"hidden_act": "gelu"}},
    ),
    Family(
        "seed-oss", "SeedOss",
        config(48, 4, 2, 20, 64, rope(10000.0), attention_dropout=0.0, residual_dropout=0.0),
        {part: without(part) for part in ("q_bias", "v_bias")} | {"head groups": modulo_heads},
    ),
    Family(
        "ernie4_5", "Ernie4_5",
        config(48, 4, 2, 20, 64, rope(500000.0), use_bias=True, tie_word_embeddings=True),
        {part: without(part) for part in ("q_bias", "v_bias", "o_bias", "gate_bias", "down_bias")}
        | {"rope order": interleaved},
        distinct=1,
    ),
    Family(
        "glm4", "Glm4",
        config(48, 4, 2, 20, 64, rope(10000.0, partial_rotary_factor=0.5), attention_bias=True),
        {part: without(part, 1) for part in ("attn_post_norm", "ffn_norm", "ffn_post_norm")}
        | {part: without(part) for part in ("q_bias", "v_bias")}
        | {"rope order": interleaved, "partial": {"rope_parameters": rope(10000.0, partial_rotary_factor=1.0)}},
    ),
    Family(
        "llama-yarn", "Llama",
        config(48, 4, 2, 16, 64, rope(10000.0, "yarn", factor=4.0, original_max_position_embeddings=64)),
        {"scaling": {"rope_parameters": rope(10000.0)}},
        prompt=100, rows=(0, 7, 63, 64, 99, 130),
    ),
    Family(
        "glm", "Glm",
        config(48, 4, 2, 20, 64, rope(10000.0, partial_rotary_factor=0.5), attention_bias=True),
        {part: without(part) for part in ("q_bias", "v_bias")}
        | {"rope order": interleaved, "partial": {"rope_parameters": rope(10000.0, partial_rotary_factor=1.0)}},
    ),
    Family(
        "ministral", "Ministral",
        config(48, 4, 2, 16, 64, rope(10000.0), num_hidden_layers=4, sliding_window=8,
               layer_types=["full_attention", "sliding_attention"] * 2),
        {"no window": {"layer_types": ["full_attention"] * 4}, "window 7": {"sliding_window": 7},
         "which layers": {"layer_types": ["sliding_attention", "full_attention"] * 2}},
    ),
    Family(
        "helium", "Helium",
        config(48, 4, 2, 12, 64, rope(100000.0), attention_bias=True, mlp_bias=True, rms_norm_eps=1e-8),
        {part: without(part) for part in ("q_bias", "v_bias", "gate_bias", "down_bias")} | {"rope order": interleaved},
    ),
    Family(
        "cwm", "Cwm",
        config(48, 4, 2, 16, 64, rope(1000000.0, "llama3", **LLAMA3 | {"original_max_position_embeddings": 16}),
               num_hidden_layers=5, sliding_window=7),
        {"window": {"sliding_window": 8}, "scaling": {"rope_parameters": rope(1000000.0)},
         "which layers": {"layer_types": ["sliding_attention", "full_attention"] * 2 + ["full_attention"]}},
    ),
    Family(
        "internlm3", "InternLM3",
        config(48, 4, 2, 20, 64, rope(50000000.0, "linear", factor=6.0), attention_bias=True, mlp_bias=True),
        {part: without(part) for part in ("q_bias", "v_bias", "o_bias", "gate_bias", "down_bias")}
        | {"scaling": {"rope_parameters": rope(50000000.0)}},
    ),
    Family(
        "nemotron", "Nemotron",
        config(48, 4, 2, 12, 64, rope(10000.0, partial_rotary_factor=0.5), norm_eps=1e-5, rms_norm_eps=None, mlp_bias=True),
        {"norm weights": without("attn_norm", 1), "norm bias": without("ffn_norm_bias"), "up_bias": without("up_bias"),
         "activation": {"hidden_act": "gelu"}, "partial": {"rope_parameters": rope(10000.0, partial_rotary_factor=1.0)}},
    ),
    Family(
        "jais2", "Jais2",
        config(48, 4, 2, 20, 64, rope(500000.0), layer_norm_eps=1e-5, rms_norm_eps=None),
        {part: without(part) for part in ("q_bias", "o_bias", "up_bias", "down_bias", "attn_norm_bias")}
        | {"activation": {"hidden_act": "gelu"}},
    ),
    Family(
        "vaultgemma", "VaultGemma",
        config(48, 4, 2, 24, 64, rope(10000.0), num_hidden_layers=4, tie_word_embeddings=True, sliding_window=7,
               query_pre_attn_scalar=40, attn_logit_softcapping=0.5, final_logit_softcapping=3.0, rms_norm_eps=1e-6),
        {"attention cap": {"attn_logit_softcapping": None}, "logit cap": {"final_logit_softcapping": None},
         "scale": {"query_pre_attn_scalar": 24}, "window": {"sliding_window": 8}, "norm weights": without("ffn_norm", 1),
         "which layers": {"layer_types": ["full_attention", "sliding_attention"] * 2}},
        distinct=1,
    ),
    Family(
        "apertus", "Apertus",
        config(48, 4, 2, 12, 64, rope(12000000.0, "llama3", **LLAMA3 | {"original_max_position_embeddings": 16})),
        {"activation": without("xielu", 0.5), "scaling": {"rope_parameters": rope(12000000.0)}}
        | {part: without(part, 1) for part in ("q_norm", "k_norm")},
    ),
    Family(
        "hunyuan", "HunYuanDenseV1",
        config(48, 4, 2, 16, 64, rope(10000.0, "dynamic", alpha=50.0, factor=1.0)),
        {"scaling": {"rope_parameters": rope(10000.0)}, "rope order": interleaved}
        | {part: without(part, 1) for part in ("q_norm", "k_norm")},
    ),
    Family(
        "nanochat", "NanoChat",
        config(48, 4, 2, None, 64, rope(10000.0), final_logit_softcapping=20.0),
        {"logit cap": {"final_logit_softcapping": None}, "activation": {"hidden_act": "gelu"},
         "base": {"rope_parameters": rope(500.0)}},
    ),
    Family(
        "ministral3", "Ministral3",
        config(48, 4, 2, 16, 64, rope(1000000.0, "yarn", factor=16.0, original_max_position_embeddings=24, beta_fast=32.0,
                                      beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.4)),
        {"scale": {"rope_parameters": rope(
            1000000.0, "yarn", factor=16.0, original_max_position_embeddings=24, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
            mscale_all_dim=1.0, llama_4_scaling_beta=0.0)}, "window": {"sliding_window": 8}},
        prompt=100, rows=(0, 23, 24, 47, 48, 99, 130),
    ),
    Family(
        "granite-swa", "GraniteSWA",
        config(48, 4, 2, 12, 64, rope(10000.0), num_hidden_layers=5, embedding_multiplier=6.0, residual_multiplier=0.4,
               attention_multiplier=0.15, logits_scaling=5.0, sliding_window=7, tie_word_embeddings=False,
               layer_rope_theta=[0, 10000.0, 500.0, 10000.0, 500.0]),
        {"sinks": without("sinks", -40), "window": {"sliding_window": 8}, "attention": {"attention_multiplier": 0.3},
         "bases": {"layer_rope_theta": [10000.0, 10000.0, 500.0, 10000.0, 500.0]}},
    ),
    Family(
        "hyperclovax", "HyperCLOVAX",
        config(48, 4, 2, 12, 64, rope(10000.0), embedding_multiplier=6.0, residual_multiplier=0.4, attention_multiplier=0.15,
               logits_scaling=0.2),
        {"embedding": {"embedding_multiplier": 1.0}, "logits": {"logits_scaling": 1.0}, "attention": {"attention_multiplier": None}}
        | {part: without(part, 1) for part in ("attn_post_norm", "ffn_post_norm")},
    ),
    Family(
        "iquestcoder", "IQuestCoder",
        config(48, 4, 2, 20, 64, rope(500000.0), attention_bias=True, mlp_bias=True),
        {part: without(part) for part in ("q_bias", "v_bias", "o_bias", "gate_bias", "down_bias")},
    ),
    Family(
        "bitnet", "BitNet",
        config(48, 4, 2, None, 80, rope(500000.0), quantization_config=BITNET),
        {"rounding": {"quantization_config": None}, "activation": {"hidden_act": "silu"}}
        | {part: without(part, 1) for part in ("out_norm", "down_norm")},
        prompt=4, rows=(0, 2, 3, 5, 20, 34),
    ),
    Family(
        "mllama-text", "MllamaText",
        config(48, 4, 2, None, 64, rope(10000.0, "llama3", **LLAMA3 | {"original_max_position_embeddings": 16}),
               num_hidden_layers=3, cross_attention_layers=[1]),
        {"layers with pictures": {"cross_attention_layers": []}, "scaling": {"rope_parameters": rope(10000.0)}},
    ),
    Family(
        "cohere-compass", "CohereCompassText",
        config(48, 4, 2, None, 64, {"sliding_attention": rope(10000.0, mrope_section=[2, 2, 2]), "full_attention": None},
               num_hidden_layers=3, sliding_window=7, layer_norm_eps=1e-5, rms_norm_eps=None, logit_scale=0.5,
               tie_word_embeddings=True, layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
        {"window": {"sliding_window": 8}, "logits": {"logit_scale": None},
         "no RoPE": {"rope_parameters": {"sliding_attention": rope(10000.0), "full_attention": rope(10000.0)}},
         "which layers": {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"]}},
        distinct=1,
    ),
]
