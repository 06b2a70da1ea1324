"""The chat rules of a model, and the section `chat` (src/weights/FORMAT.md).

In:  rules. Out: Chat; section(chat) for the weights file, vectors(chat, tokenizer) for its self test.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...weights import keys
from ..tokenizers.tokenizer import SPECIAL, Tokenizer
from . import rules
from .conversations import conversations
from .errors import NoRule, Rejected
from .limits import limited
from .printing import Style
from .rules import CALLS, HAS_CALLS, LISTED, Program, Rule, Thoughts
from .tool_answer import AnswerForm
from .tool_parts import Notation
from .tool_talks import talks

TEMPLATES = Path(__file__).parent / "templates"
BUILTIN = tuple(sorted(path.stem for path in TEMPLATES.glob("*.jinja")))  # names of the engine's own templates
PROVED = 600  # conversations that every template is proved on
STORED = 16  # of them kept for --selftest
GENERATE, THINK, NO_THINK, HAS_SYSTEM = 1, 2, 4, 8  # flags of tern.h, and one of FORMAT.md


@dataclass
class Chat:
    """Rules of a template, and the template, where it is there to compare with."""

    name: str
    rules: list[Rule] = field(default_factory=list)
    thinking: int = 0  # 0 it knows no choice, 1 it thinks by default, 2 when asked
    notes: list[str] = field(default_factory=list)
    thoughts: Thoughts = Thoughts()
    template: Any = None
    tools: "Tools | None" = None


@dataclass
class Tools:
    """Rules of conversations in which tools are listed, and how these, calls and results are printed."""

    rules: list[Rule]
    notation: Notation
    forms: list[AnswerForm]
    template: Any
    ends: list[str] = field(default_factory=list)  # special tokens that end an answer, where not what follows one
    id_length: int = 0  # of a call; 0: any
    unlisted: list[Rule] = field(default_factory=list)  # of conversations that have calls, and list no tools


def specials(t: Tokenizer) -> frozenset[str]:
    """Texts of the special tokens."""
    return frozenset(a.content for a in t.added if a.flags & SPECIAL)


def render(
    chat: Chat, messages: list[dict], generate: bool, think: bool | None, tools: list[dict] | None = None
) -> list[rules.Step]:
    """What the engine will make of a conversation."""
    think = chat.thinking == 1 if think is None else think
    if not chat.tools or not (tools or rules.has_calls(messages)):
        return rules.render(chat.rules, messages, generate, think, chat.thoughts)
    known = chat.tools.rules if tools else chat.tools.unlisted
    return rules.render(known, messages, generate, think, chat.thoughts, tools, chat.tools.notation.parts)


def answer_end(chat: Chat, t: Tokenizer) -> int | None:
    """The special token that follows an answer, which ends a text too (find_end in src/text/chat.c)."""
    answer = "\x0e"
    talk = [{"role": role, "content": text} for role, text in (("user", ""), ("assistant", answer), ("user", ""))]
    try:
        steps = render(chat, talk, False, None)
    except NoRule:
        return None
    at = next((i for i, (kind, text) in enumerate(steps) if kind == "text" and answer in text), len(steps) - 1)
    after = [("text", steps[at][1].split(answer)[-1]), *steps[at + 1 :]]
    kind, text = next(((kind, text) for kind, text in after if kind == "token" or text.strip()), ("text", ""))
    return next((a.id for a in t.added if a.content == text), None) if kind == "token" else None


def all_rules(chat: Chat) -> list[Rule]:
    """Those for tools first; the last are for conversations without tools and calls."""
    if not chat.tools:
        return chat.rules
    out, known = list(chat.tools.rules), ((chat.tools.unlisted, LISTED), (chat.rules, LISTED | CALLS | HAS_CALLS * bool(chat.tools.unlisted)))
    for rules_of, absent in known:
        out += [Rule(rule.mask | absent, rule.value, rule.program) for rule in rules_of]
    return out


def texts(name: str, encoded: list[bytes]) -> dict:
    return {f"{name}.lengths": keys.U32s([len(text) for text in encoded]), f"{name}.text": b"".join(encoded)}


def conditions(rules_of: list[Rule]) -> keys.U32s:
    return keys.U32s([x for rule in rules_of for x in (rule.mask, rule.value)])


def section(chat: Chat) -> bytes:
    """The body of the section `chat`."""
    name = chat.name.encode()[:63].decode("utf-8", "ignore")
    stored = all_rules(chat)
    styles = styles_of(chat)
    thoughts = {"thought.begin": chat.thoughts.begin, "thought.end": chat.thoughts.end, "thought.form": chat.thoughts.form}
    return keys.pack(
        {
            "name": name,
            "thinking": chat.thinking,
            **({} if chat.thoughts == Thoughts() else thoughts),
            "rules.when": conditions(stored),
            **texts("rules", [rules.encode(rule.program, styles) for rule in stored]),
            **(tools_keys(chat.tools, styles) if chat.tools else {}),
            **(texts("answer.skip", [chat.thoughts.skip.encode()]) if chat.thoughts.skip else {}),
        }
    )


def tools_keys(tools: Tools, styles: list[Style]) -> dict:
    """The keys of tools."""
    parts, flags = tools.notation.parts, 0
    for form in tools.forms:
        flags |= form.flags
    programs = [program for form in tools.forms for program in form.programs()]
    return {
        "tools": 1,
        **({"parts.when": conditions(parts), **texts("parts", [rules.encode(rule.program, styles) for rule in parts])} if parts else {}),
        **({"styles": keys.U32s([style.number() for style in styles])} if styles else {}),
        **({"calls.id": tools.id_length} if tools.id_length else {}),
        **texts("answer.calls", [rules.encode(program, styles) for program in programs]),
        **({"answer.calls.flags": flags} if flags else {}),
        **(texts("answer.behind", [mark.encode() for mark in tools.forms[0].behind]) if tools.forms[0].behind else {}),
        **(texts("answer.ends", [end.encode() for end in tools.ends]) if tools.ends else {}),
    }


def styles_of(chat: Chat) -> list[Style]:
    """The styles of all values that its programs print."""
    if not chat.tools:
        return []
    programs: list[Program] = [rule.program for rule in (*chat.tools.rules, *chat.tools.unlisted, *chat.tools.notation.parts)]
    return list(dict.fromkeys(step[2] for program in programs for step in program if step[0] == "value" and step[2]))


@limited()
def vectors(chat: Chat, t: Tokenizer) -> dict:
    """Conversations, what the template itself makes of them, and the ids of that by the reference package."""
    if chat.template is None or t.reference is None:
        return {}
    return plain_vectors(chat, t) | (tools_vectors(chat, t) if chat.tools else {})


def plain_vectors(chat: Chat, t: Tokenizer) -> dict:
    special, chosen = specials(t), []
    for messages, generate, think in conversations(PROVED, chat.thoughts, seed=2):
        if len(chosen) == STORED or any(s in m["content"] for s in special for m in messages):
            continue  # texts that look like special tokens are tokens to the reference
        try:
            text = chat.template.render(messages, generate, think)
            render(chat, messages, generate, think)
        except (Rejected, NoRule):
            continue
        flags = (GENERATE if generate else 0) | (0 if think is None else THINK if think else NO_THINK)
        flags |= HAS_SYSTEM if messages[0]["role"] == "system" else 0
        chosen.append((messages, flags, text, t.reference.encode(text, True)))
    contents = [m["content"].encode() for messages, *_ in chosen for m in messages]
    return {
        "chat.counts": keys.U32s([len(messages) for messages, *_ in chosen]),
        "chat.flags": keys.U32s([flags for _, flags, *_ in chosen]),
        "chat.bytes": b"".join(contents),
        "chat.lengths": keys.U32s([len(c) for c in contents]),
        "chat.text.bytes": b"".join(text.encode() for _, _, text, _ in chosen),
        "chat.text.lengths": keys.U32s([len(text.encode()) for _, _, text, _ in chosen]),
        "chat.ids": keys.U32s([i for *_, ids in chosen for i in ids]),
        "chat.id_lengths": keys.U32s([len(ids) for *_, ids in chosen]),
    }


def tools_vectors(chat: Chat, t: Tokenizer) -> dict:
    """The same of conversations with tools, each as JSON."""
    special, chosen = specials(t), []
    for messages, tools, generate, think in talks(PROVED, chat.thoughts, seed=2):
        given = json.dumps({"tools": tools, "messages": messages}, ensure_ascii=False)
        if len(chosen) == STORED or any(s in given for s in special):
            continue
        try:
            text = chat.tools.template.render(messages, generate, think, tools)
            render(chat, messages, generate, think, tools)
        except (Rejected, NoRule):
            continue
        flags = (GENERATE if generate else 0) | (0 if think is None else THINK if think else NO_THINK)
        chosen.append((given.encode(), flags, text.encode(), t.reference.encode(text, True)))
    return {
        "tools.flags": keys.U32s([flags for _, flags, *_ in chosen]),
        "tools.bytes": b"".join(given for given, *_ in chosen),
        "tools.lengths": keys.U32s([len(given) for given, *_ in chosen]),
        "tools.text.bytes": b"".join(text for _, _, text, _ in chosen),
        "tools.text.lengths": keys.U32s([len(text) for _, _, text, _ in chosen]),
        "tools.ids": keys.U32s([i for *_, ids in chosen for i in ids]),
        "tools.id_lengths": keys.U32s([len(ids) for *_, ids in chosen]),
    }
