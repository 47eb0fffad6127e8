#include "actors/collectives/direct_exchange.hpp"

#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"
#include "kernels/collective/sum_loops.hpp"
#include "kernels/collective/sum_program.hpp"

#include <algorithm>

namespace troupe {

DirectExchange::DirectExchange(StreamParty& party, RunGrid grid,
                               const Compressor* codec, float* residual,
                               Options options)
  : party_(party),
    grid_(std::move(grid)),
    codec_(codec),
    residual_(residual),
    options_(options),
    // More only wait in the kernel's buffers, out of the cache: 16 MiB among
    // four on two cores take 10.2 ms with 1, 15.2 with 2, 19.5 with 3; 64 MiB
    // 37 and 67 ms; between two 16 MiB 3.3 instead of 3.5. Over a network the
    // way there and back needs more.
    max_unanswered_(options.one_host ? 1 : 3),
    slots_per_peer_(options.one_host && !options.everyone ? 1 : 2),
    peers_(party.size()) {
  if (!codec_)
    return;
  for (auto& peer : peers_) {
    peer.coming.resize(codec_->bytes(grid_.longest_chunk()));
    peer.going.resize(codec_->bytes(grid_.longest_chunk()));
  }
  size_t bytes = 0;
  for (uint32_t b = 0; b < grid_.buckets(); ++b)
    for (uint32_t c = 0; c < grid_.chunks(b, party_.rank()); ++c) {
      const auto [begin, end] = grid_.chunk(b, party_.rank(), c);
      sums_at_.push_back(bytes);
      bytes += wire_bytes(end - begin);
    }
  sums_.resize(bytes);
}

void DirectExchange::start(ReduceStep step) {
  step_ = std::move(step);
  kernels::require(is_sum(step_.program, party_.size()), "a program of no sum");
  merges_.clear();
  terms_.clear();
  own_.clear();
  for (auto& peer : peers_)
    peer.vectors = 0;
  for (const auto& term : step_.program) {
    merges_.push_back(term.merges);
    terms_.push_back({term.member, peers_[term.member].vectors++});
    if (term.member != party_.rank())
      continue;
    kernels::require(term.vector < step_.vectors.size(), "a term of no vector");
    own_.push_back(step_.vectors[term.vector]);
  }
  for (uint32_t p = 0; p < peers_.size(); ++p) {
    auto& peer = peers_[p];
    peer.send_contribution = peer.send_sum = {};
    peer.take_contribution = peer.take_sum = {};
    const auto floats = slots_per_peer_ * peer.vectors * grid_.longest_chunk();
    if (p != party_.rank() && peer.slots.size() < floats)
      peer.slots = Buffer{floats};
    if (p != party_.rank() && step_.update && !options_.share_update
        && peer.scratch.size() == 0)
      peer.scratch = Buffer{grid_.longest_chunk()};
  }
  const bool in_place = !own_.empty() && !step_.keeps_vectors;
  if (step_.update && !in_place && spare_home_.size() == 0)
    spare_home_ = Buffer{grid_.elements()};
  home_ = !step_.update ? step_.results.at(0)
          : in_place    ? own_[0]
                        : spare_home_.data();
  from_.resize(terms_.size());
  ready_ = 0;
  summed_ = {};
}

bool DirectExchange::pump() {
  bool moved = sum_up(); // where there are no peers, or they were early
  const auto size = party_.size();
  for (uint32_t k = 1; k < size && !party_.failed(); ++k) {
    const auto peer = (party_.rank() + k) % size;
    moved = receive(peer) || moved;
    moved = sum_up() || moved;
    if (!party_.failed())
      moved = send(peer) || moved;
  }
  return moved;
}

bool DirectExchange::complete() const {
  if (!at_end(summed_))
    return false;
  for (uint32_t p = 0; p < peers_.size(); ++p) {
    if (p == party_.rank())
      continue;
    const auto& peer = peers_[p];
    if (expects(p) || !at_end(peer.send_contribution)
        || (!options_.everyone && !at_end(peer.send_sum))
        || !party_.stream(p).free())
      return false;
  }
  return true;
}

// --- receiving ---------------------------------------------------------------

bool DirectExchange::expects(uint32_t peer) const {
  return !at_end(peers_[peer].take_contribution)
         || (!options_.everyone && !at_end(peers_[peer].take_sum));
}

bool DirectExchange::receive(uint32_t peer) {
  auto& stream = party_.stream(peer);
  stream.wanted = false;
  bool moved = false;
  for (;;) {
    if (party_.failed() || (stream.announced() && !place(peer)))
      return moved;
    if (stream.arrived()) {
      take(peer);
      return true;
    }
    if (!expects(peer))
      return moved;
    stream.wanted = true;
    if (!party_.pull(peer))
      return moved;
    moved = true;
  }
}

/// Finds a place for the announced payload; false: it has to wait, or is wrong.
bool DirectExchange::place(uint32_t p) {
  auto& peer = peers_[p];
  auto& stream = party_.stream(p);
  const bool contribution = stream.announced()->kind != FrameKind::sum;
  const auto& at = contribution ? peer.take_contribution : peer.take_sum;
  const auto run = contribution ? party_.rank() : p;
  if (at_end(at)) // another bucket than there are
    return party_.expect(p, party_.header(FrameKind::whole));
  auto wanted = contribution ? contribution_header(at, run)
                             : sum_header(at, run);
  if (contribution && peer.vectors == 0)
    wanted.payload_bytes = 0;
  if (!party_.expect(p, wanted))
    return false;
  if (contribution && at.index >= summed_.index + slots_per_peer_)
    return false;
  peer.taking_sum = !contribution;
  if (codec_)
    stream.accept(peer.coming.data());
  else if (contribution)
    stream.accept(slot(p, at.index, at.part));
  else if (step_.update && !options_.share_update)
    stream.accept(peer.scratch.data());
  else
    stream.accept(step_.results[at.part]
                  + grid_.chunk(at.bucket, run, at.chunk).first);
  return true;
}

void DirectExchange::take(uint32_t p) {
  auto& peer = peers_[p];
  party_.stream(p).release();
  if (peer.taking_sum)
    return take_sum(p);
  auto& at = peer.take_contribution;
  const auto [begin, end] = grid_.chunk(at.bucket, party_.rank(), at.chunk);
  if (peer.vectors > 0 && !decode(p, end - begin, slot(p, at.index, at.part)))
    return;
  at.advance(grid_, party_.rank(), std::max(1u, peer.vectors));
}

void DirectExchange::take_sum(uint32_t p) {
  auto& peer = peers_[p];
  auto& at = peer.take_sum;
  const auto [begin, end] = grid_.chunk(at.bucket, p, at.chunk);
  const bool updates = step_.update && !options_.share_update;
  auto* to = updates ? peer.scratch.data() : step_.results[at.part] + begin;
  if (!decode(p, end - begin, to))
    return;
  if (updates && begin < end)
    step_.update(begin, end, to);
  at.advance(grid_, p, sum_parts());
}

/// Unpacks what came compressed; false: it cannot be.
bool DirectExchange::decode(uint32_t peer, size_t count, float* out) {
  if (!codec_ || count == 0)
    return true;
  try {
    codec_->decompress({peers_[peer].coming.data(), wire_bytes(count)}, count,
                       out);
    return true;
  } catch (const InputError& error) {
    party_.fail(CollectiveEnd::aborted,
                "member " + std::to_string(peer) + " sent " + error.what());
    return false;
  }
}

// --- summing -----------------------------------------------------------------

bool DirectExchange::summable() const {
  if (summed_.bucket >= ready_ || (options_.everyone && !sent_all()))
    return false;
  for (uint32_t p = 0; p < peers_.size(); ++p)
    if (p != party_.rank()
        && peers_[p].take_contribution.index <= summed_.index)
      return false;
  return true;
}

/// Nobody is still to be sent what the next sum may overwrite.
bool DirectExchange::sent_all() const {
  for (uint32_t p = 0; p < peers_.size(); ++p)
    if (p != party_.rank()
        && (peers_[p].send_contribution.index <= summed_.index
            || !party_.stream(p).free()))
      return false;
  return true;
}

bool DirectExchange::sum_up() {
  bool moved = false;
  for (; !at_end(summed_) && summable(); moved = true) {
    const auto [begin, end] = grid_.chunk(summed_.bucket, party_.rank(),
                                          summed_.chunk);
    for (size_t t = 0; t < terms_.size(); ++t)
      from_[t] = terms_[t].member == party_.rank()
                   ? own_[terms_[t].part] + begin
                   : slot(terms_[t].member, summed_.index, terms_[t].part);
    auto* home = home_ + begin;
    kernels::sum_loops().sum({from_.data(), merges_.data(),
                              static_cast<uint32_t>(merges_.size())},
                             0, end - begin, &home, 1);
    if (codec_)
      compress_sum(begin, end);
    if (step_.update && begin < end)
      step_.update(begin, end, home_ + begin);
    summed_.advance(grid_, party_.rank(), 1);
  }
  return moved;
}

/// Packs a sum and keeps of it what the others will read.
void DirectExchange::compress_sum(uint64_t begin, uint64_t end) {
  if (begin == end)
    return;
  auto* out = sums_.data() + sums_at_[summed_.index];
  codec_->compress(home_ + begin, residual_ + begin, end - begin, out);
  codec_->decompress({out, wire_bytes(end - begin)}, end - begin,
                     home_ + begin);
}

// --- sending -----------------------------------------------------------------

bool DirectExchange::send(uint32_t p) {
  auto& peer = peers_[p];
  auto& stream = party_.stream(p);
  bool moved = stream.push();
  if (!stream.free())
    return moved;
  if (!options_.everyone && peer.send_sum.index < summed_.index)
    send_sum(p);
  else if (may_contribute(peer))
    send_contribution(p);
  else
    return moved;
  stream.push();
  return true;
}

bool DirectExchange::may_contribute(const Peer& peer) const {
  const auto& at = peer.send_contribution;
  // Where all sum, not more than every peer has slots for: sums wait for what
  // is on its way out.
  return at.bucket < ready_
         && at.index < (options_.everyone
                          ? summed_.index + slots_per_peer_
                          : peer.take_sum.index + max_unanswered_);
}

void DirectExchange::send_contribution(uint32_t p) {
  auto& peer = peers_[p];
  auto& at = peer.send_contribution;
  auto header = contribution_header(at, p);
  if (own_.empty())
    header.payload_bytes = 0;
  const auto [begin, end] = grid_.chunk(at.bucket, p, at.chunk);
  const float* values = own_.empty() ? nullptr : own_[at.part] + begin;
  if (codec_ && values && begin < end)
    codec_->compress(values, residual_ + begin, end - begin, peer.going.data());
  post(p, header, values, peer.going.data(), end - begin);
  at.advance(grid_, p, std::max<uint32_t>(1, own_.size()));
}

void DirectExchange::send_sum(uint32_t p) {
  auto& at = peers_[p].send_sum;
  const auto header = sum_header(at, party_.rank());
  const auto [begin, end] = grid_.chunk(at.bucket, party_.rank(), at.chunk);
  const bool shares = step_.update && options_.share_update;
  const auto* values = shares ? step_.results[at.part] : home_;
  post(p, header, values + begin,
       codec_ ? sums_.data() + sums_at_[at.index] : nullptr, end - begin);
  at.advance(grid_, party_.rank(), sum_parts());
}

void DirectExchange::post(uint32_t peer, FrameHeader header,
                          const float* values, const std::byte* compressed,
                          size_t count) {
  const void* payload = codec_ ? static_cast<const void*>(compressed) : values;
  party_.post(peer, header, payload,
              header.payload_bytes > 0 ? count * sizeof(float) : 0);
}

FrameHeader DirectExchange::contribution_header(const GridCursor& at,
                                                uint32_t run) const {
  auto header = party_.header(FrameKind::contribution);
  const auto [begin, end] = grid_.chunk(at.bucket, run, at.chunk);
  header.bucket = at.bucket;
  header.part = at.part;
  header.begin = begin;
  header.payload_bytes = wire_bytes(end - begin);
  return header;
}

FrameHeader DirectExchange::sum_header(const GridCursor& at,
                                       uint32_t run) const {
  auto header = contribution_header(at, run);
  header.kind = FrameKind::sum;
  return header;
}

uint32_t DirectExchange::wire_bytes(uint64_t count) const {
  return static_cast<uint32_t>(codec_ && count > 0 ? codec_->bytes(count)
                                                   : count * sizeof(float));
}

float* DirectExchange::slot(uint32_t peer, uint64_t item, uint32_t part) {
  auto& from = peers_[peer];
  return from.slots.data()
         + (item % slots_per_peer_ * from.vectors + part)
             * grid_.longest_chunk();
}

uint32_t DirectExchange::sum_parts() const {
  return step_.update && options_.share_update
           ? static_cast<uint32_t>(step_.results.size())
           : 1;
}

} // namespace troupe
