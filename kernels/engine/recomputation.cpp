#include "kernels/engine/recomputation.hpp"

#include "kernels/base/require.hpp"

#include <algorithm>
#include <map>

namespace troupe::kernels {

namespace {

constexpr auto never = Recomputation::never;

class Finder {
public:
  Finder(const Graph& graph, const GraphPart& part,
         const std::vector<Needs>& needs, std::vector<uint32_t> layers)
    : graph_(graph),
      part_(part),
      needs_(needs),
      layers_(std::move(layers)),
      root_(graph.values.size()),
      producer_(graph.values.size(), never),
      readers_(graph.values.size()),
      wanted_(wanted_gradients(graph)),
      needed_(graph.ops.size(), 0) {
    for (uint32_t value = 0; value < root_.size(); ++value)
      root_[value] = value;
    for (auto i = part.ops.begin; i < part.ops.end; ++i) {
      const auto& op = graph.ops[i];
      if (needs[i].alias) {
        root_[op.output] = root_[op.inputs[0]];
        continue;
      }
      producer_[op.output] = i;
      for (size_t k = 0; k < op.inputs.size(); ++k)
        readers_[root_[op.inputs[k]]].push_back(
          {i, (needs[i].backward_reads_inputs >> k & 1) != 0});
    }
    // Its partial sum lies there no more.
    for (const auto& sum : part.sums)
      if (sum.forward && producer_[root_[sum.value]] != never)
        layers_[producer_[root_[sum.value]]] = 0;
    // Other ranks would have to take part in its sums once more.
    for (auto i = part.ops.begin; i < part.ops.end; ++i)
      if (graph.ops[i].attributes.cross_replica)
        layers_[i] = 0;
  }

  Recomputation find() {
    out_.drops.assign(graph_.values.size(), 0);
    out_.drops_saved.assign(graph_.ops.size(), 0);
    out_.before.assign(graph_.ops.size(), never);
    for (auto i = part_.ops.begin; i < part_.ops.end; ++i)
      if (layers_[i] != 0 && !needs_[i].alias)
        drop(i);
    for (auto i = part_.ops.end; i-- > part_.ops.begin;)
      if (needed_[i])
        for (auto input : graph_.ops[i].inputs)
          if (out_.drops[root_[input]])
            needed_[producer_[root_[input]]] = 1;
    for (auto i = part_.ops.begin; i < part_.ops.end; ++i)
      if (needed_[i])
        out_.before[i] = first_need_[layers_[i]];
    for (uint32_t value = 0; value < root_.size(); ++value)
      out_.drops[value] = out_.drops[root_[value]];
    return std::move(out_);
  }

private:
  struct Reader {
    uint32_t op;
    bool backward;
  };

  void drop(uint32_t op) {
    const auto output = graph_.ops[op].output;
    const auto& readers = readers_[output];
    out_.drops[output] =
      std::ranges::none_of(readers, [&](const Reader& reader) {
        return layers_[reader.op] != 0 && layers_[reader.op] != layers_[op];
      });
    if (out_.drops[output]) {
      for (const auto& reader : readers)
        if (reader.backward)
          need(op, reader.op);
      if (needs_[op].backward_reads_output)
        need(op, op);
    }
    const auto& saved = needs_[op].saved;
    out_.drops_saved[op] = saved.per_row + saved.fixed > 0;
    if (out_.drops_saved[op] && wanted_[output])
      need(op, op);
  }

  /// The backward pass of `by` reads something that `op` gave.
  void need(uint32_t op, uint32_t by) {
    needed_[op] = 1;
    auto& first = first_need_[layers_[op]];
    first = std::max(first, by);
  }

  const Graph& graph_;
  const GraphPart& part_;
  const std::vector<Needs>& needs_;
  std::vector<uint32_t> layers_;
  std::vector<uint32_t> root_; ///< of values: whose memory an alias reads
  std::vector<uint32_t> producer_;
  std::vector<std::vector<Reader>> readers_;
  std::vector<uint8_t> wanted_;
  std::vector<uint8_t> needed_;             ///< by operator
  std::map<uint32_t, uint32_t> first_need_; ///< by layer: the last operator
  Recomputation out_;
};

} // namespace

Recomputation recompute(const Graph& graph, const GraphPart& part,
                        const std::vector<Needs>& needs,
                        const std::vector<uint32_t>& layers) {
  require(needs.size() == graph.ops.size() && layers.size() == graph.ops.size(),
          "layers of other operators");
  return Finder(graph, part, needs, layers).find();
}

} // namespace troupe::kernels
