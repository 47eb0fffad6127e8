// A file of weights.

#include "kernels/files/safetensors.hpp"

#include "tests/fuzz/input.hpp"

using namespace troupe;
using troupe::fuzz::holds;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::Scratch scratch;
  const auto path = scratch.put("w.safetensors",
                                fuzz::Input{data, size}.rest());
  SafetensorsFile file;
  if (!fuzz::accepted([&] { file = read_safetensors(path); }))
    return 0;
  for (const auto& tensor : file.tensors) {
    uint64_t elements = 1;
    for (auto extent : tensor.shape)
      elements *= extent;
    holds(elements == tensor.values.size(), "values are those of the shape");
  }
  const auto copy = scratch.folder() + "/copy.safetensors";
  write_safetensors(copy, file.tensors, file.metadata);
  const auto again = read_safetensors(copy);
  holds(tensors_sha256(again.tensors) == tensors_sha256(file.tensors)
          && again.metadata == file.metadata,
        "what was read can be written");
  return 0;
}
