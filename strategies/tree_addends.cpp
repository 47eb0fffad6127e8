#include "strategies/tree_addends.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <map>

namespace troupe {

namespace {

class Walk {
public:
  Walk(const std::vector<std::vector<RankRange>>& nodes,
       const std::vector<bool>& filled)
    : filled_(filled) {
    for (uint32_t member = 0; member < nodes.size(); ++member)
      for (uint32_t i = 0; i < nodes[member].size(); ++i) {
        const bool fresh =
          given_.emplace(nodes[member][i], std::pair{member, i}).second;
        strategies::require(fresh, "two members bring the same node");
      }
  }

  /// Pushes the addends of `node`; false: there is none.
  bool visit(RankRange node) {
    if (auto found = given_.find(node); found != given_.end()) {
      ++used_;
      const auto first = filled_.begin() + node.lo;
      const auto last = filled_.begin() + node.hi;
      if (std::find(first, last, true) == last)
        return false;
      addends_.push_back({found->second.first, found->second.second, 0});
      return true;
    }
    strategies::require(node.size() > 1, "no member brings a virtual rank");
    auto [left, right] = children(node);
    const bool has_left = visit(left);
    const bool has_right = visit(right);
    if (has_left && has_right)
      ++addends_.back().merges;
    return has_left || has_right;
  }

  std::vector<TreeAddend> take() {
    strategies::require(used_ == given_.size(), "members' nodes overlap");
    return std::move(addends_);
  }

private:
  const std::vector<bool>& filled_;
  std::map<RankRange, std::pair<uint32_t, uint32_t>> given_;
  size_t used_ = 0;
  std::vector<TreeAddend> addends_;
};

} // namespace

std::vector<TreeAddend>
tree_addends(const std::vector<std::vector<RankRange>>& nodes,
             const std::vector<bool>& filled) {
  Walk walk{nodes, filled};
  walk.visit({0, static_cast<uint32_t>(filled.size())});
  return walk.take();
}

std::vector<RankRange> split_nodes(std::vector<RankRange> nodes,
                                   uint32_t wanted) {
  while (nodes.size() < wanted) {
    auto largest = std::max_element(nodes.begin(), nodes.end(),
                                    [](RankRange a, RankRange b) {
                                      return a.size() < b.size();
                                    });
    if (largest == nodes.end() || largest->size() < 2)
      break;
    auto [left, right] = children(*largest);
    *largest = left;
    nodes.insert(largest + 1, right);
  }
  return nodes;
}

} // namespace troupe
