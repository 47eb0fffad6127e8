#include "actors/journal/role_text.hpp"

#include "kernels/base/error.hpp"

#include <charconv>

namespace troupe {

RoleId role_from_text(const std::string& text) {
  if (text == "coordinator")
    return {RoleKind::coordinator, 0};
  for (auto kind : {RoleKind::worker, RoleKind::shard, RoleKind::evaluator,
                    RoleKind::stage, RoleKind::tensor, RoleKind::reader}) {
    auto prefix = to_string(RoleId{kind, 0});
    prefix.pop_back(); // the index
    if (!text.starts_with(prefix))
      continue;
    RoleId role{kind, 0};
    const auto* end = text.data() + text.size();
    const auto [stop, failure] = std::from_chars(text.data() + prefix.size(),
                                                 end, role.index);
    if (failure == std::errc{} && stop == end)
      return role;
  }
  throw InputError("'" + text + "' is no role");
}

} // namespace troupe
