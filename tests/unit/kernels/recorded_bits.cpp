#include "tests/unit/kernels/recorded_bits.hpp"

#include "kernels/cpu/isa.hpp"
#include "kernels/files/safetensors.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <fstream>

namespace troupe::test {

namespace {

const char* bits_file() {
  static const char* const named = std::getenv("TROUPE_BITS");
  return named;
}

} // namespace

bool records_bits() {
  return bits_file() != nullptr;
}

void record_bits(const std::string& what,
                 const std::vector<std::span<const std::byte>>& values) {
  if (!records_bits() || kernels::selected_isa() != kernels::highest_isa())
    return;
  std::vector<std::byte> all;
  for (const auto& some : values)
    all.insert(all.end(), some.begin(), some.end());
  std::ofstream file{bits_file(), std::ios::app};
  file << boost::unit_test::framework::current_test_case().full_name() << ' '
       << what << ' ' << sha256(all) << '\n';
  BOOST_REQUIRE_MESSAGE(file.flush(), bits_file() << " cannot be written");
}

} // namespace troupe::test
