#include "kernels/files/text_lines.hpp"
#include "kernels/records/formats.hpp"
#include "kernels/records/tar.hpp"

#include <algorithm>

namespace troupe {

namespace {

class TarFormat : public RecordFormat {
public:
  TarFormat(TarFields fields, const RowWishes& wishes)
    : fields_(std::move(fields)), rows_(wishes) {}

  std::unique_ptr<RecordScan> scan(const DataFile& file) const override {
    return scan_tar(file, fields_);
  }

  RowLayout begin(const Record& first) override { return rows_.begin(first); }

  double label(const Record& record) const override {
    auto text = record.label;
    while (text.ends_with('\n') || text.ends_with('\r'))
      text.remove_suffix(1);
    const auto value = parse_real(text);
    if (!value)
      record.refuse("the label of the sample is " + in_quotes(text)
                      + ", not a number",
                    "number the classes from 0");
    return *value;
  }

  void decode(const Record& record, void* row,
              const SampleDraw& draw) const override {
    rows_.decode(record, row, draw);
  }

private:
  TarFields fields_;
  BytesRows rows_;
};

} // namespace

std::unique_ptr<RecordFormat> tar_format(const NamedFields& fields,
                                         const RowWishes& wishes) {
  TarFields members{fields.features, fields.label};
  if (members.features.empty())
    members.features = {"jpg", "jpeg", "png"};
  return std::make_unique<TarFormat>(std::move(members), wishes);
}

} // namespace troupe
