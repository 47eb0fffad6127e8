// data/npy.cpp: features and labels are one array each.
//   way, length of the features (2 bytes), they, the labels

#include "tests/fuzz/data_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const troupe::fuzz::Scratch scratch;
  troupe::fuzz::Input input{data, size};
  const auto way = input.byte();
  const std::string ending = way % 2 == 0 ? ".npy" : ".npy.gz";
  const auto features = input.take(input.number(2));
  const auto x = scratch.put("x" + ending, features);
  const auto y = scratch.put("y" + ending, input.rest());
  troupe::fuzz::read_data("npy:" + x + "?labels=" + y
                          + (way & 2 ? "&task=regression" : "")
                          + (way & 4 ? "&scale=standard" : ""));
  return 0;
}
