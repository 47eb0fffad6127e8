#!/usr/bin/env python3
"""A step of an MLP on a GPU: Troupe beside PyTorch.

    gpu_mlp.py --program build/release/tests/gpu_step [--rounds 3]
               [--json FILE]

mlp:784-512-256-10, batch 256, float32 (no TF32), Adam: forward, backward and
update of one batch that stays on the GPU. PyTorch: eager with the fused Adam,
the same compiled, and the whole step as one CUDA graph. Status 77 without
PyTorch or a GPU.
"""

import json
import sys

import gpu_peer


def work(arguments):
    import torch
    from torch.nn import functional
    start = gpu_peer.read_start(arguments.start)
    features = start["batch/features"].cuda()
    labels = start["batch/labels"].long().flatten().cuda()
    widths = (784, 512, 256, 10)
    model = torch.nn.Sequential()
    for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        dense = torch.nn.Linear(inputs, outputs)
        dense.weight.data = start[f"dense_{i}/weight"].t().contiguous()
        dense.bias.data = start[f"dense_{i}/bias"]
        model.append(dense)
        if outputs != widths[-1]:
            model.append(torch.nn.ReLU())
    model.cuda()
    graphed = arguments.worker == "graphed"
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True,
                                 capturable=graphed)

    def loss_of():
        return functional.cross_entropy(model(features), labels)

    if arguments.worker == "compiled":
        loss_of = torch.compile(loss_of)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return gpu_peer.time_steps(
        graph_of(step, model, optimizer) if graphed else step, arguments)


def graph_of(step, model, optimizer):
    """The step as a CUDA graph. What it is warmed up with is undone."""
    import torch
    kept = [p.detach().clone() for p in model.parameters()]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), kept):
            parameter.copy_(value)
        for state in optimizer.state.values():
            for value in state.values():
                value.zero_()

    def replay():
        graph.replay()
        return loss

    return replay


def main():
    arguments = gpu_peer.parser(__doc__.splitlines()[0]).parse_args()
    if arguments.worker:
        print(json.dumps(work(arguments)))
        return 0
    arguments.steps *= 10  # a step takes little
    flags = ["--model", "mlp:784-512-256-10", "--batch", "256",
             "--optimizer", "adam", "--lr", "1e-3"]
    return gpu_peer.drive(__file__, arguments, flags,
                          ["eager", "compiled", "graphed"], 1e-3)


if __name__ == "__main__":
    sys.exit(main())
