"""Values as templates print them: what `tojson`, `string` and the like make of tools, arguments and results.

The engine prints the same (FORMAT.md, "Tools"). Numbers are Python's: 1e10 is printed as 10000000000.0.
"""

import itertools
import json
from dataclasses import dataclass
from typing import Any

from . import gemma_tools, notations

JSON, STR, REPR, TYPESCRIPT, SIGNATURE, DECLARATION, GEMMA, TAGS, TAGS_APART = range(9)  # notations


@dataclass(frozen=True)
class Style:
    """How a value is printed. The other fields are for JSON: `html`: < > & ' as \\u003c and so on."""

    notation: int = JSON
    ascii: bool = False
    html: bool = False
    sort: bool = False
    tight: bool = False
    indent: int = 0

    def number(self) -> int:
        """The value of FORMAT.md."""
        bits = (self.ascii, self.html, self.sort, self.tight)
        return self.notation | sum(bit << 8 + i for i, bit in enumerate(bits)) | self.indent << 16


PLAIN = Style()


def styles() -> list[Style]:
    """Those that are looked for, the most usual first."""
    bits = itertools.product((False, True), (False, True), (False, True), (0, 4, 2, 1), (False, True))
    json_styles = [Style(JSON, ascii, html, sort, tight, indent) for html, sort, ascii, indent, tight in bits]
    return [*json_styles, Style(STR), Style(REPR)]


OTHERS = {REPR: repr, TYPESCRIPT: notations.types, SIGNATURE: notations.signature, TAGS: notations.tags, TAGS_APART: notations.tags_apart,
          DECLARATION: gemma_tools.declaration, GEMMA: gemma_tools.value}  # fmt: skip
HTML = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"}


def printed(value: Any, style: Style | None) -> str:
    """None: as Jinja prints a value."""
    if style is None or style.notation == STR:
        return str(value)
    if style.notation in OTHERS:
        return OTHERS[style.notation](value)
    separators = (",", ":") if style.tight else None
    out = json.dumps(value, ensure_ascii=style.ascii, indent=style.indent or None, separators=separators, sort_keys=style.sort)
    return "".join(HTML.get(c, c) for c in out) if style.html else out
