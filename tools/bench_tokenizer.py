#!/usr/bin/env python3
"""Times the engine's tokenizer against the reference package on one core, both fed the same documents.

    tools/bench_tokenizer.py SOURCE TEXT [--bytes N] [--document N] [--rounds N]

SOURCE is whatever tools/check_tokenizer.py takes. TEXT is cut at line ends into documents of about --document bytes,
which are encoded one after another, in plain mode, by tests/prog/prog_tokenizer.c and by the package in turns; the best round
of each counts. Of the package's encode and encode_batch_fast (no offsets) the faster counts. The ids are compared.
Exit code 1 when the ids differ or the engine is slower.
"""

import argparse
import os
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--bytes", type=int, default=10_000_000, metavar="N")
    parser.add_argument("--document", type=int, default=4096, metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    given = parser.parse_args()
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}  # before the package is imported
    from tern.errors import ConvertError
    from tern.testing.tokenizer_bench import run

    try:
        return int(not run(given.source, given.text, given.bytes, given.document, given.rounds))
    except (ConvertError, OSError) as e:
        print(f"bench_tokenizer: {e}", file=sys.stderr)
        return getattr(e, "code", 4)


if __name__ == "__main__":
    sys.exit(main())
