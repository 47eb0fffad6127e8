"""The PyTorch side of transformer.py: trains a character transformer on text,
prints one JSON line. It uses no numpy.

    torch_transformer_worker.py --text FILE --threads N --steps N ...
"""

import argparse
import json
import math
import sys
import time

try:
    import torch
    from torch.nn import functional
except ImportError as error:
    print(f"no PyTorch: {error}", file=sys.stderr)
    sys.exit(77)

from torch_ddp_worker import probe
from torch_models import decayed, transformer


def read(path, fraction):
    """Ids of the characters in order of code point: training part and held
    out part, and how many characters there are."""
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    ids = {c: i for i, c in enumerate(sorted(set(text)))}
    data = torch.tensor([ids[c] for c in text], dtype=torch.int64)
    held = round(fraction * len(data))
    return data[:len(data) - held], data[len(data) - held:], len(ids)


def windows(data, starts, window):
    places = starts.unsqueeze(1) + torch.arange(window)
    return data[places], data[places + 1]


@torch.no_grad()
def held_out_loss(model, data, window):
    """Mean over all windows that do not overlap, in nats."""
    starts = torch.arange(0, len(data) - window, window)
    total = 0.0
    for part in starts.split(64):
        inputs, targets = windows(data, part, window)
        total += float(functional.cross_entropy(
            model(inputs).flatten(0, 1), targets.flatten())) * len(part)
    return total / len(starts)


def rate_at(step, arguments):
    """Linear warm-up, then a cosine down to the least rate."""
    if step < arguments.warm_up:
        return arguments.rate * (step + 1) / arguments.warm_up
    done = (step - arguments.warm_up) / max(
        1, arguments.steps - arguments.warm_up)
    return arguments.least_rate + 0.5 * (1 + math.cos(math.pi * done)) * (
        arguments.rate - arguments.least_rate)


def train(arguments):
    torch.manual_seed(arguments.seed)
    data, held, vocabulary = read(arguments.text, arguments.eval_fraction)
    model = transformer(arguments.model, vocabulary)
    window = model.positions.shape[0]
    optimizer = decayed(model.parameters(), arguments.rate, (0.9, 0.99), 0.1)
    losses = torch.zeros(arguments.steps)
    times = []
    generator = torch.Generator().manual_seed(arguments.seed)
    for step in range(arguments.steps):
        began = time.monotonic()
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, arguments)
        starts = torch.randint(len(data) - window, (arguments.batch,),
                               generator=generator)
        inputs, targets = windows(data, starts, window)
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(inputs).flatten(0, 1),
                                        targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses[step] = loss.detach()
        times.append(time.monotonic() - began)
    times = sorted(times[arguments.skipped:])
    return {"first_loss": float(losses[0]), "final_loss": float(losses[-1]),
            "eval_loss": held_out_loss(model, held, window)
            if arguments.evaluate else None,
            "step_ms": 1e3 * times[len(times) // 2],
            "mean_step_ms": 1e3 * sum(times) / len(times)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--probe", action="store_true")
    parser.add_argument("--text")
    parser.add_argument("--model", default="transformer:L4-H4-D128-T64")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--skipped", type=int, default=10,
                        help="first steps, not timed")
    parser.add_argument("--warm-up", type=int, default=100)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--least-rate", type=float, default=1e-4)
    parser.add_argument("--eval-fraction", type=float, default=0.1)
    parser.add_argument("--evaluate", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(json.dumps(probe() if arguments.probe else train(arguments)))


if __name__ == "__main__":
    main()
