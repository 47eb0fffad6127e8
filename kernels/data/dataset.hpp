#pragma once

#include "kernels/buffer.hpp"
#include "kernels/graph/graph.hpp"
#include "kernels/replica.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// A micro-batch's memory on the host, sized for a graph.
class BatchMemory {
public:
  BatchMemory(const Graph& graph, uint32_t max_rows);

  float* features() { return features_.data(); }
  int32_t* ids() { return ids_.data(); }
  int32_t* labels() { return labels_.data(); }
  float* targets() { return targets_.data(); }
  /// The first `rows` rows; what the graph does not take is null.
  Batch batch(uint32_t rows, uint64_t key = 0) const;

private:
  Buffer features_;
  std::vector<int32_t> ids_;
  std::vector<int32_t> labels_;
  std::vector<float> targets_;
};

/// Labelled samples in memory. Features are bytes times `scale` (images) or
/// float32.
struct Dataset {
  std::string name;
  SampleShape shape;
  std::vector<uint8_t> bytes;  ///< [samples, features], or empty
  float scale = 1.0f;          ///< of `bytes`
  std::vector<float> values;   ///< [samples, features], or empty
  std::vector<int32_t> ids;    ///< [samples, shape.ids], or empty
  std::vector<int32_t> labels; ///< [samples], of classes and binary
  std::vector<float> targets;  ///< [samples], of numbers
  /// Text: the ids in order. Sample i is the window of `window` ids from
  /// i * stride on, its labels the ids that follow each.
  std::vector<int32_t> tokens;
  uint64_t window = 0;
  uint64_t stride = 1;

  uint64_t features() const { return elements(shape.features); }
  uint64_t samples() const;

  /// Copies samples into the first `count` rows of a batch.
  /// The same bits for the same rows, however they are grouped.
  void gather(const uint32_t* rows, uint32_t count, BatchMemory& out) const;
};

/// Data specification `KIND:WHERE[?key=value&…]` taken apart (CLI.md).
struct DataSpec {
  std::string kind;
  std::string where;
  std::vector<std::pair<std::string, std::string>> options;
};
/// Checks kind and keys without touching any file.
/// Errors: UsageError (unknown kind, unknown key, malformed value; kinds of
/// CLI.md that do not exist: "not available yet").
DataSpec parse_data_spec(const std::string& text);

/// Loads what a specification names: mnist:DIR (split=auto|train|test),
/// synthetic:digits (samples=60000, seed=0).
/// Errors: InputError naming the file, what is wrong with it and what to do.
Dataset load_dataset(const DataSpec& spec);

/// Splits off the last round(fraction n) samples (text: characters), in file
/// order.
/// Errors: UsageError when fraction is not in [0, 1); InputError when a part
/// would be empty.
struct SplitData {
  std::shared_ptr<Dataset> train;
  std::shared_ptr<Dataset> eval; ///< null when fraction is 0
};
SplitData split(Dataset all, double eval_fraction);

/// Cuts text into a graph's windows: for training every start is a sample, for
/// evaluation they do not overlap. Other data stays as it is.
/// Errors: InputError when there is less text than one window.
void cut_windows(Dataset& data, const Graph& graph, bool evaluation);

} // namespace troupe
