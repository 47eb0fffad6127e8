// data/idx.cpp and data/cifar10.cpp.
//   way, length of the labels (1 byte), they, the images; or the records

#include "tests/fuzz/data_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const troupe::fuzz::Scratch scratch;
  troupe::fuzz::Input input{data, size};
  const auto way = input.byte();
  if (way % 3 == 2) {
    scratch.put("test_batch.bin", input.rest());
    troupe::fuzz::read_data("cifar10:" + scratch.folder());
    return 0;
  }
  const std::string ending = way % 3 == 0 ? "" : ".gz";
  std::filesystem::remove(scratch.folder() + "/t10k-images-idx3-ubyte"
                          + (way % 3 == 0 ? ".gz" : ""));
  std::filesystem::remove(scratch.folder() + "/t10k-labels-idx1-ubyte"
                          + (way % 3 == 0 ? ".gz" : ""));
  scratch.put("t10k-labels-idx1-ubyte" + ending, input.take(input.byte()));
  scratch.put("t10k-images-idx3-ubyte" + ending, input.rest());
  troupe::fuzz::read_data("mnist:" + scratch.folder());
  return 0;
}
