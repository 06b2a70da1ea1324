"""Compares the engine's tokenizer with the reference package, on real tokenizers.

    tools/check_tokenizer.py SOURCE [--strings N] [--seed S] [--vectors FILE.inp FILE.out]
    tools/check_tokenizer.py MODEL.bin --source SOURCE ...

SOURCE is a tokenizer.json, tokenizer.model, vocab.json, tokenizer.bin, a GGUF file, or a folder with one of them. The
section `tokenizer` is made from it, or taken from MODEL.bin, and driven through tests/prog/prog_tokenizer.c; the package
reads SOURCE itself. Compared: the ids of N hard strings in both modes, and the text of those ids. --vectors compares
with ids made elsewhere: strings separated by a line `__ggml_vocab_test__`, and a line of ids for each.
Exit code 1 when anything differs.
"""

import argparse
import sys
from pathlib import Path

from tern.convert.files.file import begins_with
from tern.convert.tokenizers.section import section
from tern.errors import USAGE, ConvertError
from tern.testing.tokenizer_check import Engine, Report, compare, compare_vectors, load
from tern.weights.reader import WeightsFile
from tern.weights.writer import MAGIC


def run(options: argparse.Namespace) -> int:
    is_model = options.source is not None
    if not is_model and options.path.is_file() and begins_with(options.path, MAGIC):
        raise ConvertError(f"{options.path} is a weights file: --source names the tokenizer that it was made from", USAGE)
    t = load(options.source or options.path)
    engine = Engine(WeightsFile(options.path).sections["tokenizer"] if is_model else section(t))
    report = Report()
    if options.vectors:
        compare_vectors(engine, *options.vectors, report)
    elif t.reference is None:
        raise ConvertError("no reference package reads this tokenizer: compare with --vectors", USAGE)
    else:
        compare(t, engine, options.strings, options.seed, report)
    engine.close()
    name = "given vectors" if options.vectors else t.reference.name
    print(f"{options.path}: {report.compared - report.differ} of {report.compared} comparisons with {name} agree")
    return 1 if report.differ else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("path", type=Path, metavar="SOURCE|MODEL.bin")
    parser.add_argument("--source", type=Path, help="the tokenizer that MODEL.bin was converted from")
    parser.add_argument("--strings", type=int, default=5000, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vectors", type=Path, nargs=2, metavar=("INP", "OUT"))
    try:
        return run(parser.parse_args())
    except (ConvertError, OSError, ValueError) as e:
        print(f"check_tokenizer: {e}", file=sys.stderr)
        return getattr(e, "code", 4)


if __name__ == "__main__":
    sys.exit(main())
