"""Times the engine's tokenizer against the reference package on one core, both fed the same documents.

    tools/bench_tokenizer.py SOURCE TEXT [--bytes N] [--document N] [--rounds N]

SOURCE is whatever tools/check_tokenizer.py takes. TEXT is cut at line ends into documents of about --document bytes,
which are encoded one after another, in plain mode, by tests/prog/prog_tokenizer.c and by the package in turns; the best round
of each counts. Of the package's encode and encode_batch_fast (no offsets) the faster counts. The ids are compared.
Exit code 1 when the ids differ or the engine is slower.
"""

import argparse
import os
import struct
import sys
import time
from pathlib import Path

os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}

from tern.convert.tokenizers.section import section  # noqa: E402
from tern.errors import ConvertError  # noqa: E402
from tern.testing.tokenizer_check import Engine, load  # noqa: E402


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


def run(options: argparse.Namespace) -> int:
    t = load(options.source)
    if t.reference is None:
        raise ConvertError("no reference package reads this tokenizer")
    text = options.text.read_bytes()[: options.bytes].decode("utf-8", "replace")
    texts = documents(text, options.document)
    data = [s.encode() for s in texts]
    size = sum(map(len, data)) / 1e6
    engine = TimedEngine(section(t))
    ours, theirs = [], []
    for _ in range(options.rounds):
        seconds, got = engine.time(data)
        ours.append(seconds)
        seconds, want = time_reference(t, texts)
        theirs.append(seconds)
    engine.close()
    ratio = min(theirs) / min(ours)
    print(
        f"{options.source}: {size:.1f} MB in {len(texts)} documents, {len(got)} ids: engine {size / min(ours):.1f} MB/s, "
        f"{t.reference.name} {size / min(theirs):.1f} MB/s, {ratio:.2f} times as fast"
    )
    if got != want:
        print("the ids differ")
    return int(got != want or ratio < 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--bytes", type=int, default=10_000_000, metavar="N")
    parser.add_argument("--document", type=int, default=4096, metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    try:
        return run(parser.parse_args())
    except (ConvertError, OSError) as e:
        print(f"bench_tokenizer: {e}", file=sys.stderr)
        return getattr(e, "code", 4)


if __name__ == "__main__":
    sys.exit(main())
