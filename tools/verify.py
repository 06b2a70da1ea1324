#!/usr/bin/env python3
"""Holds every step of a converted model to probes: what transformers got from the original.

    tools/verify.py MODEL.bin PROBES.npz [--bound X] [--cache-type f32|f16|q8] [--cpu NAME] [--threads N] [--batch N]

Example: tools/golden.py --probes qwen3 probes.npz && tools/verify.py qwen3.bin probes.npz

tools/golden.py --probes SOURCE PROBES.npz writes the probes. Prints the worst error of each operation, or names the
first layer and operation that is wrong. Needs `make`.
"""

import argparse
import os
import sys
from pathlib import Path

from tern import script

if __name__ == "__main__":
    script.begin("numpy", "tqdm")

from tern import errors, library, verify
from tern.programs import ROOT

LIMIT = 6  # exit code: a bound was crossed


def run(options: argparse.Namespace) -> int:
    probes = verify.read(options.probes)
    how = {"cpu": options.cpu, "n_threads": options.threads, "n_batch": options.batch, "cache_type": options.cache_type}
    built = ROOT / os.environ.get("BUILD", "build") / "libtern.so"
    with library.Engine(built, options.model, n_ctx=len(probes.tokens), **how) as engine:
        bound = verify.BOUNDS.get(engine.info.type_name) if options.bound is None else options.bound
        if bound is None:
            raise errors.ConvertError(f"type {engine.info.type_name} has no usual bound; state one with --bound", errors.USAGE)
        result = verify.compare(engine, probes, bound)
    print(result.table())
    wrong = result.first_wrong()
    if wrong:
        print(f"verify.py: {wrong}", file=sys.stderr)
        return LIMIT
    print(f"\n{result.verdict()}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = script.parser("verify.py", __doc__, script.CODES + " 6: something differs.")
    parser.add_argument("model", type=Path)
    parser.add_argument("probes", type=Path)
    parser.add_argument("--bound", type=float, help="share of the largest value of a row; default: by the type of the weights")
    parser.add_argument("--cache-type", choices=library.CACHE_TYPES, default="f32")
    parser.add_argument("--cpu", help="kernels, as for ./run")
    parser.add_argument("--threads", type=script.at_least(0), default=0)
    parser.add_argument("--batch", type=script.at_least(1), default=library.ROWS)
    return script.guarded(parser, run, arguments)


if __name__ == "__main__":
    script.run(main)
