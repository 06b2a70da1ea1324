"""tools/verify.py: golden models, broken on purpose, against probes of transformers (tests/golden/probes, which tools/golden.py
--probes NAME wrote): it names the first layer and operation that is wrong. Then files that are not probes."""

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import NamedTuple

import numpy as np
import safetensors.numpy

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/convert")]

import convert  # noqa: E402
import verify  # noqa: E402
from tern import programs  # noqa: E402
from tern.testing import golden_file  # noqa: E402
from test_golden_convert import directory  # noqa: E402


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def tensor(name: str, change):
    """Breaks a tensor of model.safetensors; change(value, all of them) gives the new one."""

    def apply(config: dict, state: dict) -> None:
        state[name] = change(state[name], dict(state))

    return apply


def key(name: str, value):
    def apply(config: dict, state: dict) -> None:
        config[name] = value

    return apply


def swap(a: str, b: str):
    def apply(config: dict, state: dict) -> None:
        state[a], state[b] = state[b], state[a]

    return apply


BREAKS = [  # golden model, what, how, and what must be named
    ("qwen3", "another theta", key("rope_parameters", {"rope_theta": 1e4, "rope_type": "default"}), "layer 0, q "),
    ("qwen3", "norms of q and k swapped", swap("model.layers.1.self_attn.q_norm.weight", "model.layers.1.self_attn.k_norm.weight"), "layer 1, q "),
    ("qwen3", "a window forgotten", key("layer_types", ["full_attention"] * 2), "layer 1, attend "),
    ("qwen3", "another layer's weights", tensor("model.layers.1.mlp.up_proj.weight", lambda _, s: s["model.layers.0.mlp.up_proj.weight"]), "layer 1, up "),
    ("qwen3", "gate and up swapped", swap("model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight"), "layer 0, gate "),
    ("qwen3", "another eps", key("rms_norm_eps", 1e-2), "layer 0, attn_norm "),
    ("llama-bias", "a bias forgotten", tensor("model.layers.1.self_attn.k_proj.bias", lambda v, _: v * 0), "layer 1, k "),
    ("llama-bias", "heads in another order", tensor("model.layers.0.self_attn.o_proj.weight", lambda v, _: v[:, ::-1].copy()), "layer 0, o "),
    ("gemma", "one is not added to a norm", tensor("model.layers.1.post_attention_layernorm.weight", lambda v, _: v - 1), "layer 1, ffn_norm "),
    ("gemma", "the final norm", tensor("model.norm.weight", lambda v, _: v - 1), "final_norm "),
    ("gemma", "another activation", key("hidden_act", "silu"), "layer 0, act "),
    ("lfm2", "a convolution backwards", tensor("model.layers.0.conv.conv.weight", lambda v, _: v[..., ::-1].copy()), "layer 0, attend "),
    ("qwen3-next", "another decay", tensor("model.layers.0.linear_attn.A_log", lambda v, _: v + 1), "layer 0, attend "),
    ("nemotron-h", "no input beside the state", tensor("model.layers.2.mixer.D", lambda v, _: v * 0), "layer 2, attend "),
    ("deepseek-v3", "a norm of compressed rows", tensor("model.layers.1.self_attn.kv_a_layernorm.weight", lambda v, _: v * 2), "layer 1, attend "),
    ("deepseek-v3", "another number of groups", key("topk_group", 1), "layer 1, router "),
    ("gemma4-e4b", "another layer's gate", tensor("model.layers.1.per_layer_input_gate.weight", lambda _, s: s["model.layers.0.per_layer_input_gate.weight"]), "layer 1, ple "),
    ("gemma4-e4b", "a scale forgotten", tensor("model.layers.0.layer_scalar", lambda v, _: v * 2), "layer 0, out "),
    ("gemma", "another embedding", tensor("model.embed_tokens.weight", lambda v, _: v * 2), "embed "),
]  # fmt: skip


class Verify(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temp.cleanup)
        cls.dir = Path(cls.temp.name)
        cls.model = cls.make("qwen3", lambda *_: None)

    @classmethod
    def make(cls, name: str, break_it, *options: str) -> Path:
        """The golden model, broken, converted."""
        golden = golden_file.read(ROOT / "tests" / "golden" / f"{name}.txt")
        with tempfile.TemporaryDirectory() as temp, contextlib.redirect_stdout(io.StringIO()) as said:
            source, out = Path(temp) / "source", cls.dir / f"{name}{len(list(cls.dir.iterdir()))}.bin"
            directory(source, golden, golden.config, False)
            config = json.loads((source / "config.json").read_text())
            state = safetensors.numpy.load_file(source / "model.safetensors")
            break_it(config, state)
            (source / "config.json").write_text(json.dumps(config))
            safetensors.numpy.save_file(state, source / "model.safetensors")
            if convert.main([str(source), str(out), *options]):
                raise AssertionError(said.getvalue())
        return out

    def verify(self, model: Path, probes: Path, *options: str) -> Result:
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            code = verify.main([str(model), str(probes), *options])
        return Result(code, out.getvalue(), err.getvalue())

    def probes(self, name: str) -> Path:
        return ROOT / "tests" / "golden" / "probes" / f"{name}.npz"

    def test_sound_models_hold(self):
        for name in ("qwen3", "llama-bias", "gemma"):
            for options in ((), ("--type", "f16"), ("--type", "bf16"), ("--type", "q8")):
                got = self.verify(self.make(name, lambda *_: None, *options), self.probes(name))
                self.assertEqual((got.returncode, got.stderr), (0, ""), got.stdout)
                self.assertRegex(got.stdout, r"\nok: (\d+) of \1 operations compared, of all layers: ")
                self.assertNotIn("no probe", got.stdout)

    def test_new_steps_hold(self):
        """Mixers, latent attention and embeddings per layer; q, k and v of latent attention, which are others here, have no
        probe."""
        for name in ("lfm2", "qwen3-next", "nemotron-h", "deepseek-v3", "gemma4-e4b"):
            got = self.verify(self.make(name, lambda *_: None), self.probes(name))
            self.assertEqual((got.returncode, got.stderr), (0, ""), got.stdout)
            self.assertRegex(got.stdout, r"\nattend +\S*\d  ")

    def test_info_names_what_mixes_positions(self):
        """./run --info of models with more than attention."""
        for name, wanted in (
            # 3 layers keep one row of 32 numbers, and a token
            ("deepseek-v2", [r"attention +latent: 4 heads read one row of 22 \+ 10", rf"cache +{3 * 32 * 2 + 4} \(f16\), {3 * 32 * 4 + 4} \(f32\)"]),
            # 2 layers keep 2 heads of 10; 3 keep 3 rows of 40 in each of 3 records and 5 snapshots, and one in 80 rows of a log
            ("lfm2", [r"attention +4 heads, 2 KV heads", r"mixers +2 attention, 3 short convolution", rf"cache +{2 * 2 * 2 * 10 * 2 + 4} \(f16\)",
                      rf"states +{4 * 3 * (128 * 8 + 48 * 80) / 1024:.1f} KiB of recurrent layers, with a log and snapshots"]),
            ("nemotron-h", [r"mixers +1 attention, 3 recurrent, 2 none"]),
            ("qwen3", [r"attention +\d+ heads, \d+ KV heads, head dim \d+(, window \d+)?\npositions"]),
        ):  # fmt: skip
            model = self.make(name, lambda *_: None)
            said = subprocess.run([programs.library().parent / "run", model, "--info"], capture_output=True, text=True, check=True).stdout
            for line in wanted:
                self.assertRegex(said, line)

    def test_what_is_broken_is_named(self):
        for name, what, how, wanted in BREAKS:
            with self.subTest(model=name, broken=what):
                got = self.verify(self.make(name, how), self.probes(name))
                self.assertEqual(got.returncode, 6, got.stdout + got.stderr)
                self.assertTrue(got.stderr.startswith(f"verify.py: {wanted}is the first that differs: at position "), got.stderr)
                self.assertNotIn("ok:", got.stdout)
                again = got.stderr.endswith("; if layouts.py has changed since the probes were taken, take them again\n")
                self.assertEqual(again, wanted.split()[-1] in ("q", "k", "gate", "up"), got.stderr)

    def test_any_batch_threads_and_bound(self):
        for options in (["--batch", "1"], ["--batch", "7", "--threads", "2"], ["--cpu", "ref"]):
            self.assertEqual(self.verify(self.model, self.probes("qwen3"), *options).returncode, 0, options)
        got = self.verify(self.model, self.probes("qwen3"), "--bound", "1e-9")
        self.assertEqual(got.returncode, 6)
        self.assertIn("the bound is 1e-09", got.stderr)
        got = self.verify(self.model, self.probes("qwen3"), "--cache-type", "f16")
        self.assertIn("verify.py: layer 0, attend is the first", got.stderr)
        self.assertEqual(self.verify(self.model, self.probes("qwen3"), "--cache-type", "f16", "--bound", "1e-2").returncode, 0)

    def test_probes_of_another_model(self):
        got = self.verify(self.model, self.probes("gemma"))
        self.assertEqual(got.returncode, 6)
        self.assertIn("embed is the first that differs: the probes have 48 columns of it", got.stderr)

    def sound(self) -> dict:
        return dict(np.load(self.probes("qwen3")))

    def saved(self, arrays: dict, save=np.savez) -> Path:
        path = self.dir / "probes.npz"
        save(path, **arrays)
        return path

    def test_an_operation_that_the_model_lacks(self):
        got = self.verify(self.model, self.saved(self.sound() | {"layer.1.attn_post_norm": np.zeros((2, 40), "<f4")}))
        self.assertEqual(got.returncode, 6)
        self.assertIn("layer 1, attn_post_norm is the first that differs", got.stderr)
        got = self.verify(self.model, self.saved({k: v for k, v in self.sound().items() if "gate" not in k}))
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        self.assertRegex(got.stdout, r"\ngate +no probe\n")
        n = len(self.sound()) - 2
        self.assertRegex(got.stdout, rf"\nok: {n - 2} of {n} operations compared, of all layers: each is within 0.0001 of")
        got = self.verify(self.model, self.saved({k: v for k, v in self.sound().items() if k != "layer.1.gate"}), "--batch", "7")
        self.assertRegex(got.stdout, rf"\nok: {n - 1} of {n} operations compared")

    def test_numbers_that_are_none(self):
        arrays = self.sound()
        arrays["layer.1.k"][1, 3] = np.nan
        self.assertIn("layer 1, k is the first", self.verify(self.model, self.saved(arrays)).stderr)

    def test_more_rows_than_a_batch_has_logits(self):
        arrays = {"tokens": np.arange(90, dtype="<i4"), "positions": np.arange(80, dtype="<i4")}
        got = self.verify(self.model, self.saved(arrays | {"logits": np.full((80, 96), np.inf, "<f4")}))
        self.assertIn("logits is the first that differs: at position 0 and, over all rows, by up to inf of", got.stderr)

    def test_files_that_are_no_probes(self):
        def of(**more):
            return self.saved(self.sound() | more)

        cases = [
            (lambda: of(embed=np.zeros((2, 40))), "embed must be float32"),
            (lambda: of(embed=np.zeros((2, 4, 10), "<f4")), "embed must be float32 with one row for each of the 2 positions"),
            (lambda: of(embed=np.zeros((2, 0), "<f4")), "embed must be float32 with one row"),
            (lambda: of(embed=np.float32(1)), "embed must be float32 with one row"),
            (lambda: of(embed=np.zeros((3, 40), "<f4")), "embed must be float32 with one row"),
            (lambda: of(embed=np.zeros((2, 40), "<i4")), "embed must be float32"),
            (lambda: of(embed=np.array([{}, {}])), "a file of numpy.savez, is damaged"),
            (lambda: of(positions=np.array([5, 5], "<i4")), "positions must ascend"),
            (lambda: of(positions=np.array([-1, 5], "<i4")), "positions must ascend"),
            (lambda: of(positions=np.array([0, 500], "<i4")), "positions must ascend and lie within the tokens"),
            (lambda: of(positions=np.zeros(2, "<f4")), "lacks tokens or positions"),
            (lambda: self.saved({"a": np.zeros(3, "<f4")}), "lacks tokens or positions"),
            (lambda: self.saved({k: v for k, v in self.sound().items() if v.ndim == 1}), "has no probes"),
            (lambda: of(**{"laier.1.down": np.zeros((2, 40), "<f4")}), "'laier.1.down' is not an operation"),
            (lambda: of(**{"layer.1.dawn": np.zeros((2, 40), "<f4")}), "'layer.1.dawn' is not an operation"),
            (lambda: of(**{"layer.1.logits": np.zeros((2, 40), "<f4")}), "'layer.1.logits' is not an operation"),
            (lambda: of(**{"layer.x.q": np.zeros((2, 40), "<f4")}), "'layer.x.q' is not an operation"),
            (lambda: of(q=np.zeros((2, 40), "<f4")), "'q' is not an operation"),
            (lambda: of(**{"layer.1.": np.zeros((2, 40), "<f4")}), "'layer.1.' is not an operation"),
            (lambda: of(**{"a\x1b[2J": np.zeros((2, 3), "<f4")}), r"'a\x1b[2J' is not an operation"),
            (lambda: self.model, "is not a file of numpy.savez"),
        ]  # fmt: skip
        for make, wanted in cases:
            with self.subTest(wanted=wanted):
                got = self.verify(self.model, make())
                self.assertEqual((got.returncode, got.stdout), (3, ""), got.stderr)
                self.assertIn(wanted, got.stderr)
        got = self.verify(self.model, of(tokens=np.full(55, 96, "<i4")))
        self.assertEqual(got.returncode, 2)
        self.assertIn("token 96 is outside the vocabulary", got.stderr)
        self.assertEqual(self.verify(self.model, self.dir / "nothing").returncode, 4)

    def test_damaged_files(self):
        whole, path = self.probes("qwen3").read_bytes(), self.dir / "damaged.npz"
        for at in range(0, len(whole), 97):
            for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]):
                path.write_bytes(damaged)
                got = self.verify(self.model, path)
                self.assertIn(got.returncode, (0, 2, 3, 6), (at, got))


if __name__ == "__main__":
    unittest.main()
