#include "kernels/records/example.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace troupe {

namespace {

enum Wire : uint8_t { varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5 };

/// One field of a message.
struct Field {
  uint64_t number = 0;
  uint8_t wire = 0;
  uint64_t value = 0;             ///< of a varint or a fixed
  std::span<const uint8_t> bytes; ///< of a delimited one
};

/// The fields of a protobuf message, one after another. No recursion: who
/// knows what a field is takes its bytes as a message.
class Fields64 {
public:
  Fields64(const Record& record, std::span<const uint8_t> message)
    : record_(record), left_(message) {}

  bool next(Field& out) {
    if (left_.empty())
      return false;
    const auto tag = take_varint();
    out = {tag >> 3, static_cast<uint8_t>(tag & 7), 0, {}};
    if (out.number == 0 || out.number >> 29 != 0)
      fail();
    switch (out.wire) {
      case varint:
        out.value = take_varint();
        break;
      case fixed64:
        out.value = take_fixed(8);
        break;
      case fixed32:
        out.value = take_fixed(4);
        break;
      case delimited:
        out.bytes = take(take_varint());
        break;
      default:
        fail();
    }
    return true;
  }

  uint64_t take_varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      const auto byte = take(1)[0];
      value |= shift < 64 ? uint64_t{byte & 0x7fu} << shift : 0;
      if (byte < 0x80)
        return value;
    }
    fail();
  }

  uint64_t take_fixed(size_t bytes) {
    const auto taken = take(bytes);
    uint64_t value = 0;
    for (size_t i = bytes; i > 0; --i)
      value = value << 8 | taken[i - 1];
    return value;
  }

  bool empty() const { return left_.empty(); }

  [[noreturn]] void fail() const {
    record_.refuse("the record is no tf.train.Example",
                   "write such records, or is this another kind of data?");
  }

private:
  std::span<const uint8_t> take(uint64_t count) {
    if (count > left_.size())
      fail();
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }

  const Record& record_;
  std::span<const uint8_t> left_;
};

std::string_view text_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// An entry of the map from names to features.
ExampleFeature feature_of(const Record& record,
                          std::span<const uint8_t> entry) {
  ExampleFeature result;
  std::span<const uint8_t> value;
  Field field;
  for (Fields64 fields{record, entry}; fields.next(field);) {
    if (field.wire != delimited || field.number > 2)
      continue;
    if (field.number == 1)
      result.name = text_of(field.bytes);
    else
      value = field.bytes;
  }
  for (Fields64 fields{record, value}; fields.next(field);)
    if (field.wire == delimited && field.number <= 3) {
      result.kind = static_cast<FeatureKind>(field.number);
      result.list = field.bytes;
    }
  return result;
}

/// Calls `visit(value)` for each number of a list, packed or not.
template <class Visit>
void visit_numbers(const Record& record, const ExampleFeature& feature,
                   Visit visit) {
  const bool floats = feature.kind == FeatureKind::floats;
  const auto as_double = [&](uint64_t bits) {
    if (!floats)
      return static_cast<double>(static_cast<int64_t>(bits));
    const auto word = static_cast<uint32_t>(bits);
    float value;
    std::memcpy(&value, &word, sizeof value);
    return static_cast<double>(value);
  };
  Field field;
  for (Fields64 fields{record, feature.list}; fields.next(field);) {
    if (field.number != 1)
      continue;
    if (field.wire == delimited) {
      Fields64 packed{record, field.bytes};
      while (!packed.empty())
        visit(as_double(floats ? packed.take_fixed(4) : packed.take_varint()));
    } else if (field.wire == (floats ? fixed32 : varint)) {
      visit(as_double(field.value));
    } else {
      fields.fail();
    }
  }
}

} // namespace

uint64_t ExampleFeature::count(const Record& record) const {
  uint64_t result = 0;
  if (kind == FeatureKind::bytes) {
    Field field;
    for (Fields64 fields{record, list}; fields.next(field);)
      result += field.number == 1 && field.wire == delimited ? 1 : 0;
  } else if (kind != FeatureKind::none) {
    visit_numbers(record, *this, [&](double) { ++result; });
  }
  return result;
}

void ExampleFeature::numbers(const Record& record, float* out) const {
  visit_numbers(record, *this,
                [&](double value) { *out++ = static_cast<float>(value); });
}

double ExampleFeature::number(const Record& record) const {
  double result = 0;
  uint64_t found = 0;
  if (kind == FeatureKind::floats || kind == FeatureKind::integers)
    visit_numbers(record, *this, [&](double value) {
      result = value;
      ++found;
    });
  if (found != 1)
    record.refuse("its feature \"" + std::string{name} + "\" is not one number",
                  "name another with label=");
  return result;
}

std::span<const uint8_t> ExampleFeature::bytes(const Record& record) const {
  Field field;
  std::span<const uint8_t> result;
  uint64_t found = 0;
  if (kind == FeatureKind::bytes)
    for (Fields64 fields{record, list}; fields.next(field);)
      if (field.number == 1 && field.wire == delimited) {
        result = field.bytes;
        ++found;
      }
  if (found != 1)
    record.refuse("a feature holds " + std::to_string(found)
                    + " byte strings, not one",
                  "name other ones with features=");
  return result;
}

void parse_example(const Record& record, std::vector<ExampleFeature>& out) {
  out.clear();
  Field top;
  Field entry;
  for (Fields64 example{record, record.bytes}; example.next(top);) {
    if (top.number != 1 || top.wire != delimited)
      continue;
    for (Fields64 map{record, top.bytes}; map.next(entry);)
      if (entry.number == 1 && entry.wire == delimited)
        out.push_back(feature_of(record, entry.bytes));
  }
  const auto by_name = [](const auto& a, const auto& b) {
    return a.name < b.name;
  };
  if (std::is_sorted(out.begin(), out.end(), by_name)) {
    if (std::ranges::adjacent_find(out, {}, &ExampleFeature::name) == out.end())
      return; // most are
  } else {
    std::stable_sort(out.begin(), out.end(), by_name);
  }
  // The last of a name counts.
  const auto kept =
    std::unique(out.rbegin(), out.rend(),
                [](const auto& a, const auto& b) { return a.name == b.name; });
  out.erase(out.begin(), kept.base());
}

} // namespace troupe
