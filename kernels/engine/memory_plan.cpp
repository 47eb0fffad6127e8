#include "kernels/engine/memory_plan.hpp"

#include "kernels/base/require.hpp"
#include "kernels/engine/recomputation.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace troupe::kernels {

namespace {

constexpr auto nowhere = MemoryPlan::nowhere;

/// When something is in use.
struct Span {
  uint64_t from = ~uint64_t{0};
  uint64_t to = 0;

  void use(uint64_t at) {
    from = std::min(from, at);
    to = std::max(to, at);
  }
  bool meets(const Span& other) const {
    return from <= other.to && other.from <= to;
  }
};

/// One piece of memory with the time it is in use, in steps of which one fits
/// each operator once. Operator i runs forward in step i and backward in step
/// 2 n - 1 - i, of n operators of the whole graph; its half for weights, if it
/// has one, in 3 n - 1 - i. Those that run forward again do so between two
/// steps. A part takes in the steps of the operators beside it what comes, and
/// gives what goes.
struct Storage {
  uint64_t size = 0;
  Span time;
  Span again; ///< of what is computed again; empty: it never meets another
  bool throughout = false; ///< of any pass, and of none longer
  uint64_t offset = 0;

  void use(uint64_t at) { time.use(at); }
  bool meets(const Storage& other) const {
    return time.meets(other.time) || time.meets(other.again)
           || again.meets(other.time) || again.meets(other.again);
  }
};

class Planner {
public:
  Planner(const Graph& graph, const GraphPart& part,
          const std::vector<Needs>& needs, uint64_t rows,
          const std::vector<uint8_t>& splits,
          const std::vector<uint32_t>& layers)
    : graph_(graph),
      part_(part),
      needs_(needs),
      splits_(splits),
      layers_(layers.empty() ? std::vector<uint32_t>(graph.ops.size(), 0)
                             : layers),
      recomputation_(recompute(graph, part, needs, layers_)),
      holds_all_(layers.empty()),
      rows_(rows),
      consumers_(graph.values.size()),
      producer_(graph.values.size(), nowhere),
      wanted_(wanted_gradients(graph)),
      goes_(graph.values.size(), 0) {
    for (size_t i = part.ops.begin; i < part.ops.end; ++i) {
      producer_[graph.ops[i].output] = i;
      for (auto input : graph.ops[i].inputs)
        consumers_[input].push_back(i);
    }
    for (auto value : part.out.values)
      goes_[value] = 1;
  }

  MemoryPlan plan() {
    place_values();
    place_gradients();
    MemoryPlan result;
    uint64_t scratch = 0;
    std::vector<size_t> saved(graph_.ops.size(), nowhere);
    for (size_t i = part_.ops.begin; i < part_.ops.end; ++i) {
      scratch = std::max(scratch, needs_[i].scratch.of(rows_));
      if (auto size = needs_[i].saved.of(rows_); size > 0)
        saved[i] = saved_storage(size, i);
    }
    // In use throughout: any operator may take them.
    const auto first = part_.ops.begin;
    const auto end = splits_.empty() ? backward(first) : weights(first);
    const auto spare_at = storage(spare_, forward(first), end);
    const auto scratch_at = storage(scratch, forward(first), end);
    storages_[spare_at].throughout = storages_[scratch_at].throughout = true;
    result.held = assign(true, 0);
    result.total = assign(false, result.held);
    for (const auto& one : storages_)
      result.unshared += rounded(one.size);
    auto offset = [this](size_t at) {
      return at == nowhere ? nowhere : storages_[at].offset;
    };
    for (auto at : value_)
      result.values.push_back(offset(at));
    for (auto at : gradient_)
      result.gradients.push_back(offset(at));
    for (auto at : saved)
      result.saved.push_back(offset(at));
    result.scratch = offset(scratch_at);
    result.spare = offset(spare_at);
    result.runs_backward = runs_backward_;
    result.again.resize(graph_.ops.size());
    for (size_t i = part_.ops.begin; i < part_.ops.end; ++i)
      if (recomputation_.runs_again(i))
        result.again[recomputation_.before[i]].push_back(
          static_cast<uint32_t>(i));
    return result;
  }

private:
  static uint64_t rounded(uint64_t size) { return (size + 15) / 16 * 16; }

  uint64_t step() const { return graph_.ops.size() + 1; }
  uint64_t forward(uint64_t op) const { return step() * op; }
  uint64_t backward(uint64_t op) const {
    return step() * (2 * graph_.ops.size() - 1 - op);
  }
  uint64_t weights(uint64_t op) const {
    return step() * (3 * graph_.ops.size() - 1 - op);
  }
  uint64_t again(uint64_t op) const {
    return backward(recomputation_.before[op]) - (graph_.ops.size() - op);
  }
  bool splits(uint64_t op) const { return !splits_.empty() && splits_[op]; }
  /// When all of its backward pass is done.
  uint64_t all_backward(uint64_t op) const {
    return splits(op) ? weights(op) : backward(op);
  }

  size_t storage(uint64_t size, uint64_t from, uint64_t to) {
    storages_.push_back({size, {from, to}, {}, false, 0});
    return storages_.size() - 1;
  }

  size_t saved_storage(uint64_t size, size_t op) {
    if (!recomputation_.drops_saved[op])
      return storage(size, forward(op), backward(op));
    const auto at = storage(size, forward(op), forward(op));
    if (recomputation_.runs_again(op)) {
      storages_[at].again.use(again(op));
      storages_[at].again.use(backward(op));
    }
    return at;
  }

  /// Adds the times at which a value is made and read to those of its memory.
  void use(Storage& memory, uint32_t value) const {
    // What is dropped is other content when the backward pass reads it.
    auto& later = recomputation_.drops[value] ? memory.again : memory.time;
    if (const auto producer = producer_[value]; producer != nowhere) {
      memory.use(forward(producer));
      if (recomputation_.runs_again(producer))
        later.use(again(producer));
      if (needs_[producer].backward_reads_output)
        later.use(backward(producer));
    }
    for (auto consumer : consumers_[value]) {
      memory.use(forward(consumer));
      if (recomputation_.runs_again(consumer))
        later.use(again(consumer));
      const auto& op = graph_.ops[consumer];
      for (size_t k = 0; k < op.inputs.size(); ++k)
        if (op.inputs[k] == value
            && (needs_[consumer].backward_reads_inputs >> k & 1))
          later.use(all_backward(consumer));
    }
    if (goes_[value])
      memory.use(forward(part_.ops.end));
  }

  /// Whether an operator may write over what it reads: not if one of the two is
  /// to be there once more.
  bool may_write_over(uint64_t op, uint32_t value) const {
    auto producer = producer_[value];
    while (producer != nowhere && needs_[producer].alias)
      producer = producer_[graph_.ops[producer].inputs[0]];
    return layers_[op] == 0 && (producer == nowhere || layers_[producer] == 0);
  }

  /// Whether the part does something with a value that comes to it.
  bool takes(uint32_t value) const { return !consumers_[value].empty(); }

  void place_values() {
    value_.assign(graph_.values.size(), nowhere);
    for (auto value : part_.in.values)
      if (takes(value)) {
        const auto comes = forward(part_.ops.begin - 1);
        value_[value] = storage(graph_.values[value].size() * rows_, comes,
                                comes);
        use(storages_.back(), value);
      }
    for (size_t i = part_.ops.begin; i < part_.ops.end; ++i) {
      const auto& op = graph_.ops[i];
      const auto size = graph_.values[op.output].size() * rows_;
      const auto first = op.inputs.empty() ? nowhere : value_[op.inputs[0]];
      if (needs_[i].alias) {
        if (first != nowhere) {
          value_[op.output] = first;
          use(storages_[first], op.output);
        }
        continue; // an alias of the batch's memory is the batch's memory
      }
      const bool over = needs_[i].in_place && first != nowhere
                        && storages_[first].time.to <= forward(i)
                        && storages_[first].size == size
                        && may_write_over(i, op.inputs[0]);
      value_[op.output] = over ? first : storage(size, forward(i), forward(i));
      use(storages_[value_[op.output]], op.output);
    }
  }

  void place_gradients() {
    gradient_.assign(graph_.values.size(), nowhere);
    runs_backward_.assign(graph_.ops.size(), 0);
    for (auto value : part_.out.gradients)
      if (takes(value) || producer_[value] != nowhere) {
        const auto comes = backward(part_.ops.end);
        gradient_[value] = storage(graph_.values[value].size() * rows_, comes,
                                   comes);
      }
    for (size_t i = part_.ops.end; i-- > part_.ops.begin;) {
      const auto& op = graph_.ops[i];
      if (!wanted_[op.output])
        continue;
      const auto own = gradient_[op.output];
      const bool loss = i + 1 == graph_.ops.size();
      require(loss || own != nowhere, "an operator whose output nobody reads");
      if (own != nowhere)
        storages_[own].use(all_backward(i));
      runs_backward_[i] = !needs_[i].alias;
      for (size_t k = 0; k < op.inputs.size(); ++k)
        place_gradient_of_input(i, k, own);
    }
  }

  void place_gradient_of_input(size_t i, size_t k, size_t own) {
    const auto& op = graph_.ops[i];
    const auto input = op.inputs[k];
    if (!wanted_[input])
      return;
    const auto size = graph_.values[input].size() * rows_;
    if (gradient_[input] == nowhere) {
      const bool takes_place = own != nowhere && storages_[own].size == size
                               && may_take_place(i, k, own);
      gradient_[input] = takes_place ? own
                                     : storage(size, backward(i), backward(i));
      if (needs_[i].alias && !takes_place)
        runs_backward_[i] = 1;
    } else {
      if (needs_[i].alias)
        runs_backward_[i] = 1;
      else if (!needs_[i].accumulates)
        spare_ = std::max(spare_, size);
    }
    storages_[gradient_[input]].use(backward(i));
    const auto reader = producer_[input] != nowhere ? producer_[input]
                                                    : part_.ops.begin - 1;
    storages_[gradient_[input]].use(backward(reader));
  }

  /// Whether the gradient of an input may be given in place of the output's.
  bool may_take_place(size_t i, size_t k, size_t own) const {
    const auto& inputs = graph_.ops[i].inputs;
    const auto input = inputs[k];
    if (goes_[input])
      return false;
    if (k == 0 && (needs_[i].in_place || needs_[i].alias)
        && consumers_[input].size() == 1)
      return true;
    if (!needs_[i].passes_gradient || splits(i)
        || std::count(inputs.begin(), inputs.end(), input) > 1)
      return false;
    return std::all_of(inputs.begin(),
                       inputs.begin() + static_cast<std::ptrdiff_t>(k),
                       [&](auto other) {
                         return gradient_[other] != own
                                || share(i, other, input);
                       });
  }

  /// Whether two inputs may have the same memory for their gradients after an
  /// operator that passes its own on: the one that is used first is read by
  /// its producer, which leaves it as it is, and by nobody else.
  bool share(size_t i, uint32_t a, uint32_t b) const {
    if (next_use(i, a) > next_use(i, b))
      std::swap(a, b);
    const auto reader = producer_[a];
    return next_use(i, a) < next_use(i, b) && consumers_[a].size() == 1
           && reader != nowhere && needs_[reader].keeps_gradient
           && !needs_[reader].in_place && !needs_[reader].alias
           && !needs_[reader].passes_gradient && !splits(reader);
  }

  /// When a gradient is added to or read after the backward pass of i.
  uint64_t next_use(size_t i, uint32_t value) const {
    auto next = backward(producer_[value] != nowhere ? producer_[value]
                                                     : part_.ops.begin - 1);
    for (auto consumer : consumers_[value])
      if (consumer < i)
        next = std::min(next, backward(consumer));
    return next;
  }

  /// Whether a micro-batch has it from its forward to its backward pass.
  bool is_held(const Storage& memory) const {
    const auto turn =
      forward(std::min<uint64_t>(part_.ops.end, graph_.ops.size() - 1));
    return holds_all_
           || (!memory.throughout && memory.time.from <= turn
               && memory.time.to > turn);
  }

  /// Of what is held, or is not: largest first, each at the lowest offset where
  /// it fits. Returns where that ends.
  uint64_t assign(bool held, uint64_t begin_at) {
    std::vector<size_t> order;
    for (size_t at = 0; at < storages_.size(); ++at)
      if (is_held(storages_[at]) == held)
        order.push_back(at);
    std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      return storages_[a].size > storages_[b].size;
    });
    uint64_t total = begin_at;
    std::vector<size_t> placed;
    for (auto at : order) {
      auto& one = storages_[at];
      std::vector<std::pair<uint64_t, uint64_t>> taken;
      for (auto other : placed)
        if (storages_[other].meets(one))
          taken.emplace_back(storages_[other].offset,
                             storages_[other].offset
                               + rounded(storages_[other].size));
      std::sort(taken.begin(), taken.end());
      one.offset = begin_at;
      for (auto [begin, end] : taken) {
        if (one.offset + rounded(one.size) <= begin)
          break;
        one.offset = std::max(one.offset, end);
      }
      total = std::max(total, one.offset + rounded(one.size));
      placed.push_back(at);
    }
    return total;
  }

  const Graph& graph_;
  const GraphPart& part_;
  const std::vector<Needs>& needs_;
  const std::vector<uint8_t>& splits_; ///< empty: none
  std::vector<uint32_t> layers_;
  Recomputation recomputation_;
  bool holds_all_; ///< a micro-batch has all its memory for itself
  uint64_t rows_;
  std::vector<std::vector<size_t>> consumers_; ///< operators, ascending
  std::vector<uint64_t> producer_;             ///< nowhere: not of the part
  std::vector<uint8_t> wanted_; ///< a gradient of the value is asked for
  std::vector<uint8_t> goes_;   ///< the value is sent on
  std::vector<Storage> storages_;
  std::vector<size_t> value_;
  std::vector<size_t> gradient_;
  std::vector<uint8_t> runs_backward_;
  uint64_t spare_ = 0;
};

} // namespace

MemoryPlan MemoryPlan::make(const Graph& graph, const std::vector<Needs>& needs,
                            uint64_t max_rows) {
  const auto all = static_cast<uint32_t>(graph.ops.size());
  return make(graph, part_of(graph, {0, all}), needs, max_rows);
}

MemoryPlan MemoryPlan::make(const Graph& graph, const GraphPart& part,
                            const std::vector<Needs>& needs, uint64_t max_rows,
                            const std::vector<uint8_t>& splits,
                            const std::vector<uint32_t>& layers) {
  require(needs.size() == graph.ops.size(), "needs of other operators");
  require(splits.empty() || splits.size() == graph.ops.size(),
          "halves of other operators");
  return Planner(graph, part, needs, max_rows, splits, layers).plan();
}

} // namespace troupe::kernels
