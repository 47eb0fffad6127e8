#include "kernels/data/markov_text.hpp"

#include "kernels/files/free_memory.hpp"
#include "kernels/numbers/natural_log.hpp"
#include "kernels/numbers/random.hpp"

#include <array>

namespace troupe {

namespace {

using kernels::random_bits;
using kernels::stream_key;

constexpr uint64_t characters = 27;
constexpr uint64_t draws = 0x74657874; // streams: what is drawn,
constexpr uint64_t rules = 0x72756c65; // what may follow
constexpr std::array<uint32_t, 4> sixteenths{8, 4, 3, 1};

/// The `choice`th of the four that may follow: all differ, for 27 divides no
/// multiple of a step below 27 that is no multiple of 3 but the 27th.
int32_t follower(int32_t before, int32_t last, uint64_t choice) {
  const auto context = static_cast<uint64_t>(before) * characters
                       + static_cast<uint64_t>(last);
  const auto bits = random_bits(stream_key(0, rules), context);
  const auto first = (bits & 0xffff) % characters;
  const auto step = 1 + 3 * ((bits >> 16 & 0xffff) % 9) + (bits >> 63);
  return static_cast<int32_t>((first + choice * step) % characters);
}

} // namespace

Dataset synthetic_text(uint64_t count, uint64_t seed) {
  Dataset result;
  result.name = "synthetic:text";
  result.shape.label = LabelKind::tokens;
  result.shape.vocabulary = characters;
  make_room(result.tokens, count, result.name);
  result.tokens.resize(count);
  const auto key = stream_key(seed, draws);
  int32_t before = 0;
  int32_t last = 0;
  for (uint64_t i = 0; i < count; ++i) {
    auto lot = static_cast<uint32_t>(random_bits(key, i) >> 60);
    uint64_t choice = 0;
    for (; lot >= sixteenths[choice]; ++choice)
      lot -= sixteenths[choice];
    const auto next = follower(before, last, choice);
    result.tokens[i] = next;
    before = last;
    last = next;
  }
  return result;
}

double best_text_loss() {
  double result = 0;
  for (auto share : sixteenths)
    result -= share / 16.0 * kernels::natural_log(share / 16.0);
  return result;
}

} // namespace troupe
