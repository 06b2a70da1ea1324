"""The chat of a source: where it keeps its template, or which one the user named in its place.

In:  chat_template.jinja or tokenizer_config.json of a directory, tokenizer.chat_template of a GGUF file, a file that is
named, or the name of a template that is built into the engine. Out: a Chat; or None, and a note why.
"""

from pathlib import Path

from ...errors import USAGE, ConvertError
from ..files.file import read_whole
from ..sources.source import Source
from .chat import BUILTIN, Chat
from .errors import Beyond


def of_source(source: Source, chosen: str | None, notes: list[str]) -> Chat | None:
    """The chat of a source: its own template, or the one that the user chose; None, with a note why, if there is none."""
    if source.tokenizer is None or not (chosen or source.template):
        return None
    try:
        from .builtin import builtin_for
        from .learn import learn
    except ImportError:
        notes.append("no chat template is stored: the package jinja2 is not installed")
        return None
    if chosen in BUILTIN:
        return builtin_for(chosen, source.tokenizer)
    text, name = source.template, f"the template of {source.name}"
    if chosen:
        path = Path(chosen)
        if not path.is_file():
            raise ConvertError(f"--template {chosen}: no file, and no template of {', '.join(BUILTIN)}", USAGE)
        text, name = read_whole(path).decode("utf-8", "replace"), path.name
    try:
        named, for_tools = Path(chosen).stem if chosen else source.name, "" if chosen else source.tool_template
        chat = learn(named, text, named_tokens(source), source.tokenizer, for_tools=for_tools)
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
