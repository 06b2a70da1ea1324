"""The wheel that `pip wheel ./tools` builds: what it holds, and a clean environment that has it and nothing else."""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / os.environ.get("RUN", "run")
FABLE = ROOT / "models" / "fable.bin"
SCRIPTS_ALONE = {"environment.py", "plot.py", "regroup.py", "script.py", "verify.py", "testing", "training"}  # need what only a clone has
TEXT = "The cat sat"


def tree(folder: Path) -> set[str]:
    """Names of its files, without what Python caches."""
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"}


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not importlib.util.find_spec("pip") or not importlib.util.find_spec("setuptools"):
            raise unittest.SkipTest("this Python lacks pip or setuptools")
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        before = tree(ROOT / "tools")
        build = ["wheel", "-q", "--disable-pip-version-check", "--no-build-isolation", "--no-deps", "--no-index", "-w", cls.folder]
        subprocess.run([sys.executable, "-m", "pip", *build, ROOT / "tools"], check=True, cwd=cls.folder, timeout=300)
        cls.litter = tree(ROOT / "tools") ^ before
        (cls.wheel,) = cls.folder.glob("*.whl")
        cls.zip = cls.enterClassContext(zipfile.ZipFile(cls.wheel))

    def test_building_leaves_nothing(self):
        self.assertEqual(self.litter, set())

    def test_contents(self):
        sources = {f"tern/{name}" for name in tree(ROOT / "tools" / "tern") if name.split("/")[0] not in SCRIPTS_ALONE}
        native = {f"tern/native/{name}" for name in ("libtern.so", "look", "quantize", "run")}
        notes = {f"tern_engine-{self.version()}.dist-info/{n}" for n in ("METADATA", "RECORD", "WHEEL", "top_level.txt", "licenses/LICENSE")}
        self.assertEqual(set(self.zip.namelist()), sources | native | notes)
        self.assertTrue({"tern/py.typed", "tern/model.py", "tern/convert/chat/templates/chatml.jinja"} <= sources)
        self.assertLess(self.wheel.stat().st_size, 2 << 20)

    def version(self) -> str:
        return re.search(r'TERN_VERSION "(.*)"', (ROOT / "include" / "tern.h").read_text())[1]

    def test_metadata(self):
        text = self.zip.read(f"tern_engine-{self.version()}.dist-info/METADATA").decode()
        for line in (f"Version: {self.version()}", "License-Expression: MIT", "Requires-Python: >=3.10", "Requires-Dist: numpy>="):
            self.assertIn(line, text)
        pinned = {re.split("[=;]", line)[0] for line in (ROOT / "tools" / "requirements.txt").read_text().splitlines()}
        self.assertLessEqual(set(re.findall(r"Requires-Dist: (\w+)", text)), pinned)

    def test_one_wheel_for_every_python_and_most_machines(self):
        native = [self.zip.read(name) for name in self.zip.namelist() if name.startswith("tern/native/")]
        needs = max(int(n) for data in native for n in re.findall(rb"\0GLIBC_2\.(\d+)", data))
        machine = os.uname().machine
        self.assertEqual(self.wheel.name, f"tern_engine-{self.version()}-py3-none-manylinux_2_{needs}_{machine}.whl")
        for data in native:
            self.assertNotIn(b"GLIBC_ABI_DT_RELR", data)  # a name that glibc before 2.36 does not have
            self.assertNotIn(b".debug_info", data)

    def test_a_clean_environment(self):
        """numpy is the tests' own; there is no compiler, and no repository around."""
        home, empty = self.folder / "home", self.folder / "empty"
        empty.mkdir()
        venv.create(home, with_pip=False, symlinks=True)
        install = ["install", "-q", "--disable-pip-version-check", "--no-deps", "--no-index", self.wheel]
        subprocess.run([sys.executable, "-m", "pip", "--python", home / "bin" / "python", *install], check=True)
        (site,) = home.glob("lib/*/site-packages")
        for name in ("numpy", "numpy.libs"):
            if (Path(numpy.__path__[0]).parent / name).exists():
                (site / name).symlink_to(Path(numpy.__path__[0]).parent / name)
        done = subprocess.run(
            [home / "bin" / "python", "-c", CODE, FABLE], cwd=empty, env={"PATH": str(empty)}, capture_output=True, text=True
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        said = subprocess.run([RUN, FABLE, TEXT, "-n", "8", "--temp", "0", "-q", "--fingerprint"], capture_output=True, text=True, check=True)
        where, text, page = done.stdout.split("\n")[:3]
        self.assertEqual(Path(where), site / "tern" / "native" / "libtern.so")
        self.assertEqual(text, said.stdout.strip())
        self.assertEqual(page, "<Look at 4 tokens")
        self.assertEqual(list(empty.iterdir()), [])


CODE = f"""
import sys, tern
from tern import programs
print(programs.library())
with tern.Model(sys.argv[1]) as model:
    ids = model.tokenize({TEXT!r})
    for _ in range(8):
        ids.append(int(model.logits(ids)[-1].argmax()))
    print(model.detokenize(ids))
    print(str(model.look({TEXT!r})).partition(":")[0])
"""


if __name__ == "__main__":
    unittest.main()
