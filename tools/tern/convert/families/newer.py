"""Dense families of 2024 and later; see families.py."""

import math
from collections.abc import Callable

from ...errors import ConvertError
from .config import REQUIRED, Config
from .features import MAX_Q_SCALES, QK_HEAD, QK_SHARED_LAYER
from .graph import Family, biases, granite, granite_swa, graph, layer_norms, put_all, put_rope, sandwich, soft_caps
from .windows import FULL, SLIDING, layer_types, put_windows, same_types


def _glm(c: Config) -> dict:
    f = graph(c, 131072, kv_heads=2, head_dim=128, hidden=13696, eps=("rms_norm_eps", 1.5625e-7), partial=0.5)
    biases(f, 7 * c.flag("attention_bias", True))
    return f


def _windows_by_layer(c: Config, f: dict, default: int | None) -> None:
    """All layers have the window, unless layer_types says which; `sliding_window` may be null."""
    window = c.get("sliding_window", default)
    kinds = layer_types(c, f["n_layers"], [FULL if window is None else SLIDING] * f["n_layers"])
    if window is None and SLIDING in kinds:
        raise c.refuse("layer_types", f"{FULL!r} for all layers, as there is no sliding_window")
    put_windows(c, f, kinds, window or REQUIRED)


def _ministral(c: Config) -> dict:
    f = graph(c, 131072, kv_heads=8)
    _windows_by_layer(c, f, 4096)
    return f


def _helium(c: Config) -> dict:
    f = graph(c, 4096, kv_heads=20, head_dim=128, hidden=7040, eps=("rms_norm_eps", 1e-8), theta=100_000.0)
    biases(f, 7 * c.flag("attention_bias"), 7 * c.flag("mlp_bias"))
    return f


def _llama3_unless_stated(c: Config, theta: float, factor: float) -> None:
    if c.get("rope_parameters", None) is None and not c.get("rope_scaling", None):
        c.values["rope_parameters"] = {
            "rope_type": "llama3", "rope_theta": c.get("rope_theta", theta), "factor": factor, "high_freq_factor": 4.0,
            "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
        }  # fmt: skip


def _cwm(c: Config) -> dict:
    """Every fourth layer, from the first, sees all; the others have a window. Without a word RoPE is scaled as Llama's."""
    _llama3_unless_stated(c, 1_000_000.0, 16.0)
    f = graph(c, 131072, kv_heads=8, head_dim=128, hidden=21504, eps=("rms_norm_eps", 1e-5), theta=1_000_000.0)
    n = f["n_layers"]
    put_windows(c, f, layer_types(c, n, [SLIDING if i % 4 else FULL for i in range(n)]), 8192)
    return f


def _internlm3(c: Config) -> dict:
    """Published files say `qkv_bias` and `bias`; the reference reads both only if they agree."""
    f = graph(c, 32768, kv_heads=2, head_dim=128, hidden=10240, eps=("rms_norm_eps", 1e-5))
    qkv = c.flag("qkv_bias", c.flag("attention_bias"))
    if qkv != c.flag("bias", c.flag("mlp_bias")):
        raise c.refuse("qkv_bias", "the same as bias")
    biases(f, 15 * qkv, 7 * qkv)
    return f


def _nemotron(c: Config) -> dict:
    f = graph(c, 4096, hidden=24576, eps=("norm_eps", 1e-5), act=("hidden_act", "relu2"), partial=0.5)
    biases(f, 15 * c.flag("attention_bias"), 6 * c.flag("mlp_bias"))
    layer_norms(f, True)
    put_all(f, ffn_gated=0)
    return f


def _jais2(c: Config) -> dict:
    f = graph(c, 8192, hidden=26624, eps=("layer_norm_eps", 1e-5), act=("hidden_act", "relu2"))
    biases(f, 15 * c.flag("attention_bias", True), 6 * c.flag("mlp_bias", True))
    layer_norms(f, True)
    put_all(f, ffn_gated=0)
    same_types(c, f["n_layers"], FULL)
    return f


def _vaultgemma(c: Config) -> dict:
    """Gemma 2 without the norms after its steps."""
    f = graph(c, 8192, kv_heads=4, head_dim=256, tied=True, act=("hidden_activation", "gelu_pytorch_tanh"))
    c.get("hidden_act", None)
    biases(f, 15 * c.flag("attention_bias"))
    f["embed_scale"] = f["dim"] ** 0.5
    sandwich(c, f)
    put_all(f, norms=5)
    soft_caps(c, f, 50.0, 30.0)
    n = f["n_layers"]
    put_windows(c, f, layer_types(c, n, [FULL if i % 2 else SLIDING for i in range(n)]), 4096)
    return f


def hunyuan(c: Config) -> dict:
    """Norms of q and k after RoPE. `dynamic` with an alpha is a larger base."""
    f = graph(c, 2048, hidden=11008, eps=("rms_norm_eps", 1e-5), ropes=False)
    values = c.table("rope_scaling") or c.table("rope_parameters")
    c.table("rope_parameters"), c.table("rope_scaling")
    values.setdefault("rope_theta", c.get("rope_theta", 10000.0))
    d, alpha, where = f["head_dim"][0], values.pop("alpha", None), "rope_parameters"
    if alpha is not None and values.get("rope_type", values.get("type")) == "dynamic":
        if type(alpha) not in (int, float) or not 0 < alpha < 1e9 or type(values["rope_theta"]) not in (int, float) or d < 4:
            raise ConvertError(f"{c.where}: {where}: alpha and rope_theta must be numbers above 0")
        for key in ("type", "factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"):
            values.pop(key, None)  # not read by the reference
        values |= {"rope_type": "default", "rope_theta": values["rope_theta"] * float(alpha) ** (d / (d - 2))}
    put_rope(c, f, 0, values, where, d)
    put_all(f, rope_set=1, qk_norm=QK_HEAD, qk_norm_last=1)
    biases(f, 15 * c.flag("attention_bias"))
    c.ignore("eod_token_id", "use_qk_norm", "use_cla", "cla_share_factor")
    return f


def _nanochat(c: Config) -> dict:
    """Norms without weights, one of them of the embedding; those of q and k after RoPE."""
    f = graph(c, 2048, hidden=8192, act=("hidden_act", "relu2"))
    biases(f, 15 * c.flag("attention_bias"))
    c.only("attn_logit_softcapping", None)
    soft_caps(c, f, 0, 15.0)
    put_all(f, qk_norm=QK_HEAD, qk_norm_last=1, ffn_gated=0)
    f["embed_norm"] = 1
    return f


def _ministral3(c: Config) -> dict:
    if c.get("rope_parameters", None) is None and not c.get("rope_scaling", None):
        raise c.refuse("rope_parameters", "stated")
    put_scales = scales_by_position(c)
    f = graph(c, 262144, kv_heads=8, head_dim=128, hidden=14336, eps=("rms_norm_eps", 1e-5), theta=1e6)
    _windows_by_layer(c, f, None)
    put_scales(f)
    return f


def scales_by_position(c: Config) -> Callable[[dict], None]:
    """Queries grow with their position: 1 + beta * log(1 + floor(position / original length)). Takes beta out of the
    config; what is returned puts the factors into the features."""
    tables = {name: c.table(name) for name in ("rope_parameters", "rope_scaling")}
    name = "rope_scaling" if tables["rope_scaling"] else "rope_parameters"
    values = tables[name]
    beta, every = values.pop("llama_4_scaling_beta", None), values.get("original_max_position_embeddings")
    values.pop("max_position_embeddings", None)
    c.values[name] = values

    def put(f: dict) -> None:
        if beta is None:
            return
        if type(beta) not in (int, float) or not 0 <= beta < 1e6 or type(every) is not int or every < 1:
            raise ConvertError(f"{c.where}: {name}: llama_4_scaling_beta and original_max_position_embeddings must be numbers")
        steps = max(-(-f["max_seq"] // every), 1)
        f["q_scales"] = [1 + beta * math.log(1 + i) for i in range(min(steps, MAX_Q_SCALES))]
        f["q_scale_every"] = every

    return put


def _apertus(c: Config) -> dict:
    """xIELU, no gate; q and k norms. Without a word RoPE is scaled as Llama's."""
    _llama3_unless_stated(c, 12_000_000.0, 8.0)
    xielu = c.get("hidden_act", "xielu") == "xielu"
    if xielu:
        c.values["hidden_act"] = "relu2"  # graph knows none that has numbers of its own
    f = graph(c, 65536, hidden=14336, eps=("rms_norm_eps", 1e-5), theta=12_000_000.0)
    if xielu:
        c.values["hidden_act"] = f["activation"] = "xielu"
    biases(f, 15 * c.flag("attention_bias"))
    put_all(f, qk_norm=QK_HEAD, ffn_gated=0)
    c.only("post_norm", False)
    c.only("qk_norm", True)
    c.only("mlp_bias", False)
    return f


def _hyperclovax(c: Config) -> dict:
    """Granite with norms after its steps; logits are multiplied."""
    post = c.flag("use_post_norm", True)
    if c.get("attention_multiplier", None) is None:
        c.values["attention_multiplier"] = 1.0
        f = granite(c)
        put_all(f, attn_scale=1 / math.sqrt(f["head_dim"][0]))
    else:
        f = granite(c)
    f["logit_scale"] = c.number("logits_scaling", 1.0)
    put_all(f, norms=15 if post else 5)
    return f


def _iquestcoder(c: Config) -> dict:
    f = graph(c, 131072, kv_heads=8, head_dim=128, hidden=27648, eps=("rms_norm_eps", 1e-5))
    biases(f, 15 * c.flag("attention_bias"), 7 * c.flag("mlp_bias"))
    c.only("clip_qkv", None)
    return f


def _persimmon(c: Config) -> dict:
    f = graph(c, 16384, hidden=16384, eps=("layer_norm_eps", 1e-5), act=("hidden_act", "relu2"), partial=0.5)
    biases(f, 15, 6)
    layer_norms(f, True)
    put_all(f, ffn_gated=0)
    if c.flag("qk_layernorm", True):
        put_all(f, qk_norm=QK_SHARED_LAYER)
    return f


NEWER = {
    "glm": Family("GlmForCausalLM", _glm),
    "ministral": Family("MinistralForCausalLM", _ministral),
    "helium": Family("HeliumForCausalLM", _helium),
    "cwm": Family("CwmForCausalLM", _cwm),
    "internlm3": Family("LlamaForCausalLM", _internlm3, published="InternLM3ForCausalLM"),
    "nemotron": Family("NemotronForCausalLM", _nemotron),
    "jais2": Family("Jais2ForCausalLM", _jais2),
    "hunyuan_v1_dense": Family("HunYuanDenseV1ForCausalLM", hunyuan),
    "nanochat": Family("NanoChatForCausalLM", _nanochat),
    "ministral3": Family("Ministral3ForCausalLM", _ministral3),
    "hyperclovax": Family("HyperCLOVAXForCausalLM", _hyperclovax),
    "iquestcoder": Family("LlamaForCausalLM", _iquestcoder, published="IQuestCoderForCausalLM"),
    "persimmon": Family("PersimmonForCausalLM", _persimmon),
    "apertus": Family("ApertusForCausalLM", _apertus),
    "granite_swa": Family("GraniteSWAForCausalLM", lambda c: granite_swa(c, granite(c))),
    "vaultgemma": Family("VaultGemmaForCausalLM", _vaultgemma),
}
