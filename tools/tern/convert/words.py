"""Numbers as people read them."""


def size(n: float) -> str:
    """Bytes: "1.50 GB"."""
    return f"{n / 1e9:.2f} GB" if n >= 1e9 else f"{n / 1e6:.1f} MB" if n >= 1e5 else f"{n / 1e3:.1f} kB"
