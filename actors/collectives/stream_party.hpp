#pragma once

#include "actors/collectives/peer_stream.hpp"
#include "kernels/collective/reducer.hpp"

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe {

/// One member's streams to all others, and how its collective ends. What a
/// peer does wrong ends it for everybody.
class StreamParty {
public:
  /// `fence`: job, term, epoch and group of all frames.
  StreamParty(std::vector<std::unique_ptr<LinkSocket>> sockets, uint32_t rank,
              FrameHeader fence);

  uint32_t rank() const { return rank_; }
  uint32_t size() const { return static_cast<uint32_t>(streams_.size()); }
  PeerStream& stream(uint32_t peer) { return *streams_[peer]; }

  /// Step and digest of the frames from now on; equal on all members, or the
  /// first frame tells.
  void begin(uint64_t step, uint64_t digest);
  FrameHeader header(FrameKind kind) const;
  uint64_t step() const { return fence_.step; }

  /// Sends a frame and counts what it carries.
  void post(uint32_t peer, const FrameHeader& header, const void* payload,
            uint64_t plain_bytes);

  /// Receives from a peer until a header is announced or a payload arrived, or
  /// nothing is there. Reads farewells. Tells whether anything came.
  bool pull(uint32_t peer);
  /// Tells whether the announced frame of a peer is what is expected, the
  /// checksum aside; a difference ends the collective.
  bool expect(uint32_t peer, const FrameHeader& wanted);

  /// Ends the collective here, tells the peers and cuts the streams; the first
  /// reason holds.
  void fail(CollectiveEnd end, const std::string& reason);
  /// The same from any thread, at once and without words to the peers.
  void abort(const std::string& reason);
  bool failed();
  CollectiveResult result();

  /// Waits until a stream may move, at most so long. Tells whether one may.
  bool wait(std::chrono::milliseconds longest);

  Reducer::Traffic traffic{};

private:
  void say_farewell(uint32_t peer, CollectiveEnd end, const std::string& why);
  void read_farewell(uint32_t peer);
  bool describe(uint32_t peer, const char* what, uint64_t got, uint64_t own);

  uint32_t rank_;
  FrameHeader fence_;
  std::vector<std::unique_ptr<PeerStream>> streams_; ///< own: null
  std::vector<pollfd> waiting_;
  std::string last_words_;
  CollectiveResult end_;
  bool failed_ = false;
  std::mutex aborting_;
  std::atomic<bool> aborted_ = false;
  std::string abort_reason_;
};

} // namespace troupe
