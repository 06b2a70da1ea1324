#!/usr/bin/env python3
"""From the name of a model to a file that runs: downloads, converts, quantizes, checks.

    tools/get.py NAME [OUT.bin] [--type f32|f16|bf16|q8|q4|q4c]
    tools/get.py --plan NAME

Example: tools/get.py Qwen/Qwen3-0.6B && ./run Qwen3-0.6B-q8.bin --chat

NAME is owner/model as on the Hugging Face hub. After it may stand @REVISION, and in a repository of GGUF files :TYPE, as in
:Q4_K_M. HF_TOKEN, HF_ENDPOINT and HF_HOME hold. Packages are installed into .venv by themselves. A model that the hub lets you
not read counts as usage.
"""

import argparse
import shlex

from tern import script

if __name__ == "__main__":
    script.begin("huggingface_hub", "jinja2", "numpy", "sentencepiece", "tokenizers", "tqdm", "xxhash")

from tern import programs
from tern.convert import job
from tern.convert.words import say
from tern.weights import tiles


def parser() -> argparse.ArgumentParser:
    parser = script.parser("get.py", __doc__)
    parser.add_argument("name", help="owner/model; then perhaps @REVISION, or :TYPE of a GGUF file")
    parser.add_argument("out", nargs="?", help="the weights file to write; default: MODEL-TYPE.bin in this folder")
    parser.add_argument("--type", choices=list(tiles.BY_NAME), help="type of the matrices; default: what suits this machine")
    parser.add_argument("--plan", action="store_true", help="say what it takes and how fast it will be, and download nothing large")
    return parser


def run(options: argparse.Namespace) -> None:
    made = job.get(options.name, options.out, options.type, options.plan)
    if made:
        file, has_chat = made
        program = shlex.join([programs.shown("run"), str(file)])
        say(f"run it: {program} {'--chat' if has_chat else shlex.quote('Once upon a time')}")


def main(arguments: list[str] | None = None) -> int:
    return script.guarded(parser(), run, arguments)


if __name__ == "__main__":
    script.run(main)
