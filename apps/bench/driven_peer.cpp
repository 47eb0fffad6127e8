#include "apps/bench/driven_peer.hpp"

#include "kernels/base/error.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace troupe {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto start_limit = std::chrono::seconds{30};
constexpr auto round_limit = std::chrono::seconds{60};
constexpr auto end_limit = std::chrono::seconds{3};

struct Pipe {
  Pipe() {
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw std::system_error(errno, std::generic_category(), "pipe");
  }
  int ends[2];
};

[[noreturn]] void become(const std::vector<std::string>& arguments, int input,
                         int output) {
  prctl(PR_SET_PDEATHSIG, SIGTERM); // mpirun then ends its ranks
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
  if (geteuid() == 0) { // mpirun refuses root unless told
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
  std::vector<char*> words;
  for (const auto& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  _exit(127);
}

} // namespace

DrivenPeer::DrivenPeer(std::string name, std::vector<std::string> arguments)
  : name_(std::move(name)), arguments_(std::move(arguments)) {
  signal(SIGPIPE, SIG_IGN); // a peer that died is an error of write()
  Pipe in;
  Pipe out;
  std::fflush(nullptr);
  process_ = fork();
  if (process_ < 0)
    throw std::system_error(errno, std::generic_category(), "fork");
  if (process_ == 0)
    become(arguments_, in.ends[0], out.ends[1]);
  close(in.ends[0]);
  close(out.ends[1]);
  input_ = in.ends[1];
  output_ = out.ends[0];
  try {
    version_ = line(start_limit);
  } catch (...) {
    end();
    throw;
  }
}

DrivenPeer::~DrivenPeer() {
  end();
}

void DrivenPeer::end() {
  close(input_);
  const auto deadline = Clock::now() + end_limit;
  while (waitpid(process_, nullptr, WNOHANG) == 0) {
    if (Clock::now() > deadline)
      kill(process_, SIGKILL);
    usleep(1'000);
  }
  close(output_);
}

void DrivenPeer::refuse(const std::string& what) const {
  std::string command;
  for (const auto& argument : arguments_)
    command += (command.empty() ? "" : " ") + argument;
  throw InputError(name_ + ": " + what + "; by hand: echo 1024 10 | "
                   + command);
}

std::string DrivenPeer::line(std::chrono::seconds limit) {
  const auto deadline = Clock::now() + limit;
  for (;;) {
    const auto end = rest_.find('\n');
    if (end != std::string::npos) {
      auto text = rest_.substr(0, end);
      rest_.erase(0, end + 1);
      if (text.starts_with("error "))
        refuse(text.substr(6));
      return text;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - Clock::now());
    pollfd wait{output_, POLLIN, 0};
    if (left.count() <= 0
        || poll(&wait, 1, static_cast<int>(left.count())) == 0)
      refuse("no answer within " + std::to_string(limit.count()) + " s");
    char bytes[512];
    const auto got = read(output_, bytes, sizeof bytes);
    if (got == 0 || (got < 0 && errno != EINTR))
      refuse("it ended");
    if (got > 0)
      rest_.append(bytes, static_cast<size_t>(got));
  }
}

ReduceSide::Measured DrivenPeer::run(const Round& round) {
  const auto text = std::to_string(round.bytes) + " "
                    + std::to_string(round.iterations) + "\n";
  if (write(input_, text.data(), text.size())
      != static_cast<ssize_t>(text.size()))
    refuse("it ended");
  const auto answer = line(round_limit);
  char* end = nullptr;
  Measured measured;
  measured.us = std::strtod(answer.c_str(), &end);
  if (end == answer.c_str() || measured.us <= 0)
    refuse("answered \"" + answer + "\"");
  if (*end == ' ')
    measured.algorithm = end + 1;
  return measured;
}

} // namespace troupe
