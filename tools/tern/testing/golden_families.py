"""The models of the golden tests, family by family, and what to switch off in each: the quirks.

To add a family: one entry in FAMILIES, then tools/golden.py NAME.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

GREEDY = 32  # tokens of a golden continuation


@dataclass
class Family:
    """A model and what to switch off in it. A quirk is changes to the config, or a function of (weights, config)."""

    name: str
    model: str  # transformers' prefix: Llama, Mistral, Qwen2; its config class is of that name
    config: dict
    quirks: dict[str, dict | Callable] = field(default_factory=dict)
    prompt: int = 24
    rows: tuple[int, ...] = (0, 7, 16, 23, 39, 54)
    grows: bool = False  # the text outgrows a limit, beyond which all of it is evaluated otherwise
    length: int = 0  # tokens of a longer text that the model has seen before, where that matters
    counts: bool = True  # the reference counts positions by its cache; False: they are given
    distinct: int = GREEDY // 4  # tokens that the continuation must have; a tied head after a scaled embedding repeats


def interleaved(weights: dict, config) -> dict:
    """What an engine gets that turns neighbouring dimensions: rows of q and k in the other order."""
    out, half = dict(weights), config.head_dim // 2
    order = np.arange(config.head_dim).reshape(2, half).T.ravel()
    for name, w in weights.items():
        if name.split(".")[-1] in ("q", "k", "q_bias", "k_bias"):
            out[name] = w.reshape(-1, config.head_dim, *w.shape[1:])[:, order].reshape(w.shape)
    return out


def modulo_heads(weights: dict, config) -> dict:
    """What an engine gets that gives query head h the key/value head h % n_kv instead of h / group."""
    out, n, n_kv, dim = dict(weights), config.num_attention_heads, config.num_key_value_heads, config.head_dim
    order = np.arange(n).reshape(n // n_kv, n_kv).T.ravel()
    for name, w in weights.items():
        part = name.split(".")[-1]
        if part in ("q", "q_bias"):
            out[name] = w.reshape(n, dim, *w.shape[1:])[order].reshape(w.shape)
        if part == "o":
            out[name] = w.reshape(-1, n, dim)[:, order].reshape(w.shape)
    return out


def without(part: str, value: float = 0) -> Callable:
    """The quirk `part` (a bias, or the weights of a norm with `value` 1): the same number everywhere in its place."""
    return lambda weights, _: {
        name: np.full_like(w, value) if name.split(".")[-1] == part else w for name, w in weights.items()
    }


def times(part: str, factor) -> Callable:
    """What an engine gets that leaves out the factor that is folded into the weights of a part."""
    return lambda weights, _: {
        name: w / np.float32(factor) if name.split(".")[-1] == part else w for name, w in weights.items()
    }


def reversed_taps(weights: dict, config) -> dict:
    """What an engine gets that gives the oldest input the newest one's weight."""
    width = next(getattr(config, key) for key in ("conv_L_cache", "mamba_d_conv", "linear_conv_kernel_dim") if hasattr(config, key))
    return {
        name: w.reshape(width, -1)[::-1].ravel() if name.endswith("mix_conv") else w for name, w in weights.items()
    }


def one_decay(weights: dict, config) -> dict:
    """What an engine gets that lets all rows of a state decay alike: by its first number."""
    d = config.linear_head_dim
    return {
        name: np.repeat(w.reshape(-1, d, w.size // w.shape[0])[:, :1], d, 1).reshape(w.shape)
        if name.endswith(("mix_decay", "mix_decay_bias")) else w
        for name, w in weights.items()
    }  # fmt: skip


def rolled(part: str) -> Callable:
    """What an engine gets that gives a head the matrix of another."""
    return lambda weights, config: {name: np.roll(w, 1, 0) if name.endswith("." + part) else w for name, w in weights.items()}


def turned_latent(weights: dict, config) -> dict:
    """What an engine gets that turns the dimensions of a key and of each query in the other order."""
    rotary = config.qk_rope_head_dim
    order = np.concatenate([np.arange(0, rotary, 2), np.arange(1, rotary, 2)])

    def turn(w: np.ndarray, step: int) -> np.ndarray:
        heads = w.reshape(-1, step, w.shape[-1]).copy()
        heads[:, step - rotary :] = heads[:, step - rotary :][:, order]
        return heads.reshape(w.shape)

    steps = {"q": config.qk_nope_head_dim + rotary, "k": config.kv_lora_rank + rotary}
    return {name: turn(w, steps[name.split(".")[-1]]) if name.split(".")[-1] in steps else w for name, w in weights.items()}


def swapped_gates(weights: dict, config) -> dict:
    """What an engine gets that reads C where B is."""
    dim = config.hidden_size
    return {
        name: np.concatenate([w[dim : 2 * dim], w[:dim], w[2 * dim :]]) if name.endswith("mix_in") else w
        for name, w in weights.items()
    }


def swapped_gate_heads(weights: dict, config) -> dict:
    """What an engine gets that gives a state the gate of another head."""
    return {name: np.roll(w, config.linear_value_head_dim, 0) if name.endswith("mix_gate") else w for name, w in weights.items()}


def other_group(weights: dict, config) -> dict:
    """What an engine gets that lets a head read C of another group."""
    n = config.mamba_n_groups * config.mamba_d_state
    return {
        name: np.concatenate([np.roll(w[:n], config.mamba_d_state, 0), w[n:]]) if name.endswith("mix_in") else w
        for name, w in weights.items()
    }


def rope(theta: float, kind: str = "default", **rest) -> dict:
    return {"rope_theta": theta, "rope_type": kind, **rest}


def config(dim: int, heads: int, kv: int, head_dim: int, hidden: int, theta: dict, **rest) -> dict:
    """The keys that all these families share; two layers, 96 tokens, 1024 positions unless said."""
    keys = dict(hidden_size=dim, num_attention_heads=heads, num_key_value_heads=kv, head_dim=head_dim)
    keys |= dict(intermediate_size=hidden, num_hidden_layers=2, vocab_size=96, max_position_embeddings=1024)
    keys |= dict(rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=theta, bos_token_id=1, eos_token_id=2)
    keys |= {"pad_token_id": 0} | rest
    return {key: value for key, value in keys.items() if key not in ("rms_norm_eps", "head_dim", "intermediate_size") or value is not None}


MLA = dict(kv_lora_rank=22, qk_nope_head_dim=18, qk_rope_head_dim=10, v_head_dim=26)
MISTRAL4_ROPE = rope(10000.0, "yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0, mscale=0.9, mscale_all_dim=0.9,
                     original_max_position_embeddings=16, llama_4_scaling_beta=0.4)  # fmt: skip
LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=512)
BITNET = {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"}
BIASES = ("q_bias", "k_bias", "v_bias", "o_bias", "gate_bias", "up_bias", "down_bias")

GEMMA4_ROPE = {
    "full_attention": rope(1000000.0, "proportional", partial_rotary_factor=0.5), "sliding_attention": rope(10000.0),
}  # fmt: skip
GEMMA4_KINDS = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
                "sliding_attention", "full_attention"]  # fmt: skip

FAMILIES = [
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
        "mixtral", "Mixtral",
        config(32, 4, 2, 8, 48, rope(10000.0), num_local_experts=5, num_experts_per_tok=2, sliding_window=9),
        {"one expert": {"num_experts_per_tok": 1}, "three": {"num_experts_per_tok": 3},
         "no window": {"sliding_window": None}},
    ),
    Family(
        "qwen2-moe", "Qwen2Moe",
        config(32, 4, 2, 8, 64, rope(10000.0), num_hidden_layers=3, num_experts=6, num_experts_per_tok=3,
               moe_intermediate_size=40, shared_expert_intermediate_size=24, mlp_only_layers=[1]),
        {"normalized": {"norm_topk_prob": True}, "two experts": {"num_experts_per_tok": 2},
         "shared switch": without("shared_switch"), "q_bias": without("q_bias")},
    ),
    Family(
        "qwen3-moe", "Qwen3Moe",
        config(32, 4, 2, 12, 64, rope(10000.0), num_hidden_layers=4, num_experts=6, num_experts_per_tok=3,
               moe_intermediate_size=40, norm_topk_prob=True, decoder_sparse_step=2),
        {"not normalized": {"norm_topk_prob": False}, "two experts": {"num_experts_per_tok": 2},
         "q_norm": without("q_norm", 1)},
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
        "lfm2", "Lfm2",
        config(40, 4, 2, 10, 72, rope(10000.0), num_hidden_layers=5, full_attn_idxs=[1, 4], conv_L_cache=4, conv_bias=True,
               block_multiple_of=8, block_ffn_dim_multiplier=1.25, rms_norm_eps=None, norm_eps=1e-5),
        {"q_norm": without("q_norm", 1), "conv bias": without("mix_conv_bias"),
         "biases": without("mix_in_bias"), "B before C": swapped_gates, "taps": reversed_taps},
    ),
    Family(
        "qwen3-next", "Qwen3Next",
        config(40, 4, 2, 20, 64, rope(10000.0, partial_rotary_factor=0.3), num_hidden_layers=5,
               linear_num_key_heads=3, linear_num_value_heads=6, linear_key_head_dim=20, linear_value_head_dim=36,
               linear_conv_kernel_dim=3, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=40,
               shared_expert_intermediate_size=24, mlp_only_layers=[1],
               layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention", "full_attention"]),
        {"attention gate": without("attn_gate"), "decay": without("mix_a", 1), "beta": without("mix_beta"),
         "time step": without("mix_decay_bias"), "norm of states": without("mix_norm", 1), "taps": reversed_taps,
         "gate": swapped_gate_heads, "partial rotary": {"rope_parameters": rope(10000.0, partial_rotary_factor=1.0)}},
    ),
    Family(
        "qwen35", "Qwen3_5Text",
        config(40, 4, 2, 20, 64, rope(10000.0, partial_rotary_factor=0.4, mrope_section=[2, 1, 1], mrope_interleaved=True),
               num_hidden_layers=4, linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=20,
               linear_value_head_dim=28, linear_conv_kernel_dim=3, full_attention_interval=3),
        {"attention gate": without("attn_gate"), "decay": without("mix_a", 1), "beta": without("mix_beta"),
         "time step": without("mix_decay_bias"), "norm of states": without("mix_norm", 1), "taps": reversed_taps,
         "gate": swapped_gate_heads,
         "partial rotary": {"rope_parameters": rope(10000.0, partial_rotary_factor=1.0)},
         "which layers": {"full_attention_interval": 2}},
    ),
    Family(
        "qwen35-moe", "Qwen3_5MoeText",
        config(36, 3, 1, 20, None, rope(10000.0, partial_rotary_factor=0.5), num_hidden_layers=3,
               linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=18, linear_value_head_dim=22,
               linear_conv_kernel_dim=4, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=40,
               shared_expert_intermediate_size=24,
               layer_types=["linear_attention", "full_attention", "linear_attention"]),
        {"attention gate": without("attn_gate"), "switch": without("shared_switch"), "router": rolled("router"),
         "gate": swapped_gate_heads},
    ),
    Family(
        "kimi-linear", "KimiLinear",
        config(40, 3, 3, None, 64, None, kv_lora_rank=22, qk_nope_head_dim=18, qk_rope_head_dim=10, v_head_dim=26,
               num_hidden_layers=4, linear_head_dim=20, linear_num_heads=3, linear_conv_kernel_dim=3, num_experts=6,
               num_experts_per_token=2, moe_intermediate_size=40, num_shared_experts=2, num_expert_group=3, topk_group=2,
               layer_types=["linear_attention", "full_attention", "linear_attention", "full_attention"]),
        {"decay": without("mix_a", 1), "time step": without("mix_decay_bias"), "decay of a head": one_decay,
         "norm of states": without("mix_norm", 1), "gate": rolled("mix_gate"), "beta": without("mix_beta"),
         "taps": reversed_taps, "norm of keys": without("k_norm", 1), "key matrices": rolled("k_up"),
         "groups": {"topk_group": 1}, "bias of the choice": without("router_select_bias")},
    ),
    Family(
        "ling3", "BailingHybrid",
        config(40, 3, 3, 20, 64, rope(10000.0), kv_lora_rank=22, qk_nope_head_dim=18, qk_rope_head_dim=10, v_head_dim=26,
               num_hidden_layers=4, short_conv_kernel_size=3, layer_group_size=2, first_k_dense_replace=1, num_experts=6,
               num_experts_per_token=2, moe_intermediate_size=40, num_shared_experts=1, num_expert_group=3, topk_group=2,
               kda_lower_bound=-3.0),
        {"bound": {"kda_lower_bound": -5.0}, "bounded": {"kda_safe_gate": False}, "decay": without("mix_a", 1),
         "time step": without("mix_decay_bias"), "decay of a head": one_decay, "gate": rolled("mix_gate"),
         "attention gate": without("attn_gate"), "gates of heads": rolled("attn_gate"), "rope order": turned_latent},
    ),
    Family(
        "olmo-hybrid", "OlmoHybrid",
        config(40, 4, 2, None, 64, {"rope_theta": None, "rope_type": "default"}, num_hidden_layers=4, rms_norm_eps=1e-6,
               linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=20, linear_value_head_dim=28,
               linear_conv_kernel_dim=3,
               layer_types=["linear_attention", "full_attention", "linear_attention", "full_attention"]),
        {part: without(part, 1) for part in ("q_norm", "attn_norm", "attn_post_norm", "ffn_norm", "ffn_post_norm")}
        | {"decay": without("mix_a", 1), "time step": without("mix_decay_bias"), "taps": reversed_taps,
           "beta": {"linear_allow_neg_eigval": False}, "gate": swapped_gate_heads,
           "no RoPE": {"rope_parameters": rope(10000.0)}},
    ),
    Family(
        "nemotron-h", "NemotronH",
        config(40, 4, 2, 10, 72, rope(10000.0), rms_norm_eps=None, layer_norm_epsilon=1e-5,
               layers_block_type=["mamba", "mlp", "mamba", "attention", "mlp", "mamba"], ssm_state_size=18, mamba_num_heads=6,
               mamba_head_dim=36, n_groups=3, conv_kernel=4, time_step_limit=[0.0, 100.0]),
        {"skip": without("mix_skip"), "time step": without("mix_decay_bias"), "decay": without("mix_a", 1),
         "norm of states": without("mix_norm", 1), "conv bias": without("mix_conv_bias")},
    ),
    Family(
        "mamba2", "Mamba2",
        dict(num_heads=8, head_dim=10, hidden_size=40, state_size=18, num_hidden_layers=3, n_groups=2, conv_kernel=4, vocab_size=96,
             bos_token_id=1, eos_token_id=2, pad_token_id=0),
        {"skip": without("mix_skip"), "time step": without("mix_decay_bias"), "decay": without("mix_a", 1),
         "norm of states": without("mix_norm", 1), "conv bias": without("mix_conv_bias")},
    ),
    Family(
        "falcon-h1", "FalconH1",
        config(40, 4, 2, 14, 72, rope(10000.0), num_hidden_layers=3, mamba_d_ssm=48, mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=18,
               mamba_d_conv=4, embedding_multiplier=3.0, lm_head_multiplier=0.3, mlp_multipliers=[0.7, 1.7], key_multiplier=1.3,
               attention_out_multiplier=0.6, attention_in_multiplier=1.2, ssm_in_multiplier=0.9, ssm_out_multiplier=1.4,
               ssm_multipliers=[0.8, 1.6, 1.1, 0.55, 1.45]),
        {"other group": other_group, "embedding": {"embedding_multiplier": 1.0}, "head": {"lm_head_multiplier": 1.0},
         "keys": {"key_multiplier": 1.0}}
        | {f"factor of {part}": times(part, factor) for part, factor in (
            ("gate", 0.7), ("down", 1.7), ("o", 1.2 * 0.6), ("mix_gate", 0.9 * 0.8), ("mix_decay", 0.9 * 1.45), ("mix_out", 1.4),
            ("mix_conv", np.tile(np.repeat([0.9 * 0.55, 0.9 * 1.1, 0.9 * 1.6], [36, 36, 48]), 4)))},
    ),
    Family(
        "falcon-h1-norm", "FalconH1",
        config(40, 4, 2, 10, 40, rope(10000.0), mamba_d_ssm=48, mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=18, mamba_d_conv=3,
               mamba_rms_norm=True, mamba_norm_before_gate=True, attention_bias=True, mlp_bias=True, projectors_bias=True,
               mlp_multipliers=[0.7, 1.7], attention_out_multiplier=0.6, ssm_out_multiplier=1.4),
        {"norm of states": without("mix_norm", 1), "norm first": {"mamba_norm_before_gate": False}, "o_bias": without("o_bias"),
         "bias of the state": without("mix_out_bias"), "gate_bias": without("gate_bias")},
    ),
    Family(
        "nemotron3", "NemotronH",
        config(40, 4, 2, 10, 72, rope(10000.0), rms_norm_eps=None, layer_norm_epsilon=1e-5,
               layers_block_type=["mamba", "moe", "attention", "mamba", "moe"], ssm_state_size=12, mamba_num_heads=4,
               mamba_head_dim=10, n_groups=2, conv_kernel=4, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=24,
               moe_shared_expert_intermediate_size=40, n_group=4, topk_group=2, routed_scaling_factor=2.5),
        {"choice": without("router_select_bias"), "factor": {"routed_scaling_factor": 1.0}, "groups": {"n_group": 1, "topk_group": 1},
         "not normalized": {"norm_topk_prob": False}, "shared": without("shared_down"), "activation": {"mlp_hidden_act": "relu"}},
    ),
    Family(
        "granite4-h", "GraniteMoeHybrid",
        config(40, 4, 2, None, 24, rope(10000.0), num_hidden_layers=4, embedding_multiplier=6.0, residual_multiplier=0.4,
               attention_multiplier=0.15, logits_scaling=5.0, num_local_experts=5, num_experts_per_tok=2,
               shared_intermediate_size=32, mamba_n_heads=5, mamba_n_groups=1, mamba_d_state=18, mamba_d_conv=4,
               layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention"]),
        {"skip": without("mix_skip"), "time step": without("mix_decay_bias"), "decay": without("mix_a", 1),
         "norm of states": without("mix_norm", 1), "conv bias": without("mix_conv_bias"), "one expert": {"num_experts_per_tok": 1},
         "shared": without("shared_down"), "residual": {"residual_multiplier": 1.0}, "taps": reversed_taps,
         "no rotation": {"position_embedding_type": "rope"}},
    ),
    Family(
        "granite4", "GraniteMoeHybrid",
        config(48, 4, 2, None, 24, rope(10000.0), embedding_multiplier=6.0, residual_multiplier=0.4, attention_multiplier=0.15,
               logits_scaling=5.0, num_local_experts=0, shared_intermediate_size=40, position_embedding_type="rope",
               mamba_n_heads=4, layer_types=["full_attention", "full_attention"]),
        {"rotation": {"position_embedding_type": None}, "attention": {"attention_multiplier": 0.3}, "down": without("down")},
    ),
    Family(
        "bamba", "Bamba",
        config(48, 4, 2, None, 40, rope(10000.0), num_hidden_layers=3, attn_layer_indices=[1], mamba_n_heads=6, mamba_n_groups=2,
               mamba_d_state=18, mamba_d_conv=3, mamba_conv_bias=False, rms_norm_eps=1e-5),
        {"groups": other_group, "decay": without("mix_a", 1), "norm of states": without("mix_norm", 1), "taps": reversed_taps,
         "base": {"rope_parameters": rope(100.0)}},
        counts=False,
    ),
    Family(
        "lfm2-moe", "Lfm2Moe",
        config(40, 4, 2, None, 64, rope(10000.0), num_hidden_layers=5, num_dense_layers=1, moe_intermediate_size=24, num_experts=6,
               num_experts_per_tok=2, routed_scaling_factor=1.7, conv_L_cache=3, rms_norm_eps=None, norm_eps=1e-5,
               layer_types=["conv", "full_attention", "conv", "conv", "full_attention"]),
        {"choice": without("router_select_bias"), "factor": {"routed_scaling_factor": 1.0}, "B before C": swapped_gates,
         "not normalized": {"norm_topk_prob": False}, "one expert": {"num_experts_per_tok": 1}, "taps": reversed_taps},
    ),
    Family(
        "lfm3", "Lfm3",
        config(40, 4, 2, 12, 64, {"full_attention": rope(1000000.0, "proportional", partial_rotary_factor=0.5),
                                  "sliding_attention": rope(10000.0)},
               num_hidden_layers=5, sliding_window=7, conv_L_cache=7, conv_bias=True, rms_norm_eps=None, norm_eps=1e-5,
               layer_types=["conv", "sliding_attention", "full_attention", "conv", "sliding_attention"]),
        {"gate of heads": without("attn_gate"), "other head's gate": rolled("attn_gate"), "window": {"sliding_window": 8},
         "taps": reversed_taps, "conv bias": without("mix_conv_bias"), "biases": without("mix_in_bias"),
         "all of a head turns": {"rope_parameters": {"full_attention": rope(1000000.0), "sliding_attention": rope(10000.0)}}}
        | {part: without(part, 1) for part in ("attn_post_norm", "ffn_post_norm", "q_norm")},
        prompt=40, rows=(0, 7, 16, 23, 39, 70),
    ),
    Family(
        "deepseek-v3", "DeepseekV3",
        config(40, 3, 3, None, 64, rope(10000.0, "yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
                                        mscale_all_dim=1.0, original_max_position_embeddings=64), **MLA,
               q_lora_rank=28, num_hidden_layers=3, first_k_dense_replace=1, n_routed_experts=12, num_experts_per_tok=3,
               moe_intermediate_size=40, n_shared_experts=2, n_group=4, topk_group=2, routed_scaling_factor=1.7),
        {"norm of keys": without("k_norm", 1), "norm of queries": without("q_down_norm", 1), "rope order": turned_latent,
         "heads of keys": rolled("k_up"), "heads of values": rolled("v_up"),
         "mscale": {"rope_parameters": rope(10000.0, "yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0,
                                            original_max_position_embeddings=64)},
         "groups": {"n_group": 1, "topk_group": 1}, "bias of the choice": without("router_select_bias"),
         "factor": {"routed_scaling_factor": 1.0}, "normalized": {"norm_topk_prob": False}},
        prompt=100, rows=(0, 7, 63, 64, 99, 130),
    ),
    Family(
        "deepseek-v2", "DeepseekV2",
        config(48, 4, 4, None, 64, rope(10000.0, "yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0, mscale=0.7,
                                        mscale_all_dim=0.9, original_max_position_embeddings=64), **MLA,
               q_lora_rank=None, num_hidden_layers=3, first_k_dense_replace=1, n_routed_experts=12, num_experts_per_tok=3,
               moe_intermediate_size=40, n_shared_experts=2, topk_method="group_limited_greedy", n_group=3, topk_group=2,
               routed_scaling_factor=1.7),
        {"norm of keys": without("k_norm", 1), "rope order": turned_latent, "heads of values": rolled("v_up"),
         "groups": {"topk_method": "greedy"}, "factor": {"routed_scaling_factor": 1.0}},
        prompt=100, rows=(0, 7, 63, 64, 99, 130),
    ),
    Family(
        "deepseek-v2-lite", "DeepseekV2",
        config(48, 4, 4, None, 64, rope(10000.0), kv_lora_rank=32, qk_nope_head_dim=32, qk_rope_head_dim=8, v_head_dim=48,
               q_lora_rank=None, num_hidden_layers=2, first_k_dense_replace=1, n_routed_experts=6, num_experts_per_tok=3,
               moe_intermediate_size=40, n_shared_experts=1),
        {"norm of keys": without("k_norm", 1), "rope order": turned_latent, "heads of keys": rolled("k_up")},
    ),
    Family(
        "mistral4", "Mistral4",
        config(48, 4, 4, None, 64, MISTRAL4_ROPE, **MLA, q_lora_rank=36, num_hidden_layers=3, first_k_dense_replace=1,
               n_routed_experts=12, num_experts_per_tok=3, moe_intermediate_size=24, n_shared_experts=2, n_group=4,
               topk_group=2, routed_scaling_factor=1.7),
        {"norm of queries": without("q_down_norm", 1), "rope order": turned_latent, "factor": {"routed_scaling_factor": 1.0},
         "groups": {"n_group": 1, "topk_group": 1}, "not normalized": {"norm_topk_prob": False},
         "scale by position": {"rope_parameters": MISTRAL4_ROPE | {"llama_4_scaling_beta": 0.0}},
         "scale of the whole": {"rope_parameters": MISTRAL4_ROPE | {"mscale_all_dim": 0.5, "mscale": 0.5}}},
    ),
    Family(
        "llama4", "Llama4Text",
        config(48, 4, 2, 12, 20, rope(500000.0), num_hidden_layers=5, intermediate_size_mlp=56, num_local_experts=5,
               num_experts_per_tok=2, interleave_moe_layer_step=2, no_rope_layers=[1, 1, 0, 1, 1], attention_chunk_size=10,
               floor_scale=9, attn_scale=0.5),
        {"chunks": {"attention_chunk_size": 11}, "temperature": {"attn_temperature_tuning": False},
         "steps of the temperature": {"floor_scale": 10}, "norm of q and k": {"use_qk_norm": False},
         "who turns": {"no_rope_layers": [1, 1, 1, 1, 1]}, "one expert": {"num_experts_per_tok": 1},
         "router": without("router"), "shared": without("shared_down"), "rope order": interleaved},
    ),
    Family(
        "glm4-moe-lite", "Glm4MoeLite",
        config(40, 5, 5, None, 64, rope(1000000.0), kv_lora_rank=24, qk_nope_head_dim=20, qk_rope_head_dim=12, v_head_dim=28,
               q_lora_rank=36, num_hidden_layers=3, n_routed_experts=6, num_experts_per_tok=3, moe_intermediate_size=40,
               n_shared_experts=1, routed_scaling_factor=1.8),
        {"norm of keys": without("k_norm", 1), "norm of queries": without("q_down_norm", 1), "rope order": turned_latent,
         "factor": {"routed_scaling_factor": 1.0}, "bias of the choice": without("router_select_bias")},
    ),
    Family(
        "youtu", "Youtu",
        config(40, 4, 4, None, 64, rope(1600000.0), **MLA, q_lora_rank=28, tie_word_embeddings=True),
        {"norm of keys": without("k_norm", 1), "norm of queries": without("q_down_norm", 1), "rope order": turned_latent},
        distinct=1,
    ),
    Family(
        "minicpm3", "MiniCPM3",
        config(48, 4, 4, None, 64, rope(10000.0, "longrope", short_factor=[1.0, 1.2, 1.4, 1.5, 1.6],
                                        long_factor=[1.0, 2.0, 4.0, 8.0, 9.0]), **MLA, q_lora_rank=28, tie_word_embeddings=True,
               max_position_embeddings=256, original_max_position_embeddings=256, scale_emb=7, scale_depth=1.1, dim_model_base=20),
        {"norm of keys": without("k_norm", 1), "rope order": turned_latent, "embedding": {"scale_emb": 1},
         "residual": {"scale_depth": None}, "logits": {"dim_model_base": None},
         "longrope": {"rope_parameters": rope(10000.0)}},
        distinct=1,
    ),
    Family(
        "granite", "Granite",
        config(48, 4, 2, 12, 64, rope(10000.0), embedding_multiplier=6.0, residual_multiplier=0.4,
               attention_multiplier=0.15, logits_scaling=5.0, attention_bias=True, mlp_bias=True),
        {"embedding": {"embedding_multiplier": 1.0}, "residual": {"residual_multiplier": 1.0},
         "attention": {"attention_multiplier": 0.3}, "logits": {"logits_scaling": 1.0}},
    ),
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
        "olmoe", "Olmoe",
        config(32, 4, 2, 8, 24, rope(10000.0), num_experts=6, num_experts_per_tok=3),
        {"normalized": {"norm_topk_prob": True}, "two experts": {"num_experts_per_tok": 2}}
        | {part: without(part, 1) for part in ("q_norm", "k_norm")},
    ),
    Family(
        "olmoe-clip", "Olmoe",
        config(32, 4, 2, 8, 24, rope(10000.0), num_experts=6, num_experts_per_tok=3, clip_qkv=0.7),
        {"clip": {"clip_qkv": None}, "another clip": {"clip_qkv": 0.8}},
    ),
    Family(
        "starcoder2-relu", "Starcoder2",
        config(48, 4, 2, 12, 64, rope(10000.0), norm_epsilon=1e-5, sliding_window=None, rms_norm_eps=None, hidden_act="relu"),
        {"activation": {"hidden_act": "relu2"}, "down_bias": without("down_bias")},
        distinct=1,
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
        "gpt-oss", "GptOss",
        config(32, 4, 2, 12, 40, rope(150000.0, "yarn", factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                                      original_max_position_embeddings=64),
               num_local_experts=5, num_experts_per_tok=2, sliding_window=7, swiglu_limit=0.7),
        {"sinks": without("sinks", -40), "clamp": {"swiglu_limit": 7.0}, "router bias": without("router_bias"),
         "expert bias": without("gate_bias"), "yarn": {"rope_parameters": rope(150000.0)},
         "which layers": {"layer_types": ["full_attention", "sliding_attention"]}},
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
        "granitemoe", "GraniteMoe",
        config(48, 4, 2, None, 40, rope(10000.0), embedding_multiplier=6.0, residual_multiplier=0.4,
               attention_multiplier=0.15, logits_scaling=5.0, num_local_experts=5, num_experts_per_tok=2),
        {"embedding": {"embedding_multiplier": 1.0}, "residual": {"residual_multiplier": 1.0},
         "attention": {"attention_multiplier": 0.3}, "one expert": {"num_experts_per_tok": 1}},
    ),
    Family(
        "granitemoe-shared", "GraniteMoeShared",
        config(48, 4, 2, None, 40, rope(10000.0), embedding_multiplier=6.0, residual_multiplier=0.4,
               attention_multiplier=0.15, logits_scaling=5.0, num_local_experts=5, num_experts_per_tok=2,
               shared_intermediate_size=24),
        {"shared": without("shared_down"), "one expert": {"num_experts_per_tok": 1}},
    ),
    Family(
        "mellum", "Mellum",
        config(48, 4, 2, 20, 64,
               {"full_attention": rope(500000.0, "yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0,
                                       original_max_position_embeddings=64),
                "sliding_attention": rope(10000.0)},
               num_hidden_layers=4, sliding_window=7, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=24,
               layer_types=["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
               mlp_layer_types=["dense", "sparse", "sparse", "sparse"]),
        {part: without(part, 1) for part in ("q_norm", "k_norm")}
        | {"window": {"sliding_window": 8}, "not normalized": {"norm_topk_prob": False},
           "two experts": {"num_experts_per_tok": 2},
           "yarn": {"rope_parameters": {"full_attention": rope(500000.0), "sliding_attention": rope(10000.0)}}},
        prompt=100, rows=(0, 7, 63, 64, 99, 130),
    ),
    Family(
        "ernie4_5-moe", "Ernie4_5_Moe",
        config(48, 4, 2, None, 64, rope(500000.0), num_hidden_layers=3, tie_word_embeddings=True, moe_num_experts=6,
               moe_k=2, moe_intermediate_size=24, moe_num_shared_experts=2),
        {"choice": without("router_select_bias"), "one expert": {"moe_k": 1}, "shared": without("shared_down"),
         "scaling": {"rope_parameters": rope(10000.0)}},
        distinct=1,
    ),
    Family(
        "glm4-moe", "Glm4Moe",
        config(48, 4, 2, 16, 64, rope(1000000.0, partial_rotary_factor=0.5), num_hidden_layers=3, use_qk_norm=True,
               attention_bias=True, n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
               n_shared_experts=1, routed_scaling_factor=2.5, num_mtp_layers=0),
        {"choice": without("router_select_bias"), "one expert": {"num_experts_per_tok": 1},
         "factor": {"routed_scaling_factor": 1.0}, "not normalized": {"norm_topk_prob": False},
         "shared": without("shared_down"), "q_norm": without("q_norm", 1), "q_bias": without("q_bias"),
         "partial": {"rope_parameters": rope(1000000.0, partial_rotary_factor=1.0)}},
    ),
    Family(
        "dots1", "Dots1",
        config(48, 4, 2, 16, 64, rope(10000.0), num_hidden_layers=3, n_routed_experts=6, num_experts_per_tok=2,
               moe_intermediate_size=24, n_shared_experts=2, routed_scaling_factor=2.5, first_k_dense_replace=1,
               norm_topk_prob=True, sliding_window=7, max_window_layers=1),
        {"choice": without("router_select_bias"), "factor": {"routed_scaling_factor": 1.0},
         "not normalized": {"norm_topk_prob": False}, "window": {"sliding_window": 8},
         "shared": without("shared_down"), "q_norm": without("q_norm", 1)},
    ),
    Family(
        "exaone-moe", "ExaoneMoe",
        config(48, 4, 2, 12, 64, rope(1000000.0), num_hidden_layers=4, sliding_window=7, num_experts=6,
               num_experts_per_tok=2, moe_intermediate_size=24, num_shared_experts=1),
        {"choice": without("router_select_bias"), "factor": {"routed_scaling_factor": 1.0},
         "window": {"sliding_window": 8}, "shared": without("shared_down"), "k_norm": without("k_norm", 1),
         "which layers": {"layer_types": ["full_attention", "sliding_attention"] * 2}},
    ),
    Family(
        "minimax-m2", "MiniMaxM2",
        config(48, 4, 2, 16, 40, rope(10000.0, partial_rotary_factor=0.5), num_local_experts=6, num_experts_per_tok=2),
        {"choice": without("router_select_bias"), "one expert": {"num_experts_per_tok": 1},
         "partial": {"rope_parameters": rope(10000.0, partial_rotary_factor=1.0)}}
        | {part: without(part, 1) for part in ("q_norm", "k_norm")},
    ),
    Family(
        "apertus", "Apertus",
        config(48, 4, 2, 12, 64, rope(12000000.0, "llama3", **LLAMA3 | {"original_max_position_embeddings": 16})),
        {"activation": without("xielu", 0.5), "scaling": {"rope_parameters": rope(12000000.0)}}
        | {part: without(part, 1) for part in ("q_norm", "k_norm")},
    ),
    Family(
        "afmoe", "Afmoe",
        config(48, 4, 2, 12, 64, rope(10000.0), num_hidden_layers=4, num_dense_layers=1, sliding_window=7, num_experts=6,
               num_experts_per_tok=2, moe_intermediate_size=24, num_shared_experts=2, route_scale=2.5, mup_enabled=True),
        {part: without(part, 1) for part in ("q_norm", "k_norm", "attn_post_norm", "ffn_norm", "ffn_post_norm")}
        | {"gate": without("attn_gate"), "choice": without("router_select_bias"), "factor": {"route_scale": 1.0},
           "width": {"mup_enabled": False}, "window": {"sliding_window": 8}, "shared": without("shared_down"),
           "which layers": {"layer_types": ["full_attention", "sliding_attention"] * 2}},
    ),
    Family(
        "hunyuan", "HunYuanDenseV1",
        config(48, 4, 2, 16, 64, rope(10000.0, "dynamic", alpha=50.0, factor=1.0)),
        {"scaling": {"rope_parameters": rope(10000.0)}, "rope order": interleaved}
        | {part: without(part, 1) for part in ("q_norm", "k_norm")},
    ),
    Family(
        "hunyuan-moe", "HunYuanMoEV1",
        config(48, 4, 2, 16, 40, rope(10000.0), num_experts=5, moe_topk=2),
        {"one expert": {"moe_topk": 1}, "shared": without("shared_down")}
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
        "phimoe", "Phimoe",
        config(48, 4, 2, 12, 40, rope(10000.0), num_local_experts=6, num_experts_per_tok=2, attention_bias=True,
               lm_head_bias=True, router_jitter_noise=0.2),
        {"jitter": {"router_jitter_noise": 0.05}, "head bias": without("head_bias"), "o_bias": without("o_bias"),
         "norm bias": without("ffn_norm_bias")},
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
        "glm4-moe-groups", "Glm4Moe",
        config(48, 4, 2, 16, 64, rope(1000000.0, partial_rotary_factor=0.5), num_hidden_layers=3, n_routed_experts=12,
               num_experts_per_tok=3, moe_intermediate_size=24, n_group=4, topk_group=2, num_mtp_layers=0),
        {"groups": {"n_group": 1, "topk_group": 1}, "one group": {"n_group": 4, "topk_group": 1},
         "choice": without("router_select_bias")},
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
        "persimmon", "Persimmon",
        config(48, 4, 4, None, 64, rope(25000.0, partial_rotary_factor=0.5), layer_norm_eps=1e-5, rms_norm_eps=None),
        {part: without(part, "bias" not in part) for part in ("q_norm", "k_norm_bias", "ffn_norm_bias")}
        | {"v_bias": without("v_bias"), "partial": {"rope_parameters": rope(25000.0, partial_rotary_factor=1.0)}},
    ),
    Family(
        "granitemoe-swa", "GraniteMoeSWA",
        config(48, 4, 2, None, 40, rope(10000.0), num_hidden_layers=5, embedding_multiplier=6.0, residual_multiplier=0.4,
               attention_multiplier=0.15, logits_scaling=5.0, num_local_experts=5, num_experts_per_tok=2,
               shared_intermediate_size=24, sliding_window=7, layer_rope_theta=[0, 10000.0, 500.0, 10000.0, 500.0]),
        {"sinks": without("sinks", -40), "window": {"sliding_window": 8}, "shared": without("shared_down"),
         "one expert": {"num_experts_per_tok": 1}},
    ),
    Family(
        "solar-open", "SolarOpen",
        config(48, 4, 2, 16, None, rope(1000000.0), n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
               n_shared_experts=1, routed_scaling_factor=2.5),
        {"choice": without("router_select_bias"), "factor": {"routed_scaling_factor": 1.0},
         "not normalized": {"norm_topk_prob": False}, "shared": without("shared_down")},
    ),
    Family(
        "flex-olmo", "FlexOlmo",
        config(32, 4, 2, 8, 24, rope(500000.0), num_experts=6, num_experts_per_tok=3),
        {"two experts": {"num_experts_per_tok": 2}}
        | {part: without(part, 1) for part in ("q_norm", "k_norm", "attn_post_norm", "ffn_post_norm")},
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
        "bitnet", "BitNet",
        config(48, 4, 2, None, 80, rope(500000.0), quantization_config=BITNET),
        {"rounding": {"quantization_config": None}, "activation": {"hidden_act": "silu"}}
        | {part: without(part, 1) for part in ("out_norm", "down_norm")},
        prompt=4, rows=(0, 2, 3, 5, 20, 34),
    ),
    Family(
        "flint", "Flint",
        config(48, 4, 2, 12, 64, rope(10000.0), num_hidden_layers=4, sliding_window=7, num_experts=6, num_experts_per_tok=2,
               moe_intermediate_size=24, shared_expert_intermediate_size=20, mlp_only_layers=[1],
               layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"]),
        {"window": {"sliding_window": 8}, "sinks": without("sinks", -9), "shared": without("shared_down"),
         "one expert": {"num_experts_per_tok": 1}, "not normalized": {"norm_topk_prob": False}, "k_norm": without("k_norm", 1),
         "which layers": {"layer_types": ["full_attention", "sliding_attention"] * 2}},
    ),
    Family(
        "kolibri1", "Kolibri1",
        config(48, 4, 2, 12, None, rope(10000.0), num_hidden_layers=3, sliding_window=7, num_experts=6, num_experts_per_tok=2,
               moe_intermediate_size=24, shared_expert_intermediate_size=20, norm_topk_prob=True,
               layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
        {"window": {"sliding_window": 8}, "choice": without("router_select_bias"), "shared": without("shared_down"),
         "one expert": {"num_experts_per_tok": 1}, "not normalized": {"norm_topk_prob": False}}
        | {part: without(part, 1) for part in ("q_norm", "attn_post_norm", "ffn_post_norm")},
    ),
    Family(
        "hy-v3", "HYV3",
        config(48, 4, 2, 12, 64, rope(10000.0), num_hidden_layers=3, num_experts=6, num_experts_per_tok=2,
               moe_intermediate_size=24, num_shared_experts=2, router_scaling_factor=2.5),
        {"choice": without("router_select_bias"), "factor": {"router_scaling_factor": 1.0}, "shared": without("shared_down"),
         "one expert": {"num_experts_per_tok": 1}, "q_norm": without("q_norm", 1)},
    ),
    Family(
        "cohere2-moe", "Cohere2Moe",
        config(48, 4, 2, 12, 40, rope(10000.0), num_hidden_layers=4, sliding_window=7, layer_norm_eps=1e-5, rms_norm_eps=None,
               tie_word_embeddings=True, logit_scale=0.5, num_experts=6, num_experts_per_tok=3, num_shared_experts=2,
               prefix_dense_intermediate_size=56, mlp_layer_types=["dense", "sparse", "sparse", "sparse"],
               layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"]),
        {"sum": {"shared_expert_combination_strategy": "sum"}, "sigmoid": {"expert_selection_fn": "sigmoid"},
         "RoPE of dense layers": {"prefix_dense_sliding_window_pattern": 2}, "window": {"sliding_window": 8},
         "rope order": interleaved, "logits": {"logit_scale": 0.25}},
        distinct=1,
    ),
    Family(
        "cohere2-moe-rms", "Cohere2Moe",
        config(48, 4, 2, 12, 40, rope(10000.0), num_hidden_layers=2, sliding_window=7, rms_norm_eps=1e-5, num_experts=6,
               num_experts_per_tok=3, num_shared_experts=1, shared_expert_combination_strategy="sum",
               expert_selection_fn="sigmoid", layer_types=["sliding_attention", "full_attention"]),
        {"mean": {"shared_expert_combination_strategy": "average"}, "softmax": {"expert_selection_fn": "softmax"},
         "not normalized": {"norm_topk_prob": False}, "norm": {"rms_norm_eps": None}, "shared": without("shared_down")},
    ),
    Family(
        "aria-text", "AriaText",
        config(48, 4, 2, None, 24, rope(10000.0), moe_num_experts=6, moe_topk=3, moe_num_shared_experts=2),
        {"one expert": {"moe_topk": 1}, "shared": without("shared_down"), "theta": {"rope_parameters": rope(500.0)}},
    ),
    Family(
        "dbrx", "Dbrx",
        dict(d_model=48, n_heads=4, n_layers=2, vocab_size=96, max_seq_len=1024, rope_parameters=rope(5000.0),
             attn_config=dict(clip_qkv=1.1, kv_n_heads=2, rope_theta=777.0),
             ffn_config=dict(ffn_hidden_size=24, moe_num_experts=6, moe_top_k=3)),
        {"clip": {"attn_config": dict(clip_qkv=99.0, kv_n_heads=2, rope_theta=777.0)}, "theta": {"rope_parameters": rope(777.0)},
         "not normalized": {"ffn_config": dict(ffn_hidden_size=24, moe_num_experts=6, moe_top_k=3, moe_normalize_expert_weights=None)},
         "one expert": {"ffn_config": dict(ffn_hidden_size=24, moe_num_experts=6, moe_top_k=1)}},
    ),
    Family(
        "axk1", "AXK1",
        config(48, 4, 4, None, 64, rope(10000.0), num_hidden_layers=3, q_lora_rank=30, n_routed_experts=6, num_experts_per_tok=2,
               moe_intermediate_size=24, n_shared_experts=1, routed_scaling_factor=2.5, n_group=1, topk_group=1, **MLA),
        {"norm": without("ffn_post_norm", 1), "factor": {"routed_scaling_factor": 1.0}, "choice": without("router_select_bias"),
         "order of RoPE": turned_latent, "shared": without("shared_down")},
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
    Family(
        "laguna", "Laguna",
        config(48, 4, 2, 12, 64, {"full_attention": rope(5000.0, partial_rotary_factor=0.5), "sliding_attention": rope(10000.0)},
               num_hidden_layers=3, sliding_window=7, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
               shared_expert_intermediate_size=20, moe_routed_scaling_factor=2.5, num_attention_heads_per_layer=[4, 6, 4],
               layer_types=["full_attention", "sliding_attention", "full_attention"]),
        {"gate": without("attn_gate"), "factor": {"moe_routed_scaling_factor": 1.0},
         "choice": without("router_select_bias"), "shared": without("shared_down"), "window": {"sliding_window": 8},
         "part that turns": {"rope_parameters": {"full_attention": rope(5000.0), "sliding_attention": rope(10000.0)}}},
    ),
    Family(
        "laguna-values", "Laguna",
        config(48, 4, 2, 12, 64, {"full_attention": rope(5000.0, partial_rotary_factor=0.5), "sliding_attention": rope(10000.0)},
               num_hidden_layers=2, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=24, gating="per-element",
               shared_expert_intermediate_size=20),
        {"gate": without("attn_gate"), "shared": without("shared_down")},
    ),
]
