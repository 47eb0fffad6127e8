#pragma once

#include "actors/collectives/stream_party.hpp"
#include "actors/collectives/stream_work.hpp"

#include <vector>

namespace troupe {

/// Tells all that this member has the whole result, and waits for the same
/// from them.
class Confirmation : public StreamWork {
public:
  explicit Confirmation(StreamParty& party);

  void ready() override {}
  bool pump() override;
  bool complete() const override;

private:
  bool pump(uint32_t peer);

  StreamParty& party_;
  std::vector<bool> told_;
  std::vector<bool> heard_;
};

} // namespace troupe
