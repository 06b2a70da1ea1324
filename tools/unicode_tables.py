#!/usr/bin/env python3
"""Prints src/text/unicode_tables.c, made by asking the tokenizers package about every code point.

    tools/unicode_tables.py > src/text/unicode_tables.c

It takes about a minute. tern/testing/unicode_tables.py does the work.
"""

import argparse

if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    from tern.testing import unicode_tables

    unicode_tables.write()
