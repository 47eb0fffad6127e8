"""Models that are split over members, and what they have in common with one
device that has all of them; for the tests beside."""

import tempfile

from cluster import Run

DIGITS = ["--data", "synthetic:digits?samples=500", "--global-batch", "48",
          "--seed", "7", "--steps", "25"]
MODELS = {
    "mlp": ["--model", "mlp:784-64-48-10", *DIGITS, "--eval-fraction", "0.1"],
    "cnn": ["--model", "cnn", *DIGITS],
    "transformer": ["--model", "transformer:L2-H2-D32-T32-P0.1",
                    "--data", "synthetic:text", "--global-batch", "10",
                    "--virtual-ranks", "5", "--seed", "7", "--steps", "8"],
    "dlrm": ["--model", "dlrm", "--data", "synthetic:clicks?samples=500",
             "--global-batch", "50", "--virtual-ranks", "7", "--seed", "7",
             "--steps", "12"],
}
# To be struck; the last step of a data epoch is a short one.
STRUCK = ["--model", "mlp:784-64-48-10", "--data",
          "synthetic:digits?samples=500", "--global-batch", "48", "--seed", "7"]
ONE = ["--strategy", "one_device"]
DIGESTS = ("weights_sha256", "state_sha256", "steps", "samples")


def summary_of(*arguments):
    with Run(*arguments) as run:
        return run.finish()


def digests(summary):
    return {name: summary[name] for name in DIGESTS}


class SplitModels:
    """Checks, for a unittest.TestCase."""

    def check_layouts(self, job, layouts):
        """Each has the bits of one device."""
        whole = summary_of(*job, *ONE)
        for layout in layouts:
            with self.subTest(job=job, layout=layout):
                summary = summary_of(*job, *layout)
                self.assertEqual(digests(summary), digests(whole))
                self.assertEqual(summary["eval"], whole["eval"])
                self.assertEqual(summary["final_loss"], whole["final_loss"])

    def check_undisturbed(self, summary, *job):
        """It has the bits of a run that nobody disturbed."""
        whole = summary_of(*job, "--epochs", "0", "--steps",
                           str(summary["steps"]), *ONE)
        self.assertEqual(digests(summary), digests(whole))
        self.assertEqual(summary["steps_rolled_back"], 0)

    def check_resumed(self, job, pairs, steps):
        """A checkpoint half way goes on under another layout."""
        whole = summary_of(*job, "--steps", str(steps), *ONE)
        for first, second in pairs:
            with self.subTest(first=first, second=second), \
                    tempfile.TemporaryDirectory() as folder:
                kept = ["--checkpoint-dir", folder]
                summary_of(*job, "--steps", str(steps // 2), *first, *kept)
                summary = summary_of(*job, "--steps", str(steps), *second,
                                     *kept, "--resume")
                for name in DIGESTS[:2]:
                    self.assertEqual(summary[name], whole[name], name)
