#include "apps/bench/reduce_carriers.hpp"

#include "actors/collectives/stream_reducer.hpp"
#include "apps/bench/loopback_mesh.hpp"
#include "apps/bench/reduce_members.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/collective/shared_reducer.hpp"
#include "kernels/collective/shared_segment.hpp"
#include "kernels/collective/sum_loops.hpp"
#include "kernels/collective/sum_program.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace troupe {

namespace {

/// Where members find each other's vectors: their own memory (threads), or a
/// shared segment each (processes).
struct Vectors {
  explicit Vectors(const ReduceGroup& given)
    : group(given), own(given.members), control(control_bytes()) {
    SharedReducer::prepare(control.data(), group.members);
    if (processes())
      for (uint32_t i = 0; i < group.members; ++i)
        segments.emplace_back(group.max_bytes);
  }

  bool processes() const { return group.link != ReduceLink::memory; }
  size_t control_bytes() const {
    return SharedReducer::control_bytes(group.members);
  }
  float* take(uint32_t rank, uint64_t bytes) {
    if (!processes())
      own[rank] = std::make_unique<Buffer>(bytes / sizeof(float));
    return of(rank);
  }
  float* of(uint32_t rank) const {
    return processes() ? reinterpret_cast<float*>(segments[rank].data())
                       : own[rank]->data();
  }

  const ReduceGroup group;
  std::vector<std::unique_ptr<Buffer>> own;
  SharedSegment control;
  std::vector<SharedSegment> segments; ///< forked: mapped at one address
};

class SharedCarrier final : public ReduceCarrier {
public:
  SharedCarrier(std::shared_ptr<Vectors> vectors, uint32_t rank)
    : vectors_(std::move(vectors)),
      rank_(rank),
      reducer_(vectors_->control.data(), {rank, vectors_->group.members, {}, 0},
               spans(*vectors_)) {}

  float* memory(uint64_t bytes) override {
    return vectors_->take(rank_, bytes);
  }
  CollectiveResult all_reduce(float* data, uint64_t count,
                              Deadline deadline) override {
    return reducer_.all_reduce(data, count, deadline);
  }

private:
  static std::vector<std::span<std::byte>> spans(const Vectors& vectors) {
    std::vector<std::span<std::byte>> spans;
    for (const auto& segment : vectors.segments)
      spans.push_back(segment.span());
    return spans;
  }

  std::shared_ptr<Vectors> vectors_;
  uint32_t rank_;
  SharedReducer reducer_;
};

class AddingCarrier final : public ReduceCarrier {
public:
  AddingCarrier(std::shared_ptr<Vectors> vectors, uint32_t rank)
    : vectors_(std::move(vectors)), rank_(rank) {
    for (const auto& term : fixed_tree(vectors_->group.members)) {
      order_.push_back(term.member);
      merges_.push_back(term.merges);
    }
  }

  float* memory(uint64_t bytes) override {
    return vectors_->take(rank_, bytes);
  }
  CollectiveResult all_reduce(float*, uint64_t count, Deadline) override {
    const auto members = vectors_->group.members;
    std::vector<float*> vectors;
    for (auto member : order_)
      vectors.push_back(vectors_->of(member));
    constexpr uint64_t line = 16;
    const auto lines = (count + line - 1) / line;
    const auto begin = lines * rank_ / members * line;
    const auto end = std::min(count, lines * (rank_ + 1) / members * line);
    kernels::sum_loops().sum({vectors.data(), merges_.data(), members}, begin,
                             end, vectors.data(), members);
    return {};
  }

private:
  std::shared_ptr<Vectors> vectors_;
  uint32_t rank_;
  std::vector<uint32_t> order_;
  std::vector<uint32_t> merges_;
};

class StreamCarrier final : public ReduceCarrier {
public:
  StreamCarrier(LoopbackMesh& mesh, const ReduceGroup& group, uint32_t rank) {
    mesh.keep(rank);
    std::vector<std::unique_ptr<LinkSocket>> sockets(group.members);
    for (uint32_t peer = 0; peer < group.members; ++peer) {
      if (peer == rank)
        continue;
      sockets[peer] = std::make_unique<LinkSocket>(mesh.release(rank, peer));
    }
    StreamOptions options;
    options.algorithm = group.reproducible ? StreamAlgorithm::reproducible
                                           : StreamAlgorithm::automatic;
    reducer_ = std::make_unique<StreamReducer>(
      ReducerLayout{rank, group.members, {}, 0}, std::move(sockets), options);
  }

  float* memory(uint64_t bytes) override {
    buffer_ = std::make_unique<Buffer>(bytes / sizeof(float));
    return buffer_->data();
  }
  CollectiveResult all_reduce(float* data, uint64_t count,
                              Deadline deadline) override {
    return reducer_->all_reduce(data, count, deadline);
  }

private:
  std::unique_ptr<Buffer> buffer_;
  std::unique_ptr<StreamReducer> reducer_;
};

class LoopbackCarrier final : public ReduceCarrier {
public:
  LoopbackCarrier(std::shared_ptr<LoopbackMesh> mesh, uint32_t rank,
                  uint32_t members)
    : mesh_(std::move(mesh)), rank_(rank), members_(members) {
    mesh_->keep(rank);
  }

  float* memory(uint64_t bytes) override {
    buffer_ = std::make_unique<Buffer>(bytes / sizeof(float));
    incoming_.resize(std::min(bytes, cached));
    return buffer_->data();
  }
  CollectiveResult all_reduce(float* data, uint64_t count,
                              Deadline deadline) override {
    const auto size = count * sizeof(float);
    return mesh_->stream(rank_, reinterpret_cast<const std::byte*>(data),
                         std::min(size, cached),
                         2 * (members_ - 1) * size / members_, incoming_,
                         deadline);
  }
  bool sums() const override { return false; }

private:
  /// What is sent over and over, and where it is received: no time goes into
  /// memory, all of it into the kernel's streams.
  static constexpr uint64_t cached = 128 << 10;

  std::shared_ptr<LoopbackMesh> mesh_;
  uint32_t rank_;
  uint32_t members_;
  std::unique_ptr<Buffer> buffer_;
  std::vector<std::byte> incoming_;
};

template <class Carrier>
ReduceMembers::Options
options_of(const ReduceGroup& group, const std::string& name) {
  auto vectors = std::make_shared<Vectors>(group);
  ReduceMembers::Options options;
  options.name = name;
  options.members = group.members;
  options.processes = group.link != ReduceLink::memory;
  options.exact_in_any_order = !group.reproducible;
  options.make = [vectors](uint32_t rank) {
    return std::make_unique<Carrier>(vectors, rank);
  };
  return options;
}

struct StreamedOptions : ReduceMembers::Options {
  std::shared_ptr<LoopbackMesh> mesh;
};

StreamedOptions over_streams(const ReduceGroup& group,
                             const std::string& name) {
  StreamedOptions options;
  options.mesh = std::make_shared<LoopbackMesh>(group.members);
  options.name = name;
  options.members = group.members;
  options.processes = true;
  options.started = [mesh = options.mesh] { mesh->drop(); };
  return options;
}

} // namespace

std::unique_ptr<ReduceSide> make_own_side(const ReduceGroup& group) {
  if (group.link != ReduceLink::tcp)
    return std::make_unique<ReduceMembers>(
      options_of<SharedCarrier>(group, "troupe"));
  auto options = over_streams(group, "troupe");
  options.exact_in_any_order = !group.reproducible;
  options.make = [mesh = options.mesh, group](uint32_t rank) {
    return std::make_unique<StreamCarrier>(*mesh, group, rank);
  };
  return std::make_unique<ReduceMembers>(options);
}

std::unique_ptr<ReduceSide> make_limit(const ReduceGroup& group) {
  if (group.link != ReduceLink::tcp)
    return std::make_unique<ReduceMembers>(
      options_of<AddingCarrier>(group, "adding in place"));
  auto options = over_streams(group, "loopback stream");
  options.make = [mesh = options.mesh, group](uint32_t rank) {
    return std::make_unique<LoopbackCarrier>(mesh, rank, group.members);
  };
  return std::make_unique<ReduceMembers>(options);
}

} // namespace troupe
