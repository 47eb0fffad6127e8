#include "kernels/files/byte_source.hpp"
#include "kernels/files/file_list.hpp"
#include "kernels/files/file_url.hpp"
#include "tests/unit/kernels/data_files.hpp"

#include <map>

using namespace troupe;
using namespace troupe::testing;

BOOST_AUTO_TEST_SUITE(file_url)

namespace {

/// Objects in memory; which ones were asked for.
class FakeStore : public FileStore {
public:
  std::map<std::string, std::string> objects;
  mutable std::vector<std::string> asked;

  class Object : public OpenedFile {
  public:
    Object(std::string name, std::string text)
      : name_(std::move(name)), text_(std::move(text)) {}
    const std::string& name() const override { return name_; }
    uint64_t size() const override { return text_.size(); }
    int64_t version() const override { return 1; }
    size_t read_at(uint64_t offset, std::span<std::byte> out) const override {
      if (offset >= text_.size())
        return 0;
      const auto part = std::string_view{text_}.substr(offset, out.size());
      std::copy_n(reinterpret_cast<const std::byte*>(part.data()), part.size(),
                  out.begin());
      return part.size();
    }

  private:
    std::string name_;
    std::string text_;
  };

  std::shared_ptr<const OpenedFile>
  open(const std::string& url) const override {
    asked.push_back(url);
    const auto at = objects.find(url);
    if (at == objects.end())
      throw InputError(shown_place(url) + ": is not there");
    return std::make_shared<Object>(shown_place(url), at->second);
  }

  std::vector<std::string> list(const std::string& pattern) const override {
    asked.push_back(pattern);
    const auto start = pattern.substr(0, pattern.find('*'));
    std::vector<std::string> urls;
    for (const auto& [url, text] : objects)
      if (url.starts_with(start))
        urls.push_back(url);
    return urls;
  }
};

std::vector<std::string> places(const std::string& place,
                                const std::shared_ptr<FakeStore>& store) {
  std::vector<std::string> result;
  for (const auto& file : list_files(place, store))
    result.push_back(file.place());
  return result;
}

using Places = std::vector<std::string>;

} // namespace

BOOST_AUTO_TEST_CASE(a_query_is_shown_nowhere) {
  BOOST_TEST(shown_place("https://host/a?X-Amz-Signature=secret")
             == "https://host/a");
  BOOST_TEST(shown_place("https://me:secret@host/a") == "https://…@host/a");
  BOOST_TEST(shown_place("https://host/a@b") == "https://host/a@b");
  BOOST_TEST(shown_place("/a?b") == "/a?b");
  BOOST_TEST(shown_place("s3://bucket/a?b") == "s3://bucket/a?b");
  const DataFile file{"https://host/a.tfrecord.gz?token=secret", nullptr};
  BOOST_TEST(file.name() == "https://host/a.tfrecord.gz");
  BOOST_CHECK_EXCEPTION(file.open(), InputError,
                        says({"https://host/a.tfrecord.gz", "elsewhere"}));
}

BOOST_AUTO_TEST_CASE(what_stands_beside_is_found_as_a_path_would_be) {
  BOOST_TEST(beside_url("https://h/a/list?sig=1", "b/c") == "https://h/a/b/c");
  BOOST_TEST(beside_url("https://h/a/list", "/c") == "https://h/c");
  BOOST_TEST(beside_url("https://h", "c") == "https://h/c");
  BOOST_TEST(beside_url("s3://b/a/list", "c*") == "s3://b/a/c*");
  BOOST_TEST(beside_url("s3://b/list", "https://h/c") == "https://h/c");
}

BOOST_AUTO_TEST_CASE(an_address_that_holds_a_secret_is_refused) {
  for (const auto* url :
       {"https://me:secret@host/a", "https://secret@host/a",
        "https://host/a?sig=secret", "https://", "https://host/a b",
        "https://host/a\n", "https://host/a#b", "s3://bucket", "s3://bucket/",
        "s3:///a"})
    BOOST_CHECK_EXCEPTION(check_kept_url(url), UsageError,
                          [](const InputError& error) {
                            const std::string text = error.what();
                            return text.find("secret@") == text.npos
                                   && text.find("sig=") == text.npos
                                   && says({})(error);
                          });
  check_kept_url("s3://bucket/a b?c");
  check_kept_url("https://host/a%20b");
  check_url("https://host/a?sig=secret"); // as lists may have them
}

BOOST_AUTO_TEST_CASE(specifications_keep_no_secret) {
  for (const auto* spec :
       {"csv:https://host/a%3Fsig=hush", "csv:https://me:hush@host/a",
        "csv:https://host/a?sig=hush", "csv:https://host/a?b=hush?c",
        "csv:@https://host/a?X-Amz-Signature=hush",
        "npy:https://host/a?labels=https://me:hush@host/b",
        "https://host/a.csv?sig=hush", "https://me:hush@host/a.csv"})
    BOOST_CHECK_EXCEPTION(parse_data_spec(spec), UsageError,
                          [](const InputError& error) {
                            const std::string text = error.what();
                            return text.find("hush") == text.npos;
                          });
  BOOST_CHECK_EXCEPTION(parse_data_spec("s3://bucket/a.csv"), UsageError,
                        says({"csv:s3://bucket/a.csv"}));
  BOOST_TEST(parse_data_spec("csv:s3://bucket/a/*.csv?header=true").where
             == "s3://bucket/a/*.csv");
  BOOST_TEST(parse_data_spec("csv:https://host:81/a.csv").where
             == "https://host:81/a.csv");
}

BOOST_AUTO_TEST_CASE(patterns_and_prefixes_of_a_store_are_listed) {
  auto store = std::make_shared<FakeStore>();
  for (const auto* name : {"b", "a", "x/c"})
    store->objects["s3://bucket/" + std::string{name}] = "1";
  BOOST_TEST(places("s3://bucket/*", store)
             == (Places{"s3://bucket/a", "s3://bucket/b", "s3://bucket/x/c"}));
  BOOST_TEST(places("s3://bucket/x/", store) == Places{"s3://bucket/x/c"});
  BOOST_TEST(places("s3://bucket/a", store) == Places{"s3://bucket/a"});
  BOOST_TEST(store->asked.size() == 2u); // one object is not looked for
  // One that is called like a pattern is that one.
  store->objects["s3://bucket/*"] = "2";
  BOOST_TEST(places("s3://bucket/*", store) == Places{"s3://bucket/*"});
  BOOST_CHECK_EXCEPTION(places("s3://bucket/none*", store), InputError,
                        says({"s3://bucket/none*", "matches no object"}));
  // Over http nothing can be listed: characters stand for themselves.
  BOOST_TEST(places("https://host/[a]*", store) == Places{"https://host/[a]*"});
  BOOST_TEST(!names_several("https://host/[a]*"));
  BOOST_TEST(names_several("s3://bucket/a/"));
}

BOOST_AUTO_TEST_CASE(lists_may_name_what_lies_elsewhere_and_lie_there) {
  const Folder folder;
  auto store = std::make_shared<FakeStore>();
  store->objects["https://host/d/list"] =
    "# two\none\nhttps://other/two?sig=secret\n";
  BOOST_TEST(places("@https://host/d/list", store)
             == (Places{"https://host/d/one", "https://other/two?sig=secret"}));
  const auto here = folder.put("here", std::string{"1"});
  const auto list = folder.put("list",
                               std::string{"here\nhttps://host/d/one?a\n"});
  BOOST_TEST(places("@" + list, store)
             == (Places{here, "https://host/d/one?a"}));
  const auto twice = folder.put(
    "twice", std::string{"https://host/a?sig=secret\nhttps://host/a?sig="
                         "secret\n"});
  BOOST_CHECK_EXCEPTION(
    places("@" + twice, store), InputError, [](const InputError& error) {
      const std::string text = error.what();
      return says({"twice"})(error) && text.find("secret") == text.npos;
    });
}

BOOST_AUTO_TEST_CASE(bytes_elsewhere_are_read_like_a_file) {
  auto store = std::make_shared<FakeStore>();
  std::string text;
  for (int i = 0; i < 300'000; ++i)
    text += std::to_string(i) + ",1\n";
  store->objects["https://host/a.csv"] = text;
  const auto packed = gzip(bytes_of(text));
  store->objects["https://host/a.csv.gz?sig=x"] = {packed.begin(),
                                                   packed.end()};
  for (const auto* url :
       {"https://host/a.csv", "https://host/a.csv.gz?sig=x"}) {
    const auto source = open_bytes({url, store});
    std::string back(text.size() + 10, ' ');
    const auto got =
      source->read(std::as_writable_bytes(std::span{back.data(), back.size()}));
    BOOST_TEST(got == text.size());
    BOOST_TEST((back.substr(0, got) == text));
  }
  ReadLimits limits;
  limits.store = store;
  const auto parts = load_data(
    parse_data_spec("csv:https://host/a.csv?header=false"), {}, limits);
  BOOST_TEST(parts.train->samples() == 300'000u);
}

BOOST_AUTO_TEST_SUITE_END()
