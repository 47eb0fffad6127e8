#include "monitoring/page_stream.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace troupe {
namespace {

class PlainStream : public PageStream {
public:
  explicit PlainStream(int socket) : socket_(socket) {}

  ssize_t read(char* into, size_t size) override {
    awaits_ = POLLIN;
    return outcome([&] { return ::recv(socket_, into, size, 0); });
  }
  ssize_t write(const char* from, size_t size) override {
    awaits_ = POLLOUT;
    return outcome([&] { return ::send(socket_, from, size, MSG_NOSIGNAL); });
  }
  short awaits() const override { return awaits_; }
  void end() override { ::shutdown(socket_, SHUT_WR); }

private:
  template <class Call>
  static ssize_t outcome(Call call) {
    for (;;) {
      const auto moved = call();
      if (moved >= 0)
        return moved;
      if (errno != EINTR)
        return errno == EAGAIN ? not_now : 0;
    }
  }

  int socket_;
  short awaits_ = POLLIN;
};

} // namespace

std::unique_ptr<PageStream> plain_stream(int socket) {
  return std::make_unique<PlainStream>(socket);
}

} // namespace troupe
