"""A Source in, a finished weights file out: written, made smaller by ./quantize, sealed and tested by ./run, published.

The file stands beside its final name until it is whole; whatever fails before leaves nothing behind.
"""

import os
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from tqdm import tqdm

from ... import programs
from ...errors import IO, MEMORY, USAGE, ConvertError
from ...programs import call, program
from ...weights import tiles, writer
from ..families.features import slots
from ..sources.source import Source
from ..words import say, size
from . import compare, overview
from .contents import LOSSY, sections, tensors


@contextmanager
def temporary(out: Path):
    """A file beside `out` that replaces it at the end, or is removed when anything fails."""
    fd, name = tempfile.mkstemp(prefix=f".{out.name}.", suffix=".tmp", dir=out.parent)
    try:
        umask = os.umask(0)
        os.umask(umask)
        os.fchmod(fd, 0o666 & ~umask)
        os.close(fd)
        yield Path(name)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def publish(temp: Path, out: Path) -> None:
    """The file, on the disk, under its own name."""
    with open(temp, "r+b") as f:
        writer.sync(f)
    os.replace(temp, out)
    with suppress(OSError, MemoryError):  # the file is in place; some folders may not be opened
        folder = os.open(out.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def seal(path: Path) -> str:
    """Asks the engine for the file's fingerprint and writes it into the file. Returns why that was not possible."""
    fingerprint, why = None, ""
    try:
        text = call([programs.path("run"), path, "--seal-value"], "./run --seal-value on the converted file")
        fingerprint = int(text.strip(), 16)
    except ConvertError as e:
        if e.code != MEMORY:  # anything else means that the engine does not take this file
            raise
        why = str(e)
    with open(path, "r+b") as f:
        writer.patch_seal(f, fingerprint)
    return why


def quantizer(source: Source, wanted: str | None) -> Path | None:
    """The program that makes the wanted type, when any matrix is larger than that."""
    if wanted not in LOSSY:
        return None
    kinds = [source.matrices[s.name].kind for s in slots(source.config) if not (s.vector or s.exact)]
    if all(kind >= tiles.BY_NAME[wanted] for kind in kinds):
        return None
    path = program("quantize")
    if path is None:
        raise ConvertError(
            f"--type {wanted} needs the program {programs.path('quantize')}; build it with `make`, or give --type f32",
            USAGE,
        )
    return path


def bodies_of(source: Source, wanted: str | None, golden: dict) -> dict[str, bytes]:
    """The sections of the file that is written here; ./quantize makes a seal of its own."""
    return sections(source, golden, program("run") is not None and quantizer(source, wanted) is None)


def make_room(out: Path, need: int) -> None:
    free = shutil.disk_usage(out.parent).free
    if free < need:
        raise ConvertError(f"{out} needs {size(need)} free on its disk while it is made, and {size(free)} are", IO)


def convert(source: Source, out: Path, wanted: str | None, golden: dict, check: bool = False) -> None:
    """Writes the file: by ./quantize, which seals it, or as it is, sealed when the engine is built."""
    start = time.monotonic()
    lossy, engine = quantizer(source, wanted), program("run")
    why = "" if lossy or engine else "./run is not built: `make`, then convert again to have one"
    bodies, entries = bodies_of(source, wanted, golden), tensors(source, wanted)
    make_room(out, overview.room(bodies, entries, wanted if lossy else None))
    with temporary(out) as temp:
        write(temp, bodies, entries)
        if lossy:
            # A folder, because ./quantize has temporary names of its own, which it leaves when it is killed.
            with tempfile.TemporaryDirectory(prefix=f".{out.name}.", suffix=".tmp", dir=out.parent) as room:
                second = Path(room) / out.name
                call([lossy, temp, second, wanted], "./quantize")
                os.replace(second, temp)
        elif engine:
            why = seal(temp)
        if check:
            say(checked(source, temp, out))
        publish(temp, out)
    seconds = time.monotonic() - start
    say(f"{out}: {source.name}, {overview.written(out, entries, wanted, seconds)}{'' if why else ', sealed'}")
    if why:
        say(f"no seal was written, because {why}")


def checked(source: Source, path: Path, out: Path) -> str:
    """Reads the file again, compares it with the source, and has the engine test it."""
    total = sum(slot.rows * slot.k * slot.matrices for slot in slots(source.config) if not slot.vector)
    with bar(total, "checking", "") as progress:
        found = compare.check(source, path, progress.update)
    engine = program("run")
    if engine is None:
        return f"checked: {found}; ./run is not built, so its --check and --selftest were not run"
    for option in ("--check", "--selftest"):
        try:
            call([engine, path, option], f"./run {option} on the converted file")
        except ConvertError as e:
            if e.code != MEMORY:
                raise
            return f"checked: {found}; the engine's tests were not run: {e}"
    return f"checked: {found}; ./run --check and --selftest passed"


def bar(total: int, what: str, unit: str = "B"):
    """A progress bar, on a terminal."""
    shown = sys.stderr.isatty()
    return tqdm(total=total, unit=unit, unit_scale=True, desc=what, disable=not shown, leave=False)


def show_plan(source: Source, wanted: str | None) -> None:
    bodies = sections(source, {}, program("run") is not None and wanted not in LOSSY)
    for text in overview.plan(source, bodies, tensors(source, wanted), wanted):
        say(text)


def write(path: Path, bodies: dict[str, bytes], entries: list[writer.Tensor]) -> None:
    """The lossless file, with a progress bar on a terminal."""
    with open(path, "r+b") as f, bar(sum(t.size for t in entries), "writing") as progress:
        writer.write(f, bodies, entries, progress.update)
