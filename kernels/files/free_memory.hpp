#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace troupe {

/// Bytes that this process may still take: what the machine has to give, and
/// at most what its control group and its limit on addresses leave.
uint64_t free_memory();

/// Errors: InputError "WHAT takes 17.2 GiB of memory and 3.1 GiB are free;
/// ADVICE", where that many bytes are not free.
void need_memory(uint64_t bytes, const std::string& what,
                 const std::string& advice);

/// Makes room for `more` values behind those that a vector has, and at least
/// doubles it. Memory is looked at before it is taken: a file that inflates
/// without end is refused with a line.
/// Errors: InputError naming `path`.
template <class Vector>
void make_room(Vector& values, size_t more, const std::string& path) {
  if (values.capacity() - values.size() >= more)
    return;
  const auto count = std::max(values.size() + more, 2 * values.capacity());
  need_memory(count * sizeof(typename Vector::value_type),
              path + ": holds so much that reading on", "take a part of it");
  values.reserve(count);
}

} // namespace troupe
