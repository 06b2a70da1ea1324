"""The program bench, driven as people drive it: options, forms of output, numbers that agree."""

import csv
import io
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import unittest

from cli_case import ROOT, Cli, catches, processor_seconds, until

BENCH = os.environ.get("BENCH", "./bench")
TINY = "dim=64,hidden=160,layers=2,heads=4,kv_heads=2,head_dim=16,vocab=250,tied"
FAST = ["-r", 1, "--no-warmup", "--no-limits"]
SMALL = ["--shape", TINY, "-p", 5, "-n", 3, "-r", 2, "-t", 2]
LLAMA_BENCH = """build_commit build_number cpu_info gpu_info backends model_filename model_type model_size
    model_n_params n_batch n_ubatch n_threads type_k type_v use_mmap n_prompt n_gen n_depth test_time avg_ns
    stddev_ns avg_ts stddev_ts""".split()


class Bench(Cli):
    def call(self, *args, **more) -> subprocess.CompletedProcess:
        return subprocess.run([BENCH, *map(str, args)], capture_output=True, timeout=300, text=True, **more)

    def lines(self, *args, **more) -> list[dict]:
        done = self.call(*args, "-o", "jsonl", **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""), args)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def cases(self, *args) -> list[tuple[int, int, int]]:
        found = self.lines("--shape", TINY, "-r", 1, "-t", 1, "--no-warmup", "--no-limits", *args)
        return [(r["n_prompt"], r["n_gen"], r["n_depth"]) for r in found]

    def refused(self, *args, code: int = 2, **more) -> str:
        done = self.call(*args, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\Abench: [^\n]+\n\Z")
        return done.stderr

    def test_lists_ranges_and_repeated_options(self):
        self.assertEqual([t[0] for t in self.cases("-n", 0, "-p", "1,3", "-p", 7)], [1, 3, 7])
        self.assertEqual([t[0] for t in self.cases("-n", 0, "-p", "1-4")], [1, 2, 3, 4])
        self.assertEqual([t[0] for t in self.cases("-n", 0, "-p", "1-6+2")], [1, 3, 5])
        self.assertEqual([t[0] for t in self.cases("-n", 0, "-p", "1-8*2,20")], [1, 2, 4, 8, 20])
        both = self.cases("-p", 4, "-n", 2, "-pg", "3,1", "-d", "0,300")
        self.assertEqual(both, [(p, n, d) for d in (0, 300) for p, n in ((4, 0), (0, 2), (3, 1))])
        found = self.lines("--shape", TINY, "-p", 2, "-n", 0, *FAST, "-t", "1-2", "-b", "1,64", "-ctk", "f16,f32")
        self.assertEqual(
            [(r["n_threads"], r["n_batch"], r["type_k"]) for r in found],
            [(t, b, c) for t in (1, 2) for b in (1, 64) for c in ("f16", "f32")],
        )
        self.assertEqual(len({r["fingerprint"] for r in found if r["type_k"] == "f16"}), 1)

    def test_a_limit_that_nobody_measured_is_none(self):
        rows = self.call(*SMALL, "--no-limits").stdout.splitlines()[2:]
        self.assertEqual([row.split("|")[-3].strip() for row in rows], ["-", "-"])
        rows = self.call(*SMALL).stdout.splitlines()[2:]
        self.assertRegex("".join(rows), r"% of [1-9][0-9.]* GB/s")

    def test_wrong_options_are_named_in_a_sentence(self):
        for args, want in (
            ([], "nothing to measure"), (["--shpe", "15m"], "did you mean --shape?"),
            (["x.bin", "-ctx", "1"], "did you mean -ctk?"), (["--shape", "16m"], "15m 42m"),
            (["--shape", TINY.replace("kv_heads=2", "kv_heads=3")], "do not divide"),
            (["--shape", TINY.replace(",vocab=250", "")], "vocab is missing"),
            (["--shape", TINY + ",depth=3"], "'depth'"), (["--shape", TINY + ",deep"], "'deep'"),
            (["--shape", TINY + ",n_experts=x.y"], "'n_experts'"), (["--shape", "glm-4.7-flash:47"], "'glm-4.7-flash:47'"),
            (["--shape", TINY + ",n_experts=4,experts_used=5"], "experts_used is 5"), (["--shape", "15m", "--type", "q5"], "'q5'"),
            (["x.bin", "--type", "q8"], "--type belongs to --shape"), (["x.bin", "-p", "1-"], "'1-'"),
            (["x.bin", "-p", "4-1"], "'4-1'"), (["x.bin", "-p", "0-8*2"], "'0-8*2'"), (["x.bin", "-t", "0"], "'0'"),
            (["x.bin", "-p", "1,,2"], "'1,,2'"), (["x.bin", "-p", "1-1000"], "'1-1000'"),
            (["x.bin", "-pg", "4"], "two numbers"), (["x.bin", "-r", "0"], "-r"), (["x.bin", "-o", "sql"], "md|csv"),
            (["x.bin", "-ctk", "f16", "-ctv", "f32"], "one type"), (["x.bin", "-ub", "4"], "one batch size"),
            (["x.bin", "-ngl", "99"], "CPU only"), (["--shape", TINY, "--cpu", "ref,z80"], "'ref,z80'"), (["--shape", TINY, "--cpu", "plai"], "'plai'"),
        ):  # fmt: skip
            self.assertIn(want, self.refused(*args), args)
        self.assertIn("no-such-file.bin", self.refused("no-such-file.bin", code=4))
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))}
        self.assertIn("random weights: cannot write", self.refused("--shape", TINY, code=4, **limit))

    def test_fields_are_llama_benchs_by_name_and_order(self):
        line = self.lines(*SMALL, *FAST)[0]
        self.assertEqual(list(line)[: len(LLAMA_BENCH)], LLAMA_BENCH)
        self.assertEqual(list(line)[-2:], ["samples_ns", "samples_ts"])
        for name in ("read_bandwidth_gbs", "pct_bandwidth", "peak_gmacs", "pct_peak", "fingerprint", "content_id"):
            self.assertIn(name, line)
        done = self.call(*SMALL, *FAST, "-o", "csv", "-oe", "json")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        objects = json.loads(done.stderr)
        self.assertEqual([r["n_prompt"] for r in rows], ["5", "0"])
        self.assertEqual([o["n_gen"] for o in objects], [0, 3])
        for row, o in zip(rows, objects, strict=True):
            self.assertEqual(list(row), list(o)[:-2])
            self.assertEqual(row["fingerprint"], o["fingerprint"])
            self.assertEqual(float(row["avg_ts"]), o["avg_ts"])

    def test_instruction_sets_are_compared(self):
        best = self.lines(*SMALL, *FAST)[0]["cpu_target"]
        found = self.lines(*SMALL, *FAST, "--cpu", f"plain,{best}", "--cpu", "ref")
        self.assertEqual([r["cpu_target"] for r in found[::2]], ["plain", best, "ref"])
        for same in (found[::2], found[1::2]):
            self.assertEqual(len({r["fingerprint"] for r in same}), 1)
        row = self.call(*SMALL, *FAST, "--cpu", best).stdout.splitlines()[2]
        self.assertIn(f"| {best} ", row)

    def test_markdown(self):
        done = self.call(*SMALL, "-d", 9, "--ops")
        head, rule, first, second, *rest = done.stdout.splitlines()
        self.assertEqual(re.split(r" *\| *", head)[1:4], ["model", "size", "params"])
        self.assertRegex(first, r"\| custom q8 .* pp5 @ d9 \| +[\d.]+ ± [\d.]+ \| .* GMAC/s \| [0-9a-f]{16} \|$")
        self.assertRegex(second, r" tg3 @ d9 .* GB/s \|")
        self.assertEqual(len({len(head), len(rule), len(first), len(second)}), 1)
        self.assertEqual(sum(line.startswith("| gate_up ") for line in rest), 2)

    def test_numbers_agree(self):
        for r in self.lines(*SMALL, "-r", 5, "-d", 40):
            ns, ts, n = r["samples_ns"], r["samples_ts"], r["n_prompt"] + r["n_gen"]
            self.assertEqual(len(ns), 5)
            for a, b in zip(ns, ts, strict=True):
                self.assertAlmostEqual(b, n / (a * 1e-9), delta=b * 1e-3)
            self.assertAlmostEqual(r["avg_ts"], statistics.mean(ts), delta=1e-3)
            self.assertAlmostEqual(r["stddev_ts"], statistics.stdev(ts), delta=1e-3)
            self.assertAlmostEqual(r["median_ts"], statistics.median(ts), delta=1e-3)
            self.assertAlmostEqual(r["stddev_ns"], statistics.stdev(ns), delta=2)
            gbs = (r["weight_bytes"] + r["cache_bytes"]) / r["avg_ns"]
            self.assertAlmostEqual(r["gbs"], gbs, delta=1e-4 * gbs)
            self.assertAlmostEqual(r["pct_bandwidth"], 100 * r["gbs"] / r["read_bandwidth_gbs"], delta=0.01)
            self.assertGreater(r["read_bandwidth_gbs"], 0.1)

    def test_cost_of_a_test(self):
        pp, tg = self.lines(*SMALL, *FAST, "--type", "f32", "-d", 300, "-ctk", "f32")
        dim, hidden, layers, kv, vocab = 64, 160, 2, 32, 250
        matrix = layers * (dim * (2 * dim + 2 * kv) + 3 * dim * hidden)
        seen = [sum(range(301, 306)), sum(range(301, 304))]
        self.assertEqual(pp["matmul_macs"], 5 * matrix + dim * vocab)
        self.assertEqual(tg["matmul_macs"], 3 * (matrix + dim * vocab))
        self.assertEqual([pp["attention_macs"], tg["attention_macs"]], [2 * n * layers * dim for n in seen])
        self.assertEqual(pp["cache_bytes"], 305 * layers * 2 * kv * 4)
        self.assertEqual(tg["cache_bytes"], seen[1] * layers * 2 * kv * 4)
        norms = (2 * layers + 1) * dim * 4
        head = 256 * dim * 4  # 250 rows are 16 tiles
        self.assertEqual(tg["weight_bytes"], 3 * (4 * matrix + norms + head + dim * 4))

    def test_shapes_of_hybrids_are_cut_and_counted(self):
        """Layers as the name says, their part of the vocabulary, and the weights, states and cache that a token needs."""
        found = self.lines("--shape", "lfm2-1.2b:3,granite4-h-tiny:1", "-p", 0, "-n", 1, *FAST)
        self.assertEqual([r["model_type"] for r in found], ["lfm2-1.2b 3/16 q8", "granite4-h-tiny 1/40 q8"])
        conv, mamba = found
        self.assertEqual(conv["model_n_params"] // 10**6, (12288 * 2048 + 2 * 16 * 2**20 + 10 * 2**20 + 3 * 48 * 2**20) // 10**6)
        expert, shared, state = 3 * 512 * 1536, 3 * 1024 * 1536, 48 * 128 * 64
        active = 2512 * 1536 + 6 * expert + shared + 1536 * (3072 * 3 + 256)
        floats = 64 * 1536 + 48 * 1536 + 2 * state + 4 * 3328
        self.assertAlmostEqual(mamba["weight_bytes"] / (active * 17 / 16 + 4 * floats), 1, delta=0.005)

    def test_keys_of_a_shape(self):
        more = ",n_experts=4,experts_used=2,mixer=1/2,k_heads=1,v_heads=2,k_dim=8,v_dim=8,conv_width=2"
        plain, keyed = (self.lines("--shape", TINY + m, "-p", 3, "-n", 0, *FAST)[0] for m in ("", more))
        self.assertGreater(keyed["model_n_params"], plain["model_n_params"])

    def test_window_of_a_shape(self):
        """What a window hides is not read; without one the file is what it was."""
        plain, narrow = (self.lines("--shape", TINY + more, "-p", 0, "-n", 4, "-d", 300, *FAST)[0] for more in ("", ",window=32"))
        self.assertEqual([plain[n] for n in ("n_heads", "n_kv_heads", "head_dim", "window")], [4, 2, 16, 0])
        self.assertEqual(narrow["window"], 32)
        self.assertEqual(narrow["attention_macs"], 4 * 32 * 2 * 2 * 64)
        self.assertEqual(plain["attention_macs"], sum(range(301, 305)) * 2 * 2 * 64)
        self.assertIn("'window=0'", self.refused("--shape", TINY + ",window=0"))
        self.assertIn("window is", self.refused("--shape", TINY + ",window=99999999"))
        self.assertRegex(self.call(*SMALL, *FAST).stdout, r"params \| +heads \|.*\n.*\n.* M \| +4/2 \|")

    def test_attention(self):
        """Work and scratch of every line as the formulas say, in every form."""
        args = ["attention", "-p", "16,32,64", "-r", 1, "--kv-heads", "8,1", "--window", "8,16"]
        found = {(r["line"], r["n_keys"]): r for r in self.lines(*args)}
        lines = list(dict.fromkeys(line for line, _ in found))
        self.assertEqual(lines, [
            "naive", "online", "blocked", "split", "engine", "engine, 1 KV head", "window 8", "engine, window 8", "window 16",
            "engine, window 16", "one token, with a cache", "one token, without a cache", "naive, 1 head of 512", "naive, 8 heads of 64",
        ])  # fmt: skip
        for n in (16, 32, 64):
            pairs, seen = n * (n + 1) // 2, lambda w, n=n: sum(min(i + 1, w) for i in range(n))
            for line, want in (("naive", pairs), ("engine", pairs), ("engine, 1 KV head", pairs), ("window 8", seen(8)),
                               ("engine, window 16", seen(16)), ("one token, with a cache", n), ("naive, 1 head of 512", pairs)):  # fmt: skip
                self.assertEqual(found[line, n]["macs"], 2 * want * 512, line)
            scratch = {line: found[line, n]["scratch_bytes"] for line in lines}
            self.assertEqual((scratch["naive"], scratch["window 8"], scratch["online"]), (4 * n * n, 4 * n * 8, 0))
            kv = [found[line, n]["bytes"] - 2 * 4 * n * 512 for line in ("engine", "engine, 1 KV head")]
            self.assertEqual(kv, [2 * 4 * n * 512, 2 * 4 * n * 64])
            self.assertGreater(found["engine", n]["median_ns"], 0)
        done = self.call(*args, "-oe", "csv")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(list(csv.DictReader(io.StringIO(done.stderr)))), len(found))
        powers = done.stdout.partition("Exponents")[2]
        self.assertRegex(powers, r"\| naive .*\| +T\^1\.9\d \| +T\^1\.9\d \| +T\^2\.00 \|")
        self.assertRegex(powers, r"\| window 8 .*\| +T\^1\.1\d \| +T\^1\.1\d \| +T\^1\.00 \|")
        self.assertRegex(powers, r"window, at the last length .*\| +W\^0\.8\d \| +W\^0\.9\d \| +W\^1\.00 \|")
        self.assertRegex(powers, r"Scratch memory in KB:\n\n +[\d.]+ \|[^\n]*\n")
        self.assertIn("  a  naive\n", powers)
        for more, want in ((["x.bin"], "takes no model"), (["-t", 2], "--threads does not belong"), (["--kv-heads", 3], "1, 2, 4 and 8")):
            self.assertIn(want, self.refused("attention", *more))
        self.assertIn("--window belongs to bench attention", self.refused("x.bin", "--window", 3))

    def test_operations_add_up(self):
        for r in self.lines("--shape", "15m", "-p", 32, "-n", 8, *FAST, "-t", "1,2", "--ops"):
            names = [o["name"] for o in r["ops"]]
            self.assertEqual(
                names, ["embed", "norm+quantize", "qkv", "attend", "out", "gate_up", "down", "logits"]
            )
            total = sum(o["seconds"] for o in r["ops"])
            self.assertLessEqual(total, r["ops_seconds"] * 1.001)
            self.assertGreater(total, r["ops_seconds"] * 0.5)
            self.assertEqual(sum(o["macs"] for o in r["ops"]), r["matmul_macs"] + r["attention_macs"])
            self.assertEqual(sum(o["bytes"] for o in r["ops"]), r["weight_bytes"] + r["cache_bytes"])
            for o in r["ops"]:
                self.assertLessEqual(o["wait_seconds"], o["seconds"] + 1e-3)

    def test_fingerprint_is_that_of_the_tokens(self):
        """Sixteen tokens one by one are the rows of the seal."""
        fable = ROOT / "models/fable.bin"
        seal = self.good(fable, "--seal-value").decode().strip()
        for more in (["-t", 1], ["-t", 2, "--cpu", "ref"], ["-t", 1, "--ops"]):
            (r,) = self.lines(fable, "-p", 0, "-n", 16, *FAST, "-ctk", "f32", "-ctv", "f32", *more)
            self.assertEqual((r["fingerprint"], r["fingerprint_rows"]), (seal, 16))
        many = self.lines("--shape", TINY, "-p", 33, "-n", 0, *FAST, "-d", 20, "-t", "1,3", "-b", "4,64")
        self.assertEqual(len({r["fingerprint"] for r in many}), 1)
        self.assertEqual(len({r["content_id"] for r in many}), 1)

    def test_sequences_side_by_side(self):
        """Several sequences read the weights once for a token of each, have caches of their own, and change no bit."""
        args = ["--shape", TINY, "-p", 0, "-n", 3, *FAST, "-d", "0,300", "-npl"]
        found = self.lines(*args, "1,3,20", "-t", 2, "-b", 8)
        self.assertEqual([(r["n_depth"], r["n_parallel"]) for r in found], [(d, n) for d in (0, 300) for n in (1, 3, 20)])
        alone, three, _, deep, deep3, _ = found
        self.assertEqual(three["fingerprint_rows"], 9)
        self.assertEqual(three["matmul_macs"], 3 * alone["matmul_macs"])
        self.assertLess(three["weight_bytes"], 1.1 * alone["weight_bytes"])
        self.assertEqual(deep3["cache_bytes"], 3 * deep["cache_bytes"])
        self.assertAlmostEqual(three["avg_ts"], 9e9 / three["avg_ns"], delta=0.01 * three["avg_ts"])
        again = self.lines(*args, "20,3,1", "-t", 1, "--cpu", "ref")
        pairs = {(r["n_depth"], r["n_parallel"], r["fingerprint"]) for r in found + again}
        self.assertEqual(len(pairs), 6)
        self.assertEqual(alone["fingerprint"], self.lines(*args[:-1], "-t", 1)[0]["fingerprint"])
        self.assertIn(" tg3 pl3 @ d300 ", self.call(*args, 3, "-t", 1).stdout)
        self.assertIn("'0'", self.refused("x.bin", "-npl", 0))
        self.assertIn("--mtp exclude", self.refused("x.bin", "-npl", 2, "--mtp", 1))

    def test_types_of_random_weights(self):
        found = self.lines("--shape", TINY, "--type", "f32,f16,bf16,q8,q4,q4c", "-p", 0, "-n", 2, *FAST, "-t", 1)
        self.assertEqual([r["weight_type"] for r in found], ["f32", "f16", "bf16", "q8", "q4", "q4c"])
        self.assertEqual(len({r["content_id"] for r in found}), 6)

    def test_interrupt_keeps_what_is_done(self):
        p = subprocess.Popen(
            [BENCH, "--shape", "110m", "-p", "4,512", "-n", "0", "-r", "1000", "-o", "json", "--no-limits"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(self.reap, p)
        until(lambda: catches(p, signal.SIGINT) and processor_seconds(p) > 0.5)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=300)
        self.assertEqual((p.returncode, err), (130, b""))
        self.assertIsInstance(json.loads(out), list)

    def test_json_is_whole_at_the_deadline_after_a_signal(self):
        p = subprocess.Popen(
            [BENCH, "--shape", TINY, "-p", "4,5", "-n", "0", *map(str, FAST), "--delay", "2", "-o", "json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(self.reap, p)
        text = b""
        while b"  }" not in text:
            text += p.stdout.read1()
        p.send_signal(signal.SIGALRM)
        out, err = p.communicate(timeout=300)
        self.assertEqual((p.returncode, err), (128 + signal.SIGALRM, b""))
        self.assertEqual([r["n_prompt"] for r in json.loads(text + out)], [4])

    def test_man_page_has_every_option(self):
        text = (ROOT / "src/app/bench/tern-bench.1").read_text()
        shown = self.call("--help").stdout
        self.assertLessEqual(max(map(len, shown.splitlines())), 80)
        for name in re.findall(r"--([a-z][a-z-]+)", shown):
            self.assertIn(f"Fl -{name}", text, name)


if __name__ == "__main__":
    unittest.main()
