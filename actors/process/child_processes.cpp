#include "actors/process/child_processes.hpp"

#include "kernels/base/steady_clock.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

namespace troupe {
namespace {

constexpr size_t kept_lines = 20;
constexpr size_t kept_of_line = 8192;   ///< bytes
constexpr size_t pieces_of_a_turn = 64; ///< of what a child says

using Clock = SteadyClock;

struct Child {
  int pid = -1;
  int output = -1;
  int refusal = -1; ///< says why its program did not start, if it did not
  Clock::time_point began;
  std::string partial;
  std::deque<std::string> last_lines;
  ChildProcesses::OnLine on_line;
  ChildProcesses::OnExit on_exit;
};

/// Children of all who start some in this process: whoever buries those that
/// the system gives to it leaves them to who waits for them.
struct OwnChildren {
  std::mutex mutex; ///< held from before a fork until its child is known
  std::set<int> ids;
};

OwnChildren& own_children() {
  static OwnChildren own;
  return own;
}

/// What a kernel without memory is told to weigh a child with: by three tenths
/// of what there is more than its parent. A child's death is repaired, its
/// parent's is the end of them all.
std::string oom_score_of_children() {
  constexpr int more = 300;
  constexpr int most = 1000;
  int own = 0;
  std::ifstream{"/proc/self/oom_score_adj"} >> own;
  return std::to_string(std::min(most, own + more));
}

/// In the child between fork and exec: async-signal-safe calls only.
struct Program {
  char* const* arguments = nullptr;
  int image = -1;
  int output = -1;
  int inherit = -1;
  int input = -1;
  int refusal = -1;
  const std::string& oom_score;
};

[[noreturn]] void become(const Program& program, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(127);
  dup2(program.output, STDOUT_FILENO);
  dup2(program.output, STDERR_FILENO);
  dup2(program.input >= 0 ? program.input
                          : open("/dev/null", O_RDONLY | O_CLOEXEC),
       STDIN_FILENO);
  if (program.inherit >= 0)
    fcntl(program.inherit, F_SETFD, 0);
  const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score >= 0) {
    [[maybe_unused]] auto ignored = write(score, program.oom_score.data(),
                                          program.oom_score.size());
    close(score);
  }
  sigset_t held; // until it watches for them
  sigemptyset(&held);
  for (int one : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2})
    sigaddset(&held, one);
  pthread_sigmask(SIG_SETMASK, &held, nullptr);
  if (program.image >= 0)
    syscall(SYS_execveat, program.image, "", program.arguments, environ,
            AT_EMPTY_PATH);
  else
    execv(program.arguments[0], program.arguments);
  const int why = errno;
  [[maybe_unused]] auto ignored = write(program.refusal, &why, sizeof why);
  _exit(127);
}

} // namespace

struct ChildProcesses::Impl {
  struct Order {
    std::vector<std::string> arguments;
    int inherit = -1;
    int input = -1;
    OnLine on_line;
    OnExit on_exit;
    int pid = 0;
    int failure = 0;
    bool done = false;
  };

  explicit Impl(Options how)
    : options(std::move(how)), wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    // Signals are for others: of the first process of a container one that
    // came to this thread would be lost.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread = std::thread{[this] { run(); }};
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void poke() {
    const uint64_t one = 1;
    [[maybe_unused]] auto ignored = write(wake, &one, sizeof one);
  }

  /// The parent-death signal follows the thread that forked: this one lives as
  /// long as the children may.
  void fork_child(Order& order) {
    int ends[2];
    int refusal[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      order.failure = errno;
      return;
    }
    if (pipe2(refusal, O_CLOEXEC | O_NONBLOCK) != 0) {
      order.failure = errno;
      close(ends[0]);
      close(ends[1]);
      return;
    }
    std::vector<char*> arguments;
    for (auto& argument : order.arguments)
      arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    const auto parent = getpid();
    auto& own = own_children();
    std::unique_lock known{own.mutex};
    const auto pid = fork();
    if (pid == 0)
      become({arguments.data(), options.image, ends[1], order.inherit,
              order.input, refusal[1], oom_score},
             parent);
    order.failure = pid < 0 ? errno : 0;
    order.pid = pid;
    if (pid > 0)
      own.ids.insert(pid);
    known.unlock();
    close(ends[1]);
    close(refusal[1]);
    if (pid < 0) {
      close(ends[0]);
      close(refusal[0]);
      return;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    children[pid] = {pid, ends[0], refusal[0],    Clock::now(),
                     {},  {},      order.on_line, order.on_exit};
  }

  /// At most so many pieces: others have something to say as well.
  void read_lines(Child& child, size_t pieces) {
    char bytes[4096];
    ssize_t count = 0;
    for (; pieces > 0 && (count = read(child.output, bytes, sizeof bytes)) > 0;
         --pieces)
      for (ssize_t i = 0; i < count; ++i) {
        if (bytes[i] != '\n' && child.partial.size() < options.longest_line)
          child.partial += bytes[i];
        if (bytes[i] == '\n')
          end_line(child);
      }
  }

  void end_line(Child& child) {
    child.last_lines.push_back(child.partial.substr(0, kept_of_line));
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
      const bool buried =
        waitid(P_PID, at->first, &ended, WEXITED | WNOHANG | WNOWAIT) != 0
        && errno == ECHILD;
      if (!buried && ended.si_pid == 0) {
        ++at;
        continue;
      }
      auto child = std::move(at->second);
      read_lines(child, SIZE_MAX); // it says no more
      if (!child.partial.empty())
        end_line(child);
      close(child.output);
      Exit exit;
      exit.pid = at->first;
      if (read(child.refusal, &exit.refused, sizeof exit.refused)
          != sizeof exit.refused)
        exit.refused = 0;
      close(child.refusal);
      int status = 0;
      bool seen = false;
      {
        std::unique_lock guard{mutex};
        seen = bury(at->first, status);
        at = children.erase(at);
        ++signs;
        changed.notify_all();
      }
      exit.status = seen && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      exit.signal = seen && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      exit.lived_ms = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now()
                                                              - child.began)
          .count());
      exit.last_lines = std::move(child.last_lines);
      if (child.on_exit)
        child.on_exit(exit);
    }
  }

  /// Its number is another child's from here on. Returns whether it was told
  /// how the process ended.
  static bool bury(int pid, int& status) {
    auto& own = own_children();
    const std::lock_guard known{own.mutex};
    own.ids.erase(pid);
    return waitpid(pid, &status, 0) == pid;
  }

  void run() {
    pthread_setname_np(pthread_self(), "children");
    for (;;) {
      std::vector<pollfd> polled{{wake, POLLIN, 0}};
      {
        std::unique_lock guard{mutex};
        if (stopping && children.empty())
          return;
        while (!orders.empty() && !paused) {
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
        read_lines(child, pieces_of_a_turn);
      reap();
      if (options.adopts)
        reap_adopted();
    }
  }

  /// Those whose parents have ended; until an own child that has ended as well
  /// is reaped, they may stand behind it.
  static void reap_adopted() {
    auto& own = own_children();
    const std::lock_guard known{own.mutex};
    for (siginfo_t ended{};
         waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0
         && ended.si_pid != 0 && !own.ids.contains(ended.si_pid);
         ended = {})
      waitpid(ended.si_pid, nullptr, WNOHANG);
  }

  const Options options;
  const std::string oom_score = oom_score_of_children();
  int wake;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Order>> orders;
  std::map<int, Child> children; ///< changed by the thread, under the mutex
  uint64_t signs = 0;            ///< of life: lines and ends
  bool stopping = false;
  bool paused = false;
  std::thread thread;
};

ChildProcesses::ChildProcesses() : ChildProcesses(Options{}) {}

ChildProcesses::ChildProcesses(Options options)
  : impl_(std::make_unique<Impl>(std::move(options))) {}

ChildProcesses::~ChildProcesses() {
  {
    std::unique_lock guard{impl_->mutex};
    impl_->stopping = true;
    impl_->paused = false;
    for (auto& [pid, child] : impl_->children)
      kill(pid, SIGKILL);
  }
  impl_->poke();
  impl_->thread.join();
  close(impl_->wake);
}

int ChildProcesses::start(std::vector<std::string> arguments, int inherit,
                          OnLine on_line, OnExit on_exit, int input) {
  if (impl_->options.before_start)
    impl_->options.before_start();
  auto order = std::make_shared<Impl::Order>();
  order->arguments = std::move(arguments);
  order->inherit = inherit;
  order->input = input;
  order->on_line = std::move(on_line);
  order->on_exit = std::move(on_exit);
  std::unique_lock guard{impl_->mutex};
  impl_->orders.push_back(order);
  impl_->poke();
  impl_->changed.wait(guard, [&] { return order->done; });
  if (order->failure != 0)
    throw std::runtime_error(
      "cannot start " + order->arguments.front() + ": "
      + std::strerror(order->failure)
      + (order->failure == EAGAIN
           ? " (no more processes are allowed here: see ulimit -u)"
           : ""));
  return order->pid;
}

void ChildProcesses::signal(int pid, int signal) {
  std::unique_lock guard{impl_->mutex};
  if (impl_->children.contains(pid))
    kill(pid, signal);
}

void ChildProcesses::pause(bool stand_still) {
  std::unique_lock guard{impl_->mutex};
  impl_->paused = stand_still;
  for (auto& [pid, child] : impl_->children)
    kill(pid, stand_still ? SIGSTOP : SIGCONT);
  impl_->poke();
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
  if (refused == 0 && status < 0)
    return "an end that this process was not told of";
  if (refused != 0)
    return std::string{"its program did not start: "} + std::strerror(refused);
  if (status == 127)
    return "exit status 127: its program did not start";
  return "exit status " + std::to_string(status);
}

} // namespace troupe
