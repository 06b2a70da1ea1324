"""Grammars against an oracle: random grammars, whose texts up to a length are found by filling in rules
until nothing changes. Every text of few letters must be accepted, alive or dead as there; equal signatures
must stand for equal futures. And what the recognizer of formats says of a table of texts."""

import os
import random
import subprocess
import unittest

PROG = os.path.join(os.environ.get("BUILD", "build"), "tests/prog_grammar")
LETTERS, SHORT, LONG = "ab", 4, 9


def ask(commands: list[str]) -> list[str]:
    done = subprocess.run([PROG, "--obey"], input="\n".join(commands) + "\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def hexed(text) -> str:
    return (text if isinstance(text, bytes) else text.encode()).hex()


# ---- random grammars: trees of ("word", text), ("set", letters), ("call", rule), ("join", parts),
# ("pick", parts), ("loop", part, least, most or None) ---------------------------------------------


def random_part(r: random.Random, rules: list[str], depth: int):
    kind = r.choice(["word", "set", "call", "call"] if depth == 0 else ["word", "call", "join", "join", "pick", "loop"])
    if kind == "word":
        return "word", "".join(r.choice(LETTERS) for _ in range(r.choice([0, 1, 1, 1, 2])))
    if kind == "set":
        return "set", r.choice(["a", "b", "ab"])
    if kind == "call":
        return "call", r.choice(rules)
    if kind == "loop":
        least = r.choice([0, 0, 1, 2])
        return "loop", random_part(r, rules, depth - 1), least, r.choice([None, least, least + 1, least + 2])
    return kind, [random_part(r, rules, depth - 1) for _ in range(r.randint(2, 3))]


def random_rule(r: random.Random, rules: list[str], name: str):
    """A third call themselves at an end of each alternative; of those, a third at both."""
    part, itself = random_part(r, rules, 3), ("call", name)
    if r.random() > 0.35:
        return part
    side = r.choice([1, -1, 0])
    alternatives = [("join", [random_part(r, rules, 1), itself][::side] if side else r.choice([[itself, itself], [itself, random_part(r, rules, 1), itself]]))
                    for _ in range(r.randint(1, 2))]  # fmt: skip
    return "pick", [*alternatives, random_part(r, rules, 1), *r.choice([[], [itself]])]


def random_grammar(r: random.Random) -> dict:
    rules = ["root", "x", "y", "z-1"][: r.randint(1, 4)]
    return {name: random_rule(r, rules, name) for name in rules}


def spell(part) -> str:
    kind = part[0]
    if kind == "word":
        return f'"{part[1]}"'
    if kind == "set":
        return f"[{part[1]}]"
    if kind == "call":
        return part[1]
    if kind == "join":
        return "(" + " ".join(map(spell, part[1])) + ")"
    if kind == "pick":
        return "(" + " | ".join(map(spell, part[1])) + ")"
    least, most = part[2:]
    times = {(0, None): "*", (1, None): "+", (0, 1): "?", (least, least): f"{{{least}}}"}
    return "(" + spell(part[1]) + ")" + times.get((least, most), f"{{{least},{'' if most is None else most}}}")


def join(a: set, b: set) -> set:
    return {x + y for x in a for y in b if len(x) + len(y) <= LONG}


def texts_of(part, known: dict) -> set:
    """Texts of a part up to LONG letters, from what is known of the rules."""
    kind = part[0]
    if kind == "word":
        return {part[1]}
    if kind == "set":
        return set(part[1])
    if kind == "call":
        return known[part[1]]
    if kind == "pick":
        return set().union(*(texts_of(p, known) for p in part[1]))
    if kind == "join":
        out = {""}
        for p in part[1]:
            out = join(out, texts_of(p, known))
        return out
    one, least, most = texts_of(part[1], known), *part[2:]
    power, out = {""}, set()
    for n in range((LONG + least if most is None else most) + 1):
        if n >= least:
            if power <= out:
                break
            out |= power
        power = join(power, one)
    return out


def solve(grammar: dict) -> set | None:
    """None: too many texts for this oracle."""
    known = {name: set() for name in grammar}
    while True:
        more = {name: texts_of(part, known) for name, part in grammar.items()}
        if sum(map(len, more.values())) > 3000:
            return None
        if more == known:
            return known["root"]
        known = more


def ends(part, text: str, at: int, known: dict) -> set:
    """Where a part can end that begins at `at`."""
    kind = part[0]
    if kind == "word":
        return {at + len(part[1])} if text.startswith(part[1], at) else set()
    if kind == "set":
        return {at + 1} if text[at : at + 1] and text[at] in part[1] else set()
    if kind == "call":
        return known.get((part[1], at), set())
    if kind == "pick":
        return set().union(*(ends(p, text, at, known) for p in part[1]))
    if kind == "join":
        out = {at}
        for p in part[1]:
            out = set().union(*(ends(p, text, i, known) for i in out))
        return out
    least, most = part[2:]
    now, out = {at}, {at} if least == 0 else set()
    for n in range(1, (len(text) + least + 1 if most is None else most) + 1):
        now = set().union(*(ends(part[1], text, i, known) for i in now))
        if n >= least:
            out |= now
    return out


def has_text(part, known: set) -> bool:
    kind = part[0]
    if kind == "call":
        return part[1] in known
    if kind == "loop":
        return part[2] == 0 or has_text(part[1], known)
    return kind in ("word", "set") or (all if kind == "join" else any)(has_text(p, known) for p in part[1])


def goes_on(part, text: str, at: int, known: dict, begun: set, good: set) -> bool:
    """Can a text of the part that begins at `at` reach beyond the end?"""
    kind = part[0]
    if kind == "word":
        return len(text) - at < len(part[1]) and part[1].startswith(text[at:])
    if kind == "set":
        return at == len(text)
    if kind == "call":
        return (part[1], at) in begun
    if kind == "pick":
        return any(goes_on(p, text, at, known, begun, good) for p in part[1])
    if kind == "join":
        places = {at}
        for n, p in enumerate(part[1]):
            rest = all(has_text(q, good) for q in part[1][n + 1 :])
            if rest and any(goes_on(p, text, i, known, begun, good) for i in places):
                return True
            places = set().union(*(ends(p, text, i, known) for i in places))
        return False
    places, most = {at}, len(text) + part[2] + 1 if part[3] is None else part[3]
    for _ in range(most):
        if any(goes_on(part[1], text, i, known, begun, good) for i in places):
            return True
        places = set().union(*(ends(part[1], text, i, known) for i in places))
    return False


def is_alive(grammar: dict, text: str) -> bool:
    """Is it the beginning of a longer text? By least fixed points, as the rest here."""
    good, known, begun = set(), {}, set()
    while (more := {name for name, part in grammar.items() if has_text(part, good)}) != good:
        good = more
    items = [(name, part, i) for name, part in grammar.items() for i in range(len(text) + 1)]
    while (more := {(name, i): ends(part, text, i, known) for name, part, i in items}) != known:
        known = more
    while (more := {(n, i) for n, part, i in items if goes_on(part, text, i, known, begun, good)}) != begun:
        begun = more
    return ("root", 0) in begun


class GrammarStrings(unittest.TestCase):
    maxDiff = 2000

    def test_random_grammars(self):
        r = random.Random(int(os.environ.get("SEED", "13")))
        cases = []
        while len(cases) < int(os.environ.get("GRAMMARS", "150")):
            g = random_grammar(r)
            texts = solve(g)
            if texts is not None:
                cases.append((g, "\n".join(f"{name} ::= {spell(part)}" for name, part in g.items()) + "\n", texts))
        statuses = ask(["grammar " + hexed(text) for _, text, _ in cases])
        for case, status in zip(cases, statuses):
            with self.subTest(grammar=case[1]):
                if status != "ok":
                    self.assertRegex(status, "no text matches")
                    self.assertEqual(case[2], set())
        cases = [case for case, status in zip(cases, statuses) if status == "ok"]
        longest = [max(texts, key=len, default="") for _, _, texts in cases]
        answers = ask([
            line for (_, text, _), long in zip(cases, longest)
            for line in ("grammar " + hexed(text), f"all {LETTERS} {SHORT}", "text " + hexed(long))
        ])  # fmt: skip
        for (g, text, texts), long, answer, marks in zip(cases, longest, answers[1::3], answers[2::3]):
            with self.subTest(grammar=text):
                if texts:
                    self.assertEqual(marks, "".join(".#"[long[:n] in texts] for n in range(len(long) + 1)))
                for x in self.compare(texts, answer.split(" ")[:-1]):
                    self.assertTrue(is_alive(g, x), x)

    def compare(self, texts: set, alive: list[str]) -> list[str]:
        """Returns what is alive and has no end among the texts: its ends may be longer than LONG."""
        mark, futures = {}, {}
        for word in alive:
            at = max(word.rfind("#"), word.rfind("."))
            text, mark[word[:at]] = word[:at], word[at]
            rest = frozenset(t[len(text) :] for t in texts if t.startswith(text) and len(t) - len(text) <= LONG - SHORT)
            self.assertEqual(futures.setdefault(word[at + 1 :], rest), rest, "equal signatures, other futures")
        self.assertEqual({t for t, m in mark.items() if m == "#"}, {t for t in texts if len(t) <= SHORT})
        prefixes = {t[:n] for t in texts for n in range(min(len(t), SHORT) + 1)}
        self.assertEqual(prefixes - mark.keys(), set(), "dead too early")
        return sorted(mark.keys() - prefixes)


if __name__ == "__main__":
    unittest.main()
