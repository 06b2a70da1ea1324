#!/usr/bin/env python3
"""Gives a model fewer KV heads: multi-head attention becomes grouped-query (GQA) or multi-query attention (MQA).

    tools/regroup.py MODEL.bin -o FOLDER --kv-heads 8,4,2,1 [--text FILE [--depth N] [--plot OUT.svg]] [--heal TEXT --steps N]

Writes FOLDER/NAME-kv4.bin and so on: fewer KV heads are means of neighbours, more are copies. With
--text, each file's perplexity, bytes of cache for a position, and tokens per second at --depth are
printed, and drawn with --plot. --heal trains the files that have fewer for --steps with tools/train.py,
on a text (a line <|endoftext|> separates documents), or on the encoded splits in a folder, as
tools/train.py prepared them; for Llamas with tied embeddings. Needs ./run, ./bench and ./quantize,
and for --heal the packages of requirements-train.txt. Exit codes are those of run.
"""

import argparse
import sys
from pathlib import Path


def counts(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--kv-heads", type=counts, required=True, metavar="LIST")
    parser.add_argument("--text", type=Path, help="measures perplexity on this file")
    parser.add_argument("--depth", type=int, default=1024, help="tokens in the cache for the speed; default 1024")
    parser.add_argument("--plot", metavar="OUT", help=".svg or .png; needs --text and matplotlib")
    parser.add_argument("--heal", type=Path, metavar="TEXT", help="train each file that has fewer on this text, or on the splits in this folder")
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    if args.plot and not args.text:
        parser.error("--plot needs --text")

    from tern import plot, regroup
    from tern.errors import IO, ConvertError

    rows = []
    try:
        if args.plot and Path(args.plot).suffix not in plot.FORMS:
            parser.error(f"{args.plot}: want a name that ends with .svg or .png")
        args.output.mkdir(parents=True, exist_ok=True)
        for n in args.kv_heads:
            out = args.output / f"{args.model.stem}-kv{n}.bin"
            is_healed, before = regroup.regroup(args.model, out, n) and args.heal is not None, None
            if is_healed and args.text:
                before = regroup.perplexity(out, args.text)
            if is_healed:
                regroup.heal(out, args.heal, args.steps)
            print(out)
            if args.text:
                rows.append(regroup.measure(out, n, args.text, args.depth, before))
        if rows:
            print("\n" + regroup.table(rows, args.depth))
        if args.plot:
            plot.save(regroup.draw(rows, args.depth, args.model.stem), args.plot)
    except (ConvertError, plot.PlotError) as e:
        print(f"regroup.py: {e}", file=sys.stderr)
        return e.code
    except ValueError as e:
        print(f"regroup.py: {e}", file=sys.stderr)
        return 3
    except OSError as e:
        print(f"regroup.py: {e.filename}: {e.strerror}", file=sys.stderr)
        return IO
    return 0


if __name__ == "__main__":
    sys.exit(main())
