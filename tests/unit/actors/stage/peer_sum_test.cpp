#include "actors/stage/peer_sum.hpp"
#include "kernels/cpu/vector_loops.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(peer_sum_suite)

namespace {

constexpr uint64_t elements = 100;

/// Values whose sum depends on the order of its additions.
void write_leaf(uint32_t rank, float* to) {
  std::mt19937 random(rank * 31 + 5);
  for (uint64_t i = 0; i < elements; ++i)
    to[i] = std::uniform_real_distribution<float>(-1, 1)(random)
            * std::pow(10.0f, static_cast<float>(random() % 6));
}

/// Leaves of a range of ranks, where they have samples.
LeafTree leaves_of(RankRange own, const std::vector<uint32_t>& samples) {
  LeafTree out{elements};
  out.begin(samples, own);
  for (auto rank = own.lo; rank < own.hi; ++rank)
    if (samples[rank] > 0) {
      write_leaf(rank, out.next(rank));
      out.put(rank);
    }
  return out;
}

std::shared_ptr<const Job> grouped_job(uint32_t data, uint32_t ranks) {
  auto options = small_job();
  options.strategy = Strategy::hybrid;
  options.model = "mlp:20-16-8-4";
  options.cut.mesh = {data, 1, 2};
  options.cut.virtual_slices = 4;
  options.virtual_ranks = ranks;
  options.global_batch = 3 * ranks;
  return std::make_shared<const Job>(options, *small_data().train);
}

/// A member of one place of a group, without its actor.
struct Peer {
  Peer(const std::shared_ptr<const Job>& job, uint32_t group,
       const std::vector<uint32_t>& samples)
    : numbers(*job, 2 * group + 1, {elements}),
      leaves(leaves_of(
        Mesh(job->options.cut.mesh).ranks(group, job->options.virtual_ranks),
        samples)) {
    context.job = job;
    context.role = {RoleKind::tensor, 2 * group + 1};
    sum = std::make_unique<PeerSum>(context, 0, elements);
  }

  RoleContext context;
  StagePeers numbers;
  LeafTree leaves;
  std::unique_ptr<PeerSum> sum;
  PeerValues nodes;
  PeerValues shares;
};

} // namespace

// PROTOCOL 3, of any number of groups, and of ranks without samples.
BOOST_AUTO_TEST_CASE(peers_sum_a_gradient_with_the_bits_of_the_tree) {
  for (uint32_t ranks : {2, 3, 4, 5, 7})
    for (uint32_t data = 2; data <= std::min(ranks, 4u); ++data)
      for (uint32_t without : {0u, 1u, ranks - 1, ranks}) {
        const auto job = grouped_job(data, ranks);
        const Mesh mesh = job->options.cut.mesh;
        std::vector<uint32_t> samples(ranks, 3);
        std::vector<bool> filled(ranks, true);
        if (without < ranks)
          samples[without] = filled[without] = 0;
        const auto whole = leaves_of({0, ranks}, samples);
        const auto step = MeshSum{mesh, ranks}.step(filled);
        std::vector<std::unique_ptr<Peer>> peers;
        for (uint32_t group = 0; group < data; ++group)
          peers.push_back(std::make_unique<Peer>(job, group, samples));
        for (uint32_t from = 0; from < data; ++from)
          for (const auto& given :
               peers[from]->sum->give(step, peers[from]->leaves))
            peers[given.pipeline]->nodes.emplace(
              peers[from]->numbers.number_of_node(0, given.node), given.values);
        for (uint32_t from = 0; from < data; ++from) {
          auto& peer = *peers[from];
          const auto share = peer.sum->add(step, peer.leaves, peer.numbers,
                                           peer.nodes);
          BOOST_TEST(share.size() == share_of(from, data, elements).size());
          for (uint32_t to = 0; to < data; ++to)
            if (to != from)
              peers[to]->shares.emplace(peer.numbers.number_of_share(0, from),
                                        share);
        }
        for (auto& peer : peers) {
          peer->sum->complete(peer->numbers, peer->shares);
          BOOST_TEST(std::memcmp(peer->sum->gradient(peer->leaves),
                                 whole.root(), elements * sizeof(float))
                       == 0,
                     ranks << " ranks, " << data << " groups, none of "
                           << without);
        }
      }
}

BOOST_AUTO_TEST_CASE(one_group_has_the_sum_of_its_leaves) {
  const auto job = grouped_job(1, 4);
  Peer peer{job, 0, {3, 3, 3, 3}};
  BOOST_TEST(peer.sum->gradient(peer.leaves) == peer.leaves.root());
}

BOOST_AUTO_TEST_SUITE_END()
