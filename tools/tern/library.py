"""libtern.so from Python: the calls of include/tern.h that tests and checks need, through ctypes."""

import ctypes
import os
from pathlib import Path

import numpy as np

ROWS = 32  # TERN_MAX_LOGITS
WANTS_LOGITS, ADD_SPECIAL, CACHE_F32 = 1, 1, 1


class Error(ctypes.Structure):
    """struct tern_error"""

    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 512)]


class ContextParams(ctypes.Structure):
    """struct tern_context_params"""

    _fields_ = [(name, ctypes.c_uint32) for name in ("n_ctx", "n_batch", "n_seqs")]
    _fields_ += [("cache_type", ctypes.c_int), ("fingerprint", ctypes.c_int)]


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


class Engine:
    """A model and one context of `n_ctx` positions, with an f32 cache; a with-statement closes both."""

    def __init__(self, library: Path, model: Path, vocab: int, n_ctx: int):
        self.lib, self.error, self.vocab = ctypes.CDLL(str(library.resolve())), Error(), vocab
        self.lib.tern_logits.restype = ctypes.POINTER(ctypes.c_float)
        self.model, self.context = ctypes.c_void_p(), ctypes.c_void_p()
        params = ContextParams(n_ctx=n_ctx, n_batch=ROWS, cache_type=CACHE_F32)
        self._call("tern_model_open", ctypes.byref(self.model), os.fsencode(model), None)
        self._call("tern_context_open", ctypes.byref(self.context), self.model, ctypes.byref(params))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lib.tern_context_close(self.context)
        self.lib.tern_model_close(self.model)

    def _call(self, name: str, *arguments) -> None:
        if getattr(self.lib, name)(*arguments, ctypes.byref(self.error)):
            raise RuntimeError(f"{name}: {self.error.text.decode()}")

    def encode(self, text: bytes) -> list[int]:
        """Ids of a text, with BOS where the model's tokenizer adds it."""
        n, room = ctypes.c_size_t(), len(text) + 16
        ids = (ctypes.c_int32 * room)()
        size = (ctypes.c_size_t(len(text)), ADD_SPECIAL, ids, ctypes.c_size_t(room), ctypes.byref(n))
        self._call("tern_tokenize", self.model, text, *size)
        return list(ids[: n.value])

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
                self._call("tern_batch_add", self.context, 0, int(token), WANTS_LOGITS)
            if self.lib.tern_forward(self.context):
                raise RuntimeError("the step was cancelled")
            for i in range(len(chunk)):
                row = self.lib.tern_logits(self.context, ctypes.c_size_t(i))
                out[at + i] = np.ctypeslib.as_array(row, (self.vocab,))
        return out
