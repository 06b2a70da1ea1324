"""Encoded splits in, a checkpoint out: the training loop, and the mean of two checkpoints."""

import os
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from ..errors import USAGE, ConvertError
from ..weights.reader import WeightsFile
from .model import build, checkpoint_of
from .shape import Config, shape_of
from .stream import Stream, split


def schedule(step, args, spent):
    """Factor on the learning rate: short warm-up, flat, then linear to zero from --decay-from to --steps;
    with --minutes linear to zero over this run, `spent` being the share of them gone (a shared machine's speed varies)."""
    warm = min(1.0, (step + 1) / args.warmup)
    if args.minutes:
        return warm * max(0.0, 1 - spent)
    if step < args.decay_from:
        return warm
    return warm * (args.steps - step) / (args.steps - args.decay_from)


def shares(mix, names):
    """"books=35,tales=65" -> the share of each split, in the order of names, as an array that sums to 1."""
    try:
        given = {n: float(w) for n, w in (item.split("=") for item in mix.split(","))}
    except ValueError:
        raise ConvertError(f"--mix {mix}: want NAME=SHARE,NAME=SHARE", USAGE) from None
    weights = np.array([given.pop(n, 0.0) for n in names])
    if given or weights.sum() <= 0:
        raise ConvertError(f"--mix {mix}: the splits are {', '.join(names)}", USAGE)
    return weights / weights.sum()


def parameter_of(name):
    """The parameter that a tensor of a weights file becomes: layer.0.q -> layers.0.q_proj.weight."""
    whole = {"embed": "embed_tokens", "final_norm": "norm", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    layer, _, last = name.rpartition(".")
    return (layer.replace("layer", "layers") + "." if layer else "") + whole.get(last, last + "_proj") + ".weight"


def load_weights(model, file):
    """The tensors of a weights file, dequantized, into a model of the same shape."""
    parameters = {name: parameter_of(name) for name in file.tensors}
    named = {p: torch.tensor(file.values(name)).view(model.get_parameter(p).shape) for name, p in parameters.items()}
    model.load_state_dict(named)


def trained_values(work, names):
    """The tensors of a weights file as DIR/last.pt has them: {name: f32 array}."""
    state = checkpoint_of(work / "last.pt")["model"]
    return {name: state[parameter_of(name)].float().numpy() for name in names}


def train(args):
    """Muon for the matrices, AdamW for embedding and norms; bf16 autocast over f32 weights; WSD schedule."""
    if args.mtp:
        from . import mtp

        mtp.train(args)
        return
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    work, file = Path(args.work), WeightsFile(args.from_file) if args.from_file else None
    config = shape_of(file) if file else Config()
    model = build(config)
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    embedding = [model.embed_tokens.weight]
    norms = [p for p in model.parameters() if p.ndim == 1]
    muon = torch.optim.Muon(matrices, lr=args.lr, weight_decay=args.weight_decay, momentum=0.95,
                            adjust_lr_fn="match_rms_adamw")  # so that one learning rate serves both optimizers
    adamw = torch.optim.AdamW([{"params": embedding, "weight_decay": args.weight_decay},
                               {"params": norms, "weight_decay": 0.0}], lr=args.lr, betas=(0.9, 0.95), fused=True)
    names, short = ["books", "tales", "pictures", "stories"], ["pictures", "stories"]
    first = shares(args.mix, names)
    last = shares(args.mix_end, names) if args.mix_end else first
    rates = np.array([args.dropout if n in short else 0.0 for n in names], np.float32)
    streams = {n: Stream(work / f"{n}.npz", args.seed, n in short) for n, a, b in zip(names, first, last) if a + b > 0}
    step, seen = 0, Counter()
    if args.resume and (work / "last.pt").exists():
        state = checkpoint_of(work / "last.pt")
        model.load_state_dict(state["model"])
        muon.load_state_dict(state["muon"])
        adamw.load_state_dict(state["adamw"])
        step, seen = state["step"], state["seen"]
        for n, (epoch, at) in state["streams"].items():
            streams[n].epoch, streams[n].at = epoch, at
            streams[n].window(1)  # rebuilds the shuffled order of that pass
            streams[n].at = at
        print(f"resumed at step {step}", flush=True)
    elif args.from_file:
        load_weights(model, file)
        print(f"began with the weights of {args.from_file}", flush=True)

    def save():
        state = {"model": model.state_dict(), "muon": muon.state_dict(), "adamw": adamw.state_dict(), "step": step,
                 "seen": seen, "streams": {n: (s.epoch, s.at) for n, s in streams.items()}, "config": asdict(config)}
        torch.save(state, work / "next.tmp")
        os.replace(work / "next.tmp", work / "last.pt")

    def forward(ids, targets, drop):
        with torch.autocast("cpu", torch.bfloat16):
            return compiled(ids, targets, drop if args.dropout else None)

    held = [torch.from_numpy(ids.astype(np.int64)) for ids in split(work / "valid.npz")]

    def validate():
        """Nats per token over the validation stories, each its own sequence after EOT (uncompiled: shapes vary)."""
        total = count = 0
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            for ids in held:
                ids = ids[: config.context + 1]
                total += model(ids[None, :-1], ids[None, 1:]).item() * (len(ids) - 1)
                count += len(ids) - 1
        return total / count

    compiled = torch.compile(model, dynamic=False) if args.compile else model
    print(f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)
    rows, tokens = args.micro_batch, args.micro_batch * args.seq
    pieces = args.batch // tokens
    mean, clock, since, saved = None, time.time(), 0, time.time()
    begun, spent = time.time(), 0.0
    bar = tqdm(total=args.steps, initial=step, desc="steps", disable=None, leave=False)
    while step < args.steps and spent < 1 and not (work / "stop").exists():
        spent = (time.time() - begun) / 60 / args.minutes if args.minutes else 0.0
        rng = np.random.default_rng([args.seed, step])
        done = spent if args.minutes else step / args.steps
        picks = rng.choice(len(names), size=pieces * rows, p=(1 - done) * first + done * last)
        batch = torch.from_numpy(np.stack([streams[names[i]].window(args.seq) for i in picks]))
        seen.update({names[i]: args.seq * int(n) for i, n in zip(*np.unique(picks, return_counts=True))})
        factor, loss = schedule(step, args, spent), 0.0
        for part, drop in zip(batch.split(rows), torch.from_numpy(rates[picks]).split(rows)):
            piece = forward(part[:, :-1].contiguous(), part[:, 1:].contiguous(), drop) / pieces
            piece.backward()
            loss += piece.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in (muon, adamw):
            for group in optimizer.param_groups:
                group["lr"] = args.lr * factor
            optimizer.step()
        model.zero_grad(set_to_none=True)
        step, since = step + 1, since + args.batch
        bar.update()
        mean = loss if mean is None else 0.95 * mean + 0.05 * loss
        if step % args.log_every == 0 or step == args.steps:
            speed, clock, since = since / (time.time() - clock), time.time(), 0
            note = f" valid {validate():.4f}" if step % args.valid_every == 0 or step == args.steps else ""
            with tqdm.external_write_mode():
                print(f"{time.strftime('%H:%M:%S')} step {step} tokens {sum(seen.values())} loss {mean:.4f} "
                      f"lr {args.lr * factor:.5f} {speed:.0f} tok/s{note}", flush=True)
        if time.time() - saved > 240:
            save()
            saved = time.time()
    bar.close()
    save()
    print("seen", dict(seen), "passes", {n: s.epoch for n, s in streams.items()}, flush=True)


def average(args):
    """DIR/last.pt becomes the mean of two checkpoints' weights (Wortsman et al. 2022): the later one had begun to learn
    the sample by heart, and half-way back the validation loss is lower than at either end."""
    if not args.first or not args.second:
        raise ConvertError("name both checkpoints: --first and --second", USAGE)
    a, b = (checkpoint_of(p) for p in (args.first, args.second))
    b["model"] = {n: (1 - args.share) * a["model"][n] + args.share * w for n, w in b["model"].items()}
    torch.save(b, Path(args.work) / "last.pt")
