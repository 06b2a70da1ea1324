"""A whole conversion, and the whole way from the name of a model.

In:  the options of tools/convert.py; a name. Out: a weights file that was checked.
"""

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

from .. import programs
from ..errors import USAGE, ConvertError
from ..weights.tiles import BY_NAME
from . import paths
from .chat.of_source import of_source
from .families.settings import Settings
from .sources import lora
from .sources.detect import load
from .words import say
from .writing import reference
from .writing.conversion import convert, make_room, show_plan


def downloaded(source: Path) -> Path:
    """The source; the name of a model becomes a folder of the hub's cache."""
    if source.exists() or not paths.is_name(str(source)):
        return source
    from . import hub  # it takes a third of a second

    return hub.to_folder(str(source), say)


def run(options: Namespace | SimpleNamespace) -> None:
    """A conversion: what tools/convert.py does with its options."""
    if options.out is None and not options.dry_run:
        raise ConvertError("name the weights file to write, or give --dry-run", USAGE)
    if options.out is not None:
        options.out = paths.out_file(options.out)
    options.source = downloaded(options.source)
    adapters = [lora.named(text) for text in options.lora]
    paths.check(options.source, options.out, options.tokenizer, options.template, [a.folder for a in adapters])
    if adapters and options.reference_logits:
        raise ConvertError("--reference-logits are those of the model without --lora; leave one of the two out", USAGE)
    settings = Settings(options.set)
    source = load(options.source, options.tokenizer, options.rope_length, settings, adapters, options.type is None)
    source.chat = of_source(source, options.template, source.notes)
    if options.type is None and source.default_type:
        options.type = source.default_type
        source.notes.append(source.default_note)
    for note in source.notes:
        say(note)
    if options.dry_run:
        return show_plan(source, options.type)
    golden = {}
    if options.reference_logits:
        if not options.source.is_dir():
            raise ConvertError("--reference-logits needs a Hugging Face directory", USAGE)
        golden = reference.logits(options.source, source, options.type)
    convert(source, options.out, options.type, golden, options.check)


def get(name: str, out: str | None, kind: str | None, plan: bool = False) -> tuple[Path, bool] | None:
    """Downloads a model, converts, quantizes and checks it, and says what it does: the file, and whether the model has a chat template. With
    `plan` it only says what it would take."""
    from . import foresee, hub

    programs.build()
    model = hub.look_up(name)
    file = None if out is None else paths.out_file(out)
    if file:
        paths.check_out(file)
    timed = (kind,) if plan and kind else foresee.TYPES if plan or not kind else ()
    seen = foresee.forecast(model, timed, tuple(BY_NAME) if plan and not kind else ())
    for note in model.notes:
        say(note)
    for text in seen.lines():
        say(text)
    if plan:
        return None
    kind = kind or (seen.recommended or seen.rows[-1]).type
    file = file or default_file(model.name, kind)
    paths.check_out(file)
    make_room(file.absolute(), seen.room(kind))
    folder = hub.download(model, say)
    run(SimpleNamespace(
        source=model.source(folder), out=str(file), type=kind, tokenizer=None, rope_length=None, set=[], lora=[], template=None,
        reference_logits=False, dry_run=False, check=True,
    ))  # fmt: skip
    return file, bool(seen.source.chat)


def default_file(name: str, kind: str) -> Path:
    """MODEL-TYPE.bin in this folder."""
    found = paths.NAME.fullmatch(name)
    return Path(f"{(found['name'] if found else name).split('/')[-1]}-{kind}.bin")


def found(name: str, out: str | None, kinds: tuple[str, ...]) -> Path | None:
    """The file that get() would write, if it is there."""
    files = [Path(out)] if out is not None else [default_file(name, kind) for kind in kinds]
    return next(filter(Path.is_file, files), None)
