"""What a model of the golden tests is, and the quirks that several of them switch off."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

GREEDY = 32  # tokens of a golden continuation


@dataclass
class Family:
    """A model and what to switch off in it. A quirk is changes to the config, or a function of (weights, config)."""

    name: str
    model: str  # transformers' prefix: Llama, Mistral, Qwen2; its config class is of that name
    config: dict
    quirks: dict[str, dict | Callable] = field(default_factory=dict)
    prompt: int = 24
    rows: tuple[int, ...] = (0, 7, 16, 23, 39, 54)
    grows: bool = False  # the text outgrows a limit, beyond which all of it is evaluated otherwise
    length: int = 0  # tokens of a longer text that the model has seen before, where that matters
    counts: bool = True  # the reference counts positions by its cache; False: they are given
    distinct: int = GREEDY // 4  # tokens that the continuation must have; a tied head after a scaled embedding repeats


def interleaved(weights: dict, config) -> dict:
    """What an engine gets that turns neighbouring dimensions: rows of q and k in the other order."""
    out, half = dict(weights), config.head_dim // 2
    order = np.arange(config.head_dim).reshape(2, half).T.ravel()
    for name, w in weights.items():
        if name.split(".")[-1] in ("q", "k", "q_bias", "k_bias"):
            out[name] = w.reshape(-1, config.head_dim, *w.shape[1:])[:, order].reshape(w.shape)
    return out


def modulo_heads(weights: dict, config) -> dict:
    """What an engine gets that gives query head h the key/value head h % n_kv instead of h / group."""
    out, n, n_kv, dim = dict(weights), config.num_attention_heads, config.num_key_value_heads, config.head_dim
    order = np.arange(n).reshape(n // n_kv, n_kv).T.ravel()
    for name, w in weights.items():
        part = name.split(".")[-1]
        if part in ("q", "q_bias"):
            out[name] = w.reshape(n, dim, *w.shape[1:])[order].reshape(w.shape)
        if part == "o":
            out[name] = w.reshape(-1, n, dim)[:, order].reshape(w.shape)
    return out


def without(part: str, value: float = 0) -> Callable:
    """The quirk `part` (a bias, or the weights of a norm with `value` 1): the same number everywhere in its place."""
    return lambda weights, _: {
        name: np.full_like(w, value) if name.split(".")[-1] == part else w for name, w in weights.items()
    }


def times(part: str, factor) -> Callable:
    """What an engine gets that leaves out the factor that is folded into the weights of a part."""
    return lambda weights, _: {
        name: w / np.float32(factor) if name.split(".")[-1] == part else w for name, w in weights.items()
    }


def reversed_taps(weights: dict, config) -> dict:
    """What an engine gets that gives the oldest input the newest one's weight."""
    width = next(getattr(config, key) for key in ("conv_L_cache", "mamba_d_conv", "linear_conv_kernel_dim") if hasattr(config, key))
    return {
        name: w.reshape(width, -1)[::-1].ravel() if name.endswith("mix_conv") else w for name, w in weights.items()
    }


def one_decay(weights: dict, config) -> dict:
    """What an engine gets that lets all rows of a state decay alike: by its first number."""
    d = config.linear_head_dim
    return {
        name: np.repeat(w.reshape(-1, d, w.size // w.shape[0])[:, :1], d, 1).reshape(w.shape)
        if name.endswith(("mix_decay", "mix_decay_bias")) else w
        for name, w in weights.items()
    }  # fmt: skip


def rolled(part: str) -> Callable:
    """What an engine gets that gives a head the matrix of another."""
    return lambda weights, config: {name: np.roll(w, 1, 0) if name.endswith("." + part) else w for name, w in weights.items()}


def turned_latent(weights: dict, config) -> dict:
    """What an engine gets that turns the dimensions of a key and of each query in the other order."""
    rotary = config.qk_rope_head_dim
    order = np.concatenate([np.arange(0, rotary, 2), np.arange(1, rotary, 2)])

    def turn(w: np.ndarray, step: int) -> np.ndarray:
        heads = w.reshape(-1, step, w.shape[-1]).copy()
        heads[:, step - rotary :] = heads[:, step - rotary :][:, order]
        return heads.reshape(w.shape)

    steps = {"q": config.qk_nope_head_dim + rotary, "k": config.kv_lora_rank + rotary}
    return {name: turn(w, steps[name.split(".")[-1]]) if name.split(".")[-1] in steps else w for name, w in weights.items()}


def swapped_gates(weights: dict, config) -> dict:
    """What an engine gets that reads C where B is."""
    dim = config.hidden_size
    return {
        name: np.concatenate([w[dim : 2 * dim], w[:dim], w[2 * dim :]]) if name.endswith("mix_in") else w
        for name, w in weights.items()
    }


def swapped_gate_heads(weights: dict, config) -> dict:
    """What an engine gets that gives a state the gate of another head."""
    return {name: np.roll(w, config.linear_value_head_dim, 0) if name.endswith("mix_gate") else w for name, w in weights.items()}


def other_group(weights: dict, config) -> dict:
    """What an engine gets that lets a head read C of another group."""
    n = config.mamba_n_groups * config.mamba_d_state
    return {
        name: np.concatenate([np.roll(w[:n], config.mamba_d_state, 0), w[n:]]) if name.endswith("mix_in") else w
        for name, w in weights.items()
    }


def rope(theta: float, kind: str = "default", **rest) -> dict:
    return {"rope_theta": theta, "rope_type": kind, **rest}


def config(dim: int, heads: int, kv: int, head_dim: int, hidden: int, theta: dict, **rest) -> dict:
    """The keys that all these families share; two layers, 96 tokens, 1024 positions unless said."""
    keys = dict(hidden_size=dim, num_attention_heads=heads, num_key_value_heads=kv, head_dim=head_dim)
    keys |= dict(intermediate_size=hidden, num_hidden_layers=2, vocab_size=96, max_position_embeddings=1024)
    keys |= dict(rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=theta, bos_token_id=1, eos_token_id=2)
    keys |= {"pad_token_id": 0} | rest
    return {key: value for key, value in keys.items() if key not in ("rms_norm_eps", "head_dim", "intermediate_size") or value is not None}
