#pragma once

#include "actors/journal/event.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// How far a run is.
struct PagePoint {
  uint64_t unix_ms = 0;
  uint64_t step = 0;    ///< committed
  uint64_t samples = 0; ///< in committed steps
  double loss = 0;      ///< of the last one
};

/// A role that a job expects.
struct PageMember {
  std::string role;
  std::string host;       ///< where it is reached; empty: on this host alone
  bool present = false;   ///< it takes part
  uint64_t silent_ms = 0; ///< since its last sign of life
  uint64_t missed = 0;    ///< signs of life, that were due since
};

/// What a coordinator tells whoever shows its run. Never blocks for long; any
/// thread.
class PageFeed {
public:
  virtual ~PageFeed() = default;

  virtual void add_line(const std::string& line) = 0;
  virtual void add_point(const PagePoint& point) = 0; ///< at each commit
  virtual void set_members(std::vector<PageMember> members) = 0;
  /// A journal whose events go to `own`, where that is one, and are shown.
  virtual std::shared_ptr<JournalSink>
  shown(std::shared_ptr<JournalSink> own) = 0;
  /// The story of the run so far, as fields of its summary
  /// (RunStory::tell_whole).
  virtual void tell_whole(uint64_t begin_ms,
                          nlohmann::ordered_json& out) const = 0;
};

} // namespace troupe
