"""A checkpoint in, a Hugging Face folder out."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from ..weights.reader import WeightsFile
from . import mtp
from .documents import EOT
from .model import build, checkpoint_of
from .shape import Config, shape_of
from .train import load_weights

# Defaults that go with the model: cool enough for grammar, and a penalty without which phrases recur.
SAMPLING = {"temperature": 0.5, "top_k": 40, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.15}
LICENCE = """The weights may be used, changed and passed on by anyone under the MIT licence of the tern project.
They were trained on public-domain books, FairytaleQA (Apache-2.0), African Storybook and Pratham Books picture books
(CC BY 4.0, credits in models/CREDITS.md) and a sample of TinyStories (CDLA-Sharing-1.0). Whoever passes the weights on
passes those credits on.
"""


def checkpoint(work, path):
    """DIR/last.pt; or, with --mtp FILE, the weights file that DIR/mtp.pt was trained behind."""
    if not path:
        return checkpoint_of(work / "last.pt")
    file = WeightsFile(path)
    config = shape_of(file)
    model = build(config)
    load_weights(model, file)
    return {"model": model.state_dict(), "config": asdict(config), "step": 0}


def add_idle(tensors, c, layers, hidden):
    """More layers, and a wider feed-forward, that change no logit: all of their weights are 0. The model becomes as slow as a
    larger one, for measurements. Of the tensors of the layer that guesses only the width changes."""
    for i in range(c.layers, layers):
        like = [name for name in tensors if name.startswith("model.layers.0.")]
        tensors |= {name.replace(".0.", f".{i}.", 1): torch.zeros_like(tensors[name]) for name in like}
    for name, value in tensors.items():
        if re.search(r"mlp\.(gate|up)_proj", name):
            tensors[name] = F.pad(value, (0, 0, 0, hidden - c.hidden)).contiguous()
        elif "mlp.down_proj" in name:
            tensors[name] = F.pad(value, (0, hidden - c.hidden)).contiguous()
    return replace(c, layers=layers, hidden=hidden)


def export(args):
    """DIR/last.pt and DIR/tokenizer.json -> a folder that transformers' LlamaForCausalLM loads. With --mtp FILE: that model and
    the layer of DIR/mtp.pt, as GLM-4.5 publishes them."""
    work, out = Path(args.work), Path(args.out)
    out.mkdir(parents=True)
    state = checkpoint(work, args.mtp)
    c = Config(**state["config"])
    tensors = {}
    for name, value in state["model"].items():  # layers.0.q_proj.weight -> model.layers.0.self_attn.q_proj.weight
        name = re.sub(r"\.([qkvo]_proj)", r".self_attn.\1", name)
        name = re.sub(r"\.((gate|up|down)_proj)", r".mlp.\1", name)
        tensors["model." + name] = value.float().contiguous()
    layers, hidden = max(args.layers, c.layers), max(args.hidden, c.hidden)
    if args.mtp:
        tensors |= {f"model.layers.{layers}.{name}": value for name, value in mtp.published(work).items()}
    c = add_idle(tensors, c, layers, hidden)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})

    def write(name, content):
        (out / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf8")

    write("config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "float32", "torch_dtype": "float32",
        "vocab_size": c.vocab, "hidden_size": c.dim, "intermediate_size": c.hidden, "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads, "num_key_value_heads": c.kv_heads, "head_dim": c.head_dim,
        "hidden_act": "silu", "max_position_embeddings": c.context, "rms_norm_eps": c.eps,
        "rope_theta": c.rope_theta, "rope_parameters": {"rope_type": "default", "rope_theta": c.rope_theta},
        "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 0})
    if args.mtp:
        write("config.json", mtp.config_of(out / "config.json"))
    write("generation_config.json", {"bos_token_id": 0, "eos_token_id": 0, "do_sample": True, **SAMPLING})
    write("tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": EOT, "eos_token": EOT, "add_bos_token": True,
        "add_prefix_space": False, "clean_up_tokenization_spaces": False, "model_max_length": c.context,
        "added_tokens_decoder": {"0": {"content": EOT, "lstrip": False, "normalized": False, "rstrip": False,
                                       "single_word": False, "special": True}}})
    (out / "tokenizer.json").write_bytes((work / "tokenizer.json").read_bytes())
    (out / "LICENSE").write_text(LICENCE, encoding="utf8")  # the converter stores it in the weights file
    print(f"{out}: step {state['step']}, {sum(t.numel() for t in tensors.values())} parameters")
