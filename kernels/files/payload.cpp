#include "kernels/files/payload.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/free_memory.hpp"
#include "kernels/files/input_file.hpp"

#include <algorithm>
#include <vector>

namespace troupe {

namespace {

constexpr uint64_t first_step_bytes = uint64_t{1} << 20;

[[noreturn]] void refuse_payload(const std::string& path,
                                 const std::string& what) {
  throw InputError(path + ": " + what + "; copy or download it again");
}

[[noreturn]] void too_short(const std::string& path, uint64_t whole,
                            const char* detail = "") {
  refuse_payload(path, "is shorter than the " + std::to_string(whole)
                         + " bytes its header announces" + detail);
}

[[noreturn]] void too_long(const std::string& path, uint64_t whole) {
  refuse_payload(path, "is longer than the " + std::to_string(whole)
                         + " bytes its header announces");
}

Payload mapped(const std::string& path, uint64_t header_bytes, uint64_t whole) {
  const InputFile file{path};
  if (file.size() != whole)
    throw InputError(path + ": changed while it was read; try again");
  auto memory = file.map();
  const std::span all{memory.get(), static_cast<size_t>(whole)};
  return {std::move(memory), all.subspan(header_bytes)};
}

} // namespace

Payload read_payload(const DataFile& file, ByteSource& source,
                     uint64_t header_bytes, uint64_t size) {
  const auto path = file.name();
  const auto whole = header_bytes + size;
  if (whole > source.most())
    too_short(path, whole, ", more than such a file can hold");
  if (!is_packed_name(path)) {
    if (whole < source.most())
      too_long(path, whole);
    if (!file.is_elsewhere())
      return mapped(path, header_bytes, whole);
  }
  // A compressed file can claim a lot more than it holds: it gets only as
  // much room again as data has come out already.
  auto result = std::make_shared<std::vector<std::byte>>();
  while (result->size() < size) {
    const uint64_t have = result->size();
    const auto next = std::min(size, std::max(2 * have, first_step_bytes));
    make_room(*result, next - have, path);
    result->resize(next);
    const auto fresh = std::span{*result}.subspan(have);
    if (source.read(fresh) != fresh.size())
      too_short(path, whole);
  }
  std::byte extra;
  if (source.read({&extra, 1}) != 0)
    too_long(path, whole);
  const std::span<const std::byte> bytes{*result};
  return {std::move(result), bytes};
}

} // namespace troupe
