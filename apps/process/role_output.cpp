#include "apps/process/role_output.hpp"

#include "kernels/files/file_error.hpp"
#include "kernels/files/output_trial.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <utility>

namespace troupe {

std::string log_path(const std::string& log_dir, const std::string& role) {
  auto name = role;
  std::ranges::replace(name, ':', '-');
  return log_dir + "/" + name + ".log";
}

RoleOutput::RoleOutput(std::string log_dir) : log_dir_(std::move(log_dir)) {
  if (log_dir_.empty())
    return;
  try {
    lock_ = std::make_unique<FolderLock>(log_dir_);
    if (!lock_->held())
      throw InputError(log_dir_ + ": another run writes its logs there, "
                       + lock_->holder()
                       + "; wait for its end, or name another folder");
    try_output_folder(log_dir_, 0);
  } catch (const InputError& failure) {
    throw InputError(std::string{"--log-dir "} + failure.what());
  }
}

RoleOutput::~RoleOutput() {
  for (const auto& [role, log] : logs_)
    if (log.handle >= 0)
      ::close(log.handle);
}

/// A log that cannot be written costs its lines, never the run.
void RoleOutput::write(const std::string& role, const std::string& line) {
  const auto path = log_path(log_dir_, role);
  auto& log = logs_[role];
  // One that was removed is begun again.
  if (log.handle >= 0 && ::access(path.c_str(), F_OK) != 0 && errno == ENOENT)
    ::close(std::exchange(log.handle, -1));
  if (log.handle < 0) // a FIFO that nobody reads is not waited for
    log.handle = ::open(path.c_str(),
                        O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK,
                        0666);
  const auto text = line + '\n';
  const auto done =
    log.handle < 0 ? -1 : ::write(log.handle, text.data(), text.size());
  if (done != static_cast<ssize_t>(text.size())) {
    const int code = done < 0 ? errno : ENOSPC;
    ++log.lost;
    if (std::exchange(log.failure, code) == 0)
      notes_.push_back("log " + path + ": cannot be written (" + reason_of(code)
                       + "); the run goes on without it");
  } else if (std::exchange(log.failure, 0) != 0) {
    notes_.push_back("log " + path + ": is written again, "
                     + std::to_string(std::exchange(log.lost, 0))
                     + " lines are missing");
  }
}

void RoleOutput::add(const std::string& role, const std::string& line) {
  std::unique_lock guard{mutex_};
  auto shown = role;
  std::replace(shown.begin(), shown.end(), ':', ' ');
  auto prefixed = "[" + shown + "] " + line;
  if (!log_dir_.empty())
    write(role, prefixed);
  of_[role].add(prefixed);
  all_.add(std::move(prefixed));
  unseen_ = std::min(unseen_ + 1, all_.last.size());
}

void RoleOutput::Printed::add(std::string line) {
  ++lines;
  last.push_back(std::move(line));
  if (last.size() > kept_lines)
    last.pop_front();
}

std::vector<std::string> RoleOutput::take_notes() {
  const std::lock_guard guard{mutex_};
  return std::exchange(notes_, {});
}

/// Empty role: all of them.
std::string RoleOutput::place_of(const std::string& role) const {
  if (log_dir_.empty())
    return "with --log-dir DIR all are kept";
  return "in " + (role.empty() ? log_dir_ : log_path(log_dir_, role));
}

std::vector<std::string> RoleOutput::last_words(const std::string& line) const {
  const std::unique_lock guard{mutex_};
  const auto* found = &all_;
  std::string whose;
  auto first = line.size();
  for (const auto& [role, printed] : of_) {
    const auto at = line.find(role);
    const auto end = at + role.size();
    const bool whole =
      at != std::string::npos
      && (end >= line.size()
          || std::isdigit(static_cast<unsigned char>(line[end])) == 0);
    if (!whole || at >= first)
      continue;
    first = at;
    found = &printed;
    whose = role;
  }
  std::vector<std::string> words; // the newest first
  for (auto i = found->last.size(); i-- > 0 && words.size() < told_lines;)
    if (std::ranges::find(words, found->last[i]) == words.end())
      words.push_back(found->last[i]);
  std::ranges::reverse(words);
  if (const auto more = found->lines - words.size(); more > 0)
    words.push_back("(" + std::to_string(more)
                    + (more == 1 ? " line more: " : " lines more: ")
                    + place_of(whose) + ")");
  return words;
}

std::deque<std::string> RoleOutput::take_new() {
  std::unique_lock guard{mutex_};
  const auto& last = all_.last;
  std::deque<std::string> lines{last.end() - static_cast<ptrdiff_t>(unseen_),
                                last.end()};
  unseen_ = 0;
  return lines;
}

} // namespace troupe
