"""A model that thinks and calls tools, for tests of `serve`: random weights, all bytes and Qwen3's chat template. What it says means
nothing. Its texts end by themselves: of some 270 tokens one ends them, and another ends a thought."""

import json
import os
import sys
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from tern.convert.chat import chat, learn  # noqa: E402
from tern.convert.tokenizers import section, tokenizer, tokenizer_json  # noqa: E402
from tern.testing import toy, toyfile  # noqa: E402
from tern.weights import keys, tiles, writer  # noqa: E402

TEMPLATES = ROOT / "tests/convert/chat_templates"
SPECIAL = ("<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>")
WORDS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
THINK, THINK_END = len(SPECIAL), len(SPECIAL) + 1  # their ids
# Where Qwen3's template lets the model open a thought, this one opens it.
OPENS = (r"{{- '<think>\n\n</think>\n\n' }}", r"{{- '<think>\n\n</think>\n\n' }}{%- else %}{{- '<think>\n' }}")
EVEN = 0.2  # scale of the final norm: no token is much more probable than others


def byte_tokenizer(marks: tuple[str, ...] = (), words: tuple[str, ...] = ()) -> tokenizer.Tokenizer:
    """All bytes, the marks of the template, and more of them and of words as the last tokens"""
    vocab = {s: i for i, s in enumerate([*SPECIAL, *WORDS])}
    for unit in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocab[unit] = len(vocab)
    vocab |= {s: len(vocab) + i for i, s in enumerate((*marks, *words))}
    t = tokenizers.Tokenizer(models.BPE(vocab, [], unk_token="<unk>"))
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in (*SPECIAL, *marks)])
    t.add_tokens([AddedToken(s, special=False, normalized=False) for s in (*WORDS, *words)])
    text = t.to_str()
    return tokenizer_json.from_json(json.loads(text), "the test", {"bos_token": "<s>", "eos_token": "</s>"}, text)


def write_thinker(path: Path, template: str = "qwen3", max_seq: int = 32768, marks: tuple[str, ...] = (), words: tuple[str, ...] = ()) -> Path:
    t = byte_tokenizer(marks, words)
    source = (TEMPLATES / f"{template}.jinja").read_text().replace(*OPENS)
    learned = learn.learn(template, source, {"bos_token": "<s>", "eos_token": "</s>"}, t)
    return write_bytes_model(path, t, max_seq, {"chat": chat.section(learned)})


def write_filler(path: Path, *marks: str) -> Path:
    """A model with marks for filling in the middle, and without a template"""
    return write_bytes_model(path, byte_tokenizer(marks), 512, {})


def write_bytes_model(path: Path, t: tokenizer.Tokenizer, max_seq: int, more: dict[str, bytes]) -> Path:
    config = {
        "n_layers": 2, "dim": 64, "vocab": len(t.tokens), "max_seq": max_seq, "norm_eps": 1e-5, "head_tied": 1, "n_heads": 4,
        "n_kv_heads": 2, "head_dim": 16, "hidden": 160, "window": [0, 0], "attn_bias": 0, "ffn_bias": 0,
    }  # fmt: skip

    def entry(name: str, shape: tuple[int, ...]) -> writer.Tensor:
        rows, k = shape if len(shape) == 2 else (shape[0], 1)
        x = toy.values(name, shape, 5).reshape(rows, k)
        if name == "final_norm":
            x = x * x.dtype.type(EVEN)
        pieces = [tiles.tile(tiles.F32, toyfile.encode(tiles.F32, x))]
        return writer.Tensor(name, tiles.F32, rows, k, lambda: iter(pieces))

    sections = {
        "config": keys.pack(toyfile.config_keys(config)),
        "tokenizer": section.section(t),
        **more,
        "provenance": keys.pack({"name": "thinker"}),
        "seal": writer.blank_seal(),
    }
    with open(path, "w+b") as f:
        writer.write(f, sections, [entry(*item) for item in toy.shapes(config).items()])
    return path


def kept(name: str, *how: object) -> str:
    """The path of such a model. Learning the template takes 6 s, so the file stays in the folder of the build."""
    path = Path(os.environ.get("BUILD", "build")) / "test-models" / f"{name}.bin"
    if not path.exists() or path.stat().st_mtime < Path(__file__).stat().st_mtime:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_thinker(path.with_suffix(f".{os.getpid()}"), *how).replace(path)
    return str(path)


def thinker() -> str:
    return kept("thinker")


def speller(word: str) -> str:
    """One with a token more, so that long texts have few"""
    return kept("speller", "qwen3", 32768, (), (word,))


def caller(notation: str, *marks: str) -> str:
    """One whose template writes calls so: a file of tests/convert/chat_templates/tools"""
    return kept(notation, f"tools/{notation}", 4096, marks)


if __name__ == "__main__":
    write_thinker(Path(sys.argv[1]), *sys.argv[2:3])
