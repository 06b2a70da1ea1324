"""/v1/messages of serve, as Anthropic's client and Claude Code use it."""

import asyncio
import json
import re
import unittest
from typing import Literal

import tool_lists
from serve_case import MODEL, ServeCase, occupied, together, until
from serve_models import THINK, THINK_END, thinker

try:
    import anthropic
    from pydantic import BaseModel
except ImportError:
    anthropic, BaseModel = None, object

TOOL, STOP = ({**{k: f[k] for k in f if k != "parameters"}, "input_schema": f["parameters"]} for f in (tool_lists.WEATHER, tool_lists.STOP))
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
THINKING = {"type": "enabled", "budget_tokens": 1024}
QUIET = {"logit_bias": {THINK: -100, THINK_END: -100}}  # no mark of a thought in a text
HI = [{"role": "user", "content": "Hi"}]
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
ANY, ONE_ANY = {"type": "any"}, {"type": "any", "disable_parallel_tool_use": True}


if BaseModel is not object:

    class City(BaseModel):
        name: Literal["Bonn", "Rome"]
        big: bool


def result(identity: str, content) -> dict:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": identity, "content": content}]}


def lasting(message: dict) -> dict:
    """Without what no two messages have in common"""
    usage = message["usage"]
    counts = (usage["input_tokens"] + usage["cache_read_input_tokens"], usage["output_tokens"], usage["output_tokens_details"])
    content = [{k: v for k, v in block.items() if k != "id"} for block in message["content"]]
    return {**{k: v for k, v in message.items() if k != "id"}, "content": content, "usage": counts}


@unittest.skipIf(anthropic is None, "anthropic is not installed (tools/requirements-serve.txt)")
class Client(ServeCase):
    @classmethod
    def setUpClass(cls):
        cls.MODEL = cls.MODEL if cls.MODEL != MODEL else thinker()
        super().setUpClass()
        cls.client = anthropic.Anthropic(base_url=cls.url, api_key="none", max_retries=0, timeout=60)
        cls.addClassCleanup(cls.client.close)

    def given(self, messages=HI, seed=3, **more) -> dict:
        quiet = {} if more.get("thinking") else QUIET
        extra = {"seed": seed, **quiet, **more.pop("extra_body", {})}
        return {"model": "any", "messages": messages, "max_tokens": 40, **more, "extra_body": extra}

    def create(self, *messages, **more):
        return self.client.messages.create(**self.given(*messages, **more))

    def text(self, *messages, **more) -> str:
        return "".join(b.text for b in self.create(*messages, **more).content if b.type == "text")

    def count(self, messages=HI, **more) -> int:
        return self.client.messages.count_tokens(model="any", messages=messages, **more).input_tokens

    def refused(self, place: str, word: str, **more):
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.create(**more)
        body = caught.exception.body
        self.assertEqual((body["type"], body["error"]["type"]), ("error", "invalid_request_error"))
        self.assertTrue(body["error"]["message"].startswith(place), body)
        self.assertIn(word, body["error"]["message"])

    def ignored(self, **more) -> str:
        raw = self.client.messages.with_raw_response.create(**self.given(**{"max_tokens": 1, **more}))
        self.assertEqual(raw.parse().type, "message")
        return raw.headers.get("x-tern-ignored", "")


class Whole(Client):
    def test_a_message(self):
        m = self.create(max_tokens=20000)
        self.assertEqual((m.type, m.role, m.model, m.stop_reason, m.stop_sequence), ("message", "assistant", "any", "end_turn", None))
        self.assertEqual([b.type for b in m.content], ["text"])
        self.assertTrue(m.id.startswith("msg_") and m.content[0].text)

    def test_the_log_has_numbers_of_tokens(self):
        u = self.create(max_tokens=3).usage
        line = f"prompt={u.input_tokens + u.cache_read_input_tokens} cached={u.cache_read_input_tokens} answer=3 finish=length"
        until(lambda: re.search(f"POST /v1/messages 200 .* {line}", self.server.text()), what=line)

    def test_a_length(self):
        m = self.create(max_tokens=7)
        self.assertEqual((m.stop_reason, m.usage.output_tokens), ("max_tokens", 7))

    def test_no_length_evaluates_the_prompt(self):
        m = self.create(max_tokens=0)
        self.assertEqual((m.stop_reason, m.usage.output_tokens), ("max_tokens", 0))

    def test_seeds(self):
        first, second, third = (self.text(seed=seed) for seed in (5, 5, 6))
        self.assertEqual(first, second)
        self.assertNotEqual(first, third)

    def test_stop_sequences(self):
        whole = self.text(max_tokens=60)
        stop = next(c for c in whole if c.isascii() and whole.index(c) > 4)
        m = self.create(max_tokens=60, stop_sequences=["not there", stop])
        self.assertEqual((m.stop_reason, m.stop_sequence), ("stop_sequence", stop))
        self.assertEqual(m.content[0].text, whole[: whole.index(stop)])
        m = self.create(max_tokens=60, stop_sequences=["", stop, ""])  # empty ones have no effect
        self.assertEqual((m.stop_reason, m.stop_sequence), ("stop_sequence", stop))

    def test_many_stop_sequences(self):
        for n in (5, 63, 64):
            self.create(max_tokens=1, stop_sequences=[f"stop {i}" for i in range(n)])
        self.refused("stop_sequences", "65", stop_sequences=["x"] * 65)

    def test_usage_and_count(self):
        for more in ({}, {"system": "S"}, {"tools": [TOOL, STOP]}, {"thinking": THINKING}, {"messages": [*HI, {"role": "assistant", "content": "Well"}]}):
            with self.subTest(more=more):
                usage = self.create(max_tokens=1, **more).usage
                self.assertEqual(usage.input_tokens + usage.cache_read_input_tokens, self.count(**more))

    def test_a_prompt_is_found_again(self):
        long = [{"role": "user", "content": "x" * 700}]
        self.create(long, max_tokens=1)
        usage = self.create(long, max_tokens=1).usage
        self.assertGreater(usage.cache_read_input_tokens, 500)
        self.assertEqual(usage.cache_creation_input_tokens, 0)

    def test_prefill(self):
        """The answer is what follows."""
        m = self.create([*HI, {"role": "assistant", "content": "The answer is ("}])
        self.assertFalse(m.content[0].text.startswith("The answer"))
        self.assertEqual(self.count([*HI, {"role": "assistant", "content": "The answer is ("}]), self.count() + len("The answer is ("))

    def test_thinking(self):
        for kind in (THINKING, {"type": "adaptive"}):
            m = self.create(thinking=kind, max_tokens=20000)
            self.assertEqual(m.content[0].type, "thinking")
            self.assertTrue(m.content[0].thinking and m.content[0].signature)
            self.assertGreater(m.usage.output_tokens_details.thinking_tokens, 0)
        for kind in ({"type": "disabled"}, anthropic.NOT_GIVEN):
            self.assertEqual([b.type for b in self.create(thinking=kind, extra_body=QUIET).content], ["text"])

    def test_thoughts_that_are_not_shown(self):
        shown = self.create(thinking=THINKING, max_tokens=20000)
        hidden = self.create(thinking={**THINKING, "display": "omitted"}, max_tokens=20000)
        self.assertEqual((hidden.content[0].thinking, hidden.content[0].signature), ("", shown.content[0].signature))
        self.assertEqual(hidden.content[1:], shown.content[1:])
        told = self.create(thinking={"type": "adaptive", "display": "updates"}, max_tokens=20000)  # as Claude Code asks
        self.assertEqual(told.content, shown.content)

    def test_a_schema(self):
        m = self.client.messages.parse(**self.given(max_tokens=20000), output_format=City)
        self.assertIsInstance(m.parsed_output, City)
        m = self.create(max_tokens=20000, output_config={"format": {"type": "json_schema", "schema": {"enum": ["yes", "no"]}}})
        self.assertIn(json.loads(m.content[0].text), ("yes", "no"))

    def test_a_schema_behind_a_thought(self):
        m = self.create(max_tokens=20000, thinking=THINKING, output_config={"format": {"type": "json_schema", "schema": {"enum": ["yes"]}}})
        self.assertEqual([b.type for b in m.content], ["thinking", "text"])
        self.assertEqual(json.loads(m.content[1].text), "yes")

    def test_system_texts(self):
        blocks = [{"type": "text", "text": "A", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "B"}]
        self.assertEqual(self.count(system="A\n\nB"), self.count(system=blocks))

    def test_sampling_options(self):
        greedy = [self.text(seed=seed, extra_body={"temperature": 0, "top_k": 40, "top_p": 0.9}) for seed in (1, 2)]
        self.assertEqual(*greedy)
        self.assertEqual(self.text(seed=1, extra_body={"top_k": 1}), greedy[0])


class Streams(Client):
    def check(self, **more) -> list[str]:
        """What the client adds up from the events is the message of a request without a stream."""
        given = self.given(**more)
        with self.client.messages.stream(**given) as s:
            types = [e.type for e in s if e.type not in ("text", "thinking", "signature", "input_json")]
            streamed = s.get_final_message()
        self.assertEqual(lasting(streamed.to_dict(exclude_unset=False)), lasting(self.client.messages.create(**given).to_dict(exclude_unset=False)))
        self.assertEqual((types[0], types[-2:]), ("message_start", ["message_delta", "message_stop"]))
        return types

    def test_text(self):
        types = self.check()
        self.assertEqual(list(dict.fromkeys(t for t in types if t != "ping")), [
            "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"])  # fmt: skip

    def test_thoughts(self):
        self.check(thinking=THINKING, max_tokens=20000)
        self.check(thinking={**THINKING, "display": "omitted"}, max_tokens=20000)
        self.check(thinking=THINKING, max_tokens=3)

    def test_calls(self):
        for choice in (ANY, ONE_ANY, {"type": "tool", "name": "stop"}, {"type": "tool", "name": "get_weather"}):
            self.check(tools=[TOOL, STOP], tool_choice=choice, max_tokens=2000)

    def test_the_input_grows(self):
        with self.client.messages.stream(**self.given(tools=[TOOL], tool_choice={"type": "tool", "name": TOOL["name"]}, max_tokens=2000)) as s:
            events = [e for e in s if e.type == "input_json"]
            block = s.get_final_message().content[-1]
        self.assertEqual(json.loads("".join(e.partial_json for e in events)), block.input)
        self.assertGreater(len(events), 10)
        sizes = [len(e.snapshot) for e in events]
        self.assertEqual((sizes, sizes[0], sizes[-1]), (sorted(sizes), 0, 2))

    def test_a_call_that_the_limit_cuts(self):
        """Its input has the members that are there, as the client makes them of the same stream."""
        tool = {"name": "write", "input_schema": {
            "type": "object", "properties": {"path": {"const": "a, \"b"}, "n": {"const": 1234}, "text": {"const": "\u00fc\n}"}},
            "required": ["path", "n", "text"], "additionalProperties": False}}  # fmt: skip
        more = {"tools": [tool], "tool_choice": {"type": "tool", "name": "write"}}
        whole = self.create(max_tokens=2000, **more)
        want, seen = whole.content[-1].input, []
        for n in range(1, whole.usage.output_tokens, 5):
            self.check(max_tokens=n, **more)
            m = self.create(max_tokens=n, **more)
            self.assertEqual(m.stop_reason, "max_tokens")
            if m.content[0].type == "text":
                self.assertFalse(m.content.pop(0).text.strip())
            for block in m.content:
                self.assertLessEqual(block.input.items(), want.items())
                seen += [block.input] if block.input not in seen else []
        self.assertEqual([len(s) for s in seen], [0, 1, 2, 3])

    def test_calls_behind_thoughts(self):
        self.check(tools=[TOOL, STOP], tool_choice=ONE_ANY, thinking=THINKING, max_tokens=20000)

    def test_stop_sequences(self):
        whole = self.text(max_tokens=60)
        self.check(max_tokens=60, stop_sequences=[next(c for c in whole if c.isascii())])

    def test_schemas(self):
        self.check(max_tokens=20000, output_config={"format": {"type": "json_schema", "schema": City.model_json_schema()}})

    def test_prefill(self):
        self.check(messages=[*HI, {"role": "assistant", "content": "So"}])

    def test_each_event_names_itself(self):
        body = {"model": "any", "messages": HI, "max_tokens": 3, "stream": True}
        events = list(self.server.events("/v1/messages?beta=true", body, headers={"x-api-key": "k", "anthropic-version": "2023-06-01"}))
        self.assertTrue(all(name == json.loads(data)["type"] for name, data in events))
        self.assertEqual([name for name, _ in events[:2]], ["message_start", "ping"])
        start = json.loads(events[0][1])["message"]
        self.assertEqual((start["stop_reason"], start["content"], start["usage"]["output_tokens"]), (None, [], 0))
        usage = start["usage"]
        self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], self.count())


class Conversations(Client):
    def test_several_turns_of_tools(self):
        messages = [{"role": "user", "content": "Weather?"}]
        for turn in range(3):
            m = self.create(messages, tools=[TOOL, STOP], tool_choice=ONE_ANY, seed=turn, max_tokens=20000)
            self.assertEqual((m.stop_reason, m.content[-1].type), ("tool_use", "tool_use"))
            call = m.content[-1]
            self.assertEqual(set(call.input), {"city", "days"} if call.name == "get_weather" else set())
            self.assertRegex(call.id, "^[a-zA-Z0-9_-]+$")
            messages += [m.to_param(), result(call.id, f"sunny {turn}")]
        m = self.create(messages, tools=[TOOL, STOP], tool_choice={"type": "none"}, max_tokens=20000)
        self.assertEqual((m.stop_reason, [b.type for b in m.content]), ("end_turn", ["text"]))

    def test_parallel_calls_and_their_results(self):
        for seed in range(20):
            m = self.create(tools=[TOOL, STOP], tool_choice=ANY, seed=seed, max_tokens=600)
            calls = [b for b in m.content if b.type == "tool_use"]
            if len(calls) > 1:
                break
        self.assertGreater(len({c.id for c in calls}), 1)
        results = [{"type": "tool_result", "tool_use_id": c.id, "content": [{"type": "text", "text": "ok"}]} for c in calls]
        after = self.create([*HI, m.to_param(), {"role": "user", "content": [*results, {"type": "text", "text": "Go on."}]}], tools=[TOOL, STOP])
        self.assertGreater(after.usage.output_tokens, 0)

    def test_thoughts_come_back(self):
        """Shown, or carried in the signature"""
        m = self.create(tools=[TOOL], tool_choice=ONE_ANY, thinking=THINKING, max_tokens=20000)
        thought, call = m.content
        bare = thought.to_dict() | {"thinking": ""}

        def count(*blocks):
            said = {"role": "assistant", "content": [*(b if isinstance(b, dict) else b.to_dict() for b in blocks), call.to_dict()]}
            return self.count([*HI, said, result(call.id, "sunny")], tools=[TOOL])

        self.assertEqual(count(thought), count(bare))
        self.assertGreater(count(thought), count())
        self.assertEqual(count(), count({**bare, "signature": "Eq4BCkYIBxgCKkA"}))
        self.assertEqual(count(), count({"type": "redacted_thinking", "data": "Eq4BCkYIBxgCKkA"}))

    def test_history_is_never_refused(self):
        use = {"type": "tool_use", "id": "toolu_1", "name": "gone", "input": {"a": 1}}
        for messages in (
            [{"role": "assistant", "content": "I begin"}, *HI],
            [*HI, *HI],
            [*HI, {"role": "assistant", "content": [use]}, *HI],
            [*HI, {"role": "assistant", "content": [use]}, {"role": "user", "content": [{"type": "text", "text": "first"}, *result("toolu_1", "r")["content"]]}],
            [result("toolu_9", "of nobody")],
            [*HI, {"role": "assistant", "content": []}, *HI],
            [*HI, {"role": "assistant", "content": [{**use, "input": "broken"}]}, result("toolu_1", [])],
            [*HI, {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]}, *HI],
            [*HI, {"role": "system", "content": "Now be brief."}],
        ):
            with self.subTest(messages=messages):
                self.assertEqual(self.create(messages, max_tokens=1).usage.output_tokens, 1)

    def test_results_in_blocks(self):
        said = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "stop", "input": {}}]}
        counts = [self.count([*HI, said, result("t1", content)], tools=[STOP]) for content in ("a\nb", [{"type": "text", "text": t} for t in "ab"])]
        self.assertEqual(*counts)
        self.assertIn("messages[2].content[0].content[0] (image)", self.ignored(messages=[*HI, said, result("t1", [IMAGE])]))

    def test_later_system_texts_keep_the_beginning(self):
        talk = [{"role": "user", "content": "U" * 600}]
        self.create(talk, max_tokens=1, system="S" * 300)
        usage = self.create([*talk, {"role": "system", "content": "Reminder"}], max_tokens=1, system="S" * 300).usage
        self.assertGreater(usage.cache_read_input_tokens, 768)


class Refusals(Client):
    def test_media_are_refused_by_name(self):
        self.refused("messages[0].content[0].type", "image", messages=[{"role": "user", "content": [IMAGE]}])
        pdf = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
        self.refused("messages[0].content[0].type", "document", messages=[{"role": "user", "content": [pdf]}])

    def test_wrong_types_and_values(self):
        for place, more in (
            ("max_tokens", {"max_tokens": -1}), ("temperature", {"extra_body": {"temperature": "hot"}}), ("messages", {"messages": []}),
            ("messages[0].role", {"messages": [{"role": "robot", "content": "x"}]}), ("messages[0].content", {"messages": [{"role": "user"}]}),
            ("messages[0].content", {"messages": [{"role": "user", "content": 7}]}), ("messages[0]", {"messages": [7]}),
            ("messages[0].content[0].type", {"messages": [{"role": "user", "content": [{"text": "x"}]}]}),
            ("messages[0].content[0].text", {"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]}),
            ("system", {"system": 7}), ("stop_sequences", {"stop_sequences": [7]}), ("thinking.type", {"thinking": {"type": "maybe"}}),
            ("tools[0].name", {"tools": [{"input_schema": {"type": "object"}}]}), ("tools[0].input_schema", {"tools": [{"name": "x"}]}),
            ("tool_choice.type", {"tool_choice": {"type": "all"}}), ("tool_choice.name", {"tool_choice": {"type": "tool", "name": "nobody"}}),
            ("output_config.format.type", {"output_config": {"format": {"type": "xml"}}}), ("stream", {"extra_body": {"stream": 1}}),
        ):  # fmt: skip
            with self.subTest(place=place, more=more):
                self.refused(place, "", **more)

    def test_faults_without_a_field_of_their_own_begin_with_one(self):
        bad = {"type": "object", "properties": {"a": {"type": "strange"}}}
        self.refused("output_config.format.schema: schema: ", "type", output_config={"format": {"type": "json_schema", "schema": bad}})
        self.refused("messages: ", "context", messages=[{"role": "user", "content": "a" * 200000}])

    def test_the_length_must_be_there(self):
        status, headers, answer = self.post("/v1/messages", {"messages": HI, "model": "m"})
        self.assertEqual((status, answer["type"], answer["error"]["type"]), (400, "error", "invalid_request_error"))
        self.assertTrue(headers["request-id"])

    def test_the_model_need_not_be_named(self):
        want = self.get("/v1/models")[2]["data"][0]["id"]
        for model in ({}, {"model": None}):
            status, _, answer = self.post("/v1/messages", {"messages": HI, "max_tokens": 1, **model})
            self.assertEqual((status, answer["model"]), (200, want))

    def test_errors_have_their_classes(self):
        with self.assertRaises(anthropic.BadRequestError):
            self.create(max_tokens=-1)
        with self.assertRaises(anthropic.NotFoundError):
            self.client.messages.batches.retrieve("b")
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.create([{"role": "user", "content": "x" * 33000}])
        self.assertIn("32768", str(caught.exception))

    def test_a_schema_that_cannot_be_enforced(self):
        schema = {"type": "object", "properties": {"a": {"$ref": "https://elsewhere.example/x"}}}
        self.refused("", "$ref", output_config={"format": {"type": "json_schema", "schema": schema}})

    def test_a_tool_that_cannot_be_enforced_is_still_there(self):
        odd = {**TOOL, "name": "odd", "input_schema": {"type": "object", "properties": {"a": {"$ref": "https://elsewhere.example/x"}}}}
        self.assertIn("tool odd: schema: $ref at #/properties/a: ", self.ignored(tools=[TOOL, odd]))

    def test_unknown_fields_are_named(self):
        text = self.ignored(extra_body={"frobnicate": 1}, messages=[{"role": "user", "content": "x", "mood": "good"}])
        self.assertIn("frobnicate", text)
        self.assertIn("messages[0].mood", text)

    def test_fields_without_effect_are_named(self):
        names = ["container", "context_management", "inference_geo", "mcp_servers", "speed"]
        text = self.ignored(extra_body={"metadata": {}, "service_tier": "auto", "output_config": {"effort": "high"}, **dict.fromkeys(names, "x")})
        self.assertEqual(sorted(text.split(", ")), sorted([*names, "output_config.effort"]))

    def test_server_tools_are_skipped(self):
        tools = [SEARCH, {"type": "bash_20250124", "name": "bash"}, TOOL]
        text = self.ignored(tools=tools)
        self.assertEqual(text, "tools[0] (web_search_20250305), tools[1] (bash_20250124)")
        self.assertIn("tool_choice (web_search)", self.ignored(tools=[SEARCH], tool_choice={"type": "tool", "name": "web_search"}))
        m = self.create(tools=tools, tool_choice=ONE_ANY, max_tokens=20000)
        self.assertEqual([b.name for b in m.content if b.type == "tool_use"], ["get_weather"])


class Thoughtless(ServeCase):
    ARGUMENTS = ["--chat-template", "chatml"]

    def test_thoughts_that_cannot_be_asked_for_are_named(self):
        for thinking, names in ((None, ""), ({"type": "disabled"}, ""), ({"type": "adaptive"}, "thinking"), ({"type": "enabled"}, "thinking")):
            with self.subTest(thinking):
                body = {"max_tokens": 1, "messages": HI, "thinking": thinking}
                status, headers, _ = self.post("/v1/messages", body)
                self.assertEqual((status, headers.get("x-tern-ignored", "")), (200, names))


class ClaudeCode(Client):
    """What Claude Code sends, by the field notes: a first block of the system text that is never the same, long tools, reminders."""

    TOOLS = [
        {"name": "Bash", "description": "Executes a bash command. " * 60, "input_schema": {
            "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {
                "command": {"type": "string", "description": "The command to execute"}, "timeout": {"type": "number", "description": "ms"},
                "run_in_background": {"type": "boolean"}}, "required": ["command"], "additionalProperties": False}},
        {"name": "Edit", "description": "Exact string replacements in files. " * 40, "input_schema": {
            "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {
                "file_path": {"type": "string"}, "old_string": {"type": "string"}, "new_string": {"type": "string"},
                "replace_all": {"type": "boolean", "default": False}}, "required": ["file_path", "old_string", "new_string"],
            "additionalProperties": False}},
        {"name": "WebFetch", "description": "Fetches a page.", "input_schema": {
            "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {
                "url": {"type": "string", "format": "uri"}, "prompt": {"type": "string"}}, "required": ["url", "prompt"], "additionalProperties": False}},
    ]  # fmt: skip

    HEADERS = {
        "x-api-key": "none", "anthropic-version": "2023-06-01", "x-app": "cli", "user-agent": "claude-cli/2.1.36 (external, cli)",
        "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14", "anthropic-dangerous-direct-browser-access": "true",
    }  # fmt: skip

    def body(self, n: int, *messages, **more) -> dict:
        return {
            "model": "claude-sonnet-4-5-20250929", "max_tokens": 300, "stream": True, "temperature": 1, "seed": 5,
            "metadata": {"user_id": "user_0_account__session_1"},
            "system": [
                {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.36.{n:03d}; cc_entrypoint=cli; cch={n * 7919 % 65536:05x};"},
                {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "Help with software. " * 100, "cache_control": {"type": "ephemeral"}}],
            "tools": self.TOOLS, "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "<system-reminder>\nAs you answer, keep to CLAUDE.md.\n</system-reminder>"},
                    {"type": "text", "text": "List the files.", "cache_control": {"type": "ephemeral"}}]},
                *messages],
            "thinking": {"type": "adaptive"}, "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "output_config": {"effort": "medium"}, **more,
        }  # fmt: skip

    def ask(self, n: int, *messages) -> dict:
        events = [json.loads(data) for _, data in self.server.events("/v1/messages?beta=true", self.body(n, *messages), headers=self.HEADERS)]
        self.assertEqual((events[0]["type"], events[-1]["type"]), ("message_start", "message_stop"))
        return events[-2]["usage"]

    def test_a_session_finds_its_beginning_again(self):
        first = self.ask(1)
        turn = [
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Look.", "signature": ""}, {"type": "text", "text": "I look."},
                                              {"type": "tool_use", "id": "toolu_01", "name": "Bash", "input": {"command": "ls"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_01", "content": "README.md", "is_error": False},
                                         {"type": "text", "text": "<system-reminder>The todo list is empty.</system-reminder>"}]},
        ]  # fmt: skip
        second = self.ask(2, *turn)
        total = first["input_tokens"] + first["cache_read_input_tokens"]
        self.assertGreater(total, 5000)
        self.assertGreater(second["cache_read_input_tokens"], total - 300)

    def test_the_volatile_block_is_dropped(self):
        counts = [self.post("/v1/messages/count_tokens?beta=true", {k: v for k, v in self.body(n).items() if k != "max_tokens"}, headers=self.HEADERS)
                  for n in (1, 999)]  # fmt: skip
        self.assertEqual([status for status, _, _ in counts], [200, 200])
        self.assertEqual(counts[0][2], counts[1][2])
        self.assertIn("system[0] (x-anthropic-billing-header)", counts[0][1]["x-tern-ignored"])

    def test_only_the_volatile_line_is_dropped(self):
        """In a block with more behind it, in a text, and through the other APIs"""
        volatile = "x-anthropic-billing-header: cc_version=1;\n"
        user = {"role": "user", "content": "Hi"}
        forms = (
            ("/v1/messages/count_tokens", lambda text: {"system": text, "messages": [user]}, "system"),
            ("/v1/messages/count_tokens", lambda text: {"system": [{"type": "text", "text": text}], "messages": [user]}, "system[0]"),
            ("/apply-template", lambda text: {"messages": [{"role": "system", "content": text}, user]}, "messages[0].content"),
            ("/apply-template", lambda text: {"messages": [{"role": "developer", "content": [{"type": "text", "text": text}]}, user]}, "messages[0].content[0]"),
            ("/v1/responses/input_tokens", lambda text: {"instructions": text, "input": "Hi"}, "instructions"),
        )
        for path, form, place in forms:
            with self.subTest(place):
                whole, rest = (self.post(path, form(text)) for text in (volatile + "Be kind.\nBe brief.", "Be kind.\nBe brief."))
                self.assertEqual((whole[0], whole[2]), (200, rest[2]))
                self.assertIn(f"{place} (x-anthropic-billing-header)", whole[1].get("x-tern-ignored", ""))
                self.assertNotEqual(whole[2], self.post(path, form("Be kind."))[2])

    def test_nothing_else_is_ignored(self):
        _, headers, _ = self.post("/v1/messages?beta=true", self.body(1, stream=False, max_tokens=1), headers=self.HEADERS)
        self.assertEqual(headers["x-tern-ignored"], "output_config.effort, system[0] (x-anthropic-billing-header), context_management")

    def test_a_search_of_its_own(self):
        body = self.body(1, stream=False, max_tokens=1, tools=[SEARCH], tool_choice={"type": "tool", "name": "web_search"})
        self.assertEqual(self.post("/v1/messages?beta=true", body, headers=self.HEADERS)[0], 200)

    def test_models(self):
        page = self.client.models.list()
        self.assertEqual([m.type for m in page.data], ["model"])
        self.assertTrue(page.data[0].display_name)


class Manners(Client):
    ARGUMENTS = ["--parallel", "1", "--queue", "1", "--ping", "1"]

    def test_async(self):
        async def both():
            async with anthropic.AsyncAnthropic(base_url=self.url, api_key="none") as client:
                whole = await client.messages.create(**self.given())
                async with client.messages.stream(**self.given()) as s:
                    texts = [t async for t in s.text_stream]
                return whole.content[0].text, "".join(texts)

        self.assertEqual(*asyncio.run(both()))

    def test_an_abort_frees_the_place(self):
        for _ in range(3):
            with self.client.messages.stream(**self.given(max_tokens=30000, extra_body={"ignore_eos": True})) as s:
                next(iter(s.text_stream))
        self.assertEqual(self.create(max_tokens=1).usage.output_tokens, 1)

    def test_a_stream_that_waits_is_kept_alive(self):
        """Behind a request that takes long. The client keeps pings to itself."""
        with occupied(self.server, "/v1/messages", {"model": "any", "messages": HI, "max_tokens": 30000, "ignore_eos": True}) as first:
            names = []
            for name, _ in self.server.events("/v1/messages", {"model": "any", "messages": HI, "max_tokens": 5, "stream": True}):
                names.append(name)
                if names.count("ping") == 2:  # the first follows message_start
                    first.close()
        self.assertEqual((names.count("ping"), names[-1]), (2, "message_stop"))

    def test_a_full_queue_is_tried_again(self):
        patient = anthropic.Anthropic(base_url=self.url, api_key="none", max_retries=6, timeout=60)
        self.addCleanup(patient.close)
        texts = together(5, lambda _: patient.messages.create(**self.given(max_tokens=500)).content[0].text)
        self.assertEqual(len(set(texts)), 1)


class Keys(Client):
    ARGUMENTS = ["--api-key", "sesame"]

    def test_both_headers_are_keys(self):
        for more in ({"api_key": "sesame"}, {"auth_token": "sesame", "api_key": None}):
            with anthropic.Anthropic(base_url=self.url, max_retries=0, **more) as client:
                self.assertEqual(client.messages.create(**self.given(max_tokens=1)).usage.output_tokens, 1)
        with self.assertRaises(anthropic.AuthenticationError) as caught:
            self.create()
        self.assertEqual(caught.exception.body["error"]["type"], "authentication_error")


if __name__ == "__main__":
    unittest.main()
