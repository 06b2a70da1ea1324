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
        lib.tern_seq_expect(engine.context, seq, len(ids) - 1)
        while at < len(ids) - 1:
            rated = max(at, first - 1)  # row i rates token i + 1
            end = min(at + engine.n_batch, rated + ROWS, len(ids) - 1)
            for i in range(at, end):
                engine.add(tokens[i], WANTS_LOGITS if i >= rated else 0, seq)
            engine.forward()
            for row, token in enumerate(tokens[rated + 1 : end + 1]):
                out[rated + 1 - first + row] = lib.tern_logprob(engine.model, lib.tern_logits(engine.context, row), token)
            if rated < end:
                best[rated + 1 - first : end + 1 - first] = engine.last_logits(end - rated).argmax(1) == tokens[rated + 1 : end + 1]
            at = end
        lib.tern_seq_expect(engine.context, seq, 0)
        engine.check_numbers()

    engine.run_alone(evaluate)
    return out, best
