#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// Extents of a tensor, outermost first, row-major. A value's shape leaves out
/// the rows of the micro-batch, which come before all others.
using Shape = std::vector<uint64_t>;
uint64_t elements(const Shape& shape);     ///< 1 for no extents
std::string to_string(const Shape& shape); ///< "[28, 28, 1]"

enum class LabelKind : uint8_t {
  classes, ///< one class index a sample
  binary,  ///< 0 or 1
  number,  ///< float32 targets
  tokens,  ///< the id that follows each position: one label a position
};
/// "classes", "binary", "number" or "tokens", as model files and weights have
/// it; nothing for another text.
const char* to_string(LabelKind kind);
std::optional<LabelKind> label_kind(std::string_view text);

/// The shape of a data set's samples, which models fit themselves to.
struct SampleShape {
  Shape features;          ///< float32 values; images are [height, width,
                           ///< channels]; empty: none
  uint32_t ids = 0;        ///< int32 ids, -1 where absent; text: 0, the model
                           ///< sets the length of a window
  uint32_t vocabulary = 0; ///< ids lie in [0, vocabulary)
  LabelKind label = LabelKind::classes;
  uint32_t classes = 0; ///< of LabelKind::classes

  bool operator==(const SampleShape&) const = default;
  bool known() const { return !features.empty() || vocabulary > 0; }
};

} // namespace troupe
