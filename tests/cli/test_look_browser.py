"""The pages of look in headless Chromium: clicks and keys, their numbers beside the engine's, token texts of all kinds.

LONG_PAGES=1 adds a page of 4,096 tokens and its limits: size, frames per second, blocking.
SCREENSHOTS=FOLDER keeps a picture of every page, light and dark, at 400 and 1,600 pixels.
"""
# run-tests: waits

import contextlib
import html
import io
import json
import os
import re
import struct
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import numpy as np

from cli_case import ROOT  # first: it makes the next ones importable
from look_case import FABLE, look

import browser
import convert
import tern
import test_golden_convert as golden_models
from tern.testing import golden_file

os.environ["TERN_LIBRARY"] = str(ROOT / os.environ.get("BUILD", "build") / "libtern.so")
TEXT = "The cat sat on the mat. The cat sat on the"
PAGES = {  # name: arguments with {page} for the file, an element that shows that the page was drawn
    "atlas": ([FABLE, TEXT, "-o", "{page}"], "#heads .small"),
    "head": ([FABLE, TEXT, "--head", "2.3", "-o", "{page}"], "#one canvas"),
    "surprise": ([FABLE, "--surprise", "{text}", "-o", "{page}"], ".word"),
    "lens": ([FABLE, TEXT, "--lens", "-o", "{page}"], "td[data-p]"),
    "why": ([FABLE, TEXT, "--why", "", "-o", "{page}"], ".layer-terms .bar"),
    "compare": ([FABLE, TEXT, "--compare", FABLE, "-o", "{page}"], ".heat"),
    "changed": ([FABLE, TEXT, "--ablate", "0.attn,2.3", "-n", "20", "-o", "{page}"], "#choices .bar"),
    "ranks": ([FABLE, TEXT, "--ablate", "each", "-o", "{page}"], "#map td"),
    "timeline": ([FABLE, TEXT, "-n", "3", "--timeline", "{page}"], "table tbody tr"),
}
# Texts that a page could take for markup, or that break a line of text. A label escapes what has no picture.
HARD = ["<script>alert()</script>", "</script><!--", "\"'`&amp;<", "שלום", "مرحبا", "\u202eabc", "👩\u200d🚀", "\x07\x1b[1m", "日本語", "\u2028x"]
LABELS = [*HARD[:5], "\\u202eabc", HARD[6], "\\x07\\x1b[1m", HARD[8], "\\u2028x"]
GOLDEN = ["llama-gqa", "mistral", "gemma2", "gpt-oss", "falcon-rw"]  # GQA, window, soft cap, sinks, ALiBi


def make_page(name: str, folder: Path) -> Path:
    page, text = folder / f"{name}.html", folder / "text.txt"
    text.write_text("The cat sat on the mat.\n\nIt was <b>happy</b> & \"warm\".\tשלום 👋\n")
    look(*(str(a).format(page=page, text=text) for a in PAGES[name][0]))
    return page


def byte_letters(text: str) -> str:
    """The bytes of a text as the letters that byte-level vocabularies write for them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = {b: 256 + i for i, b in enumerate(b for b in range(256) if b not in plain)}
    return "".join(chr(other.get(b, b)) for b in text.encode())


def hard_tokenizer(vocab: int) -> dict:
    """golden_models.tokenizer_json, whose first tokens are HARD."""
    made = plain_tokenizer(vocab)
    letters = {token: i for token, i in made["model"]["vocab"].items() if i >= len(HARD)}
    made["model"]["vocab"] = {byte_letters(text): i for i, text in enumerate(HARD)} | letters
    return made


plain_tokenizer = golden_models.tokenizer_json


def golden_model(name: str, folder: Path) -> tuple[Path, str]:
    """A golden model whose tokenizer has the texts HARD, and token ids to look at."""
    golden, out = golden_file.read(ROOT / f"tests/golden/{name}.txt"), folder / f"{name}.bin"
    with unittest.mock.patch.object(golden_models, "tokenizer_json", hard_tokenizer), contextlib.redirect_stdout(io.StringIO()) as said:
        golden_models.directory(folder / name, golden, golden.config, False)
        assert convert.main([str(folder / name), str(out)]) == 0, said.getvalue()
    return out, ",".join(map(str, [*range(len(HARD)), *golden.tokens()[:14]]))


@unittest.skipIf(browser.LACKS, browser.LACKS)
class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)
        cls.pages: dict[str, Path] = {}

    def open(self, name: str, **how) -> browser.Browser:
        """A page of PAGES, drawn."""
        if name not in self.pages:
            self.pages[name] = make_page(name, self.folder)
        self.browser.open(self.pages[name], **how)
        self.browser.until(f"document.querySelector({json.dumps(PAGES[name][1])})")
        return self.browser

    def sound(self) -> None:
        self.assertEqual(self.browser.faults(), [])

    def captured(self, *arguments) -> dict[str, np.ndarray]:
        look(*arguments, "--capture", self.folder / "c.npz")
        return dict(np.load(self.folder / "c.npz"))

    def test_faults_are_noticed(self):
        """What the other tests rely on."""
        for script, says in (
            ("console.error(1)", "console"), ("setTimeout(() => { throw new Error('no') })", "Error: no"),
            ("fetch('http://127.0.0.1:9/x').catch(() => 0)", "asked for http"), ("new Image().src = 'x.png'", "asked for file"),
        ):  # fmt: skip
            page, script = self.folder / "bad.html", f"<!doctype html><meta charset=utf-8><script>{script}</script>"
            frame = f'<iframe srcdoc="{html.escape(script)}" sandbox="allow-scripts"></iframe>'
            for body in (script, frame) if says != "asked for file" else (script,):
                page.write_text(body)
                self.browser.open(page)
                self.browser.wait(lambda says=says: any(says in fault for fault in self.browser.faults()))

    def test_every_page_is_drawn_in_both_themes_at_every_width(self):
        kept = os.environ.get("SCREENSHOTS")
        for name in PAGES:
            for width in (400, 1600):
                for dark in (False, True):
                    with self.subTest(name, width=width, dark=dark):
                        page = self.open(name, width=width, dark=dark)
                        self.assertEqual(page.js("isDark()"), dark)
                        self.assertLessEqual(page.js("document.documentElement.scrollWidth"), width)
                        self.sound()
                        if kept:
                            Path(kept).mkdir(parents=True, exist_ok=True)
                            page.screenshot(Path(kept) / f"{name}-{width}-{'dark' if dark else 'light'}.png")

    def test_the_theme_can_be_switched(self):
        for name in PAGES:
            with self.subTest(name):
                page = self.open(name)
                back = "getComputedStyle(document.body).backgroundColor"
                light = page.js(back)
                page.click("#theme")
                self.assertTrue(page.js("isDark()"))
                self.assertNotEqual(page.js(back), light)
                page.click("#theme")
                self.assertEqual(page.js(back), light)
                self.sound()

    def test_tables_for_screen_readers(self):
        for name in PAGES:
            with self.subTest(name):
                page = self.open(name)
                if name == "atlas":
                    page.click("[data-head='2.3']")
                self.assertGreater(page.count("table thead th[scope=col]"), 1)
                self.assertGreater(page.count("table tbody th[scope=row]"), 1)
                unnamed = "[...document.querySelectorAll('canvas')].filter((c) => !c.ariaHidden && !c.ariaLabel && !c.closest('[aria-label]')).length"
                self.assertEqual(page.js(unnamed), 0)

    def hatched(self, stage: int, i: int, j: int, maps: str = ".stage canvas") -> bool:
        """Whether cell [i, j] of a map lets something of the hatching through."""
        return self.browser.js(
            f"(() => {{ const m = document.querySelectorAll({json.dumps(maps)})[{stage}], side = Number(m.dataset.cell), at = Number(m.dataset.margin);"
            "const c = new OffscreenCanvas(m.width, m.height).getContext('2d', {willReadFrequently: true}); c.drawImage(m, 0, 0);"
            f"const p = c.getImageData(at + {j} * side + 2, at + {i} * side + 2, side - 4, side - 4).data;"
            "for (let k = 3; k < p.length; k += 4) if (!p[k]) return true; return false; })()"
        )

    def test_a_click_on_a_head_opens_its_stages(self):
        page = self.open("atlas")
        self.assertEqual(page.count(".small"), 5 * 8)
        page.click("[data-head='2.3']")
        self.assertEqual(page.text("#one h2"), "Layer 2, head 3")
        loose = "[...document.querySelector('#one').childNodes].filter((c) => c.nodeType === Node.TEXT_NODE).length"
        self.assertEqual(page.js(loose), 0)
        self.assertEqual(page.js("[...document.querySelectorAll('.stage h3')].map((h) => h.textContent)"),
                         ["scores q·k", "scaled", "after the mask", "after softmax"])  # fmt: skip
        self.assertEqual([self.hatched(s, 2, 5) for s in range(4)], [False, False, True, True])
        self.assertEqual([self.hatched(s, 5, 2) for s in range(4)], [False] * 4)
        page.click("#unmasked")
        self.assertEqual([self.hatched(s, 2, 5) for s in range(5)], [False, False, True, True, False])
        self.assertEqual(page.js("document.querySelectorAll('.stage').length"), 5)
        page.click("#unmasked")
        self.assertEqual(page.js("document.querySelectorAll('.stage').length"), 4)
        page.click("#byValue")
        self.sound()

    def test_a_short_text_is_large_in_the_overview(self):
        """Cells of four tokens have labels, masked ones are hatched, and all can be made larger."""
        page = self.folder / "short.html"
        look(FABLE, "The cat sat", "-o", page)
        self.browser.open(page, width=1600)
        self.browser.until("Number(document.querySelector('.small canvas').dataset.margin)")
        cell = "Number(document.querySelector('.small canvas').dataset.cell)"
        self.assertGreater(self.browser.js(cell), 20)
        self.assertEqual([self.hatched(0, i, j, ".small canvas") for i, j in ((0, 1), (1, 3), (2, 3), (3, 3), (3, 0), (1, 0))], [True] * 3 + [False] * 3)
        self.assertEqual(self.browser.js("[...document.querySelectorAll('.layer')].map((l) => new Set([...l.querySelectorAll('.small')].map((s) => s.offsetTop)).size)"), [1] * 5)
        self.assertEqual(self.browser.js("[...document.querySelectorAll('.layer .shared')].slice(0, 5).map((s) => s.textContent)"), [f"KV head {i % 4}" for i in range(5)])
        before = self.browser.js(cell)
        self.browser.js("document.querySelector('#size').focus()")
        for _ in range(3):
            self.browser.key("ArrowRight")
        self.assertGreater(self.browser.js(cell), 1.5 * before)
        self.browser.js("document.querySelector(\"[data-head='4.7'] canvas\").scrollIntoView()")
        self.browser.until("document.querySelector(\"[data-head='4.7'] canvas\").width > 200")
        self.sound()

    def test_a_text_read_both_ways_does_not_see_what_follows_it(self):
        page = self.folder / "both.html"
        look(FABLE, "The cat", "--attn", "bidirectional", "-n", 2, "-o", page)
        self.browser.open(page, width=1600)
        self.browser.until("Number(document.querySelector('.small canvas').dataset.margin)")
        cells = [(0, 2), (2, 3), (0, 4), (3, 4), (4, 4)]
        self.assertEqual([self.hatched(0, i, j, ".small canvas") for i, j in cells], [False, True, True, True, False])
        self.sound()

    def test_stages_stand_side_by_side_where_there_is_room(self):
        for width, rows in ((1600, 1), (400, 4)):
            page = self.open("head", width=width)
            self.assertEqual(page.js("new Set([...document.querySelectorAll('.stage')].map((s) => s.offsetTop)).size"), rows)

    def test_a_head_opens_by_the_keyboard(self):
        page = self.open("atlas")
        page.js("document.querySelector(\"[data-head='1.1']\").focus()")
        page.key("Enter")
        self.assertEqual(page.text("#one h2"), "Layer 1, head 1")
        page.js("document.querySelector('#sort').focus()")
        page.key("ArrowDown")
        self.assertNotEqual(page.js("document.querySelector('.small').dataset.head"), "0.0")
        self.sound()

    def row(self) -> dict[int, list[float]]:
        """The table of the chosen row: key: [q.k, scaled, weight]."""
        rows = self.browser.js("[...document.querySelectorAll('#one tbody tr')].map((r) => [...r.children].map((c) => c.textContent))")
        return {int(key.split()[0]): [float(x) for x in rest] for key, *rest in rows}

    def test_the_written_row_is_the_engines_and_arrow_keys_change_it(self):
        c = self.captured(FABLE, TEXT)
        pattern, scores = c["blocks.2.attn.hook_pattern"][0, 3], c["blocks.2.attn.hook_attn_scores"][0, 3]
        page, n = self.open("atlas"), len(pattern)
        page.click("[data-head='2.3']")
        page.js("document.querySelector('.stage canvas').focus()")
        for key, row in ((None, n - 1), ("ArrowUp", n - 2), ("ArrowUp", n - 3), ("ArrowDown", n - 2), ("Home", 0), ("ArrowUp", 0), ("End", n - 1)):
            if key:
                page.key(key)
            for j, (_, scaled, weight) in self.row().items():
                self.assertAlmostEqual(weight, pattern[row, j], delta=0.001)
                self.assertAlmostEqual(scaled, scores[row, j], delta=0.002 * max(1, abs(scores[row, j])))
            self.assertEqual(set(self.row()) >= set(np.flatnonzero(pattern[row] > 0.006)), True)
            written = page.text("#row")
            numbers = [float(x) for x in re.findall(r"(?:= |\+ )(\d\.\d\d) ", written)]
            largest = np.sort(pattern[row])[::-1][: len(numbers)]
            for a, b in zip(sorted(numbers, reverse=True), largest):
                self.assertAlmostEqual(a, b, delta=0.006)
            self.assertIn("(sum 1.0000)", written)
        page.point(".stage canvas", 0.9, 0.9)
        self.assertRegex(page.text("#where"), r"row \d+ .*, key \d+ .*weight \d\.\d{4}")
        self.sound()

    def test_a_head_becomes_a_picture(self):
        page = self.open("head")
        page.click("#png")
        png = page.downloaded("head-2.3.png")
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
        wide, high = struct.unpack(">II", png[16:24])
        self.assertGreater(wide, 3 * high)
        self.sound()

    def test_the_sentence_chooses_rows(self):
        page = self.open("head")
        page.click("#sentence button:nth-child(3)")
        self.assertEqual(page.js("document.querySelector('#row .token').textContent"), page.js("tokens[2]"))
        page.point("#sentence button:nth-child(6)")
        self.assertTrue(page.js("document.querySelectorAll('#sentence button')[5].style.outline"))
        self.sound()

    def test_surprise_tells_what_was_expected(self):
        page = self.open("surprise")
        page.point(".word:nth-child(3)")
        self.assertRegex(page.text("#about"), r"took \d+\.\d\d bits .*expected")
        words = page.js("[...document.querySelectorAll('.word')].map((w) => w.textContent).join('')")
        self.assertIn("<b>happy</b> & \"warm\".", words)
        self.assertEqual(page.count("#text b"), 0)
        self.sound()

    def test_right_to_left_letters_stay_in_their_places(self):
        """Tokens follow one another from left to right, whatever their letters; a piece without a picture is named."""
        words = ["a", "שלום", "·مرحبا", "·(ש)", "1", "שנה", "\\u202e", "\\x07", "b", "!"]
        for name, container, members in (
            ("surprise", "#text", {"tokens": [[w, 3.0, "ש", 0.5, "ב", 0.2, "c", 0.1] for w in words]}),
            ("why", "#text", {"text": words, "token": "שלום"}),
            ("changed", "#before", {"text": words[:3], "before": words[3:], "after": words[:2]}),
            ("ranks", "#text", {"text": words}),
            ("head", "#sentence", {"tokens": [[i, words[i % len(words)]] for i in range(13)]}),
        ):
            with self.subTest(name):
                self.open(name)
                text = self.pages[name].read_text()
                head, rest = text.split('id="data">', 1)
                made, rest = rest.split("</script>", 1)
                page = self.folder / "turned.html"
                page.write_text(f'{head}id="data">{json.dumps(json.loads(made) | members)}</script>{rest}')
                self.browser.open(page, width=1600)
                self.browser.until(f"document.querySelector('{container} > *')")
                boxes = self.browser.js(
                    f"[...document.querySelector('{container}').querySelectorAll('.token, .word')].map((e) => {{ const b = e.getBoundingClientRect(); return [b.left, b.right, b.top]; }})"
                )
                self.assertGreater(len(boxes), 2)
                for (_, right, top), (left, _, below) in zip(boxes, boxes[1:]):
                    self.assertTrue(left >= right - 0.1 or below > top, boxes)
                self.sound()

    def test_control_characters_of_users_appear_as_text(self):
        page = self.folder / "from.html"
        look(FABLE, "The cat sat", "--steer-from", "a\x07\u202eb\n<i>", "--steer-to", "c", "-o", page)
        self.browser.open(page)
        self.browser.until("document.querySelector('#changes')")
        self.assertIn("“a\\x07\\u202eb\\n<i>” to “c”", self.browser.text("#changes"))
        self.assertNotRegex(page.read_text(), "[\x07\u202e]")
        self.sound()

    def test_the_lens_tells_five_words_and_follows_the_arrow_keys(self):
        page = self.open("lens")
        page.js("document.querySelector(\"td[tabindex='0']\").focus()")
        self.assertRegex(page.text("#about"), r"position 0, the embedding alone says: ([^%]+ %){5}\. The model says")
        page.key("ArrowDown")
        page.key("ArrowRight")
        self.assertRegex(page.text("#about"), r"position 1, layer 0 says: ")
        self.assertEqual(page.count("td[tabindex='0']"), 1)
        self.sound()

    def test_the_terms_of_a_layer_open(self):
        page = self.open("why")
        self.assertEqual(page.count(".layer-terms"), 5 + 2)
        self.assertEqual(page.count(".layer-terms[open]"), 0)
        page.click(".layer-terms:nth-of-type(2) summary")
        self.assertEqual(page.count(".layer-terms[open] tbody tr"), 8 + 3)
        self.sound()

    def test_surgery_shows_both_runs_side_by_side(self):
        page = self.open("changed", width=1600)
        self.assertIn("0.attn,2.3", page.text("#changes"))
        self.assertEqual(page.js("data.edits.length"), page.count("details tbody tr"))
        wide = page.js("[...document.querySelectorAll('#choices tbody tr')].map((r) => [...r.querySelectorAll('.bar')].map((b) => b.getBoundingClientRect().width))")
        p = page.js("data.choices.map((c) => c.slice(2))")
        unit = max(map(max, wide)) / max(map(max, p))
        np.testing.assert_allclose(wide, np.maximum(np.array(p) * unit, 1), atol=1)
        self.assertEqual(page.js("new Set([...document.querySelectorAll('.text')].map((s) => s.offsetTop)).size"), 1)
        for name in ("before", "after"):
            self.assertEqual(page.count(f"#{name} > .token"), 20)
        apart = page.js("data.before.findIndex((t, i) => t !== data.after[i])")
        self.assertEqual(page.count("#after .apart"), 20 - apart)
        self.sound()

    def column(self, table: str, i: int) -> list[str]:
        return self.browser.js(f"[...document.querySelectorAll('{table} tbody tr')].map((r) => r.cells[{i}].textContent)")

    def test_tables_are_sorted_by_their_titles(self):
        number = lambda text: float(text.replace("−", "-"))  # noqa: E731
        for name, table, columns in (("changed", "#choices", (2, 3, 4)), ("ranks", "#ranks", (0, 1, 2, 3))):
            page = self.open(name)
            for i in columns:
                for sign in (-1, 1):
                    page.js(f"document.querySelectorAll('{table} th button')[{columns.index(i) + (name == 'changed')}].focus()")
                    page.key("Enter")
                    have = [number(x) for x in self.column(table, i)]
                    self.assertEqual(have, sorted(have, reverse=sign < 0))
            self.sound()

    def test_heads_are_chosen_in_the_map_and_in_the_ranks(self):
        page = self.open("ranks")
        self.assertEqual(page.count("#map [data-head]"), 40)
        page.point("[data-head='2.3']")
        self.assertRegex(page.text("#about"), r"Head 2\.3 is number \d+ of 40.* change [+−]0\.\d{6} nats")
        change = page.js("at.get('2.3').change")
        self.assertEqual(page.text("#ranks .chosen td:last-child").replace("−", "-"), f"{change:+.6f}")
        page.click("[data-head='2.3']")
        page.key("ArrowRight")
        self.assertIn("Head 2.4 ", page.text("#about"))
        page.key("ArrowUp")
        self.assertIn("Head 1.4 ", page.text("#about"))
        self.assertEqual(page.js("document.activeElement.dataset.head"), "1.4")
        self.assertEqual(page.count("#map td[tabindex='0']"), 1)
        for _ in range(9):
            page.key("ArrowUp")
        self.assertIn("Head 0.4 ", page.text("#about"))
        page.key("Enter")
        seen = "(() => { const r = document.querySelector('#ranks .chosen').getBoundingClientRect(), b = document.querySelector('.scroll').getBoundingClientRect(); return r.top >= b.top && r.bottom <= b.bottom; })()"
        self.assertTrue(page.js(seen))
        self.assertEqual(page.js("cells.get(ranked[0].name).style.color"), "rgb(255, 255, 255)")  # the darkest cell
        self.sound()

    def test_a_timeline_moves(self):
        page = self.open("timeline")
        self.assertGreater(page.count("tbody tr"), 4)
        lanes = "document.querySelector('canvas').toDataURL()"
        before = page.js(lanes)
        page.js("document.querySelector('canvas').focus()")
        page.key("+")
        near = page.js(lanes)
        self.assertNotEqual(near, before)
        page.key("ArrowRight")
        self.assertNotEqual(page.js(lanes), near)
        page.key("Home")
        self.assertEqual(page.js(lanes), before)
        self.sound()

    def test_models_of_all_kinds_with_tokens_of_all_kinds(self):
        """Weights and scores of every head beside those of the engine; tokens are text, whatever they say."""
        for name in GOLDEN:
            with self.subTest(name):
                model, ids = golden_model(name, self.folder)
                page = self.folder / f"{name}.html"
                look(model, "--prompt-ids", ids, "-o", page)
                c = self.captured(model, "--prompt-ids", ids)
                self.browser.open(page)
                self.browser.until("document.querySelector('.small')")
                at = self.browser.js("data.n_prompt") - len(ids.split(","))  # BOS, if the model adds one
                self.assertEqual(self.browser.js("tokens")[at : at + len(HARD)], LABELS)
                for entry in self.browser.js("data.heads.map((h) => [h.layer, h.head])"):
                    layer, head = entry
                    self.browser.click(f"[data-head='{layer}.{head}']")
                    weights, scaled = (np.array(self.browser.js(
                        f"Array.from({{length: N}}, (_, i) => Array.from({{length: N}}, (_, j) => headOf(data.heads.find((h) => h.layer === {layer} && h.head === {head})).{what}))"), float)
                        for what in ("weight(i, j, false)", "scaled(i, j)"))  # fmt: skip
                    np.testing.assert_allclose(weights, c[f"blocks.{layer}.attn.hook_pattern"][0, head], atol=1e-3)
                    scores = c[f"blocks.{layer}.attn.hook_attn_scores"][0, head]
                    seen = np.isfinite(scores)
                    np.testing.assert_allclose(scaled[seen], scores[seen], atol=2e-3 * max(1, np.abs(scores[seen]).max()))
                    sink = self.browser.js(f"Array.from({{length: N}}, (_, i) => headOf(data.heads.find((h) => h.layer === {layer} && h.head === {head})).sinkWeight(i, false))")
                    np.testing.assert_allclose(sink, 1 - c[f"blocks.{layer}.attn.hook_pattern"][0, head].sum(1), atol=1e-3)
                    masked = self.browser.js(f"Array.from({{length: N}}, (_, i) => Array.from({{length: N}}, (_, j) => isMasked(data.layers[{layer}], N, i, j)))")
                    np.testing.assert_array_equal(np.array(masked), ~seen)
                    about = self.browser.text("#one p")
                    layers = self.browser.js(f"data.layers[{layer}]")
                    self.assertEqual("the last" in about, layers["window"] > 0)
                    self.assertEqual("sink" in about, layers["sinks"] is not None)
                    self.assertEqual("capped" in about, layers["cap"] > 0)
                    self.assertEqual("share KV head" in about, layers["kv_heads"] < layers["heads"])
                self.assertEqual(self.browser.js("[...document.querySelectorAll('#sentence button')].map((b) => b.textContent)")[at : at + len(HARD)], LABELS)
                self.assertEqual(self.browser.count("body script"), self.browser.js("document.scripts.length"))
                self.sound()

    def test_notebooks_show_pages_in_frames(self):
        """What Model.look gives a notebook: the page, in a frame that cannot reach the notebook, whatever the text says."""
        text = "</iframe></script><script>alert()</script> \"'&amp; שלום 👩"
        with tern.Model(ROOT / FABLE) as model:
            shown = [(model.look(text, view, **how), drawn) for view, how, drawn in (
                ("atlas", {}, PAGES["atlas"][1]), ("atlas", {"head": (2, 3)}, PAGES["head"][1]),
                ("lens", {}, PAGES["lens"][1]), ("why", {}, PAGES["why"][1]), ("surprise", {}, PAGES["surprise"][1]))]  # fmt: skip
        page = self.folder / "notebook.html"
        page.write_text("<!doctype html><meta charset=utf-8>" + "".join(f"<p>{seen._repr_html_()}</p>" for seen, _ in shown))
        for dark in (False, True):
            self.browser.open(page, dark=dark)
            self.browser.wait(lambda: len(self.browser.frames()) == len(shown))
            for frame, (_, drawn) in zip(self.browser.frames(), shown):
                self.browser.wait(lambda frame=frame, drawn=drawn: self.browser.js(f"!!document.querySelector({json.dumps(drawn)})", frame))
                reached = "(() => { try { return parent.document.title; } catch { return null; } })()"
                self.assertEqual(self.browser.js(f"[{reached}, isDark()]", frame), [None, dark])
            atlas = self.browser.frames()[0]
            self.browser.js("document.querySelector(\"[data-head='2.3']\").click()", atlas)
            self.assertEqual(self.browser.js("document.querySelector('#one h2').textContent", atlas), "Layer 2, head 3")
            self.assertEqual(self.browser.count("p > iframe"), len(shown))
            self.sound()

    @unittest.skipUnless(os.environ.get("LONG_PAGES"), "LONG_PAGES=1 runs it: half a minute")
    def test_4096_tokens(self):
        """Every head at 64 x 64 and 16 whole in less than 30 MB; 30 frames a second; no step blocks for 200 ms."""
        text, page = self.folder / "long.txt", self.folder / "long.html"
        source = (ROOT / "models/README.md").read_text() + (ROOT / "models/CREDITS.md").read_text()
        text.write_text(source[:9280])
        look(FABLE, "-f", text, "-o", page)
        self.browser.open(page, width=1600)
        n = self.browser.js("N")
        self.assertTrue(3900 < n < 4300, n)
        self.assertEqual(self.browser.js("data.heads.filter((h) => h.side === 64).length"), 40)
        self.assertEqual(self.browser.js("data.heads.filter((h) => h.whole).length"), 16)
        self.assertIn("24 of 40", self.browser.text("#left-out"))
        self.assertLess(page.stat().st_size, 30e6)
        frames = self.browser.js("""new Promise((done) => { const begin = performance.now(), end = document.documentElement.scrollHeight; let frames = 0;
            const step = () => { const t = performance.now() - begin; frames++; scrollTo(0, ((t / 2000) % 1) * end); t < 2000 ? requestAnimationFrame(step) : done(frames / (t / 1000)); };
            requestAnimationFrame(step); })""")
        self.browser.js("""window.longest = []; new PerformanceObserver((l) => l.getEntries().forEach((e) => longest.push(e.duration))).observe({entryTypes: ["longtask"]})""")
        steps = {"open": lambda: self.browser.click(".small:not(.partial)"), "row": lambda: self.browser.key("ArrowUp"),
                 "page": lambda: self.browser.key("PageUp"), "side": lambda: self.browser.key("ArrowLeft"), "larger": lambda: self.browser.key("+"),
                 "first": lambda: self.browser.key("Home"), "last": lambda: self.browser.key("End"),
                 "mask": lambda: self.browser.click("#unmasked"), "guide": lambda: self.browser.click("#guide", 0.3, 0.6)}  # fmt: skip
        blocked = {}
        for name, step in steps.items():
            self.browser.js("longest.length = 0")
            step()
            if name == "open":
                self.browser.js("document.querySelector('.stage canvas').focus()")
            self.browser.js("new Promise((f) => setTimeout(f, 1500))")
            blocked[name] = round(self.browser.js("Math.max(0, ...longest)"))
        print(f"{n} tokens, {page.stat().st_size / 1e6:.1f} MB, {frames:.0f} frames a second, longest task in ms: {blocked}")
        self.sound()
        self.assertGreaterEqual(frames, 30)
        self.assertLess(max(blocked.values()), 200)


if __name__ == "__main__":
    unittest.main()
