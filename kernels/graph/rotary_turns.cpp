#include "kernels/graph/rotary_turns.hpp"

#include "kernels/numbers/natural_exp.hpp"
#include "kernels/numbers/natural_log.hpp"

namespace troupe::kernels {

std::vector<float> rotary_turns(const OpAttributes& attributes, size_t head,
                                size_t length) {
  const auto half = head / 2;
  const auto log_base = natural_log(attributes.base);
  std::vector<double> frequencies;
  for (size_t i = 0; i < half; ++i)
    frequencies.push_back(natural_exp(-static_cast<double>(2 * i)
                                      / static_cast<double>(head) * log_base));
  std::vector<float> turns(length * head);
  for (size_t p = 0; p < length; ++p)
    for (size_t i = 0; i < half; ++i) {
      const auto point = at_angle(static_cast<double>(p) * frequencies[i]);
      turns[p * head + i] = static_cast<float>(point.cosine);
      turns[p * head + half + i] = static_cast<float>(point.sine);
    }
  return turns;
}

} // namespace troupe::kernels
