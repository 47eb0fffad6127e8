#include "kernels/data/dataset.hpp"

#include "kernels/base/error.hpp"
#include "kernels/data/row_supply.hpp"
#include "kernels/files/free_memory.hpp"
#include "kernels/numbers/random.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

constexpr uint32_t rows_ahead = 4;

/// Rows are drawn, so what says where a row is and which label it has comes
/// from memory: while those before it are read.
void prefetch(const Dataset& data, uint64_t row) {
  if (row < data.labels.size())
    __builtin_prefetch(data.labels.data() + row);
  else if (row < data.targets.size())
    __builtin_prefetch(data.targets.data() + row);
  if (data.in_files && !data.in_files->is_elsewhere())
    data.in_files->expect(data.place(row));
}

} // namespace

BatchMemory::BatchMemory(const Graph& graph, uint32_t max_rows)
  : features_(max_rows * graph.features()),
    ids_(max_rows * graph.ids()),
    labels_(graph.classes() > 0 ? max_rows * graph.labels() : 0),
    targets_(graph.classes() > 0 ? 0 : max_rows * graph.labels()) {}

Batch BatchMemory::batch(uint32_t rows, uint64_t key) const {
  Batch batch;
  batch.features = given(features_.data(), features_.size());
  batch.ids = given(ids_.data(), ids_.size());
  batch.labels = given(labels_.data(), labels_.size());
  batch.targets = given(targets_.data(), targets_.size());
  batch.rows = rows;
  batch.key = key;
  return batch;
}

uint64_t Dataset::samples() const {
  if (supply)
    return supplied;
  if (shape.label == LabelKind::tokens)
    return window == 0 || tokens.size() <= window
             ? 0
             : (tokens.size() - window - 1) / stride + 1;
  if (unheld > 0)
    return unheld;
  return shape.label == LabelKind::number ? targets.size() : labels.size();
}

void Dataset::raw_features(uint64_t sample, float* out,
                           const std::optional<DataPass>& pass) const {
  // Locals: `out` might point at members for all the compiler knows.
  const auto width = features();
  const auto factor = scale;
  const auto widen = [=](const uint8_t* from) {
    for (uint64_t k = 0; k < width; ++k)
      out[k] = static_cast<float>(from[k]) * factor;
  };
  const auto row = place(sample);
  SampleDraw draw;
  if (pass && in_files) // of the whole set's numbers, whatever was held out
    draw.key = augment_key(pass->seed, pass->data_epoch, row);
  if (in_files && files_hold_bytes) {
    thread_local std::vector<uint8_t> read;
    read.resize(width);
    in_files->read(row, read.data(), draw);
    widen(read.data());
  } else if (in_files) {
    in_files->read(row, out, draw);
  } else if (!bytes.empty()) {
    widen(bytes.data() + row * width);
  } else if (!values.empty()) {
    std::copy_n(values.data() + row * width, width, out);
  }
}

void Dataset::gather_features(uint64_t row, float* out,
                              const std::optional<DataPass>& pass) const {
  raw_features(row, out, pass);
  if (mean.empty())
    return;
  const auto width = features();
  const auto* middle = mean.data();
  const auto* inverse = inverse_deviation.data();
  for (uint64_t k = 0; k < width; ++k)
    out[k] = (out[k] - middle[k]) * inverse[k];
}

void Dataset::gather_ragged(uint64_t row, uint64_t at, BatchMemory& out) const {
  const auto begin = starts[row];
  const auto count = starts[row + 1] - begin;
  if (auto* to = out.ids()) {
    to += at * shape.ids;
    std::copy_n(ids.data() + begin, count, to);
    std::fill(to + count, to + shape.ids, -1);
  }
  if (auto* to = out.features()) {
    to += at * shape.ids;
    std::copy_n(values.data() + begin, count, to);
    std::fill(to + count, to + shape.ids, 0.0f);
  }
}

void Dataset::expect(const uint64_t* rows, uint32_t count,
                     const std::optional<DataPass>& pass) const {
  if (supply)
    supply->expect(rows, count, pass.value_or(DataPass{}));
  if (!in_files || !in_files->is_elsewhere())
    return;
  for (uint64_t i = 0; i < count; ++i)
    in_files->expect(place(rows[i]));
}

void Dataset::pause_supply(bool on) const {
  if (supply)
    supply->pause(on);
}

void Dataset::end_supply() const {
  if (supply)
    supply->end();
}

void Dataset::gather(const uint64_t* rows, uint32_t count, BatchMemory& out,
                     const std::optional<DataPass>& pass) const {
  if (supply) {
    supply->gather(rows, count, out, pass.value_or(DataPass{}));
    return;
  }
  expect(rows, count);
  const auto all = samples();
  const auto width = features();
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t row = rows[i];
    if (i + rows_ahead < count && rows[i + rows_ahead] < all)
      prefetch(*this, rows[i + rows_ahead]);
    if (row >= all)
      throw std::logic_error("row " + std::to_string(row) + " of "
                             + std::to_string(all) + " samples");
    if (!starts.empty()) {
      gather_ragged(row, i, out);
    } else {
      if (auto* to = out.features(); to != nullptr && width > 0)
        gather_features(row, to + i * width, pass);
      if (auto* to = out.ids(); to != nullptr && !ids.empty())
        std::copy_n(ids.data() + row * shape.ids, shape.ids,
                    to + i * shape.ids);
      else if (to != nullptr && in_files)
        in_files->read_ids(place(row), to + i * shape.ids);
    }
    switch (shape.label) {
      case LabelKind::tokens: {
        const auto* from = tokens.data() + row * stride;
        std::copy_n(from, window, out.ids() + i * window);
        std::copy_n(from + 1, window, out.labels() + i * window);
        break;
      }
      case LabelKind::number:
        if (auto* to = out.targets())
          to[i] = targets[row];
        break;
      case LabelKind::classes:
      case LabelKind::binary:
        if (auto* to = out.labels())
          to[i] = unheld > 0 ? in_files->label(place(row)) : labels[row];
    }
  }
}

namespace {

/// Moves the samples from `kept` on to an empty set of the same shape.
void cut_tail(Dataset& all, Dataset& tail, uint64_t kept) {
  const auto cut = [](auto& from, auto& to, uint64_t at) {
    if (from.empty())
      return;
    to.assign(from.begin() + static_cast<ptrdiff_t>(at), from.end());
    from.resize(at);
  };
  const bool ragged = !all.starts.empty();
  const auto values = ragged ? all.starts[kept] : kept * all.features();
  const auto ids = ragged ? all.starts[kept] : kept * all.shape.ids;
  if (!all.bytes.empty())
    tail.bytes = all.bytes.cut(values);
  if (!all.values.empty())
    tail.values = all.values.cut(values);
  if (all.in_files) {
    tail.in_files = all.in_files;
    const auto many = all.samples() - kept;
    need_memory(many * sizeof(uint32_t),
                all.name + ": which samples are held out", "hold out less");
    tail.places.reserve(many);
    for (uint64_t i = kept, samples = all.samples(); i < samples; ++i)
      tail.places.push_back(i);
  }
  if (all.unheld > 0) {
    tail.unheld = all.unheld - kept;
    all.unheld = kept;
  }
  cut(all.ids, tail.ids, ids);
  cut(all.labels, tail.labels, kept);
  cut(all.targets, tail.targets, kept);
  cut(all.tokens, tail.tokens, kept);
  if (!ragged)
    return;
  tail.starts.assign(all.starts.begin() + static_cast<ptrdiff_t>(kept),
                     all.starts.end());
  all.starts.resize(kept + 1);
  for (auto& start : tail.starts)
    start -= values;
}

/// Which samples are held out: every choice of so many is as likely.
/// Source: Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S.
std::vector<bool> chosen(uint64_t seed, uint64_t samples, uint64_t held_out) {
  __extension__ using Wide = unsigned __int128;
  constexpr uint64_t stream = 0x6576616c;
  const auto key = kernels::stream_key(seed, stream);
  std::vector<bool> out(samples);
  auto wanted = held_out;
  for (uint64_t i = 0; i < samples; ++i) {
    const auto left = samples - i;
    const auto bits = kernels::random_bits(key, i);
    const auto drawn = left < uint64_t{1} << 32
                         ? ((bits >> 32) * left) >> 32
                         : static_cast<uint64_t>(Wide{bits} * left >> 64);
    if (drawn < wanted) {
      out[i] = true;
      --wanted;
    }
  }
  return out;
}

/// Moves what is held out, `width` values a sample, to `to`.
template <class Values>
void part(Values& from, Values& to, const std::vector<bool>& held_out,
          uint64_t width) {
  if (from.empty())
    return;
  const auto* values = std::as_const(from).data();
  std::vector<typename Values::value_type> kept;
  std::vector<typename Values::value_type> drawn;
  const auto many =
    static_cast<size_t>(std::count(held_out.begin(), held_out.end(), true));
  drawn.reserve(many * width);
  kept.reserve((held_out.size() - many) * width);
  for (size_t i = 0; i < held_out.size(); ++i) {
    auto& side = held_out[i] ? drawn : kept;
    side.insert(side.end(), values + i * width, values + (i + 1) * width);
  }
  from = std::move(kept);
  to = std::move(drawn);
}

/// The same of samples of different lengths, that begin at `starts`.
template <class Values>
void part(Values& from, Values& to, const std::vector<bool>& held_out,
          const std::vector<uint64_t>& starts) {
  const auto* values = std::as_const(from).data();
  std::vector<typename Values::value_type> kept;
  std::vector<typename Values::value_type> drawn;
  for (size_t i = 0; i < held_out.size(); ++i) {
    auto& side = held_out[i] ? drawn : kept;
    side.insert(side.end(), values + starts[i], values + starts[i + 1]);
  }
  from = std::move(kept);
  to = std::move(drawn);
}

/// Both parts look into one mapping.
template <class T>
bool share(const Column<T>& all, Column<T>& drawn) {
  if (all.is_view())
    drawn = all;
  return all.is_view();
}

void draw(Dataset& all, Dataset& drawn, const std::vector<bool>& held_out) {
  part(all.labels, drawn.labels, held_out, 1);
  part(all.targets, drawn.targets, held_out, 1);
  if (!all.starts.empty()) {
    part(all.ids, drawn.ids, held_out, all.starts);
    part(all.values, drawn.values, held_out, all.starts);
    std::vector<uint64_t> kept{0};
    drawn.starts = {0};
    for (size_t i = 0; i < held_out.size(); ++i) {
      auto& side = held_out[i] ? drawn.starts : kept;
      side.push_back(side.back() + all.starts[i + 1] - all.starts[i]);
    }
    all.starts = std::move(kept);
    return;
  }
  part(all.ids, drawn.ids, held_out, all.shape.ids);
  drawn.in_files = all.in_files;
  if (all.in_files || share(all.bytes, drawn.bytes)
      || share(all.values, drawn.values)) {
    const auto many =
      static_cast<size_t>(std::count(held_out.begin(), held_out.end(), true));
    need_memory(held_out.size() * sizeof(uint32_t),
                all.name + ": which samples are held out",
                "add eval=tail, which takes the last ones");
    drawn.places.reserve(many);
    all.places.reserve(held_out.size() - many);
    for (size_t i = 0; i < held_out.size(); ++i)
      (held_out[i] ? drawn : all).places.push_back(i);
    if (all.unheld > 0) {
      drawn.unheld = many;
      all.unheld -= many;
    }
    return;
  }
  part(all.bytes, drawn.bytes, held_out, all.features());
  part(all.values, drawn.values, held_out, all.features());
}

} // namespace

SplitData split(Dataset all, double eval_fraction, const SplitRule& rule) {
  if (!(eval_fraction >= 0.0 && eval_fraction < 1.0))
    throw UsageError("the fraction held out for evaluation is "
                     + std::to_string(eval_fraction)
                     + "; it must be at least 0 and below 1");
  const auto samples = all.shape.label == LabelKind::tokens ? all.tokens.size()
                                                            : all.samples();
  const auto held_out = static_cast<uint64_t>(
    std::round(eval_fraction * static_cast<double>(samples)));
  const auto kept = samples - held_out;
  if (kept == 0)
    throw InputError(all.name + ": of " + std::to_string(samples)
                     + " samples none is left for training; "
                     + "hold out less or take more samples");
  if (eval_fraction > 0.0 && held_out == 0)
    throw UsageError("--eval-fraction: of " + std::to_string(samples)
                     + " samples of " + all.name
                     + " none would be held out for evaluation; hold out more "
                       "or take more samples");
  SplitData result;
  if (held_out > 0) {
    auto eval = std::make_shared<Dataset>();
    eval->name = all.name;
    eval->shape = all.shape;
    eval->scale = all.scale;
    eval->files_hold_bytes = all.files_hold_bytes;
    eval->columns = all.columns;
    eval->table = all.table;
    eval->labelled = all.labelled;
    if (rule.tail || all.shape.label == LabelKind::tokens)
      cut_tail(all, *eval, kept);
    else {
      // Before so many are drawn: their places, where those are what is held.
      const auto each = all.in_files ? sizeof(uint32_t) : 0;
      need_memory(samples / 8 + samples * each,
                  all.name + ": which samples are held out",
                  "add eval=tail, which takes the last ones");
      draw(all, *eval, chosen(rule.seed, samples, held_out));
    }
    result.eval = std::move(eval);
  }
  result.train = std::make_shared<Dataset>(std::move(all));
  return result;
}

void take_no_labels(Dataset& data, uint64_t samples, LabelKind kind,
                    uint32_t classes) {
  data.labelled = false;
  data.shape.label = kind;
  data.shape.classes = classes;
  const bool numbers = kind == LabelKind::number;
  data.labels.assign(numbers ? 0 : samples, 0);
  data.targets.assign(numbers ? samples : 0, 0.0f);
}

void cut_windows(Dataset& data, const Graph& graph, bool evaluation) {
  if (data.shape.label != LabelKind::tokens)
    return;
  data.window = graph.ids();
  data.stride = evaluation ? data.window : 1;
  if (data.samples() == 0)
    throw InputError(data.name + ": " + std::to_string(data.tokens.size())
                     + " characters are fewer than one window of "
                     + std::to_string(data.window)
                     + " and the one that follows; take more text");
}

} // namespace troupe
