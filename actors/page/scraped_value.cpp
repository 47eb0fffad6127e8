#include "actors/page/scraped_value.hpp"

#include "kernels/files/shown_text.hpp"

namespace troupe {

std::string label_of(const ScrapedValue& value, const std::string& label) {
  const auto found = value.labels.find(label);
  return found == value.labels.end() ? std::string{}
                                     : shown_text(found->second);
}

std::vector<ScrapedValue> values_of(const std::vector<MetricSample>& samples) {
  std::vector<ScrapedValue> out;
  for (const auto& sample : samples)
    if (sample.kind != MetricSample::Kind::histogram) {
      out.push_back({sample.name, sample.labels, sample.value});
    } else {
      out.push_back({sample.name + "_sum", sample.labels, sample.sum});
      out.push_back({sample.name + "_count", sample.labels,
                     sample.cumulative.empty()
                       ? 0
                       : static_cast<double>(sample.cumulative.back())});
    }
  return out;
}

} // namespace troupe
