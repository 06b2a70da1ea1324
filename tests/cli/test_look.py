"""The program look, driven as people drive it."""

import os
import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOOK = os.environ.get("LOOK", "./look")
FABLE = ROOT / "models/fable.bin"


def look(*arguments, input: bytes = b"", code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([LOOK, *map(str, arguments)], input=input, capture_output=True, cwd=ROOT, timeout=60)
    assert done.returncode == code, (done.returncode, done.stderr)
    return done


class Look(unittest.TestCase):
    def refused(self, *arguments, says: str, code: int = 2) -> None:
        done = look(*arguments, code=code)
        self.assertEqual(done.stdout, b"")
        self.assertRegex(done.stderr.decode(), rf"\Alook: [^\n]*{says}[^\n]*\n\Z")

    def test_one_head_in_the_terminal(self):
        text = look(FABLE, "The cat sat", "--head", "2.3", "--color", "none").stdout.decode()
        self.assertIn("·cat", text)

    def test_the_text_comes_from_where_it_is_given(self):
        first = look(FABLE, "The cat sat", "--head", "2.3").stdout
        for same in (
            look(FABLE, "--head", "2.3", "-p", "The cat sat"),
            look("-m", FABLE, "--head", "2.3", input=b"The cat sat\n"),
            look(FABLE, "-f", "-", "--head", "2.3", input=b"The cat sat"),
        ):
            self.assertEqual(same.stdout, first)

    def test_looking_at_what_is_not_there(self):
        self.refused(FABLE, "x", "--head", "5.0", says="layers 0 to 4")
        self.refused(FABLE, "x", "--head", "0.8", says="heads 0 to 7")
        self.refused(FABLE, "x", "--head", "07", says="a layer and a head")
        self.refused(FABLE, "x", "--layers", "3-9", says="layer from 0 to 4")
        self.refused(FABLE, "x", "y", says="one argument too many")
        self.refused(FABLE, "x", "-p", "y", says="one argument too many|only one text")
        self.refused(says="no weights file")
        self.refused("no.bin", "x", says="no.bin", code=4)
        self.refused(FABLE, "x " * 600, "-c", "100", says="larger -c", code=6)

    def test_version(self):
        self.assertTrue(re.match(rb"look \(tern\) \d", look("--version").stdout))


if __name__ == "__main__":
    unittest.main()
