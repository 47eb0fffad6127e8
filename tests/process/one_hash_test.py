"""One hash in float32 whatever set of instructions with fused multiply-add
computes, and on how many threads: every built-in model and three model files,
what they evaluate to included (docs/numeric_classes.md). TROUPE_IN_FULL=1: 200
steps, every set, 1 to 4 threads; else a few steps and two runs a model."""
# ctest: TIMEOUT 900 COST 10

import math
import os
import time
import unittest

from cluster import Run

FULL = "TROUPE_IN_FULL" in os.environ
STEPS = 200 if FULL else 3
DIGITS = "synthetic:digits?samples=2000"
TEXT = "synthetic:text?samples=2000"
CLICKS = "synthetic:clicks?samples=2000"
MODELS = {
    "mlp:784-64-32-10": DIGITS,
    "cnn": DIGITS,
    "resnet8": DIGITS,
    "resnet20": DIGITS,
    "transformer:L2-H2-D32-T16": TEXT,
    "gpt2:L2-H2-D32-T16": TEXT,
    "llama:L2-H4-K2-D32-T16": TEXT,
    "dlrm": CLICKS,
    "wide_deep": CLICKS,
    "logreg": CLICKS,
}
FILES = {"images.toml": DIGITS, "text.json": TEXT, "clicks.toml": CLICKS}
HERE = os.path.dirname(os.path.abspath(__file__))
COMMON = ["--strategy", "one_device", "--epochs", "0", "--steps", str(STEPS),
          "--global-batch", "16", "--seed", "11", "--eval-fraction", "0.1",
          "--lr", "0.02"]
SAID = ("weights_sha256", "state_sha256", "numeric_class", "steps", "eval")


def fused_sets():
    """Those of this machine that have a fused multiply-add."""
    if os.uname().machine != "x86_64":
        return ["neon"]
    with open("/proc/cpuinfo") as file:
        flags = file.read().split()
    sets = {"avx2": "fma", "avx512": "avx512vl"}
    return [name for name, flag in sets.items() if flag in flags]


def ways():
    if not FULL:
        return [(fused_sets()[0], 3)]
    return [(name, threads) for name in [*fused_sets(), "auto"]
            for threads in range(1, 5)]


class OneHash(unittest.TestCase):
    def setUp(self):
        if not fused_sets():
            self.skipTest("this processor has no fused multiply-add")

    def trained(self, model, data, isa, threads):
        with Run(*COMMON, "--model", model, "--data", data, "--isa", isa,
                 "--threads-per-device", str(threads)) as run:
            summary = run.finish()
        self.assertEqual(summary["steps"], STEPS)
        self.assertTrue(math.isfinite(summary["eval"]["loss"]), model)
        return {name: summary[name] for name in SAID}

    def hold(self, model, data):
        began = time.monotonic()
        expected = self.trained(model, data, "auto", 1)
        self.assertEqual(expected["numeric_class"], "FMA float32")
        for isa, threads in ways():
            with self.subTest(model=model, isa=isa, threads=threads):
                self.assertEqual(self.trained(model, data, isa, threads),
                                 expected)
        if FULL:
            print(f"{os.path.basename(model)}: {len(ways())} ways, "
                  f"{expected['weights_sha256'][:12]}, "
                  f"{time.monotonic() - began:.0f} s", flush=True)

    def test_built_in_models(self):
        for model, data in MODELS.items():
            self.hold(model, data)

    def test_model_files(self):
        for name, data in FILES.items():
            self.hold(os.path.join(HERE, "..", "models", name), data)

    def test_another_class_has_another_hash(self):
        if os.uname().machine != "x86_64":
            self.skipTest("every set here has a fused multiply-add")
        model = "mlp:784-64-32-10"
        one, other = (self.trained(model, DIGITS, isa, 1)
                      for isa in ("auto", "sse4"))
        self.assertNotEqual(one["weights_sha256"], other["weights_sha256"])


if __name__ == "__main__":
    unittest.main()
