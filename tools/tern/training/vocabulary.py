"""Documents in, a byte-level BPE vocabulary out, and every split encoded by it."""

import random
import re
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from .documents import EOT, read_documents
from .shape import Config

NAME_VARIANTS = 6  # copies of every sample story with its characters renamed, against learning by heart
GIRLS = "Lily Mia Anna Sara Lucy Jane Sue Amy Emma Daisy Molly Sally Mandy Jenny Lola Ella Rosie Kate Nina Zoe".split()
BOYS = "Tim Ben Tom Max Sam Jack Bob Timmy Tommy Billy Jimmy Joe John Leo Mark Peter Johnny Bobby Charlie Fred".split()


def rename(story, rng):
    """The story with its common first names exchanged for others of the same kind, consistently."""
    swap = {}
    for names in (GIRLS, BOYS):
        used = [n for n in names if re.search(rf"\b{n}\b", story)]
        swap.update(zip(used, rng.sample(names, len(used))))
    return re.sub(r"\b(" + "|".join(swap) + r")\b", lambda m: swap[m.group(0)], story) if swap else story


def tokenizer(args):
    """Train the vocabulary with the simple texts weighted up, then encode each split as one uint16 stream."""
    work = Path(args.work)
    docs = {n: read_documents(work / f"{n}.txt") for n in ("tales", "books", "pictures", "stories", "valid")}
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # GPT-2's pattern
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=Config.vocab, special_tokens=[EOT], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # 256 bytes: no unknown
    weighted = docs["tales"] + 3 * docs["pictures"] + 8 * docs["stories"]
    tok.train_from_iterator(weighted, trainer)
    bos = processors.TemplateProcessing(single=f"{EOT} $A", pair=f"{EOT} $A $B", special_tokens=[(EOT, 0)])
    tok.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), bos])
    tok.save(str(work / "tokenizer.json"))

    rng = random.Random(1)
    docs["stories"] += [rename(s, rng) for _ in range(NAME_VARIANTS) for s in docs["stories"]]
    for name, texts in docs.items():
        ids = [e.ids for e in tok.encode_batch(texts)]  # each begins with EOT; the next document's EOT ends it
        lengths = np.array([len(i) for i in ids])
        np.savez(work / f"{name}.npz", ids=np.concatenate([np.array(i, np.uint16) for i in ids]), lengths=lengths)
        chars = sum(len(t.encode()) for t in texts)
        print(f"{name:10} {lengths.sum():9} tokens, {chars / (lengths - 1).sum():.3f} bytes per token")
