// An index of weights in several files, as Hugging Face's.

#include "kernels/files/safetensors.hpp"
#include "tests/fuzz/input.hpp"

using namespace troupe;
using troupe::fuzz::holds;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::Scratch scratch;
  [[maybe_unused]] static const bool prepared = [] {
    for (const auto* name : {"a", "b"})
      write_safetensors(scratch.folder() + '/' + name + ".safetensors",
                        {{name, {2}, {1, 2}}}, {});
    return true;
  }();
  const auto path = scratch.put("w.index.json", fuzz::Input{data, size}.rest());
  SafetensorsFile file;
  if (!fuzz::accepted([&] { file = read_safetensors(path); }))
    return 0;
  for (const auto& tensor : file.tensors)
    holds(tensor.name == "a" || tensor.name == "b",
          "tensors are those of the folder's files");
  holds(read_safetensors_shapes(path).size() == file.tensors.size(),
        "as many shapes as tensors");
  return 0;
}
