"""Guesses of the model's own layer (--mtp) in the programs run and bench: the text stays, the figures agree, other models are refused."""

import csv
import io
import json
import os
import re
import subprocess
import unittest
from pathlib import Path

from cli_case import Cli, write_guesser

BENCH = os.environ.get("BENCH", "./bench")
QUANTIZE = os.environ.get("QUANTIZE", "./quantize")


class Mtp(Cli):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.guesser = str(cls.dir / "guesser.bin")
        write_guesser(Path(cls.guesser))

    def bench(self, *args) -> subprocess.CompletedProcess:
        return subprocess.run([BENCH, *map(str, args)], capture_output=True, timeout=300, text=True)

    def test_guesses_change_nothing(self):
        free = ["--temp", 3, "--top-k", 0, "--top-p", 1, "--min-p", 0]  # the first guess is wrong
        for choice in (["--greedy"], ["-s", 4], ["-s", 3, "-t", 1, *free]):
            args = [self.guesser, "The cat", *choice, "-n", 100, "--ignore-eos", "-q", "--fingerprint"]
            plain = self.run_it(*args)
            for more in (["--mtp"], ["--mtp=1"], ["--mtp=8", "--lookup"]):
                done = self.run_it(*args, *more)
                self.assertEqual((done.stdout, done.stderr), (plain.stdout, plain.stderr), more)

    def test_statistics(self):
        """The first guesses are tried whatever the clock says."""
        args = [self.guesser, "The cat", "--greedy", "-n", 100, "--ignore-eos", "--mtp"]
        table = self.run_it(*args, "-v").stderr.decode()
        tried, right, steps = map(int, re.search(r"(?m)^guesses tried: +(\d+) token\(s\), (\d+) right\nsteps: +(\d+)$", table).groups())
        self.assertGreater(tried, 0)
        self.assertEqual((right, steps + right), (tried, 99))
        self.assertRegex(self.run_it(*args).stderr.decode(), r"; guesses [1-9]\d* of [1-9]\d* right")
        self.assertNotIn("guesses", self.run_it(*args[:-1], "-v").stderr.decode())

    def test_session_and_chat(self):
        """A session is read and written with and without guesses, and so is a conversation."""
        args = [self.guesser, "--greedy", "-n", 40, "--ignore-eos", "-q", "--session"]
        both = [
            [self.good(*args, self.dir / f"session{i}", *prompt, *mtp) for prompt, mtp in zip((["The cat"], [], []), guesses, strict=True)]
            for i, guesses in enumerate((([], [], []), (["--mtp"], [], ["--mtp"])))
        ]
        self.assertEqual(*both)
        turns = [self.good(self.guesser, "--chat", "--chat-template", "zephyr", "--greedy", "-n", 30, "-q", *mtp, stdin=b"one\ntwo\n")
                 for mtp in ([], ["--mtp"])]  # fmt: skip
        self.assertEqual(*turns)
        self.assertGreater(len(turns[0]), 40)

    def test_quantized(self):
        """Quantized, also with a calibration text, the layer still guesses what the model says."""
        prompt = self.dir / "text.txt"
        prompt.write_text("The cat sat on the mat. " * 40)
        for kind, *more in (("q8",), ("q4c", "--calibrate", prompt)):
            file = self.dir / f"guesser-{kind}.bin"
            done = subprocess.run([QUANTIZE, self.guesser, file, kind, *more], capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout + done.stderr, rf"layer\.2\.(mtp_in|gate).* {kind}")
            args = [file, "The cat", "--greedy", "-n", 60, "--ignore-eos", "-q"]
            self.assertEqual(self.good(*args, "--mtp"), self.good(*args))
            self.assertRegex(self.run_it(*args[:-1], "--mtp").stderr.decode(), r"; guesses [1-9]\d* of [1-9]\d* right")

    def test_other_models_are_refused(self):
        self.assertIn(f"{self.model} has no layer that guesses (MTP)", self.bad(2, self.model, "x", "--mtp"))
        self.assertIn("from 1 to 8", self.bad(2, self.guesser, "x", "--mtp=9"))
        self.assertIn("guesses     a layer more, for --mtp\n", self.good(self.guesser, "--info").decode())
        self.assertNotIn("--mtp", self.good(self.model, "--info").decode())
        for args, want in (
            ([self.model, "--mtp", 2], f"{self.model} has no layer that guesses (MTP)"),
            ([self.guesser, "--mtp", 9], "'9' is not a list of numbers from 1 to 8"), ([self.guesser, "-f", "x"], "--file belongs to --mtp"),
            (["--shape", "15m", "--mtp", 2], "--mtp needs a weights file"), ([self.guesser, "--mtp", 1, "-f", "nowhere"], "nowhere"),
        ):  # fmt: skip
            done = self.bench(*args)
            self.assertIn(want, done.stderr)
            self.assertEqual((done.stdout.count("|"), bool(done.returncode)), (0, True), args)

    def test_bench(self):
        """A test of guesses names its figures in every form, and tells the same text as run."""
        prompt = self.dir / "prompt.txt"
        prompt.write_text("The cat")
        args = [self.guesser, "-p", 0, "-n", 40, "-r", 3, "-t", 1, "--no-limits", "--mtp", "1,4", "-f", prompt]
        done = self.bench(*args, "-d", "0,30", "-o", "jsonl", "-oe", "csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(r["n_depth"], r["mtp"], r["n_gen"]) for r in found], [(0, 1, 40), (0, 4, 40), (30, 1, 40), (30, 4, 40)])
        for r, row in zip(found, csv.DictReader(io.StringIO(done.stderr)), strict=True):
            self.assertEqual(row["guesses"], str(r["guesses"]))
            self.assertGreater(r["guesses_right"], 0)
            self.assertLessEqual(r["guesses_right"], r["guesses"])
            steps = 3 * 39 - r["guesses_right"]
            self.assertAlmostEqual(r["tokens_per_step"], 3 * 39 / steps, delta=1e-5)
            self.assertAlmostEqual(r["pct_gain"], 100 * (r["median_ts"] / r["plain_median_ts"] - 1), delta=1e-3)
            self.assertEqual(r["fingerprint_rows"], 40)
        self.assertEqual([found[i]["fingerprint"] == found[i + 1]["fingerprint"] for i in range(3)], [True, False, True])
        text = self.bench(*args).stdout
        self.assertRegex(text, r"\| +tg40 mtp1 \| +[\d.]+ ± [\d.]+ \| +- \|")
        self.assertRegex(text, r"(?m)tg40 mtp4: \d+ of \d+ guesses right \(\d+ %\), \d\.\d\d tokens a step; "
                               r"medians: [\d.]+ t/s with guesses, [\d.]+ without: [+-][\d.]+ %$")  # fmt: skip
        (r,) = (json.loads(line) for line in self.bench(*args[:-4], "--mtp", 2, "--ops", "-o", "jsonl").stdout.splitlines())
        ops = {o["name"]: o for o in r["ops"]}
        self.assertEqual(list(ops)[-2:], ["logits", "guess"])
        self.assertGreater(ops["guess"]["calls"], 10)  # after each step, and for guesses
        self.assertLessEqual(sum(o["seconds"] for o in r["ops"]), 1.001 * r["ops_seconds"])
        plain = json.loads(self.bench(self.guesser, "-p", 0, "-n", 3, "-r", 1, "-t", 1, "--no-limits", "-o", "jsonl").stdout)
        self.assertEqual([plain[name] for name in ("mtp", "guesses", "tokens_per_step", "plain_median_ts", "pct_gain")], [0] * 5)


if __name__ == "__main__":
    unittest.main()
