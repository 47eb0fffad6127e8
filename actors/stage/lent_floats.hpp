#pragma once

#include "actors/links/link_memory.hpp"
#include "actors/role/context.hpp"
#include "kernels/base/buffer.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>

namespace troupe {

/// Memory for what a role is going to send: where peers on the same host read
/// it in place, as long as there is some; else the role's own.
/// Shape: float [count], aligned to 64 bytes.
inline std::shared_ptr<float> lent_floats(const RoleContext& context,
                                          size_t count) {
  if (const auto memory = context.memory())
    if (auto lent = memory->take(count))
      return lent;
  auto own = std::make_shared<Buffer>(std::max<size_t>(1, count));
  return {own, own->data()};
}

} // namespace troupe
