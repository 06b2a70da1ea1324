"""The program look, driven as people drive it. What a browser does with its pages: test_look_browser.py."""

import base64
import json
import os
import re
import resource
import signal
import subprocess
import time
import unittest
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import numpy as np
import safetensors.numpy
from cli_case import ROOT
from look_case import FABLE, LOOK, LookCase, look, page_data


def blob(path: Path, name: str, kind: str) -> np.ndarray:
    text = re.search(rf'id="{re.escape(name)}">(.*?)</script>', path.read_text())[1]
    return np.frombuffer(base64.b64decode(text), kind)


class Look(LookCase):
    def test_one_head_in_the_terminal(self):
        text = look(FABLE, "The cat sat", "--head", "2.3", "--color", "none").stdout.decode()
        self.assertIn("·cat", text)

    def test_the_text_comes_from_where_it_is_given(self):
        first = look(FABLE, "The cat sat", "--head", "2.3").stdout
        for same in (
            look(FABLE, "--head", "2.3", "-p", "The cat sat"),
            look("-m", FABLE, "--head", "2.3", input=b"The cat sat\n"),
            look(FABLE, "-f", "-", "--head", "2.3", input=b"The cat sat"),
        ):
            self.assertEqual(same.stdout, first)

    def test_an_option_that_a_job_does_not_read_is_refused(self):
        for says, *arguments in (
            ("--hooks goes with --capture", "x", "--hooks", "*"),
            ("--bound goes with --compare", "x", "--bound", 1),
            ("--positions goes with --lens, --why and --capture", "x", "--positions", 0),
            ("--stage goes with --head", "x", "--stage", "raw"),
            ("--stage goes with --head", "x", "--lens", "--head", "1.2", "--stage", "raw"),
            ("--template goes with --chat", "x", "--template", "chatml"),
            ("its only text", "x", "--surprise", FABLE),
            ("its only text", "--surprise", FABLE, "-n", 3),
            ("its only text", "--lines", FABLE, "--capture", self.folder / "new.safetensors", "-n", 3),
            ("--capture of one text", "--lines", FABLE, "--capture", self.folder / "new.safetensors", "--positions", 3),
        ):
            with self.subTest(arguments):
                self.refused(FABLE, *arguments, says=says)

    def test_a_chat_is_written_as_a_template_says(self):
        self.refused(FABLE, "Why?", "--chat", says="no chat template; choose one with --template")
        self.refused(FABLE, "Why?", "--chat", "--template", "none", says="chatml")
        said = look(FABLE, "Why?", "--chat", "--template", "chatml", "--head", "2.3").stdout.decode()
        labels = "".join(row.split()[0] for row in said.splitlines()[1:])
        self.assertRegex(labels, r"user\\nWhy\?<.*assistant\\n$")

    def test_looking_at_what_is_not_there(self):
        self.refused(FABLE, "x", "--head", "5.0", says="layers 0 to 4")
        self.refused(FABLE, "x", "--head", "0.8", says="heads 0 to 7")
        self.refused(FABLE, "x", "--head", "07", says="a layer and a head")
        self.refused(FABLE, "x", "--layers", "3-9", says="layer from 0 to 4")
        self.refused(FABLE, "x", "--layers", "0", "--head", "1.2", "-o", self.folder / "new.html", says="none of the --layers")
        self.refused(FABLE, "x", "y", says="one argument too many")
        self.refused(FABLE, "x", "-p", "y", says="one argument too many|only one text")
        self.refused(says="no weights file")
        self.refused("no.bin", "x", says="no.bin", code=4)
        self.refused(FABLE, "x " * 600, "-c", "100", says="larger -c", code=6)

    def test_an_atlas_holds_every_head(self):
        page = self.folder / "atlas.html"
        look(FABLE, "The <b>cat</b> sat & sat", "-n", 3, "-o", page)
        text, data = page.read_text(), page_data(page)
        self.assertEqual(len(data["heads"]), 5 * 8)
        self.assertNotIn("<b>", text)
        self.assertNotRegex(text, r"https?://")
        self.assertEqual(len(data["tokens"]), data["n_prompt"] + 3)
        self.assertEqual([t[1] for t in data["tokens"]][:3], ["<|endoftext|>", "The", "·"])
        for head in data["heads"]:
            cells = np.frombuffer(base64.b64decode(head["cells"]), np.uint8).reshape(head["side"], -1)
            self.assertFalse(np.triu(cells, 1).any())
            self.assertTrue(head["whole"])
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["atlas.html"])

    def test_the_page_has_what_the_engine_computes(self):
        """softmax of the page's q and k is the engine's row."""
        page = self.folder / "atlas.html"
        look(FABLE, "The cat sat on the mat", "-o", page, "--layers", "2")
        n, d, layer = len(page_data(page)["tokens"]), 64, page_data(page)["layers"][2]
        q = blob(page, "q2.3", "<i2").reshape(n, d) * blob(page, "qs2.3", "<f4")[:, None].astype(float)
        k = blob(page, "k2.1", "<i2").reshape(n, d) * blob(page, "ks2.1", "<f4")[:, None].astype(float)
        s = np.where(np.tri(n, dtype=bool), q @ k.T * layer["scale"], -np.inf)
        w = np.exp(s - s.max(1, keepdims=True))
        w /= w.sum(1, keepdims=True)
        rows = look(FABLE, "The cat sat on the mat", "--head", "2.3").stdout.decode().splitlines()[1:]
        for i, row in enumerate(rows):
            np.testing.assert_allclose([float(x) for x in re.findall(r"\d\.\d\d", row)], w[i, : i + 1], atol=0.0051)

    def test_what_is_too_large_is_refused_before_anything_is_computed(self):
        text, page = self.folder / "text.txt", self.folder / "x.html"
        text.write_text("cat " * 33000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for says, *arguments in (
            (r"the page of 33\d{3} tokens would have 13\d\.\d MiB, more than 30.0 MiB: choose one --head, or a text of at most 7\d{3} tokens", "-o", page),
            ("would have .* one --head, or a text of at most 14", "-o", page, "--layers", 2),
            ("at most 256 tokens: write a page", "-o", self.folder / "x.svg", "--head", "1.2"),
            ("at most 4096 here: write a page", "--head", "1.2"),
            ("layers 0 to 4", "--head", "5.0"),
            ("layer 0 has heads 0 to 7", "--head", "0.8", "-o", page),
            ("positions 0 to 33", "--lens", "--positions", 40000),
            ("at most 48 tokens", "--tour", "-o", page),
        ):
            with self.subTest(arguments):
                command = [LOOK, FABLE, "-f", text, "-q", *arguments]
                p = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=ROOT)
                said, (_, code, used) = p.stderr.read().decode(), os.wait4(p.pid, 0)
                p.returncode = os.waitstatus_to_exitcode(code)
                p.stderr.close()
                self.assertIn(p.returncode, (2, 6))
                self.assertRegex(said, rf"\Alook: [^\n]*{says}[^\n]*\n\Z")
                self.assertLess(used.ru_utime + used.ru_stime, 2)
                self.assertLess(used.ru_maxrss, before + 32 * 1024)  # KiB; a fork begins with the memory of its parent
        self.assertEqual(list(self.folder.iterdir()), [text])

    def test_a_signal_leaves_no_half_file(self):
        """Of every kind of output: after Ctrl-C there is the whole file or none, and never another."""
        text, whole = self.folder / "text.txt", self.folder / "whole"
        text.write_text("Once upon a time there was a little dog. It ran to the park. " * 24)
        whole.mkdir()
        steer = ("--steer-from", "sad " * 300, "--steer-to", "glad " * 300)
        for name, *arguments in (
            ("atlas.html", "-o"), ("head.svg", "--head", "2.3", "-n", 1, "-p", "dog " * 250, "-o"), ("surprise.html", "--surprise", text, "-o"),
            ("lens.html", "--lens", "-o"), ("why.html", "--why", "", "-o"), ("compare.html", "--compare", FABLE, "-o"),
            ("trace.json", "--timeline"), ("timeline.html", "--timeline"), ("tour.html", "-p", "The cat sat", "--tour", "-o"),
            ("changed.html", "--ablate", "2.3", "-o"), ("direction.gguf", *steer, "-o"), ("ranks.html", "-p", "The dog ran. " * 20, "--ablate", "each", "-o"),
            ("all.npz", "--capture"), ("all.safetensors", "--capture"),
        ):  # fmt: skip
            own = () if {"-p", "--surprise"} & set(arguments) else ("-f", text)
            began = time.monotonic()
            look(FABLE, *own, *arguments, whole / name)
            took, new = time.monotonic() - began, self.folder / name
            for share in (0.5, 0.9):
                with self.subTest(name, share=share):
                    p = subprocess.Popen([LOOK, FABLE, *map(str, own), *map(str, arguments), new], cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
                    time.sleep(share * took)
                    p.send_signal(signal.SIGINT)
                    p.communicate(timeout=30)
                    self.assertIn(p.returncode, (130, -signal.SIGINT, 0))
                    left = {f.name for f in self.folder.iterdir()} - {"text.txt", "whole"}
                    self.assertLessEqual(left, {name})
                    if left:
                        end = {".html": b"</html>\n", ".svg": b"</svg>\n", ".json": b"}\n"}.get(new.suffix, b"")
                        self.assertTrue(new.read_bytes().endswith(end))
                        if not end:
                            self.assertEqual(new.stat().st_size, (whole / name).stat().st_size)
                        new.unlink()

    def test_the_picture_in_the_readme_is_what_look_draws(self):
        picture = self.folder / "head.svg"
        look(FABLE, "The cat sat on the mat", "--head", "2.3", "-o", picture)
        self.assertEqual(picture.read_text(), (ROOT / ".github/attention.svg").read_text())
        self.assertIn("(.github/attention.svg)](#look-inside)", (ROOT / "README.md").read_text())

    def test_a_picture_of_a_head(self):
        picture = self.folder / "head.svg"
        look(FABLE, "The <cat> & sat", "--head", "1.2", "-o", picture)
        svg = ET.parse(picture).getroot()
        titles = [t.text for t in svg.iter("{http://www.w3.org/2000/svg}title")][1:]
        n = len(set(re.findall(r"<text x", picture.read_text()))) and sum(1 for _ in svg.iter("{http://www.w3.org/2000/svg}rect"))
        self.assertEqual(len(titles), int(n**0.5) * (int(n**0.5) + 1) // 2)
        self.refused(FABLE, "x", "-o", self.folder / "x.svg", says="needs a head")
        self.refused(FABLE, "x", "-o", self.folder / "x.png", says="must end in")
        self.refused(FABLE, "a " * 300, "--head", "1.2", "-o", picture, says="at most 256 tokens", code=6)

    def test_files_appear_whole_or_not_at_all(self):
        (self.folder / "folder.html").mkdir()
        self.refused(FABLE, "x", "-o", self.folder / "folder.html", says="is a folder")
        self.refused(FABLE, "x", "-o", self.folder / "no/x.html", says="cannot create", code=4)
        old = self.folder / "old.html"
        old.write_text("old")
        full = subprocess.run(
            ["bash", "-c", f"ulimit -f 1; trap '' XFSZ; {LOOK} {FABLE} 'The cat sat' -o {old}"], capture_output=True, cwd=ROOT
        )
        self.assertEqual((full.returncode, old.read_text()), (4, "old"), full.stderr)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["folder.html", "old.html"])

    def test_surprise_is_what_perplexity_measures(self):
        text = self.folder / "text.txt"
        text.write_text("The cat sat on the mat.\nIt was <b>happy</b>.\n")
        rows = look(FABLE, "--surprise", text).stdout.decode()
        perplexity = subprocess.run(["./run", FABLE, "--perplexity", text, "-q"], capture_output=True, text=True, cwd=ROOT).stdout
        self.assertTrue(rows.endswith(perplexity[perplexity.index("tokens") :]))
        bits = [float(line.split()[0]) for line in rows.splitlines()[1:] if re.match(r" *\d+\.\d\d  ", line)]
        mean = float(re.search(r"bits/token +(\S+)", rows)[1])
        self.assertAlmostEqual(sum(bits) / len(bits), mean, places=2)
        page = self.folder / "text.html"
        look(FABLE, "--surprise", text, "-o", page)
        self.assertEqual(len(page_data(page)["tokens"]), len(bits))
        self.assertNotIn("<b>", page.read_text())

    def capture(self, *arguments, name: str = "c.npz") -> dict[str, np.ndarray]:
        look(FABLE, *arguments, "-q", "--capture", self.folder / name)
        if name.endswith("npz"):
            with zipfile.ZipFile(self.folder / name) as archive:
                self.assertIsNone(archive.testzip())
            return dict(np.load(self.folder / name))
        return safetensors.numpy.load_file(self.folder / name)

    def test_captured_arrays_fit_together(self):
        """What TransformerLens' names mean, computed from one another."""
        c = self.capture("The cat sat on the mat", "-n", 2, "--cache-type", "f32")
        n = c["tokens"].shape[1]
        for layer in range(5):
            of = lambda name, layer=layer: c[f"blocks.{layer}.{name}"][0]  # noqa: E731
            q, k, v, pattern = of("attn.hook_rot_q"), of("attn.hook_rot_k"), of("attn.hook_v"), of("attn.hook_pattern")
            self.assertEqual((q.shape, k.shape, pattern.shape), ((n, 8, 64), (n, 4, 64), (8, n, n)))
            scores = np.einsum("qhd,khd->hqk", q, np.repeat(k, 2, 1)) / 8
            scores[:, ~np.tri(n, dtype=bool)] = -np.inf
            np.testing.assert_allclose(of("attn.hook_attn_scores"), scores, atol=2e-5)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            np.testing.assert_allclose(pattern, weights / weights.sum(-1, keepdims=True), atol=2e-6)
            np.testing.assert_allclose(of("attn.hook_z"), np.einsum("hqk,khd->qhd", pattern, np.repeat(v, 2, 1)), atol=2e-5)
            np.testing.assert_array_equal(of("hook_resid_mid"), of("hook_resid_pre") + of("hook_attn_out"))
            np.testing.assert_array_equal(of("hook_resid_post"), of("hook_resid_mid") + of("hook_mlp_out"))
            gate = of("mlp.hook_pre").astype(float)
            np.testing.assert_allclose(of("mlp.hook_post"), gate / (1 + np.exp(-gate)) * of("mlp.hook_pre_linear"), atol=1e-5)
            angle = np.arange(n)[:, None] * 10000.0 ** (-np.arange(32) / 32)
            before, half = of("attn.hook_q").astype(float), slice(None, 32)
            a, b = before[..., half], before[..., 32:]
            cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
            np.testing.assert_allclose(q, np.concatenate([a * cos - b * sin, b * cos + a * sin], -1), atol=2e-5)
        np.testing.assert_array_equal(c["hook_embed"], c["blocks.0.hook_resid_pre"])

    def test_another_attention_has_other_rows(self):
        near = None
        for attn, *more in (("naive",), ("window=3", "-n", 2), ("sinks",), ("bidirectional", "-n", 2), ("bidirectional",)):
            c = self.capture("The cat sat on the mat", "--attn", attn, "--cache-type", "f32", *more)
            pattern, v = c["blocks.2.attn.hook_pattern"][0], np.repeat(c["blocks.2.attn.hook_v"][0], 2, 1)
            np.testing.assert_allclose(c["blocks.2.attn.hook_z"][0], np.einsum("hqk,khd->qhd", pattern, v), atol=2e-5)
            near = c if attn == "naive" else near
            self.assertEqual(np.allclose(pattern.sum(-1), 1, atol=1e-5), attn != "sinks")
            n = near["tokens"].shape[1]
            self.assertEqual(np.allclose(c["blocks.4.hook_resid_post"][:, :n], near["blocks.4.hook_resid_post"]), attn == "naive")
        self.assertGreater(np.triu(pattern[0], 1).sum(), 0.01)
        rows = look(FABLE, "The cat", "--attn", "bidirectional", "-n", 2, "--head", "2.0").stdout.decode().splitlines()[1:]
        self.assertEqual([row.split().count("/") for row in rows], [2, 2, 2, 1, 0])  # the text does not see what follows it
        plain = self.capture("The cat sat on the mat", "--cache-type", "f32")
        np.testing.assert_allclose(near["blocks.4.hook_resid_post"], plain["blocks.4.hook_resid_post"], atol=1e-3)
        self.refused(FABLE, "x", "--attn", "linear", says="no matrix of weights")
        self.refused(FABLE, "x", "--attn", "delta", "--capture", self.folder / "new.npz", "--hooks", "*hook_pattern", says="is no hook")
        self.assertNotIn("blocks.0.attn.hook_pattern", self.capture("The cat sat", "--attn", "linear"))
        look(FABLE, "The cat sat", "--attn", "sinks", "-o", self.folder / "a.html")
        self.assertEqual(page_data(self.folder / "a.html")["layers"][0]["sinks"], [0] * 8)
        self.refused(FABLE, "x", "--attn", "foo", says="no kind of attention: naive")

    def test_captures_can_be_narrowed(self):
        whole = self.capture("The cat sat on the mat", "-n", 2)
        some = self.capture(
            "The cat sat on the mat", "-n", 2, "--positions", "2-8", "--layers", "1,3", "--hooks", "*hook_z,blocks.3.*pattern",
            name="c.safetensors",
        )  # fmt: skip
        self.assertEqual(set(some), {"blocks.1.attn.hook_z", "blocks.3.attn.hook_z", "blocks.3.attn.hook_pattern", "tokens"})
        np.testing.assert_array_equal(some["blocks.3.attn.hook_z"], whole["blocks.3.attn.hook_z"][:, 2:])
        np.testing.assert_array_equal(some["blocks.3.attn.hook_pattern"], whole["blocks.3.attn.hook_pattern"][:, :, 2:, 2:])
        np.testing.assert_array_equal(some["tokens"], whole["tokens"][:, 2:])
        c = self.folder / "x.npz"
        self.refused(FABLE, "x", "--capture", c, "--hooks", "*hook_nothing", says="is no hook of this model")
        self.refused(FABLE, "x", "--capture", c, "--hooks", "", says="'' is no hook of this model")
        self.refused(FABLE, "x", "--capture", c, "--layers", "", says="'' is not a layer from 0 to 4")
        self.refused(FABLE, "x", "--capture", c, "--positions", "1-5", says="positions 0 to 1")
        self.refused(FABLE, "x", "--capture", self.folder / "x.bin", says="must end in .npz or .safetensors")
        self.refused(FABLE, "x " * 4000, "-q", "--capture", c, says="ends at 4 GiB: write .safetensors", code=6)
        self.refused(FABLE, "--capture", c, "--lines", FABLE, says="must end in .safetensors|ends in .safetensors")

    def test_lines_are_captured_as_single_texts_are(self):
        lines = ["The cat sat.", "Once upon a time there was a dog. " * 30, "A", "The mat was red <|endoftext|>."]
        corpus = self.folder / "corpus.txt"
        corpus.write_text("\n\n".join(lines))
        hooks = ("--hooks", "*resid_post,blocks.1.attn.hook_q")
        for batch in (512, 16):
            c = self.capture("--lines", corpus, *hooks, "-b", batch, name="c.safetensors")
            self.assertEqual(len(c["lines"]), len(lines) + 1)
            for line, begin, end in zip(lines, c["lines"], c["lines"][1:]):
                one = self.capture(line, *hooks)
                np.testing.assert_array_equal(c["tokens"][begin:end], one["tokens"][0])
                for name in set(one) - {"tokens"}:
                    np.testing.assert_array_equal(c[name][begin:end], one[name][0])

    def test_a_stopped_capture_goes_on(self):
        corpus, part = self.folder / "corpus.txt", self.folder / "c.safetensors.part"
        corpus.write_text("\n".join(f"The {i} cats sat on the mat, and then the dog came." for i in range(500)))
        job = ["--lines", corpus, "--hooks", "blocks.3.hook_resid_post", "-t", 1]
        whole = self.capture(*job, name="whole.safetensors")
        first = subprocess.Popen([LOOK, FABLE, *map(str, job), "--capture", self.folder / "c.safetensors"], cwd=ROOT, stderr=subprocess.PIPE)
        size = (self.folder / "whole.safetensors").stat().st_size
        while not (part.exists() and part.stat().st_size > size):  # behind the arrays it says how far it is
            self.assertIsNone(first.poll())
            time.sleep(0.001)
        first.send_signal(signal.SIGINT)
        self.assertIn("goes on with", first.communicate()[1].decode())
        self.assertEqual(first.returncode, 130)
        begun = part.read_bytes()
        for other in (["--ablate", "2.1"], ["--ablate", "2.2"], ["--attn", "window=4"]):
            part.write_bytes(begun)
            done = look(FABLE, *job, *other, "--capture", self.folder / "c.safetensors")
            self.assertNotIn("goes on", done.stderr.decode())
        part.write_bytes(begun)
        done = look(FABLE, *job, "--capture", self.folder / "c.safetensors")
        self.assertRegex(done.stderr.decode(), r"goes on with line \d+ of 500")
        for name, values in safetensors.numpy.load_file(self.folder / "c.safetensors").items():
            np.testing.assert_array_equal(values, whole[name])
        self.assertFalse(part.exists())

    def test_a_timeline_has_every_operation_of_every_layer(self):
        trace, page = self.folder / "t.json", self.folder / "t.html"
        for threads in (1, 2):
            look(FABLE, "The cat sat", "-n", 3, "-t", threads, "--timeline", trace)
            events = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
            work = [e for e in events if e["cat"] == "work"]
            self.assertLessEqual({e["tid"] for e in work}, set(range(threads)))  # a thread that is late gets nothing
            for op in ("qkv", "attend", "out", "gate_up", "down"):
                self.assertEqual({e["args"]["layer"] for e in work if e["name"] == op}, set(range(5)))
            for thread in range(threads):  # slices of a thread do not overlap
                own = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["tid"] == thread)
                for (_, end), (begin, _) in zip(own, own[1:]):
                    self.assertLessEqual(end, begin + 0.01)
            heads = {e["args"]["kv_head"] for e in work if e["name"] == "attend"}
            self.assertEqual(heads, set(range(4)))
            read = sum(e["args"]["bytes"] for e in work if e["name"] in ("gate_up", "down"))
            self.assertAlmostEqual(read / (4 * 5 * 3 * 208896), 1, places=3)
        look(FABLE, "The cat sat", "--timeline", page)
        self.assertEqual({s[0] for s in page_data(page)["spans"]} & {"qkv", "attend"}, {"qkv", "attend"})

    def test_a_timeline_is_in_the_trace_event_format(self):
        trace, text = self.folder / "t.json", "The cat sat on the mat and the dog ran. " * 27
        look(FABLE, text, "-n", 2, "-t", 2, "--timeline", trace)
        whole = json.loads(trace.read_text())
        self.assertEqual(set(whole), {"displayTimeUnit", "traceEvents", "otherData"})
        lanes = {e["tid"]: e["args"]["name"] for e in whole["traceEvents"] if e["name"] == "thread_name"}
        self.assertEqual(lanes, {0: "thread 0", 1: "thread 1"})
        waits, blocks, rows = 0, set(), set()
        for e in whole["traceEvents"]:
            self.assertIn((e["ph"], e["pid"]), {("M", 1), ("X", 1)})
            if e["ph"] == "M":
                continue
            self.assertLessEqual({"name", "cat", "tid", "ts", "dur", "args"}, set(e))
            self.assertTrue(e["tid"] in lanes and e["ts"] >= 0 and e["dur"] >= 0)
            waits += e["name"] == "wait" and e["args"]["after"] in {"qkv", "down", "attend", "out", "gate_up"}
            args = e["args"]
            self.assertEqual(e["name"] == "attend", "kv_head" in args)
            if e["name"] == "attend":
                self.assertLessEqual(args["kv_head"] + args["kv_heads"], 4)
                blocks.add(args["block"] + args["blocks"])
                rows.add(args["row"] + args["rows"])
        self.assertGreater(waits, 5)
        self.assertEqual(max(blocks), 2)  # blocks of 256 positions
        self.assertGreater(max(rows), 256)

    def test_colours_follow_the_terminal(self):
        self.assertNotIn(b"\033", look(FABLE, "x", "--head", "1.2").stdout)
        self.assertIn(b"\033[48;5;", look(FABLE, "x", "--head", "1.2", "--color", "256").stdout)
        self.assertIn(b"\033[48;2;", look(FABLE, "x", "--head", "1.2", "--color", "true").stdout)

    def test_version(self):
        self.assertTrue(re.match(rb"look \(tern\) \d", look("--version").stdout))


if __name__ == "__main__":
    unittest.main()
