"""Prints the expected numbers of tests/unit/test_attention.c: a few lines of numpy, nothing of tern."""

import numpy as np

TOKENS, DIM, HEAD = 3, 8, 2


def matrix(rows: int, cols: int, step: int) -> np.ndarray:
    """Small exact numbers; the C test has the same formula."""
    i = np.arange(rows * cols)
    return ((i * step + 3) % 11 - 5.0).reshape(rows, cols) / 8


def attention(x: np.ndarray, n_heads: int, n_kv: int) -> np.ndarray:
    """Causal attention of one sequence: split, attend, concatenate, project."""
    q = (x @ matrix(n_heads * HEAD, DIM, 7).T).reshape(TOKENS, n_heads, HEAD)
    k = (x @ matrix(n_kv * HEAD, DIM, 5).T).reshape(TOKENS, n_kv, HEAD)
    v = (x @ matrix(n_kv * HEAD, DIM, 9).T).reshape(TOKENS, n_kv, HEAD)
    k, v = (np.repeat(a, n_heads // n_kv, axis=1) for a in (k, v))
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(HEAD)
    scores[:, np.triu(np.ones((TOKENS, TOKENS), bool), 1)] = -np.inf
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    heads = np.einsum("hij,jhd->ihd", weights, v).reshape(TOKENS, n_heads * HEAD)
    return heads @ matrix(DIM, n_heads * HEAD, 4).T


for name, n_heads, n_kv in (("MHA", 2, 2), ("GQA", 4, 2), ("MQA", 2, 1)):
    print(f"{{ /* {name} */ {n_heads}, {n_kv}, {{")
    for sequence in range(2):
        rows = attention(matrix(TOKENS, DIM, 3 + 5 * sequence) * 3, n_heads, n_kv)
        print(",\n".join("    " + ", ".join(f"{v:.7f}f" for v in row) for row in rows) + ",")
    print("}},")
