#include "kernels/base/error.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "kernels/graph/models.hpp"
#include "kernels/graph/tensor_part.hpp"
#include "kernels/graph/virtual_slices.hpp"
#include "tests/unit/kernels/staged_graph.hpp"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <functional>

using namespace troupe;
using troupe::test::StagedLeaf;
using troupe::test::unwritten;

BOOST_AUTO_TEST_SUITE(tensor_stages_test)

namespace {

struct TensorModel {
  const char* text;
  SampleShape sample;
};

std::vector<TensorModel> tensor_models() {
  SampleShape text;
  text.vocabulary = 19;
  text.label = LabelKind::tokens;
  SampleShape clicks;
  clicks.features = {5};
  clicks.ids = 4;
  clicks.vocabulary = 23;
  clicks.label = LabelKind::binary;
  return {{"mlp:20-24-17-16-5", {}},
          {"mlp:20-24-17-16", {}},
          {"transformer:L2-H8-D16-T8-P0.1", text},
          {"llama:L2-H16-K8-D32-T8-P0.1", text},
          {"dlrm", clicks}};
}

/// Where a graph may be cut into as many stages; empty: nowhere.
std::vector<uint32_t> tensor_cuts(const Graph& graph, uint32_t stages) {
  const auto ops = static_cast<uint32_t>(graph.ops.size());
  std::vector<uint32_t> begins{0};
  for (uint32_t op = 1; op < ops && begins.size() < stages; ++op)
    if (may_cut_before(graph, op) && op >= begins.size() * ops / stages)
      begins.push_back(op);
  return begins.size() == stages ? begins : std::vector<uint32_t>{};
}

/// Stages of tensor members that are called one after the other, in steps of
/// one micro-batch.
class TensorStages {
public:
  TensorStages(const Graph& graph, const std::vector<uint32_t>& begins,
               uint32_t members, const StageOptions& options)
    : graph_(graph), members_(members), options_(options) {
    for (size_t k = 0; k < begins.size(); ++k) {
      const auto end = k + 1 < begins.size()
                         ? begins[k + 1]
                         : static_cast<uint32_t>(graph.ops.size());
      auto& stage = stages_.emplace_back();
      for (uint32_t member = 0; member < members; ++member) {
        const auto own = tensor_part(graph, slices_of(member));
        auto of_member = options;
        if (!options.layers.empty()) // some, by their place in the whole
          of_member.layers.clear();
        for (auto place : own.places)
          if (!options.layers.empty())
            of_member.layers.push_back(options.layers[place]);
        stage.push_back(make_stage_replica(
          own.graph, part_of(own, {begins[k], end}), {}, of_member));
      }
    }
  }

  SliceNode slices_of(uint32_t member) const {
    const auto each = graph_.virtual_slices / members_;
    return {member * each, (member + 1) * each};
  }

  /// Takes a micro-batch through all stages, and compares with the whole.
  void check(const std::vector<float>& parameters, const Batch& batch,
             const std::vector<float>& gradient, const LeafStats& stats) {
    values_.clear();
    for (auto& stage : stages_)
      forward(stage, parameters, batch);
    for (const auto& last : stats_) {
      BOOST_TEST(last.loss_sum == stats.loss_sum);
      BOOST_TEST(last.correct == stats.correct);
    }
    crossing_.assign(members_, {});
    for (size_t k = stages_.size(); k-- > 0;)
      backward(k, batch.rows, gradient);
  }

  /// Each piece is one member's, what is not cut is everybody's of its stages.
  void check_owners() const {
    std::vector<uint32_t> owners(graph_.parameters.size(), 0);
    for (const auto& stage : stages_)
      for (const auto& replica : stage)
        for (auto parameter : replica->part().kept)
          ++owners[parameter];
    for (uint32_t i = 0; i < owners.size(); ++i) {
      const bool piece = graph_.pieces[i].cut();
      // The bias of a layer that is cut by rows is that of its first slice.
      BOOST_TEST((owners[i] == 1 || (!piece && owners[i] == members_)));
    }
  }

private:
  using Stage = std::vector<std::unique_ptr<StageReplica>>;

  void forward(const Stage& stage, const std::vector<float>& parameters,
               const Batch& batch) {
    const Layout whole{graph_};
    auto& own = values_.emplace_back();
    std::vector<std::vector<float>> out;
    stats_.assign(members_, {});
    crossing_.resize(members_);
    for (uint32_t i = 0; i < members_; ++i) {
      auto& values = own.emplace_back(stage[i]->layout().total, 0.0f);
      for (auto parameter : stage[i]->part().parameters)
        std::copy_n(parameters.data() + whole.offsets[parameter],
                    graph_.parameters[parameter].size(),
                    values.data() + stage[i]->layout().offsets[parameter]);
      out.push_back(
        unwritten(forward_elements(graph_, stage[i]->part().out, batch.rows)));
      stats_[i] = stage[i]->forward(0, values.data(), batch,
                                    crossing_[i].data(), out[i].data());
    }
    take_on(stage, stage.front()->forward_sums());
    for (const auto& one : out) // all members have all that crosses
      BOOST_TEST((one == out.front()));
    crossing_ = std::move(out);
  }

  void backward(size_t k, uint32_t rows, const std::vector<float>& gradient) {
    const Layout whole{graph_};
    const auto& stage = stages_[k];
    std::vector<std::vector<float>> found;
    std::vector<std::vector<float>> out;
    for (uint32_t i = 0; i < members_; ++i) {
      auto& replica = *stage[i];
      found.push_back(unwritten(replica.layout().total));
      out.push_back(
        unwritten(backward_elements(graph_, replica.part().in, rows)));
      if (options_.in_halves)
        replica.backward_inputs(0, crossing_[i].data(), out[i].data());
      else
        replica.backward(0, crossing_[i].data(), found[i].data(),
                         out[i].data());
    }
    take_on(stage, stage.front()->backward_sums());
    for (uint32_t i = 0; i < members_; ++i) {
      const auto& replica = *stage[i];
      if (options_.in_halves)
        stage[i]->backward_weights(0, found[i].data());
      for (auto parameter : replica.part().kept)
        BOOST_TEST(
          std::memcmp(found[i].data() + replica.layout().offsets[parameter],
                      gradient.data() + whole.offsets[parameter],
                      graph_.parameters[parameter].size() * sizeof(float))
            == 0,
          k << ' ' << i << " of " << members_ << ' '
            << graph_.parameters[parameter].name);
    }
    crossing_ = std::move(out);
  }

  void take_on(const Stage& stage, const std::vector<TensorSum>& sums) {
    for (size_t sum = 0; sum < sums.size(); ++sum) {
      std::vector<std::span<float>> places;
      for (const auto& replica : stage) {
        BOOST_REQUIRE(!replica->awaited().empty());
        places.push_back(replica->awaited());
      }
      add_up(places);
      for (uint32_t i = 0; i < members_; ++i)
        stats_[i] = stage[i]->go_on();
    }
    for (const auto& replica : stage)
      BOOST_TEST(replica->awaited().empty());
  }

  void add_up(const std::vector<std::span<float>>& places) const {
    std::vector<float> sum(places.front().size());
    const std::function<float(SliceNode, size_t)> of = [&](SliceNode node,
                                                           size_t at) {
      for (uint32_t i = 0; i < members_; ++i)
        if (node == slices_of(i))
          return places[i][at];
      const auto [left, right] = children(node);
      return of(left, at) + of(right, at);
    };
    for (size_t at = 0; at < sum.size(); ++at)
      sum[at] = of({0, graph_.virtual_slices}, at);
    for (auto place : places)
      std::copy(sum.begin(), sum.end(), place.begin());
  }

  const Graph& graph_;
  uint32_t members_;
  StageOptions options_;
  std::vector<Stage> stages_;
  std::vector<std::vector<std::vector<float>>> values_; ///< parameters
  std::vector<std::vector<float>> crossing_;            ///< by member
  std::vector<LeafStats> stats_;
};

} // namespace

BOOST_AUTO_TEST_CASE(members_of_stages_have_the_gradient_of_the_whole) {
  constexpr uint32_t most = 5;
  uint32_t cut = 0;
  for (const auto& model : tensor_models())
    for (auto [slices, groups] :
         {std::pair{2u, std::vector<uint32_t>{1, 2}},
          std::pair{4u, std::vector<uint32_t>{1, 2, 4}},
          std::pair{6u, std::vector<uint32_t>{1, 3, 6}},
          std::pair{8u, std::vector<uint32_t>{2, 4, 8}}}) {
      const auto graph = cut_into_slices(make_graph(model.text, model.sample),
                                         slices);
      const Layout layout{graph};
      std::vector<float> parameters(layout.total, 0.0f);
      for (uint32_t i = 0; i < graph.parameters.size(); ++i)
        initialize(graph, 3, i, 0, parameters.data() + layout.offsets[i],
                   graph.parameters[i].size());
      const auto whole = make_replica(graph, {}, most);
      std::vector<TensorStages> all;
      for (auto members : groups)
        for (uint32_t stages : {1, 2, 3}) {
          const auto begins = tensor_cuts(graph, stages);
          if (begins.empty())
            continue;
          cut += stages > 1 && members > 1 ? 1 : 0;
          for (bool recompute : {false, true})
            for (bool in_halves : {false, true}) {
              StageOptions options;
              options.max_rows = most;
              options.recompute = recompute;
              options.in_halves = in_halves;
              all.emplace_back(graph, begins, members, options);
              all.back().check_owners();
              if (recompute)
                continue;
              for (uint32_t op = 0; op < graph.ops.size(); ++op)
                options.layers.push_back(op / 5 % 4);
              all.emplace_back(graph, begins, members, options);
            }
        }
      for (uint32_t rows : {5, 2}) {
        const StagedLeaf leaf{graph, rows, 7 + rows};
        std::vector<float> gradient(layout.total, 0.0f);
        const auto stats = whole->gradient(parameters.data(), leaf.batch,
                                           gradient.data());
        for (auto& stages : all)
          stages.check(parameters, leaf.batch, gradient, stats);
      }
    }
  BOOST_TEST(cut > 10u);
}

BOOST_AUTO_TEST_CASE(a_pass_that_is_let_go_begins_anew) {
  const auto graph = cut_into_slices(make_graph("mlp:20-24-17-16-5"), 2);
  const auto own = tensor_part(graph, {0, 1});
  const auto ops = static_cast<uint32_t>(graph.ops.size());
  const auto replica = make_stage_replica(own.graph, part_of(own, {0, ops}), {},
                                          {});
  BatchMemory memory{graph, 1};
  std::fill_n(memory.features(), graph.features(), 0.5f);
  memory.labels()[0] = 0;
  const std::vector<float> parameters(replica->layout().total, 0.1f);
  for (int round = 0; round < 2; ++round) {
    replica->forward(0, parameters.data(), memory.batch(1, 7), nullptr,
                     nullptr);
    BOOST_TEST(!replica->awaited().empty());
    replica->abandon();
    BOOST_TEST(replica->awaited().empty());
  }
}

BOOST_AUTO_TEST_CASE(a_member_has_its_share_of_memory) {
  SampleShape text;
  text.vocabulary = 19;
  text.label = LabelKind::tokens;
  const auto graph =
    cut_into_slices(make_graph("transformer:L2-H4-D64-T16", text), 4);
  const auto ops = static_cast<uint32_t>(graph.ops.size());
  StageOptions options;
  options.max_rows = 4;
  const auto bytes = [&](uint32_t members) {
    const auto own = tensor_part(graph, {0, 4 / members});
    return make_stage_replica(own.graph, part_of(own, {0, ops}), {}, options)
      ->memory_bytes();
  };
  BOOST_TEST(bytes(2) < 3 * bytes(1) / 4);
  BOOST_TEST(bytes(4) < bytes(2));
}

BOOST_AUTO_TEST_CASE(slices_are_refused_where_nobody_computes_them) {
  const auto graph = cut_into_slices(make_graph("mlp:20-24-17-16-5"), 2);
  const auto own = tensor_part(graph, {0, 1});
  DeviceId gpu;
  gpu.kind = DeviceId::Kind::cuda;
  BOOST_CHECK_THROW(
    make_stage_replica(
      own.graph, part_of(own, {0, static_cast<uint32_t>(graph.ops.size())}),
      gpu, {}),
    InputError);
}

BOOST_AUTO_TEST_SUITE_END()
