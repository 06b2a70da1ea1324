"""A model with another number of KV heads, and what that costs. In: a weights file. Out: a weights file; rows of cache size,
speed and perplexity; a figure of them.

Fewer KV heads: the mean of those that become one (Ainslie et al. 2023, "GQA", section 2.1). More: each is repeated, and the
model stays the same.
"""

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import plot, programs
from .errors import IO, USAGE, ConvertError, reading
from .weights import keys, reader, tiles, writer

QK_FULL, QK_HEAD_LAYER = 2, 3  # kinds of norm whose weights [n_kv_heads * head_dim] belong to single heads
SECTIONS = ("tensors", "seal", "unsealed")  # that the writer makes anew
SEPARATOR = "\n<|endoftext|>\n"  # between the documents of a text, as tools/train.py writes them
BATCH, RATE = 16, 1e-3  # of healing: rows of a step; a third of the rate that the model was trained with
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
    if not {"n_heads", "n_kv_heads"} <= set(file.config):
        raise ConvertError(f"{file.path}: the model has no KV heads that could be regrouped")
    for heads, old in zip(file.per_layer("n_heads"), file.per_layer("n_kv_heads"), strict=True):
        if kv_heads < 1 or heads % kv_heads or (old % kv_heads and kv_heads % old):
            raise ConvertError(f"{kv_heads} KV heads cannot be made of {old} for {heads} heads: want a divisor or a multiple", USAGE)


def changed(file: reader.WeightsFile) -> set[str]:
    """Names of the tensors whose rows are those of KV heads."""
    parts, norms = ("k", "v", "k_bias", "v_bias"), file.per_layer("qk_norm") if "qk_norm" in file.config else []
    names = {f"layer.{i}.{part}" for i in range(file.config["n_layers"]) for part in parts}
    names |= {f"layer.{i}.k_norm" for i, kind in enumerate(norms) if kind in (QK_FULL, QK_HEAD_LAYER)}
    return names & set(file.tensors)


def entry(file: reader.WeightsFile, name: str, rows: np.ndarray | None) -> writer.Tensor:
    """A tensor as it is, or with these rows: f32 where its type is a quantized one."""
    t = file.tensors[name]
    if rows is None:
        return writer.Tensor(name, t["kind"], t["rows"], t["k"], lambda: iter([np.frombuffer(file.raw(name), "u1")]), t["matrices"])
    kind = t["kind"] if t["kind"] in WHOLE else tiles.BY_NAME["f32"]
    return writer.Tensor(name, kind, len(rows), t["k"], lambda: iter([tiles.tile(kind, tiles.bits(kind, rows))]))


def rewrite(file: reader.WeightsFile, out: Path, config: dict, values: dict[str, np.ndarray]) -> None:
    """Writes the file with other keys and with `values` [rows, k] of some tensors; ./quantize brings a smaller type back."""
    sections = {tag: body for tag, body in file.sections.items() if tag not in SECTIONS}
    sections["config"] = keys.pack({**file.config, **config})
    sections["seal"] = writer.blank_seal()
    temp = out.with_name(out.name + ".tmp")
    small = next((tiles.TYPES[file.tensors[n]["kind"]].name for n in values if file.tensors[n]["kind"] not in WHOLE), None)
    try:
        with open(temp, "w+b") as f:
            writer.write(f, sections, [entry(file, name, values.get(name)) for name in file.tensors])
        with open(temp, "r+b") as f:
            value = programs.call([programs.ROOT / "run", temp, "--seal-value"], "./run --seal-value on the new file")
            writer.patch_seal(f, int(value.strip(), 16))
        if small:
            programs.call([programs.ROOT / "quantize", temp, out, small, "-q"], "./quantize")
        else:
            os.replace(temp, out)
    except OSError as e:
        raise ConvertError(f"{e.filename or out}: {e.strerror}", IO) from e
    finally:
        temp.unlink(missing_ok=True)


def regroup(model: Path, out: Path, kv_heads: int) -> bool:
    """Writes the model with `kv_heads` KV heads in every layer. Returns whether those are fewer than before, somewhere."""
    file = reader.WeightsFile(model)
    check(file, kv_heads)
    old = file.per_layer("n_kv_heads")
    pooled = {name: pool(file.values(name), old[int(name.split(".")[1])], kv_heads) for name in changed(file)}
    rewrite(file, out, {"n_kv_heads": kv_heads}, pooled)
    return max(old) > kv_heads


def encode(model: Path, text: Path, folder: Path) -> int:
    """Writes the documents of a text as the splits that tools/train.py reads; the last one, or the last tenth, is held out.
    Returns how many tokens there are to train on."""
    with reading(str(text)):
        documents, ids = text.read_text(encoding="utf8").split(SEPARATOR), []
    first = [int(x) for x in reader.WeightsFile(model).keys("tokenizer").get("add.before", [])]  # BOS, mostly
    for i, document in enumerate(documents):
        one = folder / f"{i}.txt"
        one.write_text(document, encoding="utf8")
        ids.append(first + [int(x) for x in programs.call([programs.ROOT / "run", model, "-f", one, "--tokenize"], "./run --tokenize").split()])
    if len(ids) == 1:
        cut = len(ids[0]) * 9 // 10
        ids = [ids[0][:cut], ids[0][cut:]]
    for name, split in (("stories", ids[:-1]), ("valid", ids[-1:])):
        np.savez(folder / f"{name}.npz", ids=np.concatenate(split).astype(np.uint32), lengths=[len(x) for x in split])
    return sum(map(len, ids[:-1]))


def heal(model: Path, texts: Path, steps: int) -> None:
    """Trains the file with tools/train.py on a text, or on the encoded splits of a folder, and puts the new weights in its place."""
    file = reader.WeightsFile(model)
    train = [sys.executable, programs.ROOT / "tools" / "train.py", "train", "--no-compile", "--from-file", model]
    with tempfile.TemporaryDirectory(prefix="tern-heal-") as name:
        folder, how = Path(name), []
        if texts.is_dir():
            for split in texts.glob("*.npz"):
                (folder / split.name).symlink_to(split.resolve())
        else:
            seq = min(256, file.config["max_seq"], encode(model, texts, folder) - 2)
            if seq < 16:
                raise ConvertError(f"{texts}: too short to train on", USAGE)
            how = ["--mix", "stories=1", "--seq", seq, "--batch", BATCH * seq, "--micro-batch", BATCH]
        how += ["--steps", steps, "--decay-from", steps // 2, "--warmup", max(1, steps // 10), "--lr", RATE]
        programs.call([*train, "--work", folder, *how], "tools/train.py train")
        from .training.train import trained_values  # needs PyTorch, as tools/train.py does

        trained = trained_values(folder, file.tensors)
    rewrite(file, model, {}, {name: x.reshape(len(x), -1) for name, x in trained.items()})


@dataclass(frozen=True)
class Row:
    """What a number of KV heads costs and gives."""

    kv_heads: int
    cache: int  # bytes of a position, f16
    speed: float  # tokens per second at the depth
    perplexity: float
    unhealed: float | None  # perplexity before it was trained; None: it was not


def cache_bytes(file: reader.WeightsFile) -> int:
    layers = zip(file.per_layer("n_kv_heads"), file.per_layer("head_dim"), strict=True)
    return sum(2 * 2 * int(n) * int(d) for n, d in layers)


def perplexity(model: Path, text: Path) -> float:
    said = programs.call([programs.ROOT / "run", model, "--perplexity", text], "./run --perplexity")
    return next(float(line.split()[1]) for line in said.splitlines() if line.startswith("perplexity"))


def measure(model: Path, kv_heads: int, text: Path, depth: int, unhealed: float | None = None) -> Row:
    bench = [programs.ROOT / "bench", model, "-p", 0, "-n", 16, "-r", 3, "-d", depth, "--no-limits", "-o", "json"]
    speed = json.loads(programs.call(bench, "./bench"))[0]["median_ts"]
    return Row(kv_heads, cache_bytes(reader.WeightsFile(model)), speed, perplexity(model, text), unhealed)


def table(rows: list[Row], depth: int) -> str:
    healed = any(r.unhealed is not None for r in rows)
    lines = [f"{'KV heads':>8} {'cache bytes':>12} {f'tokens/s @ d{depth}':>20} {'perplexity':>12}" + healed * f" {'not healed':>12}"]
    for r in rows:
        before = "" if r.unhealed is None else f" {r.unhealed:>12.4f}"
        lines.append(f"{r.kv_heads:>8} {r.cache:>12,} {r.speed:>20.2f} {r.perplexity:>12.4f}{before}")
    return "\n".join(lines)


def draw(rows: list[Row], depth: int, title: str):
    """Cache size, and speed at depth, against perplexity; hollow: before healing"""
    figure, axes = plot.load_pyplot().subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    charts = ((lambda r: r.cache, "bytes of cache for a position (f16)"), (lambda r: r.speed, f"tokens per second at depth {depth}"))
    before = [r for r in rows if r.unhealed is not None]
    for ax, (value, name) in zip(axes, charts, strict=True):
        ax.plot([value(r) for r in rows], [r.perplexity for r in rows], color=plot.COLOURS[0], marker="o", linewidth=1.6)
        if before:
            ax.plot([value(r) for r in before], [r.unhealed for r in before], color=plot.COLOURS[1], marker="o", fillstyle="none", linestyle="")
        for r in rows:
            ax.annotate(f"{r.kv_heads} KV", (value(r), r.perplexity), xytext=(6, 4), textcoords="offset points", fontsize=9)
        ax.set_xlabel(name)
        ax.set_ylabel("perplexity")
        ax.margins(0.15)
        ax.grid(color="#dddddd", linewidth=0.8)
        ax.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=13, fontweight="bold", x=0.01, ha="left")
    return figure
