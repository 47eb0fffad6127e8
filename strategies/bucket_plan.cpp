#include "strategies/bucket_plan.hpp"

#include "strategies/require.hpp"

#include <string_view>

namespace troupe {

namespace {

using strategies::require;

class Fnv {
public:
  void add(uint64_t value) {
    for (int byte = 0; byte < 8; ++byte)
      mix(static_cast<uint8_t>(value >> 8 * byte));
  }
  void add(std::string_view text) {
    add(text.size());
    for (auto c : text)
      mix(static_cast<uint8_t>(c));
  }
  uint64_t value() const { return hash_; }

private:
  void mix(uint8_t byte) { hash_ = (hash_ ^ byte) * 0x100000001b3u; }

  uint64_t hash_ = 0xcbf29ce484222325u;
};

} // namespace

std::vector<Bucket> fuse(const std::vector<Variable>& variables,
                         const std::vector<uint32_t>& gradient_order,
                         uint64_t bucket_bytes) {
  require(gradient_order.size() == variables.size(),
          "an order that is not of all variables");
  std::vector<bool> seen(variables.size(), false);
  std::vector<Bucket> buckets;
  bool open = false;
  for (auto variable : gradient_order) {
    require(variable < variables.size() && !seen[variable],
            "an order that names a variable twice");
    seen[variable] = true;
    if (!open)
      buckets.emplace_back();
    auto& bucket = buckets.back();
    bucket.variables.push_back(variable);
    bucket.elements += variables[variable].size();
    open = bucket.elements * sizeof(float) < bucket_bytes;
  }
  return buckets;
}

uint64_t layout_hash(const std::vector<Variable>& variables,
                     const std::vector<Bucket>& buckets) {
  Fnv hash;
  hash.add(buckets.size());
  for (const auto& bucket : buckets) {
    hash.add(bucket.variables.size());
    for (auto index : bucket.variables) {
      const auto& variable = variables[index];
      hash.add(variable.name);
      hash.add(variable.shape.size());
      for (auto extent : variable.shape)
        hash.add(extent);
    }
  }
  return hash.value();
}

} // namespace troupe
