#!/usr/bin/env python3
"""Prints the table of the models that people use, as it stands in tools/README.md.

    tools/model_table.py [--write]

The sizes are those of the planner (get.py --plan) on the published configs; nothing is downloaded.
"""

import argparse
import sys

from tern.errors import ConvertError


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="model_table.py", description="Prints the table of models in tools/README.md, with the planner's sizes.",
        epilog="Example: tools/model_table.py --write",
    )  # fmt: skip
    parser.add_argument("--write", action="store_true", help="put it into tools/README.md")
    options = parser.parse_args()
    try:
        from tern.testing import models

        table = "".join(row + "\n" for row in models.rows())
        if options.write:
            before, _, after = models.parts()
            models.README.write_text(before + table + after)
        else:
            print(table, end="")
    except ConvertError as e:
        print(f"model_table.py: {e}", file=sys.stderr)
        return e.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
