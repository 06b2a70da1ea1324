"""The one error that the tools show to a person: a clear sentence and an exit code, no traceback."""

USAGE, BAD_FILE, IO, MEMORY = 2, 3, 4, 5


class ConvertError(Exception):
    """Bad input: the sentence says what is wrong, with which numbers, and what to do."""

    def __init__(self, sentence: str, code: int = BAD_FILE):
        super().__init__(sentence)
        self.code = code


def count(n: int, what: str) -> str:
    """'1 row', '2 rows'."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
