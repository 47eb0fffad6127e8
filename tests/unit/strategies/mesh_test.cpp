#include "strategies/mesh.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(mesh_suite)

namespace {

Mesh parsed_mesh(const std::string& text) {
  Mesh mesh{7, 7};
  std::string mistake;
  BOOST_TEST_REQUIRE(parse(text, mesh, mistake), text << ": " << mistake);
  return mesh;
}

std::string mistake_of_mesh(const std::string& text) {
  Mesh mesh{7, 7};
  std::string mistake;
  BOOST_TEST(!parse(text, mesh, mistake), text);
  BOOST_TEST((mesh == Mesh{7, 7}));
  return mistake;
}

/// Values whose sum depends on the order of its additions.
float leaf_of_rank(uint32_t rank) {
  std::mt19937 random(rank * 31 + 5);
  return std::uniform_real_distribution<float>(-1, 1)(random)
         * std::pow(10.0f, static_cast<float>(random() % 8));
}

/// The sum of a node by the rule, from the top; false: no rank has samples.
bool sum_of_node(RankRange node, const std::vector<bool>& filled, float& sum) {
  if (node.size() == 1) {
    sum = leaf_of_rank(node.lo);
    return filled[node.lo];
  }
  const auto [left, right] = children(node);
  float a = 0, b = 0;
  const bool has_a = sum_of_node(left, filled, a);
  const bool has_b = sum_of_node(right, filled, b);
  sum = has_a && has_b ? a + b : has_a ? a : b;
  return has_a || has_b;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_mesh_reads_back_as_it_is_printed) {
  BOOST_TEST((parsed_mesh("data=2,stage=3") == Mesh{2, 3}));
  BOOST_TEST((parsed_mesh("stage=3,data=2,tensor=1") == Mesh{2, 3}));
  BOOST_TEST((parsed_mesh("data=5") == Mesh{5, 1}));
  BOOST_TEST((parsed_mesh("stage=4") == Mesh{1, 4}));
  BOOST_TEST((parsed_mesh("tensor=4,data=2") == Mesh{2, 1, 4}));
  BOOST_TEST((parsed_mesh("data=2,stage=1,tensor=4") == Mesh{2, 1, 4}));
  BOOST_TEST((parsed_mesh("stage=2,tensor=2") == Mesh{1, 2, 2}));
  BOOST_TEST((parsed_mesh("tensor=4,stage=3,data=2") == Mesh{2, 3, 4}));
  BOOST_TEST(to_string(Mesh{2, 1, 4}) == "data=2,tensor=4");
  BOOST_TEST(to_string(Mesh{2, 3, 4}) == "data=2,stage=3,tensor=4");
  BOOST_TEST(to_string(Mesh{2, 1}) == "data=2,stage=1");
  for (uint32_t data : {1, 2, 7})
    for (uint32_t stages : {1, 3})
      BOOST_TEST(
        (parsed_mesh(to_string(Mesh{data, stages})) == Mesh{data, stages}));
}

BOOST_AUTO_TEST_CASE(what_is_no_mesh_is_refused_with_why) {
  const std::vector<std::pair<const char*, const char*>> wrong{
    {"", "expected axes"},
    {"2,2", "'2': expected AXIS=N"},
    {"data=0", "'data=0': expected AXIS=N"},
    {"data=x,stage=2", "'data=x': expected"},
    {"data=2,data=2", "data is named twice"},
    {"data=2,layers=2", "no axis layers: use data, stage and tensor"},
    {"data=16,stage=16,tensor=17", "at most 4096 members"},
    {"data=4096,stage=2", "at most 4096 members"},
    {"data=4096,tensor=2", "at most 4096 members"},
    {"data=2,tensor=0", "'tensor=0': expected AXIS=N"},
    {"data=99999999999", "expected AXIS=N"},
  };
  for (const auto& [text, words] : wrong)
    BOOST_TEST(mistake_of_mesh(text).find(words) != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(each_member_has_one_place_and_its_neighbours) {
  const Mesh mesh{3, 4};
  BOOST_TEST(mesh.members() == 12u);
  for (uint32_t one = 0; one < mesh.members(); ++one) {
    BOOST_TEST(mesh.member(mesh.pipeline_of(one), mesh.stage_of(one)) == one);
    BOOST_TEST(mesh.peers_of(one).size() == 2u);
    for (auto peer : mesh.peers_of(one)) {
      BOOST_TEST(mesh.stage_of(peer) == mesh.stage_of(one));
      BOOST_TEST(mesh.are_linked(one, peer, false));
    }
    uint32_t links = 0, round = 0;
    for (uint32_t other = 0; other < mesh.members(); ++other) {
      links += mesh.are_linked(one, other, false) ? 1 : 0;
      round += mesh.are_linked(one, other, true) ? 1 : 0;
      BOOST_TEST(mesh.are_linked(one, other, true)
                 == mesh.are_linked(other, one, true));
    }
    const auto stage = mesh.stage_of(one);
    BOOST_TEST(links == (stage == 0 || stage == 3 ? 3u : 4u));
    BOOST_TEST(round == 4u);
  }
  BOOST_TEST(!(Mesh{2, 1}).are_linked(0, 0, true));
}

// Data first, then stages, then members of a stage.
BOOST_AUTO_TEST_CASE(tensor_members_talk_to_their_group_and_their_peers) {
  for (const auto& mesh : {Mesh{3, 1, 4}, Mesh{2, 3, 2}, Mesh{1, 1, 2}})
    for (uint32_t one = 0; one < mesh.members(); ++one) {
      const auto pipeline = mesh.pipeline_of(one);
      const auto stage = mesh.stage_of(one);
      const auto slice = mesh.slice_of(one);
      BOOST_TEST(mesh.member(pipeline, stage, slice) == one);
      const auto peers = mesh.peers_of(one);
      BOOST_TEST(peers.size() == mesh.data - 1);
      for (uint32_t other = 0; other < mesh.members(); ++other) {
        const bool group = mesh.pipeline_of(other) == pipeline
                           && mesh.stage_of(other) == stage;
        const bool peer = std::ranges::count(peers, other) > 0;
        const bool beside = mesh.pipeline_of(other) == pipeline
                            && mesh.slice_of(other) == slice
                            && (mesh.stage_of(other) == stage + 1
                                || mesh.stage_of(other) + 1 == stage);
        const bool follows =
          mesh.pipeline_of(other) == pipeline
          && (mesh.place_of(other) + 1 == mesh.place_of(one)
              || mesh.place_of(one) + 1 == mesh.place_of(other));
        BOOST_TEST(mesh.are_linked(one, other, false)
                   == (one != other && (group || peer || beside || follows)));
      }
    }
  BOOST_TEST((Mesh{2, 1, 2}.peers_of(1) == std::vector<uint32_t>{3}));
}

// PROTOCOL 3, of any number of pipelines and of ranks without samples.
BOOST_AUTO_TEST_CASE(pipelines_sum_along_the_fixed_tree) {
  std::mt19937 random(3);
  for (uint32_t ranks = 1; ranks <= 17; ++ranks)
    for (uint32_t data = 1; data <= ranks; ++data) {
      const Mesh mesh{data, 2};
      const MeshSum sums{mesh, ranks};
      for (int round = 0; round < 8; ++round) {
        std::vector<bool> filled(ranks);
        for (uint32_t rank = 0; rank < ranks; ++rank)
          filled[rank] = round == 0 || random() % 2 == 0;
        filled[random() % ranks] = true;
        const auto step = sums.step(filled);
        std::vector<float> stack;
        std::map<RankRange, int> used;
        for (auto addend : step.addends) {
          const auto node = step.nodes[addend.member][addend.node];
          BOOST_TEST(mesh.ranks(addend.member, ranks).covers(node));
          BOOST_TEST(sums.has_node(node.lo));
          ++used[node];
          float sum = 0;
          BOOST_TEST_REQUIRE(sum_of_node(node, filled, sum));
          stack.push_back(sum);
          for (auto merges = addend.merges; merges > 0; --merges) {
            const auto last = stack.back();
            stack.pop_back();
            stack.back() += last;
          }
        }
        BOOST_TEST_REQUIRE(stack.size() == 1u);
        float whole = 0;
        sum_of_node({0, ranks}, filled, whole);
        BOOST_TEST(stack.front() == whole);
        for (const auto& nodes : step.nodes)
          for (auto node : nodes)
            BOOST_TEST(used[node] == 1);
      }
    }
}

BOOST_AUTO_TEST_CASE(nodes_of_pipelines_begin_with_different_ranks) {
  const MeshSum sums{{3, 1}, 8};
  uint32_t nodes = 0, first = 0;
  for (uint32_t pipeline = 0; pipeline < 3; ++pipeline)
    nodes += static_cast<uint32_t>(sums.nodes(pipeline).size());
  for (uint32_t rank = 0; rank < 8; ++rank)
    first += sums.has_node(rank) ? 1 : 0;
  BOOST_TEST(nodes == first);
  BOOST_TEST(nodes > 3u);
  BOOST_TEST(!sums.has_node(1));
  BOOST_TEST(!sums.has_node(8));
}

BOOST_AUTO_TEST_CASE(shares_cover_a_vector_once) {
  for (uint64_t elements : {0, 1, 15, 16, 17, 100, 1000})
    for (uint32_t count : {1, 2, 3, 7}) {
      uint64_t at = 0;
      for (uint32_t index = 0; index < count; ++index) {
        const auto share = share_of(index, count, elements);
        BOOST_TEST(share.begin == at);
        BOOST_TEST(share.begin % 16
                   == (share.size() > 0 ? 0u : share.begin % 16));
        BOOST_TEST(share.size() <= elements / count + 32);
        at = share.end;
      }
      BOOST_TEST(at == elements);
    }
}

BOOST_AUTO_TEST_CASE(ranks_of_pipelines_are_at_most_so_many) {
  for (uint32_t ranks = 1; ranks <= 20; ++ranks)
    for (uint32_t data = 1; data <= ranks; ++data) {
      const Mesh mesh{data, 1};
      uint32_t most = 0, all = 0;
      for (uint32_t pipeline = 0; pipeline < data; ++pipeline) {
        most = std::max(most, mesh.ranks(pipeline, ranks).size());
        all += mesh.ranks(pipeline, ranks).size();
      }
      BOOST_TEST(most == mesh.max_ranks(ranks));
      BOOST_TEST(all == ranks);
    }
}

BOOST_AUTO_TEST_SUITE_END()
