#include "kernels/checkpoint/manifest.hpp"

#include "kernels/base/crc32c.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/strict_json.hpp"

namespace troupe {
namespace {

using json = kernels::StrictJson<nlohmann::ordered_map>;

json pairs(const CheckpointFacts& facts) {
  auto out = json::object();
  for (const auto& [name, value] : facts)
    out[name] = value;
  return out;
}

CheckpointFacts pairs_of(const json& object) {
  CheckpointFacts out;
  for (const auto& [name, value] : object.items())
    out.emplace_back(name, value.get<std::string>());
  return out;
}

json to_json(const CheckpointSlice& x) {
  json out{{"variable", x.variable},
           {"offset", x.offset},
           {"count", x.count},
           {"updates", x.updates}};
  if (x.count == 0)
    out["partition"] = x.partition;
  if (x.lease_floor > 0 || !x.leases_above.empty()) {
    out["lease_floor"] = x.lease_floor;
    out["leases_above"] = x.leases_above;
  }
  return out;
}

CheckpointSlice slice_of(const json& x) {
  CheckpointSlice out;
  x.at("variable").get_to(out.variable);
  x.at("offset").get_to(out.offset);
  x.at("count").get_to(out.count);
  x.at("updates").get_to(out.updates);
  out.partition = x.value("partition", uint64_t{0});
  out.lease_floor = x.value("lease_floor", uint64_t{0});
  out.leases_above = x.value("leases_above", std::vector<uint64_t>{});
  return out;
}

json to_json(const CheckpointFile& x) {
  return {{"name", x.name},
          {"bytes", x.bytes},
          {"header_bytes", x.data},
          {"header_crc32c", x.header_crc32c}};
}

/// A file of the checkpoint's own folder, and no other.
std::string plain_name(const json& x, const std::string& path) {
  auto name = x.get<std::string>();
  if (name.empty() || name.front() == '.'
      || name.find('/') != std::string::npos)
    refuse_checkpoint(path, "it names a file outside its folder");
  return name;
}

CheckpointFile file_of(const json& x, const std::string& path) {
  CheckpointFile out;
  out.name = plain_name(x.at("name"), path);
  x.at("bytes").get_to(out.bytes);
  x.at("header_bytes").get_to(out.data);
  x.at("header_crc32c").get_to(out.header_crc32c);
  if (out.data > out.bytes)
    refuse_checkpoint(path, "file " + out.name + " is shorter than its header");
  return out;
}

json to_json(const CheckpointTensor& x) {
  return {{"name", x.name},    {"dtype", x.dtype},   {"shape", x.shape},
          {"file", x.file},    {"offset", x.offset}, {"bytes", x.bytes},
          {"crc32c", x.crc32c}};
}

uint64_t item_bytes(const std::string& dtype) {
  return dtype == "F32" ? 4 : dtype == "I64" ? 8 : 0;
}

CheckpointTensor tensor_of(const json& x, const CheckpointManifest& manifest,
                           const std::string& path) {
  CheckpointTensor out;
  x.at("name").get_to(out.name);
  x.at("dtype").get_to(out.dtype);
  x.at("shape").get_to(out.shape);
  x.at("file").get_to(out.file);
  x.at("offset").get_to(out.offset);
  x.at("bytes").get_to(out.bytes);
  x.at("crc32c").get_to(out.crc32c);
  uint64_t bytes = item_bytes(out.dtype);
  bool fits = bytes > 0;
  for (auto dimension : out.shape)
    fits = fits && !__builtin_mul_overflow(bytes, dimension, &bytes);
  const CheckpointFile* home = nullptr;
  for (const auto& file : manifest.files)
    if (file.name == out.file)
      home = &file;
  if (!fits || bytes != out.bytes || home == nullptr || out.offset < home->data
      || out.offset > home->bytes || out.bytes > home->bytes - out.offset)
    refuse_checkpoint(path, "tensor " + out.name + " does not fit its file");
  return out;
}

CheckpointManifest manifest_of(const json& x, const std::string& path) {
  CheckpointManifest out;
  x.at("step").get_to(out.step);
  x.at("whole").get_to(out.whole);
  x.at("written_at").get_to(out.written_at);
  x.at("version").get_to(out.version);
  x.at("cause").get_to(out.cause);
  out.facts = pairs_of(x.at("facts"));
  out.settings = pairs_of(x.at("settings"));
  const auto& period = x.at("period");
  period.at("async").get_to(out.period.async);
  period.at("step").get_to(out.period.step);
  period.at("updates").get_to(out.period.updates);
  for (const auto& slice : x.at("slices"))
    out.slices.push_back(slice_of(slice));
  for (const auto& file : x.at("files"))
    out.files.push_back(file_of(file, path));
  for (const auto& tensor : x.at("tensors"))
    out.tensors.push_back(tensor_of(tensor, out, path));
  return out;
}

/// Brackets in brackets; a manifest has five.
constexpr size_t max_depth = 8;

json parsed(const std::string& text, const std::string& path) {
  if (kernels::nested_deeper(text, max_depth))
    refuse_checkpoint(path, "it is not a manifest");
  return json::parse(text);
}

template <class List>
json list_of(const List& list) {
  auto out = json::array();
  for (const auto& item : list)
    out.push_back(to_json(item));
  return out;
}

} // namespace

void refuse_checkpoint(const std::string& path, const std::string& what) {
  throw InputError(path + ": " + what
                   + "; the checkpoint is damaged: use another");
}

uint64_t CheckpointManifest::bytes() const {
  uint64_t sum = 0;
  for (const auto& file : files)
    sum += file.bytes;
  return sum;
}

const CheckpointTensor*
CheckpointManifest::find(const std::string& tensor) const {
  for (const auto& known : tensors)
    if (known.name == tensor)
      return &known;
  return nullptr;
}

std::string to_json(const CheckpointManifest& x) {
  const json body{{"step", x.step},
                  {"whole", x.whole},
                  {"written_at", x.written_at},
                  {"version", x.version},
                  {"cause", x.cause},
                  {"facts", pairs(x.facts)},
                  {"settings", pairs(x.settings)},
                  {"period",
                   {{"async", x.period.async},
                    {"step", x.period.step},
                    {"updates", x.period.updates}}},
                  {"slices", list_of(x.slices)},
                  {"files", list_of(x.files)},
                  {"tensors", list_of(x.tensors)}};
  const auto text = body.dump();
  const json whole{{"format", CheckpointManifest::format},
                   {"crc32c", crc32c(0, text.data(), text.size())},
                   {"checkpoint", body}};
  return whole.dump(1) + '\n';
}

CheckpointManifest manifest_from_json(const std::string& text,
                                      const std::string& path) {
  try {
    const auto whole = parsed(text, path);
    const auto format = whole.at("format").get<uint64_t>();
    if (format != CheckpointManifest::format)
      throw InputError(path + ": has format " + std::to_string(format)
                       + ", this program reads format "
                       + std::to_string(CheckpointManifest::format)
                       + "; read it with the version that wrote it");
    const auto& body = whole.at("checkpoint");
    const auto plain = body.dump();
    if (crc32c(0, plain.data(), plain.size())
        != whole.at("crc32c").get<uint32_t>())
      refuse_checkpoint(path, "its digest differs");
    return manifest_of(body, path);
  } catch (const json::exception&) {
    refuse_checkpoint(path, "it is not a manifest");
  } catch (const kernels::NotThatNumber& failure) {
    refuse_checkpoint(path, failure.what());
  }
}

} // namespace troupe
