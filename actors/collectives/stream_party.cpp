#include "actors/collectives/stream_party.hpp"

#include "kernels/base/require.hpp"

#include <algorithm>

namespace troupe {

namespace {

constexpr size_t max_farewell_bytes = 1 << 10;

std::string member(uint32_t peer) {
  return "member " + std::to_string(peer);
}

} // namespace

StreamParty::StreamParty(std::vector<std::unique_ptr<LinkSocket>> sockets,
                         uint32_t rank, FrameHeader fence)
  : rank_(rank), fence_(fence) {
  kernels::require(rank < sockets.size(), "a rank outside the group");
  for (auto& socket : sockets) {
    const bool own = streams_.size() == rank;
    kernels::require(own == (socket == nullptr), "one socket for each peer");
    streams_.push_back(own ? nullptr
                           : std::make_unique<PeerStream>(std::move(socket)));
  }
}

void StreamParty::begin(uint64_t step, uint64_t digest) {
  fence_.step = step;
  fence_.opaque = digest;
}

FrameHeader StreamParty::header(FrameKind kind) const {
  auto header = fence_;
  header.kind = kind;
  return header;
}

void StreamParty::post(uint32_t peer, const FrameHeader& header,
                       const void* payload, uint64_t plain_bytes) {
  streams_[peer]->post(header, payload);
  traffic.sent_bytes += header.payload_bytes;
  traffic.plain_bytes += plain_bytes;
}

bool StreamParty::pull(uint32_t peer) {
  auto& stream = *streams_[peer];
  bool moved = false;
  while (stream.pull())
    moved = true;
  if (stream.announced() && stream.announced()->kind == FrameKind::farewell)
    read_farewell(peer);
  else if (!stream.fault().empty())
    fail(CollectiveEnd::aborted, member(peer) + " " + stream.fault());
  return moved;
}

bool StreamParty::describe(uint32_t peer, const char* what, uint64_t got,
                           uint64_t own) {
  if (got == own)
    return true;
  fail(CollectiveEnd::mismatch,
       member(peer) + " is at " + what + " " + std::to_string(got) + ", "
         + member(rank_) + " at " + std::to_string(own)
         + "; all must make the same calls in the same order");
  return false;
}

bool StreamParty::expect(uint32_t peer, const FrameHeader& wanted) {
  auto got = *streams_[peer]->announced();
  got.payload_crc = 0;
  if (got == wanted) [[likely]]
    return true;
  if (got.opaque != wanted.opaque && got.job == wanted.job
      && got.epoch == wanted.epoch && got.step == wanted.step) {
    fail(CollectiveEnd::mismatch,
         member(peer) + " and " + member(rank_)
           + " differ in layout, program, algorithm or length of step "
           + std::to_string(wanted.step));
    return false;
  }
  const bool same = describe(peer, "job", got.job, wanted.job)
                    && describe(peer, "term", got.term, wanted.term)
                    && describe(peer, "epoch", got.epoch, wanted.epoch)
                    && describe(peer, "group", got.group, wanted.group)
                    && describe(peer, "step", got.step, wanted.step)
                    && describe(peer, "bucket", got.bucket, wanted.bucket)
                    && describe(peer, "element", got.begin, wanted.begin);
  if (same)
    fail(CollectiveEnd::mismatch, member(peer) + " and " + member(rank_)
                                    + " disagree on what follows in bucket "
                                    + std::to_string(wanted.bucket)
                                    + " of step "
                                    + std::to_string(wanted.step));
  return false;
}

void StreamParty::read_farewell(uint32_t peer) {
  auto& stream = *streams_[peer];
  const auto header = *stream.announced();
  std::string words(std::min<size_t>(header.payload_bytes, max_farewell_bytes),
                    '\0');
  auto end = CollectiveEnd::aborted;
  if (header.part == static_cast<uint32_t>(CollectiveEnd::mismatch))
    end = CollectiveEnd::mismatch;
  // It was sent in one piece before the stream was cut; what is not there
  // does not come.
  if (header.payload_bytes <= words.size()) {
    stream.accept(words.data());
    while (stream.pull()) {
    }
  }
  fail(end, stream.arrived() && stream.fault().empty()
              ? words
              : member(peer) + " ended the collective");
}

void StreamParty::say_farewell(uint32_t peer, CollectiveEnd end,
                               const std::string& why) {
  auto& stream = *streams_[peer];
  // Between frames only: inside one it would be taken for its payload.
  if (!stream.free())
    return;
  last_words_ = why.substr(0, max_farewell_bytes);
  auto header = this->header(FrameKind::farewell);
  header.part = static_cast<uint32_t>(end);
  header.payload_bytes = static_cast<uint32_t>(last_words_.size());
  stream.post(header, last_words_.data());
  stream.push();
}

void StreamParty::fail(CollectiveEnd end, const std::string& reason) {
  if (failed_)
    return;
  failed_ = true;
  end_ = {end, reason};
  if (aborted_.load()) {
    const std::lock_guard lock{aborting_};
    end_ = {CollectiveEnd::aborted, abort_reason_};
  }
  for (uint32_t peer = 0; peer < size(); ++peer)
    if (peer != rank_) {
      say_farewell(peer, end_.end, end_.reason);
      streams_[peer]->cut();
    }
}

void StreamParty::abort(const std::string& reason) {
  {
    const std::lock_guard lock{aborting_};
    if (!aborted_.load())
      abort_reason_ = reason;
    aborted_.store(true);
  }
  for (auto& stream : streams_)
    if (stream)
      stream->cut();
}

bool StreamParty::failed() {
  if (aborted_.load(std::memory_order_relaxed) && !failed_)
    fail(CollectiveEnd::aborted, "aborted");
  return failed_;
}

CollectiveResult StreamParty::result() {
  return failed() ? end_ : CollectiveResult{};
}

bool StreamParty::wait(std::chrono::milliseconds longest) {
  waiting_.clear();
  for (uint32_t peer = 0; peer < size(); ++peer) {
    const auto& stream = streams_[peer];
    if (!stream)
      continue;
    if (stream->deaf() && !stream->free() && !stream->wanted) {
      pull(peer); // its last words
      fail(CollectiveEnd::aborted, member(peer) + " is gone");
      return true;
    }
    // A stream that nothing is expected of is left out: poll would return at
    // once if its peer has finished and closed it.
    short events = 0;
    if (stream->wanted)
      events |= POLLIN;
    if (!stream->free() && !stream->deaf())
      events |= POLLOUT;
    if (events != 0)
      waiting_.push_back({stream->descriptor(), events, 0});
  }
  return ::poll(waiting_.data(), waiting_.size(),
                static_cast<int>(longest.count()))
         > 0;
}

} // namespace troupe
