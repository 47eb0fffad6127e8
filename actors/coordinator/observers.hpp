#pragma once

#include "actors/wire/interfaces.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// What observers are told when a coordinator goes on from a journal.
inline std::string back_line(uint64_t term) {
  return "the coordinator is back, its term is " + std::to_string(term);
}

/// Who watches a run and is told how it goes. Owner: the coordinator's actor.
class Observers {
public:
  explicit Observers(coordinator_actor::pointer self) : self_(self) {}

  void add(const observer_actor& who) { all_.push_back(who); }
  void drop(const caf::strong_actor_ptr& who) {
    std::erase_if(all_, [&](const observer_actor& x) {
      return caf::actor_cast<caf::strong_actor_ptr>(x) == who;
    });
  }
  bool empty() const { return all_.empty(); }
  template <class Message>
  void tell(const Message& message) const {
    for (const auto& observer : all_)
      self_->send(observer, message);
  }

private:
  coordinator_actor::pointer self_;
  std::vector<observer_actor> all_;
};

} // namespace troupe
