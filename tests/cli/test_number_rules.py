"""Rules on numbers against fractions.Fraction: which texts a rule allows, that every prefix of such a text
is alive, that no live prefix is without an end, conjunction and complement."""

import itertools
import os
import random
import re
import subprocess
import unittest
from fractions import Fraction

PROG = os.path.join(os.environ.get("BUILD", "build"), "tests/prog_numbers")
PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
DIGITS = 64
PLACES = 17


def ask(commands: list[str]) -> list[str]:
    done = subprocess.run([PROG, "--obey"], input="\n".join(commands) + "\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def value(text: str) -> Fraction:
    return Fraction(text)


def places(x: Fraction) -> int:
    n = 0
    while x.denominator != 1:
        x, n = x * 10, n + 1
    return n


def lcm(a: Fraction, b: Fraction) -> Fraction:
    step = a
    while (step / b).denominator != 1:
        step += a
    return step


class Rule:
    def __init__(self, words: list[tuple[str, str]]):
        self.words = words
        self.parts = [(what, value(x)) for what, x in words]
        units = [x for what, x in self.parts if what == "unit"]
        los = [x for what, x in self.parts if what[-2:] == "lo"]
        his = [x for what, x in self.parts if what[-2:] == "hi"]
        self.places = max(PLACES, *(places(x) + 1 for what, x in self.parts if what != "unit"), 0)
        if units:
            unit = units[0]
            for other in units[1:]:
                unit = lcm(unit, other)
            self.places = places(unit)
        elif los and his and max(los) == min(his):
            self.places = places(los[0])

    def command(self) -> str:
        return "rule " + " ".join(f"{what} {x}" for what, x in self.words)

    def holds(self, x: Fraction) -> bool:
        tests = {
            "lo": lambda b: x >= b, "xlo": lambda b: x > b, "hi": lambda b: x <= b, "xhi": lambda b: x < b,
            "unit": lambda b: (x / b).denominator == 1, "not": lambda b: (x / b).denominator != 1,
        }  # fmt: skip
        return all(tests[what](b) for what, b in self.parts)

    def allows(self, text: str) -> bool:
        if not PLAIN.fullmatch(text) or sum(c.isdigit() for c in text) > DIGITS:
            return False
        if text[0] == "-" and value(text) == 0:
            return False
        return len(text.partition(".")[2]) <= self.places and self.holds(value(text))


def decimal(r: random.Random, digits: int) -> str:
    text = str(r.randrange(10 ** r.randint(1, digits)))
    if r.random() < 0.5:
        text += "." + str(r.randrange(10 ** r.randint(1, digits))).rjust(r.randint(1, 3), "0")
    if r.random() < 0.1:
        text += f"e{r.randint(-3, 3)}"
    return ("-" if r.random() < 0.3 else "") + text


UNITS = ["1", "2", "3", "7", "10", "100", "0.1", "0.01", "0.5", "0.25", "1.5", "0.3", "12", "0.05", "1e2", "6", "45"]


def random_rule(r: random.Random, digits: int) -> Rule:
    words = [(r.choice(["lo", "xlo", "hi", "xhi"]), decimal(r, digits)) for _ in range(r.randint(0, 3))]
    if r.random() < 0.15:
        x = decimal(r, digits)
        words = [("lo", x), ("hi", x)]
    words += [("unit", r.choice(UNITS)) for _ in range(r.choice([0, 0, 1, 1, 2]))]
    words += [("not", r.choice(UNITS)) for _ in range(r.choice([0, 0, 1, 2]))]
    return Rule(words)


def marks(rule: Rule, text: str) -> str:
    return "".join("#" if rule.allows(text[: n + 1]) else "." for n in range(len(text)))


class NumberRules(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(int(os.environ.get("SEED", "13")))

    def test_every_text_of_few_bytes(self):
        short = ["".join(t) for n in range(1, 5) for t in itertools.product("-.0159", repeat=n)]
        short = [t for t in short if PLAIN.fullmatch(t)]
        rules = [random_rule(self.random, 2) for _ in range(60)]
        answers = ask([line for rule in rules for line in (rule.command(), "all 4")])
        for rule, state, texts in zip(rules, answers[::2], answers[1::2]):
            texts = texts.split()
            self.assertNotEqual(state, "refused", rule.words)
            self.assertEqual(state == "empty", not texts and not self.some(rule), rule.words)
            self.assertEqual([t for t in texts if not rule.allows(t)], [], rule.words)
            texts = set(texts)
            self.assertEqual([t for t in short if rule.allows(t) and t not in texts], [], rule.words)

    def some(self, rule: Rule) -> bool:
        """A value that lies at a bound, or beside it by a part of a unit."""
        near = [b for _, b in rule.parts] + [Fraction(0)]
        steps = [b for what, b in rule.parts if what in ("unit", "not")] + [Fraction(1), Fraction(1, 10**9)]
        unit = Fraction(1)
        for _, b in (p for p in rule.parts if p[0] == "unit"):
            unit = lcm(unit, b)
        near += [b // unit * unit for b in near]
        steps += [k * unit for k in range(1, 40)]
        return any(rule.holds(b + k) or rule.holds(b - k) for b in near for k in [0, *steps])

    def test_walks_end_and_prefixes_are_alive(self):
        rules = [random_rule(self.random, self.random.choice([1, 2, 4, 12, 30])) for _ in range(250)]
        commands = [line for rule in rules for line in (rule.command(), *(f"walk {s}" for s in range(8)))]
        answers = iter(ask(commands))
        for rule in rules:
            state = next(answers)
            for walk in [next(answers) for _ in range(8)]:
                if state == "empty":
                    self.assertEqual(walk, "stuck ", rule.words)
                    continue
                text, _, got = walk.partition(" ")
                self.assertEqual((text, got), (text, marks(rule, text)), rule.words)

    def test_texts_of_values(self):
        """Multiples in the range, spelled with and without zeros: accepted or dead as they should be."""
        rules = [random_rule(self.random, self.random.choice([1, 3, 10])) for _ in range(250)]
        commands, wanted = [], []
        for rule in rules:
            commands.append(rule.command())
            wanted.append(None)
            for _ in range(8):
                _, base = self.random.choice(rule.parts or [("", Fraction(5))])
                unit = value(self.random.choice(UNITS))
                x = base // unit * unit + unit * self.random.randint(-3, 3)
                n = places(x)
                text = f"{'-' if x < 0 else ''}{abs(int(x))}"
                if n:
                    text += "." + str(abs(x - int(x)) * 10**n).rjust(n, "0")
                if self.random.random() < 0.3:
                    text += ("" if n else ".") + "0"
                commands.append("text " + text)
                wanted.append((rule, text, marks(rule, text)))
        for want, got in zip(wanted, ask(commands)):
            if want:
                rule, text, mark = want
                if rule.allows(text):
                    self.assertEqual(got, mark, (rule.words, text))
                else:
                    self.assertNotEqual(got[-1:], "#", (rule.words, text))
                    self.assertEqual(got[:-1], mark[: max(len(got) - 1, 0)], (rule.words, text))

    def test_complement(self):
        rules = [random_rule(self.random, 2) for _ in range(150)]
        commands, wanted = [], []
        for rule in rules:
            commands.append(rule.command())
            wanted.append(None)
            for _ in range(10):
                x = decimal(self.random, 2)
                commands.append("holds " + x)
                inside = rule.holds(value(x))
                wanted.append((rule, x, f"{int(inside)} {int(not inside)}"))
        for want, got in zip(wanted, ask(commands)):
            if want:
                self.assertEqual(got, want[2], (want[0].words, want[1]))

    def test_refusals(self):
        answers = ask([
            "rule unit 99999999999999999 unit 99999999999999998", "rule unit 1e17", "rule unit 2e17",
            "rule unit 1e-20 unit 5", "rule unit 0", "rule unit -1", "rule unit 1e-64",
            "rule " + " ".join(f"not {n}" for n in (2, 3, 5, 7, 11, 13, 17, 19)),
            "rule " + " ".join(f"not {n}" for n in (2, 3, 5, 7, 11, 13, 17, 19, 23)),
            "rule not 2 not 4 not 6 not 8 not 10 not 12 not 14 not 16 not 18",
            "rule lo 2 hi 10 unit 1 not 2 not 3 not 5 not 7", "rule lo 2 hi 11 unit 1 not 2 not 3 not 5 not 7",
            "rule lo 1e64", "rule lo 1e63 unit 1", "rule hi 1e5000", "rule xlo 0 hi 1e-70", "rule xlo 0 xhi 1e-63",
        ])  # fmt: skip
        self.assertEqual(answers, [
            "refused", "live", "refused", "live", "refused", "refused", "refused", "live", "refused", "live",
            "empty", "live", "live", "live", "live", "live", "live",
        ])  # fmt: skip

    def test_jacobsthal(self):
        """The longest run of integers that 8 primes cover has 33 members; the search sees beyond it."""
        primes = (2, 3, 5, 7, 11, 13, 17, 19)
        run = first = 0
        for n in range(1, 9699690):
            if all(n % p for p in primes):
                if n - first - 1 > run:
                    run, start = n - first - 1, first + 1
                    if run == 33:
                        break
                first = n
        nots = " ".join(f"not {p}" for p in primes)
        self.assertEqual(run, 33)
        self.assertEqual(
            ask([f"rule unit 1 lo {start} hi {start + 32} {nots}", f"rule unit 1 lo {start} hi {start + 33} {nots}"]),
            ["empty", "live"],
        )


if __name__ == "__main__":
    unittest.main()
