"""A text in a context of its own place: fed, cut, copied, saved, and gone on from.

In:  texts or ids. Out: logits, tokens, generated text.
"""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .errors import USAGE, ConvertError
from .generate import Generation, Stream
from .library import Engine
from .options import Options
from .structs import WANTS_LOGITS
from .values import U32, path as named, whole

Ids = Callable[[object, bool], list[int]]


class Sequence:
    """The tokens of one text, with their keys and values. Model.sequence() opens one; it takes one of the model's n_seqs sequences until it
    is closed or dropped.

        with model.sequence() as story:
            story.feed("Once upon a time")
            other = story.fork()          # needs n_seqs=2
            text = "".join(story.generate(n_predict=20))

    `tokens` has all tokens, also the last that generate chose. Those that the context lacks are evaluated when they are needed, so every
    number is that of a fresh evaluation of `tokens`, bit for bit.
    """

    def __init__(self, engine: Engine, ids: Ids):
        self._engine, self._ids, self._seq = engine, ids, engine.take_seq()
        self._ahead: list[int] = []  # tokens that the context lacks
        self._logits: np.ndarray | None = None  # after the last token
        self._step = -1  # the engine's step that computed them
        self._is_open = True
        engine.lib.tern_seq_keep(engine.context, self._seq, 0)

    def close(self) -> None:
        """Gives its place back."""
        if self._is_open:
            self._is_open = False
            self._engine.give_seq(self._seq)

    def __enter__(self) -> "Sequence":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_is_open"):
            self.close()

    def __len__(self) -> int:
        return self._length + len(self._ahead)

    @property
    def _context(self) -> ctypes.c_void_p:
        if not self._is_open:
            raise ConvertError("the sequence is closed", USAGE)
        return self._engine.context

    @property
    def _length(self) -> int:
        return self._engine.lib.tern_seq_length(self._context, self._seq)

    @property
    def tokens(self) -> list[int]:
        """The ids of its text."""
        n = self._length
        return self._engine.lib.tern_seq_tokens(self._context, self._seq)[:n] + self._ahead if n else list(self._ahead)

    def feed(self, prompt) -> None:
        """Appends a text or token ids, and evaluates them. A text at the beginning gets BOS where the model's tokenizer adds it. tern.Error
        where the context has no room; the sequence is then as it was, as after Ctrl-C.

        Example: story.feed(" and then")
        """
        before, ids = self.tokens, self._ids(prompt, not len(self))
        try:
            self._engine.run(lambda: self._evaluate(ids))
        except BaseException:
            self._become(before)
            raise

    def _become(self, tokens: list[int]) -> None:
        """Has only these tokens, with which its own begin."""
        n = self._engine.lib.tern_seq_keep(self._context, self._seq, min(len(tokens), self._length))
        self._ahead, self._logits = tokens[n:], None

    def _evaluate(self, ids: list[int]) -> None:
        engine, todo = self._engine, self._ahead + ids
        self._logits = None
        engine.lib.tern_seq_expect(self._context, self._seq, self._length + len(todo))
        while todo:
            chunk, todo = todo[: engine.n_batch], todo[engine.n_batch :]
            for i, token in enumerate(chunk):
                engine.add(token, 0 if todo or i + 1 < len(chunk) else WANTS_LOGITS, self._seq)
            engine.forward()
            self._ahead = self._ahead[len(chunk) :]
            if not todo:
                self._logits, self._step = engine.last_logits(1)[0].copy(), engine.steps
        engine.lib.tern_seq_expect(self._context, self._seq, 0)
        engine.check_numbers()

    def logits(self, copy: bool = True) -> np.ndarray:
        """f32 [vocab]: rates each token as the next one. Without `copy` it is a read-only view of the engine's memory, which keeps
        that memory and which the next step of this model overwrites.

        Example: int(story.logits().argmax())
        """
        if not len(self):
            raise ConvertError("the sequence has no tokens yet; feed it", USAGE)
        if self._logits is None or self._ahead or not (copy or self._step == self._engine.steps):
            tokens = self.tokens
            if not self._ahead:
                self._become(tokens[:-1])
                self._ahead = tokens[self._length :]
            self._engine.run(lambda: self._evaluate([]))
        return self._logits.copy() if copy else self._engine.last_logits(1)[0]

    def keep(self, n: int) -> None:
        """Keeps the first n tokens, at most as many as there are. Example: story.keep(len(story) - 1)"""
        tokens = self.tokens
        n = whole("keep", n, -U32, U32)
        if not 0 <= n <= len(tokens):
            raise ConvertError(f"the sequence has {len(tokens)} tokens; it cannot keep {n}", USAGE)
        self._engine.run(lambda: self._become(tokens[:n]))

    def fork(self) -> "Sequence":
        """A copy in another of the model's sequences; the two share memory. Example: other = story.fork()"""
        other, tokens = Sequence(self._engine, self._ids), self.tokens
        n = self._engine.run(lambda: self._engine.lib.tern_seq_fork(self._context, self._seq, other._seq, self._length))
        other._ahead, other._logits = tokens[n:], self._logits
        return other

    def save(self, path: str | Path) -> None:
        """Writes it to a session file, as ./run --session does: load() goes on with it another time, bit for bit. The file gets mode
        0600. Example: story.save("story.session")"""
        file = named("path", path)
        if self._ahead:
            self._engine.run(lambda: self._evaluate([]))
        self._engine.run(lambda: self._engine._try("tern_session_save", self._context, self._seq, os.fsencode(file)))

    def load(self, path: str | Path) -> None:
        """Becomes what a session file holds, of the same model and cache type. Every byte is verified first; after a tern.Error
        the sequence is as it was. Example: story.load("story.session")"""
        file = named("path", path)
        self._engine.run(lambda: self._engine._try("tern_session_load", self._context, self._seq, os.fsencode(file)))
        self._ahead, self._logits = [], None

    def generate(self, prompt="", **options) -> Generation:
        """As Model.generate of a single text; the prompt follows what the sequence holds, and the text becomes a part of it.

        Example: text = "".join(story.generate(n_predict=20, temperature=0))
        """
        chosen, ids = Options(self._engine, options), self._ids(prompt, not len(self))
        length = [0]

        def prepare(_: Stream) -> tuple[int, list[int]]:
            if not ids and not self._ahead:  # the last token again, for its logits
                tokens = self.tokens
                self._become(tokens[:-1])
                self._ahead = tokens[self._length :]
            self._logits, length[0] = None, self._length
            return self._seq, self._ahead + ids

        def ended(_: Stream, last: int) -> None:
            if last >= 0:
                self._ahead = [last]
            elif self._length != length[0]:
                self._ahead = []

        return Generation(Stream(self._engine, chosen, prepare, ended))
