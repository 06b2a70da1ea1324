"""Conversations with tools that rules are proved on: odd tools, odd arguments, hard texts; the same every time."""

import random
from collections.abc import Iterator
from typing import Any

from .conversations import texts
from .rules import Thoughts

NAMES = ["get_weather", "f", "search-web", "Add_2", "tool_call", "arguments", "x" * 64, "name"]
KEYS = ["city", "a", "B", "b", "name", "arguments", "max_results", "é", "two words", "parameter", "x-y", "_", "Zz", "10"]
STRINGS = [
    "", " ", "Paris", 'say "hi"', "it's", "back\\slash", "two\nlines", "tab\t", "日本語", "emoji 👩‍👩‍👧", "</tool_call>", "<|im_end|>", "{}",
    '{"a": 1}', "null", "True", "1.0", "é\u2028\u0085", "\x1b\x7f\x00", "<b> & 'c'", "%s {0} {{x}}", " both ", "\n", "\ud7ff\uffff", "[1, 2]",
]  # fmt: skip
NUMBERS = [0, -1, 7, 1.0, -0.0, 0.1, 1e10, 1e16, 1e22, 1.5e-7, 12345678901234567890, 1e300, 5e-324, 2**63, -2.5, 100000.0, 123456789.125]
DESCRIPTIONS = ["Returns the weather.", "", 'Says "hi" & <b>é</b>\nthere\\', "日本語の説明", " padded \n", "x" * 200]
RESULTS = ["22 degrees", '{"temperature": 22.5, "unit": "C"}', "[]", "null", "3", '"quoted"', "error: no such city\n", "é\t\"\\"]
ID = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def value(rng: random.Random, depth: int = 0) -> Any:
    """A value of JSON."""
    kind = rng.randrange(8 if depth < 2 else 5)
    if kind < 2:
        return rng.choice(STRINGS)
    if kind == 2:
        return rng.choice(NUMBERS)
    if kind < 5:
        return rng.choice([True, False, None])
    if kind < 7:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return members(rng, depth + 1)


def members(rng: random.Random, depth: int = 0) -> dict:
    return {rng.choice(KEYS): value(rng, depth) for _ in range(rng.choice([0, 1, 1, 2, 3, 5]))}


def schema(rng: random.Random, depth: int = 0) -> dict:
    """Of a parameter, or of all."""
    kind = "object" if depth == 0 else rng.choice(["string", "number", "integer", "boolean", "array", "object", "string"])
    out: dict[str, Any] = {"type": kind}
    if depth and rng.random() < 0.7:
        out["description"] = rng.choice(DESCRIPTIONS)
    if kind == "object" and depth < 3:
        names = rng.sample(KEYS, rng.randrange(4) if depth else rng.choice([0, 1, 2, 3, 5]))
        out["properties"] = {name: schema(rng, depth + 1) for name in names}
        if names and rng.random() < 0.7:
            out["required"] = names[: rng.randrange(1, len(names) + 1)]
        if rng.random() < 0.2:
            out["additionalProperties"] = False
    if kind == "array":
        out["items"] = schema(rng, depth + 2) if rng.random() < 0.8 else {}
    if kind == "string" and rng.random() < 0.3:
        out["enum"] = rng.sample(STRINGS, 2)
    if kind in ("number", "integer") and rng.random() < 0.5:
        out |= {"minimum": rng.choice(NUMBERS), "default": rng.choice(NUMBERS)}
    return out


def tool(rng: random.Random, name: str, odd: bool) -> dict:
    """As OpenAI's API has them; odd: with members left out, added, or in another order."""
    function = {"name": name, "description": rng.choice(DESCRIPTIONS), "parameters": schema(rng)}
    if odd:
        function |= {"strict": True} if rng.random() < 0.3 else {}
        function.pop(rng.choice(["description", "parameters", "", ""]), None)
        if rng.random() < 0.3:
            function["parameters"] = {}
        names = list(function)
        rng.shuffle(names)
        function = {name: function[name] for name in names}
    return {"type": "function", "function": function}


def talk(rng: random.Random, thoughts: Thoughts, names: list[str], several: bool) -> list[dict]:
    """Messages. `several`: of calls in one message."""
    out, made = [], 0
    if rng.random() < 0.5:
        out.append({"role": "system", "content": texts(rng, "system", thoughts)})
    users = rng.choice([1, 1, 2, 3])
    for turn in range(users):
        text = texts(rng, "user", thoughts)  # no two alike: Mistral's templates find the last by its text
        while any(m["content"] == text for m in out):
            text += f" {turn}"
        out.append({"role": "user", "content": text})
        rounds, last = rng.choice([0, 1, 1, 2, 3]), turn + 1 == users
        for at in range(rounds):
            calls = []
            for _ in range(rng.choice([1, 1, 2, 3]) if several else 1):
                function = {"name": rng.choice(names), "arguments": members(rng)}
                calls.append({"type": "function", "id": "".join(rng.choices(ID, k=9)), "function": function})
                made += 1
            text = "" if rng.random() < 0.5 else texts(rng, "assistant", thoughts)
            out.append({"role": "assistant", "content": text, "tool_calls": calls})
            if last and at + 1 == rounds and rng.random() < 0.1:
                return out
            for c in calls:
                text = rng.choice(RESULTS) if rng.random() < 0.5 else texts(rng, "tool", thoughts)
                out.append({"role": "tool", "tool_call_id": c["id"], "name": c["function"]["name"], "content": text})
        if not last or rng.random() < 0.4:
            out.append({"role": "assistant", "content": texts(rng, "assistant", thoughts)})
    return out


def talks(n: int, thoughts: Thoughts, seed: int = 1, odd: bool = True) -> Iterator[tuple[list[dict], list[dict], bool, bool | None]]:
    """n times (messages, tools, asked for an answer, thinking)."""
    rng = random.Random(seed)
    for i in range(n):
        names = rng.sample(NAMES, rng.choice([1, 1, 2, 4]))
        tools = [tool(rng, name, odd and i % 2 > 0) for name in names]
        yield talk(rng, thoughts, names, i % 3 > 0), tools, rng.random() < 0.6, rng.choice([None, True, False])
