#include "actors/launch/job_request.hpp"

#include "actors/links/cable.hpp"
#include "actors/process/own_process.hpp"
#include "actors/sockets/addresses.hpp"
#include "actors/sockets/cut_connections.hpp"
#include "actors/sockets/endpoint.hpp"
#include "actors/wire/error_line.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/steady_clock.hpp"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using Clock = SteadyClock;

constexpr std::chrono::milliseconds rest{50};
/// It is said again: among a hundred who join at once on a busy host, an answer
/// was seen to be lost.
constexpr std::chrono::milliseconds hello_period{5'000};

/// Whether a coordinator may be on another host than this.
bool is_elsewhere(const std::vector<Endpoint>& coordinators) {
  return std::ranges::any_of(coordinators, [](const Endpoint& x) {
    const auto there = SocketAddress::find(x.host, x.port);
    return there && own_address_towards(x.host) != there->host();
  });
}

} // namespace

std::function<void()> hang_up_on(const std::string& coordinator) {
  auto places = parse_endpoints(coordinator);
  if (!is_elsewhere(places))
    return {};
  return [places = std::move(places)] { end_connections(places); };
}

std::function<bool(std::chrono::milliseconds)>
cut_off_from(const std::string& coordinator) {
  auto places = parse_endpoints(coordinator);
  if (!is_elsewhere(places))
    return {};
  return [places = std::move(places)](std::chrono::milliseconds patience) {
    return std::ranges::any_of(connections_to(places), [&](int descriptor) {
      return is_cut(descriptor, patience);
    });
  };
}

JobInfo ask_for_job(caf::scoped_actor& self,
                    const coordinator_actor& coordinator, RoleId role,
                    std::chrono::milliseconds deadline) {
  Hello hello{role};
  const auto own = own_process();
  hello.host = own.host;
  hello.process = own.process;
  const auto end = Clock::now() + deadline;
  for (;;) {
    JobInfo info;
    caf::error refused;
    const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    self->request(coordinator, std::clamp(left, rest, hello_period), hello)
      .receive([&](JobInfo& given) { info = std::move(given); },
               [&](const caf::error& why) { refused = why; });
    if (!refused)
      return info;
    const bool late = refused == caf::sec::request_timeout;
    if ((!late && !asked_is_gone(refused)) || Clock::now() + rest >= end)
      throw InputError(to_string(role)
                       + ": the coordinator refused: " + line_of(refused));
    if (!late)
      std::this_thread::sleep_for(rest);
  }
}

} // namespace troupe
