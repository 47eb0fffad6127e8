#include "tests/cuda_stand_in/include/nccl.h"

#include "tests/cuda_stand_in/include/cuda_stand_in.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

// NCCL as files: a message is one, in a folder that has the communicator's
// name, below that which NCCL_STAND_IN names. So ranks may be threads or
// processes. As with a communicator that does not block, calls return before
// they are done, and a receipt holds up what is behind it on its stream.

namespace {

namespace fs = std::filesystem;

/// What outlives the communicator: work that is on a stream.
struct Ring {
  fs::path folder;
  int ranks = 0;
  int rank = 0;
  std::atomic<bool> aborted{false};
  std::vector<uint64_t> sent;
  std::vector<uint64_t> taken;

  fs::path here(int one) const {
    return folder / ("here-" + std::to_string(one));
  }
  fs::path message(int from, int to, uint64_t number) const {
    return folder
           / ("message-" + std::to_string(from) + "-" + std::to_string(to) + "-"
              + std::to_string(number));
  }
  bool is_whole() const {
    for (int one = 0; one < ranks; ++one)
      if (!fs::exists(here(one)))
        return false;
    return true;
  }
};

void write(const fs::path& path, const char* data, size_t bytes) {
  const auto beside = path.string() + ".part";
  std::ofstream(beside, std::ios::binary)
    .write(data, static_cast<std::streamsize>(bytes));
  fs::rename(beside, path);
}

bool read(const fs::path& path, char* data, size_t bytes) {
  std::error_code error;
  if (fs::file_size(path, error) != bytes || error)
    return false;
  std::ifstream(path, std::ios::binary)
    .read(data, static_cast<std::streamsize>(bytes));
  fs::remove(path);
  return true;
}

} // namespace

struct ncclComm {
  std::shared_ptr<Ring> ring;
  ncclResult_t state = ncclInProgress; ///< until it is asked for
  bool failed = false;
  bool joined = false;
};

namespace {

/// What a thread has called since ncclGroupStart, to be put on its streams.
struct Group {
  int depth = 0;
  std::vector<std::function<cudaError_t()>> sends;
  std::vector<std::function<cudaError_t()>> receipts;
  std::vector<ncclComm_t> comms;
};
thread_local Group group;

ncclResult_t close_group() {
  ncclResult_t result = ncclInProgress;
  for (auto* works : {&group.sends, &group.receipts})
    for (const auto& put : *works)
      if (put() != cudaSuccess)
        result = ncclSystemError;
  for (auto* comm : group.comms) {
    comm->state = ncclInProgress;
    if (cuda_stand_in::collective_fails())
      comm->failed = true;
  }
  group = {};
  return result;
}

ncclResult_t add(ncclComm_t comm,
                 std::vector<std::function<cudaError_t()>>& works,
                 std::function<cudaError_t()> put) {
  if (comm->failed)
    return ncclRemoteError;
  const bool alone = group.depth == 0;
  works.push_back(std::move(put));
  bool knows = false;
  for (auto* one : group.comms)
    knows = knows || one == comm;
  if (!knows)
    group.comms.push_back(comm);
  return alone ? close_group() : ncclSuccess;
}

std::function<cudaError_t()> sending(const std::shared_ptr<Ring>& ring,
                                     const void* from, size_t bytes, int to,
                                     cudaStream_t stream) {
  const auto path = ring->message(ring->rank, to, ring->sent[to]++);
  return [=] {
    return cuda_stand_in::enqueue(stream, "ncclSend", [=] {
      if (ring->aborted)
        return;
      cuda_stand_in::will_read(from, bytes);
      write(path, static_cast<const char*>(from), bytes);
    });
  };
}

std::function<cudaError_t()>
receiving(const std::shared_ptr<Ring>& ring, size_t bytes, int from,
          cudaStream_t stream, std::function<void(const char*)> use) {
  const auto path = ring->message(from, ring->rank, ring->taken[from]++);
  return [=] {
    return cuda_stand_in::enqueue_until(stream, "ncclRecv", [=] {
      if (ring->aborted)
        return true;
      std::vector<char> data(bytes);
      if (!read(path, data.data(), bytes))
        return false;
      use(data.data());
      return true;
    });
  };
}

} // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = 99'00'00; // one that there is not
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    case ncclSystemError:
      break;
  }
  return "unhandled system error";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<uint32_t> number{0};
  std::memset(id->internal, 0, sizeof id->internal);
  std::random_device draw;
  const auto text = std::to_string(getpid()) + "-" + std::to_string(number++)
                    + "-" + std::to_string(draw());
  std::memcpy(id->internal, text.data(), text.size());
  // Bytes that a float would not carry as they are.
  for (size_t i = 64; i < sizeof id->internal; ++i)
    id->internal[i] = static_cast<char>(i * 37);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks,
                                    ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const auto* below = std::getenv("NCCL_STAND_IN");
  for (size_t i = 64; i < sizeof id.internal; ++i)
    if (id.internal[i] != static_cast<char>(i * 37))
      return ncclInvalidArgument;
  if (config->size < sizeof(ncclConfig_t) || config->magic != 0xcafebeef
      || config->version < 21400 || config->blocking != 0 || rank < 0
      || rank >= ranks || below == nullptr)
    return ncclInvalidArgument;
  int device = 0;
  cudaGetDevice(&device);
  auto ring = std::make_shared<Ring>();
  ring->folder = fs::path(below) / id.internal;
  ring->ranks = ranks;
  ring->rank = rank;
  ring->sent.resize(static_cast<size_t>(ranks));
  ring->taken.resize(static_cast<size_t>(ranks));
  fs::create_directories(ring->folder);
  const auto who = std::to_string(getpid()) + " " + std::to_string(device);
  write(ring->here(rank), who.data(), who.size());
  *made = new ncclComm;
  (*made)->ring = std::move(ring);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (!comm->joined && comm->ring->is_whole()) {
    comm->joined = true;
    std::vector<std::string> devices;
    for (int one = 0; one < comm->ring->ranks; ++one) {
      std::string line;
      std::ifstream file(comm->ring->here(one));
      std::getline(file, line);
      for (const auto& other : devices)
        comm->failed = comm->failed || other == line;
      devices.push_back(line);
    }
    if (comm->failed) { // two ranks on one GPU
      *state = ncclInvalidUsage;
      return ncclSuccess;
    }
  }
  *state = comm->failed ? ncclRemoteError : comm->state;
  if (comm->joined)
    comm->state = ncclSuccess; // it has been seen to be in progress
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const auto& ring = *comm->ring;
  comm->ring->aborted = true;
  std::error_code error;
  for (int from = 0; from < ring.ranks; ++from)
    for (uint64_t i = 0; i < ring.taken[from]; ++i)
      fs::remove(ring.message(from, ring.rank, i), error);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0)
    return ncclInvalidUsage;
  return --group.depth > 0 ? ncclSuccess : close_group();
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type,
                      int peer, ncclComm_t comm, cudaStream_t stream) {
  if (type != ncclFloat32 || peer < 0 || peer >= comm->ring->ranks)
    return ncclInvalidArgument;
  return add(comm, group.sends,
             sending(comm->ring, from, count * sizeof(float), peer, stream));
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  if (type != ncclFloat32 || peer < 0 || peer >= comm->ring->ranks)
    return ncclInvalidArgument;
  const auto bytes = count * sizeof(float);
  return add(comm, group.receipts,
             receiving(comm->ring, bytes, peer, stream,
                       [to, bytes](const char* data) {
                         cuda_stand_in::will_write(to, bytes);
                         std::memcpy(to, data, bytes);
                       }));
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count,
                           ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream) {
  if (type != ncclFloat32 || operation != ncclSum)
    return ncclInvalidArgument;
  const auto bytes = count * sizeof(float);
  auto sum = std::make_shared<std::vector<float>>(count);
  auto result = ncclSuccess;
  for (int peer = 0; peer < comm->ring->ranks; ++peer) {
    ++group.depth; // all of them together
    add(comm, group.sends, sending(comm->ring, from, bytes, peer, stream));
    const bool last = peer + 1 == comm->ring->ranks;
    add(comm, group.receipts,
        receiving(comm->ring, bytes, peer, stream,
                  [sum, to, bytes, last](const char* data) {
                    for (size_t i = 0; i < sum->size(); ++i) {
                      float one;
                      std::memcpy(&one, data + i * sizeof one, sizeof one);
                      (*sum)[i] += one;
                    }
                    if (!last)
                      return;
                    cuda_stand_in::will_write(to, bytes);
                    std::memcpy(to, sum->data(), bytes);
                  }));
    --group.depth;
  }
  if (group.depth == 0)
    result = close_group();
  return result;
}
