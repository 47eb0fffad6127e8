#pragma once

#include "actors/certificates/credentials.hpp"
#include "strategies/fault_kind.hpp"
#include "strategies/step_phase.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// A fault that is asked for: of `role`, in the first of `phases`; where it
/// dies, of its replacement in the second, and so on.
struct FaultWish {
  RoleId role;
  std::vector<StepPhase> phases;
  uint32_t after = 0; ///< so often the role passes the first phase unharmed
  FaultKind kind = FaultKind::kill;
  uint32_t amount = 0; ///< as InjectFault
};

struct FaultAnswer {
  enum class Kind {
    done,     ///< it happened there, and the job is whole again
    refused,  ///< it cannot come to that phase now
    not_seen, ///< it did not come to that phase in time
    over,     ///< there is no job any more
    cut_off,  ///< nobody knows: the coordinator is gone, another will follow
  };
  Kind kind = Kind::over;
  std::string line;
};

/// Puts faults into a running job from outside, by way of its coordinator.
class FaultInjector {
public:
  /// Errors: InputError where nobody answers at `coordinator`, HOST:PORT.
  FaultInjector(const std::string& coordinator,
                const CertificateSource& certificates);
  ~FaultInjector();

  /// Asks for all of them at once and waits for what becomes of each.
  std::vector<FaultAnswer> inject(const std::vector<FaultWish>& wishes,
                                  std::chrono::milliseconds deadline);
  /// Waits until so many steps are committed. Returns how many are; fewer than
  /// `step` only when the job is over.
  uint64_t wait_for_step(uint64_t step, std::chrono::milliseconds deadline);

private:
  class Session;
  std::unique_ptr<Session> session_;
};

} // namespace troupe
