"""llama2.c's tokenizer.bin, which is a SentencePiece BPE model in another container."""

import itertools
import struct
from pathlib import Path

from ...errors import ConvertError
from . import sentencepiece_model as spf
from .sentencepiece import from_sentencepiece
from .stated import read_bytes
from .tokenizer import BLOCK, Tokenizer


def from_llama2c(path: Path, vocab: int | None) -> Tokenizer:
    """llama2.c's tokenizer.bin: a SentencePiece BPE whose pieces were written with plain spaces.

    int32 longest; then per token f32 score, int32 bytes, text. Ids 0, 1, 2 are <unk>, BOS and EOS;
    3 to 258 are the bytes, unless the model was trained without: then 3 is not <0x00>.
    The file does not say how many tokens it has: `vocab`, or all to its end.
    """
    data, at = read_bytes(path), 4
    model = spf.Model(remove_extra_whitespaces=False)
    for i in itertools.count():
        if i == vocab or (vocab is None and at >= len(data)):
            break
        if at + 8 > len(data):
            raise ConvertError(f"{path} ends at token {i}, but the model has {vocab}")
        score, size = struct.unpack_from("<fi", data, at)
        text = data[at + 8 : at + 8 + size]
        if size < 0 or len(text) != size:
            raise ConvertError(f"{path}: token {i} has {size} bytes, which the file does not hold")
        at += 8 + size
        if i < 3:
            piece = spf.Piece((b"<unk>", b"<s>", b"</s>")[i], score, spf.UNKNOWN if i == 0 else spf.CONTROL)
        elif i < 259 and model.byte_fallback and (i > 3 or text == b"<0x00>"):
            if text != b"<0x%02X>" % (i - 3):
                raise ConvertError(f"{path}: token {i} is {text!r}, want the byte {i - 3}")
            piece = spf.Piece(text, score, spf.BYTE)
        else:
            model.byte_fallback = model.byte_fallback and i != 3
            piece = spf.Piece(text.replace(b" ", BLOCK.encode()), score)
        model.pieces.append(piece)
    if at != len(data):
        raise ConvertError(f"{path} goes on after its {vocab} tokens: it belongs to another model")
    return from_sentencepiece(model, str(path))
