"""Numbers and texts as people read them."""

import os
import re
import sys

from ..errors import IO, ConvertError

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
MOST = 1000  # characters of a line: a list or a text of a damaged file may have millions


def size(n: float) -> str:
    """Bytes: "1.50 GB"."""
    return f"{n / 1e9:.2f} GB" if n >= 1e9 else f"{n / 1e6:.1f} MB" if n >= 1e5 else f"{n / 1e3:.1f} kB"


def line(text: str) -> str:
    """A sentence that may hold text of a file, as one line that no terminal obeys: control characters are visible as
    ./run shows them (^[, <U+009B>), half a character is <D83D>, and what is too long is cut."""
    text = re.sub(r"\s*[\n\r]\s*", " ", text)
    text = text if len(text) <= MOST else text[: MOST - 3] + "..."
    return CONTROL.sub(_visible, text)


def say(text: str) -> None:
    """A line on standard output. A reader who has left is no error: the conversion goes on."""
    try:
        print(line(text), flush=True)
    except OSError as e:
        hush()
        if not isinstance(e, BrokenPipeError):
            raise ConvertError(f"standard output: {e.strerror}", IO) from None


def hush() -> None:
    """From now on standard output goes nowhere, and so does what could not be written."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _visible(found: re.Match) -> str:
    n = ord(found[0])
    if n < 32 or n == 127:
        return "^" + chr(n ^ 64)
    if n < 160:
        return f"<U+{n:04X}>"
    return f"<{n - 0xDC00:02X}>" if 0xDC80 <= n <= 0xDCFF else f"<{n:04X}>"  # a byte of a name that is not UTF-8
