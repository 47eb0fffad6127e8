#include "strategies/scalar_round.hpp"

#include "strategies/require.hpp"

namespace troupe {

ScalarRound::Decision ScalarRound::offer(Key key, uint32_t slice) {
  strategies::require(slice < present_.size(), "sums of no slice");
  Decision decision;
  if (begun_ && key < key_) {
    decision.reason = "of a round that is decided";
    return decision;
  }
  if (!begun_ || key_ < key) {
    begun_ = true;
    key_ = key;
    present_.assign(present_.size(), false);
    missing_ = static_cast<uint32_t>(present_.size());
    decision.begins = true;
  }
  if (present_[slice]) {
    decision.verdict = Verdict::duplicate;
    decision.reason = "the slice's sums are there";
    return decision;
  }
  present_[slice] = true;
  decision.verdict = Verdict::accept;
  decision.complete = --missing_ == 0;
  return decision;
}

void ScalarRound::forget() {
  begun_ = false;
}

} // namespace troupe
