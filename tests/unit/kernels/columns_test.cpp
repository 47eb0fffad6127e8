#include "kernels/base/error.hpp"
#include "kernels/columns/dates.hpp"
#include "kernels/columns/fitted_columns.hpp"
#include "kernels/columns/missing_texts.hpp"
#include "kernels/columns/value_index.hpp"
#include "tests/unit/kernels/data_files.hpp"

#include <cmath>
#include <map>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(columns)

namespace {

double seconds_of(const char* text, DateForm form = DateForm::ymd) {
  const auto date = parse_date(text, form);
  BOOST_REQUIRE_MESSAGE(date.has_value(), text);
  return date->seconds;
}

void refuses_rules(const char* text, const std::vector<std::string>& words) {
  BOOST_TEST_CONTEXT(text)
  BOOST_CHECK_EXCEPTION(check_column_rules(parse_column_rules(text)),
                        UsageError, troupe::testing::says(words));
}

} // namespace

BOOST_AUTO_TEST_CASE(rules_are_read_back_as_they_are_written) {
  for (const auto* text :
       {"age:number", "age:number:missing=median", "age:number:missing=-1.5",
        "age:number:missing=flag", "city:category:min_count=3",
        "city:category:max_values=7", "city:category:buckets=100", "user:id",
        "when:date:missing=refuse:form=unix", "kind:label", "price:target",
        "price:target:scale=standard",
        "when:date:form=dmy:cycle=weekday+hour+month", "*:number",
        "a%2Cb%3Ac%25 d:number", "%20padded%20:id", "%40first:ignore"})
    BOOST_TEST(to_text(parse_column_rules(text)) == text);
  BOOST_TEST(to_text(parse_column_rule("x:target:scale=none")) == "x:target");
  const auto rules = parse_column_rules("a:number,b%2cc : label");
  BOOST_REQUIRE_EQUAL(rules.size(), 2u);
  BOOST_TEST(rules[1].name == "b,c");
  BOOST_TEST((rules[1].kind == ColumnKind::label));
}

BOOST_AUTO_TEST_CASE(the_column_whose_ids_mean_other_values_is_named) {
  const auto fitted = [](const char* rules,
                         std::vector<std::vector<std::string>> values) {
    FittedColumns out;
    for (auto& rule : parse_column_rules(rules))
      out.columns.push_back({rule, 0, std::move(values[out.columns.size()])});
    return out;
  };
  const auto one = fitted("age:number,city:category,hash:id:buckets=9,y:label",
                          {{}, {"a", "b"}, {}, {"no", "yes"}});
  BOOST_TEST(other_values(one, one) == "");
  // Numbers and names have no ids.
  BOOST_TEST(other_values(one, fitted("town:category,h:id:buckets=9,z:label",
                                      {{"a", "b"}, {}, {"no", "yes"}}))
             == "");
  BOOST_TEST(other_values(one, fitted("city:category,h:id:buckets=9,y:label",
                                      {{"a", "c"}, {}, {"no", "yes"}}))
             == "city");
  BOOST_TEST(other_values(one, fitted("city:category,h:id:buckets=8,y:label",
                                      {{"a", "b"}, {}, {"no", "yes"}}))
             == "hash");
  BOOST_TEST(other_values(one, fitted("city:category,h:id:buckets=9,y:label",
                                      {{"a", "b"}, {}, {"0", "1"}}))
             == "y");
  BOOST_TEST(other_values(one, fitted("city:category", {{"a", "b"}}))
             == "hash");
  BOOST_TEST(other_values(fitted("city:category", {{"a", "b"}}), one)
             == "hash");
}

BOOST_AUTO_TEST_CASE(rules_that_say_nothing_are_refused) {
  refuses_rules("age", {"NAME:KIND"});
  refuses_rules(":number", {"names no column"});
  refuses_rules("age:numbre", {"did you mean number"});
  refuses_rules("age:x", {"kinds are number, category"});
  refuses_rules("age:number:missing", {"KEY=VALUE"});
  refuses_rules("age:number:missing=often", {"mean, median, flag, refuse"});
  refuses_rules("age:number:missing=1e39", {"missing=1e39"});
  refuses_rules("age:number:buckets=7", {"buckets=", "missing"});
  refuses_rules("age:number:missing=mean:missing=mean", {"twice"});
  refuses_rules("job:category:buckets=1", {"from 2 to"});
  refuses_rules("job:category:buckets=9:min_count=2", {"leave them out"});
  refuses_rules("job:ignore:buckets=9", {"its kind does not take"});
  refuses_rules("y:target:scale=minmax", {"scale=minmax", "none or standard"});
  refuses_rules("y:target:missing=mean", {"missing=", "none of scale"});
  refuses_rules("y:label:scale=standard", {"its kind does not take"});
  refuses_rules("d:date:form=iso", {"ymd, dmy, mdy, unix"});
  refuses_rules("d:date:cycle=hour+year", {"\"year\"", "weekday"});
  refuses_rules("a%2:number", {"hexadecimal"});
  refuses_rules("*:label", {"every column"});
  refuses_rules("a:number,a:id,y:label", {"\"a\"", "twice"});
  refuses_rules("a:number", {"none is the label"});
  refuses_rules("a:number,y:label,z:target", {"\"y\"", "\"z\""});
  refuses_rules("y:label", {"nothing to learn from"});
}

BOOST_AUTO_TEST_CASE(rules_stand_in_a_file_one_a_line) {
  const troupe::testing::Folder folder;
  const auto path = folder.put("rules", std::string{"# what they are\n\n"
                                                    "a,b:number\r\n"
                                                    "y:label\n"});
  const auto rules = read_column_rules(path);
  BOOST_REQUIRE_EQUAL(rules.size(), 2u);
  BOOST_TEST(rules[0].name == "a,b");
  const auto bad = folder.put("bad", std::string{"a:number\nb:nubmer\n"});
  BOOST_CHECK_EXCEPTION(read_column_rules(bad), InputError,
                        troupe::testing::says({bad + ":2:", "number"}));
  const auto none = folder.put("none", std::string{"# a:number\n"});
  BOOST_CHECK_EXCEPTION(read_column_rules(none), InputError,
                        troupe::testing::says({none, "names no column"}));
}

BOOST_AUTO_TEST_CASE(dates_are_seconds_since_2000) {
  constexpr double day = 86'400;
  BOOST_TEST(seconds_of("2000-01-01") == 0.0);
  BOOST_TEST(seconds_of("1999/12/31") == -day);
  BOOST_TEST(seconds_of("2000-03-01") == 60 * day); // a leap year
  BOOST_TEST(seconds_of("2001-01-01") == 366 * day);
  BOOST_TEST(seconds_of("1970-01-01") == -10'957 * day);
  BOOST_TEST(seconds_of("29.02.2024", DateForm::dmy)
             == seconds_of("2024-02-29"));
  BOOST_TEST(seconds_of("2/29/2024", DateForm::mdy) == seconds_of("2024-2-29"));
  BOOST_TEST(seconds_of("2000-01-01 13:45") == 13 * 3600 + 45 * 60.0);
  BOOST_TEST(seconds_of("2000-01-01T00:00:07.25") == 7.25);
  BOOST_TEST(seconds_of("2000-01-01T01:00:00+01:00") == 0.0);
  BOOST_TEST(seconds_of("2000-01-01 00:00:00 -0130") == 5400.0);
  BOOST_TEST(seconds_of("2000-01-01T00:00Z") == 0.0);
  BOOST_TEST(seconds_of("946684800", DateForm::unix_seconds) == 0.0);
  BOOST_TEST(seconds_of("0", DateForm::unix_seconds) == -10'957 * day);
}

BOOST_AUTO_TEST_CASE(dates_know_weekday_hour_and_month) {
  const auto check = [](const char* text, DateForm form, uint32_t weekday,
                        uint32_t hour, uint32_t month) {
    const auto date = parse_date(text, form);
    BOOST_REQUIRE(date.has_value());
    BOOST_TEST(date->weekday == weekday);
    BOOST_TEST(date->hour == hour);
    BOOST_TEST(date->month == month);
  };
  check("2000-01-01", DateForm::ymd, 5, 0, 0);           // Saturday
  check("2024-02-29T23:59:59", DateForm::ymd, 3, 23, 1); // Thursday
  check("1900-12-31 05:00", DateForm::ymd, 0, 5, 11);    // Monday
  check("1709251199", DateForm::unix_seconds, 3, 23, 1); // the same as above
  check("-1", DateForm::unix_seconds, 2, 23, 11);        // Wednesday
  check("-62135596800", DateForm::unix_seconds, 0, 0, 0);
  check("253402300799", DateForm::unix_seconds, 4, 23, 11);
}

BOOST_AUTO_TEST_CASE(what_is_no_date_is_none) {
  for (const auto* text :
       {"", "2024", "2024-13-01", "2023-02-29", "1900-02-29", "2024-01-32",
        "2024-01-01x", "2024-01/01", "2024-01-01T", "2024-01-01 24:00",
        "2024-01-01 12:60", "2024-01-01 12:00:61", "2024-01-01 12:00:00.",
        "2024-01-01 12:00+25:00", "2024-01-01 12:00+0", "0000-01-01",
        "24-01-01", "20240101"})
    BOOST_TEST(!parse_date(text, DateForm::ymd).has_value(), text);
  BOOST_TEST(!parse_date("01/01/24", DateForm::dmy).has_value());
  BOOST_TEST(!parse_date("1e300", DateForm::unix_seconds).has_value());
  BOOST_TEST(!parse_date("soon", DateForm::unix_seconds).has_value());
}

BOOST_AUTO_TEST_CASE(circles_are_closed) {
  constexpr double turn = 6.283185307179586;
  for (const uint32_t around : {7u, 12u, 24u})
    for (uint32_t at = 0; at < around; ++at) {
      const auto place = on_circle(at, around);
      BOOST_TEST(std::fabs(place.sine - std::sin(turn * at / around)) < 1e-6);
      BOOST_TEST(std::fabs(place.cosine - std::cos(turn * at / around)) < 1e-6);
    }
}

BOOST_AUTO_TEST_CASE(texts_that_mean_nothing_are_known) {
  const MissingTexts usual;
  for (const auto* text : {"", "NA", "?", "NaN", "null", "None"})
    BOOST_TEST(usual.has(text), text);
  for (const auto* text : {"N", "0", "NAN", "-", "Nancy"})
    BOOST_TEST(!usual.has(text), text);
  const MissingTexts own{"-999,-"};
  BOOST_TEST(own.has("-999"));
  BOOST_TEST(own.has(""));
  BOOST_TEST(!own.has("NA"));
}

BOOST_AUTO_TEST_CASE(values_are_numbered_as_they_come) {
  ValueIndex index;
  std::map<std::string, uint32_t> wanted;
  for (uint32_t i = 0; i < 5000; ++i) {
    const auto text = "value " + std::to_string(i * i % 1777)
                      + std::string(i % 3, '\0');
    const auto next = static_cast<uint32_t>(wanted.size());
    const auto [at, is_new] = wanted.emplace(text, next);
    BOOST_REQUIRE_EQUAL(index.add(text), at->second);
  }
  BOOST_TEST(index.size() == wanted.size());
  for (const auto& [text, number] : wanted)
    BOOST_REQUIRE(index.text(number) == text);
  BOOST_TEST(index.add("") == wanted.size());
  BOOST_TEST(index.text(index.add("")).empty());
}

BOOST_AUTO_TEST_CASE(what_was_fitted_is_read_back_to_the_bit) {
  FittedColumns columns;
  columns.given = "@rules,%";
  columns.options = {{"na", "-,\"?\""}, {"sep", ";"}};
  columns.columns = {
    {parse_column_rule("a%2Cb:number:missing=median"), 0.1f, {}},
    {parse_column_rule("job:category"),
     0,
     {"", "100%", "line\nbreak", "\xc3\xa9t\xc3\xa9", "\xff latin"}},
    {parse_column_rule("y:label"), 0, {"<=50K", ">50K"}}};
  columns.mean = {1.0f / 3, -1e-30f};
  columns.inverse_deviation = {0, 3.4e38f};
  const auto json = to_json(columns);
  BOOST_TEST(json.find('\n') == json.npos);
  BOOST_TEST((fitted_columns_from_json(json, "w") == columns));
  const auto& job = columns.columns[1];
  BOOST_TEST(job.ids() == 7u);
  BOOST_TEST(job.id_of("100%") == 3);
  BOOST_TEST(job.id_of("never seen") == unknown_id);
  BOOST_TEST(columns.columns[2].class_of(">50K") == 1);
  BOOST_TEST(columns.columns[2].class_of("50K") == -1);
}

BOOST_AUTO_TEST_CASE(numbers_of_a_model_become_those_of_the_column) {
  FittedColumns columns;
  columns.columns = {{parse_column_rule("x:number"), 0, {}},
                     {parse_column_rule("y:target:scale=standard"), 0, {}}};
  columns.columns[1].mean = 250'000.1f;
  columns.columns[1].deviation = 1.0f / 3;
  const auto json = to_json(columns);
  const auto found = fitted_columns_from_json(json, "w");
  BOOST_TEST((found == columns));
  std::vector<float> numbers{0, 3, -6};
  found.unscale(numbers);
  BOOST_TEST(numbers[0] == 250'000.1f);
  BOOST_TEST(numbers[1] == static_cast<float>(250'000.1f + 1.0));
  BOOST_TEST(numbers[2] == static_cast<float>(250'000.1f - 2.0));
  columns.columns[1] = {parse_column_rule("y:target"), 0, {}};
  numbers = {3};
  columns.unscale(numbers);
  BOOST_TEST(numbers[0] == 3.0f);
  for (const auto* bad : {"0.0", "-1.0", "1e39"}) {
    auto text = json;
    const auto at = text.find("\"deviation\":") + 12;
    text.replace(at, text.find_first_of(",}", at) - at, bad);
    BOOST_CHECK_EXCEPTION(fitted_columns_from_json(text, "w.st"), InputError,
                          troupe::testing::says({"w.st", "damaged"}));
  }
}

BOOST_AUTO_TEST_CASE(what_was_not_written_so_is_refused) {
  FittedColumns columns;
  columns.columns = {{parse_column_rule("x:category"), 0, {"a", "b"}},
                     {parse_column_rule("y:target"), 0, {}}};
  const auto good = to_json(columns);
  const auto refuses = [](const std::string& text) {
    BOOST_CHECK_EXCEPTION(fitted_columns_from_json(text, "w.st"), InputError,
                          troupe::testing::says({"w.st", "damaged"}));
  };
  refuses("");
  refuses("{}");
  refuses(std::string(100, '['));
  for (const auto& [from, to] : {std::pair{"\"a\",\"b\"", "\"b\",\"a\""},
                                 {"\"a\"", "7"},
                                 {"category", "categroy"},
                                 {"\"a\"", "\"%4\""},
                                 {"y:target", "x:id"}}) {
    auto text = good;
    const auto at = text.find(from);
    BOOST_REQUIRE(at != text.npos);
    refuses(text.replace(at, std::string{from}.size(), to));
  }
}

BOOST_AUTO_TEST_SUITE_END()
