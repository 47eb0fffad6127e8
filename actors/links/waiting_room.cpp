#include "actors/links/waiting_room.hpp"

namespace troupe {
namespace {

constexpr size_t max_seats = 256;
constexpr auto longest_wait = std::chrono::seconds{60};

} // namespace

WaitingRoom::~WaitingRoom() {
  while (!seats_.empty())
    leave(seats_.begin());
}

void WaitingRoom::add(LinkVisitor visitor) {
  if (seats_.size() >= max_seats)
    leave(seats_.begin());
  auto seat = seats_.insert(seats_.end(), Seat{std::move(visitor), 0});
  auto gone = [this, seat] { leave(seat); };
  seat->timer = loop_.at(IoLoop::Clock::now() + longest_wait, gone);
  seat->visitor.conversation->rest(gone);
}

std::vector<LinkVisitor> WaitingRoom::take(LinkPurpose purpose,
                                           const std::string& name) {
  std::vector<LinkVisitor> result;
  for (auto seat = seats_.begin(); seat != seats_.end();) {
    const auto& hello = seat->visitor.hello;
    auto next = std::next(seat);
    if (hello.purpose == purpose && hello.name == name) {
      loop_.cancel(seat->timer);
      result.push_back(std::move(seat->visitor));
      seats_.erase(seat);
    }
    seat = next;
  }
  return result;
}

void WaitingRoom::leave(Seats::iterator seat) {
  loop_.cancel(seat->timer);
  seats_.erase(seat);
}

} // namespace troupe
