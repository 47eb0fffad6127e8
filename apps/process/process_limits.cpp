#include "apps/process/process_limits.hpp"

#include "actors/job/memory_need.hpp"
#include "kernels/base/control_group.hpp"
#include "kernels/base/error.hpp"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace troupe {
namespace {

/// Taken from runs of every strategy, and some more: tests hold them up.
constexpr uint64_t base_descriptors = 48;
/// A role's peers may become more than those that the plan names.
constexpr uint64_t useful_descriptors = 1024;
constexpr uint64_t descriptors_a_role = 6;
constexpr uint64_t base_threads = 16;
constexpr uint64_t role_threads = 12; ///< of a role's process
/// Data, messages and further threads of a process: far more than those of the
/// smallest jobs take.
constexpr size_t address_space_beside = size_t{64} << 20;

uint64_t roles_of(const Plan& plan) {
  return std::max<uint64_t>(1, plan.of_kind(RoleKind::worker).size()
                                 + plan.of_kind(RoleKind::shard).size()
                                 + plan.of_kind(RoleKind::stage).size()
                                 + plan.of_kind(RoleKind::tensor).size()
                                 + plan.of_kind(RoleKind::reader).size());
}

void require_descriptors(uint64_t needed) {
  rlimit limit{};
  const auto wanted = std::max(needed, useful_descriptors);
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
    return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, wanted);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < needed)
    throw InputError("ulimit -n allows " + std::to_string(limit.rlim_max)
                     + " open files a process, and this run may need "
                     + std::to_string(needed) + ": raise it (ulimit -n "
                     + std::to_string(needed) + ")");
}

/// Threads that wait until all are there, or one could not be.
class Trial {
public:
  enum class Size : uint8_t {
    small, ///< stacks of 64 KiB: is their number allowed?
    usual, ///< with stack and heap as any: is there address space?
  };
  /// 0, or why the system does not give as many.
  int start(uint64_t count, Size size) {
    takes_heap_ = size == Size::usual;
    std::vector<pthread_t> threads;
    pthread_attr_t like;
    pthread_attr_init(&like);
    if (size == Size::small)
      pthread_attr_setstacksize(&like,
                                std::max<size_t>(64 << 10, PTHREAD_STACK_MIN));
    int failure = 0;
    for (uint64_t i = 0; i < count && failure == 0; ++i) {
      pthread_t thread{};
      failure = pthread_create(
        &thread, &like,
        [](void* self) -> void* {
          auto& trial = *static_cast<Trial*>(self);
          // The first one makes a heap for this thread.
          void* first = trial.takes_heap_ ? ::operator new(1) : nullptr;
          trial.wait();
          ::operator delete(first);
          return nullptr;
        },
        this);
      if (failure == 0)
        threads.push_back(thread);
    }
    {
      const std::lock_guard guard{mutex_};
      over_ = true;
    }
    changed_.notify_all();
    for (auto thread : threads)
      pthread_join(thread, nullptr);
    pthread_attr_destroy(&like);
    return failure;
  }

private:
  void wait() {
    std::unique_lock guard{mutex_};
    changed_.wait(guard, [this] { return over_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  bool takes_heap_ = false;
};

void require_threads(uint64_t needed) {
  if (Trial{}.start(needed, Trial::Size::small) == 0)
    return;
  rlimit limit{};
  const auto tasks = read_control_group().tasks;
  const bool known = getrlimit(RLIMIT_NPROC, &limit) == 0
                     && limit.rlim_cur != RLIM_INFINITY;
  throw InputError(
    "the system does not give the " + std::to_string(needed)
    + " threads that this run needs: ulimit -u allows "
    + (known ? std::to_string(limit.rlim_cur) : "any number of")
    + " processes and threads of a user"
    + (tasks > 0 ? ", the control group " + std::to_string(tasks) : "")
    + "; raise it, or use fewer workers, shards or --threads-per-device");
}

/// "512 MiB (ulimit -v), 1 GiB (ulimit -d)"; empty: neither is limited.
std::string limits_of_address_space() {
  std::string out;
  for (const auto& [what, name] :
       {std::pair{RLIMIT_AS, "-v"}, {RLIMIT_DATA, "-d"}}) {
    rlimit limit{};
    if (getrlimit(what, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      out += (out.empty() ? "" : ", ") + in_units(limit.rlim_cur) + " (ulimit "
             + name + ')';
  }
  return out;
}

/// A thread that gets no memory in the midst of a run could end it anyhow.
void require_address_space_for(uint64_t threads) {
  const auto limits = limits_of_address_space();
  if (limits.empty())
    return;
  void* beside = mmap(nullptr, address_space_beside, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const bool fits = beside != MAP_FAILED
                    && Trial{}.start(threads, Trial::Size::usual) == 0;
  if (beside != MAP_FAILED)
    munmap(beside, address_space_beside);
  if (fits)
    return;
  size_t stack = 0; // as it is where ulimit -s is "unlimited", too
  pthread_attr_t usual;
  pthread_attr_init(&usual);
  pthread_attr_getstacksize(&usual, &stack);
  pthread_attr_destroy(&usual);
  throw InputError("a process may have " + limits
                   + " of memory, and one of this run needs room for "
                   + std::to_string(threads) + " threads, each with a stack of "
                   + in_units(stack) + ", and " + in_units(address_space_beside)
                   + " beside: raise it");
}

} // namespace

ProcessNeeds needs_of_run(const Job& job, bool standby) {
  const auto roles = roles_of(job.plan);
  const auto computing = roles * job.options.threads_per_device;
  if (job.plan.processes)
    return {base_descriptors + descriptors_a_role * roles,
            base_threads + (roles + (standby ? 2 : 1)) * role_threads
              + computing,
            role_threads + job.options.threads_per_device};
  // Replicas that pass sums on have a stream between any two of them.
  const auto& name = job.options.all_reduce;
  const bool streams = name != "auto" && name != "reduction_to_one_device"
                       && name != "nccl";
  const auto threads = base_threads + roles + computing;
  return {base_descriptors + (streams ? roles * roles : 0), threads, threads};
}

ProcessNeeds needs_of_role() {
  return {base_descriptors, role_threads, role_threads};
}

void require_allowed(const ProcessNeeds& needs) {
  require_descriptors(needs.descriptors);
  require_threads(needs.threads);
}

void require_address_space(const ProcessNeeds& needs) {
  require_address_space_for(needs.here);
}

void require_memory_files(const Plan& plan) {
  const bool meet = plan.owner_kind == RoleKind::worker
                    && plan.of_kind(RoleKind::worker).size() > 1;
  if (!plan.processes && !meet)
    return;
  const int made = memfd_create("troupe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made < 0)
    throw InputError(std::string{"memfd_create: "} + std::strerror(errno)
                     + ": roles share memory by such files; it takes Linux "
                       "3.17 and a sandbox that permits the call");
  close(made);
}

void require_memory(const Job& job) {
  MemoryLimits limits;
  struct sysinfo machine {};
  if (sysinfo(&machine) == 0) {
    limits.together = (uint64_t{machine.totalram} + machine.totalswap)
                      * machine.mem_unit;
    limits.whose = "this machine";
  }
  const auto group = read_control_group().memory_bytes;
  if (group > 0 && (limits.together == 0 || group < limits.together)) {
    limits.together = group;
    limits.whose = "the control group";
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    limits.process = limit.rlim_cur;
  if (const auto why = misfit(job, limits); !why.empty())
    throw InputError(why);
}

void require_working_directory() {
  char path[PATH_MAX];
  if (getcwd(path, sizeof path) == nullptr)
    throw InputError(std::string{"the working directory cannot be used ("}
                     + std::strerror(errno)
                     + "): was it removed? Change to one that is there");
}

bool spare_address_space() {
  constexpr int heaps = 2; // of 64 MiB of address space each
  return !limits_of_address_space().empty()
         && ::mallopt(M_ARENA_MAX, heaps) != 0;
}

std::string out_of_memory() {
  auto limits = limits_of_address_space();
  if (const auto group = read_control_group().memory_bytes; group > 0)
    limits += (limits.empty() ? "" : ", ") + in_units(group)
              + " (control group)";
  return "out of memory: "
         + (limits.empty() ? std::string{"the machine has no more"}
                           : "limit " + limits);
}

std::string with_memory_told(const std::string& line) {
  auto out = line;
  for (const std::string said : {"std::bad_alloc", "std::bad_array_new_length"})
    if (const auto at = out.find(said); at != std::string::npos)
      out.replace(at, said.size(), out_of_memory());
  const std::string refused = std::strerror(EAGAIN);
  if (const auto limits = limits_of_address_space();
      out == refused && !limits.empty())
    out = "no thread could be started: limit " + limits;
  return out;
}

} // namespace troupe
