"""How probable a text is: the logprob of each token after those before it.

In:  token ids. Out: natural logarithms, and whether each token is the most probable one.
"""

import ctypes
from collections.abc import Sequence

import numpy as np

from .library import Engine
from .structs import ROWS, WANTS_LOGITS


def logprobs(engine: Engine, ids: Sequence[int], last: int, reuse: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(f64 [last], bool [last]): ln p of each of the `last` tokens, of which there are fewer than ids; and whether no token is more
    probable. `reuse`: what a free sequence holds of their beginning is not evaluated again, which changes no bit."""
    first, lib = len(ids) - last, engine.lib
    tokens, out, best = (ctypes.c_int32 * len(ids))(*ids), np.empty(last), np.empty(last, bool)

    def evaluate(seq: int) -> None:
        at = lib.tern_seq_reuse(engine.context, seq, tokens, first) if reuse else lib.tern_seq_keep(engine.context, seq, 0)
        for begin, end in engine.walk(seq, tokens[:-1], first - 1, WANTS_LOGITS, ROWS, at):  # row i rates token i + 1
            rated, to = tokens[begin + 1 : end + 1], slice(begin + 1 - first, end + 1 - first)
            out[to] = [lib.tern_logprob(engine.model, lib.tern_logits(engine.context, row), token) for row, token in enumerate(rated)]
            best[to] = engine.last_logits(len(rated)).argmax(1) == rated
        engine.check_numbers()

    engine.run_alone(evaluate)
    return out, best
