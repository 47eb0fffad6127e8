// A checkpoint whose checksums are right and whose meaning is hostile: numbers
// of a valid manifest, and ids in its files, are replaced; then a job reads all
// that it would begin with.
//   what to replace (1 byte), which one (2 bytes), by what (8 bytes), again …
//   0 a number of the manifest, 1 a number made smaller, 2 eight bytes of a
//   file

#include "actors/job/beginning.hpp"

#include "kernels/base/crc32c.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/unit/actors/made_checkpoint.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>
#include <vector>

using namespace troupe;
using troupe::fuzz::holds;

namespace {

using Json = nlohmann::ordered_json;

std::string contents(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The valid checkpoint that every input begins with.
struct Kept {
  Kept()
    : job(test::job_with_tables()),
      folder(test::make_checkpoint(job, scratch.folder(), 40)),
      manifest(Json::parse(contents(folder + "/manifest.json"))),
      table(contents(folder + "/tables.safetensors")) {}

  void put(const std::string& name, const std::string& bytes) const {
    std::ofstream{folder + '/' + name, std::ios::binary} << bytes;
  }

  fuzz::Scratch scratch;
  Job job;
  std::string folder;
  Json manifest;
  std::string table;
};

void numbers_of(Json& value, std::vector<Json*>& out) {
  if (value.is_structured())
    for (auto& inner : value)
      numbers_of(inner, out);
  else if (value.is_number() || value.is_boolean())
    out.push_back(&value);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Kept kept;
  fuzz::Input input{data, size};
  auto manifest = kept.manifest;
  auto table = kept.table;
  std::vector<Json*> numbers;
  numbers_of(manifest["checkpoint"], numbers);
  while (!input.empty()) {
    const auto what = input.byte() % 3;
    const auto which = input.number(2);
    const auto value = input.number(8);
    auto& number = *numbers[which % numbers.size()];
    if (what == 2)
      for (size_t i = 0; i < 8; ++i)
        table[(which * 8 + i) % table.size()] =
          static_cast<char>(value >> (8 * i));
    else if (number.is_boolean())
      number = value % 2 == 1;
    else
      number = what == 0 ? value : number.get<uint64_t>() / (1 + value % 4);
  }
  const auto body = manifest["checkpoint"].dump();
  manifest["crc32c"] = crc32c(0, body.data(), body.size());
  kept.put("manifest.json", manifest.dump());
  kept.put("tables.safetensors", table);
  fuzz::accepted([&] {
    const Beginning beginning{kept.job, kept.folder};
    for (const auto& slice : kept.job.plan.slices) {
      // Versions that roles and the coordinator begin with: all of one step.
      const auto& period = beginning.period();
      const auto version = beginning.updates(slice.id) - period.count_from();
      holds(period.async || version == beginning.step(),
            "a synchronous slice is the outcome of the checkpoint's step");
      holds(beginning.leases(slice.id).end() < uint64_t{1} << 53,
            "leases can be counted");
    }
    test::read_all(kept.job, beginning);
  });
  return 0;
}
