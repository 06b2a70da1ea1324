"""serve through OpenAI's own client: what the fields of a chat may hold, formats among them, and how others are refused or named."""

import json
import unittest

from openai_case import HI, SCHEMA, STOP, Client, deltas
from serve_case import SEED, Server


class Fields(Client):
    # ---- formats

    def test_types_of_fields_without_effect(self):
        """openapi.json declares them, so another type gets 400."""
        talk = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
        schema = {"name": "x", "schema": {"type": "object"}, "strict": True}
        function = {"name": "f", "parameters": {"type": "object"}, "strict": None}
        for name, value, good in (("name", 3, "y"), ("strict", "yes", None)):
            for status, v in ((400, value), (200, good)):
                with self.subTest(name=name, value=v):
                    code, _, body = self.server.post("/v1/chat/completions", {**talk, "response_format": {"type": "json_schema", "json_schema": {**schema, name: v}}})
                    self.assertEqual(code, status)
                    if code == 400:
                        self.assertEqual(body["error"]["param"], f"response_format.json_schema.{name}")
        for status, v in ((400, 1), (200, False), (200, None)):
            code, _, body = self.server.post("/v1/chat/completions", {**talk, "tools": [{"type": "function", "function": {**function, "strict": v}}]})
            self.assertEqual(code, status)
            if code == 400:
                self.assertEqual(body["error"]["param"], "tools[0].function.strict")

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

    def test_empty_formats(self):
        for body in ({"guided_regex": ""}, {"structured_outputs": {"regex": ""}}):
            self.assertEqual(self.say(max_tokens=30, extra_body=body), "", body)
        for field, body in {"guided_grammar": {"guided_grammar": ""}, "structured_outputs.grammar": {"structured_outputs": {"grammar": ""}}}.items():
            self.refused(field, "grammar", extra_body=body)
        self.assertTrue(self.say(max_tokens=30, extra_body={"grammar": ""}))  # llama.cpp's default

    def test_choices_with_bars(self):
        self.assertEqual(self.say(max_tokens=30, extra_body={"guided_choice": ["a|b\\"]}), "a|b\\")

    def test_forced_tokens_have_no_logprob_of_their_own(self):
        r = self.chat(max_tokens=30, logprobs=True, extra_body={"guided_choice": ["the whole of it"]})
        self.assertTrue(any(getattr(t, "forced", False) and t.logprob == 0 for t in r.choices[0].logprobs.content))

    def test_constraints_fail_closed(self):
        bad = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "strange"}}}
        self.refused("response_format.json_schema.schema", "type", response_format=bad)
        self.refused("structured_outputs.regex", "", extra_body={"structured_outputs": {"regex": "("}})
        self.refused("grammar", "", extra_body={"grammar": "root ::= undefined"})
        self.refused("guided_regex", "", extra_body={"guided_regex": "("})
        self.refused("json_schema", "", extra_body={"json_schema": {"minimum": "x"}})
        self.refused("grammar", "262145", extra_body={"grammar": "root ::= " + '"' + "x" * (262144 - 10) + '"'})

    def test_two_formats(self):
        self.refused("guided_json", "one format", extra_body={"grammar": 'root ::= "a"', "guided_json": SCHEMA})
        self.refused("structured_outputs.regex", "comes beside structured_outputs.json;", extra_body={"structured_outputs": {"json": SCHEMA, "regex": "a"}})

    # ---- values

    def test_wrong_types(self):
        for field, value in (
            ("temperature", "hot"), ("temperature", -0.1), ("top_p", 1.1), ("n", 0), ("n", 65), ("n", 1.5), ("max_tokens", 0),
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
        for body in ({"stop": ["x" * 256] * 4}, {"stop": ""}, {"stop": ["", ""]}, {"temperature": 0}, {"top_logprobs": 20, "logprobs": True}, {"n": 64, "max_tokens": 1},
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

    def test_ids_may_be_reals(self):
        ids = self.post("/tokenize", {"content": "The cat sat"})[2]["tokens"]
        reals = [float(i) for i in ids]
        for path, body in (
            ("/detokenize", lambda i: {"tokens": i}), ("/v1/completions", lambda i: {"prompt": i, "max_tokens": 3}),
            ("/v1/completions", lambda i: {"prompt": [ids, i], "max_tokens": 3}),
            ("/attention", lambda i: {"tokens": i, "layer": 0}), ("/v1/embeddings", lambda i: {"input": i}),
            ("/v1/chat/completions", lambda i: {"messages": HI, "max_tokens": 3, "answer_tokens": i}),
            ("/v1/chat/completions", lambda i: {"messages": HI, "max_tokens": 3, "logit_bias": [[i[0], 100]]}),
        ):  # fmt: skip
            with self.subTest(path, body=body(["i"])):
                seen = [self.post(path, {"seed": 1} | body(i)) for i in (ids, reals, [*reals[:-1], 5.5], [0.5])]
                self.assertEqual([s[0] for s in seen[:2]] + [seen[3][0]], [200, 200, 400], seen[1:])
                self.assertEqual(*(self.said(s[2]) for s in seen[:2]))

    def said(self, answer):
        """What does not differ from time to time"""
        if "choices" not in answer:
            return answer
        return [c.get("text", c.get("message")) for c in answer["choices"]]

    def test_ignoring_the_end_of_a_format(self):
        for name in ("ignore_eos", "ignore_end"):
            form = {"response_format": {"type": "json_object"}, name: True}
            for path, body in (("/v1/chat/completions", {"messages": HI}), ("/v1/completions", {"prompt": "x"})):
                for more in ({}, {"stream": True}):
                    status, _, answer = self.post(path, body | form | more)
                    self.assertEqual((status, answer["error"]["param"]), (400, name), answer)
                    self.assertIn(name, answer["error"]["message"])

    def test_large_numbers(self):
        integers, reals = "integers must be from -9223372036854775808 to 9223372036854775807", "real numbers must be from -1.79769e+308 to 1.79769e+308"
        for number, limits in {"9223372036854775808": integers, "-9223372036854775809": integers, "1e999": reals, "-1.5e999": reals}.items():
            for name, body in (("seed", '{"messages": [%s], "seed" : %%s }'), ("top_k", '{"messages": [%s], "top_k":%%s, "b": 2}')):
                body %= json.dumps(HI[0])
                with self.subTest(body % number):
                    status, _, answer = self.post("/v1/chat/completions", (body % number).encode())
                    error = answer["error"]
                    self.assertEqual((status, error["param"] or "", error["code"]), (400, name, "invalid_value"), error)
                    self.assertIn(limits, error["message"])
        for seed in (-(2**63), -5, 2**63 - 1):
            self.assertEqual(self.chat(seed=seed, max_tokens=1).seed, seed)
        self.refused("seed", "from -9223372036854775808", seed=1e30)
        self.refused("max_completion_tokens", "it is 9223372036854775807", max_completion_tokens=2**63 - 1)
        self.refused("temperature", "it is 1000.00001", temperature=1000.00001)
        for seed in (2.0**53, -(2.0**53), 2.0**62):  # 9007199254740993.0 is read as 2^53
            self.refused("seed", "without point and exponent", seed=seed)
        self.assertEqual(self.chat(seed=2.0**53 - 1, max_tokens=1).seed, 2**53 - 1)

    # the fewest digits of each are what the answer has, for 0.10000000000000001 is another decimal
    REALS = (
        ({"const": 0.1}, "0.1"), ({"enum": [99.99]}, "99.99"), ({"const": 1e-7}, "0.0000001"), ({"const": [0.3, -1.5, 2.0]}, "[0.3,-1.5,2]"),
        ({"type": "number", "minimum": 0.3, "maximum": 0.3}, "0.3"), ({"multipleOf": 0.1, "minimum": 0.1, "maximum": 0.1, "type": "number"}, "0.1"),
        ({"const": 0.30000000000000004}, "0.30000000000000004"), ({"const": "\\\"0.10000000000000001"}, '"\\\\\\"0.10000000000000001"'),
    )  # fmt: skip

    def test_reals_of_schemas_in_all_apis(self):
        chat, form = {"messages": HI, "max_tokens": 80}, {"type": "json_schema", "name": "x"}
        for schema, text in self.REALS:
            for path, body, told in (
                ("chat/completions", chat | {"response_format": {**form, "json_schema": {"name": "x", "schema": schema}}}, lambda a: a["choices"][0]["message"]["content"]),
                ("chat/completions", chat | {"guided_json": schema}, lambda a: a["choices"][0]["message"]["content"]),
                ("chat/completions", chat | {"structured_outputs": {"json": schema}}, lambda a: a["choices"][0]["message"]["content"]),
                ("completions", {"prompt": "a", "max_tokens": 80, "json_schema": schema}, lambda a: a["choices"][0]["text"]),
                ("responses", {"input": "Hi", "max_output_tokens": 80, "text": {"format": {**form, "schema": schema}}}, lambda a: a["output"][-1]["content"][0]["text"]),
                ("messages", chat | {"output_config": {"format": {"type": "json_schema", "schema": schema}}}, lambda a: a["content"][0]["text"]),
            ):  # fmt: skip
                with self.subTest(schema, path=path):
                    status, _, answer = self.post("/v1/" + path, {**body, "seed": 1})
                    self.assertEqual(status, 200, answer)
                    as_written = {"parse_float": str, "parse_int": str}
                    self.assertEqual(json.loads(told(answer), **as_written), json.loads(text, **as_written))

    def test_the_seed_of_the_server(self):
        """--seed N counts where a request has none, or null; -1 draws one."""
        body = {"prompt": "The", "max_tokens": 1}
        for seed, more in ((SEED, {}), (SEED, {"seed": None}), (9, {"seed": 9})):
            self.assertEqual(self.post("/v1/completions", body | more)[2]["seed"], seed)
        self.assertEqual(len({self.chat(seed=-1, max_tokens=1).seed for _ in range(3)} - {SEED}), 3)
        server = Server(seed=None)
        try:
            drawn = {server.post("/v1/completions", body)[2]["seed"] for _ in range(3)}
            self.assertEqual(len(drawn), 3)
        finally:
            server.stop()

    def test_a_mark_of_the_order_of_bytes_is_skipped(self):
        for mark, want in (("", 200), ("\ufeff", 200), ("\ufeff\ufeff", 400)):
            self.assertEqual(self.post("/v1/chat/completions", (mark + json.dumps({"messages": HI, "max_tokens": 1})).encode())[0], want)

    # ---- fields without effect

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

    def test_hostile_names_stay_out_of_headers(self):
        status, headers, _ = self.post("/v1/chat/completions", {"messages": HI, "max_tokens": 1, "a\r\nx: y": 1})
        self.assertEqual((status, headers["x-tern-ignored"]), (200, "a??x??y"))

    def test_tools_without_a_form_in_all_apis(self):
        function = STOP["function"]
        for path, body, tool in (
            ("chat/completions", {"messages": HI}, STOP), ("responses", {"input": "Hi"}, {"type": "function", **function}),
            ("messages", {"messages": HI}, {"name": "stop", "input_schema": function["parameters"]}),
        ):  # fmt: skip
            status, headers, _ = self.post("/v1/" + path, {**body, "max_tokens": 1, "max_output_tokens": 1, "tools": [tool]})
            self.assertEqual(status, 200)
            self.assertIn("tools", headers["x-tern-ignored"].split(", "), path)

    def test_tools_without_a_form(self):
        """chatml writes no calls: tools are left out and named; a call that must come is refused."""
        raw = self.client.chat.completions.with_raw_response.create(model="x", messages=HI, max_tokens=2, tools=[STOP])
        self.assertIn("tools", raw.headers["x-tern-ignored"])
        self.refused("tool_choice", "tools", tools=[STOP], tool_choice="required")


if __name__ == "__main__":
    unittest.main()
