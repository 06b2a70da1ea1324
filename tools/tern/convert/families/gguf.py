"""What a GGUF file of each architecture means: a family of families.py, names of keys and tensors, and how llama.cpp's
own converter stored its rows. Facts only; sources/gguf.py does the work.

To add an architecture: a row in ARCHITECTURES. What its files do not say and the family needs goes into `assumed`: it is
told to the user, who can change it with --set.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import ConvertError
from .layouts import source_name
from .windows import FULL, LINEAR, SLIDING

# Keys of the architecture under the names of transformers.
KEYS = {
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "moe_intermediate_size": "expert_feed_forward_length",
    "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    "num_experts": "expert_count",
    "num_local_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "n_routed_experts": "expert_count",
    "moe_topk": "expert_used_count",
    "shared_intermediate_size": "expert_shared_feed_forward_length",
    "n_shared_experts": "expert_shared_count",
    "num_shared_expert": "expert_shared_count",
    "first_k_dense_replace": "leading_dense_block_count",
    "routed_scaling_factor": "expert_weights_scale",
    "n_group": "expert_group_count",
    "topk_group": "expert_group_used_count",
    "expert_gating_func": "expert_gating_func",
    "num_nextn_predict_layers": "nextn_predict_layers",
    "norm_topk_prob": "expert_weights_norm",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "num_kv_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "sliding_window": "attention.sliding_window",
    "sliding_window_pattern": "attention.sliding_window_pattern",
    "sliding_head_dim": "attention.key_length_swa",
    "num_kv_shared_layers": "attention.shared_kv_layers",
    "interleave_moe_layer_step": "interleave_moe_layer_step",
    "altup_num_inputs": "altup.num_inputs",
    "altup_active_idx": "altup.active_idx",
    "activation_sparsity_scale": "activation_sparsity_scale",
    "hidden_size_per_layer_input": "embedding_length_per_layer_input",
    "clip_qkv": "attention.clamp_kqv",
    "attention_multiplier": "attention.scale",
    "attn_scale": "attention.temperature_scale",
    "llama_4_scaling_beta": "attention.temperature_scale",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "embedding_multiplier": "embedding_scale",
    "residual_multiplier": "residual_scale",
    "logits_scaling": "logit_scale",
    "logit_scale": "logit_scale",
    "swiglu_limit": "swiglu_clamp_exp",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "layer_norm_eps": "attention.layer_norm_epsilon",
    "layer_norm_epsilon": "attention.layer_norm_epsilon",
    "norm_epsilon": "attention.layer_norm_epsilon",
    "norm_eps": "attention.layer_norm_epsilon",
    "max_alibi_bias": "attention.max_alibi_bias",
    "max_position_embeddings": "context_length",
    "rope_theta": "rope.freq_base",
    "rope_local_base_freq": "rope.freq_base_swa",
    "use_parallel_residual": "use_parallel_residual",
    "vocab_size": "vocab_size",
    "linear_conv_kernel_dim": "ssm.conv_kernel",
    "linear_key_head_dim": "ssm.state_size",
    "linear_num_key_heads": "ssm.group_count",
    "linear_num_value_heads": "ssm.time_step_rank",
    "linear_inner_size": "ssm.inner_size",
    "linear_head_dim": "kda.head_dim",
    "full_attention_interval": "full_attention_interval",
    "mamba_d_conv": "ssm.conv_kernel", "mamba_d_state": "ssm.state_size", "mamba_n_groups": "ssm.group_count",
    "mamba_n_heads": "ssm.time_step_rank", "mamba_d_ssm": "ssm.inner_size",
    "conv_kernel": "ssm.conv_kernel", "ssm_state_size": "ssm.state_size", "n_groups": "ssm.group_count",
    "mamba_num_heads": "ssm.time_step_rank",
    "moe_shared_expert_intermediate_size": "expert_shared_feed_forward_length", "moe_latent_size": "moe_latent_size",
    "conv_L_cache": "shortconv.l_cache", "num_dense_layers": "leading_dense_block_count", "rope_is_used": "rope.scaling.finetuned",
    "kv_lora_rank": "attention.kv_lora_rank",
    "q_lora_rank": "attention.q_lora_rank",
    "qk_head_dim": "attention.key_length_mla",
    "qk_rope_head_dim": "rope.dimension_count",
    "value_length": "attention.value_length",
    "moe_layer_interval": "interleave_moe_layer_step",
    "moe_layer_start_index": "leading_dense_block_count",
    "moe_num_shared_experts": "expert_shared_count",
    "num_shared_experts": "expert_shared_count",
    "num_dense_layers": "leading_dense_block_count",
    "route_scale": "expert_weights_scale",
    "llama_4_scaling_beta": "attention.temperature_scale",
    "v_head_dim": "attention.value_length_mla",
}
HARMLESS = (
    "tensor_data_layout", "mm.tokens_per_image", "rope.dimension_sections", "rope.scaling.finetuned", "rope.scaling.original_context_length",
)  # fmt: skip
# Keys that are understood at these values only.
NEUTRAL = {
    "attention.causal": (True,),
    "attention.layer_norm_epsilon": (0,),
    "attention.layer_norm_rms_epsilon": (0,),
    "attention.sliding_window": (0,),
    "expert_count": (0,),
    "expert_used_count": (0,),
    "expert_gating_func": (1,),
    "expert_weights_scale": (0, 1),
    "nextn_predict_layers": (0,),
    "rope.scaling.attn_factor": (1,),
    "rope.scaling.yarn_attn_factor": (1,),
    "rope.scaling.yarn_ext_factor": (1,),
    "rope.scaling.yarn_log_multiplier": (0,),
    "use_parallel_residual": (False,),
}

BLOCK = "blk.{}."
NAMES = {
    "embed": "token_embd.weight",
    "embed_norm": "token_embd_norm.weight",
    "positions": "position_embd.weight",
    "attn_norm": BLOCK + "attn_norm.weight",
    "attn_post_norm": BLOCK + "post_attention_norm.weight",
    "ffn_norm": BLOCK + "ffn_norm.weight",
    "ffn_post_norm": BLOCK + "post_ffw_norm.weight",
    "q": BLOCK + "attn_q.weight",
    "k": BLOCK + "attn_k.weight",
    "v": BLOCK + "attn_v.weight",
    "qkv": BLOCK + "attn_qkv.weight",
    "o": BLOCK + "attn_output.weight",
    "q_norm": BLOCK + "attn_q_norm.weight",
    "k_norm": BLOCK + "attn_k_norm.weight",
    "sinks": BLOCK + "attn_sinks.weight",
    "gate": BLOCK + "ffn_gate.weight",
    "up": BLOCK + "ffn_up.weight",
    "down": BLOCK + "ffn_down.weight",
    "gate_exps": BLOCK + "ffn_gate_exps.weight",
    "up_exps": BLOCK + "ffn_up_exps.weight",
    "down_exps": BLOCK + "ffn_down_exps.weight",
    "router": BLOCK + "ffn_gate_inp.weight",
    "router_select": BLOCK + "exp_probs_b.weight",
    "shared_gate": BLOCK + "ffn_gate_shexp.weight",
    "shared_up": BLOCK + "ffn_up_shexp.weight",
    "shared_down": BLOCK + "ffn_down_shexp.weight",
    "shared_switch": BLOCK + "ffn_gate_inp_shexp.weight",
    "attn_gate": BLOCK + "attn_gate.weight",
    "x_scale": BLOCK + "layer_output_scale.weight",
    "ple_embed": "per_layer_token_embd.weight",
    "ple_in": "per_layer_model_proj.weight",
    "ple_norm": "per_layer_proj_norm.weight",
    "ple_gate": BLOCK + "inp_gate.weight",
    "ple_out": BLOCK + "proj.weight",
    "ple_post_norm": BLOCK + "post_norm.weight",
    "altup_in": "altup_proj.weight",
    "altup_out": "altup_unembd_proj.weight",
    "altup_router": BLOCK + "altup_router.weight",
    "altup_norm": BLOCK + "altup_router_norm.weight",
    "altup_predict": BLOCK + "altup_predict_coef.weight",
    "altup_correct": BLOCK + "altup_correct_coef.weight",
    "altup_scale": BLOCK + "altup_correct_scale.weight",
    "laurel_left": BLOCK + "laurel_l.weight",
    "laurel_right": BLOCK + "laurel_r.weight",
    "laurel_norm": BLOCK + "laurel_post_norm.weight",
    "mtp_in": BLOCK + "nextn.eh_proj.weight",
    "mtp_embed_norm": BLOCK + "nextn.enorm.weight",
    "mtp_hidden_norm": BLOCK + "nextn.hnorm.weight",
    "mtp_norm": BLOCK + "nextn.shared_head_norm.weight",
    "mtp_embed": BLOCK + "nextn.embed_tokens.weight",
    "mtp_head": BLOCK + "nextn.shared_head_head.weight",
    "final_norm": "output_norm.weight",
    "head": "output.weight",
}
FALCON_TWO_NORMS = {"attn_norm": BLOCK + "attn_norm_2.weight", "ffn_norm": BLOCK + "attn_norm.weight"}


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


@dataclass(frozen=True)
class Architecture:
    """`interleaved`: q and k turn neighbouring rows. `partial`: rope.dimension_count may be less than a head.
    `fixed`: what every file of the architecture means without saying so; `find`: what its tensors say.
    `assumed`: what the file may lack, under the names of transformers, with the value (or a function of Facts) that it
    then gets. `windows`: attention may have a window that the file does not tell."""

    family: str
    interleaved: bool = False
    partial: bool = False
    fixed: dict[str, Any] = field(default_factory=dict)
    find: Callable[[Facts], None] | None = None
    assumed: dict[str, Any] = field(default_factory=dict)
    windows: bool = False
    names: dict[str, str] = field(default_factory=dict)
    ones: bool = False  # norms have no weights
    in_three: bool = False  # q, k and v of a delta net are tensors of their own, and their convolutions
    tiled: bool = False  # value heads of a delta net: the first ones of all key heads, then the second ones


def _llama(f: Facts) -> None:
    f.values["sliding_window"] = f.key("sliding_window") or None


def _sparse(f: Facts) -> None:
    f.values["mlp_only_layers"] = [i for i in f.layers() if not f.has(NAMES["router"].format(i))]


def _falcon(f: Facts) -> None:
    two = f.has(FALCON_TWO_NORMS["attn_norm"].format(0))
    f.values |= {"new_decoder_architecture": True, "num_ln_in_parallel_attn": 2 if two else 1}
    f.names |= FALCON_TWO_NORMS if two else {}


def _stablelm(f: Facts) -> None:
    f.values["use_parallel_residual"] = not f.has(NAMES["ffn_norm"].format(0))
    f.values["qk_layernorm"] = f.has(NAMES["q_norm"].format(0))


def _cohere(f: Facts) -> None:
    f.values["use_qk_norm"] = f.has(NAMES["q_norm"].format(0))


def _pattern(f: Facts) -> None:
    pattern = f.key("sliding_window_pattern")
    if isinstance(pattern, list):
        f.values["layer_types"] = [SLIDING if windowed else FULL for windowed in pattern]


def _olmo3(f: Facts) -> None:
    """Without a base of their own, layers with a window turn by that of the others."""
    _pattern(f)
    base = f.key("rope_local_base_freq") or f.key("rope_theta") or 500_000.0
    f.values["rope_parameters"] = {SLIDING: {"rope_theta": base}}


GEMMA4 = {  # where there are experts, the dense step beside them is the shared one
    "router_norm": BLOCK + "ffn_gate_inp.scale", "router_scale": BLOCK + "ffn_down_exps.scale",
    "expert_norm": BLOCK + "pre_ffw_norm_2.weight", "shared_post_norm": BLOCK + "post_ffw_norm_1.weight",
    "expert_post_norm": BLOCK + "post_ffw_norm_2.weight",
    "shared_gate": NAMES["gate"], "shared_up": NAMES["up"], "shared_down": NAMES["down"],
}  # fmt: skip


def _gemma4(f: Facts) -> None:
    """Sizes of a head are stated for the layers that see all, and again for those with a window. What turns in the first is in
    the tensor rope_freqs."""
    _pattern(f)
    wide, narrow, kinds = f.key("head_dim"), f.key("sliding_head_dim"), f.values.get("layer_types", [])
    f.values["global_head_dim"], f.values["head_dim"] = wide, narrow or wide
    own = kinds[: len(kinds) - (f.key("num_kv_shared_layers") or 0)]
    f.values["attention_k_eq_v"] = any(kind == FULL and not f.has(NAMES["v"].format(i)) for i, kind in enumerate(own))
    f.values["enable_moe_block"] = f.has(NAMES["router"].format(0))
    f.values["rope_parameters"] = {
        FULL: {"rope_type": "proportional", "rope_theta": f.key("rope_theta") or 1_000_000.0, "partial_rotary_factor": 1.0},
        SLIDING: {"rope_theta": f.key("rope_local_base_freq") or 10_000.0},
    }


def _gemma3n(f: Facts) -> None:
    """The rank of the residual and the tokens of the embeddings per layer are those of their tensors."""
    _pattern(f)
    f.values["laurel_rank"] = f.rows(NAMES["laurel_left"].format(0))
    f.values["vocab_size_per_layer_input"] = f.rows(NAMES["ple_embed"])
    f.values["rope_parameters"] = {
        FULL: {"rope_theta": f.key("rope_theta") or 1_000_000.0}, SLIDING: {"rope_theta": f.key("rope_local_base_freq") or 10_000.0},
    }  # fmt: skip


def _llama4(f: Facts) -> None:
    """Without windows all layers see all, and turn. llama.cpp norms q and k unless there are 128 experts."""
    f.values["intermediate_size_mlp"] = f.key("intermediate_size")
    f.values["intermediate_size"] = f.key("moe_intermediate_size") or f.key("intermediate_size")
    f.values["moe_layers"] = [i for i in f.layers() if f.has(NAMES["router"].format(i))]
    f.values["use_qk_norm"] = f.key("num_experts") != 128
    if f.key("expert_gating_func") not in (None, 2):
        raise ConvertError(f"expert_gating_func is {f.key('expert_gating_func')!r}; it must be 2")
    if f.key("sliding_window") == 0:
        f.values |= {"layer_types": [FULL] * len(f.layers()), "no_rope_layers": [1] * len(f.layers())}


def _gpt_oss(f: Facts) -> None:
    f.values["intermediate_size"] = f.key("moe_intermediate_size") or f.key("intermediate_size")


def _sigmoid(f: Facts) -> None:
    """Sigmoid scores, as all files of these architectures."""
    if f.key("expert_gating_func") not in (None, 2):
        raise ConvertError(f"expert_gating_func is {f.key('expert_gating_func')!r}; it must be 2")
    _drafts(f)


def _drafts(f: Facts) -> None:
    """Layers that guess further tokens are counted with the others."""
    drafts, layers = f.key("num_nextn_predict_layers") or 0, f.key("num_hidden_layers")
    if type(drafts) is int and type(layers) is int and 0 < drafts < layers:
        f.values["num_hidden_layers"] = layers - drafts


def _states(f: Facts) -> None:
    """Which layers have a state, and the size of its values."""
    _drafts(f)
    n = f.values.get("num_hidden_layers", len(f.layers()))
    f.values["layer_types"] = [LINEAR if f.has(DELTA["mix_a"].format(i)) else FULL for i in range(n)]
    inner, heads = f.key("linear_inner_size"), f.key("linear_num_value_heads")
    if type(inner) is int and type(heads) is int and heads and inner % heads == 0:
        f.values["linear_value_head_dim"] = inner // heads
    f.key("full_attention_interval")


def _qwen3_next(f: Facts) -> None:
    _sparse(f)
    _states(f)


DELTA = {
    "mix_in": NAMES["qkv"], "mix_gate": BLOCK + "attn_gate.weight", "mix_out": BLOCK + "ssm_out.weight",
    "mix_conv": BLOCK + "ssm_conv1d.weight", "mix_norm": BLOCK + "ssm_norm.weight", "mix_a": BLOCK + "ssm_a",
    "mix_decay_bias": BLOCK + "ssm_dt.bias", "mix_decay": BLOCK + "ssm_alpha.weight",
    "mix_beta": BLOCK + "ssm_beta.weight", "ba": BLOCK + "ssm_ba.weight", "attn_gate": NAMES["q"],
    "ffn_norm": BLOCK + "post_attention_norm.weight",
}  # fmt: skip


MLA = {
    "q_down": BLOCK + "attn_q_a.weight", "q_down_norm": BLOCK + "attn_q_a_norm.weight", "k": BLOCK + "attn_kv_a_mqa.weight",
    "k_norm": BLOCK + "attn_kv_a_norm.weight", "k_up": BLOCK + "attn_k_b.weight", "v_up": BLOCK + "attn_v_b.weight",
    "kv_up": BLOCK + "attn_kv_b.weight",
}  # fmt: skip


KIMI = MLA | {part: DELTA[part] for part in ("mix_norm", "mix_a", "mix_decay_bias", "mix_beta")} | {
    "mix_decay_down": BLOCK + "ssm_f_a.weight", "mix_decay": BLOCK + "ssm_f_b.weight",
    "mix_gate_down": BLOCK + "ssm_g_a.weight", "mix_gate": BLOCK + "ssm_g_b.weight", "mix_out": NAMES["o"],
    "mix_conv": BLOCK + "ssm_conv1d_{{}}.weight",
}  # fmt: skip


def _latent_parts(f: Facts) -> None:
    """Heads are stated as the cache of llama.cpp sees them: one key of rank + rotary numbers."""
    whole, rotary = f.key("qk_head_dim"), f.key("qk_rope_head_dim")
    if type(whole) is int and type(rotary) is int:
        f.values["qk_nope_head_dim"] = whole - rotary
    f.values["num_key_value_heads"] = 1
    if any(f.has(MLA["q_down"].format(i)) for i in f.layers()):
        f.names["q"] = BLOCK + "attn_q_b.weight"


def _kimi(f: Facts) -> None:
    _sigmoid(f)
    _states(f)
    _latent_parts(f)
    f.values["linear_num_heads"] = f.key("num_attention_heads")


def _mistral4(f: Facts) -> None:
    _latent_parts(f)
    f.values["norm_topk_prob"] = bool(f.key("norm_topk_prob"))
    f.values["q_lora_rank"] = f.key("q_lora_rank")  # null: queries are not compressed
    if f.key("expert_gating_func") not in (None, 1):
        raise ConvertError(f"expert_gating_func is {f.key('expert_gating_func')!r}; it must be 1")


def _glm4_moe(f: Facts) -> None:
    _sigmoid(f)
    f.values["use_qk_norm"] = f.has(NAMES["q_norm"].format(0))


def _minimax(f: Facts) -> None:
    _sigmoid(f)
    f.values["intermediate_size"] = f.key("moe_intermediate_size") or f.key("intermediate_size")


def _latent(f: Facts) -> None:
    """Sizes of a head: today of the compressed form beside those of the whole one, before of the whole one alone."""
    _drafts(f)
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


def _groups(of_256: int) -> Callable[[Facts], int]:
    """Old files do not state groups of experts, which DeepSeek V3 alone has."""
    return lambda f: of_256 if f.key("n_routed_experts") == 256 else 1


def _hunyuan_moe(f: Facts) -> None:
    f.key("shared_intermediate_size"), f.key("norm_topk_prob")


def _ernie_moe(f: Facts) -> None:
    f.key("shared_intermediate_size"), f.key("expert_gating_func")


def _exaone_moe(f: Facts) -> None:
    _sigmoid(f)
    _pattern(f)
    f.key("shared_intermediate_size")


def _afmoe(f: Facts) -> None:
    _sigmoid(f)
    f.values["route_norm"] = f.key("norm_topk_prob") is not False


def _apertus(f: Facts) -> None:
    """The numbers of xIELU are keys, one for each layer. The scaling of RoPE is in the tensor rope_freqs."""
    f.values["rope_parameters"] = {"rope_type": "default", "rope_theta": f.key("rope_theta") or 12_000_000.0}
    numbers = [f.file.get("xielu." + name) for name in ("alpha_p", "alpha_n", "beta", "eps")]
    numbers = [x if isinstance(x, np.ndarray) else np.full(len(f.layers()), x) for x in numbers if x is not None]
    if len(numbers) != 4 or not all(x.shape == (len(f.layers()),) and x.dtype.kind == "f" for x in numbers):
        raise ConvertError("xielu.alpha_p, alpha_n, beta and eps must be numbers, one for each layer")
    for i in f.layers():
        f.given[f"layer.{i}.xielu"] = np.array([x[i] for x in numbers], "<f4")


def _dbrx(f: Facts) -> None:
    f.values["attn_config"] = {"clip_qkv": f.key("clip_qkv"), "kv_n_heads": f.key("num_key_value_heads")}
    f.values["ffn_config"] = {"ffn_hidden_size": f.key("intermediate_size"), "moe_num_experts": f.key("num_experts"),
                              "moe_top_k": f.key("num_experts_per_tok")}  # fmt: skip


def _mpt(f: Facts) -> None:
    """The bias of the last head; models without ALiBi have learned positions, which are refused as a tensor."""
    f.values["attn_config"] = {"clip_qkv": f.key("clip_qkv"), "alibi_bias_max": f.key("max_alibi_bias") or 8}


def _starcoder(f: Facts) -> None:
    f.values["multi_query"] = f.key("num_key_value_heads") == 1


def _query_scale(largest: int) -> Callable[[Facts], Any]:
    """Gemma 2 and 3 divide by the size of a head; their largest, of that many layers, by the width for each head."""

    def value(f: Facts) -> Any:
        dim, heads = f.key("hidden_size"), f.key("num_attention_heads")
        if f.key("num_hidden_layers") == largest and type(dim) is int and type(heads) is int and heads:
            return dim // heads
        return f.key("head_dim") or 256

    return value


def _every_fourth(f: Facts) -> list[int]:
    return [int((i + 1) % 4 != 0) for i in f.layers()]


def _by_layer(f: Facts, key: str) -> list[int]:
    """A number of each layer, of which some may be 0; and the largest is that of the others."""
    numbers = f.key(key)
    numbers = numbers if isinstance(numbers, list) else [numbers] * len(f.layers())
    if len(numbers) != len(f.layers()) or not all(type(n) is int for n in numbers):
        raise ConvertError(f"{key} is {numbers!r}; a number for each layer is needed")
    f.values[key] = max(numbers, default=0) or 1
    return numbers


def _inner(f: Facts) -> int:
    """The width of a Mamba2, of which the heads have equal parts."""
    inner, heads = f.key("mamba_d_ssm"), f.key("mamba_n_heads")
    if type(inner) is not int or type(heads) is not int or heads < 1 or inner % heads:
        raise ConvertError(f"ssm.inner_size is {inner!r}; a multiple of ssm.time_step_rank, {heads!r}, is needed")
    return inner


def _mamba(f: Facts, bias: str = "mamba_conv_bias") -> None:
    f.values[bias] = any(f.has(source_name(SSM, f"layer.{i}.mix_conv_bias")) for i in f.layers())


def _granite_hybrid(f: Facts) -> None:
    """Layers without keys have Mamba2. A file whose attention turns beside them is of Bamba, which llama.cpp orders otherwise."""
    _mamba(f)
    heads, inner, dim = _by_layer(f, "num_key_value_heads"), _inner(f), f.key("hidden_size")
    if f.key("rope_is_used") or type(dim) is not int or not dim or inner % dim:
        raise ConvertError("a granitehybrid file with RoPE, or whose ssm.inner_size is no multiple of its width, is not understood")
    f.values |= {"layer_types": [FULL if n else LINEAR for n in heads], "mamba_expand": inner // dim}
    if not f.has(NAMES["router"].format(0)):
        f.values |= {"num_local_experts": 0, "shared_intermediate_size": f.key("intermediate_size")}


def _falcon_h1(f: Facts) -> None:
    """The multipliers are in the weights. llama.cpp norms after the gate."""
    _mamba(f)
    _inner(f)
    f.values |= {"mamba_rms_norm": f.has(SSM["mix_norm"].format(0)), "mamba_norm_before_gate": False}


def _nemotron_h(f: Facts) -> None:
    """A layer without keys and without a feed-forward step has Mamba2."""
    _mamba(f, "use_conv_bias")
    if f.key("expert_gating_func") not in (None, 2):
        raise ConvertError(f"expert_gating_func is {f.key('expert_gating_func')!r}; it must be 2")
    _drafts(f)
    n = f.values.get("num_hidden_layers", len(f.layers()))
    heads, widths = _by_layer(f, "num_key_value_heads")[:n], _by_layer(f, "intermediate_size")[:n]
    kinds = [FULL if h else "moe" if w and f.has(NAMES["router"].format(i)) else "mlp" if w else LINEAR
             for i, (h, w) in enumerate(zip(heads, widths))]  # fmt: skip
    f.values |= {"layers_block_type": kinds, "layer_norm_epsilon": f.key("rms_norm_eps"), "mamba_head_dim": _inner(f) // f.key("mamba_n_heads")}


def _lfm2(f: Facts) -> None:
    """Layers without keys have a convolution. Old files call the last norm that of the embedding."""
    heads = _by_layer(f, "num_key_value_heads")
    f.values |= {"layer_types": [FULL if n else "conv" for n in heads], "norm_eps": f.key("rms_norm_eps"), "block_auto_adjust_ff_dim": False}
    f.names |= {} if f.has(NAMES["final_norm"]) else {"final_norm": "token_embd_norm.weight"}


def _lfm2_moe(f: Facts) -> None:
    _lfm2(f)
    f.values["use_expert_bias"] = any(f.has(source_name(NAMES, f"layer.{i}.router_select_bias")) for i in f.layers())
    if f.key("expert_gating_func") != 2:
        raise ConvertError(f"expert_gating_func is {f.key('expert_gating_func')!r}; it must be 2")
    f.values.pop("block_auto_adjust_ff_dim")


SSM = {
    "mix_in": BLOCK + "ssm_in.weight", "mix_out": BLOCK + "ssm_out.weight", "mix_conv": BLOCK + "ssm_conv1d.weight",
    "mix_norm": BLOCK + "ssm_norm.weight", "mix_a": BLOCK + "ssm_a", "mix_skip": BLOCK + "ssm_d", "mix_decay": BLOCK + "ssm_dt.weight",
}  # fmt: skip
SHORT = {f"mix_{part}": f"{BLOCK}shortconv.{name}.weight" for part, name in (("in", "in_proj"), ("out", "out_proj"), ("conv", "conv"))}
_SANDWICH_27B = {2: 46, 3: 62}  # layers
_THETA = {"rope_theta": 10000.0}
_POST_AS_FFN = {"ffn_norm": BLOCK + "post_attention_norm.weight"}
ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture("mistral", True, find=_llama, assumed=_THETA, windows=True),
    "llama+experts": Architecture("mixtral", True, find=_llama, assumed=_THETA, windows=True),
    "qwen2": Architecture("qwen2", assumed=_THETA, windows=True),
    "qwen3": Architecture("qwen3", assumed=_THETA, windows=True),
    "qwen2moe": Architecture(
        "qwen2_moe", find=_sparse, windows=True, assumed=_THETA | {"norm_topk_prob": False},
        fixed={"decoder_sparse_step": 1},
    ),
    "qwen3moe": Architecture(
        "qwen3_moe", find=_sparse, windows=True, assumed=_THETA | {"norm_topk_prob": True},
        fixed={"decoder_sparse_step": 1},
    ),
    "gemma": Architecture("gemma", assumed=_THETA),
    "gemma2": Architecture(
        "gemma2", assumed=_THETA | {
            "query_pre_attn_scalar": _query_scale(_SANDWICH_27B[2]), "sliding_window": 4096,
            "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
        },
    ),
    "gemma3": Architecture(
        "gemma3_text", assumed={
            "query_pre_attn_scalar": _query_scale(_SANDWICH_27B[3]), "sliding_window_pattern": 6,
            "rope_theta": 1_000_000.0, "rope_local_base_freq": 10_000.0,
        },
    ),
    "gemma3n": Architecture("gemma3n_text", find=_gemma3n, assumed={"final_logit_softcapping": 30.0}),
    "llama4": Architecture(
        "llama4_text", True, find=_llama4, assumed={
            "rope_theta": 500_000.0, "no_rope_layers": _every_fourth, "attention_chunk_size": 8192, "floor_scale": 8192,
        },
    ),
    "mistral4": Architecture("mistral4", find=_mistral4, assumed={"llama_4_scaling_beta": 0.1}, names=MLA),
    "gemma4": Architecture("gemma4_text", find=_gemma4, names=GEMMA4),
    "phi2": Architecture("phi", partial=True, assumed=_THETA),
    "phi3": Architecture("phi3", partial=True, find=_llama, assumed=_THETA),
    "smollm3": Architecture(
        "smollm3", True, assumed={"rope_theta": 2_000_000.0, "no_rope_layers": _every_fourth}, windows=True
    ),
    "olmo": Architecture("olmo", True, assumed=_THETA, ones=True),
    "olmo2": Architecture("olmo2", assumed={"rope_theta": 500_000.0}),
    "olmo2+windows": Architecture("olmo3", find=_olmo3, assumed={"rope_theta": 500_000.0}),
    "granite": Architecture("granite", True, assumed=_THETA),
    "stablelm": Architecture("stablelm", partial=True, find=_stablelm, assumed=_THETA),
    "falcon": Architecture("falcon", find=_falcon, assumed=_THETA),
    "gptneox": Architecture("gpt_neox", partial=True, assumed=_THETA),
    "starcoder2": Architecture("starcoder2", find=_llama, assumed=_THETA, windows=True),
    "command-r": Architecture("cohere", True, find=_cohere, assumed=_THETA),
    "glm4": Architecture("glm4", True, partial=True, assumed=_THETA),
    "cohere2": Architecture("cohere2", True, assumed=_THETA),
    "exaone4": Architecture("exaone4", find=_pattern, assumed=_THETA),
    "olmoe": Architecture("olmoe", assumed=_THETA | {"norm_topk_prob": False}),
    "arcee": Architecture("arcee", True, assumed=_THETA),
    "seed_oss": Architecture("seed_oss", assumed=_THETA, names={"ffn_norm": BLOCK + "post_attention_norm.weight"}),
    "ernie4_5": Architecture("ernie4_5", True, assumed={"rope_theta": 500_000.0}),
    "gpt-oss": Architecture(
        "gpt_oss", find=_gpt_oss, assumed={"swiglu_limit": 7.0, "rope_theta": 150_000.0},
        names={"ffn_norm": BLOCK + "post_attention_norm.weight"},
    ),
    "gpt2": Architecture("gpt2"),
    "nemotron": Architecture("nemotron", partial=True, assumed=_THETA),
    "granitemoe": Architecture("granitemoeshared", True, assumed=_THETA | {"shared_intermediate_size": 0}),
    "hunyuan-dense": Architecture("hunyuan_v1_dense", assumed=_THETA),
    "dots1": Architecture("dots1", find=_sigmoid, assumed=_THETA, windows=True),
    "glm4moe": Architecture("glm4_moe", partial=True, find=_glm4_moe, assumed=_THETA, names=_POST_AS_FFN),
    "minimax-m2": Architecture("minimax_m2", partial=True, find=_minimax, assumed={"rope_theta": 5_000_000.0}),
    "qwen3next": Architecture(
        "qwen3_next", partial=True, find=_qwen3_next, assumed=_THETA, names=DELTA,
        fixed={"decoder_sparse_step": 1, "norm_topk_prob": True},
    ),
    "qwen35": Architecture("qwen3_5_text", partial=True, find=_states, assumed=_THETA, names=DELTA, tiled=True),
    "qwen35moe": Architecture("qwen3_5_moe_text", partial=True, find=_states, assumed=_THETA, names=DELTA, tiled=True),
    "kimi-linear": Architecture("kimi_linear", find=_kimi, names=KIMI, in_three=True),
    "granitehybrid": Architecture("granitemoehybrid", True, find=_granite_hybrid, names=SSM),
    "falcon-h1": Architecture("falcon_h1", find=_falcon_h1, assumed=_THETA, names=SSM | {"ffn_norm": BLOCK + "ffn_norm"}),
    "nemotron_h": Architecture("nemotron_h", True, True, find=_nemotron_h, names=SSM | {"ffn_norm": NAMES["attn_norm"]}),
    "nemotron_h_moe": Architecture("nemotron_h", True, True, find=_nemotron_h, names=SSM | {"ffn_norm": NAMES["attn_norm"]}),
    "lfm2": Architecture("lfm2", find=_lfm2, assumed={"rope_theta": 1_000_000.0}, names=SHORT),
    "lfm2moe": Architecture(
        "lfm2_moe", find=_lfm2_moe, assumed={"rope_theta": 1_000_000.0, "routed_scaling_factor": 1.0}, names=SHORT
    ),
    "bloom": Architecture("bloom"),
    "mpt": Architecture("mpt", find=_mpt),
    "starcoder": Architecture("gpt_bigcode", find=_starcoder),
    "deepseek2": Architecture("deepseek_v2", find=_latent, assumed=_THETA, names=MLA),
    "deepseek2+sigmoid": Architecture(
        "deepseek_v3", find=_latent, names=MLA, assumed=_THETA | {"n_group": _groups(8), "topk_group": _groups(4)},
    ),
    "minicpm3": Architecture(
        "minicpm3", find=_latent, names=MLA,
        assumed=_THETA | {"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256},
    ),
    "hunyuan-moe": Architecture("hunyuan_v1_moe", find=_hunyuan_moe, assumed=_THETA),
    "ernie4_5-moe": Architecture("ernie4_5_moe", True, find=_ernie_moe, assumed={"rope_theta": 500_000.0}),
    "exaone-moe": Architecture("exaone_moe", find=_exaone_moe, assumed=_THETA),
    "afmoe": Architecture("afmoe", find=_afmoe, assumed=_THETA, fixed={"mup_enabled": True}),
    "apertus": Architecture("apertus", find=_apertus, assumed={"rope_theta": 12_000_000.0}),
    "jais2": Architecture("jais2", assumed={"rope_theta": 500_000.0}),
    "mistral3": Architecture("mistral", True, find=_llama, assumed=_THETA, windows=True),
    "mistral3+tempered": Architecture("ministral3", True, find=_llama, assumed={"rope_theta": 1_000_000.0}),
    "dbrx": Architecture("dbrx", find=_dbrx, assumed={"rope_theta": 500_000.0}, names={"ffn_norm": BLOCK + "attn_output_norm.weight"}),
}  # fmt: skip


def architecture(name: str, keys: dict[str, Any]) -> Architecture | None:
    """The row of a file; Mixtral's files say llama, OLMo 3's olmo2, and DeepSeek V3's deepseek2."""
    if keys.get(f"{name}.expert_gating_func") == 2 and f"{name}+sigmoid" in ARCHITECTURES:
        return ARCHITECTURES[f"{name}+sigmoid"]
    for variant, key in (
        ("experts", "expert_count"), ("windows", "attention.sliding_window"), ("tempered", "attention.temperature_scale"),
    ):  # fmt: skip
        if f"{name}+{variant}" in ARCHITECTURES and np.any(keys.get(f"{name}.{key}", 0)):
            return ARCHITECTURES[f"{name}+{variant}"]
    return ARCHITECTURES.get(name)


def known() -> list[str]:
    return [name for name in ARCHITECTURES if "+" not in name]
