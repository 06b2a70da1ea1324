"""A model with another number of KV heads, and what that costs. In: a weights file. Out: a weights file; rows of cache size,
speed and perplexity; a figure of them.

Fewer KV heads: the mean of those that become one (Ainslie et al. 2023, "GQA", section 2.1). More: each is repeated, and the
model stays the same.
"""

import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import plot, programs
from .errors import IO, USAGE, ConvertError
from .weights import keys, reader, tiles, writer

QK_FULL, QK_HEAD_LAYER = 2, 3  # kinds of norm whose weights [n_kv_heads * head_dim] belong to single heads
SECTIONS = ("tensors", "seal", "unsealed")  # that the writer makes anew
WHOLE = (tiles.BY_NAME["f32"], tiles.BY_NAME["f16"], tiles.BY_NAME["bf16"])


def pool(x: np.ndarray, old: int, new: int) -> np.ndarray:
    """Rows [old * d, k] of KV heads as [new * d, k]: means of neighbours, or copies."""
    heads = x.reshape(old, -1, x.shape[-1])
    if new > old:
        heads = np.repeat(heads, new // old, 0)
    else:
        heads = heads.reshape(new, old // new, *heads.shape[1:]).mean(1, dtype=np.float64)
    return np.ascontiguousarray(heads.reshape(-1, x.shape[-1]), np.float32)


def check(file: reader.WeightsFile, kv_heads: int) -> None:
    for heads, old in zip(file.per_layer("n_heads"), file.per_layer("n_kv_heads"), strict=True):
        if kv_heads < 1 or heads % kv_heads or (old % kv_heads and kv_heads % old):
            raise ConvertError(f"{kv_heads} KV heads cannot be made of {old} for {heads} heads: want a divisor or a multiple", USAGE)


def changed(file: reader.WeightsFile) -> set[str]:
    """Names of the tensors whose rows are those of KV heads."""
    parts, norms = ("k", "v", "k_bias", "v_bias"), file.per_layer("qk_norm") if "qk_norm" in file.config else []
    names = {f"layer.{i}.{part}" for i in range(file.config["n_layers"]) for part in parts}
    names |= {f"layer.{i}.k_norm" for i, kind in enumerate(norms) if kind in (QK_FULL, QK_HEAD_LAYER)}
    return names & set(file.tensors)


def entry(file: reader.WeightsFile, name: str, kv_heads: int | None) -> writer.Tensor:
    """A tensor as it is, or regrouped: f32 where its type is a quantized one."""
    t = file.tensors[name]
    if kv_heads is None:
        return writer.Tensor(name, t["kind"], t["rows"], t["k"], lambda: iter([np.frombuffer(file.raw(name), "u1")]), t["matrices"])
    old = file.per_layer("n_kv_heads")[int(name.split(".")[1])]
    kind = t["kind"] if t["kind"] in WHOLE else tiles.BY_NAME["f32"]
    rows = pool(file.values(name), old, kv_heads)
    return writer.Tensor(name, kind, len(rows), t["k"], lambda: iter([tiles.tile(kind, tiles.bits(kind, rows))]))


def regroup(model: Path, out: Path, kv_heads: int) -> None:
    """Writes the model with `kv_heads` KV heads in every layer; ./quantize brings its type back where that was a smaller one."""
    file = reader.WeightsFile(model)
    check(file, kv_heads)
    mine = changed(file)
    sections = {tag: body for tag, body in file.sections.items() if tag not in SECTIONS}
    sections["config"] = keys.pack({**file.config, "n_kv_heads": kv_heads})
    sections["seal"] = writer.blank_seal()
    temp = out.with_name(out.name + ".tmp")
    small = next((tiles.TYPES[file.tensors[n]["kind"]].name for n in mine if file.tensors[n]["kind"] not in WHOLE), None)
    try:
        with open(temp, "w+b") as f:
            writer.write(f, sections, [entry(file, name, kv_heads if name in mine else None) for name in file.tensors])
        with open(temp, "r+b") as f:
            value = programs.call([programs.ROOT / "run", temp, "--seal-value"], "./run --seal-value on the regrouped file")
            writer.patch_seal(f, int(value.strip(), 16))
        if small:
            programs.call([programs.ROOT / "quantize", temp, out, small, "-q"], "./quantize")
        else:
            os.replace(temp, out)
    except OSError as e:
        raise ConvertError(f"{e.filename or out}: {e.strerror}", IO) from e
    finally:
        temp.unlink(missing_ok=True)


def heal(model: Path, work: Path, steps: int) -> None:
    """Trains the file on the encoded splits of `work` with tools/train.py, and puts what comes out in its place."""
    script = [sys.executable, programs.ROOT / "tools" / "train.py"]
    with tempfile.TemporaryDirectory(prefix="tern-heal-") as name:
        folder = Path(name)
        for split in [*work.glob("*.npz"), work / "tokenizer.json"]:
            (folder / split.name).symlink_to(split.resolve())
        how = ["--steps", steps, "--decay-from", steps // 2, "--no-compile", "--from-file", model]
        programs.call([*script, "train", "--work", folder, *how], "tools/train.py train")
        programs.call([*script, "export", "--work", folder, "--out", folder / "hf"], "tools/train.py export")
        convert = [sys.executable, programs.ROOT / "tools" / "convert.py", folder / "hf", folder / "healed.bin"]
        kind = tiles.TYPES[next(t["kind"] for n, t in reader.WeightsFile(model).tensors.items() if n.endswith(".q"))].name
        programs.call([*convert, "--type", kind], "tools/convert.py")
        shutil.copyfile(folder / "healed.bin", model)


@dataclass(frozen=True)
class Row:
    """What a number of KV heads costs and gives."""

    kv_heads: int
    cache: int  # bytes of a position, f16
    speed: float  # tokens per second at the depth
    perplexity: float


def cache_bytes(file: reader.WeightsFile) -> int:
    layers = zip(file.per_layer("n_kv_heads"), file.per_layer("head_dim"), strict=True)
    return sum(2 * 2 * int(n) * int(d) for n, d in layers)


def measure(model: Path, kv_heads: int, text: Path, depth: int) -> Row:
    said = programs.call([programs.ROOT / "run", model, "--perplexity", text], "./run --perplexity")
    perplexity = next(float(line.split()[1]) for line in said.splitlines() if line.startswith("perplexity"))
    bench = [programs.ROOT / "bench", model, "-p", 0, "-n", 16, "-r", 3, "-d", depth, "--no-limits", "-o", "json"]
    speed = json.loads(programs.call(bench, "./bench"))[0]["median_ts"]
    return Row(kv_heads, cache_bytes(reader.WeightsFile(model)), speed, perplexity)


def table(rows: list[Row], depth: int) -> str:
    lines = [f"{'KV heads':>8} {'cache bytes':>12} {f'tokens/s @ d{depth}':>20} {'perplexity':>12}"]
    lines += [f"{r.kv_heads:>8} {r.cache:>12,} {r.speed:>20.2f} {r.perplexity:>12.4f}" for r in rows]
    return "\n".join(lines)


def draw(rows: list[Row], depth: int, title: str):
    """Cache size, and speed at depth, against perplexity"""
    figure, axes = plot.load_pyplot().subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    charts = ((lambda r: r.cache, "bytes of cache for a position (f16)"), (lambda r: r.speed, f"tokens per second at depth {depth}"))
    for ax, (value, name) in zip(axes, charts, strict=True):
        ax.plot([value(r) for r in rows], [r.perplexity for r in rows], color=plot.COLOURS[0], marker="o", linewidth=1.6)
        for r in rows:
            ax.annotate(f"{r.kv_heads} KV", (value(r), r.perplexity), xytext=(6, 4), textcoords="offset points", fontsize=9)
        ax.set_xlabel(name)
        ax.set_ylabel("perplexity")
        ax.margins(0.15)
        ax.grid(color="#dddddd", linewidth=0.8)
        ax.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=13, fontweight="bold", x=0.01, ha="left")
    return figure
