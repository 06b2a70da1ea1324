"""The program look, driven as people drive it. What a browser does with its pages: test_look_browser.py."""

import base64
import json
import os
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
LOOK = os.environ.get("LOOK", "./look")
FABLE = ROOT / "models/fable.bin"


def look(*arguments, input: bytes = b"", code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([LOOK, *map(str, arguments)], input=input, capture_output=True, cwd=ROOT, timeout=60)
    assert done.returncode == code, (done.returncode, done.stderr)
    return done


def page_data(path: Path) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])


def blob(path: Path, name: str, kind: str) -> np.ndarray:
    text = re.search(rf'id="{re.escape(name)}">(.*?)</script>', path.read_text())[1]
    return np.frombuffer(base64.b64decode(text), kind)


class Look(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

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

    def test_an_atlas_holds_every_head(self):
        page = self.folder / "atlas.html"
        look(FABLE, "The <b>cat</b> sat & sat", "-n", 3, "-o", page)
        text, data = page.read_text(), page_data(page)
        self.assertEqual(len(data["heads"]), 5 * 8)
        self.assertNotIn("<b>", text)
        self.assertNotRegex(text, r"https?://")
        self.assertEqual(len(data["tokens"]), data["n_prompt"] + 3)
        self.assertEqual([t[1] for t in data["tokens"]][:3], ["<|endoftext|>", "The", "·"])
        for head in data["heads"]:
            cells = np.frombuffer(base64.b64decode(head["cells"]), np.uint8).reshape(head["side"], -1)
            self.assertFalse(np.triu(cells, 1).any())
            self.assertTrue(head["whole"])
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["atlas.html"])

    def test_the_page_has_what_the_engine_computes(self):
        """softmax of the page's q and k is the engine's row."""
        page = self.folder / "atlas.html"
        look(FABLE, "The cat sat on the mat", "-o", page, "--layers", "2")
        n, d, layer = len(page_data(page)["tokens"]), 64, page_data(page)["layers"][2]
        q = blob(page, "q2.3", "<i2").reshape(n, d) * blob(page, "qs2.3", "<f4")[:, None].astype(float)
        k = blob(page, "k2.1", "<i2").reshape(n, d) * blob(page, "ks2.1", "<f4")[:, None].astype(float)
        s = np.where(np.tri(n, dtype=bool), q @ k.T * layer["scale"], -np.inf)
        w = np.exp(s - s.max(1, keepdims=True))
        w /= w.sum(1, keepdims=True)
        rows = look(FABLE, "The cat sat on the mat", "--head", "2.3").stdout.decode().splitlines()[1:]
        for i, row in enumerate(rows):
            np.testing.assert_allclose([float(x) for x in re.findall(r"\d\.\d\d", row)], w[i, : i + 1], atol=0.0051)

    def test_a_page_too_large_is_refused_before_anything_is_computed(self):
        self.refused(FABLE, "cat " * 12000, "-q", "-o", self.folder / "x.html", says="MiB.* choose fewer --layers", code=6)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_picture_of_a_head(self):
        picture = self.folder / "head.svg"
        look(FABLE, "The <cat> & sat", "--head", "1.2", "-o", picture)
        svg = ET.parse(picture).getroot()
        titles = [t.text for t in svg.iter("{http://www.w3.org/2000/svg}title")][1:]
        n = len(set(re.findall(r"<text x", picture.read_text()))) and sum(1 for _ in svg.iter("{http://www.w3.org/2000/svg}rect"))
        self.assertEqual(len(titles), int(n**0.5) * (int(n**0.5) + 1) // 2)
        self.refused(FABLE, "x", "-o", self.folder / "x.svg", says="needs a head")
        self.refused(FABLE, "x", "-o", self.folder / "x.png", says="must end in")
        self.refused(FABLE, "a " * 300, "--head", "1.2", "-o", picture, says="at most 256 tokens", code=6)

    def test_files_appear_whole_or_not_at_all(self):
        (self.folder / "folder.html").mkdir()
        self.refused(FABLE, "x", "-o", self.folder / "folder.html", says="is a folder")
        self.refused(FABLE, "x", "-o", self.folder / "no/x.html", says="cannot create", code=4)
        old = self.folder / "old.html"
        old.write_text("old")
        full = subprocess.run(
            ["bash", "-c", f"ulimit -f 1; trap '' XFSZ; {LOOK} {FABLE} 'The cat sat' -o {old}"], capture_output=True, cwd=ROOT
        )
        self.assertEqual((full.returncode, old.read_text()), (4, "old"), full.stderr)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["folder.html", "old.html"])

    def test_surprise_is_what_perplexity_measures(self):
        text = self.folder / "text.txt"
        text.write_text("The cat sat on the mat.\nIt was <b>happy</b>.\n")
        rows = look(FABLE, "--surprise", text).stdout.decode()
        perplexity = subprocess.run(["./run", FABLE, "--perplexity", text, "-q"], capture_output=True, text=True, cwd=ROOT).stdout
        self.assertTrue(rows.endswith(perplexity[perplexity.index("tokens") :]))
        bits = [float(line.split()[0]) for line in rows.splitlines()[1:] if re.match(r" *\d+\.\d\d  ", line)]
        mean = float(re.search(r"bits/token +(\S+)", rows)[1])
        self.assertAlmostEqual(sum(bits) / len(bits), mean, places=2)
        page = self.folder / "text.html"
        look(FABLE, "--surprise", text, "-o", page)
        self.assertEqual(len(page_data(page)["tokens"]), len(bits))
        self.assertNotIn("<b>", page.read_text())

    def test_colours_follow_the_terminal(self):
        self.assertNotIn(b"\033", look(FABLE, "x", "--head", "1.2").stdout)
        self.assertIn(b"\033[48;5;", look(FABLE, "x", "--head", "1.2", "--color", "256").stdout)
        self.assertIn(b"\033[48;2;", look(FABLE, "x", "--head", "1.2", "--color", "true").stdout)

    def test_version(self):
        self.assertTrue(re.match(rb"look \(tern\) \d", look("--version").stdout))


if __name__ == "__main__":
    unittest.main()
