#include "actors/stage/peer_sum.hpp"

#include "actors/job/stage_mesh.hpp"
#include "actors/stage/lent_floats.hpp"
#include "kernels/cpu/vector_loops.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

PeerSum::PeerSum(const RoleContext& context, uint32_t chunk, uint64_t elements)
  : context_(context),
    mesh_(mesh_of(context.job->options)),
    pipeline_(mesh_.pipeline_of(context.role.index)),
    chunk_(chunk),
    elements_(elements),
    whole_(mesh_.data > 1 && !context.job->plan.served
             ? std::max<uint64_t>(1, elements)
             : 1) {
  whole_.fill(0);
}

ElementRange PeerSum::share(uint32_t pipeline) const {
  return share_of(pipeline, mesh_.data, elements_);
}

TensorView PeerSum::copy_of(const float* values, uint64_t count) const {
  auto memory = lent_floats(context_, count);
  std::copy_n(values, count, memory.get());
  const auto* first = memory.get();
  return {std::move(memory), first, count};
}

std::vector<PeerSum::Given> PeerSum::give(const MeshSum::Step& step,
                                          const LeafTree& own) const {
  std::vector<Given> out;
  for (auto node : step.nodes[pipeline_])
    for (uint32_t to = 0; to < mesh_.data; ++to) {
      if (to == pipeline_)
        continue;
      const auto theirs = share(to);
      out.push_back({to, chunk_, node,
                     copy_of(own.sum(node) + theirs.begin, theirs.size())});
    }
  return out;
}

/// With a stack, as the addends say.
TensorView PeerSum::add(const MeshSum::Step& step, const LeafTree& own,
                        const StagePeers& peers, const PeerValues& nodes) {
  const auto ours = share(pipeline_);
  struct Addend {
    const float* values;
    std::shared_ptr<float> own; ///< null: it is not to be written to
  };
  std::vector<Addend> stack;
  for (const auto& addend : step.addends) {
    const auto node = step.nodes[addend.member][addend.node];
    const auto* values =
      addend.member == pipeline_
        ? own.sum(node) + ours.begin
        : nodes.at(peers.number_of_node(chunk_, node)).data();
    stack.push_back({values, nullptr});
    for (auto merges = addend.merges; merges > 0; --merges) {
      const auto right = std::move(stack.back());
      stack.pop_back();
      auto& left = stack.back();
      auto into = left.own    ? left.own
                  : right.own ? right.own
                              : lent_floats(context_, ours.size());
      troupe::add(left.values, right.values, into.get(), ours.size());
      left.values = into.get();
      left.own = std::move(into);
    }
  }
  auto& sum = stack.front();
  std::copy_n(sum.values, ours.size(), whole_.data() + ours.begin);
  if (!sum.own)
    return copy_of(sum.values, ours.size());
  return {std::move(sum.own), sum.values, ours.size()};
}

void PeerSum::complete(const StagePeers& peers, const PeerValues& shares) {
  for (uint32_t from = 0; from < mesh_.data; ++from) {
    if (from == pipeline_)
      continue;
    const auto theirs = share(from);
    std::copy_n(shares.at(peers.number_of_share(chunk_, from)).data(),
                theirs.size(), whole_.data() + theirs.begin);
  }
}

const float* PeerSum::gradient(const LeafTree& own) const {
  return mesh_.data > 1 ? whole_.data() : own.root();
}

} // namespace troupe
