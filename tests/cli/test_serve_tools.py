"""serve through OpenAI's own client: tools, history with calls, thoughts.

Constraints make a model of random weights call tools."""

import json
import random
import re
import unittest

from openai_case import HI, STOP, WEATHER, Client, deltas, openai
from serve_case import SLOW
from serve_models import THINK, THINK_END, caller, speller, thinker

ENDS, THOUGHT_END, CALL = (1, 4), 6, 7  # ids in the vocabulary of serve_models


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

    def test_a_format_beside_a_call_that_must_come(self):
        """There is no text that it could hold for: instructor sends both to /v1/responses."""
        schema, parameters = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False}, {"type": "object", "additionalProperties": False}
        response = {
            "input": "Hi", "max_output_tokens": 600, "reasoning": {"effort": "none"}, "text": {"format": {"type": "json_schema", "name": "a", "schema": schema}},
            "tools": [{"type": "function", "name": "stop", "parameters": parameters}],
        }  # fmt: skip
        for choice in ("required", {"type": "function", "name": "stop"}):
            _, headers, body = self.server.post("/v1/responses", {**response, "tool_choice": choice})
            self.assertEqual([i["type"] for i in body["output"]][:1], ["function_call"], body)
            self.assertIn("text.format.schema", headers["x-tern-ignored"])
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        self.assertTrue(self.call(tool_choice="required", response_format=form).choices[0].message.tool_calls)

    def said(self, path, body):
        """Texts and names of calls, of an answer with a stream and without"""
        status, _, whole = self.server.post(path, body)
        self.assertEqual(status, 200, whole)
        events = [json.loads(data) for _, data in self.server.events(path, {**body, "stream": True}) if data != "[DONE]"]
        if path == "/v1/chat/completions":
            m = whole["choices"][0]["message"]
            deltas = [e["choices"][0]["delta"] for e in events if e["choices"]]
            yield m["content"], [c["function"]["name"] for c in m.get("tool_calls") or []]
            yield "".join(d.get("content") or "" for d in deltas), [c["function"]["name"] for d in deltas for c in d.get("tool_calls") or [] if c.get("id")]
        elif path == "/v1/messages":
            yield "".join(b["text"] for b in whole["content"] if b["type"] == "text"), [b["name"] for b in whole["content"] if b["type"] == "tool_use"]
            yield ("".join(e["delta"].get("text", "") for e in events if e["type"] == "content_block_delta"),
                   [e["content_block"]["name"] for e in events if e["type"] == "content_block_start" and e["content_block"]["type"] == "tool_use"])  # fmt: skip
        else:
            for items in (whole["output"], next(e for e in events if e["type"] in ("response.completed", "response.incomplete"))["response"]["output"]):
                yield "".join(c["text"] for i in items if i["type"] == "message" for c in i["content"]), [i["name"] for i in items if i["type"] == "function_call"]

    def test_a_format_beside_tools(self):
        """The model calls, or its text has the format, whatever it thought before."""
        want, empty = {"a": 'x<tool_call>\n{"name": "stop"}<think>'}, {"type": "object", "additionalProperties": False}
        schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/w"}}, "required": ["a"], "additionalProperties": False, "$defs": {"w": {"const": want["a"]}}}
        for bias in (90, -100):
            for thinks in (False, True):
                more = {"seed": 3, "logit_bias": {str(CALL): bias, str(self.token("<")): -100, str(self.token("{")): -bias, str(THINK): 90 if thinks else -90, str(THINK_END): 99}}
                bodies = {
                    "/v1/chat/completions": {"messages": HI, "max_tokens": 400, "tools": [STOP], "parallel_tool_calls": False,
                                             "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}, "chat_template_kwargs": {"enable_thinking": thinks}},
                    "/v1/responses": {"input": "Hi", "max_output_tokens": 400, "tools": [{"type": "function", "name": "stop", "parameters": empty}], "parallel_tool_calls": False,
                                      "text": {"format": {"type": "json_schema", "name": "a", "schema": schema}}, "reasoning": {"effort": "high" if thinks else "none"}},
                    "/v1/messages": {"messages": HI, "max_tokens": 400, "tools": [{"name": "stop", "input_schema": empty}], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
                                     "output_config": {"format": {"type": "json_schema", "schema": schema}}, "thinking": {"type": "adaptive" if thinks else "disabled"}},
                }  # fmt: skip
                for path, body in bodies.items():
                    for how, (text, calls) in zip(("whole", "stream"), self.said(path, {**body, **more})):
                        with self.subTest(path, how=how, bias=bias, thinks=thinks):
                            self.assertEqual(calls, ["stop"] if bias > 0 else [])
                            self.assertEqual(json.loads(text) if bias < 0 else (text or "").strip(), want if bias < 0 else "")

    def test_a_format_beside_tools_that_is_begun_or_wrong(self):
        bias = {str(CALL): -100, str(self.token("{")): 50, str(self.token("}")): 60}
        chat = {"messages": HI, "max_tokens": 300, "tools": [STOP], "logit_bias": bias, **self.NO_THOUGHT}
        form = lambda schema: {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}}  # noqa: E731
        begun = [*HI, {"role": "assistant", "content": '{"a": "Bo'}]
        city = {"type": "object", "properties": {"a": {"enum": ["Bonn", "Rome"]}}, "required": ["a"], "additionalProperties": False}
        _, _, answer = self.post("/v1/chat/completions", {**chat, "messages": begun, **form(city)})
        self.assertEqual(answer["choices"][0]["message"]["content"], 'nn"}')
        _, _, answer = self.post("/v1/chat/completions", {**chat, "response_format": {"type": "json_object"}})
        self.assertIsInstance(json.loads(answer["choices"][0]["message"]["content"]), dict)
        for bad, more, field in ((form({"type": "strange"}), {}, "response_format.json_schema.schema"), ({"grammar": 'root ::= "a"'}, {}, "grammar"),
                                 (form(city), {"messages": [*HI, {"role": "assistant", "content": '{"b'}]}, "messages"),
                                 (form({"enum": []}), {}, "response_format.json_schema.schema")):  # fmt: skip
            status, _, answer = self.post("/v1/chat/completions", {**chat, **more, **bad})
            self.assertEqual((status, answer["error"]["param"]), (400, field), answer)
        lax = {"type": "function", "function": {"name": "w", "parameters": {"properties": {"x": {"type": "string", "pattern": "\\ba"}}}}}
        status, headers, answer = self.post("/v1/chat/completions", {**chat, "tools": [STOP, lax], **form(city)})
        self.assertEqual(list(json.loads(answer["choices"][0]["message"]["content"])), ["a"])
        self.assertIn("pattern", headers["x-tern-ignored"])
        for name in ("regex", "idn-email", "idn-hostname"):  # others hold, beside one of these too
            props = {"x": {"type": "string", "format": name}, "y": {"type": "string", "format": "date"}}
            lax["function"]["parameters"] = {"properties": props, "required": ["x", "y"]}
            for more in ({}, {"tool_choice": "required"}):
                status, headers, _ = self.post("/v1/chat/completions", {**chat, "tools": [lax], "max_tokens": 1, **more})
                self.assertEqual(headers["x-tern-ignored"], "tool w: schema: format at #/properties/x: this format cannot be enforced")

    def token(self, text):
        (token,) = self.post("/tokenize", {"content": text})[2]["tokens"]
        return token

    def test_reals_keep_their_digits(self):
        """In a tool's schema, which the template shows and a call obeys, and in a call of before."""
        schema = {"type": "object", "properties": {"x": {"const": 0.1}, "y": {"enum": [99.99]}}, "required": ["x", "y"], "additionalProperties": False}
        tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"x": 0.3}}}
        body = {"tools": [tool], "max_tokens": 600, **self.NO_THOUGHT}
        _, _, shown = self.post("/apply-template", {"messages": [*HI, {"role": "assistant", "tool_calls": [call]}], **body})
        for text in ('"const": 0.1}', "[99.99]", "0.3}"):
            self.assertIn(text, shown["prompt"])
        _, _, answer = self.post("/v1/chat/completions", {"messages": HI, "tool_choice": "required", "parallel_tool_calls": False, **body})
        self.assertEqual(answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].replace(" ", ""), '{"x":0.1,"y":99.99}')

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
            self.assertEqual("".join(streamed), part.arguments if part else "")
            self.assertEqual(streamed[:1], [""] if part else [])
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
        flat = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "stop"}]}
        self.assertEqual({c.function.name for c in self.call(tool_choice=flat).choices[0].message.tool_calls}, {"stop"})
        none = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}
        self.refused("tool_choice.allowed_tools.tools", "empty", tools=[WEATHER, STOP], tool_choice=none)

    def test_stream(self):
        whole = self.call(tool_choice="required", seed=5).choices[0]
        calls, finish, pieces = {}, None, 0
        for chunk in self.call(tool_choice="required", seed=5, stream=True):
            for c in chunk.choices[0].delta.tool_calls or []:
                begins = c.index not in calls
                self.assertEqual((bool(c.id), c.type, bool(c.function.name)), (True, "function", True) if begins else (False, None, False))
                self.assertEqual(c.function.arguments == "", begins)
                kept = calls.setdefault(c.index, {"id": c.id, "name": c.function.name, "arguments": ""})
                kept["arguments"] += c.function.arguments
                self.assertEqual(c.index, len(calls) - 1, "one call after the other")
                pieces += 1
            finish = chunk.choices[0].finish_reason or finish
        self.assertEqual(pieces - len(calls), sum(len(c["arguments"]) for c in calls.values()), "a token of this model is a byte")
        self.assertEqual(finish, whole.finish_reason)
        self.assertEqual(sorted(calls), list(range(len(calls))))
        want = [{"name": c.function.name, "arguments": c.function.arguments} for c in whole.message.tool_calls]
        self.assertEqual([{k: calls[i][k] for k in ("name", "arguments")} for i in sorted(calls)], want)

    def test_arguments_come_while_they_are_written(self):
        """In every API, and none twice."""
        schema = {"type": "object", "properties": {"input": {"type": "string", "minLength": 900}}, "required": ["input"], "additionalProperties": False}
        tool, body = {"name": "write", "parameters": schema}, {"max_tokens": 2000, "seed": 3, "stream": True}
        (quote,) = self.post("/tokenize", {"content": '"'})[2]["tokens"]
        for path, more, kind, field in (
            ("chat/completions", {"messages": HI, "tools": [{"type": "function", "function": tool}], "tool_choice": "required", "parallel_tool_calls": False, **self.NO_THOUGHT}, "arguments", None),
            ("responses", {"input": "Hi", "tools": [{"type": "function", **tool}], "tool_choice": "required"}, "response.function_call_arguments.delta", "arguments"),
            ("responses", {"input": "Hi", "tools": [{"type": "custom", "name": "write"}], "tool_choice": "required", "logit_bias": {str(quote): -99}}, "response.custom_tool_call_input.delta", "input"),
            ("messages", {"messages": HI, "tools": [{"name": "write", "input_schema": schema}], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}, "input_json_delta", None),
        ):  # fmt: skip
            with self.subTest(path, kind=kind):
                early, pieces = None, []
                if path == "responses":
                    more = {**more, "max_output_tokens": 2000, "parallel_tool_calls": False, "reasoning": {"effort": "none"}}
                for _, data in self.events("/v1/" + path, {**body, **more}):
                    if kind in data and '"delta"' in data:
                        early = self.any_runs() if early is None else early
                        event = json.loads(data)
                        delta = event["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] if "choices" in event else event["delta"]
                        pieces.append(delta["partial_json"] if isinstance(delta, dict) else delta)
                    elif field and '"response.output_item.done"' in data:
                        self.assertEqual("".join(pieces), json.loads(data)["item"][field])
                self.assertTrue(early, "the answer went on")
                self.assertGreater(len(pieces), 500)
                text = "".join(pieces)
                self.assertGreaterEqual(len(text), 900)
                if field != "input":
                    self.assertEqual(list(json.loads(text)), ["input"])

    def any_runs(self):
        return any(slot["is_processing"] for slot in self.get("/slots")[2])

    def test_a_call_that_was_begun(self):
        """Of an answer that is continued within a call, the call comes whole."""
        for name, n, begin in (("stop", 1, "{}"), ("get_weather", 3, '{"')):
            content = f'<tool_call>\n{{"name": "{name}", "arguments": {{'
            said = self.post("/tokenize", {"content": content, "parse_special": True})[2]["tokens"]
            more = {"tool_choice": "auto", "max_tokens": n, "extra_body": {"answer_tokens": said, **self.NO_THOUGHT}}
            r = self.call(**more).choices[0]
            (call,) = r.message.tool_calls
            arguments = call.function.arguments
            self.assertEqual((call.function.name, arguments[:2], r.finish_reason), (name, begin, "length"))
            told = [c for chunk in self.call(stream=True, **more) for c in chunk.choices[0].delta.tool_calls or []]
            self.assertEqual([(bool(c.id), c.index, c.function.name, c.function.arguments) for c in told],
                             [(True, 0, name, ""), (False, 0, None, arguments)])  # fmt: skip

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
            self.assertEqual([f.name for f in told], [name] + [None] * (len(told) - 1))
            self.assertEqual((told[0].arguments, "".join(f.arguments for f in told)), ("", r.message.function_call.arguments))
            again = [*HI, r.message.model_dump(exclude_none=True), {"role": "function", "name": name, "content": "done"}]
            self.assertIsNone(self.call(again, max_tokens=5, **old, function_call="none").choices[0].message.function_call)
        self.refused("function_call", "no function", **old, function_call={"name": "no"})
        self.refused("function_call.name", "required", **old, function_call={})
        self.refused("functions[0].name", "a b", functions=[{"name": "a b"}])
        raw = self.client.chat.completions.with_raw_response.create(model="x", messages=HI, tools=[STOP], functions=[STOP["function"]], max_tokens=1)
        self.assertEqual(raw.headers["x-tern-ignored"], "functions")

    def test_faults_of_tools_name_their_field(self):
        """One rule for all APIs: the same tools are refused, each in the names of its API."""
        forms = (
            ("chat/completions", lambda n, p: {"type": "function", "function": {"name": n, "parameters": p}}, "function.", "parameters", {"tool_choice": "required"}),
            ("responses", lambda n, p: {"type": "function", "name": n, "parameters": p}, "", "parameters", {"tool_choice": "required"}),
            ("messages", lambda n, p: {"name": n, "input_schema": p}, "", "input_schema", {"tool_choice": {"type": "any"}}),
        )
        fine = ("f", {})
        for path, form, inner, schema, must in forms:
            body = {"messages": HI} if path != "responses" else {"input": "Hi"}
            for bad, field, more in (
                (("a b", {}), "name", {}), (("", {}), "name", {}), (("x" * 65, {}), "name", {}), (fine, "name", {}), (("g", "x"), schema, {}),
                (("g", {"type": "string"}), schema, must), (("g", {"properties": {"a": {"type": "strange"}}}), schema, must),
            ):  # fmt: skip
                with self.subTest(path, bad=bad):
                    tools = [form(*fine), form(*bad)]
                    status, _, answer = self.post("/v1/" + path, {**body, "max_tokens": 1, "tools": tools, **more})
                    error = answer["error"]
                    self.assertEqual(status, 400, answer)
                    if path == "messages":  # its errors have no such field
                        self.assertIn("tool g: " if more else "tools[1]." + field, error["message"])
                    else:
                        self.assertEqual(error["param"], f"tools[1].{inner}{field}")

    def test_other_tools_are_skipped(self):
        raw = self.client.chat.completions.with_raw_response.create(
            model="x", messages=HI, tools=[{"type": "web_search"}, STOP, {"type": "custom", "custom": {"name": "y"}}], tool_choice="required",
            max_tokens=600, seed=4, extra_body=self.NO_THOUGHT,
        )  # fmt: skip
        self.assertEqual({c.function.name for c in raw.parse().choices[0].message.tool_calls}, {"stop"})
        self.assertEqual(raw.headers["x-tern-ignored"], "tools[0] (web_search), tools[2] (custom)")

    def test_tool_refusals(self):
        nameless = {"type": "function", "function": {}}
        wrong = {"type": "function", "function": {"name": "a b"}}
        for param, more in (
            ("tools[0].function.name", {"tools": [nameless]}), ("tools[0].function.name", {"tools": [wrong]}),
            ("tools[1].function.name", {"tools": [STOP, STOP]}), ("tools[0].function", {"tools": [{"type": "function"}]}),
            ("tool_choice.function.name", {"tool_choice": {"type": "function", "function": {"name": "no"}}}), ("tool_choice", {"tool_choice": "perhaps"}),
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
        self.assertTrue(text.startswith("<|im_start|>system\none<|im_end|>"), text)
        self.assertIn("cat\n\ntwo<|im_end|>", text)
        first = [{"role": r, "content": r} for r in ("system", "developer")]
        self.assertTrue(self.prompt([*first, *HI]).startswith("<|im_start|>system\nsystem\n\ndeveloper<|im_end|>"))

    @staticmethod
    def matched(said):
        """What each result of this history belongs to, by the words of dialog.h: (turn, call), or None."""
        of = {}
        for by_id in (True, False):
            for i, m in enumerate(said):
                if m["role"] != "tool" or i in of or (by_id and "tool_call_id" not in m):
                    continue
                for at in range(i - 1, -1, -1):
                    calls = said[at].get("tool_calls", ())
                    free = [k for k, c in enumerate(calls) if (at, k) not in of.values() and (not by_id or c["id"] == m["tool_call_id"])]
                    if free:
                        of[i] = (at, free[0])
                    if free or (calls and not by_id):
                        break
        return of

    def test_results_find_their_calls(self):
        """Ids that come again, are missing or unknown: written as the same history with an id for each call."""
        r, seen = random.Random(3), 0
        for _ in range(60):
            said = [{"role": "user", "content": "hi"}]
            for i in range(r.randrange(1, 16)):
                kind = r.choice(("user", "call", "tool", "tool", "tool"))
                ids = [{"tool_call_id": r.choice("abcx")}, {"tool_call_id": r.choice("abcx")}, {}]
                if kind == "user":
                    said.append({"role": "user", "content": f"u{i}"})
                elif kind == "tool":
                    said.append({"role": "tool", "content": f"r{i}", **r.choice(ids)})
                else:
                    calls = [{"id": r.choice("abc"), "function": {"name": f"f{i}_{k}", "arguments": "{}"}} for k in range(r.randrange(1, 5))]
                    said.append({"role": "assistant", "content": "", "tool_calls": calls})
            of, plain = self.matched(said), []
            for i, m in enumerate(said):
                if m["role"] == "tool" and i not in of:
                    plain.append({"role": "user", "content": m["content"]})
                if m["role"] != "tool":
                    plain.append({**m, "tool_calls": [{**c, "id": f"{i}_{k}"} for k, c in enumerate(m.get("tool_calls", ()))]})
                results = {of[j][1]: said[j] for j in of if of[j][0] == i}
                for k in range(len(m.get("tool_calls", ()))):
                    plain.append({"role": "tool", "content": "", **results.get(k, {}), "tool_call_id": f"{i}_{k}"})
            seen += len(of)
            self.assertEqual(self.prompt(said), self.prompt(plain), said)
        self.assertGreater(seen, 100)

    def test_results_stand_in_the_order_of_their_calls(self):
        """This template has no ids: only the place says what a result belongs to."""
        calls = [{"id": i, "function": {"name": "stop", "arguments": "{}"}} for i in "ABC"]
        results = [{"role": "tool", "tool_call_id": i, "content": f"r{i}"} for i in "CA"]
        text = self.prompt([*HI, {"role": "assistant", "tool_calls": calls}, *results])
        self.assertEqual(re.findall("<tool_response>\n(.*)\n</tool_response>", text), ["rA", "", "rC"], text)

    def test_much_history_takes_time_in_proportion(self):
        def seconds(n, name):
            calls = [{"type": "tool_use", "id": f"c{i}", "name": "f", "input": {}} for i in range(n)]
            results = [{"type": "tool_result", "tool_use_id": name % i if "%" in name else name, "content": "r"} for i in range(n)]
            said = [HI[0], {"role": "assistant", "content": calls}, {"role": "user", "content": results}]
            before = self.server.seconds()
            self.assertEqual(self.post("/v1/messages", {"max_tokens": 1, "messages": said}, timeout=300)[0], 400)  # too long
            return self.server.seconds() - before

        n = 500 if SLOW else 3000
        for name in ("c%d", "unknown")[SLOW:]:
            few, many = seconds(n, name), seconds(4 * n, name)
            self.assertLess(many, 8 * few + 0.2, name)

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

    def test_marks_in_a_format(self):
        """Behind its thought an answer with a format is text, what looks like a thought or a call too."""
        want = {"a": "x<think>y</think>z", "b": '<tool_call>\n{"name": "add", "arguments": {}}\n</tool_call><think>'}
        schema = {"type": "object", "properties": {k: {"const": v} for k, v in want.items()}, "required": list(want), "additionalProperties": False}
        more = {"seed": 3, "logit_bias": {str(THINK): 2, str(THINK_END): 20}}
        asked = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 400, **more}
        for thinks in (True, False):
            chat = {**asked, "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}, "chat_template_kwargs": {"enable_thinking": thinks}}
            message = self.server.post("/v1/chat/completions", chat)[2]["choices"][0]["message"]
            parts = [json.loads(data)["choices"][0]["delta"] for _, data in self.server.events("/v1/chat/completions", {**chat, "stream": True}) if data != "[DONE]"]
            response = {"input": "Hi", "max_output_tokens": 400, **more, "text": {"format": {"type": "json_schema", "name": "a", "schema": schema}}, "reasoning": {"effort": "high" if thinks else "none"}}
            items = self.server.post("/v1/responses", response)[2]["output"]
            messages = {**asked, "output_config": {"format": {"type": "json_schema", "schema": schema}}, "thinking": {"type": "adaptive" if thinks else "disabled"}}
            blocks = self.server.post("/v1/messages", messages)[2]["content"]
            texts = {
                "chat": message["content"],
                "stream": "".join(d.get("content") or "" for d in parts),
                "responses": "".join(c["text"] for i in items if i["type"] == "message" for c in i["content"]),
                "messages": "".join(b["text"] for b in blocks if b["type"] == "text"),
            }
            for name, text in texts.items():
                with self.subTest(name, thinks=thinks):
                    self.assertEqual(json.loads(text), want)
            self.assertEqual([b["type"] for b in blocks][-1:], ["text"])
            choice = {**asked, "structured_outputs": {"choice": ["<think>a</think>"]}, "chat_template_kwargs": {"enable_thinking": thinks}}
            self.assertEqual(self.server.post("/v1/chat/completions", choice)[2]["choices"][0]["message"]["content"], "<think>a</think>")
            if not thinks:
                self.assertNotIn("reasoning_content", message)


class LongCalls(Client):
    """Arguments of 100 KB, of 40 bytes a token"""

    WORD = "abcdefghijklmnopqrstuvwxyz0123456789_-+ "

    @classmethod
    def setUpClass(cls):
        cls.MODEL, cls.ARGUMENTS = speller(cls.WORD), ["--ctx-size", "16384", "--parallel", "1"]
        super().setUpClass()

    def test_streamed_and_whole(self):
        """Are the same in every API."""
        text = self.WORD * 2560
        schema = {"type": "object", "properties": {"input": {"const": text}}, "required": ["input"], "additionalProperties": False}
        tool, want = {"name": "write", "parameters": schema}, {"input": text}
        chat = {"messages": HI, "max_tokens": 8000, "tools": [{"type": "function", "function": tool}], "tool_choice": "required", "parallel_tool_calls": False,
                "chat_template_kwargs": {"enable_thinking": False}}  # fmt: skip
        whole = self.post("/v1/chat/completions", chat)[2]["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
        self.assertEqual(json.loads(whole), want)
        events = [json.loads(data) for _, data in self.events("/v1/chat/completions", {**chat, "stream": True}) if data != "[DONE]"]
        self.assertEqual("".join(c["function"]["arguments"] for e in events if e["choices"] for c in e["choices"][0]["delta"].get("tool_calls") or []), whole)
        response = {"input": "Hi", "max_output_tokens": 8000, "tools": [{"type": "function", **tool}], "tool_choice": "required", "parallel_tool_calls": False, "reasoning": {"effort": "none"}}
        self.assertEqual(self.post("/v1/responses", response)[2]["output"][0]["arguments"], whole)
        events = [json.loads(data) for _, data in self.events("/v1/responses", {**response, "stream": True}) if data != "[DONE]"]
        self.assertEqual("".join(e["delta"] for e in events if e["type"] == "response.function_call_arguments.delta"), whole)
        self.assertEqual(events[-1]["response"]["output"][0]["arguments"], whole)
        message = {"messages": HI, "max_tokens": 8000, "tools": [{"name": "write", "input_schema": schema}], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}
        self.assertEqual(self.post("/v1/messages", message)[2]["content"][0]["input"], want)
        events = [json.loads(data) for _, data in self.events("/v1/messages", {**message, "stream": True})]
        self.assertEqual("".join(e["delta"].get("partial_json", "") for e in events if e["type"] == "content_block_delta"), whole)


class Gemma(Client):
    """Its arguments are no JSON, and texts among them stand between quotes of their own."""

    @classmethod
    def setUpClass(cls):
        cls.MODEL, cls.ARGUMENTS = caller("declared", '<|"|>'), []
        super().setUpClass()

    def test_texts_come_in_pieces(self):
        schema = {"type": "object", "required": ["n", "path", "text"], "additionalProperties": False, "properties": {
            "n": {"type": "integer", "minimum": 1, "maximum": 99}, "path": {"type": "string", "maxLength": 9}, "text": {"type": "string", "minLength": 60, "maxLength": 90}}}  # fmt: skip
        tool = {"type": "function", "function": {"name": "write", "description": "d", "parameters": schema}}
        more = {"tools": [tool], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 900}
        for seed in range(3):
            want = self.chat(seed=seed, **more).choices[0].message.tool_calls[0].function
            self.assertEqual(set(json.loads(want.arguments)), {"n", "path", "text"})
            told = [c.function for chunk in self.chat(seed=seed, stream=True, **more) for c in chunk.choices[0].delta.tool_calls or []]
            self.assertEqual((told[0].name, "".join(f.arguments for f in told)), (want.name, want.arguments))
            self.assertGreater(len(told), 60)

    def test_objects_and_arrays(self):
        deep = {"type": "object", "required": ["x", "tags"], "additionalProperties": {"type": "boolean"}, "maxProperties": 4, "properties": {
            "x": {"type": ["integer", "null"], "minimum": 1, "maximum": 99}, "tags": {"type": "array", "items": {"enum": ["a, b", 'c"d', "e:f"]}, "minItems": 2, "uniqueItems": True}}}  # fmt: skip
        schema = {"type": "object", "properties": {"deep": deep, "s": {"const": "x"}}, "required": ["deep", "s"], "additionalProperties": False}
        tool = {"type": "function", "function": {"name": "w", "description": "d", "parameters": schema}}
        more = {"tools": [tool], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 3000, "temperature": 1.5}
        for seed in range(5):
            choice = self.chat(seed=seed, **more).choices[0]
            self.assertEqual(choice.finish_reason, "tool_calls")
            got = json.loads(choice.message.tool_calls[0].function.arguments)
            self.assertEqual((got["s"], list(got)), ("x", ["deep", "s"]))
            self.assertEqual(list(got["deep"])[:2], ["x", "tags"])
            self.assertTrue(got["deep"]["x"] is None or 1 <= got["deep"]["x"] <= 99)
            self.assertTrue(len(set(got["deep"]["tags"])) == len(got["deep"]["tags"]) >= 2 and set(got["deep"]["tags"]) <= {"a, b", 'c"d', "e:f"})
            self.assertTrue(all(isinstance(x, bool) for x in list(got["deep"].values())[2:]))
            told = [c.function for chunk in self.chat(seed=seed, stream=True, **more) for c in chunk.choices[0].delta.tool_calls or []]
            self.assertEqual(json.loads("".join(f.arguments for f in told)), got)

    def test_a_tool_that_cannot_be_enforced(self):
        """Is named once; a call that must come gets 400 and the path of its schema."""
        deep = {"type": "object", "properties": {"a b": {"type": "number"}}, "required": ["a b"], "additionalProperties": False}
        schema = {"type": "object", "properties": {"deep": deep}, "required": ["deep"], "additionalProperties": False}
        body = {"messages": HI, "max_tokens": 2, "tools": [STOP, {"type": "function", "function": {"name": "w", "parameters": schema}}]}
        status, headers, _ = self.post("/v1/chat/completions", body)
        self.assertEqual(status, 200)
        self.assertRegex(headers["x-tern-ignored"], "^tool w, argument deep: ")
        status, _, answer = self.post("/v1/chat/completions", body | {"tool_choice": "required"})
        self.assertEqual((status, answer["error"]["param"]), (400, "tools[1].function.parameters"), answer)


if __name__ == "__main__":
    unittest.main()
