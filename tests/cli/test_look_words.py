"""The jobs of look that are about words: the logit lens, contributions, two files side by side, surgery. Numbers are
held to the engine's own observer and editor, through the Python binding, and to numpy."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/cli")]

import cli_case  # noqa: E402
from test_look import FABLE, LOOK, look, page_data  # noqa: E402
from tern import library as engine  # noqa: E402

LIBRARY = Path(os.environ.get("BUILD", "build")) / "libtern.so"
TEXT = "The cat sat on the"


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@contextlib.contextmanager
def opened(model=FABLE):
    with engine.Engine(LIBRARY, model, n_ctx=512, cache_type="f16") as lib:
        yield lib


def streams(lib, ids: list[int]) -> dict[tuple[int, str], np.ndarray]:
    """What every step gives, f32 [positions, columns]; logits of all positions."""
    seen = {}
    lib.observe(ids, set(range(len(ids))), lambda o: seen.setdefault((o.layer, o.operation), []).append(o.values.copy()))
    return {name: np.concatenate(rows) for name, rows in seen.items()}


class Words(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def refused(self, *arguments, says: str, code: int = 2) -> None:
        done = look(*arguments, code=code)
        self.assertEqual(done.stdout, b"")
        self.assertRegex(done.stderr.decode(), rf"\Alook: [^\n]*{says}[^\n]*\n\Z")
        self.assertEqual([p for p in self.folder.iterdir() if p.name.startswith("new")], [])


class Lens(Words):
    def test_a_page_has_what_the_engine_and_numpy_say(self):
        page = self.folder / "lens.html"
        look(FABLE, TEXT, "--lens", "-o", page)
        data = page_data(page)
        with opened() as lib:
            ids = lib.encode(TEXT.encode())
            seen = streams(lib, ids)
            x = [seen[0, "embed"]] + [seen[layer, "out"] for layer in range(5)]
            p = [softmax(lib.lens(rows)) for rows in x]
        self.assertEqual(data["stages"], ["embed", "0", "1", "2", "3", "4"])
        np.testing.assert_array_equal(p[5], softmax(seen[5, "logits"]))
        for i, position in enumerate(data["positions"]):
            says = p[5][i].argmax()
            for stage, (rank, of_final, *top) in enumerate(position["guesses"]):
                order = np.argsort(-p[stage][i], kind="stable")
                self.assertEqual(rank, 1 + list(order).index(says))
                self.assertAlmostEqual(of_final, p[stage][i][says], places=5)
                np.testing.assert_allclose(top[1::2], p[stage][i][order[:5]], atol=1e-5)
            self.assertEqual(position["says"], position["guesses"][5][2])

    def test_the_terminal_shows_the_same(self):
        page = self.folder / "lens.html"
        look(FABLE, TEXT, "--lens", "-o", page, "-n", 2)
        rows = look(FABLE, TEXT, "--lens", "-n", 2).stdout.decode().splitlines()
        self.assertEqual(rows[0].split(), ["after", "layer", "embed", "0", "1", "2", "3", "4"])
        for i, position in enumerate(page_data(page)["positions"]):
            self.assertEqual(rows[2 + 2 * i].split()[1], position["says"])
            self.assertEqual([int(r) for r in re.findall(r"#(\d+)", rows[2 + 2 * i])], [g[0] for g in position["guesses"]])
        self.assertIn("\033[48;2;", look(FABLE, TEXT, "--lens", "--color", "true").stdout.decode())

    def test_layers_and_positions(self):
        page = self.folder / "some.html"
        look(FABLE, TEXT, "--lens", "-o", page, "--layers", "1,3", "--positions", "2-3")
        some = page_data(page)
        look(FABLE, TEXT, "--lens", "-o", page)
        whole = page_data(page)
        self.assertEqual((some["stages"], some["first"], len(some["positions"])), (["1", "3", "4"], 2, 2))
        for have, all_ in zip(some["positions"], whole["positions"][2:4]):
            self.assertEqual(have["guesses"], [all_["guesses"][k] for k in (2, 4, 5)])
        self.refused(FABLE, "x", "--lens", "--layers", "5", says="layer from 0 to 4")
        self.refused(FABLE, "x", "--lens", "--positions", "2-9", says="positions 0 to 1")
        self.refused(FABLE, "x", "--lens", "-o", self.folder / "new.txt", says="must end in .html")

    def test_text_is_never_markup(self):
        page = self.folder / "lens.html"
        look(FABLE, "<script>alert(1)</script> \x1b[31m \u202e", "--lens", "-o", page)
        self.assertEqual(len(re.findall("<script", page.read_text())), 2)
        self.assertNotIn("\x1b", page.read_text())
        self.assertNotRegex(page.read_text(), r"https?://")


class Why(Words):
    def rows(self, *arguments) -> dict[str, float]:
        lines = look(FABLE, TEXT, *arguments).stdout.decode().splitlines()[1:]
        return {name: float(value) for value, name in (line.split(maxsplit=1) for line in lines)}

    def test_terms_are_those_of_the_engine_and_sum_to_the_logit(self):
        page = self.folder / "why.html"
        rows = self.rows("--why", " mat")
        look(FABLE, TEXT, "--why", " mat", "-o", page)
        data = page_data(page)
        with opened() as lib:
            ids = lib.encode(TEXT.encode())
            (token,) = lib.encode(b"The mat")[2:]
            lib.keep_terms(True)
            logits = lib.logits(ids)[-1]
            terms, logit = lib.contributions(token)
        self.assertEqual(logit, logits[token])
        self.assertAlmostEqual(rows.pop("sum"), logit, delta=1e-4 * np.abs(logits).max())
        self.assertAlmostEqual(rows.pop("logit, before any cap"), logit, places=4)
        self.assertEqual([t[0] for t in data["terms"]][:3], ["embedding", "head 0.0", "head 0.1"])
        np.testing.assert_allclose([t[2] for t in data["terms"]], list(terms.values()), rtol=1e-6)
        self.assertEqual({t[0]: t[2] for t in data["terms"]}.keys(), rows.keys())
        for name, _, value in data["terms"]:
            self.assertAlmostEqual(rows[name], value, places=4)
        self.assertEqual(sorted(rows.values(), key=abs, reverse=True), list(rows.values()))
        self.assertEqual((data["id"], data["token"]), (token, "·mat"))
        self.assertAlmostEqual(data["p"], softmax(logits)[token], places=5)

    def test_a_token_is_named_by_text_or_id(self):
        best = look(FABLE, TEXT, "--why", "").stdout
        with opened() as lib:
            token = int(lib.logits(lib.encode(TEXT.encode()))[-1].argmax())
        self.assertEqual(look(FABLE, TEXT, "--why", f"id:{token}").stdout, best)
        self.assertIn(f"(id {token}, ".encode(), best)
        label = re.match(rb"why \xc2\xb7(\w+) ", best)[1]
        self.assertEqual(look(FABLE, TEXT, "--why", label.decode()).stdout, best)
        self.refused(FABLE, TEXT, "--why", "no token", says="id from 0 to 4095")
        self.refused(FABLE, TEXT, "--why", "id:4096", says="id from 0 to 4095")
        self.refused(FABLE, TEXT, "--why", "", "-o", self.folder / "new.svg", says="must end in .html")


class Compare(Words):
    def small(self) -> Path:
        """fable as q4c."""
        small = self.folder / "small.bin"
        subprocess.run([os.environ.get("QUANTIZE", "./quantize"), FABLE, small, "q4c", "-q"], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        return small

    def test_differences_are_those_of_what_both_give(self):
        page, small = self.folder / "compare.html", self.small()
        text = "The cat sat on the mat and looked at the little dog that ran in the garden all day."
        both = []
        for model in (FABLE, small):
            with opened(model) as lib:
                both.append(streams(lib, lib.encode(text.encode())))
        bound = 0.15
        out = look(FABLE, text, "--compare", small, "--bound", bound).stdout.decode()
        look(FABLE, text, "--compare", small, "--bound", bound, "-o", page)
        data = page_data(page)
        apart = {}
        for (step, a), b in zip(both[0].items(), both[1].values()):
            apart[step] = np.abs(a.astype(float) - b).max(1) / np.abs(a).max(1)
        self.assertEqual([(s[0], s[1]) for s in data["steps"]], list(apart))
        for layer, operation, most, at in data["steps"]:
            rows = apart[layer, operation]
            np.testing.assert_allclose(most, rows.max(), rtol=1e-6)
            self.assertEqual(at, rows.argmax())
        first = next((*step, int(np.argmax(rows > bound))) for step, rows in apart.items() if rows.max() > bound)
        self.assertEqual(tuple(data["first"]), first)
        self.assertIn(f"layer {first[0]}, {first[1]}, token {first[2]}, ", out)
        p, q = (softmax(seen[5, "logits"]) for seen in both)
        kl = (p * np.log(p / q)).sum(1)
        np.testing.assert_allclose([t[1] for t in data["tokens"]], kl, rtol=1e-4, atol=1e-7)
        self.assertIn(f"mean {kl.mean():.6f} nats, largest {kl.max():.6f} after token {kl.argmax()},", out)
        same = int((p.argmax(1) == q.argmax(1)).sum())
        self.assertIn(f"the same after {same} of {len(kl)} tokens", out)
        self.assertEqual(data["same"], same)

    def test_a_file_does_not_differ_from_itself(self):
        out = look(FABLE, TEXT, "--compare", FABLE, "--bound", 0, "-n", 3).stdout.decode()
        self.assertIn("no step differs by more than 0 of", out)
        self.assertIn("same after 9 of 9 tokens", out)
        self.assertFalse(re.search(r"e-\d\d", out))

    def test_other_models_are_refused_by_what_differs(self):
        toy, other = self.folder / "toy.bin", self.folder / "other.bin"
        cli_case.write_model(toy, 256)
        cli_case.write_model(other, 256, text=False)
        self.refused(FABLE, "x", "--compare", toy, says="n_layers is 5 in the first, 2 in the other")
        self.refused(toy, "x", "--compare", other, says="only one of the files has a tokenizer")
        self.refused(FABLE, "x", "--compare", self.folder / "none.bin", says="none.bin", code=4)
        self.refused(FABLE, "x", "--compare", FABLE, "-o", self.folder / "new.npz", says="must end in .html")


if __name__ == "__main__":
    unittest.main()
