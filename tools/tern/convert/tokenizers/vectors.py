"""Strings that tokenizers get wrong, and their ids by the reference package, for the self test of a weights file."""

from ...weights import keys
from .tokenizer import SPECIAL, Tokenizer

_MOST_IDS = 1024  # of a string that is stored: all of them then take at most 2 MB of the file
FIXED = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\n\n\n", "\t\n", " \n ", "\r\n", "\r\n\r\n", "a\u0085b", "a\u00a0b",
    "a\u3000b", "a\u200bb", "Hello world", " Hello world", "Hello  world", "  Hello", "Hello ", "Hello   ", "Hello\n",
    "Hello, y'all! How are you? I'm fine; it's he's they'll we've I'd you're can't", "IT'S I'M WE'LL THEY'RE I'VE I'D DON'T",
    "it\u2019s", "'\u017f", "x'\u017fy", "'S'T'RE'VE'M'LL'D", "'s't're've'm'll'd", " 's", "''s", "'sa",
    "0", "12", "123", "1234", "12345", "123456", "1234567890", "3.14159", "-1,000,000.50", "\u00b2\u00b3\u00bd", "\u0661\u0662\u0663",
    "\u2167", "1a2b3c", "a1 b22 c333 d4444", "0x1F600", "1e-10", "2024-11-05T12:34:56Z", "\u4e00\u4e8c\u4e09",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8", "\ud55c\uad6d\uc5b4 \ud14d\uc2a4\ud2b8",
    "\u1100\u1161\u11a8", "\u0645\u0631\u062d\u0628\u0627", "\u05e9\u05dc\u05d5\u05dd", "\u0928\u092e\u0938\u094d\u0924\u0947",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!", "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5",
    "caf\u00e9", "cafe\u0301", "\u00c5ngstr\u00f6m \u212b", "e\u0301\u0323", "e\u0323\u0301", "\u1e69 s\u0323\u0307 s\u0307\u0323", "\u0344", "\u0958",
    "\ufb01\ufb02", "\u01c4", "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea",
    "\u2764\ufe0f", "a\U0001f642b \U0001f680\U0001f680", "\U00010348", "\U0001d54f", "\ue000", "\ufffd", "\ufeffBOM", "\x00", "a\x00b",
    "\x01\x02\x7f", "\u2581", "\u2581\u2581a", "a\u2581b", "<0x0A>", "<0xFF>", "<unk>", "<s>", "</s>", " <s> ", "a<s>b", "<s></s>", "<S>",
    "<|endoftext|>", "<|im_start|>user\nHi<|im_end|>", "<|begin_of_text|>", "<|eot_id|>", "[INST] x [/INST]", "<|", "|>", "<|x", "<",
    "def f(x):\n    return x ** 2\n", "for (int i = 0; i < n; i++) {\n\ta[i] += b[i];\n}", "#include <stdio.h>\n", "if(a&&b||!c){return;}",
    "SELECT * FROM t WHERE a = 'b';", "{\"key\": [1, 2.5, null, true]}", "<div class=\"x\">&amp;</div>", "http://example.com/a?b=c&d=e#f",
    "C:\\dir\\file.txt", "user@example.com", "$HOME/.cache", "__init__", "snake_case CamelCase kebab-case", "a/b/c", "...", "!!!", "?!?!",
    "----------", "==========", "**bold** _it_ `code`", "~~~~", "(((", ")))", "a,b;c:d", "$1.50", "50%", "#1", "@you", "&", "^", "\\n", "\"q\"",
    "\u201cquotes\u201d \u2018single\u2019 \u2013 \u2014 \u2026", "\u00ab\u00bb", "\u20ac5 \u00a37 \u00a59", "\u00a9\u00ae\u2122", "\u2200x\u2208\u211d: x\u00b2\u22650",
    " a", "  a", "   a", "    a", "a ", "a  ", "a   b", "a\tb", "a\t\tb", "a \t b", "\ta", "a\n", "a\nb", "a\n\nb", "a \nb", "a\n b", "a \n b",
    "a  \n  b", "\n a", "\n  a", " \na", "  \n\n  a", "a\r\nb", "a\rb", "a\x0bb", "a\x0cb", "a\u2028b", "a\u2029b", "a \u00a0 b", "\u00a0\u00a0a",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "abababababababab", "________________", "                                 ", "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
    "The quick brown fox jumps over the lazy dog.", "THE QUICK BROWN FOX", "tHe qUiCk", "Once upon a time, there was a little girl named Lily.",
    "antidisestablishmentarianism", "Donaudampfschifffahrtsgesellschaft", "llanfairpwllgwyngyll", "xkcd qwzx jjj",
    "ied 4 \u00bd months", "F\u00fchrer", " this is \U0001f999.cpp", "w048 7tuijk dsdfhu", "\u043d\u0435\u0449\u043e \u043d\u0430 \u0411\u044a\u043b\u0433\u0430\u0440\u0441\u043a\u0438",
    "\u1780\u17b6\u1793\u17cb\u178f\u17c2\u1796\u17b7\u179f\u17c1\u179f", "\U0001f680 (normal) \U0001f636\u200d\U0001f32b\ufe0f (multiple emojis concatenated) \u2705",
]  # fmt: skip


def vector_strings(specials: list[str]) -> list[str]:
    """About 200 strings for the self test of a weights file; up to eight of the model's own special tokens in them."""
    out = list(FIXED)
    for token in specials[:8]:
        out += [token, f"a{token}b", f" {token} ", f"{token}\n{token} x"]
    return out


def vectors(t: Tokenizer | None, more: list[str] | None = None) -> dict | None:
    """Strings and their ids by the reference package, for the weights file's self test."""
    if t is None or t.reference is None:
        return None
    strings = vector_strings([a.content for a in t.added if a.flags & SPECIAL]) + (more or [])
    rows = [(s, t.reference.encode(s, False), t.reference.encode(s, True)) for s in strings]
    rows = [row for row in rows if max(len(row[1]), len(row[2])) <= _MOST_IDS]
    out = {
        "text.bytes": b"".join(s.encode() for s, *_ in rows),
        "text.lengths": keys.U32s([len(s.encode()) for s, *_ in rows]),
    }
    for name, ids in (("plain", [plain for _, plain, _ in rows]), ("parse", [parse for *_, parse in rows])):
        out[f"{name}.ids"] = keys.U32s([i for one in ids for i in one])
        out[f"{name}.lengths"] = keys.U32s([len(one) for one in ids])
    return out
