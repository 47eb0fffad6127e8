// Gloo's side of `troupe bench all-reduce`: RANKS processes over its TCP
// transport; see driven.hpp. The best of its algorithms for each size.

#include "driven.hpp"

#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <memory>

namespace {

enum Way { ring, ring_chunked, halving_doubling, bcube, new_ring, new_bcube };
const std::vector<std::string> names{
  "ring",  "ring_chunked",   "halving_doubling",
  "bcube", "allreduce ring", "allreduce bcube"};

/// Making an algorithm object exchanges buffers with the other ranks; that is
/// not part of an all-reduce.
class Peer {
public:
  explicit Peer(std::shared_ptr<gloo::Context> context)
    : context_(std::move(context)) {}

  void prepare(float* data, uint64_t count, int way) {
    data_ = data;
    count_ = count;
    way_ = way;
    const std::vector<float*> pointers{data};
    const int elements = static_cast<int>(count);
    algorithm_.reset();
    if (way == ring)
      make<gloo::AllreduceRing<float>>(pointers, elements);
    else if (way == ring_chunked)
      make<gloo::AllreduceRingChunked<float>>(pointers, elements);
    else if (way == halving_doubling)
      make<gloo::AllreduceHalvingDoubling<float>>(pointers, elements);
    else if (way == bcube)
      make<gloo::AllreduceBcube<float>>(pointers, elements);
  }

  void all_reduce(float*, uint64_t) {
    if (algorithm_) {
      algorithm_->run();
      return;
    }
    gloo::AllreduceOptions options(context_);
    options.setOutput(data_, count_);
    options.setReduceFunction(
      static_cast<void (*)(void*, const void*, const void*, size_t)>(
        &gloo::sum<float>));
    options.setAlgorithm(way_ == new_ring
                           ? gloo::AllreduceOptions::Algorithm::RING
                           : gloo::AllreduceOptions::Algorithm::BCUBE);
    gloo::allreduce(options);
  }

private:
  template <class Algorithm>
  void make(const std::vector<float*>& pointers, int count) {
    algorithm_ = std::make_unique<Algorithm>(context_, pointers, count);
  }

  std::shared_ptr<gloo::Context> context_;
  std::unique_ptr<gloo::Algorithm> algorithm_;
  float* data_ = nullptr;
  uint64_t count_ = 0;
  int way_ = -1;
};

int run(driven::Board& board, int rank, const std::string& folder) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, board.ranks);
  context->connectFullMesh(store, device);
  Peer peer{context};
  if (rank > 0) {
    driven::follow(board, rank, peer);
    return 0;
  }
  const auto version = "Gloo " + std::to_string(GLOO_VERSION_MAJOR) + "."
                       + std::to_string(GLOO_VERSION_MINOR) + "."
                       + std::to_string(GLOO_VERSION_PATCH);
  return driven::lead(board, version.c_str(), names, peer);
}

} // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 0;
  if (ranks < 2 || ranks > driven::max_ranks) {
    std::printf("error usage: gloo_all_reduce RANKS\n");
    return 2;
  }
  char folder[] = "/tmp/troupe-peer-XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    std::printf("error no temporary folder\n");
    return 1;
  }
  const auto path = std::string{folder} + "/board";
  auto* board = driven::Board::create(path.c_str(), ranks);
  int rank = 0;
  for (int i = 1; i < ranks && rank == 0; ++i)
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      rank = i;
    }
  int status = 1;
  try {
    status = run(*board, rank, folder);
  } catch (const std::exception& failure) {
    std::printf("error %s\n", failure.what());
  }
  if (rank > 0)
    _exit(status);
  while (wait(nullptr) > 0) {
  }
  std::filesystem::remove_all(folder);
  return status;
}
