#include "apps/launch/kubernetes.hpp"
#include "tests/unit/apps/settings_bench.hpp"

using namespace troupe;

BOOST_FIXTURE_TEST_SUITE(kubernetes, Bench)

namespace {

KubernetesKeys some_keys() {
  KubernetesKeys keys;
  keys.authority.authority = "AUTHORITY\n";
  keys.authority.authority_key = "AUTHORITY KEY\n";
  for (uint32_t number : {0, 1}) {
    Credentials worker;
    worker.name = {MemberName::Kind::worker, number};
    worker.certificate = "CERTIFICATE " + std::to_string(number) + "\n";
    worker.key = "KEY " + std::to_string(number) + "\n";
    keys.members.push_back(worker);
  }
  Credentials shard;
  shard.name = {MemberName::Kind::shard, 0};
  shard.certificate = "OF THE SHARD\n";
  keys.members.push_back(shard);
  keys.metrics_token = "0123";
  return keys;
}

KubernetesJob some_job() {
  KubernetesJob job;
  job.flags.name = "digits";
  job.flags.image = "troupe:1";
  job.job = {"--data", "synthetic:digits"};
  job.coordinator.kind = "coordinator";
  job.roles = {{"worker", 2, 3, 0, 700}, {"ps", 1, 1, 0, 600}};
  return job;
}

/// The document of an object, without its "---".
std::string document(const std::string& manifest, const std::string& kind,
                     const std::string& name) {
  const auto head = "kind: " + kind + "\nmetadata:\n  name: " + name + "\n";
  const auto at = manifest.find(head);
  BOOST_REQUIRE_MESSAGE(at != manifest.npos, "no " << kind << ' ' << name);
  return manifest.substr(at, manifest.find("---\n", at) - at);
}

size_t count(const std::string& text, const std::string& part) {
  size_t out = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1))
    ++out;
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_kind_of_role_is_an_indexed_job) {
  const auto text = kubernetes_manifest(some_job(), some_keys());
  const auto workers = document(text, "Job", "digits-worker");
  check_has(workers, "completionMode: Indexed\n  completions: 2\n"
                     "  parallelism: 2\n  backoffLimit: 10\n");
  check_has(workers, "- \"worker:$(TROUPE_NUMBER)\"\n");
  check_has(workers, "- \"digits-coordinator-0.digits:7000\"\n");
  check_has(workers, "cpu: \"3\"\n");
  check_has(workers, "memory: \"700Mi\"\n");
  BOOST_TEST(!has(workers, "nvidia"));
  check_has(document(text, "Job", "digits-ps"), "completions: 1\n");
  check_has(document(text, "Job", "digits-coordinator"),
            "- \"--data\"\n            - \"synthetic:digits\"\n");
  BOOST_TEST(count(text, "kind: Job\n") == 3u);
}

BOOST_AUTO_TEST_CASE(who_reads_a_secret_gets_the_keys_of_its_kind_alone) {
  const auto text = kubernetes_manifest(some_job(), some_keys());
  const auto workers = document(text, "Secret", "digits-worker");
  check_has(workers, "worker-1.key: |\n    KEY 1\n");
  BOOST_TEST(!has(workers, "AUTHORITY KEY"));
  BOOST_TEST(!has(workers, "OF THE SHARD"));
  BOOST_TEST(!has(document(text, "Secret", "digits-ps"), "KEY"));
  const auto readers = document(text, "Secret", "digits-metrics");
  BOOST_TEST(!has(readers, "KEY"));
  check_has(readers, "metrics-token: \"0123\"\n");
  BOOST_TEST(count(text, "AUTHORITY KEY") == 1u);
  check_has(document(text, "Secret", "digits-coordinator"), "AUTHORITY KEY");
}

BOOST_AUTO_TEST_CASE(a_dollar_sign_of_a_flag_is_no_variable) {
  auto job = some_job();
  job.job = {"--save", "a$(HOME)$"};
  check_has(kubernetes_manifest(job, some_keys()), "\"a$$(HOME)$$\"");
}

BOOST_AUTO_TEST_CASE(a_gpu_is_a_limit_and_a_claim_of_data_is_read_only) {
  auto job = some_job();
  job.roles.front().gpus = 1;
  job.flags.claim = "mnist:/data";
  job.flags.space = "team";
  const auto text = kubernetes_manifest(job, some_keys());
  check_has(document(text, "Job", "digits-worker"), "nvidia.com/gpu: \"1\"\n");
  // In the volumes and the mounts of three Jobs.
  BOOST_TEST(count(text, "readOnly: true\n") == 6u);
  BOOST_TEST(count(text, "  namespace: team\n") == count(text, "kind: "));
}

BOOST_AUTO_TEST_CASE(roles_ask_for_what_the_plan_tells) {
  const auto roles_of = [&](const Words& flags) {
    Words words{"plan", "--processes"};
    words.insert(words.end(), flags.begin(), flags.end());
    return kubernetes_roles(parse(words));
  };
  const auto served =
    roles_of({"--strategy", "parameter_server", "--workers", "3", "--ps", "2",
              "--chain", "2", "--threads-per-device", "2"});
  BOOST_TEST_REQUIRE(served.size() == 2u);
  BOOST_TEST(served[0].kind == "worker");
  BOOST_TEST(served[0].count == 3u);
  BOOST_TEST(served[0].cores == 2u);
  BOOST_TEST(served[0].memory_mib >= 512u);
  BOOST_TEST(served[1].kind == "ps");
  BOOST_TEST(served[1].count == 4u);
  BOOST_TEST(served[1].cores == 1u);
  const auto shared = roles_of({"--strategy", "fully_sharded"});
  BOOST_TEST_REQUIRE(shared.size() == 1u);
  BOOST_TEST(shared[0].kind == "sharded");
  BOOST_TEST(shared[0].count == 2u);
  const auto staged = roles_of({"--strategy", "pipeline", "--stages", "2"});
  BOOST_TEST_REQUIRE(staged.size() == 1u);
  BOOST_TEST(staged[0].kind == "stage");
  const auto large = roles_of({"--strategy", "pipeline", "--stages", "2",
                               "--model", "mlp:784-16384-16384-10"});
  BOOST_TEST(large[0].memory_mib > staged[0].memory_mib + 1024u);
}

BOOST_AUTO_TEST_CASE(flags_of_hosts_and_of_pods_do_not_meet) {
  const auto settings =
    parse({"launch", "--kubernetes", "--name", "a-1", "--claim", "d:/data",
           "--storage", "5Gi", "--", "train"});
  BOOST_TEST(settings.launch.kubernetes.asked);
  BOOST_TEST(settings.launch.kubernetes.name == "a-1");
  check_has(usage({"launch", "--kubernetes", "-H", "a", "--", "train"}),
            "--hosts has no effect with --kubernetes");
  check_has(usage({"launch", "--kubernetes", "--dry-run", "--", "train"}),
            "--dry-run has no effect with --kubernetes");
  check_has(usage({"launch", "-H", "a", "--image", "x", "--", "train"}),
            "--image has no effect without --kubernetes");
  const auto refused = [&](const char* flag, const char* value,
                           const char* why) {
    check_has(usage({"launch", "--kubernetes", flag, value, "--", "train"}),
              why);
  };
  refused("--name", "A", "small letters");
  refused("--name", "-a", "small letters");
  refused("--name", "a23456789012345678901234567890123456789012", "at most 40");
  refused("--storage", "10GB", "10Gi");
  refused("--storage", "0Gi", "10Gi");
  refused("--claim", "data", "a path");
  refused("--claim", "data:data", "a path");
  refused("--image", "a b", "an image's name");
  check_has(usage({"launch", "--kubernetes"}), "takes the job after --");
}

BOOST_AUTO_TEST_SUITE_END()
