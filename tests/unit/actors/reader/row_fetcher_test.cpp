#include "actors/control/actor_node.hpp"
#include "actors/control/peer_directory.hpp"
#include "actors/reader/reader.hpp"
#include "actors/reader/row_fetcher.hpp"
#include "kernels/base/error.hpp"
#include "kernels/data/row_supply.hpp"
#include "kernels/engine/parameter_gate.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <future>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(row_fetcher)

namespace {

/// Says who reads, as often as it is asked.
struct Directory {
  std::mutex mutex;
  std::vector<LinkedRole> readers;
  std::atomic<uint32_t> troubles{0};
};

/// A worker's samples and readers, in one process; their coordinator is a list.
struct ReaderBench {
  static constexpr uint64_t job_id = 7;

  explicit ReaderBench(uint32_t timeout_s = 60, uint64_t memory = 0,
                       JobData samples_read = small_data())
    : config(Credentials{}), system(config), data(std::move(samples_read)) {
    auto options = small_job();
    if (data.train->shape.vocabulary > 0)
      options.model = "logreg";
    options.data_access.timeout_s = timeout_s;
    options.data_access.memory = memory;
    options.threads_per_device = 3;
    options.global_batch = 500; // a batch has no more
    job = std::make_shared<const Job>(options, *data.train);
    coordinator = system.spawn(
      [directory = directory](caf::event_based_actor* self) -> caf::behavior {
        self->set_default_handler(caf::drop);
        return {[directory](const Hello&) {
                  std::lock_guard lock{directory->mutex};
                  JobInfo info;
                  info.readers = directory->readers;
                  return info;
                },
                [directory](const Trouble&) { ++directory->troubles; }};
      });
    worker = context({RoleKind::worker, 0});
    samples = samples_of_readers(system, worker, nullptr);
  }
  ~ReaderBench() {
    samples.reset();
    for (const auto& reader : readers)
      caf::anon_send_exit(reader, caf::exit_reason::kill);
    caf::anon_send_exit(coordinator, caf::exit_reason::kill);
  }

  RoleContext context(RoleId role) const {
    RoleContext out;
    out.job = job;
    out.data = data;
    out.job_id = job_id;
    out.role = role;
    out.incarnation = 1;
    out.coordinator = caf::actor_cast<coordinator_actor>(coordinator);
    out.metrics = std::make_shared<MetricRegistry>();
    return out;
  }

  /// Whoever links to that role has this actor from here on.
  void meet(RoleId role, caf::strong_actor_ptr actor) {
    const auto name = local_name(job_id, role);
    system.registry().erase(name);
    system.registry().put(name, std::move(actor));
  }

  /// Starts a reader; `joined`: the coordinator knows.
  reader_actor read(uint32_t index, bool joined = true) {
    const RoleId role{RoleKind::reader, index};
    auto own = context(role);
    metrics = own.metrics;
    readers.push_back(spawn_reader(system, std::move(own)));
    meet(role, caf::actor_cast<caf::strong_actor_ptr>(readers.back()));
    std::lock_guard lock{directory->mutex};
    if (joined)
      directory->readers = {{role, {}}};
    return readers.back();
  }

  /// Of the reader that was started last; of a histogram, how often.
  double metric(const std::string& name) const {
    for (const auto& sample : metrics->collect())
      if (sample.name == name)
        return sample.cumulative.empty()
                 ? sample.value
                 : static_cast<double>(sample.cumulative.back());
    BOOST_FAIL(name + " is not there");
    return 0;
  }

  /// Until the worker says whether it waits for samples.
  AwaitedSamples::Wait wait_until(bool waits) const {
    const auto end = SteadyClock::now() + std::chrono::seconds{60};
    while (worker.awaited->get().waits != waits && SteadyClock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    auto found = worker.awaited->get();
    BOOST_TEST(found.waits == waits);
    return found;
  }

  /// Whether rows from readers are those of the data, bit by bit.
  bool has_rows(const std::vector<uint64_t>& rows) const {
    const auto count = static_cast<uint32_t>(rows.size());
    BatchMemory own{job->graph, count};
    BatchMemory served{job->graph, count};
    data.train->gather(rows.data(), count, own);
    samples->gather(rows.data(), count, served);
    const auto features = count * job->graph.features();
    return std::equal(own.features(), own.features() + features,
                      served.features())
           && std::equal(own.labels(), own.labels() + count, served.labels());
  }

  ActorConfig config;
  caf::actor_system system;
  JobData data;
  std::shared_ptr<const Job> job;
  std::shared_ptr<Directory> directory = std::make_shared<Directory>();
  caf::actor coordinator;
  std::vector<reader_actor> readers;
  std::shared_ptr<MetricRegistry> metrics;
  RoleContext worker;
  std::shared_ptr<const Dataset> samples;
};

std::vector<uint64_t> range(uint32_t first, uint32_t count) {
  std::vector<uint64_t> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(rows_are_those_of_the_data_whether_expected_or_not) {
  ReaderBench bench;
  bench.read(0);
  BOOST_TEST(bench.samples->samples() == 500u);
  BOOST_TEST(bench.samples->is_elsewhere());
  BOOST_TEST(bench.has_rows({499, 3, 77}));
  for (uint32_t step = 0; step < 20; ++step) {
    const auto next = range(20 * (step + 1), 20);
    bench.samples->expect(next.data(), 20);
    BOOST_TEST(bench.has_rows(range(20 * step, 20)));
  }
  BOOST_TEST(bench.has_rows(range(0, 500))); // on all threads, in chunks
}

BOOST_AUTO_TEST_CASE(a_reader_tells_what_it_has_read) {
  ReaderBench bench;
  bench.read(0);
  BOOST_TEST(bench.metric("troupe_reader_samples_total") == 0);
  BOOST_TEST(bench.has_rows(range(0, 50)));
  BOOST_TEST(bench.has_rows(range(10, 20)));
  BOOST_TEST(bench.metric("troupe_reader_samples_total") == 70);
  const auto row = packed_words(bench.job->graph, 1) * sizeof(float);
  BOOST_TEST(bench.metric("troupe_reader_bytes_total") == 70.0 * row);
  BOOST_TEST(bench.metric("troupe_read_duration_seconds") == 2);
  BOOST_TEST(bench.metric("troupe_reader_requests") == 0);
}

BOOST_AUTO_TEST_CASE(a_worker_that_waits_tells_for_whom) {
  ReaderBench bench;
  BOOST_TEST(!bench.worker.awaited->get().waits);
  auto waits = std::async(std::launch::async,
                          [&] { return bench.has_rows(range(0, 10)); });
  BOOST_TEST(bench.wait_until(true).readers.empty()); // nobody is there
  auto stands_still =
    bench.system.spawn([](caf::event_based_actor*) -> caf::behavior {
      return {[](const RowsWanted&) {}};
    });
  const RoleId role{RoleKind::reader, 1};
  bench.meet(role, caf::actor_cast<caf::strong_actor_ptr>(stands_still));
  {
    std::lock_guard lock{bench.directory->mutex};
    bench.directory->readers = {{role, {}}};
  }
  const auto end = SteadyClock::now() + std::chrono::seconds{60};
  while (bench.worker.awaited->get().readers.empty()
         && SteadyClock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  BOOST_TEST((bench.worker.awaited->get().readers == std::vector{role}));
  bench.read(0);
  BOOST_TEST(waits.get());
  BOOST_TEST(bench.wait_until(false).readers.empty());
  caf::anon_send_exit(stands_still, caf::exit_reason::kill);
}

BOOST_AUTO_TEST_CASE(nobody_asks_for_a_rank_without_samples) {
  ReaderBench bench;
  bench.read(0);
  bench.samples->expect(nullptr, 0);
  BOOST_TEST(bench.has_rows(range(0, 10)));
}

BOOST_AUTO_TEST_CASE(a_window_smaller_than_a_batch_takes_one_at_a_time) {
  ReaderBench bench{60, 1};
  bench.read(0);
  for (uint32_t step = 0; step < 10; ++step) {
    const auto next = range(50 * ((step + 1) % 10), 50);
    bench.samples->expect(next.data(), 50);
    BOOST_TEST(bench.has_rows(range(50 * step, 50)));
  }
}

BOOST_AUTO_TEST_CASE(another_reader_takes_over_from_a_dead_one) {
  ReaderBench bench;
  auto reader = bench.read(0);
  for (uint32_t life = 1; life <= 5; ++life) {
    BOOST_TEST(bench.has_rows(range(life, 100)));
    caf::anon_send_exit(reader, caf::exit_reason::kill);
    reader = bench.read(life % 2);
  }
  BOOST_TEST(bench.has_rows(range(0, 100)));
}

// Symptom: a worker died beside an idle reader. Cause: the reader of that name
// before it stood still with its link open, and the new one was never linked.
BOOST_AUTO_TEST_CASE(a_reader_that_took_anothers_name_is_linked) {
  ReaderBench bench;
  std::promise<void> asked;
  auto stands_still = bench.system.spawn(
    [&asked, first = true](caf::event_based_actor*) mutable -> caf::behavior {
      return {[&asked, first](const RowsWanted&) mutable {
        if (std::exchange(first, false))
          asked.set_value();
      }};
    });
  const RoleId role{RoleKind::reader, 0};
  bench.meet(role, caf::actor_cast<caf::strong_actor_ptr>(stands_still));
  {
    std::lock_guard lock{bench.directory->mutex};
    bench.directory->readers = {{role, "where it was"}};
  }
  auto waits = std::async(std::launch::async,
                          [&] { return bench.has_rows(range(0, 10)); });
  asked.get_future().wait();
  bench.read(0);
  BOOST_TEST(waits.get());
  caf::anon_send_exit(stands_still, caf::exit_reason::kill);
}

// A request is a few bytes a sample and its answer may be kilobytes: without a
// bound a member could make a reader allocate what no machine has.
BOOST_AUTO_TEST_CASE(a_reader_drops_what_is_more_than_a_step_has) {
  ReaderBench bench;
  const auto reader = caf::actor_cast<caf::actor>(bench.read(0));
  caf::scoped_actor asks{bench.system};
  const auto wanted = [](uint64_t request, size_t samples) {
    return RowsWanted{{ReaderBench::job_id, 0, 0},
                      {RoleKind::worker, 0},
                      request,
                      0,
                      TensorView::copy(std::vector<float>(samples))};
  };
  asks->send(reader, wanted(1, 501));
  asks->send(reader, wanted(2, 500));
  asks->receive([](const RowsServed& x) { BOOST_TEST(x.request == 2u); },
                caf::after(std::chrono::seconds{60}) >>
                  [] { BOOST_ERROR("no answer"); });
}

// A link renews a worker's credit as the request is let go: what waits to be
// sent is bounded by its window then.
BOOST_AUTO_TEST_CASE(a_request_is_kept_until_its_answer_has_left) {
  ReaderBench bench;
  const auto reader = caf::actor_cast<caf::actor>(bench.read(0));
  caf::scoped_actor asks{bench.system};
  const auto served = [&](uint64_t request, TensorView samples) {
    asks->send(reader, RowsWanted{{ReaderBench::job_id, 0, 0},
                                  {RoleKind::worker, 0},
                                  request,
                                  0,
                                  std::move(samples)});
    RowsServed got;
    asks->receive([&](const RowsServed& x) { got = x; },
                  caf::after(std::chrono::seconds{60}) >>
                    [] { BOOST_ERROR("no answer"); });
    BOOST_TEST(got.request == request);
    return got;
  };
  auto samples = std::make_shared<const std::vector<float>>(2);
  const std::weak_ptr<const std::vector<float>> kept = samples;
  const auto* first = samples->data();
  auto answer = std::make_optional(served(1, {std::move(samples), first, 2}));
  served(2, TensorView::copy(std::vector<float>(2)));
  BOOST_TEST(!kept.expired());
  answer.reset();
  BOOST_TEST(kept.expired());
}

BOOST_AUTO_TEST_CASE(who_waits_for_a_reader_has_its_rows_once_one_comes) {
  ReaderBench bench;
  auto waits = std::async(std::launch::async,
                          [&] { return bench.has_rows(range(0, 10)); });
  BOOST_TEST((waits.wait_for(std::chrono::milliseconds{200})
              == std::future_status::timeout));
  bench.read(0);
  BOOST_TEST(waits.get());
}

BOOST_AUTO_TEST_CASE(a_wait_ends_by_its_deadline_with_a_line) {
  ReaderBench bench{1};
  try {
    bench.has_rows(range(0, 10));
    BOOST_ERROR("rows came from nobody");
  } catch (const InputError& late) {
    BOOST_TEST(std::string{late.what()}.starts_with(
      "no samples within 1 s: no reader is there; "));
  }
}

BOOST_AUTO_TEST_CASE(whoever_ends_does_not_wait) {
  ReaderBench bench;
  auto waits = std::async(std::launch::async,
                          [&] { return bench.has_rows(range(0, 10)); });
  bench.samples->end_supply();
  BOOST_CHECK_THROW(waits.get(), InputError);
  BOOST_CHECK_THROW(bench.has_rows(range(0, 10)), InputError);
}

// Symptom: a replica that waited for rows did not seal in time, and its state
// was lost with it.
BOOST_AUTO_TEST_CASE(
  whoever_waits_abandons_its_pass_while_the_supply_is_paused) {
  ReaderBench bench;
  auto waits = std::async(std::launch::async,
                          [&] { return bench.has_rows(range(0, 10)); });
  bench.samples->pause_supply(true);
  BOOST_CHECK_THROW(waits.get(), PassAbandoned);
  BOOST_CHECK_THROW(bench.has_rows(range(0, 10)), PassAbandoned);
  bench.samples->pause_supply(false);
  bench.read(0);
  BOOST_TEST(bench.has_rows(range(0, 10)));
}

BOOST_AUTO_TEST_CASE(a_sample_that_is_not_there_ends_the_run) {
  ReaderBench bench{1};
  bench.read(0);
  const std::vector<uint64_t> rows{500};
  BatchMemory served{bench.job->graph, 1};
  BOOST_CHECK_THROW(bench.samples->gather(rows.data(), 1, served), InputError);
  BOOST_TEST(bench.directory->troubles.load() > 0u);
}

BOOST_AUTO_TEST_CASE(samples_beyond_the_32nd_bit_are_asked_for_by_number) {
  constexpr auto many = uint64_t{5} << 30;
  JobData rows;
  rows.train =
    load_data(parse_data_spec("synthetic:rows?samples=5368709120&ids=3&"
                              "vocabulary=2000000000"))
      .train;
  ReaderBench bench{60, 0, std::move(rows)};
  bench.read(0);
  const std::vector<uint64_t> wanted{many - 1, 7, uint64_t{1} << 32,
                                     (uint64_t{1} << 32) + 7};
  BOOST_TEST(bench.samples->samples() == many);
  BatchMemory own{bench.job->graph, 4};
  BatchMemory served{bench.job->graph, 4};
  bench.data.train->gather(wanted.data(), 4, own);
  bench.samples->gather(wanted.data(), 4, served);
  BOOST_TEST(std::equal(own.ids(), own.ids() + 12, served.ids()));
  // Numbers that differ in their upper half alone are different samples.
  BOOST_TEST(!std::equal(own.ids() + 3, own.ids() + 6, own.ids() + 9));
}

BOOST_AUTO_TEST_SUITE_END()
