"""The shape of the model that ships."""

from dataclasses import dataclass


@dataclass
class Config:
    """Shape of the model. Widths are multiples of 256 and head_dim is 64, as the engine likes them."""

    vocab: int = 4096
    dim: int = 256
    layers: int = 5
    heads: int = 8
    kv_heads: int = 4
    head_dim: int = 64
    hidden: int = 768
    context: int = 512
    rope_theta: float = 10000.0
    eps: float = 1e-5
