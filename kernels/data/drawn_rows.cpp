#include "kernels/data/drawn_rows.hpp"

#include "kernels/data/sample_source.hpp"
#include "kernels/files/free_memory.hpp"
#include "kernels/numbers/random.hpp"

#include <memory>

namespace troupe {

namespace {

/// Ids, one after another, as samples have them.
class DrawnIds : public SampleSource {
public:
  explicit DrawnIds(const RowsOptions& options)
    : options_(options), key_(kernels::stream_key(options.seed, stream)) {}

  int32_t id(uint64_t i) const {
    const auto lot = kernels::random_bits(key_, i) >> 32;
    return static_cast<int32_t>(options_.in_order
                                  ? i % options_.vocabulary
                                  : lot * options_.vocabulary >> 32);
  }
  void read(uint64_t /*sample*/, void* /*row*/,
            const SampleDraw& /*draw*/) const override {}
  void read_ids(uint64_t sample, int32_t* ids) const override {
    for (uint64_t k = 0; k < options_.ids; ++k)
      ids[k] = id(sample * options_.ids + k);
  }
  uint64_t stored_bytes(uint64_t /*sample*/) const override { return 0; }

private:
  static constexpr uint64_t stream = 0x726f7773;
  RowsOptions options_;
  uint64_t key_;
};

} // namespace

Dataset synthetic_rows(const RowsOptions& options) {
  Dataset result;
  result.name = "synthetic:rows";
  result.shape.ids = static_cast<uint32_t>(options.ids);
  result.shape.vocabulary = static_cast<uint32_t>(options.vocabulary);
  result.shape.label = LabelKind::binary;
  if (options.samples > RowsOptions::max_held / options.ids) {
    result.in_files = std::make_shared<DrawnIds>(options);
    result.unheld = options.samples;
    return result;
  }
  const DrawnIds drawn{options};
  result.labels.assign(options.samples, 0);
  make_room(result.ids, options.samples * options.ids, result.name);
  result.ids.resize(options.samples * options.ids);
  for (uint64_t i = 0; i < result.ids.size(); ++i)
    result.ids[i] = drawn.id(i);
  return result;
}

} // namespace troupe
