#include "actors/reader/reader.hpp"

#include "actors/reader/metrics.hpp"
#include "actors/role/behavior.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/data/row_supply.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

/// Of an answer: a worker copies each as it comes, which gives credit back.
constexpr size_t part_words = (size_t{1} << 20) / sizeof(float);
/// Rows that a thread decodes at a time.
constexpr uint32_t rows_at_a_time = 16;

/// Rows, and the request that they answer: credit for it goes back to the
/// worker when they have left, so its window bounds what waits here.
struct Answer {
  std::vector<float> rows;
  TensorView asked;
};

/// What became of a request.
struct Served {
  std::shared_ptr<const Answer> answer;
  std::string trouble; ///< why there is none; else empty
};

class ReaderState {
public:
  static inline const char* name = "reader";

  ReaderState(reader_actor::pointer self, RoleContext context)
    : self_(self),
      context_(std::move(context)),
      graph_(context_.job->graph),
      metrics_(*context_.metrics),
      executor_(make_role_executor(context_)),
      lanes_(executor_->threads()) {}

  ~ReaderState() {
    executor_.reset(); // its task uses what is destroyed below
  }

  reader_actor::behavior_type make_behavior() {
    return role_behavior(
      self_, context_, [](const Propose&) {}, [](const Activate&) {},
      [](const Pause&) {}, [](const EndAt&) {}, [](const SnapshotRequest&) {},
      [](const SnapshotTaken&) {}, [this](const RowsWanted& x) { on(x); });
  }

private:
  void on(const RowsWanted& wanted) {
    if (wanted.fence.job != context_.job_id)
      return;
    const auto count = count_of(wanted);
    if (count > context_.job->sampling.max_of_step()) {
      if (!std::exchange(told_, true))
        tell(context_, to_string(wanted.worker) + " asks for "
                         + std::to_string(count)
                         + " samples at once, and no step has as many: "
                           "dropped");
      return;
    }
    auto asks = caf::actor_cast<caf::strong_actor_ptr>(self_->current_sender());
    metrics_.requests.set(++requests_);
    run_on(
      *executor_, self_,
      [this, &executor = *executor_, wanted] {
        const auto begin = SteadyClock::now();
        auto served = read(executor, wanted);
        metrics_.read.observe(seconds_since(begin));
        context_.record(Activity::read, begin, 0);
        return served;
      },
      [this, wanted, asks](Served& served) {
        metrics_.requests.set(--requests_);
        metrics_.queue.set(static_cast<double>(executor_->queued()));
        if (served.trouble.empty())
          send(wanted, asks, served);
        else // the same for everybody who asks: the run ends
          self_->send(
            context_.coordinator,
            Trouble{context_.job_id, context_.role,
                    to_string(context_.role) + ": " + served.trouble});
      });
    metrics_.queue.set(static_cast<double>(executor_->queued()));
  }

  size_t count_of(const RowsWanted& wanted) const {
    return wanted.samples.size() / sample_words(context_.data.train->samples());
  }

  /// On the executor. Errors: a line in the result.
  Served read(Executor& executor, const RowsWanted& wanted) {
    const auto& data = *context_.data.train;
    const auto samples = unpack_samples(wanted.samples.span(), data.samples());
    if (std::ranges::any_of(samples, [all = data.samples()](uint64_t sample) {
          return sample >= all;
        }))
      return {nullptr, to_string(wanted.worker)
                         + " asks for a sample that is not there"};
    data.expect(samples.data(), static_cast<uint32_t>(samples.size()));
    const auto count = static_cast<uint32_t>(samples.size());
    auto answer = std::make_shared<Answer>();
    answer->rows.resize(packed_words(graph_, count));
    answer->asked = wanted.samples;
    const DataPass pass{context_.job->options.seed, wanted.data_epoch};
    const auto chunk = chunk_of(count, executor.threads());
    try {
      executor.parallel_for((count + chunk - 1) / chunk, [&](size_t i,
                                                             uint32_t thread) {
        const auto first = static_cast<uint32_t>(i) * chunk;
        const auto some = std::min(chunk, count - first);
        auto& lane = lane_of(thread);
        data.gather(samples.data() + first, some, lane, pass);
        pack_rows(graph_, lane, first, some, count, answer->rows.data());
      });
    } catch (const InputError& failure) {
      return {nullptr, failure.what()};
    }
    return {std::move(answer), {}};
  }

  /// Rows that one thread takes at a time.
  static uint32_t chunk_of(uint32_t count, uint32_t threads) {
    const auto even = (count + threads - 1) / std::max(1u, threads);
    return std::clamp(even, 1u, rows_at_a_time);
  }

  BatchMemory& lane_of(uint32_t thread) {
    auto& lane = lanes_[thread];
    if (!lane)
      lane = std::make_unique<BatchMemory>(graph_, rows_at_a_time);
    return *lane;
  }

  void send(const RowsWanted& wanted, const caf::strong_actor_ptr& asks,
            const Served& served) {
    const auto to = caf::actor_cast<row_fetcher_actor>(asks);
    const auto& rows = served.answer->rows;
    metrics_.samples.add(static_cast<double>(count_of(wanted)));
    metrics_.bytes.add(static_cast<double>(rows.size() * sizeof(float)));
    for (size_t begin = 0; begin < rows.size(); begin += part_words)
      self_->send(
        to, RowsServed{wanted.fence, wanted.request, begin,
                       TensorView{served.answer, rows.data() + begin,
                                  std::min(part_words, rows.size() - begin)}});
  }

  reader_actor::pointer self_;
  RoleContext context_;
  const Graph& graph_;
  ReaderMetrics metrics_;
  std::shared_ptr<Executor> executor_;
  std::vector<std::unique_ptr<BatchMemory>> lanes_;
  uint32_t requests_ = 0; ///< that are not answered yet
  bool told_ = false;     ///< that somebody asks for too much
};

} // namespace

reader_actor spawn_reader(caf::actor_system& system, RoleContext context) {
  return system.spawn<reader_actor::stateful_impl<ReaderState>>(
    std::move(context));
}

} // namespace troupe
