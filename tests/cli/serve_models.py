"""A model that thinks and calls tools, for tests of `serve`: random weights, all bytes and Qwen3's chat template. What it says means
nothing. Its texts end by themselves, because one of some 300 tokens ends them and another ends a thought."""

import json
import sys
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from tern.convert.chat import chat, learn  # noqa: E402
from tern.convert.tokenizers import section, tokenizer, tokenizer_json  # noqa: E402
from tern.testing import toyfile  # noqa: E402
from tern.weights import tiles  # noqa: E402

TEMPLATES = ROOT / "tests/convert/chat_templates"
SPECIAL = ("<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>")
WORDS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")


def byte_tokenizer() -> tokenizer.Tokenizer:
    """All bytes, and the marks of the template"""
    vocab = {s: i for i, s in enumerate([*SPECIAL, *WORDS])}
    for unit in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocab[unit] = len(vocab)
    t = tokenizers.Tokenizer(models.BPE(vocab, [], unk_token="<unk>"))
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIAL])
    t.add_tokens([AddedToken(s, special=False, normalized=False) for s in WORDS])
    text = t.to_str()
    return tokenizer_json.from_json(json.loads(text), "the test", {"bos_token": "<s>", "eos_token": "</s>"}, text)


def write_thinker(path: Path, template: str = "qwen3", max_seq: int = 32768) -> Path:
    t = byte_tokenizer()
    source = (TEMPLATES / f"{template}.jinja").read_text()
    learned = learn.learn(template, source, {"bos_token": "<s>", "eos_token": "</s>"}, t)
    config = {
        "n_layers": 2, "dim": 64, "vocab": len(t.tokens), "max_seq": max_seq, "norm_eps": 1e-5, "head_tied": 1, "n_heads": 4,
        "n_kv_heads": 2, "head_dim": 16, "hidden": 160, "window": [0, 0], "attn_bias": 0, "ffn_bias": 0,
    }  # fmt: skip
    with open(path, "w+b") as f:
        toyfile.write(f, config, 5, tiles.F32, more={"tokenizer": section.section(t), "chat": chat.section(learned)})
    return path


if __name__ == "__main__":
    write_thinker(Path(sys.argv[1]), *sys.argv[2:3])
