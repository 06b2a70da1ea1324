#!/usr/bin/env python3
"""Prints src/text/unicode_tables.c, made by asking the tokenizers package about every code point.

    tools/unicode_tables.py >src/text/unicode_tables.c
    tools/unicode_tables.py --categories >src/sample/language/regex_categories.c

Example: tools/unicode_tables.py | diff - src/text/unicode_tables.c

Each takes about a minute. tern/testing/unicode_tables.py does the work.
"""

import argparse

from tern import script

if __name__ == "__main__":
    script.begin("numpy", "sentencepiece", "tokenizers", "tqdm")


def run(options: argparse.Namespace) -> None:
    from tern.testing import unicode_tables  # takes a second

    unicode_tables.write_categories() if options.categories else unicode_tables.write()


def main(arguments: list[str] | None = None) -> int:
    parser = script.parser("unicode_tables.py", __doc__)
    parser.add_argument("--categories", action="store_true", help="print src/sample/language/regex_categories.c")
    return script.guarded(parser, run, arguments)


if __name__ == "__main__":
    script.run(main)
