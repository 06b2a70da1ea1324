"""Damaged sources: each is converted by tools/convert.py, or refused with one sentence, in little time and memory."""

import base64
import contextlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import tempfile
import time
import traceback
import unittest
import unittest.mock
from collections.abc import Callable, Iterator
from pathlib import Path

import gguf
import numpy as np
import safetensors.numpy

import gguf_writer
import mutation
import test_convert_gguf
import test_golden_convert as golden_convert
import test_tokenizer_tools as tools
from convert_case import BLOCKS, ROOT, SMALL, Case, gguf_model, huggingface, llama2c, run, tensors, tokenizer_bin, version2
from tern.convert.tokenizers import patterns, tiktoken, vectors
from tern.convert.tokenizers import sentencepiece_model as spf
from tern.testing import golden_file
from tern.weights.reader import WeightsFile

ROUNDS = int(os.environ.get("CONVERT_FUZZ", "400"))  # of each kind
SEED = int(os.environ.get("CONVERT_FUZZ_SEED", "0"))
SECONDS, MEGABYTES = 10, 96  # of processor time in a round; of memory beyond what the rounds before took
ALL = ROUNDS >= 5000  # otherwise a few models stand for all
TINY = SMALL | {"hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 20, "num_hidden_layers": 1}

Base = tuple[Path, Path, Callable[[random.Random], bytes], list[str]]  # what to convert, what to damage and how, options


class Damage(Case):
    """Rounds go to the bases of a kind in turn. A round changes one file, and has the source converted: whole every sixth
    time, else as far as --dry-run goes, with fewer of the self test's strings. What fails is kept, and named at the end."""

    def setUp(self):
        super().setUp()
        if os.access("/dev/shm", os.W_OK):  # a disk would take most of the time
            self.dir = Path(tempfile.mkdtemp(dir="/dev/shm"))
            self.out = self.dir / "out.bin"
            self.addCleanup(shutil.rmtree, self.dir)
        os.fsync = lambda fd: None  # a mock would remember each call
        self.few = vectors.FIXED[::25]
        self.found: dict[str, str] = {}
        before = resource.getrlimit(resource.RLIMIT_AS)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 30), before[1]))  # the machine is other people's too
        self.addCleanup(resource.setrlimit, resource.RLIMIT_AS, before)
        self.addCleanup(signal.signal, signal.SIGVTALRM, signal.signal(signal.SIGVTALRM, self.too_long))

    @staticmethod
    def too_long(*_):
        raise TimeoutError(f"a round takes more than {SECONDS} seconds")

    @contextlib.contextmanager
    def watched(self):
        """What packages write to standard error by themselves goes to the file `beside`."""
        kept, self.beside = os.dup(2), os.memfd_create("stderr")
        os.dup2(self.beside, 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            os.close(self.beside)

    def attack(self, kind: str, bases: list[Base], rounds: int = ROUNDS) -> None:
        """So many rounds of a kind, over all bases. At least one file must have been accepted and one refused."""
        with self.watched():
            for source, _, _, options in bases:
                self.assertFalse(self.round(source, options, True), source)  # before it is damaged
            done = self.rounds(kind, bases, rounds)
        print(f"{kind}: {rounds} rounds, {done[0]} converted, {done[1]} refused, {len(self.found)} findings")
        self.assertEqual("\n".join(self.found.values()), "")
        self.assertTrue(all(done), done)

    def rounds(self, kind: str, bases: list[Base], rounds: int) -> list[int]:
        """How many were converted, and refused."""
        done, most = [0, 0], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        whole = {file: file.read_bytes() for _, file, _, _ in bases}
        for i, (source, file, damaged, options) in zip(range(rounds), itertools.cycle(bases)):
            rng = random.Random(f"{kind} {SEED} {i}")
            file.write_bytes(damaged(rng))
            try:
                done[self.round(source, options, i % 6 == 0 or rounds < 200)] += 1
            except KeyboardInterrupt:
                raise
            except BaseException as e:  # the panic of a package in Rust is no Exception
                self.keep(kind, i, source, e)
            file.write_bytes(whole[file])
            if i % 10000 == 9999:
                print(f"{kind}: {i + 1} rounds, {len(self.found)} findings", flush=True)
            if i % 16 and i + 1 < rounds:
                continue  # the question takes as long as a round
            before, most = most, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if most - before > MEGABYTES << 10:  # the tokenizers package keeps 4 KB of each round, too
                self.keep(kind, i, source, AssertionError(f"more than {MEGABYTES} MB, now or in the 15 rounds before"))
        return done

    def round(self, source: Path, options: list[str], through: bool) -> bool:
        """Whether the source was refused."""
        begin = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        strings = vectors.FIXED if through else self.few
        with unittest.mock.patch.object(vectors, "FIXED", strings):
            code, out, err = run(source, *([self.out] if through else ["--dry-run"]), *options)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        (out + err).encode()  # as the terminal or a pipe gets it
        written = os.pread(self.beside, 300, 0)
        os.ftruncate(self.beside, 0)
        self.assertEqual(written, b"")
        self.assertLess(time.process_time() - begin, SECONDS, err)
        self.assertIn(code, (0, 2, 3, 4), err)
        if code:
            self.assertEqual(err.count("\n"), 1, err)
            self.assertLess(len(err), 2000, err[:300])
        elif through:
            WeightsFile(self.out)
        self.assertEqual([n for n in os.listdir(self.dir) if n.endswith(".tmp")], [])
        return bool(code)

    def keep(self, kind: str, i: int, source: Path, e: Exception) -> None:
        """One finding of each sort, with the source that it takes."""
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        frames = traceback.extract_tb(e.__traceback__)
        sort = f"{type(e).__name__} {frames[-1].name if frames else e}" + (str(e)[:60] if isinstance(e, AssertionError) else "")
        if sort in self.found:
            return
        kept = Path(tempfile.mkdtemp(prefix=f"tern-damage-{kind}-")) / source.name
        shutil.copytree(source, kept) if source.is_dir() else shutil.copy(source, kept)
        self.found[sort] = f"{kind}, seed {SEED}, round {i}, kept as {kept}: {''.join(traceback.format_exception(e))[-1500:]}"

    def golden(self, *names: str) -> Iterator[tuple[str, golden_file.Golden, dict, Path]]:
        """Name, golden model, config and Hugging Face directory of those named, or of all."""
        for name in [p.stem for p in golden_convert.GOLDEN] if ALL else names:
            golden = golden_file.read(ROOT / "tests" / "golden" / f"{name}.txt")
            config = golden_file.published_config(golden.config)
            folder = self.dir / name
            golden_convert.directory(folder, golden, config, True)
            yield name, golden, config, folder

    # ---- kinds

    def test_llama2c(self):
        c, bases = TINY, []
        for version in (0, 1, 2):
            folder = self.dir / f"v{version}"
            folder.mkdir()
            tokenizer_bin(folder / "tokenizer.bin")
            path = folder / "m.bin"
            if version == 2:
                version2(path, c, tensors(c), 4, lambda m: np.maximum(m, 1) / 127)
            else:
                llama2c(path, c, tensors(c), version)
            bases += [(path, file, self.bytes_of(file, 200), []) for file in (path, folder / "tokenizer.bin")]
        self.attack("llama2c", bases, min(ROUNDS, 20000))

    @staticmethod
    def bytes_of(file: Path, head: int):
        data = file.read_bytes()
        return lambda rng: mutation.byte_damage(rng, data, head)

    @staticmethod
    def json_of(file: Path, pool: dict | None = None):
        data = file.read_bytes()
        return lambda rng: mutation.json_file(rng, data, pool)

    def test_config(self):
        """config.json of every family, and generation_config.json; keys of one go into another, too."""
        pool: dict[str, list] = {}
        made = list(self.golden("llama-gqa", "gpt-oss", "gemma3", "phi3-long", "qwen2-moe", "falcon-40b"))
        for _, golden, config, folder in made:
            (folder / "generation_config.json").write_text('{"eos_token_id": [2, 3], "temperature": 0.7, "top_k": 40, "top_p": 0.9}')
            for key, value in config.items():
                pool.setdefault(key, []).append(value)
        pool |= {key: [value] for key, value in (("rope_parameters", {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}), ("head_dim", 16),
                                                 ("quantization_config", {"quant_method": "fp8"}), ("text_config", {}), ("auto_map", {}))}  # fmt: skip
        bases = []
        for name, golden, _, folder in made:
            options = ["--rope-length", "64"] if "dynamic" in name else []
            bases += [(folder, folder / "config.json", self.json_of(folder / "config.json", pool), options)] * 5
            bases.append((folder, folder / "generation_config.json", self.json_of(folder / "generation_config.json", pool), options))
        self.attack("config", bases)

    def test_safetensors(self):
        bases = []
        for name, _, _, folder in self.golden("llama-mha", "gpt-oss", "qwen3-moe", "phi3"):
            data = (folder / "model.safetensors").read_bytes()
            options = ["--rope-length", "64"] if "dynamic" in name else []
            bases.append((folder, folder / "model.safetensors", lambda rng, data=data: mutation.safetensors_file(rng, data), options))
        case = test_convert_gguf.GptOss("test_directory_packed_or_not_and_gguf_agree")
        case.dir = self.dir
        folder = case.directory(case.model(np.random.default_rng(1)), True)  # MXFP4
        for folder in (folder, huggingface(self.dir / "bf16", TINY, tensors(TINY), "bfloat16")):
            data = (folder / "model.safetensors").read_bytes()
            bases.append((folder, folder / "model.safetensors", lambda rng, data=data: mutation.safetensors_file(rng, data), []))
        folder = huggingface(self.dir / "shards", TINY, tensors(TINY), shards=2)
        index, shard = folder / "model.safetensors.index.json", folder / "model-00002-of-00002.safetensors"
        bases.append((folder, index, self.json_of(index), []))
        data = shard.read_bytes()
        bases.append((folder, shard, lambda rng: mutation.safetensors_file(rng, data), []))
        self.attack("safetensors", bases)

    def test_gguf(self):
        c = BLOCKS | {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
        paths = [gguf_model(self.dir / f"{q}.gguf", c, tensors(c), q)[0] for q in ("Q8_0", "Q4_0", "F16")]
        for name, golden, config, folder in self.golden("phi3-long", "gpt-oss", "falcon-40b", "qwen2-moe", "gemma3"):
            state = safetensors.numpy.load_file(folder / "model.safetensors")
            path = self.dir / f"{name}.gguf"
            with contextlib.suppress(AssertionError):  # the gguf package has no names for some
                gguf_writer.write(path, config, state, [f"w{i}" for i in range(golden.keys["vocab"])])
                paths.append(path)
        bases = []
        for path in paths:
            g = mutation.Gguf(path.read_bytes())
            if len(bases) % 2:
                g.use_byte_level()
                path.write_bytes(g.data)
            bases.append((path, path, lambda rng, g=g: mutation.gguf_file(rng, g), []))
        self.attack("gguf", bases)

    def test_tokenizer(self):
        """Every sort of file that holds a tokenizer, in a folder with a tiny model, and the small files beside it."""
        self.enterContext(unittest.mock.patch.object(tiktoken, "LLAMA3_RANKS", len(tools.RANKS)))
        bases: list[Base] = []
        for name, files in self.tokenizers():
            folder = huggingface(self.dir / name, TINY | {"vocab_size": 600}, tensors(TINY | {"vocab_size": 600}))
            (folder / "tokenizer.json").unlink()
            for file, content in files.items():
                data = content if isinstance(content, bytes) else (content if isinstance(content, str) else json.dumps(content)).encode()
                path = folder / file
                path.write_bytes(data)
                if data[:1] == b"\n":
                    bases.append((folder, path, lambda rng, data=data: mutation.protobuf_file(rng, data, lambda n: n < 6), []))
                elif path.suffix == ".json":
                    bases.append((folder, path, self.json_of(path), []))
                else:
                    bases.append((folder, path, lambda rng, data=data: mutation.lines_file(rng, data), []))
        self.attack("tokenizer", bases)

    def tokenizers(self) -> Iterator[tuple[str, dict]]:
        stated = {
            "tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False, "special": True},
            "unk_token": "<unk>", "add_bos_token": True, "add_eos_token": False, "legacy": False, "additional_special_tokens": ["<x>"],
            "added_tokens_decoder": {"0": {"content": "<unk>", "special": True}, "1": {"content": "<s>", "special": True, "normalized": False},
                                     "2": {"content": "</s>", "special": True}},
        }  # fmt: skip
        level = tools.level_json(pattern=patterns.QWEN2, nfc=True)
        n = len(tools.RANKS)
        yield "level", {"tokenizer.json": level, "tokenizer_config.json": {"eos_token": "<|endoftext|>", "bos_token": None}}
        merges = "#version: 0.2\n" + "\n".join(" ".join(m) for m in level["model"]["merges"]) + "\n"
        entry = {"content": "<|endoftext|>", "special": True, "normalized": False}
        yield "merges", {
            "vocab.json": level["model"]["vocab"], "merges.txt": merges,
            "tokenizer_config.json": {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {str(n): entry}, "eos_token": "<|endoftext|>"},
        }  # fmt: skip
        yield "ranks", {"tokenizer.model": b"".join(base64.b64encode(t) + b" %d\n" % rank for t, rank in tools.RANKS.items())}
        model = tools.spm_model()
        model.charsmap = tools.charsmap_blob({b"A": b"a", b"B": b"", b"\t": b" "})
        yield "spm", {"tokenizer.model": spf.serialize(model), "tokenizer_config.json": stated,
                      "special_tokens_map.json": {"bos_token": "<s>"}, "added_tokens.json": {"<y>": 269}}  # fmt: skip
        model.model_type, model.pieces[260].score = spf.UNIGRAM, -1.5
        yield "unigram", {"tokenizer.model": spf.serialize(model)}
        special = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                   for i, t in enumerate(("<unk>", "<s>", "</s>"))]  # fmt: skip
        pieces = [[p.text.decode(), p.score] for p in model.pieces]
        template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                    "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}  # fmt: skip
        block = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
        whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special}
        charsmap = base64.b64encode(model.charsmap).decode()
        yield "hf-unigram", {"tokenizer.json": whole | {
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": charsmap},
                                                              {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"}]},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, block]},
            "post_processor": template, "decoder": block, "model": {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": False},
        }}  # fmt: skip
        words = {p[0]: i for i, p in enumerate(pieces)}
        decoder = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
                                                    {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}  # fmt: skip
        yield "hf-llama", {"tokenizer.json": whole | {
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                                                              {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
            "pre_tokenizer": None, "post_processor": template, "decoder": decoder,
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": True, "byte_fallback": True, "ignore_merges": False, "vocab": words,
                      "merges": [["t", "h"], ["th", "e"] if "the" in words else ["h", "e"], ["\u2581", "th"]]},
        }, "tokenizer_config.json": stated}  # fmt: skip
        yield "hf-words", {"tokenizer.json": whole | {
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Lowercase"}, {"type": "StripAccents"}]},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"},
                              {"type": "Punctuation", "behavior": "Isolated"}, {"type": "Digits", "individual_digits": True},
                              {"type": "Split", "pattern": {"String": "x"}, "behavior": "MergedWithPrevious", "invert": False}]},
            "post_processor": template, "decoder": None, "model": {"type": "WordLevel", "vocab": words, "unk_token": "<unk>"},
        }}  # fmt: skip

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
                    with self.watched():
                        self.round(path, [], True)


class Sentences(Case):
    """What rounds of damage have found."""

    def gguf_with(self, **values) -> Path:
        add = {str: gguf.GGUFWriter.add_string, list: gguf.GGUFWriter.add_array, int: gguf.GGUFWriter.add_uint32}
        extra = [lambda w, key=key, value=value: add[type(value)](w, key.replace("__", "."), value) for key, value in values.items()]
        return gguf_model(self.dir / "m.gguf", BLOCKS, tensors(BLOCKS), extra=extra)[0]

    def test_a_value_of_many_numbers_takes_one_line(self):
        err = self.refused(self.gguf_with(tokenizer__ggml__eot_token_id=list(range(-5000, 0))))
        self.assertLess(len(err), 1100)
        self.assertIn("eot_token_id", err)

    def test_the_number_of_parts_is_a_list(self):
        for key in ("split__count", "split__no"):
            path = self.gguf_with(**({"split__count": 2, "split__no": 0} | {key: [1, 2]}))
            part = path.rename(self.dir / "m-00001-of-00002.gguf")
            (self.dir / "m-00002-of-00002.gguf").write_bytes(part.read_bytes())
            self.assertIn(key.replace("__", "."), self.refused(part))

    def test_control_characters_are_visible(self):
        path = self.gguf_with(general__license="a\x1b[31m\n\x9bb")
        path.write_bytes(path.read_bytes().replace(b"tiny", b"\x1b[3m"))  # general.name
        code, out, _ = run(path, self.out)
        self.assertEqual(code, 0)
        self.assertRegex(out, r"\^\[\[3m.*\n")
        self.assertNotRegex(out, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")
        self.assertRegex(self.refused(self.gguf_with(llama__rope__scaling__type="\x1b[31m\ny")), r"\[31m")

    def test_half_a_character(self):
        folder = huggingface(self.dir / "m", TINY | {"hidden_act": "\ud83d\x85"}, tensors(TINY))
        self.refused(folder).encode()
        folder = huggingface(self.dir / "m", TINY | {"\ud83d\x85": 1}, tensors(TINY))
        self.refused(folder).encode()

    def test_a_panic_is_a_sentence(self):
        """The package in Rust panics at a charsmap that is not base64, and writes to standard error."""
        folder = huggingface(self.dir / "m", TINY, tensors(TINY))
        data = json.loads((folder / "tokenizer.json").read_text())
        charsmap = base64.b64encode(tools.charsmap_blob({b"A": b"a"})).decode() + "!"
        data |= {"normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap}, "pre_tokenizer": None, "decoder": None}
        data["model"] = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["<s>", 0.0], ["</s>", 0.0], ["a", -1.0]]}
        (folder / "tokenizer.json").write_text(json.dumps(data))
        with tempfile.TemporaryFile() as beside:
            kept = os.dup(2)
            os.dup2(beside.fileno(), 2)
            try:
                err = self.refused(folder)
            finally:
                os.dup2(kept, 2)
                os.close(kept)
            self.assertEqual(os.pread(beside.fileno(), 300, 0), b"")
        self.assertIn("tokenizer", err)


if __name__ == "__main__":
    unittest.main()
