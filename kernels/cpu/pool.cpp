#include "kernels/cpu/operators.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels {

OperatorPtr make_pool(const CpuOpSite& site) {
  throw InputError("operator " + site.op.name + " is not available yet");
}

} // namespace troupe::kernels
