// actors/stores/s3_listing.cpp: listings and errors of a store.

#include "actors/stores/s3_listing.hpp"
#include "tests/fuzz/input.hpp"

#include <algorithm>
#include <cctype>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using troupe::fuzz::holds;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  if (const auto listing = troupe::parse_s3_listing(text)) {
    uint64_t bytes = 0;
    for (const auto& object : listing->objects) {
      holds(!object.key.empty(), "an object has a name");
      bytes += object.key.size() + object.tag.size();
    }
    holds(bytes <= size, "nothing grows");
  }
  const auto error = troupe::parse_s3_error(text);
  for (const auto& word : {error.code, error.region})
    holds(std::all_of(word.begin(), word.end(),
                      [](unsigned char c) {
                        return std::isalnum(c) != 0 || c == '-';
                      }),
          "what is shown is a word");
  return 0;
}
