#include "actors/control/metrics_guard.hpp"

#include "actors/certificates/metrics_token.hpp"
#include "actors/links/tls_page.hpp"
#include "actors/sockets/door_budget.hpp"

#include <utility>

namespace troupe {

PageGuard metrics_guard() {
  PageGuard out;
  out.rests_until =
    [budget = std::make_shared<DoorBudget>()](DoorBudget::Cost cost) {
      const auto now = DoorBudget::Clock::now();
      budget->turn_away(cost, now);
      return budget->rests_until(now);
    };
  return out;
}

PageGuard metrics_guard(std::shared_ptr<const TlsContext> tls,
                        const std::string& token_file) {
  auto out = metrics_guard();
  out.open = [tls = std::move(tls)](int socket) {
    return serve_page(*tls, socket);
  };
  out.token = keep_metrics_token(token_file);
  return out;
}

} // namespace troupe
