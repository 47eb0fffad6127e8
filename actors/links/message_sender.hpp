#pragma once

#include "actors/links/loans.hpp"
#include "actors/links/message_frame.hpp"
#include "actors/sockets/socket.hpp"
#include "strategies/credit_window.hpp"
#include "strategies/send_queue.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace troupe {

/// By slice, whose pushed and pulled values go first: the smaller one's. Null:
/// all in the order in which they are sent.
using SliceRanks = std::shared_ptr<const std::vector<uint32_t>>;

/// A message that waits is passed by so much at most; see SendQueue.
constexpr uint64_t max_passing_bytes = uint64_t{8} << 20;

/// What goes out on a message link: the messages that wait for credit and the
/// frames that are being written, straight from the tensors' memory; tensors in
/// shared memory stay there and are lent. write() is called by one thread at a
/// time, all else is thread-safe.
class MessageSender {
public:
  /// `own` null: nothing is lent.
  MessageSender(LinkSocket& socket, std::shared_ptr<LinkMemory> own,
                SliceRanks ranks)
    : socket_(socket), ranks_(std::move(ranks)), loans_(std::move(own)) {}

  void put(LinkMessage&& message);
  /// The peer grants bytes up to a total.
  void grant(uint64_t total);
  /// Grants the peer bytes up to a total; ahead of all messages.
  void owe(uint64_t total);
  /// Tells the peer with each grant where the own ReturnTable is.
  void announce(uint64_t returns);
  /// What Loans has under these names.
  bool lend_to(std::shared_ptr<const PeerMemory> peer, uint64_t returns);
  void reclaim(std::vector<TensorView>& done);
  std::vector<LentView> close_loans();

  enum class State { idle, blocked, broken };
  /// Writes what credit and socket take now. Tensors that are on their way
  /// move to `done`, for the caller to let go of when it holds no lock.
  State write(std::vector<TensorView>& done);
  /// What is being written is written from copies from here on: its memory may
  /// change. Returns the views of that, to be let go of like those of write().
  std::vector<TensorView> own_values();
  /// Forgets everything.
  std::vector<TensorView> clear();

  uint64_t queued_bytes() const; ///< waiting, headers included
  uint64_t sent_bytes() const;   ///< messages, without grants
  /// Bytes that were granted and are not used yet.
  uint64_t credit() const;

private:
  struct Waiting {
    FrameHeader header;
    TensorView values;
  };
  struct Frame { // on its way
    FrameBytes head;
    TensorView values; ///< empty when they are lent
    std::optional<LentBytes> lent = std::nullopt;
    size_t bytes() const;
  };

  void fill();
  void advance(size_t bytes, std::vector<TensorView>& done);

  std::optional<uint32_t> rank_of(const LinkMessage& message) const;

  LinkSocket& socket_;
  const SliceRanks ranks_;

  // Touched by write() alone.
  std::deque<Frame> wire_;
  size_t written_ = 0;    ///< bytes of wire_'s first frame
  size_t wire_bytes_ = 0; ///< of whole frames in wire_
  std::vector<iovec> pieces_;

  mutable std::mutex mutex_;
  SendQueue<Waiting> waiting_{max_passing_bytes};
  CreditWindow window_;
  uint64_t owed_ = 0; ///< total to grant; 0: nothing new
  std::optional<uint64_t> returns_;
  Loans loans_;
};

/// What a message takes of the credit.
inline uint64_t frame_bytes(const FrameHeader& header) {
  return frame_header_bytes + header.payload_bytes;
}

} // namespace troupe
