#pragma once

#include "actors/sockets/descriptor.hpp"
#include "kernels/files/file_pages.hpp"
#include "kernels/files/free_memory.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace troupe {

/// Says what is kept of a role in a file, as an agent brings it to its launcher
/// (agent_link.hpp): how many bytes there are, each part, and that this was
/// all. What nobody has written takes none. A file that cannot be read has
/// nothing.
void bring_memory(
  const std::string& role, const std::string& path,
  const std::function<void(const nlohmann::json& message)>& report);

/// Room here for all that hosts bring at one time. What has come is no longer
/// free, so only what is still to come counts. Thread-safe.
class BroughtRoom {
public:
  /// `left`: the bytes that are free.
  explicit BroughtRoom(std::function<uint64_t()> left = free_memory);

  /// So many more are to come.
  /// Errors: NoRoomError: with all others they do not fit; they do not
  /// count.
  void expect(uint64_t bytes);
  /// Errors: NoRoomError: what is to come fits no longer.
  void check() const;
  /// So many have come, or will not.
  void release(uint64_t bytes);
  /// Something is brought, from the first of these calls to the second.
  void begin();
  void end();
  /// Whether it was not said yet, as long as something is brought, that there
  /// is none.
  bool is_news();

private:
  void need(uint64_t bytes) const;

  const std::function<uint64_t()> left_;
  mutable std::mutex mutex_;
  uint64_t to_come_ = 0;
  size_t brought_ = 0; ///< so many have begun
  bool told_ = false;
};

/// What is kept of a role on another host, as it comes to this one.
class BroughtMemory {
public:
  explicit BroughtMemory(std::shared_ptr<BroughtRoom> room);
  ~BroughtMemory();
  BroughtMemory(BroughtMemory&& other) noexcept;
  BroughtMemory& operator=(BroughtMemory&& other) noexcept;

  /// That many bytes are to come.
  /// Errors: NoRoomError.
  void expect(uint64_t bytes);
  /// `text`: bytes, in_base64().
  /// Errors: InputError: it is damaged, or more than was to come;
  /// NoRoomError.
  void add(uint64_t at, const std::string& text);
  /// There was something to come, and all of it has.
  bool is_whole() const { return file_ && missing_ == 0; }
  /// Where a process of this machine may open it.
  std::string path() const;

private:
  std::shared_ptr<BroughtRoom> room_;
  Descriptor file_;
  uint64_t missing_ = 0;
  uint64_t most_taken_ = 0; ///< of memory
};

} // namespace troupe
