#include "tests/unit/kernels/recorded_bits.hpp"

#include "kernels/cpu/isa.hpp"
#include "kernels/files/safetensors.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <fstream>

namespace troupe::test {

void record_bits(const std::string& what,
                 const std::vector<std::span<const std::byte>>& values) {
  static const char* const path = std::getenv("TROUPE_BITS");
  if (path == nullptr || kernels::selected_isa() != kernels::highest_isa())
    return;
  std::vector<std::byte> all;
  for (const auto& some : values)
    all.insert(all.end(), some.begin(), some.end());
  std::ofstream file{path, std::ios::app};
  file << boost::unit_test::framework::current_test_case().full_name() << ' '
       << what << ' ' << sha256(all) << '\n';
  BOOST_REQUIRE_MESSAGE(file.flush(), path << " cannot be written");
}

} // namespace troupe::test
