#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/*.bin: a small vocabulary of every kind and pattern, with the reference's answers.

    tools/make_test_vocabs.py [NAME ...] [--corpus]

Example: tools/make_test_vocabs.py qwen2

Every vocabulary is trained here on text made from word lists, by the tokenizers and sentencepiece packages; they also
give the ids of 10,000 hard strings in both modes, and the texts of ids. The strings come from a seeded generator that
tests/support/hard_strings.c repeats, so only hashes are stored, one per 100 strings, beside some whole examples.

tern/testing/vocabularies.py makes the vocabularies, vocabulary_file.py says what a file holds.
"""

import argparse

from tern import script

if __name__ == "__main__":
    script.begin("jinja2", "numpy", "sentencepiece", "tokenizers", "tqdm", "xxhash")

from tqdm import tqdm

from tern.errors import USAGE, ConvertError
from tern.programs import ROOT
from tern.testing.vocabularies import LEAN, VOCABULARIES, ours
from tern.testing.vocabulary_file import describe, write_corpus
from tern.weights import keys


def run(options: argparse.Namespace) -> None:
    names = list(VOCABULARIES)
    for name in options.names:
        if name not in names:
            raise ConvertError(f"no vocabulary {name}; known: {', '.join(names)}", USAGE)
    if options.corpus:
        return write_corpus(ROOT / "tests" / "fuzz" / "corpus" / "fuzz_tokenizer")
    folder = ROOT / "tests" / "golden" / "tokenizers"
    folder.mkdir(exist_ok=True)
    for name in tqdm(options.names or names, desc="vocabularies", disable=None, leave=False):
        data = keys.pack(describe(ours(name), 1000 + names.index(name), name in LEAN))
        (folder / f"{name}.bin").write_bytes(data)
        print(f"{name}: {len(data)} bytes")


def main(arguments: list[str] | None = None) -> int:
    parser = script.parser("make_test_vocabs.py", __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="vocabularies (default: all)")
    parser.add_argument("--corpus", action="store_true", help="write what the fuzzer begins with instead")
    return script.guarded(parser, run, arguments)


if __name__ == "__main__":
    script.run(main)
