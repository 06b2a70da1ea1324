"""Raw texts in, clean documents out: books by how simply they read, picture books, stories, and two held-out splits."""

import re
from pathlib import Path

from .documents import EOT, text_of, write_documents
from .texts import clean, lower_opening, sort_by_simplicity, split_sample

TEST_STORIES = 100  # the last ones of the sample: never trained on, the acceptance text
VALID_STORIES, VALID_EVERY = 30, 13  # every 13th of the 390 before them: watched during training, never trained on
PICTURE_BOOKS = 711  # the last documents of the corpus are the modern picture books (credits.tsv)


def prepare(args):
    """corpus + sample -> tales (simplest third of the books), books (the rest), pictures, stories, valid, test."""
    text, work = Path(args.text), Path(args.work)
    work.mkdir(parents=True, exist_ok=True)
    corpus = text_of(text / "corpus_children.txt").split(EOT)
    corpus = [lower_opening(clean(d)) for d in corpus if d.strip()]
    books, pictures = corpus[:-PICTURE_BOOKS], corpus[-PICTURE_BOOKS:]
    sample = clean(text_of(text / "tinystories_sample_944k.txt"))
    # The held-out stories are cut by the plain rule, so that "the last 100" needs no judgement of ours.
    plain = [s for s in re.split(r"(?<!\n)\n(?!\n)", sample) if s]
    test, rest = plain[-TEST_STORIES:], plain[:-TEST_STORIES]
    valid = rest[-VALID_STORIES * VALID_EVERY::VALID_EVERY]
    stories = split_sample("\n".join(s for s in rest if s not in set(valid + test)))
    books = sort_by_simplicity([b for b in books if len(b) > 100], stories + pictures)
    size, third = 0, sum(map(len, books)) / 3
    for cut, book in enumerate(books):
        size += len(book)
        if size > third:
            break
    write_documents(work / "tales.txt", books[:cut])
    write_documents(work / "books.txt", books[cut:])
    write_documents(work / "pictures.txt", [p for p in pictures if len(p) > 100])
    write_documents(work / "stories.txt", stories)
    write_documents(work / "valid.txt", valid)
    write_documents(work / "test.txt", test)
