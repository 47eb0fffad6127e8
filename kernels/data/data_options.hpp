#pragma once

#include "kernels/data/data_spec.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

// For the readers: options of a specification, with their checks.

namespace troupe {

using Words = std::span<const char* const>;
bool contains(Words words, std::string_view word);
std::string listed(Words words); ///< "a, b, c"

/// Throws UsageError `data "SPEC": what`.
[[noreturn]] void refuse(const DataSpec& spec, const std::string& what);

std::optional<std::string> option(const DataSpec& spec, std::string_view key);

/// Errors: UsageError when the value is not a whole number of that range.
uint64_t whole_option(const DataSpec& spec, std::string_view key,
                      uint64_t otherwise, uint64_t lowest, uint64_t highest);

/// The first of `choices` where the key is not given.
/// Errors: UsageError when the value is none of them.
std::string choice_option(const DataSpec& spec, std::string_view key,
                          Words choices);

[[noreturn]] void refuse_held(const DataSpec& spec, uint64_t memory);
/// Errors: InputError where what is held of data that are read whole is more
/// than may be, if there is a limit.
inline void check_held(const DataSpec& spec, uint64_t bytes,
                       const std::optional<uint64_t>& memory) {
  if (memory && bytes > *memory)
    refuse_held(spec, *memory);
}

} // namespace troupe
