"""One seed, one hash, whatever the layout (I3): an mlp, a cnn with batch norms,
a transformer with a tied head and dropout, and dlrm, each in over 18 layouts
with 4 virtual slices, one_device among them. TROUPE_IN_FULL=1: all of them, and
the table of docs/benchmarks.md; else some of each."""
# ctest: TIMEOUT 1200

import os
import tempfile
import time
import unittest

from split_models import summary_of

# The short form is for each run.
FULL = "TROUPE_IN_FULL" in os.environ
SLICES = ["--virtual-slices", "4"]
BATCH = ["--virtual-ranks", "8", "--global-batch", "24", "--seed", "11",
         "--epochs", "0", "--steps", "8"]
# Two batch norms over images, and layers that members share.
CNN = """
[sample]
features = [28, 28, 1]
classes = 10
""" + "".join(f"""
[[operators]]
kind = "{kind}"
name = "{name}"
{more}
""" for kind, name, more in (
    ("conv2d", "conv_1", "units = 8\nkernel = 3\nstride = 2"),
    ("batch_norm", "norm_1", 'activation = "relu"'),
    ("conv2d", "conv_2", "units = 8\nkernel = 3\nstride = 2"),
    ("batch_norm", "norm_2", 'activation = "relu"'),
    ("max_pool", "pool", "kernel = 2"),
    ("reshape", "flatten", ""),
    ("dense", "hidden_1", 'units = 32\nactivation = "relu"'),
    ("dense", "hidden_2", 'units = 24\nactivation = "relu"'),
    ("dense", "hidden_3", 'units = 16\nactivation = "relu"'),
    ("dense", "logits", "units = 10"),
    ("softmax_cross_entropy", "loss", "")))


def models(folder):
    """{name: (the job, layers that are computed again)}."""
    cnn = os.path.join(folder, "cnn.toml")
    with open(cnn, "w") as file:
        file.write(CNN)
    digits = ["--data", "synthetic:digits?samples=300"]
    return {
        "mlp": (["--model", "mlp:784-48-40-32-32-24-24-16-10", *digits],
                "dense_1,dense_4"),
        "cnn": (["--model", cnn, *digits], "conv_1,norm_1,conv_2,norm_2"),
        "transformer": (["--model", "transformer:L4-H4-D32-T16-P0.1", "--data",
                         "synthetic:text"], "block_0,block_2,block_3.up"),
        "dlrm": (["--model", "dlrm", "--data",
                  "synthetic:clicks?samples=300&buckets=100"],
                 "bottom_0,interaction,top_0"),
    }


def pipeline(stages, *more):
    return ["--strategy", "pipeline", "--stages", str(stages), *more]


def mesh(*axes_and_more):
    data, stage, tensor, *more = axes_and_more
    return ["--strategy", "hybrid", "--mesh",
            f"data={data},stage={stage},tensor={tensor}", *more]


def sharded(workers, shard, *more):
    return ["--strategy", "fully_sharded", "--workers", str(workers),
            "--shard", shard, *more]


ONE = ["--strategy", "one_device"]


def layouts(again):
    """(layout, whether it is in the short form, too)."""
    some = ["--recompute", again]
    full = ["--recompute", "full"]
    inside, outside = "--in-process", "--processes"
    return [
        (["--strategy", "mirrored", "--devices", "cpu:3"], False),
        (["--strategy", "multi_worker_mirrored", "--workers", "2"], False),
        (["--strategy", "parameter_server", "--tables", "dense", "--workers",
          "3", "--ps", "2", outside], False),
        (pipeline(2, "--schedule", "gpipe", *full, inside), False),
        (pipeline(2, "--schedule", "interleaved", *some, outside), True),
        (pipeline(3, "--schedule", "1f1b", inside), False),
        (pipeline(3, "--schedule", "zero_bubble", *some, inside), True),
        (pipeline(4, "--schedule", "auto", outside), False),
        (["--strategy", "tensor", "--tensor", "2", outside], False),
        (["--strategy", "tensor", "--tensor", "4", inside], False),
        (mesh(2, 2, 1, "--schedule", "gpipe", *some, outside), False),
        (mesh(3, 2, 1, "--schedule", "1f1b", *full, inside), False),
        (mesh(4, 2, 1, "--schedule", "zero_bubble", inside), False),
        (mesh(4, 4, 1, "--schedule", "auto", inside), False),
        (mesh(2, 1, 2, outside), False),
        (mesh(3, 1, 4, inside), False),
        (mesh(1, 2, 2, "--schedule", "zero_bubble", *full, outside), False),
        (mesh(2, 2, 2, "--schedule", "interleaved", inside), False),
        (mesh(2, 2, 2, "--schedule", "1f1b", *some, outside), False),
        (mesh(4, 2, 4, "--schedule", "gpipe", *some, inside), True),
        (mesh(1, 3, 2, "--schedule", "auto", *full, inside), False),
        (sharded(2, "optimizer", outside), False),
        (sharded(3, "gradients", inside), False),
        (sharded(4, "parameters", outside), False),
    ]


class Layouts(unittest.TestCase):
    def test_one_hash_for_each_model_whatever_the_layout(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, (job, again) in models(folder).items():
                self.check(name, [*job, *BATCH, *SLICES], layouts(again))

    def check(self, name, job, all_layouts):
        begin = time.monotonic()
        whole = summary_of(*job, *ONE)
        hashes = [whole[kind] for kind in ("weights_sha256", "state_sha256")]
        self.assertEqual(whole["steps"], 8)
        tried = [layout for layout, is_short in all_layouts if FULL or is_short]
        for layout in tried:
            with self.subTest(model=name, layout=" ".join(layout)):
                summary = summary_of(*job, *layout)
                self.assertEqual([summary["weights_sha256"],
                                  summary["state_sha256"]], hashes)
                self.assertEqual(summary["final_loss"], whole["final_loss"])
        if FULL:
            self.assertGreaterEqual(len(tried) + 1, 18)
            print(f"| {name} | {len(tried) + 1} | `{hashes[0][:16]}…` | "
                  f"`{hashes[1][:16]}…` | {time.monotonic() - begin:.0f} s |",
                  flush=True)


if __name__ == "__main__":
    unittest.main()
