"""What look sees inside a model against other tools.

- transformers: rows of attention and the stream, of golden models with grouped heads, a window, sinks, a soft cap, experts, and
  normed queries (tests/golden/attention, which tools/golden.py --attention NAME wrote).
- TransformerLens: every array of --capture, of models with grouped heads, learned positions, a parallel feed-forward, soft caps
  and norms on both sides, clipped values, and neighbours that rotate (tests/golden/hooks, tools/golden.py --hooks NAME).
"""

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
BOUND = 2e-5  # of the largest value of an array
LEFT_OUT = {  # the embedding without its positions, q and k before their norm, v before its clip, each expert's inside
    "gpt2": ["hook_embed"], "cohere": ["hook_k", "hook_q"], "olmoe-clip": ["hook_k", "hook_post", "hook_pre", "hook_q", "hook_v"],
}  # fmt: skip
ROTATES_NEIGHBOURS = ("cohere",)


def captured(golden: golden_file.Golden, n: int) -> dict[str, np.ndarray]:
    """What look writes for the first n tokens of a golden test."""
    with tempfile.TemporaryDirectory() as temp, contextlib.redirect_stdout(io.StringIO()):
        source, model, out = (Path(temp) / name for name in ("source", "model.bin", "out.npz"))
        directory(source, golden, golden.config, False)
        assert convert.main([str(source), str(model)]) == 0
        ids = ",".join(map(str, golden.tokens()[:n]))
        subprocess.run([LOOK, model, "--prompt-ids", ids, "--cache-type", "f32", "-q", "--capture", out], check=True, cwd=ROOT)
        return dict(np.load(out))


class Reference(unittest.TestCase):
    def close(self, a: np.ndarray, b: np.ndarray, name: str) -> None:
        self.assertEqual(a.shape, b.shape, name)
        np.testing.assert_allclose(a, b, rtol=0, atol=BOUND * np.abs(b).max(), err_msg=name)

    def hold_attention(self, name: str) -> None:
        golden = golden_file.read(ROOT / "tests/golden" / f"{name}.txt")
        seen = np.load(ROOT / "tests/golden/attention" / f"{name}.npz")
        rows, got = seen["rows"], captured(golden, seen["attention.0"].shape[-1])
        layers = golden.keys["n_layers"]
        for layer in range(layers):
            pattern = got[f"blocks.{layer}.attn.hook_pattern"][0][:, rows]
            self.close(pattern, seen[f"attention.{layer}"], f"layer {layer}")
            self.close(got[f"blocks.{layer}.hook_resid_pre"][0][rows], seen[f"hidden.{layer}"], f"layer {layer}")
        self.close(got[f"blocks.{layers - 1}.hook_resid_post"][0][rows], seen[f"hidden.{layers}"], "the last layer")

    def hold_hooks(self, name: str) -> None:
        golden = golden_file.read(ROOT / "tests/golden" / f"{name}.txt")
        seen = dict(np.load(ROOT / "tests/golden/hooks" / f"{name}.npz"))
        rows, got = seen.pop("rows"), captured(golden, int(seen.pop("tokens")))
        layers = ("hook_embed", "blocks.0.", f"blocks.{golden.keys['n_layers'] - 1}.")
        ours = {hook: x[0] for hook, x in got.items() if hook.startswith(layers)}
        self.assertEqual(set(ours) - set(seen), set())
        self.assertEqual(sorted({hook.split(".")[-1] for hook in set(seen) - set(ours)}), LEFT_OUT.get(name, []))
        for hook, x in ours.items():
            is_square = hook.endswith(("hook_attn_scores", "hook_pattern"))
            x, theirs = x[:, rows] if is_square else x[rows], seen[hook]
            if hook.endswith(("hook_rot_q", "hook_rot_k")) and name in ROTATES_NEIGHBOURS:
                theirs = np.concatenate([theirs[..., 0::2], theirs[..., 1::2]], -1)
            if hook.endswith("hook_attn_scores"):  # theirs are those of transformers, which adds the least f32 where it masks
                masked = theirs < -1e30
                np.testing.assert_array_equal(np.isneginf(x), masked, hook)
                x, theirs = np.where(masked, 0, x), np.where(masked, 0, theirs)
            self.close(x, theirs, hook)


for kind in ("attention", "hooks"):
    for path in sorted((ROOT / "tests/golden" / kind).glob("*.npz")):
        test = lambda self, hold=f"hold_{kind}", name=path.stem: getattr(self, hold)(name)  # noqa: E731
        setattr(Reference, f"test_{kind}_{path.stem.replace('-', '_')}", test)

if __name__ == "__main__":
    unittest.main()
