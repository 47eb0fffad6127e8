#pragma once

#include "actors/sockets/endpoint.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// Reads a whole number written in digits alone.
/// Errors: UsageError "expected a whole number from … to …" for anything else:
/// signs, blanks, trailing characters, overflow.
uint64_t parse_whole(const std::string& text, uint64_t lowest,
                     uint64_t highest);

/// Reads a number of bytes: digits, and KiB, MiB or GiB behind them.
/// Errors: UsageError.
uint64_t parse_bytes(const std::string& text, uint64_t lowest,
                     uint64_t highest);

/// The words between commas.
std::vector<std::string> split_list(const std::string& text);

/// An interval of numbers, named by its ends.
struct RealRange {
  double lowest = 0;
  double highest = 0;
  bool open_low = false;  ///< lowest itself is out
  bool open_high = false; ///< highest itself is out

  bool has(double value) const;
  std::string words() const; ///< "a number from 0 to below 1"
};
/// At least 0, no upper end.
RealRange not_negative();
/// Above 0, no upper end.
RealRange positive();
/// [0, 1)
RealRange fraction();

/// Reads a finite number, `1e-3` or `0.25`.
/// Errors: UsageError "expected " + range.words().
double parse_real(const std::string& text, const RealRange& range);

/// Writes the fewest digits that parse_real reads back as the same bits.
std::string print_real(double value);
std::string print_real(float value);

/// Reads HOST:PORT where a user wrote it.
/// Errors: UsageError "expected HOST:PORT …".
Endpoint parse_address(const std::string& text);
/// Reads one, or several with commas.
std::vector<Endpoint> parse_addresses(const std::string& text);

} // namespace troupe
