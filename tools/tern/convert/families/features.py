"""A model in the words of src/weights/FORMAT.md: the keys of its config, and the tensors that a model with these has.

In:  a config that families.py or a reader of sources has filled. Out: `slots`, its tensors; this alone knows which tensors
a model of given features has. `check_config` holds it to the engine's limits; `packed_config` is what is stored.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import ConvertError

# Limits of the engine's reader, so that a file that it would refuse is not written.
MAX_LAYERS = 1024
MAX_WIDTH = 1 << 20
MAX_VOCAB = 1 << 24
MAX_SEQ = 1 << 24
MAX_HEADS = 4096
MAX_HEAD_DIM = 1024
MAX_WINDOW = (1 << 32) - 1
MAX_Q_SCALES = 4096
MAX_STREAMS = 8


FACTORS = "factors"  # by part: what the source's tensors are multiplied by as they are read; not stored
HALVES = "halves"  # latent attention: the source turns halves, where its family turns neighbours; not stored


@dataclass(frozen=True)
class Slot:
    """A tensor that the model must have: `matrices` matrices [rows, k], or a vector [rows]. Those that are `exact`,
    and vectors, are always stored as f32."""

    name: str
    rows: int
    k: int
    vector: bool = False
    matrices: int = 1
    exact: bool = False

    @property
    def layer_and_part(self) -> tuple[int, str]:
        """Layer, or -1, and part: "layer.3.q" is (3, "q")."""
        if not self.name.startswith("layer."):
            return -1, self.name
        _, layer, part = self.name.split(".")
        return int(layer), part


# Config keys that a file leaves out at these values (FORMAT.md).
DEFAULTS = {
    "embed_scale": 1, "residual_scale": 1, "logit_scale": 1, "logit_cap": 0, "head_bias": 0, "norm": "rms",
    "norm_bias": 0, "learned_positions": 0, "norms": 5, "round_inputs": 0, "qk_norm": 0, "attn_sinks": 0, "parallel": 0, "ffn_gated": 1,
    "attn_cap": 0, "qkv_clip": 0, "qkv_clip_last": 0, "ffn_clamp": 0, "n_experts": 0, "experts_used": 0,
    "router_score": 0, "router_normalize": 0, "router_bias": 0, "router_select_bias": 0, "router_factor": 1,
    "shared_hidden": 0, "shared_switch": 0, "qk_norm_last": 0, "embed_norm": 0, "q_scale_every": 1, "q_scale_shift": 0, "q_scaled": 1, "window_chunked": 0, "expert_in_weight": 0, "router_jitter": 0,
    "router_groups": 1, "router_groups_used": 1, "router_group_best": 2, "mixer": 1, "attn_gate": 0, "recurrence": 0,
    "k_heads": 0, "v_heads": 0, "k_dim": 0, "v_dim": 0, "conv_width": 0, "conv_bias": 0, "mix_bias": 0, "state_norm": 0,
    "state_norm_groups": 1, "state_gate": 0, "state_skip": 0, "beta_scale": 1,
    "state_norm_eps": 0, "expert_norms": 0, "router_scale": 0, "kv_from": 0, "v_from_k": 0, "v_norm": 0, "layer_scale": 0,
    "ple_dim": 0, "ple_vocab": 0, "n_streams": 0, "laurel_rank": 0, "ffn_cutoff": -(2.0**100),
    "ple_embed_scale": 1, "ple_in_scale": 1, "ple_scale": 1,
    "state_decay": 0, "decay_rank": 0, "gate_rank": 0, "decay_floor": 0,
    "kv_rank": 0, "q_rank": 0, "nope_dim": 0, "value_dim": 0, "latent_eps": 0, "mtp": 0,
}  # fmt: skip
# Those of them, and others, that are f32.
NUMBERS = {"embed_scale", "residual_scale", "logit_scale", "logit_cap", "attn_cap", "qkv_clip", "ffn_clamp", "ffn_cutoff",
           "router_factor", "attn_scale", "norm_eps", "router_jitter", "beta_scale",
           "state_norm_eps", "ple_embed_scale", "ple_in_scale", "ple_scale", "latent_eps", "decay_floor"}  # fmt: skip
NORM_ATTN, NORM_ATTN_POST, NORM_FFN, NORM_FFN_POST, NORM_OUT, NORM_DOWN = 1, 2, 4, 8, 16, 32
QK_NONE, QK_HEAD, QK_FULL, QK_HEAD_LAYER, QK_SHARED_LAYER = range(5)
SOFTMAX, SOFTMAX_CHOSEN, SIGMOID, SPARSEMIXER, SIGMOID_CHOSEN = range(5)
MIX_ATTENTION, MIX_RECURRENT, MIX_CONVOLUTION = 1, 2, 4
GATE_NONE, GATE_VALUES, GATE_HEADS, GATE_SOFT_VALUES, GATE_SOFT_HEADS = range(5)
RULE_DELTA, RULE_MAMBA2 = range(2)
NORM_NONE, NORM_FIRST, NORM_LAST = range(3)  # of what is read from a state: before its gate, or after it


def feature(config: dict[str, Any], key: str, layer: int) -> Any:
    """The value of a key in a layer, or its default."""
    value = config.get(key, DEFAULTS.get(key))
    return value[layer] if isinstance(value, list) else value


def slots(config: dict[str, Any]) -> Iterator[Slot]:
    """All tensors of a model with these features, in the order of the directory."""
    dim, vocab = config["dim"], config["vocab"]
    yield Slot("embed", vocab, dim)
    if config.get("embed_norm"):
        yield from _norm_slots(config, "embed_norm", dim)
    if config.get("learned_positions"):
        yield Slot("positions", config["max_seq"] * dim, 1, True)
    ple = config["n_layers"] * config.get("ple_dim", 0)
    if ple:
        yield Slot("ple_embed", config.get("ple_vocab") or vocab, ple)
        yield Slot("ple_in", ple, dim)
        yield from _norm_slots(config, "ple_norm", config["ple_dim"])
    for name in ("altup_in", "altup_out") if config.get("n_streams") else ():
        yield Slot(name, dim, dim, matrices=config["n_streams"] - 1)
    for i in range(config["n_layers"] + config.get("mtp", 0)):
        yield from _layer_slots(config, i)
        yield from _layer_end_slots(config, i)
    if config.get("mtp"):
        layer = f"layer.{config['n_layers']}."
        yield Slot(layer + "mtp_in", dim, 2 * dim)
        for name in ("mtp_embed_norm", "mtp_hidden_norm", "mtp_norm"):
            yield from _norm_slots(config, layer + name, dim)
    yield from _norm_slots(config, "final_norm", dim)
    if not config["head_tied"]:
        yield Slot("head", vocab, dim)
    if config.get("head_bias"):
        yield Slot("head_bias", vocab, 1, True)


def _norm_slots(config: dict[str, Any], name: str, n: int) -> Iterator[Slot]:
    yield Slot(name, n, 1, True)
    if config.get("norm_bias"):
        yield Slot(name + "_bias", n, 1, True)


def _layer_end_slots(config: dict[str, Any], i: int) -> Iterator[Slot]:
    """Norms and scales of experts, the layer's part of the embeddings per layer, and its scale."""
    dim, layer, ple = config["dim"], f"layer.{i}.", config.get("ple_dim", 0)
    if feature(config, "expert_norms", i):
        for name in ("router_norm", "expert_norm", "shared_post_norm", "expert_post_norm"):
            yield from _norm_slots(config, layer + name, dim)
    if feature(config, "router_scale", i):
        yield Slot(layer + "router_scale", feature(config, "n_experts", i), 1, True)
    if ple:
        yield Slot(layer + "ple_gate", ple, dim)
        yield Slot(layer + "ple_out", dim, ple)
        yield from _norm_slots(config, layer + "ple_post_norm", dim)
    if feature(config, "layer_scale", i):
        yield Slot(layer + "x_scale", 1, 1, True)
    if n := config.get("n_streams", 0):
        yield Slot(layer + "altup_router", n, dim, exact=True)
        yield from _norm_slots(config, layer + "altup_norm", dim)
        for name, size in (("predict", n**3), ("correct", n * n), ("scale", dim)):
            yield Slot(f"{layer}altup_{name}", size, 1, True)
    if rank := feature(config, "laurel_rank", i):
        yield Slot(layer + "laurel_left", rank, dim)
        yield Slot(layer + "laurel_right", dim, rank)
        yield from _norm_slots(config, layer + "laurel_norm", dim)


def _layer_slots(config: dict[str, Any], i: int) -> Iterator[Slot]:
    def value(key: str) -> Any:
        return feature(config, key, i)

    dim, head_dim, hidden, layer = config["dim"], value("head_dim"), value("hidden"), f"layer.{i}."
    q_rows, k_rows = value("n_heads") * head_dim, value("n_kv_heads") * head_dim
    rows = {"q": q_rows, "k": k_rows, "v": k_rows, "o": dim}
    rows |= {"gate": hidden, "up": hidden, "down": dim}
    ks = {"o": q_rows, "down": hidden}
    experts, shared = value("n_experts"), value("shared_hidden")
    if not value("ffn_gated"):
        del rows["gate"]
    for part in "kv" if value("kv_from") else "v" if value("v_from_k") else "":
        rows.pop(part, None)
    if value("kv_rank"):
        del rows["v"]
        rows["q"] = value("n_heads") * (value("nope_dim") + head_dim - value("kv_rank"))
        ks |= {"q": value("q_rank") or dim, "o": value("n_heads") * value("value_dim")}
    if not value("mixer") & MIX_ATTENTION:
        rows = {part: n for part, n in rows.items() if part in FFN_PARTS}
    if not hidden:
        rows = {part: n for part, n in rows.items() if part not in FFN_PARTS}
    for bit, norm in enumerate(("attn_norm", "attn_post_norm", "ffn_norm", "ffn_post_norm")):
        if value("norms") >> bit & 1:
            yield from _norm_slots(config, layer + norm, dim)
    for bit, norm, n in ((NORM_OUT, "out_norm", q_rows), (NORM_DOWN, "down_norm", hidden)):
        if value("norms") & bit:
            yield from _norm_slots(config, layer + norm, n)
    for part, n in rows.items():
        yield Slot(layer + part, n, ks.get(part, dim), matrices=experts or 1 if part in FFN_PARTS else 1)
    for part, bias in [*zip("qkvo", _bits(value("attn_bias"))), *zip(FFN_PARTS, _bits(value("ffn_bias")))]:
        if bias and part in rows:
            yield Slot(f"{layer}{part}_bias", rows[part] * (experts or 1 if part in FFN_PARTS else 1), 1, True)
    if value("mixer") & MIX_ATTENTION and value("attn_gate"):
        yield Slot(layer + "attn_gate", value("n_heads") if value("attn_gate") in (GATE_HEADS, GATE_SOFT_HEADS) else ks["o"], dim)
    if value("mixer") & MIX_ATTENTION and value("qk_norm"):
        full = value("qk_norm") in (QK_FULL, QK_HEAD_LAYER)
        for part, n in (("q_norm", q_rows), ("k_norm", k_rows))[: 1 if value("kv_from") else 2]:
            yield Slot(layer + part, n if full else head_dim, 1, True)
            if value("qk_norm") == QK_SHARED_LAYER:
                yield Slot(f"{layer}{part}_bias", head_dim, 1, True)
    if value("v_norm"):
        yield Slot(layer + "v_norm", head_dim, 1, True)
    yield from _latent_slots(config, i)
    yield from _mixer_slots(config, i)
    if value("mixer") & MIX_ATTENTION and value("attn_sinks"):
        yield Slot(layer + "sinks", value("n_heads"), 1, True)
    if experts:
        yield Slot(layer + "router", experts, dim, exact=True)
        if value("router_bias"):
            yield Slot(layer + "router_bias", experts, 1, True)
        if value("router_select_bias"):
            yield Slot(layer + "router_select_bias", experts, 1, True)
    if hidden and config["activation"] == "xielu":
        yield Slot(layer + "xielu", 4, 1, True)
    if shared:
        for part in FFN_PARTS if value("ffn_gated") else FFN_PARTS[1:]:
            yield Slot(f"{layer}shared_{part}", *((dim, shared) if part == "down" else (shared, dim)))
    if value("shared_switch"):
        yield Slot(layer + "shared_switch", 1, dim, exact=True)


def _latent_slots(config: dict[str, Any], i: int) -> Iterator[Slot]:
    """What latent attention has beside q, k and o."""
    rank, q_rank, nope, out, heads = (
        feature(config, key, i) for key in ("kv_rank", "q_rank", "nope_dim", "value_dim", "n_heads")
    )
    layer = f"layer.{i}."
    if rank and q_rank:
        yield Slot(layer + "q_down", q_rank, config["dim"])
        yield Slot(layer + "q_down_norm", q_rank, 1, True)
    if rank:
        yield Slot(layer + "k_norm", rank, 1, True)
        yield Slot(layer + "k_up", rank, nope, matrices=heads)
        yield Slot(layer + "v_up", out, rank, matrices=heads)


def _mixer_slots(config: dict[str, Any], i: int) -> Iterator[Slot]:
    """Of a recurrent mixer, or a short convolution."""

    def value(key: str) -> Any:
        return feature(config, key, i)

    dim, layer, heads, bias = config["dim"], f"layer.{i}.", value("v_heads"), _bits(value("mix_bias"))
    recurs, delta = value("mixer") & MIX_RECURRENT, value("recurrence") == RULE_DELTA
    width = heads * value("v_dim") if recurs else dim
    channels = width + (2 * value("k_heads") * value("k_dim") if recurs else 0)
    if value("mixer") <= MIX_ATTENTION:
        return
    matrices, rank = {"in": (channels if recurs else 3 * dim, dim)}, value("gate_rank")
    if recurs:
        matrices |= ({"gate_down": (rank, dim)} if rank else {}) | {"gate": (width, rank or dim)}
    matrices["out"] = (dim, width)
    for part, (rows, k) in matrices.items():
        yield Slot(f"{layer}mix_{part}", rows, k)
    for part, biased in zip(("in", "gate", "out"), bias):
        if biased and part in matrices:
            yield Slot(f"{layer}mix_{part}_bias", matrices[part][0], 1, True)
    yield Slot(layer + "mix_conv", value("conv_width") * channels, 1, True)
    if value("conv_bias"):
        yield Slot(layer + "mix_conv_bias", channels, 1, True)
    if recurs:
        decays, rank = heads * (value("k_dim") if value("state_decay") else 1), value("decay_rank")
        if rank:
            yield Slot(layer + "mix_decay_down", rank, dim, exact=True)
        yield Slot(layer + "mix_decay", decays, rank or dim, exact=rank > 0 or not value("state_decay"))
        yield Slot(layer + "mix_decay_bias", decays, 1, True)
        if delta:
            yield Slot(layer + "mix_beta", heads, dim, exact=True)
        yield Slot(layer + "mix_a", heads, 1, True)
        if value("state_skip"):
            yield Slot(layer + "mix_skip", heads, 1, True)
        if value("state_norm"):
            yield Slot(layer + "mix_norm", value("v_dim") if delta else width, 1, True)


FFN_PARTS = ("gate", "up", "down")


def _bits(mask: int) -> list[int]:
    return [mask >> bit & 1 for bit in range(4)]


def packed_config(config: dict[str, Any]) -> dict[str, Any]:
    """The config as it is stored: a list of equal values becomes one value, and a default is left out."""
    out = {}
    for key, value in config.items():
        if key in (FACTORS, HALVES):
            continue
        if isinstance(value, list) and all(v == value[0] for v in value):
            value = value[0]
        if key not in DEFAULTS or isinstance(value, list) or value != DEFAULTS[key]:
            out[key] = float(value) if key in NUMBERS and not isinstance(value, list) else value
    return out


def in_range(value: int, low: int, high: int, what: str) -> int:
    """The value, or an error that names it."""
    if not low <= value <= high:
        raise ConvertError(f"{what} is {value}; it must be {low} to {high}")
    return value


def check_config(c: dict[str, Any]) -> None:
    """What the engine will demand of the numbers, said before anything is written."""
    in_range(c["n_layers"], 1, MAX_LAYERS, "the number of layers")
    in_range(c["dim"], 1, MAX_WIDTH, "the width of the model")
    in_range(c["vocab"], 1, MAX_VOCAB, "the size of the vocabulary")
    in_range(c["max_seq"], 1, MAX_SEQ, "the number of positions")
    for i in range(c["n_layers"]):
        in_range(c["hidden"][i], 0, MAX_WIDTH, f"the width of the feed-forward step in layer {i}")
        if not feature(c, "mixer", i) & MIX_ATTENTION:
            continue
        heads = in_range(c["n_heads"][i], 1, MAX_HEADS, f"the number of heads in layer {i}")
        kv = in_range(c["n_kv_heads"][i], 1, MAX_HEADS, f"the number of key/value heads in layer {i}")
        if heads % kv:
            raise ConvertError(f"layer {i} has {heads} heads, which {kv} key/value heads do not divide")
        if in_range(c["head_dim"][i], 2, MAX_HEAD_DIM, f"the size of a head in layer {i}") % 2:
            raise ConvertError(f"the size of a head in layer {i} is {c['head_dim'][i]}; RoPE needs an even one")
        in_range(heads * c["head_dim"][i], 1, MAX_WIDTH, f"the width of all heads in layer {i}")
        experts, used = feature(c, "n_experts", i), feature(c, "experts_used", i)
        if used > experts:
            raise ConvertError(f"layer {i} has {experts} experts, of which a token cannot use {used}")
