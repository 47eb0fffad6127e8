#include "kernels/files/byte_source.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/input_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>

namespace troupe {

namespace {

class PlainBytes : public ByteSource {
public:
  explicit PlainBytes(const std::string& path) : file_(path) {}
  size_t read(std::span<std::byte> out) override { return file_.read(out); }
  uint64_t most() const override { return file_.size(); }

private:
  InputFile file_;
};

/// Inflates a gzip file of one or more members.
class GzipBytes : public ByteSource {
public:
  explicit GzipBytes(const std::string& path) : file_(path) {
    constexpr int gzip_only = 16;
    if (inflateInit2(&stream_, MAX_WBITS + gzip_only) != Z_OK)
      throw std::bad_alloc{};
  }

  ~GzipBytes() override { inflateEnd(&stream_); }

  GzipBytes(const GzipBytes&) = delete;
  GzipBytes& operator=(const GzipBytes&) = delete;

  uint64_t most() const override {
    // Deflate's best: 258 bytes from two bits.
    constexpr uint64_t best_ratio = 1032;
    return file_.size() * best_ratio;
  }

  size_t read(std::span<std::byte> out) override {
    constexpr size_t max_per_call = size_t{1} << 30;
    size_t done = 0;
    while (done < out.size() && more_input()) {
      const auto room = std::min(out.size() - done, max_per_call);
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + done);
      stream_.avail_out = static_cast<uInt>(room);
      const int code = inflate(&stream_, Z_NO_FLUSH);
      done += room - stream_.avail_out;
      between_members_ = code == Z_STREAM_END;
      if (code != Z_OK && code != Z_STREAM_END)
        refuse(complaint());
      if (between_members_) {
        inflateReset(&stream_);
        ++members_;
      }
    }
    return done;
  }

private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError(file_.path() + ": " + what
                     + "; copy or download it again");
  }

  /// False at the end, which has to be that of a member.
  bool more_input() {
    if (stream_.avail_in > 0)
      return true;
    const auto got = file_.read(std::as_writable_bytes(std::span{input_}));
    stream_.next_in = input_.data();
    stream_.avail_in = static_cast<uInt>(got);
    if (got == 0 && !between_members_)
      refuse("its gzip stream ends too early");
    return got > 0;
  }

  const char* complaint() const {
    constexpr uLong header_bytes = 10;
    if (stream_.total_in > header_bytes)
      return "its gzip stream is damaged";
    return members_ == 0 ? "is not a gzip stream"
                         : "something follows its gzip stream";
  }

  InputFile file_;
  z_stream stream_{};
  std::array<Bytef, 65536> input_;
  uint64_t members_ = 0;
  bool between_members_ = false;
};

} // namespace

bool is_gzip_name(const std::string& path) {
  return path.ends_with(".gz");
}

std::unique_ptr<ByteSource> open_bytes(const std::string& path) {
  if (is_gzip_name(path))
    return std::make_unique<GzipBytes>(path);
  return std::make_unique<PlainBytes>(path);
}

} // namespace troupe
