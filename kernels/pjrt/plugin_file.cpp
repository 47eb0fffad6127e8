#include "kernels/pjrt/plugin_file.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/input_file.hpp"
#include "kernels/files/safetensors.hpp"

#include <linux/elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <vector>

namespace troupe::kernels::pjrt {

namespace {

template <class T>
bool read_at(const InputFile& file, uint64_t offset, T& out) {
  return file.read_at(offset, std::as_writable_bytes(std::span{&out, 1}))
         == sizeof out;
}

/// Where the last segment ends that the loader would map. Nullopt: it is no
/// library of such a machine.
std::optional<uint64_t> end_of_segments(const InputFile& file) {
  Elf64_Ehdr header;
  if (!read_at(file, 0, header)
      || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0
      || header.e_ident[EI_CLASS] != ELFCLASS64
      || header.e_phentsize != sizeof(Elf64_Phdr))
    return std::nullopt;
  uint64_t end = 0;
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto at = header.e_phoff + i * sizeof(Elf64_Phdr);
    Elf64_Phdr segment;
    if (!read_at(file, at, segment))
      return at + sizeof segment;
    if (segment.p_type == PT_LOAD)
      end = std::max<uint64_t>(end, segment.p_offset + segment.p_filesz);
  }
  return end;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream{text};
  return {std::istream_iterator<std::string>{stream}, {}};
}

/// What a compiler for processors looks at, as far as bits may follow it.
std::string processor_name() {
  std::ifstream file{"/proc/cpuinfo"};
  std::string vendor;
  std::string family;
  std::string model;
  std::set<std::string> features;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const auto colon = line.find(": ");
    if (colon == std::string::npos)
      continue;
    const auto value = line.substr(colon + 2);
    // x86-64's words, and AArch64's
    if (line.starts_with("vendor_id") || line.starts_with("CPU implementer"))
      vendor = value;
    else if (line.starts_with("cpu family") || line.starts_with("CPU variant"))
      family = value;
    else if (line.starts_with("model\t") || line.starts_with("CPU part"))
      model = value;
    else if (line.starts_with("flags") || line.starts_with("Features"))
      for (const auto& word : words_of(value))
        if (word == "fma" || word.starts_with("avx") || word.starts_with("amx")
            || word.starts_with("sve") || word.starts_with("asimd"))
          features.insert(word);
  }
  auto name = vendor + ' ' + family + '-' + model;
  for (const auto& feature : features)
    name += ' ' + feature;
  return name;
}

/// Flags from the environment but for those that say where reports go, and how
/// many devices there are.
std::string compiler_flags() {
  std::string flags;
  for (const auto* variable : {"XLA_FLAGS", "LIBTPU_INIT_ARGS"}) {
    const auto* value = std::getenv(variable);
    std::string text = value != nullptr ? value : "";
    if (!text.empty() && text.front() != '-') // a file has them
      try {
        text = whole_file(text, uint64_t{1} << 20, "a compiler's flags");
      } catch (const InputError&) { // the compiler says what it thinks of it
      }
    for (const auto& word : words_of(text))
      if (!word.starts_with("--xla_dump")
          && !word.starts_with("--xla_force_host_platform_device_count"))
        flags += ' ' + word;
  }
  return flags;
}

std::string short_hash(std::span<const std::byte> bytes) {
  constexpr size_t shown = 12;
  return sha256(bytes).substr(0, shown);
}
std::string short_hash(const std::string& text) {
  return short_hash(std::as_bytes(std::span{text}));
}

/// Once a process: a plugin has some hundred megabytes.
std::string hash_of(const std::string& file) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::lock_guard lock{mutex};
  auto& hash = known[file];
  if (hash.empty()) {
    const InputFile plugin{file};
    const auto bytes = plugin.map();
    hash = short_hash({bytes.get(), plugin.size()});
  }
  return hash;
}

} // namespace

std::string lacks_entry() {
  return std::string{"is no PJRT plugin: it has no function "} + plugin_entry;
}

std::string plugin_file_mistake(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error))
    return "there is no such file; name a PJRT plugin, such as "
           "pjrt:/path/libtpu.so";
  if (!std::filesystem::is_regular_file(file, error))
    return "is no file; name a PJRT plugin, such as pjrt:/path/libtpu.so";
  const InputFile plugin{file};
  const auto end = end_of_segments(plugin);
  if (!end)
    return "is no shared library; name a PJRT plugin, such as "
           "pjrt:/path/libtpu.so";
  if (*end > plugin.size())
    return "cannot be loaded: it has " + std::to_string(plugin.size()) + " of "
           + std::to_string(*end) + " bytes, and was cut short; copy it anew";
  // A name that it gives others stands in it.
  return memmem(plugin.map().get(), plugin.size(), plugin_entry,
                std::strlen(plugin_entry))
             != nullptr
           ? ""
           : lacks_entry();
}

std::string compiler_name(const std::string& file,
                          const std::string& platform) {
  auto name = "plugin " + hash_of(file);
  if (const auto flags = compiler_flags(); !flags.empty())
    name += ", flags " + short_hash(flags);
  if (platform == "cpu")
    name += ", processor " + short_hash(processor_name());
  return name;
}

} // namespace troupe::kernels::pjrt
