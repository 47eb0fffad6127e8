#include "actors/collectives/stream_reducer.hpp"

#include "actors/collectives/confirmation.hpp"
#include "actors/collectives/direct_exchange.hpp"
#include "actors/collectives/schedule_run.hpp"
#include "actors/collectives/stream_choice.hpp"
#include "actors/collectives/stream_party.hpp"
#include "kernels/base/require.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/collective/sum_loops.hpp"
#include "kernels/collective/sum_program.hpp"
#include "strategies/collective_schedule.hpp"

#include <algorithm>
#include <thread>

namespace troupe {

namespace {

using Clock = SteadyClock;

/// finish() asks its sockets so long after anything moved, then sleeps.
constexpr std::chrono::microseconds longest_turning{60};

FrameHeader fence_of(const StreamOptions& options) {
  FrameHeader fence;
  fence.job = options.job;
  fence.term = options.term;
  fence.epoch = options.epoch;
  fence.group = options.group;
  return fence;
}

/// More members than cores: who turns takes a core from who would send to it.
/// 256 KiB among four on two cores: 335 us without turning, 509 with 60 us.
std::chrono::microseconds turning_of(const StreamOptions& options,
                                     const ReducerLayout& layout) {
  size_t neighbours = layout.members;
  for (const auto& host : options.hosts)
    if (std::find(host.begin(), host.end(), layout.rank) != host.end())
      neighbours = host.size();
  return neighbours > std::thread::hardware_concurrency()
           ? std::chrono::microseconds{0}
           : longest_turning;
}

/// Steps of the raw collectives are counted from here, out of training's way.
constexpr uint64_t first_raw_step = uint64_t{1} << 63;

} // namespace

class StreamReducer::State {
public:
  State(ReducerLayout layout, std::vector<std::unique_ptr<LinkSocket>> sockets,
        StreamOptions options);

  void start(ReduceStep step);
  void ready(uint32_t bucket);
  void progress();
  CollectiveResult finish(Deadline deadline);
  CollectiveResult all_reduce(float* data, size_t count, Deadline deadline);
  CollectiveResult scheduled(Schedule schedule, float* data, uint64_t what,
                             size_t count, Deadline deadline);
  void set_buckets(std::vector<std::pair<uint64_t, uint64_t>> buckets,
                   uint64_t hash) {
    layout_.buckets = std::move(buckets);
    layout_.hash = hash;
  }
  CollectivePlace place(uint64_t count) const {
    return {layout_.rank, layout_.members, count};
  }

  ReducerLayout layout_;
  StreamOptions options_;
  bool any_chunk_; ///< nobody asked for a length
  std::unique_ptr<Compressor> codec_;
  StreamParty party_;
  std::chrono::microseconds turning_;
  bool whole_ = false;

private:
  bool by_program() const {
    return options_.algorithm == StreamAlgorithm::reproducible;
  }
  void sum_own(uint32_t bucket);
  void start_direct(ReduceStep step);
  void start_schedules();
  RunGrid grid_of(std::vector<std::pair<uint64_t, uint64_t>> buckets,
                  bool everyone) const;
  CollectiveResult drive(StreamWork& work, Deadline deadline);
  void begin(ReduceStep step);
  void use(std::vector<std::pair<uint64_t, uint64_t>> buckets);

  std::vector<std::pair<uint64_t, uint64_t>> buckets_; ///< those under way
  Buffer residual_;
  std::unique_ptr<DirectExchange> exchange_; ///< kept from step to step
  std::unique_ptr<ScheduleRun> schedules_;
  StreamWork* work_ = nullptr;
  ReduceStep step_;
  std::vector<const float*> own_terms_;
  std::vector<uint32_t> own_merges_;
  float* own_home_ = nullptr; ///< where own addends are summed: fast only
  Buffer spare_;
  uint32_t readied_ = 0;
  uint64_t raw_calls_ = 0;
};

StreamReducer::State::State(ReducerLayout layout,
                            std::vector<std::unique_ptr<LinkSocket>> sockets,
                            StreamOptions options)
  : layout_(std::move(layout)),
    options_(std::move(options)),
    any_chunk_(options_.chunk_bytes == 0),
    codec_(make_compressor(options_.compression)),
    party_(std::move(sockets), layout_.rank, fence_of(options_)),
    turning_(turning_of(options_, layout_)) {
  kernels::require(party_.size() == layout_.members, "a socket for each peer");
  if (any_chunk_)
    options_.chunk_bytes = stream_chunk_bytes(layout_.members, layout_.buckets);
  kernels::require(!codec_ || !by_program(), "compression in reproducible");
  kernels::require(options_.chunk_bytes >= 4096
                     && options_.chunk_bytes <= max_frame_payload_bytes / 2,
                   "chunk_bytes");
}

RunGrid StreamReducer::State::grid_of(
  std::vector<std::pair<uint64_t, uint64_t>> buckets, bool everyone) const {
  RunGrid::Options options;
  options.members = layout_.members;
  options.everyone = everyone;
  options.unit = codec_ ? 512 : 16; // whole blocks of every format
  const auto bytes = any_chunk_ ? stream_chunk_bytes(layout_.members, buckets)
                                : options_.chunk_bytes;
  options.chunk = bytes / sizeof(float) / 512 * 512;
  return {std::move(buckets), options};
}

/// What was planned for other buckets is forgotten, residuals too.
void StreamReducer::State::use(
  std::vector<std::pair<uint64_t, uint64_t>> buckets) {
  if (buckets == buckets_)
    return;
  buckets_ = std::move(buckets);
  exchange_.reset();
  schedules_.reset();
}

void StreamReducer::State::start(ReduceStep step) {
  kernels::require(work_ == nullptr, "a step before the last one is finished");
  use(layout_.buckets);
  begin(std::move(step));
}

void StreamReducer::State::begin(ReduceStep step) {
  kernels::require(!step.results.empty(), "a step without results");
  party_.begin(step.step, stream_digest(options_, layout_, buckets_, step));
  whole_ = false;
  readied_ = 0;
  step_ = step;
  uint64_t elements = 0;
  for (auto [begin, end] : buckets_)
    elements = std::max(elements, end);
  if (!by_program()) {
    // Any order: own addends first, so that each member has one vector.
    own_merges_.clear();
    own_terms_.clear();
    for (const auto& term : step.program)
      if (term.member == layout_.rank) {
        own_terms_.push_back(step.vectors.at(term.vector));
        own_merges_.push_back(own_merges_.empty() ? 0 : 1);
      }
    if (step.update && step.vectors.empty() && spare_.size() < elements)
      spare_ = Buffer{elements};
    own_home_ = !step.update            ? step.results[0]
                : !step.vectors.empty() ? step.vectors[0]
                                        : spare_.data();
    step.program = fixed_tree(layout_.members);
    step.vectors = {own_home_};
  }
  if (sums_directly(options_, layout_.members, bytes_of(buckets_)))
    start_direct(std::move(step));
  else
    start_schedules();
}

void StreamReducer::State::start_direct(ReduceStep step) {
  if (!exchange_) {
    const auto everyone =
      !codec_ && sums_everywhere(layout_.members, bytes_of(buckets_));
    auto grid = grid_of(buckets_, everyone);
    if (codec_) {
      residual_ = Buffer{grid.elements()};
      residual_.fill(0);
    }
    exchange_ = std::make_unique<DirectExchange>(
      party_, std::move(grid), codec_.get(), residual_.data(),
      DirectExchange::Options{options_.share_update && !codec_, everyone,
                              on_one_host(options_)});
  }
  exchange_->start(std::move(step));
  work_ = exchange_.get();
}

void StreamReducer::State::start_schedules() {
  if (!schedules_) {
    std::vector<Schedule> schedules;
    for (auto [begin, end] : buckets_)
      schedules.push_back(
        moved_to(stream_schedule(options_, place(end - begin)), begin));
    schedules_ = std::make_unique<ScheduleRun>(
      party_, std::move(schedules), options_.chunk_bytes / sizeof(float));
  }
  schedules_->start(own_home_, [this](uint32_t bucket) {
    const auto [begin, end] = buckets_[bucket];
    if (step_.update && begin < end)
      step_.update(begin, end, own_home_ + begin);
  });
  work_ = schedules_.get();
}

/// Sums this member's addends of a bucket where the algorithm takes them.
void StreamReducer::State::sum_own(uint32_t bucket) {
  const auto [begin, end] = buckets_[bucket];
  if (own_terms_.empty())
    std::fill(own_home_ + begin, own_home_ + end, 0.0f);
  else if (own_terms_.size() > 1 || own_terms_[0] != own_home_)
    kernels::sum_loops().sum({own_terms_.data(), own_merges_.data(),
                              static_cast<uint32_t>(own_terms_.size())},
                             begin, end, &own_home_, 1);
}

void StreamReducer::State::ready(uint32_t bucket) {
  if (party_.failed())
    return;
  kernels::require(work_ && bucket == readied_ && bucket < buckets_.size(),
                   "buckets become ready in order, each once");
  if (!by_program())
    sum_own(readied_);
  ++readied_;
  work_->ready();
  work_->pump();
}

void StreamReducer::State::progress() {
  if (work_ && !party_.failed())
    work_->pump();
}

CollectiveResult StreamReducer::State::drive(StreamWork& work,
                                             Deadline deadline) {
  // abort() from elsewhere cuts the streams, which wakes a wait; where none is
  // waited for, it is noticed after the longest nap.
  constexpr std::chrono::milliseconds nap{100};
  auto last = Clock::now();
  while (!party_.failed() && !work.complete()) {
    const bool moved = work.pump();
    const auto now = Clock::now();
    if (now >= deadline && !work.complete())
      party_.fail(CollectiveEnd::late, "member " + std::to_string(layout_.rank)
                                         + " met the deadline first");
    else if (moved)
      last = now;
    else if (now - last >= turning_)
      party_.wait(std::min(
        nap, std::chrono::ceil<std::chrono::milliseconds>(deadline - now)));
    else
      // It does not pump(): recv() locks the socket against what arrives.
      party_.wait(std::chrono::milliseconds{0});
  }
  return party_.result();
}

CollectiveResult StreamReducer::State::finish(Deadline deadline) {
  kernels::require(work_ != nullptr, "a step that was not started");
  auto result = drive(*std::exchange(work_, nullptr), deadline);
  whole_ = result.end == CollectiveEnd::done;
  if (whole_ && options_.confirm) {
    Confirmation confirmation{party_};
    result = drive(confirmation, deadline);
  }
  return result;
}

CollectiveResult StreamReducer::State::all_reduce(float* data, size_t count,
                                                  Deadline deadline) {
  kernels::require(work_ == nullptr, "a call before the step is finished");
  use({{0, count}});
  begin({first_raw_step + raw_calls_++,
         fixed_tree(layout_.members),
         {data},
         {data},
         {}});
  ready(0);
  return finish(deadline);
}

CollectiveResult StreamReducer::State::scheduled(Schedule schedule, float* data,
                                                 uint64_t what, size_t count,
                                                 Deadline deadline) {
  kernels::require(work_ == nullptr, "a call before the step is finished");
  party_.begin(first_raw_step + raw_calls_++, call_digest(what, count));
  whole_ = false;
  std::vector<Schedule> schedules;
  schedules.push_back(std::move(schedule));
  ScheduleRun run{party_, std::move(schedules),
                  options_.chunk_bytes / sizeof(float)};
  run.start(data);
  run.ready();
  work_ = &run;
  return finish(deadline);
}

// --- the caller's side -------------------------------------------------------

StreamReducer::StreamReducer(ReducerLayout layout,
                             std::vector<std::unique_ptr<LinkSocket>> sockets,
                             StreamOptions options)
  : state_(std::make_unique<State>(std::move(layout), std::move(sockets),
                                   std::move(options))) {}

StreamReducer::~StreamReducer() = default;

void StreamReducer::set_buckets(
  std::vector<std::pair<uint64_t, uint64_t>> buckets, uint64_t hash) {
  state_->set_buckets(std::move(buckets), hash);
}

void StreamReducer::start(ReduceStep step) {
  state_->start(std::move(step));
}

void StreamReducer::ready(uint32_t bucket) {
  state_->ready(bucket);
}

void StreamReducer::progress() {
  state_->progress();
}

CollectiveResult StreamReducer::finish(Deadline deadline) {
  return state_->finish(deadline);
}

void StreamReducer::abort(const std::string& reason) {
  state_->party_.abort(reason);
}

Reducer::Traffic StreamReducer::traffic() const {
  return state_->party_.traffic;
}

std::string StreamReducer::name() const {
  constexpr const char* names[] = {"reproducible",     "automatic",
                                   "direct",           "ring",
                                   "halving-doubling", "hierarchical"};
  return std::string{"tcp "}
         + names[static_cast<size_t>(state_->options_.algorithm)];
}

bool StreamReducer::whole() const {
  return state_->whole_;
}

CollectiveResult StreamReducer::all_reduce(float* data, size_t count,
                                           Deadline deadline) {
  return state_->all_reduce(data, count, deadline);
}

CollectiveResult StreamReducer::reduce_scatter(float* data, size_t count,
                                               Deadline deadline) {
  return state_->scheduled(ring_reduce_scatter(state_->place(count)), data, 1,
                           count, deadline);
}

CollectiveResult StreamReducer::all_gather(float* data, size_t count,
                                           Deadline deadline) {
  return state_->scheduled(ring_all_gather(state_->place(count)), data, 2,
                           count, deadline);
}

CollectiveResult StreamReducer::broadcast(float* data, size_t count,
                                          uint32_t root, Deadline deadline) {
  return state_->scheduled(tree_broadcast(state_->place(count), root), data,
                           uint64_t{3} << 32 | root, count, deadline);
}

} // namespace troupe
