"""serve through OpenAI's own client: chats, whole and streamed; how they are sampled and where they end."""

import asyncio
import unittest

from openai_case import HI, Client, deltas, openai
from serve_case import together


class Chat(Client):
    # ---- whole answers

    def test_shape(self):
        r = self.chat()
        self.assertTrue(r.id.startswith("chatcmpl-"))
        self.assertEqual((r.object, r.model, len(r.choices)), ("chat.completion", "any", 1))
        self.assertEqual((r.choices[0].message.role, r.choices[0].finish_reason, r.choices[0].index), ("assistant", "length", 0))
        self.assertTrue(r.choices[0].message.content)
        self.assertIsNone(r.choices[0].message.tool_calls)
        self.assertTrue(r.system_fingerprint.startswith("tern-"))

    def test_usage(self):
        u = self.chat(max_tokens=9).usage
        self.assertEqual((u.completion_tokens, u.total_tokens), (9, u.prompt_tokens + 9))

    def test_the_prompt_is_found_again(self):
        text = [{"role": "user", "content": "a rather long beginning, said twice " * 4}]
        self.chat(text)
        u = self.chat(text).usage
        self.assertGreater(u.prompt_tokens_details.cached_tokens, 0)
        u = self.chat(text, extra_body={"cache_prompt": False}).usage
        self.assertEqual(u.prompt_tokens_details.cached_tokens, 0)

    def test_timings(self):
        t = self.chat(max_tokens=5).timings
        self.assertEqual(t["predicted_n"], 5)
        self.assertGreaterEqual(t["predicted_ms"], 0)

    def test_seeds_repeat(self):
        self.assertEqual(self.say(seed=3), self.say(seed=3))
        self.assertGreater(len({self.say(seed=s, temperature=1.5) for s in range(6)}), 1)

    def test_the_seed_is_reported(self):
        r = self.client.chat.completions.create(model="x", messages=HI, max_tokens=12)
        self.assertEqual(r.choices[0].message.content, self.say(seed=r.seed))

    def test_temperature_zero(self):
        self.assertEqual(self.say(temperature=0, seed=1), self.say(temperature=0, seed=2))

    def test_top_k_one_is_greedy(self):
        self.assertEqual(self.say(temperature=0), self.say(temperature=1, extra_body={"top_k": 1}))

    def test_top_p_zero_is_greedy(self):
        self.assertEqual(self.say(temperature=0), self.say(temperature=1, top_p=0))

    def test_samplers(self):
        for body in (
            {"min_p": 0.2}, {"typical_p": 0.5}, {"repeat_penalty": 1.3, "repeat_last_n": -1}, {"mirostat": 2}, {"top_n_sigma": 1},
            {"dry_multiplier": 1, "dry_sequence_breakers": ["\n", "x"]}, {"xtc_probability": 0.5, "xtc_threshold": 0.1},
            {"samplers": ["top_k", "temperature"]}, {"samplers": "min_p;temperature"},
        ):  # fmt: skip
            with self.subTest(body):
                self.assertEqual(self.say(extra_body=body), self.say(extra_body=body))

    def test_penalties(self):
        text = self.say(max_tokens=60, temperature=0, frequency_penalty=2, presence_penalty=2)
        self.assertNotEqual(text, self.say(max_tokens=60, temperature=0))

    def test_bias_bans(self):
        first = self.chat(temperature=0, extra_body={"return_tokens": True}).choices[0].tokens[0]
        for bias in ({str(first): -100}, [[first, False]], [[first, -100.0]]):
            with self.subTest(bias):
                got = self.chat(temperature=0, extra_body={"return_tokens": True, "logit_bias": bias})
                self.assertNotEqual(got.choices[0].tokens[0], first)

    def test_bias_forces(self):
        got = self.chat(temperature=0, max_tokens=3, logit_bias={"300": 100}, logprobs=True)
        self.assertEqual([t.id for t in got.choices[0].logprobs.content], [300] * 3)

    def test_several_choices(self):
        r = self.chat(n=3, temperature=1.5, seed=11)
        self.assertEqual([c.index for c in r.choices], [0, 1, 2])
        for i, c in enumerate(r.choices):
            self.assertEqual(c.message.content, self.say(temperature=1.5, seed=11 + i))
        self.assertEqual(r.usage.completion_tokens, 36)

    def test_max_completion_tokens(self):
        r = self.client.chat.completions.create(model="x", messages=HI, max_completion_tokens=4, seed=7)
        self.assertEqual(r.usage.completion_tokens, 4)

    def test_ignore_end(self):
        r = self.chat(max_tokens=90, temperature=1.5, extra_body={"ignore_eos": True})
        self.assertEqual(r.usage.completion_tokens, 90)

    def test_the_context_ends_an_answer(self):
        r = self.chat(max_tokens=100000, extra_body={"ignore_eos": True})
        self.assertEqual(r.choices[0].finish_reason, "length")
        self.assertLessEqual(r.usage.total_tokens, 513)

    def test_contents_in_parts(self):
        parts = [{"role": "user", "content": [{"type": "text", "text": "Tell me a story"}, {"type": "text", "text": " about a cat"}]}]
        self.assertEqual(self.say(parts), self.say())

    def test_developer_is_system(self):
        a, b = ([{"role": r, "content": "Be short"}, *HI] for r in ("developer", "system"))
        self.assertEqual(self.say(a), self.say(b))

    # ---- stop strings

    def test_stop(self):
        text = self.say(max_tokens=40, temperature=0)
        stop = text[20:23]
        r = self.chat(max_tokens=40, temperature=0, stop=stop)
        self.assertEqual(r.choices[0].message.content, text[: text.index(stop)])
        self.assertEqual(r.choices[0].finish_reason, "stop")

    def test_stop_over_borders_of_tokens(self):
        text = self.say(max_tokens=30, temperature=0)
        for i in range(1, 24, 3):
            stop = text[i : i + 7]
            with self.subTest(stop):
                want = text[: text.index(stop)]
                self.assertEqual(self.say(max_tokens=30, temperature=0, stop=[stop]), want)
                self.assertEqual(deltas(self.chat(max_tokens=30, temperature=0, stop=[stop], stream=True))[0], want)

    def test_a_stop_that_does_not_come(self):
        self.assertEqual(self.say(stop=["qqqq", "zzzz"]), self.say())

    def test_the_first_of_several_stops(self):
        text = self.say(max_tokens=30, temperature=0)
        self.assertEqual(self.say(max_tokens=30, temperature=0, stop=[text[15:19], text[9:12]]), text[: min(text.index(text[15:19]), text.index(text[9:12]))])

    # ---- log probabilities

    def test_logprobs(self):
        r = self.chat(logprobs=True, top_logprobs=3, temperature=0, extra_body={"repeat_penalty": 1})
        content = r.choices[0].logprobs.content
        self.assertEqual("".join(t.token for t in content), r.choices[0].message.content)
        for t in content:
            self.assertEqual(bytes(t.bytes).decode(), t.token)
            self.assertEqual((len(t.top_logprobs), t.top_logprobs[0].token), (3, t.token))
            self.assertEqual(t.top_logprobs[0].logprob, t.logprob)
            self.assertTrue(t.logprob <= 0 and t.top_logprobs[1].logprob <= t.logprob)

    def test_logprobs_do_not_change_the_answer(self):
        self.assertEqual(self.say(logprobs=True, top_logprobs=20), self.say())

    def test_logprobs_in_a_stream(self):
        whole = self.chat(logprobs=True, top_logprobs=2).choices[0].logprobs.content
        parts = [t for c in self.chat(logprobs=True, top_logprobs=2, stream=True) for t in c.choices[0].logprobs.content]
        self.assertEqual([(t.token, t.logprob) for t in parts], [(t.token, t.logprob) for t in whole])

    def test_no_logprobs(self):
        self.assertIsNone(self.chat().choices[0].logprobs)

    def test_ids_are_returned(self):
        r = self.chat(extra_body={"return_tokens": True})
        self.assertEqual(len(r.choices[0].tokens), 12)

    # ---- answers that have begun

    def test_prefill(self):
        text = self.say(max_tokens=20, temperature=0)
        begin = text[:9]
        rest = self.say([*HI, {"role": "assistant", "content": begin}], max_tokens=5, temperature=0)
        self.assertTrue(rest)
        self.assertFalse(rest.startswith(begin))

    def test_answer_tokens(self):
        r = self.chat(max_tokens=20, temperature=0, extra_body={"return_tokens": True})
        ids, text = r.choices[0].tokens, r.choices[0].message.content
        for n in (0, 1, 5, 11):
            rest = self.chat(max_tokens=20 - n, temperature=0, extra_body={"answer_tokens": ids[:n], "return_tokens": True})
            self.assertEqual(rest.choices[0].tokens, ids[n:])
            self.assertTrue(text.endswith(rest.choices[0].message.content))

    # ---- streams

    def test_stream(self):
        content, _, finish, chunks = deltas(self.chat(stream=True))
        self.assertEqual((content, finish), (self.say(), "length"))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual({c.object for c in chunks}, {"chat.completion.chunk"})
        self.assertEqual(len({c.id for c in chunks}), 1)
        self.assertIsNone(chunks[-1].usage)
        self.assertEqual([c.choices[0].finish_reason for c in chunks[:-1]], [None] * (len(chunks) - 1))

    def test_usage_of_a_stream(self):
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual((chunks[-1].choices, chunks[-1].usage.completion_tokens), ([], 12))
        self.assertTrue(all(c.usage is None for c in chunks[:-1]))

    def test_choices_of_a_stream(self):
        texts = {}
        for chunk in self.chat(stream=True, n=2, temperature=1.5, seed=21):
            for c in chunk.choices:
                texts[c.index] = texts.get(c.index, "") + (c.delta.content or "")
        self.assertEqual([texts[0], texts[1]], [self.say(temperature=1.5, seed=s) for s in (21, 22)])

    def test_a_stream_ends_with_done(self):
        events = list(self.events("/v1/chat/completions", {"messages": HI, "max_tokens": 2, "stream": True}))
        self.assertEqual(events[-1], (None, "[DONE]"))

    def test_characters_are_whole(self):
        """Random bytes make broken characters; what comes out is text in any case."""
        text = [{"role": "user", "content": "\u00e4\U0001f600"}]
        body = {"top_k": 0}
        whole = self.say(text, max_tokens=60, temperature=3, extra_body=body)
        self.assertEqual(deltas(self.chat(text, max_tokens=60, temperature=3, stream=True, extra_body=body))[0], whole)

    def test_an_abort_leaves_nothing(self):
        stream = self.chat(stream=True, max_tokens=400, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        self.assertEqual(self.say(), self.say())

    def test_the_helper_of_streams(self):
        with self.client.chat.completions.stream(model="x", messages=HI, max_tokens=12, seed=7) as stream:
            text = "".join(event.delta for event in stream if event.type == "content.delta")
        self.assertEqual(text, self.say())

    # ---- several at once

    def test_parallel_requests_are_alone(self):
        alone = [self.say(seed=s, temperature=1) for s in range(8)]
        self.assertEqual(together(8, lambda s: self.say(seed=s, temperature=1)), alone)

    def test_async(self):
        async def all_of_them():
            async with openai.AsyncOpenAI(base_url=self.url + "/v1", api_key="none") as client:

                async def one(seed):
                    r = await client.chat.completions.create(model="x", messages=HI, max_tokens=12, seed=seed)
                    return r.choices[0].message.content

                async def streamed(seed):
                    text = ""
                    async for c in await client.chat.completions.create(model="x", messages=HI, max_tokens=12, seed=seed, stream=True):
                        text += c.choices[0].delta.content or ""
                    return text

                return await asyncio.gather(*(one(s) for s in range(4)), *(streamed(s) for s in range(4)))

        got = asyncio.run(all_of_them())
        self.assertEqual(got[:4], got[4:])
        self.assertEqual(got[:4], [self.say(seed=s) for s in range(4)])


if __name__ == "__main__":
    unittest.main()
