"""The engine's tokenizer beside the reference package. In: a source and a text. Out: the speed of both, and whether the ids
are equal. Documents are encoded one after another in turns; the best round of each counts.
"""

import struct
import time
from pathlib import Path

from tqdm import tqdm

from ..convert.tokenizers.section import section
from ..errors import ConvertError
from .tokenizer_check import Engine, load


def documents(text: str, size: int) -> list[str]:
    """The text cut behind a line end about every `size` characters."""
    out, at = [], 0
    while at < len(text):
        end = text.find("\n", at + size) + 1 or len(text)
        out.append(text[at:end])
        at = end
    return out


class TimedEngine(Engine):
    def time(self, texts: list[bytes]) -> tuple[float, list[int]]:
        """Seconds inside the engine, and all ids."""
        lengths = struct.pack(f"<{len(texts)}I", *map(len, texts))
        data = self._ask("t", 0, lengths + b"".join(texts), len(texts), 4)
        (seconds,) = struct.unpack_from("<d", data)
        return seconds, list(struct.unpack(f"<{len(data) // 4 - 2}i", data[8:]))


def time_reference(t, texts: list[str]) -> tuple[float, list[int]]:
    inner = getattr(t.reference, "tokenizer", None)
    if inner is None:
        ways = [lambda: [t.reference.encode(s, False) for s in texts]]
    else:
        inner.encode_special_tokens = True
        ways = [
            lambda: [inner.encode(s, add_special_tokens=False).ids for s in texts],
            lambda: [e.ids for e in inner.encode_batch_fast(texts, add_special_tokens=False)],
        ]
    best = float("inf")
    for way in ways:
        begin = time.perf_counter()
        ids = way()
        best = min(best, time.perf_counter() - begin)
    return best, [i for one in ids for i in one]


def run(source: Path, file: Path, n_bytes: int, document: int, rounds: int) -> bool:
    """Prints one line; true when the ids are equal and the engine is no slower."""
    t = load(source)
    if t.reference is None:
        raise ConvertError("no reference package reads this tokenizer")
    text = file.read_bytes()[:n_bytes].decode("utf-8", "replace")
    if not text:
        raise ConvertError(f"{file} is empty")
    texts = documents(text, document)
    data = [s.encode() for s in texts]
    size = sum(map(len, data)) / 1e6
    engine = TimedEngine(section(t))
    ours, theirs = [], []
    for _ in tqdm(range(rounds), desc="rounds", disable=None, leave=False):
        seconds, got = engine.time(data)
        ours.append(seconds)
        seconds, want = time_reference(t, texts)
        theirs.append(seconds)
    engine.close()
    ratio = min(theirs) / min(ours)
    print(
        f"{source}: {size:.1f} MB in {len(texts)} documents, {len(got)} ids: engine {size / min(ours):.1f} MB/s, "
        f"{t.reference.name} {size / min(theirs):.1f} MB/s, {ratio:.2f} times as fast"
    )
    if got != want:
        print("the ids differ")
    return got == want and ratio >= 1
