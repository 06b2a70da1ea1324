#!/usr/bin/env python3
"""Compares the engine's tokenizer with the reference package, on real tokenizers.

    tools/check_tokenizer.py SOURCE [--strings N] [--seed S] [--vectors FILE.inp FILE.out]
    tools/check_tokenizer.py MODEL.bin --source SOURCE ...

Example: tools/check_tokenizer.py Qwen3-0.6B/tokenizer.json --strings 10000

SOURCE is a tokenizer.json, tokenizer.model, vocab.json, tokenizer.bin, a GGUF file, or a folder with one of them. The
section `tokenizer` is made from it, or taken from MODEL.bin, and driven through tests/prog/prog_tokenizer.c; the package
reads SOURCE itself. Compared: the ids of N hard strings in both modes, and the text of those ids. --vectors compares
with ids made elsewhere: strings separated by a line `__ggml_vocab_test__`, and a line of ids for each.
"""

import argparse
from pathlib import Path

from tern import script

if __name__ == "__main__":
    script.begin("jinja2", "numpy", "sentencepiece", "tokenizers", "tqdm", "xxhash")

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


def main(arguments: list[str] | None = None) -> int:
    parser = script.parser("check_tokenizer.py", __doc__)
    parser.add_argument("path", type=Path, metavar="SOURCE|MODEL.bin")
    parser.add_argument("--source", type=Path, help="the tokenizer that MODEL.bin was converted from")
    parser.add_argument("--strings", type=script.at_least(0), default=5000, metavar="N")
    parser.add_argument("--seed", type=script.at_least(0), default=1)
    parser.add_argument("--vectors", type=Path, nargs=2, metavar=("INP", "OUT"))
    return script.guarded(parser, run, arguments)


if __name__ == "__main__":
    script.run(main)
