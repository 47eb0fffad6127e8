"""The PyTorch side of models.py; started by it. It uses no numpy.

    torch_models_worker.py [--train FOLDER --weights FILE ...]
        reads commands from standard input and answers each with a JSON line:
        "machine" (its rates), "write FOLDER MODEL BATCH" (data as Troupe reads
        them, too: a batch, few, and more, many); with --train: "losses N"
        (steps over that one batch), "steps N" (timed)
    torch_models_worker.py --draw FOLDER --layers L --width D ...
        writes a GPT-2 of transformers' with weights that are drawn
    torch_models_worker.py --generate FOLDER --tokens N
        goes on with a prompt by it, and prints a JSON line
"""

import argparse
import ctypes
import json
import random
import re
import resource
import statistics
import struct
import sys
import time
from pathlib import Path

try:
    import torch
    from torch.nn import functional
except ImportError as error:
    print(f"no PyTorch: {error}", file=sys.stderr)
    sys.exit(77)

from torch_models import (
    Dlrm, Residual, convolutional, load_from_troupe, perceptron, transformer)
from torch_transformer_worker import read, windows

SEED = 5
FIELDS = 26
BUCKETS = 1000
MANY = 20           # batches
IMAGES = {"resnet20": (32, 32, 3), "cnn": (28, 28, 1), "mlp": (784,)}


def bytes_of(tensor):
    return ctypes.string_at(tensor.data_ptr(), tensor.nbytes)


# --- data ---------------------------------------------------------------------

def write_npy(path, tensor):
    kind = {torch.float32: "<f4", torch.int64: "<i8"}[tensor.dtype]
    header = str({"descr": kind, "fortran_order": False,
                  "shape": tuple(tensor.shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    Path(path).write_bytes(
        b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
        + bytes_of(tensor))


def bucket_of(category):
    """FNV-1a through SplitMix64's finaliser: docs/data.md, criteo."""
    value, mask = 0xcbf29ce484222325, 2 ** 64 - 1
    for byte in category.encode():
        value = (value ^ byte) * 0x100000001b3 & mask
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9 & mask
    value = (value ^ value >> 27) * 0x94d049bb133111eb & mask
    return 1 + (value ^ value >> 31) % (BUCKETS - 1)


class Images:
    """Means of classes plus noise, no value of them 0."""

    def __init__(self, folder, part, batch):
        self.batch = batch
        features, labels = (torch.load(folder / f"{part}_{kind}.pt")
                            for kind in ("features", "labels"))
        if features.dim() == 4:  # channels last
            features = features.permute(0, 3, 1, 2)
        self.inputs = [features]
        self.labels = labels

    @staticmethod
    def write(folder, model, batch):
        shape = IMAGES[model.split(":")[0]]
        labels = torch.randint(10, (MANY * batch,))
        means = torch.randn(10, *shape)
        features = torch.randn(len(labels), *shape).add_(means[labels],
                                                         alpha=0.5)
        for part, count in (("few", batch), ("many", MANY * batch)):
            for kind, values in (("features", features), ("labels", labels)):
                values = values[:count].clone()
                write_npy(folder / f"{part}_{kind}.npy", values)
                torch.save(values, folder / f"{part}_{kind}.pt")

    def all_batches(self):
        """Without an end, from a new permutation an epoch."""
        generator = torch.Generator().manual_seed(SEED)
        while True:
            order = torch.randperm(len(self.labels), generator=generator)
            for chosen in order.split(self.batch):
                yield ([x.index_select(0, chosen) for x in self.inputs],
                       self.labels.index_select(0, chosen))


class Clicks(Images):
    """Categories of 26 fields, few of them frequent."""

    def __init__(self, folder, part, batch):
        self.batch = batch
        rows = [line.split("\t") for line in
                (folder / f"{part}.tsv").read_text().splitlines()]
        buckets = {word: bucket_of(word)
                   for word in {w for row in rows for w in row[14:]}}
        self.labels = torch.tensor([float(row[0]) for row in rows])
        self.inputs = [
            torch.tensor([[float(x) for x in row[1:14]]
                          for row in rows]).log1p(),
            torch.tensor([[field * BUCKETS + buckets[word]
                           for field, word in enumerate(row[14:])]
                          for row in rows])]

    @staticmethod
    def write(folder, _, batch):
        draw = random.Random(SEED)
        lines = []
        for _ in range(MANY * batch):
            numbers = [draw.randrange(1, 100) for _ in range(13)]
            words = [f"{int(draw.random() ** 3 * 5000):x}"
                     for _ in range(FIELDS)]
            odds = numbers[0] / 50 - 1 + (len(words[0]) + len(words[1]) - 5) / 2
            label = int(draw.random() < 1 / (1 + 2.718 ** -odds))
            lines.append("\t".join(map(str, [label, *numbers, *words])))
        for part, count in (("few", batch), ("many", MANY * batch)):
            (folder / f"{part}.tsv").write_text("\n".join(lines[:count]) + "\n")


class Text:
    """Windows at drawn places; of a batch's text all of them."""

    def __init__(self, folder, part, batch, window):
        self.data, _, self.vocabulary = read(folder / f"{part}.txt", 0)
        self.batch, self.window = batch, window

    @staticmethod
    def write(folder, model, batch):
        draw = random.Random(SEED)
        letters = [chr(c) for c in range(ord("0"), ord("0") + 64)]
        words = ["".join(draw.choices(letters, k=4)) for _ in range(100)]
        # All characters come first, so that both parts have them.
        text = " ".join(["".join(letters), *draw.choices(words, k=40000)])
        window = int(re.search(r"-T(\d+)", model)[1])
        (folder / "few.txt").write_text(text[:window + batch])
        (folder / "many.txt").write_text(text)

    def all_batches(self):
        generator = torch.Generator().manual_seed(SEED)
        places = len(self.data) - self.window
        while True:
            starts = (torch.arange(places) if places == self.batch else
                      torch.randint(places, (self.batch,),
                                    generator=generator))
            inputs, targets = windows(self.data, starts, self.window)
            yield [inputs], targets


def write(folder, model, batch):
    torch.manual_seed(SEED)
    data_of(model).write(Path(folder), model, int(batch))
    return {}


def data_of(model):
    return (Text if model.startswith("transformer")
            else Clicks if model == "dlrm" else Images)


# --- training -----------------------------------------------------------------

def build(model, vocabulary):
    name, _, size = model.partition(":")
    if name == "mlp":
        return perceptron([int(width) for width in size.split("-")])
    if name == "transformer":
        return transformer(model, vocabulary)
    return {"cnn": convolutional, "resnet20": lambda: Residual(20, 3),
            "dlrm": lambda: Dlrm(FIELDS, FIELDS * BUCKETS)}[name]()


def loss_of(model, inputs, labels):
    logits = model(*inputs)
    if logits.dim() == 1:
        return functional.binary_cross_entropy_with_logits(logits, labels)
    return functional.cross_entropy(logits.flatten(0, -2), labels.flatten())


class Trainer:
    def __init__(self, arguments):
        torch.manual_seed(SEED)
        self.folder = Path(arguments.train)
        self.batch = arguments.batch
        self.window = re.search(r"-T(\d+)", arguments.model)
        self.kind = data_of(arguments.model)
        many = self.data("many")
        self.model = build(arguments.model, getattr(many, "vocabulary", None))
        load_from_troupe(self.model, arguments.weights)
        self.loss = (torch.compile(loss_of, dynamic=False)
                     if arguments.compiled else loss_of)
        self.optimizer = torch.optim.Adam(self.model.parameters(),
                                          lr=arguments.rate,
                                          fused=True)
        self.batches = many.all_batches()

    def data(self, part):
        window = [int(self.window[1])] if self.window else []
        return self.kind(self.folder, part, self.batch, *window)

    def step(self, batches):
        inputs, labels = next(batches)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.model, inputs, labels)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def losses(self, count):
        few = self.data("few").all_batches()
        return {"losses": [self.step(few) for _ in range(count)]}

    def steps(self, count):
        times, before = [], time.process_time()
        for _ in range(count):
            began = time.monotonic()
            loss = self.step(self.batches)
            times.append(time.monotonic() - began)
        return {"step_ms": 1e3 * statistics.median(times), "loss": loss,
                "cpu_seconds": time.process_time() - before,
                "peak_bytes": peak_bytes()}


def peak_bytes():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def machine():
    """The best rates of products of matrices, of copying and of reading."""
    idle, gflops = peak_bytes(), 0.0
    for size, tries in ((384, 60), (768, 20), (1536, 4)):
        a, b = torch.rand(size, size), torch.rand(size, size)
        c = torch.empty(size, size)
        seconds = best_seconds(lambda: torch.mm(a, b, out=c), tries)
        gflops = max(gflops, 2e-9 * size ** 3 / seconds)
    source = torch.ones(2 ** 27)  # 512 MiB, more than any cache
    target = torch.zeros(2 ** 27)
    copied = best_seconds(lambda: target.copy_(source), 5)
    summed = best_seconds(source.sum, 8)
    return {"gflops": gflops, "copy_gb": 2e-9 * source.nbytes / copied,
            "read_gb": 1e-9 * source.nbytes / summed,
            "idle_bytes": idle}


def best_seconds(run, tries):
    best = float("inf")
    for _ in range(tries):
        began = time.monotonic()
        run()
        best = min(best, time.monotonic() - began)
    return best


def serve(arguments):
    trainer = Trainer(arguments) if arguments.train else None
    for line in sys.stdin:
        what, *rest = line.split()
        before = time.process_time()
        answer = (machine() if what == "machine" else
                  write(*rest) if what == "write" else
                  getattr(trainer, what)(int(rest[0])))
        answer.setdefault("cpu_seconds", time.process_time() - before)
        print(json.dumps(answer), flush=True)


# --- text ---------------------------------------------------------------------

def draw(arguments):
    import transformers
    torch.manual_seed(SEED)
    config = transformers.GPT2Config(
        n_embd=arguments.width, n_layer=arguments.layers,
        n_head=arguments.width // 64, n_positions=arguments.window,
        vocab_size=arguments.vocabulary, bos_token_id=None, eos_token_id=None)
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.save_pretrained(arguments.draw)
    print(json.dumps({
        "parameters": sum(p.numel() for p in model.parameters()),
        "read_bytes": 4 * sum(p.numel() for name, p in model.named_parameters()
                              if "wpe" not in name)}))


@torch.no_grad()
def generate(arguments):
    import transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(
        arguments.generate, dtype=torch.float32).eval()
    prompt = torch.tensor([json.loads(arguments.prompt)])

    def run(count):
        return model.generate(
            prompt, do_sample=False, max_new_tokens=count,
            min_new_tokens=count, use_cache=True, pad_token_id=0,
            attention_mask=torch.ones_like(prompt))[0, prompt.shape[1]:]

    run(4)
    began = time.monotonic()
    ids = run(arguments.tokens).tolist()
    seconds = time.monotonic() - began
    print(json.dumps({"ids": ids, "tokens_s": len(ids) / seconds,
                      "version": transformers.__version__,
                      "peak_bytes": peak_bytes()}))


def main():
    parser = argparse.ArgumentParser()
    for name in ("train", "draw", "generate"):
        parser.add_argument(f"--{name}", metavar="FOLDER")
    parser.add_argument("--model")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--weights")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--width", type=int)
    parser.add_argument("--window", type=int)
    parser.add_argument("--vocabulary", type=int)
    parser.add_argument("--prompt")
    parser.add_argument("--tokens", type=int)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.draw:
        draw(arguments)
    elif arguments.generate:
        generate(arguments)
    else:
        serve(arguments)


if __name__ == "__main__":
    main()
