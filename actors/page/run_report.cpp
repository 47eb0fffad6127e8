#include "actors/page/run_report.hpp"

#include "actors/page/nonce.hpp"
#include "actors/page/page_text.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/strict_json.hpp"

#include <string_view>

namespace troupe {
namespace {

/// Deeper than any summary is.
constexpr size_t max_depth = 16;

/// A run's summary as JSON without `<`, which could end the block that it is
/// in, `>` and `&`. Those are in texts alone, where they may be escaped.
std::string data_block(const std::string& summary) {
  if (kernels::nested_deeper(summary, max_depth))
    throw InputError("it is nested too deeply");
  using Json = nlohmann::ordered_json;
  const auto json = Json::parse(summary, nullptr, false);
  if (!json.is_object() || !json.contains("steps")
      || !json.contains("weights_sha256") || !json.contains("strategy"))
    throw InputError("it is not the summary of a run of troupe train");
  std::string out;
  for (const char letter :
       json.dump(-1, ' ', true, Json::error_handler_t::replace))
    switch (letter) {
      case '<':
        out += "\\u003c";
        break;
      case '>':
        out += "\\u003e";
        break;
      case '&':
        out += "\\u0026";
        break;
      default:
        out += letter;
    }
  return out;
}

} // namespace

std::string run_report(const std::string& summary) {
  const auto data = data_block(summary);
  auto out = with_nonce(report_text, random_nonce());
  constexpr std::string_view mark = "RUN_DATA";
  return out.replace(out.find(mark), mark.size(), data);
}

} // namespace troupe
