"""Text as it is made: an iterator over its pieces, which a thread of the engine fills.

In:  an engine, a sequence, token ids, options. Out: pieces of text, and at the end a Result.
"""

import atexit
import ctypes
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from .errors import USAGE, ConvertError
from .library import Engine
from .options import Options
from .receipt import write
from .structs import CANCELLED, ON_PROMPT, ON_TEXT, ON_TOKEN, STOPS, GenerateResult
from .waiting import Worker

AHEAD = 64  # pieces that the engine may be ahead of who reads them
END = object()


@dataclass
class Result:
    """What became of a text.

    text      str, without the prompt and without the string that ended it
    tokens    the ids that were chosen, an end token too
    reason    "end" (an end token), "length" (n_predict), "context" (full), "string" (of `stop`), "cancelled" (closed early);
              "complete": the text is all that its constraint demands
    seed      of the random numbers: with it, everything comes again
    n_prompt  tokens of the prompt that were evaluated, n_reused: those that the context still held
    n_forced  of n_generated, tokens that the constraint left no choice of
    receipt   of receipt=True: a text with which Model.verify_receipt proves the answer
    left_out  what json_schema_lax left to you
    """

    text: str = ""
    tokens: list[int] = field(default_factory=list)
    reason: str = "cancelled"
    seed: int = 0
    n_prompt: int = 0
    n_reused: int = 0
    n_generated: int = 0
    prompt_seconds: float = 0.0
    generate_seconds: float = 0.0
    n_steps: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    n_shifts: int = 0
    n_shifted: int = 0
    n_again: int = 0
    n_forced: int = 0
    receipt: str | None = None
    left_out: list[str] = field(default_factory=list)


class Stream:
    """tern_generate in a thread. Who reads the pieces holds a Generation, so that one that nobody reads any more can end this."""

    def __init__(
        self, engine: Engine, options: Options, prepare: Callable[["Stream"], tuple[int, list[int]]], ended: Callable[["Stream", int], None]
    ):
        """prepare: the sequence and the ids to evaluate; ended: gets the last token, which the sequence lacks, or -1. Both run in the
        thread of the engine."""
        self.engine, self.options, self.prepare, self.ended = engine, options, prepare, ended
        self.owner = threading.get_ident()
        self.pieces: queue.SimpleQueue = queue.SimpleQueue()
        self.room = threading.Semaphore(AHEAD)
        self.result = Result(seed=options.sampler.seed, left_out=options.left_out)
        self.said: list[str] = []
        self.error: BaseException | None = None
        self.closed, self.is_running, self.running = False, True, threading.Lock()
        self.seq: int | None = None
        self.worker: Worker | None = None

    def begin(self) -> None:
        self.engine.context  # noqa: B018  it is open
        self.engine.turn.take(self)
        self.drafter = self.options.draft and self.options.draft._engine  # whose turn is taken, too
        worker = None
        try:
            if self.drafter:
                self._take_draft()
            open_streams.add(self)
            self.worker = worker = Worker(self._run, self._cancel)
            worker.start()
        except BaseException:
            if not worker or worker.stop():
                self._give()
            raise

    def _take_draft(self) -> None:
        drafter, self.drafter = self.drafter, None
        if drafter is self.engine:
            raise ConvertError("draft: a model cannot guess for itself; open a smaller one", USAGE)
        self.options.params.draft = drafter.context
        if 0 not in drafter.free_seqs:
            raise ConvertError("draft: sequence 0 of that model is in use", USAGE)
        drafter.turn.take(self)
        self.drafter = drafter

    def _give(self) -> None:
        if self.drafter:
            self.drafter.turn.give()
        self.engine.turn.give()

    def _run(self) -> None:
        """In the worker."""
        raw = GenerateResult(last=-1)
        try:
            self.engine.within(lambda: self._generate(raw))
        except BaseException as e:
            self.error = self.error or e
        finally:
            with self.running:
                self.is_running = False
            self._settle(raw)
            if self.closed:
                self.engine.clear()
            self._give()
            self.pieces.put(END)

    def _generate(self, raw: GenerateResult) -> None:
        engine, p = self.engine, self.options.params
        p.seq, ids = self.prepare(self)
        held = engine.lib.tern_seq_tokens(engine.context, p.seq)[: engine.lib.tern_seq_length(engine.context, p.seq)]
        p.tokens, p.n_tokens = (ctypes.c_int32 * max(1, len(ids)))(*ids), len(ids)
        p.on_text, p.on_token = ON_TEXT(self._guard(self._on_text)), ON_TOKEN(self._guard(self._on_token))
        p.on_prompt = ON_PROMPT(self._guard(self._on_prompt)) if self.options.on_prompt else ON_PROMPT()
        if self.closed:
            return
        error = engine._fails("tern_generate", engine.context, ctypes.byref(p), ctypes.byref(raw))
        engine.steps += 1
        if self.options.receipt and not error and not self.closed and not self.error:
            self.result.receipt = write(engine, self.options, held + ids, self.result.tokens, raw)
        p.on_text, p.on_token, p.on_prompt = ON_TEXT(), ON_TOKEN(), ON_PROMPT()  # they hold this object
        if error and not self.error:
            self.error = ConvertError(error.sentence, error.code)

    def _guard(self, call: Callable) -> Callable:
        """What goes wrong in a callback ends the text, and comes out of next()."""

        def guarded(_, *arguments) -> int:
            try:
                return int(self.closed or call(*arguments))
            except BaseException as e:
                self.error = self.error or e
                return 1

        return guarded

    def _on_text(self, token: int, piece, n: int) -> bool:
        if n:
            self.room.acquire()
        if n and not self.closed:
            text = ctypes.string_at(piece, n).decode(errors="replace")
            self.said.append(text)
            self.pieces.put(text)
        return self.closed

    def _on_token(self, token: int, logits) -> bool:
        self.result.tokens.append(token)
        if self.options.on_token:
            self.options.on_token(token, np.ctypeslib.as_array(logits, (self.engine.vocab,)).copy() if logits else None)
        return False

    def _on_prompt(self, done: int, total: int) -> bool:
        self.options.on_prompt(done, total)
        return False

    def _settle(self, raw: GenerateResult) -> None:
        r = self.result
        r.text = "".join(self.said)
        for name, _ in GenerateResult._fields_:
            if hasattr(r, name) and name != "reason":
                setattr(r, name, getattr(raw, name))
        r.reason = "cancelled" if self.closed or self.error else STOPS[raw.reason]
        self.ended(self, raw.last)

    def _cancel(self) -> None:
        self.room.release()
        with self.running:
            if self.is_running:  # else it would cancel what comes next
                self.engine.cancel()

    def close(self) -> None:
        self.closed = True
        if self.worker and not self.engine.is_forked:
            self.worker.stop()


def one(engine: Engine, options: Options, ids: list[int]) -> Stream:
    """A text of its own, in a sequence that nobody holds; what the sequence has in common with the prompt is not evaluated again."""

    def prepare(stream: Stream) -> tuple[int, list[int]]:
        stream.seq = engine.take_seq()
        array = (ctypes.c_int32 * max(1, len(ids)))(*ids)
        n = engine.lib.tern_seq_reuse(engine.context, stream.seq, array, 0 if options.params.logits_all else len(ids))
        stream.result.n_reused = n
        return stream.seq, ids[n:]

    def ended(stream: Stream, _: int) -> None:
        if stream.seq is not None:
            engine.give_seq(stream.seq)

    return Stream(engine, options, prepare, ended)


open_streams: weakref.WeakSet = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """Before Python ends, for a thread of the engine would call into what is no more."""
    for stream in list(open_streams):
        stream.close()


class Generation:
    """An iterator over the pieces of a text. The text begins with the first piece that is asked for, and is made at most 64 pieces
    ahead. `result` has everything once it has ended. close(), a with-statement, or dropping the iterator ends it early; so does Ctrl-C, and
    so does another call for the same model by the thread that began it. What a callback raises comes out of next()."""

    def __init__(self, stream: Stream):
        self._stream, self._over = stream, False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._over:
            raise StopIteration
        stream = self._stream
        try:
            if not stream.worker:
                stream.begin()
            piece = END if stream.closed or not stream.engine.context else stream.pieces.get()
        except BaseException:
            self.close()
            raise
        if piece is not END:
            stream.room.release()
            return piece
        self._over = True
        if stream.error:
            raise stream.error
        if stream.closed:
            raise ConvertError("this text was ended, because its model was asked for something else or closed", CANCELLED)
        raise StopIteration

    @property
    def result(self) -> Result:
        """What became of the text, once it has ended or was closed."""
        if not self._over:
            raise ConvertError("the text has not ended yet: read the iterator to its end, or close it", USAGE)
        return self._stream.result

    def close(self) -> None:
        """Ends the text where it is."""
        if not self._over:
            self._over = True
            self._stream.close()

    def __enter__(self) -> "Generation":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
