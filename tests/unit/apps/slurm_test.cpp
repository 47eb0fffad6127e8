#include "apps/settings/slurm.hpp"
#include "tests/unit/apps/settings_bench.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_FIXTURE_TEST_SUITE(slurm, Bench)

namespace {

std::string hosts(const std::string& list) {
  std::string out;
  for (const auto& host : slurm_hosts(list))
    out += (out.empty() ? "" : " ") + host;
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(lists_of_hosts_are_written_out) {
  BOOST_TEST(hosts("node1") == "node1");
  BOOST_TEST(hosts("node[01-03,7],gpu-1")
             == "node01 node02 node03 node7 gpu-1");
  BOOST_TEST(hosts("n[9-11]") == "n9 n10 n11");
  BOOST_TEST(hosts("n[098-101].cluster,m")
             == "n098.cluster n099.cluster n100.cluster n101.cluster m");
  BOOST_TEST(hosts("rack[0-1]node[1-2]")
             == "rack0node1 rack0node2 rack1node1 rack1node2");
}

BOOST_AUTO_TEST_CASE(what_is_no_list_is_refused_in_one_line) {
  for (const auto* list : {"", "a,,b", "n[1-", "n[]", "n[2-1]", "n[x]",
                           "n[1-999999]", "n[1-200]m[1-200]", "n[1,,2]"}) {
    BOOST_CHECK_EXCEPTION(slurm_hosts(list), UsageError,
                          [](const UsageError& mistake) {
                            return has(mistake.what(), "SLURM_JOB_NODELIST: ")
                                   && has(mistake.what(), "with -H");
                          });
  }
}

BOOST_AUTO_TEST_CASE(tasks_are_slots) {
  BOOST_TEST(hosts_of_slurm({"n[1-4]", "2(x3),1", ""})
             == "n1:2,n2:2,n3:2,n4:1");
  BOOST_TEST(hosts_of_slurm({"n[1-2]", "", ""}) == "n1:1,n2:1");
  for (const auto* tasks : {"2", "2(x3)", "0(x2)", "2(x2", "(x2)", "2(x99999)"})
    BOOST_CHECK_THROW(hosts_of_slurm({"n[1-2]", tasks, ""}), UsageError);
}

BOOST_AUTO_TEST_CASE(launch_takes_the_hosts_of_its_allocation) {
  around.slurm = {"node[1-2]", "4(x2)", ""};
  const Words job{"--", "train", "--strategy", "multi_worker_mirrored"};
  Words words{"launch"};
  words.insert(words.end(), job.begin(), job.end());
  BOOST_TEST(parse(words).launch.hosts == "node1:4,node2:4");
  words.insert(words.begin() + 1, {"-H", "other:2"});
  BOOST_TEST(parse(words).launch.hosts == "other:2");
  words[1] = "--hosts-file";
  BOOST_TEST(parse(words).launch.hosts.empty());
}

BOOST_AUTO_TEST_CASE(a_task_knows_its_number) {
  around.slurm.process = "3";
  const auto role = [&](const std::string& name) {
    return parse({"role", name, "--coordinator", "127.0.0.1:7000"});
  };
  BOOST_TEST(to_string(*role("worker").role) == "worker:3");
  BOOST_TEST(to_string(*role("ps").role) == "ps:3");
  BOOST_TEST(role("sharded").paired);
  BOOST_TEST(role("sharded").role->index == 3u);
  BOOST_TEST(to_string(*role("worker:1").role) == "worker:1");
  around.slurm.process = "x";
  check_has(usage({"role", "worker", "--coordinator", "127.0.0.1:7000"}),
            "SLURM_PROCID: role worker:x: ");
  around.slurm.process.clear();
  check_has(usage({"role", "worker", "--coordinator", "127.0.0.1:7000"}),
            "expected its number");
}

BOOST_AUTO_TEST_SUITE_END()
