"""look --tour: what its page says of the code is there, its numbers are those of numpy and of the issue's examples, and
its experiments hold."""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np
from cli_case import ROOT, softmax
from look_case import FABLE, look, page_data

CHROMIUM = shutil.which("chromium")
PAGE = ROOT / "src/app/look/page"
SCRIPT = (PAGE / "tour.js").read_text()


class Tour(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        look("--tour", FABLE, "-o", cls.folder / "tour.html")
        cls.text = (cls.folder / "tour.html").read_text()
        cls.data = page_data(cls.folder / "tour.html")

    def near(self, got, want, bound=1e-5):
        np.testing.assert_allclose(np.array(got, float), want, rtol=0, atol=bound)

    def test_the_code_that_it_names_is_there(self):
        """Every reference is a file, a function of it, and a line of that function."""
        table = re.search(r"(?s)const CODE = \{(.*?)\n\};", SCRIPT)[1]
        lines = [line for line in table.splitlines() if line.strip()]
        references = [re.fullmatch(r'  \w+: \["([\w/.]+)", "(\w+)", "(.+)"\],', line) for line in lines]
        self.assertGreater(len(references), 15)
        for line, reference in zip(lines, references):
            self.assertIsNotNone(reference, line)
            file, function, quoted = reference.groups()
            body = re.search(rf"(?ms)^[a-z][^;=\n]*\b{function}\([^;{{]*\)\n\{{\n(.*?)^\}}", (ROOT / file).read_text())
            self.assertIsNotNone(body, f"{file} has no function {function}")
            self.assertIn(quoted, [own.strip() for own in body[1].splitlines()], f"{file}, {function}")
        for name in re.findall(r"\bCODE\.(\w+)", SCRIPT):
            self.assertRegex(table, rf"(?m)^  {name}: ")

    def test_the_tests_that_it_names_are_here(self):
        names = re.findall(r'"(test_\w+)"', "".join(p.read_text() for p in PAGE.glob("tour*.js")))
        self.assertGreater(len(names), 7)
        for name in names:
            self.assertTrue(callable(getattr(self, name, None)), name)

    def test_one_file_without_a_network(self):
        self.assertNotRegex(self.text, r"https?://(?!www\.w3\.org/2000/svg)")
        look("--tour", FABLE, "<b>cat</b>", "-n", 0, "--head", "3.2", "-o", self.folder / "b.html")
        self.assertNotIn("<b>", (self.folder / "b.html").read_text())

    def test_the_walk_is_the_run(self):
        """Each step, computed again from the one before it"""
        d = self.data
        n, size, cos, sin = len(d["tokens"]), d["head_dim"], np.array(d["cos"]), np.array(d["sin"])
        self.assertEqual([t[1] for t in d["tokens"][:4]], ["<|endoftext|>", "The", "·cat", "·sat"])
        self.assertEqual((n, d["n_prompt"], d["has_bos"]), (7, 4, True))
        step = {name: np.array(s["rows"]) for name, s in d["steps"].items() if s}
        q, k, v = (np.array(d[f"head_{x}"]).reshape(n, size) for x in "qkv")
        raw, scaled, weights = (np.array(d[x]).reshape(n, n) for x in ("raw", "scaled", "weights"))
        angle = np.arange(n)[:, None] * 10000.0 ** (-np.arange(size // 2) / (size // 2))
        self.near(cos.reshape(n, -1), np.cos(angle))
        self.near(sin.reshape(n, -1), np.sin(angle))
        self.near(q, step["q"][:, :size])
        self.near(k, step["k"][:, :size], 2e-2)  # the cache rounds to f16
        self.near(raw, q @ k.T, 1e-3)
        self.near(scaled, raw / 8, 1e-4)
        masked = np.array([[-np.inf if x is None else x for x in row] for row in np.array(d["masked"], object).reshape(n, n)])
        self.assertTrue((np.isinf(masked) == ~np.tri(n, dtype=bool)).all())
        self.near(weights, softmax(masked))
        self.near(np.array(d["unmasked"]).reshape(n, n), softmax(scaled))
        self.near(step["attend"][:, :size], weights @ v)
        self.near(step["middle"], step["embed"] + step["o"])
        self.near(step["act"][:, :512], (step["gate"] / (1 + np.exp(-step["gate"])) * step["up"])[:, :512], 1e-4)
        self.near(step["out"], step["middle"] + step["down"], 1e-4)
        logits = [x for _, x, _ in d["top"]]
        self.near(np.diff([x for *_, x in d["top"]]), np.diff(logits), 1e-4)
        self.assertEqual(d["tokens"][4][0], d["top"][0][0][0])

    def example(self, name: str) -> tuple[dict, np.ndarray, np.ndarray]:
        """An example, its weights [heads, rows, keys] and the engine's out [rows, heads, d] of the first sequence; both
        kinds agree with numpy, which begins at q, k and v."""
        x = self.data["examples"][name]
        seqs, rows, keys, heads, kv, d = x["sizes"]
        q, k, v = (np.array(x[p]).reshape(seqs, -1, h, d).transpose(0, 2, 1, 3) for p, h in (("q", heads), ("k", kv), ("v", kv)))
        k, v = (np.repeat(p, heads // kv, 1) for p in (k, v))
        scores = q @ k.transpose(0, 1, 3, 2) * (1.0 if name in ("a", "c", "wrong") else d**-0.5)
        if name == "c":
            scores[..., 2] = -np.inf
        elif name != "b":
            scores[..., ~np.tri(rows, keys, keys - rows, dtype=bool)] = -np.inf
        weights = softmax(scores)
        out = (weights @ v).transpose(0, 2, 1, 3)
        self.near(np.array(x["weights"]).reshape(weights.shape), weights)
        for kind in ("naive", "engine"):
            self.near(np.array(x[kind]).reshape(out.shape), out)
        return x, weights[0], np.array(x["engine"]).reshape(out.shape)[0]

    def shown(self, got, *rows, digits=3):
        """What the page shows of it: rounded as the issue prints it"""
        self.assertEqual(np.round(got, digits).tolist(), [list(row) for row in rows])

    def test_example_a_three_tokens(self):
        _, weights, out = self.example("a")
        self.shown(weights[0], [1, 0, 0], [0.269, 0.731, 0], [0.212, 0.212, 0.576])
        self.shown(out[:, 0], [1, 2], [2.462, 0.538], [0.848, 1])
        _, weights, out = self.example("a_scaled")
        self.shown(weights[0], [1, 0, 0], [0.330, 0.670, 0], [0.248, 0.248, 0.503])
        self.shown(out[:, 0], [1, 2], [2.340, 0.660], [0.993, 1])

    def test_example_b_no_mask(self):
        _, weights, out = self.example("b")
        self.shown(np.eye(2) / 2**0.5, [0.71, 0], [0, 0.71], digits=2)
        self.shown(weights[0], [0.67, 0.33], [0.33, 0.67], digits=2)
        self.shown(out[:, 0], [0.67, 0.33], [0.33, 0.67], digits=2)

    def test_example_c_a_masked_key(self):
        x, weights, out = self.example("c")
        self.assertEqual(np.array(x["k"]).reshape(3, 3)[:, 0].tolist(), [2, 1, 3])
        self.shown(weights[0], [0.73, 0.27, 0], digits=2)
        self.shown(out[:, 0], [0.73, 0.27, 0], digits=2)

    def test_example_d_heads_side_by_side(self):
        _, _, out = self.example("d")
        self.assertEqual(out.reshape(-1).tolist(), [1, 0, 0, 1])
        wo = np.array(self.data["examples"]["wo"]).reshape(4, 2)
        self.assertEqual(self.data["examples"]["projected"], (out.reshape(-1) @ wo).tolist())

    def test_example_e_one_kv_head(self):
        x, _, out = self.example("e")
        self.assertEqual((x["q"][:2] == x["q"][2:], x["k"], x["v"]), (False, [1, 1], [2, 2]))
        self.assertEqual(out.reshape(2, 2).tolist(), [[2, 2], [2, 2]])

    def test_example_f_groups(self):
        _, _, out = self.example("f")
        self.assertEqual(out.reshape(8, 2).tolist(), [[1, 0]] * 4 + [[0, 1]] * 4)

    def test_example_g_a_batch(self):
        x, j = np.arange(1, 25).reshape(2, 3, 4), np.arange(8)
        w = np.zeros((4, 8))
        w[0], w[1] = 0.5 - 0.1 * (j + 1), 0.1 * (j + 1) - 0.25
        example, _, _ = self.example("g")
        self.assertEqual((example["sizes"], self.data["examples"]["x"]), ([2, 3, 3, 2, 2, 4], x.reshape(-1).tolist()))
        self.near(self.data["examples"]["w"], w.reshape(-1))
        for part in "qkv":
            self.near(example[part], (x @ w).reshape(-1))

    def test_wrong_tables(self):
        _, weights, _ = self.example("wrong")
        self.shown(weights[0], [0.426, 0.574])

    def test_changing_the_last_token(self):
        """No earlier row changes by a bit, unless attention is bidirectional: captures of both texts say the same."""
        x = self.data["experiments"]["last"]
        self.assertEqual((x["tokens"][x["row"]], x["tokens"][-1], x["other"]), ("·sat", "·mat", "·the"))
        self.assertEqual((x["causal"]["changed"], x["causal"]["most"], x["causal"]["weight"]), (0, 0, 0))
        self.assertEqual(x["causal"]["of"], 5 * 6 * 256)
        for name, options in (("causal", ()), ("bidirectional", ("--attn", "bidirectional"))):
            both = []
            for text in ("The cat sat on the mat", "The cat sat on the the"):
                look(FABLE, text, "-q", *options, "--hooks", "*resid_post,*pattern", "--capture", self.folder / "c.npz")
                both.append(dict(np.load(self.folder / "c.npz")))
            rows = [np.stack([c[f"blocks.{layer}.hook_resid_post"][0, :-1] for layer in range(5)]) for c in both]
            self.assertEqual((rows[0] != rows[1]).sum(), x[name]["changed"])
            self.near(np.abs(rows[0] - rows[1]).max(), x[name]["most"], 1e-3)
            self.near(both[0]["blocks.0.attn.hook_pattern"][0, 0, x["row"], -1], x[name]["weight"])
        self.assertGreater(x["bidirectional"]["weight"], 0.01)

    def heads_before_rope(self) -> tuple[np.ndarray, ...]:
        """q, k before RoPE and v [n, d] of the tour's head, and a function that turns rows to positions first, ..."""
        d = self.data
        n, size = len(d["tokens"]), d["head_dim"]
        frequency = 10000.0 ** (-np.arange(size // 2) / (size // 2))

        def turn(x: np.ndarray, first: float, sign: int = 1) -> np.ndarray:
            angle = sign * (first + np.arange(n))[:, None] * frequency
            a, b = x[:, : size // 2], x[:, size // 2 :]
            return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], 1)

        q, k, v = (np.array(d[f"head_{x}"]).reshape(n, size) for x in "qkv")
        return turn(q, 0, -1), turn(k, 0, -1), v, turn

    def test_shifted_positions(self):
        x = self.data["experiments"]["shift"]
        q, k, _, turn = self.heads_before_rope()
        for name, first in (("scores", 0), ("later", 7)):
            self.near(x[name], (turn(q, first) @ turn(k, first).T)[-1], 1e-4)
        self.assertEqual(x["by"], 7)
        self.assertLess(x["change"], 1e-6 * x["most"])

    def test_order_is_lost_without_rope(self):
        x = self.data["experiments"]["order"]
        q, k, v, turn = self.heads_before_rope()
        order = [0, 2, 1, 3, 4, 5, 6]

        def out(q, k, v):
            return softmax(q[-1] @ k.T / 8) @ v

        self.near(x["with"], np.abs(out(turn(q, 0), turn(k, 0), v) - out(turn(q, 0), turn(k[order], 0), v[order])).max())
        self.near(out(q, k, v), out(q, k[order], v[order]), 1e-12)
        self.assertLess(x["without"], 1e-6 * x["most"])
        self.assertGreater(x["with"], 1e-2 * x["most"])

    def test_repeated_kv_heads(self):
        x = self.data["experiments"]["repeated"]
        self.assertEqual((x["naive"], x["engine"], x["values"]), (True, True, 7 * 8 * 64))

    def test_one_by_one_or_at_once(self):
        batches = self.data["experiments"]["batches"]
        self.assertEqual(([n for n, _, _ in batches], {rows for *_, rows in batches}), ([1, 2, 7], {7}))
        self.assertEqual(len({hash for _, hash, _ in batches}), 1)
        self.assertNotEqual(batches[0][1], "0" * 16)

    def test_softmax_saturates_without_the_scale(self):
        """The page's random numbers and numpy's have the same means, up to chance."""
        random = np.random.default_rng(1)
        for d, scaled, plain in self.data["experiments"]["saturation"]:
            q, k = random.standard_normal((2, 400, 16, d))
            scores = q @ k.transpose(0, 2, 1)
            self.near(scaled, softmax(scores / d**0.5).max(-1).mean(), 0.04)
            self.near(plain, softmax(scores).max(-1).mean(), 0.04)
        scaled, plain = np.array(self.data["experiments"]["saturation"])[:, 1:].T
        self.assertLess(np.ptp(scaled), 0.05)
        self.assertTrue(plain[0] < 0.5 < 0.8 < plain[1] < 0.9 < plain[2])

    def test_heads_switched_off(self):
        """What --ablate each says of the sentence"""
        x = self.data["experiments"]["ablation"]
        ranks = look(FABLE, "She gave him a book", "--ablate", "each", "--color", "none").stdout.decode()
        self.near(float(re.search(r"loss (\S+) nats", ranks)[1]), x["loss"], 2e-6)
        changes = {f"{layer}.{head}": change for layer, head, change in x["heads"]}
        shown = re.findall(r"(?m)^ *\d+  (\d\.\d) +\S+ +([+-]\S+)$", ranks)
        self.assertEqual((len(changes), len(shown) > 5), (40, True))
        for head, change in shown:
            self.near(changes[head], float(change), 2e-6)

    def browse(self, script: str = "") -> str:
        """The page's text as markup after its scripts and `script` have run. No message may appear in the console."""
        page = self.folder / "browsed.html"
        page.write_text(self.text.replace("</body>", f"<script>{script}</script></body>"))
        flags = "--headless --no-sandbox --disable-gpu --virtual-time-budget=4000 --enable-logging=stderr --dump-dom".split()
        done = subprocess.run(
            [CHROMIUM, *flags, f"--user-data-dir={self.folder}/profile", page.as_uri()], capture_output=True, text=True, timeout=60
        )
        self.assertNotIn("CONSOLE", done.stderr)
        self.assertNotRegex(re.search(r"(?s)<main.*</main>", done.stdout)[0], r"\b(NaN|undefined|null|Infinity)\b")
        return done.stdout

    @unittest.skipUnless(CHROMIUM, "chromium is not installed")
    def test_a_browser_draws_it(self):
        main = re.search(r"(?s)<main.*</main>", self.browse())[0]
        steps = re.findall(r"<h2>(\d+)\. ", main)
        self.assertEqual(steps, [str(i + 1) for i in range(17)])
        for text in (
            "x [T, dim] = 4 x 256", "4 x 512 as 8 heads of 64", "4 x 256 as 4 heads of 64", "[H, T, T] = 8 x 4 x 4",
            "Dropout is absent at inference", "5 layers x 4 KV heads x 64 x 2 x 2 bytes", "GQA (this model)",
            "MHA: 8 KV heads, 2,048 bytes", "this model: 4 KV heads, 1,024 bytes", "MQA: 1 KV head, 256 bytes",
            "[0.212 0.212 0.576]", "[2.340 0.660]", "[0.73 0.27 0]", "[8 10]", "0.426 0.574",
            "0 of 7,680", "the same bits", "--ablate each", "Vaswani et al. 2017", "Shazeer 2019", "Ainslie et al. 2023", "Su et al. 2021",
        ):  # fmt: skip
            self.assertIn(text, main)

    @unittest.skipUnless(CHROMIUM, "chromium is not installed")
    def test_clicks_and_keys(self):
        """BOS goes away; a click and an arrow follow other tokens."""
        shown = self.browse("""
            const at = () => document.querySelector("#follow [aria-pressed=true]").textContent, seen = [at()];
            document.querySelectorAll("#follow button")[1].click(), seen.push(at());
            document.querySelectorAll("#follow button")[1].focus();
            document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true})), seen.push(at());
            const visible = () => [...document.querySelectorAll("#softmax tbody tr")].filter((r) => r.offsetParent).length;
            seen.push(visible()), document.getElementById("bos").click(), seen.push(visible());
            document.title = seen.join(" ");""")
        self.assertIn("<title>·sat The ·cat 8 6</title>", shown.replace("\n", ""))

    def test_the_cache_is_written_out_as_info_does(self):
        info = subprocess.run(["./run", FABLE, "--info"], capture_output=True, text=True, cwd=ROOT).stdout
        self.assertIn(self.data["cache_sum"], info)
        self.assertEqual([row[1] for row in self.data["cache_sizes"][:3]], [5120, 10240, 1280])

    def test_what_it_refuses(self):
        for arguments, says, code in (
            (["--tour", FABLE], "-o tour.html", 2),
            (["--tour", FABLE, "-o", "x.html", "--attn", "naive"], "leave out --attn", 2),
            (["--tour", FABLE, "-o", "x.html", "--ablate", "0.1"], "no --ablate", 2),
            (["--tour", FABLE, "-o", "x.png"], "must end in .html", 2),
            (["--tour", FABLE, "-o", "x.html", "--head", "5.0"], "layers 0 to 4", 2),
            (["--tour", FABLE, "cat " * 60, "-o", "x.html"], "at most 48 tokens", 6),
        ):
            done = look(*arguments, code=code)
            self.assertRegex(done.stderr.decode(), rf"\Alook: [^\n]*{says}[^\n]*\n\Z")


if __name__ == "__main__":
    unittest.main()
