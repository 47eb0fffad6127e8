"""A model file's graph in PyTorch, in any type: written from the table of
operators in docs/models.md, operator by operator, for parity.py beside."""

import math

import torch
from torch.nn import functional

ACTIVATIONS = {"none": lambda x: x, "relu": torch.relu, "gelu": functional.gelu,
               "silu": functional.silu, "tanh": torch.tanh,
               "sigmoid": torch.sigmoid,
               "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh")}
LOSSES = ("softmax_cross_entropy", "sigmoid_cross_entropy",
          "mean_squared_error")


class Graph:
    """Shapes leave out the first extent, that of the samples."""

    def __init__(self, spec):
        self.operators = []
        counts = {}
        for given in spec["operators"]:
            op = dict(given)
            kind = op["kind"]
            number = counts.get(kind, 0)
            default = "loss" if kind in LOSSES else f"{kind}_{number}"
            counts[kind] = number + 1
            op["name"] = op.get("name", default)
            self.operators.append(op)

    def loss(self, parameters, data, training=True):
        """Mean over the samples. `data`: features, ids, labels."""
        logits = self.logits(parameters, data, training)
        kind = self.operators[-1]["kind"]
        labels = data["labels"]
        if kind == "softmax_cross_entropy":
            flat = logits.reshape(-1, logits.shape[-1])
            return functional.cross_entropy(flat, labels.reshape(-1))
        if kind == "sigmoid_cross_entropy":
            return functional.binary_cross_entropy_with_logits(
                logits.reshape(-1), labels.to(logits.dtype))
        return ((logits.reshape(-1) - labels) ** 2).mean()

    def logits(self, parameters, data, training=True):
        values = {"features": data.get("features"), "ids": data.get("ids")}
        last = "ids" if data.get("features") is None else "features"
        for op in self.operators:
            inputs = op.get("inputs", [last])
            inputs = [inputs] if isinstance(inputs, str) else inputs
            if op["kind"] in LOSSES:
                return values[inputs[0]]
            weights = {name.split("/")[1]: value
                       for name, value in parameters.items()
                       if name.split("/")[0] == op["name"]}
            if "weight" in op:  # another operator's
                weights["shared"] = parameters[op["weight"]]
            run = getattr(self, op["kind"])
            x = run(op, weights, training, *(values[name] for name in inputs))
            last = op["name"]
            values[last] = x
        raise ValueError("a graph without a loss")

    @staticmethod
    def activated(op, x):
        return ACTIVATIONS[op.get("activation", "none")](x)

    # --- operators ------------------------------------------------------------

    def dense(self, op, w, _, x):
        weight = w.get("shared", w.get("weight"))
        if op.get("transposed"):
            weight = weight.T
        x = x @ weight
        return self.activated(op, x + w["bias"] if "bias" in w else x)

    def conv2d(self, op, w, _, x):
        padding = op.get("padding", 0)
        if padding == "same":
            padding = (op["kernel"] - 1) // 2
        x = functional.conv2d(
            x.permute(0, 3, 1, 2), w["weight"].permute(3, 2, 0, 1),
            w.get("bias"), op.get("stride", 1), padding,
            groups=op.get("groups", 1))
        return self.activated(op, x.permute(0, 2, 3, 1))

    @staticmethod
    def pooled(op, x, pool):
        size = op.get("kernel", tuple(x.shape[1:3]))
        return pool(x.permute(0, 3, 1, 2), size, op.get("stride", size),
                    op.get("padding", 0)).permute(0, 2, 3, 1)

    def max_pool(self, op, _, __, x):
        return self.pooled(op, x, functional.max_pool2d)

    def average_pool(self, op, _, __, x):
        return self.pooled(op, x, lambda *args: functional.avg_pool2d(
            *args, count_include_pad=False))

    def batch_norm(self, op, w, training, x):
        axes = tuple(range(x.dim() - 1))
        mean, variance = w["mean"], w["variance"]
        if training:
            mean, variance = x.mean(axes), x.var(axes, unbiased=False)
        x = (x - mean) / torch.sqrt(variance + op.get("epsilon", 1e-5))
        return self.activated(op, x * w["scale"] + w["shift"])

    def layer_norm(self, op, w, _, x):
        return functional.layer_norm(x, x.shape[-1:], w["scale"],
                                     w.get("shift"), op.get("epsilon", 1e-5))

    def rms_norm(self, op, w, _, x):
        mean = (x * x).mean(-1, keepdim=True)
        return x / torch.sqrt(mean + op.get("epsilon", 1e-5)) * w["scale"]

    def activation(self, op, _, __, x):
        return self.activated(op, x)

    def softmax(self, _, __, ___, x):
        return torch.softmax(x, -1)

    def dropout(self, _, __, ___, x):
        return x  # of rate 0

    def embedding(self, _, w, __, ids):
        table = w.get("shared", w.get("table"))
        there = (ids >= 0).unsqueeze(-1)
        return table[ids.clamp(min=0)] * there

    def embedding_bag(self, op, w, training, ids, weights=None):
        rows = self.embedding(op, w, training, ids)
        if weights is not None:
            rows = rows * weights.unsqueeze(-1)
        total = rows.sum(1)
        if op.get("mode", "sum") == "mean":
            total = total / (ids >= 0).sum(1, keepdim=True).clamp(min=1)
        return total

    def attention(self, op, _, __, x):
        n, t, width = x.shape
        heads = op.get("heads", 1)
        shared = op.get("key_value_heads", heads)
        head = width // (heads + 2 * shared)
        query, key, value = (
            part.reshape(n, t, -1, head).transpose(1, 2)
            for part in x.split([heads * head, shared * head, shared * head],
                                dim=2))
        key, value = (part.repeat_interleave(heads // shared, dim=1)
                      for part in (key, value))
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        if op.get("causal"):
            mask = torch.ones(t, t, dtype=torch.bool).tril()
            scores = scores.masked_fill(~mask, float("-inf"))
        mixed = torch.softmax(scores, -1) @ value
        return mixed.transpose(1, 2).reshape(n, t, heads * head)

    def rotary(self, op, _, __, x):
        n, t, width = x.shape
        heads = op.get("heads", 1)
        shared = op.get("key_value_heads", heads)
        head = width // (heads + 2 * shared)
        turned, kept = x.split([(heads + shared) * head, shared * head], dim=2)
        pairs = turned.reshape(n, t, heads + shared, head)
        between = op.get("interleaved", False)
        a, b = ((pairs[..., ::2], pairs[..., 1::2]) if between
                else pairs.split(head // 2, dim=3))
        angles = torch.outer(
            torch.arange(t, dtype=torch.float64),
            op.get("base", 10000) ** -(torch.arange(
                0, head, 2, dtype=torch.float64) / head)).unsqueeze(1)
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        parts = a * cosine - b * sine, b * cosine + a * sine
        pairs = (torch.stack(parts, dim=4).flatten(3) if between
                 else torch.cat(parts, dim=3))
        return torch.cat([pairs.reshape(n, t, -1), kept], dim=2)

    def swiglu(self, _, __, ___, x):
        gate, up = x.chunk(2, dim=-1)
        return functional.silu(gate) * up

    def interaction(self, _, __, ___, x):
        products = x @ x.transpose(1, 2)
        i, j = torch.tril_indices(x.shape[1], x.shape[1], -1)
        return products[:, i, j]

    def factorization(self, _, __, ___, x):
        return ((x.sum(1) ** 2 - (x ** 2).sum(1)).sum(1) / 2).unsqueeze(1)

    def concat(self, op, _, __, *inputs):
        return torch.cat(inputs, op.get("axis", 0) + 1)

    def slice(self, op, _, __, x):
        axis = op.get("axis", 0) + 1
        begin = op.get("begin", 0)
        return x.narrow(axis, begin, op.get("end", x.shape[axis]) - begin)

    def reshape(self, op, _, __, x):
        return x.reshape(len(x), *op.get("shape", [-1]))

    def transpose(self, op, _, __, x):
        return x.permute(0, *(i + 1 for i in op["permutation"]))

    def add(self, op, _, __, *inputs):
        return self.activated(op, sum(inputs))

    def multiply(self, _, __, ___, x, y):
        return x * y

    def bias(self, _, w, __, x):
        return x + w["bias"]
