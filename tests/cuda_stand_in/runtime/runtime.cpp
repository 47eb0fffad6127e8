#include "tests/cuda_stand_in/runtime/block.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

// The host's API. Work lies on its stream until somebody waits for it, or a
// draw says that it has been done meanwhile: what a program did not wait for it
// does not find.

namespace {

using namespace cuda_stand_in;

/// A piece of work; it throws a Fault. False: it waits for others, and what
/// comes after it on its stream waits too.
using Work = std::shared_ptr<const std::function<bool()>>;

/// Where a stream is to have come to.
struct Mark {
  cudaStream_t stream = nullptr;
  bool passed = false;
};

} // namespace

struct CUstream_st {
  uint32_t device = 0;
  std::deque<Work> waiting;
  std::unique_ptr<CUgraph_st> recording;
  bool recording_failed = false;
  std::thread::id recorder;
};
struct CUgraph_st {
  std::vector<Work> works;
};
struct CUgraphExec_st {
  std::vector<Work> works;
};
struct CUevent_st {
  std::shared_ptr<Mark> mark;
};

namespace {

// A version that there is not: what a run leaves behind says what it ran on.
constexpr int runtime_version = 99'000;

struct Settings {
  uint32_t devices = 1;
  int driver = runtime_version;
  size_t memory_mib = 1024;
  uint64_t seed = 0;
  uint64_t fail_malloc = 0;
  uint64_t fail_launch = 0;
  uint64_t fail_nccl = 0;
  std::string fault_once;
  std::string libraries = "full";
  bool pins = true;
  bool keep_going = false;
};

struct Runtime {
  std::mutex mutex;
  Settings settings;
  bool configured = false;
  bool started = false;
  Memory memory;
  Runner runner{memory};
  std::map<const char*, size_t> registered; ///< memory of the host: bytes
  uint64_t mallocs = 0;
  uint64_t launches = 0;
  uint64_t collectives = 0;
  uint64_t drawn = 1;
  std::vector<CUstream_st*> streams; ///< in the order in which they were made
  std::set<CUevent_st*> events;
  std::set<CUgraph_st*> graphs;
  std::set<CUgraphExec_st*> made_graphs;
  std::vector<cudaError_t> lost; ///< of each device what ended it
  std::map<const void*, int> max_shared;
  std::string last_fault;
  uint32_t running = 0; ///< the device whose work runs

  bool knows(cudaStream_t stream) const {
    return std::find(streams.begin(), streams.end(), stream) != streams.end();
  }
};

/// It lives as long as the process, whose statics may still call.
Runtime& runtime() {
  static auto* one = new Runtime;
  return *one;
}

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local int recordings = 0; ///< that this thread has begun

void apply(Settings& settings, const std::string& words) {
  std::istringstream list(words);
  std::string word;
  while (std::getline(list, word, ',')) {
    const auto at = word.find('=');
    const auto name = word.substr(0, at);
    const auto value = at == word.npos ? std::string() : word.substr(at + 1);
    const auto number = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "devices")
      settings.devices = static_cast<uint32_t>(number);
    else if (name == "driver") // 11080: CUDA 11.8
      settings.driver = static_cast<int>(number);
    else if (name == "memory_mib")
      settings.memory_mib = number;
    else if (name == "seed")
      settings.seed = number;
    else if (name == "fail_malloc")
      settings.fail_malloc = number;
    else if (name == "fail_launch")
      settings.fail_launch = number;
    else if (name == "fail_nccl")
      settings.fail_nccl = number;
    else if (name == "fault_once")
      settings.fault_once = value;
    else if (name == "libraries")
      settings.libraries = value;
    else if (name == "pins")
      settings.pins = number != 0;
    else if (name == "keep_going")
      settings.keep_going = number != 0;
    else {
      std::fprintf(stderr, "CUDA_STAND_IN: no setting \"%s\"\n", name.c_str());
      std::abort();
    }
  }
}

void configure_locked(Runtime& r, const std::string& words) {
  apply(r.settings, words);
  r.configured = true;
  r.mallocs = 0;
  r.launches = 0;
  r.collectives = 0;
  r.drawn = r.settings.seed * 2 + 1;
  r.runner.seed(r.settings.seed);
  r.runner.keep_going(r.settings.keep_going);
}

void ready(Runtime& r) {
  if (r.configured)
    return;
  const auto* words = std::getenv("CUDA_STAND_IN");
  configure_locked(r, words == nullptr ? "" : words);
}

void start(Runtime& r) {
  if (r.started)
    return;
  r.memory.start(r.settings.devices, r.settings.memory_mib << 20);
  r.lost.assign(r.settings.devices, cudaSuccess);
  r.started = true;
}

/// Tells whether a fault that was asked for happens in this process.
bool happens(const Runtime& r) {
  if (r.settings.fault_once.empty())
    return true;
  const auto file = open(r.settings.fault_once.c_str(),
                         O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0)
    return false;
  close(file);
  return true;
}

uint64_t draw(Runtime& r) { // xorshift64*
  auto& x = r.drawn;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  return x * 0x2545f4914f6cdd1d >> 32;
}

void lose(Runtime& r, uint32_t device, const Fault& fault) {
  r.lost[device] = fault.status;
  r.last_fault = "cuda:" + std::to_string(device) + ": " + fault.text;
  std::fprintf(stderr, "cuda_stand_in: %s\n", r.last_fault.c_str());
}

/// Runs a stream's first piece of work. False: it is not done yet.
bool run_one(Runtime& r, CUstream_st& stream) {
  const auto work = stream.waiting.front();
  if (r.lost[stream.device] == cudaSuccess) { // else nothing runs on it
    r.running = stream.device;
    try {
      if (!(*work)())
        return false;
    } catch (const Fault& fault) {
      lose(r, stream.device, fault);
    }
  }
  stream.waiting.pop_front();
  return true;
}

void run_until(Runtime& r, const std::shared_ptr<Mark>& mark) {
  while (!mark->passed && r.knows(mark->stream)
         && !mark->stream->waiting.empty() && run_one(r, *mark->stream))
    continue;
}

/// False: work that waits for others is left.
bool run_all(Runtime& r, CUstream_st& stream) {
  if (stream.waiting.empty())
    return true;
  r.memory.open();
  while (!stream.waiting.empty() && run_one(r, stream))
    continue;
  r.memory.close();
  return stream.waiting.empty();
}

void run_device(Runtime& r, uint32_t device) {
  for (auto* stream : r.streams)
    if (stream->device == device)
      run_all(r, *stream);
}

/// Time passes: now and then a stream has done all that it has.
void pass_time(Runtime& r) {
  if (r.streams.empty() || draw(r) % 64 != 0)
    return;
  run_all(r, *r.streams[draw(r) % r.streams.size()]);
}

bool refuses_while_recording(Runtime& r) {
  if (recordings == 0)
    return false;
  for (auto* stream : r.streams)
    if (stream->recording != nullptr
        && stream->recorder == std::this_thread::get_id())
      stream->recording_failed = true;
  return true;
}

/// A call of the API: its status is kept for cudaGetLastError.
template <class F>
cudaError_t call(const F& work) {
  auto& r = runtime();
  const std::lock_guard lock(r.mutex);
  ready(r);
  const auto status = work(r);
  if (status != cudaSuccess)
    last_error = status;
  return status;
}

/// One that needs its device, which may be lost.
template <class F>
cudaError_t device_call(const F& work) {
  return call([&](Runtime& r) {
    if (static_cast<uint32_t>(current_device) >= r.settings.devices)
      return cudaErrorInvalidDevice;
    start(r);
    const auto device = static_cast<uint32_t>(current_device);
    if (r.lost[device] != cudaSuccess)
      return r.lost[device];
    const auto status = work(r);
    return status == cudaSuccess ? r.lost[device] : status;
  });
}

template <class F>
cudaError_t stream_call(cudaStream_t stream, const F& work) {
  return call([&](Runtime& r) {
    // There is no default stream: the product names its own.
    if (!r.knows(stream))
      return cudaErrorInvalidResourceHandle;
    if (r.lost[stream->device] != cudaSuccess)
      return r.lost[stream->device];
    const auto status = work(r);
    return status == cudaSuccess ? r.lost[stream->device] : status;
  });
}

cudaError_t put_until(Runtime& r, CUstream_st& stream,
                      std::function<bool()> run) {
  auto work = std::make_shared<const std::function<bool()>>(std::move(run));
  if (stream.recording != nullptr) {
    stream.recording->works.push_back(std::move(work));
    return cudaSuccess;
  }
  stream.waiting.push_back(std::move(work));
  pass_time(r);
  return cudaSuccess;
}

cudaError_t put(Runtime& r, CUstream_st& stream, std::function<void()> run) {
  return put_until(r, stream, [run = std::move(run)] {
    run();
    return true;
  });
}

/// How much of the host's memory is registered.
enum class Registered : uint8_t { nothing, part, all };

Registered registered(const Runtime& r, const void* at, size_t bytes) {
  const auto* begin = static_cast<const char*>(at);
  auto next = r.registered.upper_bound(begin);
  if (next != r.registered.begin()) {
    const auto& [first, count] = *std::prev(next);
    if (begin + bytes <= first + count)
      return Registered::all;
    if (begin < first + count)
      return Registered::part;
  }
  return next != r.registered.end() && next->first < begin + bytes
           ? Registered::part
           : Registered::nothing;
}

void check_touch(Runtime& r, const void* at, size_t bytes, bool writes) {
  const auto wrong = r.memory.touch(at, bytes, writes, r.running);
  if (wrong.empty())
    return;
  if (!r.settings.keep_going || !r.memory.owns(at))
    throw Fault{cudaErrorIllegalAddress, wrong};
  std::fprintf(stderr, "cuda_stand_in: a copy or a library %s\n",
               wrong.c_str());
}

/// A piece of work says who it is when it fails.
template <class Result>
std::function<Result()> named(const char* name, std::function<Result()> work) {
  return [name = std::string(name), work = std::move(work)] {
    try {
      return work();
    } catch (const Fault& fault) {
      throw Fault{fault.status, name + " " + fault.text};
    }
  };
}

} // namespace

// -- errors and devices -------------------------------------------------------

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorMisalignedAddress:
      return "misaligned address";
    case cudaErrorHostMemoryAlreadyRegistered:
      return "part or all of the requested memory range is already mapped";
    case cudaErrorHostMemoryNotRegistered:
      return "pointer does not correspond to a registered memory region";
    case cudaErrorNotSupported:
      return "operation not supported";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetLastError() {
  const auto status = last_error;
  last_error = cudaSuccess;
  return status;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = runtime_version;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  return call([&](Runtime& r) {
    *version = r.settings.driver;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceCount(int* count) {
  return call([&](Runtime& r) {
    if (r.settings.driver < runtime_version)
      return cudaErrorInsufficientDriver;
    *count = static_cast<int>(r.settings.devices);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return call([&](Runtime& r) {
    if (device < 0 || static_cast<uint32_t>(device) >= r.settings.devices)
      return cudaErrorInvalidDevice;
    current_device = device;
    return r.started ? r.lost[device] : cudaSuccess; // of earlier work
  });
}

cudaError_t cudaDeviceReset() {
  return call([&](Runtime& r) {
    start(r);
    const auto device = static_cast<uint32_t>(current_device);
    r.lost[device] = cudaSuccess;
    for (auto* stream : r.streams)
      if (stream->device == device)
        stream->waiting.clear();
    last_error = cudaSuccess;
    return cudaSuccess;
  });
}

// -- memory -------------------------------------------------------------------

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return device_call([&](Runtime& r) {
    *free = r.memory.free_bytes(static_cast<uint32_t>(current_device));
    *total = r.memory.device_bytes();
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return device_call([&](Runtime& r) {
    if (refuses_while_recording(r))
      return cudaErrorStreamCaptureUnsupported;
    *memory = nullptr;
    if (bytes == 0)
      return cudaSuccess;
    if (++r.mallocs == r.settings.fail_malloc && happens(r))
      return cudaErrorMemoryAllocation;
    *memory = r.memory.allocate(static_cast<uint32_t>(current_device), bytes);
    return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaFree(void* memory) {
  return call([&](Runtime& r) {
    if (memory == nullptr)
      return cudaSuccess;
    if (refuses_while_recording(r))
      return cudaErrorStreamCaptureUnsupported;
    start(r);
    if (!r.memory.owns(memory))
      return cudaErrorInvalidValue;
    const auto device = r.memory.place_of(memory);
    if (device == Memory::pinned)
      return cudaErrorInvalidValue;
    run_device(r, device);
    return r.memory.release(device, memory) ? r.lost[device]
                                            : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  return device_call([&](Runtime& r) {
    if (refuses_while_recording(r))
      return cudaErrorStreamCaptureUnsupported;
    *memory = bytes == 0 ? nullptr : r.memory.allocate(Memory::pinned, bytes);
    return bytes != 0 && *memory == nullptr ? cudaErrorMemoryAllocation
                                            : cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* memory) {
  return call([&](Runtime& r) {
    if (memory == nullptr)
      return cudaSuccess;
    start(r);
    for (uint32_t device = 0; device < r.settings.devices; ++device)
      run_device(r, device);
    return r.memory.release(Memory::pinned, memory) ? cudaSuccess
                                                    : cudaErrorInvalidValue;
  });
}

cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned) {
  return device_call([&](Runtime& r) {
    if (refuses_while_recording(r))
      return cudaErrorStreamCaptureUnsupported;
    if (!r.settings.pins)
      return cudaErrorNotSupported;
    if (r.memory.owns(memory)
        || registered(r, memory, bytes) != Registered::nothing)
      return cudaErrorHostMemoryAlreadyRegistered;
    r.registered[static_cast<const char*>(memory)] = bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* memory) {
  return call([&](Runtime& r) {
    start(r);
    for (uint32_t device = 0; device < r.settings.devices; ++device)
      run_device(r, device);
    return r.registered.erase(static_cast<const char*>(memory)) > 0
             ? cudaSuccess
             : cudaErrorHostMemoryNotRegistered;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  return stream_call(stream, [&](Runtime& r) {
    auto on_device = [&](const void* at) {
      return r.memory.owns(at) && r.memory.place_of(at) != Memory::pinned;
    };
    if (kind != cudaMemcpyDefault
        && (on_device(to) != (kind != cudaMemcpyDeviceToHost)
            || on_device(from) != (kind != cudaMemcpyHostToDevice)))
      return cudaErrorInvalidValue;
    const auto* host = !on_device(from) ? from : !on_device(to) ? to : nullptr;
    const auto pinned = host == nullptr || r.memory.owns(host)
                          ? Registered::all
                          : registered(r, host, bytes);
    if (pinned == Registered::part)
      return cudaErrorInvalidValue;
    const bool pageable = pinned == Registered::nothing;
    if (pageable && stream->recording != nullptr) {
      stream->recording_failed = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    // What is pageable has been read, or written, when the call returns.
    std::shared_ptr<std::string> taken;
    if (pageable && from == host)
      taken = std::make_shared<std::string>(static_cast<const char*>(from),
                                            bytes);
    const auto status =
      put(r, *stream, named<void>("a copy", [&r, to, from, bytes, taken] {
            const void* source = taken == nullptr ? from : taken->data();
            if (r.memory.owns(source))
              check_touch(r, source, bytes, false);
            if (r.memory.owns(to))
              check_touch(r, to, bytes, true);
            memmove(to, source, bytes);
          }));
    if (pageable && to == host)
      run_all(r, *stream);
    return status;
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes,
                            cudaStream_t stream) {
  return stream_call(stream, [&](Runtime& r) {
    return put(r, *stream, named<void>("a fill", [&r, to, value, bytes] {
                 check_touch(r, to, bytes, true);
                 memset(to, value, bytes);
               }));
  });
}

// -- streams and events -------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return device_call([&](Runtime& r) {
    auto made = std::make_unique<CUstream_st>();
    made->device = static_cast<uint32_t>(current_device);
    *stream = made.release();
    r.streams.push_back(*stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([&](Runtime& r) {
    if (!r.knows(stream))
      return cudaErrorInvalidResourceHandle;
    run_all(r, *stream);
    std::erase(r.streams, stream);
    delete stream;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  bool done = false;
  for (;;) {
    const auto status = stream_call(stream, [&](Runtime& r) {
      if (stream->recording != nullptr) {
        stream->recording_failed = true;
        return cudaErrorStreamCaptureUnsupported;
      }
      done = run_all(r, *stream);
      return cudaSuccess;
    });
    if (done || status != cudaSuccess)
      return status;
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  }
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return device_call([&](Runtime& r) {
    *event = new CUevent_st;
    r.events.insert(*event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([&](Runtime& r) {
    if (r.events.erase(event) == 0)
      return cudaErrorInvalidResourceHandle;
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return stream_call(stream, [&](Runtime& r) {
    if (r.events.count(event) == 0)
      return cudaErrorInvalidResourceHandle;
    if (stream->recording != nullptr) { // no stream of the product's forks
      stream->recording_failed = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    auto mark = std::make_shared<Mark>(Mark{stream, false});
    event->mark = mark;
    return put(r, *stream, [mark] { mark->passed = true; });
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned) {
  return stream_call(stream, [&](Runtime& r) {
    if (r.events.count(event) == 0)
      return cudaErrorInvalidResourceHandle;
    if (stream->recording != nullptr) {
      stream->recording_failed = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    if (event->mark == nullptr)
      return cudaSuccess;
    const auto device = stream->device;
    return put(r, *stream, [&r, mark = event->mark, device] {
      run_until(r, mark);
      r.running = device;
    });
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&](Runtime& r) {
    if (r.events.count(event) == 0)
      return cudaErrorInvalidResourceHandle;
    const auto mark = event->mark;
    if (mark == nullptr || mark->passed || !r.knows(mark->stream))
      return cudaSuccess;
    const auto device = mark->stream->device;
    r.memory.open();
    run_until(r, mark);
    r.memory.close();
    if (r.lost[device] != cudaSuccess)
      return r.lost[device];
    return mark->passed ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const auto before = last_error; // that an event is not there yet is none
  for (;;) {
    const auto status = cudaEventQuery(event);
    if (status != cudaErrorNotReady)
      return status;
    last_error = before;
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  }
}

// -- graphs -------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return stream_call(stream, [&](Runtime&) {
    if (stream->recording != nullptr)
      return cudaErrorStreamCaptureUnsupported;
    stream->recording = std::make_unique<CUgraph_st>();
    stream->recording_failed = false;
    stream->recorder = std::this_thread::get_id();
    ++recordings;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call([&](Runtime& r) {
    *graph = nullptr;
    if (!r.knows(stream))
      return cudaErrorInvalidResourceHandle;
    if (stream->recording == nullptr
        || stream->recorder != std::this_thread::get_id())
      return cudaErrorInvalidValue;
    --recordings;
    auto recorded = std::move(stream->recording);
    if (stream->recording_failed)
      return cudaErrorStreamCaptureInvalidated;
    *graph = recorded.release();
    r.graphs.insert(*graph);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph,
                                 unsigned long long) {
  return device_call([&](Runtime& r) {
    if (r.graphs.count(graph) == 0)
      return cudaErrorInvalidValue;
    *made = new CUgraphExec_st{graph->works};
    r.made_graphs.insert(*made);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&](Runtime& r) {
    if (r.graphs.erase(graph) == 0)
      return cudaErrorInvalidValue;
    delete graph;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  return call([&](Runtime& r) {
    if (r.made_graphs.erase(graph) == 0)
      return cudaErrorInvalidValue;
    delete graph;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return stream_call(stream, [&](Runtime& r) {
    if (r.made_graphs.count(graph) == 0 || stream->recording != nullptr)
      return cudaErrorInvalidValue;
    stream->waiting.insert(stream->waiting.end(), graph->works.begin(),
                           graph->works.end());
    pass_time(r);
    return cudaSuccess;
  });
}

// -- launches, libraries, tests -----------------------------------------------

namespace cuda_stand_in {

cudaError_t set_max_shared(const void* kernel, int bytes) {
  return call([&](Runtime& r) {
    if (bytes < 0 || static_cast<size_t>(bytes) > Memory::shared_bytes)
      return cudaErrorInvalidValue;
    r.max_shared[kernel] = bytes;
    return cudaSuccess;
  });
}

void submit(const char* name, const void* address, const Configuration& how,
            void (*run)(const void*), const void* arguments, size_t bytes) {
  stream_call(how.stream, [&](Runtime& r) {
    const auto& grid = how.grid;
    const auto& block = how.block;
    const auto threads = uint64_t{block.x} * block.y * block.z;
    const auto blocks = uint64_t{grid.x} * grid.y * grid.z;
    if (blocks == 0 || threads == 0 || threads > 1024 || block.z > 64
        || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
      return cudaErrorInvalidConfiguration;
    const auto raised = r.max_shared.find(address);
    const size_t most = raised == r.max_shared.end()
                          ? size_t{48} << 10
                          : static_cast<size_t>(raised->second);
    if (how.shared_bytes > most)
      return cudaErrorInvalidValue;
    Kernel kernel;
    kernel.name = name;
    kernel.run = run;
    kernel.arguments.resize(bytes / sizeof(std::max_align_t) + 1);
    memcpy(kernel.arguments.data(), arguments, bytes);
    kernel.argument_bytes = bytes;
    kernel.grid = grid;
    kernel.block = block;
    kernel.shared_bytes = how.shared_bytes;
    kernel.device = how.stream->device;
    return put(r, *how.stream, [&r, kernel = std::move(kernel)] {
      if (++r.launches == r.settings.fail_launch && happens(r))
        throw Fault{cudaErrorLaunchFailure,
                    "kernel " + kernel.name + " fails, as it was asked to"};
      r.runner.run(kernel);
    });
  });
}

cudaError_t enqueue(cudaStream_t stream, const char* name,
                    std::function<void()> work) {
  return stream_call(stream, [&](Runtime& r) {
    return put(r, *stream, named<void>(name, std::move(work)));
  });
}

cudaError_t enqueue_until(cudaStream_t stream, const char* name,
                          std::function<bool()> work) {
  return stream_call(stream, [&](Runtime& r) {
    return put_until(r, *stream, named<bool>(name, std::move(work)));
  });
}

void will_read(const void* at, size_t bytes) {
  check_touch(runtime(), at, bytes, false);
}

void will_write(void* at, size_t bytes) {
  check_touch(runtime(), at, bytes, true);
}

std::string last_fault() {
  auto& r = runtime();
  const std::lock_guard lock(r.mutex);
  return r.last_fault;
}

void configure(const std::string& words) {
  auto& r = runtime();
  const std::lock_guard lock(r.mutex);
  ready(r);
  configure_locked(r, words);
}

bool collective_fails() {
  auto& r = runtime();
  const std::lock_guard lock(r.mutex);
  ready(r);
  return ++r.collectives == r.settings.fail_nccl && happens(r);
}

std::string libraries() {
  auto& r = runtime();
  const std::lock_guard lock(r.mutex);
  ready(r);
  return r.settings.libraries;
}

} // namespace cuda_stand_in
