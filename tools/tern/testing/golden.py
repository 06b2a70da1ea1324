"""Makes golden tests with transformers: eager attention, f32, on a seeded prompt.

In:  a Family. Out: a Golden of the first seed that is taken. A seed is taken only if
- every greedy choice leads by LEAD bounds, so that rounding cannot turn it;
- transformers in f32 is within half a bound of itself with matrix products in f64: the bound asks for nothing that the
  reference itself lacks;
- each listed quirk, switched off, changes a recorded row by CHANGE bounds: nothing is tested in name only.
"""

import inspect
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tokenizers
import torch
import transformers
from transformers.integrations.bitnet import replace_with_bitnet_linear

from ..convert.families import places
from ..convert.families.config import Config
from ..convert.families.families import FAMILIES as ARCHITECTURES
from ..convert.families.features import check_config, in_range, packed_config, slots
from ..convert.families.layouts import Layout
from ..convert.sources import huggingface
from ..errors import ConvertError
from ..programs import ROOT
from . import golden_file, probes
from .golden_families import FAMILIES
from .golden_family import GREEDY, Family
from .golden_file import Golden

FOLDER = ROOT / "tests" / "golden"
BOUND = 1e-4  # of max|b| in a row
LEAD = 20
CHANGE = 100
SEEDS = 200
HOOKS = (  # all that look --capture writes of a layer
    "hook_resid_pre", "attn.hook_q", "attn.hook_k", "attn.hook_rot_q", "attn.hook_rot_k", "attn.hook_v", "attn.hook_attn_scores",
    "attn.hook_pattern", "attn.hook_z", "hook_attn_out", "hook_resid_mid", "mlp.hook_pre", "mlp.hook_pre_linear", "mlp.hook_post",
    "hook_mlp_out", "hook_resid_post",
)  # fmt: skip


def attention(made) -> str:
    """Eager, except where transformers 5.23 adds ALiBi twice in it: to the scores, and in their mask."""
    return "sdpa" if getattr(made, "alibi", False) else "eager"


def build_config(family: Family, changes: dict | None = None):
    """transformers' config object; head_dim is a plain attribute where the class lacks the key."""
    made = getattr(transformers, family.model + "Config")(**(family.config | (changes or {})))
    if "head_dim" in family.config and "head_dim" not in vars(made):
        made.head_dim = family.config["head_dim"]
    made._attn_implementation = attention(made)
    made._experts_implementation = "eager"
    return made


def features(family: Family, made) -> dict:
    """The model in the words of FORMAT.md, as the converter reads its config.json: the logits will judge it."""
    kind = made.model_type
    config = Config(
        f"{family.name}: config.json", config_json(made), ARCHITECTURES[kind].aliases,
        rope_length=family.prompt + GREEDY - 1,
    )  # fmt: skip
    out = ARCHITECTURES[kind].features(config)
    config.finish()
    check_config(out)
    return out


def recurrent_scan(update: Callable) -> Callable:
    """Mamba2 row after row, as the reference decodes, in the place of its chunked form."""

    def scan(x, dt, A, B, C, chunk_size, D, dt_bias, initial_states=None, return_final_states=False, **_):
        heads, size, width = *x.shape[2:], B.shape[-1]
        state = x.new_zeros(len(x), heads, size, width) if initial_states is None else initial_states.clone()
        A, D, dt_bias = A[:, None, None].expand(-1, size, width), D[:, None].expand(-1, size), dt_bias[:, None].expand(-1, size)
        rows = [
            update(state, x[:, t], dt[:, t, :, None].expand(-1, -1, size), A, B[:, t], C[:, t], D, dt_bias=dt_bias, dt_softplus=True)
            for t in range(x.shape[1])
        ]
        out = torch.stack(rows, 1)
        return (out, state) if return_final_states else out

    return scan


def build_model(made, shape: dict, weights: dict, dtype=torch.float32):
    """The model in transformers with `weights` in the names of FORMAT.md."""
    model = getattr(transformers, ARCHITECTURES[made.model_type].architecture)(made).to(dtype).eval()
    code = sys.modules[type(model).__module__]
    if hasattr(code, "torch_recurrent_gated_delta_rule"):  # the definition; the chunked form sums in another order
        code.torch_chunk_gated_delta_rule = code.torch_recurrent_gated_delta_rule
    if hasattr(code, "mamba2_chunk_scan"):
        code.mamba2_chunk_scan = recurrent_scan(code.mamba2_selective_state_update)
    if hasattr(code, "recurrent_kimi_delta_attention"):
        code.chunk_kimi_delta_attention = code.recurrent_kimi_delta_attention
    quantized = getattr(made, "quantization_config", None)
    if quantized:  # BitNet: what from_pretrained does before it loads
        kind = transformers.BitNetQuantConfig(**{key: value for key, value in quantized.items() if key != "quant_method"})
        replace_with_bitnet_linear(model, ["lm_head"], kind)
    layout, state = Layout(made.model_type, shape, lambda name: name in model.state_dict() and "_scale" not in name), {}
    for slot in slots(shape):
        places.put(state, slot, layout.places(slot), weights[slot.name])
    if shape["head_tied"]:
        state[layout.name("head")] = state[layout.name("embed")]
    state |= {name: np.ones(1, np.float32) for name in model.state_dict() if name.endswith(".weight_scale")}
    if made.model_type == "mllama_text_model":  # layers that look at pictures
        state = {name: w.numpy() for name, w in model.state_dict().items()} | state
    for name, buffer in model.named_buffers():  # positions that the reference computes
        if name in state and name not in model.state_dict():
            (place,) = layout.places(next(slot for slot in slots(shape) if slot.name == "positions"))
            np.testing.assert_allclose(buffer.numpy().reshape(-1)[place.rows], place.given, atol=1e-5)
            buffer.copy_(torch.tensor(state.pop(name)))
    model.load_state_dict({name: torch.tensor(w, dtype=dtype) for name, w in state.items()}, strict=True, assign=bool(quantized))
    return model


@torch.no_grad()
def run(model, ids: list[int]) -> np.ndarray:
    """Logits [len(ids), vocab] of one full pass."""
    return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


@torch.no_grad()
def look(family: Family, model, ids: list[int]) -> np.ndarray:
    """Logits [len(ids), vocab] as a user of the family gets them."""
    if family.length:  # the frequencies of dynamic scaling are those of the longest text so far
        run(model, [0] * family.length)
    if not family.grows:
        return run(model, ids)
    rows = [run(model, ids[: n + 1])[-1] for n in range(family.prompt, len(ids))]
    return np.stack([*run(model, ids[: family.prompt]), *rows])


@torch.no_grad()
def continue_greedily(family: Family, model, ids: list[int]) -> list[int]:
    """The next GREEDY tokens, with the reference's cache; where the text outgrows a limit, as its generate() does."""
    if family.length:
        run(model, [0] * family.length)
    if family.grows:
        text = torch.tensor([ids])
        made = model.generate(
            text, attention_mask=torch.ones_like(text), max_new_tokens=GREEDY, do_sample=False, eos_token_id=None
        )
        return made[0, len(ids) :].tolist()
    held = "cache_params" if "cache_params" in inspect.signature(model.forward).parameters else "past_key_values"
    cache, feed, out = None, torch.tensor([ids]), []
    for _ in range(GREEDY):
        at = {} if family.counts else {"position_ids": torch.arange(len(ids) + len(out))[None, -feed.shape[1] :]}
        step = model(feed, **{held: cache}, use_cache=True, **at)
        cache = getattr(step, held)
        out.append(int(step.logits[0, -1].argmax()))
        feed = torch.tensor([[out[-1]]])
    return out


def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Per row: max|a - b| in bounds of b."""
    return np.abs(a.astype(np.float64) - b).max(-1) / (BOUND * np.abs(b).max(-1))


def refusal(family: Family, weights: dict, ids: list[int], logits: np.ndarray) -> tuple[str, dict]:
    """Why this seed will not do ("" if it will), and what each quirk is worth."""
    chosen = logits[family.prompt - 1 : family.prompt + GREEDY - 1]
    best = np.sort(chosen, -1)[:, -2:]
    lead = ((best[:, 1] - best[:, 0]) / (BOUND * np.abs(chosen).max(-1))).min()
    if lead < LEAD:
        return f"a greedy choice leads by {lead:.1f} bounds", {}
    if len(set(ids[family.prompt :])) < family.distinct:
        return "the continuation repeats itself", {}
    made = build_config(family)
    model = build_model(made, features(family, made), weights, torch.float64)
    torch.set_default_dtype(torch.float64 if made.model_type == "xglm" else torch.float32)  # it makes numbers of that type
    exact = look(family, model, ids[:-1])
    torch.set_default_dtype(torch.float32)
    error = distance(logits, exact)[list(family.rows)].max()
    if error > 0.5:
        return f"the reference itself is off by {error:.2f} bounds", {}
    worth = {}
    for name, quirk in family.quirks.items():
        made = build_config(family, quirk if isinstance(quirk, dict) else None)
        shape = features(family, made)
        more = {slot.name: golden_file.weights_of(slot, 1, set()) for slot in slots(shape) if slot.name not in weights}
        other = weights | more if isinstance(quirk, dict) else quirk(weights, made)
        worth[name] = distance(look(family, build_model(made, shape, other), ids[:-1]), logits)[list(family.rows)].max()
        if worth[name] < CHANGE:
            return f"without {name} the logits change by {worth[name]:.0f} bounds only", {}
    return "", worth


def make(family: Family, say: Callable[[str], None]) -> Golden:
    """The golden test of the first seed that will do."""
    made = build_config(family)
    shape = features(family, made)
    layout = Layout(made.model_type, shape, lambda name: False)
    ones = {slot.name for slot in slots(shape) if layout.places(slot)[0].ones}
    for seed in range(1, SEEDS):
        weights = {slot.name: golden_file.weights_of(slot, seed, ones) for slot in slots(shape)}
        model = build_model(made, shape, weights)
        prompt = golden_file.prompt_ids(seed, family.prompt, made.vocab_size)
        greedy = continue_greedily(family, model, prompt)
        ids = prompt + greedy
        logits = look(family, model, ids[:-1])
        if logits[family.prompt - 1 :].argmax(-1).tolist() != greedy:
            say(f"{family.name}: seed {seed}: with and without cache differ")
            continue
        why, worth = refusal(family, weights, ids, logits)
        say(f"{family.name}: seed {seed}: {why or 'taken, ' + ', '.join(f'{n} {w:.0f}' for n, w in worth.items())}")
        if not why:
            rows = {at: logits[at] for at in family.rows}
            versions = f"transformers {transformers.__version__} torch {torch.__version__}"
            return Golden(
                family.name, versions, config_json(made), packed_config(shape), list(slots(shape)), seed, seed,
                family.prompt, greedy, worth, rows, ones,
            )  # fmt: skip
    raise ConvertError(f"{family.name}: no seed below {SEEDS} will do")


def config_json(made) -> dict:
    """config.json as transformers saves it beside the weights of such a model."""
    saved = made.to_diff_dict()
    return saved | {"architectures": [ARCHITECTURES[made.model_type].architecture], "dtype": "float32"}


@torch.no_grad()
def sample(family: Family, folder: Path) -> None:
    """A model of this family as its publisher would store it; norms, biases and all else differ from what they are
    before training, so that nothing can be forgotten unseen."""
    model = transformers.AutoModelForCausalLM.from_config(build_config(family))
    for value in model.parameters():
        noise = torch.randn(value.shape)
        value.copy_(value + 0.3 * noise if value.dim() == 1 else noise / math.sqrt(value.shape[-1]))
    model.save_pretrained(folder)


def write_probes(source: str, out: Path, n: int, n_rows: int) -> None:
    """Probes of a directory, for n tokens of its vocabulary, or of a golden test, for its own tokens."""
    if Path(source).is_dir():
        kind, shape, _ = huggingface.features(Path(source), n, [])
        in_range(n, 1, shape["max_seq"], f"{source}: --tokens")
        load = transformers.AutoModelForCausalLM.from_pretrained
        made = transformers.AutoConfig.from_pretrained(source, local_files_only=True)
        model = load(source, dtype=torch.float32, attn_implementation=attention(made), local_files_only=True)
        ids = golden_file.prompt_ids(1, n, shape["vocab"])
    else:
        golden = golden_file.read(FOLDER / f"{source}.txt")
        family = next(family for family in FAMILIES if family.name == source)
        made = build_config(family)
        kind, shape = made.model_type, features(family, made)
        model = build_model(made, shape, golden.weights())
        ids = golden.tokens()[:-1]
    positions = sorted({round(at) for at in np.linspace(0, len(ids) - 1, n_rows)})
    np.savez(out, **probes.probe(model, kind, shape, ids, positions))


@torch.no_grad()
def write_attention(name: str, out: Path, n: int) -> None:
    """What transformers gives inside, for the first n tokens of a golden test: `attention.L` [heads, rows, n], the weights,
    and `hidden.L` [rows, dim], x before layer L (and after the last, before the final norm); `rows`, their positions."""
    golden = golden_file.read(FOLDER / f"{name}.txt")
    made = build_config(next(family for family in FAMILIES if family.name == name))
    made._attn_implementation = "eager"
    model = build_model(made, features(next(f for f in FAMILIES if f.name == name), made), golden.weights())
    last = []
    model.model.layers[-1].register_forward_hook(lambda _m, _i, y: last.append(y[0] if isinstance(y, tuple) else y))
    ids, rows = golden.tokens()[:n], [0, n // 3, n // 2, n - 1]
    got = model(torch.tensor([ids]), use_cache=False, output_attentions=True, output_hidden_states=True)
    hidden = [*got.hidden_states[:-1], last[0]]
    arrays = {f"attention.{layer}": w[0][:, rows].numpy() for layer, w in enumerate(got.attentions)}
    arrays |= {f"hidden.{layer}": x.reshape(len(ids), -1)[rows].numpy() for layer, x in enumerate(hidden)}
    np.savez_compressed(out, rows=np.array(rows), **arrays)


@torch.no_grad()
def write_hooks(name: str, out: Path, n: int) -> None:
    """What TransformerLens records for the first n tokens of a golden test, in the first and the last layer: each of HOOKS that
    the model has, without the batch, and the rows of `rows` only."""
    from transformer_lens.model_bridge import TransformerBridge

    golden = golden_file.read(FOLDER / f"{name}.txt")
    family = next(family for family in FAMILIES if family.name == name)
    made = build_config(family)
    model = build_model(made, features(family, made), golden.weights())
    model.config.architectures = [type(model).__name__]
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"0": 0}, unk_token="0"))  # a bridge must have one
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="0", pad_token="0")
    bridge = TransformerBridge.boot_transformers(name, hf_model=model, tokenizer=tokenizer).eval()
    _, cache = bridge.run_with_cache(torch.tensor([golden.tokens()[:n]]))
    layers, rows = (0, made.num_hidden_layers - 1), [0, n // 3, n // 2, n - 1]
    names = ["hook_embed", *(f"blocks.{layer}.{hook}" for layer in layers for hook in HOOKS)]
    arrays = {hook: cache[hook][0].numpy() for hook in names if hook in cache}
    square = ("hook_attn_scores", "hook_pattern")
    arrays = {hook: x[:, rows] if hook.endswith(square) else x[rows] for hook, x in arrays.items()}
    np.savez_compressed(out, tokens=np.array(n), rows=np.array(rows), **arrays)
