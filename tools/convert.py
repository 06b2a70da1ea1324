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

SOURCE is a Hugging Face directory, a GGUF file, a llama2.c checkpoint, or the name of a model on the hub (owner/model, see get.py).
Without --type every matrix
keeps the type it has, bit for bit; q8, q4 and q4c are made by ./quantize. A type of GGUF that has no equal here (K-quants,
Q4_1, Q5_1) becomes q8; --type f32 keeps every value. Exit codes: 0 done, 2 usage or a
Python package is missing, 3 a file that is not what it should be, 4 input or output failed, 5 out of memory.
"""

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback of an import; there is nothing to clean up yet

import argparse
import os
import sys
from pathlib import Path

from tern import environment

if __name__ == "__main__":
    environment.enter(("jinja2", "numpy", "sentencepiece", "tokenizers", "tqdm", "xxhash"))

from tern.convert.chat.chat import BUILTIN
from tern.convert.job import run
from tern.convert.words import line
from tern.errors import IO, MEMORY, ConvertError
from tern.weights import tiles


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="convert.py", description="Converts a model to tern's weights file.")
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
    options = parser.parse_args(arguments)
    if options.out is None and not options.dry_run:
        parser.error("name the weights file to write, or give --dry-run")
    return options


def failed(program: str, sentence: str, code: int) -> int:
    print(line(f"{program}: {sentence}"), file=sys.stderr)
    return code


def guarded(program: str, work, options: argparse.Namespace) -> int:
    """The exit code of work(options); what goes wrong becomes one sentence."""
    try:
        work(options)
    except ConvertError as e:
        return failed(program, str(e), e.code)
    except OSError as e:
        return failed(program, f"{e.filename or options.out}: {e.strerror or e}", IO)
    except MemoryError:
        return failed(program, "not enough memory", MEMORY)
    except KeyboardInterrupt:
        return 130
    return 0


def main(arguments: list[str] | None = None) -> int:
    return guarded("convert.py", run, parse(arguments))


def prepare_output() -> None:
    """What was closed goes nowhere, or files would get its number; letters that a terminal lacks are written as \\u."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, this one
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))
    sys.stdout.reconfigure(errors="backslashreplace")


STOPS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


def stop(number: int, _) -> None:
    """The first signal ends the program; those that follow must not end its cleaning up."""
    for each in STOPS:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)


def begin() -> None:
    """What a script does first: signals end it in order, and its output has a place to go."""
    for each in STOPS:
        if signal.getsignal(each) != signal.SIG_IGN:  # nohup, or a job in the background
            signal.signal(each, stop)
    prepare_output()


if __name__ == "__main__":
    begin()
    sys.exit(main())
