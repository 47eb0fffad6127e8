#include "kernels/files/safetensors.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/atomic_file.hpp"
#include "kernels/files/input_file.hpp"
#include "kernels/files/shown_text.hpp"
#include "kernels/files/text_lines.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <cstring>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>

namespace troupe {

namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little,
              "weights are hashed and stored in the machine's own order");

/// The reference library's limit.
constexpr uint64_t max_header_bytes = 100'000'000;
constexpr const char* metadata_key = "__metadata__";

/// The product of the dimensions times `factor`; nothing on overflow.
std::optional<uint64_t> product(const std::vector<uint64_t>& shape,
                                uint64_t factor) {
  uint64_t result = factor;
  for (auto dimension : shape)
    if (__builtin_mul_overflow(result, dimension, &result))
      return std::nullopt;
  return result;
}

// --- writing -----------------------------------------------------------------

/// Refuses what no reader would accept: a bug of the caller.
void check_tensors(const std::vector<NamedTensor>& tensors) {
  std::set<std::string> names{metadata_key};
  for (const auto& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      throw std::logic_error("two tensors are called " + tensor.name);
    if (product(tensor.shape, 1) != tensor.values.size())
      throw std::logic_error("the shape of tensor " + tensor.name
                             + " does not match its values");
  }
}

// --- reading -----------------------------------------------------------------

[[noreturn]] void refuse_tensors(const std::string& path,
                                 const std::string& what) {
  throw InputError(path + ": " + what
                   + "; the file is damaged or not in the safetensors format: "
                     "write it again");
}

/// Parses the header; keys that occur twice and values nested deeper than any
/// header's are refused, which the JSON library leaves to its caller.
json parse_header(const std::string& path, const std::string& text) {
  if (text.empty() || text.front() != '{')
    refuse_tensors(path, "its header is not a JSON object");
  constexpr int deepest = 3;
  std::vector<std::set<std::string>> keys;
  auto watch = [&](int depth, json::parse_event_t event, json& value) {
    switch (event) {
      case json::parse_event_t::object_start:
        keys.emplace_back();
        [[fallthrough]];
      case json::parse_event_t::array_start:
        if (depth > deepest)
          refuse_tensors(path, "its header is nested too deeply");
        break;
      case json::parse_event_t::object_end:
        keys.pop_back();
        break;
      case json::parse_event_t::key:
        if (!keys.back().insert(value.get<std::string>()).second)
          refuse_tensors(path,
                         "its header has the key " + value.dump() + " twice");
        break;
      default:
        break;
    }
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::exception&) {
    refuse_tensors(path, "its header is not valid JSON");
  }
}

std::optional<std::vector<uint64_t>> numbers(const json& object,
                                             const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array())
    return std::nullopt;
  std::vector<uint64_t> result;
  for (const auto& value : *found) {
    if (!value.is_number_unsigned())
      return std::nullopt;
    result.push_back(value.get<uint64_t>());
  }
  return result;
}

/// How a file holds a number; nothing: of no matter.
enum class Held : uint8_t { float32, float16, bfloat16, nothing };

std::optional<Held> held_as(const json& dtype) {
  if (dtype == "F32")
    return Held::float32;
  if (dtype == "F16")
    return Held::float16;
  if (dtype == "BF16")
    return Held::bfloat16;
  return std::nullopt;
}

/// Exact: float32 has all their numbers.
float widened(uint16_t bits, Held held) {
  if (held == Held::bfloat16)
    return std::bit_cast<float>(uint32_t{bits} << 16);
  const auto sign = (uint32_t{bits} & 0x8000u) << 16;
  const auto exponent = bits >> 10 & 0x1f;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) { // units of 2^-24
    const auto size = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -size : size;
  }
  const uint32_t wide =
    exponent == 0x1f ? 0xff : static_cast<uint32_t>(exponent) + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

/// A tensor before its values are read.
struct Entry {
  NamedTensor tensor;
  uint64_t begin;
  uint64_t end;
  Held held;
};

void read_values(InputFile& file, const Entry& entry, std::vector<float>& out) {
  auto bytes = entry.end - entry.begin;
  if (entry.held == Held::nothing) {
    std::array<std::byte, 1 << 16> passed;
    for (; bytes > 0; bytes -= std::min<uint64_t>(bytes, passed.size()))
      file.read_all(
        std::span{passed}.first(std::min<uint64_t>(bytes, passed.size())));
    return;
  }
  if (entry.held == Held::float32) {
    out.resize(bytes / sizeof(float));
    file.read_all(std::as_writable_bytes(std::span{out}));
    return;
  }
  std::vector<uint16_t> halves(bytes / sizeof(uint16_t));
  file.read_all(std::as_writable_bytes(std::span{halves}));
  out.reserve(halves.size());
  for (auto bits : halves)
    out.push_back(widened(bits, entry.held));
}

Entry parse_entry(const std::string& path, const std::string& name,
                  const json& info, bool wanted) {
  const auto who = "tensor " + json(name).dump();
  if (!info.is_object())
    refuse_tensors(path, who + " is not described by a JSON object");
  const auto dtype = info.find("dtype");
  if (dtype == info.end() || !dtype->is_string())
    refuse_tensors(path, who + " has no dtype");
  const auto held = wanted ? held_as(*dtype) : Held::nothing;
  if (!held)
    throw InputError(path + ": " + who + " is of type " + dtype->dump()
                     + ", only F32, F16 and BF16 are read; convert it first");
  auto shape = numbers(info, "shape");
  if (!shape)
    refuse_tensors(path, who + " has no shape of whole numbers");
  const auto offsets = numbers(info, "data_offsets");
  if (!offsets || offsets->size() != 2)
    refuse_tensors(path, who + " has no pair of data_offsets");
  const auto begin = (*offsets)[0];
  const auto end = (*offsets)[1];
  const auto bytes = product(*shape, *held == Held::float32 ? 4 : 2);
  const bool fits = *held == Held::nothing || (bytes && end - begin == *bytes);
  if (end < begin || !fits)
    refuse_tensors(path, who + " has data_offsets that do not match its shape");
  return {{name, std::move(*shape), {}}, begin, end, *held};
}

void read_metadata(const std::string& path, const json& object,
                   std::map<std::string, std::string>& out) {
  if (!object.is_object())
    refuse_tensors(path, "its __metadata__ is not a JSON object");
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string())
      refuse_tensors(path,
                     "its __metadata__ holds something that is not a string");
    out.emplace(key, value.get<std::string>());
  }
}

/// Sorts entries by place and checks that they fill the data without a gap.
void check_places(const std::string& path, std::vector<Entry>& entries,
                  uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair{a.begin, a.end} < std::pair{b.begin, b.end};
  });
  uint64_t next = 0;
  for (const auto& entry : entries) {
    if (entry.begin != next)
      refuse_tensors(path, "tensor " + json(entry.tensor.name).dump()
                             + " leaves a gap or overlaps another");
    next = entry.end;
  }
  if (next != data_bytes)
    refuse_tensors(path, "its header announces " + std::to_string(next)
                           + " bytes of data, " + std::to_string(data_bytes)
                           + " follow");
}

/// What wrote a file that begins with no length of a header; empty: nobody
/// knows.
std::string other_format(uint64_t beginning) {
  const auto begins_with = [&](std::string_view text) {
    return std::memcmp(&beginning, text.data(), text.size()) == 0;
  };
  if (begins_with("PK\x03\x04"))
    return "torch.save or Keras (a zip archive)";
  const auto protocol = beginning >> 8 & 0xff;
  if ((beginning & 0xff) == 0x80 && protocol >= 2 && protocol <= 5)
    return "pickle, or an older torch.save";
  if (begins_with("\x89HDF"))
    return "HDF5, as Keras has it";
  return {};
}

std::string read_header(InputFile& file) {
  uint64_t length = 0;
  if (file.size() < sizeof(length))
    refuse_tensors(file.path(), "it is shorter than a header");
  file.read_all(std::as_writable_bytes(std::span{&length, 1}));
  if (const auto format = other_format(length);
      length > max_header_bytes && !format.empty())
    throw InputError(
      file.path() + ": it is of " + format
      + ", and safetensors are read: write it with "
        "safetensors.torch.save_file(model.state_dict(), FILE), or its like");
  if (length > max_header_bytes)
    refuse_tensors(file.path(),
                   "it does not begin with the length of a header");
  if (length > file.size() - sizeof(length))
    refuse_tensors(file.path(), "its header is said to have "
                                  + std::to_string(length)
                                  + " bytes, and the file is shorter");
  std::string header(length, '\0');
  file.read_all(std::as_writable_bytes(std::span{header}));
  return header;
}

} // namespace

/// Length and JSON, filled up with spaces so that the data starts at a
/// multiple of eight, as the reference library does.
std::string
safetensors_header(const std::vector<SafetensorsEntry>& entries,
                   const std::map<std::string, std::string>& metadata) {
  auto header = json::object();
  if (!metadata.empty())
    header[metadata_key] = metadata;
  uint64_t offset = 0;
  for (const auto& entry : entries) {
    const auto end = offset + entry.bytes;
    header[entry.name] = {{"dtype", entry.dtype},
                          {"shape", entry.shape},
                          {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    throw InputError("a name or a line of metadata is not UTF-8; rename it");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::string result(sizeof(length), '\0');
  std::memcpy(result.data(), &length, sizeof(length));
  return result + text;
}

void write_safetensors(const std::string& path,
                       const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  check_tensors(tensors);
  std::vector<const NamedTensor*> sorted;
  sorted.reserve(tensors.size());
  for (const auto& tensor : tensors)
    sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return a->name < b->name; });
  std::vector<SafetensorsEntry> entries;
  entries.reserve(sorted.size());
  for (const auto* tensor : sorted)
    entries.push_back({tensor->name, "F32", tensor->shape,
                       tensor->values.size() * sizeof(float)});
  std::string header;
  try {
    header = safetensors_header(entries, metadata);
  } catch (const InputError& failure) {
    throw InputError(path + ": " + failure.what());
  }
  std::vector<std::span<const std::byte>> parts;
  parts.push_back(std::as_bytes(std::span{header}));
  for (const auto* tensor : sorted)
    parts.push_back(std::as_bytes(std::span{tensor->values}));
  write_atomically(path, parts);
}

namespace {

/// The files that hold the tensors: those that an index names, in order; else
/// the one that it is.
std::vector<std::string> files_of(const std::string& path) {
  if (!path.ends_with(".index.json"))
    return {path};
  constexpr const char* key = "weight_map";
  const auto text = whole_file(path, max_header_bytes, "an index of tensors");
  json index;
  try {
    index = parse_header(path, text);
  } catch (const InputError&) { // which speaks of a header
  }
  if (!index.contains(key) || !index[key].is_object() || index[key].empty())
    throw InputError(path
                     + ": has no weight_map, so it is no index of "
                       "safetensors; name the file that save_pretrained wrote");
  std::set<std::string> files;
  for (const auto& [name, file] : index[key].items()) {
    if (!file.is_string())
      throw InputError(path + ": names no file of tensor " + shown_text(name));
    files.insert(file.get<std::string>());
  }
  const auto folder = path.substr(0, path.rfind('/') + 1);
  std::vector<std::string> out;
  constexpr std::string_view in_no_name{"/\0", 2};
  for (const auto& file : files) {
    if (file.empty() || file.size() > NAME_MAX || file.front() == '.'
        || file.find_first_of(in_no_name) != file.npos)
      throw InputError(path + ": names " + in_quotes(file)
                       + ", which is no file of its folder");
    out.push_back(folder + file);
  }
  return out;
}

/// Entries in order of place, which the file's data fill.
std::vector<Entry>
entries_of(InputFile& file, SafetensorsFile& out,
           const std::function<bool(const std::string&)>& wanted) {
  const auto& path = file.path();
  const auto text = read_header(file);
  const auto header = parse_header(path, text);
  std::vector<Entry> entries;
  for (const auto& [name, info] : header.items()) {
    if (name == metadata_key)
      read_metadata(path, info, out.metadata);
    else
      entries.push_back(parse_entry(path, name, info, !wanted || wanted(name)));
  }
  check_places(path, entries, file.size() - sizeof(uint64_t) - text.size());
  return entries;
}

} // namespace

std::map<std::string, std::string>
read_safetensors_metadata(const std::string& path) {
  const auto files = files_of(path);
  if (files.size() > 1)
    return {};
  InputFile file{files.front()};
  const auto header = parse_header(file.path(), read_header(file));
  std::map<std::string, std::string> out;
  if (const auto found = header.find(metadata_key); found != header.end())
    read_metadata(path, *found, out);
  return out;
}

SafetensorsFile
read_safetensors(const std::string& path,
                 const std::function<bool(const std::string& name)>& wanted) {
  SafetensorsFile result;
  const auto files = files_of(path);
  for (const auto& one : files) {
    InputFile file{one};
    for (auto& entry : entries_of(file, result, wanted)) {
      read_values(file, entry, entry.tensor.values);
      if (entry.held != Held::nothing)
        result.tensors.push_back(std::move(entry.tensor));
    }
  }
  if (files.size() > 1)
    result.metadata.clear();
  std::sort(result.tensors.begin(), result.tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(
    result.tensors.begin(), result.tensors.end(),
    [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice != result.tensors.end())
    throw InputError(path + ": two of its files have a tensor "
                     + shown_text(twice->name));
  return result;
}

std::map<std::string, std::vector<uint64_t>>
read_safetensors_shapes(const std::string& path) {
  std::map<std::string, std::vector<uint64_t>> out;
  for (const auto& one : files_of(path)) {
    InputFile file{one};
    SafetensorsFile ignored;
    for (auto& entry :
         entries_of(file, ignored, [](const std::string&) { return false; }))
      out.emplace(entry.tensor.name, std::move(entry.tensor.shape));
  }
  return out;
}

} // namespace troupe
