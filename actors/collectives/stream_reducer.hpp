#pragma once

#include "actors/sockets/socket.hpp"
#include "kernels/collective/reducer.hpp"
#include "kernels/compression/compressor.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

enum class StreamAlgorithm : uint8_t {
  /// Sums along the step's program, whatever the number of members.
  reproducible,
  /// Any order: chosen by size and topology, or one of those after it.
  automatic,
  direct,
  ring,
  halving_doubling,
  hierarchical,
};

/// What a StreamReducer is to do; equal on all members.
struct StreamOptions {
  uint64_t job = 0; ///< the fence (PROTOCOL 14): members of another are refused
  uint64_t term = 0;
  uint64_t epoch = 0;
  uint32_t group = 0;
  StreamAlgorithm algorithm = StreamAlgorithm::reproducible;
  /// The ranks of each host, for automatic and hierarchical; none: one host.
  std::vector<std::vector<uint32_t>> hosts;
  /// The owner of a run updates it and hands out results; otherwise sums are
  /// handed out and every member updates everything. With reproducible and
  /// direct only; the others hand out sums.
  bool share_update = false;
  /// finish() returns done only when this member knows that all have the whole
  /// result. It costs a round of empty frames.
  ///
  /// Nobody can know that everybody knows: a link cut under the last frame
  /// leaves one member with done and another with an error. So whoever gets an
  /// error asks a third party, in a job the coordinator, which knows from the
  /// seals of the next epoch what each has (I8): if anyone got done, all
  /// have the sums (whole() is true on each), and the call counts.
  bool confirm = false;
  /// Not with reproducible. Contributions and sums travel compressed, with a
  /// residual of this member for either; all members hold equal values.
  Compression compression;
  /// A frame's payload at most; 0: stream_chunk_bytes().
  size_t chunk_bytes = 0;
};

/// Reduces over one stream to each peer.
///
/// reproducible and direct: everybody sends run r of its vectors to r, which
/// sums them and sends the sum back to all. 2 count (members - 1) / members
/// elements sent in two steps, chunk by chunk: what has been summed travels
/// while the rest arrives. Short vectors go from everybody to everybody whole,
/// in one step. The others follow collective_schedule.hpp.
///
/// Errors, as CollectiveResult: aborted when a peer is gone or sent damaged
/// bytes, mismatch when a peer brings another step, layout, program or
/// algorithm; the reason names the peer's rank. A member that fails tells the
/// others why, as far as its sockets still take it, and cuts its streams: all
/// of them fail, none hangs. After the first error every call fails with it.
class StreamReducer : public Reducer {
public:
  /// `sockets[r]` leads to member r; null at the own rank. Nobody else uses
  /// them; they are closed with the reducer.
  StreamReducer(ReducerLayout layout,
                std::vector<std::unique_ptr<LinkSocket>> sockets,
                StreamOptions options = {});
  ~StreamReducer() override;

  void set_buckets(std::vector<std::pair<uint64_t, uint64_t>> buckets,
                   uint64_t hash) override;
  void start(ReduceStep step) override;
  void ready(uint32_t bucket) override;
  void progress() override;
  CollectiveResult finish(Deadline deadline) override;
  void abort(const std::string& reason) override;
  Traffic traffic() const override;
  std::string name() const override;

  /// Tells whether this member holds the whole result of the step that
  /// finish() ended last, even if it is not confirmed.
  bool whole() const;

  CollectiveResult all_reduce(float* data, size_t count,
                              Deadline deadline) override;
  /// After it, run_of(count, rank, members) holds the sum; the rest is
  /// undefined.
  CollectiveResult reduce_scatter(float* data, size_t count, Deadline deadline);
  /// Gives everybody all of it, which is run_of(count, r, members) of each r.
  CollectiveResult all_gather(float* data, size_t count, Deadline deadline);
  CollectiveResult broadcast(float* data, size_t count, uint32_t root,
                             Deadline deadline) override;

private:
  class State;
  std::unique_ptr<State> state_;
};

} // namespace troupe
