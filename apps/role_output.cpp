#include "apps/role_output.hpp"

#include "kernels/error.hpp"

#include <algorithm>
#include <filesystem>

namespace troupe {

RoleOutput::RoleOutput(std::string log_dir) : log_dir_(std::move(log_dir)) {
  std::error_code failure;
  if (!log_dir_.empty())
    std::filesystem::create_directories(log_dir_, failure);
  if (failure)
    throw InputError("--log-dir " + log_dir_ + ": " + failure.message());
}

RoleOutput::~RoleOutput() {
  for (const auto& [role, file] : files_)
    std::fclose(file);
}

void RoleOutput::add(const std::string& role, const std::string& line) {
  std::unique_lock guard{mutex_};
  auto shown = role;
  std::replace(shown.begin(), shown.end(), ':', ' ');
  auto prefixed = "[" + shown + "] " + line;
  if (!log_dir_.empty()) {
    auto name = role;
    std::replace(name.begin(), name.end(), ':', '-');
    auto& file = files_[role];
    if (file == nullptr)
      file = std::fopen((log_dir_ + "/" + name + ".log").c_str(), "ae");
    if (file != nullptr) {
      std::fprintf(file, "%s\n", prefixed.c_str());
      std::fflush(file);
    }
  }
  last_.push_back(std::move(prefixed));
  if (last_.size() > kept_lines)
    last_.pop_front();
  unseen_ = std::min(unseen_ + 1, last_.size());
}

std::deque<std::string> RoleOutput::last_lines() const {
  std::unique_lock guard{mutex_};
  return last_;
}

std::deque<std::string> RoleOutput::take_new() {
  std::unique_lock guard{mutex_};
  std::deque<std::string> lines{last_.end() - static_cast<ptrdiff_t>(unseen_),
                                last_.end()};
  unseen_ = 0;
  return lines;
}

} // namespace troupe
