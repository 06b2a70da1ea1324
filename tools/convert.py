#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = [
#   "numpy==2.4.6; python_version >= '3.11'",
#   "numpy==2.2.6; python_version < '3.11'",
#   "huggingface_hub==2.4.0",
#   "jinja2==3.1.6",
#   "protobuf==7.36.2",
#   "sentencepiece==0.2.3",
#   "tokenizers==0.23.3",
#   "tqdm==4.70.1",
#   "xxhash==4.1.0",
# ]
# ///
"""Converts a model to tern's weights file.

    tools/convert.py SOURCE OUT.bin [--type f32|f16|bf16|q8|q4|q4c] [--tokenizer FILE] [--rope-length N]
                     [--set KEY=VALUE] [--lora FOLDER[:SCALE]] [--template NAME|FILE] [--check] [--reference-logits]
    tools/convert.py SOURCE --dry-run

Example: tools/convert.py Qwen3-0.6B/ qwen.bin --type q4c && ./run qwen.bin "Once"

SOURCE is a Hugging Face directory, a GGUF file, a llama2.c checkpoint, or the name of a model on the hub (owner/model,
see get.py). Without --type every matrix keeps the type it has, bit for bit; q8, q4 and q4c are made by ./quantize. A type
of GGUF that has no equal here (K-quants, Q4_1, Q5_1) becomes q8; --type f32 keeps every value.
"""

import argparse
from pathlib import Path

from tern import script

if __name__ == "__main__":
    script.begin("jinja2", "numpy", "sentencepiece", "tokenizers", "tqdm", "xxhash")

from tern.convert.chat.chat import BUILTIN
from tern.convert.job import run
from tern.weights import tiles


def parser() -> argparse.ArgumentParser:
    parser = script.parser("convert.py", __doc__)
    parser.add_argument("source", type=Path, help="Hugging Face directory, GGUF file, llama2.c checkpoint, or owner/model")
    parser.add_argument("out", nargs="?", help="the weights file to write")
    parser.add_argument("--type", choices=list(tiles.BY_NAME), help="type of the matrices (default: as they are; K-quants: q8)")
    parser.add_argument(
        "--tokenizer", type=Path, metavar="FILE", help="tokenizer file, where it is not beside the model"
    )
    parser.add_argument(
        "--rope-length", type=int, metavar="N", help="tokens of the text that dynamic RoPE scaling is for"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE",
        help="a feature (window=4096; a value for each layer with commas between) or a key of the source's config",
    )  # fmt: skip
    parser.add_argument(
        "--lora", action="append", default=[], metavar="FOLDER[:SCALE]",
        help="merge a LoRA adapter (a PEFT folder); may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--template", metavar="NAME", help=f"chat template in place of the source's: {', '.join(BUILTIN)}, or a file"
    )
    parser.add_argument("--reference-logits", action="store_true", help="store logits by transformers for --selftest")
    parser.add_argument("--dry-run", action="store_true", help="say what would be written, and write nothing")
    parser.add_argument("--check", action="store_true", help="compare the file with the source, and run its own tests")
    return parser


def main(arguments: list[str] | None = None) -> int:
    return script.guarded(parser(), run, arguments)


if __name__ == "__main__":
    script.run(main)
