#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/*.bin: a small vocabulary of every kind and pattern, with the reference's answers.

Every vocabulary is trained here on text made from word lists, by the tokenizers and sentencepiece packages; they also
give the ids of 10,000 hard strings in both modes, and the texts of ids. The strings come from a seeded generator that
tests/support/hard_strings.c repeats, so only hashes are stored, one per 100 strings, beside some whole examples.
Usage: tools/make_test_vocabs.py [NAME ...]; with --corpus it writes what the fuzzer begins with.

tern/testing/vocabularies.py makes the vocabularies, vocabulary_file.py says what a file holds.
"""

import argparse


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="vocabularies (default: all)")
    parser.add_argument("--corpus", action="store_true", help="write what the fuzzer begins with instead")
    given = parser.parse_args()
    from tern.programs import ROOT
    from tern.testing.vocabularies import LEAN, VOCABULARIES, ours
    from tern.testing.vocabulary_file import describe, write_corpus
    from tern.weights import keys

    names = list(VOCABULARIES)
    for name in given.names:
        if name not in names:
            parser.error(f"no vocabulary {name}; known: {', '.join(names)}")
    if given.corpus:
        return write_corpus(ROOT / "tests" / "fuzz" / "corpus" / "fuzz_tokenizer")
    folder = ROOT / "tests" / "golden" / "tokenizers"
    folder.mkdir(exist_ok=True)
    for name in given.names or names:
        data = keys.pack(describe(ours(name), 1000 + names.index(name), name in LEAN))
        (folder / f"{name}.bin").write_bytes(data)
        print(f"{name}: {len(data)} bytes")


if __name__ == "__main__":
    main()
