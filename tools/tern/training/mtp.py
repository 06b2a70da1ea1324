"""A layer that guesses further tokens (MTP), trained behind a model that stays as it is.

Row p of it reads the token at p and the model's state at p - 1, and guesses the token at p + 1, as in DeepSeek-V3's report
(section 2.2). Its second guess reads its own state, so it is also trained on that: several guesses deep, each worth half
of the one before (--depth).
"""

import copy
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

from ..errors import USAGE, ConvertError
from ..weights.reader import WeightsFile
from .model import build, checkpoint_of
from .shape import Config, shape_of
from .stream import Stream, split
from .train import load_weights, schedule, shares


class Guesser(nn.Module):
    """The layer, and what joins embedding and state before it. It begins as a copy of the model's last layer, which reads the
    sum of both, and of its final norm."""

    def __init__(self, config: Config, model):
        super().__init__()
        self.layer, self.norm = copy.deepcopy(model.layers[-1]), copy.deepcopy(model.norm)
        self.enorm, self.hnorm = (nn.RMSNorm(config.dim, config.eps) for _ in range(2))
        self.eh_proj = nn.Linear(2 * config.dim, config.dim, bias=False)
        with torch.no_grad():
            self.eh_proj.weight.copy_(torch.eye(config.dim).repeat(1, 2))

    def forward(self, embedded, states, cos, sin):
        """embedded, states [batch, time, dim] -> g [batch, time, dim]"""
        x = self.eh_proj(torch.cat([self.enorm(embedded), self.hnorm(states)], -1))
        return self.norm(self.layer(x, cos, sin, None))


def states_of(model, ids):
    """What the model's head reads, [batch, time, dim]."""
    x = model.embed_tokens(ids)
    for layer in model.layers:
        x = layer(x, model.cos[: ids.shape[1]], model.sin[: ids.shape[1]], None)
    return model.norm(x)


def losses(model, guesser, ids):
    """Nats per token of each depth, and how often the likeliest token is right, for ids [batch, time + 1]."""
    with torch.no_grad():
        states = states_of(model, ids[:, :-2])
    out, n = [], ids.shape[1]
    for depth in range(guesser.depth):  # row i: state before i + 1 + depth, token there; target one further
        tokens, targets = ids[:, 1 + depth : n - 1], ids[:, 2 + depth :]
        T = tokens.shape[1]
        g = guesser(model.embed_tokens(tokens), states[:, :T], model.cos[:T], model.sin[:T])
        logits = F.linear(g, model.embed_tokens.weight).float()
        right = (logits.argmax(-1) == targets).float().mean()
        out.append((F.cross_entropy(logits.flatten(0, 1), targets.flatten()), right))
        states = g[:, :-1]
    return out


def train(args):
    """Trains the layer alone; the model is that of --from-file. The checkpoint is DIR/mtp.pt, and is resumed."""
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    if not args.from_file:
        raise ConvertError("--mtp needs the model that stays as it is: --from-file", USAGE)
    work, file = Path(args.work), WeightsFile(args.from_file)
    config = shape_of(file)
    model = build(config)
    load_weights(model, file)
    guesser, step = Guesser(config, model), 0
    guesser.depth = args.depth
    model.requires_grad_(False)
    matrices = [p for p in guesser.parameters() if p.ndim == 2]
    muon = torch.optim.Muon(matrices, lr=args.lr, weight_decay=args.weight_decay, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    adamw = torch.optim.AdamW([p for p in guesser.parameters() if p.ndim == 1], lr=args.lr, betas=(0.9, 0.95), weight_decay=0)
    if args.resume and (work / "mtp.pt").exists():
        state = checkpoint_of(work / "mtp.pt")
        guesser.load_state_dict(state["guesser"])
        step = state["step"]
    names = ["books", "tales", "pictures", "stories"]
    share = shares(args.mix, names)
    streams = {n: Stream(work / f"{n}.npz", args.seed + step, n in names[2:]) for n, s in zip(names, share) if s}
    held, begun, spent, begin = held_out(work, args.seq), time.time(), 0.0, step
    bar = tqdm(total=args.steps, initial=step, desc="steps", disable=None, leave=False)
    while step < args.steps and spent < 1:
        spent = (time.time() - begun) / 60 / args.minutes if args.minutes else 0.0
        picks = np.random.default_rng([args.seed, step]).choice(len(names), size=args.batch // args.seq, p=share)
        ids = torch.from_numpy(np.stack([streams[names[i]].window(args.seq) for i in picks]))
        with torch.autocast("cpu", torch.bfloat16):
            found = losses(model, guesser, ids)
        sum(0.5**depth * loss for depth, (loss, _) in enumerate(found)).backward()
        torch.nn.utils.clip_grad_norm_(guesser.parameters(), 1.0)
        for optimizer in (muon, adamw):
            for group in optimizer.param_groups:
                group["lr"] = args.lr * schedule(step - begin, args, spent)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        step += 1
        bar.update()
        if step % args.log_every == 0 or step == args.steps or spent >= 1:
            said = ", ".join(f"{loss:.3f} nats {100 * right:.1f} %" for loss, right in found)
            note = f"; valid {', '.join(f'{100 * r:.1f} %' for r in validate(model, guesser, held))}" if step % args.valid_every == 0 or spent >= 1 else ""
            with tqdm.external_write_mode():
                print(f"{time.strftime('%H:%M:%S')} step {step}: {said}{note}", flush=True)
    bar.close()
    torch.save({"guesser": guesser.state_dict(), "step": step}, work / "mtp.pt")


def held_out(work, seq):
    """The validation stories as windows."""
    return [torch.from_numpy(d[: seq + 1].astype(np.int64))[None] for d in split(work / "valid.npz") if len(d) > 8]


@torch.no_grad()
def validate(model, guesser, held):
    """Share of right guesses at each depth."""
    with torch.autocast("cpu", torch.bfloat16):
        each = [[right.item() for _, right in losses(model, guesser, ids)] for ids in held]
    weights = [ids.shape[1] for ids in held]
    return np.average(each, axis=0, weights=weights)


def published(work):
    """The layer's tensors as GLM-4.5 publishes them, less `model.layers.N.`."""
    state = checkpoint_of(Path(work) / "mtp.pt")["guesser"]
    out = {}
    for name, value in state.items():
        name = name.removeprefix("layer.")
        for part, parts in (("self_attn", "qkvo"), ("mlp", ("gate", "up", "down"))):
            if name.removesuffix("_proj.weight") in parts:
                name = f"{part}.{name}"
        out["shared_head.norm.weight" if name == "norm.weight" else name] = value.float().contiguous()
    return out


def config_of(path):
    """config.json of a model with that layer: GLM-4.5's, all of whose layers are dense."""
    made = json.loads(path.read_text())
    made |= {
        "architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "num_nextn_predict_layers": 1,
        "first_k_dense_replace": made["num_hidden_layers"] + 1, "partial_rotary_factor": 1.0, "use_qk_norm": False,
    }  # fmt: skip
    made.pop("mlp_bias", None)
    return made
