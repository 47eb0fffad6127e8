#include "kernels/data/table_survey.hpp"
#include "tests/unit/kernels/data_files.hpp"

using namespace troupe::testing;
using troupe::TableSurvey;

BOOST_AUTO_TEST_SUITE(table_survey)

namespace {

TableSurvey survey(const std::string& text, const std::string& options = "") {
  const Folder folder;
  return troupe::survey_table(
    troupe::parse_surveyed_spec("csv:" + folder.put("f", text) + options));
}

/// The part of the proposal that says what columns are.
std::string columns_of(const TableSurvey& found) {
  const auto at = found.data.find("columns=") + 8;
  return found.data.substr(at, found.data.find('&', at) - at);
}

/// A table of a feature and these labels.
std::string table_of(const std::vector<std::string>& labels) {
  std::string text = "x,y\n";
  for (size_t i = 0; i < labels.size(); ++i)
    text += std::to_string(i % 7) + ',' + labels[i] + '\n';
  return text;
}

std::vector<std::string> numbers(double first, double step) {
  std::vector<std::string> result;
  for (int i = 0; i < 40; ++i)
    result.push_back(std::to_string(first + step * i));
  return result;
}

} // namespace

// Symptom: prices were proposed as they are; steps of the usual size hardly
// came near them.
BOOST_AUTO_TEST_CASE(targets_that_steps_would_not_reach_are_scaled) {
  for (const auto& [first, step] : {std::pair{250'000.0, 10'000.0},
                                    {100.0, 0.02},
                                    {0.0, 0.001},
                                    {-4000.0, 200.0}}) {
    const auto found = survey(table_of(numbers(first, step)));
    BOOST_TEST(columns_of(found) == "x:number,y:target:scale=standard");
    BOOST_TEST(found.model == "mlp:1-64-1");
    BOOST_TEST(found.trouble == "");
  }
  const auto found = survey(table_of(numbers(1, 0.1)));
  BOOST_TEST(columns_of(found) == "x:number,y:target");
}

// Symptom: a first row with a year in it was taken for a sample.
BOOST_AUTO_TEST_CASE(a_name_may_be_a_number_where_the_next_row_tells) {
  const auto found = survey("age,2019,y\n1,2.5,0\n2,3.5,1\n1,1.5,0\n");
  BOOST_TEST(found.rows == 3u);
  BOOST_TEST(columns_of(found) == "age:number,2019:number,y:label");
  BOOST_TEST(found.data.find("&header=true") != std::string::npos);
  const Folder folder; // and training reads it so
  const auto where = folder.put("f", "age,2019,y\n1,2.5,0\n2,3.5,1\n");
  BOOST_TEST(load("csv:" + where + found.data.substr(found.data.find('?')))
               .train->samples()
             == 2u);
  for (const auto* sample : {"NA,2,1\n3,4,0\n", "7,2,1\n3,4,0\n",
                             "red,2,1\nblue,4,0\n", "a,,1\n3,4,0\n"})
    BOOST_TEST(survey(sample).rows == 2u, sample);
}

// Symptom: columns= was not looked at, and the label guessed anew.
BOOST_AUTO_TEST_CASE(columns_that_are_given_stay) {
  constexpr auto table = "id,age,plan,y\n1,20,a,0.5\n2,30,b,1.5\n3,20,a,2.5\n"
                         "4,50,b,3.5\n5,60,a,4.5\n6,25,b,5.5\n";
  const auto found = survey(table, "?columns=plan:label,id:ignore");
  BOOST_TEST(found.label == "plan");
  BOOST_TEST((found.label_by == TableSurvey::LabelBy::said));
  BOOST_TEST(columns_of(found) == "age:number,plan:label,y:number");
  BOOST_TEST(found.model == "mlp:2-64-2");
  BOOST_TEST(columns_of(survey(table, "?columns=age:number:missing=flag,"
                                      "y:target,*:ignore"))
             == "age:number:missing=flag,y:target");
  BOOST_TEST(survey(table, "?columns=age:ignore").label == "y");
  BOOST_TEST(survey(table, "?columns=y:number").label == "plan");
  BOOST_TEST(columns_of(survey(table, "?columns=id:ignore,*:number"))
             == "age:number,plan:number,y:target");
  BOOST_CHECK_EXCEPTION(survey(table, "?columns=plans:label"),
                        troupe::InputError,
                        says({"no column \"plans\"", "columns="}));
  for (const auto& [columns, why] :
       {std::pair{"plan:label,y:target", "both \"plan\" and \"y\""},
        {"*:label", "makes every column a label"},
        {"age:number,age:category", "\"age\" twice"}})
    BOOST_CHECK_EXCEPTION(survey(table, std::string{"?columns="} + columns),
                          troupe::UsageError, says({"columns", why}));
  BOOST_CHECK_EXCEPTION(survey(table, "?columns=plan:label&label=y"),
                        troupe::UsageError, says({"label=", "columns="}));
}

BOOST_AUTO_TEST_CASE(why_a_column_is_the_label_is_known) {
  using By = TableSurvey::LabelBy;
  const auto by = [](const std::string& header, const char* options = "") {
    return survey(header + "\n1,2\n2,1\n3,2\n", options).label_by;
  };
  BOOST_TEST((by("a,b") == By::place));
  BOOST_TEST((by("a,Rating") == By::name));
  BOOST_TEST((by("a,b", "?label=b") == By::said));
  BOOST_TEST((by("a,Rating", "?columns=a:label") == By::said));
}

// Symptom: a header with a name twice was taken for a sample.
BOOST_AUTO_TEST_CASE(a_name_that_is_there_twice_is_said) {
  const auto found = survey("a,a,y\n1,2,0\n2,3,1\n1,4,0\n");
  BOOST_TEST(found.rows == 3u);
  BOOST_TEST(found.trouble.find("several columns are called \"a\"")
               != std::string::npos,
             found.trouble);
  BOOST_TEST(survey("no,no,y\nyes,no,n\n").rows == 2u); // no numbers below
}

// Symptom: `customer` was proposed as an id, though each was there once, and
// what training learnt held for no other customer.
BOOST_AUTO_TEST_CASE(an_id_that_never_comes_again_tells_nothing) {
  std::string once = "customer,x,y\n", often = once;
  for (int i = 0; i < 60; ++i) {
    const auto rest = ',' + std::to_string(i % 7) + ',' + std::to_string(i % 2)
                      + '\n';
    once += 'c' + std::to_string(i) + rest;
    often += 'c' + std::to_string(i % 9) + rest;
  }
  BOOST_TEST(columns_of(survey(once)) == "x:number,y:label");
  BOOST_TEST(columns_of(survey(often)) == "customer:id,x:number,y:label");
}

// Symptom: a column of 500 numbers and one "n.d." was left out in silence.
BOOST_AUTO_TEST_CASE(a_stray_text_among_numbers_is_a_missing_number) {
  std::string text = "x,z,y\n";
  for (int i = 0; i < 60; ++i)
    text += (i == 40 ? "n.d." : std::to_string(i) + ".5") + ",a"
            + std::to_string(i % 3) + ',' + std::to_string(i % 2) + '\n';
  const auto found = survey(text);
  BOOST_TEST(columns_of(found) == "x:number:missing=median,z:category,y:label");
  BOOST_TEST(found.columns[0].missing() == 1u);
  BOOST_TEST_REQUIRE(found.strays.size() == 1u);
  BOOST_TEST(found.strays[0].column == "x");
  BOOST_TEST(found.strays[0].text == "n.d.");
  BOOST_TEST(found.data.find("%3F,n.d.") != std::string::npos, found.data);
  BOOST_CHECK_NO_THROW(troupe::parse_data_spec(found.data));
  // Not where that text means something elsewhere, is the label's, or many.
  auto means = text;
  means.replace(means.find(",a1,"), 4, ",n.d.,");
  BOOST_TEST(survey(means).strays.empty());
  BOOST_TEST(survey(text, "?label=x").strays.empty());
  auto many = text;
  for (int i = 0; i < 8; ++i)
    many += "n.d.,a1,0\n";
  BOOST_TEST(survey(many).strays.empty());
}

// Symptom: a column of such numbers was a category, without a word.
BOOST_AUTO_TEST_CASE(numbers_with_decimal_commas_are_said) {
  const auto with_comma = [](const std::string& fields) {
    return survey("x,y\n" + fields).columns[0].with_comma();
  };
  BOOST_TEST(with_comma("\"3,14\",0\n-2,1\n\"2,5e3\",1\n") == "3,14");
  BOOST_TEST(with_comma("?,0\n\"3,5\",1\n") == "3,5");
  for (const auto* others :
       {"3.14,0\n2,1\n", "\"3,14\",0\nred,1\n", "\"3,14,15\",0\n2,1\n",
        "\"1,234.5\",0\n2,1\n", "?,0\n?,1\n"})
    BOOST_TEST(with_comma(others) == "", others);
}

// Symptom: `mlp:0-64-2` was proposed, and labels that training refuses.
BOOST_AUTO_TEST_CASE(nothing_is_proposed_that_training_refuses) {
  const auto names = [](const TableSurvey& found,
                        const std::vector<std::string>& words) {
    BOOST_TEST(found.data == "");
    BOOST_TEST(found.model == "");
    BOOST_TEST(found.trouble.find('\n') == std::string::npos);
    for (const auto& word : words)
      BOOST_TEST(found.trouble.find(word) != std::string::npos,
                 found.trouble << " has no " << word);
  };
  names(survey(table_of({"1", "nan", "0", "", "1"})),
        {"\"y\"", "missing in 2 of 5 samples", "fill the gaps"});
  names(survey(table_of({"", ""})), {"missing in 2 of 2"});
  names(survey(table_of({"a", "a", "a"})), {"\"y\"", "same in all samples"});
  names(survey("x,y\n1,a\n1,b\n"), {"no column but the label \"y\""});
  names(survey("x,x,y\n1,2,a\n2,3,b\n", "?header=true"),
        {"several columns", "\"x\""});
  names(survey(",y\n1,a\n2,b\n", "?header=true&label=0"), {"has no name"});
  std::vector<std::string> many;
  for (int i = 0; i < 65'537; ++i)
    many.push_back("t" + std::to_string(i));
  names(survey(table_of(many)), {"more than 65536"});
}

// Symptom: a table whose rows have numbers, under no name, was taken for one
// without a header.
BOOST_AUTO_TEST_CASE(the_first_name_of_a_header_may_be_missing) {
  const auto found = survey(",x,y\n0,1.5,a\n1,2.5,b\n2,0.5,a\n");
  BOOST_TEST(columns_of(found) == "x:number,y:label");
  BOOST_TEST(found.data.find("header") == std::string::npos);
  BOOST_TEST(found.model == "mlp:1-64-2");
}

BOOST_AUTO_TEST_SUITE_END()
