#include "kernels/files/byte_source.hpp"
#include "kernels/files/file_list.hpp"
#include "tests/unit/kernels/data_files.hpp"

#include <zstd.h>

using namespace troupe;
using namespace troupe::testing;

BOOST_AUTO_TEST_SUITE(file_list)

namespace {

using Names = std::vector<std::string>;

Bytes zstd(const Bytes& bytes, int window_log = 0) {
  auto* context = ZSTD_createCCtx();
  if (window_log > 0)
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  Bytes result(ZSTD_compressBound(bytes.size()) + 64);
  // In two calls: a frame whose length is known asks for no larger window.
  ZSTD_inBuffer from{bytes.data(), bytes.size(), 0};
  ZSTD_inBuffer nothing{bytes.data(), 0, 0};
  ZSTD_outBuffer to{result.data(), result.size(), 0};
  ZSTD_compressStream2(context, &to, &from, ZSTD_e_continue);
  const auto left = ZSTD_compressStream2(context, &to, &nothing, ZSTD_e_end);
  ZSTD_freeCCtx(context);
  BOOST_REQUIRE(left == 0u);
  result.resize(to.pos);
  return result;
}

Bytes unpacked(const std::string& path, size_t piece) {
  const auto source = open_bytes(path);
  Bytes result;
  Bytes part(piece);
  while (true) {
    const auto got = source->read(std::as_writable_bytes(std::span{part}));
    result.insert(result.end(), part.begin(),
                  part.begin() + static_cast<ptrdiff_t>(got));
    if (got < piece)
      return result;
  }
}

Names names_of(const Folder& folder, const std::string& place) {
  Names result;
  for (const auto& file : list_files(place))
    result.push_back(
      std::filesystem::relative(file.place(), folder.path).string());
  return result;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_pattern_names_files_in_the_order_of_their_bytes) {
  const Folder folder;
  for (const char* name : {"b-1", "a-2", "B-1", "a-10", "a-1", "c"})
    folder.put(name, "x");
  const auto place = (folder.path / "?-[0-9]*").string();
  BOOST_TEST(names_several(place));
  BOOST_TEST(names_of(folder, place)
               == (Names{"B-1", "a-1", "a-10", "a-2", "b-1"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_file_is_not_a_pattern_where_it_is_there) {
  const Folder folder;
  const auto odd = folder.put("data[1].csv", "x");
  folder.put("data1.csv", "x");
  BOOST_TEST(!names_several(odd));
  BOOST_TEST(names_of(folder, odd) == Names{"data[1].csv"},
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_list_names_paths_and_patterns_beside_it) {
  const Folder folder;
  for (const char* name : {"x", "y-1", "y-2"})
    folder.put(name, "x");
  const auto list = folder.put("list", "# what to read\r\n\n y-* \nx\n");
  BOOST_TEST(names_several("@" + list));
  BOOST_TEST(names_of(folder, "@" + list) == (Names{"y-1", "y-2", "x"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_names_no_file_or_one_twice_is_one_line) {
  const Folder folder;
  folder.put("x", "x");
  const auto place = folder.path.string();
  const auto refuses = [](const std::string& what, Names words) {
    BOOST_CHECK_EXCEPTION(list_files(what), InputError, says(words));
  };
  refuses(place + "/y*", {"y*", "matches no file"});
  refuses("@" + folder.put("empty", "#\n"), {"names no file"});
  refuses("@" + folder.put("twice", "x\nx*\n"), {"twice"});
  refuses("@" + place + "/none", {"none", "cannot be opened"});
}

BOOST_AUTO_TEST_CASE(zstd_comes_apart_like_gzip) {
  const Folder folder;
  Bytes bytes(700'001);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<uint8_t>(i * i >> 7);
  auto two = zstd(bytes);
  const auto more = zstd(bytes_of("end"));
  const auto one = folder.put("one.zst", two);
  two.insert(two.end(), more.begin(), more.end());
  const auto both = folder.put("two.zst", two);
  for (size_t piece : {1u << 20, 700'001u, 4096u, 7u}) {
    BOOST_TEST((unpacked(one, piece) == bytes));
    auto wanted = bytes;
    wanted.insert(wanted.end(), {'e', 'n', 'd'});
    BOOST_TEST((unpacked(both, piece) == wanted));
  }
}

BOOST_AUTO_TEST_CASE(a_damaged_zstd_stream_is_one_line) {
  const Folder folder;
  const auto whole = zstd(Bytes(100'000, 'x'));
  const auto refuses = [&](Bytes bytes, Names words) {
    const auto path = folder.put("f.zst", bytes);
    BOOST_CHECK_EXCEPTION(unpacked(path, 1000), InputError, says(words));
  };
  refuses({}, {"ends too early"});
  refuses(bytes_of("plain text"), {"is not a zstd stream"});
  refuses({whole.begin(), whole.end() - 5}, {"ends too early"});
  auto followed = whole;
  followed.insert(followed.end(), 100, 'x');
  refuses(followed, {"something follows"});
  refuses(zstd(Bytes(100, 'x'), 27), {"64 MiB"});
  BOOST_CHECK_EXCEPTION(load("csv:" + folder.put("f", whole)), InputError,
                        says({"add .zst to its name"}));
}

BOOST_AUTO_TEST_CASE(many_files_are_one_data_set) {
  const Folder folder;
  folder.put("1.csv", "a,y\n1,0\n2,1\n");
  folder.put("2.csv.gz", gzip(bytes_of("a,y\n3,1\n")));
  folder.put("3.csv.zst", zstd(bytes_of("a,y\n4,0\n")));
  const auto table = *load("csv:" + (folder.path / "*.csv*").string()).train;
  BOOST_TEST((table.labels == std::vector<int32_t>{0, 1, 1, 0}));
  BOOST_TEST((table.values == Column<float>{1, 2, 3, 4}));
  folder.put("4.csv", "b,y\n3,1\n");
  refuses_data("csv:" + (folder.path / "*.csv*").string(),
               {"4.csv:1", "header of the first file"});

  folder.put("1.svm", "1 2:5\n");
  folder.put("2.svm", "0 1:1 3:7\n");
  const auto sparse = *load("libsvm:" + (folder.path / "*.svm").string()).train;
  BOOST_TEST(sparse.samples() == 2u);
  BOOST_TEST((sparse.ids == std::vector<int32_t>{1, 0, 2}));

  folder.put("1.txt", "ab");
  folder.put("2.txt", "ba");
  const auto text = *load("text:" + (folder.path / "*.txt").string()).train;
  BOOST_TEST((text.tokens == std::vector<int32_t>{0, 1, 1, 0}));
}

BOOST_AUTO_TEST_SUITE_END()
