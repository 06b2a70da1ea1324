"""Long work that Ctrl-C ends, and whose turn it is to use a context.

In:  a function that runs the engine, and one that cancels it. Out: what the first returned or raised.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from .errors import USAGE, ConvertError

T = TypeVar("T")
PAUSE = 0.02  # seconds between two attempts to cancel: one that comes before the work has begun is lost


class Worker:
    """work() in a thread of its own. The engine works there without Python's lock, and the main thread, where Python runs the
    handlers of signals, stays free to wait."""

    def __init__(self, work: Callable[[], Any], cancel: Callable[[], None]):
        self._work: Callable[[], Any] | None = work
        self._cancel: Callable[[], None] | None = cancel
        self._done, self._gate = threading.Event(), threading.Lock()
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tern", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        if not self._gate.acquire(blocking=False):
            return
        try:
            self._result = self._work()
        except BaseException as e:
            self._error = e
        finally:
            self._done.set()
            self._work = self._cancel = None  # they hold who holds this

    def wait(self) -> Any:
        """What the work gave."""
        self._done.wait()
        if self._error:
            raise self._error
        return self._result

    def stop(self) -> bool:
        """Cancels, and returns when the work has ended; a second Ctrl-C does not leave it running. True: it has not begun, and never will."""
        if self._gate.acquire(blocking=False):
            self._done.set()
            return True
        while (cancel := self._cancel) and not self._done.is_set():
            cancel()
            if threading.current_thread() is self._thread:  # the collector of garbage runs anywhere
                break
            try:
                self._done.wait(PAUSE)
            except KeyboardInterrupt:
                continue
        return False


def interruptible(work: Callable[[], T], cancel: Callable[[], None]) -> T:
    """work(), so that Ctrl-C cancels it. Only the main thread hears Ctrl-C; others do the work themselves."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    worker = Worker(work, cancel)
    try:
        worker.start()
        return worker.wait()
    except BaseException:
        worker.stop()
        raise


class Turn:
    """One thread at a time. `take` never waits: who comes second gets an error. A text that is being generated holds the turn until it
    has ended; the thread that began it may ask for something else, and so ends it."""

    def __init__(self):
        self._lock = threading.Lock()
        self._text = None  # the open text, with close() and `owner`, the thread that began it
        self.inside: set[int] = set()  # threads that run the engine now

    def take(self, text=None) -> None:
        while not self._lock.acquire(blocking=False):
            held = self._text
            if not held or held.owner != threading.get_ident():
                raise ConvertError("the model is at work in another thread, or for the callback that asks; wait, or open it a second time", USAGE)
            held.close()
        self._text = text

    def give(self) -> None:
        self._text = None
        self._lock.release()

    def end(self, cancel: Callable[[], None]) -> None:
        """Ends what runs, whoever began it, and takes the turn."""
        if threading.get_ident() in self.inside:
            raise ConvertError("a callback cannot close the model that calls it", USAGE)
        while not self._lock.acquire(blocking=False):
            held = self._text
            if held:
                held.close()
            else:
                cancel()
                if self._lock.acquire(timeout=PAUSE):
                    return

    def __enter__(self) -> "Turn":
        self.take()
        return self

    def __exit__(self, *_) -> None:
        self.give()
