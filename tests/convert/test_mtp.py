"""Layers that guess further tokens (MTP) through the converter: published directories, whose tensors must arrive where
tests/unit/test_mtp.c holds the logits to the published definition."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import safetensors.numpy

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(Path(__file__).parent)]

import convert  # noqa: E402
import gguf_writer  # noqa: E402
import test_golden_convert as golden_convert  # noqa: E402
from tern.convert.families import mtp, places  # noqa: E402
from tern.convert.families.config import Config  # noqa: E402
from tern.convert.families.families import FAMILIES  # noqa: E402
from tern.convert.families.features import slots  # noqa: E402
from tern.convert.families.layouts import Layout  # noqa: E402
from tern.testing import golden_file  # noqa: E402
from tern.weights.reader import WeightsFile  # noqa: E402

GOLDEN = sorted((ROOT / "tests" / "golden" / "mtp").glob("*.txt"))


def directory(folder: Path, golden: golden_file.Golden, **changes) -> dict[str, np.ndarray]:
    """The golden model as it would be published, without its weights, which are returned."""
    folder.mkdir()
    kind, config = golden.config["model_type"], golden.config | changes
    features = FAMILIES[kind].features(Config("golden", dict(config), FAMILIES[kind].aliases))
    n = features["n_layers"]
    mtp.add(features)
    layout, state = Layout(kind, features, lambda name: any(part in name for part in golden_convert.EXPERTS)), {}
    weights = golden.weights()
    for slot in slots(features):
        places.put(state, slot, layout.places(slot), weights[slot.name])
    behind = f"model.layers.{n}."
    if kind.startswith("qwen"):
        apart = {there: here for here, there in mtp.APART.items()}
        for name in [name for name in state if name.startswith(behind)]:
            part = name.removeprefix(behind)
            state["mtp." + apart.get(part, "layers.0." + part)] = state.pop(name)
    else:
        state[behind + "embed_tokens.weight"] = state["model.embed_tokens.weight"]
        state[behind + "shared_head.head.weight"] = state["lm_head.weight"]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(golden_convert.tokenizer_json(golden.keys["vocab"])))
    return state


class Mtp(unittest.TestCase):
    def converted(self, golden: golden_file.Golden, change=lambda state: None, **changes) -> tuple[WeightsFile, str]:
        with tempfile.TemporaryDirectory() as temp, contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
            source, out = Path(temp) / "source", Path(temp) / "out.bin"
            state = directory(source, golden, **changes)
            change(state)
            safetensors.numpy.save_file(state, source / "model.safetensors")
            self.assertEqual(convert.main([str(source), str(out), "--type", "f32"]), 0, said.getvalue())
            file = WeightsFile(out)
            self.values = {name: file.values(name) for name in file.tensors}
        return file, said.getvalue()

    def test_published_directories(self):
        for path in GOLDEN:
            golden = golden_file.read(path)
            with self.subTest(path.stem):
                file, said = self.converted(golden)
                self.assertNotIn("left out", said)
                self.assertEqual(set(file.tensors), {slot.name for slot in golden.slots})
                self.assertEqual(file.config["mtp"], 1)
                for name, want in golden.weights().items():
                    np.testing.assert_allclose(self.values[name].reshape(want.shape), want, rtol=1e-6, atol=1e-7, err_msg=name)

    def test_gguf(self):
        """From a GGUF file come the tensors and features that come from the directory, bit for bit."""
        for path in GOLDEN:
            golden = golden_file.read(path)
            with self.subTest(path.stem), tempfile.TemporaryDirectory() as temp, contextlib.redirect_stdout(io.StringIO()) as said:
                source, file = Path(temp) / "source", Path(temp) / "m.gguf"
                state = directory(source, golden)
                safetensors.numpy.save_file(state, source / "model.safetensors")
                config = golden_file.published_config(golden.config)
                vocabulary = json.loads((source / "tokenizer.json").read_text())["model"]["vocab"]
                gguf_writer.write(file, config, state, list(vocabulary))
                for each in (source, file):
                    self.assertEqual(convert.main([str(each), str(each.with_suffix(".bin")), "--type", "f32"]), 0, said.getvalue())
                self.assertNotIn("left out", said.getvalue())
                ours, wanted = (WeightsFile(each.with_suffix(".bin")) for each in (file, source))
                self.assertEqual(ours.config["mtp"], 1)
                self.assertEqual(set(ours.config), set(wanted.config))
                for key, value in wanted.config.items():
                    np.testing.assert_array_equal(ours.config[key], value, key)
                self.assertEqual({n: t["xxh64"] for n, t in ours.tensors.items()}, {n: t["xxh64"] for n, t in wanted.tensors.items()})

    def test_left_out(self):
        def without_norm(state):
            del state["model.layers.3.hnorm.weight"]

        def own_head(state):
            state["model.layers.3.shared_head.head.weight"] = state["lm_head.weight"] + 1

        golden = golden_file.read(ROOT / "tests" / "golden" / "mtp" / "deepseek-v3.txt")
        for change, changes, why in (
            (lambda state: None, {"num_nextn_predict_layers": 0}, "left out"),
            (without_norm, {"num_nextn_predict_layers": 1}, "left out"),
            (own_head, {"num_nextn_predict_layers": 1}, "has its own head, which is not understood"),
        ):
            file, said = self.converted(golden, change, **changes)
            self.assertIn(why, said)
            self.assertIn("tensors of layers that guess further tokens are left out", said)
            self.assertNotIn("mtp", file.config)
            self.assertFalse([name for name in file.tensors if name.startswith("layer.3.")])


if __name__ == "__main__":
    unittest.main()
