#!/usr/bin/env python3
"""Prints the table of the models that people use, as it stands in tools/README.md.

    tools/model_table.py [--write]

Example: tools/model_table.py --write

The sizes are those of the planner (get.py --plan) on the published configs; nothing is downloaded.
"""

import argparse

from tern import script

if __name__ == "__main__":
    script.begin("numpy", "xxhash")


def parser() -> argparse.ArgumentParser:
    parser = script.parser("model_table.py", __doc__)
    parser.add_argument("--write", action="store_true", help="put it into tools/README.md")
    return parser


def run(options: argparse.Namespace) -> None:
    from tern.testing import models

    table = "".join(row + "\n" for row in models.rows())
    if options.write:
        before, _, after = models.parts()
        models.README.write_text(before + table + after)
    else:
        print(table, end="")


def main(arguments: list[str] | None = None) -> int:
    return script.guarded(parser(), run, arguments)


if __name__ == "__main__":
    script.run(main)
