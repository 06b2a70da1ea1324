"""The sampler against a plain numpy implementation: which tokens each stage leaves, and how often each
is drawn. 20,000 draws a setting by tests/prog/prog_sampler.c; seeds are fixed, so nothing here is chance."""

import itertools
import os
import subprocess
import unittest
from dataclasses import dataclass, field

import numpy as np
from cli_case import softmax

PROG = os.path.join(os.environ.get("BUILD", "build"), "tests/prog_sampler")
DEFAULT_ORDER = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"
DRAWS = 20_000
OFF = dict(
    temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repeat_penalty=1.0, repeat_last_n=64,
    frequency_penalty=0.0, presence_penalty=0.0, typical_p=1.0, top_n_sigma=0.0, xtc_probability=0.0,
    xtc_threshold=0.1, dry_multiplier=0.0, dry_base=1.75, dry_allowed_length=2, dry_last_n=2**32 - 1,
    mirostat=0, mirostat_tau=5.0, mirostat_eta=0.1,
)  # fmt: skip


@dataclass
class Setting:
    """Parameters by name, what is not named being off."""

    logits: np.ndarray
    params: dict = field(default_factory=dict)
    history: list = field(default_factory=list)
    bias: dict = field(default_factory=dict)
    order: str = DEFAULT_ORDER

    def __getattr__(self, name):
        return np.float64(np.float32({**OFF, **self.params}[name]))

    def commands(self) -> str:
        lines = ["reset", "logits " + " ".join(float(x).hex() for x in self.logits)]
        lines += [f"set {k} {v}" for k, v in {**OFF, **self.params}.items()]
        lines += ["history " + " ".join(map(str, self.history)), "order " + self.order]
        if self.bias:
            lines += ["bias " + " ".join(f"{k} {v}" for k, v in self.bias.items())]
        return "\n".join(lines) + "\n"


def ask(commands: str) -> list[list[str]]:
    done = subprocess.run([PROG, "--draw"], input=commands, capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


# ---- the plain implementation: v are logits, -inf for what was cut ---------------------------------


def order_of(v: np.ndarray) -> np.ndarray:
    """Ids that are left, best first, the lower id on ties."""
    ids = np.lexsort((np.arange(len(v)), -v))
    return ids[v[ids] > -np.inf]


def only(v: np.ndarray, ids) -> np.ndarray:
    out = np.full_like(v, -np.inf)
    out[ids] = v[ids]
    return out


def penalties(v, s):
    v = v.copy()
    last = int(s.repeat_last_n)
    recent = s.history[-last:] if last else []
    for t in set(recent):
        v[t] = v[t] / s.repeat_penalty if v[t] > 0 else v[t] * s.repeat_penalty
        v[t] -= recent.count(t) * s.frequency_penalty + s.presence_penalty
    return v


def dry(v, s):
    v, last, best = v.copy(), int(s.dry_last_n), {}
    h = s.history[-last:] if last else []
    if s.dry_multiplier == 0:
        return v
    for i in range(len(h)):
        n = 0
        while n < i and h[i - 1 - n] == h[-1 - n]:
            n += 1
        if n >= s.dry_allowed_length:
            best[h[i]] = max(best.get(h[i], 0), min(n, 100))
    for t, n in best.items():
        v[t] -= s.dry_multiplier * s.dry_base ** (n - s.dry_allowed_length)
    return v


def top_n_sigma(v, s):
    left = v[v > -np.inf]
    return only(v, v >= v.max() - s.top_n_sigma * left.std()) if s.top_n_sigma > 0 else v


def top_k(v, s):
    return only(v, order_of(v)[: int(s.top_k)]) if s.top_k else v


def fewest(p, ids, share):
    """The first of ids whose probabilities reach `share`."""
    return ids[: 1 + np.searchsorted(np.cumsum(p[ids]), share)]


def typ_p(v, s):
    if not 0 < s.typical_p < 1:
        return v
    ids = np.sort(order_of(v))
    p = softmax(v)
    entropy = -(p[ids] * np.log(p[ids])).sum()
    far = np.round(np.abs(-np.log(p[ids]) - entropy), 5)  # ties of equal logits stay ties
    return only(v, fewest(p, ids[np.argsort(far, kind="stable")], s.typical_p))


def top_p(v, s):
    return only(v, fewest(softmax(v), order_of(v), s.top_p)) if s.top_p < 1 else v


def min_p(v, s):
    p = softmax(v)
    return only(v, p >= s.min_p * p.max()) if s.min_p > 0 else v


def xtc_cut(v, s):
    ids, p = order_of(v), softmax(v)
    above = int((p[ids] >= s.xtc_threshold).sum())
    return only(v, ids[max(above - 1, 0) :])


def temperature(v, s):
    return v / s.temperature


STAGES = dict(
    penalties=penalties, dry=dry, top_n_sigma=top_n_sigma, top_k=top_k, typ_p=typ_p, top_p=top_p,
    min_p=min_p, temperature=temperature,
)  # fmt: skip


def probabilities(s: Setting) -> np.ndarray:
    """What is drawn: with xtc a mixture of the two ways."""
    v = np.asarray(s.logits, np.float64).copy()
    for t, b in s.bias.items():
        v[t] += b
    ways = [(1.0, v)]
    for name in s.order.split(";"):
        if name in STAGES:
            ways = [(weight, STAGES[name](w, s)) for weight, w in ways]
        elif name == "xtc" and s.xtc_probability > 0:
            q = s.xtc_probability
            ways = [(f * g, w) for f, v in ways for g, w in ((q, xtc_cut(v, s)), (1 - q, v))]
    return sum(weight * softmax(w) for weight, w in ways)


# ---- tests -----------------------------------------------------------------------------------------


def chi_square(seen: np.ndarray, p: np.ndarray) -> tuple[float, int]:
    """Pearson's statistic and its degrees of freedom; tokens expected less than 8 times share a bin."""
    expected = p * seen.sum()
    big = expected >= 8
    e, o = list(expected[big]), list(seen[big])
    if expected[~big].sum() >= 8:
        e.append(expected[~big].sum())
        o.append(seen[~big].sum())
    e, o = np.array(e), np.array(o)
    return float(((o - e) ** 2 / e).sum()), len(e) - 1


def logits_of(n: int, seed: int, spread: float = 2.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, spread, n).astype(np.float32)


SMALL, LARGE = logits_of(60, 1), logits_of(1500, 2, 3.0)
TIED = np.round(logits_of(60, 3) * 2).astype(np.float32) / 2
TEXT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 1, 4, 1, 5, 9, 2, 6, 5, 3, 1, 4, 1]


def settings() -> list[Setting]:
    out = []
    for x in (SMALL, TIED, LARGE):
        for params in (
            {}, {"temperature": 0.5}, {"temperature": 1.7}, {"top_k": 1}, {"top_k": 7}, {"top_k": 40},
            {"top_p": 0.5}, {"top_p": 0.9}, {"min_p": 0.02}, {"min_p": 0.3}, {"typical_p": 0.2},
            {"typical_p": 0.6}, {"typical_p": 0.95}, {"top_n_sigma": 0.5}, {"top_n_sigma": 1.3},
            {"xtc_probability": 1, "xtc_threshold": 0.05}, {"xtc_probability": 0.4, "xtc_threshold": 0.02},
            {"top_k": 20, "top_p": 0.8, "min_p": 0.05, "temperature": 0.8},
        ):  # fmt: skip
            if x is not LARGE or len(out) % 3 == 0:
                out.append(Setting(x, params))
            else:
                out.append(Setting(LARGE[:100], params))
    for params in (
        {"repeat_penalty": 1.8}, {"frequency_penalty": 0.4}, {"presence_penalty": 1.5},
        {"repeat_penalty": 1.3, "frequency_penalty": 0.2, "presence_penalty": -0.5, "repeat_last_n": 9},
        {"repeat_penalty": 2, "repeat_last_n": 0}, {"dry_multiplier": 0.3},
        {"dry_multiplier": 0.5, "dry_base": 1.2, "dry_allowed_length": 1, "dry_last_n": 12},
        {"dry_multiplier": 1, "dry_allowed_length": 8}, {"dry_multiplier": 1, "dry_allowed_length": 9},
    ):  # fmt: skip
        out.append(Setting(SMALL[:12], params, TEXT))
    out.append(Setting(SMALL[:12], {}, [], {3: 2.5, 0: -np.inf, 7: -1}))
    for i, order in enumerate(itertools.islice(itertools.permutations(DEFAULT_ORDER.split(";")), 0, None, 45_377)):
        params = {
            "repeat_penalty": 1.5, "top_k": 30, "top_p": 0.9, "min_p": 0.02, "typical_p": 0.97, "top_n_sigma": 2,
            "xtc_probability": 0.5, "xtc_threshold": 0.06, "temperature": 1.3, "dry_multiplier": 0.2,
        }  # fmt: skip
        out.append(Setting(LARGE if i == 1 else SMALL, params, TEXT, order=";".join(order)))
    out.append(Setting(SMALL, {"temperature": 3, "top_k": 5}, order="temperature"))
    return out


class Sampler(unittest.TestCase):
    def check(self, all_settings: list[Setting], want: list[np.ndarray]) -> None:
        answers = ask("".join(f"{s.commands()}set seed {i}\ndraw {DRAWS}\n" for i, s in enumerate(all_settings)))
        self.assertEqual(len(answers), len(all_settings))
        for s, p, line in zip(all_settings, want, answers):
            seen = np.bincount(np.array(line, np.int64), minlength=len(p))
            self.assertEqual(seen[p == 0].sum(), 0, f"{s.params} {s.order}: a token that was cut is drawn")
            chi2, freedom = chi_square(seen, p)
            self.assertLess(chi2, freedom + 4 * (2 * freedom) ** 0.5 + 8, f"{s.params} {s.order}")

    def test_frequencies(self):
        every = settings()
        self.check(every, [probabilities(s) for s in every])

    def test_survivors(self):
        """At temperature 1000, applied last, everything that is left is drawn."""
        for params in (
            {"top_k": 33}, {"top_p": 0.7}, {"top_p": 0.95}, {"min_p": 0.05}, {"typical_p": 0.5}, {"top_n_sigma": 1},
            {"xtc_probability": 1, "xtc_threshold": 0.04}, {"top_n_sigma": 2, "typical_p": 0.9, "top_p": 0.8},
        ):  # fmt: skip
            for x in (SMALL, TIED, LARGE[:300]):
                s = Setting(x, {**params, "temperature": 1000})
                want = np.flatnonzero(probabilities(s))
                got = np.unique(np.array(ask(s.commands() + f"draw {DRAWS}\n")[0], np.int64))
                self.assertEqual(got.tolist(), want.tolist(), params)

    def mirostat(self, s: Setting, mu: float) -> np.ndarray:
        p = softmax(temperature(penalties(np.asarray(s.logits, np.float64), s), s))
        keep = -np.log2(p) <= mu
        keep[order_of(p)[0]] = True
        return np.where(keep, p, 0) / p[keep].sum()

    def test_mirostat_frequencies(self):
        every = [
            Setting(x, {"mirostat": 2, "mirostat_tau": tau, "repeat_penalty": 1.2, "temperature": t, "top_k": 3}, TEXT)
            for x in (SMALL, TIED, LARGE) for tau, t in ((0.1, 1), (1.6, 1), (2.5, 0.7), (4, 1.5), (9, 1))
        ]  # fmt: skip
        self.check(every, [self.mirostat(s, 2 * s.mirostat_tau) for s in every])

    def test_mirostat_follows_its_target(self):
        for x, tau in ((SMALL, 3.0), (LARGE, 4.0), (LARGE, 5.0)):
            s = Setting(x, {"mirostat": 2, "mirostat_tau": tau})
            line = ask(s.commands() + "walk 2000\n")[0]
            mu, surprise = 2 * tau, []
            for token, after in zip(map(int, line[::2]), map(float.fromhex, line[1::2])):
                p = self.mirostat(s, mu)
                self.assertGreater(p[token], 0)
                surprise.append(-np.log2(p[token]))
                self.assertAlmostEqual(after, mu - 0.1 * (surprise[-1] - tau), places=4)
                mu = after
            self.assertAlmostEqual(float(np.mean(surprise[200:])), tau, delta=0.25)


if __name__ == "__main__":
    unittest.main()
