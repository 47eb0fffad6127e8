#include "actors/page/run_report.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <string>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(run_report_page)

namespace {

std::string summary_of(const std::string& model) {
  return nlohmann::json{{"steps", 1},
                        {"strategy", "mirrored"},
                        {"weights_sha256", "00"},
                        {"model", model}}
    .dump();
}

/// What stands between the block's begin and what would end it first.
std::string data_in(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"run\">";
  const auto at = page.find(begin);
  BOOST_REQUIRE(at != page.npos);
  BOOST_TEST(page.find(begin, at + 1) == page.npos);
  const auto from = at + begin.size();
  return page.substr(from, page.find('<', from) - from);
}

} // namespace

BOOST_AUTO_TEST_CASE(nothing_that_a_run_says_ends_the_block) {
  for (const std::string model :
       {"mlp:784-10", "</script><script>x</script>", "<!--<script>", "&lt;",
        "NONCE RUN_DATA", "\xE2\x80\xA8"}) {
    const auto data = data_in(run_report(summary_of(model)));
    BOOST_TEST(nlohmann::json::parse(data)["model"] == model);
  }
}

BOOST_AUTO_TEST_CASE(its_policy_lets_its_own_script_run_and_asks_nobody) {
  const auto one = run_report(summary_of("a"));
  BOOST_TEST(one.find("NONCE") == one.npos);
  BOOST_TEST(one.find("RUN_DATA") == one.npos);
  BOOST_TEST(one.find("default-src 'none'; script-src 'nonce-") != one.npos);
  BOOST_TEST(one.find("fetch(") == one.npos);
  BOOST_TEST(one.size() < 150u << 10);
  BOOST_TEST(one != run_report(summary_of("a"))); // the word is another
}

BOOST_AUTO_TEST_CASE(what_is_no_run_s_summary_is_refused) {
  for (const std::string text :
       {"", "[]", "3", "{", R"({"steps":1,"strategy":"mirrored"})"})
    BOOST_CHECK_THROW(run_report(text), InputError);
  BOOST_CHECK_THROW(run_report(std::string(1'000'000, '[')), InputError);
}

BOOST_AUTO_TEST_SUITE_END()
