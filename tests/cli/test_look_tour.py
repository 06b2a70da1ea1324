"""look --tour: what its page says of the code is there, its numbers are those of numpy and of the issue's examples, and
its experiments hold. What a browser does with the page: test_look_browser.py."""

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
LOOK = os.environ.get("LOOK", "./look")
FABLE = ROOT / "models/fable.bin"
SCRIPT = (ROOT / "src/app/look/page/tour.js").read_text()


def look(*arguments, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([LOOK, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, cwd=ROOT, timeout=60)
    assert done.returncode == code, (done.returncode, done.stderr)
    return done


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Tour(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        look("--tour", FABLE, "-o", cls.folder / "tour.html")
        cls.text = (cls.folder / "tour.html").read_text()
        cls.data = json.loads(re.search(r'id="data">(.*?)</script>', cls.text, re.DOTALL)[1])

    def near(self, got, want, bound=1e-5):
        np.testing.assert_allclose(np.array(got, float), want, rtol=0, atol=bound)

    def test_the_code_that_it_names_is_there(self):
        """Every reference is a file, a function of it, and a line of that function."""
        table = re.search(r"(?s)const CODE = \{(.*?)\n\};", SCRIPT)[1]
        lines = [line for line in table.splitlines() if line.strip()]
        references = [re.fullmatch(r'  \w+: \["([\w/.]+)", "(\w+)", "(.+)"\],', line) for line in lines]
        self.assertGreater(len(references), 15)
        for line, reference in zip(lines, references):
            self.assertIsNotNone(reference, line)
            file, function, quoted = reference.groups()
            body = re.search(rf"(?ms)^[a-z][^;=\n]*\b{function}\([^;{{]*\)\n\{{\n(.*?)^\}}", (ROOT / file).read_text())
            self.assertIsNotNone(body, f"{file} has no function {function}")
            self.assertIn(quoted, [own.strip() for own in body[1].splitlines()], f"{file}, {function}")
        for name in re.findall(r"\bCODE\.(\w+)", SCRIPT):
            self.assertRegex(table, rf"(?m)^  {name}: ")

    def test_one_file_without_a_network(self):
        self.assertNotRegex(self.text, r"https?://(?!www\.w3\.org/2000/svg)")
        look("--tour", FABLE, "<b>cat</b>", "-n", 0, "--head", "3.2", "-o", self.folder / "b.html")
        self.assertNotIn("<b>", (self.folder / "b.html").read_text())

    def test_the_walk_is_the_run(self):
        """Each step, computed again from the one before it"""
        d = self.data
        n, size, cos, sin = len(d["tokens"]), d["head_dim"], np.array(d["cos"]), np.array(d["sin"])
        self.assertEqual([t[1] for t in d["tokens"][:4]], ["<|endoftext|>", "The", "·cat", "·sat"])
        self.assertEqual((n, d["n_prompt"], d["has_bos"]), (7, 4, True))
        step = {name: np.array(s["rows"]) for name, s in d["steps"].items() if s}
        q, k, v = (np.array(d[f"head_{x}"]).reshape(n, size) for x in "qkv")
        raw, scaled, weights = (np.array(d[x]).reshape(n, n) for x in ("raw", "scaled", "weights"))
        angle = np.arange(n)[:, None] * 10000.0 ** (-np.arange(size // 2) / (size // 2))
        self.near(cos.reshape(n, -1), np.cos(angle))
        self.near(sin.reshape(n, -1), np.sin(angle))
        self.near(q, step["q"][:, :size])
        self.near(k, step["k"][:, :size], 2e-2)  # the cache rounds to f16
        self.near(raw, q @ k.T, 1e-3)
        self.near(scaled, raw / 8, 1e-4)
        masked = np.array([[-np.inf if x is None else x for x in row] for row in np.array(d["masked"], object).reshape(n, n)])
        self.assertTrue((np.isinf(masked) == ~np.tri(n, dtype=bool)).all())
        self.near(weights, softmax(masked))
        self.near(np.array(d["unmasked"]).reshape(n, n), softmax(scaled))
        self.near(step["attend"][:, :size], weights @ v)
        self.near(step["middle"], step["embed"] + step["o"])
        self.near(step["act"][:, :512], (step["gate"] / (1 + np.exp(-step["gate"])) * step["up"])[:, :512], 1e-4)
        self.near(step["out"], step["middle"] + step["down"], 1e-4)
        logits = [x for _, x, _ in d["top"]]
        self.near(np.diff([x for *_, x in d["top"]]), np.diff(logits), 1e-4)
        self.assertEqual(d["tokens"][4][0], d["top"][0][0][0])

    def test_the_cache_is_written_out_as_info_does(self):
        info = subprocess.run(["./run", FABLE, "--info"], capture_output=True, text=True, cwd=ROOT).stdout
        self.assertIn(self.data["cache_sum"], info)
        self.assertEqual([row[1] for row in self.data["cache_sizes"][:3]], [5120, 10240, 1280])

    def test_what_it_refuses(self):
        for arguments, says, code in (
            (["--tour", FABLE], "-o tour.html", 2),
            (["--tour", FABLE, "-o", "x.html", "--attn", "naive"], "leave out --attn", 2),
            (["--tour", FABLE, "-o", "x.html", "--head", "5.0"], "layers 0 to 4", 2),
            (["--tour", FABLE, "cat " * 60, "-o", "x.html"], "at most 48 tokens", 6),
        ):
            done = look(*arguments, code=code)
            self.assertRegex(done.stderr.decode(), rf"\Alook: [^\n]*{says}[^\n]*\n\Z")


if __name__ == "__main__":
    unittest.main()
