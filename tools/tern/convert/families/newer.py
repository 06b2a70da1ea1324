"""Dense families of 2024 and later; see families.py."""

from .config import REQUIRED, Config
from .graph import Family, biases, graph, layer_norms, put_all, sandwich, soft_caps
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


def _cwm(c: Config) -> dict:
    """Every fourth layer, from the first, sees all; the others have a window. Without a word RoPE is scaled as Llama's."""
    if c.get("rope_parameters", None) is None and not c.get("rope_scaling", None):
        c.values["rope_parameters"] = {
            "rope_type": "llama3", "rope_theta": c.get("rope_theta", 1_000_000.0), "factor": 16.0, "high_freq_factor": 4.0,
            "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
        }  # fmt: skip
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


NEWER = {
    "glm": Family("GlmForCausalLM", _glm),
    "ministral": Family("MinistralForCausalLM", _ministral),
    "helium": Family("HeliumForCausalLM", _helium),
    "cwm": Family("CwmForCausalLM", _cwm),
    "internlm3": Family("LlamaForCausalLM", _internlm3, published="InternLM3ForCausalLM"),
    "nemotron": Family("NemotronForCausalLM", _nemotron),
    "jais2": Family("Jais2ForCausalLM", _jais2),
    "vaultgemma": Family("VaultGemmaForCausalLM", _vaultgemma),
}
