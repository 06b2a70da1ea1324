"""An answer in a conversation, its thoughts told apart from what it says.

In:  an engine, messages, options. Out: pieces of text, each with its kind, and at the end a ChatResult.
"""

import ctypes
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import USAGE, ConvertError
from .generate import Generation, Result, one
from .library import Engine
from .options import Options, token_ids
from .structs import CHAT_GENERATE, CHAT_NO_THINK, CHAT_THINK
from .values import encoded, text

ROLES = ("system", "user", "assistant")


class Piece(str):
    """Text with a `kind`: "answer", "thought", or "mark" for what stands between the two, such as </think>."""

    kind: str

    def __new__(cls, text: str, kind: str) -> "Piece":
        piece = super().__new__(cls, text)
        piece.kind = kind
        return piece


@dataclass
class ChatResult(Result):
    """A Result, and its parts: `thoughts` and `answer`, stripped of space around them. `message` is the answer as a message for the next turn,
    with the ids as they were chosen, so that the next turn evaluates nothing twice."""

    thoughts: str = ""
    answer: str = ""
    message: dict | None = None


class Parts:
    """Cuts a text at the marks of thoughts, wherever its pieces end."""

    def __init__(self, marks: tuple[str, str], thinks: bool):
        self.marks, self.thinks, self.held = marks, thinks, ""

    def feed(self, text: str) -> Iterator[Piece]:
        self.held += text
        while True:
            mark = self.marks[self.thinks]
            before, found, after = self.held.partition(mark)
            if not found:
                break
            yield from self._say(before)
            yield Piece(found, "mark")
            self.held, self.thinks = after, not self.thinks
        n = next(n for n in range(len(mark), -1, -1) if self.held.endswith(mark[:n]))  # the beginning of a mark waits for the rest
        ready, self.held = self.held[: len(self.held) - n], self.held[len(self.held) - n :]
        yield from self._say(ready)

    def finish(self) -> Iterator[Piece]:
        yield from self._say(self.held)
        self.held = ""

    def _say(self, text: str) -> Iterator[Piece]:
        if text:
            yield Piece(text, "thought" if self.thinks else "answer")


class Chat(Generation):
    """A Generation whose pieces have a kind; `result` is a ChatResult."""

    def __init__(self, engine: Engine, options: Options, ids: list[int], opening: str, marks: tuple[str, str]):
        super().__init__(one(engine, options, ids))
        self._parts, self._opening = Parts(marks, bool(opening)), opening
        self._ready: deque[Piece] = deque()

    def __next__(self) -> Piece:
        while not self._ready:
            try:
                self._ready.extend(self._parts.feed(super().__next__()))
            except StopIteration:
                self._ready.extend(self._parts.finish())
                if not self._ready:
                    raise
        return self._ready.popleft()

    @property
    def result(self) -> ChatResult:
        """What became of the answer, once it has ended or was closed."""
        r = super().result
        parts = Parts(self._parts.marks, bool(self._opening))
        said = [*parts.feed(r.text), *parts.finish()]
        thoughts, answer = ("".join(p for p in said if p.kind == kind).strip() for kind in ("thought", "answer"))
        message: dict[str, Any] = {"role": "assistant", "content": self._opening + r.text}
        if r.reason in ("end", "length", "context", "complete") and not r.n_shifts and r.tokens:
            message["tokens"] = r.tokens
        return ChatResult(**vars(r), thoughts=thoughts, answer=answer, message=message)


def checked(engine: Engine, messages: Any) -> list[dict]:
    """Messages with a role and a text."""
    if isinstance(messages, str | Mapping) or not isinstance(messages, Iterable):
        raise ConvertError('messages are a list, as in [{"role": "user", "content": "Hello"}]', USAGE)
    out = []
    for i, m in enumerate(messages):
        if not isinstance(m, Mapping) or m.get("role") not in ROLES or not isinstance(m.get("content"), str):
            raise ConvertError(f'message {i}: {m!r:.80} is not {{"role": {"|".join(ROLES)}, "content": text}}', USAGE)
        encoded(f"message {i}", m["content"])
        ids = m.get("tokens")
        out.append({**m, "tokens": None if ids is None else token_ids(engine, ids, f"message {i}")})
    return out


def use(engine: Engine, template: str | None) -> None:
    """Chooses a built-in template by name, or the model's own."""
    try:
        engine.chat_use(None if template is None else text("template", template).decode())
    except RuntimeError as e:
        raise (no_template(engine) if template is None else ConvertError(str(e).partition(": ")[2], USAGE)) from None


def no_template(engine: Engine) -> ConvertError:
    names = []
    while name := engine.lib.tern_chat_builtin(len(names)):
        names.append(name.decode())
    return ConvertError(f"the model has no chat template; choose one: template={'|'.join(names)}", USAGE)


def begin(engine: Engine, messages: Sequence[Mapping[str, Any]], think: bool | None, given: Mapping[str, Any]) -> Chat:
    """The answer to the last message."""
    info = engine.chat_info()
    if info is None:
        raise no_template(engine)
    if think is not None and not info.thinking:
        raise ConvertError("think: this chat template has no such choice", USAGE)
    flags = CHAT_GENERATE | (0 if think is None else CHAT_THINK if think else CHAT_NO_THINK)
    opening = ctypes.create_string_buffer(engine.lib.tern_chat_opening(engine.model, flags, None, 0) + 1)
    engine.lib.tern_chat_opening(engine.model, flags, opening, len(opening) - 1)
    begun = opening.value.decode(errors="replace")
    thinks = begun or think or (think is None and info.thinking == 1)
    options = Options(engine, given, info.marks[1].encode() if thinks else b"")
    if info.stop:
        options.add_stop(info.stop)
    try:
        ids = engine.chat_tokens(checked(engine, messages), flags)
    except RuntimeError as e:
        raise ConvertError(str(e).partition(": ")[2], USAGE) from None
    return Chat(engine, options, ids, begun, info.marks)
