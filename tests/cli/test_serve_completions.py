"""serve through OpenAI's own client: completions and embeddings."""

import base64
import math
import struct
import unittest

from openai_case import Client, openai
from serve_case import ServeCase


class Completions(Client):
    def complete(self, prompt="The cat sat", **more):
        more.setdefault("seed", 7)
        return self.client.completions.create(model="any", prompt=prompt, **more)

    def test_completion(self):
        r = self.complete()
        self.assertEqual((r.object, r.choices[0].finish_reason, r.usage.completion_tokens), ("text_completion", "length", 16))
        self.assertTrue(r.id.startswith("cmpl-"))

    def test_completion_of_ids(self):
        status, _, body = self.post("/tokenize", {"content": "The cat sat", "add_special": True})
        self.assertEqual(status, 200)
        self.assertEqual(self.complete(body["tokens"]).choices[0].text, self.complete().choices[0].text)

    def test_completions_of_several(self):
        r = self.complete(["The cat sat", "A dog ran"], n=2, seed=5, temperature=1.2)
        self.assertEqual([c.index for c in r.choices], [0, 1, 2, 3])
        for i, (prompt, seed) in enumerate((p, s) for p in ("The cat sat", "A dog ran") for s in (5, 6)):
            self.assertEqual(r.choices[i].text, self.complete(prompt, seed=seed, temperature=1.2).choices[0].text)

    def test_completions_of_lists_of_ids(self):
        lists = [self.post("/tokenize", {"content": t, "add_special": True})[2]["tokens"] for t in ("The cat sat", "A dog ran")]
        got = [c.text for c in self.complete(lists).choices]
        self.assertEqual(got, [self.complete(t).choices[0].text for t in ("The cat sat", "A dog ran")])

    def test_echo(self):
        self.assertEqual(self.complete(echo=True).choices[0].text, "The cat sat" + self.complete().choices[0].text)
        self.assertEqual(self.complete(echo=True, max_tokens=0).choices[0].text, "The cat sat")
        stream = "".join(c.choices[0].text for c in self.complete(echo=True, stream=True))
        self.assertEqual(stream, self.complete(echo=True).choices[0].text)

    def test_old_logprobs(self):
        c = self.complete(logprobs=2, temperature=0, extra_body={"repeat_penalty": 1}).choices[0]
        p = c.logprobs
        self.assertEqual("".join(p.tokens), c.text)
        self.assertEqual([len(x) for x in (p.tokens, p.token_logprobs, p.top_logprobs, p.text_offset)], [16] * 4)
        for token, logprob, top, offset in zip(p.tokens, p.token_logprobs, p.top_logprobs, p.text_offset, strict=True):
            self.assertEqual((len(top), top[token]), (2, logprob))
            self.assertEqual(c.text[offset : offset + len(token)], token)

    def test_best_of(self):
        def mean(r):
            values = r.choices[0].logprobs.token_logprobs
            return sum(values) / len(values)

        best = self.complete(best_of=4, logprobs=0, temperature=1.5, seed=40)
        all_of_them = [self.complete(logprobs=0, temperature=1.5, seed=40 + i) for i in range(4)]
        self.assertEqual(best.choices[0].text, max(all_of_them, key=mean).choices[0].text)

    def test_completion_stream(self):
        chunks = list(self.complete(stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(c.choices[0].text for c in chunks[:-1]), self.complete().choices[0].text)
        self.assertEqual(chunks[-1].usage.completion_tokens, 16)

    def test_completion_stop(self):
        text = self.complete(max_tokens=30, temperature=0).choices[0].text
        got = self.complete(max_tokens=30, temperature=0, stop=text[12:16]).choices[0]
        self.assertEqual((got.text, got.finish_reason), (text[: text.index(text[12:16])], "stop"))

    def test_completion_format(self):
        text = self.complete(max_tokens=30, extra_body={"grammar": 'root ::= "red" | "blue"'}).choices[0].text
        self.assertIn(text, ("red", "blue"))

    def test_many_texts(self):
        """One limit holds for all answers of a request (--max-choices, 64)."""
        self.assertEqual(len(self.complete(["a"] * 64, max_tokens=1).choices), 64)
        self.assertEqual(len(self.complete(["a"] * 6, n=10, max_tokens=1).choices), 60)
        for more, words in (({"prompt": ["a"] * 65}, "65 texts; at most 64"), ({"prompt": ["a"] * 13, "n": 5}, "65 answers, 5 to each of 13 texts; at most 64"),
                            ({"prompt": ["a"] * 13, "best_of": 5}, "65 answers")):  # fmt: skip
            with self.subTest(words):
                status, _, body = self.post("/v1/completions", more)
                self.assertEqual((status, body["error"]["param"], body["error"]["code"]), (400, "prompt", "limit_exceeded"))
                self.assertIn(words, body["error"]["message"])

    def test_completion_refusals(self):
        for param, more in (
            ("prompt", {"prompt": 5}), ("prompt", {"prompt": []}), ("prompt", {"prompt": [99999]}), ("prompt", {"prompt": ["a", 5]}),
            ("suffix", {"suffix": "end"}), ("best_of", {"best_of": 1, "n": 2}), ("best_of", {"best_of": 2, "stream": True}),
            ("logprobs", {"logprobs": 21}), ("prompt", {"prompt": ["a"] * 65}),
        ):  # fmt: skip
            with self.subTest(more=str(more)[:40]), self.assertRaises(openai.BadRequestError) as caught:
                self.complete(**more)
            self.assertEqual(caught.exception.param, param)


class Embeddings(Client):
    def test_embedding(self):
        r = self.client.embeddings.create(model="any", input="The cat sat")
        v = r.data[0].embedding
        self.assertEqual((len(r.data), r.data[0].index, r.object), (1, 0, "list"))
        self.assertAlmostEqual(math.fsum(x * x for x in v), 1, places=5)
        self.assertGreater(r.usage.prompt_tokens, 0)

    def test_encodings_agree(self):
        """The client asks for base64 unless told otherwise; it decodes f32, little-endian."""
        a = self.client.embeddings.create(model="x", input="a cat").data[0].embedding
        b = self.client.embeddings.create(model="x", input="a cat", encoding_format="float").data[0].embedding
        raw = self.post("/v1/embeddings", {"input": "a cat", "encoding_format": "base64"})[2]["data"][0]["embedding"]
        c = struct.unpack(f"<{len(a)}f", base64.b64decode(raw))
        self.assertEqual(list(a), list(c))
        self.assertEqual([struct.pack("<f", x) for x in a], [struct.pack("<f", x) for x in b])

    def test_embeddings_of_many(self):
        texts = [f"text number {i}" for i in range(40)]
        r = self.client.embeddings.create(model="x", input=texts)
        self.assertEqual([d.index for d in r.data], list(range(40)))
        for i in (0, 17, 39):
            self.assertEqual(r.data[i].embedding, self.client.embeddings.create(model="x", input=texts[i]).data[0].embedding)

    def test_embeddings_of_ids(self):
        ids = self.post("/tokenize", {"content": "a cat", "add_special": True})[2]["tokens"]
        a = self.client.embeddings.create(model="x", input="a cat").data[0].embedding
        for given in (ids, [ids]):
            self.assertEqual(self.client.embeddings.create(model="x", input=given).data[0].embedding, a)

    def test_dimensions(self):
        whole = self.client.embeddings.create(model="x", input="a cat").data[0].embedding
        cut = self.client.embeddings.create(model="x", input="a cat", dimensions=8).data[0].embedding
        scale = math.sqrt(math.fsum(x * x for x in whole[:8]))
        for a, b in zip(cut, whole, strict=False):
            self.assertAlmostEqual(a, b / scale, places=6)
        self.assertEqual(len(cut), 8)

    def test_pooling(self):
        a, b = (self.client.embeddings.create(model="x", input="a cat", extra_body={"pooling": p}).data[0].embedding for p in ("mean", "last"))
        self.assertNotEqual(a, b)

    def test_embedding_refusals(self):
        for param, more in (("input", {"input": []}), ("input", {"input": 5}), ("input", {"input": ["a"] * 2049}), ("dimensions", {"dimensions": 257}),
                            ("encoding_format", {"encoding_format": "hex"}), ("pooling", {"extra_body": {"pooling": "max"}})):  # fmt: skip
            with self.subTest(more=str(more)[:40]), self.assertRaises(openai.BadRequestError) as caught:
                self.client.embeddings.create(**({"model": "x", "input": "a"} | more))
            self.assertEqual(caught.exception.param, param)


class Room(ServeCase):
    """A server that keeps nobody waiting, and its own length of answers"""

    ARGUMENTS = ["--chat-template", "chatml", "--parallel", "2", "--queue", "0", "-n", "5", "--max-choices", "3"]

    def test_a_text_needs_no_queue(self):
        self.assertEqual(self.post("/v1/completions", {"prompt": "a"})[0], 200)
        self.assertEqual(self.post("/v1/completions", {"prompt": ["a", "b"]})[0], 200)

    def test_what_never_has_room(self):
        """400 with both numbers: a client that tried again would do so for ever."""
        chat = {"messages": [{"role": "user", "content": "Hi"}]}
        for path, body, param in (("/v1/completions", {"prompt": ["a"] * 3}, "prompt"), ("/v1/completions", {"prompt": "a", "n": 3}, "n"),
                                  ("/v1/completions", {"prompt": "a", "best_of": 3}, "best_of"),
                                  ("/v1/chat/completions", chat | {"n": 3}, "n")):  # fmt: skip
            with self.subTest(path, body=body):
                status, headers, answer = self.post(path, body)
                self.assertEqual((status, answer["error"]["param"]), (400, param), answer)
                self.assertIn("3 answers; this server has room for 2", answer["error"]["message"])
                self.assertNotIn("retry-after", headers)
        status, _, answer = self.post("/v1/chat/completions", chat | {"n": 4})
        self.assertEqual((status, answer["error"]["param"]), (400, "n"))

    def test_the_length_of_an_answer(self):
        for more, n in (({}, 5), ({"max_tokens": 3}, 3), ({"max_tokens": None}, 5)):
            self.assertEqual(self.post("/v1/completions", {"prompt": "a", "ignore_eos": True, **more})[2]["usage"]["completion_tokens"], n)


class RoomOfMany(ServeCase):
    """Where clients can be told apart, a sequence and a quarter of the queue are for others."""

    ARGUMENTS = ["--parallel", "2", "--queue", "8", "--api-key", "a", "--api-key", "b"]

    def test_room(self):
        for n, want in ((7, 200), (8, 400)):
            status, _, answer = self.post("/v1/completions", {"prompt": ["a"] * n, "max_tokens": 1}, headers={"Authorization": "Bearer a"})
            self.assertEqual(status, want, answer)
        self.assertIn("8 answers; this server has room for 7", answer["error"]["message"])


if __name__ == "__main__":
    unittest.main()
