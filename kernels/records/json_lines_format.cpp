#include "kernels/files/strict_json.hpp"
#include "kernels/files/text_lines.hpp"
#include "kernels/records/byte_stream.hpp"
#include "kernels/records/formats.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe {

namespace {

using kernels::StrictJson;
using JsonObject = StrictJson<>;
constexpr size_t deepest = 16;

class JsonLines : public RecordScan {
public:
  explicit JsonLines(const DataFile& file) : lines_(file) {}

  bool next(Record& out) override {
    std::string_view line;
    do
      if (!lines_.next(line))
        return false;
    while (trimmed(line).empty());
    const auto* first = reinterpret_cast<const uint8_t*>(line.data());
    out = {lines_.path(), lines_.offset(), {first, line.size()}, {}};
    return true;
  }

private:
  TextLines lines_;
};

class JsonLinesFormat : public RecordFormat {
public:
  JsonLinesFormat(NamedFields fields, RowWishes wishes)
    : fields_(std::move(fields)), wishes_(std::move(wishes)) {}

  std::unique_ptr<RecordScan> scan(const DataFile& file) const override {
    return std::make_unique<JsonLines>(file);
  }

  RowLayout begin(const Record& first) override {
    const auto object = parse(first);
    if (fields_.features.empty())
      for (const auto& [name, value] : object.items())
        if (name != fields_.label)
          fields_.features.push_back(name);
    std::vector<float> row;
    for (const auto& name : fields_.features) {
      const auto before = row.size();
      add(first, name, member(first, object, name), row);
      counts_.push_back(row.size() - before);
    }
    RowLayout layout;
    layout.shape = shape_of_row(wishes_, row.size(), first);
    return layout;
  }

  double label(const Record& record) const override {
    const auto object = parse(record);
    const auto& value = member(record, object, fields_.label);
    if (value.is_boolean())
      return value.template get<bool>() ? 1 : 0;
    if (!value.is_number())
      record.refuse("the label " + in_quotes(fields_.label)
                      + " is not a number",
                    "number the classes from 0, or name another with label=");
    return value.template get<double>();
  }

  void decode(const Record& record, void* row,
              const SampleDraw&) const override {
    const auto object = parse(record);
    std::vector<float> values;
    for (size_t i = 0; i < fields_.features.size(); ++i) {
      const auto& name = fields_.features[i];
      const auto before = values.size();
      add(record, name, member(record, object, name), values);
      if (values.size() - before != counts_[i])
        record.refuse(
          in_quotes(name) + " has " + std::to_string(values.size() - before)
            + " values, in the first sample " + std::to_string(counts_[i]),
          "make them of one length, or name others with "
          "features=");
    }
    std::copy(values.begin(), values.end(), static_cast<float*>(row));
  }

private:
  static JsonObject parse(const Record& record) {
    const std::string_view text{
      reinterpret_cast<const char*>(record.bytes.data()), record.bytes.size()};
    if (kernels::nested_deeper(text, deepest))
      record.refuse("the line's lists lie in one another too deep",
                    "write flat objects");
    auto result = JsonObject::parse(text, nullptr, false);
    if (!result.is_object())
      record.refuse("the line is no JSON object", "write one object a line");
    return result;
  }

  static const JsonObject& member(const Record& record,
                                  const JsonObject& object,
                                  const std::string& name) {
    const auto found = object.find(name);
    if (found == object.end())
      record.refuse("the line has no " + in_quotes(name),
                    "name others with features= and label=");
    return *found;
  }

  static void add(const Record& record, const std::string& name,
                  const JsonObject& value, std::vector<float>& out) {
    if (value.is_array()) {
      for (const auto& part : value)
        add(record, name, part, out);
      return;
    }
    const auto number = value.is_boolean()
                          ? (value.template get<bool>() ? 1.0 : 0.0)
                        : value.is_number() ? value.template get<double>()
                                            : std::nan("");
    if (!(std::fabs(number) <= std::numeric_limits<float>::max()))
      record.refuse(in_quotes(name) + " is not a finite float32 number",
                    "name the features that are with features=");
    out.push_back(static_cast<float>(number));
  }

  NamedFields fields_;
  RowWishes wishes_;
  std::vector<uint64_t> counts_;
};

} // namespace

std::unique_ptr<RecordFormat> json_lines_format(const NamedFields& fields,
                                                const RowWishes& wishes) {
  return std::make_unique<JsonLinesFormat>(fields, wishes);
}

} // namespace troupe
