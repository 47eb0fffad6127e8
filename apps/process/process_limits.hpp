#pragma once

#include "actors/job/job.hpp"

#include <cstdint>
#include <string>

namespace troupe {

/// What the system has to allow a process, or all of a run's processes.
struct ProcessNeeds {
  uint64_t descriptors = 0; ///< open at once in one process
  uint64_t threads = 0;     ///< of all processes together
  uint64_t here = 0;        ///< of these in the process with the most
};

/// What a launcher with all that it starts needs, or a run in one process.
ProcessNeeds needs_of_run(const Job& job, bool standby);
/// What a role alone in a process of its own begins with: its peers may be any
/// number.
ProcessNeeds needs_of_role();

/// Raises the soft limit of descriptors where it is too low, and finds out
/// before anything else whether the limits are high enough: later a run would
/// fail anywhere, or wait for itself.
/// Errors: InputError naming the limit.
void require_allowed(const ProcessNeeds& needs);

/// Errors: InputError where ulimit -v or -d leave no room for a process's
/// threads.
void require_address_space(const ProcessNeeds& needs);

/// Errors: InputError where this system gives no files in memory, and replicas
/// would meet in one, or a shard's state would not outlive its process.
void require_memory_files(const Plan& plan);

/// Errors: InputError where the job, all of it on this machine, does not fit
/// into the memory that there is for it.
void require_memory(const Job& job);

/// Errors: InputError where the working directory was removed.
void require_working_directory();

/// Whether ulimit -v or -d is set: then any allocation may fail, and threads
/// share a few heaps. To be called before there are any.
bool spare_address_space();

/// "out of memory: limit 512 MiB (ulimit -v), …": what to say of an allocation
/// that failed.
std::string out_of_memory();
/// A line with that in the place of what the language says.
std::string with_memory_told(const std::string& line);

} // namespace troupe
