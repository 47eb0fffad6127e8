#pragma once

#include "actors/control/guest_list.hpp"
#include "actors/control/vetted_connections.hpp"
#include "actors/links/io_loop.hpp"
#include "actors/links/tls_context.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

namespace troupe {

/// Prepares a connected socket of the control port: no delay, and an end within
/// seconds where the other host is cut off.
void prepare_control(int socket);

/// Listens at a process's control port in CAF's place: a connection that has
/// not shown a certificate of the job is none of CAF's business. Who is let in,
/// who is too late and who has to go is GuestList's to say. On the loop's
/// thread, but for the constructor.
class ControlDoor {
public:
  /// Hears of a host that came with certificates of another authority, a line,
  /// one in ten seconds at most. Of other strangers nothing is said.
  using Tell = std::function<void(const std::string& line)>;

  /// Errors: InputError with the system's reason.
  ControlDoor(IoLoop& loop, std::shared_ptr<const TlsContext> tls,
              const std::string& host, uint16_t port,
              std::shared_ptr<VettedConnections> vetted, Tell tell = {});
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
    uint64_t watch = 0;
    uint32_t events = 0;
  };

  void accept_some();
  bool accept_one();
  void go_on(Id id);
  void wait_for(Id id, Guest& guest, uint32_t events);
  void tell_of(const Guest& guest);
  void drop(Id id);
  void pause();
  void settle();

  IoLoop& loop_;
  std::shared_ptr<const TlsContext> tls_;
  std::shared_ptr<VettedConnections> vetted_;
  Tell tell_;
  IoLoop::Clock::time_point quiet_until_{};
  std::string host_;
  uint16_t port_ = 0;
  Descriptor door_;
  uint64_t watch_ = 0;
  uint64_t timer_ = 0;
  uint64_t pause_ = 0;
  GuestList list_;
  std::unordered_map<Id, Guest> guests_;
};

} // namespace troupe
