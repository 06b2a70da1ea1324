"""What a model will take before its weights are loaded: bytes, memory, speed on this machine, for each type.

In:  a Model of the hub. Its config, tokenizer and the headers of its weights are fetched; the tensors stay holes in stand-ins for
     the files, so the converter and the engine answer as for the real ones.
Out: a Forecast. Its tokens per second are those of a model like it (rehearse.py).
"""

import math
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .. import programs
from ..errors import BAD_FILE, MEMORY, ConvertError
from ..library import Engine
from ..weights import writer
from ..weights.tiles import BY_NAME
from . import hub, rehearse
from .chat.of_source import of_source
from .families.settings import Settings
from .files.safetensors import MAX_HEADER
from .sources.detect import load
from .sources.source import Source
from .words import size
from .writing import overview
from .writing.contents import LOSSY, sections, tensors
from .writing.overview import final_tensors

TYPES = ("q8", "q4c")  # from which one is recommended
CONTEXT = 4096  # positions of the memory that is stated
FAST = 20  # tokens a second from which on the larger type is recommended
GGUF_HEAD = 16 << 20  # bytes; doubled until the header is whole


@dataclass
class Row:
    """A type: bytes of the file and of memory, tokens per second; None where nobody asked, or the machine's memory is too small."""

    type: str
    file_bytes: int
    memory_bytes: int
    decode: float | None
    prompt: float | None
    why: str = ""


@dataclass
class Forecast:
    model: hub.Model
    source: Source
    entries: list
    bodies: dict
    rows: list[Row]

    def room(self, kind: str) -> int:
        """Bytes that must be free while the file is made."""
        return overview.room(self.bodies, self.entries, kind if kind in LOSSY else None)

    @property
    def recommended(self) -> Row | None:
        """The first type that is fast enough; else the smallest that fits."""
        fit = [row for row in self.rows if row.decode is not None]
        return next((row for row in fit if row.decode >= FAST), fit[-1] if fit else None)

    def lines(self) -> Iterator[str]:
        """The forecast as people read it."""
        c, weights = self.source.config, sum(t.rows * t.k * t.matrices for t in self.entries)
        yield f"{self.model.name}: {self.source.family or self.source.origin}, {weights / 1e9:.2f} B weights, {c['n_layers']} layers"
        yield f"licence   {self.model.licence}"
        n = len(self.model.files)
        yield f"download  {size(self.model.bytes)} in {n} file{'s' * (n > 1)}"
        if not self.rows:
            return
        memory = f"memory at {min(CONTEXT, c['max_seq'])}"
        yield f"{'type':<6}{'file':>11}{memory:>18}{'tokens/s':>11}{'prompt tokens/s':>18}"
        for row in self.rows:
            speed = f"{_three(row.decode):>11}{_three(row.prompt):>18}" if row.decode else f"   {row.why}".rstrip()
            yield f"{row.type:<6}{size(row.file_bytes):>11}{size(row.memory_bytes) if row.memory_bytes else '':>18}{speed}"
        best = self.recommended
        yield f"use {best.type}" if best else "this machine has too little memory for it"


def _three(x: float) -> str:
    """Three digits."""
    return f"{x:.3g}" if x < 1000 else f"{round(x, 2 - math.floor(math.log10(x))):,.0f}"


@contextmanager
def stand_in(model: hub.Model):
    """A path that the converter reads as the source: real small files, and the headers of the others."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, model.name.split("/")[-1])
        base.mkdir()
        for f in model.texts:
            os.symlink(hub.fetch(model, f.name), base / f.name)
        for f in model.weights:
            (base / f.name).parent.mkdir(parents=True, exist_ok=True)
            if f.name.endswith(".json"):
                os.symlink(hub.fetch(model, f.name), base / f.name)
            else:
                _holes(model, f, base / f.name, GGUF_HEAD)
        yield model.source(base)


def _holes(model: hub.Model, f: hub.Remote, path: Path, n: int) -> None:
    """A file of the size of `f` with its header; the rest are holes."""
    if f.name.endswith(".safetensors"):
        head = hub.begin(model, f.name, 1 << 20)
        n = 8 + min(struct.unpack("<Q", head[:8].ljust(8, b"\0"))[0], MAX_HEADER)
        head = head if len(head) >= min(n, f.size) else hub.begin(model, f.name, n)
    else:
        head = hub.begin(model, f.name, n)
    with open(path, "wb") as out:
        out.write(head[: f.size])
        out.truncate(f.size)


def read(model: hub.Model) -> tuple[Source, dict, list]:
    """The source of a stand-in, and what a file of it holds, before ./quantize."""
    with stand_in(model) as path:
        n = GGUF_HEAD
        while True:
            try:
                source = load(path, None, None, Settings([]))
                break
            except ConvertError as e:
                n *= 2
                if e.code != BAD_FILE or path.is_dir() or n > 2 * max(f.size for f in model.weights) or n > 1 << 28:
                    raise
                for f in model.weights:  # the header may be longer than what was fetched
                    _holes(model, f, path.parent / Path(f.name).name, n)
        source.chat = of_source(source, None, source.notes)
        return source, sections(source, {}, True), tensors(source, None)


def forecast(model: hub.Model, types: tuple[str, ...] = TYPES, others: tuple[str, ...] = ()) -> Forecast:
    """Reads what is small, and asks the engine about each type; of `others` only how large they are. Without types, only what the
    converter says."""
    source, bodies, entries = read(model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "outline.bin")
        rows = [row(path, bodies, entries, kind, source.config, kind in types) for kind in BY_NAME if kind in types + others]
    return Forecast(model, source, entries, bodies, rows)


@contextmanager
def outlined(path: Path, bodies: dict, entries: list, kind: str, max_seq: int, n_threads: int = 0) -> Iterator[Engine]:
    """The engine with a weights file of one type whose tensors are holes."""
    with open(path, "wb") as out:
        writer.outline(out, bodies, final_tensors(entries, kind))
    n_ctx = min(CONTEXT, max_seq)
    with Engine(programs.library(), path, n_ctx, n_batch=rehearse.PROMPT, cache_type="f16", n_threads=n_threads) as engine:
        yield engine


def row(path: Path, bodies: dict, entries: list, kind: str, config: dict, timed: bool = True) -> Row:
    """One type."""
    row = Row(kind, 0, 0, None, None)
    try:
        with outlined(path, bodies, entries, kind, config["max_seq"]) as engine:
            row.memory_bytes, free = engine.memory().total, engine.memory().available
            if row.memory_bytes > free:
                row.why = f"more than the {size(free)} of memory that are free: it would run at the speed of the disk"
            elif timed:
                row.decode, row.prompt = rehearse.speed(config, final_tensors(entries, kind), engine)
    except ConvertError as e:
        if e.code != MEMORY:
            raise
        row.why = str(e)
    row.file_bytes = path.stat().st_size
    return row
