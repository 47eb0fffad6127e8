// A checkpoint's folder: the manifest, whose digest is mended, and one file.
//   length of the manifest (2 bytes), it, the file "a"

#include "kernels/checkpoint/manifest.hpp"

#include "kernels/base/crc32c.hpp"
#include "kernels/checkpoint/read_checkpoint.hpp"
#include "tests/fuzz/input.hpp"

#include <nlohmann/json.hpp>

using namespace troupe;
using troupe::fuzz::holds;

namespace {

constexpr size_t max_read = 1 << 12; // elements

/// The same text with the digest that belongs to it; as it is if it is no JSON.
std::string mended(const std::string& text) {
  auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("checkpoint"))
    return text;
  try {
    const auto body = json["checkpoint"].dump();
    json["crc32c"] = crc32c(0, body.data(), body.size());
    return json.dump();
  } catch (const nlohmann::json::exception&) {
    return text; // no UTF-8
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::Scratch scratch;
  fuzz::Input input{data, size};
  const auto bytes = input.take(input.number(2));
  const auto text = mended({bytes.begin(), bytes.end()});
  fuzz::accepted([&] {
    const auto manifest = manifest_from_json(text, "manifest");
    const auto written = to_json(manifest);
    holds(to_json(manifest_from_json(written, "manifest")) == written,
          "what was read can be written");
  });
  scratch.put("manifest.json", text);
  scratch.put("a", input.rest());
  fuzz::accepted([&] {
    CheckpointReader reader{scratch.folder()};
    for (const auto& line : reader.damages())
      holds(line.find('\n') == line.npos, "a damage is a line");
    for (const auto& tensor : reader.manifest().tensors) {
      std::vector<std::byte> some(std::min<uint64_t>(tensor.bytes, max_read));
      reader.read(tensor, 0, some);
    }
  });
  return 0;
}
