"""tools/plot_bench.py: what it reads, what it puts where, and its pictures where matplotlib is."""

import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools/plot_bench.py"
sys.path.insert(0, str(TOOL.parent))

from tern import plot as tool  # noqa: E402

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


def row(prompt: int, generated: int, **more) -> dict:
    """A row as bench prints it, of the fields that are read."""
    return {
        "model_type": "1.1b q4", "weight_type": "q4", "n_prompt": prompt, "n_gen": generated, "n_depth": 0,
        "n_threads": 2, "n_batch": 512, "type_k": "f16", "avg_ts": 10.5, "stddev_ts": 0.5,
        "pct_peak": 40.0, "pct_bandwidth": 90.0, **more,
    }  # fmt: skip


class PlotBench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tern-plot-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)
        self.rows = [
            row(p, n, n_depth=d, n_threads=t, avg_ts=100.0 / (t + d))
            for p, n in ((512, 0), (0, 128)) for d in (0, 512) for t in (1, 2)
        ]  # fmt: skip

    def write(self, name: str, text: str) -> str:
        (self.dir / name).write_text(text)
        return str(self.dir / name)

    def call(self, *args) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, TOOL, *map(str, args)], capture_output=True, text=True)

    def test_three_forms_are_read_alike(self):
        columns = list(self.rows[0])
        lines = [",".join(columns)] + [",".join(f'"{r[c]}"' for c in columns) for r in self.rows]
        files = [
            self.write("a.json", json.dumps(self.rows)),
            self.write("a.jsonl", "".join(json.dumps(r) + "\n" for r in self.rows)),
            self.write("a.csv", "\n".join(lines) + "\n"),
        ]
        first, second, third = map(tool.read, files)
        self.assertEqual(first, second)
        self.assertEqual(first, third)
        self.assertEqual((first[0].model, first[0].type, first[0].test), ("1.1b", "q4", "pp512"))
        self.assertEqual((first[0].percent, first[-1].percent), (40.0, 90.0))

    def test_costs_of_attention(self):
        rows = [{"test": "attention", "line": line, "n_keys": n, "median_ns": 1e6 * n, "bytes": 2e6, "macs": 3e6, "scratch_bytes": 4e3}
                for line in ("naive", "engine") for n in (64, 128)]  # fmt: skip
        file = self.write("cost.jsonl", "".join(json.dumps(r) + "\n" for r in rows))
        costs = tool.read(file)
        self.assertEqual(costs[1], tool.Cost("naive", 128, 128.0, 2.0, 3.0, 4.0))
        done = self.call(file, self.write("rows.json", json.dumps(self.rows)))
        self.assertEqual((done.returncode, "do not fit one figure" in done.stderr), (3, True))
        if HAS_MATPLOTLIB:
            svg = self.dir / "cost.svg"
            done = self.call(file, "-o", svg)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for word in ("naive", "engine", "What attention costs", *tool.COSTS.values()):
                self.assertIn(word, svg.read_text())

    def test_llama_bench_has_no_limits(self):
        plain = {k: v for k, v in row(0, 128).items() if not k.startswith("pct") and k != "weight_type"}
        (result,) = tool.read(self.write("b.json", json.dumps([plain])))
        self.assertEqual((result.type, result.percent), ("q4", None))

    def test_axis_and_series(self):
        results = [tool.to_result(r) for r in self.rows]
        self.assertEqual(tool.choose_axis(results, None), "depth")
        self.assertEqual(tool.choose_axis(results, "threads"), "threads")
        self.assertEqual(tool.choose_axis(results[:1], None), "type")
        prompts = [r for r in results if r.is_prompt]
        self.assertEqual(list(tool.series_of(prompts, "depth")), ["1 thread", "2 threads"])
        self.assertEqual(list(tool.series_of(prompts, "threads")), ["depth 0", "depth 512"])
        points = tool.merge(tool.series_of(prompts, "depth")["1 thread"], "depth", lambda r: r.speed)
        self.assertEqual(points, [(0, 100.0, 0.5), (512, 100.0 / 513, 0.5)])

    def test_what_cannot_be_read_is_said(self):
        for code, args, want in (
            (4, ["no-such-file"], "cannot read"), (3, [self.write("c", "{}")], "KeyError"),
            (3, [self.write("d", "[1]")], "not results"), (3, [self.write("e", "")], "no results"),
            (3, [self.write("f", "[{]")], "not results"), (2, [self.write("g", "[]"), "-o", "x.pdf"], ".svg or .png"),
        ):  # fmt: skip
            done = self.call(*args)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertRegex(done.stderr, r"\Aplot_bench.py: [^\n]+\n\Z")
            self.assertIn(want, done.stderr)

    @unittest.skipUnless(HAS_MATPLOTLIB, "no matplotlib")
    def test_pictures(self):
        file = self.write("a.jsonl", "".join(json.dumps(r) + "\n" for r in self.rows))
        for axis in ("depth", "type"):
            png, svg = self.dir / f"{axis}.png", self.dir / f"{axis}.svg"
            done = self.call(file, "--x", axis, "-o", png, "-o", svg, "--title", "A title")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(png.read_bytes()[:4], b"\x89PNG")
            text = svg.read_text()
            for word in ("A title", "prompt: tokens per second", "read bandwidth", tool.AXES[axis]):
                self.assertIn(word, text)
        self.assertFalse(list(self.dir.glob("*.tmp")))

    @unittest.skipIf(HAS_MATPLOTLIB, "matplotlib is there")
    def test_without_matplotlib(self):
        done = self.call(self.write("a.json", json.dumps(self.rows)))
        self.assertEqual(done.returncode, 2)
        self.assertIn("requirements-plots.txt", done.stderr)


if __name__ == "__main__":
    unittest.main()
