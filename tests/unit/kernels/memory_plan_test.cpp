#include "kernels/engine/memory_plan.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace troupe;
using namespace troupe::kernels;

BOOST_AUTO_TEST_SUITE(memory_plan_test)

namespace {

constexpr auto nowhere = MemoryPlan::nowhere;
constexpr uint64_t rows = 3;

/// A graph and what its operators need: kinds do not matter to the plan.
struct Problem {
  Graph graph;
  std::vector<Needs> needs;
  std::vector<uint8_t> splits; ///< empty: no backward pass comes in halves

  uint32_t add_value(uint64_t size) {
    const auto name = "v" + std::to_string(graph.values.size());
    graph.values.push_back({name, {size}, ValueType::float32});
    return static_cast<uint32_t>(graph.values.size() - 1);
  }

  void add_op(std::vector<uint32_t> inputs, uint64_t size, bool parameter,
              const Needs& need) {
    Op op;
    op.name = "op" + std::to_string(graph.ops.size());
    op.inputs = std::move(inputs);
    op.output = add_value(size);
    if (parameter) {
      op.parameters = {static_cast<uint32_t>(graph.parameters.size())};
      graph.parameters.push_back({op.name + "/weight", {1}});
    }
    graph.ops.push_back(std::move(op));
    needs.push_back(need);
  }

  MemoryPlan plan() const {
    const auto all = static_cast<uint32_t>(graph.ops.size());
    return MemoryPlan::make(graph, part_of(graph, {0, all}), needs, rows,
                            splits);
  }
};

/// Runs a plan on memory that holds the names of what was written to it, as
/// the engine runs it: whatever is read must be what was written last.
class Simulation {
public:
  Simulation(const Problem& problem, const MemoryPlan& plan)
    : problem_(problem),
      graph_(problem.graph),
      plan_(plan),
      memory_(plan.total) {}

  void run() {
    for (size_t i = 0; i < graph_.ops.size(); ++i)
      forward(i);
    for (size_t i = graph_.ops.size(); i-- > 0;)
      backward(i);
    for (size_t i = graph_.ops.size(); i-- > 0;)
      if (!problem_.splits.empty() && problem_.splits[i])
        backward_weights(i);
  }

  size_t shared_in_place = 0;
  size_t passed_by_memory = 0;
  size_t passed_to_several = 0;
  size_t weights_later = 0;

private:
  uint64_t size(uint32_t value) const {
    return graph_.values[value].size() * rows;
  }

  void write(uint64_t offset, uint64_t count, const std::string& name) {
    BOOST_REQUIRE_MESSAGE(offset + count <= memory_.size(), name);
    BOOST_REQUIRE_MESSAGE(offset % 16 == 0, name);
    std::fill_n(memory_.begin() + static_cast<ptrdiff_t>(offset), count, name);
  }
  void read(uint64_t offset, uint64_t count, const std::string& name) const {
    for (uint64_t i = 0; i < count; ++i)
      BOOST_REQUIRE_MESSAGE(memory_[offset + i] == name,
                            name << " is wanted, " << memory_[offset + i]
                                 << " is there");
  }

  /// An alias is what it is an alias of.
  std::string content(uint32_t value) const {
    for (size_t i = 0; i < graph_.ops.size(); ++i)
      if (graph_.ops[i].output == value && problem_.needs[i].alias)
        return content(graph_.ops[i].inputs[0]);
    return graph_.values[value].name;
  }
  /// A gradient that was passed on is what it was.
  std::string gradient_of(uint32_t value) const {
    const auto passed = passed_.find(value);
    return passed != passed_.end() ? passed->second
                                   : "gradient of v" + std::to_string(value);
  }
  std::string left_by(size_t i) const {
    const auto& op = graph_.ops[i];
    return problem_.needs[i].keeps_gradient ? gradient_of(op.output)
                                            : "left by " + op.name;
  }
  void read_value(uint32_t value) const {
    if (plan_.values[value] != nowhere)
      read(plan_.values[value], size(value), content(value));
  }
  void use_scratch(size_t i) {
    if (const auto count = problem_.needs[i].scratch.of(rows); count > 0)
      write(plan_.scratch, count, "scratch");
  }

  void forward(size_t i) {
    const auto& op = graph_.ops[i];
    const auto& needs = problem_.needs[i];
    if (needs.alias) {
      BOOST_REQUIRE(plan_.values[op.output] == plan_.values[op.inputs[0]]);
      return;
    }
    use_scratch(i);
    const auto place = plan_.values[op.output];
    const bool over = place == plan_.values[op.inputs[0]];
    BOOST_REQUIRE(!over || needs.in_place);
    shared_in_place += over;
    for (auto input : op.inputs)
      read_value(input);
    write(place, size(op.output), graph_.values[op.output].name);
    if (plan_.saved[i] != nowhere)
      write(plan_.saved[i], needs.saved.of(rows), "saved by " + op.name);
    for (size_t k = over ? 1 : 0; k < op.inputs.size(); ++k)
      if (!over || plan_.values[op.inputs[k]] != place)
        read_value(op.inputs[k]); // writing has not hurt it
    read(place, size(op.output), graph_.values[op.output].name);
  }

  void backward(size_t i) {
    const auto& op = graph_.ops[i];
    const auto own = plan_.gradients[op.output];
    const bool loss = i + 1 == graph_.ops.size();
    if (!loss && own == nowhere)
      return;
    if (problem_.needs[i].alias && !plan_.runs_backward[i]) {
      pass_by_memory(op);
      return;
    }
    if (!plan_.runs_backward[i])
      return;
    if (!problem_.needs[i].alias)
      read_what_backward_reads(i);
    if (!loss)
      read(own, size(op.output), gradient_of(op.output));
    std::vector<std::pair<uint64_t, uint32_t>> written;
    for (auto input : op.inputs)
      if (plan_.gradients[input] != nowhere)
        add_gradient(i, input, written);
    for (auto [offset, input] : written)
      read(offset, size(input), gradient_of(input));
    // It writes gradients while it still reads values.
    if (!problem_.needs[i].alias)
      read_what_backward_reads(i);
    // An operator may overwrite what it was given.
    const auto taken =
      std::count_if(written.begin(), written.end(),
                    [&](const auto& one) { return one.first == own; });
    passed_to_several += taken > 1;
    if (!loss && taken == 0)
      write(own, size(op.output), left_by(i));
    for (auto [offset, input] : written)
      read(offset, size(input), gradient_of(input));
  }

  /// The last operator has no gradient of its output.
  void backward_weights(size_t i) {
    const auto& op = graph_.ops[i];
    const auto read_all = [&] {
      for (size_t k = 0; k < op.inputs.size(); ++k)
        if (problem_.needs[i].backward_reads_inputs >> k & 1)
          read_value(op.inputs[k]);
      if (i + 1 < graph_.ops.size())
        read(plan_.gradients[op.output], size(op.output), left_by(i));
    };
    read_all();
    use_scratch(i);
    read_all();
    ++weights_later;
  }

  void read_what_backward_reads(size_t i) {
    const auto& op = graph_.ops[i];
    const auto& needs = problem_.needs[i];
    use_scratch(i);
    for (size_t k = 0; k < op.inputs.size(); ++k)
      if (needs.backward_reads_inputs >> k & 1)
        read_value(op.inputs[k]);
    if (needs.backward_reads_output)
      read_value(op.output);
    if (plan_.saved[i] != nowhere)
      read(plan_.saved[i], needs.saved.of(rows), "saved by " + op.name);
  }

  void add_gradient(size_t i, uint32_t input,
                    std::vector<std::pair<uint64_t, uint32_t>>& written) {
    const auto place = plan_.gradients[input];
    if (begun(input)) {
      read(place, size(input), gradient_of(input));
      if (!problem_.needs[i].accumulates && !problem_.needs[i].alias)
        write(plan_.spare, size(input), "spare");
    }
    const auto& needs = problem_.needs[i];
    const auto output = graph_.ops[i].output;
    const bool over = place == plan_.gradients[output];
    BOOST_REQUIRE(!over || needs.alias || needs.in_place
                  || needs.passes_gradient);
    BOOST_REQUIRE(!over || !begun(input)); // nothing is added to itself
    if (over && needs.passes_gradient)
      passed_[input] = gradient_of(output);
    else
      passed_.erase(input);
    write(place, size(input), gradient_of(input));
    written.emplace_back(place, input);
    begun_.push_back(input);
  }

  void pass_by_memory(const Op& op) {
    const auto input = op.inputs[0];
    if (plan_.gradients[input] == nowhere)
      return;
    BOOST_REQUIRE(!begun(input));
    BOOST_REQUIRE(plan_.gradients[input] == plan_.gradients[op.output]);
    read(plan_.gradients[input], size(input), gradient_of(op.output));
    write(plan_.gradients[input], size(input), gradient_of(input));
    begun_.push_back(input);
    ++passed_by_memory;
  }

  bool begun(uint32_t value) const {
    return std::find(begun_.begin(), begun_.end(), value) != begun_.end();
  }

  const Problem& problem_;
  const Graph& graph_;
  const MemoryPlan& plan_;
  std::vector<std::string> memory_;
  std::vector<uint32_t> begun_;
  std::map<uint32_t, std::string> passed_; ///< names of gradients
};

/// Operators that read values at random, none unread; the last reads the rest.
Problem random_problem(uint32_t seed) {
  std::mt19937 random(seed);
  auto below = [&](uint64_t n) { return random() % n; };
  Problem problem;
  const auto any_size = [&] { return below(4) > 0 ? 16 : 1 + below(40); };
  problem.graph.features_value = problem.add_value(any_size());
  const auto count = 2 + below(14);
  std::vector<uint8_t> read(1, 0);
  for (uint64_t i = 0; i < count; ++i) {
    std::vector<uint32_t> inputs;
    const auto many = below(3) == 0 ? 2 + below(2) : 1;
    for (uint64_t k = 0; k < many; ++k) {
      const auto values = problem.graph.values.size();
      // Mostly what is recent.
      const auto back = std::min<uint64_t>(values - 1, below(4) * below(3));
      inputs.push_back(static_cast<uint32_t>(values - 1 - back));
      read[inputs.back()] = 1;
    }
    Needs needs;
    needs.alias = many == 1 && below(5) == 0;
    needs.in_place = !needs.alias && below(3) == 0;
    needs.accumulates = many > 1 || below(2) == 0;
    needs.passes_gradient = many > 1 && below(4) > 0;
    needs.keeps_gradient = below(4) > 0;
    needs.backward_reads_output = !needs.alias && below(3) == 0;
    if (!needs.alias) {
      needs.backward_reads_inputs = below(8);
      needs.saved = {below(2) * below(5), below(2) * below(9)};
      needs.scratch = {below(3), below(9)};
    }
    const auto like = problem.graph.values[inputs[0]].size();
    const auto size = needs.alias || needs.in_place || needs.passes_gradient
                        ? like
                        : any_size();
    problem.add_op(inputs, size, !needs.alias && below(2) == 0, needs);
    read.push_back(0);
  }
  std::vector<uint32_t> rest;
  for (uint32_t i = 0; i < read.size(); ++i)
    if (!read[i])
      rest.push_back(i);
  Needs needs;
  needs.accumulates = true;
  needs.backward_reads_inputs = ~uint64_t{0};
  problem.add_op(rest, 1, true, needs);
  return problem;
}

Needs in_place() {
  Needs needs;
  needs.in_place = true;
  return needs;
}

Needs alias() {
  Needs needs;
  needs.alias = true;
  return needs;
}

} // namespace

BOOST_AUTO_TEST_CASE(nothing_is_overwritten_before_its_last_reader) {
  size_t in_place_seen = 0;
  size_t passed_seen = 0;
  size_t several_seen = 0;
  size_t smaller = 0;
  for (uint32_t seed = 0; seed < 12000; ++seed)
    BOOST_TEST_CONTEXT("seed " << seed) {
      const auto problem = random_problem(seed);
      const auto plan = problem.plan();
      BOOST_REQUIRE(plan.total <= plan.unshared);
      smaller += plan.total < plan.unshared;
      Simulation simulation(problem, plan);
      simulation.run();
      in_place_seen += simulation.shared_in_place;
      passed_seen += simulation.passed_by_memory;
      several_seen += simulation.passed_to_several;
    }
  // The test looks at what it is for.
  BOOST_TEST(in_place_seen > 100u);
  BOOST_TEST(passed_seen > 100u);
  BOOST_TEST(several_seen > 100u);
  BOOST_TEST(smaller > 1000u);
}

BOOST_AUTO_TEST_CASE(what_the_half_for_weights_reads_is_kept_until_then) {
  size_t later = 0;
  size_t larger = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed)
    BOOST_TEST_CONTEXT("seed " << seed) {
      auto problem = random_problem(seed);
      const auto whole = problem.plan().total;
      for (size_t i = 0; i < problem.graph.ops.size(); ++i)
        problem.splits.push_back((i + seed) % 3 > 0
                                 && !problem.graph.ops[i].parameters.empty()
                                 && !problem.needs[i].in_place);
      const auto plan = problem.plan();
      larger += plan.total > whole;
      Simulation simulation(problem, plan);
      simulation.run();
      later += simulation.weights_later;
    }
  BOOST_TEST(later > 1000u);
  BOOST_TEST(larger > 1000u);
}

BOOST_AUTO_TEST_CASE(an_output_takes_the_place_of_an_input_nobody_else_needs) {
  Problem problem;
  problem.graph.features_value = problem.add_value(5);
  problem.add_op({0}, 8, true, {});
  problem.add_op({1}, 8, false, in_place());
  problem.add_op({2}, 1, false, {});
  auto plan = problem.plan();
  BOOST_TEST(plan.values[2] == plan.values[1]);
  BOOST_TEST(plan.gradients[1] == plan.gradients[2]);
  // Not where the operator's own backward pass reads it.
  problem.needs[1].backward_reads_inputs = 1;
  BOOST_TEST(problem.plan().values[2] != problem.plan().values[1]);
  // Nor where the one before reads what it wrote.
  problem.needs[1].backward_reads_inputs = 0;
  problem.needs[0].backward_reads_output = true;
  BOOST_TEST(problem.plan().values[2] != problem.plan().values[1]);
  // Never over the batch's memory.
  Problem first;
  first.graph.features_value = first.add_value(8);
  first.add_op({0}, 8, true, in_place());
  first.add_op({1}, 1, false, {});
  BOOST_TEST(first.plan().values[0] == nowhere);
  BOOST_TEST(first.plan().values[1] != nowhere);
}

BOOST_AUTO_TEST_CASE(a_sum_passes_its_gradient_on_where_it_lies) {
  Needs keeps;
  keeps.keeps_gradient = true;
  Needs sum;
  sum.passes_gradient = sum.accumulates = true;
  Problem problem; // v1 + f(v1), as around the layers of a transformer
  problem.graph.features_value = problem.add_value(5);
  problem.add_op({0}, 8, true, keeps);
  problem.add_op({1}, 4, true, keeps);
  problem.add_op({2}, 8, true, keeps);
  problem.add_op({1, 3}, 8, false, sum);
  problem.add_op({4}, 1, false, {});
  auto plan = problem.plan();
  BOOST_TEST(plan.gradients[3] == plan.gradients[4]);
  BOOST_TEST(plan.gradients[1] == plan.gradients[4]);
  // Not to both where the first to use it overwrites it.
  problem.needs[2].keeps_gradient = false;
  plan = problem.plan();
  BOOST_TEST(plan.gradients[1] == plan.gradients[4]);
  BOOST_TEST(plan.gradients[3] != plan.gradients[4]);
}

BOOST_AUTO_TEST_CASE(an_alias_is_its_input_s_memory) {
  Problem problem;
  problem.graph.features_value = problem.add_value(6);
  problem.add_op({0}, 6, false, alias()); // of the batch's memory
  problem.add_op({1}, 8, true, {});
  problem.add_op({2}, 8, false, alias());
  problem.add_op({3}, 1, false, {});
  const auto plan = problem.plan();
  BOOST_TEST(plan.values[1] == nowhere);
  BOOST_TEST(plan.values[3] == plan.values[2]);
  BOOST_TEST(plan.gradients[3] == plan.gradients[2]);
  BOOST_TEST(plan.runs_backward[2] == 0);
  BOOST_TEST(plan.gradients[1] == nowhere);
}

BOOST_AUTO_TEST_CASE(what_has_no_parameters_before_it_has_no_gradient) {
  Problem problem;
  problem.graph.features_value = problem.add_value(6);
  problem.add_op({0}, 6, false, {});
  problem.add_op({1}, 6, true, {});
  problem.add_op({2}, 1, false, {});
  const auto plan = problem.plan();
  BOOST_TEST(plan.gradients[1] == nowhere);
  BOOST_TEST(plan.gradients[2] != nowhere);
  BOOST_TEST(plan.runs_backward[0] == 0);
  BOOST_TEST(plan.runs_backward[1] == 1);
}

BOOST_AUTO_TEST_SUITE_END()
