"""Writes src/text/unicode_tables.c by asking the reference: the tokenizers package itself.

Every code point goes through the package's own regular expressions, Digits, added tokens and normalizers, once per
property. The parts of that package carry tables of different Unicode versions, so no property is derived from another
and none from the standard. Usage: tools/unicode_tables.py > src/text/unicode_tables.c (about a minute).
"""

import functools
import sys

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

LETTER, NUMBER, SPACE, NUMERIC, WORD, BLANK, UNSTABLE = (1 << i for i in range(7))
SCALARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)


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


def block_index(packed: list[int]) -> list[int]:
    """For every block of 256 code points the number of the range that its first one lies in; and one more."""
    out, i = [], 0
    for block in range(0x110000 >> 8):
        while i + 1 < len(packed) and packed[i + 1] >> 8 <= block << 8:
            i += 1
        out.append(i)
    return [*out, len(packed) - 1]


def emit(name: str, numbers: list[int], kind: str = "uint32_t", shape: str = "", counted: bool = True) -> None:
    print(f"\nconst {kind} {name}[]{shape} = {{")
    per = 10 if kind == "uint32_t" else 14
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
    ):
        for c in members:
            classes[c] = classes.get(c, 0) | bit
    print("/* Generated by tools/unicode_tables.py from the answers of tokenizers " + tokenizers.__version__ + ". */")
    print("/* clang-format off */")
    print('#include "text/unicode_tables.h"')
    emit("UNICODE_CLASSES", ranges(classes))
    emit("UNICODE_ASCII", [classes.get(c, 0) for c in range(128)], "unsigned char", counted=False)
    emit("UNICODE_INDEX", block_index(ranges(classes)), "uint16_t", counted=False)
    emit("UNICODE_RANKS", ranges(ranks))
    ordered = sorted(pairs)
    emit("UNICODE_PAIRS", [n for c in ordered for n in (c, *pairs[c])], shape="[3]")
    emit("UNICODE_SINGLES", [n for c in sorted(singles) for n in (c, singles[c])], shape="[2]")
    index = {c: i for i, c in enumerate(ordered)}
    emit("UNICODE_COMPOSED", [index[c] for c in sorted(composed, key=lambda c: pairs[c])], "uint16_t")


if __name__ == "__main__":
    main()
