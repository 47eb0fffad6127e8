#include "kernels/files/npy_array.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/text_lines.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace troupe {

namespace {

constexpr uint32_t longest_header = 1 << 16;
constexpr size_t max_extents = 32;

[[noreturn]] void
refuse(const std::string& path, const std::string& what,
       const std::string& advice = "save it again with numpy.save") {
  throw InputError(path + ": " + what + "; " + advice);
}

/// The header's text, a Python dictionary of three entries in any order.
class Header {
public:
  Header(std::string_view text, NpyArray& out) : rest_(text), out_(out) {}

  void read() {
    expect('{');
    while (!take('}')) {
      const auto key = quoted_word();
      expect(':');
      if (key == "descr")
        read_type();
      else if (key == "fortran_order")
        read_order();
      else if (key == "shape")
        read_shape();
      else
        refuse(out_.path, "its header has the unknown entry " + in_quotes(key));
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (!typed_ || !ordered_ || !shaped_)
      refuse(out_.path, "its header lacks descr, fortran_order or shape");
  }

private:
  void skip_spaces() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n'))
      rest_.remove_prefix(1);
  }

  bool take(char wanted) {
    skip_spaces();
    if (!rest_.starts_with(wanted))
      return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char wanted) {
    if (!take(wanted))
      refuse(out_.path, "its header is damaged at " + in_quotes(rest_));
  }

  std::string_view quoted_word() {
    const char quote = take('"') ? '"' : '\'';
    if (quote == '\'')
      expect(quote);
    const auto end = rest_.find(quote);
    if (end == rest_.npos)
      refuse(out_.path, "its header is damaged at " + in_quotes(rest_));
    const auto word = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return word;
  }

  void read_type() {
    skip_spaces();
    if (rest_.starts_with('['))
      refuse(out_.path, "holds records of several fields",
             "save one array of plain numbers");
    const auto type = quoted_word();
    if (type.find('O') != type.npos)
      refuse(out_.path, "holds pickled Python objects, which are not read",
             "save plain numbers, for example with .astype('<f4')");
    if (type.starts_with('>'))
      refuse(out_.path, "holds big-endian numbers " + in_quotes(type),
             "save it with .astype('<f4')");
    constexpr std::array known{"f4", "f8", "i1", "i2", "i4", "i8",
                               "u1", "u2", "u4", "u8", "b1"};
    const auto name = type.substr(std::min<size_t>(1, type.size()));
    const bool marked = type.starts_with('<') || type.starts_with('|')
                        || type.starts_with('=');
    if (!marked || std::find(known.begin(), known.end(), name) == known.end())
      refuse(out_.path, "holds numbers of the type " + in_quotes(type),
             "save it with .astype('<f4')");
    out_.kind = name[0];
    out_.item_bytes = static_cast<uint32_t>(name[1] - '0');
    typed_ = true;
  }

  void read_order() {
    skip_spaces();
    if (rest_.starts_with("True"))
      refuse(out_.path, "is in Fortran order",
             "save it with numpy.ascontiguousarray");
    if (!rest_.starts_with("False"))
      refuse(out_.path, "its header is damaged at " + in_quotes(rest_));
    rest_.remove_prefix(5);
    ordered_ = true;
  }

  void read_shape() {
    out_.shape.clear();
    expect('(');
    while (!take(')')) {
      skip_spaces();
      uint64_t extent = 0;
      const auto* last = rest_.data() + rest_.size();
      const auto [stop, error] = std::from_chars(rest_.data(), last, extent);
      if (error != std::errc{} || out_.shape.size() == max_extents)
        refuse(out_.path, "its header is damaged at " + in_quotes(rest_));
      rest_.remove_prefix(static_cast<size_t>(stop - rest_.data()));
      out_.shape.push_back(extent);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    shaped_ = true;
  }

  std::string_view rest_;
  NpyArray& out_;
  bool typed_ = false;
  bool ordered_ = false;
  bool shaped_ = false;
};

uint64_t size_of(const NpyArray& array) {
  constexpr auto most = uint64_t{1} << 62;
  uint64_t size = array.item_bytes;
  for (auto extent : array.shape) {
    if (extent != 0 && size > most / extent)
      refuse(array.path, "its header announces more than any file holds");
    size *= extent;
  }
  return size;
}

template <class T>
double loaded(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

} // namespace

uint64_t NpyArray::items() const {
  return data.bytes.size() / item_bytes;
}

double NpyArray::item(uint64_t i) const {
  const auto* at = data.bytes.data() + i * item_bytes;
  const bool is_signed = kind == 'i';
  switch (item_bytes) {
    case 1:
      return is_signed ? loaded<int8_t>(at) : loaded<uint8_t>(at);
    case 2:
      return is_signed ? loaded<int16_t>(at) : loaded<uint16_t>(at);
    case 4:
      if (kind == 'f')
        return loaded<float>(at);
      return is_signed ? loaded<int32_t>(at) : loaded<uint32_t>(at);
    default:
      if (kind == 'f')
        return loaded<double>(at);
      return is_signed ? loaded<int64_t>(at) : loaded<uint64_t>(at);
  }
}

NpyArray read_npy_array(const DataFile& file) {
  NpyArray result;
  const auto path = file.name();
  result.path = path;
  const auto source = open_bytes(file);
  std::array<uint8_t, 12> start{};
  const auto head = std::as_writable_bytes(std::span{start});
  if (source->read(head.first(8)) < 8
      || std::memcmp(start.data(), "\x93NUMPY", 6) != 0) {
    const std::string_view text{reinterpret_cast<const char*>(start.data()), 8};
    if (const auto why = unnamed_packing(path, text); !why.empty())
      throw InputError(path + ": " + why);
    refuse(path, "is no array file of NumPy", "save it with numpy.save");
  }
  const auto version = start[6];
  if (version < 1 || version > 3)
    refuse(path, "is of format version " + std::to_string(version));
  const size_t length_bytes = version == 1 ? 2 : 4;
  if (source->read(head.subspan(8, length_bytes)) < length_bytes)
    refuse(path, "ends within its header");
  uint32_t length = 0;
  for (size_t i = length_bytes; i > 0; --i)
    length = length << 8 | start[7 + i];
  if (length > longest_header)
    refuse(path, "its header announces " + std::to_string(length)
                   + " bytes of its own");
  std::string text(length, ' ');
  if (source->read(std::as_writable_bytes(std::span{text})) < length)
    refuse(path, "ends within its header");
  Header{text, result}.read();
  result.data = read_payload(file, *source, 8 + length_bytes + length,
                             size_of(result));
  return result;
}

} // namespace troupe
