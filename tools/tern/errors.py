"""The one error that the tools show to a person: a clear sentence and an exit code, no traceback."""

import os
from contextlib import contextmanager

INTERNAL, USAGE, BAD_FILE, IO, MEMORY = 1, 2, 3, 4, 5


class ConvertError(Exception):
    """Bad input: the sentence says what is wrong, with which numbers, and what to do."""

    def __init__(self, sentence: str, code: int = BAD_FILE):
        super().__init__(sentence)
        self.code = code


@contextmanager
def _silent():
    """What packages in Rust and C++ write to standard error by themselves goes nowhere."""
    try:
        kept = os.dup(2)
    except OSError:  # it is closed
        yield
        return
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.close(null)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def contained():
    """A panic of a package in Rust, which is no Exception, becomes a ValueError, and is not reported twice."""
    with _silent():
        try:
            yield
        except BaseException as e:
            if type(e).__name__ != "PanicException":
                raise
            raise ValueError(str(e)) from None


@contextmanager
def reading(what: str):
    """Whatever a package or parser stumbles over in a damaged file becomes one sentence that names the file."""
    try:
        with contained():
            yield
    except (ConvertError, OSError, MemoryError):
        raise
    except Exception as e:
        reason = " ".join(f"{type(e).__name__}: {e}".split())[:200]
        raise ConvertError(f"{what} is damaged, or of a kind that is not known here ({reason})") from e
