"""A model as notebooks use it: text and tokens, logits, what happens inside."""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from . import programs
from .activations import ActivationCache
from .errors import USAGE, ConvertError
from .library import Engine
from .look import Look

Prompt = str | Sequence[int]  # a text, or token ids as they are
VIEWS = ("atlas", "lens", "why", "surprise")


class Model:
    """A model and the memory to evaluate texts of up to n_ctx tokens (0: as many as the model was made for, reduced to fit in
    half the memory). Whatever goes wrong is a tern.Error with the engine's sentence.

        with tern.Model("models/fable.bin") as model:
            model.look("The cat sat on the mat").save("atlas.html")

    cache_type: f16, f32 or q8, what keys and values are rounded to. n_threads: 0 means the number of CPU cores you may use. cpu: a
    kernel target; all give the same bits. One thread at a time may use a model.

    `n_layers`, `vocab`: of the model.
    """

    def __init__(self, path: str | Path, *, n_ctx: int = 0, cache_type: str = "f16", n_threads: int = 0, cpu: str | None = None):
        library = programs.library()
        self._engine = Engine(library, Path(path), n_ctx, cpu=cpu, n_threads=n_threads, cache_type=cache_type)
        self.n_layers, self.vocab = self._engine.info.n_layers, self._engine.info.vocab
        self._program = [library.parent / "look", Path(path).resolve(), "--quiet", "--cache-type", cache_type]
        self._program += ["--threads", n_threads] * bool(n_threads) + ["--cpu", cpu] * bool(cpu)

    def close(self) -> None:
        """Frees its memory. A look at this model keeps its page, but computes no more arrays."""
        self._engine.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    # ---- text and tokens ----

    def tokenize(self, text: str) -> list[int]:
        """Token ids of a text, with BOS where the model's tokenizer adds it."""
        return self._engine.encode(text.encode())

    def detokenize(self, ids: Iterable[int], special: bool = False) -> str:
        """The text of token ids; special tokens such as BOS appear only if asked for."""
        return self._engine.decode(ids, special).decode(errors="replace")

    def _ids(self, prompt: Prompt) -> list[int]:
        """The ids of a prompt; an empty one is BOS, if the model has one."""
        _ = self._engine.model  # it is open
        ids = self.tokenize(prompt) if isinstance(prompt, str) else [int(token) for token in prompt]
        bos = self._engine.info.bos
        if not ids and bos < 0:
            raise ConvertError("the prompt has no tokens", USAGE)
        return ids or [bos]

    # ---- what it computes ----

    def logits(self, prompt: Prompt) -> np.ndarray:
        """f32 [n, vocab]: row i rates each token as the one after token i."""
        return self._engine.logits(self._ids(prompt))

    def run_with_cache(
        self, prompt: Prompt, names_filter: str | Iterable[str] | Callable[[str], bool] | None = None
    ) -> tuple[np.ndarray, ActivationCache]:
        """(logits f32 [1, n, vocab], what happened inside by TransformerLens' names); see ActivationCache for names and shapes.

        names_filter: the arrays to keep, by name (a star stands for any characters), several names, or a function of the name that
        says whether to. None keeps all: some 10 * n_layers * n * (dim + heads * n) floats. At most 4 GiB; ./look --capture writes
        more to a file.
        """
        ids = self._ids(prompt)
        if callable(names_filter):  # a capture of one token tells the names
            names_filter = [name for name in self._capture(ids[:1], "*") if name != "tokens" and names_filter(name)]
        names = [names_filter or "*"] if isinstance(names_filter, str | None) else list(names_filter)
        if not names:
            raise ConvertError("names_filter chooses no array", USAGE)
        arrays = self._capture(ids, ",".join(names))
        tokens = arrays.pop("tokens")
        return self._engine.logits(ids)[None], ActivationCache(arrays, tokens, self.n_layers)

    def _capture(self, ids: list[int], hooks: str) -> dict[str, np.ndarray]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "capture.npz")
            self._look("--prompt-ids", ",".join(map(str, ids)), "--capture", file, "--hooks", hooks)
            with np.load(file) as arrays:
                return dict(arrays)

    def _look(self, *options) -> None:
        """Runs the program look."""
        programs.call([*self._program, *options])

    # ---- what people see ----

    def look(
        self, prompt: Prompt, view: str = "atlas", *, layers: Iterable[int] | None = None, head: tuple[int, int] | None = None,
        stage: str | None = None, token: str = "", height: int = 640,
    ) -> Look:  # fmt: skip
        """A page that a notebook shows, `height` pixels high, and its numbers as arrays (see Look).

        view: atlas     the attention of every head, of `layers` only, or of one `head` (layer, head); `stage` as in Look.attention
              lens      what each layer would say next
              why       what each part of the model adds to the logit of `token`, by default the most probable one
              surprise  the bits that each token of a text takes
        """
        if view not in VIEWS:
            raise ConvertError(f"{view!r} is no view: there are {', '.join(VIEWS)}", USAGE)
        layers = None if layers is None else list(layers)
        options = {"--head": head and f"{head[0]}.{head[1]}", "--layers": layers and ",".join(map(str, layers)), "--stage": stage}
        chosen = [part for option, value in options.items() if value for part in (option, value)]
        if view == "surprise" and not isinstance(prompt, str):
            raise ConvertError("the view surprise needs a text, not token ids", USAGE)
        ids = self._ids(prompt)
        with tempfile.TemporaryDirectory() as folder:
            page, text = Path(folder, "page.html"), Path(folder, "text.txt")
            source = ["--prompt-ids", ",".join(map(str, ids))]
            if view == "surprise":
                text.write_bytes(prompt.encode())
                source = []
            job = {"atlas": [], "lens": ["--lens"], "why": ["--why", token], "surprise": ["--surprise", text]}[view]
            self._look(*source, *job, *chosen, "--output", page)
            return Look(self._engine, ids, page.read_bytes().decode(), layers, height)
