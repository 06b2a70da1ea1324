#!/usr/bin/env python3
"""Cuts a weights file into parts, so that each of several machines needs only its own on its disk.

    tools/split.py MODEL -n N [--share A,B,...]

writes MODEL.part-1-of-N and so on. Copy part 1 to the first machine of mpirun's host file, part 2 to the
second, all beside each other as MODEL was; then `mpirun -n N ./run MODEL` finds them where MODEL is not. The
library of a build with MPI knows what a machine needs: make MPI=1."""

import argparse
import ctypes
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILDS = [Path(os.environ["MACHINES"])] if "MACHINES" in os.environ else [ROOT / "build", ROOT / "build-mpi"]


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 512)]


def find_library() -> ctypes.CDLL | None:
    for build in BUILDS:
        path = build / "libtern.so"
        library = ctypes.CDLL(str(path)) if path.exists() else None
        if hasattr(library, "tern_model_cut"):
            return library
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description="Cuts a weights file into parts for several machines.")
    parser.add_argument("model", help="the weights file")
    parser.add_argument("-n", type=int, required=True, metavar="N", help="number of machines")
    parser.add_argument("--share", metavar="A,B,...", help="of each machine, in whole numbers; default: all the same")
    options = parser.parse_args()
    library = find_library()
    if not library:
        print("split.py: no library with MPI is built here: make MPI=1", file=sys.stderr)
        return 4
    error = Error()
    share = options.share.encode() if options.share else None
    code = library.tern_model_cut(os.fsencode(options.model), ctypes.c_uint32(max(options.n, 0)), share,
                                  ctypes.byref(error))  # fmt: skip
    if code:
        print(f"split.py: {error.text.decode(errors='replace')}", file=sys.stderr)
        return code
    for part in range(1, options.n + 1):
        path = f"{options.model}.part-{part}-of-{options.n}"
        print(f"{path}: {os.path.getsize(path)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
