#include "apps/launch/cluster.hpp"

#include "actors/certificates/member_name.hpp"
#include "actors/process/random_hex.hpp"
#include "actors/sockets/addresses.hpp"
#include "actors/sockets/descriptor.hpp"
#include "actors/sockets/endpoint.hpp"
#include "actors/wire/version.hpp"
#include "apps/launch/trial_door.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/rest_of.hpp"
#include "kernels/files/input_file.hpp"
#include "kernels/files/safetensors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <sstream>
#include <utility>

namespace troupe {
namespace {

using std::chrono::milliseconds;

constexpr const char* this_machine = "localhost";
constexpr std::chrono::seconds pulse_period{1};
constexpr milliseconds look_period{20};
/// How long others may take where one host has failed already.
constexpr milliseconds after_failure{1'000};
/// An agent's own deadline for a way comes first, but where its host is busy.
constexpr std::chrono::seconds ways_deadline{3};
constexpr milliseconds end_deadline{2'000};
/// A megabyte a role at most, packed, by ssh.
constexpr std::chrono::seconds flights_deadline{10};
constexpr milliseconds clocks_deadline{1'000};
/// Once there are as many hosts as are needed, others have so long to be among
/// the first.
constexpr milliseconds for_others{2'000};
/// Between two tries to reach a host, and before the first one to a host that
/// has gone, or does not reach others.
constexpr std::chrono::seconds seek_period{5};
constexpr std::chrono::seconds gone_period{10};
/// All others try the ways to a host, so one that they do not reach, or that
/// does not reach them, rests twice as long each time, up to this.
constexpr std::chrono::seconds longest_rest{60};
/// Of a host that is looked at: it tries its ways for less.
constexpr std::chrono::seconds answer_deadline{20};
/// Certificates hold from an hour before they are made on.
constexpr double early_s = 3'500;
/// A clock that is further off is told of.
constexpr double told_off_s = 30;
/// A host that has not answered for so long is told of, once.
constexpr std::chrono::seconds told_after{3};
constexpr uint64_t longest_hosts_file = uint64_t{1} << 24;
/// A line of a role's, as JSON has it.
constexpr size_t longest_message = size_t{1} << 20;

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in{text};
  return {std::istream_iterator<std::string>{in}, {}};
}

/// The file of a program, found as a shell does.
std::string found_in_path(const std::string& program) {
  if (program.find('/') != std::string::npos)
    return program;
  const auto* path = std::getenv("PATH");
  std::istringstream in{path != nullptr ? path : "/usr/bin:/bin"};
  for (std::string folder; std::getline(in, folder, ':');)
    if (auto file = folder + '/' + program; ::access(file.c_str(), X_OK) == 0)
      return file;
  throw InputError(program
                   + " is not installed here (package openssh-client): name "
                     "another one with --ssh");
}

std::string joined(const std::vector<std::string>& lines, const char* between) {
  std::string out;
  for (const auto& line : lines)
    out += (out.empty() ? "" : between) + line;
  return out;
}

/// An empty file for others to look for, as long as this lives.
class TrialFile {
public:
  /// Errors: InputError.
  explicit TrialFile(const std::string& folder)
    : path_((std::filesystem::absolute(folder) / ("trial-" + random_hex(8)))
              .string()) {
    std::error_code failure;
    std::filesystem::create_directories(folder, failure);
    if (failure)
      throw InputError("--checkpoint-dir " + folder + ": cannot be made ("
                       + failure.message() + ")");
    if (const Descriptor file{
          ::open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644)};
        !file)
      throw InputError("--checkpoint-dir " + folder + ": cannot be written ("
                       + std::strerror(errno) + ")");
  }
  ~TrialFile() {
    std::error_code failure;
    std::filesystem::remove(path_, failure);
  }
  TrialFile(const TrialFile&) = delete;
  TrialFile& operator=(const TrialFile&) = delete;

  const std::string& path() const { return path_; }

private:
  std::string path_;
};

std::vector<HostSlots> hosts_of(const LaunchFlags& flags,
                                std::map<std::string, std::string>& addresses) {
  std::vector<HostSlots> hosts;
  std::string mistake;
  if (flags.hosts_file.empty()) {
    if (!parse_hosts(flags.hosts, hosts, mistake))
      throw UsageError("--hosts " + flags.hosts + ": " + mistake);
    return hosts;
  }
  std::string text;
  try {
    text = whole_file(flags.hosts_file, longest_hosts_file, "a list of hosts");
  } catch (const InputError& failure) {
    throw InputError(std::string{"--hosts-file "} + failure.what());
  }
  if (!parse_host_lines(text, hosts, addresses, mistake))
    throw InputError("--hosts-file " + flags.hosts_file + ": " + mistake);
  return hosts;
}

} // namespace

Cluster::Cluster(const LaunchFlags& flags, Plan plan, bool in_lock_step,
                 uint32_t min_workers)
  : flags_(flags),
    plan_(std::move(plan)),
    in_lock_step_(in_lock_step),
    placement_(hosts_of(flags, addresses_)) {
  std::string mistake;
  if (flags_.min_hosts > 0) {
    HostPool pool{placement_.hosts(),
                  {flags_.min_hosts, flags_.max_hosts,
                   std::max<uint32_t>(1, plan_.owners)}};
    if (mistake = pool.refusal(plan_, min_workers); !mistake.empty())
      throw UsageError("launch: " + mistake);
    elastic_ = std::make_shared<ElasticHosts>(
      std::move(pool),
      static_cast<uint32_t>(plan_.of_kind(RoleKind::worker).size()));
  } else if (!placement_.place(plan_, mistake)) {
    throw UsageError("launch: " + mistake);
  }
  devices_ = static_cast<uint32_t>(placement_.roles().size());
  file_.version = version;
  file_.path = flags_.remote_path;
  file_.own_path = !flags_.remote_path.empty();
  processes_ = std::make_unique<ChildProcesses>(
    ChildProcesses::Options{-1, false, {}, longest_message});
}

Cluster::~Cluster() {
  {
    const std::lock_guard guard{mutex_};
    over_ = true;
    changed_.notify_all();
  }
  if (pulse_.joinable())
    pulse_.join();
  processes_.reset(); // ends ssh, and with it what is still there
}

bool Cluster::is_here(size_t host) const {
  return placement_.hosts()[host].name == this_machine;
}

Cluster::Names Cluster::command_on(size_t host) const {
  if (is_here(host))
    return {"/proc/self/fd/" + std::to_string(image_.descriptor()), "node"};
  auto words = ssh_words(words_of(flags_.ssh), flags_.connect_deadline_s,
                         placement_.hosts()[host].name, agent_command(file_));
  words.front() = found_in_path(words.front());
  return words;
}

std::string Cluster::describe() const {
  std::string out = "this machine\n  troupe role coordinator --listen "
                    + (flags_.address.empty() ? std::string{"ADDRESS"}
                                              : flags_.address)
                    + ":PORT --certificates MEMORY, with the flags of train\n";
  if (elastic_)
    return out + describe_elastic();
  const auto& hosts = placement_.hosts();
  for (size_t host = 0; host < hosts.size(); ++host) {
    const auto roles = placement_.on(host);
    out += hosts[host].name + ", " + std::to_string(roles.size()) + " of "
           + std::to_string(hosts[host].slots) + " slots\n";
    if (roles.empty())
      continue;
    out +=
      is_here(host)
        ? "  troupe node\n"
        : "  "
            + joined(ssh_words(words_of(flags_.ssh), flags_.connect_deadline_s,
                               hosts[host].name,
                               (file_.own_path ? file_.path
                                               : usual_remote_path("SHA256"))
                                 + " node"),
                     " ")
            + "\n";
    const auto given = addresses_.find(hosts[host].name);
    for (const auto role : roles)
      out += "    troupe role "
             + (plan_.paired
                  ? to_string(MemberName{MemberName::Kind::sharded, role.index})
                  : to_string(role))
             + " --supervised --coordinator ADDRESS:PORT --listen "
             + (given == addresses_.end() ? "ADDRESS-OF-HOST" : given->second)
             + ":0 --certificates MEMORY\n";
  }
  std::vector<std::string> ways;
  for (const auto& [one, other] : placement_.links(plan_, in_lock_step_))
    ways.push_back(hosts[one].name + " - " + hosts[other].name);
  out += "tried before the first step: each host - coordinator";
  for (const auto& way : ways)
    out += ", " + way;
  return out + "\n";
}

std::string Cluster::describe_elastic() const {
  std::string out;
  for (size_t host = 0; host < placement_.hosts().size(); ++host) {
    const auto& of = placement_.hosts()[host];
    out += of.name + ", " + std::to_string(of.slots) + " slots\n  "
           + (is_here(host)
                ? std::string{"troupe node"}
                : joined(
                  ssh_words(
                    words_of(flags_.ssh), flags_.connect_deadline_s, of.name,
                    (file_.own_path ? file_.path : usual_remote_path("SHA256"))
                      + " node"),
                  " "))
           + '\n';
  }
  out += "with " + std::to_string(flags_.min_hosts) + " of these hosts, "
         + std::to_string(flags_.max_hosts) + " at most, as they come:\n";
  for (const auto& role : plan_.roles)
    if (role.role.kind == RoleKind::shard || role.role.kind == RoleKind::worker
        || role.role.kind == RoleKind::reader)
      out += "    troupe role " + to_string(role.role) + '\n';
  return out;
}

/// The bytes of this program: read once, whatever happens to its file.
std::shared_ptr<const std::string> Cluster::program() {
  const std::lock_guard guard{mutex_};
  if (!bytes_) {
    std::ifstream file{"/proc/self/exe", std::ios::binary};
    bytes_ = std::make_shared<const std::string>(rest_of(file));
  }
  return bytes_;
}

/// Of an earlier run, whose recorders had the same folder.
void Cluster::remove_brought() const {
  std::error_code failure;
  std::filesystem::directory_iterator files;
  if (!flights_.empty())
    files = std::filesystem::directory_iterator{flights_, failure};
  for (const auto& entry : files)
    if (entry.path().filename().string().starts_with(brought_prefix))
      std::filesystem::remove(entry.path(), failure);
}

void Cluster::make_links() {
  remove_brought();
  const auto& hosts = placement_.hosts();
  bool elsewhere = false;
  for (size_t host = 0; host < hosts.size(); ++host)
    elsewhere = elsewhere || !is_here(host);
  if (elsewhere) {
    const auto bytes = program();
    file_.bytes = bytes->size();
    file_.sha256 = sha256(std::as_bytes(std::span{*bytes}));
    if (!file_.own_path)
      file_.path = usual_remote_path(file_.sha256);
  }
  const auto room = std::make_shared<BroughtRoom>();
  for (size_t host = 0; host < hosts.size(); ++host) {
    AgentLink::Options link;
    link.room = room;
    link.name = hosts[host].name;
    link.command = command_on(host);
    if (!is_here(host))
      link.program = [this] { return program(); };
    link.why = [name = link.name, file = file_](const Names& said,
                                                const std::string& end) {
      return why_no_agent(name, file, said, end);
    };
    if (const auto given = addresses_.find(link.name);
        given != addresses_.end())
      link.address = given->second;
    link.signer = signer_;
    link.flights = flights_;
    link.note = [this](std::string line) { say(std::move(line)); };
    link.processes = processes_.get();
    link.deadline = std::chrono::seconds{flags_.connect_deadline_s + 1};
    links_.push_back(std::make_shared<AgentLink>(std::move(link)));
  }
}

/// What is said before there is somebody who takes the notes.
void Cluster::tell() {
  for (size_t host = 0; host < links_.size(); ++host)
    if (links_[host]->asked_for() > told_after && silent_.insert(host).second)
      say(links_[host]->name() + " has not answered for "
          + std::to_string(told_after.count())
          + " s: is it up, and does no firewall drop ssh?");
  for (const auto& line : take_notes())
    if (note_)
      note_(line);
}

/// Of open()'s thread. Returns false where it is to stop.
bool Cluster::wait_for(const std::function<bool()>& condition,
                       milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (!stop_().empty())
      return false;
    if (std::chrono::steady_clock::now() > end)
      break;
    tell();
    std::this_thread::sleep_for(look_period);
  }
  tell();
  return true;
}

bool Cluster::takes_part(size_t host) const {
  return elastic_ ? elastic_->pool().is_there(host) : placement_.used(host);
}

std::set<std::pair<size_t, size_t>> Cluster::pairs() const {
  if (!elastic_)
    return placement_.links(plan_, in_lock_step_);
  std::set<std::pair<size_t, size_t>> out;
  const auto pool = elastic_->pool();
  for (size_t one = 0; one < links_.size(); ++one)
    for (size_t other = one + 1; other < links_.size(); ++other)
      if (pool.is_there(one) && pool.is_there(other))
        out.insert({one, other});
  return out;
}

/// As many as are needed, and who else is there by then. Returns false where it
/// is to stop.
bool Cluster::meet_some() {
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> next(links_.size());
  std::optional<Clock::time_point> enough;
  Names failures(links_.size());
  const auto look = [&] {
    size_t here = 0;
    bool all = true;
    const auto now = Clock::now();
    for (size_t host = 0; host < links_.size(); ++host) {
      std::string why;
      const bool settled = links_[host]->settled(why);
      here += links_[host]->is_here() ? 1 : 0;
      all = all && settled;
      if (!why.empty())
        failures[host] = why;
      if (!settled || why.empty())
        continue;
      if (next[host] == Clock::time_point{})
        next[host] = now + seek_period;
      else if (now > next[host]) {
        next[host] = {};
        links_[host]->begin();
      }
    }
    if (here >= flags_.min_hosts && !enough)
      enough = now;
    return enough && (all || now - *enough > for_others);
  };
  for (const auto& link : links_)
    link->begin();
  const auto began = Clock::now();
  const auto end = began + std::chrono::seconds{flags_.connect_deadline_s}
                   + for_others;
  // Each link gives up by itself, one that gets the program after some minutes.
  const auto over = [&] {
    return look()
           || (Clock::now() > end
               && std::ranges::none_of(links_, &AgentLink::gets_program));
  };
  if (!wait_for(over, std::chrono::hours{1}))
    return false;
  size_t here = 0;
  for (size_t host = 0; host < links_.size(); ++host)
    if (links_[host]->is_here()) {
      ++here;
      failures[host].clear();
      elastic_->came(host);
    } else if (failures[host].empty()) {
      failures[host] = links_[host]->name() + " is still being connected to";
    }
  if (here >= flags_.min_hosts)
    return true;
  std::erase(failures, std::string{});
  const auto passed =
    std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - began);
  throw InputError(
    "--hosts asks for " + std::to_string(flags_.min_hosts) + " hosts, and has "
    + std::to_string(here) + " after " + std::to_string(passed.count())
    + " s (--connect-deadline-s " + std::to_string(flags_.connect_deadline_s)
    + "): " + joined(failures, "; "));
}

/// Roles get their hosts; who is not here is looked for from now on.
void Cluster::begin_elastic() {
  std::vector<RoleId> roles;
  for (auto kind : {RoleKind::shard, RoleKind::reader, RoleKind::worker})
    for (const auto& role : plan_.of_kind(kind))
      roles.push_back(role.role);
  elastic_->place(roles);
  const auto pool = elastic_->pool();
  const std::lock_guard guard{mutex_};
  seeks_.resize(links_.size());
  for (size_t host = 0; host < links_.size(); ++host)
    seeks_[host].state = pool.is_there(host) ? Seek::State::in_use
                                             : Seek::State::connecting;
  seeks_hosts_ = true;
}

void Cluster::say(std::string line) {
  const std::lock_guard guard{mutex_};
  notes_.push_back(std::move(line));
}

std::vector<std::string> Cluster::take_notes() {
  const std::lock_guard guard{mutex_};
  return std::exchange(notes_, {});
}

std::string Cluster::wish() {
  return elastic_ ? elastic_->wish() : std::string{};
}

void Cluster::look_for_hosts() {
  for (size_t host = 0; host < seeks_.size(); ++host)
    try {
      look_for(host);
    } catch (const std::exception& failure) { // no process could be started
      refuse(host, failure.what());
    }
}

/// It is tried again later. What was said already is not said again.
void Cluster::refuse(size_t host, const std::string& why) {
  auto& seek = seeks_[host];
  const bool tried = seek.state == Seek::State::trying
                     || seek.state == Seek::State::tried;
  if (tried)
    seek.rest = std::clamp(2 * seek.rest, seek_period, longest_rest);
  seek.state = Seek::State::away;
  seek.next = std::chrono::steady_clock::now()
              + (tried ? seek.rest : seek_period);
  if (seek.why != why)
    say(links_[host]->name() + " is not taken: " + why);
  seek.why = why;
}

void Cluster::look_for(size_t host) {
  auto& seek = seeks_[host];
  const auto& link = links_[host];
  const auto now = std::chrono::steady_clock::now();
  std::string why;
  switch (seek.state) {
    case Seek::State::in_use:
      if (link->is_here() && elastic_->pool().is_there(host))
        return;
      elastic_->went(host);
      seek = {Seek::State::away, now + gone_period, {}};
      say(link->name()
          + " has gone: its roles go to other hosts, or wait for one");
      return;
    case Seek::State::away:
      if (now < seek.next)
        return;
      link->begin(); // it may be here again by itself
      seek.state = Seek::State::connecting;
      return;
    case Seek::State::connecting:
      if (!link->settled(why))
        return;
      if (why.empty())
        try {
          check_clock(*link);
          const auto here = link->here();
          if (any_way_ && here && !here->client.empty())
            link->reach_coordinator_at(here->client);
          if (is_here(host) && link->address().empty())
            link->be_reached_at(any_way_ ? first_own_address() : coordinator_);
        } catch (const InputError& mistake) {
          why = mistake.what();
        }
      if (!why.empty())
        return refuse(host, why);
      link->listen();
      seek.state = Seek::State::opening;
      seek.next = now + answer_deadline;
      return;
    case Seek::State::opening: {
      if (!link->is_here())
        return refuse(host, "the connection ended");
      doors_[host] = link->listens(why);
      if (!why.empty())
        return refuse(host, why);
      if (doors_[host].empty()) {
        if (now > seek.next)
          refuse(host, "its agent does not answer");
        return;
      }
      link->try_ways(place_of_coordinator(host), doors_of_others());
      seek.state = Seek::State::trying;
      seek.next = now + answer_deadline;
      return;
    }
    case Seek::State::trying: {
      if (!link->is_here())
        return refuse(host, "the connection ended");
      const auto ways = link->ways();
      if (!ways) {
        if (now > seek.next)
          refuse(host, "its agent does not answer");
        return;
      }
      for (const auto& way : *ways)
        if (!way.why.empty())
          return refuse(host, "it does not reach " + way.at + ": " + way.why);
      if (others_try())
        return;
      const auto tried_already = [&](const std::string& place) {
        return std::ranges::count(*ways, place, &AgentLink::Way::at) > 0;
      };
      if (const auto coordinator = place_of_coordinator(host),
          doors = doors_of_others();
          !std::ranges::all_of(coordinator, tried_already)
          || !std::ranges::all_of(doors, tried_already)) {
        link->try_ways(coordinator, doors); // somebody has come meanwhile
      } else {
        let_others_try(host);
        seek.state = Seek::State::tried;
      }
      seek.next = now + answer_deadline;
      return;
    }
    case Seek::State::tried:
      look_at_others(host);
      return;
  }
}

/// Whom a host that comes has to reach, besides doors: empty where nobody is
/// there yet.
Cluster::Names Cluster::place_of_coordinator(size_t host) const {
  const auto at = elastic_->coordinator();
  return at.empty() ? Names{} : Names{links_[host]->coordinator_for(at)};
}

Cluster::Names Cluster::doors_of_others() const {
  Names places;
  const auto pool = elastic_->pool();
  for (size_t other = 0; other < links_.size(); ++other)
    if (pool.is_there(other))
      places.push_back(doors_[other]);
  return places;
}

/// The ways to one that comes: to one at a time.
bool Cluster::others_try() const {
  return std::ranges::any_of(seeks_, [](const Seek& one) {
    return one.state == Seek::State::tried;
  });
}

void Cluster::let_others_try(size_t host) {
  const auto pool = elastic_->pool();
  for (size_t other = 0; other < links_.size(); ++other)
    if (pool.is_there(other) && links_[other]->is_here())
      links_[other]->try_ways({}, {doors_[host]});
}

/// It is there once all others that still are have reached it.
void Cluster::look_at_others(size_t host) {
  auto& seek = seeks_[host];
  const auto& link = links_[host];
  if (!link->is_here())
    return refuse(host, "the connection ended");
  const auto pool = elastic_->pool();
  for (size_t other = 0; other < links_.size(); ++other) {
    if (!pool.is_there(other) || !links_[other]->is_here())
      continue;
    const auto ways = links_[other]->ways();
    if (!ways) { // its own loss is noticed elsewhere
      if (std::chrono::steady_clock::now() > seek.next)
        refuse(host, links_[other]->name()
                       + " does not say whether it "
                         "reaches it");
      return;
    }
    for (const auto& way : *ways)
      if (way.at == doors_[host] && !way.why.empty())
        return refuse(host,
                      links_[other]->name() + " does not reach it: " + way.why);
  }
  elastic_->came(host);
  seek = {Seek::State::in_use, {}, {}};
  const auto roles = elastic_->pool().on(host);
  say(link->name() + " (" + link->address() + ") is there"
      + (roles.empty() ? "" : ": " + to_string(roles)));
}

bool Cluster::meet() {
  if (elastic_)
    return meet_some();
  for (size_t host = 0; host < links_.size(); ++host)
    if (placement_.used(host))
      links_[host]->begin();
  const auto look = [&](Names* failures) {
    bool all = true;
    for (size_t host = 0; host < links_.size(); ++host) {
      std::string why;
      if (placement_.used(host) && !links_[host]->settled(why))
        all = false;
      if (!why.empty() && failures)
        failures->push_back(why);
    }
    return all;
  };
  const auto any_failed = [&] {
    Names failures;
    const bool all = look(&failures);
    return all || !failures.empty();
  };
  // Each link gives up by itself, one that gets the program after some minutes.
  if (!wait_for(any_failed, std::chrono::hours{1})
      || !wait_for([&] { return look(nullptr); }, after_failure))
    return false;
  Names failures;
  look(&failures);
  if (!failures.empty())
    throw InputError(joined(failures, "; "));
  return true;
}

void Cluster::check_clock(const AgentLink& link) {
  const auto here = link.here();
  if (!here)
    return;
  const auto behind = here->answered_s - static_cast<double>(here->time_s);
  if (behind > early_s)
    throw InputError(
      link.name() + ": its clock is " + std::to_string(std::lround(behind))
      + " s behind this machine's, where certificates are made, and they "
        "would not hold there yet: set it (timedatectl set-ntp true)");
  if (std::abs(behind) > told_off_s)
    say(link.name() + ": its clock is "
        + std::to_string(std::lround(std::abs(behind))) + " s "
        + (behind > 0 ? "behind" : "ahead of")
        + " this machine's, and so is what it says of when: set it "
          "(timedatectl set-ntp true)");
}

/// Returns the host of the coordinator's address.
std::string Cluster::settle_addresses() {
  std::set<std::string> clients;
  for (const auto& link : links_)
    if (const auto here = link->here(); here && !here->client.empty())
      clients.insert(here->client);
  auto coordinator = flags_.address;
  if (coordinator.empty())
    coordinator = clients.empty() ? "127.0.0.1" : *clients.begin();
  const bool any = flags_.address.empty() && clients.size() > 1;
  any_way_ = any;
  if (any) // each host reaches this machine by another way
    coordinator = std::ranges::any_of(clients,
                                      [](const std::string& x) {
                                        return x.find(':') != std::string::npos;
                                      })
                    ? "::"
                    : "0.0.0.0";
  for (size_t host = 0; host < links_.size(); ++host) {
    const auto here = links_[host]->here();
    if (is_here(host) && links_[host]->address().empty())
      links_[host]->be_reached_at(any ? first_own_address() : coordinator);
    if (any)
      links_[host]->reach_coordinator_at(
        here && !here->client.empty() ? here->client : first_own_address());
  }
  coordinator_ = coordinator;
  return coordinator;
}

/// Each host opens a port that others may try. Returns false where it is to
/// stop.
bool Cluster::open_doors() {
  doors_.assign(links_.size(), {});
  for (size_t host = 0; host < links_.size(); ++host)
    if (takes_part(host))
      links_[host]->listen();
  const auto open = [&] {
    bool all = true;
    for (size_t host = 0; host < links_.size(); ++host) {
      if (!takes_part(host))
        continue;
      std::string why;
      links_[host]->settled(why);
      if (!why.empty()) // it was lost again
        throw InputError(why);
      doors_[host] = links_[host]->listens(why);
      if (!why.empty())
        throw InputError(links_[host]->name() + ": " + why
                         + "; name one that it has as address= in "
                           "--hosts-file");
      all = all && !doors_[host].empty();
    }
    return all;
  };
  if (!wait_for(open, std::chrono::seconds{flags_.connect_deadline_s}))
    return false;
  if (!open())
    throw InputError("a host did not open a port in time, it may be busy; give "
                     "more --connect-deadline-s");
  return true;
}

/// Whom a host has to reach, and at which HOST:PORT.
std::map<std::string, std::string>
Cluster::places_for(size_t host, const std::string& coordinator) const {
  std::map<std::string, std::string> out;
  out[links_[host]->coordinator_for(coordinator)] =
    "the coordinator on this machine";
  for (const auto& [one, other] : pairs())
    if (one == host || other == host) {
      const auto there = one == host ? other : one;
      out[doors_[there]] = links_[there]->name();
    }
  return out;
}

/// What is known of the ways by now; `all`: of each host.
Cluster::Names Cluster::closed_ways(const std::string& coordinator,
                                    bool& all) const {
  Names out;
  all = true;
  for (size_t host = 0; host < links_.size(); ++host) {
    if (!takes_part(host))
      continue;
    std::string why;
    links_[host]->settled(why);
    if (!why.empty()) // it was lost again
      out.push_back(why);
    const auto ways = links_[host]->ways();
    all = all && ways;
    auto places = places_for(host, coordinator);
    for (const auto& way : ways.value_or(std::vector<AgentLink::Way>{}))
      if (const auto place = places.extract(way.at); place && !way.why.empty())
        out.push_back(links_[host]->name() + " does not reach " + place.mapped()
                      + ": " + way.why);
  }
  return out;
}

/// Returns false where it is to stop.
bool Cluster::try_ways(const std::string& coordinator) {
  if (!open_doors())
    return false;
  std::optional<TrialDoor> own;
  try {
    own.emplace(coordinator);
  } catch (const InputError& refused) {
    throw InputError("the hosts reach this machine as "
                     + std::string{refused.what()}
                     + "; name an address of it that they reach: --address A");
  }
  const auto at = own->at();
  for (size_t host = 0; host < links_.size(); ++host) {
    if (!takes_part(host))
      continue;
    Names places;
    for (const auto& [place, whose] : places_for(host, at))
      places.push_back(place);
    links_[host]->try_ways({}, places);
  }
  bool all = false;
  Names failures;
  const auto look = [&] {
    failures = closed_ways(at, all);
    return all || !failures.empty();
  };
  // One that fails is not kept waiting by those that drop what they get.
  if (!wait_for(look,
                std::chrono::seconds{flags_.connect_deadline_s} + ways_deadline)
      || !wait_for([&] { return look() && all; },
                   failures.empty() ? milliseconds{0} : after_failure))
    return false;
  if (!failures.empty())
    throw InputError(joined(failures, "; ")
                     + " (another address of a host: address= in "
                       "--hosts-file; of this machine: --address)");
  if (!all)
    throw InputError("a host did not say in time whom it reaches, it may be "
                     "busy; give more --connect-deadline-s");
  return true;
}

/// Returns false where it is to stop.
bool Cluster::try_folder() {
  const TrialFile trial{shared_};
  for (size_t host = 0; host < links_.size(); ++host)
    if (placement_.used(host))
      links_[host]->look(trial.path());
  Names failures;
  const auto all = [&] {
    failures.clear();
    for (size_t host = 0; host < links_.size(); ++host) {
      if (!placement_.used(host))
        continue;
      std::string lost;
      links_[host]->settled(lost);
      if (!lost.empty())
        throw InputError(lost);
      const auto why = links_[host]->looked();
      if (!why)
        return false;
      if (!why->empty())
        failures.push_back(links_[host]->name() + " does not see "
                           + trial.path() + " (" + *why + ")");
    }
    return true;
  };
  if (!wait_for(all, std::chrono::seconds{flags_.connect_deadline_s}))
    return false;
  if (!all())
    throw InputError("a host did not say in time whether it sees "
                     + trial.path()
                     + ", its disk may be late; give more "
                       "--connect-deadline-s");
  if (!failures.empty())
    throw InputError("--on-loss replan: " + joined(failures, "; ")
                     + ": name a --checkpoint-dir that all hosts have under "
                       "the same path, as on NFS");
  return true;
}

std::optional<std::string>
Cluster::open(const Credentials& authority,
              const std::function<std::string()>& stop,
              const std::function<void(const std::string&)>& note) {
  stop_ = stop;
  note_ = note;
  signer_ = std::make_shared<MemberSigner>(authority);
  make_links();
  if (elastic_)
    elastic_->use(links_);
  pulse_ = std::thread{[this] { pulse(); }};
  if (!meet())
    return {};
  for (size_t host = 0; host < links_.size(); ++host)
    if (takes_part(host))
      check_clock(*links_[host]);
  auto coordinator = settle_addresses();
  if (!try_ways(coordinator) || (!shared_.empty() && !try_folder()))
    return {};
  if (elastic_)
    begin_elastic();
  for (size_t host = 0; host < links_.size(); ++host)
    if (takes_part(host) && note)
      note(links_[host]->name() + " (" + links_[host]->address() + "): "
           + to_string(elastic_ ? elastic_->pool().on(host)
                                : placement_.on(host)));
  return coordinator;
}

std::shared_ptr<HostProcesses> Cluster::of(RoleId role) {
  if (elastic_)
    return elastic_;
  const std::lock_guard guard{mutex_};
  return links_.at(placement_.host_of(role));
}

/// Each role has a slot: a host that is lost has none any more, one that has
/// lost a role has one fewer, and one with slots to spare makes up for it.
uint32_t Cluster::devices_left(RoleId gone) {
  std::vector<bool> stays;
  for (const auto& link : links_)
    stays.push_back(link->stays());
  Names lost;
  std::unique_lock guard{mutex_};
  auto& hosts = left_ = placement_.hosts();
  uint32_t slots = 0;
  for (size_t host = 0; host < hosts.size(); ++host) {
    if (!stays[host]) {
      if (placement_.used(host))
        lost.push_back(hosts[host].name);
      hosts[host].slots = 0;
    } else if (placement_.host_of(gone) == host) {
      --hosts[host].slots;
    }
    slots += hosts[host].slots;
  }
  devices_ = std::min(devices_, slots);
  guard.unlock();
  for (const auto& name : lost)
    say(name + " is lost: it gets no role any more, also where it comes back");
  return devices_;
}

void Cluster::place(const Plan& plan) {
  {
    const std::lock_guard guard{mutex_};
    plan_ = plan;
    placement_ = Placement{left_};
    std::string mistake;
    if (!placement_.place(plan_, mistake))
      throw InputError(mistake);
  }
  for (size_t host = 0; host < links_.size(); ++host)
    if (placement_.used(host))
      say(links_[host]->name() + " (" + links_[host]->address()
          + "): " + to_string(placement_.on(host)));
}

std::map<RoleId, std::string> Cluster::places() {
  std::map<RoleId, std::string> out;
  std::optional<HostPool> pool;
  if (elastic_)
    pool = elastic_->pool();
  const std::lock_guard guard{mutex_};
  for (size_t host = 0; host < links_.size(); ++host)
    for (auto role : pool ? pool->on(host) : placement_.on(host))
      out[role] = links_[host]->name();
  return out;
}

/// First all clocks, as answers wait behind what others bring.
bool Cluster::bring_flights() {
  using Clock = std::chrono::steady_clock;
  const auto wait = [&](auto over, milliseconds deadline) {
    const auto end = Clock::now() + deadline;
    while (!std::ranges::all_of(links_, over) && Clock::now() < end)
      std::this_thread::sleep_for(look_period);
  };
  for (const auto& link : links_)
    link->ask_clock();
  wait(&AgentLink::knows_clock, clocks_deadline);
  for (const auto& link : links_)
    link->bring_flights();
  wait(&AgentLink::has_brought, flights_deadline);
  bool all = true;
  for (const auto& link : links_)
    all = link->has_brought_all() && all;
  return all;
}

void Cluster::pause(bool stands) {
  for (const auto& link : links_)
    link->pause(stands);
}

void Cluster::revoked(const MemberName& name, int64_t until) {
  signer_->revoked(name, until);
}

void Cluster::end() {
  {
    const std::lock_guard guard{mutex_};
    seeks_hosts_ = false;
  }
  for (const auto& link : links_)
    link->end();
  processes_->wait_all(static_cast<uint64_t>(end_deadline.count()));
}

void Cluster::pulse() {
  std::unique_lock guard{mutex_};
  while (!changed_.wait_for(guard, pulse_period, [&] { return over_; })) {
    guard.unlock();
    for (const auto& link : links_)
      link->pulse();
    guard.lock();
    const bool seeks = seeks_hosts_ && !over_;
    guard.unlock();
    if (seeks)
      look_for_hosts();
    guard.lock();
  }
}

} // namespace troupe
