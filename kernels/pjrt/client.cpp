#include "kernels/pjrt/client.hpp"

#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"

#include <stdexcept>
#include <utility>

namespace troupe::kernels::pjrt {

namespace {

using stablehlo::Element;
using stablehlo::TensorType;

abi::BufferType buffer_type(Element element) {
  switch (element) {
    case Element::f32:
      return abi::BufferType::f32;
    case Element::i32:
      return abi::BufferType::s32;
    case Element::ui64:
      return abi::BufferType::u64;
    case Element::i1:
      return abi::BufferType::pred;
    case Element::bf16:
      break;
  }
  require(false, "a type that no host has");
  return abi::BufferType::f32;
}

size_t bytes_of(const TensorType& type) {
  const size_t one = type.element == Element::ui64 ? 8
                     : type.element == Element::i1 ? 1
                                                   : 4;
  return elements(type.shape) * one;
}

std::vector<int64_t> extents_of(const TensorType& type) {
  return {type.shape.begin(), type.shape.end()};
}

} // namespace

// -- tensors, executables -----------------------------------------------------

DeviceTensor::DeviceTensor(std::shared_ptr<Client> client, abi::Buffer* buffer,
                           TensorType type)
  : client_(std::move(client)), buffer_(buffer), type_(std::move(type)) {}

DeviceTensor::DeviceTensor(DeviceTensor&& other) noexcept
  : client_(std::move(other.client_)),
    buffer_(std::exchange(other.buffer_, nullptr)),
    type_(std::move(other.type_)) {}

DeviceTensor& DeviceTensor::operator=(DeviceTensor&& other) noexcept {
  std::swap(client_, other.client_);
  std::swap(buffer_, other.buffer_);
  std::swap(type_, other.type_);
  return *this;
}

DeviceTensor::~DeviceTensor() {
  if (buffer_ == nullptr)
    return;
  abi::Args<abi::BufferDestroy> args;
  args.buffer = buffer_;
  client_->plugin().quietly(abi::Function::buffer_destroy, args);
}

Executable::~Executable() {
  abi::Args<abi::LoadedExecutableDestroy> args;
  args.executable = executable_;
  client_.plugin().quietly(abi::Function::loaded_executable_destroy, args);
}

// -- the client ---------------------------------------------------------------

std::shared_ptr<Client> Client::of(const std::string& file) {
  static std::mutex mutex;
  static std::map<std::string, Plugin> plugins; // each is started once
  static std::map<std::string, std::weak_ptr<Client>> clients;
  std::lock_guard lock{mutex};
  auto& known = clients[file];
  if (auto client = known.lock())
    return client;
  auto plugin = plugins.find(file);
  if (plugin == plugins.end())
    plugin = plugins.emplace(file, Plugin::load(file)).first;
  auto client = std::make_shared<Client>(plugin->second);
  known = client;
  return client;
}

Client::Client(Plugin plugin) : plugin_(std::move(plugin)) {
  abi::Args<abi::ClientCreate> create;
  if (const auto failure = plugin_.call(abi::Function::client_create, create);
      !failure.empty())
    throw InputError("pjrt:" + plugin_.file()
                     + ": has no devices here: " + failure);
  client_ = create.client;
  platform_ = text_of(abi::Function::client_platform_name);
  platform_version_ = text_of(abi::Function::client_platform_version);
  abi::Args<abi::ClientDevices> devices;
  devices.client = client_;
  if (const auto failure =
        plugin_.call(abi::Function::client_addressable_devices, devices);
      !failure.empty()) {
    destroy(); // else the devices would stay taken
    throw InputError("pjrt:" + plugin_.file()
                     + ": names no devices: " + failure);
  }
  devices_.assign(devices.devices, devices.devices + devices.num_devices);
}

Client::~Client() {
  compiled_.clear();
  destroy();
}

void Client::destroy() {
  abi::Args<abi::ClientDestroy> args;
  args.client = client_;
  plugin_.quietly(abi::Function::client_destroy, args);
}

void Client::fail(const char* what, const std::string& message) const {
  throw std::runtime_error("pjrt:" + plugin_.file() + ": " + what + ": "
                           + message);
}

std::string Client::text_of(abi::Function function) const {
  abi::Args<abi::ClientText> args;
  args.client = client_;
  if (!plugin_.call(function, args).empty())
    return "unknown";
  return {args.text, args.text_size};
}

namespace {

abi::DeviceDescription* description_of(const Plugin& plugin,
                                       abi::Device* device) {
  abi::Args<abi::DeviceGetDescription> args;
  args.device = device;
  plugin.quietly(abi::Function::device_get_description, args);
  return args.description;
}

} // namespace

std::string Client::device_kind(uint32_t device) const {
  abi::Args<abi::DeviceDescriptionText> args;
  args.description = description_of(plugin_, devices_.at(device));
  if (args.description == nullptr
      || !plugin_.call(abi::Function::device_description_kind, args).empty())
    return "unknown";
  return {args.text, args.text_size};
}

int Client::device_number(uint32_t device) const {
  abi::Args<abi::DeviceDescriptionId> args;
  args.description = description_of(plugin_, devices_.at(device));
  if (args.description == nullptr
      || !plugin_.call(abi::Function::device_description_id, args).empty())
    return static_cast<int>(device);
  return args.id;
}

std::shared_ptr<const Executable>
Client::compile(const stablehlo::Program& program,
                const std::vector<uint32_t>& devices) {
  auto key = std::pair{devices, program.text()};
  std::lock_guard lock{compiling_};
  if (const auto found = compiled_.find(key); found != compiled_.end())
    return found->second;
  constexpr std::string_view format = "mlir";
  abi::Args<abi::Program> code;
  code.code = key.second.data();
  code.code_size = key.second.size();
  code.format = format.data();
  code.format_size = format.size();
  std::vector<int> numbers;
  numbers.reserve(devices.size());
  for (auto device : devices)
    numbers.push_back(device_number(device));
  const auto options = compile_options(numbers);
  abi::Args<abi::ClientCompile> args;
  args.client = client_;
  args.program = &code;
  args.options = options.data();
  args.options_size = options.size();
  if (const auto failure = plugin_.call(abi::Function::client_compile, args);
      !failure.empty())
    fail("compiling", failure);
  std::vector<TensorType> results;
  for (const auto& result : program.results())
    results.push_back(result.type);
  auto made = std::make_shared<const Executable>(
    *this, args.executable, std::move(results), devices.size());
  compiled_.emplace(std::move(key), made);
  return made;
}

DeviceTensor Client::upload(const void* data, const TensorType& type,
                            uint32_t device) {
  const auto extents = extents_of(type);
  abi::Args<abi::BufferFromHostBuffer> args;
  args.client = client_;
  args.data = data;
  args.type = buffer_type(type.element);
  args.dims = extents.data();
  args.num_dims = extents.size();
  args.device = devices_.at(device);
  if (const auto failure =
        plugin_.call(abi::Function::client_buffer_from_host_buffer, args);
      !failure.empty())
    fail("an upload", failure);
  DeviceTensor out{shared_from_this(), args.buffer, type};
  if (const auto failure = finish(args.done_with_host_buffer); !failure.empty())
    fail("an upload", failure);
  return out;
}

std::vector<std::vector<DeviceTensor>>
Client::run(const Executable& executable,
            const std::vector<Arguments>& arguments) {
  const auto replicas = executable.replicas();
  require(arguments.size() == replicas, "arguments of each replica");
  std::vector<std::vector<abi::Buffer*>> inputs(replicas);
  std::vector<std::vector<abi::Buffer*>> results(replicas);
  std::vector<abi::Buffer* const*> of_inputs;
  std::vector<abi::Buffer**> of_results;
  for (size_t i = 0; i < replicas; ++i) {
    for (const auto* argument : arguments[i])
      inputs[i].push_back(argument->buffer());
    results[i].resize(executable.results().size());
    of_inputs.push_back(inputs[i].data());
    of_results.push_back(results[i].data());
  }
  abi::Args<abi::ExecuteOptions> options;
  abi::Args<abi::LoadedExecutableExecute> args;
  args.executable = executable.get();
  args.options = &options;
  args.argument_lists = of_inputs.data();
  args.num_devices = replicas;
  args.num_args = inputs.front().size();
  args.output_lists = of_results.data();
  std::unique_lock lock{together_, std::defer_lock};
  if (replicas > 1)
    lock.lock();
  if (const auto failure =
        plugin_.call(abi::Function::loaded_executable_execute, args);
      !failure.empty())
    fail("running a program", failure);
  std::vector<std::vector<DeviceTensor>> out(replicas);
  for (size_t i = 0; i < replicas; ++i)
    for (size_t k = 0; k < results[i].size(); ++k)
      out[i].emplace_back(shared_from_this(), results[i][k],
                          executable.results()[k]);
  return out;
}

void Client::download(const std::vector<Download>& all) {
  std::vector<abi::Event*> events;
  std::string failure;
  for (const auto& [from, to] : all) {
    std::vector<int64_t> inner_first(from->type().shape.size());
    for (size_t i = 0; i < inner_first.size(); ++i)
      inner_first[i] = static_cast<int64_t>(inner_first.size() - 1 - i);
    abi::Args<abi::MemoryLayout> layout;
    layout.tiled.struct_size = sizeof layout.tiled;
    layout.tiled.minor_to_major = inner_first.data();
    layout.tiled.minor_to_major_size = inner_first.size();
    abi::Args<abi::BufferToHostBuffer> args;
    args.source = from->buffer();
    args.host_layout = &layout;
    args.to = to;
    args.to_size = bytes_of(from->type());
    failure = plugin_.call(abi::Function::buffer_to_host_buffer, args);
    if (!failure.empty())
      break;
    events.push_back(args.event);
  }
  // Also where one failed: the others write to the caller's memory.
  for (auto* event : events)
    if (auto late = finish(event); !late.empty() && failure.empty())
      failure = std::move(late);
  if (!failure.empty())
    fail("a download", failure);
}

std::string Client::finish(abi::Event* event) {
  if (event == nullptr)
    return {};
  abi::Args<abi::EventUse> args;
  args.event = event;
  auto failure = plugin_.call(abi::Function::event_await, args);
  plugin_.quietly(abi::Function::event_destroy, args);
  return failure;
}

} // namespace troupe::kernels::pjrt
