// data/csv.cpp

#include "kernels/columns/fitted_columns.hpp"
#include "kernels/data/table_survey.hpp"
#include "tests/fuzz/data_reader.hpp"

#include <array>

namespace {

constexpr std::array options{
  "",
  "?header=false",
  "?scale=standard",
  "?task=regression",
  "?label=0&sep=;",
  "?columns=a:number:missing=flag,b:category:min_count=2,c:label&na=-,NA",
  "?columns=c:target,*:category:buckets=7&scale=standard",
  "?columns=0:date:cycle=weekday+hour+month:missing=median,1:id,2:label"
  "&header=false",
  "?columns=a:date:form=unix,b:category:max_values=3,*:label"};

/// What was fitted comes back from the text that is kept with weights, and
/// makes the same of the same file.
void keep_columns(const std::string& spec) {
  using namespace troupe;
  fuzz::accepted([&] {
    const auto parsed = parse_data_spec(spec);
    const auto train = load_data(parsed).train;
    if (!train->fitted)
      return;
    const auto text = to_json(*train->fitted);
    const auto kept =
      std::make_shared<FittedColumns>(fitted_columns_from_json(text, "kept"));
    fuzz::holds(*kept == *train->fitted, "what is kept is what was fitted");
    const auto again = load_data(parsed, {}, {}, kept).train;
    fuzz::holds(again->ids == train->ids && again->labels == train->labels
                  && again->values == train->values,
                "what was fitted makes the same again");
  });
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto result = troupe::fuzz::read_file("csv", options, data, size);
  static const troupe::fuzz::Scratch scratch;
  troupe::fuzz::Input input{data, size};
  const auto way = input.byte();
  if (way % 2 == 0) {
    const auto path = scratch.put("kept", input.rest());
    keep_columns("csv:" + path + options[way / 2 % options.size()]);
    troupe::fuzz::accepted(
      [&] { survey_table(troupe::parse_data_spec("csv:" + path)); });
  }
  return result;
}
