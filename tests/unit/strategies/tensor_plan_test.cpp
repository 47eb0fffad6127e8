#include "strategies/tensor_plan.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <set>
#include <string>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(tensor_plan_test)

namespace {

/// Writes a model as a graph in virtual slices lists it; variables and FLOPs
/// are numbered so that no two sums of them are alike by chance.
class SlicedOps {
public:
  explicit SlicedOps(uint32_t slices) : slices_(slices) {}

  std::vector<TensorOp> ops;
  std::set<uint32_t> whole;                   ///< variables
  std::vector<std::set<uint32_t>> of_slice{}; ///< variables by slice
  uint32_t pairs = 0;
  uint32_t shared = 0; ///< of those, whose input has a gradient

  void add_whole() {
    whole.insert(variables_);
    ops.push_back(
      {TensorOp::Kind::computes, {}, {variables_++}, 1000 + ops.size(), 8});
  }

  /// Two layers, the second with a bias: that of slice 0.
  void add_pair(bool wanted) {
    of_slice.resize(slices_);
    add_node({0, slices_}, wanted, 100 + ++pairs);
    shared += wanted ? 1 : 0;
  }

private:
  void add_node(RankRange node, bool wanted, uint64_t bytes) {
    if (wanted)
      ops.push_back({TensorOp::Kind::shares, node, {}, 0, bytes});
    if (node.size() == 1) {
      for (int layer = 0; layer < 2; ++layer) {
        of_slice[node.lo].insert(variables_);
        ops.push_back({TensorOp::Kind::computes,
                       node,
                       {variables_++},
                       1'000'000 + ops.size(),
                       4});
      }
      if (node.lo == 0) {
        of_slice[0].insert(variables_);
        ops.back().variables.push_back(variables_++);
      }
      return;
    }
    const auto [left, right] = children(node);
    add_node(left, wanted, bytes);
    add_node(right, wanted, bytes);
    ops.push_back({TensorOp::Kind::sums, node, {}, 0, bytes});
  }

  uint32_t slices_;
  uint32_t variables_ = 0;
};

/// Three layers, of which the first two are a pair, and a head.
SlicedOps mlp_in_slices(uint32_t slices) {
  SlicedOps model{slices};
  model.add_pair(false);
  model.add_whole();
  return model;
}

SlicedOps transformer_in_slices(uint32_t slices) {
  SlicedOps model{slices};
  model.add_whole(); // embedding
  for (int block = 0; block < 3; ++block) {
    model.add_whole(); // norm
    model.add_pair(true);
    model.add_whole();
    model.add_pair(true);
  }
  model.add_whole();
  return model;
}

void check_shares(const SlicedOps& model, uint32_t members, uint32_t slices) {
  BOOST_TEST_CONTEXT(members << " of " << slices) {
    const auto shares = tensor_shares(model.ops, members, slices);
    BOOST_REQUIRE(shares.size() == members);
    std::vector<uint32_t> computed(model.ops.size(), 0);
    std::set<uint32_t> shown;
    uint32_t next = 0;
    for (uint32_t index = 0; index < members; ++index) {
      const auto& share = shares[index];
      BOOST_TEST(share.slices.lo == next);
      next = share.slices.hi;
      BOOST_TEST(share.slices.size() == slices / members);
      // What it keeps is what is nobody's, and what is of its slices.
      auto kept = model.whole;
      for (auto slice = share.slices.lo; slice < share.slices.hi; ++slice)
        kept.insert(model.of_slice[slice].begin(), model.of_slice[slice].end());
      BOOST_TEST(share.variables
                   == std::vector<uint32_t>(kept.begin(), kept.end()),
                 boost::test_tools::per_element());
      for (auto variable : share.shows)
        BOOST_TEST(shown.insert(variable).second);
      uint64_t flops = 0;
      uint64_t bytes = 0;
      const auto duties = tensor_duties(model.ops, share.slices, slices);
      for (size_t i = 0; i < model.ops.size(); ++i) {
        const auto& op = model.ops[i];
        computed[i] += duties[i] == TensorDuty::compute ? 1 : 0;
        flops += duties[i] == TensorDuty::compute ? op.flops : 0;
        bytes += duties[i] == TensorDuty::exchange ? op.bytes : 0;
        if (duties[i] == TensorDuty::exchange)
          BOOST_TEST((op.slices == RankRange{0, slices}));
      }
      BOOST_TEST(share.flops == flops);
      BOOST_TEST(share.bytes == bytes);
      // Members meet at the same sums, in the same order.
      BOOST_TEST(share.forward_sums == (members > 1 ? model.pairs : 0));
      BOOST_TEST(share.backward_sums == (members > 1 ? model.shared : 0));
      BOOST_TEST(share.bytes == shares.front().bytes);
    }
    BOOST_TEST(next == slices);
    for (size_t i = 0; i < model.ops.size(); ++i) {
      const auto& node = model.ops[i].slices;
      const bool leaf = node && node->size() == 1;
      if (!node)
        BOOST_TEST(computed[i] == members);
      else if (leaf)
        BOOST_TEST(computed[i] == 1u);
      else
        BOOST_TEST(computed[i] <= 1u);
    }
    std::set<uint32_t> all{model.whole};
    for (const auto& of_slice : model.of_slice)
      all.insert(of_slice.begin(), of_slice.end());
    BOOST_TEST(shown == all, boost::test_tools::per_element());
  }
}

std::string tree_in_words(RankRange node) {
  if (node.size() == 1)
    return std::to_string(node.lo);
  const auto [left, right] = children(node);
  return '(' + tree_in_words(left) + '+' + tree_in_words(right) + ')';
}

} // namespace

BOOST_AUTO_TEST_CASE(all_slices_and_layers_are_shared_out) {
  uint32_t groups = 0;
  for (uint32_t slices = 1; slices <= 8; ++slices)
    for (uint32_t members = 1; members <= slices; ++members) {
      if (mistake_of_tensor(members, slices))
        continue;
      ++groups;
      check_shares(mlp_in_slices(slices), members, slices);
      check_shares(transformer_in_slices(slices), members, slices);
    }
  // All divisors but 2 of 6, whose halves are no nodes of the tree.
  BOOST_TEST(groups == 19u);
}

// Stages of members: what the members of all stages have is what those of one
// group have, and a variable of two stages is kept by the first.
BOOST_AUTO_TEST_CASE(stages_of_members_have_what_one_group_has) {
  auto model = transformer_in_slices(4);
  const auto tied = *model.whole.begin();
  model.ops.back().variables.push_back(tied);
  const auto ops = static_cast<uint32_t>(model.ops.size());
  for (uint32_t members : {1, 2, 4}) {
    const auto group = tensor_shares(model.ops, members, 4);
    const auto cut = ops / 2;
    const auto shares = tensor_shares(
      model.ops, members, 4,
      {{0, 1, 0}, {1, cut, 1}, {cut, cut + 1, 0}, {cut + 1, ops, 1}});
    BOOST_REQUIRE(shares.size() == 2 * members);
    std::set<uint32_t> shown;
    for (uint32_t member = 0; member < members; ++member) {
      const auto& whole = group[member];
      const auto& first = shares[member];
      const auto& last = shares[members + member];
      BOOST_TEST((first.slices == whole.slices));
      BOOST_TEST((last.slices == whole.slices));
      BOOST_TEST(first.flops + last.flops == whole.flops);
      BOOST_TEST(first.bytes + last.bytes == whole.bytes);
      BOOST_TEST(first.forward_sums + last.forward_sums == whole.forward_sums);
      auto all = first.variables;
      all.insert(all.end(), last.variables.begin(), last.variables.end());
      std::ranges::sort(all);
      BOOST_TEST(all == whole.variables, boost::test_tools::per_element());
      BOOST_TEST(std::ranges::binary_search(first.variables, tied));
      for (const auto* share : {&first, &last})
        for (auto variable : share->shows)
          BOOST_TEST(shown.insert(variable).second);
    }
    BOOST_TEST(shown.size() == [&] {
      std::set<uint32_t> kept;
      for (const auto& share : group)
        kept.insert(share.variables.begin(), share.variables.end());
      return kept.size();
    }());
  }
}

// A seal tells what a member has by what it shows.
BOOST_AUTO_TEST_CASE(members_of_a_stage_without_slices_show_something_each) {
  SlicedOps model{4};
  model.add_pair(false);
  for (int layer = 0; layer < 4; ++layer)
    model.add_whole();
  const auto ops = static_cast<uint32_t>(model.ops.size());
  const auto shares = tensor_shares(model.ops, 4, 4,
                                    {{0, ops - 4, 0}, {ops - 4, ops, 1}});
  std::set<uint32_t> shown;
  for (uint32_t member = 4; member < 8; ++member) {
    BOOST_TEST(shares[member].variables.size() == 4u);
    BOOST_TEST(shares[member].shows.size() == 1u);
    shown.insert(shares[member].shows.front());
  }
  BOOST_TEST(shown.size() == 4u);
  // One variable for two members: there is nothing for the second.
  const auto few = tensor_shares(model.ops, 2, 4,
                                 {{0, ops - 1, 0}, {ops - 1, ops, 1}});
  BOOST_TEST(few[2].shows.size() == 1u);
  BOOST_TEST(few[3].shows.empty());
}

BOOST_AUTO_TEST_CASE(members_sums_are_added_as_the_whole_tree_is) {
  for (uint32_t slices = 1; slices <= 16; ++slices)
    for (uint32_t members = 1; members <= slices; ++members) {
      if (mistake_of_tensor(members, slices))
        continue;
      std::vector<std::string> stack;
      for (const auto& addend : tensor_addends(members, slices)) {
        stack.push_back(
          tree_in_words(slices_of_member(addend.member, members, slices)));
        for (uint32_t i = 0; i < addend.merges; ++i) {
          const auto right = stack.back();
          stack.pop_back();
          stack.back() = '(' + stack.back() + '+' + right + ')';
        }
      }
      BOOST_REQUIRE(stack.size() == 1u);
      BOOST_TEST(stack.front() == tree_in_words({0, slices}));
    }
}

BOOST_AUTO_TEST_CASE(members_that_cannot_have_equal_nodes_are_refused) {
  const auto line = [](uint32_t members, uint32_t slices) {
    return mistake_of_tensor(members, slices).value_or("");
  };
  BOOST_TEST(line(0, 4).find("add --tensor 1") != std::string::npos);
  BOOST_TEST(line(3, 4).find("use --virtual-slices 6") != std::string::npos);
  BOOST_TEST(line(2, 1).find("use --virtual-slices 2") != std::string::npos);
  BOOST_TEST(line(2, 6).find("use --virtual-slices 8") != std::string::npos);
  for (uint32_t slices = 2; slices <= 64; slices *= 2)
    for (uint32_t members = 1; members <= slices; members *= 2)
      BOOST_TEST(line(members, slices).empty());
}

BOOST_AUTO_TEST_SUITE_END()
