// ps-lite's side of `troupe bench parameter-server`: a scheduler, a server and
// a worker, three processes on loopback. Its first line says its version; then
// it reads lines "BYTES ITERATIONS" and answers each with "MICROSECONDS WAY":
// the median time of a push that has been answered and of the pull after it,
// of BYTES of float32 values. What was pulled is compared outside the timing.
//
//   ps_lite_push_pull dense   values under a few long keys; the server adds
//   ps_lite_push_pull pairs   a uint64 key for each; the server does nothing,
//                             as in ps-lite's own benchmark
//   ps_lite_push_pull table   the same; the server is KVServerDefaultHandle

#include <arpa/inet.h>
#include <ps/ps.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace {

using ps::Key;
using Clock = std::chrono::steady_clock;
using Server = ps::KVServer<float>;
using Pairs = ps::KVPairs<float>;

/// Long values: adds what is pushed, answers a pull from where it is kept.
struct AddingHandle {
  void operator()(const ps::KVMeta& request, const Pairs& data,
                  Server* server) {
    Pairs answer;
    const auto length = data.keys.empty() ? 0
                                          : data.vals.size() / data.keys.size();
    for (size_t i = 0; request.push && i < data.keys.size(); ++i) {
      auto& kept = store[data.keys[i]];
      if (kept.size() != length)
        kept = ps::SArray<float>(length, 0);
      auto* into = kept.data();
      const auto* from = data.vals.data() + i * length;
      for (size_t k = 0; k < length; ++k)
        into[k] += from[k];
    }
    if (request.pull) {
      answer.keys = data.keys;
      if (data.keys.size() == 1) // without a copy
        answer.vals = store[data.keys[0]];
      else
        for (auto key : data.keys)
          answer.vals.append(store[key]);
    }
    server->Response(request, answer);
  }
  std::map<Key, ps::SArray<float>> store;
};

/// Answers with memory that was there before.
struct IdleHandle {
  void operator()(const ps::KVMeta& request, const Pairs& data,
                  Server* server) {
    Pairs answer;
    if (request.pull) {
      answer.keys = data.keys;
      kept.resize(data.keys.size(), 0);
      answer.vals = kept;
    }
    server->Response(request, answer);
  }
  ps::SArray<float> kept;
};

int free_port() {
  const int one = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  int port = 0;
  if (one >= 0 && bind(one, plain, size) == 0
      && getsockname(one, plain, &size) == 0)
    port = ntohs(address.sin_port);
  close(one);
  return port;
}

void serve(const std::string& way) {
  auto* server = new Server(0);
  if (way == "dense")
    server->set_request_handle(AddingHandle{});
  else if (way == "pairs")
    server->set_request_handle(IdleHandle{});
  else
    server->set_request_handle(ps::KVServerDefaultHandle<float>{});
  ps::RegisterExitCallback([server] { delete server; });
}

class Worker {
public:
  explicit Worker(std::string way) : way_(std::move(way)), worker_(0, 0) {}

  /// Returns false when what was pulled is not what was pushed.
  bool round(uint64_t count, int iterations, double& us, std::string& name) {
    if (count != vals_.size())
      begin(count);
    const auto shapes = way_ == "dense" ? std::vector<size_t>{1, 4, 16}
                                        : std::vector<size_t>{count};
    if (best_ == 0) { // the first round of a size tries each
      double least = 0;
      for (size_t k = 0; k < 2 * shapes.size(); ++k) {
        const auto keys = shapes[k % shapes.size()];
        if (count % keys != 0)
          continue;
        double time = 0;
        if (!measure(keys, iterations, time))
          return false;
        if (best_ == 0 || time < least) {
          least = time;
          best_ = keys;
        }
      }
    }
    name = way_ != "dense" ? way_
           : best_ == 1    ? "1 key"
                           : std::to_string(best_) + " keys";
    return measure(best_, iterations, us);
  }

private:
  void begin(uint64_t count) {
    vals_ = ps::SArray<float>(count);
    pulled_ = ps::SArray<float>(count, 0);
    for (uint64_t i = 0; i < count; ++i)
      vals_[i] = static_cast<float>(i * 0x9e3779b1u >> 24 & 7);
    best_ = 0;
    pushes_.clear();
  }

  bool measure(size_t keys, int iterations, double& us) {
    // Each number of keys has its own part of the server's store.
    const auto step = ps::kMaxKey / 2 / keys;
    ps::SArray<Key> names(keys);
    for (size_t i = 0; i < keys; ++i)
      names[i] = step * i + keys;
    std::vector<double> times;
    for (int k = 0; k < iterations; ++k) {
      const auto begun = Clock::now();
      worker_.Wait(worker_.ZPush(names, vals_));
      worker_.Wait(worker_.ZPull(names, &pulled_));
      times.push_back(
        std::chrono::duration<double, std::micro>(Clock::now() - begun)
          .count());
      const auto factor = static_cast<float>(++pushes_[keys] % (1 << 20));
      if (way_ != "pairs")
        for (size_t i = 0; i < vals_.size(); ++i)
          if (pulled_[i] != factor * vals_[i])
            return false;
    }
    std::sort(times.begin(), times.end());
    us = times[times.size() / 2];
    return true;
  }

  std::string way_;
  ps::KVWorker<float> worker_;
  ps::SArray<float> vals_;
  ps::SArray<float> pulled_;
  size_t best_ = 0; ///< keys
  std::map<size_t, uint64_t> pushes_;
};

int lead(const std::string& way) {
  Worker worker{way};
  std::printf("ps-lite " PS_LITE_VERSION "\n");
  std::fflush(stdout);
  unsigned long long bytes = 0;
  int iterations = 0;
  while (std::scanf("%llu %d", &bytes, &iterations) == 2) {
    double us = 0;
    std::string name;
    if (bytes < sizeof(float) || iterations < 1)
      std::printf("error expected BYTES ITERATIONS\n");
    else if (!worker.round(bytes / sizeof(float), iterations, us, name))
      std::printf("error what was pulled is not what was pushed\n");
    else
      std::printf("%.3f %s\n", us, name.c_str());
    std::fflush(stdout);
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "";
  if (way != "dense" && way != "pairs" && way != "table") {
    std::printf("error usage: ps_lite_push_pull dense|pairs|table\n");
    return 2;
  }
  setenv("DMLC_NUM_WORKER", "1", 1);
  setenv("DMLC_NUM_SERVER", "1", 1);
  setenv("DMLC_PS_ROOT_URI", "127.0.0.1", 1);
  setenv("DMLC_PS_ROOT_PORT", std::to_string(free_port()).c_str(), 1);
  setenv("DMLC_NODE_HOST", "127.0.0.1", 1);
  const char* role = "worker";
  for (const char* other : {"scheduler", "server"})
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      role = other;
      break;
    }
  setenv("DMLC_ROLE", role, 1);
  ps::Start(0);
  int status = 0;
  if (ps::IsServer())
    serve(way);
  if (ps::IsWorker())
    status = lead(way);
  ps::Finalize(0, true);
  if (ps::IsWorker())
    while (wait(nullptr) > 0) {
    }
  return status;
}
