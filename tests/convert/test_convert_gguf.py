"""tools/convert.py on GGUF files, and on gpt-oss as released."""

import json
import struct
import unittest
import unittest.mock
from pathlib import Path

import gguf
import numpy as np
import safetensors.numpy

from convert_case import BLOCKS, Case, gguf_model, huggingface, run, tensors, tokenizer_json
import convert
import gguf_writer
from tern.convert import job
from tern.convert.families import settings
from tern.convert.files import gguf_types
from tern.weights import tiles


class Gguf(Case):
    C = BLOCKS

    def test_types(self):
        for quant, kind in (
            ("F32", tiles.F32), ("F16", tiles.F16), ("BF16", tiles.BF16), ("Q8_0", tiles.Q8), ("Q4_0", tiles.Q4),
            ("MXFP4", tiles.Q4C),
        ):  # fmt: skip
            path, held = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), quant)
            w = self.converted(path)
            self.same(w, held, kind)
            self.assertEqual(w.keys("generation")["end_tokens"], 2)
            self.assertEqual(w.keys("provenance")["name"], b"tiny")

    def test_defaults_of_sampling(self):
        extra = (
            lambda w: w.add_float32("general.sampling.temp", 0.5),
            lambda w: w.add_int32("general.sampling.top_k", 20),
            lambda w: w.add_float32("general.sampling.penalty_present", 1.5),
        )
        path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), extra=extra)
        g = self.converted(path).keys("generation")
        self.assertEqual((g["temperature"], g["top_k"], g["presence_penalty"]), (0.5, 20, 1.5))
        path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), extra=extra[:1] + (lambda w: w.add_float32("general.sampling.top_p", 2.0),))
        self.assertIn("top_p is 2.0; it must be a number from 0 to 1", run(path, self.out)[2])

    def blocks(self, rng, quant: str, rows: int, k: int) -> np.ndarray:
        """Random bytes of a type, with scales that are sensible numbers."""
        encoding = gguf_types.FORMATS[quant]
        data = np.zeros((rows, k // encoding.weights), encoding.block)
        raw = data.view("u1")
        raw[:] = rng.integers(0, 256, raw.shape, "u1")
        for name in {"d", "m"} & set(encoding.block.names):
            data[name] = rng.uniform(-4, 4, data.shape).astype("<f2").view("<u2")
        if quant == "MXFP4":
            data["e"] = rng.integers(gguf_types.HALF_LOW, gguf_types.HALF_HIGH + 1, data.shape)
        return data.view("u1").reshape(rows, -1)

    def test_every_type_has_the_values_that_the_format_means(self):
        """Held to the gguf package, bit for bit."""
        c = self.C | {"hidden_size": 256, "num_hidden_layers": 1, "tie_word_embeddings": True}
        kinds = {"Q8_0": tiles.Q8, "Q5_0": tiles.Q8, "Q4_0": tiles.Q4, "IQ4_NL": tiles.Q4C, "MXFP4": tiles.Q4C}
        for quant in [name for name, e in gguf_types.FORMATS.items() if e.block]:
            with self.subTest(quant), np.errstate(over="ignore"):
                kind = gguf.GGMLQuantizationType[quant]
                data = self.blocks(np.random.default_rng(5), quant, c["vocab_size"], 256)
                if quant == "Q8_0":
                    data[data == 0x80] = 0
                extra = [lambda w: w.add_tensor("output.weight", data, raw_dtype=kind)]
                path, _ = gguf_model(self.dir / "m.gguf", c, tensors(c), extra=extra)
                w = self.converted(path, *([] if quant in kinds else ["--type", "f32"]))
                self.assertEqual(w.tensors["head"]["kind"], kinds.get(quant, tiles.F32))
                values = w.values("head")
                np.testing.assert_array_equal(values, gguf.quants.dequantize(data, kind))
                told = run(path, "--dry-run")[1]
                self.assertEqual("become q8" in told, quant not in kinds)
                self.assertEqual(f"weights in {quant} (" in told, quant not in kinds)
                np.testing.assert_array_equal(self.converted(path, "--type", "f32").values("head"), values)

    def test_k_quants_without_quantize(self):
        c = self.C | {"hidden_size": 256, "num_hidden_layers": 1, "tie_word_embeddings": True}
        data = self.blocks(np.random.default_rng(5), "Q6_K", c["vocab_size"], 256)
        extra = [lambda w: w.add_tensor("output.weight", data, raw_dtype=gguf.GGMLQuantizationType.Q6_K)]
        path, _ = gguf_model(self.dir / "m.gguf", c, tensors(c), extra=extra)
        self.assertRegex(self.refused(path, code=2), "--type q8 needs the program .*`make`, or give --type f32")

    def test_a_vocabulary_alone(self):
        path, _ = gguf_model(self.dir / "m.gguf", self.C, {})
        self.assertIn("is a vocabulary without weights; name the GGUF file of the model", self.refused(path))

    def test_mxfp4_beyond_f16_becomes_f32(self):
        c = self.C | {"hidden_size": 256, "num_hidden_layers": 1, "tie_word_embeddings": True}
        data = self.blocks(np.random.default_rng(5), "MXFP4", c["vocab_size"], 256)
        extra = [lambda w: w.add_tensor("output.weight", data, raw_dtype=gguf.GGMLQuantizationType.MXFP4)]
        for exponent, codes, kind in (
            (0, 0x80, tiles.Q4C), (250, 0x08, tiles.Q4C), (100, 0x10, tiles.F32), (144, 0x01, tiles.F32),
        ):  # fmt: skip
            data[7, :17] = [exponent] + [codes] * 16
            path, _ = gguf_model(self.dir / "m.gguf", c, tensors(c), extra=extra)
            w = self.converted(path, *(["--type", "f32"] if kind == tiles.F32 else []))
            self.assertEqual(w.tensors["head"]["kind"], kind, exponent)
            np.testing.assert_array_equal(
                w.values("head"), gguf.quants.dequantize(data, gguf.GGMLQuantizationType.MXFP4)
            )

    def test_tied_head_biases_and_qwen2(self):
        c = self.C | {"tie_word_embeddings": True}
        path, held = gguf_model(self.dir / "m.gguf", c, tensors(c, "q k v"))
        w = self.converted(path)
        self.same(w, held, tiles.F32)
        self.assertEqual((w.config["head_tied"], w.config["attn_bias"]), (1, 7))
        path, held = gguf_model(self.dir / "m.gguf", c, tensors(c, "q k v"), arch="qwen2")
        self.same(self.converted(path), held, tiles.F32)

    def test_rope_divisors_and_scaling(self):
        divisors = np.linspace(1, 8, 8)
        path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), divisors=divisors)
        plain = 10000.0 ** (-np.arange(8) / 8)
        got = self.converted(path).config["rope.0.inv_freq"]
        np.testing.assert_allclose(got, plain / divisors.astype("f4"), rtol=1e-7)
        linear = [
            lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR),
            lambda w: w.add_rope_scaling_factor(4.0),
        ]
        path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), extra=linear)
        np.testing.assert_allclose(self.converted(path).config["rope.0.inv_freq"], plain / 4, rtol=1e-7)
        other = [lambda w: w.add_string("llama.rope.scaling.type", "spiral")]
        path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), extra=other)
        self.assertIn("spiral", self.refused(path))

    def test_what_gguf_does_not_say_is_said(self):
        path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C))
        code, out, _ = run(path, self.out)
        self.assertEqual((code, "window" in out), (0, True))
        path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), extra=[lambda w: w.add_sliding_window(32)])
        self.assertEqual(self.converted(path).config["window"], 32)

    def test_chat_template_is_as_in_a_directory(self):
        """Both kinds of source hand it out in the same way."""
        template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
        path, _ = gguf_model(
            self.dir / "m.gguf", self.C, tensors(self.C), extra=[lambda w: w.add_chat_template(template)]
        )
        folder = huggingface(self.dir / "hf", self.C, tensors(self.C))
        config = {"chat_template": template, "bos_token": "<s>", "eos_token": {"content": "</s>"}}
        listed = config | {"chat_template": [{"name": "tool", "template": "x"}, {"name": "default", "template": template}]}
        sources = [job.load(path, None, None, settings.Settings())]
        for each in (config, listed):
            (folder / "tokenizer_config.json").write_text(json.dumps(each))
            sources.append(job.load(folder, None, None, settings.Settings()))
        (folder / "chat_template.jinja").write_text(template)
        (folder / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": "other"}))
        sources.append(job.load(folder, None, None, settings.Settings()))
        for source in sources:
            self.assertEqual(source.template, template)
            self.assertEqual(source.template_tokens, {"bos_token": "<s>", "eos_token": "</s>"})

    def test_minus_128_is_refused_and_f32_is_the_way_out(self):
        path, held = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), "Q8_0")
        reader = gguf.GGUFReader(path, "r+")
        next(t for t in reader.tensors if t.name == "blk.1.ffn_up.weight").data[3, 2] = 0x80
        del reader
        self.assertIn("--type f32", self.refused(path))
        w = self.converted(path, "--type", "f32")
        self.assertTrue(np.all(w.values("layer.1.up")[4:] == held["layer.1.up"][4:]))

    def test_files_that_lie(self):
        """Written by hand: a key and tensors [name, dims, type, offset] over 256 bytes of data."""

        def text(t):
            return struct.pack("<Q", len(t)) + t.encode()

        def write(infos, keys=(), n_tensors=None, n_keys=None, version=3):
            out = b"GGUF" + struct.pack("<IQQ", version, n_tensors or len(infos), n_keys or len(keys) + 1)
            out += text("general.architecture") + struct.pack("<I", 8) + text("llama")
            for name, kind, value in keys:
                out += text(name) + struct.pack("<I", kind) + value
            for name, dims, kind, offset in infos:
                out += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
                out += struct.pack("<IQ", kind, offset)
            path.write_bytes(out + bytes(-len(out) % 32) + bytes(256))
            return self.refused(path)

        path, number = self.dir / "m.gguf", struct.pack("<I", 1)
        self.assertIn("token_embd", write([["a", [8], 0, 0]]))  # sound so far
        self.assertIn("inside another", write([["a", [16], 0, 0], ["b", [8], 0, 32]]))
        self.assertIn("not aligned", write([["a", [8], 0, 8]]))
        self.assertIn("cut or damaged", write([["a", [65], 0, 0]]))
        self.assertIn("cut or damaged", write([["a", [1 << 62, 1 << 62], 0, 0]]))
        self.assertIn("tensor 'a' twice", write([["a", [8], 0, 0], ["a", [8], 0, 32]]))
        self.assertIn("key 'x' twice", write([], [("x", 4, number), ("x", 4, number)]))
        self.assertIn("not possible", write([["a", [8], 8, 0]]))
        self.assertIn("not possible", write([["a", [0], 0, 0]]))
        self.assertIn("IQ2_XXS", write([["a", [256], 16, 0]]))
        self.assertIn("cut or damaged", write([["a", [512], 12, 0]]))
        self.assertIn("type 99", write([["a", [8], 99, 0]]))
        self.assertIn("dimensions", write([["a", [1] * 5, 0, 0]]))
        self.assertIn("the type 77", write([], [("x", 77, number)]))
        self.assertIn("claims", write([], [("x", 9, struct.pack("<IQ", 8, 1 << 40))]))
        self.assertIn("would take", write([], [("x", 9, struct.pack("<IQ", 4, 1 << 40))]))
        self.assertIn("array of the type 9", write([], [("x", 9, struct.pack("<IQ", 9, 1))]))
        self.assertIn("alignment", write([["a", [8], 0, 0]], [("general.alignment", 4, struct.pack("<I", 3))]))
        self.assertIn("0 dimensions", write([], n_tensors=1 << 60))
        self.assertIn("twice", write([], n_keys=1 << 60))  # zeros read as keys without names
        self.assertIn("big-endian", write([], version=3 << 24))
        self.assertIn("version 1", write([], version=1))

    def test_models_in_parts(self):
        path, held = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), "Q8_0")
        reader = gguf.GGUFReader(path)
        w = gguf.GGUFWriter(str(self.dir / "p.gguf"), "llama", split_max_tensors=8)
        for field in reader.fields.values():
            kind = field.types[0]
            if not field.name.startswith(("GGUF.", "general.architecture")):
                w.add_key_value(field.name, field.contents(), kind, field.types[-1] if kind == 9 else None)
        for t in reader.tensors:
            w.add_tensor(t.name, np.array(t.data), raw_dtype=t.tensor_type)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        parts = sorted(self.dir.glob("p-*-of-*.gguf"))
        self.assertGreater(len(parts), 2)
        for part in parts:
            self.same(self.converted(part), held, tiles.Q8)
        whole = parts[1].read_bytes()
        parts[1].unlink()
        self.assertIn(parts[1].name, self.refused(parts[0], code=4))
        parts[1].write_bytes(parts[2].read_bytes())
        self.assertIn("says that it is part 2", self.refused(parts[0]))
        parts[1].write_bytes(whole)
        other = self.dir / "other.gguf"
        other.write_bytes(whole)
        self.assertIn("give them their names", self.refused(other))
        for add in (lambda w: w.add_string("split.count", "x"), lambda w: w.add_uint32("split.count", 1 << 31)):
            path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), extra=[add])
            self.assertIn("split.count is", self.refused(path))

    def test_keys_and_tensors_that_are_not_understood(self):
        for key, add in {
            "blk.0.ffn_gate_exps.weight": lambda w: w.add_expert_count(8),
            "llama.logit_scale": lambda w: w.add_logit_scale(2.0),
            "llama.rope.dimension_count": lambda w: w.add_rope_dimension_count(8),
            "attention.value_length": lambda w: w.add_value_length(8),
            "blk.0.attn_q_norm.weight": lambda w: w.add_tensor("blk.0.attn_q_norm.weight", np.zeros(4, "f4")),
            "llama.expert_count is [1, 2]": lambda w: w.add_array("llama.expert_count", [1, 2]),
        }.items():
            path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), extra=[add])
            self.assertIn(key, self.refused(path))
        path, _ = gguf_model(self.dir / "m.gguf", self.C, tensors(self.C), arch="mamba")
        self.assertIn("mamba", self.refused(path))
        self.refused(path, "--tokenizer", "x", code=2)


class GptOss(Case):
    """gpt-oss as released: experts in MXFP4, in a directory and in GGUF."""

    C = {
        "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "vocab_size": 300, "hidden_size": 64,
        "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 150000.0,
        "num_local_experts": 3, "num_experts_per_tok": 2, "sliding_window": 8, "swiglu_limit": 7.0,
        "tie_word_embeddings": False, "eos_token_id": 2, "attention_bias": True,
        "layer_types": ["sliding_attention"],
        "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                         "original_max_position_embeddings": 64},
        "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
    }  # fmt: skip

    def model(self, rng) -> dict[str, np.ndarray]:
        """Tensors by their names in a directory, experts as [experts, rows, k] of values that MXFP4 has."""
        d, h, n, vocab = 64, 96, 3, 300
        at = "model.layers.0."
        sizes = {"model.embed_tokens.weight": (vocab, d), "lm_head.weight": (vocab, d), "model.norm.weight": (d,)}
        sizes |= {at + "input_layernorm.weight": (d,), at + "post_attention_layernorm.weight": (d,)}
        sizes |= {at + f"self_attn.{p}_proj.weight": (r, k) for p, r, k in [("q", d, d), ("k", 32, d), ("v", 32, d), ("o", d, d)]}
        sizes |= {at + f"self_attn.{p}_proj.bias": (r,) for p, r in [("q", d), ("k", 32), ("v", 32), ("o", d)]}
        sizes |= {at + "self_attn.sinks": (4,), at + "mlp.router.weight": (n, d), at + "mlp.router.bias": (n,)}
        sizes |= {at + "mlp.experts.gate_up_proj_bias": (n, 2 * h), at + "mlp.experts.down_proj_bias": (n, d)}
        out = {name: (rng.integers(-120, 121, size) / 64).astype("f4") for name, size in sizes.items()}
        for name, size in (("gate_up_proj", (n, 2 * h, d)), ("down_proj", (n, d, h))):
            values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], "f4")[rng.integers(0, 8, size)]
            scale = 2.0 ** rng.integers(-8, 3, (*size[:-1], size[-1] // 32))
            values = values * np.where(rng.random(size) < 0.5, -1, 1) * np.repeat(scale, 32, axis=-1)
            out[f"{at}mlp.experts.{name}"] = values.astype("f4")
        return out

    @staticmethod
    def packed(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Codes, two neighbours in a byte, and exponents, by trial of all exponents."""
        groups = x.reshape(*x.shape[:-1], -1, 32)
        table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], "f4")
        codes = np.full(groups.shape, 255, "u1")
        exponents = np.zeros(groups.shape[:-1], "u1")
        for e in range(110, 135):
            scaled = np.abs(groups) / 2.0 ** (e - 127)
            index = np.searchsorted(table, scaled).clip(0, 7)
            good = np.all(table[index] == scaled, axis=-1)
            codes[good], exponents[good] = (index + 8 * (groups < 0))[good], e
        assert codes.max() < 16
        return codes[..., 0::2] | codes[..., 1::2] << 4, exponents

    def directory(self, tensors: dict[str, np.ndarray], packed: bool) -> Path:
        folder = self.dir / ("packed" if packed else "plain")
        folder.mkdir()
        c, out = dict(self.C), {}
        for name, x in tensors.items():
            if name.endswith("_proj") and packed:
                out[name + "_blocks"], out[name + "_scales"] = self.packed(x)
            elif name.endswith("_proj"):
                out[name] = np.ascontiguousarray(x.swapaxes(1, 2))
            else:
                out[name] = x
        if not packed:
            del c["quantization_config"]
        (folder / "config.json").write_text(json.dumps(c))
        tokenizer_json(folder / "tokenizer.json")
        safetensors.numpy.save_file(out, folder / "model.safetensors")
        return folder

    def gguf(self, tensors: dict[str, np.ndarray]) -> Path:
        plain = {name: x.swapaxes(1, 2) if name.endswith("_proj") else x for name, x in tensors.items()}
        experts = {}

        def more(w):
            add = w.add_tensor

            def quantized(name, x):
                if name.endswith("_exps.weight"):
                    experts[name] = gguf.quants.quantize(x, gguf.GGMLQuantizationType.MXFP4)
                    assert np.array_equal(gguf.quants.dequantize(experts[name], gguf.GGMLQuantizationType.MXFP4), x)
                    add(name, experts[name], raw_dtype=gguf.GGMLQuantizationType.MXFP4)
                else:
                    add(name, x)

            w.add_tensor = quantized

        gguf_writer.write(self.dir / "m.gguf", self.C, plain, [f"w{i}" for i in range(300)], more)
        return self.dir / "m.gguf"

    def test_directory_packed_or_not_and_gguf_agree(self):
        values = self.model(np.random.default_rng(3))
        plain = self.converted(self.directory(values, False))
        wanted = {name: plain.values(name) for name in plain.tensors}
        config = plain.config
        for source in (self.directory(values, True), self.gguf(values)):
            w = self.converted(source)
            self.assertEqual(list(w.tensors), list(wanted))
            for name, x in wanted.items():
                np.testing.assert_array_equal(w.values(name), x, name)
            for part in ("gate", "up", "down"):
                self.assertEqual(w.tensors[f"layer.0.{part}"]["kind"], tiles.Q4C)
            for key, value in config.items():
                np.testing.assert_array_equal(w.config[key], value, key)

    def test_scales_that_f16_lacks(self):
        values = self.model(np.random.default_rng(3))
        name = "model.layers.0.mlp.experts.gate_up_proj"
        values[name][1, 5, :32] *= 2.0**-40 / np.abs(values[name][1, 5, :32]).max()  # a row of up
        tiny = values[name][1, 5, :32]
        tiny[:] = np.where(tiny == 0, 0, np.float32(2.0**-40))
        folder = self.directory(values | {name: values[name] * 1}, False)
        wanted = {n: x for w in [self.converted(folder)] for n in w.tensors for x in [w.values(n)]}
        packed = self.packed
        with unittest.mock.patch.object(GptOss, "packed", staticmethod(lambda x: self.with_tiny(packed, x))):
            folder = self.directory(values, True)
        w = self.converted(folder)
        kinds = {part: w.tensors[f"layer.0.{part}"]["kind"] for part in ("gate", "up", "down")}
        self.assertEqual(kinds, {"gate": tiles.Q4C, "up": tiles.F32, "down": tiles.Q4C})
        for n, x in wanted.items():
            np.testing.assert_array_equal(w.values(n), x, n)

    @staticmethod
    def with_tiny(packed, x: np.ndarray):
        """Packs values of which those below 2^-30 are 0 or 2^-40."""
        small = (np.abs(x) < 2.0**-30) & (x != 0)
        codes, exponents = packed(np.where(small, 0, x).astype("f4"))
        groups = small.reshape(*exponents.shape, 32)
        own = np.where(groups, 2, 0).astype("u1")
        some = groups.any(axis=-1)
        codes[some] = (own[..., 0::2] | own[..., 1::2] << 4)[some]
        exponents[some] = 127 - 40
        return codes, exponents

    def test_what_does_not_fit_is_refused(self):
        values = self.model(np.random.default_rng(3))
        folder = self.directory(values, True)
        stored = safetensors.numpy.load_file(folder / "model.safetensors")
        scales = "model.layers.0.mlp.experts.down_proj_scales"
        for change in ({scales: stored[scales][:, :5]}, {scales: stored[scales].astype("f4")}):
            safetensors.numpy.save_file(
                {n: np.ascontiguousarray(x) for n, x in (stored | change).items()}, folder / "model.safetensors"
            )
            self.assertIn(scales, self.refused(folder))
        safetensors.numpy.save_file({n: x for n, x in stored.items() if n != scales}, folder / "model.safetensors")
        self.assertIn(scales, self.refused(folder))
        safetensors.numpy.save_file(stored, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(self.C | {"quantization_config": {"quant_method": "gptq"}}))
        self.assertIn("quantization_config", self.refused(folder))


if __name__ == "__main__":
    unittest.main()
