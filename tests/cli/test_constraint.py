"""tern.Constraint: masks beside what trying every token against a list of texts finds."""

import json
import os
import random
import sys
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
BUILD = ROOT / os.environ.get("BUILD", "build")
os.environ["TERN_LIBRARY"] = str(BUILD / "libtern.so")

import tern  # noqa: E402


class Constraints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = tern.Model(ROOT / "models/fable.bin", n_ctx=64)
        cls.addClassCleanup(cls.model.close)
        engine = cls.model._engine
        cls.pieces = engine.pieces(range(cls.model.vocab))
        cls.special = np.array([bool(engine.lib.tern_token_is_special(engine.model, t)) for t in range(cls.model.vocab)])
        cls.ends = np.array([engine.is_end(t) for t in range(cls.model.vocab)])

    def wanted(self, texts: set[bytes], done: bytes) -> np.ndarray:
        """The tokens after `done` of a text that must be one of these."""
        starts = {text[:n] for text in texts for n in range(len(text) + 1)}
        mask = np.array([bool(p) and done + p in starts for p in self.pieces]) & ~self.special
        return mask | self.ends & (done in texts)

    def walk(self, constraint: tern.Constraint, texts: set[bytes], seed: int) -> None:
        state, done, chance = constraint.start(), b"", random.Random(seed)
        while True:
            mask = state.mask()
            np.testing.assert_array_equal(mask, self.wanted(texts, done), str(done))
            self.assertEqual(state.can_end, done in texts)
            goes_on = any(text != done and text.startswith(done) for text in texts)
            self.assertEqual(state.is_over, done in texts and not goes_on)
            run = b"".join(self.pieces[token] for token in state.copy().forced())
            self.assertTrue(all(text.startswith(done + run) for text in texts if text.startswith(done)))
            open_tokens = np.flatnonzero(mask & ~self.ends)
            if not len(open_tokens):
                return
            token = int(chance.choice(open_tokens))
            state.accept(token)
            done += self.pieces[token]

    def check(self, kind: str, text: str, texts: set[str], **how) -> None:
        with tern.Constraint(self.model, kind, text, **how) as constraint:
            for seed in range(4):
                self.walk(constraint, {t.encode() for t in texts}, seed)

    def test_a_choice(self):
        texts = {"yes", "no", "the cat", "the cats", "été", "", "日本", "then 🙂"}
        self.check("choice", "|".join(texts), texts)

    def test_a_regular_expression(self):
        texts = {a + b * n + c for a in ("the ", "A", "") for b in ("ab", "é") for n in range(4) for c in ("!", "\n")}
        self.check("regex", "(the |A|)((ab){0,3}|é{0,3})(!|\\n)", texts)

    def test_values_of_a_schema(self):
        values = ["x", "the end", 12, None, True, [1, "a"], {"k": [], "é": {}}]
        schema = json.dumps({"enum": values})
        with tern.Constraint(self.model, "schema", schema, compact=True) as constraint:
            for value in values:
                state = constraint.start()
                for token in self.model._engine.encode(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(), 0):
                    self.assertTrue(state.mask()[token], (value, self.pieces[token]))
                    state.accept(token)
                self.assertTrue(state.can_end)

    def test_a_forced_run_is_the_text(self):
        with tern.Constraint(self.model, "choice", "Once upon a time there was a little girl.") as constraint:
            state = constraint.start()
            tokens = state.forced()
            self.assertEqual(b"".join(self.pieces[t] for t in tokens), b"Once upon a time there was a little girl.")
            for token in tokens:
                state.accept(token)
            self.assertTrue(state.is_over)

    def test_tokens_come_back(self):
        with tern.Constraint(self.model, "regex", "[a-z ]{5,9}") as constraint:
            state, masks = constraint.start(), []
            for _ in range(4):
                masks.append(state.bits())
                state.accept(int(np.flatnonzero(state.mask() & ~self.ends)[0]))
            self.assertEqual(state.rollback(4), 4)
            self.assertTrue((state.bits() == masks[0]).all())
            self.assertEqual(state.rollback(1), 0)

    def test_mistakes_are_named(self):
        for kind, text, says in (("regex", "a(", "regular expression"), ("schema", "{", "schema"), ("grammar", "root ::= x", "grammar"), ("poem", "", "kind")):
            with self.assertRaisesRegex(tern.Error, says):
                tern.Constraint(self.model, kind, text)
        for trigger in (b"\xffthink", b"a\xff<|endoftext", b"\xff<|endoftext|>a"):  # that no text has
            with self.assertRaisesRegex(tern.Error, "trigger"):
                tern.Constraint(self.model, "json", trigger=trigger)
        for trigger in (b"\xff<|endoftext|>", b"<think>\x80"):
            tern.Constraint(self.model, "json", trigger=trigger).close()
        constraint = tern.Constraint(self.model, "choice", "a")
        state = constraint.start()
        with self.assertRaisesRegex(tern.Error, "does not allow"):
            state.accept(int(np.flatnonzero(~state.mask())[0]))
        constraint.close()
        with self.assertRaisesRegex(tern.Error, "closed"):
            state.mask()

    def test_lax_lists_what_it_leaves_out(self):
        schema = json.dumps({"type": "string", "pattern": "(a)\\1"})
        with self.assertRaisesRegex(tern.Error, "pattern"):
            tern.Constraint(self.model, "schema", schema)
        with tern.Constraint(self.model, "schema", schema, lax=True) as constraint:
            self.assertIn("pattern", " ".join(constraint.left_out))


if __name__ == "__main__":
    unittest.main()
