#include "tests/unit/kernels/table_reference.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::table_reference;

BOOST_AUTO_TEST_SUITE(table_eviction_test)

BOOST_AUTO_TEST_CASE(rows_that_are_idle_are_evicted_unless_they_were_frequent) {
  Reference reference{OptimizerKind::sgd};
  SparseTable table{options_for(OptimizerKind::sgd, {0, 16, 3})};
  const std::vector<float> gradient(2 * width, 1.0f);
  const std::vector<uint64_t> rare{10, 70};
  const std::vector<uint64_t> frequent{11, 500};
  const std::vector<uint64_t> now{90'000, 90'001};
  auto touch = [&](const std::vector<uint64_t>& ids) {
    table.update(reference.rule, moment_of(table.version() + 1), pages_of(ids),
                 gradient.data());
  };
  touch(rare);
  for (int i = 0; i < 3; ++i)
    touch(frequent);
  const auto trained = read(table, frequent);
  while (table.evicted() == 0 && table.version() < 100) {
    touch(now);
    BOOST_TEST_REQUIRE(table.version() < 40u);
  }
  BOOST_TEST(table.evicted() == 2u);
  BOOST_TEST(table.version() >= 17u);
  Reference initial{OptimizerKind::sgd};
  BOOST_TEST(same_bits(read(table, rare), initial.values(rare)));
  BOOST_TEST(!same_bits(read_before(table, rare), initial.values(rare)));
  BOOST_TEST(same_bits(read(table, frequent), trained));
}

BOOST_AUTO_TEST_CASE(a_limit_in_bytes_holds_and_the_oldest_rows_go_first) {
  Reference reference{OptimizerKind::adagrad};
  const uint64_t row_bytes = width * 2 * sizeof(float) + 8;
  SparseTable table{
    options_for(OptimizerKind::adagrad, {1000 * row_bytes, 0, 0})};
  const std::vector<float> gradient(50 * width, 1.0f);
  for (uint64_t step = 0; step < 100; ++step) {
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < 50; ++i)
      ids.push_back(step * 50 + i);
    table.update(reference.rule, moment_of(step + 1), pages_of(ids),
                 gradient.data());
    BOOST_TEST(table.rows() <= 1050u);
  }
  BOOST_TEST(table.rows() + table.evicted() == 5000u);
  const auto pages = table.present();
  std::vector<uint64_t> left;
  for_each_id(pages, [&](uint64_t id) { left.push_back(id); });
  BOOST_TEST(left.back() == 4999u);
  BOOST_TEST(left.back() - left.front() + 1 == left.size());
}

BOOST_AUTO_TEST_CASE(tables_with_another_history_of_memory_evict_alike) {
  const Eviction limit{300 * (width * 2 * 4 + 8), 32, 2};
  Reference reference{OptimizerKind::adagrad};
  SparseTable table{options_for(OptimizerKind::adagrad, limit)};
  SparseTable copy{options_for(OptimizerKind::adagrad, limit)};
  run(table, reference, 13, 30, 2000);
  const auto pages = table.present();
  std::vector<float> rows(table.rows() * table.copy_width());
  table.copy(pages, rows.data());
  copy.put(pages, rows.data());
  copy.adopt(table.version());
  Reference same = reference;
  run(table, reference, 14, 60, 2000);
  run(copy, same, 14, 60, 2000);
  BOOST_TEST(table.evicted() > 0u);
  BOOST_CHECK(table.present() == copy.present());
}

BOOST_AUTO_TEST_CASE(two_versions_are_copied_with_what_was_evicted_in_between) {
  const Eviction limit{300 * (width * 2 * 4 + 8), 32, 2};
  Reference reference{OptimizerKind::adagrad};
  SparseTable table{options_for(OptimizerKind::adagrad, limit)};
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < 2000; ++id)
    ids.push_back(id);
  std::mt19937_64 random(15);
  uint64_t gone = 0;
  for (uint64_t step = 0; step < 60; ++step) {
    const auto touched = pages_of(random_ids(random, 40, 2000));
    const auto gradient = random_values(random, count_ids(touched) * width);
    table.update(reference.rule, moment_of(step + 1), touched, gradient.data());
    SparseTable copy{options_for(OptimizerKind::adagrad, limit)};
    const auto before = table.present_before();
    std::vector<float> rows(count_ids(before) * table.copy_width());
    table.copy_before(before, rows.data());
    copy.put(before, rows.data());
    copy.adopt(table.version() - 1);
    const auto changed = table.changed();
    gone += count_ids(changed.gone);
    rows.resize(count_ids(changed.rows) * table.copy_width());
    table.copy(changed.rows, rows.data());
    copy.follow(changed, rows.data());
    BOOST_REQUIRE(copy.version() == table.version());
    BOOST_REQUIRE(copy.present() == table.present());
    BOOST_REQUIRE(same_bits(read(copy, ids), read(table, ids)));
    BOOST_REQUIRE(same_bits(read_before(copy, ids), read_before(table, ids)));
  }
  BOOST_TEST(gone > 0u);
}

// As a kill in an update without eviction: rows that were given up are back.
BOOST_AUTO_TEST_CASE(a_kill_while_rows_are_evicted_leaves_a_whole_version) {
  const auto options = options_for(OptimizerKind::adagrad, {9000, 40, 4});
  OptimizerOptions rule;
  rule.kind = OptimizerKind::adagrad;
  const auto train = [&](SparseTable& table, uint64_t steps,
                         const auto& update) {
    std::mt19937_64 draws(10);
    for (uint64_t step = 0; step < steps; ++step) {
      const auto ids = random_ids(draws, 60, 2000);
      const auto gradient = random_values(draws, ids.size() * width);
      update(step, [&] {
        table.update(rule, moment_of(step + 1), pages_of(ids), gradient.data());
      });
    }
  };
  std::mt19937_64 random(9);
  for (int round = 0; round < 20; ++round) {
    MemoryFile file;
    const auto version = killed_training(random, 40, [&](const auto& update) {
                           SparseTable table{options, file.descriptor};
                           train(table, ~uint64_t{0}, update);
                         }).version;
    SparseTable expected{options};
    train(expected, version, [](uint64_t, const auto& change) { change(); });
    BOOST_TEST(expected.evicted() > 0u);
    SparseTable table{options, file.descriptor, 0, version};
    const auto pages = expected.present();
    BOOST_TEST_REQUIRE((table.present() == pages));
    std::vector<float> rows(expected.rows() * expected.copy_width());
    auto found = rows;
    expected.copy(pages, rows.data());
    table.copy(pages, found.data());
    BOOST_TEST_REQUIRE(same_bits(found, rows));
  }
}

BOOST_AUTO_TEST_SUITE_END()
