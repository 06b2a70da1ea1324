"""tools/convert.py on llama2.c checkpoints and Hugging Face directories, and types of numbers."""

import json
import os
import struct
import unittest
import unittest.mock

import numpy as np

from convert_case import (
    HF, SMALL, Case, gguf_model, huggingface, llama2c, run, safetensors_file, tensors, tokenizer_bin, version2,
)  # fmt: skip
from tern.convert.families import names
from tern.weights import tiles
from tern.weights import writer as weights
from tern.weights.reader import WeightsFile


class Llama2c(Case):
    def test_both_versions_hold_the_same_model(self):
        for tied in (True, False):
            c = SMALL | {"tie_word_embeddings": tied}
            values = tensors(c)
            tokenizer_bin(self.dir / "tokenizer.bin")
            for version in (0, 1):
                w = self.converted(llama2c(self.dir / "m.bin", c, values, version))
                self.same(w, values, tiles.F32)
                self.assertEqual(w.config["head_tied"], int(tied))
                self.assertEqual(w.config["n_kv_heads"], 2)
                self.assertEqual(w.config["max_seq"], 256)
                self.assertEqual(list(w.keys("generation")["end_tokens"]), [1, 2])

    def test_tokenizer_without_bytes(self):
        """Trained without them (babyllama, the Chinese poems), token 3 is a piece like any other."""
        pieces = ["<unk>", "<s>", "</s>", "\u82b1", " ", "t", "h", "e", "th", "the", " the", "\u6708"]
        body = b"".join(struct.pack("<fi", -float(i), len(p.encode())) + p.encode() for i, p in enumerate(pieces))
        (self.dir / "tokenizer.bin").write_bytes(struct.pack("<i", 5) + body)
        c = SMALL | {"vocab_size": len(pieces)}
        w = self.converted(llama2c(self.dir / "m.bin", c, tensors(c), 0))
        t = w.keys("tokenizer")
        self.assertNotIn("byte_fallback", t)
        self.assertEqual(t["tokens.types"], bytes([2, 3, 3] + [1] * 9))
        vectors = w.keys("vectors")  # a character that no piece has is <unk>
        self.assertIn(0, vectors["plain.ids"])
        whole = tokenizer_bin(self.dir / "tokenizer.bin").read_bytes()
        (self.dir / "tokenizer.bin").write_bytes(whole.replace(b"<0x07>", b"<0x7F>", 1))
        self.assertIn("token 10 is", self.refused(llama2c(self.dir / "m.bin", SMALL, tensors(SMALL), 0)))

    def test_tokenizer_of_another_format(self):
        source = llama2c(self.dir / "m.bin", SMALL, tensors(SMALL), 0)
        for head in (b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02", b'{"version": "1.0"}'):
            (self.dir / "t").write_bytes(head)
            self.assertIn("is not a tokenizer.bin", self.refused(source, "--tokenizer", self.dir / "t", code=2))

    def test_tokenizer_can_be_named_and_must_be_there(self):
        source = llama2c(self.dir / "m.bin", SMALL, tensors(SMALL), 0)
        self.assertIn("--tokenizer", self.refused(source, code=2))
        self.converted(source, "--tokenizer", tokenizer_bin(self.dir / "other.bin"))

    def test_heads_are_turned_whole_however_small_the_pieces(self):
        c = SMALL | {"num_attention_heads": 2}  # heads of 24 rows do not fit tiles of 16
        values = tensors(c)
        tokenizer_bin(self.dir / "tokenizer.bin")
        with unittest.mock.patch.object(weights, "PIECE_BYTES", 1):
            self.same(self.converted(llama2c(self.dir / "m.bin", c, values, 1)), values, tiles.F32)

    def test_a_cut_or_lengthened_file_is_refused(self):
        source = llama2c(self.dir / "m.bin", SMALL, tensors(SMALL), 1)
        tokenizer_bin(self.dir / "tokenizer.bin")
        whole = source.read_bytes()
        for data in (whole[:-1], whole + b"\0", whole[:200], whole[:3], b"", whole[:256]):
            source.write_bytes(data)
            self.refused(source)

    def test_large_numbers_are_refused_at_once(self):
        source, most = self.dir / "m.bin", (1 << 31) - 1
        for i in range(7):
            for value in (most, -most - 1, 0, 1 << 20):
                sizes = [64, 96, 2, 4, 4, 300, 256]
                sizes[i] = value
                if i != 6 or value != 1 << 20:
                    source.write_bytes(struct.pack("<7i", *sizes) + bytes(64))
                    self.refused(source)

    def test_version_2(self):
        """Scales that f16 has: q8, bit for bit; others, or rows and groups that do not fit: f32, value for value."""
        tokenizer_bin(self.dir / "tokenizer.bin")
        power = lambda m: 2.0 ** np.ceil(np.log2(np.maximum(m, 2.0**-8) / 127))  # noqa: E731
        exact = lambda m: np.maximum(m, 2.0**-8) / 127  # noqa: E731
        c = SMALL | {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
        small = c | {"hidden_size": 48, "intermediate_size": 80}
        for what, shape, group, scale, kind in (
            ("fits", c, 32, power, tiles.Q8), ("larger groups", c, 64, power, tiles.Q8),
            ("own scales", c, 32, exact, tiles.F32), ("small groups", c, 16, power, tiles.F32),
            ("short rows", small, 16, power, tiles.F32), ("groups over rows", small, 96, power, tiles.F32),
            ("tied", c | {"tie_word_embeddings": True}, 32, power, tiles.Q8),
        ):  # fmt: skip
            with self.subTest(what):
                held = version2(self.dir / "m.bin", shape, tensors(shape), group, scale)
                w = self.converted(self.dir / "m.bin")
                self.same(w, held, kind)
                told = run(self.dir / "m.bin", self.out)[1]
                self.assertEqual("kept exactly, as f32" in told, kind == tiles.F32)
                self.same(self.converted(self.dir / "m.bin", "--type", "f32"), held, tiles.F32)

    def test_version_2_with_pieces_of_a_few_rows(self):
        tokenizer_bin(self.dir / "tokenizer.bin")
        c = SMALL | {"hidden_size": 48, "intermediate_size": 96}
        self.addCleanup(setattr, weights, "PIECE_BYTES", weights.PIECE_BYTES)
        weights.PIECE_BYTES = 16 * 48 * 4
        held = version2(self.dir / "m.bin", c, tensors(c), 96, lambda m: np.maximum(m, 2.0**-8) / 127)
        self.same(self.converted(self.dir / "m.bin"), held, tiles.F32)

    def test_version_2_that_lies(self):
        tokenizer_bin(self.dir / "tokenizer.bin")
        version2(self.dir / "m.bin", SMALL, tensors(SMALL), 16, lambda m: np.maximum(m, 1))
        whole = (self.dir / "m.bin").read_bytes()
        for group, said in ((0, "group"), (-5, "group"), (1 << 30, "group"), (7, "whole groups"), (48, "asks for")):
            (self.dir / "m.bin").write_bytes(whole[:37] + struct.pack("<i", group) + whole[41:])
            self.assertIn(said, self.refused(self.dir / "m.bin"))
        (self.dir / "m.bin").write_bytes(whole[:-1])
        self.assertIn("asks for", self.refused(self.dir / "m.bin"))

    def test_other_versions_are_named(self):
        source = self.dir / "m.bin"
        source.write_bytes(struct.pack("<Ii", 0x616B3432, 3).ljust(300, b"\0"))
        self.assertIn("version 3", self.refused(source))


class HuggingFace(Case):
    def test_types_and_shards(self):
        for dtype, kind in (("float32", tiles.F32), ("float16", tiles.F16), ("bfloat16", tiles.BF16)):
            for shards in (1, 3):
                folder = self.dir / f"{dtype}{shards}"
                values = tensors(SMALL)
                w = self.converted(huggingface(folder, SMALL, values, dtype, shards))
                self.same(w, values, kind)

    def test_features_of_llama(self):
        w = self.converted(huggingface(self.dir / "m", SMALL, tensors(SMALL)))
        self.assertEqual(
            {k: v for k, v in w.config.items() if not k.startswith("rope.")},
            {
                "n_layers": 2, "dim": 48, "vocab": 300, "max_seq": 256, "norm_eps": float(np.float32(1e-5)),
                "head_tied": 0, "n_heads": 6, "n_kv_heads": 2, "head_dim": 8, "hidden": 80, "window": 0, "rope_set": 1,
                "attn_scale": float(np.float32(8**-0.5)), "attn_bias": 0, "ffn_bias": 0, "activation": b"silu",
            },
        )  # fmt: skip
        self.assertEqual(w.config["rope.0.factor"], 1.0)
        self.assertEqual(w.config["rope.0.inv_freq"].tolist(), np.array([1, 0.1, 0.01, 0.001], "f4").tolist())

    def test_biases_and_head_dim(self):
        c = SMALL | {"attention_bias": True, "mlp_bias": True, "head_dim": 16}
        values = tensors(c, "q k v o gate up down")
        w = self.converted(huggingface(self.dir / "m", c, values))
        self.same(w, values, tiles.F32)
        self.assertEqual((w.config["attn_bias"], w.config["ffn_bias"], w.config["head_dim"]), (15, 7, 16))

    def test_tied_heads(self):
        c = SMALL | {"tie_word_embeddings": True}
        values = tensors(c)
        self.assertEqual(self.converted(huggingface(self.dir / "a", c, values)).config["head_tied"], 1)
        both = values | {"head": values["embed"]}
        self.assertEqual(self.converted(huggingface(self.dir / "b", c, both)).config["head_tied"], 1)
        differ = values | {"head": values["embed"] + 1}
        w = self.converted(huggingface(self.dir / "c", c, differ))
        self.same(w, differ, tiles.F32)
        only = {n: x for n, x in values.items() if n != "embed"} | {"head": values["embed"]}
        self.same(self.converted(huggingface(self.dir / "d", c, only)), values, tiles.F32)
        self.assertIn("tie_word_embeddings", self.refused(huggingface(self.dir / "e", SMALL, values)))

    def test_windows(self):
        mistral = SMALL | {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 32}
        values = tensors(SMALL)
        self.assertEqual(self.converted(huggingface(self.dir / "a", mistral, values)).config["window"], 32)
        listed = mistral | {"layer_types": ["sliding_attention", "full_attention"]}
        self.assertIn("layer_types", self.refused(huggingface(self.dir / "b", listed, values)))
        none = mistral | {"sliding_window": None}
        self.assertEqual(self.converted(huggingface(self.dir / "b", none, values)).config["window"], 0)
        qwen = SMALL | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "sliding_window": 16}
        qwen |= {"use_sliding_window": True, "max_window_layers": 1}
        biased = tensors(SMALL, "q k v")
        w = self.converted(huggingface(self.dir / "c", qwen, biased))
        self.assertEqual((w.per_layer("window"), w.config["attn_bias"]), ([0, 16], 7))
        self.same(w, biased, tiles.F32)
        listed = qwen | {"layer_types": ["sliding_attention", "full_attention"]}
        self.assertEqual(self.converted(huggingface(self.dir / "d", listed, biased)).per_layer("window"), [16, 0])
        off = qwen | {"use_sliding_window": False}
        self.assertEqual(self.converted(huggingface(self.dir / "e", off, biased)).config["window"], 0)

    def test_old_and_new_spelling_of_rope_agree(self):
        scaling = {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
        old = SMALL | {"rope_theta": 500000.0, "rope_scaling": scaling | {"rope_type": "llama3"}}
        new = {k: v for k, v in SMALL.items() if k not in ("rope_theta", "torch_dtype")} | {"dtype": "float32"}
        new["rope_parameters"] = scaling | {"rope_type": "llama3", "rope_theta": 500000.0}
        values = tensors(SMALL)
        a = self.converted(huggingface(self.dir / "m", old, values)).config["rope.0.inv_freq"]
        b = self.converted(huggingface(self.dir / "m", new, values)).config["rope.0.inv_freq"]
        np.testing.assert_array_equal(a, b)
        # The third and fourth waves are longer than the 64 positions, so they are slowed by 8.
        plain = 500000.0 ** (-np.arange(4) / 4)
        self.assertEqual(a[0], np.float32(1))
        np.testing.assert_allclose(a[2:], plain[2:] / 8, rtol=1e-7)
        old["rope_scaling"] = {"type": "linear", "factor": 4.0}
        c = self.converted(huggingface(self.dir / "m", old, values)).config["rope.0.inv_freq"]
        np.testing.assert_allclose(c, plain / 4, rtol=1e-7)

    def test_generation_defaults_and_licence(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        stated = {
            "do_sample": True,
            "temperature": 0.6,
            "top_p": 0.9,
            "eos_token_id": [2, 7],
            "repetition_penalty": 1.1,
            "presence_penalty": 1.5,
        }
        (folder / "generation_config.json").write_text(json.dumps(stated))
        (folder / "LICENSE").write_text("Be kind.\n")
        w = self.converted(folder)
        g = w.keys("generation")
        self.assertEqual(g["end_tokens"].tolist(), [2, 7])
        self.assertEqual([np.float32(g[k]) for k in ("temperature", "top_p")], [np.float32(0.6), np.float32(0.9)])
        self.assertEqual(np.float32(g["repeat_penalty"]), np.float32(1.1))
        self.assertEqual(g["presence_penalty"], 1.5)
        self.assertNotIn("top_k", g)
        (folder / "generation_config.json").write_text('{"eos_token_id": 300, "do_sample": false, "temperature": 0.6}')
        code, out, _ = run(folder, self.out)
        self.assertEqual((code, "300" in out), (0, True))
        g = WeightsFile(self.out).keys("generation")
        self.assertEqual((g["end_tokens"], g["temperature"]), (2, 0.0))
        self.assertEqual(w.keys("provenance")["licence"], b"Be kind.\n")

    def test_unknown_keys_are_refused_by_name(self):
        values = tensors(SMALL)
        for key, value in {
            "logit_scale": 0.5, "rope_interleaved": True, "partial_rotary_factor": 0.5, "hidden_act": "tanh",
            "quantization_config": {"bits": 4}, "layer_types": ["sliding_attention"] * 2, "sliding_window": 7,
        }.items():  # fmt: skip
            self.assertIn(key, self.refused(huggingface(self.dir / "m", SMALL | {key: value}, values)))
        for scaling, word in (
            ({"rope_type": "yarm", "factor": 4.0}, "yarm"),
            ({"type": "dynamic", "factor": 4.0}, "--rope-length"),
            ({"type": "linear", "factor": 4.0, "beta": 1}, "key 'beta' is"),
            ({"type": "linear", "factor": 4.0, "gamma": 1, "beta": 1}, "keys 'beta', 'gamma' are"),
            ({"type": "linear"}, "factor"),
            ({"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 10**30}, "embeddings is 1000000000000000000000000000000; it"),
            ({"type": "longrope", "original_max_position_embeddings": 0.5}, "original_max_position_embeddings is 0.5; it must be 2 to"),
        ):
            self.assertIn(word, self.refused(huggingface(self.dir / "m", SMALL | {"rope_scaling": scaling}, values)))
        self.assertIn("gemma9", self.refused(huggingface(self.dir / "m", SMALL | {"model_type": "gemma9"}, values)))

    def test_values_of_keys_are_checked(self):
        values = tensors(SMALL)
        for key, value, word in (
            ("hidden_size", "48", "hidden_size is '48'"),
            ("hidden_size", 50, "hidden_size 50 is not a multiple"),
            ("num_hidden_layers", 0, "num_hidden_layers is 0"),
            ("num_attention_heads", -6, "num_attention_heads is -6"),
            ("num_key_value_heads", 4, "6 heads, which 4 key/value heads do not divide"),
            ("head_dim", 7, "7 of 7 dimensions"),
            ("rms_norm_eps", None, "rms_norm_eps is None"),
            ("vocab_size", 1 << 40, "vocab_size is 1099511627776"),
            ("rope_theta", True, "rope_theta is True"),
            ("rope_parameters", [1], "rope_parameters is [1]"),
            ("eos_token_id", "x", "eos_token_id is 'x'"),
            ("intermediate_size", 80.0, "intermediate_size is 80.0"),
            ("tie_word_embeddings", "no", "tie_word_embeddings is 'no'"),
            ("model_type", ["llama"], "model_type ['llama'] is not understood"),
            ("hidden_act", [], "hidden_act is []; it must be 'silu' or"),
        ):
            self.assertIn(word, self.refused(huggingface(self.dir / "m", SMALL | {key: value}, values)))

    def test_missing_extra_and_misshapen_tensors(self):
        values = tensors(SMALL)
        less = {n: x for n, x in values.items() if n != "layer.1.up"}
        self.assertIn("layers.1.mlp.up_proj.weight", self.refused(huggingface(self.dir / "m", SMALL, less)))
        wrong = values | {"layer.0.v": np.zeros((48, 16), "f4")}
        self.assertIn("[16, 48]", self.refused(huggingface(self.dir / "m", SMALL, wrong)))
        folder = huggingface(self.dir / "m", SMALL, values)
        named = {names.source_name(HF, n): x for n, x in values.items()}
        safetensors_file(
            folder / "model.safetensors", named | {"model.layers.2.mlp.up_proj.weight": np.zeros((2, 2), "f4")}
        )
        self.assertIn("layers.2.mlp", self.refused(folder))
        safetensors_file(
            folder / "model.safetensors", named | {"model.layers.0.self_attn.rotary_emb.inv_freq": np.zeros(4, "f4")}
        )
        self.same(self.converted(folder), values, tiles.F32)

    def test_shards_must_fit_their_index(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL), shards=2)
        index = folder / "model.safetensors.index.json"
        good = json.loads(index.read_text())
        for change in ("../x.safetensors", "model-00003-of-00002.safetensors", 7):
            bad = {"weight_map": good["weight_map"] | {"lm_head.weight": change}}
            index.write_text(json.dumps(bad))
            self.refused(folder)
        bad = dict(good["weight_map"])
        del bad["lm_head.weight"]
        index.write_text(json.dumps({"weight_map": bad}))
        self.assertIn("lm_head.weight", self.refused(folder))
        index.write_text(
            json.dumps({"weight_map": good["weight_map"] | {"ghost": good["weight_map"]["lm_head.weight"]}})
        )
        self.assertIn("ghost", self.refused(folder))

    def test_safetensors_headers_that_lie(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        file = folder / "model.safetensors"
        whole = file.read_bytes()
        (n,) = struct.unpack_from("<Q", whole)
        header, data = json.loads(whole[8 : 8 + n]), whole[8 + n :]
        norm = "model.norm.weight"
        begin, end = header[norm]["data_offsets"]
        good = header[norm]

        def write(entry, body=data, text=None):
            text = text or json.dumps(header | {norm: entry})
            file.write_bytes(struct.pack("<Q", len(text)) + text.encode() + body)

        write(good)
        self.converted(folder)
        for word, entry in {
            "begins at": good | {"data_offsets": [begin - 4, end - 4]},
            "has 196 bytes": good | {"data_offsets": [begin, end + 4]},
            "has 192 bytes": good | {"shape": [49]},
            "damaged": good | {"data_offsets": [end, begin]},
            "entry of": good | {"shape": [-48]},
            "entry": {"dtype": "F32"},
            "F64": {"dtype": "F64", "shape": [24], "data_offsets": [begin, end]},
            "I8": {"dtype": "I8", "shape": [48], "data_offsets": [begin, end]},
        }.items():
            write(entry)
            said = self.refused(folder)
            self.assertTrue(word in said or word == "F64", said)
        last = max(header, key=lambda name: header[name]["data_offsets"])
        moved = header[last] | {"data_offsets": [at + 4 for at in header[last]["data_offsets"]]}
        write(good, data + bytes(4), json.dumps(header | {last: moved}))
        self.assertIn("begins at", self.refused(folder))
        for body in (data[:-1], data + b"\0"):
            write(good, body)
            self.assertIn("cut or damaged", self.refused(folder))
        twice = json.dumps(header)[:-1] + f', "{norm}": {json.dumps(good)}}}'
        write(good, text=twice)
        self.assertIn("twice", self.refused(folder))
        file.write_bytes(struct.pack("<Q", 1 << 60) + whole[8:])
        self.refused(folder)
        write(good, text="[" * 100000)
        self.refused(folder)

    def test_pipes_and_devices_in_a_folder(self):
        """None is waited for or read."""
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
            kept = (folder / name).read_bytes() if (folder / name).exists() else None
            for make in (os.mkfifo, lambda path: os.symlink("/dev/zero", path)):
                (folder / name).unlink(missing_ok=True)
                make(folder / name)
                self.assertIn(f"{name} is no regular file", self.refused(folder, code=2))
            (folder / name).unlink()
            if kept is not None:
                (folder / name).write_bytes(kept)

    def test_names_of_directories_are_not_written_to(self):
        source = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        for name in ("out/", "out/sub/", "out/.", "", ".", "-"):
            code, _, err = run(source, f"{self.dir}/{name}" if name not in ("", "-") else name)
            self.assertEqual((code, "name the file to write" in err, (self.dir / "out").exists()), (2, True, False), err)

    def test_what_stands_in_place_of_a_model(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
        for data, said in (
            (lfs, "is a Git LFS pointer"), (b"<!DOCTYPE html>\n<html>", "is a web page"), (b"\n<html>", "is a web page"),
            (b"\xff\xd8\xff\xe0" + bytes(40), "is a picture"),
        ):  # fmt: skip
            for name in ("config.json", "tokenizer.json", "model.safetensors"):
                kept = (folder / name).read_bytes()
                (folder / name).write_bytes(data)
                self.assertIn(f"{name} {said}", self.refused(folder, code=2))
                (folder / name).write_bytes(kept)
            for name in ("a.safetensors", "a.gguf", "a.bin", "a.jpg"):
                (self.dir / name).write_bytes(data)
                self.assertIn(said, self.refused(self.dir / name, code=2))
        (self.dir / "l").mkdir()
        tokenizer_bin(self.dir / "l" / "tokenizer.bin")
        self.assertIn("name the checkpoint", self.refused(self.dir / "l" / "tokenizer.bin", code=2))
        llama2c(self.dir / "l" / "m.bin", SMALL, tensors(SMALL), 0)
        self.assertIn(f"name that: {self.dir}/l/m.bin", self.refused(self.dir / "l", code=2))
        self.assertIn("no/such/folder does not exist", self.refused("no/such/folder", code=4))

    def test_other_files_say_what_to_do(self):
        folder = self.dir / "m"
        huggingface(folder, SMALL, tensors(SMALL))
        self.assertIn(str(folder), self.refused(folder / "model.safetensors", code=2))
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        self.assertIn("pickle", self.refused(folder))
        self.assertIn("config.json", self.refused(self.dir, code=2))
        self.refused(self.dir / "absent", code=4)


class Types(Case):
    def test_conversions_round_to_nearest_even(self):
        x = np.array([[1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 1 + 3 * 2**-11, -0.0, 2.0**-24, 2.0**-25, 3.4e38]], "f4")
        self.assertEqual(tiles.bits(tiles.BF16, x)[0, :2].tolist(), [0x3F80, 0x3F82])
        self.assertEqual(tiles.bits(tiles.F16, x)[0, 2:7].tolist(), [0x3C00, 0x3C02, 0x8000, 1, 0])
        self.assertTrue(tiles.overflows(tiles.F16, x))
        self.assertTrue(tiles.overflows(tiles.BF16, np.array([[3.4e38]], "f4")))
        self.assertFalse(tiles.overflows(tiles.F16, np.array([[np.inf, np.nan, 65504.0]], "f4")))
        self.assertEqual(tiles.bits(tiles.BF16, np.array([[np.nan, np.inf]], "f4"))[0].tolist(), [0x7FC0, 0x7F80])

    def test_types_on_request(self):
        values = tensors(SMALL)
        folder = huggingface(self.dir / "m", SMALL, values, "bfloat16")
        for name in ("f32", "f16", "bf16"):
            self.same(self.converted(folder, "--type", name), values, tiles.BY_NAME[name])
        values["layer.0.gate"][5, 7] = 1e6
        huggingface(folder, SMALL, values)
        self.assertIn("gate_proj", self.refused(folder, "--type", "f16"))

    def test_quantizing_needs_the_program(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        self.assertIn("make", self.refused(folder, "--type", "q8", code=2))

    def test_tiles_by_hand(self):
        """Every byte of small tiles against the picture in FORMAT.md."""
        bits = np.arange(18 * 3, dtype="<u4").reshape(18, 3)
        flat = tiles.tile(tiles.F32, bits).reshape(-1)
        for tile in range(2):
            for k in range(3):
                for r in range(16):
                    row = 16 * tile + r
                    want = bits[row, k] if row < 18 else 0
                    self.assertEqual(flat[(tile * 3 + k) * 16 + r], want)
        rng = np.random.default_rng(3)
        q, scales = rng.integers(-127, 128, (17, 2, 32), "i1"), rng.integers(0, 60000, (17, 2), "<u2")
        data = tiles.tile(tiles.Q8, (q, scales)).tobytes()
        self.assertEqual(len(data), tiles.tensor_bytes(tiles.Q8, 17, 64))
        for row in (0, 5, 16):
            for k in (0, 7, 31, 32, 63):
                at = ((row // 16) * 2 + k // 32) * 544 + (k % 32 // 4) * 64 + 4 * (row % 16) + k % 4
                self.assertEqual(struct.unpack_from("b", data, at)[0], q[row, k // 32, k % 32])
            at = (row // 16 * 2 + 1) * 544 + 512 + 2 * (row % 16)
            self.assertEqual(struct.unpack_from("<H", data, at)[0], scales[row, 1])
        q = rng.integers(-8, 8, (17, 2, 32), "i1")
        data = tiles.tile(tiles.Q4, (q, scales)).tobytes()
        for row in (0, 5, 16):
            for k in range(64):
                j, half = k % 32 // 8, k % 8 // 4
                at = ((row // 16) * 2 + k // 32) * 288 + j * 64 + 4 * (row % 16) + k % 4
                self.assertEqual((data[at] >> 4 * half & 15) - 8, q[row, k // 32, k % 32])
        self.assertEqual(data[2 * 288 + 4 :][:60], b"\x88" * 60)  # padding rows are nibble 8
        for kind, rows in ((tiles.Q4, (q, scales)), (tiles.Q8, (q, scales))):
            back = tiles.untile(kind, tiles.tile(kind, rows).tobytes(), 17, 64)
            np.testing.assert_array_equal(back[0], q)
            np.testing.assert_array_equal(back[1], scales)

    def test_tiles_with_tables(self):
        rng = np.random.default_rng(2)
        q, scales = rng.integers(0, 16, (17, 2, 32), "u1"), rng.integers(1, 30000, (17, 2), "<u2")
        tables = np.repeat(rng.integers(-127, 128, (2, 16), "i1"), 16, axis=0)[:17]
        data = tiles.tile(tiles.Q4C, (q, scales, tables)).tobytes()
        size = 32 + 2 * 288
        self.assertEqual((len(data), tiles.tensor_bytes(tiles.Q4C, 17, 64)), (2 * size, 2 * size))
        want = np.empty((17, 64), "f4")
        for row in range(17):
            self.assertEqual(data[row // 16 * size : row // 16 * size + 32], tables[row].tobytes() + bytes(16))
            for k in range(64):
                block = row // 16 * size + 32 + k // 32 * 288
                code = data[block + k % 32 // 8 * 64 + 4 * (row % 16) + k % 4] >> (k & 4) & 15
                self.assertEqual(code, q[row, k // 32, k % 32])
                scale = np.frombuffer(data, "<f2", 1, block + 256 + 2 * (row % 16))[0]
                want[row, k] = np.float32(tables[row, code]) * np.float32(scale)
        zero = int(np.abs(tables[16]).argmin())
        self.assertEqual(data[size + 32 + 4 :][:60], bytes([zero * 17]) * 60)  # padding rows: nearest to 0
        self.assertEqual(data[size + 32 + 258 :][:30], bytes(30))
        back = tiles.untile(tiles.Q4C, data, 17, 64)
        for got, put in zip(back, (q, scales, tables)):
            np.testing.assert_array_equal(got, put)
        np.testing.assert_array_equal(tiles.values(tiles.Q4C, back, 64), want)


class Containers(Case):
    def test_all_hold_the_same_model(self):
        values, ids, configs = tensors(SMALL), set(), set()
        tokenizer_bin(self.dir / "tokenizer.bin")
        for made in (
            huggingface(self.dir / "hf", SMALL, values),
            gguf_model(self.dir / "m.gguf", SMALL, values)[0],
            llama2c(self.dir / "m0.bin", SMALL, values, 0),
            llama2c(self.dir / "m1.bin", SMALL, values, 1),
        ):
            w = self.converted(made)
            ids.add(w.content_id)
            configs.add(w.sections["config"])
        self.assertEqual((len(ids), len(configs)), (1, 1))


if __name__ == "__main__":
    unittest.main()
