"""Families that are the text part of a model that also sees or hears; see families.py."""

from .config import Config
from .features import NORM_ATTN, NORM_FFN
from .graph import Family, graph, layer_norms, put_all, put_rope
from .windows import FULL, SLIDING, layer_types, put_windows


def _emu3(c: Config) -> dict:
    return graph(c, 9216, kv_heads=8, hidden=14336, eps=("rms_norm_eps", 1e-5))


def _mllama(c: Config) -> dict:
    """Llama; layers that look at a picture do nothing without one."""
    f = graph(c, 131072, kv_heads=8, hidden=14336, eps=("rms_norm_eps", 1e-5), theta=500_000.0)
    n, stated = f["n_layers"], c.get("cross_attention_layers", None)
    looks = [3, 8, 13, 18, 23, 28, 33, 38] if stated is None else c.whole_numbers("cross_attention_layers")
    reads = [int(i not in looks) for i in range(n)]
    for key in ("n_heads", "n_kv_heads", "head_dim", "hidden", "rope_set"):
        f[key] = [value * r for value, r in zip(f[key], reads)]
    f["mixer"], f["norms"] = reads, [(NORM_ATTN | NORM_FFN) * r for r in reads]
    c.ignore("initializer_range", "dropout")
    return f


def _cohere_compass(c: Config) -> dict:
    """Cohere 2 with RoPE of two kinds, of which null is none; halves of a head turn, not neighbours."""
    f = graph(c, 8192, hidden=22528, eps=("layer_norm_eps", 1e-5), tied=True, ropes=False)
    n = f["n_layers"]
    layer_norms(f, False, True)
    if c.flag("attention_bias"):
        put_all(f, attn_bias=15)
    f["logit_scale"] = 1.0 if c.get("logit_scale", None) is None else c.number("logit_scale")
    kinds = layer_types(c, n, [FULL] * n)
    put_windows(c, f, kinds, 4096)
    stated, sets = c.table("rope_parameters"), {}
    for kind in (FULL, SLIDING):
        values = c.inner("rope_parameters", stated.get(kind), kind)
        if kind in kinds and values:
            values = {key: value for key, value in values.items() if key not in ("mrope_section", "mrope_interleaved")}
            values.setdefault("rope_theta", 10000.0)
            put_rope(c, f, len(sets), values, "rope_parameters", f["head_dim"][0])
            sets[kind] = len(sets) + 1
    f["rope_set"] = [sets.get(kind, 0) for kind in kinds]
    c.only("pooling", None)
    return f


TEXT_PARTS = {
    "emu3_text_model": Family("Emu3ForCausalLM", _emu3),
    "mllama_text_model": Family("MllamaForCausalLM", _mllama),
    "cohere_compass_text": Family("CohereCompassForCausalLM", _cohere_compass),
}
