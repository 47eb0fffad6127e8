#pragma once

#include "actors/wire/messages/supervision.hpp"

#include <cmath>
#include <string>
#include <utility>

namespace troupe {

/// Says once, of what a coordinator sees of a run, that it has diverged. A
/// gradient or a training loss that is not finite ends the run; what an update
/// made of the weights shows on held-out samples alone.
class LossWatch {
public:
  /// The line for the user; empty: there is nothing to say, or it was said.
  std::string evaluated(const Evaluation& evaluation) {
    for (const auto& [name, value] : evaluation.measures)
      if (name == "loss" && !std::isfinite(value)
          && !std::exchange(told_, true))
        return "the loss on held-out samples is not finite after step "
               + std::to_string(evaluation.version)
               + ": lower --lr, or add --clip-norm 1";
    return {};
  }

private:
  bool told_ = false;
};

} // namespace troupe
