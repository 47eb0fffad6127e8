#include "apps/bench/reduce_members.hpp"

#include "actors/wire/version.hpp"
#include "kernels/base/error.hpp"
#include "kernels/engine/replica.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <system_error>

namespace troupe {

namespace {

constexpr auto members_deadline = std::chrono::seconds{1};

/// Binds the calling thread to a core of its own where there are enough, as
/// mpirun does with its ranks.
void bind_to_core(uint32_t rank, uint32_t members) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0
      || static_cast<uint32_t>(CPU_COUNT(&allowed)) < members)
    return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || rank-- > 0)
      continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    sched_setaffinity(0, sizeof own, &own);
    return;
  }
}

} // namespace

ReduceMembers::ReduceMembers(Options options)
  : options_(std::move(options)),
    board_(ReduceBoard::make(options_.members, options_.exact_in_any_order)) {
  for (uint32_t rank = 0; rank < options_.members; ++rank)
    if (options_.processes)
      start_process(rank);
    else
      threads_.emplace_back([this, rank] { serve(rank); });
  options_.started();
}

ReduceMembers::~ReduceMembers() {
  board_->end();
  for (auto& thread : threads_)
    thread.join();
  const auto deadline = std::chrono::steady_clock::now() + members_deadline;
  for (auto& id : processes_) {
    while (id > 0 && waitpid(id, nullptr, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline)
        kill(id, SIGKILL);
      usleep(1'000);
    }
    id = -1;
  }
}

std::string ReduceMembers::version() const {
  return troupe::version;
}

void ReduceMembers::serve(uint32_t rank) {
  try {
    bind_to_core(rank, options_.members);
    prepare_compute_thread();
    auto carrier = options_.make(rank);
    board_->serve(rank, *carrier);
  } catch (const std::exception& failure) {
    board_->fail(rank, failure.what());
  }
}

void ReduceMembers::start_process(uint32_t rank) {
  std::fflush(nullptr);
  const auto parent = getpid();
  const auto id = fork();
  if (id < 0)
    throw std::system_error(errno, std::generic_category(), "fork");
  if (id > 0) {
    processes_.push_back(id);
    return;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_DFL);
  if (getppid() == parent)
    serve(rank);
  _exit(0);
}

void ReduceMembers::check_alive() {
  for (size_t rank = 0; rank < processes_.size(); ++rank) {
    auto& id = processes_[rank];
    if (id > 0 && waitpid(id, nullptr, WNOHANG) == id) {
      id = -1;
      throw InputError(options_.name + ": the process of member "
                       + std::to_string(rank) + " died; nothing is measured");
    }
  }
}

ReduceSide::Measured ReduceMembers::run(const Round& round) {
  try {
    return {board_->run(round, [this] { check_alive(); }), ""};
  } catch (const InputError& failure) {
    throw InputError(options_.name + ": " + failure.what());
  }
}

} // namespace troupe
