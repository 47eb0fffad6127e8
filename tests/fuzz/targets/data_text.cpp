// data/text.cpp

#include "tests/fuzz/data_reader.hpp"

#include <array>

namespace {

constexpr std::array options{"", "?level=byte"};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return troupe::fuzz::read_file("text", options, data, size);
}
