#include "kernels/files/text_lines.hpp"
#include "kernels/records/example.hpp"
#include "kernels/records/formats.hpp"
#include "kernels/records/tfrecord.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace troupe {

namespace {

std::string names_in(const std::vector<ExampleFeature>& features) {
  std::string result;
  for (const auto& feature : features)
    result += (result.empty() ? "" : ", ") + in_quotes(feature.name);
  return result.empty() ? "none" : result;
}

class ExampleFormat : public RecordFormat {
public:
  ExampleFormat(NamedFields fields, const RowWishes& wishes)
    : fields_(std::move(fields)), wishes_(wishes), rows_(wishes) {}

  std::unique_ptr<RecordScan> scan(const DataFile& file) const override {
    return scan_tfrecord(file);
  }

  RowLayout begin(const Record& first) override {
    std::vector<ExampleFeature> found;
    parse_example(first, found);
    if (fields_.features.empty())
      choose(first, found);
    uint64_t values = 0;
    for (const auto& name : fields_.features) {
      const auto& feature = find(first, found, name, "features=");
      if (feature.kind == FeatureKind::bytes && fields_.features.size() == 1) {
        bytes_ = true;
        return rows_.begin(of_bytes(first, feature));
      }
      if (feature.kind == FeatureKind::bytes)
        first.refuse("the feature " + in_quotes(name) + " holds bytes",
                     "name it alone with features=, or leave it out");
      counts_.push_back(feature.count(first));
      values += counts_.back();
    }
    if (!wishes_.augment.is_empty())
      first.refuse("the features of the sample are numbers and no image",
                   "leave augment= out");
    RowLayout layout;
    layout.shape = shape_of_row(wishes_, values, first);
    return layout;
  }

  double label(const Record& record) const override {
    thread_local std::vector<ExampleFeature> found;
    parse_example(record, found);
    return find(record, found, fields_.label, "label=").number(record);
  }

  void decode(const Record& record, void* row,
              const SampleDraw& draw) const override {
    thread_local std::vector<ExampleFeature> found;
    parse_example(record, found);
    if (bytes_) {
      const auto& feature = find(record, found, fields_.features[0],
                                 "features=");
      return rows_.decode(of_bytes(record, feature), row, draw);
    }
    auto* out = static_cast<float*>(row);
    for (size_t i = 0; i < fields_.features.size(); ++i) {
      const auto& feature = find(record, found, fields_.features[i],
                                 "features=");
      const auto count = feature.count(record);
      if (feature.kind == FeatureKind::bytes || count != counts_[i])
        record.refuse("the feature " + in_quotes(feature.name) + " has "
                        + std::to_string(count) + " values, in the first "
                        + "sample " + std::to_string(counts_[i]),
                      "make them of one length, or leave the feature out");
      feature.numbers(record, out);
      for (const auto* value = out; value < out + count; ++value)
        if (!std::isfinite(*value))
          record.refuse("the feature " + in_quotes(feature.name)
                          + " holds a value that is not finite",
                        "mend it");
      out += count;
    }
  }

  uint64_t check_bytes() const override { return tfrecord_check_bytes; }
  void check(Record& record) const override { check_tfrecord(record); }

private:
  void choose(const Record& first, const std::vector<ExampleFeature>& found) {
    bool bytes = false;
    for (const auto& feature : found)
      if (feature.name != fields_.label) {
        fields_.features.emplace_back(feature.name);
        bytes = bytes || feature.kind == FeatureKind::bytes;
      }
    if (fields_.features.empty() || (bytes && fields_.features.size() > 1))
      first.refuse("the sample has the features " + names_in(found),
                   "say which to take with features=NAME[,NAME…] and "
                   "label=NAME");
  }

  const ExampleFeature& find(const Record& record,
                             const std::vector<ExampleFeature>& found,
                             const std::string& name, const char* key) const {
    for (const auto& feature : found)
      if (feature.name == name)
        return feature;
    record.refuse("the sample has no feature " + in_quotes(name) + ", it has "
                    + names_in(found),
                  std::string{"name one with "} + key);
  }

  static Record of_bytes(const Record& record, const ExampleFeature& feature) {
    auto result = record;
    result.bytes = feature.bytes(record);
    return result;
  }

  NamedFields fields_;
  RowWishes wishes_;
  BytesRows rows_;
  bool bytes_ = false;
  std::vector<uint64_t> counts_;
};

} // namespace

std::unique_ptr<RecordFormat> example_format(const NamedFields& fields,
                                             const RowWishes& wishes) {
  return std::make_unique<ExampleFormat>(fields, wishes);
}

} // namespace troupe
