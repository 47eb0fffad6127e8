// data/libsvm.cpp

#include "tests/fuzz/data_reader.hpp"

#include <array>

namespace {

constexpr std::array options{"", "?base=1", "?base=0&ids=5"};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return troupe::fuzz::read_file("libsvm", options, data, size);
}
