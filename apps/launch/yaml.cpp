#include "apps/launch/yaml.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace troupe {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t indent_step = 2;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Words that are truth values or nothing at all in YAML 1.1.
bool is_reserved(const std::string& text) {
  constexpr std::array<std::string_view, 9> words{
    "true", "false", "yes", "no", "on", "off", "y", "n", "null"};
  std::string low;
  for (const char c : text)
    low += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::ranges::find(words, low) != words.end();
}

/// What begins with a letter or a slash and has none of YAML's signs is text
/// to every reader.
bool is_plain(const std::string& text) {
  constexpr std::string_view others = "0123456789/._-";
  return !text.empty() && (is_letter(text.front()) || text.front() == '/')
         && !is_reserved(text) && std::ranges::all_of(text, [&](char c) {
              return is_letter(c) || others.find(c) != std::string_view::npos;
            });
}

/// Whether a literal block gives the text back: lines of printable ASCII, the
/// first of which says how far they are indented.
bool fits_block(const std::string& text) {
  return text.size() > 1 && text.back() == '\n' && text[text.size() - 2] != '\n'
         && text.front() != ' ' && text.front() != '\n'
         && std::ranges::all_of(text, [](char c) {
              return c == '\n' || (c >= ' ' && c <= '~');
            });
}

std::string scalar(const OrderedJson& value, size_t indent) {
  if (!value.is_string())
    return value.is_object() ? "{}" : value.is_array() ? "[]" : value.dump();
  const auto& text = value.get_ref<const std::string&>();
  if (is_plain(text))
    return text;
  if (!fits_block(text))
    return value.dump();
  std::string out = "|";
  for (size_t at = 0; at < text.size();) {
    const auto end = text.find('\n', at);
    out += '\n';
    if (end > at)
      out += std::string(indent, ' ') + text.substr(at, end - at);
    at = end + 1;
  }
  return out;
}

bool has_parts(const OrderedJson& value) {
  return value.is_structured() && !value.empty();
}

/// Appends the lines of a list or a mapping, each with its end.
void write(std::string& out, const OrderedJson& value, size_t indent) {
  const std::string blanks(indent, ' ');
  if (value.is_array()) {
    for (const auto& item : value) {
      out += blanks + "- ";
      if (!has_parts(item)) {
        out += scalar(item, indent + indent_step) + '\n';
        continue;
      }
      // Its first line goes on behind the dash.
      std::string lines;
      write(lines, item, indent + indent_step);
      out += lines.substr(indent + indent_step);
    }
    return;
  }
  for (const auto& [key, item] : value.items()) {
    out += blanks + (is_plain(key) ? key : OrderedJson(key).dump()) + ':';
    if (has_parts(item)) {
      out += '\n';
      write(out, item, indent + indent_step);
    } else {
      out += ' ' + scalar(item, indent + indent_step) + '\n';
    }
  }
}

} // namespace

std::string to_yaml_documents(const std::vector<OrderedJson>& values) {
  std::string out;
  for (const auto& value : values) {
    out += "---\n";
    if (has_parts(value))
      write(out, value, 0);
    else
      out += scalar(value, indent_step) + '\n';
  }
  return out;
}

} // namespace troupe
