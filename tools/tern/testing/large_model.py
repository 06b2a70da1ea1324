"""Models of full size with random weights: sharded bf16 Hugging Face directories, to measure with.

In:  a shape and a folder. Out: the folder's files. The noise repeats itself; every value is finite.
"""

import json
import os
import struct
from pathlib import Path

import numpy as np

SHAPES = {  # width, FFN, layers, heads, KV heads, vocabulary
    "7b": (4096, 11008, 32, 32, 32, 32000), "1b": (2048, 5632, 22, 32, 4, 32000), "tiny": (512, 1376, 4, 8, 8, 4000),
}  # fmt: skip
SHARD = 5 << 30


def tensors(shape: tuple[int, ...]) -> dict[str, list[int]]:
    """Names and shapes of a Llama model."""
    dim, hidden, layers, heads, kv, vocab = shape
    kv_rows = dim // heads * kv
    out = {"model.embed_tokens.weight": [vocab, dim], "lm_head.weight": [vocab, dim], "model.norm.weight": [dim]}
    for i in range(layers):
        at = f"model.layers.{i}."
        out |= {at + "input_layernorm.weight": [dim], at + "post_attention_layernorm.weight": [dim]}
        for part, rows in (("q", dim), ("k", kv_rows), ("v", kv_rows), ("o", dim)):
            out[f"{at}self_attn.{part}_proj.weight"] = [rows, dim]
        out |= {at + "mlp.gate_proj.weight": [hidden, dim], at + "mlp.up_proj.weight": [hidden, dim]}
        out[at + "mlp.down_proj.weight"] = [dim, hidden]
    return out


def size(shape: list[int]) -> int:
    return 2 * int(np.prod(shape))


def make(folder: Path, shape: tuple[int, ...]) -> None:
    """The directory."""
    dim, hidden, layers, heads, kv, vocab = shape
    folder.mkdir()
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocab, "hidden_size": dim}
    config |= {"intermediate_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
    config |= {"num_key_value_heads": kv, "max_position_embeddings": 4096, "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config))
    shards: list[dict[str, list[int]]] = [{}]
    for name, dims in tensors(shape).items():
        if sum(map(size, shards[-1].values())) + size(dims) > SHARD:
            shards.append({})
        shards[-1][name] = dims
    normal = np.random.default_rng(1).standard_normal(1 << 24, "f4") * np.float32(0.02)
    noise = memoryview((normal.view("u4") >> 16).astype("<u2")).cast("B")
    places = {}
    for i, shard in enumerate(shards):
        file = folder / f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
        places |= dict.fromkeys(shard, file.name)
        write_shard(file, shard, noise)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def write_shard(file: Path, shard: dict[str, list[int]], noise: memoryview) -> None:
    header, at = {}, 0
    for name, dims in shard.items():
        header[name] = {"dtype": "BF16", "shape": dims, "data_offsets": [at, at + size(dims)]}
        at += size(dims)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(file, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        while at:
            at -= f.write(noise[: min(at, len(noise))])
        os.fsync(f.fileno())
