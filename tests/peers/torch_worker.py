"""The PyTorch peer on one thread; started by one_thread.py, prints one JSON
line. Models as Troupe builds them, data from the same files, no numpy.

    torch_worker.py --model cnn --mnist DIR --batch 64 --steps 150
    torch_worker.py --model transformer:L4-H4-D128-T64 --text FILE --batch 12

The pace is what torch does best here: channels-last images, fused optimizers
and scaled_dot_product_attention where this version has them.
"""

import argparse
import json
import re
import time

import torch
from torch.nn import functional

from torch_ddp_worker import sgd
from torch_models import (
    convolutional, decayed, perceptron, read_idx, transformer)
from torch_transformer_worker import read, windows

HELD_OUT = {"mnist": 0.15, "text": 0.02}


# --- data ---------------------------------------------------------------------

class Digits:
    """MNIST, split in file order; batches from a new permutation an epoch."""

    def __init__(self, folder, batch, flat):
        images = read_idx(folder, "images", 3).float() / 255
        labels = read_idx(folder, "labels", 1).long()
        shape = (784,) if flat else (1, 28, 28)
        images = images.reshape(-1, *shape)
        count = len(images) - round(HELD_OUT["mnist"] * len(images))
        self.train = images[:count].clone(), labels[:count].clone()
        self.held = images[count:], labels[count:]
        self.batch = batch
        self.inputs = torch.empty(batch, *shape)
        self.labels = torch.empty(batch, dtype=torch.int64)
        self.generator = torch.Generator().manual_seed(1)

    def next(self, step):
        batches = len(self.train[0]) // self.batch
        if step % batches == 0:
            self.order = torch.randperm(len(self.train[0]),
                                        generator=self.generator)
        at = step % batches * self.batch
        chosen = self.order[at:at + self.batch]
        torch.index_select(self.train[0], 0, chosen, out=self.inputs)
        torch.index_select(self.train[1], 0, chosen, out=self.labels)
        return self.inputs, self.labels

    def evaluation(self):
        yield from zip(*(part.split(250) for part in self.held))


class Text:
    """Characters; batches of windows at drawn places."""

    def __init__(self, file, batch, window):
        self.train, self.held, self.vocabulary = read(file, HELD_OUT["text"])
        self.batch, self.window = batch, window
        self.generator = torch.Generator().manual_seed(1)

    def next(self, _):
        starts = torch.randint(len(self.train) - self.window, (self.batch,),
                               generator=self.generator)
        return windows(self.train, starts, self.window)

    def evaluation(self):
        starts = torch.arange(0, len(self.held) - self.window, self.window)
        for part in starts.split(64):
            yield windows(self.held, part, self.window)


# --- models -------------------------------------------------------------------

def build(arguments):
    """The model and its data."""
    name, _, size = arguments.model.partition(":")
    if name == "transformer":
        window = int(re.search(r"T(\d+)", size).group(1))
        data = Text(arguments.text, arguments.batch, window)
        return transformer(arguments.model, data.vocabulary), data
    flat = name == "mlp"
    model = (perceptron([int(width) for width in size.split("-")]) if flat
             else convolutional())
    return model, Digits(arguments.mnist, arguments.batch, flat)


# --- training -----------------------------------------------------------------

def optimizer_of(arguments, model):
    if arguments.optimizer == "adamw":
        return decayed(model.parameters(), arguments.rate, (0.9, 0.999), 0.01)
    return sgd(model.parameters(), arguments.rate)


def loss_of(logits, labels):
    return functional.cross_entropy(logits.flatten(0, -2), labels.flatten())


def train(arguments):
    torch.manual_seed(0)
    model, data = build(arguments)
    optimizer = optimizer_of(arguments, model)
    first = None
    for step in range(arguments.steps):
        if step == arguments.warm_up:
            began = time.monotonic()
        inputs, labels = data.next(step)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(inputs), labels)
        loss.backward()
        optimizer.step()
        first = first or float(loss)
    ended = time.monotonic()
    total, count = 0.0, 0
    with torch.no_grad():
        for inputs, labels in data.evaluation():
            total += float(loss_of(model(inputs), labels)) * len(inputs)
            count += len(inputs)
    return {"seconds": ended - began, "first_loss": first,
            "loss": total / count}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--mnist")
    parser.add_argument("--text")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument("--rate", type=float, default=0.1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(json.dumps(train(arguments)))


if __name__ == "__main__":
    main()
