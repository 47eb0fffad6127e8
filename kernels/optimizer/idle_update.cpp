#include "kernels/optimizer/idle_update.hpp"

namespace troupe {

IdleUpdate idle_update(const OptimizerOptions& options, bool decays) {
  using enum OptimizerKind;
  const auto kind = options.kind;
  const bool divides = kind == adam || kind == adamw || kind == adagrad
                       || kind == rmsprop;
  const bool finite = options.epsilon > 0 && options.beta1 < 1
                      && options.beta2 < 1; // otherwise 0 / 0 is no number
  if (kind == lamb || (decays && options.weight_decay != 0)
      || (divides && !finite))
    return IdleUpdate::moves;
  return kind == sgd || kind == adagrad ? IdleUpdate::stays
                                        : IdleUpdate::stays_fresh;
}

} // namespace troupe
