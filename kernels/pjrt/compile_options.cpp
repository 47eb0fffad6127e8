#include "kernels/pjrt/client.hpp"

#include <cstdint>

namespace troupe::kernels::pjrt {

namespace {

/// Writes protocol buffers' wire format: numbers and embedded messages.
class Message {
public:
  Message& number(uint32_t field, uint64_t value) {
    varint(field << 3);
    varint(value);
    return *this;
  }
  Message& message(uint32_t field, const Message& inner) {
    varint(field << 3 | 2);
    varint(inner.bytes_.size());
    bytes_ += inner.bytes_;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

} // namespace

std::string compile_options(const std::vector<int>& device_numbers) {
  Message devices;
  for (auto number : device_numbers)
    devices.number(1, static_cast<uint64_t>(int64_t{number}));
  const auto replicas = device_numbers.size();
  const auto assignment =
    Message{}.number(1, replicas).number(2, 1).message(3, devices);
  // 1: no device's ordinal is asked for; 4, 5: replicas, partitions.
  const auto build = Message{}
                       .number(1, ~uint64_t{0})
                       .number(4, replicas)
                       .number(5, 1)
                       .message(9, assignment);
  return Message{}.message(3, build).bytes();
}

} // namespace troupe::kernels::pjrt
