#!/usr/bin/env python3
"""Makes the golden tests: tests/golden/NAME.txt, the truth that tern's logits are held to.

    tools/golden.py [NAME ...]          writes tests/golden/NAME.txt (all without a name)

Needs torch and transformers (not in requirements.txt: only whoever adds a family runs this). For each family it builds
tiny models whose weights come from the seeded generator of tests/toy.c and ternlib/toy.py, runs transformers (eager
attention, f32) on a seeded prompt, and records config, 32 greedy tokens and some rows of logits. A seed is taken only if
- every greedy choice leads by LEAD bounds, so that rounding cannot turn it;
- transformers in f32 is within half a bound of itself with matrix products in f64: the bound asks for nothing that the
  reference itself lacks;
- each listed quirk, switched off, changes a recorded row by CHANGE bounds: nothing is tested in name only.

To add a family: one entry in FAMILIES, run, commit the file; `make test` finds it by its name.
"""

import argparse
import dataclasses
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import transformers

from ternlib import golden_file, toy

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "golden"
BOUND = 1e-4  # of max|b| in a row
LEAD = 20
CHANGE = 100
GREEDY = 32
SEEDS = 200


@dataclass
class Family:
    """A model and what to switch off in it. A quirk is changes to the config, or a function of (weights, config)."""

    name: str
    model: str  # transformers' prefix: Llama, Mistral, Qwen2
    config: dict
    quirks: dict[str, dict | Callable] = field(default_factory=dict)
    prompt: int = 24
    rows: tuple[int, ...] = (0, 7, 16, 23, 39, 54)


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


def without(part: str) -> Callable:
    """The quirk `part` (a bias): zeros in its place."""
    return lambda weights, _: {
        name: np.zeros_like(w) if name.endswith("." + part) else w for name, w in weights.items()
    }


def rope(theta: float, kind: str = "default", **rest) -> dict:
    return {"rope_theta": theta, "rope_type": kind, **rest}


def config(dim: int, heads: int, kv: int, head_dim: int, hidden: int, theta: dict, **rest) -> dict:
    """The keys that all these families share; two layers, 96 tokens, 1024 positions unless said."""
    keys = dict(hidden_size=dim, num_attention_heads=heads, num_key_value_heads=kv, head_dim=head_dim)
    keys |= dict(intermediate_size=hidden, num_hidden_layers=2, vocab_size=96, max_position_embeddings=1024)
    keys |= dict(rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=theta, bos_token_id=1, eos_token_id=2)
    return keys | rest


LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=512)
BIASES = ("q_bias", "k_bias", "v_bias", "o_bias", "gate_bias", "up_bias", "down_bias")

FAMILIES = [
    Family(
        "llama-mha", "Llama",
        config(48, 3, 3, 16, 80, rope(10000.0), rms_norm_eps=0.05),
        {"eps": {"rms_norm_eps": 1e-5}, "rope order": interleaved, "theta": {"rope_parameters": rope(500000.0)}},
    ),
    Family(
        "llama-gqa", "Llama",
        config(36, 4, 2, 24, 72, rope(10000.0), tie_word_embeddings=True, num_hidden_layers=6),
        {"rope order": interleaved, "head groups": modulo_heads},
    ),
    Family(
        "llama-mqa", "Llama",
        config(40, 5, 1, 80, 72, rope(777.5), vocab_size=91),
        {"rope order": interleaved, "theta": {"rope_parameters": rope(10000.0)}},
    ),
    Family(
        "llama-bias", "Llama",
        config(48, 6, 2, 8, 64, rope(10000.0), attention_bias=True, mlp_bias=True),
        {part: without(part) for part in BIASES if part != "k_bias"}
        | {"k_bias": without("k_bias"), "rope order": interleaved, "head groups": modulo_heads},
    ),
    Family(
        "llama-linear", "Llama",
        config(48, 2, 1, 24, 64, rope(10000.0, "linear", factor=3.5)),
        {"scaling": {"rope_parameters": rope(10000.0)}},
    ),
    Family(
        "llama3", "Llama",
        config(64, 4, 2, 32, 64, rope(10000.0, "llama3", **LLAMA3), max_position_embeddings=8192),
        {"scaling": {"rope_parameters": rope(10000.0)},
         "linear instead": {"rope_parameters": rope(10000.0, "linear", factor=8.0)}},
        prompt=4096, rows=(0, 255, 256, 1023, 3071, 4095, 4126),
    ),
    Family(
        "mistral", "Mistral",
        config(48, 4, 2, 16, 64, rope(10000.0), sliding_window=8),
        {"no window": {"sliding_window": None}, "window 7": {"sliding_window": 7}, "window 9": {"sliding_window": 9}},
    ),
    Family(
        "mistral-long", "Mistral",
        config(48, 4, 1, 16, 64, rope(10000.0), sliding_window=300),
        {"no window": {"sliding_window": None}},
        prompt=600, rows=(0, 256, 299, 300, 301, 599, 630),
    ),
    Family(
        "qwen2", "Qwen2",
        config(32, 4, 2, 12, 64, rope(1000000.0), tie_word_embeddings=True, num_hidden_layers=6,
               use_sliding_window=True, sliding_window=6, max_window_layers=2),
        {part: without(part) for part in BIASES[:3]}
        | {"no window": {"use_sliding_window": False}, "window everywhere": {"max_window_layers": 0}},
    ),
]


def build_config(family: Family, changes: dict | None = None):
    """transformers' config object; head_dim is a plain attribute where the class lacks the key."""
    made = getattr(transformers, family.model + "Config")(**(family.config | (changes or {})))
    made.head_dim = family.config["head_dim"]
    made._attn_implementation = "eager"
    return made


def build_model(family: Family, made, weights: dict, dtype=torch.float32):
    """The model in transformers with `weights` in the names of FORMAT.md."""
    model = getattr(transformers, family.model + "ForCausalLM")(made).to(dtype).eval()
    state = {golden_file.hugging_face_name(n): torch.tensor(w, dtype=dtype) for n, w in weights.items()}
    if made.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)
    return model


@torch.no_grad()
def run(model, ids: list[int]) -> np.ndarray:
    """Logits [len(ids), vocab] of one full pass."""
    return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


@torch.no_grad()
def continue_greedily(model, ids: list[int]) -> list[int]:
    """The next GREEDY tokens, with the reference's cache."""
    cache, feed, out = None, torch.tensor([ids]), []
    for _ in range(GREEDY):
        step = model(feed, past_key_values=cache, use_cache=True)
        cache = step.past_key_values
        out.append(int(step.logits[0, -1].argmax()))
        feed = torch.tensor([[out[-1]]])
    return out


def inverse_frequencies(made) -> np.ndarray:
    """Of RoPE, in binary64, rounded once (the converter has its own; this one checks it)."""
    p, dim = made.rope_parameters, made.head_dim
    freq = [p["rope_theta"] ** (-2.0 * i / dim) for i in range(dim // 2)]
    if p["rope_type"] == "linear":
        freq = [f / p["factor"] for f in freq]
    if p["rope_type"] == "llama3":
        low, high, length = p["low_freq_factor"], p["high_freq_factor"], p["original_max_position_embeddings"]
        for i, f in enumerate(freq):
            turns = length * f / (2 * math.pi)
            smooth = min(max((turns - low) / (high - low), 0.0), 1.0)
            freq[i] = (1 - smooth) * f / p["factor"] + smooth * f
    return np.array(freq, np.float64).astype(np.float32)


def features(family: Family, made) -> dict:
    """The model in the words of FORMAT.md."""
    n = made.num_hidden_layers
    kinds = getattr(made, "layer_types", None)
    window = getattr(made, "sliding_window", None) or 0
    windows = [0 if kinds and kinds[i] == "full_attention" else window for i in range(n)]
    qkv = 7 if family.model == "Qwen2" else 15 * bool(getattr(made, "attention_bias", False))
    return {
        "n_layers": n,
        "dim": made.hidden_size,
        "vocab": made.vocab_size,
        "max_seq": made.max_position_embeddings,
        "norm_eps": np.float32([made.rms_norm_eps]),
        "head_tied": made.tie_word_embeddings,
        "n_heads": made.num_attention_heads,
        "n_kv_heads": made.num_key_value_heads,
        "head_dim": made.head_dim,
        "hidden": made.intermediate_size,
        "window": windows,
        "attn_bias": qkv,
        "ffn_bias": 7 * bool(getattr(made, "mlp_bias", False)),
        "inv_freq": inverse_frequencies(made),
    }


def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Per row: max|a - b| in bounds of b."""
    return np.abs(a.astype(np.float64) - b).max(-1) / (BOUND * np.abs(b).max(-1))


def refusal(family: Family, weights: dict, ids: list[int], logits: np.ndarray) -> tuple[str, dict]:
    """Why this seed will not do ("" if it will), and what each quirk is worth."""
    chosen = logits[family.prompt - 1 : family.prompt + GREEDY - 1]
    best = np.sort(chosen, -1)[:, -2:]
    lead = ((best[:, 1] - best[:, 0]) / (BOUND * np.abs(chosen).max(-1))).min()
    if lead < LEAD:
        return f"a greedy choice leads by {lead:.1f} bounds", {}
    if len(set(ids[family.prompt :])) < GREEDY // 4:
        return "the continuation repeats itself", {}
    exact = run(build_model(family, build_config(family), weights, torch.float64), ids[:-1])
    error = distance(logits, exact)[list(family.rows)].max()
    if error > 0.5:
        return f"the reference itself is off by {error:.2f} bounds", {}
    worth = {}
    for name, quirk in family.quirks.items():
        made = build_config(family, quirk if isinstance(quirk, dict) else None)
        other = weights if isinstance(quirk, dict) else quirk(weights, made)
        worth[name] = distance(run(build_model(family, made, other), ids[:-1]), logits)[list(family.rows)].max()
        if worth[name] < CHANGE:
            return f"without {name} the logits change by {worth[name]:.0f} bounds only", {}
    return "", worth


def make(family: Family, say: Callable[[str], None]) -> golden_file.Golden:
    """The golden test of the first seed that will do."""
    made = build_config(family)
    shape = features(family, made)
    for seed in range(1, SEEDS):
        weights = toy.weights(shape, seed)
        model = build_model(family, made, weights)
        prompt = golden_file.prompt_ids(seed, family.prompt, made.vocab_size)
        greedy = continue_greedily(model, prompt)
        ids = prompt + greedy
        logits = run(model, ids[:-1])
        if logits[family.prompt - 1 :].argmax(-1).tolist() != greedy:
            say(f"{family.name}: seed {seed}: with and without cache differ")
            continue
        why, worth = refusal(family, weights, ids, logits)
        say(f"{family.name}: seed {seed}: {why or 'taken, ' + ', '.join(f'{n} {w:.0f}' for n, w in worth.items())}")
        if not why:
            rows = {at: logits[at] for at in family.rows}
            versions = f"transformers {transformers.__version__} torch {torch.__version__}"
            return golden_file.Golden(
                family.name, versions, config_json(family, made), shape, seed, seed, family.prompt, greedy, worth, rows
            )
    raise SystemExit(f"{family.name}: no seed below {SEEDS} will do")


def config_json(family: Family, made) -> dict:
    """config.json as transformers saves it beside the weights of such a model."""
    saved = made.to_diff_dict()
    return saved | {"architectures": [family.model + "ForCausalLM"], "dtype": "float32"}


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes the golden tests with transformers.")
    parser.add_argument("names", nargs="*", help="families (default: all)")
    names = parser.parse_args().names
    known = {family.name: family for family in FAMILIES}
    for name in names:
        if name not in known:
            parser.error(f"no family {name}; known: {', '.join(known)}")
    torch.manual_seed(0)
    FOLDER.mkdir(exist_ok=True)
    for name in names or known:
        golden = make(known[name], lambda line: print(line, file=sys.stderr))
        golden.write(FOLDER / f"{name}.txt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
