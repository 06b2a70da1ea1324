"""An encoded split as endless windows of tokens."""

import numpy as np

from ..errors import reading


def split(path):
    """The documents of an encoded split, each an array of ids."""
    with reading(f"{path}, an encoded split,"), np.load(path) as data:
        return np.split(data["ids"], np.cumsum(data["lengths"])[:-1])


class Stream:
    """Endless windows of `length + 1` tokens from one split; documents are shuffled anew every pass.
    `whole`: a document that a window cut off begins the next one, as long as it is not longer than a window."""

    def __init__(self, path, seed, whole):
        self.docs = split(path)
        self.seed, self.epoch, self.at, self.ids, self.whole = seed, 0, 0, None, whole

    def window(self, length):
        if self.ids is not None and self.at + length >= len(self.ids):
            self.epoch, self.at, self.ids = self.epoch + 1, 0, None
        if self.ids is None:
            order = np.random.default_rng([self.seed, self.epoch]).permutation(len(self.docs))
            self.ids = np.concatenate([self.docs[i] for i in order])
            self.starts = np.cumsum([0] + [len(self.docs[i]) for i in order])
        row = self.ids[self.at: self.at + length + 1]
        cut = self.starts[np.searchsorted(self.starts, self.at + length, "right") - 1]
        self.at = int(cut) if self.whole and cut > self.at else self.at + length
        return row.astype(np.int64)
