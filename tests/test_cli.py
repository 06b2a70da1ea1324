"""The program run, driven as people drive it, on toy models made here: options, streams, signals."""

import fcntl
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from ternlib import keys, tiles, toy, toyfile, weights  # noqa: E402

RUN = os.environ.get("RUN", "./run")
MAN = ROOT / "src/app/tern.1"
VOCAB = 259


def tokenizer_section() -> bytes:
    """<unk>, BOS, EOS and the 256 bytes: byte b is token b + 3, every text comes back as it was."""
    tokens = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % b for b in range(256)]
    return keys.pack({
        "kind": "spm",
        "tokens.bytes": b"".join(tokens),
        "tokens.lengths": keys.U32s([len(t) for t in tokens]),
        "tokens.types": bytes([2, 3, 3] + [6] * 256),
        "scores": [0.0] * VOCAB,
        "byte_fallback": 1,
        "unk": 0,
        "bos": 1,
        "eos": 2,
        "add.before": keys.U32s([1]),
        "decoder.0": "byte_fallback",
    })


def write_model(path: Path, max_seq: int, norm: float | None = None) -> None:
    """A toy with the tokenizer above; `norm`: value of every weight of the final norm."""
    config = {
        "n_layers": 2, "dim": 64, "vocab": VOCAB, "max_seq": max_seq, "norm_eps": 1e-5,
        "head_tied": 1, "n_heads": 4, "n_kv_heads": 2, "head_dim": 16, "hidden": 160,
        "window": [0, 0], "attn_bias": 0, "ffn_bias": 0,
    }  # fmt: skip

    def entry(name: str, shape: tuple[int, ...]) -> weights.Tensor:
        rows, k = shape if len(shape) == 2 else (shape[0], 1)
        values = toy.values(name, shape, 5).reshape(rows, k)
        if norm is not None and name == "final_norm":
            values = values * 0 + values.dtype.type(norm)
        pieces = [tiles.tile(tiles.F32, toyfile.encode(tiles.F32, values))]
        return weights.Tensor(name, tiles.F32, rows, k, lambda: iter(pieces))

    sections = {
        "config": keys.pack(toyfile.config_keys(config)),
        "tokenizer": tokenizer_section(),
        "provenance": keys.pack({"name": "toy", "licence": "first\nsecond \x1b[31m line"}),
        "seal": weights.blank_seal(),
    }
    with open(path, "w+b") as out:
        weights.write(out, sections, [entry(*item) for item in toy.shapes(config).items()])


class Cli(unittest.TestCase):
    """Runs the program; stdin is empty unless given."""

    @classmethod
    def setUpClass(cls):
        cls.dir = Path(tempfile.mkdtemp(prefix="tern-cli-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.model = str(cls.dir / "toy.bin")
        cls.long = str(cls.dir / "long.bin")
        write_model(Path(cls.model), 256)
        write_model(Path(cls.long), 65536)

    def run_it(self, *args, stdin=b"", **more) -> subprocess.CompletedProcess:
        return subprocess.run(
            [RUN, *map(str, args)], input=stdin, capture_output=True, timeout=120, **more
        )

    def good(self, *args, **more) -> bytes:
        done = self.run_it(*args, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def bad(self, code: int, *args, **more) -> str:
        """Ends with `code`, writes nothing to stdout and one line to stderr, which is returned."""
        done = self.run_it(*args, **more)
        text = done.stderr.decode()
        self.assertEqual(done.returncode, code, f"{args}: {text}")
        self.assertEqual(done.stdout, b"")
        self.assertRegex(text, r"\Arun: [^\n]+\n\Z")
        return text

    def start(self, *args, **more) -> subprocess.Popen:
        p = subprocess.Popen(
            [RUN, *map(str, args)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
            **{"stdout": subprocess.PIPE, **more},
        )  # fmt: skip
        self.addCleanup(self.reap, p)
        return p

    @staticmethod
    def reap(p: subprocess.Popen) -> None:
        if p.poll() is None:
            p.kill()
        p.wait()
        for f in (p.stdout, p.stderr):
            if f:
                f.close()


class Text(Cli):
    def test_prompt_and_continuation(self):
        full = self.good(self.model, "The cat sat", "-s", 1, "-n", 20, "--ignore-eos")
        tail = self.good(self.model, "The cat sat", "-s", 1, "-n", 20, "--ignore-eos", "--no-echo")
        self.assertEqual(full, b"The cat sat" + tail)
        self.assertGreater(len(tail), 10)
        self.assertEqual(tail[-1:], b"\n")
        full.decode("utf-8")

    def test_every_way_to_give_a_prompt(self):
        file = self.dir / "prompt.txt"
        file.write_bytes(b"The cat")
        common = ["-s", 3, "-n", 9, "-q"]
        want = self.good(self.model, "The cat", *common)
        for args in (
            ["-p", "The cat", self.model], ["--prompt=The cat", self.model], ["-m", self.model, "The cat"],
            ["-pThe cat", "--model", self.model], ["-f", file, self.model], [self.model, "--", "The cat"],
        ):  # fmt: skip
            self.assertEqual(self.good(*args, *(common if "--" not in args else [])) if "--" not in args
                             else self.good(*common, *args), want)  # fmt: skip
        for args in ([self.model, "-"], ["-f", "-", self.model], [self.model, "--file=-"]):
            self.assertEqual(self.good(*args, *common, stdin=b"The cat"), want)

    def test_stdin_is_read_only_when_asked(self):
        read, write = os.pipe()
        p = self.start(self.model, "x", "-n", 3, "-q")
        self.assertEqual(p.wait(20), 0)
        p = subprocess.Popen([RUN, self.model, "x", "-n", "3", "-q"], stdin=read, stdout=subprocess.DEVNULL)
        self.assertEqual(p.wait(20), 0)  # it would wait for ever
        os.close(read)
        os.close(write)

    def test_odd_prompts(self):
        for text in (b"a\x00b\xff\xfe \xc3", "ж🙂\r\n\t".encode(), b"\n", b"-" * 200):
            out = self.good("-f", "-", self.model, "-n", 0, "-q", stdin=text)
            self.assertEqual(out, text + b"\n")
        out = subprocess.run([RUN, self.model, b"\xff\xfe", "-n", "0", "-q"], capture_output=True)
        self.assertEqual(out.stdout, b"\xff\xfe\n")
        empty = self.good(self.model, "", "-s", 1, "-n", 8, "-q")
        self.assertEqual(empty, self.good(self.model, "-s", 1, "-n", 8, "-q"))
        self.assertGreater(len(empty), 4)

    def test_text_is_the_same_whatever_the_machine(self):
        args = [self.model, "one two three four five six", "-s", 5, "-n", 60, "--fingerprint"]
        first = self.run_it(*args)
        mark = re.search(rb"fingerprint: [0-9a-f]{16} arith=1 rows=\d+\n", first.stderr)[0]
        for more in (["-t", 1], ["-t", 3], ["-b", 1], ["-b", 7], ["--cpu", "ref"], ["-c", 100]):
            again = self.run_it(*args, *more)
            self.assertEqual(again.stdout, first.stdout, more)
            self.assertIn(mark, again.stderr, more)

    def test_fingerprint_rows(self):
        done = self.run_it(self.model, "abcd", "-n", 6, "--fingerprint=all", "-q", "--ignore-eos")
        self.assertRegex(done.stderr, rb"\Afingerprint: [0-9a-f]{16} arith=1 rows=10\n\Z")
        done = self.run_it(self.model, "abcd", "-n", 6, "--fingerprint", "-q", "--ignore-eos")
        self.assertRegex(done.stderr, rb"\Afingerprint: [0-9a-f]{16} arith=1 rows=6\n\Z")
        done = self.run_it(self.model, "ab" * 60, "-n", 1, "--fingerprint=all", "-q")
        self.assertRegex(done.stderr, rb" rows=121\n\Z")

    def test_seeds(self):
        flat = [self.model, "x", "-n", 40, "--temp", 9, "--top-k", 0, "--top-p", 1, "--min-p", 0]
        texts = {self.good(*flat, "-q", "-s", s) for s in range(10)}
        self.assertEqual(len(texts), 10)
        done = self.run_it(*flat)
        seed = re.search(rb"seed (\d+)\n", done.stderr)[1].decode()
        self.assertEqual(self.good(*flat, "-s", seed), done.stdout)
        self.assertNotEqual(self.run_it(*flat).stdout, done.stdout)

    def test_sampling_options(self):
        greedy = self.good(self.model, "x", "-n", 30, "-q", "--greedy")
        for same in (["--temp", 0], ["--temperature=0"], ["--top-k", 1], ["--top-p", 0], ["--min-p", 1]):
            self.assertEqual(self.good(self.model, "x", "-n", 30, "-q", *same), greedy, same)
        done = self.run_it(self.model, "x", "-n", 3, "--greedy")
        self.assertNotIn(b"seed", done.stderr)
        loop = self.good(self.model, "x", "-n", 200, "-q", "--greedy", "--ignore-eos")
        free = self.good(
            self.model, "x", "-n", 200, "-q", "--greedy", "--ignore-eos", "--repeat-penalty", 3,
            "--repeat-last-n", 300,
        )  # fmt: skip
        self.assertNotEqual(loop, free)

    def test_stop_strings(self):
        args = [self.model, "x", "--no-echo", "-s", 2, "-n", 200, "--ignore-eos", "-q"]
        full = self.good(*args).decode()[:-1]
        self.assertGreater(len(full), 100)
        for at in (5, 40, 90):
            stop = full[at : at + 4]
            got = self.good(*args, "--stop", stop).decode()[:-1]
            self.assertEqual(got, full[: full.index(stop)])
            got = self.good(*args, "-r", "not there", "-r", stop, "--stop=nor this").decode()[:-1]
            self.assertEqual(got, full[: full.index(stop)])
        self.assertEqual(self.good(*args, "--stop", full[-3:] + "..").decode()[:-1], full)

    def test_end_token_and_lengths(self):
        done = self.run_it(self.model, "x", "-s", 4)  # 256 positions
        self.assertEqual(done.returncode, 0)
        done = self.run_it(self.model, "x", "-s", 4, "--ignore-eos")
        self.assertRegex(done.stderr.decode(), r"context: all 256 positions are full")
        done = self.run_it(self.model, "x", "-c", 20, "--ignore-eos", "-v")
        self.assertRegex(done.stderr.decode(), r"eval count: +19 token\(s\)\n(.*\n)*ended by: +full context")
        done = self.run_it(self.model, "x" * 19, "-c", 20, "--ignore-eos", "-v")
        self.assertRegex(done.stderr.decode(), r"eval count: +1 token\(s\)\n(.*\n)*ended by: +full context")
        done = self.run_it(self.model, "x", "-c", 257, "-n", 1)
        self.assertRegex(done.stderr.decode(), r"\Acontext: 257 positions, but the model was made for 256\n")
        for n, alias in ((0, "-n"), (1, "--predict"), (17, "--max-new-tokens")):
            done = self.run_it(self.model, "x", alias, n, "--ignore-eos", "-v")
            self.assertRegex(done.stderr.decode(), rf"\neval count: +{n} token\(s\)\n")

    def test_long_prompt_is_refused(self):
        text = self.bad(6, self.model, "x" * 300)
        self.assertIn("301 tokens", text)
        self.assertIn("256", text)
        self.assertIn("-c", text)
        text = self.bad(6, "-f", "-", self.model, stdin=b"word " * 200000)
        self.assertIn("1000001 tokens", text)
        self.assertIn("21 tokens", self.bad(6, self.model, "x" * 20, "-c", 20))
        self.good(self.model, "x" * 19, "-c", 20)

    def test_not_finite(self):
        path = self.dir / "big.bin"
        write_model(path, 64, norm=3e38)
        done = self.run_it(path, "x", "-n", 5)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn(b"finite", done.stderr)


class Reports(Cli):
    def test_statistics(self):
        done = self.run_it(self.model, "abc", "-n", 5, "--ignore-eos", "-s", 9)
        self.assertRegex(
            done.stderr.decode(),
            r"\Aprompt 4 tokens, [\d.]+/s; text 5 tokens, [\d.]+/s, [\d.]+ GB/s; memory [\d.]+ [KM]iB; seed 9\n\Z",
        )
        self.assertEqual(self.run_it(self.model, "abc", "-n", 5, "-q").stderr, b"")
        text = self.run_it(self.model, "abc", "-n", 5, "--ignore-eos", "-v").stderr.decode()
        for line in (
            r"machine: \w+, \d+ thread", r"memory: weights .* available", r"total duration: +\S+",
            r"load duration: +\S+", r"prompt eval count: +4 token\(s\)", r"prompt eval duration: +\S+",
            r"prompt eval rate: +[\d.]+ tokens/s", r"eval count: +5 token\(s\)", r"eval duration: +\S+",
            r"eval rate: +[\d.]+ tokens/s", r"weights read: +[\d.]+ GB/s", r"seed: +\d+",
        ):  # fmt: skip
            self.assertRegex(text, rf"(?m)^{line}")

    def test_help(self):
        text = self.good("--help").decode()
        self.assertEqual(text, self.good("-h").decode())
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        man = MAN.read_text()
        names = re.findall(r"--[a-z][a-z0-9-]*", text)
        self.assertGreater(len(set(names)), 40)
        for name in names:
            if name != "--help lists":
                self.assertRegex(man, rf"(Fl |, )-{name[2:]}\b|Fl -{name[2:]} ,", name)
        for letter, name in re.findall(r"(?m)^  -(\w), --([a-z-]+)", text):
            self.assertRegex(man, rf"\.It Fl {letter} , Fl -{name}\b")
        for name in re.findall(r"(?m)^\.It Fl (?:\w , Fl )?-([a-z][a-z0-9-]*)", man):
            self.assertIn("--" + name, names)
        self.assertIn("--top-p 0.9", self.good("--help-llama2c").decode())
        self.assertLessEqual(max(map(len, self.good("--help-llama2c").decode().splitlines())), 80)

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_man_page(self):
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", MAN], capture_output=True)
        self.assertEqual(done.stdout + done.stderr, b"")

    def test_version(self):
        header = (ROOT / "include/tern.h").read_text()
        version = re.search(r'TERN_VERSION "(.*)"', header)[1]
        self.assertIn(version, self.good("--version").decode())

    def test_info_check_selftest_seal(self):
        text = self.good(self.model, "--info").decode()
        for part in ("toy", "layers      2", "259 tokens, BOS 1", "positions   256", "layer.1.down"):
            self.assertIn(part, text)
        self.assertNotIn("second", text)
        verbose = self.good(self.model, "--info", "-v").decode()
        self.assertIn("second ?[31m line", verbose)
        self.assertNotIn("\x1b", verbose)
        self.assertIn("ok", self.good(self.model, "--check").decode())
        self.assertRegex(self.good(self.model, "--seal-value"), rb"\A[0-9a-f]{16}\n\Z")
        sealed = self.dir / "sealed.bin"
        shutil.copy(self.model, sealed)
        value = int(self.good(self.model, "--seal-value"), 16)
        for seal, code in ((value ^ 1, 1), (value, 0)):
            with open(sealed, "r+b") as f:
                weights.patch_seal(f, seal)
            done = self.run_it(sealed, "--selftest")
            self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], b"ok")

    def test_check_finds_a_changed_byte(self):
        path = self.dir / "changed.bin"
        data = bytearray(Path(self.model).read_bytes())
        data[-100] ^= 1
        path.write_bytes(data)
        self.good(path, "x", "-n", 1)  # the tensor bytes are not read at open
        self.assertIn(str(path), self.bad(3, path, "--check"))

    def test_tokenize(self):
        self.assertEqual(self.good(self.model, "--tokenize", "a b"), b"100 35 101\n")
        self.assertEqual(self.good(self.model, "--tokenize", "-f", "-", stdin=b"\0a\n"), b"3 100 13\n")
        self.assertEqual(self.good(self.model, "--tokenize"), b"\n")
        big = self.good(self.model, "--tokenize", "-", stdin=b"ab" * 100000)
        self.assertEqual(big.split(), [b"100", b"101"] * 100000)
        fffd = self.good(self.model, "--tokenize", "-", stdin=b"\xff" * 1000)  # three bytes each
        self.assertEqual(len(fffd.split()), 3000)


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


BAD_INTEGERS = (
    "", " ", "x", "1x", "x1", "1.5", "1e3", "1,000", "1_000", "0x10", "+5", " 5", "5 ", "5\n", "--5", "-",
    "-2", "-9223372036854775808", "99999999999999999999", "18446744073709551616", "1/2", "nan", "inf",
    "-inf", "٣", "５", "1\u00a0", "$1", "1;", "%d", "1e", "0b1", "'1'", "null", "true", "½",
)  # fmt: skip
BAD_REALS = (
    "", " ", "x", "1x", "x1", "1,5", "1e", "1e+", "e5", ".", "-.", "-", "--1", "+1", " 1", "1 ", "1\n",
    "0x1", "nan", "NaN", "inf", "-inf", "infinity", "1e400", "-1", "-0.001", "1e5", "1001", "1..5", "1.5.1",
    "1e5.0", "٣", "½", "1%", "0,9", "$1", "true", "null",
)  # fmt: skip
BAD_WORDS = (
    "", " ", "f", "f1", "f16 ", " f16", "F16", "f64", "f16|f32", "q8", "avx", "AVX2", "avx512f", "sse",
    "x86", "native", "auto", "avx2,avx512", "|", "ref|", "re", "reff", "0", "1", "null", "none", "all", "\n",
    "f16\n", "half", "float", "-",
)  # fmt: skip


class Usage(Cli):
    def test_bad_values(self):
        integers = ("-n", "-c", "-b", "-t", "--top-k", "--repeat-last-n", "--stride", "--seed")
        reals = ("--temp", "--top-p", "--min-p", "--repeat-penalty")
        words = ("--cpu", "--cache-type")
        self.assertGreaterEqual(min(map(len, (BAD_INTEGERS, BAD_REALS, BAD_WORDS))), 32)
        for names, values in ((integers, BAD_INTEGERS), (reals, BAD_REALS), (words, BAD_WORDS)):
            for name in names:
                for value in values:
                    text = self.run_it(self.model, "x", name, value)
                    self.assertEqual(text.returncode, 2, (name, value, text.stderr))
                    self.assertEqual(text.stdout, b"")
                    self.assertTrue(text.stderr.startswith(f"run: {name}".encode()), text.stderr)
        self.assertIn("from 0 to 1000", self.bad(2, self.model, "--temp", "1001"))
        self.assertIn("ref|avx2", self.bad(2, self.model, "--cpu", "sse"))
        for name, value in (
            ("-t", 0), ("-t", 1025), ("-b", 0), ("-b", 65537), ("-c", 0), ("-c", 16777217), ("-n", 2147483648),
            ("--top-k", 2147483648), ("--repeat-last-n", 2147483648),
        ):  # fmt: skip
            self.assertRegex(self.bad(2, self.model, name, value), rf"run: {name}: .* from -?\d+ to \d+")
        self.bad(2, self.model, "--fingerprint=some")
        self.bad(2, self.model, "--stop", "")

    def test_good_values(self):
        for name, values in {
            "--temp": ("0", "0.5", ".5", "5.", "1e-3", "1E0", "1000", "0.80000000000000000000000001"),
            "--top-p": ("0", "1", "1.0", "0.00001", "1e-400"),
            "-s": ("0", "18446744073709551615"), "--seed": ("00042",), "-n": ("-1", "0"), "-t": ("1", "64"),
            "--top-k": ("0", "2147483647"), "--repeat-penalty": ("0", "1", "1.1"), "-b": ("1", "65536"),
            "--cache-type": ("f16", "f32"), "--cpu": ("ref",), "-c": ("10",),
        }.items():  # fmt: skip
            for value in values:
                self.good(self.model, "x", "-q", *([] if name == "-n" else ["-n", 2]), name, value)

    def test_values_mean_what_they_say(self):
        want = self.good(self.model, "x", "-n", 30, "-q", "-s", 1, "--temp", "0.5")
        for same in ("5e-1", ".5", "0.50", "500e-3", "0.00005e4"):
            self.assertEqual(self.good(self.model, "x", "-n", 30, "-q", "-s", 1, "--temp", same), want)
        other = self.good(self.model, "x", "-n", 30, "-q", "-s", 1, "--temp", "1.5")
        self.assertNotEqual(other, want)

    def test_unknown_options(self):
        for wrong, right in (
            ("--tmep", "--temp"), ("--top_k", "--top-k"), ("--treads", "--threads"), ("--sed", "--seed"),
            ("--promt=x", "--prompt"), ("--verboze", "--verbose"), ("--max-new-token", "--max-new-tokens"),
            ("--perplexty", "--perplexity"), ("-temp", "--temp"),
        ):  # fmt: skip
            text = self.bad(2, self.model, wrong, "1") if wrong != "-temp" else "--temp"
            self.assertIn(right, text)
        self.assertNotIn("did you mean", self.bad(2, self.model, "--zzzzzz"))
        self.assertIn("--help", self.bad(2, self.model, "--zzzzzz"))
        self.assertIn("--", self.bad(2, self.model, "-5 degrees"))
        self.assertIn("-5 degrees", self.good(self.model, "-n", 0, "-q", "--", "-5 degrees").decode())

    def test_hints_for_llama2c(self):
        for args, word in (
            (["-t", "0.8"], "--temp"), (["-t", "1.0"], "--temp"), (["-p", "0.9"], "--top-p"),
            (["-i", "text"], "-p"), (["-z", "tokenizer.bin"], "tokenizer is in the weights file"),
            (["-m", "generate"], "weights file"), (["-m", "chat"], "chat"), (["-y", "text"], "system"),
        ):  # fmt: skip
            text = self.bad(2, self.model, *args)
            self.assertIn(word, text)
            self.assertIn(args[0], text)
        self.good(self.model, "-n", 1, "--prompt", "0.9")

    def test_hints_for_other_programs(self):
        for name in (
            "-ngl", "--n-gpu-layers", "--mlock", "--no-mmap", "-ub", "-ctk", "-fa", "-sys", "-cnv", "-e",
            "--grammar", "-j", "--presence-penalty", "--no-display-prompt", "--log-disable", "-hf", "--chat",
        ):  # fmt: skip
            self.assertRegex(self.bad(2, self.model, name), rf"run: {name}: ")
        self.assertIn("--no-echo", self.bad(2, self.model, "--no-display-prompt"))

    def test_wrong_usage(self):
        self.assertIn("usage", self.bad(2))
        self.assertIn("usage", self.bad(2, ""))
        self.assertIn("usage", self.bad(2, "-n", "5"))
        self.assertIn("needs a value", self.bad(2, self.model, "-n"))
        self.assertIn("needs a value", self.bad(2, self.model, "--temp"))
        self.assertIn("takes no value", self.bad(2, self.model, "--greedy=1"))
        self.assertIn("quotes", self.bad(2, self.model, "two", "words"))
        self.assertIn("prompt", self.bad(2, self.model, "two", "-p", "words"))
        self.assertIn("together", self.bad(2, self.model, "-p", "x", "-f", "y"))
        self.assertIn("together", self.bad(2, self.model, "--info", "--check"))
        self.assertIn("together", self.bad(2, self.model, "--greedy", "--temp", "1"))
        self.assertIn("no prompt", self.bad(2, self.model, "x", "--info"))
        self.assertIn("option '-qv'", self.bad(2, self.model, "-qv"))

    def test_files_that_cannot_be_used(self):
        self.assertIn("missing", self.bad(4, self.dir / "missing"))
        self.bad(4, self.model, "-f", self.dir / "missing")
        self.bad(4, self.model, "-f", self.dir)
        for name, data in (("empty", b""), ("gguf", b"GGUF" + bytes(200)), ("text", b"hello " * 50)):
            (self.dir / name).write_bytes(data)
            self.assertIn(name, self.bad(3, self.dir / name))
        self.assertIn("convert", self.bad(3, self.dir / "gguf"))
        self.assertNotEqual(self.run_it(self.dir).returncode, 0)
        data = Path(self.model).read_bytes()
        (self.dir / "short").write_bytes(data[:-1])
        self.assertIn(str(self.dir / "short"), self.bad(3, self.dir / "short", "x"))

    def test_help_needs_no_model_and_is_fast(self):
        best = 9.0
        for _ in range(10):
            begin = time.monotonic()
            self.bad(2, "--zzz")
            best = min(best, time.monotonic() - begin)
        self.assertLess(best, 0.1)


class Streams(Cli):
    def shell(self, line: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["bash", "-c", line], capture_output=True, timeout=60, stdin=subprocess.DEVNULL,
            env={**os.environ, "RUN": RUN, "M": self.model, "L": self.long},
        )  # fmt: skip

    def test_reader_that_goes_away(self):
        done = self.shell('"$RUN" "$L" $\'one\\ntwo\' --ignore-eos | head -1; echo ${PIPESTATUS[0]}')
        self.assertEqual(done.stdout, b"one\n0\n")
        self.assertEqual(done.stderr, b"")
        done = self.shell('"$RUN" --help | true; echo ${PIPESTATUS[0]}')
        self.assertEqual((done.stdout, done.stderr), (b"0\n", b""))

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_full_disk(self):
        for job in ('"$M" x', "--help", '"$M" --info', '"$M" --tokenize abc'):
            done = self.shell(f'"$RUN" {job} > /dev/full')
            self.assertEqual(done.returncode, 4, job)
            self.assertRegex(done.stderr.splitlines()[-1], rb"run: standard output: cannot write: ")

    def test_closed_descriptors(self):
        want = self.good(self.model, "x", "-n", 9, "-s", 1, "-q")
        done = self.shell('"$RUN" "$M" x -n 9 -s 1 -q <&-')
        self.assertEqual((done.returncode, done.stdout), (0, want))
        done = self.shell('"$RUN" "$M" x -n 9 -s 1 2>&-')
        self.assertEqual((done.returncode, done.stdout), (0, want))
        done = self.shell('"$RUN" "$M" x -n 9 -s 1 >&-')
        self.assertEqual((done.returncode, done.stdout), (0, b""))
        done = self.shell('"$RUN" "$M" x -n 9 -s 1 <&- >&- 2>&-')
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.shell('"$RUN" "$M" - -n 9 -s 1 <&-').returncode, 0)  # an empty prompt

    def test_text_arrives_as_it_is_made(self):
        p = self.start(self.long, "abc", "--ignore-eos", "-n", 60000, "-q")
        self.assertEqual(os.read(p.stdout.fileno(), 3), b"abc")
        seen = [len(os.read(p.stdout.fileno(), 65536)) for _ in range(5)]
        self.assertIsNone(p.poll())
        self.assertLess(max(seen), 65536)

    def test_environment(self):
        want = self.good(self.model, "x", "-n", 20, "-s", 1, "-q", "--temp", "0.7")
        for env in ({}, {"LC_ALL": "de_DE.UTF-8"}, {"LC_ALL": "tr_TR"}, {"TERM": "dumb"}, {"NO_COLOR": "1"}):
            self.assertEqual(
                self.good(self.model, "x", "-n", 20, "-s", 1, "-q", "--temp", "0.7", env=env), want
            )


class Signals(Cli):
    def endless(self, **more) -> subprocess.Popen:
        p = self.start(self.long, "abc", "--ignore-eos", **more)
        return p

    def check_stop(self, number: int, code: int, seconds: float) -> None:
        p = self.endless()
        out = os.read(p.stdout.fileno(), 4)
        time.sleep(seconds)
        p.send_signal(number)
        more, err = p.communicate(timeout=20)
        out += more
        self.assertEqual(p.returncode, code)
        self.assertEqual(out[:3], b"abc")
        self.assertEqual(out[-1:], b"\n")
        out.decode("utf-8")
        self.assertRegex(err.decode(), r"\Aprompt 4 tokens, .* text \d+ tokens, .*\n\Z")

    def test_first_signal_stops_cleanly(self):
        for i in range(12):
            self.check_stop(signal.SIGINT, 130, i * 0.02)
        for i in range(3):
            self.check_stop(signal.SIGTERM, 143, i * 0.05)

    def test_signal_while_reading_the_prompt(self):
        p = subprocess.Popen(
            [RUN, self.long, "-", "--no-echo"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(self.reap, p)
        p.stdin.write(b"a" * 60000)
        p.stdin.close()
        p.stdin = None
        time.sleep(0.5)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=20)
        self.assertEqual(p.returncode, 130, err)

    def test_reader_that_does_not_read(self):
        for seed in range(20):  # a character must end where the pipe is full
            args = [self.long, "abc", "--ignore-eos", "-n", 4200, "-s", seed]
            try:
                self.good(*args)[:4096].decode()
                break
            except UnicodeDecodeError:
                pass
        p = self.start(*args)
        fcntl.fcntl(p.stdout.fileno(), 1031, 4096)  # F_SETPIPE_SZ
        for _ in range(500):
            time.sleep(0.02)
            if struct.unpack("i", fcntl.ioctl(p.stdout.fileno(), termios.FIONREAD, bytes(4)))[0] == 4096:
                break
        time.sleep(0.1)
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(10), 130)

    def test_before_the_text_the_first_signal_ends_at_once(self):
        p = subprocess.Popen([RUN, self.model, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        time.sleep(0.3)
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(10), 130)
        p.stdin.close()
        p.stdout.close()

    def test_ignored_signal_stays_ignored(self):
        line = 'trap "" INT; "$RUN" "$M" x --ignore-eos -n 9000 & p=$!; sleep 0.2; kill -INT $p; wait $p; echo $?'
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, env={**os.environ, "RUN": RUN, "M": self.long}
        )
        self.assertIn(b"text 9000 tokens", done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], b"0")

    def test_perplexity_stops(self):
        file = self.dir / "much.txt"
        file.write_bytes(b"many words " * 100000)
        p = self.start(self.long, "--perplexity", file, "-c", 64)
        time.sleep(1)
        p.send_signal(signal.SIGINT)
        out, _ = p.communicate(timeout=20)
        self.assertEqual(p.returncode, 130)
        self.assertIn(b"perplexity", out)

    def test_terminal(self):
        pid, fd = pty.fork()
        if pid == 0:
            os.execv(RUN, [RUN, self.long, "abc", "--ignore-eos"])
        data = b""
        while len(data) < 200:
            data += os.read(fd, 100)
        os.write(fd, b"\x03")
        try:
            while piece := os.read(fd, 65536):
                data += piece
        except OSError:
            pass  # the terminal is gone
        _, status = os.waitpid(pid, 0)
        os.close(fd)
        self.assertEqual(os.waitstatus_to_exitcode(status), 130)
        self.assertRegex(data, rb"\nprompt 4 tokens, .* seed \d+\r\n\Z")
        self.assertNotIn(b"\x1b", data.replace(b"\x1b", b"", data.count(b"\x1b")))

    def test_stop_and_continue(self):
        p = self.endless()
        os.read(p.stdout.fileno(), 10)
        p.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        p.send_signal(signal.SIGCONT)
        p.send_signal(signal.SIGWINCH)
        os.read(p.stdout.fileno(), 10)
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=20)
        self.assertEqual(p.returncode, 130)

    def test_weights_file_cut_while_running(self):
        for threads in (1, 2, 4):
            path = self.dir / f"cut{threads}.bin"
            shutil.copy(self.long, path)
            p = self.start(path, "abc", "--ignore-eos", "-t", threads)
            os.read(p.stdout.fileno(), 20)
            os.truncate(path, 4096)
            _, err = p.communicate(timeout=20)
            self.assertEqual(p.returncode, 4, err)
            self.assertIn(f"run: {path}: model file changed while running".encode(), err)


if __name__ == "__main__":
    unittest.main()
