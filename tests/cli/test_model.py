"""tern.Model: what Python sees of a model, beside the programs and numpy."""

import ctypes
import gc
import html
import os
import pickle
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
BUILD = ROOT / os.environ.get("BUILD", "build")
os.environ["TERN_LIBRARY"] = str(BUILD / "libtern.so")

import tern  # noqa: E402
from tern import structs  # noqa: E402

FABLE = ROOT / "models/fable.bin"
TEXT = "The cat sat on the mat"
LONG = "Once upon a time there was a dog. " * 12  # more than two batches


def look(*arguments) -> None:
    subprocess.run([BUILD / "look", FABLE, *map(str, arguments), "-q"], check=True, stdin=subprocess.DEVNULL, timeout=300)


class Structs(unittest.TestCase):
    def test_fields_are_those_of_the_headers(self):
        """A struct that lacks a field of the header's would be written beyond its end."""
        headers = "".join((ROOT / "include" / name).read_text() for name in ("tern.h", "tern_lab.h"))
        headers = re.sub(r"/\*.*?\*/|^#ifdef TERN_MPI.*?^#endif", "", headers, flags=re.DOTALL | re.MULTILINE)
        kinds = [kind for kind in vars(structs).values() if isinstance(kind, type) and issubclass(kind, ctypes.Structure)]
        self.assertGreater(len(kinds), 10)
        for kind in kinds:
            struct = re.search(rf"^{kind.__doc__.split(chr(10))[0].rstrip('.')} {{(.*?)^}};", headers, re.DOTALL | re.MULTILINE)
            self.assertTrue(struct, kind.__doc__)
            fields = [re.search(r"(\w+)(\[\w+\])?$", part.strip())[1] for line in struct[1].split(";") if line.strip()
                      for part in re.sub(r"\(\*(\w+)\)\(.*\)", r"\1", line, flags=re.DOTALL).split(",")]  # fmt: skip
            self.assertEqual([name.strip("_") for name, *_ in kind._fields_], fields, kind.__doc__)


    def test_fields_lie_where_c_has_them(self):
        made = [kind for kind in vars(structs).values() if isinstance(kind, type) and issubclass(kind, ctypes.Structure)]
        lines = ["#include <stddef.h>", '#include "tern.h"', '#include "tern_lab.h"']
        for kind in made:
            name = kind.__doc__.split("\n")[0].rstrip(".")
            lines.append(f'_Static_assert(sizeof({name}) == {ctypes.sizeof(kind)}, "{name}");')
            for field, *_ in kind._fields_:
                lines.append(f'_Static_assert(offsetof({name}, {field.strip("_")}) == {getattr(kind, field).offset}, "{field}");')
        done = subprocess.run(
            [*shlex.split(os.environ.get("CC", "cc")), "-fsyntax-only", "-I", ROOT / "include", "-x", "c", "-"],
            input="\n".join(lines), text=True, capture_output=True,
        )  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = tern.Model(FABLE)
        cls.addClassCleanup(cls.model.close)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)

    def refused(self, says: str, call, *arguments, **more) -> None:
        with self.assertRaisesRegex(tern.Error, says):
            call(*arguments, **more)

    def test_text_becomes_tokens_and_comes_back(self):
        for text in ("", TEXT, "שלום 👩\u200d🚀 <script>\x00" * 9, LONG):
            ids = self.model.tokenize(text)
            self.assertEqual(self.model.detokenize(ids), text)
        self.assertEqual(self.model.detokenize(self.model.tokenize("a"), special=True), "<|endoftext|>a")

    def test_logits_continue_as_run_does(self):
        logits = self.model.logits(TEXT)
        self.assertEqual((logits.shape, logits.dtype), ((7, self.model.vocab), np.float32))
        ran = subprocess.run([BUILD / "run", FABLE, TEXT, "-n", "1", "--temp", "0", "-q"], capture_output=True, text=True, check=True)
        self.assertEqual(ran.stdout.rstrip("\n"), TEXT + self.model.detokenize([logits[-1].argmax()]))
        np.testing.assert_array_equal(logits, self.model.logits(np.array(self.model.tokenize(TEXT))))
        np.testing.assert_array_equal(logits[:1], self.model.logits(""))

    def test_logprobs_are_those_of_the_logits(self):
        logits = self.model.logits(LONG).astype(np.float64)[:-1]
        wanted = (logits - np.log(np.exp(logits).sum(1))[:, None])[np.arange(len(logits)), self.model.tokenize(LONG)[1:]]
        np.testing.assert_allclose(self.model.logprobs(LONG), wanted, atol=1e-5)
        np.testing.assert_array_equal(self.model.logprobs(LONG, last=3), self.model.logprobs(LONG)[-3:])
        self.refused("one before it", self.model.logprobs, "")

    def test_run_with_cache_has_what_look_captures(self):
        logits, cache = self.model.run_with_cache(TEXT)
        look(TEXT, "--capture", self.folder / "c.npz")
        captured = dict(np.load(self.folder / "c.npz"))
        np.testing.assert_array_equal(cache.tokens, captured.pop("tokens"))
        self.assertEqual(list(cache), list(captured))
        for name, array in cache.items():
            np.testing.assert_array_equal(array, captured[name], name)
            self.assertEqual((len(array), array.dtype), (1, np.float32))
        np.testing.assert_array_equal(logits, self.model.logits(TEXT)[None])

    def test_short_names(self):
        _, cache = self.model.run_with_cache(TEXT)
        for short, name in (
            (("pattern", 0), "blocks.0.attn.hook_pattern"), (("pattern", -1), "blocks.4.attn.hook_pattern"), (("attn", 2), "blocks.2.attn.hook_pattern"),
            (("k", 3, "attn"), "blocks.3.attn.hook_k"), (("resid_post", 1), "blocks.1.hook_resid_post"), (("mlp_post", 1), "blocks.1.mlp.hook_post"),
            ("embed", "hook_embed"), ("hook_embed", "hook_embed"),
        ):  # fmt: skip
            self.assertIs(cache[short], cache[name])
            self.assertIn(short, cache)
        for wrong in (("pattern", 5), ("pattern", -6), ("scale", 0), "pattern", "nothing"):
            self.assertNotIn(wrong, cache)
        with self.assertRaisesRegex(KeyError, "was not kept.*resid_post"):
            cache["nothing"]

    def test_names_filter(self):
        _, whole = self.model.run_with_cache(LONG)
        for chosen, names in (
            ("blocks.1.attn.hook_z", ["blocks.1.attn.hook_z"]),
            ("*hook_z", [f"blocks.{i}.attn.hook_z" for i in range(5)]),
            (["hook_embed", "blocks.0.attn.hook_pattern"], ["hook_embed", "blocks.0.attn.hook_pattern"]),
            (lambda name: name.endswith("resid_post"), [f"blocks.{i}.hook_resid_post" for i in range(5)]),
        ):
            logits, some = self.model.run_with_cache(LONG, chosen)
            self.assertEqual(sorted(some), sorted(names))
            for name in some:
                np.testing.assert_array_equal(some[name], whole[name])
        self.refused("'nope' is no hook of this model", self.model.run_with_cache, TEXT, "nope")
        for nothing in ([], lambda _: False):
            self.refused("chooses no array", self.model.run_with_cache, TEXT, nothing)

    def test_arrays_of_a_look(self):
        for text in (TEXT, LONG):
            seen, (_, cache) = self.model.look(text), self.model.run_with_cache(text)
            n = len(seen.tokens)
            for layer in range(5):
                np.testing.assert_array_equal(seen.pattern(layer), cache["pattern", layer][0])
                np.testing.assert_array_equal(seen.scores(layer, 7), cache["attn_scores", layer][0, 7])
            s, later = seen.stages(2, 3), ~np.tri(n, dtype=bool)
            q, k = cache["rot_q", 2][0, :, 3], cache["rot_k", 2][0, :, 1]
            np.testing.assert_allclose(s["raw"], q @ k.astype(np.float16).astype(np.float32).T, atol=1e-4)
            np.testing.assert_allclose(s["scaled"], s["raw"] / 8, rtol=1e-6)
            np.testing.assert_array_equal(s["masked"], np.where(later, -np.inf, s["scaled"]))
            for stage, scores in (("weights", s["masked"]), ("unmasked", s["scaled"])):
                e = np.exp(scores - scores.max(-1, keepdims=True))
                np.testing.assert_allclose(s[stage], e / e.sum(-1, keepdims=True), atol=2e-6)

    def test_pieces(self):
        seen = self.model.look("The 🚀")
        self.assertEqual(seen.pieces[:2], ["<|endoftext|>", "The"])
        self.assertEqual(re.sub(r"\\x(..)", lambda m: chr(int(m[1], 16)), "".join(seen.pieces[2:])).encode("latin-1").decode(), " 🚀")

    def test_the_lens_ends_with_the_logits(self):
        for text in (TEXT, LONG):
            seen = self.model.look(text, "lens")
            self.assertEqual(seen.lens.shape, (6, len(seen.tokens), self.model.vocab))
            np.testing.assert_array_equal(seen.lens[-1], self.model.logits(text))
            self.assertFalse((seen.lens[0] == seen.lens[1]).any(-1).all())

    def test_the_page_is_the_one_that_look_writes(self):
        page, text = self.folder / "page.html", self.folder / "text.txt"
        text.write_text(TEXT)
        for how, options in (
            ({}, [TEXT]), ({"layers": [1, 3]}, [TEXT, "--layers", "1,3"]), ({"head": (2, 3)}, [TEXT, "--head", "2.3"]),
            ({"view": "lens"}, [TEXT, "--lens"]), ({"view": "why", "token": "mat"}, [TEXT, "--why", "mat"]), ({"view": "surprise"}, ["--surprise", text]),
        ):  # fmt: skip
            seen = self.model.look(TEXT, **how)
            look(*options, "-o", page)
            self.assertEqual(seen.page, page.read_text())
            frame = seen._repr_html_()
            self.assertEqual(html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1]), seen.page)
            self.assertIn('sandbox="allow-scripts"', frame)
            seen.save(page)
            self.assertEqual(page.read_text(), seen.page)

    def test_what_cannot_be_looked_at(self):
        seen = self.model.look(TEXT, layers=[1])
        seen.pattern(1)
        for says, call in (
            ("layer 2 is not among those", lambda: seen.pattern(2)), ("model has layers 0 to 4", lambda: seen.pattern(5)),
            ("heads 0 to 7", lambda: seen.pattern(1, 8)), ("heads 0 to 7", lambda: self.model.look(TEXT, head=(2, 8))),
            ("layer from 0 to 4", lambda: self.model.look(TEXT, layers=[9])), ("no view: there are atlas", lambda: self.model.look(TEXT, "foo")),
            ("not a token id from 0 to 4095", lambda: self.model.look([4096])), ("not a token id", lambda: self.model.logits([2**32])),
            ("context is full: 512", lambda: self.model.logits([1] * 513)), ("needs a text", lambda: self.model.look([1], "surprise")),
            ("70000 tokens, too many for ./look", lambda: self.model.run_with_cache([1] * 70000, "hook_embed")),
            ("no stage: there are raw", lambda: seen.attention(1, 2, "foo")), ("layer: 'x' is not a whole", lambda: seen.pattern("x")),
            ("cannot write: No such file", lambda: seen.save(self.folder / "none" / "a.html")), ("^names_filter: 'a'", lambda: self.model.run_with_cache("a", "a")),
            ("^the arrays would have .* choose fewer by names_filter", lambda: self.model.run_with_cache([1] * 10000)),
        ):  # fmt: skip
            self.refused(says, call)
        np.testing.assert_array_equal(self.model.logits("a"), self.model.logits("a"))  # it still works

    def test_closed(self):
        with tern.Model(FABLE, cache_type="q8", n_threads=1, n_ctx=64) as model:
            seen, other = model.look(TEXT), model.look(TEXT)
            first = seen.pattern(0)
            self.assertTrue(seen._attention.handle)
        self.assertFalse(seen._attention.handle)
        np.testing.assert_allclose(first.sum(-1), 1, atol=1e-6)
        self.assertIn("Attention atlas", seen._repr_html_())
        for call in (lambda: model.logits(TEXT), lambda: model.look([1]), lambda: model.tokenize("a"), lambda: model.detokenize([1]),
                     lambda: seen.pattern(0), lambda: seen.pattern(1, 1), lambda: other.pattern(0), lambda: other.lens, lambda: other.pieces):  # fmt: skip
            self.refused("the model is closed", call)
        model.close()

    def test_a_look_keeps_its_model(self):
        seen = tern.Model(FABLE).look(TEXT)
        gc.collect()
        np.testing.assert_array_equal(seen.pattern(3), self.model.look(TEXT).pattern(3))

    def test_arguments_of_another_type(self):
        """What Python would say of them names lines of the package, not the argument."""
        m, none = self.model, self.folder / "none.bin"
        for says, call in (
            ("neither a text nor", lambda: m.logits(b"abc")), ("neither a text nor", lambda: list(m.generate(b"abc"))), ("neither", lambda: list(m.generate(np.array("a")))),
            ("the text: 5 is not a text", lambda: m.tokenize(5)), ("^ids is neither", lambda: m.detokenize(b"ab")), ("text 0: 1 is not a text", lambda: m.embed([1])),
            ("neither a text nor a list of texts", lambda: m.embed(None)), ("stop: 5 is not", lambda: m.generate("a", stop=5)), ("keep: None", lambda: m.sequence().keep(None)),
            ("callback: 3 cannot be called", lambda: m.observe("a", 3)), ("names_filter: 3 is not", lambda: m.run_with_cache("a", 3)), ("messages are a list", lambda: m.chat(None, template="chatml")),
            ("layers: 3 is no list", lambda: m.look("a", layers=3)), ("head: 3 is not a pair", lambda: m.look("a", head=3)), ("height: 'x'", lambda: m.look("a", height="x")),
            ("source: None is no name", lambda: tern.quantize(None, none)), ("out: 5 is no name", lambda: tern.quantize(FABLE, 5)), ("text: 3 is not", lambda: tern.quantize(FABLE, none, text=3)),
            ("report: 3 cannot", lambda: tern.quantize(FABLE, none, report=3)), ("path: None is no name", lambda: m.sequence().load(None)), ("sent to another process", lambda: pickle.dumps(m)),
            ("name: 3 is not a text", lambda: tern.Model.get(3)), ("out: 3 is no name", lambda: tern.Model.get("a/b", 3)),
        ):  # fmt: skip
            self.refused(says, call)
        for name in ("", None, 5, "a\0b", "a\ud800"):
            self.refused("is no name of a file", tern.Model, name)
        self.assertEqual(m.embed([]).shape, (0, m.info.dim))
        tern.Model(os.fsencode(FABLE), cpu="", fingerprint="yes").close()

    def test_what_does_not_open(self):
        self.refused("cannot open", tern.Model, self.folder / "none.bin")
        self.refused("éé", tern.Model, "é" * 2000)  # the sentence is cut within one
        self.refused("'int8' is not one of f16", tern.Model, FABLE, cache_type="int8")
        (self.folder / "bad.bin").write_bytes(b"x" * 4096)
        self.refused("bad.bin", tern.Model, self.folder / "bad.bin")
        with unittest.mock.patch.dict(os.environ, TERN_LIBRARY=str(self.folder / "libtern.so")):
            self.refused("there is no .*libtern.so: run `make`", tern.Model, FABLE)
            shutil.copy(BUILD / "libtern.so", self.folder / "alone.so")
            os.environ["TERN_LIBRARY"] = str(self.folder / "alone.so")
            with tern.Model(FABLE) as model:
                self.refused("cannot run .*look: No such file", model.look, TEXT)

    def test_the_examples_of_the_readme(self):
        for name in ("tools", "models"):
            (self.folder / name).symlink_to(ROOT / name)
        section = (ROOT / "tools/README.md").read_text().partition("## A model in Python")[2].partition("\n## ")[0]
        first, second = re.findall(r"```python\n(.*?)```", section, re.S)
        code = f"{first}\nmodel = tern.Model('models/fable.bin')\n{second}"
        subprocess.run([sys.executable, "-c", code], check=True, cwd=self.folder, stdout=subprocess.DEVNULL)
        self.assertTrue((self.folder / "fable-q4c.bin").exists())
        self.assertIn("Attention atlas", (self.folder / "atlas.html").read_text())

    def test_the_package_loads_without_numpy(self):
        (self.folder / "numpy.py").write_text("raise ImportError\n")
        code = "import tern; raise tern.Error('as it is named')"
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": f"{self.folder}:{ROOT / 'tools'}"}, capture_output=True, text=True)
        self.assertEqual(done.stderr.splitlines()[-1], "tern.Error: as it is named")

    def test_the_harness_is_missing(self):
        (self.folder / "lm_eval.py").write_text("raise ImportError('No module named lm_eval')\n")
        command = [sys.executable, "-m", "tern.harness", "--help"]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": f"{self.folder}:{ROOT / 'tools'}"}, capture_output=True, text=True)
        said = "tern.harness: No module named lm_eval; run `pip install lm-eval` in this environment\n"
        self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", said))


if __name__ == "__main__":
    unittest.main()
