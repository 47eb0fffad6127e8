#pragma once

#include "kernels/cuda/status.cuh"

#include <array>
#include <cstdint>
#include <string>

namespace troupe::kernels {

/// NCCL as its header of version 2.14 describes it and later ones keep it
/// (tests/peers/nccl_header.py holds both against each other). No toolkit has
/// that header; the library is loaded when it is first asked for.
namespace nccl {

struct Communicator;

constexpr int success = 0;
constexpr int invalid_argument = 4;
constexpr int invalid_usage = 5;
constexpr int in_progress = 7;
constexpr int float32 = 7;
constexpr int sum = 0;

struct UniqueId {
  std::array<char, 128> bytes;
};

/// A later library takes what is not there as not set.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0; ///< calls return before they are done
};

struct Library {
  int (*version)(int*);
  const char* (*error_text)(int);
  int (*make_id)(UniqueId*);
  int (*join)(Communicator**, int members, UniqueId, int rank, Config*);
  int (*state)(Communicator*, int*);
  int (*abort)(Communicator*);
  int (*begin_group)();
  int (*end_group)();
  int (*send)(const void*, size_t count, int type, int peer, Communicator*,
              cudaStream_t);
  int (*receive)(void*, size_t count, int type, int peer, Communicator*,
                 cudaStream_t);
  int (*all_reduce)(const void*, void*, size_t count, int type, int operation,
                    Communicator*, cudaStream_t);
};

/// Errors: InputError that lists where it looked.
const Library& library();

} // namespace nccl

} // namespace troupe::kernels
