#include "actors/coordinator/evaluator.hpp"

#include "actors/compute/leaf_computer.hpp"
#include "actors/job/shard_tables.hpp"
#include "actors/job/trained_model.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/error.hpp"

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

/// As planned, where this process sees it.
DeviceId evaluation_device(const Job& job) {
  const auto device =
    parse_device(job.plan.role({RoleKind::evaluator, 0}).device);
  const bool absent = device.kind == DeviceId::Kind::cuda
                      && device.index >= cuda_device_count();
  return absent ? DeviceId{} : device;
}

class EvaluatorState {
public:
  static inline const char* name = "evaluator";

  EvaluatorState(evaluator_actor::pointer self, RoleContext context,
                 RowsKnown known)
    : self_(self),
      context_(std::move(context)),
      job_(*context_.job),
      known_(std::move(known)),
      device_(evaluation_device(job_)),
      executor_(std::make_shared<Executor>("evaluator", 1)) {
    if (job_.tables.empty())
      model_ = std::make_unique<const Model>(job_.graph);
  }

  ~EvaluatorState() {
    executor_.reset(); // its task reads what is destroyed below
  }

  evaluator_actor::behavior_type make_behavior() {
    guard_role(self_, context_.coordinator);
    if (!model_)
      run(
        [this] {
          return std::make_shared<const EvaluatedRows>(job_,
                                                       *context_.data.eval);
        },
        [this](std::shared_ptr<const EvaluatedRows>& rows) { on(rows); });
    return {
      [this](const Evaluate& x) { on(x); },
      [this](const Finish& x) {
        if (x.job == context_.job_id)
          self_->quit();
      },
      [](const Completion& x) { x.then(); },
    };
  }

private:
  /// With tables that have the evaluated rows alone.
  struct Model {
    explicit Model(Graph own) : graph(std::move(own)), layout(graph) {}
    Graph graph;
    Layout layout;
  };
  struct Partial {
    std::shared_ptr<Buffer> parameters;
    uint32_t arrived = 0;
  };

  /// Runs work on the executor, then `then(result)` here.
  template <class Work, class Then>
  void run(Work work, Then then) {
    struct Outcome {
      std::optional<decltype(work())> result;
      std::string trouble;
    };
    run_on(
      *executor_, self_,
      [work = std::move(work)]() -> Outcome {
        try {
          return {work(), {}};
        } catch (const InputError& failure) {
          return {std::nullopt, failure.what()};
        }
      },
      [this, then = std::move(then)](Outcome& done) {
        if (done.result)
          then(*done.result);
        else
          self_->send(context_.coordinator, GiveUp{done.trouble});
      });
  }

  void on(const std::shared_ptr<const EvaluatedRows>& rows) {
    rows_ = rows;
    model_ = std::make_unique<const Model>(rows_->graph());
    known_(rows_);
    for (const auto& part : std::exchange(early_, {}))
      on(part);
  }

  std::shared_ptr<Buffer> fresh_parameters() const {
    auto parameters = std::make_shared<Buffer>(model_->layout.total);
    parameters->fill(0);
    for (auto table : job_.tables) // rows that nobody has touched
      rows_->initialise(table,
                        parameters->data() + model_->layout.offsets[table]);
    return parameters;
  }

  void put(const Evaluate& part, float* parameters) const {
    const auto& slice = job_.plan.slices[part.slice];
    auto* to = parameters + model_->layout.offsets[slice.variable]
               + slice.offset;
    if (slice.sparse())
      rows_->put(slice, part.values, to);
    else if (part.values.size() == slice.count)
      std::memcpy(to, part.values.data(), slice.count * sizeof(float));
  }

  void on(const Evaluate& part) {
    if (part.job != context_.job_id || part.slice >= job_.plan.slices.size()
        || !fits(job_, part.slice, part.values))
      return;
    if (!model_) {
      early_.push_back(part);
      return;
    }
    auto& partial = partial_[part.version];
    if (!partial.parameters)
      partial.parameters = fresh_parameters();
    put(part, partial.parameters->data());
    if (++partial.arrived < part.slices)
      return;
    auto parameters = partial.parameters;
    partial_.erase(part.version);
    run(
      [this, &executor = *executor_, parameters, version = part.version] {
        Renumber renumber;
        if (rows_)
          renumber = [this](int32_t* ids, size_t count) {
            rows_->renumber(ids, count);
          };
        auto scores = score_on(executor, model_->graph, parameters->data(),
                               *context_.data.eval, device_, renumber);
        return Evaluation{context_.job_id, version, scores.samples,
                          std::move(scores.measures)};
      },
      [this](Evaluation& result) {
        self_->send(context_.coordinator, result);
      });
  }

  evaluator_actor::pointer self_;
  RoleContext context_;
  const Job& job_;
  RowsKnown known_;
  std::shared_ptr<const EvaluatedRows> rows_; ///< null: not yet, or no tables
  std::unique_ptr<const Model> model_;        ///< null: not yet
  std::vector<Evaluate> early_;               ///< that came before
  DeviceId device_;
  std::map<uint64_t, Partial> partial_;
  std::shared_ptr<Executor> executor_;
};

} // namespace

evaluator_actor spawn_evaluator(caf::actor_system& system, RoleContext context,
                                RowsKnown known) {
  return system.spawn<evaluator_actor::stateful_impl<EvaluatorState>>(
    std::move(context), std::move(known));
}

} // namespace troupe
