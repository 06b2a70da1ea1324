"""The one error that the tools show to a person: a clear sentence and an exit code, no traceback."""

from contextlib import contextmanager

USAGE, BAD_FILE, IO, MEMORY = 2, 3, 4, 5


class ConvertError(Exception):
    """Bad input: the sentence says what is wrong, with which numbers, and what to do."""

    def __init__(self, sentence: str, code: int = BAD_FILE):
        super().__init__(sentence)
        self.code = code


@contextmanager
def reading(what: str):
    """Whatever a package or parser stumbles over in a damaged file becomes one sentence that names the file."""
    try:
        yield
    except (ConvertError, OSError, MemoryError):
        raise
    except Exception as e:
        reason = " ".join(f"{type(e).__name__}: {e}".split())[:200]
        raise ConvertError(f"{what} is damaged, or of a kind that is not known here ({reason})") from e
