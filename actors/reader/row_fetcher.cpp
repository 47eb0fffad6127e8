#include "actors/reader/row_fetcher.hpp"

#include "actors/control/peer_directory.hpp"
#include "actors/process/steady_ms.hpp"
#include "actors/role/link_terms.hpp"
#include "kernels/base/error.hpp"
#include "kernels/data/row_supply.hpp"
#include "kernels/engine/parameter_gate.hpp"
#include "strategies/row_fetches.hpp"

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace troupe {
namespace {

constexpr std::chrono::milliseconds tick_period{50};
constexpr std::chrono::seconds link_deadline{5};
constexpr std::chrono::seconds answer_deadline{2};
/// Whoever waits is woken by the fetcher; this ends the wait without one.
constexpr std::chrono::seconds grace{5};

/// A batch: which samples, and what has come of their rows.
struct RowBatch {
  uint64_t number = 0;
  uint64_t data_epoch = 0;
  std::vector<uint64_t> samples;
  std::vector<float> words; ///< the fetcher's, until `here`
  bool here = false;
  std::string trouble; ///< why it will not come
};

/// What the executor says of a batch.
struct Wish {
  enum class Kind : uint8_t { expect, await, taken };
  Kind kind;
  std::shared_ptr<RowBatch> batch;
};

/// What the worker's executor and the fetcher share.
class BatchDesk {
public:
  using Key = std::pair<uint64_t, std::vector<uint64_t>>;

  /// The batch of these samples, and whether it is new.
  std::pair<std::shared_ptr<RowBatch>, bool>
  wish(const uint64_t* rows, uint32_t count, uint64_t data_epoch) {
    std::lock_guard lock{mutex_};
    Key key{data_epoch, {rows, rows + count}};
    auto& batch = batches_[key];
    if (batch)
      return {batch, false};
    batch = std::make_shared<RowBatch>();
    batch->number = ++last_;
    batch->data_epoch = data_epoch;
    batch->samples = std::move(key.second);
    return {batch, true};
  }
  void forget(const std::shared_ptr<RowBatch>& batch) {
    std::lock_guard lock{mutex_};
    const auto found = batches_.find({batch->data_epoch, batch->samples});
    if (found != batches_.end() && found->second == batch)
      batches_.erase(found);
  }
  bool is_here(const std::shared_ptr<RowBatch>& batch) const {
    std::lock_guard lock{mutex_};
    return batch->here;
  }
  /// Blocks. Errors: NoSamplesError with what is in the way; PassAbandoned
  /// while paused.
  void await(const std::shared_ptr<RowBatch>& batch,
             std::chrono::milliseconds deadline) {
    std::unique_lock lock{mutex_};
    const bool done = changed_.wait_for(lock, deadline, [&] {
      return batch->here || !batch->trouble.empty() || ended_ || paused_;
    });
    if (batch->here)
      return;
    if (paused_ && !ended_)
      throw PassAbandoned{};
    throw NoSamplesError(!batch->trouble.empty() ? batch->trouble
                         : done ? "the worker ends while it waits for samples"
                                : "no samples came in time");
  }
  void arrived(const std::shared_ptr<RowBatch>& batch) {
    std::lock_guard lock{mutex_};
    batch->here = true;
    changed_.notify_all();
  }
  void fails(const std::shared_ptr<RowBatch>& batch, const std::string& why) {
    std::lock_guard lock{mutex_};
    batch->trouble = why;
    changed_.notify_all();
  }
  void pause(bool on) {
    std::lock_guard lock{mutex_};
    paused_ = on;
    changed_.notify_all();
  }
  void end() {
    std::lock_guard lock{mutex_};
    ended_ = true;
    changed_.notify_all();
  }

  void say(Wish wish) {
    std::lock_guard lock{mutex_};
    wishes_.push_back(std::move(wish));
  }
  std::vector<Wish> take_wishes() {
    std::lock_guard lock{mutex_};
    return std::exchange(wishes_, {});
  }

private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::shared_ptr<RowBatch>> batches_;
  std::vector<Wish> wishes_; ///< that the fetcher has not heard of
  uint64_t last_ = 0;
  bool paused_ = false;
  bool ended_ = false;
};

RowFetches::Options fetch_options(const DataAccess& access) {
  RowFetches::Options options;
  if (access.memory > 0)
    options.window_bytes = access.memory;
  options.deadline_ms = uint64_t{1'000} * access.timeout_s;
  return options;
}

/// Carries out what RowFetches decides.
class RowFetcherState {
public:
  static inline const char* name = "row fetcher";

  RowFetcherState(row_fetcher_actor::pointer self, RoleContext context,
                  std::shared_ptr<MessageLinks> links,
                  std::shared_ptr<BatchDesk> desk)
    : self_(self),
      context_(std::move(context)),
      links_(std::move(links)),
      desk_(std::move(desk)),
      fetches_(fetch_options(context_.job->options.data_access)) {}

  row_fetcher_actor::behavior_type make_behavior() {
    self_->set_down_handler([this](const caf::down_msg& x) { on(x); });
    self_->set_error_handler([](caf::scheduled_actor*, caf::error&) {});
    self_->set_exit_handler(
      [this](const caf::exit_msg& x) { self_->quit(x.reason); });
    look_again();
    return {[this](const RowsServed& x) { on(x); },
            [](const Completion& x) { x.then(); },
            [this](caf::tick_atom) { hear(); }};
  }

private:
  struct LinkedReader {
    caf::strong_actor_ptr actor;
    std::string place; ///< where its links are met
  };
  struct Fetched {
    std::shared_ptr<RowBatch> batch;
    uint64_t request = 0; ///< the newest
    size_t words = 0;     ///< of its answer, that are here
  };

  void look_again() {
    self_->delayed_send(self_, tick_period, Completion{[this] {
                          perform(fetches_.tick(steady_ms()));
                          tell_waits();
                          look_again();
                        }});
  }

  /// To whoever reports it.
  void tell_waits() {
    auto late = fetches_.late(steady_ms());
    context_.awaited->set(
      {late.has_value(), late ? std::move(*late) : std::vector<RoleId>{}});
  }

  /// What the executor has said.
  void hear() {
    for (const auto& [kind, batch] : desk_->take_wishes()) {
      const auto number = batch->number;
      if (kind == Wish::Kind::taken) {
        forget(number);
        perform(fetches_.taken(number));
        continue;
      }
      batches_.emplace(number, Fetched{batch});
      perform(kind == Wish::Kind::expect
                ? fetches_.expect(number, bytes_of(*batch), steady_ms())
                : fetches_.await(number, bytes_of(*batch), steady_ms()));
    }
  }

  size_t words_of(const RowBatch& batch) const {
    return packed_words(context_.job->graph,
                        static_cast<uint32_t>(batch.samples.size()));
  }
  uint64_t bytes_of(const RowBatch& batch) const {
    return words_of(batch) * sizeof(float);
  }

  void forget(uint64_t number) {
    const auto found = batches_.find(number);
    if (found == batches_.end())
      return;
    requests_.erase(found->second.request);
    desk_->forget(found->second.batch);
    batches_.erase(found);
  }

  void on(const RowsServed& part) {
    const auto found = requests_.find(part.request);
    if (found == requests_.end() || part.fence.job != context_.job_id)
      return; // it was asked for again, or is not needed any more
    const auto number = found->second;
    auto& fetched = batches_.at(number);
    auto& words = fetched.batch->words;
    if (part.begin != fetched.words
        || part.values.size() > words.size() - fetched.words) {
      tell(context_, "a reader's answer is not what was asked for: dropped");
      return;
    }
    std::memcpy(words.data() + part.begin, part.values.data(),
                part.values.bytes());
    fetched.words += part.values.size();
    if (fetched.words < words.size())
      return;
    requests_.erase(found);
    fetches_.arrived(number, fetched.request);
    desk_->arrived(fetched.batch);
  }

  void on(const caf::down_msg& down) {
    for (auto at = readers_.begin(); at != readers_.end(); ++at)
      if (caf::actor_cast<caf::actor_addr>(at->second.actor) == down.source) {
        const auto reader = at->first;
        readers_.erase(at);
        perform(fetches_.unlinked(reader, steady_ms()));
        return;
      }
  }

  // --- what RowFetches wants -------------------------------------------------

  void perform(const RowFetches::Actions& actions) {
    for (const auto& action : actions)
      std::visit([this](const auto& x) { perform(x); }, action);
  }

  void perform(const RowFetches::Ask& ask) {
    auto& fetched = batches_.at(ask.batch);
    requests_.erase(fetched.request);
    fetched.request = ask.request;
    fetched.words = 0;
    requests_[ask.request] = ask.batch;
    const auto& batch = fetched.batch;
    batch->words.resize(words_of(*batch));
    self_->send(caf::actor_cast<reader_actor>(readers_.at(ask.reader).actor),
                RowsWanted{fence(), context_.role, ask.request,
                           batch->data_epoch, samples_in(*batch)});
  }

  void perform(const RowFetches::Forget& forget) { this->forget(forget.batch); }

  void perform(const RowFetches::Tell& told) { tell(context_, told.line); }

  void perform(const RowFetches::GiveUp& given) {
    desk_->fails(batches_.at(given.batch).batch, given.reason);
    forget(given.batch);
  }

  void perform(const RowFetches::LookUp&) {
    self_
      ->request(context_.coordinator, answer_deadline,
                Hello{context_.role, message_revision, true})
      .then([this](const JobInfo& info) { heard(info); },
            [](const caf::error&) {}); // it is asked again
  }

  /// Who reads for this worker, and where.
  void heard(const JobInfo& info) {
    const auto own = met(info.readers);
    const auto others = met(info.other_readers);
    perform(fetches_.readers(own, others));
  }

  /// Notes where those readers are met; returns their names.
  std::vector<RoleId> met(const std::vector<LinkedRole>& readers) {
    std::vector<RoleId> names;
    for (const auto& [reader, place] : readers) {
      places_[reader] = place;
      names.push_back(reader);
      const auto known = readers_.find(reader);
      if (known != readers_.end() && known->second.place != place)
        let_go(known); // another process has its name
    }
    return names;
  }

  void let_go(std::map<RoleId, LinkedReader>::iterator known) {
    const auto reader = known->first;
    self_->demonitor(caf::actor_cast<caf::actor_addr>(known->second.actor));
    readers_.erase(known);
    perform(fetches_.unlinked(reader, steady_ms()));
  }

  void perform(const RowFetches::Link& link) {
    const auto reader = link.reader;
    const auto place = places_[reader];
    const auto name = local_name(context_.job_id, reader);
    if (place.empty() || !links_) {
      linked(reader, place,
             self_->system().registry().get<caf::strong_actor_ptr>(name),
             "it is not in this process");
      return;
    }
    MessageLinks::Request open;
    open.fence = fence();
    open.name = name;
    open.endpoint = place;
    open.from = to_string(context_.role);
    open.to = to_string(reader);
    open.terms = row_fetcher_terms();
    open.target = caf::actor_cast<caf::strong_actor_ptr>(self_);
    open.deadline = SteadyClock::now() + link_deadline;
    auto handle = caf::actor_cast<caf::actor>(self_);
    links_->connect(std::move(open), [this, handle, reader,
                                      place](const caf::strong_actor_ptr& peer,
                                             const std::string& error) {
      caf::anon_send(handle, Completion{[this, reader, place, peer, error] {
                       linked(reader, place, peer, error);
                     }});
    });
  }

  /// `peer` null: it was not, for what `error` says.
  void linked(RoleId reader, const std::string& place,
              const caf::strong_actor_ptr& peer, const std::string& error) {
    if (!peer) {
      perform(fetches_.unlinked(reader, steady_ms(), error));
      return;
    }
    readers_[reader] = {peer, place};
    self_->monitor(caf::actor_cast<caf::actor_addr>(peer));
    perform(fetches_.linked(reader));
  }

  Fence fence() const { return {context_.job_id, 0, 0}; }

  TensorView samples_in(const RowBatch& batch) const {
    auto words = std::make_shared<std::vector<float>>(
      pack_samples(batch.samples, context_.job->options.samples));
    const auto* first = words->data();
    const auto count = words->size();
    return {std::move(words), first, count};
  }

  row_fetcher_actor::pointer self_;
  RoleContext context_;
  std::shared_ptr<MessageLinks> links_;
  std::shared_ptr<BatchDesk> desk_;
  RowFetches fetches_;
  std::map<uint64_t, Fetched> batches_;   ///< by number
  std::map<uint64_t, uint64_t> requests_; ///< request -> batch
  std::map<RoleId, std::string> places_;  ///< where its links are met
  std::map<RoleId, LinkedReader> readers_;
};

/// Gives the executor what the fetcher fetches.
class FetchedRows : public RowSupply {
public:
  FetchedRows(caf::actor_system& system, RoleContext context,
              const std::shared_ptr<MessageLinks>& links)
    : job_(context.job), desk_(std::make_shared<BatchDesk>()) {
    context.data = {};
    fetcher_ = system.spawn<row_fetcher_actor::stateful_impl<RowFetcherState>>(
      std::move(context), links, desk_);
  }
  ~FetchedRows() override {
    caf::anon_send_exit(fetcher_, caf::exit_reason::user_shutdown);
  }
  FetchedRows(const FetchedRows&) = delete;
  FetchedRows& operator=(const FetchedRows&) = delete;

  void expect(const uint64_t* rows, uint32_t count,
              const DataPass& pass) const override {
    if (count == 0) // a virtual rank that has no samples in that step
      return;
    if (const auto [batch, fresh] = desk_->wish(rows, count, pass.data_epoch);
        fresh)
      say(Wish::Kind::expect, batch);
  }

  void gather(const uint64_t* rows, uint32_t count, BatchMemory& out,
              const DataPass& pass) const override {
    const auto batch = desk_->wish(rows, count, pass.data_epoch).first;
    if (!desk_->is_here(batch))
      say(Wish::Kind::await, batch);
    const std::chrono::seconds given{job_->options.data_access.timeout_s};
    desk_->await(batch, given + grace);
    unpack_rows(job_->graph, batch->words.data(), count, out);
    desk_->forget(batch);
    say(Wish::Kind::taken, batch);
  }

  void pause(bool on) const override { desk_->pause(on); }
  void end() const override { desk_->end(); }

private:
  void say(Wish::Kind kind, std::shared_ptr<RowBatch> batch) const {
    desk_->say({kind, std::move(batch)});
    caf::anon_send(fetcher_, caf::tick_atom_v);
  }

  std::shared_ptr<const Job> job_;
  std::shared_ptr<BatchDesk> desk_;
  row_fetcher_actor fetcher_;
};

} // namespace

std::shared_ptr<const Dataset>
samples_of_readers(caf::actor_system& system, const RoleContext& context,
                   const std::shared_ptr<MessageLinks>& links) {
  const auto& options = context.job->options;
  return std::make_shared<const Dataset>(
    supplied_samples(options.sample, options.samples,
                     std::make_shared<FetchedRows>(system, context, links)));
}

} // namespace troupe
