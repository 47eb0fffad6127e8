#include "actors/links/group_forming.hpp"

#include "actors/sockets/addresses.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace troupe {
namespace {

constexpr size_t max_members = 1024;

/// A memory file of zeros whose size stays. Errors: invalid, and errno.
Descriptor make_control(uint64_t bytes) {
  Descriptor made{
    ::memfd_create("troupe-group", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (made
      && (::ftruncate(made.get(), static_cast<off_t>(bytes)) != 0
          || ::fcntl(made.get(), F_ADD_SEALS,
                     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
               != 0))
    made.reset();
  return made;
}

/// Memory that cannot shrink under whoever maps it.
bool is_sealed_memory(int descriptor) {
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

bool has_size(int descriptor, uint64_t bytes) {
  struct stat found {};
  return ::fstat(descriptor, &found) == 0
         && found.st_size >= static_cast<off_t>(bytes);
}

std::vector<std::string>
names_of(const std::vector<GroupRequest::Member>& members) {
  std::vector<std::string> out;
  for (const auto& member : members)
    out.push_back(member.name);
  return out;
}

class FormedGroup : public LinkGroup {
public:
  explicit FormedGroup(std::shared_ptr<GroupWatch> watch)
    : watch_(std::move(watch)) {}
  ~FormedGroup() override { watch_->close(); }

private:
  std::shared_ptr<GroupWatch> watch_;
};

} // namespace

GroupForming::GroupForming(const LinkRoom& room, GroupRequest request,
                           Descriptor segment, Done done)
  : room_(room),
    request_(std::move(request)),
    segment_(std::move(segment)),
    done_(std::move(done)),
    peers_(request_.members.size()),
    watch_(std::make_shared<GroupWatch>(room.loop, names_of(request_.members),
                                        room.patience, request_.metrics)) {}

GroupForming::~GroupForming() {
  room_.loop->cancel(timer_);
  if (watch_)
    watch_->close();
}

std::string GroupForming::whom(uint32_t rank) const {
  const auto& name = request_.members[rank].name;
  return name.empty() ? "rank " + std::to_string(rank) : name;
}

bool GroupForming::encrypted(uint32_t rank) const {
  return !plan_.shared
         && encrypts(room_.own, peers_[rank].at, room_.encryption);
}

std::string GroupForming::check() {
  const auto members = request_.members.size();
  if (members == 0 || members > max_members || request_.rank >= members
      || request_.group.empty() || request_.group.size() > longest_link_name)
    return "a group of " + std::to_string(members)
           + " members cannot be formed";
  std::vector<LinkEndpoint> all;
  for (uint32_t rank = 0; rank < members; ++rank) {
    auto found = parse_link_endpoint(request_.members[rank].endpoint);
    if (!found)
      return whom(rank) + " announced no address of its links";
    peers_[rank].at = *found;
    all.push_back(*found);
  }
  if (all[request_.rank].id != room_.own.id)
    return whom(request_.rank) + " is another process than this one";
  plan_ = plan_links(all, room_.link);
  if (plan_.error.empty() && plan_.shared && request_.rank == 0
      && request_.control_bytes > 0) {
    control_ = request_.control >= 0 ? duplicate(request_.control)
                                     : make_control(request_.control_bytes);
    if (!control_)
      return std::string{"cannot make shared memory: "} + std::strerror(errno);
  }
  return plan_.error;
}

void GroupForming::start() {
  timer_ = room_.loop->at(request_.deadline, [this] {
    late_ = true;
    fail("no link in time with " + missing());
  });
  auto error = check();
  if (!error.empty()) {
    fail(error, !plan_.error.empty());
    return;
  }
  watch_->tell([this](uint32_t rank) {
    const auto others = missing();
    fail(whom(rank) + " (" + peers_[rank].at.address()
         + ") ended its link: its process died or it gave up"
         + (others.empty() ? "" : "; not linked yet: " + others));
  });
  peers_[request_.rank].linked = true;
  for (uint32_t rank = 0; rank < request_.rank; ++rank)
    dial(rank);
  finish();
}

void GroupForming::dial(uint32_t rank) {
  DialOrder order;
  order.to = peers_[rank].at;
  order.whom = whom(rank);
  order.local = plan_.shared;
  auto& hello = order.hello;
  hello.key = order.to.key;
  hello.id = room_.own.id;
  hello.fence = request_.fence;
  hello.name = request_.group;
  hello.from = whom(request_.rank);
  hello.rank = request_.rank;
  hello.members = static_cast<uint32_t>(peers_.size());
  hello.shared = plan_.shared;
  hello.encrypted = encrypted(rank);
  hello.segment = plan_.shared && segment_;
  if (hello.segment)
    order.passed.push_back(duplicate(segment_.get()));
  order.deadline = request_.deadline;
  order.proxy = room_.proxy;
  peers_[rank].dial = std::make_unique<Dial>(
    *room_.loop, room_.tls, std::move(order),
    [this, rank](Dialed dialed) { on_dialed(rank, std::move(dialed)); });
}

void GroupForming::on_dialed(uint32_t rank, Dialed dialed) {
  peers_[rank].dial.reset();
  if (!dialed.error.empty()) {
    fail(dialed.error);
    return;
  }
  const auto error = take_passed(
    rank, *dialed.handshake, dialed.welcome.segment, dialed.welcome.control);
  if (!error.empty())
    fail(error);
  else
    link(rank, std::move(dialed.handshake));
}

std::optional<std::string> GroupForming::admit(LinkVisitor& visitor) {
  const auto& hello = visitor.hello;
  const auto rank = hello.rank;
  if (rank <= request_.rank || rank >= peers_.size())
    return "rank " + std::to_string(rank) + " does not visit "
           + whom(request_.rank);
  auto& peer = peers_[rank];
  if (hello.from != whom(rank))
    return hello.from + " does not come as " + whom(rank);
  if (hello.id != peer.at.id)
    return whom(rank) + " is another process in this epoch";
  if (peer.linked)
    return whom(rank) + " is linked already";
  std::string difference;
  if (hello.members != peers_.size())
    difference = "members (" + std::to_string(hello.members) + " and "
                 + std::to_string(peers_.size()) + ")";
  else if (hello.shared != plan_.shared || visitor.local != plan_.shared)
    difference = "links (--link)";
  else if (hello.encrypted != encrypted(rank))
    difference = "encryption (--link-encryption)";
  if (!difference.empty()) {
    const auto line = whom(rank) + " and " + whom(request_.rank)
                      + " were told different " + difference
                      + "; give all roles of a job the same flags";
    // It must not be now: the caller still holds the visitor.
    room_.loop->cancel(timer_);
    timer_ = room_.loop->at(IoLoop::Clock::now(),
                            [this, line] { fail(line, true); });
    return line;
  }
  auto error = take_passed(rank, visitor.conversation->handshake(),
                           hello.segment, false);
  if (!error.empty())
    return error;
  LinkWelcome answer;
  answer.id = room_.own.id;
  std::vector<Descriptor> passed;
  if (plan_.shared && segment_) {
    answer.segment = true;
    passed.push_back(duplicate(segment_.get()));
  }
  if (plan_.shared && request_.rank == 0 && control_) {
    answer.control = true;
    passed.push_back(duplicate(control_.get()));
  }
  peer.answering = std::move(visitor.conversation);
  peer.answering->handshake().greet(encode(answer), std::move(passed));
  peer.answering->go(request_.deadline, [this, rank](Handshake::State state) {
    on_answered(rank, state);
  });
  return std::nullopt;
}

void GroupForming::on_answered(uint32_t rank, Handshake::State state) {
  auto conversation = std::move(peers_[rank].answering);
  // Otherwise it went while it was answered, and may come back.
  if (state == Handshake::State::sent)
    link(rank, conversation->release());
}

std::string GroupForming::take_passed(uint32_t rank, Handshake& handshake,
                                      bool segment, bool control) {
  auto& received = handshake.received();
  const auto expected = size_t{segment} + size_t{control};
  bool fine = received.size() == expected
              && control
                   == (plan_.shared && rank == 0 && request_.control_bytes > 0);
  for (const auto& one : received)
    fine = fine && is_sealed_memory(one.get());
  if (fine && control)
    fine = has_size(received.back().get(), request_.control_bytes);
  if (!fine)
    return whom(rank) + " passed other memory than was agreed on";
  if (segment)
    peers_[rank].segment = std::move(received.front());
  if (control)
    control_ = std::move(received.back());
  return {};
}

void GroupForming::link(uint32_t rank, std::unique_ptr<Handshake> handshake) {
  auto& peer = peers_[rank];
  if (plan_.shared) {
    watch_->add(rank, handshake->take_descriptor());
  } else {
    peer.socket = handshake->finish(encrypted(rank), room_.tls, whom(rank));
    auto watched = peer.socket ? duplicate(peer.socket->descriptor())
                               : Descriptor{};
    if (!watched) {
      fail(whom(rank) + ": its link cannot be used: "
           + (peer.socket ? std::strerror(errno) : "it said too much"));
      return;
    }
    watch_->add(rank, std::move(watched));
  }
  peer.linked = true;
  finish();
}

void GroupForming::finish() {
  if (!done_
      || !std::all_of(peers_.begin(), peers_.end(),
                      [](const Peer& peer) { return peer.linked; }))
    return;
  GroupOutcome outcome;
  outcome.hosts = plan_.hosts;
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    auto& peer = peers_[rank];
    const bool own = rank == request_.rank;
    if (plan_.shared)
      outcome.segments.push_back(own ? std::move(segment_)
                                     : std::move(peer.segment));
    else
      outcome.sockets.push_back(std::move(peer.socket));
    const auto* carrier = plan_.shared      ? "shm"
                          : encrypted(rank) ? "tcp+tls"
                                            : "tcp";
    outcome.carriers.emplace_back(own ? "" : carrier);
  }
  outcome.control = std::move(control_);
  outcome.group = std::make_unique<FormedGroup>(watch_);
  auto watch = std::exchange(watch_, nullptr);
  watch->tell(nullptr);
  auto done = std::exchange(done_, nullptr);
  std::vector<std::string> lines;
  for (uint32_t rank = 0; rank < peers_.size(); ++rank)
    lines.push_back(whom(rank) + " (" + peers_[rank].at.address()
                    + ") ended its link: its process died or it left");
  auto heard = [on_down = request_.on_down,
                lines = std::move(lines)](uint32_t rank) {
    if (on_down)
      on_down(rank, lines[rank]);
  };
  // Whoever gets the group has it before it hears of its members' end.
  done(std::move(outcome)); // may end this object
  watch->tell(std::move(heard));
}

void GroupForming::fail(const std::string& why, bool hopeless) {
  if (!done_)
    return;
  GroupOutcome outcome;
  outcome.error = "group " + request_.group + ", epoch "
                  + std::to_string(request_.fence.epoch) + ": " + why;
  outcome.hopeless = hopeless;
  for (uint32_t rank = 0; late_ && rank < peers_.size(); ++rank)
    if (!peers_[rank].linked)
      outcome.missing.push_back(rank);
  outcome.hosts = plan_.hosts;
  watch_->close();
  auto done = std::exchange(done_, nullptr);
  done(std::move(outcome)); // may end this object
}

std::string GroupForming::missing() const {
  std::string result;
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    const auto& peer = peers_[rank];
    if (peer.linked)
      continue;
    const auto waited = peer.dial ? peer.dial->waits_for()
                                  : std::string{"it does not connect"};
    result += (result.empty() ? "" : ", ") + whom(rank) + " ("
              + peer.at.address() + ": " + waited + ')';
  }
  return result;
}

} // namespace troupe
