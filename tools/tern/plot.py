"""Results of ./bench as a figure. In: JSON, JSON lines or CSV that ./bench wrote. Out: an SVG or PNG file."""

import csv
import io
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from .errors import IO, USAGE, ConvertError

FORMS = (".svg", ".png")
AXES = {"depth": "tokens in the cache", "threads": "threads", "batch": "batch size", "type": "weight type"}
# Okabe and Ito's colours, which stay apart for colour-blind eyes.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#F0E442"]
MARKERS = "osD^vP*X"


@dataclass(frozen=True)
class Result:
    """One test: a line of bench's output."""

    model: str
    type: str
    test: str
    is_prompt: bool
    threads: int
    depth: int
    batch: int
    cache: str
    speed: float
    deviation: float
    percent: float | None  # of peak for prompts, of bandwidth for generation


@dataclass(frozen=True)
class Cost:
    """What attention cost: a line of `bench attention`."""

    line: str
    keys: int
    milliseconds: float
    megabytes: float
    megamacs: float
    scratch: float  # KB


COSTS = {"milliseconds": "time in ms", "megabytes": "MB read and written", "megamacs": "million multiply-adds", "scratch": "scratch memory in KB"}


def to_cost(row: dict) -> Cost:
    numbers = (float(row[n]) for n in ("median_ns", "bytes", "macs", "scratch_bytes"))
    return Cost(row["line"], int(row["n_keys"]), *(n / unit for n, unit in zip(numbers, (1e6, 1e6, 1e6, 1e3), strict=True)))


def to_result(row: dict) -> Result:
    """A result from the fields of a row, which in CSV are all text."""
    prompt, generated = int(row["n_prompt"]), int(row["n_gen"])
    share = row.get("pct_peak" if prompt else "pct_bandwidth")
    model, _, last = row["model_type"].rpartition(" ")
    kind = row.get("weight_type") or last
    return Result(
        model=model if last == kind else row["model_type"], type=kind,
        test="+".join([f"pp{prompt}"] * bool(prompt) + [f"tg{generated}"] * bool(generated)),
        is_prompt=bool(prompt), threads=int(row["n_threads"]), depth=int(row.get("n_depth", 0)),
        batch=int(row["n_batch"]), cache=row["type_k"],
        speed=float(row["avg_ts"]), deviation=float(row["stddev_ts"]),
        percent=float(share) if share and float(share) > 0 else None,
    )  # fmt: skip


def parse(text: str) -> list[dict]:
    """Rows of a JSON array, of JSON lines, or of CSV."""
    start = text.lstrip()[:1]
    if start == "[":
        return json.loads(text)
    if start == "{":
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    return list(csv.DictReader(io.StringIO(text)))


def read(name: str) -> list[Result] | list[Cost]:
    """All results in a file, which are of one kind."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as e:
        raise ConvertError(f"{name}: cannot read: {e.strerror}", IO) from e
    except UnicodeDecodeError as e:
        raise ConvertError(f"{name}: not text") from e
    try:
        rows = parse(text)
        found = [to_cost(row) if "n_keys" in rows[0] else to_result(row) for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise ConvertError(f"{name}: not results of bench ({type(e).__name__}: {e})") from e
    if not found:
        raise ConvertError(f"{name}: no results in it")
    return found


def varying(results: list[Result], field: str) -> bool:
    return len({getattr(r, field) for r in results}) > 1


def choose_axis(results: list[Result], asked: str | None) -> str:
    """The horizontal axis: as asked, else the first that varies."""
    for name in ("depth", "threads", "batch", "type"):
        if asked == name or (not asked and varying(results, name)):
            return name
    return "type"


def series_of(results: list[Result], axis: str) -> dict[str, list[Result]]:
    """Results that belong to one line, by its label: what varies beside the axis."""
    everything = ("model", "type", "test", "threads", "depth", "batch", "cache")
    fields = [f for f in everything if f != axis and varying(results, f)]
    units = {"threads": "{} thread{s}", "depth": "depth {}", "batch": "batch {}", "cache": "{} cache"}
    found: dict[str, list[Result]] = {}
    for r in results:
        s = "" if r.threads == 1 else "s"
        words = [units.get(f, "{}").format(getattr(r, f), s=s) for f in fields]
        found.setdefault(", ".join(words) or f"{r.model} {r.test}", []).append(r)
    return found


def merge(results: list[Result], axis: str, value) -> list[tuple]:
    """(x, mean of value, largest deviation) for each x; the same test in several files is averaged."""
    by_x: dict = {}
    for r in results:
        if value(r) is not None:
            by_x.setdefault(getattr(r, axis), []).append(r)
    keys = list(by_x) if axis == "type" else sorted(by_x)
    return [(x, statistics.mean(value(r) for r in by_x[x]), max(r.deviation for r in by_x[x])) for x in keys]


def draw_lines(ax, series: dict[str, list[Result]], axis: str, value, with_errors: bool) -> None:
    ticks = sorted({getattr(r, axis) for rs in series.values() for r in rs})
    for i, (label, rs) in enumerate(series.items()):
        points = merge(rs, axis, value)
        xs = [ticks.index(p[0]) for p in points]
        errors = [p[2] for p in points] if with_errors else None
        ax.errorbar(
            xs, [p[1] for p in points], yerr=errors, label=label, color=COLOURS[i % len(COLOURS)],
            marker=MARKERS[i % len(MARKERS)], capsize=3, linewidth=1.8, markersize=6,
        )  # fmt: skip
    ax.set_xticks(range(len(ticks)), [str(t) for t in ticks])
    ax.set_xmargin(0.08)


def draw_bars(ax, series: dict[str, list[Result]], axis: str, value, with_errors: bool) -> None:
    ticks = list(dict.fromkeys(getattr(r, axis) for rs in series.values() for r in rs))
    width = 0.8 / len(series)
    for i, (label, rs) in enumerate(series.items()):
        points = merge(rs, axis, value)
        xs = [ticks.index(p[0]) + (i - (len(series) - 1) / 2) * width for p in points]
        bars = ax.bar(
            xs, [p[1] for p in points], width * 0.92, label=label, color=COLOURS[i % len(COLOURS)],
            yerr=[p[2] for p in points] if with_errors else None, capsize=3, error_kw={"linewidth": 1},
        )  # fmt: skip
        ax.bar_label(bars, fmt=lambda v: f"{v:,.0f}" if v >= 100 else f"{v:.3g}", padding=2, fontsize=8)
    ax.set_xticks(range(len(ticks)), ticks)
    ax.set_ymargin(0.12)


def draw_row(axes, results: list[Result], axis: str) -> None:
    """Charts of one kind of test: speed, and share of the limit where it is known."""
    what = "prompt" if results[0].is_prompt else "generation"
    limit = "multiply-add peak" if results[0].is_prompt else "read bandwidth"
    draw = draw_bars if axis == "type" else draw_lines
    series = series_of(results, axis)
    charts = [(f"{what}: tokens per second", lambda r: r.speed, True)]
    if len(axes) > 1:
        charts.append((f"{what}: % of the machine's {limit}", lambda r: r.percent, False))
    for ax, (title, value, with_errors) in zip(axes, charts, strict=True):
        draw(ax, series, axis, value, with_errors)
        ax.set_title(title, loc="left", fontsize=11)
        ax.set_xlabel(AXES[axis])
        ax.set_ylim(bottom=0)
        if not with_errors:
            ax.axhline(100, color="#666666", linewidth=1, linestyle="--")
        ax.yaxis.set_major_formatter("{x:,.0f}" if ax.get_ylim()[1] >= 10 else "{x:g}")
        ax.grid(axis="y", color="#dddddd", linewidth=0.8)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    if len(series) > 1:
        axes[-1].legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def load_pyplot():
    try:
        import matplotlib

        matplotlib.use("Agg")
        matplotlib.rcParams.update({"svg.fonttype": "none", "font.size": 10})
        from matplotlib import pyplot
    except ImportError as e:
        raise ConvertError(
            "matplotlib is missing: pip install -r tools/requirements-plots.txt, or uv run tools/plot_bench.py", USAGE
        ) from e
    return pyplot


def draw_costs(costs: list[Cost], title: str):
    """Every cost of attention against the number of keys, both axes logarithmic."""
    figure, axes = load_pyplot().subplots(2, 2, figsize=(12, 8), layout="constrained")
    for ax, (field, name) in zip(axes.flat, COSTS.items(), strict=True):
        for i, line in enumerate(dict.fromkeys(c.line for c in costs)):
            points = [(c.keys, getattr(c, field)) for c in costs if c.line == line and getattr(c, field) > 0]
            style = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i // len(COLOURS) % len(MARKERS)], "label": line}
            ax.plot([p[0] for p in points], [p[1] for p in points], linewidth=1.6, markersize=5, **style)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.xaxis.set_major_formatter("{x:.0f}")
        ax.set_xlabel("keys")
        ax.set_title(name, loc="left", fontsize=11)
        ax.grid(color="#dddddd", linewidth=0.8)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0][1].legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.suptitle(title or "What attention costs", fontsize=13, fontweight="bold", x=0.01, ha="left")
    return figure


def draw(results: list[Result] | list[Cost], axis: str | None, title: str):
    """The whole figure; `axis` None: the first that varies."""
    if isinstance(results[0], Cost):
        return draw_costs(results, title)
    axis, pyplot = choose_axis(results, axis), load_pyplot()
    kinds = [rs for p in (True, False) if (rs := [r for r in results if r.is_prompt == p])]
    columns = 2 if any(r.percent is not None for r in results) else 1
    figure, axes = pyplot.subplots(
        len(kinds), columns, figsize=(5.2 * columns + 2, 3.6 * len(kinds)), squeeze=False, layout="constrained"
    )
    for row, rs in zip(axes, kinds, strict=True):
        draw_row(row, rs, axis)
    models = list(dict.fromkeys(r.model for r in results))
    figure.suptitle(title or ", ".join(models), fontsize=13, fontweight="bold", x=0.01, ha="left")
    return figure


def check_form(name: str) -> None:
    if Path(name).suffix not in FORMS:
        raise ConvertError(f"{name}: want a name that ends with .svg or .png", USAGE)


def save(figure, name: str) -> None:
    """Writes to a temporary file beside `name`, which then takes its place."""
    form, part = Path(name).suffix, Path(name + ".tmp")
    try:
        figure.savefig(part, format=form[1:], dpi=150, metadata={"Date": None} if form == ".svg" else None)
        part.replace(name)
    except OSError as e:
        part.unlink(missing_ok=True)
        raise ConvertError(f"{name}: cannot write: {e.strerror}", IO) from e
