"""run --perplexity in its three ways, on a toy."""

import re
import unittest

from cli_case import Cli


class Perplexity(Cli):
    def measure(self, *args, text: bytes) -> dict[str, float]:
        file = self.dir / "text.txt"
        file.write_bytes(text)
        out = self.good(self.model, *[file if a is None else a for a in args], "--cache-type", "f32").decode()
        return {m[1]: float(m[2]) for m in re.finditer(r"(?m)^(\S+) +([\d.]+)", out)}

    def test_windows(self):
        text = b"some words of a text " * 30  # 630 tokens
        one = self.measure("--perplexity", None, "-c", 64, text=text[:60])
        line = self.measure("--perplexity-lines", None, text=text[:60])
        self.assertEqual(one["nll"], line["nll"])
        self.assertEqual(one["tokens"], 60)
        self.assertAlmostEqual(one["bits/token"], one["bits/byte"])
        self.assertAlmostEqual(one["bits/token"], one["nll"] / 60 / 0.69314718, places=3)
        self.assertAlmostEqual(one["perplexity"] / 2 ** one["bits/token"], 1, places=3)
        for c, stride in ((64, None), (64, 1), (64, 63), (17, 5), (4, 3), (256, None), (250, 100)):
            more = [] if stride is None else ["--stride", stride]
            got = self.measure("--perplexity", None, "-c", c, *more, text=text)
            self.assertEqual(got["tokens"], 630, (c, stride))
            self.assertEqual(got["window"], c)
        # windows that do not overlap are lines of 63 bytes
        cut = b"\n".join(text[i : i + 63] for i in range(0, 630, 63))
        lines = self.measure("--perplexity-lines", None, text=cut + b"\n\n")
        windows = self.measure("--perplexity", None, "-c", 64, "--stride", 63, text=text)
        self.assertEqual(lines["nll"], windows["nll"])
        small = self.measure("--perplexity", None, "-c", 64, "--stride", 63, "-b", 5, text=text)
        self.assertEqual(small["nll"], windows["nll"])

    def test_the_token_chosen_is_the_most_probable(self):
        for prompt in "abcdefghijklmnopqrstuvwxyz":
            best = self.good(self.model, prompt, "-n", 1, "-q", "--no-echo", "--greedy", "--cache-type", "f32")[:-1]
            if len(best) == 1 and best.decode().isprintable():
                break
        tried = sorted({best.decode(), *"etaoin shrdlu ETAOIN SHRDLU 0123456789"})
        nll = {c: self.measure("--perplexity-lines", None, text=(prompt + c).encode())["nll"] for c in tried}
        self.assertEqual(min(nll, key=nll.get), best.decode())

    def test_lines_are_cut_at_the_context(self):
        got = self.measure("--perplexity-lines", None, "-c", 32, text=b"a" * 100 + b"\n\nbb")
        self.assertEqual(got["tokens"], 31 + 2)
        self.assertAlmostEqual(got["bits/byte"] * 33, got["nll"] / 0.69314718, delta=0.01)

    def test_llamacpp(self):
        got = self.measure("--perplexity-llamacpp", None, "-c", 64, text=b"abcdefg " * 100 + b"\n")
        self.assertEqual(got["tokens"], 801 // 64 * 31)
        done = self.run_it(self.model, "--perplexity-llamacpp", self.dir / "text.txt")  # window 256
        self.assertEqual(done.returncode, 0)
        text = self.bad(6, self.model, "--perplexity-llamacpp", "-", stdin=b"abc")
        self.assertIn("512", text)

    def test_refusals(self):
        self.bad(6, self.model, "--perplexity", "-", stdin=b"")
        self.bad(6, self.model, "--perplexity-lines", "-", stdin=b"\n\n")
        self.bad(4, self.model, "--perplexity", self.dir / "missing")
        self.bad(2, self.model, "--perplexity", "-", "-c", 3, stdin=b"abc")
        self.bad(2, self.model, "--perplexity", "-", "-c", 64, "--stride", 64, stdin=b"abc")
        self.bad(2, self.model, "--stride", 64)


if __name__ == "__main__":
    unittest.main()
