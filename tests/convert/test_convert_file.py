"""What tools/convert.py writes: the file, its plan and check, and how the engine takes it."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest
import unittest.mock
from pathlib import Path

import gguf
import numpy as np
import xxhash

from convert_case import BLOCKS, ROOT, SMALL, Case, gguf_model, huggingface, llama2c, run, tensors, tokenizer_bin
import convert
import test_convert_gguf
from tern import programs
from tern.convert import job
from tern.convert.families import features as source
from tern.convert.families import rope, settings
from tern.convert.files import gguf as gguf_file
from tern.convert.writing import compare, contents, conversion
from tern.errors import ConvertError
from tern.weights import tiles
from tern.weights import writer as weights
from tern.weights.reader import WeightsFile

PROGRAMS = {name: os.environ.get(name.upper(), "") for name in ("run", "quantize")}


@unittest.skipUnless(all(os.access(p, os.X_OK) for p in PROGRAMS.values()), "RUN and QUANTIZE are not built")
class Engine(Case):
    """What is written here, taken by the programs that `make` built."""

    def setUp(self):
        super().setUp()
        for name, path in PROGRAMS.items():
            (self.dir / name).symlink_to(Path(path).resolve())

    def selftest(self) -> str:
        done = subprocess.run([self.dir / "run", self.out, "--selftest"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_k_quants_become_q8(self):
        """By ./quantize, and one line says so; other types stay as they are, and a type that is asked for is made."""
        c = BLOCKS | {"hidden_size": 256, "num_hidden_layers": 1, "tie_word_embeddings": True}
        data = test_convert_gguf.Gguf().blocks(np.random.default_rng(5), "Q4_K", c["vocab_size"], 256)
        extra = [lambda w: w.add_tensor("output.weight", data, raw_dtype=gguf.GGMLQuantizationType.Q4_K)]
        path, held = gguf_model(self.dir / "m.gguf", c, tensors(c), "Q4_0", extra=extra)
        exact = gguf.quants.dequantize(data, gguf.GGMLQuantizationType.Q4_K)
        code, out, err = run(path, self.out)
        self.assertEqual((code, out.count("become q8"), out.count("--type f32")), (0, 1, 1), err)
        w = WeightsFile(self.out)
        self.assertEqual((w.tensors["head"]["kind"], w.tensors["layer.0.q"]["kind"]), (tiles.Q8, tiles.Q4))
        np.testing.assert_array_equal(w.values("layer.0.q"), held["layer.0.q"])
        most = np.abs(exact).reshape(-1, 32).max(axis=1)
        off = np.abs(w.values("head") - exact).reshape(-1, 32).max(axis=1)
        self.assertTrue((off <= 0.0045 * most).all())
        self.assertGreater(off.max(), 0)
        for kind, number in (("f32", tiles.F32), ("q4c", tiles.Q4C)):
            code, out, err = run(path, self.out, "--type", kind)
            self.assertEqual((code, "become q8" in out), (0, False), err)
            self.assertEqual(WeightsFile(self.out).tensors["head"]["kind"], number)

    def test_every_container_gives_the_same_logits(self):
        values = {n: x / 8 if x.ndim > 1 else x for n, x in tensors(SMALL).items()}
        tokenizer_bin(self.dir / "tokenizer.bin")
        seals = set()
        for made in (
            huggingface(self.dir / "hf", SMALL, values),
            gguf_model(self.dir / "m.gguf", SMALL, values)[0],
            llama2c(self.dir / "m0.bin", SMALL, values, 0),
        ):
            seals.add(self.converted(made).keys("seal")["fingerprint"])
            self.assertIn("equal bit for bit", self.selftest())
        self.assertEqual(len(seals), 1)

    def test_quantized(self):
        folder = huggingface(self.dir / "hf", SMALL, tensors(SMALL), "bfloat16")
        for name in ("q8", "q4", "q4c"):
            w = self.converted(folder, "--type", name)
            self.assertEqual(w.tensors["layer.0.q"]["kind"], tiles.BY_NAME[name])
            self.assertIn("equal bit for bit", self.selftest())
        path, held = gguf_model(self.dir / "m.gguf", BLOCKS, tensors(BLOCKS), "Q4_0")
        self.same(self.converted(path, "--type", "q8"), held, tiles.Q4)  # smaller already: nothing to gain
        self.selftest()

    def test_codes_of_a_table_run_as_they_are(self):
        """MXFP4 is q4c, also where a type is asked for that is no smaller."""
        values = {n: x / 8 if x.ndim > 1 else x for n, x in tensors(BLOCKS).items()}
        path, held = gguf_model(self.dir / "m.gguf", BLOCKS, values, "MXFP4")
        for more in ((), ("--type", "q4"), ("--type", "q4c"), ("--type", "q8")):
            code, out, err = run(path, self.out, "--check", *more)
            self.assertEqual((code, err), (0, ""))
            self.assertRegex(out, r"(\d+) of \1 tensors have the source's values")
            self.same(WeightsFile(self.out), held, tiles.Q4C)
            self.assertIn("equal bit for bit", self.selftest())
            stated = re.search(r"\((\d+) bytes\)", run(path, "--dry-run", *more)[1]).group(1)
            self.assertEqual(int(stated), self.out.stat().st_size)

    def test_check_of_what_quantize_made(self):
        folder = huggingface(self.dir / "hf", SMALL, tensors(SMALL))
        for name in ("q8", "q4", "q4c"):
            code, out, err = run(folder, self.out, "--type", name, "--check")
            self.assertEqual((code, err), (0, ""))
            self.assertRegex(out, rf"{name} differs by at most \d+\.\d+%.*--selftest passed")
            stated = int(re.search(r"\((\d+) bytes\)", run(folder, "--dry-run", "--type", name)[1]).group(1))
            self.assertLess(abs(stated - self.out.stat().st_size), 16384)
        other = tensors(SMALL, seed=2) | {n: x for n, x in tensors(SMALL).items() if x.ndim == 1}
        source = job.load(huggingface(self.dir / "other", SMALL, other), None, None, settings.Settings())
        with self.assertRaisesRegex(ConvertError, "embed, q4c, differs"):
            compare.check(source, self.out)

    def test_check_of_the_engine_fails(self):
        folder = huggingface(self.dir / "hf", SMALL, tensors(SMALL))
        (self.dir / "run").unlink()
        (self.dir / "run").write_text('#!/bin/sh\n[ "$2" != --selftest ] || { echo "ids differ" >&2; exit 3; }\necho 0\n')
        (self.dir / "run").chmod(0o755)
        self.assertIn("ids differ", self.refused(folder, "--check"))

    def test_windows_biases_and_scaled_frequencies_are_taken(self):
        qwen = SMALL | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "sliding_window": 16}
        qwen |= {"use_sliding_window": True, "max_window_layers": 1}
        self.converted(huggingface(self.dir / "a", qwen, tensors(SMALL, "q k v")))
        self.selftest()
        c = SMALL | {"attention_bias": True, "mlp_bias": True, "head_dim": 16, "tie_word_embeddings": True}
        c["rope_scaling"] = {"type": "linear", "factor": 4.0}
        self.converted(huggingface(self.dir / "b", c, tensors(c, "q k v o gate up down"), "float16"))
        self.selftest()


class Plan(Case):
    """--dry-run and --check."""

    def sources(self):
        c = SMALL | {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96}
        tokenizer_bin(self.dir / "tokenizer.bin")
        yield huggingface(self.dir / "m", c, tensors(c), "bfloat16")
        yield gguf_model(self.dir / "m.gguf", c, tensors(c), "Q8_0")[0]
        yield llama2c(self.dir / "m.bin", c, tensors(c), 1)

    def test_dry_run_says_what_ends_a_text(self):
        """What the engine will take: stated tokens, else EOS; and what ends an answer of the chat template."""
        c = SMALL | {"eos_token_id": None}
        folder = huggingface(self.dir / "m", c, tensors(c))
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        tokenizer["added_tokens"].append(tokenizer["added_tokens"][0] | {"id": len(tokenizer["model"]["vocab"]), "content": "<|im_end|>"})
        end = tokenizer["added_tokens"][-1]["id"]
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        template = "{% for m in messages %}{{ m.role + ': ' + m.content + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
        for stated, chat, want in (
            ({}, "", "none"), ({"eos_token": "</s>"}, "", "2"), ({"eos_token": "</s>"}, template, f"2, {end}"),
            ({}, template, f"{end}"),
        ):  # fmt: skip
            (folder / "tokenizer_config.json").write_text(json.dumps(stated | ({"chat_template": chat} if chat else {})))
            code, out, err = run(folder, "--dry-run")
            self.assertEqual(re.search("ends a text: (.*)", out).group(1), want, (err, out))
            named = run(folder, "--dry-run", "--template", "chatml")[1]
            self.assertEqual(re.search("ends a text: (.*)", named).group(1), f"2, {end}" if stated else f"{end}")
            if PROGRAMS["run"]:
                self.converted(folder)
                info = subprocess.run([PROGRAMS["run"], self.out, "--info"], capture_output=True, text=True, check=True).stdout
                for i in [] if want == "none" else want.split(", "):
                    self.assertRegex(info, rf"(?m)^.*end.*\b{i}\b", info)

    def test_dry_run_says_the_size_and_writes_nothing(self):
        for source in self.sources():
            for more in ((), ("--type", "f16")):
                before = sorted(os.listdir(self.dir))
                code, out, err = run(source, "--dry-run", *more)
                self.assertEqual((code, err), (0, ""))
                self.assertEqual(before, sorted(os.listdir(self.dir)))
                self.converted(source, *more)
                self.assertIn(f"({self.out.stat().st_size} bytes)", out)
                self.out.unlink()
                for word in ("layers     2", "4 heads of 16 with 2", "300 rows", "no template", "layer.*.gate"):
                    self.assertIn(word, out)
        self.assertEqual(run(source)[0], 2)  # neither OUT nor --dry-run

    def test_check_passes(self):
        for source in self.sources():
            for more in ((), ("--type", "f16"), ("--type", "f32")):
                code, out, err = run(source, self.out, "--check", *more)
                self.assertEqual((code, err), (0, ""))
                all_equal = r"(\d+) of \1 tensors have the source's values; ./run is not built"
                blocks = r"5 of 21 tensors .*; 16 rounded to f16, .* by at most 0.0\d% .*\); ./run is not built"
                self.assertRegex(out, blocks if source.suffix == ".gguf" and "f16" in more else all_equal)

    def test_check_says_what_was_rounded(self):
        values = tensors(SMALL)  # which f16 and bf16 hold
        for name, error in (("layer.0.q", 0.0), ("layer.1.up", 2.0**-11)):
            values[name][3, 5] = 1 + error
        values["head"][7, 2] = values["head"][290, 1] = -1e-9
        folder = huggingface(self.dir / "m", SMALL, values)
        n = len(values)
        for kind, want in (
            ("f32", f"{n} of {n} tensors have the source's values"),
            ("f16", f"{n - 2} of {n} tensors have the source's values; 2 rounded to f16, each value by at most 0.05% "
                    "(layer.1.up); 2 values that were not zero became zero"),
            ("bf16", f"{n - 2} of {n} tensors have the source's values; 2 rounded to bf16, each value by at most "
                     r"0.\d\d% (head)"),
        ):  # fmt: skip
            code, out, err = run(folder, self.out, "--check", "--type", kind)
            self.assertEqual((code, err), (0, ""))
            pattern = "checked: " + want.replace("(", r"\(").replace(")", r"\)") + "; ./run is not built"
            self.assertRegex(out, pattern)

    def test_check_finds_one_wrong_bit(self):
        """In any tensor, in any type; the file is not published."""
        write = conversion.write
        for source in self.sources():
            for name in ("embed", "layer.1.down", "layer.0.attn_norm", "head"):

                def wrong(path, bodies, entries):
                    write(path, bodies, entries)
                    with open(path, "r+b") as f:
                        f.seek(WeightsFile(path).tensors[name]["offset"] + 3)
                        byte = f.read(1)[0]
                        f.seek(-1, 1)
                        f.write(bytes([byte ^ 1]))

                with unittest.mock.patch.object(conversion, "write", wrong):
                    self.assertIn(name, self.refused(source, "--check", code=1))

    def test_room_on_the_disk_is_asked_for(self):
        source = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        with unittest.mock.patch("shutil.disk_usage", return_value=shutil._ntuple_diskusage(1 << 30, 1 << 30, 1000)):
            self.assertIn("free on its disk", self.refused(source, code=4))


class Set(Case):
    """--set."""

    def test_features_and_keys_of_the_source(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        w = self.converted(folder, "--set", "window=7", "--set", "norm_eps=1e-3", "--set", "max_seq=99")
        self.assertEqual((w.config["window"], w.config["max_seq"]), (7, 99))
        self.assertEqual(w.config["norm_eps"], np.float32(1e-3))
        w = self.converted(folder, "--set", "window=7,0", "--set", "attn_scale=0.5")
        self.assertEqual(list(w.config["window"]), [7, 0])
        self.assertEqual(w.config["attn_scale"], 0.5)
        w = self.converted(folder, "--set", "rope_theta=500", "--set", "hidden_act=gelu_new")
        self.assertEqual(w.config["activation"], b"gelu_tanh")
        np.testing.assert_allclose(w.config["rope.0.inv_freq"], 500.0 ** (-np.arange(4) / 4), rtol=1e-7)
        new = {k: v for k, v in SMALL.items() if k != "rope_theta"}
        new["rope_parameters"] = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}
        nested = huggingface(self.dir / "n", new, tensors(SMALL))
        w = self.converted(nested, "--set", "rope_theta=500", "--set", "factor=4")
        np.testing.assert_allclose(w.config["rope.0.inv_freq"], 500.0 ** (-np.arange(4) / 4) / 4, rtol=1e-7)
        tokenizer_bin(self.dir / "tokenizer.bin")
        checkpoint = llama2c(self.dir / "m.bin", SMALL, tensors(SMALL), 1)
        self.assertEqual(self.converted(checkpoint, "--set", "window=5").config["window"], 5)
        self.assertIn("no such key", self.refused(checkpoint, "--set", "rope_theta=5", code=2))

    def test_nonsense_is_refused(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        for pair in ("window", "=4", "window=", "window=x", "window=-1", "window=1,2,3", "norm_eps=one", "rope_set=2",
                     "activation=tanh", "window=99999999999"):  # fmt: skip
            self.assertIn("--set", self.refused(folder, "--set", pair, code=2), pair)
        self.assertIn("twice", self.refused(folder, "--set", "window=1", "--set", "window=2", code=2))
        self.assertIn("'spiral'", self.refused(folder, "--set", "spiral=2", code=2))
        for key, value in (("rope_theta", "-1"), ("rope_theta", "nan"), ("max_seq", "0"), ("rms_norm_eps", "0"), ("n_heads", "x")):
            self.assertIn(f"--set {key!r}" if key == "n_heads" else f"with --set {key}={value}: ", self.refused(folder, "--set", f"{key}={value}", code=2))
        broken = huggingface(self.dir / "b", SMALL | {"vocab_size": 0}, tensors(SMALL))
        self.assertIn("vocab_size is 0", self.refused(broken, "--set", "max_seq=0"))


    def test_no_setting_is_without_effect(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        (folder / "generation_config.json").write_text('{"eos_token_id": 7}')
        ends = lambda *a: self.converted(folder, *a).keys("generation").get("end_tokens")  # noqa: E731
        self.assertEqual(list(ends()), [2, 7])
        self.assertEqual(list(ends("--set", "eos_token_id=5,9")), [5, 9])
        for pair in ("model_type=mistral", "architectures=x", "bos_token_id=5", "use_cache=false", "norm_eps=0"):
            self.assertIn("--set", self.refused(folder, "--set", pair, code=2), pair)
        self.assertIn("rms_norm_eps", self.refused(folder, "--set", "rms_norm_eps=0", code=2))
        gguf = gguf_model(self.dir / "m.gguf", SMALL, tensors(SMALL))[0]
        ends = lambda *a: self.converted(gguf, *a).keys("generation").get("end_tokens")  # noqa: E731
        self.assertEqual(list(ends("--set", "eos_token_id=5,9")), [5, 9])
        self.assertFalse(ends("--set", "eos_token_id=null"))
        for wrong in ("x", "-1", str(SMALL["vocab_size"])):
            self.assertIn("eos_token_id", self.refused(gguf, "--set", f"eos_token_id={wrong}", code=2))
        checkpoint = llama2c(self.dir / "m.bin", SMALL, tensors(SMALL), 0)
        for source in (folder, gguf, checkpoint):
            self.assertIn("leave it out", self.refused(source, "--rope-length", "64", code=2))
        for source in (folder, gguf):
            for pair in ("spiral=2", "bos_token_id=5"):
                self.assertIn("no use", self.refused(source, "--set", pair, code=2))
        scaled = SMALL | {"rope_scaling": {"type": "dynamic", "factor": 2.0}}
        folder = huggingface(self.dir / "d", scaled, tensors(SMALL))
        self.converted(folder, "--rope-length", "64")
        for length in ("0", "-5"):
            self.assertIn("1 or more", self.refused(folder, "--rope-length", length, code=2))

    def test_keys_that_are_not_understood_can_be_ignored(self):
        odd = SMALL | {"spiral": 2, "helix": 3, "logit_scale": 0.5}
        folder = huggingface(self.dir / "m", odd, tensors(SMALL))
        said = self.refused(folder)
        for word in ("'spiral'", "'helix'", "'logit_scale'", "=ignore"):
            self.assertIn(word, said)
        drop = [word for key in ("spiral", "helix", "logit_scale") for word in ("--set", f"{key}=ignore")]
        self.same(self.converted(folder, *drop), tensors(SMALL), tiles.F32)
        self.assertIn("'helix' is ignored", run(folder, self.out, *drop)[1])
        self.assertIn("'helix'", self.refused(folder, *drop[:2], *drop[4:]))
        extra = [lambda w: w.add_uint32("llama.spiral", 2), lambda w: w.add_uint32("llama.helix", 3)]
        gguf = gguf_model(self.dir / "m.gguf", SMALL, tensors(SMALL), extra=extra)[0]
        self.assertIn("'llama.helix', 'llama.spiral' are", self.refused(gguf))
        self.converted(gguf, "--set", "llama.spiral=ignore", "--set", "llama.helix=ignore")
        self.assertIn("depends", self.refused(folder, *drop, "--set", "rope_theta=ignore", code=2))
        self.assertIn("no such key", self.refused(folder, *drop, "--set", "window=ignore", code=2))
        checkpoint = llama2c(self.dir / "m.bin", SMALL, tensors(SMALL), 1)
        tokenizer_bin(self.dir / "tokenizer.bin")
        self.assertIn("no such key", self.refused(checkpoint, "--set", "window=ignore", code=2))


class File(Case):
    def test_layout_and_checksums(self):
        c = SMALL | {"intermediate_size": 81}  # so that tensors end between lines
        w = self.converted(huggingface(self.dir / "m", c, tensors(c), "float16"))
        data = self.out.read_bytes()
        self.assertEqual((len(data), w.file_bytes % 64), (w.file_bytes, 0))
        at, sums = w.header_bytes, b""
        for i, t in enumerate(w.tensors.values()):
            start = t["offset"]
            self.assertEqual(start, weights.align(at, 64 if i else 4096))
            self.assertEqual(data[at:start], bytes(start - at))
            at = start + t["bytes"]
            sums += struct.pack("<Q", xxhash.xxh64_intdigest(data[start:at]))
            self.assertEqual(sums[-8:], struct.pack("<Q", t["xxh64"]))
        self.assertEqual(at, len(data))
        self.assertEqual(w.content_id, xxhash.xxh64_intdigest(sums))
        self.assertEqual(list(w.sections)[:4], ["config", "tensors", "tokenizer", "generation"])

    def test_same_bytes_every_time(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        self.converted(folder)
        first = self.out.read_bytes()
        with unittest.mock.patch.object(weights, "PIECE_BYTES", 1):
            self.converted(folder)
        self.assertEqual(first, self.out.read_bytes())

    def test_old_output_survives_a_failure(self):
        self.out.write_bytes(b"old")
        values = tensors(SMALL)
        values["head"][0, 0] = 1e9
        self.refused(huggingface(self.dir / "m", SMALL, values), "--type", "f16")
        self.assertEqual(self.out.read_bytes(), b"old")

    def test_interrupting_leaves_nothing(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        before = sorted(os.listdir(self.dir))
        for stop, code in ((KeyboardInterrupt, 130), (SystemExit(143), 143), (OSError(28, "No space left"), 4)):
            with unittest.mock.patch.object(weights, "_write_tensors", side_effect=stop):
                self.assertEqual(run(folder, self.out)[0], code)
            self.assertEqual(before, sorted(os.listdir(self.dir)))

    def test_numbers_that_are_not_finite_are_refused(self):
        """In any type of the source, of any tensor, for any type of the file; the sentence has the tensor's name."""
        for at, name in (("layer.1.down", "model.layers.1.mlp.down_proj.weight"), ("final_norm", "model.norm.weight")):
            for value, what in ((np.nan, "a NaN"), (-np.inf, "an infinite value")):
                values = tensors(SMALL)
                values[at].reshape(-1)[-1] = value
                for stored in ("float32", "float16", "bfloat16"):
                    folder = huggingface(self.dir / "m", SMALL, values, stored)
                    for kind in ("f32", "f16", "bf16"):
                        said = self.refused(folder, "--type", kind)
                        self.assertIn(f"model.safetensors: {name} holds {what}", said)
        path, _ = gguf_model(self.dir / "m.gguf", BLOCKS, tensors(BLOCKS), "Q8_0")
        entry = gguf_file.read_all(path).tensors["output.weight"]
        with open(path, "r+b") as f:
            f.seek(entry.offset)
            f.write(struct.pack("<e", np.inf) + bytes(32))  # a block: 32 times 0 * infinity
        self.assertIn("output.weight holds a NaN", self.refused(path))

    def test_limits_are_those_of_the_engine(self):
        text = (ROOT / "src" / "model" / "config.c").read_text()
        for name, value in (
            ("MAX_LAYERS", "1024"), ("MAX_WIDTH", "1 << 20"), ("MAX_HEADS", "4096"), ("MAX_HEAD_DIM", "1024"),
            ("MAX_VOCAB", "1 << 24"), ("MAX_SEQ", "1 << 24"),
        ):  # fmt: skip
            self.assertIn(f"{name} = {value},", text)
            number, _, shift = value.partition(" << ")
            self.assertEqual(getattr(source, name), int(number) << int(shift or 0))

    def test_a_model_without_tokenizer_is_said_to_be_one(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        (folder / "tokenizer.json").unlink()
        code, out, _ = run(folder, self.out)
        self.assertEqual((code, "no tokenizer" in out), (0, True))
        self.assertNotIn("tokenizer", WeightsFile(self.out).sections)

    def test_too_many_tokens(self):
        c = SMALL | {"vocab_size": 100}
        said = self.refused(huggingface(self.dir / "m", c, tensors(c)))
        self.assertIn("262", said)
        self.assertIn("100", said)

    def test_usage(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        self.assertEqual(run(folder)[0], 2)
        self.assertEqual(run(folder, self.out, "--type", "q3")[0], 2)
        self.assertEqual(run(folder, self.dir)[0], 2)
        self.assertEqual(run(folder, self.dir / "no" / "x.bin")[0], 4)
        self.converted(folder)
        self.assertGreaterEqual(self.synced.call_count, 2)  # the file, and the directory after renaming
        self.assertEqual(run(self.out, self.out)[0], 2)
        self.assertIn("already", run(self.out, self.dir / "b.bin")[2])

    def test_seal_is_asked_for_and_written(self):
        fake = self.dir / "run"
        fake.write_text("#!/bin/sh\necho 00000000deadbeef\n")
        fake.chmod(0o755)
        w = self.converted(huggingface(self.dir / "m", SMALL, tensors(SMALL)))
        self.assertEqual(w.keys("seal"), {"arith": weights.ARITH, "fingerprint": 0xDEADBEEF})
        fake.write_text("#!/bin/sh\necho 'the engine says no' >&2; exit 3\n")
        self.assertIn("the engine says no", self.refused(self.dir / "m"))
        fake.write_text("#!/bin/sh\necho 'too large for this machine' >&2; exit 5\n")
        code, out, _ = run(self.dir / "m", self.out)
        self.assertEqual((code, "too large for this machine" in out), (0, True))
        self.assertNotIn("seal", WeightsFile(self.out).sections)

    def test_versions_are_those_of_the_engine(self):
        header = (ROOT / "include" / "tern.h").read_text()
        self.assertIn(f'#define TERN_VERSION "{contents.VERSION}"', header)
        self.assertIn(f"#define TERN_ARITH {weights.ARITH} ", header)
        pins = (ROOT / "tools" / "requirements.txt").read_text()
        script = (ROOT / "tools" / "convert.py").read_text().split("# ///")[1]
        for line in script.splitlines():
            if "==" in line:
                self.assertIn(line.strip('#", ').replace("'", '"'), pins)


class Paths(Case):
    """OUT is never a file that the conversion reads, under whatever name; SOURCE is a file or a directory."""

    def kept(self, out: Path, source: Path, *more):
        before = out.read_bytes()
        code, _, err = run(source, out, *more)
        self.assertEqual((code, err.count("\n")), (2, 1), err)
        self.assertIn(f"{out} is ", err)
        self.assertEqual(out.read_bytes(), before)

    def test_files_of_a_directory(self):
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL), shards=2)
        (folder / "LICENSE").write_text("Be kind.")
        (folder / "more").mkdir()
        (folder / "more" / "notes.txt").write_text("mine")
        for path in [p for p in folder.rglob("*") if p.is_file()]:
            self.kept(path, folder)
        blob, shard = self.dir / "blob", folder / "model-00001-of-00002.safetensors"
        shard.rename(blob)
        shard.symlink_to(blob)
        self.kept(blob, folder)
        (self.dir / "hard").hardlink_to(folder / "config.json")
        self.kept(self.dir / "hard", folder)
        self.kept(folder / "LICENSE", self.dir / "m" / ".." / "m")
        self.out = folder / "tern.bin"
        self.converted(folder)
        self.converted(folder)  # a weights file is no part of the source

    def test_parts_of_a_gguf(self):
        path, _ = gguf_model(self.dir / "m.gguf", SMALL, tensors(SMALL))
        first, second, other = (self.dir / f"m-0000{i}-of-0000{n}.gguf" for i, n in ((1, 2), (2, 2), (1, 3)))
        for part in (first, second, other):
            part.write_bytes(path.read_bytes())
        self.kept(first, first)
        self.kept(second, first)
        self.kept(first, second)
        self.assertEqual(run(first, other)[0], 0)  # of another model

    def test_tokenizers_and_templates(self):
        checkpoint = llama2c(self.dir / "m.bin", SMALL, tensors(SMALL), 1)
        beside = tokenizer_bin(self.dir / "tokenizer.bin")
        self.kept(beside, checkpoint)
        named = tokenizer_bin(self.dir / "named.bin")
        self.kept(named, checkpoint, "--tokenizer", named)
        template = self.dir / "t.jinja"
        template.write_text("{{ messages[0].content }}")
        self.kept(template, checkpoint, "--template", template)
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        other = huggingface(self.dir / "other", SMALL, tensors(SMALL))
        self.kept(other / "tokenizer.json", folder, "--tokenizer", other)
        for name in ("tokenizer_config.json", "added_tokens.json", "special_tokens_map.json"):
            (other / name).write_text("{}")
            self.kept(other / name, folder, "--tokenizer", other / "tokenizer.json")

    def test_pipes_and_devices_are_not_waited_for(self):
        os.mkfifo(self.dir / "pipe")
        folder = huggingface(self.dir / "m", SMALL, tensors(SMALL))
        for name in (self.dir / "pipe", "/dev/null"):
            self.assertIn("pipe or a device", self.refused(name, code=2))
            self.assertIn("pipe or a device", self.refused(folder, "--tokenizer", name, code=2))


class Stopped(Case):
    """convert.py as a program that a signal ends."""

    def program(self) -> Path:
        """A copy, beside which other programs may stand."""
        home = self.dir / "tern"
        shutil.copytree(ROOT / "tools", home / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        return home

    def start(self, home: Path, *arguments, **env) -> subprocess.Popen:
        """In a session of its own, so that a signal can go to all of its programs, as Ctrl-C does."""
        p = subprocess.Popen(
            [sys.executable, home / "tools" / "convert.py", *arguments], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=os.environ | env,
        )  # fmt: skip
        self.addCleanup(p.kill)
        return p

    def wait_for(self, p: subprocess.Popen, there) -> None:
        while not there():
            self.assertIsNone(p.poll(), "it ended too early")
            time.sleep(0.01)

    def test_nothing_is_left_of_quantize(self):
        """Which leaves its own temporary file where it is killed."""
        folder, home = huggingface(self.dir / "m", SMALL, tensors(SMALL)), self.program()
        (home / "quantize").write_text('#!/bin/sh\n: > "$2.$$.tmp"; : > "$0.began"\nexec sleep 600\n')
        (home / "quantize").chmod(0o755)
        before = sorted(os.listdir(self.dir))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            p = self.start(home, folder, self.out, "--type", "q4")
            self.wait_for(p, (home / "quantize.began").exists)
            (home / "quantize.began").unlink()
            os.killpg(p.pid, number)
            self.assertEqual(p.communicate(timeout=120), ("", ""))
            self.assertEqual(p.returncode, 128 + number)
            self.assertEqual(before, sorted(os.listdir(self.dir)))

    def test_a_package_that_is_missing(self):
        """It is installed; where that fails, a sentence has the file that names them all, whatever the folder is called."""
        home = self.program().rename(self.dir / "it's mine")
        for name in ("numpy", "xxhash", "tqdm"):
            with self.subTest(name):
                (self.dir / name).mkdir()
                (self.dir / name / f"{name}.py").write_text(f"raise ImportError('No module\\nnamed {name!s}')\n")
                (self.dir / name / "venv.py").write_text("raise SystemExit('not here')\n")
                p = self.start(home, "m", self.out, PYTHONPATH=str(self.dir / name), PATH="/usr/bin:/bin")
                out, err = p.communicate(timeout=120)
                self.assertEqual((p.returncode, out), (2, ""), err)
                first, said, last = err.splitlines()
                self.assertEqual(first, f"convert.py: setting up {home}/.venv, once; this takes a minute")
                self.assertEqual(said, "not here")
                self.assertIn(f"No module named {name}", last)
                self.assertIn(str(home / "tools" / "requirements.txt"), last)

    def test_interrupted_while_it_begins(self):
        """Without a traceback."""
        began, home = self.dir / "began", self.program()
        (self.dir / "numpy.py").write_text(f"open({str(began)!r}, 'w').close()\nimport time\ntime.sleep(600)\n")
        p = self.start(home, "m", self.out, PYTHONPATH=str(self.dir))
        self.wait_for(p, began.exists)
        os.killpg(p.pid, signal.SIGINT)
        self.assertEqual(p.communicate(timeout=120), ("", ""))
        self.assertEqual(p.returncode, -signal.SIGINT)

    def test_a_program_that_stops_gets_no_second_signal(self):
        child = subprocess.Popen(["true"])
        with unittest.mock.patch.object(child, "terminate") as terminate:
            with unittest.mock.patch.object(programs, "PATIENCE", 120):
                programs.end(child)
        terminate.assert_not_called()
        child = subprocess.Popen(["sh", "-c", "trap '' TERM; read x"], stdin=subprocess.PIPE)
        with child.stdin, unittest.mock.patch.object(programs, "PATIENCE", 0.01):
            programs.end(child)
        self.assertIn(child.returncode, (-signal.SIGTERM, -signal.SIGKILL))


class Frequencies(unittest.TestCase):
    def test_rounded_once_from_binary64(self):
        for base, dims in ((10000.0, 128), (500000.0, 64), (1e6, 96)):
            got = rope.frequencies(base, dims, rope.Parameters("x", {"rope_theta": base})).astype("f4")
            for i, f in enumerate(got):
                exact = np.longdouble(base) ** (np.longdouble(-2 * i) / dims)
                self.assertEqual(f, np.float32(exact))

    def test_llama3_blends_between_the_two_waves(self):
        p = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        p["original_max_position_embeddings"] = 8192
        got = rope.frequencies(500000.0, 128, rope.Parameters("x", p))
        plain = np.array(rope.plain(500000.0, 128))
        wave = 2 * np.pi / plain
        np.testing.assert_array_equal(got[wave < 2048], plain[wave < 2048])
        np.testing.assert_array_equal(got[wave > 8192], plain[wave > 8192] / 8)
        middle = (wave >= 2048) & (wave <= 8192)
        self.assertGreater(middle.sum(), 3)
        self.assertTrue(np.all((got[middle] < plain[middle]) & (got[middle] > plain[middle] / 8)))

    def test_beyond_binary64(self):
        with self.assertRaises(ConvertError):
            rope.frequencies(1e300, 64, rope.Parameters("x", {}))


if __name__ == "__main__":
    unittest.main()
