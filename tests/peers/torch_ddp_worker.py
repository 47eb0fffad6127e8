"""One process of the PyTorch peer; started by ddp.py, prints one JSON line.

Trains an MLP with SGD on micro-batches gathered from a permuted array in
memory: under DistributedDataParallel with Gloo, or alone (--world 1). Each
process takes its own part of every batch. It uses no numpy.

    torch_ddp_worker.py --probe           version, BLAS and GEMM rate, then ends
    torch_ddp_worker.py --rank R --world P --rendezvous FILE ...
"""

import argparse
import json
import os
import re
import sys
import time

try:
    import torch
    from torch import nn
    import torch.distributed as dist
except ImportError as error:
    print(f"no PyTorch: {error}", file=sys.stderr)
    sys.exit(77)

from torch_models import perceptron, read_idx

CLASSES = 10


def digits_like(samples, features):
    """Draws class means plus noise in [0, 1], the shape of small images; the
    same in every process, learnable, so that the loss must fall."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (samples,), generator=generator)
    means = torch.rand(CLASSES, features, generator=generator)
    images = torch.rand(samples, features, generator=generator)
    return images.mul_(0.5).add_(means[labels], alpha=0.5), labels


def samples_of(arguments, features):
    if not arguments.mnist:
        return digits_like(arguments.samples, features)
    images = read_idx(arguments.mnist, "images", 3).float().div_(255)
    arguments.samples = len(images)
    return (images.reshape(len(images), -1),
            read_idx(arguments.mnist, "labels", 1).long())


def sgd(parameters, rate):
    """One fused pass over the parameters where this PyTorch has it on CPU."""
    parameters = list(parameters)
    try:
        return torch.optim.SGD(parameters, lr=rate, fused=True)
    except (TypeError, RuntimeError):
        return torch.optim.SGD(parameters, lr=rate)


def train(arguments):
    """Returns when step warm-up + 1 began, when the last step ended, and what
    shows that the work was done: losses, and a digest of the parameters."""
    torch.manual_seed(0)
    widths = [int(width) for width in arguments.model.split("-")]
    model = perceptron(widths)
    if arguments.world > 1:
        dist.init_process_group(
            "gloo", init_method=f"file://{arguments.rendezvous}",
            rank=arguments.rank, world_size=arguments.world)
        # Gradients live in the buckets: no copy into them and none out. Buckets
        # of 0.5 and 1 MB were slower; copied gradients, a non-static graph, a
        # foreach update, malloc's thresholds raised and AVX-512 kernels
        # differed by no more than two runs do (3 %).
        model = nn.parallel.DistributedDataParallel(
            model, gradient_as_bucket_view=True, broadcast_buffers=False,
            static_graph=True)
    optimizer = sgd(model.parameters(), arguments.rate)
    criterion = nn.CrossEntropyLoss()
    images, labels = samples_of(arguments, widths[0])

    part = arguments.batch
    batch = part * arguments.world
    batches = arguments.samples // batch
    inputs = torch.empty(part, widths[0])
    targets = torch.empty(part, dtype=torch.int64)
    losses = torch.zeros(arguments.steps)
    generator = torch.Generator().manual_seed(1)
    began = 0.0
    for step in range(arguments.steps):
        if step == arguments.warm_up:
            began = time.monotonic()
        if step % batches == 0:
            order = torch.randperm(arguments.samples, generator=generator)
        first = step % batches * batch + arguments.rank * part
        chosen = order[first:first + part]
        torch.index_select(images, 0, chosen, out=inputs)
        torch.index_select(labels, 0, chosen, out=targets)
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses[step] = loss.detach()
    ended = time.monotonic()
    digest = [float(p.detach().double().sum()) for p in model.parameters()]
    if arguments.world > 1:
        dist.barrier()
        dist.destroy_process_group()
    return {"began": began, "ended": ended, "first_loss": float(losses[0]),
            "final_loss": float(losses[-1]), "digest": digest}


def gemm_gflops():
    """The best rate of this BLAS on one thread, over a few square sizes."""
    best = 0.0
    for size in (256, 512, 1024):
        a, b = torch.rand(size, size), torch.rand(size, size)
        c = torch.empty(size, size)
        for _ in range(20):
            start = time.monotonic()
            torch.mm(a, b, out=c)
            seconds = time.monotonic() - start
            best = max(best, 2e-9 * size ** 3 / seconds)
    return best


def blas():
    """What the build names, and the BLAS libraries this process has loaded:
    Debian's build names none, and its alternatives decide."""
    built = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    loaded = set()
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.split()[-1]
            if re.match(r"lib(open)?blas|libmkl|libblis",
                        os.path.basename(path)):
                loaded.add("/".join(path.split("/")[-2:]))
    return " ".join([built.group(1) if built else "unknown", *sorted(loaded)])


def probe():
    capability = re.search(r"CPU capability usage: (\w+)",
                           torch.__config__.show())
    return {"version": torch.__version__, "python": sys.version.split()[0],
            "blas": blas(), "gflops": gemm_gflops(),
            "capability": capability.group(1) if capability else "unknown",
            "numpy": "numpy" in sys.modules,
            "fused_sgd": "fused" in sgd([torch.zeros(1)], 0.1).defaults,
            "gloo": dist.is_available()
            and getattr(dist, "is_gloo_available", lambda: True)()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--probe", action="store_true")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--rendezvous")
    parser.add_argument("--model", default="784-512-256-10")
    parser.add_argument("--samples", type=int, default=60000)
    parser.add_argument("--mnist", metavar="DIR")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=310)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--rate", type=float, default=0.1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(json.dumps(probe() if arguments.probe else train(arguments)))


if __name__ == "__main__":
    main()
