"""Regular expressions against Python's `re`, which sees each in its own spelling."""

import os
import random
import re
import subprocess
import unittest

BUILD = os.environ.get("BUILD", "build")
LETTERS = "ab-_1 \n\u00e9\u2028\U0001f600"
# ECMA-262's spelling, Python's with re.ASCII.
SPACE = "\\t-\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"
ATOMS = [
    ("a", "a"), ("b", "b"), ("1", "1"), ("\u00e9", "\u00e9"), ("\U0001f600", "\U0001f600"),
    (".", "[^\\n\\r\\u2028\\u2029]"), (r"\d", r"\d"), (r"\D", r"\D"), (r"\w", r"\w"), (r"\W", r"\W"),
    (r"\s", f"[{SPACE}]"), (r"\S", f"[^{SPACE}]"), ("[ab]", "[ab]"), ("[^a]", "[^a]"), (r"[a-b\d_-]", r"[a-b\d_-]"),
    (r"[^\W\d]", r"[^\W\d]"), ("[^]", r"[\s\S]"), ("[]", "(?!)"), (r"\u{1F600}", "\U0001f600"),
    (r"\ud83d\ude00", "\U0001f600"), (r"\x61", "a"), (r"\cJ", "\n"), (r"[\u00e0-\u{1f64f}]", "[\u00e0-\U0001f64f]"),
    (r"\P{L}", "[^ab\u00e9]"), (r"\p{Ll}", "[ab\u00e9]"), ("{", r"\{"), ("]", r"\]"),
]  # fmt: skip
QUANTIFIERS = ["*", "+", "?", "{2}", "{1,}", "{0,2}", "{2,3}", "*?", "{0}", "{1,2}?"]


def expression(rng: random.Random, depth: int) -> tuple[str, str]:
    """A random one in both spellings. The parts of a sequence are whole."""
    kind = rng.randrange(12 if depth else 4)
    if kind == 0 and rng.random() < 0.5:
        return rng.choice([("^", r"\A"), ("$", r"\Z")])
    if kind < 5:
        return rng.choice(ATOMS)
    if kind < 8:
        parts = [expression(rng, depth - 1) for _ in range(rng.randrange(4))]
        return "".join(p[0] for p in parts), "".join(p[1] for p in parts)
    ours, theirs = expression(rng, depth - 1)
    opening = rng.choice(["(", "(?:", "(?<n>"])
    if kind < 10:
        choices = [(ours, theirs)] + [expression(rng, depth - 1) for _ in range(rng.randrange(3))]
        return opening + "|".join(c[0] for c in choices) + ")", "(?:" + "|".join(c[1] for c in choices) + ")"
    quantifier = rng.choice(QUANTIFIERS)
    return f"{opening}{ours}){quantifier}", f"(?:{theirs}){quantifier}"


def ask(lines: list[tuple[str, list[str]]]) -> list[str]:
    text = "\n".join(" ".join(x.encode().hex() + "-" for x in (pattern, *texts)) for pattern, texts in lines)
    done = subprocess.run([f"{BUILD}/tests/prog_regex", "-"], input=text + "\n", capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


class Regex(unittest.TestCase):
    def test_random_expressions(self) -> None:
        rng = random.Random(13)
        lines, expected = [], []
        while len(lines) < 4000:
            ours, theirs = expression(rng, 4)
            if rng.random() < 0.3:
                ours, theirs = f"^(?:{ours})$", rf"\A(?:{theirs})\Z"
            if rng.random() < 0.1:
                look, other = expression(rng, 2)
                sign = rng.choice("=!")
                ours, theirs = f"^(?{sign}{look})(?:{ours})", rf"\A(?{sign}{other})(?:{theirs})"
            compiled = re.compile(theirs, re.ASCII)
            texts = ["".join(rng.choices(LETTERS, k=rng.randrange(7))) for _ in range(12)]
            lines.append((ours, texts))
            expected.append("".join("01"[compiled.search(t) is not None] for t in texts))
        for (ours, texts), got, want in zip(lines, ask(lines), expected, strict=True):
            self.assertEqual(got, want, (ours, texts))


if __name__ == "__main__":
    unittest.main()
