#pragma once

#include "actors/wire/interfaces.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace troupe {

struct Said { ///< something, by someone
  caf::strong_actor_ptr sender;
  caf::message message;
};

/// What makes those behind a control line known to a coordinator, and what they
/// have said for good (a wish to end, a role given up), so that the next one
/// must hear it too.
class Introductions {
public:
  void remember(const Said& said) {
    if (said.message.match_elements<Detach>())
      std::erase_if(said_,
                    [&](const Said& x) { return x.sender == said.sender; });
    if (!introduces(said.message))
      return;
    std::erase_if(said_, [&](const Said& x) {
      return x.sender == said.sender
             && x.message.types() == said.message.types();
    });
    said_.push_back(said);
  }
  const std::vector<Said>& all() const { return said_; }

  /// A role's request to join; null: it has not made any.
  const Said* join() const {
    const auto found = std::ranges::find_if(said_, [](const Said& x) {
      return x.message.match_elements<Join>();
    });
    return found == said_.end() ? nullptr : &*found;
  }
  uint64_t incarnation() const {
    const auto* said = join();
    return said == nullptr ? 0 : said->message.get_as<Join>(0).incarnation;
  }
  /// The role joins under that number from here on.
  void joins_as(uint64_t incarnation) {
    for (auto& said : said_)
      if (said.message.match_elements<Join>()) {
        auto join = said.message.get_as<Join>(0);
        join.incarnation = incarnation;
        said.message = caf::make_message(std::move(join));
      }
  }

private:
  static bool introduces(const caf::message& x) {
    return x.match_elements<Join>() || x.match_elements<Attach>()
           || x.match_elements<StopRequest>() || x.match_elements<GiveUp>();
  }

  std::vector<Said> said_;
};

} // namespace troupe
