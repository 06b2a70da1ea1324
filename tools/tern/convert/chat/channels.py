"""How thoughts stand in an answer of a model that opens a channel for them, and one for what it says (gpt-oss).

In:  a template that takes a thought as a field of a message. Out: its marks: what begins a thought, what ends it whatever
follows, and what opens the channel of the answer.
"""

from .cutting import common, units
from .errors import Rejected
from .jinja import FIELD, Template
from .rules import Thoughts

USER = {"role": "user", "content": "qzuzq"}
THOUGHT, ANSWER = "qztzq", "qzazq"
CALLS = [{"type": "function", "id": "000000001", "function": {"name": "qzfzq", "arguments": {"a": "b"}}}]


def of_template(template: Template, special: frozenset[str]) -> Thoughts | None:
    """None for a template that has no such field, or marks thoughts in another way."""
    try:
        asked = template.render([USER], True)
        plain, thinking, calling = (
            template.render([USER, {"role": "assistant", "content": ANSWER} | more], False)
            for more in ({}, {FIELD: THOUGHT}, {FIELD: THOUGHT, "content": "", "tool_calls": CALLS})
        )
    except Rejected:
        return None
    if not all(text.startswith(asked) for text in (plain, thinking, calling)) or THOUGHT not in thinking or THOUGHT not in calling:
        return None
    begin, between = thinking[len(asked) :].split(THOUGHT)[0], thinking.split(THOUGHT)[1].split(ANSWER)[0]
    end = "".join(common(units(between, special), units(calling.split(THOUGHT)[1], special)))
    opens = plain[len(asked) :].split(ANSWER)[0]
    return Thoughts(begin, end, 0, opens) if begin and end and opens and between == end + opens else None


def ends(template: Template, special: frozenset[str], tools: list[dict]) -> list[str]:
    """The special tokens behind the last answer, and behind calls."""
    said = [template.render([USER, {"role": "assistant", "content": ANSWER}], False, None, tools).split(ANSWER)[-1]]
    said.append(template.render([USER, {"role": "assistant", "content": "", "tool_calls": CALLS}], False, None, tools).split('"b"}')[-1])
    return [first for text in said for first in units(text, special)[:1] if first in special]
