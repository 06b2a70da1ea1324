"""The chat rules of a model, and the section `chat` (src/weights/FORMAT.md).

In:  rules. Out: Chat; section(chat) for the weights file, vectors(chat, tokenizer) for its self test.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...weights import keys
from ..tokenizers.tokenizer import SPECIAL, Tokenizer
from . import rules
from .conversations import conversations
from .errors import NoRule, Rejected
from .limits import limited
from .rules import Rule, Thoughts

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


def specials(t: Tokenizer) -> frozenset[str]:
    """Texts of the special tokens."""
    return frozenset(a.content for a in t.added if a.flags & SPECIAL)


def render(chat: Chat, messages: list[dict], generate: bool, think: bool | None) -> list[rules.Step]:
    """What the engine will make of a conversation."""
    return rules.render(chat.rules, messages, generate, chat.thinking == 1 if think is None else think, chat.thoughts)


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


def section(chat: Chat) -> bytes:
    """The body of the section `chat`."""
    name = chat.name.encode()[:63].decode("utf-8", "ignore")
    texts = [rules.encode(rule.program) for rule in chat.rules]
    thoughts = {"thought.begin": chat.thoughts.begin, "thought.end": chat.thoughts.end, "thought.form": chat.thoughts.form}
    return keys.pack(
        {
            "name": name,
            "thinking": chat.thinking,
            **({} if chat.thoughts == Thoughts() else thoughts),
            "rules.when": keys.U32s([x for rule in chat.rules for x in (rule.mask, rule.value)]),
            "rules.lengths": keys.U32s([len(text) for text in texts]),
            "rules.text": b"".join(texts),
        }
    )


@limited()
def vectors(chat: Chat, t: Tokenizer) -> dict:
    """Conversations, what the template itself makes of them, and the ids of that by the reference package."""
    if chat.template is None or t.reference is None:
        return {}
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
