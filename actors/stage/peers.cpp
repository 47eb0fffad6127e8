#include "actors/stage/peers.hpp"

#include "actors/job/stage_mesh.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

StagePeers::StagePeers(const Job& job, uint32_t member,
                       std::vector<uint64_t> elements)
  : job_(job),
    mesh_(mesh_of(job.options)),
    own_(mesh_.pipeline_of(member)),
    elements_(std::move(elements)),
    sum_(mesh_, job.options.virtual_ranks) {}

void StagePeers::begin(uint64_t step) {
  std::vector<bool> filled;
  for (uint32_t rank = 0; rank < job_.options.virtual_ranks; ++rank)
    filled.push_back(job_.sampling.rank(step, rank).count > 0);
  step_ = std::make_shared<const MeshSum::Step>(sum_.step(filled));
}

uint32_t StagePeers::number_of_node(uint32_t chunk, RankRange node) const {
  return chunk * job_.options.virtual_ranks + node.lo;
}

uint32_t StagePeers::number_of_share(uint32_t chunk, uint32_t pipeline) const {
  return chunk * mesh_.data + pipeline;
}

std::vector<uint32_t> StagePeers::awaited_nodes() const {
  std::vector<uint32_t> out;
  for (uint32_t chunk = 0; chunk < elements_.size(); ++chunk)
    for (uint32_t pipeline = 0; pipeline < mesh_.data; ++pipeline)
      if (pipeline != own_)
        for (auto node : step_->nodes[pipeline])
          out.push_back(number_of_node(chunk, node));
  return out;
}

std::vector<uint32_t> StagePeers::awaited_shares() const {
  std::vector<uint32_t> out;
  for (uint32_t chunk = 0; chunk < elements_.size(); ++chunk)
    for (uint32_t pipeline = 0; pipeline < mesh_.data; ++pipeline)
      if (pipeline != own_)
        out.push_back(number_of_share(chunk, pipeline));
  return out;
}

std::optional<uint64_t> StagePeers::elements(StageStream stream,
                                             uint32_t number) const {
  const bool nodes = stream == StageStream::nodes;
  const auto numbers = nodes ? job_.options.virtual_ranks : mesh_.data;
  const auto chunk = number / numbers;
  const auto within = number % numbers;
  if (chunk >= elements_.size() || !any())
    return std::nullopt;
  if (!nodes) {
    if (within == own_)
      return std::nullopt;
    return share_of(within, mesh_.data, elements_[chunk]).size();
  }
  const auto own = mesh_.ranks(own_, job_.options.virtual_ranks);
  if (!sum_.has_node(within) || own.covers({within, within + 1}))
    return std::nullopt;
  return share_of(own_, mesh_.data, elements_[chunk]).size();
}

} // namespace troupe
