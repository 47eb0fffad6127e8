#pragma once

#include "actors/control/peer_directory.hpp"
#include "actors/role/context.hpp"
#include "actors/role/epoch_gate.hpp"
#include "actors/role/kept_reports.hpp"
#include "actors/role/snapshot_outbox.hpp"
#include "actors/stage/inbox.hpp"
#include "actors/stage/peer_copies.hpp"
#include "actors/stage/peers.hpp"
#include "actors/stage/scalar_rounds.hpp"
#include "actors/stage/split_steps.hpp"
#include "actors/stage/stage_shards.hpp"
#include "kernels/base/steady_clock.hpp"
#include "strategies/mesh.hpp"
#include "strategies/stage_course.hpp"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// What roles of a split model do alike, stages and tensor members: the way
/// into an epoch and out of it, copies for who has lost its memory, the sum of
/// gradients with peers, rounds of scalars, the update, the end of a step,
/// snapshots; or, where shards keep what it computes with, pulls and pushes.
/// StageCourse says what is due; it is done once what it needs of
/// others has come. The passes of a step, and what crosses between them, are
/// each one's own.
class SplitRole {
public:
  virtual ~SplitRole() = default;
  SplitRole(const SplitRole&) = delete;
  SplitRole& operator=(const SplitRole&) = delete;

  stage_actor::behavior_type make_behavior();

protected:
  using Clock = SteadyClock;

  SplitRole(stage_actor::pointer self, const RoleContext& context);

  /// Who has its passes and slices; once, before anything comes.
  void take_steps(SplitSteps& steps);
  /// Waits for the task that is on the executor, and takes no other. For the
  /// destructor of who has what tasks use.
  void end_tasks() { executor_.reset(); }

  /// Runs `work`, which is due, on the executor, then `then(result)` if the
  /// epoch lasts.
  template <class Work, class Then>
  void run(Work work, Then then) {
    run_on(*executor_, self_, std::move(work),
           [this, fence = gate_.active(),
            then = std::move(then)](auto& result) {
             if (!gate_.is_active(fence))
               return;
             then(result);
             go_on();
           });
  }
  /// Does what is due, if it can be done.
  void go_on();
  /// What came of the step in hand; nothing yet: go_on() asks again.
  std::optional<TensorView> came(StageStream stream, uint32_t number) {
    return inbox_.take(course_.version(), stream, number);
  }
  /// To a role that this one is linked to, of the step in hand.
  /// `begin`: elements of the crossing that were sent before.
  void send(uint32_t peer, StageStream stream, uint32_t number,
            const TensorView& values, uint64_t begin = 0);

  /// Its place in its pipeline or group, who together have all slices once:
  /// they take rounds of scalars together, and the last one reports the losses.
  uint32_t place() const { return context_.role.index % mesh_.each(); }
  bool is_first() const { return place() == 0; }
  bool is_last() const { return place() + 1 == mesh_.each(); }
  /// Whether shards keep what it computes with.
  bool is_served() const { return job_.plan.served.has_value(); }
  uint32_t ranks() const { return job_.options.virtual_ranks; }
  uint32_t rows_of(uint64_t step, uint32_t rank) const {
    return job_.sampling.rank(step, rank).count;
  }

  stage_actor::pointer self_;
  RoleContext context_;
  const Job& job_;
  Mesh mesh_;
  uint32_t pipeline_; ///< of which it is one; or its group
  EpochGate gate_;
  StageInbox inbox_;
  StageCourse course_;
  std::vector<LeafLoss> losses_; ///< of the step in hand
  std::shared_ptr<Executor> executor_;

private:
  // --- what is each one's own -----------------------------------------------

  /// Whether the ends of a pipeline are linked.
  virtual bool goes_round() const { return false; }
  /// What of an epoch's copies it gives, and awaits.
  virtual Copies copies_of(const Activate& activation) const = 0;
  /// Elements of a crossing of passes; nothing where there is none of that
  /// number.
  virtual std::optional<uint64_t> elements_of(const StageValues&) const = 0;
  /// A step begins: its passes. Losses of ranks without samples are known.
  virtual std::vector<StageAction> passes_of(uint64_t step) = 0;
  /// Takes the pass that is due, if what it needs is there.
  virtual void pass_if_there(const StageAction& action) = 0;

  // --- what is alike --------------------------------------------------------

  template <class Message>
  void when_active(const Message& message) {
    gate_.admit(message.fence, [this, message] { on(message); });
  }
  void on(const Propose& proposal);
  void on(const Activate& activation);
  bool needs_link_to(const Member& member) const;
  void connect_shards(const Activate& activation);
  void keep_links_to(const Activate& activation);
  void enter(const Activate& activation);
  std::string go_to(const Activate& activation);

  bool is_whole() const { return missing_.empty(); }
  void give_copies(const Copies& copies);
  void install_if_there();
  void take_part();

  void on(const StageValues& values);
  void on(const Pulled& message);
  void refuse_what_came();
  std::optional<uint64_t> total_of(const StageValues& values) const;

  void do_what_is_due();
  void book_wait();
  void end_wait();

  void begin_step();
  void begin_if_pulled();
  void push();
  bool has_sound_losses();
  void give();
  void add_if_there();
  void complete_if_there();
  bool have_come(StageStream stream, const std::vector<uint32_t>& numbers);
  void sum_if_there();
  void scale_if_there();
  void take_scalars(const TensorView& scalars);
  void update();
  void book_step();
  void report_losses();
  void finish_step();
  void fail(const std::string& trouble);
  void tell_trouble(const std::string& line);
  void tell_version();

  void show_if_wanted();
  void show(uint64_t version);
  void on(const SnapshotRequest& request);
  void on(const Pause&);
  void on(const EndAt& end);

  Histogram& compute_;
  Histogram& receive_wait_;
  PeerDirectory links_; ///< the roles that it is linked to
  SnapshotOutbox outbox_;
  KeptReports reports_;
  StageScalars scalars_;
  SplitSteps* steps_ = nullptr;
  std::optional<StageShards> shards_; ///< where they keep its parameters
  std::optional<StagePeers> peers_;   ///< those that hold the same
  PeerValues came_;                   ///< from them, until all have
  std::set<uint32_t> missing_;        ///< slices that a copy is awaited of
  uint64_t wanted_ = ~uint64_t{0};    ///< a version to show
  Clock::time_point began_;
  Clock::time_point summing_;
  std::optional<Clock::time_point> waiting_; ///< since when, for what comes
  bool waits_for_peers_ = false; ///< for what they have of the gradient
  Clock::duration waited_{};     ///< of the step, so far
};

} // namespace troupe
