"""The program run, driven as people drive it: texts, reports, usage."""

import os
import re
import shlex
import shutil
import socket
import struct
import subprocess
import time
import unittest
from pathlib import Path

from cli_case import MAN, ROOT, RUN, Cli, weights, write_model


def flags(man: str) -> set[str]:
    """The options of a page as mandoc shows them: Fl puts a dash before each word up to the next macro."""
    out = set()
    for line in re.findall(r"(?m)^\.(.*)", man):
        macro = ""
        for word in line.split():
            if re.fullmatch("[A-Z][a-z]", word):
                macro = word
            elif macro == "Fl" and re.fullmatch("-?[a-z][a-z0-9-]*", word):
                out.add("-" + word)
    return out


class Text(Cli):
    def test_inputs_without_end(self):
        for args in (["-f", "/dev/zero"], ["--perplexity", "/dev/zero"], ["--chat", "--template", "chatml", "-q", "-f", "/dev/zero"]):
            self.assertIn("/dev/zero: it has more than 256 MiB", self.bad(6, self.model, *args))

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
            ["-pThe cat", "--model", self.model], ["-f", file, self.model], ["--", self.model, "The cat"],
        ):  # fmt: skip
            self.assertEqual(self.good(*common, *args), want, args)
        for args in ([self.model, "-"], ["-f", "-", self.model], [self.model, "--file=-"]):
            self.assertEqual(self.good(*args, *common, stdin=b"The cat"), want)

    def test_a_pipe_or_a_file_is_the_prompt(self):
        common = [self.model, "-s", 3, "-n", 9, "-q"]
        want = self.good(*common, "The cat")
        self.assertEqual(self.good(*common, stdin=b"The cat\n"), want)
        file = self.dir / "input.txt"
        file.write_bytes(b"The cat")
        with open(file, "rb") as f:
            self.assertEqual(subprocess.run([RUN, *map(str, common)], stdin=f, capture_output=True).stdout, want)
        self.assertEqual(self.good(*common, "The cat", stdin=b"ignored"), want)
        self.assertEqual(self.good(self.model, "--tokenize", stdin=b"a b\n"), b"100 35 101\n")
        self.good(self.model, "--info", stdin=b"not a prompt")

    def test_a_prompt_of_token_ids(self):
        common = [self.model, "-s", 3, "-n", 9, "-q"]
        want = self.good(*common, "The cat")
        ids = "1 " + self.good(self.model, "--tokenize", "The cat").decode()
        for text in (ids, ids.replace(" ", ","), "  " + ids.replace(" ", " , ")):
            self.assertEqual(self.good(*common, "--prompt-ids", text), want)
        self.assertEqual(self.good(self.model, "--tokenize", "--prompt-ids", "7,8"), b"7 8\n")
        for wrong in ("259", "-1", "x", "1 2x", "99999999999999999999"):
            self.assertIn("is not a token id from 0 to 258", self.bad(2, self.model, f"--prompt-ids={wrong}"))
        self.assertIn("no token id", self.bad(2, self.model, "--prompt-ids", " "))
        for more in (["-p", "x"], ["-f", "x"], ["--chat"], ["--info"]):
            self.bad(2, self.model, "--prompt-ids", "5", *more)
        bare = self.dir / "bare.bin"
        write_model(bare, 64, text=False)
        self.assertIn("has no tokenizer", self.bad(2, bare, "x"))
        ids = self.good(bare, "--prompt-ids", "1 87 107", "-s", 3, "-n", 4, "-q", "--ignore-eos")
        self.assertRegex(ids, rb"\A1 87 107( \d+){4}\n\Z")
        more = self.good(bare, "--prompt-ids", ids.decode(), "-s", 3, "-n", 4, "-q", "--no-echo", "--ignore-eos")
        self.assertRegex(more, rb"\A( \d+){4}\n\Z")

    def test_guesses_change_nothing(self):
        prompt = "one two three one two three one two " * 3
        for choice in (["--greedy"], ["-s", 4, "--temp", "0.3"]):
            args = [self.model, prompt, *choice, "-n", 100, "--ignore-eos", "-q", "--fingerprint"]
            plain = self.run_it(*args)
            for more in (["--lookup"], ["--lookup=3"], ["--draft", self.model], ["-md", self.long, "--lookup"]):
                done = self.run_it(*args, *more)
                self.assertEqual((done.stdout, done.stderr), (plain.stdout, plain.stderr), more)
        text = self.run_it(self.model, prompt, "--greedy", "-n", 100, "--draft", self.model, "-v").stderr.decode()
        self.assertRegex(text, r"(?m)^draft: weights .*B, cache ")
        self.assertRegex(text, r"(?m)^guesses tried: +\d+ token\(s\), \d+ right\nsteps: +\d+$")

    def test_drafts_that_do_not_fit(self):
        message = self.bad(2, "models/fable.bin", "x", "--draft", self.model)
        self.assertIn(f"--draft {self.model}: token 0 is", message)
        self.assertIn("--draft nowhere: ", self.bad(4, self.model, "x", "--draft", "nowhere"))
        self.assertIn("--draft README.md: ", self.bad(3, self.model, "x", "--draft", "README.md"))
        self.assertIn("from 1 to 31", self.bad(2, self.model, "x", "--lookup=32"))

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
        self.assertRegex(text, r"at least \d+ tokens, and there is room for 256")
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

    def test_help_and_man_page_name_the_same_options(self):
        for page in sorted((ROOT / "src/app").rglob("*.1")):
            program = page.parent.name
            path = str(Path(RUN).with_name(program))
            if program == "serve" and not Path(path).exists():
                continue
            short, text = (subprocess.run([path, o], capture_output=True, text=True).stdout for o in ("-h", "--help"))
            self.assertEqual(short, text)
            self.assertLessEqual(max(map(len, text.splitlines())), 80)
            top, _, usage = text.partition("\n\n")
            head, *examples = top.splitlines()
            self.assertEqual((head, usage.split()[:2]), ("Examples:", ["usage:", program]))
            for line in examples:
                self.assertTrue(line.startswith(f"  {program} "), line)
            man = page.read_text()
            names = set(re.findall(r"(?<![\w.-])(?<!py )--?[a-z][a-z0-9-]*", text))
            self.assertEqual(flags(man) - names, {"--share"} - names if program in ("run", "bench", "serve") else set())  # MPI=1
            self.assertLessEqual(names, flags(man))
            for letter, name in re.findall(r"(?m)^  -(\w), --([a-z-]+)", text):
                self.assertRegex(man, rf"\.It Fl {letter} , Fl -{name}\b")
        self.assertIn("--top-p 0.9", self.good("--help-llama2c").decode())
        self.assertLessEqual(max(map(len, self.good("--help-llama2c").decode().splitlines())), 80)

    def test_targets_are_those_of_the_table(self):
        table = (ROOT / "src/kernels/targets.h").read_text()
        names = re.findall(r"(?m)^    TARGET\(\w+, (\w+),", table)
        self.assertIn("avx2vnni", names)
        for page in ("run/tern.1", "look/tern-look.1", "serve/tern-serve.1", "quantize/tern-quantize.1"):
            self.assertIn(f".It Fl -cpu Cm {' | '.join(names)}\n", (ROOT / "src/app" / page).read_text())

    def test_weight_types_are_those_of_the_table(self):
        rows = re.findall(r"(?m)^    FORMAT\(\w+, (\w+), (\w+),", (ROOT / "src/kernels/formats.h").read_text())
        types, ints = [name for name, _ in rows], [name for name, kind in rows if kind == "int"]
        self.assertIn(f"\n{', '.join(types)}.\n", (ROOT / "src/app/bench/tern-bench.1").read_text())
        self.assertIn(f".Cm {' | '.join(ints)}\n", (ROOT / "src/app/quantize/tern-quantize.1").read_text())
        for program, words in (("bench", ", ".join(types)), ("quantize", "|".join(ints))):
            text = subprocess.run([Path(RUN).with_name(program), "--help"], capture_output=True, text=True).stdout
            self.assertIn(words, " ".join(text.split()))

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_man_pages(self):
        pages = sorted((ROOT / "src/app").rglob("*.1"), key=lambda page: page.stem)
        self.assertEqual([p.stem for p in pages], ["tern", "tern-bench", "tern-look", "tern-quantize", "tern-serve"])
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *pages], capture_output=True)
        self.assertEqual(done.stdout + done.stderr, b"")
        for page in pages:  # the program that is built, and the one that is installed
            name = page.stem.removeprefix("tern-").replace("tern", "run")
            self.assertIn(f".Nm {name} ,\n.Nm {page.stem}\n.Nd ", page.read_text())

    def test_version(self):
        header = (ROOT / "include/tern.h").read_text()
        version = re.search(r'TERN_VERSION "(.*)"', header)[1]
        self.assertIn(version, self.good("--version").decode())

    def test_doctor(self):
        """One screen, without a model."""
        lines = self.good("--doctor").decode().splitlines()
        self.assertLessEqual(len(lines), 24)
        topics = [line[:11].strip() for line in lines]
        for topic in ("tern", "processor", "has", "kernels", "self-test", "threads", "memory", "huge pages", "reads", "advice"):
            self.assertIn(topic, topics)
        self.assertTrue(all(len(line) < 120 for line in lines), lines)
        self.bad(2, "--doctor", "--cpu", "ref")  # it looks at all kernels

    def test_info_check_selftest_seal(self):
        text = self.good(self.model, "--info").decode()
        for part in ("toy", "layers      2", "259 tokens, BOS 1", "positions   256", "layer.1.down"):
            self.assertIn(part, text)
        self.assertIn("2 layers x 2 KV heads x 16 x 2 x 2 bytes = 256 a position, plus 4 for its token", text)
        self.assertRegex(text, r"MHA, 4 KV heads +512 +258\.0 KiB +2\.0 MiB +16\.1 MiB\n +MQA, 1 KV head +128 ")
        self.assertRegex(text, r"window 512 +256 +130\.0 KiB +144\.0 KiB +256\.0 KiB\n")
        self.assertNotIn("second", text)
        verbose = self.good(self.model, "--info", "-v").decode()
        self.assertIn("second \x1b[31m line", verbose)  # a pipe gets the bytes
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
        pieces = self.good(self.model, "--tokenize", "-v", "a\n\"é")
        self.assertEqual(pieces, b'100 "a"\n13 "\\u000a"\n37 "\\u0022"\n198 "\\xc3"\n172 "\\xa9"\n')
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)  # a datagram for every write
        with here, open(self.dir / "many.txt", "w+b") as many:
            many.write(b"ab" * 10000)
            many.seek(0)
            p = subprocess.Popen([RUN, self.model, "--tokenize"], stdin=many, stdout=there)
            there.close()
            writes = [here.recv(65536)]
            while not writes[-1].endswith(b"\n"):
                writes.append(here.recv(65536))
            self.assertEqual((p.wait(), b"".join(writes).split()), (0, [b"100", b"101"] * 10000))
        self.assertLess(len(writes), 2000)
        fffd = self.good(self.model, "--tokenize", "-", stdin=b"\xff" * 1000)  # three bytes each
        self.assertEqual(len(fffd.split()), 3000)


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
    "", " ", "f", "f1", "f16 ", " f16", "F16", "f64", "f16|f32", "q4", "avx", "AVX2", "avx512f", "sse",
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
        self.assertIn("is not one of plain|ref", self.bad(2, self.model, "--cpu", "sse"))
        for name, value in (
            ("-t", 0), ("-t", 1025), ("-b", 0), ("-b", 65537), ("-c", 0), ("-c", 16777217), ("-n", 2147483648),
            ("--top-k", 2147483648), ("--repeat-last-n", 2147483648),
        ):  # fmt: skip
            self.assertRegex(self.bad(2, self.model, name, value), rf"run: {name}: .* from -?\d+ to \d+")
        self.bad(2, self.model, "--fingerprint=some")
        self.bad(2, self.model, "--stop", "")
        self.assertIn("'1^J'", self.bad(2, self.model, "-n", "1\n"))
        self.assertIn("^[[31m<U+009B><9B>", self.bad(4, "\x1b[31m\x9b\udc9b"))

    def test_good_values(self):
        for name, values in {
            "--temp": ("0", "0.5", ".5", "5.", "1e-3", "1E0", "1000", "0.80000000000000000000000001"),
            "--top-p": ("0", "1", "1.0", "0.00001", "1e-400"),
            "-s": ("0", "18446744073709551615"), "--seed": ("00042",), "-n": ("-1", "0"), "-t": ("1", "64"),
            "--top-k": ("0", "2147483647"), "--repeat-penalty": ("0", "1", "1.1"), "-b": ("1", "65536"),
            "--cache-type": ("f16", "f32", "q8"), "--cpu": ("ref",), "-c": ("10",),
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
            ("--perplexty", "--perplexity"), ("-temp", "--temp"), ("-temp=0", "--temp"), ("-prompt", "--prompt"),
        ):  # fmt: skip
            self.assertIn(f"did you mean {right}?", self.bad(2, self.model, wrong, "0"))
        for far in ("--zzzzzz", "-qv", "--x1"):
            self.assertNotIn("did you mean", self.bad(2, self.model, far))
        for cut, whole in (("--in", "info"), ("--ses", "session"), ("--tem", "temp"), ("--hepl", "help"), ("--ifno", "info")):
            self.assertIn(f"did you mean --{whole}?", self.bad(2, self.model, cut))
        for job in (["--perplexity", "x"], ["--tokenize", "x"], ["--info"]):
            for of_a_text in ("--chat", "--jsonl", "--system=x", "--logprobs=1", "--lookup", "--context-shift"):
                text = self.bad(2, self.model, *job, of_a_text)
                self.assertIn(f"{of_a_text.split('=')[0]} and {job[0]} cannot go together", text)
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
            "-ngl", "--n-gpu-layers", "--no-mmap", "-ub", "-ctk", "-fa", "-e",
            "--no-display-prompt", "--log-disable", "-hf",
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

    def test_other_formats_say_which_command_converts_them(self):
        """Words that a shell takes as they are meant; the source's own path, and another file to write."""
        tensors = b'{"a":{}}'.ljust(200)
        llama2c = struct.pack("<7i", 64, 172, 5, 8, 4, 512, 512) + bytes(100)
        folder = self.dir / "a $HOME's `x` é\\"
        folder.mkdir()
        for name, data, source, out in (
            ("x.gguf", b"GGUF" + bytes(200), "x.gguf", "x.bin"),
            ("it's \"x\".gguf", b"GGUF" + bytes(200), "it's \"x\".gguf", "it's \"x\".bin"),
            ("-m.gguf", b"GGUF" + bytes(200), "./-m.gguf", "./-m.bin"),
            ("x.bin", llama2c, "x.bin", "x-tern.bin"),
            ("ak42", struct.pack("<Ii", 0x616B3432, 1).ljust(300, b"\0"), "ak42", "ak42-tern.bin"),
            ("model.safetensors", struct.pack("<Q", 100) + tensors, ".", "model.bin"),
            (".", None, ".", "model.bin"),
        ):
            for where in (None, folder):
                if data is not None:
                    ((where or self.dir) / name).write_bytes(data)
                given = str(where / name) if where else "./" + name if name.startswith("-") else name
                said = self.bad(3, given, cwd=self.dir)
                words = shlex.split(said.strip().split("first with ")[1])
                self.assertEqual(words[0], "tools/convert.py")
                self.assertEqual(Path(self.dir, words[1]).resolve(), Path(where or self.dir, source).resolve(), said)
                self.assertEqual(words[2], folder.name + ".bin" if where and data is None else out)
        long = self.dir / ("x" * 200)
        long.write_bytes(b"GGUF" + bytes(200))
        self.assertIn("tools/convert.py FILE OUT.bin", self.bad(3, long.name, cwd=self.dir))

    def test_help_needs_no_model_and_is_fast(self):
        best = 9.0
        for _ in range(10):
            begin = time.monotonic()
            self.bad(2, "--zzz")
            best = min(best, time.monotonic() - begin)
        self.assertLess(best, 0.3)


if __name__ == "__main__":
    unittest.main()
