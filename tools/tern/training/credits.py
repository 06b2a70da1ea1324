"""The credits of the picture books, as Markdown."""

from pathlib import Path

from .documents import text_of


def credits(args):
    """credits.tsv -> Markdown: one line for every CC BY picture book."""
    rows = [l.split("\t") for l in text_of(Path(args.text) / "credits.tsv").splitlines()]
    books = [dict(zip(rows[0], r + [""] * 7)) for r in rows[1:]]
    print("# Credits\n\nThe model was trained, among other texts, on these picture books, licensed under Creative Commons"
          " Attribution\n(https://creativecommons.org/licenses/by/4.0/). The texts were changed: layout and pictures removed,"
          " punctuation\nnormalised. Thanks to everyone who wrote, drew and translated them and gave them to all.")
    sites = {"African Storybook": "https://www.africanstorybook.org", "Pratham": "https://storyweaver.org.in"}
    for collection in dict.fromkeys(b["collection"] for b in books):
        mine = [b for b in books if b["collection"] == collection]
        site = next((u for n, u in sites.items() if n in collection), "")
        print(f"\n## {collection} ({len(mine)} books, {site})\n")
        for b in mine:
            who = [f"{label} {b[key].strip()}" for label, key in
                   (("text:", "text"), ("illustration:", "illustration"), ("translation:", "translation")) if b[key].strip()]
            print(f"- *{b['title'].strip()}*. {'; '.join(who)}. {b['licence'].strip()}")
