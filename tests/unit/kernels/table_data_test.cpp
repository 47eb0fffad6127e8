#include "kernels/columns/fitted_columns.hpp"
#include "kernels/data/csv.hpp"
#include "kernels/numbers/text_hash.hpp"
#include "tests/unit/kernels/data_files.hpp"

#include <cmath>

using namespace troupe::testing;
using troupe::InputError;
using troupe::LabelKind;

BOOST_AUTO_TEST_SUITE(table_data)

namespace {

using Ints = std::vector<int32_t>;
using Floats = std::vector<float>;
using Texts = std::vector<std::string>;

template <class Found, class Wanted>
void check_same(const Found& found, const Wanted& wanted) {
  BOOST_TEST(Wanted(found.begin(), found.end()) == wanted,
             boost::test_tools::per_element());
}

/// `fraction`: the tail that is held out.
troupe::SplitData load_table(const std::string& text,
                             const std::string& columns, double fraction = 0) {
  const Folder folder;
  return load("csv:" + folder.put("f", text) + "?columns=" + columns, fraction);
}

void refuses_table(const std::string& text, const std::string& columns,
                   std::vector<std::string> words) {
  const Folder folder;
  const auto path = folder.put("f", text);
  words.push_back(path);
  BOOST_TEST_CONTEXT(text)
  refuses_data("csv:" + path + "?columns=" + columns, words);
}

constexpr auto people = "age,job,income\n"
                        "39,Clerk,<=50K\n"
                        "50,Boss,>50K\n"
                        ",?,<=50K\n"
                        "53,Clerk,>50K\n";
constexpr auto people_columns = "age:number,job:category,income:label";

} // namespace

BOOST_AUTO_TEST_CASE(columns_become_features_ids_and_labels) {
  const auto set = *load_table(people, people_columns).train;
  BOOST_TEST((set.shape.features == troupe::Shape{1}));
  BOOST_TEST(set.shape.ids == 1u);
  BOOST_TEST(set.shape.vocabulary == 4u); // missing, unknown, Boss, Clerk
  BOOST_TEST((set.shape.label == LabelKind::binary));
  BOOST_TEST(set.shape.classes == 0u);
  check_same(set.values, Floats{39, 50, 142.0f / 3, 53});
  check_same(set.ids, Ints{3, 2, 0, 3});
  check_same(set.labels, Ints{0, 1, 0, 1});
  check_same(set.columns, Texts{"age"});
  BOOST_REQUIRE(set.fitted);
  check_same(set.fitted->classes(), Texts{"<=50K", ">50K"});
}

BOOST_AUTO_TEST_CASE(the_order_is_that_of_the_rules) {
  const auto set = *load_table("a,b,y,c\n1,u,0,3\n2,v,1,4\n",
                               "c:number,y:target,b:id,a:number")
                      .train;
  check_same(set.values, Floats{3, 1, 4, 2});
  check_same(set.columns, Texts{"c", "a"});
  check_same(set.targets, Floats{0, 1});
  BOOST_TEST((set.shape.label == LabelKind::number));
  check_same(set.ids, Ints{2, 3});
}

BOOST_AUTO_TEST_CASE(ids_of_a_field_follow_those_of_the_field_before) {
  const auto set = *load_table("a,b,y\nu,k,1\nv,l,2\nu,,3\n",
                               "a:category,b:category:buckets=5,y:target")
                      .train;
  const auto bucket = [](const char* text) {
    return static_cast<int32_t>(4 + 1 + troupe::kernels::text_hash(text) % 4);
  };
  BOOST_TEST(set.shape.features.empty());
  BOOST_TEST(set.shape.ids == 2u);
  BOOST_TEST(set.shape.vocabulary == 9u);
  check_same(set.ids, Ints{2, bucket("k"), 3, bucket("l"), 2, 4});
}

BOOST_AUTO_TEST_CASE(the_training_part_alone_decides) {
  // The last two are held out.
  const auto parts =
    load_table("x,job,y\n1,a,n\n3,b,y\n,a,n\n5,b,y\n100,z,n\n,b,y\n",
               "x:number,job:category,y:label", 1.0 / 3);
  BOOST_TEST(parts.train->samples() == 4u);
  check_same(parts.train->values, Floats{1, 3, 3, 5});
  check_same(parts.eval->values, Floats{100, 3});
  BOOST_TEST(parts.eval->shape.vocabulary == 4u);
  check_same(parts.eval->ids, Ints{1, 3}); // z is not known
  check_same(parts.eval->labels, Ints{0, 1});
  BOOST_TEST((parts.eval->shape == parts.train->shape));
}

BOOST_AUTO_TEST_CASE(rare_values_are_not_known) {
  const auto set = *load_table("job,y\na,1\nb,2\na,3\nc,4\n",
                               "job:category:min_count=2,y:target")
                      .train;
  check_same(set.ids, Ints{2, 1, 2, 1});
  BOOST_TEST(set.shape.vocabulary == 3u);
}

BOOST_AUTO_TEST_CASE(missing_numbers_are_what_the_rule_says) {
  constexpr auto text = "x,y\n1,0\nNA,1\n7,0\n4,1\n\"\",1\n100,0\n";
  const auto values = [&](const char* rule) {
    return load_table(text, std::string{"x:number"} + rule + ",y:label")
      .train->values;
  };
  check_same(values(""), Floats{1, 28, 7, 4, 28, 100});
  check_same(values(":missing=median"), Floats{1, 5.5f, 7, 4, 5.5f, 100});
  check_same(values(":missing=-1"), Floats{1, -1, 7, 4, -1, 100});
  check_same(values(":missing=flag"),
             Floats{1, 0, 28, 1, 7, 0, 4, 0, 28, 1, 100, 0});
  refuses_table(text, "x:number:missing=refuse,y:label",
                {":3:", "\"x\"", "\"NA\"", "fill the gap"});
  // A median of an odd number of values is one of them.
  check_same(load_table("x,y\n3,0\n,1\n1,0\n2,1\n",
                        "x:number:missing=median,y:label")
               .train->values,
             Floats{3, 2, 1, 2});
  // Nothing is known of a column without values.
  check_same(load_table("x,y\n,0\n,1\n", "x:number,y:label").train->values,
             Floats{0, 0});
}

BOOST_AUTO_TEST_CASE(what_means_missing_can_be_said) {
  const auto parts = load_table("x,c,y\n-999,NA,0\n5,-,1\n",
                                "x:number:missing=0,c:category,"
                                "y:label&na=-999,-");
  check_same(parts.train->values, Floats{0, 5});
  check_same(parts.train->ids, Ints{2, 0}); // Namibia
}

BOOST_AUTO_TEST_CASE(dates_are_years_and_circles) {
  const auto set = *load_table("t,y\n2000-01-01,0\n,1\n2001-01-01 06:00,0\n",
                               "t:date:cycle=weekday+hour,y:label")
                      .train;
  const auto year = 366.25f / 365.25f;
  BOOST_TEST((set.shape.features == troupe::Shape{5}));
  check_same(set.columns, Texts{"t", "t weekday sine", "t weekday cosine",
                                "t hour sine", "t hour cosine"});
  BOOST_TEST(set.values[0] == 0.0f);
  BOOST_TEST(set.values[3] == 0.0f);
  BOOST_TEST(set.values[4] == 1.0f);
  BOOST_TEST(set.values[5] == year / 2);
  check_same(Floats(set.values.begin() + 6, set.values.begin() + 10),
             Floats{0, 0, 0, 0});
  BOOST_TEST(set.values[10] == year);
  check_same(Floats(set.values.begin() + 11, set.values.end()),
             Floats{0, 1, 1, 0}); // Monday, six o'clock
  refuses_table("t,y\n2000-01-01,0\n1/1/2000,1\n", "t:date,y:label",
                {":3:", "\"t\"", "1/1/2000", "form="});
}

BOOST_AUTO_TEST_CASE(quoted_fields_hold_anything) {
  const auto set = *load_table("\"a \"\"b\"\", c\",x,y\r\n"
                               "\"one\r\ntwo, \"\"three\"\"\",1,n\r\n"
                               "\"\n\n\",2,y\n"
                               "plain,\"3\",\"n\"",
                               "a \"b\"%2C c:category,x:number,y:label")
                      .train;
  check_same(set.values, Floats{1, 2, 3});
  check_same(set.labels, Ints{0, 1, 0});
  check_same(set.fitted->columns[0].values,
             Texts{"\n\n", "one\r\ntwo, \"three\"", "plain"});
  // The line that is named is the one where the row begins.
  refuses_table("a,y\n\"1\n2\n3\",0\nx,1\n", "a:number,y:label",
                {":2:", "\"a\""});
  refuses_table("a,y\n1,0\n\"1\n2\n3\",0\nx,1\n5,y\n\"open\n5,0\n",
                "a:category,y:label", {":8:", "quotes", "do not end"});
  refuses_table("a,y\n1,\"" + std::string(size_t{17} << 20, '\n'),
                "a:number,y:label", {":2:", "16 MiB", "quotes"});
}

BOOST_AUTO_TEST_CASE(classes_are_the_labels_texts) {
  const auto set = *load_table("x,y\n1,red\n2,green\n3,10\n4,9\n5,red\n",
                               "x:number,y:label")
                      .train;
  BOOST_TEST((set.shape.label == LabelKind::classes));
  BOOST_TEST(set.shape.classes == 4u);
  BOOST_TEST(set.shape.vocabulary == 0u);
  check_same(set.labels, Ints{3, 2, 0, 1, 3}); // by their bytes
  refuses_table("x,y\n1,a\n2,a\n", "x:number,y:label",
                {"\"a\"", "nothing to learn"});
  refuses_table("x,y\n1,a\n2,\n", "x:number,y:label", {":3:", "\"y\""});
  refuses_table("x,y\n1,a\n", "x:number,y:target", {":2:", "\"y\"", "\"a\""});
  BOOST_CHECK_EXCEPTION(load_table("x,y\n1,a\n2,b\n3,new\n", "x:number,y:label",
                                   1.0 / 3),
                        InputError, says({"\"new\"", "none of"}));
}

BOOST_AUTO_TEST_CASE(a_star_stands_for_all_other_columns) {
  const auto set = *load_table("id,a,y,b\n7,1,n,3\n8,2,y,4\n",
                               "id:ignore,y:label,*:number")
                      .train;
  check_same(set.columns, Texts{"a", "b"});
  check_same(set.values, Floats{1, 3, 2, 4});
  refuses_table("y\nn\ny\n", "y:label,*:number", {":1:", "learn from"});
}

BOOST_AUTO_TEST_CASE(columns_are_found_by_name_in_every_file) {
  const Folder folder;
  folder.put("part-1", std::string{"a,b,y\n1,u,n\n2,v,y\n"});
  folder.put("part-2", std::string{"y,extra,b,a\nn,?,w,3\n"});
  const auto set = *load("csv:" + (folder.path / "part-*").string()
                         + "?columns=y:label,*:number,b:category")
                      .train;
  check_same(set.values, Floats{1, 2, 3});
  check_same(set.ids, Ints{2, 3, 4});
  // So they are in an evaluation file, where a star stands for the same.
  const auto train = "csv:" + (folder.path / "part-1").string()
                     + "?columns=y:label,*:number,b:category";
  const auto parts = load(train, "csv:" + (folder.path / "part-2").string());
  check_same(parts.eval->values, Floats{3});
  check_same(parts.eval->ids, Ints{1});
  check_same(parts.eval->labels, Ints{0});
  const auto narrow = folder.put("narrow", std::string{"y,B\nn,u\n"});
  BOOST_CHECK_EXCEPTION(load(train, "csv:" + narrow), InputError,
                        says({narrow + ":1:", "\"a\""}));
  refuses_table("Aeg,y\n1,0\n", "age:number,y:label",
                {":1:", "\"age\"", "did you mean \"Aeg\""});
  refuses_table("a,a,y\n1,2,0\n", "a:number,y:label",
                {":1:", "several columns"});
}

BOOST_AUTO_TEST_CASE(columns_without_a_header_have_indices) {
  const auto set = *load_table("39, Clerk, n\n50, Boss, y\n",
                               "0:number,1:category,2:label&header=false")
                      .train;
  check_same(set.values, Floats{39, 50});
  check_same(set.fitted->columns[1].values, Texts{"Boss", "Clerk"});
  refuses_table("1,2\n3,4\n", "0:number,1:label", {":1:", "header=false"});
  refuses_table("1,2\n3,4\n", "0:number,2:label&header=false",
                {":1:", "\"2\"", "0 to 1"});
}

BOOST_AUTO_TEST_CASE(rules_may_lie_in_a_file) {
  const Folder folder;
  const auto data = folder.put("f", people);
  const auto rules = folder.put("rules", std::string{"age:number\njob:id\n"
                                                     "income:label\n"});
  BOOST_TEST(load("csv:" + data + "?columns=@" + rules).train->shape.ids == 1u);
  const auto bad = folder.put("bad", std::string{"age:number\n"});
  refuses_data("csv:" + data + "?columns=@" + bad, {bad, "none is the label"});
  refuses_data("csv:" + data + "?columns=@no-such-file", {"no-such-file"});
}

BOOST_AUTO_TEST_CASE(scale_holds_for_what_columns_make) {
  const auto parts = load_table("x,y\n1,0\n3,1\n,0\n5,1\n100,0\n",
                                "x:number:missing=flag,y:label&scale=standard",
                                0.2);
  BOOST_TEST(parts.train->mean[0] == 3.0f);
  BOOST_TEST(parts.train->mean[1] == 0.25f);
  BOOST_TEST(parts.train->fitted->mean == parts.train->mean);
  BOOST_TEST(parts.eval->mean == parts.train->mean);
}

// Mean and deviation are those of the training part, and hold for files that
// come later.
BOOST_AUTO_TEST_CASE(a_target_may_be_learned_in_deviations_from_its_mean) {
  constexpr auto text = "x,y\n1,100\n2,300\n3,100\n4,300\n5,700\n";
  const auto plain = load_table(text, "x:number,y:target", 0.2);
  check_same(plain.train->targets, Floats{100, 300, 100, 300});
  const auto parts = load_table(text, "x:number,y:target:scale=standard", 0.2);
  check_same(parts.train->targets, Floats{-1, 1, -1, 1});
  check_same(parts.eval->targets, Floats{5});
  BOOST_TEST((parts.train->shape.label == LabelKind::number));
  const auto& column = parts.train->fitted->columns[1];
  BOOST_TEST(column.mean == 200.0f);
  BOOST_TEST(column.deviation == 100.0f);
  const Folder folder;
  const auto other = folder.put("other", std::string{"y,x\n400,1\n"});
  const auto found = load_data(troupe::parse_data_spec("csv:" + other), {}, {},
                               parts.train->fitted);
  check_same(found.train->targets, Floats{2});
  // Equal numbers are no reason to divide by 0.
  check_same(load_table("x,y\n1,0.1\n2,0.1\n3,0.1\n",
                        "x:number,y:target:scale=standard")
               .train->targets,
             Floats{0, 0, 0});
}

// What a file of weights says of its columns makes the same of another file.
BOOST_AUTO_TEST_CASE(what_was_fitted_is_applied_to_other_files) {
  const Folder folder;
  const auto text = folder.put(
    "train", std::string{"age;job;y\n39;Clerk;no\n50;Boss;yes\n;Clerk;no\n"});
  const auto spec = troupe::parse_data_spec(
    "csv:" + text
    + "?columns=age:number,job:category,y:label&sep=;&scale=standard");
  const auto train = load_data(spec).train;
  const auto fitted = std::make_shared<troupe::FittedColumns>(
    troupe::fitted_columns_from_json(to_json(*train->fitted), "w"));
  const auto other =
    folder.put("other", std::string{"job;extra;age\nBoss;1;NA\nCook;2;10\n"});
  const auto load_other = [&](const std::string& options, bool unlabelled) {
    troupe::ReadLimits limits;
    limits.unlabelled = unlabelled;
    return load_data(troupe::parse_data_spec("csv:" + other + options), {},
                     limits, fitted)
      .train;
  };
  const auto found = load_other("", true);
  check_same(found->values, Floats{44.5f, 10});
  check_same(found->ids, Ints{2, 1});
  BOOST_TEST(!found->labelled);
  BOOST_TEST((found->shape == train->shape));
  BOOST_TEST(found->mean == train->mean);
  BOOST_TEST(found->inverse_deviation == train->inverse_deviation);
  // With the columns as they were typed, or as they came to be.
  BOOST_TEST(
    load_other("?columns=age:number,job:category,y:label", true)->samples()
    == 2u);
  BOOST_CHECK_EXCEPTION(load_other("?columns=job:id,y:label", true),
                        troupe::UsageError, says({"columns=", "leave"}));
  BOOST_CHECK_EXCEPTION(load_other("", false), InputError,
                        says({other + ":1:", "\"y\"", "label"}));
}

BOOST_AUTO_TEST_CASE(vocabularies_have_limits) {
  refuses_table("c,y\na,0\nb,1\nc,0\n", "c:category:max_values=2,y:label",
                {":4:", "\"c\"", "more than 2", "buckets="});
  std::string text = "c,y\n";
  for (int i = 0; i <= 100'000; ++i)
    text += std::to_string(i) + ",0\n";
  refuses_table(text, "c:category,y:label",
                {":100002:", "\"c\"", "more than 100000"});
  BOOST_TEST(load_table(text + "0,1\n", "c:id,y:label").train->shape.vocabulary
             == 100'003u);
}

BOOST_AUTO_TEST_CASE(mistakes_are_found_without_the_file) {
  refuses_spec("csv:f?columns=x:number", {"none is the label"});
  refuses_spec("csv:f?columns=x:nmber,y:label", {"did you mean number"});
  refuses_spec("csv:f?columns=x:number,y:label&label=y", {"NAME:label"});
  refuses_spec("csv:f?columns=x:number,y:label&task=regression",
               {"NAME:target"});
  refuses_spec("csv:f?na=-", {"columns="});
  // What numbers alone cannot say points at columns=.
  const Folder folder;
  refuses_data("csv:" + folder.put("f", std::string{"a,y\nx,0\n"}),
               {":2:", "columns="});
}

BOOST_AUTO_TEST_SUITE_END()
