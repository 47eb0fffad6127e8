#pragma once

#include "actors/links/listener.hpp"

#include <list>
#include <string>
#include <vector>

namespace troupe {

/// Members at the door who ask for what this process has not been told to
/// offer yet: at most 256, each for a minute, then the connection is closed.
/// On the loop's thread.
class WaitingRoom {
public:
  explicit WaitingRoom(IoLoop& loop) : loop_(loop) {}
  ~WaitingRoom();
  WaitingRoom(const WaitingRoom&) = delete;
  WaitingRoom& operator=(const WaitingRoom&) = delete;

  /// When it is full, whoever came first has to go.
  void add(LinkVisitor visitor);
  /// Takes those who ask for a name, in the order they came.
  std::vector<LinkVisitor> take(LinkPurpose purpose, const std::string& name);
  size_t size() const { return seats_.size(); }

private:
  struct Seat {
    LinkVisitor visitor;
    uint64_t timer = 0;
  };
  using Seats = std::list<Seat>;

  void leave(Seats::iterator seat);

  IoLoop& loop_;
  Seats seats_;
};

} // namespace troupe
