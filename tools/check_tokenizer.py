"""Compares the engine's tokenizer with the reference package, on real tokenizers.

    tools/check_tokenizer.py SOURCE [--strings N] [--seed S] [--vectors FILE.inp FILE.out]
    tools/check_tokenizer.py MODEL.bin --source SOURCE ...

SOURCE is a tokenizer.json, tokenizer.model, vocab.json, tokenizer.bin, a GGUF file, or a folder with one of them. The
section `tokenizer` is made from it, or taken from MODEL.bin, and driven through tests/prog/prog_tokenizer.c; the package
reads SOURCE itself. Compared: the ids of N hard strings in both modes, and the text of those ids. --vectors compares
with ids made elsewhere: strings separated by a line `__ggml_vocab_test__`, and a line of ids for each.
Exit code 1 when anything differs.
"""

import argparse
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from ternlib import gguf_file, tokenizer  # noqa: E402
from ternlib.errors import USAGE, ConvertError  # noqa: E402
from ternlib.hard_strings import hard_string, vector_strings  # noqa: E402
from ternlib.tokenizer_parts import SPECIAL, Tokenizer  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
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
    for i in range(len(fragments) + n):
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
    strings = inputs.read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
    lines = outputs.read_text().split("\n")
    if strings[-1] == "":
        strings.pop()
    for text, line in zip(strings, lines):
        report.same("ids", text, engine.encode(text.encode(), False), [int(k) for k in line.split()])


def section_of(path: Path) -> bytes:
    """The body of the section `tokenizer` of a weights file (src/weights/FORMAT.md)."""
    with open(path, "rb") as f:
        start = f.read(64)
        (n,) = struct.unpack_from("<Q", start, 48)
        table = f.read(40 * n)
        for i in range(n):
            tag, _, offset, size = struct.unpack_from("<16sQQQ", table, 40 * i)
            if tag.rstrip(b"\0") == b"tokenizer":
                f.seek(offset)
                return f.read(size)
    raise ConvertError(f"{path} has no tokenizer")


def is_weights_file(path: Path) -> bool:
    if not path.is_file():
        return False
    with open(path, "rb") as f:
        return f.read(4) == b"TERN"


def load(path: Path) -> Tokenizer:
    with open(path, "rb") if path.is_file() else open(os.devnull, "rb") as f:
        gguf = f.read(4) == b"GGUF"
    if gguf:
        t = tokenizer.from_gguf(gguf_file.read(path).keys, None)
    elif path.name.endswith("tokenizer.bin") or path.name.startswith("tok") and path.suffix == ".bin":
        t = tokenizer.from_llama2c(path, None)
    else:
        t = tokenizer.read(path)
    if t is None:
        raise ConvertError(f"{path} has no tokenizer")
    return t


def run(options: argparse.Namespace) -> int:
    is_model = options.source is not None
    if not is_model and is_weights_file(options.path):
        raise ConvertError(f"{options.path} is a weights file: --source names the tokenizer that it was made from", USAGE)
    t = load(options.source or options.path)
    engine = Engine(section_of(options.path) if is_model else tokenizer.section(t))
    report = Report()
    if options.vectors:
        compare_vectors(engine, *options.vectors, report)
    elif t.reference is None:
        raise ConvertError("no reference package reads this tokenizer: compare with --vectors", USAGE)
    else:
        compare(t, engine, options.strings, options.seed, report)
    engine.close()
    name = "given vectors" if options.vectors else t.reference.name
    print(f"{options.path}: {report.compared - report.differ} of {report.compared} comparisons with {name} agree")
    return 1 if report.differ else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("path", type=Path, metavar="SOURCE|MODEL.bin")
    parser.add_argument("--source", type=Path, help="the tokenizer that MODEL.bin was converted from")
    parser.add_argument("--strings", type=int, default=5000, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vectors", type=Path, nargs=2, metavar=("INP", "OUT"))
    try:
        return run(parser.parse_args())
    except (ConvertError, OSError) as e:
        print(f"check_tokenizer: {e}", file=sys.stderr)
        return getattr(e, "code", 4)


if __name__ == "__main__":
    sys.exit(main())
