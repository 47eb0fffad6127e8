#pragma once

#include "actors/page/job_watch.hpp"
#include "actors/page/page_feed.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <vector>

namespace troupe {

/// Roles beyond are counted and not shown.
inline constexpr size_t max_shown_roles = 512;

/// What a job does, as its page reads it: the fields of JobView by their names,
/// and `roles`, each the fields of its RoleView with `host`, `present` and
/// `silent_ms`, `missed_signs` of its member. Members of which there are no
/// metrics are roles, too. What nobody knows is null.
nlohmann::ordered_json job_json(const JobView& job,
                                const std::vector<PageMember>& members);

} // namespace troupe
