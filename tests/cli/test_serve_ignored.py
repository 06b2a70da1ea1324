"""serve: every field that the clients' own types know has an effect, is refused, or is named in x-tern-ignored.

The types of the openai and anthropic packages are walked: each field is sent once, beside a small request. One that gets 200 and is not named must be
in one of the tables below: somebody has looked at it."""

import collections.abc
import glob
import json
import re
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


# ---- what openapi.json says -------------------------------------------------------------------------

NAMED_CALL = {"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CUSTOM_CALL = {"id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}}
FUNCTION = {"name": "f", "parameters": {"type": "object"}}
SCHEMA = {"type": "json_schema", "schema": {"type": "integer"}}
PART = [{"type": "text", "text": "Hi"}]
TALK = [
    {"role": "user", "content": PART},
    {"role": "assistant", "content": PART, "tool_calls": [NAMED_CALL, CUSTOM_CALL]},
    {"role": "tool", "tool_call_id": "t", "content": PART},
    {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
    {"role": "user", "content": "Go"},
]
TEXT_FORMATS = [{"structured_outputs": {"regex": "a"}}, {"response_format": {"type": "text"}}, {"response_format": {"type": "json_object"}}]
TEXT_FORMATS += [{"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "integer"}}}}]
TOOLS = [{"type": "function", "function": FUNCTION}]
CHAT = [
    {"messages": TALK, "stream_options": {}, "chat_template_kwargs": {}},
    *({"messages": HI, **more} for more in TEXT_FORMATS),
    {"messages": HI, "tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "f"}}},
    {"messages": HI, "tools": TOOLS, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": TOOLS}}},
    {"messages": HI, "functions": [FUNCTION], "function_call": {"name": "f"}},
]
OUTPUT = {"type": "function_call_output", "call_id": "t", "output": [{"type": "input_text", "text": "x"}]}
ITEMS = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "x"}], "content": [{"type": "reasoning_text", "text": "x"}]},
    {"type": "function_call", "call_id": "t", "name": "f", "arguments": "{}"},
    OUTPUT,
    {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"},
    {**OUTPUT, "type": "custom_tool_call_output", "call_id": "c"},
    {"type": "local_shell_call", "call_id": "l", "action": {"command": ["ls"]}},
    {"type": "local_shell_call_output", "call_id": "l", "output": "x"},
    {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}},
    {"type": "shell_call_output", "call_id": "s", "output": [{"stdout": "x"}]},
    {"type": "apply_patch_call", "call_id": "p", "operation": {"type": "delete_file", "path": "x"}},
    {"type": "apply_patch_call_output", "call_id": "p", "output": "x"},
]
RESPONSE_TOOLS = [
    {"type": "function", **FUNCTION},
    {"type": "custom", "name": "g", "format": {"type": "text"}},
    {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "h"}]},
]
RESPONSES = [
    {"input": ITEMS, "stream_options": {}, "reasoning": {}},
    *({"input": "x", "text": {"format": f}} for f in ({"type": "text"}, {"type": "json_object"}, {**SCHEMA, "name": "x"})),
    {"input": "x", "tools": RESPONSE_TOOLS, "tool_choice": {"type": "function", "name": "f"}},
    {"input": "x", "tools": RESPONSE_TOOLS, "tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "f"}]}},
]
FOUND = {"type": "search_result", "title": "x", "source": "x", "content": PART}
MESSAGES = [
    {
        "messages": [
            {"role": "user", "content": [*PART, FOUND]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "x", "signature": ""},
                    {"type": "redacted_thinking", "data": "x"},
                    {"type": "tool_use", "id": "t", "name": "f", "input": {}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [*PART, FOUND]}]},
            {"role": "user", "content": [{"type": "mid_conv_system", "content": PART}]},
        ],
        "system": PART,
        "thinking": {"type": "disabled"},
        "output_config": {"format": SCHEMA},
    },
    {"messages": HI, "output_format": SCHEMA},
    {"messages": HI, "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "tool", "name": "f"}},
]
BODIES = {
    "/v1/chat/completions": [{**body, "max_tokens": 1} for body in CHAT],
    "/apply-template": CHAT,
    "/v1/completions": [{"prompt": "x", "max_tokens": 1, **more} for more in [{"stream_options": {}}, *TEXT_FORMATS]],
    "/v1/embeddings": [{"input": "x"}],
    "/v1/responses": [{**body, "max_output_tokens": 1} for body in RESPONSES],
    "/v1/responses/input_tokens": RESPONSES,
    "/v1/messages": [{**body, "max_tokens": 1} for body in MESSAGES],
    "/v1/messages/count_tokens": MESSAGES,
    "/tokenize": [{"content": "x"}],
    "/detokenize": [{"tokens": [1]}],
    "/attention": [{"tokens": [1], "layer": 0}],
}
# Objects of the client's own, below the body itself: nothing in them is a field
OWN = set("parameters schema input_schema input action operation output".split())
SILENT = INFORMS - {"type", "name", "description", "model", "index"}
WRONG = {"string": "x", "number": 1.5, "boolean": True, "object": {"k": 1}, "array": [[]]}


class Schemas:
    """openapi.json"""

    def __init__(self, file):
        self.file = file

    def parts(self, schema):
        """The schema without $ref, allOf and the like: one for each that may hold"""
        if "$ref" in schema:
            schema = self.file["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        yield schema
        for word in ("allOf", "oneOf", "anyOf"):
            for part in schema.get(word, []):
                yield from self.parts(part)

    def fields(self, schemas):
        """{name: [schema, ...]} of an object"""
        out = {}
        for schema in schemas:
            for part in self.parts(schema):
                for name, s in part.get("properties", {}).items():
                    out.setdefault(name, []).append(s)
        return out

    def items(self, schemas):
        return [part["items"] for s in schemas for part in self.parts(s) if "items" in part]

    def wrong(self, schemas):
        """A value of each type that is not declared; none where any may come"""
        types_ = set()
        for part in (p for s in schemas for p in self.parts(s)):
            values = part.get("enum", [part["const"]] if "const" in part else [])
            names = {bool: "boolean", int: "number", float: "number", str: "string"}
            types_ |= {names[type(v)] for v in values if v is not None}
            types_ |= {part["type"]} if isinstance(part.get("type"), str) else set(part.get("type", []))
        types_ |= {"number"} if "integer" in types_ and types_ - {"integer", "null"} else set()
        return [v for name, v in WRONG.items() if name not in types_] if types_ else []


def objects_of(value, path=()):
    """(path, object) of each in a body"""
    for key, v in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key not in OWN or not path:
            yield from objects_of(v, (*path, key))
    if isinstance(value, dict):
        yield path, value


def places(bodies):
    """(body, path) of each kind of object in some of them, once"""
    seen = set()
    for body in bodies:
        for path, value in objects_of(body):
            kind = (path, *sorted(value), value.get("type")) if path else ()
            if kind not in seen:
                yield body, path
            seen.add(kind)


def written(path):
    return "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in path).lstrip(".")


def changed(body, path, more):
    if not path:
        return {**body, **more}
    out = body.copy()
    out[path[0]] = changed(body[path[0]], path[1:], more)
    return out


class Documented(ServeCase):
    """openapi.json names just the fields that the server reads or names"""

    ARGUMENTS = ["--parallel", "2"]

    @classmethod
    def setUpClass(cls):
        cls.MODEL = thinker()
        super().setUpClass()
        cls.maxDiff = None
        cls.schemas = Schemas(cls.server.get("/openapi.json")[2])
        words = set()  # that the sources have between quotes: all names of fields are there
        for file in glob.glob("src/app/serve/api/*.c"):
            with open(file) as f:
                for text in re.findall(r'"([a-z][a-z_0-9 |]*)"', f.read()):
                    words |= set(re.split("[ |]", text)) - {""}
        cls.words = sorted(words)

    def schema(self, route):
        return self.schemas.file["paths"][route]["post"]["requestBody"]["content"]["application/json"]["schema"]

    def at(self, route, path):
        """The schemas of what stands at the path"""
        schemas = [self.schema(route)]
        for key in path:
            schemas = self.schemas.items(schemas) if isinstance(key, int) else self.schemas.fields(schemas).get(key, [])
        return schemas

    def named(self, route, body, path, names, value=1.5):
        """Those of the names that the answer calls ignored"""
        status, headers, answer = self.post(route, changed(body, path, {name: value for name in names}))
        self.assertIn(status, (200, 400), (route, answer))
        ignored = headers.get("x-tern-ignored", "").split(", ") if status == 200 else []
        above = {written(path[:i]) for i in range(1, len(path) + 1)}
        return {n for n in names if written((*path, n)) in ignored or above & {i.split(" (")[0] for i in ignored}}

    def undocumented(self, route, body, path):
        """What has an effect there, but is not in the file"""
        words = [w for w in self.words if w not in self.schemas.fields(self.at(route, path)) and w not in SILENT]
        n = max(1, 400 // (len(written(path)) + 16))  # that the header has room for
        for i in range(0, len(words), n):
            some = words[i : i + n]
            if self.named(route, body, path, some) != set(some):
                yield from (written((*path, w)) for w in some if not self.named(route, body, path, [w]))

    def unread(self, route, body, path):
        """What is in the file, but of a wrong type is not refused, nor named"""
        for name, schemas in self.schemas.fields(self.at(route, path)).items():
            field = written((*path, name))
            for value in self.schemas.wrong(schemas):
                status, headers, answer = self.post(route, changed(body, path, {name: value}))
                ignored = headers.get("x-tern-ignored", "").split(", ") if status == 200 else []
                if not any((field + ".").startswith(i.split(" (")[0] + ".") for i in ignored if i) and name not in SILENT and field not in str(answer.get("error")):
                    yield f"{field}: {json.dumps(value)}", status, str(answer)[:150]

    def test_every_field_is_in_the_file(self):
        for route, bodies in BODIES.items():
            for body in bodies:
                status, _, answer = self.post(route, body)
                self.assertEqual(status, 200, (route, body, answer))
            with self.subTest(route):
                found = {name for body, path in places(bodies) for name in self.undocumented(route, body, path)}
                self.assertEqual(sorted(found), [])

    def test_every_field_of_the_file_is_read_or_named(self):
        for route, bodies in BODIES.items():
            with self.subTest(route):
                self.assertEqual([one for body, path in places(bodies) for one in self.unread(route, body, path)], [])


if __name__ == "__main__":
    unittest.main()
