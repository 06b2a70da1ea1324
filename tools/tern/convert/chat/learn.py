"""The rules of a chat template, learned from what it writes and proved on other conversations.

In:  the template, the texts that it may name, and the tokenizer. Out: a Chat. A template that rules cannot follow is
refused with the reason (Beyond).
"""

import dataclasses
import datetime
import itertools
from collections.abc import Iterable
from typing import Any

import jinja2

from ...errors import ConvertError
from ..tokenizers.tokenizer import Tokenizer
from . import channels, jinja, probes, rules
from .chat import PROVED, Chat, Tools, answer_end, render, specials, styles_of
from .conversations import conversations
from .errors import Beyond, NoRule, Rejected
from .fit import Fit
from .shapes import TOOLS, forms
from .limits import limited
from .rules import BOTH, FIRST_END, SPANS, Thoughts
from .tool_answer import ONE, answer_form, harmony
from .tool_parts import Prints
from .tool_talks import talks

FORMS = (0, BOTH, FIRST_END, BOTH | FIRST_END)
MARKS = (("<|channel>", "<channel|>", (SPANS, *FORMS)), ("<think>", "</think>", (*FORMS, SPANS)))


def learn(
    name: str, source: str, tokens: dict[str, Any], t: Tokenizer, date: datetime.datetime | None = None, for_tools: str = ""
) -> Chat:
    """The rules of a template, proved. Raises Beyond with the reason when it has none. `for_tools`: another template, for
    conversations with tools."""
    try:
        with limited():
            template = jinja.Template(source, tokens, date or jinja.DATE)
            template.thoughts = channels.of_template(template, specials(t))
            found = [template.thoughts] if template.thoughts else ways(source)
            chat, reacts = fitted(name, template, found, specials(t))
    except jinja2.TemplateSyntaxError as e:
        raise Beyond(f"it is not valid: {e}") from None
    except ConvertError as e:
        raise Beyond(str(e)) from None
    except Exception as e:  # nothing that a template makes of texts may cost the model
        raise Beyond(f"the search for them failed ({type(e).__name__}: {e})") from e
    try:
        for rule in chat.rules:
            rules.encode(rule.program)
    except ValueError as e:
        raise Beyond(str(e)) from None
    if reacts:
        named = ", ".join(map(repr, reacts))
        chat.notes.append(f"the chat template reacts to {named} in a message; stored as rules, it will not")
    if template.dated:
        chat.notes.append(f"the chat template writes the date; it is fixed to {template.date:%-d %B %Y}")
    said = len(chat.notes)
    learn_tools(chat, for_tools, t)
    if chat.thoughts.skip and not chat.tools:
        raise Beyond(f"the model opens a channel for its answer, and {(*chat.notes[said:], 'it does not list tools')[0]}")
    return chat


def learn_tools(chat: Chat, source: str, t: Tokenizer) -> None:
    """Adds what the template makes of tools, or the other one for tools; or a note why rules cannot follow it there."""
    if chat.template.tools is None and not source:
        return
    try:
        with limited():
            template = jinja.Template(source, chat.template.tokens, chat.template.date) if source else chat.template
            chat.tools = fitted_tools(chat, template, t)
            learn_unlisted(chat, template, specials(t))
            for rule in (*chat.tools.rules, *chat.tools.unlisted):
                rules.encode(rule.program, styles_of(chat))
    except (ConvertError, ValueError) as e:
        why = str(e)
    except Exception as e:
        why = f"the search failed ({type(e).__name__}: {e})"
    else:
        return
    chat.tools = None
    chat.notes.append(f"tools are left out of the chat template's rules: {why}")


def learn_unlisted(chat: Chat, template: jinja.Template, special: frozenset[str]) -> None:
    """Adds what the template makes of calls where no tools are listed; or a note why rules cannot follow it there."""
    if template is not chat.template:
        return  # the one for tools has no part in that
    tools = chat.tools
    try:
        tools.unlisted = Fit(template, special, chat.thoughts, tools.notation, listed=False).rules()
        prove_tools(chat, False)
    except Beyond as e:
        tools.unlisted = []
        chat.notes.append(f"calls in a conversation that lists no tools are left out of the chat template's rules: {e}")


def fitted_tools(chat: Chat, template: jinja.Template, t: Tokenizer) -> Tools:
    """Proved rules of conversations in which tools are listed."""
    special = specials(t)
    prints = Prints(template, special, frozenset(a.content for a in t.added))
    notation = prints.notation()
    fit = Fit(template, special, chat.thoughts, notation)
    asked = prints.render([{"role": "user", "content": "qzuzq"}], True) or ""
    end = answer_end(chat, t)
    ends = next((a.content for a in t.added if a.id == end), "")
    forms = [answer_form(notation.calls, asked, ends, chat.thoughts.end, special)]
    tools = Tools(fit.rules(), notation, forms, template, id_length=prints.id_length())
    if ends and [step[0] for step in forms[0].end] == ["token"] and prints.opens_results(forms[0].end[0][1]):
        tools.ends = [ends, forms[0].end[0][1]]
        forms[0] = dataclasses.replace(forms[0], end=())
    if chat.thoughts.skip:
        forms[:] = [harmony(special), dataclasses.replace(forms[0], flags=ONE)]
        tools.ends = channels.ends(template, special, TOOLS)
    prove_tools(dataclasses.replace(chat, tools=tools))
    return tools


def fitted(
    name: str, template: jinja.Template, ways: list[Thoughts], special: frozenset[str]
) -> tuple[Chat, list[str]]:
    """Proved rules, and to what the template reacts, with the first way to mark thoughts for which there are any."""
    first = None
    for thoughts in ways:
        try:
            fit = Fit(template, special, thoughts)
            chat = Chat(name, fit.rules(), default_thinking(fit), template=template, thoughts=thoughts)
            return chat, prove(chat)
        except Beyond as e:
            first = first or e
    raise first


def ways(source: str) -> list[Thoughts]:
    """How the answers of a template may mark thoughts"""
    for begin, end, forms_of in MARKS:
        if end in source:
            return [Thoughts(begin, end, form) for form in forms_of]
    return [Thoughts()]


def default_thinking(fit: Fit) -> int:
    """What the template does unasked."""
    if not fit.knows:
        return 0
    for number, think in ((1, True), (2, False)):
        if all(fit.try_render(f, None) == fit.try_render(f, think) for f in forms(False)):
            return number
    raise Beyond("unasked, it does neither what it does with thinking nor without")


def compare(chat: Chat, messages: list[dict], generate: bool, think: bool | None, tools: list[dict] | None = None) -> str | None:
    """"" where rules write what the template does, else how not; None where one of both does not take a conversation."""
    try:
        template = chat.tools.template if tools else chat.template
        want = template.render(messages, generate, think, tools)
        got = rules.text_of(render(chat, messages, generate, think, tools))
    except (Rejected, NoRule):
        return None
    return "" if got == want else f"it writes {difference(want, got)}"


def prove(chat: Chat) -> list[str]:
    """Byte equality with the template itself: in hard conversations, and in such as its own text suggests. Returns words
    for which alone that is not so, as the template looks for them in messages."""
    proved = 0
    for conversation in conversations(PROVED, chat.thoughts):
        if (found := compare(chat, *conversation)) is not None:
            proved += 1
        if found:
            raise Beyond(found)
    if proved < PROVED // 3:
        raise Beyond(f"it takes only {proved} of {PROVED} conversations")
    known = probes.constants(chat.template.tree)
    for probe in itertools.chain(probes.of_counts(known), probes.of_lengths(known)):
        differing(chat, probe, ())
    reacts = {word for word in known.tested if any(differs(chat, probe) for probe in probes.of_word(word, True))}
    for pair, probe in probes.of_pairs(known.tested - reacts):
        if not reacts.issuperset(pair) and differs(chat, probe):
            reacts.update(pair)
    for word in sorted(known.words.union(probes.WORDS) - known.tested):
        for probe in probes.of_word(word, False):
            differing(chat, probe, reacts)
    return sorted(reacts)


def prove_tools(chat: Chat, listed: bool = True) -> None:
    """Byte equality in conversations with tools, or with calls alone."""
    proved = 0
    for messages, tools, generate, think in talks(PROVED, chat.thoughts):
        if (found := compare(chat, messages, generate, think, tools if listed else None)) is not None:
            proved += 1
        if found:
            raise Beyond(found)
    if proved < PROVED // 6:
        raise Beyond(f"it takes only {proved} of {PROVED} conversations with {'tools' if listed else 'calls'}")


def differs(chat: Chat, probe) -> str | None:
    """compare() of a probe; an error that rules do not foresee is a difference, too, but for one that a blank text meets."""
    found = compare(chat, probe.messages, probe.generate, probe.think)
    if found is None and all(m["content"].strip() for m in probe.messages):
        try:
            render(chat, probe.messages, probe.generate, probe.think)
            chat.template.render(probe.messages, probe.generate, probe.think)
        except NoRule:
            return None
        except Rejected as e:
            return f"it refuses: {e}"
    return found


def differing(chat: Chat, probe, reacts: Iterable[str]) -> None:
    """Raises Beyond where they are not equal, and none of these words is why."""
    found = differs(chat, probe)
    if found and not any(word in m["content"] for word in reacts for m in probe.messages):
        raise Beyond(f"{probe.about} {found}")


def difference(want: str, got: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
    return f"{want[max(at - 20, 0) : at + 30]!r} where rules give {got[max(at - 20, 0) : at + 30]!r}"
