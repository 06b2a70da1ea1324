#!/usr/bin/env python3
"""Train the model that ships (models/fable.bin), from raw text to a Hugging Face directory.

    python tools/train.py prepare   --text ../shared/data/text --work DIR   # clean, split, sort by simplicity
    python tools/train.py tokenizer --work DIR                              # byte-level BPE, encode every split
    python tools/train.py train     --work DIR --steps N ...                # resumes from DIR/last.pt
    python tools/train.py average   --work DIR --first A.pt --second B.pt   # mean of two checkpoints
    python tools/train.py export    --work DIR --out HF                     # config, safetensors, tokenizer, generation
    python tools/train.py evaluate  --hf HF --work DIR ...                  # bits per byte, checks over samples
    python tools/train.py credits   --text ../shared/data/text > models/CREDITS.md

Everything runs on the CPU. The commands that made the shipped model stand in models/README.md.
"""
import argparse
import json
import math
import os
import random
import re
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from train_lib.texts import clean, lower_opening, sort_by_simplicity, split_sample, words_of

EOT = "<|endoftext|>"  # the only special token: begins every story and ends it (bos == eos)
SEPARATOR = f"\n{EOT}\n"
TEST_STORIES = 100  # the last ones of the sample: never trained on, the acceptance text
VALID_STORIES, VALID_EVERY = 30, 13  # every 13th of the 390 before them: watched during training, never trained on
PICTURE_BOOKS = 711  # the last documents of the corpus are the modern picture books (credits.tsv)
# Defaults that go with the model: cool enough for grammar, and a penalty without which phrases recur.
SAMPLING = {"temperature": 0.5, "top_k": 40, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.15}
LICENCE = """The weights may be used, changed and passed on by anyone under the MIT licence of the tern project.
They were trained on public-domain books, FairytaleQA (Apache-2.0), African Storybook and Pratham Books picture books
(CC BY 4.0, credits in models/CREDITS.md) and a sample of TinyStories (CDLA-Sharing-1.0). Whoever passes the weights on
passes those credits on.
"""
NAME_VARIANTS = 6  # copies of every sample story with its characters renamed, against learning by heart


@dataclass
class Config:
    """Shape of the model. Widths are multiples of 256 and head_dim is 64, as the engine likes them."""

    vocab: int = 4096
    dim: int = 256
    layers: int = 5
    heads: int = 8
    kv_heads: int = 4
    head_dim: int = 64
    hidden: int = 768
    context: int = 512
    rope_theta: float = 10000.0
    eps: float = 1e-5


# ---------------------------------------------------------------- prepare: clean texts, split

def write_documents(path, documents):
    path.write_text(SEPARATOR.join(documents), encoding="utf8")
    print(f"{path.name:14} {len(documents):5} documents {path.stat().st_size:9} bytes")


def read_documents(path):
    return path.read_text(encoding="utf8").split(SEPARATOR)


def prepare(args):
    """corpus + sample -> tales (simplest third of the books), books (the rest), pictures, stories, valid, test."""
    text, work = Path(args.text), Path(args.work)
    work.mkdir(parents=True, exist_ok=True)
    corpus = (text / "corpus_children.txt").read_text(encoding="utf8").split(EOT)
    corpus = [lower_opening(clean(d)) for d in corpus if d.strip()]
    books, pictures = corpus[:-PICTURE_BOOKS], corpus[-PICTURE_BOOKS:]
    sample = clean((text / "tinystories_sample_944k.txt").read_text(encoding="utf8"))
    # The held-out stories are cut by the plain rule, so that "the last 100" needs no judgement of ours.
    plain = [s for s in re.split(r"(?<!\n)\n(?!\n)", sample) if s]
    test, rest = plain[-TEST_STORIES:], plain[:-TEST_STORIES]
    valid = rest[-VALID_STORIES * VALID_EVERY::VALID_EVERY]
    stories = split_sample("\n".join(s for s in rest if s not in set(valid + test)))
    books = sort_by_simplicity([b for b in books if len(b) > 100], stories + pictures)
    size, third = 0, sum(map(len, books)) / 3
    for cut, book in enumerate(books):
        size += len(book)
        if size > third:
            break
    write_documents(work / "tales.txt", books[:cut])
    write_documents(work / "books.txt", books[cut:])
    write_documents(work / "pictures.txt", [p for p in pictures if len(p) > 100])
    write_documents(work / "stories.txt", stories)
    write_documents(work / "valid.txt", valid)
    write_documents(work / "test.txt", test)


# ---------------------------------------------------------------- tokenizer: byte-level BPE, encoded splits

GIRLS = "Lily Mia Anna Sara Lucy Jane Sue Amy Emma Daisy Molly Sally Mandy Jenny Lola Ella Rosie Kate Nina Zoe".split()
BOYS = "Tim Ben Tom Max Sam Jack Bob Timmy Tommy Billy Jimmy Joe John Leo Mark Peter Johnny Bobby Charlie Fred".split()


def rename(story, rng):
    """The story with its common first names exchanged for others of the same kind, consistently."""
    swap = {}
    for names in (GIRLS, BOYS):
        used = [n for n in names if re.search(rf"\b{n}\b", story)]
        swap.update(zip(used, rng.sample(names, len(used))))
    return re.sub(r"\b(" + "|".join(swap) + r")\b", lambda m: swap[m.group(0)], story) if swap else story


def tokenizer(args):
    """Train the vocabulary with the simple texts weighted up, then encode each split as one uint16 stream."""
    import numpy as np
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    work = Path(args.work)
    docs = {n: read_documents(work / f"{n}.txt") for n in ("tales", "books", "pictures", "stories", "valid")}
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # GPT-2's pattern
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=Config.vocab, special_tokens=[EOT], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # 256 bytes: no unknown
    weighted = docs["tales"] + 3 * docs["pictures"] + 8 * docs["stories"]
    tok.train_from_iterator(weighted, trainer)
    bos = processors.TemplateProcessing(single=f"{EOT} $A", pair=f"{EOT} $A $B", special_tokens=[(EOT, 0)])
    tok.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), bos])
    tok.save(str(work / "tokenizer.json"))

    rng = random.Random(1)
    docs["stories"] += [rename(s, rng) for _ in range(NAME_VARIANTS) for s in docs["stories"]]
    for name, texts in docs.items():
        ids = [e.ids for e in tok.encode_batch(texts)]  # each begins with EOT; the next document's EOT ends it
        lengths = np.array([len(i) for i in ids])
        np.savez(work / f"{name}.npz", ids=np.concatenate([np.array(i, np.uint16) for i in ids]), lengths=lengths)
        chars = sum(len(t.encode()) for t in texts)
        print(f"{name:10} {lengths.sum():9} tokens, {chars / (lengths - 1).sum():.3f} bytes per token")


class Stream:
    """Endless windows of `length + 1` tokens from one split; documents are shuffled anew every pass.
    `whole`: a document that a window cut off begins the next one, as long as it is not longer than a window."""

    def __init__(self, path, seed, whole):
        import numpy as np

        data = np.load(path)
        self.docs = np.split(data["ids"], np.cumsum(data["lengths"])[:-1])
        self.seed, self.epoch, self.at, self.ids, self.whole = seed, 0, 0, None, whole

    def window(self, length):
        import numpy as np

        if self.ids is not None and self.at + length >= len(self.ids):
            self.epoch, self.at, self.ids = self.epoch + 1, 0, None
        if self.ids is None:
            order = np.random.default_rng([self.seed, self.epoch]).permutation(len(self.docs))
            self.ids = np.concatenate([self.docs[i] for i in order])
            self.starts = np.cumsum([0] + [len(self.docs[i]) for i in order])
        row = self.ids[self.at: self.at + length + 1]
        cut = self.starts[np.searchsorted(self.starts, self.at + length, "right") - 1]
        self.at = int(cut) if self.whole and cut > self.at else self.at + length
        return row.astype(np.int64)


# ---------------------------------------------------------------- model: Llama, as transformers computes it


def build(config):
    import torch
    import torch.nn.functional as F
    from torch import nn

    c = config

    def attend(q, k, v):
        """Causal attention, q [batch, kv head, query heads of it, time, head_dim], in blocks of queries that meet no
        later key: quicker than the fused kernel on a CPU."""
        out, group = [], q.shape[2]
        for start in range(0, q.shape[3], 128):
            end = min(start + 128, q.shape[3])
            block = q[:, :, :, start:end].flatten(2, 3)
            scores = (block @ k[:, :, :end].transpose(-1, -2)).float() * c.head_dim**-0.5
            later = torch.arange(end)[None, :] > torch.arange(start, end)[:, None]
            scores = scores.masked_fill(later.repeat(group, 1), float("-inf"))
            a = torch.softmax(scores, -1).to(v.dtype) @ v[:, :, :end]
            out.append(a.unflatten(2, (group, end - start)))
        return torch.cat(out, 3)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            linear = lambda i, o: nn.Linear(i, o, bias=False)
            self.q_proj = linear(c.dim, c.heads * c.head_dim)
            self.k_proj = linear(c.dim, c.kv_heads * c.head_dim)
            self.v_proj = linear(c.dim, c.kv_heads * c.head_dim)
            self.o_proj = linear(c.heads * c.head_dim, c.dim)
            self.gate_proj, self.up_proj = linear(c.dim, c.hidden), linear(c.dim, c.hidden)
            self.down_proj = linear(c.hidden, c.dim)
            self.input_layernorm = nn.RMSNorm(c.dim, c.eps)
            self.post_attention_layernorm = nn.RMSNorm(c.dim, c.eps)

        def forward(self, x, cos, sin, drop):  # x: [batch, time, dim]; drop: [batch], what share of a branch's columns
            B, T, _ = x.shape

            def dropped(branch):  # one mask for all positions of a row
                if drop is None:
                    return branch
                keep = torch.rand(B, c.dim) >= drop[:, None]
                return branch * (keep / (1 - drop[:, None])).to(branch.dtype)[:, None]

            h = self.input_layernorm(x)
            heads = lambda t, n: t.view(B, T, n, c.head_dim).transpose(1, 2)  # [batch, head, time, head_dim]

            def rotate(t):  # half-split RoPE: (a, b) -> (a cos - b sin, b cos + a sin)
                a, b = t.chunk(2, -1)
                return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(t.dtype)

            q = rotate(heads(self.q_proj(h), c.heads))
            k = rotate(heads(self.k_proj(h), c.kv_heads))
            v = heads(self.v_proj(h), c.kv_heads)
            group = c.heads // c.kv_heads  # query heads per KV head
            a = attend(q.unflatten(1, (c.kv_heads, group)), k, v).flatten(1, 2)
            x = x + dropped(self.o_proj(a.transpose(1, 2).reshape(B, T, -1)))
            h = self.post_attention_layernorm(x)
            return x + dropped(self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h)))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed_tokens = nn.Embedding(c.vocab, c.dim)  # also the head: logits = h @ E^T
            self.layers = nn.ModuleList(Layer() for _ in range(c.layers))
            self.norm = nn.RMSNorm(c.dim, c.eps)
            inv = c.rope_theta ** -(torch.arange(0, c.head_dim, 2) / c.head_dim)
            angle = torch.arange(c.context)[:, None] * inv
            self.register_buffer("cos", angle.cos(), persistent=False)
            self.register_buffer("sin", angle.sin(), persistent=False)
            for name, p in self.named_parameters():
                if p.ndim == 2:  # projections back into the residual stream start smaller
                    last = "o_proj" in name or "down_proj" in name
                    nn.init.normal_(p, 0, 0.02 / (math.sqrt(2 * c.layers) if last else 1))

        def forward(self, ids, targets, drop=None):
            T = ids.shape[1]
            x = self.embed_tokens(ids)
            for layer in self.layers:
                x = layer(x, self.cos[:T], self.sin[:T], drop)
            logits = F.linear(self.norm(x), self.embed_tokens.weight).float()
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return Model()


# ---------------------------------------------------------------- train


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
    import numpy as np

    given = {n: float(w) for n, w in (item.split("=") for item in mix.split(","))}
    weights = np.array([given.pop(n, 0.0) for n in names])
    if given or weights.sum() <= 0:
        raise SystemExit(f"train.py: --mix {mix}: the splits are {', '.join(names)}")
    return weights / weights.sum()


def train(args):
    """Muon for the matrices, AdamW for embedding and norms; bf16 autocast over f32 weights; WSD schedule."""
    import numpy as np
    import torch

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    work, config = Path(args.work), Config()
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
    streams = {n: Stream(work / f"{n}.npz", args.seed, n in short) for n in names}
    step, seen = 0, Counter()
    if args.resume and (work / "last.pt").exists():
        state = torch.load(work / "last.pt", weights_only=False)
        model.load_state_dict(state["model"])
        muon.load_state_dict(state["muon"])
        adamw.load_state_dict(state["adamw"])
        step, seen = state["step"], state["seen"]
        for n, (epoch, at) in state["streams"].items():
            streams[n].epoch, streams[n].at = epoch, at
            streams[n].window(1)  # rebuilds the shuffled order of that pass
            streams[n].at = at
        print(f"resumed at step {step}", flush=True)

    def save():
        state = {"model": model.state_dict(), "muon": muon.state_dict(), "adamw": adamw.state_dict(), "step": step,
                 "seen": seen, "streams": {n: (s.epoch, s.at) for n, s in streams.items()}, "config": asdict(config)}
        torch.save(state, work / "next.tmp")
        os.replace(work / "next.tmp", work / "last.pt")

    def forward(ids, targets, drop):
        with torch.autocast("cpu", torch.bfloat16):
            return compiled(ids, targets, drop if args.dropout else None)

    held = np.load(work / "valid.npz")
    starts = np.concatenate([[0], np.cumsum(held["lengths"])])
    held = [torch.from_numpy(held["ids"][a:b].astype(np.int64)) for a, b in zip(starts, starts[1:])]

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
        mean = loss if mean is None else 0.95 * mean + 0.05 * loss
        if step % args.log_every == 0 or step == args.steps:
            speed, clock, since = since / (time.time() - clock), time.time(), 0
            note = f" valid {validate():.4f}" if step % args.valid_every == 0 or step == args.steps else ""
            print(f"{time.strftime('%H:%M:%S')} step {step} tokens {sum(seen.values())} loss {mean:.4f} "
                  f"lr {args.lr * factor:.5f} {speed:.0f} tok/s{note}", flush=True)
        if time.time() - saved > 240:
            save()
            saved = time.time()
    save()
    print("seen", dict(seen), "passes", {n: s.epoch for n, s in streams.items()}, flush=True)


def average(args):
    """DIR/last.pt becomes the mean of two checkpoints' weights (Wortsman et al. 2022): the later one had begun to learn
    the sample by heart, and half-way back the validation loss is lower than at either end."""
    import torch

    a, b = (torch.load(p, weights_only=False) for p in (args.first, args.second))
    b["model"] = {n: (1 - args.share) * a["model"][n] + args.share * w for n, w in b["model"].items()}
    torch.save(b, Path(args.work) / "last.pt")


# ---------------------------------------------------------------- export: Hugging Face layout


def export(args):
    """DIR/last.pt and DIR/tokenizer.json -> a folder that transformers' LlamaForCausalLM loads."""
    import torch
    from safetensors.torch import save_file

    work, out = Path(args.work), Path(args.out)
    out.mkdir(parents=True)
    state = torch.load(work / "last.pt", weights_only=False)
    c = Config(**state["config"])
    tensors = {}
    for name, value in state["model"].items():  # layers.0.q_proj.weight -> model.layers.0.self_attn.q_proj.weight
        name = re.sub(r"\.([qkvo]_proj)", r".self_attn.\1", name)
        name = re.sub(r"\.((gate|up|down)_proj)", r".mlp.\1", name)
        tensors["model." + name] = value.float().contiguous()
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})

    def write(name, content):
        (out / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf8")

    write("config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "float32", "torch_dtype": "float32",
        "vocab_size": c.vocab, "hidden_size": c.dim, "intermediate_size": c.hidden, "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads, "num_key_value_heads": c.kv_heads, "head_dim": c.head_dim,
        "hidden_act": "silu", "max_position_embeddings": c.context, "rms_norm_eps": c.eps,
        "rope_theta": c.rope_theta, "rope_parameters": {"rope_type": "default", "rope_theta": c.rope_theta},
        "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 0})
    write("generation_config.json", {"bos_token_id": 0, "eos_token_id": 0, "do_sample": True, **SAMPLING})
    write("tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": EOT, "eos_token": EOT, "add_bos_token": True,
        "add_prefix_space": False, "clean_up_tokenization_spaces": False, "model_max_length": c.context,
        "added_tokens_decoder": {"0": {"content": EOT, "lstrip": False, "normalized": False, "rstrip": False,
                                       "single_word": False, "special": True}}})
    (out / "tokenizer.json").write_bytes((work / "tokenizer.json").read_bytes())
    (out / "LICENSE").write_text(LICENCE, encoding="utf8")  # the converter stores it in the weights file
    print(f"{out}: step {state['step']}, {sum(t.numel() for t in tensors.values())} parameters")


# ---------------------------------------------------------------- evaluate


def windows(ids, context):
    """(window, index of its first scored token): every token after the first is scored once, and past the first
    window with at least half a context before it."""
    end = min(len(ids), context)
    yield ids[:end], 1
    while end < len(ids):
        start, end = end, min(end + context // 2, len(ids))
        yield ids[max(0, end - context):end], start - max(0, end - context)


def bits_per_byte(stories, encode, nll, context):
    """Sum of -log2 p over the text's tokens (BOS given, no end token) / UTF-8 bytes; each story its own sequence."""
    nats = sum(float(nll(w)[first - 1:].sum()) for s in stories for w, first in windows(encode(s), context))
    return nats / math.log(2) / sum(len(s.encode()) for s in stories)


def check_samples(samples, work):
    """Words unknown to the corpus, the most frequent word 4-gram of one sample, the longest run copied."""
    import numpy as np

    names = ("tales", "books", "pictures", "stories")
    corpus = [w.strip("'") for n in names for w in words_of((work / f"{n}.txt").read_text(encoding="utf8"))]
    ids = {w: i + 1 for i, w in enumerate(sorted(set(corpus)))}
    told = [[w.strip("'") for w in words_of(s)] for s in samples]
    flat = [w for t in told for w in t]
    unknown = [w for w in flat if w and w not in ids]
    print(f"words in the corpus: {100 - 100 * len(unknown) / len(flat):.2f} % of {len(flat)}; not: {sorted(set(unknown))}")
    grams = [max(Counter(zip(t, t[1:], t[2:], t[3:])).items(), key=lambda p: p[1], default=((), 0)) for t in told]
    worst = max(range(len(grams)), key=lambda i: grams[i][1])
    print(f"4-gram most often in one sample: {grams[worst][1]} times, {' '.join(grams[worst][0])!r} (sample {worst + 1})")
    # Polynomial hashes of n-grams, n growing until none is shared; only places that matched n - 1 words stay in play.
    base = np.uint64(0x9E3779B97F4A7C15)
    rows = [np.array([ids.get(w, 0) for w in t], np.uint64) for t in [corpus] + told]
    places = [np.arange(len(r)) for r in rows]
    hashes, n, longest = [np.zeros(len(r), np.uint64) for r in rows], 0, [0] * len(told)
    while any(len(p) for p in places[1:]):
        n += 1
        for i, (row, place, h) in enumerate(zip(rows, places, hashes)):
            fits = place + n <= len(row)
            places[i], hashes[i] = place[fits], h[fits] * base + row[place[fits] + n - 1]
        mine, theirs = np.unique(np.concatenate(hashes[1:])), hashes[0]
        both = mine[np.minimum(np.searchsorted(mine, theirs), len(mine) - 1)] == theirs if len(mine) else theirs != theirs
        shared = np.unique(theirs[both])
        for i, (place, h) in enumerate(zip(places, hashes)):
            keep = both if i == 0 else np.isin(h, shared)
            places[i], hashes[i] = place[keep], h[keep]
            if i and len(places[i]):
                longest[i - 1] = n
    print(f"longest run copied from the corpus: {max(longest)} words (sample {longest.index(max(longest)) + 1}); "
          f"median {sorted(longest)[len(longest) // 2]}")


def evaluate(args):
    """Bits per byte on the held-out stories (and of stories260K with --baseline), then checks over samples."""
    import torch
    import torch.nn.functional as F
    from transformers import AutoTokenizer, LlamaForCausalLM

    torch.set_num_threads(args.threads)
    work = Path(args.work)
    test = read_documents(work / "test.txt")
    if args.baseline:
        from train_lib.llama2c import Llama2c

        base = Llama2c(Path(args.baseline), Path(args.baseline).with_name("tok512.bin"))
        print(f"stories260K: {bits_per_byte(test, base.encode, base.nll, base.context):.4f} bits per byte, {len(test)} stories")
    model = LlamaForCausalLM.from_pretrained(args.hf, dtype=torch.float32).eval()
    tok = AutoTokenizer.from_pretrained(args.hf)

    @torch.no_grad()
    def nll(ids):
        ids = torch.tensor(ids)
        return F.cross_entropy(model(ids[None]).logits[0, :-1].double(), ids[1:], reduction="none")

    for name, texts in (("valid", read_documents(work / "valid.txt")), ("test", test)):
        bits = bits_per_byte(texts, lambda s: tok(s)["input_ids"], nll, Config.context)
        print(f"{name}: {bits:.4f} bits per byte, {len(texts)} stories")
    if args.samples:  # told by the engine: one file, stories separated like the corpus
        samples = [s for s in read_documents(Path(args.samples)) if s]
    else:
        prompt, samples = tok(args.prompt, return_tensors="pt"), []
        for seed in range(1, args.seeds + 1):
            torch.manual_seed(seed)
            with torch.no_grad():
                out = model.generate(**prompt, max_new_tokens=args.tokens, do_sample=True, pad_token_id=0)
            samples.append(tok.decode(out[0], skip_special_tokens=True))
    for i, s in enumerate(samples[: args.show]):
        print(f"--- sample {i + 1}\n{s}")
    print("---")
    if samples:
        check_samples(samples, work)


def credits(args):
    """credits.tsv -> Markdown: one line for every CC BY picture book."""
    rows = [l.split("\t") for l in (Path(args.text) / "credits.tsv").read_text(encoding="utf8").splitlines()]
    books = [dict(zip(rows[0], r + [""] * 7)) for r in rows[1:]]
    print("# Credits\n\nThe model was trained, among other texts, on these picture books, licensed under Creative Commons"
          " Attribution\n(https://creativecommons.org/licenses/by/4.0/). The texts were changed: layout and pictures removed,"
          " punctuation\nnormalised. Thanks to everyone who wrote, drew and translated them and gave them to all.")
    sites = {"African Storybook": "https://www.africanstorybook.org", "Pratham": "https://storyweaver.org.in"}
    for collection in dict.fromkeys(b["collection"] for b in books):
        mine = [b for b in books if b["collection"] == collection]
        site = next((u for n, u in sites.items() if n in collection), "")
        print(f"\n## {collection} ({len(mine)} books, {site})\n")
        for b in mine:
            who = [f"{label} {b[key].strip()}" for label, key in
                   (("text:", "text"), ("illustration:", "illustration"), ("translation:", "translation")) if b[key].strip()]
            print(f"- *{b['title'].strip()}*. {'; '.join(who)}. {b['licence'].strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)

    def command(function, **options):
        p = commands.add_parser(function.__name__, help=function.__doc__.split("\n")[0])
        for name, default in options.items():
            kind = type(default) if default is not None else str
            flag = "--" + name.replace("_", "-")
            if kind is bool:
                p.add_argument(flag, action=argparse.BooleanOptionalAction, default=default)
            else:
                p.add_argument(flag, type=kind, default=default)
        p.set_defaults(function=function)

    command(prepare, text="../shared/data/text", work="build/fable")
    command(tokenizer, work="build/fable")
    command(train, work="build/fable", steps=3000, decay_from=2000, warmup=60, lr=3e-3, weight_decay=0.1, batch=8192,
            minutes=0.0, micro_batch=16, seq=256, mix="books=35,tales=37,pictures=14,stories=14", mix_end="", dropout=0.0, seed=1, threads=2, log_every=20,
            valid_every=100, compile=True, resume=True)
    command(average, work="build/fable", first="", second="", share=0.5)
    command(export, work="build/fable", out="build/fable/hf")
    command(evaluate, work="build/fable", hf="build/fable/hf", baseline="", samples="", prompt="The cat sat", seeds=50,
            tokens=300, show=3, threads=2)
    command(credits, text="../shared/data/text")
    args = parser.parse_args()
    args.function(args)


if __name__ == "__main__":
    main()
