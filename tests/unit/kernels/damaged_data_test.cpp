#include "tests/unit/kernels/data_files.hpp"

#include <functional>
#include <random>

using namespace troupe::testing;

// Valid files, damaged at random thousands of times: reading either succeeds
// with samples that can be gathered, or throws InputError. Under the sanitizer
// build this also finds reads out of bounds.

BOOST_AUTO_TEST_SUITE(damaged_data)

namespace {

using Random = std::mt19937; // the same numbers everywhere

void damage(Bytes& bytes, Random& random) {
  const auto below = [&](size_t n) { return n == 0 ? 0 : random() % n; };
  const std::string telling{"0123456789.,:;-+eE\"\n\r\t \0\xff", 25};
  for (auto times = 1 + below(4); times > 0; --times) {
    const auto at = static_cast<ptrdiff_t>(below(bytes.size()));
    switch (bytes.empty() ? 3 : below(7)) {
      case 0:
        bytes[static_cast<size_t>(at)] ^= static_cast<uint8_t>(1 << below(8));
        break;
      case 1:
        bytes[static_cast<size_t>(at)] = static_cast<uint8_t>(random());
        break;
      case 2:
        bytes.resize(static_cast<size_t>(at));
        break;
      case 3:
        bytes.insert(bytes.begin() + at,
                     static_cast<uint8_t>(telling[below(telling.size())]));
        break;
      case 4: {
        const Bytes copy(bytes.begin() + at,
                         bytes.begin() + at
                           + static_cast<ptrdiff_t>(
                             below(bytes.size() - static_cast<size_t>(at))));
        bytes.insert(bytes.end(), copy.begin(), copy.end());
        break;
      }
      case 5:
        bytes.erase(bytes.begin() + at);
        break;
      default:
        bytes[static_cast<size_t>(at)] =
          static_cast<uint8_t>(telling[below(telling.size())]);
    }
  }
}

void gather_all(troupe::Dataset& data) {
  const uint64_t window = 3;
  if (data.shape.label == troupe::LabelKind::tokens) {
    data.window = window;
    data.stride = 1;
  }
  const troupe::Graph graph = graph_of(data.shape, window);
  troupe::BatchMemory batch{graph, 1};
  for (uint64_t row = 0; row < data.samples(); ++row) {
    data.gather(&row, 1, batch);
    for (uint64_t i = 0; batch.labels() && i < graph.labels(); ++i)
      BOOST_REQUIRE(
        (batch.labels()[i] >= 0
         && static_cast<uint64_t>(batch.labels()[i]) < graph.classes()));
    for (uint64_t i = 0; batch.ids() && i < graph.ids(); ++i)
      BOOST_REQUIRE(
        (batch.ids()[i] >= -1
         && batch.ids()[i] < static_cast<int64_t>(data.shape.vocabulary)));
  }
}

/// `spec_of` turns the damaged file's path into a specification. Some attempts
/// have to succeed and some to fail, or nothing is tested.
void survives(const std::string& name, const Bytes& valid, int attempts,
              const std::function<std::string(const std::string&)>& spec_of) {
  BOOST_TEST_CONTEXT(name) {
    const Folder folder;
    const auto path = folder.put(name, valid);
    BOOST_REQUIRE_NO_THROW(load(spec_of(path), 0.3));
    int read = 0;
    for (int seed = 0; seed < attempts; ++seed) {
      BOOST_TEST_CONTEXT("seed " << seed) {
        Random random{static_cast<uint32_t>(seed)};
        auto bytes = valid;
        damage(bytes, random);
        folder.put(name, bytes);
        try {
          const auto parts = load(spec_of(path), 0.3);
          gather_all(*parts.train);
          gather_all(*parts.eval);
          ++read;
        } catch (const troupe::InputError& error) {
          BOOST_REQUIRE(std::string{error.what()}.find('\n')
                        == std::string::npos);
        }
      }
    }
    BOOST_TEST_MESSAGE(name << ": " << read << " of " << attempts << " read");
    BOOST_TEST(read > 0);
    BOOST_TEST(read < attempts);
  }
}

void survives_both(const std::string& kind, const std::string& text,
                   const std::string& options = "") {
  const auto spec = [&](const std::string& path) {
    return kind + ":" + path + options;
  };
  survives("plain", bytes_of(text), 3000, spec);
  survives("packed.gz", gzip(bytes_of(text)), 1000, spec);
}

} // namespace

BOOST_AUTO_TEST_CASE(a_damaged_libsvm_file_never_crashes) {
  survives_both("libsvm", "1 1:0.5 3:2 9:1e-3\n0 2:1\n1 4:1 # x\n0 1:1\n"
                          "1 2:3 4:5\n0 9:1\n");
}

BOOST_AUTO_TEST_CASE(a_damaged_csv_file_never_crashes) {
  survives_both("csv", "a,\"b\",c\n1,2,0\n-3.5,4e1,2\n\"5\",6,1\n7,8,0\n",
                "?scale=standard");
}

BOOST_AUTO_TEST_CASE(a_damaged_criteo_file_never_crashes) {
  std::string text;
  for (int row = 0; row < 4; ++row) {
    text += row % 2 == 0 ? "0" : "1";
    for (int i = 0; i < 13; ++i)
      text += i % 5 == row ? "\t" : "\t" + std::to_string(i * 37 - 5);
    for (int i = 0; i < 26; ++i)
      text += i % 7 == row ? "\t" : "\t68fd1e64";
    text += "\n";
  }
  survives_both("criteo", text, "?buckets=10");
}

BOOST_AUTO_TEST_CASE(a_damaged_text_never_crashes) {
  std::string text;
  for (int i = 0; i < 20; ++i)
    text += "Some wörds, ∑ more.\n";
  survives_both("text", text);
}

BOOST_AUTO_TEST_CASE(a_damaged_array_never_crashes) {
  std::string start = "\x93NUMPY\x01";
  start += '\0';
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': "
                       "(4, 2), }";
  header.resize(117, ' ');
  header += '\n';
  const auto file = start + std::string{"\x76\0", 2} + header;
  const auto features = bytes_of(file + std::string(32, '\x3f'));
  auto labels_text = file;
  labels_text.replace(labels_text.find("<f4"), 3, "|u1");
  labels_text.replace(labels_text.find("(4, 2)"), 6, "(4,)  ");
  const auto labels = bytes_of(labels_text + std::string{"\0\1\2\1", 4});
  const Folder folder;
  const auto good_features = folder.put("x.npy", features);
  const auto good_labels = folder.put("y.npy", labels);
  const auto damaged_features = [&](const std::string& path) {
    return "npy:" + path + "?labels=" + good_labels;
  };
  survives("x.npy", features, 3000, damaged_features);
  survives("x.npy.gz", gzip(features), 1000, damaged_features);
  survives("y.npy", labels, 1000, [&](const std::string& path) {
    return "npy:" + good_features + "?labels=" + path;
  });
}

BOOST_AUTO_TEST_CASE(damaged_images_never_crash) {
  const auto folder_of = [](const std::string& path) {
    return std::filesystem::path{path}.parent_path().string();
  };
  Bytes records(3 * 3073, 7);
  survives("test_batch.bin", records, 300, [&](const std::string& path) {
    return "cifar10:" + folder_of(path);
  });
  Bytes images{0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 28, 0, 0, 0, 28};
  images.resize(16 + 4 * 784, 9);
  const Bytes labels{0, 0, 8, 1, 0, 0, 0, 4, 1, 2, 3, 4};
  for (const std::string suffix : {"", ".gz"})
    survives("t10k-images-idx3-ubyte" + suffix,
             suffix.empty() ? images : gzip(images), 1000,
             [&](const std::string& path) {
               std::ofstream out{folder_of(path) + "/t10k-labels-idx1-ubyte",
                                 std::ios::binary};
               out.write(reinterpret_cast<const char*>(labels.data()), 12);
               return "mnist:" + folder_of(path);
             });
}

// Symptom: a table that was read whole took all of the memory before it was
// said that it is more than --data-memory.
BOOST_AUTO_TEST_CASE(what_is_read_whole_ends_where_it_is_too_much) {
  const Folder folder;
  std::string clicks = "1";
  for (int i = 0; i < 39; ++i)
    clicks += "\t1";
  // Lines after the first ones are damaged, and not looked at.
  const auto many = [](const std::string& line, const std::string& head = "") {
    std::string text = head;
    for (int i = 0; i < 1000; ++i)
      text += line + '\n';
    return text + "x\n";
  };
  const auto table = folder.put("t", many("1,2,0", "a,b,y\n"));
  troupe::ReadLimits limits;
  limits.memory = 1000;
  for (const auto& spec :
       {"csv:" + table, "csv:" + table + "?columns=a:number,b:category,y:label",
        "libsvm:" + folder.put("l", many("1 3:1 5:2")),
        "criteo:" + folder.put("c", many(clicks))})
    BOOST_TEST_CONTEXT(spec)
  BOOST_CHECK_EXCEPTION(
    troupe::load_data(troupe::parse_data_spec(spec), {}, limits),
    troupe::InputError, says({"more than the 1000 bytes of --data-memory"}));
}

BOOST_AUTO_TEST_SUITE_END()
