"""Receipts: what an answer was, written and proven (src/engine/RECEIPT.md).

In:  an engine, the ids of prompt and answer, options; or the text of a receipt. Out: that text; or a verdict.
"""

import ctypes
from dataclasses import dataclass

from .library import Engine
from .options import Options
from .structs import GenerateResult, ReceiptParams, ReceiptVerdict

NO_TOKEN = ctypes.c_size_t(-1).value


@dataclass(frozen=True)
class Verdict:
    """Whether a receipt holds.

    n_tokens    of the answer, that are the model's own: all, or those before the first wrong one
    first_wrong its index in the answer, or None; claimed and found: what the receipt has there, and what the model chooses (-1: nothing)
    seconds     that the proof took
    why         a sentence where it does not hold
    """

    holds: bool
    n_tokens: int
    first_wrong: int | None
    claimed: int
    found: int
    seconds: float
    why: str


def write(engine: Engine, options: Options, prompt: list[int], answer: list[int], result: GenerateResult) -> str:
    params = ReceiptParams(
        (ctypes.c_int32 * max(1, len(prompt)))(*prompt), len(prompt), (ctypes.c_int32 * max(1, len(answer)))(*answer), len(answer),
        ctypes.pointer(options.params), ctypes.addressof(options.constraint.params) if options.constraint else None,
        ctypes.pointer(result), engine.memory().cache_type,
    )  # fmt: skip
    size = ctypes.c_size_t()
    engine._try("tern_receipt_write", engine.model, ctypes.byref(params), None, ctypes.c_size_t(0), ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    engine._try("tern_receipt_write", engine.model, ctypes.byref(params), text, size, ctypes.byref(size))
    return text.raw.decode()


def verify(engine: Engine, text: bytes) -> Verdict:
    raw = ReceiptVerdict()
    engine._try("tern_receipt_verify", engine.model, text, ctypes.c_size_t(len(text)), ctypes.byref(raw))
    wrong = None if raw.first_wrong == NO_TOKEN else raw.first_wrong
    return Verdict(bool(raw.holds), raw.n_tokens, wrong, raw.claimed, raw.found, raw.seconds, raw.why.decode())
