#pragma once

#include "actors/sockets/descriptor.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace troupe {

/// Writes what it is given into a pipe, in order, on a thread of its own: who
/// gives it never waits for whoever reads. What nobody reads any more is
/// dropped.
class Outbox {
public:
  explicit Outbox(Descriptor pipe);
  /// Drops what was not written; whoever reads has to be gone, or reads on.
  ~Outbox();
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  void put(std::string text);
  void put(std::shared_ptr<const std::string> text);
  /// Waits until all is written; returns whether it is.
  bool drain(std::chrono::milliseconds deadline);

private:
  void run();
  bool write(const std::string& text);

  Descriptor pipe_;
  Descriptor wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<const std::string>> texts_;
  bool over_ = false;
  std::thread thread_; ///< last: it uses what is above
};

} // namespace troupe
