"""Files of documents: texts, one after another, with a mark between them."""

from ..errors import reading

EOT = "<|endoftext|>"  # the only special token: begins every story and ends it (bos == eos)
SEPARATOR = f"\n{EOT}\n"


def write_documents(path, documents):
    path.write_text(SEPARATOR.join(documents), encoding="utf8")
    print(f"{path.name:14} {len(documents):5} documents {path.stat().st_size:9} bytes")


def text_of(path):
    with reading(str(path)):
        return path.read_text(encoding="utf8")


def read_documents(path):
    return text_of(path).split(SEPARATOR)
