#include "kernels/files/npy_array.hpp"
#include "kernels/files/npy_header.hpp"
#include "tests/unit/kernels/data_files.hpp"

using namespace troupe;
using namespace troupe::testing;

BOOST_AUTO_TEST_SUITE(npy_header_suite)

BOOST_AUTO_TEST_CASE(the_reader_takes_what_it_begins_for_any_shape) {
  const Folder folder;
  for (const auto& shape : std::vector<std::vector<uint64_t>>{
         {1}, {7}, {2, 3}, {4, 1, 5}, {1, 123456}, {3, 1, 1, 1, 1, 1, 1, 2}}) {
    auto bytes = npy_header("<f4", shape);
    BOOST_TEST(bytes.size() % 64 == 0u);
    uint64_t items = 1;
    for (auto extent : shape)
      items *= extent;
    std::vector<float> values(items);
    for (size_t i = 0; i < items; ++i)
      values[i] = static_cast<float>(i) / 3;
    bytes.append(reinterpret_cast<const char*>(values.data()), 4 * items);
    const auto array = read_npy_array(folder.put("array.npy", bytes));
    BOOST_TEST((array.shape == shape));
    BOOST_TEST(array.kind == 'f');
    BOOST_REQUIRE(array.items() == items);
    for (size_t i = 0; i < items; ++i)
      BOOST_REQUIRE(array.item(i) == double{values[i]});
  }
}

BOOST_AUTO_TEST_CASE(it_is_what_numpy_writes) {
  // numpy.save of numpy.zeros(3, numpy.int32)
  const auto header = npy_header("<i4", {3});
  BOOST_TEST(header.substr(0, 10)
             == (std::string{"\x93NUMPY\x01\x00v\x00", 10}));
  BOOST_TEST(header.substr(10, 60)
             == "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }   ");
  BOOST_TEST(header.size() == 128u);
  BOOST_TEST(header.back() == '\n');
}

BOOST_AUTO_TEST_SUITE_END()
