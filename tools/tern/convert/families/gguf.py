"""What a GGUF file of each architecture means: a family of families.py, names of keys and tensors, and how llama.cpp's
own converter stored its rows. Facts only; sources/gguf.py does the work.

To add an architecture: a row in ARCHITECTURES. What its files do not say and the family needs goes into `assumed`: it is
told to the user, who can change it with --set.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import gguf_find as find
from .gguf_find import Facts
from .gguf_names import BLOCK, DELTA, GEMMA4, KIMI, MLA, NAMES, POST_AS_FFN, SHORT, SSM


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
    ropes: bool = False  # `find` says what turns in each kind of layer
    tiled: bool = False  # value heads of a delta net: the first ones of all key heads, then the second ones


_SANDWICH_27B = {2: 46, 3: 62}  # layers
_THETA = {"rope_theta": 10000.0}
ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture("mistral", True, find=find.llama, assumed=_THETA, windows=True),
    "llama+experts": Architecture("mixtral", True, find=find.llama, assumed=_THETA, windows=True),
    "qwen2": Architecture("qwen2", assumed=_THETA, windows=True),
    "qwen3": Architecture("qwen3", assumed=_THETA, windows=True),
    "qwen2moe": Architecture(
        "qwen2_moe", find=find.sparse, windows=True, assumed=_THETA | {"norm_topk_prob": False},
        fixed={"decoder_sparse_step": 1},
    ),
    "qwen3moe": Architecture(
        "qwen3_moe", find=find.sparse, windows=True, assumed=_THETA | {"norm_topk_prob": True},
        fixed={"decoder_sparse_step": 1},
    ),
    "gemma": Architecture("gemma", assumed=_THETA),
    "gemma2": Architecture(
        "gemma2", assumed=_THETA | {
            "query_pre_attn_scalar": find.query_scale(_SANDWICH_27B[2]), "sliding_window": 4096,
            "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
        },
    ),
    "gemma3": Architecture(
        "gemma3_text", assumed={
            "query_pre_attn_scalar": find.query_scale(_SANDWICH_27B[3]), "sliding_window_pattern": 6,
            "rope_theta": 1_000_000.0, "rope_local_base_freq": 10_000.0,
        },
    ),
    "gemma3n": Architecture("gemma3n_text", find=find.gemma3n, assumed={"final_logit_softcapping": 30.0}),
    "llama4": Architecture(
        "llama4_text", True, find=find.llama4, assumed={
            "rope_theta": 500_000.0, "no_rope_layers": find.every_fourth, "attention_chunk_size": 8192, "floor_scale": 8192,
        },
    ),
    "mistral4": Architecture("mistral4", find=find.mistral4, assumed={"llama_4_scaling_beta": 0.1}, names=MLA),
    "gemma4": Architecture("gemma4_text", find=find.gemma4, names=GEMMA4),
    "phi2": Architecture("phi", partial=True, assumed=_THETA),
    "phi3": Architecture("phi3", partial=True, find=find.llama, assumed=_THETA),
    "smollm3": Architecture(
        "smollm3", True, assumed={"rope_theta": 2_000_000.0, "no_rope_layers": find.every_fourth}, windows=True
    ),
    "olmo": Architecture("olmo", True, assumed=_THETA, ones=True),
    "olmo2": Architecture("olmo2", assumed={"rope_theta": 500_000.0}),
    "olmo2+windows": Architecture("olmo3", find=find.olmo3, assumed={"rope_theta": 500_000.0}),
    "granite": Architecture("granite", True, assumed=_THETA),
    "stablelm": Architecture("stablelm", partial=True, find=find.stablelm, assumed=_THETA),
    "falcon": Architecture("falcon", find=find.falcon, assumed=_THETA),
    "gptneox": Architecture("gpt_neox", partial=True, assumed=_THETA),
    "starcoder2": Architecture("starcoder2", find=find.llama, assumed=_THETA, windows=True),
    "command-r": Architecture("cohere", True, find=find.cohere, assumed=_THETA),
    "glm4": Architecture("glm4", True, partial=True, assumed=_THETA),
    "cohere2": Architecture("cohere2", True, assumed=_THETA),
    "exaone4": Architecture("exaone4", find=find.pattern, assumed=_THETA),
    "olmoe": Architecture("olmoe", assumed=_THETA | {"norm_topk_prob": False}),
    "arcee": Architecture("arcee", True, assumed=_THETA),
    "seed_oss": Architecture("seed_oss", assumed=_THETA, names={"ffn_norm": BLOCK + "post_attention_norm.weight"}),
    "ernie4_5": Architecture("ernie4_5", True, assumed={"rope_theta": 500_000.0}),
    "gpt-oss": Architecture(
        "gpt_oss", find=find.gpt_oss, assumed={"swiglu_limit": 7.0, "rope_theta": 150_000.0},
        names={"ffn_norm": BLOCK + "post_attention_norm.weight"},
    ),
    "gpt2": Architecture("gpt2"),
    "nemotron": Architecture("nemotron", partial=True, assumed=_THETA),
    "granitemoe": Architecture("granitemoeshared", True, assumed=_THETA | {"shared_intermediate_size": 0}),
    "hunyuan-dense": Architecture("hunyuan_v1_dense", assumed=_THETA),
    "dots1": Architecture("dots1", find=find.sigmoid, assumed=_THETA, windows=True),
    "glm4moe": Architecture("glm4_moe", partial=True, find=find.glm4_moe, assumed=_THETA, names=POST_AS_FFN),
    "minimax-m2": Architecture("minimax_m2", partial=True, find=find.minimax, assumed={"rope_theta": 5_000_000.0}),
    "qwen3next": Architecture(
        "qwen3_next", partial=True, find=find.qwen3_next, assumed=_THETA, names=DELTA,
        fixed={"decoder_sparse_step": 1, "norm_topk_prob": True},
    ),
    "qwen35": Architecture("qwen3_5_text", partial=True, find=find.states, assumed=_THETA, names=DELTA, tiled=True),
    "qwen35moe": Architecture("qwen3_5_moe_text", partial=True, find=find.states, assumed=_THETA, names=DELTA, tiled=True),
    "kimi-linear": Architecture("kimi_linear", find=find.kimi, names=KIMI, in_three=True),
    "granitehybrid": Architecture("granitemoehybrid", True, find=find.granite_hybrid, names=SSM),
    "falcon-h1": Architecture("falcon_h1", find=find.falcon_h1, assumed=_THETA, names=SSM | {"ffn_norm": BLOCK + "ffn_norm"}),
    "nemotron_h": Architecture("nemotron_h", True, True, find=find.nemotron_h, names=SSM | {"ffn_norm": NAMES["attn_norm"]}),
    "nemotron_h_moe": Architecture("nemotron_h", True, True, find=find.nemotron_h, names=SSM | {"ffn_norm": NAMES["attn_norm"]}),
    "lfm2": Architecture("lfm2", find=find.lfm2, assumed={"rope_theta": 1_000_000.0}, names=SHORT),
    "lfm2moe": Architecture(
        "lfm2_moe", find=find.lfm2_moe, assumed={"rope_theta": 1_000_000.0, "routed_scaling_factor": 1.0}, names=SHORT
    ),
    "mamba2": Architecture("mamba2", find=find.mamba2, names=SSM),
    "hy_v3": Architecture(
        "hy_v3", find=find.hy_v3, assumed={"rope_theta": 11_158_840.0}, names={"router_select": BLOCK + "exp_probs_b"}
    ),
    "mellum": Architecture("mellum", find=find.mellum, assumed={"rope_theta": 500_000.0}, fixed={"norm_topk_prob": True}),
    "laguna": Architecture("laguna", find=find.laguna, ropes=True),
    "cohere2moe": Architecture("cohere2_moe", True, find=find.cohere2_moe, assumed=_THETA),
    "phimoe": Architecture("phimoe", find=find.phimoe, assumed={"rope_theta": 10000.0, "router_jitter_noise": 0.01}),
    "bloom": Architecture("bloom"),
    "mpt": Architecture("mpt", find=find.mpt),
    "starcoder": Architecture("gpt_bigcode", find=find.starcoder),
    "deepseek2": Architecture("deepseek_v2", find=find.latent, assumed=_THETA, names=MLA),
    "deepseek2+sigmoid": Architecture(
        "deepseek_v3", find=find.latent, names=MLA, assumed=_THETA | {"n_group": find.groups(8), "topk_group": find.groups(4)},
    ),
    "minicpm3": Architecture(
        "minicpm3", find=find.latent, names=MLA,
        assumed=_THETA | {"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256},
    ),
    "hunyuan-moe": Architecture("hunyuan_v1_moe", find=find.hunyuan_moe, assumed=_THETA),
    "ernie4_5-moe": Architecture("ernie4_5_moe", True, find=find.ernie_moe, assumed={"rope_theta": 500_000.0}),
    "exaone-moe": Architecture("exaone_moe", find=find.exaone_moe, assumed=_THETA),
    "afmoe": Architecture("afmoe", find=find.afmoe, assumed=_THETA, fixed={"mup_enabled": True}),
    "apertus": Architecture("apertus", find=find.apertus, assumed={"rope_theta": 12_000_000.0}),
    "jais2": Architecture("jais2", assumed={"rope_theta": 500_000.0}),
    "mistral3": Architecture("mistral", True, find=find.llama, assumed=_THETA, windows=True),
    "mistral3+tempered": Architecture("ministral3", True, find=find.llama, assumed={"rope_theta": 1_000_000.0}),
    "dbrx": Architecture("dbrx", find=find.dbrx, assumed={"rope_theta": 500_000.0}, names={"ffn_norm": BLOCK + "attn_output_norm.weight"}),
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
