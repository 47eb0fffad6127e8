#include "actors/shard/slice_image.hpp"

#include "actors/job/row_words.hpp"
#include "actors/job/shard_tables.hpp"
#include "kernels/base/require.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {
namespace {

/// The floor, then the leases above it, as raw bytes.
TensorView to_bytes(const LeaseSet& leases) {
  std::vector<uint64_t> numbers{leases.floor()};
  numbers.insert(numbers.end(), leases.above().begin(), leases.above().end());
  std::vector<float> raw(2 * numbers.size());
  std::memcpy(raw.data(), numbers.data(), raw.size() * sizeof(float));
  return TensorView::copy(raw);
}

std::optional<LeaseSet> leases_from(const TensorView& raw) {
  if (raw.size() < 2 || raw.size() % 2 != 0)
    return std::nullopt;
  std::vector<uint64_t> numbers(raw.size() / 2);
  std::memcpy(numbers.data(), raw.data(), raw.size() * sizeof(float));
  return LeaseSet{numbers.front(), {numbers.begin() + 1, numbers.end()}};
}

size_t tensors_of(const Job& job) {
  return 1 + state_slots(job.options.rule.kind);
}

} // namespace

namespace {

SliceImage dense_image(const Job& job, const ShardStore& store, uint32_t slice,
                       uint64_t version) {
  const auto count = job.plan.slices[slice].count;
  SliceImage image{version, {}, store.leases(slice)};
  image.tensors.push_back(
    TensorView::copy({store.values(slice, version), count}));
  const auto* state = store.state(slice, version);
  for (size_t i = 0; i + 1 < tensors_of(job); ++i)
    image.tensors.push_back(TensorView::copy({state + i * count, count}));
  return image;
}

/// A payload of ids alone.
TensorView ids_alone(const SparseTable& table, const IdPages& pages) {
  return RowWords{encode_pages(pages), 0, table.copy_width()}.view();
}

std::vector<SliceImage> table_images(const ShardStore& store, uint32_t slice,
                                     bool both) {
  const auto& table = store.table(slice);
  const auto newest = store.newest(slice);
  std::vector<SliceImage> images;
  if (both && newest > 0)
    images.push_back({newest - 1, {ids_alone(table, {})}, store.leases(slice)});
  images.push_back({newest, {ids_alone(table, {})}, store.leases(slice)});
  if (images.size() == 1) {
    for (const auto& pages : chunks_of(table, table.present()))
      images.back().tensors.push_back(copy_rows(table, pages));
    return images;
  }
  for (const auto& pages : chunks_of(table, table.present_before()))
    images.front().tensors.push_back(copy_rows_before(table, pages));
  const auto changed = table.changed();
  images.back().tensors = {ids_alone(table, changed.gone)};
  for (const auto& pages : chunks_of(table, changed.rows))
    images.back().tensors.push_back(copy_rows(table, pages));
  return images;
}

void put_table(ShardStore& store, uint32_t slice, const SliceImage& image,
               bool first) {
  auto& table = store.table(slice);
  SparseTable::Changed changed;
  std::vector<float> rows;
  for (size_t i = 0; i < image.tensors.size(); ++i) {
    const auto words = image.tensors[i].span();
    if (i == 0) {
      auto gone = read_wanted(words, table.copy_width(), ~uint64_t{0});
      kernels::require(gone.has_value(), "copied rows that are none");
      changed.gone = std::move(*gone);
      continue;
    }
    auto chunk = read_payload(words, table.copy_width());
    kernels::require(chunk.has_value(), "copied rows that are none");
    if (first) {
      table.put(chunk->pages, chunk->values);
      continue;
    }
    rows.insert(rows.end(), chunk->values,
                chunk->values + chunk->rows * table.copy_width());
    changed.rows.insert(changed.rows.end(), chunk->pages.begin(),
                        chunk->pages.end());
  }
  if (first)
    table.adopt(image.version + store.count_from());
  else
    table.follow(changed, rows.data());
}

} // namespace

std::vector<SliceImage> images_of(const Job& job, const ShardStore& store,
                                  uint32_t slice, bool both) {
  const auto newest = store.newest(slice);
  both = both && store.oldest(slice) != newest;
  if (job.plan.slices[slice].sparse())
    return table_images(store, slice, both);
  std::vector<SliceImage> images;
  if (both)
    images.push_back(dense_image(job, store, slice, newest - 1));
  images.push_back(dense_image(job, store, slice, newest));
  return images;
}

void put_images(const Job& job, ShardStore& store, uint32_t slice,
                const std::vector<SliceImage>& images) {
  const auto bytes = job.plan.slices[slice].count * sizeof(float);
  bool first = true;
  for (const auto& image : images) {
    auto target = first ? store.replace(slice, image.version)
                        : store.begin(slice);
    if (job.plan.slices[slice].sparse())
      put_table(store, slice, image, first);
    else
      for (auto* to = target.values; // the state follows the values
           const auto& tensor : image.tensors) {
        std::memcpy(to, tensor.data(), bytes);
        to += tensor.size();
      }
    if (first)
      store.install(slice, image.version, image.leases);
    else
      store.commit(slice, image.leases);
    first = false;
  }
}

std::vector<SliceCopy> to_parts(const SliceImage& image, uint32_t slice,
                                bool more) {
  std::vector<SliceCopy> parts;
  for (const auto& tensor : image.tensors)
    parts.push_back({{}, slice, image.version, 0, 0, more, tensor});
  parts.push_back(
    {{}, slice, image.version, 0, 0, more, to_bytes(image.leases)});
  for (uint32_t i = 0; i < parts.size(); ++i) {
    parts[i].part = i;
    parts[i].parts = static_cast<uint32_t>(parts.size());
  }
  return parts;
}

std::optional<SliceImage> ImageAssembly::take(const SliceCopy& copy) {
  const auto& slice = job_.plan.slices[slice_];
  const auto tensors = slice.sparse() ? copy.parts - 1 : tensors_of(job_);
  if (copy.part == 0 && copy.version >= min_version_) {
    min_version_ = copy.version + 1;
    image_ = {copy.version, {}, {}};
  }
  if (!image_ || copy.parts != tensors + 1 || tensors == 0
      || copy.version != image_->version || copy.part != image_->tensors.size())
    return std::nullopt;
  if (copy.part < tensors) {
    if (slice.sparse() || copy.values.size() == slice.count)
      image_->tensors.push_back(TensorView::copy(copy.values.span()));
    return std::nullopt;
  }
  auto leases = leases_from(copy.values);
  if (!leases)
    return std::nullopt;
  image_->leases = std::move(*leases);
  return std::exchange(image_, std::nullopt);
}

} // namespace troupe
