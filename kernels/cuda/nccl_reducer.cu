#include "kernels/base/require.hpp"
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/nccl.cuh"
#include "kernels/cuda/nccl_reducer.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::kernels {

namespace {

using FloatArray = CudaArray<float>;

/// left += right
struct AddInto {
  float* left;
  const float* right;

  __device__ void operator()(uint64_t i) const { left[i] = left[i] + right[i]; }
};

/// Elements whose sum one member makes.
struct Share {
  uint64_t begin = 0;
  uint64_t count = 0;
};

class NcclReducer final : public Reducer {
public:
  NcclReducer(ReducerLayout layout, DeviceId device,
              std::unique_ptr<Reducer> host, bool any_order)
    : nccl_(nccl::library()),
      layout_(std::move(layout)),
      device_(device),
      host_(std::move(host)),
      any_order_(any_order) {
    for (const auto& bucket : layout_.buckets)
      elements_ = std::max(elements_, bucket.second);
    const CurrentDevice current(device_.index);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), place());
    check(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), place());
  }

  ~NcclReducer() override {
    const LeavingDevice current(device_.index);
    leave();
    cudaEventDestroy(done_);
    cudaStreamDestroy(stream_);
  }

  void set_buckets(std::vector<std::pair<uint64_t, uint64_t>> buckets,
                   uint64_t hash) override {
    host_->set_buckets(std::move(buckets), hash);
  }

  void start(ReduceStep step) override {
    require(step.results.size() == 1 && !step.update,
            "a GPU's sum that is updated in parts");
    step_ = std::move(step);
  }
  void ready(uint32_t) override {} // all have to be, before finish()
  void progress() override {}

  CollectiveResult finish(Deadline deadline) override {
    const CurrentDevice current(device_.index);
    auto ended = communicator_ == nullptr ? join(deadline) : CollectiveResult{};
    if (ended.end == CollectiveEnd::done)
      ended = any_order_ ? sum_in_any_order(deadline)
                         : sum_along_the_tree(deadline);
    if (ended.end == CollectiveEnd::done)
      ended = wait_for_the_device(deadline);
    if (ended.end != CollectiveEnd::done)
      leave();
    return ended;
  }

  void abort(const std::string& reason) override {
    host_->abort(reason);
    const std::lock_guard lock{mutex_};
    if (!aborted_.exchange(true))
      why_aborted_ = reason;
  }
  void lost(uint32_t member) override { host_->lost(member); }

  CollectiveResult all_reduce(float* data, size_t count,
                              Deadline deadline) override {
    return host_->all_reduce(data, count, deadline);
  }
  CollectiveResult broadcast(float* data, size_t count, uint32_t root,
                             Deadline deadline) override {
    return host_->broadcast(data, count, root, deadline);
  }

  Traffic traffic() const override {
    auto all = host_->traffic();
    all.sent_bytes += sent_bytes_;
    all.plain_bytes += sent_bytes_;
    return all;
  }
  std::string name() const override { return "nccl"; }

private:
  CudaPlace place() const { return {to_string(device_), "NCCL"}; }

  // -- the group --------------------------------------------------------------

  /// Rank 0 makes the communicator's name and tells the others.
  CollectiveResult join(Deadline deadline) {
    nccl::UniqueId id{};
    if (layout_.rank == 0)
      if (const auto status = nccl_.make_id(&id); status != nccl::success)
        return refused(status);
    if (auto told = tell(id, deadline); told.end != CollectiveEnd::done)
      return told;
    nccl::Config config;
    const auto status = nccl_.join(&communicator_,
                                   static_cast<int>(layout_.members), id,
                                   static_cast<int>(layout_.rank), &config);
    return settle(status, deadline);
  }

  /// As a sum of what rank 0 has and of zeros, small enough for any reducer to
  /// take it from anywhere.
  CollectiveResult tell(nccl::UniqueId& id, Deadline deadline) {
    constexpr size_t piece = 16;
    std::array<float, piece> numbers;
    for (size_t begin = 0; begin < id.bytes.size(); begin += piece) {
      for (size_t i = 0; i < piece; ++i)
        numbers[i] = static_cast<unsigned char>(id.bytes[begin + i]);
      auto ended = host_->all_reduce(numbers.data(), piece, deadline);
      if (ended.end != CollectiveEnd::done)
        return ended;
      for (size_t i = 0; i < piece; ++i)
        id.bytes[begin + i] =
          static_cast<char>(static_cast<unsigned char>(numbers[i]));
    }
    return {};
  }

  void leave() {
    if (communicator_ == nullptr)
      return;
    nccl_.abort(communicator_);
    communicator_ = nullptr;
    cudaStreamSynchronize(stream_); // nothing of it waits for a peer any more
  }

  CollectiveResult refused(int status) const {
    // What was asked for wrongly will be wrong in the next epoch as well.
    const bool lasting = status == nccl::invalid_usage
                         || status == nccl::invalid_argument;
    return {lasting ? CollectiveEnd::mismatch : CollectiveEnd::aborted,
            to_string(device_) + ": NCCL: " + nccl_.error_text(status)
              + (status == nccl::invalid_usage
                   ? ": each member needs a GPU of its own"
                   : "")};
  }

  // -- waiting ----------------------------------------------------------------

  /// False: go on waiting.
  bool is_called_off(Deadline deadline, CollectiveResult& ended) {
    if (aborted_) {
      const std::lock_guard lock{mutex_};
      ended = {CollectiveEnd::aborted, why_aborted_};
      return true;
    }
    if (SteadyClock::now() < deadline)
      return false;
    ended = {CollectiveEnd::late,
             to_string(device_) + ": NCCL: no answer of a peer in time"};
    host_->abort(ended.reason);
    return true;
  }

  /// Waits until NCCL has taken a call that returned `status`.
  CollectiveResult settle(int status, Deadline deadline) {
    CollectiveResult ended;
    for (int looks = 0;; ++looks) {
      if (status == nccl::in_progress && communicator_ != nullptr)
        if (const auto asked = nccl_.state(communicator_, &status);
            asked != nccl::success)
          status = asked;
      if (status == nccl::success)
        return ended;
      if (status != nccl::in_progress)
        return refused(status);
      if (is_called_off(deadline, ended))
        return ended;
      rest(looks);
    }
  }

  CollectiveResult wait_for_the_device(Deadline deadline) {
    check(cudaEventRecord(done_, stream_), place());
    CollectiveResult ended;
    for (int looks = 0;; ++looks) {
      const auto status = cudaEventQuery(done_);
      if (status == cudaSuccess)
        return ended;
      if (status != cudaErrorNotReady)
        check(status, place());
      cudaGetLastError(); // nobody's failure
      int state = nccl::success;
      if (const auto asked = nccl_.state(communicator_, &state);
          asked != nccl::success)
        state = asked;
      if (state != nccl::success && state != nccl::in_progress)
        return refused(state);
      if (is_called_off(deadline, ended))
        return ended;
      rest(looks);
    }
  }

  static void rest(int looks) {
    if (looks < 1'000)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds{50});
  }

  // -- sums -------------------------------------------------------------------

  Share share_of(uint32_t member) const {
    constexpr uint64_t line = 16;
    const auto lines = (elements_ + line - 1) / line;
    const auto begin = lines * member / layout_.members * line;
    const auto end = lines * (member + 1) / layout_.members * line;
    return {begin, std::min(end, elements_) - begin};
  }

  void send(const float* from, const Share& share, uint32_t to) {
    if (share.count == 0)
      return;
    keep(nccl_.send(from, share.count, nccl::float32, static_cast<int>(to),
                    communicator_, stream_));
    if (to != layout_.rank)
      sent_bytes_ += share.count * sizeof(float);
  }
  void receive(float* to, const Share& share, uint32_t from) {
    if (share.count > 0)
      keep(nccl_.receive(to, share.count, nccl::float32, static_cast<int>(from),
                         communicator_, stream_));
  }
  /// Keeps the first refusal of a group's calls.
  void keep(int status) {
    if (status != nccl::success && status != nccl::in_progress
        && kept_ == nccl::success)
      kept_ = status;
  }
  template <class Calls>
  CollectiveResult grouped(Deadline deadline, const Calls& calls) {
    kept_ = nccl::success;
    keep(nccl_.begin_group());
    calls();
    const auto ended = nccl_.end_group();
    return settle(kept_ == nccl::success ? ended : kept_, deadline);
  }

  CollectiveResult sum_along_the_tree(Deadline deadline) {
    const auto own = share_of(layout_.rank);
    const auto stride = share_of(0).count + 64;
    const auto& program = step_.program;
    if (held_ < program.size() * stride) {
      held_ = program.size() * stride;
      addends_ = FloatArray{FloatArray::Where::device, held_, place()};
      // What is behind a receipt that is called off runs all the same.
      check(cudaMemsetAsync(addends_.data(), 0, held_ * sizeof(float), stream_),
            place());
    }
    const auto addend = [&](size_t i) { return addends_.data() + i * stride; };
    auto ended = grouped(deadline, [&] {
      for (size_t i = 0; i < program.size(); ++i) {
        if (program[i].member == layout_.rank)
          for (uint32_t to = 0; to < layout_.members; ++to)
            send(step_.vectors[program[i].vector] + share_of(to).begin,
                 share_of(to), to);
        receive(addend(i), own, program[i].member);
      }
    });
    if (ended.end != CollectiveEnd::done)
      return ended;
    auto* result = step_.results[0];
    if (program.empty()) {
      check(cudaMemsetAsync(result, 0, elements_ * sizeof(float), stream_),
            place());
      return {};
    }
    std::vector<float*> stack;
    for (size_t i = 0; i < program.size(); ++i) {
      stack.push_back(addend(i));
      for (uint32_t merge = 0; merge < program[i].merges; ++merge) {
        const auto* newer = stack.back();
        stack.pop_back();
        if (own.count > 0)
          cuda::launch_each(own.count, AddInto{stack.back(), newer}, stream_);
      }
    }
    check(cudaGetLastError(), place());
    require(stack.size() == 1, "a sum's program that leaves one sum");
    return grouped(deadline, [&] {
      for (uint32_t peer = 0; peer < layout_.members; ++peer) {
        send(stack.back(), own, peer);
        receive(result + share_of(peer).begin, share_of(peer), peer);
      }
    });
  }

  CollectiveResult sum_in_any_order(Deadline deadline) {
    auto* result = step_.results[0];
    const float* addend = nullptr;
    for (const auto& term : step_.program)
      if (term.member == layout_.rank)
        addend = step_.vectors[term.vector];
    if (addend == nullptr) { // no sample was its own
      check(cudaMemsetAsync(result, 0, elements_ * sizeof(float), stream_),
            place());
      addend = result;
    }
    sent_bytes_ += elements_ * sizeof(float) * 2 * (layout_.members - 1)
                   / layout_.members;
    return grouped(deadline, [&] {
      keep(nccl_.all_reduce(addend, result, elements_, nccl::float32, nccl::sum,
                            communicator_, stream_));
    });
  }

  const nccl::Library& nccl_;
  ReducerLayout layout_;
  DeviceId device_;
  std::unique_ptr<Reducer> host_;
  bool any_order_;
  uint64_t elements_ = 0;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
  nccl::Communicator* communicator_ = nullptr;
  ReduceStep step_;
  FloatArray addends_; ///< of this member's share, all that the program has
  uint64_t held_ = 0;  ///< elements of addends_
  int kept_ = nccl::success;
  uint64_t sent_bytes_ = 0;
  std::mutex mutex_; ///< of the reason
  std::string why_aborted_;
  std::atomic<bool> aborted_{false};
};

} // namespace

std::string nccl_version() {
  int number = 0;
  nccl::library().version(&number);
  return std::to_string(number / 10'000) + "."
         + std::to_string(number / 100 % 100) + "."
         + std::to_string(number % 100);
}

std::shared_ptr<float> make_device_array(DeviceId device, uint64_t elements) {
  const CurrentDevice current(device.index);
  const CudaPlace place{to_string(device), "sums of gradients"};
  auto* values =
    static_cast<float*>(allocate_on_device(elements * sizeof(float), place));
  std::shared_ptr<float> array{values, [](float* at) { cudaFree(at); }};
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), place);
  const auto status = cudaMemsetAsync(values, 0, elements * sizeof(float),
                                      stream);
  const auto waited = cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
  check(status, place);
  check(waited, place);
  return array;
}

std::unique_ptr<Reducer>
make_nccl_reducer(ReducerLayout layout, DeviceId device,
                  std::unique_ptr<Reducer> host, bool any_order) {
  return std::make_unique<NcclReducer>(std::move(layout), device,
                                       std::move(host), any_order);
}

} // namespace troupe::kernels
