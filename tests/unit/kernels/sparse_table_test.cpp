#include "kernels/graph/models.hpp"
#include "tests/unit/kernels/table_reference.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::table_reference;

BOOST_AUTO_TEST_SUITE(sparse_table_test)

BOOST_AUTO_TEST_CASE(every_rule_gives_the_bits_of_each_row_updated_alone) {
  using enum OptimizerKind;
  for (auto kind :
       {sgd, momentum, nesterov, adam, adamw, adagrad, rmsprop, ftrl, lamb})
    for (uint64_t range : {120u, 3000u, 1u << 30}) {
      Reference reference{kind};
      reference.rule.weight_decay = 0.01f;
      SparseTable table{options_for(kind)};
      run(table, reference, 1, 40, range);
      std::vector<uint64_t> ids;
      for (const auto& [id, row] : reference.rows)
        ids.push_back(id);
      BOOST_TEST(table.rows() == ids.size());
      BOOST_TEST(same_bits(read(table, ids), reference.values(ids)),
                 to_string(kind) << " of " << range);
    }
}

BOOST_AUTO_TEST_CASE(
  reading_an_unknown_row_gives_its_initial_value_and_stores_nothing) {
  SparseTable table{options_for(OptimizerKind::adagrad)};
  const std::vector<uint64_t> ids{0, 5, 64, ~uint64_t{0}};
  const auto before = table.bytes();
  Reference reference{OptimizerKind::adagrad};
  BOOST_TEST(same_bits(read(table, ids), reference.values(ids)));
  BOOST_TEST(table.rows() == 0u);
  BOOST_TEST(table.bytes() == before);
}

BOOST_AUTO_TEST_CASE(a_row_starts_with_the_bits_of_the_dense_initialiser) {
  const auto graph = make_graph("dlrm");
  uint32_t parameter = 0;
  while (!graph.parameters[parameter].by_rows)
    ++parameter;
  const auto& what = graph.parameters[parameter];
  std::vector<float> dense(what.size());
  initialize(graph, 7, parameter, 0, dense.data(), what.size());
  TableOptions options;
  options.width = what.shape[1];
  options.initial = [&](uint64_t first, uint64_t rows, float* out) {
    initialize(graph, 7, parameter, first * options.width, out,
               rows * options.width);
  };
  SparseTable table{options};
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < what.shape[0]; ++id)
    ids.push_back(id);
  std::vector<float> out(dense.size());
  table.read(pages_of(ids), out.data());
  BOOST_TEST(same_bits(out, dense));
}

BOOST_AUTO_TEST_CASE(rows_do_not_depend_on_the_order_in_which_they_arrived) {
  Reference reference{OptimizerKind::sgd};
  SparseTable one{options_for(OptimizerKind::sgd)};
  SparseTable other{options_for(OptimizerKind::sgd)};
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < 200; ++id)
    ids.push_back(id * 7 % 1000);
  const std::vector<float> gradient(width, 1.0f);
  for (auto id : ids)
    one.update(reference.rule, moment_of(1), pages_of({&id, 1}),
               gradient.data());
  std::reverse(ids.begin(), ids.end());
  for (auto id : ids)
    other.update(reference.rule, moment_of(1), pages_of({&id, 1}),
                 gradient.data());
  std::sort(ids.begin(), ids.end());
  BOOST_TEST(same_bits(read(one, ids), read(other, ids)));
}

BOOST_AUTO_TEST_CASE(the_version_before_the_newest_can_be_read) {
  for (uint64_t range : {120u, 3000u}) {
    Reference reference{OptimizerKind::adam};
    SparseTable table{options_for(OptimizerKind::adam)};
    run(table, reference, 2, 10, range);
    std::vector<uint64_t> all;
    for (uint64_t id = 0; id < range; ++id)
      all.push_back(id);
    const auto before = read(table, all);
    std::mt19937_64 random(3);
    const auto ids = random_ids(random, 60, range);
    const auto gradient = random_values(random, ids.size() * width);
    table.update(reference.rule, moment_of(11), pages_of(ids), gradient.data());
    BOOST_TEST(same_bits(read_before(table, all), before));
    BOOST_TEST(!same_bits(read(table, all), before));
  }
}

BOOST_AUTO_TEST_CASE(values_and_state_are_read_as_the_next_update_finds_them) {
  constexpr uint64_t range = 300;
  Reference reference{OptimizerKind::adam};
  SparseTable table{options_for(OptimizerKind::adam)};
  run(table, reference, 2, 10, range);
  std::vector<uint64_t> all;
  for (uint64_t id = 0; id < range; ++id)
    all.push_back(id);
  BOOST_TEST_REQUIRE(table.rows() < range); // some are not there
  std::vector<float> values(range * width);
  std::vector<float> state(2 * range * width, -1.0f);
  table.read_state(pages_of(all), values.data(), state.data());
  BOOST_TEST(same_bits(values, read(table, all)));
  for (uint64_t id = 0; id < range; ++id) {
    std::vector<float> row(table.copy_width());
    const IdPages page{{id / page_ids, uint64_t{1} << id % page_ids}};
    if (reference.rows.contains(id))
      table.copy(page, row.data());
    for (size_t slot = 0; slot < 2; ++slot)
      for (size_t i = 0; i < width; ++i)
        BOOST_REQUIRE_EQUAL(state[(slot * range + id) * width + i],
                            row[(1 + slot) * width + i]);
  }
}

BOOST_AUTO_TEST_CASE(a_table_is_found_again_in_memory_that_outlived_its_owner) {
  MemoryFile file;
  Reference reference{OptimizerKind::adagrad};
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < 3000; ++id)
    ids.push_back(id);
  std::vector<float> before;
  {
    SparseTable table{options_for(OptimizerKind::adagrad), file.descriptor};
    run(table, reference, 4, 30, 3000);
    before = read_before(table, ids);
  }
  SparseTable table{options_for(OptimizerKind::adagrad), file.descriptor, 0,
                    30};
  BOOST_TEST(table.rows() == reference.rows.size());
  BOOST_TEST(same_bits(read(table, ids), reference.values(ids)));
  BOOST_TEST(same_bits(read_before(table, ids), before));
  run(table, reference, 5, 10, 3000);
  BOOST_TEST(same_bits(read(table, ids), reference.values(ids)));
}

BOOST_AUTO_TEST_CASE(an_update_that_was_not_committed_is_undone) {
  MemoryFile file;
  Reference reference{OptimizerKind::adam};
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < 500; ++id)
    ids.push_back(id);
  {
    SparseTable table{options_for(OptimizerKind::adam), file.descriptor};
    run(table, reference, 6, 12, 300);
    Reference ahead = reference;
    std::mt19937_64 random(7);
    const auto some = random_ids(random, 80, 500);
    const auto gradient = random_values(random, some.size() * width);
    table.update(ahead.rule, moment_of(13), pages_of(some), gradient.data());
  }
  SparseTable table{options_for(OptimizerKind::adam), file.descriptor, 0, 12};
  BOOST_TEST(table.rows() == reference.rows.size());
  BOOST_TEST(same_bits(read(table, ids), reference.values(ids)));
  run(table, reference, 8, 5, 500);
  BOOST_TEST(same_bits(read(table, ids), reference.values(ids)));
}

// A process is killed at any moment of its updates; each that it had committed
// is there, and none that it had not.
BOOST_AUTO_TEST_CASE(a_kill_at_any_moment_leaves_a_whole_version) {
  std::mt19937_64 random(9);
  uint64_t killed_inside = 0;
  for (int round = 0; round < 30; ++round) {
    MemoryFile file;
    const auto [version,
                inside] = killed_training(random, 20, [&](const auto& update) {
      SparseTable table{options_for(OptimizerKind::adam), file.descriptor};
      Reference reference{OptimizerKind::adam};
      std::mt19937_64 draws(10);
      for (uint64_t step = 0;; ++step) {
        const auto ids = random_ids(draws, 60, 2000);
        const auto gradient = random_values(draws, ids.size() * width);
        update(step, [&] {
          table.update(reference.rule, moment_of(step + 1), pages_of(ids),
                       gradient.data());
        });
      }
    });
    killed_inside += inside ? 1 : 0;
    Reference reference{OptimizerKind::adam};
    std::mt19937_64 draws(10);
    for (uint64_t step = 0; step < version; ++step) {
      const auto ids = random_ids(draws, 60, 2000);
      const auto gradient = random_values(draws, ids.size() * width);
      reference.update(ids, gradient.data(), moment_of(step + 1));
    }
    SparseTable table{options_for(OptimizerKind::adam), file.descriptor, 0,
                      version};
    std::vector<uint64_t> all;
    for (uint64_t id = 0; id < 2000; ++id)
      all.push_back(id);
    BOOST_TEST_REQUIRE(same_bits(read(table, all), reference.values(all)));
    BOOST_TEST_REQUIRE(table.rows() == reference.rows.size());
  }
  BOOST_TEST(killed_inside > 0u);
}

BOOST_AUTO_TEST_CASE(rows_that_are_copied_elsewhere_train_on_alike) {
  Reference reference{OptimizerKind::adagrad};
  const Eviction some{0, 1000, 0};
  SparseTable table{options_for(OptimizerKind::adagrad, some)};
  SparseTable other{options_for(OptimizerKind::adagrad, some)};
  run(table, reference, 11, 20, 900);
  const auto pages = table.present();
  BOOST_TEST(count_ids(pages) == table.rows());
  std::vector<float> rows(table.rows() * table.copy_width());
  table.copy(pages, rows.data());
  const auto half = pages.size() / 2;
  const auto middle = pages.begin() + static_cast<ptrdiff_t>(half);
  const RowList first{{pages.begin(), middle}};
  other.put(first, rows.data());
  other.put(IdPages{middle, pages.end()},
            rows.data() + first.count() * table.copy_width());
  other.adopt(table.version());
  Reference same = reference;
  run(table, reference, 12, 5, 900);
  run(other, same, 12, 5, 900);
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < 900; ++id)
    ids.push_back(id);
  BOOST_TEST(same_bits(read(table, ids), read(other, ids)));
  BOOST_TEST(other.version() == table.version());
  BOOST_TEST(other.rows() == table.rows());
}

BOOST_AUTO_TEST_CASE(a_list_that_is_used_again_finds_rows_that_have_moved) {
  for (uint64_t range : {700u, 40'000u}) {
    Reference reference{OptimizerKind::adagrad};
    SparseTable table{options_for(OptimizerKind::adagrad)};
    SparseTable other{options_for(OptimizerKind::adagrad)};
    std::mt19937_64 random(range);
    const auto ids = random_ids(random, 600, range);
    const RowList list{pages_of(ids)};
    std::vector<float> out(ids.size() * width);
    for (uint64_t step = 0; step < 8; ++step) {
      if (step % 2 == 0) // rows come in between
        run(table, reference, static_cast<uint32_t>(20 + step), 3, range);
      const auto gradient = random_values(random, ids.size() * width);
      table.update(reference.rule, moment_of(step + 1), list, gradient.data());
      reference.update(ids, gradient.data(), moment_of(step + 1));
      table.read(list, out.data());
      BOOST_TEST(same_bits(out, reference.values(ids)));
      other.read(list, out.data()); // of a table that has no rows
      BOOST_TEST(same_bits(out, Reference{OptimizerKind::adagrad}.values(ids)));
    }
    table.clear();
    table.read(list, out.data());
    BOOST_TEST(same_bits(out, Reference{OptimizerKind::adagrad}.values(ids)));
  }
}

BOOST_AUTO_TEST_CASE(rows_that_are_made_ahead_are_those_of_a_first_update) {
  Reference reference{OptimizerKind::adagrad};
  SparseTable table{options_for(OptimizerKind::adagrad)};
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < 900; ++id)
    ids.push_back(id);
  table.create(pages_of(ids));
  BOOST_TEST(table.rows() == ids.size());
  BOOST_TEST(same_bits(read(table, ids), reference.values(ids)));
  run(table, reference, 11, 20, 900);
  BOOST_TEST(same_bits(read(table, ids), reference.values(ids)));
}

BOOST_AUTO_TEST_CASE(pages_that_fill_row_by_row_leave_little_memory_behind) {
  // Each time all pages outgrow their blocks; what is left must be used again.
  constexpr uint64_t pages = 2000;
  SparseTable table{options_for(OptimizerKind::adagrad)};
  OptimizerOptions rule;
  rule.kind = OptimizerKind::adagrad;
  const std::vector<float> gradient(pages * width, 1.0f);
  for (uint64_t row = 0; row < page_ids; ++row) {
    IdPages ids;
    for (uint64_t page = 0; page < pages; ++page)
      ids.push_back({page, uint64_t{1} << (row * 37 + page) % page_ids});
    table.update(rule, moment_of(row + 1), ids, gradient.data());
  }
  BOOST_TEST(table.rows() == pages * page_ids);
  const auto rows = pages * page_ids * width * 2 * sizeof(float);
  BOOST_TEST(table.bytes() < rows * 2);
}

BOOST_AUTO_TEST_CASE(clearing_gives_memory_back) {
  MemoryFile file;
  Reference reference{OptimizerKind::sgd};
  SparseTable table{options_for(OptimizerKind::sgd), file.descriptor};
  const auto empty = table.bytes();
  run(table, reference, 15, 20, 1 << 30);
  BOOST_TEST(table.bytes() > empty);
  table.clear();
  BOOST_TEST(table.bytes() == empty);
  BOOST_TEST(table.version() == 0u);
  Reference fresh{OptimizerKind::sgd};
  run(table, fresh, 16, 20, 300);
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < 300; ++id)
    ids.push_back(id);
  BOOST_TEST(same_bits(read(table, ids), fresh.values(ids)));
}

BOOST_AUTO_TEST_SUITE_END()
