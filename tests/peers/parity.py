#!/usr/bin/env python3
"""Troupe's numbers beside PyTorch's in float64: every operator at five shapes,
every optimizer over 50 steps, schedules, clipping, metrics (with scikit-learn),
three strategies.

    parity.py [--only WORD] [--json FILE] [--table FILE]

Run by a Python that has torch, numpy, safetensors and scikit-learn, all from
PyPI; status 77 where it has not. TROUPE is the program, else the one of
build/release. Batches are whole data sets, so the order of samples is of no
matter. Gradients are the state of momentum 0, from checkpoints; the loss is the
summary's. An error is a tensor's largest difference over its largest value.

Bars: gradients 3e-6, 50 steps 2e-6; above them no worse than PyTorch's float32
on the same graph, whose errors stand beside. Status 1 where one is missed.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import sklearn.metrics
    import torch
    from safetensors.torch import load_file

    from float64_graph import Graph
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TROUPE = os.environ.get("TROUPE", str(
    Path(__file__).resolve().parents[2] / "build/release/apps/troupe"))
ONE_DEVICE = ["--strategy", "one_device"]
GRADIENT_BAR = 3e-6
STEPS_BAR = 2e-6
STEPS = 50


def error_of(found, reference):
    """The largest difference over the largest value."""
    reference = reference.double()
    scale = reference.abs().max().item()
    gap = (found.double() - reference).abs().max().item()
    return gap / scale if scale > 1e-12 else gap


class Case:
    """Data, a graph, and what both sides make of them."""

    def __init__(self, folder, spec, *, features=None, ids=None, labels=None,
                 data=None):
        self.folder = folder
        self.spec = spec
        self.graph = Graph(spec)
        self.data = {name: value for name, value in
                     (("features", features), ("ids", ids),
                      ("labels", labels)) if value is not None}
        self.source = data or self.write_arrays()
        self.samples = len(labels)
        self.model = os.path.join(folder, "model.json")
        with open(self.model, "w") as file:
            json.dump(spec, file)

    def write_arrays(self):
        paths = []
        for name in ("features", "labels"):
            paths.append(os.path.join(self.folder, f"{name}.npy"))
            np.save(paths[-1], self.data[name].numpy())
        return f"npy:{paths[0]}?labels={paths[1]}"

    def troupe(self, command, *flags, virtual_ranks=1):
        summary = os.path.join(self.folder, "summary.json")
        sizes = (["--virtual-ranks", str(virtual_ranks), "--global-batch",
                  str(self.samples)] if command == "train" else [])
        done = subprocess.run(
            [TROUPE, command, "--data", self.source, "--model", self.model,
             "--quiet", *sizes, *flags, "--summary", summary],
            capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        with open(summary) as file:
            return json.load(file)

    def begin(self, *flags):
        """Initial values and gradients of all parameters, and the loss."""
        kept = tempfile.mkdtemp(dir=self.folder)
        summary = self.troupe(
            "train", *ONE_DEVICE, "--optimizer", "momentum", "--momentum", "0",
            "--lr", "1e-30", "--steps", "1", "--checkpoint-dir", kept, *flags)
        newest = os.path.join(kept, sorted(os.listdir(kept))[-1])
        values = load_file(os.path.join(newest, "parameters.safetensors"))
        states = load_file(os.path.join(newest, "optimizer.safetensors"))
        # What is not 0 rounds back to what it was.
        initial = {name: torch.where(value.abs() < 1e-20, 0.0, value)
                   for name, value in values.items()}
        gradients = {name.split("/", 1)[1]: value
                     for name, value in states.items()}
        return initial, gradients, summary["final_loss"]

    def cast(self, kind):
        return {name: value.to(kind) if value.is_floating_point() else value
                for name, value in self.data.items()}

    def peer(self, initial, kind):
        """Loss and gradients of PyTorch in a type."""
        parameters = {name: value.to(kind, copy=True).requires_grad_()
                      for name, value in initial.items()}
        loss = self.graph.loss(parameters, self.cast(kind))
        loss.backward()
        return loss.item(), {name: value.grad
                             for name, value in parameters.items()
                             if value.grad is not None}


class Table:
    """Rows of (group, case, Troupe's error, PyTorch's float32's, bar)."""

    def __init__(self):
        self.rows = []

    def add(self, group, case, ours, theirs, bar):
        met = ours <= bar or (theirs is not None and ours <= theirs)
        self.rows.append({"group": group, "case": case, "error": ours,
                          "torch_float32": theirs, "bar": bar, "met": met})
        beside = "" if theirs is None else f"  torch {theirs:.1e}"
        print(f"{'  ' if met else '! '}{group:12} {case:44} {ours:.1e}{beside}",
              flush=True)

    def summary(self):
        """Of each kind the worst."""
        lines = ["| what | cases | loss | gradients, or parameters after 50 "
                 "steps | PyTorch's float32 | bar |",
                 "|---|---|---|---|---|---|"]
        kinds, losses = {}, {}
        for row in self.rows:
            kind = row["case"].split(" ")[0]
            if row["group"] == "forward":
                losses[kind] = max(losses.get(kind, 0), row["error"])
            else:
                kinds.setdefault((row["group"], kind), []).append(row)
        for (group, kind), rows in kinds.items():
            worst = max(rows, key=lambda x: x["error"])
            beside = worst["torch_float32"]
            loss = (f"{losses[kind]:.1e}" if group in ("gradient", "model")
                    else "")
            lines.append(
                f"| {group}: {kind} | {len(rows)} | {loss} "
                f"| {worst['error']:.1e} | "
                + ("" if beside is None else f"{beside:.1e}")
                + f" | {worst['bar']:.0e} |")
        return "\n".join(lines) + "\n"


# --- operators ---------------------------------------------------------------

PROBE = {"kind": "bias", "name": "probe", "initializer": "normal",
         "scale": 0.3}


def behind(*operators, classes=3):
    """A probe, whose gradient is that of the input, and a head."""
    return [PROBE, *operators, {"kind": "reshape", "name": "flat"},
            {"kind": "dense", "name": "head", "units": classes},
            {"kind": "softmax_cross_entropy"}]


def op(kind, **attributes):
    return {"kind": kind, **attributes}


IMAGES = [(5, 5, 1), (7, 3, 2), (9, 11, 4), (13, 6, 6), (17, 19, 8)]
VECTORS = [(1,), (3,), (17,), (65,), (259,)]
MATRICES = [(1, 4), (3, 5), (7, 16), (13, 33), (31, 66)]
THIRDS = [(1, 6), (5, 12), (7, 36), (17, 48), (33, 96)]

ON_VECTORS = {
    "dense": [op("dense", units=7, activation=name) for name in (
        "none", "relu", "gelu", "silu", "tanh")],
    "transposed": [op("dense", units=n, transposed=True, bias=n % 2 == 0)
                   for n in (1, 2, 5, 33, 130)],
    "activation": [op("activation", activation=name) for name in (
        "relu", "gelu", "silu", "tanh", "sigmoid")],
    "softmax": [op("softmax")] * 5,
    "multiply": [[op("dense", name="a", units=n, inputs="probe"),
                  op("dense", name="b", units=n, inputs="probe"),
                  op("multiply", inputs=["a", "b"])]
                 for n in (1, 2, 9, 31, 65)],
    "add": [[op("dense", name="a", units=n, inputs="probe"),
             op("dense", name="b", units=n, inputs="probe"),
             op("add", inputs=["a", "b"], activation="silu")]
            for n in (1, 2, 9, 31, 65)],
    "batch_norm": [op("batch_norm", epsilon=1e-3)] * 5,
    "dropout": [op("dropout", rate=0)] * 5,
}
ON_MATRICES = {
    "layer_norm": [op("layer_norm", bias=i % 2 == 0) for i in range(5)],
    "rms_norm": [op("rms_norm", epsilon=1e-4)] * 5,
    "interaction": [[op("concat", inputs=["probe", "probe"], axis=0),
                     op("interaction")]] * 5,
    "factorization": [op("factorization")] * 5,
    "slice": [op("slice", axis=1, begin=1, end=3)] * 5,
    "transpose": [op("transpose", permutation=[1, 0])] * 5,
    "concat": [op("concat", inputs=["probe", "probe"], axis=i % 2)
               for i in range(5)],
    "reshape": [op("reshape")] * 5,
    "shared": [[op("dense", name="a", units=6), op(
        "dense", name="b", units=6, weight="a/weight", inputs="probe"),
        op("add", inputs=["a", "b"])]] * 5,
}
ON_IMAGES = {
    "conv2d": [op("conv2d", units=3, kernel=3),
               op("conv2d", units=4, kernel=3, padding="same", groups=2),
               op("conv2d", units=5, kernel=5, stride=2, padding=2,
                  activation="gelu"),
               op("conv2d", units=6, kernel=1, stride=3, bias=False),
               op("conv2d", units=16, kernel=3, padding="same", groups=8,
                  activation="relu")],
    "max_pool": [op("max_pool"), op("max_pool", kernel=2),
                 op("max_pool", kernel=3, stride=2, padding=1),
                 op("max_pool", kernel=2, stride=1),
                 op("max_pool", kernel=4, padding=1)],
    "average_pool": [op("average_pool"), op("average_pool", kernel=2),
                     op("average_pool", kernel=3, stride=2, padding=1),
                     op("average_pool", kernel=2, stride=1),
                     op("average_pool", kernel=4, padding=1)],
    "batch_norm2d": [op("batch_norm", activation=name) for name in (
        "none", "relu", "gelu", "tanh", "sigmoid")],
}
ON_THIRDS = {
    "attention": [op("attention", heads=h, causal=h % 2 == 1)
                  for h in (1, 2, 3, 4, 8)],
    "shared keys": [op("attention", heads=h, key_value_heads=k,
                       causal=h % 4 == 0)
                    for h, k in ((4, 1), (2, 1), (4, 1), (8, 4), (8, 2))],
    "rotary": [op("rotary", heads=h, key_value_heads=k, interleaved=k == h,
                  base=100.0 * h)
               for h, k in ((1, 1), (4, 1), (4, 1), (2, 1), (8, 2))],
    "swiglu": [op("swiglu")] * 5,
    "gelu_tanh": [op("activation", activation="gelu_tanh")] * 5,
}


def check_case(table, group, name, case):
    initial, gradients, loss = case.begin()
    exact_loss, exact = case.peer(initial, torch.float64)
    plain_loss, plain = case.peer(initial, torch.float32)
    table.add("forward", f"{name}", abs(loss - exact_loss) / abs(exact_loss),
              abs(plain_loss - exact_loss) / abs(exact_loss), GRADIENT_BAR)
    # Of tensors whose gradient is 0 but for rounding nothing is asked.
    whole = max(x.abs().max().item() for x in exact.values())
    worst = worst_plain = 0.0
    for parameter, reference in exact.items():
        if reference.abs().max().item() < 1e-6 * whole:
            continue
        worst = max(worst, error_of(gradients[parameter], reference))
        worst_plain = max(worst_plain, error_of(plain[parameter], reference))
    table.add(group, name, worst, worst_plain, GRADIENT_BAR)


def sample_spec(shape, classes=3):
    return {"features": list(shape), "classes": classes}


def check_operators(table, only):
    for kinds, shapes in ((ON_VECTORS, VECTORS), (ON_MATRICES, MATRICES),
                          (ON_IMAGES, IMAGES), (ON_THIRDS, THIRDS)):
        for kind, variants in kinds.items():
            for i, (variant, shape) in enumerate(zip(variants, shapes)):
                name = f"{kind} {list(shape)}"
                if only and only not in name:
                    continue
                generator = torch.Generator().manual_seed(100 + i)
                samples = (23, 31, 17, 29, 37)[i]
                features = torch.randn(samples, *shape, generator=generator)
                labels = torch.randint(0, 3, (samples,), generator=generator)
                labels[:3] = torch.tensor([0, 1, 2])
                operators = variant if isinstance(variant, list) else [variant]
                with tempfile.TemporaryDirectory() as folder:
                    spec = {"name": kind, "sample": sample_spec(shape),
                            "operators": behind(*operators)}
                    check_case(table, "gradient", name, Case(
                        folder, spec, features=features, labels=labels))


# --- ids, labels and losses --------------------------------------------------

def write_libsvm(path, ids, weights, labels):
    """Ids from 1 on; as many as are there."""
    with open(path, "w") as file:
        for row, values, label in zip(ids, weights, labels):
            file.write(str(int(label)) + "".join(
                f" {int(i) + 1}:{float(v):.9g}" for i, v in zip(row, values)
                if i >= 0) + "\n")


def draw_ids(generator, samples, most, vocabulary):
    """Ascending ids of each sample, -1 behind them; weights, 0 there."""
    ids = torch.full((samples, most), -1)
    weights = torch.zeros(samples, most)
    for i in range(samples):
        count = most if i == 0 else int(torch.randint(1, most + 1, (1,),
                                                      generator=generator))
        chosen = torch.randperm(vocabulary, generator=generator)[:count]
        ids[i, :count] = chosen.sort().values
        weights[i, :count] = torch.randn(count, generator=generator)
    ids[0, 0], ids[0, -1] = 0, vocabulary - 1
    ids[0] = ids[0].sort().values
    return ids, weights


def check_tables_of_ids(table, only):
    heads = {
        "embedding": lambda n, d: [
            op("embedding", name="rows", inputs="ids", width=d, scale=0.5)],
        "bag_sum": lambda n, d: [
            op("embedding_bag", name="rows", inputs="ids", width=d,
               scale=0.5)],
        "bag_mean": lambda n, d: [
            op("embedding_bag", name="rows", inputs="ids", width=d, scale=0.5,
               mode="mean")],
        "bag_weighted": lambda n, d: [
            op("embedding_bag", name="rows", inputs=["ids", "features"],
               width=d, scale=0.5)],
        "bag_weighted_mean": lambda n, d: [
            op("embedding_bag", name="rows", inputs=["ids", "features"],
               width=d, scale=0.5, mode="mean")],
    }
    for kind, make in heads.items():
        for i, (most, width, vocabulary) in enumerate(
                ((2, 1, 5), (3, 5, 11), (7, 16, 67), (13, 9, 130),
                 (26, 33, 515))):
            name = f"{kind} [{most}] of {vocabulary} x {width}"
            if only and only not in name:
                continue
            generator = torch.Generator().manual_seed(200 + i)
            ids, weights = draw_ids(generator, 41, most, vocabulary)
            labels = torch.randint(0, 2, (41,), generator=generator)
            labels[:2] = torch.tensor([0, 1])
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "ids.svm")
                write_libsvm(path, ids, weights, labels)
                spec = {"name": kind, "sample": {
                    "features": [most], "ids": most, "vocabulary": vocabulary,
                    "label": "binary"},
                    "operators": [
                        *make(most, width), op("reshape", name="flat"),
                        op("concat", inputs=["flat", "features"]),
                        op("dense", name="head", units=1),
                        op("sigmoid_cross_entropy")]}
                check_case(table, "gradient", name, Case(
                    folder, spec, features=weights, ids=ids, labels=labels,
                    data=f"libsvm:{path}?base=1"))


def check_regression(table, only):
    for i, shape in enumerate(VECTORS):
        name = f"mean_squared_error {list(shape)}"
        if only and only not in name:
            continue
        generator = torch.Generator().manual_seed(300 + i)
        features = torch.randn(19, *shape, generator=generator)
        labels = torch.randn(19, generator=generator)
        with tempfile.TemporaryDirectory() as folder:
            spec = {"name": "number", "sample": {
                "features": list(shape), "label": "number"},
                "operators": [PROBE, op("dense", name="head", units=1),
                              op("mean_squared_error")]}
            check_case(table, "gradient", name, Case(
                folder, spec, features=features, labels=labels))


def check_models(table, only):
    """Built-in ones, by the files that `troupe model show` writes of them."""
    def shown(model, *flags):
        return json.loads(subprocess.run(
            [TROUPE, "model", "show", model, *flags, "--format", "json"],
            capture_output=True, text=True, timeout=60, check=True).stdout)

    generator = torch.Generator().manual_seed(5)
    images = torch.rand(12, 28, 28, 1, generator=generator)
    classes = torch.arange(12) % 10
    for model in ("cnn", "resnet8"):
        if only and only not in model:
            continue
        with tempfile.TemporaryDirectory() as folder:
            spec = shown(model)
            spec["sample"] = sample_spec((28, 28, 1), 10)
            check_case(table, "model", f"{model} whole", Case(
                folder, spec, features=images, labels=classes))
    if only and only not in "transformer":
        return
    with tempfile.TemporaryDirectory() as folder:
        text = "".join("abcdefghij \n"[int(x)] for x in torch.randint(
            0, 12, (90,), generator=generator))
        path = os.path.join(folder, "text.txt")
        with open(path, "w") as file:
            file.write(text)
        known = sorted(set(text))
        tokens = torch.tensor([known.index(x) for x in text])
        window = 9
        begins = range(len(tokens) - window)
        data = f"text:{path}"
        spec = shown(f"transformer:L2-H3-D18-T{window}", "--data", data)
        check_case(table, "model", "transformer whole", Case(
            folder, spec, data=data,
            ids=torch.stack([tokens[i:i + window] for i in begins]),
            labels=torch.stack([tokens[i + 1:i + window + 1]
                                for i in begins])))


# --- steps -------------------------------------------------------------------

class Ftrl:
    """McMahan et al. 2013, algorithm 1, per coordinate."""

    def __init__(self, parameters, lr, l1, l2, beta):
        self.parameters = parameters
        self.rate, self.l1, self.l2, self.beta = lr, l1, l2, beta
        self.z = [torch.zeros_like(p) for p in parameters]
        self.n = [torch.zeros_like(p) for p in parameters]

    def step(self):
        with torch.no_grad():
            for p, z, n in zip(self.parameters, self.z, self.n):
                g = p.grad
                sigma = (torch.sqrt(n + g * g) - torch.sqrt(n)) / self.rate
                z += g - sigma * p
                n += g * g
                new = -(z - torch.sign(z) * self.l1) / (
                    (self.beta + torch.sqrt(n)) / self.rate + self.l2)
                p.copy_(torch.where(z.abs() <= self.l1, 0.0, new)
                        .where(n > 0, p))


class Lamb:
    """You et al. 2020, algorithm 2, with bias correction."""

    def __init__(self, parameters, lr, betas, eps, decay):
        self.parameters = parameters
        self.rate, self.betas, self.eps, self.decay = lr, betas, eps, decay
        self.m = [torch.zeros_like(p) for p in parameters]
        self.v = [torch.zeros_like(p) for p in parameters]
        self.t = 0

    def step(self):
        self.t += 1
        one, two = self.betas
        with torch.no_grad():
            for p, m, v in zip(self.parameters, self.m, self.v):
                m.mul_(one).add_(p.grad, alpha=1 - one)
                v.mul_(two).addcmul_(p.grad, p.grad, value=1 - two)
                r = (m / (1 - one ** self.t)) / (
                    torch.sqrt(v / (1 - two ** self.t)) + self.eps)
                if p.dim() >= 2:
                    r = r + self.decay * p
                norms = p.norm(), r.norm()
                ratio = norms[0] / norms[1] if min(norms) > 0 else 1.0
                p.sub_(self.rate * ratio * r)


def grouped(parameters, decay):
    """Weights of two extents or more decay, as here."""
    return [{"params": [p for p in parameters if p.dim() >= 2],
             "weight_decay": decay},
            {"params": [p for p in parameters if p.dim() < 2],
             "weight_decay": 0.0}]


OPTIMIZERS = {
    "sgd": (["--lr", "0.1", "--weight-decay", "0.01"],
            lambda p: torch.optim.SGD(grouped(p, 0.01), lr=0.1)),
    "momentum": (["--lr", "0.05", "--momentum", "0.9", "--weight-decay",
                  "0.01"],
                 lambda p: torch.optim.SGD(grouped(p, 0.01), lr=0.05,
                                           momentum=0.9)),
    "nesterov": (["--lr", "0.05", "--momentum", "0.9"],
                 lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9,
                                           nesterov=True)),
    "adam": (["--lr", "0.01", "--weight-decay", "0.01"],
             lambda p: torch.optim.Adam(grouped(p, 0.01), lr=0.01)),
    "adamw": (["--lr", "0.01", "--weight-decay", "0.1"],
              lambda p: torch.optim.AdamW(grouped(p, 0.1), lr=0.01)),
    "adagrad": (["--lr", "0.05"],
                lambda p: torch.optim.Adagrad(p, lr=0.05, eps=1e-8)),
    "rmsprop": (["--lr", "0.005", "--beta2", "0.99"],
                lambda p: torch.optim.RMSprop(p, lr=0.005, alpha=0.99)),
    "ftrl": (["--lr", "0.1", "--l1", "0.001", "--l2", "0.01"],
             lambda p: Ftrl(p, 0.1, 0.001, 0.01, 1.0)),
    "lamb": (["--lr", "0.01", "--weight-decay", "0.01"],
             lambda p: Lamb(p, 0.01, (0.9, 0.999), 1e-8, 0.01)),
}


def small_case(folder):
    generator = torch.Generator().manual_seed(7)
    features = torch.randn(33, 5, generator=generator)
    labels = torch.randint(0, 3, (33,), generator=generator)
    labels[:3] = torch.tensor([0, 1, 2])
    return Case(folder, {
        "name": "small", "sample": sample_spec((5,)),
        "operators": [op("dense", name="a", units=7, activation="tanh"),
                      op("dense", name="b", units=3),
                      op("softmax_cross_entropy")]},
        features=features, labels=labels)


def steps_of_peer(case, initial, kind, make, after=None, clip=None):
    """Parameters after 50 steps; after(step, optimizer) sets a rate before."""
    parameters = {name: value.to(kind, copy=True).requires_grad_()
                  for name, value in initial.items()}
    optimizer = make(list(parameters.values()))
    for step in range(STEPS):
        if after:
            after(step, optimizer)
        for value in parameters.values():
            value.grad = None
        case.graph.loss(parameters, case.cast(kind)).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(list(parameters.values()), clip)
        optimizer.step()
    return {name: value.detach() for name, value in parameters.items()}


def compare_steps(table, group, name, case, initial, flags, make, after=None,
                  clip=None, world=ONE_DEVICE, virtual_ranks=1):
    saved = os.path.join(case.folder, "after.safetensors")
    case.troupe("train", *world, *flags, "--steps", str(STEPS), "--save",
                saved, virtual_ranks=virtual_ranks)
    found = load_file(saved)
    exact, plain = (steps_of_peer(case, initial, kind, make, after, clip)
                    for kind in (torch.float64, torch.float32))
    table.add(group, name,
              max(error_of(found[x], exact[x]) for x in exact),
              max(error_of(plain[x], exact[x]) for x in exact), STEPS_BAR)


def check_steps(table, only):
    with tempfile.TemporaryDirectory() as folder:
        case = small_case(folder)
        initial = case.begin()[0]
        for name, (flags, make) in OPTIMIZERS.items():
            if not only or only in f"optimizer {name}":
                compare_steps(table, "50 steps", f"{name} {' '.join(flags)}",
                              case, initial, ["--optimizer", name, *flags],
                              make)
        check_schedules(table, only, case, initial)
        for limit in ("0.02", "0.2", "50"):
            if not only or only in "clip":
                compare_steps(
                    table, "clipping", f"norm {limit}", case, initial,
                    ["--optimizer", "sgd", "--lr", "0.1", "--clip-norm",
                     limit], lambda p: torch.optim.SGD(p, lr=0.1),
                    clip=float(limit))
        adam = ["--optimizer", "adam", "--lr", "0.01"]
        for name, world in (
                ("one_device", ONE_DEVICE),
                ("mirrored", ["--strategy", "mirrored", "--devices", "cpu:3"]),
                ("parameter_server", ["--strategy", "parameter_server",
                                      "--workers", "2", "--ps", "2"])):
            if not only or only in f"strategy {name}":
                compare_steps(
                    table, "strategy", f"{name} 4 virtual ranks", case,
                    initial, adam, lambda p: torch.optim.Adam(p, lr=0.01),
                    world=world, virtual_ranks=4)


def rates(name, step, full, warm, least):
    """As docs/models.md says; s from 0."""
    if step < warm:
        return full * (step + 1) / warm
    if name == "step":
        return full * (1 if step < STEPS / 2 else
                       0.1 if step < 3 * STEPS / 4 else 0.01)
    if name == "cosine":
        share = (step - warm) / (STEPS - warm)
        return least + (full - least) * (1 + math.cos(math.pi * share)) / 2
    if name == "inverse_sqrt":
        return full * math.sqrt(max(1, warm) / (step + 1))
    return full


def check_schedules(table, only, case, initial):
    for name in ("constant", "step", "cosine", "inverse_sqrt"):
        for warm, least in ((0, 0.0), (7, 0.01)):
            if only and only not in f"schedule {name}":
                continue
            flags = ["--optimizer", "sgd", "--lr", "0.2", "--lr-schedule",
                     name, "--warmup-steps", str(warm)]
            if name == "cosine":
                flags += ["--min-lr", str(least)]

            def after(step, optimizer, name=name, warm=warm, least=least):
                for group in optimizer.param_groups:
                    group["lr"] = rates(name, step, 0.2, warm, least)
            compare_steps(table, "schedule", f"{name} warm-up {warm}", case,
                          initial, flags,
                          lambda p: torch.optim.SGD(p, lr=0.2), after)


# --- metrics -----------------------------------------------------------------

def check_metrics(table, only):
    if only and only not in "metrics":
        return
    generator = torch.Generator().manual_seed(9)
    ids, weights = draw_ids(generator, 400, 5, 30)
    labels = (weights.sum(1) + torch.randn(400, generator=generator) > 0).long()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ids.svm")
        write_libsvm(path, ids, weights, labels)
        spec = {"name": "logits", "sample": {
            "features": [5], "ids": 5, "vocabulary": 30, "label": "binary"},
            "operators": [op("embedding_bag", name="rows",
                             inputs=["ids", "features"], width=1),
                          op("bias", name="at"), op("sigmoid_cross_entropy")]}
        case = Case(folder, spec, features=weights, ids=ids, labels=labels,
                    data=f"libsvm:{path}?base=1")
        found, logits = trained(case)
        scores = torch.sigmoid(logits).reshape(-1)
        # Ties, as of float32 logits.
        ties = logits.reshape(-1).float()
        for name, ours, theirs in (
                ("auc binary", found["auc"],
                 sklearn.metrics.roc_auc_score(labels, ties)),
                ("loss binary", found["loss"],
                 sklearn.metrics.log_loss(labels, scores)),
                ("accuracy binary", found["accuracy"],
                 sklearn.metrics.accuracy_score(labels, logits.reshape(-1)
                                                > 0))):
            table.add("metric", name, abs(ours - theirs), None, STEPS_BAR)
    with tempfile.TemporaryDirectory() as folder:
        case = small_case(folder)
        found, logits = trained(case)
        labels = case.data["labels"]
        for name, ours, theirs in (
                ("loss classes", found["loss"], sklearn.metrics.log_loss(
                    labels, torch.softmax(logits, 1))),
                ("accuracy classes", found["accuracy"],
                 sklearn.metrics.accuracy_score(labels, logits.argmax(1)))):
            table.add("metric", name, abs(ours - theirs), None, STEPS_BAR)


def trained(case):
    """What `evaluate` says, and logits in float64, after some steps."""
    saved = os.path.join(case.folder, "w.safetensors")
    case.troupe("train", *ONE_DEVICE, "--optimizer", "adam", "--lr", "0.05",
                "--steps", "20", "--save", saved)
    found = case.troupe("evaluate", "--checkpoint", saved)["eval"]
    weights = {name: value.double() for name, value in load_file(saved).items()}
    return found, case.graph.logits(weights, case.cast(torch.float64), False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", help="cases whose names hold this word")
    parser.add_argument("--json", help="write all rows here")
    parser.add_argument("--table", help="write the table in Markdown here")
    arguments = parser.parse_args()
    table = Table()
    for check in (check_operators, check_tables_of_ids, check_regression,
                  check_models, check_steps, check_metrics):
        check(table, arguments.only)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(table.rows, indent=1))
    if arguments.table:
        Path(arguments.table).write_text(table.summary())
    missed = [row for row in table.rows if not row["met"]]
    print(f"{len(table.rows)} cases, {len(missed)} above their bar; "
          f"torch {torch.__version__}, scikit-learn {sklearn.__version__}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
