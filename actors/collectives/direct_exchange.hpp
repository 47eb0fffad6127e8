#pragma once

#include "actors/collectives/run_grid.hpp"
#include "actors/collectives/stream_party.hpp"
#include "actors/collectives/stream_work.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/collective/reducer.hpp"
#include "kernels/compression/compressor.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace troupe {

/// Everybody sends run r of its vectors to r, which sums them along the
/// program and sends what became of the run to all.
///
/// Between two members contributions stand in order, and so do sums; the two
/// mix as they come, for sums go first: they lie in the cache. A contribution
/// is taken when its slot is free, a sum always, so the earliest chunk that
/// anyone misses can always be taken, and nobody waits in a circle.
class DirectExchange : public StreamWork {
public:
  struct Options {
    bool share_update = false;
    /// All own every run (RunGrid::Options::everyone) and sum it themselves:
    /// one step instead of two.
    bool everyone = false;
    /// No way lies between the members: the next contribution goes once the
    /// sum of the last one is back.
    bool one_host = false;
  };

  /// `codec` may be null; with it, every member has one vector. `residual`:
  /// of grid.elements(), kept from step to step; null without codec.
  DirectExchange(StreamParty& party, RunGrid grid, const Compressor* codec,
                 float* residual, Options options);

  /// `step.program` names each vector once at most.
  void start(ReduceStep step);

  void ready() override { ++ready_; }
  bool pump() override;
  bool complete() const override;

private:
  struct Peer {
    uint32_t vectors = 0; ///< of its, in the program
    GridCursor send_contribution, send_sum, take_contribution, take_sum;
    Buffer slots;
    Buffer scratch;                       ///< sums on their way to `update`
    std::vector<std::byte> coming, going; ///< compressed
    bool taking_sum = false;              ///< the accepted frame is one
  };
  struct Term {
    uint32_t member;
    uint32_t part;
  };

  bool receive(uint32_t peer);
  bool expects(uint32_t peer) const;
  bool place(uint32_t peer);
  void take(uint32_t peer);
  void take_sum(uint32_t peer);
  bool decode(uint32_t peer, size_t count, float* out);
  bool sum_up();
  bool summable() const;
  bool sent_all() const;
  void compress_sum(uint64_t begin, uint64_t end);
  bool send(uint32_t peer);
  bool may_contribute(const Peer& peer) const;
  void send_contribution(uint32_t peer);
  void send_sum(uint32_t peer);
  void post(uint32_t peer, FrameHeader header, const float* values,
            const std::byte* compressed, size_t count);

  FrameHeader contribution_header(const GridCursor& at, uint32_t run) const;
  FrameHeader sum_header(const GridCursor& at, uint32_t run) const;
  uint32_t wire_bytes(uint64_t count) const;
  float* slot(uint32_t peer, uint64_t item, uint32_t part);
  uint32_t sum_parts() const;
  bool at_end(const GridCursor& at) const {
    return at.bucket >= grid_.buckets();
  }

  StreamParty& party_;
  RunGrid grid_;
  const Compressor* codec_;
  float* residual_;
  Options options_;
  /// Contributions under way to a peer: it has answered all but so many by
  /// sums.
  uint32_t max_unanswered_;
  /// Chunks of each peer that wait to be summed. What comes before stays in the
  /// kernel's buffers.
  uint32_t slots_per_peer_;
  std::vector<Peer> peers_;

  ReduceStep step_;
  std::vector<uint32_t> merges_; ///< of the terms
  std::vector<Term> terms_;
  std::vector<float*> own_; ///< vectors in the program, by part
  float* home_ = nullptr;   ///< where sums of the own runs lie
  Buffer spare_home_;
  std::vector<const float*> from_;
  uint32_t ready_ = 0;
  GridCursor summed_;
  std::vector<std::byte> sums_; ///< compressed, of the own runs
  std::vector<size_t> sums_at_;
};

} // namespace troupe
