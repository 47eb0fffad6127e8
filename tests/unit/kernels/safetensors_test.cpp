#include "kernels/base/error.hpp"
#include "kernels/files/input_file.hpp"
#include "kernels/files/safetensors.hpp"

#include <boost/test/unit_test.hpp>
#include <sys/resource.h>
#include <unistd.h>

#include <bit>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <stdexcept>

BOOST_AUTO_TEST_SUITE(safetensors)

namespace {

namespace fs = std::filesystem;

using troupe::InputError;
using troupe::NamedTensor;
using troupe::read_safetensors;
using troupe::tensors_sha256;
using troupe::write_safetensors;

struct Folder {
  fs::path path = fs::temp_directory_path()
                  / ("troupe-safetensors-" + std::to_string(::getpid()));
  Folder() {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }

  std::string file(const std::string& name = "weights.safetensors") const {
    return (path / name).string();
  }
  size_t entries() const {
    return static_cast<size_t>(
      std::distance(fs::directory_iterator{path}, fs::directory_iterator{}));
  }
};

std::string content(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

void put(const std::string& path, const std::string& bytes) {
  std::ofstream out{path, std::ios::binary};
  out << bytes;
  BOOST_REQUIRE(out.good());
}

/// A file with this header, in front of `data_bytes` zeros.
std::string with_header(const std::string& json, size_t data_bytes) {
  const uint64_t length = json.size();
  std::string result(8, '\0');
  std::memcpy(result.data(), &length, 8);
  return result + json + std::string(data_bytes, '\0');
}

std::vector<NamedTensor> example() {
  return {{"layer1.weight", {2, 3}, {1, -2, 3.5f, 0, -0.0f, 1e-40f}},
          {"layer1.bias", {3}, {7, 8, 9}},
          {"empty", {0, 5}, {}},
          {"scalar", {}, {42}}};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size()
         && (a.empty()
             || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

void refuses(const std::string& path, const std::string& word) {
  BOOST_CHECK_EXCEPTION(read_safetensors(path), InputError,
                        [&](const InputError& error) {
                          const std::string text = error.what();
                          BOOST_TEST_MESSAGE(text);
                          return text.find(path) != text.npos
                                 && text.find(word) != text.npos
                                 && text.find('\n') == text.npos;
                        });
}

} // namespace

BOOST_AUTO_TEST_CASE(what_is_written_is_read_back_in_order_of_name) {
  const Folder folder;
  auto tensors = example();
  const float nan_with_payload = std::bit_cast<float>(0x7fc12345u);
  tensors.push_back({"special",
                     {3},
                     {nan_with_payload, std::numeric_limits<float>::infinity(),
                      std::numeric_limits<float>::max()}});
  write_safetensors(folder.file(), tensors, {{"step", "12"}, {"é\n", "\"x\""}});
  const auto file = read_safetensors(folder.file());
  BOOST_REQUIRE(file.tensors.size() == 5u);
  const std::vector<size_t> order{2, 1, 0, 3, 4};
  for (size_t i = 0; i < 5; ++i) {
    BOOST_TEST(file.tensors[i].name == tensors[order[i]].name);
    BOOST_TEST((file.tensors[i].shape == tensors[order[i]].shape));
    BOOST_TEST(same_bits(file.tensors[i].values, tensors[order[i]].values));
  }
  BOOST_TEST(file.metadata.size() == 2u);
  BOOST_TEST(file.metadata.at("step") == "12");
  BOOST_TEST(file.metadata.at("é\n") == "\"x\"");
}

BOOST_AUTO_TEST_CASE(the_bytes_are_those_of_the_format) {
  const Folder folder;
  write_safetensors(folder.file(), {{"b", {1}, {1}}, {"a", {1, 2}, {2, 3}}},
                    {});
  const std::string header =
    R"({"a":{"data_offsets":[0,8],"dtype":"F32","shape":[1,2]},)"
    R"("b":{"data_offsets":[8,12],"dtype":"F32","shape":[1]}})";
  const auto bytes = content(folder.file());
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  BOOST_TEST(length % 8 == 0u);
  BOOST_TEST(length - header.size() < 8u);
  BOOST_TEST(bytes.size() == 8 + length + 12);
  BOOST_TEST(bytes.substr(8, length)
             == header + std::string(length - header.size(), ' '));
  std::vector<float> values(3);
  std::memcpy(values.data(), &bytes[8 + length], 12);
  BOOST_TEST((values == std::vector<float>{2, 3, 1}));
}

BOOST_AUTO_TEST_CASE(numbers_of_two_bytes_are_read_as_float32_has_them) {
  const Folder folder;
  auto bytes = troupe::safetensors_header(
    {{"h", "F16", {8}, 16}, {"w", "BF16", {2, 2}, 8}}, {});
  const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x8000, 0x7bff, 0x0400,
                             0x7c00, 0x3555, 0x3f80, 0xc049, 0x0001, 0x7f7f};
  bytes.append(reinterpret_cast<const char*>(halves), sizeof halves);
  put(folder.file(), bytes);
  const auto tensors = read_safetensors(folder.file()).tensors;
  BOOST_REQUIRE(tensors.size() == 2u);
  const auto infinite = std::numeric_limits<float>::infinity();
  BOOST_TEST(same_bits(tensors[0].values, {1, -2, 0x1p-24f, -0.0f, 65504,
                                           0x1p-14f, infinite, 0x1.554p-2f}));
  BOOST_TEST((tensors[1].shape == std::vector<uint64_t>{2, 2}));
  BOOST_TEST(
    same_bits(tensors[1].values, {1, -0x1.92p1f, 0x1p-133f, 0x1.fep127f}));
}

BOOST_AUTO_TEST_CASE(what_is_not_wanted_may_be_of_any_type) {
  const Folder folder;
  auto bytes = troupe::safetensors_header(
    {{"mask", "U8", {3}, 3}, {"w", "F32", {1}, 4}}, {});
  const float one = 1;
  bytes.append("\1\2\1", 3);
  bytes.append(reinterpret_cast<const char*>(&one), sizeof one);
  put(folder.file(), bytes);
  refuses(folder.file(), "\"U8\"");
  const auto file = read_safetensors(
    folder.file(), [](const std::string& name) { return name != "mask"; });
  BOOST_REQUIRE(file.tensors.size() == 1u);
  BOOST_TEST(same_bits(file.tensors[0].values, {1}));
  const auto shapes = troupe::read_safetensors_shapes(folder.file());
  BOOST_TEST((shapes.at("mask") == std::vector<uint64_t>{3}));
  BOOST_TEST((shapes.at("w") == std::vector<uint64_t>{1}));
}

BOOST_AUTO_TEST_CASE(a_file_without_tensors_is_a_file) {
  const Folder folder;
  write_safetensors(folder.file(), {}, {});
  BOOST_TEST(read_safetensors(folder.file()).tensors.empty());
}

BOOST_AUTO_TEST_CASE(a_file_cut_anywhere_is_refused) {
  const Folder folder;
  write_safetensors(folder.file(), example(), {{"step", "1"}});
  const auto bytes = content(folder.file());
  for (size_t length = 0; length < bytes.size(); ++length) {
    put(folder.file("cut"), bytes.substr(0, length));
    refuses(folder.file("cut"), "write it again");
  }
  put(folder.file("cut"), bytes + '\0');
  refuses(folder.file("cut"), "write it again");
}

BOOST_AUTO_TEST_CASE(flipped_bits_throw_or_load) {
  const Folder folder;
  write_safetensors(folder.file(), example(), {{"step", "1"}});
  const auto bytes = content(folder.file());
  int refused = 0;
  int loaded = 0;
  auto attempt = [&](const std::string& damaged) {
    put(folder.file("flipped"), damaged);
    try {
      read_safetensors(folder.file("flipped"));
      ++loaded;
    } catch (const InputError&) {
      ++refused;
    }
  };
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    auto damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    attempt(damaged);
  }
  std::mt19937 random{2};
  for (int round = 0; round < 1000; ++round) {
    auto damaged = bytes;
    for (auto bytes_hit = random() % 6 + 1; bytes_hit > 0; --bytes_hit)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    attempt(damaged);
  }
  BOOST_TEST(refused > 500);
  BOOST_TEST(loaded > 100); // those that hit values or names
}

BOOST_AUTO_TEST_CASE(a_header_that_lies_is_refused) {
  struct Lie {
    const char* header;
    size_t data_bytes;
    const char* word;
  };
  const std::vector<Lie> lies{
    {"", 0, "not a JSON object"},
    {"[]", 0, "not a JSON object"},
    {" {}", 0, "not a JSON object"},
    {"{", 0, "not valid JSON"},
    {"{} x", 0, "not valid JSON"},
    {"{\"a\":\"\xff\"}", 0, "not valid JSON"},
    {R"({"a":1})", 0, "\"a\""},
    {R"({"a":{}})", 0, "no dtype"},
    {R"({"a":{"dtype":5,"shape":[1],"data_offsets":[0,4]}})", 4, "no dtype"},
    {R"({"a":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}})", 16,
     "only F32, F16 and BF16 are read"},
    {R"({"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})", 4, "\"I32\""},
    {R"({"a":{"dtype":"F16","shape":[1],"data_offsets":[0,4]}})", 4,
     "do not match its shape"},
    {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "no shape"},
    {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
     "no shape"},
    {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4,
     "no shape"},
    {R"({"a":{"dtype":"F32","shape":[99999999999999999999],)"
     R"("data_offsets":[0,4]}})",
     4, "no shape"},
    {R"({"a":{"dtype":"F32","shape":{},"data_offsets":[0,4]}})", 4, "no shape"},
    {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "data_offsets"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4,
     "data_offsets"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4,
     "data_offsets"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4,
     "data_offsets"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
     "do not match"},
    {R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,0]}})", 0,
     "do not match"},
    // The product wraps around to zero.
    {R"({"a":{"dtype":"F32","shape":[4611686018427387904],)"
     R"("data_offsets":[0,0]}})",
     0, "do not match"},
    {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],)"
     R"("data_offsets":[0,0]}})",
     0, "do not match"},
    {R"({"a":{"dtype":"F32","shape":[250000000000],)"
     R"("data_offsets":[0,1000000000000]}})",
     4, "follow"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3, "follow"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5, "follow"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "gap"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
     R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
     4, "overlaps"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
     R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
     8, "twice"},
    {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],)"
     R"("data_offsets":[0,4]}})",
     4, "twice"},
    {R"({"__metadata__":[]})", 0, "__metadata__"},
    {R"({"__metadata__":{"a":1}})", 0, "__metadata__"},
    {R"({"a":[[[[[[[[]]]]]]]]})", 0, "deep"},
  };
  const Folder folder;
  for (const auto& lie : lies) {
    BOOST_TEST_CONTEXT(lie.header) {
      put(folder.file(), with_header(lie.header, lie.data_bytes));
      refuses(folder.file(), lie.word);
    }
  }
}

BOOST_AUTO_TEST_CASE(places_may_come_in_any_order_and_be_empty) {
  const Folder folder;
  put(folder.file(),
      with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
                  R"("b":{"dtype":"F32","shape":[0],"data_offsets":[4,4]},)"
                  R"("c":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  )",
                  8));
  BOOST_TEST(read_safetensors(folder.file()).tensors.size() == 3u);
}

BOOST_AUTO_TEST_CASE(a_header_larger_than_the_format_allows_is_not_read) {
  const Folder folder;
  for (uint64_t length : {uint64_t{100'000'001}, uint64_t{1} << 40,
                          std::numeric_limits<uint64_t>::max()}) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    put(folder.file(), bytes + "{}");
    fs::resize_file(folder.file(), 200'000'000); // takes no room on the disk
    refuses(folder.file(), "header");
  }
}

BOOST_AUTO_TEST_CASE(what_other_programs_save_is_told_by_its_name) {
  const Folder folder;
  for (const auto& [beginning, format] :
       {std::pair{std::string{"PK\x03\x04"}, "torch.save"},
        {std::string{"\x80\x02\x8a\x0a"}, "pickle"},
        {std::string{"\x80\x04\x95\x40"}, "pickle"},
        {std::string{"\x89HDF\r\n\x1a\n"}, "HDF5"}}) {
    put(folder.file(), beginning + std::string(200, '~'));
    refuses(folder.file(), format);
  }
}

BOOST_AUTO_TEST_CASE(a_header_of_brackets_alone_is_refused_early) {
  const Folder folder;
  put(folder.file(), with_header("{\"a\":" + std::string(5'000'000, '['), 0));
  refuses(folder.file(), "deep");
}

BOOST_AUTO_TEST_CASE(what_no_reader_would_accept_is_not_written) {
  const Folder folder;
  auto write = [&](const std::vector<NamedTensor>& tensors) {
    write_safetensors(folder.file(), tensors, {});
  };
  BOOST_CHECK_THROW(write({{"a", {1}, {1}}, {"a", {1}, {2}}}),
                    std::logic_error);
  BOOST_CHECK_THROW(write({{"a", {2}, {1}}}), std::logic_error);
  BOOST_CHECK_THROW(write({{"__metadata__", {1}, {1}}}), std::logic_error);
  BOOST_CHECK_THROW(write({{"\xff", {1}, {1}}}), InputError);
  BOOST_TEST(folder.entries() == 0u);
}

BOOST_AUTO_TEST_CASE(a_write_replaces_the_old_file_and_leaves_nothing_else) {
  const Folder folder;
  write_safetensors(folder.file(), example(), {});
  write_safetensors(folder.file(), {{"a", {1}, {1}}}, {});
  BOOST_TEST(folder.entries() == 1u);
  BOOST_TEST(read_safetensors(folder.file()).tensors.size() == 1u);
  // A link stays a link.
  fs::create_symlink(folder.file(), folder.file("link"));
  write_safetensors(folder.file("link"), example(), {});
  BOOST_TEST(fs::is_symlink(folder.file("link")));
  BOOST_TEST(read_safetensors(folder.file()).tensors.size() == 4u);
}

BOOST_AUTO_TEST_CASE(a_write_that_fails_leaves_the_old_file_alone) {
  const Folder folder;
  write_safetensors(folder.file(), example(), {});
  const auto before = content(folder.file());
  rlimit limit{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const auto usual = limit.rlim_cur;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  limit.rlim_cur = 4096;
  BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  std::string message;
  try {
    write_safetensors(folder.file(),
                      {{"a", {10000}, std::vector<float>(10000)}}, {});
  } catch (const InputError& error) {
    message = error.what();
  }
  limit.rlim_cur = usual;
  BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  std::signal(SIGXFSZ, handler);
  BOOST_TEST(message.find(folder.file()) != message.npos);
  BOOST_TEST(message.find("cannot be written") != message.npos);
  BOOST_TEST(folder.entries() == 1u);
  BOOST_TEST(content(folder.file()) == before);
}

BOOST_AUTO_TEST_CASE(a_place_that_cannot_be_written_is_named) {
  const Folder folder;
  for (const auto& path : {folder.file("absent/weights"), folder.path.string(),
                           std::string{"/dev/null"}})
    BOOST_CHECK_EXCEPTION(write_safetensors(path, example(), {}), InputError,
                          [&](const InputError& error) {
                            return std::string{error.what()}.find(path)
                                   != std::string::npos;
                          });
  BOOST_TEST(folder.entries() == 0u);
  BOOST_TEST(fs::is_character_file("/dev/null"));
}

BOOST_AUTO_TEST_CASE(a_place_that_cannot_be_read_is_named) {
  const Folder folder;
  refuses(folder.file("absent"), "cannot be opened");
  refuses(folder.path.string(), "not a regular file");
}

BOOST_AUTO_TEST_CASE(a_file_that_shrinks_while_it_is_read_is_noticed) {
  const Folder folder;
  put(folder.file(), "0123456789");
  troupe::InputFile file{folder.file()};
  fs::resize_file(folder.file(), 5);
  std::vector<std::byte> bytes(file.size());
  BOOST_CHECK_THROW(file.read_all(bytes), InputError);
}

BOOST_AUTO_TEST_CASE(hashes_are_those_anyone_computes) {
  BOOST_TEST(troupe::sha256(std::as_bytes(std::span{"abc", 3}))
             == "ba7816bf8f01cfea414140de5dae2223"
                "b00361a396177a9cb410ff61f20015ad");
  BOOST_TEST(troupe::sha256({})
             == "e3b0c44298fc1c149afbf4c8996fb924"
                "27ae41e4649b934ca495991b7852b855");
  // By Python: hashlib over the bytes that docs/command_line.md names.
  BOOST_TEST(tensors_sha256(example())
             == "b381fb7429e87464c484541c3781feb5"
                "5c3d92e70a0ccbcba0315cdfd4284103");
}

BOOST_AUTO_TEST_CASE(the_hash_sees_values_shapes_and_names_not_their_order) {
  const auto tensors = example();
  const auto hash = tensors_sha256(tensors);
  BOOST_TEST(tensors_sha256({tensors.rbegin(), tensors.rend()}) == hash);
  auto other = tensors;
  other[0].shape = {3, 2};
  BOOST_TEST(tensors_sha256(other) != hash);
  other = tensors;
  other[3].name = "scalar2";
  BOOST_TEST(tensors_sha256(other) != hash);
  other = tensors;
  other[0].values[3] = -0.0f;
  BOOST_TEST(tensors_sha256(other) != hash);
}

BOOST_AUTO_TEST_CASE(several_files_of_an_index_are_read_as_one) {
  const Folder folder;
  const auto index = folder.file("model.safetensors.index.json");
  const auto tensors = example();
  write_safetensors(folder.file("a.safetensors"), {tensors[0]}, {{"x", "1"}});
  write_safetensors(folder.file("b.safetensors"), {tensors[1]}, {{"x", "2"}});
  const auto map = [](const std::string& first, const std::string& second) {
    return R"({"metadata": {"total_size": 9}, "weight_map": {"layer1.weight": ")"
           + first + R"(", "layer1.bias": ")" + second + "\"}}";
  };
  put(index, map("a.safetensors", "b.safetensors"));
  const auto read = read_safetensors(index);
  BOOST_REQUIRE_EQUAL(read.tensors.size(), 2);
  BOOST_CHECK_EQUAL(read.tensors[0].name, "layer1.bias");
  BOOST_CHECK(read.tensors[0].values == tensors[1].values);
  BOOST_CHECK(read.tensors[1].shape == tensors[0].shape);
  BOOST_CHECK(read.metadata.empty());
  BOOST_CHECK(troupe::read_safetensors_metadata(index).empty());
  BOOST_CHECK_EQUAL(troupe::read_safetensors_shapes(index).size(), 2);
  const auto refused = [&](const std::string& text, const std::string& why) {
    put(index, text);
    BOOST_CHECK_EXCEPTION(read_safetensors(index), InputError,
                          [&](const InputError& failure) {
                            const std::string line = failure.what();
                            BOOST_TEST_CONTEXT(line)
                            BOOST_CHECK(line.find(why) != std::string::npos);
                            return true;
                          });
  };
  refused("{", "no weight_map");
  refused("{}", "no weight_map");
  refused(R"({"weight_map": {"w": 3}})", "names no file of tensor w");
  refused(map("../a.safetensors", "b.safetensors"), "no file of its folder");
  refused(map(std::string(5000, 'a'), "b.safetensors"),
          "no file of its folder");
  refused(map("a.safetensors\\u0000", "b.safetensors"),
          "no file of its folder");
  refused(map("a.safetensors", "c.safetensors"), "c.safetensors");
  fs::copy_file(folder.file("a.safetensors"), folder.file("c.safetensors"));
  refused(map("a.safetensors", "c.safetensors"), "two of its files");
}

BOOST_AUTO_TEST_SUITE_END()
