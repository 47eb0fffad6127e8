#include "apps/settings/tf_config.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(tf_config_suite)

namespace {

std::string complaint(const std::string& text) {
  try {
    parse_tf_config(text);
  } catch (const UsageError& mistake) {
    return mistake.what();
  }
  BOOST_ERROR("accepted " << text);
  return {};
}

void check_complaint(const std::string& text, const std::string& part) {
  auto message = complaint(text);
  BOOST_CHECK_MESSAGE(message.rfind("TF_CONFIG: ", 0) == 0
                        && message.find(part) != std::string::npos,
                      "'" << message << "' lacks '" << part << "'");
}

} // namespace

BOOST_AUTO_TEST_CASE(a_cluster_and_a_task_are_read) {
  auto config = parse_tf_config(R"({
    "cluster": {"chief": ["h0:1"], "worker": ["h1:1", "h2:1"],
                "ps": ["h3:1"], "evaluator": ["h4:1"]},
    "task": {"type": "worker", "index": 1}, "environment": "cloud"})");
  BOOST_CHECK_EQUAL(config.chief, "h0:1");
  BOOST_CHECK_EQUAL(config.workers.size(), 2);
  BOOST_CHECK_EQUAL(config.shards.size(), 1);
  BOOST_CHECK_EQUAL(config.evaluators.size(), 1);
  BOOST_REQUIRE(config.task);
  BOOST_CHECK_EQUAL(to_string(*config.task), "worker:1");
  BOOST_CHECK_EQUAL(config.address_of(*config.task), "h2:1");
  BOOST_CHECK_EQUAL(config.address_of({RoleKind::coordinator, 0}), "h0:1");
  BOOST_CHECK_EQUAL(config.address_of({RoleKind::shard, 3}), "");
}

BOOST_AUTO_TEST_CASE(master_is_another_word_for_chief) {
  auto config = parse_tf_config(R"({"cluster": {"master": ["h0:1"]},
                                    "task": {"type": "master", "index": 0}})");
  BOOST_CHECK_EQUAL(config.chief, "h0:1");
  BOOST_REQUIRE(config.task);
  BOOST_CHECK_EQUAL(to_string(*config.task), "coordinator");
}

BOOST_AUTO_TEST_CASE(an_evaluator_need_not_be_in_the_cluster) {
  auto config = parse_tf_config(
    R"({"cluster": {"chief": ["h0:1"]}, "task": {"type": "evaluator",
        "index": 0}})");
  BOOST_CHECK_EQUAL(to_string(*config.task), "evaluator:0");
}

BOOST_AUTO_TEST_CASE(mistakes_name_the_field) {
  check_complaint("", "not valid JSON");
  check_complaint("{", "not valid JSON");
  check_complaint("[]", "not a JSON object");
  check_complaint("{}", "cluster is missing");
  check_complaint(R"({"clustr": {}})", "unknown key clustr");
  check_complaint(R"({"cluster": []})", "cluster is not an object");
  check_complaint(R"({"cluster": {"gpu": []}})", "cluster.gpu");
  check_complaint(R"({"cluster": {"worker": "a:1"}})", "cluster.worker");
  check_complaint(R"({"cluster": {"worker": [1]}})", "cluster.worker[0]");
  check_complaint(R"({"cluster": {"worker": ["a:1", "b"]}})",
                  "cluster.worker[1]");
  check_complaint(R"({"cluster": {"ps": ["a:70000"]}})", "cluster.ps[0]");
  check_complaint(R"({"cluster": {"worker": ["a:1"], "ps": ["a:1"]}})",
                  "a:1 twice");
  check_complaint(R"({"cluster": {"chief": ["a:1", "b:1"]}})",
                  "more than one coordinator");
  check_complaint(R"({"cluster": {"chief": ["a:1"], "master": ["b:1"]}})",
                  "both chief and master");
}

BOOST_AUTO_TEST_CASE(mistakes_of_the_task_name_it) {
  auto with = [](const std::string& task) {
    return R"({"cluster": {"worker": ["a:1"]}, "task": )" + task + "}";
  };
  check_complaint(with("[]"), "task is not an object");
  check_complaint(with("{}"), "task.type");
  check_complaint(with(R"({"type": "boss", "index": 0})"), "boss");
  check_complaint(with(R"({"type": "worker"})"), "task.index");
  check_complaint(with(R"({"type": "worker", "index": -1})"), "task.index");
  check_complaint(with(R"({"type": "worker", "index": "0"})"), "task.index");
  check_complaint(with(R"({"type": "worker", "index": 4294967296})"),
                  "task.index");
  check_complaint(with(R"({"type": "worker", "index": 1})"), "worker:1");
  check_complaint(with(R"({"type": "ps", "index": 0})"), "ps:0");
  check_complaint(with(R"({"type": "worker", "index": 0, "x": 1})"), "task.x");
}

BOOST_AUTO_TEST_SUITE_END()
