#!/usr/bin/env python3
"""Prints the table of the models that people use, as it stands in tools/README.md.

    tools/model_table.py [--write]

Example: tools/model_table.py --write

The sizes are those of the planner (get.py --plan) on the published configs; nothing is downloaded.
"""

import argparse

from tern import script

if __name__ == "__main__":
    script.begin("huggingface_hub", "jinja2", "numpy", "sentencepiece", "tokenizers", "tqdm", "xxhash")

from tern.testing import models


def run(options: argparse.Namespace) -> None:
    table = "".join(row + "\n" for row in models.rows())
    if not options.write:
        return print(table, end="")
    before, _, after = models.parts()
    models.README.write_text(before + table + after)


def main(arguments: list[str] | None = None) -> int:
    parser = script.parser("model_table.py", __doc__)
    parser.add_argument("--write", action="store_true", help="put it into tools/README.md")
    return script.guarded(parser, run, arguments)


if __name__ == "__main__":
    script.run(main)
