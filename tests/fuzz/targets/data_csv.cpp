// data/csv.cpp

#include "tests/fuzz/data_reader.hpp"

#include <array>

namespace {

constexpr std::array options{"", "?header=false", "?scale=standard",
                             "?task=regression", "?label=0&sep=;"};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return troupe::fuzz::read_file("csv", options, data, size);
}
