"""Damaged sources: each is converted by tools/convert.py, or refused with one sentence."""

import os
import random
import struct
import time
import unittest
from pathlib import Path

import gguf
import numpy as np
import safetensors.numpy

from convert_case import BLOCKS, ROOT, SMALL, Case, gguf_model, huggingface, llama2c, run, tensors, tokenizer_bin, version2
import gguf_writer
import test_convert_gguf
import test_golden_convert as golden_convert
from tern.testing import golden_file
from tern.weights.reader import WeightsFile


class Damage(Case):
    """Thousands of damaged sources: each is converted, or refused with one sentence."""

    ROUNDS = int(os.environ.get("CONVERT_FUZZ", "150"))

    def mutate(self, rng: random.Random, data: bytes, head: int) -> bytes:
        """A few changes, most of them in the first `head` bytes."""
        out = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(min(head, len(out)) if rng.random() < 0.9 else len(out))
            kind = rng.randrange(6)
            if kind == 0:
                out[at] = rng.randrange(256)
            elif kind == 1:
                out[at] ^= 1 << rng.randrange(8)
            elif kind == 2:
                out[at : at + 8] = struct.pack(
                    "<Q", rng.choice((0, 1, 1 << 31, 1 << 32, 1 << 62, 2**64 - 1, rng.getrandbits(64)))
                )
            elif kind == 3:
                del out[at : at + rng.choice((1, 4, 8, 100))]
            elif kind == 4:
                out[at:at] = out[at : at + rng.choice((1, 8, 60))]
            else:
                del out[at:]
            if not out:
                break
        return bytes(out)

    def attack(self, source: Path, file: Path, head: int, seed: int):
        whole, rng, done = file.read_bytes(), random.Random(seed), 0
        for i in range(self.ROUNDS):
            file.write_bytes(self.mutate(rng, whole, head))
            begin = time.process_time()
            code, _, err = run(source, self.out)
            self.assertLess(time.process_time() - begin, 20, (i, err))
            self.assertIn(code, (0, 2, 3, 4), (i, err))
            if code:
                self.assertEqual(err.count("\n"), 1, (i, err))
                self.assertEqual([n for n in os.listdir(self.dir) if n.endswith(".tmp")], [])
            else:
                WeightsFile(self.out)
                done += 1
        return done

    def test_llama2c(self):
        c = SMALL | {"hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 20}
        tokenizer_bin(self.dir / "tokenizer.bin")
        for version in (0, 1):
            source = llama2c(self.dir / "m.bin", c, tensors(c), version)
            self.attack(source, source, 60, version)
        self.attack(llama2c(source, c, tensors(c), 1), self.dir / "tokenizer.bin", 200, 5)

    def test_llama2c_version_2(self):
        c = SMALL | {"hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 20}
        tokenizer_bin(self.dir / "tokenizer.bin")
        version2(self.dir / "m.bin", c, tensors(c), 4, lambda m: np.maximum(m, 1) / 127)
        self.attack(self.dir / "m.bin", self.dir / "m.bin", 60, 2)

    def test_huggingface(self):
        c = SMALL | {"hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 20}
        folder = huggingface(self.dir / "m", c, tensors(c))
        (folder / "generation_config.json").write_text('{"eos_token_id": [2, 3], "temperature": 0.7, "top_k": 40}')
        for i, name in enumerate(("model.safetensors", "config.json", "generation_config.json", "tokenizer.json")):
            whole = (folder / name).read_bytes()
            done = self.attack(folder, folder / name, 3000, i)
            self.assertLess(done, self.ROUNDS, name)
            (folder / name).write_bytes(whole)
        folder = huggingface(self.dir / "s", c, tensors(c), shards=2)
        self.attack(folder, folder / "model.safetensors.index.json", 3000, 9)

    def test_gguf(self):
        c = BLOCKS | {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
        path, _ = gguf_model(self.dir / "m.gguf", c, tensors(c), "Q8_0")
        self.attack(path, path, 600, 1)
        path, _ = gguf_model(self.dir / "m.gguf", c, tensors(c), "Q4_0")
        self.attack(path, path, 1 << 20, 2)

    def test_gguf_of_other_architectures(self):
        """Their keys, fused tensors, experts, factors of RoPE."""
        for i, name in enumerate(("phi3", "gpt-oss", "falcon-40b", "qwen2-moe")):
            golden = golden_file.read(ROOT / "tests" / "golden" / f"{name}.txt")
            folder, path = self.dir / name, self.dir / f"{name}.gguf"
            config = golden_file.published_config(golden.config)
            golden_convert.directory(folder, golden, config, True)
            state = safetensors.numpy.load_file(folder / "model.safetensors")
            gguf_writer.write(path, config, state, [f"w{i}" for i in range(golden.keys["vocab"])])
            self.attack(path, path, 2500, i)

    def test_gguf_keys_of_other_types(self):
        """Each key of the architecture once as a text, a list, a negative number, ..."""
        strange = [
            ("text", gguf.GGUFValueType.STRING), (-1, gguf.GGUFValueType.INT32), (0, gguf.GGUFValueType.UINT32),
            (1 << 40, gguf.GGUFValueType.UINT64), (float("nan"), gguf.GGUFValueType.FLOAT32),
            (1.5, gguf.GGUFValueType.FLOAT32), (True, gguf.GGUFValueType.BOOL), ([3, 1], gguf.GGUFValueType.ARRAY),
        ]  # fmt: skip
        for name in ("phi3", "gpt-oss", "gemma3", "falcon"):
            golden = golden_file.read(ROOT / "tests" / "golden" / f"{name}.txt")
            folder, path = self.dir / name, self.dir / f"{name}.gguf"
            config = golden_file.published_config(golden.config)
            golden_convert.directory(folder, golden, config, True)
            state = safetensors.numpy.load_file(folder / "model.safetensors")

            def written(more=lambda w: None):
                gguf_writer.write(path, config, state, [f"w{i}" for i in range(golden.keys["vocab"])], more)

            written()
            for key in [f for f in gguf.GGUFReader(path).fields if f.split(".")[0] in (name, name.replace("-", ""), "split")]:
                for value, kind in strange:
                    sub = gguf.GGUFValueType.INT32 if kind == gguf.GGUFValueType.ARRAY else None
                    written(lambda w: w.kv_data[0].update({key: gguf.GGUFValue(value, kind, sub)}))
                    code, _, err = run(path, self.out)
                    self.assertIn(code, (0, 2, 3, 4), (key, value, err))
                    self.assertLessEqual(err.count("\n"), 1, (key, value, err))

    def test_mxfp4(self):
        case = test_convert_gguf.GptOss("test_directory_packed_or_not_and_gguf_agree")
        case.dir = self.dir
        folder = case.directory(case.model(np.random.default_rng(1)), True)
        self.attack(folder, folder / "model.safetensors", 3000, 1)


if __name__ == "__main__":
    unittest.main()
