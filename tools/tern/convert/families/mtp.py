"""The layer that guesses further tokens (MTP): which tensors of a source are its own, and the features that it adds.

In:  the tensors of a source by name. Out: the config with one layer more, or without its tensors and with a note.
DeepSeek V3 and GLM-4.5 and later store it behind the other layers, with enorm, hnorm, eh_proj and shared_head; Qwen3-Next
and Qwen3.5 store it under `mtp.`. Only the first of several is kept: drafts of the published models use one.
"""

import re
from collections.abc import Callable
from typing import Any

from .features import MIX_ATTENTION, feature

# Families whose layer is like their own layers with attention, and reads the final norm of the one before it.
KINDS = ("deepseek_v3", "glm4_moe", "glm4_moe_lite", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
# Names under `mtp.`, and where they would stand behind the other layers.
APART = {
    "fc.weight": "eh_proj.weight", "pre_fc_norm_embedding.weight": "enorm.weight",
    "pre_fc_norm_hidden.weight": "hnorm.weight", "norm.weight": "shared_head.norm.weight",
}  # fmt: skip
STATED = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers")  # keys of a config: how many there are
PARTS = ("mtp_in", "mtp_embed_norm", "mtp_hidden_norm", "mtp_norm")
NOT_OF_LAYERS = ("alibi", "q_scales")


def behind(entries: dict[str, Any], n_layers: int) -> None:
    """Renames what stands under `mtp.`, of its first layer, as if it stood behind the other layers."""
    for name in [name for name in entries if name.startswith("mtp.")]:
        part = name.removeprefix("mtp.")
        part = part.removeprefix("layers.0.") if part.startswith("layers.0.") else APART.get(part)
        if part:
            entries[f"model.layers.{n_layers}.{part}"] = entries.pop(name)


def settle(
    kind: str, config: dict[str, Any], values: dict[str, Any], entries: dict[str, Any], where: str, notes: list[str],
    same: Callable[[Any, Any], bool], names: dict[str, str],
) -> None:
    """Adds the layer to the config where it is understood, or takes away its tensors. `names` are those of our `embed`,
    `head` and, with {} for the layer, `mtp_in`, `mtp_embed` and `mtp_head`; same: whether two tensors hold the same bits."""
    n = config["n_layers"]
    stated = [values[key] for key in STATED if values.get(key) is not None]
    wanted = not stated or type(stated[0]) is int and stated[0] > 0
    keep = wanted and kind in KINDS and all(names[part].format(n) in entries for part in PARTS)
    for part in ("embed", "head"):  # published files repeat both; the layer reads the model's own
        own, ours = entries.get(names["mtp_" + part].format(n)), entries.get(names[part], entries.get(names["embed"]))
        if keep and own is not None and not same(own, ours):
            notes.append(f"{where}: the layer that guesses further tokens has its own {part}, which is not understood")
            keep = False
        elif keep and own is not None:
            del entries[names["mtp_" + part].format(n)]
    if keep:
        add(config)
    beyond = re.compile(re.escape(names["mtp_in"].split("{}")[0]) + r"(\d+)\.")
    found = {name: int(at[1]) for name in entries if (at := beyond.match(name))}
    gone = [name for name, layer in found.items() if layer >= n + keep] if stated or keep else []
    gone += [name for name in entries if name.startswith(("mtp.", "model.mtp."))]
    for name in gone:
        del entries[name]
    if gone:
        notes.append(f"{where}: {len(gone)} tensors of layers that guess further tokens are left out")


def add(config: dict[str, Any]) -> None:
    """One layer more, with the features of the last one that has attention."""
    n = config["n_layers"]
    like = max(i for i in range(n) if feature(config, "mixer", i) & MIX_ATTENTION)
    for key, value in config.items():
        if isinstance(value, list) and not key.startswith("rope.") and key not in NOT_OF_LAYERS:
            config[key] = [*value, value[like]]
    config["mtp"] = 1
