"""Llama 4: most layers attend within chunks of the text, the others see all of it without RoPE; see families.py."""

import math

from .config import Config
from .features import MAX_LAYERS, MAX_Q_SCALES, MAX_SEQ, MAX_WIDTH, MAX_WINDOW, QK_HEAD, SIGMOID_CHOSEN
from .graph import Family, biases, graph, put_all, put_experts
from .windows import FULL, layer_types

CHUNKED_KIND = "chunked_attention"


def _turns(c: Config, n: int) -> list[int]:
    """A 1 in no_rope_layers means that the layer has RoPE."""
    every = c.integer("no_rope_layer_interval", MAX_LAYERS, 4)
    turns = c.get("no_rope_layers", None) or [int((i + 1) % every != 0) for i in range(n)]
    if not isinstance(turns, list) or len(turns) != n or not all(v in (0, 1) for v in turns):
        raise c.refuse("no_rope_layers", f"{n} of 0 or 1")
    return [int(v) for v in turns]


def _sparse(c: Config, n: int) -> list[int]:
    """Layers with experts: those listed, or every so manieth."""
    step = c.integer("interleave_moe_layer_step", MAX_LAYERS, 1)
    listed = list(range(step - 1, n, step)) if c.get("moe_layers", None) is None else c.whole_numbers("moe_layers")
    return [int(i in listed) for i in range(n)]


def _put_temperature(c: Config, f: dict, turns: list[int]) -> None:
    """Queries of layers without RoPE grow: 1 + attn_scale * log(1 + floor((position + 1) / floor_scale))."""
    every, scale = c.integer("floor_scale", MAX_SEQ, 8192), c.number("attn_scale", 0.1)
    if not c.flag("attn_temperature_tuning", True) or all(turns):
        return
    steps = f["max_seq"] // every + 1
    f["q_scales"] = [1 + scale * math.log(1 + i) for i in range(min(steps, MAX_Q_SCALES))]
    f["q_scale_every"], f["q_scale_shift"], f["q_scaled"] = every, 1, [1 - v for v in turns]


def _llama4(c: Config) -> dict:
    f = graph(c, 131072, kv_heads=8, head_dim=128, hidden=8192, eps=("rms_norm_eps", 1e-5), theta=500_000.0)
    n, width, dense = f["n_layers"], f["hidden"][0], c.integer("intermediate_size_mlp", MAX_WIDTH, 16384)
    biases(f, 15 * c.flag("attention_bias"))
    turns, sparse = _turns(c, n), _sparse(c, n)
    kinds = layer_types(c, n, [CHUNKED_KIND if turn else FULL for turn in turns], (FULL, CHUNKED_KIND))
    chunk = c.integer("attention_chunk_size", MAX_WINDOW, 8192) if CHUNKED_KIND in kinds else c.get("attention_chunk_size", 0)
    f["window_chunked"] = [int(kind == CHUNKED_KIND) for kind in kinds]
    f["window"] = [chunk if kind == CHUNKED_KIND else 0 for kind in kinds]
    f["rope_set"] = turns
    if c.flag("use_qk_norm", True):
        f["qk_norm"], f["qk_norm_last"] = [QK_HEAD * turn for turn in turns], turns
    _put_temperature(c, f, turns)
    f["hidden"] = [dense] * n
    put_experts(c, f, sparse, width, ("num_local_experts", 16), 1)
    put_all(f, router_score=SIGMOID_CHOSEN)
    f["expert_in_weight"], f["shared_hidden"] = sparse, [width * s for s in sparse]
    c.ignore("for_llm_compressor")
    return f


CHUNKED = {"llama4_text": Family("Llama4ForCausalLM", _llama4)}
