"""echo with logprobs in /v1/completions of `serve`: the log probabilities of a prompt are those of the library, bit for bit."""

import json
import math
import os
import sys
import tempfile
import unittest
from pathlib import Path

from serve_case import MODEL, ServeCase, together

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
os.environ["TERN_LIBRARY"] = str(ROOT / os.environ.get("BUILD", "build") / "libtern.so")

import tern  # noqa: E402

STORY = "Once upon a time there was a little girl named Lily. She loved to play outside in the sun with a cat. " * 3
OTHER = "Tom had a big red ball. He gave it to Lily."


class Echo(ServeCase):
    ARGUMENTS = ["--parallel", "4", "-c", "512", "--max-logprobs", "1200"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = tern.Model(MODEL)
        cls.addClassCleanup(cls.model.close)

    def ask(self, prompt, **more):
        body = {"prompt": prompt, "echo": True, "logprobs": 1, "max_tokens": 0, "seed": 7, **more}
        status, headers, answer = self.post("/v1/completions", body)
        self.assertEqual(status, 200, answer)
        self.assertNotIn("x-tern-ignored", headers)
        return answer

    def ids(self, text):
        return self.post("/tokenize", {"content": text, "add_special": True})[2]["tokens"]

    def holds(self, choice, ids, n_top=1, n_new=0):
        """The logprobs of a choice are the library's, for a prompt of these ids."""
        p, n = choice["logprobs"], len(ids) + n_new
        self.assertEqual([len(p[k]) for k in ("tokens", "token_logprobs", "top_logprobs", "text_offset")], [n] * 4)
        self.assertEqual((p["token_logprobs"][0], p["top_logprobs"][0], p["text_offset"][0]), (None, None, 0))
        self.assertEqual(p["token_logprobs"][1 : len(ids)], list(self.model.logprobs(ids)) if len(ids) > 1 else [])
        for logits, token, logprob, top in zip(self.model.logits(ids)[:-1], ids[1:], p["token_logprobs"][1:], p["top_logprobs"][1:], strict=False):
            is_greedy = int(logits.argmax()) == token  # as lm-evaluation-harness finds it
            self.assertEqual(logprob == max(top.values()), is_greedy)
            self.assertIn(len(top), (n_top, n_top + 1))
            self.assertIn(logprob, top.values())
        return p

    def test_a_prompt_alone(self):
        answer = self.ask(STORY)
        choice, ids = answer["choices"][0], self.ids(STORY)
        self.assertEqual((choice["text"], choice["finish_reason"]), (STORY, "length"))
        self.assertEqual((answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]), (len(ids), 0))
        p = self.holds(choice, ids)
        for i, (token, offset) in enumerate(zip(p["tokens"], p["text_offset"], strict=True)):
            if i > 1:  # BOS has no text, and the first piece begins with a blank that the text lacks
                self.assertEqual(STORY[offset : offset + len(token)], token)

    def test_whatever_was_found(self):
        """A prompt that is kept is evaluated all the same, and its bits are the same."""
        first = self.ask(STORY)["choices"]
        self.post("/v1/completions", {"prompt": STORY, "max_tokens": 4})
        again = self.ask(STORY)
        self.assertEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertEqual(again["choices"], first)
        found = self.post("/v1/completions", {"prompt": STORY, "max_tokens": 4})[2]["usage"]
        self.assertGreater(found["prompt_tokens_details"]["cached_tokens"], 0)

    def test_ids_and_several_prompts(self):
        lists = [self.ids(STORY), self.ids(OTHER), self.ids(OTHER)[:1]]
        answer = self.ask(lists, max_tokens=1, logprobs=4, temperature=0)
        for choice, ids in zip(answer["choices"], lists, strict=True):
            self.holds(choice, ids, 4, 1)
            plain = self.post("/v1/completions", {"prompt": ids, "max_tokens": 1, "logprobs": 4, "temperature": 0})[2]["choices"][0]
            for key in ("tokens", "token_logprobs", "top_logprobs"):
                self.assertEqual(choice["logprobs"][key][-1:], plain["logprobs"][key])
            self.assertTrue(choice["text"].endswith(plain["text"]))
        texts = self.ask([STORY, OTHER])["choices"]
        self.assertEqual([c["text"] for c in texts], [STORY, OTHER])
        self.holds(texts[1], lists[1])

    def test_several_answers(self):
        choices = self.ask(OTHER, n=3, max_tokens=5, temperature=1.2)["choices"]
        for i, choice in enumerate(choices):
            self.holds(choice, self.ids(OTHER), n_new=len(choice["logprobs"]["tokens"]) - len(self.ids(OTHER)))
            plain = {"prompt": OTHER, "max_tokens": 5, "temperature": 1.2, "seed": 7 + i}
            self.assertEqual(choice["text"], OTHER + self.post("/v1/completions", plain)[2]["choices"][0]["text"])

    def test_a_stream(self):
        for n_new in (0, 6):
            whole = self.ask(STORY, max_tokens=n_new)["choices"][0]
            chunks = [json.loads(t)["choices"][0] for _, t in self.events("/v1/completions", {
                "prompt": STORY, "echo": True, "logprobs": 1, "max_tokens": n_new, "seed": 7, "stream": True}) if t != "[DONE]"]  # fmt: skip
            self.assertEqual("".join(c["text"] for c in chunks), whole["text"])
            for key in whole["logprobs"]:
                self.assertEqual(sum((c["logprobs"][key] for c in chunks), []), whole["logprobs"][key])

    def test_beside_others(self):
        """Among streams, a prompt gets what rows they leave; the bits stay."""
        expected = [self.ask(t)["choices"][0]["logprobs"] for t in (STORY, OTHER)]

        def one(i):
            if i < 2:
                return self.ask((STORY, OTHER)[i])["choices"][0]["logprobs"]
            return self.post("/v1/completions", {"prompt": "A", "max_tokens": 200, "ignore_eos": True})[0]

        self.assertEqual(together(6, one), [*expected, 200, 200, 200, 200])

    def test_the_end_has_an_entry(self):
        """lm-evaluation-harness cuts off the last entry, which must be that of the token it asked for."""
        for text in ("The end.", "A", OTHER):
            ids = self.ids(text)
            end = next(i for i in range(self.model.vocab) if self.model._engine.is_end(i))
            p = self.ask(ids, max_tokens=1, logit_bias={str(end): 1000})["choices"][0]
            self.assertEqual((p["finish_reason"], len(p["logprobs"]["tokens"])), ("stop", len(ids) + 1))
            self.assertEqual(p["logprobs"]["text_offset"][-1], len(p["text"]))

    def test_no_logprobs_of_a_prompt(self):
        self.assertIsNone(self.ask(OTHER, logprobs=None)["choices"][0]["logprobs"])
        plain = self.ask(OTHER, echo=False, max_tokens=3)["choices"][0]["logprobs"]
        self.assertEqual(len(plain["tokens"]), 3)

    def test_bounds(self):
        ids = self.ids(OTHER)
        n = 1200 // len(ids) // 2
        self.ask([ids] * min(n, 60), logprobs=1)
        for body in ({"prompt": [STORY] * 10}, {"prompt": [ids] * 60, "logprobs": 20}, {"prompt": [ids] * 20, "n": 2, "logprobs": 3}):
            status, _, answer = self.post("/v1/completions", {"echo": True, "logprobs": 1, "max_tokens": 0, **body})
            self.assertEqual((status, answer["error"]["param"], answer["error"]["code"]), (400, "logprobs", "limit_exceeded"), answer)
            self.assertIn("1200", answer["error"]["message"])

    def test_a_client_that_leaves(self):
        with self.server.connect() as s:
            body = b'{"prompt": "%s", "echo": true, "logprobs": 1, "max_tokens": 400}' % STORY.encode()
            s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.assertEqual(self.ask(OTHER)["choices"][0]["text"], OTHER)


class Characters(ServeCase):
    """A tokenizer of bytes: tokens that are parts of a character"""

    @classmethod
    def setUpClass(cls):
        from cli_case import write_model

        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.MODEL = str(Path(folder.name) / "bytes.bin")
        write_model(Path(cls.MODEL), 256)
        super().setUpClass()

    def test_offsets_are_of_characters(self):
        text = "aä€😀b"
        body = {"prompt": text, "echo": True, "logprobs": 0, "max_tokens": 0}
        choice = self.post("/v1/completions", body)[2]["choices"][0]
        self.assertEqual(choice["text"], text)
        self.assertEqual(choice["logprobs"]["text_offset"], [0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4])
        self.assertTrue(all(math.isfinite(v) for v in choice["logprobs"]["token_logprobs"][1:]))

    def test_offsets_of_an_answer_count_its_text(self):
        """Bytes that are no UTF-8 become U+FFFD in the text, and offsets count those."""
        broken = 0
        for seed in range(8):
            for echo, prompt in ((False, "a"), (True, "aä"), (True, "x\u20ac")):
                body = {"prompt": prompt, "echo": echo, "logprobs": 0, "max_tokens": 40, "temperature": 2, "seed": seed}
                choice = self.post("/v1/completions", body)[2]["choices"][0]
                text, p = choice["text"], choice["logprobs"]
                broken += text.count("\ufffd")
                for token, offset in zip(p["tokens"], p["text_offset"], strict=True):
                    self.assertLessEqual(offset, len(text))
                    if token.isascii() and token.isprintable() and len(token) == 1:
                        at = text[offset:].lstrip("\ufffd")  # a token before it may have been half a character
                        self.assertEqual(at[:1], token, (seed, text))
        self.assertGreater(broken, 9)


if __name__ == "__main__":
    unittest.main()
