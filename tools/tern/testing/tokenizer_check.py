"""The engine's tokenizer beside the reference package: both are given hard strings.

In:  a Tokenizer with its reference. Out: a Report. The engine is tests/prog/prog_tokenizer.c, which reads a section.
"""

import os
import struct
import subprocess
import tempfile
from pathlib import Path

from tqdm import tqdm

from ..convert.files import gguf as gguf_file
from ..convert.files.file import begins_with
from ..convert.tokenizers.gguf import from_gguf
from ..convert.tokenizers.llama2c import from_llama2c
from ..convert.tokenizers.read import read
from ..convert.tokenizers.tokenizer import SPECIAL, Tokenizer
from ..convert.tokenizers.vectors import vector_strings
from ..errors import ConvertError, reading
from ..programs import ROOT
from .hard_strings import hard_string

PARSE, SHOWN = 2, 10


class Engine:
    """tests/prog_tokenizer on a section."""

    def __init__(self, section: bytes):
        build = os.environ.get("BUILD", "build")
        program = f"{build}/tests/prog_tokenizer"
        if not (ROOT / program).exists():
            subprocess.run(["make", "-s", f"BUILD={build}", program], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        self.file = tempfile.NamedTemporaryFile(suffix=".section")
        self.file.write(section)
        self.file.flush()
        arguments = [str(ROOT / program), self.file.name]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.file.close()

    def _ask(self, kind: str, flags: int, payload: bytes, n: int, width: int) -> bytes:
        self.process.stdin.write(struct.pack("<III", ord(kind), flags, n) + payload)
        self.process.stdin.flush()
        head = self.process.stdout.read(4)
        if len(head) < 4:
            raise ConvertError("the engine refused the section, or stopped")
        return self.process.stdout.read(struct.unpack("<I", head)[0] * width)

    def encode(self, text: bytes, parse: bool) -> list[int]:
        data = self._ask("e", PARSE * parse, text, len(text), 4)
        return list(struct.unpack(f"<{len(data) // 4}i", data))

    def decode(self, ids: list[int]) -> str:
        return self._ask("d", 0, struct.pack(f"<{len(ids)}i", *ids), len(ids), 1).decode()


class Report:
    def __init__(self):
        self.compared = self.differ = 0

    def same(self, what: str, text, got, want) -> None:
        self.compared += 1
        if got == want:
            return
        self.differ += 1
        if self.differ <= SHOWN:
            print(f"{what} of {text!r}:\n  engine    {got}\n  reference {want}")


def compare(t: Tokenizer, engine: Engine, n: int, seed: int, report: Report) -> None:
    """The fixed strings, then n from the generator."""
    specials = [a.content for a in t.added if a.flags & SPECIAL]
    fragments = [s.encode() for s in vector_strings(specials)]
    added = [a.content.encode() for a in t.added]
    for i in tqdm(range(len(fragments) + n), desc="strings", disable=None, leave=False):
        fixed = i < len(fragments)
        data = fragments[i] if fixed else hard_string(seed, i, fragments, t.tokens, added)
        text = data.decode("utf-8", "replace")
        for parse in (False, True):
            want = t.reference.encode(text, parse)
            report.same("parse ids" if parse else "plain ids", text, engine.encode(data, parse), want)
            # sentencepiece writes unknown pieces as a symbol of its own
            shown = [k for k in want if k != t.unk or not t.scores and not t.f32_sums]
            report.same("text", text, engine.decode(shown), t.reference.decode(shown))


def compare_vectors(engine: Engine, inputs: Path, outputs: Path, report: Report) -> None:
    with reading(f"{inputs}, or {outputs},"):
        strings = inputs.read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
        lists = [[int(k) for k in line.split()] for line in outputs.read_text().split("\n")]
    if strings[-1] == "":
        strings.pop()
    for text, ids in zip(strings, lists):
        report.same("ids", text, engine.encode(text.encode(), False), ids)


def load(path: Path) -> Tokenizer:
    """The tokenizer of whatever check_tokenizer.py takes as SOURCE."""
    if path.is_file() and begins_with(path, b"GGUF"):
        t = from_gguf(gguf_file.read(path).keys, None)
    elif path.name.endswith("tokenizer.bin") or path.name.startswith("tok") and path.suffix == ".bin":
        t = from_llama2c(path, None)
    else:
        t = read(path)
    if t is None:
        raise ConvertError(f"{path} has no tokenizer")
    return t
