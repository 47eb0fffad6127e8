#include "actors/child_processes.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace troupe {
namespace {

constexpr size_t kept_lines = 20;
constexpr size_t longest_line = 8192;

struct Child {
  int pid = -1;
  int output = -1;
  std::string partial;
  std::deque<std::string> last_lines;
  ChildProcesses::OnLine on_line;
  ChildProcesses::OnExit on_exit;
};

/// In the child between fork and exec: async-signal-safe calls only.
[[noreturn]] void become(char* const* arguments, int output, int inherit,
                         pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(127);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  if (inherit >= 0)
    fcntl(inherit, F_SETFD, 0);
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  execv(arguments[0], arguments);
  _exit(127);
}

} // namespace

struct ChildProcesses::Impl {
  struct Order {
    std::vector<std::string> arguments;
    int inherit = -1;
    OnLine on_line;
    OnExit on_exit;
    int pid = 0;
    int failure = 0;
    bool done = false;
  };

  Impl() : wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    thread = std::thread{[this] { run(); }};
  }

  void poke() {
    const uint64_t one = 1;
    [[maybe_unused]] auto ignored = write(wake, &one, sizeof one);
  }

  /// The parent-death signal follows the thread that forked: this one lives as
  /// long as the children may.
  void fork_child(Order& order) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      order.failure = errno;
      return;
    }
    std::vector<char*> arguments;
    for (auto& argument : order.arguments)
      arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    const auto parent = getpid();
    const auto pid = fork();
    if (pid == 0)
      become(arguments.data(), ends[1], order.inherit, parent);
    order.failure = pid < 0 ? errno : 0;
    order.pid = pid;
    close(ends[1]);
    if (pid < 0) {
      close(ends[0]);
      return;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    children[pid] = {pid, ends[0], {}, {}, order.on_line, order.on_exit};
  }

  void read_lines(Child& child) {
    char bytes[4096];
    ssize_t count = 0;
    while ((count = read(child.output, bytes, sizeof bytes)) > 0)
      for (ssize_t i = 0; i < count; ++i) {
        if (bytes[i] != '\n' && child.partial.size() < longest_line)
          child.partial += bytes[i];
        if (bytes[i] == '\n')
          end_line(child);
      }
  }

  void end_line(Child& child) {
    child.last_lines.push_back(child.partial);
    if (child.last_lines.size() > kept_lines)
      child.last_lines.pop_front();
    if (child.on_line)
      child.on_line(child.partial);
    child.partial.clear();
    sign_of_life();
  }

  void sign_of_life() {
    const std::lock_guard guard{mutex};
    ++signs;
    changed.notify_all();
  }

  void reap() {
    for (auto at = children.begin(); at != children.end();) {
      // It keeps its number until nobody can send it a signal any more.
      siginfo_t ended{};
      if (waitid(P_PID, at->first, &ended, WEXITED | WNOHANG | WNOWAIT) != 0
          || ended.si_pid == 0) {
        ++at;
        continue;
      }
      auto child = std::move(at->second);
      read_lines(child);
      if (!child.partial.empty())
        end_line(child);
      close(child.output);
      int status = 0;
      {
        std::unique_lock guard{mutex};
        waitpid(at->first, &status, 0);
        at = children.erase(at);
        ++signs;
        changed.notify_all();
      }
      Exit exit;
      exit.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      exit.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      exit.last_lines = std::move(child.last_lines);
      if (child.on_exit)
        child.on_exit(exit);
    }
  }

  void run() {
    pthread_setname_np(pthread_self(), "children");
    for (;;) {
      std::vector<pollfd> polled{{wake, POLLIN, 0}};
      {
        std::unique_lock guard{mutex};
        if (stopping && children.empty())
          return;
        while (!orders.empty()) {
          fork_child(*orders.front());
          orders.front()->done = true;
          orders.pop_front();
          changed.notify_all();
        }
        for (auto& [pid, child] : children)
          polled.push_back({child.output, POLLIN, 0});
      }
      // A closed pipe wakes at once; the timeout covers a grandchild that
      // keeps the pipe open.
      poll(polled.data(), polled.size(), 20);
      uint64_t count = 0;
      [[maybe_unused]] auto ignored = read(wake, &count, sizeof count);
      for (auto& [pid, child] : children)
        read_lines(child);
      reap();
    }
  }

  int wake;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Order>> orders;
  std::map<int, Child> children; ///< changed by the thread, under the mutex
  uint64_t signs = 0;            ///< of life: lines and ends
  bool stopping = false;
  std::function<void()> before_start;
  std::thread thread;
};

ChildProcesses::ChildProcesses(std::function<void()> before_start)
  : impl_(std::make_unique<Impl>()) {
  impl_->before_start = std::move(before_start);
}

ChildProcesses::~ChildProcesses() {
  {
    std::unique_lock guard{impl_->mutex};
    impl_->stopping = true;
    for (auto& [pid, child] : impl_->children)
      kill(pid, SIGKILL);
  }
  impl_->poke();
  impl_->thread.join();
  close(impl_->wake);
}

int ChildProcesses::start(std::vector<std::string> arguments, int inherit,
                          OnLine on_line, OnExit on_exit) {
  if (impl_->before_start)
    impl_->before_start();
  auto order = std::make_shared<Impl::Order>();
  order->arguments = std::move(arguments);
  order->inherit = inherit;
  order->on_line = std::move(on_line);
  order->on_exit = std::move(on_exit);
  std::unique_lock guard{impl_->mutex};
  impl_->orders.push_back(order);
  impl_->poke();
  impl_->changed.wait(guard, [&] { return order->done; });
  if (order->failure != 0)
    throw std::runtime_error("cannot start " + order->arguments.front() + ": "
                             + std::strerror(order->failure));
  return order->pid;
}

void ChildProcesses::signal(int pid, int signal) {
  std::unique_lock guard{impl_->mutex};
  if (impl_->children.contains(pid))
    kill(pid, signal);
}

bool ChildProcesses::wait_all(uint64_t deadline_ms) {
  std::unique_lock guard{impl_->mutex};
  const std::chrono::milliseconds deadline{deadline_ms};
  for (;;) {
    const auto before = impl_->signs;
    const bool moves = impl_->changed.wait_for(guard, deadline, [&] {
      return impl_->children.empty() || impl_->signs != before;
    });
    if (!moves || impl_->children.empty())
      return impl_->children.empty();
  }
}

std::string ChildProcesses::Exit::describe() const {
  if (signal != 0)
    return "signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  return "exit status " + std::to_string(status);
}

} // namespace troupe
