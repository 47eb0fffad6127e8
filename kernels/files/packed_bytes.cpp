#include "kernels/files/packed_bytes.hpp"

#include <zstd.h>

#include <new>

namespace troupe {

std::string packed(std::string_view bytes) {
  constexpr int quick = 1;
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const auto size = ZSTD_compress(out.data(), out.size(), bytes.data(),
                                  bytes.size(), quick);
  if (ZSTD_isError(size) != 0) // there is room for all that may come out
    throw std::bad_alloc{};
  out.resize(size);
  return out;
}

std::optional<std::string> unpacked(std::string_view bytes, size_t most) {
  const auto size = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  if (size > most) // also where it is not known, or this is no frame
    return std::nullopt;
  std::string out(static_cast<size_t>(size), '\0');
  const auto done = ZSTD_decompress(out.data(), out.size(), bytes.data(),
                                    bytes.size());
  if (ZSTD_isError(done) != 0 || done != out.size())
    return std::nullopt;
  return out;
}

} // namespace troupe
