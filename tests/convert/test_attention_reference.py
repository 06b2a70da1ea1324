"""What look sees inside a model against transformers: rows of attention and the stream, of golden models with grouped heads, a
window, sinks, a soft cap, experts, and normed queries (tests/golden/attention, which tools/golden.py --attention NAME wrote)."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/convert")]

import convert  # noqa: E402
from tern.testing import golden_file  # noqa: E402
from test_golden_convert import directory  # noqa: E402

LOOK = os.environ.get("LOOK", "./look")


class Reference(unittest.TestCase):
    def hold(self, name: str) -> None:
        golden = golden_file.read(ROOT / "tests/golden" / f"{name}.txt")
        seen = np.load(ROOT / "tests/golden/attention" / f"{name}.npz")
        rows, n = seen["rows"], seen["attention.0"].shape[-1]
        with tempfile.TemporaryDirectory() as temp, contextlib.redirect_stdout(io.StringIO()) as said:
            directory(Path(temp) / "source", golden, golden.config, False)
            model, out = Path(temp) / "model.bin", Path(temp) / "out.npz"
            self.assertEqual(convert.main([str(Path(temp) / "source"), str(model)]), 0, said.getvalue())
            ids = ",".join(map(str, golden.tokens()[:n]))
            subprocess.run([LOOK, model, "--prompt-ids", ids, "--cache-type", "f32", "-q", "--capture", out], check=True, cwd=ROOT)
            got = dict(np.load(out))
        layers = golden.keys["n_layers"]
        for layer in range(layers):
            pattern = got[f"blocks.{layer}.attn.hook_pattern"][0][:, rows]
            np.testing.assert_allclose(pattern, seen[f"attention.{layer}"], atol=2e-5, err_msg=f"layer {layer}")
            self.close(got[f"blocks.{layer}.hook_resid_pre"][0][rows], seen[f"hidden.{layer}"])
        self.close(got[f"blocks.{layers - 1}.hook_resid_post"][0][rows], seen[f"hidden.{layers}"])

    def close(self, a: np.ndarray, b: np.ndarray) -> None:
        np.testing.assert_allclose(a, b, atol=2e-5 * np.abs(b).max())


for path in sorted((ROOT / "tests/golden/attention").glob("*.npz")):
    setattr(Reference, f"test_{path.stem.replace('-', '_')}", lambda self, name=path.stem: self.hold(name))

if __name__ == "__main__":
    unittest.main()
