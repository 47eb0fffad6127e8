// actors/stores/http_answer.cpp: what a server says before the body, line by
// line, and how that is judged. The input: a byte that says what was asked for,
// then lines.

#include "actors/stores/http_answer.hpp"

#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  troupe::fuzz::Input input{data, size};
  const auto way = input.byte();
  troupe::RangeWish wish{way % 4 * uint64_t{100}, 399, {}, {}};
  if (way & 4)
    wish.total = 400 + (way & 8);
  if (way & 16)
    wish.state = "\"a\"";
  const auto text = input.text();
  troupe::HttpAnswer answer;
  std::string_view rest{text};
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size() - 1);
    troupe::take_header(rest.substr(0, end + 1), answer);
    rest.remove_prefix(end + 1);
  }
  using troupe::fuzz::holds;
  holds(answer.status == 0 || (answer.status >= 100 && answer.status <= 599),
        "a status is one");
  for (const auto& word : {answer.tag, answer.modified, answer.region})
    for (const auto c : word)
      holds(c >= ' ' && c < 0x7f, "what is sent again is printable");
  if (answer.range && answer.range->first)
    holds(*answer.range->first <= answer.range->last
            && answer.range->last < answer.range->total.value_or(~uint64_t{0}),
          "a range is within the whole");
  const auto judgement = troupe::judge(answer, wish);
  holds(judgement.end == troupe::FetchEnd::whole || !judgement.why.empty(),
        "a refusal says why");
  if (judgement.end == troupe::FetchEnd::whole && answer.status == 206)
    holds(answer.range && answer.range->first == wish.first
            && answer.range->last == wish.last
            && (wish.state.empty() || answer.state() == wish.state),
          "what is taken is what was asked for");
  return 0;
}
