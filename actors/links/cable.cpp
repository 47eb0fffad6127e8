#include "actors/links/cable.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

namespace troupe {
namespace {

/// One may have been lost on a cable that works.
constexpr int unanswered_tries = 2;

} // namespace

bool is_cut(int descriptor, std::chrono::milliseconds patience) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
    return false;
  // On an idle connection the system's own probes count.
  const int tries = info.tcpi_retransmits + info.tcpi_probes;
  const auto silent_ms = std::min(info.tcpi_last_ack_recv,
                                  info.tcpi_last_data_recv);
  return info.tcpi_state == TCP_ESTABLISHED && tries >= unanswered_tries
         && std::chrono::milliseconds{silent_ms} >= patience;
}

void reset_cable(int descriptor) {
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  ::connect(descriptor, &nobody, sizeof nobody);
}

std::string no_answer(std::chrono::milliseconds patience) {
  const auto tenths = patience.count() / 100;
  return "has not answered for " + std::to_string(tenths / 10) + '.'
         + std::to_string(tenths % 10) + " s";
}

} // namespace troupe
