#!/usr/bin/env python3
"""Holds stories260K, a real trained model, to what llama2.c makes of it.

    tools/check_reference.py CHECKPOINT ... --tokenizer tok512.bin --text tinystories.txt

CHECKPOINT: stories260K.bin, as llama2.c's v0 or v1. Each is converted (f32) and must give
- the text that llama2.c's own test demands: greedy, 200 tokens from BOS alone;
- the reference perplexity over the first 2000 non-empty lines of TinyStories made of printable ASCII only, each a
  sequence of its own (BOS + text, cut at 512): 5.8325, from the summed negative log-likelihood of 155637 tokens.
Example: tools/check_reference.py stories260K.bin --tokenizer tok512.bin --text tinystories.txt

Needs `make`, and the files, which are not in this repository (karpathy/tinyllamas on Hugging Face has them).
"""

import argparse
import contextlib
import hashlib
import io
import math
import os
import subprocess
import tempfile
from pathlib import Path

from tern import script

if __name__ == "__main__":
    script.begin("jinja2", "numpy", "sentencepiece", "tokenizers", "tqdm", "xxhash")

import numpy as np
from tqdm import tqdm

import convert
from tern import library
from tern.programs import ROOT

BUILD = ROOT / os.environ.get("BUILD", "build")
POSITIONS, LINES = 512, 2000
STORY = "beeb5cb46785efee81a8545300b31e396b595e5ce6f3b77db201545501981d14"  # sha256
TOKENS, NLL, PERPLEXITY = 155637, 274458.6372, "5.8325"


def story(model: Path) -> bytes:
    """200 greedy tokens from BOS alone, an f32 cache, without the last line's end."""
    options = ["-n", "200", "--temp", "0", "--cache-type", "f32", "-q", "--ignore-eos"]
    said = subprocess.run([BUILD / "run", model, *options], stdout=subprocess.PIPE, check=True).stdout
    return said.removesuffix(b"\n")


def negative_log_likelihood(logits: np.ndarray, ids: list[int]) -> float:
    """Sum over the tokens after the first, in binary64."""
    rows = logits[:-1].astype(np.float64)
    top = rows.max(-1)
    total = top + np.log(np.exp(rows - top[:, None]).sum(-1))
    return float((total - rows[np.arange(len(rows)), ids[1:]]).sum())


def perplexity(model: Path, text: Path) -> tuple[int, float]:
    """Tokens and their summed negative log-likelihood."""
    lines = [line for line in text.read_bytes().split(b"\n") if line and all(32 <= c < 127 for c in line)]
    tokens, total = 0, 0.0
    with library.Engine(BUILD / "libtern.so", model, POSITIONS) as e:
        for line in tqdm(lines[:LINES], desc="perplexity", disable=None, leave=False):
            ids = e.encode(line)[:POSITIONS]
            tokens += len(ids) - 1
            total += negative_log_likelihood(e.logits(ids), ids)
    return tokens, total


def check(checkpoint: Path, tokenizer: Path, text: Path) -> bool:
    """Prints what came out; True when it is what it should be."""
    with tempfile.TemporaryDirectory() as temp:
        model = Path(temp) / "model.bin"
        with contextlib.redirect_stdout(io.StringIO()):
            convert.run(convert.parser().parse_args([str(checkpoint), str(model), "--tokenizer", str(tokenizer)]))
        said = story(model)
        tokens, total = perplexity(model, text)
    digest = hashlib.sha256(said).hexdigest()
    same = digest == STORY
    print(f"{checkpoint.name}: text {'as llama2.c writes it' if same else 'DIFFERS: ' + said.decode('utf-8', 'replace')}")
    value = f"{math.exp(total / tokens):.4f}"
    print(f"{checkpoint.name}: {tokens} tokens, NLL {total:.4f} (reference {NLL}), perplexity {value}")
    return same and tokens == TOKENS and value == PERPLEXITY


def run(options: argparse.Namespace) -> int:
    for path in (*options.checkpoints, options.tokenizer, options.text):
        path.stat()  # before anything is converted
    return 0 if all([check(path, options.tokenizer, options.text) for path in options.checkpoints]) else 1


def main(arguments: list[str] | None = None) -> int:
    parser = script.parser("check_reference.py", __doc__)
    parser.add_argument("checkpoints", nargs="+", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    return script.guarded(parser, run, arguments)


if __name__ == "__main__":
    script.run(main)
