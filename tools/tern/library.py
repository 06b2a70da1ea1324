"""libtern.so from Python: the calls of include/tern.h and tern_lab.h that tests and checks need, through ctypes."""

import ctypes
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import programs
from .errors import USAGE, ConvertError

ROWS = 32  # TERN_MAX_LOGITS
WANTS_LOGITS, ADD_SPECIAL = 1, 1
CACHE_TYPES = ("f16", "f32", "q8")  # enum tern_cache_type
STAGES = ("raw", "scaled", "masked", "weights", "unmasked")  # enum tern_attention_stage


class Error(ctypes.Structure):
    """struct tern_error"""

    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 512)]

    @property
    def sentence(self) -> str:
        return self.text.decode(errors="replace")  # the name of a file may be cut


class ModelParams(ctypes.Structure):
    """struct tern_model_params"""

    _fields_ = [("n_threads", ctypes.c_int), ("cpu", ctypes.c_char_p), ("load", ctypes.c_uint)]


class ModelInfo(ctypes.Structure):
    """struct tern_model_info"""

    _fields_ = [(n, ctypes.c_uint64) for n in "n_layers dim vocab n_heads n_kv_heads head_dim hidden max_seq window".split()]
    _fields_ += [(n, ctypes.c_uint64) for n in "n_params file_bytes token_bytes content_id".split()] + [("type", ctypes.c_int)]
    _fields_ += [(n, ctypes.c_char_p) for n in "_type_name name source licence converter cpu".split()]
    _fields_ += [("n_threads", ctypes.c_int), ("threads_why", ctypes.c_char_p), ("bos", ctypes.c_int32)]
    _fields_ += [("has_chat", ctypes.c_int), ("is_sealed", ctypes.c_int), ("has_mtp", ctypes.c_int)]

    @property
    def type_name(self) -> str:
        return self._type_name.decode()


class LayerInfo(ctypes.Structure):
    """struct tern_layer_info"""

    _fields_ = [(n, ctypes.c_uint64) for n in "n_heads n_kv_heads head_dim hidden window n_experts n_experts_used kv_rank rope_dims".split()]
    _fields_ += [("attn_scale", ctypes.c_float), ("attn_cap", ctypes.c_float)]
    _fields_ += [("sinks", ctypes.POINTER(ctypes.c_float)), ("alibi", ctypes.POINTER(ctypes.c_float))]
    _fields_ += [(n, ctypes.c_int) for n in "parallel gated qk_norm attn_post_norm ffn_post_norm".split()]
    _fields_ += [("qkv_clipped", ctypes.c_int), ("learned_positions", ctypes.c_int), ("mixer", ctypes.c_uint), ("attn_gate", ctypes.c_int)]
    _fields_ += [("chunked", ctypes.c_int), ("kv_shared", ctypes.c_int)]


class Row(ctypes.Structure):
    """struct tern_row"""

    _fields_ = [("seq", ctypes.c_uint32), ("position", ctypes.c_uint32), ("token", ctypes.c_int32), ("flags", ctypes.c_uint)]


class RawObservation(ctypes.Structure):
    """struct tern_observation"""

    _fields_ = [("layer", ctypes.c_uint64), ("operation", ctypes.c_char_p), ("rows", ctypes.c_size_t)]
    _fields_ += [("columns", ctypes.c_size_t), ("values", ctypes.POINTER(ctypes.c_float)), ("stride", ctypes.c_size_t)]
    _fields_ += [("at", ctypes.POINTER(Row)), ("expert", ctypes.c_uint64)]


OBSERVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(RawObservation))
EDIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(RawObservation), ctypes.POINTER(ctypes.c_float))
# enum tern_term_kind
TERMS = tuple("embed position head o_bias attn_norm ffn expert shared ffn_norm final_norm bias round_o round_down round_head edits".split())


class RawTerm(ctypes.Structure):
    """struct tern_term"""

    _fields_ = [("kind", ctypes.c_int), ("layer", ctypes.c_uint64), ("index", ctypes.c_uint64), ("value", ctypes.c_float)]


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


class ContextParams(ctypes.Structure):
    """struct tern_context_params"""

    _fields_ = [(name, ctypes.c_uint32) for name in ("n_ctx", "n_batch", "n_seqs")]
    _fields_ += [("cache_type", ctypes.c_int), ("fingerprint", ctypes.c_int)]


class Memory(ctypes.Structure):
    """struct tern_memory"""

    _fields_ = [(name, ctypes.c_uint64) for name in ("weights", "cache", "batch", "available")]
    _fields_ += [(name, ctypes.c_uint32) for name in ("n_ctx", "n_batch", "n_seqs")]
    _fields_ += [("reduced", ctypes.c_int), ("cache_type", ctypes.c_int), ("fingerprint", ctypes.c_int)]
    _fields_ += [("states", ctypes.c_uint64), ("n_snapshots", ctypes.c_uint32)]

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.batch


class Cost(ctypes.Structure):
    """struct tern_cost"""

    _fields_ = [(name, ctypes.c_uint64) for name in ("weight_bytes", "cache_bytes", "matmul_macs", "attention_macs")]


class AttentionParams(ctypes.Structure):
    """struct tern_attention_params"""

    _fields_ = [("seq", ctypes.c_uint32), ("n_positions", ctypes.c_uint32), ("layers", ctypes.POINTER(ctypes.c_ubyte))]
    _fields_ += [("window", ctypes.c_uint64), ("bidirectional", ctypes.c_int), ("sinks", ctypes.c_int)]


class ChatMessage(ctypes.Structure):
    """struct tern_chat_message"""

    _fields_ = [("role", ctypes.c_char_p), ("text", ctypes.c_char_p), ("bytes", ctypes.c_size_t)]
    _fields_ += [("tokens", ctypes.POINTER(ctypes.c_int32)), ("n_tokens", ctypes.c_size_t)]


class ChatInfo(ctypes.Structure):
    """struct tern_chat_info"""

    _fields_ = [("name", ctypes.c_char_p), ("thinking", ctypes.c_int), ("takes_system", ctypes.c_int)]
    _fields_ += [("end", ctypes.c_int32), ("stop", ctypes.c_char_p)]


def chat_messages(messages: list[dict]):
    """[{"role", "content"}], of an assistant perhaps with "tokens", as an array of struct tern_chat_message."""
    out = (ChatMessage * len(messages))()
    for m, made in zip(messages, out):
        text, ids = m["content"].encode(), m.get("tokens")
        made.role, made.text, made.bytes = m["role"].encode(), text, len(text)
        if ids is not None:
            made.tokens, made.n_tokens = (ctypes.c_int32 * len(ids))(*ids), len(ids)
    return out


FLOATS = ctypes.POINTER(ctypes.c_float)


class ZooArrays(ctypes.Structure):
    """struct tern_zoo"""

    _fields_ = [(n, ctypes.c_size_t) for n in "n_seqs n_rows n_keys n_heads n_kv_heads head_dim v_dim".split()]
    _fields_ += [(n, FLOATS) for n in "q k v out weights".split()] + [("scale", ctypes.c_float), ("cap", ctypes.c_float)]
    _fields_ += [("bidirectional", ctypes.c_int), ("window", ctypes.c_size_t), ("sinks", FLOATS)]
    _fields_ += [("alibi", FLOATS), ("first", ctypes.c_size_t)]
    _fields_ += [("mask", ctypes.POINTER(ctypes.c_ubyte)), ("block", ctypes.c_size_t), ("parts", ctypes.c_size_t)]
    _fields_ += [("beta", FLOATS), ("latent_dim", ctypes.c_size_t), ("rope_dim", ctypes.c_size_t)]
    _fields_ += [("up_k", FLOATS), ("up_v", FLOATS)]


class ZooCost(ctypes.Structure):
    """struct tern_zoo_cost"""

    _fields_ = [("seconds", ctypes.c_double)] + [(n, ctypes.c_uint64) for n in ("bytes", "macs", "scratch_bytes")]


class Zoo:
    """The attention zoo on numpy arrays: `kinds` is {name: paper}. `library`: programs.library() by default."""

    def __init__(self, library: Path | None = None):
        self.lib, self.error, self.kinds = ctypes.CDLL(str((library or programs.library()).resolve())), Error(), {}
        self.lib.tern_zoo_name.restype = self.lib.tern_zoo_paper.restype = ctypes.c_char_p
        while name := self.lib.tern_zoo_name(ctypes.c_size_t(len(self.kinds))):
            self.kinds[name.decode()] = self.lib.tern_zoo_paper(ctypes.c_size_t(len(self.kinds))).decode()

    def run(self, name: str, q, k, v, *, weights: bool = False, bidirectional: bool = False, mask=None, sinks=None, alibi=None, beta=None,
            up_k=None, up_v=None, **numbers) -> tuple[np.ndarray, np.ndarray | None, ZooCost]:  # fmt: skip
        """(out, weights or None, cost) of arrays in the shapes of tern_lab.h. `numbers` are its fields: scale, cap, window, first,
        block, parts, latent_dim, rope_dim."""
        arrays = {"q": q, "k": k, "v": v, "sinks": sinks, "alibi": alibi, "beta": beta, "up_k": up_k, "up_v": up_v}
        arrays = {n: np.ascontiguousarray(x, np.float32) for n, x in arrays.items() if x is not None}
        (n, rows, heads, d), keys = arrays["q"].shape, arrays["k"].shape[1]
        e = arrays["v"].shape[-1] if v is not None else up_v.shape[1]
        kv_heads = arrays["v"].shape[2] if v is not None else heads
        arrays["out"] = np.empty((n, rows, heads, e), np.float32)
        if weights:
            arrays["weights"] = np.empty((n, heads, rows, keys), np.float32)
        z = ZooArrays(n, rows, keys, heads, kv_heads, d, e, bidirectional=bidirectional, **numbers)
        for field, x in arrays.items():
            setattr(z, field, x.ctypes.data_as(FLOATS))
        if mask is not None:
            hidden = np.ascontiguousarray(mask, np.uint8)
            z.mask = hidden.ctypes.data_as(ctypes.POINTER(ctypes.c_ubyte))
        cost = ZooCost()
        if code := self.lib.tern_zoo(ctypes.byref(z), name.encode(), ctypes.byref(cost), ctypes.byref(self.error)):
            raise ConvertError(self.error.sentence, code)
        return arrays["out"], arrays.get("weights"), cost


class Engine:
    """A model and one context of `n_ctx` positions; a with-statement or close() closes both. Opening fails with ConvertError."""

    _model = None

    def __init__(
        self, library: Path, model: Path, n_ctx: int, *, cpu: str | None = None, n_threads: int = 0, n_batch: int = ROWS,
        cache_type: str = "f32",
    ):  # fmt: skip
        self.lib, self.error, self.info = ctypes.CDLL(str(library.resolve())), Error(), ModelInfo()
        self.lib.tern_logits.restype = ctypes.POINTER(ctypes.c_float)
        for text in ("push", "finish", "bytes"):
            getattr(self.lib, f"tern_decoder_{text}").restype = ctypes.c_void_p
        self.rows: weakref.WeakSet[Attention] = weakref.WeakSet()  # closed before the model is
        self._model, self._context = ctypes.c_void_p(), ctypes.c_void_p()
        if cache_type not in CACHE_TYPES:
            raise ConvertError(f"cache_type: {cache_type!r} is not one of {', '.join(CACHE_TYPES)}", USAGE)
        kind = ModelParams(n_threads=n_threads, cpu=cpu and cpu.encode())
        params = ContextParams(n_ctx=n_ctx, n_batch=n_batch, cache_type=CACHE_TYPES.index(cache_type))
        try:
            self._try("tern_model_open", ctypes.byref(self._model), os.fsencode(model), ctypes.byref(kind))
            self._try("tern_context_open", ctypes.byref(self._context), self.model, ctypes.byref(params))
        except ConvertError:
            self.close()
            raise
        self.lib.tern_model_info(self.model, ctypes.byref(self.info))
        self.vocab, self.n_batch = self.info.vocab, n_batch

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        if not self._model:
            return
        for rows in list(self.rows):
            rows.close()
        self.lib.tern_context_close(self._context)
        self.lib.tern_model_close(self._model)
        self._model, self._context = ctypes.c_void_p(), ctypes.c_void_p()

    __del__ = close

    @property
    def model(self) -> ctypes.c_void_p:
        if not self._model:
            raise ConvertError("the model is closed", USAGE)
        return self._model

    @property
    def context(self) -> ctypes.c_void_p:
        return self.model and self._context

    def memory(self) -> Memory:
        """What the open context takes."""
        plan = Memory()
        self.lib.tern_context_memory(self.context, ctypes.byref(plan))
        return plan

    def cost(self, n_rows: int) -> Cost:
        """The least work of a batch of n_rows tokens in an empty context."""
        cost = Cost()
        for i in range(n_rows):
            self._try("tern_batch_add", self.context, 0, i % self.vocab, WANTS_LOGITS if i == n_rows - 1 else 0)
        self.lib.tern_batch_cost(self.context, ctypes.byref(cost))
        self.lib.tern_batch_clear(self.context)
        return cost

    def limits(self) -> tuple[float, float]:
        """What the machine can do with the model's threads: bytes read a second, and multiply-adds of its type (0: unknown)."""
        meter = ctypes.c_void_p()
        self.lib.tern_meter_read.restype = self.lib.tern_meter_peak.restype = ctypes.c_double
        self._try("tern_meter_open", ctypes.byref(meter), self.model)
        try:
            return self.lib.tern_meter_read(meter) * 1e9, self.lib.tern_meter_peak(meter, self.info.type, None) * 1e9
        finally:
            self.lib.tern_meter_close(meter)

    def _call(self, name: str, *arguments) -> None:
        if getattr(self.lib, name)(*arguments, ctypes.byref(self.error)):
            raise RuntimeError(f"{name}: {self.error.sentence}")

    def encode(self, text: bytes) -> list[int]:
        """Ids of a text, with BOS where the model's tokenizer adds it."""
        n, room = ctypes.c_size_t(len(text) // 2 + 16), 0  # most texts have fewer
        while room < n.value:
            room = n.value
            ids = (ctypes.c_int32 * room)()
            size = (ctypes.c_size_t(len(text)), ADD_SPECIAL, ids, ctypes.c_size_t(room), ctypes.byref(n))
            self._try("tern_tokenize", self.model, text, *size)
        return list(ids[: n.value])

    @contextmanager
    def _decoder(self, show_special: bool):
        """A function of the name and arguments of a tern_decoder call that gives its text."""
        decoder, n = ctypes.c_void_p(), ctypes.c_size_t()
        self._try("tern_decoder_open", ctypes.byref(decoder), self.model, int(show_special))
        try:
            yield lambda name, *at: ctypes.string_at(getattr(self.lib, f"tern_decoder_{name}")(decoder, *at, ctypes.byref(n)), n.value)
        finally:
            self.lib.tern_decoder_close(decoder)

    def decode(self, ids: Iterable[int], show_special: bool = False) -> bytes:
        """The text of some ids."""
        with self._decoder(show_special) as text:
            return b"".join([*(text("push", int(token)) for token in ids), text("finish")])

    def pieces(self, ids: Iterable[int]) -> list[bytes]:
        """What each id stands for, special ones too; perhaps a part of a character."""
        with self._decoder(True) as text:
            return [text("bytes", int(token)) for token in ids]

    def layer(self, layer: int) -> LayerInfo:
        info = LayerInfo()
        self.lib.tern_model_layer(self.model, ctypes.c_uint64(layer), ctypes.byref(info))
        return info

    def chat_use(self, name: str | None) -> None:
        """A built-in chat template, or the file's own."""
        self._call("tern_chat_use", self.model, name and name.encode())

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

    def logits(self, ids: list[int], prompt: int | None = None) -> np.ndarray:
        """f32 [len(ids), vocab]: the logits after each token of a fresh sequence, of which the first `prompt` (all) are
        one text from the beginning and the others come one by one."""
        prompt = len(ids) if prompt is None else prompt
        self.lib.tern_seq_keep(self.context, 0, 0)
        out = np.empty((len(ids), self.vocab), np.float32)
        for at in [*range(0, prompt, ROWS), *range(prompt, len(ids))]:
            chunk = ids[at : min(at + ROWS, prompt)] if at < prompt else ids[at : at + 1]
            self.lib.tern_seq_expect(self.context, 0, prompt if at < prompt else 0)
            for token in chunk:
                self._try("tern_batch_add", self.context, 0, int(token), WANTS_LOGITS)
            if self.lib.tern_forward(self.context):
                raise RuntimeError("the step was cancelled")
            for i in range(len(chunk)):
                row = self.lib.tern_logits(self.context, ctypes.c_size_t(i))
                out[at + i] = np.ctypeslib.as_array(row, (self.vocab,))
        return out

    def observe(self, ids: list[int], wanted: set[int], take: Callable[[Observation], None]) -> None:
        """Evaluates ids as a fresh sequence; `take` gets what every step gives. Logits come from the positions in `wanted`."""

        def shown(_, raw):
            take(observation(raw.contents))

        self._watch(ids, wanted, OBSERVE(shown), None)

    def _watch(self, ids: Sequence[int], wanted: set[int], callback, arg) -> None:
        """observe(), with a function of C."""
        self._try("tern_observe", self.context, callback, arg)
        try:
            self.lib.tern_seq_keep(self.context, 0, 0)
            self.lib.tern_seq_expect(self.context, 0, len(ids))
            n = logits = 0
            for i, token in enumerate(ids):
                if n == self.n_batch or (i in wanted and logits == ROWS):
                    self.lib.tern_forward(self.context)
                    n = logits = 0
                self._try("tern_batch_add", self.context, 0, int(token), WANTS_LOGITS if i in wanted else 0)
                n, logits = n + 1, logits + (i in wanted)
            self.lib.tern_forward(self.context)
        finally:
            self._try("tern_observe", self.context, OBSERVE(), None)

    def attention_use(self, name: str | None) -> None:
        """Every attention layer by a kind of the zoo; None: the engine's own."""
        self._try("tern_attention_use", self.context, name and name.encode())

    def edit(self, change: Callable[[Observation], bool] | None) -> None:
        """From now on `change` may write into the values that it gets, and says whether it did; None ends that (tern_edit)."""

        def offered(_, raw, __):
            return int(change(observation(raw.contents)))

        self._editor = EDIT(offered) if change else EDIT()  # lives as long as it may be called
        self._try("tern_edit", self.context, self._editor, None)

    def lens(self, x: np.ndarray) -> np.ndarray:
        """What rows x [n, dim] of the stream would say next, as logits [n, vocab] (tern_lens)."""
        x, out = np.ascontiguousarray(x, np.float32), np.empty((len(x), self.vocab), np.float32)
        floats = ctypes.POINTER(ctypes.c_float)
        size = (ctypes.c_size_t(len(x)), ctypes.c_size_t(x.shape[1]))
        self._try("tern_lens", self.context, x.ctypes.data_as(floats), *size, out.ctypes.data_as(floats))
        return out

    def keep_terms(self, on: bool) -> None:
        """From now on the last row of each batch that gives logits is kept for `contributions` (tern_keep_terms)."""
        self._try("tern_keep_terms", self.context, int(on))

    def contributions(self, token: int) -> tuple[dict[tuple[str, int, int], float], float]:
        """The terms of a token's logit before the cap, as {(kind, layer, index): value}, and that logit (tern_contributions)."""
        n, logit = ctypes.c_size_t(), ctypes.c_float()
        self._try("tern_contributions", self.context, token, None, ctypes.c_size_t(0), ctypes.byref(n), None)
        terms = (RawTerm * n.value)()
        self._try("tern_contributions", self.context, token, terms, n, ctypes.byref(n), ctypes.byref(logit))
        return {(TERMS[t.kind], t.layer, t.index): t.value for t in terms}, logit.value

    def _try(self, name: str, *arguments) -> None:
        """A call whose failure is the input's fault."""
        try:
            self._call(name, *arguments)
        except RuntimeError as e:
            raise ConvertError(self.error.sentence, self.error.code) from e


class Attention:
    """The attention of `ids`, evaluated as a fresh sequence, in some layers (None: all) as rows of a matrix (tern_attention). It
    keeps their q, k and v until it is closed, at the latest with its engine."""

    def __init__(self, engine: Engine, ids: Sequence[int], layers: Iterable[int] | None = None):
        self.engine, self.n, self.handle = engine, len(ids), ctypes.c_void_p()
        wanted = range(engine.info.n_layers) if layers is None else set(layers)
        kept = (ctypes.c_ubyte * engine.info.n_layers)(*(i in wanted for i in range(engine.info.n_layers)))
        params = AttentionParams(n_positions=self.n, layers=kept)
        engine._try("tern_attention_open", ctypes.byref(self.handle), engine.context, ctypes.byref(params))
        engine.rows.add(self)
        engine._watch(ids, set(), ctypes.cast(engine.lib.tern_attention_feed, OBSERVE), self.handle)

    def rows(self, layer: int, head: int, stage: str) -> np.ndarray:
        """f32 [n, n]: a stage of STAGES, of all tokens of one head."""
        out, n = np.empty((self.n, self.n), np.float32), ctypes.c_size_t(self.n)
        at = (self.engine.model and self.handle, ctypes.c_uint64(layer), ctypes.c_uint64(head), STAGES.index(stage), 0, self.n)
        self.engine._try("tern_attention_rows", *at, out.ctypes.data_as(FLOATS), n)
        return out

    def close(self) -> None:
        self.engine.lib.tern_attention_close(self.handle)
        self.handle = ctypes.c_void_p()

    __del__ = close
