"""The Python twin of the toy models: its files are, byte for byte, those of tests/support/toy.c.

tests/unit/test_weights.c holds toy_write to the same numbers, so that neither side needs the other to run.
"""

import io
import sys
import unittest
from pathlib import Path

import xxhash

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from tern.testing import toyfile  # noqa: E402
from tern.weights import tiles  # noqa: E402

# XXH64 of the file of toy_default(), by type.
FILES = {
    "f32": 0x55E0421481A0EB1C,
    "f16": 0x423D9895BF1D1807,
    "bf16": 0xE50CA63EF8415CEF,
    "q8": 0x40E4D3A1CE595178,
    "q4": 0xF952A1923B4EB99C,
    "q4c": 0x64CA6546CF4F609D,
}

DEFAULT = {
    "n_layers": 2, "dim": 64, "vocab": 259, "max_seq": 64, "norm_eps": 1e-5, "head_tied": 1,
    "n_heads": 4, "n_kv_heads": 2, "head_dim": 16, "hidden": 160, "window": [0, 0],
    "attn_bias": 0, "ffn_bias": 0,
}  # fmt: skip


class ToyFiles(unittest.TestCase):
    def test_files_are_those_of_c(self):
        for name, want in FILES.items():
            with self.subTest(name):
                out = io.BytesIO()
                toyfile.write(out, DEFAULT, 1, tiles.BY_NAME[name])
                self.assertEqual(f"{xxhash.xxh64_intdigest(out.getvalue()):016x}", f"{want:016x}")


if __name__ == "__main__":
    unittest.main()
