#include "actors/stores/http_answer.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(http_answer)

namespace {

HttpAnswer answer_of(std::initializer_list<const char*> lines) {
  HttpAnswer answer;
  for (const auto* line : lines)
    take_header(line, answer);
  return answer;
}

FetchEnd end_of(std::initializer_list<const char*> lines,
                const RangeWish& wish) {
  return judge(answer_of(lines), wish).end;
}

const RangeWish middle{100, 199, 1'000, "\"a\""};

} // namespace

BOOST_AUTO_TEST_CASE(fields_are_found_whatever_their_case) {
  const auto answer = answer_of(
    {"HTTP/1.1 206 Partial Content\r\n", "content-LENGTH:  100 \r\n",
     "Content-Range: bytes 100-199/1000\r\n", "ETag: \"a\"\r\n",
     "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n",
     "x-amz-bucket-region: eu-west-1\r\n", "Retry-After: 7\r\n", "\r\n"});
  BOOST_TEST(answer.status == 206);
  BOOST_CHECK(answer.length == 100u);
  BOOST_CHECK(answer.range == (ContentRange{100, 199, 1'000}));
  BOOST_TEST(answer.tag == "\"a\"");
  BOOST_TEST(answer.state() == "\"a\"");
  BOOST_TEST(answer.region == "eu-west-1");
  BOOST_TEST(answer.retry_after_s == 7u);
}

BOOST_AUTO_TEST_CASE(a_status_line_begins_the_answer_anew) {
  const auto answer = answer_of({"HTTP/1.1 302 Found", "ETag: \"of the way\"",
                                 "", "HTTP/2 200", "Content-Length: 3"});
  BOOST_TEST(answer.status == 200);
  BOOST_TEST(answer.tag.empty());
  BOOST_CHECK(answer.length == 3u);
}

BOOST_AUTO_TEST_CASE(without_a_tag_the_time_tells_states_apart) {
  BOOST_TEST(answer_of({"HTTP/1.1 200 OK", "Last-Modified: then"}).state()
             == "modified then");
  BOOST_TEST(answer_of({"HTTP/1.1 200 OK"}).state().empty());
}

BOOST_AUTO_TEST_CASE(what_is_malformed_is_passed_over) {
  const auto answer = answer_of(
    {"HTTP/1.1 20x", "no colon", "Content-Length: -1", "Content-Length: 1 2",
     "Content-Range: bytes 5-3/10", "ETag: a\tb", "Retry-After: Friday",
     "x-amz-bucket-region: http://evil"});
  BOOST_TEST(answer.status == 0);
  BOOST_CHECK(!answer.length);
  BOOST_CHECK(!answer.range);
  BOOST_TEST(answer.tag.empty());
  BOOST_TEST(answer.region.empty());
  BOOST_TEST(answer.retry_after_s == 0u);
}

BOOST_AUTO_TEST_CASE(ranges_are_read_as_the_standard_writes_them) {
  const auto is = [](const char* text, ContentRange wanted) {
    return parse_content_range(text) == wanted;
  };
  BOOST_TEST(is("bytes 0-0/5", {0, 0, 5}));
  BOOST_TEST(is("bytes 0-4/*", {0, 4, {}}));
  BOOST_TEST(is("bytes */5", {{}, 0, 5}));
  for (const auto* text :
       {"", "bytes", "bytes 0-4", "bytes 0-4/", "bytes 0-4/4", "bytes */*",
        "items 0-4/5", "bytes 4-0/5", "bytes -4/5", "bytes 0-/5",
        "bytes 0-4/5x", "bytes 0-99999999999999999999999/5"})
    BOOST_TEST(!parse_content_range(text), text);
}

BOOST_AUTO_TEST_CASE(a_part_is_whole_where_it_is_the_one_asked_for) {
  BOOST_CHECK(end_of({"HTTP/1.1 206 OK", "ETag: \"a\"",
                      "Content-Range: bytes 100-199/1000"},
                     middle)
              == FetchEnd::whole);
  BOOST_CHECK(end_of({"HTTP/1.1 206 OK", "ETag: \"a\"",
                      "Content-Range: bytes 100-150/1000"},
                     middle)
              == FetchEnd::cut);
  BOOST_CHECK(
    end_of({"HTTP/1.1 206 OK", "ETag: \"a\"", "Content-Range: bytes 0-99/1000"},
           middle)
    == FetchEnd::odd);
  BOOST_CHECK(end_of({"HTTP/1.1 206 OK", "ETag: \"a\""}, middle)
              == FetchEnd::odd);
}

BOOST_AUTO_TEST_CASE(another_state_or_length_is_a_change) {
  BOOST_CHECK(end_of({"HTTP/1.1 206 OK", "ETag: \"b\"",
                      "Content-Range: bytes 100-199/1000"},
                     middle)
              == FetchEnd::changed);
  BOOST_CHECK(end_of({"HTTP/1.1 206 OK", "ETag: \"a\"",
                      "Content-Range: bytes 100-199/1001"},
                     middle)
              == FetchEnd::changed);
  BOOST_CHECK(end_of({"HTTP/1.1 206 OK", // it has lost its tag
                      "Content-Range: bytes 100-199/1000"},
                     middle)
              == FetchEnd::changed);
  BOOST_CHECK(end_of({"HTTP/1.1 412 no"}, middle) == FetchEnd::changed);
  BOOST_CHECK(end_of({"HTTP/1.1 416 no"}, middle) == FetchEnd::changed);
}

BOOST_AUTO_TEST_CASE(all_of_it_is_taken_only_where_all_was_asked_for) {
  const std::initializer_list<const char*> all{"HTTP/1.1 200 OK", "ETag: \"a\"",
                                               "Content-Length: 1000"};
  BOOST_CHECK(end_of(all, middle) == FetchEnd::no_ranges);
  BOOST_CHECK(end_of(all, {0, 999, 1'000, "\"a\""}) == FetchEnd::whole);
  BOOST_CHECK(end_of(all, {0, 0, {}, {}}) == FetchEnd::no_ranges);
  BOOST_CHECK(end_of({"HTTP/1.1 200 OK", "ETag: \"a\"", "Content-Length: 9"},
                     {0, 999, 1'000, "\"a\""})
              == FetchEnd::changed);
}

BOOST_AUTO_TEST_CASE(an_empty_object_is_one_however_it_is_said) {
  const RangeWish look{0, 0, {}, {}};
  BOOST_CHECK(end_of({"HTTP/1.1 416 no", "Content-Range: bytes */0"}, look)
              == FetchEnd::whole);
  BOOST_CHECK(end_of({"HTTP/1.1 416 no"}, look) == FetchEnd::whole);
  BOOST_CHECK(end_of({"HTTP/1.1 200 OK", "Content-Length: 0"}, look)
              == FetchEnd::whole);
  BOOST_CHECK(end_of({"HTTP/1.1 416 no", "Content-Range: bytes */7"}, look)
              == FetchEnd::odd);
}

BOOST_AUTO_TEST_CASE(a_status_says_whether_another_try_helps) {
  const std::pair<const char*, FetchEnd> cases[]{
    {"HTTP/1.1 401 x", FetchEnd::refused},
    {"HTTP/1.1 403 x", FetchEnd::refused},
    {"HTTP/1.1 404 x", FetchEnd::missing},
    {"HTTP/1.1 410 x", FetchEnd::missing},
    {"HTTP/1.1 408 x", FetchEnd::failed},
    {"HTTP/1.1 429 x", FetchEnd::busy},
    {"HTTP/1.1 500 x", FetchEnd::failed},
    {"HTTP/1.1 502 x", FetchEnd::failed},
    {"HTTP/1.1 503 x", FetchEnd::busy},
    {"HTTP/1.1 504 x", FetchEnd::failed},
    {"HTTP/1.1 301 x", FetchEnd::odd},
    {"HTTP/1.1 400 x", FetchEnd::odd},
    {"nothing", FetchEnd::cut}};
  for (const auto& [line, end] : cases) {
    const auto judgement = judge(answer_of({line}), middle);
    BOOST_TEST(to_string(judgement.end) == to_string(end), line);
    BOOST_TEST(!judgement.why.empty());
  }
}

BOOST_AUTO_TEST_CASE(a_weak_tag_compares_and_is_not_sent) {
  BOOST_TEST(is_strong_tag("\"a\""));
  BOOST_TEST(!is_strong_tag("W/\"a\""));
  BOOST_TEST(!is_strong_tag("modified then"));
  BOOST_TEST(!is_strong_tag(""));
}

BOOST_AUTO_TEST_SUITE_END()
