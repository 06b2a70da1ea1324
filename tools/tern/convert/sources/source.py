"""What every reader of a source hands over: features, matrices that can be read in pieces, and texts."""

from dataclasses import dataclass, field
from typing import Any

from ..files.matrix import Matrix
from ..tokenizers.tokenizer import Tokenizer

TEMPLATE_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


@dataclass
class Source:
    """`config` has the keys of FORMAT.md with per-layer lists; `matrices` our tensor names. `template`: the chat template
    (Jinja) as the source has it, and what it may name: bos_token, eos_token and so on."""

    name: str
    origin: str
    config: dict[str, Any]
    matrices: dict[str, Matrix]
    tokenizer: Tokenizer | None
    generation: dict[str, Any] = field(default_factory=dict)
    end_tokens: list[int] = field(default_factory=list)
    licence: str = ""
    notes: list[str] = field(default_factory=list)
    family: str = ""
    template: str = ""
    tool_template: str = ""  # another one for conversations with tools
    template_tokens: dict[str, str] = field(default_factory=dict)
    default_type: str | None = None  # of the matrices, where their own has no equal here, and a line that says what is lost
    default_note: str = ""
    chat: Any = None  # the rules made of it: a chat.Chat, or None
