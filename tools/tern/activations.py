"""What happened inside a model, under TransformerLens' names."""

import re
from collections.abc import Iterator, Mapping

import numpy as np

NAME = re.compile(r"(?:blocks\.(\d+)\.)?(?:\w+\.)?hook_(\w+)")
ALIASES = {"attn": "pattern", "attn_logits": "attn_scores", "query": "q", "key": "k", "value": "v", "mlp_pre": "pre", "mlp_post": "post"}


class ActivationCache(Mapping):
    """Arrays by name, as TransformerLens' ActivationCache has them:

        cache["blocks.0.attn.hook_pattern"]    the full name
        cache["pattern", 0]                    name and layer; -1 is the last layer
        cache["embed"]                         without a layer

    Each array is f32 with the batch first, which is 1. src/app/look/hooks.h has all names and shapes:

        q, k, v, z, rot_q, rot_k       [1, n, heads, head_dim]; KV heads are not repeated
        attn_scores, pattern           [1, heads, n, n]: query, key
        pre, pre_linear, post          [1, n, hidden]
        embed, resid_pre, resid_mid, resid_post, attn_out, mlp_out    [1, n, dim]

    `tokens` is int32 [1, n].
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], tokens: np.ndarray, n_layers: int):
        self.tokens, self._arrays, self._n_layers = tokens, dict(arrays), n_layers
        self._names = {}
        for full in self._arrays:
            layer, name = NAME.fullmatch(full).groups()
            self._names[name, layer and int(layer)] = full

    def __getitem__(self, key: str | tuple) -> np.ndarray:
        if key in self._arrays:
            return self._arrays[key]
        name, layer, *_ = key if isinstance(key, tuple) else (key, None)
        if isinstance(layer, int | np.integer) and layer < 0:
            layer += self._n_layers
        try:
            return self._arrays[self._names[ALIASES.get(name, name), layer]]
        except KeyError:
            names = dict.fromkeys(name for name, _ in self._names)
            raise KeyError(f"{key!r} was not kept; these were, of some layers: {', '.join(names)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return f"ActivationCache of {len(self)} arrays: {', '.join(self._arrays)}"
