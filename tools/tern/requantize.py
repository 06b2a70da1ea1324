"""A weights file with smaller matrices, as ./quantize writes it.

In:  a weights file, a type. Out: another weights file.
"""

import ctypes
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from . import programs
from .errors import USAGE, ConvertError
from .handle import load
from .structs import ASK, REPORT, TYPES, Error, QuantizeParams
from .values import callback, encoded, path, texts, whole
from .waiting import interruptible


@dataclass
class Tensor:
    """A tensor that has been written: its types before and after, its bytes before and after, the bytes done of all, and what rounding
    cost: the root of the mean squared difference and the largest difference."""

    name: str
    was: str
    type: str
    bytes_in: int
    bytes_out: int
    done: int
    total: int
    weights: int
    rmse: float
    max_error: float


def quantize(
    source: str | Path, out: str | Path, type: str = "q8", *, keep_q8: str | Iterable[str] = (), text: str | None = None, n_threads: int = 0,
    cpu: str | None = None, report: Callable[[Tensor], None] | None = None,
) -> None:  # fmt: skip
    """Writes the weights file `source` to `out` with smaller matrices, the same bytes as ./quantize and for any number of threads.

    type: q8, q4 or q4c. keep_q8: matrices that become q8 in a smaller type, as ["head", "layer.0"]. text: one like those that the model
    will see, for which the codes are chosen. cpu: a kernel target that runs the model; all give the same bytes.
    report: called with each Tensor. tern.Error where a file cannot be read or written, or nothing can be made smaller; after it, after
    Ctrl-C and after an exception in `report` there is no new file.

    Example: tern.quantize("models/fable.bin", "fable-q4c.bin", "q4c")
    """
    lib, error = load(programs.library().resolve()), Error()
    made = lib.tern_quantize_types().decode().split("|")
    if type not in made:
        raise ConvertError(f"type: {type!r} is not one of {', '.join(made)}", USAGE)
    if report is not None:
        callback("report", report)
    kept = b",".join(texts("keep_q8", keep_q8))
    told = None if text is None else encoded("text", text)
    failed: list[BaseException] = []
    stopped: list[bool] = []

    def take(_, raw) -> int:
        r = raw.contents
        values = {name: getattr(r, name) for name in ("bytes_in", "bytes_out", "done", "total", "weights", "rmse", "max_error")}
        try:
            if report and not failed:
                report(Tensor(r.name.decode(), TYPES[getattr(r, "from")], TYPES[r.to], **values))
        except BaseException as e:
            failed.append(e)
        return bool(failed)

    threads, target = whole("n_threads", n_threads, 0, 2**31 - 1), b",".join(texts("cpu", cpu or ()))
    params = QuantizeParams(TYPES.index(type), threads, target or None, kept or None, told, len(told or b""))
    params.report, params.stop = REPORT(take), ASK(lambda _: bool(failed or stopped))
    paths = os.fsencode(path("source", source)), os.fsencode(path("out", out))
    arguments = (*paths, ctypes.byref(params), ctypes.byref(error))
    code = interruptible(lambda: lib.tern_quantize(*arguments), lambda: stopped.append(True))
    if failed:
        raise failed[0]
    if code:
        raise ConvertError(error.sentence, code)
