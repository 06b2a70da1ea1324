"""Model families: from the keys of a config to the features of FORMAT.md.

To add a family that is one of the graphs here: a function that calls `graph` and changes what differs, a row in FAMILIES,
and, where its tensors are named or stored in another way, in layouts.py. Every key that the function reads is
understood; other keys are refused by their names (config.py).
"""

import math
from typing import Any

from .chunked import CHUNKED
from .classic import CLASSIC, GPT2_NAMES
from .config import Config
from .convolution import CONVOLUTION
from .delta import DELTA
from .features import (
    MAX_HEADS, MAX_LAYERS, MAX_WIDTH, NORM_ATTN, NORM_ATTN_POST, NORM_FFN, NORM_FFN_POST, QK_FULL, QK_HEAD,
    QK_HEAD_LAYER, QK_SHARED_LAYER, SOFTMAX, SOFTMAX_CHOSEN,
)  # fmt: skip
from .graph import (
    ACTIVATIONS, Family, alibi_slopes, biases, granite, graph, layer_norms, put_all, sandwich, soft_caps, sparse_layers, two_ropes,
)  # fmt: skip
from .gemma_new import GEMMA_NEW
from .latent import LATENT
from .mamba import MAMBA
from .newer import NEWER
from .sparse import SPARSE
from .sparse_more import SPARSE_MORE
from .text_parts import TEXT_PARTS
from .windows import FULL, SLIDING, exaone_windows, layer_types, put_windows, same_types, window_of_all


def _llama(c: Config) -> dict:
    f = graph(c, 2048)
    biases(f, 15 * c.flag("attention_bias"), 7 * c.flag("mlp_bias"))
    same_types(c, f["n_layers"], FULL)
    return f


def _mistral(c: Config) -> dict:
    f = graph(c, 131072, kv_heads=8)
    window_of_all(c, f, 4096)
    return f


def _qwen_windows(c: Config, f: dict) -> None:
    """A window, when used, holds for the layers from max_window_layers on, unless layer_types says which."""
    n, used, full = f["n_layers"], c.flag("use_sliding_window"), c.get("max_window_layers", 28)
    if type(full) is not int:
        raise c.refuse("max_window_layers", "a whole number")
    windowed = used and c.get("sliding_window", 4096) is not None
    kinds = layer_types(c, n, [SLIDING if windowed and i >= full else FULL for i in range(n)])
    if SLIDING in kinds and not windowed:
        raise c.refuse("layer_types", f"{FULL!r} for all layers, as use_sliding_window is off")
    put_windows(c, f, kinds, 4096)


def _qwen2(c: Config) -> dict:
    f = graph(c, 32768, kv_heads=32)
    biases(f, 7)
    _qwen_windows(c, f)
    return f


def _qwen3(c: Config) -> dict:
    f = graph(c, 32768, kv_heads=32, head_dim=128)
    biases(f, 15 * c.flag("attention_bias"))
    put_all(f, qk_norm=QK_HEAD)
    _qwen_windows(c, f)
    return f


def _qwen2_moe(c: Config) -> dict:
    f = graph(c, 32768, kv_heads=16, hidden=5632)
    n = f["n_layers"]
    biases(f, 7 * c.flag("qkv_bias", True))
    sparse = sparse_layers(c, f, 1408, 60, 4)
    shared = c.integer("shared_expert_intermediate_size", MAX_WIDTH, 5632)
    f["shared_hidden"], f["shared_switch"] = [shared * s for s in sparse], sparse
    used, full = c.flag("use_sliding_window"), c.get("max_window_layers", 28)
    put_windows(c, f, layer_types(c, n, [SLIDING if used and i % 2 == 0 and i < full else FULL for i in range(n)]), 4096)
    return f


def _qwen3_moe(c: Config) -> dict:
    f = graph(c, 32768, kv_heads=4, hidden=6144)
    biases(f, 15 * c.flag("attention_bias"))
    put_all(f, qk_norm=QK_HEAD)
    sparse_layers(c, f, 768, 128, 8)
    c.get("max_window_layers", None)
    if c.flag("use_sliding_window"):
        window_of_all(c, f, 4096)
    else:
        c.get("sliding_window", None)
        same_types(c, f["n_layers"], FULL)
    return f


def _gemma_graph(c: Config, **defaults: Any) -> dict:
    f = graph(c, head_dim=256, tied=True, **defaults)
    if c.flag("use_bidirectional_attention"):
        raise c.refuse("use_bidirectional_attention", "false")
    biases(f, 15 * c.flag("attention_bias"))
    f["embed_scale"] = math.sqrt(f["dim"])
    return f


def _gemma(c: Config) -> dict:
    """`hidden_act: gelu` of the first files means the tanh form; the reference does not read hidden_activation."""
    f = _gemma_graph(c, positions=8192, kv_heads=16, act=("hidden_act", "gelu_pytorch_tanh"))
    f["activation"] = "gelu_tanh" if c.get("hidden_act", None) == "gelu" else f["activation"]
    other = c.values.get("hidden_activation")
    if other is not None and ACTIVATIONS.get(str(other)) != f["activation"]:
        c.notes.append(
            f"{c.where}: hidden_activation {other!r} is not used: the reference computes Gemma 1 with hidden_act, here {f['activation']}"
        )
    c.ignore("hidden_activation")
    return f


def _gemma2(c: Config) -> dict:
    f = _gemma_graph(c, positions=8192, kv_heads=4, act=("hidden_activation", "gelu_pytorch_tanh"))
    c.get("hidden_act", None)
    sandwich(c, f)
    soft_caps(c, f, 50.0, 30.0)
    n = f["n_layers"]
    put_windows(c, f, layer_types(c, n, [FULL if i % 2 else SLIDING for i in range(n)]), 4096)
    return f


def _gemma3(c: Config) -> dict:
    """Five layers with a window and a base of their own to one without; q and k norms."""
    act = ("hidden_activation", "gelu_pytorch_tanh")
    f = _gemma_graph(c, positions=131072, heads=8, kv_heads=4, vocab=262208, act=act, ropes=False)  # what Gemma 3 4B leaves out
    c.get("hidden_act", None)
    sandwich(c, f)
    if c.get("attn_logit_softcapping", None) is not None:
        raise c.refuse("attn_logit_softcapping", "null: the reference does not cap the scores of this family")
    soft_caps(c, f, 0, 0)
    put_all(f, qk_norm=QK_HEAD)
    n, pattern = f["n_layers"], c.integer("sliding_window_pattern", MAX_LAYERS, 6)
    kinds = layer_types(c, n, [SLIDING if (i + 1) % pattern else FULL for i in range(n)])
    put_windows(c, f, kinds, 4096)
    two_ropes(c, f, kinds, 1_000_000.0, c.get("rope_local_base_freq", 10_000.0))
    return f


def _phi3(c: Config) -> dict:
    """The first files say su, or yarn, for longrope."""
    for name in ("rope_parameters", "rope_scaling"):
        values = c.table(name)
        for key in ("type", "rope_type"):
            if values.get(key) in ("su", "yarn"):
                c.values[c.name(name)] = values | {key: "longrope"}
    f = graph(c, 4096, hidden=8192, eps=("rms_norm_eps", 1e-5), partial=1.0)
    window_of_all(c, f, None)
    return f


def _phi4_multimodal(c: Config) -> dict:
    """Phi 3, beside which towers for pictures and sound stand."""
    c.ignore("vision_config", "audio_config")
    return _phi3(c)


def _smollm3(c: Config) -> dict:
    """A 1 in no_rope_layers means that the layer has RoPE; windows, where used, fall on the others."""
    f = graph(c, 32768, kv_heads=4, theta=2_000_000.0, tied=True)
    n, interval = f["n_layers"], c.integer("no_rope_layer_interval", MAX_LAYERS, 4)
    biases(f, 15 * c.flag("attention_bias"), 7 * c.flag("mlp_bias"))
    has = c.get("no_rope_layers", None)
    has = [int((i + 1) % interval != 0) for i in range(n)] if has is None else has
    if not isinstance(has, list) or len(has) < n or not all(v in (0, 1) for v in has):
        raise c.refuse("no_rope_layers", f"{n} of 0 or 1")
    f["rope_set"] = has[:n]
    used = c.flag("use_sliding_window") and c.get("sliding_window", None) is not None
    kinds = layer_types(c, n, [FULL if not used or has[i] else SLIDING for i in range(n)])
    put_windows(c, f, kinds, 0)
    return f


def _mixtral(c: Config) -> dict:
    f = graph(c, 131072, kv_heads=8, hidden=14336, eps=("rms_norm_eps", 1e-5), theta=1_000_000.0)
    window_of_all(c, f, None)
    put_all(f, n_experts=c.integer("num_local_experts", 1024, 8))
    put_all(f, experts_used=c.integer("num_experts_per_tok", 1024, 2))
    put_all(f, router_score=SOFTMAX, router_normalize=1)
    return f


def _olmo(c: Config) -> dict:
    """LayerNorm with neither weight nor bias: the weights are stored as ones. Its eps is no key of the reference."""
    f = graph(c, 2048, eps=("layer_norm_eps", 1e-5), hidden=11008)
    if f["norm_eps"] != 1e-5:
        raise c.refuse("layer_norm_eps", "1e-05, which the reference uses always, or absent")
    biases(f, 15 * c.flag("attention_bias"))
    f["norm"] = "layer"
    if c.get("clip_qkv", None) is not None:
        put_all(f, qkv_clip=c.number("clip_qkv"))
    return f


def _olmo2(c: Config) -> dict:
    f = graph(c, 2048, eps=("rms_norm_eps", 1e-5), hidden=11008)
    biases(f, 15 * c.flag("attention_bias"))
    put_all(f, norms=NORM_ATTN_POST | NORM_FFN_POST, qk_norm=QK_FULL)
    return f


def _olmo3(c: Config) -> dict:
    """OLMo 2, of whose layers three of four have a window, and the others alone a scaling of RoPE."""
    f = graph(c, 2048, eps=("rms_norm_eps", 1e-5), hidden=11008, ropes=False)
    biases(f, 15 * c.flag("attention_bias"))
    put_all(f, norms=NORM_ATTN_POST | NORM_FFN_POST, qk_norm=QK_FULL)
    n = f["n_layers"]
    kinds = layer_types(c, n, [SLIDING if (i + 1) % 4 else FULL for i in range(n)])
    put_windows(c, f, kinds, 4096)
    two_ropes(c, f, kinds, 500_000.0, 500_000.0)
    return f


def _stablelm(c: Config) -> dict:
    f = graph(c, 4096, kv_heads=32, hidden=6912, eps=("layer_norm_eps", 1e-5), partial=0.25)
    biases(f, 7 * c.flag("use_qkv_bias"))
    layer_norms(f, True, c.flag("use_parallel_residual"))
    if c.flag("qk_layernorm"):
        put_all(f, qk_norm=QK_HEAD_LAYER)
    return f


def _falcon(c: Config) -> dict:
    alibi = c.flag("alibi")
    dim, heads = c.integer("hidden_size", MAX_WIDTH), c.integer("num_attention_heads", MAX_HEADS)
    new, multi = c.flag("new_decoder_architecture"), c.flag("multi_query", True)
    kv = c.integer("num_kv_heads", MAX_HEADS, heads) if new else (1 if multi else heads)
    c.get("num_kv_heads", None)
    f = graph(
        c, 2048, kv_heads=kv, hidden=4 * dim, eps=("layer_norm_epsilon", 1e-5), act=("activation", "gelu"), tied=True,
        ropes=not alibi,
    )  # fmt: skip
    if alibi:
        f["alibi"] = alibi_slopes(heads)
        for key in ("rope_parameters", "rope_scaling", "rope_theta"):
            c.get(key, None)  # stated, and not used by the reference
    two = c.get("num_ln_in_parallel_attn", None)
    two = 2 if two is None and new else two
    parallel = c.flag("parallel_attn", True) or new
    layer_norms(f, True)
    put_all(f, ffn_gated=0, parallel=int(parallel), norms=NORM_ATTN | NORM_FFN)
    if parallel and two != 2:
        put_all(f, norms=NORM_ATTN)
    biased = c.flag("bias")
    biases(f, 15 * biased, 6 * biased)
    return f


def _gpt_neox(c: Config) -> dict:
    f = graph(
        c, 2048, eps=("layer_norm_eps", 1e-5), act=("hidden_act", "gelu"), partial=0.25
    )
    layer_norms(f, True)
    biases(f, 15 * c.flag("attention_bias", True), 6)
    put_all(f, ffn_gated=0, parallel=int(c.flag("use_parallel_residual", True)))
    return f


def _starcoder2(c: Config) -> dict:
    f = graph(
        c, 4096, kv_heads=2, hidden=12288, eps=("norm_epsilon", 1e-5), act=("hidden_act", "gelu_pytorch_tanh"), tied=True
    )
    biased = c.flag("use_bias", True)
    biases(f, 15 * biased, 6 * biased)
    layer_norms(f, True)
    put_all(f, ffn_gated=0)
    window_of_all(c, f, None)
    return f


def _cohere(c: Config) -> dict:
    f = graph(c, 8192, hidden=22528, eps=("layer_norm_eps", 1e-5), theta=500_000.0, tied=True)
    biases(f, 15 * c.flag("attention_bias"))
    layer_norms(f, False, True)
    f["logit_scale"] = c.number("logit_scale", 0.0625)
    if c.flag("use_qk_norm"):
        put_all(f, qk_norm=QK_HEAD_LAYER)
    return f


def _cohere2(c: Config) -> dict:
    """Command R7B and A: layers with a window turn, the others do not."""
    f = graph(c, 8192, hidden=22528, eps=("layer_norm_eps", 1e-5), tied=True)
    n, pattern = f["n_layers"], c.integer("sliding_window_pattern", MAX_LAYERS, 4)
    biases(f, 15 * c.flag("attention_bias"))
    layer_norms(f, False, True)
    f["logit_scale"] = c.number("logit_scale", 0.0625)
    kinds = layer_types(c, n, [SLIDING if (i + 1) % pattern else FULL for i in range(n)])
    put_windows(c, f, kinds, 4096)
    f["rope_set"] = [int(kind == SLIDING) for kind in kinds]
    return f


def _exaone4(c: Config) -> dict:
    """Norms after each step alone; where some layers have a window, the others do not turn."""
    f = graph(c, 2048, kv_heads=32, hidden=16384, eps=("rms_norm_eps", 1e-5))
    put_all(f, norms=NORM_ATTN_POST | NORM_FFN_POST, qk_norm=QK_HEAD)
    exaone_windows(c, f)
    return f


def _olmoe(c: Config) -> dict:
    f = graph(c, 4096, hidden=2048, eps=("rms_norm_eps", 1e-5))
    biases(f, 15 * c.flag("attention_bias"))
    if c.get("clip_qkv", None) is not None:
        put_all(f, qkv_clip=c.number("clip_qkv"), qkv_clip_last=1)
    put_all(f, qk_norm=QK_FULL, router_score=SOFTMAX, router_normalize=int(c.flag("norm_topk_prob")))
    put_all(f, n_experts=c.integer("num_experts", 1024, c.get("num_local_experts", 64)))
    put_all(f, experts_used=c.integer("num_experts_per_tok", 1024, 8))
    return f


def _arcee(c: Config) -> dict:
    f = graph(c, 4096, hidden=18432, eps=("rms_norm_eps", 1e-5), act=("hidden_act", "relu2"))
    biases(f, 15 * c.flag("attention_bias"), 6 * c.flag("mlp_bias"))
    put_all(f, ffn_gated=0)
    return f


def _seed_oss(c: Config) -> dict:
    f = graph(c, 524288, kv_heads=8, head_dim=128, hidden=27648)
    biases(f, 7 * c.flag("attention_bias", True) + 8 * c.flag("attention_out_bias"), 7 * c.flag("mlp_bias"))
    return f


def _ernie(c: Config) -> dict:
    f = graph(c, 131072, kv_heads=2, head_dim=128, hidden=3072, eps=("rms_norm_eps", 1e-5), theta=500000.0, tied=True)
    biases(f, 15 * c.flag("use_bias"), 7 * c.flag("use_bias"))
    return f


def _glm4(c: Config) -> dict:
    f = graph(c, 131072, kv_heads=2, head_dim=128, hidden=13696, eps=("rms_norm_eps", 1.5625e-7), partial=0.5)
    biases(f, 7 * c.flag("attention_bias", True))
    put_all(f, norms=NORM_ATTN | NORM_ATTN_POST | NORM_FFN | NORM_FFN_POST)
    return f


def _gpt_oss(c: Config) -> dict:
    """Scores have a sink without a value; experts clamp, with biases; every second layer has a window."""
    if c.table("quantization_config").get("quant_method", "mxfp4") != "mxfp4":
        raise c.refuse("quantization_config", "MXFP4's, or none")
    yarn = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}
    if c.get("rope_parameters", None) is None and not c.get("rope_scaling", None):
        c.values["rope_parameters"] = yarn | {"original_max_position_embeddings": 4096}
    f = graph(c, 131072, kv_heads=8, head_dim=64, hidden=2880, eps=("rms_norm_eps", 1e-5), theta=150000.0)
    n = f["n_layers"]
    if c.get("swiglu_alpha", 1.702) != 1.702:
        raise c.refuse("swiglu_alpha", "1.702")
    biases(f, 15 * c.flag("attention_bias", True), 7)
    f["activation"] = "swiglu_oai"
    put_all(f, ffn_clamp=c.number("swiglu_limit", 7.0), attn_sinks=1)
    put_all(f, n_experts=c.integer("num_local_experts", 1024, 128))
    put_all(f, experts_used=c.integer("num_experts_per_tok", 1024, 4), router_score=SOFTMAX_CHOSEN, router_bias=1)
    put_windows(c, f, layer_types(c, n, [FULL if i % 2 else SLIDING for i in range(n)]), 128)
    return f


def _gpt2(c: Config) -> dict:
    dim = c.integer("hidden_size", MAX_WIDTH)
    f = graph(
        c, 1024, hidden=4 * dim, eps=("layer_norm_epsilon", 1e-5), act=("activation_function", "gelu_new"), tied=True,
        ropes=False,
    )  # fmt: skip
    c.only("num_key_value_heads", *f["n_heads"])
    f["learned_positions"] = 1
    biases(f, 15, 6)
    layer_norms(f, True)
    put_all(f, ffn_gated=0)
    if not c.flag("scale_attn_weights", True):
        put_all(f, attn_scale=1.0)
    if c.flag("scale_attn_by_inverse_layer_idx"):
        f["attn_scale"] = [s / (i + 1) for i, s in enumerate(f["attn_scale"])]
    return f


def _phi(c: Config) -> dict:
    f = graph(
        c, 2048, hidden=8192, eps=("layer_norm_eps", 1e-5), act=("hidden_act", "gelu_new"), partial=0.5
    )
    if c.flag("qk_layernorm"):
        put_all(f, qk_norm=QK_SHARED_LAYER)
    biases(f, 15, 6)
    layer_norms(f, True, True)
    put_all(f, ffn_gated=0)
    f["head_bias"] = 1
    return f


NEOX_NAMES = {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"}

FAMILIES = {
    "llama": Family("LlamaForCausalLM", _llama),
    "mistral": Family("MistralForCausalLM", _mistral),
    "qwen2": Family("Qwen2ForCausalLM", _qwen2),
    "qwen3": Family("Qwen3ForCausalLM", _qwen3),
    "qwen2_moe": Family("Qwen2MoeForCausalLM", _qwen2_moe),
    "qwen3_moe": Family("Qwen3MoeForCausalLM", _qwen3_moe),
    "gemma": Family("GemmaForCausalLM", _gemma),
    "gemma2": Family("Gemma2ForCausalLM", _gemma2),
    "gemma3_text": Family("Gemma3ForCausalLM", _gemma3),
    "phi3": Family("Phi3ForCausalLM", _phi3),
    "phi4_multimodal": Family("Phi4MultimodalForCausalLM", _phi4_multimodal),
    "smollm3": Family("SmolLM3ForCausalLM", _smollm3),
    "mixtral": Family("MixtralForCausalLM", _mixtral),
    "olmo": Family("OlmoForCausalLM", _olmo),
    "olmo2": Family("Olmo2ForCausalLM", _olmo2),
    "olmo3": Family("Olmo3ForCausalLM", _olmo3),
    "granite": Family("GraniteForCausalLM", granite),
    "stablelm": Family("StableLmForCausalLM", _stablelm),
    "falcon": Family("FalconForCausalLM", _falcon, aliases={"intermediate_size": "ffn_hidden_size"}),
    "gpt_neox": Family("GPTNeoXForCausalLM", _gpt_neox, aliases=NEOX_NAMES),
    "starcoder2": Family("Starcoder2ForCausalLM", _starcoder2),
    "cohere": Family("CohereForCausalLM", _cohere),
    "cohere2": Family("Cohere2ForCausalLM", _cohere2),
    "exaone4": Family("Exaone4ForCausalLM", _exaone4),
    "olmoe": Family("OlmoeForCausalLM", _olmoe),
    "arcee": Family("ArceeForCausalLM", _arcee),
    "seed_oss": Family("SeedOssForCausalLM", _seed_oss),
    "ernie4_5": Family("Ernie4_5ForCausalLM", _ernie, published="Ernie4_5_ForCausalLM"),
    "glm4": Family("Glm4ForCausalLM", _glm4),
    "gpt_oss": Family("GptOssForCausalLM", _gpt_oss),
    "gpt2": Family("GPT2LMHeadModel", _gpt2, aliases=GPT2_NAMES),
    "gpt-sw3": Family("GPT2LMHeadModel", _gpt2, aliases=GPT2_NAMES),
    "phi": Family("PhiForCausalLM", _phi),
} | NEWER | SPARSE | DELTA | MAMBA | CONVOLUTION | CLASSIC | GEMMA_NEW | LATENT | CHUNKED | SPARSE_MORE | TEXT_PARTS
