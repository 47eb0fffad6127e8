#include "kernels/data/idx.hpp"
#include "tests/unit/kernels/data_files.hpp"

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <random>

BOOST_AUTO_TEST_SUITE(idx)

namespace {

namespace fs = std::filesystem;

using namespace troupe::testing;
using troupe::InputError;
using troupe::read_mnist;

void set_number(Bytes& bytes, size_t field, uint32_t value) {
  for (size_t i = 0; i < 4; ++i)
    bytes[4 * field + i] = static_cast<uint8_t>(value >> (24 - 8 * i));
}

Bytes images(uint32_t count) {
  Bytes result(16 + size_t{count} * 784);
  set_number(result, 0, 0x803);
  set_number(result, 1, count);
  set_number(result, 2, 28);
  set_number(result, 3, 28);
  for (size_t i = 16; i < result.size(); ++i)
    result[i] = static_cast<uint8_t>(i * i >> 4);
  return result;
}

Bytes labels(uint32_t count) {
  Bytes result(8 + size_t{count});
  set_number(result, 0, 0x801);
  set_number(result, 1, count);
  for (size_t i = 0; i < count; ++i)
    result[8 + i] = static_cast<uint8_t>(i % 10);
  return result;
}

/// Each check runs for a plain and for a compressed file.
struct Form {
  std::string suffix;
  Bytes packed(const Bytes& bytes) const {
    return suffix.empty() ? bytes : gzip(bytes);
  }
};
const Form forms[] = {{""}, {".gz"}};

const std::string images_name = "train-images-idx3-ubyte";
const std::string labels_name = "train-labels-idx1-ubyte";

void refuses(const Folder& folder, std::vector<std::string> words) {
  BOOST_CHECK_EXCEPTION(read_mnist(folder.path.string(), "train"), InputError,
                        says(words));
}

} // namespace

BOOST_AUTO_TEST_CASE(plain_and_compressed_files_hold_the_same) {
  for (const auto& form : forms)
    for (const char* joint : {"-", "."}) {
      const Folder folder;
      folder.put(std::string{"train-images"} + joint + "idx3-ubyte"
                   + form.suffix,
                 form.packed(images(12)));
      folder.put(std::string{"train-labels"} + joint + "idx1-ubyte"
                   + form.suffix,
                 form.packed(labels(12)));
      const auto set = read_mnist(folder.path.string(), "train");
      BOOST_TEST(set.samples() == 12u);
      BOOST_TEST(set.features() == 784u);
      BOOST_TEST(set.shape.classes == 10u);
      BOOST_TEST(set.scale == 1.0f / 255.0f);
      BOOST_TEST(set.labels[11] == 1);
      const auto expected = images(12);
      BOOST_TEST(std::equal(expected.begin() + 16, expected.end(),
                            set.bytes.begin(), set.bytes.end()));
    }
}

BOOST_AUTO_TEST_CASE(a_long_compressed_file_is_read_whole) {
  const Folder folder;
  folder.put(images_name + ".gz", gzip(images(5000)));
  folder.put(labels_name, labels(5000));
  const auto set = read_mnist(folder.path.string(), "train");
  const auto expected = images(5000);
  BOOST_TEST(std::equal(expected.begin() + 16, expected.end(),
                        set.bytes.begin(), set.bytes.end()));
}

BOOST_AUTO_TEST_CASE(a_gzip_file_may_have_several_members) {
  const Folder folder;
  const auto whole = images(3);
  Bytes parts;
  for (auto [first, last] : {std::pair{0, 5}, {5, 5}, {5, 700}, {700, 2368}}) {
    const auto part = gzip({whole.begin() + first, whole.begin() + last});
    parts.insert(parts.end(), part.begin(), part.end());
  }
  folder.put(images_name + ".gz", parts);
  folder.put(labels_name, labels(3));
  BOOST_TEST(read_mnist(folder.path.string(), "train").samples() == 3u);
  parts.push_back(0);
  folder.put(images_name + ".gz", parts);
  refuses(folder, {images_name + ".gz"});
}

BOOST_AUTO_TEST_CASE(auto_takes_the_train_files_where_present) {
  const Folder folder;
  const auto where = folder.path.string();
  folder.put("t10k-images-idx3-ubyte", images(2));
  folder.put("t10k-labels-idx1-ubyte.gz", gzip(labels(2)));
  BOOST_TEST(read_mnist(where, "auto").samples() == 2u);
  BOOST_TEST(read_mnist(where, "test").samples() == 2u);
  refuses(folder, {where, images_name});
  folder.put(images_name, images(3));
  BOOST_CHECK_THROW(read_mnist(where, "auto"), InputError);
  folder.put(labels_name, labels(3));
  BOOST_TEST(read_mnist(where, "auto").samples() == 3u);
  BOOST_TEST(read_mnist(where, "test").samples() == 2u);
  BOOST_TEST(read_mnist(where, "train").samples() == 3u);
}

BOOST_AUTO_TEST_CASE(what_is_missing_is_named) {
  const Folder folder;
  refuses(folder, {folder.path.string(), images_name});
  folder.put(images_name, images(1));
  refuses(folder, {folder.path.string(), labels_name});
  const auto file = (folder.path / images_name).string();
  for (const auto& where : {file, (folder.path / "absent").string()})
    BOOST_CHECK_EXCEPTION(
      read_mnist(where, "auto"), InputError, [&](const InputError& error) {
        return std::string{error.what()}.find(where) != std::string::npos;
      });
  fs::create_directory(folder.path / labels_name);
  refuses(folder, {labels_name, "not a regular file"});
}

BOOST_AUTO_TEST_CASE(no_header_field_can_lie) {
  const Folder folder;
  for (const auto& form : forms) {
    for (size_t field = 0; field < 4; ++field)
      for (uint32_t lie : {0u, 1u, 2u, 4u, 27u, 29u, 56u, 784u, 2048u, 2049u,
                           0x7fffffffu, 0x80000000u, 0xffffffffu}) {
        BOOST_TEST_CONTEXT(form.suffix << " field " << field << " = " << lie) {
          auto bytes = images(3);
          set_number(bytes, field, lie);
          folder.put(images_name + form.suffix, form.packed(bytes));
          folder.put(labels_name + form.suffix, form.packed(labels(3)));
          refuses(folder, {images_name + form.suffix});
          if (field > 1)
            continue;
          bytes = labels(3);
          set_number(bytes, field, lie == 2049 ? 2051 : lie);
          folder.put(images_name + form.suffix, form.packed(images(3)));
          folder.put(labels_name + form.suffix, form.packed(bytes));
          refuses(folder, {labels_name + form.suffix});
        }
      }
    fs::remove(folder.path / (images_name + form.suffix));
    fs::remove(folder.path / (labels_name + form.suffix));
  }
}

BOOST_AUTO_TEST_CASE(a_file_cut_anywhere_is_refused) {
  const Folder folder;
  for (const auto& form : forms) {
    const auto all_images = form.packed(images(2));
    const auto all_labels = form.packed(labels(2));
    folder.put(labels_name + form.suffix, all_labels);
    for (size_t length = 0; length < all_images.size();
         length += length < 40 || length + 40 > all_images.size() ? 1 : 37) {
      folder.put(
        images_name + form.suffix,
        Bytes{all_images.begin(),
              all_images.begin() + static_cast<std::ptrdiff_t>(length)});
      refuses(folder, {images_name + form.suffix});
    }
    folder.put(images_name + form.suffix, all_images);
    for (size_t length = 0; length < all_labels.size(); ++length) {
      folder.put(
        labels_name + form.suffix,
        Bytes{all_labels.begin(),
              all_labels.begin() + static_cast<std::ptrdiff_t>(length)});
      refuses(folder, {labels_name + form.suffix});
    }
    fs::remove(folder.path / (images_name + form.suffix));
    fs::remove(folder.path / (labels_name + form.suffix));
  }
}

BOOST_AUTO_TEST_CASE(bytes_after_the_end_are_refused) {
  const Folder folder;
  for (const auto& form : forms) {
    auto longer_images = images(2);
    longer_images.push_back(0);
    folder.put(images_name + form.suffix, form.packed(longer_images));
    folder.put(labels_name + form.suffix, form.packed(labels(2)));
    refuses(folder, {images_name + form.suffix, "longer"});
    auto longer_labels = labels(2);
    longer_labels.push_back(0);
    folder.put(images_name + form.suffix, form.packed(images(2)));
    folder.put(labels_name + form.suffix, form.packed(longer_labels));
    refuses(folder, {labels_name + form.suffix, "longer"});
    fs::remove(folder.path / (images_name + form.suffix));
    fs::remove(folder.path / (labels_name + form.suffix));
  }
}

BOOST_AUTO_TEST_CASE(a_compressed_file_that_claims_much_gets_no_room_for_it) {
  // 4 MB of zeros deflate to 4 kB; the header claims 3.3 TB.
  const Folder folder;
  Bytes bytes(4'000'000);
  const auto start = images(1);
  std::copy_n(start.begin(), 16, bytes.begin());
  folder.put(labels_name, labels(1));
  for (uint32_t count : {6000u, 1'000'000u, 0xffffffffu}) {
    set_number(bytes, 1, count);
    folder.put(images_name + ".gz", gzip(bytes));
    refuses(folder, {images_name + ".gz", "shorter"});
  }
}

BOOST_AUTO_TEST_CASE(different_counts_name_both_files) {
  const Folder folder;
  for (const auto& form : forms) {
    folder.put(images_name + form.suffix, form.packed(images(3)));
    folder.put(labels_name + form.suffix, form.packed(labels(4)));
    refuses(folder, {images_name, labels_name, "3", "4"});
  }
}

BOOST_AUTO_TEST_CASE(other_pictures_and_labels_are_refused) {
  const Folder folder;
  folder.put(labels_name, labels(2));
  auto bytes = images(2);
  set_number(bytes, 2, 14);
  set_number(bytes, 3, 56);
  folder.put(images_name, bytes);
  refuses(folder, {images_name, "14 x 56"});
  folder.put(images_name, images(2));
  bytes = labels(2);
  bytes[9] = 10;
  folder.put(labels_name, bytes);
  refuses(folder, {labels_name, "label 1 is 10"});
}

BOOST_AUTO_TEST_CASE(a_wrong_name_is_told_apart_from_damage) {
  const Folder folder;
  folder.put(labels_name, labels(2));
  folder.put(images_name, gzip(images(2)));
  refuses(folder, {images_name, "add .gz"});
  fs::remove(folder.path / images_name);
  folder.put(images_name + ".gz", images(2));
  refuses(folder, {images_name + ".gz", "not a gzip stream"});
}

BOOST_AUTO_TEST_CASE(flipped_bits_are_noticed_or_change_nothing) {
  const Folder folder;
  folder.put(labels_name, labels(2));
  const auto packed = gzip(images(2));
  const auto expected = images(2);
  std::mt19937 random{1};
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    auto bytes = packed;
    for (auto flips = random() % 3 + 1; flips > 0; --flips)
      bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1u
                                                             << random() % 8);
    folder.put(images_name + ".gz", bytes);
    try {
      // The checksum leaves only the few bytes of gzip's own header.
      const auto set = read_mnist(folder.path.string(), "train");
      BOOST_TEST(std::equal(expected.begin() + 16, expected.end(),
                            set.bytes.begin(), set.bytes.end()));
    } catch (const InputError&) {
      ++refused;
    }
  }
  BOOST_TEST(refused > 1000);
}

BOOST_AUTO_TEST_CASE(the_real_test_files_load) {
  const auto folder = real_file("mnist");
  if (!folder || !fs::exists(fs::path{*folder} / "t10k-labels-idx1-ubyte.gz")) {
    BOOST_TEST_MESSAGE("skipped: no real MNIST; set TROUPE_DATA");
    return;
  }
  const auto set = read_mnist(*folder, "test");
  BOOST_TEST(set.samples() == 10000u);
  // The first label of the set, and how often each occurs.
  BOOST_TEST(set.labels[0] == 7);
  std::vector<int> counts(10);
  for (auto label : set.labels)
    ++counts[static_cast<size_t>(label)];
  BOOST_TEST(counts
               == (std::vector<int>{980, 1135, 1032, 1010, 982, 892, 958, 1028,
                                    974, 1009}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
