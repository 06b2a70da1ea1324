"""Answers that have begun, in `serve`: a format holds for their beginning, too. And what a stop string does to a call."""

import json
import re
import unittest

from openai_case import HI, SCHEMA, STOP, WEATHER, Client
from serve_models import THINK_END, thinker

FORM = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}


def said(text, **more):
    return [*HI, {"role": "assistant", "content": text, **more}]


class Prefill(Client):
    ARGUMENTS = ["--ctx-size", "4096", "--parallel", "4"]

    @classmethod
    def setUpClass(cls):
        cls.MODEL = thinker()
        super().setUpClass()

    def check(self, text):
        value = json.loads(text)
        self.assertEqual(set(value), {"name", "age"})
        self.assertTrue(value["name"] in "ab" and 1 <= value["age"] <= 99, text)

    def test_a_schema(self):
        """The answer goes on, and both together are what the schema demands."""
        for begin in ("{", '{"name"', '{"name": "a', '{"name":"b","age":', '{\n  "na'):
            for seed in range(3):
                rest = self.chat(said(begin), response_format=FORM, max_tokens=200, seed=seed, temperature=1.5).choices[0]
                self.assertEqual(rest.finish_reason, "stop")
                self.check(begin + rest.message.content)

    def test_a_stream_and_choices(self):
        more = {"response_format": FORM, "max_tokens": 200, "n": 3, "seed": 9, "temperature": 1.5}
        whole = [c.message.content for c in self.chat(said('{"name": "'), **more).choices]
        told = [""] * 3
        for chunk in self.chat(said('{"name": "'), stream=True, **more):
            for c in chunk.choices:
                told[c.index] += c.delta.content or ""
        self.assertEqual(told, whole)
        for text in whole:
            self.check('{"name": "' + text)

    def test_all_is_said(self):
        whole = self.chat(said('{"name": "a", "age": 7}'), response_format=FORM, max_tokens=200)
        self.assertIn(whole.choices[0].message.content.strip(), ("",))
        self.assertEqual(whole.choices[0].finish_reason, "stop")

    def test_what_does_not_fit(self):
        for begin, at in (("Sure! {", 0), ('{"name": "c', 10), ('{"name": "a", "age": 0', 21), ('{"name": "a", "age": 7} so', 23), (" {", 0)):
            with self.subTest(begin=begin):
                self.refused("messages", f"byte {at}", messages=said(begin), response_format=FORM)

    def test_other_formats(self):
        more = {"max_tokens": 20}
        self.assertEqual(self.say(said("re"), extra_body={"grammar": 'root ::= "red" | "blue"'}, **more), "d")
        self.assertEqual(self.say(said("bl"), extra_body={"guided_choice": ["red", "blue"]}, **more), "ue")
        self.assertRegex(self.say(said("20"), extra_body={"guided_regex": "[0-9]{4}"}, **more), r"^\d\d$")
        marks = {str(i): -100 for i in range(5, 11)}  # they end texts of JSON as well
        for seed in range(3):
            r = self.chat(said('{"a": ['), response_format={"type": "json_object"}, max_tokens=2000, seed=seed, logit_bias=marks).choices[0]
            if r.finish_reason == "stop":
                self.assertIsInstance(json.loads('{"a": [' + r.message.content)["a"], list)

    def test_behind_a_thought(self):
        begin = said('{"name": "b"', reasoning_content="Hm.")
        self.check('{"name": "b"' + self.say(begin, response_format=FORM, max_tokens=200))
        self.refused("messages", "byte 1", messages=said("{7", reasoning_content="Hm."), response_format=FORM)
        r = self.chat(said("", reasoning_content="Hm"), response_format=FORM, max_tokens=600, logit_bias={str(THINK_END): 6}).choices[0]
        self.check(r.message.content)

    def test_answer_tokens(self):
        """What the answer was is said again, as far as any of its tokens: the rest follows."""
        for think in (False, True):
            more = {"response_format": FORM, "max_tokens": 600, "temperature": 0}
            body = {"return_tokens": True, "enable_thinking": think, "repeat_penalty": 1}
            bias = {str(THINK_END): 9} if think else {}
            whole = self.chat(logit_bias=bias, extra_body=body, **more).choices[0]
            for n in range(1, len(whole.tokens), max(1, len(whole.tokens) // 5)):
                rest = self.chat(logit_bias=bias, extra_body={**body, "answer_tokens": whole.tokens[:n]}, **more).choices[0]
                self.assertEqual(whole.tokens[:n] + rest.tokens, whole.tokens)
        self.refused("messages", "byte 0", response_format=FORM, extra_body={"answer_tokens": [40], "enable_thinking": False})

    def test_no_receipt(self):
        r = self.client.chat.completions.with_raw_response.create(
            model="x", messages=said("{"), response_format=FORM, max_tokens=50, extra_body={"receipt": True})  # fmt: skip
        self.assertEqual(r.headers["x-tern-ignored"], "receipt")
        self.assertNotIn("receipt", r.parse().choices[0].model_dump())

    def test_messages(self):
        form = {"format": {"type": "json_schema", "schema": SCHEMA}}
        body = {"model": "x", "max_tokens": 200, "messages": said('{"name": "a'), "output_config": form}
        status, _, r = self.post("/v1/messages", body)
        self.assertEqual(status, 200, r)
        self.check('{"name": "a' + r["content"][0]["text"])
        status, _, r = self.post("/v1/messages", body | {"messages": said("{5")})
        self.assertEqual((status, r["error"]["type"]), (400, "invalid_request_error"))
        self.assertIn("byte 1", r["error"]["message"])

    # ---- calls

    def test_a_call(self):
        """A call that was begun goes on as its tool's schema has it, and comes whole."""
        for begin in ("<tool_call>\n{", '<tool_call>\n{"name": "get_weather", "arguments": {"ci', 'So:\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "R'):
            for choice in ("auto", "required"):
                if choice == "required" and begin[0] == "S":
                    continue  # that allows no text before the call
                with self.subTest(begin, choice=choice):
                    more = {"tools": [WEATHER], "tool_choice": choice, "parallel_tool_calls": False, "max_tokens": 600, "seed": 4}
                    r = self.chat(said(begin), extra_body={"enable_thinking": False}, **more).choices[0]
                    self.assertEqual((r.finish_reason, len(r.message.tool_calls)), ("tool_calls", 1))
                    city = json.loads(r.message.tool_calls[0].function.arguments)["city"]
                    self.assertIn(city, ("Rome",) if begin[-1] == "R" else ("Bonn", "Rome"))
        wrong = said('<tool_call>\n{"name": "get_weather", "arguments": {"city": 7, ')
        self.refused("messages", "tools does not allow: it fits as far as byte 58", messages=wrong, tools=[WEATHER])

    def test_tools_behind_a_thought(self):
        """A call or a schema holds behind the thought that the answer begins with, wherever that ends."""
        more = {"tools": [WEATHER], "max_tokens": 600, "seed": 4}
        for message in ({"content": "<think>\nab"}, {"content": "", "reasoning_content": "ab"}, {"content": "So: ", "reasoning_content": "ab"}):
            for think in (False, True):
                with self.subTest(message, think=think):
                    bias = {str(THINK_END): 6}
                    r = self.chat([*HI, {"role": "assistant", **message}], tool_choice="required", logit_bias=bias, extra_body={"enable_thinking": think}, **more)
                    self.assertEqual(r.choices[0].finish_reason, "tool_calls")
        for begin in ("", '{"name": "b"'):
            r = self.chat(said(begin, reasoning_content="ab"), response_format=FORM, logit_bias={str(THINK_END): 6}, **more).choices[0]
            if not r.message.tool_calls:
                self.check(begin + r.message.content)

    def test_a_whole_call(self):
        """It is none of the answer: calls are counted from 0, and without one the answer is not of calls."""
        begin = said('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome", "days": 1}}\n</tool_call>\n')
        more = {"tools": [WEATHER], "extra_body": {"enable_thinking": False}, "max_tokens": 600}
        r = self.chat(begin, **more, tool_choice="none", seed=4, stop=list("aeio")).choices[0]
        self.assertEqual((r.finish_reason, r.message.tool_calls), ("stop", None))
        chunks = list(self.chat(begin, **more, tool_choice="required", seed=4, stream=True))
        calls = [c for chunk in chunks for choice in chunk.choices for c in choice.delta.tool_calls or []]
        self.assertEqual(min(c.index for c in calls), 0)
        self.assertEqual(chunks[-1].choices[0].finish_reason, "tool_calls")

    # ---- the first chunk

    def test_the_first_chunk(self):
        """The role, and an empty text, once for each choice; whatever comes then."""
        think = {"extra_body": {"enable_thinking": True}, "n": 3, "logprobs": True}
        call = {"extra_body": {"enable_thinking": False}, "tools": [WEATHER, STOP], "tool_choice": "required", "max_tokens": 600}
        for more in (think, call, {"max_tokens": 1}, {"stream_options": {"include_usage": True}, "n": 2}):
            seen = {}
            for chunk in self.chat(stream=True, **more):
                for c in chunk.choices:
                    delta = c.delta.model_dump(exclude_unset=True)
                    if c.index not in seen:
                        self.assertEqual((delta, c.finish_reason), ({"role": "assistant", "content": ""}, None))
                        self.assertEqual(c.logprobs and c.logprobs.content, [] if more.get("logprobs") else None)
                    else:
                        self.assertNotIn("role", delta)
                    seen[c.index] = seen.get(c.index, 0) + 1
            self.assertEqual(sorted(seen), list(range(more.get("n", 1))))
            self.assertTrue(all(n > 1 for n in seen.values()), seen)

    # ---- a stop string within a call

    def call(self, **more):
        body = {"enable_thinking": False}
        return self.chat(tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, max_tokens=600, extra_body=body, **more)

    def test_a_stop_string_cuts_a_call(self):
        """As the limit of tokens does: the call comes as far as it goes, and finish_reason is not tool_calls."""
        whole = self.call().choices[0].message.tool_calls[0].function
        for stop in (whole.arguments[4:8], whole.arguments[-3:], '"city"'):
            with self.subTest(stop=stop):
                c = self.call(stop=stop).choices[0]
                told = [d.choices[0] for d in self.call(stop=stop, stream=True)]
                part = c.message.tool_calls[0].function
                self.assertEqual((c.finish_reason, c.message.content, part.name), ("stop", None, whole.name))
                self.assertEqual(part.arguments, whole.arguments.split(stop)[0])
                self.assertEqual((told[-1].finish_reason, "".join(d.delta.content or "" for d in told)), ("stop", ""))
                self.assertEqual("".join(f.function.arguments for d in told for f in d.delta.tool_calls or []), part.arguments)

    def test_a_stop_string_behind_the_arguments(self):
        c = self.call(stop="</tool_call>").choices[0]
        self.assertEqual(c.finish_reason, "tool_calls")
        self.assertIn("city", json.loads(c.message.tool_calls[0].function.arguments))
        f = WEATHER["function"]
        body = {"model": "x", "max_tokens": 600, "messages": HI, "tools": [{"name": f["name"], "input_schema": f["parameters"]}],
                "tool_choice": {"type": "any", "disable_parallel_tool_use": True}, "stop_sequences": ["</tool_call>"], "seed": 7}  # fmt: skip
        _, _, r = self.post("/v1/messages", body)
        self.assertEqual((r["stop_reason"], r["stop_sequence"], r["content"][-1]["type"]), ("tool_use", None, "tool_use"))
        self.assertIn("city", r["content"][-1]["input"])
        events = [json.loads(e) for _, e in self.events("/v1/messages", body | {"stream": True})]
        self.assertEqual([e["delta"]["stop_reason"] for e in events if e["type"] == "message_delta"], ["tool_use"])

    def test_a_stop_string_before_the_name(self):
        c = self.call(stop='"name"').choices[0]
        self.assertEqual((c.finish_reason, c.message.tool_calls, c.message.content.strip()), ("stop", None, ""))

    def test_a_stop_string_begins_within_a_character(self):
        """Each byte is a token of this model. The first ones of a character that a stop string begins with are no U+FFFD."""
        bias = {str(i): -100 for i in range(5, 11)}
        said = {"max_tokens": 300, "temperature": 1, "logit_bias": bias, "extra_body": {"enable_thinking": False}}
        seen = 0
        for seed in range(12):
            text = self.say(HI, seed=seed, **said)
            for stop in re.findall("[^\\0-\x7f\ufffd][^\\0\ufffd]", text):
                seen += 1
                with self.subTest(seed=seed, stop=stop):
                    told = "".join(c.choices[0].delta.content or "" for c in self.chat(HI, seed=seed, stop=stop, stream=True, **said))
                    self.assertEqual([self.say(HI, seed=seed, stop=stop, **said), told], [text.split(stop)[0]] * 2)
        self.assertGreater(seen, 5)

    def test_it_begins_within_a_character_of_arguments(self):
        tool = {"type": "function", "function": {"name": "see", "parameters": {"const": {"city": "Köln"}}}}
        body = {"tools": [tool], "tool_choice": "required", "max_tokens": 600, "extra_body": {"enable_thinking": False}}
        whole = self.chat(HI, **body).choices[0].message.tool_calls[0].function.arguments
        part = self.chat(HI, stop="öl", **body).choices[0].message.tool_calls[0].function.arguments
        self.assertEqual(part, whole.split("öl")[0])

    def test_a_stop_sequence_cuts_a_call_of_messages(self):
        f = WEATHER["function"]
        body = {"model": "x", "max_tokens": 600, "messages": HI, "tools": [{"name": f["name"], "input_schema": f["parameters"]}],
                "tool_choice": {"type": "any", "disable_parallel_tool_use": True}, "stop_sequences": ["days"], "seed": 7}  # fmt: skip
        _, _, r = self.post("/v1/messages", body)
        self.assertEqual((r["stop_reason"], r["stop_sequence"], r["content"][-1]["type"]), ("stop_sequence", "days", "tool_use"))
        self.assertIn(set(r["content"][-1]["input"]), (set(), {"city"}))


if __name__ == "__main__":
    unittest.main()
