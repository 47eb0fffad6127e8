#pragma once

#include "kernels/collective/reducer.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// A TCP connection over loopback between every two of the processes that are
/// about to be forked.
class LoopbackMesh {
public:
  /// Errors: std::system_error.
  explicit LoopbackMesh(uint32_t members);
  ~LoopbackMesh();
  LoopbackMesh(const LoopbackMesh&) = delete;
  LoopbackMesh& operator=(const LoopbackMesh&) = delete;

  /// In a member's process: closes what is not its own.
  void keep(uint32_t rank);
  /// In the process that forked: closes all.
  void drop();
  /// The descriptor of `rank` that leads to `peer`; not blocking.
  int descriptor(uint32_t rank, uint32_t peer) const;
  /// The descriptor, which is the caller's to close from here on.
  int release(uint32_t rank, uint32_t peer);

  /// Sends `bytes` to the next member, from `data` over and over, while
  /// receiving as many from the one before; plain bytes.
  CollectiveResult stream(uint32_t rank, const std::byte* data, uint64_t size,
                          uint64_t bytes, std::span<std::byte> incoming,
                          Reducer::Deadline deadline);

private:
  int& at(uint32_t rank, uint32_t peer);

  uint32_t members_;
  std::vector<int> descriptors_; ///< [members, members], -1: none
};

} // namespace troupe
