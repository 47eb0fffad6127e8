"""Each flag of each command does something that can be seen, or is refused with
one line: ROWS says what, and a flag of a `--help` without a row fails."""
# ctest: TIMEOUT 1200 COST 40 PROCESSORS 1

import concurrent.futures
import json
import os
import pty
import re
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

from cluster import TROUPE, Run, wait_for

SOURCE = Path(__file__).resolve().parents[2]
DATA = ["--data", "synthetic:digits?samples=256"]
CLICKS = ["--data", "synthetic:clicks?samples=640", "--model", "dlrm"]
SERVED = ["--strategy", "parameter_server", "--in-process"]
APART = ["--strategy", "parameter_server"]
WORKERS = ["--strategy", "multi_worker_mirrored"]
STAGED = ["--strategy", "pipeline"]
MESHED = ["--strategy", "hybrid"]
SHARES = ["--strategy", "fully_sharded"]
TENSOR = ["--strategy", "tensor"]
ENDLESS = ["--epochs", "0", "--steps", "100000000"]
DRY = ["--dry-run", "--", "train", *DATA, *WORKERS, "--workers", "2"]
PODS = ["--kubernetes", *DRY[1:]]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Bench:
    """Runs the program in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.known = {}

    def path(self, name):
        return os.path.join(self.folder, name)

    def call(self, *arguments):
        return subprocess.run([TROUPE, *arguments], capture_output=True,
                              text=True, timeout=90, cwd=self.folder,
                              check=False)

    def output(self, *arguments, status=0):
        done = self.call(*arguments)
        assert done.returncode == status, (arguments, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def train(self, *flags):
        """The summary of a run; of the same flags once."""
        if flags not in self.known:
            data = [] if "--data" in flags else DATA
            path = self.path("summary.json")
            self.output("train", *data, *flags, "--summary", path)
            with open(path) as file:
                self.known[flags] = json.load(file)
        return self.known[flags]

    def running(self, *flags):
        data = [] if "--data" in flags else DATA
        return Run(*data, *flags, *ENDLESS, cwd=self.folder)


# --- what can be seen of a flag ----------------------------------------------
# Each makes a row: a function of a Bench, with the flag's words as `given`.

def row(look, *given, base=()):
    look.given = list(given)
    look.base = list(base)
    return look


def differs(*given, base=(), other=()):
    """Other weights than without it, or than with `other` in its place."""
    def look(bench):
        with_it = bench.train(*base, *given)["weights_sha256"]
        assert with_it != bench.train(*base, *other)["weights_sha256"]
    return row(look, *given, base=base)


def field(names, value, *given, base=()):
    """A field of the summary is `value`, or is what value() accepts, and is not
    without the flag."""
    def of(summary):
        for name in names.split("."):
            summary = summary[name]
        return summary

    def fits(found):
        return value(found) if callable(value) else found == value

    def look(bench):
        found = of(bench.train(*base, *given))
        assert fits(found), (names, found)
        without = of(bench.train(*base))
        assert not fits(without), (names, without)
    return row(look, *given, base=base)


def more(names, *given, base=(), less=False):
    """A number of the summary is larger with it than without."""
    def look(bench):
        numbers = []
        for flags in (base, (*base, *given)):
            found = bench.train(*flags)
            for name in names.split("."):
                found = found[name]
            numbers.append(found)
        assert (numbers[1] < numbers[0] if less
                else numbers[1] > numbers[0]), numbers
    return row(look, *given, base=base)


def prints(pattern, *given, base=(), command="train", status=0, data=DATA):
    """The output matches, and does not without the flag."""
    def look(bench):
        words = [*command.split(), *([] if "--data" in (*base, *given)
                                     else data), *base]
        with_it = bench.output(*words, *given, status=status)
        assert re.search(pattern, with_it), (given, with_it)
        without = bench.call(*words)
        assert not re.search(pattern, without.stdout + without.stderr), given
    return row(look, *given, base=base)


def refused(pattern, *given, base=(), status=2, command="train", data=DATA):
    """One line says why it cannot be had here."""
    def look(bench):
        done = bench.call(*command.split(), *data, *base, *given)
        assert done.returncode == status, (given, done)
        assert re.fullmatch(rf"troupe: .*(?:{pattern}).*\n", done.stderr), (
            given, done.stderr)
    return row(look, *given, base=base)


def writes(*given, base=(), suffix="", command="train", data=DATA):
    """A file or folder is there afterwards that was not before."""
    def look(bench):
        path = bench.path(given[-1]) + suffix
        assert not os.path.exists(path), path
        bench.output(*command.split(), *data, *base, *given)
        assert os.path.exists(path), path
    return row(look, *given, base=base)


def while_running(look_at, *given, base=()):
    """look_at(bench, run) of a run that goes on."""
    def look(bench):
        with bench.running(*base, *given) as run:
            run.wait_for_step(3)
            look_at(bench, run)
    return row(look, *given, base=base)


def in_status(pattern, *given, base=()):
    def look_at(bench, run):
        wait_for(lambda: re.search(pattern, bench.output(
            "status", run.metrics_address())), f"status shows {pattern}")
    return while_running(look_at, *given, base=base)


def says(pattern, *given, base=()):
    def look_at(_, run):
        wait_for(lambda: re.search(pattern, run.output()), pattern)
    return while_running(look_at, *given, base=base)


def tested(file, *given):
    """What it does takes hosts, faults or a slow network to be seen: that test
    is elsewhere."""
    def look(_):
        assert f'"{given[0]}' in (SOURCE / file).read_text(), (file, given)
    return row(look, *given)


def custom(*given, base=()):
    return lambda look: row(look, *given, base=base)


@custom("--threads-per-device", "9")
def threads(bench):
    counts = []
    for flags in ([], ["--threads-per-device", "9"]):
        with bench.running("--devices", "cpu:1", *flags) as run:
            run.wait_for_step(1)
            counts.append(len(os.listdir(f"/proc/{run.process.pid}/task")))
    assert counts[1] >= counts[0] + 5, counts


@custom("--precision", "bfloat16")
def precision(bench):
    done = bench.call("train", *DATA, "--precision", "bfloat16")
    if done.returncode == 0:
        differs("--precision", "bfloat16")(bench)
    else:
        assert re.fullmatch(r"troupe: --precision bfloat16: .*\n",
                            done.stderr), done.stderr


def over_config(line, names, value, *given, base=()):
    """It wins over what a configuration file says."""
    def look(bench):
        with open(bench.path("over.toml"), "w") as file:
            file.write(line + "\n")
        summary = bench.train("--config", "over.toml", *base, *given)
        for name in names.split("."):
            summary = summary[name]
        assert summary == value, summary
    return row(look, *given, base=base)


@custom("--resume", base=["--checkpoint-dir", "resumed"])
def resume(bench):
    bench.train("--checkpoint-dir", "resumed")
    summary = bench.train("--checkpoint-dir", "resumed", "--resume",
                          "--epochs", "2")
    assert summary["resumed_from"]["step"] == 4, summary


@custom("--initial-weights", "saved.safetensors",
        base=["--checkpoint-dir", "begun"])
def initial_weights(bench):
    found = [bench.train("--checkpoint-dir", folder, *flags)["weights_sha256"]
             for folder, flags in (("begun", ("--initial-weights", WEIGHTS)),
                                   ("from-seed", ()))]
    assert found[0] != found[1], found


@custom("--checkpoint-keep", "1", base=["--checkpoint-dir", "kept-1"])
def checkpoint_keep(bench):
    for folder, flags, there in (("kept-3", [], 3),
                                 ("kept-1", ["--checkpoint-keep", "1"], 1)):
        bench.output("train", *DATA, "--checkpoint-dir", folder,
                     "--checkpoint-every", "10", "--steps", "40", "--epochs",
                     "0", "--model", "mlp:784-10", *flags)
        found = [x for x in os.listdir(bench.path(folder))
                 if x.startswith("step-")]
        assert len(found) <= there and found, found


@custom("--checkpoint-every", "2", base=["--checkpoint-dir", "every"])
def checkpoint_every(bench):
    written = [bench.train("--checkpoint-dir", folder, "--model",
                           "sleep:5ms-30", "--epochs", "10",
                           *flags)["checkpoints"]
               for folder, flags in (("seldom", ()),
                                     ("every", ("--checkpoint-every", "2")))]
    assert written[0] == 1 < written[1], written


@custom("--eval-every", "2", base=["--eval-fraction", "0.2"])
def eval_every(bench):
    def evaluations(*flags):
        return bench.output("train", *DATA, "--epochs", "4", "--eval-fraction",
                            "0.2", *flags).count("eval loss")

    assert (evaluations(), evaluations("--eval-every", "2")) == (4, 2)


@custom("--backup-workers", "1", base=[*SERVED, "--reduction", "fast"])
def backup_workers(bench):
    mode = bench.train(*SERVED, "--reduction", "fast", "--backup-workers",
                       "1")["consistency"]
    assert mode["backup_workers"] == 1, mode


@custom("--quiet")
def quiet(bench):
    assert bench.output("train", *DATA, "--quiet") == ""
    assert bench.output("train", *DATA) != ""


@custom("--no-color")
def no_color(bench):
    def on_terminal(*flags):
        ours, theirs = pty.openpty()
        run = subprocess.Popen([TROUPE, "train", *DATA, *flags], stdout=theirs,
                               stderr=theirs, stdin=subprocess.DEVNULL,
                               env={**os.environ, "TERM": "xterm-256color"})
        os.close(theirs)
        text = b""
        try:
            while part := os.read(ours, 4096):
                text += part
        except OSError:  # the terminal's other end is closed
            pass
        os.close(ours)
        assert run.wait(60) == 0, text
        return text

    colours = re.compile(rb"\x1b\[[0-9;]+m")
    assert not colours.search(on_terminal("--no-color"))
    assert colours.search(on_terminal())


@custom("--config", "of-file.toml")
def config(bench):
    with open(bench.path("of-file.toml"), "w") as file:
        file.write("steps = 3\n")
    assert bench.train("--config", "of-file.toml")["steps"] == 3


@custom("--metrics-address", "127.0.0.1:PORT")
def metrics_address(bench):
    port = free_port()
    assert f"127.0.0.1:{port}/metrics" in bench.output(
        "train", *DATA, "--metrics-address", f"127.0.0.1:{port}")


@custom("--listen", "127.0.0.1:PORT", base=APART)
def listen(bench):
    port = free_port()
    assert f"coordinator: 127.0.0.1:{port}" in bench.output(
        "train", *DATA, *APART, "--listen", f"127.0.0.1:{port}")


@custom("--join-deadline-ms", "700")
def join_deadline(bench):
    line = bench.output("role", "coordinator", "--certificates", "joined",
                        *DATA, "--join-deadline-ms", "700", status=1)
    assert re.search(r"within 0?\.7 s|within 700 ms", line), line


@custom("--step-deadline-ms", "1000")
def step_deadline(bench):
    line = bench.output("train", *DATA, "--model", "sleep:4000ms",
                        "--step-deadline-ms", "1000", status=1)
    assert "no step was committed for 1 s" in line, line
    assert "raise --step-deadline-ms" in line, line


@custom("--certificate-seconds", "3600", base=[*APART, "--certificates", "h"])
def certificate_seconds(bench):
    line = bench.output("certificates", "new", "worker:3", "--certificates",
                        "hour", "--certificate-seconds", "3600")
    usual = bench.output("certificates", "new", "worker:3", "--certificates",
                         "month")
    assert re.search(r"until (\S+)", line).group(1) < re.search(
        r"until (\S+)", usual).group(1)


@custom("--log-level", "error", base=SERVED)
def log_level(bench):
    words = ["train", *CLICKS, *WORKERS, "--workers", "2", "--reduction",
             "fast", "--compress", "fp16"]
    assert "has no effect" in bench.output(*words)
    assert "has no effect" not in bench.output(*words, "--log-level", "error")


TEXT = ("--data", "synthetic:text?samples=4096", "--model",
        "transformer:L1-H2-D16-T16", "--steps", "3")
TABLES = (*CLICKS, *SERVED)
ASYNC = (*SERVED, "--async", "--workers", "1")
MOMENTUM = ("--optimizer", "momentum")
FTRL = ("--data", "synthetic:clicks?samples=640", "--model", "logreg",
        "--optimizer", "ftrl")

TRAIN = {
    "model": differs("--model", "mlp:784-16-10"),
    "data": differs("--data", "synthetic:digits?samples=256&seed=1"),
    "eval-data": field("eval", lambda x: x is not None, "--eval-data",
                       "synthetic:digits?samples=64&seed=1"),
    "eval-fraction": field("eval", lambda x: x is not None,
                           "--eval-fraction", "0.2"),
    "data-memory": refused("bytes|memory", "--data-memory", "1000", status=1),
    "data-cache": tested("tests/process/stores_test.py", "--data-cache",
                         "blocks:20M"),
    "data-timeout": tested("tests/process/stores_test.py", "--data-timeout",
                           "3"),
    "readers": prints(r"reader:1 ", "--readers", "2", base=SERVED,
                      command="plan"),
    "seed": differs("--seed", "1"),
    "strategy": field("strategy", "one_device", "--strategy", "one_device"),
    # and pjrt:FILE with --strategy tpu: tests/process/tpu_test.py
    "devices": field("device", ["cpu:0", "cpu:1", "cpu:2"], "--devices",
                     "cpu:3"),
    "threads-per-device": threads,
    "workers": field("workers", 3, "--workers", "3", base=SERVED),
    "ps": field("plan.shards", 2, "--ps", "2", base=SERVED),
    "chain": prints(r"ps:1", "--chain", "2", base=SERVED, command="plan"),
    "shard": prints(r"share of the optimizer state, gradients\n", "--shard",
                    "gradients", base=SHARES, command="plan"),
    "tensor": prints(r"tensor:3 +3 ", "--tensor", "4", base=TENSOR,
                     command="plan"),
    "stages": prints(r"stage:2", "--stages", "3", base=STAGED,
                     command="plan"),
    "mesh": prints(r"pipeline 1 +tensor:4 to tensor:7\n",
                   "--mesh", "data=2,stage=2,tensor=2", base=MESHED,
                   command="plan"),
    "sync-data": prints(r"at the shards, fixed tree", "--sync-data",
                        "parameter_server", base=MESHED, command="plan"),
    "schedule": prints(r"schedule gpipe", "--schedule", "gpipe", base=STAGED,
                       command="plan"),
    "chunks": prints(r"stage:1, chunk 2", "--chunks", "3", command="plan",
                     base=(*STAGED, "--schedule", "interleaved", "--model",
                           "mlp:784-32-16-16-16-16-10")),
    "recompute": prints(r"of dense_1 computed again", "--recompute", "dense_1",
                        base=STAGED, command="plan"),
    "device-memory": refused("--device-memory 64 KiB: .* needs about .*; ",
                             "--device-memory", "64KiB", status=1),
    "split-at": prints(r"stage:1  dense_2 to loss", "--split-at", "dense_2",
                       base=STAGED, command="plan"),
    "partitioner": more("plan.slices", "--partitioner", "max_size:65536"),
    "tables": field("tables", None, "--tables", "dense", base=TABLES),
    "sparse-updates": differs("--sparse-updates", "exact", base=TABLES),
    "dense": field("plan.reduction", lambda x: "direct exchange" in x,
                   "--dense", "all_reduced", base=TABLES),
    "table-fill": field("tables.rows", 26000, "--table-fill", base=TABLES),
    "table-bytes": more("tables.rows", "--table-bytes", "40000", base=TABLES,
                        less=True),
    "table-idle-steps": more("tables.rows", "--table-idle-steps", "1",
                             base=TABLES, less=True),
    "table-keep-count": more("tables.rows", "--table-keep-count", "2",
                             base=(*TABLES, "--table-idle-steps", "1")),
    "isa": field("isa", "avx2", "--isa", "avx2"),
    "precision": precision,
    "processes": over_config("in-process = true", "plan.processes", True,
                             "--processes", base=APART),
    "in-process": field("plan.processes", False, "--in-process", base=APART),
    "join-deadline-ms": join_deadline,
    "step-deadline-ms": step_deadline,
    "loss-ms": in_status(r"silence of 7\.0 s", "--loss-ms", "7000",
                         base=APART),
    "sync": over_config("async = true", "consistency.mode", "sync", "--sync",
                        base=SERVED),
    "async": field("consistency.mode", "async", "--async", base=SERVED),
    "staleness": field("consistency.mode", "staleness:3", "--staleness", "3",
                       base=SERVED),
    "backup-workers": backup_workers,
    "slow-worker": more("step_ms.p50", "--slow-worker", "1:9", base=(
        *SERVED, "--model", "sleep:4ms-30")),
    "reject-stale": more("consistency.rejected_too_stale", "--reject-stale",
                         "0", base=(*SERVED, "--async", "--workers", "4",
                                    "--epochs", "20", "--model", "mlp:784-10")),
    "staleness-damping": differs("--staleness-damping", "inverse",
                                 base=(*ASYNC, "--prefetch", "on")),
    "prefetch": differs("--prefetch", "on", base=ASYNC),
    "priority": tested("tests/process/priority_test.py", "--priority", "off"),
    "virtual-ranks": differs("--virtual-ranks", "5"),
    "virtual-slices": differs("--virtual-slices", "4"),
    "global-batch": field("steps", 2, "--global-batch", "128"),
    "epochs": field("steps", 8, "--epochs", "2"),
    "steps": field("steps", 3, "--steps", "3"),
    "eval-every": eval_every,
    "reduction": field("plan.reduction", lambda x: "any order" in x,
                       "--reduction", "fast"),
    "all-reduce": field("plan.reduction", lambda x: "ring" in x,
                        "--all-reduce", "ring",
                        base=(*WORKERS, "--reduction", "fast")),
    "bucket-mb": tested("tests/process/same_bits_test.py", "--bucket-mb", "1"),
    "link": in_status(r"worker:1 +ps:0 by tcp\n", "--link", "tcp", base=APART),
    "link-encryption": in_status(r"worker:1 +ps:0 by tcp\+tls\n",
                                 "--link-encryption", "on",
                                 base=[*APART, "--link", "tcp"]),
    "compress": field("all_reduce", lambda x: 0 < 3 * x["sent_bytes"]
                      < x["plain_bytes"], "--compress", "int8",
                      base=(*WORKERS, "--reduction", "fast", "--link", "tcp")),
    "optimizer": differs("--optimizer", "sgd"),
    "lr": differs("--lr", "0.1"),
    "momentum": differs("--momentum", "0.5", base=MOMENTUM),
    "beta1": differs("--beta1", "0.5"),
    "beta2": differs("--beta2", "0.9"),
    "epsilon": differs("--epsilon", "0.1"),
    "weight-decay": differs("--weight-decay", "0.1"),
    "l1": differs("--l1", "0.5", base=FTRL),
    "l2": differs("--l2", "2", base=FTRL),
    "ftrl-beta": differs("--ftrl-beta", "3", base=FTRL),
    "plugin": tested("tests/process/server_code_test.py", "--plugin", "x.so"),
    "server-filter": tested("tests/process/server_code_test.py",
                            "--server-filter", "finite"),
    "server-rule": tested("tests/process/server_code_test.py",
                          "--server-rule", "plain"),
    "clip-norm": differs("--clip-norm", "0.01"),
    "dropout": differs("--dropout", "0.5", base=TEXT),
    "lr-schedule": differs("--lr-schedule", "cosine"),
    "warmup-steps": differs("--warmup-steps", "3"),
    "min-lr": differs("--min-lr", "0.0005",
                      base=("--lr-schedule", "cosine")),
    "checkpoint-dir": writes("--checkpoint-dir", "kept",
                             suffix="/step-000000000004"),
    "checkpoint-every": checkpoint_every,
    "checkpoint-keep": checkpoint_keep,
    "initial-weights": initial_weights,
    "resume": resume,
    "save": writes("--save", "weights.safetensors"),
    "summary": writes("--summary", "of-run.json"),
    "report": writes("--report", "of-run.html"),
    "config": config,
    "print-config": prints(r"(?m)^# lr = 0\.001", "--print-config"),
    "metrics-address": metrics_address,
    "metrics-token": tested("tests/process/remote_metrics_test.py",
                            "--metrics-token", "t"),
    "listen": listen,
    "standby": tested("tests/process/standby_test.py", "--standby"),
    "restarts": tested("tests/process/replan_test.py", "--restarts", "3"),
    "on-loss": tested("tests/process/replan_test.py", "--on-loss", "end"),
    "allow-faults": tested("apps/chaos/chaos.cpp", "--allow-faults"),
    "certificates": says(r"certificates \S*of-job", "--certificates", "of-job",
                         base=APART),
    "certificate-seconds": certificate_seconds,
    "tensorboard": writes("--tensorboard", "events"),
    "histogram-every": tested("tests/process/tensorboard_test.py",
                              "--histogram-every", "5"),
    "timeline": writes("--timeline", "trace.json"),
    "flight": writes("--flight", "flight"),
    "log-dir": writes("--log-dir", "logs", base=APART, suffix="/journal.db"),
    "log-level": log_level,
    "journal": writes("--journal", "run.db"),
    "log-every": prints(r"(?m)^step 2 of 4", "--log-every", "2"),
    "quiet": quiet,
    "no-color": no_color,
}


# --- other commands ----------------------------------------------------------

WEIGHTS = "saved.safetensors"


def prepare(bench):
    """What other commands read."""
    bench.output("train", *DATA, "--eval-fraction", "0.2", "--save", WEIGHTS,
                 "--journal", "events.db", "--checkpoint-dir", "for-export",
                 "--steps", "4")


def reads(command, *more):
    """Rows of `evaluate` and `predict`."""
    base = [*more, "--checkpoint", WEIGHTS]

    def run(*flags, data=DATA):
        return prints_other(command, base, data, *flags)
    return {
        "model": refused("tensor|--model", "--model", "mlp:784-16-10",
                         base=base, status=1, command=command),
        "data": run("--data", "synthetic:digits?samples=256&seed=9", data=[]),
        "eval-data": run("--eval-data", "synthetic:digits?samples=64&seed=3"),
        "eval-fraction": refused("holds out others", "--eval-fraction", "0.5",
                                 base=base, status=1, command=command),
        "data-memory": refused("bytes|memory", "--data-memory", "1000",
                               base=base, status=1, command=command),
        **elsewhere(command, *base, *DATA),
        "devices": refused("uses one device", "--devices", "cpu:2", base=base,
                           command=command),
        "threads-per-device": refused("1 to 1024", "--threads-per-device",
                                      "2000", base=base, command=command),
        "isa": refused("sse4, avx2, avx512 or neon", "--isa", "mmx", base=base,
                       command=command),
        "virtual-slices": refused("no two dense layers", "--virtual-slices",
                                  "64", "--model", "mlp:784-16-10", base=base,
                                  command=command),
        "checkpoint": refused("no-such", "--checkpoint", "no-such",
                              base=more, status=1, command=command),
        "config": refused("no-such.toml", "--config", "no-such.toml",
                          base=base, status=1, command=command),
        "print-config": prints(r"(?m)^checkpoint = ", "--print-config",
                               base=base, command=command),
        "quiet": silent(command, base),
        "no-color": taken(command, base, "--no-color"),
    }


def elsewhere(command, *given):
    """Rows of flags that say how data elsewhere are reached."""
    idle = r"no effect with data of this machine"
    return {"data-cache": line(idle, command, *given, "--data-cache", "b:20M",
                               status=2),
            "data-timeout": line(idle, command, *given, "--data-timeout", "9",
                                 status=2)}


def prints_other(command, base, data, *given):
    """The output, or the file that is written, is another one."""
    def look(bench):
        def found(*flags):
            words = [*command.split(), *base]
            out = bench.output(*words, *flags)
            path = bench.path("predictions.txt")
            if "--out" in base:
                out += Path(path).read_text()
            return re.sub(r"[\d.]+ s(econds)?\b", "", out)
        assert found(*data, *given) != found(*DATA), given
    return row(look, *given, base=base)


def silent(command, base):
    def look(bench):
        assert bench.output(*command.split(), *DATA, *base, "--quiet") == ""
    return row(look, "--quiet", base=base)


def taken(command, base, *given):
    """The command prints plain text anyway."""
    def look(bench):
        out = bench.output(*command.split(), *DATA, *base, *given)
        assert "\x1b" not in out
    return row(look, *given, base=base)


def line(pattern, command, *given, status=0):
    """The output of the whole command line matches."""
    def look(bench):
        for _ in range(5):
            done = bench.call(*command.split(), *given)
            # A measurement that a busy machine kept from taking place.
            if "nothing is measured" not in done.stderr:
                break
        found = done.stdout + done.stderr
        assert done.returncode == status, (command, given, found)
        assert re.search(pattern, found), (command, given, found)
    return row(look, *given)


NOBODY = ["--coordinator", "127.0.0.1:1"]
ASKS = {
    "coordinator": r"nobody listens at 127\.0\.0\.1:1",
    "certificates": r"no-such: No such file",
}


def of_ctl(command):
    return {
        "coordinator": line(ASKS["coordinator"], command, *NOBODY,
                            "--certificates", "asks", status=1),
        "certificates": line(ASKS["certificates"], command, *NOBODY,
                             "--certificates", "no-such", status=1),
    }


def bench_rows(command, *least, **rows):
    """Flags of a measurement, each refused by its own line where it cannot be
    what was asked: none is read too late, or not at all."""
    return {name.replace("_", "-"): line(pattern, command, *least,
                                         f"--{name.replace('_', '-')}", value,
                                         status=status)
            for name, (pattern, value, status) in rows.items()}


NO_FOLDER = (r"there is no folder", "no-such/x.json", 1)
MOVE = "ctl move-slices --coordinator 127.0.0.1:1 --certificates asks"

OTHERS = {
    "plan": {
        "best-mesh-of": prints(r"data=2,stage=1 of 2 devices: a step of",
                               "--best-mesh-of", "2", command="plan",
                               base=[*MESHED, "--model",
                                     "sleep:1ms+1ms+1ms-4"]),
    },
    "evaluate": {
        **reads("evaluate"),
        "summary": writes("--summary", "evaluated.json", command="evaluate",
                          base=["--checkpoint", WEIGHTS]),
    },
    "predict": {
        **reads("predict", "--out", "predictions.txt"),
        "out": writes("--out", "others.txt", command="predict",
                      base=["--checkpoint", WEIGHTS]),
        "output": prints_other("predict", ["--out", "predictions.txt",
                                           "--checkpoint", WEIGHTS], DATA,
                               "--output", "probabilities"),
    },
    "role": {
        "coordinator": line(r"nobody listens|0\.\d s: no coordinator|"
                            r"waits for the coordinator|is the coordinator",
                            "role worker:0 --certificates asks", *NOBODY,
                            status=1),
        "voters": line(r"name three or five", "role coordinator --data x:y",
                       "--voters", "127.0.0.1:1,127.0.0.1:2", status=2),
        "voter": line(r"--voters names 3", "role coordinator --data "
                      "synthetic:digits --voters 127.0.0.1:1,127.0.0.1:2,"
                      "127.0.0.1:3", "--voter", "4", status=2),
        "token": line(r"is no token", "role worker:0 --certificates asks "
                      "--coordinator 127.0.0.1:1", "--token", "abc", status=1),
    },
    "voter": {
        "listen": line(r"--listen 10\.0\.0\.3:x|HOST:PORT", "voter",
                       "--listen", "10.0.0.3:x", status=2),
        "certificates": line(ASKS["certificates"], "voter --journal vote.db",
                             "--certificates", "no-such", status=1),
        "journal": line(r"there is no folder", "voter --certificates asks",
                        "--journal", "no-such/vote.db", status=1),
    },
    "bench step": {
        "json": writes("--json", "step.json", command="bench step",
                       base=["--steps", "12", "--epochs", "0"]),
    },
    "bench data": {
        **bench_rows("bench data --data synthetic:digits?samples=64",
                     json=NO_FOLDER, threads=("expected|1 to 256", "0", 2),
                     seconds=("1 to 3600", "0", 2), seed=("0 to", "x", 2),
                     data_memory=("bytes|memory", "1000", 1)),
        **elsewhere("bench data", "--data", "synthetic:digits?samples=64"),
        "data": line(r"no-such", "bench data", "--data", "csv:no-such",
                     status=1),
    },
    "bench kernels": {
        "isa": line(r"sse4, avx2, avx512 or neon", "bench kernels", "--isa", "mmx",
                    status=2),
        "json": line(NO_FOLDER[0], "bench kernels", "--json", NO_FOLDER[1],
                     status=1),
        "config": line(r"no-such.toml", "bench kernels", "--config",
                       "no-such.toml", status=1),
        "print-config": line(r"(?m)^# repetitions = 20", "bench kernels",
                             "--print-config"),
        "repetitions": line(r"1 to 1000000", "bench kernels", "--repetitions",
                            "0", status=2),
    },
    "bench all-reduce": bench_rows(
        "bench all-reduce --rounds 1 --peers . --members 2 --bytes 4KiB",
        json=NO_FOLDER) | {
            name: line(pattern, "bench all-reduce", *words)
            for name, pattern, words in (
                ("members", r"(?m)^.*\b3\b", "--members 3 --bytes 4KiB "
                 "--rounds 1 --peers . --link memory".split()),
                ("bytes", r"8\.?0? ?KiB|8192", "--bytes 8KiB --members 2 "
                 "--rounds 1 --peers . --link memory".split()),
                ("link", r"memory", "--link memory --bytes 4KiB --members 2 "
                 "--rounds 1 --peers .".split()),
                ("reduction", r"fast", "--reduction fast --bytes 4KiB "
                 "--members 2 --rounds 1 --peers . --link memory".split()),
                ("rounds", r"median of 1 ", "--rounds 1 --bytes 4KiB --members 2 "
                 "--peers . --link memory".split()),
                ("peers", r"skipped: elsewhere/", "--peers elsewhere --bytes "
                 "4KiB --members 2 --rounds 1 --link tcp".split()))},
    "bench null-step": bench_rows(
        "bench null-step", json=NO_FOLDER, workers=("1 to 1000", "0", 2),
        bytes=("whole float32", "5", 2), filled=("whole float32", "5", 2),
        ps=("1 to 1000", "0", 2)),
    "bench parameter-server": bench_rows(
        "bench parameter-server", json=NO_FOLDER, rounds=("1 to", "0", 2),
        bytes=("one size", "4,8", 2), pairs=("0 to", "-1", 2)) | {
            "peers": tested("tests/bench/parameter_server_test.py",
                            "--peers", ".")},
    "bench pipeline": bench_rows(
        "bench pipeline", json=NO_FOLDER, stages=("1 to 64", "0", 2),
        micro_batches=("1 to 1000", "0", 2), schedule=("unknown", "best", 2),
        pass_ms=("1 to 10000", "0", 2), chunks=("1 to 16", "0", 2), recompute=("no operator or layer 'x'", "x", 2),
        steps=("3 to 1000", "2", 2)),
    "bench recovery": bench_rows(
        "bench recovery", json=NO_FOLDER, trials=("1 to", "0", 2),
        kinds=("use worker", "x", 2), seed=("0 to", "x", 2)),
    "bench goodput": bench_rows(
        "bench goodput", json=NO_FOLDER, kills=("1 to", "0", 2),
        every=("1 to", "0", 2), kinds=("use worker", "x", 2),
        seed=("0 to", "x", 2)),
    "status": {
        "metrics-address": line(r"127\.0\.0\.1:1", "status",
                                "--metrics-address", "127.0.0.1:1", status=1),
        "metrics-token": tested("tests/process/remote_metrics_test.py",
                                "--metrics-token", "t"),
        "certificates": line(r"no-such", "status 127.0.0.1:1",
                             "--certificates", "no-such", status=1),
    },
    "top": {
        "metrics-address": line(r"127\.0\.0\.1:1", "top",
                                "--metrics-address", "127.0.0.1:1", status=1),
        "metrics-token": line(r"no-such", "top 127.0.0.1:1", "--certificates",
                              "no-such", "--metrics-token", "t", status=1),
        "certificates": line(r"no-such", "top 127.0.0.1:1",
                             "--certificates", "no-such", status=1),
        **{flag: tested("tests/process/top_test.py", *given)
           for flag, given in {
               "log-dir": ("--log-dir", "logs"), "once": ("--once",),
               "sort": ("--sort", "compute"), "group": ("--group",),
               "filter": ("--filter", "worker")}.items()},
        "no-color": tested("tests/process/top_test.py", "--no-color"),
    },
    "doctor": {
        "metrics-address": line(r"127\.0\.0\.1:1", "doctor",
                                "--metrics-address", "127.0.0.1:1", status=1),
        "metrics-token": line(r"no-such", "doctor 127.0.0.1:1",
                              "--certificates", "no-such",
                              "--metrics-token", "t", status=1),
        **{flag: tested("tests/process/doctor_test.py", f"--{flag}")
           for flag in ("certificates", "coordinator", "listen", "data",
                        "devices")},
    },
    "timeline": {
        "out": tested("tests/process/timeline_test.py", "--out"),
    },
    "events": {
        "kind": line(r"\Asteps|commits +steps 0", "events events.db",
                     "--kind", "commits"),
        "role": line(r"\A(?!.*commits).*epoch", "events events.db",
                     "--role", "worker:0"),
        "since-step": line(r"\A(?!.*epoch 1 from step 0)", "events events.db",
                           "--since-step", "3"),
        "json": line(r'^{"id":1,', "events events.db", "--json"),
        "flight": tested("tests/process/timeline_test.py", "--flight"),
    },
    "ctl consistency": of_ctl("ctl consistency sync"),
    "ctl shards": of_ctl("ctl shards add 1"),
    "ctl workers": of_ctl("ctl workers add 1"),
    "ctl rebalance": of_ctl("ctl rebalance"),
    "ctl move-slices": {
        **of_ctl("ctl move-slices --from ps:0 --to ps:1"),
        "from": line(r"name two shards", MOVE, "--to", "ps:1", "--from", "x", status=2),
        "to": line(r"name two shards", MOVE, "--from", "ps:1", "--to", "x", status=2),
        "slices": line(r"x", f"{MOVE} --from ps:0 --to ps:1", "--slices", "x",
                       status=2),
    },
    "certificates new": {
        "certificates": writes("--certificates", "made", suffix="/ca.pem",
                               command="certificates new worker:1", data=[]),
        "certificate-seconds": certificate_seconds,
        "out": writes("--out", "apart", suffix="/worker-1.pem", data=[],
                      command="certificates new worker:1 --certificates asks"),
    },
    "certificates token": {
        "certificates": line(r"no-such", "certificates token worker:1",
                             "--certificates", "no-such", status=1),
        "token-seconds": line(r"1 to", "certificates token worker:1 "
                              "--certificates asks", "--token-seconds", "0",
                              status=2),
    },
    "certificates renew": {
        **of_ctl("certificates renew worker:0"),
        "coordinator": line(r"HOST:PORT", "certificates renew worker:0 "
                            "--certificates asks", "--coordinator", "nowhere",
                            status=2)},
    "certificates revoke": {
        **of_ctl("certificates revoke worker:1"),
        "coordinator": line(r"the coordinator at 127\.0\.0\.1:1",
                            "certificates revoke worker:1 --certificates asks",
                            *NOBODY, status=1)},
    "certificates show": {
        "certificates": line(r"operator", "certificates show",
                             "--certificates", "asks")},
    "launch": {
        "hosts": line(r"localhost, 2 of 3 slots", "launch", "--hosts",
                      "localhost:3", *DRY),
        "hosts-between": line(
            r"with 1 of these hosts, 2 at most", "launch", "-H",
            "localhost:2,h1:3", "--hosts", "1:2", "--dry-run", "--", "train",
            *DATA, "--strategy", "parameter_server", "--workers", "1:2"),
        "hosts-file": line(r"no-such.txt", "launch", "--hosts-file",
                           "no-such.txt", *DRY, status=1),
        "address": line(r"--listen 10\.0\.0\.1:PORT", "launch -H a:2",
                        "--address", "10.0.0.1", *DRY),
        "remote-path": line(r" a /opt/troupe node", "launch -H a:2",
                            "--remote-path", "/opt/troupe", *DRY),
        "ssh": line(r"  ssh -p 2222 -o ", "launch -H a:2", "--ssh",
                    "ssh -p 2222", *DRY),
        "connect-deadline-s": line(r"ConnectTimeout=7 ", "launch -H a:2",
                                   "--connect-deadline-s", "7", *DRY),
        "dry-run": line(r"tried before the first step", "launch -H a:2", *DRY),
        "kubernetes": line(r"kind: PodMonitor", "launch", *PODS),
        "name": line(r"name: mine-worker", "launch", "--name", "mine", *PODS),
        "namespace": line(r"namespace: team", "launch", "--namespace", "team", *PODS),
        "image": line(r'image: "example/troupe:1"',
                      "launch", "--image", "example/troupe:1", *PODS),
        "storage": line(r'storage: "3Gi"', "launch", "--storage", "3Gi", *PODS),
        "claim": line(r"claimName: mnist", "launch", "--claim", "mnist:/data", *PODS),
    },
    "chaos": {
        "json": line(NO_FOLDER[0], "chaos", "--json", NO_FOLDER[1], "--",
                     "train", status=1),
        "seed": tested("tests/process/chaos_test.py", "--seed", "1"),
        "faults": line(r"1 to", "chaos", "--faults", "0", "--", "train",
                       status=2),
        "kinds": line(r"use kill", "chaos", "--kinds", "x", "--", "train",
                      status=2),
        "hosts": line(r"2 to 64", "chaos", "--hosts", "1", "--", "train",
                      status=2),
        "steps-after": tested("tests/process/chaos_runs.py", "--steps-after",
                              "30"),
        "plan": line(r"no-such.toml", "chaos --plan no-such.toml -- train "
                     "--data synthetic:digits --strategy parameter_server "
                     "--processes", status=1),
        "write-plan": line(NO_FOLDER[0], "chaos", "--write-plan",
                           "no-such/x.toml", "--", "train", status=1),
    },
    "generate": {
        flag: tested("tests/process/generate_test.py", f"--{flag}")
        for flag in ("model", "isa", "checkpoint", "quiet", "prompt",
                     "max-tokens", "temperature", "top-k", "top-p", "seed",
                     "tokenizer", "ids")},
    "checkpoint export": {
        "out": writes("--out", "exported.safetensors", data=[],
                      command="checkpoint export for-export"),
        "layout": tested("tests/process/generate_test.py", "--layout")},
    "data info": {
        "data": line(r"no-such.csv", "data info", "--data",
                     "csv:no-such.csv", status=1),
        **elsewhere("data info", "--data", "csv:no-such.csv")},
    "model show": {
        "model": line(r"transformer|attention", "model show", "--model",
                      "transformer:L1-H2-D16-T16"),
        "data": line(r"(?s)39|13", "model show dlrm", "--data",
                     "synthetic:clicks?samples=640"),
        **elsewhere("model show cnn"),
        "virtual-ranks": line(r"are more than", "model show cnn",
                              "--virtual-ranks", "65", status=2),
        "virtual-slices": line(r"dense_1\[2\]", "model show mlp:784-16-10",
                               "--virtual-slices", "4"),
        "global-batch": line(r"are more than", "model show cnn",
                             "--global-batch", "3", status=2),
        "config": line(r"no-such.toml", "model show cnn", "--config",
                       "no-such.toml", status=1),
        "print-config": line(r"(?m)^model = .cnn.", "model show cnn",
                             "--print-config"),
        "format": line(r"digraph", "model show cnn", "--format", "dot"),
    },
}
SAME_AS_TRAIN = ("plan", "role", "bench step")


def commands_with_flags():
    """Command -> its flags, as `troupe --help` and each `--help` list them."""
    def listed(text, indent):
        return re.findall(rf"(?m)^ {{{indent}}}(?! )(\S+(?: [a-z-]+)*)(?:  |$)",
                          text)

    overview = subprocess.run([TROUPE, "--help"], capture_output=True,
                              text=True, check=True).stdout
    overview = overview[overview.index("\nCommands\n"):]
    out = {}
    for command in listed(overview, 2):
        text = subprocess.run([TROUPE, *command.split(), "--help"],
                              capture_output=True, text=True,
                              check=False).stdout
        flags = re.findall(r"(?m)^  --([a-z0-9-]+)", text.split(
            "Not available yet")[0])
        if flags:
            out[command] = flags
    return out


class EveryFlag(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.bench = Bench(cls.folder.name)
        cls.bench.output("certificates", "new", "operator", "--certificates",
                         "asks")
        prepare(cls.bench)
        cls.commands = commands_with_flags()
        # Who seeks a coordinator does so for up to half a minute: meanwhile.
        seeking = [x for x in cls.others() if x[1] == "coordinator"]
        pool = concurrent.futures.ThreadPoolExecutor(len(seeking))
        cls.addClassCleanup(pool.shutdown)
        cls.seeking = {(command, flag):
                       pool.submit(OTHERS[command][flag], cls.bench)
                       for command, flag in seeking}

    def look(self, command, flag, look):
        with self.subTest(command=command, flag=flag):
            look(self.bench)

    def test_every_flag_of_train_has_an_effect(self):
        for flag in self.commands["train"]:
            with self.subTest(flag=flag):
                self.assertIn(flag, TRAIN)
                TRAIN[flag](self.bench)

    def test_what_takes_the_flags_of_train_takes_them_or_says_why_not(self):
        for command in SAME_AS_TRAIN:
            words = ["role", "coordinator"] if command == "role" \
                else command.split()
            for flag in self.commands[command]:
                if flag in OTHERS.get(command, {}) or flag not in TRAIN:
                    continue
                with self.subTest(command=command, flag=flag):
                    self.check_taken(words, flag, TRAIN[flag])

    def check_taken(self, words, flag, look):
        if flag in ("config", "print-config"):
            return
        given = [x.replace("PORT", "0") for x in (*look.base, *look.given)
                 if x != "--print-config"]
        data = [] if "--data" in given else DATA
        done = self.bench.call(*words, *data, *given, "--print-config")
        if done.returncode == 0:
            self.assertRegex(done.stdout, rf"(?m)^{flag} = ")
        else:
            self.assertRegex(done.stderr, r"\Atroupe: [^\n]*\n\Z")

    @classmethod
    def others(cls):
        """The flags of other commands that are not merely those of train."""
        for command, flags in cls.commands.items():
            for flag in flags:
                own = flag in OTHERS.get(command, {})
                if command != "train" and (own or flag not in TRAIN
                                           or command not in SAME_AS_TRAIN):
                    yield command, flag

    def test_every_flag_of_another_command_has_an_effect(self):
        for command, flag in self.others():
            with self.subTest(command=command, flag=flag):
                self.assertIn(flag, OTHERS.get(command, {}))
                if (command, flag) not in self.seeking:
                    OTHERS[command][flag](self.bench)

    def test_who_seeks_a_coordinator_says_that_there_is_none(self):
        self.assertGreater(len(self.seeking), 5)
        for row, found in self.seeking.items():
            with self.subTest(row=row):
                found.result(90)

    def test_no_row_is_of_a_flag_that_is_gone(self):
        for command, rows in {"train": TRAIN, **OTHERS}.items():
            self.assertLessEqual(set(rows), set(self.commands[command]),
                                 command)


if __name__ == "__main__":
    unittest.main()
