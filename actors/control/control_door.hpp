#pragma once

#include "actors/certificates/certificate_desk.hpp"
#include "actors/certificates/tls_context.hpp"
#include "actors/control/guest_list.hpp"
#include "actors/control/vetted_connections.hpp"
#include "actors/sockets/door_budget.hpp"
#include "actors/sockets/io_loop.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace troupe {

/// What a connection to another host may be silent for.
inline constexpr std::chrono::milliseconds usual_patience{3'000};

/// Prepares a connected socket of the control port: no delay, and an end where
/// another host has not taken for so long what it was sent, of this host after
/// 10 s.
void prepare_control(int socket, std::chrono::milliseconds patience);

/// Listens at a process's control port in CAF's place: a connection that has
/// not shown a certificate of the job is none of CAF's business. Who is let in,
/// who is too late and who has to go is GuestList's to say, and DoorBudget's
/// how many are heard at all. Who asks for a certificate is answered here, and
/// goes. On the loop's thread, but for the constructor.
class ControlDoor {
public:
  /// Whose certificate was refused, or who refused this one.
  using OnStranger =
    std::function<void(const std::string& from, const std::string& why)>;

  /// Errors: InputError with the system's reason.
  ControlDoor(IoLoop& loop, std::shared_ptr<const TlsContext> tls,
              const std::string& host, uint16_t port,
              std::shared_ptr<VettedConnections> vetted, OnStranger on_stranger,
              std::shared_ptr<CertificateDesk> desk = nullptr,
              std::chrono::milliseconds patience = usual_patience);
  ~ControlDoor();
  ControlDoor(const ControlDoor&) = delete;
  ControlDoor& operator=(const ControlDoor&) = delete;

  const std::string& host() const { return host_; } ///< in digits
  uint16_t port() const { return port_; }

  void open();

private:
  using Id = GuestList::Id;
  struct Guest {
    VettedConnection connection;
    std::string network;
    DoorBudget::Cost cost{}; ///< so far, as the budget knows it
    bool asks = false;       ///< for a certificate
    std::string heard;       ///< so far
    bool asked = false;      ///< all of it
    std::string answer;      ///< empty: not known yet
    uint64_t watch = 0;
    uint32_t events = 0;
  };

  void accept_some();
  bool accept_one();
  Guest& admit(Descriptor made);
  void go_on(Id id);
  void charge(Id id, Guest& guest);
  bool advance(Id id, Guest& guest);
  bool let_in(Id id);
  bool hear(Id id, Guest& guest);
  void ask(Id id, Guest& guest);
  void answered(Id id, const std::string& answer);
  bool wait_or_drop(Id id, Guest& guest, int result);
  void wait_for(Id id, Guest& guest, uint32_t events);
  void drop(Id id);
  void pause(IoLoop::Clock::time_point until);
  void rest();
  void queue(bool crowded);
  void settle();

  IoLoop& loop_;
  std::shared_ptr<const TlsContext> tls_;
  std::shared_ptr<VettedConnections> vetted_;
  const std::chrono::milliseconds patience_;
  std::string host_;
  uint16_t port_ = 0;
  Descriptor door_;
  uint64_t watch_ = 0;
  uint64_t timer_ = 0;
  uint64_t pause_ = 0;
  GuestList list_;
  DoorBudget budget_;
  bool crowded_ = false;
  OnStranger on_stranger_;
  std::shared_ptr<CertificateDesk> desk_;
  std::unordered_map<Id, Guest> guests_;
  /// Answers come on other threads, maybe when the door is gone.
  struct Bell {
    std::mutex mutex;
    ControlDoor* door = nullptr;
  };
  std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
};

} // namespace troupe
