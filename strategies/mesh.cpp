#include "strategies/mesh.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>
#include <sstream>

namespace troupe {
namespace {

constexpr uint64_t line_elements = 16;

bool parse_axis(const std::string& text, uint32_t& count) {
  const auto* end = text.data() + text.size();
  const auto [at, failure] = std::from_chars(text.data(), end, count);
  return failure == std::errc{} && at == end && count >= 1
         && count <= Mesh::max_members;
}

} // namespace

bool Mesh::are_linked(uint32_t one, uint32_t other, bool round) const {
  if (one == other)
    return false;
  const auto a = stage_of(one);
  const auto b = stage_of(other);
  const bool same_pipeline = pipeline_of(one) == pipeline_of(other);
  if (slice_of(one) != slice_of(other))
    return same_pipeline && (a == b || one + 1 == other || other + 1 == one);
  if (!same_pipeline)
    return a == b;
  const bool ends = round && std::min(a, b) == 0
                    && std::max(a, b) == stages - 1;
  return a + 1 == b || b + 1 == a || ends;
}

std::vector<uint32_t> Mesh::peers_of(uint32_t own) const {
  std::vector<uint32_t> out;
  for (uint32_t pipeline = 0; pipeline < data; ++pipeline)
    if (pipeline != pipeline_of(own))
      out.push_back(member(pipeline, stage_of(own), slice_of(own)));
  return out;
}

std::string to_string(const Mesh& mesh) {
  const auto data = "data=" + std::to_string(mesh.data);
  const auto tensor = ",tensor=" + std::to_string(mesh.tensor);
  if (mesh.tensor > 1 && mesh.stages == 1)
    return data + tensor;
  return data + ",stage=" + std::to_string(mesh.stages)
         + (mesh.tensor > 1 ? tensor : "");
}

bool parse(const std::string& text, Mesh& mesh, std::string& mistake) {
  Mesh read;
  std::set<std::string> known;
  std::istringstream items{text};
  for (std::string item; std::getline(items, item, ',');) {
    const auto equals = item.find('=');
    const auto axis = item.substr(0, equals);
    uint32_t count = 0;
    if (equals == std::string::npos
        || !parse_axis(item.substr(equals + 1), count)) {
      mistake = "'" + item + "': expected AXIS=N with N from 1 to "
                + std::to_string(Mesh::max_members)
                + ", for example data=2,stage=2";
      return false;
    }
    if (!known.insert(axis).second) {
      mistake = axis + " is named twice";
      return false;
    }
    if (axis == "data") {
      read.data = count;
    } else if (axis == "stage") {
      read.stages = count;
    } else if (axis == "tensor") {
      read.tensor = count;
    } else {
      mistake = "a mesh has no axis " + axis + ": use data, stage and tensor";
      return false;
    }
  }
  if (known.empty()) {
    mistake = "expected axes, for example data=2,stage=2";
    return false;
  }
  if (uint64_t{read.data} * read.stages * read.tensor > Mesh::max_members) {
    mistake = "there are at most " + std::to_string(Mesh::max_members)
              + " members";
    return false;
  }
  mesh = read;
  return true;
}

MeshSum::MeshSum(const Mesh& mesh, uint32_t virtual_ranks) {
  for (uint32_t pipeline = 0; pipeline < mesh.data; ++pipeline)
    nodes_.push_back(
      maximal_nodes(mesh.ranks(pipeline, virtual_ranks), virtual_ranks));
}

MeshSum::Step MeshSum::step(const std::vector<bool>& filled) const {
  Step out;
  for (const auto& own : nodes_) {
    auto& nodes = out.nodes.emplace_back();
    std::ranges::copy_if(own, std::back_inserter(nodes), [&](RankRange node) {
      const auto first = filled.begin() + node.lo;
      return std::find(first, filled.begin() + node.hi, true)
             != filled.begin() + node.hi;
    });
  }
  // The tree is told of all nodes, and leaves out those without samples: so an
  // addend's node is counted among all of them.
  out.addends = tree_addends(nodes_, filled);
  for (auto& addend : out.addends) {
    const auto& nodes = out.nodes[addend.member];
    const auto found = std::ranges::find(nodes,
                                         nodes_[addend.member][addend.node]);
    strategies::require(found != nodes.end(), "an addend without samples");
    addend.node = static_cast<uint32_t>(found - nodes.begin());
  }
  return out;
}

bool MeshSum::has_node(uint32_t first_rank) const {
  return std::ranges::any_of(nodes_, [&](const auto& nodes) {
    return std::ranges::find(nodes, first_rank, &RankRange::lo) != nodes.end();
  });
}

ElementRange share_of(uint32_t index, uint32_t count, uint64_t elements) {
  strategies::require(index < count, "a share outside the vector");
  const auto lines = (elements + line_elements - 1) / line_elements;
  const auto cut = [&](uint64_t i) {
    return std::min(elements, i * lines / count * line_elements);
  };
  return {cut(index), cut(uint64_t{index} + 1)};
}

} // namespace troupe
