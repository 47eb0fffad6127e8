#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// A message in Protocol Buffers' wire format, field by field.
/// Source: "Encoding", the format's own documentation.
class ProtoMessage {
public:
  ProtoMessage& whole(uint32_t field, uint64_t value);
  ProtoMessage& real(uint32_t field, double value);
  ProtoMessage& real32(uint32_t field, float value);
  ProtoMessage& reals(uint32_t field, const std::vector<double>& values);
  /// Text, bytes, or a message within this one.
  ProtoMessage& text(uint32_t field, std::string_view bytes);
  ProtoMessage& message(uint32_t field, const ProtoMessage& inner) {
    return text(field, inner.bytes());
  }

  const std::string& bytes() const { return bytes_; }

private:
  void number(uint64_t value);
  void key(uint32_t field, uint32_t type);
  void little(uint64_t value, int size);

  std::string bytes_;
};

} // namespace troupe
