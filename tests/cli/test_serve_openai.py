"""serve through OpenAI's own client: chat, streams, tools, formats, completions, embeddings, and what each refusal looks like.

What a model of random weights says means nothing, so tests compare answers with one another: streamed and whole, alone and repeated.
Constraints make such a model call tools and write JSON."""

import asyncio
import base64
import json
import math
import re
import struct
import subprocess
import tempfile
import unittest

from cli_case import ROOT, RUN  # first: it makes the next ones importable

try:
    import openai
except ImportError:
    openai = None

from serve_case import ServeCase, together
from serve_models import thinker

ENDS, THOUGHT_END = (1, 4), 6  # ids in the vocabulary of serve_models

HI = [{"role": "user", "content": "Tell me a story about a cat"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Bonn", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
STOP = {"type": "function", "function": {"name": "stop", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["a", "b"]}, "age": {"type": "integer", "minimum": 1, "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def deltas(stream):
    """(joined content, joined thoughts, finish reason, chunks) of choice 0"""
    content, thought, finish, chunks = "", "", None, []
    for chunk in stream:
        chunks.append(chunk)
        for choice in chunk.choices:
            content += choice.delta.content or ""
            thought += getattr(choice.delta, "reasoning_content", None) or ""
            finish = choice.finish_reason or finish
    return content, thought, finish, chunks


@unittest.skipUnless(openai, "Python's openai is not installed (tools/requirements-serve.txt)")
class Client(ServeCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = openai.OpenAI(base_url=cls.url + "/v1", api_key="none", max_retries=0)
        cls.addClassCleanup(cls.client.close)

    def chat(self, messages=HI, **more):
        more.setdefault("max_tokens", 12)
        more.setdefault("seed", 7)
        return self.client.chat.completions.create(model="any", messages=messages, **more)

    def say(self, messages=HI, **more):
        return self.chat(messages, **more).choices[0].message.content

    def refused(self, param, word, kind=None, **more):
        """A request that is the client's fault: 400, with the field's path."""
        with self.assertRaises(kind or openai.BadRequestError) as caught:
            self.chat(more.pop("messages", HI), **more)
        e = caught.exception
        self.assertEqual((e.param, e.type), (param, "invalid_request_error"), e.body)
        self.assertIn(word, e.message)
        return e


class Chat(Client):
    ARGUMENTS = ["--chat-template", "chatml", "--parallel", "4"]

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
        r = self.client.chat.completions.create(model="x", messages=HI, max_completion_tokens=4)
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

    # ---- formats

    def test_json_object(self):
        r = self.chat(max_tokens=300, response_format={"type": "json_object"}, temperature=1)
        if r.choices[0].finish_reason == "stop":
            self.assertIsInstance(json.loads(r.choices[0].message.content), dict)

    def check_schema(self, text):
        value = json.loads(text)
        self.assertIn(value["name"], ("a", "b"))
        self.assertTrue(1 <= value["age"] <= 99)

    def test_json_schema(self):
        form = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": SCHEMA}}
        self.check_schema(self.say(max_tokens=100, response_format=form))
        self.check_schema(deltas(self.chat(max_tokens=100, response_format=form, stream=True))[0])

    def test_parse(self):
        import pydantic

        class Person(pydantic.BaseModel):
            age: int
            tall: bool

        r = self.client.chat.completions.parse(model="x", messages=HI, response_format=Person, max_tokens=200, seed=2, temperature=0)
        self.assertIsInstance(r.choices[0].message.parsed, Person)

    def test_schemas_of_other_servers(self):
        for body in ({"json_schema": SCHEMA}, {"guided_json": SCHEMA}, {"structured_outputs": {"json": SCHEMA}},
                     {"response_format": {"type": "json_object", "schema": SCHEMA}}):  # fmt: skip
            with self.subTest(list(body)):
                self.check_schema(self.say(max_tokens=100, extra_body=body))

    def test_grammars(self):
        for body in ({"grammar": 'root ::= "yes" | "no"'}, {"guided_choice": ["yes", "no"]}, {"guided_regex": "yes|no"},
                     {"structured_outputs": {"choice": ["yes", "no"]}}, {"guided_grammar": 'root ::= "yes" | "no"'}):  # fmt: skip
            with self.subTest(body):
                self.assertIn(self.say(max_tokens=30, extra_body=body), ("yes", "no"))

    def test_choices_with_bars(self):
        self.assertEqual(self.say(max_tokens=30, extra_body={"guided_choice": ["a|b\\"]}), "a|b\\")

    def test_forced_tokens_have_no_logprob_of_their_own(self):
        r = self.chat(max_tokens=30, logprobs=True, extra_body={"guided_choice": ["the whole of it"]})
        self.assertTrue(any(getattr(t, "forced", False) and t.logprob == 0 for t in r.choices[0].logprobs.content))

    # ---- refusals

    def test_wrong_types(self):
        for field, value in (
            ("temperature", "hot"), ("temperature", -0.1), ("top_p", 1.1), ("n", 0), ("n", 9), ("n", 1.5), ("max_tokens", 0),
            ("max_tokens", "x"), ("stop", 5), ("stop", ["a"] * 5), ("stop", "x" * 257), ("seed", "x"), ("stream", "yes"),
            ("logprobs", 3), ("top_logprobs", 21), ("frequency_penalty", 1e300), ("logit_bias", 3), ("logit_bias", {"x": 1}),
            ("logit_bias", {"999999": 1}), ("logit_bias", {str(i): 1 for i in range(1025)}), ("tools", {}), ("tools", [STOP] * 129),
            ("response_format", "json"), ("model", 3), ("user_does_not_matter", None), ("stream_options", 1),
            ("top_k", -2), ("mirostat", 1), ("answer_tokens", [-1]), ("functions", 5), ("samplers", 3),
        ):  # fmt: skip
            with self.subTest(field=field, value=str(value)[:30]):
                if value is None:  # null is absent
                    self.assertTrue(self.say(extra_body={field: value}))
                    continue
                body = {field: value, **({"logprobs": True} if field == "top_logprobs" else {})}
                self.assertEqual(self.refused(field, "", extra_body=body).status_code, 400)

    def test_limits_hold(self):
        """Each at its last value that is fine"""
        for body in ({"stop": ["x" * 256] * 4}, {"temperature": 0}, {"top_logprobs": 20, "logprobs": True}, {"n": 8, "max_tokens": 1},
                     {"logit_bias": {str(i): 1 for i in range(1024)}}, {"temperature": -0.0}):  # fmt: skip
            with self.subTest(list(body)):
                self.assertTrue(self.chat(extra_body=body))

    def test_messages(self):
        for messages, param in (
            ([], "messages"), ("hello", "messages"), ([5], "messages[0]"), ([{"content": "x"}], "messages[0].role"),
            ([{"role": "robot", "content": "x"}], "messages[0].role"), ([{"role": "user", "content": 5}], "messages[0].content"),
            ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], "messages[0].content[0].type"),
            ([{"role": "user", "content": "x"}] * 4097, "messages"),
        ):  # fmt: skip
            with self.subTest(param=param, first=str(messages)[:30]):
                self.refused(param, "", messages=messages)

    def test_too_long(self):
        e = self.refused("messages", "512", messages=[{"role": "user", "content": "long " * 700}])
        self.assertEqual(e.code, "context_length_exceeded")

    def test_constraints_fail_closed(self):
        bad = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "strange"}}}
        self.refused("response_format", "type", response_format=bad)
        self.refused("grammar", "", extra_body={"grammar": "root ::= undefined"})
        self.refused("guided_regex", "", extra_body={"guided_regex": "("})
        self.refused("json_schema", "", extra_body={"json_schema": {"minimum": "x"}})
        self.refused("grammar", "262145", extra_body={"grammar": "root ::= " + '"' + "x" * (262144 - 10) + '"'})

    def test_two_formats(self):
        self.refused("guided_json", "one format", extra_body={"grammar": 'root ::= "a"', "guided_json": SCHEMA})

    def test_unknown_fields_are_named(self):
        raw = self.client.chat.completions.with_raw_response.create(
            model="x", messages=HI, max_tokens=2, user="me", store=False, metadata={}, extra_body={"wonder": 1, "chat_template_kwargs": {"tone": 2}}
        )
        self.assertEqual(raw.headers["x-tern-ignored"].split(", "), ["chat_template_kwargs.tone", "wonder"])
        self.assertNotIn("x-tern-ignored", self.client.chat.completions.with_raw_response.create(model="x", messages=HI, max_tokens=2).headers)

    def test_fields_within_fields_are_named(self):
        """A field without effect is named wherever it stands, and so is a word that nobody knows."""
        tool = {"type": "function", "hint": 1, "function": {"name": "f", "strict": True, "tone": 1}}
        for more, names in (
            ({"stream_options": {"include_usage": True, "chunk": 2}}, "stream_options.chunk"),
            ({"response_format": {"type": "text", "tone": 1}}, "response_format.tone"),
            ({"response_format": {"type": "json_object", "tone": 1}}, "response_format.tone"),
            ({"tools": [tool]}, "tools[0].function.tone, tools[0].hint, tools"),
            ({"reasoning_effort": "hasty"}, "reasoning_effort"), ({"reasoning_effort": "xhigh"}, "reasoning_effort"), ({"reasoning_effort": "none"}, ""),
            ({"enable_thinking": True}, "enable_thinking"), ({"chat_template_kwargs": {"enable_thinking": False}}, ""),
            ({"chat_template_kwargs": {"enable_thinking": True}}, "chat_template_kwargs.enable_thinking"),
            ({"verbosity": "low", "id_slot": 1}, "verbosity, id_slot"), ({"stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
            ({"messages": [*HI, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}", "tone": 1}}]}, *HI]},
             "messages[1].tool_calls[0].function.tone"),
        ):  # fmt: skip
            with self.subTest(names):
                status, headers, _ = self.post("/v1/chat/completions", {"messages": HI, "max_tokens": 1, **more})
                self.assertEqual((status, headers.get("x-tern-ignored", "")), (200, names))

    def test_large_numbers(self):
        integers, reals = "integers must be from -9223372036854775808 to 9223372036854775807", "real numbers must be from -1.79769e+308 to 1.79769e+308"
        for number, limits in {"9223372036854775808": integers, "-9223372036854775809": integers, "1e999": reals, "-1.5e999": reals}.items():
            for name, body in (("seed", '{"messages": [], "seed" : %s }'), ("top_k", '{"a": 1, "top_k":%s, "b": 2}'), ("", '{"x": [1, %s]}')):
                with self.subTest(body % number):
                    status, _, answer = self.post("/v1/chat/completions", (body % number).encode())
                    error = answer["error"]
                    self.assertEqual((status, error["param"] or "", error["code"]), (400, name, "invalid_value"), error)
                    self.assertIn(limits, error["message"])
        for seed in (-(2**63), -5, 2**63 - 1):
            self.assertEqual(self.chat(seed=seed, max_tokens=1).seed, seed)
        self.refused("seed", "from -9223372036854775808", seed=1e30)
        for seed in (2.0**53, -(2.0**53), 2.0**62):  # 9007199254740993.0 is read as 2^53
            self.refused("seed", "without point and exponent", seed=seed)
        self.assertEqual(self.chat(seed=2.0**53 - 1, max_tokens=1).seed, 2**53 - 1)

    def test_saved_answers_are_proven(self):
        """As they came, receipt and all."""
        for path, more in {"chat/completions": {"messages": HI}, "completions": {"prompt": "Hi"}, "messages": {"messages": HI}, "responses": {"input": "Hi"}}.items():
            with self.subTest(path), tempfile.NamedTemporaryFile("w", suffix=".json") as f:
                length = "max_output_tokens" if path == "responses" else "max_tokens"
                f.write(json.dumps(self.post(f"/v1/{path}", {**more, length: 9, "seed": 7, "receipt": True})[2]))
                f.flush()
                done = subprocess.run([RUN, self.MODEL, "--template", "chatml", "--verify-receipt", f.name], capture_output=True, text=True)
                self.assertRegex(done.stdout, "^proven: ", done.stderr)

    def test_a_mark_of_the_order_of_bytes_is_skipped(self):
        for mark, want in (("", 200), ("\ufeff", 200), ("\ufeff\ufeff", 400)):
            self.assertEqual(self.post("/v1/chat/completions", (mark + json.dumps({"messages": HI, "max_tokens": 1})).encode())[0], want)

    def test_hostile_names_stay_out_of_headers(self):
        status, headers, _ = self.post("/v1/chat/completions", {"messages": HI, "max_tokens": 1, "a\r\nx: y": 1})
        self.assertEqual((status, headers["x-tern-ignored"]), (200, "a??x??y"))

    def test_tools_without_a_form(self):
        """chatml writes no calls: tools are left out and named; a call that must come is refused."""
        raw = self.client.chat.completions.with_raw_response.create(model="x", messages=HI, max_tokens=2, tools=[STOP])
        self.assertIn("tools", raw.headers["x-tern-ignored"])
        self.refused("tool_choice", "tools", tools=[STOP], tool_choice="required")

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

    # ---- completions

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

    def test_completion_refusals(self):
        for param, more in (
            ("prompt", {"prompt": 5}), ("prompt", {"prompt": []}), ("prompt", {"prompt": [99999]}), ("prompt", {"prompt": ["a", 5]}),
            ("suffix", {"suffix": "end"}), ("best_of", {"best_of": 1, "n": 2}), ("best_of", {"best_of": 2, "stream": True}),
            ("logprobs", {"logprobs": 21}), ("prompt", {"prompt": ["a"] * 65}), ("echo", {"echo": True, "logprobs": 1}),
        ):  # fmt: skip
            with self.subTest(more=str(more)[:40]), self.assertRaises(openai.BadRequestError) as caught:
                self.complete(**more)
            self.assertEqual(caught.exception.param, param)

    # ---- embeddings

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

    # ---- the rest

    def test_models(self):
        self.assertEqual([m.id for m in self.client.models.list()], ["fable"])
        self.assertEqual(self.client.models.retrieve("gpt-5").id, "gpt-5")

    def test_tokens_and_back(self):
        text = "The cat\u00e9 sat \U0001f600 <|im_start|>"
        r = self.post("/tokenize", {"content": text, "with_pieces": True})[2]
        raw = b"".join(bytes(t["piece"]) if isinstance(t["piece"], list) else t["piece"].encode() for t in r["tokens"])
        self.assertEqual(raw.decode(), text)
        self.assertEqual(self.post("/detokenize", {"tokens": [t["id"] for t in r["tokens"]]})[2]["content"], text)

    def test_apply_template(self):
        r = self.post("/apply-template", {"messages": HI})[2]
        self.assertEqual(r["prompt"], f"<|im_start|>user\n{HI[0]['content']}<|im_end|>\n<|im_start|>assistant\n")
        self.assertEqual(len(r["tokens"]), self.chat().usage.prompt_tokens)

    def test_props(self):
        p = self.get("/props")[2]
        self.assertEqual((p["model_alias"], p["chat_template"], p["default_generation_settings"]["n_ctx"]), ("fable", "chatml", 512))

    def test_the_description_has_all_routes(self):
        status, _, described = self.get("/openapi.json")
        self.assertEqual(status, 200)
        rows = re.findall(r'\{"(GET|POST)", "(/[^"]*)", ([^,]*)', (ROOT / "src/app/serve/routes.c").read_text())
        routes = {(path + ("{id}" if "PREFIX" in flags else ""), method.lower()) for method, path, flags in rows}
        self.assertEqual({(path, m) for path, item in described["paths"].items() for m in item if m in ("get", "post")},
                         routes - {("/", "get"), ("/openapi.json", "get")})  # fmt: skip

    def test_receipts(self):
        for more in ({"extra_body": {"receipt": True}}, {"extra_headers": {"x-tern-receipt": "1"}}):
            self.assertTrue(self.chat(**more).choices[0].receipt)
        chunks = list(self.chat(stream=True, extra_body={"receipt": True}))
        self.assertTrue(chunks[-1].choices[0].receipt)

    def test_the_header_for_receipts(self):
        for value, want in (("1", True), ("true", True), ("Yes", True), ("0", False), ("false", False), ("no", False)):
            r = self.chat(max_tokens=2, extra_headers={"x-tern-receipt": value}).choices[0]
            self.assertEqual(hasattr(r, "receipt"), want, value)
        self.refused("x-tern-receipt", "perhaps", extra_headers={"x-tern-receipt": "perhaps"})

    def test_errors_have_their_classes(self):
        with self.assertRaises(openai.NotFoundError):
            self.client.get("/nothing", cast_to=object)
        with self.assertRaises(openai.BadRequestError):
            self.client.post("/chat/completions", cast_to=object, body={"messages": "x"})


class Tools(Client):
    ARGUMENTS = ["--ctx-size", "4096", "--parallel", "4"]

    @classmethod
    def setUpClass(cls):
        cls.MODEL = thinker()
        super().setUpClass()

    NO_THOUGHT = {"chat_template_kwargs": {"enable_thinking": False}}

    def call(self, messages=HI, **more):
        more.setdefault("extra_body", self.NO_THOUGHT)
        more.setdefault("tools", [WEATHER, STOP])
        more.setdefault("max_tokens", 600)
        return self.chat(messages, **more)

    def check(self, call):
        self.assertEqual(call.type, "function")
        self.assertTrue(call.id)
        arguments = json.loads(call.function.arguments)
        if call.function.name == "stop":
            self.assertEqual(arguments, {})
        else:
            self.assertEqual((call.function.name, set(arguments)), ("get_weather", {"city", "days"}))
            self.assertTrue(arguments["city"] in ("Bonn", "Rome") and 1 <= arguments["days"] <= 9)

    def test_required(self):
        r = self.call(tool_choice="required").choices[0]
        self.assertEqual((r.finish_reason, r.message.content), ("tool_calls", None))
        self.assertGreater(len(r.message.tool_calls), 0)
        for call in r.message.tool_calls:
            self.check(call)

    def test_named(self):
        for name in ("stop", "get_weather"):
            r = self.call(tool_choice={"type": "function", "function": {"name": name}}).choices[0]
            self.assertEqual({c.function.name for c in r.message.tool_calls}, {name})

    def test_ids_do_not_come_again(self):
        calls = [c.message.tool_calls[0] for c in self.call(tool_choice="required", n=2).choices]
        calls.append(self.call(tool_choice="required").choices[0].message.tool_calls[0])
        self.assertEqual(len({c.id for c in calls}), 3)

    def test_parallel(self):
        """Without end tokens calls follow one another."""
        r = self.call(tool_choice="required", max_tokens=300, logit_bias={str(i): -100 for i in ENDS}).choices[0]
        self.assertEqual(r.finish_reason, "length")
        self.assertGreater(len(r.message.tool_calls), 2)
        self.assertEqual(len({c.id for c in r.message.tool_calls}), len(r.message.tool_calls))
        for call in r.message.tool_calls[:-1]:  # the last one may be cut
            self.check(call)

    def test_a_call_that_the_limit_cuts(self):
        """It comes as far as it goes, in a stream as without, and its marks are no text."""
        more = {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}, "parallel_tool_calls": False}
        r = self.call(**more)
        call, seen = r.choices[0].message.tool_calls[0].function, set()
        self.check(r.choices[0].message.tool_calls[0])
        for n in range(1, r.usage.completion_tokens, 5):
            c = self.call(max_tokens=n, **more).choices[0]
            self.assertEqual((c.finish_reason, (c.message.content or "").strip()), ("length", ""))
            part = c.message.tool_calls[0].function if c.message.tool_calls else None
            if part:
                self.assertEqual(part.name, call.name)
                self.assertTrue(call.arguments.startswith(part.arguments))
            told = [d.choices[0].delta for d in self.call(max_tokens=n, stream=True, **more)]
            self.assertFalse("".join(d.content or "" for d in told).strip())
            streamed = [f.function.arguments for d in told for f in d.tool_calls or []]
            self.assertEqual(streamed, [part.arguments] if part else [])
            seen.add(part and part.arguments)
        self.assertGreater(len(seen), 4)

    def test_one_at_a_time(self):
        for seed in range(4):
            r = self.call(tool_choice="required", parallel_tool_calls=False, seed=seed, temperature=1.5).choices[0]
            self.assertEqual(len(r.message.tool_calls), 1)

    def test_none(self):
        r = self.call(tool_choice="none", max_tokens=40).choices[0]
        self.assertIsNone(r.message.tool_calls)

    def test_auto(self):
        r = self.call(max_tokens=40).choices[0]
        self.assertIn(r.finish_reason, ("stop", "length", "tool_calls"))

    def test_allowed_tools(self):
        choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "stop"}}]}}
        r = self.call(tool_choice=choice).choices[0]
        self.assertEqual({c.function.name for c in r.message.tool_calls}, {"stop"})

    def test_stream(self):
        whole = self.call(tool_choice="required", seed=5).choices[0]
        calls, finish = {}, None
        for chunk in self.call(tool_choice="required", seed=5, stream=True):
            for c in chunk.choices[0].delta.tool_calls or []:
                kept = calls.setdefault(c.index, {"id": c.id, "name": c.function.name, "arguments": ""})
                kept["arguments"] += c.function.arguments
            finish = chunk.choices[0].finish_reason or finish
        self.assertEqual(finish, whole.finish_reason)
        self.assertEqual(sorted(calls), list(range(len(calls))))
        want = [{"name": c.function.name, "arguments": c.function.arguments} for c in whole.message.tool_calls]
        self.assertEqual([{k: calls[i][k] for k in ("name", "arguments")} for i in sorted(calls)], want)

    def test_the_helper_of_streams(self):
        with self.client.chat.completions.stream(model="x", messages=HI, tools=[STOP], tool_choice="required", seed=1, max_tokens=600,
                                                 parallel_tool_calls=False, logit_bias={"7": 90}, extra_body=self.NO_THOUGHT) as stream:  # fmt: skip
            stream.until_done()
            calls = stream.get_final_completion().choices[0].message.tool_calls
        self.assertEqual({c.function.name for c in calls}, {"stop"})

    def test_several_turns(self):
        messages = list(HI)
        for turn in range(3):
            m = self.call(messages, tool_choice="required", seed=turn).choices[0].message
            messages.append(m.model_dump(exclude_none=True))
            messages += [{"role": "tool", "tool_call_id": c.id, "content": f"result {turn}"} for c in m.tool_calls]
        ids = [c["id"] for m in messages for c in m.get("tool_calls", [])]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertTrue(self.call(messages, max_tokens=5))

    def test_functions(self):
        """OpenAI's older form of tools"""
        old = {"tools": openai.NOT_GIVEN, "functions": [WEATHER["function"], STOP["function"]]}
        for name in ("stop", "get_weather"):
            more = {**old, "function_call": {"name": name}}
            r = self.call(**more).choices[0]
            self.assertEqual((r.finish_reason, r.message.function_call.name, r.message.tool_calls, r.message.content), ("function_call", name, None, None))
            told = [c.choices[0].delta.function_call for c in self.call(stream=True, **more) if c.choices[0].delta.function_call]
            self.assertEqual([(f.name, f.arguments) for f in told], [(name, r.message.function_call.arguments)])
            again = [*HI, r.message.model_dump(exclude_none=True), {"role": "function", "name": name, "content": "done"}]
            self.assertIsNone(self.call(again, max_tokens=5, **old, function_call="none").choices[0].message.function_call)
        self.refused("function_call", "no function", **old, function_call={"name": "no"})
        self.refused("function_call.name", "required", **old, function_call={})
        self.refused("functions[0].name", "a b", functions=[{"name": "a b"}])
        raw = self.client.chat.completions.with_raw_response.create(model="x", messages=HI, tools=[STOP], functions=[STOP["function"]], max_tokens=1)
        self.assertEqual(raw.headers["x-tern-ignored"], "functions")

    def test_other_tools_are_skipped(self):
        raw = self.client.chat.completions.with_raw_response.create(
            model="x", messages=HI, tools=[{"type": "web_search"}, STOP, {"type": "custom", "custom": {"name": "y"}}], tool_choice="required",
            max_tokens=600, seed=4, extra_body=self.NO_THOUGHT,
        )  # fmt: skip
        self.assertEqual({c.function.name for c in raw.parse().choices[0].message.tool_calls}, {"stop"})
        self.assertEqual(raw.headers["x-tern-ignored"], "tools[0], tools[2]")

    def test_tool_refusals(self):
        nameless = {"type": "function", "function": {}}
        wrong = {"type": "function", "function": {"name": "a b"}}
        for param, more in (
            ("tools[0].function.name", {"tools": [nameless]}), ("tools[0].function.name", {"tools": [wrong]}),
            ("tools[1].function.name", {"tools": [STOP, STOP]}), ("tools[0].function", {"tools": [{"type": "function"}]}),
            ("tool_choice", {"tool_choice": {"type": "function", "function": {"name": "no"}}}), ("tool_choice", {"tool_choice": "perhaps"}),
            ("tool_choice", {"tool_choice": 5}), ("tools[0]", {"tools": [5]}), ("tool_choice", {"tools": [], "tool_choice": "required"}),
            ("parallel_tool_calls", {"parallel_tool_calls": "x"}), ("tools[0].function.parameters", {"tools": [{"type": "function", "function": {"name": "x", "parameters": 3}}]}),
        ):  # fmt: skip
            with self.subTest(str(more)[:60]):
                self.refused(param, "", **({"tools": [STOP]} | more))

    # ---- history that is odd

    def test_history_is_never_refused(self):
        call = {"id": "c1", "type": "function", "function": {"name": "stop", "arguments": "{}"}}

        def with_call(**more):
            return {"role": "assistant", "content": None, "tool_calls": [call | more]}

        result = {"role": "tool", "tool_call_id": "c1", "content": "done"}
        for name, messages in {
            "broken arguments": [*HI, with_call(function={"name": "stop", "arguments": '{"a": '}), result],
            "arguments of another type": [*HI, with_call(function={"name": "stop", "arguments": {"a": 1}}), result],
            "an array of arguments": [*HI, with_call(function={"name": "stop", "arguments": "[1]"}), result],
            "no arguments": [*HI, with_call(function={"name": "stop"}), result],
            "an unknown function": [*HI, with_call(function={"name": "x y\u00e9", "arguments": "{}"}), result],
            "no name": [*HI, with_call(function={}), result],
            "an odd id": [*HI, with_call(id="a b \u00e9" * 50), {"role": "tool", "tool_call_id": "a b \u00e9" * 50, "content": "x"}],
            "no result": [*HI, with_call(), *HI],
            "no result at the end": [*HI, with_call()],
            "a result of nothing": [*HI, result],
            "a result first": [result, *HI],
            "a late result": [*HI, with_call(), *HI, result],
            "two results": [*HI, with_call(), result, result],
            "a result without id": [*HI, with_call(), {"role": "tool", "content": "x"}],
            "empty contents": [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}, {"role": "user", "content": None}],
            "several systems": [{"role": "system", "content": "a"}, *HI, {"role": "system", "content": "b"}],
            "a system at the end": [*HI, {"role": "system", "content": "b"}],
            "a system alone": [{"role": "system", "content": "b"}],
            "the assistant first": [{"role": "assistant", "content": "Hello"}, *HI],
            "the assistant alone": [{"role": "assistant", "content": "Hello"}],
            "one role twice": [*HI, *HI, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}, *HI],
            "an old call": [*HI, {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}, {"role": "function", "name": "f", "content": "x"}],
            "a refusal": [*HI, {"role": "assistant", "content": None, "refusal": "no"}, *HI],
            "a NUL": [{"role": "user", "content": "a\0b"}],
        }.items():  # fmt: skip
            for tools in ({}, {"tools": [STOP]}):
                with self.subTest(name, tools=bool(tools)):
                    self.assertTrue(self.chat(messages, max_tokens=2, **tools))

    def prompt(self, messages, **more):
        return self.post("/apply-template", {"messages": messages, **more})[2]["prompt"]

    def test_how_history_is_written(self):
        call = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "stop", "arguments": '{"a": '}}]}
        text = self.prompt([*HI, call, {"role": "tool", "tool_call_id": "c1", "content": "done"}, *HI], tools=[STOP])
        self.assertIn('<tool_call>\n{"name": "stop", "arguments": {"arguments": "{\\"a\\": "}}\n</tool_call>', text)
        self.assertIn("<tool_response>\ndone\n</tool_response>", text)
        text = self.prompt([{"role": "system", "content": "one"}, *HI, {"role": "system", "content": "two"}])
        self.assertTrue(text.startswith("<|im_start|>system\none\n\ntwo<|im_end|>"))

    # ---- thoughts

    def test_forced_thoughts(self):
        """A constraint on the text begins behind the thought."""
        seen = thoughts = 0
        for seed in range(6):
            r = self.chat(max_tokens=900, seed=seed, temperature=1.3, logit_bias={str(THOUGHT_END): 5},
                          extra_body={"guided_choice": ["yes", "no"], "reasoning_effort": "high"})  # fmt: skip
            if r.choices[0].finish_reason != "stop":
                continue
            seen += 1
            self.assertIn(r.choices[0].message.content, ("yes", "no"))
            if thought := getattr(r.choices[0].message, "reasoning_content", None):
                thoughts += 1
                self.assertEqual(thought, r.choices[0].message.reasoning)
                self.assertGreater(r.usage.completion_tokens_details.reasoning_tokens, 0)
        self.assertTrue(seen and thoughts)

    def test_thoughts_stream(self):
        for seed in range(3):
            more = {"max_tokens": 300, "seed": seed, "logit_bias": {str(THOUGHT_END): 4}, "temperature": 1.3, "extra_body": {"guided_choice": ["yes", "no"], "reasoning_effort": "high"}}
            m = self.chat(**more).choices[0].message
            content, thought, _, _ = deltas(self.chat(stream=True, **more))
            self.assertEqual((content, thought), (m.content or "", getattr(m, "reasoning_content", None) or ""))

    def test_thoughts_are_taken(self):
        for name in ("reasoning_content", "reasoning"):
            history = [*HI, {"role": "assistant", "content": "", name: "hm", "tool_calls": [{"id": "c", "function": {"name": "stop", "arguments": "{}"}}]},
                       {"role": "tool", "tool_call_id": "c", "content": "x"}]  # fmt: skip
            self.assertIn("<think>\nhm\n</think>", self.prompt(history, tools=[STOP]))

    def test_how_to_think(self):
        default = self.prompt(HI)
        off = self.prompt(HI, chat_template_kwargs={"enable_thinking": False})
        self.assertNotEqual(default, off)
        self.assertEqual(self.prompt(HI, reasoning_effort="none"), off)
        self.assertEqual(self.prompt(HI, reasoning_effort="high"), default)
        self.assertEqual(self.prompt(HI, reasoning_effort="high", chat_template_kwargs={"enable_thinking": False}), off)

    def test_a_thought_that_was_begun(self):
        text = self.prompt([*HI, {"role": "assistant", "content": "", "reasoning_content": "I wonder"}])
        self.assertTrue(text.endswith("<think>\nI wonder"), text)


class Busy(Client):
    ARGUMENTS = ["--chat-template", "chatml", "--parallel", "1", "--queue", "1", "--api-key", "secret"]

    def test_keys(self):
        with self.assertRaises(openai.AuthenticationError):
            self.chat()

    def test_a_full_queue_is_tried_again(self):
        def client(retries):
            return openai.OpenAI(base_url=self.url + "/v1", api_key="secret", max_retries=retries)

        def long(c, n):
            return c.chat.completions.create(model="x", messages=HI, max_tokens=n, seed=1, extra_body={"ignore_eos": True}).usage.completion_tokens

        with client(0) as once, client(8) as often:
            def ask(i):
                try:
                    return long(often if i % 2 else once, 300)
                except openai.InternalServerError as e:
                    self.assertEqual(e.status_code, 503)
                    self.assertTrue(float(e.response.headers["retry-after"]) >= 1)
                    return 503

            got = together(8, ask)
        self.assertEqual({got[i] for i in range(1, 8, 2)}, {300})


if __name__ == "__main__":
    unittest.main()
