"""Writes tests/golden/tokenizers/*.bin: a small vocabulary of every kind and pattern, with the reference's answers.

Every vocabulary is trained here on text made from word lists, by the tokenizers and sentencepiece packages; they also
give the ids of 10,000 hard strings in both modes, and the texts of ids. The strings come from a seeded generator that
tests/support/hard_strings.c repeats, so only hashes are stored, one per 100 strings, beside some whole examples.
Usage: tools/make_test_vocabs.py [NAME ...]; with --corpus it writes what the fuzzer begins with.

tern/testing/vocabularies.py makes the vocabularies, vocabulary_file.py says what a file holds.
"""

import sys

from tern.programs import ROOT
from tern.testing.vocabularies import LEAN, VOCABULARIES, ours
from tern.testing.vocabulary_file import describe, write_corpus
from tern.weights import keys

TESTS = ROOT / "tests"


def main() -> None:
    if sys.argv[1:] == ["--corpus"]:
        return write_corpus(TESTS / "fuzz" / "corpus" / "fuzz_tokenizer")
    folder = TESTS / "golden" / "tokenizers"
    folder.mkdir(exist_ok=True)
    names = list(VOCABULARIES)
    for name in sys.argv[1:] or names:
        data = keys.pack(describe(ours(name), 1000 + names.index(name), name in LEAN))
        (folder / f"{name}.bin").write_bytes(data)
        print(f"{name}: {len(data)} bytes")


if __name__ == "__main__":
    main()
