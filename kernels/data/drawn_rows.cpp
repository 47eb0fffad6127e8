#include "kernels/data/drawn_rows.hpp"

#include "kernels/files/free_memory.hpp"
#include "kernels/numbers/random.hpp"

namespace troupe {

Dataset synthetic_rows(const RowsOptions& options) {
  constexpr uint64_t stream = 0x726f7773;
  Dataset result;
  result.name = "synthetic:rows";
  result.shape.ids = static_cast<uint32_t>(options.ids);
  result.shape.vocabulary = static_cast<uint32_t>(options.vocabulary);
  result.shape.label = LabelKind::binary;
  result.labels.assign(options.samples, 0);
  make_room(result.ids, options.samples * options.ids, result.name);
  result.ids.resize(options.samples * options.ids);
  const auto key = kernels::stream_key(options.seed, stream);
  for (uint64_t i = 0; i < result.ids.size(); ++i) {
    const auto lot = kernels::random_bits(key, i) >> 32;
    result.ids[i] = static_cast<int32_t>(options.in_order
                                           ? i % options.vocabulary
                                           : lot * options.vocabulary >> 32);
  }
  return result;
}

} // namespace troupe
