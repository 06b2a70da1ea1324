"""The chat template of a model: where sources keep it, its rules, their proof, and the section `chat` (FORMAT.md).

In:  chat_template.jinja or tokenizer_config.json of a directory, tokenizer.chat_template of a GGUF file, a file that is
     named, or the name of a template that is built into the engine.
Out: Chat; section(chat) for the weights file, vectors(chat, ...) for its self test. A template that rules cannot follow
     is refused with the reason (chat_fit.Beyond): the model is converted without one.
"""

import contextlib
import datetime
import itertools
import signal
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import chat_rules as cr
from . import keys
from .errors import USAGE, ConvertError
from .source import Source
from .tokenizer_parts import SPECIAL, Tokenizer

BUILTIN = ("chatml", "gemma", "granite", "llama2", "llama3", "mistral", "phi3", "qwen3", "vicuna", "zephyr")
PROVED = 600  # conversations that every template is proved on
STORED = 16  # of them kept for --selftest
SECONDS, MEGABYTES = 30, 512  # that a template may take
GENERATE, THINK, NO_THINK, HAS_SYSTEM = 1, 2, 4, 8  # flags of tern.h, and one of FORMAT.md


@dataclass
class Chat:
    """Rules of a template; or `builtin`, the name of one that the engine knows."""

    name: str
    rules: list[cr.Rule] = field(default_factory=list)
    thinking: int = 0  # 0 it knows no choice, 1 it thinks by default, 2 when asked
    builtin: bool = False
    notes: list[str] = field(default_factory=list)
    template: Any = None


@contextlib.contextmanager
def time_limit(seconds: int):
    """A template is a program: one that runs on and on, in processor time, is stopped."""
    from .chat_fit import Beyond

    def stop(*_):
        raise Beyond(f"it runs for more than {seconds} seconds")

    try:
        before = signal.signal(signal.SIGVTALRM, stop)
    except ValueError:  # not the main thread
        yield
        return
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextlib.contextmanager
def memory_limit(megabytes: int):
    """And it may ask for any amount of memory: for more than that, beyond what is in use, it gets a MemoryError."""
    from .chat_fit import Beyond

    try:
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = used + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (wanted if soft == resource.RLIM_INFINITY else min(soft, wanted), hard))
    except (ImportError, OSError, ValueError):  # a system that has no such limit
        yield
        return
    try:
        yield
    except MemoryError:
        raise Beyond(f"it takes more than {megabytes} MB of memory") from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def specials(t: Tokenizer) -> frozenset[str]:
    """Texts of the special tokens."""
    return frozenset(a.content for a in t.added if a.flags & SPECIAL)


def learn(name: str, source: str, tokens: dict[str, Any], t: Tokenizer, date: datetime.datetime | None = None) -> Chat:
    """The rules of a template, proved. Raises chat_fit.Beyond with the reason when it has none."""
    import jinja2

    from . import chat_fit, chat_jinja

    try:
        with memory_limit(MEGABYTES), time_limit(SECONDS):
            template = chat_jinja.Template(source, tokens, date or chat_jinja.DATE)
            fit = chat_fit.Fit(template, specials(t))
            chat = Chat(name, fit.rules(), default_thinking(fit), template=template)
            reacts = prove(chat)
    except jinja2.TemplateSyntaxError as e:
        raise chat_fit.Beyond(f"it is not valid: {e}") from None
    except ConvertError as e:
        raise chat_fit.Beyond(str(e)) from None
    except Exception as e:  # nothing that a template makes of texts may cost the model
        raise chat_fit.Beyond(f"the search for them failed ({type(e).__name__}: {e})") from e
    try:
        for rule in chat.rules:
            cr.encode(rule.program)
    except ValueError as e:
        raise chat_fit.Beyond(str(e)) from None
    if reacts:
        named = ", ".join(map(repr, reacts))
        chat.notes.append(f"the chat template reacts to {named} in a message; stored as rules, it will not")
    if template.dated:
        chat.notes.append(f"the chat template writes the date; it is fixed to {template.date:%-d %B %Y}")
    return chat


def default_thinking(fit) -> int:
    """What the template does unasked."""
    from . import chat_fit

    if not fit.knows:
        return 0
    for number, think in ((1, True), (2, False)):
        if all(fit.try_render(f, None) == fit.try_render(f, think) for f in chat_fit.forms(False)):
            return number
    raise chat_fit.Beyond("unasked, it does neither what it does with thinking nor without")


def render(chat: Chat, messages: list[dict], generate: bool, think: bool | None) -> list[cr.Step]:
    """What the engine will make of a conversation."""
    return cr.render(chat.rules, messages, generate, chat.thinking == 1 if think is None else think)


def compare(chat: Chat, messages: list[dict], generate: bool, think: bool | None) -> str | None:
    """"" where rules write what the template does, else how not; None where one of both does not take a conversation."""
    from .chat_jinja import Rejected

    try:
        want = chat.template.render(messages, generate, think)
        got = cr.text_of(render(chat, messages, generate, think))
    except (Rejected, cr.NoRule):
        return None
    return "" if got == want else f"it writes {difference(want, got)}"


def prove(chat: Chat) -> list[str]:
    """Byte equality with the template itself: in hard conversations, and in such as its own text suggests. Returns words
    for which alone that is not so, as the template looks for them in messages."""
    from . import chat_probes
    from .chat_conversations import conversations
    from .chat_fit import Beyond

    proved = 0
    for conversation in conversations(PROVED):
        if (found := compare(chat, *conversation)) is not None:
            proved += 1
        if found:
            raise Beyond(found)
    if proved < PROVED // 3:
        raise Beyond(f"it takes only {proved} of {PROVED} conversations")
    known = chat_probes.constants(chat.template.tree)
    for probe in itertools.chain(chat_probes.of_counts(known), chat_probes.of_lengths(known)):
        differing(chat, probe, ())
    reacts = {word for word in known.tested if any(differs(chat, probe) for probe in chat_probes.of_word(word, True))}
    for pair, probe in chat_probes.of_pairs(known.tested - reacts):
        if not reacts.issuperset(pair) and differs(chat, probe):
            reacts.update(pair)
    for word in sorted(known.words.union(chat_probes.WORDS) - known.tested):
        for probe in chat_probes.of_word(word, False):
            differing(chat, probe, reacts)
    return sorted(reacts)


def differs(chat: Chat, probe) -> str | None:
    """compare() of a probe; an error that rules do not foresee is a difference, too, but for one that a blank text meets."""
    from .chat_jinja import Rejected

    found = compare(chat, probe.messages, probe.generate, probe.think)
    if found is None and all(m["content"].strip() for m in probe.messages):
        try:
            render(chat, probe.messages, probe.generate, probe.think)
            chat.template.render(probe.messages, probe.generate, probe.think)
        except cr.NoRule:
            return None
        except Rejected as e:
            return f"it refuses: {e}"
    return found


def differing(chat: Chat, probe, reacts: Iterable[str]) -> None:
    """Raises Beyond where they are not equal, and none of these words is why."""
    from .chat_fit import Beyond

    found = differs(chat, probe)
    if found and not any(word in m["content"] for word in reacts for m in probe.messages):
        raise Beyond(f"{probe.about} {found}")


def difference(want: str, got: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
    return f"{want[max(at - 20, 0) : at + 30]!r} where rules give {got[max(at - 20, 0) : at + 30]!r}"


# ---- a source's template -------------------------------------------------------------------------


def of_source(source: Source, chosen: str | None, notes: list[str]) -> Chat | None:
    """The chat of a source: its own template, or the one that the user chose; None, with a note why, if there is none."""
    if source.tokenizer is None or not (chosen or source.template):
        return None
    if chosen in BUILTIN:
        return Chat(chosen, builtin=True)
    try:
        from .chat_fit import Beyond
    except ImportError:
        notes.append("no chat template is stored: the package jinja2 is not installed")
        return None
    text, name = source.template, f"the template of {source.name}"
    if chosen:
        path = Path(chosen)
        if not path.is_file():
            raise ConvertError(f"--template {chosen}: no file, and no template of {', '.join(BUILTIN)}", USAGE)
        text, name = path.read_text("utf-8", "replace"), path.name
    try:
        chat = learn(Path(chosen).stem if chosen else source.name, text, named_tokens(source), source.tokenizer)
    except Beyond as e:
        if chosen:
            raise ConvertError(f"{name} cannot be stored as rules: {e}") from None
        notes.append(f"no chat template is stored: {name} cannot be stored as rules: {e}; --template names another one")
        return None
    notes += chat.notes
    return chat


def named_tokens(source: Source) -> dict[str, str]:
    """What the template may name; BOS and EOS of the tokenizer where the source names none."""
    t, out = source.tokenizer, {}
    for name, number in (("bos_token", t.bos), ("eos_token", t.eos)):
        if number is not None:
            out[name] = next((a.content for a in t.added if a.id == number), t.tokens[number].decode("utf-8", "replace"))
    return out | source.template_tokens


def section(chat: Chat) -> bytes:
    """The body of the section `chat`."""
    name = chat.name.encode()[:63].decode("utf-8", "ignore")
    if chat.builtin:
        return keys.pack({"name": name, "builtin": 1})
    texts = [cr.encode(rule.program) for rule in chat.rules]
    return keys.pack(
        {
            "name": name,
            "thinking": chat.thinking,
            "rules.when": keys.U32s([x for rule in chat.rules for x in (rule.mask, rule.value)]),
            "rules.lengths": keys.U32s([len(text) for text in texts]),
            "rules.text": b"".join(texts),
        }
    )


@memory_limit(MEGABYTES)
@time_limit(SECONDS)
def vectors(chat: Chat, t: Tokenizer) -> dict:
    """Conversations, what the template itself makes of them, and the ids of that by the reference package."""
    from .chat_conversations import conversations
    from .chat_jinja import Rejected

    if chat.builtin or t.reference is None:
        return {}
    special, chosen = specials(t), []
    for messages, generate, think in conversations(PROVED, seed=2):
        if len(chosen) == STORED or any(s in m["content"] for s in special for m in messages):
            continue  # texts that look like special tokens are tokens to the reference
        try:
            text = chat.template.render(messages, generate, think)
            render(chat, messages, generate, think)
        except (Rejected, cr.NoRule):
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
