#include "actors/launch/job_request.hpp"

#include "actors/process/own_process.hpp"
#include "actors/wire/error_line.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/steady_clock.hpp"

#include <algorithm>
#include <thread>

namespace troupe {
namespace {

using Clock = SteadyClock;

constexpr std::chrono::milliseconds rest{50};
/// It is said again: among a hundred who join at once on a busy host, an answer
/// was seen to be lost.
constexpr std::chrono::milliseconds hello_period{5'000};

} // namespace

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
