"""The golden models through the converter: their Hugging Face directories, with config.json as transformers 5 writes
it and as models were published before, converted, run by libtern.so, held to the logits of transformers.

What test_golden.c proves of the engine, this proves of config.json: each key must arrive as the right feature.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import safetensors.numpy

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import convert  # noqa: E402
from ternlib import engine, golden_file, places  # noqa: E402
from ternlib.config import Config  # noqa: E402
from ternlib.families import FAMILIES  # noqa: E402
from ternlib.layouts import Layout  # noqa: E402
from ternlib.source import slots  # noqa: E402

GOLDEN = sorted(path for path in (ROOT / "tests" / "golden").glob("*.txt") if path.stem != "fingerprints")
LIBRARY = Path(os.environ.get("BUILD", "build")) / "libtern.so"
BOUND = 1e-4
EXPERTS = ("block_sparse_moe.", "experts.0.")  # in the names of tensors of single experts


def tokenizer_json(vocab: int) -> dict:
    """A tokenizer that has `vocab` letters and nothing else; the golden prompts are ids."""
    letters = {chr(0x21 + i): i for i in range(vocab - 2)} | {"<s>": vocab - 2, "</s>": vocab - 1}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": letters, "merges": []},
    }  # fmt: skip


def directory(folder: Path, golden: golden_file.Golden, config: dict, published: bool) -> None:
    """The golden model as a Hugging Face directory; published models have a tensor for each expert."""
    folder.mkdir()
    kind = config["model_type"]
    features = FAMILIES[kind].features(Config("golden", dict(config), FAMILIES[kind].aliases, rope_length=golden.prompt + len(golden.greedy) - 1))
    layout, state, weights = Layout(kind, features, lambda name: published and any(part in name for part in EXPERTS)), {}, golden.weights()
    for slot in slots(features):
        places.put(state, slot, layout.places(slot), weights[slot.name])
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(golden.keys["vocab"])))
    safetensors.numpy.save_file(state, folder / "model.safetensors")


class GoldenModels(unittest.TestCase):
    """One test per golden file, made below."""

    def hold(self, golden: golden_file.Golden, config: dict, published: bool) -> None:
        ids = golden.tokens()[:-1]
        with tempfile.TemporaryDirectory() as temp, contextlib.redirect_stdout(io.StringIO()) as said:
            source, out = Path(temp) / "source", Path(temp) / "out.bin"
            directory(source, golden, config, published)
            dynamic = "dynamic" in json.dumps(config)
            length = ["--rope-length", str(golden.prompt + len(golden.greedy) - 1)] if dynamic else []
            self.assertEqual(convert.main([str(source), str(out), *length]), 0, said.getvalue())
            with engine.Engine(LIBRARY, out, golden.keys["vocab"], len(ids)) as e:
                logits = e.logits(ids, golden.prompt)
        self.assertGreaterEqual(len(golden.rows), 6)
        for at, row in golden.rows.items():
            self.assertLessEqual(np.abs(logits[at] - row).max(), BOUND * np.abs(row).max(), f"position {at}")
        self.assertEqual(logits[golden.prompt - 1 :].argmax(-1).tolist(), golden.greedy)


def test_of(path: Path):
    def test(self):
        golden = golden_file.read(path)
        with self.subTest(spelling="transformers 5"):
            self.hold(golden, golden.config, False)
        with self.subTest(spelling="published"):
            self.hold(golden, golden_file.published_config(golden.config), True)

    return test


for each in GOLDEN:
    setattr(GoldenModels, "test_" + each.stem.replace("-", "_"), test_of(each))

if __name__ == "__main__":
    unittest.main()
