"""tools/regroup.py: copies change nothing, means are means, the file is whole, and what cannot be is refused. The model is a
toy of 4 heads that share 2 KV heads."""

import importlib.util
import os
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np

from cli_case import ROOT, Cli, write_model

from tern import regroup
from tern.weights.reader import WeightsFile

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None
HAS_TORCH = importlib.util.find_spec("torch") is not None


class Regroup(Cli):
    def tool(self, *args) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, ROOT / "tools/regroup.py", *map(str, args)], capture_output=True, text=True)

    def made(self, model, *args) -> subprocess.CompletedProcess:
        done = self.tool(model, "-o", self.dir, *args)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done

    def test_copies_and_means(self):
        done = self.made(self.model, "--kv-heads", "4,2,1")
        files = [Path(line) for line in done.stdout.splitlines()]
        self.assertEqual([f.name for f in files], ["toy-kv4.bin", "toy-kv2.bin", "toy-kv1.bin"])
        seal = self.good(self.model, "--seal-value")
        for file, kv in zip(files, (4, 2, 1), strict=True):
            self.good(file, "--check")
            self.assertIn(b"ok", self.good(file, "--selftest"))
            self.assertEqual(self.good(file, "--seal-value") == seal, kv != 1)
            self.assertIn(f"4 heads, {kv} KV head", self.good(file, "--info").decode())
        before, after = WeightsFile(self.model), WeightsFile(files[2])
        for name in before.tensors:
            want = before.values(name)
            if name.split(".")[-1] in ("k", "v"):
                want = want.reshape(2, 16, 64).mean(0, dtype=np.float64).astype(np.float32)
            self.assertTrue(np.array_equal(after.values(name), want), name)
        self.assertEqual(before.sections["tokenizer"], after.sections["tokenizer"])
        self.assertFalse(list(self.dir.glob("*.tmp")))

    def test_pool(self):
        x = np.arange(8, dtype=np.float32).reshape(4, 2)  # 4 heads of 1
        self.assertEqual(regroup.pool(x, 4, 2).tolist(), [[1, 2], [5, 6]])
        self.assertEqual(regroup.pool(x, 2, 4).tolist(), [[0, 1], [2, 3], [0, 1], [2, 3], [4, 5], [6, 7], [4, 5], [6, 7]])

    def test_a_quantized_type_stays(self):
        small = self.dir / "small.bin"
        subprocess.run([os.environ.get("QUANTIZE", "./quantize"), self.model, small, "q8", "-q"], check=True)
        self.made(small, "--kv-heads", 1)
        kinds = [{n: t["kind"] for n, t in WeightsFile(f).tensors.items()} for f in (small, self.dir / "small-kv1.bin")]
        self.assertEqual(*kinds)

    def test_costs(self):
        text = self.dir / "text.txt"
        text.write_text("The cat sat on the mat. " * 8)
        plot = ["--plot", self.dir / "kv.svg"] if HAS_MATPLOTLIB else []
        done = self.made(self.model, "--kv-heads", "2,1", "--text", text, "--depth", 64, *plot)
        rows = [line.split() for line in done.stdout.splitlines()[-2:]]
        self.assertEqual([row[:2] for row in rows], [["2", "256"], ["1", "128"]])
        said = self.good(self.model, "--perplexity", text).decode()
        self.assertIn(f"perplexity  {rows[0][3]} ", said)
        self.assertGreater(float(rows[0][2].replace(",", "")), 0)
        if HAS_MATPLOTLIB:
            self.assertIn("tokens per second at depth 64", (self.dir / "kv.svg").read_text())

    def test_encode(self):
        folder, text = self.dir / "splits", self.dir / "documents.txt"
        folder.mkdir()
        text.write_text("ab\n<|endoftext|>\nc\n<|endoftext|>\nd")
        self.assertEqual(regroup.encode(Path(self.model), text, folder), 5)  # BOS and bytes; a byte b is token b + 3
        splits = [{k: v.tolist() for k, v in np.load(folder / f"{name}.npz").items()} for name in ("stories", "valid")]
        self.assertEqual(splits, [{"ids": [1, 100, 101, 1, 102], "lengths": [3, 2]}, {"ids": [1, 103], "lengths": [2]}])

    @unittest.skipUnless(HAS_TORCH, "PyTorch is not installed")
    def test_healing_lowers_perplexity(self):
        text, model = self.dir / "text.txt", self.dir / "mha.bin"
        text.write_text("The cat sat on the mat. " * 16)
        write_model(self.dir / "short.bin", 64)
        self.made(self.dir / "short.bin", "--kv-heads", 4)
        (self.dir / "short-kv4.bin").rename(model)
        done = self.made(model, "--kv-heads", "4,1", "--text", text, "--depth", 16, "--heal", text, "--steps", 4)
        head, whole, one = [line.split() for line in done.stdout.splitlines()[-3:]]
        self.assertEqual((head[-2:], len(whole), len(one)), (["not", "healed"], 4, 5))
        self.assertLess(float(one[3]), float(one[4]))
        healed = self.dir / "mha-kv1.bin"
        self.good(healed, "--check")
        self.assertIn(b"ok", self.good(healed, "--selftest"))
        self.assertIn("perplexity  " + one[3], self.good(healed, "--perplexity", text).decode())

    def test_what_cannot_be_is_refused(self):
        for code, args, want in (
            (2, [self.model, "--kv-heads", 3], "3 KV heads cannot be made of 2 for 4 heads"),
            (2, [self.model, "--kv-heads", 8], "8 KV heads"), (2, [self.model, "--kv-heads", 0], "0 is less than 1"),
            (2, [self.model, "--kv-heads", 1, "--plot", "x.svg"], "--plot needs --text"),
            (4, [self.dir / "none.bin", "--kv-heads", 1], "No such file"),
            (3, [ROOT / "README.md", "--kv-heads", 1], "not a weights file"),
        ):  # fmt: skip
            done = self.tool(*args, "-o", self.dir)
            self.assertEqual((done.returncode, want in done.stderr), (code, True), done.stderr)


if __name__ == "__main__":
    unittest.main()
