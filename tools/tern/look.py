"""What a model did with a text: a page for people, and the same as arrays."""

import functools
import html
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from .attention import Attention
from .errors import IO, USAGE, ConvertError
from .library import Engine
from .structs import STAGES
from .values import U32, path as named, whole

FRAME = """<iframe srcdoc="{page}" sandbox="allow-scripts" title="{title}"
 style="width: 100%; height: {height}px; border: 1px solid #8888; resize: vertical; overflow: auto"></iframe>"""


class Look:
    """What Model.look returns. A notebook shows its page in a frame; the frame has no access to the notebook, to the network or to
    files, so save pictures from the page that save() writes.

    Arrays are computed when they are asked for, as long as the model is open. n is the number of tokens.

        tokens    int32 [n]
        page      the page, as ./look writes it
    """

    def __init__(self, engine: Engine, ids: Sequence[int], page: str, layers: Iterable[int] | None, height: int):
        self.tokens, self.page = np.array(ids, np.int32), page
        self._engine, self._layers, self._height = engine, layers, height

    @functools.cached_property
    def pieces(self) -> list[str]:
        """The text of each token; bytes that are no whole character appear as \\xNN."""
        return [piece.decode(errors="backslashreplace") for piece in self._engine.pieces(self.tokens)]

    @functools.cached_property
    def _attention(self) -> Attention:
        return Attention(self._engine, self.tokens, self._layers)

    def attention(self, layer: int, head: int | None = None, stage: str = "weights") -> np.ndarray:
        """f32 [n, n], row: the token that looks, column: the token that it looks at; of all heads [heads, n, n].

        stage: raw       q . k of all pairs
               scaled    the same, times the scale, and capped if the model caps them
               masked    the same, -infinity where a token may not look
               weights   softmax of that
               unmasked  softmax without the mask
        """
        if stage not in STAGES:
            raise ConvertError(f"{stage!r} is no stage: there are {', '.join(STAGES)}", USAGE)
        layer, head = whole("layer", layer, 0, U32), None if head is None else whole("head", head, 0, U32)
        heads = range(self._engine.layer(layer).n_heads or 1) if head is None else [head]
        rows = [self._attention.rows(layer, h, stage) for h in heads]
        return np.stack(rows) if head is None else rows[0]

    def pattern(self, layer: int, head: int | None = None) -> np.ndarray:
        """The weights of attention, [n, n] or [heads, n, n]: each row sums to 1, or to less where the model has sinks."""
        return self.attention(layer, head)

    def scores(self, layer: int, head: int | None = None) -> np.ndarray:
        """What softmax gets, [n, n] or [heads, n, n]; -infinity where a token may not look."""
        return self.attention(layer, head, "masked")

    def stages(self, layer: int, head: int) -> dict[str, np.ndarray]:
        """All stages of a head, {name: [n, n]}."""
        return {stage: self.attention(layer, head, stage) for stage in STAGES}

    @functools.cached_property
    def lens(self) -> np.ndarray:
        """The logit lens, f32 [n_layers + 1, n, vocab]: the logits if no layer followed. Row 0 is the embedding alone, row i + 1
        stands after layer i; the last row has the model's own logits, bit for bit."""
        streams = []

        def take(o):
            if o.operation == "embed" or o.operation == "out":
                start = o.layer + (o.operation == "out")
                if start == len(streams):
                    streams.append([])
                streams[start].append(o.values.copy())

        self._engine.observe(self.tokens, set(), take)
        return np.stack([self._engine.lens(np.concatenate(x)) for x in streams])

    def save(self, path: str | Path) -> None:
        """Writes the page: one file that needs no network."""
        try:
            named("path", path).write_bytes(self.page.encode())
        except OSError as e:
            raise ConvertError(f"{path}: cannot write: {e.strerror}", IO) from None

    def _repr_html_(self) -> str:
        title = f"tern: a look at {len(self.tokens)} tokens"
        return FRAME.format(page=html.escape(self.page), title=title, height=self._height)

    def __repr__(self) -> str:
        return f"<Look at {len(self.tokens)} tokens: a page of {len(self.page) / 1024:.0f} KiB; save(path) writes it>"
