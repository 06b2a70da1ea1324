"""What the tests of `serve` through OpenAI's own client share: the client of a server, and requests.

What a model of random weights says means nothing, so tests compare answers with one another: streamed and whole, alone and repeated."""

import unittest

try:
    import openai
except ImportError:
    openai = None

import tool_lists
from serve_case import ServeCase

HI = [{"role": "user", "content": "Tell me a story about a cat"}]
WEATHER, STOP = ({"type": "function", "function": f} for f in (tool_lists.WEATHER, tool_lists.STOP))
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
    ARGUMENTS = ["--chat-template", "chatml", "--parallel", "4"]

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
