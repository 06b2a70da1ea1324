"""The models that people use, and the table of them in tools/README.md.

In:  what each one's config.json states, as far as the sizes of tensors depend on it. Out: the lines of the table, whose sizes
are those of the planner (convert/foresee.py), which reads the same config from the hub.
To add a model: a row of MODELS, then `tools/model_table.py --write`. Compare its number of weights with the publisher's.
"""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..convert import foresee
from ..convert.families import mtp
from ..convert.families.features import packed_config, slots
from ..convert.sources import huggingface
from ..programs import ROOT
from ..weights import keys, tiles, writer

README, HEADING = ROOT / "tools" / "README.md", "## Models"
GOLDEN, VOCABULARIES, TEMPLATES = (ROOT / "tests" / at for at in ("golden", "golden/tokenizers", "convert/chat_templates"))
COLUMNS = ("model", "command", "weights", "file: q8, q4c", "memory: q8, q4c", "run", "golden", "tokenizer", "template")
MEMORY = COLUMNS.index("memory: q8, q4c")


@dataclass(frozen=True)
class Published:
    """A model: what the table calls it, its name on the hub, its config, and which tests hold what of it ("": none)."""

    title: str
    name: str
    config: dict
    golden: str
    tokenizer: str = ""
    template: str = ""


# ---- configs --------------------------------------------------------------------------------


def dense(kind: str, dim: int, hidden: int, layers: int, heads: int, kv_heads: int, vocab: int, positions: int, **more) -> dict:
    return {
        "model_type": kind, "hidden_size": dim, "intermediate_size": hidden, "num_hidden_layers": layers, "vocab_size": vocab,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "max_position_embeddings": positions,
    } | more  # fmt: skip


def experts(n: int, used: int, hidden: int, **more) -> dict:
    return {"num_experts": n, "num_experts_per_tok": used, "moe_intermediate_size": hidden} | more


def tied(yes: bool = True) -> dict:
    return {"tie_word_embeddings": yes}


def within(kind: str, text: dict, **more) -> dict:
    """The text model of one that sees, too."""
    return {"model_type": kind, "text_config": text, **tied(text.get("tie_word_embeddings", False))} | more


def every(n: int, layers: int, other: str = "sliding_attention") -> dict:
    """Each n-th layer has full attention."""
    return {"layer_types": [other if (i + 1) % n else "full_attention" for i in range(layers)]}


def only(at: tuple[int, ...], layers: int, kind: str, other: str) -> dict:
    return {"layer_types": [kind if i in at else other for i in range(layers)]}


def llama3(dim: int, hidden: int, layers: int, heads: int, **more) -> dict:
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    return dense("llama", dim, hidden, layers, heads, 8, 128256, 131072, rope_scaling=scaling, **more)


def qwen3(dim: int, hidden: int, layers: int, heads: int, **more) -> dict:
    return dense("qwen3", dim, hidden, layers, heads, 8, 151936, 40960, head_dim=128, **more)


def delta(heads: int) -> dict:
    return {
        "head_dim": 256, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_num_key_heads": 16, "linear_num_value_heads": heads, "mtp_num_hidden_layers": 1,
    }  # fmt: skip


def qwen35(dim: int, hidden: int, layers: int, heads: int, kv_heads: int, states: int, **more) -> dict:
    return within("qwen3_5", dense("qwen3_5_text", dim, hidden, layers, heads, kv_heads, 248320, 262144, **delta(states), **more))


def gemma4(dim: int, hidden: int, layers: int, heads: int, kv_heads: int, step: int, positions: int, window: int, **more) -> dict:
    text = dense("gemma4_text", dim, hidden, layers, heads, kv_heads, 262144, positions, head_dim=256, sliding_window=window, **tied())
    return within("gemma4", text | {"global_head_dim": 512, "final_logit_softcapping": 30.0} | every(step, layers) | more)


def small_gemma4(shared: int, **more) -> dict:
    return {"hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262144, "num_kv_shared_layers": shared} | more


def large_gemma4(kv_heads: int) -> dict:
    return {"hidden_size_per_layer_input": 0, "num_global_key_value_heads": kv_heads, "attention_k_eq_v": True}


def ministral3(dim: int, hidden: int, layers: int, **more) -> dict:
    yarn = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 16384, "llama_4_scaling_beta": 0.1}
    text = dense("ministral3", dim, hidden, layers, 32, 8, 131072, 262144, head_dim=128, sliding_window=None, rope_parameters=yarn, **more)
    return within("mistral3", text)


def latent(nope: int, value: int, query: int | None) -> dict:
    return {"kv_lora_rank": 512, "q_lora_rank": query, "qk_nope_head_dim": nope, "qk_rope_head_dim": 64, "v_head_dim": value}


def deepseek(kind: str, hidden: int, vocab: int, positions: int, **more) -> dict:
    moe = {"n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "first_k_dense_replace": 1}
    return dense(kind, 2048, hidden, 27, 16, 16, vocab, positions, n_group=1, topk_group=1, **moe, **latent(128, 128, None), **more)


def mamba2(heads: int, state: int) -> dict:
    return {"mamba_n_heads": heads, "mamba_d_head": 64, "mamba_d_state": state, "mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_expand": 2}


GPT_OSS = {"head_dim": 64, "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128, "quantization_config": {"quant_method": "mxfp4"}}
GLM_FLASH = {
    "n_routed_experts": 64, "n_shared_experts": 1, "num_experts_per_tok": 4, "moe_intermediate_size": 1536, "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 1, **latent(192, 256, 768),
}  # fmt: skip
GRANITE_TINY = {
    "shared_intermediate_size": 1024, "num_local_experts": 64, "num_experts_per_tok": 6, "position_embedding_type": "nope",
    **mamba2(48, 128), **only((5, 15, 25, 35), 40, "attention", "mamba"), **tied(),
}  # fmt: skip
NEMOTRON_NANO = {
    "head_dim": 128, "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", "mamba_num_heads": 64,
    "mamba_head_dim": 64, "ssm_state_size": 128, "conv_kernel": 4, "n_groups": 8, "n_routed_experts": 128, "n_shared_experts": 1,
    "num_experts_per_tok": 6, "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712,
}  # fmt: skip
LFM2_MOE = {"num_dense_layers": 2, "use_expert_bias": True, "conv_L_cache": 3, **experts(32, 4, 1792)}

# Copies of the published files in public repositories: presets of mlc-llm and maxtext, tests and examples of executorch,
# aiconfigurator and others. Of Mistral Small 3.1 the numbers are those that its number of weights confirms.
MODELS = (
    Published("Qwen3 0.6B", "Qwen/Qwen3-0.6B", qwen3(1024, 3072, 28, 16, **tied()), "qwen3", "qwen2", "qwen3"),
    Published("Qwen3 4B", "Qwen/Qwen3-4B", qwen3(2560, 9728, 36, 32, **tied()), "qwen3", "qwen2", "qwen3"),
    Published("Qwen3 8B", "Qwen/Qwen3-8B", qwen3(4096, 12288, 36, 32), "qwen3", "qwen2", "qwen3"),
    Published("Qwen3 32B", "Qwen/Qwen3-32B", qwen3(5120, 25600, 64, 64), "qwen3", "qwen2", "qwen3"),
    Published("Qwen3 30B-A3B", "Qwen/Qwen3-30B-A3B", dense("qwen3_moe", 2048, 6144, 48, 32, 4, 151936, 40960, head_dim=128, **experts(128, 8, 768)),
              "qwen3-moe", "qwen2", "qwen3"),
    Published("Qwen3.5 0.8B", "Qwen/Qwen3.5-0.8B", qwen35(1024, 3584, 24, 8, 2, 16, **tied()), "qwen35", "qwen35", "qwen3.5"),
    Published("Qwen3.5 2B", "Qwen/Qwen3.5-2B", qwen35(2048, 6144, 24, 8, 2, 16, **tied()), "qwen35", "qwen35", "qwen3.5"),
    Published("Qwen3.5 4B", "Qwen/Qwen3.5-4B", qwen35(2560, 9216, 32, 16, 4, 32, **tied()), "qwen35", "qwen35", "qwen3.5"),
    Published("Qwen3.5 9B", "Qwen/Qwen3.5-9B", qwen35(4096, 12288, 32, 16, 4, 32), "qwen35", "qwen35", "qwen3.5"),
    Published("Qwen3.6 27B", "Qwen/Qwen3.6-27B", qwen35(5120, 17408, 64, 24, 4, 48), "qwen35", "qwen35", "qwen3.5"),
    Published("Qwen3.6 35B-A3B", "Qwen/Qwen3.6-35B-A3B",
              within("qwen3_5_moe", dense("qwen3_5_moe_text", 2048, 512, 40, 16, 2, 248320, 262144, **delta(32),
                                          **experts(256, 8, 512, shared_expert_intermediate_size=512))),
              "qwen35-moe", "qwen35", "qwen3.5"),
    Published("Qwen3.8 27B", "Qwen/Qwen3.8-27B", qwen35(5120, 17408, 64, 24, 4, 48), "qwen35", "qwen35", "qwen3.5"),
    Published("Gemma 3 1B", "google/gemma-3-1b-it", dense("gemma3_text", 1152, 6912, 26, 4, 1, 262144, 32768, head_dim=256, sliding_window=512),
              "gemma3", "hf-gemma", "gemma-3"),
    Published("Gemma 3 4B", "google/gemma-3-4b-it",
              within("gemma3", dense("gemma3_text", 2560, 10240, 34, 8, 4, 262208, 131072, sliding_window=1024, **tied())), "gemma3", "hf-gemma", "gemma-3"),
    Published("Gemma 4 E2B", "google/gemma-4-E2B-it", gemma4(1536, 6144, 35, 8, 1, 5, 131072, 512, **small_gemma4(20, use_double_wide_mlp=True)),
              "gemma4-e2b", "hf-gemma", "gemma-4"),
    Published("Gemma 4 E4B", "google/gemma-4-E4B-it", gemma4(2560, 10240, 42, 8, 2, 6, 131072, 512, **small_gemma4(18)),
              "gemma4-e4b", "hf-gemma", "gemma-4"),
    Published("Gemma 4 26B-A4B", "google/gemma-4-26B-A4B-it",
              gemma4(2816, 2112, 30, 16, 8, 6, 262144, 1024, **large_gemma4(2), num_experts=128, top_k_experts=8, moe_intermediate_size=704,
                     enable_moe_block=True), "gemma4-26b", "hf-gemma", "gemma-4"),
    Published("Gemma 4 31B", "google/gemma-4-31B-it", gemma4(5376, 21504, 60, 32, 16, 6, 262144, 1024, **large_gemma4(4)),
              "gemma4-26b", "hf-gemma", "gemma-4"),
    Published("gpt-oss 20B", "openai/gpt-oss-20b", dense("gpt_oss", 2880, 2880, 24, 64, 8, 201088, 131072, **GPT_OSS), "gpt-oss", "o200k", "gpt-oss"),
    Published("Llama 3.2 1B", "meta-llama/Llama-3.2-1B-Instruct", llama3(2048, 8192, 16, 32, head_dim=64, **tied()), "llama3", "llama3", "llama-3.2"),
    Published("Llama 3.2 3B", "meta-llama/Llama-3.2-3B-Instruct", llama3(3072, 8192, 28, 24, **tied()), "llama3", "llama3", "llama-3.2"),
    Published("Llama 3.1 8B", "meta-llama/Llama-3.1-8B-Instruct", llama3(4096, 14336, 32, 32), "llama3", "llama3", "llama-3.1"),
    Published("Llama 3.3 70B", "meta-llama/Llama-3.3-70B-Instruct", llama3(8192, 28672, 80, 64), "llama3", "llama3", "llama-3.1"),
    Published("Ministral 3 3B", "mistralai/Ministral-3-3B-Instruct-2512-BF16", ministral3(3072, 9216, 26, **tied()), "ministral3", "tekken"),
    Published("Ministral 3 8B", "mistralai/Ministral-3-8B-Instruct-2512-BF16", ministral3(4096, 14336, 34), "ministral3", "tekken"),
    Published("Mistral Small 3.1 24B", "mistralai/Mistral-Small-3.1-24B-Instruct-2503",
              within("mistral3", dense("mistral", 5120, 32768, 40, 32, 8, 131072, 131072, head_dim=128, sliding_window=None)), "mistral", "tekken"),
    Published("Phi-4-mini", "microsoft/Phi-4-mini-instruct", dense("phi3", 3072, 8192, 32, 24, 8, 200064, 131072, partial_rotary_factor=0.75, **tied()),
              "phi3-long", "o200k", "phi-4-mini"),
    Published("Phi-4", "microsoft/phi-4", dense("phi3", 5120, 17920, 40, 40, 10, 100352, 16384), "phi3", "llama3", "phi-4"),
    Published("SmolLM2 135M", "HuggingFaceTB/SmolLM2-135M-Instruct", dense("llama", 576, 1536, 30, 9, 3, 49152, 8192, **tied()),
              "llama-gqa", "smollm2", "smollm2"),
    Published("SmolLM3 3B", "HuggingFaceTB/SmolLM3-3B", dense("smollm3", 2048, 11008, 36, 16, 4, 128256, 65536, **tied()), "smollm3", "llama3", "smollm3"),
    Published("LFM2.5 1.2B", "LiquidAI/LFM2.5-1.2B-Instruct",
              dense("lfm2", 2048, 12288, 16, 32, 8, 65536, 128000, conv_L_cache=3, full_attn_idxs=[2, 5, 8, 10, 12, 14]), "lfm2", "llama3"),
    Published("LFM2 8B-A1B", "LiquidAI/LFM2-8B-A1B",
              dense("lfm2_moe", 2048, 7168, 24, 32, 8, 65536, 128000, **LFM2_MOE, **only((2, 6, 10, 14, 18, 21), 24, "full_attention", "conv"), **tied()),
              "lfm2-moe", "llama3"),
    Published("Granite 4.0 H Tiny", "ibm-granite/granite-4.0-h-tiny", dense("granitemoehybrid", 1536, 512, 40, 12, 4, 100352, 131072, **GRANITE_TINY),
              "granite4-h", "llama3"),
    Published("GLM-4.7-Flash", "zai-org/GLM-4.7-Flash", dense("glm4_moe_lite", 2048, 10240, 47, 20, 20, 154880, 202752, **GLM_FLASH),
              "glm4-moe-lite", "llama3", "glm-4.7"),
    Published("Nemotron 3 Nano 30B-A3B", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", dense("nemotron_h", 2688, 1856, 52, 32, 2, 131072, 262144, **NEMOTRON_NANO),
              "nemotron3", "", "nemotron-3"),
    Published("Falcon-H1 1.5B", "tiiuae/Falcon-H1-1.5B-Instruct",
              dense("falcon_h1", 2048, 4608, 24, 8, 2, 65537, 131072, head_dim=128, mamba_d_ssm=3072, **mamba2(48, 256)), "falcon-h1"),
    Published("OLMo 3 7B", "allenai/Olmo-3-7B-Instruct", dense("olmo3", 4096, 11008, 32, 32, 32, 100278, 65536, sliding_window=4096), "olmo3", "llama3"),
    Published("DeepSeek V2 Lite", "deepseek-ai/DeepSeek-V2-Lite-Chat", deepseek("deepseek_v2", 10944, 102400, 163840, topk_method="greedy"),
              "deepseek-v2-lite", "deepseek2", "deepseek-v2"),
    Published("Moonlight 16B-A3B", "moonshotai/Moonlight-16B-A3B-Instruct", deepseek("deepseek_v3", 11264, 163840, 8192, num_nextn_predict_layers=0),
              "deepseek-v3"),
    Published("TinyLlama 1.1B", "TinyLlama/TinyLlama-1.1B-Chat-v1.0", dense("llama", 2048, 5632, 22, 32, 4, 32000, 2048), "llama-gqa", "hf-llama", "zephyr"),
)  # fmt: skip


# ---- the table ------------------------------------------------------------------------------


def features(config: dict) -> dict:
    """The engine's config. A layer that guesses further tokens is kept, as the converter does."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "quantization_config"}))
        kind, made, values = huggingface.features(Path(folder), None, [])
    if kind in mtp.KINDS and any(values.get(key) for key in mtp.STATED):
        mtp.add(made)
    return made


def tensors(made: dict, small_experts: bool) -> list[writer.Tensor]:
    """The directory of a file in bf16; MXFP4 becomes q4c."""

    def kind(slot) -> int:
        if slot.vector or slot.exact:
            return tiles.F32
        return tiles.Q4C if small_experts and slot.matrices > 1 else tiles.BF16

    return [writer.Tensor(s.name, kind(s), s.rows, s.k, lambda: iter(()), s.matrices) for s in slots(made)]


def line(model: Published) -> list[str]:
    """The cells of a row."""
    made = features(model.config)
    entries = tensors(made, "quantization_config" in model.config)
    files, memories = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "outline.bin")
        for kind in foresee.TYPES:
            with foresee.outlined(path, {"config": keys.pack(packed_config(made))}, entries, kind, made["max_seq"], 1) as engine:
                files.append(gigabytes(path.stat().st_size))
                memories.append(gigabytes(engine.memory().total))
    weights = sum(t.rows * t.k * t.matrices for t in entries)
    return [
        model.title, f"`tools/get.py {model.name}`", f"{weights / 1e9:.3g} B", ", ".join(files), ", ".join(memories), "never",
        held(model.golden, GOLDEN, ".txt"), held(model.tokenizer, VOCABULARIES, ".bin"), template(model.template),
    ]  # fmt: skip


def gigabytes(n: int) -> str:
    return f"{n / 1e9:.{2 if n < 1e10 else 1}f}"


def held(name: str, folder: Path, suffix: str) -> str:
    assert not name or (folder / (name + suffix)).exists(), name
    return f"`{name}`" if name else "-"


def template(name: str) -> str:
    """A template that is not the published text says so."""
    own = name and (TEMPLATES / f"{name}.jinja").read_text().startswith("{#- Own words")
    return held(name, TEMPLATES, ".jinja") + ("\\*" if own else "")


def rows() -> Iterator[str]:
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    for model in MODELS:
        yield f"| {' | '.join(line(model))} |"


def parts() -> tuple[str, str, str]:
    """README.md before its table of models, the table, and what follows."""
    text = README.read_text()
    first = text.index("| " + COLUMNS[0] + " | " + COLUMNS[1], text.index(HEADING + "\n"))
    end = text.index("\n\n", first) + 1
    return text[:first], text[first:end], text[end:]
