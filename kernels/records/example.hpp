#pragma once

#include "kernels/records/record_format.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace troupe {

enum class FeatureKind : uint8_t { none, bytes, floats, integers };

/// A feature of a tf.train.Example: a name and a list of values of one kind,
/// that is taken apart where it is asked for.
struct ExampleFeature {
  std::string_view name;
  FeatureKind kind = FeatureKind::none;
  std::span<const uint8_t> list; ///< the list's message

  /// How many values it has.
  uint64_t count(const Record& record) const;
  /// Writes its numbers as float32; `out` has room for count().
  void numbers(const Record& record, float* out) const;
  /// Its first number. Errors: InputError where there is not just one.
  double number(const Record& record) const;
  /// Its only bytes. Errors: InputError where there is not just one.
  std::span<const uint8_t> bytes(const Record& record) const;
};

/// Takes a serialised tf.train.Example apart, features by name; where a
/// name occurs twice the later one counts. Nothing is copied.
/// Source: tensorflow/core/example/example.proto and feature.proto, and the
/// encoding page of Protocol Buffers.
/// Errors: InputError with file and offset (not such a message).
void parse_example(const Record& record, std::vector<ExampleFeature>& out);

} // namespace troupe
