#pragma once

#include "kernels/base/buffer.hpp"
#include "kernels/data/ascending_places.hpp"
#include "kernels/data/column.hpp"
#include "kernels/data/data_spec.hpp"
#include "kernels/data/sample_source.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/files/file_store.hpp"
#include "kernels/graph/graph.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A micro-batch's memory on the host, sized for a graph.
class BatchMemory {
public:
  BatchMemory(const Graph& graph, uint32_t max_rows);

  // Null where the graph does not take them.
  float* features() { return given(features_.data(), features_.size()); }
  int32_t* ids() { return given(ids_.data(), ids_.size()); }
  int32_t* labels() { return given(labels_.data(), labels_.size()); }
  float* targets() { return given(targets_.data(), targets_.size()); }
  /// The first `rows` rows; what the graph does not take is null.
  Batch batch(uint32_t rows, uint64_t key = 0) const;

private:
  template <class T>
  static T* given(T* first, size_t count) {
    return count > 0 ? first : nullptr;
  }

  Buffer features_;
  std::vector<int32_t> ids_;
  std::vector<int32_t> labels_;
  std::vector<float> targets_;
};

struct FittedColumns;
struct TableColumns;
class RowSupply;

/// A pass over the samples to train on: what is drawn of a sample follows from
/// it.
struct DataPass {
  uint64_t seed = 0;
  uint64_t data_epoch = 0;
};

/// Labelled samples. Features are in memory or left in their files; they are
/// bytes times `scale` (images) or float32, and where they are standardised
/// (value - mean) * inverse_deviation.
struct Dataset {
  std::string name;
  SampleShape shape;
  Column<uint8_t> bytes; ///< [samples, features], or empty
  float scale = 1.0f;    ///< of `bytes`
  Column<float> values;  ///< [samples, features], or empty
  /// Where features are that are not held: null where they are in `bytes` or
  /// `values`.
  std::shared_ptr<const SampleSource> in_files;
  bool files_hold_bytes = false; ///< else float32
  /// Who has all of the samples, where they are not here at all; else null.
  std::shared_ptr<const RowSupply> supply;
  uint64_t supplied = 0; ///< samples that it has
  /// Samples whose labels `in_files` has, too; 0: they are here.
  uint64_t unheld = 0;
  /// Where the features of sample i are in `bytes`, `values` or `in_files`;
  /// empty: at i. A part of what is mapped or in files has this, since it is
  /// not copied.
  AscendingPlaces places;
  std::vector<float> mean;
  std::vector<float> inverse_deviation; ///< [features] each, or empty
  std::vector<int32_t> ids;             ///< [samples, shape.ids], or empty
  std::vector<int32_t> labels;          ///< [samples], of classes and binary
  std::vector<float> targets;           ///< [samples], of numbers
  /// Samples of different lengths: sample i has the ids and values
  /// [starts[i], starts[i + 1]), at most shape.ids; gathered, absent ids and
  /// zeros follow. Else empty.
  std::vector<uint64_t> starts;
  /// Text: the ids in order. Sample i is the window of `window` ids from
  /// i * stride on, its labels the ids that follow each.
  std::vector<int32_t> tokens;
  uint64_t window = 0;
  uint64_t stride = 1;
  std::vector<std::string> columns; ///< names of the features, where known
  /// Of a table whose columns were read and not yet fitted; else null.
  std::shared_ptr<const TableColumns> table;
  /// How its columns became features, ids and labels, which characters a text
  /// has, or what scale=standard is by; null for other data.
  std::shared_ptr<FittedColumns> fitted;
  bool labelled = true; ///< false: its labels say nothing
  /// Characters or ids of an evaluation part that were left out, since the
  /// training part has none of them.
  uint64_t left_out = 0;

  uint64_t features() const { return elements(shape.features); }
  uint64_t samples() const;

  /// Copies samples into the first `count` rows of a batch.
  /// The same bits for the same rows, however they are grouped.
  /// To train on images that are augmented it takes the pass that it is for;
  /// without one nothing is drawn of them.
  void gather(const uint64_t* rows, uint32_t count, BatchMemory& out,
              const std::optional<DataPass>& pass = {}) const;

  /// Says that samples are gathered soon, by a call with the same arguments:
  /// what lies elsewhere is fetched meanwhile.
  void expect(const uint64_t* rows, uint32_t count,
              const std::optional<DataPass>& pass = {}) const;
  /// Whether expect() is worth a call.
  bool is_elsewhere() const {
    return supply || (in_files && in_files->is_elsewhere());
  }
  /// Whoever waits in gather() for samples that others read, or begins to,
  /// gives up with PassAbandoned until that is over.
  void pause_supply(bool on) const;
  /// Whoever waits in gather() for samples that others read gives up.
  void end_supply() const;

  /// Which row of `bytes` or `values` sample i has.
  uint64_t place(uint64_t i) const { return places.empty() ? i : places[i]; }

  /// The features of a sample before they are standardised, [features()].
  void raw_features(uint64_t sample, float* out,
                    const std::optional<DataPass>& pass = {}) const;

private:
  void gather_features(uint64_t row, float* out,
                       const std::optional<DataPass>& pass) const;
  void gather_ragged(uint64_t row, uint64_t at, BatchMemory& out) const;
};

/// Makes a set one of samples without labels, which are to be predicted: zeros
/// of a kind stand for them. `classes` 0: it is not known how many there are.
void take_no_labels(Dataset& data, uint64_t samples, LabelKind kind,
                    uint32_t classes);

struct SplitData {
  std::shared_ptr<Dataset> train;
  std::shared_ptr<Dataset> eval; ///< null when nothing is held out
};

/// What is held out for evaluation: a fraction, or another specification.
struct HeldOut {
  double fraction = 0;
  std::optional<DataSpec> spec;
};

/// What reading may take.
struct ReadLimits {
  /// Bytes of features that are held. Samples of kinds that can be left in
  /// their files are, where they are more; other kinds are refused. None: a
  /// quarter of the free memory for the former, no limit for the latter.
  std::optional<uint64_t> memory;
  /// Where it is kept which sample lies where; empty: nowhere.
  std::string index_folder;
  /// Samples are to be predicted: a table may lack the label, and npy labels.
  bool unlabelled = false;
  /// Samples are read as training mixes them, over and over; else once, in
  /// order.
  bool trains = false;
  /// Where places that are URLs are read; null: they are refused.
  std::shared_ptr<const FileStore> store = nullptr;
  /// Weights know text by this (Tokenizer::json()); empty: by characters, or
  /// nothing is known.
  std::string tokenizer{};
};

/// Loads what a specification names. Vocabulary, classes, widths and
/// statistics come from the training part alone; the evaluation part is brought
/// to them, and has the same shape. Of another specification, keys that it
/// leaves out are those of the first where they say how to read. `fitted`: what
/// weights say of the data that they were trained on, the columns of a table,
/// characters or scale=standard; such data are brought to that, and not fitted
/// again.
/// Errors: InputError naming the file, what is wrong with it and what to do;
/// UsageError where the two specifications cannot belong together. InputError
/// where what has to be held is more than `limits.memory`.
SplitData load_data(const DataSpec& spec, const HeldOut& held_out = {},
                    const ReadLimits& limits = {},
                    const std::shared_ptr<FittedColumns>& fitted = nullptr);

/// load_data without an evaluation part.
Dataset load_dataset(const DataSpec& spec);

/// Which samples a fraction takes for evaluation. Both parts keep the file's
/// order.
struct SplitRule {
  bool tail = false; ///< the last ones; else drawn
  uint64_t seed = 0; ///< what is drawn is a function of this and the counts
};
SplitRule split_rule(const DataSpec& spec);

/// How samples to train on are mixed in each data epoch: all of them, or in
/// blocks of neighbours (shuffle=blocks), as whoever reads whole blocks wants.
struct MixRule {
  uint32_t block = 0;  ///< samples; 0: all are mixed
  uint32_t window = 1; ///< blocks whose samples are mixed

  bool operator==(const MixRule&) const = default;
};
MixRule mix_rule(const DataSpec& spec);

/// The specification without what says how samples are mixed.
DataSpec without_mix(DataSpec spec);

/// Takes round(fraction n) samples out; of text always the last characters.
/// Errors: UsageError when fraction is not in [0, 1); InputError when a part
/// would be empty.
SplitData split(Dataset all, double eval_fraction, const SplitRule& rule = {});

/// The specification without what says which samples are held out.
DataSpec without_split(DataSpec spec);

/// Cuts text into a graph's windows: for training every start is a sample, for
/// evaluation they do not overlap. Other data stays as it is.
/// Errors: InputError when there is less text than one window.
void cut_windows(Dataset& data, const Graph& graph, bool evaluation);

} // namespace troupe
