#include "actors/stage/peers.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

#include <set>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(stage_peers_suite)

namespace {

JobOptions meshed_options(uint32_t data, uint32_t ranks) {
  auto options = small_job();
  options.strategy = Strategy::hybrid;
  options.model = "mlp:20-16-4";
  options.cut.mesh = {data, 2};
  options.virtual_ranks = ranks;
  options.global_batch = 2 * ranks;
  return options;
}

} // namespace

// What one sends is what the other waits for, of the same length.
BOOST_AUTO_TEST_CASE(what_is_sent_between_pipelines_is_what_is_awaited) {
  const std::vector<uint64_t> elements{100, 37};
  for (uint32_t ranks : {3, 4, 7})
    for (uint32_t data = 2; data <= 3; ++data) {
      const Job job{meshed_options(data, ranks), *small_data().train};
      for (uint32_t own = 0; own < data; ++own) {
        StagePeers peers{job, own * 2 + 1, elements};
        BOOST_TEST(peers.any());
        peers.begin(0);
        std::set<uint32_t> nodes, shares;
        for (uint32_t chunk = 0; chunk < elements.size(); ++chunk)
          for (uint32_t from = 0; from < data; ++from) {
            if (from == own)
              continue;
            shares.insert(peers.number_of_share(chunk, from));
            BOOST_TEST(peers
                         .elements(StageStream::shares,
                                   peers.number_of_share(chunk, from))
                         .value()
                       == share_of(from, data, elements[chunk]).size());
            for (auto node : peers.step()->nodes[from]) {
              nodes.insert(peers.number_of_node(chunk, node));
              BOOST_TEST(peers
                           .elements(StageStream::nodes,
                                     peers.number_of_node(chunk, node))
                           .value()
                         == share_of(own, data, elements[chunk]).size());
            }
          }
        const auto awaited = peers.awaited_nodes();
        BOOST_TEST(
          (nodes == std::set<uint32_t>(awaited.begin(), awaited.end())));
        BOOST_TEST(nodes.size() == awaited.size());
        const auto others = peers.awaited_shares();
        BOOST_TEST(
          (shares == std::set<uint32_t>(others.begin(), others.end())));
      }
    }
}

BOOST_AUTO_TEST_CASE(what_no_peer_may_send_has_no_length) {
  const Job job{meshed_options(2, 4), *small_data().train};
  const StagePeers peers{job, 1, {100}};
  BOOST_TEST(!peers.elements(StageStream::shares, 0)); // its own
  BOOST_TEST(!peers.elements(StageStream::nodes, 0));
  BOOST_TEST(!peers.elements(StageStream::nodes, 3)); // in the node 2-4
  BOOST_TEST(!peers.elements(StageStream::nodes, 6)); // of a second chunk
  BOOST_TEST(!peers.elements(StageStream::shares, 3));
  BOOST_TEST(!peers.elements(StageStream::shares, ~uint32_t{0}));
  BOOST_TEST(peers.elements(StageStream::nodes, 2).has_value());
}

BOOST_AUTO_TEST_CASE(one_pipeline_has_no_peers) {
  const Job job{meshed_options(1, 4), *small_data().train};
  StagePeers peers{job, 1, {100}};
  BOOST_TEST(!peers.any());
  peers.begin(0);
  BOOST_TEST(peers.awaited_shares().empty());
  BOOST_TEST(peers.awaited_nodes().empty());
  BOOST_TEST(!peers.elements(StageStream::shares, 0));
}

BOOST_AUTO_TEST_SUITE_END()
