"""A Hugging Face folder in, figures out: bits per byte on held-out stories, and checks over samples."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tqdm import tqdm
from transformers import AutoTokenizer, LlamaForCausalLM

from ..errors import reading
from .documents import read_documents, text_of
from .llama2c import Llama2c
from .shape import Config
from .texts import words_of


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
    nats = sum(float(nll(w)[first - 1:].sum()) for s in tqdm(stories, desc="stories", disable=None, leave=False) for w, first in windows(encode(s), context))
    return nats / math.log(2) / sum(len(s.encode()) for s in stories)


def check_samples(samples, work):
    """Words unknown to the corpus, the most frequent word 4-gram of one sample, the longest run copied."""
    names = ("tales", "books", "pictures", "stories")
    corpus = [w.strip("'") for n in names for w in words_of(text_of(work / f"{n}.txt"))]
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
    torch.set_num_threads(args.threads)
    work = Path(args.work)
    test = read_documents(work / "test.txt")
    if args.baseline:
        with reading(f"{args.baseline}, or tok512.bin beside it,"):
            base = Llama2c(Path(args.baseline), Path(args.baseline).with_name("tok512.bin"))
        print(f"stories260K: {bits_per_byte(test, base.encode, base.nll, base.context):.4f} bits per byte, {len(test)} stories")
    Path(args.hf).stat()  # or its name would be looked up
    with reading(str(args.hf)):
        model = LlamaForCausalLM.from_pretrained(args.hf, dtype=torch.float32, local_files_only=True).eval()
        tok = AutoTokenizer.from_pretrained(args.hf, local_files_only=True)

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
        for seed in tqdm(range(1, args.seeds + 1), desc="samples", disable=None, leave=False):
            torch.manual_seed(seed)
            with torch.no_grad():
                out = model.generate(**prompt, max_new_tokens=args.tokens, do_sample=True, pad_token_id=0)
            samples.append(tok.decode(out[0], skip_special_tokens=True))
    for i, s in enumerate(samples[: args.show]):
        print(f"--- sample {i + 1}\n{s}")
    print("---")
    if samples:
        check_samples(samples, work)
