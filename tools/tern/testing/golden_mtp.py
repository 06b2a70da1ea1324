"""Makes the golden tests of layers that guess further tokens (MTP), from the published definition.

transformers drops the weights of such layers, so the definition is written here: DeepSeek-V3 report, section 2.2, in the
form that SGLang (deepseek_nextn.py) and vLLM (qwen3_next_mtp.py) run. The inner layer is the family's own in
transformers; what is around it is here. Row p > 0 is

    x = eh_proj [enorm(embed t(p)) | hnorm(h(p - 1))];  x = layer(x), over rows 1 .. p;  g = norm(x);  logits = head g

with h what the model's own head reads: after the final norm. Beyond the prompt the last guess is t, and g is h.
In:  a Draft. Out: a Golden whose rows up to the prompt's last are of its tokens, the later ones of the guesses, and whose
`greedy` are the guesses. Wrong wiring only makes guesses worse, so each step of it is switched off in turn.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import transformers

from ..convert.families import mtp, places
from ..convert.families.features import packed_config, slots
from ..convert.families.layouts import Layout
from ..errors import ConvertError
from . import golden, golden_file
from .golden_families import FAMILIES
from .golden_file import Golden

GUESSES = 4
ROWS = (1, 6, 15, 22)  # of the prompt, beside its last; then those of the guesses


@dataclass(frozen=True)
class Draft:
    """A golden test, and the one whose model it takes. shifted: norm weights are stored less one."""

    name: str
    family: str
    shifted: bool = False


DRAFTS = (
    Draft("mtp/deepseek-v3", "deepseek-v3"), Draft("mtp/glm4-moe", "glm4-moe"), Draft("mtp/qwen3-next", "qwen3-next", True),
    Draft("mtp/qwen35", "qwen35", True),
)  # fmt: skip
QUIRKS = (
    "order of embedding and state", "norm of the embedding", "norm of the state", "norm of the guess",
    "state before the final norm", "guess before its norm", "token before", "row 0",
)  # fmt: skip


def published(made, shape: dict, weights: dict) -> dict[str, np.ndarray]:
    """The layer's tensors under their published names, less `model.layers.N.`."""
    layout, state, n = Layout(made.model_type, shape, lambda name: False), {}, shape["n_layers"]
    for slot in slots(shape):
        if slot.layer_and_part[0] == n:
            places.put(state, slot, layout.places(slot), weights[slot.name])
    return {name.removeprefix(f"model.layers.{n}."): w for name, w in state.items()}


class Reference:
    """The model in transformers, and the layer behind it."""

    def __init__(self, draft: Draft, made, shape: dict, weights: dict, dtype=torch.float32):
        n = shape["n_layers"]
        like = max(i for i, layer in enumerate(range(n)) if shape.get("mixer", [1] * n)[layer] & 1)
        own = {key: value[:n] if isinstance(value, list) and len(value) == n + 1 else value for key, value in shape.items()}
        own.pop("mtp")
        self.model = golden.build_model(made, own, weights, dtype)
        self.eps, self.dtype, self.shifted = made.rms_norm_eps, dtype, draft.shifted
        self.layer = type(self.model.model.layers[like])(made, like).to(dtype).eval()
        state = {name: torch.tensor(w, dtype=dtype) for name, w in published(made, shape, weights).items()}
        self.around = {name: state.pop(f"{name}.weight") for name in ("eh_proj", "enorm", "hnorm", "shared_head.norm")}
        fuse_experts(state, self.layer)
        self.layer.load_state_dict(state, strict=True)
        self.before = None
        self.model.model.norm.register_forward_hook(lambda _m, x, _y: setattr(self, "before", x[0][0]))

    def norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        w = self.around[name] + 1 if self.shifted else self.around[name]
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * w

    def rows(self, tokens: list[int], states: torch.Tensor, quirk: str) -> tuple[torch.Tensor, torch.Tensor]:
        """x and g of the rows whose tokens are tokens[1:], states [len(tokens) - 1, dim] before them."""
        first = 0 if quirk == "row 0" else 1
        if not first:
            states = torch.cat([torch.zeros_like(states[:1]), states])
        shift = 1 if quirk == "token before" else 0
        embedded = self.model.model.embed_tokens(torch.tensor(tokens))[first - shift : len(tokens) - shift]
        e = embedded if quirk == "norm of the embedding" else self.norm("enorm", embedded)
        h = states if quirk == "norm of the state" else self.norm("hnorm", states)
        both = (h, e) if quirk == "order of embedding and state" else (e, h)
        x = torch.cat(both, -1) @ self.around["eh_proj"].T
        at = torch.arange(first, len(tokens))[None]
        mask = torch.full((len(x), len(x)), -math.inf, dtype=self.dtype).triu(1)[None, None]
        angles = self.model.model.rotary_emb(x[None], at)
        made = self.layer(x[None], attention_mask=mask, position_ids=at, position_embeddings=angles)
        x = (made[0] if isinstance(made, tuple) else made)[0]
        return x, self.model.model.norm(x) if quirk == "norm of the guess" else self.norm("shared_head.norm", x)

    @torch.no_grad()
    def look(self, prompt: list[int], quirk: str = "") -> tuple[dict[int, np.ndarray], list[int]]:
        """Logits by position: 1 .. of the prompt, then of the guesses; and the guesses."""
        h = self.model.model(torch.tensor([prompt]), use_cache=False).last_hidden_state[0]
        states = (self.before if quirk == "state before the final norm" else h)[:-1]
        tokens, out, guesses = list(prompt), {}, []
        for _ in range(GUESSES):
            x, g = self.rows(tokens, states, quirk)
            logits = self.model.lm_head(g).numpy()
            for back, row in enumerate(logits[::-1]):
                out.setdefault(len(tokens) - 1 - back, row)
            guesses.append(int(logits[-1].argmax()))
            tokens.append(guesses[-1])
            states = torch.cat([states, (x if quirk == "guess before its norm" else g)[-1:]])
        return out, guesses


def fuse_experts(state: dict[str, torch.Tensor], layer) -> None:
    """Published files have a tensor for each expert, transformers one for all."""
    wanted = layer.state_dict()
    n = sum(name.startswith("mlp.experts.") and name.endswith("down_proj.weight") for name in state)
    if not n or "mlp.experts.gate_up_proj" not in wanted:
        return
    each = [{part: state.pop(f"mlp.experts.{i}.{part}_proj.weight") for part in ("gate", "up", "down")} for i in range(n)]
    state["mlp.experts.gate_up_proj"] = torch.stack([torch.cat([one["gate"], one["up"]]) for one in each])
    state["mlp.experts.down_proj"] = torch.stack([one["down"] for one in each])


def make(draft: Draft, say: Callable[[str], None]) -> Golden:
    """The golden test of the first seed that will do."""
    family = next(family for family in FAMILIES if family.name == draft.family)
    made = golden.build_config(family)
    shape = golden.features(family, made)
    mtp.add(shape)
    for seed in range(1, golden.SEEDS):
        weights = {slot.name: golden_file.weights_of(slot, seed, set()) for slot in slots(shape)}
        prompt = golden_file.prompt_ids(seed, family.prompt, made.vocab_size)
        rows, guesses = Reference(draft, made, shape, weights).look(prompt)
        kept = {at: rows[at] for at in (*ROWS, *range(family.prompt - 1, family.prompt - 1 + GUESSES))}
        exact, _ = Reference(draft, made, shape, weights, torch.float64).look(prompt)
        error = max(golden.distance(kept[at][None], exact[at][None])[0] for at in kept)
        lead = min(_lead(rows[at]) for at in kept if at >= family.prompt - 1)
        worth = {}
        for quirk in QUIRKS:
            other, _ = Reference(draft, made, shape, weights).look(prompt, quirk)
            worth[quirk] = max(golden.distance(other[at][None], kept[at][None])[0] for at in kept)
        least = min(worth, key=worth.get)
        why = (
            f"the reference itself is off by {error:.2f} bounds" if error > 0.5
            else f"a guess leads by {lead:.1f} bounds" if lead < golden.LEAD
            else f"without {least} the logits change by {worth[least]:.0f} bounds only" if worth[least] < golden.CHANGE
            else ""
        )  # fmt: skip
        say(f"{draft.name}: seed {seed}: {why or 'taken, ' + ', '.join(f'{n} {w:.0f}' for n, w in worth.items())}")
        if not why:
            versions = f"transformers {transformers.__version__} torch {torch.__version__}"
            config = golden.config_json(made) | ({} if draft.shifted else {"num_nextn_predict_layers": 1})
            return Golden(
                draft.name, versions, config, packed_config(shape), list(slots(shape)), seed, seed,
                family.prompt, guesses, worth, kept, set(),
            )  # fmt: skip
    raise ConvertError(f"{draft.name}: no seed below {golden.SEEDS} will do")


def _lead(row: np.ndarray) -> float:
    best = np.sort(row)[-2:]
    return (best[1] - best[0]) / (golden.BOUND * np.abs(row).max())
