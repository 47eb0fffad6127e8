#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// Packs bytes that go over a wire or onto a disk once: quickly (zstd, level
/// 1).
std::string packed(std::string_view bytes);
/// What packed() has packed; nothing: it is damaged, or of more than `most`
/// bytes.
std::optional<std::string> unpacked(std::string_view bytes, size_t most);

} // namespace troupe
