#include "kernels/records/tfrecord.hpp"

#include "kernels/base/crc32c.hpp"
#include "kernels/records/byte_stream.hpp"

#include <array>

namespace troupe {

namespace {

constexpr auto again = "copy or write it again";

uint64_t little(std::span<const uint8_t> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i)
    value = value << 8 | bytes[i - 1];
  return value;
}

/// Sums over data that hold sums of their own are stored turned.
uint32_t masked_crc(std::span<const uint8_t> bytes) {
  const auto crc = crc32c(0, bytes.data(), bytes.size());
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

class TfRecordScan : public RecordScan {
public:
  explicit TfRecordScan(const DataFile& file) : stream_(file) {}

  bool next(Record& out) override {
    const auto start = stream_.at();
    std::array<uint8_t, 12> head;
    const auto got = stream_.read(head);
    if (got == 0)
      return false;
    const auto fail = [&](const std::string& what) {
      refuse_record(stream_.path(), start, what, again);
    };
    if (got < head.size())
      fail("the file ends within the header of a record");
    const std::span all{head};
    if (little(all.last(4)) != masked_crc(all.first(8)))
      fail(start == 0 ? "is no TFRecord, or its first record is damaged"
                      : "the length of the record is damaged");
    const auto length = little(all.first(8));
    if (length > longest_record)
      fail("the record claims " + std::to_string(length)
           + " bytes, more than 64 MiB");
    stream_.take(length + tfrecord_check_bytes, bytes_);
    if (bytes_.size() < length + tfrecord_check_bytes)
      fail("the file ends within a record of " + std::to_string(length)
           + " bytes");
    out = {stream_.path(), start + head.size(), bytes_, {}};
    check_tfrecord(out);
    return true;
  }

private:
  ByteStream stream_;
  std::vector<uint8_t> bytes_;
};

} // namespace

void append_tfrecord(std::string_view bytes, std::string& out) {
  const auto add = [&out](uint64_t value, int size) {
    for (int i = 0; i < size; ++i)
      out += static_cast<char>((value >> (8 * i)) & 0xff);
  };
  const auto sum = [](std::string_view text) {
    return masked_crc(
      {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  };
  const auto begin = out.size();
  add(bytes.size(), 8);
  add(sum(std::string_view{out}.substr(begin, 8)), 4);
  out += bytes;
  add(sum(bytes), 4);
}

std::unique_ptr<RecordScan> scan_tfrecord(const DataFile& file) {
  return std::make_unique<TfRecordScan>(file);
}

void check_tfrecord(Record& record) {
  const auto bytes =
    record.bytes.first(record.bytes.size() - tfrecord_check_bytes);
  if (little(record.bytes.last(tfrecord_check_bytes)) != masked_crc(bytes))
    record.refuse("the record is damaged: its checksum is another", again);
  record.bytes = bytes;
}

} // namespace troupe
