"""The scripts in tools: --help of each works without PyTorch, and only helps."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "tools").glob("*.py"))


def times() -> dict[Path, int]:
    """When each file that a script may write was changed."""
    folders = ROOT / "src" / "text", ROOT / "tests" / "golden", ROOT / "tests" / "fuzz" / "corpus"
    return {path: path.stat().st_mtime_ns for folder in folders for path in folder.rglob("*") if path.is_file()}


class Help(unittest.TestCase):
    def test_help(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "torch.py").write_text("raise ModuleNotFoundError('No module named torch')\n")
            before = times()
            self.assertTrue(SCRIPTS)
            for script in SCRIPTS:
                with self.subTest(script.name):
                    done = subprocess.run(
                        [sys.executable, script, "--help"], capture_output=True, text=True, timeout=120,
                        stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": folder},
                    )  # fmt: skip
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertRegex(done.stdout, rf"\Ausage: {script.name} ")
            self.assertEqual([path for path, time in times().items() if before.get(path) != time], [])


if __name__ == "__main__":
    unittest.main()
