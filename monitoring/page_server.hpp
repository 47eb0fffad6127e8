#pragma once

#include "monitoring/page_stream.hpp"
#include "monitoring/web_page.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace troupe {

/// Who may read a page that leaves the host, and how.
struct PageGuard {
  /// Makes the bytes of an accepted socket, which is not owned; null: there is
  /// no memory.
  std::function<std::unique_ptr<PageStream>(int socket)> open = plain_stream;
  std::string token{}; ///< asked for as a bearer's; empty: none is
  /// Told what processor time went to connections that got no page, returns
  /// until when nobody is accepted.
  using Clock = std::chrono::steady_clock;
  std::function<std::optional<Clock::time_point>(std::chrono::nanoseconds)>
    rests_until{};
};

/// Answers GET with pages that are made anew for each, over HTTP/1.1, one
/// request a connection. One thread looks after all connections, so nobody who
/// is slow keeps others waiting: a request has to be there within two seconds,
/// its answer taken within ten more, and of more than 256 connections the one
/// that has been silent longest has to go, never one that is being answered
/// while there are others. A handshake is part of the request. Requests beyond
/// 8 KiB and those with a body are refused.
class PageServer {
public:
  /// Takes over a listening socket.
  /// Errors: std::runtime_error with the system's reason.
  PageServer(int listener, WebPage page, PageGuard guard = {});
  /// Ends at once, whoever is connected.
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  /// Serves one more page from here on. From any thread.
  void add(WebPage page);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace troupe
