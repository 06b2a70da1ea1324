#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = [
#   "numpy==2.4.6; python_version >= '3.11'",
#   "numpy==2.2.6; python_version < '3.11'",
#   "jinja2==3.1.6",
#   "sentencepiece==0.2.3",
#   "tokenizers==0.23.3",
#   "tqdm==4.70.1",
#   "xxhash==4.1.0",
# ]
# ///
"""Converts a model to tern's weights file.

    tools/convert.py SOURCE OUT.bin [--type f32|f16|bf16|q8|q4|q4c] [--tokenizer FILE] [--rope-length N]
                     [--set KEY=VALUE] [--template NAME|FILE] [--check] [--reference-logits]
    tools/convert.py SOURCE --dry-run

SOURCE is a Hugging Face directory, a GGUF file, or a llama2.c checkpoint. Without --type every matrix
keeps the type it has, bit for bit; q8, q4 and q4c are made by ./quantize. Exit codes: 0 done, 2 usage or a
Python package is missing, 3 a file that is not what it should be, 4 input or output failed, 5 out of memory.
"""

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback of an import; there is nothing to clean up yet

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path


def missing(e: ImportError) -> str:
    """What to do about a package that is not there."""
    here = Path(__file__).resolve()
    pins, program = (shlex.quote(str(path)) for path in (here.with_name("requirements.txt"), here))
    return (
        f"convert.py: this Python lacks a package ({' '.join(str(e).split())[:200]}); run `python3 -m venv .venv && "
        f".venv/bin/pip install -r {pins}`, then `.venv/bin/python {program}` in place of convert.py"
    )


try:
    from tqdm import tqdm

    from ternlib import (
        chat, compare, errors, ggufsource, huggingface, keys, llama2c, overview, paths, reference, tiles, tokenizer, weights,
    )  # fmt: skip
    from ternlib.config import check_length
    from ternlib.errors import ConvertError
    from ternlib.settings import Settings
    from ternlib.source import Source, packed_config, pieces, slots, vector_pieces
except ImportError as e:
    if __name__ != "__main__" or (e.name or "").startswith("ternlib"):
        raise
    print(missing(e), file=sys.stderr)
    sys.exit(2)

ROOT = Path(__file__).resolve().parent.parent
VERSION = "0.1.0"  # TERN_VERSION of include/tern.h
LOSSY = ("q8", "q4", "q4c")
PATIENCE = 3  # seconds that a program has to stop by itself


def load(path: Path, tokenizer_file: Path | None, rope_length: int | None, settings: Settings) -> Source:
    """The source. What is wrong with --set alone is a matter of usage, not of the file."""
    try:
        return read(path, tokenizer_file, rope_length, settings)
    except ConvertError as e:
        if e.code != errors.BAD_FILE or not settings.values:
            raise
        try:
            read(path, tokenizer_file, rope_length, Settings())
        except ConvertError:
            raise e from None
        raise ConvertError(f"with {settings}: {e}", errors.USAGE) from None


def read(path: Path, tokenizer_file: Path | None, rope_length: int | None, settings: Settings) -> Source:
    """The source, by what it is rather than by its name."""
    if path.is_dir():
        return huggingface.load(path, tokenizer_file, rope_length, settings)
    with open(path, "rb") as f:
        head = f.read(8)
    if head[:4] == b"GGUF":
        return ggufsource.load(path, tokenizer_file, rope_length, settings)
    refuse_known(path, head)
    check_length(rope_length, False, str(path))
    return llama2c.load(path, tokenizer_file, settings)


def refuse_known(path: Path, head: bytes) -> None:
    """Files that are something else get a sentence that says what."""
    if head[:4] == weights.MAGIC:
        raise ConvertError(f"{path} is a tern weights file already; ./quantize changes its type", errors.USAGE)
    if head[:4] == b"PK\3\4" or head[:2] == b"\x80\x02":
        raise ConvertError(
            f"{path} is a PyTorch pickle, which may run code when read; save the model as safetensors", errors.USAGE
        )
    if path.suffix == ".safetensors" or path.name == "config.json":
        raise ConvertError(f"{path} is one file of a model; name its directory, {path.parent}", errors.USAGE)


def stored_type(kind: int, wanted: str | None) -> int:
    """The type in which a matrix of `kind` is written; q8, q4 and q4c are left to ./quantize."""
    return kind if wanted is None or wanted in LOSSY else tiles.BY_NAME[wanted]


def tensors(source: Source, wanted: str | None) -> list[weights.Tensor]:
    """The directory: every tensor that the features ask for, of the shape that they ask for."""
    out = []
    for slot in slots(source.config):
        m = source.matrices[slot.name]
        kind = tiles.F32 if slot.vector or slot.exact else stored_type(m.kind, wanted)
        data = vector_pieces(m) if slot.vector else pieces(m, kind)
        out.append(weights.Tensor(slot.name, kind, slot.rows, slot.k, data, slot.matrices))
    return out


def sections(source: Source, golden: dict, sealed: bool) -> dict[str, bytes]:
    """The bodies of all sections but the directory; `golden` are logits of the source, or nothing."""
    provenance = {"name": source.name, "source": source.origin}
    if source.licence:
        provenance["licence"] = source.licence
    provenance["converter"] = f"tern {VERSION} convert.py"
    generation = dict(source.generation)
    if source.end_tokens:
        generation["end_tokens"] = source.end_tokens
    with errors.reading(f"the tokenizer of {source.name}"):
        tokens = {"tokenizer": tokenizer.section(source.tokenizer)} if source.tokenizer else {}
        vectors = tokenizer.vectors(source.tokenizer) or {}
    out = {
        "config": keys.pack(packed_config(source.config)),
        **tokens,
        "generation": keys.pack(generation, frozenset(generation)),
        "provenance": keys.pack(provenance, frozenset(provenance)),
    }
    if source.chat:
        out["chat"] = chat.section(source.chat)
        vectors |= chat.vectors(source.chat, source.tokenizer)
    vectors |= golden
    if vectors:
        out["vectors"] = keys.pack(vectors, frozenset(vectors))
    if sealed:
        out["seal"] = weights.blank_seal()
    return out


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
        weights.sync(f)
    os.replace(temp, out)
    folder = os.open(out.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def program(name: str) -> Path | None:
    """A program of this repository, when it is built."""
    path = ROOT / name
    return path if os.access(path, os.X_OK) else None


def end(child: subprocess.Popen) -> None:
    """Waits for a program that shall stop. A signal to the whole group has reached it too, and it is cleaning up: a
    second one would end it at once."""
    for harder in (child.terminate, child.kill):
        try:
            child.wait(PATIENCE)
            return
        except subprocess.TimeoutExpired:
            harder()
    child.wait()


def call(arguments: list, what: str) -> str:
    """Runs one of our programs; its last line on stderr becomes the error. On a terminal it shows its progress."""
    shown = sys.stderr.isatty()
    child = subprocess.Popen(
        [str(a) for a in arguments], stdout=subprocess.PIPE, stderr=None if shown else subprocess.PIPE, text=True
    )
    try:
        out, said = child.communicate()
    except BaseException:
        end(child)
        raise
    if child.returncode:
        lines = (said or "").strip().splitlines()
        reason = lines[-1] if lines else "see above" if shown else f"exit code {child.returncode}"
        raise ConvertError(f"{what} failed: {reason}", child.returncode if 2 <= child.returncode <= 6 else 1)
    return out


def seal(path: Path) -> str:
    """Asks the engine for the file's fingerprint and writes it into the file. Returns why that was not possible."""
    fingerprint, why = None, ""
    try:
        text = call([ROOT / "run", path, "--seal-value"], "./run --seal-value on the converted file")
        fingerprint = int(text.strip(), 16)
    except ConvertError as e:
        if e.code != errors.MEMORY:  # anything else means that the engine does not take this file
            raise
        why = str(e)
    with open(path, "r+b") as f:
        weights.patch_seal(f, fingerprint)
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
        raise ConvertError(f"--type {wanted} needs the program {ROOT / 'quantize'}; build it with `make`", errors.USAGE)
    return path


def bodies_of(source: Source, wanted: str | None, golden: dict) -> dict[str, bytes]:
    """The sections of the file that is written here; ./quantize makes a seal of its own."""
    return sections(source, golden, program("run") is not None and quantizer(source, wanted) is None)


def make_room(out: Path, need: int) -> None:
    free = shutil.disk_usage(out.parent).free
    if free < need:
        raise ConvertError(
            f"{out} needs {overview.size(need)} free on its disk while it is made, and {overview.size(free)} are",
            errors.IO,
        )


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
            print(checked(source, temp, out))
        publish(temp, out)
    seconds = time.monotonic() - start
    print(f"{out}: {source.name}, {overview.written(out, entries, wanted, seconds)}{'' if why else ', sealed'}")
    if why:
        print(f"no seal was written, because {why}")


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
            if e.code != errors.MEMORY:
                raise
            return f"checked: {found}; the engine's tests were not run: {e}"
    return f"checked: {found}; ./run --check and --selftest passed"


def bar(total: int, what: str, unit: str = "B"):
    """A progress bar, on a terminal."""
    shown = sys.stderr.isatty()
    return tqdm(total=total, unit=unit, unit_scale=True, desc=what, disable=not shown, leave=False)


def show_plan(source: Source, wanted: str | None) -> None:
    bodies = sections(source, {}, program("run") is not None and wanted not in LOSSY)
    for line in overview.plan(source, bodies, tensors(source, wanted), wanted):
        print(line)


def write(path: Path, bodies: dict[str, bytes], entries: list[weights.Tensor]) -> None:
    """The lossless file, with a progress bar on a terminal."""
    with open(path, "r+b") as f, bar(sum(t.size for t in entries), "writing") as progress:
        weights.write(f, bodies, entries, progress.update)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="convert.py", description="Converts a model to tern's weights file.")
    parser.add_argument("source", type=Path, help="Hugging Face directory, GGUF file or llama2.c checkpoint")
    parser.add_argument("out", type=Path, nargs="?", help="the weights file to write")
    parser.add_argument("--type", choices=list(tiles.BY_NAME), help="type of the matrices (default: as they are)")
    parser.add_argument(
        "--tokenizer", type=Path, metavar="FILE", help="tokenizer file, where it is not beside the model"
    )
    parser.add_argument(
        "--rope-length", type=int, metavar="N", help="tokens of the text that dynamic RoPE scaling is for"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE",
        help="a feature (window=4096; a value for each layer with commas between) or a key of the source's config",
    )  # fmt: skip
    parser.add_argument(
        "--template", metavar="NAME", help=f"chat template in place of the source's: {', '.join(chat.BUILTIN)}, or a file"
    )
    parser.add_argument("--reference-logits", action="store_true", help="store logits by transformers for --selftest")
    parser.add_argument("--dry-run", action="store_true", help="say what would be written, and write nothing")
    parser.add_argument("--check", action="store_true", help="compare the file with the source, and run its own tests")
    options = parser.parse_args(arguments)
    if options.out is None and not options.dry_run:
        parser.error("name the weights file to write, or give --dry-run")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    try:
        paths.check(options.source, options.out, options.tokenizer, options.template)
        source = load(options.source, options.tokenizer, options.rope_length, Settings(options.set))
        source.chat = chat.of_source(source, options.template, source.notes)
        for note in source.notes:
            print(note)
        if options.dry_run:
            show_plan(source, options.type)
            return 0
        golden = {}
        if options.reference_logits:
            if not options.source.is_dir():
                raise ConvertError("--reference-logits needs a Hugging Face directory", errors.USAGE)
            golden = reference.logits(options.source, source, options.type)
        convert(source, options.out, options.type, golden, options.check)
    except ConvertError as e:
        print(f"convert.py: {e}", file=sys.stderr)
        return e.code
    except OSError as e:
        print(f"convert.py: {e.filename or options.out}: {e.strerror or e}", file=sys.stderr)
        return errors.IO
    except MemoryError:
        print("convert.py: not enough memory", file=sys.stderr)
        return errors.MEMORY
    except KeyboardInterrupt:
        return 130
    return 0


STOPS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


def stop(number: int, _) -> None:
    """The first signal ends the program; those that follow must not end its cleaning up."""
    for each in STOPS:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == "__main__":
    for each in STOPS:
        if signal.getsignal(each) != signal.SIG_IGN:  # nohup, or a job in the background
            signal.signal(each, stop)
    sys.exit(main())
