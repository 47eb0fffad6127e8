#pragma once

#include "actors/links/link_memory.hpp"
#include "actors/wire/messages.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>

namespace troupe {

/// The links of a simulated process: streams in order, with a delay, that
/// break.
class MessageLinks {
public:
  explicit MessageLinks(uint32_t process) : process_(process) {}

  std::shared_ptr<LinkMemory> memory() const { return nullptr; }

  void keep_only(const std::set<std::string>& peers) {
    sim::Runtime::get().keep_links(process_, peers);
  }

  struct Terms {};
  struct Request {
    Fence fence;
    std::string name;
    std::string endpoint; ///< number of the peer's process
    std::string from;
    std::string to;
    Terms terms;
    caf::strong_actor_ptr target;
    std::chrono::steady_clock::time_point deadline;
  };
  void connect(
    Request request,
    std::function<void(caf::strong_actor_ptr peer, const std::string& error)>
      done) {
    const auto wanted = std::move(request);
    sim::Runtime::get().link(
      process_, static_cast<uint32_t>(std::stoul(wanted.endpoint)),
      wanted.target.id,
      [done = std::move(done)](sim::Address peer, const std::string& why) {
        done({{peer}}, why);
      });
  }

private:
  uint32_t process_;
};

} // namespace troupe
