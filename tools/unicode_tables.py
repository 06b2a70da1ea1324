"""Writes src/text/unicode_tables.c by asking the reference: the tokenizers package itself.

Every code point goes through the package's own regular expressions, Digits, added tokens and normalizers, once per
property. The parts of that package carry tables of different Unicode versions, so no property is derived from another
and none from the standard. Usage: tools/unicode_tables.py > src/text/unicode_tables.c (about a minute).
"""

import functools
import io
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


def ranges(value: dict[int, int]) -> list[int]:
    """start << 8 | value wherever the value of a code point differs from that of the one before."""
    out, before = [], -1
    for c in range(0x110000):
        if value.get(c, 0) != before:
            before = value.get(c, 0)
            out.append(c << 8 | before)
    return out


def fold(c: int) -> int:
    """Place of a code point in the tables of classes: planes 3 to 13 and 15 on hold nothing but zeros and are left out."""
    return c if c < FOLD else c - 0xE0000 + FOLD


def blocks(value: dict[int, int]) -> tuple[list[int], list[int], list[int]]:
    """Ranges, as (start & 255) << 8 | kind; for every block of 256 folded code points the last range before it; and of
    each kind the value of its even and of its odd code points: capital and small letters often alternate."""
    if set(value) - {c for c in range(0x110000) if c < FOLD or 0xE0000 <= c < 0xE1000}:
        sys.exit(f"a code point that is not folded has a class: {max(value):#x}")
    folded = {fold(c): v for c, v in value.items()}
    kinds, starts, pair = [], [], [None, None]
    for c in range(FOLD + 0x1000):
        v = folded.get(c, 0)
        if pair[c & 1] not in (None, v) or not starts:
            starts.append(c)
            pair = [None, None]
            kinds.append(pair)
        pair[c & 1] = v
    whole = [tuple(p[0] if v is None else v for v in p) if p[0] is not None else (p[1], p[1]) for p in kinds]
    table = sorted(set(whole))
    if len(table) > 256:
        sys.exit(f"{len(table)} kinds of ranges, more than a byte tells apart")
    packed = [start << 8 | table.index(pair) for start, pair in zip(starts, whole)]
    index = [max(0, sum(1 for r in packed if r >> 8 < block << 8) - 1) for block in range((FOLD + 0x1000 >> 8) + 1)]
    return [r & 0xFFFF for r in packed], index, [v for pair in table for v in pair]


def planes(table: list[tuple[int, ...]]) -> tuple[list[int], list[int]]:
    """The rows without their planes, by planes and then by code point; and where each pair of planes (of c << 4 |
    of what it becomes) ends."""
    keyed = {}
    for c, *rest in sorted(table):
        if len({r >> 16 for r in rest}) != 1 or (len(rest) == 2 and rest[0] >> 16 != c >> 16):
            sys.exit(f"U+{c:04X} becomes code points of two planes")
        keyed.setdefault(c >> 16 << 4 | rest[0] >> 16, []).append((c & 0xFFFF, *(r & 0xFFFF for r in rest)))
    rows, ends = [], []
    for key in sorted(keyed):
        rows += keyed[key]
        ends += [key, len(rows)]
    return [n for row in rows for n in row], ends


def emit(name: str, numbers: list[int], kind: str = "uint32_t", shape: str = "", counted: bool = True) -> None:
    print(f"\nconst {kind} {name}[]{shape} = {{")
    per = 10 if kind == "uint32_t" else 12
    rows = [f"{n:#x}" for n in numbers]
    if shape:
        width = int(shape[1:-1])
        rows = ["{" + ", ".join(rows[i : i + width]) + "}" for i in range(0, len(rows), width)]
        per = 8 // width
    for i in range(0, len(rows), per):
        print("    " + ", ".join(rows[i : i + per]) + ",")
    print("};")
    if counted:
        print(f"const size_t {name}_N = {len(rows)};")


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
    packed, index, kinds = blocks(classes)
    emit("UNICODE_CLASSES", packed, "uint16_t", counted=False)
    emit("UNICODE_INDEX", index, "uint16_t", counted=False)
    emit("UNICODE_KINDS", kinds, "uint16_t", shape="[2]", counted=False)
    emit("UNICODE_ASCII", [classes.get(c, 0) for c in range(128)], "uint16_t", counted=False)
    emit("UNICODE_RANKS", ranges(ranks))
    rows, ends = planes([(c, *pairs[c]) for c in pairs])
    emit("UNICODE_PAIRS", rows, "uint16_t", shape="[3]", counted=False)
    emit("UNICODE_PAIR_PLANES", ends, "uint16_t", shape="[2]")
    ordered = sorted(pairs)  # as the rows are: a pair stays in its plane
    index = {c: i for i, c in enumerate(ordered)}
    emit("UNICODE_COMPOSED", [index[c] for c in sorted(composed, key=lambda c: pairs[c])], "uint16_t")
    rows, ends = planes(list(singles.items()))
    emit("UNICODE_SINGLES", rows, "uint16_t", shape="[2]", counted=False)
    emit("UNICODE_SINGLE_PLANES", ends, "uint16_t", shape="[2]")


if __name__ == "__main__":
    main()
