#pragma once

#include "kernels/data/dataset.hpp"

#include <span>
#include <string>

namespace troupe {

/// What a key means to the specification of `--eval-data`.
enum class KeyScope : uint8_t {
  own,       ///< says which samples: each specification for itself
  inherited, ///< says how to read: that of --data where it gives none
  shared,    ///< says what samples mean: that of --data; another is refused
};

struct DataKey {
  const char* name;
  KeyScope scope;
};

/// A kind of data set. Adding one is a line of the table in data_kinds.cpp.
struct DataKind {
  const char* name;  ///< "csv"; of generators with the colon: "synthetic:text"
  const char* where; ///< "FILE", "DIR"; empty for a generator
  std::span<const DataKey> keys;
  /// Checks the values of the options; may be null.
  void (*check)(const DataSpec&);
  /// Reads all samples; what depends on a training part is left for fit.
  Dataset (*read)(const DataSpec&);
  /// Derives from the training part what it alone decides (vocabulary, classes,
  /// widths) and brings both parts to it; may be null. `eval` may be null.
  void (*fit)(const DataSpec&, Dataset& train, Dataset* eval);
  /// Instead of `read` for kinds that limits matter to, as to all that read
  /// files: samples can be left there, may lack the label, or lie elsewhere.
  Dataset (*read_within)(const DataSpec&, const ReadLimits&) = nullptr;
  /// Instead of `fit` where weights have the characters of the text that they
  /// were trained on, or its tokenizer: brings a part to these. May be null.
  void (*apply)(const DataSpec&, const std::shared_ptr<FittedColumns>& kept,
                Dataset& part) = nullptr;
  /// Of a kind whose samples need no labels where they are to be predicted:
  /// checks that it names some. May be null.
  void (*check_labels)(const DataSpec&) = nullptr;
};

/// Errors: UsageError for a kind that does not exist.
const DataKind& kind_of(const DataSpec& spec);
std::string data_kind_names(); ///< "mnist, csv, …"

/// Errors: UsageError (kind, keys, values).
void check(const DataSpec& spec);

/// `eval` with the keys that it takes over from `train` where it gives none.
/// Errors: UsageError (a key that has to be as there is not).
DataSpec completed(DataSpec eval, const DataSpec& train);

/// A specification with what weights say of the data that they were trained on:
/// the columns of a table, and scale=standard where it says no scale= itself.
/// Errors: UsageError (it says something else of columns).
DataSpec as_fitted(DataSpec spec, const FittedColumns& fitted);

} // namespace troupe
