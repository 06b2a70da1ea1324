#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# ///
"""Cuts a weights file into parts, so that each of several machines needs only its own on its disk.

    tools/split.py MODEL -n N [--share A,B,...]

writes MODEL.part-1-of-N and so on, in place of such files. Copy part 1 to the first machine of mpirun's host file, part 2 to the
second, all beside each other as MODEL was; then `mpirun -n N ./run MODEL` finds them where MODEL is not. The
library of a build with MPI knows what a machine needs: make MPI=1.

Example: tools/split.py model.bin -n 2 --share 2,1
"""

import argparse
import ctypes
import os
import sys
from pathlib import Path

from tern import script

if __name__ == "__main__":
    script.begin()

from tern.errors import USAGE, ConvertError

ROOT = Path(__file__).resolve().parents[1]
BUILDS = [Path(os.environ["MACHINES"])] if "MACHINES" in os.environ else [ROOT / "build", ROOT / "build-mpi"]


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 512)]


def find_library() -> ctypes.CDLL:
    for build in BUILDS:
        path = build / "libtern.so"
        library = ctypes.CDLL(str(path)) if path.exists() else None
        if hasattr(library, "tern_model_cut"):
            return library
    raise ConvertError("no library with MPI is built here: make MPI=1", USAGE)


def run(options: argparse.Namespace) -> int:
    error = Error()
    share = options.share.encode() if options.share is not None else None
    code = find_library().tern_model_cut(os.fsencode(options.model), ctypes.c_uint32(options.n), share, ctypes.byref(error))
    if code:
        raise ConvertError(error.text.decode(errors="replace"), code)
    for part in range(1, options.n + 1):
        path = f"{options.model}.part-{part}-of-{options.n}"
        print(f"{path}: {os.path.getsize(path)} bytes")
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = script.parser("split.py", __doc__)
    parser.add_argument("model", help="the weights file")
    parser.add_argument("-n", type=script.at_least(1), required=True, metavar="N", help="number of machines")
    parser.add_argument("--share", metavar="A,B,...", help="of each machine, in whole numbers; default: all the same")
    return script.guarded(parser, run, arguments)


if __name__ == "__main__":
    script.run(main)
