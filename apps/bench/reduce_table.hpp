#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// The figures of one all-reduce, a value a round each, in microseconds.
struct ReduceRow {
  struct Peer {
    std::string name;
    std::string version;
    std::string algorithm;
    std::vector<double> us;
  };

  std::string link;
  std::string reduction;
  uint32_t members = 0;
  uint64_t bytes = 0;
  std::vector<double> own;
  std::vector<double> limit; ///< empty: none is known
  std::vector<Peer> peers;
};

/// Keeps rows as JSON, and prints them as they come.
class ReduceTable {
public:
  static void print_head(const std::string& isa, uint32_t rounds);
  static void print(const ReduceRow& row);
  void keep(const ReduceRow& row);
  /// Errors: InputError when the file cannot be written.
  void write(const std::string& path) const;

private:
  nlohmann::json rows_ = nlohmann::json::array();
};

/// "64 KiB"
std::string bytes_in_words(uint64_t bytes);
double median_of(std::vector<double> values);
/// The middle half of the values, over their median.
double spread_of(std::vector<double> values);

} // namespace troupe
