#include "kernels/cpu/loop_table.hpp"
#include "kernels/cpu/operators.hpp"
#include "kernels/cpu/row_loops.hpp"

#include <vector>

namespace troupe::kernels {

namespace {

class Softmax final : public Operator {
public:
  explicit Softmax(const CpuOpSite& site)
    : columns_(site.input(0).back()),
      repeats_(elements(site.input(0)) / columns_),
      rows_(repeats_ * site.max_rows) {}

  Needs needs() const override {
    Needs needs;
    needs.backward_reads_output = true;
    needs.in_place = true;
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    auto* x = const_cast<float*>(args.inputs[0]); // it is read alone
    loops().softmax({x, columns_, args.rows * repeats_, columns_}, args.output,
                    rows_.data());
  }

  void backward(const OpArgs& args) override {
    if (args.input_gradients[0] != nullptr)
      row_loops().softmax_back({args.output, args.output_gradient,
                                args.input_gradients[0], args.rows * repeats_,
                                columns_, args.accumulate_inputs[0] != 0});
  }

private:
  size_t columns_;
  size_t repeats_; ///< vectors of a sample
  std::vector<SoftmaxRow> rows_;
};

} // namespace

OperatorPtr make_softmax(const CpuOpSite& site) {
  return std::make_unique<Softmax>(site);
}

} // namespace troupe::kernels
