"""Surgery, the logit lens and direct contributions against numpy.

For contributions, numpy goes the other way: it computes what each head and each feed-forward adds to the stream, from the
weights of the source, and takes that through the final norm and the head.
"""

import contextlib
import io
import os
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/convert")]

import convert  # noqa: E402
from tern import library as engine  # noqa: E402
from tern.testing import golden_file  # noqa: E402
from test_golden_convert import directory  # noqa: E402

LIBRARY = Path(os.environ.get("BUILD", "build")) / "libtern.so"
TOKENS, ASKED = 9, (0, 41)
LAYER_NORM = ("starcoder2", "gpt2", "cohere")


def floats(path: Path) -> dict[str, float]:
    """The keys of a golden file that are one f32."""
    lines = [line.split() for line in path.read_text().splitlines() if line.startswith("f32 ")]
    return {name: float(np.frombuffer(bytes.fromhex(bits[0]), ">f4")[0]) for _, name, *bits in lines if len(bits) == 1}


class Reference:
    """The formulas of tern_contributions in tern_lab.h, forwards."""

    def __init__(self, golden: golden_file.Golden, numbers: dict[str, float], seen: dict):
        self.golden, self.numbers, self.seen = golden, numbers, seen
        self.weights = {name: value.astype(np.float64) for name, value in golden.weights().items()}
        self.head = self.weights.get("head", self.weights["embed"])
        self.is_layer_norm = golden.name in LAYER_NORM

    def linear_norm(self, name: str, x: np.ndarray, part: np.ndarray) -> np.ndarray:
        """What `part` of x becomes by the norm of x, the scale held: its weights, not its bias."""
        if name not in self.weights:
            return part
        centre = (lambda v: v - v.mean()) if self.is_layer_norm else (lambda v: v)
        scale = 1 / np.sqrt((centre(x) ** 2).mean() + self.numbers["norm_eps"])
        return centre(part) * scale * self.weights[name]

    def logit(self, token: int, part: np.ndarray) -> float:
        """What a part of the last stream adds to the logit."""
        x = self.seen[self.golden.keys["n_layers"] - 1, "out"]
        return self.numbers.get("logit_scale", 1) * float(self.head[token] @ self.linear_norm("final_norm", x, part))

    def added(self, token: int, layer: int, norm: str, y: np.ndarray, part: np.ndarray) -> float:
        """What a part of y adds, where y is what a step adds to the stream."""
        part = self.linear_norm(f"layer.{layer}.{norm}", y, part)
        return self.logit(token, self.numbers.get("residual_scale", 1) * part)

    def heads(self, token: int, layer: int) -> dict:
        z, o = self.seen[layer, "attend"], self.weights[f"layer.{layer}.o"]
        d = self.golden.keys["head_dim"]
        parts = [o[:, at : at + d] @ z[at : at + d] for at in range(0, len(z), d)]
        y = sum(parts) + self.weights.get(f"layer.{layer}.o_bias", 0)
        return {("head", layer, h): self.added(token, layer, "attn_post_norm", y, part) for h, part in enumerate(parts)}

    def feed_forward(self, token: int, layer: int) -> dict:
        """The dense one, or the chosen experts, as far as the observer shows what is needed."""
        if (layer, "act") in self.seen:
            y = self.weights[f"layer.{layer}.down"] @ self.seen[layer, "act"] + self.weights.get(f"layer.{layer}.down_bias", 0)
            return {("ffn", layer, 0): self.added(token, layer, "ffn_post_norm", y, y)}
        x, chosen = self.seen[layer, "ffn_norm"], np.flatnonzero(self.seen[layer, "router"])
        gate, up, down = (self.weights[f"layer.{layer}.{name}"] for name in ("gate", "up", "down"))
        return {("expert", layer, e): self.logit(token, self.seen[layer, "router"][e] * (down[e] @ (silu(gate[e] @ x) * (up[e] @ x))))
                for e in chosen}  # fmt: skip

    def terms(self, token: int, last: int, position: int) -> dict:
        layers = range(self.golden.keys["n_layers"])
        out = {("embed", 0, 0): self.logit(token, self.numbers.get("embed_scale", 1) * self.weights["embed"][last])}
        if "positions" in self.weights:
            out["position", 0, 0] = self.logit(token, self.weights["positions"].reshape(-1, self.golden.keys["dim"])[position])
        for layer in layers:
            out |= self.heads(token, layer) | self.feed_forward(token, layer)
            if f"layer.{layer}.o_bias" in self.weights:
                bias = self.weights[f"layer.{layer}.o_bias"]
                out["o_bias", layer, 0] = self.added(token, layer, "", bias, bias)
        if "final_norm_bias" in self.weights:
            out["final_norm", 0, 0] = float(self.head[token] @ self.weights["final_norm_bias"])
        return out


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


class Trace(unittest.TestCase):
    """One test per golden model that has what the others lack."""

    @contextlib.contextmanager
    def model(self, golden: golden_file.Golden):
        with tempfile.TemporaryDirectory() as temp, contextlib.redirect_stdout(io.StringIO()) as said:
            directory(Path(temp) / "source", golden, golden.config, False)
            self.assertEqual(convert.main([str(Path(temp) / "source"), str(Path(temp) / "out.bin")]), 0, said.getvalue())
            with engine.Engine(LIBRARY, Path(temp) / "out.bin", TOKENS) as e:
                yield e

    def hold(self, name: str, *kinds: str) -> None:
        path = ROOT / "tests/golden" / f"{name}.txt"
        golden, numbers = golden_file.read(path), floats(path)
        ids, seen = golden.tokens()[:TOKENS], {}

        def take(o: engine.Observation) -> None:
            seen[o.layer, o.operation] = o.values[-1].astype(np.float64)

        with self.model(golden) as e:
            e.keep_terms(True)
            e.observe(ids, {TOKENS - 1}, take)
            found = {token: e.contributions(token) for token in ASKED}
            lens = e.lens(np.array([seen[0, "out"], seen[golden.keys["n_layers"] - 1, "out"]]))
        reference = Reference(golden, numbers, seen)
        self.lens_is_right(reference, lens)
        for token, (terms, logit) in found.items():
            expected = reference.terms(token, ids[-1], TOKENS - 1)
            self.assertEqual(set(terms), set(expected))
            self.assertLessEqual(set(kinds), {kind for kind, _, _ in terms})
            for term, value in expected.items():
                self.assertAlmostEqual(terms[term], value, delta=1e-5 * max(1, abs(logit)), msg=f"token {token}: {term}")
            self.assertAlmostEqual(sum(terms.values()), logit, delta=1e-5 * max(1, abs(logit)))

    def lens_is_right(self, reference: Reference, lens: np.ndarray) -> None:
        """Of the first layer and of the last; the last is also what the engine says."""
        cap, scale = reference.numbers.get("logit_cap", 0), reference.numbers.get("logit_scale", 1)
        last = reference.golden.keys["n_layers"] - 1
        for layer, logits in zip((0, last), lens):
            x = reference.seen[layer, "out"]
            normed = reference.linear_norm("final_norm", x, x) + reference.weights.get("final_norm_bias", 0)
            expected = scale * (reference.head @ normed)
            expected = cap * np.tanh(expected / cap) if cap else expected
            self.assertLessEqual(np.abs(logits - expected).max(), 1e-5 * np.abs(expected).max())
        self.assertEqual(lens[-1].tolist(), reference.seen[last + 1, "logits"].tolist())

    def test_a_head_switched_off(self) -> None:
        """What attention adds loses that head's part, and nothing else."""
        golden, layer, head = golden_file.read(ROOT / "tests/golden/llama-gqa.txt"), 1, 2
        d, o = golden.keys["head_dim"], golden.weights()[f"layer.{layer}.o"].astype(np.float64)
        part, seen = slice(head * d, (head + 1) * d), []

        def off(at: engine.Observation) -> bool:
            if (at.layer, at.operation) != (layer, "attend"):
                return False
            at.values[:, part] = 0
            return True

        def take(at: engine.Observation) -> None:
            if at.layer == layer and at.operation in ("attend", "o"):
                seen.append(at.values.astype(np.float64))

        with self.model(golden) as e:
            e.observe(golden.tokens()[:TOKENS], set(), take)
            e.edit(off)
            e.observe(golden.tokens()[:TOKENS], set(), take)
            e.edit(None)
            e.observe(golden.tokens()[:TOKENS], set(), take)
        z, added, z_off, added_off, z_again, added_again = seen
        self.assertEqual(np.abs(z_off[:, part]).max(), 0)
        self.assertLess(np.abs(added - added_off - z[:, part] @ o[:, part].T).max(), 1e-5 * np.abs(added).max())
        self.assertEqual((z_again.tolist(), added_again.tolist()), (z.tolist(), added.tolist()))

    def test_plain(self) -> None:
        self.hold("llama-gqa", "embed", "head", "ffn")

    def test_norms_of_what_is_added_and_a_cap(self) -> None:
        self.hold("gemma2")

    def test_scales(self) -> None:
        self.hold("granite")

    def test_layer_norm_and_biases(self) -> None:
        self.hold("starcoder2", "o_bias", "final_norm")

    def test_learned_positions(self) -> None:
        self.hold("gpt2", "position")

    def test_parallel_layers(self) -> None:
        self.hold("cohere")

    def test_experts(self) -> None:
        self.hold("mixtral", "expert")


if __name__ == "__main__":
    unittest.main()
