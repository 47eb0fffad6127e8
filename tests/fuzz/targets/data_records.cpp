// data/record_data.cpp: tfrecord, tar, jsonl and an image alone.
//   way: its last bit packs the file, the next whether samples stay in their
//   files, the others choose one of the options below

#include "tests/fuzz/data_reader.hpp"

#include <array>
#include <filesystem>

namespace {

struct Way {
  const char* kind;
  const char* options;
};
constexpr std::array ways{
  Way{"tfrecord", ""},
  Way{"tfrecord", "?features=x,y&label=z&task=regression"},
  Way{"tfrecord", "?features=image&size=3x2"},
  Way{"tar", ""},
  Way{"tar", "?size=2&channels=1"},
  Way{"tar", "?features=bin&label=json"},
  Way{"jsonl", ""},
  Way{"jsonl", "?features=a,b&label=c&task=regression&scale=standard"},
  Way{"images", "?size=4x3"},
  Way{"images", "?size=1&channels=1"},
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const troupe::fuzz::Scratch scratch;
  troupe::fuzz::Input input{data, size};
  const auto choice = input.byte();
  const auto& way = ways[choice / 4 % ways.size()];
  const std::string kind = way.kind;
  std::string place;
  if (kind == "images") {
    std::filesystem::create_directories(scratch.folder() + "/set/class");
    scratch.put("set/class/1.jpg", input.rest());
    place = scratch.folder() + "/set";
  } else {
    place = scratch.put(choice % 2 == 0 ? "data" : "data.gz", input.rest());
  }
  const auto spec = troupe::parse_data_spec(kind + ':' + place + way.options);
  troupe::ReadLimits limits;
  if (choice & 2)
    limits = {16, scratch.folder() + "/index"};
  else
    limits.memory = uint64_t{1} << 26;
  troupe::fuzz::accepted([&] {
    const auto parts = troupe::load_data(spec, {}, limits);
    troupe::fuzz::gather_all(*parts.train);
  });
  return 0;
}
