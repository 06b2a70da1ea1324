"""What families share whose layers differ in their mixer: attention in some, a state in the others; see families.py."""

from .config import Config
from .features import MIX_ATTENTION
from .windows import FULL, layer_types


def only_silu(c: Config, f: dict) -> None:
    """Convolutions and gates of a state take the activation of hidden_act in the reference, and silu here."""
    if f["activation"] != "silu":
        raise c.refuse("hidden_act", "'silu'")


def mixers(c: Config, f: dict, default: list[str], name: str, mixer: int) -> list[int]:
    """`layer_types`: the layers of this name have the mixer, and no heads; the others attention. Which have it."""
    kinds = layer_types(c, f["n_layers"], default, (FULL, name))
    has = [int(kind == name) for kind in kinds]
    if any(has):
        only_silu(c, f)
    f["mixer"] = [mixer if h else MIX_ATTENTION for h in has]
    for key in ("n_heads", "n_kv_heads", "head_dim"):
        f[key] = [0 if h else n for h, n in zip(has, f[key])]
    return has
