#include "apps/top/log_tail.hpp"

#include "apps/process/role_output.hpp"
#include "kernels/files/shown_text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

namespace troupe {
namespace {

constexpr std::streamoff max_bytes = 64 << 10;
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
  std::ifstream file{path, std::ios::binary | std::ios::ate};
  if (!file)
    return {shown_text(path) + ": " + std::strerror(errno)};
  const std::streamoff size = file.tellg();
  const auto begin = std::max<std::streamoff>(0, size - max_bytes);
  std::string text(static_cast<size_t>(size - begin), '\0');
  file.seekg(begin);
  file.read(text.data(), size - begin);
  text.resize(static_cast<size_t>(file.gcount()));
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
