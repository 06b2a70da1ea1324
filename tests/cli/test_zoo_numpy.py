"""The attention zoo and the engine's attention against numpy, written from the definition: multi-head attention of
10 x 5 x 64 with 8 heads, its output and its weights, masked and unmasked; then the examples of tutorials, worked out."""

import math
import os
import unittest
from pathlib import Path

import numpy as np
from cli_case import softmax  # first: it makes the next one importable

from tern import zoo

LIBRARY = Path(os.environ.get("BUILD", "build")) / "libtern.so"
SOFTMAX = ("naive", "online", "blocked", "split", "window")


def attention(q, k, v, mask=None, scale=None) -> tuple[np.ndarray, np.ndarray]:
    """f64 out and weights; q, k, v [n, rows, heads, d], mask [rows, rows] True: hidden"""
    q, k, v = (x.astype(np.float64).transpose(0, 2, 1, 3) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    weights = softmax(scores if mask is None else np.where(mask, -np.inf, scores))
    return (weights @ v).transpose(0, 2, 1, 3), weights


def heads(x, n: int) -> np.ndarray:
    """[batch, rows, dim] as [batch, rows, n, dim / n]: no number moves"""
    return np.ascontiguousarray(x.reshape(*x.shape[:2], n, -1), np.float32)


class Zoo(unittest.TestCase):
    def setUp(self):
        self.zoo = zoo.Zoo(LIBRARY)

    def near(self, got, want, bound=2e-6):
        self.assertEqual(got.shape, np.shape(want))
        self.assertLessEqual(np.abs(got - want).max(), bound)

    def test_multi_head_attention(self):
        """Projections, heads, attention and the output projection; every kind of KV heads."""
        random = np.random.default_rng(1)
        x, causal = random.standard_normal((10, 5, 64)), np.triu(np.ones((5, 5), bool), 1)
        for kv in (8, 4, 2, 1):
            wq, wo = (random.standard_normal((64, 64)) / 8 for _ in range(2))
            wk, wv = (random.standard_normal((64, 8 * kv)) / 8 for _ in range(2))
            q, k, v = heads(x @ wq, 8), heads(x @ wk, kv), heads(x @ wv, kv)
            other = random.random((5, 5)) < 0.4
            other[np.arange(5), np.arange(5)] = False
            for mask in (None, causal, other):
                out, weights = attention(q, k, v, mask)
                want = out.reshape(10, 5, 64) @ wo
                for name in SOFTMAX:
                    got, p, _ = self.zoo.run(name, q, k, v, bidirectional=True, mask=mask, weights=True)
                    self.near(p, weights)
                    self.near(got.reshape(10, 5, 64) @ wo, want, 1e-5)
            out, weights = attention(q, k, v, causal)
            for name in ("engine", *SOFTMAX):
                self.near(self.zoo.run(name, q, k, v)[0], out)
            self.near(self.zoo.run("bidirectional", q, k, v, weights=True)[1], attention(q, k, v)[1])

    def test_long_rows(self):
        """More than two blocks, a window, a cap and sinks"""
        random = np.random.default_rng(2)
        q, k, v = (random.standard_normal((1, 600, n, 16)).astype(np.float32) for n in (4, 2, 2))
        distance = np.arange(600)[:, None] - np.arange(600)
        hidden = (distance < 0) | (distance >= 300)
        sinks = np.array([0, 1, -2, 3], np.float32)
        s = np.einsum("thd,shd->hts", q[0].astype(float), np.repeat(k[0], 2, 1)) / 4
        s = np.where(hidden, -np.inf, 5 * np.tanh(s / 5))
        weights = softmax(np.concatenate([s, np.broadcast_to(sinks[:, None, None], (4, 600, 1))], -1))[..., :-1]
        want = np.einsum("hts,shd->thd", weights, np.repeat(v[0], 2, 1))
        for name in ("engine", "sinks", *SOFTMAX):
            self.near(self.zoo.run(name, q, k, v, window=300, cap=5, sinks=sinks)[0][0], want, 4e-6)

    def test_biases_by_distance(self):
        """Slopes and distances that round to themselves in 8 bits"""
        random = np.random.default_rng(4)
        q, k, v = (random.standard_normal((1, 40, n, 8)).astype(np.float32) for n in (4, 2, 2))
        slopes = np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
        distance = np.arange(40)[:, None] - np.arange(40)
        s = np.einsum("thd,shd->hts", q[0].astype(float), np.repeat(k[0], 2, 1)) - slopes[:, None, None] * abs(distance)
        for both in (False, True):
            weights = softmax(np.where((distance < 0) & (not both), -np.inf, s / math.sqrt(8)))
            for name in SOFTMAX if both else ("engine", *SOFTMAX):
                out = self.zoo.run(name, q, k, v, alibi=slopes, bidirectional=both)[0][0]
                self.near(out, np.einsum("hts,shd->thd", weights, np.repeat(v[0], 2, 1)))

    def test_relatives(self):
        random = np.random.default_rng(3)
        q, k, v = (random.standard_normal((2, 40, 3, 8)) for _ in range(3))
        phi = [np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k)]
        p = np.einsum("nthd,nshd->nhts", *phi)
        for both in (False, True):
            w = p if both else p * np.tri(40)
            w = w / w.sum(-1, keepdims=True)
            out, weights, _ = self.zoo.run("linear", q, k, v, bidirectional=both, weights=True)
            self.near(weights, w)
            self.near(out, np.einsum("nhts,nshd->nthd", w, v), 4e-6)
        beta = random.random((2, 40, 3))
        want = np.zeros_like(v)
        for n in range(2):
            for h in range(3):
                state = np.zeros((8, 8))
                for t in range(40):
                    unit = k[n, t, h] / np.linalg.norm(k[n, t, h])
                    state = state @ (np.eye(8) - beta[n, t, h] * np.outer(unit, unit)) + beta[n, t, h] * np.outer(v[n, t, h], unit)
                    want[n, t, h] = state @ q[n, t, h] / math.sqrt(8)
        self.near(self.zoo.run("delta", q, k, v, beta=beta)[0], want, 1e-5)

    def test_latent(self):
        """MLA with its keys and values written out: k = (U c, r), v = V c"""
        random = np.random.default_rng(5)
        q, c, r = random.standard_normal((2, 9, 4, 12)), random.standard_normal((2, 9, 6)), random.standard_normal((2, 9, 4))
        up_k, up_v = random.standard_normal((4, 8, 6)) / 3, random.standard_normal((4, 5, 6)) / 3
        k = np.concatenate([np.einsum("hdc,nsc->nshd", up_k, c), np.broadcast_to(r[:, :, None], (2, 9, 4, 4))], -1)
        v = np.einsum("hec,nsc->nshe", up_v, c)
        for both, mask in ((False, np.triu(np.ones((9, 9), bool), 1)), (True, None)):
            out, weights = attention(q, k, v, mask)
            more = {"up_k": up_k, "up_v": up_v, "latent_dim": 6, "rope_dim": 4}
            got, p, _ = self.zoo.run("latent", q, np.concatenate([c, r], -1), None, bidirectional=both, weights=True, **more)
            self.near(p, weights)
            self.near(got, out, 4e-6)

    def test_example_a(self):
        """Three tokens that see themselves and those before them, without scale and with it"""
        x, v = np.array([[1, 0], [0, 1], [1, 1]]), np.array([[1, 2], [3, 0], [0, 1]])
        e, r = math.exp(1), math.exp(math.sqrt(0.5))
        for scale, a, b in ((1, 1 / (1 + e), 1 / (2 + e)), (math.sqrt(0.5), 1 / (1 + r), 1 / (2 + r))):
            weights = np.array([[1, 0, 0], [a, 1 - a, 0], [b, b, 1 - 2 * b]])
            for name in ("engine", *SOFTMAX):
                shown = name != "engine"
                out, p, _ = self.zoo.run(name, x[None, :, None], x[None, :, None], v[None, :, None], scale=scale, weights=shown)
                self.near(out[0, :, 0], weights @ v)
                if shown:
                    self.near(p[0, 0], weights)

    def test_costs(self):
        """The matrix grows with the square, the band with T x W, what blocks need not at all; work is what is seen."""
        q = np.zeros((1, 512, 2, 16), np.float32)
        long, short = ({n: self.zoo.run(n, x, x, x, window=32 * (n == "window"))[2] for n in ("naive", "window", "blocked", "linear")}
                       for x in (q, q[:, :256]))  # fmt: skip
        self.assertEqual([long[n].scratch_bytes / short[n].scratch_bytes for n in long], [4, 2, 1, 1])
        seen = 512 * 513 // 2
        self.assertEqual((long["naive"].macs, long["blocked"].macs), (2 * seen * 32, 2 * seen * 32))
        self.assertEqual(long["window"].macs, 2 * (32 * 33 // 2 + 480 * 32) * 32)
        self.assertEqual(long["linear"].macs, 2 * short["linear"].macs)

    def test_refusals(self):
        q = np.zeros((1, 4, 2, 16), np.float32)
        for name, more, want in (("fast", {}, "'fast'"), ("linear", {"window": 2}, "no window"), ("delta", {"weights": True}, "no weights")):
            with self.assertRaisesRegex(zoo.ConvertError, want):
                self.zoo.run(name, q, q, q, **more)

    def test_names(self):
        self.assertEqual(list(self.zoo.kinds)[:3] + list(self.zoo.kinds)[-1:], ["naive", "online", "blocked", "engine"])
        self.assertIn("Vaswani", self.zoo.kinds["naive"])


if __name__ == "__main__":
    unittest.main()
