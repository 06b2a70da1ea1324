"""What `make` builds, for Python: the programs ./run, ./quantize, ./bench and ./look, and the library. An installed package has its own
(all but ./bench).

In:  a name, or a command. Out: what the program wrote on standard output; a failure is a ConvertError with its last line.
"""

import os
import subprocess
import sys
from pathlib import Path

from .errors import IO, ConvertError

ROOT = Path(__file__).resolve().parent.parent.parent
INSTALLED = Path(__file__).resolve().parent / "native"  # in a wheel: what `make package` built
PATIENCE = 3  # seconds that a program has to stop by itself


def path(name: str) -> Path:
    """Where a program is, or would be when it is built."""
    return (INSTALLED if INSTALLED.is_dir() else ROOT) / name


def program(name: str) -> Path | None:
    """A program, when it is built."""
    return path(name) if os.access(path(name), os.X_OK) else None


def build() -> None:
    """Runs `make` where the programs are not built."""
    if program("run") and program("quantize"):
        return
    print("building tern with `make`, once", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(["make", "-s", "-j2", "-C", str(ROOT)], stdin=subprocess.DEVNULL, stdout=sys.stderr)
    except OSError as e:
        raise ConvertError("there is no `make`; run `apt-get install gcc make` as root", IO) from e
    if done.returncode:
        raise ConvertError("`make` failed (see above); run `apt-get install gcc make` as root", IO)


def shown(name: str) -> str:
    """A program of ours as a person types it in this folder."""
    return f"./{name}" if path(name).parent == Path.cwd() else str(path(name))


def library() -> Path:
    """libtern.so: $TERN_LIBRARY, else that of the installed package, else where `make` builds it. The programs are beside it."""
    folder = INSTALLED if INSTALLED.is_dir() else ROOT / "build"
    file = Path(os.environ.get("TERN_LIBRARY") or folder / "libtern.so").resolve()
    if not file.exists():
        raise ConvertError(f"there is no {file}: run `make`, or set TERN_LIBRARY", IO)
    return file


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


def call(arguments: list, what: str = "", must_clean_up: bool = True) -> str:
    """Runs one of our programs; its last line on stderr becomes the error: after `what`, or as it is. With `what` it shows its
    progress on a terminal. On Ctrl-C it gets time to remove its files if it `must_clean_up`."""
    shown = bool(what) and sys.stderr.isatty()
    try:
        child = subprocess.Popen(
            [str(a) for a in arguments], stdout=subprocess.PIPE, stderr=None if shown else subprocess.PIPE, text=True
        )
    except OSError as e:
        raise ConvertError(f"cannot run {arguments[0]}: {e.strerror}", IO) from e
    try:
        out, said = child.communicate()
    except BaseException:
        if not must_clean_up:
            child.kill()
        end(child)
        raise
    if child.returncode:
        lines = (said or "").strip().splitlines()
        reason = lines[-1] if lines else "see above" if shown else f"exit code {child.returncode}"
        reason = f"{what} failed: {reason}" if what else reason.partition(": ")[2] or reason
        raise ConvertError(reason, child.returncode if 2 <= child.returncode <= 6 else 1)
    return out
