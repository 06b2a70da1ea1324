"""/v1/responses of serve, as OpenAI's client and Codex use it."""

import asyncio
import json
import math
import re
import unittest
from typing import Literal

import tool_lists
from serve_case import MODEL, ServeCase, occupied, together, until
from serve_models import THINK, THINK_END, thinker

try:
    import openai
    from pydantic import BaseModel
except ImportError:
    openai, BaseModel = None, object

TOOL = {"type": "function", **tool_lists.WEATHER, "strict": True}
STOP = {"type": "function", **tool_lists.STOP}
NONE = {"effort": "none"}
QUIET = {"logit_bias": {THINK: -100, THINK_END: -100}}  # no mark of a thought in a text
ITEMS = {"reasoning": "rs_", "message": "msg_", "function_call": "fc_"}


if BaseModel is not object:

    class City(BaseModel):
        name: Literal["Bonn", "Rome"]
        big: bool


def changing(response: dict) -> dict:
    """Without what no two responses have in common"""
    left = {k: v for k, v in response.items() if k not in ("id", "created_at", "completed_at")}
    left["usage"] = {**left["usage"], "input_tokens_details": None}
    left["output"] = [{k: v for k, v in item.items() if k not in ("id", "call_id")} for item in left["output"]]
    return left


@unittest.skipIf(openai is None, "openai is not installed (tools/requirements-serve.txt)")
class Client(ServeCase):
    @classmethod
    def setUpClass(cls):
        cls.MODEL = cls.MODEL if cls.MODEL != MODEL else thinker()
        super().setUpClass()
        cls.client = openai.OpenAI(base_url=f"{cls.url}/v1", api_key="none", max_retries=0, timeout=60)
        cls.addClassCleanup(cls.client.close)

    def create(self, input="Hi", **more):  # noqa: A002
        extra = {"seed": more.pop("seed", 3), **(QUIET if more.get("reasoning") == NONE else {}), **more.pop("extra_body", {})}
        return self.client.responses.create(model="any", input=input, extra_body=extra, **{"max_output_tokens": 40, **more})

    def refused(self, param: str, word: str, **more):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.create(**more)
        self.assertEqual((caught.exception.type, caught.exception.param), ("invalid_request_error", param))
        self.assertIn(word, caught.exception.message)

    def ignored(self, **more) -> str:
        raw = self.client.responses.with_raw_response.create(model="any", input=more.pop("input", "Hi"), max_output_tokens=1, **more)
        self.assertEqual(raw.parse().object, "response")
        return raw.headers.get("x-tern-ignored", "")


class Whole(Client):
    def test_a_response(self):
        r = self.create(reasoning=NONE)
        self.assertEqual((r.object, r.model, r.error, r.tools, r.tool_choice), ("response", "any", None, [], "auto"))
        self.assertTrue(r.id.startswith("resp_") and r.output_text)
        self.assertEqual(r.usage.total_tokens, r.usage.input_tokens + r.usage.output_tokens)
        self.assertEqual(r.usage.output_tokens_details.reasoning_tokens, 0)
        self.assertEqual((r.truncation, r.store, r.metadata, r.previous_response_id), ("disabled", False, {}, None))

    def test_the_same_seed_gives_the_same_text(self):
        first, second, third = (self.create(reasoning=NONE, seed=seed).output_text for seed in (5, 5, 6))
        self.assertEqual(first, second)
        self.assertNotEqual(first, third)

    def test_a_length_makes_it_incomplete(self):
        r = self.create(reasoning=NONE, max_output_tokens=7)
        self.assertEqual((r.status, r.incomplete_details.reason, r.usage.output_tokens), ("incomplete", "max_output_tokens", 7))
        self.assertEqual((r.output[0].status, r.completed_at), ("incomplete", None))

    def test_the_log_has_numbers_of_tokens(self):
        u = self.create(max_output_tokens=3, reasoning=NONE).usage
        line = f"prompt={u.input_tokens} cached={u.input_tokens_details.cached_tokens} answer=3 finish=length"
        until(lambda: re.search(f"POST /v1/responses 200 .* {line}", self.server.text()), what=line)

    def test_an_end_completes_it(self):
        r = self.create(reasoning=NONE, max_output_tokens=20000)
        self.assertEqual((r.status, r.incomplete_details, r.output[-1].status), ("completed", None, "completed"))
        self.assertGreaterEqual(r.completed_at, r.created_at)

    def test_options_are_repeated(self):
        r = self.create(temperature=0.5, top_p=0.25, instructions="Be brief.", metadata={"a": "b"}, prompt_cache_key="k",
                        safety_identifier="me", parallel_tool_calls=False, store=True)  # fmt: skip
        self.assertEqual((r.temperature, r.top_p, r.instructions, r.metadata), (0.5, 0.25, "Be brief.", {"a": "b"}))
        self.assertEqual((r.prompt_cache_key, r.safety_identifier, r.parallel_tool_calls, r.store), ("k", "me", False, True))

    def test_a_prompt_is_found_again(self):
        long = "x" * 700
        before = self.create(long, reasoning=NONE, max_output_tokens=1).usage
        after = self.create(long, reasoning=NONE, max_output_tokens=1).usage
        self.assertEqual(before.input_tokens, after.input_tokens)
        self.assertGreater(after.input_tokens_details.cached_tokens, 500)

    def test_thoughts(self):
        r = self.create(reasoning={"effort": "low"}, max_output_tokens=20000)
        thought = r.output[0]
        self.assertEqual((thought.type, thought.summary, thought.content[0].type), ("reasoning", [], "reasoning_text"))
        self.assertGreater(r.usage.output_tokens_details.reasoning_tokens, 0)
        self.assertLessEqual(r.usage.output_tokens_details.reasoning_tokens, r.usage.output_tokens)
        self.assertEqual(r.output[-1].type, "message")

    def test_a_summary_is_the_thought(self):
        plain = self.create(reasoning={"effort": "low"}, max_output_tokens=20000)
        r = self.create(reasoning={"effort": "low", "summary": "auto"}, max_output_tokens=20000)
        self.assertEqual(r.output[0].summary[0].text, plain.output[0].content[0].text)
        self.assertEqual((r.reasoning.summary, r.output_text), ("auto", plain.output_text))

    def test_ids_name_their_kind(self):
        r = self.create(tools=[TOOL], tool_choice="required", reasoning={"effort": "low"}, max_output_tokens=20000)
        self.assertEqual([item.type for item in r.output], ["reasoning", "function_call"])
        self.assertTrue(all(item.id.startswith(ITEMS[item.type]) for item in r.output))

    def test_a_schema(self):
        r = self.client.responses.parse(model="any", input="A city", text_format=City, reasoning=NONE, max_output_tokens=20000)
        self.assertIsInstance(r.output_parsed, City)

    def test_a_schema_behind_a_thought(self):
        r = self.client.responses.parse(model="any", input="A city", text_format=City, reasoning={"effort": "low"}, max_output_tokens=20000)
        self.assertEqual([item.type for item in r.output], ["reasoning", "message"])
        self.assertIsInstance(r.output_parsed, City)

    def test_an_object(self):
        r = self.create(text={"format": {"type": "json_object"}}, reasoning=NONE, max_output_tokens=20000)
        self.assertIsInstance(json.loads(r.output_text), dict)

    def test_logprobs(self):
        r = self.create(reasoning=NONE, include=["message.output_text.logprobs"], top_logprobs=3)
        entries = r.output[0].content[0].logprobs
        self.assertEqual(b"".join(bytes(e.bytes) for e in entries).decode("utf-8", "replace"), r.output_text)
        for e in entries:
            self.assertEqual(len(e.top_logprobs), 3)
            self.assertTrue(e.logprob <= e.top_logprobs[0].logprob <= 0)
            self.assertLessEqual(sum(math.exp(t.logprob) for t in e.top_logprobs), 1 + 1e-9)
        self.assertEqual(self.create(reasoning=NONE).output[0].content[0].logprobs, [])

    def test_input_tokens(self):
        count = self.client.responses.input_tokens.count(model="any", input="Hello", instructions="Be brief.", tools=[TOOL])
        r = self.create("Hello", instructions="Be brief.", tools=[TOOL], max_output_tokens=1)
        self.assertEqual(count.input_tokens, r.usage.input_tokens)


class Streams(Client):
    def events(self, **more):  # noqa: A003
        extra = {"seed": 3, **(QUIET if more.get("reasoning") == NONE else {})}
        with self.client.responses.create(model="any", extra_body=extra, stream=True, **{"input": "Hi", "max_output_tokens": 40, **more}) as s:
            return list(s)

    def check(self, **more) -> list[str]:
        """Events in their order; what they add up to is the response of a request without a stream."""
        events = self.events(**more)
        self.assertEqual([e.sequence_number for e in events], list(range(len(events))))
        types = [e.type for e in events]
        self.assertEqual(types[:2], ["response.created", "response.in_progress"])
        final = events[-1].response.to_dict()
        self.assertEqual(changing(final), changing(self.create(**{"input": "Hi", **more}).to_dict()))
        parts = {}
        for e in events:
            if e.type.endswith(".delta"):
                key = (e.output_index, e.type.removesuffix(".delta"))
                parts[key] = parts.get(key, "") + e.delta
            elif e.type.endswith(("_text.done", "arguments.done", "input.done")):
                told = next(v for v in (getattr(e, name, None) for name in ("text", "arguments", "input")) if v is not None)
                self.assertEqual(parts.get((e.output_index, e.type.removesuffix(".done")), ""), told)
            elif e.type == "response.output_item.added":
                self.assertEqual(e.item.status, "in_progress")
            elif e.type == "response.output_item.done":
                self.assertEqual(e.item.to_dict(), final["output"][e.output_index])
        done = [e.output_index for e in events if e.type == "response.output_item.done"]
        self.assertEqual(done, list(range(len(final["output"]))))
        return types

    def test_text(self):
        types = self.check(reasoning=NONE)
        self.assertEqual([t for t in dict.fromkeys(types)], [
            "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
            "response.output_text.delta", "response.output_text.done", "response.content_part.done", "response.output_item.done",
            "response.incomplete",
        ])  # fmt: skip

    def test_logprobs(self):
        self.check(reasoning=NONE, include=["message.output_text.logprobs"], top_logprobs=2)

    def test_thoughts(self):
        types = self.check(reasoning={"effort": "high"}, max_output_tokens=20000)
        self.assertIn("response.reasoning_text.delta", types)
        self.assertEqual(types[-1], "response.completed")

    def test_a_thought_cut_short(self):
        types = self.check(reasoning={"effort": "high"}, max_output_tokens=3)
        self.assertEqual((types[-1], "response.output_text.delta" in types), ("response.incomplete", False))

    def test_summaries(self):
        types = self.check(reasoning={"effort": "high", "summary": "detailed"}, max_output_tokens=20000)
        for name in ("part.added", "text.delta", "text.done", "part.done"):
            self.assertIn(f"response.reasoning_summary_{name}", types)

    def test_carried_thoughts(self):
        self.check(reasoning={"effort": "high", "summary": "auto"}, include=["reasoning.encrypted_content"], max_output_tokens=20000)

    def test_calls(self):
        types = self.check(tools=[TOOL], tool_choice="required", max_output_tokens=20000)
        self.assertIn("response.function_call_arguments.done", types)
        self.assertGreater(types.count("response.function_call_arguments.delta"), 10)

    def test_custom_calls(self):
        types = self.check(tools=[{"type": "custom", "name": "patch"}], tool_choice="required", reasoning=NONE, max_output_tokens=20000)
        self.assertIn("response.custom_tool_call_input.done", types)

    def test_calls_that_the_limit_cuts(self):
        statuses = set()
        for tool in (TOOL, {"type": "custom", "name": "patch"}):
            more = {"tools": [tool], "tool_choice": "required", "parallel_tool_calls": False, "reasoning": NONE}
            for n in range(10, 80, 7):
                self.check(max_output_tokens=n, **more)
                r = self.create(max_output_tokens=n, **more)
                if r.status == "completed":
                    break
                self.assertFalse(r.output_text.strip())
                statuses.add((r.output[-1].type, r.output[-1].status))
        self.assertLessEqual({("function_call", "incomplete"), ("custom_tool_call", "incomplete")}, statuses)

    def test_schemas(self):
        self.check(text={"format": {"type": "json_object"}}, reasoning=NONE, max_output_tokens=20000)

    def test_the_clients_own_accumulation(self):
        with self.client.responses.stream(model="any", input="A city", text_format=City, reasoning=NONE, max_output_tokens=20000) as s:
            texts = "".join(e.delta for e in s if e.type == "response.output_text.delta")
            final = s.get_final_response()
        self.assertEqual(final.output_text, texts)
        self.assertIsInstance(final.output_parsed, City)


class Conversations(Client):
    def tokens(self, items, **more) -> int:
        return self.client.responses.input_tokens.count(model="any", input=items, **more).input_tokens

    def test_several_turns_of_tools(self):
        items, names = [{"role": "user", "content": "Weather?"}], []
        for turn in range(3):
            r = self.create(items, tools=[TOOL, STOP], tool_choice="required", seed=turn, max_output_tokens=20000)
            call = r.output[-1]
            names.append(call.name)
            self.assertEqual(call.type, "function_call")
            arguments = json.loads(call.arguments)
            self.assertEqual(set(arguments), {"city", "days"} if call.name == "get_weather" else set())
            items += [i.to_dict() for i in r.output] + [{"type": "function_call_output", "call_id": call.call_id, "output": f"sunny {turn}"}]
        r = self.create(items, tools=[TOOL, STOP], tool_choice="none", max_output_tokens=20000)
        self.assertNotIn("function_call", [item.type for item in r.output])

    def test_one_function(self):
        for name in ("stop", "get_weather"):
            r = self.create(tools=[TOOL, STOP], tool_choice={"type": "function", "name": name}, parallel_tool_calls=False, reasoning=NONE,
                            max_output_tokens=20000)  # fmt: skip
            self.assertEqual([i.name for i in r.output if i.type == "function_call"], [name])

    def test_a_custom_tool_gets_a_text(self):
        patch = {"type": "custom", "name": "apply_patch", "description": "Edits files."}
        for choice in ("required", {"type": "custom", "name": "apply_patch"}):
            r = self.create(tools=[patch], tool_choice=choice, parallel_tool_calls=False, reasoning=NONE, max_output_tokens=20000)
            call = r.output[-1]
            self.assertEqual((call.type, call.name), ("custom_tool_call", "apply_patch"))
            self.assertNotIn('{"input"', call.input)
        items = [{"role": "user", "content": "Hi"}, call.to_dict(), {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "Done"}]
        self.assertGreater(self.create(items, tools=[patch]).usage.input_tokens, r.usage.input_tokens)

    def test_tools_of_a_namespace(self):
        tools = [STOP, {"type": "namespace", "name": "mcp__weather", "description": "Weather", "tools": [TOOL, STOP]}]
        r = self.create(tools=tools, tool_choice={"type": "function", "name": "get_weather"}, parallel_tool_calls=False, reasoning=NONE,
                        max_output_tokens=20000)  # fmt: skip
        self.assertEqual((r.output[-1].name, r.output[-1].namespace), ("get_weather", "mcp__weather"))
        self.assertIn("tools[1].tools[1] (a second stop)", self.ignored(tools=tools))

    def test_allowed_tools(self):
        choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "stop"}]}
        for seed in range(4):
            r = self.create(tools=[TOOL, STOP], tool_choice=choice, reasoning=NONE, seed=seed, max_output_tokens=20000)
            self.assertEqual({i.name for i in r.output if i.type == "function_call"}, {"stop"})
        self.assertEqual(r.usage.input_tokens, self.tokens("Hi", tools=[TOOL, STOP], reasoning=NONE))

    def test_parallel_calls(self):
        counts = {parallel: 0 for parallel in (True, False)}
        for parallel in counts:
            for seed in range(6):
                r = self.create(tools=[TOOL, STOP], tool_choice="required", parallel_tool_calls=parallel, reasoning=NONE, seed=seed,
                                max_output_tokens=300)  # fmt: skip
                calls = [i for i in r.output if i.type == "function_call"]
                self.assertEqual(len({i.call_id for i in calls}), len(calls))
                counts[parallel] = max(counts[parallel], len(calls))
        self.assertEqual(counts[False], 1)
        self.assertGreaterEqual(counts[True], 1)

    def test_thoughts_come_back(self):
        """In each of the forms in which a client may carry them"""
        r = self.create([{"role": "user", "content": "Weather?"}], tools=[TOOL], tool_choice="required", reasoning={"effort": "low"}, parallel_tool_calls=False,
                        include=["reasoning.encrypted_content"], max_output_tokens=20000)  # fmt: skip
        thought, call = (item.to_dict() for item in r.output)
        self.assertTrue(thought["encrypted_content"])
        text = thought["content"][0]["text"]
        bare = {"type": "reasoning", "id": "rs_1", "summary": []}

        def count(*items):
            output = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
            return self.tokens([{"role": "user", "content": "Weather?"}, *items, call, output], tools=[TOOL])

        whole = count(thought)
        self.assertEqual(whole, count({**bare, "encrypted_content": thought["encrypted_content"]}))
        self.assertEqual(whole, count({**bare, "summary": [{"type": "summary_text", "text": text}]}))
        self.assertGreater(whole, count())
        self.assertEqual(count(), count({**bare, "encrypted_content": "gAAAAB-of-somebody-else"}))

    def test_history_is_never_refused(self):
        call = {"type": "function_call", "call_id": "c1", "name": "gone", "arguments": "{broken"}
        for items in (
            [{"role": "assistant", "content": "I begin"}, {"role": "user", "content": "Hi"}],
            [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}, call],
            [call, {"type": "function_call_output", "call_id": "other", "output": "?"}],
            [{"role": "user", "content": ""}, {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}],
            [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}, {"role": "developer", "content": "D"}],
            [{"type": "message", "role": "assistant", "id": "m", "status": "completed", "content": [{"type": "output_text", "text": "T", "annotations": []}]}],
            [{"role": "user", "content": "x"}, {"type": "web_search_call", "id": "ws_1", "status": "completed"}],
            [{"role": "user", "content": "x"}, {**call, "arguments": "[]"}, {"type": "function_call_output", "call_id": "c1", "output": []}],
            [{"role": "user", "content": "x"}, {"type": "local_shell_call", "id": "l", "call_id": "c", "status": "completed", "action": {"type": "exec", "command": ["ls"], "env": {}}}],
        ):
            with self.subTest(items=items):
                self.assertGreater(self.create(items, max_output_tokens=1).usage.input_tokens, 0)

    def test_results_in_parts(self):
        call = {"type": "function_call", "call_id": "c1", "name": "stop", "arguments": "{}"}
        parts = [{"type": "input_text", "text": "sun"}, {"type": "input_text", "text": "ny"}]
        counts = [self.tokens([{"role": "user", "content": "x"}, call, {"type": "function_call_output", "call_id": "c1", "output": o}], tools=[STOP])
                  for o in ("sunny", parts)]  # fmt: skip
        self.assertEqual(*counts)
        image = [{"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}]
        self.assertIn("input[1].output[0]", self.ignored(input=[call, {"type": "function_call_output", "call_id": "c1", "output": image}]))

    def test_later_system_texts_keep_the_beginning(self):
        talk = [{"role": "developer", "content": "D" * 300}, {"role": "user", "content": "U" * 300}]
        self.create(talk, max_output_tokens=1)
        r = self.create([*talk, {"role": "developer", "content": "Now be brief."}], max_output_tokens=1)
        self.assertGreater(r.usage.input_tokens_details.cached_tokens, 512)


class Refusals(Client):
    def test_what_needs_a_store(self):
        self.refused("previous_response_id", "stores no responses", previous_response_id="resp_1")
        self.refused("conversation", "stores no responses", conversation="conv_1")
        self.refused("background", "stores no responses", background=True)
        self.refused("prompt", "stores no prompts", prompt={"id": "pmpt_1"})
        self.refused("input[0].type", "stores no items", input=[{"type": "item_reference", "id": "msg_1"}])

    def test_media_are_refused_by_name(self):
        image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}
        self.refused("input[0].content[1].type", "input_image", input=[{"role": "user", "content": [{"type": "input_text", "text": "x"}, image]}])

    def test_wrong_types_and_values(self):
        for param, more in (
            ("temperature", {"temperature": -1}), ("top_p", {"top_p": 3}), ("max_output_tokens", {"max_output_tokens": 0}),
            ("top_logprobs", {"top_logprobs": 21}), ("include", {"include": [7]}), ("reasoning.effort", {"reasoning": {"effort": "much"}}),
            ("text.format.type", {"text": {"format": {"type": "xml"}}}), ("tools[0].name", {"tools": [{"type": "function"}]}),
            ("tools[1].parameters", {"tools": [STOP, {"type": "function", "name": "x", "parameters": "y"}]}),
            ("tool_choice", {"tool_choice": "always"}), ("tool_choice.name", {"tool_choice": {"type": "function", "name": "nobody"}}),
            ("input[0].role", {"input": [{"role": "robot", "content": "x"}]}), ("input[0].content", {"input": [{"role": "user", "content": 7}]}),
            ("input[1]", {"input": [{"role": "user", "content": "x"}, 7]}), ("input", {"input": {"role": "user"}}),
            ("truncation", {"truncation": "middle"}), ("metadata", {"metadata": [1]}), ("stream", {"extra_body": {"stream": "yes"}}),
        ):  # fmt: skip
            with self.subTest(param=param):
                self.refused(param, {"tool_choice.name": "no function", "tools[0].name": "required"}.get(param, "must"), **more)

    def test_the_input_must_be_there(self):
        status, _, answer = self.post("/v1/responses", {"model": "m"})
        self.assertEqual((status, answer["error"]["param"]), (400, "input"))

    def test_the_model_need_not_be_named(self):
        want = self.get("/v1/models")[2]["data"][0]["id"]
        for model in ({}, {"model": None}):
            status, _, answer = self.post("/v1/responses", {"input": "x", "max_output_tokens": 1, **model})
            self.assertEqual((status, answer["model"]), (200, want))

    def test_no_item(self):
        self.refused("input", "at least one", input=[])
        self.refused("input", "at least one", input=[], instructions="Say hello.")

    def test_a_schema_that_cannot_be_enforced(self):
        schema = {"type": "object", "properties": {"a": {"$ref": "https://elsewhere.example/x"}}}
        self.refused("text.format.schema", "$ref", text={"format": {"type": "json_schema", "name": "n", "schema": schema}})

    def test_a_format_beside_tools(self):
        r = self.create(tools=[TOOL], tool_choice="none", text={"format": {"type": "json_object"}}, reasoning=NONE, max_output_tokens=20000)
        json.loads(r.output_text)

    def test_a_prompt_that_does_not_fit(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.create("x" * 33000)
        self.assertEqual((caught.exception.code, caught.exception.param), ("context_length_exceeded", "input"))
        self.assertIn("32768", caught.exception.message)

    def test_unknown_fields_are_named(self):
        text = self.ignored(extra_body={"frobnicate": 1, "reasoning": {"effort": "low", "colour": 2}})
        self.assertIn("frobnicate", text)
        self.assertIn("reasoning.colour", text)

    def test_fields_without_effect_are_named(self):
        more = {"max_tool_calls": 2, "text": {"verbosity": "low"}, "stream_options": {"include_obfuscation": True}, "reasoning": {"context": "auto"}}
        text = self.ignored(extra_body={**more, "user": "me", "store": False, "metadata": {}, "moderation": {}})
        self.assertEqual(sorted(text.split(", ")), ["max_tool_calls", "moderation", "reasoning.context", "stream_options.include_obfuscation", "text.verbosity"])

    def test_unknown_tools_are_skipped(self):
        tools = [{"type": "web_search"}, {"type": "local_shell"}, TOOL, {"type": "mcp", "server_label": "x"}]
        text = self.ignored(tools=tools)
        for name in ("web_search", "local_shell", "mcp"):
            self.assertIn(name, text)
        r = self.create(tools=tools, tool_choice="required", reasoning=NONE, max_output_tokens=20000)
        self.assertEqual({i.name for i in r.output if i.type == "function_call"}, {"get_weather"})
        self.assertEqual([t.name for t in r.tools], ["get_weather"])

    def test_no_such_path(self):
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve("resp_1")


class Codex(Client):
    """What Codex sends, by the field notes: items with types, a shell tool, tools that no server knows, encrypted thoughts."""

    TOOLS = [
        {"type": "function", "name": "exec_command", "description": "Runs a command in a PTY.", "strict": False, "parameters": {
            "type": "object", "properties": {
                "cmd": {"type": "string", "description": "Shell command to execute."}, "workdir": {"type": "string"},
                "yield_time_ms": {"type": "number"}, "max_output_tokens": {"type": "number"}, "login": {"type": "boolean"}},
            "required": ["cmd"], "additionalProperties": False}},
        {"type": "function", "name": "update_plan", "description": "Updates the task plan.", "strict": False, "parameters": {
            "type": "object", "properties": {"explanation": {"type": "string"}, "plan": {"type": "array", "items": {
                "type": "object", "properties": {"step": {"type": "string"}, "status": {"type": "string"}},
                "required": ["step", "status"], "additionalProperties": False}}},
            "required": ["plan"], "additionalProperties": False}},
        {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
        {"type": "web_search", "external_web_access": False},
    ]  # fmt: skip

    def body(self, *items) -> dict:
        return {
            "model": "gpt-5.1-codex", "instructions": "You are a coding agent. " * 40,
            "input": [
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions>read only</permissions>"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context><cwd>/src</cwd></environment_context>"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List the files."}]}, *items],
            "tools": self.TOOLS, "tool_choice": "auto", "parallel_tool_calls": False, "reasoning": {"effort": "medium", "summary": "auto"},
            "store": False, "stream": True, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "0199-thread",
            "client_metadata": {"x-codex-installation-id": "7"}, "text": {"verbosity": "medium"}, "seed": 5, "max_output_tokens": 600,
        }  # fmt: skip

    HEADERS = {"originator": "codex_cli_rs", "session_id": "0199", "version": "0.63.0", "Accept": "text/event-stream"}

    def ask(self, *items) -> dict:
        events = [(name, json.loads(data)) for name, data in self.server.events("/v1/responses", self.body(*items), headers=self.HEADERS)]
        self.assertTrue(all(name == data["type"] for name, data in events))
        self.assertIn(events[-1][0], ("response.completed", "response.incomplete"))
        return events[-1][1]["response"]

    def test_a_session(self):
        first = self.ask()
        # Codex sends a thought back without its content, and results as text.
        items = [{k: v for k, v in i.items() if k not in ("status", "content" if i["type"] == "reasoning" else "")} for i in first["output"]]
        items += [
            {"type": "function_call", "name": "exec_command", "arguments": '{"cmd":"ls"}', "call_id": "call_1"},
            {"type": "function_call_output", "call_id": "call_1", "output": "Exit code: 0\nOutput:\nREADME.md\n"},
            {"type": "custom_tool_call", "status": "completed", "call_id": "call_2", "name": "apply_patch", "input": "*** Begin Patch\n*** End Patch"},
            {"type": "custom_tool_call_output", "call_id": "call_2", "output": '{"output":"Success","metadata":{"exit_code":0}}'},
        ]
        second = self.ask(*items)
        self.assertGreater(second["usage"]["input_tokens"], first["usage"]["input_tokens"])
        self.assertGreater(second["usage"]["input_tokens_details"]["cached_tokens"], 900)

    def test_nothing_is_lost_without_a_word(self):
        status, headers, _ = self.post("/v1/responses", {**self.body(), "stream": False, "max_output_tokens": 1})
        self.assertEqual((status, headers["x-tern-ignored"]), (200, "text.verbosity, tools[2].format, tools[3] (web_search)"))


class Manners(Client):
    ARGUMENTS = ["--parallel", "1", "--queue", "1", "--ping", "1"]

    def test_async(self):
        async def both():
            async with openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none") as client:
                whole = client.responses.create(model="any", input="Hi", max_output_tokens=30, extra_body={"seed": 3, **QUIET}, reasoning=NONE)
                stream = await client.responses.create(model="any", input="Hi", max_output_tokens=30, extra_body={"seed": 3, **QUIET}, reasoning=NONE, stream=True)
                texts = [e.delta async for e in stream if e.type == "response.output_text.delta"]
                return (await whole).output_text, "".join(texts)

        self.assertEqual(*asyncio.run(both()))

    def test_an_abort_frees_the_place(self):
        stream = self.create(reasoning=NONE, max_output_tokens=30000, stream=True, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        r = self.create(reasoning=NONE, max_output_tokens=3)
        self.assertEqual(r.usage.output_tokens, 3)

    def test_a_stream_that_waits_is_kept_alive(self):
        """By events: Codex counts no comments. Behind a request that takes long"""
        with occupied(self.server, "/v1/responses", {"model": "any", "input": "Hi", "max_output_tokens": 30000, "ignore_eos": True}) as first:
            with self.client.responses.stream(model="any", input="Hi", max_output_tokens=5, reasoning=NONE, extra_body={"seed": 3, **QUIET}) as s:
                numbers = []
                for e in s:
                    numbers.append(e.sequence_number)
                    if e.type == "keepalive":
                        first.close()
        self.assertEqual(numbers, list(range(len(numbers))))
        self.assertEqual(first.fileno(), -1)
        self.assertEqual(e.response.output[0].content[0].text, self.create(reasoning=NONE, max_output_tokens=5).output_text)

    def test_a_full_queue_is_tried_again(self):
        """503 with Retry-After: the client waits and comes back by itself."""
        patient = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=6, timeout=60)
        self.addCleanup(patient.close)
        given = {"model": "any", "input": "Hi", "max_output_tokens": 500, "reasoning": NONE, "extra_body": {"seed": 3, **QUIET}}
        texts = together(5, lambda _: patient.responses.create(**given).output_text)
        self.assertEqual(len(set(texts)), 1)

    def test_a_client_that_left_in_the_middle(self):
        for _ in range(3):
            stream = self.create(reasoning=NONE, max_output_tokens=30000, stream=True, extra_body={"ignore_eos": True})
            for e in stream:
                if e.type == "response.output_text.delta":
                    break
            stream.close()
        until(lambda: self.create(reasoning=NONE, max_output_tokens=1).usage.output_tokens == 1, what="an answer")


if __name__ == "__main__":
    unittest.main()
