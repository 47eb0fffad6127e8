#include "actors/compute/told_lists.hpp"
#include "actors/job/row_words.hpp"
#include "actors/job/shard_tables.hpp"
#include "actors/job/snapshot_names.hpp"
#include "actors/shard/known_lists.hpp"
#include "tests/unit/actors/shard_bench.hpp"

#include <random>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(known_lists_test)

namespace {

JobOptions with_tables() {
  auto options = ShardBench::served();
  options.model = "dlrm";
  options.data = "synthetic:clicks?samples=400&buckets=3000";
  return options;
}

const Slice& some_part(const Job& job) {
  for (const auto& slice : job.plan.slices)
    if (slice.sparse())
      return slice;
  throw std::runtime_error("no tables");
}

/// Ids of one part, and their name.
struct List {
  List(const Job& job, const Slice& slice, uint64_t seed) {
    for (const auto& page : all_rows(job, slice))
      if (const auto bits = page.bits & (seed + 1) * 0x9e3779b97f4a7c15;
          bits != 0)
        pages.push_back({page.page, bits});
    bytes = encode_pages(pages);
    name = name_of(bytes);
  }
  IdPages pages;
  std::vector<std::byte> bytes;
  ListName name;
};

struct Talk {
  explicit Talk(const JobOptions& options)
    : bench(options),
      slice(some_part(*bench.job)),
      width(row_width(*bench.job, slice)) {
    bench.spawn(0);
    bench.begin_epoch();
  }

  RowPull wish(const List& list, uint64_t version, bool named) const {
    return {bench.fence,
            {RoleKind::worker, 0},
            version,
            slice.id,
            named ? RowWords{list.name, 0, width}.view()
                  : RowWords{list.bytes, 0, width, nullptr, list.name}.view()};
  }
  std::vector<float> pull(const List& list, uint64_t version, bool named) {
    caf::scoped_actor worker{bench.system};
    worker->send(bench.shards.at(0), wish(list, version, named));
    const auto pulled = ShardBench::expect<Pulled>(worker);
    const auto span = pulled.values.span();
    return {span.begin(), span.end()};
  }
  void push(const List& list, uint64_t step, bool named) {
    const auto rows = count_ids(list.pages);
    auto words = named ? RowWords{list.name, rows, width}
                       : RowWords{list.bytes, rows, width, nullptr, list.name};
    for (uint64_t i = 0; i < rows * width; ++i)
      words.values()[i] = static_cast<float>(step + i % 7);
    const RankRange all{0, bench.job->options.virtual_ranks};
    bench.coordinator->send(bench.shards.at(0),
                            Push{bench.fence, step, all, slice.id,
                                 std::move(words).view()});
  }

  ShardBench bench;
  const Slice& slice;
  size_t width;
};

} // namespace

BOOST_AUTO_TEST_CASE(what_a_worker_thinks_a_shard_knows_that_it_knows) {
  const Job job{with_tables(), 400};
  const auto& slice = some_part(job);
  const auto width = row_width(job, slice);
  std::vector<List> lists;
  for (uint64_t i = 0; i < 5; ++i)
    lists.emplace_back(job, slice, i);
  ToldLists told;
  KnownLists known;
  std::mt19937 random(1);
  uint64_t named = 0;
  uint64_t pushed = 0;
  for (int i = 0; i < 2000; ++i) {
    if (i % 100 == 0) { // an epoch
      const std::vector<uint32_t> shards(job.plan.slices.size());
      told.begin_epoch(shards, shards);
      known.reset();
    }
    const auto& list = lists[random() % lists.size()];
    RowPull pull;
    pull.worker = {RoleKind::worker, 3};
    const bool short_one = told.pulls(slice.id, list.name);
    pull.ids = short_one
                 ? RowWords{list.name, 0, width}.view()
                 : RowWords{list.bytes, 0, width, nullptr, list.name}.view();
    const auto said = known.pulled(job, slice, pull);
    BOOST_TEST_REQUIRE((said.list && said.list->pages() == list.pages));
    named += short_one ? 1 : 0;
    const auto& other = lists[random() % lists.size()];
    if (!told.knows(slice.id, other.name))
      continue;
    const auto values = RowWords{other.name, 0, width}.view();
    const auto found = known.pushed(job, slice, values);
    BOOST_TEST_REQUIRE((found.list && found.list->pages() == other.pages));
    ++pushed;
  }
  BOOST_TEST(named > 100u);
  BOOST_TEST(pushed > 100u);
}

BOOST_AUTO_TEST_CASE(a_head_that_is_not_the_tail_is_told_no_names) {
  ToldLists told;
  told.begin_epoch({0, 1}, {1, 1});
  const ListName name{1, 2};
  for (uint32_t slice : {0u, 1u}) {
    BOOST_TEST(!told.pulls(slice, name));
    BOOST_TEST(told.pulls(slice, name));
  }
  BOOST_TEST(!told.knows(0, name));
  BOOST_TEST(told.knows(1, name));
  told.begin_epoch({1, 1}, {1, 1});
  BOOST_TEST(!told.knows(1, name));
  BOOST_TEST(!told.pulls(1, name));
}

BOOST_AUTO_TEST_CASE(rows_pushed_under_a_name_have_the_bits_of_those_with_ids) {
  std::vector<std::vector<float>> ends;
  for (bool named : {false, true}) {
    Talk talk{with_tables()};
    const List list{*talk.bench.job, talk.slice, 1};
    const List other{*talk.bench.job, talk.slice, 2};
    talk.pull(list, 0, false);
    for (uint64_t step = 0; step < 4; ++step) {
      talk.push(step == 2 ? other : list, step, named && step != 2);
      talk.pull(list, step + 1, named);
    }
    ends.push_back(talk.pull(other, 4, false));
    const auto more = talk.pull(list, 4, named);
    ends.back().insert(ends.back().end(), more.begin(), more.end());
  }
  BOOST_TEST(ends[0] == ends[1], boost::test_tools::per_element());
}

// A name that the shard does not know can only be a conversation that lost
// something: it begins anew, with an epoch.
BOOST_AUTO_TEST_CASE(an_unknown_name_is_answered_by_an_epoch) {
  for (bool pushes : {false, true}) {
    Talk talk{with_tables()};
    const List list{*talk.bench.job, talk.slice, 1};
    caf::scoped_actor worker{talk.bench.system};
    if (pushes)
      talk.push(list, 0, true);
    else
      worker->send(talk.bench.shards.at(0), talk.wish(list, 0, true));
    LinkLost lost;
    while (lost.reason.empty())
      talk.bench.coordinator->receive(
        [&](const LinkLost& x) { lost = x; }, [](const Applied&) {},
        caf::after(ShardBench::patience) >> [&] { lost.reason = "late"; });
    BOOST_TEST(lost.reason.find("does not know") != std::string::npos);
    talk.bench.begin_epoch();
    talk.push(list, 0, false);
    talk.pull(list, 1, false);
    talk.push(list, 0, true); // of a step that is over: counted, no more
    BOOST_TEST(talk.pull(list, 1, true).size()
               == count_ids(list.pages) * talk.width);
  }
}

BOOST_AUTO_TEST_CASE(a_version_to_be_evaluated_shows_the_rows_that_are_read) {
  auto options = with_tables();
  options.evaluates = true;
  options.eval_every = 1;
  options.epochs = 3;
  options.global_batch = 500; // a step is an epoch
  Talk talk{options};
  const List list{*talk.bench.job, talk.slice, 1};
  const List read{*talk.bench.job, talk.slice, 2};
  auto wish = talk.wish(read, 0, false);
  wish.worker = {RoleKind::evaluator, 0};
  for (uint64_t step = 0; step < 3; ++step) {
    if (step == 1)
      talk.bench.coordinator->send(talk.bench.shards.at(0), wish);
    talk.push(list, step, false);
    RowSnapshot shown;
    while (shown.slice != talk.slice.id
           || version_named(shown.version) != step + 1)
      talk.bench.coordinator->receive(
        [&](const RowSnapshot& x) { shown = x; }, [](const Applied&) {},
        [](const SnapshotSlice&) {},
        caf::after(ShardBench::patience) >> [] { BOOST_REQUIRE(false); });
    BOOST_TEST(is_for_evaluation(shown.version)
               == (step == 1)); // the last one is shown whole
    const auto rows = read_payload(shown.rows.span(),
                                   row_copy_width(*talk.bench.job, talk.slice));
    BOOST_TEST_REQUIRE(rows.has_value());
    const auto common = without(list.pages, without(list.pages, read.pages));
    BOOST_CHECK(rows->pages == (step == 1 ? common : list.pages));
  }
}

BOOST_AUTO_TEST_SUITE_END()
