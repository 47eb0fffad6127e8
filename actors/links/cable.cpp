#include "actors/links/cable.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace troupe {
namespace {

/// One may have been lost on a cable that works.
constexpr int unanswered_tries = 2;

/// Of the kernel's tcp_info, which the C library knows the beginning of.
constexpr size_t bytes_acked_at = 120;
constexpr size_t busy_time_at = 168; ///< microseconds
constexpr size_t rwnd_limited_at = 176;
constexpr size_t known_bytes = 184;

uint64_t number_at(const std::array<std::byte, known_bytes>& info, size_t at) {
  uint64_t out = 0;
  std::memcpy(&out, info.data() + at, sizeof out);
  return out;
}

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

std::optional<CableCounts> cable_counts(int descriptor) {
  std::array<std::byte, known_bytes> all{};
  socklen_t size = all.size();
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, all.data(), &size) != 0
      || size < known_bytes)
    return std::nullopt;
  tcp_info info{};
  std::memcpy(&info, all.data(), std::min(sizeof info, all.size()));
  const auto busy_us = number_at(all, busy_time_at)
                       - number_at(all, rwnd_limited_at);
  return CableCounts{number_at(all, bytes_acked_at),
                     1e-6 * static_cast<double>(busy_us),
                     info.tcpi_retransmits + info.tcpi_probes > 0};
}

double StalledCable::look(const CableCounts& counts,
                          SteadyClock::time_point now) {
  if (!counts.tries_again || counts.delivered_bytes != delivered_
      || since_ == SteadyClock::time_point::min()) {
    delivered_ = counts.delivered_bytes;
    since_ = now;
    return 0;
  }
  return std::chrono::duration<double>(now - since_).count();
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
