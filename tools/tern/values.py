"""Values that callers of the package pass, checked: numbers in their range, texts as UTF-8, names of files.

In:  a name for the error, and a value. Out: the value as the engine takes it, or ConvertError.
"""

import ctypes
import math
import operator
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .errors import USAGE, ConvertError

U32, U64, I64 = 2**32 - 1, 2**64 - 1, 2**63 - 1


def whole(name: str, value: Any, least: int, largest: int) -> int:
    """A whole number within its range; ctypes would take the low bits of any."""
    try:
        n = operator.index(value)
    except TypeError:
        raise ConvertError(f"{name}: {value!r} is not a whole number", USAGE) from None
    if not least <= n <= largest:
        raise ConvertError(f"{name}: {n} is outside {least} to {largest}", USAGE)
    return n


def real(name: str, value: Any) -> float:
    """A number that f32 holds."""
    if isinstance(value, bool | str) or not isinstance(getattr(value, "__float__", None), Callable):
        raise ConvertError(f"{name}: {value!r} is not a number", USAGE)
    x = float(value)
    if math.isfinite(x) and math.isinf(ctypes.c_float(x).value):
        raise ConvertError(f"{name}: {x:g} is too large", USAGE)
    return x


def text(name: str, value: Any) -> bytes:
    """UTF-8 that C reads up to its end."""
    if not isinstance(value, str):
        raise ConvertError(f"{name}: {value!r} is not a text", USAGE)
    if "\0" in value:
        raise ConvertError(f"{name}: {value!r} has a NUL character, which ends a text here", USAGE)
    return encoded(name, value)


def encoded(name: str, value: Any) -> bytes:
    """A text of Python may have halves of characters, which UTF-8 has not."""
    if not isinstance(value, str):
        raise ConvertError(f"{name}: {value!r:.80} is not a text", USAGE)
    try:
        return value.encode()
    except UnicodeEncodeError as e:
        raise ConvertError(f"{name}: character {e.start} is half a character (a lone surrogate)", USAGE) from None


def texts(name: str, value: Any) -> list[bytes]:
    """One text or several."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return [text(name, value)]
    return [text(name, one) for one in value]


def path(name: str, value: Any) -> Path:
    """The name of a file."""
    try:
        given = os.fsencode(value)
    except (TypeError, UnicodeEncodeError):
        given = b""
    if not given or b"\0" in given:
        raise ConvertError(f"{name}: {value!r:.80} is no name of a file", USAGE)
    return Path(os.fsdecode(given))


def callback(name: str, call: Any) -> Callable:
    if not callable(call):
        raise ConvertError(f"{name}: {call!r} cannot be called", USAGE)
    return call
