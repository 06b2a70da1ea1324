#!/usr/bin/env python3
"""Gives a model fewer KV heads: multi-head attention becomes grouped-query (GQA) or multi-query attention (MQA).

    tools/regroup.py MODEL.bin -o FOLDER --kv-heads 8,4,2,1 [--text FILE [--depth N] [--plot OUT.svg]] [--heal TEXT --steps N]

Writes FOLDER/NAME-kv4.bin and so on: fewer KV heads are means of neighbours, more are copies. With
--text, each file's perplexity, bytes of cache for a position, and tokens per second at --depth are
printed, and drawn with --plot. --heal trains the files that have fewer for --steps with tools/train.py,
on a text (a line <|endoftext|> separates documents), or on the encoded splits in a folder, as
tools/train.py prepared them; for Llamas with tied embeddings. Needs ./run, ./bench and ./quantize,
and for --heal the packages of requirements-train.txt.

Example: tools/regroup.py models/fable.bin -o /tmp/fable --kv-heads 2,1 --text story.txt
"""

import argparse
from pathlib import Path

from tern import script

if __name__ == "__main__":
    script.begin("numpy", "tqdm", "xxhash")

from tqdm import tqdm

from tern import plot, regroup
from tern.errors import USAGE, ConvertError


def numbers(text: str) -> list[int]:
    return [script.at_least(1)(part) for part in text.split(",")]


def run(options: argparse.Namespace) -> None:
    if options.plot and not options.text:
        raise ConvertError("--plot needs --text", USAGE)
    if options.plot:
        plot.check_form(options.plot)
    for text in filter(None, (options.model, options.text, options.heal)):
        text.stat()  # before anything is made
    options.output.mkdir(parents=True, exist_ok=True)
    rows = []
    for n in tqdm(options.kv_heads, desc="KV heads", disable=None, leave=False):
        out = options.output / f"{options.model.stem}-kv{n}.bin"
        is_healed, before = regroup.regroup(options.model, out, n) and options.heal is not None, None
        if is_healed and options.text:
            before = regroup.perplexity(out, options.text)
        if is_healed:
            regroup.heal(out, options.heal, options.steps)
        print(out)
        if options.text:
            rows.append(regroup.measure(out, n, options.text, options.depth, before))
    if rows:
        print("\n" + regroup.table(rows, options.depth))
    if options.plot:
        plot.save(regroup.draw(rows, options.depth, options.model.stem), options.plot)


def main(arguments: list[str] | None = None) -> int:
    parser = script.parser("regroup.py", __doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--kv-heads", type=numbers, required=True, metavar="LIST")
    parser.add_argument("--text", type=Path, help="measures perplexity on this file")
    parser.add_argument("--depth", type=script.at_least(0), default=1024, help="tokens in the cache for the speed; default 1024")
    parser.add_argument("--plot", metavar="OUT", help=".svg or .png; needs --text and matplotlib")
    parser.add_argument("--heal", type=Path, metavar="TEXT", help="train each file that has fewer on this text, or on the splits in this folder")
    parser.add_argument("--steps", type=script.at_least(1), default=200)
    return script.guarded(parser, run, arguments, "requirements-train.txt")


if __name__ == "__main__":
    script.run(main)
