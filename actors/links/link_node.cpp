#include "actors/links/link_node.hpp"

#include "actors/links/dial.hpp"
#include "actors/links/echo.hpp"
#include "actors/links/group_forming.hpp"
#include "actors/links/listener.hpp"
#include "actors/links/waiting_room.hpp"
#include "actors/process/random_hex.hpp"
#include "actors/sockets/addresses.hpp"
#include "actors/sockets/endpoint.hpp"
#include "kernels/base/error.hpp"

#include <atomic>
#include <csignal>
#include <map>
#include <optional>
#include <tuple>

namespace troupe {
namespace {

constexpr size_t key_bytes = 16;
constexpr auto greeting_patience = std::chrono::seconds{2};
constexpr auto silence = std::chrono::seconds{10};
/// The channel on which links are tried.
const std::string echo_channel = "echo of a link";
constexpr size_t max_echoes = 256;
constexpr auto echo_patience = std::chrono::seconds{5};

bool older(const Fence& one, const Fence& other) {
  return std::tie(one.term, one.epoch) < std::tie(other.term, other.epoch);
}

uint64_t random_id() {
  return std::stoull(random_hex(8), nullptr, 16) | 1;
}

/// A peer that dies must not end this process when a socket of TLS is written.
void ignore_broken_pipes() {
  struct sigaction now {};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
    ::signal(SIGPIPE, SIG_IGN);
}

void check_address(const LinkOptions& options) {
  if (!options.tls && !is_loopback(options.listen))
    throw InputError("links: refusing to listen on " + options.listen
                     + " without certificates; give --certificates FOLDER");
}

} // namespace

struct LinkNode::Impl {
  using GroupKey = std::pair<uint64_t, std::string>; ///< job and name

  struct Asked {
    Fence fence;
    std::string
      ended; ///< why this fence's forming has ended; empty: it goes on
    std::unique_ptr<GroupForming> forming;
  };

  struct Opening {
    std::unique_ptr<Dial> dial;
    std::function<void(ChannelOutcome)> done;
  };

  explicit Impl(LinkOptions given)
    : options((check_address(given), std::move(given))) {
    auto& own = room.own;
    own.id = random_id();
    own.key = random_hex(key_bytes);
    own.unix_name = "troupe-" + random_hex(key_bytes);
    own.host_mark = options.host_mark.empty() ? own_host_mark()
                                              : options.host_mark;
    room.loop = std::make_shared<IoLoop>();
    room.tls = options.tls.get();
    room.link = options.link;
    room.encryption = options.encryption;
    room.proxy = options.proxy;
    room.patience = options.patience;
    listener = std::make_unique<LinkListener>(
      *room.loop, ListenerOptions{room.tls, options.listen, own.key,
                                  own.unix_name, own.id});
    own.port = listener->port();
    own.host = announced();
    endpoint = own.text();
    waiting = std::make_unique<WaitingRoom>(*room.loop);
    handlers[echo_channel] = [this](ChannelArrival arrival) {
      add_echo(std::move(arrival.socket), Echo::Side::answers,
               IoLoop::Clock::now() + echo_patience, [](bool) {});
    };
    ignore_broken_pipes();
    room.loop->post([this] {
      listener->start(
        [this](LinkVisitor visitor) { on_visitor(std::move(visitor)); },
        [this](const std::string& why) { on_stranger(why); });
    });
  }

  ~Impl() {
    room.loop->post([this] { close(); });
    room.loop->stop();
  }

  std::string announced() const {
    if (listener->port() == 0 || !options.announce.empty())
      return options.announce;
    auto bound = SocketAddress::of_number(listener->host(), 1);
    if (!bound || !bound->is_any())
      return listener->host();
    auto own = first_own_address();
    return own.empty() ? "127.0.0.1" : own;
  }

  void close() {
    // Each callback may ask for more: it fails at once.
    closed = true;
    for (auto& [key, asked] : asked_for)
      if (asked.forming)
        asked.forming->fail("this process ends");
    asked_for.clear();
    for (auto& [id, opening] : openings)
      opening.done({"this process ends", nullptr, {}});
    openings.clear();
    while (!echoes.empty())
      echoes.front()->end();
    waiting.reset();
    listener.reset();
  }

  // --- who comes
  // --------------------------------------------------------------

  void on_stranger(const std::string& why) {
    ++strangers;
    const auto now = IoLoop::Clock::now();
    if (!options.log || now < quiet_until)
      return;
    quiet_until = now + silence;
    options.log("links: dropped a stranger: " + why + " ("
                + std::to_string(strangers) + " so far)");
  }

  void refuse(LinkVisitor visitor, const std::string& why) {
    ++refused;
    listener->refuse(std::move(visitor), why);
  }

  void on_visitor(LinkVisitor visitor) {
    if (visitor.hello.revision != link_revision)
      refuse(std::move(visitor),
             "it speaks revision " + std::to_string(link_revision)
               + " of links, not " + std::to_string(visitor.hello.revision)
               + "; use the same build everywhere");
    else if (visitor.hello.purpose == LinkPurpose::group)
      on_member(std::move(visitor));
    else
      on_channel_visitor(std::move(visitor));
  }

  void on_member(LinkVisitor visitor) {
    const auto& hello = visitor.hello;
    auto found = asked_for.find({hello.fence.job, hello.name});
    if (found == asked_for.end() || older(found->second.fence, hello.fence)) {
      waiting->add(std::move(visitor));
      return;
    }
    auto& asked = found->second;
    if (asked.fence != hello.fence) {
      refuse(std::move(visitor), "group " + hello.name + " is at epoch "
                                   + std::to_string(asked.fence.epoch)
                                   + ", not "
                                   + std::to_string(hello.fence.epoch));
    } else if (!asked.forming) {
      refuse(std::move(visitor), asked.ended);
    } else if (auto why = asked.forming->admit(visitor)) {
      refuse(std::move(visitor), *why);
    } else {
      ++accepted;
    }
  }

  // --- groups
  // -----------------------------------------------------------------

  void form(GroupRequest request, Descriptor segment,
            std::function<void(GroupOutcome)> done) {
    const GroupKey key{request.fence.job, request.group};
    auto& asked = asked_for[key];
    if (closed || older(request.fence, asked.fence)) {
      GroupOutcome outcome;
      outcome.error = "group " + request.group + ", epoch "
                      + std::to_string(request.fence.epoch) + ": "
                      + (closed ? "this process ends"
                                : "epoch " + std::to_string(asked.fence.epoch)
                                    + " has begun");
      done(std::move(outcome));
      return;
    }
    if (asked.forming)
      asked.forming->fail("epoch " + std::to_string(request.fence.epoch)
                          + " takes its place");
    asked.fence = request.fence;
    asked.ended.clear();
    asked.forming = std::make_unique<GroupForming>(
      room, std::move(request), std::move(segment),
      [this, key, done = std::move(done)](GroupOutcome outcome) {
        auto& ended = asked_for[key];
        ended.ended = outcome.error.empty() ? "the group is formed already"
                                            : "it gave up: " + outcome.error;
        auto forming = std::move(ended.forming);
        done(std::move(outcome));
      });
    asked.forming->start();
    for (auto& visitor : waiting->take(LinkPurpose::group, key.second))
      on_member(std::move(visitor));
  }

  // --- channels
  // ---------------------------------------------------------------

  void open(ChannelRequest request, std::function<void(ChannelOutcome)> done) {
    auto fail = [&](const std::string& why) {
      done({"channel " + request.channel + " to " + request.to + ": " + why,
            nullptr,
            {}});
    };
    auto to = parse_link_endpoint(request.endpoint);
    if (!to) {
      fail("it announced no address of its links");
      return;
    }
    const auto plan = plan_links({room.own, *to}, room.link);
    if (closed || !plan.error.empty()) {
      fail(closed ? "this process ends" : plan.error);
      return;
    }
    DialOrder order;
    order.to = *to;
    order.whom = request.to;
    order.local = plan.shared;
    order.hello.purpose = LinkPurpose::channel;
    order.hello.key = to->key;
    order.hello.id = room.own.id;
    order.hello.fence = request.fence;
    order.hello.name = request.channel;
    order.hello.from = request.from;
    order.hello.encrypted = !plan.shared
                            && encrypts(room.own, *to, room.encryption);
    order.deadline = request.deadline;
    order.proxy = room.proxy;
    if (plan.shared && options.memory)
      order.passed = options.memory->to_pass();
    const bool encrypted = order.hello.encrypted;
    const auto id = ++last_opening;
    openings[id].done = std::move(done);
    openings[id].dial = std::make_unique<Dial>(
      *room.loop, room.tls, std::move(order),
      [this, id, encrypted, local = plan.shared, name = request.channel,
       to = request.to](Dialed dialed) {
        auto done = std::move(openings[id].done);
        openings.erase(id);
        ChannelOutcome outcome;
        outcome.carrier = carrier(local, encrypted);
        if (!dialed.error.empty())
          outcome.error = "channel " + name + ": " + dialed.error;
        else
          outcome.passed = std::move(dialed.handshake->received());
        if (outcome.error.empty()
            && !(outcome.socket = dialed.handshake->finish(encrypted, room.tls,
                                                           to)))
          outcome.error = "channel " + name + ": it said too much";
        done(std::move(outcome));
      });
  }

  // --- trials of links ------------------------------------------------------

  void try_link(const LinkTrial& trial, std::function<void(bool)> done) {
    open(
      {{}, echo_channel, trial.from, trial.endpoint, trial.to, trial.deadline},
      [this, deadline = trial.deadline,
       done = std::move(done)](ChannelOutcome outcome) {
        if (closed || !outcome.socket)
          done(false);
        else
          add_echo(std::move(outcome.socket), Echo::Side::asks, deadline, done);
      });
  }

  void add_echo(std::unique_ptr<LinkSocket> socket, Echo::Side side,
                IoLoop::Clock::time_point deadline,
                std::function<void(bool)> done) {
    if (echoes.size() >= max_echoes)
      echoes.front()->end();
    const auto place = echoes.emplace(echoes.end());
    *place =
      std::make_unique<Echo>(*room.loop, std::move(socket), side, deadline,
                             [this, place, done = std::move(done)](bool all) {
                               const auto ended = std::move(*place);
                               echoes.erase(place);
                               done(all);
                             });
  }

  static const char* carrier(bool local, bool encrypted) {
    return local ? "unix" : encrypted ? "tcp+tls" : "tcp";
  }

  void on_channel_visitor(LinkVisitor visitor) {
    const auto& hello = visitor.hello;
    if (!handlers.contains(hello.name)) {
      waiting->add(std::move(visitor));
      return;
    }
    const bool forced = options.encryption != LinkEncryption::automatic;
    const bool wanted = options.encryption == LinkEncryption::on;
    if (!visitor.local && forced && hello.encrypted != wanted) {
      refuse(std::move(visitor),
             "the two were told different encryption (--link-encryption); give "
             "all roles of a job the same flags");
      return;
    }
    LinkWelcome answer;
    answer.id = room.own.id;
    auto place = answering.insert(answering.end(), std::move(visitor));
    auto& conversation = *place->conversation;
    std::vector<Descriptor> passed;
    if (place->local && options.memory)
      passed = options.memory->to_pass();
    conversation.handshake().greet(encode(answer), std::move(passed));
    conversation.go(IoLoop::Clock::now() + greeting_patience,
                    [this, place](Handshake::State state) {
                      auto whose = std::move(*place);
                      answering.erase(place);
                      if (state == Handshake::State::sent)
                        arrive(std::move(whose));
                    });
  }

  void arrive(LinkVisitor visitor) {
    auto& hello = visitor.hello;
    const bool encrypted = hello.encrypted && !visitor.local;
    auto handshake = visitor.conversation->release();
    auto passed = std::move(handshake->received());
    auto socket = handshake->finish(encrypted, room.tls, hello.from);
    auto handler = handlers.find(hello.name);
    if (!socket || handler == handlers.end())
      return; // its end tells the other side
    ++accepted;
    auto call = handler->second; // it may replace itself
    call({hello.fence, hello.from, std::move(socket),
          carrier(visitor.local, encrypted), std::move(passed)});
  }

  void listen_for(const std::string& channel,
                  std::function<void(ChannelArrival)> handler) {
    if (!handler) {
      handlers.erase(channel);
      return;
    }
    handlers[channel] = std::move(handler);
    for (auto& visitor : waiting->take(LinkPurpose::channel, channel))
      on_channel_visitor(std::move(visitor));
  }

  LinkOptions options;
  std::optional<TlsContext> tls;
  LinkRoom room;
  std::string endpoint;
  std::atomic<uint64_t> accepted{0};
  std::atomic<uint64_t> strangers{0};
  std::atomic<uint64_t> refused{0};
  IoLoop::Clock::time_point quiet_until{};
  bool closed = false;

  std::unique_ptr<LinkListener> listener;
  std::unique_ptr<WaitingRoom> waiting;
  std::map<GroupKey, Asked> asked_for;
  std::map<uint64_t, Opening> openings;
  uint64_t last_opening = 0;
  std::list<std::unique_ptr<Echo>> echoes;
  std::map<std::string, std::function<void(ChannelArrival)>> handlers;
  std::list<LinkVisitor> answering;
};

LinkNode::LinkNode(LinkOptions options)
  : impl_(std::make_unique<Impl>(std::move(options))) {}

LinkNode::~LinkNode() = default;

const std::string& LinkNode::endpoint() const {
  return impl_->endpoint;
}

void LinkNode::form_group(GroupRequest request,
                          std::function<void(GroupOutcome)> done) {
  auto segment = std::make_shared<Descriptor>(
    request.segment < 0 ? Descriptor{} : duplicate(request.segment));
  auto shared = std::make_shared<GroupRequest>(std::move(request));
  impl_->room.loop->post(
    [impl = impl_.get(), shared, segment, done = std::move(done)]() mutable {
      impl->form(std::move(*shared), std::move(*segment), std::move(done));
    });
}

void LinkNode::open_channel(ChannelRequest request,
                            std::function<void(ChannelOutcome)> done) {
  impl_->room.loop->post([impl = impl_.get(), request = std::move(request),
                          done = std::move(done)]() mutable {
    impl->open(std::move(request), std::move(done));
  });
}

void LinkNode::try_link(LinkTrial trial, std::function<void(bool works)> done) {
  impl_->room.loop->post([impl = impl_.get(), trial = std::move(trial),
                          done = std::move(done)]() mutable {
    impl->try_link(trial, std::move(done));
  });
}

void LinkNode::on_channel(std::string channel,
                          std::function<void(ChannelArrival)> handler) {
  impl_->room.loop->post([impl = impl_.get(), channel = std::move(channel),
                          handler = std::move(handler)]() mutable {
    impl->listen_for(channel, std::move(handler));
  });
}

const std::shared_ptr<LinkMemory>& LinkNode::memory() const {
  return impl_->options.memory;
}

LinkCounters LinkNode::counters() const {
  return {impl_->accepted, impl_->strangers, impl_->refused};
}

std::chrono::milliseconds LinkNode::patience() const {
  return impl_->options.patience;
}

IoLoop& LinkNode::io() {
  return *impl_->room.loop;
}

} // namespace troupe
