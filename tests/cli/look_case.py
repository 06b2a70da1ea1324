"""What the tests of the program look share: ways to call it and to read its pages."""

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from cli_case import ROOT

LOOK = os.environ.get("LOOK", "./look")
FABLE = ROOT / "models/fable.bin"


def look(*arguments, input: bytes = b"", code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([LOOK, *map(str, arguments)], input=input, capture_output=True, cwd=ROOT, timeout=300)
    assert done.returncode == code, (done.returncode, done.stderr)
    return done


def page_data(path: Path) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])


class LookCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def refused(self, *arguments, says: str, code: int = 2) -> None:
        """Ends with `code` and one line that `says` why, and leaves no file whose name begins with "new"."""
        done = look(*arguments, code=code)
        self.assertEqual(done.stdout, b"")
        self.assertRegex(done.stderr.decode(), rf"\Alook: [^\n]*{says}[^\n]*\n\Z")
        self.assertEqual([p for p in self.folder.iterdir() if p.name.startswith("new")], [])
