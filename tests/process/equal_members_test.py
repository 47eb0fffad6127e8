"""Who would change the weights is refused by name: so with data of the same shape
and other contents."""
# Symptom: roles that were started in another folder trained on the data there,
# with a status of 0 and other weights.
# ctest: TIMEOUT 900

import os

from cluster import wait_for
from own_folder import OwnFolder, run_tests
from roles import Role

MODEL = ["--model", "mlp:2-8-4", "--global-batch", "32", "--seed", "7"]
SERVED = ["--strategy", "parameter_server", "--workers", "2", "--ps", "1"]
REPLICAS = ["--strategy", "multi_worker_mirrored", "--workers", "2"]
READ = [*SERVED, "--readers", "1"]
OTHERS = ("has other data than the coordinator: --data csv:x.csv there has "
          "other contents; give both the same files")
TOLD_S = 10


def write_table(folder, number=lambda i: i / 160, kind=lambda i: i % 4):
    os.makedirs(folder)
    with open(os.path.join(folder, "x.csv"), "w") as file:
        file.write("a,b,kind\n")
        for i in range(160):
            file.write(f"{i % 4},{number(i)},{kind(i)}\n")


class EqualMembers(OwnFolder):
    def setUp(self):
        super().setUp()
        write_table(self.path("own"))
        write_table(self.path("other"), number=lambda i: i / 161)
        write_table(self.path("flipped"), kind=lambda i: 3 - i % 4)
        # One of 160 samples is another.
        write_table(self.path("one"), number=lambda i: (i + i // 159) / 160)
        os.mkdir(self.path("empty"))

    def within(self, folder):
        return ("env", "-C", self.path(folder))

    def coordinator(self, *arguments):
        self.leader = Role(self.addCleanup, "coordinator", "--certificates",
                           self.path("certificates"), *arguments,
                           on=self.within("own"))
        self.address = self.leader.address()

    def member(self, role, *arguments, folder="own", **options):
        return Role(self.addCleanup, role, "--coordinator", self.address,
                    "--certificates", self.path("certificates"), *arguments,
                    on=self.within(folder), **options)

    # --- data -----------------------------------------------------------------

    def test_other_contents_of_the_same_shape_are_refused_by_name(self):
        job = ["--data", "csv:x.csv", *MODEL, "--epochs", "3"]
        for strategy, roles, last in (
                (SERVED, ["ps:0", "worker:0"], "worker:1"),
                (REPLICAS, ["worker:0"], "worker:1"),
                (READ, ["ps:0", "worker:0", "worker:1"], "reader:0"),
                (["--strategy", "pipeline", "--stages", "2"], ["stage:0"],
                 "stage:1"),
                (["--strategy", "fully_sharded", "--workers", "2"],
                 ["sharded:0"], "sharded:1")):
            for folder in ("other", "flipped", "one"):
                with self.subTest(strategy=strategy, folder=folder):
                    self.coordinator(*job, *strategy)
                    members = [self.member(role) for role in roles]
                    wrong = self.member(last, folder=folder)
                    name = last.replace("sharded", "worker")
                    if last == "reader:0": # another one may have the data
                        wait_for(lambda: f"{name} cannot take part: {OTHERS}"
                                 in self.leader.output(), "a line", TOLD_S)
                        self.leader.process.terminate()
                        self.leader.finish(143)
                    else:
                        self.assertEqual(self.leader.finish(1),
                                         f"troupe: {name} {OTHERS}\n")
                    for member in (*members, wrong):
                        member.stop()

    def test_who_reads_nothing_needs_no_data(self):
        self.coordinator("--data", "csv:x.csv", *MODEL, "--epochs", "3", *READ)
        members = [self.member(role, folder=folder) for role, folder in (
            ("ps:0", "empty"), ("worker:0", "other"), ("worker:1", "empty"),
            ("reader:0", "own"))]
        self.leader.finish()
        for member in members:
            member.finish(0, TOLD_S)


if __name__ == "__main__":
    run_tests()
