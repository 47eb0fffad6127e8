#include "apps/process/launched_job.hpp"

#include "kernels/base/error.hpp"

#include <csignal>
#include <utility>

namespace troupe {

LaunchedJob::LaunchedJob(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), image_.path());
  launcher_ = processes_.start(
    std::move(arguments), -1,
    [this](const std::string& line) {
      const std::string first = "coordinator: ";
      const std::string second = ", certificates ";
      const auto at = line.find(second);
      if (!line.starts_with(first) || at == std::string::npos)
        return;
      const std::lock_guard guard{lock_};
      address_ = {line.substr(first.size(), at - first.size()),
                  line.substr(at + second.size())};
      changed_.notify_all();
    },
    [this](const ChildProcesses::Exit& exit) {
      const std::lock_guard guard{lock_};
      exit_ = exit;
      changed_.notify_all();
    });
}

LaunchedJob::Address LaunchedJob::address(std::chrono::milliseconds deadline) {
  std::unique_lock guard{lock_};
  changed_.wait_for(guard, deadline, [&] { return address_ || exit_; });
  if (address_)
    return *address_;
  if (exit_)
    throw InputError(
      "the job ended before its first step, with " + exit_->describe()
      + (exit_->last_lines.empty() ? std::string{}
                                   : ": " + exit_->last_lines.back()));
  throw InputError("the job did not say where its coordinator is; leave out "
                   "what keeps it quiet");
}

bool LaunchedJob::over() {
  const std::lock_guard guard{lock_};
  return exit_.has_value();
}

void LaunchedJob::interrupt() {
  processes_.signal(launcher_, SIGINT);
}

void LaunchedJob::terminate() {
  processes_.signal(launcher_, SIGTERM);
}

ChildProcesses::Exit LaunchedJob::wait(std::chrono::milliseconds deadline) {
  std::unique_lock guard{lock_};
  if (!changed_.wait_for(guard, deadline, [&] { return exit_.has_value(); }))
    throw InputError("the job did not end within "
                     + std::to_string(deadline.count() / 1000) + " s");
  return *exit_;
}

void LaunchedJob::finish(std::chrono::milliseconds deadline, int status) {
  const auto exit = wait(deadline);
  if (exit.signal != 0 || exit.status != status)
    throw InputError("the job ended with " + exit.describe()
                     + (exit.last_lines.empty()
                          ? std::string{}
                          : ": " + exit.last_lines.back()));
}

} // namespace troupe
