"""Where each family keeps its tensors in a Hugging Face directory.

Out: for a slot (a tensor that the features ask for) the Places in the source, one for each expert where there are many.
To add a family whose tensors differ: its names in names.py, and where they are not whole, plain tensors, a function in
layouts_dense.py, layouts_experts.py, layouts_mixers.py or states.py, and its row in LAYOUTS.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...errors import ConvertError
from . import layouts_dense as dense
from . import layouts_experts as experts
from . import layouts_mixers as mixers
from . import states
from .features import FACTORS, Slot, feature
from .names import HUGGINGFACE, NAMES, source_name
from .places import Place, plain


class Layout:
    """The Places of a family's tensors, for a model of these features. `has` tells which tensors the source holds."""

    def __init__(self, kind: str, config: dict[str, Any], has: Callable[[str], bool]):
        self.kind, self.config, self.has = kind, config, has
        self.names = HUGGINGFACE | NAMES.get(kind, {})
        self.special = LAYOUTS.get(kind)

    def value(self, key: str, layer: int) -> Any:
        return feature(self.config, key, layer)

    def name(self, ours: str) -> str:
        try:
            return source_name(self.names, ours)
        except KeyError:
            raise ConvertError(
                f"the {ours!r} of a {self.kind} model has no name in tools/tern/convert/families/names.py yet"
            ) from None

    def places(self, slot: Slot) -> list[Place]:
        layer, part = slot.layer_and_part
        found = self.special(self, slot, layer, part) if self.special else None
        if found is None and part in ("gate", "up", "down") and self.value("n_experts", layer):
            found = experts.split_experts(self, slot, layer, part)
        found = found if found is not None else [plain(self.name(slot.name), slot)]
        factor = self.config.get(FACTORS, {}).get(part)
        return found if factor is None else [replace(place, times=factor) for place in found]


LAYOUTS: dict[str, Callable[[Layout, Slot, int, str], list[Place] | None]] = {
    "gemma": dense.gemma,
    "gemma2": dense.gemma,
    "gemma3_text": dense.gemma,
    "vaultgemma": dense.gemma,
    "gemma3n_text": dense.gemma3n,
    "gemma4_text": dense.gemma4,
    "gemma4_unified_text": dense.gemma4,
    "nemotron": dense.gemma,
    "phi3": dense.phi3,
    "phi4_multimodal": dense.phi3,
    "mllama_text_model": dense.mllama,
    "olmo": dense.olmo,
    "gpt_neox": dense.neox,
    "falcon": dense.falcon,
    "stablelm": dense.stablelm,
    "cohere": dense.neighbours,
    "cohere2": dense.neighbours,
    "ernie4_5": dense.neighbours,
    "lfm2": states.lfm2,
    "lfm2_moe": states.lfm2,
    "lfm3": states.lfm2,
    "nemotron_h": states.nemotron_h,
    "granitemoehybrid": mixers.granite_hybrid,
    "bamba": states.mamba2,
    "mamba2": states.mamba2,
    "falcon_h1": states.mamba2,
    "qwen3_next": mixers.qwen3_next,
    "qwen3_5_text": mixers.qwen3_5,
    "qwen3_5_moe_text": mixers.qwen3_5,
    "olmo_hybrid": mixers.olmo_hybrid,
    "gpt2": dense.gpt2,
    "gpt-sw3": dense.gpt2,
    "mixtral": experts.mixtral,
    "gpt_oss": experts.gpt_oss,
    "nanochat": dense.swapped,
    "apertus": dense.apertus,
    "opt": dense.opt,
    "biogpt": dense.opt,
    "xglm": dense.xglm,
    "ctrl": dense.ctrl,
    "persimmon": dense.neox,
    "bitnet": dense.bitnet,
    "gpt_neox_japanese": dense.neox_japanese,
    "bloom": dense.neox,
    "mpt": dense.mpt,
    "gptj": dense.neighbours,
    "codegen": dense.codegen,
    "gpt_neo": dense.learned,
    "gpt_bigcode": dense.gpt_bigcode,
    "phimoe": experts.phimoe,
    "granitemoe": experts.granitemoe,
    "granitemoeshared": experts.granitemoe,
    "granitemoe_swa": experts.granitemoe,
    "ernie4_5_moe": experts.ernie_moe,
    "exaone_moe": experts.exaone_moe,
    "minimax_m2": experts.minimax_m2,
    "glm": dense.glm4,
    "hy_v3": experts.hy_v3,
    "kolibri1": experts.kolibri,
    "flint": experts.flint,
    "laguna": experts.laguna,
    "axk1": mixers.axk1,
    "cohere2_moe": experts.cohere2_moe,
    "aria_text": experts.aria,
    "dbrx": experts.dbrx,
    "deepseek_v2": mixers.latent,
    "deepseek_v3": mixers.latent,
    "glm4_moe_lite": mixers.latent,
    "youtu": mixers.latent,
    "mistral4": mixers.latent,
    "llama4_text": experts.llama4,
    "minicpm3": mixers.minicpm3,
    "kimi_linear": mixers.kimi_linear,
    "bailing_hybrid": mixers.kimi_linear,
    "glm4": dense.glm4,
    "helium": dense.neighbours,
}
