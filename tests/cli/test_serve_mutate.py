"""Some of the requests of tests/serve-mutate; under `make sanitize`, with sanitizers."""

import subprocess
import sys
import unittest

from cli_case import ROOT
from serve_case import SLOW, WHY


@unittest.skipIf(WHY, WHY)
class Requests(unittest.TestCase):
    def test_generated_ones(self):
        command = [sys.executable, ROOT / "tests/serve-mutate", "--requests", "1000" if SLOW else "5000", "--seed", "7"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        print(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
