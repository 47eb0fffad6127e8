#include "strategies/sign_pace.hpp"

#include <algorithm>

namespace troupe {

uint64_t sign_period_ms(size_t members, uint64_t loss_ms) {
  constexpr uint64_t second_ms = 1'000;
  const auto shared = (members * second_ms + max_signs_a_second - 1)
                      / max_signs_a_second;
  const auto most = std::max(usual_sign_ms, loss_ms / signs_before_loss);
  return std::clamp(shared, usual_sign_ms, most);
}

} // namespace troupe
