"""The table of all causal language models of transformers in tools/README.md: which are read, held by which golden model, and
which are refused, and why.

In:  the two tables of the section. Out: {model_type: golden models} and {model_type: reason}.
"""

import re

from ..convert.families.families import FAMILIES
from ..convert.sources.huggingface import COMPOSITE
from ..errors import ConvertError
from ..programs import ROOT

HEADING = "### Every causal language model of transformers"


def read_tables() -> tuple[dict[str, list[str]], dict[str, str]]:
    """A row is `| types | golden models |` or `| types | reason |`; no golden model means those of the types' own names."""
    section = (ROOT / "tools" / "README.md").read_text().split(HEADING)[1].split("\n### ")[0]
    tables = re.findall(r"(?:^\|.*\|\n)+", section, re.M)
    read: dict[str, list[str]] = {}
    refused: dict[str, str] = {}
    for table, out in zip(tables, (read, refused), strict=True):
        for row in table.splitlines()[2:]:
            types, what = (cell.strip() for cell in row.strip("|").split("|"))
            for kind in re.findall(r"`([^`]+)`", types):
                if kind in read or kind in refused:
                    raise ConvertError(f"tools/README.md names {kind} twice")
                out[kind] = re.findall(r"`([^`]+)`", what) or [kind.replace("_", "-")] if out is read else what
    return read, refused


def is_read(kind: str) -> bool:
    return kind in FAMILIES or kind in COMPOSITE


def check() -> str:
    """The tables beside the families that transformers and the converter have; what differs is an error."""
    from transformers import __version__
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    read, refused = read_tables()
    there, named = set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES), {*read, *refused}
    wrong = {kind for kind in read if not is_read(kind)} | {kind for kind in refused if is_read(kind)}
    for what, kinds in (("lacks", there - named), ("names too much:", named - there), ("is wrong about", wrong)):
        if kinds:
            raise ConvertError(f"the table in tools/README.md {what} {', '.join(sorted(kinds))}")
    return f"transformers {__version__}: {len(there)} causal language models, {len(read)} read, {len(refused)} refused"
