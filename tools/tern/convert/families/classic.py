"""Families from before Llama; see families.py."""

import math
from typing import Any

from .config import Config
from .features import MAX_HEADS, MAX_WIDTH, MAX_WINDOW, NORM_ATTN, NORM_DOWN, NORM_FFN, NORM_OUT
from .graph import Family, alibi_slopes, biases, graph, layer_norms, put_all, turning

GPT2_NAMES = {
    "hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions", "intermediate_size": "n_inner",
}  # fmt: skip


def _plain_steps(c: Config, f: dict) -> dict:
    """LayerNorm with a bias, and feed-forward steps without a gate."""
    layer_norms(f, True)
    put_all(f, ffn_gated=0)
    return f


def _opt(c: Config) -> dict:
    """Norms before the steps alone; the eps of all norms is no key."""
    act = ("activation_function", "relu")
    f = graph(c, 2048, hidden=3072, eps=("layer_norm_eps", 1e-5), act=act, tied=True, ropes=False)
    c.only("layer_norm_eps", 1e-5)
    for key, wanted in (("do_layer_norm_before", True), ("layer_norm_elementwise_affine", True), ("_remove_final_layer_norm", False)):
        if c.flag(key, wanted) != wanted:
            raise c.refuse(key, repr(wanted).lower())
    if c.get("word_embed_proj_dim", None) not in (None, f["dim"]):
        raise c.refuse("word_embed_proj_dim", f"{f['dim']}, the width of the model")
    biased = c.flag("enable_bias", True)
    biases(f, 15 * biased, 6 * biased)
    f["learned_positions"] = 1
    c.ignore("layerdrop", "init_std")
    return _plain_steps(c, f)


def _unrounded_slopes(f: dict, slopes: Any) -> None:
    """ALiBi that is added to scores after their scale, without rounding, which a slope below 0 says."""
    f["alibi"] = -(slopes / f["attn_scale"][0])


def _bloom(c: Config) -> dict:
    """A norm of the embedding. The first files have other names for two keys."""
    for old, name in (("n_embed", "hidden_size"), ("num_attention_heads", "n_head"), ("num_hidden_layers", "n_layer")):
        if old in c.values and name not in c.values:
            c.values[name] = c.values.pop(old)
    dim = c.integer("hidden_size", MAX_WIDTH)
    f = graph(c, 2048, hidden=4 * dim, eps=("layer_norm_epsilon", 1e-5), act=("hidden_act", "gelu_new"), tied=True, ropes=False)
    biases(f, 15, 6)
    f["embed_norm"] = 1
    _unrounded_slopes(f, alibi_slopes(f["n_heads"][0], rounded=False))
    c.only("num_key_value_heads", *f["n_heads"])
    c.only("hidden_act", "gelu_new", "gelu_pytorch_tanh")
    if c.get("pretraining_tp", 1) != 1 and c.flag("slow_but_exact"):  # the reference then leaves out two biases
        raise c.refuse("slow_but_exact", "false where pretraining_tp is not 1")
    c.ignore("attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion", "offset_alibi", "skip_bias_add",
             "skip_bias_add_qkv", "slow_but_exact")  # fmt: skip
    return _plain_steps(c, f)


def _mpt(c: Config) -> dict:
    """No biases; steps are four times as wide as the model. The reference always adds ALiBi."""
    attention = c.table("attn_config")
    known = {"alibi": (True,), "qk_ln": (False,), "prefix_lm": (False,), "attn_uses_sequence_id": (False,),
             "attn_type": ("multihead_attention",), "alibi_bias_max": (8,)}  # fmt: skip
    if any(attention.get(key, allowed[0]) not in allowed for key, allowed in known.items()):
        raise c.refuse("attn_config", "with alibi and an alibi_bias_max of 8, without qk_ln, prefix_lm and attn_uses_sequence_id")
    dim, heads = c.integer("hidden_size", MAX_WIDTH), c.integer("num_attention_heads", MAX_HEADS, 16)
    if c.get("expansion_ratio", 4) != 4:
        raise c.refuse("expansion_ratio", "4")
    f = graph(c, 2048, hidden=4 * dim, eps=("layer_norm_epsilon", 1e-5), act=("hidden_act", "gelu"), tied=True, ropes=False)
    layer_norms(f, False)
    put_all(f, ffn_gated=0)
    inner = Config(f"{c.where}: attn_config", attention)
    if inner.get("clip_qkv", None):
        put_all(f, qkv_clip=inner.number("clip_qkv"))
    if inner.get("softmax_scale", None) is not None:
        put_all(f, attn_scale=inner.number("softmax_scale"))
    n = 1 << (heads - 1).bit_length()  # the power of two from the heads on; of fewer, every second first
    slopes = [2.0 ** (-8 * i / n) for i in range(1, n + 1)]
    slopes = slopes if n == heads else (slopes[1::2] + slopes[::2])[:heads]
    f["alibi"] = [-s / f["attn_scale"][0] for s in slopes]
    for key, allowed in (("hidden_act", ("gelu",)), ("logit_scale", (None,)), ("no_bias", (True,)), ("embedding_fraction", (1.0,))):
        c.only(key, *allowed)
    c.ignore("init_device", "learned_pos_emb", "norm_type", "verbose", "fc_type", "init_config", "tokenizer_name")
    return f


def _gptj(c: Config) -> dict:
    dim, heads = c.integer("hidden_size", MAX_WIDTH), c.integer("num_attention_heads", MAX_HEADS)
    turns = c.integer("rotary_dim", MAX_WIDTH, 64) if c.get("rotary_dim", 64) is not None else dim // heads
    f = graph(
        c, 2048, hidden=4 * dim, eps=("layer_norm_epsilon", 1e-5), act=("activation_function", "gelu_new"),
        partial=turning(turns, dim // heads),
    )  # fmt: skip
    biases(f, 0, 6)
    f["head_bias"] = 1
    _plain_steps(c, f)
    layer_norms(f, True, True)
    for key, allowed in (("scale_attn_weights", True), ("rope_theta", 10000), ("rope_scaling", None), ("partial_rotary_factor", None)):
        c.only(key, allowed)
    c.ignore("rotary", "gradient_checkpointing")
    return f


def _gpt_neo(c: Config) -> dict:
    """Scores are not scaled; by turns layers have a window. The reference reads attention_types alone."""
    dim = c.integer("hidden_size", MAX_WIDTH, 2048)
    act = ("activation_function", "gelu_new")
    f = graph(c, 2048, hidden=4 * dim, eps=("layer_norm_epsilon", 1e-5), act=act, tied=True, ropes=False)
    n, stated, kinds = f["n_layers"], c.get("attention_types", None), []
    stated = [[["global", "local"], 12]] if stated is None else stated
    for item in stated if isinstance(stated, list) else [None]:
        if not isinstance(item, list) or len(item) != 2 or not isinstance(item[0], list) or type(item[1]) is not int:
            raise c.refuse("attention_types", "lists of kinds and how often they are repeated")
        kinds = kinds + item[0] * min(item[1], 1024)
    if len(kinds) != n or not all(k in ("global", "local") for k in kinds):
        raise c.refuse("attention_types", f"{n} of 'global' or 'local' in all")
    c.ignore("attention_layers")
    window = c.integer("window_size", MAX_WINDOW, 256)
    f["window"] = [window if kind == "local" else 0 for kind in kinds]
    put_all(f, attn_scale=1.0)
    biases(f, 8, 6)
    f["learned_positions"] = 1
    return _plain_steps(c, f)


def _gpt_bigcode(c: Config) -> dict:
    dim = c.integer("hidden_size", MAX_WIDTH)
    multi, heads = c.flag("multi_query", True), c.integer("num_attention_heads", MAX_HEADS)
    c.get("num_key_value_heads", None)
    f = graph(
        c, 1024, hidden=4 * dim, eps=("layer_norm_epsilon", 1e-5), act=("activation_function", "gelu_pytorch_tanh"),
        tied=True, ropes=False,
    )  # fmt: skip
    put_all(f, n_kv_heads=1 if multi else heads)
    biases(f, 15, 6)
    f["learned_positions"] = 1
    if not c.flag("scale_attn_weights", True):
        put_all(f, attn_scale=1.0)
    c.ignore("attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "inference_runner", "max_batch_size",
             "max_sequence_length", "pad_key_length", "pre_allocate_kv_cache", "validate_runner_input")  # fmt: skip
    return _plain_steps(c, f)


def _biogpt(c: Config) -> dict:
    """OPT with a scaled embedding. The eps of the norms is no key that the reference reads."""
    f = graph(c, 1024, hidden=4096, act=("hidden_act", "gelu"), eps=("", 1e-5), tied=True, ropes=False)
    if c.flag("scale_embedding", True):
        f["embed_scale"] = math.sqrt(f["dim"])
    c.ignore("layer_norm_eps", "layerdrop", "activation_dropout")
    biases(f, 15, 6)
    f["learned_positions"] = 1
    return _plain_steps(c, f)


def _xglm(c: Config) -> dict:
    """OPT with a scaled embedding and computed positions."""
    f = graph(c, 2048, hidden=4096, act=("activation_function", "gelu"), eps=("", 1e-5), tied=True, ropes=False)
    if c.flag("scale_embedding", True):
        f["embed_scale"] = math.sqrt(f["dim"])
    c.ignore("layerdrop", "activation_dropout", "init_std")
    biases(f, 15, 6)
    f["learned_positions"] = 1
    return _plain_steps(c, f)


def _ctrl(c: Config) -> dict:
    """Computed positions. The norms of layers have an epsilon that is no key."""
    f = graph(c, 256, hidden=8192, act=("", "relu"), eps=("layer_norm_epsilon", 1e-6), tied=True, ropes=False)
    c.only("layer_norm_epsilon", 1e-6)
    f["embed_scale"] = math.sqrt(f["dim"])
    biases(f, 15, 6)
    f["learned_positions"] = f["head_bias"] = 1
    return _plain_steps(c, f)


def _gpt_neox_japanese(c: Config) -> dict:
    """The last layer alone has a bias, that of the output of attention."""
    dim, wider = c.integer("hidden_size", MAX_WIDTH), c.number("intermediate_multiple_size", 4)
    f = graph(
        c, 2048, hidden=int(dim * wider), eps=("layer_norm_eps", 1e-5), act=("hidden_act", "gelu"), tied=True, partial=1.0
    )
    c.only("num_key_value_heads", *f["n_heads"])
    f["attn_bias"][-1] = 8
    return _plain_steps(c, f)


def _bitnet(c: Config) -> dict:
    """Norms of the inputs of o and down. Quantized files round the inputs of all matrices."""
    how = c.table("quantization_config")
    wanted = {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"}
    rest = {key: value for key, value in how.items() if key not in wanted and value not in (None, False, [])}
    if how and ({key: how.get(key) for key in wanted} != wanted or set(rest) - {"rms_norm_eps"}):
        raise c.refuse("quantization_config", "that of BitNet with autobitlinear and offline, or none")
    f = graph(
        c, 2048, kv_heads=c.get("num_key_value_heads", 5) or c.integer("num_attention_heads", MAX_HEADS), hidden=6912,
        eps=("rms_norm_eps", 1e-5), act=("hidden_act", "relu2"), theta=500000.0,
    )  # fmt: skip
    biases(f, 15 * c.flag("attention_bias"))
    put_all(f, norms=NORM_ATTN | NORM_FFN | NORM_OUT | NORM_DOWN, round_inputs=int(bool(how)))
    return f


CLASSIC = {
    "opt": Family("OPTForCausalLM", _opt, aliases={"intermediate_size": "ffn_dim"}),
    "bloom": Family(
        "BloomForCausalLM", _bloom,
        aliases={"num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "max_position_embeddings": "seq_length"},
    ),
    "mpt": Family(
        "MptForCausalLM", _mpt,
        aliases={"hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
                 "max_position_embeddings": "max_seq_len"},
        published="MPTForCausalLM",
    ),
    "gptj": Family("GPTJForCausalLM", _gptj, aliases=GPT2_NAMES),
    "codegen": Family("CodeGenForCausalLM", _gptj, aliases=GPT2_NAMES),
    "gpt_neo": Family(
        "GPTNeoForCausalLM", _gpt_neo, aliases={"num_hidden_layers": "num_layers", "num_attention_heads": "num_heads"}
    ),
    "gpt_bigcode": Family("GPTBigCodeForCausalLM", _gpt_bigcode, aliases=GPT2_NAMES),
    "bitnet": Family("BitNetForCausalLM", _bitnet),
    "xglm": Family("XGLMForCausalLM", _xglm, aliases={"hidden_size": "d_model", "num_attention_heads": "attention_heads", "num_hidden_layers": "num_layers", "intermediate_size": "ffn_dim"}),
    "ctrl": Family(
        "CTRLLMHeadModel", _ctrl,
        aliases={"hidden_size": "n_embd", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer", "max_position_embeddings": "n_positions", "intermediate_size": "dff"},
    ),
    "biogpt": Family("BioGptForCausalLM", _biogpt),
    "gpt_neox_japanese": Family(
        "GPTNeoXJapaneseForCausalLM", _gpt_neox_japanese,
        aliases={"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"},
    ),
}  # fmt: skip
