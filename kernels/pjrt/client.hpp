#pragma once

#include "kernels/engine/replica.hpp"
#include "kernels/pjrt/plugin.hpp"
#include "kernels/stablehlo/program.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace troupe::kernels::pjrt {

class Client;

/// A tensor in a device's memory. Owner: whoever has it; its client outlives
/// it.
class DeviceTensor {
public:
  DeviceTensor() = default;
  DeviceTensor(std::shared_ptr<Client> client, abi::Buffer* buffer,
               stablehlo::TensorType type);
  DeviceTensor(DeviceTensor&& other) noexcept;
  DeviceTensor& operator=(DeviceTensor&& other) noexcept;
  ~DeviceTensor();

  abi::Buffer* buffer() const { return buffer_; }
  const stablehlo::TensorType& type() const { return type_; }

private:
  std::shared_ptr<Client> client_;
  abi::Buffer* buffer_ = nullptr; ///< null: nothing
  stablehlo::TensorType type_;
};

/// A program, compiled for devices that run it together, a replica on each.
class Executable {
public:
  Executable(Client& client, abi::LoadedExecutable* executable,
             std::vector<stablehlo::TensorType> results, size_t replicas)
    : client_(client),
      executable_(executable),
      results_(std::move(results)),
      replicas_(replicas) {}
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable();

  abi::LoadedExecutable* get() const { return executable_; }
  const std::vector<stablehlo::TensorType>& results() const { return results_; }
  size_t replicas() const { return replicas_; }

private:
  Client& client_;
  abi::LoadedExecutable* executable_;
  std::vector<stablehlo::TensorType> results_;
  size_t replicas_;
};

/// What a replica of a program takes, in order; they outlive the call.
using Arguments = std::vector<const DeviceTensor*>;

/// A plugin's client: its devices, and the programs that were compiled for
/// them. A TPU admits one in a process, so everybody of a process has the same.
/// Any thread may call any of these.
class Client : public std::enable_shared_from_this<Client> {
public:
  /// The client of a plugin that is in use, or a new one.
  /// Errors: those of Plugin::load; InputError where there is no client.
  static std::shared_ptr<Client> of(const std::string& file);
  explicit Client(Plugin plugin);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  const Plugin& plugin() const { return plugin_; }
  const std::string& platform() const { return platform_; } ///< "tpu", "cpu"
  const std::string& platform_version() const { return platform_version_; }
  size_t devices() const { return devices_.size(); }
  std::string device_kind(uint32_t device) const; ///< "TPU v4"

  /// Compiled once for each text and devices, of which replica i has the i-th;
  /// kept.
  /// Errors: std::runtime_error with what the plugin says.
  std::shared_ptr<const Executable>
  compile(const stablehlo::Program& program,
          const std::vector<uint32_t>& devices);
  /// Completion: `data` may be changed when the call returns.
  /// Errors: std::runtime_error.
  DeviceTensor upload(const void* data, const stablehlo::TensorType& type,
                      uint32_t device);
  /// Runs a program: each replica with its arguments, which lie on its device.
  /// Returns each one's results. An argument that was given away, as the
  /// program says, is of no use any more. Completion: in order; download()
  /// waits.
  /// Errors: std::runtime_error.
  std::vector<std::vector<DeviceTensor>>
  run(const Executable& executable, const std::vector<Arguments>& arguments);

  struct Download {
    const DeviceTensor* from;
    void* to; ///< row-major
  };
  /// Completion: all are there when the call returns.
  /// Errors: std::runtime_error, also of the programs that made them.
  void download(const std::vector<Download>& all);

private:
  [[noreturn]] void fail(const char* what, const std::string& message) const;
  void destroy(); ///< the plugin's client
  std::string text_of(abi::Function function) const;
  /// Frees the event. Returns what went wrong; empty: nothing.
  std::string finish(abi::Event* event);
  int device_number(uint32_t device) const;

  Plugin plugin_;
  abi::Client* client_ = nullptr;
  std::string platform_;
  std::string platform_version_;
  std::vector<abi::Device*> devices_;
  std::mutex compiling_;
  std::mutex together_; ///< all devices get programs of several in one order
  std::map<std::pair<std::vector<uint32_t>, std::string>,
           std::shared_ptr<const Executable>>
    compiled_;
};

/// What a program is compiled with: a replica on each device of these numbers.
/// A serialized CompileOptionsProto (xla/pjrt/proto/compile_options.proto).
std::string compile_options(const std::vector<int>& device_numbers);

} // namespace troupe::kernels::pjrt
