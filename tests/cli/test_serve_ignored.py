"""serve: every field that the clients' own types know has an effect, is refused, or is named in x-tern-ignored.

The types of the openai and anthropic packages are walked: each field is sent once, beside a small request. One that gets 200 and is not named must be
in one of the tables below: somebody has looked at it."""

import collections.abc
import json
import types
import typing
import unittest

from serve_case import ServeCase
from serve_models import thinker

try:
    import anthropic
    import openai
except ImportError:
    openai = anthropic = None

DEPTH = 7
HI = [{"role": "user", "content": "Hi"}]

# What only informs, with all within: README.md names these
INFORMS = set("""user metadata client_metadata store service_tier safety_identifier user_profile_id betas cache_control prompt_cache_key
prompt_cache_retention prompt_cache_options prompt_cache_breakpoint model type id status annotations citations logprobs strict phase caller namespace
toolset_name index description max_output_length environment async""".split())
# What has an effect, by the last name of its path
EFFECT = set("""messages system prompt input content text role refusal tool_calls function custom function_call arguments tool_call_id call_id tool_use_id
tools functions parameters input_schema schema format tool_choice parallel_tool_calls disable_parallel_tool_use mode response_format output_config
reasoning thinking reasoning_effort effort display summary generate_summary encrypted_content signature is_error output outcome stdout stderr exit_code
action operation command commands env working_directory timeout_ms diff path instructions truncation properties required
stream stream_options include_usage n best_of echo seed temperature top_p presence_penalty frequency_penalty stop stop_sequences max_tokens
max_completion_tokens max_output_tokens top_logprobs encoding_format dimensions""".split())
# The same of names that elsewhere have none, by the end of the path
EFFECT_AT = tuple("""function.name functions.name custom.name function_call.name tools.name tool_choice.name content.name input.name json_schema.name
format.name messages.name content.title content.source""".split())


def plain(hint):
    """A type without Required, NotRequired and Annotated"""
    while typing.get_origin(hint) in (typing.Required, typing.NotRequired, typing.Annotated):
        hint = typing.get_args(hint)[0]
    return hint


def values(hint, depth=DEPTH):
    """(path within, value) of examples: the smallest first, then one with each field that may be there."""
    hint = plain(hint)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for a in args:
            yield from values(a, depth)
    elif origin is typing.Literal:
        for a in args[:2]:
            yield "", a
    elif hasattr(hint, "__required_keys__"):
        yield from objects(hint, depth)
    elif hint in (str, object, typing.Any):
        yield "", "x"
    elif hint is bool:
        yield "", True
    elif hint in (int, float):
        yield "", 1
    elif origin is dict or origin is collections.abc.Mapping:
        yield "", {"k": "v"}
    elif origin is not None and args:  # lists of all kinds
        for path, v in values(args[0], depth):
            yield path, [v]


def objects(hint, depth):
    if depth == 0:
        return
    hints = typing.get_type_hints(hint, include_extras=True)
    base = {}
    for key in hints:
        origin = typing.get_origin(hints[key])
        if origin is not typing.Required and (origin is typing.NotRequired or key not in hint.__required_keys__):
            continue
        first = next(values(hints[key], depth - 1), None)
        if first is None:
            return
        base[key] = first[1]
    yield "", base
    for key in hints:
        for path, v in values(hints[key], depth - 1):
            yield key + ("." + path if path else ""), {**base, key: v}


@unittest.skipUnless(openai and anthropic, "Python's openai and anthropic are not installed (tools/requirements-serve.txt)")
class Ignored(ServeCase):
    ARGUMENTS = ["--parallel", "2"]

    @classmethod
    def setUpClass(cls):
        cls.MODEL = thinker()
        super().setUpClass()

    def walk(self, path, hint, base):
        """Fields of `hint` that are neither refused nor named nor known"""
        silent, n, seen = set(), 0, set()
        for field, value in objects(hint, DEPTH):
            body = {**base, **{k: v for k, v in value.items() if k == field.split(".")[0]}}
            if not field or json.dumps([field, body], sort_keys=True) in seen:
                continue
            seen.add(json.dumps([field, body], sort_keys=True))
            status, headers, answer = self.post(path, body)
            n += 1
            self.assertIn(status, (200, 400, 404), (field, answer))
            named = headers.get("x-tern-ignored", "")
            if status != 200 or body.get("stream") or any(self.covers(name, field) for name in named.split(", ")):
                continue
            if not (INFORMS & set(field.split(".")) or field.split(".")[-1] in EFFECT or field.endswith(EFFECT_AT)):
                silent.add(field)
        self.assertGreater(n, 5)
        self.assertEqual(silent, set())

    @staticmethod
    def covers(name, field):
        """messages[0].content[0] (image) covers messages.content.source."""
        name = "".join("" if "0" <= c <= "9" else c for c in name.split(" (")[0].split(":")[0]).replace("[]", "")
        return field == name or field.startswith(name + ".") or name.startswith(field + ".")

    def test_chat(self):
        from openai.types.chat import completion_create_params as p

        self.walk("/v1/chat/completions", p.CompletionCreateParamsNonStreaming, {"messages": HI, "max_tokens": 1})

    def test_completions(self):
        from openai.types import completion_create_params as p

        self.walk("/v1/completions", p.CompletionCreateParamsNonStreaming, {"prompt": "x", "max_tokens": 1})

    def test_embeddings(self):
        from openai.types import embedding_create_params as p

        self.walk("/v1/embeddings", p.EmbeddingCreateParams, {"input": "x"})

    def test_responses(self):
        from openai.types.responses import response_create_params as p

        self.walk("/v1/responses", p.ResponseCreateParamsNonStreaming, {"input": "x", "max_output_tokens": 1})

    def test_messages(self):
        from anthropic.types import message_create_params as p

        self.walk("/v1/messages", p.MessageCreateParamsNonStreaming, {"messages": HI, "max_tokens": 1})

    def test_counts(self):
        from anthropic.types import message_count_tokens_params as p

        self.walk("/v1/messages/count_tokens", p.MessageCountTokensParams, {"messages": HI})

    def test_what_a_walk_cannot_tell(self):
        """The same name has an effect in other messages; or the effect must be seen."""
        chat = {"messages": [{"role": "user", "content": "Hi", "name": "Ann"}], "max_tokens": 1}
        self.assertEqual(self.post("/v1/chat/completions", chat)[1].get("x-tern-ignored"), "messages[0].name")
        for path, body in (("/v1/messages/count_tokens", {"messages": HI}), ("/v1/responses/input_tokens", {"input": "Hi"})):
            status, headers, _ = self.post(path, {**body, "receipt": True, "temperature": 1})
            self.assertEqual((status, headers.get("x-tern-ignored")), (200, "receipt, temperature"), path)
            self.assertEqual(self.post(path, {**body, "temperature": "hot"})[0], 400)

    def test_too_many_items(self):
        error = self.post("/v1/responses", {"input": [{"role": "user", "content": "x"}] * 4097})[2]["error"]
        self.assertEqual((error["param"], error["code"]), ("input", "limit_exceeded"))
        self.assertIn("4097 items; at most 4096", error["message"])

    def count(self, *blocks):
        talk = [{"role": "user", "content": "Go"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}]
        return self.post("/v1/messages/count_tokens", {"messages": [*talk, {"role": "user", "content": list(blocks)}]})[2]["input_tokens"]

    def test_errors_and_searches_are_written(self):
        def result(content, **more):
            return {"type": "tool_result", "tool_use_id": "t", "content": content, **more}

        self.assertEqual(self.count(result("Error: gone")), self.count(result("gone", is_error=True)))
        self.assertEqual(self.count(result("gone")), self.count(result("gone", is_error=False)))
        found = {"type": "search_result", "title": "Cats", "source": "cats.example", "content": [{"type": "text", "text": "They sit."}]}
        self.assertEqual(self.count(found), self.count({"type": "text", "text": "Cats\ncats.example\nThey sit."}))
        self.assertEqual(self.count(result([found])), self.count(result("Cats\ncats.example\nThey sit.")))

    def test_images_of_results_are_left_out_alike(self):
        image = {"type": "image_url", "image_url": {"url": "x"}}
        talk = [*HI, {"role": "assistant", "tool_calls": [{"id": "t", "function": {"name": "f", "arguments": "{}"}}]}]
        body = {"messages": [*talk, {"role": "tool", "tool_call_id": "t", "content": [image]}]}
        status, headers, answer = self.post("/apply-template", body)
        self.assertEqual((status, headers["x-tern-ignored"]), (200, "messages[2].content[0] (image_url)"))
        self.assertIn("[left out: this model reads text only]", answer["prompt"])


if __name__ == "__main__":
    unittest.main()
