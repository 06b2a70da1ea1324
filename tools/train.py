#!/usr/bin/env python3
"""Train the model that ships (models/fable.bin), from raw text to a Hugging Face directory.

    tools/train.py prepare   --text ../shared/data/text --work DIR   # clean, split, sort by simplicity
    tools/train.py tokenizer --work DIR                              # byte-level BPE, encode every split
    tools/train.py train     --work DIR --steps N ...                # resumes from DIR/last.pt, else from --from-file
    tools/train.py train     --work DIR --mtp --from-file models/fable.bin ...  # a layer that guesses, behind that model
    tools/train.py average   --work DIR --first A.pt --second B.pt   # mean of two checkpoints
    tools/train.py export    --work DIR --out HF                     # config, safetensors, tokenizer, generation
    tools/train.py evaluate  --hf HF --work DIR ...                  # bits per byte, checks over samples
    tools/train.py credits   --text ../shared/data/text > models/CREDITS.md

Example: tools/train.py credits --text ../shared/data/text >models/CREDITS.md

Everything runs on the CPU. The commands that made the shipped model stand in models/README.md.
"""

import argparse
import importlib

from tern import script

if __name__ == "__main__":
    script.begin()


def run(options: argparse.Namespace) -> None:
    getattr(importlib.import_module(f"tern.training.{options.module}"), options.command)(options)


def main(arguments: list[str] | None = None) -> int:
    parser = script.parser("train.py", __doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, module, help, **options):
        """A function of tern/training, which is imported only when it runs: each needs other packages."""
        p = commands.add_parser(name, help=help)
        for option, default in options.items():
            kind = type(default) if default is not None else str
            flag = "--" + option.replace("_", "-")
            if kind is bool:
                p.add_argument(flag, action=argparse.BooleanOptionalAction, default=default)
            else:
                p.add_argument(flag, type=kind, default=default)
        p.set_defaults(module=module)

    command("prepare", "prepare", "clean and split the texts, sort the books by simplicity", text="../shared/data/text", work="build/fable")
    command("tokenizer", "vocabulary", "train the vocabulary, encode every split", work="build/fable")
    command(
        "train", "train", "train, or resume from DIR/last.pt", work="build/fable", steps=3000, decay_from=2000,
        warmup=60, lr=3e-3, weight_decay=0.1, batch=8192, minutes=0.0, micro_batch=16, seq=256,
        mix="books=35,tales=37,pictures=14,stories=14", mix_end="", dropout=0.0, seed=1, threads=2, log_every=20,
        valid_every=100, compile=True, resume=True, from_file="", mtp=False, depth=2,
    )  # fmt: skip
    command("average", "train", "DIR/last.pt becomes the mean of two checkpoints", work="build/fable", first="", second="", share=0.5)
    command("export", "export", "write a Hugging Face folder", work="build/fable", out="build/fable/hf", mtp="", layers=0, hidden=0)
    command(
        "evaluate", "evaluate", "bits per byte on held-out stories, and checks over samples", work="build/fable", hf="build/fable/hf",
        baseline="", samples="", prompt="The cat sat", seeds=50, tokens=300, show=3, threads=2,
    )  # fmt: skip
    command("credits", "credits", "write the credits of the picture books", text="../shared/data/text")
    return script.guarded(parser, run, arguments, "requirements-train.txt")


if __name__ == "__main__":
    script.run(main)
