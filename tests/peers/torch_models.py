"""PyTorch models that Troupe's are measured against, and MNIST for them."""

import gzip
import json
import math
import re
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


def perceptron(widths):
    layers = []
    for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        layers += [nn.ReLU()] if i else []
        layers += [nn.Linear(inputs, outputs)]
    return nn.Sequential(*layers)


def convolutional():
    model = nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(),
        nn.Linear(128, 10)).to(memory_format=torch.channels_last)
    for layer in model:
        if isinstance(layer, nn.Conv2d):  # as Troupe begins them
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    return model


def convolution(inputs, outputs, kernel, stride):
    return nn.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2,
                     bias=False)


class ResidualBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv_1 = convolution(inputs, outputs, 3, stride)
        self.norm_1 = nn.BatchNorm2d(outputs)
        self.conv_2 = convolution(outputs, outputs, 3, 1)
        self.norm_2 = nn.BatchNorm2d(outputs)
        self.shortcut = None if inputs == outputs else nn.Sequential(
            convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = functional.relu(self.norm_1(self.conv_1(x)))
        y = self.norm_2(self.conv_2(y))
        return functional.relu(y + (self.shortcut(x) if self.shortcut else x))


class Residual(nn.Module):
    """He et al. 2015, section 4.2: 6 n + 2 layers of 16, 32 and 64 channels;
    a 1x1 convolution where a block's extents change."""

    def __init__(self, layers, channels, classes=10):
        super().__init__()
        self.stem = convolution(channels, 16, 3, 1)
        self.norm = nn.BatchNorm2d(16)
        widths = [16, 16, 32, 64]
        self.blocks = nn.ModuleDict(
            {f"block_{group}_{i}": ResidualBlock(
                widths[group + 1] if i else widths[group], widths[group + 1],
                2 if group and not i else 1)
             for group in range(3) for i in range((layers - 2) // 6)})
        self.logits = nn.Linear(64, classes)
        self.to(memory_format=torch.channels_last)

    def forward(self, x):
        x = functional.relu(self.norm(self.stem(x)))
        for block in self.blocks.values():
            x = block(x)
        return self.logits(x.mean((2, 3)))


class Dlrm(nn.Module):
    """Naumov et al. 2019 in Troupe's sizes. All fields share a table.
    Shapes: features [rows, 13], ids [rows, fields] -> logits [rows]."""

    def __init__(self, fields, vocabulary, width=16):
        super().__init__()
        self.bottom = perceptron([13, 128, 64, width])
        self.embedding = nn.Embedding(vocabulary, width)
        pairs = fields * (fields + 1) // 2
        self.top = perceptron([width + pairs, 256, 128, 1])
        i, j = torch.tril_indices(fields + 1, fields + 1, -1)
        self.register_buffer("places", i * (fields + 1) + j, persistent=False)

    def forward(self, features, ids):
        bottom = functional.relu(self.bottom(features))
        vectors = torch.cat([bottom.unsqueeze(1), self.embedding(ids)], 1)
        products = (vectors @ vectors.transpose(1, 2)).flatten(1)
        pairs = products.index_select(1, self.places)
        return self.top(torch.cat([bottom, pairs], 1)).squeeze(1)


# --- weights -----------------------------------------------------------------

def layers_by_name(model):
    """(Troupe's name, layer) of what is not a transformer."""
    if isinstance(model, Residual):
        yield from (("stem", model.stem), ("stem.norm", model.norm))
        for name, block in model.blocks.items():
            for part in ("1", "2"):
                yield f"{name}.conv_{part}", getattr(block, f"conv_{part}")
                yield f"{name}.conv_{part}.norm", getattr(block,
                                                          f"norm_{part}")
            if block.shortcut:
                yield f"{name}.shortcut", block.shortcut[0]
                yield f"{name}.shortcut.norm", block.shortcut[1]
        yield "logits", model.logits
        return
    if isinstance(model, Dlrm):
        for part in ("bottom", "top"):
            for name, layer in layers_by_name(getattr(model, part)):
                yield name.replace("dense", part), layer
        yield "embedding", model.embedding
        return
    layers = [layer for layer in model
              if isinstance(layer, (nn.Linear, nn.Conv2d))]
    names = (("conv_1", "conv_2", "hidden", "logits")
             if isinstance(layers[0], nn.Conv2d)
             else [f"dense_{i}" for i in range(len(layers))])
    yield from zip(names, layers)


def as_troupe_names_them(model):
    """{name: view of a parameter, its axes as Troupe has them}: dense weights
    are [inputs, outputs], kernels [height, width, inputs, outputs], and images
    [height, width, channels] where they are laid flat."""
    if isinstance(model, CharTransformer):
        out = {"tokens/table": model.tokens.weight,
               "positions/bias": model.positions,
               "norm/scale": model.norm.weight}
        for number, block in enumerate(model.blocks):
            for layer in ("qkv", "projection", "up", "down"):
                weight = getattr(block, layer).weight
                out[f"block_{number}.{layer}/weight"] = weight.t()
            for norm in ("norm_1", "norm_2"):
                out[f"block_{number}.{norm}/scale"] = getattr(block,
                                                              norm).weight
        return out
    out = {}
    for name, layer in layers_by_name(model):
        if isinstance(layer, nn.Embedding):
            out[f"{name}/table"] = layer.weight
            continue
        norm = isinstance(layer, nn.BatchNorm2d)
        if layer.bias is not None:
            out[f"{name}/{'shift' if norm else 'bias'}"] = layer.bias
        weight = layer.weight
        if isinstance(layer, nn.Conv2d):
            weight = weight.permute(2, 3, 1, 0)
        elif name == "hidden":
            weight = weight.view(-1, 32, 7, 7).permute(2, 3, 1, 0)
        elif not norm:
            weight = weight.t()
        out[f"{name}/{'scale' if norm else 'weight'}"] = weight
    return out


@torch.no_grad()
def load_from_troupe(model, path):
    """Takes parameters from a safetensors file, of which none is left out but
    the running means and variances of batch norms."""
    data = bytearray(Path(path).read_bytes())
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    known = as_troupe_names_them(model)
    left = {name for name in header if not re.search("/(mean|variance)$", name)}
    if left != set(known):
        raise ValueError(f"{path}: other parameters: {left ^ set(known)}")
    for name, view in known.items():
        begin, end = header[name]["data_offsets"]
        values = torch.frombuffer(data, dtype=torch.float32,
                                  count=(end - begin) // 4,
                                  offset=8 + size + begin)
        view.copy_(values.view(view.shape))


# --- optimizers and data ------------------------------------------------------

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
