"""stories260K, the model to beat: llama2.c's v0 container and tokenizer, evaluated with torch in f32.

Checked against the reference perplexity of the data's manifest: the first printable line of the sample has 90 tokens
with BOS and a negative log-likelihood of 114.0426.
"""
import struct

import numpy as np
import torch
import torch.nn.functional as F

BOS = 1


class Llama2c:
    def __init__(self, weights, vocabulary):
        data = weights.read_bytes()
        self.dim, hidden, self.layers, self.heads, self.kv_heads, vocab, self.context = struct.unpack("<7i", data[:28])
        floats, at = torch.from_numpy(np.frombuffer(data, np.float32, offset=28).copy()), 0

        def take(*shape):
            nonlocal at
            n = int(np.prod(shape))
            at += n
            return floats[at - n: at].view(shape)

        L, D, self.head_dim = self.layers, self.dim, self.dim // self.heads
        kv = self.head_dim * self.kv_heads
        self.embedding = take(vocab, D)
        self.norm1 = take(L, D)
        self.wq, self.wk, self.wv, self.wo = take(L, D, D), take(L, kv, D), take(L, kv, D), take(L, D, D)
        self.norm2 = take(L, D)
        self.w1, self.w2, self.w3 = take(L, hidden, D), take(L, D, hidden), take(L, hidden, D)
        self.norm = take(D)

        data, at, self.pieces, self.scores = vocabulary.read_bytes(), 4, [], []
        for _ in range(vocab):
            score, n = struct.unpack_from("<fi", data, at)
            self.pieces.append(data[at + 8: at + 8 + n])
            self.scores.append(score)
            at += 8 + n
        self.ids = {p: i for i, p in reversed(list(enumerate(self.pieces)))}

    def encode(self, text):
        """BOS, a space, then characters (or bytes: id = byte + 3), merged best score first."""
        ids = [self.ids[b" "]]
        for c in text:
            piece = c.encode()
            ids += [self.ids[piece]] if piece in self.ids else [b + 3 for b in piece]
        while True:
            pairs = [(self.ids.get(self.pieces[a] + self.pieces[b]), i) for i, (a, b) in enumerate(zip(ids, ids[1:]))]
            best = max(((self.scores[p], -i, p) for p, i in pairs if p is not None), default=None)
            if best is None:
                return [BOS] + ids
            ids[-best[1]: 2 - best[1]] = [best[2]]

    def nll(self, ids):
        """Negative log-likelihood in nats of every token after the first."""
        ids = torch.tensor(ids)
        T, hd, x = len(ids), self.head_dim, self.embedding[ids]
        angle = torch.arange(T).double()[:, None] * 10000.0 ** -(torch.arange(0, hd, 2).double() / hd)
        cos, sin = angle.cos().float()[:, None], angle.sin().float()[:, None]

        def rope(t):  # interleaved pairs, [time, head, head_dim]
            a, b = t[..., 0::2], t[..., 1::2]
            return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)

        def rms(x, w):
            return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w

        for l in range(self.layers):
            h = rms(x, self.norm1[l])
            q = rope((h @ self.wq[l].T).view(T, self.heads, hd))
            k = rope((h @ self.wk[l].T).view(T, self.kv_heads, hd))
            v = (h @ self.wv[l].T).view(T, self.kv_heads, hd)
            k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
            a = F.scaled_dot_product_attention(*(t.transpose(0, 1) for t in (q, k, v)), is_causal=True)
            x = x + a.transpose(0, 1).reshape(T, -1) @ self.wo[l].T
            h = rms(x, self.norm2[l])
            x = x + (F.silu(h @ self.w1[l].T) * (h @ self.w3[l].T)) @ self.w2[l].T
        logits = rms(x, self.norm) @ self.embedding.T
        return F.cross_entropy(logits[:-1].double(), ids[1:], reduction="none")
