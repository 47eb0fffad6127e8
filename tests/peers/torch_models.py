"""PyTorch models that Troupe's are measured against, and MNIST for them."""

import gzip
import math
import struct
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional


class ScaleNorm(nn.Module):
    """Layer norm with a scale and no shift."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return functional.layer_norm(x, self.weight.shape, self.weight, None,
                                     1e-5)


class Block(nn.Module):
    """Pre-norm: causal attention, then two dense layers, each beside its
    input."""

    def __init__(self, heads, width, window):
        super().__init__()
        self.heads = heads
        self.norm_1 = ScaleNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.projection = nn.Linear(width, width, bias=False)
        self.norm_2 = ScaleNorm(width)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)
        # PyTorch's fused attention where it has one (2.0 and later).
        self.fused = hasattr(functional, "scaled_dot_product_attention")
        mask = torch.ones(window, window, dtype=torch.bool).tril()
        self.register_buffer("mask", mask, persistent=False)

    def attend(self, x):
        rows, length, width = x.shape
        query, key, value = (
            part.view(rows, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2))
        if self.fused:
            y = functional.scaled_dot_product_attention(query, key, value,
                                                        is_causal=True)
        else:
            scores = query @ key.transpose(-2, -1)
            scores = scores * (1.0 / math.sqrt(key.shape[-1]))
            scores = scores.masked_fill(~self.mask[:length, :length],
                                        float("-inf"))
            y = functional.softmax(scores, dim=-1) @ value
        return self.projection(
            y.transpose(1, 2).contiguous().view(rows, length, width))

    def forward(self, x):
        x = x + self.attend(self.norm_1(x))
        return x + self.down(functional.gelu(self.up(self.norm_2(x))))


class CharTransformer(nn.Module):
    """GPT-2 as small text recipes train it: learnt positions, no biases, no
    dropout, the head shares the table of tokens; weights from N(0, 0.02^2),
    those that end a block's branch divided by sqrt(2 layers).
    Shapes: ids [rows, window] -> logits [rows, window, vocabulary]."""

    def __init__(self, layers, heads, width, window, vocabulary):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.empty(window, width))
        self.blocks = nn.ModuleList(
            Block(heads, width, window) for _ in range(layers))
        self.norm = ScaleNorm(width)
        nn.init.normal_(self.positions, std=0.02)
        nn.init.normal_(self.tokens.weight, std=0.02)
        for name, weight in self.blocks.named_parameters():
            if weight.dim() == 2:
                ends = name.endswith(("projection.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / (
                    math.sqrt(2 * layers) if ends else 1))

    def forward(self, ids):
        x = self.tokens(ids) + self.positions[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.tokens.weight)


def transformer(text, vocabulary):
    """The model of a specification: transformer:L4-H4-D128-T64."""
    size = {part[0]: int(part[1:])
            for part in text.split(":", 1)[1].split("-")}
    return CharTransformer(size["L"], size["H"], size["D"], size["T"],
                           vocabulary)


def decayed(parameters, rate, betas, decay):
    """AdamW that lets matrices decay and nothing else, fused or over lists of
    tensors where this PyTorch has that for CPUs."""
    parameters = list(parameters)
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2],
         "weight_decay": decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0}]
    for choice in ({"fused": True}, {"foreach": True}):
        try:
            return torch.optim.AdamW(groups, lr=rate, betas=betas, **choice)
        except (TypeError, RuntimeError):
            continue
    return torch.optim.AdamW(groups, lr=rate, betas=betas)


def read_idx(folder, kind, axes):
    """The train files where present, else the test files; plain or .gz."""
    for part in ("train", "t10k"):
        path = Path(folder) / f"{part}-{kind}-idx{axes}-ubyte"
        for candidate in (path, path.with_name(path.name + ".gz")):
            if candidate.exists():
                opened = (gzip.open if candidate.suffix == ".gz" else open)
                with opened(candidate, "rb") as file:
                    data = bytearray(file.read())
                extents = struct.unpack(f">{axes}I", data[4:4 + 4 * axes])
                values = torch.frombuffer(data, dtype=torch.uint8,
                                          offset=4 + 4 * axes)
                return values.reshape(extents)
    raise SystemExit(f"{folder}: no MNIST files")
