#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::kernels {

/// The text of --model taken apart: KIND, or KIND:A-B-C.
/// Errors: UsageError that names the text.
struct ModelText {
  explicit ModelText(const std::string& model);

  std::string model; ///< as given
  std::string kind;
  std::vector<std::string> parts; ///< after the colon, between dashes

  /// All parts as widths: of input, layers and output of an mlp.
  std::vector<uint64_t> widths() const;
  /// The number of the part that starts with a letter; there must be one.
  uint64_t letter(char letter, uint64_t lowest, uint64_t highest) const;
  /// Likewise, `fallback` where there is none.
  uint64_t letter_or(char letter, uint64_t lowest, uint64_t highest,
                     uint64_t fallback) const;
  /// Likewise a fraction in [0, 1); 0 where there is none.
  double fraction(char letter) const;
  /// Refuses parts that nobody asked for, and those that come twice.
  void finish() const;

private:
  [[noreturn]] void refuse(const std::string& what) const;
  const std::string* part(char letter) const;
  std::string example() const;

  mutable std::string asked_; ///< letters
};

} // namespace troupe::kernels
