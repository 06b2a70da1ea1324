"""Writes src/text/unicode_tables.c by asking the reference: the tokenizers package itself.

Every code point goes through the package's own regular expressions, Digits, added tokens and normalizers, once per
property. The parts of that package carry tables of different Unicode versions, so no property is derived from another
and none from the standard. Usage: tools/unicode_tables.py > src/text/unicode_tables.c (about a minute).
"""

import functools
import io
import itertools
import sys
import tempfile
from pathlib import Path

import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

sys.path.insert(0, str(Path(__file__).resolve().parent))

from ternlib import sentencepiece_file as spf  # noqa: E402

LETTER, NUMBER, SPACE, NUMERIC, WORD, BLANK, UNSTABLE = (1 << i for i in range(7))
UPPER, LOWER, SYMBOL, PUNCT, PUNCTUATION, EXTENDS, CONTROL = (1 << i for i in range(7, 14))
SCALARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)
FOLD = 0x33400  # classes above this are those of U+E0000 to U+E0FFF


def matching(pattern: str) -> set[int]:
    """Code points that a pattern of the Split pre-tokenizer matches."""
    text = "".join(map(chr, SCALARS))
    rest = pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(text)
    out = set(SCALARS)
    for _, (start, end) in rest:
        out.difference_update(SCALARS[start:end])
    return out


def numeric() -> set[int]:
    """Code points that Digits splits off."""
    text = "".join("a" + chr(c) for c in SCALARS)
    pieces = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str(text)
    return {SCALARS[start // 2] for _, (start, end) in pieces if start % 2 == 1 and end == start + 1}


def added(token: AddedToken, matched) -> set[int]:
    """Code points c for which matched(the encoding of c before the token) holds."""
    t = Tokenizer(models.BPE(vocab={"?": 0}, merges=[], unk_token="?"))
    t.add_tokens([token])
    out = set()
    for i in range(0, len(SCALARS), 1 << 16):
        part = SCALARS[i : i + (1 << 16)]
        for c, e in zip(part, t.encode_batch([chr(c) + token.content for c in part])):
            if matched(e):
                out.add(c)
    return out


def word() -> set[int]:
    return added(AddedToken("X", single_word=True, normalized=False), lambda e: 1 not in e.ids)


def blank() -> set[int]:
    return added(AddedToken("X", lstrip=True, normalized=False), lambda e: e.offsets[0] == (0, 2))


def punctuation() -> set[int]:
    """Code points that Punctuation splits off."""
    rest = pre_tokenizers.Punctuation("removed").pre_tokenize_str("".join(map(chr, SCALARS)))
    out = set(SCALARS)
    for _, (start, end) in rest:
        out.difference_update(SCALARS[start:end])
    return out


def to_x(points: list[int]) -> normalizers.Precompiled:
    """The normalizer that turns each of the code points, and whatever grapheme of 5 bytes it begins, into an X."""
    out = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.writelines(f"{c:X}\t58\n" for c in points)
        rules.flush()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b c"] * 10), model_writer=out, model_type="char", vocab_size=9,
            hard_vocab_limit=False, normalization_rule_tsv=rules.name, minloglevel=2,
        )  # fmt: skip
    return normalizers.Precompiled(spf.parse(out.getvalue()).charsmap)


def extends() -> set[int]:
    """Code points that belong to the grapheme before them."""
    x = to_x([ord("a")])
    return {c for c in SCALARS if x.normalize_str("a" + chr(c)) == "X"}


def control() -> set[int]:
    """Code points that nothing extends. Those of 4 bytes are not asked for: their graphemes are too long."""
    points = [c for c in range(1, 0x10000) if c != ord("X") and not 0xD800 <= c < 0xE000]
    x = to_x(points)
    return {c for c in points if x.normalize_str(chr(c) + "\u0301") != "X"}


def check_folds() -> None:
    """`(?i:'s|'t|'re|'ve|'m|'ll|'d)`: besides ASCII only U+017F folds, to s. The scanner relies on it."""
    for literal in ("s", "t", "re", "ve", "m", "ll", "d"):
        split = pre_tokenizers.Split(Regex(f"(?i:'{literal})"), "removed")
        for at in range(len(literal) + 1):
            frame = ["'" + literal[:at], literal[at + 1 :]] if at < len(literal) else ["'", ""]
            want = {literal[at], literal[at].upper()} if at < len(literal) and len(frame[0] + frame[1]) == len(literal) else set()
            if at < len(literal) and literal[at] == "s":
                want.add("\u017f")
            if at == len(literal) and len(literal) == 1:
                continue
            unit = len(frame[0]) + 1 + len(frame[1])
            text = "".join(frame[0] + chr(c) + frame[1] for c in SCALARS)
            left = set(range(len(SCALARS)))
            for _, (start, end) in split.pre_tokenize_str(text):
                left.difference_update(range(start // unit, (end - 1) // unit + 1))
            got = {chr(SCALARS[i]) for i in left}
            if got != want:
                sys.exit(f"'{literal} at {at}: the package folds {got}, the scanner {want}")


def nfd(text: str) -> str:
    return normalizers.NFD().normalize_str(text)


def nfc(text: str) -> str:
    return normalizers.NFC().normalize_str(text)


def combining() -> dict[int, int]:
    """Rank (from 1) of the combining class of every code point that has one."""
    marks = [c for c in SCALARS if c == 0x345 or nfd("\u0345" + chr(c)) == chr(c) + "\u0345"]
    marks = [c for c in marks if nfd(chr(c)) == chr(c)]

    def order(a: int, b: int) -> int:
        if nfd(chr(b) + chr(a)) == chr(a) + chr(b):
            return -1 if nfd(chr(a) + chr(b)) == chr(a) + chr(b) else 0
        return 1

    marks.sort(key=functools.cmp_to_key(lambda a, b: order(a, b) if a != b else 0))
    ranks, rank = {}, 0
    for i, c in enumerate(marks):
        if i == 0 or nfd(chr(c) + chr(marks[i - 1])) != chr(c) + chr(marks[i - 1]):
            rank += 1
        ranks[c] = rank
    return ranks


def decompositions() -> tuple[dict[int, tuple[int, int]], dict[int, int], set[int]]:
    """Pairs (one step each), singletons, and the pairs that are composed again."""
    pairs, singles, composed = {}, {}, set()
    full = {c: nfd(chr(c)) for c in SCALARS if c not in HANGUL}
    full = {c: d for c, d in full.items() if d != chr(c)}
    by_text = {d: c for c, d in full.items() if len(d) > 1 and nfc(d) == chr(c)}
    for c, d in full.items():
        by_text.setdefault(d, c)
    for c, d in full.items():
        if len(d) == 1:
            singles[c] = ord(d)
            continue
        first = d[0] if len(d) == 2 else chr(by_text[d[:-1]])
        pairs[c] = (ord(first), ord(d[-1]))
        if nfd(first + d[-1]) != d:
            sys.exit(f"U+{c:04X}: {d!r} is not taken apart in steps")
        if nfc(chr(c)) == chr(c):
            composed.add(c)
            if nfc(first + d[-1]) != chr(c):
                sys.exit(f"U+{c:04X}: {first!r} and {d[-1]!r} are not composed")
    for c in HANGUL:
        s = c - 0xAC00
        want = chr(0x1100 + s // 588) + chr(0x1161 + s % 588 // 28) + (chr(0x11A7 + s % 28) if s % 28 else "")
        if nfd(chr(c)) != want or nfc(want) != chr(c):
            sys.exit(f"U+{c:04X}: not the Hangul arithmetic")
    return pairs, singles, composed


class Packer:
    """Packs numbers for src/text/unicode_data.c: each bit by a model of its place, which adapts (an adaptive binary
    range coder, as LZMA has: Martin, 1979). Models begin at 0, which is a probability of 1/2."""

    def __init__(self) -> None:
        self.low, self.range, self.shifts, self.models = 0, 2**32 - 1, 0, {}

    def bit(self, model: tuple, bit: int) -> None:
        zero = 2048 + self.models.get(model, 0)  # of 4096
        bound = (self.range >> 12) * zero
        self.low, self.range = (self.low + bound, self.range - bound) if bit else (self.low, bound)
        self.models[model] = zero - 2048 + (-(zero >> 4) if bit else 4096 - zero >> 4)
        while self.range < 1 << 24:
            self.low, self.range, self.shifts = self.low << 8, self.range << 8, self.shifts + 1

    def tree(self, model: tuple, value: int, bits: int) -> None:
        """A number below 2 ** bits, high bits first."""
        for i in reversed(range(bits)):
            self.bit((*model, 1 << bits - 1 - i | value >> i + 1), value >> i & 1)

    def number(self, model: tuple, value: int) -> None:
        """Any number from 0: that of the bits of value + 1 below the highest, in unary, and then those bits."""
        more = (value + 1).bit_length() - 1
        for i in range(more + 1):
            self.bit((*model, "more", i), i < more)
        for i in reversed(range(more)):
            above = value + 1 >> i + 1
            self.bit((*model, more, above if above < 16 else 0), value + 1 >> i & 1)

    def difference(self, model: tuple, value: int) -> None:
        self.number(model, 2 * value if value >= 0 else -2 * value - 1)

    def packed(self) -> list[int]:
        return list(self.low.to_bytes(self.shifts + 4, "big"))


def runs(values: list[int]) -> list[tuple[int, int]]:
    """(value, how often) of neighbours that are equal."""
    return [(value, len(list(group))) for value, group in itertools.groupby(values)]


def fold(c: int) -> int:
    """Place of a code point in the table of classes: planes 3 to 13 and 15 on hold nothing but zeros and are left out."""
    return c if c < FOLD else c - 0xE0000 + FOLD


def pack_classes(packer: Packer, classes: dict[int, int]) -> list[int]:
    """Packs the kind of every folded code point, in runs, and returns the class of every kind."""
    folded = [0] * (FOLD + 0x1000)
    for c, value in classes.items():
        if not (c < FOLD or 0xE0000 <= c < 0xE1000):
            sys.exit(f"a code point that is not folded has a class: {c:#x}")
        folded[fold(c)] = value
    kinds = sorted(set(folded))
    if len(kinds) > 32:
        sys.exit(f"{len(kinds)} kinds of code points, more than 5 bits tell apart")
    before = 0
    for kind, n in runs([kinds.index(value) for value in folded]):
        packer.tree(("kind", before), kind, 5)
        packer.number(("run", kind), n - 1)
        before = kind
    return kinds


def pack_ranks(packer: Packer, ranks: dict[int, int]) -> None:
    """Packs the rank of every code point in runs, the last of which is the last that is not 0."""
    before = 0
    for rank, n in runs([ranks.get(c, 0) for c in range(max(ranks) + 1)]):
        packer.tree(("rank", before > 0), rank, 6)
        packer.number(("ranked", rank > 0), n - 1)
        before = rank
    packer.tree(("rank", True), 63, 6)


def pack_forms(packer: Packer, pairs: dict[int, tuple[int, int]], singles: dict[int, int], composed: set[int]) -> None:
    """Packs every code point that is taken apart: its distance, what it becomes, if a pair its second and whether it is
    composed again; the last is followed by a distance of 0."""
    before = first = second = 0
    for c in sorted([*pairs, *singles]):
        packer.number(("step",), c - before)
        packer.bit(("pair",), c in pairs)
        to = pairs[c][0] if c in pairs else singles[c]
        packer.difference(("to", c in pairs), to - first)
        if c in pairs:
            packer.difference(("second",), pairs[c][1] - second)
            packer.bit(("composed",), c in composed)
            second = pairs[c][1]
        before, first = c, to
    packer.number(("step",), 0)


def emit(name: str, numbers: list[int], kind: str) -> None:
    print(f"\nconst {kind} {name}[] = {{")
    for i in range(0, len(numbers), 16):
        print("    " + ", ".join(f"{n:#x}" for n in numbers[i : i + 16]) + ",")
    print("};")


def main() -> None:
    check_folds()
    pairs, singles, composed = decompositions()
    ranks = combining()
    unstable = set(ranks) | {c for c in SCALARS if nfc(chr(c)) != chr(c)} | {pairs[c][1] for c in composed}
    unstable |= set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    classes: dict[int, int] = {}
    for bit, members in (
        (LETTER, matching(r"\p{L}+")),
        (NUMBER, matching(r"\p{N}+")),
        (SPACE, matching(r"\s+")),
        (NUMERIC, numeric()),
        (WORD, word()),
        (BLANK, blank()),
        (UNSTABLE, unstable),
        (UPPER, matching(r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+")),
        (LOWER, matching(r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]+")),
        (SYMBOL, matching(r"[\p{P}\p{S}]+")),
        (PUNCT, matching(r"\p{P}+")),
        (PUNCTUATION, punctuation()),
        (EXTENDS, extends()),
        (CONTROL, control()),
    ):
        for c in members:
            classes[c] = classes.get(c, 0) | bit
    print("/* Generated by tools/unicode_tables.py from the answers of tokenizers " + tokenizers.__version__ + ". */")
    print("/* clang-format off */")
    print('#include "text/unicode_tables.h"')
    packer = Packer()
    emit("UNICODE_KINDS", pack_classes(packer, classes), "uint16_t")
    emit("UNICODE_PACKED_CLASSES", packer.packed(), "unsigned char")
    packer = Packer()
    pack_ranks(packer, ranks)
    pack_forms(packer, pairs, singles, composed)
    emit("UNICODE_PACKED_FORMS", packer.packed(), "unsigned char")


if __name__ == "__main__":
    main()
