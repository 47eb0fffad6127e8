"""Jobs of a model with tables on clicks, for the tests beside."""

from cluster import Run

DIGESTS = ("weights_sha256", "state_sha256")
SERVED = ["--strategy", "parameter_server"]


def job(model="dlrm", optimizer="adagrad", steps="20"):
    return ["--data", "synthetic:clicks?samples=3000&buckets=2000", "--model",
            model, "--optimizer", optimizer, "--lr", "0.05", "--eval-fraction",
            "0.1", "--epochs", "0", "--steps", steps, "--seed", "3"]


def counting(model, steps, ranks="2"):
    """Integers: what leases add up to has the same bits in any order."""
    return ["--data", "synthetic:rows?samples=400&ids=8&vocabulary=900",
            "--model", model, "--optimizer", "sgd", "--lr", "1", "--epochs",
            "0", "--steps", steps, "--virtual-ranks", ranks, "--global-batch",
            "8", "--tables", "sparse"]


def train(*arguments, **options):
    with Run(*arguments) as run:
        return run.finish(**options)


def train_under(*arguments, deaths):
    """Kills roles, each once a step is reached."""
    with Run(*arguments) as run:
        for role, step in deaths:
            run.wait_for_step(step)
            run.kill(role)
        return run.finish()


def same(test, summary, expected):
    for name in DIGESTS:
        test.assertEqual(summary[name], expected[name], name)
    test.assertEqual(summary["eval"], expected["eval"])
