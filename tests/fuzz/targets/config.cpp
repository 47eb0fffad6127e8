// The file that --config names.

#include "apps/settings/config_file.hpp"
#include "tests/fuzz/input.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::Scratch scratch;
  const auto path = scratch.put("job.toml", fuzz::Input{data, size}.rest());
  fuzz::accepted([&] {
    for (const auto& [flag, value] : read_config(path))
      fuzz::holds(value.where.starts_with(path), "a value has a place");
  });
  return 0;
}
