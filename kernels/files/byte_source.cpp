#include "kernels/files/byte_source.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/input_file.hpp"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <vector>

namespace troupe {

namespace {

/// The bytes as they lie there, before any are unpacked.
class StoredBytes {
public:
  virtual ~StoredBytes() = default;
  /// Returns less than the size of `out` only at the end.
  virtual size_t read(std::span<std::byte> out) = 0;
  virtual uint64_t size() const = 0;
  virtual const std::string& name() const = 0;
};

class LocalBytes : public StoredBytes {
public:
  explicit LocalBytes(const std::string& path) : file_(path) {}
  size_t read(std::span<std::byte> out) override { return file_.read(out); }
  uint64_t size() const override { return file_.size(); }
  const std::string& name() const override { return file_.path(); }

private:
  InputFile file_;
};

/// Takes an object part by part, and says which ones come next.
class DistantBytes : public StoredBytes {
public:
  explicit DistantBytes(const DataFile& file) : file_(file.open()) {}

  uint64_t size() const override { return file_->size(); }
  const std::string& name() const override { return file_->name(); }

  size_t read(std::span<std::byte> out) override {
    size_t done = 0;
    while (done < out.size()) {
      if (at_ == part_.size() && !next_part())
        break;
      const auto count = std::min(out.size() - done, part_.size() - at_);
      std::copy_n(part_.begin() + static_cast<ptrdiff_t>(at_), count,
                  out.begin() + static_cast<ptrdiff_t>(done));
      at_ += count;
      done += count;
    }
    return done;
  }

private:
  static constexpr uint64_t part_bytes = uint64_t{1} << 20;
  static constexpr uint64_t parts_ahead = 8;

  uint64_t length_of(uint64_t part) const {
    const auto begin = part * part_bytes;
    return begin < size() ? std::min(part_bytes, size() - begin) : 0;
  }

  bool next_part() {
    const auto count = length_of(next_);
    if (count == 0)
      return false;
    for (; expected_ < next_ + parts_ahead && length_of(expected_) > 0;
         ++expected_)
      file_->expect(expected_ * part_bytes, length_of(expected_));
    part_.resize(count);
    at_ = 0;
    if (file_->read_at(next_ * part_bytes, part_) < count)
      throw InputError(name() + ": became shorter while it was read; let its "
                       + "writer finish, then try again");
    ++next_;
    return true;
  }

  std::shared_ptr<const OpenedFile> file_;
  std::vector<std::byte> part_;
  size_t at_ = 0;         ///< bytes of the part that were taken
  uint64_t next_ = 0;     ///< part
  uint64_t expected_ = 0; ///< the first that was not announced
};

std::unique_ptr<StoredBytes> stored_bytes(const DataFile& file) {
  if (file.is_elsewhere())
    return std::make_unique<DistantBytes>(file);
  return std::make_unique<LocalBytes>(file.place());
}

/// What comes out at most of so many bytes, each of which stands for `ratio`:
/// a server may say any size.
uint64_t unpacked_at_most(uint64_t bytes, uint64_t ratio) {
  constexpr auto all = std::numeric_limits<uint64_t>::max();
  return bytes > all / ratio ? all : bytes * ratio;
}

class PlainBytes : public ByteSource {
public:
  explicit PlainBytes(const DataFile& file) : file_(stored_bytes(file)) {}
  size_t read(std::span<std::byte> out) override { return file_->read(out); }
  uint64_t most() const override { return file_->size(); }

private:
  std::unique_ptr<StoredBytes> file_;
};

/// Inflates a gzip file of one or more members.
class GzipBytes : public ByteSource {
public:
  explicit GzipBytes(const DataFile& file) : file_(stored_bytes(file)) {
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
    return unpacked_at_most(file_->size(), best_ratio);
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
    throw InputError(file_->name() + ": " + what
                     + "; copy or download it again");
  }

  /// False at the end, which has to be that of a member.
  bool more_input() {
    if (stream_.avail_in > 0)
      return true;
    const auto got = file_->read(std::as_writable_bytes(std::span{input_}));
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

  std::unique_ptr<StoredBytes> file_;
  z_stream stream_{};
  std::array<Bytef, 65536> input_;
  uint64_t members_ = 0;
  bool between_members_ = false;
};

/// Takes a file of zstd's frames apart, one after another.
class ZstdBytes : public ByteSource {
public:
  explicit ZstdBytes(const DataFile& file)
    : file_(stored_bytes(file)), stream_(ZSTD_createDCtx()) {
    // What a frame may make its reader keep; zstd -1 to -19 want 8 MiB.
    constexpr int max_window_log = 26;
    if (stream_ == nullptr
        || ZSTD_isError(
          ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, max_window_log)))
      throw std::bad_alloc{};
  }

  ~ZstdBytes() override { ZSTD_freeDCtx(stream_); }

  ZstdBytes(const ZstdBytes&) = delete;
  ZstdBytes& operator=(const ZstdBytes&) = delete;

  uint64_t most() const override {
    // The best: a block of 128 KiB from the four bytes of a run.
    constexpr uint64_t best_ratio = (1 << 17) / 4;
    return unpacked_at_most(file_->size(), best_ratio);
  }

  size_t read(std::span<std::byte> out) override {
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    // What stays in its buffers comes out before there is more input.
    while (to.pos < to.size && (held_back_ || more_input())) {
      const auto before = to.pos;
      const auto left = ZSTD_decompressStream(stream_, &to, &from_);
      if (ZSTD_isError(left))
        refuse(complaint(left));
      between_frames_ = left == 0;
      ++calls_;
      held_back_ = !between_frames_ && to.pos == to.size && to.pos > before;
    }
    return to.pos;
  }

private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError(file_->name() + ": " + what
                     + "; copy or download it again");
  }

  /// False at the end, which has to be that of a frame.
  bool more_input() {
    if (from_.pos < from_.size)
      return true;
    const auto got = file_->read(std::as_writable_bytes(std::span{input_}));
    from_ = {input_.data(), got, 0};
    if (got == 0 && !between_frames_)
      refuse("its zstd stream ends too early");
    return got > 0;
  }

  std::string complaint(size_t code) const {
    const auto kind = ZSTD_getErrorCode(code);
    if (kind == ZSTD_error_prefix_unknown)
      return calls_ == 0 ? "is not a zstd stream"
                         : "something follows its zstd stream";
    if (kind == ZSTD_error_frameParameter_windowTooLarge)
      return "its zstd stream wants a window above 64 MiB, pack it without "
             "--ultra and --long";
    return "its zstd stream is damaged";
  }

  std::unique_ptr<StoredBytes> file_;
  ZSTD_DCtx* stream_;
  ZSTD_inBuffer from_{};
  std::array<uint8_t, 65536> input_;
  uint64_t calls_ = 0;
  bool between_frames_ = false;
  bool held_back_ = false;
};

} // namespace

bool is_packed_name(const std::string& path) {
  return is_gzip_name(path) || path.ends_with(".zst");
}

std::string unnamed_packing(const std::string& path, std::string_view start) {
  if (is_packed_name(path))
    return {};
  if (start.starts_with("\x1f\x8b"))
    return "is a gzip stream; add .gz to its name";
  if (start.starts_with("\x28\xb5\x2f\xfd"))
    return "is a zstd stream; add .zst to its name";
  return {};
}

bool is_gzip_name(const std::string& path) {
  return path.ends_with(".gz");
}

std::unique_ptr<ByteSource> open_bytes(const DataFile& file) {
  const auto name = file.name(); // a URL's query says nothing of its format
  if (is_gzip_name(name))
    return std::make_unique<GzipBytes>(file);
  if (is_packed_name(name))
    return std::make_unique<ZstdBytes>(file);
  return std::make_unique<PlainBytes>(file);
}

} // namespace troupe
