// What --model and --data name: kind of the text, then it.
//   0 a model file, JSON; 1 TOML; 2 --model; 3 --data

#include "kernels/graph/model_file.hpp"

#include "kernels/data/data_spec.hpp"
#include "kernels/graph/built_in_models.hpp"
#include "tests/fuzz/input.hpp"

using namespace troupe;
using troupe::fuzz::holds;

namespace {

void check(const ModelSpec& spec) {
  const auto text = to_json(spec, false);
  holds(parse_model_json(text, spec.name) == spec,
        "a model can be written and read");
  build_graph(spec);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input{data, size};
  const auto what = input.byte() % 4;
  const auto text = input.text();
  fuzz::accepted([&] {
    if (what == 0) {
      check(parse_model_json(text, "model.json"));
    } else if (what == 1) {
      check(parse_model_toml(text, "model.toml"));
    } else if (what == 2) {
      if (auto spec = built_in_model(text, {}))
        check(*spec);
    } else {
      const auto spec = parse_data_spec(text);
      holds(parse_data_spec(to_string(spec)) == spec,
            "a specification can be written and read");
    }
  });
  return 0;
}
