#!/usr/bin/env python3
"""Reads the same files by Troupe and by what others read them with: a table of
numbers by pandas' C reader, small TFRecords by tf.data; and records of 1 KiB in
random order, by Troupe alone. Turn by turn, and by processor time, since other
work may be on the machine. Peers are looked for where this Python finds
packages:

    python3 -m venv build/sources && build/sources/bin/pip install pandas tensorflow-cpu
    TROUPE=build/release/apps/troupe build/sources/bin/python tests/peers/data_sources.py

Arguments: which of tables, records and random; else all. Prints a table. Status: 0, or 77 where no peer is installed.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

TROUPE = os.environ["TROUPE"]
ROUNDS = 5
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""


def imported(name):
    try:
        return __import__(name)
    except ImportError:
        return None


pandas, pyarrow, tensorflow = map(imported, ("pandas", "pyarrow", "tensorflow"))


def reading(data, model):
    """Processor seconds of a program that reads all of the samples."""
    def spent():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime
    begin = spent()
    subprocess.run([TROUPE, "model", "show", model, "--data", data],
                   check=True, stdout=subprocess.DEVNULL)
    return spent() - begin


def compared(name, amount, unit, ours, theirs):
    """A row: the medians of turns, `amount` a processor second."""
    times = {"ours": [], "theirs": []}
    for _ in range(ROUNDS):
        times["ours"].append(ours())
        times["theirs"].append(theirs())
    mine, peer = (amount / statistics.median(x) for x in times.values())
    spreads = [f"{(max(x) - min(x)) / statistics.median(x):.0%}"
               for x in times.values()]
    print(f"| {name} | {mine:.4g} {unit} ({spreads[0]}) | {peer:.4g} "
          f"({spreads[1]}) | {mine / peer:.2f} |", flush=True)


def tables(folder):
    import numpy
    rows = 400_000
    draw = numpy.random.default_rng(1)
    table = {f"c{i}": draw.normal(0, 10, rows).round(5) for i in range(20)}
    table["y"] = draw.integers(0, 5, rows)
    frame = pandas.DataFrame(table)
    few = os.path.join(folder, "few.csv")
    frame[:100].to_csv(few, index=False)
    types = {**{f"c{i}": "float32" for i in range(20)}, "y": "int32"}

    def timed(call):
        begin = time.process_time()
        call()
        return time.process_time() - begin
    kinds = {"csv": (frame.to_csv, lambda path: pandas.read_csv(
        path, engine="c", dtype=types))}
    if pyarrow:
        kinds["parquet"] = (frame.to_parquet, lambda path: pandas.read_parquet(
            path).astype("float32"))
    for kind, (write, read) in kinds.items():
        path = os.path.join(folder, "all." + kind)
        write(path, index=False)
        # The program's own start is none of the reading.
        start = statistics.median(reading("csv:" + few, "mlp:20-8-5")
                                  for _ in range(ROUNDS))
        compared(f"{kind}, 20 columns of numbers", rows * 21 / 1e6, "M values",
                 lambda: reading(f"{kind}:{path}", "mlp:20-8-5") - start,
                 lambda: timed(lambda: read(path)))


def example(features):
    train = tensorflow.train
    return train.Example(features=train.Features(feature=features)
                         ).SerializeToString()


def whole(value):
    return tensorflow.train.Feature(
        int64_list=tensorflow.train.Int64List(value=[value]))


def records(folder):
    count = 400_000
    path = os.path.join(folder, "small.tfrecord")
    few = os.path.join(folder, "few.tfrecord")
    numbers = [i * 0.37 for i in range(16)]
    for name, most in ((path, count), (few, 100)):
        with tensorflow.io.TFRecordWriter(name) as out:
            for i in range(most):
                numbers[i % 16] = i * 0.001
                out.write(example({"x": tensorflow.train.Feature(
                    float_list=tensorflow.train.FloatList(value=numbers)),
                    "label": whole(i % 5)}))
    tensorflow.config.threading.set_inter_op_parallelism_threads(1)
    tensorflow.config.threading.set_intra_op_parallelism_threads(1)
    wanted = {"x": tensorflow.io.FixedLenFeature([16], "float32"),
              "label": tensorflow.io.FixedLenFeature([], "int64")}

    def theirs():
        begin = time.process_time()
        samples = 0
        data = tensorflow.data.TFRecordDataset(path).batch(256).map(
            lambda x: tensorflow.io.parse_example(x, wanted))
        options = tensorflow.data.Options()
        options.threading.private_threadpool_size = 1
        for batch in data.with_options(options):
            samples += batch["x"].shape[0]
        assert samples == count
        return time.process_time() - begin
    start = statistics.median(reading("tfrecord:" + few, "mlp:16-8-5")
                              for _ in range(ROUNDS))
    compared("tfrecord, 16 floats a record", count / 1e3, "k records",
             lambda: reading("tfrecord:" + path, "mlp:16-8-5") - start, theirs)


def random_access(folder):
    """Samples a second of one thread, from a file of 2 GiB in the page
    cache."""
    path = os.path.join(folder, "large.tfrecord")
    pixels = os.urandom(1000)
    few = os.path.join(folder, "ten.tfrecord")
    with tensorflow.io.TFRecordWriter(few) as out:
        for i in range(10):
            out.write(example({"x": tensorflow.train.Feature(
                bytes_list=tensorflow.train.BytesList(value=[pixels])),
                "label": whole(i)}))
    with open(few, "rb") as file:
        thousand = file.read() * 100
    with open(path, "wb") as out:
        for _ in range(2000):
            out.write(thousand)
        out.flush()
        os.fsync(out.fileno())
    with open(path, "rb") as file:
        while file.read(1 << 24):
            pass
    rows = os.path.join(folder, "rows.json")
    done = subprocess.run(
        [TROUPE, "bench", "data", "--data", "tfrecord:" + path,
         "--data-memory", "1", "--threads", "1", "--seconds", "10", "--json",
         rows], check=True, capture_output=True, text=True)
    print(done.stdout, end="")
    with open(rows) as file:
        row, = json.load(file)
    print(f"| tfrecord, 1 KiB in random order | "
          f"{row['samples_per_second'] / 1e3:.4g} k records "
          f"({row['spread']:.0%}), wall clock | | |")


def main():
    if not (pandas or tensorflow):
        print("skipped: neither pandas nor tensorflow is installed")
        return 77
    wanted = sys.argv[1:] or ["tables", "records", "random"]
    print("| | Troupe, a processor second (spread) | peer | ratio |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TROUPE_CACHE"] = folder
        if pandas and "tables" in wanted:
            tables(folder)
        if tensorflow and "records" in wanted:
            records(folder)
        if tensorflow and "random" in wanted:
            random_access(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
