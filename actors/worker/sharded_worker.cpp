#include "actors/worker/sharded_worker.hpp"

#include "actors/compute/sharded_passes.hpp"
#include "actors/job/sharded_parts.hpp"
#include "actors/wire/sole_owner.hpp"
#include "actors/worker/worker_base.hpp"
#include "strategies/sharded_course.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

namespace troupe {
namespace {

/// A gradient's memory is free when its owners have taken it, which nobody
/// tells.
constexpr std::chrono::microseconds gradient_look_period{500};

/// Does what the course says (strategies/sharded_course.hpp).
class ShardedWorkerState : WorkerBase {
public:
  static inline const char* name = "sharded-worker";

  ShardedWorkerState(worker_actor::pointer self, RoleContext context)
    : WorkerBase(self, std::move(context)),
      passes_(job_, context_.data.train,
              parse_device(job_.device_of(context_.role))),
      keeps_(job_.options.cut.sharding != Sharding::parameters),
      course_(nodes_, {passes_.parts(), sharded_window, keeps_}),
      parts_(passes_.parts()),
      parts_of_slice_(job_.plan.slices.size()) {
    for (uint32_t i = 0; i < parts_.size(); ++i)
      add_part(i);
  }

  /// The executor's task uses what is destroyed after it.
  ~ShardedWorkerState() { executor_.reset(); }

  worker_actor::behavior_type make_behavior() {
    return behavior([this](const auto& x) { on(x); });
  }

private:
  /// What is here of a part.
  struct Part {
    std::vector<uint32_t> slices; ///< whose parameters it uses
    std::vector<uint32_t> kept;   ///< whose gradients are complete behind it
    std::shared_ptr<Buffer> parameters;
    std::vector<uint32_t> missing; ///< slices, while they are gathered
  };

  void add_part(uint32_t index) {
    const auto& of = passes_.part(index);
    const auto has = [](const std::vector<uint32_t>& all, uint32_t variable) {
      return std::ranges::find(all, variable) != all.end();
    };
    for (const auto& slice : job_.plan.slices) {
      if (has(of.parameters, slice.variable)) {
        parts_[index].slices.push_back(slice.id);
        parts_of_slice_[slice.id].push_back(index);
      }
      if (has(of.kept, slice.variable))
        parts_[index].kept.push_back(slice.id);
    }
    max_part_ = std::max(max_part_, passes_.layout(index).total);
  }

  /// Where a slice lies in a part's parameters, or their gradient.
  uint64_t place(uint32_t part, uint32_t slice) const {
    const auto& of = job_.plan.slices[slice];
    return passes_.layout(part).offsets[of.variable] + of.offset;
  }

  // --- epochs ---------------------------------------------------------------

  /// At once: it has nothing of the step that others could need, so that a leaf
  /// which is under way is computed by whoever is told to.
  void on(const Propose& proposal) {
    leave(proposal, [this] {
      course_.seal();
      for (auto& part : parts_)
        part.parameters.reset();
    });
  }

  void on(const Activate& activation) {
    enter(activation, [this](const Activate& x) { start_epoch(x); });
  }

  void start_epoch(const Activate& activation) {
    tails_ = tails_of(open(activation));
    begin_nodes(activation, activation.missing, job_.shares());
    perform(course_.begin_epoch(activation.version, job_.total_steps));
  }

  // --- what is to be done ---------------------------------------------------

  void perform(const ShardedCourse::Actions& actions) {
    for (const auto& action : actions)
      std::visit([this](const auto& x) { perform(x); }, action);
  }

  void perform(const ShardedCourse::NextStep&) {
    pushes_.begin_step();
    is_pushed_ = true;
  }

  void perform(const ShardedCourse::Drop& drop) {
    parts_[drop.part].parameters.reset();
  }

  /// Behind the actions of which it is one: a part without parameters is
  /// gathered at once.
  void perform(const ShardedCourse::Gather& gather) {
    auto& part = parts_[gather.part];
    part.parameters = memory_for(gather.part);
    part.missing = part.slices;
    begin_pull();
    for (auto slice : part.slices)
      self_->send(shards_.at<shard_actor>(tails_[slice]),
                  Pull{gate_.active(), context_.role, gather.version, slice});
    if (part.slices.empty())
      self_->send(
        self_, Completion{[this, fence = gate_.active(), part = gather.part] {
          if (gate_.is_active(fence) && course_.awaits(part))
            perform(course_.gathered(part));
        }});
  }

  /// Where parts stay, each has memory of its own size; else any part's does.
  std::shared_ptr<Buffer> memory_for(uint32_t part) {
    const auto total = std::max<uint64_t>(1, passes_.layout(part).total);
    const auto size = keeps_ ? total : max_part_;
    for (const auto& one : memory_)
      if (one->size() == size && sole_owner(one))
        return one;
    memory_.push_back(std::make_shared<Buffer>(size));
    memory_.back()->fill(0);
    return memory_.back();
  }

  void on(const Pulled& message) {
    if (!gate_.is_active(message.fence)
        || message.slice >= parts_of_slice_.size()
        || message.version != course_.version()
        || message.values.size() != job_.plan.slices[message.slice].count)
      return;
    metrics_.pulled.add(static_cast<double>(message.values.bytes()));
    context_.faults->pass(StepPhase::pull);
    for (auto index : parts_of_slice_[message.slice])
      take(index, message);
  }

  void take(uint32_t index, const Pulled& message) {
    auto& part = parts_[index];
    if (!course_.awaits(index) || std::erase(part.missing, message.slice) == 0)
      return;
    std::copy_n(message.values.data(), message.values.size(),
                part.parameters->data() + place(index, message.slice));
    if (!part.missing.empty())
      return;
    end_pull();
    if (std::exchange(is_pushed_, false))
      pushes_.arrived();
    perform(course_.gathered(index));
  }

  // --- a pass ---------------------------------------------------------------

  void perform(const ShardedCourse::Pass& pass) {
    std::shared_ptr<SumBuffer> gradient;
    if (!pass.forward) {
      gradient = free_gradient();
      if (!gradient)
        return try_again(pass);
    }
    context_.faults->pass(StepPhase::compute);
    run_on(
      *executor_, self_,
      [this, pass, parameters = parts_[pass.part].parameters,
       gradient]() mutable {
        Computed done;
        const auto begin = Clock::now();
        const SpanTimer timer{context_.flight.get(),
                              pass.forward ? Activity::forward
                                           : Activity::backward,
                              pass.step + 1, pass.rank};
        done.passed = slowed_([&] {
          return passes_.pass(pass, parameters->data(),
                              gradient ? gradient->data() : nullptr);
        });
        done.seconds = seconds_since(begin);
        record_wait(pass.step, begin, done.passed.data.wait);
        done.has_samples = passes_.has_samples(pass.step, pass.rank);
        parameters.reset(); // before anybody looks for free memory
        gradient.reset();
        return done;
      },
      [this, pass, gradient](const Computed& done) {
        if (course_.current(pass.turn))
          on_passed(pass, done, gradient);
      });
    metrics_.queue.set(static_cast<double>(executor_->queued()));
  }

  /// With which a pass began.
  void record_wait(uint64_t step, Clock::time_point begin,
                   double seconds) const {
    const auto end = begin
                     + std::chrono::duration_cast<Clock::duration>(
                       std::chrono::duration<double>{seconds});
    if (context_.flight && end - begin >= shortest_data_wait)
      context_.flight->record(Activity::data, begin, end, step + 1);
  }

  struct Computed {
    ShardedPasses::Passed passed;
    double seconds = 0;
    bool has_samples = true;
  };

  /// As many as are on their way at once: who computes faster than owners take
  /// it waits. Null: all are.
  std::shared_ptr<SumBuffer> free_gradient() {
    for (const auto& one : gradients_)
      if (sole_owner(one))
        return one;
    if (gradients_.size() >= sharded_window)
      return nullptr;
    // Sent and not lent: what is lent is given back with the next message from
    // who has it, and none may come before this is free.
    gradients_.push_back(std::make_shared<SumBuffer>(max_part_, nullptr));
    return gradients_.back();
  }

  void try_again(const ShardedCourse::Pass& pass) {
    Completion later{[this, pass] {
      if (course_.current(pass.turn))
        perform(pass);
    }};
    self_->delayed_send(self_, gradient_look_period, std::move(later));
  }

  void on_passed(const ShardedCourse::Pass& pass, const Computed& done,
                 const std::shared_ptr<SumBuffer>& gradient) {
    leaf_seconds_ += done.seconds;
    data_ += done.passed.data;
    if (!done.passed.finite) {
      compute_again(pass);
      return;
    }
    if (pass.forward && pass.part + 1 == parts_.size())
      loss_ = done.passed.loss;
    if (!pass.forward)
      push(pass, done.has_samples ? gradient : nullptr);
    if (!pass.forward && pass.part == 0)
      report_leaf(pass.step);
    perform(course_.passed());
  }

  /// `gradient` null: the rank has no samples.
  void push(const ShardedCourse::Pass& pass,
            const std::shared_ptr<SumBuffer>& gradient) {
    for (auto slice : parts_[pass.part].kept) {
      TensorView values;
      if (gradient)
        values = {gradient, gradient->data() + place(pass.part, slice),
                  job_.plan.slices[slice].count};
      pushes_.push_slice(self_, gate_.active(), pass.step,
                         {pass.rank, pass.rank + 1}, slice, std::move(values));
    }
  }

  /// Its loss is known to nobody else, and nothing of it is kept.
  void report_leaf(uint64_t step) {
    metrics_.computed(std::exchange(leaf_seconds_, 0), std::exchange(data_, {}),
                      course_.was_repeated());
    StepGradient done;
    done.step = step;
    done.leaves = {loss_};
    done.computed_twice = course_.was_repeated();
    report(done);
  }

  /// What was given away of the leaf is right, and owners drop it the second
  /// time; what is not finite twice is the model's fault, or the data's.
  void compute_again(const ShardedCourse::Pass& pass) {
    if (!course_.was_repeated()) {
      perform(course_.repeat());
      return;
    }
    const auto step = std::to_string(pass.step + 1);
    trouble(pass.forward
              ? "NaN loss at step " + step + " in virtual rank "
                  + std::to_string(pass.rank)
                  + ": lower --lr or look at the data"
              : "the gradient of step " + step
                  + " is not finite, computed twice: lower --lr or look at the "
                    "data");
  }

  // --- ending early ---------------------------------------------------------

  void on(const Pause&) {
    course_.pause();
    report_paused(course_.next_step());
  }

  void on(const EndAt& end) { perform(course_.end_at(end.step)); }

  void on(const SnapshotRequest&) {}
  void on(const LeaseGrant&) {}

  ShardedPasses passes_;
  const bool keeps_; ///< parts, until their step is over
  ShardedCourse course_;
  std::vector<Part> parts_;
  std::vector<std::vector<uint32_t>> parts_of_slice_;
  uint64_t max_part_ = 1;       ///< elements of the largest part
  std::vector<uint32_t> tails_; ///< by slice
  std::vector<std::shared_ptr<Buffer>> memory_; ///< of parts
  std::vector<std::shared_ptr<SumBuffer>> gradients_;
  bool is_pushed_ = false; ///< nothing of the version that this makes is here
  LeafLoss loss_;          ///< of the leaf in hand
  double leaf_seconds_ = 0;
  DataTime data_; ///< the part of it in which samples were awaited
};

} // namespace

worker_actor spawn_sharded_worker(caf::actor_system& system,
                                  RoleContext context) {
  return system.spawn<worker_actor::stateful_impl<ShardedWorkerState>>(
    std::move(context));
}

} // namespace troupe
