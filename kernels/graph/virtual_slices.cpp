#include "kernels/graph/virtual_slices.hpp"

#include "kernels/base/require.hpp"
#include "kernels/graph/stages.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>

namespace troupe {

using kernels::require;

namespace {

/// Two dense layers and the operators between them, which nobody else reads.
struct Pair {
  uint32_t column = 0; ///< operators
  uint32_t row = 0;
  std::vector<uint32_t> between;
  uint64_t units = 0; ///< that are cut, of the width of the row-cut one's input
  uint64_t unit = 1;  ///< elements that stay together: a head's width
  /// Side by side in the column-cut one's output: query, key and value, or the
  /// halves of swiglu.
  uint32_t groups = 1;
  uint32_t wide = 1; ///< heads of queries to one of keys

  /// Heads decide what is cut together.
  bool by_heads() const { return groups == 3; }
  uint32_t heads(uint64_t width) const {
    return static_cast<uint32_t>(width / unit);
  }
  /// Elements that the column-cut layer gives for `width` of a narrow group.
  uint64_t columns(uint64_t width) const { return (groups - 1 + wide) * width; }
};

/// Units [begin, end) of a slice, as ranks are dealt to workers.
std::pair<uint64_t, uint64_t> range_of(const Pair& pair, uint32_t slice,
                                       uint32_t slices) {
  return {pair.units * slice / slices * pair.unit,
          pair.units * (slice + 1) / slices * pair.unit};
}

std::string numbered(const std::string& name, SliceNode node) {
  const auto first = std::to_string(node.lo);
  return name + '[' + first
         + (node.hi - node.lo > 1 ? "-" + std::to_string(node.hi - 1) : "")
         + ']';
}

class Search {
public:
  Search(const Graph& graph, uint32_t slices)
    : graph_(graph),
      slices_(slices),
      consumers_(graph.values.size()),
      users_(graph.parameters.size(), 0),
      taken_(graph.ops.size(), 0) {
    for (uint32_t i = 0; i < graph.ops.size(); ++i) {
      for (auto input : graph.ops[i].inputs)
        consumers_[input].push_back(i);
      for (auto parameter : graph.ops[i].parameters)
        ++users_[parameter];
    }
  }

  std::vector<Pair> pairs() {
    std::vector<Pair> result;
    for (uint32_t i = 0; i < graph_.ops.size(); ++i)
      if (auto pair = pair_at(i)) {
        taken_[pair->row] = 1;
        result.push_back(std::move(*pair));
      }
    return result;
  }

private:
  /// A dense layer that has its parameters to itself.
  bool may_be_cut(uint32_t at) const {
    const auto& op = graph_.ops[at];
    return op.kind == OpKind::dense
           && std::ranges::all_of(op.parameters, [&](uint32_t parameter) {
                return users_[parameter] == 1;
              });
  }

  std::optional<uint32_t> only_consumer(uint32_t at) const {
    const auto& all = consumers_[graph_.ops[at].output];
    return all.size() == 1 ? std::optional{all.front()} : std::nullopt;
  }

  /// Follows a dense layer up to its partner.
  std::optional<Pair> pair_at(uint32_t at) const {
    if (taken_[at] || !may_be_cut(at))
      return std::nullopt;
    Pair pair;
    pair.column = at;
    pair.units = graph_.ops[at].attributes.units;
    bool turned = false; // queries and keys are, and attention has to follow
    for (auto next = only_consumer(at); next; next = only_consumer(*next)) {
      const auto& op = graph_.ops[*next];
      if (op.kind == OpKind::dense) {
        pair.row = *next;
        return may_be_cut(*next) && pair.units >= slices_ && !turned
                 ? std::optional{std::move(pair)}
                 : std::nullopt;
      }
      const bool plain = op.kind == OpKind::activation
                         || op.kind == OpKind::dropout;
      if (op.kind == OpKind::rotary && pair.groups == 1) {
        cut_by_heads(pair, op);
        turned = true;
      } else if (op.kind == OpKind::attention
                 && (pair.groups == 1 || (turned && has_heads(pair, op)))) {
        cut_by_heads(pair, op);
        turned = false;
      } else if (op.kind == OpKind::swiglu && pair.groups == 1) {
        pair.groups = 2;
        pair.units = graph_.values[op.output].shape.back();
      } else if (!plain) {
        return std::nullopt;
      }
      pair.between.push_back(*next);
    }
    return std::nullopt;
  }

  void cut_by_heads(Pair& pair, const Op& op) const {
    const auto& attributes = op.attributes;
    pair.groups = 3;
    pair.units = attributes.key_heads();
    pair.wide = attributes.heads / attributes.key_heads();
    pair.unit = graph_.values[op.inputs[0]].shape.back()
                / pair.columns(pair.units);
  }

  static bool has_heads(const Pair& pair, const Op& op) {
    return pair.units == op.attributes.key_heads()
           && pair.units * pair.wide == op.attributes.heads;
  }

  const Graph& graph_;
  uint32_t slices_;
  std::vector<std::vector<uint32_t>> consumers_; ///< of values
  std::vector<uint32_t> users_;                  ///< of parameters
  std::vector<uint8_t> taken_; ///< operators that are cut by rows
};

class Cutter {
public:
  Cutter(const Graph& graph, uint32_t slices, std::vector<Pair> pairs)
    : graph_(graph),
      slices_(slices),
      pairs_(std::move(pairs)),
      wanted_(wanted_gradients(graph)) {}

  Graph cut() {
    out_.text = graph_.text;
    out_.sample = graph_.sample;
    out_.virtual_slices = slices_;
    out_.wholes = graph_.parameters;
    cut_parameters();
    values_.assign(graph_.values.size(), 0);
    for (auto given : {graph_.features_value, graph_.ids_value})
      if (given)
        values_[*given] = add_value(graph_.values[*given]);
    out_.features_value = placed(graph_.features_value);
    out_.ids_value = placed(graph_.ids_value);
    std::vector<uint8_t> within(graph_.ops.size(), 0);
    for (const auto& pair : pairs_) {
      within[pair.row] = 1;
      for (auto op : pair.between)
        within[op] = 1;
    }
    for (uint32_t i = 0; i < graph_.ops.size(); ++i) {
      const auto pair = std::ranges::find(pairs_, i, &Pair::column);
      if (pair != pairs_.end())
        add_pair(*pair);
      else if (!within[i])
        add_whole(graph_.ops[i]);
    }
    return std::move(out_);
  }

private:
  std::optional<uint32_t> placed(std::optional<uint32_t> value) const {
    return value ? std::optional{values_[*value]} : std::nullopt;
  }

  uint32_t add_value(Value value) {
    out_.values.push_back(std::move(value));
    return static_cast<uint32_t>(out_.values.size() - 1);
  }

  // -- parameters -------------------------------------------------------------

  void cut_parameters() {
    std::vector<const Pair*> by_column(graph_.parameters.size(), nullptr);
    std::vector<const Pair*> by_row(graph_.parameters.size(), nullptr);
    for (const auto& pair : pairs_) {
      for (auto parameter : graph_.ops[pair.column].parameters)
        by_column[parameter] = &pair;
      by_row[graph_.ops[pair.row].parameters[0]] = &pair;
    }
    first_.assign(graph_.parameters.size(), 0);
    for (uint32_t i = 0; i < graph_.parameters.size(); ++i) {
      first_[i] = static_cast<uint32_t>(out_.parameters.size());
      const auto* pair = by_column[i] != nullptr ? by_column[i] : by_row[i];
      if (pair == nullptr) {
        out_.parameters.push_back(graph_.parameters[i]);
        out_.pieces.push_back({i});
        continue;
      }
      const bool column = by_column[i] != nullptr;
      const auto& op = graph_.ops[column ? pair->column : pair->row];
      const bool bias = i != op.parameters[0];
      // A weight lies [inputs, units], a bias [units].
      const bool last = column != op.attributes.transposed && !bias;
      for (uint32_t slice = 0; slice < slices_; ++slice)
        add_piece(i, *pair, slice, last ? 1 : 0, column);
    }
  }

  /// Of the row-cut layer's inputs there is what the wide group gives.
  void add_piece(uint32_t whole, const Pair& pair, uint32_t slice,
                 uint32_t axis, bool column) {
    const auto [begin, end] = range_of(pair, slice, slices_);
    auto parameter = graph_.parameters[whole];
    parameter.name = numbered(parameter.name, {slice, slice + 1});
    parameter.shape[axis] = column ? pair.columns(end - begin)
                                   : pair.wide * (end - begin);
    out_.parameters.push_back(std::move(parameter));
    out_.pieces.push_back(
      column ? ParameterPiece{whole, axis, begin, end, pair.groups, pair.wide}
             : ParameterPiece{whole, axis, pair.wide * begin, pair.wide * end});
  }

  // -- operators --------------------------------------------------------------

  /// Adds an operator, and its output of that shape; returns the value.
  uint32_t add(Op op, std::string name, Shape shape,
               std::optional<SliceNode> node) {
    op.name = name;
    op.slices = node;
    op.output = add_value({std::move(name), std::move(shape)});
    out_.ops.push_back(std::move(op));
    return out_.ops.back().output;
  }

  void add_whole(Op op) {
    for (auto& input : op.inputs)
      input = values_[input];
    for (auto& parameter : op.parameters)
      parameter = first_[parameter];
    const auto output = op.output;
    auto name = op.name;
    values_[output] = add(std::move(op), std::move(name),
                          graph_.values[output].shape, std::nullopt);
    // A value may have another name than its operator ("conv.sums").
    out_.values[values_[output]] = graph_.values[output];
  }

  void add_pair(const Pair& pair) {
    const auto& row = graph_.ops[pair.row];
    const auto input = values_[graph_.ops[pair.column].inputs[0]];
    auto sum = add_node(pair, {0, slices_}, input);
    if (const auto kind = row.attributes.activation; kind != Activation::none) {
      Op op;
      op.kind = OpKind::activation;
      op.inputs = {sum};
      op.attributes.activation = kind;
      sum = add(std::move(op), row.name, out_.values[sum].shape, std::nullopt);
    } else { // it is the layer's output
      out_.ops.back().name = row.name;
      out_.values[sum].name = row.name;
    }
    values_[row.output] = sum;
  }

  /// The sum of some slices' products. Where the gradient of the input is asked
  /// for, it is added up in the aliases of it, one at each node.
  uint32_t add_node(const Pair& pair, SliceNode node, uint32_t input) {
    const auto& column = graph_.ops[pair.column];
    const auto& row = graph_.ops[pair.row];
    if (wanted_[column.inputs[0]]) {
      Op alias;
      alias.kind = OpKind::reshape;
      alias.inputs = {input};
      alias.attributes.shape = out_.values[input].shape;
      auto shape = alias.attributes.shape;
      input = add(std::move(alias), numbered(column.name, node) + ".input",
                  std::move(shape), node);
    }
    if (node.hi - node.lo == 1)
      return add_slice(pair, node, input);
    const auto [left, right] = children(node);
    Op sum;
    sum.kind = OpKind::add;
    sum.inputs = {add_node(pair, left, input), 0};
    sum.inputs[1] = add_node(pair, right, input);
    return add(std::move(sum), numbered(row.name, node) + ".sum",
               graph_.values[row.output].shape, node);
  }

  uint32_t add_slice(const Pair& pair, SliceNode node, uint32_t input) {
    const auto slice = node.lo;
    const auto [begin, end] = range_of(pair, slice, slices_);
    const auto width = end - begin;
    auto last = add_layer(graph_.ops[pair.column], slice, node, input,
                          pair.columns(width));
    for (auto at : pair.between) {
      auto op = graph_.ops[at];
      op.inputs = {last};
      const bool narrows = op.kind == OpKind::attention
                           || op.kind == OpKind::swiglu;
      if (pair.by_heads()
          && (op.kind == OpKind::attention || op.kind == OpKind::rotary)) {
        op.attributes.heads = pair.wide * pair.heads(width);
        op.attributes.key_value_heads = pair.heads(width);
      }
      auto shape = graph_.values[op.output].shape;
      shape.back() = narrows ? pair.wide * width
                             : out_.values[last].shape.back();
      auto name = numbered(op.name, node);
      last = add(std::move(op), std::move(name), std::move(shape), node);
    }
    auto row = graph_.ops[pair.row];
    row.attributes.activation = Activation::none;
    if (slice > 0 && row.attributes.bias) {
      row.attributes.bias = false;
      row.parameters.pop_back();
    }
    return add_layer(row, slice, node, last, row.attributes.units);
  }

  uint32_t add_layer(Op op, uint32_t slice, SliceNode node, uint32_t input,
                     uint64_t units) {
    op.inputs = {input};
    op.attributes.units = units;
    for (auto& parameter : op.parameters) {
      const auto first = first_[parameter];
      parameter = first + (out_.pieces[first].cut() ? slice : 0);
    }
    auto shape = graph_.values[op.output].shape;
    shape.back() = units;
    auto name = numbered(op.name, node);
    return add(std::move(op), std::move(name), std::move(shape), node);
  }

  const Graph& graph_;
  uint32_t slices_;
  std::vector<Pair> pairs_;
  std::vector<uint8_t> wanted_; ///< gradients of the graph's values
  Graph out_;
  std::vector<uint32_t> first_;  ///< of a parameter's pieces
  std::vector<uint32_t> values_; ///< where the graph's are
};

} // namespace

std::pair<SliceNode, SliceNode> children(SliceNode node) {
  require(node.hi - node.lo > 1, "a virtual slice has no children");
  const auto middle = node.lo + std::bit_floor(node.hi - node.lo - 1);
  return {{node.lo, middle}, {middle, node.hi}};
}

Graph cut_into_slices(const Graph& graph, uint32_t slices) {
  require(slices > 0 && graph.wholes.empty(), "a graph that is cut already");
  if (slices == 1)
    return graph;
  auto pairs = Search{graph, slices}.pairs();
  return pairs.empty() ? graph : Cutter{graph, slices, std::move(pairs)}.cut();
}

const std::vector<Parameter>& whole_parameters(const Graph& graph) {
  return graph.wholes.empty() ? graph.parameters : graph.wholes;
}

std::vector<uint32_t> pieces_of(const Graph& graph, uint32_t whole) {
  if (graph.pieces.empty())
    return {whole};
  std::vector<uint32_t> result;
  for (uint32_t i = 0; i < graph.pieces.size(); ++i)
    if (graph.pieces[i].whole == whole)
      result.push_back(i);
  return result;
}

uint32_t whole_of(const Graph& graph, uint32_t parameter) {
  return graph.pieces.empty() ? parameter : graph.pieces[parameter].whole;
}

void for_runs(const Graph& graph, uint32_t parameter, uint64_t offset,
              uint64_t count,
              const std::function<void(uint64_t, uint64_t, uint64_t)>& run) {
  if (graph.pieces.empty() || !graph.pieces[parameter].cut()) {
    if (count > 0)
      run(0, offset, count);
    return;
  }
  const auto& piece = graph.pieces[parameter];
  const auto& shape = graph.wholes[piece.whole].shape;
  uint64_t inner = 1;
  for (auto axis = piece.axis + 1; axis < shape.size(); ++axis)
    inner *= shape[axis];
  // A row of blocks is as long as so many narrow ones, and so is its part here.
  const uint64_t narrow = piece.groups - 1 + piece.wide;
  const auto block = shape[piece.axis] / narrow * inner;
  const auto length = (piece.end - piece.begin) * inner;
  for (uint64_t at = 0; at < count;) {
    const auto row = (offset + at) / (narrow * length);
    const auto in_row = (offset + at) % (narrow * length);
    const bool first = in_row < piece.wide * length;
    const auto number = first ? 0 : in_row / length;
    const auto times = first ? piece.wide : 1;
    const auto within = in_row - number * length;
    const auto elements = std::min(times * length - within, count - at);
    run(at,
        (row * narrow + number) * block + times * piece.begin * inner + within,
        elements);
    at += elements;
  }
}

void put_piece(const Graph& graph, uint32_t parameter, uint64_t offset,
               std::span<const float> values, float* whole) {
  for_runs(graph, parameter, offset, values.size(),
           [&](uint64_t at, uint64_t in_whole, uint64_t elements) {
             std::copy_n(values.data() + at, elements, whole + in_whole);
           });
}

void take_piece(const Graph& graph, uint32_t parameter, uint64_t offset,
                const float* whole, std::span<float> values) {
  for_runs(graph, parameter, offset, values.size(),
           [&](uint64_t at, uint64_t in_whole, uint64_t elements) {
             std::copy_n(whole + in_whole, elements, values.data() + at);
           });
}

} // namespace troupe
