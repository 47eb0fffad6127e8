#include "actors/links/message_link.hpp"

#include <utility>

namespace troupe {
namespace {

/// One link does not keep the thread of all from the others for longer.
constexpr uint64_t bytes_per_turn = uint64_t{8} << 20;

} // namespace

std::shared_ptr<MessageLink>
MessageLink::make(std::unique_ptr<LinkSocket> socket, Options options,
                  Events events) {
  std::shared_ptr<MessageLink> link{
    new MessageLink{std::move(socket), std::move(options), std::move(events)}};
  const auto& given = link->options_;
  std::shared_ptr<ReturnTable> returns;
  if (given.memory && given.peer_memory)
    returns = ReturnTable::make(*given.memory);
  if (returns)
    link->sender_.announce(returns->offset());
  link->receiver_ =
    MessageReceiver{{given.accepted, TensorView::max_bytes, given.window_bytes,
                     given.peer_memory, returns},
                    link->receiver_events()};
  link->released(0); // the first grant
  return link;
}

MessageLink::MessageLink(std::unique_ptr<LinkSocket> socket, Options options,
                         Events events)
  : socket_(std::move(socket)),
    options_(std::move(options)),
    events_(std::move(events)),
    sender_(*socket_, options_.memory, options_.ranks),
    source_(options_.window_bytes),
    receiver_({}, {}) {
  if (options_.ranks)
    socket_->keep_queue_short(); // the order is decided here
}

MessageReceiver::Events MessageLink::receiver_events() {
  MessageReceiver::Events events;
  events.arrive = [this](uint64_t bytes) { return arrive(bytes); };
  events.message = [this](LinkMessage&& x) {
    reclaim(); // what it answers may be used again from here on
    events_.message(std::move(x));
  };
  events.credit = [this](uint64_t total, std::optional<uint64_t> returns) {
    if (returns && !sender_.lend_to(options_.peer_memory, *returns))
      return false;
    sender_.grant(total);
    dirty_ = true;
    if (!blocked_)
      pump();
    return true;
  };
  events.released = [weak = weak_from_this()](uint64_t bytes) {
    if (auto link = weak.lock())
      link->released(bytes);
  };
  return events;
}

void MessageLink::send(LinkMessage message) {
  if (broken_)
    return;
  sender_.put(std::move(message));
  dirty_ = true;
  if (!blocked_)
    pump();
}

/// Whoever holds the pen writes for all; who finds it taken has left word in
/// dirty_, which the holder reads after it has let go.
void MessageLink::pump() {
  std::vector<TensorView> done; // their end may call back: under no lock
  do {
    std::unique_lock pen{pen_, std::try_to_lock};
    if (!pen)
      return;
    dirty_ = false;
    if (broken_)
      return;
    const auto state = sender_.write(done);
    blocked_ = state == MessageSender::State::blocked;
    broken_ = state == MessageSender::State::broken;
    pen.unlock();
    if (blocked_ || broken_) {
      look();
      return;
    }
  } while (dirty_);
}

void MessageLink::look() {
  if (!looking_.exchange(true))
    events_.wake();
}

bool MessageLink::wants_write() {
  looking_ = false;
  return blocked_ || broken_;
}

void MessageLink::on_writable() {
  if (!down_.empty())
    return;
  looking_ = true; // wants_write() comes next
  blocked_ = false;
  pump();
  if (broken_)
    set_down("is gone");
}

LinkSocket::Io MessageLink::receive(std::span<std::byte> room) {
  if (!socket_->encrypted())
    return socket_->receive(room.data(), room.size());
  std::lock_guard pen{pen_};
  return socket_->receive(room.data(), room.size());
}

void MessageLink::on_readable() {
  // What TLS has read and not given is announced by no event.
  const auto limit = socket_->encrypted() ? ~uint64_t{0} : bytes_per_turn;
  uint64_t bytes = 0;
  looking_ = true; // wants_write() comes next
  while (down_.empty() && bytes < limit) {
    const auto got = receive(receiver_.room());
    bytes += got.bytes;
    received_.fetch_add(got.bytes, std::memory_order_relaxed);
    if (got.bytes > 0) {
      if (const auto fault = receiver_.filled(got.bytes); !fault.empty()) {
        broke_rules_ = true;
        set_down(fault);
      }
    } else if (got.down) {
      set_down("is gone");
    } else {
      break;
    }
  }
  reclaim();
  if (dirty_ && !blocked_ && down_.empty())
    pump(); // a writer that found the pen taken
}

void MessageLink::reclaim() {
  std::vector<TensorView> done; // their end may call back: under no lock
  sender_.reclaim(done);
}

bool MessageLink::arrive(uint64_t bytes) {
  arrived_.fetch_add(bytes, std::memory_order_relaxed);
  std::lock_guard lock{credit_mutex_};
  return source_.arrive(bytes);
}

void MessageLink::released(uint64_t bytes) {
  const auto total = released_.fetch_add(bytes) + bytes;
  if (total < renew_at_)
    return;
  {
    std::lock_guard lock{credit_mutex_};
    const auto granted = source_.renew(released_);
    if (granted == 0)
      return;
    // renew() grants again when half of the window has been let go.
    renew_at_ = granted - options_.window_bytes + options_.window_bytes / 2;
    sender_.owe(granted);
  }
  dirty_ = true;
  if (!blocked_)
    pump();
}

void MessageLink::set_down(const std::string& what) {
  broken_ = true;
  down_ = options_.peer + ' ' + what;
}

void MessageLink::close() {
  if (down_.empty())
    set_down("is no longer linked");
  broken_ = true;
  socket_->cut();
  std::vector<TensorView> done;
  {
    std::lock_guard pen{pen_};
    done = sender_.clear();
  }
  if (auto lent = sender_.close_loans(); options_.memory)
    options_.memory->keep(std::move(lent));
}

void MessageLink::hush() {
  {
    std::lock_guard pen{pen_};
    broken_ = true;
    socket_->cut();
  }
  look();
}

void MessageLink::own_values() {
  std::vector<TensorView> done; // their end may call back: under no lock
  std::lock_guard pen{pen_};
  done = sender_.own_values();
}

MessageLink::Counts MessageLink::counts() const {
  return {sender_.sent_bytes(), received_.load(std::memory_order_relaxed),
          arrived_.load(std::memory_order_relaxed), sender_.queued_bytes()};
}

} // namespace troupe
