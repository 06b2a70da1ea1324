"""The jobs of look that are about words: the logit lens, contributions, two files side by side, surgery. Numbers are
held to the engine's own observer and editor, through the Python binding, and to numpy."""

import contextlib
import ctypes
import io
import json
import os
import re
import signal
import subprocess
import unittest
import unittest.mock
from pathlib import Path

import gguf
import numpy as np

import cli_case  # first: it makes the next ones importable
from cli_case import ROOT, softmax
from look_case import FABLE, LOOK, LookCase, look, page_data

import convert
from test_golden_convert import directory
from tern import library as engine
from tern.testing import golden_file

LIBRARY = Path(os.environ.get("BUILD", "build")) / "libtern.so"
TEXT = "The cat sat on the"


@contextlib.contextmanager
def opened(model=FABLE):
    with engine.Engine(LIBRARY, model, n_ctx=512, cache_type="f16") as lib:
        yield lib


def streams(lib, ids: list[int]) -> dict[tuple[int, str], np.ndarray]:
    """What every step gives, f32 [positions, columns]; logits of all positions."""
    seen = {}
    lib.observe(ids, set(range(len(ids))), lambda o: seen.setdefault((o.layer, o.operation), []).append(o.values.copy()))
    return {name: np.concatenate(rows) for name, rows in seen.items()}


class Lens(LookCase):
    def test_a_page_has_what_the_engine_and_numpy_say(self):
        page = self.folder / "lens.html"
        look(FABLE, TEXT, "--lens", "-o", page)
        data = page_data(page)
        with opened() as lib:
            ids = lib.encode(TEXT.encode())
            seen = streams(lib, ids)
            x = [seen[0, "embed"]] + [seen[layer, "out"] for layer in range(5)]
            p = [softmax(lib.lens(rows)) for rows in x]
        self.assertEqual(data["stages"], ["embed", "0", "1", "2", "3", "4"])
        np.testing.assert_array_equal(p[5], softmax(seen[5, "logits"]))
        for i, position in enumerate(data["positions"]):
            says = p[5][i].argmax()
            for stage, (rank, of_final, *top) in enumerate(position["guesses"]):
                order = np.argsort(-p[stage][i], kind="stable")
                self.assertEqual(rank, 1 + list(order).index(says))
                self.assertAlmostEqual(of_final, p[stage][i][says], places=5)
                np.testing.assert_allclose(top[1::2], p[stage][i][order[:5]], atol=1e-5)
            self.assertEqual(position["says"], position["guesses"][5][2])

    def test_the_terminal_shows_the_same(self):
        page = self.folder / "lens.html"
        look(FABLE, TEXT, "--lens", "-o", page, "-n", 2)
        rows = look(FABLE, TEXT, "--lens", "-n", 2).stdout.decode().splitlines()
        self.assertEqual(rows[0].split(), ["after", "layer", "embed", "0", "1", "2", "3", "4"])
        for i, position in enumerate(page_data(page)["positions"]):
            self.assertEqual(rows[2 + 2 * i].split()[1], position["says"])
            self.assertEqual([int(r) for r in re.findall(r"#(\d+)", rows[2 + 2 * i])], [g[0] for g in position["guesses"]])
        self.assertIn("\033[48;2;", look(FABLE, TEXT, "--lens", "--color", "true").stdout.decode())

    def test_layers_and_positions(self):
        page = self.folder / "some.html"
        look(FABLE, TEXT, "--lens", "-o", page, "--layers", "1,3", "--positions", "2-3")
        some = page_data(page)
        look(FABLE, TEXT, "--lens", "-o", page)
        whole = page_data(page)
        self.assertEqual((some["stages"], some["first"], len(some["positions"])), (["1", "3", "4"], 2, 2))
        for have, all_ in zip(some["positions"], whole["positions"][2:4]):
            self.assertEqual(have["guesses"], [all_["guesses"][k] for k in (2, 4, 5)])
        self.refused(FABLE, "x", "--lens", "--layers", "5", says="layer from 0 to 4")
        self.refused(FABLE, "x", "--lens", "--positions", "2-9", says="positions 0 to 1")
        self.refused(FABLE, "x", "--lens", "-o", self.folder / "new.txt", says="must end in .html")

    def test_text_is_never_markup(self):
        page = self.folder / "lens.html"
        look(FABLE, "<script>alert(1)</script> \x1b[31m \u202e", "--lens", "-o", page)
        self.assertEqual(len(re.findall("<script", page.read_text())), 2)
        self.assertNotIn("\x1b", page.read_text())
        self.assertNotRegex(page.read_text(), r"https?://")


class Why(LookCase):
    def rows(self, *arguments) -> dict[str, float]:
        lines = look(FABLE, TEXT, *arguments).stdout.decode().splitlines()[1:]
        return {name: float(value) for value, name in (line.split(maxsplit=1) for line in lines)}

    def test_terms_are_those_of_the_engine_and_sum_to_the_logit(self):
        page = self.folder / "why.html"
        rows = self.rows("--why", " mat")
        look(FABLE, TEXT, "--why", " mat", "-o", page)
        data = page_data(page)
        with opened() as lib:
            ids = lib.encode(TEXT.encode())
            (token,) = lib.encode(b"The mat")[2:]
            lib.keep_terms(True)
            logits = lib.logits(ids)[-1]
            terms, logit = lib.contributions(token)
        self.assertEqual(logit, logits[token])
        self.assertAlmostEqual(rows.pop("sum"), logit, delta=1e-4 * np.abs(logits).max())
        self.assertAlmostEqual(rows.pop("logit, before any cap"), logit, places=4)
        self.assertEqual([t[0] for t in data["terms"]][:3], ["embedding", "head 0.0", "head 0.1"])
        np.testing.assert_allclose([t[2] for t in data["terms"]], list(terms.values()), rtol=1e-6)
        self.assertEqual({t[0]: t[2] for t in data["terms"]}.keys(), rows.keys())
        for name, _, value in data["terms"]:
            self.assertAlmostEqual(rows[name], value, places=4)
        self.assertEqual(sorted(rows.values(), key=abs, reverse=True), list(rows.values()))
        self.assertEqual((data["id"], data["token"]), (token, "·mat"))
        self.assertAlmostEqual(data["p"], softmax(logits)[token], places=5)

    def test_a_token_is_named_by_text_or_id(self):
        best = look(FABLE, TEXT, "--why", "").stdout
        with opened() as lib:
            token = int(lib.logits(lib.encode(TEXT.encode()))[-1].argmax())
        self.assertEqual(look(FABLE, TEXT, "--why", f"id:{token}").stdout, best)
        self.assertIn(f"(id {token}, ".encode(), best)
        label = re.match(rb"why \xc2\xb7(\w+) ", best)[1]
        self.assertEqual(look(FABLE, TEXT, "--why", label.decode()).stdout, best)
        self.refused(FABLE, TEXT, "--why", "no token", says="id from 0 to 4095")
        self.refused(FABLE, TEXT, "--why", "id:4096", says="id from 0 to 4095")
        self.refused(FABLE, TEXT, "--why", "", "-o", self.folder / "new.svg", says="must end in .html")


    def test_another_position_is_the_end_of_a_shorter_text(self):
        page = self.folder / "why.html"
        for position, shorter in ((2, "The cat"), (1, "The")):  # BOS is position 0
            same = look(FABLE, shorter, "--why", " sat").stdout
            self.assertEqual(look(FABLE, TEXT, "--why", " sat", "--positions", position).stdout, same)
            self.assertIn(f", position {position}\n".encode(), same)
            pages = []
            for arguments in ((shorter,), (TEXT, "--positions", position, "-n", 3)):
                look(FABLE, *arguments, "--why", " sat", "-o", page)
                pages.append(page_data(page))
            self.assertEqual(*pages)
        whole = look(FABLE, TEXT, "--why", "", "-n", 4).stdout
        self.assertEqual(look(FABLE, TEXT, "--why", "", "-n", 9, "--positions", 9).stdout, whole)
        self.refused(FABLE, TEXT, "--why", "", "--positions", "6", says="positions 0 to 5")
        self.refused(FABLE, TEXT, "--why", "", "--positions", "2-3", says="about one position")
        self.refused(FABLE, TEXT, "--why", "", "--positions", "2", "--attn", "bidirectional", says="the last position")
        self.refused(FABLE, "Once upon a time", "--why", "", "-n", 400, "--positions", 404, says="ended the text after", code=6)


class Shape(ctypes.Structure):
    """struct tern_shape"""

    _fields_ = [(n, ctypes.c_uint64) for n in "dim hidden n_layers n_heads n_kv_heads head_dim vocab max_seq".split()]
    _fields_ += [("tied", ctypes.c_int), ("window", ctypes.c_uint64), ("keys", ctypes.c_char_p)]


def random_model(path: Path, hidden: int) -> None:
    shape, error = Shape(64, hidden, 2, 4, 2, 16, 96, 64, 1, 0, None), engine.Error()
    write = ctypes.CDLL(str(LIBRARY.resolve())).tern_random_model
    assert not write(os.fsencode(path), ctypes.byref(shape), 0, ctypes.c_uint64(5), 1, ctypes.byref(error)), error.text


class Compare(LookCase):
    def small(self) -> Path:
        """fable as q4c."""
        small = self.folder / "small.bin"
        subprocess.run([os.environ.get("QUANTIZE", "./quantize"), FABLE, small, "q4c", "-q"], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        return small

    def test_differences_are_those_of_what_both_give(self):
        page, small = self.folder / "compare.html", self.small()
        text = "The cat sat on the mat and looked at the little dog that ran in the garden all day."
        both = []
        for model in (FABLE, small):
            with opened(model) as lib:
                both.append(streams(lib, lib.encode(text.encode())))
        bound = 0.15
        out = look(FABLE, text, "--compare", small, "--bound", bound).stdout.decode()
        look(FABLE, text, "--compare", small, "--bound", bound, "-o", page)
        data = page_data(page)
        apart = {}
        for (step, a), b in zip(both[0].items(), both[1].values()):
            apart[step] = np.abs(a.astype(float) - b).max(1) / np.abs(a).max(1)
        self.assertEqual([(s[0], s[1]) for s in data["steps"]], list(apart))
        for layer, operation, most, at in data["steps"]:
            rows = apart[layer, operation]
            np.testing.assert_allclose(most, rows.max(), rtol=1e-6)
            self.assertEqual(at, rows.argmax())
        first = next((*step, int(np.argmax(rows > bound))) for step, rows in apart.items() if rows.max() > bound)
        self.assertEqual(tuple(data["first"]), first)
        self.assertIn(f"layer {first[0]}, {first[1]}, token {first[2]}, ", out)
        p, q = (softmax(seen[5, "logits"]) for seen in both)
        kl = (p * np.log(p / q)).sum(1)
        np.testing.assert_allclose([t[1] for t in data["tokens"]], kl, rtol=1e-4, atol=1e-7)
        self.assertIn(f"mean {kl.mean():.6f} nats, largest {kl.max():.6f} after token {kl.argmax()},", out)
        same = int((p.argmax(1) == q.argmax(1)).sum())
        self.assertIn(f"the same after {same} of {len(kl)} tokens", out)
        self.assertEqual(data["same"], same)

    def test_a_file_does_not_differ_from_itself(self):
        out = look(FABLE, TEXT, "--compare", FABLE, "--bound", 0, "-n", 3).stdout.decode()
        self.assertIn("no step differs by more than 0 of", out)
        self.assertIn("same after 9 of 9 tokens", out)
        self.assertFalse(re.search(r"e-\d\d", out))

    def test_other_models_are_refused_by_what_differs(self):
        toy, other = self.folder / "toy.bin", self.folder / "other.bin"
        cli_case.write_model(toy, 256)
        cli_case.write_model(other, 256, text=False)
        self.refused(FABLE, "x", "--compare", toy, says="n_layers is 5 in the first, 2 in the other")
        self.refused(toy, "x", "--compare", other, says="only one of the files has a tokenizer")
        words = cli_case.tokenizer_section().replace(b"<s>", b"<t>")
        with unittest.mock.patch.object(cli_case, "tokenizer_section", lambda: words):
            cli_case.write_model(other, 256)
        self.refused(toy, "x", "--compare", other, says="token 1 differs")
        for path, hidden in ((toy, 160), (other, 192)):
            random_model(path, hidden)
        self.refused(toy, "--prompt-ids", "1", "--compare", other, says="hidden of layer 0 is 160 in the first, 192 in the other")
        self.refused(FABLE, "x", "--compare", self.folder / "none.bin", says="none.bin", code=4)
        self.refused(FABLE, "x", "--compare", FABLE, "-o", self.folder / "new.npz", says="must end in .html")


OTHER = "The dog ran to the"  # of as many tokens as TEXT


def edited(layer: int, operation: str, change):
    """An editor for Engine.edit: change(values of one row, its position) changes them in place."""

    def edit(o) -> bool:
        if (o.layer, o.operation) != (layer, operation):
            return False
        for row, position in zip(o.values, o.positions):
            change(row, position)
        return True

    return edit


def mixtral_in_numpy(golden: golden_file.Golden, ids: list[int], change) -> tuple[np.ndarray, np.ndarray]:
    """(the stream after the last layer, logits) of a golden Mixtral for a text that fits its window. change(layer, e, x) is
    what becomes of the output x [dim] of expert e."""
    w, k, n = golden.weights(), golden.keys, np.arange(len(ids))
    d, heads, per = k["head_dim"], k["n_heads"], k["n_heads"] // k["n_kv_heads"]
    norm = lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g  # noqa: E731
    angle = n[:, None, None] * 10000.0 ** (-2 * np.arange(d // 2) / d)

    def turned(x):
        a, b = x[..., : d // 2], x[..., d // 2 :]
        return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)

    w = {name: x.astype(np.float64) for name, x in w.items()}
    x = w["embed"][ids]
    for layer in range(k["n_layers"]):
        part = {name.split(".")[-1]: v for name, v in w.items() if name.startswith(f"layer.{layer}.")}
        y = norm(x, part["attn_norm"])
        q, key, v = ((y @ part[name].T).reshape(len(ids), -1, d) for name in "qkv")
        q, key, v = turned(q), np.repeat(turned(key), per, 1), np.repeat(v, per, 1)
        scores = np.einsum("ihd,jhd->hij", q, key) / np.sqrt(d)
        z = np.einsum("hij,jhd->ihd", softmax(np.where(n[None, :] > n[:, None], -np.inf, scores)), v)
        x = x + z.reshape(len(ids), heads * d) @ part["o"].T
        y = norm(x, part["ffn_norm"])
        scores = y @ part["router"].T
        for i, row in enumerate(scores):
            chosen = np.argsort(-row)[: k["experts_used"]]
            for e, share in zip(chosen, softmax(row[chosen])):
                gate = part["gate"][e] @ y[i]
                out = part["down"][e] @ (gate / (1 + np.exp(-gate)) * (part["up"][e] @ y[i]))
                x[i] += share * change(layer, e, out)
    return x, norm(x, w["final_norm"]) @ w["head"].T


class Surgery(LookCase):
    def shown(self, *arguments, text: str = TEXT) -> tuple[dict[str, tuple[float, float]], float]:
        """{token: (before, after)} of both lists, and KL."""
        lines = look(FABLE, text, *arguments).stdout.decode().splitlines()
        found = {}
        for line in lines[1:11]:
            _, a, a_before, a_after, b, b_after, b_before = line.split()
            found |= {a: (float(a_before), float(a_after)), b: (float(b_before), float(b_after))}
        return found, float(re.match(r"KL\(before, after\) (\S+) nats", lines[11])[1])

    def holds(self, arguments, *edits, text: str = TEXT) -> None:
        """What look shows is what the engine gives with the editors of the binding."""
        found, kl = self.shown(*arguments, text=text)
        with opened() as lib:
            ids = lib.encode(text.encode())
            before = softmax(lib.logits(ids)[-1])
            lib.edit(lambda o: any([edit(o) for edit in edits]))
            after = softmax(lib.logits(ids)[-1])
        self.assertGreater(np.abs(before - after).max(), 1e-3)
        self.assertAlmostEqual(kl, (before * np.log(before / after)).sum(), places=5)
        for p, column in ((before, 0), (after, 1)):
            best = sorted((x[column] for x in found.values()), reverse=True)[:10]
            np.testing.assert_allclose(best, np.sort(p)[::-1][:10], atol=1e-4)
        self.assertLess(sum(1 for x in found.values() if abs(x[0] - x[1]) < 1e-9), len(found))

    def watched(self, text: str) -> dict:
        with opened() as lib:
            return streams(lib, lib.encode(text.encode()))

    def test_parts_switched_off(self):
        def zero(columns):
            return lambda row, _: row.__setitem__(columns, 0)

        self.holds(["--ablate", "2.3"], edited(2, "attend", zero(slice(3 * 64, 4 * 64))))
        self.holds(["--ablate", "1.ffn"], edited(1, "down", zero(slice(None))))
        self.holds(["--ablate", "0.attn"], edited(0, "o", zero(slice(None))))
        self.holds(
            ["--ablate", "0.6,3.0,4.ffn"],
            edited(0, "attend", zero(slice(6 * 64, 7 * 64))),
            edited(3, "attend", zero(slice(0, 64))),
            edited(4, "down", zero(slice(None))),
        )

    def test_parts_at_their_mean(self):
        corpus = self.folder / "corpus.txt"
        corpus.write_text("Once upon a time there was a little dog. It ran to the park and saw a cat.")
        seen = self.watched(corpus.read_text())
        head = seen[0, "attend"][:, 6 * 64 : 7 * 64].astype(float).mean(0)
        down = seen[2, "down"].astype(float).mean(0)
        self.holds(
            ["--ablate", "0.6,2.ffn", "--mean-over", corpus],
            edited(0, "attend", lambda row, _: row.__setitem__(slice(6 * 64, 7 * 64), head)),
            edited(2, "down", lambda row, _: row.__setitem__(slice(None), down)),
        )

    def test_means_of_a_text_longer_than_the_context(self):
        """Each sequence begins with BOS, which counts each time."""
        corpus = self.folder / "corpus.txt"
        corpus.write_text("Once upon a time there was a little dog. It ran to the park and saw a cat. " * 3)
        with opened() as lib:
            ids = lib.encode(corpus.read_bytes())
            parts = [ids[:1] + ids[i : i + 19] for i in range(1, len(ids), 19)]
            mean = np.concatenate([streams(lib, part)[1, "down"] for part in parts]).astype(float).mean(0)
        self.assertGreater(len(parts), 2)
        self.holds(
            ["--ablate", "1.ffn", "--mean-over", corpus, "-c", 20],
            edited(1, "down", lambda row, _: row.__setitem__(slice(None), mean)),
        )

    def test_values_of_another_text(self):
        other = self.watched(OTHER)

        def put(name, first=0, last=99):
            def change(row, position):
                if first <= position <= last:
                    row[:] = other[name][position]

            return edited(*name, change)

        self.holds(["--from", OTHER, "--patch", "2.hook_resid_post@4"], put((2, "out"), 4, 4))
        self.holds(["--from", OTHER, "--patch", "2.hook_resid_pre@1:4"], put((1, "out"), 1, 4))
        self.holds(["--from", OTHER, "--patch", "0.attn.hook_z,3.mlp.hook_post@2:5"], put((0, "attend")), put((3, "act"), 2, 5))
        self.holds(["--from", OTHER, "--patch", "1.attn.hook_v@1:3,1.attn.hook_k@1:3"], put((1, "v"), 1, 3), put((1, "k"), 1, 3))
        whole, _ = self.shown("--from", OTHER, "--patch", "4.hook_resid_post")
        alone, _ = self.shown("--ablate", "0.0", text=OTHER)
        first = max(alone, key=lambda t: alone[t][0])
        self.assertAlmostEqual(whole[first][1], alone[first][0], places=4)

    def test_a_direction_between_two_texts(self):
        sad, happy = self.watched("I am sad"), self.watched("I am very happy")
        direction = happy[2, "out"][-1] - sad[2, "out"][-1]
        saved = self.folder / "happy.gguf"
        make = ["--steer-from", "I am sad", "--steer-to", "I am very happy", "--steer-layer", 2, "--steer-by", -1.5]

        def add(row, _):
            row += np.float32(-1.5) * direction

        self.holds([*make, "-o", saved], edited(2, "out", add))
        tensors = gguf.GGUFReader(saved).tensors
        self.assertEqual([t.name for t in tensors], ["direction.2"])
        np.testing.assert_array_equal(tensors[0].data, direction)
        fields = gguf.GGUFReader(saved).fields
        self.assertEqual(fields["general.architecture"].contents(), "controlvector")
        again = [look(FABLE, TEXT, *a, "-n", 6).stdout for a in (make, ["--steer", saved, "--steer-by", -1.5])]
        self.assertEqual(again[0], again[1])

    def test_directions_of_several_layers_and_the_embedding(self):
        sad, happy = self.watched("I am sad"), self.watched("I am very happy")
        saved = self.folder / "happy.gguf"
        make = ["--steer-from", "I am sad", "--steer-to", "I am very happy", "--steer-by", 0.5]
        for layers, places in (
            ("0", [(0, "out")]), ("embed", [(0, "embed")]), ("embed,4,0-1", [(0, "embed"), (0, "out"), (1, "out"), (4, "out")]),
        ):  # fmt: skip
            directions = {place: happy[place][-1] - sad[place][-1] for place in places}
            adds = [edited(*place, lambda row, _, v=v: np.add(row, np.float32(0.5) * v, out=row)) for place, v in directions.items()]
            self.holds([*make, "--steer-layer", layers, "-o", saved], *adds)
            tensors = {t.name: t.data for t in gguf.GGUFReader(saved).tensors}
            names = {"direction." + ("embed" if name == "embed" else str(layer)): v for (layer, name), v in directions.items()}
            self.assertEqual(list(tensors), list(names))
            np.testing.assert_equal(tensors, names)
            self.holds(["--steer", saved, "--steer-by", 0.5], *adds)
        self.holds(["--steer", saved, "--steer-by", 0.5, "--steer-layer", "0,2-4"], adds[1], adds[3])
        self.holds(["--steer", saved, "--steer-by", 0.5, "--steer-layer", "embed"], adds[0])

    def test_a_control_vector_that_others_made(self):
        rng, path = np.random.default_rng(5), self.folder / "made.gguf"
        writer = gguf.GGUFWriter(path, "controlvector")
        writer.add_string("controlvector.model_hint", "llama")
        writer.add_uint32("controlvector.layer_count", 2)
        writer.add_array("some.words", ["a", "bc"])
        writer.add_array("some.numbers", [1, 2, 3])
        vectors = {layer: rng.standard_normal(256).astype(np.float32) for layer in (1, 3)}
        for layer, values in vectors.items():
            writer.add_tensor(f"direction.{layer}", values)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        both = [edited(layer, "out", lambda row, _, v=v: np.add(row, v, out=row)) for layer, v in vectors.items()]
        self.holds(["--steer", path], *both)
        self.holds(["--steer", path, "--steer-layer", 3], both[1])
        self.refused(FABLE, TEXT, "--steer", path, "--steer-layer", 2, says="the file has no direction there")
        self.refused(self.narrow(), "x", "--steer", path, says="direction.1 has 256 values, but the model's dim is 64")
        whole, cut = path.read_bytes(), self.folder / "cut.gguf"
        for n in (*range(0, 420, 7), len(whole) - 256 * 4, len(whole) - 1):
            cut.write_bytes(whole[:n])
            self.refused(FABLE, TEXT, "--steer", cut, says="cut.gguf: ", code=3)
        half = gguf.GGUFWriter(cut, "controlvector")
        half.add_tensor("direction.1", vectors[1].astype(np.float16))
        half.write_header_to_file()
        half.write_kv_data_to_file()
        half.write_tensors_to_file()
        half.close()
        self.refused(FABLE, TEXT, "--steer", cut, says="is not f32", code=3)
        for seed in range(60):  # any byte of the header changed: it is refused or read, and never more than that
            damaged = bytearray(whole)
            damaged[np.random.default_rng(seed).integers(0, 400)] ^= 1 << seed % 8
            cut.write_bytes(damaged)
            done = subprocess.run([LOOK, FABLE, TEXT, "--steer", cut], capture_output=True, cwd=ROOT, timeout=60)
            self.assertIn(done.returncode, (0, 2, 3), done.stderr)

    def narrow(self) -> Path:
        path = self.folder / "narrow.bin"
        cli_case.write_model(path, 256)
        return path

    def test_the_text_goes_on_under_the_edit(self):
        out = look(FABLE, TEXT, "--ablate", "0.attn", "-n", 12).stdout.decode()
        before, after = re.search(r"\nbefore:(.*)\n\nafter:(.*)\n", out).groups()
        with opened() as lib:
            for text, edit in ((before, None), (after, edited(0, "o", lambda row, _: row.fill(0)))):
                ids = lib.encode(TEXT.encode())
                n = len(ids)
                lib.edit(edit)
                for _ in range(12):
                    ids.append(int(lib.logits(ids, n)[-1].argmax()))
                self.assertEqual(lib.encode((TEXT + text).encode()), ids)

    def test_a_page_has_what_the_terminal_shows(self):
        page, corpus = self.folder / "page.html", self.folder / "corpus.txt"
        corpus.write_text("Once upon a time there was a little dog.")
        for arguments, options, edits in (
            (["--ablate", "0.attn,2.3"], {"ablate": "0.attn,2.3"}, [[0, "o", False, 0, 256, None], [2, "attend", False, 192, 64, None]]),
            (["--ablate", "1.ffn", "--mean-over", corpus], {"ablate": "1.ffn", "mean_over": str(corpus)}, [[1, "down", False, 0, 256, None]]),
            (["--patch", "2.hook_resid_post@4:5", "--from", OTHER], {"patch": "2.hook_resid_post@4:5", "from": OTHER}, [[2, "out", False, 0, 256, [4, 5]]]),
            (["--steer-from", "sad", "--steer-to", "glad", "--steer-layer", 3, "--steer-by", -2],
             {"steer_from": "sad", "steer_to": "glad", "steer_layer": "3", "steer_by": "-2"}, [[3, "out", True, 0, 256, None]]),
        ):  # fmt: skip
            found, kl = self.shown(*arguments)
            said = look(FABLE, TEXT, *arguments, "-n", 5).stdout.decode()
            self.assertEqual(look(FABLE, TEXT, *arguments, "-n", 5, "-o", page).stdout, b"")
            data = page_data(page)
            self.assertEqual((data["options"], data["edits"]), (options, edits))
            self.assertEqual({c[0] for c in data["choices"]}, set(found))
            for token, _, before, after in data["choices"]:
                np.testing.assert_allclose((before, after), found[token], atol=6e-5)
            self.assertAlmostEqual(data["kl"], kl, places=5)
            for name in ("before", "after"):
                text = re.search(rf"\n{name}:(.*)\n", said)[1]
                self.assertEqual("".join(data[name]).replace("·", " ").replace("\\n", "\n"), text)

    def test_other_jobs_see_the_changed_model(self):
        terms = look(FABLE, TEXT, "--ablate", "2.3", "--why", "").stdout.decode()
        self.assertRegex(terms, r"[+-]0\.0000  head 2\.3\n")
        look(FABLE, TEXT, "--ablate", "0.attn", "--lens", "-o", self.folder / "lens.html")
        _, *guess = page_data(self.folder / "lens.html")["positions"][-1]["guesses"][-1]
        found, _ = self.shown("--ablate", "0.attn")
        self.assertAlmostEqual(guess[0], max(x[1] for x in found.values()), places=4)

    def mixtral(self) -> tuple[golden_file.Golden, Path]:
        golden, model = golden_file.read(ROOT / "tests/golden/mixtral.txt"), self.folder / "experts.bin"
        with contextlib.redirect_stdout(io.StringIO()):
            directory(self.folder / "source", golden, golden.config, False)
            self.assertEqual(convert.main([str(self.folder / "source"), str(model)]), 0)
        return golden, model

    def test_an_expert_switched_off(self):
        golden, model = self.mixtral()
        ids = golden.tokens()[:9]
        with opened(model) as lib:
            used = np.flatnonzero(streams(lib, ids)[0, "router"][-1])[0]
            before = softmax(lib.logits(ids)[-1])
            lib.edit(edited(0, "router", lambda row, _: row.__setitem__(used, 0)))
            after = softmax(lib.logits(ids)[-1])
        text = ["--prompt-ids", ",".join(map(str, ids))]
        out = look(model, *text, "--ablate", f"0.expert.{used}").stdout.decode()
        self.assertAlmostEqual(float(re.search(r"KL\(before, after\) (\S+)", out)[1]), (before * np.log(before / after)).sum(), places=5)
        self.refused(model, *text, "--ablate", "0.expert.99", says="layer 0 has experts 0 to")

    def test_experts_against_numpy(self):
        """Zero and mean of an expert. The oracle is held to transformers, too: its logits are the golden file's."""
        golden, model = self.mixtral()
        ids, corpus, rows = golden.tokens()[:8], self.folder / "corpus.txt", {}
        _, logits = mixtral_in_numpy(golden, ids, lambda layer, e, x: rows.setdefault((layer, e), []).append(x) or x)
        np.testing.assert_allclose(logits[7], golden.rows[7], atol=1e-5 * np.abs(golden.rows[7]).max())
        text = "".join(chr(0x21 + i) for i in ids)  # a letter is a token
        corpus.write_text(text)
        means = {at: np.mean(values, axis=0) for at, values in rows.items()}
        for layer, expert in sorted(means):
            for value, more in ((0, []), (means[layer, expert], ["--mean-over", corpus])):
                change = lambda at, e, x: value if (at, e) == (layer, expert) else x  # noqa: B023, E731
                want, _ = mixtral_in_numpy(golden, golden.tokens()[:9], change)
                out = self.folder / "out.npz"
                arguments = ["--ablate", f"{layer}.expert.{expert}", *more, "--cache-type", "f32", "--capture", out, "--hooks", "blocks.1.hook_resid_post"]
                look(model, "--prompt-ids", ",".join(map(str, golden.tokens()[:9])), *arguments)
                got = np.load(out)["blocks.1.hook_resid_post"][0]
                np.testing.assert_allclose(got, want, atol=2e-5 * np.abs(want).max(), err_msg=f"{layer}.expert.{expert}")
        rows.clear()
        mixtral_in_numpy(golden, ids[:1], lambda layer, e, x: rows.setdefault((layer, e), x))
        corpus.write_text(text[:1])
        layer, expert = next(at for at in means if at not in rows)
        says = f"no token of the text is sent to expert {expert} of layer {layer}"
        self.refused(model, "--prompt-ids", "1", "--ablate", f"{layer}.expert.{expert}", "--mean-over", corpus, says=says)

    def test_what_is_not_there(self):
        refused = lambda *a, says: self.refused(FABLE, TEXT, *a, says=says)  # noqa: E731
        refused("--ablate", "5.0", says="layers 0 to 4")
        refused("--ablate", "0.8", says="layer 0 has heads 0 to 7")
        refused("--ablate", "0.expert.1", says="layer 0 has no experts")
        for word in ("", "1", "1.", ".1", "1.x", "1.2,", "a.ffn", "1.expert.", "-1.2"):
            refused("--ablate", word, says="--ablate: '.*' is no head")
        refused("--patch", "1.hook_z", "--from", OTHER, says="hooks of layer 1 that can be patched are hook_resid_pre, attn.hook_q")
        refused("--patch", "9.hook_resid_pre", "--from", OTHER, says="layers 0 to 4")
        refused("--patch", "1.mlp.hook_pre", "--from", OTHER, says="hooks of layer 1")
        refused("--patch", "1.hook_resid_pre@6", "--from", OTHER, says="positions 0 to 5")
        refused("--patch", "1.hook_resid_pre@3:2", "--from", OTHER, says="positions 0 to 5")
        refused("--patch", "1.hook_resid_pre@x", "--from", OTHER, says="as in @4 or @2:5")
        refused("--patch", "hook_embed", "--from", OTHER, says="is no layer, hook and positions")
        refused("--patch", "1.hook_resid_pre", "--from", "The", says="--from has 2 tokens, but the text has 6")
        refused("--patch", "1.hook_resid_pre", says="--from TEXT")
        refused("--from", OTHER, says="goes with --patch")
        refused("--mean-over", FABLE, says="goes with --ablate")
        refused("--steer-from", "a", says="go together")
        refused("--steer-by", "2", says="need a direction")
        for layers in ("", "5", "3-2", "0,5", "x", "embed-1", "1,,2"):
            refused("--steer-from", "a", "--steer-to", "b", "--steer-layer", layers, says="is no layer from 0 to 4, no range")
        refused("--steer", "x", "--steer-from", "a", "--steer-to", "b", says="exclude each other")
        for name in ("new.gguf", "new.svg"):
            refused("--ablate", "1.1", "-o", self.folder / name, says="must end in .html, or in .gguf")
        refused("--ablate", "1.1", "--compare", FABLE, says="as they are")
        self.refused(FABLE, TEXT, "--steer", FABLE, says="not a GGUF file", code=3)
        self.refused(FABLE, TEXT, "--steer", self.folder / "none.gguf", says="none.gguf", code=4)


class Ranks(LookCase):
    TEXT = "Once upon a time there was a little dog. It ran to the park and saw a cat."

    def loss(self, pieces: list[list[int]], heads=()) -> float:
        """Mean of -log p over the tokens after the first of each piece, with these heads switched off."""
        total, n = 0.0, 0
        with opened() as lib:
            if heads:
                lib.edit(edited(heads[0], "attend", lambda row, _: row.__setitem__(slice(heads[1] * 64, (heads[1] + 1) * 64), 0)))
            for ids in pieces:
                p = softmax(lib.logits(ids))
                total -= np.log(p[np.arange(len(ids) - 1), ids[1:]]).sum()
                n += len(ids) - 1
        return total / n

    def test_ranks_are_losses(self):
        lines, text = self.folder / "ranks.jsonl", self.folder / "text.txt"
        text.write_text(self.TEXT)
        with opened() as lib:
            ids = lib.encode(self.TEXT.encode())
        cut = [ids[:1] + ids[i : i + 9] for i in range(1, len(ids), 9)]
        for arguments, pieces in (((), [ids]), (("-c", 10), cut)):
            look(FABLE, "-f", text, "--ablate", "each", "-o", lines, *arguments)
            ranks = [json.loads(line) for line in lines.read_text().splitlines()]
            self.assertEqual(sorted((r["layer"], r["head"]) for r in ranks), [(layer, h) for layer in range(5) for h in range(8)])
            self.assertEqual([r["rank"] for r in ranks], list(range(1, 41)))
            self.assertEqual(sorted((r["loss"] for r in ranks), reverse=True), [r["loss"] for r in ranks])
            plain = self.loss(pieces)
            for r in (ranks[0], ranks[7], ranks[-1]):
                loss = self.loss(pieces, (r["layer"], r["head"]))
                self.assertAlmostEqual(r["loss"], loss, places=5)
                self.assertAlmostEqual(r["change"], loss - plain, places=5)

    def test_the_terminal_shows_a_map_and_the_ranks(self):
        lines = self.folder / "ranks.jsonl"
        look(FABLE, self.TEXT, "--ablate", "each", "-o", lines)
        ranks = [json.loads(line) for line in lines.read_text().splitlines()]
        out = look(FABLE, self.TEXT, "--ablate", "each").stdout.decode()
        rows = re.findall(r"^ *(\d+)  (\d)\.(\d) +(\S+)  (\S+)$", out, re.MULTILINE)
        self.assertEqual([(int(a), int(b)) for _, a, b, *_ in rows], [(r["layer"], r["head"]) for r in ranks])
        np.testing.assert_allclose([float(r[4]) for r in rows], [r["change"] for r in ranks], atol=1e-6)
        at, column = out.splitlines()[1 + ranks[0]["layer"]], 6 + 3 * ranks[0]["head"] + 2
        self.assertEqual(at[column], "@")
        self.assertIn("\033[48;2;", look(FABLE, self.TEXT, "--ablate", "each", "--color", "true").stdout.decode())

    def test_a_page_has_the_ranks(self):
        lines, page = self.folder / "ranks.jsonl", self.folder / "ranks.html"
        look(FABLE, self.TEXT, "--ablate", "each", "-o", lines)
        look(FABLE, self.TEXT, "--ablate", "each", "-o", page)
        ranks, data = [json.loads(line) for line in lines.read_text().splitlines()], page_data(page)
        self.assertEqual([tuple(h) for h in data["heads"]], [(r["layer"], r["head"], r["loss"]) for r in ranks])
        self.assertAlmostEqual(ranks[0]["loss"] - data["loss"], ranks[0]["change"], places=5)
        self.assertEqual((data["scored"], len(data["text"])), (20, 21))

    def test_the_mean_costs_less_than_nothing_at_all(self):
        corpus = self.folder / "corpus.txt"
        corpus.write_text(self.TEXT)
        change = []
        for more in ((), ("--mean-over", corpus)):
            look(FABLE, self.TEXT, "--ablate", "each", "-o", self.folder / "r.jsonl", *more)
            change.append(sum(abs(json.loads(line)["change"]) for line in (self.folder / "r.jsonl").read_text().splitlines()))
        self.assertLess(change[1], change[0])

    def test_what_does_not_go_together(self):
        self.refused(FABLE, "x y", "--ablate", "each", "-o", self.folder / "new.svg", says="must end in .html or .jsonl")
        self.refused(FABLE, "x y", "--ablate", "each", "--lens", says="works alone")
        self.refused(FABLE, "--prompt-ids", "5", "--ablate", "each", says="at least two tokens")

    def test_a_signal_leaves_no_file(self):
        text = self.folder / "text.txt"
        text.write_text(self.TEXT * 100)
        p = subprocess.Popen([LOOK, FABLE, "-f", text, "--ablate", "each", "-o", self.folder / "new.jsonl"], cwd=ROOT, stderr=subprocess.PIPE)
        cli_case.until(lambda: cli_case.catches(p, signal.SIGINT) and cli_case.processor_seconds(p) > 0.3)
        p.send_signal(signal.SIGINT)
        self.assertEqual((p.communicate()[1], p.returncode), (b"", 130))
        self.assertEqual([f.name for f in self.folder.iterdir()], ["text.txt"])


if __name__ == "__main__":
    unittest.main()
