"""Virtual slices fix the bits of a job, whoever computes which (I3): any
strategy has those of one device with as many; files have parameters whole."""
# ctest: TIMEOUT 1200

import os
import tempfile
import unittest

from split_models import DIGESTS, ONE, SplitModels, call, digests, summary_of

DIGITS = ["--data", "synthetic:digits?samples=500", "--global-batch", "48",
          "--seed", "7"]
MLP = ["--model", "mlp:784-64-48-10", *DIGITS]
JOBS = {
    "mlp": [*MLP, "--steps", "25", "--eval-fraction", "0.1"],
    "transformer": ["--model", "transformer:L2-H4-D32-T32-P0.1", "--data",
                    "synthetic:text", "--global-batch", "10",
                    "--virtual-ranks", "5", "--seed", "7", "--steps", "8"],
    "dlrm": ["--model", "dlrm", "--data", "synthetic:clicks?samples=500",
             "--global-batch", "50", "--seed", "7", "--steps", "12"],
}
SLICES = ["--virtual-slices", "4"]


class VirtualSlices(SplitModels, unittest.TestCase):
    def test_strategies_have_the_bits_of_one_device(self):
        for job in JOBS.values():
            plain = summary_of(*job, *ONE)
            whole = summary_of(*job, *SLICES, *ONE)
            self.assertNotEqual(digests(whole), digests(plain))
            self.assertAlmostEqual(whole["final_loss"], plain["final_loss"],
                                   delta=0.2 * plain["final_loss"])
            self.check_layouts([*job, *SLICES], (
                ["--strategy", "mirrored", "--devices", "cpu:3"],
                ["--strategy", "parameter_server", "--processes", "--workers",
                 "2", "--ps", "2"],
                ["--strategy", "pipeline", "--stages", "3"],
                ["--strategy", "pipeline", "--stages", "2", "--schedule",
                 "zero_bubble", "--processes"]))

    def test_files_have_parameters_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            saved = os.path.join(folder, "saved.safetensors")
            kept = ["--checkpoint-dir", os.path.join(folder, "kept")]
            summary = summary_of(*MLP, "--steps", "30", *SLICES, *ONE, *kept,
                                 "--save", saved)
            verdict = call("checkpoint", "verify", kept[1])
            self.assertIn(summary["weights_sha256"], verdict.stdout)
            for checkpoint in (saved, kept[1]):
                done = call("evaluate", "--checkpoint", checkpoint, "--model",
                              "mlp:784-64-48-10", "--data",
                              "synthetic:digits?samples=100")
                self.assertEqual(done.returncode, 0, done.stderr)
            # Weights from elsewhere are cut as those of the seed are.
            whole = [summary_of(*MLP, "--steps", "10", *SLICES, *layout,
                                "--checkpoint-dir",
                                os.path.join(folder, str(i)),
                                "--initial-weights", saved)
                     for i, layout in enumerate(
                         (ONE, ["--strategy", "parameter_server",
                                "--in-process"]))]
            self.assertEqual(*(digests(summary) for summary in whole))

    def test_a_checkpoint_goes_on_with_its_own_slices_alone(self):
        whole = summary_of(*MLP, "--steps", "60", *SLICES, *ONE)
        served = ["--strategy", "parameter_server", "--in-process"]
        for first, second in ((ONE, served), (served, ONE)):
            with tempfile.TemporaryDirectory() as folder:
                kept = ["--checkpoint-dir", folder]
                summary_of(*MLP, "--steps", "30", *SLICES, *first, *kept)
                for other in ([], ["--virtual-slices", "2"]):
                    done = call("train", *MLP, "--steps", "60", *other,
                                  *second, *kept, "--resume")
                    self.assertEqual(done.returncode, 1, done.stdout)
                    self.assertRegex(
                        done.stderr,
                        r"^troupe: .*--virtual-slices [12] \(4 in the "
                        r"checkpoint\).*\n$")
                summary = summary_of(*MLP, "--steps", "60", *SLICES, *second,
                                     *kept, "--resume")
                for name in DIGESTS[:2]:
                    self.assertEqual(summary[name], whole[name], name)

    def test_layers_that_cannot_be_cut_are_refused_in_one_line(self):
        sliced = "--virtual-slices"
        self.check_refusals(["--data", "synthetic:digits", *SLICES], (
            (["--model", "logreg"],
             rf"{sliced}.*logreg has no two dense layers"),
            (["--model", "resnet8"],
             rf"{sliced}.*resnet8 has no two dense layers"),
            (["--model", "mlp:784-3-10"],
             rf"{sliced}.*use fewer, or leave it out"),
            (["--model", "sleep:1ms"], rf"{sliced}.*multiplies nothing")))
        self.check_refusals(["--data", "synthetic:digits"], (
            ([sliced, "0"], rf"{sliced}.*1 to 64"),
            ([sliced, "65"], rf"{sliced}.*1 to 64")))


if __name__ == "__main__":
    unittest.main()
