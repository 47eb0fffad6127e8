#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"
#include "kernels/cpu/interaction_loops.hpp"
#include "kernels/cpu/loop_table.hpp"
#include "kernels/cpu/operators.hpp"

#include <cstring>

namespace troupe::kernels {

namespace {

/// What both kinds share. The gradient of the table is written whole: zeros,
/// then rows added in the order of the samples. Zeroing costs more than all
/// else once the table outgrows the caches; such tables are sparse (table/).
class Table : public Operator {
public:
  explicit Table(const CpuOpSite& site)
    : name_(site.op.name),
      ids_(elements(site.input(0))),
      vocabulary_(site.parameter(0).shape.at(0)),
      width_(site.parameter(0).shape.at(1)) {
    require(site.op.attributes.vocabulary == vocabulary_
              && site.output().back() == width_,
            "table of an embedding");
  }

protected:
  /// Errors: InputError for an id outside [-1, vocabulary).
  void check(const int32_t* ids, size_t count) const {
    const auto end = static_cast<int64_t>(vocabulary_);
    for (size_t i = 0; i < count; ++i)
      if (ids[i] < -1 || ids[i] >= end)
        throw InputError("operator " + name_ + ": id " + std::to_string(ids[i])
                         + " is outside the table's " + std::to_string(end)
                         + " rows; give ids from 0, -1 for an absent one");
  }

  void clear(const OpArgs& args) const {
    if (!args.accumulate_parameters[0])
      std::memset(args.parameter_gradients[0], 0,
                  vocabulary_ * width_ * sizeof(float));
  }

  size_t ids() const { return ids_; } ///< of a sample
  size_t width() const { return width_; }

private:
  std::string name_;
  size_t ids_;
  uint64_t vocabulary_;
  size_t width_;
};

class Embedding final : public Table {
public:
  using Table::Table;

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_inputs = 1;
    needs.accumulates = true;
    needs.splits = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    const auto count = args.rows * ids();
    const auto* id = args.ids(0);
    const auto bytes = width() * sizeof(float);
    check(id, count);
    auto* to = args.output;
    for (size_t i = 0; i < count; ++i, to += width())
      if (id[i] < 0)
        std::memset(to, 0, bytes);
      else
        std::memcpy(to, args.parameters[0] + size_t(id[i]) * width(), bytes);
  }

  void backward(const OpArgs& args) override {
    if (args.half == BackwardHalf::inputs)
      return; // ids have no gradient
    clear(args);
    const auto count = args.rows * ids();
    const auto* id = args.ids(0);
    const auto add = loops().add;
    const auto* from = args.output_gradient;
    for (size_t i = 0; i < count; ++i, from += width())
      if (id[i] >= 0) {
        auto* to = args.parameter_gradients[0] + size_t(id[i]) * width();
        add(to, from, to, width());
      }
  }
};

class EmbeddingBag final : public Table {
public:
  explicit EmbeddingBag(const CpuOpSite& site)
    : Table(site),
      weighted_(site.op.inputs.size() > 1),
      mean_(site.op.attributes.mode == BagMode::mean) {
    require(!weighted_ || elements(site.input(1)) == ids(),
            "weights of an embedding bag");
  }

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_inputs = weighted_ ? 3 : 1;
    needs.accumulates = true;
    needs.splits = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    check(args.ids(0), args.rows * ids());
    const auto& loop = interaction_loops();
    for (size_t r = 0; r < args.rows; ++r) {
      const auto* id = args.ids(0) + r * ids();
      auto* to = args.output + r * width();
      std::memset(to, 0, width() * sizeof(float));
      for (size_t i = 0; i < ids(); ++i)
        if (id[i] >= 0)
          loop.add_scaled(args.parameters[0] + size_t(id[i]) * width(),
                          weight(args, r, i), to, width());
      if (mean_)
        loop.scale(to, share(id), width());
    }
  }

  void backward(const OpArgs& args) override {
    const bool of_table = args.half != BackwardHalf::inputs;
    const bool of_weights = args.half != BackwardHalf::weights && weighted_;
    auto* weights = of_weights ? args.input_gradients[1] : nullptr;
    if (of_table)
      clear(args);
    const auto& loop = interaction_loops();
    for (size_t r = 0; r < args.rows; ++r) {
      const auto* id = args.ids(0) + r * ids();
      const auto* from = args.output_gradient + r * width();
      const float part = mean_ ? share(id) : 1.0f;
      for (size_t i = 0; i < ids(); ++i) {
        const auto at = size_t(id[i]) * width();
        if (of_table && id[i] >= 0)
          loop.add_scaled(from, part * weight(args, r, i),
                          args.parameter_gradients[0] + at, width());
        if (weights == nullptr)
          continue;
        const float slope =
          id[i] < 0 ? 0.0f
                    : part * loop.dot(from, args.parameters[0] + at, width());
        auto& to = weights[r * ids() + i];
        to = args.accumulate_inputs[1] ? to + slope : slope;
      }
    }
  }

private:
  float weight(const OpArgs& args, size_t row, size_t i) const {
    return weighted_ ? args.inputs[1][row * ids() + i] : 1.0f;
  }

  /// 1 / the number of present ids; of none: 0.
  float share(const int32_t* id) const {
    size_t present = 0;
    for (size_t i = 0; i < ids(); ++i)
      present += id[i] >= 0;
    return present == 0 ? 0.0f : 1.0f / static_cast<float>(present);
  }

  bool weighted_;
  bool mean_;
};

} // namespace

OperatorPtr make_embedding(const CpuOpSite& site) {
  if (site.op.kind == OpKind::embedding)
    return std::make_unique<Embedding>(site);
  return std::make_unique<EmbeddingBag>(site);
}

} // namespace troupe::kernels
