"""A seeded generator of strings that tokenizers get wrong, which tests/support/hard_strings.c reproduces."""

# Where single characters are drawn from: every kind of letter, digit, space, mark, symbol and hole.
RANGES = [
    (0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x6FF), (0x900, 0xDFF),
    (0xE00, 0xEFF), (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x218F), (0x2190, 0x2BFF),
    (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFFFD), (0x10000, 0x103FF), (0x1D000, 0x1D7FF),
    (0x1F000, 0x1FAFF), (0x20000, 0x2FA1F), (0xE0000, 0xE01EF), (0x10FFFE, 0x10FFFF), (0x00, 0x1F), (0x7F, 0x9F),
]  # fmt: skip
MASK = (1 << 64) - 1


class Random:
    """splitmix64."""

    def __init__(self, seed: int, index: int):
        self.state = (seed ^ index * 0xD1342543DE82EF95) & MASK

    def next(self) -> int:
        self.state = self.state + 0x9E3779B97F4A7C15 & MASK
        x = self.state
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
        x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
        return x ^ x >> 31

    def below(self, n: int) -> int:
        return (self.next() >> 32) * n >> 32


def hard_string(seed: int, index: int, fragments: list[bytes], tokens: list[bytes], added: list[bytes]) -> bytes:
    """Bytes number `index`, mostly UTF-8: one to twelve parts drawn from everything that is awkward."""
    r, out = Random(seed, index), bytearray()
    for _ in range(1 + r.below(12)):
        kind = r.below(100)
        if kind < 40:
            out += fragments[r.below(len(fragments))]
        elif kind < 50:
            out += bytes(32 + r.below(95) for _ in range(1 + r.below(6)))
        elif kind < 65:
            low, high = RANGES[r.below(len(RANGES))]
            out += chr(low + r.below(high - low + 1)).encode()
        elif kind < 80:
            out += tokens[r.below(len(tokens))]
        elif kind < 88:
            out += added[r.below(len(added))] if added else b""
        elif kind < 94:
            part = fragments[r.below(len(fragments))]
            out += part * (1 + r.below(20))
        elif kind < 97:
            out += bytes(b" \n\t\r"[r.below(4)] for _ in range(1 + r.below(8)))
        else:
            out += bytes(r.below(256) for _ in range(1 + r.below(4)))
    return bytes(out)


def random_ids(seed: int, index: int, n_tokens: int) -> list[int]:
    """Up to twenty ids."""
    r = Random(seed, index)
    return [r.below(n_tokens) for _ in range(1 + r.below(20))]
