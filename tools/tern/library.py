"""What a model computes and knows: text and tokens, logits, hidden states, observations, edits."""

import ctypes
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .errors import USAGE, ConvertError
from .handle import Handle
from .structs import (
    ADD_SPECIAL, CACHE_TYPES, EDIT, OBSERVE, ROWS, TERMS, WANTS_HIDDEN, WANTS_LOGITS, Call, ChatInfo, ChatMessage, Cost, Error, LayerInfo,
    RawObservation, RawTerm,
)  # fmt: skip

__all__ = ["CACHE_TYPES", "ROWS", "ConvertError", "Decoder", "Engine", "Error", "Observation"]


@dataclass
class Observation:
    """What one step gave: see tern_observe. `values` [rows, columns] is borrowed during the call."""

    layer: int
    operation: str
    values: np.ndarray
    positions: list[int]
    expert: int


def observation(raw: RawObservation) -> Observation:
    values = np.ctypeslib.as_array(raw.values, (raw.rows, raw.stride))[:, : raw.columns]
    return Observation(raw.layer, raw.operation.decode(), values, [raw.at[i].position for i in range(raw.rows)], raw.expert)


def chat_messages(messages: list[dict]):
    """Messages as an array of struct tern_chat_message: [{"role", "content"}], of an assistant perhaps with "tokens" and
    OpenAI's "tool_calls", of a tool with "tool_call_id" and "name"; of role "tools", the content is their JSON."""
    out = (ChatMessage * len(messages))()
    for m, made in zip(messages, out):
        text, ids, calls = (m.get("content") or "").encode(), m.get("tokens"), m.get("tool_calls") or []
        made.role, made.text, made.bytes = m["role"].encode(), text, len(text)
        if ids is not None:
            made.tokens, made.n_tokens = (ctypes.c_int32 * len(ids))(*ids), len(ids)
        made.calls, made.n_calls = (Call * len(calls))(*map(chat_call, calls)), len(calls)
        for field, key in (("call_id", "tool_call_id"), ("name", "name")):
            setattr(made, field, m[key].encode() if m.get(key) is not None else None)
    return out


def chat_call(call: dict) -> Call:
    """Of {"id", "function": {"name", "arguments": an object or its JSON}}."""
    arguments = call["function"].get("arguments", "{}")
    made = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return Call(call["id"].encode() if call.get("id") is not None else None, call["function"]["name"].encode(), made.encode())


class Decoder:
    """tern_decoder: called with "push", "finish" or "bytes" and perhaps a token, it gives text."""

    def __init__(self, engine: "Engine", show_special: bool = False):
        self.lib, self.handle, self.n = engine.lib, ctypes.c_void_p(), ctypes.c_size_t()
        engine._try("tern_decoder_open", ctypes.byref(self.handle), engine.model, int(show_special))

    def __call__(self, name: str, *token: int) -> bytes:
        return ctypes.string_at(getattr(self.lib, f"tern_decoder_{name}")(self.handle, *token, ctypes.byref(self.n)), self.n.value)

    def __del__(self) -> None:
        self.lib.tern_decoder_close(self.handle)


class Engine(Handle):
    """A model and one context of `n_ctx` positions; a with-statement or close() closes both. Opening fails with ConvertError."""

    def cost(self, n_rows: int) -> Cost:
        """The least work of a batch of n_rows tokens in an empty context."""

        def measure() -> Cost:
            cost = Cost()
            for i in range(n_rows):
                self.add(i % self.vocab, WANTS_LOGITS if i == n_rows - 1 else 0)
            self.lib.tern_batch_cost(self.context, ctypes.byref(cost))
            self.lib.tern_batch_clear(self.context)
            return cost

        return self.run(measure)

    # ---- text and tokens ----

    def encode(self, text: bytes, flags: int = ADD_SPECIAL) -> list[int]:
        """Ids of a text, with BOS where the model's tokenizer adds it."""
        n, room = ctypes.c_size_t(len(text) // 2 + 16), 0  # most texts have fewer
        while room < n.value:
            room = n.value
            ids = (ctypes.c_int32 * room)()
            size = (ctypes.c_size_t(len(text)), flags, ids, ctypes.c_size_t(room), ctypes.byref(n))
            self._try("tern_tokenize", self.model, text, *size)
        return list(ids[: n.value])

    @functools.cached_property
    def has_text(self) -> bool:
        """It has a tokenizer."""
        return self._fails("tern_tokenize", self.model, b"", ctypes.c_size_t(0), 0, None, ctypes.c_size_t(0), ctypes.byref(ctypes.c_size_t())) is None

    def decode(self, ids: Iterable[int], show_special: bool = False) -> bytes:
        """The text of some ids."""
        text = Decoder(self, show_special)
        return b"".join([*(text("push", int(token)) for token in ids), text("finish")])

    def pieces(self, ids: Iterable[int]) -> list[bytes]:
        """What each id stands for, special ones too; perhaps a part of a character."""
        text = Decoder(self, True)
        return [text("bytes", int(token)) for token in ids]

    def is_end(self, token: int) -> bool:
        return bool(self.lib.tern_token_is_end(self.model, token))

    def layer(self, layer: int) -> LayerInfo:
        info = LayerInfo()
        self.lib.tern_model_layer(self.model, ctypes.c_uint64(layer), ctypes.byref(info))
        return info

    def chat_use(self, name: str | None) -> None:
        """A built-in chat template, or the file's own."""
        self.run(lambda: self._call("tern_chat_use", self.model, name and name.encode()))

    def chat_info(self) -> ChatInfo | None:
        info = ChatInfo()
        return info if self.lib.tern_chat_info(self.model, ctypes.byref(info)) else None

    def chat_text(self, messages: list[dict], flags: int) -> bytes:
        """The conversation as text; RuntimeError where the template has no form for it."""
        made, n = chat_messages(messages), ctypes.c_size_t()
        what = (self.model, made, ctypes.c_size_t(len(messages)), flags)
        self._call("tern_chat_text", *what, None, ctypes.c_size_t(0), ctypes.byref(n))
        out = ctypes.create_string_buffer(n.value + 1)
        self._call("tern_chat_text", *what, out, n, ctypes.byref(n))
        return out.raw[: n.value]

    def chat_tokens(self, messages: list[dict], flags: int) -> list[int]:
        """The conversation as ids."""
        made, n = chat_messages(messages), ctypes.c_size_t()
        what = (self.model, made, ctypes.c_size_t(len(messages)), flags)
        self._call("tern_chat_tokens", *what, None, ctypes.c_size_t(0), ctypes.byref(n))
        ids = (ctypes.c_int32 * (n.value + 1))()
        self._call("tern_chat_tokens", *what, ids, n, ctypes.byref(n))
        return list(ids[: n.value])

    # ---- what it computes ----

    def logits(self, ids: Sequence[int], prompt: int | None = None, last: int | None = None, copy: bool = True) -> np.ndarray:
        """f32 [n, vocab]: the logits after each of the `last` tokens (None: all) of a fresh sequence, of which the first `prompt` (all)
        are one text from the beginning and the others come one by one. Without `copy` they are a view of the last step's."""
        prompt = len(ids) if prompt is None else prompt
        first = max(0, len(ids) - last) if last is not None else 0
        if not copy and (len(ids) - first > ROWS or prompt < len(ids)):
            raise ConvertError(f"a view has at most the last {ROWS} rows of logits; choose `last`, or take a copy", USAGE)
        steps = [(at, min(at + self.n_batch, first)) for at in range(0, min(first, prompt), self.n_batch)]
        steps += [(at, min(at + min(ROWS, self.n_batch), prompt)) for at in range(first, prompt, min(ROWS, self.n_batch))]
        steps += [(at, at + 1) for at in range(max(first, prompt), len(ids))]

        def evaluate(seq: int) -> np.ndarray:
            out = np.empty((len(ids) - first, self.vocab) if copy else 0, np.float32)
            self.lib.tern_seq_keep(self.context, seq, 0)
            for begin, end in steps:
                self.lib.tern_seq_expect(self.context, seq, prompt if begin < prompt else 0)
                for i in range(begin, end):
                    self.add(ids[i], WANTS_LOGITS if i >= first else 0, seq)
                self.forward()
                if begin >= first and copy:
                    out[begin - first : end - first] = self.last_logits(end - begin)
            self.lib.tern_seq_expect(self.context, seq, 0)
            return out if copy else self.last_logits(len(ids) - first)

        return self.run_alone(evaluate)

    def walk(self, seq: int, ids: Sequence[int], first: int, flag: int, most: int, at: int = 0) -> Iterator[tuple[int, int]]:
        """Evaluates ids[at:] in batches. Rows from `first` on ask for what `flag` says, at most so many a batch. Gives the first and the end
        of those rows after each batch that has some."""
        self.lib.tern_seq_expect(self.context, seq, len(ids))
        while at < len(ids):
            asked = max(at, first)
            end = min(at + self.n_batch, asked + most, len(ids))
            for i in range(at, end):
                self.add(ids[i], flag if i >= asked else 0, seq)
            self.forward()
            if asked < end:
                yield asked, end
            at = end
        self.lib.tern_seq_expect(self.context, seq, 0)

    def hidden(self, ids: Sequence[int], last: int | None = None) -> np.ndarray:
        """f32 [n, dim]: what the head reads of the `last` tokens (None: all) of a fresh sequence."""
        first = max(0, len(ids) - last) if last is not None else 0
        out = np.empty((len(ids) - first, self.info.dim), np.float32)

        def evaluate(seq: int) -> np.ndarray:
            self.lib.tern_seq_keep(self.context, seq, 0)
            for begin, end in self.walk(seq, ids, first, WANTS_HIDDEN, self.n_batch):
                for i in range(begin, end):
                    out[i - first] = np.ctypeslib.as_array(self.lib.tern_hidden(self.context, i - begin), (self.info.dim,))
            return out

        return self.run_alone(evaluate)

    def check_numbers(self) -> None:
        """Fails if a value was not finite, or too large for the cache."""
        self._try("tern_numeric_status", self.context)

    def last_logits(self, n: int) -> np.ndarray:
        """A view of the n rows of logits that the last step left."""
        at = [ctypes.cast(self.lib.tern_logits(self.context, i), ctypes.c_void_p).value for i in range(min(n, 2))]
        return self.view(at[0], n, self.vocab, (at[-1] - at[0]) // 4 or self.vocab)

    def observe(self, ids: Sequence[int], wanted: set[int], take: Callable[[Observation], None]) -> None:
        """Evaluates ids as a fresh sequence; `take` gets what every step gives. Logits come from the positions in `wanted`."""
        callback = OBSERVE(self.guarded(lambda _, raw: take(observation(raw.contents))))
        self.run_alone(lambda seq: self._watch(ids, wanted, callback, None, seq))

    def _watch(self, ids: Sequence[int], wanted: set[int], callback, arg, seq: int) -> None:
        """observe(), with a function of C."""
        self._try("tern_observe", self.context, callback, arg)
        try:
            self.lib.tern_seq_keep(self.context, seq, 0)
            self.lib.tern_seq_expect(self.context, seq, len(ids))
            n = logits = 0
            for i, token in enumerate(ids):
                if n == self.n_batch or (i in wanted and logits == ROWS):
                    self.forward()
                    n = logits = 0
                self.add(token, WANTS_LOGITS if i in wanted else 0, seq)
                n, logits = n + 1, logits + (i in wanted)
            self.forward()
            self.lib.tern_seq_expect(self.context, seq, 0)
        finally:
            self._try("tern_observe", self.context, OBSERVE(), None)

    def edit(self, change: Callable[[Observation], bool] | None) -> None:
        """From now on `change` may write into the values that it gets, and says whether it did; None ends that (tern_edit)."""
        offered = self.guarded(lambda _, raw, __: int(change(observation(raw.contents))))
        editor = EDIT(offered) if change else EDIT()
        self.run(lambda: self._try("tern_edit", self.context, editor, None))
        self._editor = editor  # lives as long as it may be called

    def lens(self, x: np.ndarray) -> np.ndarray:
        """What rows x [n, dim] of the stream would say next, as logits [n, vocab] (tern_lens)."""
        x, out = np.ascontiguousarray(x, np.float32), np.empty((len(x), self.vocab), np.float32)
        floats = ctypes.POINTER(ctypes.c_float)
        size = (ctypes.c_size_t(len(x)), ctypes.c_size_t(x.shape[1]))
        self.run(lambda: self._try("tern_lens", self.context, x.ctypes.data_as(floats), *size, out.ctypes.data_as(floats)))
        return out

    def keep_terms(self, on: bool) -> None:
        """From now on the last row of each batch that gives logits is kept for `contributions` (tern_keep_terms)."""
        self.run(lambda: self._try("tern_keep_terms", self.context, int(on)))

    def contributions(self, token: int) -> tuple[dict[tuple[str, int, int], float], float]:
        """The terms of a token's logit before the cap, as {(kind, layer, index): value}, and that logit (tern_contributions)."""

        def ask() -> tuple[dict[tuple[str, int, int], float], float]:
            n, logit = ctypes.c_size_t(), ctypes.c_float()
            self._try("tern_contributions", self.context, token, None, ctypes.c_size_t(0), ctypes.byref(n), None)
            terms = (RawTerm * n.value)()
            self._try("tern_contributions", self.context, token, terms, n, ctypes.byref(n), ctypes.byref(logit))
            return {(TERMS[t.kind], t.layer, t.index): t.value for t in terms}, logit.value

        return self.run(ask)
