"""What a text must be, and which tokens may come next.

In:  a model, and a JSON schema, a regular expression, a grammar or a choice. Out: masks of tokens, forced tokens.
"""

import ctypes
import weakref

import numpy as np

from . import structs
from .errors import USAGE, ConvertError
from .handle import Handle
from .values import encoded, whole

MOST_FORCED = 1025  # tokens of a run


class Constraint:
    """A constraint, compiled for the tokens of a model. kind: "json", "schema", "regex", "grammar" (GBNF) or "choice" ("yes|no").

        with tern.Constraint(model, "regex", "[0-9]{4}") as year:
            state = year.start()
            state.mask()        # bool [vocab]: the tokens that may come
            state.accept(token)

    compact: no blanks. annotate: `format` is not enforced. lax: what cannot be enforced is left out and listed in `left_out` instead of
    refused. any_order: properties in any order. trigger: the text is free until these bytes have come.
    """

    def __init__(
        self, model, kind: str, text: str = "", *, compact: bool = False, annotate: bool = False, lax: bool = False, any_order: bool = False,
        max_bytes: int = 0, max_steps: int = 0, trigger: bytes = b"", from_trigger: bool = False, must_trigger: bool = False,
    ):  # fmt: skip
        self._constraint = None
        if kind not in structs.CONSTRAINTS:
            raise ConvertError(f"kind: {kind!r} is not one of {', '.join(structs.CONSTRAINTS)}", USAGE)
        flags = (compact, annotate, lax, any_order, from_trigger, must_trigger)
        data = encoded("text", text)
        self.params = params = structs.ConstraintParams(
            structs.CONSTRAINTS.index(kind), data, len(data), sum(1 << i for i, flag in enumerate(flags) if flag),
            whole("max_bytes", max_bytes, 0, 2**63), whole("max_steps", max_steps, 0, 2**64 - 1), trigger, len(trigger),
        )  # fmt: skip
        self._engine: Handle = getattr(model, "_engine", model)  # a Model, or the engine of one
        made = ctypes.c_void_p()
        self._engine._try("tern_constraint_open", ctypes.byref(made), self._engine.model, ctypes.byref(params))
        self._constraint = made
        self._states: weakref.WeakSet = weakref.WeakSet()
        self._engine.rows.add(self)

    @property
    def left_out(self) -> list[str]:
        """What `lax` left out."""
        found: list[str] = []
        while (one := self._engine.lib.tern_constraint_left_out(self.handle, len(found))) is not None:
            found.append(one.decode())
        return found

    @property
    def handle(self) -> ctypes.c_void_p:
        if not self._constraint:
            raise ConvertError("the constraint is closed", USAGE)
        return self._constraint

    def start(self) -> "State":
        """The place before the first token of a text."""
        return State(self)

    def close(self) -> None:
        """Frees it and its states."""
        made, self._constraint = self._constraint, None
        if made:
            for state in list(self._states):
                state.close()
            self._engine.lib.tern_constraint_close(made)

    def __enter__(self) -> "Constraint":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class State:
    """Where a text is. Constraint.start() makes one."""

    def __init__(self, constraint: Constraint):
        self._state = None
        self._constraint, self._engine = constraint, constraint._engine
        made = ctypes.c_void_p()
        self._engine._try("tern_constraint_state_open", ctypes.byref(made), constraint.handle)
        self._state = made
        constraint._states.add(self)

    @property
    def handle(self) -> ctypes.c_void_p:
        if not self._state:
            raise ConvertError("the constraint is closed", USAGE)
        return self._state

    def close(self) -> None:
        """Frees it."""
        made, self._state = self._state, None
        if made:
            self._engine.lib.tern_constraint_state_close(made)

    def __del__(self) -> None:
        self.close()

    def copy(self) -> "State":
        """Another one of the same text."""
        other = self._constraint.start()
        self._engine._try("tern_constraint_state_copy", other.handle, self.handle)
        return other

    def bits(self) -> np.ndarray:
        """The mask as it is: bit t % 32 of word t // 32, u32."""
        mask = ctypes.POINTER(ctypes.c_uint32)()
        self._engine._try("tern_constraint_mask", self.handle, ctypes.byref(mask))
        return np.ctypeslib.as_array(mask, ((self._engine.vocab + 31) // 32,)).copy()

    def mask(self) -> np.ndarray:
        """bool [vocab]: the tokens that may come."""
        return np.unpackbits(self.bits().view(np.uint8), bitorder="little")[: self._engine.vocab].astype(bool)

    def accept(self, token: int) -> None:
        """The text goes on with it. tern.Error where it may not come."""
        self._engine._try("tern_constraint_accept", self.handle, whole("token", token, 0, 2**31 - 1))

    def rollback(self, n: int) -> int:
        """Takes back the last n tokens; returns how many."""
        return self._engine.lib.tern_constraint_rollback(self.handle, whole("n", n, 0, 2**31 - 1))

    @property
    def can_end(self) -> bool:
        """The text may end here."""
        return bool(self._engine.lib.tern_constraint_can_end(self.handle))

    @property
    def is_over(self) -> bool:
        """And nothing else can follow."""
        return bool(self._engine.lib.tern_constraint_is_over(self.handle))

    def forced(self) -> list[int]:
        """The tokens that must come next."""
        tokens, n = (ctypes.c_int32 * MOST_FORCED)(), ctypes.c_size_t()
        self._engine._try("tern_constraint_forced", self.handle, tokens, ctypes.c_size_t(MOST_FORCED), ctypes.byref(n))
        return tokens[: n.value]
