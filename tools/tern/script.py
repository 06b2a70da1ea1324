"""What all scripts in tools/ do alike. In: the script's docstring, its work. Out: --help, an exit code, one sentence for what goes wrong.

    parser = script.parser("verify.py", __doc__)
    def main(arguments=None): return script.guarded(parser, run, arguments)
    if __name__ == "__main__": script.run(main)
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import NoReturn

from . import environment
from .convert.words import hush, line
from .errors import IO, MEMORY, USAGE, ConvertError

INTERRUPTED = 130
CODES = """Exit codes: 0 done, 1 no (where a script compares or measures), 2 usage, or a Python package is missing, 3 a file that is not what it
should be, 4 input, output or network failed, 5 out of memory, 130 interrupted."""
STOPS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


def begin(*packages: str) -> None:
    """Comes before the script loads packages: Ctrl-C ends it without a traceback, its output has a place to go, the packages are there."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # there is nothing to clean up yet
    prepare_output()
    environment.enter(packages)


def prepare_output() -> None:
    """What was closed goes nowhere, or files would get its number; letters that a terminal lacks are written as \\u."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, this one
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))
    sys.stdout.reconfigure(errors="backslashreplace")


def parser(program: str, text: str, codes: str = CODES) -> argparse.ArgumentParser:
    """--help is the script's docstring and the options."""
    first, _, rest = text.strip().replace("%", "%%").partition("\n\n")
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(prog=program, description=first, epilog=f"{rest}\n\n{codes}", formatter_class=form)


def at_least(low: float, kind: type = int) -> Callable[[str], float]:
    """The type of an option that is a number."""

    def number(text: str):
        value = kind(text)
        if not value >= low:
            raise argparse.ArgumentTypeError(f"{text} is less than {low}")
        return value

    number.__name__ = "number"
    return number


def failed(program: str, sentence: str, code: int) -> int:
    with contextlib.suppress(OSError):
        print(line(f"{program}: {sentence}"), file=sys.stderr, flush=True)
    return code


def guarded(options: argparse.ArgumentParser, work: Callable, arguments: list[str] | None = None, packages: str = "requirements.txt") -> int:
    """The exit code of work(parsed options), None being 0; what goes wrong becomes one sentence. tools/`packages` names what is missing."""
    given = options.parse_args(arguments)
    try:
        code = work(given) or 0
        sys.stdout.flush()
        return code
    except ConvertError as e:
        return failed(options.prog, str(e), e.code)
    except OSError as e:
        own = output_error()
        if own:
            return answer(options.prog, own)
        if isinstance(e, BrokenPipeError):
            return failed(options.prog, "a program that it started has ended too early", IO)
        name = os.fsdecode(e.filename or getattr(given, "out", None) or "a file")
        return failed(options.prog, f"{name}: {e.strerror or e}", IO)
    except subprocess.CalledProcessError as e:
        return failed(options.prog, f"{' '.join(map(str, e.cmd))[:200]} failed with exit code {e.returncode}", IO)
    except MemoryError:
        return failed(options.prog, "not enough memory", MEMORY)
    except ImportError as e:
        return failed(options.prog, f"{e}; install the packages of {environment.ROOT / 'tools' / packages}", USAGE)
    except KeyboardInterrupt:
        return INTERRUPTED


def output_error() -> OSError | None:
    """Why standard output cannot be written, if so: what is still there is tried once more. After that it goes nowhere."""
    try:
        sys.stdout.flush()
    except OSError as e:
        hush()
        return e
    return None


def answer(program: str, e: OSError) -> int:
    """A reader who has left is no error, a full disk is one."""
    return 0 if isinstance(e, BrokenPipeError) else failed(program, f"standard output: {e.strerror}", IO)


def stop(number: int, _) -> None:
    """The first signal ends the program; those that follow must not end its cleaning up."""
    for each in STOPS:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)


def run(main: Callable[[], int]) -> NoReturn:
    """Runs a script to its end: signals end it in order."""
    for each in STOPS:
        if signal.getsignal(each) != signal.SIG_IGN:  # nohup, or a job in the background
            signal.signal(each, stop)
    program = os.path.basename(sys.argv[0])
    try:
        code = main()
    except SystemExit as e:
        code = e.code or 0
    e = output_error()
    sys.exit(code if code or not e else answer(program, e))
