#include "apps/launch/agent_link.hpp"

#include "actors/process/brought_flight.hpp"
#include "actors/process/unix_time.hpp"
#include "actors/sockets/addresses.hpp"
#include "actors/sockets/endpoint.hpp"
#include "apps/launch/ssh_words.hpp"
#include "apps/settings/checks.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/shown_text.hpp"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace troupe {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr size_t kept_words = 20;
constexpr int enough_clocks = 8;
constexpr size_t max_word = 300; ///< bytes of what a host says
constexpr std::chrono::milliseconds write_patience{500};
/// Between two parts of what a host brings.
constexpr std::chrono::seconds memory_patience{30};

/// The processor that this program is for, as `uname -m` has it.
#if defined(__x86_64__)
constexpr const char* built_for = "x86_64";
#else
constexpr const char* built_for = "aarch64";
#endif

/// A host may say anything, and what it says is shown.
std::string bounded(std::string text) {
  if (text.size() <= max_word)
    return shown_text(text);
  auto end = max_word;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U)
    --end; // not in the middle of a character
  text.resize(end);
  return shown_text(text) + "…";
}

bool is_plain(unsigned char x) {
  return std::isalnum(x) != 0 || x == '-' || x == '.';
}

std::string any_host_replaced(const std::string& coordinator,
                              const std::string& host) {
  std::string out;
  for (auto place : parse_endpoints(coordinator)) {
    const auto number = SocketAddress::of_number(place.host, 0);
    if (number && number->is_any() && !host.empty())
      place.host = host;
    out += (out.empty() ? "" : ",") + to_string(place);
  }
  return out;
}

} // namespace

AgentLink::AgentLink(Options options)
  : options_(std::move(options)), address_(options_.address) {}

std::string AgentLink::address() const {
  const std::lock_guard guard{mutex_};
  return !address_.empty() || !here_ ? address_ : here_->address;
}

void AgentLink::be_reached_at(const std::string& address) {
  const std::lock_guard guard{mutex_};
  address_ = address;
}

void AgentLink::reach_coordinator_at(const std::string& address) {
  const std::lock_guard guard{mutex_};
  coordinator_host_ = address;
}

std::string AgentLink::coordinator_for(const std::string& coordinator) const {
  const std::lock_guard guard{mutex_};
  return any_host_replaced(coordinator, coordinator_host_);
}

void AgentLink::begin() {
  const std::lock_guard guard{mutex_};
  if (state_ == State::down && !over_)
    connect();
}

/// `mutex_` is held.
void AgentLink::connect() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw InputError(options_.name + ": no pipe to its agent ("
                     + std::strerror(errno) + ")");
  Descriptor read{ends[0]};
  outbox_ = std::make_unique<Outbox>(Descriptor{ends[1]});
  state_ = State::starting;
  said_.clear();
  sent_ = false;
  failure_.clear();
  here_.reset();
  leaves_ = false;
  listens_.clear();
  not_listening_.clear();
  ways_.reset();
  looked_.reset();
  brought_ = false;
  began_ = Clock::now();
  const std::weak_ptr<AgentLink> own = weak_from_this();
  child_ = options_.processes->start(
    options_.command, -1,
    [own](const std::string& line) {
      if (const auto link = own.lock())
        link->on_line(line);
    },
    [own](const ChildProcesses::Exit& exit) {
      if (const auto link = own.lock())
        link->on_exit(exit);
    },
    read.get());
}

bool AgentLink::settled(std::string& why) const {
  const std::lock_guard guard{mutex_};
  why = failure_;
  return state_ == State::here || !failure_.empty();
}

std::optional<AgentLink::Here> AgentLink::here() const {
  const std::lock_guard guard{mutex_};
  return here_;
}

bool AgentLink::is_here() const {
  return state_ == State::here;
}

/// `mutex_` is held.
void AgentLink::say(const Json& message) {
  if (outbox_)
    outbox_->put(message.dump(-1, ' ', false, Json::error_handler_t::replace)
                 + '\n');
}

void AgentLink::listen() {
  const auto where = address();
  const std::lock_guard guard{mutex_};
  listens_.clear();
  not_listening_.clear();
  say({{"do", "listen"}, {"address", where}});
}

std::string AgentLink::listens(std::string& why) const {
  const std::lock_guard guard{mutex_};
  why = not_listening_;
  return listens_;
}

bool AgentLink::stays() const {
  const std::lock_guard guard{mutex_};
  return state_ == State::here && !leaves_;
}

bool AgentLink::gets_program() const {
  const std::lock_guard guard{mutex_};
  return state_ == State::starting && sent_;
}

std::chrono::milliseconds AgentLink::asked_for() const {
  const std::lock_guard guard{mutex_};
  if (state_ != State::starting || sent_)
    return {};
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now()
                                                               - began_);
}

void AgentLink::try_ways(std::vector<std::string> places,
                         const std::vector<std::string>& doors) {
  places.insert(places.end(), doors.begin(), doors.end());
  const std::lock_guard guard{mutex_};
  ways_.reset();
  say({{"do", "try"}, {"id", ++asked_ways_}, {"at", places}, {"doors", doors}});
}

std::optional<std::vector<AgentLink::Way>> AgentLink::ways() const {
  const std::lock_guard guard{mutex_};
  return ways_;
}

void AgentLink::look(const std::string& path) {
  const std::lock_guard guard{mutex_};
  looked_.reset();
  say({{"do", "look"}, {"path", path}});
}

std::optional<std::string> AgentLink::looked() const {
  const std::lock_guard guard{mutex_};
  return looked_;
}

void AgentLink::ask_clock() {
  const std::lock_guard guard{mutex_};
  clocks_ = 0;
  say_clock();
}

bool AgentLink::knows_clock() const {
  const std::lock_guard guard{mutex_};
  return clocks_ == enough_clocks || state_ != State::here;
}

/// `mutex_` is held.
void AgentLink::say_clock() {
  asked_clock_ = Clock::now();
  say({{"do", "clock"}});
}

/// The quickest answer tells best. `mutex_` is held.
void AgentLink::take_clock(const Json& message) {
  constexpr int64_t furthest_ns = int64_t{1} << 61;
  if (clocks_ == enough_clocks)
    return;
  const std::chrono::nanoseconds round_trip{Clock::now() - asked_clock_};
  const auto there = std::clamp(message.at("unix_ns").get<int64_t>(),
                                int64_t{0}, furthest_ns);
  if (clocks_ == 0 || round_trip < round_trip_) {
    const std::chrono::nanoseconds here{
      std::chrono::system_clock::now().time_since_epoch()};
    round_trip_ = round_trip;
    behind_ns_ = (here - round_trip / 2).count() - there;
  }
  if (++clocks_ < enough_clocks)
    say_clock();
}

void AgentLink::bring_flights() {
  const std::lock_guard guard{mutex_};
  brought_ = state_ != State::here;
  say({{"do", "flights"}});
}

bool AgentLink::has_brought() const {
  const std::lock_guard guard{mutex_};
  return brought_ || state_ != State::here;
}

bool AgentLink::has_brought_all() const {
  const std::lock_guard guard{mutex_};
  return !stays_there_ && (brought_ || !here_);
}

/// A host may say anything. `mutex_` is held.
void AgentLink::take_flight(const Json& message) {
  constexpr size_t most_files = 4'096;
  constexpr size_t most_at_once = 16;
  constexpr size_t longest = size_t{1} << 23;
  const auto name = message.at("name").get<std::string>();
  if (options_.flights.empty() || taken_ >= most_files || name.size() > 64
      || (parts_.size() >= most_at_once && !parts_.contains(name))
      || !std::ranges::all_of(name, is_plain) || !name.ends_with(".flight"))
    return;
  auto& text = parts_[name];
  text += message.at("text").get<std::string>();
  if (text.size() <= longest && !message.at("last").get<bool>())
    return;
  const auto whole = std::move(text);
  parts_.erase(name);
  ++taken_;
  auto host = options_.name;
  std::ranges::replace_if(host, std::not_fn(is_plain), '_');
  try { // no role's own recorder is called so
    write_flight(whole,
                 options_.flights + '/' + brought_prefix + host + '-' + name,
                 behind_ns_);
  } catch (const InputError&) {
    stays_there_ = true;
  }
}

uint64_t AgentLink::start(Order order) {
  const std::lock_guard guard{mutex_};
  if (over_)
    throw std::runtime_error(options_.name + ": the run is over");
  const auto number = next_++;
  running_[number] = {std::move(order), 0};
  if (state_ == State::down)
    try {
      connect();
    } catch (...) {
      running_.erase(number);
      throw;
    }
  else if (state_ == State::here)
    send_start(number);
  return number;
}

/// `mutex_` is held, and the agent is here.
void AgentLink::send_start(uint64_t number) {
  const auto& order = running_.at(number).order;
  auto arguments = order.arguments;
  const auto own = address_.empty() ? here_->address : address_;
  if (!own.empty())
    arguments.insert(arguments.end(),
                     {"--listen", to_string(Endpoint{own, 0})});
  say({{"do", "start"},
       {"id", number},
       {"role", to_string(order.role)},
       {"paired", order.paired},
       {"coordinator", any_host_replaced(order.coordinator, coordinator_host_)},
       {"arguments", arguments}});
}

void AgentLink::kill(uint64_t number) {
  std::unique_lock guard{mutex_};
  const auto found = running_.find(number);
  if (found == running_.end())
    return;
  if (state_ == State::here) {
    auto& killed = found->second.killed;
    if (killed == Clock::time_point{})
      killed = Clock::now();
    say({{"do", "kill"}, {"id", number}});
    return;
  }
  const auto on_end = std::move(found->second.order.on_end);
  running_.erase(found);
  guard.unlock();
  End end; // it was not started yet
  end.death.how = options_.name + " has not answered yet";
  end.death.life.away = true;
  if (on_end)
    on_end(end);
}

void AgentLink::tell_memory(RoleId role, Tell tell) {
  std::unique_lock guard{mutex_};
  if (state_ != State::here) {
    guard.unlock();
    tell({});
    return;
  }
  const auto id = ++memories_asked_;
  memories_.insert_or_assign(role, Memory{BroughtMemory{options_.room},
                                          std::move(tell), Clock::now(), id});
  say({{"do", "memory"}, {"role", to_string(role)}, {"id", id}});
}

/// A host may say anything.
void AgentLink::take_memory(const Json& message) {
  std::unique_lock guard{mutex_};
  const auto role = parse_role(message.at("role"));
  const auto is = message.at("is").get<std::string>();
  const auto found = memories_.find(role);
  if (found == memories_.end() || !found->second.tell
      || message.at("id") != found->second.id)
    return; // nobody waits for it
  auto& memory = found->second;
  memory.heard = Clock::now();
  std::string why;
  bool is_news = true;
  try {
    if (is == "memory")
      memory.file.expect(message.at("bytes"));
    else if (is == "part")
      memory.file.add(message.at("at"), message.at("text"));
  } catch (const NoRoomError& failure) { // others have none, either
    why = failure.what();
    is_news = options_.room->is_news();
  } catch (const InputError& failure) {
    why = failure.what();
  }
  if (!why.empty())
    memory.file = BroughtMemory{options_.room};
  if (is != "brought" && why.empty())
    return;
  const auto tell = std::exchange(memory.tell, nullptr);
  const auto at = why.empty() && memory.file.is_whole() ? memory.file.path()
                                                        : std::string{};
  guard.unlock();
  if (!why.empty() && is_news && options_.note)
    options_.note("what " + options_.name + " has kept of " + to_string(role)
                  + " is left there: " + why);
  tell(at);
}

/// Those that nothing has come of for so long. `mutex_` is held; they are to be
/// told without.
std::vector<AgentLink::Tell> AgentLink::memories_lost(Clock::duration silence) {
  std::vector<Tell> out;
  for (auto& [role, memory] : memories_)
    if (memory.tell && Clock::now() - memory.heard >= silence) {
      out.push_back(std::exchange(memory.tell, nullptr));
      memory.file = BroughtMemory{options_.room};
    }
  return out;
}

void AgentLink::forget(RoleId role) {
  const std::lock_guard guard{mutex_};
  memories_.erase(role);
  say({{"do", "forget"}, {"role", to_string(role)}});
}

void AgentLink::pulse() {
  std::unique_lock guard{mutex_};
  if (state_ == State::here) {
    say({{"do", "alive"}});
    const auto late = memories_lost(memory_patience);
    guard.unlock();
    for (const auto& tell : late)
      tell({});
    return;
  }
  if (state_ != State::starting || Clock::now() - began_ < options_.deadline)
    return;
  keep("timed out: nothing within "
       + std::to_string(options_.deadline.count() / 1000) + " s");
  const int child = child_;
  guard.unlock();
  options_.processes->signal(child, SIGKILL);
}

void AgentLink::pause(bool stands) {
  const std::lock_guard guard{mutex_};
  if (state_ != State::here)
    return;
  say({{"do", "pause"}, {"stands", stands}});
  outbox_->drain(write_patience);
}

void AgentLink::end() {
  const std::lock_guard guard{mutex_};
  over_ = true;
  if (!options_.flights.empty() && !brought_ && state_ == State::here) {
    // It would be heard of once all of them are here: who is cut off ends by
    // itself, and keeps them.
    options_.processes->signal(child_, SIGKILL);
    return;
  }
  say({{"do", "end"}, {"keep", options_.flights.empty() || stays_there_}});
}

/// The agent says something: what was killed while it was silent for longer
/// than it may be is known now.
void AgentLink::hear() {
  const std::lock_guard guard{mutex_};
  const auto before = std::exchange(heard_, Clock::now());
  if (state_ != State::here || heard_ - before <= options_.quiet)
    return;
  for (auto& [number, running] : running_)
    if (running.killed != Clock::time_point{} && running.killed >= before)
      running.away = true;
}

void AgentLink::on_line(const std::string& said) {
  auto line = said;
  while (line.ends_with('\r')) // as ssh ends its own
    line.pop_back();
  Json message;
  if (line.starts_with('{'))
    message = Json::parse(line, nullptr, false);
  if (message.is_object() && message.contains("is")) {
    hear();
    try {
      on_message(message);
    } catch (const std::exception& failure) {
      const std::lock_guard guard{mutex_}; // another build's, or no agent's
      keep(bounded(line) + " (" + bounded(failure.what()) + ")");
    }
    return;
  }
  const std::lock_guard guard{mutex_};
  keep(bounded(line));
  if (!line.starts_with(agent_lacks) || !options_.program || !outbox_
      || std::exchange(sent_, true))
    return;
  const auto host_is = line.substr(std::strlen(agent_lacks));
  if (host_is != built_for) {
    keep("the program is for " + std::string{built_for} + ", and the host is "
         + bounded(host_is));
    options_.processes->signal(child_, SIGKILL);
    return;
  }
  began_ = Clock::now() + std::chrono::minutes{5}; // bytes take their time
  outbox_->put(std::string{"send\n"});
  outbox_->put(options_.program());
}

/// `mutex_` is held.
void AgentLink::keep(std::string word) {
  said_.push_back(std::move(word));
  if (said_.size() > kept_words)
    said_.pop_front();
}

RoleProcess AgentLink::process_of(const Running& running) const {
  return {here_ ? here_->host : std::string{}, running.process};
}

void AgentLink::on_message(const Json& message) {
  const auto is = message.at("is").get<std::string>();
  if (is == "memory" || is == "part" || is == "brought")
    return take_memory(message);
  std::unique_lock guard{mutex_};
  if (is == "here") {
    if (state_ != State::starting)
      return; // said once
    Here here;
    here.version = bounded(message.at("version"));
    here.host = bounded(message.at("host"));
    message.at("time_s").get_to(here.time_s);
    message.at("address").get_to(here.address);
    message.at("client").get_to(here.client);
    here.answered_s = unix_seconds();
    here_ = here;
    state_ = State::here;
    for (const auto& [number, running] : running_)
      send_start(number);
    clocks_ = 0;
    if (!options_.flights.empty())
      say_clock();
    return;
  }
  if (is == "alive")
    return;
  if (is == "clock")
    return take_clock(message);
  if (is == "flight")
    return take_flight(message);
  if (is == "flights") {
    brought_ = true;
    return;
  }
  if (is == "leaves") {
    leaves_ = true;
    return;
  }
  if (is == "listens") {
    message.at("at").get_to(listens_);
    not_listening_ = bounded(message.at("why"));
    return;
  }
  if (is == "looked") {
    looked_ = bounded(message.at("why"));
    return;
  }
  if (is == "tried") {
    if (message.at("id").get<uint64_t>() != asked_ways_)
      return; // of ways that were asked for before
    std::vector<Way> ways;
    for (const auto& way : message.at("ways"))
      ways.push_back({way.at("at"), bounded(way.at("why"))});
    ways_ = std::move(ways);
    return;
  }
  const auto found = running_.find(message.at("id").get<uint64_t>());
  if (found == running_.end())
    return;
  auto& running = found->second;
  if (is == "asks") {
    const auto name = running.order.name();
    guard.unlock();
    auto certificate = options_.signer->sign(name, message.at("request"));
    guard.lock();
    say({{"do", "signed"},
         {"id", message.at("id")},
         {"certificate", certificate}});
  } else if (is == "line") {
    const auto on_line = running.order.on_line;
    guard.unlock();
    if (on_line)
      on_line(message.at("text"));
  } else if (is == "ended") {
    End end;
    end.death.how = bounded(message.at("how"));
    message.at("ms").get_to(end.death.life.ms);
    message.at("by_itself").get_to(end.death.life.by_itself);
    message.at("memory").get_to(end.death.life.memory);
    message.at("input").get_to(end.death.life.input);
    end.death.life.away = running.away;
    message.at("well").get_to(end.well);
    message.at("process").get_to(running.process);
    end.process = process_of(running);
    const auto on_end = running.order.on_end;
    running_.erase(found);
    guard.unlock();
    if (on_end)
      on_end(end);
  }
}

/// What was under way there ends with the way to it: an agent that hears
/// nothing more ends its roles.
void AgentLink::on_exit(const ChildProcesses::Exit& exit) {
  std::unique_lock guard{mutex_};
  const bool was_here = state_.exchange(State::down) == State::here;
  child_ = 0;
  stays_there_ = stays_there_ || (was_here && !brought_);
  failure_ = was_here
               ? "the connection to " + options_.name + " ended with "
                   + exit.describe()
                   + (said_.empty() ? "" : ": " + said_.back())
               : options_.why({said_.begin(), said_.end()}, exit.describe());
  auto lost = std::exchange(running_, {});
  const auto memories = memories_lost({});
  auto outbox = std::move(outbox_);
  std::vector<std::pair<Order, End>> ends;
  for (auto& [number, running] : lost) {
    End end;
    end.death.how = was_here ? "its host is lost: " + failure_ : failure_;
    end.death.life.ms = exit.lived_ms;
    end.death.life.by_itself = true;
    end.death.life.beside = !ends.empty();
    end.death.life.away = true;
    end.process = process_of(running);
    ends.emplace_back(std::move(running.order), std::move(end));
  }
  guard.unlock();
  for (const auto& [order, end] : ends)
    if (order.on_end)
      order.on_end(end);
  for (const auto& tell : memories)
    tell({});
}

} // namespace troupe
