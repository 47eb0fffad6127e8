#pragma once

// What the stand-ins of libraries, and tests, ask of the runtime's.

#include <cuda_runtime.h>

#include <functional>
#include <string>

namespace cuda_stand_in {

/// What ends a piece of work, and with it the device.
struct Fault {
  cudaError_t status;
  std::string text;
};

/// Puts work on a stream, or into the graph that it records. It may throw a
/// Fault.
/// Errors: as of a launch.
cudaError_t enqueue(cudaStream_t stream, const char* name,
                    std::function<void()> work);

/// The same for work that may have to wait for others: it is called again as
/// long as it returns false.
cudaError_t enqueue_until(cudaStream_t stream, const char* name,
                          std::function<bool()> work);

/// For work that has begun: memory of its device, or pinned.
/// Errors: Fault where it is not allocated, or is to be read and nothing has
/// written it.
void will_read(const void* at, size_t bytes);
void will_write(void* at, size_t bytes);

/// The text of the last fault; empty: none yet.
std::string last_fault();

/// Sets what the variable CUDA_STAND_IN sets at the start, words of the form
/// name=value with commas between them:
///   devices      GPUs of the machine (1)
///   memory_mib   of each (1024)
///   seed         of the order of threads, blocks and streams (0)
///   fail_malloc  the call of cudaMalloc, from 1, that finds no memory (none)
///   fail_launch  the kernel, from 1, that ends its device (none)
///   fail_nccl    the collective, from 1, that NCCL ends with an error (none)
///   fault_once   a file: what is to fail fails in the process that makes it
///   libraries    full, plain (products without epilogues) or none (full)
///   pins         0: memory of the host is not registered (1)
///   keep_going   1: a wrong access is said and done, and ends nothing (0)
/// Counts begin anew.
void configure(const std::string& words);
/// Whether the collective that begins is to fail.
bool collective_fails();
/// The value of `libraries`.
std::string libraries();

} // namespace cuda_stand_in
