#!/usr/bin/env python3
"""A step of a transformer in bfloat16 on a GPU: Troupe beside PyTorch.

    gpu_transformer.py --program build/release/tests/gpu_step [--batch 8]
                       [--model transformer:L12-H12-D768-T1024]
                       [--vocabulary 50304] [--rounds 3] [--json FILE]

Products in bfloat16, parameters and sums in float32 (PyTorch: autocast), AdamW
(beta2 0.95, decay 0.1 of matrices), clipped at a norm of 1: forward, backward
and update of one batch that stays on the GPU. PyTorch: eager with its fused
attention and fused AdamW, and the same compiled. Status 77 without PyTorch or a
GPU.
"""

import json
import sys

import gpu_peer


def take_start(model, start):
    """Puts Troupe's parameters into PyTorch's model."""
    import torch

    def put(parameter, name, turned=False):
        value = start[name]
        with torch.no_grad():
            parameter.copy_((value.t() if turned else value)
                            .reshape(parameter.shape))

    put(model.tokens.weight, "tokens/table")
    put(model.positions, "positions/bias")
    put(model.norm.weight, "norm/scale")
    for i, block in enumerate(model.blocks):
        for norm in ("norm_1", "norm_2"):
            put(getattr(block, norm).weight, f"block_{i}.{norm}/scale")
        for dense in ("qkv", "projection", "up", "down"):
            put(getattr(block, dense).weight, f"block_{i}.{dense}/weight",
                True)


def work(arguments):
    import torch
    from torch.nn import functional

    from torch_models import decayed, transformer
    start = gpu_peer.read_start(arguments.start)
    ids = start["batch/ids"].long().cuda()
    labels = start["batch/labels"].long().flatten().cuda()
    model = transformer(arguments.model, arguments.vocabulary)
    take_start(model, start)
    model.cuda()
    parameters = list(model.parameters())
    optimizer = decayed(parameters, 1e-4, (0.9, 0.95), 0.1)

    def loss_of():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(ids)
            return functional.cross_entropy(logits.flatten(0, 1), labels)

    if arguments.worker == "compiled":
        loss_of = torch.compile(loss_of)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return loss.detach()

    return gpu_peer.time_steps(step, arguments)


def main():
    parser = gpu_peer.parser(__doc__.splitlines()[0])
    parser.add_argument("--model", default="transformer:L12-H12-D768-T1024")
    parser.add_argument("--vocabulary", type=int, default=50304)
    parser.add_argument("--batch", type=int, default=8)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(work(arguments)))
        return 0
    model = ["--model", arguments.model, "--vocabulary",
             str(arguments.vocabulary)]
    flags = [*model, "--batch", str(arguments.batch), "--precision",
             "bfloat16", "--optimizer", "adamw", "--beta2", "0.95", "--decay",
             "0.1", "--clip", "1", "--lr", "1e-4"]
    return gpu_peer.drive(__file__, arguments, flags, ["eager", "compiled"],
                          1e-2, model)


if __name__ == "__main__":
    sys.exit(main())
