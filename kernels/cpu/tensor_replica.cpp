#include "kernels/cpu/tensor_replica.hpp"

#include "kernels/base/require.hpp"
#include "kernels/cpu/device.hpp"
#include "kernels/cpu/pass.hpp"

namespace troupe::kernels {

namespace {

class CpuTensorReplica final : public TensorReplica {
public:
  CpuTensorReplica(TensorPart part, uint32_t max_rows, Precision precision)
    : TensorReplica(std::move(part)),
      device_(make_cpu_device(precision)),
      engine_(part_.graph, *device_, max_rows) {}

  void begin(const float* parameters, const Batch& batch) override {
    batch_ = batch;
    pass_ = cpu_pass(parameters, batch_);
    pass_.training = true;
    totals_ = {};
    pass_.totals = &totals_;
    next_sum_ = 0;
    forward_to_ = 0;
    backward_to_ = ops();
    under_way_ = true;
  }

  std::optional<std::span<float>> advance(float* gradient) override {
    require(under_way_, "a micro-batch that has not begun");
    prepare_compute_thread();
    const auto* sum = next_sum_ < part_.sums.size() ? &part_.sums[next_sum_]
                                                    : nullptr;
    const bool forward = sum != nullptr && sum->forward;
    run_forward(forward ? sum->op : ops());
    if (!forward)
      run_backward(sum != nullptr ? sum->op + 1 : 0, gradient);
    if (sum == nullptr) {
      under_way_ = false;
      return std::nullopt;
    }
    auto* place = forward ? engine_.value(sum->value)
                          : engine_.gradient(sum->value);
    return std::span{place, sum_elements(next_sum_++, batch_.rows)};
  }

  LeafStats stats() const override { return {totals_.loss, totals_.correct}; }

  uint64_t memory_bytes() const override {
    return engine_.memory().total * sizeof(float);
  }

private:
  uint32_t ops() const { return static_cast<uint32_t>(part_.graph.ops.size()); }

  void run_forward(uint32_t end) {
    if (forward_to_ < end)
      engine_.forward(pass_, {forward_to_, end});
    forward_to_ = end;
  }

  void run_backward(uint32_t begin, float* gradient) {
    if (begin < backward_to_)
      engine_.backward(pass_, {begin, backward_to_}, gradient);
    backward_to_ = begin;
  }

  std::unique_ptr<Device> device_;
  Engine engine_;
  Batch batch_;
  Engine::Pass pass_;
  LossTotals totals_;
  size_t next_sum_ = 0;
  uint32_t forward_to_ = 0;  ///< the next operator of the forward pass
  uint32_t backward_to_ = 0; ///< ... of the backward pass is before it
  bool under_way_ = false;
};

} // namespace

std::unique_ptr<TensorReplica> make_cpu_tensor_replica(TensorPart part,
                                                       uint32_t max_rows,
                                                       Precision precision) {
  return std::make_unique<CpuTensorReplica>(std::move(part), max_rows,
                                            precision);
}

} // namespace troupe::kernels
