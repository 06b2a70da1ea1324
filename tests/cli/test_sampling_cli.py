"""Samplers, --logprobs and --jsonl of the program run."""

import json
import math
import re
import shutil
import subprocess
import unittest

from cli_case import RUN, VOCAB, Cli, write_model

WILD = ["--temp", 9, "--top-k", 0, "--top-p", 1, "--min-p", 0]  # every byte comes up, also broken UTF-8


class Sampling(Cli):
    def text(self, *args) -> bytes:
        return self.good(self.model, "ab", "-n", 60, "-q", "--no-echo", "--ignore-eos", "-s", 5, *args)[:-1]

    def test_bias(self):
        self.assertEqual(self.text("-l", "100+1000"), b"a" * 60)
        for more in (["--greedy"], WILD, ["--typical", 0.5], ["--mirostat", 2], ["--dry-multiplier", 9, "--repeat-penalty", 9]):
            self.assertEqual(self.text("--logit-bias", "101+inf", "-l", "102+inf", *more), b"b" * 60)
        self.assertEqual(set(self.text("-l", "100+900", "-l", "101+inf", "-l", "101-inf")), {97})
        self.assertEqual(set(self.text("-l", "100+900", "-l", "101+900", "-l", "100-inf")), {98})
        for bad in ("5", "x+1", "5+", "5+-1", "5+nan", "5-nan", "5+infinity", "5+4e38", "+1", "99999999999+1", "5=1"):
            self.assertIn("42+1.5", self.bad(2, self.model, "x", "-l", bad))
        self.assertIn("vocabulary of 259", self.bad(2, self.model, "x", "-q", "--no-echo", "--jsonl", "-l", "259+1"))

    def test_order(self):
        self.assertEqual(self.text("--samplers", "temperature;top_k", "--top-k", 1), self.text("--greedy"))
        self.assertNotEqual(self.text(*WILD, "--top-k", 1, "--samplers", "temperature"), self.text("--greedy"))
        default = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"
        self.assertEqual(self.text("--samplers", default), self.text())
        for bad in ("top_k;top_k", "top_q", "", ";top_k", "top_k,top_p"):
            self.assertIn("typ_p", self.bad(2, self.model, "x", "--samplers", bad))

    def test_every_option_has_an_effect(self):
        plain = self.text(*WILD)
        for more in (
            ["--typical", 0.2], ["--top-nsigma", 0.1], ["--xtc-probability", 1, "--xtc-threshold", 0.001],
            ["--presence-penalty", 300], ["--frequency-penalty", 300], ["--mirostat", 2, "--mirostat-ent", 1],
            ["--mirostat", 2, "--mirostat-ent", 3, "--mirostat-lr", 1], ["--min-p", 0.9], ["--repeat-penalty", 90],
        ):  # fmt: skip
            self.assertNotEqual(self.text(*WILD, *more), plain, more)
        self.assertEqual(self.text(*WILD, "--mirostat", 0, "--top-nsigma", -1, "--typical", 1), plain)
        self.assertIn("0|2", self.bad(2, self.model, "x", "--mirostat", 1))

    def test_dry(self):
        loop = self.text("-l", "100+90", "--greedy")
        self.assertEqual(loop, b"a" * 60)
        dry = ["-l", "100+90", "--greedy", "--dry-multiplier", 100]
        self.assertNotIn(b"aaaaa", self.text(*dry))
        self.assertIn(b"aaaaaaaaa", self.text(*dry, "--dry-allowed-length", 9))
        self.assertEqual(self.text(*dry, "--dry-penalty-last-n", 2), loop)
        self.assertEqual(self.text(*dry, "--dry-sequence-breaker", "a"), loop)
        self.assertEqual(self.text(*dry, "--dry-sequence-breaker", "aa"), loop)  # of two tokens
        for other in ("none", "zz"):
            self.assertEqual(self.text(*dry, "--dry-sequence-breaker", other), self.text(*dry))
        self.assertIn("at most 64", self.bad(2, self.model, "", "-q", "--dry-sequence-breaker", "x" * 65, "--jsonl"))

    def test_guesses_change_nothing(self):
        args = [self.model, "one two one two one two " * 3, "-s", 4, "-n", 80, "--ignore-eos", "-q", "--fingerprint"]
        for more in (["--mirostat", 2, "--mirostat-ent", 2], ["--dry-multiplier", 0.5, "--temp", 0.3]):
            plain = self.run_it(*args, *more)
            for guess in (["--lookup"], ["--draft", self.model]):
                done = self.run_it(*args, *more, *guess)
                self.assertEqual((done.stdout, done.stderr), (plain.stdout, plain.stderr))


class Growing(Cli):
    def test_a_text_that_outgrows_its_frequencies(self):
        path = self.dir / "grows.bin"
        write_model(path, 256, rope_limit=50)
        args = [path, "0123456789" * 4, "-n", 30, "-s", 1, "--ignore-eos", "--fingerprint"]
        first = self.run_it(*args)
        self.assertIn(b"rope: the text crossed the limit of the model's first frequencies; 50 tokens were evaluated again", first.stderr)
        for more in (["-b", 7], ["--lookup"], ["--draft", path], ["-t", 2], ["--cpu", "ref"]):
            again = self.run_it(*args, *more)
            self.assertEqual(again.stdout, first.stdout)
            self.assertEqual(again.stderr.splitlines()[-1], first.stderr.splitlines()[-1])
        self.assertNotIn(b"rope:", self.run_it(*args[:3], 9).stderr)
        same = {self.good(path, "--perplexity", "LICENSE", "-c", 200, "-b", b) for b in (7, 50, 200)}
        self.assertEqual(len(same), 1)


class Reports(Cli):
    def lines(self, model, *args) -> list[dict]:
        out = self.good(model, "ab", "-q", "--ignore-eos", "--jsonl", *args)
        self.assertEqual(out[-1:], b"\n")
        return [json.loads(line) for line in out.decode("utf-8").splitlines()]

    def own(self, token: int) -> bytes:
        return [b"<unk>", b"<s>", b"</s>"][token] if token < 3 else bytes([token - 3])

    def check_choice(self, c: dict) -> None:
        own = self.own(c["id"])
        try:
            self.assertEqual(c["text"], own.decode("utf-8"))
            self.assertNotIn("bytes", c)
        except UnicodeDecodeError:
            self.fail("bytes that are no text are given as text")
        except KeyError:
            self.assertEqual(bytes(c["bytes"]), own)
            self.assertRaises(UnicodeDecodeError, own.decode, "utf-8")

    def test_objects(self):
        seen = set()
        for seed in range(8):
            args = ["-n", 150, "-s", seed, *WILD]
            *tokens, last = self.lines(self.model, "--logprobs", VOCAB, *args)
            plain = self.good(self.model, "ab", "-q", "--ignore-eos", "--no-echo", *args)[:-1]
            self.assertEqual("".join(t["text"] for t in tokens), plain.decode("utf-8"))
            self.assertEqual([t["index"] for t in tokens], list(range(150)))
            for t in tokens:
                seen.add(t["id"])
                top = t["top"]
                self.assertEqual(sorted(c["id"] for c in top), list(range(VOCAB)))
                self.assertEqual(top, sorted(top, key=lambda c: (-c["logprob"], c["id"])))
                self.assertAlmostEqual(sum(math.exp(c["logprob"]) for c in top), 1, places=5)
                self.assertEqual(t["logprob"], next(c["logprob"] for c in top if c["id"] == t["id"]))
                own = self.own(t["id"])
                self.assertEqual(bytes(t.get("bytes", b"")), b"" if own.isascii() else own)
            for c in tokens[0]["top"]:
                self.check_choice(c)
            self.assertEqual((last["stop"], last["seed"], last["tokens"]), ("length", seed, 150))
            self.assertEqual(last["prompt_tokens"], 3)
        self.assertGreater(len(seen), 250)  # quotes, backslashes, control characters, broken UTF-8

    def test_last_object(self):
        done = self.run_it(self.model, "ab", "-n", 5, "--greedy", "--jsonl", "--fingerprint", "--logprobs", 0)
        *tokens, last = map(json.loads, done.stdout.splitlines())
        self.assertNotIn("top", tokens[0])
        self.assertNotIn("seed", last)
        mark = f"fingerprint: {last['fingerprint']} arith={last['arith']} rows={last['fingerprint_rows']}\n"
        self.assertIn(mark.encode(), done.stderr)
        self.assertRegex(done.stderr, rb"text \d+ tokens, ")
        for name in ("prompt_seconds", "seconds", "prompt_rate", "rate"):
            self.assertGreaterEqual(last[name], 0)
        self.assertEqual([x["tokens"] for x in self.lines(self.model, "-n", 0)], [0])
        self.assertEqual(self.lines(self.model, "-c", 20)[-1]["stop"], "context")
        out = [json.loads(x) for x in self.good("-f", "-", self.model, "-n", 0, "-q", "--jsonl", stdin=b"\xc3").splitlines()]
        self.assertEqual(len(out), 1)

    def test_names(self):
        odd = self.dir / 'a"b\\\n\x01é.bin'
        shutil.copy(self.model, odd)
        self.assertEqual(self.lines(odd, "-n", 1)[-1]["model"], str(odd))
        odd = bytes(self.dir) + b"/\xff\xed\xa0\x80.bin"
        shutil.copy(self.model, odd)
        out = subprocess.run([RUN, odd, "x", "-n", "1", "--jsonl"], capture_output=True, check=True).stdout
        self.assertEqual(json.loads(out.splitlines()[-1])["model"], str(self.dir) + "/" + "\ufffd" * 4 + ".bin")

    def test_stop_strings(self):
        args = [self.model, "x", "--no-echo", "-s", 2, "-n", 200, "--ignore-eos", "-q"]
        full = self.good(*args).decode()[:-1]
        out = self.good(*args, "--jsonl", "--stop", full[40:44])
        *tokens, last = map(json.loads, out.splitlines())
        self.assertEqual(last["stop"], "string")
        self.assertEqual("".join(t["text"] for t in tokens), full[: full.index(full[40:44])])

    def test_end_token_is_told(self):
        out = self.good(self.model, "x", "-q", "-n", 3, "-l", "2+9999", "--jsonl")
        token, last = map(json.loads, out.splitlines())
        self.assertEqual((token["id"], token["text"], last["stop"]), (2, "", "end"))

    def test_lines_for_people(self):
        args = [self.model, "ab", "-n", 7, "-s", 3, "--ignore-eos", "-q"]
        done = self.run_it(*args, "--logprobs", 2)
        self.assertEqual(done.stdout, self.good(*args))
        lines = done.stderr.decode("utf-8").splitlines()
        self.assertEqual(len(lines), 7)
        want = self.lines(self.model, "-n", 7, "-s", 3, "--logprobs", 2)
        for i, line in enumerate(lines):
            found = re.findall(r'(\d+) "((?:[^"\\]|\\.)*)" (-?\d+\.\d{4})', line)
            self.assertEqual(line.split(":")[0], str(i))
            self.assertEqual([int(f[0]) for f in found], [want[i]["id"], *(c["id"] for c in want[i]["top"])])
            self.assertAlmostEqual(float(found[0][2]), want[i]["logprob"], places=4)


if __name__ == "__main__":
    unittest.main()
