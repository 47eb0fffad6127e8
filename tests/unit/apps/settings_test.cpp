#include "apps/settings/devices.hpp"
#include "tests/unit/apps/settings_bench.hpp"

using namespace troupe;

BOOST_FIXTURE_TEST_SUITE(settings_suite, Bench)

BOOST_AUTO_TEST_CASE(defaults_are_those_of_the_contract) {
  auto s = train({});
  BOOST_CHECK_EQUAL(s.command, "train");
  BOOST_CHECK_EQUAL(s.job.model, "mlp:784-512-256-10");
  BOOST_CHECK(s.job.strategy == Strategy::mirrored);
  BOOST_CHECK(s.job.synchronisation == Synchronisation::sync);
  BOOST_CHECK_EQUAL(s.job.virtual_ranks, 4);
  BOOST_CHECK_EQUAL(s.job.global_batch, 64);
  BOOST_CHECK_EQUAL(s.job.epochs, 1);
  BOOST_CHECK_EQUAL(s.job.steps, 0);
  BOOST_CHECK_EQUAL(s.job.optimizer, "adam");
  BOOST_CHECK_EQUAL(s.job.learning_rate, 1e-3);
  BOOST_CHECK_EQUAL(s.job.partitioner, "max_size:1048576");
  BOOST_CHECK_EQUAL(s.metrics_address, "127.0.0.1:0");
  BOOST_CHECK(!s.job.processes);
  BOOST_CHECK(!s.quiet);
  BOOST_CHECK(s.color);
  BOOST_CHECK(s.save.empty());
}

BOOST_AUTO_TEST_CASE(flags_reach_their_fields) {
  auto s = train({"--strategy",
                  "parameter_server",
                  "--workers",
                  "3",
                  "--ps=2",
                  "--async",
                  "--in-process",
                  "--optimizer",
                  "nesterov",
                  "--momentum",
                  "0.5",
                  "--lr",
                  "1e-2",
                  "--lr-schedule",
                  "cosine",
                  "--min-lr",
                  "1e-4",
                  "--warmup-steps",
                  "7",
                  "--seed",
                  "18446744073709551615",
                  "--global-batch",
                  "128",
                  "--epochs",
                  "3",
                  "--steps",
                  "9",
                  "--eval-fraction",
                  "0.15",
                  "--partitioner",
                  "fixed:3",
                  "--quiet",
                  "--no-color",
                  "--save",
                  "w.safetensors",
                  "--log-level",
                  "debug",
                  "--join-deadline-ms",
                  "500",
                  "--isa",
                  "avx2"});
  BOOST_CHECK(s.job.strategy == Strategy::parameter_server);
  BOOST_CHECK_EQUAL(s.job.workers, 3);
  BOOST_CHECK_EQUAL(s.job.shards, 2);
  BOOST_CHECK(s.job.synchronisation == Synchronisation::async);
  BOOST_CHECK(!s.job.processes);
  BOOST_CHECK(s.job.rule.kind == OptimizerKind::nesterov);
  BOOST_CHECK_EQUAL(s.job.rule.momentum, 0.5f);
  BOOST_CHECK_EQUAL(s.job.learning_rate, 1e-2);
  BOOST_CHECK(s.job.lr.schedule == LrSchedule::cosine);
  BOOST_CHECK_EQUAL(s.job.lr.min, 1e-4);
  BOOST_CHECK_EQUAL(s.job.lr.warmup_steps, 7);
  BOOST_CHECK_EQUAL(s.job.seed, 18446744073709551615u);
  BOOST_CHECK_EQUAL(s.job.global_batch, 128);
  BOOST_CHECK_EQUAL(s.job.epochs, 3);
  BOOST_CHECK_EQUAL(s.job.steps, 9);
  BOOST_CHECK_EQUAL(s.job.eval_fraction, 0.15);
  BOOST_CHECK_EQUAL(s.job.partitioner, "fixed:3");
  BOOST_CHECK_EQUAL(s.job.isa, "avx2");
  BOOST_CHECK_EQUAL(s.job.deadlines.join_ms, 500);
  BOOST_CHECK(s.quiet);
  BOOST_CHECK(!s.color);
  BOOST_CHECK_EQUAL(s.save, "w.safetensors");
  BOOST_CHECK_EQUAL(s.log_level, "debug");
  BOOST_CHECK(s.given.count("ps") == 1);
  BOOST_CHECK(s.given.count("beta1") == 0);
}

BOOST_AUTO_TEST_CASE(flags_of_links_reach_their_fields) {
  BOOST_CHECK_EQUAL(train({}).job.link, "auto");
  auto s = train({"--link", "shm", "--link-encryption", "off", "--strategy",
                  "parameter_server"});
  BOOST_CHECK_EQUAL(s.job.link, "shm");
  BOOST_CHECK_EQUAL(s.job.link_encryption, "off");
}

BOOST_AUTO_TEST_CASE(the_parameter_server_runs_as_processes_by_default) {
  BOOST_CHECK(train({"--strategy", "parameter_server"}).job.processes);
  BOOST_CHECK(!train({"--strategy", "one_device"}).job.processes);
}

BOOST_AUTO_TEST_CASE(steps_alone_lift_the_limit_of_one_epoch) {
  BOOST_CHECK_EQUAL(train({"--steps", "5"}).job.epochs, 0);
  BOOST_CHECK_EQUAL(train({"--steps", "5", "--epochs", "2"}).job.epochs, 2);
  check_has(train_usage({"--epochs", "0"}), "--steps");
}

BOOST_AUTO_TEST_CASE(a_flag_wins_over_tf_config_and_that_over_the_file) {
  File file{"workers = 1\nps = 1\nvirtual_ranks = 8\nlr = 0.5\nquiet = true\n"
            "strategy = \"parameter_server\"\nseed = 3\n"};
  around.tf_config = R"({"cluster": {"worker": ["a:1", "b:1", "c:1"],
                                     "ps": ["d:1", "e:1"]}})";
  auto s = train({"--config", file.path(), "--ps", "4", "--lr", "0.25"});
  BOOST_CHECK_EQUAL(s.job.workers, 3);          // TF_CONFIG over the file
  BOOST_CHECK_EQUAL(s.job.shards, 4);           // flag over both
  BOOST_CHECK_EQUAL(s.job.learning_rate, 0.25); // flag over the file
  BOOST_CHECK_EQUAL(s.job.virtual_ranks, 8);    // file over the default
  BOOST_CHECK_EQUAL(s.job.seed, 3);
  BOOST_CHECK(s.quiet);
  BOOST_CHECK_EQUAL(s.job.global_batch, 64);
}

BOOST_AUTO_TEST_CASE(a_flag_wins_over_its_opposite_in_the_file) {
  File file{"strategy = \"parameter_server\"\nasync = true\n"
            "processes = true\neval-fraction = 0.5\n"};
  auto s = train({"--config", file.path(), "--sync", "--in-process",
                  "--eval-data", "synthetic:digits?seed=1"});
  BOOST_CHECK(s.job.synchronisation == Synchronisation::sync);
  BOOST_CHECK(!s.job.processes);
  BOOST_CHECK_EQUAL(s.job.eval_fraction, 0);
  BOOST_CHECK_EQUAL(s.job.eval_data, "synthetic:digits?seed=1");
}

BOOST_AUTO_TEST_CASE(print_config_is_read_back_as_it_was) {
  auto first = train({"--strategy",
                      "parameter_server",
                      "--workers",
                      "3",
                      "--ps",
                      "2",
                      "--async",
                      "--seed",
                      "18446744073709551615",
                      "--lr",
                      "0.1",
                      "--epsilon",
                      "1e-7",
                      "--steps",
                      "1000",
                      "--eval-fraction",
                      "0.3",
                      "--save",
                      "a \"b\"\\c.st",
                      "--metrics-address",
                      "127.0.0.1:9000",
                      "--quiet",
                      "--no-color",
                      "--lr-schedule",
                      "cosine",
                      "--log-every",
                      "50",
                      "--devices",
                      "cpu:3"});
  auto text = to_toml(first);
  File file{text};
  auto second = parse({"train", "--config", file.path()});
  BOOST_CHECK_EQUAL(to_toml(second), text);
  BOOST_CHECK_EQUAL(to_json(second.job), to_json(first.job));
  BOOST_CHECK_EQUAL(second.save, first.save);
  BOOST_CHECK_EQUAL(second.log_every, 50);
  BOOST_CHECK(second.quiet);
  BOOST_CHECK(!second.color);
}

BOOST_AUTO_TEST_CASE(print_config_of_defaults_is_read_back) {
  auto plain = parse({"train", "--print-config"});
  BOOST_CHECK(plain.print_config);
  auto text = to_toml(plain);
  File file{text};
  auto again = parse({"train", "--config", file.path(), "--print-config"});
  BOOST_CHECK_EQUAL(to_toml(again), text);
  auto held_out = train({"--eval-data", "synthetic:digits?seed=1"});
  File other{to_toml(held_out)};
  BOOST_CHECK_EQUAL(parse({"train", "--config", other.path()}).job.eval_data,
                    "synthetic:digits?seed=1");
}

BOOST_AUTO_TEST_CASE(what_was_not_given_is_printed_as_a_comment) {
  const auto text = to_toml(train({"--lr", "0.1"}), TomlPart::given);
  check_has(text, "\nlr = 0.1\n");
  check_has(text, "\n# epochs = 1\n");
  File file{text};
  auto later = parse({"train", "--config", file.path(), "--steps", "2000",
                      "--strategy", "parameter_server"});
  BOOST_CHECK_EQUAL(later.job.epochs, 0u);
  BOOST_CHECK(later.job.processes);
  BOOST_CHECK_EQUAL(later.job.learning_rate, 0.1);
}

BOOST_AUTO_TEST_CASE(what_is_the_only_choice_may_be_said) {
  auto s = train({"--chain", "1", "--link", "auto", "--compress", "none",
                  "--all-reduce", "auto", "--reduction", "reproducible",
                  "--precision", "float32"});
  BOOST_CHECK_EQUAL(s.job.reduction, "reproducible");
}

BOOST_AUTO_TEST_CASE(devices_and_threads_follow_the_strategy) {
  auto mirrored = train({});
  BOOST_CHECK_EQUAL(mirrored.job.devices.size(), 4); // not above virtual ranks
  BOOST_CHECK_EQUAL(mirrored.job.threads_per_device, 2);
  BOOST_CHECK_EQUAL(train({"--virtual-ranks", "16"}).job.devices.size(), 8);
  auto single = train({"--strategy", "one_device"});
  BOOST_CHECK_EQUAL(single.job.devices.size(), 1);
  BOOST_CHECK_EQUAL(single.job.devices.front(), "cpu:0");
  BOOST_CHECK_EQUAL(single.job.threads_per_device, 8);
  auto served = train({"--strategy", "parameter_server", "--workers", "3"});
  BOOST_CHECK_EQUAL(served.job.devices.size(), 1);
  BOOST_CHECK_EQUAL(served.job.threads_per_device, 2);
  auto named = train({"--devices", "cpu:2", "--threads-per-device", "5"});
  BOOST_CHECK_EQUAL(named.job.devices.back(), "cpu:1");
  BOOST_CHECK_EQUAL(named.job.threads_per_device, 5);
  around.cores = 1;
  BOOST_CHECK_EQUAL(train({"--devices", "cpu:4"}).job.threads_per_device, 1);
}

BOOST_AUTO_TEST_CASE(gpus_are_used_where_there_are_any) {
  around.cuda_devices = [] { return 2u; };
  auto mirrored = train({});
  BOOST_CHECK_EQUAL(mirrored.job.devices.size(), 2);
  BOOST_CHECK_EQUAL(mirrored.job.devices.back(), "cuda:1");
  auto single = train({"--strategy", "one_device"});
  BOOST_CHECK_EQUAL(single.job.devices.front(), "cuda:0");
  auto all = train({"--devices", "cuda:all"});
  BOOST_CHECK_EQUAL(all.job.devices.size(), 2);
  BOOST_CHECK_EQUAL(train({"--devices", "cuda:1"}).job.devices.front(),
                    "cuda:1");
  check_has(train_usage({"--devices", "cuda:0,cuda:0"}), "twice");
  auto shared = train({"--devices", "cuda:1*3,cuda:0"});
  BOOST_TEST(
    shared.job.devices
      == (std::vector<std::string>{"cuda:1", "cuda:1.1", "cuda:1.2", "cuda:0"}),
    boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(print_devices(shared.job.devices), "cuda:1*3,cuda:0");
  const auto mixed = train(
    {"--strategy", "parameter_server", "--async", "--devices", "cuda:1,cpu:2"});
  BOOST_TEST(mixed.job.devices
               == (std::vector<std::string>{"cuda:1", "cpu:0", "cpu:1"}),
             boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(print_devices(mixed.job.devices), "cuda:1,cpu:2");
  check_has(train_usage({"--devices", "cpu:1,cpu:1"}), "named twice");
  for (const std::string strategy : {"mirrored", "central_storage"})
    check_has(train_usage({"--strategy", strategy, "--devices", "cpu:257",
                           "--virtual-ranks", "257", "--global-batch", "257"}),
              "257 workers cannot sum together, 256 can");
  check_has(train_usage({"--devices", "cuda:0,cpu:0"}), "cpu:N");
  check_has(train_usage({"--devices", "cuda:0,cpu:1"}), "different bits");
  check_has(train_usage({"--strategy", "parameter_server", "--sync",
                         "--devices", "cpu:2,cuda:0"}),
            "--devices cpu:2,cuda:0: GPUs and processors get different bits");
  BOOST_CHECK_THROW(train({"--strategy", "parameter_server", "--async",
                           "--devices", "cpu:1,cuda:2"}),
                    InputError);
  BOOST_CHECK_THROW(train({"--devices", "cuda:2"}), InputError);
  around.cuda_devices = [] { return 0u; };
  around.why_no_cuda = [] { return std::string{"no driver"}; };
  for (const std::string devices : {"cuda:0", "cuda:all"})
    BOOST_CHECK_EXCEPTION(
      train({"--devices", devices}), InputError, [&](const InputError& why) {
        return why.what()
               == "--devices " + devices + ": no driver; use --devices cpu:N";
      });
}

BOOST_AUTO_TEST_CASE(devices_of_a_plugin_are_counted) {
  File file{"no library"};
  BOOST_CHECK_THROW(train({"--devices", "pjrt:" + file.path()}), InputError);
  const std::string plugin = "pjrt:/proc/self/exe"; // laid out as libraries are
  const auto one = train({"--strategy", "one_device", "--devices", plugin});
  BOOST_CHECK_EQUAL(one.job.devices.size(), 1);
  BOOST_CHECK_EQUAL(one.job.devices.front(), plugin + ":0");
  BOOST_CHECK_EQUAL(one.job.threads_per_device, 1);
  BOOST_CHECK_EQUAL(one.job.deadlines.join_ms, 300'000);
  BOOST_CHECK_EQUAL(one.job.deadlines.step_ms, 600'000);
  const auto hurried = train({"--devices", plugin, "--join-deadline-ms", "700",
                              "--step-deadline-ms", "9000"});
  BOOST_CHECK_EQUAL(hurried.job.deadlines.join_ms, 700);
  BOOST_CHECK_EQUAL(hurried.job.deadlines.step_ms, 9'000);
  const auto two = train({"--strategy", "tpu", "--devices", plugin + ":2"});
  BOOST_CHECK(two.job.strategy == Strategy::tpu);
  BOOST_CHECK(!two.job.processes);
  BOOST_CHECK_EQUAL(two.job.devices.back(), plugin + ":1");
  BOOST_CHECK_EQUAL(print_devices(two.job.devices), plugin + ":2");
  BOOST_CHECK_EQUAL(parse_devices("pjrt:a:b.so").front(), "pjrt:a:b.so:0");
  check_has(train_usage({"--strategy", "tpu", "--devices", plugin + ":2",
                         "--bucket-mb", "1"}),
            "--bucket-mb has no effect");
  check_has(train_usage({"--devices", plugin, "--threads-per-device", "2"}),
            "--threads-per-device has no effect");
}

BOOST_AUTO_TEST_CASE(an_option_that_is_off_in_the_file_is_not_given) {
  File file{"strategy = \"parameter_server\"\nsync = false\nasync = true\n"
            "quiet = false\nin-process = false\nsave = \"\"\n"};
  auto s = train({"--config", file.path()});
  BOOST_CHECK(s.job.synchronisation == Synchronisation::async);
  BOOST_CHECK(!s.quiet);
  BOOST_CHECK(s.job.processes);
}

BOOST_AUTO_TEST_CASE(a_role_is_named_or_comes_from_tf_config) {
  auto s = parse({"role", "worker:1", "--coordinator", "127.0.0.1:70"});
  BOOST_REQUIRE(s.role);
  BOOST_CHECK_EQUAL(to_string(*s.role), "worker:1");
  BOOST_CHECK_EQUAL(s.coordinator, "127.0.0.1:70");
  BOOST_CHECK(s.job.processes);
  auto late = parse({"role", "--quiet", "ps:0", "--coordinator", "[::1]:70"});
  BOOST_REQUIRE(late.role);
  BOOST_CHECK_EQUAL(to_string(*late.role), "ps:0");
  check_has(usage({"role", "ps:0", "ps:1", "--coordinator", "[::1]:70"}),
            "unexpected argument ps:1");
  // The address of metrics, or a journal, may stand behind the flags, too.
  for (const Words& words :
       {Words{"top", "http://127.0.0.1:9/metrics", "--once"},
        Words{"top", "--once", "127.0.0.1:9"},
        Words{"status", "--certificates", "certs", "127.0.0.1:9"}})
    BOOST_CHECK_EQUAL(parse(words).metrics_address, "127.0.0.1:9");
  for (const auto* command : {"status", "top", "doctor"})
    for (const auto* bad : {"foo", "127.0.0.1", "http://host/metrics"})
      check_has(usage({command, bad}),
                "'troupe " + std::string{command} + "' takes the address that "
                  + "the run printed as metrics, HOST:PORT, not " + bad);
  BOOST_CHECK_EQUAL(parse({"events", "--kind", "epoch", "run.db"}).events.path,
                    "run.db");
  check_has(usage({"top", "127.0.0.1:9", "--once", "127.0.0.1:10"}),
            "unexpected argument 127.0.0.1:10");
  around.tf_config = R"({"cluster": {"chief": ["127.0.0.1:70"],
    "worker": ["127.0.0.1:71", "127.0.0.1:72"], "ps": ["127.0.0.1:73"],
    "evaluator": ["127.0.0.1:74"]}, "task": {"type": "ps", "index": 0}})";
  auto shard = parse({"role"});
  BOOST_REQUIRE(shard.role);
  BOOST_CHECK_EQUAL(to_string(*shard.role), "ps:0");
  BOOST_CHECK_EQUAL(shard.coordinator, "127.0.0.1:70");
  BOOST_CHECK_EQUAL(shard.listen, "127.0.0.1:73");
  auto chief = parse({"role", "coordinator", "--data", "synthetic:digits"});
  BOOST_CHECK_EQUAL(chief.listen, "127.0.0.1:70");
  BOOST_CHECK_EQUAL(chief.job.workers, 2);
  BOOST_CHECK_EQUAL(chief.job.shards, 1);
  BOOST_CHECK(chief.job.strategy == Strategy::parameter_server);
}

// Symptom: `troupe train` did not look at the task: two hosts trained two
// models.
BOOST_AUTO_TEST_CASE(train_is_what_the_task_is) {
  const std::vector<std::string> train{"train", "--data", "synthetic:digits",
                                       "--certificates", "certs"};
  around.tf_config = R"({"cluster": {"chief": ["127.0.0.1:70"],
    "worker": ["127.0.0.1:71", "127.0.0.1:72"], "ps": ["127.0.0.1:73"]},
    "task": {"type": "worker", "index": 1}})";
  auto worker = parse(train);
  BOOST_CHECK_EQUAL(worker.command, "role");
  BOOST_REQUIRE(worker.role);
  BOOST_CHECK_EQUAL(to_string(*worker.role), "worker:1");
  BOOST_CHECK_EQUAL(worker.coordinator, "127.0.0.1:70");
  check_has(usage({"train", "--data", "synthetic:digits"}), "--certificates");
  around.tf_config = R"({"cluster": {
    "worker": ["127.0.0.1:71", "127.0.0.1:72"]},
    "task": {"type": "worker", "index": 0}})";
  auto first = parse(train);
  BOOST_CHECK_EQUAL(first.command, "train");
  BOOST_CHECK(first.leads);
  BOOST_CHECK_EQUAL(first.listen, "127.0.0.1:71");
  BOOST_CHECK(first.job.strategy == Strategy::multi_worker_mirrored);
  around.tf_config = R"({"cluster": {
    "worker": ["127.0.0.1:71", "127.0.0.1:72"]},
    "task": {"type": "worker", "index": 1}})";
  auto second = parse(train);
  BOOST_CHECK_EQUAL(second.command, "role");
  BOOST_CHECK_EQUAL(second.coordinator, "127.0.0.1:71");
  around.tf_config = R"({"cluster": {"ps": ["127.0.0.1:70"],
    "worker": ["127.0.0.1:71"]}, "task": {"type": "ps", "index": 0}})";
  check_has(usage(train), "chief");
  around.tf_config = R"({"cluster": {"worker": ["127.0.0.1:71"]},
    "task": {"type": "worker", "index": 0}})";
  BOOST_CHECK(!parse(train).leads); // nobody else is there
}

BOOST_AUTO_TEST_CASE(help_is_asked_for_anywhere) {
  BOOST_CHECK_EQUAL(parse({"--help"}).command, "help");
  BOOST_CHECK_EQUAL(parse({"train", "--lr", "--help"}).topic, "train");
  BOOST_CHECK_EQUAL(parse({"help", "predict"}).topic, "predict");
  BOOST_CHECK_EQUAL(parse({"--version"}).command, "version");
}

BOOST_AUTO_TEST_SUITE_END()
