#include "actors/collectives/confirmation.hpp"

#include <algorithm>

namespace troupe {

Confirmation::Confirmation(StreamParty& party)
  : party_(party), told_(party.size(), false), heard_(party.size(), false) {
  told_[party.rank()] = heard_[party.rank()] = true;
}

bool Confirmation::pump() {
  bool moved = false;
  for (uint32_t peer = 0; peer < party_.size() && !party_.failed(); ++peer)
    if (peer != party_.rank())
      moved = pump(peer) || moved;
  return moved;
}

bool Confirmation::pump(uint32_t peer) {
  auto& stream = party_.stream(peer);
  bool moved = stream.push();
  if (!told_[peer] && stream.free()) {
    party_.post(peer, party_.header(FrameKind::whole), nullptr, 0);
    told_[peer] = true;
    stream.push();
    moved = true;
  }
  stream.wanted = !heard_[peer];
  if (heard_[peer] || !party_.pull(peer) || !stream.announced())
    return moved;
  if (!party_.expect(peer, party_.header(FrameKind::whole)))
    return true;
  stream.accept(nullptr);
  stream.release();
  heard_[peer] = true;
  return true;
}

bool Confirmation::complete() const {
  for (uint32_t peer = 0; peer < party_.size(); ++peer)
    if (peer != party_.rank()
        && (!told_[peer] || !heard_[peer] || !party_.stream(peer).free()))
      return false;
  return true;
}

} // namespace troupe
