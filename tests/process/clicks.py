"""Jobs of a model with tables on clicks, for the tests beside."""

import re

from cluster import ENDLESS, Run

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


def evaluations(run):
    """{data epoch: what the run said of held-out samples}; of those that were
    undone nothing."""
    said = run.output().rpartition("rollback to step")[2]
    return dict(re.findall(r"^epoch (\d+) .*(eval loss.*auc \S+)", said,
                           re.MULTILINE))


def train(*arguments, **options):
    with Run(*arguments) as run:
        summary = run.finish(**options)
        return {**summary, "evaluations": evaluations(run)}


def with_steps(arguments, steps):
    """The same job for so many steps."""
    at = arguments.index("--steps")
    return [*arguments[:at + 1], str(steps), *arguments[at + 2:]]


def epochs_until_back(role, arguments):
    """See Run.kill_and_wait."""
    if role.startswith("worker"):
        alone = "--workers" in arguments \
            and arguments[arguments.index("--workers") + 1] == "1"
        return 1 if alone else 2
    return 3 if role.startswith("ps") and "--chain" in arguments else 1


def train_under(*arguments, deaths, steps=50):
    """Kills roles one after the other, each so many steps after the one before
    was back, and ends the run that much later, whatever its --steps."""
    with Run(*with_steps(arguments, ENDLESS[-1])) as run:
        for role in deaths:
            run.wait_for_step(run.step() + steps)
            run.kill_and_wait(role, epochs_until_back(role, arguments))
        summary = run.end(steps)
        # It was told to end, without the last evaluation.
        return {**summary, "eval": None, "evaluations": evaluations(run)}


def train_on_under(*arguments, deaths):
    """Kills roles, each once a step is reached, and lets the run come to its
    end: where steps run free, one that is told to ends with parts of a step."""
    with Run(*arguments) as run:
        for role, step in deaths:
            run.wait_for_step(step)
            run.kill(role)
        return run.finish()


def same(test, summary, expected):
    for name in DIGESTS:
        test.assertEqual(summary[name], expected[name], name)
    if summary["eval"] is None and expected["eval"]:
        for epoch, measures in summary["evaluations"].items():
            test.assertEqual(measures, expected["evaluations"][epoch], epoch)
        test.assertTrue(summary["evaluations"])
    else:
        test.assertEqual(summary["eval"], expected["eval"])
