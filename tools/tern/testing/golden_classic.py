"""Golden models of families before Llama, and their like; see golden_families.py."""

from .golden_family import Family, config, interleaved, modulo_heads, rope, without

CLASSIC = [
    Family(
        "stablelm", "StableLm",
        config(48, 4, 2, 12, 64, rope(10000.0, partial_rotary_factor=0.5), use_qkv_bias=True, layer_norm_eps=1e-5, rms_norm_eps=None),
        {part: without(part) for part in ("q_bias", "v_bias", "attn_norm_bias", "ffn_norm_bias", "final_norm_bias")}
        | {"partial": {"rope_parameters": rope(10000.0, partial_rotary_factor=1.0)}},
    ),
    Family(
        "stablelm-12b", "StableLm",
        config(48, 4, 2, 12, 64, rope(10000.0, partial_rotary_factor=0.5), qk_layernorm=True,
               use_parallel_residual=True, layer_norm_eps=1e-5, rms_norm_eps=None),
        {"q_norm": without("q_norm", 1), "k_norm": without("k_norm", 1)},
    ),
    Family(
        "falcon", "Falcon",
        config(48, 4, 1, None, None, rope(10000.0), tie_word_embeddings=True, layer_norm_epsilon=1e-5, bias=True, rms_norm_eps=None),
        {"activation": {"activation": "silu"}, "o_bias": without("o_bias"), "rope order": interleaved},
        distinct=1,
    ),
    Family(
        "falcon-40b", "Falcon",
        config(48, 6, 2, None, None, rope(10000.0), layer_norm_epsilon=1e-5, new_decoder_architecture=True,
               num_kv_heads=2, ffn_hidden_size=100, tie_word_embeddings=True, rms_norm_eps=None),
        {"second norm": without("ffn_norm", 1), "head groups": modulo_heads},
        distinct=1,
    ),
    Family(
        "falcon-rw", "Falcon",
        config(48, 12, 12, None, None, rope(10000.0), layer_norm_epsilon=1e-5, alibi=True, bias=True, multi_query=False,
               parallel_attn=False, tie_word_embeddings=True, rms_norm_eps=None),
        {"alibi": {"alibi": False}, "second norm": without("ffn_norm", 1)},
        prompt=600, rows=(0, 23, 255, 256, 257, 599, 630), distinct=1,
    ),
    Family(
        "gpt-neox", "GPTNeoX",
        config(48, 4, 4, 12, 64, rope(10000.0, partial_rotary_factor=0.5), layer_norm_eps=1e-5, rms_norm_eps=None),
        {"parallel": {"use_parallel_residual": False}, "activation": {"hidden_act": "silu"},
         "v_bias": without("v_bias"), "up_bias": without("up_bias"), "second norm": without("ffn_norm", 1)},
    ),
    Family(
        "starcoder2", "Starcoder2",
        config(48, 4, 2, 12, 64, rope(10000.0), norm_epsilon=1e-5, sliding_window=9, rms_norm_eps=None),
        {"window": {"sliding_window": None}, "activation": {"hidden_act": "silu"}, "down_bias": without("down_bias")},
        distinct=1,
    ),
    Family(
        "starcoder2-relu", "Starcoder2",
        config(48, 4, 2, 12, 64, rope(10000.0), norm_epsilon=1e-5, sliding_window=None, rms_norm_eps=None, hidden_act="relu"),
        {"activation": {"hidden_act": "relu2"}, "down_bias": without("down_bias")},
        distinct=1,
    ),
    Family(
        "gpt2", "GPT2",
        dict(n_embd=48, n_head=4, n_layer=2, vocab_size=96, n_positions=64, layer_norm_epsilon=1e-5, bos_token_id=1,
             eos_token_id=2),
        {"positions": without("positions"), "activation": {"activation_function": "silu"}, "q_bias": without("q_bias")},
        distinct=1,
    ),
    Family(
        "phi", "Phi",
        config(48, 4, 2, 12, 64, rope(10000.0, partial_rotary_factor=0.5), layer_norm_eps=1e-5, rms_norm_eps=None),
        {"head bias": without("head_bias"), "o_bias": without("o_bias"),
         "partial": {"rope_parameters": rope(10000.0, partial_rotary_factor=1.0)}},
    ),
    Family(
        "phi-norms", "Phi",
        config(48, 4, 2, 12, 64, rope(10000.0, partial_rotary_factor=0.5), layer_norm_eps=1e-5, rms_norm_eps=None, qk_layernorm=True),
        {part: without(part, "bias" not in part) for part in ("q_norm", "k_norm", "q_norm_bias", "k_norm_bias")},
    ),
    Family(
        "opt", "OPT",
        dict(hidden_size=48, num_attention_heads=4, num_hidden_layers=2, ffn_dim=64, vocab_size=96,
             max_position_embeddings=64, word_embed_proj_dim=48, bos_token_id=1, eos_token_id=2, pad_token_id=0),
        {"positions": without("positions"), "activation": {"activation_function": "gelu"}, "q_bias": without("q_bias"),
         "norm bias": without("ffn_norm_bias")},
        distinct=1,
    ),
    Family(
        "bloom", "Bloom",
        dict(hidden_size=48, n_head=6, n_layer=2, vocab_size=96, bos_token_id=1, eos_token_id=2, pad_token_id=0),
        {"embed norm": without("embed_norm", 1), "embed norm bias": without("embed_norm_bias"), "q_bias": without("q_bias")},
        prompt=600, rows=(0, 23, 255, 256, 257, 599, 630), distinct=1,
    ),
    Family(
        "mpt", "Mpt",
        dict(d_model=48, n_heads=6, n_layers=2, vocab_size=96, max_seq_len=1024, bos_token_id=1, eos_token_id=2,
             pad_token_id=0, attn_config={"clip_qkv": 0.7}),
        {"clip": {"attn_config": {}}, "scale": {"attn_config": {"clip_qkv": 0.7, "softmax_scale": 0.2}}},
        prompt=600, rows=(0, 23, 255, 256, 257, 599, 630), distinct=1,
    ),
    Family(
        "gptj", "GPTJ",
        dict(n_embd=48, n_head=3, n_layer=2, vocab_size=96, n_positions=64, rotary_dim=6, bos_token_id=1, eos_token_id=2),
        {"rotary": {"rotary_dim": 16}, "head bias": without("head_bias"), "up_bias": without("up_bias")},
    ),
    Family(
        "codegen", "CodeGen",
        dict(n_embd=64, n_head=8, n_layer=2, vocab_size=96, n_positions=64, rotary_dim=4, bos_token_id=1, eos_token_id=2),
        {"rotary": {"rotary_dim": 8}, "head bias": without("head_bias"), "activation": {"activation_function": "silu"}},
    ),
    Family(
        "gpt-neo", "GPTNeo",
        dict(hidden_size=48, num_heads=4, num_layers=4, vocab_size=96, max_position_embeddings=64, window_size=7,
             attention_types=[[["global", "local"], 2]], bos_token_id=1, eos_token_id=2),
        {"positions": without("positions"), "window": {"window_size": 8}, "o_bias": without("o_bias"),
         "which layers": {"attention_types": [[["local", "global"], 2]]}},
        distinct=1,
    ),
    Family(
        "gpt-bigcode", "GPTBigCode",
        dict(n_embd=48, n_head=4, n_layer=2, vocab_size=96, n_positions=64, bos_token_id=1, eos_token_id=2),
        {"positions": without("positions"), "activation": {"activation_function": "silu"}, "q_bias": without("q_bias"),
         "scale": {"scale_attn_weights": False}},
        distinct=1,
    ),
    Family(
        "gpt-bigcode-mha", "GPTBigCode",
        dict(n_embd=48, n_head=4, n_layer=2, vocab_size=96, n_positions=64, multi_query=False, bos_token_id=1, eos_token_id=2),
        {"positions": without("positions"), "v_bias": without("v_bias")},
        distinct=1,
    ),
    Family(
        "persimmon", "Persimmon",
        config(48, 4, 4, None, 64, rope(25000.0, partial_rotary_factor=0.5), layer_norm_eps=1e-5, rms_norm_eps=None),
        {part: without(part, "bias" not in part) for part in ("q_norm", "k_norm_bias", "ffn_norm_bias")}
        | {"v_bias": without("v_bias"), "partial": {"rope_parameters": rope(25000.0, partial_rotary_factor=1.0)}},
    ),
    Family(
        "biogpt", "BioGpt",
        dict(hidden_size=48, num_attention_heads=4, num_hidden_layers=2, intermediate_size=72, vocab_size=96,
             max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0),
        {"positions": without("positions"), "scale": {"scale_embedding": False}, "activation": {"hidden_act": "relu"},
         "v_bias": without("v_bias"), "norm bias": without("final_norm_bias")},
        distinct=1,
    ),
    Family(
        "gpt-neox-japanese", "GPTNeoXJapanese",
        config(48, 3, 3, None, None, rope(10000.0, partial_rotary_factor=0.5), num_hidden_layers=3,
               intermediate_multiple_size=2, tie_word_embeddings=False, layer_norm_eps=1e-5, rms_norm_eps=None),
        {"bias of the last layer": without("o_bias"), "activation": {"hidden_act": "silu"},
         "partial": {"rope_parameters": rope(10000.0, partial_rotary_factor=1.0)},
         "norm bias": without("ffn_norm_bias")},
    ),
    Family(
        "xglm", "XGLM",
        dict(d_model=48, attention_heads=4, ffn_dim=64, num_layers=2, vocab_size=96, max_position_embeddings=64, pad_token_id=1),
        {part: without(part) for part in ("q_bias", "o_bias", "up_bias", "positions", "final_norm_bias")}
        | {"scale": {"scale_embedding": False}, "activation": {"activation_function": "relu"}},
        distinct=1,
    ),
    Family(
        "ctrl", "CTRL",
        dict(n_embd=40, n_head=4, dff=64, n_layer=2, vocab_size=96, n_positions=64, tie_word_embeddings=True),
        {part: without(part) for part in ("q_bias", "o_bias", "down_bias", "positions", "attn_norm_bias", "head_bias")},
        distinct=1,
    ),
]
