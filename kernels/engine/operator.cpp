#include "kernels/engine/operator.hpp"

namespace troupe::kernels {

double variance_share(const OpArgs& args, uint64_t rows, uint64_t places) {
  const bool exchanged = rows != args.rows;
  const bool alone = exchanged || args.step.rows == 0;
  const uint64_t of_step = alone ? rows : args.step.rows;
  const uint64_t leaves = alone ? 1 : args.step.leaves;
  const auto values = of_step * places;
  if (values <= leaves)
    return 0;
  // Of what is exchanged each micro-batch gives its part.
  const auto given = exchanged ? args.rows : of_step;
  return static_cast<double>(given) / static_cast<double>(values - leaves);
}

} // namespace troupe::kernels
