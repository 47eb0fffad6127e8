#include "actors/links/message_sender.hpp"

#include "kernels/base/crc32c.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

/// So much is handed to the kernel at a time: enough to keep it busy, little
/// enough that a grant does not wait long behind it.
constexpr size_t batch_bytes = size_t{512} << 10;
constexpr size_t batch_frames = 16;

} // namespace

void MessageSender::put(LinkMessage&& message) {
  Waiting next{header_of(message), values_of(message)};
  const auto bytes = frame_bytes(next.header);
  const auto rank = rank_of(message);
  std::lock_guard lock{mutex_};
  waiting_.put(std::move(next), bytes, rank);
}

std::optional<uint32_t>
MessageSender::rank_of(const LinkMessage& message) const {
  if (!ranks_)
    return std::nullopt;
  if (const auto* push = std::get_if<Push>(&message))
    return ranks_->at(push->slice);
  if (const auto* pulled = std::get_if<Pulled>(&message))
    return ranks_->at(pulled->slice);
  return std::nullopt;
}

void MessageSender::grant(uint64_t total) {
  std::lock_guard lock{mutex_};
  window_.grant(total);
}

void MessageSender::owe(uint64_t total) {
  std::lock_guard lock{mutex_};
  owed_ = std::max(owed_, total);
}

void MessageSender::announce(uint64_t returns) {
  std::lock_guard lock{mutex_};
  returns_ = returns;
}

bool MessageSender::lend_to(std::shared_ptr<const PeerMemory> peer,
                            uint64_t returns) {
  std::lock_guard lock{mutex_};
  return loans_.open(std::move(peer), returns);
}

void MessageSender::reclaim(std::vector<TensorView>& done) {
  std::lock_guard lock{mutex_};
  loans_.reclaim(done);
}

std::vector<LentView> MessageSender::close_loans() {
  std::lock_guard lock{mutex_};
  return loans_.close();
}

size_t MessageSender::Frame::bytes() const {
  return head.size() + (lent ? lent->size() : values.size() * sizeof(float));
}

void MessageSender::fill() {
  const auto first = wire_.size();
  std::vector<FrameHeader> headers;
  {
    std::lock_guard lock{mutex_};
    if (owed_ != 0) {
      headers.push_back(credit_header(std::exchange(owed_, 0), returns_));
      wire_.push_back({});
      wire_bytes_ += frame_header_bytes;
    }
    while (!waiting_.empty() && wire_bytes_ < batch_bytes
           && wire_.size() < batch_frames) {
      if (!window_.take(waiting_.front_bytes()))
        break;
      auto& next = waiting_.front();
      Frame frame;
      const auto& header = next.header;
      if (const auto lent = loans_.lend({header.job, header.term, header.epoch},
                                        next.values)) {
        frame.lent = encode_lent(*lent);
        next.header.kind = lent_kind(next.header.kind);
      }
      frame.values = std::move(next.values);
      headers.push_back(next.header);
      wire_bytes_ += frame.bytes();
      wire_.push_back(std::move(frame));
      waiting_.pop();
    }
  }
  for (size_t i = 0; i < headers.size(); ++i) {
    auto& frame = wire_[first + i];
    const auto values = frame.lent ? std::as_bytes(std::span{*frame.lent})
                                   : std::as_bytes(frame.values.span());
    headers[i].payload_crc = crc32c(0, values.data(), values.size());
    frame.head = encode_frame(headers[i]);
  }
}

MessageSender::State MessageSender::write(std::vector<TensorView>& done) {
  for (;;) {
    fill();
    if (wire_.empty())
      return State::idle;
    pieces_.clear();
    size_t total = 0;
    auto skip = written_;
    auto add = [&](const void* from, size_t bytes) {
      const auto left = std::min(skip, bytes);
      skip -= left;
      total += bytes - left;
      if (bytes > left)
        pieces_.push_back(
          {const_cast<char*>(static_cast<const char*>(from)) + left,
           bytes - left});
    };
    for (const auto& frame : wire_) {
      add(frame.head.data(), frame.head.size());
      if (frame.lent)
        add(frame.lent->data(), frame.lent->size());
      else
        add(frame.values.data(), frame.values.size() * sizeof(float));
    }
    const auto sent = socket_.send(pieces_);
    advance(sent.bytes, done);
    if (sent.down)
      return State::broken;
    if (sent.bytes < total)
      return State::blocked;
  }
}

void MessageSender::advance(size_t bytes, std::vector<TensorView>& done) {
  written_ += bytes;
  while (!wire_.empty()) {
    auto& frame = wire_.front();
    const auto whole = frame.bytes();
    if (written_ < whole)
      return;
    written_ -= whole;
    wire_bytes_ -= whole;
    done.push_back(std::move(frame.values));
    wire_.pop_front();
  }
}

std::vector<TensorView> MessageSender::own_values() {
  std::vector<TensorView> done;
  for (auto& frame : wire_)
    if (frame.values.size() > 0)
      done.push_back(
        std::exchange(frame.values, TensorView::copy(frame.values.span())));
  return done;
}

std::vector<TensorView> MessageSender::clear() {
  std::vector<TensorView> all;
  for (auto& frame : std::exchange(wire_, {}))
    all.push_back(std::move(frame.values));
  written_ = 0;
  wire_bytes_ = 0;
  std::lock_guard lock{mutex_};
  for (; !waiting_.empty(); waiting_.pop())
    all.push_back(std::move(waiting_.front().values));
  owed_ = 0;
  return all;
}

uint64_t MessageSender::queued_bytes() const {
  std::lock_guard lock{mutex_};
  return waiting_.bytes();
}

uint64_t MessageSender::sent_bytes() const {
  std::lock_guard lock{mutex_};
  return window_.taken();
}

uint64_t MessageSender::credit() const {
  std::lock_guard lock{mutex_};
  return window_.available();
}

} // namespace troupe
