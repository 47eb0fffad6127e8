#include "apps/launch/node_agent.hpp"

#include "actors/certificates/member_signer.hpp"
#include "actors/control/reach.hpp"
#include "actors/launch/local_processes.hpp"
#include "actors/process/brought_flight.hpp"
#include "actors/process/own_process.hpp"
#include "actors/sockets/endpoint.hpp"
#include "actors/wire/version.hpp"
#include "apps/launch/brought_memory.hpp"
#include "apps/launch/trial_door.hpp"
#include "apps/process/program_image.hpp"
#include "apps/process/run_folder.hpp"
#include "apps/settings/checks.hpp"
#include "apps/terminal/interrupt.hpp"
#include "kernels/base/error.hpp"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

/// A launcher says every second that it is there.
constexpr std::chrono::seconds silence_deadline{30};
/// How long a way may take: a packet that is dropped is sent again by then.
constexpr std::chrono::milliseconds way_deadline{2'500};
constexpr uint64_t end_deadline_ms = 1'000;
/// Characters of a recorder's file that a line has.
constexpr size_t part_of_flight = size_t{1} << 18;
/// How soon a signal is heard of.
constexpr int look_ms = 100;

/// Writes a line at once, from any thread.
class Report {
public:
  void operator()(const Json& message) {
    const auto text =
      message.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
    const std::lock_guard guard{mutex_};
    for (size_t done = 0; done < text.size();) {
      const auto count = ::write(STDOUT_FILENO, text.data() + done,
                                 text.size() - done);
      if (count <= 0 && errno != EINTR)
        leave(); // nobody reads any more
      done += count > 0 ? static_cast<size_t>(count) : 0;
    }
  }

  /// Children die with this process; a thread may be waiting to write.
  [[noreturn]] static void leave() { std::_Exit(1); }

private:
  std::mutex mutex_;
};

int64_t unix_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
           std::chrono::system_clock::now().time_since_epoch())
    .count();
}

/// "10.0.0.1 51234 10.0.0.2 22": by whom, and where, sshd was reached.
std::vector<std::string> words_of_ssh() {
  std::vector<std::string> words(4);
  if (const auto* text = std::getenv("SSH_CONNECTION")) {
    std::istringstream in{text};
    for (auto& word : words)
      in >> word;
  }
  return words;
}

/// Certificates of roles, in memory that they read below /proc.
class RoleFiles {
public:
  /// Errors: std::runtime_error with the system's reason.
  void write(const MemberName& name, const std::string& text) {
    const std::lock_guard guard{mutex_};
    auto& file = files_[name];
    if (!file) {
      file.reset(::memfd_create(file_stem(name).c_str(), MFD_CLOEXEC));
      if (file)
        ::fchmod(file.get(), 0600);
    }
    if (!file
        || ::pwrite(file.get(), text.data(), text.size(), 0)
             != static_cast<ssize_t>(text.size())
        || ::ftruncate(file.get(), static_cast<off_t>(text.size())) != 0)
      throw std::runtime_error(std::string{"no memory for its certificate: "}
                               + std::strerror(errno));
  }

  std::string path(const MemberName& name) {
    const std::lock_guard guard{mutex_};
    return "/proc/" + std::to_string(::getpid()) + "/fd/"
           + std::to_string(files_.at(name).get());
  }

private:
  std::mutex mutex_;
  std::map<MemberName, Descriptor> files_;
};

/// Empty: the way is open.
std::string line_of(const std::string& place, const Reach& way) {
  if (way.kind == ReachKind::answers)
    return {};
  if (way.kind == ReachKind::not_listening)
    return place
           + " refuses: a firewall rejects the port, or another machine has "
             "that address";
  return way.line;
}

class Agent {
public:
  Agent()
    : processes_(std::make_shared<ChildProcesses>(
      ChildProcesses::Options{image_.descriptor(), false})),
      roles_({processes_, image_.path(),
              [this](const MemberName& name) { return files_.path(name); },
              std::make_shared<RoleDeaths>()}) {}

  int run(const Interrupt& interrupt) {
    greet();
    std::string partial;
    auto heard = Clock::now();
    std::array<char, 65536> bytes{};
    while (!over_) {
      pollfd input{STDIN_FILENO, POLLIN, 0};
      ::poll(&input, 1, look_ms);
      if (!interrupt.reason().empty() && is_done_after_signal()) {
        bring_flights(); // who is gone is not asked
        keeps_ = false;
        break;
      }
      if (input.revents == 0) {
        if (!stands_ && Clock::now() - heard > silence_deadline)
          Report::leave();
        continue;
      }
      const auto count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR)
        continue;
      if (count <= 0)
        Report::leave(); // the launcher has ended, or the way to it
      heard = Clock::now();
      partial.append(bytes.data(), static_cast<size_t>(count));
      for (size_t end = 0; (end = partial.find('\n')) != std::string::npos;) {
        const auto line = partial.substr(0, end);
        partial.erase(0, end + 1);
        obey(Json::parse(line));
      }
    }
    processes_->wait_all(end_deadline_ms);
    if (keeps_ && recorders_)
      recorders_->keep();
    return 0;
  }

private:
  /// A host that goes down tells its agent and their roles at once: these hand
  /// over, and the job may end. Whoever is not told yet is told now, and who
  /// begins later then; by SIGHUP, of which a second one ends nothing at once.
  /// Returns whether there were any and all are gone.
  bool is_done_after_signal() {
    if (!std::exchange(leaves_, true))
      report_({{"is", "leaves"}});
    const std::lock_guard guard{mutex_};
    for (const auto& [id, number] : numbers_)
      if (told_.insert(id).second)
        processes_->signal(static_cast<int>(number), SIGHUP);
    return had_roles_ && numbers_.empty() && wanted_.empty();
  }

  void greet() {
    const auto ssh = words_of_ssh();
    report_({{"is", "here"},
             {"version", std::string{version}},
             {"host", own_process().host},
             {"time_s", unix_ns() / 1'000'000'000},
             {"address", ssh[2]},
             {"client", ssh[0]}});
  }

  void obey(const Json& message) {
    const auto wish = message.at("do").get<std::string>();
    if (wish == "listen")
      listen(message.at("address"));
    else if (wish == "try")
      try_ways(message.at("id"), message.at("at"), message.at("doors"));
    else if (wish == "start")
      ask(message);
    else if (wish == "signed")
      start(message.at("id"), message.at("certificate"));
    else if (wish == "kill")
      kill(message.at("id"));
    else if (wish == "forget")
      roles_.forget(parse_role(message.at("role")));
    else if (wish == "look")
      look_at(message.at("path"));
    else if (wish == "memory")
      bring_memory_of(parse_role(message.at("role")), message.at("id"));
    else if (wish == "alive")
      report_({{"is", "alive"}});
    else if (wish == "clock")
      report_({{"is", "clock"}, {"unix_ns", unix_ns()}});
    else if (wish == "flights")
      bring_flights();
    else if (wish == "pause")
      processes_->pause(stands_ = message.at("stands"));
    else if (wish == "end") {
      over_ = true;
      keeps_ = message.at("keep");
    }
  }

  /// All files of recorders, in parts that lines have room for.
  void bring_flights() {
    std::error_code failure;
    std::filesystem::directory_iterator files;
    if (recorders_)
      files = std::filesystem::directory_iterator{recorders_->path(), failure};
    for (const auto& entry : files)
      if (entry.path().extension() == ".flight")
        try {
          const auto text = text_of_flight(entry.path().string());
          for (size_t at = 0; at < text.size(); at += part_of_flight)
            report_({{"is", "flight"},
                     {"name", entry.path().filename().string()},
                     {"last", at + part_of_flight >= text.size()},
                     {"text", text.substr(at, part_of_flight)}});
        } catch (const InputError&) { // its role removes it just now
        }
    report_({{"is", "flights"}});
  }

  /// What recorders keep lies on this host, not where the launcher would have
  /// it.
  void place_recorders(std::vector<std::string>& arguments) {
    const auto flag = std::ranges::find(arguments, "--flight");
    if (flag == arguments.end() || flag + 1 == arguments.end()
        || flag[1] == "none")
      return;
    if (!recorders_)
      folder_of_recorders(recorders_, "node");
    flag[1] = recorders_ ? recorders_->path() : "none";
  }

  void listen(const std::string& host) {
    std::string why;
    try {
      door_.emplace(host);
    } catch (const InputError& refused) {
      why = refused.what();
    }
    report_(
      {{"is", "listens"}, {"at", door_ ? door_->at() : ""}, {"why", why}});
  }

  /// On a thread of its own: roles are started and ended meanwhile.
  void try_ways(uint64_t id, std::vector<std::string> places,
                std::set<std::string> doors) {
    beside([this, id, at = std::move(places), open = std::move(doors)] {
      report_ways(id, at, open);
    });
  }

  /// On one, too: a disk of the network may not answer.
  void look_at(const std::string& path) {
    beside([this, path] {
      const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
      report_({{"is", "looked"}, {"why", file ? "" : std::strerror(errno)}});
    });
  }

  /// Also on one: what is left of a large model takes its time.
  void bring_memory_of(RoleId role, uint64_t id) {
    roles_.tell_memory(role, [this, role, id](const std::string& at) {
      beside([this, role, id, at] {
        bring_memory(to_string(role), at, [this, id](Json message) {
          message["id"] = id;
          report_(message);
        });
      });
    });
  }

  template <class Errand>
  void beside(Errand errand) {
    std::erase_if(errands_, [](const std::future<void>& one) {
      return one.wait_for(std::chrono::seconds{0}) == std::future_status::ready;
    });
    errands_.push_back(std::async(std::launch::async, std::move(errand)));
  }

  /// All at once, on threads of their own: one that drops what it gets would
  /// hold up the others.
  void report_ways(uint64_t id, const std::vector<std::string>& places,
                   const std::set<std::string>& doors) {
    std::vector<std::future<Reach>> ways;
    ways.reserve(places.size());
    for (const auto& place : places)
      ways.push_back(
        std::async(std::launch::async, [place, door = doors.contains(place)] {
          const auto at = parse_endpoint(place).value_or(Endpoint{});
          return door ? reach_with_large_packets(at, way_deadline)
                      : reach_host(at, way_deadline);
        }));
    auto report = Json::array();
    for (size_t i = 0; i < places.size(); ++i) {
      const auto way = ways[i].get();
      report.push_back({{"at", places[i]}, {"why", line_of(places[i], way)}});
    }
    report_({{"is", "tried"}, {"id", id}, {"ways", report}});
  }

  /// A role begins with a key of its own, which is to be signed.
  void ask(const Json& message) {
    const auto id = message.at("id").get<uint64_t>();
    Wanted wanted{{}, MemberRequest{clock_}};
    wanted.order.role = parse_role(message.at("role"));
    wanted.order.paired = message.value("paired", false);
    message.at("coordinator").get_to(wanted.order.coordinator);
    message.at("arguments").get_to(wanted.order.arguments);
    place_recorders(wanted.order.arguments);
    wanted.order.on_line = [this, id](const std::string& line) {
      report_({{"is", "line"}, {"id", id}, {"text", line}});
    };
    wanted.order.on_end = [this, id](const HostProcesses::End& end) {
      {
        const std::lock_guard guard{mutex_};
        if (numbers_.erase(id) == 0)
          ended_.insert(id);
      }
      ended(id, end);
    };
    report_({{"is", "asks"}, {"id", id}, {"request", wanted.key.request()}});
    wanted_.emplace(id, std::move(wanted));
  }

  void ended(uint64_t id, const HostProcesses::End& end) {
    report_({{"is", "ended"},
             {"id", id},
             {"how", end.death.how},
             {"ms", end.death.life.ms},
             {"by_itself", end.death.life.by_itself},
             {"memory", end.death.life.memory},
             {"input", end.death.life.input},
             {"well", end.well},
             {"process", end.process.process}});
  }

  void start(uint64_t id, const std::string& certificate) {
    const auto found = wanted_.find(id);
    if (found == wanted_.end())
      return;
    auto wanted = std::move(found->second);
    wanted_.erase(found);
    try {
      files_.write(wanted.order.name(), wanted.key.complete(certificate));
      const auto number = roles_.start(std::move(wanted.order));
      const std::lock_guard guard{mutex_};
      had_roles_ = true;
      if (ended_.erase(id) == 0)
        numbers_[id] = number;
    } catch (const std::exception& failure) {
      HostProcesses::End end;
      end.death = {failure.what(), {0, true, false}};
      ended(id, end);
    }
  }

  void kill(uint64_t id) {
    if (wanted_.erase(id) > 0) {
      HostProcesses::End end;
      end.death.how = "ended before it was started";
      ended(id, end);
    }
    const std::lock_guard guard{mutex_};
    if (const auto found = numbers_.find(id); found != numbers_.end())
      roles_.kill(found->second);
  }

  struct Wanted {
    HostProcesses::Order order;
    MemberRequest key;
  };

  Report report_;
  /// Roles that begin later judge by it, too.
  const CertificateSource clock_{held_clock({})};
  RoleFiles files_;
  ProgramImage image_;
  std::map<uint64_t, Wanted> wanted_; ///< whose keys are not signed yet
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> numbers_; ///< of processes, by id
  std::set<uint64_t> ended_;             ///< before their numbers were known
  std::optional<TrialDoor> door_;
  std::optional<RunFolder> recorders_; ///< of roles here
  bool stands_ = false;
  bool had_roles_ = false;
  std::set<uint64_t> told_; ///< of a signal, by id
  bool leaves_ = false;     ///< it was told to end, and has said so
  bool over_ = false;
  bool keeps_ = true; ///< what recorders have, as nobody has come for it
  std::shared_ptr<ChildProcesses> processes_;
  LocalProcesses roles_;
  std::vector<std::future<void>> errands_; ///< last: they use what is above
};

} // namespace

int play_agent() {
  if (::isatty(STDIN_FILENO) == 1)
    throw UsageError(
      "'troupe node' is what troupe launch starts on a host, and "
      "reads from standard input what to do; run troupe launch "
      "-H HOST:SLOTS -- train …");
  const Interrupt interrupt{true};
  return Agent{}.run(interrupt);
}

} // namespace troupe
