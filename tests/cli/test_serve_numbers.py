"""Numbers for which a 64-bit integer or a double has no room: serve carries them as they were written."""

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
