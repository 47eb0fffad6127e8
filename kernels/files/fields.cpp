#include "kernels/files/fields.hpp"

#include <algorithm>

namespace troupe {

namespace {

constexpr auto advice = "put fields in whole quotes, inner quotes doubled";

} // namespace

const std::vector<std::string_view>& Fields::split(std::string_view line,
                                                   TextLines& lines) {
  fields_.clear();
  if (line.find('"') != line.npos) {
    split_quoted(line, lines);
    return fields_;
  }
  // A loop over bytes: fields are short, and a search for each costs more.
  const auto* begin = line.data();
  const auto* last = begin + line.size();
  for (const auto* c = begin; c != last; ++c)
    if (*c == separator_) {
      fields_.emplace_back(begin, static_cast<size_t>(c - begin));
      begin = c + 1;
    }
  fields_.emplace_back(begin, static_cast<size_t>(last - begin));
  return fields_;
}

void Fields::split_quoted(std::string_view line, TextLines& lines) {
  places_.clear();
  for (size_t at = 0;;) {
    size_t end = 0;
    if (at < line.size() && line[at] == '"') {
      end = take_quoted(line, at, lines);
    } else {
      end = std::min(line.find(separator_, at), line.size());
      places_.push_back({at, end - at, false});
    }
    if (end == line.size())
      break;
    if (line[end] != separator_)
      lines.refuse("text follows the quoted field "
                     + std::to_string(places_.size()),
                   advice);
    at = end + 1;
  }
  unquoted_.clear();
  unquoted_.reserve(line.size()); // views into it stay valid
  for (const auto& place : places_) {
    const auto field = line.substr(place.begin, place.size);
    if (!place.doubled) {
      fields_.push_back(field);
      continue;
    }
    const auto begin = unquoted_.size();
    for (size_t i = 0; i < field.size(); ++i) {
      unquoted_ += field[i];
      if (field[i] == '"')
        ++i;
    }
    fields_.push_back(std::string_view{unquoted_}.substr(begin));
  }
}

/// Takes the field whose quotes begin at `at`; returns what follows them.
size_t Fields::take_quoted(std::string_view& line, size_t at,
                           TextLines& lines) {
  bool doubled = false;
  auto end = at + 1;
  while (true) {
    const auto searched = line.size();
    end = line.find('"', end);
    if (end == line.npos) {
      if (!lines.extend(line))
        lines.refuse("the quotes of field " + std::to_string(places_.size() + 1)
                       + " do not end",
                     advice);
      end = searched;
      continue;
    }
    if (end + 1 == line.size() || line[end + 1] != '"')
      break;
    doubled = true;
    end += 2;
  }
  places_.push_back({at + 1, end - at - 1, doubled});
  return end + 1;
}

} // namespace troupe
