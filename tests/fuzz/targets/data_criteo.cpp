// data/criteo.cpp

#include "tests/fuzz/data_reader.hpp"

#include <array>

namespace {

constexpr std::array options{"", "?buckets=10", "?scale=standard"};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return troupe::fuzz::read_file("criteo", options, data, size);
}
