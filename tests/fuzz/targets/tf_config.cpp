// The environment variable TF_CONFIG.

#include "apps/settings/tf_config.hpp"

#include "tests/fuzz/input.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::accepted([&] {
    const auto config = parse_tf_config(fuzz::Input{data, size}.text());
    if (config.task)
      config.address_of(*config.task);
  });
  return 0;
}
