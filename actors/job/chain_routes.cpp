#include "actors/job/chain_routes.hpp"

#include "strategies/chain_link.hpp"

namespace troupe {

std::vector<SliceChain> chains_of(const Activate& activation,
                                  const Plan& plan) {
  std::vector<SliceChain> chains(plan.slices.size());
  const bool given = !activation.chains.empty();
  for (uint32_t i = 0; i < chains.size(); ++i) {
    chains[i].slice = i;
    if (!given)
      chains[i].replicas = plan.replicas(i);
  }
  for (const auto& chain : activation.chains)
    if (chain.slice < chains.size())
      chains[chain.slice] = chain;
  return chains;
}

std::vector<uint32_t> heads_of(const std::vector<SliceChain>& chains) {
  std::vector<uint32_t> heads;
  for (const auto& chain : chains)
    heads.push_back(chain.replicas.empty() ? ~uint32_t{0}
                                           : chain.replicas.front());
  return heads;
}

std::vector<uint32_t> tails_of(const std::vector<SliceChain>& chains) {
  std::vector<uint32_t> tails;
  for (const auto& chain : chains)
    tails.push_back(chain.replicas.empty() ? ~uint32_t{0}
                                           : chain.replicas.back());
  return tails;
}

RankRange ranks_of(const Activate& activation, RoleId worker) {
  for (const auto& owner : activation.ranks)
    if (owner.worker == worker)
      return owner.ranks;
  return {};
}

std::vector<LeaseSet> leases_of(const Activate& activation) {
  std::vector<LeaseSet> out;
  for (const auto& head : activation.slices)
    out.emplace_back(head.lease_floor,
                     std::vector<uint64_t>{head.leases_above.begin(),
                                           head.leases_above.end()});
  return out;
}

std::set<uint32_t> neighbours_of(const std::vector<SliceChain>& chains,
                                 uint32_t shard, bool with_scalars) {
  std::set<uint32_t> found;
  for (const auto& chain : chains) {
    const auto place = place_in_chain(chain.replicas, chain.learners, shard);
    if (place.predecessor)
      found.insert(*place.predecessor);
    found.insert(place.followers.begin(), place.followers.end());
  }
  if (with_scalars && !chains.empty() && !chains.front().replicas.empty())
    found.insert(chains.front().replicas.front());
  found.erase(shard);
  return found;
}

std::vector<uint32_t> replicated_by(const std::vector<SliceChain>& chains,
                                    uint32_t shard) {
  std::vector<uint32_t> found;
  for (const auto& chain : chains)
    if (place_in_chain(chain.replicas, chain.learners, shard).replica)
      found.push_back(chain.slice);
  return found;
}

} // namespace troupe
