"""The programs of this repository, run from Python: ./run and ./quantize.

In:  a name, or a command. Out: what the program wrote on standard output; a failure is a ConvertError with its last line.
"""

import os
import subprocess
import sys
from pathlib import Path

from .errors import ConvertError

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE = 3  # seconds that a program has to stop by itself


def program(name: str) -> Path | None:
    """A program of this repository, when it is built."""
    path = ROOT / name
    return path if os.access(path, os.X_OK) else None


def end(child: subprocess.Popen) -> None:
    """Waits for a program that shall stop. A signal to the whole group has reached it too, and it is cleaning up: a
    second one would end it at once."""
    for harder in (child.terminate, child.kill):
        try:
            child.wait(PATIENCE)
            return
        except subprocess.TimeoutExpired:
            harder()
    child.wait()


def call(arguments: list, what: str) -> str:
    """Runs one of our programs; its last line on stderr becomes the error. On a terminal it shows its progress."""
    shown = sys.stderr.isatty()
    child = subprocess.Popen(
        [str(a) for a in arguments], stdout=subprocess.PIPE, stderr=None if shown else subprocess.PIPE, text=True
    )
    try:
        out, said = child.communicate()
    except BaseException:
        end(child)
        raise
    if child.returncode:
        lines = (said or "").strip().splitlines()
        reason = lines[-1] if lines else "see above" if shown else f"exit code {child.returncode}"
        raise ConvertError(f"{what} failed: {reason}", child.returncode if 2 <= child.returncode <= 6 else 1)
    return out
