#include "kernels/records/byte_stream.hpp"

#include "kernels/base/error.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {

namespace {

constexpr size_t buffer_bytes = size_t{1} << 18;

} // namespace

ByteStream::ByteStream(const DataFile& file)
  : path_(file.name()), source_(open_bytes(file)), buffer_(buffer_bytes) {
  fill();
  const std::string_view start{reinterpret_cast<const char*>(buffer_.data()),
                               end_};
  if (const auto why = unnamed_packing(path_, start); !why.empty())
    throw InputError(path_ + ": " + why);
}

bool ByteStream::fill() {
  begin_ = 0;
  end_ = source_->read(std::as_writable_bytes(std::span{buffer_}));
  return end_ > 0;
}

size_t ByteStream::read(std::span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size() && (begin_ < end_ || fill())) {
    const auto count = std::min(out.size() - done, end_ - begin_);
    std::memcpy(out.data() + done, buffer_.data() + begin_, count);
    begin_ += count;
    done += count;
  }
  at_ += done;
  return done;
}

void ByteStream::take(uint64_t count, std::vector<uint8_t>& out) {
  out.clear();
  while (out.size() < count) {
    const auto have = out.size();
    const auto step = std::min<uint64_t>(count - have, buffer_bytes);
    out.resize(have + step);
    const auto got = read(std::span{out}.subspan(have));
    if (got < step) {
      out.resize(have + got);
      return;
    }
  }
}

bool ByteStream::skip(uint64_t count) {
  while (count > 0 && (begin_ < end_ || fill())) {
    const auto step = std::min<uint64_t>(count, end_ - begin_);
    begin_ += step;
    at_ += step;
    count -= step;
  }
  return count == 0;
}

void refuse_record(const std::string& path, uint64_t at,
                   const std::string& what, const std::string& advice) {
  throw InputError(path + ": byte " + std::to_string(at) + ": " + what + "; "
                   + advice);
}

} // namespace troupe
