"""How fast a model will run on this machine, found by running one like it: the first layers, with random weights.

In:  the config and tensors of a model, in the types of its file. Out: tokens per second. The layers are as many as make a token
read BYTES of weights, which no cache holds, or all; the time is then scaled to the whole model by what must be read or multiplied.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .. import programs
from ..library import Engine
from ..weights import keys, tiles, writer
from .families.features import FACTORS, feature, packed_config, slots

BYTES = 1 << 29  # of weights that a token of the rehearsal reads, so that they come from memory
FILE_BYTES = 2 << 30  # of the rehearsed model, at most, and a quarter of the memory that is free
NOISE_BYTES = 1 << 20  # random tiles of each type and width, written again and again
TOKENS, LEAST, SECONDS = 128, 8, 0.4  # single tokens: of a text; that are measured at least; how long they go on
PROMPT = 512
NOT_LAYERS = ("alibi", "q_scales")  # lists, but not of a value for each layer
TABLES = ("embed", "ple_embed", "positions")  # a token reads one row


def cut(config: dict[str, Any], n: int) -> dict[str, Any]:
    """The model of the first n layers."""
    out = {k: v for k, v in config.items() if k not in ("mtp", FACTORS)}
    for key, value in out.items():
        if isinstance(value, list) and not key.startswith("rope.") and key not in NOT_LAYERS:
            out[key] = value[:n]
    return out | {"n_layers": n}


def read(config: dict[str, Any], t: writer.Tensor) -> float:
    """Bytes of a tensor that a token reads."""
    layer = int(t.name.split(".")[1]) if t.name.startswith("layer.") else -1
    if t.matrices > 1 and (n := feature(config, "n_experts", layer)):
        return t.size * feature(config, "experts_used", layer) / n
    return t.size if t.name not in TABLES or t.name == "embed" and config["head_tied"] else 0


def rehearsed(config: dict[str, Any], entries: list[writer.Tensor], room: int) -> tuple[dict[str, Any], list[writer.Tensor]]:
    """The config and tensors of the model that is run: as few layers as read BYTES, as many as `room` holds, at least one."""
    kinds = {t.name: t.kind for t in entries}
    for n in range(1, config["n_layers"] + 1):
        small = cut(config, n)
        made = [writer.Tensor(s.name, kinds[s.name], s.rows, s.k, lambda: iter(()), s.matrices) for s in slots(small)]
        if n > 1 and sum(t.size for t in made) > room:
            break
        best = small, made
        if sum(read(small, t) for t in made) >= BYTES:
            break
    return best


def noise(t: writer.Tensor) -> bytes:
    """Some random tiles of a tensor; a dot with a row keeps the size of its input."""
    if t.k == 1:
        return np.ones(t.size // 4, "<f4").tobytes()
    rows = max(NOISE_BYTES // tiles.tensor_bytes(t.kind, 1, t.k), 1) * tiles.TILE_ROWS
    random = np.random.default_rng(1)
    if t.kind <= tiles.BF16:
        x = random.standard_normal((rows, t.k), np.float32) / np.float32(t.k**0.5)
        return tiles.tile(t.kind, tiles.bits(t.kind, x)).tobytes()
    groups = -(-t.k // tiles.GROUP)
    table = np.linspace(-127, 127, tiles.CODES).astype(np.int8)
    low, high, largest = {tiles.Q8: (-127, 128, 127), tiles.Q4: (-8, 8, 8), tiles.Q4C: (0, 16, 127)}[t.kind]
    q = random.integers(low, high, (rows, groups, tiles.GROUP)).astype(np.uint8 if low == 0 else np.int8)
    scales = np.full((rows, groups), 1.7 / largest / t.k**0.5, "<f2").view("<u2")
    return tiles.tile(t.kind, (q, scales, np.tile(table, (rows, 1))) if low == 0 else (q, scales)).tobytes()


@contextmanager
def memory_file() -> Iterator[tuple[Any, Path]]:
    """A file in memory where the system has such, and its path."""
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile() as f:
            yield f, Path(f.name)
        return
    with os.fdopen(os.memfd_create("rehearsal"), "w+b") as f:
        yield f, Path(f"/proc/self/fd/{f.fileno()}")


def write(f: Any, config: dict[str, Any], made: list[writer.Tensor]) -> None:
    """A weights file of random weights; tables are holes beyond their first rows."""
    bodies = {"config": keys.pack(packed_config(config))}
    writer.outline(f, bodies, made)
    ready: dict[tuple, bytes] = {}
    for t, at in zip(made, writer.layout(writer.header_bytes(bodies, made), made)[0]):
        block = ready.setdefault((t.kind, t.k, t.size if t.k == 1 else 0), noise(t))
        end = at + (t.size if read(config, t) else min(t.size, len(block)))
        f.seek(at)
        for here in range(at, end, len(block)):
            f.write(block[: end - here])
    f.flush()


def step(engine: Engine, tokens: list[int]) -> float:
    """Seconds of one batch, with the logits of its last row."""
    for i, token in enumerate(tokens):
        engine.add(token, int(i == len(tokens) - 1))
    start = time.perf_counter()
    engine.lib.tern_forward(engine.context)
    return time.perf_counter() - start


def prompt_seconds(engine: Engine, tokens: list[int]) -> float:
    """Of a prompt in one batch, the second time: the memory of so large a batch was new at first."""
    for _ in range(2):
        engine.lib.tern_seq_keep(engine.context, 0, 0)
        seconds = step(engine, tokens)
    return seconds


def token_seconds(engine: Engine, tokens: list[int]) -> float:
    """Of a single token on average, of texts of so many."""
    seconds: list[float] = []
    start = time.perf_counter()
    while len(seconds) < LEAST or time.perf_counter() - start < SECONDS:
        if len(seconds) % len(tokens) == 0:
            engine.lib.tern_seq_keep(engine.context, 0, 0)
        seconds.append(step(engine, [tokens[len(seconds) % len(tokens)]]))
    return statistics.fmean(seconds)


def speed(config: dict[str, Any], entries: list[writer.Tensor], whole: Engine) -> tuple[float, float]:
    """Tokens per second of the model, one by one and of a prompt of 512. `whole` has it as an outline."""
    small, made = rehearsed(config, entries, min(FILE_BYTES, whole.memory().available // 4))
    prompt = min(PROMPT, whole.memory().n_ctx)
    tokens = [(i * 7919 + 13) % config["vocab"] for i in range(prompt)]
    with memory_file() as (f, path):
        write(f, small, made)
        with Engine(programs.library(), path, prompt, n_batch=prompt, cache_type="f16") as engine:
            one, many = ((whole.cost(n), engine.cost(n)) for n in (1, prompt))
            together = prompt_seconds(engine, tokens)
            alone = token_seconds(engine, tokens[:TOKENS])  # the weights are in memory now
    macs = [c.matmul_macs + c.attention_macs for c in many]
    return one[1].weight_bytes / one[0].weight_bytes / alone, prompt * macs[1] / macs[0] / together
