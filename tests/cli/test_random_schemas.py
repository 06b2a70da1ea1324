"""Random JSON schemas, a few: tests/random-schemas tries many, and says what is asked of them."""

import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
os.environ.setdefault("TERN_LIBRARY", str(ROOT / os.environ.get("BUILD", "build") / "libtern.so"))

import random_schemas as lib  # noqa: E402

SCHEMAS, SEED = 40 if os.environ.get("QUICK") else 400, 1


class RandomSchemas(unittest.TestCase):
    def test_what_is_promised_holds(self):
        folder = Path(tempfile.mkdtemp(prefix="tern-schemas-"))
        self.addCleanup(shutil.rmtree, folder)
        trial = lib.Trial(lib.made(folder, SEED))
        self.addCleanup(trial.close)
        self.assertEqual(lib.rounds(trial, SCHEMAS, SEED), [])
        self.assertGreater(trial.counts["compiled"], SCHEMAS / 2)
        self.assertGreater(trial.counts["valid"], SCHEMAS)
        self.assertGreater(trial.counts["finished"], SCHEMAS / 8)


if __name__ == "__main__":
    unittest.main()
