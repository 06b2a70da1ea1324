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
(tools/requirements-plots.txt), or `uv run tools/plot_bench.py`.

Example: ./bench models/fable.bin -d 0,256 -o jsonl >bench.jsonl && tools/plot_bench.py bench.jsonl -o bench.svg
"""

import argparse

from tern import script

if __name__ == "__main__":
    script.begin()

from tern import plot
from tern.errors import ConvertError


def run(options: argparse.Namespace) -> None:
    outputs = options.output or ["bench.svg"]
    for name in outputs:
        plot.check_form(name)
    results = [r for name in options.results for r in plot.read(name)]
    if len({type(r) for r in results}) > 1:
        raise ConvertError("results of bench attention and of other tests do not fit one figure")
    figure = plot.draw(results, options.x, options.title)
    for name in outputs:
        plot.save(figure, name)


def main(arguments: list[str] | None = None) -> int:
    parser = script.parser("plot_bench.py", __doc__)
    parser.add_argument("results", nargs="+", metavar="RESULTS")
    parser.add_argument("-o", "--output", action="append", metavar="OUT", help=".svg or .png; default bench.svg")
    parser.add_argument("--x", choices=list(plot.AXES), help="horizontal axis; default: what varies")
    parser.add_argument("--title", default="")
    return script.guarded(parser, run, arguments, "requirements-plots.txt")


if __name__ == "__main__":
    script.run(main)
