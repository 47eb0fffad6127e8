#!/usr/bin/env python3
"""Models of seven shapes: Troupe beside PyTorch, eager and compiled.

    models.py [--python INTERPRETER] [--rounds 3] [--threads 1,2]
              [--model NAME]... [--eager] [--generate] [--json FILE]

Models and batches as in CASES, float32, Adam (PyTorch's fused one), data that
the peer draws and both sides read from files. First the losses of a few steps
over one batch are compared: PyTorch, eager and compiled, begins with the
weights that Troupe draws. Then the sides take turns. A side's figure is the
median over its rounds of a round's median step, gathering of the batch
included. With N threads Troupe is the better of one device of N threads and
mirrored on N devices of one thread, and the peer the best of all that was
measured with at most N threads, eager and compiled.

On a machine that others use, too, what a side's threads computed says more than
the clock: their processor time a step is printed beside, start and end of
Troupe's process taken off by a run of one step (threads that wait for others by
spinning count).

The limit is what takes longer: a step's FLOPs (`troupe model show`) at the best
product of two matrices, or its least bytes at the best copy, both by PyTorch
with that many threads in the same run. Bars: 1.5 times the peer or 85 % of the
limit, and no more resident memory than the peer's.

--eager leaves the compiled peer out. --generate: instead, 256 tokens from two GPT-2s with drawn weights, greedy, beside
transformers' generate. Bars: below 10 million parameters 2 times the peer, above
80 % of the limit: bytes of weights a token at the best rate of reading. Troupe
takes one thread there.

Status 77 where there is no usable PyTorch. A compiled one needs a C++ compiler.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import ddp

WORKER = Path(__file__).resolve().with_name("torch_models_worker.py")
COMPARED = 4        # steps whose losses are compared, 2 of the large model
CLOSE = 1e-3        # so far two losses may differ
SKIPPED = 2         # steps before a peer's first round, 1 of the large model
RATIO_BAR = 1.5
LIMIT_BAR = 0.85
DEADLINE_S = 1800


@dataclass
class Case:
    name: str
    model: str
    batch: int
    steps: int      # of a round
    data: str       # as Troupe reads them
    flags: tuple = ()
    rate: float = 1e-3  # of learning: wide models want less

    @property
    def compared(self):
        return min(COMPARED, max(2, self.steps - 1))

    @property
    def skipped(self):
        return min(SKIPPED, self.steps - 2)


IMAGES = "npy:{}_features.npy?labels={}_labels.npy"
TEXT = "text:{}.txt"
CASES = [
    Case("resnet20", "resnet20", 128, 12, IMAGES),
    Case("cnn", "cnn", 64, 60, IMAGES),
    Case("small", "transformer:L4-H4-D128-T64", 12, 60, TEXT),
    Case("middle", "transformer:L6-H6-D384-T256", 8, 6, TEXT, rate=1e-4),
    Case("large", "transformer:L12-H12-D768-T512", 2, 8, TEXT, rate=1e-6),
    # PyTorch's Adam moves all rows of a table.
    Case("dlrm", "dlrm", 2048, 40, "criteo:{}.tsv",
         ("--sparse-updates", "exact")),
    Case("mlp", "mlp:784-4096-4096-10", 256, 12, IMAGES, rate=1e-5),
]


@dataclass
class Written:
    """A GPT-2 that goes on with a text."""
    name: str
    layers: int
    width: int
    window: int
    vocabulary: int


WRITTEN = [Written("6 million", 8, 256, 512, 256),
           Written("124 million", 12, 768, 1024, 50257)]
PROMPT = [11, 45, 97, 3, 200, 31, 8, 64]
TOKENS = 256


# --- the two sides ------------------------------------------------------------

class Troupe:
    """One way to use some threads."""

    def __init__(self, program, case, folder, threads, mirrored):
        self.name = (f"troupe, mirrored on {threads}" if mirrored else
                     f"troupe, one device of {threads}")
        self.threads = threads
        self.case = case
        self.folder = folder
        self.runs = []
        self.cpu_ms = []
        self.peak = 0
        parts = threads if mirrored else 1
        self.command = [
            str(program), "train", "--strategy",
            "mirrored" if mirrored else "one_device", "--devices",
            f"cpu:{parts}", "--threads-per-device", str(threads // parts),
            "--model", case.model, "--global-batch", str(case.batch),
            "--epochs", "0", "--eval-every", "0", "--join-deadline-ms",
            "300000", *case.flags]

    def launch(self, part, steps, *flags, ranks=None):
        """Summary, output and the processor's seconds."""
        path = self.folder / "summary.json"
        data = self.case.data.replace("{}", f"{self.folder}/{part}")
        before = ddp.own_seconds()
        done = subprocess.run(
            [*self.command, "--data", data, "--steps", str(steps),
             "--virtual-ranks", str(ranks or self.threads), *flags,
             "--summary", str(path)],
            capture_output=True, text=True, timeout=DEADLINE_S)
        if done.returncode:
            raise ddp.Wrong(f"{self.name}: status {done.returncode}: "
                            f"{done.stderr.strip()}")
        return (json.loads(path.read_text()), done.stdout,
                ddp.own_seconds() - before)

    def draw(self, path):
        """Writes the weights of step 0: what so small a rate adds to a weight
        is rounded away, or leaves a 0 below 1e-20."""
        self.launch("few", 1, "--optimizer", "sgd", "--lr", "1e-30", "--save",
                    str(path))

    def losses(self):
        """Of one rank: norms are over a rank's samples, the peer's over all."""
        said = self.launch("few", self.case.compared, "--optimizer", "adam",
                           "--lr", str(self.case.rate), "--log-every", "1",
                           ranks=1)[1]
        return [float(x) for x in re.findall(r"(?m)^epoch .* loss (\S+)",
                                             said)][:self.case.compared]

    def run(self):
        flags = ["--optimizer", "adam", "--lr", str(self.case.rate)]
        start = self.launch("many", 1, *flags)[2]
        summary, _, seconds = self.launch("many", self.case.steps, *flags)
        self.isa = summary["isa"]
        self.peak = max(self.peak, summary["peak_memory_bytes"])
        self.runs.append(summary["step_ms"]["p50"])
        self.cpu_ms.append(1e3 * (seconds - start) / (self.case.steps - 1))


def environment(threads):
    return {**ddp.peer_environment(), "OMP_NUM_THREADS": str(threads),
            "MKL_NUM_THREADS": str(threads)}


class Torch:
    """A process that stays, so that it compiles once."""

    def __init__(self, python, threads, case=None, folder=None, weights=None,
                 compiled=False):
        self.name = (f"torch, {'compiled' if compiled else 'eager'}, "
                     f"{threads}")
        self.threads = threads
        self.case = case
        self.runs = []
        self.cpu_ms = []
        self.peak = 0
        self.said = tempfile.TemporaryFile("w+")
        flags = []
        if case:
            flags = ["--train", str(folder), "--weights", str(weights),
                     "--model", case.model, "--batch", str(case.batch),
                     "--rate", str(case.rate),
                     *(["--compiled"] if compiled else [])]
        self.process = subprocess.Popen(
            [python, str(WORKER), *flags, "--threads", str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.said, text=True, env=environment(threads))

    def ask(self, command):
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it says below why it has ended
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.said.seek(0)
            if self.process.returncode == ddp.SKIP:
                raise ddp.Unusable(self.said.read().strip())
            raise ddp.Wrong(f"{self.name}: {command}: status "
                            f"{self.process.returncode}: "
                            f"{self.said.read().strip()[-400:]}")
        answer = json.loads(line)
        self.cpu_seconds = answer["cpu_seconds"]
        return answer

    def losses(self):
        return self.ask(f"losses {self.case.compared}")["losses"]

    def run(self):
        if not self.runs:
            self.ask(f"steps {self.case.skipped}")
        answer = self.ask(f"steps {self.case.steps}")
        self.peak = answer["peak_bytes"]
        self.runs.append(answer["step_ms"])
        self.cpu_ms.append(1e3 * answer["cpu_seconds"] / self.case.steps)

    def end(self):
        self.process.kill()
        self.process.communicate()


def call_worker(python, threads, *flags):
    done = subprocess.run([python, str(WORKER), *flags, "--threads",
                           str(threads)], capture_output=True, text=True,
                          env=environment(threads), timeout=DEADLINE_S)
    if done.returncode == ddp.SKIP:
        raise ddp.Unusable(f"{python}: {done.stderr.strip()}")
    if done.returncode:
        raise ddp.Wrong(f"torch: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout else None


# --- the limit ----------------------------------------------------------------

class Machine:
    """The best rates so far, by number of threads, and who finds them: processes
    that stay, and that draw data, too."""

    def __init__(self, python):
        self.python = python
        self.peers = {}
        self.best = {}

    def peer(self, threads):
        if threads not in self.peers:
            self.peers[threads] = Torch(self.python, threads)
        return self.peers[threads]

    def measure(self, threads):
        found = self.peer(threads).ask("machine")
        known = self.best.setdefault(threads, found)
        for name in ("gflops", "copy_gb", "read_gb"):
            known[name] = max(known[name], found[name])

    def end(self):
        for peer in self.peers.values():
            peer.end()

    def describe(self, threads):
        best = self.best[threads]
        return (f"{threads} threads: {best['gflops']:.0f} GFLOP/s, "
                f"{best['copy_gb']:.1f} GB/s copied, {best['read_gb']:.1f} "
                "GB/s read, an idle torch "
                f"{best['idle_bytes'] / 2 ** 20:.0f} MiB")

    def least_ms(self, work, threads):
        """Of a step, and what bounds it."""
        best = self.best[threads]
        return max((work["flops"] / best["gflops"] / 1e6, "products"),
                   (work["bytes"] / best["copy_gb"] / 1e6, "bytes"))


def work_of(program, case, folder):
    """FLOPs of a step and its least bytes: Adam reads value, gradient and both
    moments, writes all but the gradient, which was written before; rows of
    tables are read, and their gradients written."""
    data = case.data.replace("{}", f"{folder}/few")
    shown = subprocess.run(
        [str(program), "model", "show", case.model, "--data", data],
        capture_output=True, text=True, timeout=60, check=True).stdout
    parameters = int(re.search(r"parameters: (\d+)", shown)[1])
    rows = 2 * 4 * 26 * 16 if case.name == "dlrm" else 0
    return {"parameters": parameters, "bytes": 32 * parameters
            + case.batch * rows,
            "flops": case.batch * int(re.search(
                r"forward and backward: (\d+)", shown)[1])}


# --- the figures --------------------------------------------------------------

def compare_losses(case, ours, peers):
    found = ours.losses()
    for peer in peers:
        theirs = peer.losses()
        print(f"{case.name}, {peer.name}: losses of {len(found)} steps "
              f"{found[0]:.4f} to {found[-1]:.4f}, there {theirs[0]:.4f} to "
              f"{theirs[-1]:.4f}", flush=True)
        if len(found) != len(theirs) or found[-1] >= found[0] or any(
                abs(a - b) > CLOSE * max(1, b) for a, b in zip(found, theirs)):
            raise ddp.Wrong(f"{case.name}: losses differ: {found}, {theirs}")


def paired(over, under):
    """The median over the rounds: what disturbs a round disturbs both."""
    return statistics.median(a / b for a, b in zip(over.runs, under.runs))


def median(side):
    return statistics.median(side.runs)


def cpu_ms(side):
    return statistics.median(side.cpu_ms)


def measure(case, sides, arguments):
    shares = []
    for number in range(1, arguments.rounds + 1):
        for side in sides:
            with ddp.Others() as others:
                side.run()
                if isinstance(side, Torch):
                    others.ours = side.cpu_seconds
            shares.append(others.share)
            print(f"{case.name}, round {number}: {side.name:<24}"
                  f"{side.runs[-1]:>10.2f} ms a step, {side.cpu_ms[-1]:.2f} of "
                  f"the processor, others took "
                  f"{others.share:.0%} of the machine", flush=True)
    return shares


def report(case, threads, sides, peers, work, machine):
    """A cell: the best of Troupe's ways beside the best of the peer's."""
    ours = min((s for s in sides if isinstance(s, Troupe)), key=median)
    peer = min(peers, key=median)
    ratio = paired(peer, ours)
    least, bound = machine.least_ms(work, threads)
    share = least / median(ours)
    alone = machine.least_ms(work, min(machine.best))[0]
    met = ratio >= RATIO_BAR or share >= LIMIT_BAR
    print(f"\n{case.model}, batch {case.batch}, {threads} threads: samples/s, "
          "MiB at most")
    for side in (*sides, *(p for p in peers if p not in sides)):
        mark = "*" if side in (ours, peer) else " "
        print(f" {mark}{side.name:<26}{1e3 * case.batch / median(side):>9.1f} "
              f"(spread {ddp.spread(side.runs):.0%}, "
              f"{least / median(side):.0%} of the limit)"
              f"{side.peak / 2 ** 20:>8.0f}, processor "
              f"{cpu_ms(side):.2f} ms a step, "
              f"{alone / cpu_ms(side):.0%} of one core's limit")
    light = ours.peak <= peer.peak
    cpu_peer = min(peers, key=cpu_ms)
    cpu_ratio = cpu_ms(cpu_peer) / cpu_ms(ours)
    print(f"ratio {ratio:.2f}, of processor time {cpu_ratio:.2f}, {share:.0%} of what {bound} allow "
          f"({1e3 * case.batch / least:.1f}): {'met' if met else 'missed'}; "
          f"memory {'met' if light else 'missed'}", flush=True)
    return {"name": f"{case.model} batch {case.batch}", "threads": threads,
            "members": 1, "bytes": 4 * work["parameters"],
            "way": ours.name, "isa": ours.isa,
            "ours_us": 1e3 * median(ours), "spread": ddp.spread(ours.runs),
            "peer": peer.name, "peer_us": 1e3 * median(peer),
            "peer_spread": ddp.spread(peer.runs),
            "ratio": ratio, "limit_share": share, "bound": bound, "met": met,
            "cpu_us": 1e3 * cpu_ms(ours), "peer_cpu_us": 1e3 * cpu_ms(cpu_peer),
            "cpu_limit_share": alone / cpu_ms(ours),
            "peak_bytes": ours.peak, "peer_peak_bytes": peer.peak,
            "all": {side.name: side.runs for side in (*sides, *peers)}}


def train(case, program, machine, arguments):
    rows, peers = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        weights = folder / "weights.safetensors"
        machine.peer(1).ask(f"write {name} {case.model} {case.batch}")
        work = work_of(program, case, folder)
        for threads in arguments.threads:
            ways = [Troupe(program, case, folder, threads, mirrored)
                    for mirrored in ((False, True) if threads > 1
                                     else (False,))]
            if not weights.exists():
                ways[0].draw(weights)
            here = [Torch(arguments.python, threads, case, folder, weights,
                          compiled)
                    for compiled in ([False] if arguments.eager
                                     else [False, True])]
            try:
                compare_losses(case, ways[0], here)
                machine.measure(threads)
                shares = measure(case, [*ways, *here], arguments)
            finally:
                for peer in here:
                    peer.end()
            peers += here
            rows.append(report(case, threads, [*ways, *here], peers, work,
                               machine))
            rows[-1]["others"] = statistics.median(shares)
    return rows


# --- text ---------------------------------------------------------------------

def generated(program, folder):
    """Tokens, tokens a second and peak memory."""
    process = subprocess.Popen(
        [str(program), "generate", "--model", f"{folder}/config.json",
         "--checkpoint", f"{folder}/model.safetensors", "--ids",
         "--max-tokens", str(TOKENS), "--prompt", " ".join(map(str, PROMPT))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL, text=True)
    said = process.stdout.read()
    speed = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise ddp.Wrong(f"troupe generate: {speed}")
    return ([int(x) for x in said.split()],
            float(re.search(r"([\d.]+) tokens/s", speed)[1]),
            1024 * usage.ru_maxrss)


def write(text, program, machine, arguments):
    ours, theirs = [], {n: [] for n in arguments.threads}
    with tempfile.TemporaryDirectory() as folder:
        about = call_worker(
            arguments.python, 1, "--draw", folder, "--layers",
            str(text.layers), "--width", str(text.width), "--window",
            str(text.window), "--vocabulary", str(text.vocabulary))
        machine.measure(1)
        for number in range(1, arguments.rounds + 1):
            with ddp.Others() as others:
                ids, rate, peak = generated(program, folder)
            ours.append(rate)
            print(f"{text.name}, round {number}: troupe {rate:.1f} tokens/s, "
                  f"others took {others.share:.0%} of the machine")
            for threads, runs in theirs.items():
                with ddp.Others() as others:
                    answer = call_worker(
                        arguments.python, threads, "--generate", folder,
                        "--prompt", json.dumps(PROMPT), "--tokens",
                        str(TOKENS))
                runs.append(answer["tokens_s"])
                print(f"{text.name}, round {number}: transformers, {threads} "
                      f"threads, {runs[-1]:.1f} tokens/s, others took "
                      f"{others.share:.0%} of the machine", flush=True)
        machine.measure(1)
    same = next((i for i, (a, b) in enumerate(zip(ids, answer["ids"]))
                 if a != b), TOKENS)
    threads = max(theirs, key=lambda n: statistics.median(theirs[n]))
    ratio = statistics.median(a / b for a, b in zip(ours, theirs[threads]))
    limit = 1e9 * machine.best[1]["read_gb"] / about["read_bytes"]
    share = statistics.median(ours) / limit
    met = ratio >= 2 if about["parameters"] < 1e7 else share >= 0.8
    print(f"\n{text.name} ({about['parameters']} parameters), {TOKENS} tokens "
          f"({same} the same): {statistics.median(ours):.1f} tokens/s (spread "
          f"{ddp.spread(ours):.0%}), transformers {answer['version']} with "
          f"{threads} threads {statistics.median(theirs[threads]):.1f} "
          f"({ddp.spread(theirs[threads]):.0%}): ratio {ratio:.2f}, "
          f"{share:.0%} of the {limit:.0f} that reading allows: "
          f"{'met' if met else 'missed'}; MiB {peak / 2 ** 20:.0f}, there "
          f"{answer['peak_bytes'] / 2 ** 20:.0f}", flush=True)
    return [{"name": f"generate {text.name}", "members": 1,
             "bytes": about["read_bytes"],
             "ours_us": 1e6 / statistics.median(ours),
             "spread": ddp.spread(ours), "peer": "transformers",
             "peer_version": answer["version"], "threads": threads,
             "peer_us": 1e6 / statistics.median(theirs[threads]),
             "ratio": ratio, "limit_share": share, "met": met,
             "same_tokens": same, "peak_bytes": peak,
             "peer_peak_bytes": answer["peak_bytes"]}]


def parse():
    parser = ddp.flags(__doc__, "steps-percent")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--model", action="append",
                        choices=[case.name for case in CASES])
    parser.add_argument("--eager", action="store_true",
                        help="leave the compiled peer out")
    parser.add_argument("--generate", action="store_true")
    arguments = parser.parse_args()
    arguments.threads = [int(n) for n in arguments.threads.split(",")]
    if arguments.rounds < 1 or min(arguments.threads) < 1:
        parser.error("at least 1 round and 1 thread are needed")
    return arguments


def main():
    arguments = parse()
    program = ddp.find_program()
    if program is None:
        return 1
    print(f"{ddp.machine()}, load {os.getloadavg()[0]:.2f}", flush=True)
    machine, rows, failed = Machine(arguments.python), [], False
    cases = WRITTEN if arguments.generate else [
        case for case in CASES
        if not arguments.model or case.name in arguments.model]
    for case in cases:
        try:
            if arguments.generate:
                rows += write(case, program, machine, arguments)
            else:
                case.steps = max(3, case.steps * arguments.steps_percent
                                 // 100)
                rows += train(case, program, machine, arguments)
        except (ddp.Unusable, OSError) as reason:
            print(f"skipped: {reason}")
            machine.end()
            return ddp.SKIP
        except ddp.Wrong as reason:
            print(f"not measured: {reason}", file=sys.stderr)
            failed = True
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    machine.end()
    for threads in sorted(machine.best):
        print(machine.describe(threads))
    print(f"load {os.getloadavg()[0]:.2f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
