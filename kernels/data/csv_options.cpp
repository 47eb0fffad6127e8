#include "kernels/data/csv_options.hpp"

#include "kernels/data/data_options.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace troupe {

bool csv_has_header(const DataSpec& spec) {
  constexpr std::array booleans{"true", "false"};
  return choice_option(spec, "header", booleans) == "true";
}

char csv_separator(const DataSpec& spec) {
  const auto text = option(spec, "sep").value_or(",");
  if (text == "tab")
    return '\t';
  if (text == "space")
    return ' ';
  if (text == "comma")
    return ',';
  if (text.size() != 1 || std::isalnum(static_cast<unsigned char>(text[0])) != 0
      || std::string_view{"\"'+-.\r\n"}.find(text[0]) != text.npos)
    refuse(spec, "sep=" + text
                   + " separates nothing; give one character, tab or space");
  return text[0];
}

bool is_column_index(const std::string& label) {
  return label.size() <= 9
         && std::all_of(label.begin(), label.end(),
                        [](char c) { return c >= '0' && c <= '9'; });
}

} // namespace troupe
