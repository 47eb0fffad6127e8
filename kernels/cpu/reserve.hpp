#pragma once

#include "kernels/base/buffer.hpp"

namespace troupe::kernels {

/// Makes a buffer at least so long; what it held is lost then.
inline void reserve(Buffer& buffer, size_t count) {
  if (buffer.size() < count)
    buffer = Buffer(count);
}

} // namespace troupe::kernels
