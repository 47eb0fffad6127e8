#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace troupe {

/// The different texts of a column, numbered in the order in which they come.
class ValueIndex {
public:
  /// The number of a text, which is added where it is new.
  uint32_t add(std::string_view text);

  bool has(std::string_view text) const;

  uint32_t size() const { return static_cast<uint32_t>(hashes_.size()); }
  std::string_view text(uint32_t number) const {
    return {bytes_.data() + ends_[number],
            static_cast<size_t>(ends_[number + 1] - ends_[number])};
  }
  /// What all texts take.
  uint64_t text_bytes() const { return bytes_.size(); }

private:
  bool find(std::string_view text, uint64_t hash, size_t& slot) const;
  void rebuild(size_t slots);

  uint64_t seed_ = 0;
  std::vector<uint32_t> slots_; ///< number + 1, or 0
  std::vector<uint64_t> hashes_;
  std::vector<char> bytes_;
  std::vector<uint64_t> ends_{0}; ///< where text i - 1 ends
};

} // namespace troupe
