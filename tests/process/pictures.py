"""Grey pictures in files of each kind, for the tests beside."""

import os
import random
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "fuzz"))
import seeds  # noqa: E402: the writers of such files

SIDE = 8
CLASSES = 3
JOB = ["--model", f"mlp:{SIDE * SIDE}-16-{CLASSES}", "--global-batch", "30",
       "--seed", "7", "--lr", "0.01"]
ONE = ["--strategy", "one_device"]
IN_FILES = ["--data-memory", "1"]  # held by nobody
GREY = f"?size={SIDE}&channels=1"


def drawn_samples(count):
    """Brighter where their class says; (pixels, class)."""
    draw = random.Random(5)
    return [(bytes(draw.randrange(100) + 100 * (x % CLASSES == i % CLASSES)
                   for x in range(SIDE * SIDE)), i % CLASSES)
            for i in range(count)]


def png(pixels):
    return seeds.png(SIDE, SIDE, pixels, 0)


def pixel_records(samples):
    return [seeds.example(label=[label], pixels=pixels)
            for pixels, label in samples]


def thirds(records):
    """{name: bytes} of three files of records."""
    third = len(records) // 3
    return {f"part-{i}.tfrecord": seeds.tfrecord(
        *records[i * third:(i + 1) * third]) for i in range(3)}


def archive(samples):
    """A picture and its class after the other."""
    members = []
    for i, (pixels, label) in enumerate(samples):
        members += [(f"train/{i:06}.png", png(pixels)),
                    (f"train/{i:06}.cls", str(label).encode())]
    return seeds.tar_archive(tarfile.USTAR_FORMAT, *members)
