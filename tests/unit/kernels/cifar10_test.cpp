#include "kernels/data/cifar10.hpp"
#include "tests/unit/kernels/data_files.hpp"

using namespace troupe::testing;
using troupe::InputError;

BOOST_AUTO_TEST_SUITE(cifar10)

namespace {

uint8_t pixel(size_t record, size_t channel, size_t k) {
  return static_cast<uint8_t>(record * 31 + channel * 85 + k * 7 + k / 256);
}

Bytes records(size_t count, uint8_t label) {
  Bytes result;
  for (size_t i = 0; i < count; ++i) {
    result.push_back(label);
    for (size_t c = 0; c < 3; ++c)
      for (size_t k = 0; k < 1024; ++k)
        result.push_back(pixel(i, c, k));
  }
  return result;
}

void put_batches(const Folder& folder, int last = 5) {
  for (int i = 1; i <= last; ++i)
    folder.put("data_batch_" + std::to_string(i) + ".bin",
               records(2, static_cast<uint8_t>(i)));
}

void refuses(const Folder& folder, std::vector<std::string> words,
             const std::string& options = "") {
  refuses_data("cifar10:" + folder.path.string() + options, words);
}

} // namespace

BOOST_AUTO_TEST_CASE(planes_become_channels_of_pixels) {
  const Folder folder;
  put_batches(folder);
  folder.put("test_batch.bin.gz", gzip(records(3, 9)));
  const auto place = "cifar10:" + folder.path.string();
  const auto set = *load(place).train;
  BOOST_TEST(set.samples() == 10u);
  BOOST_TEST((set.shape.features == troupe::Shape{32, 32, 3}));
  BOOST_TEST(set.shape.classes == 10u);
  BOOST_TEST(
    (set.labels == std::vector<int32_t>{1, 1, 2, 2, 3, 3, 4, 4, 5, 5}));
  troupe::BatchMemory batch{graph_of(set.shape), 1};
  const uint64_t row = 3;
  set.gather(&row, 1, batch);
  for (size_t k = 0; k < 1024; ++k)
    for (size_t c = 0; c < 3; ++c)
      BOOST_REQUIRE(batch.features()[k * 3 + c]
                    == static_cast<float>(pixel(1, c, k)) * (1.0f / 255.0f));
  BOOST_TEST(load(place + "?split=test").train->samples() == 3u);
  const auto parts = load(place + "?split=train", place + "?split=test");
  BOOST_TEST(parts.train->samples() == 10u);
  BOOST_TEST(parts.eval->samples() == 3u);
}

BOOST_AUTO_TEST_CASE(the_test_file_alone_is_found) {
  const Folder folder;
  folder.put("test_batch.bin", records(1, 0));
  BOOST_TEST(load("cifar10:" + folder.path.string()).train->samples() == 1u);
  refuses(folder, {"data_batch_1.bin"}, "?split=train");
}

BOOST_AUTO_TEST_CASE(what_is_missing_cut_or_wrong_is_named) {
  const Folder folder;
  refuses(folder, {"data_batch_1.bin"});
  put_batches(folder, 4);
  refuses(folder, {"data_batch_5.bin"});
  auto cut = records(2, 1);
  cut.pop_back();
  folder.put("data_batch_5.bin", cut);
  refuses(folder, {"data_batch_5.bin", "record 1", "3072 of its 3073"});
  folder.put("data_batch_5.bin", Bytes{});
  refuses(folder, {"data_batch_5.bin", "record 0", "0 of its 3073"});
  folder.put("data_batch_5.bin", records(1, 10));
  refuses(folder, {"data_batch_5.bin", "record 0", "label 10", "above 9"});
  refuses_data("cifar10:no/such", {"no/such", "not a folder"});
  refuses_spec("cifar10:d?split=validation", {"auto, train, test"});
}

BOOST_AUTO_TEST_SUITE_END()
