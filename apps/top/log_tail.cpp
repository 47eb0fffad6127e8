#include "apps/top/log_tail.hpp"

#include "apps/process/role_output.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/input_file.hpp"
#include "kernels/files/shown_text.hpp"

#include <algorithm>
#include <span>
#include <string_view>

namespace troupe {
namespace {

constexpr uint64_t max_bytes = 64 << 10;
constexpr size_t max_lines = 200;

} // namespace

std::deque<std::string> log_tail(const std::string& log_dir,
                                 const std::string& role) {
  if (log_dir.empty())
    return {"no --log-dir was given: troupe top HOST:PORT --log-dir DIR, the "
            "folder that the run has"};
  if (role.empty())
    return {"no role is selected"};
  const auto path = log_path(log_dir, role);
  std::string text;
  try {
    const InputFile file{path};
    text.resize(std::min(file.size(), max_bytes));
    text.resize(file.read_at(file.size() - text.size(),
                             std::as_writable_bytes(std::span{text})));
  } catch (const InputError& failure) {
    return {shown_text(failure.what())};
  }
  std::deque<std::string> lines;
  std::string_view rest{text};
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    lines.push_back(shown_text(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (lines.size() > max_lines)
      lines.pop_front();
  }
  if (lines.empty())
    lines.push_back("nothing so far");
  return lines;
}

} // namespace troupe
