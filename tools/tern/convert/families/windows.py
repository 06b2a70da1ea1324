"""Windows of attention: which layers of a config have one, and how wide it is."""

from .config import REQUIRED, Config
from .features import MAX_WINDOW

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"


def layer_types(c: Config, n: int, default: list[str], known: tuple[str, ...] = (FULL, SLIDING)) -> list[str]:
    """`layer_types` of transformers: the kind of attention of each layer."""
    kinds = c.get("layer_types", None)
    kinds = default if kinds is None else kinds
    if not isinstance(kinds, list) or len(kinds) != n or not all(k in known for k in kinds):
        raise c.refuse("layer_types", f"{n} of {' or '.join(map(repr, known))}")
    return kinds


def same_types(c: Config, n: int, kind: str) -> None:
    """Families that treat all layers alike do not read layer_types, so it must say just that."""
    if set(layer_types(c, n, [kind] * n)) != {kind}:
        raise c.refuse("layer_types", f"{kind!r} for all layers")


def put_windows(c: Config, f: dict, kinds: list[str], default: int) -> None:
    """The layers of the sliding kind get the window."""
    if SLIDING in kinds:
        window = c.integer("sliding_window", MAX_WINDOW, default)
        f["window"] = [window if kind == SLIDING else 0 for kind in kinds]
    else:
        c.get("sliding_window", default)


def window_of_all(c: Config, f: dict, default: int | None) -> None:
    """A window that all layers have, or none: `sliding_window` may be null."""
    window = c.get("sliding_window", default)
    n = f["n_layers"]
    if window is not None:
        f["window"] = [c.integer("sliding_window", MAX_WINDOW, default or REQUIRED)] * n
    same_types(c, n, FULL if window is None else SLIDING)


def exaone_windows(c: Config, f: dict) -> None:
    """A pattern of L (local) and G by turns, or its length; where some layers have a window, the others do not turn."""
    n, window, pattern = f["n_layers"], c.get("sliding_window", 4096), c.get("sliding_window_pattern", 4)
    if isinstance(pattern, str) and pattern:  # L and G by turns
        local = [pattern[i % len(pattern)] == "L" and i < n - 1 for i in range(n)]
    else:
        local = [type(pattern) is int and pattern > 0 and (i + 1) % pattern != 0 for i in range(n)]
    kinds = layer_types(c, n, [SLIDING if window and is_local else FULL for is_local in local])
    put_windows(c, f, kinds, 4096)
    if window:
        f["rope_set"] = [int(kind == SLIDING) for kind in kinds]
