"""The table of all causal language models of transformers in tools/README.md beside the converter and the golden models."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from tern.convert.families.families import FAMILIES  # noqa: E402
from tern.convert.sources import huggingface  # noqa: E402
from tern.errors import ConvertError  # noqa: E402
from tern.testing import census, golden_file  # noqa: E402

# Text models that transformers has under the name of the whole model, or not as a causal model of its own.
PARTS = {"emu3_text_model", "mllama_text_model", "mistral4"}
SHARED = {"emu3": "llama", "phi4_multimodal": "phi3", "gpt-sw3": "gpt2"}  # the graph of another family


class Census(unittest.TestCase):
    def setUp(self):
        self.read, self.refused = census.read_tables()

    def test_all_are_there(self):
        self.assertEqual(len(self.read) + len(self.refused), 189)
        self.assertGreaterEqual(len(self.read), 110)

    def test_what_is_read_is_read(self):
        self.assertEqual({kind for kind in self.read if not census.is_read(kind)}, set())
        self.assertEqual(set(FAMILIES) - set(self.read), PARTS)

    def test_golden_models_are_of_these_types(self):
        for kind, names in self.read.items():
            kinds = {kind, SHARED.get(kind), *huggingface.COMPOSITE.get(kind, ())}
            for name in names:
                golden = golden_file.read(ROOT / "tests" / "golden" / f"{name}.txt").config["model_type"]
                self.assertIn(golden, kinds, name)

    def test_what_is_refused_is_refused_by_name(self):
        with tempfile.TemporaryDirectory() as temp:
            for kind in self.refused:
                self.assertNotEqual(self.refused[kind], "", kind)
                (Path(temp) / "config.json").write_text(json.dumps({"model_type": kind}))
                with self.assertRaisesRegex(ConvertError, f"the model_type '{kind}' is not understood"):
                    huggingface.features(Path(temp), None, [])


if __name__ == "__main__":
    unittest.main()
