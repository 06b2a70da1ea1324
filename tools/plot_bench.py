#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["matplotlib==3.11.2"]
# ///
"""Draws results of ./bench: tokens per second, and the share of the machine's limit.

    tools/plot_bench.py RESULTS ... [-o OUT.svg] [-o OUT.png] [--x threads|depth|type|batch] [--title TEXT]

RESULTS are files that `./bench -o jsonl`, `-o json` or `-o csv` wrote (or llama-bench, whose results
have no limits); - is standard input. One row of charts per kind of test, prompts above generation.
The horizontal axis is what varies: depth, else threads, else batch, else type. Results of
`./bench attention` become four charts by number of keys. Needs matplotlib
(tools/requirements-plots.txt), or `uv run tools/plot_bench.py`. Exit codes: 0 done, 2 usage, 3 a file
that is not what it should be, 4 input or output failed.
"""

import argparse
import sys
from pathlib import Path

from tern.plot import AXES, FORMS, PlotError, draw, read, save


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("results", nargs="+", metavar="RESULTS")
    parser.add_argument("-o", "--output", action="append", metavar="OUT", help=".svg or .png; default bench.svg")
    parser.add_argument("--x", choices=list(AXES), help="horizontal axis; default: what varies")
    parser.add_argument("--title", default="")
    args = parser.parse_args()
    try:
        outputs = args.output or ["bench.svg"]
        for name in outputs:
            if Path(name).suffix not in FORMS:
                raise PlotError(2, f"{name}: want a name that ends with .svg or .png")
        results = [r for name in args.results for r in read(name)]
        if len({type(r) for r in results}) > 1:
            raise PlotError(3, "results of bench attention and of other tests do not fit one figure")
        figure = draw(results, args.x, args.title)
        for name in outputs:
            save(figure, name)
    except PlotError as e:
        print(f"plot_bench.py: {e}", file=sys.stderr)
        return e.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
