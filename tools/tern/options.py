"""The options of generation: names and values of Python in, checked; structs of the engine out.

In:  keyword arguments under the names of tern_generate_params and tern_sampler_params. Out: Options.
"""

import ctypes
import difflib
import json
import operator
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from .constraint import Constraint
from .errors import USAGE, ConvertError
from .library import Engine
from .structs import ROWS, Bias, GenerateParams, SamplerParams
from .values import I64, U32, U64, callback, encoded, real, text, texts, whole

WHOLE = {  # least and largest value
    "top_k": (0, U32), "repeat_last_n": (0, U32), "dry_allowed_length": (0, U32), "dry_last_n": (0, U32), "mirostat": (0, U32),
    "seed": (0, U64), "n_predict": (-1, I64), "keep": (0, U32), "lookup": (0, U32), "draft_max": (0, U32), "mtp": (0, U32),
}  # fmt: skip
REAL = (
    "temperature", "top_p", "min_p", "repeat_penalty", "frequency_penalty", "presence_penalty", "typical_p", "top_n_sigma",
    "xtc_probability", "xtc_threshold", "dry_multiplier", "dry_base", "mirostat_tau", "mirostat_eta",
)  # fmt: skip
FLAGS = ("ignore_end", "logits_all", "shift", "no_force")
SAMPLER = {*REAL, "top_k", "repeat_last_n", "dry_allowed_length", "dry_last_n", "mirostat", "seed"}
OTHERS = ("receipt", "stop", "dry_breakers", "bias", "order", "draft", "on_token", "on_prompt")
FORMS = {"json": "json", "json_schema": "schema", "regex": "regex", "grammar": "grammar", "choice": "choice"}  # kinds of a Constraint
OF_FORMS = ("constraint", "compact", "format", "json_schema_lax", "constraint_budget")
MIB, STEPS = 1 << 20, 10**8 // 64  # of constraint_budget, as ./run
NAMES = (*WHOLE, *REAL, *FLAGS, *OTHERS, *FORMS, *OF_FORMS)
DEFAULTS = {"keep": 4}  # as ./run
GUESSES = {"lookup": ROWS - 1, "mtp": 4}  # of True, as ./run


def token_ids(engine: Engine, ids: Any, name: str = "the prompt") -> list[int]:
    """Ids of this model's vocabulary. Bytes are refused: they are a text in some encoding, not ids."""
    try:
        out = [operator.index(token) for token in (None if isinstance(ids, bytes | bytearray) else ids)]
    except TypeError:
        raise ConvertError(f"{name} is neither a text nor a list of token ids", USAGE) from None
    for token in out:
        if not 0 <= token < engine.vocab:
            raise ConvertError(f"{name}: {token} is not a token id from 0 to {engine.vocab - 1}", USAGE)
    return out


def form(name: str, value: Any) -> str:
    """The text of a constraint. A schema is a text of JSON, what such a text holds, or a class that knows its own (pydantic's)."""
    if name == "json":
        return ""
    if name == "choice":
        if isinstance(value, str):
            return encoded(name, value).decode()
        said = [one.decode().replace("\\", "\\\\").replace("|", "\\|") for one in texts(name, value)]
        if not said:
            raise ConvertError("choice: there is no text to choose", USAGE)
        return "|".join(said)
    if name == "json_schema" and not isinstance(value, str):
        try:
            return json.dumps(value.model_json_schema() if hasattr(value, "model_json_schema") else value, ensure_ascii=False)
        except (TypeError, ValueError) as e:
            raise ConvertError(f"json_schema: {e}", USAGE) from None
    return encoded(name, value).decode()


def check_names(options: Mapping[str, Any], names: tuple[str, ...] = NAMES) -> None:
    for name in options:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1, 0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(names))}"
            raise ConvertError(f"there is no option {name!r}; {hint}", USAGE)


class Options:
    """What a text is generated with. `params` and `sampler` are the engine's; this object owns what they point to."""

    def __init__(self, engine: Engine, given: Mapping[str, Any], thought: bytes = b""):
        """thought: what ends a thought before the answer, which no constraint binds."""
        check_names(given)
        given = {name: value for name, value in (DEFAULTS | dict(given)).items() if value is not None}
        self.given = given
        self.params: GenerateParams = engine.lib.tern_generate_defaults()
        self.sampler: SamplerParams = engine.lib.tern_sampler_defaults(engine.model)
        self.sampler.seed = secrets.randbits(32)
        for name, (least, largest) in WHOLE.items():
            if name in given:
                value = GUESSES[name] if name in GUESSES and given[name] is True else given[name]
                self._set(name, whole(name, value, least, largest))
        for name in REAL:
            if name in given:
                self._set(name, real(name, given[name]))
        for name in FLAGS:
            if name in given:
                self._set(name, bool(given[name]))
        self._set_stop(texts("stop", given.get("stop", ())))
        self._set_breakers(given.get("dry_breakers"))
        self._set_bias(engine, given.get("bias", {}))
        if "order" in given:
            engine._try("tern_sampler_order", ctypes.byref(self.sampler), text("order", given["order"]))
        self.receipt = bool(given.get("receipt"))
        self.params.fingerprint = self.receipt
        self.draft = given.get("draft")
        if self.draft is not None and not hasattr(self.draft, "_engine"):
            raise ConvertError(f"draft: {self.draft!r} is not a tern.Model", USAGE)
        self.on_token, self.on_prompt = (self._callback(name) for name in ("on_token", "on_prompt"))
        self.params.sampler = ctypes.pointer(self.sampler)
        self.constraint = self._constraint(engine, thought)
        self.params.constraint = self.constraint and self.constraint.handle

    @property
    def left_out(self) -> list[str]:
        return self.constraint.left_out if self.constraint else []

    def _set(self, name: str, value: Any) -> None:
        setattr(self.sampler if name in SAMPLER else self.params, name, value)

    def add_stop(self, stop: bytes) -> None:
        self._set_stop([*self.stop, stop])

    def _set_stop(self, stop: list[bytes]) -> None:
        self.stop = [s for s in stop if s]
        self.params.stop = (ctypes.c_char_p * len(self.stop))(*self.stop)
        self.params.n_stop = len(self.stop)

    def _set_breakers(self, breakers: Any) -> None:
        if breakers is not None:
            breakers = texts("dry_breakers", breakers)
            self.sampler.dry_breakers = (ctypes.c_char_p * max(1, len(breakers)))(*breakers)
            self.sampler.n_dry_breakers = len(breakers)

    def _set_bias(self, engine: Engine, bias: Any) -> None:
        if not isinstance(bias, Mapping):
            raise ConvertError(f"bias: {bias!r} is no dictionary of tokens and values", USAGE)
        rows = [(whole("bias: token", token, 0, engine.vocab - 1), real("bias", value)) for token, value in bias.items()]
        self.sampler.bias, self.sampler.n_bias = (Bias * max(1, len(rows)))(*rows), len(rows)

    def _callback(self, name: str) -> Callable | None:
        call = self.given.get(name)
        return None if call is None else callback(name, call)

    def _constraint(self, engine: Engine, thought: bytes):
        """What the text must be, or None."""
        given = self.given
        if given.get("json") not in (None, True, False):
            raise ConvertError("json: it is True or False; a schema is json_schema=", USAGE)
        forms = [name for name in (*FORMS, "constraint") if given.get(name) is not None and (name != "json" or given[name])]
        if len(forms) > 1:
            raise ConvertError(f"{forms[0]} and {forms[1]} cannot go together", USAGE)
        own = [name for name in OF_FORMS[1:] if name in given]
        if own and (not forms or forms[0] == "constraint"):
            raise ConvertError(f"{own[0]} belongs to one of {', '.join(FORMS)}", USAGE)
        if not forms:
            return None
        if forms[0] == "constraint":
            if not isinstance(given["constraint"], Constraint) or given["constraint"]._engine is not engine:
                raise ConvertError("constraint: it is not a tern.Constraint of this model", USAGE)
            return given["constraint"]
        if given.get("format", "enforce") not in ("enforce", "annotate"):
            raise ConvertError(f"format: {given['format']!r} is not enforce or annotate", USAGE)
        budget = whole("constraint_budget", given.get("constraint_budget", 64), 1, 65536)
        return Constraint(
            engine, FORMS[forms[0]], form(forms[0], given[forms[0]]), compact=bool(given.get("compact")), annotate=given.get("format") == "annotate",
            lax=bool(given.get("json_schema_lax")), max_bytes=budget * MIB, max_steps=budget * STEPS, trigger=thought, must_trigger=bool(thought),
        )  # fmt: skip
