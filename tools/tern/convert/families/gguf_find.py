"""What the keys and tensors of a GGUF file say of a model, architecture by architecture, under the names of transformers.

In:  the Facts of a file. Out: answers in its `values`, `names` and `given`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import ConvertError
from .gguf_names import BLOCK, DELTA, FALCON_TWO_NORMS, MLA, NAMES, SSM
from .names import source_name
from .windows import FULL, LINEAR, SLIDING


@dataclass
class Facts:
    """What the rows below ask of a file: its tensors, its keys under the names of transformers, and places for answers."""

    has: Callable[[str], bool]
    key: Callable[[str], Any]  # the value, or None
    values: dict[str, Any] = field(default_factory=dict)  # answers, under the names of transformers
    names: dict[str, str] = field(default_factory=dict)  # of tensors, where they differ
    file: dict[str, Any] = field(default_factory=dict)  # all keys of the file
    shape: Callable[[str], tuple[int, ...]] = lambda _: ()  # of a tensor
    given: dict[str, np.ndarray] = field(default_factory=dict)  # tensors of ours that are keys in the file

    def rows(self, name: str) -> int | None:
        """Of a matrix."""
        shape = self.shape(name)
        return shape[0] if len(shape) == 2 else None

    def layers(self) -> range:
        n = self.key("num_hidden_layers")
        return range(n if type(n) is int and n <= 1024 else 0)


def llama(f: Facts) -> None:
    f.values["sliding_window"] = f.key("sliding_window") or None


def sparse(f: Facts) -> None:
    f.values["mlp_only_layers"] = [i for i in f.layers() if not f.has(NAMES["router"].format(i))]


def falcon(f: Facts) -> None:
    two = f.has(FALCON_TWO_NORMS["attn_norm"].format(0))
    f.values |= {"new_decoder_architecture": True, "num_ln_in_parallel_attn": 2 if two else 1}
    f.names |= FALCON_TWO_NORMS if two else {}


def stablelm(f: Facts) -> None:
    f.values["use_parallel_residual"] = not f.has(NAMES["ffn_norm"].format(0))
    f.values["qk_layernorm"] = f.has(NAMES["q_norm"].format(0))


def cohere(f: Facts) -> None:
    f.values["use_qk_norm"] = f.has(NAMES["q_norm"].format(0))


def pattern(f: Facts) -> None:
    pattern = f.key("sliding_window_pattern")
    if isinstance(pattern, list):
        f.values["layer_types"] = [SLIDING if windowed else FULL for windowed in pattern]


def olmo3(f: Facts) -> None:
    """Without a base of their own, layers with a window turn by that of the others."""
    pattern(f)
    base = f.key("rope_local_base_freq") or f.key("rope_theta") or 500_000.0
    f.values["rope_parameters"] = {SLIDING: {"rope_theta": base}}


def gemma4(f: Facts) -> None:
    """Sizes of a head are stated for the layers that see all, and again for those with a window. What turns in the first is in
    the tensor rope_freqs."""
    pattern(f)
    wide, narrow, kinds = f.key("head_dim"), f.key("sliding_head_dim"), f.values.get("layer_types", [])
    f.values["global_head_dim"], f.values["head_dim"] = wide, narrow or wide
    own = kinds[: len(kinds) - (f.key("num_kv_shared_layers") or 0)]
    f.values["attention_k_eq_v"] = any(kind == FULL and not f.has(NAMES["v"].format(i)) for i, kind in enumerate(own))
    f.values["enable_moe_block"] = f.has(NAMES["router"].format(0))
    f.values["rope_parameters"] = {
        FULL: {"rope_type": "proportional", "rope_theta": f.key("rope_theta") or 1_000_000.0, "partial_rotary_factor": 1.0},
        SLIDING: {"rope_theta": f.key("rope_local_base_freq") or 10_000.0},
    }


def gemma3n(f: Facts) -> None:
    """The rank of the residual and the tokens of the embeddings per layer are those of their tensors."""
    pattern(f)
    f.values["laurel_rank"] = f.rows(NAMES["laurel_left"].format(0))
    f.values["vocab_size_per_layer_input"] = f.rows(NAMES["ple_embed"])
    f.values["rope_parameters"] = {
        FULL: {"rope_theta": f.key("rope_theta") or 1_000_000.0}, SLIDING: {"rope_theta": f.key("rope_local_base_freq") or 10_000.0},
    }  # fmt: skip


def llama4(f: Facts) -> None:
    """Without windows all layers see all, and turn. llama.cpp norms q and k unless there are 128 experts."""
    f.values["intermediate_size_mlp"] = f.key("intermediate_size")
    f.values["intermediate_size"] = f.key("moe_intermediate_size") or f.key("intermediate_size")
    f.values["moe_layers"] = [i for i in f.layers() if f.has(NAMES["router"].format(i))]
    f.values["use_qk_norm"] = f.key("num_experts") != 128
    if f.key("expert_gating_func") not in (None, 2):
        raise ConvertError(f"expert_gating_func is {f.key('expert_gating_func')!r}; it must be 2")
    if f.key("sliding_window") == 0:
        f.values |= {"layer_types": [FULL] * len(f.layers()), "no_rope_layers": [1] * len(f.layers())}


def gpt_oss(f: Facts) -> None:
    f.values["intermediate_size"] = f.key("moe_intermediate_size") or f.key("intermediate_size")


def sigmoid(f: Facts) -> None:
    """Sigmoid scores, as all files of these architectures."""
    if f.key("expert_gating_func") not in (None, 2):
        raise ConvertError(f"expert_gating_func is {f.key('expert_gating_func')!r}; it must be 2")
    drafts(f)


def drafts(f: Facts) -> None:
    """Layers that guess further tokens are counted with the others."""
    drafts, layers = f.key("num_nextn_predict_layers") or 0, f.key("num_hidden_layers")
    if type(drafts) is int and type(layers) is int and 0 < drafts < layers:
        f.values["num_hidden_layers"] = layers - drafts


def states(f: Facts) -> None:
    """Which layers have a state, and the size of its values."""
    drafts(f)
    n = f.values.get("num_hidden_layers", len(f.layers()))
    f.values["layer_types"] = [LINEAR if f.has(DELTA["mix_a"].format(i)) else FULL for i in range(n)]
    inner, heads = f.key("linear_inner_size"), f.key("linear_num_value_heads")
    if type(inner) is int and type(heads) is int and heads and inner % heads == 0:
        f.values["linear_value_head_dim"] = inner // heads
    f.key("full_attention_interval")


def qwen3_next(f: Facts) -> None:
    sparse(f)
    states(f)


def latent_parts(f: Facts) -> None:
    """Heads are stated as the cache of llama.cpp sees them: one key of rank + rotary numbers."""
    whole, rotary = f.key("qk_head_dim"), f.key("qk_rope_head_dim")
    if type(whole) is int and type(rotary) is int:
        f.values["qk_nope_head_dim"] = whole - rotary
    f.values["num_key_value_heads"] = 1
    if any(f.has(MLA["q_down"].format(i)) for i in f.layers()):
        f.names["q"] = BLOCK + "attn_q_b.weight"


def kimi(f: Facts) -> None:
    sigmoid(f)
    states(f)
    latent_parts(f)
    f.values["linear_num_heads"] = f.key("num_attention_heads")


def mistral4(f: Facts) -> None:
    latent_parts(f)
    f.values["norm_topk_prob"] = bool(f.key("norm_topk_prob"))
    f.values["q_lora_rank"] = f.key("q_lora_rank")  # null: queries are not compressed
    if f.key("expert_gating_func") not in (None, 1):
        raise ConvertError(f"expert_gating_func is {f.key('expert_gating_func')!r}; it must be 1")


def glm4_moe(f: Facts) -> None:
    sigmoid(f)
    f.values["use_qk_norm"] = f.has(NAMES["q_norm"].format(0))


def minimax(f: Facts) -> None:
    sigmoid(f)
    f.values["intermediate_size"] = f.key("moe_intermediate_size") or f.key("intermediate_size")


def latent(f: Facts) -> None:
    """Sizes of a head: today of the compressed form beside those of the whole one, before of the whole one alone."""
    drafts(f)
    rotary, key = f.key("qk_rope_head_dim"), f.key("qk_head_dim") or f.key("head_dim")
    if type(rotary) is not int or type(key) is not int or not 0 < rotary < key:
        raise ConvertError(f"a head of {key!r} dimensions, of which {rotary!r} turn, is not understood")
    f.values |= {"qk_nope_head_dim": key - rotary, "head_dim": key}
    whole, heads, out = f.key("v_head_dim"), f.key("num_attention_heads"), f.shape(NAMES["o"].format(0))
    f.key("value_length")  # of the compressed form, or of a whole head
    if whole is None and out and type(heads) is int and heads > 0:
        f.values["v_head_dim"] = out[-1] // heads
    if f.has(MLA["q_down"].format(0)):
        f.names["q"] = BLOCK + "attn_q_b.weight"
    else:
        f.values["q_lora_rank"] = None
    groups, gating = f.key("n_group") or 1, f.key("expert_gating_func")
    if groups > 1 and gating != 2:
        f.values["topk_method"] = "group_limited_greedy"


def groups(of_256: int) -> Callable[[Facts], int]:
    """Old files do not state groups of experts, which DeepSeek V3 alone has."""
    return lambda f: of_256 if f.key("n_routed_experts") == 256 else 1


def hunyuan_moe(f: Facts) -> None:
    f.key("shared_intermediate_size"), f.key("norm_topk_prob")


def ernie_moe(f: Facts) -> None:
    f.key("shared_intermediate_size"), f.key("expert_gating_func")


def exaone_moe(f: Facts) -> None:
    sigmoid(f)
    pattern(f)
    f.key("shared_intermediate_size")


def afmoe(f: Facts) -> None:
    sigmoid(f)
    f.values["route_norm"] = f.key("norm_topk_prob") is not False


def apertus(f: Facts) -> None:
    """The numbers of xIELU are keys, one for each layer. The scaling of RoPE is in the tensor rope_freqs."""
    f.values["rope_parameters"] = {"rope_type": "default", "rope_theta": f.key("rope_theta") or 12_000_000.0}
    numbers = [f.file.get("xielu." + name) for name in ("alpha_p", "alpha_n", "beta", "eps")]
    numbers = [x if isinstance(x, np.ndarray) else np.full(len(f.layers()), x) for x in numbers if x is not None]
    if len(numbers) != 4 or not all(x.shape == (len(f.layers()),) and x.dtype.kind == "f" for x in numbers):
        raise ConvertError("xielu.alpha_p, alpha_n, beta and eps must be numbers, one for each layer")
    for i in f.layers():
        f.given[f"layer.{i}.xielu"] = np.array([x[i] for x in numbers], "<f4")


def dbrx(f: Facts) -> None:
    f.values["attn_config"] = {"clip_qkv": f.key("clip_qkv"), "kv_n_heads": f.key("num_key_value_heads")}
    f.values["ffn_config"] = {"ffn_hidden_size": f.key("intermediate_size"), "moe_num_experts": f.key("num_experts"),
                              "moe_top_k": f.key("num_experts_per_tok")}  # fmt: skip


def mpt(f: Facts) -> None:
    """The bias of the last head; models without ALiBi have learned positions, which are refused as a tensor."""
    f.values["attn_config"] = {"clip_qkv": f.key("clip_qkv"), "alibi_bias_max": f.key("max_alibi_bias") or 8}


def starcoder(f: Facts) -> None:
    f.values["multi_query"] = f.key("num_key_value_heads") == 1


def query_scale(largest: int) -> Callable[[Facts], Any]:
    """Gemma 2 and 3 divide by the size of a head; their largest, of that many layers, by the width for each head."""

    def value(f: Facts) -> Any:
        dim, heads = f.key("hidden_size"), f.key("num_attention_heads")
        if f.key("num_hidden_layers") == largest and type(dim) is int and type(heads) is int and heads:
            return dim // heads
        return f.key("head_dim") or 256

    return value


def every_fourth(f: Facts) -> list[int]:
    return [int((i + 1) % 4 != 0) for i in f.layers()]


def by_layer(f: Facts, key: str) -> list[int]:
    """A number of each layer, of which some may be 0; and the largest is that of the others."""
    numbers = f.key(key)
    numbers = numbers if isinstance(numbers, list) else [numbers] * len(f.layers())
    if len(numbers) != len(f.layers()) or not all(type(n) is int for n in numbers):
        raise ConvertError(f"{key} is {numbers!r}; a number for each layer is needed")
    f.values[key] = max(numbers, default=0) or 1
    return numbers


def inner_width(f: Facts) -> int:
    """The width of a Mamba2, of which the heads have equal parts."""
    inner, heads = f.key("mamba_d_ssm"), f.key("mamba_n_heads")
    if type(inner) is not int or type(heads) is not int or heads < 1 or inner % heads:
        raise ConvertError(f"ssm.inner_size is {inner!r}; a multiple of ssm.time_step_rank, {heads!r}, is needed")
    return inner


def mamba(f: Facts, bias: str = "mamba_conv_bias") -> None:
    f.values[bias] = any(f.has(source_name(SSM, f"layer.{i}.mix_conv_bias")) for i in f.layers())


def granite_hybrid(f: Facts) -> None:
    """Layers without keys have Mamba2. A file whose attention turns beside them is of Bamba, which llama.cpp orders otherwise."""
    mamba(f)
    heads, inner, dim = by_layer(f, "num_key_value_heads"), inner_width(f), f.key("hidden_size")
    if f.key("rope_is_used") or type(dim) is not int or not dim or inner % dim:
        raise ConvertError("a granitehybrid file with RoPE, or whose ssm.inner_size is no multiple of its width, is not understood")
    f.values |= {"layer_types": [FULL if n else LINEAR for n in heads], "mamba_expand": inner // dim}
    if not f.has(NAMES["router"].format(0)):
        f.values |= {"num_local_experts": 0, "shared_intermediate_size": f.key("intermediate_size")}


def falcon_h1(f: Facts) -> None:
    """The multipliers are in the weights. llama.cpp norms after the gate."""
    mamba(f)
    inner_width(f)
    f.values |= {"mamba_rms_norm": f.has(SSM["mix_norm"].format(0)), "mamba_norm_before_gate": False}


def nemotron_h(f: Facts) -> None:
    """A layer without keys and without a feed-forward step has Mamba2."""
    mamba(f, "use_conv_bias")
    if f.key("expert_gating_func") not in (None, 2):
        raise ConvertError(f"expert_gating_func is {f.key('expert_gating_func')!r}; it must be 2")
    drafts(f)
    n = f.values.get("num_hidden_layers", len(f.layers()))
    heads, widths = by_layer(f, "num_key_value_heads")[:n], by_layer(f, "intermediate_size")[:n]
    kinds = [FULL if h else "moe" if w and f.has(NAMES["router"].format(i)) else "mlp" if w else LINEAR
             for i, (h, w) in enumerate(zip(heads, widths))]  # fmt: skip
    f.values |= {"layers_block_type": kinds, "layer_norm_epsilon": f.key("rms_norm_eps"), "mamba_head_dim": inner_width(f) // f.key("mamba_n_heads")}


def lfm2(f: Facts) -> None:
    """Layers without keys have a convolution. Old files call the last norm that of the embedding."""
    heads = by_layer(f, "num_key_value_heads")
    f.values |= {"layer_types": [FULL if n else "conv" for n in heads], "norm_eps": f.key("rms_norm_eps"), "block_auto_adjust_ff_dim": False}
    f.names |= {} if f.has(NAMES["final_norm"]) else {"final_norm": "token_embd_norm.weight"}


def lfm2_moe(f: Facts) -> None:
    lfm2(f)
    f.values["use_expert_bias"] = any(f.has(source_name(NAMES, f"layer.{i}.router_select_bias")) for i in f.layers())
    if f.key("expert_gating_func") != 2:
        raise ConvertError(f"expert_gating_func is {f.key('expert_gating_func')!r}; it must be 2")
    f.values.pop("block_auto_adjust_ff_dim")


def mamba2(f: Facts) -> None:
    """Mamba2 alone: heads are stated with its sizes."""
    mamba(f, "use_conv_bias")
    heads, inner, dim = f.key("mamba_n_heads"), inner_width(f), f.key("hidden_size")
    if type(dim) is not int or not dim or inner % dim:
        raise ConvertError(f"ssm.inner_size is {inner}; a multiple of embedding_length, {dim!r}, is needed")
    f.values |= {"num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": inner // heads, "expand": inner // dim,
                 "layer_norm_epsilon": f.key("rms_norm_eps"), "intermediate_size": 1}  # fmt: skip
    f.key("intermediate_size")


def mlp_kinds(f: Facts) -> None:
    """Which layers have experts."""
    n = f.values.get("num_hidden_layers", len(f.layers()))
    f.values["mlp_layer_types"] = ["sparse" if f.has(NAMES["router"].format(i)) else "dense" for i in range(n)]


def hy_v3(f: Facts) -> None:
    sigmoid(f)
    mlp_kinds(f)
    shared, width = f.key("shared_intermediate_size"), f.key("moe_intermediate_size")
    if type(shared) is int and type(width) is int and width > 0 and shared % width == 0:
        f.values["num_shared_experts"] = shared // width
    f.key("first_k_dense_replace")
    f.values["route_norm"] = f.key("norm_topk_prob") is not False


def mellum(f: Facts) -> None:
    """Experts are weighed by what the chosen ones have of their sum."""
    pattern(f)
    mlp_kinds(f)
    f.values["rope_parameters"] = {SLIDING: {"rope_theta": f.key("rope_local_base_freq") or f.key("rope_theta") or 500_000.0}}


def laguna(f: Facts) -> None:
    """Of so many layers the first sees all. The two kinds of layers turn each in its own part, and by its own base."""
    sigmoid(f)
    mlp_kinds(f)
    heads, d, n, step = f.key("num_attention_heads"), f.key("head_dim"), len(f.layers()), f.key("sliding_window_pattern") or 4
    heads = heads if isinstance(heads, list) else [heads] * n
    if type(d) is not int or type(step) is not int or min(d, step, n) < 1 or len(heads) != n or not all(type(h) is int for h in heads):
        raise ConvertError("attention.head_count must be a number for each layer, and key_length and sliding_window_pattern numbers above 0")
    windows = f.key("sliding_window") or 0
    f.values["layer_types"] = [SLIDING if windows and i % step else FULL for i in range(n)]
    f.values |= {"num_attention_heads": heads[0], "num_attention_heads_per_layer": heads}
    f.values["gating"] = "per-element" if f.rows(NAMES["attn_gate"].format(0)) == heads[0] * d else "per-head"
    if f.key("norm_topk_prob") is False:
        raise ConvertError("expert_weights_norm is False; it must be True")
    f.key("first_k_dense_replace")
    ropes = ((FULL, "qk_rope_head_dim", "rope_theta", 500_000.0), (SLIDING, "sliding_rope_dim", "rope_local_base_freq", 10_000.0))
    f.values["rope_parameters"] = {
        kind: {"rope_theta": f.key(base) or default, "partial_rotary_factor": (f.key(turning) or d) / d} for kind, turning, base, default in ropes
    }


def cohere2_moe(f: Facts) -> None:
    """The mean of chosen and shared experts. Dense layers, which come first, turn, and so do those with a window."""
    sigmoid(f)
    pattern(f)
    mlp_kinds(f)
    f.values |= {"expert_selection_fn": "sigmoid", "norm_topk_prob": f.key("norm_topk_prob") is True, "sliding_window_pattern": 4}
    f.values |= {"prefix_dense_intermediate_size": f.key("intermediate_size"), "intermediate_size": f.key("moe_intermediate_size")}
    f.values["num_shared_experts"] = f.key("num_shared_experts") or 0
    f.key("shared_intermediate_size"), f.key("first_k_dense_replace")


def phimoe(f: Facts) -> None:
    llama(f)
    f.values["lm_head_bias"] = f.has("output.bias")
