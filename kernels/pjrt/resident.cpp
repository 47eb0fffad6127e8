#include "kernels/base/buffer.hpp"
#include "kernels/base/require.hpp"
#include "kernels/collective/sum_program.hpp"
#include "kernels/cpu/vector_loops.hpp"
#include "kernels/pjrt/passes.hpp"
#include "kernels/pjrt/replica.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::kernels {

namespace {

using pjrt::Arguments;
using pjrt::DeviceTensors;
using pjrt::Passes;

/// All of a step on the devices, in four programs: gradient, sum of two, sum of
/// what the devices have, and update. What is asked for in all places, one
/// after another, runs as replicas of one program. Sums of two and updates give
/// the memory of what they change to what takes its place.
class PjrtResidentReplica final : public ResidentReplica {
public:
  PjrtResidentReplica(const Graph& graph, DeviceId device,
                      const OptimizerOptions& rule, uint32_t max_rows,
                      Precision precision)
    : passes_(graph, device, precision),
      max_rows_(max_rows),
      rule_(rule),
      places_(passes_.places()),
      addition_(stablehlo::addition_program(graph)) {}

  uint32_t places() const override { return passes_.places(); }

  void write(const float* parameters, const float* state,
             uint64_t stride) override {
    forget_gradients();
    for (auto& place : places_) { // they may have no room for both
      place.parameters.clear();
      place.state.clear();
    }
    for (uint32_t i = 0; i < places(); ++i) {
      auto& place = places_[i];
      place.parameters = passes_.upload(parameters, i);
      for (uint32_t slot = 0; slot < state_slots(rule_.kind); ++slot)
        place.state.push_back(passes_.upload(state + slot * stride, i));
    }
  }

  void read(float* parameters, float* state, uint64_t stride) override {
    const auto& place = places_.front();
    passes_.download(place.parameters, parameters);
    for (uint32_t i = 1; i < places(); ++i) // all made the same updates
      passes_.check_equal(places_[i].parameters, i, parameters, "variable");
    for (size_t slot = 0; slot < place.state.size(); ++slot)
      passes_.download(place.state[slot], state + slot * stride);
  }

  void forget_gradients() override {
    pushes_.clear();
    additions_.clear();
    unread_.clear();
    for (auto& place : places_)
      place.gradients.clear();
  }

  void push_gradient(const Batch& batch, uint32_t place) override {
    require(batch.rows > 0 && batch.rows <= max_rows_,
            "rows of a batch outside [1, max_rows]");
    const bool fits = std::ranges::all_of(pushes_, [&](const auto& other) {
      return other.place < place && other.rows == batch.rows;
    });
    if (!fits || !additions_.empty())
      begin_all();
    pushes_.push_back(passes_.send_for_gradient(batch, place));
    if (pushes_.size() == places())
      begin_all();
  }

  LeafStats next_stats() override {
    begin_all();
    require(!unread_.empty(), "a gradient that was begun");
    const auto stats = passes_.stats_of(unread_.front());
    unread_.pop_front();
    return stats;
  }

  void add_gradients(uint32_t place) override {
    if (!pushes_.empty() || (!additions_.empty() && additions_.back() >= place))
      begin_all();
    additions_.push_back(place);
    if (additions_.size() == places())
      begin_all();
  }

  void sum_places(const SumProgram& order, bool any_order) override {
    begin_all();
    if (places() == 1)
      return;
    size_t vectors = 1;
    for (const auto& place : places_)
      vectors = std::max(vectors, place.gradients.size());
    require(!any_order || vectors == 1, "a gradient of each device");
    std::vector<Arguments> arguments(places());
    for (uint32_t i = 0; i < places(); ++i) {
      const auto& gradients = places_[i].gradients;
      for (const auto& gradient : gradients)
        add(arguments[i], gradient);
      for (auto k = gradients.size(); k < vectors; ++k)
        add(arguments[i], zeros(i));
    }
    auto sums = passes_.run(sum_of(order, vectors, any_order), all_places(),
                            arguments);
    for (uint32_t i = 0; i < places(); ++i) {
      places_[i].gradients.clear();
      places_[i].gradients.push_back(std::move(sums[i]));
    }
  }

  bool pop_gradient(float* to) override {
    begin_all();
    passes_.download(places_.front().gradients.back(), to);
    for (auto& place : places_)
      place.gradients.pop_back();
    for (size_t i = 0; i < passes_.graph().parameters.size(); ++i)
      if (!all_finite(to + passes_.layout().offsets[i],
                      passes_.graph().parameters[i].size()))
        return false;
    return true;
  }

  void push_sum(const float* from) override {
    begin_all();
    for (uint32_t i = 0; i < places(); ++i)
      places_[i].gradients.push_back(passes_.upload(from, i));
  }

  bool update(const Update& update) override {
    begin_all();
    const auto numbers =
      stablehlo::update_numbers(rule_, update.number, update.learning_rate,
                                update.samples, update.clip_norm);
    DeviceTensors sent;
    std::vector<Arguments> arguments(places());
    for (uint32_t i = 0; i < places(); ++i) {
      const auto& place = places_[i];
      require(place.gradients.size() == 1, "an update by one gradient");
      sent.push_back(
        passes_.upload(&numbers, {{stablehlo::update_number_count}}, i));
      add(arguments[i], place.parameters);
      for (const auto& slot : place.state)
        add(arguments[i], slot);
      add(arguments[i], place.gradients.front());
    }
    for (uint32_t i = 0; i < places(); ++i)
      arguments[i].push_back(&sent[i]);
    auto results =
      passes_.run(update_by({update.clip_norm > 0, update.lazy_tables}),
                  all_places(), arguments);
    for (uint32_t i = 0; i < places(); ++i)
      take(places_[i], results[i]);
    // How many are not finite of the sum, which all devices have.
    return passes_.download(results.front().back()) == 0;
  }

private:
  struct Place {
    DeviceTensors parameters;
    std::vector<DeviceTensors> state;
    std::vector<DeviceTensors> gradients; ///< of the step in hand
  };

  std::vector<uint32_t> all_places() const {
    std::vector<uint32_t> all(places());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  /// Begins what was asked for: passes, or sums of two.
  void begin_all() {
    std::vector<const DeviceTensors*> parameters;
    for (const auto& batch : pushes_)
      parameters.push_back(&places_[batch.place].parameters);
    if (!pushes_.empty()) {
      auto begun = passes_.gradients(pushes_, parameters);
      for (size_t i = 0; i < begun.size(); ++i) {
        places_[pushes_[i].place].gradients.push_back(
          std::move(begun[i].tensors));
        unread_.push_back(std::move(begun[i]));
      }
      pushes_.clear();
    }
    if (additions_.empty())
      return;
    std::vector<Arguments> arguments;
    for (auto i : additions_) {
      const auto& gradients = places_[i].gradients;
      require(gradients.size() >= 2, "two gradients to add");
      add(arguments.emplace_back(), *(gradients.end() - 2));
      add(arguments.back(), gradients.back());
    }
    auto sums = passes_.run(addition_, additions_, arguments);
    for (size_t i = 0; i < sums.size(); ++i) {
      auto& gradients = places_[additions_[i]].gradients;
      gradients.pop_back();
      gradients.back() = std::move(sums[i]);
    }
    additions_.clear();
  }

  static void take(Place& place, DeviceTensors& results) {
    auto from = results.begin();
    const auto replace = [&](DeviceTensors& tensors) {
      for (auto& tensor : tensors)
        tensor = std::move(*from++);
    };
    replace(place.parameters);
    for (auto& slot : place.state)
      replace(slot);
    place.gradients.clear();
  }

  /// What a device brings that has fewer gradients than others.
  const DeviceTensors& zeros(uint32_t place) {
    auto& kept = zeros_[place];
    if (kept.empty()) {
      Buffer none{passes_.layout().total};
      none.fill(0);
      kept = passes_.upload(none.data(), place);
    }
    return kept;
  }

  Passes::Everywhere& sum_of(const SumProgram& order, size_t vectors,
                             bool any_order) {
    if (any_order) {
      if (!any_order_sum_)
        any_order_sum_.emplace(
          stablehlo::any_order_sum_program(passes_.graph(), places()));
      return *any_order_sum_;
    }
    // Others than a run's first are of batches that are not full.
    auto& kept = sums_[hash_of(order)];
    if (!kept)
      kept = std::make_unique<Passes::Everywhere>(stablehlo::sum_program(
        passes_.graph(), places(), static_cast<uint32_t>(vectors), order));
    return *kept;
  }

  Passes::Everywhere& update_by(stablehlo::UpdateShape shape) {
    auto& kept = updates_[shape.clips][shape.lazy_tables];
    if (!kept)
      kept.emplace(stablehlo::update_program(passes_.graph(), rule_, shape));
    return *kept;
  }

  Passes passes_;
  uint32_t max_rows_;
  OptimizerOptions rule_;
  std::vector<Place> places_;
  std::vector<Passes::Sent> pushes_;    ///< asked for, in order of their places
  std::vector<uint32_t> additions_;     ///< the same
  std::deque<Passes::Gradient> unread_; ///< whose stats nobody has asked for
  std::map<uint32_t, DeviceTensors> zeros_;
  Passes::Everywhere addition_;
  std::optional<Passes::Everywhere> any_order_sum_;
  std::map<uint64_t, std::unique_ptr<Passes::Everywhere>> sums_; ///< by hash
  std::optional<Passes::Everywhere> updates_[2][2];
};

} // namespace

std::unique_ptr<ResidentReplica>
make_pjrt_resident_replica(const Graph& graph, DeviceId device,
                           const OptimizerOptions& rule, uint32_t max_rows,
                           Precision precision) {
  return std::make_unique<PjrtResidentReplica>(graph, device, rule, max_rows,
                                               precision);
}

} // namespace troupe::kernels
