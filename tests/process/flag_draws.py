"""Draws jobs and the worlds that run them: what is computed, and who computes
it. A draw follows from a random.Random alone; for random_flags_test.py beside."""

import os
import random
import re

ONE_DEVICE = ["--strategy", "one_device"]
SERVED = ["--strategy", "parameter_server"]

GRAPH = """name = "drawn"
[sample]
features = [28, 28, 1]
classes = 10
[[operators]]
kind = "conv2d"
units = 4
kernel = 5
stride = 4
activation = "%(activation)s"
[[operators]]
kind = "batch_norm"
name = "norm"
activation = "silu"
[[operators]]
kind = "conv2d"
units = 4
kernel = 3
padding = "same"
groups = 2
[[operators]]
kind = "add"
inputs = ["conv2d_1", "norm"]
[[operators]]
kind = "average_pool"
kernel = 3
padding = 1
[[operators]]
kind = "reshape"
[[operators]]
kind = "dropout"
rate = 0.1
[[operators]]
kind = "dense"
units = "classes"
initializer = "fan_in_uniform"
[[operators]]
kind = "softmax_cross_entropy"
"""


class Files:
    """What jobs read, written once into a folder."""

    def __init__(self, folder):
        self.folder = folder
        draw = random.Random(3)
        words = ["the ", "ring ", "of ", "shards ", "and ", "a ", "worker.\n"]
        self.text = self.write("text.txt", "".join(
            draw.choice(words) for _ in range(300)))
        lines = []
        for _ in range(200):
            ids = sorted(draw.sample(range(1, 40), 5))
            lines.append(f"{int(ids[0] < 5)} "
                         + " ".join(f"{i}:1" for i in ids))
        self.ids = self.write("ids.svm", "\n".join(lines) + "\n")
        rows = ["a,b,c,y"]
        for _ in range(150):
            a, b, c = (draw.uniform(-1, 1) for _ in range(3))
            rows.append(f"{a:.4f},{b:.4f},{c:.4f},{a - 2 * b + c * c:.4f}")
        self.numbers = self.write("numbers.csv", "\n".join(rows) + "\n")
        self.graphs = {name: self.write(f"{name}.toml",
                                        GRAPH % {"activation": name})
                       for name in ("gelu", "tanh")}

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path


class Job:
    """What fixes the weights: the same words whoever computes."""

    def __init__(self):
        self.flags = []
        self.model = ""
        self.data = ""
        self.evaluates = []     # flags that say what on
        self.ranks = 4
        self.total = []         # how long: --steps or --epochs
        self.steps = 0          # of --steps; 0: epochs say it
        self.tables = False     # some that only ids read
        self.all_tables = False  # nothing else
        self.norms = False      # over all parameters: other bits by rows
        self.exact = False      # --sparse-updates
        self.schedule = "constant"
        self.precision = "float32"
        self.stages = 1         # of a pipeline, at most
        self.slices = 1         # virtual ones
        self.grouped = 1        # stages of two tensor members, at most
        self.most_steps = 0     # that are quick

    def words(self):
        return [*self.flags, *self.evaluates, *self.total]

    def follows_total(self):
        return self.schedule in ("step", "cosine")


# Model, its data, sparse tables, stages at most, steps at most.
def kinds_of_jobs(draw, files):
    samples = draw.randrange(90, 260)
    seed = draw.randrange(4)
    digits = f"synthetic:digits?samples={samples}&seed={seed}"
    clicks = (f"synthetic:clicks?samples={samples}&seed={seed}&"
              f"buckets={draw.choice((40, 300))}")
    return {
        "mlp": (f"mlp:784-{draw.choice((12, 16, 33))}-10", digits, 0, 2, 40),
        "deep": ("mlp:784-16-9-8-10", digits, 0, 4, 40),
        "dlrm": ("dlrm", clicks, 1, 3, 16),
        "wide_deep": ("wide_deep", clicks, 1, 3, 16),
        "logreg": ("logreg", clicks, 1, 1, 30),
        "ids": ("logreg", f"libsvm:{files.ids}", 2, 1, 30),
        "numbers": ("mlp:3-8-1", f"csv:{files.numbers}?task=regression", 0, 2,
                    40),
        "graph": (files.graphs[draw.choice(sorted(files.graphs))], digits, 0,
                  3, 12),
        "cnn": ("cnn", digits, 0, 3, 4),
        "resnet": ("resnet8", digits, 0, 3, 2),
        "text": ("transformer:L2-H2-D16-T8" + draw.choice(("", "-P0.1")),
                 f"text:{files.text}?level={draw.choice(('char', 'byte'))}",
                 0, 3, 8),
    }


WEIGHTS = {"mlp": 6, "deep": 3, "dlrm": 4, "wide_deep": 2, "logreg": 2,
           "ids": 2, "numbers": 2, "graph": 3, "cnn": 1, "resnet": 1,
           "text": 3}
# Virtual slices, of those that have two dense layers in a row.
SLICES = {"mlp": (2, 4), "deep": (2, 4), "dlrm": (2, 4), "numbers": (2, 4),
          "cnn": (2, 4), "text": (2,)}
# Of those: with layers enough for two stages of tensor members.
GROUPED = ("deep", "dlrm", "cnn", "text")


def maybe(draw, share, *words):
    return list(words) if draw.random() < share else []


def one_of(draw, name, *values):
    return [name, str(draw.choice(values))]


def draw_optimizer(draw):
    """Flags of a rule with its own, and whether it takes norms."""
    kind = draw.choice(("sgd", "momentum", "nesterov", "adam", "adamw",
                        "adagrad", "rmsprop", "ftrl", "lamb"))
    rate = {"sgd": 0.02, "momentum": 0.005, "nesterov": 0.005, "adagrad": 0.02,
            "ftrl": 0.05}.get(kind, 0.003)
    words = ["--optimizer", kind, "--lr", str(rate)]
    own = {"momentum": ["--momentum"], "nesterov": ["--momentum"],
           "adam": ["--beta1", "--beta2", "--epsilon"],
           "adamw": ["--beta1", "--beta2", "--epsilon"],
           "lamb": ["--beta1", "--beta2", "--epsilon"],
           "adagrad": ["--epsilon"], "rmsprop": ["--beta2", "--epsilon"],
           "ftrl": ["--l1", "--l2", "--ftrl-beta"]}
    values = {"--momentum": (0.5, 0.85), "--beta1": (0.5, 0.95),
              "--beta2": (0.9, 0.98), "--epsilon": (1e-6, 1e-4),
              "--l1": (0.001, 0.1), "--l2": (0.01, 1), "--ftrl-beta": (0.5, 2)}
    for name in own.get(kind, []):
        if draw.random() < 0.3:
            words += one_of(draw, name, *values[name])
    words += maybe(draw, 0.3, "--weight-decay", "0.01")
    return words, kind == "lamb"


def draw_job(draw, files, machine, kinds=None, plain=False):
    """`plain`: one that learns fast, and whose length nothing follows."""
    job = Job()
    names = kinds or list(WEIGHTS)
    name = draw.choices(names, [WEIGHTS[x] for x in names])[0]
    (job.model, job.data, tables, job.stages,
     job.most_steps) = kinds_of_jobs(draw, files)[name]
    job.tables = tables > 0
    job.all_tables = tables == 2
    job.ranks = draw.choice((1, 2, 3, 4, 4, 4, 5, 8))
    batch = draw.choice((max(job.ranks, 8), 16, 30, 32, 64))
    job.flags = ["--data", job.data, "--model", job.model, "--virtual-ranks",
                 str(job.ranks), "--global-batch", str(batch), "--seed",
                 str(draw.randrange(5))]
    if name in SLICES and draw.random() < 0.2:
        job.slices = draw.choice(SLICES[name])
        job.grouped = 2 if name in GROUPED else 1
        job.flags += ["--virtual-slices", str(job.slices)]
    if plain:
        job.flags += ["--optimizer", "adam", "--lr", "0.003"]
    else:
        words, job.norms = draw_optimizer(draw)
        job.flags += words
        draw_rest(draw, job, name, machine)
    if draw.random() < 0.75:
        job.steps = draw.randrange(1 if job.most_steps < 8 else 5,
                                   job.most_steps + 1)
        job.total = ["--steps", str(job.steps)]
    else:
        job.total = ["--epochs", "1", "--steps",
                     str(job.most_steps + draw.randrange(9))]
    other = f"&seed={5 + draw.randrange(3)}"
    job.evaluates = draw.choice((
        [], ["--eval-fraction", "0.2"], ["--eval-fraction", "0.13"],
        ["--eval-data", re.sub(r"&seed=\d", other, job.data)]
        if "&seed=" in job.data else ["--eval-data", job.data]))
    if job.evaluates:
        job.evaluates += maybe(draw, 0.3, "--eval-every",
                               draw.choice(("0", "2")))
    return job


def draw_rest(draw, job, name, machine):
    job.schedule = draw.choice(("constant", "constant", "step", "cosine",
                                "inverse_sqrt"))
    job.flags += ["--lr-schedule", job.schedule]
    job.flags += maybe(draw, 0.4, "--warmup-steps", draw.choice("0359"))
    if job.schedule == "cosine":
        job.flags += maybe(draw, 0.5, "--min-lr", "0.0002")
    if draw.random() < 0.25:
        job.flags += one_of(draw, "--clip-norm", 0.05, 0.5, 100)
        job.norms = True
    if job.tables and draw.random() < 0.25:
        job.flags += ["--sparse-updates", "exact"]
        job.exact = True
    if "-P" in job.model or name == "graph":
        job.flags += maybe(draw, 0.3, "--dropout", draw.choice(("0", "0.3")))
    if machine.bfloat16 and draw.random() < 0.1:
        job.precision = "bfloat16"
        job.flags += ["--precision", "bfloat16"]
    elif draw.random() < 0.15:
        job.flags += ["--isa", draw.choice(machine.isas)]


# --- worlds ------------------------------------------------------------------

def apart(draw, share=0.4):
    """Processes or not, and over what they are linked."""
    if draw.random() >= share:
        return ["--in-process"]
    words = maybe(draw, 0.5, "--processes")
    if draw.random() < 0.4:
        words += ["--link", draw.choice(("tcp", "shm", "auto"))]
        if words[-1] == "tcp":
            words += maybe(draw, 0.5, "--link-encryption",
                           draw.choice(("on", "off", "auto")))
    return words


def is_apart(world):
    return "--in-process" not in world and (
        "multi_worker_mirrored" in world or "parameter_server" in world
        or "fully_sharded" in world or "--processes" in world)


def threads(draw):
    return maybe(draw, 0.25, "--threads-per-device", draw.choice("123"))


def draw_mirrored(draw, job):
    return ["--strategy", "mirrored", "--devices",
            f"cpu:{draw.randint(1, min(4, job.ranks))}", *threads(draw),
            *maybe(draw, 0.3, "--bucket-mb", draw.choice(("0.01", "1"))),
            *maybe(draw, 0.2, "--all-reduce", "reduction_to_one_device")]


def draw_central(draw, job):
    return ["--strategy", "central_storage", "--devices",
            f"cpu:{draw.randint(1, min(3, job.ranks))}", *threads(draw)]


def draw_replicas(draw, job):
    workers = draw.randint(1, min(3, job.ranks))
    devices = draw.randint(1, max(1, min(2, job.ranks // workers)))
    return ["--strategy", "multi_worker_mirrored", "--workers", str(workers),
            *maybe(draw, 0.5, "--devices", f"cpu:{devices}"), *threads(draw),
            *maybe(draw, 0.3, "--bucket-mb", draw.choice(("0.01", "1"))),
            *apart(draw)]


def draw_shape(draw, job):
    """Workers and shards of a parameter server, without chains."""
    return [*SERVED, "--workers", str(draw.randint(1, min(4, job.ranks))),
            "--ps", str(draw.randint(1, 3)), *threads(draw),
            *maybe(draw, 0.3, "--partitioner", draw.choice((
                "fixed:1", "fixed:3", "max_size:4096", "max_size:65536",
                "min_size:2048:2"))),
            *maybe(draw, 0.2, "--priority", draw.choice(("on", "off")))]


def draw_tables(draw, job, written_dense=False):
    """Who keeps tables, such that the bits are those of one device."""
    if not job.tables:
        return maybe(draw, 0.2, "--tables", "dense")
    if job.norms or written_dense:
        return ["--tables", "dense"]
    words = maybe(draw, 0.6, "--tables", draw.choice(("sparse", "dense",
                                                      "auto")))
    if job.exact and "sparse" not in words:
        return words
    if "dense" not in words:
        if not job.exact:
            words += maybe(draw, 0.2, "--table-fill")
        if not job.all_tables and job.model != "logreg":
            words += maybe(draw, 0.4, "--dense", "all_reduced")
    return words


def draw_served(draw, job, written_dense=False):
    words = [*draw_shape(draw, job), *draw_tables(draw, job, written_dense),
             *maybe(draw, 0.25, "--chain", "2"), *apart(draw)]
    return words + (maybe(draw, 0.1, "--standby") if is_apart(words) else [])


def draw_staged(draw, job):
    return ["--strategy", "pipeline", "--stages",
            str(draw.randint(1, job.stages)), *threads(draw),
            *maybe(draw, 0.5, "--schedule", draw.choice(("gpipe", "1f1b",
                                                         "auto"))),
            *maybe(draw, 0.3, "--processes")]


def draw_tensor(draw, job):
    members = [str(n) for n in (1, 2, 4) if n <= job.slices]
    return ["--strategy", "tensor", "--tensor", draw.choice(members),
            *threads(draw), *maybe(draw, 0.3, "--processes")]


def beside_shards(draw):
    return maybe(draw, 0.4, "--sync-data", "parameter_server", "--ps",
                 str(draw.randint(1, 3)), "--chain", str(draw.randint(1, 2)))


def draw_grouped(draw, job):
    data = draw.randint(1, min(3, job.ranks))
    members = [n for n in (2, 4) if n <= job.slices]
    return ["--strategy", "hybrid", "--mesh",
            f"data={data},tensor={draw.choice(members)}", *threads(draw),
            *beside_shards(draw), *maybe(draw, 0.3, "--processes")]


def draw_meshed(draw, job):
    data = draw.randint(1, min(3, job.ranks))
    return ["--strategy", "hybrid", "--mesh",
            f"data={data},stage={draw.randint(1, job.stages)}", *threads(draw),
            *maybe(draw, 0.5, "--schedule", draw.choice(("gpipe", "1f1b",
                                                         "zero_bubble"))),
            *beside_shards(draw), *maybe(draw, 0.3, "--processes")]


def draw_members(draw, job):
    data = draw.randint(1, min(2, job.ranks))
    return ["--strategy", "hybrid", "--mesh",
            f"data={data},stage={job.grouped},tensor=2", *threads(draw),
            *beside_shards(draw), *maybe(draw, 0.3, "--processes")]


def draw_sharded(draw, job):
    workers = draw.randint(1, min(4, job.ranks))
    return ["--strategy", "fully_sharded", "--workers", str(workers),
            *threads(draw),
            *maybe(draw, 0.6, "--shard", draw.choice(("optimizer", "gradients",
                                                      "parameters"))),
            *maybe(draw, 0.2, "--chain", str(min(2, workers))), *apart(draw)]


def draw_world(draw, job, written_dense=False):
    """A synchronous one, of which the bits are those of one device."""
    if job.slices > 1 and draw.random() < 0.5:
        return draw.choice((draw_tensor, draw_grouped, draw_members))(draw,
                                                                      job)
    kind = draw.choice(("mirrored", "central", "replicas", "replicas",
                        "served", "served", "served", "staged", "meshed",
                        "sharded", "one"))
    if kind == "mirrored":
        return draw_mirrored(draw, job)
    if kind == "central":
        return draw_central(draw, job)
    if kind == "replicas":
        return draw_replicas(draw, job)
    if kind == "served":
        return draw_served(draw, job, written_dense)
    if kind == "staged":
        return draw_staged(draw, job)
    if kind == "meshed":
        return draw_meshed(draw, job)
    if kind == "sharded":
        return draw_sharded(draw, job)
    return [*ONE_DEVICE, *threads(draw)]


def writes_dense(job, world):
    """Whether its checkpoints hold tables whole."""
    if not job.tables or "parameter_server" not in world or "hybrid" in world:
        return job.tables
    kept = world[world.index("--tables") + 1] if "--tables" in world else "auto"
    return kept == "dense" or job.exact and kept == "auto"


def draw_free(draw, job):
    """An asynchronous world."""
    words = [*draw_shape(draw, job)]
    words += draw.choice((["--async"], ["--staleness", draw.choice("0138")]))
    layered = job.tables and not job.all_tables and job.model != "logreg" \
        and draw.random() < 0.3
    if layered:
        words += ["--dense", "all_reduced"]
    elif "--async" in words:
        words += maybe(draw, 0.25, "--reject-stale", draw.choice("26"))
    words += maybe(draw, 0.3, "--staleness-damping",
                   draw.choice(("inverse", "inverse_sqrt", "none")))
    words += maybe(draw, 0.4, "--prefetch", draw.choice(("on", "off", "auto")))
    words += maybe(draw, 0.25, "--chain", "2")
    if job.tables and not layered:
        words += draw_limits(draw)
        if not any(x.startswith("--table-") for x in words):
            words += maybe(draw, 0.3, "--tables", "dense")
    if not layered and draw.random() < 0.3:
        words += ["--reduction", "fast", *draw_compression(draw)]
    return [*words, *apart(draw)]


def draw_limits(draw):
    return [*maybe(draw, 0.3, "--table-bytes", draw.choice(
        ("1000", "40000", "3000000"))),
            *maybe(draw, 0.3, "--table-idle-steps", draw.choice("149"))]


def draw_compression(draw):
    return ["--compress", draw.choice(("fp16", "bf16", "int8", "onebit",
                                       "topk:0.1", "topk:1"))]


def draw_fast(draw, job):
    """Sums in any order: (world, whether gradients are left out or rounded)."""
    kind = draw.choice(("mirrored", "replicas", "replicas", "served", "served",
                        "central"))
    fast = ["--reduction", "fast"]
    if kind == "mirrored":
        names = ("auto", "ring", "halving_doubling", "hierarchical",
                 "hierarchical_copy", "reduction_to_one_device")
        world = draw_mirrored(draw, job)
        if "--all-reduce" not in world:
            world += maybe(draw, 0.7, "--all-reduce", draw.choice(names))
        return [*world, *fast], False
    if kind == "central":
        return [*draw_central(draw, job), *fast], False
    if kind == "replicas":
        world = [*draw_replicas(draw, job), *fast,
                 *maybe(draw, 0.6, "--all-reduce", draw.choice(
                     ("auto", "ring", "halving_doubling", "hierarchical")))]
        packed = is_apart(world) and draw.random() < 0.5
        return [*world, *(draw_compression(draw) if packed else [])], packed
    world = [*draw_shape(draw, job), *fast]
    workers = int(world[world.index("--workers") + 1])
    loose = False
    if job.tables:
        # Norms are over the rows that are there.
        world += draw_tables(draw, job)
    if workers > 1 and "all_reduced" not in world and draw.random() < 0.4:
        world += ["--backup-workers", str(draw.randint(1, workers - 1)),
                  *maybe(draw, 0.5, "--slow-worker", f"{workers - 1}:5")]
        loose = True
    if "all_reduced" not in world and draw.random() < 0.4:
        world += draw_compression(draw)
        loose = True
    return [*world, *maybe(draw, 0.2, "--chain", "2"), *apart(draw)], loose


# --- without regard to what goes together ------------------------------------

ANY = {
    "strategy": ["one_device", "mirrored", "multi_worker_mirrored",
                 "central_storage", "parameter_server", "parameter_server",
                 "pipeline", "hybrid", "fully_sharded", "tensor"],
    "workers": ["1", "2", "3", "1:2", "0", "9"], "ps": ["1", "2"],
    "chain": ["1", "2"], "stages": ["1", "2", "40"],
    "mesh": ["data=2,stage=1", "data=9", "stage=2,tensor=2",
             "data=2,tensor=2", "stage=2,tensor=3"],
    "sync-data": ["all_reduce", "parameter_server"],
    "shard": ["optimizer", "gradients", "parameters", "all"],
    "tensor": ["1", "2", "3"], "virtual-slices": ["1", "2", "4", "99"],
    "schedule": ["gpipe", "auto", "zero_bubble"],
    "recompute": ["none", "full", "dense_1"], "device-memory": ["100", "4GiB", "x"],
    "split-at": ["dense_1", "nowhere", "flops"], "devices": ["cpu:1", "cpu:2", "cpu:9"],
    "threads-per-device": ["1", "2"],
    "partitioner": ["fixed:2", "max_size:4096", "max_size:0", "x"],
    "tables": ["auto", "sparse", "dense"], "sparse-updates": ["lazy", "exact"],
    "dense": ["shards", "all_reduced"], "table-fill": [],
    "table-bytes": ["100", "50000"], "table-idle-steps": ["2"],
    "table-keep-count": ["2"], "isa": ["auto", "sse4", "avx2"],
    "precision": ["float32", "bfloat16"], "processes": [], "in-process": [],
    "loss-ms": ["100", "9000"], "sync": [], "async": [],
    "staleness": ["0", "3"], "backup-workers": ["0", "1"],
    "slow-worker": ["0:2", "7:2"], "reject-stale": ["0", "4"],
    "staleness-damping": ["none", "inverse"], "prefetch": ["auto", "on"],
    "priority": ["on", "off"], "virtual-ranks": ["1", "2", "3", "6"],
    "global-batch": ["1", "24", "64"], "eval-every": ["0", "2"],
    "eval-fraction": ["0", "0.2", "0.001"],
    "eval-data": ["synthetic:digits?samples=64&seed=3"],
    "reduction": ["reproducible", "fast"],
    "all-reduce": ["auto", "ring", "hierarchical_copy",
                   "reduction_to_one_device", "nccl"],
    "bucket-mb": ["0.02"], "link": ["auto", "tcp", "shm"],
    "link-encryption": ["auto", "on"],
    "compress": ["none", "fp16", "topk:0.5", "topk:2"],
    "optimizer": ["sgd", "momentum", "adam", "ftrl", "lamb"],
    "momentum": ["0.5", "1"], "beta1": ["0.8"], "beta2": ["0.9"],
    "epsilon": ["1e-6"], "weight-decay": ["0.1"], "l1": ["0.1"], "l2": ["1"],
    "ftrl-beta": ["2"], "server-filter": ["finite", "none-such"],
    "server-rule": ["none-such"], "clip-norm": ["0.1"],
    "dropout": ["0", "0.2"],
    "lr-schedule": ["constant", "step", "cosine", "inverse_sqrt"],
    "warmup-steps": ["2"], "min-lr": ["0.0001", "3"],
    "checkpoint-dir": ["DIR/kept"], "checkpoint-every": ["3"],
    "checkpoint-keep": ["1"], "resume": [], "save": ["DIR/w.safetensors"],
    "journal": ["DIR/run.db"], "log-dir": ["DIR/logs"],
    "tensorboard": ["DIR/events"], "histogram-every": ["0", "2"],
    "timeline": ["DIR/trace.json"],
    "flight": ["DIR/flight", "none"], "report": ["DIR/run.html"],
    "log-level": ["error", "info"], "log-every": ["2"], "standby": [],
    "allow-faults": [], "metrics-address": ["127.0.0.1:0", "10.9.8.7:0"],
    "certificates": ["DIR/certs"], "certificate-seconds": ["3600"],
    "listen": ["127.0.0.1:0", "10.9.8.7:0"], "quiet": [], "no-color": [],
    "join-deadline-ms": ["20000"],
    "step-deadline-ms": ["90000"], "data-memory": ["100000000", "10"],
    "data-cache": ["DIR/blocks:20M"], "data-timeout": ["9"],
    "readers": ["1", "2"],
}
# Who computes, and what is printed and kept: without a word in the weights.
WORLD = {
    "strategy", "workers", "ps", "chain", "stages", "schedule", "split-at",
    "recompute", "device-memory", "shard", "tensor", "mesh",
    "devices", "threads-per-device", "partitioner", "tables", "dense",
    "table-fill", "table-keep-count", "processes", "in-process", "loss-ms",
    "sync", "priority", "all-reduce", "bucket-mb", "link", "link-encryption",
    "slow-worker", "checkpoint-dir", "checkpoint-every", "checkpoint-keep",
    "resume", "save", "journal", "log-dir", "tensorboard", "histogram-every",
    "timeline",
    "flight", "report", "log-level",
    "log-every", "standby", "allow-faults", "metrics-address", "certificates",
    "certificate-seconds", "listen", "quiet", "no-color", "join-deadline-ms",
    "step-deadline-ms", "data-memory", "data-cache", "data-timeout", "readers"}
# Other bits than those of one device, or none that repeat.
LOOSE = {"async", "staleness", "backup-workers", "compress", "server-filter",
         "server-rule", "table-bytes", "table-idle-steps", "reject-stale",
         "staleness-damping", "prefetch"}


def draw_any(draw):
    """{flag: its words} of some, whatever they do together."""
    names = draw.sample(sorted(ANY), draw.randint(1, draw.choice((2, 3, 6))))
    if draw.random() < 0.7 and "strategy" not in names:
        names.insert(0, "strategy")
    clicks = draw.random() < 0.3
    data = ("synthetic:clicks?samples=150&buckets=100" if clicks
            else "synthetic:digits?samples=150")
    flags = {"data": ["--data", data],
             "model": ["--model", draw.choice(("dlrm", "logreg")) if clicks
                       else "mlp:784-16-10"],
             "steps": ["--steps", "8"]}
    for name in names:
        values = ANY[name]
        flags[name] = [f"--{name}", *([draw.choice(values)] if values else [])]
    return flags


# --- what is changed while a job runs ----------------------------------------

def draw_changes(draw, workers, shards, ranks):
    """Words of `troupe ctl`, in order, and whether steps ran free meanwhile."""
    changes = []
    free = False
    added = {"workers": 0, "shards": 0}
    for _ in range(draw.randint(1, 3)):
        kind = draw.choice(("workers", "shards", "rebalance", "consistency",
                            "move"))
        if kind == "workers" and workers + added["workers"] < ranks:
            changes.append(["workers", "add"])
            added["workers"] += 1
        elif kind == "shards":
            changes.append(["shards", "add"])
            added["shards"] += 1
        elif kind == "move" and shards > 1:
            changes.append(["move-slices", "--from", "ps:1", "--to", "ps:0"])
        elif kind == "consistency":
            mode = draw.choice(("async", "staleness:2", "sync"))
            free = free or mode != "sync"
            changes.append(["consistency", mode])
        else:
            changes.append(["rebalance"])
    if added["workers"] and draw.random() < 0.5:
        changes.append(["workers", "remove", "worker:0"])
    if added["shards"] and draw.random() < 0.5:
        changes.append(["shards", "remove", "ps:0"])
    return changes, free
