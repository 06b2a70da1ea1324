"""The expressions by which byte-level BPE cuts text into words, under the names of the models that brought them.

PATTERNS are those that src/text/patterns.c knows by their exact text; any other is refused.
"""

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CL100K = f"{_CONTRACTIONS}|{_WORDS}"
LLAMA3 = _CL100K % r"\p{N}{1,3}"
QWEN2 = _CL100K % r"\p{N}"
UFAKZEKA = _WORDS % r"\p{N}"
LING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
_CAPITALS, _SMALL = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_CAPITALS}*{_SMALL}+%s|[^\r\n\p{{L}}\p{{N}}]?{_CAPITALS}+{_SMALL}*%s|%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = _O200K % (_CONTRACTIONS + "?", _CONTRACTIONS + "?", r"\p{N}{1,3}")
TEKKEN = _O200K % ("", "", r"\p{N}")
QWEN35 = (
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_KIMI = [c[:-1] + r"&&[^\p{Han}]]" for c in (_CAPITALS, _SMALL)]
KIMI = (
    rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{_KIMI[0]}*{_KIMI[1]}+{_CONTRACTIONS}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_KIMI[0]}+{_KIMI[1]}*{_CONTRACTIONS}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
EXAONE_MOE = (
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
)
_SEED = _CONTRACTIONS + r"|[^%s\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}%s]+|\s*[%s]+|\s+(?!\S)|\s+"
SEED = _SEED % (("\r\n",) * 3)
JAIS2 = LLAMA3.removesuffix(r"\s+(?!\S)|\s+") + "".join(rf"\s{{{2**i}}}(?!\S)|" for i in range(9, 1, -1))
JAIS2 += r"\s{1,2}(?!\S)|\s{1}"
BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
_DEEPSEEK3 = (
    r"""[!"#$%%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^%s\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[%s]*|\s*[%s]+|\s+(?!\S)|\s+"
)
_HAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
MINICPM5 = [r"\p{N}{1,3}", _CL100K % r"\p{N}+"]
LAGUNA = [r"[^\n]+|[\n]+", QWEN2]
COHERE_MOE = [r"\d{1,3}(?=(?:\d{3})*\b)", O200K]
# Split one after another, each isolated. CR and LF are themselves in these.
DEEPSEEK3 = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", _DEEPSEEK3 % (("\r\n",) * 3)]
YOUTU = [
    "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+"
    "|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    _O200K % (_CONTRACTIONS + "?", _CONTRACTIONS + "?", r"\p{N}"),
]
TRINITY = [
    r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff"
    "\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+",
    _DEEPSEEK3 % ((r"\r\n",) * 3),
]
DEEPSEEK2 = [
    "[\r\n]",
    r"\s?["
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377"
    "\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556"
    "\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
    "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
    "\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f"
    "\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b"
    "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
    "\U000118a0-\U000118df\U0001e900-\U0001e943]+",
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
    r"\s+$",
    _HAN,
]
DEEPSEEK_CODER = ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _HAN]
# What Whitespace cuts at. Not one of PATTERNS: the package reads \\w of a Split with another library.
WORDS = r"\w+"
THREE_DIGITS = "[0-9][0-9][0-9]"
# What llama.cpp does where a file names no pre-tokenizer.
LLAMA_CPP_DEFAULT = [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", THREE_DIGITS]
# Those of src/text/patterns.c, by their exact text.
PATTERNS = {
    GPT2, LLAMA3, QWEN2, O200K, TEKKEN, r"\p{N}", *DEEPSEEK3, _DEEPSEEK3 % ((r"\r\n",) * 3), *DEEPSEEK2, r"[\r\n]",
    *DEEPSEEK_CODER, *LLAMA_CPP_DEFAULT, QWEN35, KIMI, EXAONE_MOE, SEED, _SEED % ((r"\r\n",) * 3), JAIS2, *YOUTU, *TRINITY,
    UFAKZEKA, LING, *MINICPM5, *LAGUNA, *COHERE_MOE, BLOOM, BLOOM.replace("|.", "|[.").replace("\u060c", "\u060c]"),
}  # fmt: skip
