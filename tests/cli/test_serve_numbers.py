"""Reals, and integers that 64 bits do not hold: serve carries them as they were written."""

import json
import unittest

from serve_case import ServeCase
from serve_models import thinker

N = 22222222888336333368
HI = [{"role": "user", "content": "Hi"}]
WIDE = '{"a":22222222888336333368,"b":[-1e400,1],"c":"9e999"}'


def tool(schema: dict, **more) -> dict:
    return {"name": "f", **more, "input_schema": {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}}


class Numbers(ServeCase):
    MODEL = ""

    @classmethod
    def setUpClass(cls):
        cls.MODEL = thinker()
        super().setUpClass()

    def ok(self, path: str, body: object) -> dict:
        status, _, text = self.post(path, body)
        self.assertEqual(status, 200, text)
        return text

    def refused(self, path: str, body: object) -> str:
        status, _, text = self.post(path, body)
        self.assertEqual(status, 400, text)
        return text["error"]["message"]

    def test_streamed_and_whole_are_one(self):
        body = {"messages": HI, "max_tokens": 2000, "tools": [tool({"const": N})], "tool_choice": {"type": "any"}}
        whole = self.ok("/v1/messages", body)["content"][-1]
        events = [json.loads(data) for _, data in self.events("/v1/messages", {**body, "stream": True})]
        parts = [e["delta"]["partial_json"] for e in events if e.get("delta", {}).get("type") == "input_json_delta"]
        self.assertEqual((whole["input"], json.loads("".join(parts))), ({"a": N}, {"a": N}))
        self.ok("/v1/messages", {**body, "max_tokens": 1, "messages": [*HI, {"role": "assistant", "content": [whole]}]})

    def test_history_keeps_them(self):
        """The template writes what was sent, of an object and of a text."""
        use = '{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","tool_calls":[{"type":"function","id":"c","function":{"name":"f","arguments":%s}}]}]}'
        texts = [self.ok("/apply-template", (use % x).encode())["prompt"] for x in (WIDE, json.dumps(WIDE))]
        self.assertEqual(*texts)
        for word in (str(N), "-Infinity", "\"9e999\""):  # as Python writes it
            self.assertIn(word, texts[0])
        self.assertNotIn("tern", texts[0])
        said = '{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":%s}]}],"max_tokens":1}'
        self.ok("/v1/messages", (said % WIDE).encode())

    def test_no_client_knows_how(self):
        """An object that looks like a number that is carried stays an object."""
        use = '{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","tool_calls":[{"type":"function","id":"c","function":{"name":"f","arguments":{"a":%s,"b":1e400}}}]}]}'
        for name in ("tern:number", "0" * 32):
            sent = '{"%s": "1e400"}' % name
            self.assertIn(sent, self.ok("/apply-template", (use % sent).encode())["prompt"])

    def test_schemas_may_have_them(self):
        schema = {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}
        parameters = tool(schema)["input_schema"]
        self.ok("/v1/chat/completions", {"messages": HI, "max_tokens": 1, "tools": [{"type": "function", "function": {"name": "f", "parameters": parameters}}]})
        self.ok("/v1/messages", {"messages": HI, "max_tokens": 1, "tools": [tool(schema)]})
        answer = self.ok("/v1/responses", {"input": "Hi", "max_output_tokens": 1, "tools": [{"type": "function", "name": "f", "parameters": parameters}]})
        self.assertEqual(answer["tools"][0]["parameters"]["properties"]["a"]["maximum"], 2**64 - 1)

    # each: a constant of a schema, and what the answer has
    REALS = ("4503599627370497.25", "0.1234567890123456789", "9007199254740993.5", "0.1", "99.99")

    def test_reals_are_as_written(self):
        """In a schema of the answer, in arguments streamed and whole, and in tools that an answer repeats."""
        for real in self.REALS:
            schema = '{"type":"object","properties":{"a":{"const":%s}},"required":["a"],"additionalProperties":false}' % real
            form = '{"messages":[{"role":"user","content":"Hi"}],"enable_thinking":false,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":%s}}}'
            text = self.ok("/v1/chat/completions", (form % schema).encode())["choices"][0]["message"]["content"]
            self.assertEqual("".join(text.split()), '{"a":%s}' % real)
            call = '{"messages":[{"role":"user","content":"Hi"}],"max_tokens":600,"tool_choice":{"type":"any"},"tools":[{"name":"f","input_schema":%s}]}' % schema
            whole = self.server.raw(b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(call), call.encode()))
            self.assertIn(b'"input":{"a":%s}' % real.encode(), whole)
            tools = '{"input":"Hi","max_output_tokens":1,"tools":[{"type":"function","name":"f","parameters":%s}]}' % schema
            told = self.server.raw(b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(tools), tools.encode()))
            self.assertIn(b'"const":%s}' % real.encode(), told)
        nothing = '{"prompt":"a","json_schema":{"const":1e-400}}'
        self.assertIn("no number that is written here fits", self.refused("/v1/completions", nothing.encode()))

    def test_reals_of_fields(self):
        hi = '{"prompt":"a","max_tokens":1.0,"temperature":0.30000000000000004,"top_k":4e1,"logit_bias":{"5":-1.5,"6":1e2}}'
        self.ok("/v1/completions", hi.encode())
        for field, word in (("1.5", "integer"), ("1e999", "too large"), ("[0.5]", "array"), ('"x"', "string")):
            self.assertIn(word, self.refused("/v1/completions", ('{"prompt":"a","max_tokens":%s}' % field).encode()))
        for path, body in (("/v1/completions", '{"prompt":0.5}'), ("/v1/completions", '{"prompt":[0.5]}'), ("/v1/chat/completions", '{"messages":[0.5]}'),
                           ("/v1/chat/completions", '{"messages":0.5}'), ("/v1/chat/completions", '{"messages":[{"role":"user","content":0.5}]}'),
                           ("/v1/chat/completions", '{"messages":[{"role":"user","content":[0.5]}]}'), ("/v1/responses", '{"input":[0.5]}'),
                           ("/v1/messages", '{"max_tokens":1,"messages":[{"role":"user","content":[1.5]}]}'), ("/v1/completions", "0.5")):  # fmt: skip
            self.assertNotIn("too large", self.refused(path, body.encode()))
        self.assertEqual(self.ok("/tokenize", b'{"content":"a","with_pieces":false,"x":0.5}')["tokens"], self.ok("/tokenize", b'{"content":"a"}')["tokens"])

    def test_schemas_may_be_true(self):
        form = {"type": "json_schema", "schema": True}
        self.ok("/v1/chat/completions", {"messages": HI, "max_tokens": 1, "response_format": {"type": "json_schema", "json_schema": {"name": "f", "schema": True}}})
        self.ok("/v1/messages", {"messages": HI, "max_tokens": 1, "output_config": {"format": form}})
        self.ok("/v1/responses", {"input": "Hi", "max_output_tokens": 1, "text": {"format": form | {"name": "f"}}})

    def test_settings_may_not(self):
        for path, name in (("/v1/completions", "temperature"), ("/v1/completions", "max_tokens"), ("/v1/completions", "prompt"), ("/v1/chat/completions", "messages"), ("/v1/chat/completions", "stream_options"), ("/v1/completions", "logit_bias")):  # fmt: skip
            for number in ("1e400", str(-(2**63) - 1)):
                body = {"prompt": '"x"', "messages": json.dumps(HI)} | {name: number}
                text = "{" + ",".join(f'"{k}":{v}' for k, v in body.items()) + "}"
                with self.subTest(text=text):
                    self.assertRegex(self.refused(path, text.encode()), f"^{name} (must|is too large a number)")

    def test_what_is_no_number_stays_none(self):
        """And what is wrong behind such a number is found where it stands."""
        for text, column in (('{"prompt":01e400}', 11), ('{"prompt":1e400e}', 16), ('{"a":1e400,"prompt":x}', 21), ('{"a":-1e400}x', 13), ('{"a":1e400', 10)):
            with self.subTest(text=text):
                self.assertRegex(self.refused("/v1/completions", text.encode()), f"is not JSON: line 1, column {column}:")

    def test_names_have_no_nul(self):
        message = self.refused("/v1/completions", rb'{"a\u0000":1}')
        self.assertIn("U+0000", message)
        self.assertNotIn("not JSON", message)


if __name__ == "__main__":
    unittest.main()
