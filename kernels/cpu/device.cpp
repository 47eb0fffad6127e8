#include "kernels/cpu/device.hpp"

#include "kernels/base/buffer.hpp"
#include "kernels/base/error.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/loop_table.hpp"
#include "kernels/cpu/operators.hpp"

#include <cstring>
#include <vector>

namespace troupe::kernels {

namespace {

class CpuDevice final : public Device {
public:
  explicit CpuDevice(Precision precision) : precision_(precision) {}

  float* allocate(size_t count) override {
    memory_.emplace_back(count);
    return memory_.back().data();
  }

  void add(const float* from, float* to, size_t count) override {
    loops().add(from, to, to, count);
  }

  void copy(const float* from, float* to, size_t count) override {
    std::memcpy(to, from, count * sizeof(float));
  }

  void upload(const void* from, void* to, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }

  void download(const void* from, void* to, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }

  OperatorPtr make_operator(const Graph& graph, size_t op,
                            uint32_t max_rows) override {
    return make_cpu_operator({graph, graph.ops[op], max_rows, precision_});
  }

private:
  Precision precision_;
  std::vector<Buffer> memory_;
};

} // namespace

void require_on_cpu(Precision precision) {
  if (precision == Precision::bfloat16 && !has_bfloat16())
    throw InputError("--precision bfloat16: this processor (or --isa) lacks "
                     "avx512_bf16; use float32");
}

std::unique_ptr<Device> make_cpu_device(Precision precision) {
  pin_unless_selected();
  require_on_cpu(precision);
  return std::make_unique<CpuDevice>(precision);
}

} // namespace troupe::kernels
