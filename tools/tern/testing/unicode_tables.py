"""The tables of src/text/unicode_tables.c and src/sample/language/regex_categories.c. In: the reference, which is the tokenizers package itself. Out: one source, printed.

Every code point goes through the package's own regular expressions, Digits, added tokens and normalizers, once per
property. The parts of that package carry tables of different Unicode versions, so no property is derived from another
and none from the standard.
"""

import functools
import io
import itertools
import tempfile

import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
from tqdm import tqdm

from ..convert.tokenizers import sentencepiece_model as spf
from ..errors import ConvertError

LETTER, NUMBER, SPACE, NUMERIC, WORD, BLANK, UNSTABLE = (1 << i for i in range(7))
UPPER, LOWER, SYMBOL, PUNCT, PUNCTUATION, EXTENDS, CONTROL = (1 << i for i in range(7, 14))
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


def punctuation() -> set[int]:
    """Code points that Punctuation splits off."""
    rest = pre_tokenizers.Punctuation("removed").pre_tokenize_str("".join(map(chr, SCALARS)))
    out = set(SCALARS)
    for _, (start, end) in rest:
        out.difference_update(SCALARS[start:end])
    return out


def scripts() -> dict[int, int]:
    """The script, from 1 on, of every code point at which UnicodeScripts may cut. Two numbers are equal where it never
    cuts between the two: it takes Hiragana, Katakana and Han for one script. A space has none, nor has what it does not
    know."""

    def starts(text: str) -> set[int]:
        return {start for _, (start, _) in pre_tokenizers.UnicodeScripts().pre_tokenize_str(text)}

    found = starts("".join(f"a{chr(c)}\u0431{chr(c)}" for c in SCALARS))
    points = [c for i, c in enumerate(SCALARS) if found & {4 * i + 1, 4 * i + 3}]
    found = starts("".join(map(chr, points)))
    firsts = [c for i, c in enumerate(points) if i in found]
    numbers: dict[int, int] = {}
    for number in itertools.count(1):
        left = [c for c in firsts if c not in numbers]
        if not left:
            break
        found = starts("".join(chr(left[0]) + chr(c) for c in left))
        numbers.update((c, number) for i, c in enumerate(left) if 2 * i + 1 not in found)
    out, last = {}, 0
    for c in points:
        out[c] = last = numbers.get(c, last)
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
                raise ConvertError(f"'{literal} at {at}: the package folds {got}, the scanner {want}")


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
            raise ConvertError(f"U+{c:04X}: {d!r} is not taken apart in steps")
        if nfc(chr(c)) == chr(c):
            composed.add(c)
            if nfc(first + d[-1]) != chr(c):
                raise ConvertError(f"U+{c:04X}: {first!r} and {d[-1]!r} are not composed")
    for c in HANGUL:
        s = c - 0xAC00
        want = chr(0x1100 + s // 588) + chr(0x1161 + s % 588 // 28) + (chr(0x11A7 + s % 28) if s % 28 else "")
        if nfd(chr(c)) != want or nfc(want) != chr(c):
            raise ConvertError(f"U+{c:04X}: not the Hangul arithmetic")
    return pairs, singles, composed


def number(n: int) -> bytes:
    """Seven bits a byte, the lowest first; the top bit says that more follow."""
    return bytes([n & 127 | 128]) + number(n >> 7) if n > 127 else bytes([n])


def differences(items: list[int]) -> list[int]:
    """From each to the next, the first from 0; the sign in the lowest bit."""
    return [abs(b - a) << 1 | (b < a) for a, b in itertools.pairwise([0, *items])]


def emit(kind: str, name: str, items: list[int] | bytes) -> None:
    print(f"\nconst {kind} {name}[{len(items)}] = {{")
    for i in range(0, len(items), 24):
        print("    " + ",".join(str(x) for x in items[i : i + 24]) + ",")
    print("};")


def emit_packed(name: str, rows: list[tuple[int, ...]]) -> None:
    emit("uint8_t", name, b"".join(number(n) for row in rows for n in row))


def emit_classes(classes: dict[int, int]) -> None:
    kinds = sorted({0, *classes.values()})
    runs = [(kind, sum(1 for _ in run)) for kind, run in itertools.groupby(kinds.index(classes.get(c, 0)) for c in range(0x110000))]
    emit("uint16_t", "UNICODE_CLASS_OF", kinds)
    emit_packed("UNICODE_CLASSES", [(n << 5 | kind,) for kind, n in runs])
    print(f"_Static_assert(N_UNICODE_KINDS == {len(kinds)}, \"a class has another kind\");")


def emit_decompositions(pairs: dict[int, tuple[int, int]], singles: dict[int, int], composed: set[int]) -> None:
    steps = {**pairs, **{c: (to, 0) for c, to in singles.items()}}
    order = sorted(steps)
    gaps = [b - a << 1 | (b in composed) for a, b in itertools.pairwise([0, *order])]
    firsts, seconds = (differences([steps[c][i] for c in order]) for i in range(2))
    emit_packed("UNICODE_STEPS", list(zip(gaps, firsts, seconds)))
    print(f"_Static_assert(N_UNICODE_STEPS == {len(order)}, \"steps\");")
    print(f"_Static_assert(N_UNICODE_COMPOSED == {len(composed)}, \"composed steps\");")


def emit_ranks(ranks: dict[int, int]) -> None:
    firsts = [c for c in sorted(ranks) if ranks.get(c - 1) != ranks[c]]
    lengths = [next(n for n in itertools.count(1) if ranks.get(c + n) != ranks[c]) for c in firsts]
    gaps = [b - a for a, b in itertools.pairwise([0, *firsts])]
    emit_packed("UNICODE_RANKS", list(zip(gaps, lengths, (ranks[c] for c in firsts))))
    print(f"_Static_assert(N_UNICODE_RANKS == {len(firsts)}, \"runs of a rank\");")


def emit_scripts(script_of: dict[int, int]) -> None:
    before = [-1, *(script_of.get(c, 0) for c in SCALARS)]
    runs = [(c, script) for c, last, script in zip(SCALARS, before, before[1:]) if script != last]
    gaps = [b - a for a, b in itertools.pairwise([0, *(c for c, _ in runs)])]
    emit_packed("UNICODE_SCRIPTS", list(zip(gaps, (script for _, script in runs))))
    print(f"_Static_assert(N_UNICODE_SCRIPTS == {len(runs)}, \"runs of a script\");")


def write() -> None:
    """Prints the source, or fails where the package does what the engine cannot follow."""
    check_folds()
    pairs, singles, composed = decompositions()
    ranks = combining()
    unstable = set(ranks) | {c for c in SCALARS if nfc(chr(c)) != chr(c)} | {pairs[c][1] for c in composed}
    unstable |= set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    classes: dict[int, int] = {}
    properties = (
        (LETTER, matching, r"\p{L}+"),
        (NUMBER, matching, r"\p{N}+"),
        (SPACE, matching, r"\s+"),
        (NUMERIC, numeric),
        (WORD, word),
        (BLANK, blank),
        (UNSTABLE, lambda: unstable),
        (UPPER, matching, r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"),
        (LOWER, matching, r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"),
        (SYMBOL, matching, r"[\p{P}\p{S}]+"),
        (PUNCT, matching, r"\p{P}+"),
        (PUNCTUATION, punctuation),
        (EXTENDS, extends),
        (CONTROL, control),
    )
    for bit, members, *pattern in tqdm(properties, desc="properties", disable=None, leave=False):
        for c in members(*pattern):
            classes[c] = classes.get(c, 0) | bit
    print("/* Generated by tools/unicode_tables.py from the answers of tokenizers " + tokenizers.__version__ + ". */")
    print("/* clang-format off */")
    print('#include "text/unicode_tables.h"')
    emit_classes(classes)
    emit_decompositions(pairs, singles, composed)
    emit_ranks(ranks)
    emit_scripts(scripts())


CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()


def write_categories() -> None:
    """Prints the general category of every code point: 0 is Cn, the next ones are CATEGORIES, then Cs."""
    category = {c: len(CATEGORIES) + 1 for c in range(0xD800, 0xE000)}
    for i, name in enumerate(tqdm(CATEGORIES, desc="categories", disable=None, leave=False)):
        category.update((c, i + 1) for c in matching(rf"\p{{{name}}}+"))
    runs = [(kind, sum(1 for _ in run)) for kind, run in itertools.groupby(category.get(c, 0) for c in range(0x110000))]
    print("/* Generated by tools/unicode_tables.py --categories from the answers of tokenizers " + tokenizers.__version__ + ". */")
    print("/* clang-format off */")
    print('#include "sample/language/regex_categories.h"')
    emit_packed("REGEX_CATEGORIES", [(n << 5 | kind,) for kind, n in runs])
