#include "kernels/optimizer/idle_update.hpp"
#include "kernels/table/idle_rows.hpp"
#include "tests/unit/kernels/table_reference.hpp"

#include <boost/test/unit_test.hpp>

#include <numeric>

// Rows of a sparse table that make up the updates that they had without a
// gradient have the bits of a dense table, in which each had its own at once.

using namespace troupe;
using namespace troupe::table_reference;
using kernels::LateRows;
using kernels::MissedUpdates;
using kernels::RowSweep;

BOOST_AUTO_TEST_SUITE(idle_rows)

namespace {

using enum OptimizerKind;

/// LAMB's ratio is of a whole table: it has dense ones.
const OptimizerKind kinds[] = {sgd,   momentum, nesterov, adam,
                               adamw, adagrad,  rmsprop,  ftrl};

std::vector<OptimizerOptions> all_rules() {
  std::vector<OptimizerOptions> rules;
  for (auto kind : kinds)
    for (auto decay : {0.0f, 0.02f}) {
      OptimizerOptions rule;
      rule.kind = kind;
      rule.weight_decay = decay;
      rule.l1 = rule.l2 = 0.01f; // of FTRL
      rules.push_back(rule);
    }
  return rules;
}

std::string text(const OptimizerOptions& rule) {
  return to_string(rule.kind) + (rule.weight_decay > 0 ? " that decays" : "");
}

/// A rate that is another one in each step.
UpdateArgs idle_moment(uint64_t updates) {
  UpdateArgs args;
  args.step = updates + 1;
  args.learning_rate = 0.01f + 0.001f * static_cast<float>(updates % 7);
  return args;
}

UpdateArgs step_moment(uint64_t updates) {
  auto args = idle_moment(updates);
  args.samples = 48;
  return args;
}

IdleUpdates idle_of(const OptimizerOptions& rule) {
  return {idle_update(rule, true), rule, idle_moment};
}

TableOptions options_of(const OptimizerOptions& rule) {
  auto options = options_for(rule.kind);
  options.idle = idle_of(rule);
  return options;
}

constexpr uint64_t range = 700;

std::vector<uint64_t> all_ids() {
  std::vector<uint64_t> ids(range);
  std::iota(ids.begin(), ids.end(), 0u);
  return ids;
}

/// All rows, each of which has each update at once.
struct Dense {
  explicit Dense(const OptimizerOptions& rule) : rule(rule) {
    values.resize(range * width);
    some_initial(0, range, values.data());
    state.resize(state_slots(rule.kind) * values.size());
  }
  void update(std::span<const uint64_t> ids, const float* gradient,
              uint64_t updates) {
    before = values;
    state_before = state;
    std::vector<float> sum(values.size());
    for (auto id : ids) {
      std::copy_n(gradient, width, sum.data() + id * width);
      gradient += width;
    }
    auto args = step_moment(updates);
    args.gradient_sum = sum.data();
    args.in = args.out = values.data();
    args.state_in = args.state_out = state.data();
    args.state_stride = args.count = values.size();
    troupe::update(rule, args);
  }
  /// As a copy of rows has them.
  std::vector<float> rows(const std::vector<float>& of,
                          const std::vector<float>& its_state,
                          const IdPages& pages) const {
    std::vector<float> out;
    for_each_id(pages, [&](uint64_t id) {
      const auto at = static_cast<ptrdiff_t>(id * width);
      out.insert(out.end(), of.begin() + at, of.begin() + at + width);
      for (uint32_t slot = 0; slot < state_slots(rule.kind); ++slot) {
        const auto* from = its_state.data() + slot * of.size() + at;
        out.insert(out.end(), from, from + width);
      }
    });
    return out;
  }

  OptimizerOptions rule;
  std::vector<float> values, state, before, state_before;
};

SparseTable table_of(const OptimizerOptions& rule, int descriptor = -1,
                     uint64_t version = 0) {
  return SparseTable{options_of(rule), descriptor, 0, version};
}

void begin(SparseTable& table, const OptimizerOptions& rule) {
  if (idle_update(rule, true) == IdleUpdate::moves)
    table.create(pages_of(all_ids()));
}

/// A few hot ids, and some of all.
std::vector<uint64_t> some_ids(std::mt19937_64& random) {
  std::set<uint64_t> ids;
  for (auto left = random() % 30; left > 0; --left)
    ids.insert(random() % 3 == 0 ? random() % range : random() % 20);
  return {ids.begin(), ids.end()};
}

void train(SparseTable& table, Dense& dense, std::mt19937_64& random,
           uint64_t steps) {
  for (uint64_t step = 0; step < steps; ++step) {
    const auto ids = some_ids(random);
    const auto gradient = random_values(random, ids.size() * width);
    const auto updates = table.version();
    table.update(dense.rule, step_moment(updates), pages_of(ids),
                 gradient.data());
    dense.update(ids, gradient.data(), updates);
  }
}

std::vector<float> copy(const SparseTable& table, const IdPages& pages) {
  std::vector<float> rows(count_ids(pages) * table.copy_width());
  table.copy(pages, rows.data());
  return rows;
}

std::vector<float> copy_before(const SparseTable& table, const IdPages& pages) {
  std::vector<float> rows(count_ids(pages) * table.copy_width());
  table.copy_before(pages, rows.data());
  return rows;
}

/// Whatever is asked for is as in the dense table.
void check(const SparseTable& table, const Dense& dense) {
  const auto ids = all_ids();
  BOOST_TEST_REQUIRE(table_reference::same_bits(read(table, ids), dense.values),
                     text(dense.rule) << " at " << table.version());
  const auto there = table.present();
  BOOST_TEST_REQUIRE(
    table_reference::same_bits(copy(table, there),
                               dense.rows(dense.values, dense.state, there)),
    text(dense.rule) << " at " << table.version());
  if (dense.before.empty())
    return;
  BOOST_TEST_REQUIRE(table_reference::same_bits(read_before(table, ids),
                                                dense.before),
                     text(dense.rule) << " before " << table.version());
  const auto was_there = table.present_before();
  BOOST_TEST_REQUIRE(table_reference::same_bits(
                       copy_before(table, was_there),
                       dense.rows(dense.before, dense.state_before, was_there)),
                     text(dense.rule) << " before " << table.version());
}

} // namespace

BOOST_AUTO_TEST_CASE(what_an_update_without_gradients_leaves_alone) {
  std::mt19937_64 random(1);
  for (auto rule : all_rules()) {
    constexpr size_t count = 200;
    auto values = random_values(random, count);
    std::vector<float> state(2 * count);
    const std::vector<float> none(count);
    const auto stays = [&] {
      auto next = values;
      auto next_state = state;
      auto args = step_moment(9);
      args.gradient_sum = none.data();
      args.in = args.out = next.data();
      args.state_in = args.state_out = next_state.data();
      args.state_stride = args.count = count;
      update(rule, args);
      return table_reference::same_bits(next, values)
             && table_reference::same_bits(next_state, state);
    };
    const auto kind = idle_update(rule, true);
    BOOST_TEST(stays() == (kind != IdleUpdate::moves), text(rule));
    for (auto& x : state)
      x = 0.01f + static_cast<float>(random() % 1000) / 1000;
    BOOST_TEST(stays() == (kind == IdleUpdate::stays), text(rule));
    BOOST_TEST((idle_update(rule, false) == IdleUpdate::moves) == false);
    rule.epsilon = 0;
    const bool divides = rule.kind != sgd && rule.kind != momentum
                         && rule.kind != nesterov && rule.kind != ftrl;
    BOOST_TEST((idle_update(rule, false) == IdleUpdate::moves) == divides,
               text(rule));
  }
}

BOOST_AUTO_TEST_CASE(rows_of_any_age_make_up_what_they_lack) {
  std::mt19937_64 random(2);
  for (const auto& rule : all_rules()) {
    if (idle_update(rule, true) == IdleUpdate::stays)
      continue;
    const auto slots = state_slots(rule.kind);
    MissedUpdates missed{width, slots, idle_of(rule)};
    constexpr size_t rows = 900;
    constexpr uint64_t version = 60;
    auto given = random_values(random, rows * width * (1 + slots));
    for (auto& x : given)
      x = std::abs(x); // as a sum of squares is
    auto expected = given;
    std::vector<LateRows> late;
    const std::vector<float> none(width);
    for (size_t i = 0; i < rows; ++i) {
      auto* row = given.data() + i * width * (1 + slots);
      const auto had = 1 + random() % version;
      if (had < version)
        missed.add(late, {had, row, width, row, width, width});
      auto* own = expected.data() + i * width * (1 + slots);
      for (auto at = had; at < version; ++at) {
        auto args = step_moment(at);
        args.gradient_sum = none.data();
        args.in = args.out = own;
        args.state_in = args.state_out = own + width;
        args.state_stride = args.count = width;
        update(rule, args);
      }
    }
    if (random() % 2 == 0) // some of them are worked out ahead
      missed.prepare(20, version);
    missed.make_up(late, version, 1 + slots);
    BOOST_TEST(table_reference::same_bits(given, expected), text(rule));
  }
}

BOOST_AUTO_TEST_CASE(a_sweep_passes_all_in_turn_and_knows_what_none_lacks) {
  RowSweep sweep;
  sweep.begin(100);
  BOOST_TEST(sweep.page() == 0u);
  BOOST_TEST(sweep.oldest() == 100u);
  sweep.passed(40, 101);
  BOOST_TEST(sweep.page() == 40u);
  sweep.passed(80, 102);
  BOOST_TEST(sweep.oldest() == 100u);
  sweep.passed(0, 103); // what was passed first has had 101
  BOOST_TEST(sweep.page() == 0u);
  BOOST_TEST(sweep.oldest() == 101u);
  sweep.passed(0, 104);
  BOOST_TEST(sweep.oldest() == 104u);
  BOOST_TEST(RowSweep::share(0) == 0u);
  BOOST_TEST(RowSweep::share(1) == 1u);
  BOOST_TEST(RowSweep::share(16 * RowSweep::cycle) == 16u);
}

BOOST_AUTO_TEST_CASE(a_table_has_the_bits_of_a_dense_one_under_every_rule) {
  for (const auto& rule : all_rules()) {
    auto table = table_of(rule);
    begin(table, rule);
    Dense dense{rule};
    std::mt19937_64 random(3);
    check(table, dense);
    for (int part = 0; part < 30; ++part) {
      train(table, dense, random, 1 + random() % 4);
      check(table, dense);
    }
    train(table, dense, random, 200);
    check(table, dense);
  }
}

BOOST_AUTO_TEST_CASE(where_updates_leave_rows_alone_nothing_is_paid) {
  for (auto kind : {sgd, adagrad}) {
    OptimizerOptions rule;
    rule.kind = kind;
    auto table = table_of(rule);
    SparseTable lazy{options_for(kind)};
    Dense dense{rule};
    Dense same{rule};
    std::mt19937_64 random(4);
    train(table, dense, random, 40);
    random.seed(4);
    train(lazy, same, random, 40);
    check(table, dense);
    BOOST_TEST(table.bytes() == lazy.bytes());
    BOOST_TEST(table.rows() < range);
  }
}

// It was said that a row which is read costs all steps since it was touched.
BOOST_AUTO_TEST_CASE(constants_are_worked_out_once_and_no_row_lacks_many) {
  OptimizerOptions rule;
  rule.weight_decay = 0.02f;
  auto options = options_of(rule);
  uint64_t asked = 0;
  uint64_t oldest = ~uint64_t{0};
  options.idle.moment = [&](uint64_t updates) {
    ++asked;
    oldest = std::min(oldest, updates);
    return idle_moment(updates);
  };
  SparseTable table{options};
  table.create(pages_of(all_ids()));
  Dense dense{rule};
  std::mt19937_64 random(5);
  constexpr uint64_t steps = 300;
  for (uint64_t step = 0; step < steps; ++step) {
    train(table, dense, random, 1);
    check(table, dense);
  }
  BOOST_TEST(asked == steps);
  SparseTable copied{options};
  copied.create(pages_of(all_ids()));
  copied.put(table.present(), copy(table, table.present()).data());
  copied.adopt(steps);
  oldest = ~uint64_t{0};
  for (uint64_t step = 0; step < 100; ++step) {
    train(copied, dense, random, 1);
    check(copied, dense);
  }
  BOOST_TEST(oldest == steps);
}

BOOST_AUTO_TEST_CASE(both_versions_are_copied_elsewhere_and_train_on_alike) {
  for (const auto& rule : all_rules()) {
    auto table = table_of(rule);
    begin(table, rule);
    Dense dense{rule};
    std::mt19937_64 random(6);
    train(table, dense, random, 57);
    auto other = table_of(rule);
    const auto before = table.present_before();
    other.put(before, copy_before(table, before).data());
    other.adopt(table.version() - 1);
    const auto changed = table.changed();
    other.follow(changed, copy(table, changed.rows).data());
    check(other, dense);
    Dense same = dense;
    auto draws = random;
    train(table, dense, random, 40);
    train(other, same, draws, 40);
    check(table, dense);
    check(other, same);
    BOOST_TEST(table_reference::same_bits(dense.values, same.values));
  }
}

BOOST_AUTO_TEST_CASE(rows_that_were_lacking_in_a_copy_begin_with_it) {
  OptimizerOptions rule;
  rule.weight_decay = 0.02f;
  Dense dense{rule};
  auto table = table_of(rule);
  const auto first = pages_of(std::vector<uint64_t>{1, 70, 699});
  const auto rows = dense.rows(dense.values, dense.state, first);
  table.put(first, rows.data());
  table.create(pages_of(all_ids()));
  table.adopt(40);
  std::mt19937_64 random(7);
  train(table, dense, random, 30);
  check(table, dense);
}

BOOST_AUTO_TEST_CASE(memory_that_outlived_its_owner_knows_what_rows_lack) {
  for (const auto& rule : all_rules()) {
    MemoryFile file;
    Dense dense{rule};
    std::mt19937_64 random(8);
    {
      auto table = table_of(rule, file.descriptor);
      begin(table, rule);
      train(table, dense, random, 45);
    }
    {
      auto table = table_of(rule, file.descriptor, 45);
      check(table, dense);
      train(table, dense, random, 3);
      check(table, dense);
      Dense ahead = dense; // an update that is not committed
      auto draws = random;
      train(table, ahead, draws, 1);
    }
    auto table = table_of(rule, file.descriptor, 48);
    dense.before.clear(); // undone, it has no version before
    check(table, dense);
    train(table, dense, random, 40);
    check(table, dense);
  }
}

// A process is killed at any moment of its updates, rows that it brings along
// half written among them.
BOOST_AUTO_TEST_CASE(a_kill_at_any_moment_leaves_a_whole_version) {
  std::mt19937_64 random(9);
  OptimizerOptions rule;
  rule.weight_decay = 0.02f;
  uint64_t killed_inside = 0;
  for (int round = 0; round < 30; ++round) {
    MemoryFile file;
    const auto [version, inside] =
      table_reference::killed_training(random, 20, [&](const auto& update) {
        auto table = table_of(rule, file.descriptor);
        begin(table, rule);
        std::mt19937_64 draws(10);
        for (uint64_t step = 0;; ++step) {
          const auto ids = some_ids(draws);
          const auto gradient = random_values(draws, ids.size() * width);
          update(step, [&] {
            table.update(rule, step_moment(step), pages_of(ids),
                         gradient.data());
          });
        }
      });
    killed_inside += inside ? 1 : 0;
    Dense dense{rule};
    std::mt19937_64 draws(10);
    for (uint64_t step = 0; step < version; ++step) {
      const auto ids = some_ids(draws);
      const auto gradient = random_values(draws, ids.size() * width);
      dense.update(ids, gradient.data(), step);
    }
    auto table = table_of(rule, file.descriptor, version);
    BOOST_TEST_REQUIRE(
      table_reference::same_bits(read(table, all_ids()), dense.values));
    BOOST_TEST_REQUIRE(table_reference::same_bits(
      copy(table, table.present()),
      dense.rows(dense.values, dense.state, table.present())));
  }
  BOOST_TEST(killed_inside > 0u);
}

BOOST_AUTO_TEST_SUITE_END()
