#!/usr/bin/env python3
"""A step of an MLP on a GPU: Troupe beside PyTorch.

    gpu_mlp.py --program build/release/tests/gpu_step [--rounds 3]
               [--model mlp:784-512-256-10] [--batch 256]
               [--precision float32] [--json FILE]

Adam; float32 is without TF32, bfloat16 is PyTorch's autocast: forward, backward
and update of one batch that stays on the GPU. PyTorch: eager with the fused
Adam, the same compiled, and the whole step as one CUDA graph. In bfloat16 the
rate of a product of two matrices 8192 x 8192 stands beside the steps'. Status
77 without PyTorch or a GPU.
"""

import json
import sys

import gpu_peer

RATES = {"float32": 1e-3, "bfloat16": 1e-4}
TOLERANCES = {"float32": 1e-3, "bfloat16": 1e-2}


def work(arguments):
    import torch
    from torch.nn import functional
    start = gpu_peer.read_start(arguments.start)
    features = start["batch/features"].cuda()
    labels = start["batch/labels"].long().flatten().cuda()
    widths = [int(width) for width in arguments.model.split(":")[1].split("-")]
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
    optimizer = torch.optim.Adam(model.parameters(), lr=RATES[
        arguments.precision], fused=True, capturable=graphed)

    def loss_of():
        with torch.autocast("cuda", dtype=torch.bfloat16,
                            enabled=arguments.precision == "bfloat16"):
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
    parser = gpu_peer.parser(__doc__.splitlines()[0])
    parser.add_argument("--model", default="mlp:784-512-256-10")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--precision", default="float32", choices=RATES)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(work(arguments)))
        return 0
    precision = arguments.precision
    same = ["--model", arguments.model, "--precision", precision]
    flags = [*same, "--batch", str(arguments.batch), "--optimizer", "adam",
             "--lr", str(RATES[precision])]
    if precision == "bfloat16":
        rate = gpu_peer.run([arguments.python, "-c", MATRIX_RATE], "torch")
        print(f"a product 8192 x 8192 x 8192: {rate:.0f} TFLOP/s")
    return gpu_peer.drive(__file__, arguments, flags,
                          ["eager", "compiled", "graphed"],
                          TOLERANCES[precision], same)


# On random values: zeros are faster.
MATRIX_RATE = """
import statistics, time, torch
a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
        for _ in range(2))
times = []
for _ in range(8):
    torch.cuda.synchronize()
    began = time.monotonic()
    for _ in range(10):
        a @ b
    torch.cuda.synchronize()
    times.append((time.monotonic() - began) / 10)
print(2 * 8192 ** 3 / statistics.median(times[2:]) / 1e12)
"""


if __name__ == "__main__":
    sys.exit(main())
