"""The model in PyTorch: Llama, as transformers computes it."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from ..errors import reading


def checkpoint_of(path):
    """What a training run wrote."""
    with reading(f"{path}, a checkpoint of tools/train.py,"):
        return torch.load(path, weights_only=False)


def build(config):
    c = config

    def attend(q, k, v):
        """Causal attention, q [batch, kv head, query heads of it, time, head_dim], in blocks of queries that meet no
        later key: quicker than the fused kernel on a CPU."""
        out, group = [], q.shape[2]
        for start in range(0, q.shape[3], 128):
            end = min(start + 128, q.shape[3])
            block = q[:, :, :, start:end].flatten(2, 3)
            scores = (block @ k[:, :, :end].transpose(-1, -2)).float() * c.head_dim**-0.5
            later = torch.arange(end)[None, :] > torch.arange(start, end)[:, None]
            scores = scores.masked_fill(later.repeat(group, 1), float("-inf"))
            a = torch.softmax(scores, -1).to(v.dtype) @ v[:, :, :end]
            out.append(a.unflatten(2, (group, end - start)))
        return torch.cat(out, 3)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            linear = lambda i, o: nn.Linear(i, o, bias=False)
            self.q_proj = linear(c.dim, c.heads * c.head_dim)
            self.k_proj = linear(c.dim, c.kv_heads * c.head_dim)
            self.v_proj = linear(c.dim, c.kv_heads * c.head_dim)
            self.o_proj = linear(c.heads * c.head_dim, c.dim)
            self.gate_proj, self.up_proj = linear(c.dim, c.hidden), linear(c.dim, c.hidden)
            self.down_proj = linear(c.hidden, c.dim)
            self.input_layernorm = nn.RMSNorm(c.dim, c.eps)
            self.post_attention_layernorm = nn.RMSNorm(c.dim, c.eps)

        def forward(self, x, cos, sin, drop):  # x: [batch, time, dim]; drop: [batch], what share of a branch's columns
            B, T, _ = x.shape

            def dropped(branch):  # one mask for all positions of a row
                if drop is None:
                    return branch
                keep = torch.rand(B, c.dim) >= drop[:, None]
                return branch * (keep / (1 - drop[:, None])).to(branch.dtype)[:, None]

            h = self.input_layernorm(x)
            heads = lambda t, n: t.view(B, T, n, c.head_dim).transpose(1, 2)  # [batch, head, time, head_dim]

            def rotate(t):  # half-split RoPE: (a, b) -> (a cos - b sin, b cos + a sin)
                a, b = t.chunk(2, -1)
                return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(t.dtype)

            q = rotate(heads(self.q_proj(h), c.heads))
            k = rotate(heads(self.k_proj(h), c.kv_heads))
            v = heads(self.v_proj(h), c.kv_heads)
            group = c.heads // c.kv_heads  # query heads per KV head
            a = attend(q.unflatten(1, (c.kv_heads, group)), k, v).flatten(1, 2)
            x = x + dropped(self.o_proj(a.transpose(1, 2).reshape(B, T, -1)))
            h = self.post_attention_layernorm(x)
            return x + dropped(self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h)))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed_tokens = nn.Embedding(c.vocab, c.dim)  # also the head: logits = h @ E^T
            self.layers = nn.ModuleList(Layer() for _ in range(c.layers))
            self.norm = nn.RMSNorm(c.dim, c.eps)
            inv = c.rope_theta ** -(torch.arange(0, c.head_dim, 2) / c.head_dim)
            angle = torch.arange(c.context)[:, None] * inv
            self.register_buffer("cos", angle.cos(), persistent=False)
            self.register_buffer("sin", angle.sin(), persistent=False)
            for name, p in self.named_parameters():
                if p.ndim == 2:  # projections back into the residual stream start smaller
                    last = "o_proj" in name or "down_proj" in name
                    nn.init.normal_(p, 0, 0.02 / (math.sqrt(2 * c.layers) if last else 1))

        def forward(self, ids, targets, drop=None):
            T = ids.shape[1]
            x = self.embed_tokens(ids)
            for layer in self.layers:
                x = layer(x, self.cos[:T], self.sin[:T], drop)
            logits = F.linear(self.norm(x), self.embed_tokens.weight).float()
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return Model()
