#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// Labelled samples in memory. Features are bytes times `scale` (images) or
/// float32; labels are classes.
struct Dataset {
  std::string name;
  uint32_t features = 0; ///< elements of a sample
  uint32_t classes = 0;
  std::vector<uint8_t> bytes; ///< [samples, features], or empty
  float scale = 1.0f;         ///< of `bytes`
  std::vector<float> values;  ///< [samples, features], or empty
  std::vector<int32_t> labels;

  uint64_t samples() const { return labels.size(); }

  /// Copies rows into out [count, features] and labels_out [count].
  /// The same bits for the same rows, however they are grouped.
  void gather(const uint32_t* rows, uint32_t count, float* out,
              int32_t* labels_out) const;
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

/// Splits off the last round(fraction n) samples, in file order.
/// Errors: UsageError when fraction is not in [0, 1); InputError when a part
/// would be empty.
struct SplitData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> eval; ///< null when fraction is 0
};
SplitData split(Dataset all, double eval_fraction);

} // namespace troupe
