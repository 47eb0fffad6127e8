#pragma once

#include "actors/certificates/member_signer.hpp"
#include "actors/launch/host_processes.hpp"
#include "actors/process/child_processes.hpp"
#include "apps/launch/brought_memory.hpp"
#include "apps/launch/outbox.hpp"

#include <nlohmann/json_fwd.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// How files begin that recorders of other hosts have kept.
inline constexpr const char* brought_prefix = "from-";

/// A host elsewhere, by way of its agent (node_agent.hpp): the standard input
/// and output of a child, ssh's or the agent itself. Both sides write a JSON
/// object a line. To the agent, by "do":
///
///     listen address          opens a port that others may try
///     try    id, at, doors    connects to each HOST:PORT of a list; doors:
///                             which of them were opened to be tried
///     start  id, role, coordinator, arguments
///                             what follows --flight is for it to say, unless
///                             that is "none"
///     signed id, certificate  answers "asks"
///     look   path             whether it can read that file
///     clock                   is answered at once
///     flights                 brings what recorders have
///     memory id, role         brings what it keeps of a role that has ended
///     end    keep             keep: what recorders have stays there
///     kill   id · forget role · pause stands · alive
///
/// and from it, by "is":
///
///     here    version, host, time_s, address, client   it begins
///     listens at | why · tried id, ways · looked why
///     alive                   answers the same
///     clock   unix_ns
///     flight  name, last, text   a part of a file; flights: that was all
///     memory  id, role, bytes    so many will come; part id, role, at,
///                             text: of them; brought id, role: that was all
///     leaves                  it was told to end, and its roles are told
///     asks    id, request     a key for that role was made, and is to be
///                             signed
///     line    id, text · ended id, how, …
///
/// A connection that is lost ends all roles there; the next one that is started
/// connects again. Thread-safe.
class AgentLink : public HostProcesses,
                  public std::enable_shared_from_this<AgentLink> {
public:
  struct Options {
    std::string name; ///< as its user calls the host
    std::vector<std::string> command;
    /// What the host gets where it says that it lacks it; null: it has it.
    std::function<std::shared_ptr<const std::string>()> program;
    /// Why there is no agent, from what was said and how the child ended.
    std::function<std::string(const std::vector<std::string>& said,
                              const std::string& end)>
      why;
    std::string address; ///< of the host; empty: the one it is reached by
    std::shared_ptr<MemberSigner> signer;
    /// For what this host brings and others do.
    std::shared_ptr<BroughtRoom> room = std::make_shared<BroughtRoom>();
    std::string flights; ///< folder for those of that host; empty: none
    /// A line for the run's user; on another thread. May be empty.
    std::function<void(std::string line)> note;
    ChildProcesses* processes = nullptr; ///< outlives all that is started here
    std::chrono::milliseconds deadline{10'000}; ///< to be there
    /// So long an agent that is well says nothing.
    std::chrono::milliseconds quiet{2'500};
  };

  /// What an agent says of itself.
  struct Here {
    std::string version;
    std::string host;      ///< its own name
    int64_t time_s = 0;    ///< Unix time there
    std::string address;   ///< by which ssh reached it; empty: no ssh
    std::string client;    ///< by which it was reached, as it sees that
    double answered_s = 0; ///< Unix time here, when this came
  };
  /// A way from this host to another place; empty `why`: it is open.
  struct Way {
    std::string at;
    std::string why;
  };

  explicit AgentLink(Options options);

  const std::string& name() const { return options_.name; }
  /// Where others reach roles of this host. It has to be here.
  std::string address() const;
  /// Tells an agent without ssh what to use, and which address the coordinator
  /// is reached by from there, where it listens at any.
  void be_reached_at(const std::string& address);
  void reach_coordinator_at(const std::string& address);
  /// What that host is to call a coordinator that listens there.
  std::string coordinator_for(const std::string& coordinator) const;

  /// Connects, unless it is connected, and does not wait.
  void begin();
  /// Whether it is here, or will not be (then `why` is filled).
  bool settled(std::string& why) const;
  std::optional<Here> here() const;
  bool is_here() const;
  /// It is here, and has not said that its roles are to leave.
  bool stays() const;
  /// The program is on its way to it, which takes as long as it takes.
  bool gets_program() const;
  /// How long it has been asked for, and has said nothing; 0: it has.
  std::chrono::milliseconds asked_for() const;
  /// Opens a port there; listens() is empty as long as it has none, or `why`
  /// is filled.
  void listen();
  std::string listens(std::string& why) const;
  /// Asks for the ways to places, of which `doors` were opened by listen() or
  /// are a TrialDoor: large packets are tried there, too. ways() is empty until
  /// that is answered.
  void try_ways(std::vector<std::string> places,
                const std::vector<std::string>& doors);
  std::optional<std::vector<Way>> ways() const;

  /// Asks whether that host can read a file; looked() is none until that is
  /// answered, and then why it cannot, or empty.
  void look(const std::string& path);
  std::optional<std::string> looked() const;

  /// Asks what time it is there, some times; knows_clock() once that is known,
  /// or nobody is there.
  void ask_clock();
  bool knows_clock() const;
  /// Has the files of recorders there written to `flights`, by this machine's
  /// clock, as an agent that leaves does unasked; has_brought() once they are,
  /// or none will come, and has_brought_all() if nothing stayed there.
  void bring_flights();
  bool has_brought() const;
  bool has_brought_all() const;

  uint64_t start(Order order) override;
  void kill(uint64_t number) override;
  void forget(RoleId role) override;
  /// Tells that nothing is where it does not come: its host is lost, or brings
  /// nothing for half a minute, or there is no room for it here.
  void tell_memory(RoleId role,
                   std::function<void(const std::string& at)> tell) override;

  /// To be called every second: tells the agent that somebody is here, and
  /// gives up on one that does not come in time.
  void pulse();
  /// All roles there stand still, or go on. Waits until that is written, for a
  /// moment.
  void pause(bool stands);
  /// Nothing is started from here on; the agent ends when its roles have, a
  /// second later at most.
  void end();

private:
  enum class State { down, starting, here };
  struct Running {
    Order order;
    uint32_t process = 0; ///< there; 0: not started yet
    std::chrono::steady_clock::time_point killed{}; ///< first; none: it was not
    bool away = false; ///< its host, as it was killed
  };

  using Tell = std::function<void(const std::string& at)>;
  /// What is kept of a role there, as it comes.
  struct Memory {
    BroughtMemory file;
    Tell tell; ///< null: it has been told
    std::chrono::steady_clock::time_point heard;
    uint64_t id = 0; ///< of what was asked: answers say it
  };

  void connect();
  void say_clock();
  void take_clock(const nlohmann::json& message);
  void take_flight(const nlohmann::json& message);
  void take_memory(const nlohmann::json& message);
  std::vector<Tell> memories_lost(std::chrono::steady_clock::duration silence);
  void say(const nlohmann::json& message);
  void send_start(uint64_t number);
  void on_line(const std::string& line);
  void on_message(const nlohmann::json& message);
  void hear();
  void on_exit(const ChildProcesses::Exit& exit);
  void keep(std::string word);
  RoleProcess process_of(const Running& running) const;

  const Options options_;
  mutable std::mutex mutex_;
  std::atomic<State> state_ = State::down; ///< written with `mutex_` held
  bool over_ = false;
  int child_ = 0;
  std::chrono::steady_clock::time_point began_;
  std::unique_ptr<Outbox> outbox_;
  std::chrono::steady_clock::time_point heard_{}; ///< the agent
  std::deque<std::string> said_; ///< that was no message, the newest
  bool leaves_ = false;          ///< it said so, over this connection
  bool sent_ = false;            ///< the program, over this connection
  std::string failure_;          ///< why there is no agent
  std::string address_;
  std::string coordinator_host_;
  std::optional<Here> here_;
  std::string listens_;
  std::string not_listening_;
  uint64_t asked_ways_ = 0; ///< how often
  std::optional<std::vector<Way>> ways_;
  std::optional<std::string> looked_;
  bool brought_ = false; ///< flights, over this connection
  bool stays_there_ =
    false; ///< something of recorders does, as far as is known
  std::map<std::string, std::string> parts_; ///< of files, by name
  size_t taken_ = 0;                         ///< files
  int clocks_ = 0;                           ///< answers
  std::chrono::steady_clock::time_point asked_clock_;
  std::chrono::nanoseconds round_trip_{}; ///< the shortest
  int64_t behind_ns_ = 0;                 ///< that host's clock
  std::map<RoleId, Memory> memories_;
  uint64_t memories_asked_ = 0;
  uint64_t next_ = 1;
  std::map<uint64_t, Running> running_;
};

} // namespace troupe
