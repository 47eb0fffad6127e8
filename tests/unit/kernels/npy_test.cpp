#include "kernels/data/npy.hpp"
#include "tests/unit/kernels/data_files.hpp"

#include <cmath>
#include <cstring>
#include <limits>

using namespace troupe::testing;
using troupe::InputError;
using troupe::LabelKind;

BOOST_AUTO_TEST_SUITE(npy)

namespace {

using Ints = std::vector<int32_t>;
using Floats = std::vector<float>;

/// A file whose header is `dictionary`, padded to a multiple of 64 bytes.
Bytes file_of(const std::string& dictionary, const Bytes& data,
              uint8_t version = 1, size_t padding = 64) {
  Bytes result = bytes_of("\x93NUMPY");
  result.push_back(version);
  result.push_back(0);
  const size_t length_bytes = version == 1 ? 2 : 4;
  auto text = dictionary;
  while ((8 + length_bytes + text.size() + 1) % padding != 0)
    text += ' ';
  text += '\n';
  for (size_t i = 0; i < length_bytes; ++i)
    result.push_back(static_cast<uint8_t>(text.size() >> (8 * i)));
  result.insert(result.end(), text.begin(), text.end());
  result.insert(result.end(), data.begin(), data.end());
  return result;
}

std::string header(const std::string& type, const std::string& shape,
                   const std::string& fortran = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + fortran
         + ", 'shape': (" + shape + "), }";
}

template <class T>
Bytes raw(const std::vector<T>& values) {
  Bytes result(values.size() * sizeof(T));
  std::memcpy(result.data(), values.data(), result.size());
  return result;
}

template <class T>
Bytes array(const std::string& type, const std::string& shape,
            const std::vector<T>& values) {
  return file_of(header(type, shape), raw(values));
}

struct Pair {
  Folder folder;
  std::string spec(const Bytes& features, const Bytes& labels) const {
    return "npy:" + folder.put("x.npy", features)
           + "?labels=" + folder.put("y.npy", labels);
  }
};

const Bytes two_labels = array<int64_t>("<i8", "2,", {1, 0});

void refuses(const Bytes& features, std::vector<std::string> words,
             const Bytes& labels = two_labels) {
  const Pair files;
  refuses_data(files.spec(features, labels), std::move(words));
}

void check_values(const Bytes& features, const Floats& wanted) {
  const Pair files;
  const auto set = *load(files.spec(features, two_labels)).train;
  troupe::BatchMemory batch{graph_of(set.shape), 2};
  const std::vector<uint64_t> rows{0, 1};
  set.gather(rows.data(), 2, batch);
  BOOST_TEST(Floats(batch.features(), batch.features() + wanted.size())
               == wanted,
             boost::test_tools::per_element());
}

} // namespace

BOOST_AUTO_TEST_CASE(every_type_becomes_float32) {
  check_values(array<float>("<f4", "2, 2", {1, -2, 3.5f, 4}), {1, -2, 3.5f, 4});
  check_values(array<double>("<f8", "2, 1", {0.1, -1e-3}), {0.1f, -1e-3f});
  check_values(array<uint8_t>("|u1", "2,", {0, 255}), {0, 255});
  check_values(array<int8_t>("|i1", "2,", {-128, 127}), {-128, 127});
  check_values(array<uint8_t>("|b1", "2,", {0, 1}), {0, 1});
  check_values(array<int16_t>("<i2", "2,", {-300, 300}), {-300, 300});
  check_values(array<uint16_t>("<u2", "2,", {0, 65535}), {0, 65535});
  check_values(array<int32_t>("<i4", "2,", {-70000, 3}), {-70000, 3});
  check_values(array<uint32_t>("<u4", "2,", {70000, 3}), {70000, 3});
  check_values(array<int64_t>("<i8", "2,", {-5, 5}), {-5, 5});
  check_values(array<uint64_t>("<u8", "2,", {5, 6}), {5, 6});
}

BOOST_AUTO_TEST_CASE(all_versions_and_compressed_files_read_alike) {
  const auto data = raw(Floats{1, 2, 3, 4});
  for (uint8_t version : {1, 2, 3})
    check_values(file_of(header("<f4", "2, 2"), data, version), {1, 2, 3, 4});
  // Where the data do not lie on a float's border they are copied.
  check_values(file_of("{\"shape\":(2,2),\"fortran_order\":False,"
                       "\"descr\":\"<f4\"}",
                       data, 1, 63),
               {1, 2, 3, 4});
  const Folder folder;
  const auto packed = folder.put("x.npy.gz",
                                 gzip(file_of(header("<f4", "2, 2"), data)));
  const auto labels = folder.put("y.npy.gz", gzip(two_labels));
  const auto set = *load("npy:" + packed + "?labels=" + labels).train;
  BOOST_TEST((set.labels == Ints{1, 0}));
  BOOST_TEST((set.values == troupe::Column<float>{1, 2, 3, 4}));
}

BOOST_AUTO_TEST_CASE(a_plain_file_is_mapped_and_split_without_a_copy) {
  const Pair files;
  const auto spec = files.spec(array<float>("<f4", "2, 2", {1, 2, 3, 4}),
                               array<uint8_t>("|u1", "2,", {1, 0}));
  const auto parts = load(spec, 0.5);
  BOOST_TEST(parts.train->values.is_view());
  BOOST_TEST(parts.eval->values.is_view());
  const auto& train = std::as_const(parts.train->values);
  const auto& eval = std::as_const(parts.eval->values);
  BOOST_TEST(train.data() + 2 == eval.data());
  BOOST_TEST(eval[0] == 3.0f);
}

BOOST_AUTO_TEST_CASE(extents_after_the_first_are_those_of_a_sample) {
  const Pair files;
  const auto set =
    *load(files.spec(array<uint8_t>("|u1", "2, 2, 3, 1", Bytes(12)),
                     array<int32_t>("<i4", "2,", {4, 0})))
       .train;
  BOOST_TEST((set.shape.features == troupe::Shape{2, 3, 1}));
  BOOST_TEST(set.shape.classes == 5u);
}

BOOST_AUTO_TEST_CASE(samples_to_predict_need_no_labels) {
  using troupe::load_data;
  using troupe::parse_data_spec;
  const Folder folder;
  const auto spec =
    "npy:" + folder.put("x.npy", array<float>("<f4", "3, 2", Floats(6)));
  troupe::ReadLimits unlabelled;
  unlabelled.unlabelled = true;
  const auto set = *load_data(parse_data_spec(spec), {}, unlabelled).train;
  BOOST_TEST(!set.labelled);
  BOOST_TEST(set.samples() == 3u);
  BOOST_TEST((set.shape.label == LabelKind::classes));
  BOOST_TEST(set.shape.classes == 0u);
  const auto numbers = *load_data(parse_data_spec(spec + "?task=regression"),
                                  {}, unlabelled)
                          .train;
  BOOST_TEST((numbers.shape.label == LabelKind::number));
  BOOST_TEST(numbers.samples() == 3u);
  // Beside others that have some they are of the same kind.
  const auto known =
    spec
    + "?labels=" + folder.put("y.npy", array<int8_t>("|i1", "3,", {0, 5, 2}));
  const auto parts = load_data(parse_data_spec(known),
                               {0, parse_data_spec(spec)}, unlabelled);
  BOOST_TEST(parts.train->labelled);
  BOOST_TEST(!parts.eval->labelled);
  BOOST_TEST((parts.eval->shape == parts.train->shape));
  // All others need them.
  for (const auto& labelled :
       {+[](const std::string& text) { troupe::parse_labelled_spec(text); },
        +[](const std::string& text) { load(text); }})
    BOOST_CHECK_EXCEPTION(labelled(spec), troupe::UsageError,
                          says({"names no labels", "npy:FILE?labels=FILE"}));
}

BOOST_AUTO_TEST_CASE(float_labels_are_numbers_and_integers_on_request) {
  const Pair files;
  const auto x = array<float>("<f4", "2,", {1, 2});
  const auto floats =
    *load(files.spec(x, array<double>("<f8", "2,", {0.5, -1}))).train;
  BOOST_TEST((floats.shape.label == LabelKind::number));
  BOOST_TEST((floats.targets == Floats{0.5f, -1}));
  const auto asked = *load(files.spec(x, array<int8_t>("|i1", "2,", {-3, 3}))
                           + "&task=regression")
                        .train;
  BOOST_TEST((asked.targets == Floats{-3, 3}));
}

// Symptom: labels of floats were numbers whatever task= said.
BOOST_AUTO_TEST_CASE(float_labels_are_classes_where_that_is_said) {
  const Pair pair;
  const auto features = array<float>("<f4", "3,", {1, 2, 3});
  const auto set =
    *load(pair.spec(features, array<double>("<f8", "3,", {0, 2, 1}))
          + "&task=classes")
       .train;
  BOOST_TEST((set.shape.label == LabelKind::classes));
  BOOST_TEST(set.shape.classes == 3u);
  BOOST_TEST(set.labels == (Ints{0, 2, 1}), boost::test_tools::per_element());
  for (const auto& [label, shown] :
       {std::pair{0.5, "0.5"}, {-1.0, "-1"}, {std::nan(""), "nan"}})
    refuses_data(pair.spec(features, array<double>("<f8", "3,", {0, label, 1}))
                   + "&task=classes",
                 {"sample 1", shown, "not a class"});
}

BOOST_AUTO_TEST_CASE(what_is_no_such_array_is_refused) {
  const auto data = raw(Floats{1, 2, 3, 4});
  refuses({}, {"x.npy", "no array file"});
  refuses(bytes_of("\x93NUMPZ\1\0"), {"no array file"});
  refuses(gzip(file_of(header("<f4", "2, 2"), data)), {"gzip", ".gz"});
  refuses(file_of(header("<f4", "2, 2"), data, 4), {"version 4"});
  refuses(file_of(header("<f4", "2, 2", "True"), data),
          {"Fortran", "ascontiguousarray"});
  refuses(file_of(header("|O", "2, 2"), data), {"pickled"});
  refuses(file_of(header(">f4", "2, 2"), data), {"big-endian", "astype"});
  for (auto type : {"<c8", "<f2", "<U4", "<f44", "f4", "", "<", "<f"})
    refuses(file_of(header(type, "2, 2"), data), {"type", "astype"});
  refuses(file_of("{'descr': [('a', '<f4')], 'fortran_order': False, "
                  "'shape': (2,)}",
                  data),
          {"several fields"});
  for (auto text :
       {"", "{", "{'descr'", "{'descr': }", "{'descr': '<f4", "{}",
        "{'descr': '<f4', 'fortran_order': False}", "{'fortran_order': Maybe}",
        "{'shape': (2 2)}", "{'shape': (-2,)}", "{'shape': 2}", "{'other': 1}"})
    refuses(file_of(text, data), {"header"});
}

BOOST_AUTO_TEST_CASE(sizes_that_lie_are_refused_before_memory_is_taken) {
  const auto data = raw(Floats{1, 2, 3, 4});
  refuses(file_of(header("<f4", "2, 3"), data), {"shorter"});
  refuses(file_of(header("<f4", "2, 1"), data), {"longer"});
  refuses(file_of(header("<f4", "1000000000000, 4"), data), {"shorter"});
  refuses(file_of(header("<f8", "4294967296, 4294967296, 4294967296"), data),
          {"more than any file"});
  refuses(file_of(header("<f4", "99999999999999999999999"), data), {"header"});
  refuses(file_of(header("<f4", "0, 4"), {}), {"no samples"});
  refuses(file_of(header("<f4", ""), raw(Floats{1})), {"no samples"});
  auto announced = file_of(header("<f4", "2, 2"), data, 2);
  announced[11] = 0x7f;
  refuses(announced, {"announces", "of its own"});
  auto cut = file_of(header("<f4", "2, 2"), data);
  cut.resize(9);
  refuses(cut, {"ends within its header"});
  const Folder folder;
  const auto packed = folder.put(
    "x.npy.gz", gzip(file_of(header("<f4", "90000000000, 4"), data)));
  const auto labels = folder.put("y.npy", two_labels);
  refuses_data("npy:" + packed + "?labels=" + labels, {"shorter"});
}

BOOST_AUTO_TEST_CASE(values_and_labels_out_of_range_are_named) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  refuses(array<float>("<f4", "2, 2", {1, 2, nan, 4}), {"sample 1", "finite"});
  refuses(array<double>("<f8", "2,", {1e39, 0}), {"sample 0", "finite"});
  const auto x = array<float>("<f4", "2,", {1, 2});
  refuses(x, {"sample 1 is 65536", "65535"},
          array<int64_t>("<i8", "2,", {1, 65536}));
  refuses(x, {"sample 0 is -1", "regression"},
          array<int8_t>("|i1", "2,", {-1, 1}));
  refuses(x, {"sample 1", "finite"}, array<float>("<f4", "2,", {1, nan}));
  refuses(x, {"2 samples", "3 labels"}, array<uint8_t>("|u1", "3,", {0, 1, 1}));
  refuses(x, {"[2, 2]", "one extent"},
          array<uint8_t>("|u1", "2, 2", {0, 1, 1, 0}));
}

BOOST_AUTO_TEST_SUITE_END()
