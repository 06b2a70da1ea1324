"""Texts of the model that ships: cleaned, cut into stories, sorted by how simple they read."""
import math
import re
from collections import Counter

# UTF-8 punctuation that was once read as cp1252. A closing quote lost its last byte, so the bare pair comes last.
MOJIBAKE = [("â€™", "'"), ("â€˜", "'"), ("â€œ", '"'), ("â€“", "-"), ("â€”", "--"), ("â€¦", "..."), ("â€", '"'),
            ("Ã¨", "è"), ("Ã©", "é"), ("Ãª", "ê"), ("Ã ", "à "), ("Ã¦", "æ")]
PLAIN = {"‘": "'", "’": "'", "´": "'", "“": '"', "”": '"', "–": "-", "—": "--", "―": "--", "…": "...", "\u2029": "\n\n",
         "\u200b": "", "\u2060": "", "\ufeff": "", "\u00a0": " ", "\ufffd": "", "\x82": "e", "\x88": "e", "_": "", "\r": ""}


def clean(text):
    """Repair mojibake, straighten quotes and dashes, drop italics marks and odd spaces; paragraphs stay '\\n\\n' apart."""
    for bad, good in MOJIBAKE:
        text = text.replace(bad, good)
    text = text.translate(str.maketrans(PLAIN))
    text = re.sub(r"\[Illustration[^\]]*\]", "", text)
    text = re.sub(r"[ \t]+", " ", text)
    text = re.sub(r" ?\n ?", "\n", text)
    return re.sub(r"\n{2,}", "\n\n", text).strip()


def lower_opening(text):
    """'ONCE upon a time' -> 'Once upon a time': drop-cap openings of printed books are not how a story begins."""
    m = re.match(r"[A-Z]{2,}(?: [A-Z']{2,})*(?= )", text)
    return m.group(0).capitalize() + text[m.end():] if m else text


def split_sample(text):
    """The sample's stories: a line break not next to an empty line starts a new one (cleaned text).

    Some early stories have single breaks inside; a short piece that opens like no story continues the previous one."""
    stories = []
    for piece in re.split(r"(?<!\n)\n(?!\n)", text):
        opens = re.match(r'(Once|One|There (was|were|lived)|It was|\w+ (and \w+ )?(was|were|is|had|liked|loved|went)\b)', piece)
        if stories and len(piece) < 250 and not opens:
            stories[-1] += "\n\n" + piece
        else:
            stories.append(piece)
    return [s for s in stories if len(s) > 100]


def words_of(text):
    return re.findall(r"[a-z']+", text.lower())


def sort_by_simplicity(books, simple):
    """Books ordered by mean log(p_simple(word) / p_books(word)): the ones that read most like `simple` come first."""
    a, b = Counter(w for t in simple for w in words_of(t)), Counter(w for t in books for w in words_of(t))
    na, nb = sum(a.values()), sum(b.values())
    ratio = {w: math.log((a[w] + 1) / (na + len(b))) - math.log(n / nb) for w, n in b.items()}
    score = lambda t: sum(ratio[w] for w in words_of(t)) / max(1, len(words_of(t)))
    return sorted(books, key=score, reverse=True)
