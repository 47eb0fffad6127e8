#include "apps/settings/places.hpp"
#include "tests/unit/apps/settings_bench.hpp"

#include <cstdlib>

using namespace troupe;

namespace places {
namespace {

namespace fs = std::filesystem;

struct Folder : Bench {
  std::string path{"/tmp/troupe-places-XXXXXX"};

  Folder() { BOOST_REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { fs::remove_all(path); }
  std::string at(const std::string& name) const { return path + '/' + name; }
  void put(const std::string& name) const { std::ofstream{at(name)} << "x"; }
};

} // namespace
} // namespace places

BOOST_FIXTURE_TEST_SUITE(places_suite, places::Folder)

BOOST_AUTO_TEST_CASE(a_place_is_known_through_links_and_by_all_its_names) {
  namespace fs = std::filesystem;
  put("here");
  fs::create_hard_link(at("here"), at("twin"));
  fs::create_symlink("here", at("link"));
  fs::create_symlink("absent", at("early"));
  fs::create_symlink(at("early"), at("earlier"));
  fs::create_symlink("round", at("round"));
  for (const auto* other : {"here", "twin", "link", "./none/../here"})
    BOOST_CHECK(is_one_place(at("here"), at(other)));
  for (const auto* other : {"absent", "early", "earlier", "absent/"})
    BOOST_CHECK(is_one_place(at("absent"), at(other)));
  for (const auto* other : {"absent", "early", "round", ""})
    BOOST_CHECK(!is_one_place(at("here"), at(other)));
  BOOST_CHECK(!is_one_place("", ""));
  BOOST_CHECK(!is_one_place("/dev/null", "/dev/null"));
}

BOOST_AUTO_TEST_CASE(files_that_a_folder_is_read_for_are_not_written_over) {
  namespace fs = std::filesystem;
  fs::create_directories(at("images/cat"));
  fs::create_directories(at("certs"));
  fs::create_directories(at("logs/flight"));
  for (const auto* name :
       {"train-images-idx3-ubyte", "data_batch_1.bin", "images/cat/1.png",
        "images/cat/w.st", "certs/ca.key", "logs/flight/worker-0-7.flight",
        "train-w.st"})
    put(name);
  const auto refused = [&](Words words, const std::string& flag,
                           const std::string& name, const std::string& reader) {
    words.insert(words.end(), {flag, at(name)});
    BOOST_CHECK_EQUAL(usage(words), flag + " " + at(name) + " is what " + reader
                                      + " reads; name another file");
  };
  const auto train = [&](const std::string& data) -> Words {
    return {"train", "--data", data};
  };
  refused(train("mnist:" + path), "--save", "train-images-idx3-ubyte",
          "--data");
  refused(train("cifar10:" + path), "--save", "data_batch_1.bin", "--data");
  refused(train("images:" + at("images")), "--save", "images/cat/1.png",
          "--data");
  refused({"role", "coordinator", "--data", "synthetic:digits",
           "--certificates", at("certs")},
          "--save", "certs/ca.key", "--certificates");
  for (const auto* folder : {"logs", "logs/flight"})
    refused({"timeline", at(folder)}, "--out", "logs/flight/worker-0-7.flight",
            "'troupe timeline'");
  // What lies beside them is an earlier run's.
  for (const auto& [data, name] :
       {std::pair{"mnist:" + path, "train-w.st"},
        std::pair{"images:" + at("images"), "images/cat/w.st"}})
    BOOST_CHECK_EQUAL(parse({"train", "--data", data, "--save", at(name)}).save,
                      at(name));
}

BOOST_AUTO_TEST_SUITE_END()
