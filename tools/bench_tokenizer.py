#!/usr/bin/env python3
"""Times the engine's tokenizer against the reference package on one core, both fed the same documents.

    tools/bench_tokenizer.py SOURCE TEXT [--bytes N] [--document N] [--rounds N]

Example: tools/bench_tokenizer.py Qwen3-0.6B/tokenizer.json book.txt

SOURCE is whatever tools/check_tokenizer.py takes. TEXT is cut at line ends into documents of about --document bytes,
which are encoded one after another, in plain mode, by tests/prog/prog_tokenizer.c and by the package in turns; the best round
of each counts. Of the package's encode and encode_batch_fast (no offsets) the faster counts. The ids are compared.
Exit code 1 when the ids differ or the engine is slower.
"""

import argparse
import os
from pathlib import Path

from tern import script

if __name__ == "__main__":
    script.begin("jinja2", "numpy", "sentencepiece", "tokenizers", "tqdm", "xxhash")
os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}  # before the package is imported

from tern.testing import tokenizer_bench


def run(options: argparse.Namespace) -> int:
    return int(not tokenizer_bench.run(options.source, options.text, options.bytes, options.document, options.rounds))


def main(arguments: list[str] | None = None) -> int:
    parser = script.parser("bench_tokenizer.py", __doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--bytes", type=script.at_least(1), default=10_000_000, metavar="N")
    parser.add_argument("--document", type=script.at_least(1), default=4096, metavar="N")
    parser.add_argument("--rounds", type=script.at_least(1), default=3, metavar="N")
    return script.guarded(parser, run, arguments)


if __name__ == "__main__":
    script.run(main)
