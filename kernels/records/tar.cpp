#include "kernels/records/tar.hpp"

#include "kernels/files/text_lines.hpp"
#include "kernels/records/byte_stream.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <string_view>

namespace troupe {

namespace {

constexpr uint64_t block_bytes = 512;
constexpr uint64_t longest_name = uint64_t{1} << 16;
constexpr uint64_t longest_label = uint64_t{1} << 16;
constexpr auto archive_advice = "copy or write the archive again";

using Block = std::array<uint8_t, block_bytes>;

uint64_t padded(uint64_t size) {
  return (size + block_bytes - 1) / block_bytes * block_bytes;
}

std::string_view text_at(const Block& block, size_t offset, size_t length) {
  const std::string_view all{
    reinterpret_cast<const char*>(block.data()) + offset, length};
  return all.substr(0, all.find('\0'));
}

/// A number in octal, or where its first bit is set in base 256.
std::optional<uint64_t> number_at(const Block& block, size_t offset,
                                  size_t length) {
  uint64_t value = 0;
  if ((block[offset] & 0x80) != 0) {
    for (size_t i = 0; i < length; ++i) {
      if (value >> 55 != 0)
        return std::nullopt;
      value = value << 8 | (i == 0 ? block[offset] & 0x7f : block[offset + i]);
    }
    return value;
  }
  auto text = text_at(block, offset, length);
  text = trimmed(text);
  const auto [stop, error] =
    std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (error != std::errc{} || stop != text.data() + text.size())
    return std::nullopt;
  return value;
}

/// The header's sum counts its own field as spaces.
bool has_its_sum(const Block& block) {
  constexpr size_t first = 148;
  constexpr size_t last = 156;
  uint64_t sum = 0;
  for (size_t i = 0; i < block.size(); ++i)
    sum += i >= first && i < last ? ' ' : block[i];
  return number_at(block, first, last - first) == sum;
}

bool leaves(std::string_view name) {
  if (name.starts_with('/'))
    return true;
  while (true) {
    const auto end = std::min(name.find('/'), name.size());
    if (name.substr(0, end) == "..")
      return true;
    if (end == name.size())
      return false;
    name.remove_prefix(end + 1);
  }
}

class TarScan : public RecordScan {
public:
  TarScan(const DataFile& file, const TarFields& fields)
    : stream_(file), fields_(fields) {}

  bool next(Record& out) override {
    Sample sample;
    while (have_member_ || read_member()) {
      const auto [key, ending] = parts_of(name_);
      if (sample.key && *sample.key != key)
        break;
      if (!sample.key)
        sample = {key, member_at_, {}, 0, false};
      take_member(ending, sample);
      have_member_ = false;
    }
    if (!sample.key)
      return false;
    if (!sample.has_features)
      refuse_record(stream_.path(), sample.at,
                    "the sample " + in_quotes(*sample.key) + " has no member "
                      + "that ends in " + features_named(),
                    "name another ending with features=");
    if (!sample.label)
      refuse_record(stream_.path(), sample.at,
                    "the sample " + in_quotes(*sample.key)
                      + " has no member that ends in ." + fields_.label,
                    "name another ending with label=");
    label_ = *sample.label;
    out = {stream_.path(), sample.features_at, bytes_, label_};
    return true;
  }

private:
  struct Sample {
    std::optional<std::string> key;
    uint64_t at = 0; ///< its first member's header
    std::optional<std::string> label;
    uint64_t features_at = 0;
    bool has_features = false;
  };

  [[noreturn]] void fail(const std::string& what) const {
    refuse_record(stream_.path(), member_at_, what, archive_advice);
  }

  std::string features_named() const {
    std::string result;
    for (const auto& ending : fields_.features)
      result += (result.empty() ? "." : " or .") + ending;
    return result;
  }

  /// "a/b.c/0001" and "seg.png" of "a/b.c/0001.seg.png".
  static std::pair<std::string, std::string> parts_of(const std::string& name) {
    const auto slash = name.rfind('/');
    const auto from = slash == name.npos ? 0 : slash + 1;
    const auto dot = std::min(name.find('.', from), name.size());
    auto ending = dot < name.size() ? name.substr(dot + 1) : std::string{};
    for (auto& c : ending)
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return {name.substr(0, dot), ending};
  }

  void take_member(const std::string& ending, Sample& sample) {
    const bool features = std::find(fields_.features.begin(),
                                    fields_.features.end(), ending)
                          != fields_.features.end();
    if (features && sample.has_features)
      fail("the sample " + in_quotes(*sample.key) + " has two members that end "
           + "in " + features_named());
    if (features) {
      sample.features_at = stream_.at();
      sample.has_features = true;
      take_content(bytes_, longest_record);
    } else if (ending == fields_.label) {
      std::vector<uint8_t> text;
      take_content(text, longest_label);
      sample.label.emplace(text.begin(), text.end());
    } else if (!stream_.skip(padded(size_))) {
      fail("the archive ends within the member " + in_quotes(name_));
    }
  }

  void take_content(std::vector<uint8_t>& out, uint64_t most) {
    if (size_ > most)
      fail("the member " + in_quotes(name_) + " claims " + std::to_string(size_)
           + " bytes, more than " + std::to_string(most));
    stream_.take(size_, out);
    if (out.size() < size_ || !stream_.skip(padded(size_) - size_))
      fail("the archive ends within the member " + in_quotes(name_));
  }

  /// Makes the next regular file the member in hand; false at the end.
  bool read_member() {
    std::optional<std::string> name;
    auto size = not_said;
    while (true) {
      member_at_ = stream_.at();
      Block block{};
      const auto got = stream_.read(block);
      const bool empty = std::all_of(block.begin(), block.end(),
                                     [](auto byte) { return byte == 0; });
      // Not every writer pads the end.
      ended_ = ended_ || (got == 0 && member_at_ > 0);
      if (ended_)
        return false;
      if (got < block.size())
        fail("the file ends within a header");
      if (empty)
        return !(ended_ = true);
      if (!has_its_sum(block))
        fail(member_at_ == 0 ? "is no tar archive"
                             : "the header of a member is damaged");
      const auto claimed = number_at(block, 124, 12);
      if (!claimed)
        fail("the size of a member is damaged");
      size_ = *claimed;
      const auto kind = block[156];
      if (kind == 'L') {
        name = text_of_member();
        name->resize(std::min(name->find('\0'), name->size()));
      } else if (kind == 'x') {
        read_pax(text_of_member(), name, size);
      } else if (kind == '0' || kind == '\0' || kind == '7') {
        size_ = size == not_said ? size_ : size;
        name_ = name.value_or(name_of(block));
        // A folder of archives older than ustar.
        if (name_.ends_with('/'))
          name_.clear();
        if (leaves(name_))
          fail("the member " + in_quotes(name_) + " leaves the archive");
        if (size_ > uint64_t{1} << 60)
          fail("a member claims " + std::to_string(size_) + " bytes");
        if (!name_.empty())
          return have_member_ = true;
        pass_over();
        name.reset();
        size = not_said;
      } else {
        // Folders, links and devices: no samples.
        pass_over();
        name.reset();
        size = not_said;
      }
    }
  }

  /// Of a size that no extended header gave.
  static constexpr auto not_said = ~uint64_t{0};

  void pass_over() {
    if (size_ > uint64_t{1} << 60 || !stream_.skip(padded(size_)))
      fail("the archive ends within a member");
  }

  std::string text_of_member() {
    name_ = "(a long name)";
    std::vector<uint8_t> text;
    take_content(text, longest_name);
    return {text.begin(), text.end()};
  }

  static std::string name_of(const Block& block) {
    const auto name = text_at(block, 0, 100);
    const auto prefix = text_at(block, 257, 5) == "ustar"
                            && block[257 + 5] == '\0'
                          ? text_at(block, 345, 155)
                          : std::string_view{};
    return prefix.empty() ? std::string{name}
                          : std::string{prefix} + '/' + std::string{name};
  }

  /// Lines "LENGTH KEY=VALUE\n", whose length counts all of it.
  void read_pax(std::string_view text, std::optional<std::string>& name,
                uint64_t& size) const {
    while (!text.empty()) {
      size_t length = 0;
      const auto [stop, error] =
        std::from_chars(text.data(), text.data() + text.size(), length);
      const auto digits = static_cast<size_t>(stop - text.data());
      if (error != std::errc{} || length > text.size() || length < digits + 2
          || text[digits] != ' ' || text[length - 1] != '\n')
        fail("the extended header of a member is damaged");
      const auto line = text.substr(digits + 1, length - digits - 2);
      const auto equals = line.find('=');
      if (equals == line.npos)
        fail("the extended header of a member is damaged");
      const auto value = line.substr(equals + 1);
      if (line.starts_with("path="))
        name = value;
      if (line.starts_with("size=")) {
        uint64_t number = 0;
        const auto* end = value.data() + value.size();
        const auto read = std::from_chars(value.data(), end, number);
        if (read.ec != std::errc{} || read.ptr != end)
          fail("the extended header of a member is damaged");
        size = number;
      }
      text.remove_prefix(length);
    }
  }

  ByteStream stream_;
  TarFields fields_;
  std::vector<uint8_t> bytes_;
  std::string label_;
  std::string name_; ///< of the member in hand
  uint64_t size_ = 0;
  uint64_t member_at_ = 0; ///< its header
  bool have_member_ = false;
  bool ended_ = false;
};

} // namespace

std::unique_ptr<RecordScan> scan_tar(const DataFile& file,
                                     const TarFields& fields) {
  return std::make_unique<TarScan>(file, fields);
}

} // namespace troupe
