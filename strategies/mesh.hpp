#pragma once

#include "strategies/rank_tree.hpp"
#include "strategies/tree_addends.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// How the members of a job are laid out: `data` pipelines side by side, each
/// of `stages` stages, each of `tensor` members that share its layers' slices.
/// A pipeline takes its share of the virtual ranks through all of its stages;
/// members of one place in their pipelines hold the same, and add up their
/// gradients. Member j of stage k of pipeline d is
/// (d stages + k) tensor + j: data first. A group of tensor members is a
/// pipeline of one stage. Its place is that of a member in its pipeline.
struct Mesh {
  static constexpr uint32_t max_members = 4096;

  uint32_t data = 1;
  uint32_t stages = 1;
  uint32_t tensor = 1;

  /// Members of a pipeline.
  uint32_t each() const { return stages * tensor; }
  uint32_t members() const { return data * each(); }
  uint32_t member(uint32_t pipeline, uint32_t stage, uint32_t slice = 0) const {
    return (pipeline * stages + stage) * tensor + slice;
  }
  uint32_t pipeline_of(uint32_t member) const { return member / each(); }
  uint32_t place_of(uint32_t member) const { return member % each(); }
  uint32_t stage_of(uint32_t member) const { return member / tensor % stages; }
  /// Of its stage's tensor members.
  uint32_t slice_of(uint32_t member) const { return member % tensor; }
  /// Tells whether two members send each other something: they have the same
  /// slices of stages beside each other in a pipeline, the ends of which are
  /// too where it goes `round`; they share the slices of a stage; their places
  /// follow each other, which is the way of sums over all of a pipeline; or
  /// they hold the same.
  bool are_linked(uint32_t one, uint32_t other, bool round) const;
  /// Those that hold the same as a member, ascending.
  std::vector<uint32_t> peers_of(uint32_t member) const;
  /// The virtual ranks that a pipeline takes.
  RankRange ranks(uint32_t pipeline, uint32_t virtual_ranks) const {
    return ranks_of_worker(pipeline, data, virtual_ranks);
  }
  /// How many a pipeline has at most: micro-batches of a step.
  uint32_t max_ranks(uint32_t virtual_ranks) const {
    return (virtual_ranks + data - 1) / data;
  }

  friend bool operator==(const Mesh&, const Mesh&) = default;
};

/// As on the command line: "data=2,stage=3", "data=2,tensor=4",
/// "data=2,stage=2,tensor=2".
std::string to_string(const Mesh& mesh);
/// Axes in any order, each at most once; one that is not named is 1.
/// Errors: false, and why in a line that names neither flag nor text.
bool parse(const std::string& text, Mesh& mesh, std::string& mistake);

/// How the members that hold the same sum the gradients of a step: each
/// has the sums of its own ranks' nodes of the fixed tree, gives the others
/// their shares of them, adds up its own share, and gives that to the others
/// (reduce-scatter, then all-gather). So the sum has the bits of the tree
/// (PROTOCOL 3), whoever adds.
/// Source: Thakur et al., "Optimization of Collective Communication Operations
/// in MPICH", IJHPCA 2005, section 4.4.
class MeshSum {
public:
  MeshSum(const Mesh& mesh, uint32_t virtual_ranks);

  /// Of a step in which rank v has `filled[v]` samples or more: whether.
  struct Step {
    /// By pipeline: its nodes that have samples, ascending.
    std::vector<std::vector<RankRange>> nodes;
    /// Nodes are those of `nodes`.
    std::vector<TreeAddend> addends;
  };
  Step step(const std::vector<bool>& filled) const;
  /// A pipeline's nodes, with samples or not.
  const std::vector<RankRange>& nodes(uint32_t pipeline) const {
    return nodes_[pipeline];
  }
  /// Whether some pipeline has a node that begins with this rank; no two have
  /// one that does.
  bool has_node(uint32_t first_rank) const;

private:
  std::vector<std::vector<RankRange>> nodes_; ///< by pipeline
};

/// Elements [begin, end) of a vector.
struct ElementRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t size() const { return end - begin; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

/// Share `index` of `count` of a vector: they are as even as whole cache lines
/// of 16 elements can be, and the last ones may be empty.
ElementRange share_of(uint32_t index, uint32_t count, uint64_t elements);

} // namespace troupe
