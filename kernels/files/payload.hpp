#pragma once

#include "kernels/files/byte_source.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace troupe {

/// What follows a file's header, with what keeps it in memory.
struct Payload {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

/// Takes the rest of a file, which has to be `size` bytes: a plain file is
/// mapped, a compressed one inflated, one elsewhere read. `source` stands
/// behind the header of `header_bytes`; no more is allocated than twice what
/// has come out. Errors: InputError (shorter or longer than that).
Payload read_payload(const DataFile& file, ByteSource& source,
                     uint64_t header_bytes, uint64_t size);

} // namespace troupe
