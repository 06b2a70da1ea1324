"""libtern.so from Python: a model and a context, open, used by one thread at a time, and closed.

In:  a file and how to open it. Out: what steps a batch, cancels it, and lends sequences and memory.
"""

import ctypes
import functools
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from .errors import IO, USAGE, ConvertError
from .structs import ASK, CACHE_TYPES, CANCELLED, ROWS, ContextParams, Error, Memory, ModelInfo, ModelParams, declare
from .waiting import Turn, interruptible

T = TypeVar("T")


@functools.cache
def load(path: Path) -> ctypes.CDLL:
    """The library at a path."""
    try:
        return declare(ctypes.CDLL(str(path)))
    except (OSError, AttributeError) as e:
        raise ConvertError(f"{path} is not the library of this version ({e}); run `make`", IO) from None


class Handle:
    """A model and one context of `n_ctx` positions; a with-statement or close() closes both. Opening fails with ConvertError."""

    _handles: tuple = ()

    def __init__(
        self, library: Path, model: Path, n_ctx: int, *, cpu: str | None = None, n_threads: int = 0, n_batch: int = ROWS,
        cache_type: str = "f32", n_seqs: int = 1, load_how: int = 0, fingerprint: bool = False,
    ):  # fmt: skip
        self.lib, self.info, self._pid = load(library.resolve()), ModelInfo(), os.getpid()
        self.turn, self.free_seqs = Turn(), []
        self.rows: weakref.WeakSet = weakref.WeakSet()  # attention.Attention, closed before the model is
        self.steps = 0  # batches so far: what was borrowed before the last one is gone
        self._failed: BaseException | None = None  # of a callback
        self._lent: set[int] = set()  # views of the context's memory
        self._closing = False
        if cache_type not in CACHE_TYPES:
            raise ConvertError(f"cache_type: {cache_type!r} is not one of {', '.join(CACHE_TYPES)}", USAGE)
        self._stops = stops = [False]
        self._ask = ASK(lambda _: stops[0])  # while it opens and checks
        kind = ModelParams(n_threads, cpu and cpu.encode(), load_how, self._ask)
        params = ContextParams(n_ctx, n_batch, n_seqs, CACHE_TYPES.index(cache_type), fingerprint)
        interruptible(lambda: self._open(model, kind, params), self._cancel_open)
        self.lib.tern_model_info(self.model, ctypes.byref(self.info))
        self.vocab, memory = self.info.vocab, self.memory()
        self.n_ctx, self.n_batch = memory.n_ctx, memory.n_batch
        self.free_seqs = list(range(memory.n_seqs))

    def _open(self, model: Path, kind: ModelParams, params: ContextParams) -> None:
        handle, context = ctypes.c_void_p(), ctypes.c_void_p()
        self._try("tern_model_open", ctypes.byref(handle), os.fsencode(model), ctypes.byref(kind))
        try:
            self._try("tern_context_open", ctypes.byref(context), handle, ctypes.byref(params))
        except ConvertError:
            self.lib.tern_model_close(handle)
            raise
        self._handles = (context, handle)

    def _cancel_open(self) -> None:
        self._stops[0] = True

    def check(self) -> None:
        """Verifies the checksum of every tensor."""
        self.run(lambda: self._try("tern_model_check", self.model))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        """Ends what runs, and frees the memory, or leaves that to the last view of it."""
        if not self._handles or self._closing:
            return
        if self.is_forked:
            self._handles = ()
            return
        self.turn.end(self.cancel)
        self._closing = True
        for rows in list(self.rows):
            rows.close()
        self.turn.give()
        if not self._lent:
            self._free()

    def __del__(self) -> None:
        self.close()

    def _free(self) -> None:
        handles, self._handles = self._handles, ()
        if handles and not self.is_forked:
            self.lib.tern_context_close(handles[0])
            self.lib.tern_model_close(handles[1])

    @property
    def is_forked(self) -> bool:
        """In a child of the process that opened it there are none of its threads, so nothing may wait for them."""
        return os.getpid() != self._pid

    def _handle(self, i: int) -> ctypes.c_void_p:
        if self.is_forked:
            raise ConvertError("the model was opened before this process was forked; open it again in this one", USAGE)
        if not self._handles or self._closing:
            raise ConvertError("the model is closed", USAGE)
        return self._handles[i]

    @property
    def context(self) -> ctypes.c_void_p:
        return self._handle(0)

    @property
    def model(self) -> ctypes.c_void_p:
        return self._handle(1)

    # ---- calls ----

    def _fails(self, name: str, *arguments) -> Error | None:
        error = Error()
        return error if getattr(self.lib, name)(*arguments, ctypes.byref(error)) else None

    def _call(self, name: str, *arguments) -> None:
        if error := self._fails(name, *arguments):
            raise RuntimeError(f"{name}: {error.sentence}")

    def _try(self, name: str, *arguments) -> None:
        """A call whose failure is the input's fault."""
        if error := self._fails(name, *arguments):
            raise ConvertError(error.sentence, error.code)

    def memory(self) -> Memory:
        """What the open context takes."""
        plan = Memory()
        self.lib.tern_context_memory(self.context, ctypes.byref(plan))
        return plan

    # ---- one thing at a time ----

    def run(self, work: Callable[[], T]) -> T:
        """work(), while nobody else uses the context; Ctrl-C ends it."""
        _ = self.context
        with self.turn:
            try:
                return interruptible(lambda: self.within(work), self.cancel)
            except BaseException:
                self.clear()
                raise

    def within(self, work: Callable[[], T]) -> T:
        """work(), marked as what runs the engine in this thread."""
        self.turn.inside.add(threading.get_ident())
        try:
            return work()
        finally:
            self.turn.inside.discard(threading.get_ident())

    def cancel(self) -> None:
        self._stops[0] = True
        self.lib.tern_cancel(self.context)

    def clear(self) -> None:
        """Forgets the batch being built, and a cancel that came too late."""
        self._failed, self._stops[0] = None, False
        self.lib.tern_batch_clear(self.context)
        self.lib.tern_forward(self.context)

    def guarded(self, call: Callable) -> Callable:
        """A callback for the engine, whose exception ends the step and comes out of forward()."""

        def guarded(*arguments):
            try:
                return None if self._failed else call(*arguments)
            except BaseException as e:
                self._failed = e
                self.cancel()

        return guarded

    def add(self, token: int, flags: int = 0, seq: int = 0) -> None:
        """A row of the next batch."""
        self._try("tern_batch_add", self.context, seq, int(token), flags)

    def forward(self) -> None:
        """Evaluates the batch."""
        status = self.lib.tern_forward(self.context)
        self.steps += 1
        failed, self._failed = self._failed, None
        if failed:
            raise failed
        if status:
            raise ConvertError("the step was cancelled", CANCELLED)

    def view(self, address: int, rows: int, columns: int, stride: int) -> np.ndarray:
        """f32 [rows, columns] of the context's memory, to be read only. The memory stays until the last view of it is gone."""
        memory = (ctypes.c_float * (rows * stride)).from_address(address)
        self._lent.add(id(memory))
        weakref.finalize(memory, self._returned, id(memory)).atexit = False
        return np.frombuffer(memoryview(memory).toreadonly(), np.float32).reshape(rows, stride)[:, :columns]

    def _returned(self, key: int) -> None:
        self._lent.discard(key)
        if self._closing and not self._lent:
            self._free()

    def run_alone(self, work: Callable[[int], T]) -> T:
        """work(seq) with a sequence that nobody holds."""

        def lent() -> T:
            seq = self.take_seq()
            try:
                return work(seq)
            finally:
                self.give_seq(seq)

        return self.run(lent)

    def take_seq(self) -> int:
        if not self.free_seqs:
            raise ConvertError("all sequences of the model are in use; close one, or open the model with a larger n_seqs", USAGE)
        self.free_seqs.sort()
        return self.free_seqs.pop(0)

    def give_seq(self, seq: int) -> None:
        self.free_seqs.append(seq)
