#include "apps/tensorboard/message.hpp"

#include <bit>

namespace troupe {
namespace {

/// Wire types.
constexpr uint32_t varint = 0, eight_bytes = 1, length = 2, four_bytes = 5;

} // namespace

void ProtoMessage::number(uint64_t value) {
  for (; value > 0x7f; value >>= 7)
    bytes_ += static_cast<char>((value & 0x7f) | 0x80);
  bytes_ += static_cast<char>(value);
}

void ProtoMessage::key(uint32_t field, uint32_t type) {
  number((uint64_t{field} << 3) | type);
}

void ProtoMessage::little(uint64_t value, int size) {
  for (int i = 0; i < size; ++i)
    bytes_ += static_cast<char>((value >> (8 * i)) & 0xff);
}

ProtoMessage& ProtoMessage::whole(uint32_t field, uint64_t value) {
  key(field, varint);
  number(value);
  return *this;
}

ProtoMessage& ProtoMessage::real(uint32_t field, double value) {
  key(field, eight_bytes);
  little(std::bit_cast<uint64_t>(value), 8);
  return *this;
}

ProtoMessage& ProtoMessage::real32(uint32_t field, float value) {
  key(field, four_bytes);
  little(std::bit_cast<uint32_t>(value), 4);
  return *this;
}

/// Packed.
ProtoMessage& ProtoMessage::reals(uint32_t field,
                                  const std::vector<double>& values) {
  key(field, length);
  number(8 * values.size());
  for (const auto value : values)
    little(std::bit_cast<uint64_t>(value), 8);
  return *this;
}

ProtoMessage& ProtoMessage::text(uint32_t field, std::string_view bytes) {
  key(field, length);
  number(bytes.size());
  bytes_ += bytes;
  return *this;
}

} // namespace troupe
