#include "kernels/graph/model_json.hpp"

#include "kernels/base/error.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace troupe::kernels {

namespace {

/// "3:14" of the byte a parser stopped at, from 1.
std::string place_in(const std::string& text, size_t byte) {
  const auto end = text.begin()
                   + static_cast<ptrdiff_t>(std::min(byte, text.size()));
  const auto line = 1 + std::count(text.begin(), end, '\n');
  auto column = std::max<size_t>(byte, 1);
  if (const auto before = text.rfind('\n', byte > 1 ? byte - 2 : 0);
      before != std::string::npos && line > 1)
    column = byte - before - 1;
  return std::to_string(line) + ":" + std::to_string(column);
}

} // namespace

Json parse_json(const std::string& text, const std::string& where) {
  std::vector<std::set<std::string>> keys;
  using Event = Json::parse_event_t;
  auto watch = [&](int, Event event, Json& parsed) {
    if (event == Event::object_start)
      keys.emplace_back();
    else if (event == Event::object_end)
      keys.pop_back();
    else if (event == Event::key
             && !keys.back().insert(parsed.get<std::string>()).second)
      throw UsageError(where + ": the key " + parsed.get<std::string>()
                       + " is there twice; keep one");
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::parse_error& mistake) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: …"
    std::string what = mistake.what();
    if (const auto colon = what.find(": "); colon != std::string::npos)
      what.erase(0, colon + 2);
    throw UsageError(where + ":" + place_in(text, mistake.byte)
                     + ": not valid JSON: " + what);
  } catch (const Json::exception& mistake) {
    throw UsageError(where + ": not valid JSON: " + mistake.what());
  }
}

std::string dumped(const Json& json) {
  if (!json.is_object() && !json.is_array())
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  for (const auto& [key, value] : json.items())
    out += (out.empty() ? "" : ", ")
           + (json.is_object() ? dumped(key) + ": " : "") + dumped(value);
  return json.is_object() ? "{" + out + "}" : "[" + out + "]";
}

} // namespace troupe::kernels
