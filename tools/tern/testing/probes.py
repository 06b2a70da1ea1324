"""Probes: what every step of a model gives in transformers, under the names of tern_observe (include/tern_lab.h), for
`tools/verify.py`.

In:  a model of transformers and the features that the converter reads from its config. Out: arrays in the order of the
forward pass. Modules are found by the names of their weights (layouts.py), so a family needs no line here; what has no
module of its own is taken where it passes: the input of o is what attention gave, the input of down what the activation
gave, and queries and keys are caught on their way into `eager_attention_forward`.

Nothing here follows the features where it could follow the modules: probes must not repeat a mistake of families.py.
"""

import re
import sys
from typing import Any

import numpy as np
import torch

from ..convert.families.features import MIX_ATTENTION, MIX_RECURRENT, feature, slots
from ..convert.families.layouts import Layout

NORMS = ("attn_norm", "attn_post_norm", "ffn_norm", "ffn_post_norm")
# The order of the forward pass
ORDER = (
    "attn_norm", "q", "k", "v", "attend", "o", "attn_post_norm", "middle", "ffn_norm", "gate", "up", "act", "down",
    "router", "experts", "ffn_post_norm", "ple", "out",
)  # fmt: skip
BOTH = MIX_ATTENTION | MIX_RECURRENT  # whose outputs the engine has added where the modules have not


class Recorder:
    """Takes down what passes the modules of `model`; layout and features are the converter's."""

    def __init__(self, model: Any, kind: str, features: dict[str, Any], positions: list[int]):
        state = set(model.state_dict())
        self.model, self.features, self.positions = model, features, positions
        self.layout = Layout(kind, features, lambda name: self._real(name, state))
        self.slots = {slot.name: slot for slot in slots(features)}
        self.layer, self.got, self.hooks, self.patched = 0, {}, [], []

    @staticmethod
    def _real(name: str, state: set[str]) -> bool:
        return name in state

    # ---- places ----

    def _rows(self, part: str) -> np.ndarray | None:
        """Which of a module's outputs are ours, when it has others too."""
        return self.layout.places(self.slots[part])[0].rows

    def _module(self, ours: str) -> Any:
        place = self.layout.places(self.slots[ours])[0]
        name = self.layout.name(ours) if place.ones else place.name
        return self._find(name.removesuffix(".weight"))

    def _find(self, name: str) -> Any:
        modules = dict(self.model.named_modules())
        for known in (name, name.replace("model.", "model.language_model.", 1)):
            if known in modules:
                return modules[known]
        raise SystemExit(f"the model of transformers has no module {name}")

    def _parent(self, name: str) -> str:
        return name.rsplit(".", 1)[0]

    # ---- hooks ----

    def _keep(self, name: str, value: Any) -> None:
        value = value[0] if isinstance(value, tuple) else value
        value = value.detach().reshape(-1, value.shape[-1])[self.positions]
        self.got[name] = value.to(torch.float32).numpy().copy()

    def _on_output(self, module: Any, name: str, rows: np.ndarray | None = None) -> None:
        def hook(_, args, out):
            out = out[0] if isinstance(out, tuple) else out
            self._keep(name, out if rows is None else out[..., torch.from_numpy(rows)])

        self.hooks.append(module.register_forward_hook(hook))

    def _on_input(self, module: Any, name: str) -> None:
        def hook(_, args, kwargs):
            self._keep(name, args[0] if args else kwargs["hidden_states"])

        self.hooks.append(module.register_forward_pre_hook(hook, with_kwargs=True))

    def _on_router(self, module: Any, name: str) -> None:
        """The weights of the chosen, spread over all experts; a router gives (scores of all, weights, ids)."""

        def hook(_, args, out):
            if not isinstance(out, tuple) or len(out) != 3:
                return  # it chooses elsewhere
            scores, weights, ids = out
            self._keep(name, torch.zeros_like(scores, dtype=torch.float32).scatter(-1, ids, weights.float()))

        self.hooks.append(module.register_forward_hook(hook))

    def _patch(self, module: Any, name: str, after: Any) -> None:
        """`after(args, result)` sees every call of a function of a Python module."""
        real = getattr(module, name)

        def call(*args, **kwargs):
            result = real(*args, **kwargs)
            after(args, result)
            return result

        setattr(module, name, call)
        self.patched.append((module, name, real))

    # ---- what is taken ----

    def _heads(self, part: str, x: torch.Tensor) -> None:
        """x [1, heads, n, head_dim] as rows of our order: where the source turns neighbours, halves; where it has
        repeated the heads of k and v, once."""
        n_kv = feature(self.features, "n_kv_heads", self.layer)
        if feature(self.features, "kv_rank", self.layer) or part != "q" and feature(self.features, "kv_from", self.layer):
            return
        if part != "q" and x.shape[1] > n_kv:
            x = x[:, :: x.shape[1] // n_kv]
        x = x.transpose(1, 2).flatten(2)
        ours = f"layer.{self.layer}.{part}"
        rows = self._rows(ours) if ours in self.slots else None
        if rows is not None:
            x = x[..., torch.from_numpy(np.argsort(np.argsort(rows)))]
        self._keep(ours, x)

    def _take_attention(self, o_name: str) -> None:
        """Queries, keys and values; of latent attention, whose heads are others here, none."""
        code = sys.modules[type(self._find(self._parent(o_name))).__module__]
        if self.patched:
            return
        if hasattr(code, "eager_attention_forward"):  # (module, query, key, value, ...)
            self._patch(
                code, "eager_attention_forward",
                lambda args, _: [self._heads(part, x) for part, x in zip("qkv", args[1:4])],
            )  # fmt: skip
        else:
            self._patch(code, "apply_rotary_pos_emb", lambda _, out: [self._heads(p, x) for p, x in zip("qk", out)])

    def _take_layer(self, i: int) -> None:
        at = f"layer.{i}."
        first = next(part for part in self.slots if part.startswith(at) and not self.layout.places(self.slots[part])[0].ones)
        block = self._find(re.match(r"(.*?\.\d+)\.", self.layout.places(self.slots[first])[0].name)[1])
        self.hooks.append(block.register_forward_pre_hook(lambda *_: setattr(self, "layer", i)))
        self._on_input(block, "embed" if i == 0 else at + "in")
        self._on_output(block, at + "out")
        for last in (part for part in ("o", "mix_out") if at + part in self.slots):
            name = self.layout.places(self.slots[at + last])[0].name.removesuffix(".weight")
            if last == "o":
                self._take_attention(name)
            if feature(self.features, "mixer", i) != BOTH:
                self._on_input(self._find(name), at + "attend")
                self._on_output(self._find(name), at + "o")
        for norm in NORMS:
            if at + norm in self.slots:
                self._on_output(self._module(at + norm), at + norm)
        if at + "ple_post_norm" in self.slots:
            self._on_output(self._module(at + "ple_post_norm"), at + "ple")
        self._take_ffn(at)

    def _take_ffn(self, at: str) -> None:
        if at + "router" in self.slots:
            name = self.layout.places(self.slots[at + "router"])[0].name.removesuffix(".weight")
            self._on_router(self._find(name), at + "router")
            ffn = self._find(self._parent(name))
            self._on_output(ffn, at + "experts")
        elif at + "down" not in self.slots:
            return
        else:
            for part in ("gate", "up", "down"):
                if at + part in self.slots:
                    self._on_output(self._module(at + part), at + part, self._rows(at + part))
            self._on_input(self._module(at + "down"), at + "act")
            name = self.layout.places(self.slots[at + "up"])[0].name.removesuffix(".weight")
            ffn = self._find(self._parent(name))
        self._on_input(self._module(at + "ffn_norm") if at + "ffn_norm" in self.slots else ffn, at + "middle")

    # ---- the run ----

    def run(self, ids: list[int]) -> dict[str, np.ndarray]:
        """The arrays of the file, in order."""
        n = self.features["n_layers"]
        try:
            for i in range(n):
                self._take_layer(i)
            self._on_output(self._module("final_norm"), "final_norm")
            with torch.no_grad():
                self._keep("logits", self.model(torch.tensor([ids]), use_cache=False).logits)
        finally:
            for hook in self.hooks:
                hook.remove()
            for module, name, real in self.patched:
                setattr(module, name, real)
        return self._settled(n)

    def _settled(self, n: int) -> dict[str, np.ndarray]:
        out, got = {"embed": self.got["embed"]}, self.got
        for i in range(n):
            at = f"layer.{i}."
            before = got["embed"] if i == 0 else got[f"layer.{i - 1}.out"]
            for part, post in (("o", "attn_post_norm"), ("down", "ffn_post_norm"), ("experts", "ffn_post_norm")):
                last = at + (post if at + post in got else part)
                if last in got:  # what is added to the stream, is so after the multiplier
                    got[last] = got[last] * np.float32(self.features.get("residual_scale", 1))
            if at + "middle" not in got:
                pass
            elif np.array_equal(got[at + "middle"], before) or np.array_equal(got[at + "middle"], got.get(at + "attn_norm")):
                del got[at + "middle"]  # attention and feed-forward read the same
            out |= {at + name: got[at + name] for name in ORDER if at + name in got}
        return out | {name: got[name] for name in ("final_norm", "logits")}


def probe(model: Any, kind: str, features: dict[str, Any], ids: list[int], positions: list[int]) -> dict[str, np.ndarray]:
    """The arrays of a file of probes: see ../verify.py."""
    head = {"tokens": np.array(ids, "<i4"), "positions": np.array(positions, "<i4")}
    return head | Recorder(model, kind, features, positions).run(ids)
