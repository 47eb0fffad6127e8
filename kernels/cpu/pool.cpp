#include "kernels/base/error.hpp"
#include "kernels/cpu/operators.hpp"
#include "kernels/cpu/pool_loops.hpp"

namespace troupe::kernels {

namespace {

class Pool final : public Operator {
public:
  explicit Pool(const CpuOpSite& site)
    : largest_(site.op.kind == OpKind::max_pool),
      outputs_(elements(site.output())) {
    const auto& in = site.input(0);
    const auto& out = site.output();
    const auto& attributes = site.op.attributes;
    const bool whole = attributes.kernel == 0;
    windows_ = {0,
                in[0],
                in[1],
                in[2],
                out[0],
                out[1],
                whole ? in[0] : attributes.kernel,
                whole ? in[1] : attributes.kernel,
                whole ? 1 : attributes.stride,
                whole ? 0 : attributes.padding};
    if (!windows_hold_something())
      throw InputError("operator " + site.op.name
                       + ": a window lies in the padding alone; use a padding "
                         "below the kernel, and a kernel that the image holds");
  }

  Needs needs() const override {
    Needs needs;
    if (largest_)
      needs.saved = {outputs_, 0};
    needs.accumulates = true;
    return needs;
  }

  void forward(const OpArgs& args) override {
    windows_.rows = args.rows;
    if (largest_)
      pool_loops().max_forward(windows_, args.inputs[0], args.output,
                               args.training ? chosen(args) : nullptr);
    else
      pool_loops().average_forward(windows_, args.inputs[0], args.output);
  }

  void backward(const OpArgs& args) override {
    if (args.input_gradients[0] == nullptr)
      return;
    windows_.rows = args.rows;
    if (largest_)
      pool_loops().max_backward(windows_, chosen(args), args.output_gradient,
                                args.input_gradients[0],
                                args.accumulate_inputs[0]);
    else
      pool_loops().average_backward(windows_, args.output_gradient,
                                    args.input_gradients[0],
                                    args.accumulate_inputs[0]);
  }

private:
  static int32_t* chosen(const OpArgs& args) {
    return reinterpret_cast<int32_t*>(args.saved);
  }

  bool windows_hold_something() const {
    const auto& w = windows_;
    return w.high > 0 && w.wide > 0 && w.padding < w.kernel_height
           && w.padding < w.kernel_width
           && (w.high - 1) * w.stride < w.height + w.padding
           && (w.wide - 1) * w.stride < w.width + w.padding;
  }

  bool largest_;
  uint64_t outputs_;
  Windows windows_;
};

} // namespace

OperatorPtr make_pool(const CpuOpSite& site) {
  return std::make_unique<Pool>(site);
}

} // namespace troupe::kernels

#define LEAF "kernels/cpu/pool_leaf.inc"
#define TABLE_TYPE PoolTable
#define TABLE_NAME pool_loops
#define TABLE_ENTRIES \
  max_forward, max_backward, average_forward, average_backward
#include "kernels/cpu/per_isa.inc"
