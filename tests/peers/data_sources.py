#!/usr/bin/env python3
"""Reads the same files by Troupe and by what others read them with: a table of
numbers by pandas' C reader, small TFRecords by tf.data, JPEGs by tf.data, by
PyTorch's DataLoader with torchvision, from a folder and from tar files by the
webdataset package, and by libjpeg-turbo alone; and, by Troupe alone, records of 1 KiB in random order, and training on ten times the memory
that it may have for data, from a file and from an nginx on another core. Turn by turn, and by processor time, since other
work may be on the machine. Peers are looked for where this Python finds
packages:

    python3 -m venv build/sources && build/sources/bin/pip install pandas pyarrow tensorflow-cpu torch torchvision webdataset
    TROUPE=build/release/apps/troupe build/sources/bin/python tests/peers/data_sources.py

Arguments: which of tables, records, pictures, random, larger and store; else all; pictures are
read by one thread, or process, and by two, and `larger` and `store` want to be
on one core (`taskset -c 1`); store is left out where there is no nginx. Prints a
table. Status: 0, or 77 where no peer is installed.
"""

import json
import os
import resource
import shutil
import socket
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


wanted = sys.argv[1:] or ["tables", "records", "pictures", "random", "larger",
                          "store"]
pandas, pyarrow = map(imported, ("pandas", "pyarrow"))
tensorflow, torchvision = map(imported, ("tensorflow", "torchvision"))
webdataset = imported("webdataset")


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
                 lambda: processor_time_of(
                     lambda: read(path)))


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


def processor_time_of(call):
    begin = time.process_time()
    call()
    return time.process_time() - begin


def draw_pictures(folder, count=240):
    """JPEGs of 500x375 with the spectrum of photographs, two classes."""
    import numpy
    from PIL import Image
    draw = numpy.random.default_rng(4)
    high, wide = 375, 500
    rows = numpy.fft.fftfreq(high)[:, None] * high
    columns = numpy.fft.rfftfreq(wide)[None, :] * wide
    fall = 1 / numpy.maximum(1, numpy.hypot(rows, columns)) ** 1.1
    paths = []
    for i in range(count):
        noise = draw.normal(size=(3, *fall.shape)) + 1j * draw.normal(
            size=(3, *fall.shape))
        grey = numpy.fft.irfft2(noise * fall, s=(high, wide))
        image = 0.8 * grey[:1] + 0.2 * grey  # channels go together
        image = 128 + 50 * (image - image.mean()) / image.std()
        pixels = numpy.clip(image, 0, 255).astype("uint8").transpose(1, 2, 0)
        path = os.path.join(folder, "set", str(i % 2), f"{i:05}.jpg")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Image.fromarray(pixels).save(path, quality=90)
        paths.append(path)
    mean = sum(map(os.path.getsize, paths)) / count
    print(f"| {count} JPEGs of 500x375, {mean / 1000:.0f} kB each | | | |")
    return paths


MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def by_tensorflow(paths, threads):
    tf = tensorflow

    def decoded(path):
        data = tf.io.read_file(path)
        shape = tf.io.extract_jpeg_shape(data)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            shape, tf.zeros([0, 0, 4]), area_range=(0.08, 1.0),
            aspect_ratio_range=(3 / 4, 4 / 3), max_attempts=10,
            use_image_if_no_bounding_boxes=True)
        y, x, _ = tf.unstack(begin)
        high, wide, _ = tf.unstack(size)
        image = tf.image.decode_and_crop_jpeg(
            data, tf.stack([y, x, high, wide]), channels=3)
        image = tf.image.resize(image, [224, 224])
        return (image / 255 - tf.constant(MEAN)) / tf.constant(DEVIATION)
    data = tf.data.Dataset.from_tensor_slices(paths).shuffle(
        len(paths)).repeat(2).map(decoded, num_parallel_calls=threads).batch(32)
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    data = data.with_options(options)

    def read():
        count = 0
        for batch in data:
            count += batch.shape[0]
        return count
    return read


def crop_of_torchvision():
    from torchvision import transforms
    return transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.ToTensor(),
        transforms.Normalize(MEAN, DEVIATION)])


def by_torch(images, threads, **how):
    """Two passes of PyTorch's DataLoader: by itself for one core, by two
    processes for two."""
    import torch
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(
        images, batch_size=32, num_workers=threads if threads > 1 else 0,
        **how)

    def read():
        count = 0
        for _ in range(2):
            for batch, _ in loader:
                count += batch.shape[0]
        return count
    return read


def of_folder(folder):
    from torchvision import datasets
    return datasets.ImageFolder(folder, crop_of_torchvision())


def write_tars(paths, folder):
    """The images in four files, by the webdataset package."""
    pattern = os.path.join(folder, "part-%02d.tar")
    with webdataset.ShardWriter(pattern, maxcount=len(paths) // 4,
                                verbose=0) as out:
        for i, path in enumerate(paths):
            with open(path, "rb") as file:
                out.write({"__key__": f"{i:05}", "jpg": file.read(),
                           "cls": i % 2})
    return sorted(os.path.join(folder, name) for name in os.listdir(folder)
                  if name.endswith(".tar"))


def of_tars(tars):
    return webdataset.WebDataset(
        tars, shardshuffle=len(tars), empty_check=False).shuffle(240).decode(
            "pil").to_tuple("jpg", "cls").map_tuple(crop_of_torchvision())


def by_libjpeg_turbo(paths, threads):
    """Whole images, none of their pixels looked at. Null where its own
    interface is not installed."""
    import ctypes
    import ctypes.util
    import threading
    name = ctypes.util.find_library("turbojpeg")
    if name is None:
        return None
    turbo = ctypes.CDLL(name)
    turbo.tjInitDecompress.restype = ctypes.c_void_p

    def decode(some):
        handle = ctypes.c_void_p(turbo.tjInitDecompress())
        pixels = ctypes.create_string_buffer(375 * 500 * 3)
        for path in some:
            with open(path, "rb") as file:
                data = file.read()
            failed = turbo.tjDecompress2(
                handle, data, ctypes.c_ulong(len(data)), pixels, 500, 0, 375,
                0, 0)
            assert failed == 0, path
        turbo.tjDestroy(handle)

    def read():
        many = [threading.Thread(target=decode, args=(2 * paths[i::threads],))
                for i in range(threads)]
        for one in many:
            one.start()
        for one in many:
            one.join()
        return 2 * len(paths)
    return read


def read_by_troupe(data, threads, folder):
    """Images a processor second, and a second."""
    rows = os.path.join(folder, "rows.json")
    subprocess.run(
        [TROUPE, "bench", "data", "--data", data + "?augment="
         "random_resized_crop:224,normalise:imagenet", "--threads",
         str(threads), "--seconds", "4", "--json", rows], check=True,
        stdout=subprocess.DEVNULL)
    with open(rows) as file:
        row, = json.load(file)
    return row["samples_per_processor_second"], row["samples_per_second"]


def rates_of(read):
    """The same of a peer: its threads, and processes that have ended."""
    def spent():
        return sum(os.times()[:4])
    begin, at = spent(), time.monotonic()
    count = read()
    return count / (spent() - begin), count / (time.monotonic() - at)


def pictures(folder):
    paths = draw_pictures(folder)
    images = os.path.join(folder, "set")
    if tensorflow:
        tensorflow.config.threading.set_inter_op_parallelism_threads(2)
        tensorflow.config.threading.set_intra_op_parallelism_threads(1)
    tars = []
    if webdataset and torchvision:
        os.makedirs(os.path.join(folder, "tars"))
        tars = write_tars(paths, os.path.join(folder, "tars"))
    for threads in (1, 2):
        ours = {"": "images:" + images}
        peers = {}
        if tensorflow:
            peers["tf.data"] = by_tensorflow(paths, threads)
        if torchvision:
            peers["DataLoader, torchvision"] = by_torch(
                of_folder(images), threads, shuffle=True)
        if turbo := by_libjpeg_turbo(paths, threads):
            peers["libjpeg-turbo, whole images"] = turbo
        if tars:
            ours[" from tar"] = "tar:" + os.path.join(folder, "tars", "*.tar")
            peers["DataLoader, webdataset"] = by_torch(of_tars(tars), threads)
        compare_pictures(ours, peers, threads, folder)


def compare_pictures(ours, peers, threads, folder):
    found = {name: [] for name in (*ours, *peers)}
    for read in peers.values():
        read()  # once for what comes with the first time
    for _ in range(ROUNDS):
        for name, data in ours.items():
            found[name].append(read_by_troupe(data, threads, folder))
        for name, read in peers.items():
            found[name].append(rates_of(read))
    for way, per in enumerate(("a processor second", "a second")):
        rates = {name: [x[way] for x in values]
                 for name, values in found.items()}
        middle = {name: statistics.median(x) for name, x in rates.items()}
        spread = {name: f"{(max(x) - min(x)) / middle[name]:.0%}"
                  for name, x in rates.items()}
        for name in peers:
            mine = " from tar" if name.endswith("webdataset") else ""
            print(f"| JPEG 500x375{mine} to a crop of 224, normalised, "
                  f"{threads} at once | {middle[mine]:.4g} images {per} "
                  f"({spread[mine]}) | {name}: {middle[name]:.4g} "
                  f"({spread[name]}) | {middle[mine] / middle[name]:.2f} |",
                  flush=True)


def records_of_bytes(folder, count):
    """TFRecords of 784 bytes and a class, as TensorFlow would write them."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                    "..", "fuzz"))
    import seeds
    path = os.path.join(folder, "bytes.tfrecord")
    some = seeds.tfrecord(*(seeds.example(label=[i % 10],
                                          pixels=os.urandom(784))
                            for i in range(1000)))
    with open(path, "wb") as out:
        for _ in range(count // 1000):
            out.write(some)
    return path


def trained(folder, ways):
    """{way: [(samples a processor second, samples a second by the median step,
    bytes resident)]}, one of each turn; `ways`: {way: (specification, bytes for
    data)}. What a start takes is in both of a run and a longer one."""
    summary = os.path.join(folder, "summary.json")
    batch, short, long = 256, 100, 900

    def run(spec, memory, steps):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [TROUPE, "train", "--data", spec, "--model", "mlp:784-512-256-10",
             "--strategy", "one_device", "--steps", str(steps), "--epochs", "0",
             "--global-batch", str(batch), "--data-memory", str(memory),
             "--threads-per-device", "1", "--quiet", "--summary", summary],
            check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        with open(summary) as file:
            done = json.load(file)
        return (after.ru_utime + after.ru_stime - before.ru_utime
                - before.ru_stime), done
    found = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, (spec, memory) in ways.items():
            start, _ = run(spec, memory, short)
            spent, done = run(spec, memory, long)
            found[way].append((batch * (long - short) / (spent - start),
                               1e3 * batch / done["step_ms"]["p50"],
                               done["peak_memory_bytes"]))
    return found


def print_trained(found):
    """Ways of one turn follow one another: their ratio tells more than that of
    two medians, where a machine is quicker at times."""
    memory = found.pop("memory")

    def median(of, i):
        return statistics.median(x[i] for x in of)

    for way, turns in found.items():
        ratios = [[mine[i] / theirs[i] for mine, theirs in zip(turns, memory)]
                  for i in range(2)]
        print(f"| mlp:784-512-256-10, a tenth held, {way} | "
              f"{median(turns, 0):.5g} samples a processor second, "
              f"{median(turns, 1):.5g} by the clock, "
              f"{median(turns, 2) / 1e6:.0f} MB resident | from memory: "
              f"{median(memory, 0):.5g}, {median(memory, 1):.5g}, "
              f"{median(memory, 2) / 1e6:.0f} MB | "
              + ", ".join(f"{statistics.median(x):.3f} ({min(x):.3f} to "
                          f"{max(x):.3f})" for x in ratios) + " |", flush=True)


COUNT = 400_000
BLOCKS = "?shuffle=blocks&block=4096"


def larger(folder):
    """Training from memory and, with a tenth of it, from the file: sample by
    sample, and by blocks."""
    data = "tfrecord:" + records_of_bytes(folder, COUNT)
    tenth = COUNT * 784 // 10
    print_trained(trained(folder, {
        "memory": (data, 2 * COUNT * 784), "samples": (data, tenth),
        "blocks": (data + BLOCKS, tenth)}))


def store(folder):
    """The same from an nginx, by blocks; it has core 0 for itself."""
    os.chmod(folder, 0o755)
    local = records_of_bytes(folder, COUNT)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with open(os.path.join(folder, "nginx.conf"), "w") as file:
        file.write(f"""
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error;
events {{ worker_connections 256; }}
http {{ access_log off; sendfile on; client_body_temp_path {folder}/b;
  proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{ listen 127.0.0.1:{port}; root {folder}; }} }}
""")
    nginx = subprocess.Popen(
        ["taskset", "-c", "0", shutil.which("nginx"), "-c",
         os.path.join(folder, "nginx.conf"), "-e",
         os.path.join(folder, "error")])
    try:
        time.sleep(1)
        there = f"tfrecord:http://127.0.0.1:{port}/{os.path.basename(local)}"
        print_trained(trained(folder, {
            "memory": ("tfrecord:" + local, 2 * COUNT * 784),
            "blocks from nginx": (there + BLOCKS, COUNT * 784 // 10)}))
    finally:
        nginx.terminate()
        nginx.wait(10)


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
          f"{row['samples_per_processor_second'] / 1e3:.4g} k records a "
          f"processor second, {row['samples_per_second'] / 1e3:.4g} by the "
          f"clock ({row['spread']:.0%}) | | |")


def main():
    if not {"larger", "store"} & set(wanted) and not (pandas or tensorflow or torchvision):
        print("skipped: none of pandas, tensorflow and torchvision is "
              "installed")
        return 77
    print("| | Troupe, a processor second (spread) | peer | ratio |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TROUPE_CACHE"] = folder
        if pandas and "tables" in wanted:
            tables(folder)
        if tensorflow and "records" in wanted:
            records(folder)
        if "pictures" in wanted:
            pictures(folder)
        if tensorflow and "random" in wanted:
            random_access(folder)
        if "larger" in wanted:
            larger(folder)
        if "store" in wanted and shutil.which("nginx"):
            store(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
