"""The page of serve in headless Chromium: hands and keys, odd tokens, hostile texts, refusals.

A mock answers the page's requests where the server would not: refusals, streams that break, tokens of one's choice. The
page itself, with its headers, always comes from serve.
SCREENSHOTS=FOLDER keeps pictures of it, light and dark, at 320 and 1,200 pixels.
"""

import itertools
import json
import os
import re
import unittest
from pathlib import Path

import browser
import serve_case
from page_mock import Mock, Script, token, words

LACKS = browser.LACKS or serve_case.WHY
HOSTILE = """<script>window.ran = 1</script><img src=x onerror="window.ran = 2"><svg onload=alert(1)>

[click](javascript:window.ran=3) [data](data:text/html,x) [file](file:///etc/passwd) <javascript:window.ran=4>
![picture](https://example.org/x.png) [spaced]( java script:alert(1)) [ok](https://example.org/a_(b)_c)

\x1b[31mred\x1b[0m \x07 \u202eabc\u202c \u200b | | |
|-|
**never closed `nor this [nor](this
> > > > > > > > > > > > > deep
- - - - - - - - - - - - - deep
```html
<script>window.ran = 5</script>"""
MARKDOWN = [  # source, what is made of it
    ("a *b* **c** `d` ~~e~~ ***f***", "<p>a <em>b</em> <strong>c</strong> <code>d</code> <del>e</del> <strong><em>f</em></strong></p>"),
    ("snake_case_name 2 * 3 * 4 _x_", "<p>snake_case_name 2 * 3 * 4 <em>x</em></p>"),
    ("# A\n###### B ", "<h3>A</h3><h6>B </h6>"),
    ("a\nb\n\nc", "<p>a\nb</p><p>c</p>"),
    ("- a\n- b\n  - c\n\n  d\n- e\n\nf", "<ul><li><p>a</p></li><li><p>b</p><ul><li><p>c</p></li></ul><p>d</p></li><li><p>e</p></li></ul><p>f</p>"),
    ("3. a\n4. b", '<ol start="3"><li><p>a</p></li><li><p>b</p></li></ol>'),
    ("> a\n> - b\n\nc", "<blockquote><p>a</p><ul><li><p>b</p></li></ul></blockquote><p>c</p>"),
    ("***", "<hr>"),
    ("| a | b |\n|---|:-:|\n| 1 \\| 2 | `3` |\n\nx", "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1 | 2</td><td><code>3</code></td></tr></tbody></table></div><p>x</p>"),
    ("```py\na < b\n\n  c\n```\nd", "<div><div><span>py</span><button>Copy</button></div><pre><code>a &lt; b\n\n  c</code></pre></div><p>d</p>"),
    ("[a *b*](https://x.org/) https://y.org/z. [c](javascript:d)", '<p><a href="https://x.org/">a <em>b</em></a> <a href="https://y.org/z">https://y.org/z</a>. [c](javascript:d)</p>'),
    ("\\*a\\* <b>c</b> &amp;", "<p>*a* &lt;b&gt;c&lt;/b&gt; &amp;amp;</p>"),
]  # fmt: skip
# An element as its name, its address or its start, and what is in it; spans of tokens and of code that grows are left out.
SIMPLE = """(root) => {
  const walk = (e) => [...e.childNodes].map((n) => {
    if (n.nodeType === 3) return n.data.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
    if (n.localName === "span" && !n.className) return walk(n);
    if (n.classList.contains("t")) return walk(n);
    const more = ["href", "start"].filter((a) => n.hasAttribute(a)).map((a) => ` ${a}="${n.getAttribute(a)}"`).join("");
    return n.localName === "hr" ? "<hr>" : `<${n.localName}${more}>${walk(n)}</${n.localName}>`;
  }).join("");
  return walk(root);
}"""
# What a text becomes, `step` letters at a time
GROWN = """(text, step) => {
  const message = {text: "", tokens: []}, root = document.createElement("div"), flow = new Flow(root, "text", new Places(message));
  for (let n = step; ; n += step) {
    message.text = text.slice(0, n);
    flow.grow(message.text.length);
    if (n >= text.length) return (%s)(root);
  }
}""" % SIMPLE
CONTRAST = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const known = new Map(), over = (list) => known.get(list.join()) ?? (known.set(list.join(), mix(list)), known.get(list.join()));
  const mix = (list) => { canvas.clearRect(0, 0, 1, 1); for (const c of list) { canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); } return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
  const light = (rgb) => { const [r, g, b] = rgb.map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const low = [];
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.getClientRects().length || e.closest(".hidden")) continue;
    const backs = []; for (let p = e; p; p = p.parentElement) backs.unshift(getComputedStyle(p).backgroundColor);
    const a = light(over(backs)), b = light(over([...backs, getComputedStyle(e).color])), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push([e.outerHTML.slice(0, 80), ratio]);
  }
  return low;
})()"""


def setUpModule():
    if LACKS:
        raise unittest.SkipTest(LACKS)
    Page.server = serve_case.Server("--chat-template", "chatml")
    unittest.addModuleCleanup(Page.server.stop)
    Page.browser = browser.Browser()
    unittest.addModuleCleanup(Page.browser.close)


class Page(unittest.TestCase):
    """A page in the browser; its server is the mock, or where MOCKED is false, serve."""

    MOCKED = True
    server: serve_case.Server
    browser: browser.Browser

    def setUp(self):
        self.refused = False  # whether the test has the server refuse something, which browsers log
        if self.MOCKED:
            _, headers, body = self.server.get("/")
            self.mock = Mock(({k: v for k, v in headers.items() if k not in ("content-length", "date", "connection")}, body.encode()))
            self.addCleanup(self.mock.close)
        self.url = self.mock.url if self.MOCKED else self.server.url + "/"

    def tearDown(self):
        found = [fault for fault in self.browser.faults() if not (self.refused and fault.startswith("log: Failed to load resource"))]
        self.assertEqual(found, [])
        self.assertIsNone(self.browser.js("window.ran ?? null"))

    def open(self, **how) -> browser.Browser:
        self.browser.open(self.url, left=False, **how)
        self.browser.until("server.model_alias")
        return self.browser

    def picture(self, name: str) -> None:
        if folder := os.environ.get("SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.browser.screenshot(Path(folder) / f"serve-{name}.png")

    def send(self, text: str, *scripts: Script, wait: bool = True) -> None:
        """Types a message and sends it."""
        if self.MOCKED:
            self.mock.scripts += scripts
        self.browser.js("document.querySelector('#prompt').focus()")
        self.browser.type(text)
        self.browser.key("Enter")
        if wait:
            self.done()

    def done(self) -> None:
        self.browser.until("!run && document.querySelector('#prompt').value === ''")

    def press(self, words: str, within: str = "body", last: bool = True) -> None:
        """Clicks the button with these words, the last one of that kind."""
        self.browser.js(f"(() => {{ const all = [...document.querySelectorAll({json.dumps(within + ' button')})].filter((b) => b.textContent === {json.dumps(words)});"
                        f"document.querySelector('.to-press')?.classList.remove('to-press'); all.at({-1 if last else 0}).classList.add('to-press'); }})()")  # fmt: skip
        self.browser.click(".to-press")

    def shown(self) -> list[str]:
        """The texts of the messages."""
        return self.browser.js("[...document.querySelectorAll('.message')].map((m) => (m.querySelector('.text, .plain') ?? m.querySelector('.body')).textContent)")


class Chat(Page):
    def test_a_message_is_sent_and_its_answer_streams(self):
        page = self.open()
        self.send("What is *this*?", Script(words("A **tern** is a bird."), words("I think so."), pause=0.05), wait=False)
        page.until("document.querySelector('.assistant strong')")
        self.assertEqual(page.text("#send"), "Stop")
        self.done()
        self.assertEqual(self.shown(), ["What is *this*?", "A tern is a bird."])
        self.assertEqual(page.text(".thought > div"), "I think so.")
        self.assertFalse(page.js("document.querySelector('.thought').open"))
        self.assertRegex(page.text(".assistant .stats"), r"^12 tokens in \(4 from the cache\); 8 out; [\d.]+ tokens/s; first after [\d.]+ s$")
        asked = self.mock.asked[0]
        self.assertEqual(asked["messages"], [{"role": "user", "content": "What is *this*?"}])
        self.assertEqual([asked[k] for k in ("stream", "logprobs", "stream_options")], [True, True, {"include_usage": True}])
        self.assertIn("A tern is a bird.", page.text("#live"))
        self.send("And then?", Script(words("More.")))
        self.assertEqual([m["content"] for m in self.mock.asked[1]["messages"]], ["What is *this*?", "A **tern** is a bird.", "And then?"])
        self.picture("chat")

    def test_escape_stops_and_the_answer_can_go_on(self):
        page = self.open()
        self.send("Count", Script(words("one two three four five six seven eight nine ten"), pause=0.2), wait=False)
        page.until("document.querySelector('.assistant')?.textContent.includes('two')")
        page.key("Escape")
        self.done()
        text = self.shown()[1]
        self.assertTrue("ten".startswith(text) or not text.endswith("ten"))
        self.assertIn("stopped by you", page.text(".assistant .stats"))
        page.wait(lambda: self.mock.stopped)
        self.mock.scripts.append(Script(words(" and on")))
        self.press("Go on")
        self.done()
        self.assertEqual(self.shown()[1], text + " and on")
        self.assertEqual(self.mock.asked[1]["answer_tokens"], list(range(100, 100 + len(text.split()))))

    def test_edit_regenerate_and_branches(self):
        page = self.open()
        self.send("First", Script(words("Answer one.")))
        self.mock.scripts.append(Script(words("Answer two.")))
        self.press("Regenerate")
        self.done()
        self.assertEqual(self.shown(), ["First", "Answer two."])
        self.assertEqual(page.text(".assistant .branches span"), "2/2")
        page.click("[aria-label='Previous branch']")
        self.assertEqual(self.shown(), ["First", "Answer one."])
        self.send("Second", Script(words("Answer three.")))
        self.press("Edit", ".user", last=False)
        page.js("document.activeElement.select()")
        page.type("Other")
        self.mock.scripts.append(Script(words("Answer four.")))
        page.key("Enter", browser.CONTROL)
        self.done()
        self.assertEqual(self.shown(), ["Other", "Answer four."])
        page.click("[aria-label='Previous branch']")
        self.assertEqual(self.shown(), ["First", "Answer one.", "Second", "Answer three."])
        self.press("Edit", ".assistant")
        page.type("Edited: ")
        self.press("Save")
        self.assertIn("Edited: ", self.shown()[3])
        self.press("Edit", ".assistant")
        page.key("Escape")
        self.assertIn("Edited: ", self.shown()[3])
        self.picture("branches")

    def test_an_alternative_begins_a_branch(self):
        page = self.open()
        tokens = [token("The", 1), token(" cat", 2, -0.5, [(" dog", 3, -1.0), (b"\xf0\x9f", 4, -3.0)]), token(" sat", 5), token("<|end|>", 6)]
        self.send("Go", Script(tokens))
        page.point(".assistant [data-i='1']")
        page.until("!card.hidden")
        self.assertIn("60.7 %, surprise 0.7 bits", page.text("#card"))
        self.assertEqual(page.js("[...card.querySelectorAll('bdi')].map((b) => b.textContent)"), ["␣cat", "␣cat", "␣dog", "\\xf0\\x9f"])
        self.mock.scripts.append(Script(words(" ran")))
        page.click("#card li:nth-child(2) button")
        self.done()
        self.assertEqual(self.shown(), ["Go", "The dog ran"])
        self.assertEqual(self.mock.asked[1]["answer_tokens"], [1, 3])
        self.assertEqual(page.text(".branches span"), "2/2")
        self.picture("alternative")
        page.click("[aria-label='Previous branch']")
        self.assertEqual(self.shown(), ["Go", "The cat sat"])
        page.click(".assistant [data-i='1']")  # half of a character goes on with the other half
        self.mock.scripts.append(Script([token(b"\xa6\x86", 9), token("!", 10)]))
        page.click("#card li:nth-child(3) button")
        self.done()
        self.assertEqual(self.mock.asked[2]["answer_tokens"], [1, 4])

    def test_tokens_by_keyboard_and_in_a_list(self):
        page = self.open()
        self.send("Go", Script([*words("**Two** words"), token("<|end|>", 6)], words("Hm.")))
        page.js("document.querySelector('.assistant .body').focus()")
        for key in ("ArrowRight", "ArrowRight"):
            page.key(key)
        self.assertEqual(page.js("document.activeElement.textContent"), " words")
        self.assertFalse(page.js("card.hidden"))
        page.key("Enter")
        self.assertEqual(page.js("document.activeElement.closest('#card') !== null"), True)
        page.key("Escape")
        self.assertEqual(page.js("[card.hidden, document.activeElement.textContent]"), [True, " words"])
        self.press("Tokens")
        self.assertEqual(page.js("[...document.querySelectorAll('.listed .t')].map((t) => t.textContent)"), ["Hm.", "**Two**", " words", "<|end|>"])
        self.press("Tokens")
        self.assertEqual(self.shown()[1], "Two words")

    def test_attention_of_a_token(self):
        page = self.open()
        self.send("Go", Script([token("The", 4), token(" cat", 5), token(b"\xf0\x9f", 6), token(" end", 7)]))
        page.click(".assistant [data-i='1']")
        self.press("Attention", "#card")
        shades = "[...weighed.children].map((t) => [t.textContent, t.dataset.s ?? null])"
        page.until("weighed.childElementCount")
        self.assertEqual(self.mock.looks[0], {"tokens": [1, 2, 3, 4, 5], "layer": 2, "with_pieces": True})
        self.assertEqual(page.js(shades), [["<|im_start|>", "6"], ["Go", "6"], ["⏎\n", "9"], ["The", "6"], [" cat", "6"], ["\\xf0\\x9f", None], [" end", None]])
        self.assertEqual(page.text("#weight"), "␣cat, token 5: 15.0 % of the attention of ␣cat")
        self.assertTrue(page.text("#most").startswith("Most: ⏎ 40.0 %, "))
        self.assertEqual(page.js("[...lookForm.elements.layer.options].map((o) => o.text + (o.disabled ? '!' : ''))"), ["0", "1: no attention!", "2"])
        page.point("#weighed :nth-child(3)")
        self.assertEqual(page.text("#weight"), "⏎, token 3: 40.0 % of the attention of ␣cat")
        self.picture("attention")
        for name, value, asked, first, share in (("layer", "0", (0, None), 2, "35.0"), ("head", "max", (0, None), 2, "50.0"), ("head", "0", (0, 0), 0, "20.0")):
            before = len(self.mock.looks)
            page.js(f"(() => {{ const c = lookForm.elements.{name}; c.value = '{value}'; c.dispatchEvent(new Event('change')); }})()")
            page.wait(lambda n=before: len(self.mock.looks) > n)
            page.until(f"document.querySelector('#most').textContent.startsWith(`Most: ${{label(look.pieces[{first}])}} {share} %`)")
            self.assertEqual((self.mock.looks[-1]["layer"], self.mock.looks[-1].get("head")), asked)
        self.assertEqual(page.js("lookForm.elements.head.options.length"), 4)
        page.js("weighed.focus()")  # by keys: to a token, and from there
        for key in ("ArrowRight", "End"):
            page.key(key)
        self.assertEqual(page.text("#weight"), "␣end, token 7: comes later")
        page.key("Enter")
        page.until("look.at === 6")
        self.assertEqual(len(self.mock.looks[-1]["tokens"]), 7)
        self.assertEqual(page.js("document.activeElement === weighed.children[6]"), True)
        page.key("Escape")
        page.until("!lookDialog.open")
        page.click(".assistant [data-i='0']")
        self.press("Attention", "#card")
        page.until("weighed.childElementCount")
        self.assertEqual(page.js("[lookForm.elements.layer.value, lookForm.elements.head.value]"), ["0", "0"])  # as it was left
        self.press("Done", "#look")
        self.mock.props["attention_heads"] = [0, 0]
        self.open()
        page.click(".assistant [data-i='0']")
        self.assertNotIn("Attention", page.text("#card"))

    def test_surprise_has_colours(self):
        page = self.open()
        self.send("Go", Script([token("usual", 1, -0.01), token(" odd", 2, -4.2), token(" mad", 3, -30)]))
        colours = "[...document.querySelectorAll('.assistant .t')].map((t) => getComputedStyle(t).backgroundColor)"
        self.assertEqual(set(page.js(colours)), {"rgba(0, 0, 0, 0)"})
        page.click("#surprise")
        strength = [float(re.search(r"[\d.]+\)$", colour)[0][:-1]) if "rgba" in colour or "/" in colour else 1 for colour in page.js(colours)]
        self.assertEqual(strength, sorted(set(strength)))
        self.picture("surprise")
        self.open()
        self.assertEqual(page.js("document.querySelector('#surprise').ariaPressed"), "true")

    def test_characters_in_parts(self):
        page = self.open()
        family = "👩‍🚀 naïve".encode()
        self.send("Go", Script([token(family[i : i + 3], i) for i in range(0, len(family), 3)]))
        self.assertEqual(self.shown()[1], "👩‍🚀 naïve")
        self.assertEqual(page.js("[...document.querySelectorAll('.assistant .t')].map((t) => t.textContent).join('')"), "👩‍🚀 naïve")
        self.press("Tokens")
        self.assertEqual(page.count(".listed .t"), -(-len(family) // 3))

    def test_settings_are_sent_and_kept(self):
        page = self.open()
        page.click("#open-settings")
        page.until("settings.open")
        for name, value in {"system": "Be brief.", "temperature": "0.5", "seed": "7", "stop": "END\n\\n\\n", "thinking": "off", "schema": '{"type": "object"}'}.items():
            page.js(f"(() => {{ const c = form.elements[{json.dumps(name)}]; c.value = {json.dumps(value)}; c.dispatchEvent(new Event('input', {{bubbles: true}})); }})()")
        self.picture("settings")
        self.press("Done", "#settings")
        self.send("Go", Script(words("Yes.")))
        asked = self.mock.asked[0]
        self.assertEqual(asked["messages"][0], {"role": "system", "content": "Be brief."})
        self.assertEqual({k: asked[k] for k in ("temperature", "seed", "stop", "chat_template_kwargs")},
                         {"temperature": 0.5, "seed": 7, "stop": ["END", "\n\n"], "chat_template_kwargs": {"enable_thinking": False}})  # fmt: skip
        self.assertEqual(asked["response_format"]["json_schema"]["schema"], {"type": "object"})
        self.assertNotIn("top_p", asked)
        page.js("form.elements.schema.value = '[1]'; form.dispatchEvent(new Event('input'))")
        self.assertIn("begins with {", page.js("form.elements.schema.validationMessage"))
        page.js("form.elements.schema.value = '{'; form.dispatchEvent(new Event('input'))")
        self.send("Again")
        self.assertIn("Settings, JSON schema", page.text(".error"))
        self.assertEqual(len(self.mock.asked), 1)
        self.open()
        self.assertEqual(page.js("[form.elements.seed.value, current.system]"), ["7", "Be brief."])

    def test_conversations_are_kept_renamed_deleted_and_moved(self):
        page = self.open()
        self.send("First talk", Script(words("One.")))
        self.press("New conversation")
        self.send("Second talk", Script([token("<b>", 1), token(b"\xff", 2)]))
        self.open()
        self.assertEqual(page.js("[...document.querySelectorAll('#list .title')].map((t) => t.textContent)"), ["Second talk", "First talk"])
        self.assertEqual(self.shown(), ["Second talk", "<b>\ufffd"])
        page.js("window.prompt = (words, title) => title === 'Second talk' && 'Renamed'; window.confirm = (words) => words.startsWith('Delete')")
        self.press("Rename", "#list .current")
        page.until("document.querySelector('#list .title').textContent === 'Renamed'")
        page.click("#export")
        data = json.loads(page.downloaded("tern-conversations.json"))
        self.assertEqual([c["title"] for c in data["conversations"]], ["Renamed", ""])
        for left in (1, 0):
            self.press("Delete", "#list .current")
            page.until(f"conversations.length === {left}")
        self.assertEqual(page.js("Object.keys(localStorage).filter((k) => k.includes('conversation')).length"), 0)
        again = json.dumps(json.dumps(data))
        page.js(f"importFile(new File([{again}], 'x.json'))")
        self.assertEqual(page.js("conversations.map(titleOf)"), ["Renamed", "First talk"])
        for bad in ("{", "[1]", '{"id": "x", "messages": [{"id": 1, "parent": 1, "role": "user", "text": ""}]}', '{"id": "x", "messages": [{"id": 1, "parent": 0, "role": "user", "text": "", "tokens": [[1, [300], 0]]}]}'):
            page.js(f"importFile(new File([{json.dumps(bad)}], 'x.json'))")
            self.assertIn("cannot be imported", page.text("#notice"))
        self.assertEqual(page.js("conversations.length"), 2)

    TITLES = "[conversations.map(titleOf), storedConversations().map(titleOf), [...document.querySelectorAll('#list .title')].map((t) => t.textContent)]"

    def two_tabs(self) -> list[browser.Browser]:
        tabs = [self.open(), self.browser.tab()]
        self.addCleanup(tabs[1].call, "Page.close")
        tabs[1].open(self.url, left=False)
        for tab in tabs:
            tab.until("server.model_alias")
        tabs[0].call("Page.bringToFront")
        return tabs

    def both(self, tabs, code: str) -> None:
        for tab in tabs:
            tab.until(code)

    def test_two_tabs_send_at_once(self):
        tabs = self.two_tabs()
        self.send("First", Script(words("One.")))
        self.both(tabs, "current.messages.length === 2 || (conversations[0]?.messages.length === 2 && (open(conversations[0]), true))")
        self.mock.scripts += [Script(words("Two three four five."), pause=0.1), Script(words("Two three four five."), pause=0.1)]
        for i, tab in enumerate(tabs):
            tab.js(f"prompt.value = 'From {i}'; submit(); 0")
        self.both(tabs, "!run && current.messages.length === 6 && current.messages.every((m) => m.role === 'user' || m.ended || m.text.endsWith('five.'))")
        tabs[0].until("storedConversations()[0].messages.length === 6")
        for tab in tabs:
            self.assertEqual(tab.js(self.TITLES), [["First"]] * 3)
            self.assertEqual(tab.js("branches(current, current.messages[1].id).map((m) => [m.text, branches(current, m.id).map((a) => a.text)]).sort()"),
                             [["From 0", ["Two three four five."]], ["From 1", ["Two three four five."]]])  # fmt: skip
        self.assertEqual(sorted([m["content"] for m in asked["messages"]] for asked in self.mock.asked[1:]), [["First", "One.", f"From {i}"] for i in (0, 1)])
        tabs[0].js("current.title = 'Renamed'; keep(current)")
        tabs[1].until("titleOf(current) === 'Renamed'")

    def test_an_older_answer_in_the_store_is_written_again(self):
        page = self.open()  # what comes of two tabs whose answers end at one time: the later write has a part of the other's answer
        self.send("First", Script(words("One two.")))
        page.js("(() => { const c = packed(current), m = c.messages[1], name = CONVERSATION + c.id; c.messages[1] = {...m, text: 'One', changed: m.changed - 1};"
                "store(name, c); dispatchEvent(new StorageEvent('storage', {key: name})); })()")  # fmt: skip
        self.assertEqual(page.js("[current, storedConversations()[0]].map((c) => c.messages[1].text)"), ["One two."] * 2)

    def test_two_tabs_go_on_with_one_answer(self):
        tabs = self.two_tabs()
        self.send("First", Script(words("One"), reason="length"))
        self.both(tabs, "current.messages.length === 2 || (conversations[0]?.messages.length === 2 && (open(conversations[0]), true))")
        self.mock.scripts += [Script(words(" two three four five."), pause=0.1), Script(words(" zwei drei vier."), pause=0.1)]
        for tab in tabs:
            tab.js("goOn(current.messages[1]); 0")
            tab.until("run?.tokens")
        self.both(tabs, "!run && current.messages.length === 3 && current.messages.slice(1).every((m) => m.text.endsWith('.'))")
        tabs[0].until("storedConversations()[0].messages.length === 3")
        for tab in tabs:
            self.assertEqual(tab.js("current.messages.slice(1).map((m) => [m.parent === current.messages[0].id, m.text]).sort()"),
                             [[True, "One two three four five."], [True, "One zwei drei vier."]])  # fmt: skip
            self.assertEqual(tab.js("[...document.querySelectorAll('.message')].map((m) => m.dataset.id - shownPath(current).find((x) => x.id == m.dataset.id)?.id)"), [0, 0])

    def test_messages_are_deleted(self):
        page = self.open()
        self.send("First", Script(words("One.")))
        self.send("Second", Script(words("Two.")))
        page.js("window.confirm = (words) => (window.said = words, window.sure)")
        self.press("Delete", ".user", last=False)
        self.assertEqual(page.js("said"), "Delete this message and the 3 that follow it? This cannot be undone.")
        self.assertEqual(self.shown(), ["First", "One.", "Second", "Two."])  # not sure
        page.js("window.sure = true")
        self.mock.scripts.append(Script(words("Zwei.")))
        self.press("Regenerate", ".assistant")
        page.until("!run && current.messages.length === 5")
        self.press("Delete", ".assistant")  # one branch; the other is shown again
        page.until("current.messages.length === 4")
        self.assertEqual((page.js("said"), self.shown()), ("Delete this message? This cannot be undone.", ["First", "One.", "Second", "Two."]))
        self.send("Third", Script(words("Three four five six seven eight nine."), pause=0.1), wait=False)
        page.until("run?.tokens")
        page.js("[...document.querySelectorAll('.message')[2].querySelectorAll('footer button')].at(-1).focus()")
        page.key("Enter")  # with an answer that is being written below it
        page.until("!run && document.querySelectorAll('.message').length === 2")
        self.assertEqual(page.js("viewOf(document.activeElement).message.text"), "One.")  # no keyboard comes up on a phone
        self.open()
        self.assertEqual(self.shown(), ["First", "One."])
        page.js("window.confirm = () => true")
        self.press("Delete", ".user")
        page.until("!document.querySelector('.message')")
        self.assertEqual(page.js("[conversations.length, storedConversations().length]"), [0, 0])

    def test_what_another_tab_adds_below_a_deleted_message_stays(self):
        page = self.open()
        page.js("window.tree = (...more) => ({...newConversation(), messages: [[1, 0], [2, 1], [3, 2], ...more].map(([id, parent]) => ({id, parent, changed: 1, role: 'user', text: `${id}`}))})")
        self.assertEqual(page.js("(() => { const c = tree(); dropMessage(c, c.messages[0]); mergeConversation(c, tree()); return c.messages.length; })()"), 0)
        self.assertEqual(page.js("(() => { const c = tree(); dropMessage(c, c.messages[1]); mergeConversation(c, tree([4, 3])); return shownPath(c).map((m) => m.id); })()"), [1, 2, 3, 4])

    def test_a_conversation_is_deleted_in_another_tab(self):
        tabs = self.two_tabs()
        for text in ("Kept", "Deleted"):
            self.press("New conversation")
            self.send(text, Script(words("One.")))
        tabs[1].until("conversations.length === 2 && (open(conversations[0]), true)")
        for tab in tabs:
            tab.js("window.confirm = () => true")
        tabs[0].js("remove(current)")
        tabs[1].until("titleOf(current) === 'Kept'")
        self.assertEqual(tabs[1].text("#notice"), '"Deleted" was deleted in another tab.')
        for tab in tabs:
            self.assertEqual(tab.js(self.TITLES), [["Kept"]] * 3)
        self.mock.scripts.append(Script(words("Two three four five six seven."), pause=0.1))
        tabs[1].js("prompt.value = 'More'; submit(); 0")  # while an answer is written here, a copy stays
        tabs[1].until("run?.tokens")
        tabs[0].js("remove(conversations[0])")
        tabs[1].until("!run")
        self.assertIn("keeps a copy", tabs[1].text("#notice"))
        self.both(tabs, "conversations.length === 1 && conversations[0].messages.length === 4 && conversations[0].messages[3].text.endsWith('seven.')")
        for tab in tabs:
            self.assertEqual(tab.js(self.TITLES), [["Kept"]] * 3)

    def test_a_full_store_gives_up_probabilities_first(self):
        page = self.open()
        page.js("window.most = 1000; window.put = Storage.prototype.setItem; Storage.prototype.setItem = function (k, v) { if (v.length > most) throw new Error('full'); put.call(this, k, v); }")
        self.send("Go", Script(words("Some words that are kept, with tokens that are too many for the store of this browser.")))
        self.assertEqual(page.js("stored(CONVERSATION + current.id).messages.map((m) => [m.text.slice(0, 4), !!m.tokens])"), [["Go", False], ["Some", False]])
        self.assertEqual(page.text("#notice"), "")
        page.js("most = 10")
        self.send("More", Script(words("Words.")))
        self.assertIn("no room left", page.text("#notice"))


class Refusals(Page):
    def setUp(self):
        super().setUp()
        self.refused = True

    def test_a_busy_server_and_others_are_said_in_plain_words(self):
        page = self.open()
        self.send("Go", Script(status=503, headers={"Retry-After": "3"}))
        self.assertIn("The server is busy. Try again in 3 seconds.", page.text(".error"))
        self.mock.scripts += [Script(status=400, message="The prompt has 5000 tokens, the context 4096."), Script(status=500, message="oh")]
        self.press("Try again")
        page.until("document.querySelector('.error')?.textContent.includes('5000 tokens')")
        self.press("Try again")
        page.until("document.querySelector('.error')?.textContent.includes('failed: oh')")
        self.mock.scripts.append(Script(words("Half an"), broken=True))
        self.press("Try again")
        page.until("document.querySelector('.error')?.textContent.includes('connection broke')")
        self.picture("refusal")
        self.mock.scripts.append(Script(words(" answer.")))
        self.press("Try again")
        page.until("!run && !document.querySelector('.error')")
        self.assertEqual(self.shown(), ["Go", "Half an answer."])

    def test_a_message_that_does_not_fit_goes_back(self):
        page = self.open()
        long = Script(status=400, message="the prompt is too long: 5000 tokens > 4096 maximum", code="context_length_exceeded")
        self.mock.scripts.append(long)
        self.send("Alone too long", wait=False)
        page.until("!run && prompt.value")
        self.assertEqual(page.js("[prompt.value, conversations.length, Object.keys(localStorage).filter((k) => k.startsWith(CONVERSATION)).length]"), ["Alone too long", 0, 0])
        page.js("prompt.value = ''")
        self.send("First", Script(words("One.")))
        for script in (long, Script(status=413)):
            self.mock.scripts.append(script)
            self.send("Second", wait=False)
            page.until("!run && prompt.value === 'Second'")
            self.assertEqual((self.shown(), page.count(".error")), (["First", "One."], 0))
            self.assertEqual(page.js("stored(CONVERSATION + current.id).messages.map((m) => m.text)"), ["First", "One."])
            if script is long:
                self.assertEqual(page.text("#notice"), "The conversation is longer than the model's context of 4096 tokens. "
                                 "Edit an earlier message to make it shorter, or begin a new conversation. New conversation")  # fmt: skip
            page.js("prompt.value = ''")
        self.picture("too-long")
        self.press("Edit", ".user")  # an edited one goes back to its place
        page.js("document.activeElement.value = 'Longer'")
        self.mock.scripts.append(long)
        page.key("Enter", browser.CONTROL)
        page.until("!run && document.activeElement.value === 'Longer'")
        page.key("Escape")
        self.assertEqual(self.shown(), ["First", "One."])
        self.mock.scripts.append(long)
        self.press("Regenerate")
        page.until("!run && !document.querySelector('#notice').hidden")
        self.assertEqual((self.shown(), page.text("#prompt")), (["First", "One."], ""))
        self.press("New conversation", "#notice")
        self.assertEqual((self.shown(), page.js("document.querySelector('#notice').hidden")), ([], True))

    def test_a_server_that_is_gone(self):
        page = self.open()
        self.mock.gone = True
        self.send("Go")
        self.assertIn("does not answer", page.text(".error"))
        self.mock.gone, self.mock.props["model_alias"] = False, "another"  # started again
        self.mock.scripts.append(Script(words("Here.")))
        self.press("Try again")
        page.until("!run && server.model_alias === 'another'")
        self.assertEqual(self.shown(), ["Go", "Here."])

    def test_the_key_is_asked_for(self):
        self.mock.key = "secret"
        page = self.browser
        page.open(self.url, left=False)
        page.until("settings.open")
        self.assertEqual(page.js("document.activeElement.name"), "key")
        page.type("secret")
        page.key("Escape")
        page.until("server.model_alias")
        self.send("Go", Script(words("In.")))
        self.assertEqual(self.shown(), ["Go", "In."])
        self.assertNotIn("secret", page.js("JSON.stringify({...localStorage})"))
        self.mock.key = "other"
        self.send("Again")
        self.assertIn("asks for a key", page.text(".error"))
        page.until("settings.open")


class Strangers(Page):
    def test_hostile_text_is_only_text(self):
        page = self.open()
        self.send("Go", Script(words(HOSTILE), words(HOSTILE)))
        names = page.js("[...new Set([...document.querySelectorAll('.message .body *')].map((e) => e.localName))]")
        self.assertLessEqual(set(names), set("details summary div p span em strong code a ul li blockquote table thead tbody tr th td pre button hr".split()))
        self.assertEqual(page.js("[...document.querySelectorAll('.message a')].map((a) => [a.protocol, a.rel])"), [["https:", "noopener noreferrer"]] * 4)
        self.assertFalse(page.js("[...document.querySelectorAll('.message .body *')].some((e) => [...e.attributes].some((a) => a.name.startsWith('on') || a.name === 'style' || a.name === 'src'))"))
        self.assertEqual(self.browser.faults(), [])
        for code in ("document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 9'}))",
                     "document.body.innerHTML = '<b>'"):  # fmt: skip
            self.assertEqual(page.js(f"(() => {{ try {{ {code}; return 'done' }} catch (e) {{ return e.name }} }})()"), "TypeError")  # the policy is in force
        self.browser.events.clear()
        self.picture("hostile")

    def test_directions(self):
        page = self.open()
        self.send("שלום עולם", Script(words("مرحبا **بك** hello\n\nLeft to right.\n\n- عنصر")))
        self.assertEqual(page.js("[...document.querySelectorAll('.message :is(.plain, p, li)')].map((e) => getComputedStyle(e).direction)"), ["rtl", "rtl", "ltr", "rtl", "rtl"])
        self.picture("directions")

    def test_markdown(self):
        page = self.open()
        for source, made in MARKDOWN:
            for step in (len(source), 1):
                with self.subTest(source, step=step):
                    self.assertEqual(page.js(f"({GROWN})({json.dumps(source)}, {step})"), made)
        texts = [HOSTILE, *(source for source, _ in MARKDOWN), "\n".join(source for source, _ in MARKDOWN)]
        for text in texts:
            with self.subTest(text):
                self.assertEqual(*(page.js(f"({GROWN})({json.dumps(text)}, {step})") for step in (3, len(text))))

    def test_markdown_takes_time_in_proportion(self):
        page = self.open()
        for text in ("*a ", "**a", "[", "[a](", "`", "``a`", "_a_b", "| ", "> ", "- ", "a*b_", "http://", "\\", "![", "~~a", "*", "1. ", "|-"):
            for line in ("", "\n"):
                with self.subTest(text + line):
                    measure = f"(() => {{ const t = performance.now(); ({GROWN})({json.dumps(text + line)}.repeat(4000), 1e9); return performance.now() - t; }})()"
                    tries = iter(lambda: page.js(measure), None)  # a machine that is busy has some more
                    self.assertTrue(any(took < 350 for took in itertools.islice(tries, 5)))


class Looks(Page):
    def test_no_sideways_scrolling_and_contrast(self):
        tokens = [*words(MARKDOWN[8][0] + "\n\n" + "wide" * 60 + "\n\n```\n" + "x = 1; " * 40 + "\n```\n\n[link](https://example.org)"), *(token(f" s{i}", i, -i) for i in range(12))]
        page = self.open()
        self.send("A long " + "word" * 40, Script(tokens, words("Some thought.")))
        self.mock.scripts.append(Script(status=503))
        self.press("Regenerate")
        self.refused = True
        self.done()
        page.click("[aria-label='Previous branch']")
        page.js("toggleSurprise(); document.querySelector('.thought').open = true; keep(current)")
        for width in (320, 1200):
            for dark in (False, True):
                with self.subTest(width=width, dark=dark):
                    self.open(width=width, dark=dark)
                    page.js("document.querySelector('.thought').open = true")
                    self.assertEqual(page.js("isDark()"), dark)
                    self.assertLessEqual(page.js("Math.max(document.documentElement.scrollWidth, log.scrollWidth - log.clientWidth + innerWidth)"), width)
                    self.assertEqual(page.js(CONTRAST), [])
                    page.click(".assistant [data-s='9']")
                    self.assertEqual(page.js(CONTRAST), [])
                    self.picture(f"{width}-{'dark' if dark else 'light'}")
                    page.key("Escape")
                    page.js("openLook(current.messages[1], 3)")
                    page.until("weighed.childElementCount")
                    self.assertEqual(page.js(CONTRAST), [])
                    self.assertLessEqual(page.js("lookDialog.scrollWidth - lookDialog.clientWidth"), 0)
                    self.picture(f"{width}-attention-{'dark' if dark else 'light'}")
                    page.key("Escape")
                    if width < 500:
                        page.click("#menu")
                        self.assertEqual(page.js(CONTRAST), [])
                        self.picture(f"{width}-list-{'dark' if dark else 'light'}")
                        page.key("Escape")
                    page.click("#open-settings")
                    self.assertEqual(page.js(CONTRAST), [])
                    self.assertLessEqual(page.js("settings.scrollWidth - settings.clientWidth"), 0)

    def test_the_theme_is_kept(self):
        page = self.open()
        back = "getComputedStyle(document.body).backgroundColor"
        light = page.js(back)
        page.click("#theme")
        self.assertNotEqual(page.js(back), light)
        self.open()
        self.assertTrue(page.js("isDark()"))

    def test_everything_is_reached_by_keyboard(self):
        page = self.open()
        self.send("Go", Script(words("Some `code` and\n\n```\nx\n```\n"), words("Hm.")))
        page.js("document.body.focus(); document.activeElement.blur(); getSelection().collapse(document.body, 0)")
        reached = set()
        for _ in range(40):
            page.key("Tab")
            name, outline = page.js("(() => { const e = document.activeElement; return [e.id || e.ariaLabel || e.textContent || e.localName, e === document.body ? 'body' : getComputedStyle(e).outlineStyle]; })()")
            self.assertNotEqual(outline, "none", name)
            reached.add(name)
        missing = page.js("[...document.querySelectorAll('button, textarea, summary, a, input, select')].filter((e) => e.getClientRects().length && !e.disabled).map((e) => e.id || e.ariaLabel || e.textContent)")
        self.assertLessEqual(set(missing), reached)
        unnamed = "[...document.querySelectorAll('button, textarea, input, select')].filter((e) => !(e.textContent || e.ariaLabel || e.labels?.length || e.type === 'file')).length"
        self.assertEqual(page.js(unnamed), 0)

    def test_long_answers_do_not_block(self):
        page = self.open()
        paragraph = "Some *words* of a long answer, with `code` and numbers 1 2 3.\n\n- an item\n- another\n\n"
        tokens = [t for _ in range(330) for t in words(paragraph)]
        page.js("window.longest = []; new PerformanceObserver((list) => longest.push(...list.getEntries().map((e) => e.duration))).observe({type: 'longtask'})")
        self.send("Go", Script(tokens, each=20, pause=0.002))
        self.assertGreater(page.js("current.messages[1].tokens.length"), 5000)
        stalls = page.js("longest")
        print(f"{len(tokens)} tokens: {len(stalls)} stalls over 50 ms, the longest {max(stalls, default=0):.0f} ms")
        self.assertLess(max(stalls, default=0), 1000)


class Served(Page):
    """serve itself answers."""

    MOCKED = False

    def setUp(self):
        super().setUp()
        self.open()
        self.addCleanup(lambda: self.browser.js("localStorage.clear(); sessionStorage.clear()"))

    def settle(self, **values) -> None:
        for name, value in values.items():
            self.browser.js(f"form.elements[{json.dumps(name)}].value = {json.dumps(str(value))}")

    def asked(self, **more) -> dict:
        """What the server answers without a stream to what the page shows first."""
        body = {"messages": [{"role": "user", "content": "The cat"}], **more}
        status, _, answer = self.server.post("/v1/chat/completions", body)
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]["message"]["content"]

    def test_answers_are_those_of_the_server(self):
        page, options = self.browser, {"temperature": 0.9, "seed": 11, "max_tokens": 40}
        self.settle(**options)
        self.send("The cat")
        text = page.js("current.messages[1].text")
        self.assertEqual(text, self.asked(**options))
        self.assertEqual(page.js("current.messages[1].tokens.length"), 40)
        self.assertEqual(page.js("[...document.querySelectorAll('.assistant .t')].map((t) => t.textContent).join('')"), re.sub(r"\n\n+", "", text).strip("\n"))
        self.assertRegex(page.text(".assistant .stats"), r"^\d+ tokens in.*; 40 out; [\d.]+ tokens/s; first after [\d.]+ s; length limit reached; seed 11$")
        self.press("Regenerate")
        self.done()
        self.assertEqual(page.js("[current.messages.length, current.messages[2].text]"), [3, text])
        self.picture("served")

    def test_an_alternative_goes_on(self):
        page = self.browser
        self.settle(temperature=0, max_tokens=30)
        self.send("The cat")
        whole = page.js("current.messages[1].text")
        ids = page.js("current.messages[1].tokens.map((t) => t.id)")
        page.js("branchFrom(current.messages[1], 9, current.messages[1].tokens[9])")  # the same token: the same answer
        self.done()
        self.assertTrue(page.js("current.messages[2].text").startswith(whole))
        self.assertEqual(page.js("current.messages[2].tokens.map((t) => t.id)")[:30], ids)
        page.js("branchFrom(current.messages[1], 9, current.messages[1].tokens[9].top[1])")
        self.done()
        begun, other = page.js("[current.messages[3].tokens[9].id, current.messages[1].tokens[9].top[1].id]")
        self.assertEqual(begun, other)
        self.assertEqual(page.js("current.messages[3].tokens.length"), 10 + 30)
        tail = self.asked(temperature=0, max_tokens=30, answer_tokens=[*ids[:9], other])
        self.assertTrue(page.js("current.messages[3].text").endswith(tail))

    def test_attention_is_of_what_was_answered(self):
        page = self.browser
        self.settle(temperature=0, max_tokens=30)
        self.send("The cat")
        page.js("window.answers = []; const asks = answerTo; answerTo = async (...all) => { answers.push(await asks(...all)); return answers.at(-1); }")
        page.js("openLook(current.messages[1], 20)")
        page.until("weighed.childElementCount")
        prompt, n, cached = page.js("[answers[0].tokens.length, answers[1].n_tokens, answers[1].n_cached]")
        self.assertEqual((n, cached), (prompt + 21, n - 1))  # the prompt is the answer's own, and found
        self.assertEqual(page.js(f"[...weighed.children].slice({prompt}).map((t) => t.textContent).join('')"), page.js("current.messages[1].tokens.map((t) => t.bytes).join('')").replace("\n", "⏎\n"))
        self.assertAlmostEqual(page.js("look.weights.reduce((a, b) => a + b, 0)"), 1, places=4)
        self.picture("served-attention")

    def test_an_edited_answer_goes_on(self):
        self.settle(temperature=0, max_tokens=10)
        self.send("The cat")
        self.browser.js("replaceAnswer(current.messages[1], 'Once upon a')")
        self.press("Go on")
        self.done()
        self.assertRegex(self.browser.js("current.messages[2].text"), r"^Once upon a time")
        self.assertEqual(self.browser.js("current.messages.length"), 3)
        self.open()
        self.settle(temperature=0, max_tokens=10)
        self.press("Go on")  # what people wrote is still before it
        self.done()
        said = self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "The cat"}, {"role": "assistant", "content": "Once upon a"}],
                                                         "temperature": 0, "max_tokens": 20})[2]["choices"][0]["message"]["content"]  # fmt: skip
        self.assertEqual(self.browser.js("current.messages[2].text"), "Once upon a" + said)
        self.assertEqual(self.browser.js("[...document.querySelectorAll('.assistant .t')].map((t) => t.textContent).join('')"), said)

    def test_an_answer_that_fills_the_context(self):
        page = self.browser
        self.settle(temperature=0)  # whose last token is text: an end token has nothing to point at
        page.js("window.given = parameters; parameters = () => ({...given(), ignore_eos: true})")
        self.send("The cat")
        self.assertTrue(page.text(".full").startswith("The conversation has filled the model's context of 512 tokens: the answer ends here."))
        self.assertIn("; context full; ", page.text(".assistant .stats"))
        self.assertEqual(page.js("current.messages[1].total"), 513)
        self.assertNotIn("Go on", page.text(".assistant footer"))
        looks = "[...document.querySelectorAll('#card button')].filter((b) => b.disabled).length"
        page.js("showCard([...document.querySelectorAll('.assistant .t')].at(-1), true)")  # no place is left for this token
        self.assertIn("The context of 512 tokens was full when this token was chosen.", page.text("#card"))
        self.assertEqual(page.js(looks), page.count("#card button"))
        page.js("showCard([...document.querySelectorAll('.assistant .t')].at(-2), true)")  # the last that has one
        self.assertEqual(page.js(looks), 0)
        self.press("Attention", "#card")
        page.until("weighed.childElementCount === 513 && look.at === 511")
        page.js("weighed.lastChild.focus()")
        page.key("Enter")
        page.until("document.querySelector('#weight .error')?.textContent.startsWith('The context of 512 tokens was full')")
        page.key("Escape")
        page.until("!lookDialog.open")
        self.refused = True
        self.send("More", wait=False)
        page.until("!run && prompt.value === 'More'")
        self.assertEqual(len(self.shown()), 2)
        self.open()
        page.until("document.querySelector('.full')")
        self.picture("full")
        self.press("New conversation", ".full")
        self.assertEqual(self.shown(), [])

    def test_stop_reaches_the_server(self):
        page = self.browser
        page.js("window.taken = take; take = (...all) => { taken(...all); if (run.tokens > 5) stop(); }; const given = parameters; parameters = () => ({...given(), ignore_eos: true})")
        self.send("The cat")
        self.assertIn("stopped by you", page.text(".assistant .stats"))
        self.assertLess(page.js("current.messages[1].tokens.length"), 100)
        serve_case.until(lambda: not any(slot["is_processing"] for slot in self.server.get("/slots")[2]), what="the end of the job")

    def test_a_schema_holds(self):
        schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}
        self.settle(schema=json.dumps(schema), temperature=0)
        self.send("The cat")
        self.assertEqual(list(json.loads(self.browser.js("current.messages[1].text"))), ["ok"])

    def test_each_answer_has_a_policy_of_its_own(self):
        policies = {self.server.get("/")[1]["content-security-policy"] for _ in range(3)}
        self.assertEqual(len(policies), 3)
        self.assertTrue(all(p.startswith("default-src 'none'; script-src 'nonce-") and "unsafe" not in p for p in policies))
        self.assertLess(len(self.server.get("/")[2].encode()), 72 << 10)

    def test_the_key_of_a_server(self):
        self.refused = True
        server = serve_case.Server("--chat-template", "chatml", "--api-key", "s3cret")
        self.addCleanup(server.stop)
        page = self.browser
        page.open(server.url + "/", left=False)
        page.until("settings.open")
        page.type("s3cret")
        self.press("Done", "#settings")
        page.until("server.model_alias")
        self.settle(max_tokens=5)
        self.send("The cat")
        self.assertEqual(page.count(".error"), 0)


if __name__ == "__main__":
    unittest.main()
