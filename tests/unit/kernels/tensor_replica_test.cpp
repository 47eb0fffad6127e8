#include "kernels/base/error.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/engine/tensor_replica.hpp"
#include "kernels/graph/models.hpp"
#include "kernels/graph/virtual_slices.hpp"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <functional>
#include <limits>
#include <random>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(tensor_replica_test)

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
          {"dlrm", clicks}};
}

/// A group of members that are called one after the other.
class TensorGroup {
public:
  TensorGroup(const Graph& graph, uint32_t members, uint32_t rows)
    : graph_(graph), members_(members) {
    for (uint32_t member = 0; member < members; ++member)
      replicas_.push_back(make_tensor_replica(
        tensor_part(graph, slices_of(member)), {}, rows, Precision::float32));
  }

  SliceNode slices_of(uint32_t member) const {
    const auto each = graph_.virtual_slices / members_;
    return {member * each, (member + 1) * each};
  }

  /// Takes a micro-batch through all members, and compares with the whole.
  void check(const std::vector<float>& parameters, const Batch& batch,
             const std::vector<float>& gradient, const LeafStats& stats) {
    const Layout whole{graph_};
    std::vector<std::vector<float>> own;
    std::vector<std::vector<float>> found;
    for (const auto& replica : replicas_) {
      auto& values = own.emplace_back(replica->layout().total, 0.0f);
      for (auto i : replica->part().parameters)
        std::copy_n(parameters.data() + whole.offsets[i],
                    graph_.parameters[i].size(),
                    values.data() + replica->layout().offsets[i]);
      found.emplace_back(values.size(),
                         std::numeric_limits<float>::quiet_NaN());
    }
    for (uint32_t i = 0; i < members_; ++i)
      replicas_[i]->begin(own[i].data(), batch);
    const auto sums = replicas_.front()->part().sums.size();
    for (size_t sum = 0; sum <= sums; ++sum) {
      std::vector<std::span<float>> places;
      for (uint32_t i = 0; i < members_; ++i) {
        const auto place = replicas_[i]->advance(found[i].data());
        BOOST_REQUIRE(place.has_value() == (sum < sums));
        if (place) {
          BOOST_TEST(place->size()
                     == replicas_[i]->sum_elements(static_cast<uint32_t>(sum),
                                                   batch.rows));
          places.push_back(*place);
        }
      }
      if (sum < sums)
        add_up(places);
    }
    for (uint32_t i = 0; i < members_; ++i) {
      BOOST_TEST(replicas_[i]->stats().loss_sum == stats.loss_sum);
      BOOST_TEST(replicas_[i]->stats().correct == stats.correct);
      for (auto parameter : replicas_[i]->part().parameters)
        BOOST_TEST(
          std::memcmp(found[i].data()
                        + replicas_[i]->layout().offsets[parameter],
                      gradient.data() + whole.offsets[parameter],
                      graph_.parameters[parameter].size() * sizeof(float))
            == 0,
          members_ << ' ' << i << ' ' << graph_.parameters[parameter].name);
    }
  }

  /// Each piece is one member's, what is not cut is everybody's.
  void check_owners() const {
    std::vector<uint32_t> owners(graph_.parameters.size(), 0);
    for (const auto& replica : replicas_)
      for (auto parameter : replica->part().parameters)
        ++owners[parameter];
    for (uint32_t i = 0; i < owners.size(); ++i) {
      const bool piece = graph_.pieces[i].cut();
      // The bias of a layer that is cut by rows is that of its first slice.
      BOOST_TEST((owners[i] == 1 || (!piece && owners[i] == members_)));
    }
  }

private:
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
  std::vector<std::unique_ptr<TensorReplica>> replicas_;
};

} // namespace

BOOST_AUTO_TEST_CASE(members_have_the_gradient_of_the_whole) {
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
      constexpr uint32_t most = 5;
      const auto whole = make_replica(graph, {}, most);
      std::vector<TensorGroup> all;
      for (auto members : groups) {
        all.emplace_back(graph, members, most);
        all.back().check_owners();
      }
      std::mt19937 random(5);
      std::uniform_real_distribution<float> unit(-1, 1);
      for (uint32_t rows : {5, 2}) {
        BatchMemory memory{graph, rows};
        for (size_t i = 0; i < rows * graph.features(); ++i)
          memory.features()[i] = unit(random);
        for (size_t i = 0; i < rows * graph.ids(); ++i)
          memory.ids()[i] =
            static_cast<int32_t>(random() % graph.sample.vocabulary);
        for (size_t i = 0; i < rows * graph.labels(); ++i)
          memory.labels()[i] = static_cast<int32_t>(random() % graph.classes());
        const auto batch = memory.batch(rows, 7 + rows);
        std::vector<float> gradient(layout.total, 0.0f);
        const auto stats = whole->gradient(parameters.data(), batch,
                                           gradient.data());
        for (auto& group : all)
          group.check(parameters, batch, gradient, stats);
      }
    }
}

BOOST_AUTO_TEST_CASE(a_member_has_its_share_of_memory) {
  SampleShape text;
  text.vocabulary = 19;
  text.label = LabelKind::tokens;
  const auto graph =
    cut_into_slices(make_graph("transformer:L2-H4-D64-T16", text), 4);
  const auto bytes = [&](uint32_t members) {
    return make_tensor_replica(tensor_part(graph, {0, 4 / members}), {}, 4,
                               Precision::float32)
      ->memory_bytes();
  };
  BOOST_TEST(bytes(2) < 3 * bytes(1) / 4);
  BOOST_TEST(bytes(4) < bytes(2));
}

BOOST_AUTO_TEST_CASE(slices_are_refused_where_nobody_computes_them) {
  const auto graph = cut_into_slices(make_graph("mlp:20-24-17-16-5"), 2);
  DeviceId gpu;
  gpu.kind = DeviceId::Kind::cuda;
  BOOST_CHECK_THROW(make_tensor_replica(tensor_part(graph, {0, 1}), gpu, 4,
                                        Precision::float32),
                    InputError);
}

BOOST_AUTO_TEST_SUITE_END()
