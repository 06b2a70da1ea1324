#!/usr/bin/env python3
"""Measures tools/convert.py on a model of full size: seconds, speed and memory beside a plain copy of the same bytes.

    tools/bench_convert.py FOLDER [--shape 7b|1b|tiny | --model DIR] [--type q8|q4|q4c] [--rounds N] [--limit-gb G]

Example: tools/bench_convert.py /var/tmp --shape tiny --type q8 --rounds 3

In FOLDER, which needs room for three times the model, it makes a sharded bf16 directory of random weights, or takes the
one that --model names. Then, in turns, the file system copies it and the converter converts it, each beginning with a
cold source and ending with its output on the disk. Memory is the peak of resident pages of convert.py itself, and of the
programs that it runs; a mapped file counts into the latter. --limit-gb (root, cgroup v1): all of it runs in a group with
no more memory than that, page cache included. Everything made is deleted.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tern import script

if __name__ == "__main__":
    script.begin("jinja2", "numpy", "sentencepiece", "tokenizers", "tqdm", "xxhash")

from tqdm import tqdm

from tern.errors import IO, ConvertError
from tern.testing.large_model import SHAPES, make

TOOLS = Path(__file__).resolve().parent


def cold(folder: Path) -> None:
    """The files of the folder leave the page cache."""
    for file in folder.iterdir():
        with open(file, "rb") as f:
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def copy(source: Path, to: Path) -> float:
    """Seconds of cp, until the copy is on the disk."""
    cold(source)
    begin = time.monotonic()
    subprocess.run(["cp", "-r", source, to], check=True)
    for file in to.iterdir():
        with open(file, "rb") as f:
            os.fsync(f.fileno())
    seconds = time.monotonic() - begin
    shutil.rmtree(to)
    return seconds


MEASURED = """
import resource, sys
sys.path.insert(0, {tools!r})
import convert
code = convert.main(sys.argv[1:])
peak = [resource.getrusage(who).ru_maxrss // 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print("peak", *peak)
sys.exit(code)
"""


def convert(source: Path, out: Path, kind: str | None) -> tuple[float, int, int, int]:
    """Seconds, bytes written, and the peaks in MiB of convert.py and of what it ran."""
    cold(source)
    more = ["--type", kind] if kind else []
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", MEASURED.format(tools=str(TOOLS)), source, out, *more], stdout=subprocess.PIPE, text=True
    )
    seconds = time.monotonic() - begin
    if done.returncode:
        raise ConvertError("convert.py failed (see above)", done.returncode if done.returncode > 0 else IO)
    own, others = map(int, done.stdout.split("peak")[-1].split())
    written = out.stat().st_size
    out.unlink()
    return seconds, written, own, others


def limit(gigabytes: float) -> Path:
    """Puts this process, and what it starts, into a memory group of its own."""
    group = Path("/sys/fs/cgroup/memory/tern-bench-convert")
    group.mkdir(exist_ok=True)
    (group / "memory.limit_in_bytes").write_text(str(int(gigabytes * 1e9)))
    (group / "cgroup.procs").write_text(str(os.getpid()))
    return group


def report(what: str, seconds: list[float], total: int, more: str = "") -> None:
    s = statistics.median(seconds)
    print(f"{what:<24}{s:8.1f} s  {total / 1e6 / s:7.0f} MB/s{more}", flush=True)


def run(o: argparse.Namespace) -> None:
    if o.limit_gb:
        limit(o.limit_gb)
    work = o.folder / "bench-convert"
    work.mkdir()
    try:
        model = o.model or work / "model"
        if not o.model:
            make(model, SHAPES[o.shape])
        total = sum(file.stat().st_size for file in model.iterdir())
        print(f"{o.model or o.shape}: {total / 1e9:.2f} GB", flush=True)
        copies, runs = [], []
        for _ in tqdm(range(o.rounds), desc="rounds", disable=None, leave=False):
            copies.append(copy(model, work / "copy"))
            runs.append(convert(model, work / "out.bin", o.type))
            report("cp", copies[-1:], total)
            more = f"  {runs[-1][1] / 1e9:.2f} GB written, peak {runs[-1][2]} MiB, what it ran {runs[-1][3]} MiB"
            report(f"convert.py {o.type or ''}", [runs[-1][0]], total, more)
        if o.rounds > 1:
            report("median: cp", copies, total)
            report(f"median: convert.py {o.type or ''}", [r[0] for r in runs], total)
    finally:
        shutil.rmtree(work)


def main(arguments: list[str] | None = None) -> int:
    parser = script.parser("bench_convert.py", __doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shape", choices=list(SHAPES), default="7b")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--type", choices=("q8", "q4", "q4c"))
    parser.add_argument("--rounds", type=script.at_least(1), default=1)
    parser.add_argument("--limit-gb", type=script.at_least(0.1, float))
    return script.guarded(parser, run, arguments)


if __name__ == "__main__":
    script.run(main)
