#pragma once

#include "actors/sockets/descriptor.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <string>

namespace troupe {

/// Says what is kept of a role in a file, as an agent brings it to its launcher
/// (agent_link.hpp): how many bytes there are, each part, and that this was
/// all. What nobody has written takes none. A file that cannot be read has
/// nothing.
void bring_memory(
  const std::string& role, const std::string& path,
  const std::function<void(const nlohmann::json& message)>& report);

/// What is kept of a role on another host, as it comes to this one.
class BroughtMemory {
public:
  /// That many bytes are to come.
  /// Errors: InputError: there is no room for them here.
  void expect(uint64_t bytes);
  /// `text`: bytes, in_base64().
  /// Errors: InputError: it is damaged, more than was to come, or has no room.
  void add(uint64_t at, const std::string& text);
  /// There was something to come, and all of it has.
  bool is_whole() const { return file_ && missing_ == 0; }
  /// Where a process of this machine may open it.
  std::string path() const;

private:
  Descriptor file_;
  uint64_t missing_ = 0;
  uint64_t most_taken_ = 0; ///< of memory
};

} // namespace troupe
