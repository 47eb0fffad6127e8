#!/usr/bin/env python3
"""Files as people have them, trained by Troupe and by others on the same split:
a census sample's columns (text, dates, gaps, quotes) beside scikit-learn;
ratings of users and items beside PyTorch; a folder of JPEGs and TFRecords
written by TensorFlow beside Keras; tar shards written by webdataset beside
PyTorch reading them with it. The verdict of each is on samples of its own;
Troupe's has to be within half a point. Packages are looked for where this
Python finds them:

    python3 -m venv build/sources && build/sources/bin/pip install numpy pillow \\
        pandas scikit-learn tensorflow-cpu torch torchvision webdataset
    TROUPE=build/release/apps/troupe build/sources/bin/python tests/peers/real_jobs.py

Arguments: which of census, ratings, folder, records and tars; else all. Prints a
table. Status: 0, 1 where one is more than half a point behind, 77 where a
package is missing.
"""

import csv
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "process"))

try:
    import numpy
    import pandas
    from PIL import Image, ImageDraw, ImageFont
    VERSIONS = {name: metadata.version(package) for name, package in (
        ("scikit-learn", "scikit-learn"), ("tensorflow", "tensorflow-cpu"),
        ("torch", "torch"), ("webdataset", "webdataset"))}
except (ImportError, metadata.PackageNotFoundError) as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import table_data_test as tables  # noqa: E402: who writes such tables

# TensorFlow and PyTorch each bring an LLVM, of which a process bears one: so
# each job is a process, and imports the peer that it needs.

TROUPE = os.environ["TROUPE"]
POINT = 0.005
BEHIND = 3  # the status of a job's process that is
ONE = ["--strategy", "one_device", "--quiet"]
SEED = 3
behind = []


def row(what, measure, ours, peers):
    """Prints it; what is higher is better."""
    best = max(peers.values())
    if ours < best - POINT:
        behind.append(what)
    others = ", ".join(f"{name}: {value:.4f}" for name, value in peers.items())
    print(f"| {what} | {measure} | {ours:.4f} | {others} |", flush=True)


def train(folder, *arguments, seed=SEED):
    summary = os.path.join(folder, "summary.json")
    subprocess.run([TROUPE, "train", *ONE, "--seed", str(seed), *arguments,
                    "--summary", summary], check=True,
                   stdout=subprocess.DEVNULL)
    with open(summary) as file:
        return json.load(file)["eval"]


def proposed(spec):
    done = subprocess.run([TROUPE, "data", "info", spec], check=True,
                          capture_output=True, text=True)
    return shlex.split(done.stdout.splitlines()[-1])


def write(path, header, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


# --- tables ------------------------------------------------------------------

def census(folder):
    parts = [write(os.path.join(folder, name), tables.HEADER,
                   list(tables.people(seed, count)))
             for name, seed, count in (("train.csv", 1, 20_000),
                                       ("eval.csv", 2, 10_000))]
    words = proposed("csv:" + parts[0])
    verdict = train(folder, *words, "--eval-data", "csv:" + parts[1],
                    "--epochs", "12", "--lr", "0.003", "--lr-schedule",
                    "cosine", "--global-batch", "128")
    row("census, 8 columns, 20,000 and 10,000 rows", "accuracy",
        verdict["accuracy"], by_scikit_learn(*parts))


def by_scikit_learn(train_file, eval_file):
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    frames = [pandas.read_csv(path, na_values=["?"])
              for path in (train_file, eval_file)]
    for frame in frames:
        frame["hired"] = pandas.to_datetime(frame["hired"]).astype("int64")
    numbers = ["age", "hours", "gain", "hired"]
    texts = ["workclass", "education", "country"]
    targets = [frame["income"] == ">50K" for frame in frames]
    found = {}
    for name, model in (
            ("logistic regression", LogisticRegression(max_iter=1000)),
            ("gradient boosting", HistGradientBoostingClassifier())):
        whole = make_pipeline(ColumnTransformer([
            ("n", make_pipeline(SimpleImputer(strategy="median"),
                                StandardScaler()), numbers),
            ("t", make_pipeline(SimpleImputer(strategy="constant",
                                              fill_value="none"),
                                OneHotEncoder(handle_unknown="ignore",
                                              sparse_output=False)), texts)]),
            model)
        whole.fit(frames[0], targets[0])
        found[name] = whole.score(frames[1], targets[1])
    return found


def ratings(folder):
    parts = {name: list(tables.ratings(seed, count, 200, 300))
             for name, seed, count in (("train", 2, 40_000), ("eval", 3, 10_000))}
    paths = [write(os.path.join(folder, name + ".csv"),
                   ["user", "item", "rating"], rows)
             for name, rows in parts.items()]
    model = os.path.join(folder, "factors.toml")
    Path(model).write_text(tables.FACTORS)
    words = proposed("csv:" + paths[0])
    verdict = train(folder, *words[:2], "--model", model, "--eval-data",
                    "csv:" + paths[1], "--epochs", "20", "--lr", "0.01",
                    "--lr-schedule", "cosine", "--global-batch", "256")
    targets = numpy.array([x[2] for x in parts["eval"]])
    scale = numpy.var([x[2] for x in parts["train"]]) \
        if "scale=standard" in words[1].split("rating:", 1)[1].split(",")[0] \
        else 1.0
    ours = 1 - verdict["loss"] * scale / targets.var()
    row("ratings, 200 users, 300 items, 40,000 and 10,000 rows",
        "explained variance", ours, {
            "PyTorch, the same factors": by_factors(parts, targets)})


def by_factors(parts, targets):
    import torch
    torch.manual_seed(1)
    torch.set_num_threads(1)

    def ids(rows):
        return torch.tensor([[int(u[1:]), 200 + int(i[1:])]
                             for u, i, _ in rows])
    vectors = torch.nn.Embedding(500, 8)
    torch.nn.init.normal_(vectors.weight, std=0.3)
    single = torch.nn.Embedding(500, 1)
    torch.nn.init.zeros_(single.weight)
    wanted = torch.tensor([x[2] for x in parts["train"]])
    bias = torch.nn.Parameter(wanted.mean())
    known = ids(parts["train"])
    epochs, batch = 20, 256
    weights = [vectors.weight, single.weight, bias]
    optimizer = torch.optim.Adam(weights, lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, epochs * (len(known) // batch))

    def answer(x):
        v = vectors(x)
        return (v[:, 0] * v[:, 1]).sum(1) + single(x).sum((1, 2)) + bias
    for _ in range(epochs):
        order = torch.randperm(len(known))
        for begin in range(0, len(known) - batch + 1, batch):
            some = order[begin:begin + batch]
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(answer(known[some]),
                                         wanted[some]).backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        found = answer(ids(parts["eval"])).numpy()
    return 1 - ((found - targets) ** 2).mean() / targets.var()


# --- pictures ----------------------------------------------------------------

SIDE = 28
EPOCHS = 8
BATCH = 64
RATE = 0.001
HIDDEN = 128


def digits(seed, count):
    """Digits of a font, moved, turned and noisy; [count, 28, 28], classes."""
    draw = numpy.random.default_rng(seed)
    font = ImageFont.load_default(22)
    images = numpy.empty((count, SIDE, SIDE), numpy.uint8)
    labels = draw.integers(0, 10, count)
    for i, label in enumerate(labels):
        image = Image.new("L", (SIDE, SIDE))
        ImageDraw.Draw(image).text(
            (8 + draw.integers(-3, 4), 2 + draw.integers(-3, 4)), str(label),
            fill=255, font=font)
        image = image.rotate(draw.uniform(-20, 20), Image.BILINEAR)
        noisy = numpy.asarray(image) * draw.uniform(0.4, 1) + draw.normal(
            40, 35, (SIDE, SIDE))
        images[i] = numpy.clip(noisy, 0, 255)
    return images, labels


def as_jpeg(image):
    import io
    out = io.BytesIO()
    Image.fromarray(image).save(out, "JPEG", quality=90)
    return out.getvalue()


def of_jpeg(data):
    import io
    return numpy.asarray(Image.open(io.BytesIO(data)))


def keras_accuracy(layers, train_set, eval_set):
    import keras
    keras.utils.set_random_seed(1)
    (x, y), (seen, right) = train_set, eval_set
    model = keras.Sequential([keras.Input(x.shape[1:]), *layers(keras.layers)])
    steps = EPOCHS * -(-len(x) // BATCH)
    model.compile(keras.optimizers.Adam(
        keras.optimizers.schedules.CosineDecay(RATE, steps)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"])
    model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0)
    return model.evaluate(seen, right, verbose=0)[1]


def dense_layers(layers):
    return [layers.Flatten(), layers.Dense(HIDDEN, "relu"), layers.Dense(10)]


def convolutions(layers):
    """The built-in cnn's."""
    return [layers.Conv2D(16, 5, padding="same", activation="relu"),
            layers.MaxPool2D(),
            layers.Conv2D(32, 5, padding="same", activation="relu"),
            layers.MaxPool2D(), layers.Flatten(),
            layers.Dense(128, "relu"), layers.Dense(10)]


def of_troupe(folder, data, eval_data, model, seed=SEED):
    return train(folder, "--data", data, "--eval-data", eval_data, "--model",
                 model, "--epochs", str(EPOCHS), "--lr", str(RATE),
                 "--lr-schedule", "cosine", "--global-batch", str(BATCH),
                 "--virtual-ranks", "1", seed=seed)["accuracy"]


MLP = f"mlp:{SIDE * SIDE}-{HIDDEN}-10"


def folder(place):
    sets = {}
    for name, seed, count in (("train", 1, 6000), ("eval", 2, 6000)):
        images, labels = digits(seed, count)
        coded = [as_jpeg(image) for image in images]
        for i, (data, label) in enumerate(zip(coded, labels)):
            path = Path(place, name, str(label), f"{i:05}.jpg")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        sets[name] = (numpy.stack([of_jpeg(data) for data in coded])[
            ..., None] / numpy.float32(255), labels)
    ours = of_troupe(place, f"images:{place}/train?channels=1",
                     f"images:{place}/eval", "cnn")
    row("a folder of 6,000 JPEGs, cnn, 6,000 held out", "accuracy", ours,
        {"Keras": keras_accuracy(convolutions, sets["train"], sets["eval"])})


def records(place):
    import tensorflow as tf
    sets = {}
    for name, seed, count in (("train", 3, 12_000), ("eval", 4, 12_000)):
        images, labels = digits(seed, count)
        with tf.io.TFRecordWriter(f"{place}/{name}.tfrecord") as out:
            for image, label in zip(images, labels):
                out.write(tf.train.Example(features=tf.train.Features(feature={
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(
                        value=[tf.io.encode_png(image[..., None]).numpy()])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(
                        value=[int(label)]))})).SerializeToString())
        parsed = [tf.io.parse_single_example(x, {
            "image": tf.io.FixedLenFeature([], "string"),
            "label": tf.io.FixedLenFeature([], "int64")})
            for x in tf.data.TFRecordDataset(f"{place}/{name}.tfrecord")]
        sets[name] = (numpy.stack([tf.io.decode_png(x["image"]).numpy()
                                   for x in parsed]) / numpy.float32(255),
                      numpy.array([int(x["label"]) for x in parsed]))
    ours = of_troupe(place, f"tfrecord:{place}/train.tfrecord?channels=1",
                     f"tfrecord:{place}/eval.tfrecord", MLP)
    row("12,000 TFRecords of PNGs by TensorFlow, mlp, 12,000 held out",
        "accuracy", ours,
        {"Keras": keras_accuracy(dense_layers, sets["train"], sets["eval"])})


def tars(place):
    import webdataset
    for name, seed, count in (("train", 5, 12_000), ("eval", 6, 12_000)):
        images, labels = digits(seed, count)
        with webdataset.ShardWriter(f"{place}/{name}-%03d.tar",
                                    maxcount=2000, verbose=0) as out:
            for i, (image, label) in enumerate(zip(images, labels)):
                out.write({"__key__": f"{i:06}", "jpg": as_jpeg(image),
                           "cls": int(label)})
    # By luck alone either is a point better or worse.
    ours = statistics.mean(
        of_troupe(place, f"tar:{place}/train-*.tar?channels=1",
                  f"tar:{place}/eval-*.tar", MLP, seed)
        for seed in range(1, 6))
    row("12,000 JPEGs in tar files by webdataset, mlp, 12,000 held out",
        "accuracy, mean of 5 seeds", ours,
        {"PyTorch, webdataset": statistics.mean(
            by_webdataset(place, seed) for seed in range(1, 6))})


def by_webdataset(place, seed):
    import torch
    import webdataset
    torch.manual_seed(seed)
    random.seed(seed)
    torch.set_num_threads(1)

    def batches(name, mixes):
        files = sorted(str(x) for x in Path(place).glob(name + "-*.tar"))
        data = webdataset.WebDataset(files, shardshuffle=len(files) if mixes
                                     else False, empty_check=False)
        if mixes:
            data = data.shuffle(12_000)
        return torch.utils.data.DataLoader(
            data.decode("l").to_tuple("jpg", "cls"), batch_size=BATCH)
    model = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(SIDE * SIDE, HIDDEN),
        torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 10))
    for layer in (model[1], model[3]):  # as Keras and Troupe begin
        torch.nn.init.xavier_uniform_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, EPOCHS * -(-12_000 // BATCH))
    for _ in range(EPOCHS):
        for x, y in batches("train", True):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            schedule.step()
    right = total = 0
    with torch.no_grad():
        for x, y in batches("eval", False):
            right += int((model(x).argmax(1) == y).sum())
            total += len(y)
    return right / total


def main():
    jobs = {"census": census, "ratings": ratings, "folder": folder,
            "records": records, "tars": tars}
    if sys.argv[1:2] == ["--one"]:
        with tempfile.TemporaryDirectory() as place:
            os.environ["TROUPE_CACHE"] = place + "/cache"
            jobs[sys.argv[2]](place)
        return BEHIND if behind else 0
    print(", ".join(f"{name} {x}" for name, x in VERSIONS.items()) + "\n")
    print("| | measure | Troupe | peer |\n|---|---|---|---|", flush=True)
    for name in sys.argv[1:] or jobs:
        done = subprocess.run([sys.executable, __file__, "--one", name],
                              check=False)
        if done.returncode == BEHIND:
            behind.append(name)
        else:
            done.check_returncode()
    if behind:
        print("more than half a point behind: " + "; ".join(behind))
    return 1 if behind else 0


if __name__ == "__main__":
    sys.exit(main())
