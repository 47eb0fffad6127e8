"""One process of the PyTorch peer of layouts.py: a character transformer as a
pipeline of two stages, in tensor slices or fully sharded, over Gloo; prints one
JSON line. It uses no numpy.

    torch_layouts_worker.py --layout pipeline --rank R --rendezvous FILE ...
"""

import argparse
import json
import statistics
import struct
import sys
import time

try:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed import pipelining
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, RowwiseParallel, parallelize_module)
    from torch.nn import functional
except ImportError as error:
    print(f"no PyTorch with pipelines and slices: {error}", file=sys.stderr)
    sys.exit(77)

from torch_models import as_troupe_names_them, transformer
from torch_transformer_worker import read, windows

WORLD = 2
SEED = 5


# --- weights ------------------------------------------------------------------

def write_safetensors(path, tensors):
    header, at, parts = {}, 0, []
    for name, tensor in tensors.items():
        data = bytes(tensor.detach().float().contiguous().view(torch.uint8)
                     .flatten().tolist())
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


# --- layouts ------------------------------------------------------------------

class FirstStage(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.tokens, self.positions = model.tokens, model.positions
        self.blocks = model.blocks[:len(model.blocks) // WORLD]

    def forward(self, ids):
        x = self.tokens(ids) + self.positions[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return x


class LastStage(nn.Module):
    """Its head is a copy of the first stage's table: gradients are added."""

    def __init__(self, model):
        super().__init__()
        self.blocks = model.blocks[len(model.blocks) // WORLD:]
        self.norm = model.norm
        self.head = nn.Parameter(model.tokens.weight.detach().clone())

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.head)


class SlicedBlock(nn.Module):
    """A block whose heads and inner width are cut: queries, keys and values
    are layers of their own."""

    def __init__(self, block):
        super().__init__()
        width = block.projection.weight.shape[0]
        self.head = width // block.heads
        self.norm_1, self.norm_2 = block.norm_1, block.norm_2
        self.projection, self.up, self.down = (block.projection, block.up,
                                               block.down)
        for name, weight in zip(("query", "key", "value"),
                                block.qkv.weight.detach().split(width)):
            layer = nn.Linear(width, width, bias=False)
            layer.weight = nn.Parameter(weight.clone())
            setattr(self, name, layer)

    def forward(self, x):
        y = self.norm_1(x)
        rows, length = y.shape[:2]
        query, key, value = (
            layer(y).view(rows, length, -1, self.head).transpose(1, 2)
            for layer in (self.query, self.key, self.value))
        z = functional.scaled_dot_product_attention(query, key, value,
                                                    is_causal=True)
        x = x + self.projection(
            z.transpose(1, 2).contiguous().view(rows, length, -1))
        return x + self.down(functional.gelu(self.up(self.norm_2(x))))


def cross_entropy(logits, targets):
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def optimizers_of(parameters, rate):
    """Adam, fused; lists of one kind of tensors each."""
    kinds = [[], []]
    for parameter in parameters:
        kinds[isinstance(parameter, DTensor)].append(parameter)
    return [torch.optim.Adam(kind, lr=rate, fused=True)
            for kind in kinds if kind]


class Pipeline:
    def __init__(self, model, arguments):
        self.first = arguments.rank == 0
        self.part = FirstStage(model) if self.first else LastStage(model)
        stage = pipelining.PipelineStage(self.part, arguments.rank, WORLD,
                                         torch.device("cpu"))
        kind = {"gpipe": pipelining.ScheduleGPipe,
                "1f1b": pipelining.Schedule1F1B}[arguments.schedule]
        self.schedule = kind(stage, arguments.micro_batches,
                             loss_fn=cross_entropy)
        self.table = (self.part.tokens.weight if self.first
                      else self.part.head)

    def parameters(self):
        return self.part.parameters()

    def step(self, inputs, targets):
        losses = []
        if self.first:
            self.schedule.step(inputs)
        else:
            self.schedule.step(target=targets, losses=losses)
        dist.all_reduce(self.table.grad)
        return (None if self.first else
                torch.stack([loss.detach() for loss in losses]).mean())


class Tensor:
    def __init__(self, model, arguments):
        mesh = init_device_mesh("cpu", (WORLD,))
        model.blocks = nn.ModuleList(SlicedBlock(b) for b in model.blocks)
        for block in model.blocks:
            parallelize_module(block, mesh, {
                "query": ColwiseParallel(), "key": ColwiseParallel(),
                "value": ColwiseParallel(), "projection": RowwiseParallel(),
                "up": ColwiseParallel(), "down": RowwiseParallel()})
        self.model = model

    def parameters(self):
        return self.model.parameters()

    def step(self, inputs, targets):
        loss = cross_entropy(self.model(inputs), targets)
        loss.backward()
        return loss.detach()


class FullySharded(Tensor):
    """Each process has half of the batch."""

    def __init__(self, model, arguments):
        mesh = init_device_mesh("cpu", (WORLD,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        self.model = model
        self.rank = arguments.rank

    def step(self, inputs, targets):
        return super().step(inputs.chunk(WORLD)[self.rank],
                            targets.chunk(WORLD)[self.rank])


LAYOUTS = {"pipeline": Pipeline, "tensor": Tensor,
           "fully_sharded": FullySharded}


# --- training -----------------------------------------------------------------

def train(arguments):
    torch.manual_seed(SEED)
    data, _, vocabulary = read(arguments.text, 0)
    model = transformer(arguments.model, vocabulary)
    window = model.positions.shape[0]
    if arguments.weights and arguments.rank == 0:
        write_safetensors(arguments.weights, as_troupe_names_them(model))
    dist.init_process_group("gloo", rank=arguments.rank, world_size=WORLD,
                            init_method=f"file://{arguments.rendezvous}")
    layout = LAYOUTS[arguments.layout](model, arguments)
    optimizers = optimizers_of(layout.parameters(), arguments.rate)
    generator = torch.Generator().manual_seed(SEED)
    losses, times = [], []
    for _ in range(arguments.steps):
        began = time.monotonic()
        # In a text of as many windows as the batch has, all of them.
        starts = (torch.arange(arguments.batch)
                  if len(data) == window + arguments.batch else
                  torch.randint(len(data) - window, (arguments.batch,),
                                generator=generator))
        inputs, targets = windows(data, starts, window)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        losses.append(layout.step(inputs, targets))
        for optimizer in optimizers:
            optimizer.step()
        times.append(time.monotonic() - began)
    dist.barrier()
    dist.destroy_process_group()
    return {"step_ms": 1e3 * statistics.median(times[arguments.skipped:]),
            "losses": [None if x is None else float(x) for x in losses]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layout", choices=list(LAYOUTS), required=True)
    parser.add_argument("--schedule", default="1f1b")
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--rendezvous", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--skipped", type=int, default=10,
                        help="first steps, not timed")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--weights", help="write those that it begins with")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(json.dumps(train(arguments)))


if __name__ == "__main__":
    main()
