"""A Python that has the packages of the tools. In: a script that runs. Out: the same script, perhaps begun again in .venv.

Only the standard library is used here: this runs before anything is installed. `make test` keeps the same .venv.
"""

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
VENV, PINS = ROOT / ".venv", ROOT / "tools" / "requirements.txt"
STAMP = VENV / "requirements-installed"  # a copy of the pins that were installed
PYTHON = VENV / "bin" / "python"


def enter(packages: tuple[str, ...]) -> None:
    """Returns where this Python has the packages; else runs the script again in .venv, which is made at need. Ends the program with
    one sentence where that is not possible."""
    lacking = next(filter(None, map(_why_not, packages)), None)
    if lacking is None:
        return
    here = Path(sys.argv[0]).name
    if Path(sys.prefix) == VENV:
        _stop(f"{here}: {VENV} is not whole ({lacking}); remove it and run this again")
    if not (PYTHON.exists() and STAMP.exists() and STAMP.read_bytes() == PINS.read_bytes()):
        _make(here, lacking)
    sys.stdout.flush()
    os.execv(PYTHON, [str(PYTHON), *sys.argv])


def _why_not(package: str) -> str | None:
    try:
        importlib.import_module(package)
    except ImportError as e:
        return " ".join(str(e).split())[:200]
    return None


def _make(here: str, lacking: str) -> None:
    """Makes .venv with uv, or else with Python's own venv."""
    install = [PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "1", "-r", PINS]
    uv = shutil.which("uv")
    if uv:
        steps = [[uv, "venv", "-q", "--allow-existing", VENV], [uv, "pip", "install", "-q", "--python", PYTHON, "-r", PINS]]
    elif importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        steps = [[sys.executable, "-m", "venv", VENV], install]
    else:
        _stop(f"{here}: {lacking}, and this Python cannot make an environment; run `apt-get install python3-venv` as root, or install uv")
    print(f"{here}: setting up {VENV}, once; this takes a minute", file=sys.stderr, flush=True)
    for step in steps:
        try:
            failed = subprocess.run([str(part) for part in step], stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode
        except KeyboardInterrupt:
            sys.exit(130)
        if failed:
            _stop(f"{here}: {lacking}, and {VENV} could not be set up (see above); it needs the packages of {PINS}")
    shutil.copyfile(PINS, STAMP)


def _stop(sentence: str) -> None:
    print(sentence, file=sys.stderr)
    sys.exit(2)
