"""Writes a Hugging Face model as a GGUF file, for tests: with the gguf package's writer and its maps of tensor names,
and, family by family, what llama.cpp's convert_hf_to_gguf.py does to keys (gguf_keys.py) and tensors. Nothing of tools/tern is used.

In:  config.json in the spelling before transformers 5 (rope_theta, rope_scaling), tensors as f32 by their names there.
"""

import math
import re
from pathlib import Path

import gguf
import numpy as np

import gguf_keys
import gguf_keys_sparse
import gguf_keys_states

ARCHES = {
    "llama": "LLAMA", "mistral": "LLAMA", "mixtral": "LLAMA", "qwen2": "QWEN2", "qwen3": "QWEN3",
    "qwen2_moe": "QWEN2MOE", "qwen3_moe": "QWEN3MOE", "gemma": "GEMMA", "gemma2": "GEMMA2", "gemma3_text": "GEMMA3",
    "phi": "PHI2", "phi3": "PHI3", "smollm3": "SMOLLM3", "olmo": "OLMO", "olmo2": "OLMO2", "granite": "GRANITE",
    "stablelm": "STABLELM", "falcon": "FALCON", "gpt_neox": "GPTNEOX", "starcoder2": "STARCODER2",
    "cohere": "COMMAND_R", "gpt_oss": "GPT_OSS", "gpt2": "GPT2", "olmo3": "OLMO2", "glm4": "GLM4",
    "cohere2": "COHERE2", "exaone4": "EXAONE4", "olmoe": "OLMOE", "arcee": "ARCEE", "seed_oss": "SEED_OSS",
    "ernie4_5": "ERNIE4_5", "nemotron": "NEMOTRON", "granitemoe": "GRANITE_MOE", "granitemoeshared": "GRANITE_MOE",
    "hunyuan_v1_dense": "HUNYUAN_DENSE", "dots1": "DOTS1", "glm4_moe": "GLM4_MOE", "minimax_m2": "MINIMAXM2",
    "granitemoehybrid": "GRANITE_HYBRID", "falcon_h1": "FALCON_H1", "nemotron_h": "NEMOTRON_H",
    "nemotron_h+experts": "NEMOTRON_H_MOE", "lfm2": "LFM2", "lfm2_moe": "LFM2MOE",
    "bloom": "BLOOM", "mpt": "MPT", "gpt_bigcode": "STARCODER",
    "gemma3n_text": "GEMMA3N", "llama4_text": "LLAMA4", "mistral4": "MISTRAL4", "gemma4_text": "GEMMA4", "gemma4_unified_text": "GEMMA4",
    "deepseek_v2": "DEEPSEEK2", "deepseek_v3": "DEEPSEEK2", "glm4_moe_lite": "DEEPSEEK2", "minicpm3": "MINICPM3",
    "hunyuan_v1_moe": "HUNYUAN_MOE", "ernie4_5_moe": "ERNIE4_5_MOE", "exaone_moe": "EXAONE_MOE", "afmoe": "AFMOE",
    "apertus": "APERTUS", "jais2": "JAIS2", "ministral3": "MISTRAL3", "dbrx": "DBRX",
    "qwen3_next": "QWEN3NEXT", "qwen3_5_text": "QWEN35", "qwen3_5_moe_text": "QWEN35MOE",
    "kimi_linear": "KIMI_LINEAR", "mamba2": "MAMBA2", "phimoe": "PHIMOE",
}  # fmt: skip
# Architectures that are newer than the package. Their tensors have the names that dots.llm1's have.
NEWER = {"hy_v3": "hy_v3", "mellum": "mellum", "laguna": "laguna", "cohere2_moe": "cohere2moe"}
PERMUTED = ("llama", "mistral", "ministral3", "mixtral", "smollm3", "olmo", "granite", "arcee", "granitemoe", "granitemoeshared",
            "granitemoehybrid", "nemotron_h")
EXPERT = re.compile(r"(?:model|backbone)\.(layers\.\d+\.)(block_sparse_moe|mlp|mixer|feed_forward)\.experts\.(\d+)\.(\w+)\.weight")
MERGED = {"w1": "feed_forward.experts.w1", "w2": "feed_forward.experts.w2", "w3": "feed_forward.experts.w3"}
KEYS = gguf_keys.KEYS | gguf_keys_sparse.KEYS | gguf_keys_states.KEYS


# ---- tensors


def permute(x: np.ndarray, heads: int) -> np.ndarray:
    """Half-split heads as interleaved ones."""
    return x.reshape(heads, 2, len(x) // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def _falcon_qkv(x: np.ndarray, c: dict) -> np.ndarray:
    n, kv = c["num_attention_heads"], c["num_key_value_heads"]
    parts = x.reshape(kv, n // kv + 2, c["hidden_size"] // n, *x.shape[1:])
    return np.concatenate([p.reshape(-1, *x.shape[1:]) for p in (parts[:, :-2], parts[:, -2], parts[:, -1])])


def _neox_qkv(x: np.ndarray, c: dict) -> np.ndarray:
    parts = x.reshape(c.get("num_attention_heads") or c["n_head"], 3, -1, *x.shape[1:])
    return np.concatenate([parts[:, i].reshape(-1, *x.shape[1:]) for i in range(3)])


def _gpt_oss(name: str, x: np.ndarray):
    """The experts' matrices as published in bf16 are transposed, gate and up by turns."""
    if name.endswith("sinks"):
        yield name + ".weight", x
    elif "gate_up_proj" in name:
        kind, x = ("bias", x) if name.endswith("_bias") else ("weight", x.swapaxes(1, 2))
        base = name.split("gate_up_proj")[0]
        yield f"{base}gate_proj.{kind}", x[:, ::2]
        yield f"{base}up_proj.{kind}", x[:, 1::2]
    elif "experts.down_proj" in name:
        bias = name.endswith("_bias")
        yield (name.replace("_bias", ".bias"), x) if bias else (name + ".weight", x.swapaxes(1, 2))
    else:
        yield name, x


def _tiled(x: np.ndarray, c: dict, axis: int, d: int) -> np.ndarray:
    """Value heads of a key head side by side become the first ones of all, the second ones of all ..."""
    keys, share = c["linear_num_key_heads"], c["linear_num_value_heads"] // c["linear_num_key_heads"]
    shape = [*x.shape[:axis], keys, share, d, *x.shape[axis + 1 :]]
    return x.reshape(shape).swapaxes(axis, axis + 1).reshape(x.shape)


def _delta(kind: str, c: dict, name: str, x: np.ndarray):
    """A tensor of Qwen3-Next or Qwen3.5."""
    d, key = c["linear_value_head_dim"], 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"]
    x = x.squeeze() if "conv1d" in name else x
    if "linear_attn." in name and kind != "qwen3_next":
        if ".in_proj_qkv." in name or ".conv1d." in name:
            x = np.concatenate([x[:key], _tiled(x[key:], c, 0, d)])
        elif ".in_proj_z." in name or ".out_proj." in name:
            x = _tiled(x, c, int(".out_proj." in name), d)
        elif "norm" not in name:
            x = _tiled(x, c, 0, 1)
    if name.endswith(".A_log"):
        x = -np.exp(x.astype("f8")).astype("f4")
    elif name.endswith(".dt_bias"):
        name = name.replace(".dt_bias", ".dt_proj.bias")
    elif name.endswith("norm.weight") and "linear_attn.norm" not in name:
        x = x + np.float32(1)
    if "in_proj_qkvz" in name:
        n, share = c["linear_num_key_heads"], c["linear_num_value_heads"] // c["linear_num_key_heads"] * d
        heads = x.reshape(n, -1, x.shape[1])
        at = [0, *np.cumsum([c["linear_key_head_dim"]] * 2 + [share] * 2)]
        q, k, v, z = (heads[:, a:b].reshape(-1, x.shape[1]) for a, b in zip(at, at[1:]))
        layer = name.split(".")[2]
        yield f"blk.{layer}.attn_qkv.weight", np.concatenate([q, k, v])
        yield f"blk.{layer}.attn_gate.weight", z
    elif "gate_up_proj" in name:
        rows, base = x.shape[1] // 2, name.removesuffix("gate_up_proj")
        yield base + "gate_proj.weight", x[:, :rows]
        yield base + "up_proj.weight", x[:, rows:]
    else:
        yield name + (".weight" if name.endswith("down_proj") else ""), x


def _keys_and_values(c: dict, name: str, x: np.ndarray):
    """Of latent attention, apart."""
    heads = x.reshape(c["num_attention_heads"], c["qk_nope_head_dim"] + c["v_head_dim"], -1)
    yield name.replace("kv_b_proj", "k_b_proj"), heads[:, : c["qk_nope_head_dim"]].swapaxes(1, 2)
    yield name.replace("kv_b_proj", "v_b_proj"), heads[:, c["qk_nope_head_dim"] :]


def _kimi(c: dict, name: str, x: np.ndarray):
    if name.endswith(".A_log"):
        yield name, -np.exp(x.astype("f8")).astype("f4")
    elif name.endswith(".dt_bias"):
        yield name.replace(".dt_bias", ".dt_proj.bias"), x
    elif name.endswith("kv_b_proj.weight"):
        yield from _keys_and_values(c, name, x)
    else:
        yield name.replace("e_score_correction_bias", "e_score_correction.bias"), x


def _times(c: dict, name: str, x: np.ndarray) -> np.ndarray:
    """Falcon-H1: the multipliers, into the weights."""
    read, key = c["attention_in_multiplier"], c["key_multiplier"]
    factors = {
        "down_proj": c["mlp_multipliers"][1], "gate_proj": c["mlp_multipliers"][0], "k_proj": key * read, "q_proj": read,
        "v_proj": read, "o_proj": c["attention_out_multiplier"], "out_proj": c["ssm_out_multiplier"],
        "lm_head": c["lm_head_multiplier"], "embed_tokens": c["embedding_multiplier"],
    }  # fmt: skip
    if ".in_proj." in name:
        keys, width = c["mamba_n_groups"] * c["mamba_d_state"], c["mamba_d_ssm"]
        rows = np.repeat(np.array(c["ssm_multipliers"], "f4"), [width, width, keys, keys, c["mamba_n_heads"]])
        return x * np.float32(c["ssm_in_multiplier"]) * rows[:, None]
    return x * np.float32(factors.get(name.split(".")[-2], 1))


def _state(c: dict, name: str, x: np.ndarray):
    """A tensor of a Mamba2 or of a short convolution."""
    groups = c.get("mamba_n_groups") or c.get("n_groups")
    if name.endswith(".dt_bias"):
        name = name.removesuffix("dt_bias") + "dt_proj.bias"
    elif name.endswith(".A_log"):
        x = -np.exp(x.astype("f8")).astype("f4")
    elif name.endswith((".mamba.norm.weight", ".mixer.norm.weight")):
        x = x.reshape(groups, -1)
    layer = name.split(".")[2]
    at = {"A_log": "ssm_a", "D": "ssm_d", "dt_proj.bias": "ssm_dt.bias"}
    end = next((to for last, to in at.items() if name.endswith("." + last)), None)
    yield f"blk.{layer}.{end}" if end else name, x if end == "ssm_dt.bias" or not end else x.reshape(-1, 1)


def _changed(kind: str, c: dict, name: str, x: np.ndarray):
    """(name, values) of one tensor as the script stores it."""
    if kind in PERMUTED and name.endswith(("q_proj.weight", "q_proj.bias")):
        x = permute(x, c["num_attention_heads"])
    if kind in PERMUTED and name.endswith(("k_proj.weight", "k_proj.bias")):
        x = permute(x, c["num_key_value_heads"])
    if kind == "kimi_linear":
        yield from _kimi(c, name, x)
        return
    if "linear_key_head_dim" in c:
        yield from _delta(kind, c, name, x)
        return
    if kind == "falcon_h1":
        x = _times(c, name, x)
    if ".mamba." in name or (".mixer." in name and not re.search(r"mixer\.([qkvo]_proj|up|down|gate|experts|shared)", name)):
        yield from _state(c, name, x)
        return
    if name.endswith("feed_forward.expert_bias"):
        name += ".bias"
    if kind.startswith(("gemma3n", "gemma4")):
        part = name.rsplit(".", 1)[-1]
        yield name + ("" if part in ("weight", "scale", "per_expert_scale") else ".weight"), x
        return
    if kind.startswith("gemma"):
        if name == "lm_head.weight":
            return
        x = x + np.float32(1) if name.endswith("norm.weight") else x
    if kind == "falcon" and c["new_decoder_architecture"]:  # as published
        name = name.replace("input_layernorm", "ln_attn").replace("post_attention_layernorm", "ln_mlp")
    if "query_key_value" in name:
        x = _falcon_qkv(x, c) if kind == "falcon" else _neox_qkv(x, c)
    if kind == "gpt2" and name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
        x = x.T
    if kind == "gpt_oss":
        yield from _gpt_oss(name, x)
        return
    if kind in NEWER:
        parts = {"mlp.expert_bias": "exp_probs_b", "mlp.router.gate.weight": "ffn_gate_inp.weight", "self_attn.g_proj.weight": "attn_gate.weight"}
        layer, _, end = name.removeprefix("model.layers.").partition(".")
        if end in parts:
            yield f"blk.{layer}.{parts[end]}", x
            return
        name = re.sub(r"mlp\.shared_\w+\.", "mlp.shared_experts.", name).replace("mlp.experts.e_score", "mlp.gate.e_score")
    name = name.replace("e_score_correction_bias", "e_score_correction.bias").replace("mlp.expert_bias", "mlp.expert_bias.bias")
    if "kv_b_proj" in name and kind != "minicpm3" and "kv_b_joined" not in c:
        yield from _keys_and_values(c, name, x)
        return
    if ".act_fn." in name:  # keys
        return
    if "ffn.experts.mlp." in name:
        x = x.reshape(c["ffn_config"]["moe_num_experts"], -1, c["d_model"])
        name, x = name + ".weight", x.swapaxes(1, 2) if name.endswith("w2") else x
    if kind == "bloom":  # as published
        name = name.removeprefix("transformer.")
    if kind == "nemotron" and name.endswith("norm.weight"):
        x = x + np.float32(1)
    if kind == "llama4_text" and "experts." in name and "shared" not in name:
        base, x = name.rsplit(".", 1)[0], x.swapaxes(1, 2)
        parts = (("gate", x[:, : x.shape[1] // 2]), ("up", x[:, x.shape[1] // 2 :])) if name.endswith("gate_up_proj") else (("down", x),)
        for part, values in parts:
            yield f"{base}.{part}_proj.weight", values
        return
    if name.endswith("input_linear.weight"):  # Granite's experts, and its shared one
        base, rows = name.removesuffix("input_linear.weight"), x.shape[-2] // 2
        for part, half in (("gate", x[..., :rows, :]), ("up", x[..., rows:, :])):
            at = name.split(".")[2]
            merged = "mlp.experts" if "block_sparse_moe" in base else "mlp.shared_experts"
            yield f"model.layers.{at}.{merged}.{part}_proj.weight", half
        return
    yield name, x


def _merged(state: dict) -> dict:
    """Tensors of experts and of heads' norms, stacked."""
    out, stacks = {}, {}
    for name, x in state.items():
        stream = re.fullmatch(r"(model\.altup_\w*projections)\.(\d+)\.weight", name)
        expert, norm = EXPERT.fullmatch(name), re.fullmatch(r"(.*_layernorm)\.norms\.(\d+)\.weight", name)
        if expert:
            at, _, number, part = expert.groups()
            merged = f"{at}{MERGED[part]}" if part in MERGED else f"model.{at}mlp.experts.{part}"
            stacks.setdefault(merged + ".weight", {})[int(number)] = x
        elif stream:
            stacks.setdefault(stream.group(1) + ".weight", {})[int(stream.group(2))] = x
        elif norm:
            stacks.setdefault(norm.group(1) + ".weight", {})[int(norm.group(2))] = x
        else:
            out[name] = x
    return out | {name: np.stack([parts[i] for i in range(len(parts))]) for name, parts in stacks.items()}


def _rope_freqs(c: dict) -> np.ndarray | None:
    """The divisors of llama3 scaling, computed in f32 as the script does."""
    if c["model_type"].startswith("gemma4"):
        layer = c["per_layer_config"][str(c["layer_types"].index("full_attention"))]
        half = layer["head_dim"] // 2
        turning = int(layer["head_dim"] * c["rope_parameters"]["full_attention"]["partial_rotary_factor"] / 2)
        return np.array([1.0] * turning + [1e30] * (half - turning), "f4")
    p = c.get("rope_scaling") or {}
    if p.get("rope_type") != "llama3":
        return None
    dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    freqs = np.float32(1) / np.float32(c["rope_theta"]) ** (np.arange(0, dim, 2, dtype="f4") / np.float32(dim))
    out, old = [], p["original_max_position_embeddings"]
    for f in freqs:
        wave = np.float32(2 * math.pi) / f
        smooth = (np.float32(old) / wave - p["low_freq_factor"]) / (p["high_freq_factor"] - p["low_freq_factor"])
        if wave < old / p["high_freq_factor"]:
            out.append(1)
        elif wave > old / p["low_freq_factor"]:
            out.append(p["factor"])
        else:
            out.append(1 / ((1 - smooth) / p["factor"] + smooth))
    return np.array(out, "f4")


# The layer that guesses further tokens, as Qwen publishes it and as llama.cpp's converter then calls it
APART = {"fc": "eh_proj", "pre_fc_norm_embedding": "enorm", "pre_fc_norm_hidden": "hnorm", "norm": "shared_head.norm"}
NEXTN = ("eh_proj", "embed_tokens", "enorm", "hnorm", "shared_head.norm", "shared_head.head")


def _behind(state: dict, layers: int) -> dict:
    """The state with `mtp.` as a layer beyond the others."""
    out = {}
    for name, x in state.items():
        part = name.removeprefix("mtp.").removeprefix("layers.0.").removesuffix(".weight")
        out[f"model.layers.{layers}.{APART.get(part, part)}.weight" if name.startswith("mtp.") else name] = x
    return out


def _nextn(name: str) -> str:
    """blk.N.nextn.NAME.weight of such a tensor, or nothing."""
    at, _, part = name.removeprefix("model.layers.").removesuffix(".weight").partition(".")
    return f"blk.{at}.nextn.{part.replace('.', '_')}.weight" if name.startswith("model.layers.") and part in NEXTN else ""


def write(path: Path, c: dict, state: dict[str, np.ndarray], tokens: list[str], more=lambda w: None) -> None:
    """The whole file, f32; `more` may add keys."""
    kind = c["model_type"]
    arch = gguf.MODEL_ARCH.DOTS1 if kind in NEWER else getattr(gguf.MODEL_ARCH, ARCHES[kind + "+experts" if "moe" in c.get("layers_block_type", ()) else kind])
    layers = next((c[key] for key in ("num_hidden_layers", "n_layer", "n_layers") if key in c), 0) or len(c["layers_block_type"])
    w = gguf.GGUFWriter(str(path), NEWER.get(kind) or gguf.MODEL_ARCH_NAMES[arch])
    w.add_name("golden")
    state = _behind(state, layers)
    drafts = int(f"model.layers.{layers}.eh_proj.weight" in state)
    if drafts:
        w.add_nextn_predict_layers(drafts)
    w.add_block_count(layers + drafts)
    w.add_file_type(0)
    KEYS.get(kind, gguf_keys.usual)(w, c)
    for part, add in (("alpha_p", w.add_xielu_alpha_p), ("alpha_n", w.add_xielu_alpha_n), ("beta", w.add_xielu_beta), ("eps", w.add_xielu_eps)):
        if kind == "apertus":
            add([float(state[f"model.layers.{i}.mlp.act_fn.{part}"].reshape(-1)[0]) for i in range(layers)])
    more(w)
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens)
    w.add_token_scores([0.0] * len(tokens))
    w.add_token_types([2 if i == 0 else 1 for i in range(len(tokens))])  # an unknown one must be there
    w.add_unk_token_id(0)
    if c.get("eos_token_id") is not None:
        w.add_eos_token_id(c["eos_token_id"])
    divisors = _rope_freqs(c)
    if divisors is not None:
        w.add_tensor("rope_freqs.weight", divisors)
    names = gguf.get_tensor_name_map(arch, layers + drafts)
    dense = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, layers + drafts)  # the script has none for layers without experts
    for name, x in _merged(state).items():
        for changed, values in _changed(kind, c, name, x):
            layer = changed.split(".")[2] if changed.startswith("model.layers.") else ""
            found = {"router.scale": f"blk.{layer}.ffn_gate_inp.scale", "router.per_expert_scale": f"blk.{layer}.ffn_down_exps.scale"}.get(
                ".".join(changed.split(".")[3:])
            )
            found = changed if changed.startswith("blk.") else found
            found = found or _nextn(changed) or names.get_name(changed, (".weight", ".bias")) or dense.get_name(changed, (".weight", ".bias"))
            assert found, changed
            w.add_tensor(found, np.ascontiguousarray(values.squeeze(), "f4"))
            if kind == "gpt2" and found == "token_embd.weight":
                w.add_tensor("output.weight", np.ascontiguousarray(values, "f4"))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
