#include "strategies/first_links.hpp"

namespace troupe {

FirstLinks::Verdict FirstLinks::lost(RoleId role, const std::string& reason,
                                     uint64_t now_ms) {
  auto& known = known_[role];
  known.reason = reason;
  if (++known.attempts == 1)
    known.since_ms = now_ms;
  Verdict out;
  if (known.attempts == 1)
    out.note = to_string(role) + ": " + reason;
  if (known.attempts < options_.attempts
      || now_ms < known.since_ms + options_.patience_ms)
    return out;
  out.fail = "roles do not reach one another, so no step can be made";
  for (const auto& [who, what] : known_)
    out.fail += "; " + to_string(who) + ": " + what.reason;
  out.fail += ": start whoever is not reached with --listen HOST:PORT, an "
              "address that the others have a way to";
  return out;
}

} // namespace troupe
